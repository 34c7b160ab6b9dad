/* One run of a schedule on GPUs: what the parts of the CUDA executor share. Private to validate/exec_cuda.
 *
 *   exec_cuda.c     the executor: what it supports, set-up, run, teardown
 *   devices.c       which GPU a rank gets; what is wrong when there is none
 *   spaces.c        memory of the schedule's spaces: cudaMalloc, cudaHostAlloc, mmap, a file
 *   needs.c         what a queue's ops need beside the schedule's buffers
 *   slabs.c         that memory: operands of kernels, staging of transfers
 *   queues.c        streams, events, library handles; where an op's operands lie
 *   step.c          the common clock: base events, polling, times of a step
 *   submit.c        opcodes to primitives
 *   products.c      cuBLAS: products and attention
 *   kernels.c       kernel sequences
 *   copies.c        h2d, d2h, peer copies, sends between GPUs of this process
 *   collectives.c   collectives and sends by NCCL; emulated ones by copies and sums
 *   comms.c         NCCL communicators
 *   host_work.c     what the host's threads do: Adam, storage, delays
 *
 * Threads: submit() is called by the thread of the op's queue, or for all partners of a match by the thread of the last of them while the others wait. So whatever belongs to
 * a queue needs no lock. poll() runs on the reaper's thread and only reads events. */
#ifndef MEMWALL_EXEC_CUDA_CUDA_RUN_H
#define MEMWALL_EXEC_CUDA_CUDA_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "sim/base/arena.h"
#include "sim/base/check.h"
#include "validate/dispatch/dispatch.h"
#include "validate/exec_cuda/cuda_error.h"
#include "validate/exec_cuda/world.h"
#include "validate/exec_host/host_optimizer.h"

/* Memory that stands for operands which the schedule does not name (a kernel's inputs, a collective's data). Taken in turn, so that what an op reads has left the caches
 * since it was last touched, if the slab is that large. Outside of the schedule's accounting. */
struct slab {
    char *memory;
    uint64_t bytes, cursor;
};

struct gpu {
    int ordinal;
    int major, minor;
    uint64_t memory_bytes;
    char name[64];
    bool is_used;
    uint64_t operand_share; /* what each compute queue may take for operands */
    cudaStream_t clock_stream;
    cudaEvent_t base; /* recorded at the start of the step */
    int64_t base_ps;  /* when, on dispatch_clock_ps */
};

struct cuda_queue {
    struct gpu *gpu; /* NULL: a host queue, or of another process */
    bool is_local;
    cudaStream_t stream;
    cublasHandle_t blas; /* compute queues */
    void *blas_workspace;
    char *device_memory; /* of the next two */
    struct slab inputs;  /* compute queues: of kernels; never written again */
    struct slab outputs; /* of kernels; and what transfers and collectives work on */
    struct slab pinned, pageable;
    struct slab fetch;           /* emulated sums over several GPUs: where others' data is brought to */
    uint32_t *mismatches;        /* device memory; --check */
    uint32_t *mismatches_seen;   /* pinned */
    struct host_adam_pool *adam; /* host queues that update parameters */
    uint64_t file_offset;        /* storage queues: where data lies that has no buffer */
};

struct backing; /* spaces.c */
struct comms;   /* comms.c */

struct cuda_run {
    const struct schedule *schedule;
    const struct exec_options *options;
    struct world world;
    struct arena arena;
    struct gpu *gpus; /* [gpu_count]: all that are visible */
    uint32_t gpu_count;
    struct gpu **rank_gpus; /* [rank_count]; NULL: of another process */
    uint32_t *device_ranks; /* [device_limit]: rank of a device number, or SCHED_NONE */
    uint32_t device_limit;
    uint32_t first_device;     /* of this process's ranks, when there are several processes */
    bool *rank_is_local;       /* [rank_count] */
    struct cuda_queue *queues; /* [queue_count] */
    struct wet_pools *pools;
    struct backing *backings;   /* [space_count] */
    uint64_t *space_bytes;      /* [space_count]: of all its buffers together */
    struct wet_space *spaces;   /* [space_count] */
    struct comms *comms;        /* NULL: none needed */
    cudaEvent_t *starts, *ends; /* [op_count]; NULL where the op is not asynchronous here */
    atomic_bool *seen;          /* [op_count]: poll saw its end in this step */
    int64_t zero_ps;            /* dispatch_clock_ps at the start of the step */
    struct host_cancel cancel;  /* raised when the run has failed */
    pthread_mutex_t check_lock; /* --check: one op at a time writes and reads back its patterns */
    pthread_mutex_t nccl_lock;  /* groups of calls of several communicators never interleave */
    uint64_t
        storage_end; /* of the file that stands for storage; begins behind 0, which allocators do not take for an address */
    int storage_file;        /* -1: none */
    int storage_file_direct; /* the same with O_DIRECT, or -1 */
};

static inline double cuda_patience_s(const struct cuda_run *run)
{
    return run->options->patience_s > 0 ? run->options->patience_s : 60;
}

static inline const struct sched_op *cuda_op(const struct cuda_run *run, uint32_t op)
{
    return &run->schedule->ops[op];
}
static inline struct cuda_queue *cuda_queue_of(const struct cuda_run *run, uint32_t op)
{
    return &run->queues[run->schedule->ops[op].queue];
}
static inline enum queue_class cuda_queue_class(const struct cuda_run *run, uint32_t queue)
{
    return (enum queue_class)run->schedule->queues[queue].queue_class;
}

/* -- devices.c -- */

/* Finds the visible GPUs and gives each local rank one. STATUS_UNSUPPORTED: no GPU, no or an old driver, fewer GPUs than ranks. */
enum status cuda_devices(struct cuda_run *run, struct error *error);
/* The GPU of a device number (of a rank here, or by the same rule); NULL when there is none. */
struct gpu *cuda_gpu_of_device(const struct cuda_run *run, uint32_t device);
uint32_t cuda_rank_process(const struct cuda_run *run, uint32_t rank);

/* -- spaces.c -- */

enum status cuda_spaces(struct cuda_run *run, struct error *error); /* fills spaces, backings; then makes pools */
void cuda_spaces_free(struct cuda_run *run);                        /* pools too */
/* What the first refused allocation was, for the message of a run that stopped for memory; false: none was refused. */
bool cuda_spaces_refusal(const struct cuda_run *run, char *text, size_t size);

/* -- needs.c -- */

struct queue_needs {
    uint64_t input_bytes, output_bytes;                  /* the largest operand set of a product or an attention */
    uint64_t device_bytes, pinned_bytes, pageable_bytes; /* the largest transfer through a slab */
    bool has_kernels, has_sums;
};
void cuda_needs(struct cuda_run *run, struct queue_needs *needs); /* [queue_count], zeroed; and space_bytes */
/* A collective's payload of one member, and of one member's part of it, in whole elements. */
uint64_t cuda_collective_elements(const struct schedule *schedule, const struct sched_work *work, uint64_t *part);
static inline uint64_t cuda_round_up(uint64_t bytes, uint64_t granule)
{
    return (bytes + granule - 1) / granule * granule;
}

/* -- slabs.c -- */

enum status cuda_slabs_share(struct cuda_run *run, const struct queue_needs *needs, struct error *error);
enum status cuda_slabs(struct cuda_run *run, uint32_t queue, const struct queue_needs *needs, struct error *error);
void cuda_slabs_free(struct cuda_queue *queue);
/* The next `bytes` of a slab, aligned to 256; at most all of it (then less than asked: *got). */
void *slab_take(struct slab *slab, uint64_t bytes, uint64_t *got);

/* -- queues.c -- */

enum status cuda_queues(struct cuda_run *run, struct error *error);
void cuda_queues_free(struct cuda_run *run);
bool cuda_is_asynchronous(const void *run, uint32_t queue);
/* An operand of the op that lies in a space of this kind (of this device, SCHED_NONE: any) and has room for `bytes`; SCHED_NONE: none. `written` says which of reads and writes is preferred. */
uint32_t cuda_find_operand(const struct cuda_run *run, uint32_t op, enum space_kind kind, uint32_t device,
                           uint64_t bytes, bool written);

/* -- step.c -- */

enum status cuda_begin_step(void *run, struct error *error);
enum status cuda_poll(void *run, uint32_t op, bool *ended, struct error *error);
enum status cuda_end_step(void *run, struct op_times *ops, struct error *error);

/* -- submit.c -- */

enum status cuda_submit(void *run, const uint32_t *ops, uint32_t op_count, struct error *error);
/* The first op's stream waits until all have come; its start is that moment. */
enum status cuda_join_streams(struct cuda_run *run, const uint32_t *ops, uint32_t op_count, struct error *error);
/* --check: zeroes the queue's counter of mismatches; and waits for the stream and says what it counted. */
enum status cuda_reset_verdict(struct cuda_run *run, uint32_t op, struct error *error);
enum status cuda_verdict(struct cuda_run *run, uint32_t op, const char *what, uint64_t bytes, struct error *error);

/* -- products.c, kernels.c -- */

/* NULL: it can be run; else why not. */
const char *cuda_product_refusal(const struct kernel *kernel);
/* Bytes that a product or an attention wants of its slabs; 0 of other kernels. */
void cuda_product_operands(const struct kernel *kernel, uint64_t *inputs, uint64_t *outputs);
enum status cuda_product(struct cuda_queue *queue, const struct kernel *kernel, struct error *error);
enum status cuda_compute(struct cuda_run *run, uint32_t op, struct error *error);

/* -- copies.c -- */

enum status cuda_copy(struct cuda_run *run, uint32_t op, struct error *error);
/* A send and its recv, both here, on the receiver's stream. */
enum status cuda_send_recv(struct cuda_run *run, uint32_t receive, uint32_t send, struct error *error);
enum status cuda_copy_between(void *to, const struct gpu *to_gpu, const void *from, const struct gpu *from_gpu,
                              uint64_t bytes, cudaStream_t stream, struct error *error);
/* The buffer of another device that a one-sided copy reads or writes; SCHED_NONE: none. */
uint32_t cuda_peer_operand(const struct schedule *schedule, uint32_t op, bool *to_peer);
/* Where data of an op lies on its device: `bytes` long if an operand or the slab has room, else the slab's size: the work is done in pieces. */
struct place {
    char *address;
    uint64_t bytes;
};
struct place cuda_device_place(struct cuda_run *run, uint32_t op, uint64_t bytes, bool written, bool is_private);

/* -- collectives.c, comms.c -- */

enum status cuda_collective(struct cuda_run *run, const uint32_t *ops, uint32_t op_count, struct error *error);
bool cuda_meets_other_processes(const struct cuda_run *run, uint32_t op);
/* One side of a send/recv whose other side is in another process. */
enum status cuda_send_or_recv(struct cuda_run *run, uint32_t op, struct error *error);
enum status cuda_comms(struct cuda_run *run, struct error *error);
void cuda_comms_free(struct cuda_run *run);
/* An asynchronous error of the communicator that `op` uses, if it has one. */
enum status cuda_comms_poll(struct cuda_run *run, uint32_t op, struct error *error);
void cuda_comms_cancel(struct cuda_run *run);

/* -- host_work.c -- */

enum status cuda_host_work(struct cuda_run *run, uint32_t op, struct error *error);
enum status cuda_storage_open(struct cuda_run *run, struct error *error); /* the file, if a queue wants it */
void cuda_storage_close(struct cuda_run *run);

#endif
