/* Running the plan: what comes next, what a point would cost, what is kept. */
#include "validate/calibrate/measure.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "sim/base/check.h"
#include "validate/calibrate/measure_batch.h"

enum { BATCH_REACH = 160 /* points further on in the plan do not join a batch */ };
/* The shortest look at a point may cost so many times what a point has on average, and at least so long: else it is left out. */
static const double COST_MAX = 4, COST_LEAST_S = 0.25;

static double clock_s(void)
{
    struct timespec now = { 0 };
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
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
    enum status status = g->file != NULL ? points_write(g->file, point, error) : STATUS_OK;
    if (status == STATUS_OK) {
        tell(g, point);
    } else {
        g->points->count--; /* what is not in the file is not kept */
    }
    return status;
}

/* Whether a point is worth its time; else it is left out. */
static bool affordable(struct going *g, uint32_t index)
{
    const struct point *wanted = &g->plan->items[index];
    double most_s = fmax(COST_MAX * allowance(g), COST_LEAST_S),
           expected_s = measures(g) ? predict(g->points, wanted) : 0;
    if (2 * MEASURE_PROBE_OPS * expected_s <= most_s) {
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
