/* Streams, events and handles of the queues; where an op's operands lie. */
#include <unistd.h>

#include "validate/exec_cuda/cuda_run.h"

enum { CHECK_BYTES = 256 };

/* -- operands -- */

uint32_t cuda_find_operand(const struct cuda_run *run, uint32_t op, enum space_kind kind, uint32_t device,
                           uint64_t bytes, bool written)
{
    const struct schedule *s = run->schedule;
    const struct sched_op *o = &s->ops[op];
    const uint32_t *lists[4] = { sched_writes(s, o), sched_acquires(s, o), sched_reads(s, o), sched_releases(s, o) };
    const uint32_t counts[4] = { o->write_count, o->acquire_count, o->read_count, o->release_count };
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t list = written ? k : (k + 2) % 4;
        for (uint32_t i = 0; i < counts[list]; i++) {
            const struct sched_buffer *buffer = &s->buffers[lists[list][i]];
            const struct sched_space *space = &s->spaces[buffer->space];
            if (space->kind == kind && (device == SCHED_NONE || space->location == device) &&
                buffer->bytes * buffer->copies >= bytes && wet_pools_address(run->pools, lists[list][i]) != NULL) {
                return lists[list][i];
            }
        }
    }
    return SCHED_NONE;
}

struct place cuda_device_place(struct cuda_run *run, uint32_t op, uint64_t bytes, bool written, bool is_private)
{
    uint32_t device =
        run->schedule->devices[run->schedule->ranks[sched_op_rank(run->schedule, cuda_op(run, op))].first_device];
    uint32_t buffer = is_private ? SCHED_NONE : cuda_find_operand(run, op, SPACE_DEVICE, device, bytes, written);
    struct place place;
    if (buffer != SCHED_NONE) {
        place = (struct place){ wet_pools_address(run->pools, buffer), bytes };
    } else {
        place.address = slab_take(&cuda_queue_of(run, op)->outputs, bytes, &place.bytes);
    }
    return place;
}

/* -- life -- */

static enum status make_stream(struct cuda_run *run, uint32_t queue, const struct queue_needs *needs,
                               struct error *error)
{
    struct cuda_queue *q = &run->queues[queue];
    CUDA_TRY(cudaSetDevice, (q->gpu->ordinal), error);
    CUDA_TRY(cudaStreamCreateWithFlags, (&q->stream, cudaStreamNonBlocking), error);
    if (run->options->check) {
        CUDA_TRY(cudaMalloc, ((void **)&q->mismatches, CHECK_BYTES), error);
        CUDA_TRY(cudaHostAlloc, ((void **)&q->mismatches_seen, CHECK_BYTES, cudaHostAllocPortable), error);
    }
    if (needs->has_kernels) {
        CUBLAS_TRY(cublasCreate, (&q->blas), error);
        CUBLAS_TRY(cublasSetStream, (q->blas, q->stream), error);
    }
    return STATUS_OK;
}

/* The rank's share of this computer's processors. */
static uint32_t host_threads(const struct cuda_run *run)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t local = 0;
    for (uint32_t r = 0; r < run->schedule->rank_count; r++) {
        local += run->rank_is_local[r];
    }
    long share = local > 0 ? online / (long)local : online;
    return share < 1 ? 1 : share > 256 ? 256 : (uint32_t)share;
}

static enum status make_pool(struct cuda_run *run, uint32_t queue, const struct queue_needs *needs, struct error *error)
{
    bool updates = cuda_queue_class(run, queue) == QUEUE_HOST && needs->pageable_bytes > 0;
    return updates ? host_adam_pool_new(&run->queues[queue].adam, host_threads(run), &run->cancel, error) : STATUS_OK;
}

static bool is_asynchronous_class(enum queue_class queue_class)
{
    return queue_class != QUEUE_HOST && queue_class != QUEUE_STORAGE;
}

bool cuda_is_asynchronous(const void *context, uint32_t queue)
{
    return is_asynchronous_class(cuda_queue_class(context, queue));
}

/* Two events for each op that runs on a stream: none is made while a step runs. */
static enum status make_events(struct cuda_run *run, struct error *error)
{
    const struct schedule *s = run->schedule;
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct cuda_queue *q = cuda_queue_of(run, i);
        if (q->gpu != NULL && s->ops[i].opcode != OP_MARK) {
            CUDA_TRY(cudaSetDevice, (q->gpu->ordinal), error);
            CUDA_TRY(cudaEventCreateWithFlags, (&run->starts[i], cudaEventDefault), error);
            CUDA_TRY(cudaEventCreateWithFlags, (&run->ends[i], cudaEventDefault), error);
        }
    }
    for (uint32_t g = 0; g < run->gpu_count; g++) {
        struct gpu *gpu = &run->gpus[g];
        if (gpu->is_used) {
            CUDA_TRY(cudaSetDevice, (gpu->ordinal), error);
            CUDA_TRY(cudaStreamCreateWithFlags, (&gpu->clock_stream, cudaStreamNonBlocking), error);
            CUDA_TRY(cudaEventCreateWithFlags, (&gpu->base, cudaEventDefault), error);
        }
    }
    return STATUS_OK;
}

static enum status make_queue(struct cuda_run *run, uint32_t queue, const struct queue_needs *needs,
                              struct error *error)
{
    if (!run->queues[queue].is_local) {
        return STATUS_OK;
    }
    TRY(run->queues[queue].gpu != NULL ? make_stream(run, queue, needs, error) : make_pool(run, queue, needs, error));
    return cuda_slabs(run, queue, needs, error);
}

enum status cuda_queues(struct cuda_run *run, struct error *error)
{
    const struct schedule *s = run->schedule;
    struct queue_needs *needs = arena_array(&run->arena, struct queue_needs, s->queue_count);
    run->queues = arena_array(&run->arena, struct cuda_queue, s->queue_count);
    run->starts = arena_array(&run->arena, cudaEvent_t, s->op_count);
    run->ends = arena_array(&run->arena, cudaEvent_t, s->op_count);
    run->space_bytes = arena_array(&run->arena, uint64_t, s->space_count);
    run->seen = arena_alloc(&run->arena, s->op_count, sizeof *run->seen);
    if (needs == NULL || run->space_bytes == NULL || run->queues == NULL || run->starts == NULL || run->ends == NULL ||
        run->seen == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for the events of %u ops", s->op_count);
    }
    cuda_needs(run, needs);
    for (uint32_t q = 0; q < s->queue_count; q++) {
        bool streams = is_asynchronous_class(cuda_queue_class(run, q));
        run->queues[q].is_local = run->rank_is_local[s->queues[q].rank];
        run->queues[q].gpu = streams ? run->rank_gpus[s->queues[q].rank] : NULL;
    }
    TRY(cuda_slabs_share(run, needs, error));
    for (uint32_t q = 0; q < s->queue_count; q++) {
        TRY(make_queue(run, q, &needs[q], error));
    }
    return make_events(run, error);
}

static void free_queue(struct cuda_queue *q)
{
    host_adam_pool_free(q->adam);
    if (q->gpu != NULL) {
        (void)cudaSetDevice(q->gpu->ordinal);
    }
    if (q->blas != NULL) {
        (void)cublasDestroy(q->blas);
    }
    cuda_slabs_free(q);
    (void)cudaFree(q->mismatches);
    (void)cudaFreeHost(q->mismatches_seen);
    if (q->stream != NULL) {
        (void)cudaStreamDestroy(q->stream);
    }
}

void cuda_queues_free(struct cuda_run *run)
{
    for (uint32_t q = 0; run->queues != NULL && q < run->schedule->queue_count; q++) {
        if (run->queues[q].stream != NULL) {
            (void)cudaStreamSynchronize(run->queues[q].stream);
        }
    }
    for (uint32_t i = 0; run->ends != NULL && i < run->schedule->op_count; i++) {
        if (run->starts[i] != NULL) {
            (void)cudaEventDestroy(run->starts[i]);
        }
        if (run->ends[i] != NULL) {
            (void)cudaEventDestroy(run->ends[i]);
        }
    }
    for (uint32_t q = 0; run->queues != NULL && q < run->schedule->queue_count; q++) {
        free_queue(&run->queues[q]);
    }
    for (uint32_t g = 0; g < run->gpu_count; g++) {
        if (run->gpus[g].base != NULL) {
            (void)cudaEventDestroy(run->gpus[g].base);
        }
        if (run->gpus[g].clock_stream != NULL) {
            (void)cudaStreamDestroy(run->gpus[g].clock_stream);
        }
    }
    (void)cudaGetLastError();
}
