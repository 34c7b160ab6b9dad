/* Which GPU a rank gets. */
#include <stdio.h>

#include "validate/exec_cuda/cuda_run.h"

/* No GPU can be used at all: say what a person can do about it. */
static enum status no_device(cudaError_t result, struct error *error)
{
    int driver = 0, runtime = 0;
    (void)cudaGetLastError();
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (result == cudaErrorInsufficientDriver && driver == 0) {
        return error_set(
            error, STATUS_UNSUPPORTED,
            "no NVIDIA driver is loaded (cudaErrorInsufficientDriver): install one for CUDA %d.%d or later, "
            "or use --executor host",
            runtime / 1000, runtime % 1000 / 10);
    }
    if (result == cudaErrorInsufficientDriver) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "the NVIDIA driver is for CUDA %d.%d, memwall was built with %d.%d "
                         "(cudaErrorInsufficientDriver): update the driver or build with an older toolkit",
                         driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    }
    if (result == cudaSuccess || result == cudaErrorNoDevice) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "no CUDA GPU is visible (cudaErrorNoDevice); is CUDA_VISIBLE_DEVICES set to nothing? "
                         "--executor host runs on this computer's processor");
    }
    return error_set(error, STATUS_UNSUPPORTED, "the GPUs cannot be used: %s (%s)", cudaGetErrorString(result),
                     cudaGetErrorName(result));
}

static enum status find_gpus(struct cuda_run *run, struct error *error)
{
    int count = 0;
    cudaError_t result = cudaGetDeviceCount(&count);
    if (result != cudaSuccess || count <= 0) {
        return no_device(result, error);
    }
    run->gpu_count = (uint32_t)count;
    run->gpus = arena_array(&run->arena, struct gpu, run->gpu_count);
    if (run->gpus == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %d GPUs", count);
    }
    for (int i = 0; i < count; i++) {
        struct cudaDeviceProp properties;
        struct gpu *gpu = &run->gpus[i];
        result = cudaGetDeviceProperties(&properties, i);
        if (result != cudaSuccess) {
            return no_device(result, error);
        }
        gpu->ordinal = i;
        gpu->major = properties.major;
        gpu->minor = properties.minor;
        gpu->memory_bytes = properties.totalGlobalMem;
        (void)snprintf(gpu->name, sizeof gpu->name, "%.63s", properties.name);
    }
    return STATUS_OK;
}

/* Ranks by device number; equal shares of them, in that order, to the processes. */
static enum status share_ranks(struct cuda_run *run, struct error *error)
{
    const struct schedule *s = run->schedule;
    for (uint32_t r = 0; r < s->rank_count; r++) {
        uint32_t device = s->devices[s->ranks[r].first_device];
        run->device_limit = run->device_limit > device ? run->device_limit : device + 1;
    }
    run->device_ranks = arena_array(&run->arena, uint32_t, run->device_limit);
    run->rank_is_local = arena_array(&run->arena, bool, s->rank_count);
    run->rank_gpus = arena_array(&run->arena, struct gpu *, s->rank_count);
    if (run->device_ranks == NULL || run->rank_is_local == NULL || run->rank_gpus == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u ranks", s->rank_count);
    }
    for (uint32_t d = 0; d < run->device_limit; d++) {
        run->device_ranks[d] = SCHED_NONE;
    }
    for (uint32_t r = 0; r < s->rank_count; r++) {
        run->device_ranks[s->devices[s->ranks[r].first_device]] = r;
    }
    if (run->world.process_count > s->rank_count) {
        return error_set(error, STATUS_UNSUPPORTED, "%u processes for a schedule of %u ranks: start one a node",
                         run->world.process_count, s->rank_count);
    }
    uint64_t place = 0;
    run->first_device = 0;
    bool seen = false;
    for (uint32_t d = 0; d < run->device_limit; d++) {
        uint32_t rank = run->device_ranks[d];
        if (rank != SCHED_NONE) {
            bool local = place * run->world.process_count / s->rank_count == run->world.process;
            run->rank_is_local[rank] = local;
            run->first_device = local && !seen && run->world.process_count > 1 ? d : run->first_device;
            seen = seen || local;
            place++;
        }
    }
    return STATUS_OK;
}

uint32_t cuda_rank_process(const struct cuda_run *run, uint32_t rank)
{
    uint64_t place = 0;
    for (uint32_t d = 0; d < run->schedule->devices[run->schedule->ranks[rank].first_device]; d++) {
        place += run->device_ranks[d] != SCHED_NONE;
    }
    return (uint32_t)(place * run->world.process_count / run->schedule->rank_count);
}

struct gpu *cuda_gpu_of_device(const struct cuda_run *run, uint32_t device)
{
    if (run->options->emulate) {
        return &run->gpus[device % run->gpu_count];
    }
    uint32_t ordinal = device - run->first_device;
    return device >= run->first_device && ordinal < run->gpu_count ? &run->gpus[ordinal] : NULL;
}

/* Tensor cores take bf16 and tf32 from compute capability 8.0 on; older GPUs refuse such products. */
static enum status check_types(const struct cuda_run *run, struct error *error)
{
    const struct schedule *s = run->schedule;
    bool wants = false;
    for (uint32_t k = 0; k < s->kernel_count; k++) {
        const struct kernel *kernel = &s->kernels[k];
        bool product = kernel->kernel_class == KERNEL_GEMM || kernel->kernel_class == KERNEL_ATTENTION_FORWARD ||
                       kernel->kernel_class == KERNEL_ATTENTION_BACKWARD;
        wants = wants || (product && (kernel->dtype == DTYPE_BF16 || kernel->dtype == DTYPE_TF32));
    }
    for (uint32_t g = 0; g < run->gpu_count; g++) {
        const struct gpu *gpu = &run->gpus[g];
        if (wants && gpu->is_used && gpu->major < 8) {
            return error_set(error, STATUS_UNSUPPORTED,
                             "GPU %d (%s, compute capability %d.%d) has no bf16 or tf32 products; use precision fp16",
                             gpu->ordinal, gpu->name, gpu->major, gpu->minor);
        }
    }
    return STATUS_OK;
}

/* Direct copies between GPUs where the machine can; else the runtime goes through the host. */
static enum status enable_peers(const struct cuda_run *run, struct error *error)
{
    for (uint32_t a = 0; a < run->gpu_count; a++) {
        for (uint32_t b = 0; b < run->gpu_count; b++) {
            int can = 0;
            if (a == b || !run->gpus[a].is_used || !run->gpus[b].is_used) {
                continue;
            }
            CUDA_TRY(cudaDeviceCanAccessPeer, (&can, run->gpus[a].ordinal, run->gpus[b].ordinal), error);
            if (can) {
                CUDA_TRY(cudaSetDevice, (run->gpus[a].ordinal), error);
                cudaError_t result = cudaDeviceEnablePeerAccess(run->gpus[b].ordinal, 0);
                if (result != cudaErrorPeerAccessAlreadyEnabled) {
                    TRY(cuda_status(result, "cudaDeviceEnablePeerAccess", error));
                }
                (void)cudaGetLastError();
            }
        }
    }
    return STATUS_OK;
}

enum status cuda_devices(struct cuda_run *run, struct error *error)
{
    const struct schedule *s = run->schedule;
    TRY(find_gpus(run, error));
    TRY(share_ranks(run, error));
    for (uint32_t r = 0; r < s->rank_count; r++) {
        uint32_t device = s->devices[s->ranks[r].first_device];
        if (!run->rank_is_local[r]) {
            continue;
        }
        run->rank_gpus[r] = cuda_gpu_of_device(run, device);
        if (run->rank_gpus[r] == NULL) {
            uint32_t local = 0;
            for (uint32_t i = 0; i < s->rank_count; i++) {
                local += run->rank_is_local[i];
            }
            return error_set(error, STATUS_UNSUPPORTED,
                             "the schedule wants %u GPU%s here (rank %u is on device %u), %u %s visible; --emulate "
                             "runs ranks as streams "
                             "that share GPUs, with collectives as copies and reductions",
                             local, local == 1 ? "" : "s", r, device, run->gpu_count,
                             run->gpu_count == 1 ? "is" : "are");
        }
        run->rank_gpus[r]->is_used = true;
    }
    TRY(check_types(run, error));
    return enable_peers(run, error);
}
