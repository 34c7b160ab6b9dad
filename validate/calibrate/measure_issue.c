/* Costs of issuing and of fresh memory as schedules: series of the shortest kernels and copies. */
#include "validate/calibrate/measure_schedule.h"

enum { SHORT_SERIES_FACTOR = 16 };

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
static void make_short_ops(struct bench_making *m, bool kernels, bool copies)
{
    uint32_t compute = bench_kernel_work(m, &SHORTEST),
             transfer = builder_work_transfer(m->builder, SHORT_COPY_BYTES, false);
    uint32_t space = bench_device_space(m, 0), last = SCHED_NONE, queues[2] = { SCHED_NONE, SCHED_NONE };
    bench_open_rank(m, 0);
    if (kernels) {
        queues[0] = builder_queue(m->builder, QUEUE_COMPUTE, "compute");
    }
    if (copies) {
        queues[1] = builder_queue(m->builder, QUEUE_H2D, "to device");
    }
    uint32_t from = bench_lasting_buffer(m, m->pinned, SHORT_COPY_BYTES, BUFFER_WEIGHT);
    uint32_t to = bench_lasting_buffer(m, space, SHORT_COPY_BYTES, BUFFER_WEIGHT);
    for (uint32_t i = 0; i < m->repeats[0] * SHORT_SERIES_FACTOR; i++) {
        bool copy = copies && (!kernels || i % 2 == 1);
        uint32_t op = copy ? builder_op(m->builder, OP_COPY_H2D, queues[1], transfer, PHASE_OFFLOAD)
                           : builder_op(m->builder, OP_COMPUTE, queues[0], compute, PHASE_FORWARD);
        bench_note(m, op, 0, 0);
        builder_depends(m->builder, last); /* of its own queue: nothing */
        if (copy) {
            builder_read(m->builder, from);
            builder_write(m->builder, to);
        }
        last = op;
    }
}

void bench_make_issue(struct bench_making *m)
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
void bench_make_fresh(struct bench_making *m)
{
    double bytes = m->points[0].bytes;
    uint32_t space = bench_device_space(m, 0);
    bench_open_rank(m, 0);
    uint32_t queue = builder_queue(m->builder, QUEUE_H2D, "to device");
    uint32_t work = builder_work_transfer(m->builder, bytes, false);
    uint32_t from = bench_lasting_buffer(m, m->pinned, bytes, BUFFER_WEIGHT);
    uint32_t warm = bench_lasting_buffer(m, space, bytes, BUFFER_WEIGHT);
    uint32_t fresh = builder_buffer(m->builder, space, (uint64_t)bytes, 1, BUFFER_WORKSPACE, 0, 0);
    for (uint32_t i = 0; i < 4; i++) {
        bench_note(m, builder_op(m->builder, OP_COPY_H2D, queue, work, PHASE_OFFLOAD), i == 0 ? BENCH_NOBODY : 0, 0);
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
