#include "sim/report/link_series.h"

#include <math.h>
#include <stdlib.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/engine/cost_table.h"

#define LEAST_SHARE 1e-4 /* of what a link could move in the step */

struct edge {
    int64_t time_ps;
    uint32_t op, slot;
    double change;
};

struct edges {
    struct edge *items;
    size_t count, capacity;
};

static int by_slot_and_time(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->slot != y->slot) {
        return x->slot < y->slot ? -1 : 1;
    }
    if (x->time_ps != y->time_ps) {
        return x->time_ps < y->time_ps ? -1 : 1;
    }
    return x->op < y->op ? -1 : x->op > y->op;
}

static enum status collect(struct edges *edges, const struct result_input *input, const struct cost_table *table,
                           const uint32_t *slot, uint8_t *counted, struct error *error)
{
    const struct schedule *s = input->schedule;
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct op_cost *cost = &table->costs[table->op_costs[i]];
        uint32_t match = s->ops[i].match;
        const struct op_times *t = &input->timeline->ops[i];
        if (t->end_ps <= t->start_ps || t->end_ps == TIME_NEVER_PS || (match != SCHED_NONE && counted[match] != 0)) {
            continue;
        }
        if (match != SCHED_NONE) {
            counted[match] = 1;
        }
        for (uint32_t u = 0; u < cost->use_count; u++) {
            const struct maxmin_use *use = &table->uses[cost->first_use + u];
            if (use->resource >= input->cluster->resource_count || slot[use->resource] == SCHED_NONE) {
                continue;
            }
            TRY(array_reserve(edges, 2, error));
            double rate = use->coefficient * (double)cost->work_ps / (double)(t->end_ps - t->start_ps);
            edges->items[edges->count++] = (struct edge){ t->start_ps, i, slot[use->resource], rate };
            edges->items[edges->count++] = (struct edge){ t->end_ps, i, slot[use->resource], -rate };
        }
    }
    return STATUS_OK;
}

/* Sums of rates that begin and end: what is left of rounding when nothing runs is cut to zero by counting who runs. */
static enum status integrate(const struct edges *edges, uint32_t link_count, struct arena *arena,
                             struct link_series *series, struct error *error)
{
    size_t at = 0;
    for (uint32_t l = 0; l < link_count; l++) {
        size_t end = at;
        while (end < edges->count && edges->items[end].slot == l) {
            end++;
        }
        series[l].times_ps = arena_array(arena, int64_t, end - at + 1);
        series[l].bytes_per_s = arena_array(arena, double, end - at + 1);
        if (series[l].times_ps == NULL || series[l].bytes_per_s == NULL) {
            return error_set(error, STATUS_NO_MEMORY, "out of memory for link series");
        }
        series[l].count = 1; /* at 0: idle */
        double rate = 0;
        int64_t running = 0;
        for (; at < end; at++) {
            const struct edge *edge = &edges->items[at];
            running += edge->change > 0 ? 1 : -1;
            rate = running > 0 ? rate + edge->change : 0;
            if (series[l].times_ps[series[l].count - 1] != edge->time_ps) {
                series[l].count++;
            }
            series[l].times_ps[series[l].count - 1] = edge->time_ps;
            series[l].bytes_per_s[series[l].count - 1] = rate > 0 ? rate : 0;
        }
    }
    return STATUS_OK;
}

/* Within a thousandth: folded ranks leave rounding in the sums. */
static bool are_alike(const struct result *result, const struct cluster *cluster, uint32_t a, uint32_t b)
{
    const struct link_traffic *x = &result->links[a], *y = &result->links[b];
    return cluster->resources[x->resource].kind == cluster->resources[y->resource].kind &&
           fabs(x->bytes - y->bytes) <= 1e-3 * x->bytes;
}

uint32_t link_series_alike(const struct result *result, const struct result_input *input, uint32_t link)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < result->link_count; i++) {
        count += are_alike(result, input->cluster, link, i);
    }
    return count;
}

uint32_t link_series_choose(const struct result *result, const struct result_input *input, uint32_t most,
                            uint32_t *chosen)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < result->link_count && count < most; i++) {
        const struct link_traffic *link = &result->links[i];
        double could_bytes = input->cluster->resources[link->resource].capacity * result->step_time_s;
        uint32_t k = 0;
        if (count > 0 && link->bytes < LEAST_SHARE * could_bytes) {
            continue; /* a few bytes of bookkeeping: nothing to see */
        }
        while (k < count && !are_alike(result, input->cluster, chosen[k], i)) {
            k++;
        }
        if (k == count) {
            chosen[count++] = i;
        }
    }
    return count;
}

enum status link_series_compute(const struct result *result, const struct result_input *input, const uint32_t *chosen,
                                uint32_t chosen_count, struct arena *arena, struct link_series *series,
                                struct error *error)
{
    struct cost_table table = { 0 };
    struct edges edges = { 0 };
    uint32_t *slot = arena_array(arena, uint32_t, input->cluster->resource_count);
    uint8_t *counted = arena_array(arena, uint8_t, (size_t)input->schedule->match_count + 1);
    enum status status = STATUS_OK;
    if (slot == NULL || counted == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for link series");
    }
    for (uint32_t r = 0; r < input->cluster->resource_count; r++) {
        slot[r] = SCHED_NONE;
    }
    for (uint32_t l = 0; l < chosen_count; l++) {
        CHECK(chosen[l] < result->link_count);
        slot[result->links[chosen[l]].resource] = l;
        series[l] = (struct link_series){
            .resource = result->links[chosen[l]].resource,
            .alike = link_series_alike(result, input, chosen[l]),
        };
    }
    TRY_OR_FAIL(cost_table_build(&table, input->schedule, input->cluster, input->software, error));
    TRY_OR_FAIL(collect(&edges, input, &table, slot, counted, error));
    if (edges.count > 0) {
        qsort(edges.items, edges.count, sizeof *edges.items, by_slot_and_time);
    }
    status = integrate(&edges, chosen_count, arena, series, error);
fail:
    array_free(&edges);
    cost_table_free(&table);
    return status;
}
