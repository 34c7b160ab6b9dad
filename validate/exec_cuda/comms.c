#include "validate/exec_cuda/comms.h"

#include <stdio.h>
#include <time.h>

#include "validate/exec_cuda/cuda_run.h"

/* The other side of a pair, or any member, that another process runs. */
static bool group_spans(const struct cuda_run *run, uint32_t group)
{
    const struct schedule *s = run->schedule;
    const struct sched_group *g = &s->groups[group];
    bool any_here = false, any_there = false;
    for (uint32_t i = 0; i < g->member_count; i++) {
        uint32_t rank = run->device_ranks[s->group_members[g->first_member + i]];
        bool here = rank != SCHED_NONE && run->rank_is_local[rank];
        any_here = any_here || here;
        any_there = any_there || !here;
    }
    return any_here && any_there;
}

bool cuda_meets_other_processes(const struct cuda_run *run, uint32_t op)
{
    const struct sched_op *o = cuda_op(run, op);
    return run->world.process_count > 1 && o->match != SCHED_NONE &&
           group_spans(run, run->schedule->matches[o->match].group);
}

/* Sends within a process are copies; with one member nothing moves; emulated collectives are our own. */
static bool needs_comm(const struct cuda_run *run, const struct sched_op *op)
{
    const struct schedule *s = run->schedule;
    if (op->match == SCHED_NONE || s->works[op->work].kind == WORK_FIXED || run->options->emulate) {
        return false;
    }
    uint32_t group = s->matches[op->match].group;
    if (op->opcode == OP_SEND || op->opcode == OP_RECV) {
        return run->world.process_count > 1 && group_spans(run, group);
    }
    return s->groups[group].member_count > 1;
}

/* Whether any op needs one; marks their groups. */
static bool find_groups(const struct cuda_run *run, bool *wanted)
{
    const struct schedule *s = run->schedule;
    bool any = false;
    for (uint32_t i = 0; i < s->op_count; i++) {
        if (needs_comm(run, &s->ops[i])) {
            wanted[s->matches[s->ops[i].match].group] = any = true;
        }
    }
    return any;
}

#ifndef MEMWALL_HAVE_NCCL

enum status cuda_comms(struct cuda_run *run, struct error *error)
{
    bool *wanted = arena_array(&run->arena, bool, run->schedule->group_count);
    if (wanted == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u groups", run->schedule->group_count);
    }
    return !find_groups(run, wanted)
               ? STATUS_OK
               : error_set(
                     error, STATUS_UNSUPPORTED,
                     "the schedule has collectives between GPUs, and this memwall was built without NCCL; --emulate "
                     "does them as copies and reductions");
}

void cuda_comms_free(struct cuda_run *run)
{
    (void)run;
}

enum status cuda_comms_poll(struct cuda_run *run, uint32_t op, struct error *error)
{
    (void)run;
    (void)op;
    (void)error;
    return STATUS_OK;
}

void cuda_comms_cancel(struct cuda_run *run)
{
    (void)run;
}

#else

enum status nccl_status(ncclResult_t result, const char *call, struct error *error)
{
    if (result == ncclSuccess || result == ncclInProgress) {
        return STATUS_OK;
    }
    return error_set(error, STATUS_EXECUTION, "%s: %s", call, ncclGetErrorString(result));
}

ncclComm_t comms_get(const struct cuda_run *run, uint32_t group, uint32_t member)
{
    return run->comms->members[run->comms->first[group] + member].handle;
}

enum status comms_settle(struct cuda_run *run, ncclComm_t comm, struct error *error)
{
    int64_t deadline_ps = dispatch_clock_ps() + (int64_t)(cuda_patience_s(run) * 1e12);
    for (;;) {
        ncclResult_t state = ncclSuccess;
        NCCL_TRY(ncclCommGetAsyncError, (comm, &state), error);
        if (state != ncclInProgress) {
            return nccl_status(state, "NCCL", error);
        }
        if (host_is_cancelled(&run->cancel)) {
            return error_set(error, STATUS_EXECUTION, "cancelled");
        }
        if (dispatch_clock_ps() > deadline_ps) {
            return error_set(error, STATUS_EXECUTION, "NCCL has not begun the collective after %g s",
                             cuda_patience_s(run));
        }
        const struct timespec nap = { .tv_nsec = 50000 };
        (void)nanosleep(&nap, NULL);
    }
}

static struct gpu *member_gpu(const struct cuda_run *run, uint32_t group, uint32_t member)
{
    const struct schedule *s = run->schedule;
    uint32_t rank = run->device_ranks[s->group_members[s->groups[group].first_member + member]];
    return rank != SCHED_NONE && run->rank_is_local[rank] ? run->rank_gpus[rank] : NULL;
}

static enum status settle_group(struct cuda_run *run, uint32_t group, struct error *error)
{
    for (uint32_t m = 0; m < run->schedule->groups[group].member_count; m++) {
        ncclComm_t comm = comms_get(run, group, m);
        if (comm != NULL) {
            TRY(comms_settle(run, comm, error));
        }
    }
    return STATUS_OK;
}

static enum status start_members(struct cuda_run *run, uint32_t group, const ncclUniqueId *id, struct error *error)
{
    uint32_t count = run->schedule->groups[group].member_count;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0; /* a partner that never comes must not hold us for ever */
    for (uint32_t m = 0; m < count; m++) {
        const struct gpu *gpu = member_gpu(run, group, m);
        if (gpu != NULL) {
            CUDA_TRY(cudaSetDevice, (gpu->ordinal), error);
            NCCL_TRY(ncclCommInitRankConfig,
                     (&run->comms->members[run->comms->first[group] + m].handle, (int)count, *id, (int)m, &config),
                     error);
        }
    }
    return STATUS_OK;
}

/* A first all-reduce of one number, so that connections are made before anything is timed. */
static enum status warm_up(struct cuda_run *run, uint32_t group, struct error *error)
{
    enum status status = STATUS_OK;
    NCCL_TRY(ncclGroupStart, (), error);
    for (uint32_t m = 0; status == STATUS_OK && m < run->schedule->groups[group].member_count; m++) {
        const struct gpu *gpu = member_gpu(run, group, m);
        if (gpu != NULL) {
            void *memory = run->comms->scratch[gpu->ordinal];
            status = nccl_status(
                ncclAllReduce(memory, memory, 1, ncclFloat, ncclSum, comms_get(run, group, m), gpu->clock_stream),
                "ncclAllReduce", error);
        }
    }
    ncclResult_t ended = ncclGroupEnd();
    TRY(status);
    TRY(nccl_status(ended, "ncclGroupEnd", error));
    return settle_group(run, group, error);
}

/* The streams of the warm-up, until they are idle or patience is over. */
static enum status wait_for_streams(struct cuda_run *run, struct error *error)
{
    int64_t deadline_ps = dispatch_clock_ps() + (int64_t)(cuda_patience_s(run) * 1e12);
    for (uint32_t g = 0; g < run->gpu_count; g++) {
        cudaError_t result = run->gpus[g].is_used ? cudaErrorNotReady : cudaSuccess;
        while (result == cudaErrorNotReady) {
            const struct timespec nap = { .tv_nsec = 50000 };
            result = cudaStreamQuery(run->gpus[g].clock_stream);
            if (result == cudaErrorNotReady && dispatch_clock_ps() > deadline_ps) {
                return error_set(
                    error, STATUS_EXECUTION,
                    "the first collective of GPU %d has not ended after %g s: a partner is missing or NCCL "
                    "cannot reach it",
                    run->gpus[g].ordinal, cuda_patience_s(run));
            }
            (void)nanosleep(&nap, NULL);
        }
        TRY(cuda_status(result, "cudaStreamQuery", error));
    }
    return STATUS_OK;
}

static enum status make_comm(struct cuda_run *run, uint32_t group, struct error *error)
{
    ncclUniqueId id = { 0 };
    enum status status = STATUS_OK;
    if (run->world.process == 0) {
        status = nccl_status(ncclGetUniqueId(&id), "ncclGetUniqueId", error);
    }
    TRY(world_agree(&run->world, status, error));
    TRY(world_broadcast(&run->world, 0, &id, sizeof id, error));
    NCCL_TRY(ncclGroupStart, (), error);
    status = start_members(run, group, &id, error);
    ncclResult_t ended = ncclGroupEnd();
    TRY(status);
    TRY(nccl_status(ended, "ncclGroupEnd", error));
    TRY(settle_group(run, group, error));
    return warm_up(run, group, error);
}

static enum status allocate(struct cuda_run *run, const bool *wanted, struct error *error)
{
    const struct schedule *s = run->schedule;
    struct comms *comms = arena_array(&run->arena, struct comms, 1);
    uint64_t members = 0;
    if (comms == NULL || (comms->first = arena_array(&run->arena, uint32_t, s->group_count)) == NULL ||
        (comms->scratch = arena_array(&run->arena, void *, run->gpu_count)) == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for communicators");
    }
    for (uint32_t g = 0; g < s->group_count; g++) {
        comms->first[g] = wanted[g] ? (uint32_t)members : SCHED_NONE;
        members += wanted[g] ? s->groups[g].member_count : 0;
    }
    comms->member_count = (uint32_t)members;
    comms->members = arena_array(&run->arena, struct comm, members);
    if (comms->members == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for communicators");
    }
    run->comms = comms;
    for (uint32_t g = 0; g < run->gpu_count; g++) {
        if (run->gpus[g].is_used) {
            CUDA_TRY(cudaSetDevice, (run->gpus[g].ordinal), error);
            CUDA_TRY(cudaMalloc, (&comms->scratch[g], 256), error);
        }
    }
    return STATUS_OK;
}

static bool has_member_here(const struct cuda_run *run, uint32_t group)
{
    for (uint32_t m = 0; m < run->schedule->groups[group].member_count; m++) {
        if (member_gpu(run, group, m) != NULL) {
            return true;
        }
    }
    return false;
}

enum status cuda_comms(struct cuda_run *run, struct error *error)
{
    const struct schedule *s = run->schedule;
    bool *wanted = arena_array(&run->arena, bool, s->group_count);
    if (wanted == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u groups", s->group_count);
    }
    if (!find_groups(run, wanted)) {
        return STATUS_OK;
    }
    TRY(allocate(run, wanted, error));
    for (uint32_t g = 0; g < s->group_count; g++) { /* all processes in the same order */
        if (wanted[g] && (has_member_here(run, g) || run->world.process_count > 1)) {
            enum status status = make_comm(run, g, error);
            if (status != STATUS_OK && error != NULL) {
                char why[ERROR_MESSAGE_BYTES / 2];
                (void)snprintf(why, sizeof why, "%.*s", (int)sizeof why - 1, error->message);
                return error_set(error, status, "no communicator for group %u \"%s\": %s", g,
                                 sched_label(s, s->groups[g].label), why);
            }
            TRY(status);
        }
    }
    return wait_for_streams(run, error);
}

/* What is in flight is finished first; whoever cannot (a partner is gone) is aborted. Members of one process finish together, so all are told before any is waited for. */
static void finalize(struct cuda_run *run)
{
    for (uint32_t i = 0; i < run->comms->member_count; i++) {
        ncclComm_t comm = run->comms->members[i].handle;
        if (comm != NULL) {
            (void)ncclCommFinalize(comm);
        }
    }
    for (uint32_t i = 0; i < run->comms->member_count; i++) {
        ncclComm_t *comm = &run->comms->members[i].handle;
        if (*comm != NULL && comms_settle(run, *comm, NULL) != STATUS_OK) {
            (void)ncclCommAbort(*comm);
            *comm = NULL;
        }
    }
}

/* Locked: nobody is inside a call with these communicators. */
static void end_all(struct cuda_run *run, bool abort)
{
    if (run->comms->members == NULL) {
        return;
    }
    if (!abort) {
        finalize(run);
    }
    for (uint32_t i = 0; i < run->comms->member_count; i++) {
        ncclComm_t comm = run->comms->members[i].handle;
        if (comm != NULL) {
            (void)(abort ? ncclCommAbort(comm) : ncclCommDestroy(comm));
            run->comms->members[i].handle = NULL;
        }
    }
}

void cuda_comms_free(struct cuda_run *run)
{
    if (run->comms == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&run->nccl_lock);
    end_all(run, host_is_cancelled(&run->cancel));
    (void)pthread_mutex_unlock(&run->nccl_lock);
    for (uint32_t g = 0; run->comms->scratch != NULL && g < run->gpu_count; g++) {
        if (run->gpus[g].clock_stream != NULL) {
            (void)cudaStreamSynchronize(run->gpus[g].clock_stream); /* a warm-up that was broken off */
        }
        (void)cudaFree(run->comms->scratch[g]);
    }
    run->comms = NULL;
}

enum status cuda_comms_poll(struct cuda_run *run, uint32_t op, struct error *error)
{
    const struct schedule *s = run->schedule;
    const struct sched_op *o = &s->ops[op];
    if (run->comms == NULL || o->match == SCHED_NONE || !needs_comm(run, o)) {
        return STATUS_OK;
    }
    uint32_t group = s->matches[o->match].group;
    enum status status = STATUS_OK;
    (void)pthread_mutex_lock(&run->nccl_lock);
    for (uint32_t m = 0; status == STATUS_OK && m < s->groups[group].member_count; m++) {
        ncclComm_t comm = comms_get(run, group, m);
        ncclResult_t state = ncclSuccess;
        if (comm != NULL) {
            status = nccl_status(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError", error);
            status = status == STATUS_OK ? nccl_status(state, "NCCL", error) : status;
        }
    }
    (void)pthread_mutex_unlock(&run->nccl_lock);
    return status;
}

void cuda_comms_cancel(struct cuda_run *run)
{
    if (run->comms != NULL) {
        (void)pthread_mutex_lock(&run->nccl_lock); /* who holds it sees the cancelled run and lets go */
        end_all(run, true);
        (void)pthread_mutex_unlock(&run->nccl_lock);
    }
}

#endif
