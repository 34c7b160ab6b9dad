#include "validate/calibrate/measure_gauge.h"

#include <math.h>
#include <stdlib.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/units.h"

enum status gauge_init(struct gauge *gauge, const struct bench *bench, const bool *means, bool anyhow,
                       struct error *error)
{
    *gauge = (struct gauge){ .bench = bench, .means = means, .anyhow = anyhow };
    for (uint32_t i = 0; i < bench->point_count; i++) {
        gauge->first[i + 1] = gauge->first[i] + bench->series_count[i];
    }
    uint32_t series_count = gauge->first[bench->point_count];
    CHECK(series_count > 0);
    gauge->series = calloc(series_count, sizeof *gauge->series);
    return gauge->series == NULL ? error_set(error, STATUS_NO_MEMORY, "out of memory: a benchmark") : STATUS_OK;
}

void gauge_free(struct gauge *gauge)
{
    for (uint32_t i = 0; gauge->series != NULL && i < gauge->first[gauge->bench->point_count]; i++) {
        array_free(&gauge->series[i]);
    }
    free(gauge->series);
    *gauge = (struct gauge){ 0 };
}

static void take(struct gauge *gauge, uint32_t point, uint32_t series, int64_t ps)
{
    struct gauge_samples *samples = &gauge->series[gauge->first[point] + series];
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
        if (bench->ops[op].point != point || bench->ops[op].series != series ||
            (nth++ == 0 && count > MEASURE_PROBE_OPS) || t->start_ps < span.from_ps || t->end_ps > span.to_ps) {
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

void gauge_take(struct gauge *gauge, const struct timeline *timeline)
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

bool gauge_conclude(struct gauge *gauge, uint32_t index, struct point *point)
{
    point->seconds = -1;
    for (uint32_t i = 0; i < gauge->bench->series_count[index]; i++) {
        struct gauge_samples *samples = &gauge->series[gauge->first[index] + i];
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
