/* Sizes and links of a run: everything the loop needs is laid out here. */
#include "sim/engine/engine_internal.h"

#include "sim/base/units.h"

#include "sim/base/check.h"

/* Small arrays: of queues, ranks, matches. */
static enum status allocate_small(struct engine *e, struct error *error)
{
    const struct schedule *s = e->schedule;
    struct arena *arena = &e->arena, *kept = &e->timeline->arena;
    e->slots = arena_array(arena, struct queue_slot, s->queue_count);
    e->queue_ranks = arena_array(arena, uint32_t, s->queue_count);
    e->hosts = arena_array(arena, struct host_thread, s->rank_count);
    e->ready = arena_array(arena, uint32_t, s->queue_count);
    e->batch = arena_array(arena, uint32_t, s->queue_count);
    e->waiters = arena_array(arena, uint32_t, s->queue_count);
    e->timeline->spaces = arena_array(kept, struct space_use, s->space_count);
    e->timeline->resources = arena_array(kept, struct resource_traffic, e->table->resource_count);
    if (e->slots == NULL || e->queue_ranks == NULL || e->hosts == NULL || e->ready == NULL || e->batch == NULL ||
        e->waiters == NULL || e->timeline->spaces == NULL || e->timeline->resources == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory to run %u queues", s->queue_count);
    }
    e->timeline->op_count = s->op_count;
    e->timeline->space_count = s->space_count;
    e->timeline->resource_count = e->table->resource_count;
    return STATUS_OK;
}

/* What grows with the ops, in one piece. */
static enum status allocate_large(struct engine *e, struct error *error)
{
    const struct schedule *s = e->schedule;
    size_t words = (size_t)s->dependency_count + s->op_count + 2 * (size_t)s->match_count + 1;
    char *block = arena_alloc(&e->arena, ((size_t)s->op_count + 1) * sizeof *e->nodes + words * sizeof(uint32_t), 1);
    e->times = e->timeline->ops = arena_array(&e->timeline->arena, struct op_times, s->op_count);
    if (block == NULL || e->times == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory to run %u ops", s->op_count);
    }
    e->nodes = (struct op_node *)(void *)block;
    e->successors = (uint32_t *)(e->nodes + s->op_count + 1);
    e->match_ops = e->successors + s->dependency_count;
    e->match_first = e->match_ops + s->op_count;
    e->match_arrived = e->match_first + s->match_count + 1;
    return STATUS_OK;
}

/* Gates, queue order, and dependencies turned round into successor lists. */
static void link_ops(struct engine *e)
{
    const struct schedule *s = e->schedule;
    uint32_t *last = e->ready; /* borrowed: the last op of each queue so far */
    for (uint32_t q = 0; q < s->queue_count; q++) {
        last[q] = SCHED_NONE;
        e->queue_ranks[q] = s->queues[q].rank;
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        struct op_node *node = &e->nodes[i];
        node->cost = e->table->op_costs[i];
        node->gates = 1 + (uint32_t)op->dependency_count;
        node->next = SCHED_NONE;
        if (last[op->queue] != SCHED_NONE) {
            e->nodes[last[op->queue]].next = i;
            node->gates++;
        }
        last[op->queue] = i;
        for (uint32_t d = 0; d < op->dependency_count; d++) {
            /* Counted one place up, so that the running sum below leaves each list's start where it belongs. */
            e->nodes[s->dependencies[op->first_dependency + d] + 1].first_successor++;
        }
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        e->nodes[i + 1].first_successor += e->nodes[i].first_successor;
    }
    /* Fill from the back, so that each list is in op order and first_successor moves down from the end to the start. */
    for (uint32_t i = s->op_count; i-- > 0;) {
        const struct sched_op *op = &s->ops[i];
        for (uint32_t d = op->dependency_count; d-- > 0;) {
            uint32_t before = s->dependencies[op->first_dependency + d];
            e->successors[--e->nodes[before + 1].first_successor] = i;
        }
    }
    /* Now node i + 1 holds the start of the list of op i: shift. */
    for (uint32_t i = 0; i < s->op_count; i++) {
        e->nodes[i].first_successor = e->nodes[i + 1].first_successor;
    }
    e->nodes[s->op_count].first_successor = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        e->nodes[s->op_count].first_successor += s->ops[i].dependency_count;
    }
}

static void link_matches(struct engine *e)
{
    const struct schedule *s = e->schedule;
    for (uint32_t i = 0; i < s->op_count; i++) {
        if (s->ops[i].match != SCHED_NONE) {
            e->match_first[s->ops[i].match + 1]++;
        }
    }
    for (uint32_t m = 0; m < s->match_count; m++) {
        e->match_first[m + 1] += e->match_first[m];
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        uint32_t match = s->ops[i].match;
        if (match != SCHED_NONE) {
            e->match_ops[e->match_first[match] + e->match_arrived[match]++] = i;
        }
    }
    for (uint32_t m = 0; m < s->match_count; m++) {
        e->match_arrived[m] = 0;
    }
}

/* The most lanes that an activity in each queue's slot is solved for. Matched ops run in the slot of the first one's queue; so only that one counts. */
static enum status count_slot_uses(struct engine *e, uint32_t **slot_uses, struct error *error)
{
    const struct schedule *s = e->schedule;
    *slot_uses = arena_array(&e->arena, uint32_t, s->queue_count);
    uint8_t *seen = arena_array(&e->arena, uint8_t, s->match_count);
    if (*slot_uses == NULL || seen == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory to run %u queues", s->queue_count);
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        if (op->match != SCHED_NONE && seen[op->match]) {
            continue;
        }
        if (op->match != SCHED_NONE) {
            seen[op->match] = 1;
        }
        uint32_t uses = e->table->costs[e->table->op_costs[i]].lane_solved_count, *most = &(*slot_uses)[op->queue];
        *most = *most < uses ? uses : *most;
    }
    return STATUS_OK;
}

enum status engine_setup(struct engine *e, struct error *error)
{
    const struct schedule *s = e->schedule;
    uint32_t *slot_uses;
    TRY(allocate_small(e, error));
    TRY(count_slot_uses(e, &slot_uses, error));
    const struct fluid_sizes sizes = { .capacities = e->table->lane_capacities,
                                       .roots = e->table->lane_roots,
                                       .slot_uses = slot_uses,
                                       .resource_count = e->table->lane_count,
                                       .slot_count = s->queue_count };
    TRY(evq_init(&e->queue, &e->arena, s->queue_count + fluid_station_count(&sizes), error));
    TRY(fluid_init(&e->fluid, &e->arena, &sizes, error));
    TRY(pools_init(&e->pools, s, e->timeline->spaces, &e->arena, error));
    TRY(allocate_large(e, error));
    link_ops(e);
    link_matches(e);
    for (uint32_t r = 0; r < s->rank_count; r++) {
        e->hosts[r] = (struct host_thread){
            .next = s->ranks[r].first_op,
            .end = s->ranks[r].first_op + s->ranks[r].op_count,
            .waits_for = SCHED_NONE,
        };
    }
    return STATUS_OK;
}
