/* When what may start: the rules of sim/engine/engine.c, told by what happens instead of by a simulated clock. Nothing here allocates, sleeps or calls the driver. */
#include "sim/base/check.h"
#include "validate/dispatch/dispatch_internal.h"

void dispatch_wake(struct dispatch *d, uint32_t queue)
{
    struct queue_state *q = &d->queues[queue];
    if (q->is_asleep) {
        q->is_asleep = false;
        q->next_wake = d->wakes;
        d->wakes = queue;
    }
}

uint32_t dispatch_order_wakes(const struct dispatch *d, uint32_t list, uint32_t rank)
{
    uint32_t own = SCHED_NONE, others = SCHED_NONE, *end = &others;
    while (list != SCHED_NONE) {
        struct queue_state *q = &d->queues[list];
        uint32_t next = q->next_wake;
        if (q->rank == rank) {
            q->next_wake = own;
            own = list;
        } else {
            *end = list;
            end = &q->next_wake;
        }
        list = next;
    }
    *end = own;
    return others;
}

/* Waking costs a system call: not under the lock. A listed thread sleeps until it is posted, so nobody else touches its place in the list before. */
void dispatch_unlock_of(struct dispatch *d, uint32_t rank)
{
    uint32_t queue = dispatch_order_wakes(d, d->wakes, rank);
    bool wake_reaper = d->reaper_asleep && (d->outstanding != 0 || d->stop);
    d->wakes = SCHED_NONE;
    d->reaper_asleep = d->reaper_asleep && !wake_reaper;
    (void)pthread_mutex_unlock(&d->lock);
    while (queue != SCHED_NONE) {
        struct queue_state *q = &d->queues[queue];
        queue = q->next_wake;
        (void)sem_post(&q->wake);
    }
    if (wake_reaper) {
        (void)sem_post(&d->reaper_wake);
    }
}

void dispatch_unlock(struct dispatch *d)
{
    dispatch_unlock_of(d, SCHED_NONE);
}

void dispatch_fail(struct dispatch *d, const struct error *found, uint32_t op, uint32_t queue)
{
    if (!d->failed) {
        char name[256];
        const struct schedule *s = d->schedule;
        d->failed = true;
        d->status = STATUS_EXECUTION;
        d->error = *found;
        if (op != SCHED_NONE) {
            (void)error_at(&d->error, d->status, found->file, found->path, "rank %u, op %u, %s: %s",
                           sched_op_rank(s, &s->ops[op]), op, sched_op_text(s, op, name, sizeof name), found->message);
        } else if (queue != SCHED_NONE) {
            (void)error_at(&d->error, d->status, found->file, found->path, "rank %u, queue %s: %s",
                           s->queues[queue].rank, sched_label(s, s->queues[queue].label), found->message);
        }
        d->error.status = d->status;
        d->error.line = found->line;
    }
    d->stop = true;
    for (uint32_t q = 0; q < d->schedule->queue_count; q++) {
        dispatch_wake(d, q);
    }
    (void)pthread_cond_broadcast(&d->changed);
}

/* -- gates -- */

/* Queue order and dependencies are fulfilled: ready, unless the host has not issued it or its stream is as far ahead as it may. Asked again when that changes. */
static void open_if_issued(struct dispatch *d, uint32_t op)
{
    struct op_node *node = &d->nodes[op];
    const struct queue_state *q = &d->queues[d->schedule->ops[op].queue];
    if (node->gates != 0 || node->state != OP_CLOSED || op >= d->hosts[q->rank].issued_end ||
        (node->is_async && q->ring_count == RUN_AHEAD_MAX)) {
        return;
    }
    uint32_t room = d->schedule->queue_count, at = d->ready_first + d->ready_count++;
    node->state = OP_OPEN;
    d->ready[at < room ? at : at - room] = op;
}

static void open_gate(struct dispatch *d, uint32_t op)
{
    if (--d->nodes[op].gates == 0) {
        open_if_issued(d, op);
    }
}

/* Between two asynchronous ops the device keeps the order: the submission of the first opens the gate, else its end. */
static bool opens_when_submitted(const struct dispatch *d, uint32_t cause, uint32_t op)
{
    return d->nodes[cause].is_async && d->nodes[op].is_async;
}

static void open_gates_behind(struct dispatch *d, uint32_t op, bool by_submission)
{
    const struct op_node *node = &d->nodes[op];
    for (uint32_t n = node->first_successor; n < node[1].first_successor; n++) {
        if (opens_when_submitted(d, op, d->successors[n]) == by_submission) {
            open_gate(d, d->successors[n]);
        }
    }
    bool next_by_submission = node->next != SCHED_NONE && opens_when_submitted(d, op, node->next);
    if (next_by_submission == by_submission) {
        d->queues[d->schedule->ops[op].queue].head = node->next;
        if (node->next != SCHED_NONE) {
            open_gate(d, node->next);
        }
    }
}

/* The op that the host waited for has ended: it issues all up to the next such op. */
static void host_goes_on(struct dispatch *d, struct host_state *host)
{
    host->next_fence++;
    host->issued_end = host->next_fence < host->fence_end ? d->fences[host->next_fence] + 1 : host->op_end;
    for (uint32_t q = host->first_queue; q < host->queue_end; q++) {
        if (d->queues[q].head != SCHED_NONE) {
            open_if_issued(d, d->queues[q].head);
        }
    }
}

/* -- ends -- */

/* `first` and its partners have ended. */
static void complete(struct dispatch *d, uint32_t first)
{
    uint32_t count;
    const uint32_t *members = dispatch_members(d, &first, &count);
    d->active--;
    d->progress_ps = d->now_ps;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t op = members[i];
        const struct sched_op *at = &d->schedule->ops[op];
        d->nodes[op].state = OP_ENDED;
        d->done++;
        if (at->release_count != 0) {
            wet_pools_release(d->pools, sched_releases(d->schedule, at), at->release_count);
            d->freed = true;
        }
        open_gates_behind(d, op, false);
        struct host_state *host = &d->hosts[d->queues[at->queue].rank];
        if (host->next_fence < host->fence_end && d->fences[host->next_fence] == op) {
            host_goes_on(d, host);
        }
    }
}

static void see(struct dispatch *d, int64_t time_ps)
{
    d->now_ps = d->now_ps < time_ps ? time_ps : d->now_ps;
}

/* One of perhaps several partners: the match has run from the first beginning to the last end. */
static void member_ended(struct dispatch *d, uint32_t op)
{
    uint32_t match = d->schedule->ops[op].match, count;
    if (match != SCHED_NONE && --d->match_left[match] != 0) {
        return;
    }
    const uint32_t *members = dispatch_members(d, &op, &count);
    int64_t start_ps = d->times[op].start_ps, end_ps = d->times[op].end_ps;
    for (uint32_t i = 0; i < count; i++) {
        const struct op_times *times = &d->times[members[i]];
        start_ps = times->start_ps < start_ps ? times->start_ps : start_ps;
        end_ps = times->end_ps > end_ps ? times->end_ps : end_ps;
    }
    for (uint32_t i = 0; i < count; i++) {
        d->times[members[i]].start_ps = start_ps;
        d->times[members[i]].end_ps = end_ps;
    }
    complete(d, members[0]);
}

void dispatch_did(struct dispatch *d, uint32_t op, int64_t begin_ps, int64_t end_ps)
{
    see(d, end_ps);
    d->times[op].start_ps = begin_ps;
    d->times[op].end_ps = end_ps;
    member_ended(d, op);
}

void dispatch_submitted(struct dispatch *d, uint32_t op, int64_t begin_ps, int64_t end_ps)
{
    struct queue_state *q = &d->queues[d->schedule->ops[op].queue];
    see(d, end_ps);
    d->progress_ps = d->now_ps;
    d->times[op].start_ps = d->submitted_ps[op] = begin_ps;
    CHECK(q->ring_count < RUN_AHEAD_MAX);
    q->ring[(q->ring_first + q->ring_count++) % RUN_AHEAD_MAX] = op;
    d->outstanding++;
    open_gates_behind(d, op, true);
}

void dispatch_saw_end(struct dispatch *d, uint32_t op, int64_t now_ps)
{
    struct queue_state *q = &d->queues[d->schedule->ops[op].queue];
    see(d, now_ps);
    CHECK(q->ring_count > 0 && q->ring[q->ring_first] == op);
    q->ring_first = (q->ring_first + 1) % RUN_AHEAD_MAX;
    q->ring_count--;
    d->outstanding--;
    d->times[op].end_ps = d->seen_ps[op] = now_ps;
    member_ended(d, op);
    if (q->head != SCHED_NONE) {
        open_if_issued(d, q->head);
    }
}

/* -- starts -- */

static void grant(struct dispatch *d, uint32_t op)
{
    uint32_t queue = d->schedule->ops[op].queue;
    CHECK(d->queues[queue].granted == SCHED_NONE);
    d->queues[queue].granted = op;
    dispatch_wake(d, queue);
}

/* `first` and its partners have all they need. */
static void run(struct dispatch *d, uint32_t first, const uint32_t *members, uint32_t count)
{
    uint32_t match = d->schedule->ops[first].match;
    d->active++;
    d->order[d->order_count++] = first;
    for (uint32_t i = 0; i < count; i++) {
        d->nodes[members[i]].state = OP_STARTED;
    }
    if (d->schedule->ops[first].opcode == OP_MARK) {
        d->times[first].start_ps = d->times[first].end_ps = d->now_ps;
        complete(d, first);
        return;
    }
    if (match == SCHED_NONE) {
        grant(d, first);
        return;
    }
    d->match_left[match] = count;
    if (d->driver->joins_matches) {
        grant(d, d->match_runner[match]);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        grant(d, members[i]);
    }
}

/* Start `first` and its partners if what they acquire fits, all of it or nothing. */
static bool try_start(struct dispatch *d, uint32_t first)
{
    uint32_t count;
    const uint32_t *members = dispatch_members(d, &first, &count);
    for (uint32_t i = 0; i < count; i++) {
        const struct sched_op *op = &d->schedule->ops[members[i]];
        if (op->acquire_count != 0 &&
            !wet_pools_acquire(d->pools, sched_acquires(d->schedule, op), op->acquire_count, op->queue, NULL)) {
            while (i-- > 0) {
                op = &d->schedule->ops[members[i]];
                wet_pools_release(d->pools, sched_acquires(d->schedule, op), op->acquire_count);
            }
            return false;
        }
    }
    run(d, first, members, count);
    return true;
}

/* `op` has all but its partners and its memory. */
static void op_is_ready(struct dispatch *d, uint32_t op)
{
    uint32_t match = d->schedule->ops[op].match, count;
    d->times[op].ready_ps = d->now_ps;
    d->nodes[op].state = OP_READY;
    if (match != SCHED_NONE) {
        d->match_runner[match] = op;
        if (++d->match_arrived[match] < d->match_first[match + 1] - d->match_first[match]) {
            return;
        }
    }
    const uint32_t *members = dispatch_members(d, &op, &count);
    for (uint32_t i = 0; i < count; i++) {
        d->times[members[i]].matched_ps = d->now_ps;
        d->nodes[members[i]].state = OP_MATCHED;
    }
    if (!try_start(d, members[0])) {
        d->waiters[d->waiter_count++] = members[0];
        for (uint32_t i = 0; i < count; i++) {
            d->nodes[members[i]].waited = true;
        }
    }
}

static void retry_waiters(struct dispatch *d)
{
    uint32_t kept = 0, count = d->waiter_count;
    d->freed = false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = d->waiters[i];
        if (!try_start(d, first)) {
            d->waiters[kept++] = first;
        }
    }
    d->waiter_count = kept;
}

void dispatch_settle(struct dispatch *d)
{
    while (d->ready_count != 0 || (d->freed && d->waiter_count != 0)) {
        if (d->freed && d->waiter_count != 0) {
            retry_waiters(d);
            continue;
        }
        uint32_t op = d->ready[d->ready_first];
        d->ready_first = d->ready_first + 1 == d->schedule->queue_count ? 0 : d->ready_first + 1;
        d->ready_count--;
        op_is_ready(d, op);
    }
    if (d->active == 0 && !d->step_over) {
        d->step_over = true;
        (void)pthread_cond_broadcast(&d->changed);
    }
}

void dispatch_begin(struct dispatch *d)
{
    for (uint32_t q = 0; q < d->schedule->queue_count; q++) {
        if (d->queues[q].head != SCHED_NONE) {
            open_if_issued(d, d->queues[q].head);
        }
    }
    dispatch_settle(d);
}
