#include "sim/core/psq.h"

#include <math.h>
#include <string.h>

#include "sim/base/check.h"

/* Rounding of tags that psq_next_ps forgives: a unit in the last place or two, lest a flow end a picosecond late for
 * the last bit's sake. */
#define TAG_SLACK 0x1p-52

static uint64_t bits_of(double tag)
{
    uint64_t bits;
    memcpy(&bits, &tag, sizeof bits);
    return bits;
}

static double tag_of(uint64_t bits)
{
    double tag;
    memcpy(&tag, &bits, sizeof tag);
    return tag;
}

/* sum += term, exactly but for 2^-106 of the sum (Knuth's two-sum: `error` is what rounding dropped). */
static void add_to(struct psq_sum *sum, double term)
{
    double total = sum->high + term, part = total - sum->high;
    double error = (sum->high - (total - part)) + (term - part) + sum->low;
    sum->high = total + error;
    sum->low = error - (sum->high - total);
}

enum status psq_init(struct psq *queue, struct arena *arena, uint32_t slot_count, double capacity, double level_max,
                     struct error *error)
{
    CHECK(capacity >= 0.0 && isfinite(capacity) && level_max > 0.0);
    *queue = (struct psq){ .capacity = capacity, .level_max = level_max };
    TRY(heap4_init(&queue->heap, arena, slot_count, error));
    queue->weights = arena_array(arena, double, slot_count);
    if (queue->weights == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: a shared resource of %u slots", slot_count);
    }
    return STATUS_OK;
}

/* Let virtual time catch up with now_ps. */
static void advance(struct psq *queue, int64_t now_ps)
{
    CHECK(now_ps >= queue->last_ps);
    add_to(&queue->virtual_units, queue->slope * (double)(now_ps - queue->last_ps));
    queue->last_ps = now_ps;
}

static double level_of(const struct psq *queue)
{
    return fmin(queue->capacity / queue->weight_sum.high, queue->level_max);
}

/* After a change of weights or capacity. */
static void set_slope(struct psq *queue)
{
    if (heap4_size(&queue->heap) == 0) {
        /* Idle: start virtual time afresh, so that its rounding error does not grow for ever. */
        heap4_clear(&queue->heap);
        queue->virtual_units = queue->weight_sum = (struct psq_sum){ 0.0, 0.0 };
        queue->slope = 0.0;
        return;
    }
    queue->slope = level_of(queue) / (double)PS_PER_S;
}

void psq_set_capacity(struct psq *queue, int64_t now_ps, double capacity)
{
    CHECK(capacity >= 0.0 && isfinite(capacity));
    advance(queue, now_ps);
    queue->capacity = capacity;
    set_slope(queue);
}

void psq_add(struct psq *queue, int64_t now_ps, uint32_t slot, double work, double weight)
{
    CHECK(work >= 0.0 && isfinite(work) && weight > 0.0 && isfinite(weight));
    CHECK(slot < queue->heap.slot_count && !heap4_has(&queue->heap, slot));
    advance(queue, now_ps);
    queue->weights[slot] = weight;
    add_to(&queue->weight_sum, weight);
    double tag = queue->virtual_units.high + work / weight;
    if (queue->heap.hole && tag < tag_of(queue->heap.keys[HEAP4_ROOT].rank)) {
        /* The flow that ended last was ahead of V by its rounding; the heap wants no tag below its. */
        tag = tag_of(queue->heap.keys[HEAP4_ROOT].rank);
    }
    heap4_insert(&queue->heap, slot, bits_of(tag));
    set_slope(queue);
}

double psq_remove(struct psq *queue, int64_t now_ps, uint32_t slot)
{
    CHECK(psq_has(queue, slot));
    advance(queue, now_ps);
    double left = psq_left(queue, now_ps, slot);
    heap4_remove(&queue->heap, slot);
    add_to(&queue->weight_sum, -queue->weights[slot]);
    set_slope(queue);
    return left;
}

bool psq_has(const struct psq *queue, uint32_t slot)
{
    return heap4_has(&queue->heap, slot);
}

uint32_t psq_count(const struct psq *queue)
{
    return heap4_size(&queue->heap);
}

double psq_rate(const struct psq *queue, uint32_t slot)
{
    CHECK(psq_has(queue, slot));
    return queue->weights[slot] * level_of(queue);
}

double psq_left(const struct psq *queue, int64_t now_ps, uint32_t slot)
{
    CHECK(psq_has(queue, slot) && now_ps >= queue->last_ps);
    double ahead = tag_of(heap4_rank(&queue->heap, slot)) - queue->virtual_units.high - queue->virtual_units.low;
    double left = (ahead - queue->slope * (double)(now_ps - queue->last_ps)) * queue->weights[slot];
    return left > 0.0 ? left : 0.0;
}

int64_t psq_next_ps(const struct psq *queue)
{
    const struct heap4_key *top = heap4_top(&queue->heap);
    if (top == NULL) {
        return TIME_NEVER_PS;
    }
    double tag = tag_of(top->rank);
    double left = tag - queue->virtual_units.high - queue->virtual_units.low - tag * TAG_SLACK;
    if (left <= 0.0) {
        return queue->last_ps;
    }
    double wait_ps = ceil(left / queue->slope); /* infinite when nothing moves */
    return wait_ps >= (double)(TIME_NEVER_PS - queue->last_ps) ? TIME_NEVER_PS : queue->last_ps + (int64_t)wait_ps;
}

bool psq_take(struct psq *queue, int64_t now_ps, uint32_t *slot)
{
    int64_t due_ps = psq_next_ps(queue);
    if (due_ps > now_ps || heap4_size(&queue->heap) == 0) {
        return false;
    }
    CHECK(due_ps == now_ps);
    advance(queue, now_ps);
    *slot = heap4_take(&queue->heap);
    add_to(&queue->weight_sum, -queue->weights[*slot]);
    set_slope(queue);
    return true;
}
