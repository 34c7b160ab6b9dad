/* The policy `dtr` (dynamic tensor rematerialization, Kirisame et al., ICLR 2021; rules of facts/mpress-hippie-pipelines.md D). Where the budget is exceeded, the layer of least
 * h = cost / (bytes * staleness) is recomputed instead of kept. A layer keeps its input, so no evicted neighbour adds to its cost; a layer is decided once, for all its micro-batches. */
#include <math.h>

#include "strategies/policies/activation_kit.h"
#include "strategies/policies/policies.h"

static const struct parameter PARAMETERS[] = { [ACTIVATION_BUDGET] = ACTIVATION_BUDGET_PARAMETER };

/* Bytes of the layer's savings that recomputing takes off the device at `pass`, and when the latest of them was last used. */
static double evictable_bytes(const struct activation_rank *rank, uint32_t layer, uint32_t pass, double *used_s)
{
    double bytes = 0;
    *used_s = 0;
    for (uint32_t m = 0; m < rank->micro_batches; m++) {
        const struct activation_saving *saving = activation_saving_of(rank, layer, m);
        if (saving->forward < pass && saving->backward > pass) {
            bytes += activation_recompute_bytes(rank, layer);
            *used_s = fmax(*used_s, rank->passes[saving->forward].end_s);
        }
    }
    return bytes;
}

static uint32_t least_h(const struct lowering *lowering, const struct activation_rank *rank, uint32_t pass)
{
    uint32_t victim = SCHED_NONE;
    double least = INFINITY;
    for (uint32_t i = 0; i < rank->layer_count; i++) {
        double used_s, bytes = evictable_bytes(rank, i, pass, &used_s);
        double stale_s = rank->passes[pass].end_s - used_s;
        double h = bytes > 0 && stale_s > 0 ? activation_recompute_s(lowering, rank, i) / (bytes * stale_s) : INFINITY;
        if (h < least) {
            least = h;
            victim = i;
        }
    }
    return victim;
}

static void choose_recompute(struct lowering *lowering, uint8_t *modes)
{
    struct activation_rank rank;
    uint32_t pass = 0;
    if (!activation_open(lowering, modes, &rank)) {
        return;
    }
    while (activation_over(&rank, pass, &pass)) {
        uint32_t victim = least_h(lowering, &rank, pass);
        if (victim == SCHED_NONE) {
            pass++;
            continue;
        }
        modes[victim] = RECOMPUTE_FULL;
        if (!activation_open(lowering, modes, &rank)) {
            return;
        }
    }
}

const struct memory_policy policy_dtr = {
    .abi = MEMORY_POLICY_ABI,
    .name = "dtr",
    .summary = "where memory runs out, the layer of least cost / (bytes x staleness) is recomputed instead of kept",
    .paper = "Kirisame et al., ICLR 2021",
    .parameters = PARAMETERS,
    .parameter_count = sizeof PARAMETERS / sizeof PARAMETERS[0],
    .choose_recompute = choose_recompute,
};
