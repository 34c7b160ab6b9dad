/* Micro-benchmarks: a plan of points, each measured by running a small schedule on an executor. So a calibration measures by the very code that later runs the
 * steps, on host threads, GPUs, or (to check itself) in the simulator. */
#ifndef MEMWALL_VALIDATE_MEASURE_H
#define MEMWALL_VALIDATE_MEASURE_H

#include "sim/exec.h"
#include "validate/calibrate/points.h"

struct measure_options {
    const struct executor *executor;
    struct exec_options exec;          /* what every run gets; sim needs cluster and software */
    uint32_t devices;                  /* to use; >= 1 */
    uint64_t device_bytes, host_bytes; /* that a benchmark may take of each */
    double seconds;                    /* the whole plan's budget, roughly: decides repeats and how many shapes */
    bool storage;                      /* measure storage in exec.scratch_folder */
    /* After each point: how far, and the point just measured (NULL while it is being measured). False: stop and keep what there is. */
    bool (*progress)(void *context, uint32_t done, uint32_t total, double seconds_left, const struct point *point);
    void *progress_context;
};

/* The points that such a calibration wants, without times (seconds 0), in the order of measuring: the most telling first. */
enum status measure_plan(const struct measure_options *options, struct points *plan, struct error *error);
/* Measure those of `plan` that `points` does not have yet; each is appended to `points` and, when `file` is not NULL, written to it at once. *stopped: progress said so. */
enum status measure_points(const struct measure_options *options, const struct points *plan, struct points *points,
                           FILE *file, bool *stopped, struct error *error);

#endif
