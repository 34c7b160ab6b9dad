/* Memory of a schedule's spaces, real: segments for the block allocators of wet_pools.
 *
 * cudaFree waits for the whole device and cudaHostAlloc takes milliseconds, so what an allocator gives back is parked here and handed out again to a request of its size; all parked
 * segments of a GPU are freed when it has no more. map and unmap are called under the dispatcher's lock, from any thread. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/base/array.h"
#include "sim/base/units.h"
#include "validate/exec_cuda/cuda_run.h"

struct segment {
    uint64_t address, bytes;
};

struct backing {
    struct cuda_run *run;
    uint32_t space;
    enum space_kind kind;
    struct gpu *gpu; /* of a device space */
    struct {
        struct segment *items;
        size_t count, capacity;
    } parked;
    uint64_t refused_bytes, refused_free; /* 0: nothing was refused */
};

static uint64_t map_host(uint64_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? 0 : (uint64_t)(uintptr_t)memory;
}

/* Both keep the calling thread's device. */
static uint64_t map_device(const struct gpu *gpu, uint64_t bytes)
{
    int before = 0;
    void *memory = NULL;
    if (cudaGetDevice(&before) != cudaSuccess || cudaSetDevice(gpu->ordinal) != cudaSuccess) {
        return 0;
    }
    if (cudaMalloc(&memory, bytes) != cudaSuccess) {
        (void)cudaGetLastError();
        memory = NULL;
    }
    (void)cudaSetDevice(before);
    return (uint64_t)(uintptr_t)memory;
}

static uint64_t map_pinned(uint64_t bytes)
{
    void *memory = NULL;
    if (cudaHostAlloc(&memory, bytes, cudaHostAllocPortable) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0;
    }
    return (uint64_t)(uintptr_t)memory;
}

static uint64_t map_fresh(struct backing *b, uint64_t bytes)
{
    uint64_t offset = b->run->storage_end;
    switch (b->kind) {
    case SPACE_DEVICE: return map_device(b->gpu, bytes);
    case SPACE_HOST: return map_host(bytes);
    case SPACE_PINNED: return map_pinned(bytes);
    case SPACE_STORAGE: b->run->storage_end += cuda_round_up(bytes, 4096); return offset;
    case SPACE_KIND_COUNT: break;
    }
    return 0;
}

static void give_back(const struct backing *b, const struct segment *segment)
{
    void *memory = (void *)(uintptr_t)segment->address;
    switch (b->kind) {
    case SPACE_DEVICE: (void)cudaFree(memory); break;
    case SPACE_HOST: (void)munmap(memory, segment->bytes); break;
    case SPACE_PINNED: (void)cudaFreeHost(memory); break;
    case SPACE_STORAGE:
    case SPACE_KIND_COUNT: break;
    }
}

static void give_parked_back(struct backing *b)
{
    for (size_t i = 0; i < b->parked.count; i++) {
        give_back(b, &b->parked.items[i]);
    }
    b->parked.count = 0;
}

static void note_refusal(struct backing *b, uint64_t bytes)
{
    size_t free_bytes = 0, total = 0;
    if (b->refused_bytes != 0) {
        return;
    }
    if (b->kind == SPACE_DEVICE) {
        int before = 0;
        (void)cudaGetDevice(&before);
        (void)cudaSetDevice(b->gpu->ordinal);
        (void)cudaMemGetInfo(&free_bytes, &total);
        (void)cudaSetDevice(before);
    }
    b->refused_bytes = bytes;
    b->refused_free = free_bytes;
}

static uint64_t map(void *context, uint64_t bytes)
{
    struct backing *b = context;
    for (size_t i = 0; i < b->parked.count; i++) {
        if (b->parked.items[i].bytes == bytes) {
            uint64_t address = b->parked.items[i].address;
            b->parked.items[i] = b->parked.items[--b->parked.count];
            return address;
        }
    }
    uint64_t address = map_fresh(b, bytes);
    if (address != 0) {
        return address;
    }
    for (uint32_t i = 0; i < b->run->schedule->space_count; i++) {
        struct backing *other = &b->run->backings[i];
        if (other->kind == b->kind && other->gpu == b->gpu) {
            give_parked_back(other);
        }
    }
    address = map_fresh(b, bytes);
    if (address == 0) {
        note_refusal(b, bytes);
    }
    return address;
}

static void unmap(void *context, uint64_t address, uint64_t bytes)
{
    struct backing *b = context;
    struct segment segment = { address, bytes };
    if (array_reserve(&b->parked, 1, NULL) == STATUS_OK) {
        b->parked.items[b->parked.count++] = segment;
    } else {
        give_back(b, &segment);
    }
}

bool cuda_spaces_refusal(const struct cuda_run *run, char *text, size_t size)
{
    const struct schedule *s = run->schedule;
    for (uint32_t i = 0; run->backings != NULL && i < s->space_count; i++) {
        const struct backing *b = &run->backings[i];
        if (b->refused_bytes == 0) {
            continue;
        }
        const char *label = sched_label(s, s->spaces[i].label);
        if (b->kind == SPACE_DEVICE) {
            uint32_t device = s->spaces[i].location;
            uint32_t rank = device < run->device_limit ? run->device_ranks[device] : SCHED_NONE;
            (void)snprintf(text, size,
                           "out of memory: rank %d, space \"%s\" wanted %" PRIu64
                           " bytes more of GPU %d (%s), which has "
                           "%" PRIu64 " of %" PRIu64 " free",
                           rank == SCHED_NONE ? -1 : (int)rank, label, b->refused_bytes, b->gpu->ordinal, b->gpu->name,
                           b->refused_free, b->gpu->memory_bytes);
        } else {
            (void)snprintf(text, size, "out of memory: space \"%s\" wanted %" PRIu64 " bytes more of %s memory", label,
                           b->refused_bytes, b->kind == SPACE_PINNED ? "page-locked host" : "host");
        }
        return true;
    }
    return false;
}

/* Whether an op of this process touches the space; of one process, all are. */
static void find_local(const struct cuda_run *run, bool *is_local)
{
    const struct schedule *s = run->schedule;
    for (uint32_t i = 0; i < s->space_count; i++) {
        is_local[i] = run->world.process_count == 1;
        if (s->spaces[i].kind == SPACE_DEVICE && s->spaces[i].location < run->device_limit) {
            uint32_t rank = run->device_ranks[s->spaces[i].location];
            is_local[i] = is_local[i] || (rank != SCHED_NONE && run->rank_is_local[rank]);
        }
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        uint32_t count = (uint32_t)op->acquire_count + op->release_count + op->read_count + op->write_count;
        for (uint32_t k = 0; run->rank_is_local[sched_op_rank(s, op)] && k < count; k++) {
            uint32_t space = s->buffers[s->operands[op->first_operand + k]].space;
            is_local[space] = is_local[space] || s->spaces[space].kind != SPACE_DEVICE;
        }
    }
}

/* An address space of its own is as exact as a real allocator gets; where the GPU has no room for one (wet_pools makes it at most twice as large as all
 * buffers together), segments are taken as they are needed. */
static enum blockalloc_kind kind_of(const struct cuda_run *run, uint32_t space, uint64_t buffer_bytes,
                                    uint64_t free_bytes)
{
    const struct sched_space *x = &run->schedule->spaces[space];
    uint64_t reach = buffer_bytes > UINT64_MAX / 4 ? UINT64_MAX / 2 : 2 * buffer_bytes;
    uint64_t wanted = x->capacity_bytes < reach ? x->capacity_bytes : reach;
    if (x->kind == SPACE_HOST || x->kind == SPACE_STORAGE) {
        return BLOCKALLOC_BEST_FIT; /* address space costs nothing */
    }
    if (x->kind == SPACE_PINNED || wanted > free_bytes / 4) {
        return BLOCKALLOC_CACHING;
    }
    return run->options->software != NULL && run->options->software->allocator == ALLOCATOR_CACHING
               ? BLOCKALLOC_CACHING
               : BLOCKALLOC_BEST_FIT;
}

static enum status make_space(struct cuda_run *run, uint32_t space, uint64_t buffer_bytes, struct error *error)
{
    const struct sched_space *x = &run->schedule->spaces[space];
    struct backing *b = &run->backings[space];
    size_t free_bytes = 0, total = 0;
    *b = (struct backing){ .run = run, .space = space, .kind = (enum space_kind)x->kind };
    if (x->kind == SPACE_DEVICE) {
        b->gpu = cuda_gpu_of_device(run, x->location);
        if (b->gpu == NULL) {
            return error_set(error, STATUS_UNSUPPORTED, "space \"%s\" is on device %u, and %u GPUs are visible",
                             sched_label(run->schedule, x->label), x->location, run->gpu_count);
        }
        CUDA_TRY(cudaSetDevice, (b->gpu->ordinal), error);
        CUDA_TRY(cudaMemGetInfo, (&free_bytes, &total), error);
    }
    run->spaces[space] = (struct wet_space){
        .kind = kind_of(run, space, buffer_bytes, free_bytes),
        .backing = { .context = b, .map = map, .unmap = unmap },
    };
    return STATUS_OK;
}

enum status cuda_spaces(struct cuda_run *run, struct error *error)
{
    const struct schedule *s = run->schedule;
    bool *is_local = arena_array(&run->arena, bool, s->space_count);
    run->backings = arena_array(&run->arena, struct backing, s->space_count);
    run->spaces = arena_array(&run->arena, struct wet_space, s->space_count);
    if (is_local == NULL || run->backings == NULL || run->spaces == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u spaces", s->space_count);
    }
    find_local(run, is_local);
    for (uint32_t i = 0; i < s->space_count; i++) {
        if (is_local[i]) {
            TRY(make_space(run, i, run->space_bytes[i], error));
        }
    }
    enum status status = wet_pools_new(&run->pools, s, run->spaces, error);
    char text[ERROR_MESSAGE_BYTES];
    if (status == STATUS_DOES_NOT_FIT && cuda_spaces_refusal(run, text, sizeof text)) {
        return error_set(error, STATUS_EXECUTION, "%s; what lives at the start of the step does not fit", text);
    }
    if (status == STATUS_DOES_NOT_FIT) { /* the schedule's own capacities hold it: this computer does not */
        status = error->status = STATUS_EXECUTION;
    }
    return status;
}

void cuda_spaces_free(struct cuda_run *run)
{
    wet_pools_free(run->pools);
    run->pools = NULL;
    for (uint32_t i = 0; run->backings != NULL && i < run->schedule->space_count; i++) {
        give_parked_back(&run->backings[i]);
        array_free(&run->backings[i].parked);
    }
}
