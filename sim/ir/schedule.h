/* The schedule: what the machine is told to do. The spine of memwall: simulator and real executors take the same bytes.
 *
 * Flat arrays, no pointers between records, 32-bit indices (SCHED_NONE: none), each array malloc'ed and owned by the schedule. Build it with sim/ir/builder.h, check it with
 * sim/ir/verify.h, print and load it with sim/ir/schedule_text.h. It knows bytes and shapes, no time (but WORK_FIXED in bare pipelines).
 *
 * Order. The ops of a rank stand together in ops[], in the order in which its host thread issues them. A queue runs its ops in that order. An op starts when it
 * heads its queue, its dependencies (ops of other queues of the same rank) have ended, the host has issued it, its match partners stand ready, and what it
 * acquires fits. It acquires its buffers when it starts and releases when it ends.
 *
 * Folding. A rank may stand for several devices that do the same by symmetry: devices[first_device .. + device_count) lists them all, the first one is the
 * representative. A group lists `instance_count` sister groups, instance-major, the first is the representative's own; sisters run at the same moments and use
 * links too. A buffer in a space that several of these devices share (host memory) counts `copies` times.
 *
 * Layout is canonical: the operands, dependencies (rising), work items, members, devices of each record follow those of the record before without gaps; queues
 * stand in rank order; equal kernels, works and groups stand once; reserved bytes are 0. So equal schedules are equal bytes (labels apart: their offsets may differ). */
#ifndef MEMWALL_IR_SCHEDULE_H
#define MEMWALL_IR_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/hash.h"
#include "sim/base/status.h"
#include "sim/ir/kernel.h"

#define SCHED_NONE UINT32_MAX

/* Limits, so that checks stay linear and numbers survive JSON (doubles). */
enum {
    SCHED_RANK_QUEUES_MAX = 256,
    SCHED_DEVICES_MAX = 1 << 20 /* GPU numbers are below */,
    SCHED_COUNT_MAX = INT32_MAX
};
#define SCHED_INTEGER_MAX ((UINT64_C(1) << 53) - 1) /* bytes, capacities, kernel sizes, fixed times */

/* name, word */
#define QUEUE_CLASS_TABLE(X)                                                                                           \
    X(QUEUE_COMPUTE, "compute")                                                                                        \
    X(QUEUE_COMM, "comm")                                                                                              \
    X(QUEUE_H2D, "h2d")                                                                                                \
    X(QUEUE_D2H, "d2h")                                                                                                \
    X(QUEUE_P2P, "p2p")                                                                                                \
    X(QUEUE_HOST, "host")                                                                                              \
    X(QUEUE_STORAGE, "storage")

/* name, word, what it holds */
#define BUFFER_CLASS_TABLE(X)                                                                                          \
    X(BUFFER_WEIGHT, "weight", "parameters used by kernels")                                                           \
    X(BUFFER_GRADIENT, "gradient", "accumulated gradients")                                                            \
    X(BUFFER_OPTIMIZER, "optimizer", "master weights and moments")                                                     \
    X(BUFFER_ACTIVATION, "activation", "tensors saved from forward to backward")                                       \
    X(BUFFER_BOUNDARY, "boundary", "tensors received from or sent to another stage")                                   \
    X(BUFFER_WORKSPACE, "workspace", "short-lived tensors of a running pass")                                          \
    X(BUFFER_COMMUNICATION, "communication", "gathered parameters, buckets, staging")                                  \
    X(BUFFER_RUNTIME, "runtime", "context, communicator buffers, library workspace")

#define SPACE_KIND_TABLE(X)                                                                                            \
    X(SPACE_DEVICE, "device")                                                                                          \
    X(SPACE_HOST, "host")                                                                                              \
    X(SPACE_PINNED, "pinned")                                                                                          \
    X(SPACE_STORAGE, "storage")

#define WORK_KIND_TABLE(X)                                                                                             \
    X(WORK_NONE, "none")                                                                                               \
    X(WORK_KERNELS, "kernels")                                                                                         \
    X(WORK_COLLECTIVE, "collective")                                                                                   \
    X(WORK_TRANSFER, "transfer")                                                                                       \
    X(WORK_HOST_OPTIMIZER, "host_optimizer")                                                                           \
    X(WORK_FIXED, "fixed")

#define X(name, word) name,
enum queue_class { QUEUE_CLASS_TABLE(X) QUEUE_CLASS_COUNT };
enum space_kind { SPACE_KIND_TABLE(X) SPACE_KIND_COUNT };
enum work_kind { WORK_KIND_TABLE(X) WORK_KIND_COUNT };
#undef X
#define X(name, word, help) name,
enum buffer_class { BUFFER_CLASS_TABLE(X) BUFFER_CLASS_COUNT };
#undef X

enum match_rule { MATCH_NONE, MATCH_SEND, MATCH_RECEIVE, MATCH_GROUP };

enum opcode {
#define X(name, word, queues, work, match, summary) name,
#include "sim/ir/ops.def"
#undef X
    OPCODE_COUNT
};

struct sched_rank {
    uint32_t first_device, device_count; /* into devices[]: global GPU numbers; the first is the representative */
    uint32_t first_op, op_count;
    uint32_t label; /* "stage 3" */
    uint32_t stage; /* for reports; SCHED_NONE if it has none */
};

struct sched_queue {
    uint32_t rank;
    uint32_t label; /* "compute", "send forward" */
    uint8_t queue_class;
    uint8_t reserved[3]; /* 0 */
};

struct sched_space {
    uint64_t capacity_bytes; /* UINT64_MAX: unlimited */
    uint32_t location;       /* device: global GPU number; host, pinned, storage: server */
    uint32_t parent;         /* a space that is charged too (pinned inside host), or SCHED_NONE */
    uint32_t label;
    uint8_t kind;
    uint8_t exact_blocks; /* pinned: 1: blocks of the bytes asked for, not of powers of two (sim/engine/reserved.h) */
    uint8_t reserved[2];  /* 0 */
};

enum { BUFFER_LIVE_AT_START = 1, BUFFER_LIVE_AT_END = 2 };

struct sched_buffer {
    uint64_t bytes;  /* one copy */
    uint32_t copies; /* equal buffers of folded devices in this same space, >= 1 */
    uint32_t space;
    uint32_t label;
    uint8_t buffer_class;
    uint8_t flags;       /* BUFFER_LIVE_*: not acquired / not released by any op */
    uint8_t reserved[2]; /* 0 */
};

/* What an op computes or moves; shared by many ops. */
struct sched_work {
    uint8_t kind;                    /* enum work_kind */
    uint8_t dtype;                   /* collective: of the elements */
    uint8_t pageable;                /* transfer: host side is pageable */
    uint8_t reserved;                /* 0 */
    uint32_t first_item, item_count; /* kernels: into work_items[] */
    uint32_t group;                  /* collective; else SCHED_NONE. Fields of other kinds are 0 */
    double bytes;      /* collective: whole buffer as nccl-tests counts it; transfer: payload of one device */
    double parameters; /* host optimizer: of one device */
    int64_t fixed_ps;  /* fixed */
};

enum work_item_kind {
    ITEM_KERNEL,
    ITEM_COLLECTIVE,
    ITEM_COLLECTIVE_BESIDE /* runs beside the kernel that is the next item; what follows waits for both */
};
/* One step of a kernel sequence. */
struct work_item {
    uint32_t index; /* into kernels[]; or into works[]: a collective merged into the sequence */
    uint16_t kind;  /* enum work_item_kind */
    /* Kernel: layer passes that begin here, host time of the framework's module calls. Collective: its opcode. */
    uint16_t passes;
};

struct sched_group {
    uint32_t first_member, member_count, instance_count; /* into group_members[], instance-major, global GPU numbers */
    uint32_t label;                                      /* "tensor", "data", "pipeline 2>3" */
};

/* Ops that meet: one send and one recv, or one collective over the ranks present in a group. */
struct sched_match {
    uint32_t group;    /* send/recv: members are (sender, receiver) pairs */
    uint32_t op_count; /* ops that must stand ready */
};

enum {
    OP_FLAG_HOST_WAITS = 1,  /* the host issues nothing further until this op has ended */
    OP_FLAG_MICRO_BATCH = 2, /* a micro-batch begins here: framework's host time */
    OP_FLAG_STEP = 4,        /* the step begins here */
    OP_FLAG_RECOMPUTE = 8,   /* repeats forward work: for reports */
    OP_FLAG_BUSY_HOST = 16   /* the host thread itself does the work */
};

/* What an op is for: reports and traces group by it. */
#define OP_PHASE_TABLE(X)                                                                                              \
    X(PHASE_FORWARD, "forward")                                                                                        \
    X(PHASE_BACKWARD, "backward")                                                                                      \
    X(PHASE_WEIGHT, "weight_gradient")                                                                                 \
    X(PHASE_RECOMPUTE, "recompute")                                                                                    \
    X(PHASE_TENSOR_COMM, "tensor_comm")                                                                                \
    X(PHASE_PIPELINE_COMM, "pipeline_comm")                                                                            \
    X(PHASE_DATA_COMM, "data_comm")                                                                                    \
    X(PHASE_OFFLOAD, "offload")                                                                                        \
    X(PHASE_OPTIMIZER, "optimizer")                                                                                    \
    X(PHASE_OTHER, "other")

enum op_phase {
#define X(name, word) name,
    OP_PHASE_TABLE(X)
#undef X
        PHASE_COUNT
};

struct sched_op {
    uint32_t queue, work, match; /* SCHED_NONE where the opcode has none */
    uint32_t first_operand; /* into operands[] (buffer indices): acquires, releases, reads, writes, in this order */
    uint16_t acquire_count, release_count, read_count, write_count;
    uint32_t first_dependency; /* into dependencies[] (op indices, all earlier in the same rank) */
    uint16_t dependency_count;
    uint16_t micro_batch, chunk, layer; /* tags; OP_TAG_NONE */
    uint8_t opcode, phase, flags, reserved;
};
enum { OP_TAG_NONE = UINT16_MAX };

struct schedule {
    struct sched_rank *ranks;
    struct sched_queue *queues;
    struct sched_space *spaces;
    struct sched_buffer *buffers;
    struct sched_op *ops;
    struct sched_work *works;
    struct work_item *work_items;
    struct kernel *kernels;
    struct sched_group *groups;
    struct sched_match *matches;
    uint32_t *devices, *group_members, *operands, *dependencies;
    char *text; /* all labels, NUL-terminated; label 0 is "" */
    uint32_t rank_count, queue_count, space_count, buffer_count, op_count, work_count, work_item_count, kernel_count,
        group_count, match_count, device_count, group_member_count, operand_count, dependency_count, text_bytes;
    double model_flops;     /* of the step, whole cluster, without recomputation; 0 in bare pipelines */
    double samples, tokens; /* per step, whole cluster */
    uint32_t gpu_count;     /* in use, phantoms included */
};

void schedule_free(struct schedule *schedule);
/* Memory to spare for one run: capacities become unlimited; returns what they were, NULL when memory is out (nothing is changed then). They count in the hash, so give them back. */
uint64_t *schedule_lend_memory(struct schedule *schedule);
void schedule_return_memory(struct schedule *schedule, uint64_t *capacities); /* frees them */

const char *sched_label(const struct schedule *schedule, uint32_t label);
static inline const uint32_t *sched_acquires(const struct schedule *s, const struct sched_op *op)
{
    return s->operands + op->first_operand;
}
static inline const uint32_t *sched_releases(const struct schedule *s, const struct sched_op *op)
{
    return s->operands + op->first_operand + op->acquire_count;
}
static inline const uint32_t *sched_reads(const struct schedule *s, const struct sched_op *op)
{
    return s->operands + op->first_operand + op->acquire_count + op->release_count;
}
static inline const uint32_t *sched_writes(const struct schedule *s, const struct sched_op *op)
{
    return s->operands + op->first_operand + op->acquire_count + op->release_count + op->read_count;
}
static inline uint32_t sched_op_rank(const struct schedule *s, const struct sched_op *op)
{
    return s->queues[op->queue].rank;
}

_Static_assert(sizeof(struct sched_rank) == 24 && sizeof(struct sched_queue) == 12 &&
                   sizeof(struct sched_space) == 24 && sizeof(struct sched_buffer) == 24 &&
                   sizeof(struct sched_work) == 40 && sizeof(struct work_item) == 8 &&
                   sizeof(struct sched_group) == 16 && sizeof(struct sched_match) == 8 &&
                   sizeof(struct sched_op) == 40 && sizeof(struct kernel) == 64,
               "records have no padding, so their bytes are their content");

/* Content hash over all fields, labels included (by text): equal schedules, equal hash. */
struct hash schedule_hash(const struct schedule *schedule);

/* "forward mb 3 chunk 1 layer 7 (stage 2, compute)" in `buffer`: how reports and errors call an op. Other opcodes than compute and delay stand first: "send pipeline_comm mb 3 (stage 2, send forward)". */
const char *sched_op_text(const struct schedule *schedule, uint32_t op, char *buffer, size_t size);

/* Whether it brings bytes from one place to another: a copy, a transfer of a drive, a send, a receive, a collective. */
bool sched_op_moves(const struct schedule *schedule, const struct sched_op *op);
/* The buffers that such an op brings (acquires), else writes, reads or takes away (releases); `count` 0: it has none of its own. */
const uint32_t *sched_moved_buffers(const struct schedule *schedule, const struct sched_op *op, uint32_t *count);

/* Table look-ups. */
const char *opcode_word(enum opcode opcode);
const char *opcode_summary(enum opcode opcode);
enum work_kind opcode_work(enum opcode opcode); /* or WORK_FIXED in its place */
enum match_rule opcode_match(enum opcode opcode);
bool opcode_allows_queue(enum opcode opcode, enum queue_class queue_class);
const char *queue_class_word(enum queue_class queue_class);
const char *buffer_class_word(enum buffer_class buffer_class);
const char *space_kind_word(enum space_kind kind);
const char *work_kind_word(enum work_kind kind);
const char *op_phase_word(enum op_phase phase);

#endif
