/* Peaks, memory-bound kernels and attention. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/base/check.h"
#include "sim/engine/kernel_cost.h"
#include "validate/fit/fit_internal.h"
#include "validate/fit/least_squares.h"

/* Above 1.1 of the data sheet's peak a measurement is wrong (an RTX 4090 reaches 1.08 by clocking above its nominal boost, facts/hardware.md A.2). */
static const double BEYOND_PEAK = 1.1;
/* A kernel within so many times the second-level cache may be faster than memory. */
static const double CACHED = 4;

static bool is_stream(const struct point *point, const void *key)
{
    (void)key;
    switch ((enum kernel_class)point->kernel.kernel_class) {
    case KERNEL_ELEMENTWISE:
    case KERNEL_NORM:
    case KERNEL_SOFTMAX:
    case KERNEL_GATHER:
    case KERNEL_OPTIMIZER:
    case KERNEL_REDUCE: return point->kind == POINT_KERNEL && point->at_once == 1;
    case KERNEL_GEMM:
    case KERNEL_ATTENTION_FORWARD:
    case KERNEL_ATTENTION_BACKWARD:
    case KERNEL_CLASS_COUNT: break;
    }
    return false;
}

static double bytes_of(const struct kernel *kernel)
{
    return kernel->bytes_read + kernel->bytes_written;
}

/* ---- peaks ---- */

static bool is_gemm_of(const struct point *point, const void *key)
{
    return point->kind == POINT_KERNEL && point->kernel.kernel_class == KERNEL_GEMM && point->at_once == 1 &&
           point->kernel.dtype == *(const enum dtype *)key;
}

static enum status fit_peak(struct fitter *fitter, enum dtype dtype)
{
    struct fit_set set;
    const struct point *best = NULL;
    double best_rate = 0, peak = fitter->gpu.peak_flops[dtype];
    bool nominal = fitter->on_host || !(peak > 0);
    TRY(fit_select(fitter, is_gemm_of, &dtype, &set));
    for (uint32_t i = 0; i < set.count; i++) {
        const struct kernel *k = &set.items[i]->kernel;
        double rate = 2.0 * (double)k->batch * (double)k->m * (double)k->n * (double)k->k / set.items[i]->seconds;
        if (rate > best_rate) {
            best_rate = rate;
            best = set.items[i];
        }
    }
    enum status status = STATUS_OK;
    if (best != NULL && !nominal && best_rate > BEYOND_PEAK * peak) {
        status = fit_refuse(fitter, best, "%.4g TFLOP/s, beyond 1.1 of the peak of %.4g TFLOP/s", 1e-12 * best_rate,
                            1e-12 * peak);
    } else if (best != NULL && nominal) {
        char path[64];
        (void)snprintf(path, sizeof path, "gpu.peak_TFLOPS.%s", dtype_word(dtype));
        fitter->gpu.peak_flops[dtype] = fitter->gpu.gemm[dtype].peak_flops = best_rate;
        fit_settle(fitter, path, 1e-12 * best_rate, 0, &set);
    }
    fit_set_free(&set);
    return status;
}

enum status fit_peaks(struct fitter *fitter)
{
    for (int d = 0; d < DTYPE_COUNT; d++) {
        TRY(fit_peak(fitter, (enum dtype)d));
    }
    return STATUS_OK;
}

/* ---- memory-bound kernels ---- */

/* Constants: a rate for each class with at least CLASS_LEAST points, then the floor that all share. */
enum { STREAM_FLOOR = KERNEL_CLASS_COUNT, CLASS_LEAST = 3 };

struct streams {
    struct fitter *fitter;
    struct fit_set set;
    uint32_t counts[KERNEL_CLASS_COUNT];
    double hbm_bytes_per_s; /* 0: to be found */
    struct machine_gpu gpu;
};

static void streams_set(void *context, const double *values)
{
    struct streams *streams = context;
    streams->gpu.hbm_bytes_per_s = 1; /* rates instead of shares of a bandwidth */
    for (int c = 0; c < KERNEL_CLASS_COUNT; c++) {
        streams->gpu.class_efficiency[c] = values[c];
    }
    streams->gpu.kernel_floor_s = values[STREAM_FLOOR];
}

static double stream_s(const struct streams *streams, const struct point *point)
{
    struct kernel_cost cost;
    kernel_cost(&streams->gpu, &point->kernel, &cost);
    return cost.alone_s;
}

static double streams_residual(void *context, uint32_t index)
{
    const struct streams *streams = context;
    const struct point *point = streams->set.items[index];
    return log(stream_s(streams, point) / point->seconds);
}

static enum status check_streams(const struct streams *streams)
{
    const struct fitter *fitter = streams->fitter;
    double peak = 1e9 * draft_get(fitter->draft, "gpu.hbm_peak_GBps", 0);
    double cache = 1e6 * draft_get(fitter->draft, "gpu.l2_MB", 0);
    for (uint32_t i = 0; !fitter->on_host && peak > 0 && i < streams->set.count; i++) {
        const struct point *point = streams->set.items[i];
        double bytes = bytes_of(&point->kernel), rate = bytes / point->seconds;
        if (bytes > CACHED * cache && rate > BEYOND_PEAK * peak) {
            return fit_refuse(fitter, point, "%.4g GB/s, beyond 1.1 of the memory's peak of %.4g GB/s", 1e-9 * rate,
                              1e-9 * peak);
        }
    }
    return STATUS_OK;
}

/* Drops points of classes with too few. */
static void keep_told(struct streams *streams)
{
    struct fit_set *set = &streams->set;
    uint32_t kept = 0, fitted = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        if (streams->counts[set->items[i]->kernel.kernel_class] >= CLASS_LEAST) {
            fitted += i < set->fitted;
            set->items[kept++] = set->items[i];
        }
    }
    set->count = kept;
    set->fitted = fitted;
}

/* Where the fit starts: rates and floor of the fastest and the shortest point. */
static void start_streams(struct streams *streams, struct lsq_constant constants[KERNEL_CLASS_COUNT + 1])
{
    const struct fit_set *set = &streams->set;
    double least_s = INFINITY, best[KERNEL_CLASS_COUNT] = { 0 };
    for (uint32_t i = 0; i < set->count; i++) {
        const struct kernel *kernel = &set->items[i]->kernel;
        streams->counts[kernel->kernel_class]++;
        best[kernel->kernel_class] = fmax(best[kernel->kernel_class], bytes_of(kernel) / set->items[i]->seconds);
        least_s = fmin(least_s, set->items[i]->seconds / kernel->launches);
    }
    for (int c = 0; c < KERNEL_CLASS_COUNT; c++) {
        bool told = streams->counts[c] >= CLASS_LEAST && best[c] > 0;
        constants[c] = (struct lsq_constant){
            .start = told ? best[c] : 1, .least = 1e-3, .greatest = 1e18, .prior_width = 0.7, .held = !told
        };
    }
    constants[STREAM_FLOOR] = (struct lsq_constant){
        .start = fmin(1e-3, fmax(1e-9, 0.8 * least_s)), .least = 1e-10, .greatest = 1, .prior_width = 1.5
    };
    keep_told(streams);
}

static enum status solve_streams(struct streams *streams, struct lsq_constant *constants)
{
    struct lsq_problem problem = { .constants = constants,
                                   .constant_count = KERNEL_CLASS_COUNT + 1,
                                   .point_count = streams->set.fitted,
                                   .starts = 3,
                                   .set = streams_set,
                                   .residual = streams_residual,
                                   .context = streams };
    TRY(lsq_fit(&problem, streams->fitter->error));
    if (constants[STREAM_FLOOR].held || constants[STREAM_FLOOR].certainty < 0.5) {
        return STATUS_OK;
    }
    /* No point is short enough to tell the floor: the draft's stands. */
    constants[STREAM_FLOOR].start = streams->fitter->gpu.kernel_floor_s;
    constants[STREAM_FLOOR].held = true;
    return lsq_fit(&problem, streams->fitter->error);
}

/* Where no data sheet says it: a little above what was reached, so that what was reached stays below it when both are rounded. */
static const double NOMINAL_PEAK = 1.001;

static void settle_streams(struct streams *streams, const struct lsq_constant *constants)
{
    struct fitter *fitter = streams->fitter;
    char path[96];
    if (!(streams->hbm_bytes_per_s > 0)) {
        const struct lsq_constant *fastest = NULL;
        for (int c = 0; c < KERNEL_CLASS_COUNT; c++) {
            fastest = !constants[c].held && (fastest == NULL || constants[c].value > fastest->value) ? &constants[c]
                                                                                                     : fastest;
        }
        CHECK(fastest != NULL);
        streams->hbm_bytes_per_s = fastest->value;
        fit_settle(fitter, "gpu.hbm_GBps", 1e-9 * fastest->value, 1e-9 * fastest->standard_error, &streams->set);
        if (1e9 * draft_get(fitter->draft, "gpu.hbm_peak_GBps", 0) < fastest->value) {
            fit_settle(fitter, "gpu.hbm_peak_GBps", NOMINAL_PEAK * 1e-9 * fastest->value, 0, &streams->set);
        }
    }
    fitter->gpu.hbm_bytes_per_s = streams->hbm_bytes_per_s;
    for (int c = 0; c < KERNEL_CLASS_COUNT; c++) {
        if (!constants[c].held) {
            fitter->gpu.class_efficiency[c] = fmin(1.5, constants[c].value / streams->hbm_bytes_per_s);
            (void)snprintf(path, sizeof path, "kernel_model.class_efficiency.%s",
                           kernel_class_word((enum kernel_class)c));
            fit_settle(fitter, path, fitter->gpu.class_efficiency[c],
                       constants[c].standard_error / streams->hbm_bytes_per_s, &streams->set);
        } else if (streams->counts[c] > 0) {
            fit_missing(fitter, "%s kernels: %u points, at least %d are needed: kernel_model.class_efficiency.%s",
                        kernel_class_word((enum kernel_class)c), streams->counts[c], CLASS_LEAST,
                        kernel_class_word((enum kernel_class)c));
        }
    }
    if (!constants[STREAM_FLOOR].held) {
        fitter->gpu.kernel_floor_s = constants[STREAM_FLOOR].value;
        fit_settle(fitter, "latency.kernel_floor_us", 1e6 * constants[STREAM_FLOOR].value,
                   1e6 * constants[STREAM_FLOOR].standard_error, &streams->set);
    } else {
        fit_missing(fitter, "shortest memory-bound kernel: no short points: latency.kernel_floor_us");
    }
}

static enum status report_streams(struct streams *streams)
{
    char what[FIT_WHAT_BYTES];
    for (int c = 0; c < KERNEL_CLASS_COUNT; c++) {
        struct fit_tally tally = { 0 };
        for (uint32_t i = 0; streams->counts[c] >= CLASS_LEAST && i < streams->set.count; i++) {
            const struct point *point = streams->set.items[i];
            if (point->kernel.kernel_class == c) {
                fit_tally_add(&tally, &streams->set, i, stream_s(streams, point));
            }
        }
        if (tally.points > 0) {
            (void)snprintf(what, sizeof what, "%s kernels", kernel_class_word((enum kernel_class)c));
            TRY(fit_tally_close(streams->fitter, what, &streams->set, &tally));
        }
    }
    return STATUS_OK;
}

enum status fit_streams(struct fitter *fitter)
{
    struct lsq_constant constants[KERNEL_CLASS_COUNT + 1];
    struct streams streams = { .fitter = fitter, .gpu = fitter->gpu };
    streams.hbm_bytes_per_s = fitter->on_host ? 0 : fitter->gpu.hbm_bytes_per_s;
    enum status status = STATUS_OK;
    TRY(fit_select(fitter, is_stream, NULL, &streams.set));
    fit_set_prefer_sure(&streams.set);
    TRY_OR_FAIL(check_streams(&streams));
    uint32_t given = streams.set.count;
    start_streams(&streams, constants);
    if (streams.set.fitted < FIT_POINTS_LEAST) {
        fit_missing(fitter,
                    "memory-bound kernels: %u points, at least %d of a class are needed: gpu.hbm_GBps, "
                    "kernel_model.class_efficiency, latency.kernel_floor_us",
                    given, FIT_POINTS_LEAST);
        goto fail;
    }
    TRY_OR_FAIL(solve_streams(&streams, constants));
    TRY_OR_FAIL(report_streams(&streams));
    settle_streams(&streams, constants);
fail:
    fit_set_free(&streams.set);
    return status;
}

/* ---- attention ---- */

struct attention {
    struct fit_set set;
    enum kernel_class kernel_class;
    bool forward;
    struct machine_gpu gpu;
};

/* Heads larger than 128, or unequal ones (which stand with their mean size), are padded by the kernels: not what the constants mean. */
static bool is_attention(const struct point *point, const void *key)
{
    const struct attention *attention = key;
    return point->kind == POINT_KERNEL && point->kernel.kernel_class == attention->kernel_class &&
           point->at_once == 1 && point->kernel.k <= 128 && attention->gpu.peak_flops[point->kernel.dtype] > 0;
}

static void attention_set(void *context, const double *values)
{
    struct attention *attention = context;
    double *efficiency = attention->forward ? &attention->gpu.attention_forward_efficiency
                                            : &attention->gpu.attention_backward_efficiency;
    double *tail =
        attention->forward ? &attention->gpu.attention_forward_tail : &attention->gpu.attention_backward_tail;
    *efficiency = values[0];
    *tail = values[1];
}

static double attention_s(const struct attention *attention, const struct point *point)
{
    struct kernel_cost cost;
    kernel_cost(&attention->gpu, &point->kernel, &cost);
    return cost.alone_s;
}

static double attention_residual(void *context, uint32_t index)
{
    const struct attention *attention = context;
    const struct point *point = attention->set.items[index];
    return log(attention_s(attention, point) / point->seconds);
}

static enum status fit_attention(struct fitter *fitter, struct attention *attention)
{
    const char *word = kernel_class_word(attention->kernel_class);
    const struct fit_set *set = &attention->set;
    struct fit_tally tally = { 0 };
    char path[96];
    if (set->count < FIT_POINTS_LEAST || !(fitter->gpu.hbm_bytes_per_s > 0)) {
        fit_missing(fitter,
                    "%s: %u points of heads up to 128, at least %d are needed: kernel_model.%s_efficiency, "
                    "kernel_model.%s_tail",
                    word, set->count, FIT_POINTS_LEAST, word, word);
        return STATUS_OK;
    }
    struct lsq_constant constants[2] = {
        { .start = 0.5, .least = 0.01, .greatest = 1, .prior_width = 1 },
        /* A thread has no others beside it that run dry. */
        { .start = fitter->on_host ? 0 : 0.5,
          .least = 0.001,
          .greatest = 10,
          .prior_width = 1,
          .held = fitter->on_host },
    };
    struct lsq_problem problem = { .constants = constants,
                                   .constant_count = 2,
                                   .point_count = set->fitted,
                                   .starts = 4,
                                   .set = attention_set,
                                   .residual = attention_residual,
                                   .context = attention };
    TRY(lsq_fit(&problem, fitter->error));
    for (uint32_t i = 0; i < set->count; i++) {
        fit_tally_add(&tally, set, i, attention_s(attention, set->items[i]));
    }
    TRY(fit_tally_close(fitter, word, set, &tally));
    (void)snprintf(path, sizeof path, "kernel_model.%s_efficiency", word);
    fit_settle(fitter, path, constants[0].value, constants[0].standard_error, set);
    (void)snprintf(path, sizeof path, "kernel_model.%s_tail", word);
    fit_settle(fitter, path, constants[1].value, constants[1].standard_error, set);
    return STATUS_OK;
}

enum status fit_attentions(struct fitter *fitter)
{
    for (int side = 0; side < 2; side++) {
        enum kernel_class kernel_class = side == 0 ? KERNEL_ATTENTION_FORWARD : KERNEL_ATTENTION_BACKWARD;
        struct attention attention = { .kernel_class = kernel_class, .forward = side == 0, .gpu = fitter->gpu };
        TRY(fit_select(fitter, is_attention, &attention, &attention.set));
        fit_set_prefer_sure(&attention.set);
        enum status status = fit_attention(fitter, &attention);
        fit_set_free(&attention.set);
        TRY(status);
    }
    return STATUS_OK;
}
