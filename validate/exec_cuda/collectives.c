/* Collectives: by NCCL between GPUs, or emulated by copies and sums on one stream; sends to and from other processes.
 *
 * Data lies in the op's own buffers where one has room, else in the queue's slab; what is longer than the slab goes in pieces, each a collective of its own.
 * All are in place, but all-to-all, which receives behind what it sends. */
#include <math.h>

#include "validate/exec_cuda/comms.h"
#include "validate/exec_cuda/cuda_run.h"
#include "validate/exec_cuda/gpu_kernels.h"
#include "validate/exec_cuda/gpu_pattern.h"

enum { MEMBERS_MAX = 1024 };

/* A collective, as far as its members are in this process. */
struct meeting {
    struct cuda_run *run;
    const uint32_t *ops; /* [count] */
    uint32_t count, members, group;
    enum opcode opcode;
    enum dtype dtype;
    uint64_t size;               /* of an element */
    uint64_t elements, part;     /* of the piece: of one member, and a member's part of it */
    uint32_t piece;              /* seeds the numbers of --check */
    uint32_t place[MEMBERS_MAX]; /* [count]: the op's member number */
    char *data[MEMBERS_MAX];     /* [count] */
};

static bool has_parts(enum opcode opcode)
{
    return opcode == OP_ALL_GATHER || opcode == OP_REDUCE_SCATTER || opcode == OP_ALL_TO_ALL;
}

static uint32_t member_of(const struct cuda_run *run, uint32_t group, uint32_t op)
{
    const struct schedule *s = run->schedule;
    const struct sched_group *g = &s->groups[group];
    uint32_t device = s->devices[s->ranks[sched_op_rank(s, &s->ops[op])].first_device], member = 0;
    while (member < g->member_count && s->group_members[g->first_member + member] != device) {
        member++;
    }
    CHECK(member < g->member_count); /* sched_verify */
    return member;
}

/* -- emulation -- */

static struct gpu *gpu_of(const struct meeting *m, uint32_t i)
{
    return cuda_queue_of(m->run, m->ops[i])->gpu;
}

static enum status move(const struct meeting *m, uint32_t to, uint64_t to_at, uint32_t from, uint64_t from_at,
                        uint64_t elements, struct error *error)
{
    return cuda_copy_between(m->data[to] + to_at * m->size, gpu_of(m, to), m->data[from] + from_at * m->size,
                             gpu_of(m, from), elements * m->size, cuda_queue_of(m->run, m->ops[0])->stream, error);
}

/* Everything summed up in the first member's memory. Members on other GPUs are fetched piece by piece. */
static enum status sum_up(const struct meeting *m, struct error *error)
{
    struct cuda_queue *leader = cuda_queue_of(m->run, m->ops[0]);
    for (uint32_t i = 1; i < m->count; i++) {
        if (gpu_of(m, i) == leader->gpu) {
            CUDA_TRY(gpu_accumulate, (leader->stream, m->dtype, m->data[0], m->data[i], m->elements), error);
            continue;
        }
        uint64_t got = leader->fetch.bytes / m->size;
        for (uint64_t at = 0; at < m->elements; at += got) {
            uint64_t part = m->elements - at < got ? m->elements - at : got;
            TRY(cuda_copy_between(leader->fetch.memory, leader->gpu, m->data[i] + at * m->size, gpu_of(m, i),
                                  part * m->size, leader->stream, error));
            CUDA_TRY(gpu_accumulate, (leader->stream, m->dtype, m->data[0] + at * m->size, leader->fetch.memory, part),
                     error);
        }
    }
    return STATUS_OK;
}

static enum status emulate(const struct meeting *m, struct error *error)
{
    if (m->opcode == OP_ALL_REDUCE || m->opcode == OP_REDUCE_SCATTER) {
        TRY(sum_up(m, error));
    }
    for (uint32_t i = 0; i < m->count; i++) {
        for (uint32_t j = 0; j < m->count; j++) {
            uint64_t mine = m->place[i] * m->part, yours = m->place[j] * m->part;
            if (m->opcode == OP_ALL_TO_ALL) { /* part j of what i sends becomes part i of what j receives */
                TRY(move(m, j, m->elements + mine, i, yours, m->part, error));
            } else if (m->opcode == OP_ALL_GATHER && i != j) {
                TRY(move(m, j, mine, i, mine, m->part, error));
            } else if (m->opcode == OP_REDUCE_SCATTER && i == 0 && j != 0) {
                TRY(move(m, j, yours, 0, yours, m->part, error));
            } else if (m->opcode == OP_ALL_REDUCE && i == 0 && j != 0) {
                TRY(move(m, j, 0, 0, 0, m->elements, error));
            } else if (m->opcode == OP_BROADCAST && m->place[i] == 0 && i != j) {
                TRY(move(m, j, 0, i, 0, m->elements, error));
            }
        }
    }
    return STATUS_OK;
}

/* -- NCCL -- */

#ifdef MEMWALL_HAVE_NCCL

static ncclDataType_t data_type(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_FP32:
    case DTYPE_TF32: return ncclFloat;
    case DTYPE_FP16: return ncclHalf;
    case DTYPE_BF16: return ncclBfloat16;
    case DTYPE_FP8: /* sums of them are refused */
    case DTYPE_COUNT: break;
    }
    return ncclUint8;
}

static ncclResult_t exchange(const struct meeting *m, uint32_t i, ncclComm_t comm, cudaStream_t stream)
{
    ncclResult_t result = ncclSuccess;
    uint64_t bytes = m->part * m->size;
    for (uint32_t j = 0; result == ncclSuccess && j < m->members; j++) {
        result = ncclSend(m->data[i] + j * bytes, bytes, ncclUint8, (int)j, comm, stream);
        if (result == ncclSuccess) {
            result = ncclRecv(m->data[i] + m->elements * m->size + j * bytes, bytes, ncclUint8, (int)j, comm, stream);
        }
    }
    return result;
}

static ncclResult_t call(const struct meeting *m, uint32_t i, ncclComm_t comm)
{
    cudaStream_t stream = cuda_queue_of(m->run, m->ops[i])->stream;
    ncclDataType_t type = data_type(m->dtype);
    char *data = m->data[i], *own = data + m->place[i] * m->part * m->size;
    switch (m->opcode) {
    case OP_ALL_REDUCE: return ncclAllReduce(data, data, m->elements, type, ncclSum, comm, stream);
    case OP_ALL_GATHER: return ncclAllGather(own, data, m->part, type, comm, stream);
    case OP_REDUCE_SCATTER: return ncclReduceScatter(data, own, m->part, type, ncclSum, comm, stream);
    case OP_BROADCAST: return ncclBroadcast(data, data, m->elements, type, 0, comm, stream);
    case OP_ALL_TO_ALL: return exchange(m, i, comm, stream);
    case OP_COMPUTE:
    case OP_SEND:
    case OP_RECV:
    case OP_COPY_H2D:
    case OP_COPY_D2H:
    case OP_COPY_P2P:
    case OP_HOST_OPTIMIZER:
    case OP_STORAGE_READ:
    case OP_STORAGE_WRITE:
    case OP_DELAY:
    case OP_MARK:
    case OPCODE_COUNT: break;
    }
    return ncclInvalidArgument;
}

/* Locked. */
static enum status call_all(const struct meeting *m, struct error *error)
{
    enum status status = STATUS_OK;
    if (host_is_cancelled(&m->run->cancel)) {
        return error_set(error, STATUS_EXECUTION, "cancelled");
    }
    NCCL_TRY(ncclGroupStart, (), error);
    for (uint32_t i = 0; status == STATUS_OK && i < m->count; i++) {
        status = CUDA_STATUS(cudaSetDevice, (gpu_of(m, i)->ordinal), error);
        if (status == STATUS_OK) {
            status = nccl_status(call(m, i, comms_get(m->run, m->group, m->place[i])), opcode_word(m->opcode), error);
        }
    }
    ncclResult_t ended = ncclGroupEnd();
    TRY(status);
    TRY(nccl_status(ended, "ncclGroupEnd", error));
    for (uint32_t i = 0; i < m->count; i++) {
        TRY(comms_settle(m->run, comms_get(m->run, m->group, m->place[i]), error));
    }
    return STATUS_OK;
}

static enum status by_nccl(const struct meeting *m, struct error *error)
{
    (void)pthread_mutex_lock(&m->run->nccl_lock);
    enum status status = call_all(m, error);
    (void)pthread_mutex_unlock(&m->run->nccl_lock);
    return status;
}

static enum status send_piece(struct cuda_run *run, uint32_t op, const struct place *place, struct error *error)
{
    uint32_t group = run->schedule->matches[cuda_op(run, op)->match].group, own = member_of(run, group, op);
    cudaStream_t stream = cuda_queue_of(run, op)->stream;
    ncclComm_t comm = comms_get(run, group, own);
    if (host_is_cancelled(&run->cancel)) {
        return error_set(error, STATUS_EXECUTION, "cancelled");
    }
    if (cuda_op(run, op)->opcode == OP_SEND) {
        NCCL_TRY(ncclSend, (place->address, place->bytes, ncclUint8, 1 - (int)own, comm, stream), error);
    } else {
        NCCL_TRY(ncclRecv, (place->address, place->bytes, ncclUint8, 1 - (int)own, comm, stream), error);
    }
    return comms_settle(run, comm, error);
}

#else

static enum status by_nccl(const struct meeting *m, struct error *error)
{
    (void)m;
    return error_set(error, STATUS_UNSUPPORTED, "built without NCCL");
}

static enum status send_piece(struct cuda_run *run, uint32_t op, const struct place *place, struct error *error)
{
    (void)run;
    (void)op;
    (void)place;
    return error_set(error, STATUS_UNSUPPORTED, "built without NCCL");
}

#endif

/* -- --check -- */

static uint32_t seed_of(const struct meeting *m)
{
    return gpu_pattern_word(cuda_op(m->run, m->ops[0])->match + 1, m->piece); /* the same in every process */
}

static enum status fill_numbers(const struct meeting *m, struct error *error)
{
    for (uint32_t i = 0; i < m->count; i++) {
        struct cuda_queue *q = cuda_queue_of(m->run, m->ops[i]);
        const struct gpu_numbers numbers = { .dtype = m->dtype,
                                             .seed = seed_of(m),
                                             .first_member = m->place[i],
                                             .member_count = 1,
                                             .elements = m->elements };
        CUDA_TRY(cudaSetDevice, (q->gpu->ordinal), error);
        CUDA_TRY(gpu_fill_numbers, (q->stream, m->data[i], &numbers), error);
        CUDA_TRY(cudaStreamSynchronize, (q->stream), error);
    }
    return STATUS_OK;
}

static enum status verify_part(const struct meeting *m, uint32_t i, uint64_t at, struct gpu_numbers numbers,
                               struct error *error)
{
    struct cuda_queue *q = cuda_queue_of(m->run, m->ops[i]);
    numbers.dtype = m->dtype;
    numbers.seed = seed_of(m);
    return CUDA_STATUS(gpu_verify_numbers, (q->stream, m->data[i] + at * m->size, &numbers, q->mismatches), error);
}

static enum status verify_member(const struct meeting *m, uint32_t i, struct error *error)
{
    uint64_t own = m->place[i] * m->part;
    switch (m->opcode) {
    case OP_ALL_REDUCE: {
        const struct gpu_numbers all = { .member_count = m->members, .elements = m->elements };
        return verify_part(m, i, 0, all, error);
    }
    case OP_REDUCE_SCATTER: {
        const struct gpu_numbers all = { .member_count = m->members, .first_element = own, .elements = m->part };
        return verify_part(m, i, own, all, error);
    }
    case OP_BROADCAST: {
        const struct gpu_numbers root = { .member_count = 1, .elements = m->elements };
        return verify_part(m, i, 0, root, error);
    }
    case OP_ALL_GATHER:
    case OP_ALL_TO_ALL:
        for (uint32_t j = 0; j < m->members; j++) {
            bool gathers = m->opcode == OP_ALL_GATHER;
            const struct gpu_numbers part = {
                .first_member = j, .member_count = 1, .first_element = gathers ? j * m->part : own, .elements = m->part
            };
            TRY(verify_part(m, i, (gathers ? 0 : m->elements) + j * m->part, part, error));
        }
        return STATUS_OK;
    case OP_COMPUTE:
    case OP_SEND:
    case OP_RECV:
    case OP_COPY_H2D:
    case OP_COPY_D2H:
    case OP_COPY_P2P:
    case OP_HOST_OPTIMIZER:
    case OP_STORAGE_READ:
    case OP_STORAGE_WRITE:
    case OP_DELAY:
    case OP_MARK:
    case OPCODE_COUNT: break;
    }
    return STATUS_OK;
}

static enum status verify_all(const struct meeting *m, struct error *error)
{
    CUDA_TRY(cudaStreamSynchronize, (cuda_queue_of(m->run, m->ops[0])->stream), error);
    for (uint32_t i = 0; i < m->count; i++) {
        CUDA_TRY(cudaSetDevice, (gpu_of(m, i)->ordinal), error);
        TRY(cuda_reset_verdict(m->run, m->ops[i], error));
        TRY(verify_member(m, i, error));
        TRY(cuda_verdict(m->run, m->ops[i], opcode_word(m->opcode), m->elements * m->size, error));
    }
    return STATUS_OK;
}

/* -- all -- */

static enum status run_piece(const struct meeting *m, struct error *error)
{
    if (m->run->options->check) {
        TRY(fill_numbers(m, error));
    }
    if (m->run->options->emulate) {
        CUDA_TRY(cudaSetDevice, (gpu_of(m, 0)->ordinal), error);
        TRY(emulate(m, error));
    } else {
        TRY(by_nccl(m, error));
    }
    return m->run->options->check ? verify_all(m, error) : STATUS_OK;
}

/* Where each member's data lies; returns the bytes that all have room for. */
static uint64_t place_members(struct meeting *m, uint64_t bytes)
{
    uint64_t room = bytes;
    bool is_private = m->count < m->members; /* all processes must cut it alike: by their slabs */
    for (uint32_t i = 0; i < m->count; i++) {
        struct place place = cuda_device_place(m->run, m->ops[i], bytes, true, is_private);
        m->data[i] = place.address;
        m->place[i] = member_of(m->run, m->group, m->ops[i]);
        room = room < place.bytes ? room : place.bytes;
    }
    return room;
}

enum status cuda_collective(struct cuda_run *run, const uint32_t *ops, uint32_t op_count, struct error *error)
{
    const struct schedule *s = run->schedule;
    const struct sched_work *work = &s->works[cuda_op(run, ops[0])->work];
    uint32_t members = s->groups[work->group].member_count;
    if (members == 1) {
        return STATUS_OK;
    }
    if (op_count > MEMBERS_MAX) {
        return error_set(error, STATUS_UNSUPPORTED, "a collective of %u ranks in one process; at most %d", op_count,
                         MEMBERS_MAX);
    }
    struct meeting m = { .run = run,
                         .ops = ops,
                         .count = op_count,
                         .members = members,
                         .group = work->group,
                         .opcode = (enum opcode)cuda_op(run, ops[0])->opcode,
                         .dtype = (enum dtype)work->dtype,
                         .size = dtype_bytes((enum dtype)work->dtype) };
    uint64_t part, elements = cuda_collective_elements(s, work, &part), twice = m.opcode == OP_ALL_TO_ALL ? 2 : 1;
    uint64_t room = place_members(&m, elements * m.size * twice) / twice / m.size;
    room = has_parts(m.opcode) ? room / members * members : room;
    for (uint64_t done = 0; done < elements; done += room, m.piece++) {
        m.elements = elements - done < room ? elements - done : room;
        m.part = m.elements / members;
        if (room == 0) {
            return error_set(error, STATUS_EXECUTION, "its slab of GPU memory is too small for one element a rank");
        }
        TRY(run_piece(&m, error));
    }
    return STATUS_OK;
}

enum status cuda_send_or_recv(struct cuda_run *run, uint32_t op, struct error *error)
{
    uint64_t bytes = (uint64_t)ceil(run->schedule->works[cuda_op(run, op)->work].bytes);
    bool receives = cuda_op(run, op)->opcode == OP_RECV;
    struct place place = cuda_device_place(run, op, bytes, receives, true); /* both sides must cut it alike */
    uint64_t room = place.bytes;
    for (uint64_t done = 0; done < bytes && room > 0; done += room) {
        place.bytes = bytes - done < room ? bytes - done : room;
        (void)pthread_mutex_lock(&run->nccl_lock);
        enum status status = send_piece(run, op, &place, error);
        (void)pthread_mutex_unlock(&run->nccl_lock);
        TRY(status);
    }
    return STATUS_OK;
}
