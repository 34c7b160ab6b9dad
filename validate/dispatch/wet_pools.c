#include "validate/dispatch/wet_pools.h"

#include <stdlib.h>

#include "sim/base/check.h"

#define ALLOCATOR_BYTES_MAX (UINT64_C(1) << 62) /* the most that blockalloc takes */
/* Unlimited best-fit spaces are made this many times as large as all their buffers together: half of such a space is free at any time, so holes find a way round. */
enum { BEST_FIT_ROOM = 2, GRANULE_BYTES = 512, WARM_BLOCKS_MAX = 1 << 15 };

struct wet {
    struct blockalloc allocator;
    struct blockalloc runtime;       /* of the device's runtime buffers that ops touch: blocks of their own */
    uint64_t runtime_bytes;          /* live, of class runtime, in a device's space; touched or not */
    uint64_t held_bytes, peak_bytes; /* by this space and the spaces inside it */
    uint64_t own_bytes;              /* part of held_bytes that is its own */
    /* At setup: all buffers that the allocator may hold, rounded up; what rounding may add to them; runtime buffers live at the start. */
    uint64_t touched_bytes, rounding_bytes, start_bytes;
    bool is_dry;
};

enum block_home { HOME_ALLOCATOR, HOME_RUNTIME, HOME_NONE };

struct wet_pools {
    const struct schedule *schedule;
    struct pools pools;
    struct wet *spaces;
    uint32_t *handles; /* [buffer_count]: of a live block, plus one; 0: not live */
    void **addresses;  /* [buffer_count] */
    uint8_t *homes;    /* [buffer_count] */
    bool is_overfull;
    struct arena arena;
};

static uint64_t block_bytes(const struct wet_pools *p, uint32_t buffer)
{
    uint64_t bytes = p->pools.charges[buffer];
    return bytes < ALLOCATOR_BYTES_MAX ? bytes : ALLOCATOR_BYTES_MAX;
}

/* What `space` holds itself has changed: it and all around it hold as much more or less. */
static void recount(struct wet_pools *p, uint32_t space)
{
    struct wet *own = &p->spaces[space];
    uint64_t now = own->allocator.stats.reserved_bytes + own->runtime_bytes, before = own->own_bytes;
    own->own_bytes = now;
    for (uint32_t s = space; s != SCHED_NONE; s = p->schedule->spaces[s].parent) {
        struct wet *wet = &p->spaces[s];
        wet->held_bytes += now - before; /* unsigned: also less */
        wet->peak_bytes = wet->peak_bytes < wet->held_bytes ? wet->held_bytes : wet->peak_bytes;
    }
}

static struct blockalloc *allocator_of(struct wet_pools *p, uint32_t buffer)
{
    struct wet *wet = &p->spaces[p->schedule->buffers[buffer].space];
    return p->homes[buffer] == HOME_RUNTIME ? &wet->runtime : &wet->allocator;
}

static bool get(struct wet_pools *p, uint32_t buffer, uint32_t stream)
{
    uint32_t space = p->schedule->buffers[buffer].space, handle = 0;
    p->addresses[buffer] = NULL;
    if (p->homes[buffer] != HOME_NONE) {
        struct blockalloc *allocator = allocator_of(p, buffer);
        if (blockalloc_get(allocator, block_bytes(p, buffer), stream, &handle) != STATUS_OK) {
            recount(p, space); /* it may have given its cache back */
            return false;
        }
        if (!p->spaces[space].is_dry) {
            p->addresses[buffer] = (void *)(uintptr_t)blockalloc_address(allocator, handle);
        }
    }
    if (p->homes[buffer] != HOME_ALLOCATOR) {
        p->spaces[space].runtime_bytes += block_bytes(p, buffer);
    }
    p->handles[buffer] = handle + 1;
    recount(p, space);
    return true;
}

static void put(struct wet_pools *p, uint32_t buffer)
{
    uint32_t space = p->schedule->buffers[buffer].space;
    CHECK(p->handles[buffer] != 0);
    if (p->homes[buffer] != HOME_NONE) {
        blockalloc_put(allocator_of(p, buffer), p->handles[buffer] - 1);
    }
    if (p->homes[buffer] != HOME_ALLOCATOR) {
        p->spaces[space].runtime_bytes -= block_bytes(p, buffer);
    }
    p->handles[buffer] = 0;
    p->addresses[buffer] = NULL;
    recount(p, space);
}

bool wet_pools_acquire(struct wet_pools *p, const uint32_t *buffers, uint32_t count, uint32_t queue,
                       struct pool_shortage *shortage)
{
    if (count == 0) {
        return true;
    }
    if (!pools_acquire(&p->pools, buffers, count, SCHED_NONE, shortage)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        CHECK(p->handles[buffers[i]] == 0);
        if (get(p, buffers[i], queue)) {
            continue;
        }
        if (shortage != NULL) { /* the books have room, the machine or its fragments have not */
            const struct wet *wet = &p->spaces[p->schedule->buffers[buffers[i]].space];
            uint64_t capacity = wet->allocator.config.capacity_bytes, used = wet->allocator.stats.allocated_bytes;
            shortage->space = p->schedule->buffers[buffers[i]].space;
            shortage->wanted_bytes = p->pools.charges[buffers[i]];
            shortage->free_bytes = capacity > used ? capacity - used : 0;
        }
        while (i-- > 0) {
            put(p, buffers[i]);
        }
        pools_release(&p->pools, buffers, count);
        return false;
    }
    return true;
}

void wet_pools_release(struct wet_pools *p, const uint32_t *buffers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        put(p, buffers[i]);
    }
    pools_release(&p->pools, buffers, count);
}

void *wet_pools_address(const struct wet_pools *p, uint32_t buffer)
{
    CHECK(buffer < p->schedule->buffer_count && (p->handles[buffer] != 0 || p->is_overfull));
    return p->addresses[buffer];
}

bool wet_pools_is_live(const struct wet_pools *p, uint32_t buffer)
{
    return buffer < p->schedule->buffer_count && p->handles[buffer] != 0;
}

uint64_t wet_pools_peak_reserved(const struct wet_pools *p, uint32_t space)
{
    return p->spaces[space].peak_bytes;
}

uint32_t wet_pools_overfull(const struct wet_pools *p, uint64_t *live_bytes)
{
    uint32_t space = p->is_overfull ? pools_overfull(&p->pools) : SCHED_NONE;
    if (space != SCHED_NONE && live_bytes != NULL) {
        *live_bytes = p->pools.spaces[space].live_bytes;
    }
    return space;
}

/* -- between steps -- */

enum status wet_pools_rewind(struct wet_pools *p, struct error *error)
{
    const struct schedule *s = p->schedule;
    if (p->is_overfull) {
        return STATUS_OK;
    }
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        if (p->handles[b] != 0 && (s->buffers[b].flags & BUFFER_LIVE_AT_START) == 0) {
            wet_pools_release(p, &b, 1);
        }
    }
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        struct pool_shortage shortage;
        if (p->handles[b] == 0 && (s->buffers[b].flags & BUFFER_LIVE_AT_START) != 0 &&
            !wet_pools_acquire(p, &b, 1, 0, &shortage)) {
            const struct sched_space *space = &s->spaces[shortage.space];
            return error_set(
                error, STATUS_DOES_NOT_FIT,
                "%s: buffer %u \"%s\" of %llu bytes, which lives at the start of the step, finds no memory; "
                "%llu bytes are held there",
                sched_label(s, space->label), b, sched_label(s, s->buffers[b].label),
                (unsigned long long)p->pools.charges[b], (unsigned long long)p->spaces[shortage.space].held_bytes);
        }
    }
    return STATUS_OK;
}

/* -- life -- */

/* Runtime buffers of a device stand for what its runtime holds anyway (context, communicators): counted. Only what ops touch needs memory that we give. */
static void find_homes(struct wet_pools *p)
{
    const struct schedule *s = p->schedule;
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        const struct sched_buffer *buffer = &s->buffers[b];
        bool is_runtime = buffer->buffer_class == BUFFER_RUNTIME && s->spaces[buffer->space].kind == SPACE_DEVICE;
        p->homes[b] = is_runtime ? HOME_NONE : HOME_ALLOCATOR;
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        const uint32_t *touched = sched_reads(s, op);
        for (uint32_t k = 0; k < (uint32_t)op->read_count + op->write_count; k++) {
            p->homes[touched[k]] = p->homes[touched[k]] == HOME_NONE ? HOME_RUNTIME : p->homes[touched[k]];
        }
    }
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        struct wet *wet = &p->spaces[s->buffers[b].space];
        uint64_t bytes = block_bytes(p, b) + GRANULE_BYTES;
        if (p->homes[b] == HOME_ALLOCATOR) {
            wet->touched_bytes += wet->touched_bytes < ALLOCATOR_BYTES_MAX ? bytes : 0;
            wet->rounding_bytes += GRANULE_BYTES;
        } else if (s->buffers[b].flags & BUFFER_LIVE_AT_START) {
            wet->start_bytes += wet->start_bytes < ALLOCATOR_BYTES_MAX ? block_bytes(p, b) : 0;
        }
    }
}

/* As reserved_fill has it: a cache gives segments back near its limit; the others are held to it by the books alone. One address space must have an end, and what
 * rounding adds is not the schedule's to pay. */
static uint64_t capacity_of(const struct wet_pools *p, uint32_t space, enum blockalloc_kind kind)
{
    const struct wet *wet = &p->spaces[space];
    uint64_t capacity = p->schedule->spaces[space].capacity_bytes;
    switch (kind) {
    case BLOCKALLOC_EXACT: return ALLOCATOR_BYTES_MAX;
    case BLOCKALLOC_CACHING:
        capacity = capacity > wet->start_bytes ? capacity - wet->start_bytes : 0;
        return capacity < ALLOCATOR_BYTES_MAX ? capacity : ALLOCATOR_BYTES_MAX;
    case BLOCKALLOC_BEST_FIT:
        capacity = capacity > wet->start_bytes ? capacity - wet->start_bytes : 0;
        capacity = capacity < ALLOCATOR_BYTES_MAX / 2 ? capacity + wet->rounding_bytes : capacity;
        capacity = capacity < BEST_FIT_ROOM * wet->touched_bytes ? capacity : BEST_FIT_ROOM * wet->touched_bytes;
        capacity = capacity < GRANULE_BYTES ? GRANULE_BYTES : capacity;
        return capacity < ALLOCATOR_BYTES_MAX ? capacity : ALLOCATOR_BYTES_MAX;
    }
    check_failed("every kind of allocator has a capacity", __FILE__, __LINE__);
}

/* Nodes for as many blocks as may live at once, so that a step allocates none: blocks of no bytes take room only in the allocator's books. */
static enum status warm_up(struct blockalloc *allocator, uint32_t buffers, struct error *error)
{
    uint32_t handle, first = 0, live = buffers < WARM_BLOCKS_MAX ? buffers : WARM_BLOCKS_MAX;
    uint32_t count = 2 * live + 2; /* a block, and what is split off */
    for (uint32_t i = 0; i < count; i++) {
        if (blockalloc_get(allocator, 0, 0, &handle) != STATUS_OK) {
            return error_set(error, STATUS_NO_MEMORY, "no memory for an allocator of %u buffers", buffers);
        }
        first = i == 0 ? handle : first;
        CHECK(handle == first + i);
    }
    for (uint32_t i = count; i-- > 0;) {
        blockalloc_put(allocator, first + i);
    }
    return STATUS_OK;
}

static enum status make_space(struct wet_pools *p, uint32_t space, const struct wet_space *made, uint32_t buffers,
                              struct error *error)
{
    struct wet *wet = &p->spaces[space];
    CHECK((made->backing.map == NULL) == (made->backing.unmap == NULL));
    wet->is_dry = made->backing.map == NULL;
    const struct blockalloc_config config = { .kind = made->kind,
                                              .capacity_bytes = capacity_of(p, space, made->kind),
                                              .granule_bytes = GRANULE_BYTES,
                                              .backing = made->backing };
    const struct blockalloc_config runtime = { .kind = BLOCKALLOC_EXACT,
                                               .capacity_bytes = ALLOCATOR_BYTES_MAX,
                                               .backing = made->backing };
    TRY(blockalloc_init(&wet->runtime, &runtime, error));
    enum status status = blockalloc_init(&wet->allocator, &config, error);
    if (status == STATUS_DOES_NOT_FIT) {
        return error_set(error, status, "%s: the machine has no %llu bytes for this space",
                         sched_label(p->schedule, p->schedule->spaces[space].label),
                         (unsigned long long)config.capacity_bytes);
    }
    TRY(status);
    return warm_up(&wet->allocator, buffers, error);
}

static enum status make_spaces(struct wet_pools *p, const struct wet_space *spaces, struct error *error)
{
    const struct schedule *s = p->schedule;
    uint32_t *buffers = arena_array(&p->arena, uint32_t, s->space_count);
    if (buffers == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u spaces", s->space_count);
    }
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        buffers[s->buffers[b].space]++;
    }
    for (uint32_t i = 0; i < s->space_count; i++) {
        if (buffers[i] != 0) {
            TRY(make_space(p, i, &spaces[i], buffers[i], error));
        }
    }
    return STATUS_OK;
}

/* The books have charged them already. */
static enum status fill_start(struct wet_pools *p, struct error *error)
{
    const struct schedule *s = p->schedule;
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        const struct sched_buffer *buffer = &s->buffers[b];
        if ((buffer->flags & BUFFER_LIVE_AT_START) != 0 && !get(p, b, 0)) {
            return error_set(
                error, STATUS_DOES_NOT_FIT,
                "%s holds %llu bytes already and has no %llu more for buffer %u \"%s\", which lives at the "
                "start of the step",
                sched_label(s, s->spaces[buffer->space].label), (unsigned long long)p->spaces[buffer->space].held_bytes,
                (unsigned long long)p->pools.charges[b], b, sched_label(s, buffer->label));
        }
    }
    return STATUS_OK;
}

static enum status allocate(struct wet_pools *p, struct error *error)
{
    const struct schedule *s = p->schedule;
    struct space_use *peaks = arena_array(&p->arena, struct space_use, s->space_count); /* of the books; nobody asks */
    p->spaces = arena_array(&p->arena, struct wet, s->space_count);
    p->handles = arena_array(&p->arena, uint32_t, s->buffer_count);
    p->addresses = arena_array(&p->arena, void *, s->buffer_count);
    p->homes = arena_array(&p->arena, uint8_t, s->buffer_count);
    if (peaks == NULL || p->spaces == NULL || p->handles == NULL || p->addresses == NULL || p->homes == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u buffers", s->buffer_count);
    }
    return pools_init(&p->pools, s, peaks, &p->arena, error);
}

enum status wet_pools_new(struct wet_pools **made, const struct schedule *schedule, const struct wet_space *spaces,
                          struct error *error)
{
    struct wet_pools *p = calloc(1, sizeof *p);
    enum status status = STATUS_OK;
    *made = NULL;
    if (p == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u spaces", schedule->space_count);
    }
    p->schedule = schedule;
    TRY_OR_FAIL(allocate(p, error));
    p->is_overfull = pools_overfull(&p->pools) != SCHED_NONE;
    if (!p->is_overfull) {
        find_homes(p);
        TRY_OR_FAIL(make_spaces(p, spaces, error));
        TRY_OR_FAIL(fill_start(p, error));
    }
    *made = p;
    return STATUS_OK;
fail:
    wet_pools_free(p);
    return status;
}

void wet_pools_free(struct wet_pools *p)
{
    if (p == NULL) {
        return;
    }
    for (uint32_t s = 0; p->spaces != NULL && s < p->schedule->space_count; s++) {
        blockalloc_destroy(&p->spaces[s].allocator);
        blockalloc_destroy(&p->spaces[s].runtime);
    }
    arena_free(&p->arena);
    free(p);
}
