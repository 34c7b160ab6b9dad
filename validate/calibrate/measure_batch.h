/* Points measured together, by one schedule: run so often and so long that each is sure. */
#ifndef MEMWALL_VALIDATE_MEASURE_BATCH_H
#define MEMWALL_VALIDATE_MEASURE_BATCH_H

#include "validate/calibrate/measure_internal.h"

struct batch {
    struct point points[BENCH_POINTS_MAX];
    bool means[BENCH_POINTS_MAX];
    uint32_t repeats[BENCH_POINTS_MAX]; /* ops of a series */
    uint32_t count, runs, warmup_steps, steps;
    bool anyhow;
    bool left_out[BENCH_POINTS_MAX]; /* not an error that ends the calibration, but no time either: why */
    char why[192];
};

/* Measures the points of a batch (`points` and `count` are set), each in about `allowance_s`. */
enum status measure_batch(const struct measure_options *options, struct batch *batch, double allowance_s,
                          struct error *error);

#endif
