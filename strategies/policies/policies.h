/* The memory policies of this folder, one file each; strategies/registry.c lists them. */
#ifndef MEMWALL_STRATEGIES_POLICIES_H
#define MEMWALL_STRATEGIES_POLICIES_H

#include "sim/plan/policy.h"

extern const struct memory_policy policy_resident, policy_optimizer_on_host;
extern const struct memory_policy policy_zero_offload, policy_zero3_offload, policy_zero_infinity;
extern const struct memory_policy policy_patrickstar;
extern const struct memory_policy policy_vdnn, policy_superneurons, policy_capuchin, policy_swapadvisor, policy_dtr;
extern const struct memory_policy policy_mpress;

#endif
