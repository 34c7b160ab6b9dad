/* Machines whose devices are threads of the host: cores, DRAM and measured rates shared as closed forms say. */
#include "hw_models/cluster.h"
#include "sim/engine/collective_cost.h"
#include "sim/engine/thread_slices.h"
#include "sim/ir/audit.h"
#include "tests/engine_compare.h"
#include "tests/engine_run.h"

/* Round numbers: 4 devices on 2 (or more) cores; a thread computes 1 TFLOP/s and streams 10 GB/s, DRAM carries 16; copies 5 GB/s in, 4 out, 10 us; Adam 0.1 G/s a core. */
static const char *const SAMPLE =
    "{ \"name\": \"sample\", \"gpu_count\": 4,"
    "  \"gpu\": { \"model\": \"thread\", \"architecture\": \"host\", \"on_host\": true, \"sm_count\": 1,"
    "    \"clock_MHz\": 1000, \"l2_MB\": 1, \"memory_GiB\": 1, \"hbm_peak_GBps\": 16, \"hbm_GBps\": 10,"
    "    \"peak_TFLOPS\": { \"fp32\": 1 } },"
    "  \"host\": { \"pageable_GBps\": 2.5, \"adam_Gparameters_per_s_core\": 0.1 },"
    "  \"latency\": { \"kernel_launch_us\": 0, \"kernel_gap_us\": 0, \"kernel_floor_us\": 0 },"
    "  \"nccl\": { \"bus_GBps\": 2, \"latency_us\": 100, \"sms\": 0, \"channels\": 1 },"
    "  \"parts\": [ { \"id\": \"cpu0\", \"kind\": \"cpu_socket\", \"cores\": %u },"
    "    { \"id\": \"dram0\", \"kind\": \"host_dram\", \"capacity_GiB\": 8 }, { \"id\": \"gpu[0-3]\", \"kind\": "
    "\"gpu\" },"
    "    { \"id\": \"nvme0\", \"kind\": \"nvme\", \"capacity_GB\": 10, \"read_GBps\": 1, \"write_GBps\": 0.5 } ],"
    "  \"links\": [ { \"kind\": \"ddr\", \"a\": \"cpu0\", \"b\": \"dram0\", \"GBps\": 16 },"
    "    { \"kind\": \"pcie\", \"a\": \"cpu0\", \"b\": \"gpu[0-3]\", \"GBps\": 5, \"back_GBps\": 4, \"latency_us\": "
    "10%s },"
    "    { \"kind\": \"pcie\", \"a\": \"cpu0\", \"b\": \"nvme0\", \"GBps\": 4 } ],"
    "  \"collectives\": [%s],"
    "  \"kernel_model\": { \"class_efficiency\": { \"elementwise\": 1 } } }";

static const char *const CURVES =
    "{ \"kind\": \"all_reduce\", \"ranks\": 2, \"bytes_GBps\": [[1000000, 2], [1e10, 2]] },"
    "{ \"kind\": \"all_reduce\", \"ranks\": 4, \"bytes_GBps\": [[1000000, 1], [1e10, 1]] }";

static const double LATENCY_S = 1e-5, MEETING_S = 1e-4;
/* A copy of W seconds on half a core lasts 2 W but for the slice that it begins with: sim/engine/thread_slices.h. */
static const double SLICE_S = THREAD_SLICE_S;

struct bench {
    struct machine machine;
    struct cluster cluster;
    struct builder *b;
    uint32_t host;
    struct schedule schedule;
    struct cost_table table;
    struct timeline timeline;
};

static void load_sample(struct machine *machine, uint32_t cores, const char *link, const char *curves)
{
    char text[4096], message[2048];
    struct json_document *document;
    struct json root;
    struct error error = { 0 };
    int length = snprintf(text, sizeof text, SAMPLE, cores, link, curves);
    enum status status = json_parse(&document, text, (size_t)length, "sample", &error);
    if (status == STATUS_OK) {
        json_root(document, &root);
        status = machine_from_json(machine, &root, &error);
        json_free(document);
    }
    if (status != STATUS_OK) {
        printf("%s\n", error_text(&error, message, sizeof message));
        exit(1);
    }
}

static void begin_with(struct bench *bench, uint32_t cores, const char *link, const char *curves)
{
    struct error error = { 0 };
    *bench = (struct bench){ 0 };
    load_sample(&bench->machine, cores, link, curves);
    EXPECT_INT(cluster_build(&bench->cluster, &bench->machine, 1, 0, &error), STATUS_OK);
    bench->b = builder_new();
    bench->host = builder_space(bench->b, SPACE_HOST, 0, UINT64_MAX, SCHED_NONE, "host");
}

static void begin(struct bench *bench, uint32_t cores)
{
    begin_with(bench, cores, "", CURVES);
}

/* Runs and audits. */
static bool simulate(struct bench *bench)
{
    struct error error = { 0 };
    if (!finish_builder(bench->b, &bench->schedule) ||
        !run_schedule(&bench->schedule, &bench->cluster, NULL, true, &bench->table, &bench->timeline)) {
        return false;
    }
    const struct audit_resources resources = { bench->table.capacities, bench->table.asked,
                                               bench->table.resource_count };
    bench->timeline.schedule_hash = schedule_hash(&bench->schedule);
    if (timeline_audit(&bench->schedule, schedule_hash(&bench->schedule), &bench->timeline, &resources, &error) !=
        STATUS_OK) {
        TEST_FAIL_("%s", error.message);
    }
    return true;
}

static void end(struct bench *bench)
{
    timeline_free(&bench->timeline);
    cost_table_free(&bench->table);
    schedule_free(&bench->schedule);
    cluster_free(&bench->cluster);
    machine_free(&bench->machine);
}

static double end_s(const struct bench *bench, uint32_t op)
{
    return s_from_ps(bench->timeline.ops[op].end_ps);
}

static uint32_t add_rank(struct bench *bench, uint32_t device)
{
    return builder_rank(bench->b, &device, 1, SCHED_NONE, "rank");
}

static struct work_item kernel_item(struct bench *bench, double seconds, double bytes)
{
    struct kernel kernel = { .kernel_class = KERNEL_ELEMENTWISE, .dtype = DTYPE_FP32, .launches = 1, .batch = 1 };
    kernel.m = kernel.n = kernel.k = 1;
    kernel.flops = seconds * 1e12;
    kernel.bytes_read = bytes;
    return (struct work_item){ builder_kernel(bench->b, &kernel), ITEM_KERNEL, 0 };
}

/* A kernel of so many seconds of arithmetic, or of bytes at 10 GB/s, on a queue of its own of the open rank. */
static uint32_t add_kernel(struct bench *bench, double seconds, double bytes)
{
    struct work_item item = kernel_item(bench, seconds, bytes);
    return builder_op(bench->b, OP_COMPUTE, builder_queue(bench->b, QUEUE_COMPUTE, "compute"),
                      builder_work_kernels(bench->b, &item, 1), PHASE_FORWARD);
}

static uint32_t add_copy(struct bench *bench, enum opcode opcode, double bytes, bool pageable)
{
    uint32_t queue = builder_queue(bench->b, opcode == OP_COPY_H2D ? QUEUE_H2D : QUEUE_D2H, "copy");
    return builder_op(bench->b, opcode, queue, builder_work_transfer(bench->b, bytes, pageable), PHASE_OFFLOAD);
}

static uint32_t add_adam(struct bench *bench, double parameters)
{
    return builder_op(bench->b, OP_HOST_OPTIMIZER, builder_queue(bench->b, QUEUE_HOST, "host"),
                      builder_work_host_optimizer(bench->b, parameters), PHASE_OPTIMIZER);
}

/* Kernels of one second each, on devices of their own: as fast as alone up to the number of cores, then in proportion. */
static void test_kernels(void)
{
    for (uint32_t count = 1; count <= 4; count++) {
        struct bench bench;
        uint32_t op = 0;
        begin(&bench, 2);
        for (uint32_t g = 0; g < count; g++) {
            add_rank(&bench, g);
            op = add_kernel(&bench, 1, 0);
        }
        if (simulate(&bench)) {
            double slower = count <= 2 ? 1 : count / 2.0;
            EXPECT_REAL(end_s(&bench, op), slower, 1e-11);
            EXPECT_REAL(s_from_ps(bench.timeline.ops[op].alone_ps), 1, 1e-12);
            uint32_t cores = cluster_cores(&bench.cluster, 0, 0);
            EXPECT_REAL(bench.timeline.resources[cores].peak_use, fmin(count, 2), 1e-9);
            EXPECT_REAL(bench.timeline.resources[cores].amount, count, 1e-9);
        }
        end(&bench);
    }
}

/* Two kernels and a copy of a second each on two cores: after the copy's latency, in which it holds none, all run at 2/3, but for the copy's first slice. The cores' three seconds are done as
 * early as they can be. */
static void test_copy_beside_kernels(void)
{
    struct bench bench;
    begin(&bench, 2);
    add_rank(&bench, 0);
    uint32_t first = add_kernel(&bench, 1, 0), copy = add_copy(&bench, OP_COPY_H2D, 5e9, false);
    add_rank(&bench, 1);
    uint32_t second = add_kernel(&bench, 1, 0);
    if (simulate(&bench)) {
        EXPECT_REAL(end_s(&bench, first), 3.0 / 2, 1e-11);
        EXPECT_REAL(end_s(&bench, second), 3.0 / 2, 1e-11);
        EXPECT_REAL(end_s(&bench, copy), LATENCY_S + 3.0 / 2 - SLICE_S, 1e-11);
        EXPECT_REAL(bench.timeline.resources[cluster_dram(&bench.cluster, 0, 0)].amount, 10e9, 1e-12);
    }
    end(&bench);
}

/* A kernel and a copy on one core. The copy has its first slice nearly alone (but for a twentieth), then half; the core is never idle. */
static void test_slices(void)
{
    const double works[] = { 1e-5, 6e-5, 3e-4, 1e-2 };
    for (size_t i = 0; i < sizeof works / sizeof works[0]; i++) {
        struct bench bench;
        begin(&bench, 1);
        add_rank(&bench, 0);
        uint32_t kernel = add_kernel(&bench, 1, 0), copy = add_copy(&bench, OP_COPY_H2D, 5e9 * works[i], false);
        if (simulate(&bench)) {
            double shared_s = works[i] < SLICE_S ? works[i] * 21 / 20 : 2 * works[i] - SLICE_S;
            EXPECT_REAL(end_s(&bench, copy), LATENCY_S + shared_s, 1e-8);
            EXPECT_REAL(end_s(&bench, kernel), 1 + works[i], 1e-10);
        }
        end(&bench);
    }
}

/* Seconds of copies of one device alone, latency apart. */
static void test_copies_alone(void)
{
    static const struct {
        enum opcode opcode;
        bool pageable;
        double rate;
    } CASES[] = { { OP_COPY_H2D, false, 5e9 }, { OP_COPY_D2H, false, 4e9 }, { OP_COPY_H2D, true, 2.5e9 } };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct bench bench;
        begin(&bench, 2);
        add_rank(&bench, 3);
        uint32_t copy = add_copy(&bench, CASES[i].opcode, 1e9, CASES[i].pageable);
        if (simulate(&bench)) {
            EXPECT_REAL(end_s(&bench, copy), LATENCY_S + 1e9 / CASES[i].rate, 1e-11);
            EXPECT_REAL(bench.timeline.resources[cluster_cores(&bench.cluster, 0, 0)].amount, 1e9 / CASES[i].rate,
                        1e-11);
        }
        end(&bench);
    }
}

/* Both directions at once are two threads: the link's limit for both holds (6 GB/s) where one was measured, else only the DRAM's (16 GB/s at 2 B a byte: 8). */
static void test_both_directions(void)
{
    for (int limited = 0; limited < 2; limited++) {
        struct bench bench;
        begin_with(&bench, 2, limited ? ", \"both_GBps\": 6" : "", CURVES);
        add_rank(&bench, 0);
        uint32_t in = add_copy(&bench, OP_COPY_H2D, 1.5e9, false), out = add_copy(&bench, OP_COPY_D2H, 1.5e9, false);
        if (simulate(&bench)) {
            /* By their threads' weights: at level r the copies take 5 r and 4 r GB/s. In ends first, then out goes on alone. */
            double in_weight = thread_slices_weight(0.3), out_weight = thread_slices_weight(0.375);
            double level = (limited ? 6 : 8) / (5 * in_weight + 4 * out_weight), in_s = 0.3 / (level * in_weight);
            EXPECT_REAL(end_s(&bench, in), LATENCY_S + in_s, 1e-10);
            EXPECT_REAL(end_s(&bench, out), LATENCY_S + in_s + 0.375 - in_s * level * out_weight, 1e-10);
        }
        end(&bench);
    }
}

/* Two threads that stream 10 GB/s each get 8 of the DRAM's 16. A third that computes, on a core of its own, is not disturbed. */
static void test_streams(void)
{
    struct bench bench;
    begin(&bench, 4);
    add_rank(&bench, 0);
    uint32_t first = add_kernel(&bench, 0, 10e9);
    add_rank(&bench, 1);
    uint32_t second = add_kernel(&bench, 0, 10e9);
    add_rank(&bench, 2);
    uint32_t third = add_kernel(&bench, 1, 0);
    if (simulate(&bench)) {
        EXPECT_REAL(s_from_ps(bench.timeline.ops[first].alone_ps), 1, 1e-12);
        EXPECT_REAL(end_s(&bench, first), 20.0 / 16, 1e-11);
        EXPECT_REAL(end_s(&bench, second), 20.0 / 16, 1e-11);
        EXPECT_REAL(end_s(&bench, third), 1, 1e-12);
        EXPECT_REAL(bench.timeline.resources[cluster_dram(&bench.cluster, 0, 0)].peak_use, 16e9, 1e-9);
    }
    end(&bench);
    /* A stream and a copy (2 B of DRAM a byte: 10 GB/s too) likewise, but for the copy's first slice. */
    begin(&bench, 4);
    add_rank(&bench, 0);
    first = add_kernel(&bench, 0, 10e9);
    add_rank(&bench, 1);
    second = add_copy(&bench, OP_COPY_H2D, 5e9, false);
    if (simulate(&bench)) {
        double copy_s = (2 - SLICE_S) * 10 / 16; /* when the kernel has done 1 - slice beyond the latency */
        EXPECT_REAL(end_s(&bench, first), copy_s + SLICE_S, 1e-11);
        EXPECT_REAL(end_s(&bench, second), LATENCY_S + copy_s, 1e-11);
    }
    end(&bench);
}

/* Ranks 0.. of `ranks` join an all-reduce on a queue of their own, beside a kernel of `kernel_s` (0: none) each. Returns the last collective op. */
static uint32_t add_all_reduce(struct bench *bench, uint32_t ranks, double bytes, double kernel_s, uint32_t *kernel)
{
    static const uint32_t members[] = { 0, 1, 2, 3 };
    uint32_t group = builder_group(bench->b, members, ranks, 1, "group");
    uint32_t match = builder_match(bench->b, group, ranks), reduce = 0;
    for (uint32_t g = 0; g < ranks; g++) {
        add_rank(bench, g);
        reduce = builder_op(bench->b, OP_ALL_REDUCE, builder_queue(bench->b, QUEUE_COMM, "comm"),
                            builder_work_collective(bench->b, group, bytes, DTYPE_FP32), PHASE_DATA_COMM);
        builder_set_match(bench->b, match);
        if (kernel_s > 0) {
            *kernel = add_kernel(bench, kernel_s, 0);
        }
    }
    return reduce;
}

/* Two threads reduce beside two that compute, on two cores: once they have met, all run at half, but for the slice that the meeting ones have first. */
static void test_all_reduce_beside_kernels(void)
{
    struct bench bench;
    uint32_t kernel = 0;
    begin(&bench, 2);
    uint32_t reduce = add_all_reduce(&bench, 2, 2e9, 1, &kernel);
    if (simulate(&bench)) {
        double both = MEETING_S + (1 - MEETING_S) * 2;
        EXPECT_REAL(s_from_ps(bench.timeline.ops[reduce].alone_ps), 1, 1e-11);
        EXPECT_REAL(end_s(&bench, reduce), both - SLICE_S, 1e-10);
        EXPECT_REAL(end_s(&bench, kernel), both, 1e-10); /* as much was left of it when they met */
        /* 2.5 B a bus byte of each member */
        EXPECT_REAL(bench.timeline.resources[cluster_dram(&bench.cluster, 0, 0)].amount, 2 * 2.5 * 2e9, 1e-9);
        EXPECT_INT(bench.table.costs[bench.table.op_costs[reduce]].resident_count, 0); /* no SMs: nccl.sms is 0 */
    }
    end(&bench);
}

/* Four and four threads on two cores: a quarter of one for each. The kernels run at 1/4, the all-reduce, which was measured with half a core a thread, at 1/2. */
static void test_crowded_all_reduce(void)
{
    struct bench bench;
    uint32_t kernel = 0;
    begin(&bench, 2);
    uint32_t reduce = add_all_reduce(&bench, 4, 2e9 / 1.5, 1, &kernel);
    if (simulate(&bench)) {
        EXPECT_REAL(s_from_ps(bench.timeline.ops[reduce].alone_ps), 2, 1e-11);
        EXPECT_REAL(end_s(&bench, kernel), MEETING_S + (1 - MEETING_S / 2) * 4, 1e-10);
        /* Half a core for each: two slices earlier, in which the kernels do what is left of them. */
        EXPECT_REAL(end_s(&bench, reduce), MEETING_S + (2 - MEETING_S) * 2 - 2 * SLICE_S, 1e-10);
    }
    end(&bench);
}

/* Alone: the curve of as many ranks; between two of them on log paper; beyond them, or without any, twice the threads on the same cores take twice as long. */
static void test_collectives_alone(void)
{
    static const char *const PAIR = "{ \"kind\": \"all_reduce\", \"ranks\": 2, \"bytes_GBps\": [[1e6, 2], [1e10, 2]] }";
    static const char *const SMALL = "{ \"kind\": \"all_reduce\", \"ranks\": 2, \"bytes_GBps\": [[1000, 0.05]] }";
    /* 20 us, and 16 times the bytes in 10: noise. On with that slope a byte would take 0.6 ms. */
    static const char *const FALLS =
        "{ \"kind\": \"all_reduce\", \"ranks\": 2, \"bytes_GBps\": [[1000, 0.05], [16000, 1.6]] }";
    const double between = pow(2, 1 - log(1.5) / log(2)); /* bus GB/s of 3 ranks between 2 at 2 and 4 at 1 */
    const struct {
        const char *curves;
        uint32_t ranks, cores;
        double bytes, seconds;
    } cases[] = {
        { CURVES, 2, 2, 2e9, 1 },
        { CURVES, 4, 2, 2e9, 3 },          /* 1.5 bus bytes a byte */
        { CURVES, 2, 2, 1000, MEETING_S }, /* nothing is shorter than nccl.latency_us ... */
        { SMALL, 2, 2, 1000, 2e-5 },       /* ... but what was measured so */
        { SMALL, 2, 2, 10, 2e-5 },
        { FALLS, 2, 2, 1, 2e-5 },
        { CURVES, 3, 2, 3e9, 4 / between },
        { PAIR, 4, 2, 2e9, 3 }, /* 2 GB/s with a core for each of two, so 1 with half of one for each of four */
        { PAIR, 4, 4, 2e9, 1.5 },
        { "", 2, 2, 2e9, 1 },
        { "", 4, 2, 2e9, 3 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench bench;
        begin_with(&bench, cases[i].cores, "", cases[i].curves);
        uint32_t reduce = add_all_reduce(&bench, cases[i].ranks, cases[i].bytes, 0, NULL);
        if (simulate(&bench)) {
            EXPECT_REAL(end_s(&bench, reduce), cases[i].seconds, 1e-9);
            const struct op_cost *cost = &bench.table.costs[bench.table.op_costs[reduce]];
            const struct maxmin_use *first = &bench.table.uses[cost->first_use];
            EXPECT_INT(first->resource, cluster_cores(&bench.cluster, 0, 0));
            EXPECT_REAL(first->coefficient, fmin(cases[i].ranks, cases[i].cores), 0);
        }
        end(&bench);
    }
}

/* What is measured alone holds although DRAM could not carry as much: caches. 2.5 B a bus byte of two members at 4 GB/s would be 20 GB/s of 16; so would a kernel class at twice
 * the streaming rate. Two such kernels have half of the DRAM each. */
static void test_measured_beats_dram(void)
{
    struct bench bench;
    begin_with(&bench, 2, "", "{ \"kind\": \"all_reduce\", \"ranks\": 2, \"bytes_GBps\": [[1e6, 4], [1e10, 4]] }");
    uint32_t dram = cluster_dram(&bench.cluster, 0, 0), reduce = add_all_reduce(&bench, 2, 4e9, 0, NULL);
    if (simulate(&bench)) {
        EXPECT_REAL(end_s(&bench, reduce), 1, 1e-10);
        EXPECT(bench.timeline.resources[dram].peak_use <= 16e9 * (1 + 1e-9));
    }
    end(&bench);
    for (uint32_t count = 1; count <= 2; count++) {
        uint32_t kernel = 0;
        begin(&bench, 2);
        bench.machine.gpu.class_efficiency[KERNEL_ELEMENTWISE] = 2;
        for (uint32_t g = 0; g < count; g++) {
            add_rank(&bench, g);
            kernel = add_kernel(&bench, 0, 20e9);
        }
        if (simulate(&bench)) {
            EXPECT_REAL(end_s(&bench, kernel), count, 1e-10);
            EXPECT(bench.timeline.resources[dram].peak_use <= 16e9 * (1 + 1e-9));
        }
        end(&bench);
    }
}

/* A send and its receive beside two kernels: one thread, the receiver's. Without a curve at the slower of out (4 GB/s) and in (5), with one as that says. */
static void test_pair_beside_kernels(void)
{
    static const char *const SEND = "{ \"kind\": \"send_recv\", \"ranks\": 2, \"bytes_GBps\": [[1e6, 2], [1e10, 2]] }";
    for (int measured = 0; measured < 2; measured++) {
        struct bench bench;
        uint32_t pair[] = { 2, 3 }, kernel = 0, op = 0;
        begin_with(&bench, 2, "", measured ? SEND : "");
        uint32_t group = builder_group(bench.b, pair, 2, 1, "pair"), match = builder_match(bench.b, group, 2);
        uint32_t work = builder_work_transfer(bench.b, measured ? 2e9 : 4e9, false);
        for (uint32_t i = 0; i < 2; i++) {
            add_rank(&bench, pair[i]);
            op = builder_op(bench.b, i == 0 ? OP_SEND : OP_RECV, builder_queue(bench.b, QUEUE_P2P, "pair"), work,
                            PHASE_PIPELINE_COMM);
            builder_set_match(bench.b, match);
            kernel = add_kernel(&bench, 1, 0);
        }
        if (simulate(&bench)) {
            /* The curve's second includes the latency, the route's does not. */
            double latency = LATENCY_S, work_s = measured ? 1 - LATENCY_S : 1;
            EXPECT_REAL(s_from_ps(bench.timeline.ops[op].alone_ps), latency + work_s, 1e-11);
            EXPECT_REAL(end_s(&bench, kernel), (2 + work_s) / 2, 1e-10); /* no core is idle */
            EXPECT_REAL(end_s(&bench, op), latency + work_s * 3 / 2 - SLICE_S, 1e-10);
            EXPECT_REAL(bench.timeline.resources[cluster_dram(&bench.cluster, 0, 0)].amount, measured ? 4e9 : 8e9,
                        1e-9);
        }
        end(&bench);
    }
}

/* Two pairs at once, each the other's way: the receivers copy, each on its own core. Who sends holds nothing. */
static void test_pairs_both_ways(void)
{
    static const char *const SEND = "{ \"kind\": \"send_recv\", \"ranks\": 2, \"bytes_GBps\": [[1e6, 2], [1e10, 2]] }";
    struct bench bench;
    uint32_t matches[2], works[2], op = 0;
    begin_with(&bench, 2, "", SEND);
    bench.machine.collective_sms = 1;
    for (uint32_t way = 0; way < 2; way++) {
        const uint32_t pair[] = { way, 1 - way };
        matches[way] = builder_match(bench.b, builder_group(bench.b, pair, 2, 1, "pair"), 2);
        works[way] = builder_work_transfer(bench.b, 2e9, false);
    }
    for (uint32_t rank = 0; rank < 2; rank++) {
        add_rank(&bench, rank);
        for (uint32_t way = 0; way < 2; way++) {
            op = builder_op(bench.b, way == rank ? OP_SEND : OP_RECV, builder_queue(bench.b, QUEUE_P2P, "pair"),
                            works[way], PHASE_PIPELINE_COMM);
            builder_set_match(bench.b, matches[way]);
        }
    }
    if (simulate(&bench)) {
        for (uint32_t i = 0; i <= op; i++) {
            EXPECT_REAL(end_s(&bench, i), 1, 1e-10);
        }
    }
    end(&bench);
}

/* A copy from device to device is the same memcpy. */
static void test_peer_copy(void)
{
    struct bench bench;
    begin(&bench, 2);
    uint32_t space = builder_space(bench.b, SPACE_DEVICE, 1, UINT64_MAX, SCHED_NONE, "other");
    add_rank(&bench, 1);
    add_kernel(&bench, 0.5, 0);
    add_rank(&bench, 0);
    uint32_t target =
        builder_buffer(bench.b, space, 4000000000u, 1, BUFFER_ACTIVATION, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END, 0);
    uint32_t copy = builder_op(bench.b, OP_COPY_P2P, builder_queue(bench.b, QUEUE_P2P, "peer"),
                               builder_work_transfer(bench.b, 4e9, false), PHASE_OFFLOAD);
    builder_write(bench.b, target);
    if (simulate(&bench)) {
        EXPECT_REAL(end_s(&bench, copy), LATENCY_S + 1, 1e-11);
        EXPECT_REAL(bench.timeline.resources[cluster_cores(&bench.cluster, 0, 0)].amount, 1.5, 1e-9);
    }
    end(&bench);
}

/* One rank's Adam has all cores: beside a kernel three threads share two. With four ranks each has one thread, and all four half a core. */
static void test_host_optimizer(void)
{
    struct bench bench;
    begin(&bench, 2);
    add_rank(&bench, 0);
    uint32_t adam = add_adam(&bench, 0.2e9), kernel = add_kernel(&bench, 1, 0);
    if (simulate(&bench)) {
        EXPECT_REAL(s_from_ps(bench.timeline.ops[adam].alone_ps), 1, 1e-12); /* two cores of 0.1 G/s */
        EXPECT_REAL(end_s(&bench, adam), 1.5, 1e-11);
        EXPECT_REAL(end_s(&bench, kernel), 1.5, 1e-11);
        EXPECT_REAL(bench.timeline.resources[cluster_dram(&bench.cluster, 0, 0)].amount, 28 * 0.2e9, 1e-9);
    }
    end(&bench);
    for (uint32_t cores = 2; cores <= 4; cores += 2) {
        begin(&bench, cores);
        for (uint32_t g = 0; g < 4; g++) {
            add_rank(&bench, g);
            adam = add_adam(&bench, 0.1e9);
        }
        if (simulate(&bench)) {
            EXPECT_REAL(s_from_ps(bench.timeline.ops[adam].alone_ps), 1, 1e-12);
            EXPECT_REAL(end_s(&bench, adam), 4.0 / cores, 1e-11);
        }
        end(&bench);
    }
    begin(&bench, 3); /* whole threads: three cores for two ranks are one each */
    add_rank(&bench, 0);
    adam = add_adam(&bench, 0.1e9);
    add_rank(&bench, 1);
    if (simulate(&bench)) {
        EXPECT_REAL(end_s(&bench, adam), 1, 1e-12);
    }
    end(&bench);
}

/* Kernel, all-reduce, kernel of a folded rank in one sequence (`beside`: the collective may run beside the second kernel, which a thread cannot), or as ops of ranks apart. */
static double merged_s(uint32_t ranks, bool merged, bool beside, double *dram_bytes)
{
    static const uint32_t members[] = { 0, 1, 2, 3 };
    struct bench bench;
    double seconds = 0, bytes = 2e9 / collective_bus_factor(COLLECTIVE_ALL_REDUCE, ranks);
    begin(&bench, 2);
    uint32_t group = builder_group(bench.b, members, ranks, 1, "group");
    uint32_t match = merged ? SCHED_NONE : builder_match(bench.b, group, ranks);
    uint32_t reduce = builder_work_collective(bench.b, group, bytes, DTYPE_FP32);
    struct work_item items[3] = { kernel_item(&bench, 0.5, 0) };
    items[2] = items[0];
    items[1] = (struct work_item){ reduce, beside ? ITEM_COLLECTIVE_BESIDE : ITEM_COLLECTIVE, OP_ALL_REDUCE };
    uint32_t sequence = merged ? builder_work_kernels(bench.b, items, 3) : 0;
    for (uint32_t g = 0; g < (merged ? 1 : ranks); g++) {
        builder_rank(bench.b, members + g, merged ? ranks : 1, SCHED_NONE, "rank");
        uint32_t queue = builder_queue(bench.b, QUEUE_COMPUTE, "compute");
        if (merged) {
            builder_op(bench.b, OP_COMPUTE, queue, sequence, PHASE_FORWARD);
            continue;
        }
        builder_op(bench.b, OP_COMPUTE, queue, builder_work_kernels(bench.b, items, 1), PHASE_FORWARD);
        builder_op(bench.b, OP_ALL_REDUCE, queue, reduce, PHASE_TENSOR_COMM);
        builder_set_match(bench.b, match);
        builder_op(bench.b, OP_COMPUTE, queue, builder_work_kernels(bench.b, items, 1), PHASE_FORWARD);
    }
    if (simulate(&bench)) {
        const struct op_cost *cost = &bench.table.costs[bench.table.op_costs[0]];
        const struct maxmin_use *uses = &bench.table.uses[cost->first_use];
        EXPECT_INT(uses[0].resource, cluster_sm(&bench.cluster, 0));
        EXPECT_INT(uses[1].resource, cluster_cores(&bench.cluster, 0, 0));
        EXPECT_REAL(uses[1].coefficient, merged ? fmin(ranks, 2) : 1, 0);
        seconds = s_from_ps(bench.timeline.end_ps);
        *dram_bytes = bench.timeline.resources[cluster_dram(&bench.cluster, 0, 0)].amount;
    }
    end(&bench);
    return seconds;
}

/* Two ranks: 0.5 + 1 + 0.5 s. Four on two cores: kernels take twice as long; 2 bus GB at 1 GB/s are 2 s, which were measured with four threads on two cores. */
static void test_merged_collective(void)
{
    for (uint32_t ranks = 2; ranks <= 4; ranks += 2) {
        double dram = 0, apart = merged_s(ranks, false, false, &dram);
        EXPECT_REAL(apart, ranks, 1e-10);
        EXPECT_REAL(dram, ranks * 2.5 * 2e9, 1e-9);
        for (int beside = 0; beside < 2; beside++) {
            EXPECT_REAL(merged_s(ranks, true, beside != 0, &dram), apart, 1e-10);
            EXPECT_REAL(dram, ranks * 2.5 * 2e9, 1e-9);
        }
    }
}

/* One rank that stands for all four devices takes as long as four ranks: kernels, copies, collectives, Adam. */
static double data_parallel_s(uint32_t cores, bool folded)
{
    static const uint32_t devices[] = { 0, 1, 2, 3 };
    struct bench bench;
    double seconds = 0;
    begin(&bench, cores);
    uint32_t group = builder_group(bench.b, devices, 4, 1, "data");
    uint32_t match = builder_match(bench.b, group, folded ? 1 : 4);
    for (uint32_t r = 0; r < (folded ? 1u : 4u); r++) {
        builder_rank(bench.b, devices + r, folded ? 4 : 1, SCHED_NONE, "rank");
        uint32_t stream = add_kernel(&bench, 0, 3e9), compute = add_kernel(&bench, 0.5, 0);
        builder_depends(bench.b, stream);
        uint32_t reduce = builder_op(bench.b, OP_ALL_REDUCE, builder_queue(bench.b, QUEUE_COMM, "comm"),
                                     builder_work_collective(bench.b, group, 1e9, DTYPE_FP32), PHASE_DATA_COMM);
        builder_set_match(bench.b, match);
        builder_depends(bench.b, compute);
        uint32_t out = add_copy(&bench, OP_COPY_D2H, 1e9, false);
        builder_depends(bench.b, reduce);
        uint32_t adam = add_adam(&bench, 0.1e9);
        builder_depends(bench.b, out);
        add_copy(&bench, OP_COPY_H2D, 1e9, false);
        builder_depends(bench.b, adam);
    }
    if (simulate(&bench)) {
        seconds = s_from_ps(bench.timeline.end_ps);
    }
    end(&bench);
    return seconds;
}

/* Two tensor-parallel ranks, each folded over two sister pairs, against four ranks: sisters of a collective use cores and DRAM too. */
static double sisters_s(uint32_t cores, bool folded)
{
    static const uint32_t devices[] = { 0, 2, 1, 3 }, groups[] = { 0, 1, 2, 3 };
    struct bench bench;
    double seconds = 0;
    begin(&bench, cores);
    uint32_t both = builder_group(bench.b, groups, 2, folded ? 2 : 1, "tensor");
    uint32_t second = folded ? both : builder_group(bench.b, groups + 2, 2, 1, "tensor");
    uint32_t matches[] = { builder_match(bench.b, both, 2), folded ? SCHED_NONE : builder_match(bench.b, second, 2) };
    for (uint32_t r = 0; r < (folded ? 2u : 4u); r++) {
        builder_rank(bench.b, folded ? devices + 2 * r : groups + r, folded ? 2 : 1, SCHED_NONE, "rank");
        uint32_t sister = folded ? 0 : r / 2, queue = builder_queue(bench.b, QUEUE_COMPUTE, "compute");
        struct work_item item = kernel_item(&bench, 0.25, 0);
        builder_op(bench.b, OP_COMPUTE, queue, builder_work_kernels(bench.b, &item, 1), PHASE_FORWARD);
        builder_op(bench.b, OP_ALL_REDUCE, queue,
                   builder_work_collective(bench.b, sister == 0 ? both : second, 2e9, DTYPE_FP32), PHASE_TENSOR_COMM);
        builder_set_match(bench.b, matches[sister]);
    }
    if (simulate(&bench)) {
        seconds = s_from_ps(bench.timeline.end_ps);
    }
    end(&bench);
    return seconds;
}

static void test_folded(void)
{
    for (uint32_t cores = 1; cores <= 8; cores *= 2) {
        double folded = data_parallel_s(cores, true), apart = data_parallel_s(cores, false);
        EXPECT_REAL(folded, apart, 1e-9);
        EXPECT(folded > 1);
        EXPECT_REAL(sisters_s(cores, true), sisters_s(cores, false), 1e-9);
    }
}

/* Reading a drive leaves the cores alone. */
static void test_storage(void)
{
    struct bench bench;
    begin(&bench, 1);
    add_rank(&bench, 0);
    uint32_t read = builder_op(bench.b, OP_STORAGE_READ, builder_queue(bench.b, QUEUE_STORAGE, "storage"),
                               builder_work_transfer(bench.b, 1e9, false), PHASE_OFFLOAD);
    uint32_t kernel = add_kernel(&bench, 1, 0);
    if (simulate(&bench)) {
        EXPECT_REAL(end_s(&bench, read), 1, 1e-10);
        EXPECT_REAL(end_s(&bench, kernel), 1, 1e-12);
    }
    end(&bench);
}

/* Random schedules through the engine and its plain twin: many records on the same cores and DRAM, crowds among them. */
static void test_twin(void)
{
    struct machine machine;
    struct cluster cluster;
    struct compare_counts counts = { 0 };
    load_sample(&machine, 2, "", CURVES);
    machine.cpu_adam_parameters_per_s_core = 1e7;
    EXPECT_INT(cluster_build(&cluster, &machine, 1, 0, NULL), STATUS_OK);
    for (uint64_t seed = test_seed * 1000; seed < test_seed * 1000 + 60; seed++) {
        uint32_t fold = 1 + (uint32_t)(seed % 5 == 4);
        struct schedule_gen gen = { 1 + (uint32_t)(seed % (4 / fold)), 20, fold, seed % 2 == 0, false };
        compare_with_twin(&gen, seed, &cluster, NULL, false, &counts);
    }
    printf("%u done; %u of %u ops slowed; worst difference %lld ps\n", counts.done, counts.slowed, counts.ops,
           (long long)counts.worst_ps);
    EXPECT(counts.done > 30 && counts.slowed > 30);
    cluster_free(&cluster);
    machine_free(&machine);
}

static double coefficient_of(const struct route *route, uint32_t resource)
{
    for (uint32_t i = 0; i < route->use_count; i++) {
        if (route->uses[i].resource == resource) {
            return route->uses[i].coefficient;
        }
    }
    return 0;
}

/* No HBM, no ports; a device's memory is its socket's; routes are threads. */
static void test_cluster(void)
{
    struct bench bench;
    struct route route;
    begin(&bench, 2);
    const struct cluster *cluster = &bench.cluster;
    uint32_t dram = cluster_dram(cluster, 0, 0), cores = cluster_cores(cluster, 0, 0), hbm = 0;
    for (uint32_t r = 0; r < cluster->resource_count; r++) {
        hbm += cluster->resources[r].kind == RESOURCE_HBM;
    }
    EXPECT_INT(hbm, 0);
    EXPECT_INT(cluster_hbm(cluster, 3), dram);
    EXPECT_INT(cluster->resources[cluster_sm(cluster, 3)].kind, RESOURCE_SM);
    struct endpoint device = { ENDPOINT_GPU, 1 }, other = { ENDPOINT_GPU, 2 }, host = { ENDPOINT_HOST, 0 };
    EXPECT_INT(cluster_route(cluster, host, device, false, &route, NULL), STATUS_OK);
    EXPECT_REAL(route.rate_cap_bytes_per_s, 5e9, 0);
    EXPECT_REAL(route.latency_s, LATENCY_S, 1e-15);
    EXPECT_REAL(coefficient_of(&route, dram), 2, 0);
    EXPECT_REAL(coefficient_of(&route, cores), 1 / 5e9, 0);
    EXPECT_INT(route.use_count, 3); /* its link's direction too: nobody else uses that */
    EXPECT_INT(cluster_route(cluster, device, other, false, &route, NULL), STATUS_OK);
    EXPECT_REAL(route.rate_cap_bytes_per_s, 4e9, 0);
    EXPECT_INT(route.use_count, 2); /* no links */
    EXPECT_INT(cluster_route(cluster, device, device, false, &route, NULL), STATUS_OK);
    EXPECT_REAL(coefficient_of(&route, dram), 2, 0);
    uint32_t members[] = { 0, 1, 2 }, count = 0;
    struct resource_use uses[8];
    double cap = 0;
    EXPECT_INT(cluster_ring(cluster, members, 3, false, uses, 8, &count, &cap, NULL), STATUS_OK);
    EXPECT_INT(count, 0);
    EXPECT_REAL(cap, 2e9, 0);
    struct cluster two;
    struct error error = { 0 };
    EXPECT_INT(cluster_build(&two, &bench.machine, 2, 0, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "no nic");
    builder_free(bench.b);
    bench.b = NULL;
    end(&bench);
}

TEST_MAIN(TEST(test_kernels), TEST(test_copy_beside_kernels), TEST(test_slices), TEST(test_copies_alone),
          TEST(test_both_directions), TEST(test_streams), TEST(test_all_reduce_beside_kernels),
          TEST(test_crowded_all_reduce), TEST(test_collectives_alone), TEST(test_measured_beats_dram),
          TEST(test_pair_beside_kernels), TEST(test_pairs_both_ways), TEST(test_peer_copy), TEST(test_host_optimizer),
          TEST(test_merged_collective), TEST(test_folded), TEST(test_storage), TEST(test_cluster), TEST(test_twin))
