/* The dynamic programme: ranges of budgets that matter, dominated strategies, the sweep, and the way back. */
#include "strategies/planners/galvatron_dp.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"

enum { STRATEGIES_MAX = 128, BLOCK = 512 };

/* A strategy is dropped only when another beats it by more than rounding could explain. */
static const double DOMINANCE_MARGIN = 1e-9;

/* Budgets low .. high of a layer; queries below are infeasible or never made, above they equal the value at high. */
struct range {
    int64_t low, high, least; /* least: sum of the least memories of layers 0..l */
};

struct sweep {
    const struct galvatron_dp *in;
    struct range *ranges;         /* [layers] */
    uint8_t *kept;                /* [kind][0 .. kept_count[kind]) */
    uint32_t *kept_count;         /* [kind] */
    uint32_t *low_mib, *high_mib; /* [kind] of the kept */
    uint8_t *marks;
    size_t *mark_start;         /* [layers] */
    double *previous, *current; /* [strategy][width] */
};

static double change(const struct galvatron_dp *in, uint32_t kind, uint32_t from, uint32_t to)
{
    size_t n = in->strategy_count;
    return in->change_s[(kind * n + from) * n + to];
}

/* By how much using `good` instead of `bad` at a layer of `kind` can cost more in changes on both sides, at most. */
static double worst_change(const struct galvatron_dp *in, uint32_t kind, uint32_t good, uint32_t bad)
{
    double before = 0, after = 0;
    for (uint32_t i = 0; i < in->strategy_count; i++) {
        before = fmax(before, change(in, kind, i, good) - change(in, kind, i, bad));
        for (uint32_t next = 0; next < in->kind_count; next++) {
            after = fmax(after, change(in, next, good, i) - change(in, next, bad, i));
        }
    }
    return before + after;
}

static bool dominated(const struct galvatron_dp *in, uint32_t kind, uint32_t s)
{
    const uint32_t *mib = in->mib + (size_t)kind * in->strategy_count;
    const double *cost = in->cost_s + (size_t)kind * in->strategy_count;
    if (mib[s] >= GALVATRON_DP_NO_FIT_MIB) {
        return true;
    }
    for (uint32_t i = 0; i < in->strategy_count; i++) {
        if (i != s && mib[i] <= mib[s] && cost[i] < cost[s] &&
            cost[i] + worst_change(in, kind, i, s) < cost[s] * (1 - DOMINANCE_MARGIN)) {
            return true;
        }
    }
    return false;
}

static void keep_strategies(struct sweep *sweep)
{
    const struct galvatron_dp *in = sweep->in;
    for (uint32_t kind = 0; kind < in->kind_count; kind++) {
        uint32_t count = 0;
        sweep->low_mib[kind] = UINT32_MAX;
        for (uint32_t s = 0; s < in->strategy_count; s++) {
            if (!dominated(in, kind, s)) {
                uint32_t mib = in->mib[(size_t)kind * in->strategy_count + s];
                sweep->kept[(size_t)kind * STRATEGIES_MAX + count++] = (uint8_t)s;
                sweep->low_mib[kind] = mib < sweep->low_mib[kind] ? mib : sweep->low_mib[kind];
                sweep->high_mib[kind] = mib > sweep->high_mib[kind] ? mib : sweep->high_mib[kind];
            }
        }
        sweep->kept_count[kind] = count;
    }
}

static void find_ranges(struct sweep *sweep)
{
    const struct galvatron_dp *in = sweep->in;
    int64_t least = 0, most = 0, least_after = 0, most_after = 0;
    for (uint32_t l = 0; l < in->layer_count; l++) {
        least_after += sweep->low_mib[in->kinds[l]];
        most_after += sweep->high_mib[in->kinds[l]];
    }
    for (uint32_t l = 0; l < in->layer_count; l++) {
        uint32_t kind = in->kinds[l];
        least += sweep->low_mib[kind];
        most += sweep->high_mib[kind];
        least_after -= sweep->low_mib[kind];
        most_after -= sweep->high_mib[kind];
        struct range *range = &sweep->ranges[l];
        range->least = least;
        range->low = in->budget_mib - most_after > least ? in->budget_mib - most_after : least;
        range->high = in->budget_mib - least_after < most ? in->budget_mib - least_after : most;
        range->low = range->low < range->high ? range->low : range->high;
    }
}

/* One strategy of one layer over all budgets of its range. `before` is what the layer before left. */
static void sweep_strategy(const struct sweep *sweep, uint32_t layer, uint32_t s, double *out, uint8_t *marks)
{
    const struct galvatron_dp *in = sweep->in;
    uint32_t kind = in->kinds[layer], before_kind = in->kinds[layer - 1];
    const struct range *range = &sweep->ranges[layer], *before = &sweep->ranges[layer - 1];
    const uint8_t *from = sweep->kept + (size_t)before_kind * STRATEGIES_MAX;
    int64_t mib = in->mib[(size_t)kind * in->strategy_count + s];
    size_t width = (size_t)(range->high - range->low + 1), before_width = (size_t)(before->high - before->low + 1);
    double cost = in->cost_s[(size_t)kind * in->strategy_count + s];
    for (size_t start = 0; start < width; start += BLOCK) {
        double best[BLOCK];
        int64_t mark[BLOCK];
        size_t count = width - start < BLOCK ? width - start : BLOCK;
        for (size_t i = 0; i < count; i++) {
            best[i] = INFINITY;
            mark[i] = UINT8_MAX;
        }
        /* Queries at v - mib: below the range nothing fits, above it the value at its end holds. */
        int64_t first = range->low + (int64_t)start - mib - before->low;
        int64_t inside = first < 0 ? -first : 0;
        int64_t above = (int64_t)before_width - first;
        above = above > (int64_t)count ? (int64_t)count : above < inside ? inside : above;
        for (uint32_t f = 0; f < sweep->kept_count[before_kind]; f++) {
            const double *values = sweep->previous + (size_t)from[f] * before_width;
            double extra = change(in, kind, from[f], s);
            for (int64_t i = inside; i < above; i++) {
                double value = values[first + i] + extra + cost;
                mark[i] = value < best[i] ? (int64_t)from[f] : mark[i];
                best[i] = value < best[i] ? value : best[i];
            }
            double value = values[before_width - 1] + extra + cost;
            for (int64_t i = above; i < (int64_t)count; i++) {
                mark[i] = value < best[i] ? (int64_t)from[f] : mark[i];
                best[i] = value < best[i] ? value : best[i];
            }
        }
        for (size_t i = 0; i < count; i++) {
            out[start + i] = best[i];
            marks[start + i] = (uint8_t)mark[i];
        }
    }
}

static void sweep_layer(struct sweep *sweep, uint32_t layer)
{
    const struct galvatron_dp *in = sweep->in;
    uint32_t kind = in->kinds[layer];
    const struct range *range = &sweep->ranges[layer];
    size_t width = (size_t)(range->high - range->low + 1);
    for (uint32_t k = 0; k < sweep->kept_count[kind]; k++) {
        uint32_t s = sweep->kept[(size_t)kind * STRATEGIES_MAX + k];
        double *out = sweep->current + (size_t)s * width;
        if (layer > 0) {
            sweep_strategy(sweep, layer, s, out, sweep->marks + sweep->mark_start[layer] + k * width);
            continue;
        }
        int64_t mib = in->mib[(size_t)kind * in->strategy_count + s];
        for (size_t i = 0; i < width; i++) {
            out[i] = range->low + (int64_t)i >= mib ? in->cost_s[(size_t)kind * in->strategy_count + s] : INFINITY;
        }
    }
    double *swap = sweep->previous;
    sweep->previous = sweep->current;
    sweep->current = swap;
}

static void walk_back(const struct sweep *sweep, struct galvatron_dp_answer *answer)
{
    const struct galvatron_dp *in = sweep->in;
    uint32_t last = in->layer_count - 1, kind = in->kinds[last];
    size_t width = (size_t)(sweep->ranges[last].high - sweep->ranges[last].low + 1);
    uint32_t s = 0;
    answer->cost_s = INFINITY;
    for (uint32_t k = 0; k < sweep->kept_count[kind]; k++) {
        uint32_t candidate = sweep->kept[(size_t)kind * STRATEGIES_MAX + k];
        double cost = sweep->previous[(size_t)candidate * width + width - 1];
        if (cost < answer->cost_s) {
            answer->cost_s = cost;
            s = candidate;
        }
    }
    int64_t v = in->budget_mib;
    for (uint32_t l = last; isfinite(answer->cost_s); l--) {
        const struct range *range = &sweep->ranges[l];
        kind = in->kinds[l];
        answer->choice[l] = (uint8_t)s;
        uint32_t k = 0;
        while (sweep->kept[(size_t)kind * STRATEGIES_MAX + k] != s) {
            k++;
        }
        int64_t at = v < range->high ? v : range->high;
        v -= in->mib[(size_t)kind * in->strategy_count + s];
        if (l == 0) {
            break;
        }
        width = (size_t)(range->high - range->low + 1);
        s = sweep->marks[sweep->mark_start[l] + k * width + (size_t)(at - range->low)];
    }
    answer->left_mib = v;
}

static bool allocate_tables(struct sweep *sweep)
{
    const struct galvatron_dp *in = sweep->in;
    size_t bytes = 0, widest = 0;
    for (uint32_t l = 0; l < in->layer_count; l++) {
        size_t width = (size_t)(sweep->ranges[l].high - sweep->ranges[l].low + 1);
        sweep->mark_start[l] = bytes;
        bytes += l == 0 ? 0 : width * sweep->kept_count[in->kinds[l]];
        widest = width > widest ? width : widest;
    }
    sweep->marks = malloc(bytes + 1);
    sweep->previous = malloc(widest * in->strategy_count * sizeof(double) + 1);
    sweep->current = malloc(widest * in->strategy_count * sizeof(double) + 1);
    return sweep->marks != NULL && sweep->previous != NULL && sweep->current != NULL;
}

int64_t galvatron_dp_least_mib(const struct galvatron_dp *in)
{
    int64_t sum = 0;
    for (uint32_t l = 0; l < in->layer_count; l++) {
        uint32_t least = UINT32_MAX;
        for (uint32_t s = 0; s < in->strategy_count; s++) {
            uint32_t mib = in->mib[(size_t)in->kinds[l] * in->strategy_count + s];
            least = mib < least ? mib : least;
        }
        sum += least;
    }
    return sum;
}

static void one_strategy(const struct galvatron_dp *in, struct galvatron_dp_answer *answer)
{
    double cost = 0;
    for (uint32_t l = 0; l < in->layer_count; l++) {
        cost += in->cost_s[in->kinds[l]] + (l > 0 ? change(in, in->kinds[l], 0, 0) : 0);
        answer->choice[l] = 0;
    }
    answer->cost_s = cost;
    answer->left_mib = in->budget_mib - galvatron_dp_least_mib(in);
}

enum status galvatron_dp(const struct galvatron_dp *in, struct galvatron_dp_answer *answer, struct error *error)
{
    CHECK(in->strategy_count >= 1 && in->strategy_count <= STRATEGIES_MAX);
    answer->cost_s = INFINITY;
    answer->left_mib = -1;
    if (in->layer_count == 0) {
        answer->cost_s = 0;
        answer->left_mib = in->budget_mib;
        return STATUS_OK;
    }
    if (galvatron_dp_least_mib(in) > in->budget_mib) {
        return STATUS_OK;
    }
    if (in->strategy_count == 1) {
        one_strategy(in, answer);
        return STATUS_OK;
    }
    struct sweep sweep = { .in = in };
    enum status status = STATUS_OK;
    sweep.ranges = calloc(in->layer_count, sizeof *sweep.ranges);
    sweep.mark_start = calloc(in->layer_count, sizeof *sweep.mark_start);
    sweep.kept = calloc(in->kind_count, STRATEGIES_MAX);
    sweep.kept_count = calloc(3 * (size_t)in->kind_count, sizeof *sweep.kept_count);
    if (sweep.ranges == NULL || sweep.mark_start == NULL || sweep.kept == NULL || sweep.kept_count == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a stage of %u layers", in->layer_count);
        goto done;
    }
    sweep.low_mib = sweep.kept_count + in->kind_count;
    sweep.high_mib = sweep.low_mib + in->kind_count;
    keep_strategies(&sweep);
    find_ranges(&sweep);
    if (!allocate_tables(&sweep)) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the table of a stage of %u layers and %lld MiB",
                           in->layer_count, (long long)in->budget_mib);
        goto done;
    }
    for (uint32_t l = 0; l < in->layer_count; l++) {
        sweep_layer(&sweep, l);
    }
    walk_back(&sweep, answer);
done:
    free(sweep.ranges);
    free(sweep.mark_start);
    free(sweep.kept);
    free(sweep.kept_count);
    free(sweep.marks);
    free(sweep.previous);
    free(sweep.current);
    return status;
}

/* One layer of the textbook form: v downwards in one array, marks for the way back. */
static void plain_layer(const struct galvatron_dp *in, uint32_t layer, double *table, uint8_t *marks)
{
    size_t n = in->strategy_count;
    uint32_t kind = in->kinds[layer];
    for (int64_t v = in->budget_mib; v >= 0; v--) {
        double row[STRATEGIES_MAX];
        for (uint32_t s = 0; s < n; s++) {
            int64_t mib = in->mib[kind * n + s];
            double best = INFINITY;
            uint8_t mark = UINT8_MAX;
            for (uint32_t from = 0; v >= mib && from < n; from++) {
                double value = table[(size_t)(v - mib) * n + from] + (layer > 0 ? change(in, kind, from, s) : 0) +
                               in->cost_s[kind * n + s];
                if (value < best) {
                    best = value;
                    mark = (uint8_t)from;
                }
            }
            row[s] = best;
            marks[(size_t)v * n + s] = mark;
        }
        memcpy(table + (size_t)v * n, row, n * sizeof *row);
    }
}

enum status galvatron_dp_plain(const struct galvatron_dp *in, struct galvatron_dp_answer *answer, struct error *error)
{
    CHECK(in->strategy_count >= 1 && in->strategy_count <= STRATEGIES_MAX);
    answer->cost_s = INFINITY;
    answer->left_mib = -1;
    if (in->budget_mib < 0) {
        return STATUS_OK;
    }
    size_t n = in->strategy_count, row = (size_t)(in->budget_mib + 1) * n;
    double *table = calloc(row, sizeof *table);
    uint8_t *marks = malloc(row * in->layer_count + 1);
    if (table == NULL || marks == NULL) {
        free(table);
        free(marks);
        return error_set(error, STATUS_NO_MEMORY, "no memory for the plain table of %u layers", in->layer_count);
    }
    for (uint32_t l = 0; l < in->layer_count; l++) {
        plain_layer(in, l, table, marks + row * l);
    }
    uint32_t s = 0;
    for (uint32_t i = 0; i < n; i++) {
        double cost = table[(size_t)in->budget_mib * n + i];
        if (cost < answer->cost_s) {
            answer->cost_s = cost;
            s = i;
        }
    }
    int64_t v = in->budget_mib;
    for (uint32_t l = in->layer_count; isfinite(answer->cost_s) && l-- > 0;) {
        uint8_t mark = marks[row * l + (size_t)v * n + s];
        answer->choice[l] = (uint8_t)s;
        v -= in->mib[in->kinds[l] * n + s];
        s = mark;
    }
    answer->left_mib = v;
    free(table);
    free(marks);
    return STATUS_OK;
}
