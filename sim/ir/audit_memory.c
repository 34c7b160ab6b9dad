#include "sim/ir/audit_memory.h"

#include "sim/base/check.h"
#include "sim/ir/time_sort.h"

#define BAD(error, ...) error_set((error), STATUS_BAD_TIMELINE, __VA_ARGS__)

/* A space while it is replayed. */
struct replay {
    int64_t value;            /* now */
    int64_t time_ps;          /* of the open instant */
    int64_t before, acquired; /* when the instant began; acquired in it */
    uint64_t lowest_peak, highest_peak;
    uint64_t peak_time_low, peak_time_high; /* the same at the recorded time of the peak */
};

struct auditor {
    const struct schedule *s;
    const struct timeline *t;
    struct error *error;
    struct replay *spaces;
    uint32_t *owner; /* [space_count]: the only rank that touches it, SCHED_NONE: none yet, or `shared` */
    uint32_t shared;
    struct time_event *events, *scratch;
};

static enum status close_instant(struct auditor *a, uint32_t space)
{
    struct replay *x = &a->spaces[space];
    uint64_t high = (uint64_t)(x->before + x->acquired);
    uint64_t capacity = a->s->spaces[space].capacity_bytes;
    if (x->value < 0 || (uint64_t)x->value > capacity) {
        return BAD(a->error, "space %u \"%s\" holds %lld bytes at %lld ps, its capacity is %llu", space,
                   sched_label(a->s, a->s->spaces[space].label), (long long)x->value, (long long)x->time_ps,
                   (unsigned long long)capacity);
    }
    if ((uint64_t)x->value > x->lowest_peak) {
        x->lowest_peak = (uint64_t)x->value;
    }
    if (high > x->highest_peak) {
        x->highest_peak = high;
    }
    if (x->time_ps == a->t->spaces[space].peak_time_ps) {
        x->peak_time_low = (uint64_t)(x->value < x->before ? x->value : x->before);
        x->peak_time_high = high;
    }
    x->before = x->value;
    x->acquired = 0;
    return STATUS_OK;
}

static enum status change(struct auditor *a, uint32_t space, int64_t time_ps, int64_t bytes)
{
    struct replay *x = &a->spaces[space];
    if (x->time_ps != time_ps) {
        TRY(close_instant(a, space));
        /* A peak recorded at an instant without change would be held since before. */
        x->time_ps = time_ps;
    }
    x->value += bytes;
    x->acquired += bytes > 0 ? bytes : 0;
    return STATUS_OK;
}

/* One start or end; only the spaces of `owner`. */
static enum status replay_event(struct auditor *a, const struct time_event *event, uint32_t owner)
{
    const struct schedule *s = a->s;
    const struct sched_op *op = &s->ops[event->op];
    const uint32_t *buffers = event->is_end != 0 ? sched_releases(s, op) : sched_acquires(s, op);
    uint32_t count = event->is_end != 0 ? op->release_count : op->acquire_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct sched_buffer *b = &s->buffers[buffers[i]];
        int64_t bytes = (int64_t)(b->bytes * b->copies);
        for (uint32_t space = b->space; space != SCHED_NONE; space = s->spaces[space].parent) {
            if (a->owner[space] == owner) {
                TRY(change(a, space, event->time_ps, event->is_end != 0 ? -bytes : bytes));
            }
        }
    }
    return STATUS_OK;
}

static void own(struct auditor *a, const uint32_t *buffers, uint32_t count, uint32_t rank)
{
    const struct schedule *s = a->s;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t space = s->buffers[buffers[i]].space; space != SCHED_NONE; space = s->spaces[space].parent) {
            if (a->owner[space] == SCHED_NONE) {
                a->owner[space] = rank;
            } else if (a->owner[space] != rank) {
                a->owner[space] = a->shared;
            }
        }
    }
}

/* The events of ops [first, end) that touch memory, sorted. */
static uint32_t collect(struct auditor *a, uint32_t first, uint32_t end)
{
    uint32_t count = 0;
    CHECK(a->events != NULL);
    for (uint32_t i = first; i < end; i++) {
        const struct sched_op *op = &a->s->ops[i];
        if (op->acquire_count != 0) {
            a->events[count++] = (struct time_event){ a->t->ops[i].start_ps, i, 0 };
        }
        if (op->release_count != 0) {
            a->events[count++] = (struct time_event){ a->t->ops[i].end_ps, i, 1 };
        }
    }
    time_sort(a->events, a->scratch, count);
    return count;
}

static enum status replay(struct auditor *a, uint32_t first, uint32_t end, uint32_t owner)
{
    uint32_t count = collect(a, first, end);
    for (uint32_t i = 0; i < count; i++) {
        TRY(replay_event(a, &a->events[i], owner));
    }
    return STATUS_OK;
}

static enum status start(struct auditor *a, struct arena *scratch)
{
    const struct schedule *s = a->s;
    uint32_t widest = 0;
    bool any_shared = false;
    a->shared = s->rank_count;
    a->spaces = arena_array(scratch, struct replay, s->space_count);
    a->owner = arena_array(scratch, uint32_t, s->space_count);
    if (a->spaces == NULL || a->owner == NULL) {
        return error_set(a->error, STATUS_NO_MEMORY, "out of memory: auditing %u spaces", s->space_count);
    }
    for (uint32_t i = 0; i < s->space_count; i++) {
        a->owner[i] = SCHED_NONE;
    }
    for (uint32_t r = 0; r < s->rank_count; r++) {
        for (uint32_t i = s->ranks[r].first_op; i < s->ranks[r].first_op + s->ranks[r].op_count; i++) {
            const struct sched_op *op = &s->ops[i];
            own(a, sched_acquires(s, op), (uint32_t)op->acquire_count + op->release_count, r);
        }
        widest = s->ranks[r].op_count > widest ? s->ranks[r].op_count : widest;
    }
    for (uint32_t i = 0; i < s->space_count; i++) {
        any_shared = any_shared || a->owner[i] == a->shared;
    }
    size_t room = 2 * (size_t)(any_shared ? s->op_count : widest);
    a->events = arena_array(scratch, struct time_event, room);
    a->scratch = arena_array(scratch, struct time_event, room);
    if (a->events == NULL || a->scratch == NULL) {
        return error_set(a->error, STATUS_NO_MEMORY, "out of memory: auditing %u ops", s->op_count);
    }
    for (uint32_t i = 0; i < s->buffer_count; i++) {
        const struct sched_buffer *b = &s->buffers[i];
        for (uint32_t space = b->space; (b->flags & BUFFER_LIVE_AT_START) != 0 && space != SCHED_NONE;
             space = s->spaces[space].parent) {
            a->spaces[space].value += (int64_t)(b->bytes * b->copies);
        }
    }
    for (uint32_t i = 0; i < s->space_count; i++) {
        struct replay *x = &a->spaces[i];
        x->before = x->value;
        x->lowest_peak = x->highest_peak = (uint64_t)x->value;
    }
    return STATUS_OK;
}

static enum status check_peaks(struct auditor *a)
{
    const struct schedule *s = a->s;
    for (uint32_t i = 0; i < s->space_count; i++) {
        const struct space_use *use = &a->t->spaces[i];
        const struct replay *x = &a->spaces[i];
        const char *label = sched_label(s, s->spaces[i].label);
        uint64_t classes = 0;
        for (uint32_t j = 0; j < BUFFER_CLASS_COUNT; j++) {
            classes += use->at_peak_bytes[j];
        }
        if (use->peak_bytes < x->lowest_peak || use->peak_bytes > x->highest_peak ||
            use->peak_bytes > s->spaces[i].capacity_bytes) {
            return BAD(a->error, "space %u \"%s\" peaks at %llu to %llu bytes of %llu, recorded are %llu", i, label,
                       (unsigned long long)x->lowest_peak, (unsigned long long)x->highest_peak,
                       (unsigned long long)s->spaces[i].capacity_bytes, (unsigned long long)use->peak_bytes);
        }
        if (classes != use->peak_bytes) {
            return BAD(a->error, "space %u \"%s\" has a peak of %llu bytes, but its classes have %llu", i, label,
                       (unsigned long long)use->peak_bytes, (unsigned long long)classes);
        }
        if (use->peak_op != SCHED_NONE &&
            (use->peak_op >= s->op_count || a->t->ops[use->peak_op].start_ps != use->peak_time_ps ||
             use->peak_bytes < x->peak_time_low || use->peak_bytes > x->peak_time_high)) {
            return BAD(a->error,
                       "space %u \"%s\" is said to peak with %llu bytes at op %u at %lld ps; it has %llu to %llu then",
                       i, label, (unsigned long long)use->peak_bytes, use->peak_op, (long long)use->peak_time_ps,
                       (unsigned long long)x->peak_time_low, (unsigned long long)x->peak_time_high);
        }
    }
    return STATUS_OK;
}

/* What is left is what the schedule says stays. */
static enum status check_ends(struct auditor *a)
{
    const struct schedule *s = a->s;
    for (uint32_t i = 0; i < s->space_count; i++) {
        TRY(close_instant(a, i));
    }
    for (uint32_t i = 0; i < s->buffer_count; i++) {
        const struct sched_buffer *b = &s->buffers[i];
        for (uint32_t space = b->space; (b->flags & BUFFER_LIVE_AT_END) != 0 && space != SCHED_NONE;
             space = s->spaces[space].parent) {
            a->spaces[space].value -= (int64_t)(b->bytes * b->copies);
        }
    }
    for (uint32_t i = 0; i < s->space_count; i++) {
        if (a->spaces[i].value != 0) {
            return BAD(a->error, "space %u \"%s\" ends with %lld bytes more than what stays", i,
                       sched_label(s, s->spaces[i].label), (long long)a->spaces[i].value);
        }
    }
    return STATUS_OK;
}

enum status audit_memory(const struct schedule *schedule, const struct timeline *timeline, struct arena *scratch,
                         struct error *error)
{
    struct auditor a = { .s = schedule, .t = timeline, .error = error };
    TRY(start(&a, scratch));
    for (uint32_t r = 0; r < schedule->rank_count; r++) {
        uint32_t first = schedule->ranks[r].first_op;
        TRY(replay(&a, first, first + schedule->ranks[r].op_count, r));
    }
    for (uint32_t i = 0; i < schedule->space_count; i++) {
        if (a.owner[i] == a.shared) {
            TRY(replay(&a, 0, schedule->op_count, a.shared));
            break;
        }
    }
    TRY(check_ends(&a));
    return check_peaks(&a);
}
