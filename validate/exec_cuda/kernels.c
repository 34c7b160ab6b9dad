/* Kernel sequences: what a compute op launches. */
#include <math.h>

#include "validate/exec_cuda/cuda_run.h"
#include "validate/exec_cuda/gpu_kernels.h"

/* A launch whose operands outgrow the slabs is cut into equal launches that fit. */
static enum status stream_launch(struct cuda_queue *q, const struct kernel *kernel, double read, double written,
                                 struct error *error)
{
    double longest = fmax(read / (double)(q->inputs.bytes - 256), written / (double)(q->outputs.bytes - 256));
    uint64_t cuts = (uint64_t)fmax(1, ceil(longest)), got = 0;
    uint64_t read_bytes = cuda_round_up((uint64_t)ceil(read / (double)cuts), 16);
    uint64_t write_bytes = cuda_round_up((uint64_t)ceil(written / (double)cuts), 16);
    uint64_t rows = (uint64_t)ceil((double)(kernel->m * kernel->batch) / (double)(kernel->launches * cuts));
    for (uint64_t done = 0; done < cuts; done++) {
        const struct gpu_stream_launch launch = { .kernel_class = (enum kernel_class)kernel->kernel_class,
                                                  .dtype = (enum dtype)kernel->dtype,
                                                  .input = slab_take(&q->inputs, read_bytes, &got),
                                                  .output = slab_take(&q->outputs, write_bytes, &got),
                                                  .read_bytes = read_bytes,
                                                  .write_bytes = write_bytes,
                                                  .rows = rows };
        CUDA_TRY(gpu_stream, (q->stream, &launch), error);
    }
    return STATUS_OK;
}

static enum status run_kernel(struct cuda_queue *q, const struct kernel *kernel, struct error *error)
{
    switch ((enum kernel_class)kernel->kernel_class) {
    case KERNEL_GEMM:
    case KERNEL_ATTENTION_FORWARD:
    case KERNEL_ATTENTION_BACKWARD: return cuda_product(q, kernel, error);
    case KERNEL_ELEMENTWISE:
    case KERNEL_NORM:
    case KERNEL_SOFTMAX:
    case KERNEL_GATHER:
    case KERNEL_OPTIMIZER:
    case KERNEL_REDUCE: break;
    case KERNEL_CLASS_COUNT: return STATUS_OK;
    }
    for (uint32_t i = 0; i < kernel->launches; i++) {
        if (kernel->bytes_read + kernel->bytes_written < 1) {
            CUDA_TRY(gpu_empty, (q->stream), error);
        } else {
            TRY(stream_launch(q, kernel, kernel->bytes_read / kernel->launches,
                              kernel->bytes_written / kernel->launches, error));
        }
    }
    return STATUS_OK;
}

enum status cuda_compute(struct cuda_run *run, uint32_t op, struct error *error)
{
    const struct schedule *s = run->schedule;
    const struct sched_work *work = &s->works[cuda_op(run, op)->work];
    for (uint32_t i = 0; i < work->item_count; i++) {
        const struct work_item *item = &s->work_items[work->first_item + i];
        if (item->kind == ITEM_KERNEL) {
            TRY(run_kernel(cuda_queue_of(run, op), &s->kernels[item->index], error));
        } /* else: merged collectives are of one rank's own devices (sched_verify), here one: nothing moves */
    }
    return STATUS_OK;
}
