/* How fast the engine is: a pipeline of the size of the main job (8 folded stages, interleaved compute and tensor-parallel collectives on streams of their own,
 * sends, activations) in layers * micro-batches * passes of ops; and 128 copy queues that share one uplink. Medians of rounds; ops per second of each part and of the
 * whole. Command: build/tests/b_engine [pipeline|flows] */
#include <time.h>

#include "sim/engine/reserved.h"
#include "sim/ir/audit.h"
#include "tests/engine_run.h"

enum { STAGES = 8, BATCHES = 64, LAYERS = 12, ROUNDS = 9, FLOWS = 128, QUEUES_PER_RANK = 64 };

static struct machine machine;
static struct cluster cluster;

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint32_t pass_work(struct builder *b, uint64_t columns)
{
    struct work_item items[4];
    for (uint32_t i = 0; i < 4; i++) {
        struct kernel kernel = { .kernel_class = i % 2 == 0 ? KERNEL_GEMM : KERNEL_NORM,
                                 .dtype = DTYPE_FP16,
                                 .launches = 1,
                                 .batch = 1,
                                 .m = 2048,
                                 .n = columns,
                                 .k = 12288,
                                 .flops = i % 2 == 0 ? 2.0 * 2048 * (double)columns * 12288 : 0,
                                 .bytes_read = 2.0 * 12288 * (double)columns,
                                 .bytes_written = 2.0 * 2048 * (double)columns };
        items[i] = (struct work_item){ builder_kernel(b, &kernel), ITEM_KERNEL, i == 0 };
    }
    return builder_work_kernels(b, items, 4);
}

/* Layers of one micro-batch: compute, collective, compute, collective; the last compute waits for the last collective. */
static uint32_t add_pass(struct builder *b, const uint32_t *queues, const uint32_t *works, uint32_t match_group,
                         uint32_t before, const uint32_t *activations, bool forward, uint32_t batch)
{
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        for (uint32_t half = 0; half < 2; half++) {
            uint32_t op = builder_op(b, OP_COMPUTE, queues[0], works[half + (forward ? 0 : 2)],
                                     forward ? PHASE_FORWARD : PHASE_BACKWARD);
            builder_tag(b, (uint16_t)batch, 0, (uint16_t)layer);
            builder_depends(b, before);
            if (forward) {
                builder_acquire(b, activations[2 * layer + half]);
            } else {
                builder_release(b, activations[2 * (LAYERS - 1 - layer) + half]);
            }
            before = builder_op(b, half == 0 ? OP_ALL_GATHER : OP_REDUCE_SCATTER, queues[1], works[4], PHASE_TENSOR_COMM);
            builder_set_match(b, builder_match(b, match_group, 1));
            builder_depends(b, op);
        }
    }
    return before;
}

static void add_stage(struct builder *b, uint32_t stage, const uint32_t *hops, uint32_t hop_work)
{
    uint32_t devices[8], queues[6], works[5], activations[BATCHES][2 * LAYERS];
    for (uint32_t i = 0; i < 8; i++) {
        devices[i] = 8 * stage + i;
    }
    uint32_t space = builder_space(b, SPACE_DEVICE, devices[0], UINT64_MAX, SCHED_NONE, "gpu");
    builder_rank(b, devices, 8, stage, "stage");
    static const enum queue_class classes[] = { QUEUE_COMPUTE, QUEUE_COMM, QUEUE_P2P, QUEUE_P2P, QUEUE_P2P, QUEUE_P2P };
    for (uint32_t q = 0; q < 6; q++) {
        queues[q] = builder_queue(b, classes[q], "queue");
    }
    uint32_t group = builder_group(b, devices, 8, 1, "tensor");
    for (uint32_t w = 0; w < 4; w++) {
        works[w] = pass_work(b, 1536 * (1 + w));
    }
    works[4] = builder_work_collective(b, group, 2.0 * 2048 * 12288, DTYPE_FP16);
    uint32_t label = builder_label(b, "activation");
    uint32_t warm = STAGES - stage, forwards = 0;
    for (uint32_t i = 0; i < BATCHES; i++) {
        for (uint32_t a = 0; a < 2 * LAYERS; a++) {
            activations[i][a] = builder_buffer(b, space, (a + 1) << 20, 1, BUFFER_ACTIVATION, 0, label);
        }
    }
    for (uint32_t step = 0; step < 2 * BATCHES; step++) {
        uint32_t backwards = step - forwards;
        bool forward = forwards < BATCHES && (forwards < warm || backwards + warm > forwards);
        uint32_t i = forward ? forwards : backwards, before = SCHED_NONE;
        forwards += forward;
        const uint32_t *in = forward ? hops : hops + 2 * STAGES * BATCHES, *out = in;
        if (forward ? stage > 0 : stage < STAGES - 1) {
            before = builder_op(b, OP_RECV, queues[forward ? 2 : 3], hop_work, PHASE_PIPELINE_COMM);
            builder_set_match(b, in[(forward ? stage - 1 : stage + 1) * BATCHES + i]);
        }
        before = add_pass(b, queues, works, group, before, activations[i], forward, i);
        if (forward ? stage < STAGES - 1 : stage > 0) {
            builder_op(b, OP_SEND, queues[forward ? 4 : 5], hop_work, PHASE_PIPELINE_COMM);
            builder_set_match(b, out[stage * BATCHES + i]);
            builder_depends(b, before);
        }
    }
}

static void build_pipeline(struct schedule *schedule)
{
    struct builder *b = builder_new();
    uint32_t *hops = calloc(4 * STAGES * BATCHES, sizeof *hops), members[16];
    uint32_t hop_work = builder_work_transfer(b, 2.0 * 2048 * 12288 / 8, false);
    for (uint32_t direction = 0; direction < 2; direction++) {
        for (uint32_t s = 0; s < STAGES; s++) {
            uint32_t peer = direction == 0 ? s + 1 : s - 1;
            if (peer >= STAGES) {
                continue;
            }
            for (uint32_t i = 0; i < 8; i++) {
                members[2 * i] = 8 * s + i;
                members[2 * i + 1] = 8 * peer + i;
            }
            uint32_t group = builder_group(b, members, 2, 8, "hop");
            for (uint32_t i = 0; i < BATCHES; i++) {
                hops[2 * direction * STAGES * BATCHES + s * BATCHES + i] = builder_match(b, group, 2);
            }
        }
    }
    for (uint32_t s = 0; s < STAGES; s++) {
        add_stage(b, s, hops, hop_work);
    }
    free(hops);
    EXPECT(finish_builder(b, schedule));
}

/* Many copy queues of two GPUs behind one switch (64 queues a rank are the most). */
static void build_flows(struct schedule *schedule)
{
    struct builder *b = builder_new();
    uint32_t gpu = 0;
    for (uint32_t i = 0; i < FLOWS; i++) {
        if (i % QUEUES_PER_RANK == 0) {
            builder_rank(b, &gpu, 1, SCHED_NONE, "rank");
            gpu++;
        }
        uint32_t queue = builder_queue(b, QUEUE_H2D, "copy");
        for (uint32_t k = 0; k < 32; k++) {
            builder_op(b, OP_COPY_H2D, queue, builder_work_transfer(b, 1e6 + 1000.0 * (double)((i * 7919 + k * 104729) % 1000), false),
                       PHASE_OFFLOAD);
        }
    }
    EXPECT(finish_builder(b, schedule));
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

static void bench(const char *name, const struct schedule *schedule)
{
    enum { VERIFY, COST, RUN, RESERVED, HASH, AUDIT, WHOLE, PARTS };
    static const char *const parts[PARTS] = { "verify", "cost table", "engine", "reserved", "hash", "audit", "whole" };
    const struct software software = { .launch_host_s = 4e-6, .collective_host_s = 10e-6, .copy_host_s = 6e-6, .pass_host_s = 20e-6,
                                       .launch_ahead = 1024, .allocator = ALLOCATOR_CACHING };
    double times[PARTS][ROUNDS];
    struct error error = { 0 };
    uint64_t events = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct cost_table table;
        struct timeline timeline = { 0 };
        double at[PARTS + 1] = { now_s() };
        if (sched_verify(schedule, &error) != STATUS_OK) {
            TEST_FAIL_("%s", error.message);
        }
        at[COST] = now_s();
        EXPECT_INT(cost_table_build(&table, schedule, &cluster, &software, &error), STATUS_OK);
        at[RUN] = now_s();
        EXPECT_INT(engine_run(schedule, &table, &(struct engine_options){ 0 }, &timeline, &error), STATUS_OK);
        at[RESERVED] = now_s();
        EXPECT_INT(reserved_fill(schedule, &software, timeline.spaces, &error), STATUS_OK);
        at[HASH] = now_s();
        timeline.schedule_hash = schedule_hash(schedule);
        at[AUDIT] = now_s();
        const struct audit_resources resources = { table.capacities, table.asked, table.resource_count };
        EXPECT_INT(timeline_audit(schedule, &timeline, &resources, &error), STATUS_OK);
        at[WHOLE] = now_s();
        for (int part = 0; part < WHOLE; part++) {
            times[part][round] = at[part + 1] - at[part];
        }
        times[WHOLE][round] = at[WHOLE] - at[VERIFY];
        events = timeline.event_count;
        EXPECT_INT(timeline.outcome, TIMELINE_DONE);
        timeline_free(&timeline);
        cost_table_free(&table);
    }
    printf("%s: %u ops, %u dependencies, %llu events\n", name, schedule->op_count, schedule->dependency_count,
           (unsigned long long)events);
    for (int part = 0; part < PARTS; part++) {
        double s = median(times[part]);
        printf("  %-10s %8.2f ms  %7.2f M ops/s\n", parts[part], 1e3 * s, (double)schedule->op_count / s / 1e6);
    }
}

int main(int argc, char **argv)
{
    struct error error = { 0 };
    if (machine_load(&machine, "dgx-a100-80gb", &error) != STATUS_OK ||
        cluster_build(&cluster, &machine, STAGES, 0, &error) != STATUS_OK) {
        printf("%s\n", error.message);
        return 1;
    }
    struct schedule schedule;
    const char *only = argc > 1 ? argv[1] : "";
    if (strcmp(only, "flows") != 0) {
        build_pipeline(&schedule);
        bench("pipeline", &schedule);
        schedule_free(&schedule);
    }
    if (strcmp(only, "pipeline") != 0) {
        build_flows(&schedule);
        bench("128 copy queues on one uplink", &schedule);
        schedule_free(&schedule);
    }
    cluster_free(&cluster);
    machine_free(&machine);
    return test_failures == 0 ? 0 : 1;
}
