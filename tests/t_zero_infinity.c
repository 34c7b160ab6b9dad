/* The policies zero3-offload and zero-infinity: bytes of every class and direction, how far ahead weights are fetched, what drives carry, and what is refused. */
#include "tests/zero_run.h"

static double parameters_of(const struct report_run *run)
{
    return (double)model_parameters(&run->scenario.model);
}

/* Norms and biases of a transformer layer of the test model: 4 norm vectors, 2 biases of 512; qkv's 1536, feed-forward's 2048. */
enum { LAYERS = 6, HIDDEN = 512, SMALL_OF_LAYER = 6 * HIDDEN + 1536 + 2048, SMALL_OF_HEAD = 2 * HIDDEN };
static const double SMALL = LAYERS * SMALL_OF_LAYER + SMALL_OF_HEAD;

struct mode {
    const char *policy, *parameters_on, *optimizer_on, *preset;
    int threshold, reuse;
};

static bool run_mode(struct report_run *run, const struct mode *mode, int gpus, int accumulation, const char *more)
{
    char policy[512];
    snprintf(policy, sizeof policy,
             "{\"name\": \"%s\", \"parameters_on\": \"%s\", \"optimizer_on\": \"%s\", \"preset\": \"%s\","
             " \"persistence_threshold\": %d, \"max_reuse_distance\": %d, \"max_live_parameters\": 1000000000,"
             " \"buffer_elements\": 1000000, \"sub_group_elements\": 5000000}",
             mode->policy, mode->parameters_on, mode->optimizer_on, mode->preset, mode->threshold, mode->reuse);
    const struct zero_case c = { gpus, 3, accumulation, policy, more };
    return zero_run(run, &c);
}

/* Weights fetched a step: every layer for each forward and each backward, but the head's, whose backward follows its forward, and the embedding's, whose next forward follows its backward. */
static double fetched(const struct report_run *run, const struct mode *mode, int accumulation)
{
    const struct model *m = &run->scenario.model;
    double small = mode->threshold > 0 ? SMALL : 0;
    if (mode->reuse > 0) { /* everything is kept until its last use */
        return parameters_of(run) - small;
    }
    double head = (double)model_head_parameters(m), embedding = (double)model_embedding_parameters(m);
    double layers = parameters_of(run) - head - embedding - (mode->threshold > 0 ? LAYERS * SMALL_OF_LAYER : 0);
    double heads = mode->threshold > 0 ? 0 : head * accumulation;
    return 2 * layers * accumulation + heads + embedding * (accumulation + 1);
}

static void expect_bytes(const struct mode *mode, int gpus, int accumulation)
{
    static struct report_run run;
    unsigned before = test_failures;
    if (!run_mode(&run, mode, gpus, accumulation, "")) {
        return;
    }
    bool code = strcmp(mode->preset, "code") == 0, states_on_drives = strcmp(mode->optimizer_on, "nvme") == 0;
    bool on_drives = strcmp(mode->parameters_on, "nvme") == 0, resident = strcmp(mode->parameters_on, "device") == 0;
    double p = parameters_of(&run), sent = code ? 4 : 2, last_byte = 1e-6;
    double small = resident || mode->threshold == 0 ? 0 : SMALL,
           weights = resident ? 0 : fetched(&run, mode, accumulation);
    double sums = 2 * (accumulation - 1), refreshed = resident ? p : small * gpus;
    EXPECT_REAL(zero_total(&run, OP_COPY_D2H), p * (sent + sums), last_byte);
    EXPECT_REAL(zero_total(&run, OP_COPY_H2D), 2 * weights + p * sums + 2 * refreshed, last_byte);
    EXPECT_REAL(zero_total(&run, OP_STORAGE_READ),
                (on_drives ? 2 * weights : 0) + (states_on_drives ? p * (12 + sent) : 0), last_byte);
    EXPECT_REAL(zero_total(&run, OP_STORAGE_WRITE), (on_drives ? 2 * p : 0) + (states_on_drives ? p * (12 + sent) : 0),
                last_byte);
    enum space_kind states = states_on_drives ? SPACE_STORAGE : SPACE_HOST;
    EXPECT_REAL(zero_held(&run, states, BUFFER_OPTIMIZER), 12 * p, last_byte);
    EXPECT_REAL(zero_held(&run, states_on_drives ? SPACE_STORAGE : SPACE_PINNED, BUFFER_GRADIENT),
                p * (sent + (code && accumulation > 1 && !states_on_drives ? 2 : 0)), last_byte);
    EXPECT_REAL(zero_held(&run, SPACE_DEVICE, BUFFER_WEIGHT), resident ? 2 * p : 2 * small * gpus, last_byte);
    EXPECT_REAL(zero_held(&run, on_drives ? SPACE_STORAGE : SPACE_PINNED, BUFFER_WEIGHT), resident ? 0 : 2 * p,
                last_byte);
    if (on_drives) { /* five buffers of 10^6 16-bit weights on each rank */
        EXPECT_REAL(zero_held(&run, SPACE_PINNED, BUFFER_COMMUNICATION), 5 * 2e6 * gpus, 0);
    }
    if (test_failures != before) {
        printf("  %s parameters on %s, optimizer on %s, %s, %d gpus, accumulation %d, threshold %d, reuse %d\n",
               mode->policy, mode->parameters_on, mode->optimizer_on, mode->preset, gpus, accumulation, mode->threshold,
               mode->reuse);
    }
    report_run_free(&run);
}

static void test_bytes(void)
{
    static const struct mode modes[] = {
        { "zero3-offload", "host", "host", "paper", 100000, 1000000000 },
        { "zero3-offload", "host", "host", "code", 100000, 0 },
        { "zero3-offload", "host", "host", "code", 0, 0 },
        { "zero3-offload", "device", "host", "code", 100000, 0 },
        { "zero-infinity", "nvme", "nvme", "code", 100000, 0 },
        { "zero-infinity", "nvme", "nvme", "paper", 0, 1000000000 },
        { "zero-infinity", "nvme", "host", "code", 100000, 0 },
        { "zero-infinity", "host", "nvme", "code", 100000, 0 },
    };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        for (int gpus = 1; gpus <= 2; gpus++) {
            expect_bytes(&modes[i], gpus, 1);
            expect_bytes(&modes[i], gpus, 3);
        }
    }
}

/* Everything page-locked in DeepSpeed's ZeRO-3 (facts C.2): 4 bytes a parameter of fp32 gradients, 2 of weights where these are offloaded, 2 of the sum of gradients where micro-batches accumulate. */
static void test_pinned_volumes(void)
{
    static struct report_run run;
    for (int i = 0; i < 12; i++) {
        const int gpus = 1 + i % 2, accumulation = 1 + i / 2 % 3;
        const bool offloaded = i < 6;
        const struct zero_case c = {
            gpus, 3, accumulation,
            offloaded ? "{\"name\": \"zero3-offload\", \"round_pinned\": \"none\"}"
                      : "{\"name\": \"zero3-offload\", \"parameters_on\": \"device\", \"round_pinned\": \"none\"}",
            ""
        };
        if (zero_run(&run, &c)) {
            double held = 0;
            for (int k = 0; k < BUFFER_CLASS_COUNT; k++) {
                held += zero_held(&run, SPACE_PINNED, (enum buffer_class)k);
            }
            EXPECT_REAL(held, ((offloaded ? 6 : 4) + (accumulation > 1 ? 2 : 0)) * parameters_of(&run), 1e-6);
        }
        report_run_free(&run);
    }
}

static uint32_t pageable_copies(const struct report_run *run, enum opcode opcode)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < run->schedule.op_count; k++) {
        const struct sched_op *op = &run->schedule.ops[k];
        count += op->opcode == opcode && run->schedule.works[op->work].pageable != 0;
    }
    return count;
}

/* Memory that is not page-locked: the same bytes, in the other part of the host, through slower copies; those of gradients hold the backward up. */
static void test_pageable(void)
{
    static struct report_run locked, weights, gradients;
    const struct zero_case as_default = { 2, 3, 2, "{\"name\": \"zero3-offload\"}", "" };
    const struct zero_case no_weights = { 2, 3, 2, "{\"name\": \"zero3-offload\", \"pinned_weights\": false}", "" };
    const struct zero_case no_gradients = { 2, 3, 2, "{\"name\": \"zero3-offload\", \"pinned_gradients\": false}", "" };
    if (zero_run(&locked, &as_default) && zero_run(&weights, &no_weights) && zero_run(&gradients, &no_gradients)) {
        double p = parameters_of(&locked);
        EXPECT_REAL(zero_held(&locked, SPACE_PINNED, BUFFER_WEIGHT), 2 * p, 0);
        EXPECT_REAL(zero_held(&weights, SPACE_HOST, BUFFER_WEIGHT), 2 * p, 0);
        EXPECT_REAL(zero_held(&weights, SPACE_PINNED, BUFFER_WEIGHT), 0, 0);
        EXPECT_REAL(zero_held(&gradients, SPACE_HOST, BUFFER_GRADIENT),
                    zero_held(&locked, SPACE_PINNED, BUFFER_GRADIENT), 0);
        EXPECT_REAL(zero_held(&gradients, SPACE_PINNED, BUFFER_GRADIENT), 0, 0);
        EXPECT_INT(pageable_copies(&locked, OP_COPY_H2D) + pageable_copies(&locked, OP_COPY_D2H), 0);
        EXPECT(pageable_copies(&weights, OP_COPY_H2D) > 0 && pageable_copies(&weights, OP_COPY_D2H) == 0);
        EXPECT(pageable_copies(&gradients, OP_COPY_D2H) > 0);
        EXPECT_REAL(zero_total(&weights, OP_COPY_H2D), zero_total(&locked, OP_COPY_H2D), 0);
        EXPECT_REAL(zero_total(&gradients, OP_COPY_D2H), zero_total(&locked, OP_COPY_D2H), 0);
        EXPECT(weights.timeline.end_ps > locked.timeline.end_ps);
        EXPECT(gradients.timeline.end_ps > locked.timeline.end_ps);
    }
    report_run_free(&locked);
    report_run_free(&weights);
    report_run_free(&gradients);
}

/* Each pass waits for its weights; fetched ahead they come while the pass before runs, one after the other they do not. */
static void test_prefetch(void)
{
    static struct report_run ahead, apart;
    const struct zero_case with = { 1, 3, 1, "{\"name\": \"zero3-offload\", \"max_reuse_distance\": 0}", "" };
    const struct zero_case without = {
        1, 3, 1, "{\"name\": \"zero3-offload\", \"max_reuse_distance\": 0, \"prefetch_elements\": 0}", ""
    };
    if (zero_run(&ahead, &with) && zero_run(&apart, &without)) {
        EXPECT(ahead.timeline.end_ps < apart.timeline.end_ps);
        const struct schedule *s = &apart.schedule;
        uint32_t checked = 0;
        for (uint32_t i = 0; i < s->op_count; i++) {
            if (s->ops[i].opcode != OP_COPY_H2D) {
                continue;
            }
            for (uint32_t k = 0; k < s->op_count; k++) {
                bool pass = s->ops[k].phase == PHASE_FORWARD || s->ops[k].phase == PHASE_BACKWARD;
                if (pass && s->ops[k].opcode == OP_COMPUTE) {
                    EXPECT(apart.timeline.ops[k].end_ps <= apart.timeline.ops[i].start_ps ||
                           apart.timeline.ops[k].start_ps >= apart.timeline.ops[i].end_ps);
                    checked++;
                }
            }
        }
        EXPECT(checked > 0);
        EXPECT(zero_use(&apart, SPACE_DEVICE)->peak_bytes < zero_use(&ahead, SPACE_DEVICE)->peak_bytes);
    }
    report_run_free(&ahead);
    report_run_free(&apart);
}

static void test_live(void)
{
    static struct report_run run;
    double layer = 0, last = 0;
    static const char *const caps[] = { "1", "4000000", "7000000", "1000000000" };
    for (int i = 0; i < 4; i++) {
        char policy[256];
        snprintf(policy, sizeof policy,
                 "{\"name\": \"zero3-offload\", \"persistence_threshold\": 0, \"max_reuse_distance\": 0,"
                 " \"prefetch_elements\": 1000000000, \"max_live_parameters\": %s}",
                 caps[i]);
        const struct zero_case c = { 1, 3, 1, policy, "" };
        /* a device slow enough that weights come faster than they are used */
        if (!zero_run_on(&run, &c, "{\"base\": \"toy-2gpu\", \"gpu\": {\"peak_TFLOPS\": {\"fp16\": 2}}}")) {
            continue;
        }
        layer = (double)model_layer_parameters(&run.scenario.model); /* 3.15 M */
        double live = zero_class_peak(&run, BUFFER_WEIGHT), cap = strtod(caps[i], NULL);
        EXPECT(live <= 2 * fmax(cap, layer)); /* the layer that runs is always whole */
        EXPECT(live >= last);
        last = live;
        report_run_free(&run);
    }
    EXPECT(last > 2 * 3 * layer);
}

/* Sub-groups: reads beside Adam and writes beside Adam save time, and take staging memory. */
static void test_sub_groups(void)
{
    static struct report_run run;
    static const char *const pipelines[] = { "", ", \"pipeline_read\": true",
                                             ", \"pipeline_read\": true, \"pipeline_write\": true" };
    int64_t last_ps = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        char policy[256];
        snprintf(policy, sizeof policy,
                 "{\"name\": \"zero-infinity\", \"parameters_on\": \"host\", \"sub_group_elements\": 2000000%s}",
                 pipelines[i]);
        const struct zero_case c = { 1, 3, 1, policy, "" };
        if (zero_run(&run, &c)) {
            EXPECT(run.timeline.end_ps < last_ps);
            last_ps = run.timeline.end_ps;
            /* 16 bytes a parameter in each of 1, 2 or 3 staging sets */
            EXPECT((double)zero_use(&run, SPACE_PINNED)->at_peak_bytes[BUFFER_OPTIMIZER] <= (i + 1) * 2e6 * 16);
        }
        report_run_free(&run);
    }
    /* Serial: read, update, write of each group one after the other, 2 and 1 GB/s of drive. */
    const struct zero_case serial = {
        1, 3, 1, "{\"name\": \"zero-infinity\", \"parameters_on\": \"host\", \"sub_group_elements\": 2000000}", ""
    };
    if (zero_run(&run, &serial)) {
        double p = parameters_of(&run), first = 0, last = 0;
        for (uint32_t i = 0; i < run.schedule.op_count; i++) {
            if (run.schedule.ops[i].opcode == OP_STORAGE_READ && first <= 0) {
                first = zero_start_s(&run, i);
            }
            if (run.schedule.ops[i].opcode == OP_STORAGE_WRITE) {
                last = zero_end_s(&run, i);
            }
        }
        EXPECT_REAL(last - first, p * (16 / 2e9 + 1 / 1e9 + 12 / 1e9), 1e-9);
    }
    report_run_free(&run);
}

/* Serial sub-groups on drives of other rates: each byte of the update takes the time of its own direction, so that exchanging the two rates changes it. */
static void test_drive_rates(void)
{
    static const double rates[][2] = { { 2, 1 }, { 1, 2 }, { 2, 2 }, { 3, 0.5 } }; /* GB/s read, written */
    static struct report_run run;
    const struct zero_case c = {
        1, 3, 1, "{\"name\": \"zero-infinity\", \"parameters_on\": \"host\", \"sub_group_elements\": 2000000}", ""
    };
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        char machine[1024];
        snprintf(machine, sizeof machine,
                 "{\"base\": \"toy-2gpu\", \"parts\": [{\"id\": \"cpu0\", \"kind\": \"cpu_socket\", \"cores\": 10},"
                 " {\"id\": \"dram0\", \"kind\": \"host_dram\", \"capacity_GiB\": 128},"
                 " {\"id\": \"gpu[0-1]\", \"kind\": \"gpu\"}, {\"id\": \"nvme0\", \"kind\": \"nvme\","
                 " \"capacity_GB\": 1000, \"read_GBps\": %g, \"write_GBps\": %g}],"
                 " \"links\": [{\"kind\": \"ddr\", \"a\": \"cpu0\", \"b\": \"dram0\", \"GBps\": 100},"
                 " {\"kind\": \"pcie\", \"a\": \"cpu0\", \"b\": \"gpu[0-1]\", \"lanes\": 16, \"GBps\": 10},"
                 " {\"kind\": \"pcie\", \"a\": \"cpu0\", \"b\": \"nvme0\", \"lanes\": 4, \"GBps\": 4},"
                 " {\"kind\": \"nvlink\", \"a\": \"gpu0\", \"b\": \"gpu1\", \"lanes\": 4, \"GBps\": 100}]}",
                 rates[i][0], rates[i][1]);
        if (zero_run_on(&run, &c, machine)) {
            double first = -1, last = 0; /* of states: weights live in host memory */
            for (uint32_t k = 0; k < run.schedule.op_count; k++) {
                enum opcode opcode = run.schedule.ops[k].opcode;
                first = opcode == OP_STORAGE_READ && first < 0 ? zero_start_s(&run, k) : first;
                last = opcode == OP_STORAGE_WRITE ? zero_end_s(&run, k) : last;
            }
            /* 12 of states and 4 of gradient read, 1 ns of Adam, 12 written */
            double each = 16 / (rates[i][0] * 1e9) + 1 / 1e9 + 12 / (rates[i][1] * 1e9);
            EXPECT_REAL(last - first, parameters_of(&run) * each, 1e-9);
            printf("reads %g, writes %g GB/s: update %.4f s, step %.4f s\n", rates[i][0], rates[i][1], last - first,
                   run.result.step_time_s);
        }
        report_run_free(&run);
    }
}

/* Orders that split the backward, or hold all forwards first, move the same bytes. */
static void test_orders(void)
{
    static struct report_run plain, other;
    static const char *const orders[] = { "\"zb-h1\"", "{\"name\": \"gpipe\", \"backward_order\": \"lifo\"}" };
    for (int i = 0; i < 2; i++) {
        char more[128];
        const char *policy = "{\"name\": \"zero3-offload\", \"max_reuse_distance\": 0, \"cpu_ratio\": 1}";
        snprintf(more, sizeof more, ", \"parallel\": {\"zero_stage\": 3, \"pipeline_order\": %s}", orders[i]);
        const struct zero_case usual = { 1, 3, 3, policy, "" };
        if (!zero_run(&plain, &usual)) {
            continue;
        }
        char text[1024];
        memset(&other, 0, sizeof other);
        snprintf(text, sizeof text,
                 "{\"machine\": \"toy-2gpu\", \"gpus\": 1, \"software\": \"ideal\", \"model\": {\"family\": \"gpt\","
                 " \"layers\": 6, \"hidden\": 512, \"heads\": 8, \"ffn\": 2048, \"vocab\": 1000,"
                 " \"max_sequence\": 512}, \"training\": {\"micro_batch\": 2, \"global_batch\": 6},"
                 " \"memory_policy\": %s%s}",
                 policy, more);
        if (report_run(&other, text)) {
            EXPECT_INT(other.timeline.outcome, TIMELINE_DONE);
            EXPECT_REAL(zero_total(&other, OP_COPY_D2H), zero_total(&plain, OP_COPY_D2H), 0);
            EXPECT_REAL(zero_total(&other, OP_HOST_OPTIMIZER), zero_total(&plain, OP_HOST_OPTIMIZER), 0);
        }
        report_run_free(&plain);
        report_run_free(&other);
    }
}

/* Twin-Flow where the weights' shares live on the device. */
static void test_twin_flow(void)
{
    static struct report_run run;
    const struct zero_case c = { 2, 3, 1,
                                 "{\"name\": \"zero3-offload\", \"parameters_on\": \"device\", \"cpu_ratio\": 0.5}",
                                 "" };
    if (zero_run(&run, &c)) {
        double p = parameters_of(&run), host = zero_held(&run, SPACE_HOST, BUFFER_OPTIMIZER) / 12, last_byte = 1e-6;
        EXPECT(host > 0 && host <= p / 2);
        EXPECT_REAL(zero_held(&run, SPACE_DEVICE, BUFFER_OPTIMIZER), 12 * (p - host), last_byte);
        EXPECT_REAL(zero_total(&run, OP_COPY_D2H), 4 * host, last_byte);
        EXPECT_REAL(zero_total(&run, OP_COPY_H2D), 2 * host, last_byte);
    }
    report_run_free(&run);
}

static void test_folding(void)
{
    static struct report_run once, apart;
    static const char *const policies[] = { "zero3-offload", "zero-infinity" };
    for (int i = 0; i < 2; i++) {
        const struct mode mode = { policies[i], i == 0 ? "host" : "nvme", i == 0 ? "host" : "nvme", "code", 100000, 0 };
        if (run_mode(&once, &mode, 2, 3, "") && run_mode(&apart, &mode, 2, 3, ", \"fold\": false")) {
            EXPECT_REAL(once.result.step_time_s, apart.result.step_time_s, 1e-9);
            EXPECT_INT(zero_use(&once, SPACE_HOST)->peak_bytes, zero_use(&apart, SPACE_HOST)->peak_bytes);
        }
        report_run_free(&once);
        report_run_free(&apart);
    }
}

/* The first read from the drives of a DGX A100, alone; `requests` in flight of `block_KiB` each. Its bytes in *bytes. */
static double read_s(int requests, int block_KiB, double *bytes)
{
    static struct report_run run;
    char text[1024];
    double alone_s = 0;
    snprintf(
        text, sizeof text,
        "{\"machine\": \"dgx-a100-80gb\", \"gpus\": 1, \"model\": \"gpt2-medium\", \"training\": {\"micro_batch\": 1},"
        " \"software\": {\"base\": \"ideal\", \"storage\": {\"queue_depth\": %d, \"block_KiB\": %d}},"
        " \"parallel\": {\"zero_stage\": 3}, \"memory_policy\": \"zero-infinity\"}",
        requests, block_KiB);
    memset(&run, 0, sizeof run);
    if (report_run(&run, text)) {
        for (uint32_t k = 0; k < run.schedule.op_count && alone_s <= 0; k++) {
            if (run.schedule.ops[k].opcode == OP_STORAGE_READ) {
                *bytes = run.schedule.works[run.schedule.ops[k].work].bytes;
                alone_s = (double)run.timeline.ops[k].alone_ps * 1e-12;
            }
        }
    }
    report_run_free(&run);
    return alone_s;
}

/* With d requests in flight a transfer takes bytes x (latency / block + 1 / rate of a drive) / d, beside the latency of its first byte; with many, as long as without the limit. */
static void test_queue_depth(void)
{
    double bytes = 0, once = read_s(1, 256, &bytes), larger = read_s(1, 512, &bytes), largest = read_s(1, 1024, &bytes);
    double twice = read_s(2, 256, &bytes), many = read_s(1000, 1024, &bytes), free_s = read_s(0, 1024, &bytes);
    printf("%.4g MB from eight drives: %.4g ms with one request of 256 KiB in flight, %.4g with two, %.4g with 1,000\n",
           bytes * 1e-6, once * 1e3, twice * 1e3, many * 1e3);
    EXPECT(bytes > 0);
    EXPECT_REAL((once - larger) / (larger - largest), 2, 1e-3); /* bytes x latency / block */
    EXPECT_REAL(once / twice, 2, 1e-3);
    EXPECT(largest > bytes / 6.38e9 && largest < 1.05 * bytes / 6.38e9); /* one drive's link at a time */
    EXPECT_REAL(many, free_s, 1e-9);
    EXPECT(many < 0.5 * largest);
}

static void test_refused(void)
{
#define SCENARIO(more)                                                                                                 \
    "{\"machine\": \"toy-2gpu\", \"software\": \"ideal\", \"model\": \"gpt2-medium\", \"gpus\": 2, " more "}"
    zero_expect_refused(SCENARIO("\"parallel\": {\"zero_stage\": 2}, \"memory_policy\": \"zero3-offload\""),
                        "$.parallel.zero_stage", "zero-offload");
    zero_expect_refused(SCENARIO("\"parallel\": {\"zero_stage\": 3}, \"memory_policy\":"
                                 " {\"name\": \"zero3-offload\", \"cpu_ratio\": 0.5}"),
                        "$.memory_policy.cpu_ratio", "parameters_on");
    zero_expect_refused(
        "{\"machine\": {\"base\": \"toy-2gpu\", \"parts\": [{\"id\": \"cpu0\", \"kind\": \"cpu_socket\","
        " \"cores\": 10}, {\"id\": \"dram0\", \"kind\": \"host_dram\", \"capacity_GiB\": 128},"
        " {\"id\": \"gpu[0-1]\", \"kind\": \"gpu\"}],"
        " \"links\": [{\"kind\": \"ddr\", \"a\": \"cpu0\", \"b\": \"dram0\", \"GBps\": 100},"
        " {\"kind\": \"pcie\", \"a\": \"cpu0\", \"b\": \"gpu[0-1]\", \"lanes\": 16, \"GBps\": 10},"
        " {\"kind\": \"nvlink\", \"a\": \"gpu0\", \"b\": \"gpu1\", \"lanes\": 4, \"GBps\": 100}]},"
        " \"software\": \"ideal\", \"model\": \"gpt2-medium\", \"gpus\": 2,"
        " \"parallel\": {\"zero_stage\": 3}, \"memory_policy\": \"zero-infinity\"}",
        "$.memory_policy", "no drives");
    zero_expect_refused("{\"machine\": \"dgx-a100-40gb\", \"software\": \"torchtitan\", \"model\": \"gpt2-medium\","
                        " \"gpus\": 2, \"parallel\": {\"zero_stage\": 3}, \"memory_policy\": \"zero3-offload\"}",
                        "$.software", "deepspeed");
}

/* Weights that stand on the first device before the step begins. */
static double weights_at_start(const struct report_run *run)
{
    const struct schedule *s = &run->schedule;
    uint32_t space = 0;
    double bytes = 0;
    while (s->spaces[space].kind != SPACE_DEVICE) {
        space++;
    }
    for (uint32_t i = 0; i < s->buffer_count; i++) {
        const struct sched_buffer *buffer = &s->buffers[i];
        bool here = buffer->space == space && buffer->buffer_class == BUFFER_WEIGHT;
        bytes += here && (buffer->flags & BUFFER_LIVE_AT_START) != 0 ? (double)buffer->bytes : 0;
    }
    return bytes;
}

/* Made on the device, a rank's share of the weights stands there before the step, beside what always does; the step is the same. Where the share has no room the model does not fit, and says so. */
static void test_initialised_on_device(void)
{
    static struct report_run moved, plain, full;
    for (int gpus = 1; gpus <= 2; gpus++) {
        const struct zero_case on_device = { gpus, 3, 1,
                                             "{\"name\": \"zero3-offload\", \"initialised_on_device\": true}", "" };
        const struct zero_case on_host = { gpus, 3, 1, "{\"name\": \"zero3-offload\"}", "" };
        if (zero_run(&moved, &on_device) && zero_run(&plain, &on_host)) {
            double share = 2 * parameters_of(&plain) / gpus;
            EXPECT_REAL(weights_at_start(&moved) - weights_at_start(&plain), share, 1e-6);
            EXPECT_INT(moved.timeline.end_ps, plain.timeline.end_ps);
        }
        report_run_free(&moved);
        report_run_free(&plain);
    }
    for (int on_device = 0; on_device < 2; on_device++) {
        char text[1024];
        memset(&full, 0, sizeof full);
        snprintf(
            text, sizeof text,
            "{\"machine\": {\"base\": \"toy-2gpu\", \"gpu\": {\"memory_GiB\": 0.035}}, \"gpus\": 1,"
            " \"software\": \"ideal\", \"model\": {\"family\": \"gpt\", \"layers\": 6, \"hidden\": 512,"
            " \"heads\": 8, \"ffn\": 2048, \"vocab\": 1000, \"max_sequence\": 512}, \"training\":"
            " {\"sequence_length\": 32}, \"recompute\": \"full\", \"parallel\": {\"zero_stage\": 3},"
            " \"memory_policy\": {\"name\": \"zero3-offload\", \"preset\": \"paper\", \"bucket_elements\": 1000000,"
            " \"prefetch_elements\": 0, \"max_reuse_distance\": 0,"
            " \"initialised_on_device\": %s}}",
            on_device != 0 ? "true" : "false");
        if (report_run(&full, text)) {
            EXPECT_INT(full.timeline.outcome, on_device != 0 ? TIMELINE_DOES_NOT_FIT : TIMELINE_DONE);
            EXPECT(on_device == 0 || full.result.outcome.length > 0);
            if (on_device != 0) {
                EXPECT_PART(full.result.outcome.text, "live at the start");
            }
        }
        report_run_free(&full);
    }
}

TEST_MAIN(TEST(test_bytes), TEST(test_pinned_volumes), TEST(test_pageable), TEST(test_initialised_on_device),
          TEST(test_prefetch), TEST(test_live), TEST(test_sub_groups), TEST(test_drive_rates), TEST(test_orders),
          TEST(test_twin_flow), TEST(test_folding), TEST(test_queue_depth), TEST(test_refused))
