/* Sharing as hardware.md C.1 and E have it, through schedules: routes, cost table, engine. */
#include "sim/engine/collective_cost.h"
#include "sim/engine/kernel_cost.h"
#include "tests/cluster_machines.h"
#include "tests/engine_run.h"

struct bench {
    struct hand_machine made;
    struct cluster cluster;
    struct builder *b;
    uint32_t host[2]; /* spaces of servers 0 and 1 */
    struct schedule schedule;
    struct cost_table table;
    struct timeline timeline;
};

static void begin(struct bench *bench, void (*hand)(struct hand_machine *), uint32_t nodes)
{
    struct error error = { 0 };
    hand(&bench->made);
    bench->made.machine.cpu_adam_parameters_per_s_core = 0.15e9;
    bench->made.machine.gpu.peak_flops[DTYPE_FP16] = 312e12;
    bench->made.machine.gpu.peak_flops[DTYPE_FP32] = 19.5e12;
    for (int i = 0; i < KERNEL_CLASS_COUNT; i++) {
        bench->made.machine.gpu.class_efficiency[i] = 1;
    }
    if (cluster_build(&bench->cluster, &bench->made.machine, nodes, 0, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
    }
    bench->b = builder_new();
    for (uint32_t n = 0; n < 2; n++) {
        bench->host[n] = builder_space(bench->b, SPACE_HOST, n, UINT64_MAX, SCHED_NONE, "host");
    }
}

/* Simulates and keeps the timeline. */
static bool simulate(struct bench *bench)
{
    return finish_builder(bench->b, &bench->schedule) &&
           run_schedule(&bench->schedule, &bench->cluster, NULL, false, &bench->table, &bench->timeline);
}

static void end(struct bench *bench)
{
    timeline_free(&bench->timeline);
    cost_table_free(&bench->table);
    schedule_free(&bench->schedule);
    cluster_free(&bench->cluster);
}

static uint32_t add_rank(struct bench *bench, const uint32_t *devices, uint32_t count)
{
    return builder_rank(bench->b, devices, count, SCHED_NONE, "rank");
}

/* A copy queue with one op on the open rank. */
static uint32_t add_copy(struct bench *bench, enum opcode opcode, double bytes, bool pageable)
{
    uint32_t queue = builder_queue(bench->b, opcode == OP_COPY_H2D ? QUEUE_H2D : QUEUE_D2H, "copy");
    return builder_op(bench->b, opcode, queue, builder_work_transfer(bench->b, bytes, pageable), PHASE_OFFLOAD);
}

/* Bytes a second of an op, its latency apart. */
static double rate_of(const struct bench *bench, uint32_t op, double bytes)
{
    const struct op_times *times = &bench->timeline.ops[op];
    int64_t latency = bench->table.costs[bench->table.op_costs[op]].latency_ps;
    return bytes / s_from_ps(times->end_ps - times->start_ps - latency);
}

static void test_both_directions(void)
{
    struct bench bench = { 0 };
    uint32_t gpu = 0;
    begin(&bench, hand_dgx_a100, 1);
    add_rank(&bench, &gpu, 1);
    uint32_t down = add_copy(&bench, OP_COPY_H2D, 1e9, false), up = add_copy(&bench, OP_COPY_D2H, 1e9, false);
    if (simulate(&bench)) {
        EXPECT_REAL(rate_of(&bench, down, 1e9), 18.5e9, 1e-6); /* 37 in all [E.1] */
        EXPECT_REAL(rate_of(&bench, up, 1e9), 18.5e9, 1e-6);
        EXPECT_REAL(1e9 / s_from_ps(bench.timeline.ops[up].alone_ps), 25.5e9, 1e-4);
    }
    end(&bench);
}

/* Copies of `count` GPUs, each a rank, or one rank folded over all of them. */
static double shared_rate(void (*hand)(struct hand_machine *), const uint32_t *gpus, uint32_t count, bool folded)
{
    struct bench bench = { 0 };
    double rate = 0;
    uint32_t op = 0;
    begin(&bench, hand, 1);
    for (uint32_t g = 0; g < (folded ? 1 : count); g++) {
        add_rank(&bench, gpus + g, folded ? count : 1);
        op = add_copy(&bench, OP_COPY_H2D, 1e9, false);
    }
    if (simulate(&bench)) {
        rate = rate_of(&bench, op, 1e9);
    }
    end(&bench);
    return rate;
}

static void test_shared_uplinks(void)
{
    static const uint32_t gpus[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    EXPECT_REAL(shared_rate(hand_dgx_a100, gpus, 2, false), 12.75e9, 1e-6); /* a pair behind one switch [E.2] */
    EXPECT_REAL(shared_rate(hand_dgx_a100, gpus + 1, 2, false), 25.5e9, 1e-6);
    EXPECT_REAL(shared_rate(hand_dgx1, gpus, 2, false), 12.2e9 / 2, 1e-6);
    EXPECT_REAL(shared_rate(hand_pcie_box, gpus, 2, false), 25.5e9, 1e-6); /* root ports of their own */
    EXPECT_REAL(shared_rate(hand_dgx2, gpus, 4, false), 12.2e9 / 4, 1e-6);
    EXPECT_REAL(shared_rate(hand_dgx2, gpus, 16, false), 12.2e9 / 4, 1e-6); /* 12 -> 3 GB/s [E.2] */
    /* Folded ranks see their phantoms. */
    EXPECT_REAL(shared_rate(hand_dgx_a100, gpus, 2, true), 12.75e9, 1e-6);
    EXPECT_REAL(shared_rate(hand_dgx_a100, gpus, 8, true), 12.75e9, 1e-6);
    EXPECT_REAL(shared_rate(hand_dgx2, gpus, 16, true), 12.2e9 / 4, 1e-6);
}

/* CPU Adam of four ranks on a socket asks for 64 cores * 0.15 G/s * 28 B = 269 GB/s of 165: bound by DRAM. A copy beside it: both move bytes through
 * the same DRAM, fair in bytes, and the copy needs less than a fifth. */
static void test_dram(void)
{
    struct bench bench = { 0 };
    uint32_t adam[4], copy = 0;
    begin(&bench, hand_dgx_a100, 1);
    for (uint32_t g = 0; g < 4; g++) {
        add_rank(&bench, &g, 1);
        adam[g] = builder_op(bench.b, OP_HOST_OPTIMIZER, builder_queue(bench.b, QUEUE_HOST, "host"),
                             builder_work_host_optimizer(bench.b, 1e9), PHASE_OPTIMIZER);
        if (g == 0) {
            copy = add_copy(&bench, OP_COPY_H2D, 10e9, false);
        }
    }
    if (simulate(&bench)) {
        double alone = 1e9 / s_from_ps(bench.timeline.ops[adam[0]].alone_ps);
        EXPECT_REAL(alone, 16 * 0.15e9, 1e-6); /* one alone: its 16 cores */
        EXPECT_REAL(rate_of(&bench, copy, 10e9), 25.5e9, 1e-6);
        /* DRAM carried 28 B a parameter and the copy once; while all run, 165 - 25.5 GB/s are left for four. */
        double together = s_from_ps(bench.timeline.ops[copy].end_ps), shared = (165e9 - 25.5e9) / 28;
        double expected = together + (4e9 - shared * together) / (165e9 / 28);
        EXPECT_REAL(s_from_ps(bench.timeline.end_ps), expected, 1e-4);
        uint32_t dram = cluster_dram(&bench.cluster, 0, 0);
        EXPECT_REAL(bench.timeline.resources[dram].amount, 4e9 * 28 + 10e9, 1e-9);
        EXPECT_REAL(bench.timeline.resources[dram].peak_use, 165e9, 1e-9);
        EXPECT_REAL(bench.timeline.resources[dram].busy_s, s_from_ps(bench.timeline.end_ps), 1e-12);
    }
    end(&bench);
}

/* One copy down, pageable, into `block` bytes that it allocates (0: that are there): its bytes a second. */
static double down_rate(uint64_t block, bool pageable, double first_touch)
{
    struct bench bench = { 0 };
    uint32_t gpu = 0;
    double rate = 0;
    begin(&bench, hand_dgx_a100, 1);
    bench.made.machine.first_touch_bytes_per_s = first_touch;
    add_rank(&bench, &gpu, 1);
    uint32_t op = add_copy(&bench, OP_COPY_D2H, 1e9, pageable);
    if (block > 0) {
        uint32_t buffer =
            builder_buffer(bench.b, bench.host[0], block, 1, BUFFER_ACTIVATION, 0, builder_label(bench.b, "saved"));
        builder_acquire(bench.b, buffer);
        add_copy(&bench, OP_COPY_H2D, 1e9, pageable);
        builder_depends(bench.b, op);
        builder_release(bench.b, buffer);
    }
    if (simulate(&bench)) {
        rate = rate_of(&bench, op, 1e9);
    }
    end(&bench);
    return rate;
}

/* The core that copies into new pageable memory makes its pages before: rates in series. Not into small blocks, which come back from the heap, not where the memory is there or page-locked. */
static void test_new_pages(void)
{
    EXPECT_REAL(down_rate(1000000000, true, 3e9), 1 / (1 / 9e9 + 1 / 3e9), 1e-6);
    EXPECT_REAL(down_rate(32 << 20, true, 3e9), 1 / (1 / 9e9 + 1 / 3e9), 1e-6);
    EXPECT_REAL(down_rate((32 << 20) - 1, true, 3e9), 9e9, 1e-6);
    EXPECT_REAL(down_rate(0, true, 3e9), 9e9, 1e-6);
    EXPECT_REAL(down_rate(1000000000, false, 3e9), down_rate(0, false, 3e9), 0);
    EXPECT_REAL(down_rate(1000000000, true, 0), 9e9, 1e-6);
}

static struct kernel gemm(uint64_t m, uint64_t n, uint64_t k)
{
    return (struct kernel){ .kernel_class = KERNEL_GEMM,
                            .dtype = DTYPE_FP16,
                            .launches = 1,
                            .batch = 1,
                            .m = m,
                            .n = n,
                            .k = k,
                            .flops = 2.0 * (double)m * (double)n * (double)k,
                            .bytes_read = 2.0 * ((double)m * (double)k + (double)n * (double)k),
                            .bytes_written = 2.0 * (double)m * (double)n };
}

/* Four V100 with two links between each pair, each on a root port of its own: the server of hardware.md E.5. */
static void quad_v100(struct hand_machine *made)
{
    uint32_t gpus[4];
    hand_host(made, "quad-v100", 58e9, 20e9);
    made->machine.nvlink_collective_bytes_per_s = 134.4e9;
    made->machine.gpu.architecture = "Volta";
    made->machine.gpu.sm_count = 80;
    made->machine.gpu.hbm_bytes_per_s = 830e9;
    made->machine.collective_latency_s = 40e-6;
    for (uint32_t g = 0; g < 4; g++) {
        gpus[g] = hand_part(made, PART_GPU);
        hand_link(made, LINK_PCIE, g < 2 ? 0 : 2, gpus[g], 12.2e9, 21.5e9, 16);
        for (uint32_t other = 0; other < g; other++) {
            hand_link(made, LINK_NVLINK, gpus[other], gpus[g], 48e9, 0, 2);
        }
    }
}

/* Bus bandwidth of an all-gather of 256 MiB, alone or while each GPU copies to the host all the time. */
static double all_gather_rate(uint32_t count, bool copies, double *copy_rate)
{
    static const uint32_t gpus[] = { 0, 1, 2, 3 };
    struct bench bench = { 0 };
    double bytes = 256 * 1048576.0, rate = 0;
    begin(&bench, quad_v100, 1);
    uint32_t group = builder_group(bench.b, gpus, count, 1, "group"), match = builder_match(bench.b, group, count);
    uint32_t gather = 0, copy = 0;
    for (uint32_t i = 0; i < count; i++) {
        add_rank(&bench, gpus + i, 1);
        gather = builder_op(bench.b, OP_ALL_GATHER, builder_queue(bench.b, QUEUE_COMM, "comm"),
                            builder_work_collective(bench.b, group, bytes, DTYPE_FP16), PHASE_DATA_COMM);
        builder_set_match(bench.b, match);
        if (copies) {
            copy = add_copy(&bench, OP_COPY_D2H, 1e9, false);
        }
    }
    if (simulate(&bench)) {
        const struct op_times *times = &bench.timeline.ops[gather];
        rate = bytes * (count - 1) / count / s_from_ps(times->end_ps - times->start_ps);
        *copy_rate = copies ? rate_of(&bench, copy, 1e9) : 0;
        EXPECT(!copies || times->end_ps < bench.timeline.ops[copy].end_ps);
    }
    end(&bench);
    return rate;
}

/* hardware.md E.5: 129.0 -> 115.3 GB/s on four V100, 44.3 -> 40.7 on a pair with two links; one constant for both, 0.9. */
static void test_collective_beside_copies(void)
{
    static const double measured[] = { 115.3 / 129.0, 40.7 / 44.3 };
    for (int i = 0; i < 2; i++) {
        uint32_t count = i == 0 ? 4 : 2;
        double unused, copy_rate, alone = all_gather_rate(count, false, &unused);
        double beside = all_gather_rate(count, true, &copy_rate);
        EXPECT_REAL(copy_rate, 12.2e9, 1e-9); /* copies lose nothing */
        printf("all-gather on %u V100: %.1f GB/s alone, %.1f beside copies to the host (x%.3f, measured x%.3f); copies "
               "at %.2f "
               "GB/s\n",
               count, alone / 1e9, beside / 1e9, beside / alone, measured[i], copy_rate / 1e9);
        EXPECT(fabs(beside / alone - measured[i]) <
               0.025); /* the rule's own distance from the two, 0.018 and 0.006, and latency */
    }
}

/* A long kernel on GPU 0 beside a long all-reduce of two GPUs: returns the kernel's slowdown. */
static double beside_collective(const struct kernel *kernel, double *collective_stretch)
{
    struct bench bench = { 0 };
    double slowdown = 0;
    begin(&bench, hand_dgx_h100, 1);
    uint32_t members[] = { 0, 1 }, reduce = 0, compute = 0;
    uint32_t group = builder_group(bench.b, members, 2, 1, "pair"), match = builder_match(bench.b, group, 2);
    for (uint32_t g = 0; g < 2; g++) {
        add_rank(&bench, &g, 1);
        reduce = builder_op(bench.b, OP_ALL_REDUCE, builder_queue(bench.b, QUEUE_COMM, "comm"),
                            builder_work_collective(bench.b, group, 64e9, DTYPE_FP16), PHASE_DATA_COMM);
        builder_set_match(bench.b, match);
        if (g == 0) {
            /* The kernel starts when the all-reduce has passed its latency and ends before it. */
            uint32_t queue = builder_queue(bench.b, QUEUE_COMPUTE, "compute");
            struct work_item item = { builder_kernel(bench.b, kernel), ITEM_KERNEL, 0 };
            builder_op(bench.b, OP_DELAY, queue, builder_work_fixed(bench.b, 1000000000), PHASE_OTHER);
            compute = builder_op(bench.b, OP_COMPUTE, queue, builder_work_kernels(bench.b, &item, 1), PHASE_FORWARD);
        }
    }
    if (simulate(&bench)) {
        const struct op_times *times = &bench.timeline.ops[compute], *other = &bench.timeline.ops[reduce];
        EXPECT(times->end_ps < other->end_ps);
        slowdown = (double)(times->end_ps - times->start_ps) / (double)times->alone_ps;
        *collective_stretch = (double)(other->end_ps - other->start_ps) / (double)other->alone_ps;
    }
    end(&bench);
    return slowdown;
}

static void test_kernel_beside_collective(void)
{
    double stretch;
    struct kernel large = gemm(16384, 16384, 8192);
    double slowdown = beside_collective(&large, &stretch);
    printf("large GEMM beside a collective of 24 of 132 SMs: x%.4f\n", slowdown);
    EXPECT(slowdown > 1.15 && slowdown < 1.0 / (1 - 24.0 / 132) + 0.02); /* E.6 (a): x1.222 of its arithmetic */
    EXPECT_REAL(stretch, 1, 1e-9);
    struct kernel copy = { .kernel_class = KERNEL_ELEMENTWISE,
                           .dtype = DTYPE_FP16,
                           .launches = 1,
                           .batch = 1,
                           .m = 1,
                           .n = 1,
                           .k = 1,
                           .bytes_read = 2e9,
                           .bytes_written = 2e9 };
    slowdown = beside_collective(&copy, &stretch);
    printf("memory-bound kernel beside it: x%.4f\n", slowdown);
    EXPECT(slowdown >= 1 && slowdown < 3);
}

static void test_wave_slowdown(void)
{
    EXPECT_REAL(cost_wave_slowdown(13200, 132, 24), 1.0 / (1 - 24.0 / 132), 0.02); /* many waves: the share of SMs */
    EXPECT(cost_wave_slowdown(132, 132, 24) > 1.9); /* one full wave becomes two [E.6 (b)] */
    EXPECT(cost_wave_slowdown(132, 132, 24) <= 2);
    EXPECT_REAL(cost_wave_slowdown(100, 132, 24), 1, 0); /* fits beside it */
    EXPECT_REAL(cost_wave_slowdown(77, 132, 0), 1, 0);
    double last = 1;
    for (double tiles = 1; tiles < 400;
         tiles += 0.25) { /* no jumps: a quarter of a tile changes at most a twelfth of a wave's rise */
        double now = cost_wave_slowdown(tiles, 132, 24);
        EXPECT(now >= 1 && fabs(now - last) < 0.03);
        last = now;
    }
}

/* Two send/recv pairs between the same two servers through one NIC each share nothing; folded sisters of one rank on one GPU's NIC do. */
static void test_pairs(void)
{
    struct bench bench = { 0 };
    begin(&bench, hand_dgx_a100, 2);
    uint32_t pair[] = { 0, 8 };
    uint32_t group = builder_group(bench.b, pair, 2, 1, "pair"), match = builder_match(bench.b, group, 2);
    uint32_t work = builder_work_transfer(bench.b, 1e9, false), send;
    add_rank(&bench, &pair[0], 1);
    send = builder_op(bench.b, OP_SEND, builder_queue(bench.b, QUEUE_P2P, "send"), work, PHASE_PIPELINE_COMM);
    builder_set_match(bench.b, match);
    add_rank(&bench, &pair[1], 1);
    uint32_t compute = builder_queue(bench.b, QUEUE_COMPUTE, "compute");
    uint32_t late = builder_op(bench.b, OP_DELAY, compute, builder_work_fixed(bench.b, 5000), PHASE_OTHER);
    uint32_t recv = builder_op(bench.b, OP_RECV, builder_queue(bench.b, QUEUE_P2P, "recv"), work, PHASE_PIPELINE_COMM);
    builder_set_match(bench.b, match);
    builder_depends(bench.b, late);
    if (simulate(&bench)) {
        EXPECT_INT(bench.timeline.ops[send].ready_ps, 0);
        EXPECT_INT(bench.timeline.ops[send].matched_ps, 5000); /* rendezvous */
        EXPECT_INT(bench.timeline.ops[send].start_ps, bench.timeline.ops[recv].start_ps);
        EXPECT_INT(bench.timeline.ops[send].end_ps, bench.timeline.ops[recv].end_ps);
        double rate = rate_of(&bench, send, 1e9);
        printf("1 GB from server to server: %.2f GB/s\n", rate / 1e9);
        EXPECT(rate > 0.7 * 25e9 && rate <= 25e9);
    }
    end(&bench);
}

TEST_MAIN(TEST(test_both_directions), TEST(test_shared_uplinks), TEST(test_dram), TEST(test_new_pages),
          TEST(test_collective_beside_copies), TEST(test_kernel_beside_collective), TEST(test_wave_slowdown),
          TEST(test_pairs))
