/* Merging a run of kernels into one op keeps its duration, launches included; folding equal ranks keeps their times. */
#include "hw_models/machine.h"
#include "tests/engine_run.h"

static struct machine machine;
static struct cluster cluster;

static bool open_cluster(uint32_t nodes)
{
    struct error error = { 0 };
    if (machine_load(&machine, "dgx-a100-80gb", &error) != STATUS_OK ||
        cluster_build(&cluster, &machine, nodes, 0, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
        return false;
    }
    return true;
}

static void close_cluster(void)
{
    cluster_free(&cluster);
    machine_free(&machine);
}

enum { KERNELS = 40 };

static struct kernel random_kernel(uint64_t *random)
{
    double bytes = exp(log(1e4) + test_unit(random) * log(3e3));
    struct kernel kernel = { .kernel_class = KERNEL_ELEMENTWISE,
                             .dtype = DTYPE_FP16,
                             .batch = 1,
                             .m = 1,
                             .n = 1,
                             .k = 1,
                             .launches = 1 + (uint32_t)test_below(random, 4),
                             .flops = bytes,
                             .bytes_read = bytes,
                             .bytes_written = bytes };
    return kernel;
}

/* `merged`: all kernels in one op; else an op each. */
static int64_t run_kernels(uint64_t seed, bool merged, const struct software *software)
{
    uint64_t random = seed;
    uint32_t gpu = 0;
    struct builder *b = builder_new();
    struct work_item items[KERNELS];
    builder_rank(b, &gpu, 1, SCHED_NONE, "rank");
    uint32_t queue = builder_queue(b, QUEUE_COMPUTE, "compute");
    for (uint32_t i = 0; i < KERNELS; i++) {
        struct kernel kernel = random_kernel(&random);
        items[i] =
            (struct work_item){ builder_kernel(b, &kernel), ITEM_KERNEL, (uint16_t)(test_below(&random, 5) == 0) };
        if (!merged) {
            builder_op(b, OP_COMPUTE, queue, builder_work_kernels(b, &items[i], 1), PHASE_FORWARD);
        }
    }
    if (merged) {
        builder_op(b, OP_COMPUTE, queue, builder_work_kernels(b, items, KERNELS), PHASE_FORWARD);
    }
    struct schedule schedule;
    struct cost_table table = { 0 };
    struct timeline timeline = { 0 };
    int64_t end_ps = 0;
    if (finish_builder(b, &schedule) && run_schedule(&schedule, &cluster, software, false, &table, &timeline)) {
        end_ps = timeline.end_ps;
        EXPECT(timeline.outcome == TIMELINE_DONE);
    }
    timeline_free(&timeline);
    cost_table_free(&table);
    schedule_free(&schedule);
    return end_ps;
}

static void test_merged_launches(void)
{
    if (!open_cluster(1)) {
        return;
    }
    int64_t device_bound = 0, launch_bound = 0;
    for (uint64_t seed = test_seed; seed < test_seed + 30; seed++) {
        for (uint32_t host = 0; host < 4; host++) {
            const struct software software = { .launch_host_s = 3e-6 * host, .pass_host_s = 40e-6 * host };
            int64_t fine = run_kernels(seed, false, &software), coarse = run_kernels(seed, true, &software);
            /* Each op rounds its own times to the nearest picosecond, at most four of them by half of one; the merged one rounds once. */
            if (llabs(fine - coarse) > 2 * KERNELS + 2) {
                TEST_FAIL_("seed %llu, launch %u us: %lld ps op by op, %lld merged", (unsigned long long)seed, 3 * host,
                           (long long)fine, (long long)coarse);
            }
            device_bound = host == 0 ? device_bound + coarse : device_bound;
            launch_bound = host == 3 ? launch_bound + coarse : launch_bound;
        }
    }
    printf("bound by launches: x%.2f\n", (double)launch_bound / (double)device_bound);
    EXPECT(launch_bound > device_bound * 5 / 4); /* the cases do reach what they test */
    close_cluster();
}

enum { STEPS = 12 };

/* Kernels and the tensor-parallel collectives between them, of one rank that stands for eight GPUs: one op, or an op for each on two queues. */
static int64_t run_layers(bool merged, const struct software *software)
{
    static const enum opcode opcodes[] = { OP_ALL_GATHER, OP_REDUCE_SCATTER, OP_ALL_REDUCE };
    uint64_t random = test_seed;
    uint32_t devices[8] = { 0, 1, 2, 3, 4, 5, 6, 7 }, before = SCHED_NONE;
    struct builder *b = builder_new();
    struct work_item items[2 * STEPS];
    uint32_t group = builder_group(b, devices, 8, 1, "tensor");
    builder_rank(b, devices, 8, SCHED_NONE, "rank");
    uint32_t compute = builder_queue(b, QUEUE_COMPUTE, "compute"), comm = builder_queue(b, QUEUE_COMM, "comm");
    for (uint32_t i = 0; i < STEPS; i++) {
        struct kernel kernel = random_kernel(&random);
        enum opcode opcode = opcodes[i % 3];
        uint32_t work = builder_work_collective(b, group, 1e5 * (1 + (double)i), DTYPE_FP16);
        items[2 * i] = (struct work_item){ builder_kernel(b, &kernel), ITEM_KERNEL, 1 };
        items[2 * i + 1] = (struct work_item){ work, ITEM_COLLECTIVE, (uint16_t)opcode };
        if (!merged) {
            builder_op(b, OP_COMPUTE, compute, builder_work_kernels(b, &items[2 * i], 1), PHASE_FORWARD);
            builder_depends(b, before);
            before = builder_op(b, opcode, comm, work, PHASE_TENSOR_COMM);
            builder_set_match(b, builder_match(b, group, 1));
            builder_depends(b, before - 1);
        }
    }
    if (merged) {
        builder_op(b, OP_COMPUTE, compute, builder_work_kernels(b, items, 2 * STEPS), PHASE_FORWARD);
    }
    struct schedule schedule;
    struct cost_table table = { 0 };
    struct timeline timeline = { 0 };
    int64_t end_ps = 0;
    if (finish_builder(b, &schedule) && run_schedule(&schedule, &cluster, software, false, &table, &timeline)) {
        end_ps = timeline.end_ps;
        uint32_t hbm = cluster_hbm(&cluster, 0);
        EXPECT(timeline.resources[hbm].amount > 0);
    }
    timeline_free(&timeline);
    cost_table_free(&table);
    schedule_free(&schedule);
    return end_ps;
}

static void test_merged_collectives(void)
{
    if (!open_cluster(1)) {
        return;
    }
    for (uint32_t host = 0; host < 4; host++) {
        const struct software software = { .launch_host_s = 4e-6 * host,
                                           .collective_host_s = 30e-6 * host,
                                           .pass_host_s = 40e-6 * host };
        int64_t fine = run_layers(false, &software), coarse = run_layers(true, &software);
        printf("op by op %lld ps, merged %lld ps\n", (long long)fine, (long long)coarse);
        EXPECT(llabs(fine - coarse) <=
               4 * STEPS); /* two ops a step, at most four times each rounded by half a picosecond */
    }
    close_cluster();
}

/* Two stages of eight GPUs: computes, a copy to host memory, a hop to the next server, on 2 ranks of 8 devices or on 16 ranks. */
static int64_t run_stages(bool folded)
{
    struct builder *b = builder_new();
    uint32_t devices[16], members[16], fold = folded ? 8 : 1, ranks = 16 / fold;
    struct kernel kernel = { .kernel_class = KERNEL_ELEMENTWISE,
                             .dtype = DTYPE_FP16,
                             .launches = 1,
                             .batch = 1,
                             .m = 1,
                             .n = 1,
                             .k = 1,
                             .bytes_read = 5e8,
                             .bytes_written = 5e8 };
    struct work_item item = { builder_kernel(b, &kernel), ITEM_KERNEL, 1 };
    uint32_t work = builder_work_kernels(b, &item, 1), copy = builder_work_transfer(b, 3e8, false);
    uint32_t hop = builder_work_transfer(b, 1e8, false), matches[8], host[2];
    for (uint32_t i = 0; i < 16; i++) {
        devices[i] = i;
        members[i] = i / 2 + i % 2 * 8;
    }
    for (uint32_t i = 0; i < 8 / fold; i++) {
        matches[i] = builder_match(b, builder_group(b, members + 2 * i, 2, fold, "hop"), 2);
    }
    for (uint32_t n = 0; n < 2; n++) {
        host[n] = builder_space(b, SPACE_HOST, n, UINT64_MAX, SCHED_NONE, "host");
    }
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t node = r / (ranks / 2);
        builder_rank(b, devices + r * fold, fold, node, "stage");
        uint32_t compute = builder_queue(b, QUEUE_COMPUTE, "compute"), down = builder_queue(b, QUEUE_D2H, "d2h");
        uint32_t up = builder_queue(b, QUEUE_H2D, "h2d"), p2p = builder_queue(b, QUEUE_P2P, "p2p");
        uint32_t staging =
            builder_buffer(b, host[node], 1000, fold, BUFFER_COMMUNICATION, 0, builder_label(b, "staging"));
        uint32_t first = builder_op(b, OP_COMPUTE, compute, work, PHASE_FORWARD);
        uint32_t out = builder_op(b, OP_COPY_D2H, down, copy, PHASE_OFFLOAD);
        builder_acquire(b, staging);
        builder_write(b, staging);
        builder_depends(b, node == 0 ? first : SCHED_NONE);
        builder_op(b, OP_COPY_H2D, up, copy, PHASE_OFFLOAD);
        builder_depends(b, node == 0 ? SCHED_NONE : out);
        if (node == 0) {
            builder_depends(b, out);
        }
        builder_read(b, staging);
        builder_release(b, staging);
        builder_op(b, node == 0 ? OP_SEND : OP_RECV, p2p, hop, PHASE_PIPELINE_COMM);
        builder_set_match(b, matches[r % (ranks / 2)]);
        builder_depends(b, node == 0 ? first : SCHED_NONE);
        builder_op(b, OP_COMPUTE, compute, work, PHASE_BACKWARD);
        builder_depends(b, builder_op_count(b) - 2);
    }
    struct schedule schedule;
    struct cost_table table = { 0 };
    struct timeline timeline = { 0 };
    int64_t end_ps = 0;
    if (finish_builder(b, &schedule) && run_schedule(&schedule, &cluster, NULL, false, &table, &timeline)) {
        EXPECT(timeline.outcome == TIMELINE_DONE);
        end_ps = timeline.end_ps;
    }
    timeline_free(&timeline);
    cost_table_free(&table);
    schedule_free(&schedule);
    return end_ps;
}

static void test_folding(void)
{
    if (open_cluster(2)) {
        int64_t folded = run_stages(true), unfolded = run_stages(false);
        printf("folded %lld ps, unfolded %lld ps\n", (long long)folded, (long long)unfolded);
        EXPECT_REAL((double)folded, (double)unfolded, 1e-9);
        EXPECT(folded > 0);
        close_cluster();
    }
}

TEST_MAIN(TEST(test_merged_launches), TEST(test_merged_collectives), TEST(test_folding))
