/* What an unfinished step waits for, as sim/engine/engine_blocked.c tells it: nothing runs, so every op that heads its queue lacks memory, a partner, a dependency or
 * its issue. */
#include "sim/base/check.h"
#include "validate/dispatch/dispatch_internal.h"

static void add(struct timeline *t, struct blocked_op blocked)
{
    t->blocked[t->blocked_count++] = blocked;
}

/* The start of `first` and its partners does not fit: where, and how much is lacking. Acquires what does fit on the way, and gives it back. */
static struct blocked_op memory_wait(struct dispatch *d, uint32_t first)
{
    uint32_t count, acquired = 0;
    const uint32_t *members = dispatch_members(d, &first, &count);
    struct blocked_op blocked = { .op = first, .space = SCHED_NONE, .waits_for_op = SCHED_NONE };
    for (; acquired < count; acquired++) {
        const struct sched_op *op = &d->schedule->ops[members[acquired]];
        struct pool_shortage shortage;
        if (!wet_pools_acquire(d->pools, sched_acquires(d->schedule, op), op->acquire_count, op->queue, &shortage)) {
            blocked.op = members[acquired];
            blocked.space = shortage.space;
            blocked.wanted_bytes = shortage.wanted_bytes;
            blocked.free_bytes = shortage.free_bytes;
            break;
        }
    }
    while (acquired-- > 0) {
        const struct sched_op *op = &d->schedule->ops[members[acquired]];
        wet_pools_release(d->pools, sched_acquires(d->schedule, op), op->acquire_count);
    }
    return blocked;
}

/* What a queue's head that is not matched waits for. */
static uint32_t cause_of(const struct dispatch *d, uint32_t op)
{
    const struct sched_op *at = &d->schedule->ops[op];
    const struct host_state *host = &d->hosts[d->queues[at->queue].rank];
    for (uint32_t i = 0; i < at->dependency_count; i++) {
        uint32_t before = d->schedule->dependencies[at->first_dependency + i];
        if (d->nodes[before].state != OP_ENDED) {
            return before;
        }
    }
    if (op >= host->issued_end) {
        return d->fences[host->next_fence];
    }
    if (at->match != SCHED_NONE) {
        for (uint32_t i = d->match_first[at->match]; i < d->match_first[at->match + 1]; i++) {
            if (d->match_ops[i] != op && d->nodes[d->match_ops[i]].state < OP_READY) {
                return d->match_ops[i];
            }
        }
    }
    return SCHED_NONE;
}

enum status dispatch_explain_blocked(struct dispatch *d, struct timeline *t, struct error *error)
{
    const struct schedule *s = d->schedule;
    uint64_t live_bytes = 0;
    uint32_t overfull = wet_pools_overfull(d->pools, &live_bytes);
    t->blocked = arena_array(&t->arena, struct blocked_op, (size_t)s->queue_count + d->waiter_count + 1);
    if (t->blocked == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory to explain what is blocked");
    }
    if (overfull != SCHED_NONE) { /* no op is to blame, the step itself waits */
        add(t, (struct blocked_op){
                   .op = SCHED_NONE, .space = overfull, .wanted_bytes = live_bytes, .waits_for_op = SCHED_NONE });
    }
    for (uint32_t i = 0; i < d->waiter_count; i++) {
        add(t, memory_wait(d, d->waiters[i]));
    }
    t->outcome = t->blocked_count != 0 ? TIMELINE_DOES_NOT_FIT : TIMELINE_DEADLOCK;
    for (uint32_t q = 0; q < s->queue_count && overfull == SCHED_NONE; q++) {
        uint32_t op = d->queues[q].head;
        if (op != SCHED_NONE && d->nodes[op].state < OP_MATCHED) {
            add(t, (struct blocked_op){ .op = op, .space = SCHED_NONE, .waits_for_op = cause_of(d, op) });
        }
    }
    return STATUS_OK;
}
