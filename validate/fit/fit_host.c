/* The host: its optimizer, the cost of issuing, first use of memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/base/check.h"
#include "sim/engine/cost_table.h"
#include "validate/fit/fit_internal.h"
#include "validate/fit/least_squares.h"

/* ---- cores that are busy together: clocks, caches and what else they share ---- */

/* Above this share of the DRAM's rate a kernel says more of the DRAM than of the cores. */
static const double DRAM_SHARE = 0.4;

static bool is_kernel(const struct point *point, const void *key)
{
    (void)key;
    return point->kind == POINT_KERNEL;
}

static bool is_same_kernel(const struct kernel *a, const struct kernel *b)
{
    return a->kernel_class == b->kernel_class && a->dtype == b->dtype && a->layout == b->layout &&
           a->launches == b->launches && a->batch == b->batch && a->m == b->m && a->n == b->n && a->k == b->k &&
           a->bytes_read == b->bytes_read && a->bytes_written == b->bytes_written;
}

static const struct point *alone_of(const struct fit_set *set, const struct point *together)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const struct point *point = set->items[i];
        if (point->at_once == 1 && is_same_kernel(&point->kernel, &together->kernel)) {
            return point;
        }
    }
    return NULL;
}

/* The median, over kernels that ran on all cores at once, of time alone / time together. */
enum status fit_cores(struct fitter *fitter)
{
    struct fit_set set;
    if (!fitter->on_host || fitter->cores < 2) {
        return STATUS_OK;
    }
    double dram = 1e9 * draft_get(fitter->draft, "links.ddr.GBps", 0);
    TRY(fit_select(fitter, is_kernel, NULL, &set));
    double *ratios = malloc((set.count + 1) * sizeof *ratios);
    uint32_t count = 0;
    if (ratios == NULL) {
        fit_set_free(&set);
        return error_set(fitter->error, STATUS_NO_MEMORY, "out of memory fitting %u points", set.count);
    }
    for (uint32_t i = 0; i < set.count; i++) {
        const struct point *point = set.items[i], *alone = alone_of(&set, point);
        double bytes = point->at_once * (point->kernel.bytes_read + point->kernel.bytes_written);
        bool by_cores = !(dram > 0) || bytes < DRAM_SHARE * dram * point->seconds;
        if (alone != NULL && point->at_once == fitter->cores && by_cores) {
            ratios[count++] = fmin(1, alone->seconds / point->seconds);
        }
    }
    if (count < FIT_POINTS_LEAST) {
        fit_missing(fitter,
                    "kernels on all %u cores at once, and alone: %u, at least %d are needed: host.cores_together",
                    fitter->cores, count, FIT_POINTS_LEAST);
    } else {
        double median = fit_median(ratios, count), spread = 0;
        for (uint32_t i = 0; i < count; i++) {
            spread += (ratios[i] - median) * (ratios[i] - median) / count;
        }
        fitter->cores_together = median;
        fit_settle(fitter, "host.cores_together", median, sqrt(spread / count), &set);
    }
    free(ratios);
    fit_set_free(&set);
    return STATUS_OK;
}

/* ---- optimizer: cores at so many parameters a second each, and the DRAM under them ---- */

struct optimizer {
    struct fit_set set;
    double cores, dram_bytes_per_s, latency_s; /* dram: infinite when unknown */
    double rate_a_core;
};

static bool is_optimizer(const struct point *point, const void *key)
{
    (void)key;
    return point->kind == POINT_HOST_OPTIMIZER;
}

static void optimizer_set(void *context, const double *values)
{
    struct optimizer *optimizer = context;
    optimizer->rate_a_core = values[0];
    optimizer->latency_s = values[1];
}

/* As the simulator counts (sim/engine/cost_work.c): ops at once share the cores of their socket. */
static double optimizer_s(const struct optimizer *optimizer, const struct point *point)
{
    double all = point->parameters * point->at_once;
    return optimizer->latency_s + fmax(all / (optimizer->cores * optimizer->rate_a_core),
                                       all * HOST_OPTIMIZER_BYTES_PER_PARAMETER / optimizer->dram_bytes_per_s);
}

static double optimizer_residual(void *context, uint32_t index)
{
    const struct optimizer *optimizer = context;
    return log(optimizer_s(optimizer, optimizer->set.items[index]) / optimizer->set.items[index]->seconds);
}

static enum status solve_optimizer(struct fitter *fitter, struct optimizer *optimizer)
{
    struct fit_tally tally = { 0 };
    double best = 0, least_s = INFINITY;
    for (uint32_t i = 0; i < optimizer->set.count; i++) {
        const struct point *point = optimizer->set.items[i];
        best = fmax(best, point->parameters * point->at_once / point->seconds / optimizer->cores);
        least_s = fmin(least_s, point->seconds);
    }
    bool several = optimizer->set.count >= FIT_POINTS_LEAST;
    struct lsq_constant constants[2] = {
        { .start = best, .least = 1e-3, .greatest = 1e15, .prior_width = 0.7 },
        /* A fixed part, so that short ops do not pull the rate down; no constant of the machine. */
        { .start = several ? 0.1 * least_s : 1e-12,
          .least = 1e-12,
          .greatest = 1e6,
          .prior_width = 2,
          .held = !several },
    };
    struct lsq_problem problem = { .constants = constants,
                                   .constant_count = 2,
                                   .point_count = optimizer->set.fitted,
                                   .starts = 3,
                                   .set = optimizer_set,
                                   .residual = optimizer_residual,
                                   .context = optimizer };
    TRY(lsq_fit(&problem, fitter->error));
    for (uint32_t i = 0; i < optimizer->set.count; i++) {
        fit_tally_add(&tally, &optimizer->set, i, optimizer_s(optimizer, optimizer->set.items[i]));
    }
    TRY(fit_tally_close(fitter, "host optimizer", &optimizer->set, &tally));
    if (constants[0].certainty > 0.9) {
        fit_missing(fitter, "host optimizer: the DRAM is full before the cores: host.adam_Gparameters_per_s_core");
    }
    fit_settle(fitter, "host.adam_Gparameters_per_s_core", 1e-9 * constants[0].value,
               several ? 1e-9 * constants[0].standard_error : 0, &optimizer->set);
    return STATUS_OK;
}

enum status fit_host_optimizer(struct fitter *fitter)
{
    struct optimizer optimizer = { .cores = fmax(1, fitter->cores) * fitter->cores_together };
    double dram = 1e9 * draft_get(fitter->draft, "links.ddr.GBps", 0);
    optimizer.dram_bytes_per_s = dram > 0 ? dram : INFINITY;
    TRY(fit_select(fitter, is_optimizer, NULL, &optimizer.set));
    fit_set_prefer_sure(&optimizer.set);
    enum status status = STATUS_OK;
    if (optimizer.set.count == 0) {
        fit_missing(fitter, "host optimizer: no points: host.adam_Gparameters_per_s_core");
    } else {
        status = solve_optimizer(fitter, &optimizer);
    }
    fit_set_free(&optimizer.set);
    return status;
}

/* ---- issuing ---- */

static bool is_issue(const struct point *point, const void *key)
{
    return point->kind == POINT_ISSUE && point->issue == *(const enum issue_what *)key;
}

enum status fit_issue(struct fitter *fitter)
{
    /* What nothing costs in its queue's order is the gap between two kernels; after another queue's op it is an event more. */
    static const struct {
        enum issue_what what;
        const char *path;
    } COSTS[] = { { ISSUE_OP, "latency.kernel_gap_us" },
                  { ISSUE_KERNEL, "latency.kernel_launch_us" },
                  { ISSUE_COPY, "latency.memcpy_call_us" },
                  { ISSUE_WAKE, "latency.event_sync_us" } };
    for (size_t c = 0; c < sizeof COSTS / sizeof COSTS[0]; c++) {
        struct fit_set set;
        struct fit_tally tally = { 0 };
        char what[FIT_WHAT_BYTES];
        TRY(fit_select(fitter, is_issue, &COSTS[c].what, &set));
        fit_set_prefer_sure(&set);
        if (set.count == 0) {
            fit_missing(fitter, "issue of one %s: not measured: %s", issue_word(COSTS[c].what), COSTS[c].path);
            continue;
        }
        double *seconds = malloc(set.count * sizeof *seconds), spread = 0;
        if (seconds == NULL) {
            fit_set_free(&set);
            return error_set(fitter->error, STATUS_NO_MEMORY, "out of memory fitting %u points", set.count);
        }
        for (uint32_t i = 0; i < set.count; i++) {
            const struct point *point = set.items[i];
            seconds[i] = point->seconds;
            /* Standard error of a median of normal values: 1.2533 sigma / sqrt(n), sigma = 1.4826 median absolute deviations. */
            spread = fmax(spread, point->repeats > 0 ? 1.2533 * 1.4826 * point->spread_s / sqrt(point->repeats) : 0);
        }
        double median = fit_median(seconds, set.count);
        free(seconds);
        for (uint32_t i = 0; i < set.count; i++) {
            fit_tally_add(&tally, &set, i, median);
        }
        (void)snprintf(what, sizeof what, "issue of one %s", issue_word(COSTS[c].what));
        enum status status = fit_tally_close(fitter, what, &set, &tally);
        if (status == STATUS_OK) {
            fit_settle(fitter, COSTS[c].path, 1e6 * median, 1e6 * spread, &set);
        }
        fit_set_free(&set);
        TRY(status);
    }
    return STATUS_OK;
}

/* ---- first use of memory: told, not a constant of the machine ---- */

static bool is_allocation(const struct point *point, const void *key)
{
    (void)key;
    return point->kind == POINT_ALLOCATION;
}

/* Small and huge pages behave as two machines do: no law is fitted, the largest is told. */
enum status fit_allocation(struct fitter *fitter)
{
    struct fit_set set;
    TRY(fit_select(fitter, is_allocation, NULL, &set));
    const struct point *largest = NULL;
    for (uint32_t i = 0; i < set.count; i++) {
        largest = largest == NULL || set.items[i]->bytes > largest->bytes ? set.items[i] : largest;
    }
    if (largest != NULL) {
        fit_missing(fitter, "first use of memory: %.3g GB/s at %.4g MiB; the model has no constant for it",
                    1e-9 * largest->bytes / largest->seconds, largest->bytes / 1048576);
    }
    fit_set_free(&set);
    return STATUS_OK;
}
