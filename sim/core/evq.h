/* Event queue: which slot is due next, and when. Events at one instant come out in the order in which they were put
 * in.
 *
 * A slot (below slot_count, chosen by the caller: an activity's index, a timer's) has at most one pending event;
 * what the event means is the caller's, under the same index. Time is int64 picoseconds and never goes back. Events
 * for the present instant bypass the heap in a ring. Put, take, move and cancel: O(log4 n), O(1) at the present
 * instant. Nothing is allocated after init; the capacity is slot_count.
 *
 *     struct evq queue;
 *     TRY(evq_init(&queue, &arena, slot_count, error));
 *     evq_put(&queue, slot, at_ps);
 *     while (evq_take(&queue, &slot)) {          // queue.now_ps is the time of the event
 *         evq_put(&queue, slot, queue.now_ps + 5);
 *     } */
#ifndef MEMWALL_CORE_EVQ_H
#define MEMWALL_CORE_EVQ_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/units.h"
#include "sim/core/heap4.h"

struct evq {
    int64_t now_ps; /* of the event taken last; 0 at first */
    struct heap4 heap;
    /* Slots due at now_ps, first in first out; all entries of the heap that are due at now_ps were put in before and
     * go first. */
    uint32_t *ring; /* HEAP4_ABSENT: cancelled */
    uint32_t ring_mask, ring_head, ring_tail, ring_live;
};

enum status evq_init(struct evq *queue, struct arena *arena, uint32_t slot_count, struct error *error);
/* Back to empty at time 0. */
void evq_clear(struct evq *queue);

/* Pending events. */
uint32_t evq_count(const struct evq *queue);
bool evq_is_pending(const struct evq *queue, uint32_t slot);
/* When a pending slot is due. */
int64_t evq_time_ps(const struct evq *queue, uint32_t slot);

/* `slot` must not be pending; at_ps >= now_ps. */
void evq_put(struct evq *queue, uint32_t slot, int64_t at_ps);
/* Move a pending event, or put one that is not: it goes behind all others of its new instant. Even at an unchanged
 * instant. */
void evq_move(struct evq *queue, uint32_t slot, int64_t at_ps);
/* Does nothing when `slot` is not pending. */
void evq_cancel(struct evq *queue, uint32_t slot);
/* When the next event is due; TIME_NEVER_PS when there is none. */
int64_t evq_next_ps(const struct evq *queue);
/* Take the next event and step to its time; false when there is none. Putting an event right after costs nothing
 * extra: it fills the gap. */
bool evq_take(struct evq *queue, uint32_t *slot);

#endif
