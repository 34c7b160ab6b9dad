#include "sim/plan/bare_pipeline_bound.h"

#include "sim/base/check.h"
#include "sim/plan/bare_pipeline_internal.h"
#include "sim/plan/pipeline_bound.h"

/* Without its micro-batches. What is recomputed lazily waits for the same gradient as the backward. */
static struct bound_stage stage_of(const struct bare_pipeline_request *request, uint32_t stage)
{
    int64_t ps[STEP_KIND_COUNT];
    bare_pass_times(request, stage, ps);
    int64_t again_ps = bare_recomputes(request, stage) ? ps[STEP_FORWARD] : 0;
    bool lazy = request->recompute == BARE_RECOMPUTE_LAZY;
    return (struct bound_stage){ .device = stage,
                                 .forward = ps[STEP_FORWARD],
                                 .backward = ps[STEP_BACKWARD] + (lazy ? again_ps : 0),
                                 .again = lazy ? 0 : again_ps,
                                 .weight = request->order->splits_backward ? ps[STEP_BACKWARD_WEIGHT] : 0 };
}

/* Micro-batches of each copy of the model. */
static void count_passing(const struct bare_pipeline_request *request, uint32_t length, uint32_t *passing)
{
    for (uint32_t i = 0; i < request->order_request.micro_batches; i++) {
        uint32_t first, last;
        order_route(request->order, &request->order_request, i, &first, &last);
        passing[first / length]++;
    }
}

static double units(int64_t ps)
{
    return (double)ps / (double)BARE_UNIT_PS;
}

enum status bare_pipeline_bound_find(const struct bare_pipeline_request *request, struct bare_pipeline_bound *bound,
                                     struct error *error)
{
    const struct order_request *shape = &request->order_request;
    uint32_t virtual_count = shape->stages * shape->virtual_stages;
    struct arena arena = { 0 };
    struct bound_stage *stages = arena_array(&arena, struct bound_stage, virtual_count);
    uint32_t *passing = arena_array(&arena, uint32_t, order_copies(request->order));
    const struct pipeline_bound_request bare = { .virtual_count = virtual_count,
                                                 .length = order_model_stages(request->order, shape),
                                                 .stages = stages,
                                                 .hop = bare_hop_ps(request) };
    enum status status = STATUS_OK;
    struct pipeline_bound found = { 0 };
    if (stages == NULL || passing == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory for the lower bound of a bare pipeline");
        goto fail;
    }
    count_passing(request, bare.length, passing);
    for (uint32_t s = 0; s < shape->stages; s++) {
        for (uint32_t chunk = 0; chunk < shape->virtual_stages; chunk++) {
            uint32_t v = order_virtual_stage(request->order, shape, s, chunk);
            stages[v] = stage_of(request, s);
            stages[v].micro_batches = passing[v / bare.length] / order_replicas(shape, s);
        }
    }
    TRY_OR_FAIL(pipeline_bound_find(&bare, &found, error));
    *bound = (struct bare_pipeline_bound){ .makespan = units(found.makespan),
                                           .stage = found.device,
                                           .before = units(found.before),
                                           .work = units(found.work),
                                           .after = units(found.after) };
fail:
    arena_free(&arena);
    return status;
}

enum status bare_pipeline_bound_check(const struct bare_pipeline_bound *bound, double makespan, struct error *error)
{
    if (makespan >= bound->makespan) {
        return STATUS_OK;
    }
    return error_set(
        error, STATUS_BAD_TIMELINE,
        "a makespan of %g is impossible: stage %u has %g of work, at least %g after the start and %g before "
        "the end, so no order is shorter than %g",
        makespan, bound->stage, bound->work, bound->before, bound->after, bound->makespan);
}
