/* Copies as schedules: series between the host and each device, or from one device's memory to another's. */
#include "sim/base/check.h"
#include "validate/calibrate/measure_schedule.h"

/* One series between the host and the open rank; returns its last op. */
static uint32_t host_series(struct bench_making *m, uint32_t point, uint32_t device_space_index, uint32_t queue,
                            bool down, uint32_t series, uint32_t met)
{
    const struct point *p = &m->points[point];
    uint32_t ring = bench_ring_size(m, p), there[BENCH_RING_MAX], here[BENCH_RING_MAX], op = SCHED_NONE;
    uint32_t work = builder_work_transfer(m->builder, p->bytes, p->pageable);
    CHECK(ring > 0);
    for (uint32_t i = 0; i < ring; i++) { /* pinned memory is a part of the host's */
        there[i] = bench_lasting_buffer(m, device_space_index, p->bytes, BUFFER_WEIGHT);
        here[i] = bench_lasting_buffer(m, p->pageable ? m->host : m->pinned, p->bytes, BUFFER_OPTIMIZER);
    }
    for (uint32_t i = 0; i < m->repeats[point]; i++) {
        op = builder_op(m->builder, down ? OP_COPY_D2H : OP_COPY_H2D, queue, work, PHASE_OFFLOAD);
        bench_note(m, op, point, series);
        builder_read(m->builder, down ? there[i % ring] : here[i % ring]);
        builder_write(m->builder, down ? here[i % ring] : there[i % ring]);
        builder_depends(m->builder, i == 0 ? met : SCHED_NONE);
    }
    return op;
}

void bench_make_host_copies(struct bench_making *m)
{
    const struct point *first = &m->points[0];
    bool up = first->way != COPY_D2H, down = first->way != COPY_H2D;
    bench_prepare_meetings(m, first->to, first->at_once);
    for (uint32_t d = 0; d < first->at_once; d++) {
        uint32_t space = bench_device_space(m, first->to + d), last[2] = { SCHED_NONE, SCHED_NONE };
        bench_open_rank(m, first->to + d);
        uint32_t queue_up = up ? builder_queue(m->builder, QUEUE_H2D, "to device") : SCHED_NONE;
        uint32_t queue_down = down ? builder_queue(m->builder, QUEUE_D2H, "to host") : SCHED_NONE;
        bool aside = m->group != SCHED_NONE || (up && down);
        uint32_t queue_aside = aside ? builder_queue(m->builder, QUEUE_COMM, "meetings") : SCHED_NONE;
        for (uint32_t i = 0; i < m->point_count; i++) {
            uint32_t met = bench_meet(m, i, queue_aside, last, up && down ? 2 : 1), series = up && down ? 2 * d : d;
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
static void idle_rank(struct bench_making *m)
{
    uint32_t queue = builder_queue(m->builder, QUEUE_COMPUTE, "compute");
    bench_note(m, builder_op(m->builder, OP_MARK, queue, SCHED_NONE, PHASE_OTHER), BENCH_NOBODY, BENCH_NOBODY);
}

static void peer_series(struct bench_making *m, uint32_t point, uint32_t queue, uint32_t from_space, uint32_t to_space)
{
    const struct point *p = &m->points[point];
    uint32_t ring = bench_ring_size(m, p), from[BENCH_RING_MAX], to[BENCH_RING_MAX];
    uint32_t work = builder_work_transfer(m->builder, p->bytes, false);
    CHECK(ring > 0);
    for (uint32_t i = 0; i < ring; i++) {
        from[i] = bench_lasting_buffer(m, from_space, p->bytes, BUFFER_BOUNDARY);
        to[i] = bench_lasting_buffer(m, to_space, p->bytes, BUFFER_BOUNDARY);
    }
    for (uint32_t i = 0; i < m->repeats[point]; i++) {
        bench_note(m, builder_op(m->builder, OP_COPY_P2P, queue, work, PHASE_OFFLOAD), point, 0);
        builder_read(m->builder, from[i % ring]);
        builder_write(m->builder, to[i % ring]);
    }
}

/* The sender copies into the other's memory. */
void bench_make_peer_copies(struct bench_making *m)
{
    const struct point *first = &m->points[0];
    uint32_t from_space = bench_device_space(m, first->from), to_space = bench_device_space(m, first->to);
    for (uint32_t side = 0; side < 2; side++) { /* the lower device first */
        bool sends = (side == 0) == (first->from < first->to);
        bench_open_rank(m, sends ? first->from : first->to);
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
