/* The policy `vdnn` (Rhu et al., MICRO 2016; rules of facts/mpress-hippie-pipelines.md D): what layers save goes down after the forward and comes up during the pass before the backward that
 * needs it; compute waits at the end of a layer for its copy down. */
#include "strategies/policies/activation_kit.h"
#include "strategies/policies/policies.h"

enum { P_LAYERS = ACTIVATION_BUDGET + 1, LAYERS_ALL = 0, LAYERS_DYNAMIC };
static const char *const LAYERS[] = { "all", "dynamic", NULL };
static const struct parameter PARAMETERS[] = {
    [ACTIVATION_BUDGET] = ACTIVATION_BUDGET_PARAMETER,
    [P_LAYERS] = { .name = "layers",
                   .type = PARAMETER_WORD,
                   .unit = "",
                   .words = LAYERS,
                   .help = "which layers go down: all, or (dynamic) none when the step fits by estimate without" },
};

static void begin_rank(struct lowering *lowering)
{
    struct activation_rank *rank = activation_begin(lowering);
    uint32_t pass;
    if (rank == NULL) {
        return;
    }
    rank->waits = true;
    bool all = (int)lower_policy_parameter(lowering, P_LAYERS) == LAYERS_ALL || activation_over(rank, 0, &pass);
    for (size_t i = 0; all && i < (size_t)rank->layer_count * rank->micro_batches; i++) {
        struct activation_saving *saving = &rank->savings[i];
        if (rank->layers[saving->layer].kind == LAYER_TRANSFORMER && saving->bytes > 0 &&
            saving->backward > saving->forward + 1) {
            activation_move(rank, saving);
        }
    }
    activation_ready(lowering, rank);
}

const struct memory_policy policy_vdnn = {
    .abi = MEMORY_POLICY_ABI,
    .name = "vdnn",
    .summary = "what layers save goes to host memory after the forward, up during the pass before its backward; "
               "compute waits for copies down",
    .paper = "Rhu et al., MICRO 2016",
    .parameters = PARAMETERS,
    .parameter_count = sizeof PARAMETERS / sizeof PARAMETERS[0],
    .begin_rank = begin_rank,
    .before_pass = activation_before_pass,
    .after_pass = activation_after_pass,
    .streams = true,
};
