/* For engine tests: run a built schedule without the executor around it, and bare pipelines. */
#ifndef MEMWALL_TESTS_ENGINE_RUN_H
#define MEMWALL_TESTS_ENGINE_RUN_H

#include "sim/base/units.h"
#include "sim/engine/engine.h"
#include "sim/ir/builder.h"
#include "sim/ir/verify.h"
#include "tests/test.h"

/* Builds the schedule's cost table and runs it. False after an unexpected error, which is printed. */
static inline bool run_verified(const struct schedule *schedule, const struct cluster *cluster,
                                const struct software *software, bool record_rates, struct cost_table *table,
                                struct timeline *timeline)
{
    struct error error = { 0 };
    char text[2048];
    *timeline = (struct timeline){ 0 };
    *table = (struct cost_table){ 0 };
    const struct engine_options options = { .record_rates = record_rates };
    if (cost_table_build(table, schedule, cluster, software, &error) != STATUS_OK ||
        engine_run(schedule, table, &options, timeline, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error_text(&error, text, sizeof text));
        return false;
    }
    return true;
}

static inline bool verify_schedule(const struct schedule *schedule)
{
    struct error error = { 0 };
    if (sched_verify(schedule, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
        return false;
    }
    return true;
}

/* The same, verified first. */
static inline bool run_schedule(const struct schedule *schedule, const struct cluster *cluster,
                                const struct software *software, bool record_rates, struct cost_table *table,
                                struct timeline *timeline)
{
    *timeline = (struct timeline){ 0 };
    *table = (struct cost_table){ 0 };
    return verify_schedule(schedule) && run_verified(schedule, cluster, software, record_rates, table, timeline);
}

static inline bool finish_builder(struct builder *builder, struct schedule *schedule)
{
    struct error error = { 0 };
    char text[2048];
    if (builder_finish(builder, schedule, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error_text(&error, text, sizeof text));
        return false;
    }
    return true;
}

#endif
