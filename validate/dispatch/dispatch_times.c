/* From stamps to a timeline: gates in order, memory over time. */
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/ir/time_sort.h"
#include "validate/dispatch/dispatch_internal.h"

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* -- gates --
 *
 * Host threads stamp what they see, so synchronous ops are in order already. Device clocks have a grain and are set by the host's only roughly: an end may seem to lie
 * behind the start that it caused. What is sure bounds them: an op begins after it was submitted and after its causes ended; it ended when that was seen. */

/* When the last of its causes had ended, its issue among them. */
static int64_t cause_ps(const struct dispatch *d, uint32_t op)
{
    const struct sched_op *at = &d->schedule->ops[op];
    int64_t last = later(d->times[op].issued_ps, d->queue_end_ps[at->queue]);
    for (uint32_t i = 0; i < at->dependency_count; i++) {
        last = later(last, d->times[d->schedule->dependencies[at->first_dependency + i]].end_ps);
    }
    return last;
}

static void set_issue(struct dispatch *d, uint32_t op)
{
    uint32_t fence = d->nodes[op].fence;
    d->times[op].issued_ps = fence == SCHED_NONE ? 0 : d->times[fence].end_ps;
}

/* What the device says, between what the host saw. */
static int64_t within(const struct dispatch *d, uint32_t op, int64_t time_ps)
{
    return time_ps < d->submitted_ps[op] ? d->submitted_ps[op] : time_ps > d->seen_ps[op] ? d->seen_ps[op] : time_ps;
}

static void order_start(struct dispatch *d, uint32_t first)
{
    uint32_t count;
    const uint32_t *members = dispatch_members(d, &first, &count);
    int64_t matched_ps = 0, start_ps = 0, end_ps = 0;
    bool is_async = d->nodes[first].is_async;
    for (uint32_t i = 0; i < count; i++) {
        struct op_times *times = &d->times[members[i]];
        set_issue(d, members[i]);
        times->ready_ps = later(times->ready_ps, cause_ps(d, members[i]));
        matched_ps = later(matched_ps, times->ready_ps);
        start_ps = later(start_ps, is_async ? within(d, members[i], times->start_ps) : times->start_ps);
        end_ps = later(end_ps, is_async ? within(d, members[i], times->end_ps) : times->end_ps);
    }
    if (d->nodes[first].waited) {
        matched_ps = later(matched_ps, d->times[first].matched_ps);
    }
    start_ps = later(start_ps, matched_ps);
    /* What ran took time, whatever the clock's grain: else what it held would be in no peak. */
    end_ps = later(end_ps, start_ps + (d->schedule->ops[first].opcode == OP_MARK ? 0 : 1));
    for (uint32_t i = 0; i < count; i++) {
        struct op_times *times = &d->times[members[i]];
        /* Who did not wait for memory was matched when it began: waking a thread is no wait for memory. */
        times->matched_ps = d->nodes[first].waited ? matched_ps : start_ps;
        times->ready_ps = d->nodes[first].waited || count > 1 ? times->ready_ps : start_ps;
        times->start_ps = start_ps;
        times->end_ps = end_ps;
        times->alone_ps = end_ps - start_ps;
        d->queue_end_ps[d->schedule->ops[members[i]].queue] = end_ps;
    }
}

/* Of an op that never started, what has come. */
static void order_waiting(struct dispatch *d, uint32_t op)
{
    struct op_times *times = &d->times[op];
    set_issue(d, op);
    if (times->ready_ps != TIME_NEVER_PS) {
        times->ready_ps = later(times->ready_ps, cause_ps(d, op));
    }
    if (times->matched_ps != TIME_NEVER_PS) {
        times->matched_ps = later(times->matched_ps, times->ready_ps);
    }
}

/* Of an op of another process, as end_step told it. Its rank's ops stand in an order that causes come first; partners stay as their own processes saw them. */
static void order_remote(struct dispatch *d, uint32_t op)
{
    struct op_times *times = &d->times[op];
    set_issue(d, op);
    int64_t cause = cause_ps(d, op);
    times->ready_ps = times->ready_ps == TIME_NEVER_PS ? cause : later(times->ready_ps, cause);
    times->matched_ps =
        times->matched_ps == TIME_NEVER_PS ? times->ready_ps : later(times->matched_ps, times->ready_ps);
    times->start_ps = later(times->start_ps, times->matched_ps);
    times->end_ps = later(times->end_ps, times->start_ps);
    times->alone_ps = times->end_ps - times->start_ps;
    d->queue_end_ps[d->schedule->ops[op].queue] = times->end_ps;
}

static void order_times(struct dispatch *d)
{
    memset(d->queue_end_ps, 0, d->schedule->queue_count * sizeof *d->queue_end_ps);
    for (uint32_t i = 0; i < d->order_count; i++) { /* causes start before what they cause */
        order_start(d, d->order[i]);
    }
    bool is_done = d->done == d->local_ops, is_alone = d->local_ops == d->schedule->op_count;
    for (uint32_t i = 0; i < d->schedule->op_count && !(is_done && is_alone); i++) {
        if (d->nodes[i].is_local && d->nodes[i].state < OP_STARTED) {
            order_waiting(d, i);
        } else if (!d->nodes[i].is_local && d->times[i].end_ps != TIME_NEVER_PS) {
            order_remote(d, i);
        }
    }
}

/* -- memory --
 *
 * timeline_memory says the same of one space at a time (a test compares); this takes all spaces in one pass. Peaks are of whole instants, as the engine's. */

struct level {
    int64_t bytes[BUFFER_CLASS_COUNT]; /* within an instant an end may come before the start that it follows */
    int64_t sum;
    uint32_t last_op;
    bool is_touched;
};

struct replay {
    const struct schedule *schedule;
    struct level *levels;
    struct space_use *uses;
    uint32_t *touched;
    uint32_t touched_count;
};

static void charge(struct replay *r, uint32_t buffer, int64_t sign, uint32_t op)
{
    const struct sched_buffer *b = &r->schedule->buffers[buffer];
    int64_t bytes = sign * (int64_t)(b->bytes * b->copies);
    for (uint32_t s = b->space; s != SCHED_NONE; s = r->schedule->spaces[s].parent) {
        struct level *level = &r->levels[s];
        level->bytes[b->buffer_class] += bytes;
        level->sum += bytes;
        level->last_op = sign > 0 ? op : level->last_op;
        if (!level->is_touched) {
            level->is_touched = true;
            r->touched[r->touched_count++] = s;
        }
    }
}

static void close_instant(struct replay *r, int64_t time_ps)
{
    for (uint32_t i = 0; i < r->touched_count; i++) {
        struct level *level = &r->levels[r->touched[i]];
        struct space_use *use = &r->uses[r->touched[i]];
        level->is_touched = false;
        if (level->sum > (int64_t)use->peak_bytes) {
            use->peak_bytes = (uint64_t)level->sum;
            use->peak_time_ps = time_ps;
            use->peak_op = level->last_op;
            for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
                use->at_peak_bytes[c] = (uint64_t)level->bytes[c];
            }
        }
    }
    r->touched_count = 0;
}

static uint32_t collect(const struct schedule *s, const struct timeline *t, struct time_event *events)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        if (t->ops[i].start_ps != TIME_NEVER_PS && s->ops[i].acquire_count != 0) {
            events[count++] = (struct time_event){ t->ops[i].start_ps, i, 0 };
        }
        if (t->ops[i].end_ps != TIME_NEVER_PS && s->ops[i].release_count != 0) {
            events[count++] = (struct time_event){ t->ops[i].end_ps, i, 1 };
        }
    }
    return count;
}

static enum status find_peaks(const struct schedule *s, struct timeline *t, struct error *error)
{
    struct arena scratch = { 0 };
    size_t events_max = 0;
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < s->op_count; i++) {
        events_max += s->ops[i].acquire_count != 0;
        events_max += s->ops[i].release_count != 0;
    }
    struct time_event *events = arena_array(&scratch, struct time_event, 2 * events_max);
    struct replay r = { .schedule = s, .uses = t->spaces };
    r.levels = arena_array(&scratch, struct level, s->space_count);
    r.touched = arena_array(&scratch, uint32_t, s->space_count);
    if (events == NULL || r.levels == NULL || r.touched == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the memory curves of %u ops", s->op_count);
        goto fail;
    }
    for (uint32_t i = 0; i < s->space_count; i++) {
        t->spaces[i].peak_op = r.levels[i].last_op = SCHED_NONE;
    }
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        if (s->buffers[b].flags & BUFFER_LIVE_AT_START) {
            charge(&r, b, 1, SCHED_NONE);
        }
    }
    close_instant(&r, 0);
    uint32_t count = collect(s, t, events);
    time_sort(events, events + events_max, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct sched_op *op = &s->ops[events[i].op];
        const uint32_t *buffers = events[i].is_end != 0 ? sched_releases(s, op) : sched_acquires(s, op);
        uint32_t buffer_count = events[i].is_end != 0 ? op->release_count : op->acquire_count;
        for (uint32_t k = 0; k < buffer_count; k++) {
            charge(&r, buffers[k], events[i].is_end != 0 ? -1 : 1, events[i].op);
        }
        if (i + 1 == count || events[i + 1].time_ps != events[i].time_ps) {
            close_instant(&r, events[i].time_ps);
        }
    }
fail:
    arena_free(&scratch);
    return status;
}

enum status dispatch_finish_times(struct dispatch *d, struct timeline *t, struct error *error)
{
    order_times(d);
    t->schedule_hash = d->hash;
    (void)snprintf(t->executor, sizeof t->executor, "%s", d->driver->executor);
    t->emulated = d->driver->emulated;
    t->event_count = d->done;
    t->end_ps = 0;
    for (uint32_t i = 0; i < d->schedule->op_count; i++) {
        t->end_ps = t->ops[i].end_ps != TIME_NEVER_PS ? later(t->end_ps, t->ops[i].end_ps) : t->end_ps;
    }
    return find_peaks(d->schedule, t, error);
}
