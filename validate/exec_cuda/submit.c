/* From opcodes to primitives. On a stream an op is: waits for what it depends on, its start event, its work, its end event. */
#include <stdio.h>

#include "validate/exec_cuda/cuda_run.h"
#include "validate/exec_cuda/gpu_kernels.h"

static enum status set_device(const struct cuda_run *run, uint32_t op, struct error *error)
{
    return CUDA_STATUS(cudaSetDevice, (cuda_queue_of(run, op)->gpu->ordinal), error);
}

static enum status wait_for_dependencies(struct cuda_run *run, uint32_t op, struct error *error)
{
    const struct sched_op *o = cuda_op(run, op);
    for (uint32_t i = 0; i < o->dependency_count; i++) {
        uint32_t cause = run->schedule->dependencies[o->first_dependency + i];
        if (run->ends[cause] != NULL && !atomic_load_explicit(&run->seen[cause], memory_order_acquire)) {
            CUDA_TRY(cudaStreamWaitEvent, (cuda_queue_of(run, op)->stream, run->ends[cause], 0), error);
        }
    }
    return STATUS_OK;
}

static enum status begin_op(struct cuda_run *run, uint32_t op, struct error *error)
{
    TRY(set_device(run, op, error));
    TRY(wait_for_dependencies(run, op, error));
    return CUDA_STATUS(cudaEventRecord, (run->starts[op], cuda_queue_of(run, op)->stream), error);
}

static enum status end_op(struct cuda_run *run, uint32_t op, struct error *error)
{
    TRY(set_device(run, op, error));
    return CUDA_STATUS(cudaEventRecord, (run->ends[op], cuda_queue_of(run, op)->stream), error);
}

enum status cuda_join_streams(struct cuda_run *run, const uint32_t *ops, uint32_t op_count, struct error *error)
{
    cudaStream_t leader = cuda_queue_of(run, ops[0])->stream;
    TRY(set_device(run, ops[0], error));
    for (uint32_t i = 1; i < op_count; i++) {
        CUDA_TRY(cudaStreamWaitEvent, (leader, run->starts[ops[i]], 0), error);
    }
    return CUDA_STATUS(cudaEventRecord, (run->starts[ops[0]], leader), error);
}

/* The others go on when the leader's work is done. */
static enum status part_streams(struct cuda_run *run, const uint32_t *ops, uint32_t op_count, struct error *error)
{
    TRY(end_op(run, ops[0], error));
    for (uint32_t i = 1; i < op_count; i++) {
        TRY(set_device(run, ops[i], error));
        CUDA_TRY(cudaStreamWaitEvent, (cuda_queue_of(run, ops[i])->stream, run->ends[ops[0]], 0), error);
        TRY(end_op(run, ops[i], error));
    }
    return STATUS_OK;
}

static enum status delay(struct cuda_run *run, uint32_t op, struct error *error)
{
    int64_t fixed_ps = run->schedule->works[cuda_op(run, op)->work].fixed_ps;
    if (fixed_ps < 1000) {
        return STATUS_OK;
    }
    return CUDA_STATUS(gpu_delay, (cuda_queue_of(run, op)->stream, (uint64_t)fixed_ps / 1000), error);
}

static bool is_fixed(const struct cuda_run *run, uint32_t op)
{
    const struct sched_op *o = cuda_op(run, op);
    return o->work != SCHED_NONE && run->schedule->works[o->work].kind == WORK_FIXED;
}

static enum status do_alone(struct cuda_run *run, uint32_t op, struct error *error)
{
    if (is_fixed(run, op)) {
        return delay(run, op, error);
    }
    switch ((enum opcode)cuda_op(run, op)->opcode) {
    case OP_COMPUTE: return cuda_compute(run, op, error);
    case OP_COPY_H2D:
    case OP_COPY_D2H:
    case OP_COPY_P2P: return cuda_copy(run, op, error);
    case OP_ALL_REDUCE:
    case OP_ALL_GATHER:
    case OP_REDUCE_SCATTER:
    case OP_BROADCAST:
    case OP_ALL_TO_ALL: return cuda_collective(run, &op, 1, error);
    case OP_SEND:
    case OP_RECV: return cuda_send_or_recv(run, op, error);
    case OP_DELAY:
    case OP_MARK:
    case OP_HOST_OPTIMIZER:
    case OP_STORAGE_READ:
    case OP_STORAGE_WRITE:
    case OPCODE_COUNT: break;
    }
    return STATUS_OK;
}

static enum status submit_alone(struct cuda_run *run, uint32_t op, struct error *error)
{
    TRY(begin_op(run, op, error));
    TRY(do_alone(run, op, error));
    return end_op(run, op, error);
}

/* Partners that are all here. */
static enum status submit_joined(struct cuda_run *run, const uint32_t *ops, uint32_t op_count, struct error *error)
{
    bool pair = cuda_op(run, ops[0])->opcode == OP_SEND || cuda_op(run, ops[0])->opcode == OP_RECV;
    bool led = is_fixed(run, ops[0]) || pair || run->options->emulate;
    uint32_t swapped[2];
    if (pair && op_count == 2) { /* the receiver leads */
        bool first_sends = cuda_op(run, ops[0])->opcode == OP_SEND;
        swapped[0] = ops[first_sends ? 1 : 0];
        swapped[1] = ops[first_sends ? 0 : 1];
        ops = swapped;
    }
    for (uint32_t i = 0; i < op_count; i++) {
        TRY(begin_op(run, ops[i], error));
    }
    if (led) {
        TRY(cuda_join_streams(run, ops, op_count, error));
    }
    if (is_fixed(run, ops[0])) {
        TRY(delay(run, ops[0], error));
    } else if (pair) {
        TRY(cuda_send_recv(run, ops[0], ops[1], error));
    } else {
        TRY(cuda_collective(run, ops, op_count, error));
    }
    if (led) {
        return part_streams(run, ops, op_count, error);
    }
    for (uint32_t i = 0; i < op_count; i++) {
        TRY(end_op(run, ops[i], error));
    }
    return STATUS_OK;
}

/* -- --check -- */

/* No operand may be dead while the op runs. */
static enum status check_lives(const struct cuda_run *run, uint32_t op, struct error *error)
{
    const struct schedule *s = run->schedule;
    const struct sched_op *o = &s->ops[op];
    uint32_t count = (uint32_t)o->acquire_count + o->release_count + o->read_count + o->write_count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t buffer = s->operands[o->first_operand + i];
        if (!wet_pools_is_live(run->pools, buffer)) {
            return error_set(error, STATUS_EXECUTION, "check: buffer %u \"%s\" is used outside of its life", buffer,
                             sched_label(s, s->buffers[buffer].label));
        }
    }
    return STATUS_OK;
}

static enum status submit_any(struct cuda_run *run, const uint32_t *ops, uint32_t op_count, struct error *error)
{
    if (cuda_queue_of(run, ops[0])->gpu == NULL) {
        return cuda_host_work(run, ops[0], error);
    }
    return op_count == 1 ? submit_alone(run, ops[0], error) : submit_joined(run, ops, op_count, error);
}

/* One op at a time, so that nobody writes over a pattern before it was read back; ops that meet other processes use memory of their own instead, for to wait for a partner
 * while others wait for the lock could be for ever. */
static enum status submit_checked(struct cuda_run *run, const uint32_t *ops, uint32_t op_count, struct error *error)
{
    bool locks = !cuda_meets_other_processes(run, ops[0]);
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < op_count; i++) {
        TRY(check_lives(run, ops[i], error));
    }
    if (locks) {
        (void)pthread_mutex_lock(&run->check_lock);
    }
    status = submit_any(run, ops, op_count, error);
    for (uint32_t i = 0; status == STATUS_OK && locks && i < op_count; i++) {
        cudaStream_t stream = cuda_queue_of(run, ops[i])->stream;
        status = stream == NULL ? STATUS_OK : CUDA_STATUS(cudaStreamSynchronize, (stream), error);
    }
    if (locks) {
        (void)pthread_mutex_unlock(&run->check_lock);
    }
    return status;
}

enum status cuda_submit(void *context, const uint32_t *ops, uint32_t op_count, struct error *error)
{
    struct cuda_run *run = context;
    if (host_is_cancelled(&run->cancel)) {
        return error_set(error, STATUS_EXECUTION, "cancelled");
    }
    return run->options->check ? submit_checked(run, ops, op_count, error) : submit_any(run, ops, op_count, error);
}

/* Waits for the stream: what follows on the host may look at memory. */
enum status cuda_verdict(struct cuda_run *run, uint32_t op, const char *what, uint64_t bytes, struct error *error)
{
    struct cuda_queue *q = cuda_queue_of(run, op);
    TRY(set_device(run, op, error));
    CUDA_TRY(cudaMemcpyAsync,
             (q->mismatches_seen, q->mismatches, sizeof *q->mismatches, cudaMemcpyDeviceToHost, q->stream), error);
    CUDA_TRY(cudaStreamSynchronize, (q->stream), error);
    if (*q->mismatches_seen != 0) {
        return error_set(error, STATUS_EXECUTION, "check: %u words of %llu bytes are not what %s should have left",
                         *q->mismatches_seen, (unsigned long long)bytes, what);
    }
    return STATUS_OK;
}

enum status cuda_reset_verdict(struct cuda_run *run, uint32_t op, struct error *error)
{
    struct cuda_queue *q = cuda_queue_of(run, op);
    return CUDA_STATUS(cudaMemsetAsync, (q->mismatches, 0, sizeof *q->mismatches, q->stream), error);
}
