#include "sim/engine/pool.h"

#include <string.h>

#include "sim/base/check.h"

static uint64_t charge_of(const struct sched_buffer *buffer)
{
    /* Saturated: no capacity but "unlimited" holds 2^64 bytes, and there the sum is guarded by pools_acquire. */
    return buffer->copies != 0 && buffer->bytes > UINT64_MAX / buffer->copies ? UINT64_MAX
                                                                              : buffer->bytes * buffer->copies;
}

static void touch(struct pools *pools, uint32_t space)
{
    if (!pools->spaces[space].touched) {
        pools->spaces[space].touched = true;
        pools->touched[pools->touched_count++] = space;
    }
}

static void charge(struct pools *pools, uint32_t buffer)
{
    for (uint32_t s = pools->buffer_spaces[buffer]; s != SCHED_NONE; s = pools->spaces[s].parent) {
        pools->spaces[s].live_bytes += pools->charges[buffer];
        pools->spaces[s].class_bytes[pools->classes[buffer]] += pools->charges[buffer];
        touch(pools, s);
    }
}

static void discharge(struct pools *pools, uint32_t buffer)
{
    for (uint32_t s = pools->buffer_spaces[buffer]; s != SCHED_NONE; s = pools->spaces[s].parent) {
        CHECK(pools->spaces[s].live_bytes >= pools->charges[buffer]);
        pools->spaces[s].live_bytes -= pools->charges[buffer];
        pools->spaces[s].class_bytes[pools->classes[buffer]] -= pools->charges[buffer];
        touch(pools, s);
    }
}

enum status pools_init(struct pools *pools, const struct schedule *schedule, struct space_use *peaks,
                       struct arena *arena, struct error *error)
{
    *pools = (struct pools){
        .spaces = arena_array(arena, struct pool, schedule->space_count),
        .charges = arena_array(arena, uint64_t, schedule->buffer_count),
        .buffer_spaces = arena_array(arena, uint32_t, schedule->buffer_count),
        .classes = arena_array(arena, uint8_t, schedule->buffer_count),
        .touched = arena_array(arena, uint32_t, schedule->space_count),
        .peaks = peaks,
        .space_count = schedule->space_count,
    };
    if (pools->spaces == NULL || pools->charges == NULL || pools->buffer_spaces == NULL || pools->classes == NULL ||
        pools->touched == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u buffers", schedule->buffer_count);
    }
    for (uint32_t s = 0; s < schedule->space_count; s++) {
        pools->spaces[s].capacity_bytes = schedule->spaces[s].capacity_bytes;
        pools->spaces[s].parent = schedule->spaces[s].parent;
        pools->spaces[s].last_op = SCHED_NONE;
        pools->peaks[s].peak_op = SCHED_NONE;
    }
    for (uint32_t b = 0; b < schedule->buffer_count; b++) {
        pools->charges[b] = charge_of(&schedule->buffers[b]);
        pools->buffer_spaces[b] = schedule->buffers[b].space;
        pools->classes[b] = schedule->buffers[b].buffer_class;
        if (schedule->buffers[b].flags & BUFFER_LIVE_AT_START) {
            charge(pools, b);
        }
    }
    pools_settle(pools, 0);
    return STATUS_OK;
}

uint32_t pools_overfull(const struct pools *pools)
{
    for (uint32_t s = 0; s < pools->space_count; s++) {
        if (pools->spaces[s].live_bytes > pools->spaces[s].capacity_bytes) {
            return s;
        }
    }
    return SCHED_NONE;
}

static uint64_t free_of(const struct pool *space)
{
    return space->live_bytes < space->capacity_bytes ? space->capacity_bytes - space->live_bytes : 0;
}

static bool fits(const struct pools *pools, uint32_t buffer, struct pool_shortage *shortage)
{
    uint64_t bytes = pools->charges[buffer];
    for (uint32_t s = pools->buffer_spaces[buffer]; s != SCHED_NONE; s = pools->spaces[s].parent) {
        if (bytes > free_of(&pools->spaces[s])) {
            if (shortage != NULL) {
                shortage->space = s;
            }
            return false;
        }
    }
    return true;
}

/* What `buffers` ask of one space in all, for the message. */
static uint64_t wanted_of(const struct pools *pools, const uint32_t *buffers, uint32_t count, uint32_t space)
{
    uint64_t wanted = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t s = pools->buffer_spaces[buffers[i]]; s != SCHED_NONE; s = pools->spaces[s].parent) {
            wanted += s == space ? pools->charges[buffers[i]] : 0;
        }
    }
    return wanted;
}

bool pools_acquire(struct pools *pools, const uint32_t *buffers, uint32_t count, uint32_t op,
                   struct pool_shortage *shortage)
{
    for (uint32_t i = 0; i < count; i++) {
        if (fits(pools, buffers[i], shortage)) {
            charge(pools, buffers[i]);
            continue;
        }
        while (i-- > 0) {
            discharge(pools, buffers[i]);
        }
        if (shortage != NULL) {
            shortage->wanted_bytes = wanted_of(pools, buffers, count, shortage->space);
            shortage->free_bytes = free_of(&pools->spaces[shortage->space]);
        }
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t s = pools->buffer_spaces[buffers[i]]; s != SCHED_NONE; s = pools->spaces[s].parent) {
            pools->spaces[s].last_op = op;
        }
    }
    return true;
}

void pools_release(struct pools *pools, const uint32_t *buffers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        discharge(pools, buffers[i]);
        pools->any_freed = true;
    }
}

void pools_settle(struct pools *pools, int64_t now_ps)
{
    for (uint32_t i = 0; i < pools->touched_count; i++) {
        struct pool *space = &pools->spaces[pools->touched[i]];
        struct space_use *peak = &pools->peaks[pools->touched[i]];
        space->touched = false;
        if (space->live_bytes > peak->peak_bytes) {
            peak->peak_bytes = space->live_bytes;
            peak->peak_time_ps = now_ps;
            peak->peak_op = space->last_op;
            memcpy(peak->at_peak_bytes, space->class_bytes, sizeof space->class_bytes);
        }
    }
    pools->touched_count = 0;
}
