/* Points as schedules: ranks with series of equal ops. */
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/ir/builder.h"
#include "validate/calibrate/measure_internal.h"

enum { RING_MAX = 256, SHORT_SERIES_FACTOR = 16 };
static const double RING_BYTES = 32.0 * (1 << 20);   /* so much is gone through before a buffer comes again */
static const double RINGS_BYTES = 128.0 * (1 << 20); /* ... of all series of a bench: first use of memory is dear */

/* A bench being built. */
struct making {
    const struct measure_options *options;
    const struct point *points; /* the first says what ranks there are */
    const uint32_t *repeats;
    uint32_t point_count;
    struct builder *builder;
    struct bench *bench;
    uint32_t op_capacity;
    uint32_t host, pinned;               /* spaces */
    uint32_t group;                      /* of all ranks, where they wait for each other */
    uint32_t meetings[BENCH_POINTS_MAX]; /* matches: the ranks meet before each point */
    struct error *error;
    enum status status;
};

/* Who the op is measured for. */
static void note(struct making *m, uint32_t op, uint32_t point, uint32_t series)
{
    if (m->status != STATUS_OK) {
        return;
    }
    if (op >= m->op_capacity) {
        uint32_t capacity = 2 * (op + 64);
        struct bench_op *grown = realloc(m->bench->ops, capacity * sizeof *grown);
        if (grown == NULL) {
            m->status = error_set(m->error, STATUS_NO_MEMORY, "out of memory: a benchmark of %u ops", op);
            return;
        }
        memset(grown + m->op_capacity, 0xff, (capacity - m->op_capacity) * sizeof *grown);
        m->bench->ops = grown;
        m->op_capacity = capacity;
    }
    m->bench->ops[op] = (struct bench_op){ (uint16_t)point, (uint16_t)series };
    if (point != BENCH_NOBODY && series >= m->bench->series_count[point]) {
        m->bench->series_count[point] = (uint16_t)(series + 1);
    }
}

static uint32_t device_space(struct making *m, uint32_t device)
{
    char text[32];
    (void)snprintf(text, sizeof text, "device %u", device);
    return builder_space(m->builder, SPACE_DEVICE, device, m->options->device_bytes, SCHED_NONE, text);
}

static void open_rank(struct making *m, uint32_t device)
{
    char text[32];
    (void)snprintf(text, sizeof text, "device %u", device);
    (void)builder_rank(m->builder, &device, 1, SCHED_NONE, text);
}

static uint32_t lasting_buffer(struct making *m, uint32_t space, double bytes, enum buffer_class buffer_class)
{
    return builder_buffer(m->builder, space, (uint64_t)bytes, 1, buffer_class,
                          BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END, 0);
}

/* Buffers that a series goes round, within a point's share of the memory. */
static uint32_t ring_size(const struct making *m, const struct point *p)
{
    double ways = p->kind == POINT_COPY && p->way == COPY_BOTH ? 2 : 1, at_once = p->at_once > 0 ? p->at_once : 1;
    double share = m->point_count * ways * p->bytes;
    CHECK(p->bytes >= 1 && m->point_count >= 1);
    double count =
        RINGS_BYTES / at_once / share < RING_BYTES / p->bytes ? RINGS_BYTES / at_once / share : RING_BYTES / p->bytes;
    double host_room = (double)m->options->host_bytes / at_once / share;
    double device_room = (double)m->options->device_bytes / share;
    count = count < host_room ? count : host_room;
    count = count < device_room ? count : device_room;
    uint32_t whole = count > RING_MAX ? RING_MAX : (uint32_t)count;
    return whole > 0 ? whole : 1;
}

/* ---- ranks that begin a point together ---- */

/* Ranks of the bench; before each point they meet when several things shall run at once. */
static void prepare_meetings(struct making *m, uint32_t first_device, uint32_t ranks)
{
    uint32_t members[64];
    if (ranks < 2 || ranks > sizeof members / sizeof members[0] || !m->options->on_host) {
        return;
    }
    for (uint32_t i = 0; i < ranks; i++) {
        members[i] = first_device + i;
    }
    m->group = builder_group(m->builder, members, ranks, 1, "all");
    for (uint32_t i = 0; i < m->point_count; i++) {
        m->meetings[i] = builder_match(m->builder, m->group, ranks);
    }
}

/* The op that the first ops of the point's series wait for, behind the `last` ones of the point before (SCHED_NONE: none). SCHED_NONE where nothing has to begin together. */
static uint32_t meet(struct making *m, uint32_t point, uint32_t queue, const uint32_t last[2], uint32_t queues)
{
    uint32_t op;
    if (m->group != SCHED_NONE) {
        uint32_t work = builder_work_collective(m->builder, m->group, 4, DTYPE_FP32);
        op = builder_op(m->builder, OP_ALL_REDUCE, queue, work, PHASE_OTHER);
        builder_set_match(m->builder, m->meetings[point]);
    } else if (queues > 1 && m->point_count > 1) {
        op = builder_op(m->builder, OP_MARK, queue, SCHED_NONE, PHASE_OTHER);
    } else {
        return SCHED_NONE;
    }
    note(m, op, BENCH_NOBODY, BENCH_NOBODY);
    builder_depends(m->builder, last[0]);
    builder_depends(m->builder, last[1] == last[0] ? SCHED_NONE : last[1]);
    return op;
}

/* ---- kernels and the host's optimizer ---- */

static uint32_t kernel_work(struct making *m, const struct kernel *kernel)
{
    const struct work_item item = { .index = builder_kernel(m->builder, kernel), .kind = ITEM_KERNEL };
    return builder_work_kernels(m->builder, &item, 1);
}

/* The same series on each rank. */
static void make_work(struct making *m)
{
    bool kernels = m->points[0].kind == POINT_KERNEL;
    uint32_t at_once = m->points[0].at_once, works[BENCH_POINTS_MAX];
    prepare_meetings(m, 0, at_once);
    for (uint32_t i = 0; i < m->point_count; i++) {
        works[i] = kernels ? kernel_work(m, &m->points[i].kernel)
                           : builder_work_host_optimizer(m->builder, m->points[i].parameters);
    }
    for (uint32_t device = 0; device < at_once; device++) {
        (void)device_space(m, device);
        open_rank(m, device);
        uint32_t queue = kernels ? builder_queue(m->builder, QUEUE_COMPUTE, "compute")
                                 : builder_queue(m->builder, QUEUE_HOST, "host");
        uint32_t aside = m->group != SCHED_NONE ? builder_queue(m->builder, QUEUE_COMM, "meetings") : SCHED_NONE;
        uint32_t last[2] = { SCHED_NONE, SCHED_NONE };
        for (uint32_t i = 0; i < m->point_count; i++) {
            uint32_t met = meet(m, i, aside, last, 1);
            for (uint32_t k = 0; k < m->repeats[i]; k++) {
                last[0] = builder_op(m->builder, kernels ? OP_COMPUTE : OP_HOST_OPTIMIZER, queue, works[i],
                                     kernels ? PHASE_FORWARD : PHASE_OPTIMIZER);
                note(m, last[0], i, device);
                builder_depends(m->builder, k == 0 ? met : SCHED_NONE);
            }
        }
    }
}

/* ---- copies ---- */

/* One series between the host and the open rank; returns its last op. */
static uint32_t host_series(struct making *m, uint32_t point, uint32_t device_space_index, uint32_t queue, bool down,
                            uint32_t series, uint32_t met)
{
    const struct point *p = &m->points[point];
    uint32_t ring = ring_size(m, p), there[RING_MAX], here[RING_MAX], op = SCHED_NONE;
    uint32_t work = builder_work_transfer(m->builder, p->bytes, p->pageable);
    for (uint32_t i = 0; i < ring; i++) { /* pinned memory is a part of the host's */
        there[i] = lasting_buffer(m, device_space_index, p->bytes, BUFFER_WEIGHT);
        here[i] = lasting_buffer(m, p->pageable ? m->host : m->pinned, p->bytes, BUFFER_OPTIMIZER);
    }
    for (uint32_t i = 0; i < m->repeats[point]; i++) {
        op = builder_op(m->builder, down ? OP_COPY_D2H : OP_COPY_H2D, queue, work, PHASE_OFFLOAD);
        note(m, op, point, series);
        builder_read(m->builder, down ? there[i % ring] : here[i % ring]);
        builder_write(m->builder, down ? here[i % ring] : there[i % ring]);
        builder_depends(m->builder, i == 0 ? met : SCHED_NONE);
    }
    return op;
}

static void make_host_copies(struct making *m)
{
    const struct point *first = &m->points[0];
    bool up = first->way != COPY_D2H, down = first->way != COPY_H2D;
    prepare_meetings(m, first->to, first->at_once);
    for (uint32_t d = 0; d < first->at_once; d++) {
        uint32_t space = device_space(m, first->to + d), last[2] = { SCHED_NONE, SCHED_NONE };
        open_rank(m, first->to + d);
        uint32_t queue_up = up ? builder_queue(m->builder, QUEUE_H2D, "to device") : SCHED_NONE;
        uint32_t queue_down = down ? builder_queue(m->builder, QUEUE_D2H, "to host") : SCHED_NONE;
        bool aside = m->group != SCHED_NONE || (up && down);
        uint32_t queue_aside = aside ? builder_queue(m->builder, QUEUE_COMM, "meetings") : SCHED_NONE;
        for (uint32_t i = 0; i < m->point_count; i++) {
            uint32_t met = meet(m, i, queue_aside, last, up && down ? 2 : 1), series = up && down ? 2 * d : d;
            if (up) {
                last[0] = host_series(m, i, space, queue_up, false, series++, met);
            }
            if (down) {
                last[up ? 1 : 0] = host_series(m, i, space, queue_down, true, series, met);
            }
        }
    }
}

/* A rank that only is there. */
static void idle_rank(struct making *m)
{
    uint32_t queue = builder_queue(m->builder, QUEUE_COMPUTE, "compute");
    note(m, builder_op(m->builder, OP_MARK, queue, SCHED_NONE, PHASE_OTHER), BENCH_NOBODY, BENCH_NOBODY);
}

static void peer_series(struct making *m, uint32_t point, uint32_t queue, uint32_t from_space, uint32_t to_space)
{
    const struct point *p = &m->points[point];
    uint32_t ring = ring_size(m, p), from[RING_MAX], to[RING_MAX];
    uint32_t work = builder_work_transfer(m->builder, p->bytes, false);
    for (uint32_t i = 0; i < ring; i++) {
        from[i] = lasting_buffer(m, from_space, p->bytes, BUFFER_BOUNDARY);
        to[i] = lasting_buffer(m, to_space, p->bytes, BUFFER_BOUNDARY);
    }
    for (uint32_t i = 0; i < m->repeats[point]; i++) {
        note(m, builder_op(m->builder, OP_COPY_P2P, queue, work, PHASE_OFFLOAD), point, 0);
        builder_read(m->builder, from[i % ring]);
        builder_write(m->builder, to[i % ring]);
    }
}

/* The sender copies into the other's memory. */
static void make_peer_copies(struct making *m)
{
    const struct point *first = &m->points[0];
    uint32_t from_space = device_space(m, first->from), to_space = device_space(m, first->to);
    for (uint32_t side = 0; side < 2; side++) { /* the lower device first */
        bool sends = (side == 0) == (first->from < first->to);
        open_rank(m, sends ? first->from : first->to);
        if (!sends) {
            idle_rank(m);
            continue;
        }
        uint32_t queue = builder_queue(m->builder, QUEUE_P2P, "to peer");
        for (uint32_t i = 0; i < m->point_count; i++) {
            peer_series(m, i, queue, from_space, to_space);
        }
    }
}

/* ---- collectives ---- */

static enum opcode collective_opcode(enum collective_kind kind)
{
    switch (kind) {
    case COLLECTIVE_ALL_REDUCE: return OP_ALL_REDUCE;
    case COLLECTIVE_ALL_GATHER: return OP_ALL_GATHER;
    case COLLECTIVE_REDUCE_SCATTER: return OP_REDUCE_SCATTER;
    case COLLECTIVE_BROADCAST: return OP_BROADCAST;
    case COLLECTIVE_ALL_TO_ALL: return OP_ALL_TO_ALL;
    case COLLECTIVE_SEND_RECV: return OP_SEND;
    case COLLECTIVE_KIND_COUNT: break;
    }
    check_failed("a collective's kind", __FILE__, __LINE__);
}

/* On a machine of threads a collective alone in a loop finds its threads awake and its data in the caches; in a step each waits for kernels of its rank, which leave other things there, and the ranks come one after
 * the other. So they do here: behind a product that goes through more than a core's own cache, and for one rank after the other behind a further one. That one takes about half a
 * millisecond: longer than a core that has nothing to do is kept ready (hypervisors look for new work for up to 0.2 ms), for within that time waking costs next to nothing. A collective stands in the queue of the products, as those
 * of tensor parallel layers do: who comes last begins it at once, and the others have to be woken. */
enum { AWAITED_SIZE = 384, LATE_SIZE = 256 };

static uint32_t square_product(struct making *m, uint32_t compute, uint64_t size, uint32_t before)
{
    const struct kernel product = { .kernel_class = KERNEL_GEMM,
                                    .dtype = DTYPE_FP32,
                                    .launches = 1,
                                    .batch = 1,
                                    .m = size,
                                    .n = size,
                                    .k = size,
                                    .flops = 2.0 * (double)(size * size * size),
                                    .bytes_read = 8.0 * (double)(size * size),
                                    .bytes_written = 4.0 * (double)(size * size) };
    uint32_t op = builder_op(m->builder, OP_COMPUTE, compute, kernel_work(m, &product), PHASE_FORWARD);
    note(m, op, BENCH_NOBODY, BENCH_NOBODY);
    builder_depends(m->builder, before);
    return op;
}

static uint32_t awaited_kernels(struct making *m, uint32_t compute, bool late, uint32_t before)
{
    if (compute == SCHED_NONE) {
        return SCHED_NONE;
    }
    uint32_t op = square_product(m, compute, AWAITED_SIZE, before);
    return late ? square_product(m, compute, LATE_SIZE, before) : op;
}

/* One rank's part; `matches` are the point's, one a repeat. A pair names its buffers, the members of a collective none, as in lowered steps. */
static void collective_series(struct making *m, uint32_t point, uint32_t rank, uint32_t queue, uint32_t compute,
                              uint32_t space, const uint32_t *matches)
{
    uint32_t op = SCHED_NONE;
    const struct point *p = &m->points[point];
    bool pair = p->collective == COLLECTIVE_SEND_RECV;
    uint32_t ring = pair ? ring_size(m, p) : 0, buffers[RING_MAX];
    uint32_t work = pair ? builder_work_transfer(m->builder, p->bytes, false)
                         : builder_work_collective(m->builder, m->group, p->bytes, DTYPE_FP32);
    for (uint32_t i = 0; i < ring; i++) {
        buffers[i] = lasting_buffer(m, space, p->bytes, BUFFER_BOUNDARY);
    }
    for (uint32_t i = 0; i < m->repeats[point]; i++) {
        enum opcode opcode = pair && rank == 1 ? OP_RECV : collective_opcode(p->collective);
        uint32_t awaited = awaited_kernels(m, compute, i % p->ranks == rank, op);
        op = builder_op(m->builder, opcode, queue, work, pair ? PHASE_PIPELINE_COMM : PHASE_DATA_COMM);
        builder_depends(m->builder, awaited);
        note(m, op, rank == 0 ? point : BENCH_NOBODY, 0); /* members share start and end */
        if (pair && rank == 0) {
            builder_read(m->builder, buffers[i % ring]);
        } else if (pair) {
            builder_write(m->builder, buffers[i % ring]);
        }
        builder_set_match(m->builder, matches[i]);
    }
}

/* Ranks 0 and up, in step: each match is one repeat. */
static void make_collectives(struct making *m)
{
    uint32_t ranks = m->points[0].ranks, total = 0, *members = malloc(ranks * sizeof *members);
    bool pair = m->points[0].collective == COLLECTIVE_SEND_RECV;
    for (uint32_t i = 0; i < m->point_count; i++) {
        total += m->repeats[i];
    }
    uint32_t *matches = calloc(total + 1, sizeof *matches);
    if (members == NULL || matches == NULL) {
        m->status = error_set(m->error, STATUS_NO_MEMORY, "out of memory: a benchmark of %u ranks", ranks);
        goto done;
    }
    for (uint32_t i = 0; i < ranks; i++) {
        members[i] = i;
    }
    m->group = builder_group(m->builder, members, ranks, 1, pair ? "pair" : "all");
    for (uint32_t i = 0; i < total; i++) {
        matches[i] = builder_match(m->builder, m->group, ranks);
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint32_t space = device_space(m, rank);
        open_rank(m, rank);
        uint32_t compute = m->options->on_host ? builder_queue(m->builder, QUEUE_COMPUTE, "compute") : SCHED_NONE;
        uint32_t queue = pair                    ? builder_queue(m->builder, QUEUE_P2P, "pair")
                         : compute != SCHED_NONE ? compute
                                                 : builder_queue(m->builder, QUEUE_COMM, "collectives");
        for (uint32_t i = 0, at = 0; i < m->point_count; at += m->repeats[i++]) {
            collective_series(m, i, rank, queue, compute, space, matches + at);
        }
    }
done:
    free(members);
    free(matches);
}

/* ---- storage ---- */

static void make_storage(struct making *m)
{
    uint32_t storage = builder_space(m->builder, SPACE_STORAGE, 0, UINT64_MAX, SCHED_NONE, "storage");
    (void)device_space(m, 0);
    open_rank(m, 0);
    uint32_t queue = builder_queue(m->builder, QUEUE_STORAGE, "storage");
    for (uint32_t i = 0; i < m->point_count; i++) {
        const struct point *p = &m->points[i];
        bool read = p->way == COPY_READ;
        uint32_t work = builder_work_transfer(m->builder, p->bytes, false);
        uint32_t file = lasting_buffer(m, storage, p->bytes, BUFFER_OPTIMIZER);
        uint32_t memory = lasting_buffer(m, m->pinned, p->bytes, BUFFER_OPTIMIZER);
        for (uint32_t k = 0; k < m->repeats[i]; k++) {
            note(m, builder_op(m->builder, read ? OP_STORAGE_READ : OP_STORAGE_WRITE, queue, work, PHASE_OFFLOAD), i,
                 0);
            builder_read(m->builder, read ? file : memory);
            builder_write(m->builder, read ? memory : file);
        }
    }
}

/* ---- costs of issuing and of fresh memory ---- */

/* The shortest kernel: one element in, one out. */
static const struct kernel SHORTEST = { .kernel_class = KERNEL_ELEMENTWISE,
                                        .dtype = DTYPE_FP32,
                                        .launches = 1,
                                        .batch = 1,
                                        .m = 1,
                                        .n = 1,
                                        .k = 1,
                                        .bytes_read = 4,
                                        .bytes_written = 4 };
static const double SHORT_COPY_BYTES = 4096;

/* Short kernels, short copies, or in turn one of each that waits for the other. */
static void make_short_ops(struct making *m, bool kernels, bool copies)
{
    uint32_t compute = kernel_work(m, &SHORTEST), transfer = builder_work_transfer(m->builder, SHORT_COPY_BYTES, false);
    uint32_t space = device_space(m, 0), last = SCHED_NONE, queues[2] = { SCHED_NONE, SCHED_NONE };
    open_rank(m, 0);
    if (kernels) {
        queues[0] = builder_queue(m->builder, QUEUE_COMPUTE, "compute");
    }
    if (copies) {
        queues[1] = builder_queue(m->builder, QUEUE_H2D, "to device");
    }
    uint32_t from = lasting_buffer(m, m->pinned, SHORT_COPY_BYTES, BUFFER_WEIGHT);
    uint32_t to = lasting_buffer(m, space, SHORT_COPY_BYTES, BUFFER_WEIGHT);
    for (uint32_t i = 0; i < m->repeats[0] * SHORT_SERIES_FACTOR; i++) {
        bool copy = copies && (!kernels || i % 2 == 1);
        uint32_t op = copy ? builder_op(m->builder, OP_COPY_H2D, queues[1], transfer, PHASE_OFFLOAD)
                           : builder_op(m->builder, OP_COMPUTE, queues[0], compute, PHASE_FORWARD);
        note(m, op, 0, 0);
        builder_depends(m->builder, last); /* of its own queue: nothing */
        if (copy) {
            builder_read(m->builder, from);
            builder_write(m->builder, to);
        }
        last = op;
    }
}

static void make_issue(struct making *m)
{
    switch (m->points[0].issue) {
    case ISSUE_OP:
    case ISSUE_KERNEL: make_short_ops(m, true, false); break;
    case ISSUE_WAKE: make_short_ops(m, true, true); break;
    case ISSUE_COPY: make_short_ops(m, false, true); break;
    case ISSUE_COUNT: break;
    }
}

/* A copy into warm memory, twice; one into memory acquired for it, and one into the same again. The first of the four only warms. */
static void make_fresh(struct making *m)
{
    double bytes = m->points[0].bytes;
    uint32_t space = device_space(m, 0);
    open_rank(m, 0);
    uint32_t queue = builder_queue(m->builder, QUEUE_H2D, "to device");
    uint32_t work = builder_work_transfer(m->builder, bytes, false);
    uint32_t from = lasting_buffer(m, m->pinned, bytes, BUFFER_WEIGHT);
    uint32_t warm = lasting_buffer(m, space, bytes, BUFFER_WEIGHT);
    uint32_t fresh = builder_buffer(m->builder, space, (uint64_t)bytes, 1, BUFFER_WORKSPACE, 0, 0);
    for (uint32_t i = 0; i < 4; i++) {
        note(m, builder_op(m->builder, OP_COPY_H2D, queue, work, PHASE_OFFLOAD), i == 0 ? BENCH_NOBODY : 0, 0);
        if (i == 2) {
            builder_acquire(m->builder, fresh);
        }
        if (i == 3) {
            builder_release(m->builder, fresh);
        }
        builder_read(m->builder, from);
        builder_write(m->builder, i < 2 ? warm : fresh);
    }
}

/* ---- benches ---- */

static bool has_several_series(const struct point *p)
{
    return p->at_once > 1 || (p->kind == POINT_COPY && p->way == COPY_BOTH);
}

bool bench_joins(const struct measure_options *options, const struct point *a, const struct point *b)
{
    if (a->kind != b->kind || (has_several_series(a) && !options->on_host)) {
        return false; /* on GPUs ranks do not meet: nothing would make them begin a point together */
    }
    switch (a->kind) {
    case POINT_KERNEL:
    case POINT_HOST_OPTIMIZER: return a->at_once == b->at_once;
    case POINT_COPY: return a->way == b->way && a->to == b->to && a->from == b->from && a->at_once == b->at_once;
    case POINT_COLLECTIVE:
        return a->ranks == b->ranks &&
               (a->collective == COLLECTIVE_SEND_RECV) == (b->collective == COLLECTIVE_SEND_RECV);
    case POINT_STORAGE: return true;
    case POINT_ISSUE:
    case POINT_ALLOCATION:
    case POINT_KIND_COUNT: break;
    }
    return false;
}

static void make(struct making *m)
{
    const struct point *p = &m->points[0];
    m->bench->rule = BENCH_DURATION;
    if (p->kind == POINT_ISSUE) {
        m->bench->rule = p->issue == ISSUE_OP || p->issue == ISSUE_WAKE ? BENCH_GAP : BENCH_PACE;
    } else if (p->kind == POINT_ALLOCATION) {
        m->bench->rule = BENCH_FRESH;
    }
    switch (p->kind) {
    case POINT_KERNEL:
    case POINT_HOST_OPTIMIZER: make_work(m); break;
    case POINT_COPY: p->way == COPY_PEER ? make_peer_copies(m) : make_host_copies(m); break;
    case POINT_COLLECTIVE: make_collectives(m); break;
    case POINT_STORAGE: make_storage(m); break;
    case POINT_ISSUE: make_issue(m); break;
    case POINT_ALLOCATION: make_fresh(m); break;
    case POINT_KIND_COUNT: break;
    }
}

enum status bench_build(const struct measure_options *options, const struct point *points, const uint32_t *repeats,
                        uint32_t point_count, struct bench *bench, struct error *error)
{
    CHECK(point_count >= 1 && point_count <= BENCH_POINTS_MAX);
    *bench = (struct bench){ .point_count = point_count };
    struct making m = { .options = options,
                        .points = points,
                        .repeats = repeats,
                        .point_count = point_count,
                        .bench = bench,
                        .group = SCHED_NONE,
                        .error = error };
    m.builder = builder_new();
    if (m.builder == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: a benchmark");
    }
    m.host = builder_space(m.builder, SPACE_HOST, 0, options->host_bytes, SCHED_NONE, "host");
    m.pinned = builder_space(m.builder, SPACE_PINNED, 0, options->host_bytes, m.host, "pinned");
    make(&m);
    if (m.status != STATUS_OK) {
        builder_free(m.builder);
        bench_free(bench);
        return m.status;
    }
    enum status status = builder_finish(m.builder, &bench->schedule, error);
    if (status != STATUS_OK) {
        bench_free(bench);
    }
    return status;
}

void bench_free(struct bench *bench)
{
    schedule_free(&bench->schedule);
    free(bench->ops);
    *bench = (struct bench){ 0 };
}
