#include "sim/core/evq.h"

#include "sim/base/check.h"

/* position[] of a slot in the ring: this bit and the index. */
#define IN_RING 0x80000000u

static bool is_in_ring(uint32_t position)
{
    return (position & IN_RING) != 0 && position != HEAP4_ABSENT;
}

enum status evq_init(struct evq *queue, struct arena *arena, uint32_t slot_count, struct error *error)
{
    *queue = (struct evq){ .now_ps = 0 };
    TRY(heap4_init(&queue->heap, arena, slot_count, error));
    /* Twice the slots, so that cancelled entries are swept out at most once in slot_count puts. */
    uint32_t size = 2;
    while (size < 2 * slot_count) {
        size *= 2;
    }
    queue->ring = arena_array(arena, uint32_t, size);
    queue->ring_mask = size - 1;
    if (queue->ring == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: an event queue of %u slots", slot_count);
    }
    return STATUS_OK;
}

void evq_clear(struct evq *queue)
{
    for (uint32_t i = queue->ring_head; i != queue->ring_tail; i++) {
        uint32_t slot = queue->ring[i & queue->ring_mask];
        if (slot != HEAP4_ABSENT) {
            queue->heap.position[slot] = HEAP4_ABSENT;
        }
    }
    heap4_clear(&queue->heap);
    queue->ring_head = queue->ring_tail = queue->ring_live = 0;
    queue->now_ps = 0;
}

uint32_t evq_count(const struct evq *queue)
{
    return heap4_size(&queue->heap) + queue->ring_live;
}

bool evq_is_pending(const struct evq *queue, uint32_t slot)
{
    return queue->heap.position[slot] != HEAP4_ABSENT;
}

int64_t evq_time_ps(const struct evq *queue, uint32_t slot)
{
    CHECK(evq_is_pending(queue, slot));
    return is_in_ring(queue->heap.position[slot]) ? queue->now_ps : (int64_t)heap4_rank(&queue->heap, slot);
}

/* Drop the cancelled entries. */
static void sweep_ring(struct evq *queue)
{
    uint32_t to = queue->ring_head;
    for (uint32_t from = queue->ring_head; from != queue->ring_tail; from++) {
        uint32_t slot = queue->ring[from & queue->ring_mask];
        if (slot != HEAP4_ABSENT) {
            queue->ring[to & queue->ring_mask] = slot;
            queue->heap.position[slot] = IN_RING | (to & queue->ring_mask);
            to++;
        }
    }
    queue->ring_tail = to;
}

static void ring_put(struct evq *queue, uint32_t slot)
{
    if (queue->ring_tail - queue->ring_head > queue->ring_mask) {
        sweep_ring(queue);
    }
    uint32_t at = queue->ring_tail++ & queue->ring_mask;
    queue->ring[at] = slot;
    queue->heap.position[slot] = IN_RING | at;
    queue->ring_live++;
}

static void ring_cancel(struct evq *queue, uint32_t slot)
{
    queue->ring[queue->heap.position[slot] & ~IN_RING] = HEAP4_ABSENT;
    queue->heap.position[slot] = HEAP4_ABSENT;
    queue->ring_live--;
    if (queue->ring_live == 0) {
        queue->ring_head = queue->ring_tail;
    }
}

void evq_put(struct evq *queue, uint32_t slot, int64_t at_ps)
{
    CHECK(slot < queue->heap.slot_count && at_ps >= queue->now_ps);
    CHECK(queue->heap.position[slot] == HEAP4_ABSENT);
    if (at_ps == queue->now_ps) {
        ring_put(queue, slot);
    } else {
        heap4_insert(&queue->heap, slot, (uint64_t)at_ps);
    }
}

void evq_move(struct evq *queue, uint32_t slot, int64_t at_ps)
{
    CHECK(slot < queue->heap.slot_count && at_ps >= queue->now_ps);
    uint32_t position = queue->heap.position[slot];
    if ((position & IN_RING) == 0 && at_ps > queue->now_ps) {
        heap4_move(&queue->heap, slot, (uint64_t)at_ps);
        return;
    }
    evq_cancel(queue, slot);
    evq_put(queue, slot, at_ps);
}

void evq_cancel(struct evq *queue, uint32_t slot)
{
    CHECK(slot < queue->heap.slot_count);
    uint32_t position = queue->heap.position[slot];
    if (position == HEAP4_ABSENT) {
        return;
    }
    if (is_in_ring(position)) {
        ring_cancel(queue, slot);
    } else {
        heap4_remove(&queue->heap, slot);
    }
}

int64_t evq_next_ps(const struct evq *queue)
{
    if (queue->ring_live > 0) {
        return queue->now_ps;
    }
    const struct heap4_key *top = heap4_top(&queue->heap);
    return top == NULL ? TIME_NEVER_PS : (int64_t)top->rank;
}

bool evq_take(struct evq *queue, uint32_t *slot)
{
    if (queue->ring_live > 0) {
        const struct heap4_key *top = heap4_top(&queue->heap);
        if (top == NULL || top->rank != (uint64_t)queue->now_ps) {
            do {
                *slot = queue->ring[queue->ring_head++ & queue->ring_mask];
            } while (*slot == HEAP4_ABSENT);
            queue->heap.position[*slot] = HEAP4_ABSENT;
            queue->ring_live--;
            return true;
        }
    }
    if (heap4_size(&queue->heap) == 0) {
        return false;
    }
    *slot = heap4_take(&queue->heap);
    queue->now_ps = (int64_t)queue->heap.keys[HEAP4_ROOT].rank;
    return true;
}
