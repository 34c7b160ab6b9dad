/* Random bare pipelines of any registered order, and their lower bound: stages alike or not, split backwards, hops, recomputation, replicas. */
#ifndef MEMWALL_TESTS_PIPELINE_RANDOM_H
#define MEMWALL_TESTS_PIPELINE_RANDOM_H

#include "tests/pipeline_run.h"

enum { STAGES_MAX = 8, BATCHES_MAX = 16 };

struct times {
    double forward[STAGES_MAX], backward[STAGES_MAX], weight[STAGES_MAX];
    uint32_t replicas[STAGES_MAX];
};

/* Of the order's placement, in any shape that it allows up to `stages_max` and `batches_max`. Every chunk takes whole units. */
static inline struct bare_pipeline_request random_request(uint64_t *state, const struct pipeline_order *order,
                                                          uint32_t stages_max, uint32_t batches_max,
                                                          struct times *times)
{
    struct bare_pipeline_request request = pipeline_request(order->name, 1, 0, 1, 1, 1);
    struct order_request *shape = &request.order_request;
    bool dealt = order->deals && test_below(state, 4) == 0;
    do {
        shape->stages = 1 + (uint32_t)test_below(state, stages_max);
        shape->micro_batches = 1 + (uint32_t)test_below(state, batches_max);
        shape->virtual_stages = order->virtual_stages > 0 ? order->virtual_stages : 1 + (uint32_t)test_below(state, 3);
        for (uint32_t s = 0; s < shape->stages; s++) {
            times->replicas[s] = 1 + (uint32_t)test_below(state, 2);
        }
        shape->replicas = dealt ? times->replicas : NULL;
    } while (order_check(order, shape, NULL) != STATUS_OK);
    uint32_t most = test_below(state, 4) == 0 ? 1 : 5; /* stages alike, often enough */
    for (uint32_t s = 0; s < shape->stages; s++) {
        double chunks = (double)shape->virtual_stages / order_copies(order) * times->replicas[s];
        times->forward[s] = chunks * (double)(1 + test_below(state, most));
        times->backward[s] = chunks * (double)(1 + test_below(state, most));
        times->weight[s] = chunks * (double)test_below(state, most + 1);
    }
    request.stage_forward = times->forward;
    request.stage_backward = times->backward;
    request.has_weight_gradient = true;
    request.stage_weight = times->weight;
    request.cut_replicas = !dealt && test_below(state, 4) == 0 ? times->replicas : NULL;
    request.hop = (double)test_below(state, 3);
    request.recompute = (enum bare_recompute)test_below(state, 3);
    request.last_stage_keeps = test_below(state, 3) == 0;
    return request;
}

static inline struct bare_pipeline_bound bound_of(const struct bare_pipeline_request *request)
{
    struct bare_pipeline_bound bound;
    struct error error = { 0 };
    EXPECT_INT(bare_pipeline_bound_find(request, &bound, &error), STATUS_OK);
    EXPECT_REAL(bound.before + bound.work + bound.after, bound.makespan, 1e-12);
    return bound;
}

#endif
