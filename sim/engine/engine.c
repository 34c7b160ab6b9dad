#include "sim/engine/engine_internal.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"

/* How often the caller hears of progress: seldom enough to cost nothing. */
enum { PROGRESS_EVENTS = 1 << 15 };

static void op_is_open(struct engine *e, uint32_t op)
{
    if (e->times[op].issued_ps > e->now_ps) {
        uint32_t queue = e->schedule->ops[op].queue;
        e->slots[queue] = (struct queue_slot){ .op = op, .phase = SLOT_ISSUE };
        evq_put(&e->queue, queue, e->times[op].issued_ps);
    } else {
        e->ready[e->ready_count++] = op;
    }
}

static inline void open_gate(struct engine *e, uint32_t op)
{
    if (--e->nodes[op].gates == 0) {
        op_is_open(e, op);
    }
}

static void host_goes_on(struct engine *e, uint32_t rank)
{
    struct host_thread *host = &e->hosts[rank];
    while (host->next < host->end) {
        uint32_t op = host->next;
        if (!host_thread_issue(host, e->table, &e->schedule->ops[op], &e->table->costs[e->nodes[op].cost],
                               &e->times[op].issued_ps)) {
            break;
        }
        open_gate(e, op);
    }
}

static void record_rate(struct engine *e, uint32_t op, double rate)
{
    if (e->timeline->rate_count == e->rate_capacity) {
        uint64_t capacity = e->rate_capacity == 0 ? 1024 : 2 * e->rate_capacity;
        struct rate_change *rates = realloc(e->rates, capacity * sizeof *rates);
        if (rates == NULL) {
            e->out_of_memory = true;
            return;
        }
        e->rates = rates;
        e->rate_capacity = capacity;
    }
    e->rates[e->timeline->rate_count++] = (struct rate_change){ e->now_ps, op, (float)rate };
}

/* The activity of `first` and its partners is over. */
static void complete(struct engine *e, uint32_t first)
{
    uint32_t count;
    const uint32_t *members = engine_members(e, &first, &count);
    e->slots[e->schedule->ops[first].queue].phase = SLOT_IDLE;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t op = members[i];
        const struct sched_op *at = &e->schedule->ops[op];
        const struct op_node *node = &e->nodes[op];
        e->times[op].end_ps = e->now_ps;
        e->nodes[op].gates = OP_HAS_ENDED;
        e->done++;
        if (at->release_count != 0) {
            pools_release(&e->pools, sched_releases(e->schedule, at), at->release_count);
        }
        for (uint32_t n = node->first_successor; n < node[1].first_successor; n++) {
            open_gate(e, e->successors[n]);
        }
        if (node->next != SCHED_NONE) {
            open_gate(e, node->next);
        }
        uint32_t rank = e->queue_ranks[at->queue];
        if (host_thread_op_ended(&e->hosts[rank], op, &e->table->costs[node->cost], e->now_ps)) {
            host_goes_on(e, rank);
        }
    }
}

static void start_fluid(struct engine *e, uint32_t queue, int64_t span_ps)
{
    const struct op_cost *cost = &e->table->costs[e->nodes[e->slots[queue].op].cost];
    fluid_start(&e->fluid, queue,
                &(struct fluid_activity){
                    .uses = e->table->lane_uses + cost->first_lane_use,
                    .use_count = cost->lane_use_count,
                    .solved_count = cost->lane_solved_count,
                    .resident_count = cost->lane_resident_count,
                    .weight = cost->weight,
                    .beside_rate = cost->beside_rate,
                    .work_ps = cost->work_ps,
                    .work_s = cost->work_s,
                    .span_ps = span_ps,
                },
                e->now_ps);
    e->slots[queue].phase = SLOT_FLUID;
}

/* `first` and its partners have all they need: run. */
static void run(struct engine *e, uint32_t first, const uint32_t *members, uint32_t count)
{
    const struct op_cost *cost = &e->table->costs[e->nodes[first].cost];
    int64_t end_ps = e->now_ps + cost->latency_ps + cost->work_ps;
    for (uint32_t i = 0; i < count; i++) {
        struct op_times *times = &e->times[members[i]];
        const struct op_cost *own = &e->table->costs[e->nodes[members[i]].cost];
        times->start_ps = e->now_ps;
        e->nodes[members[i]].gates = OP_IS_STARTED;
        times->alone_ps = cost->latency_ps + cost->work_ps;
        int64_t issue_end_ps = times->issued_ps + own->issue_tail_ps;
        end_ps = end_ps < issue_end_ps ? issue_end_ps : end_ps;
    }
    if (end_ps == e->now_ps) {
        complete(e, first);
        return;
    }
    uint32_t queue = e->schedule->ops[first].queue;
    struct queue_slot *slot = &e->slots[queue];
    *slot = (struct queue_slot){ .op = first, .phase = SLOT_RUN };
    if (cost->use_count == 0 || cost->work_ps == 0) {
        evq_put(&e->queue, queue, end_ps);
    } else if (cost->latency_ps == 0) {
        start_fluid(e, queue, end_ps - e->now_ps);
    } else {
        slot->phase = SLOT_LATENCY;
        slot->span_ps = end_ps - e->now_ps - cost->latency_ps;
        evq_put(&e->queue, queue, e->now_ps + cost->latency_ps);
    }
}

/* Start `first` and its partners if what they acquire fits, all of it or nothing. */
static bool try_start(struct engine *e, uint32_t first)
{
    uint32_t count;
    const uint32_t *members = engine_members(e, &first, &count);
    for (uint32_t i = 0; i < count; i++) {
        const struct sched_op *op = &e->schedule->ops[members[i]];
        if (op->acquire_count != 0 &&
            !pools_acquire(&e->pools, sched_acquires(e->schedule, op), op->acquire_count, members[i], NULL)) {
            bool any_freed = e->pools.any_freed; /* giving back what was never used frees nothing for others */
            while (i-- > 0) {
                op = &e->schedule->ops[members[i]];
                pools_release(&e->pools, sched_acquires(e->schedule, op), op->acquire_count);
            }
            e->pools.any_freed = any_freed;
            return false;
        }
    }
    run(e, first, members, count);
    return true;
}

/* `op` has all but its partners and its memory. */
static void op_is_ready(struct engine *e, uint32_t op)
{
    uint32_t match = e->schedule->ops[op].match;
    e->times[op].ready_ps = e->now_ps;
    e->nodes[op].gates = OP_IS_READY;
    if (match != SCHED_NONE && ++e->match_arrived[match] < e->schedule->matches[match].op_count) {
        return;
    }
    uint32_t count;
    const uint32_t *members = engine_members(e, &op, &count);
    for (uint32_t i = 0; i < count; i++) {
        e->times[members[i]].matched_ps = e->now_ps;
        e->nodes[members[i]].gates = OP_IS_MATCHED;
    }
    if (!try_start(e, members[0])) {
        e->waiters[e->waiter_count++] = members[0];
    }
}

static void sift_down(uint32_t *items, uint32_t count, uint32_t at)
{
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && items[child + 1] > items[child];
        if (items[at] >= items[child]) {
            return;
        }
        uint32_t swap = items[at];
        items[at] = items[child];
        items[child] = swap;
    }
}

/* By insertion while it is cheap (most rounds have a few ops, often in order), else by heap: the order must not depend on how gates happened to open. */
static void sort_ops(uint32_t *items, uint32_t count)
{
    if (count <= 32) {
        for (uint32_t i = 1; i < count; i++) {
            uint32_t item = items[i], at = i;
            for (; at > 0 && items[at - 1] > item; at--) {
                items[at] = items[at - 1];
            }
            items[at] = item;
        }
        return;
    }
    for (uint32_t i = count / 2; i-- > 0;) {
        sift_down(items, count, i);
    }
    for (uint32_t left = count; left-- > 1;) {
        uint32_t swap = items[0];
        items[0] = items[left];
        items[left] = swap;
        sift_down(items, left, 0);
    }
}

static void retry_waiters(struct engine *e)
{
    e->pools.any_freed = false;
    uint32_t kept = 0, count = e->waiter_count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = e->waiters[i];
        if (!try_start(e, first)) {
            e->waiters[kept++] = first;
        }
    }
    e->waiter_count = kept;
}

/* Start all that can start now, and what that lets start at once. */
static void start_ready(struct engine *e)
{
    while (e->ready_count != 0 || (e->pools.any_freed && e->waiter_count != 0)) {
        uint32_t *batch = e->ready, count = e->ready_count;
        e->ready = e->batch;
        e->batch = batch;
        e->ready_count = 0;
        if (e->pools.any_freed) {
            retry_waiters(e);
        }
        sort_ops(batch, count);
        for (uint32_t i = 0; i < count; i++) {
            op_is_ready(e, batch[i]);
        }
    }
}

/* All that end now in a crowd. */
static void take_station(struct engine *e, uint32_t station)
{
    uint32_t queue;
    while (fluid_take(&e->fluid, station, e->now_ps, &queue)) {
        e->timeline->event_count++;
        if (e->options->record_rates) {
            record_rate(e, e->slots[queue].op, 0);
        }
        complete(e, e->slots[queue].op);
    }
}

static void take_event(struct engine *e, uint32_t queue)
{
    if (queue >= e->schedule->queue_count) {
        take_station(e, queue - e->schedule->queue_count);
        return;
    }
    struct queue_slot *slot = &e->slots[queue];
    e->timeline->event_count++;
    switch (slot->phase) {
    case SLOT_ISSUE: e->ready[e->ready_count++] = slot->op; break;
    case SLOT_LATENCY: start_fluid(e, queue, slot->span_ps); break;
    case SLOT_FLUID:
        fluid_end(&e->fluid, queue, e->now_ps);
        if (e->options->record_rates) {
            record_rate(e, slot->op, 0);
        }
        complete(e, slot->op);
        break;
    case SLOT_RUN: complete(e, slot->op); break;
    case SLOT_IDLE: check_failed("an idle queue has no event", __FILE__, __LINE__);
    }
}

static void record_change(struct engine *e, const struct fluid_change *change)
{
    if (change->slot < e->schedule->queue_count) {
        if (change->end_ps != TIME_NEVER_PS) { /* else its station tells */
            record_rate(e, e->slots[change->slot].op, change->rate);
        }
        return;
    }
    uint32_t station = change->slot - e->schedule->queue_count;
    for (uint32_t slot = fluid_station_first(&e->fluid, station); slot != MAXMIN_NONE;
         slot = fluid_station_next(&e->fluid, slot)) {
        record_rate(e, e->slots[slot].op, fluid_station_rate(&e->fluid, station, slot));
    }
}

static inline void settle(struct engine *e)
{
    uint32_t count = fluid_settle(&e->fluid, e->now_ps);
    for (uint32_t i = 0; i < count; i++) {
        const struct fluid_change *change = &e->fluid.changes[i];
        if (change->end_ps == TIME_NEVER_PS) {
            evq_cancel(&e->queue, change->slot);
        } else {
            evq_move(&e->queue, change->slot, change->end_ps);
        }
        if (e->options->record_rates) {
            record_change(e, change);
        }
    }
    if (e->pools.touched_count != 0) {
        pools_settle(&e->pools, e->now_ps);
    }
}

static enum status cancelled(const struct engine *e, struct error *error)
{
    return error_set(error, STATUS_EXECUTION, "cancelled after %u of %u ops", e->done, e->schedule->op_count);
}

static enum status loop(struct engine *e, struct error *error)
{
    const struct timeline_watch *watch = e->options->watch;
    uint64_t report_at = PROGRESS_EVENTS;
    for (uint32_t r = 0; r < e->schedule->rank_count; r++) {
        host_goes_on(e, r);
    }
    start_ready(e);
    settle(e);
    for (int64_t next_ps; (next_ps = evq_next_ps(&e->queue)) != TIME_NEVER_PS;) {
        e->now_ps = next_ps;
        do {
            uint32_t queue;
            CHECK(evq_take(&e->queue, &queue));
            take_event(e, queue);
        } while (evq_next_ps(&e->queue) == next_ps);
        start_ready(e);
        settle(e);
        if (watch != NULL && !watch->go_on(watch->context, e->now_ps, e->timeline)) {
            return cancelled(e, error);
        }
        if (e->timeline->event_count >= report_at) {
            report_at = e->timeline->event_count + PROGRESS_EVENTS;
            if (e->options->progress != NULL &&
                !e->options->progress(e->options->progress_context, e->done, e->schedule->op_count)) {
                return cancelled(e, error);
            }
        }
    }
    return STATUS_OK;
}

/* What a lane carried, for each of its resources. */
static void tell_traffic(const struct engine *e)
{
    for (uint32_t r = 0; r < e->table->resource_count; r++) {
        if (e->table->lanes[r] != SCHED_NONE) {
            struct resource_traffic traffic = fluid_traffic(&e->fluid, e->table->lanes[r], e->now_ps);
            traffic.amount *= e->table->lane_scales[r];
            traffic.peak_use *= e->table->lane_scales[r];
            e->timeline->resources[r] = traffic;
        }
    }
}

static enum status keep_rates(struct engine *e, struct error *error)
{
    struct rate_change *kept = arena_array(&e->timeline->arena, struct rate_change, e->timeline->rate_count);
    if (kept == NULL || e->out_of_memory) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %llu rate changes",
                         (unsigned long long)e->timeline->rate_count);
    }
    if (e->timeline->rate_count != 0) {
        memcpy(kept, e->rates, e->timeline->rate_count * sizeof *kept);
    }
    e->timeline->rates = kept;
    return STATUS_OK;
}

enum status engine_run(const struct schedule *schedule, const struct cost_table *table,
                       const struct engine_options *options, struct timeline *timeline, struct error *error)
{
    struct engine e = { .schedule = schedule, .table = table, .options = options, .timeline = timeline };
    enum status status = STATUS_OK;
    TRY_OR_FAIL(engine_setup(&e, error));
    if (pools_overfull(&e.pools) == SCHED_NONE) {
        TRY_OR_FAIL(loop(&e, error));
    }
    if (e.done < schedule->op_count) {
        TRY_OR_FAIL(engine_explain_blocked(&e, error));
    }
    timeline->end_ps = e.now_ps;
    tell_traffic(&e);
    if (options->record_rates) {
        TRY_OR_FAIL(keep_rates(&e, error));
    }
fail:
    free(e.rates);
    arena_free(&e.arena);
    return status;
}
