/* GEMM constants (sim/engine/kernel_cost.h) of each pipe of the machine: fp16 and bf16 of equal peak are one pipe and share them.
 *
 * Sources in doubt (another board of the same generation: fit_points; a virtual machine) have a plateau of their own: they tell the shape constants, the sources that are not in doubt
 * tell the machine's plateau as well. When all are in doubt, the one with most points stands for the machine.
 *
 * What moves: everything but
 *   boost, boost_s   only where the draft has a boost to start from, and boost_s only with loads both well below and well above it
 *   chip_share       as boost_s: what limits the whole chip and what its SMs do are one rate to points that all came before or all after the boost
 *   wave_traffic     as boost_s: the products whose waves read much are the longest, and would take the power limit's part for theirs
 *   sm_efficiency    not where there is a boost and no load is four times as long as boost_s: nothing shows the sustained rate
 *   tile_s           held on GPUs: fits pull it to 0, where small K would cost nothing; about 400 cycles of load latency
 *   tn, nt factors   only with enough points of that layout and of the others
 *   floor_s          only with launches within four times the usual floor
 * and at most one constant for every three points, in the order of ORDER.
 * Points tell what load since rest they were timed at; of those that do not, it is taken to be that of a usual benchmark: as many launches from rest to warm up and
 * in all as SimuMax's tool makes (validate/kernel_rows.h).
 * A constant that stays about as uncertain as its prior is put back to what the draft has (else to the usual value), and the rest is fitted again. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/engine/kernel_cost.h"
#include "validate/fit/fit_internal.h"
#include "validate/fit/least_squares.h"
#include "validate/kernel_rows.h"

enum { PLATEAUS_MAX = LSQ_CONSTANTS_MAX - GEMM_CONSTANT_COUNT, STARTS = 8 };
static const double UNLEARNED = 0.7;  /* certainty above which a constant was not told */
static const double LONG_LOAD = 4;    /* in boost_s */
static const double SHORT_LAUNCH = 4; /* in usual floors */
enum { POINTS_A_CONSTANT = 3 };

static const struct {
    const char *key;
    double least, greatest;
} CONSTANTS[GEMM_CONSTANT_COUNT] = {
#define X(name, key, least, greatest, meaning) [name] = { key, least, greatest },
    GEMM_CONSTANT_TABLE(X)
#undef X
};

/* Where fits begin and the width of their priors (on the logarithm; wave_share on the logistic): the middle of what A100, H100 and B200 gave; a host thread's products. */
static const struct {
    double usual, width, host_usual, host_width;
} PRIORS[GEMM_CONSTANT_COUNT] = {
    [GEMM_SM_EFFICIENCY] = { 0.8, 0.7, 0.9, 0.5 },
    [GEMM_BOOST] = { 1.4, 0.5, 1, 0 },
    [GEMM_BOOST_S] = { 0.08, 1, 0, 0 },
    [GEMM_SHARPNESS] = { 3, 0.3, 3, 0.5 },
    [GEMM_TILE_LOSS] = { 0.2, 0.4, 0, 0 },
    [GEMM_TILE_S] = { 3e-7, 0, 1e-7, 2 },
    [GEMM_OUTPUT_EXPOSED] = { 0.5, 0.7, 0.5, 1 },
    [GEMM_WAVE_SHARE] = { 0.7, 1.5, 0.7, 1.5 },
    [GEMM_SPLIT_S] = { 1e-5, 1.5, 1e-5, 1.5 },
    [GEMM_TN_FACTOR] = { 1, 0.15, 1, 0.3 },
    [GEMM_NT_FACTOR] = { 1, 0.15, 1, 0.3 },
    [GEMM_FLOOR_S] = { 3e-6, 0.7, 1e-6, 1.5 },
    [GEMM_INPUT_EXPOSED] = { 0, 0, 0.5, 1.5 },
    [GEMM_CHIP_SHARE] = { 0.7, 0.3, 0, 0 },
    [GEMM_WAVE_TRAFFIC] = { 1, 0.3, 0, 0 }, /* all of it */
};

/* What few points tell first. */
static const enum gemm_constant ORDER[GEMM_CONSTANT_COUNT] = {
    GEMM_SM_EFFICIENCY, GEMM_FLOOR_S,        GEMM_INPUT_EXPOSED, GEMM_SPLIT_S,    GEMM_BOOST,
    GEMM_TILE_LOSS,     GEMM_OUTPUT_EXPOSED, GEMM_WAVE_SHARE,    GEMM_TILE_S,     GEMM_SHARPNESS,
    GEMM_TN_FACTOR,     GEMM_NT_FACTOR,      GEMM_BOOST_S,       GEMM_CHIP_SHARE, GEMM_WAVE_TRAFFIC,
};

struct gemm_key {
    bool dtypes[DTYPE_COUNT];
};

struct gemms {
    struct fitter *fitter;
    struct gemm_key key;
    enum dtype first; /* of the pipe */
    struct fit_set set;
    const char *plateaus[PLATEAUS_MAX]; /* sources in doubt */
    uint32_t plateau_count;
    struct lsq_constant constants[LSQ_CONSTANTS_MAX];
    struct machine_gpu gpus[PLATEAUS_MAX + 1]; /* the machine, then as each source in doubt sees it */
};

static bool is_gemm(const struct point *point, const void *key)
{
    const struct gemm_key *of = key;
    return point->kind == POINT_KERNEL && point->kernel.kernel_class == KERNEL_GEMM && point->at_once == 1 &&
           of->dtypes[point->kernel.dtype];
}

static uint32_t plateau_of(const struct gemms *gemms, const struct point *point)
{
    for (uint32_t i = 0; point->in_doubt && i < gemms->plateau_count; i++) {
        if (strcmp(gemms->plateaus[i], point->source) == 0) {
            return i + 1;
        }
    }
    return 0;
}

static void gemms_set(void *context, const double *values)
{
    struct gemms *gemms = context;
    for (uint32_t g = 0; g <= gemms->plateau_count; g++) {
        for (int d = 0; d < DTYPE_COUNT; d++) {
            if (gemms->key.dtypes[d]) {
                memcpy(gemms->gpus[g].gemm[d].values, values, GEMM_CONSTANT_COUNT * sizeof *values);
                gemms->gpus[g].gemm[d].present = true;
                gemms->gpus[g].gemm[d].values[GEMM_SM_EFFICIENCY] =
                    values[g == 0 ? (uint32_t)GEMM_SM_EFFICIENCY : GEMM_CONSTANT_COUNT + g - 1];
            }
        }
    }
}

static struct kernel_load usual_load(double alone_s)
{
    return (struct kernel_load){ KERNEL_ROWS_WARM_LAUNCHES * alone_s, KERNEL_ROWS_LAUNCHES * alone_s };
}

double fit_kernel_s(const struct machine_gpu *gpu, const struct point *point)
{
    struct kernel_cost cost;
    struct kernel_load load = { point->load_from_s, point->load_to_s };
    if (!(load.to_s > 0)) {
        kernel_cost(gpu, &point->kernel, &cost);
        load = usual_load(cost.alone_s);
    }
    kernel_cost_from_rest(gpu, &point->kernel, load, &cost);
    return cost.alone_s;
}

static double gemm_s(const struct gemms *gemms, const struct point *point)
{
    return fit_kernel_s(&gemms->gpus[plateau_of(gemms, point)], point);
}

static double gemms_residual(void *context, uint32_t index)
{
    const struct gemms *gemms = context;
    const struct point *point = gemms->set.items[index];
    return log(gemm_s(gemms, point) / point->seconds);
}

/* A plateau for each source in doubt; when no other points are left for the machine, the largest of them is the machine's. */
static void find_plateaus(struct gemms *gemms)
{
    uint32_t counts[PLATEAUS_MAX] = { 0 }, sure = 0;
    for (uint32_t i = 0; i < gemms->set.count; i++) {
        const struct point *point = gemms->set.items[i];
        uint32_t plateau = plateau_of(gemms, point);
        if (plateau == 0 && point->in_doubt && gemms->plateau_count < PLATEAUS_MAX) {
            gemms->plateaus[gemms->plateau_count++] = point->source;
            plateau = gemms->plateau_count;
        }
        if (plateau > 0) {
            counts[plateau - 1]++;
        } else {
            sure++;
        }
    }
    if (sure == 0 && gemms->plateau_count > 0) {
        uint32_t largest = 0;
        for (uint32_t p = 1; p < gemms->plateau_count; p++) {
            largest = counts[p] > counts[largest] ? p : largest;
        }
        gemms->plateaus[largest] = gemms->plateaus[--gemms->plateau_count];
    }
}

/* What the draft has, or else the usual value. */
static double kept_value(const struct gemms *gemms, int c)
{
    const struct fitter *fitter = gemms->fitter;
    const struct machine_gemm_constants *old = &fitter->gpu.gemm[gemms->first];
    const struct machine_gemm_constants *half = &fitter->gpu.gemm[DTYPE_FP16];
    if (old->present && !fitter->on_host) {
        return old->values[c];
    }
    if (half->present && gemms->first != DTYPE_FP32 && c != GEMM_BOOST && c != GEMM_BOOST_S) {
        return half->values[c]; /* of the same tensor cores */
    }
    return c == GEMM_BOOST                                                      ? 1
           : gemm_constant_can_lack((enum gemm_constant)c) || c == GEMM_BOOST_S ? 0
           : fitter->on_host                                                    ? PRIORS[c].host_usual
                                                                                : PRIORS[c].usual;
}

struct gemm_range {
    double shortest_s, least_load_s, greatest_load_s;
    uint32_t layouts[3];
};

static bool may_move(const struct gemms *gemms, int c, const struct gemm_range *range)
{
    const struct machine_gemm_constants *old = &gemms->fitter->gpu.gemm[gemms->first];
    bool boosted = old->present && old->values[GEMM_BOOST] > 1 && !gemms->fitter->on_host;
    double boost_s = boosted ? old->values[GEMM_BOOST_S] : 0;
    uint32_t all = gemms->set.count, tn = range->layouts[GEMM_TN], nt = range->layouts[GEMM_NT];
    switch ((enum gemm_constant)c) {
    case GEMM_SM_EFFICIENCY: return !boosted || range->greatest_load_s > LONG_LOAD * boost_s;
    case GEMM_BOOST: return boosted;
    case GEMM_BOOST_S:
    case GEMM_CHIP_SHARE:
    case GEMM_WAVE_TRAFFIC:
        return boosted && range->greatest_load_s > LONG_LOAD * boost_s && range->least_load_s * LONG_LOAD < boost_s;
    case GEMM_TILE_S:
    case GEMM_INPUT_EXPOSED: return gemms->fitter->on_host;
    case GEMM_TN_FACTOR: return tn >= FIT_POINTS_LEAST && all - tn >= FIT_POINTS_LEAST;
    case GEMM_NT_FACTOR: return nt >= FIT_POINTS_LEAST && all - nt >= FIT_POINTS_LEAST;
    case GEMM_FLOOR_S: return gemms->fitter->on_host || range->shortest_s < SHORT_LAUNCH * PRIORS[GEMM_FLOOR_S].usual;
    case GEMM_TILE_LOSS: return !gemms->fitter->on_host; /* a host's products have no tiles of that size */
    case GEMM_SHARPNESS:
    case GEMM_OUTPUT_EXPOSED:
    case GEMM_WAVE_SHARE:
    case GEMM_SPLIT_S: return true;
    case GEMM_CONSTANT_COUNT: break;
    }
    return false;
}

static void hold(struct gemms *gemms, int c)
{
    gemms->constants[c].held = true;
    gemms->constants[c].start = kept_value(gemms, c);
}

static void start_constants(struct gemms *gemms)
{
    bool on_host = gemms->fitter->on_host;
    struct gemm_range range = { .shortest_s = INFINITY, .least_load_s = INFINITY };
    uint32_t moving = gemms->plateau_count;
    for (uint32_t i = 0; i < gemms->set.count; i++) {
        const struct point *point = gemms->set.items[i];
        range.shortest_s = fmin(range.shortest_s, point->seconds);
        struct kernel_load usual = usual_load(point->seconds);
        bool told = point->load_to_s > 0;
        range.least_load_s = fmin(range.least_load_s, told ? point->load_to_s : usual.to_s);
        range.greatest_load_s = fmax(range.greatest_load_s, told ? point->load_from_s : usual.from_s);
        range.layouts[point->kernel.layout]++;
    }
    for (int c = 0; c < GEMM_CONSTANT_COUNT; c++) {
        gemms->constants[c] = (struct lsq_constant){
            .start = on_host ? PRIORS[c].host_usual : PRIORS[c].usual,
            .prior_width = on_host ? PRIORS[c].host_width : PRIORS[c].width,
            .least = CONSTANTS[c].least,
            .greatest = CONSTANTS[c].greatest,
            .scale = c == GEMM_WAVE_SHARE ? LSQ_LOGISTIC : LSQ_LOG,
        };
    }
    for (int i = 0; i < GEMM_CONSTANT_COUNT; i++) {
        if (may_move(gemms, (int)ORDER[i], &range) && POINTS_A_CONSTANT * (moving + 1) <= gemms->set.fitted) {
            moving++;
        } else {
            hold(gemms, (int)ORDER[i]);
        }
    }
    for (uint32_t p = 0; p < gemms->plateau_count; p++) {
        struct lsq_constant *own = &gemms->constants[GEMM_CONSTANT_COUNT + p];
        *own = gemms->constants[GEMM_SM_EFFICIENCY];
        own->start = PRIORS[GEMM_SM_EFFICIENCY].usual;
        own->prior_width = PRIORS[GEMM_SM_EFFICIENCY].width;
        own->held = false;
    }
}

/* Fits; puts back what was not told; fits again. The plateau stays free: it is what every point is about. */
static enum status solve(struct gemms *gemms)
{
    struct lsq_problem problem = { .constants = gemms->constants,
                                   .constant_count = GEMM_CONSTANT_COUNT + gemms->plateau_count,
                                   .point_count = gemms->set.fitted,
                                   .starts = STARTS,
                                   .set = gemms_set,
                                   .residual = gemms_residual,
                                   .context = gemms };
    bool put_back = false;
    struct lsq_constant *limit = &gemms->constants[GEMM_CHIP_SHARE];
    TRY(lsq_fit(&problem, gemms->fitter->error));
    if (!limit->held && fmax(limit->certainty, gemms->constants[GEMM_BOOST].certainty) > UNLEARNED) {
        hold(gemms, GEMM_CHIP_SHARE); /* few points cannot tell it and the boost apart: the boost first */
        TRY(lsq_fit(&problem, gemms->fitter->error));
    }
    for (int c = 0; c < GEMM_CONSTANT_COUNT; c++) {
        if (!gemms->constants[c].held && c != GEMM_SM_EFFICIENCY && gemms->constants[c].certainty > UNLEARNED) {
            hold(gemms, c);
            put_back = true;
        }
    }
    return put_back ? lsq_fit(&problem, gemms->fitter->error) : STATUS_OK;
}

static void settle(struct gemms *gemms)
{
    struct fitter *fitter = gemms->fitter;
    char path[96];
    for (int d = 0; d < DTYPE_COUNT; d++) {
        struct machine_gemm_constants *constants = &fitter->gpu.gemm[d];
        if (!gemms->key.dtypes[d]) {
            continue;
        }
        for (int c = 0; c < GEMM_CONSTANT_COUNT; c++) {
            const struct lsq_constant *from = &gemms->constants[c];
            (void)snprintf(path, sizeof path, "kernel_model.gemm.%s.%s", dtype_word((enum dtype)d), CONSTANTS[c].key);
            constants->values[c] = from->value;
            if (!from->held) {
                fit_settle(fitter, path, from->value, from->standard_error, &gemms->set);
            } else if (gemm_constant_can_lack((enum gemm_constant)c) && !fitter->on_host) {
                continue; /* where there is none, none is told */
            } else if (!draft_has(fitter->draft, path) || fitter->on_host) {
                draft_number(fitter->draft, path, from->value, 0, "usual value: the points do not tell it", true);
            }
        }
        constants->present = true;
    }
    struct strbuf untold = { 0 };
    for (int c = 0; c < GEMM_CONSTANT_COUNT; c++) {
        if (gemms->constants[c].held) {
            strbuf_printf(&untold, "%s%s", untold.length > 0 ? ", " : "", CONSTANTS[c].key);
        }
    }
    if (untold.length > 0 && !untold.failed) {
        fit_missing(fitter, "gemm %s: the shapes do not tell kernel_model.gemm.%s.{%s}", dtype_word(gemms->first),
                    dtype_word(gemms->first), untold.text);
    }
    strbuf_free(&untold);
}

/* A line for the machine's own points and one for each source in doubt. */
static enum status report(struct gemms *gemms)
{
    char what[FIT_WHAT_BYTES];
    struct fit_set own = { .items = malloc(gemms->set.count * sizeof(void *)) };
    enum status status = STATUS_OK;
    if (own.items == NULL) {
        return error_set(gemms->fitter->error, STATUS_NO_MEMORY, "out of memory fitting %u points", gemms->set.count);
    }
    for (uint32_t g = 0; g <= gemms->plateau_count && status == STATUS_OK; g++) {
        struct fit_tally tally = { 0 };
        own.count = 0;
        for (uint32_t i = 0; i < gemms->set.count; i++) {
            if (plateau_of(gemms, gemms->set.items[i]) == g) {
                fit_tally_add(&tally, &gemms->set, i, gemm_s(gemms, gemms->set.items[i]));
                own.items[own.count++] = gemms->set.items[i];
            }
        }
        int length = snprintf(what, sizeof what, "gemm %s", dtype_word(gemms->first));
        if (g > 0) {
            (void)snprintf(what + length, sizeof what - (size_t)length, ", in doubt: plateau %.3f",
                           gemms->constants[GEMM_CONSTANT_COUNT + g - 1].value);
        }
        if (tally.points > 0) {
            status = fit_tally_close(gemms->fitter, what, &own, &tally);
        }
    }
    free(own.items);
    return status;
}

static enum status fit_pipe(struct gemms *gemms)
{
    struct fitter *fitter = gemms->fitter;
    const char *word = dtype_word(gemms->first);
    if (gemms->set.count == 0) {
        return STATUS_OK;
    }
    if (gemms->set.count < FIT_POINTS_LEAST || !(fitter->gpu.hbm_bytes_per_s > 0)) {
        fit_missing(fitter, "gemm %s: %u points%s: kernel_model.gemm.%s", word, gemms->set.count,
                    gemms->set.count < FIT_POINTS_LEAST ? ", at least 5 are needed"
                                                        : " and no memory-bound kernel to tell gpu.hbm_GBps",
                    word);
        return STATUS_OK;
    }
    find_plateaus(gemms);
    for (uint32_t g = 0; g <= gemms->plateau_count; g++) {
        gemms->gpus[g] = fitter->gpu;
    }
    start_constants(gemms);
    TRY(solve(gemms));
    TRY(report(gemms));
    settle(gemms);
    return STATUS_OK;
}

enum status fit_gemms(struct fitter *fitter)
{
    bool done[DTYPE_COUNT] = { false };
    for (int d = 0; d < DTYPE_COUNT; d++) {
        struct gemms gemms = { .fitter = fitter, .first = (enum dtype)d };
        if (done[d] || !(fitter->gpu.peak_flops[d] > 0)) {
            continue;
        }
        gemms.key.dtypes[d] = done[d] = true;
        if (d == DTYPE_FP16 && !fitter->on_host && fitter->gpu.peak_flops[DTYPE_BF16] == fitter->gpu.peak_flops[d]) {
            gemms.key.dtypes[DTYPE_BF16] = done[DTYPE_BF16] = true;
        }
        TRY(fit_select(fitter, is_gemm, &gemms.key, &gemms.set));
        enum status status = fit_pipe(&gemms);
        fit_set_free(&gemms.set);
        TRY(status);
    }
    return STATUS_OK;
}
