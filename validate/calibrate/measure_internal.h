/* Inside the micro-benchmarks: plan, kernels, schedules (and measure_batch.h: runs, measure_gauge.h: what they say). */
#ifndef MEMWALL_VALIDATE_MEASURE_INTERNAL_H
#define MEMWALL_VALIDATE_MEASURE_INTERNAL_H

#include "validate/calibrate/measure.h"

/* How much a point tells: small budgets leave the later levels out. */
enum measure_level { LEVEL_CORE, LEVEL_MORE, LEVEL_ALL, MEASURE_LEVELS };

struct wanted {
    struct point point;
    enum measure_level level;
};
struct wanted_list {
    struct wanted *items;
    size_t count, capacity;
};

/* Adds, unless the list has it already. */
enum status want(struct wanted_list *list, enum measure_level level, const struct point *point, struct error *error);
/* The kernels of model graphs, optimizers and reductions. */
enum status want_kernels(const struct measure_options *options, struct wanted_list *list, struct error *error);
/* Which dtypes the options ask for. */
bool measures_dtype(const struct measure_options *options, enum dtype dtype);

/* How a point's seconds follow from the times of its series. */
enum bench_rule {
    BENCH_DURATION, /* median duration; of several series the longest */
    BENCH_PACE,     /* from end to end, along series 0 */
    BENCH_GAP,      /* from the end of one to the start of the next, along series 0 */
    BENCH_FRESH     /* series 0 is three ops: the second's pace beyond the third's */
};

enum { BENCH_NOBODY = UINT16_MAX, BENCH_POINTS_MAX = 32 };
/* Ops of a series in the first, short run: is it enough? */
enum { MEASURE_PROBE_OPS = 3 };

/* A schedule that measures several points, one after the other: so they share threads and memory, and each finds the caches as the others left them, as in a step. */
struct bench {
    struct schedule schedule;
    struct bench_op {
        uint16_t point,
            series; /* which point's, BENCH_NOBODY: none's; on how many queues it runs at once, which of them */
    } * ops;        /* [op_count] */
    uint16_t series_count[BENCH_POINTS_MAX];
    enum bench_rule rule; /* of all */
    uint32_t point_count;
};

/* Whether one bench can measure both. */
bool bench_joins(const struct measure_options *options, const struct point *a, const struct point *b);
/* A schedule in which point i's series have repeats[i] ops each. point_count <= BENCH_POINTS_MAX. */
enum status bench_build(const struct measure_options *options, const struct point *points, const uint32_t *repeats,
                        uint32_t point_count, struct bench *bench, struct error *error);
void bench_free(struct bench *bench);

#endif
