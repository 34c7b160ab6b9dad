/* The CUDA executor: the driver of validate/dispatch whose queues are streams.
 *
 * One process runs all ranks, rank on device d on GPU d; started by mpirun, each process runs an equal share. Kernels work on operands of the executor's own (struct slab),
 * copies and collectives on the op's buffers where these have room: a schedule says how much is moved and computed, not what. Units as everywhere: bytes, picoseconds. */
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/ir/verify.h"
#include "validate/exec_cuda/cuda_run.h"

const struct executor *memwall_executor(void);

/* -- what it can run -- */

static bool refuse(char *why, size_t why_size, const char *reason)
{
    (void)snprintf(why, why_size, "%s", reason);
    return false;
}

static bool supports_kernels(const struct schedule *s, const struct sched_work *work, char *why, size_t why_size)
{
    for (uint32_t i = 0; i < work->item_count; i++) {
        const struct work_item *item = &s->work_items[work->first_item + i];
        const char *reason = item->kind == ITEM_KERNEL ? cuda_product_refusal(&s->kernels[item->index]) : NULL;
        if (item->kind != ITEM_KERNEL && s->groups[s->works[item->index].group].member_count != 1) {
            reason = "a collective merged into a kernel sequence, which stands for several devices";
        }
        if (reason != NULL) {
            return refuse(why, why_size, reason);
        }
    }
    return true;
}

static bool has_rank(const struct schedule *s, uint32_t device)
{
    for (uint32_t r = 0; r < s->rank_count; r++) {
        if (s->devices[s->ranks[r].first_device] == device) {
            return true;
        }
    }
    return false;
}

/* Everybody who must come is there. */
static bool supports_match(const struct schedule *s, const struct sched_op *op, char *why, size_t why_size)
{
    const struct sched_group *group = &s->groups[s->matches[op->match].group];
    bool sums = op->opcode == OP_ALL_REDUCE || op->opcode == OP_REDUCE_SCATTER;
    if (sums && s->works[op->work].kind == WORK_COLLECTIVE && s->works[op->work].dtype == DTYPE_FP8) {
        return refuse(why, why_size, "sums of fp8 numbers, which NCCL makes on few GPUs only");
    }
    for (uint32_t i = 0; i < group->member_count; i++) {
        if (s->matches[op->match].op_count < group->member_count &&
            !has_rank(s, s->group_members[group->first_member + i])) {
            (void)snprintf(why, why_size, "group \"%s\" has device %u, which no rank has", sched_label(s, group->label),
                           s->group_members[group->first_member + i]);
            return false;
        }
    }
    return true;
}

static bool supports(const struct schedule *s, uint32_t op, char *why, size_t why_size)
{
    const struct sched_op *o = &s->ops[op];
    bool to_peer;
    if (s->ranks[sched_op_rank(s, o)].device_count != 1) {
        return refuse(why, why_size, "its rank stands for several devices; build the schedule with fold = false");
    }
    if (o->work != SCHED_NONE && s->works[o->work].kind == WORK_KERNELS &&
        !supports_kernels(s, &s->works[o->work], why, why_size)) {
        return false;
    }
    if (o->opcode == OP_COPY_P2P && s->works[o->work].kind == WORK_TRANSFER &&
        cuda_peer_operand(s, op, &to_peer) == SCHED_NONE) {
        return refuse(why, why_size, "it neither reads nor writes a buffer of another device");
    }
    return o->match == SCHED_NONE || supports_match(s, o, why, why_size);
}

static enum status check_schedule(const struct schedule *s, struct error *error)
{
    char why[256], name[256];
    enum status verified = sched_verify(s, error);
    if (verified != STATUS_OK && verified != STATUS_DOES_NOT_FIT) {
        return verified;
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        if (!supports(s, i, why, sizeof why)) {
            return error_set(error, STATUS_UNSUPPORTED, "rank %u, op %u, %s: %s", sched_op_rank(s, &s->ops[i]), i,
                             sched_op_text(s, i, name, sizeof name), why);
        }
    }
    return STATUS_OK;
}

/* -- one run -- */

static enum status enter(void *context, uint32_t queue, struct error *error)
{
    const struct cuda_run *run = context;
    const struct gpu *gpu = run->queues[queue].gpu;
    return gpu == NULL ? STATUS_OK : CUDA_STATUS(cudaSetDevice, (gpu->ordinal), error);
}

static void cancel(void *context)
{
    struct cuda_run *run = context;
    host_cancel_raise(&run->cancel);
    cuda_comms_cancel(run);
}

static enum status set_up(struct cuda_run *run, struct error *error)
{
    run->storage_end = 4096;
    TRY(cuda_devices(run, error));
    if (run->world.process_count > 1 && run->options->emulate) {
        return error_set(error, STATUS_UNSUPPORTED, "--emulate runs all ranks in one process; start it without mpirun");
    }
    TRY(cuda_queues(run, error));
    TRY(cuda_spaces(run, error));
    TRY(cuda_storage_open(run, error));
    for (uint32_t q = 0; q < run->schedule->queue_count; q++) {
        if (run->queues[q].stream != NULL) {
            CUDA_TRY(cudaStreamSynchronize, (run->queues[q].stream), error);
        }
    }
    return STATUS_OK;
}

static void tear_down(struct cuda_run *run)
{
    cuda_comms_free(run);
    cuda_queues_free(run);
    cuda_spaces_free(run);
    cuda_storage_close(run);
    arena_free(&run->arena);
    (void)pthread_mutex_destroy(&run->check_lock);
    (void)pthread_mutex_destroy(&run->nccl_lock);
}

static enum status dispatch(struct cuda_run *run, struct timeline *timeline, struct error *error)
{
    const struct driver driver = { .context = run,
                                   .executor = "cuda",
                                   .emulated = run->options->emulate,
                                   .joins_matches = true,
                                   .is_local = run->world.process_count > 1 ? run->rank_is_local : NULL,
                                   .is_asynchronous = cuda_is_asynchronous,
                                   .enter = enter,
                                   .begin_step = cuda_begin_step,
                                   .submit = cuda_submit,
                                   .poll = cuda_poll,
                                   .end_step = cuda_end_step,
                                   .cancel = cancel };
    char refusal[ERROR_MESSAGE_BYTES / 2], name[256];
    TRY(dispatch_run(run->schedule, &driver, run->pools, run->options, timeline, error));
    if (timeline->outcome == TIMELINE_DOES_NOT_FIT && timeline->blocked_count > 0 &&
        timeline->blocked[0].op != SCHED_NONE && cuda_spaces_refusal(run, refusal, sizeof refusal)) {
        uint32_t op = timeline->blocked[0].op;
        return error_set(error, STATUS_EXECUTION, "rank %u, op %u, %s: %s",
                         sched_op_rank(run->schedule, &run->schedule->ops[op]), op,
                         sched_op_text(run->schedule, op, name, sizeof name), refusal);
    }
    return STATUS_OK;
}

static enum status run(const struct schedule *schedule, const struct exec_options *options, struct timeline *timeline,
                       struct error *error)
{
    struct cuda_run run = { .schedule = schedule, .options = options, .storage_file = -1, .storage_file_direct = -1 };
    *timeline = (struct timeline){ 0 };
    TRY(check_schedule(schedule, error));
    TRY(world_open(&run.world, error));
    (void)pthread_mutex_init(&run.check_lock, NULL);
    (void)pthread_mutex_init(&run.nccl_lock, NULL);
    enum status status = world_agree(&run.world, set_up(&run, error), error);
    if (status == STATUS_OK) {
        status = cuda_comms(&run, error);
    }
    if (status == STATUS_OK) {
        status = dispatch(&run, timeline, error);
    }
    if (status != STATUS_OK) {
        host_cancel_raise(&run.cancel); /* communicators are ended, not finished: partners may be gone */
    }
    tear_down(&run);
    world_close(&run.world, status != STATUS_OK);
    return status;
}

static const struct executor exec_cuda = {
    .abi = EXECUTOR_ABI,
    .capabilities = EXECUTOR_MEASURES,
    .name = "cuda",
    .summary = "runs the step on NVIDIA GPUs: streams, cuBLAS, NCCL",
    .supports = supports,
    .run = run,
};

const struct executor *memwall_executor(void)
{
    return &exec_cuda;
}
