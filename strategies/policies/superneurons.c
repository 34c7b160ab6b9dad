/* The policy `superneurons` (Wang et al., PPoPP 2018; rules of facts/mpress-hippie-pipelines.md D): cheap operations are repeated (selective recomputation: speed-centric, as their segment stays
 * below the layer's own need), and under pressure alone the least recently used savings go to host memory. Lifetimes come from the schedule's own buffers. */
#include "strategies/policies/activation_kit.h"
#include "strategies/policies/policies.h"

static const struct parameter PARAMETERS[] = { [ACTIVATION_BUDGET] = ACTIVATION_BUDGET_PARAMETER };

static void choose_recompute(struct lowering *lowering, uint8_t *modes)
{
    uint32_t count;
    const struct lower_layer *layers = lower_layers(lowering, &count);
    for (uint32_t i = 0; i < count; i++) {
        const struct layer_graph *graph = layers[i].graph;
        if (layers[i].kind == LAYER_TRANSFORMER && modes[i] == RECOMPUTE_NONE &&
            graph->saved_bytes_selective < graph->saved_bytes_none) {
            modes[i] = RECOMPUTE_SELECTIVE;
        }
    }
}

static bool used_longer_ago(const struct activation_saving *a, const struct activation_saving *b)
{
    return a->forward < b->forward;
}

static void begin_rank(struct lowering *lowering)
{
    struct activation_rank *rank = activation_begin(lowering);
    if (rank != NULL) {
        activation_evict(rank, used_longer_ago);
        activation_ready(lowering, rank);
    }
}

const struct memory_policy policy_superneurons = {
    .abi = MEMORY_POLICY_ABI,
    .name = "superneurons",
    .summary =
        "cheap operations are recomputed; under memory pressure the least recently used savings go to host memory",
    .paper = "Wang et al., PPoPP 2018",
    .parameters = PARAMETERS,
    .parameter_count = sizeof PARAMETERS / sizeof PARAMETERS[0],
    .choose_recompute = choose_recompute,
    .begin_rank = begin_rank,
    .before_pass = activation_before_pass,
    .after_pass = activation_after_pass,
    .streams = true,
};
