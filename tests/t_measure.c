/* Micro-benchmarks in a closed loop: measured on the simulator, every point must say what the cost model says of it. */
#include "validate/calibrate/measure.h"

#include <math.h>

#include "hw_models/cluster.h"
#include "hw_models/machine.h"
#include "hw_models/software.h"
#include "sim/base/arena.h"
#include "sim/base/units.h"
#include "sim/engine/collective_cost.h"
#include "sim/engine/kernel_cost.h"
#include "sim/ir/verify.h"
#include "sim/model/layer.h"
#include "tests/test.h"
#include "validate/calibrate/measure_internal.h"

struct rig {
    struct machine machine;
    struct cluster cluster;
    struct software software;
    struct measure_options options;
};

static bool rig_open(struct rig *rig, const char *machine, double seconds)
{
    struct error error = { 0 };
    char text[2048];
    if (machine_load(&rig->machine, machine, &error) != STATUS_OK ||
        cluster_build(&rig->cluster, &rig->machine, 1, 0, &error) != STATUS_OK ||
        software_load(&rig->software, "ideal", &error) != STATUS_OK) {
        TEST_FAIL_("%s", error_text(&error, text, sizeof text));
        return false;
    }
    rig->options = (struct measure_options){ .executor = &exec_sim,
                                             .exec = { .cluster = &rig->cluster, .software = &rig->software },
                                             .devices = rig->cluster.gpus,
                                             .cores = 4,
                                             .device_bytes = UINT64_C(8) << 30,
                                             .host_bytes = UINT64_C(16) << 30,
                                             .seconds = seconds,
                                             .storage = rig->cluster.drives > 0,
                                             .source = "the simulator" };
    return true;
}

static void rig_close(struct rig *rig)
{
    cluster_free(&rig->cluster);
    machine_free(&rig->machine);
}

/* Time of `bytes` over the route, by `at_once` equal ones at the same moment: max-min with equal users, by hand. */
static double route_seconds(const struct rig *rig, const struct point *p)
{
    double use[1024] = { 0 }, slowest_s = 0, latency_s = 0;
    struct error error = { 0 };
    uint32_t series = 0;
    EXPECT(rig->cluster.resource_count <= 1024);
    struct route routes[64];
    for (uint32_t i = 0; i < p->at_once; i++) {
        for (int down = 0; down < 2; down++) {
            if ((down == 0 && p->way == COPY_D2H) || (down == 1 && (p->way == COPY_H2D || p->way == COPY_PEER))) {
                continue;
            }
            uint32_t gpu = p->way == COPY_PEER ? p->from : p->to + i;
            struct endpoint device = { ENDPOINT_GPU, gpu };
            struct endpoint other = { ENDPOINT_HOST, cluster_gpu_socket(&rig->cluster, gpu) };
            if (p->way == COPY_PEER) {
                other = (struct endpoint){ ENDPOINT_GPU, p->to };
            }
            struct endpoint from = down || p->way == COPY_PEER ? device : other;
            struct endpoint to = down || p->way == COPY_PEER ? other : device;
            EXPECT_INT(cluster_route(&rig->cluster, from, to, p->pageable, &routes[series], &error), STATUS_OK);
            for (uint32_t k = 0; k < routes[series].use_count; k++) {
                use[routes[series].uses[k].resource] += routes[series].uses[k].coefficient;
            }
            series++;
        }
    }
    for (uint32_t i = 0; i < series; i++) {
        double rate = routes[i].rate_cap_bytes_per_s;
        for (uint32_t k = 0; k < routes[i].use_count; k++) {
            uint32_t resource = routes[i].uses[k].resource;
            rate = fmin(rate, rig->cluster.resources[resource].capacity / use[resource]);
        }
        slowest_s = fmax(slowest_s, p->bytes / rate);
        latency_s = routes[i].latency_s;
    }
    return latency_s + slowest_s;
}

static double collective_seconds(const struct rig *rig, const struct point *p)
{
    static struct resource_use uses[4096];
    uint32_t members[64];
    struct collective_cost cost;
    struct error error = { 0 };
    for (uint32_t i = 0; i < p->ranks; i++) {
        members[i] = i;
    }
    const struct collective_request request = {
        .kind = p->collective, .bytes = p->bytes, .members = members, .member_count = p->ranks, .instance_count = 1
    };
    EXPECT_INT(collective_cost(&rig->cluster, &request, uses, 4096, &cost, &error), STATUS_OK);
    return cost.alone_s;
}

/* Striped over equal drives. */
static double storage_seconds(const struct rig *rig, const struct point *p)
{
    struct route route;
    struct error error = { 0 };
    double latency_s = 0;
    for (uint32_t d = 0; d < rig->cluster.drives; d++) { /* the farthest one decides when the last byte is there */
        struct endpoint host = { ENDPOINT_HOST, cluster_gpu_socket(&rig->cluster, 0) }, drive = { ENDPOINT_STORAGE, d };
        bool read = p->way == COPY_READ;
        EXPECT_INT(cluster_route(&rig->cluster, read ? drive : host, read ? host : drive, false, &route, &error),
                   STATUS_OK);
        latency_s = fmax(latency_s, route.latency_s);
    }
    return latency_s + p->bytes / (route.rate_cap_bytes_per_s * rig->cluster.drives);
}

static const struct kernel SHORTEST = { .kernel_class = KERNEL_ELEMENTWISE,
                                        .launches = 1,
                                        .batch = 1,
                                        .m = 1,
                                        .n = 1,
                                        .k = 1,
                                        .bytes_read = 4,
                                        .bytes_written = 4 };

/* Seconds that the cost model gives the point; negative: it gives none (marks take no time, memory is never fresh). */
static double expected_seconds(const struct rig *rig, const struct point *p)
{
    struct kernel_cost cost;
    const struct machine *machine = &rig->machine;
    switch (p->kind) {
    case POINT_KERNEL:
        kernel_cost(&machine->gpu, &p->kernel, &cost);
        return cost.alone_s; /* without the gap that follows it in a stream */
    case POINT_COPY: return route_seconds(rig, p);
    case POINT_COLLECTIVE: return collective_seconds(rig, p);
    case POINT_HOST_OPTIMIZER: {
        uint32_t sharers = 0;
        for (uint32_t i = 0; i < p->at_once; i++) {
            sharers += cluster_gpu_socket(&rig->cluster, i) == cluster_gpu_socket(&rig->cluster, 0);
        }
        const struct cluster *c = &rig->cluster;
        double cores = c->resources[cluster_cores(c, 0, cluster_gpu_socket(c, 0))].capacity / sharers;
        double dram = c->resources[cluster_dram(c, 0, cluster_gpu_socket(c, 0))].capacity / sharers;
        return p->parameters / fmin(cores * machine->cpu_adam_parameters_per_s_core, dram / 28);
    }
    case POINT_STORAGE: return storage_seconds(rig, p);
    case POINT_ISSUE:
        if (p->issue == ISSUE_KERNEL) {
            kernel_cost(&machine->gpu, &SHORTEST, &cost);
            return cost.alone_s + machine->gpu.launch_gap_s;
        }
        if (p->issue == ISSUE_COPY) {
            const struct point copy = { .kind = POINT_COPY, .way = COPY_H2D, .at_once = 1, .bytes = 4096 };
            return route_seconds(rig, &copy);
        }
        return -1;
    case POINT_ALLOCATION:
    case POINT_KIND_COUNT: break;
    }
    return -1;
}

static void count_kinds(const struct points *points, uint32_t counts[POINT_KIND_COUNT])
{
    memset(counts, 0, POINT_KIND_COUNT * sizeof *counts);
    for (uint32_t i = 0; i < points->count; i++) {
        counts[points->items[i].kind]++;
    }
}

/* The closed loop. Ends are whole picoseconds: an op is at most 2 ps longer, two roundings. Work that shares a resource gets its share of it to 1e-9. */
static void closed_loop(const char *machine, double seconds)
{
    struct rig rig;
    if (!rig_open(&rig, machine, seconds)) {
        return;
    }
    struct points plan = { 0 }, points = { 0 };
    struct error error = { 0 };
    bool stopped = true;
    char text[128];
    EXPECT_INT(measure_plan(&rig.options, &plan, &error), STATUS_OK);
    EXPECT_INT(measure_points(&rig.options, &plan, &points, NULL, &stopped, &error), STATUS_OK);
    EXPECT_TEXT(error.message, "");
    EXPECT(!stopped);
    uint32_t checked = 0, wrong = 0, counts[POINT_KIND_COUNT];
    for (uint32_t i = 0; i < points.count; i++) {
        const struct point *p = &points.items[i];
        double wanted = expected_seconds(&rig, p);
        if (wanted < 0) {
            continue;
        }
        checked++;
        if (fabs(p->seconds - wanted) > 2e-12 + 1e-9 * wanted) {
            TEST_FAIL_("%s: %s takes %.12g s, the cost model says %.12g", machine, point_text(p, text, sizeof text),
                       p->seconds, wanted);
            if (++wrong > 10) {
                break;
            }
        }
        EXPECT_TEXT(p->source, "the simulator");
    }
    count_kinds(&points, counts);
    printf("%s: %u points wanted, %u measured, %u checked (%u kernels, %u copies, %u collectives)\n", machine,
           plan.count, points.count, checked, counts[POINT_KERNEL], counts[POINT_COPY], counts[POINT_COLLECTIVE]);
    EXPECT(counts[POINT_KERNEL] > 60 && counts[POINT_COPY] > 20 && counts[POINT_COLLECTIVE] > 20);
    EXPECT(counts[POINT_HOST_OPTIMIZER] > 3);
    EXPECT_INT(counts[POINT_ISSUE], 2);      /* nothing lies between two ops: their pace alone is measured */
    EXPECT_INT(counts[POINT_ALLOCATION], 0); /* memory is never fresh */
    EXPECT_INT(checked, points.count);
    EXPECT(checked > 100);
    points_free(&plan);
    points_free(&points);
    rig_close(&rig);
}

static void test_closed_loop_toy(void)
{
    closed_loop("toy-2gpu", 1000);
}

static void test_closed_loop_dgx(void)
{
    closed_loop("dgx-a100-80gb", 60);
}

/* ---- the plan ---- */

static void test_plan(void)
{
    struct rig rig;
    if (!rig_open(&rig, "toy-2gpu", 1000)) {
        return;
    }
    struct points whole = { 0 }, again = { 0 }, small = { 0 }, single = { 0 };
    struct error error = { 0 };
    rig.options.on_host = true;
    rig.options.cores = 2;
    EXPECT_INT(measure_plan(&rig.options, &whole, &error), STATUS_OK);
    EXPECT_INT(measure_plan(&rig.options, &again, &error), STATUS_OK);
    rig.options.seconds = 5;
    EXPECT_INT(measure_plan(&rig.options, &small, &error), STATUS_OK);
    EXPECT(small.count > 100 && small.count < whole.count / 2);
    EXPECT_INT(again.count, whole.count);
    for (uint32_t i = 0; i < whole.count; i++) {
        EXPECT_INT(points_find(&again, &whole.items[i]) - again.items, i); /* the same order, and each once */
        EXPECT_REAL(whole.items[i].seconds, 0, 0);
    }
    for (uint32_t i = 0; i < small.count; i++) { /* the most telling first: a short plan is how the long one begins */
        EXPECT_INT(points_find(&whole, &small.items[i]) - whole.items, i);
    }
    rig.options.devices = rig.options.cores = 1;
    EXPECT_INT(measure_plan(&rig.options, &single, &error), STATUS_OK);
    for (uint32_t i = 0; i < single.count; i++) {
        const struct point *p = &single.items[i];
        EXPECT(p->kind != POINT_COLLECTIVE && (p->kind != POINT_COPY || p->way != COPY_PEER));
        EXPECT(p->kind == POINT_COLLECTIVE || p->at_once <= 1);
    }
    points_free(&whole);
    points_free(&again);
    points_free(&small);
    points_free(&single);
    rig_close(&rig);
}

/* Every schedule is valid, stays within the memory it is given, and has one device a rank. */
static void test_schedules(void)
{
    struct rig rig;
    if (!rig_open(&rig, "dgx-a100-80gb", 1000)) {
        return;
    }
    struct points plan = { 0 };
    struct error error = { 0 };
    char text[128];
    rig.options.device_bytes = 48 << 20;
    rig.options.host_bytes = 96 << 20;
    rig.options.on_host = true;
    rig.options.cores = 4;
    EXPECT_INT(measure_plan(&rig.options, &plan, &error), STATUS_OK);
    uint32_t most = 0;
    for (uint32_t i = 0; i < plan.count; i++) {
        struct bench bench;
        uint32_t repeats[BENCH_POINTS_MAX];
        for (uint32_t k = 0; k < BENCH_POINTS_MAX; k++) {
            repeats[k] = 5 + k % 4;
        }
        struct point points[BENCH_POINTS_MAX];
        uint32_t count = 0;
        double bytes = 0;
        for (uint32_t k = i; k < plan.count && count < (i % 2 == 0 ? 1 : BENCH_POINTS_MAX); k++) {
            bytes += plan.items[k].bytes * 2 * (1 + plan.items[k].at_once);
            bool fits = count == 0 || bytes < 40e6; /* measure_points sees to that */
            if (fits && (count == 0 || bench_joins(&rig.options, &plan.items[i], &plan.items[k]))) {
                points[count++] = plan.items[k];
            }
        }
        EXPECT_INT(bench_build(&rig.options, points, repeats, count, &bench, &error), STATUS_OK);
        if (sched_verify(&bench.schedule, &error) != STATUS_OK) {
            TEST_FAIL_("%s: %s", point_text(&plan.items[i], text, sizeof text), error.message);
        }
        most = count > most ? count : most;
        uint64_t device = 0, host = 0;
        for (uint32_t b = 0; b < bench.schedule.buffer_count; b++) {
            const struct sched_buffer *buffer = &bench.schedule.buffers[b];
            const struct sched_space *space = &bench.schedule.spaces[buffer->space];
            device += space->kind == SPACE_DEVICE && space->location == plan.items[i].to ? buffer->bytes : 0;
            host += space->kind == SPACE_HOST || space->kind == SPACE_PINNED ? buffer->bytes : 0;
        }
        EXPECT(device <= rig.options.device_bytes && host <= rig.options.host_bytes);
        for (uint32_t p = 0; p < count; p++) {
            uint32_t ops = 0;
            for (uint32_t o = 0; o < bench.schedule.op_count; o++) {
                ops += bench.ops[o].point == p && bench.ops[o].series == 0;
            }
            bool duration = bench.rule == BENCH_DURATION;
            EXPECT(bench.series_count[p] >= 1 && (duration ? ops == repeats[p] : ops >= 3));
        }
        for (uint32_t r = 0; r < bench.schedule.rank_count; r++) {
            EXPECT_INT(bench.schedule.ranks[r].device_count, 1);
        }
        bench_free(&bench);
    }
    EXPECT_INT(most, BENCH_POINTS_MAX);
    points_free(&plan);
    rig_close(&rig);
}

/* On threads, ranks come to a collective one after the other: each behind a product, in turns one of them behind a second. */
static void test_arrivals(void)
{
    struct rig rig;
    if (!rig_open(&rig, "toy-2gpu", 1)) {
        return;
    }
    const struct point point = {
        .kind = POINT_COLLECTIVE, .collective = COLLECTIVE_ALL_REDUCE, .ranks = 2, .nodes = 1, .bytes = 4096
    };
    for (int on_host = 0; on_host < 2; on_host++) {
        struct bench bench;
        struct error error = { 0 };
        rig.options.on_host = on_host == 1;
        EXPECT_INT(bench_build(&rig.options, &point, (const uint32_t[]){ 6 }, 1, &bench, &error), STATUS_OK);
        const struct schedule *s = &bench.schedule;
        uint32_t products = 0, collectives = 0;
        for (uint32_t op = 0; op < s->op_count; op++) {
            const struct sched_op *o = &s->ops[op];
            products += o->opcode == OP_COMPUTE;
            if (o->opcode == OP_ALL_REDUCE) {
                uint32_t rank = sched_op_rank(s, o), late = collectives++ % 6 % 2 == rank ? 2 : 1;
                EXPECT_INT(products, on_host == 1 ? late : 0);
                EXPECT(on_host == 0 || o->queue == s->ops[op - 1].queue);
                products = 0;
            }
        }
        EXPECT_INT(collectives, 12);
        bench_free(&bench);
    }
    rig_close(&rig);
}

/* Products are what the model graph lists: flops and unique bytes of their shape, gradients accumulated in fp32 or in their own type. */
static void test_kernels(void)
{
    struct rig rig;
    if (!rig_open(&rig, "toy-2gpu", 1000)) {
        return;
    }
    struct points plan = { 0 };
    struct error error = { 0 };
    uint32_t layouts[3] = { 0 }, classes[KERNEL_CLASS_COUNT] = { 0 }, dtypes[DTYPE_COUNT] = { 0 }, batched = 0;
    rig.options.on_host = true;
    EXPECT_INT(measure_plan(&rig.options, &plan, &error), STATUS_OK);
    for (uint32_t i = 0; i < plan.count; i++) {
        const struct kernel *k = &plan.items[i].kernel;
        if (plan.items[i].kind != POINT_KERNEL) {
            continue;
        }
        classes[k->kernel_class]++;
        if (k->kernel_class != KERNEL_GEMM) {
            continue;
        }
        double m = (double)k->m, n = (double)k->n, kk = (double)k->k, b = (double)k->batch;
        double element = dtype_bytes((enum dtype)k->dtype), out = b * m * n;
        layouts[k->layout]++;
        dtypes[k->dtype]++;
        batched += k->batch > 1;
        EXPECT_REAL(k->flops, 2 * b * m * n * kk, 0);
        double in = b * (m * kk + kk * n) * element;
        if (k->flags & KERNEL_FLAG_ACCUMULATE) {
            EXPECT_REAL(k->bytes_read, in + 4 * out, 0);
            EXPECT_REAL(k->bytes_written, 4 * out, 0);
        } else {
            EXPECT_REAL(k->bytes_read, in, 0);
            EXPECT_REAL(k->bytes_written, element * out, 0);
        }
    }
    EXPECT(layouts[GEMM_NN] > 10 && layouts[GEMM_TN] > 10 && layouts[GEMM_NT] > 10 && batched > 10);
    EXPECT(dtypes[DTYPE_FP32] > 30 && dtypes[DTYPE_FP16] > 30 && dtypes[DTYPE_BF16] > 30);
    EXPECT_INT(dtypes[DTYPE_FP8], 0);
    for (int c = 0; c < KERNEL_CLASS_COUNT; c++) {
        if (classes[c] < 3) {
            TEST_FAIL_("%u kernels of class %s", classes[c], kernel_class_word((enum kernel_class)c));
        }
    }
    points_free(&plan);
    rig_close(&rig);
}

/* ---- interruption ---- */

struct stopper {
    uint32_t calls, stop_at, last_done, total;
    double seconds_left;
};

static bool stop_later(void *context, uint32_t done, uint32_t total, double seconds_left, const struct point *point)
{
    struct stopper *stopper = context;
    EXPECT(done <= total && done >= stopper->last_done && point != NULL && seconds_left >= 0);
    stopper->last_done = done;
    stopper->total = total;
    stopper->seconds_left = seconds_left;
    return ++stopper->calls != stopper->stop_at;
}

/* Stopped anywhere, then resumed: the same points, all of them in the file. */
static void test_resume(void)
{
    struct rig rig;
    if (!rig_open(&rig, "toy-2gpu", 1)) {
        return;
    }
    struct points plan = { 0 }, whole = { 0 }, parts = { 0 };
    struct error error = { 0 };
    char *text = NULL;
    size_t bytes = 0;
    bool stopped;
    EXPECT_INT(measure_plan(&rig.options, &plan, &error), STATUS_OK);
    EXPECT_INT(measure_points(&rig.options, &plan, &whole, NULL, &stopped, &error), STATUS_OK);
    FILE *file = open_memstream(&text, &bytes);
    uint32_t runs = 0, lines = 0;
    for (stopped = true; stopped && runs < 1000; runs++) {
        struct stopper stopper = { .stop_at = 12 + runs % 20 };
        rig.options.progress = stop_later;
        rig.options.progress_context = &stopper;
        uint32_t before = parts.count;
        EXPECT_INT(measure_points(&rig.options, &plan, &parts, file, &stopped, &error), STATUS_OK);
        EXPECT(!stopped || parts.count > before);
        EXPECT_INT(stopper.total, plan.count);
    }
    fclose(file);
    for (size_t i = 0; i < bytes; i++) {
        lines += text[i] == '\n';
    }
    EXPECT(runs > 5);
    EXPECT_INT(parts.count, whole.count);
    EXPECT_INT(lines, whole.count);
    for (uint32_t i = 0; i < whole.count; i++) {
        const struct point *found = points_find(&parts, &whole.items[i]);
        EXPECT(found != NULL && found->seconds == whole.items[i].seconds);
    }
    free(text);
    points_free(&plan);
    points_free(&whole);
    points_free(&parts);
    rig_close(&rig);
}

/* ---- an executor that measures ---- */

static double noise_factor = 1; /* outliers are so many times longer */
static int64_t gap_ps;          /* between two ops of a rank */
static double speed = 1;        /* the clock runs so much slower than the simulation */
static uint32_t noise_runs, noise_steps;
static enum status noise_status; /* of the run after `noise_good` ones */
static uint32_t noise_good;

/* The simulated step, `steps` times: the first op of each queue ten times as long, a third of the others `noise_factor` times, the rest as computed. Ops of the second and
 * later ranks come three ops late; what rank 0 did before was quick, for it was alone. */
static void disturb(const struct schedule *s, struct timeline *t, uint64_t *random)
{
    for (uint32_t i = 0; i < s->op_count; i++) {
        uint32_t rank = sched_op_rank(s, &s->ops[i]), nth = i - s->ranks[rank].first_op;
        int64_t duration = (int64_t)((double)(t->ops[i].end_ps - t->ops[i].start_ps) * speed), start = nth * duration;
        if (s->ops[i].match == SCHED_NONE) {
            start += rank > 0 ? 3 * duration : 0;
            duration = nth == 0 ? 10 * duration : duration;
            duration = s->rank_count > 1 && rank == 0 && nth < 3 ? duration / 50 : duration;
        }
        if (test_below(random, 3) == 0) {
            duration = (int64_t)((double)duration * noise_factor);
        }
        t->ops[i].start_ps = start + nth * gap_ps;
        t->ops[i].end_ps = start + nth * gap_ps + duration;
    }
}

static enum status noisy_run(const struct schedule *schedule, const struct exec_options *options,
                             struct timeline *timeline, struct error *error)
{
    uint64_t random = test_seed + noise_runs++;
    *timeline = (struct timeline){ 0 };
    if (noise_status != STATUS_OK && noise_runs > noise_good) {
        return error_set(error, noise_status, "the thing is broken");
    }
    EXPECT_INT(options->warmup_steps <= 1, 1);
    for (uint32_t step = 0; step < options->steps; step++) {
        timeline_free(timeline);
        enum status status = exec_sim.run(schedule, options, timeline, error);
        if (status != STATUS_OK) {
            return status;
        }
        disturb(schedule, timeline, &random);
        noise_steps++;
        if (options->step_done != NULL && !options->step_done(options->step_context, step, timeline)) {
            break;
        }
    }
    return STATUS_OK;
}

static const struct executor NOISY = {
    .abi = EXECUTOR_ABI, .capabilities = EXECUTOR_MEASURES, .name = "noisy", .run = noisy_run
};

/* Kernels and single copies: the median sees through a third of outliers, cold first ops and ops without company. */
static void test_noise(void)
{
    struct rig rig;
    if (!rig_open(&rig, "toy-2gpu", 1)) {
        return;
    }
    struct points plan = { 0 }, quiet = { 0 }, noisy = { 0 };
    struct error error = { 0 };
    bool stopped;
    char text[128];
    const struct kernel kernel = { .kernel_class = KERNEL_GEMM,
                                   .dtype = DTYPE_FP16,
                                   .launches = 1,
                                   .batch = 1,
                                   .m = 2048,
                                   .n = 2048,
                                   .k = 2048,
                                   .flops = 2.0 * 2048 * 2048 * 2048,
                                   .bytes_read = 4.0 * 2048 * 2048,
                                   .bytes_written = 2.0 * 2048 * 2048 };
    const struct point wanted[] = {
        { .kind = POINT_KERNEL, .kernel = kernel, .at_once = 1 },
        { .kind = POINT_KERNEL, .kernel = kernel, .at_once = 2 },
        { .kind = POINT_COPY, .way = COPY_H2D, .at_once = 1, .bytes = 1e6 },
        { .kind = POINT_COPY, .way = COPY_D2H, .at_once = 2, .bytes = 1e6 },
        { .kind = POINT_HOST_OPTIMIZER, .parameters = 1e5, .at_once = 2 },
        { .kind = POINT_COLLECTIVE, .collective = COLLECTIVE_ALL_REDUCE, .ranks = 2, .nodes = 1, .bytes = 1e6 },
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        EXPECT_INT(points_want(&plan, &wanted[i], &error), STATUS_OK);
    }
    EXPECT_INT(measure_points(&rig.options, &plan, &quiet, NULL, &stopped, &error), STATUS_OK);
    rig.options.executor = &NOISY;
    noise_factor = 7;
    EXPECT_INT(measure_points(&rig.options, &plan, &noisy, NULL, &stopped, &error), STATUS_OK);
    noise_factor = 1;
    EXPECT_INT(noisy.count, plan.count);
    for (uint32_t i = 0; i < noisy.count; i++) {
        if (fabs(noisy.items[i].seconds - quiet.items[i].seconds) > 1e-6 * quiet.items[i].seconds) {
            TEST_FAIL_("%s: %g s, without noise %g s", point_text(&noisy.items[i], text, sizeof text),
                       noisy.items[i].seconds, quiet.items[i].seconds);
        }
        EXPECT(noisy.items[i].repeats >= 20);
    }
    points_free(&plan);
    points_free(&quiet);
    points_free(&noisy);
    rig_close(&rig);
}

/* What lies between two ops, in a queue and across queues. */
static void test_gaps(void)
{
    struct rig rig;
    if (!rig_open(&rig, "toy-2gpu", 1)) {
        return;
    }
    struct points plan = { 0 }, points = { 0 };
    struct error error = { 0 };
    bool stopped;
    for (int issue = ISSUE_OP; issue <= ISSUE_KERNEL; issue++) {
        const struct point wanted = { .kind = POINT_ISSUE, .issue = (enum issue_what)issue };
        EXPECT_INT(points_want(&plan, &wanted, &error), STATUS_OK);
    }
    rig.options.executor = &NOISY;
    gap_ps = 5000000;
    EXPECT_INT(measure_points(&rig.options, &plan, &points, NULL, &stopped, &error), STATUS_OK);
    gap_ps = 0;
    EXPECT_INT(points.count, 3);
    EXPECT_REAL(points.items[0].seconds, 5e-6, 0.01); /* toy kernels take a nanosecond */
    EXPECT_REAL(points.items[2].seconds, 5e-6, 0.01);
    EXPECT(points.items[0].repeats > 100);
    points_free(&plan);
    points_free(&points);
    rig_close(&rig);
}

struct left_out {
    uint32_t count;
    char why[192];
};

static void note_left_out(void *context, const struct point *point, const char *why)
{
    struct left_out *left = context;
    EXPECT(point != NULL);
    left->count++;
    snprintf(left->why, sizeof left->why, "%s", why);
}

/* On a machine ten thousand times slower, long points are left out by name and not tried; the rest is measured. */
static void test_too_slow(void)
{
    struct rig rig;
    if (!rig_open(&rig, "toy-2gpu", 20)) {
        return;
    }
    struct points plan = { 0 }, points = { 0 };
    struct left_out left = { 0 };
    struct error error = { 0 };
    bool stopped;
    rig.options.executor = &NOISY;
    rig.options.left_out = note_left_out;
    rig.options.progress_context = &left;
    EXPECT_INT(measure_plan(&rig.options, &plan, &error), STATUS_OK);
    speed = 1e4;
    EXPECT_INT(measure_points(&rig.options, &plan, &points, NULL, &stopped, &error), STATUS_OK);
    speed = 1;
    printf("slow machine: %u of %u left out\n", left.count, plan.count);
    EXPECT(left.count > 10 && points.count > 50);
    EXPECT(points.count + left.count <= plan.count);
    points_free(&plan);
    points_free(&points);
    rig_close(&rig);
}

/* What the executor cannot do is left out with its reason; what fails ends the calibration, and what was measured before stays. */
static void test_broken(void)
{
    struct rig rig;
    if (!rig_open(&rig, "toy-2gpu", 1)) {
        return;
    }
    struct points plan = { 0 }, points = { 0 };
    struct left_out left = { 0 };
    struct error error = { 0 };
    bool stopped = true;
    rig.options.executor = &NOISY;
    rig.options.left_out = note_left_out;
    rig.options.progress_context = &left;
    EXPECT_INT(measure_plan(&rig.options, &plan, &error), STATUS_OK);
    noise_runs = 0;
    noise_good = 60;
    noise_status = STATUS_UNSUPPORTED;
    EXPECT_INT(measure_points(&rig.options, &plan, &points, NULL, &stopped, &error), STATUS_OK);
    EXPECT(!stopped && points.count > 10 && left.count > 10);
    EXPECT_TEXT(left.why, "the thing is broken");
    points_free(&points);
    noise_runs = 0;
    noise_status = STATUS_EXECUTION;
    EXPECT_INT(measure_points(&rig.options, &plan, &points, NULL, &stopped, &error), STATUS_EXECUTION);
    EXPECT_PART(error.message, "the thing is broken");
    EXPECT(points.count > 10);
    noise_status = STATUS_OK;
    points_free(&plan);
    points_free(&points);
    rig_close(&rig);
}

/* A point that did not get into the file does not count as kept. */
static void test_full_disk(void)
{
    struct rig rig;
    FILE *full = fopen("/dev/full", "w");
    if (full == NULL || !rig_open(&rig, "toy-2gpu", 1)) {
        printf("no /dev/full, passed over\n");
        return;
    }
    struct points plan = { 0 }, points = { 0 };
    struct error error = { 0 };
    bool stopped = true;
    EXPECT_INT(measure_plan(&rig.options, &plan, &error), STATUS_OK);
    EXPECT_INT(measure_points(&rig.options, &plan, &points, full, &stopped, &error), STATUS_IO);
    EXPECT_PART(error.message, "cannot be written");
    EXPECT_INT(points.count, 0);
    (void)fclose(full);
    points_free(&plan);
    points_free(&points);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST(test_closed_loop_toy), TEST(test_closed_loop_dgx), TEST(test_plan),
        TEST(test_schedules),       TEST(test_arrivals),        TEST(test_kernels),
        TEST(test_resume),          TEST(test_noise),           TEST(test_gaps),
        TEST(test_too_slow),        TEST(test_broken),          TEST(test_full_disk)
    };
    return test_run(cases, sizeof cases / sizeof cases[0], argc, argv);
}
