/* The policy `resident`: everything lives on the device for the whole step. No hooks: the lowering's defaults. */
#include "strategies/policies/policies.h"

const struct memory_policy policy_resident = {
    .abi = MEMORY_POLICY_ABI,
    .name = "resident",
    .summary = "weights, gradients, optimizer states and activations stay on the device",
    .paper = "",
    .skips_layers = true,
};
