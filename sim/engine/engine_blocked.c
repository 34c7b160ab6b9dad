/* What an unfinished run waits for. Nothing runs and no event is pending, so every op that heads its queue lacks memory, a partner, a dependency or its issue. */
#include "sim/engine/engine_internal.h"

#include "sim/base/check.h"
#include "sim/base/units.h"

static bool has_ended(const struct engine *e, uint32_t op)
{
    return e->nodes[op].gates == OP_HAS_ENDED;
}

static bool is_issued(const struct engine *e, uint32_t op)
{
    return op < e->hosts[e->queue_ranks[e->schedule->ops[op].queue]].next;
}

/* At least as far as `progress`; gates still closed count less than any progress. */
static bool has_come(const struct engine *e, uint32_t op, enum op_progress progress)
{
    return e->nodes[op].gates >= (uint32_t)progress;
}

/* Times that have not come are never. */
static void complete_times(struct engine *e)
{
    for (uint32_t i = 0; i < e->schedule->op_count; i++) {
        struct op_times *times = &e->times[i];
        times->issued_ps = is_issued(e, i) ? times->issued_ps : TIME_NEVER_PS;
        times->ready_ps = has_come(e, i, OP_IS_READY) ? times->ready_ps : TIME_NEVER_PS;
        times->matched_ps = has_come(e, i, OP_IS_MATCHED) ? times->matched_ps : TIME_NEVER_PS;
        times->start_ps = has_come(e, i, OP_IS_STARTED) ? times->start_ps : TIME_NEVER_PS;
        times->end_ps = has_ended(e, i) ? times->end_ps : TIME_NEVER_PS;
    }
}

static void add(struct engine *e, struct blocked_op blocked)
{
    e->timeline->blocked[e->timeline->blocked_count++] = blocked;
}

/* The start of `first` and its partners does not fit: where, and how much is lacking. Acquires what does fit on the way, and gives it back. */
static struct blocked_op memory_wait(struct engine *e, uint32_t first)
{
    uint32_t count;
    const uint32_t *members = engine_members(e, &first, &count);
    struct blocked_op blocked = { .op = first, .space = SCHED_NONE, .waits_for_op = SCHED_NONE };
    uint32_t acquired = 0;
    for (; acquired < count; acquired++) {
        const struct sched_op *op = &e->schedule->ops[members[acquired]];
        struct pool_shortage shortage;
        if (!pools_acquire(&e->pools, sched_acquires(e->schedule, op), op->acquire_count, members[acquired],
                           &shortage)) {
            blocked.op = members[acquired];
            blocked.space = shortage.space;
            blocked.wanted_bytes = shortage.wanted_bytes;
            blocked.free_bytes = shortage.free_bytes;
            break;
        }
    }
    while (acquired-- > 0) {
        const struct sched_op *op = &e->schedule->ops[members[acquired]];
        pools_release(&e->pools, sched_acquires(e->schedule, op), op->acquire_count);
    }
    return blocked;
}

/* What a queue's head that has not become ready waits for. */
static uint32_t cause_of(const struct engine *e, uint32_t op)
{
    const struct sched_op *at = &e->schedule->ops[op];
    for (uint32_t d = 0; d < at->dependency_count; d++) {
        uint32_t before = e->schedule->dependencies[at->first_dependency + d];
        if (!has_ended(e, before)) {
            return before;
        }
    }
    const struct host_thread *host = &e->hosts[e->queue_ranks[at->queue]];
    if (e->times[op].issued_ps == TIME_NEVER_PS && host->waits_for != SCHED_NONE) {
        return host->waits_for;
    }
    if (e->times[op].issued_ps == TIME_NEVER_PS && host->is_full) {
        for (uint32_t i = e->schedule->ranks[e->queue_ranks[at->queue]].first_op; i < host->next; i++) {
            if (!has_ended(e, i)) {
                return i;
            }
        }
    }
    if (at->match != SCHED_NONE) {
        for (uint32_t i = e->match_first[at->match]; i < e->match_first[at->match + 1]; i++) {
            if (e->match_ops[i] != op && e->times[e->match_ops[i]].ready_ps == TIME_NEVER_PS) {
                return e->match_ops[i];
            }
        }
    }
    return SCHED_NONE;
}

/* The first op of `queue` that has not ended, or SCHED_NONE. `heads` was filled by one pass over the ops. */
static void find_heads(const struct engine *e, uint32_t *heads)
{
    for (uint32_t q = 0; q < e->schedule->queue_count; q++) {
        heads[q] = SCHED_NONE;
    }
    for (uint32_t i = e->schedule->op_count; i-- > 0;) {
        if (!has_ended(e, i)) {
            heads[e->schedule->ops[i].queue] = i;
        }
    }
}

enum status engine_explain_blocked(struct engine *e, struct error *error)
{
    struct timeline *timeline = e->timeline;
    const struct schedule *s = e->schedule;
    timeline->blocked = arena_array(&timeline->arena, struct blocked_op, (size_t)s->queue_count + e->waiter_count + 1);
    complete_times(e);
    if (timeline->blocked == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory to explain what is blocked");
    }
    uint32_t overfull = pools_overfull(&e->pools);
    if (overfull != SCHED_NONE) {
        /* What lives from the start is too much: no op is to blame, the step itself waits. */
        add(e, (struct blocked_op){ .op = SCHED_NONE,
                                    .space = overfull,
                                    .wanted_bytes = e->pools.spaces[overfull].live_bytes,
                                    .waits_for_op = SCHED_NONE });
    }
    for (uint32_t i = 0; i < e->waiter_count; i++) {
        add(e, memory_wait(e, e->waiters[i]));
    }
    timeline->outcome = timeline->blocked_count != 0 ? TIMELINE_DOES_NOT_FIT : TIMELINE_DEADLOCK;
    uint32_t *heads = e->batch; /* nothing is starting */
    find_heads(e, heads);
    for (uint32_t q = 0; q < s->queue_count && overfull == SCHED_NONE; q++) {
        uint32_t op = heads[q];
        if (op != SCHED_NONE && e->times[op].matched_ps == TIME_NEVER_PS) {
            add(e, (struct blocked_op){ .op = op, .space = SCHED_NONE, .waits_for_op = cause_of(e, op) });
        }
    }
    return STATUS_OK;
}
