#include "validate/calibrate/measure_batch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "validate/calibrate/measure_gauge.h"

enum {
    SERIES_OPS = 24,        /* of one step */
    LONG_SERIES_OPS = 1024, /* where company matters */
    TURNS_OPS = 12,         /* at least, where threads take turns */
    AWAITED_OPS = 12,       /* at most, where each stands behind kernels that are not measured */
    LONG_STEPS = 3,
    FRESH_RUNS = 3,
    PACE_STEPS = 7
};
/* Series that shall run beside each other take so long; those of more threads than cores. */
static const double COMPANY_S = 1e-3, TURNS_S = 20e-3;

static bool step_done(void *context, uint32_t step, const struct timeline *timeline)
{
    (void)step;
    gauge_take(context, timeline);
    return true;
}

static void leave_all_out(struct batch *batch, const char *why)
{
    memset(batch->left_out, true, sizeof batch->left_out);
    (void)snprintf(batch->why, sizeof batch->why, "%.190s", why);
}

/* One run of the executor; timelines go into the gauge. */
static enum status run_bench(const struct measure_options *options, struct gauge *gauge, struct batch *batch,
                             struct error *error)
{
    struct timeline timeline = { 0 };
    struct exec_options exec = options->exec;
    struct error inner = { 0 };
    uint32_t before = gauge->steps;
    exec.warmup_steps = batch->warmup_steps;
    exec.steps = batch->steps;
    exec.step_done = step_done;
    exec.step_context = gauge;
    enum status status = options->executor->run(&gauge->bench->schedule, &exec, &timeline, &inner);
    if (status == STATUS_UNSUPPORTED) {
        leave_all_out(batch, inner.message);
    } else if (status == STATUS_OK && timeline.outcome != TIMELINE_DONE) {
        leave_all_out(batch, "it does not fit");
    } else if (status == STATUS_OK && gauge->steps == before) { /* an executor whose steps are all the same */
        gauge_take(gauge, &timeline);
    } else if (status != STATUS_OK && error != NULL) {
        *error = inner;
    }
    timeline_free(&timeline);
    if (status != STATUS_OK && status != STATUS_UNSUPPORTED) {
        return status;
    }
    return gauge->failed ? error_set(error, STATUS_NO_MEMORY, "out of memory: measured times") : STATUS_OK;
}

/* Times of all points of the batch, or why there are none. */
static enum status gauge_batch(const struct measure_options *options, struct batch *batch, struct error *error)
{
    struct bench bench;
    memset(batch->left_out, false, sizeof batch->left_out);
    TRY(bench_build(options, batch->points, batch->repeats, batch->count, &bench, error));
    struct gauge gauge;
    enum status status = gauge_init(&gauge, &bench, batch->means, batch->anyhow, error);
    for (uint32_t run = 0; run < batch->runs && status == STATUS_OK && !batch->left_out[0]; run++) {
        status = run_bench(options, &gauge, batch, error);
    }
    for (uint32_t i = 0; i < batch->count && status == STATUS_OK && !batch->left_out[i]; i++) {
        if (!gauge_conclude(&gauge, i, &batch->points[i])) {
            batch->left_out[i] = true;
            (void)snprintf(batch->why, sizeof batch->why, "its ops did not run beside each other");
        }
    }
    gauge_free(&gauge);
    bench_free(&bench);
    return status;
}

static uint32_t clamp(double value, uint32_t least, uint32_t most)
{
    return value <= least ? least : value >= most ? most : (uint32_t)value;
}

/* Threads that the point keeps busy at the same moment. */
static uint32_t threads_of(const struct point *p)
{
    return p->kind == POINT_COPY     ? p->at_once * (p->way == COPY_BOTH ? 2 : 1)
           : p->kind == POINT_KERNEL ? p->at_once
                                     : 1;
}

/* How often to repeat a point in the long run, when one op takes `op_s` and there are `left_s` for it. */
static void plan_repeats(const struct measure_options *options, struct batch *batch, uint32_t i, double left_s)
{
    const struct point *p = &batch->points[i];
    uint32_t cores = options->cores > 0 ? options->cores : 1, threads = threads_of(p);
    double op_s = fmax(p->seconds, 1e-7), ops = left_s / op_s / (1 + LONG_STEPS);
    batch->means[i] = options->on_host && threads > cores;
    /* So long that series which do not begin together still run together, and that threads on fewer cores each had several turns. */
    double together_s = batch->means[i] ? TURNS_S : threads > 1 ? COMPANY_S : 0;
    uint32_t most = options->on_host && p->kind == POINT_COLLECTIVE ? AWAITED_OPS : SERIES_OPS;
    batch->repeats[i] = clamp(fmax(ops, together_s / op_s), batch->means[i] ? TURNS_OPS : MEASURE_PROBE_OPS + 2,
                              together_s > 0 ? LONG_SERIES_OPS : most);
}

/* The points that a short run does not settle, once more and longer. */
static enum status measure_longer(const struct measure_options *options, struct batch *all, double allowance_s,
                                  struct error *error)
{
    struct batch batch = { .runs = 1, .warmup_steps = 1, .steps = LONG_STEPS };
    uint32_t places[BENCH_POINTS_MAX] = { 0 };
    for (uint32_t i = 0; i < all->count; i++) {
        const struct point *p = &all->points[i];
        double left_s = allowance_s - 2 * MEASURE_PROBE_OPS * p->seconds;
        if (!all->left_out[i] && (threads_of(p) > 1 || left_s >= MEASURE_PROBE_OPS * p->seconds)) {
            batch.points[batch.count] = *p;
            plan_repeats(options, &batch, batch.count, left_s);
            places[batch.count++] = i;
        }
    }
    if (batch.count == 0) {
        return STATUS_OK;
    }
    TRY(gauge_batch(options, &batch, error));
    for (uint32_t i = 0; i < batch.count; i++) {
        all->points[places[i]] = batch.points[i];
        all->left_out[places[i]] = batch.left_out[i];
    }
    (void)snprintf(all->why, sizeof all->why, "%s", batch.why);
    return STATUS_OK;
}

enum status measure_batch(const struct measure_options *options, struct batch *batch, double allowance_s,
                          struct error *error)
{
    bool measures = (options->executor->capabilities & EXECUTOR_MEASURES) != 0;
    enum point_kind kind = batch->points[0].kind;
    batch->runs = batch->steps = 1;
    batch->warmup_steps = measures ? 1 : 0;
    batch->anyhow = measures;
    for (uint32_t i = 0; i < batch->count; i++) {
        batch->repeats[i] = MEASURE_PROBE_OPS;
    }
    if (kind == POINT_ALLOCATION) { /* each run starts with new memory */
        batch->runs = measures ? FRESH_RUNS : 1;
        batch->warmup_steps = 0;
    } else if (kind == POINT_ISSUE) {
        batch->repeats[0] = SERIES_OPS;
        batch->steps = measures ? PACE_STEPS : 1;
    }
    TRY(gauge_batch(options, batch, error));
    if (!measures || kind == POINT_ALLOCATION || kind == POINT_ISSUE) {
        return STATUS_OK;
    }
    return measure_longer(options, batch, allowance_s, error);
}
