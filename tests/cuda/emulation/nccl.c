/* NCCL for communicators whose ranks are all in this process. A call becomes one command on its stream; the last of a clique to arrive does the work of all. */
#ifdef MEMWALL_HAVE_NCCL

#include <nccl.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/ir/kernel.h"
#include "tests/cuda/emulation/emulation_internal.h"
#include "validate/exec_host/host_floats.h"

enum { RANKS_MAX = 16, PEERS_MAX = 64 };
enum call_kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, PEERS };

struct peer {
    const void *send; /* or */
    void *receive;
    size_t bytes;
    int peer;
};

struct call {
    enum call_kind kind;
    struct ncclComm *comm;
    cudaStream_t stream;
    const void *send;
    void *receive;
    size_t count;
    ncclDataType_t type;
    int root;
    struct peer peers[PEERS_MAX];
    uint32_t peer_count;
    struct clique *clique; /* the communicator may be gone before the command runs */
    int rank;
    uint64_t number; /* of the communicator's calls */
};

struct clique {
    struct clique *next;
    char id[NCCL_UNIQUE_ID_BYTES];
    int ranks, joined;
    uint64_t users;  /* communicators, and calls that have not ended */
    uint64_t rounds; /* completed */
    uint32_t arrived;
    struct call *calls[RANKS_MAX];
    bool is_aborted, hangs, is_working;
};

struct ncclComm {
    struct clique *clique;
    int rank, device;
    uint64_t calls;
};

static struct clique *cliques;
static uint64_t ids;
static _Thread_local int group_depth;
static _Thread_local struct call *pending[RANKS_MAX * 2];
static _Thread_local uint32_t pending_count;

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    EMULATED(ncclResult_t);
    memset(id, 0, sizeof *id);
    emulation_lock();
    ids++;
    memcpy(id->internal, &ids, sizeof ids);
    emulation_unlock();
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    EMULATED(ncclResult_t);
    if (config->blocking != 0 || ranks > RANKS_MAX || rank < 0 || rank >= ranks) {
        return ncclInvalidArgument;
    }
    struct ncclComm *made = calloc(1, sizeof *made);
    emulation_lock();
    struct clique *clique = cliques;
    while (clique != NULL && memcmp(clique->id, id.internal, sizeof clique->id) != 0) {
        clique = clique->next;
    }
    if (clique == NULL) {
        clique = calloc(1, sizeof *clique);
        if (clique == NULL || made == NULL) {
            abort();
        }
        memcpy(clique->id, id.internal, sizeof clique->id);
        clique->ranks = ranks;
        clique->next = cliques;
        cliques = clique;
    }
    clique->joined++;
    clique->users++;
    emulation.left.communicators++;
    emulation_unlock();
    *made = (struct ncclComm){ clique, rank, emulation_current_device(), 0 };
    *comm = made;
    return ncclInProgress;
}

/* Locked. */
static void let_go(struct clique *clique)
{
    if (--clique->users == 0) {
        struct clique **link = &cliques;
        while (*link != clique) {
            link = &(*link)->next;
        }
        *link = clique->next;
        free(clique);
    }
}

static ncclResult_t leave(ncclComm_t comm)
{
    emulation_lock();
    emulation.left.communicators--;
    let_go(comm->clique);
    emulation_unlock();
    free(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    EMULATED(ncclResult_t);
    (void)comm;
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    ncclResult_t result = leave(comm);
    EMULATED(ncclResult_t);
    return result;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    emulation_lock();
    comm->clique->is_aborted = true;
    (void)pthread_cond_broadcast(&emulation.changed);
    emulation_unlock();
    ncclResult_t result = leave(comm);
    EMULATED(ncclResult_t);
    return result;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    EMULATED(ncclResult_t);
    emulation_lock();
    *state = emulation.async_error != 0                   ? (ncclResult_t)emulation.async_error
             : comm->clique->joined < comm->clique->ranks ? ncclInProgress
                                                          : ncclSuccess;
    emulation_unlock();
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSystemError ? "unhandled system error (emulated)" : "emulated error";
}

/* -- data -- */

static enum dtype dtype_of(ncclDataType_t type)
{
    switch ((int)type) {
    case ncclFloat: return DTYPE_FP32;
    case ncclHalf: return DTYPE_FP16;
    case ncclBfloat16: return DTYPE_BF16;
    default: return DTYPE_FP8;
    }
}

static void sum(const struct clique *c, size_t offset, size_t count, uint8_t *to)
{
    const uint8_t *sources[RANKS_MAX];
    enum dtype dtype = dtype_of(c->calls[0]->type);
    size_t size = dtype_bytes(dtype);
    for (int i = 0; i < c->ranks; i++) {
        sources[i] = (const uint8_t *)c->calls[i]->send + offset * size;
    }
    host_floats_sum(to, sources, (uint32_t)c->ranks, dtype, count);
    if (emulation_due(&emulation.corrupt_sum)) {
        to[count * size / 2] ^= 0x40;
    }
}

/* The j-th call of `from` that sends to `to`. */
static const struct peer *find_send(const struct clique *c, int from, int to, uint32_t nth)
{
    const struct call *call = c->calls[from];
    for (uint32_t i = 0; i < call->peer_count; i++) {
        if (call->peers[i].send != NULL && call->peers[i].peer == to && nth-- == 0) {
            return &call->peers[i];
        }
    }
    return NULL;
}

static void exchange(const struct clique *c)
{
    for (int to = 0; to < c->ranks; to++) {
        for (uint32_t i = 0; i < c->calls[to]->peer_count; i++) {
            const struct peer *r = &c->calls[to]->peers[i];
            const struct peer *s = r->receive == NULL ? NULL : find_send(c, r->peer, to, 0);
            if (s != NULL && s->bytes == r->bytes) {
                memcpy(r->receive, s->send, r->bytes);
            } else if (r->receive != NULL) {
                (void)emulation_misuse(0, "ncclRecv: no send of %zu bytes from rank %d to %d", r->bytes, r->peer, to);
            }
        }
    }
}

static void do_all(const struct clique *c)
{
    const struct call *first = c->calls[0];
    size_t size = dtype_bytes(dtype_of(first->type)), bytes = first->count * size;
    for (int i = 1; i < c->ranks; i++) {
        const struct call *call = c->calls[i];
        if (call->kind != first->kind || call->count != first->count || call->type != first->type) {
            (void)emulation_misuse(0, "NCCL: ranks 0 and %d make different calls", i);
            return;
        }
    }
    if (!emulation.options.moves_data) {
        return;
    }
    uint8_t *total = malloc(bytes > 0 ? bytes : 1);
    if (total == NULL) {
        abort();
    }
    if (first->kind == ALL_REDUCE) {
        sum(c, 0, first->count, total);
    }
    for (int i = 0; i < c->ranks; i++) {
        char *to = c->calls[i]->receive;
        if (first->kind == ALL_REDUCE) {
            memcpy(to, total, bytes);
        } else if (first->kind == REDUCE_SCATTER) {
            sum(c, (size_t)i * first->count, first->count, total);
            memcpy(to, total, bytes);
        } else if (first->kind == BROADCAST && i != first->root) {
            memcpy(to, c->calls[first->root]->send, bytes);
        } else if (first->kind == ALL_GATHER) {
            for (int j = 0; j < c->ranks; j++) {
                memmove(to + (size_t)j * bytes, c->calls[j]->send, bytes);
            }
        }
    }
    if (first->kind == PEERS) {
        exchange(c);
    }
    free(total);
}

/* -- meeting -- */

static void meet(void *argument)
{
    struct call *call = argument;
    struct clique *c = call->clique;
    bool hangs = emulation_due(&emulation.hang_collective);
    emulation_lock();
    while (c->rounds < call->number && !c->is_aborted) {
        (void)pthread_cond_wait(&emulation.changed, &emulation.lock);
    }
    c->hangs = c->hangs || hangs;
    c->calls[call->rank] = call;
    c->arrived++;
    if (!c->is_aborted && c->arrived == (uint32_t)c->ranks && !c->hangs) {
        c->is_working = true; /* all calls stay until it is done, also when it is aborted now */
        emulation_unlock();
        do_all(c);
        emulation_lock();
        c->is_working = false;
        c->rounds++;
        c->arrived = 0;
        (void)pthread_cond_broadcast(&emulation.changed);
    }
    while (c->rounds <= call->number && (!c->is_aborted || c->is_working)) {
        (void)pthread_cond_wait(&emulation.changed, &emulation.lock);
    }
    let_go(c);
    (void)pthread_cond_broadcast(&emulation.changed);
    emulation_unlock();
}

static ncclResult_t launch(struct call *call)
{
    call->number = call->comm->calls++;
    call->clique = call->comm->clique;
    call->rank = call->comm->rank;
    if (emulation_stream_device(call->stream) != call->comm->device) {
        int error = emulation_misuse(ncclInvalidArgument, "NCCL: the stream is of another device");
        free(call);
        return (ncclResult_t)error;
    }
    emulation_lock();
    call->clique->users++;
    emulation_unlock();
    (void)emulation_enqueue(call->stream, meet, call);
    return ncclSuccess;
}

static ncclResult_t add(const struct call *wanted)
{
    struct call *call = NULL;
    for (uint32_t i = 0; wanted->kind == PEERS && i < pending_count; i++) {
        if (pending[i]->kind == PEERS && pending[i]->comm == wanted->comm) {
            pending[i]->peers[pending[i]->peer_count++] = wanted->peers[0];
            return ncclSuccess;
        }
    }
    call = malloc(sizeof *call);
    if (call == NULL) {
        abort();
    }
    *call = *wanted;
    if (group_depth == 0) {
        return launch(call);
    }
    pending[pending_count++] = call;
    return ncclSuccess;
}

/* nccl.h declares these two without parameters. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

ncclResult_t ncclGroupStart(void)
{
    EMULATED(ncclResult_t);
    group_depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t result = (ncclResult_t)emulation_enter(__func__);
    if (--group_depth > 0) {
        return result;
    }
    for (uint32_t i = 0; i < pending_count; i++) {
        if (result == ncclSuccess) {
            result = launch(pending[i]);
        } else {
            free(pending[i]);
        }
    }
    pending_count = 0;
    return result == ncclSuccess ? ncclInProgress : result;
}

static bool owns(const struct ncclComm *comm, const void *memory, size_t bytes)
{
    return emulation_owns(memory, bytes, comm->device, "NCCL");
}

static size_t bytes_of(size_t count, ncclDataType_t type)
{
    return count * dtype_bytes(dtype_of(type));
}

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream)
{
    EMULATED(ncclResult_t);
    if (op != ncclSum || !owns(comm, send, bytes_of(count, type)) || !owns(comm, receive, bytes_of(count, type))) {
        return ncclInvalidArgument;
    }
    return add(&(struct call){ .kind = ALL_REDUCE,
                               .comm = comm,
                               .stream = stream,
                               .send = send,
                               .receive = receive,
                               .count = count,
                               .type = type });
}

ncclResult_t ncclAllGather(const void *send, void *receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    EMULATED(ncclResult_t);
    size_t bytes = bytes_of(count, type);
    if (!owns(comm, send, bytes) || !owns(comm, receive, bytes * (size_t)comm->clique->ranks)) {
        return ncclInvalidArgument;
    }
    return add(&(struct call){ .kind = ALL_GATHER,
                               .comm = comm,
                               .stream = stream,
                               .send = send,
                               .receive = receive,
                               .count = count,
                               .type = type });
}

ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    EMULATED(ncclResult_t);
    size_t bytes = bytes_of(count, type);
    if (op != ncclSum || !owns(comm, send, bytes * (size_t)comm->clique->ranks) || !owns(comm, receive, bytes)) {
        return ncclInvalidArgument;
    }
    return add(&(struct call){ .kind = REDUCE_SCATTER,
                               .comm = comm,
                               .stream = stream,
                               .send = send,
                               .receive = receive,
                               .count = count,
                               .type = type });
}

ncclResult_t ncclBroadcast(const void *send, void *receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    EMULATED(ncclResult_t);
    if (!owns(comm, send, bytes_of(count, type)) || !owns(comm, receive, bytes_of(count, type))) {
        return ncclInvalidArgument;
    }
    return add(&(struct call){ .kind = BROADCAST,
                               .comm = comm,
                               .stream = stream,
                               .send = send,
                               .receive = receive,
                               .count = count,
                               .type = type,
                               .root = root });
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    EMULATED(ncclResult_t);
    if (!owns(comm, send, bytes_of(count, type))) {
        return ncclInvalidArgument;
    }
    return add(&(struct call){ .kind = PEERS,
                               .comm = comm,
                               .stream = stream,
                               .type = ncclUint8,
                               .peer_count = 1,
                               .peers = { { send, NULL, bytes_of(count, type), peer } } });
}

ncclResult_t ncclRecv(void *receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    EMULATED(ncclResult_t);
    if (!owns(comm, receive, bytes_of(count, type))) {
        return ncclInvalidArgument;
    }
    return add(&(struct call){ .kind = PEERS,
                               .comm = comm,
                               .stream = stream,
                               .type = ncclUint8,
                               .peer_count = 1,
                               .peers = { { NULL, receive, bytes_of(count, type), peer } } });
}

#endif
