/* Collectives: one curve of bus bandwidth over bytes for each kind, number of ranks and number of servers, and what they say of the whole server.
 *
 * Of several sources of one curve, the one with most points (not in doubt, if any is not) holds its whole stretch; the others only go on beyond its ends. Up to 32 sizes
 * stand as they are; more are thinned to 24 of them, spread evenly over the logarithm of the bytes, each a robust least-squares fit (on double
 * logarithmic paper) of the broken line to all points around it, which smooths them. */
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/engine/collective_cost.h"
#include "validate/fit/fit_internal.h"

enum { CURVE_LEAST = 2, KNOTS_MAX = 32, KNOTS_THINNED = 24, ROBUST_ROUNDS = 6 };
static const double WIDTH = 0.03;        /* of the pseudo-Huber weights */
static const double SMALL_BYTES = 65536; /* time of these is latency */
/* Bus bandwidth beyond twice a GPU's links: in-switch reduction reaches 2 (n-1)/(n+1) of them. */
static const double BEYOND_LINKS = 2.2;

struct curve_key {
    enum collective_kind kind;
    uint32_t ranks, nodes;
    bool peers; /* copies between two devices stand for send_recv */
};

static bool is_of_curve(const struct point *point, const void *key)
{
    const struct curve_key *of = key;
    if (of->peers) {
        return point->kind == POINT_COPY && point->way == COPY_PEER && point->at_once == 1;
    }
    return point->kind == POINT_COLLECTIVE && point->collective == of->kind && point->ranks == of->ranks &&
           point->nodes == of->nodes;
}

static double bus_of(const struct curve_key *key, double bytes, double seconds)
{
    return bytes * collective_bus_factor(key->kind, key->ranks) / seconds;
}

/* ---- one source for one stretch ---- */

static const char *main_source(const struct fit_set *set)
{
    const char *best = NULL;
    uint32_t best_count = 0;
    bool doubt = fit_set_in_doubt(set);
    for (uint32_t i = 0; i < set->count; i++) {
        uint32_t count = 0;
        for (uint32_t k = 0; k < set->count; k++) {
            count += strcmp(set->items[k]->source, set->items[i]->source) == 0 &&
                     set->items[k]->in_doubt == set->items[i]->in_doubt;
        }
        if ((doubt || !set->items[i]->in_doubt) && count > best_count) {
            best = set->items[i]->source;
            best_count = count;
        }
    }
    return best;
}

static void keep_one_source(struct fit_set *set)
{
    const char *source = main_source(set);
    double least = INFINITY, greatest = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        if (strcmp(set->items[i]->source, source) == 0) {
            least = fmin(least, set->items[i]->bytes);
            greatest = fmax(greatest, set->items[i]->bytes);
        }
    }
    uint32_t kept = 0, fitted = 0;
    bool doubt = fit_set_in_doubt(set);
    for (uint32_t i = 0; i < set->count; i++) {
        const struct point *point = set->items[i];
        bool beyond = (point->bytes < least || point->bytes > greatest) && (doubt || !point->in_doubt);
        if (strcmp(point->source, source) == 0 || beyond) {
            fitted += i < set->fitted;
            set->items[kept++] = point;
        }
    }
    set->count = kept;
    set->fitted = fitted;
}

/* ---- the broken line ---- */

struct broken_line {
    double x[KNOTS_MAX], y[KNOTS_MAX]; /* logarithms of bytes and of bus bytes/s */
    uint32_t count;
};

/* Position of x among the knots: *at and how far towards *at + 1. */
static void place(const struct broken_line *line, double x, uint32_t *at, double *part)
{
    *at = 0;
    while (*at + 2 < line->count && x > line->x[*at + 1]) {
        (*at)++;
    }
    *part = line->count < 2 ? 0 : (x - line->x[*at]) / (line->x[*at + 1] - line->x[*at]);
    *part = fmin(1, fmax(0, *part));
}

static double line_at(const struct broken_line *line, double x)
{
    uint32_t at;
    double part;
    place(line, x, &at, &part);
    return line->count < 2 ? line->y[0] : (1 - part) * line->y[at] + part * line->y[at + 1];
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sizes that were measured, thinned to as many evenly spread ones. */
static void choose_knots(struct broken_line *line, double *sizes, uint32_t count)
{
    uint32_t distinct = 0;
    qsort(sizes, count, sizeof *sizes, by_value);
    for (uint32_t i = 0; i < count; i++) {
        if (distinct == 0 || sizes[i] > sizes[distinct - 1]) {
            sizes[distinct++] = sizes[i];
        }
    }
    line->count = 0;
    if (distinct <= KNOTS_MAX) {
        memcpy(line->x, sizes, distinct * sizeof *sizes);
        line->count = distinct;
        return;
    }
    for (uint32_t k = 0; k < KNOTS_THINNED; k++) {
        double wanted = sizes[0] + (sizes[distinct - 1] - sizes[0]) * k / (KNOTS_THINNED - 1.0), nearest = sizes[0];
        for (uint32_t i = 0; i < distinct; i++) {
            nearest = fabs(sizes[i] - wanted) < fabs(nearest - wanted) ? sizes[i] : nearest;
        }
        if (line->count == 0 || nearest > line->x[line->count - 1]) {
            line->x[line->count++] = nearest;
        }
    }
}

/* Weighted least squares of the knots' y, over and over with pseudo-Huber weights. */
static enum status bend(const struct fitter *fitter, const struct curve_key *key, const struct fit_set *set,
                        struct broken_line *line)
{
    uint32_t n = line->count;
    gsl_matrix *normal = gsl_matrix_alloc(n, n);
    gsl_vector *right = gsl_vector_alloc(n), *solution = gsl_vector_alloc(n);
    enum status status = STATUS_OK;
    if (normal == NULL || right == NULL || solution == NULL) {
        status = error_set(fitter->error, STATUS_NO_MEMORY, "out of memory fitting %u points", set->count);
        goto fail;
    }
    for (int round = 0; round < ROBUST_ROUNDS; round++) {
        gsl_matrix_set_zero(normal);
        gsl_vector_set_zero(right);
        for (uint32_t i = 0; i < set->fitted; i++) {
            const struct point *point = set->items[i];
            double x = log(point->bytes), y = log(bus_of(key, point->bytes, point->seconds)), part;
            uint32_t at;
            place(line, x, &at, &part);
            double e = round == 0 ? 0 : (y - line_at(line, x)) / WIDTH, weight = 1 / sqrt(1 + e * e);
            double basis[2] = { 1 - part, part };
            for (uint32_t a = 0; a < 2 && at + a < n; a++) {
                gsl_vector_set(right, at + a, gsl_vector_get(right, at + a) + weight * basis[a] * y);
                for (uint32_t b = 0; b < 2 && at + b < n; b++) {
                    gsl_matrix_set(normal, at + a, at + b,
                                   gsl_matrix_get(normal, at + a, at + b) + weight * basis[a] * basis[b]);
                }
            }
        }
        gsl_linalg_cholesky_decomp1(normal); /* positive definite: every knot stands on a point */
        gsl_linalg_cholesky_solve(normal, right, solution);
        for (uint32_t k = 0; k < n; k++) {
            line->y[k] = gsl_vector_get(solution, k);
        }
    }
fail:
    gsl_matrix_free(normal);
    gsl_vector_free(right);
    gsl_vector_free(solution);
    return status;
}

static const struct point *greatest_below(const struct fit_set *set, double bytes)
{
    const struct point *greatest = NULL;
    for (uint32_t i = 0; i < set->count; i++) {
        const struct point *point = set->items[i];
        if (point->bytes <= bytes && (greatest == NULL || point->bytes > greatest->bytes)) {
            greatest = point;
        }
    }
    return greatest;
}

/* Whether at the greatest size time still grows slower than the square root of the bytes: that is latency. Beyond the last knot its bandwidth holds, of which such a
 * curve knows nothing. */
static bool ends_in_latency(const struct fit_set *set, double *bytes)
{
    const struct point *last = greatest_below(set, INFINITY), *before = greatest_below(set, last->bytes / 2);
    *bytes = last->bytes;
    return before != NULL && log(last->seconds / before->seconds) < 0.5 * log(last->bytes / before->bytes);
}

/* ---- one curve ---- */

static enum status check_curve(const struct fitter *fitter, const struct curve_key *key, const struct fit_set *set)
{
    double peak = 1e9 * draft_get(fitter->draft, "links.nvlink.peak_GBps", 0);
    if (fitter->on_host || !(peak > 0) || key->nodes > 1 || !draft_has(fitter->draft, "parts.nvswitch")) {
        return STATUS_OK;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        double bus = bus_of(key, set->items[i]->bytes, set->items[i]->seconds);
        if (bus > BEYOND_LINKS * peak) {
            return fit_refuse(fitter, set->items[i],
                              "bus bandwidth of %.4g GB/s, beyond what links of %.4g GB/s can do", 1e-9 * bus,
                              1e-9 * peak);
        }
    }
    return STATUS_OK;
}

static enum status solve_curve(struct fitter *fitter, const struct curve_key *key, const struct fit_set *set,
                               struct broken_line *line)
{
    char what[FIT_WHAT_BYTES], sources[FIT_SOURCES_BYTES];
    double bytes[KNOTS_MAX], rates[KNOTS_MAX];
    double *sizes = malloc(set->fitted * sizeof *sizes);
    if (sizes == NULL) {
        return error_set(fitter->error, STATUS_NO_MEMORY, "out of memory fitting %u points", set->count);
    }
    for (uint32_t i = 0; i < set->fitted; i++) {
        sizes[i] = log(set->items[i]->bytes);
    }
    choose_knots(line, sizes, set->fitted);
    free(sizes);
    TRY(bend(fitter, key, set, line));
    struct fit_tally tally = { 0 };
    for (uint32_t i = 0; i < set->count; i++) {
        const struct point *point = set->items[i];
        double bus = exp(line_at(line, log(point->bytes)));
        fit_tally_add(&tally, set, i, point->bytes * collective_bus_factor(key->kind, key->ranks) / bus);
    }
    (void)snprintf(what, sizeof what, "%s %u ranks%s", collective_word(key->kind), key->ranks,
                   key->nodes > 1 ? " on several servers" : "");
    TRY(fit_tally_close(fitter, what, set, &tally));
    for (uint32_t k = 0; k < line->count; k++) {
        bytes[k] = round(exp(line->x[k]));
        rates[k] = 1e-9 * exp(line->y[k]);
    }
    draft_curve(fitter->draft, collective_word(key->kind), key->ranks, key->nodes, bytes, rates, line->count,
                fit_set_sources(set, sources));
    fitter->settled++;
    return STATUS_OK;
}

/* The smallest and the largest all-reduce of the whole server: what every other one is scaled from. */
static void settle_server(struct fitter *fitter, const struct curve_key *key, const struct fit_set *set,
                          const struct broken_line *line)
{
    double least_s = INFINITY, greatest = 0;
    for (uint32_t i = 0; i < set->fitted; i++) {
        if (set->items[i]->bytes <= SMALL_BYTES) {
            least_s = fmin(least_s, set->items[i]->seconds);
        }
    }
    for (uint32_t k = 0; k < line->count; k++) {
        greatest = fmax(greatest, exp(line->y[k]));
    }
    if (fitter->in_switch) {
        fit_missing(fitter, "all_reduce in the switches is no ring's: nccl.bus_GBps");
    } else {
        fit_settle(fitter, "nccl.bus_GBps", 1e-9 * greatest, 0, set);
    }
    if (isfinite(least_s)) {
        fit_settle(fitter, "nccl.latency_us", 1e6 * least_s, 0, set);
    } else {
        fit_missing(fitter, "%s of at most 64 KiB over %u ranks: none: nccl.latency_us", collective_word(key->kind),
                    key->ranks);
    }
}

static enum status fit_curve(struct fitter *fitter, const struct curve_key *key)
{
    struct fit_set set;
    struct broken_line line = { .count = 0 };
    double greatest;
    TRY(fit_select(fitter, is_of_curve, key, &set));
    enum status status = STATUS_OK;
    if (set.count == 0) {
        return STATUS_OK;
    }
    TRY_OR_FAIL(check_curve(fitter, key, &set));
    keep_one_source(&set);
    if (set.fitted < CURVE_LEAST) {
        fit_missing(fitter, "%s of %u ranks: %u points, at least %d are needed: its curve", collective_word(key->kind),
                    key->ranks, set.count, CURVE_LEAST);
        goto fail;
    }
    if (ends_in_latency(&set, &greatest)) {
        fit_missing(fitter,
                    "%s of %u ranks: time is latency up to the greatest size, %.4g bytes; larger ones are needed "
                    "(nccl-tests: -e 1G): its curve",
                    collective_word(key->kind), key->ranks, greatest);
        goto fail;
    }
    TRY_OR_FAIL(solve_curve(fitter, key, &set, &line));
    if (key->kind == COLLECTIVE_ALL_REDUCE && key->nodes == 1 && key->ranks == fitter->gpu_count) {
        settle_server(fitter, key, &set, &line);
    }
fail:
    fit_set_free(&set);
    return status;
}

static bool same_key(const struct point *a, const struct point *b)
{
    return a->kind == POINT_COLLECTIVE && b->kind == POINT_COLLECTIVE && a->collective == b->collective &&
           a->ranks == b->ranks && a->nodes == b->nodes;
}

enum status fit_collectives(struct fitter *fitter)
{
    bool pairs = false, any = false;
    for (uint32_t i = 0; i < fitter->points->count; i++) {
        const struct point *point = &fitter->points->items[i];
        bool seen = point->kind != POINT_COLLECTIVE;
        for (uint32_t k = 0; k < i && !seen; k++) {
            seen = same_key(&fitter->points->items[k], point);
        }
        if (!seen) {
            const struct curve_key key = { .kind = point->collective, .ranks = point->ranks, .nodes = point->nodes };
            TRY(fit_curve(fitter, &key));
            pairs = pairs || (point->collective == COLLECTIVE_SEND_RECV && point->nodes == 1);
            any = true;
        }
    }
    if (fitter->on_host && !pairs) {
        const struct curve_key key = { .kind = COLLECTIVE_SEND_RECV, .ranks = 2, .nodes = 1, .peers = true };
        TRY(fit_curve(fitter, &key));
    }
    if (!any) {
        fit_missing(fitter, "collectives: none: their curves, nccl.bus_GBps, nccl.latency_us");
    }
    return STATUS_OK;
}
