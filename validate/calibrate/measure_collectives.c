/* Collectives and pairs of ranks as schedules: one match a repeat. */
#include <stdlib.h>

#include "sim/base/check.h"
#include "validate/calibrate/measure_schedule.h"

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

static uint32_t square_product(struct bench_making *m, uint32_t compute, uint64_t size, uint32_t before)
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
    uint32_t op = builder_op(m->builder, OP_COMPUTE, compute, bench_kernel_work(m, &product), PHASE_FORWARD);
    bench_note(m, op, BENCH_NOBODY, BENCH_NOBODY);
    builder_depends(m->builder, before);
    return op;
}

static uint32_t awaited_kernels(struct bench_making *m, uint32_t compute, bool late, uint32_t before)
{
    if (compute == SCHED_NONE) {
        return SCHED_NONE;
    }
    uint32_t op = square_product(m, compute, AWAITED_SIZE, before);
    return late ? square_product(m, compute, LATE_SIZE, before) : op;
}

/* One rank's part; `matches` are the point's, one a repeat. A pair names its buffers, the members of a collective none, as in lowered steps. */
static void collective_series(struct bench_making *m, uint32_t point, uint32_t rank, uint32_t queue, uint32_t compute,
                              uint32_t space, const uint32_t *matches)
{
    uint32_t op = SCHED_NONE;
    const struct point *p = &m->points[point];
    bool pair = p->collective == COLLECTIVE_SEND_RECV;
    uint32_t ring = pair ? bench_ring_size(m, p) : 0, buffers[BENCH_RING_MAX];
    uint32_t work = pair ? builder_work_transfer(m->builder, p->bytes, false)
                         : builder_work_collective(m->builder, m->group, p->bytes, DTYPE_FP32);
    CHECK(pair ? ring > 0 : ring == 0);
    for (uint32_t i = 0; i < ring; i++) {
        buffers[i] = bench_lasting_buffer(m, space, p->bytes, BUFFER_BOUNDARY);
    }
    for (uint32_t i = 0; i < m->repeats[point]; i++) {
        enum opcode opcode = pair && rank == 1 ? OP_RECV : collective_opcode(p->collective);
        uint32_t awaited = awaited_kernels(m, compute, i % p->ranks == rank, op);
        op = builder_op(m->builder, opcode, queue, work, pair ? PHASE_PIPELINE_COMM : PHASE_DATA_COMM);
        builder_depends(m->builder, awaited);
        bench_note(m, op, rank == 0 ? point : BENCH_NOBODY, 0); /* members share start and end */
        if (pair && rank == 0) {
            builder_read(m->builder, buffers[i % ring]);
        } else if (pair) {
            builder_write(m->builder, buffers[i % ring]);
        }
        builder_set_match(m->builder, matches[i]);
    }
}

/* Ranks 0 and up, in step: each match is one repeat. */
void bench_make_collectives(struct bench_making *m)
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
        uint32_t space = bench_device_space(m, rank);
        bench_open_rank(m, rank);
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
