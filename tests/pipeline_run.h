/* Bare pipelines for tests: a registered order with its defaults, simulated and measured. What must not fail prints why and ends the program.
 *
 *     struct bare_pipeline_request request = pipeline_request("zb-h1", 4, 1, 8, 1, 1);
 *     struct bare_pipeline_result result = pipeline_run(&request);
 *     ...
 *     bare_pipeline_result_free(&result); */
#ifndef MEMWALL_TESTS_PIPELINE_RUN_H
#define MEMWALL_TESTS_PIPELINE_RUN_H

#include "sim/exec.h"
#include "sim/plan/bare_pipeline.h"
#include "strategies/registry.h"
#include "tests/test.h"

/* v 0: the chunks that the order needs, 1 if any. */
static inline struct bare_pipeline_request pipeline_request(const char *name, uint32_t p, uint32_t v, uint32_t m,
                                                            double forward, double backward)
{
    struct error error = { 0 };
    struct bare_pipeline_request request = { .order = registry_order(name, &error),
                                             .order_request = { .stages = p, .micro_batches = m, .virtual_stages = v },
                                             .forward = forward,
                                             .backward = backward };
    if (request.order == NULL) {
        printf("%s\n", error.message);
        exit(1);
    }
    if (v == 0) {
        request.order_request.virtual_stages = request.order->virtual_stages > 0 ? request.order->virtual_stages : 1;
    }
    parameters_defaults(request.order->parameters, request.order->parameter_count, &request.order_request.parameters);
    return request;
}

/* The caller frees the result, the schedule and the timeline. */
static inline struct bare_pipeline_result pipeline_run_whole(const struct bare_pipeline_request *request,
                                                             struct schedule *schedule, struct timeline *timeline)
{
    struct bare_pipeline_result result = { 0 };
    struct error error = { 0 };
    const struct exec_options options = { .audit = true };
    if (bare_pipeline_schedule(request, schedule, &error) != STATUS_OK ||
        exec_sim.run(schedule, &options, timeline, &error) != STATUS_OK ||
        bare_pipeline_measure(request, schedule, timeline, &result, &error) != STATUS_OK) {
        const struct order_request *o = &request->order_request;
        printf("%s, p %u, v %u, m %u: %s\n", request->order->name, o->stages, o->virtual_stages, o->micro_batches,
               error.message);
        exit(1);
    }
    return result;
}

/* The caller frees the result. */
static inline struct bare_pipeline_result pipeline_run(const struct bare_pipeline_request *request)
{
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    struct bare_pipeline_result result = pipeline_run_whole(request, &schedule, &timeline);
    timeline_free(&timeline);
    schedule_free(&schedule);
    return result;
}

static inline double pipeline_makespan(const struct bare_pipeline_request *request)
{
    struct bare_pipeline_result result = pipeline_run(request);
    double makespan = result.makespan;
    bare_pipeline_result_free(&result);
    return makespan;
}

#endif
