/* A lower bound of the step time over all partitions of a case, so that hopeless (batch, degree) pairs cost no dynamic programme.
 *
 * A stage of given layers with budget b solves: min sum c(l, s_l) with sum w(l, s_l) <= b, changes left out (they only add). By weak duality, for every price lambda >= 0 of a MiB,
 *
 *     optimum >= sum over layers of min over s (c(l, s) + lambda w(l, s)) - lambda b
 *
 * and the best price is a slope of the lower hull of the (w, c) points of some kind of layer. With these stage bounds, the bound over partitions is the least, over contiguous partitions, of the largest stage (or of the sum, for v1's
 * models of several kinds). O(prices * P * L^2). */
#include <math.h>
#include <stdlib.h>

#include "strategies/planners/galvatron_internal.h"

enum { PRICES_MAX = 64 };

static double cost_of(const struct galvatron_case *c, uint32_t kind, uint32_t s)
{
    const struct galvatron_layer_cost *cost = &c->costs[(size_t)kind * c->strategy_count + s];
    return c->source->form == GALVATRON_FORM_V1 ? cost->search_s : cost->compute_s;
}

static double mib_of(const struct galvatron_case *c, uint32_t kind, uint32_t s, uint32_t stage)
{
    return galvatron_layer_mib(&c->costs[(size_t)kind * c->strategy_count + s], c->stage_live[stage]);
}

/* Slopes of the lower hull of one kind's points in one stage, from the least memory downwards in time. */
static uint32_t hull_prices(const struct galvatron_case *c, uint32_t kind, uint32_t stage, double *prices,
                            uint32_t count)
{
    uint32_t at = 0;
    for (uint32_t s = 1; s < c->strategy_count; s++) {
        double more = mib_of(c, kind, s, stage) - mib_of(c, kind, at, stage);
        if (more < 0 || (more == 0 && cost_of(c, kind, s) < cost_of(c, kind, at))) {
            at = s;
        }
    }
    while (count < PRICES_MAX) {
        double steepest = 0;
        uint32_t next = at;
        for (uint32_t s = 0; s < c->strategy_count; s++) {
            double more = mib_of(c, kind, s, stage) - mib_of(c, kind, at, stage);
            double slope = more > 0 ? (cost_of(c, kind, at) - cost_of(c, kind, s)) / more : 0;
            if (slope > steepest) {
                steepest = slope;
                next = s;
            }
        }
        if (next == at) {
            break;
        }
        prices[count++] = steepest;
        at = next;
    }
    return count;
}

/* prefix[price][l]: sum of the priced least costs of the first l layers in `stage`. */
static void fill_prefix(const struct galvatron_case *c, uint32_t stage, const double *prices, uint32_t count,
                        double *prefix)
{
    uint32_t layers = c->source->layer_count;
    for (uint32_t p = 0; p < count; p++) {
        double least[GALVATRON_KINDS_MAX];
        for (uint32_t kind = 0; kind < c->source->kind_count; kind++) {
            least[kind] = INFINITY;
            for (uint32_t s = 0; s < c->strategy_count; s++) {
                least[kind] = fmin(least[kind], cost_of(c, kind, s) + prices[p] * mib_of(c, kind, s, stage));
            }
        }
        double *row = prefix + (size_t)p * (layers + 1);
        row[0] = 0;
        for (uint32_t l = 0; l < layers; l++) {
            row[l + 1] = row[l] + least[c->source->kinds[l]];
        }
    }
}

/* One more stage of the recurrence over partitions: bounds of stages 0..stage over the first l layers. */
static void add_stage(const struct galvatron_case *c, uint32_t stage, const double *prices, uint32_t count,
                      const double *prefix, const double *before, double *after, bool sums)
{
    uint32_t layers = c->source->layer_count, columns = layers + 1;
    double budget = (double)c->budget_mib - ceil(c->stage_other_mib[stage]);
    for (uint32_t end = 0; end <= layers; end++) {
        after[end] = INFINITY;
        for (uint32_t start = stage; start < end; start++) {
            double mine = 0, had = before[start];
            if (!sums && had >= after[end]) {
                continue;
            }
            for (uint32_t p = 0; p < count; p++) {
                const double *row = prefix + (size_t)p * columns;
                mine = fmax(mine, row[end] - row[start] - prices[p] * budget);
            }
            after[end] = fmin(after[end], sums ? had + mine : fmax(had, mine));
        }
    }
}

/* The least largest (or summed) stage time over partitions. */
static double stages_bound_s(const struct galvatron_case *c, bool sums, double *room)
{
    uint32_t layers = c->source->layer_count, columns = layers + 1;
    double *before = room, *after = room + columns, *prefix = room + 2 * (size_t)columns;
    for (uint32_t l = 0; l < columns; l++) {
        before[l] = l == 0 ? 0 : INFINITY;
    }
    for (uint32_t stage = 0; stage < c->setting.pipeline; stage++) {
        double prices[PRICES_MAX] = { 0 };
        uint32_t count = 1; /* the price of nothing: enough memory */
        for (uint32_t kind = 0; kind < c->source->kind_count; kind++) {
            count = hull_prices(c, kind, stage, prices, count);
        }
        fill_prefix(c, stage, prices, count, prefix);
        add_stage(c, stage, prices, count, prefix, before, after, sums);
        double *swap = before;
        before = after;
        after = swap;
    }
    return before[layers];
}

double galvatron_case_bound_s(const struct galvatron_case *c)
{
    const struct galvatron_source *source = c->source;
    double sum = 0, m = c->setting.micro_batches, stages = c->setting.pipeline;
    for (uint32_t l = 0; l < source->layer_count; l++) {
        double least = INFINITY;
        for (uint32_t s = 0; s < c->strategy_count; s++) {
            least = fmin(least, cost_of(c, source->kinds[l], s));
        }
        sum += least;
    }
    bool sums = source->form == GALVATRON_FORM_V1 && source->kind_count > 1;
    double *room = malloc((PRICES_MAX + 2) * (size_t)(source->layer_count + 1) * sizeof *room);
    double slowest = room != NULL ? stages_bound_s(c, sums, room) : sum / stages; /* without room: the mean */
    free(room);
    switch (source->form) {
    case GALVATRON_FORM_V1: return sums ? fmax(sum, slowest) : slowest * stages;
    case GALVATRON_FORM_G2: return slowest * (m - 1 + stages);
    case GALVATRON_FORM_SYNC: return fmax(sum, slowest) + (m - 1) * slowest;
    case GALVATRON_FORM_HEAD: return fmax(sum, slowest);
    case GALVATRON_FORM_COUNT: break;
    }
    return sum;
}
