#include "sim/engine/reserved.h"

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/core/blockalloc.h"

#define UNLIMITED_BYTES (UINT64_C(1) << 62) /* the most that blockalloc takes */

/* Free page-locked blocks of one size, of the rank whose ops are replayed. */
struct pinned_blocks {
    uint64_t bytes;
    uint32_t count;
};

struct reserved_space {
    struct blockalloc allocator; /* device */
    uint64_t runtime_bytes;      /* device: live, of class runtime */
    uint64_t held_bytes;         /* pinned: live and kept; device: runtime bytes that live at the start */
    uint64_t peak_bytes;
    struct {
        struct pinned_blocks *items;
        size_t count, capacity;
    } pinned; /* every size that was handed out, in no order */
};

struct dry_run {
    const struct schedule *schedule;
    struct reserved_space *spaces;
    uint32_t *handles; /* [buffer_count]: of a live block (pinned: of its size), plus one; 0: not live */
    struct arena arena;
};

static uint32_t log2_up(uint64_t bytes)
{
    return bytes <= 1 ? 0 : 64 - (uint32_t)__builtin_clzll(bytes - 1);
}

static uint64_t bytes_of(const struct sched_buffer *buffer)
{
    return buffer->copies > 1 && buffer->bytes > UNLIMITED_BYTES / buffer->copies ? UNLIMITED_BYTES
                                                                                  : buffer->bytes * buffer->copies;
}

static void note_peak(struct reserved_space *space, uint64_t bytes)
{
    space->peak_bytes = space->peak_bytes < bytes ? bytes : space->peak_bytes;
}

static enum status get_on_device(struct dry_run *run, uint32_t index, uint32_t stream, struct error *error)
{
    const struct sched_buffer *buffer = &run->schedule->buffers[index];
    struct reserved_space *space = &run->spaces[buffer->space];
    uint32_t handle;
    enum status status = blockalloc_get(&space->allocator, bytes_of(buffer), stream, &handle);
    if (status == STATUS_DOES_NOT_FIT) {
        space->allocator.config.capacity_bytes = UNLIMITED_BYTES; /* go on, so that the peak says how much is lacking */
        status = blockalloc_get(&space->allocator, bytes_of(buffer), stream, &handle);
    }
    if (status != STATUS_OK) {
        return error_set(error, status, "allocator model: %s", status_word(status));
    }
    run->handles[index] = handle + 1;
    return STATUS_OK;
}

/* The size that serves a buffer: its own, or, of exact blocks, the smallest larger one of which enough are free (PyTorch before 1.11, recalled: it takes the lower bound of its free blocks and does not split them). */
static enum status find_size(struct dry_run *run, const struct sched_buffer *buffer, size_t *found, struct error *error)
{
    struct reserved_space *space = &run->spaces[buffer->space];
    bool exact = run->schedule->spaces[buffer->space].exact_blocks;
    uint64_t bytes = exact ? buffer->bytes : UINT64_C(1) << log2_up(buffer->bytes);
    size_t own = space->pinned.count, larger = SIZE_MAX;
    for (size_t i = 0; i < space->pinned.count; i++) {
        const struct pinned_blocks *size = &space->pinned.items[i];
        bool serves = exact && size->bytes >= bytes && size->count >= buffer->copies;
        own = size->bytes == bytes ? i : own;
        if (serves && (larger == SIZE_MAX || size->bytes < space->pinned.items[larger].bytes)) {
            larger = i;
        }
    }
    *found = larger != SIZE_MAX ? larger : own;
    if (*found == space->pinned.count) {
        TRY(array_reserve(&space->pinned, 1, error));
        space->pinned.items[space->pinned.count++] = (struct pinned_blocks){ .bytes = bytes };
    }
    return STATUS_OK;
}

static enum status get_pinned(struct dry_run *run, uint32_t index, struct error *error)
{
    const struct sched_buffer *buffer = &run->schedule->buffers[index];
    struct reserved_space *space = &run->spaces[buffer->space];
    size_t at;
    TRY(find_size(run, buffer, &at, error));
    struct pinned_blocks *size = &space->pinned.items[at];
    uint32_t reused = size->count < buffer->copies ? size->count : buffer->copies;
    size->count -= reused;
    space->held_bytes += (uint64_t)(buffer->copies - reused) * size->bytes;
    note_peak(space, space->held_bytes);
    run->handles[index] = (uint32_t)at + 1;
    return STATUS_OK;
}

static enum status get(struct dry_run *run, uint32_t index, uint32_t stream, struct error *error)
{
    const struct sched_buffer *buffer = &run->schedule->buffers[index];
    const uint8_t kind = run->schedule->spaces[buffer->space].kind;
    struct reserved_space *space = &run->spaces[buffer->space];
    if (run->handles[index] != 0) {
        return STATUS_OK;
    }
    if (kind == SPACE_PINNED) {
        TRY(get_pinned(run, index, error));
    } else if (kind == SPACE_DEVICE && buffer->buffer_class == BUFFER_RUNTIME) {
        space->runtime_bytes += bytes_of(buffer);
        run->handles[index] = 1;
    } else if (kind == SPACE_DEVICE) {
        TRY(get_on_device(run, index, stream, error));
    }
    if (kind == SPACE_DEVICE) {
        note_peak(space, space->runtime_bytes + space->allocator.stats.reserved_bytes);
    }
    return STATUS_OK;
}

static void put(struct dry_run *run, uint32_t index)
{
    const struct sched_buffer *buffer = &run->schedule->buffers[index];
    const uint8_t kind = run->schedule->spaces[buffer->space].kind;
    if (run->handles[index] == 0) {
        return;
    }
    if (kind == SPACE_PINNED) {
        run->spaces[buffer->space].pinned.items[run->handles[index] - 1].count += buffer->copies;
    } else if (kind == SPACE_DEVICE && buffer->buffer_class == BUFFER_RUNTIME) {
        run->spaces[buffer->space].runtime_bytes -= bytes_of(buffer);
    } else if (kind == SPACE_DEVICE) {
        blockalloc_put(&run->spaces[buffer->space].allocator, run->handles[index] - 1);
    }
    run->handles[index] = 0;
}

static enum blockalloc_kind kind_of(const struct software *software)
{
    if (software == NULL) {
        return BLOCKALLOC_EXACT;
    }
    switch (software->allocator) {
    case ALLOCATOR_EXACT: return BLOCKALLOC_EXACT;
    case ALLOCATOR_BEST_FIT: return BLOCKALLOC_BEST_FIT;
    case ALLOCATOR_CACHING: return BLOCKALLOC_CACHING;
    }
    check_failed("every allocator has a model", __FILE__, __LINE__);
}

static enum status prepare(struct dry_run *run, const struct software *software, struct error *error)
{
    const struct schedule *s = run->schedule;
    run->spaces = arena_array(&run->arena, struct reserved_space, s->space_count);
    run->handles = arena_array(&run->arena, uint32_t, s->buffer_count);
    if (run->spaces == NULL || run->handles == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for the allocator model");
    }
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        const struct sched_buffer *buffer = &s->buffers[b];
        if (buffer->buffer_class == BUFFER_RUNTIME && (buffer->flags & BUFFER_LIVE_AT_START)) {
            run->spaces[buffer->space].held_bytes += bytes_of(buffer);
        }
    }
    for (uint32_t i = 0; i < s->space_count; i++) {
        if (s->spaces[i].kind != SPACE_DEVICE) {
            run->spaces[i].held_bytes = 0;
            continue;
        }
        uint64_t capacity = s->spaces[i].capacity_bytes, runtime = run->spaces[i].held_bytes;
        capacity = capacity > runtime ? capacity - runtime : 0;
        /* Only a cache behaves otherwise near its limit: it gives segments back. */
        capacity = kind_of(software) == BLOCKALLOC_CACHING ? capacity : UNLIMITED_BYTES;
        struct blockalloc_config config = { .kind = kind_of(software),
                                            .capacity_bytes = capacity < UNLIMITED_BYTES ? capacity : UNLIMITED_BYTES };
        TRY(blockalloc_init(&run->spaces[i].allocator, &config, error));
    }
    return STATUS_OK;
}

/* A rank is a process of its own: it keeps its pinned blocks, and does not reuse those of others. */
static void close_rank(struct dry_run *run)
{
    for (uint32_t i = 0; i < run->schedule->space_count; i++) {
        for (size_t k = 0; k < run->spaces[i].pinned.count; k++) {
            run->spaces[i].pinned.items[k].count = 0;
        }
    }
}

static enum status replay(struct dry_run *run, struct error *error)
{
    const struct schedule *s = run->schedule;
    bool has_pinned = false;
    for (uint32_t i = 0; i < s->space_count; i++) {
        has_pinned = has_pinned || s->spaces[i].kind == SPACE_PINNED;
    }
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        if (s->buffers[b].flags & BUFFER_LIVE_AT_START) {
            TRY(get(run, b, 0, error));
        }
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        const uint32_t *acquires = sched_acquires(s, op), *releases = sched_releases(s, op);
        if (has_pinned && i > 0 && sched_op_rank(s, op) != sched_op_rank(s, op - 1)) {
            close_rank(run);
        }
        for (uint32_t k = 0; k < op->acquire_count; k++) {
            TRY(get(run, acquires[k], op->queue, error));
        }
        for (uint32_t k = 0; k < op->release_count; k++) {
            put(run, releases[k]);
        }
    }
    return STATUS_OK;
}

enum status reserved_fill(const struct schedule *schedule, const struct software *software, struct space_use *spaces,
                          struct error *error)
{
    struct dry_run run = { .schedule = schedule };
    enum status status = STATUS_OK;
    TRY_OR_FAIL(prepare(&run, software, error));
    TRY_OR_FAIL(replay(&run, error));
    for (uint32_t i = 0; i < schedule->space_count; i++) {
        /* In time, ops of several queues live together that issue order frees one after another: never below live. */
        uint64_t peak = spaces[i].peak_bytes, dry_peak = run.spaces[i].peak_bytes; /* 0 in host, storage */
        spaces[i].peak_reserved_bytes = dry_peak > peak ? dry_peak : peak;
    }
    for (uint32_t i = 0; i < schedule->space_count; i++) {
        uint32_t parent = schedule->spaces[i].parent;
        if (parent != SCHED_NONE && schedule->spaces[i].kind == SPACE_PINNED &&
            spaces[i].peak_reserved_bytes > spaces[i].peak_bytes) {
            spaces[parent].peak_reserved_bytes += spaces[i].peak_reserved_bytes - spaces[i].peak_bytes;
        }
    }
fail:
    for (uint32_t i = 0; run.spaces != NULL && i < schedule->space_count; i++) {
        blockalloc_destroy(&run.spaces[i].allocator);
        array_free(&run.spaces[i].pinned);
    }
    arena_free(&run.arena);
    return status;
}
