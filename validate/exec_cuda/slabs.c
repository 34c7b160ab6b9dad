/* Memory beside the schedule's: operands of kernels, staging of transfers, workspaces. How much each queue gets, and handing it out. */
#include <stdlib.h>
#include <string.h>

#include "validate/exec_cuda/cuda_run.h"
#include "validate/exec_cuda/gpu_kernels.h"

#define MIB UINT64_C(1048576)

/* Larger than the L2 cache of any GPU of today (H200: 50 MiB, B200: 126 MiB), so that operands come from HBM, as in training. */
static const uint64_t OPERANDS_BYTES_MIN = 256 * MIB;
/* Longer transfers and collectives go through their slab in pieces of this. */
static const uint64_t DEVICE_SLAB_BYTES_MAX = 1024 * MIB;
static const uint64_t HOST_SLAB_BYTES_MAX = 256 * MIB;
static const uint64_t STORAGE_STAGING_BYTES_MAX = 32 * MIB;
static const uint64_t FETCH_BYTES = 32 * MIB;
/* What NVIDIA advises for Hopper and later; more than older GPUs want (cuBLAS documentation, cublasSetWorkspace). */
static const uint64_t BLAS_WORKSPACE_BYTES = 32 * MIB;
enum { SLAB_ALIGNMENT = 256 };

void *slab_take(struct slab *slab, uint64_t bytes, uint64_t *got)
{
    uint64_t rounded = cuda_round_up(bytes, SLAB_ALIGNMENT);
    if (rounded >= slab->bytes) {
        slab->cursor = 0;
        *got = bytes < slab->bytes ? bytes : slab->bytes;
        return slab->memory;
    }
    if (rounded > slab->bytes - slab->cursor) {
        slab->cursor = 0;
    }
    void *memory = slab->memory + slab->cursor;
    slab->cursor += rounded;
    *got = bytes;
    return memory;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static enum status out_of_memory(const struct cuda_run *run, uint32_t queue, const char *what, uint64_t bytes,
                                 struct error *error)
{
    const struct schedule *s = run->schedule;
    const struct gpu *gpu = run->queues[queue].gpu;
    uint32_t rank = s->queues[queue].rank;
    size_t free_bytes = 0, total = 0;
    (void)cudaGetLastError();
    if (gpu != NULL) {
        (void)cudaMemGetInfo(&free_bytes, &total);
    }
    return error_set(
        error, STATUS_EXECUTION,
        "out of memory: rank %u (%s), queue %s: %s of %llu bytes, outside of the schedule's spaces; GPU %d "
        "has %llu of %llu bytes free. Lower the device capacity or give the schedule less to hold",
        rank, sched_label(s, s->ranks[rank].label), sched_label(s, s->queues[queue].label), what,
        (unsigned long long)bytes, gpu == NULL ? -1 : gpu->ordinal, (unsigned long long)free_bytes,
        (unsigned long long)total);
}

/* As much as there is, between `least` and `most` bytes. */
static enum status make_device_slab(struct cuda_run *run, uint32_t queue, struct slab *slab, uint64_t least,
                                    uint64_t most, struct error *error)
{
    uint64_t bytes = cuda_round_up(larger(least, most), SLAB_ALIGNMENT);
    least = cuda_round_up(least, SLAB_ALIGNMENT);
    while (bytes > 0) {
        void *memory = NULL;
        cudaError_t result = cudaMalloc(&memory, bytes);
        if (result == cudaSuccess) {
            *slab = (struct slab){ .memory = memory, .bytes = bytes };
            return STATUS_OK;
        }
        if (result != cudaErrorMemoryAllocation) {
            return cuda_status(result, "cudaMalloc", error);
        }
        (void)cudaGetLastError();
        if (bytes <= least) {
            return out_of_memory(run, queue, "operands", bytes, error);
        }
        bytes = larger(least, cuda_round_up(bytes / 2, SLAB_ALIGNMENT));
    }
    return STATUS_OK;
}

static enum status make_pinned(struct cuda_run *run, uint32_t queue, struct slab *slab, uint64_t bytes,
                               struct error *error)
{
    void *memory = NULL;
    bytes = cuda_round_up(bytes, 4096); /* also for O_DIRECT */
    if (bytes == 0) {
        return STATUS_OK;
    }
    cudaError_t result = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
    if (result == cudaErrorMemoryAllocation) {
        return out_of_memory(run, queue, "page-locked staging", bytes, error);
    }
    TRY(cuda_status(result, "cudaHostAlloc", error));
    *slab = (struct slab){ .memory = memory, .bytes = bytes };
    return STATUS_OK;
}

static enum status make_pageable(struct cuda_run *run, uint32_t queue, struct slab *slab, uint64_t bytes,
                                 struct error *error)
{
    bytes = cuda_round_up(bytes, 4096);
    if (bytes == 0) {
        return STATUS_OK;
    }
    void *memory = aligned_alloc(4096, bytes);
    if (memory == NULL) {
        return out_of_memory(run, queue, "host staging", bytes, error);
    }
    memset(memory, 0, bytes); /* untouched pages would all be the same one */
    *slab = (struct slab){ .memory = memory, .bytes = bytes };
    return STATUS_OK;
}

static uint64_t transfer_bytes(const struct queue_needs *needs)
{
    return smaller(needs->device_bytes, DEVICE_SLAB_BYTES_MAX);
}

/* Of a queue that runs kernels, the least that its inputs and its outputs need; transfers take the outputs' part. Processes must cut transfers alike, so there the
 * slab has one size. */
static void least_parts(const struct cuda_run *run, const struct queue_needs *needs, uint64_t *inputs,
                        uint64_t *outputs)
{
    uint64_t transfers = transfer_bytes(needs);
    transfers = run->world.process_count > 1 ? transfers : smaller(transfers, 16 * MIB);
    *inputs = needs->has_kernels ? cuda_round_up(larger(needs->input_bytes, MIB / 2), SLAB_ALIGNMENT) : 0;
    *outputs =
        cuda_round_up(larger(transfers, needs->has_kernels ? larger(needs->output_bytes, MIB / 2) : 0), SLAB_ALIGNMENT);
}

/* What each compute queue of a GPU may take for operands: its free memory less what the schedule's buffers and the other queues will want. */
enum status cuda_slabs_share(struct cuda_run *run, const struct queue_needs *needs, struct error *error)
{
    const struct schedule *s = run->schedule;
    for (uint32_t g = 0; g < run->gpu_count; g++) {
        size_t free_bytes = 0, total = 0;
        uint64_t wanted = 0, sharers = 0;
        if (!run->gpus[g].is_used) {
            continue;
        }
        CUDA_TRY(cudaSetDevice, (run->gpus[g].ordinal), error);
        CUDA_TRY(cudaMemGetInfo, (&free_bytes, &total), error);
        for (uint32_t i = 0; i < s->space_count; i++) {
            if (s->spaces[i].kind == SPACE_DEVICE && cuda_gpu_of_device(run, s->spaces[i].location) == &run->gpus[g]) {
                wanted += smaller(s->spaces[i].capacity_bytes, run->space_bytes[i]);
            }
        }
        for (uint32_t q = 0; q < s->queue_count; q++) {
            if (run->queues[q].gpu == &run->gpus[g]) {
                wanted += transfer_bytes(&needs[q]) + MIB + (needs[q].has_sums ? FETCH_BYTES : 0);
                wanted += needs[q].has_kernels ? BLAS_WORKSPACE_BYTES : 0;
                sharers += needs[q].has_kernels;
            }
        }
        run->gpus[g].operand_share = sharers > 0 && free_bytes > wanted ? (free_bytes - wanted) / sharers : 0;
    }
    return STATUS_OK;
}

/* Inputs are written once and only read: what kernels compute never becomes their input, so no number grows from step to step. */
static enum status make_operands(struct cuda_run *run, uint32_t queue, const struct queue_needs *needs,
                                 struct error *error)
{
    struct cuda_queue *q = &run->queues[queue];
    uint64_t inputs, outputs, most = transfer_bytes(needs);
    least_parts(run, needs, &inputs, &outputs);
    if (needs->has_kernels) {
        uint64_t wanted = larger(OPERANDS_BYTES_MIN, 2 * (needs->input_bytes + needs->output_bytes));
        most = larger(inputs + larger(outputs, most), smaller(wanted, q->gpu->operand_share));
    }
    TRY(make_device_slab(run, queue, &q->outputs, inputs + outputs, most, error));
    q->device_memory = q->outputs.memory;
    if (!needs->has_kernels) {
        return STATUS_OK;
    }
    double share = (double)inputs / (double)(inputs + outputs), spare = (double)(q->outputs.bytes - inputs - outputs);
    uint64_t bytes = (inputs + (uint64_t)(share * spare)) / SLAB_ALIGNMENT * SLAB_ALIGNMENT;
    q->inputs = (struct slab){ .memory = q->device_memory, .bytes = bytes };
    q->outputs = (struct slab){ .memory = q->device_memory + bytes, .bytes = q->outputs.bytes - bytes };
    return CUDA_STATUS(gpu_fill_random, (q->stream, q->inputs.memory, q->inputs.bytes, 1), error);
}

static enum status make_workspace(struct cuda_run *run, uint32_t queue, struct error *error)
{
    struct cuda_queue *q = &run->queues[queue];
    cudaError_t result = cudaMalloc(&q->blas_workspace, BLAS_WORKSPACE_BYTES);
    if (result == cudaErrorMemoryAllocation) {
        return out_of_memory(run, queue, "cuBLAS workspace", BLAS_WORKSPACE_BYTES, error);
    }
    TRY(cuda_status(result, "cudaMalloc", error));
    CUBLAS_TRY(cublasSetWorkspace, (q->blas, q->blas_workspace, BLAS_WORKSPACE_BYTES), error);
    return STATUS_OK;
}

enum status cuda_slabs(struct cuda_run *run, uint32_t queue, const struct queue_needs *needs, struct error *error)
{
    struct cuda_queue *q = &run->queues[queue];
    if (cuda_queue_class(run, queue) == QUEUE_STORAGE) { /* all goes through pinned staging, aligned for O_DIRECT */
        q->file_offset = run->storage_end;               /* for data that has no buffer in storage */
        run->storage_end += cuda_round_up(needs->device_bytes, 4096);
        uint64_t staging = larger(needs->pinned_bytes, needs->pageable_bytes);
        return make_pinned(run, queue, &q->pinned, smaller(staging, STORAGE_STAGING_BYTES_MAX), error);
    }
    if (q->gpu != NULL) {
        if (q->blas != NULL) {
            TRY(make_workspace(run, queue, error));
        }
        TRY(make_operands(run, queue, needs, error));
        if (needs->has_sums && run->options->emulate && run->gpu_count > 1) {
            TRY(make_device_slab(run, queue, &q->fetch, MIB, FETCH_BYTES, error));
        }
        TRY(make_pinned(run, queue, &q->pinned, smaller(needs->pinned_bytes, HOST_SLAB_BYTES_MAX), error));
    }
    return make_pageable(run, queue, &q->pageable, smaller(needs->pageable_bytes, HOST_SLAB_BYTES_MAX), error);
}

void cuda_slabs_free(struct cuda_queue *q)
{
    (void)cudaFree(q->blas_workspace);
    (void)cudaFree(q->device_memory);
    (void)cudaFree(q->fetch.memory);
    (void)cudaFreeHost(q->pinned.memory);
    free(q->pageable.memory);
}
