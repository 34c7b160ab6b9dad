/* The common clock. At the start of a step an event is recorded on every GPU with the host's clock read around it; afterwards each op's start and end are its events' distance from that
 * event. cudaEventElapsedTime tells milliseconds as a float: 60 ns are lost after a second, 6 us after a hundred. The dispatcher bounds what two clocks disagree about. */
#include <math.h>

#include "validate/exec_cuda/cuda_run.h"

static enum status record_base(struct cuda_run *run, struct gpu *gpu, struct error *error)
{
    (void)run;
    CUDA_TRY(cudaSetDevice, (gpu->ordinal), error);
    int64_t before_ps = dispatch_clock_ps();
    CUDA_TRY(cudaEventRecord, (gpu->base, gpu->clock_stream), error);
    CUDA_TRY(cudaEventSynchronize, (gpu->base), error);
    int64_t after_ps = dispatch_clock_ps();
    gpu->base_ps = before_ps + (after_ps - before_ps) / 2;
    return STATUS_OK;
}

enum status cuda_begin_step(void *context, struct error *error)
{
    struct cuda_run *run = context;
    for (uint32_t i = 0; i < run->schedule->op_count; i++) {
        atomic_store_explicit(&run->seen[i], false, memory_order_relaxed);
    }
    TRY(world_barrier(&run->world, error));
    for (uint32_t g = 0; g < run->gpu_count; g++) {
        if (run->gpus[g].is_used) {
            TRY(record_base(run, &run->gpus[g], error));
        }
    }
    run->zero_ps = dispatch_clock_ps();
    return STATUS_OK;
}

enum status cuda_poll(void *context, uint32_t op, bool *ended, struct error *error)
{
    struct cuda_run *run = context;
    *ended = false;
    cudaError_t result = cudaEventQuery(run->ends[op]);
    if (result == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return cuda_comms_poll(run, op, error);
    }
    TRY(cuda_status(result, "cudaEventQuery", error));
    atomic_store_explicit(&run->seen[op], true, memory_order_release);
    *ended = true;
    return STATUS_OK;
}

static enum status time_of(const struct cuda_run *run, const struct gpu *gpu, cudaEvent_t event, int64_t *time_ps,
                           struct error *error)
{
    float ms = 0;
    CUDA_TRY(cudaEventElapsedTime, (&ms, gpu->base, event), error);
    *time_ps = gpu->base_ps - run->zero_ps + llrint((double)ms * 1e9);
    return STATUS_OK;
}

/* Everybody learns everybody's times; each process's clock begins at the barrier. */
static enum status share_times(struct cuda_run *run, struct op_times *ops, struct error *error)
{
    const struct schedule *s = run->schedule;
    for (uint32_t r = 0; run->world.process_count > 1 && r < s->rank_count; r++) {
        TRY(world_broadcast(&run->world, cuda_rank_process(run, r), &ops[s->ranks[r].first_op],
                            s->ranks[r].op_count * sizeof *ops, error));
    }
    return STATUS_OK;
}

enum status cuda_end_step(void *context, struct op_times *ops, struct error *error)
{
    struct cuda_run *run = context;
    for (uint32_t i = 0; i < run->schedule->op_count; i++) {
        const struct gpu *gpu = cuda_queue_of(run, i)->gpu;
        if (gpu != NULL && run->ends[i] != NULL) {
            TRY(time_of(run, gpu, run->starts[i], &ops[i].start_ps, error));
            TRY(time_of(run, gpu, run->ends[i], &ops[i].end_ps, error));
        }
    }
    return share_times(run, ops, error);
}
