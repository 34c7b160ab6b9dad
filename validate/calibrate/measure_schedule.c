/* Points as schedules: ranks with series of equal ops. */
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "validate/calibrate/measure_schedule.h"

static const double RING_BYTES = 32.0 * (1 << 20);   /* so much is gone through before a buffer comes again */
static const double RINGS_BYTES = 128.0 * (1 << 20); /* ... of all series of a bench: first use of memory is dear */

void bench_note(struct bench_making *m, uint32_t op, uint32_t point, uint32_t series)
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

uint32_t bench_device_space(struct bench_making *m, uint32_t device)
{
    char text[32];
    (void)snprintf(text, sizeof text, "device %u", device);
    return builder_space(m->builder, SPACE_DEVICE, device, m->options->device_bytes, SCHED_NONE, text);
}

void bench_open_rank(struct bench_making *m, uint32_t device)
{
    char text[32];
    (void)snprintf(text, sizeof text, "device %u", device);
    (void)builder_rank(m->builder, &device, 1, SCHED_NONE, text);
}

uint32_t bench_lasting_buffer(struct bench_making *m, uint32_t space, double bytes, enum buffer_class buffer_class)
{
    return builder_buffer(m->builder, space, (uint64_t)bytes, 1, buffer_class,
                          BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END, 0);
}

uint32_t bench_ring_size(const struct bench_making *m, const struct point *p)
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
    uint32_t whole = count > BENCH_RING_MAX ? BENCH_RING_MAX : (uint32_t)count;
    return whole > 0 ? whole : 1;
}

/* ---- ranks that begin a point together ---- */

void bench_prepare_meetings(struct bench_making *m, uint32_t first_device, uint32_t ranks)
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

uint32_t bench_meet(struct bench_making *m, uint32_t point, uint32_t queue, const uint32_t last[2], uint32_t queues)
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
    bench_note(m, op, BENCH_NOBODY, BENCH_NOBODY);
    builder_depends(m->builder, last[0]);
    builder_depends(m->builder, last[1] == last[0] ? SCHED_NONE : last[1]);
    return op;
}

/* ---- kernels and the host's optimizer ---- */

uint32_t bench_kernel_work(struct bench_making *m, const struct kernel *kernel)
{
    const struct work_item item = { .index = builder_kernel(m->builder, kernel), .kind = ITEM_KERNEL };
    return builder_work_kernels(m->builder, &item, 1);
}

/* The same series on each rank. */
static void bench_make_work(struct bench_making *m)
{
    bool kernels = m->points[0].kind == POINT_KERNEL;
    uint32_t at_once = m->points[0].at_once, works[BENCH_POINTS_MAX];
    bench_prepare_meetings(m, 0, at_once);
    for (uint32_t i = 0; i < m->point_count; i++) {
        works[i] = kernels ? bench_kernel_work(m, &m->points[i].kernel)
                           : builder_work_host_optimizer(m->builder, m->points[i].parameters);
    }
    for (uint32_t device = 0; device < at_once; device++) {
        (void)bench_device_space(m, device);
        bench_open_rank(m, device);
        uint32_t queue = kernels ? builder_queue(m->builder, QUEUE_COMPUTE, "compute")
                                 : builder_queue(m->builder, QUEUE_HOST, "host");
        uint32_t aside = m->group != SCHED_NONE ? builder_queue(m->builder, QUEUE_COMM, "meetings") : SCHED_NONE;
        uint32_t last[2] = { SCHED_NONE, SCHED_NONE };
        for (uint32_t i = 0; i < m->point_count; i++) {
            uint32_t met = bench_meet(m, i, aside, last, 1);
            for (uint32_t k = 0; k < m->repeats[i]; k++) {
                last[0] = builder_op(m->builder, kernels ? OP_COMPUTE : OP_HOST_OPTIMIZER, queue, works[i],
                                     kernels ? PHASE_FORWARD : PHASE_OPTIMIZER);
                bench_note(m, last[0], i, device);
                builder_depends(m->builder, k == 0 ? met : SCHED_NONE);
            }
        }
    }
}

/* ---- storage ---- */

static void bench_make_storage(struct bench_making *m)
{
    uint32_t storage = builder_space(m->builder, SPACE_STORAGE, 0, UINT64_MAX, SCHED_NONE, "storage");
    (void)bench_device_space(m, 0);
    bench_open_rank(m, 0);
    uint32_t queue = builder_queue(m->builder, QUEUE_STORAGE, "storage");
    for (uint32_t i = 0; i < m->point_count; i++) {
        const struct point *p = &m->points[i];
        bool read = p->way == COPY_READ;
        uint32_t work = builder_work_transfer(m->builder, p->bytes, false);
        uint32_t file = bench_lasting_buffer(m, storage, p->bytes, BUFFER_OPTIMIZER);
        uint32_t memory = bench_lasting_buffer(m, m->pinned, p->bytes, BUFFER_OPTIMIZER);
        for (uint32_t k = 0; k < m->repeats[i]; k++) {
            bench_note(m, builder_op(m->builder, read ? OP_STORAGE_READ : OP_STORAGE_WRITE, queue, work, PHASE_OFFLOAD),
                       i, 0);
            builder_read(m->builder, read ? file : memory);
            builder_write(m->builder, read ? memory : file);
        }
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

static void make(struct bench_making *m)
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
    case POINT_HOST_OPTIMIZER: bench_make_work(m); break;
    case POINT_COPY: p->way == COPY_PEER ? bench_make_peer_copies(m) : bench_make_host_copies(m); break;
    case POINT_COLLECTIVE: bench_make_collectives(m); break;
    case POINT_STORAGE: bench_make_storage(m); break;
    case POINT_ISSUE: bench_make_issue(m); break;
    case POINT_ALLOCATION: bench_make_fresh(m); break;
    case POINT_KIND_COUNT: break;
    }
}

enum status bench_build(const struct measure_options *options, const struct point *points, const uint32_t *repeats,
                        uint32_t point_count, struct bench *bench, struct error *error)
{
    CHECK(point_count >= 1 && point_count <= BENCH_POINTS_MAX);
    *bench = (struct bench){ .point_count = point_count };
    struct bench_making m = { .options = options,
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
