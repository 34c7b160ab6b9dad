/* What a queue's ops need beside the schedule's buffers. */
#include <math.h>

#include "validate/exec_cuda/cuda_run.h"

uint64_t cuda_collective_elements(const struct schedule *schedule, const struct sched_work *work, uint64_t *part)
{
    uint64_t members = schedule->groups[work->group].member_count, size = dtype_bytes((enum dtype)work->dtype);
    uint64_t elements = work->bytes > (double)size ? (uint64_t)ceil(work->bytes / (double)size) : 1;
    *part = (elements + members - 1) / members;
    return *part * members;
}

static void want(uint64_t *needs, uint64_t bytes)
{
    *needs = *needs > bytes ? *needs : bytes;
}

static void kernel_needs(const struct schedule *s, const struct sched_work *work, struct queue_needs *needs)
{
    for (uint32_t i = 0; i < work->item_count; i++) {
        const struct work_item *item = &s->work_items[work->first_item + i];
        if (item->kind == ITEM_KERNEL) {
            uint64_t inputs, outputs;
            cuda_product_operands(&s->kernels[item->index], &inputs, &outputs);
            want(&needs->input_bytes, inputs);
            want(&needs->output_bytes, outputs);
            needs->has_kernels = true;
        }
    }
}

static void transfer_needs(const struct cuda_run *run, uint32_t op, struct queue_needs *needs)
{
    const struct sched_op *o = cuda_op(run, op);
    const struct sched_work *work = &run->schedule->works[o->work];
    uint64_t bytes = (uint64_t)ceil(work->bytes);
    want(&needs->device_bytes, bytes);
    if (o->opcode == OP_COPY_H2D || o->opcode == OP_COPY_D2H || o->opcode == OP_STORAGE_READ ||
        o->opcode == OP_STORAGE_WRITE) {
        want(work->pageable ? &needs->pageable_bytes : &needs->pinned_bytes, bytes);
    }
}

/* Adam's four arrays. */
enum { OPTIMIZER_BYTES_PER_PARAMETER = 16 };

void cuda_needs(struct cuda_run *run, struct queue_needs *needs)
{
    const struct schedule *s = run->schedule;
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        run->space_bytes[s->buffers[b].space] += s->buffers[b].bytes * s->buffers[b].copies;
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        struct queue_needs *own = &needs[op->queue];
        if (op->work == SCHED_NONE) {
            continue;
        }
        const struct sched_work *work = &s->works[op->work];
        uint64_t part, elements;
        switch ((enum work_kind)work->kind) {
        case WORK_KERNELS: kernel_needs(s, work, own); break;
        case WORK_COLLECTIVE:
            elements = cuda_collective_elements(s, work, &part);
            own->has_sums = own->has_sums || op->opcode == OP_ALL_REDUCE || op->opcode == OP_REDUCE_SCATTER;
            want(&own->device_bytes,
                 (op->opcode == OP_ALL_TO_ALL ? 2 : 1) * elements * dtype_bytes((enum dtype)work->dtype));
            break;
        case WORK_TRANSFER: transfer_needs(run, i, own); break;
        case WORK_HOST_OPTIMIZER:
            want(&own->pageable_bytes, (uint64_t)ceil(work->parameters) * OPTIMIZER_BYTES_PER_PARAMETER);
            break;
        case WORK_NONE:
        case WORK_FIXED:
        case WORK_KIND_COUNT: break;
        }
    }
}
