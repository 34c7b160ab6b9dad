/* For report and trace tests: a scenario's text, or a bare pipeline, taken to a timeline. */
#ifndef MEMWALL_TESTS_REPORT_RUN_H
#define MEMWALL_TESTS_REPORT_RUN_H

#include "sim/exec.h"
#include "sim/plan/bare_pipeline.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan_order.h"
#include "sim/plan/scenario.h"
#include "sim/report/result.h"
#include "strategies/registry.h"
#include "tests/test.h"

struct report_run {
    struct scenario scenario;
    struct schedule schedule;
    struct timeline timeline;
    struct result result;
    struct result_input input;
};

/* False after an unexpected error, which is printed. `run` must be zeroed and stay where it is. */
static inline bool report_run(struct report_run *run, const char *text)
{
    struct error error = { 0 };
    struct json_document *document = NULL;
    struct json root;
    char message[2048];
    enum status status = json_parse(&document, text, strlen(text), "test", &error);
    if (status == STATUS_OK) {
        json_root(document, &root);
        status = scenario_from_json(&run->scenario, &root, &error);
    }
    json_free(document);
    if (status == STATUS_OK) {
        const struct lower_request request = {
            .model = &run->scenario.model,
            .cluster = &run->scenario.cluster,
            .software = &run->scenario.software,
            .plan = &run->scenario.plan,
        };
        status = lower_schedule(&request, &run->schedule, &error);
    }
    const struct exec_options options = {
        .cluster = &run->scenario.cluster, .software = &run->scenario.software, .record_rates = true, .audit = true
    };
    if (status == STATUS_OK) {
        status = exec_sim.run(&run->schedule, &options, &run->timeline, &error);
    }
    run->input = (struct result_input){ .name = "test",
                                        .schedule = &run->schedule,
                                        .timeline = &run->timeline,
                                        .cluster = &run->scenario.cluster,
                                        .software = &run->scenario.software,
                                        .precision = run->scenario.plan.precision };
    if (status == STATUS_OK) {
        status = result_compute(&run->result, &run->input, &error);
    }
    if (status != STATUS_OK) {
        TEST_FAIL_("%s", error_text(&error, message, sizeof message));
    }
    return status == STATUS_OK;
}

static inline void report_run_free(struct report_run *run)
{
    result_free(&run->result);
    timeline_free(&run->timeline);
    schedule_free(&run->schedule);
    scenario_free(&run->scenario);
}

/* GPipe with forward and backward of 1 and a hop of 1. */
static inline bool bare_run(uint32_t stages, uint32_t micro_batches, struct schedule *schedule,
                            struct timeline *timeline)
{
    struct error error = { 0 };
    char message[2048];
    struct bare_pipeline_request request = {
        .order = registry_order("gpipe", &error),
        .order_request = { .stages = stages, .micro_batches = micro_batches, .virtual_stages = 1 },
        .forward = 1,
        .backward = 1,
        .hop = 1,
    };
    const struct exec_options options = { .audit = true };
    parameters_defaults(request.order->parameters, request.order->parameter_count, &request.order_request.parameters);
    enum status status = bare_pipeline_schedule(&request, schedule, &error);
    if (status == STATUS_OK) {
        status = exec_sim.run(schedule, &options, timeline, &error);
    }
    if (status != STATUS_OK) {
        TEST_FAIL_("%s", error_text(&error, message, sizeof message));
    }
    return status == STATUS_OK;
}

#endif
