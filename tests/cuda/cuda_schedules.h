/* Schedules for tests of the CUDA executor. */
#ifndef MEMWALL_TESTS_CUDA_SCHEDULES_H
#define MEMWALL_TESTS_CUDA_SCHEDULES_H

#include "sim/ir/builder.h"
#include "tests/test.h"

struct everything {
    struct builder *b;
    uint32_t host, pinned, storage, spaces[2], swapped[2], stored, pages[2], weights[2];
    uint32_t all, pair, match[6];
    uint32_t kernels, collective[6], transfer, pageable, peer, host_optimizer, delay;
};

static inline uint32_t everything_kernels(struct builder *b)
{
    const struct kernel kernels[] = {
        { .kernel_class = KERNEL_GEMM,
          .dtype = DTYPE_BF16,
          .layout = GEMM_TN,
          .launches = 1,
          .batch = 1,
          .m = 96,
          .n = 64,
          .k = 32,
          .bytes_read = 1e4,
          .bytes_written = 96.0 * 64 * 2 },
        { .kernel_class = KERNEL_GEMM,
          .dtype = DTYPE_FP16,
          .layout = GEMM_NT,
          .flags = KERNEL_FLAG_ACCUMULATE,
          .launches = 1,
          .batch = 3,
          .m = 48,
          .n = 80,
          .k = 16,
          .bytes_read = 1e4,
          .bytes_written = 3.0 * 48 * 80 * 4 },
        { .kernel_class = KERNEL_GEMM,
          .dtype = DTYPE_TF32,
          .layout = GEMM_NN,
          .launches = 2,
          .batch = 1,
          .m = 7,
          .n = 5,
          .k = 3,
          .bytes_read = 100,
          .bytes_written = 7.0 * 5 * 4 },
        { .kernel_class = KERNEL_ATTENTION_FORWARD,
          .dtype = DTYPE_FP16,
          .flags = KERNEL_FLAG_CAUSAL,
          .launches = 1,
          .batch = 6,
          .m = 40,
          .n = 40,
          .k = 16,
          .bytes_read = 1e4,
          .bytes_written = 1e4 },
        { .kernel_class = KERNEL_ATTENTION_BACKWARD,
          .dtype = DTYPE_BF16,
          .launches = 3,
          .batch = 2,
          .m = 24,
          .n = 36,
          .k = 8,
          .bytes_read = 1e4,
          .bytes_written = 1e4 },
        { .kernel_class = KERNEL_NORM,
          .dtype = DTYPE_BF16,
          .launches = 2,
          .batch = 1,
          .m = 33,
          .n = 100,
          .k = 1,
          .bytes_read = 33e2,
          .bytes_written = 66e2 },
        { .kernel_class = KERNEL_OPTIMIZER,
          .dtype = DTYPE_FP32,
          .launches = 1,
          .batch = 1,
          .m = 1,
          .n = 1000,
          .k = 1,
          .bytes_read = 16e3,
          .bytes_written = 14e3 },
        { .kernel_class = KERNEL_ELEMENTWISE, .dtype = DTYPE_FP8, .launches = 1, .batch = 1, .m = 1, .n = 1, .k = 1 },
    };
    struct work_item items[sizeof kernels / sizeof kernels[0]];
    uint32_t count = sizeof kernels / sizeof kernels[0];
    for (uint32_t i = 0; i < count; i++) {
        items[i] = (struct work_item){ .index = builder_kernel(b, &kernels[i]), .kind = ITEM_KERNEL };
    }
    return builder_work_kernels(b, items, count);
}

static inline void everything_ops(struct everything *e, uint32_t r)
{
    static const enum opcode collectives[] = { OP_ALL_REDUCE, OP_ALL_GATHER, OP_REDUCE_SCATTER,
                                               OP_BROADCAST,  OP_ALL_TO_ALL, OP_ALL_REDUCE };
    struct builder *b = e->b;
    builder_rank(b, &r, 1, r, r == 0 ? "stage 0" : "stage 1");
    uint32_t compute = builder_queue(b, QUEUE_COMPUTE, "compute"), comm = builder_queue(b, QUEUE_COMM, "comm");
    uint32_t h2d = builder_queue(b, QUEUE_H2D, "h2d"), d2h = builder_queue(b, QUEUE_D2H, "d2h");
    uint32_t p2p = builder_queue(b, QUEUE_P2P, "p2p"), host = builder_queue(b, QUEUE_HOST, "host");
    uint32_t disk = builder_queue(b, QUEUE_STORAGE, "storage");
    uint32_t first = builder_op(b, OP_COMPUTE, compute, e->kernels, PHASE_FORWARD);
    builder_read(b, e->weights[r]);
    uint32_t down = builder_op(b, OP_COPY_D2H, d2h, e->transfer, PHASE_OFFLOAD);
    builder_depends(b, first);
    builder_read(b, e->weights[r]);
    builder_write(b, e->pages[r]);
    uint32_t update = builder_op(b, OP_HOST_OPTIMIZER, host, e->host_optimizer, PHASE_OPTIMIZER);
    builder_depends(b, down);
    uint32_t write = builder_op(b, OP_STORAGE_WRITE, disk, e->transfer, PHASE_OFFLOAD);
    builder_depends(b, update);
    builder_read(b, e->pages[r]);
    uint32_t read = builder_op(b, OP_STORAGE_READ, disk, e->pageable, PHASE_OFFLOAD);
    builder_op(b, OP_MARK, h2d, SCHED_NONE, PHASE_OTHER);
    builder_depends(b, write);
    uint32_t up = builder_op(b, OP_COPY_H2D, h2d, e->pageable, PHASE_OFFLOAD);
    builder_depends(b, read);
    for (uint32_t i = 0; i < 6; i++) {
        builder_op(b, collectives[i], comm, e->collective[i], PHASE_DATA_COMM);
        builder_depends(b, i == 0 ? up : i == 1 ? first : SCHED_NONE);
        builder_set_match(b, e->match[i]);
    }
    uint32_t swap = builder_op(b, OP_COPY_P2P, p2p, e->peer, PHASE_OFFLOAD);
    if (r == 0) {
        builder_write(b, e->swapped[1]);
    } else {
        builder_read(b, e->swapped[0]);
    }
    builder_op(b, r == 0 ? OP_SEND : OP_RECV, p2p, e->transfer, PHASE_PIPELINE_COMM);
    builder_set_match(b, e->pair);
    builder_op(b, OP_DELAY, compute, e->delay, PHASE_OTHER);
    builder_depends(b, swap);
    builder_op(b, OP_DELAY, host, e->delay, PHASE_OTHER);
}

/* Two ranks, every opcode, every kind of work and space. */
static inline void everything_build(struct schedule *schedule)
{
    static const uint32_t devices[2] = { 0, 1 };
    struct error error = { 0 };
    struct everything e = { .b = builder_new() };
    struct builder *b = e.b;
    e.host = builder_space(b, SPACE_HOST, 0, 1000000000, SCHED_NONE, "host");
    e.pinned = builder_space(b, SPACE_PINNED, 0, 1000000000, e.host, "pinned");
    e.storage = builder_space(b, SPACE_STORAGE, 0, 1000000000, SCHED_NONE, "storage");
    for (uint32_t r = 0; r < 2; r++) {
        e.spaces[r] = builder_space(b, SPACE_DEVICE, r, 1000000000, SCHED_NONE, r == 0 ? "gpu 0" : "gpu 1");
    }
    e.all = builder_group(b, devices, 2, 1, "all");
    uint32_t both = BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END;
    for (uint32_t r = 0; r < 2; r++) {
        e.weights[r] =
            builder_buffer(b, e.spaces[r], 50000, 1, BUFFER_WEIGHT, (uint8_t)both, builder_label(b, "weights"));
        e.swapped[r] =
            builder_buffer(b, e.spaces[r], 3000, 1, BUFFER_ACTIVATION, (uint8_t)both, builder_label(b, "swapped"));
        e.pages[r] = builder_buffer(b, e.pinned, 50000, 1, BUFFER_OPTIMIZER, (uint8_t)both, builder_label(b, "pages"));
    }
    e.stored = builder_buffer(b, e.storage, 50000, 1, BUFFER_OPTIMIZER, (uint8_t)both, builder_label(b, "stored"));
    e.kernels = everything_kernels(b);
    for (uint32_t i = 0; i < 5; i++) {
        e.collective[i] = builder_work_collective(b, e.all, 4001, i % 2 == 0 ? DTYPE_BF16 : DTYPE_FP32);
        e.match[i] = builder_match(b, e.all, 2);
    }
    e.collective[5] = builder_work_fixed(b, 2000000);
    e.match[5] = builder_match(b, e.all, 2);
    e.pair = builder_match(b, e.all, 2);
    e.transfer = builder_work_transfer(b, 45000, false);
    e.pageable = builder_work_transfer(b, 33333, true);
    e.peer = builder_work_transfer(b, 7000, false);
    e.host_optimizer = builder_work_host_optimizer(b, 12345);
    e.delay = builder_work_fixed(b, 3000000);
    everything_ops(&e, 0);
    everything_ops(&e, 1);
    if (builder_finish(b, schedule, &error) != STATUS_OK) {
        printf("everything: %s\n", error.message);
        abort();
    }
}

#endif
