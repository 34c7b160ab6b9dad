#include "sim/engine/cost_table.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/engine/cost_internal.h"

static enum status check_devices(struct cost_builder *b)
{
    const struct schedule *s = b->schedule;
    for (uint32_t i = 0; i < s->device_count + s->group_member_count; i++) {
        uint32_t gpu = i < s->device_count ? s->devices[i] : s->group_members[i - s->device_count];
        if (gpu >= b->cluster->gpus) {
            return error_set(b->error, STATUS_BAD_INPUT, "the schedule names GPU %u, the cluster has %u", gpu,
                             b->cluster->gpus);
        }
    }
    for (uint32_t g = 0; g < b->cluster->gpus; g++) {
        b->gpu_ranks[g] = SCHED_NONE;
    }
    for (uint32_t r = 0; r < s->rank_count; r++) {
        b->gpu_ranks[s->devices[s->ranks[r].first_device]] = r;
    }
    host_spill(s, b->cluster, b->sockets);
    return STATUS_OK;
}

/* A port for each rank that copies to or from its host, where it is one apart. Returns how many. */
static uint32_t number_ports(struct cost_builder *b)
{
    const struct schedule *s = b->schedule;
    uint32_t count = 0;
    for (uint32_t r = 0; r < s->rank_count; r++) {
        b->ports[r] = SCHED_NONE;
    }
    bool ported = b->cluster != NULL && !b->cluster->machine->gpu.on_host;
    for (uint32_t i = 0; ported && i < s->op_count; i++) {
        if (s->ops[i].opcode == OP_COPY_H2D || s->ops[i].opcode == OP_COPY_D2H) {
            uint32_t *port = &b->ports[sched_op_rank(s, &s->ops[i])];
            *port = *port == SCHED_NONE ? b->cluster->resource_count + count++ : *port;
        }
    }
    return count;
}

static enum status prepare(struct cost_builder *b, struct arena *scratch)
{
    struct cost_table *table = b->table;
    const struct schedule *s = b->schedule;
    const struct cluster *cluster = b->cluster;
    b->ports = arena_array(scratch, uint32_t, s->rank_count);
    if (b->ports == NULL) {
        return error_set(b->error, STATUS_NO_MEMORY, "no memory for the costs of %u ops", s->op_count);
    }
    uint32_t ports = number_ports(b);
    table->resource_count = cluster == NULL ? 0 : cluster->resource_count + ports;
    table->capacities = arena_array(&table->arena, double, table->resource_count);
    table->asked = arena_array(&table->arena, double, table->resource_count);
    table->op_costs = arena_array(&table->arena, uint32_t, s->op_count);
    b->pending = arena_array(scratch, struct maxmin_use, table->resource_count);
    b->places = arena_array(scratch, uint32_t, table->resource_count);
    b->ring_max = table->resource_count;
    b->ring = arena_array(scratch, struct resource_use, b->ring_max);
    b->kernels = arena_array(scratch, struct kernel_cost, s->kernel_count);
    b->work_records = arena_array(scratch, uint32_t, s->work_count);
    b->latest = arena_array(scratch, struct cost_key_slot, s->work_count);
    b->gpu_ranks = arena_array(scratch, uint32_t, cluster == NULL ? 0 : cluster->gpus);
    b->sockets =
        arena_array(scratch, struct host_socket, cluster == NULL ? 0 : (size_t)cluster->nodes * cluster->sockets);
    if (table->capacities == NULL || table->asked == NULL || table->op_costs == NULL || b->pending == NULL ||
        b->places == NULL || b->ring == NULL || b->kernels == NULL || b->work_records == NULL || b->latest == NULL ||
        b->gpu_ranks == NULL || b->sockets == NULL) {
        return error_set(b->error, STATUS_NO_MEMORY, "no memory for the costs of %u ops", s->op_count);
    }
    if (b->software != NULL) {
        table->micro_batch_ps = ps_nearest_s(b->software->micro_batch_host_s);
        table->step_ps = ps_nearest_s(b->software->step_host_s);
        table->launch_ahead = b->software->launch_ahead;
    }
    for (uint32_t r = 0; cluster != NULL && r < table->resource_count; r++) {
        table->capacities[r] = r < cluster->resource_count ? cluster->resources[r].capacity : 1;
    }
    return cluster == NULL ? STATUS_OK : check_devices(b);
}

/* Records of all ops. */
static enum status cost_ops(struct cost_builder *b)
{
    const struct schedule *s = b->schedule;
    for (uint32_t i = 0; i < s->op_count; i++) {
        TRY(cost_find_op(b, i, &b->table->op_costs[i]));
    }
    return STATUS_OK;
}

/* Of each record: how many ops it belongs to, and how many activities. Every op without partners is one activity, and the first of those that match. */
struct record_uses {
    uint32_t ops, activities;
};

static enum status count_uses(const struct cost_builder *b, struct arena *scratch, struct record_uses **counted)
{
    const struct schedule *s = b->schedule;
    uint8_t *seen = arena_array(scratch, uint8_t, s->match_count);
    struct record_uses *records = *counted = arena_array(scratch, struct record_uses, b->costs.count);
    if (seen == NULL || records == NULL) {
        return error_set(b->error, STATUS_NO_MEMORY, "no memory for %u matches", s->match_count);
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        uint32_t match = s->ops[i].match;
        struct record_uses *record = &records[b->table->op_costs[i]];
        record->ops++;
        record->activities += match == SCHED_NONE || !seen[match];
        if (match != SCHED_NONE) {
            seen[match] = 1;
        }
    }
    return STATUS_OK;
}

/* What all activities together ask for. */
static void sum_asked(struct cost_builder *b, const struct record_uses *records)
{
    for (uint32_t c = 0; c < b->costs.count; c++) {
        const struct op_cost *cost = &b->costs.items[c];
        for (uint32_t u = cost->first_use; u < cost->first_use + cost->use_count; u++) {
            const struct maxmin_use *use = &b->uses.items[u];
            b->table->asked[use->resource] += use->coefficient * cost->work_s * records[c].activities;
        }
    }
}

static enum status keep(struct cost_builder *b)
{
    struct cost_table *table = b->table;
    table->cost_count = (uint32_t)b->costs.count;
    table->use_count = (uint32_t)b->uses.count;
    table->costs = arena_array(&table->arena, struct op_cost, table->cost_count);
    table->uses = arena_array(&table->arena, struct maxmin_use, table->use_count);
    if (table->costs == NULL || table->uses == NULL) {
        return error_set(b->error, STATUS_NO_MEMORY, "no memory for %u costs", table->cost_count);
    }
    if (b->costs.items != NULL) {
        memcpy(table->costs, b->costs.items, table->cost_count * sizeof *table->costs);
    }
    if (b->uses.items != NULL) {
        memcpy(table->uses, b->uses.items, table->use_count * sizeof *table->uses);
    }
    return STATUS_OK;
}

/* The clock counts picoseconds in 63 bits; even if every op waited for every other, the step must end before it overflows. */
static enum status check_clock(const struct cost_table *table, uint32_t op_count, const struct record_uses *records,
                               struct error *error)
{
    const double clock_s = s_from_ps(TIME_NEVER_PS) / 2;
    double sum_s = op_count * (s_from_ps(table->micro_batch_ps) + s_from_ps(table->step_ps));
    for (uint32_t c = 0; c < table->cost_count; c++) {
        const struct op_cost *cost = &table->costs[c];
        sum_s += records[c].ops * (s_from_ps(cost->latency_ps) + s_from_ps(cost->work_ps) +
                                   s_from_ps(cost->issue_first_ps) + s_from_ps(cost->issue_rest_ps));
    }
    if (sum_s > clock_s) {
        return error_set(error, STATUS_LIMIT,
                         "the ops of this step take %.3g days one after another; the simulator's clock holds %.0f: is "
                         "a rate of the machine too small, or the batch too large?",
                         sum_s / 86400, clock_s / 86400);
    }
    return STATUS_OK;
}

enum status cost_table_build(struct cost_table *table, const struct schedule *schedule, const struct cluster *cluster,
                             const struct software *software, struct error *error)
{
    struct arena scratch = { 0 };
    struct cost_builder b = {
        .table = table, .schedule = schedule, .cluster = cluster, .software = software, .error = error
    };
    struct record_uses *records;
    enum status status;
    *table = (struct cost_table){ 0 };
    TRY_OR_FAIL(prepare(&b, &scratch));
    TRY_OR_FAIL(cost_ops(&b));
    TRY_OR_FAIL(count_uses(&b, &scratch, &records));
    sum_asked(&b, records);
    TRY_OR_FAIL(keep(&b));
    TRY_OR_FAIL(check_clock(table, schedule->op_count, records, error));
    TRY_OR_FAIL(cost_make_lanes(table, cluster, &scratch, error));
fail:
    free(b.table_slots);
    array_free(&b.uses);
    array_free(&b.costs);
    arena_free(&scratch);
    if (status != STATUS_OK) {
        cost_table_free(table);
    }
    return status;
}

void cost_table_free(struct cost_table *table)
{
    arena_free(&table->arena);
    *table = (struct cost_table){ 0 };
}
