/* Running the plan: how often, what of a timeline counts, what a point costs. */
#include "validate/calibrate/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/units.h"
#include "validate/calibrate/measure_internal.h"

enum {
    PROBE_OPS = 3,          /* of the first, short run: is it enough? */
    SERIES_OPS = 24,        /* of one step */
    LONG_SERIES_OPS = 1024, /* where company matters */
    TURNS_OPS = 12,         /* at least, where threads take turns */
    AWAITED_OPS = 12,       /* at most, where each stands behind kernels that are not measured */
    LONG_STEPS = 3,
    FRESH_RUNS = 3,
    PACE_STEPS = 7,
    BATCH_REACH = 160 /* points further on in the plan do not join a batch */
};
/* The shortest look at a point may cost so many times what a point has on average, and at least so long: else it is left out. */
static const double COST_MAX = 4, COST_LEAST_S = 0.25;
/* Series that shall run beside each other take so long; those of more threads than cores. */
static const double COMPANY_S = 1e-3, TURNS_S = 20e-3;

static double clock_s(void)
{
    struct timespec now = { 0 };
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- what the timelines say ---- */

struct samples {
    double *items;
    size_t count, capacity;
};

/* The runs of a bench. */
struct gauge {
    const struct bench *bench;
    struct samples *series; /* of all points: those of point p begin at first[p] */
    uint32_t first[BENCH_POINTS_MAX + 1];
    const bool *
        means; /* [point_count]: a step's mean is one sample. Threads take turns on cores, each op sees full speed or none */
    bool anyhow; /* ops without company count too */
    bool failed; /* out of memory */
    uint32_t steps;
};

static void take(struct gauge *gauge, uint32_t point, uint32_t series, int64_t ps)
{
    struct samples *samples = &gauge->series[gauge->first[point] + series];
    if (array_reserve(samples, 1, NULL) != STATUS_OK) {
        gauge->failed = true;
        return;
    }
    samples->items[samples->count++] = s_from_ps(ps);
}

struct span {
    int64_t from_ps, to_ps;
};

/* The span in which every series of a point runs; of one series all of it. */
static struct span common_span(const struct gauge *gauge, const struct timeline *timeline, uint32_t point)
{
    const struct bench *bench = gauge->bench;
    struct span common = { 0, INT64_MAX };
    for (uint32_t series = 0; series < bench->series_count[point] && bench->series_count[point] > 1 && !gauge->anyhow;
         series++) {
        struct span own = { INT64_MAX, 0 };
        for (uint32_t op = 0; op < bench->schedule.op_count; op++) {
            const struct op_times *t = &timeline->ops[op];
            if (bench->ops[op].point == point && bench->ops[op].series == series) {
                own.from_ps = t->start_ps < own.from_ps ? t->start_ps : own.from_ps;
                own.to_ps = t->end_ps > own.to_ps ? t->end_ps : own.to_ps;
            }
        }
        common.from_ps = own.from_ps > common.from_ps ? own.from_ps : common.from_ps;
        common.to_ps = own.to_ps < common.to_ps ? own.to_ps : common.to_ps;
    }
    return common;
}

/* Durations of a series' ops that had company all along; the first one, which finds other things in the caches, only when there are few. */
static void take_series(struct gauge *gauge, const struct timeline *timeline, uint32_t point, uint32_t series,
                        struct span span)
{
    const struct bench *bench = gauge->bench;
    uint32_t count = 0, nth = 0, taken = 0;
    int64_t sum_ps = 0;
    for (uint32_t op = 0; op < bench->schedule.op_count; op++) {
        count += bench->ops[op].point == point && bench->ops[op].series == series;
    }
    for (uint32_t op = 0; op < bench->schedule.op_count; op++) {
        const struct op_times *t = &timeline->ops[op];
        if (bench->ops[op].point != point || bench->ops[op].series != series || (nth++ == 0 && count > PROBE_OPS) ||
            t->start_ps < span.from_ps || t->end_ps > span.to_ps) {
            continue;
        }
        taken++;
        sum_ps += t->end_ps - t->start_ps;
        if (!gauge->means[point]) {
            take(gauge, point, series, t->end_ps - t->start_ps);
        }
    }
    if (gauge->means[point] && taken > 0) {
        take(gauge, point, series, sum_ps / taken);
    }
}

static void take_durations(struct gauge *gauge, const struct timeline *timeline)
{
    for (uint32_t point = 0; point < gauge->bench->point_count; point++) {
        struct span span = common_span(gauge, timeline, point);
        for (uint32_t series = 0; series < gauge->bench->series_count[point]; series++) {
            take_series(gauge, timeline, point, series, span);
        }
    }
}

/* End of the n-th op of the only series. */
static int64_t nth_end(const struct bench *bench, const struct timeline *timeline, uint32_t n)
{
    for (uint32_t op = 0; op < bench->schedule.op_count; op++) {
        if (bench->ops[op].point == 0 && n-- == 0) {
            return timeline->ops[op].end_ps;
        }
    }
    check_failed("an op of the series", __FILE__, __LINE__);
}

static void take_pace(struct gauge *gauge, const struct timeline *timeline)
{
    const struct bench *bench = gauge->bench;
    uint32_t count = 0;
    for (uint32_t op = 0; op < bench->schedule.op_count; op++) {
        count += bench->ops[op].point == 0;
    }
    CHECK(count > 1);
    take(gauge, 0, 0, (nth_end(bench, timeline, count - 1) - nth_end(bench, timeline, 0)) / (count - 1));
}

/* What lies between an op and the one that waits for it: they stand in this order in the schedule. */
static void take_gaps(struct gauge *gauge, const struct timeline *timeline)
{
    const struct bench *bench = gauge->bench;
    int64_t end_ps = 0;
    for (uint32_t op = 0, nth = 0; op < bench->schedule.op_count; op++) {
        if (bench->ops[op].point == 0) {
            if (nth++ > 0) {
                take(gauge, 0, 0, timeline->ops[op].start_ps - end_ps);
            }
            end_ps = timeline->ops[op].end_ps;
        }
    }
}

static void take_timeline(struct gauge *gauge, const struct timeline *timeline)
{
    const struct bench *bench = gauge->bench;
    gauge->steps++;
    switch (bench->rule) {
    case BENCH_DURATION: take_durations(gauge, timeline); break;
    case BENCH_PACE: take_pace(gauge, timeline); break;
    case BENCH_GAP: take_gaps(gauge, timeline); break;
    case BENCH_FRESH: {
        int64_t fresh_ps = nth_end(bench, timeline, 1), again_ps = nth_end(bench, timeline, 2);
        take(gauge, 0, 0, fresh_ps - nth_end(bench, timeline, 0) - (again_ps - fresh_ps));
        break;
    }
    }
}

static bool step_done(void *context, uint32_t step, const struct timeline *timeline)
{
    (void)step;
    take_timeline(context, timeline);
    return true;
}

static int compare_reals(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_reals);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* The longest of the series' medians, with its median absolute deviation. False when a series has nothing. */
static bool conclude(struct gauge *gauge, uint32_t index, struct point *point)
{
    point->seconds = -1;
    for (uint32_t i = 0; i < gauge->bench->series_count[index]; i++) {
        struct samples *samples = &gauge->series[gauge->first[index] + i];
        if (samples->count == 0) {
            return false;
        }
        double middle = median(samples->items, samples->count);
        if (middle <= point->seconds) {
            continue;
        }
        point->seconds = middle;
        point->repeats = (uint32_t)samples->count;
        for (size_t k = 0; k < samples->count; k++) {
            samples->items[k] = fabs(samples->items[k] - middle);
        }
        point->spread_s = median(samples->items, samples->count);
    }
    return true;
}

/* ---- runs ---- */

/* Points measured together. */
struct batch {
    struct point points[BENCH_POINTS_MAX];
    bool means[BENCH_POINTS_MAX];
    uint32_t repeats[BENCH_POINTS_MAX]; /* ops of a series */
    uint32_t count, runs, warmup_steps, steps;
    bool anyhow;
    bool left_out[BENCH_POINTS_MAX]; /* not an error that ends the calibration, but no time either: why */
    char why[192];
};

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
        take_timeline(gauge, &timeline);
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
    struct gauge gauge = { .bench = &bench, .means = batch->means, .anyhow = batch->anyhow };
    for (uint32_t i = 0; i < batch->count; i++) {
        gauge.first[i + 1] = gauge.first[i] + bench.series_count[i];
    }
    uint32_t series_count = gauge.first[batch->count];
    CHECK(series_count > 0);
    gauge.series = calloc(series_count, sizeof *gauge.series);
    enum status status =
        gauge.series == NULL ? error_set(error, STATUS_NO_MEMORY, "out of memory: a benchmark") : STATUS_OK;
    for (uint32_t run = 0; run < batch->runs && status == STATUS_OK && !batch->left_out[0]; run++) {
        status = run_bench(options, &gauge, batch, error);
    }
    for (uint32_t i = 0; i < batch->count && status == STATUS_OK && !batch->left_out[i]; i++) {
        if (!conclude(&gauge, i, &batch->points[i])) {
            batch->left_out[i] = true;
            (void)snprintf(batch->why, sizeof batch->why, "its ops did not run beside each other");
        }
    }
    for (uint32_t i = 0; gauge.series != NULL && i < series_count; i++) {
        array_free(&gauge.series[i]);
    }
    free(gauge.series);
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
    batch->repeats[i] = clamp(fmax(ops, together_s / op_s), batch->means[i] ? TURNS_OPS : PROBE_OPS + 2,
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
        double left_s = allowance_s - 2 * PROBE_OPS * p->seconds;
        if (!all->left_out[i] && (threads_of(p) > 1 || left_s >= PROBE_OPS * p->seconds)) {
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

/* Measures the points of a batch, each in about `allowance_s`. */
static enum status measure_batch(const struct measure_options *options, struct batch *batch, double allowance_s,
                                 struct error *error)
{
    bool measures = (options->executor->capabilities & EXECUTOR_MEASURES) != 0;
    enum point_kind kind = batch->points[0].kind;
    batch->runs = batch->steps = 1;
    batch->warmup_steps = measures ? 1 : 0;
    batch->anyhow = measures;
    for (uint32_t i = 0; i < batch->count; i++) {
        batch->repeats[i] = PROBE_OPS;
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

/* ---- what a point would cost ---- */

/* The work that time is mostly proportional to, to compare points of a kind. */
static double amount(const struct point *p)
{
    switch (p->kind) {
    case POINT_KERNEL: return p->kernel.flops > 0 ? p->kernel.flops : p->kernel.bytes_read + p->kernel.bytes_written;
    case POINT_COPY: return p->bytes * p->at_once * (p->way == COPY_BOTH ? 2 : 1);
    case POINT_COLLECTIVE: return p->bytes * p->ranks;
    case POINT_STORAGE: return p->bytes;
    case POINT_HOST_OPTIMIZER: return p->parameters * p->at_once;
    case POINT_ISSUE:
    case POINT_ALLOCATION:
    case POINT_KIND_COUNT: break;
    }
    return 0;
}

static bool alike(const struct point *a, const struct point *b)
{
    if (a->kind != b->kind) {
        return false;
    }
    return a->kind != POINT_KERNEL || (a->kernel.kernel_class == b->kernel.kernel_class &&
                                       a->kernel.dtype == b->kernel.dtype && a->at_once == b->at_once);
}

/* Seconds of one op by the best rate of its like; 0: nothing is known. */
static double predict(const struct points *points, const struct point *wanted)
{
    double rate = 0;
    for (uint32_t i = 0; i < points->count; i++) {
        const struct point *p = &points->items[i];
        if (alike(p, wanted) && amount(p) > 0) {
            rate = fmax(rate, amount(p) / p->seconds);
        }
    }
    return rate > 0 ? amount(wanted) / rate : 0;
}

/* ---- the plan ---- */

struct going {
    const struct measure_options *options;
    const struct points *plan;
    struct points *points;
    FILE *file;
    bool *settled;            /* [plan count]: known, measured or left out */
    double before_s, spent_s; /* on points of earlier runs (their even share), of this one */
    uint32_t done, measured;
    bool stopped;
};

static bool measures(const struct going *g)
{
    return (g->options->executor->capabilities & EXECUTOR_MEASURES) != 0;
}

/* Seconds for the next point: an equal part of what is left. */
static double allowance(const struct going *g)
{
    double even_s = g->options->seconds / g->plan->count;
    double rest_s = (g->options->seconds - g->before_s - g->spent_s) / (g->plan->count - g->done);
    return fmax(even_s / 2, fmin(rest_s, 4 * even_s));
}

static void tell(struct going *g, const struct point *point)
{
    const struct measure_options *options = g->options;
    if (options->progress == NULL) {
        return;
    }
    uint32_t left = g->plan->count - g->done;
    double each_s = left == 0 ? 0 : g->measured >= 5 ? g->spent_s / g->measured : allowance(g);
    if (!options->progress(options->progress_context, g->done, g->plan->count, each_s * left, point)) {
        g->stopped = true;
    }
}

static void leave_out(struct going *g, const struct point *point, const char *why)
{
    if (g->options->left_out != NULL) {
        g->options->left_out(g->options->progress_context, point, why);
    }
}

/* A kernel's point is the kernel alone. The simulator's ops hold the gaps behind their kernels too; those of executors that measure end with the kernel. */
static void take_off_gaps(const struct going *g, struct point *point)
{
    const struct cluster *cluster = g->options->exec.cluster;
    if (!measures(g) && point->kind == POINT_KERNEL && cluster != NULL) {
        point->seconds -= point->kernel.launches * cluster->machine->gpu.launch_gap_s;
    }
}

static enum status keep(struct going *g, struct point *point, struct error *error)
{
    const char *source = g->options->source != NULL ? g->options->source : "measured";
    (void)snprintf(point->source, sizeof point->source, "%s", source);
    TRY(points_add(g->points, point, error));
    if (g->file != NULL) {
        TRY(points_write(g->file, point, error));
    }
    tell(g, point);
    return STATUS_OK;
}

/* Whether a point is worth its time; else it is left out. */
static bool affordable(struct going *g, uint32_t index)
{
    const struct point *wanted = &g->plan->items[index];
    double most_s = fmax(COST_MAX * allowance(g), COST_LEAST_S),
           expected_s = measures(g) ? predict(g->points, wanted) : 0;
    if (2 * PROBE_OPS * expected_s <= most_s) {
        return true;
    }
    char why[96];
    (void)snprintf(why, sizeof why, "one would take about %.2g s; a longer --seconds has room for it", expected_s);
    leave_out(g, wanted, why);
    g->settled[index] = true;
    g->done++;
    return false;
}

/* Memory of the copies' buffers, one each. */
static bool fits_batch(const struct going *g, const struct batch *batch, const struct point *more)
{
    double device = 0, host = 0;
    for (uint32_t i = 0; i <= batch->count; i++) {
        const struct point *p = i < batch->count ? &batch->points[i] : more;
        bool buffers = p->kind == POINT_COPY || p->kind == POINT_STORAGE ||
                       (p->kind == POINT_COLLECTIVE && p->collective == COLLECTIVE_SEND_RECV);
        double bytes = buffers ? p->bytes * (p->way == COPY_BOTH ? 2 : 1) : 0;
        device += bytes;
        host += bytes * (p->at_once > 0 ? p->at_once : 1);
    }
    return device <= (double)g->options->device_bytes && host <= (double)g->options->host_bytes;
}

/* The first points that are not settled and can be measured together. */
static void gather(struct going *g, struct batch *batch, uint32_t places[BENCH_POINTS_MAX])
{
    uint32_t end = g->plan->count;
    batch->count = 0;
    for (uint32_t i = 0; i < end && batch->count < BENCH_POINTS_MAX; i++) {
        const struct point *wanted = &g->plan->items[i];
        bool joins =
            batch->count == 0 || (bench_joins(g->options, &batch->points[0], wanted) && fits_batch(g, batch, wanted));
        if (!g->settled[i] && joins && affordable(g, i)) {
            if (batch->count == 0) { /* not far ahead: what tells most comes first */
                end = i + BATCH_REACH < end ? i + BATCH_REACH : end;
            }
            batch->points[batch->count] = *wanted;
            places[batch->count++] = i;
        }
    }
}

static enum status settle(struct going *g, struct batch *batch, const uint32_t *places, struct error *error)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        struct point *point = &batch->points[i];
        g->settled[places[i]] = true;
        g->done++;
        take_off_gaps(g, point);
        if (batch->left_out[i]) {
            leave_out(g, &g->plan->items[places[i]], batch->why);
        } else if (point->seconds > 0) {
            TRY(keep(g, point, error));
        } else if (measures(g)) {
            leave_out(g, &g->plan->items[places[i]], "it took no time that the clock can see");
        }
    }
    return STATUS_OK;
}

/* One point that cannot be had must not take the others of its batch along. */
static enum status measure_singly(struct going *g, const struct batch *batch, const uint32_t *places,
                                  struct error *error)
{
    for (uint32_t i = 0; i < batch->count && !g->stopped; i++) {
        struct batch single = { .points = { g->plan->items[places[i]] }, .count = 1 };
        TRY(measure_batch(g->options, &single, allowance(g), error));
        TRY(settle(g, &single, places + i, error));
    }
    return STATUS_OK;
}

static enum status go(struct going *g, struct batch *batch, const uint32_t *places, struct error *error)
{
    double begin_s = clock_s();
    TRY(measure_batch(g->options, batch, allowance(g), error));
    bool any_left_out = false;
    for (uint32_t i = 0; i < batch->count; i++) {
        any_left_out = any_left_out || batch->left_out[i];
    }
    enum status status =
        any_left_out && batch->count > 1 ? measure_singly(g, batch, places, error) : settle(g, batch, places, error);
    g->spent_s += clock_s() - begin_s;
    g->measured += batch->count;
    return status;
}

static enum status go_on(struct going *g, struct error *error)
{
    uint32_t places[BENCH_POINTS_MAX] = { 0 };
    struct batch *batch = calloc(1, sizeof *batch);
    if (batch == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: a benchmark");
    }
    enum status status = STATUS_OK;
    for (gather(g, batch, places); batch->count > 0 && status == STATUS_OK; gather(g, batch, places)) {
        tell(g, &batch->points[0]);
        if (g->stopped) {
            break;
        }
        status = go(g, batch, places, error);
    }
    free(batch);
    return status;
}

enum status measure_points(const struct measure_options *options, const struct points *plan, struct points *points,
                           FILE *file, bool *stopped, struct error *error)
{
    struct going g = { .options = options, .plan = plan, .points = points, .file = file };
    *stopped = false;
    if (plan->count == 0) {
        return STATUS_OK;
    }
    g.settled = calloc(plan->count, sizeof *g.settled);
    if (g.settled == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: a plan of %u points", plan->count);
    }
    for (uint32_t i = 0; i < plan->count; i++) {
        g.settled[i] = points_find(points, &plan->items[i]) != NULL;
        g.before_s += g.settled[i] ? options->seconds / plan->count : 0;
        g.done += g.settled[i];
    }
    enum status status = go_on(&g, error);
    *stopped = g.stopped && g.done < plan->count;
    free(g.settled);
    return status;
}
