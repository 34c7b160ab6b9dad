/* The simulating executor: verify, cost, run, check. */
#include "sim/exec.h"

#include <stdio.h>
#include <time.h>

#include "sim/base/check.h"
#include "sim/engine/cost_table.h"
#include "sim/engine/engine.h"
#include "sim/engine/reserved.h"
#include "sim/ir/audit.h"
#include "sim/ir/verify.h"

static const int64_t PROGRESS_NS = 100000000;

struct throttle {
    const struct exec_options *options;
    int64_t last_ns;
};

static int64_t clock_ns(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) {
        return 0;
    }
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool tell_progress(void *context, uint32_t done, uint32_t total)
{
    struct throttle *throttle = context;
    int64_t now_ns = clock_ns();
    if (now_ns - throttle->last_ns < PROGRESS_NS) {
        return true;
    }
    throttle->last_ns = now_ns;
    return throttle->options->progress(throttle->options->progress_context, done, total);
}

/* Whatever a schedule can say can be simulated. */
static bool supports(const struct schedule *schedule, uint32_t op, char *why, size_t why_size)
{
    (void)why;
    (void)why_size;
    return op < schedule->op_count;
}

static enum status simulate(const struct schedule *schedule, const struct exec_options *options,
                            const struct cost_table *table, struct timeline *timeline, struct error *error)
{
    struct throttle throttle = { options, clock_ns() };
    const struct engine_options engine = {
        .record_rates = options->record_rates,
        .progress = options->progress == NULL ? NULL : tell_progress,
        .progress_context = &throttle,
        .watch = options->watch,
    };
    TRY(engine_run(schedule, table, &engine, timeline, error));
    TRY(reserved_fill(schedule, options->software, timeline->spaces, error));
    timeline->schedule_hash = schedule_hash(schedule);
    (void)snprintf(timeline->executor, sizeof timeline->executor, "%s", exec_sim.name);
    if (options->audit && timeline->outcome == TIMELINE_DONE) {
        const struct audit_resources resources = { table->capacities, table->asked, table->resource_count };
        TRY(timeline_audit(schedule, timeline->schedule_hash, timeline, &resources, error));
    }
    return STATUS_OK;
}

static enum status run(const struct schedule *schedule, const struct exec_options *options, struct timeline *timeline,
                       struct error *error)
{
    struct cost_table own = { 0 }, *table = options->costs != NULL ? options->costs : &own;
    *timeline = (struct timeline){ 0 };
    enum status verified = sched_verify(schedule, error);
    if (verified != STATUS_OK && verified != STATUS_DOES_NOT_FIT) {
        return verified; /* what lives at the start does not fit: an outcome, which the engine tells */
    }
    if (table->op_costs == NULL) {
        TRY(cost_table_build(table, schedule, options->cluster, options->software, error));
    }
    enum status status = simulate(schedule, options, table, timeline, error);
    cost_table_free(&own);
    return status;
}

const struct executor exec_sim = {
    .abi = EXECUTOR_ABI,
    .capabilities = 0,
    .name = "sim",
    .summary = "simulates the step on the described cluster",
    .supports = supports,
    .run = run,
};
