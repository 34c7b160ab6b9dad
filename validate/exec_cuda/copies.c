/* Copies between host and device, and between devices of this process. What has no room in the op's own buffers goes through the queue's slabs, in pieces. */
#include <math.h>
#include <stdlib.h>

#include "validate/exec_cuda/cuda_run.h"
#include "validate/exec_cuda/gpu_kernels.h"
#include "validate/exec_cuda/gpu_pattern.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t payload(const struct cuda_run *run, uint32_t op)
{
    return (uint64_t)ceil(run->schedule->works[cuda_op(run, op)->work].bytes);
}

static uint32_t seed_of(uint32_t op, uint64_t piece)
{
    return gpu_pattern_word(op + 1, piece);
}

/* -- host memory -- */

static struct place host_place(struct cuda_run *run, uint32_t op, uint64_t bytes, bool written)
{
    struct cuda_queue *q = cuda_queue_of(run, op);
    bool pageable = run->schedule->works[cuda_op(run, op)->work].pageable != 0;
    uint32_t buffer = cuda_find_operand(run, op, pageable ? SPACE_HOST : SPACE_PINNED, SCHED_NONE, bytes, written);
    struct place place = { 0 };
    if (buffer != SCHED_NONE) {
        return (struct place){ wet_pools_address(run->pools, buffer), bytes };
    }
    place.address = slab_take(pageable ? &q->pageable : &q->pinned, bytes, &place.bytes);
    return place;
}

static void fill_host(char *memory, uint64_t bytes, uint32_t seed)
{
    for (uint64_t i = 0; i < bytes; i++) {
        memory[i] = (char)gpu_pattern_byte(seed, i);
    }
}

static enum status verify_host(const char *memory, uint64_t bytes, uint32_t seed, struct error *error)
{
    for (uint64_t i = 0; i < bytes; i++) {
        if ((uint8_t)memory[i] != gpu_pattern_byte(seed, i)) {
            return error_set(error, STATUS_EXECUTION,
                             "check: byte %llu of %llu is %u, the copy should have left %u there",
                             (unsigned long long)i, (unsigned long long)bytes, (unsigned)(uint8_t)memory[i],
                             gpu_pattern_byte(seed, i));
        }
    }
    return STATUS_OK;
}

/* -- one copy -- */

struct copy {
    struct cuda_run *run;
    uint32_t op;        /* whose stream copies */
    uint32_t source_op; /* whose device the data comes from */
    struct place from, to;
    struct gpu *from_gpu, *to_gpu; /* NULL: host memory */
};

/* --check: the pattern stands in the source before the copy begins. */
static enum status fill_source(const struct copy *c, uint64_t bytes, uint32_t seed, struct error *error)
{
    cudaStream_t stream = cuda_queue_of(c->run, c->source_op)->stream;
    if (c->from_gpu == NULL) {
        CUDA_TRY(cudaStreamSynchronize, (cuda_queue_of(c->run, c->op)->stream), error);
        fill_host(c->from.address, bytes, seed);
        return STATUS_OK;
    }
    if (c->from_gpu == cuda_queue_of(c->run, c->source_op)->gpu) {
        CUDA_TRY(cudaSetDevice, (c->from_gpu->ordinal), error);
        CUDA_TRY(gpu_fill_pattern, (stream, c->from.address, bytes, seed), error);
        return CUDA_STATUS(cudaStreamSynchronize, (stream), error);
    }
    /* A one-sided copy from a peer: its memory is filled from the host. */
    char *staged = malloc(bytes);
    if (staged == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory to check a copy of %llu bytes", (unsigned long long)bytes);
    }
    fill_host(staged, bytes, seed);
    enum status status = CUDA_STATUS(cudaMemcpy, (c->from.address, staged, bytes, cudaMemcpyHostToDevice), error);
    free(staged);
    return status;
}

static enum status verify_copied(const struct copy *c, uint64_t bytes, uint32_t seed, struct error *error)
{
    struct cuda_queue *q = cuda_queue_of(c->run, c->op);
    CUDA_TRY(cudaStreamSynchronize, (q->stream), error);
    if (c->to_gpu == NULL) {
        return verify_host(c->to.address, bytes, seed, error);
    }
    if (c->to_gpu == q->gpu) {
        TRY(cuda_reset_verdict(c->run, c->op, error));
        CUDA_TRY(gpu_verify_pattern, (q->stream, c->to.address, bytes, seed, q->mismatches), error);
        return cuda_verdict(c->run, c->op, "the copy", bytes, error);
    }
    char *staged = malloc(bytes);
    if (staged == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory to check a copy of %llu bytes", (unsigned long long)bytes);
    }
    enum status status = CUDA_STATUS(cudaMemcpy, (staged, c->to.address, bytes, cudaMemcpyDeviceToHost), error);
    status = status == STATUS_OK ? verify_host(staged, bytes, seed, error) : status;
    free(staged);
    return status;
}

static enum status copy_piece(const struct copy *c, uint64_t bytes, struct error *error)
{
    cudaStream_t stream = cuda_queue_of(c->run, c->op)->stream;
    if (c->from_gpu == NULL) {
        return CUDA_STATUS(cudaMemcpyAsync, (c->to.address, c->from.address, bytes, cudaMemcpyHostToDevice, stream),
                           error);
    }
    if (c->to_gpu == NULL) {
        return CUDA_STATUS(cudaMemcpyAsync, (c->to.address, c->from.address, bytes, cudaMemcpyDeviceToHost, stream),
                           error);
    }
    return cuda_copy_between(c->to.address, c->to_gpu, c->from.address, c->from_gpu, bytes, stream, error);
}

enum status cuda_copy_between(void *to, const struct gpu *to_gpu, const void *from, const struct gpu *from_gpu,
                              uint64_t bytes, cudaStream_t stream, struct error *error)
{
    if (to_gpu == from_gpu) {
        return CUDA_STATUS(cudaMemcpyAsync, (to, from, bytes, cudaMemcpyDeviceToDevice, stream), error);
    }
    return CUDA_STATUS(cudaMemcpyPeerAsync, (to, to_gpu->ordinal, from, from_gpu->ordinal, bytes, stream), error);
}

static enum status run_copy(const struct copy *c, uint64_t bytes, struct error *error)
{
    uint64_t width = smaller(c->from.bytes, c->to.bytes), piece = 0;
    for (uint64_t done = 0; done < bytes && width > 0; done += width, piece++) {
        uint64_t part = smaller(width, bytes - done);
        if (c->run->options->check) {
            TRY(fill_source(c, part, seed_of(c->op, piece), error));
            CUDA_TRY(cudaSetDevice, (cuda_queue_of(c->run, c->op)->gpu->ordinal), error);
        }
        TRY(copy_piece(c, part, error));
        if (c->run->options->check) {
            TRY(verify_copied(c, part, seed_of(c->op, piece), error));
        }
    }
    return STATUS_OK;
}

/* -- opcodes -- */

uint32_t cuda_peer_operand(const struct schedule *s, uint32_t op, bool *to_peer)
{
    const struct sched_op *o = &s->ops[op];
    const uint32_t *operands = sched_reads(s, o);
    uint32_t own = s->devices[s->ranks[sched_op_rank(s, o)].first_device];
    for (uint32_t i = 0; i < (uint32_t)o->read_count + o->write_count; i++) {
        const struct sched_space *space = &s->spaces[s->buffers[operands[i]].space];
        if (space->kind == SPACE_DEVICE && space->location != own) {
            *to_peer = i >= o->read_count;
            return operands[i];
        }
    }
    return SCHED_NONE;
}

/* The peer's side is its buffer, whatever its size: a larger payload goes round in it. */
static enum status copy_peer(struct cuda_run *run, uint32_t op, uint64_t bytes, struct error *error)
{
    const struct schedule *s = run->schedule;
    struct gpu *own = cuda_queue_of(run, op)->gpu;
    bool to_peer = false;
    uint32_t buffer = cuda_peer_operand(s, op, &to_peer);
    struct place here = cuda_device_place(run, op, bytes, !to_peer, false);
    struct place there = { wet_pools_address(run->pools, buffer), s->buffers[buffer].bytes };
    struct gpu *peer = cuda_gpu_of_device(run, s->spaces[s->buffers[buffer].space].location);
    if (there.address == NULL || peer == NULL) {
        return error_set(error, STATUS_EXECUTION, "the peer's buffer %u \"%s\" has no memory", buffer,
                         sched_label(s, s->buffers[buffer].label));
    }
    const struct copy copy = { .run = run,
                               .op = op,
                               .source_op = op,
                               .from = to_peer ? here : there,
                               .to = to_peer ? there : here,
                               .from_gpu = to_peer ? own : peer,
                               .to_gpu = to_peer ? peer : own };
    return run_copy(&copy, bytes, error);
}

enum status cuda_copy(struct cuda_run *run, uint32_t op, struct error *error)
{
    uint64_t bytes = payload(run, op);
    enum opcode opcode = (enum opcode)cuda_op(run, op)->opcode;
    struct copy copy = { .run = run, .op = op, .source_op = op };
    if (opcode == OP_COPY_P2P) {
        return copy_peer(run, op, bytes, error);
    }
    if (opcode == OP_COPY_H2D) {
        copy.from = host_place(run, op, bytes, false);
        copy.to = cuda_device_place(run, op, bytes, true, false);
        copy.to_gpu = cuda_queue_of(run, op)->gpu;
    } else {
        copy.from = cuda_device_place(run, op, bytes, false, false);
        copy.to = host_place(run, op, bytes, true);
        copy.from_gpu = cuda_queue_of(run, op)->gpu;
    }
    return run_copy(&copy, bytes, error);
}

enum status cuda_send_recv(struct cuda_run *run, uint32_t receive, uint32_t send, struct error *error)
{
    uint64_t bytes = payload(run, send);
    const struct copy copy = { .run = run,
                               .op = receive,
                               .source_op = send,
                               .from = cuda_device_place(run, send, bytes, false, false),
                               .to = cuda_device_place(run, receive, bytes, true, false),
                               .from_gpu = cuda_queue_of(run, send)->gpu,
                               .to_gpu = cuda_queue_of(run, receive)->gpu };
    return run_copy(&copy, bytes, error);
}
