/* Engine against plain twin on random schedules. */
#include "tests/cluster_machines.h"
#include "tests/engine_compare.h"

static void print_counts(const char *name, const struct compare_counts *counts)
{
    printf("%s: %u done, %u do not fit, %u deadlocks; %u of %u ops slowed; worst difference %lld ps\n", name,
           counts->done, counts->does_not_fit, counts->deadlock, counts->slowed, counts->ops,
           (long long)counts->worst_ps);
}

static void test_fixed(void)
{
    struct compare_counts counts = { 0 };
    for (uint64_t seed = test_seed * 1000; seed < test_seed * 1000 + 150; seed++) {
        struct schedule_gen gen = { 1 + (uint32_t)(seed % 6), seed % 3 == 0 ? 12 : 30, 1, seed % 3 != 0, true };
        compare_with_twin(&gen, seed, NULL, NULL, true, &counts);
    }
    print_counts("fixed times", &counts);
    EXPECT(counts.done > 50);
    EXPECT(counts.does_not_fit > 0);
}

static void shared(void (*hand)(struct hand_machine *), const struct software *software, bool tight, const char *name)
{
    static struct hand_machine made;
    struct cluster cluster;
    struct error error = { 0 };
    struct compare_counts counts = { 0 };
    hand(&made);
    made.machine.cpu_adam_parameters_per_s_core = 1e5; /* optimizers that last as long as the rest */
    made.machine.gpu.kernel_floor_s = 1e-6;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        made.machine.gpu.peak_flops[i] = 20e12;
    }
    for (int i = 0; i < KERNEL_CLASS_COUNT; i++) {
        made.machine.gpu.class_efficiency[i] = 0.8;
    }
    made.machine.gpu.attention_forward_efficiency = made.machine.gpu.attention_backward_efficiency = 0.4;
    if (cluster_build(&cluster, &made.machine, 2, 0, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
        return;
    }
    for (uint64_t seed = test_seed * 1000; seed < test_seed * 1000 + 60; seed++) {
        uint32_t fold = 1 + (uint32_t)(seed % 5 == 4); /* all of it in the first server, where the host memory is */
        struct schedule_gen gen = { 1 + (uint32_t)(seed % (8 / fold)), 10, fold, tight, false };
        compare_with_twin(&gen, seed, &cluster, software, false, &counts);
    }
    print_counts(name, &counts);
    EXPECT(counts.done > 30 && counts.slowed > 30);
    cluster_free(&cluster);
}

static void test_shared(void)
{
    shared(hand_dgx_a100, NULL, false, "DGX A100");
    shared(hand_pcie_box, NULL, false, "PCIe box");
    shared(hand_dgx1, NULL, false, "DGX-1");
    shared(hand_dgx_h100, NULL, false, "DGX H100");
}

static void test_shared_with_host(void)
{
    struct software software = { .launch_host_s = 7e-6,
                                 .collective_host_s = 20e-6,
                                 .copy_host_s = 6e-6,
                                 .pass_host_s = 30e-6,
                                 .micro_batch_host_s = 100e-6,
                                 .step_host_s = 1e-3,
                                 .launch_ahead = 6 };
    shared(hand_dgx_a100, &software, false, "DGX A100, eager host");
    software.launch_ahead = 0;
    shared(hand_dgx2, &software, true, "DGX-2, host, tight memory");
}

/* Many copy queues of two GPUs behind one switch: crowds on the uplink, which kernels and copies upwards break up. */
static void copy_crowd(struct schedule *schedule, uint64_t seed)
{
    enum { QUEUES = 16, COPIES = 4 };
    struct builder *b = builder_new();
    uint64_t random = seed;
    for (uint32_t gpu = 0; gpu < 2; gpu++) {
        builder_rank(b, &gpu, 1, SCHED_NONE, "rank");
        for (uint32_t q = 0; q < QUEUES; q++) {
            uint32_t queue = builder_queue(b, QUEUE_H2D, "copy");
            for (uint32_t k = 0; k < COPIES; k++) {
                double bytes = 1e6 * (1 + (double)test_below(&random, 1000) / 100);
                builder_op(b, OP_COPY_H2D, queue, builder_work_transfer(b, bytes, test_below(&random, 20) == 0),
                           PHASE_OFFLOAD);
            }
        }
        for (uint32_t k = 0; seed % 2 == 0 && k < 3; k++) {
            uint32_t wait = builder_queue(b, QUEUE_HOST, "host"), up = builder_queue(b, QUEUE_D2H, "up");
            uint32_t first = builder_op(
                b, OP_DELAY, wait, builder_work_fixed(b, (int64_t)test_below(&random, 20) * 1000000000), PHASE_OTHER);
            builder_op(b, OP_COPY_D2H, up, builder_work_transfer(b, 2e6, false), PHASE_OFFLOAD);
            builder_depends(b, first);
        }
    }
    EXPECT(finish_builder(b, schedule));
}

static void test_crowds(void)
{
    static struct hand_machine made;
    struct cluster cluster;
    struct error error = { 0 };
    struct compare_counts counts = { 0 };
    hand_dgx_a100(&made);
    EXPECT_INT(cluster_build(&cluster, &made.machine, 1, 0, &error), STATUS_OK);
    for (uint64_t seed = test_seed * 1000; seed < test_seed * 1000 + 8; seed++) {
        struct schedule schedule;
        copy_crowd(&schedule, seed);
        compare_schedule(&schedule, seed, &cluster, NULL, false, &counts);
    }
    print_counts("crowds on one uplink", &counts);
    EXPECT(counts.done == 8 && counts.slowed > counts.ops / 2);
    cluster_free(&cluster);
}

TEST_MAIN(TEST(test_crowds), TEST(test_fixed), TEST(test_shared), TEST(test_shared_with_host))
