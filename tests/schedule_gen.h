/* Random valid schedules for tests: ranks with a compute, a comm, copy, host and two p2p queues; works of every kind; matches between ranks; buffers whose life
 * crosses queues.
 *
 * Valid by construction: events are drawn in one global order (a local op, a send with its recv, or a collective of all ranks) and every rank's ops follow that order,
 * so no cycle can arise; a release depends on all users of its buffer. Same seed, same schedule. Device spaces hold 1 GB, or 5000 bytes when `tight`: then ops wait
 * for memory, and some schedules do not fit. */
#ifndef MEMWALL_TESTS_SCHEDULE_GEN_H
#define MEMWALL_TESTS_SCHEDULE_GEN_H

#include "sim/ir/builder.h"
#include "tests/test.h"

struct schedule_gen {
    uint32_t ranks;            /* 1 .. 64 */
    uint32_t events;           /* about so many ops a rank */
    uint32_t devices_per_rank; /* folding: >= 1 */
    bool tight;
    bool fixed_only; /* every local op is a delay on compute, comm or host: engines without cost tables */
};

enum { GEN_RANKS_MAX = 64, GEN_LIVE_MAX = 12, GEN_USERS_MAX = 24 };
enum gen_queue { GEN_COMPUTE, GEN_COMM, GEN_H2D, GEN_D2H, GEN_HOST, GEN_SEND, GEN_RECV, GEN_QUEUES };

struct gen_event {
    uint32_t kind;  /* 0: local, 1: send/recv, 2: collective of all ranks */
    uint32_t a, b;  /* rank; sender and receiver */
    uint32_t match; /* of kind 1, 2 */
    uint32_t work;
    uint32_t opcode;
};

struct gen_buffer {
    uint32_t buffer;
    uint32_t users[GEN_USERS_MAX]; /* ops; the acquirer first */
    uint32_t user_count;
};

struct gen_rank {
    uint32_t queues[GEN_QUEUES], space, host_space;
    struct gen_buffer live[GEN_LIVE_MAX];
    uint32_t live_count;
};

static inline void gen_use(struct builder *b, struct gen_buffer *x, uint32_t op)
{
    builder_depends(b, x->users[0] == op ? SCHED_NONE : x->users[0]);
    if (x->user_count < GEN_USERS_MAX) {
        x->users[x->user_count++] = op;
    } else {
        x->users[x->user_count - 1] = op; /* never happens: users stop at the limit */
    }
}

/* Buffers of one op: maybe a new one, maybe uses, maybe the last use of one. */
static inline void gen_operands(struct builder *b, struct gen_rank *r, uint32_t op, uint64_t *random)
{
    if (r->live_count < GEN_LIVE_MAX && test_below(random, 2) == 0) {
        uint32_t space = test_below(random, 6) == 0 ? r->host_space : r->space;
        enum buffer_class class = (enum buffer_class)test_below(random, BUFFER_CLASS_COUNT);
        uint32_t label = builder_label_format(b, "%s %u", buffer_class_word(class), (unsigned)test_below(random, 5));
        uint32_t copies = space == r->host_space ? 1 + (uint32_t)test_below(random, 3) : 1;
        struct gen_buffer *x = &r->live[r->live_count++];
        x->buffer = builder_buffer(b, space, 1 + test_below(random, 1000), copies, class, 0, label);
        x->users[0] = op;
        x->user_count = 1;
        builder_acquire(b, x->buffer);
    }
    for (uint32_t i = 0; i < r->live_count; i++) {
        struct gen_buffer *x = &r->live[i];
        if (x->user_count + 1 < GEN_USERS_MAX && test_below(random, 3) == 0) {
            if (test_below(random, 2) == 0) {
                builder_read(b, x->buffer);
            } else {
                builder_write(b, x->buffer);
            }
            if (x->users[x->user_count - 1] != op) {
                gen_use(b, x, op);
            }
        }
    }
    if (r->live_count > 0 && test_below(random, 2) == 0) {
        uint32_t i = (uint32_t)test_below(random, r->live_count);
        for (uint32_t j = 0; j < r->live[i].user_count; j++) {
            builder_depends(b, r->live[i].users[j] == op ? SCHED_NONE : r->live[i].users[j]);
        }
        builder_release(b, r->live[i].buffer);
        r->live[i] = r->live[--r->live_count];
    }
}

static inline uint32_t gen_work(struct builder *b, const struct schedule_gen *gen, uint32_t group, uint32_t opcode,
                                uint64_t *random)
{
    switch (opcode_work((enum opcode)opcode)) {
    case WORK_NONE: return SCHED_NONE;
    case WORK_KERNELS: {
        struct work_item items[3];
        uint32_t count = 1 + (uint32_t)test_below(random, 3);
        for (uint32_t i = 0; i < count; i++) {
            uint64_t m = UINT64_C(64) << test_below(random, 4);
            struct kernel kernel = { .kernel_class = (uint8_t)test_below(random, KERNEL_CLASS_COUNT),
                                     .dtype = (uint8_t)test_below(random, DTYPE_COUNT),
                                     .flags = (uint8_t)test_below(random, 4),
                                     .launches = 1 + (uint32_t)test_below(random, 3),
                                     .batch = 1,
                                     .m = m,
                                     .n = 512,
                                     .k = 256,
                                     .flops = 2.0 * (double)m * 512 * 256,
                                     .bytes_read = 1e6 + test_unit(random),
                                     .bytes_written = 1e5 };
            kernel.layout = kernel.kernel_class == KERNEL_GEMM ? (uint8_t)test_below(random, 3) : 0;
            items[i] = (struct work_item){ builder_kernel(b, &kernel), ITEM_KERNEL, (uint16_t)test_below(random, 2) };
        }
        return builder_work_kernels(b, items, count);
    }
    case WORK_COLLECTIVE:
        return builder_work_collective(b, group, (double)(1 + test_below(random, 1u << 20)), DTYPE_FP16);
    case WORK_TRANSFER:
        return builder_work_transfer(b, (double)(1 + test_below(random, 1u << 20)),
                                     !gen->fixed_only && test_below(random, 4) == 0);
    case WORK_HOST_OPTIMIZER: return builder_work_host_optimizer(b, 1000 + test_unit(random));
    case WORK_FIXED: return builder_work_fixed(b, (int64_t)test_below(random, 5) * 1000);
    case WORK_KIND_COUNT: break;
    }
    return SCHED_NONE;
}

static inline enum opcode gen_local_opcode(const struct schedule_gen *gen, uint64_t *random)
{
    static const enum opcode any[] = { OP_COMPUTE,  OP_COMPUTE,        OP_COMPUTE, OP_COPY_H2D,
                                       OP_COPY_D2H, OP_HOST_OPTIMIZER, OP_DELAY,   OP_MARK };
    return gen->fixed_only ? OP_DELAY : any[test_below(random, sizeof any / sizeof any[0])];
}

static inline enum gen_queue gen_queue_of(enum opcode opcode, uint64_t *random)
{
    static const enum gen_queue delay[] = { GEN_COMPUTE, GEN_COMPUTE, GEN_COMM, GEN_HOST };
    return opcode == OP_COPY_H2D         ? GEN_H2D
           : opcode == OP_COPY_D2H       ? GEN_D2H
           : opcode == OP_HOST_OPTIMIZER ? GEN_HOST
           : opcode == OP_DELAY          ? delay[test_below(random, 4)]
           : opcode == OP_MARK           ? (enum gen_queue)test_below(random, GEN_QUEUES)
                                         : GEN_COMPUTE;
}

static inline uint32_t gen_op(struct builder *b, struct gen_rank *r, uint32_t opcode, enum gen_queue queue,
                              uint32_t work, uint32_t match, uint64_t *random)
{
    uint32_t op =
        builder_op(b, (enum opcode)opcode, r->queues[queue], work, (enum op_phase)test_below(random, PHASE_COUNT));
    if (match != SCHED_NONE) {
        builder_set_match(b, match);
    }
    if (test_below(random, 2) == 0) {
        builder_tag(b, (uint16_t)test_below(random, 8), test_below(random, 2) == 0 ? OP_TAG_NONE : 1,
                    (uint16_t)test_below(random, 24));
    }
    if (test_below(random, 40) == 0) {
        builder_flag(b, OP_FLAG_HOST_WAITS);
    }
    if (test_below(random, 20) == 0) {
        builder_flag(b, test_below(random, 2) == 0 ? OP_FLAG_MICRO_BATCH : OP_FLAG_RECOMPUTE);
    }
    gen_operands(b, r, op, random);
    return op;
}

static inline void gen_rank_ops(struct builder *b, struct gen_rank *r, uint32_t rank, const struct gen_event *events,
                                uint32_t event_count, uint64_t *random)
{
    uint32_t first = builder_op_count(b), op = SCHED_NONE;
    for (uint32_t i = 0; i < event_count; i++) {
        const struct gen_event *e = &events[i];
        if (e->kind == 0 && e->a == rank) {
            op = gen_op(b, r, e->opcode, gen_queue_of((enum opcode)e->opcode, random), e->work, SCHED_NONE, random);
        } else if (e->kind == 1 && (e->a == rank || e->b == rank)) {
            bool sends = e->a == rank;
            op = gen_op(b, r, sends ? OP_SEND : OP_RECV, sends ? GEN_SEND : GEN_RECV, e->work, e->match, random);
        } else if (e->kind == 2) {
            op = gen_op(b, r, e->opcode, GEN_COMM, e->work, e->match, random);
        } else {
            continue;
        }
        if (op > first && test_below(random, 2) == 0) {
            builder_depends(b, op - 1 - (uint32_t)test_below(random, op - first < 6 ? op - first : 6));
        }
    }
    /* What is left is released by marks behind everything that used it. */
    while (r->live_count > 0) {
        struct gen_buffer *x = &r->live[--r->live_count];
        builder_op(b, OP_MARK, r->queues[GEN_COMPUTE], SCHED_NONE, PHASE_OTHER);
        for (uint32_t j = 0; j < x->user_count; j++) {
            builder_depends(b, x->users[j]);
        }
        builder_release(b, x->buffer);
    }
}

/* A builder filled with the schedule; builder_finish it. */
static inline struct builder *schedule_gen_builder(const struct schedule_gen *gen, uint64_t seed)
{
    static const char *const names[GEN_QUEUES] = { "compute", "comm", "h2d", "d2h", "host", "send", "recv" };
    static const enum queue_class classes[GEN_QUEUES] = { QUEUE_COMPUTE, QUEUE_COMM, QUEUE_H2D, QUEUE_D2H,
                                                          QUEUE_HOST,    QUEUE_P2P,  QUEUE_P2P };
    static const enum opcode collectives[] = { OP_ALL_REDUCE, OP_ALL_GATHER, OP_REDUCE_SCATTER, OP_BROADCAST,
                                               OP_ALL_TO_ALL };
    uint64_t random = seed;
    uint32_t ranks = gen->ranks, fold = gen->devices_per_rank, event_count = gen->events * ranks;
    struct builder *b = builder_new();
    struct gen_event *events = calloc(event_count + 1, sizeof *events);
    struct gen_rank *state = calloc(GEN_RANKS_MAX, sizeof *state);
    uint32_t *members = calloc((size_t)ranks * fold + 2 * (size_t)fold, sizeof *members);
    if (b == NULL || events == NULL || state == NULL || members == NULL || ranks == 0 || ranks > GEN_RANKS_MAX) {
        abort();
    }
    uint64_t capacity = gen->tight ? 5000 : 1000000000;
    uint32_t host = builder_space(b, SPACE_HOST, 0, 1000000000, SCHED_NONE, "host \"0\"");
    uint32_t pinned = builder_space(b, SPACE_PINNED, 0, UINT64_MAX, host, "pinned");
    if (seed % 2 == 0) {
        builder_exact_blocks(b, pinned);
    }
    for (uint32_t i = 0; i < fold; i++) {
        for (uint32_t r = 0; r < ranks; r++) {
            members[i * ranks + r] = r * fold + i;
        }
    }
    uint32_t all = builder_group(b, members, ranks, fold, "all");
    for (uint32_t i = 0; i < event_count; i++) {
        struct gen_event *e = &events[i];
        uint64_t kind = ranks == 1 ? 0 : test_below(&random, 12);
        e->a = (uint32_t)test_below(&random, ranks);
        e->match = SCHED_NONE;
        if (kind < 9) {
            e->opcode = gen_local_opcode(gen, &random);
            e->work = gen_work(b, gen, all, e->opcode, &random);
        } else if (kind < 11) {
            e->kind = 1;
            e->b = (e->a + 1 + (uint32_t)test_below(&random, ranks - 1)) % ranks;
            for (uint32_t j = 0; j < fold; j++) {
                members[2 * j] = e->a * fold + j;
                members[2 * j + 1] = e->b * fold + j;
            }
            uint32_t pair_group = builder_group(b, members, 2, fold, "pair");
            e->work = gen_work(b, gen, all, OP_SEND, &random);
            e->match = builder_match(b, pair_group, 2);
        } else {
            e->kind = 2;
            e->opcode = collectives[test_below(&random, 5)];
            e->work = gen_work(b, gen, all, e->opcode, &random);
            e->match = builder_match(b, all, ranks);
        }
    }
    for (uint32_t r = 0; r < ranks; r++) {
        char label[32];
        for (uint32_t i = 0; i < fold; i++) {
            members[i] = r * fold + i;
        }
        (void)snprintf(label, sizeof label, "stage %u", r);
        builder_rank(b, members, fold, r, label);
        (void)snprintf(label, sizeof label, "gpu %u", r * fold);
        state[r].space = builder_space(b, SPACE_DEVICE, r * fold, capacity, SCHED_NONE, label);
        state[r].host_space = pinned;
        for (uint32_t q = 0; q < GEN_QUEUES; q++) {
            state[r].queues[q] = builder_queue(b, classes[q], names[q]);
        }
        builder_buffer(b, state[r].space, 100 + test_below(&random, 900), 1, BUFFER_WEIGHT,
                       BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END, builder_label(b, "weights"));
        gen_rank_ops(b, &state[r], r, events, event_count, &random);
    }
    free(events);
    free(state);
    free(members);
    return b;
}

static inline void schedule_gen(const struct schedule_gen *gen, uint64_t seed, struct schedule *schedule)
{
    struct error error = { 0 };
    if (builder_finish(schedule_gen_builder(gen, seed), schedule, &error) != STATUS_OK) {
        printf("schedule_gen: %s\n", error.message);
        abort();
    }
    schedule->samples = 8;
    schedule->tokens = 8 * 1024.0;
    schedule->model_flops = 1e15 / 3;
    schedule->gpu_count = gen->ranks * gen->devices_per_rank;
}

#endif
