/* The primitives that the dispatcher calls: a queue's thread comes and goes, a step begins, an op is done, everything is called off. */
#include <math.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim/base/check.h"
#include "sim/engine/thread_slices.h"
#include "validate/dispatch/dispatch.h"
#include "validate/exec_host/host_attention.h"
#include "validate/exec_host/host_cores.h"
#include "validate/exec_host/host_floats.h"
#include "validate/exec_host/host_gemm.h"
#include "validate/exec_host/host_kernels.h"
#include "validate/exec_host/host_run.h"

enum status host_cancelled(struct error *error)
{
    return error_set(error, STATUS_EXECUTION, "called off: another op has failed");
}

/* ---- a queue's thread ---- */

/* Parts of the slab one after the other, all of HOST_SLAB_BYTE: a harmless number in every dtype. */
static enum status make_slab(struct host_queue *queue, struct error *error)
{
    enum { ALIGN = 4096 };
    const uint64_t wanted[] = { queue->needs.in_bytes, queue->needs.out_bytes, queue->needs.rest_bytes };
    struct host_span *parts[] = { &queue->slab_in, &queue->slab_out, &queue->slab_rest };
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < 3; i++) {
        bytes += (wanted[i] + ALIGN - 1) / ALIGN * ALIGN;
    }
    TRY(host_region_map(&queue->slab, bytes, "buffers that ops do not name", error));
    uint64_t at = 0;
    for (uint32_t i = 0; i < 3; i++) {
        *parts[i] = (struct host_span){ queue->slab.data + at, wanted[i], SCHED_NONE };
        at += (wanted[i] + ALIGN - 1) / ALIGN * ALIGN;
    }
    if (bytes > 0) {
        memset(queue->slab.data, HOST_SLAB_BYTE, bytes);
    }
    queue->spans_capacity = 2 * queue->needs.operands + 4;
    TRY(host_region_map(&queue->spans_memory, queue->spans_capacity * sizeof *queue->spans, "views", error));
    queue->spans = (struct host_span *)(void *)queue->spans_memory.data;
    return STATUS_OK;
}

static enum status make_operands(const struct host_run *run, struct host_queue *queue, struct error *error)
{
    uint64_t least = host_operand_floats(run);
    TRY(host_region_map(&queue->attention_scratch, HOST_ATTENTION_SCRATCH_FLOATS * sizeof(float), "attention tiles",
                        error));
    return host_operands_init(&queue->operands, host_operands_count((uint64_t)queue->needs.inputs, least),
                              host_operands_count((uint64_t)queue->needs.outputs, least), error);
}

static enum status make_optimizer(struct host_run *run, struct host_queue *queue, struct error *error)
{
    uint32_t cores = host_cores(), ranks = run->schedule->rank_count, threads = cores > ranks ? cores / ranks : 1;
    uint64_t bytes = HOST_ADAM_BYTES * queue->adam_state.block * queue->adam_state.blocks;
    TRY(host_region_map(&queue->adam_memory, bytes, "optimizer states", error));
    memset(queue->adam_memory.data, HOST_SLAB_BYTE, bytes);
    queue->adam_state.data = (float *)(void *)queue->adam_memory.data;
    return host_adam_pool_new(&queue->adam, threads, &run->cancel, error);
}

/* Of sched_setattr(2): the kernel's struct, which the C library does not declare before 2.41. */
struct slice_request {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline_ns, period_ns;
};

/* The system's scheduler lets a kernel on a core finish its slice of milliseconds before a thread that was woken for a copy or a collective beside it. Such threads ask for
 * the shortest slices that it grants (sim/engine/thread_slices.h): they run at once, and both share the core from then on, as streams share a GPU. Best effort (Linux 6.12 and later):
 * elsewhere they wait longer. */
static void ask_short_slices(void)
{
    struct slice_request request = { .size = sizeof request,
                                     .policy = SCHED_OTHER,
                                     .nice = getpriority(PRIO_PROCESS, 0),
                                     .slice_ns = (uint64_t)(1e9 * THREAD_SLICE_S) };
    (void)syscall(SYS_sched_setattr, 0, &request, 0);
}

enum status host_queue_enter(void *context, uint32_t index, struct error *error)
{
    struct host_run *run = context;
    struct host_queue *queue = &run->queues[index];
    enum queue_class queue_class = (enum queue_class)run->schedule->queues[index].queue_class;
    host_floats_flush_denormals();
    if (queue_class == QUEUE_COMPUTE || queue_class == QUEUE_COMM || queue_class == QUEUE_P2P) {
        host_cores_bind(run->schedule->queues[index].rank, run->schedule->rank_count);
    }
    if (queue_class != QUEUE_COMPUTE && queue_class != QUEUE_HOST) {
        ask_short_slices();
    }
    TRY(make_slab(queue, error));
    if (queue->needs.computes) {
        TRY(make_operands(run, queue, error));
    }
    if (queue->needs.parameters > 0) {
        TRY(make_optimizer(run, queue, error));
    }
    if (queue->needs.stores) {
        TRY(host_region_map(&queue->staging, 2 * HOST_STORAGE_STAGING_BYTES, "staging for storage", error));
    }
    return STATUS_OK;
}

void host_queue_leave(void *context, uint32_t index)
{
    struct host_run *run = context;
    struct host_queue *queue = &run->queues[index];
    host_adam_pool_free(queue->adam);
    queue->adam = NULL;
    host_operands_free(&queue->operands);
    host_region_unmap(&queue->slab);
    host_region_unmap(&queue->spans_memory);
    host_region_unmap(&queue->attention_scratch);
    host_region_unmap(&queue->adam_memory);
    host_region_unmap(&queue->staging);
}

/* ---- a step ---- */

static enum status fill_span(struct host_storage *file, uint64_t offset, uint64_t bytes, uint8_t *block,
                             struct error *error)
{
    for (uint64_t at = 0; at < bytes; at += HOST_STORAGE_STAGING_BYTES) {
        uint64_t n = bytes - at < HOST_STORAGE_STAGING_BYTES ? bytes - at : HOST_STORAGE_STAGING_BYTES;
        TRY(host_storage_write(file, offset + at, block + HOST_STORAGE_STAGING_BYTES, n, block, error));
    }
    return STATUS_OK;
}

/* What lies in storage at the start is written once: reading a hole would be no reading. */
static enum status fill_storage(struct host_run *run, uint8_t *block, struct error *error)
{
    const struct schedule *s = run->schedule;
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        const struct sched_buffer *buffer = &s->buffers[b];
        if (s->spaces[buffer->space].kind == SPACE_STORAGE && wet_pools_is_live(run->pools, b)) {
            uint64_t offset = (uint64_t)(uintptr_t)wet_pools_address(run->pools, b);
            TRY(fill_span(&run->files[buffer->space], offset, offset == 0 ? 0 : buffer->bytes, block, error));
        }
    }
    for (uint32_t q = 0; q < s->queue_count; q++) {
        const struct host_queue *queue = &run->queues[q];
        TRY(fill_span(&run->files[s->space_count], queue->file_offset, queue->needs.file_bytes, block, error));
    }
    return STATUS_OK;
}

enum status host_begin_step(void *context, struct error *error)
{
    struct host_run *run = context;
    bool stores = false;
    uint32_t computing = 0;
    for (uint32_t q = 0; q < run->schedule->queue_count; q++) {
        stores = stores || run->queues[q].needs.stores;
        computing += run->queues[q].needs.computes;
    }
    if (!run->has_begun) { /* every thread has what it needs but for this */
        TRY(host_gemm_room(computing, error));
        run->has_begun = true;
    }
    if (stores && !run->storage_is_filled) {
        struct host_region block;
        TRY(host_region_map(&block, 2 * HOST_STORAGE_STAGING_BYTES, "staging for storage", error));
        memset(block.data, HOST_SLAB_BYTE, block.bytes);
        enum status status = fill_storage(run, block.data, error);
        host_region_unmap(&block);
        TRY(status);
        run->storage_is_filled = true;
    }
    return run->options->check ? host_check_begin_step(&run->check, error) : STATUS_OK;
}

/* ---- an op ---- */

/* Whether this op's queue may use the op's memory is asked before and after its work; in between it holds no claim, because kernels use operands of the executor's own. */
static enum status visit_buffers(struct host_run *run, uint32_t op, bool opens, struct error *error)
{
    bool shared;
    if (!run->options->check) {
        return STATUS_OK;
    }
    if (!host_check_claim(&run->check, &op, 1, &shared)) {
        return host_cancelled(error);
    }
    enum status status = opens ? host_check_open(&run->check, op, error) : host_check_close(&run->check, op, error);
    host_check_unclaim(&run->check, &op, 1);
    return status;
}

static bool run_kernels(struct host_run *run, const struct sched_op *op)
{
    const struct schedule *s = run->schedule;
    const struct sched_work *work = &s->works[op->work];
    struct host_queue *queue = &run->queues[op->queue];
    float *scratch = (float *)(void *)queue->attention_scratch.data;
    for (uint32_t i = 0; i < work->item_count; i++) {
        const struct work_item *item = &s->work_items[work->first_item + i];
        if (item->kind == ITEM_KERNEL &&
            !host_kernel_run(&s->kernels[item->index], &queue->operands, scratch, &run->cancel)) {
            return false;
        }
    }
    return true;
}

/* On the buffer that the op writes when that holds states for all its parameters, else on the queue's own. */
static bool run_optimizer(struct host_run *run, uint32_t index, const struct sched_op *op)
{
    struct host_queue *queue = &run->queues[op->queue];
    uint64_t parameters = (uint64_t)ceil(run->schedule->works[op->work].parameters);
    struct host_adam_state state = queue->adam_state;
    queue->spans_used = 0;
    struct host_view view = host_view_of(run, index, HOST_TARGET, false);
    if (op->write_count > 0 && !run->options->check && view.count > 0 && parameters > 0 &&
        view.spans[0].bytes / HOST_ADAM_BYTES >= parameters) {
        state = (struct host_adam_state){ (float *)(void *)view.spans[0].data, parameters, 1 };
    }
    return parameters == 0 || host_adam_run(queue->adam, &state, parameters);
}

static enum status run_alone(struct host_run *run, uint32_t index, struct error *error)
{
    const struct sched_op *op = &run->schedule->ops[index];
    const struct sched_work *work = op->work == SCHED_NONE ? NULL : &run->schedule->works[op->work];
    bool done = true;
    int64_t begin_ps = dispatch_clock_ps();
    TRY(visit_buffers(run, index, true, error));
    if (work != NULL && work->kind == WORK_FIXED) {
        done = host_sleep_until(begin_ps + work->fixed_ps, &run->cancel);
    } else if (op->opcode == OP_COMPUTE) {
        done = run_kernels(run, op);
    } else if (op->opcode == OP_HOST_OPTIMIZER) {
        done = run_optimizer(run, index, op);
    }
    return done ? visit_buffers(run, index, false, error) : host_cancelled(error);
}

static enum status run_op(struct host_run *run, uint32_t index, struct error *error)
{
    const struct sched_op *op = &run->schedule->ops[index];
    if (op->work != SCHED_NONE && run->schedule->works[op->work].kind == WORK_FIXED) {
        return run_alone(run, index, error);
    }
    switch ((enum opcode)op->opcode) {
    case OP_COMPUTE:
    case OP_HOST_OPTIMIZER:
    case OP_DELAY:
    case OP_MARK: return run_alone(run, index, error);
    case OP_ALL_REDUCE:
    case OP_ALL_GATHER:
    case OP_REDUCE_SCATTER:
    case OP_BROADCAST:
    case OP_ALL_TO_ALL: return host_collective_op(run, index, error);
    case OP_SEND:
    case OP_RECV: return host_pair(run, index, error);
    case OP_COPY_H2D:
    case OP_COPY_D2H:
    case OP_COPY_P2P: return host_transfer(run, index, error);
    case OP_STORAGE_READ:
    case OP_STORAGE_WRITE: return host_storage_op(run, index, error);
    case OPCODE_COUNT: break;
    }
    check_failed("every opcode runs", __FILE__, __LINE__);
}

enum status host_submit(void *context, const uint32_t *ops, uint32_t op_count, struct error *error)
{
    struct host_run *run = context;
    CHECK(op_count == 1); /* partners come on their own threads */
    if (run->tuning.before != NULL) {
        TRY(run->tuning.before(run->tuning.before_context, run->pools, ops[0], error));
    }
    return run_op(run, ops[0], error);
}

void host_cancel_run(void *context)
{
    struct host_run *run = context;
    host_cancel_raise(&run->cancel);
    for (uint32_t i = 0; i < run->schedule->match_count; i++) {
        host_meeting_wake(&run->matches[i].meeting);
    }
    if (run->options->check) {
        host_check_wake(&run->check);
    }
}
