/* What the timelines of a bench say: the durations (paces, gaps) of each point's ops, and the point's seconds after them.
 *
 *     TRY(gauge_init(&gauge, &bench, means, anyhow, error));
 *     ... for each step: gauge_take(&gauge, timeline);
 *     gauge_conclude(&gauge, point, &points[point]);  gauge_free(&gauge); */
#ifndef MEMWALL_VALIDATE_MEASURE_GAUGE_H
#define MEMWALL_VALIDATE_MEASURE_GAUGE_H

#include "sim/ir/timeline.h"
#include "validate/calibrate/measure_internal.h"

struct gauge_samples {
    double *items;
    size_t count, capacity;
};

/* The runs of a bench. */
struct gauge {
    const struct bench *bench;
    struct gauge_samples *series; /* of all points: those of point p begin at first[p] */
    uint32_t first[BENCH_POINTS_MAX + 1];
    /* [point_count]: a step's mean is one sample. Threads take turns on cores, each op sees full speed or none */
    const bool *means;
    bool anyhow;    /* ops without company count too */
    bool failed;    /* out of memory; gauge_take cannot say so */
    uint32_t steps; /* taken */
};

/* `bench` and `means` are borrowed until gauge_free, which is due after an error too. */
enum status gauge_init(struct gauge *gauge, const struct bench *bench, const bool *means, bool anyhow,
                       struct error *error);
void gauge_take(struct gauge *gauge, const struct timeline *timeline);
/* Sets seconds (the longest of the medians of the point's series), spread_s (its median absolute deviation) and repeats. False when a series has nothing. */
bool gauge_conclude(struct gauge *gauge, uint32_t index, struct point *point);
void gauge_free(struct gauge *gauge);

#endif
