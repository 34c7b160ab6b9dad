/* Micro-benchmarks: a plan of points, each measured by running a small schedule on an executor. So a calibration measures by the very code that later runs the
 * steps, on host threads, GPUs, or (to check itself) in the simulator.
 *
 * A point is the median duration of one op of a series of equal ones, back to back in their queues; where several run at the same moment, only ops that had all the
 * others beside them from start to end count. Points of a kind share a schedule: starting an executor is dear, and each finds memory and caches as in a step. Kernels are those of the model graph (sim/model/layer.h) and of the optimizer (sim/plan), for a few
 * models of different size, so that a fit sees what steps will ask for.
 *
 *     const struct measure_options options = { .executor = executor, .devices = 8, .cores = 2, .on_host = true, .device_bytes = GIB, .host_bytes = GIB, .seconds = 60,
 *                                              .source = "measured: host executor on my-box" };
 *     TRY(measure_plan(&options, &plan, error));
 *     TRY(measure_points(&options, &plan, &points, file, &stopped, error)); */
#ifndef MEMWALL_VALIDATE_MEASURE_H
#define MEMWALL_VALIDATE_MEASURE_H

#include "sim/exec.h"
#include "validate/calibrate/points.h"

struct measure_options {
    const struct executor *executor;
    struct exec_options exec; /* what every run gets, but for steps and warm-up; sim needs cluster and software */
    uint32_t devices;         /* to use; >= 1 */
    uint32_t cores;  /* of the host (of one socket): ops that run on them are measured one to so many at once; 0: 1 */
    bool on_host;    /* devices are threads of the host: kernels are measured several at once too */
    uint32_t dtypes; /* bit by enum dtype: of products and attention; 0: fp32, fp16, bf16 */
    uint64_t device_bytes, host_bytes; /* that a benchmark may take of each device, of the host */
    double seconds;                    /* the whole plan's budget, roughly: decides repeats and how many shapes */
    bool storage;                      /* measure storage in exec.scratch_folder */
    const char *source;                /* of the points; NULL: "measured" */
    /* Before the points of a schedule (`point`: the first, without time) and after each of them (with): how far. False: stop and keep what there is. NULL: none. */
    bool (*progress)(void *context, uint32_t done, uint32_t total, double seconds_left, const struct point *point);
    /* A point that is left out: it would take too long, does not fit, or the executor cannot. NULL: none. */
    void (*left_out)(void *context, const struct point *point, const char *why);
    void *progress_context;
};

/* The points that such a calibration wants, without times (seconds 0), in the order of measuring: the most telling first. */
enum status measure_plan(const struct measure_options *options, struct points *plan, struct error *error);
/* Measure those of `plan` that `points` does not have yet; each is appended to `points` and, when `file` is not NULL, written to it at once. *stopped: progress said so.
 * What takes no time at all (a mark, simulated) gives no point. */
enum status measure_points(const struct measure_options *options, const struct points *plan, struct points *points,
                           FILE *file, bool *stopped, struct error *error);

#endif
