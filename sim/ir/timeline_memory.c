/* Bytes live in a space as step functions of time. */
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/ir/time_sort.h"
#include "sim/ir/timeline.h"

struct curve {
    const struct schedule *s;
    struct arena scratch;
    uint8_t *inside; /* [space_count]: charges the space */
    struct time_event *events;
    uint32_t event_count;
};

static enum status no_memory(struct error *error, const struct curve *c)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory: a memory curve of %u ops", c->s->op_count);
}

static bool touches(const struct curve *c, const uint32_t *buffers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (c->inside[c->s->buffers[buffers[i]].space] != 0) {
            return true;
        }
    }
    return false;
}

/* Two passes: count, then fill; starts that acquire and ends that release in the space. */
static enum status collect(struct curve *c, const struct timeline *t, struct error *error)
{
    const struct schedule *s = c->s;
    for (unsigned pass = 0; pass < 2; pass++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < s->op_count; i++) {
            const struct sched_op *op = &s->ops[i];
            if (t->ops[i].start_ps != TIME_NEVER_PS && touches(c, sched_acquires(s, op), op->acquire_count)) {
                if (pass == 1) {
                    c->events[count] = (struct time_event){ t->ops[i].start_ps, i, 0 };
                }
                count++;
            }
            if (t->ops[i].end_ps != TIME_NEVER_PS && touches(c, sched_releases(s, op), op->release_count)) {
                if (pass == 1) {
                    c->events[count] = (struct time_event){ t->ops[i].end_ps, i, 1 };
                }
                count++;
            }
        }
        if (pass == 0) {
            c->event_count = count;
            c->events = arena_array(&c->scratch, struct time_event, 2 * (size_t)count);
            if (c->events == NULL) {
                return no_memory(error, c);
            }
        }
    }
    time_sort(c->events, c->events + c->event_count, c->event_count);
    return STATUS_OK;
}

/* Apply one event to the bytes by class. */
static void apply(const struct curve *c, const struct time_event *event, uint64_t bytes[BUFFER_CLASS_COUNT])
{
    const struct sched_op *op = &c->s->ops[event->op];
    const uint32_t *buffers = event->is_end != 0 ? sched_releases(c->s, op) : sched_acquires(c->s, op);
    uint32_t count = event->is_end != 0 ? op->release_count : op->acquire_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct sched_buffer *b = &c->s->buffers[buffers[i]];
        if (c->inside[b->space] != 0) {
            uint64_t change = b->bytes * b->copies;
            /* Unsigned: within an instant an end may come before the start that it follows. */
            bytes[b->buffer_class] += event->is_end != 0 ? 0 - change : change;
        }
    }
}

static enum status curve_start(struct curve *c, const struct schedule *s, const struct timeline *t, uint32_t space,
                               uint64_t bytes[BUFFER_CLASS_COUNT], struct error *error)
{
    CHECK(space < s->space_count && t->op_count == s->op_count);
    *c = (struct curve){ .s = s };
    c->inside = arena_array(&c->scratch, uint8_t, s->space_count);
    if (c->inside == NULL) {
        return no_memory(error, c);
    }
    for (uint32_t i = 0; i < s->space_count; i++) { /* parents stand before their children */
        uint32_t parent = s->spaces[i].parent;
        c->inside[i] = i == space || (parent != SCHED_NONE && c->inside[parent] != 0);
    }
    memset(bytes, 0, BUFFER_CLASS_COUNT * sizeof *bytes);
    for (uint32_t i = 0; i < s->buffer_count; i++) {
        const struct sched_buffer *b = &s->buffers[i];
        if ((b->flags & BUFFER_LIVE_AT_START) != 0 && c->inside[b->space] != 0) {
            bytes[b->buffer_class] += b->bytes * b->copies;
        }
    }
    return collect(c, t, error);
}

enum status timeline_memory_by_class(const struct schedule *schedule, const struct timeline *timeline, uint32_t space,
                                     struct arena *arena, int64_t **times_ps, uint64_t **bytes, uint32_t *point_count,
                                     struct error *error)
{
    struct curve c;
    uint64_t now[BUFFER_CLASS_COUNT];
    enum status status;
    TRY_OR_FAIL(curve_start(&c, schedule, timeline, space, now, error));
    uint32_t instants = 1;
    for (uint32_t i = 0; i < c.event_count; i++) {
        instants += c.events[i].time_ps != (i == 0 ? 0 : c.events[i - 1].time_ps);
    }
    *times_ps = arena_array(arena, int64_t, instants);
    *bytes = arena_array(arena, uint64_t, (size_t)instants * BUFFER_CLASS_COUNT);
    *point_count = instants;
    if (*times_ps == NULL || *bytes == NULL) {
        status = no_memory(error, &c);
        goto fail;
    }
    (*times_ps)[0] = 0;
    for (uint32_t i = 0, point = 0;; i++) {
        if (i == c.event_count || c.events[i].time_ps != (*times_ps)[point]) {
            memcpy(*bytes + (size_t)point * BUFFER_CLASS_COUNT, now, sizeof now);
            if (i == c.event_count) {
                break;
            }
            (*times_ps)[++point] = c.events[i].time_ps;
        }
        apply(&c, &c.events[i], now);
    }
fail:
    arena_free(&c.scratch);
    return status;
}

enum status timeline_memory(const struct schedule *schedule, const struct timeline *timeline, uint32_t space,
                            struct arena *arena, struct memory_point **points, uint32_t *point_count,
                            struct error *error)
{
    struct arena scratch = { 0 };
    int64_t *times;
    uint64_t *bytes;
    enum status status;
    TRY_OR_FAIL(timeline_memory_by_class(schedule, timeline, space, &scratch, &times, &bytes, point_count, error));
    *points = arena_array(arena, struct memory_point, *point_count);
    if (*points == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory: a memory curve of %u points", *point_count);
        goto fail;
    }
    for (uint32_t i = 0; i < *point_count; i++) {
        uint64_t sum = 0;
        for (uint32_t j = 0; j < BUFFER_CLASS_COUNT; j++) {
            sum += bytes[(size_t)i * BUFFER_CLASS_COUNT + j];
        }
        (*points)[i] = (struct memory_point){ times[i], sum };
    }
fail:
    arena_free(&scratch);
    return status;
}
