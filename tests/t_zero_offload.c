/* The policy zero-offload: bytes of every class and direction (facts C.1, C.2), the timeline law (C.3), the delayed update's period (C.4), Twin-Flow, and what is refused. */
#include "tests/zero_run.h"

/* Rates of the toy machine. */
#define PCIE_BYTES_PER_S      10e9
#define DRAM_BYTES_PER_S      100e9
#define HBM_BYTES_PER_S       1000e9
#define ADAM_PARAMETERS_PER_S 1e9
/* Times are whole picoseconds, each op rounds once. */
#define ROUNDING 1e-9

static double parameters_of(const struct report_run *run)
{
    return (double)model_parameters(&run->scenario.model);
}

/* ---- bytes ---- */

static void expect_bytes(int gpus, int zero_stage, int accumulation, bool code)
{
    static struct report_run run;
    const struct zero_case c = { gpus, zero_stage, accumulation,
                                 code ? "{\"name\": \"zero-offload\", \"preset\": \"code\"}"
                                      : "{\"name\": \"zero-offload\", \"preset\": \"paper\"}",
                                 "" };
    if (!zero_run(&run, &c)) {
        return;
    }
    double p = parameters_of(&run), sent = code ? 4 : 2, last_byte = 1e-6;
    bool sums = accumulation > 1 && (gpus == 1 || zero_stage == 2);
    int before_last = sums ? accumulation - 1 : 0;
    /* Each parameter's gradient goes down once, from its owner; with stored sums 2 + 2 bytes more for all micro-batches but one. */
    EXPECT_REAL(zero_total(&run, OP_COPY_D2H), p * (sent + 2 * before_last), last_byte);
    EXPECT_REAL(zero_total(&run, OP_COPY_H2D), p * (2 + 2 * before_last), last_byte);
    /* Adam, and host passes counted at its 28 bytes: in `code` of 8 and 6, in `paper` the second store of 2. */
    EXPECT_REAL(zero_total(&run, OP_HOST_OPTIMIZER), p * (1 + (code ? 8.0 + 6.0 : 2.0) / 28), last_byte);
    EXPECT_REAL(zero_held(&run, SPACE_HOST, BUFFER_OPTIMIZER), 12 * p, last_byte);
    EXPECT_REAL(zero_held(&run, SPACE_DEVICE, BUFFER_OPTIMIZER), 0, 0);
    EXPECT_REAL(zero_held(&run, SPACE_DEVICE, BUFFER_WEIGHT), 2 * p * gpus, last_byte);
    EXPECT_REAL(zero_held(&run, SPACE_PINNED, BUFFER_GRADIENT), p * (sent + (code && sums ? 2 : 0)), last_byte);
    EXPECT_REAL(zero_held(&run, SPACE_DEVICE, BUFFER_GRADIENT), zero_stage == 1 && gpus > 1 ? 2 * p * gpus : 0, 0);
    EXPECT_REAL(zero_held(&run, SPACE_PINNED, BUFFER_COMMUNICATION), code ? 2 * p : 0, last_byte);
    report_run_free(&run);
}

static void test_bytes(void)
{
    for (int code = 0; code < 2; code++) {
        for (int accumulation = 1; accumulation <= 4; accumulation++) {
            expect_bytes(1, 0, accumulation, code != 0);
            expect_bytes(1, 2, accumulation, code != 0);
            expect_bytes(2, 1, accumulation, code != 0);
            expect_bytes(2, 2, accumulation, code != 0);
        }
    }
}

/* 14 bytes of host memory a parameter in the paper; 16 + 2 in the code, 28 while Adam runs. */
static void test_host_memory(void)
{
    static struct report_run run;
    const struct zero_case paper = { 1, 0, 1, "{\"name\": \"zero-offload\", \"preset\": \"paper\"}", "" };
    if (zero_run(&run, &paper)) {
        double p = parameters_of(&run), at_start = 0;
        for (int c = 0; c < BUFFER_CLASS_COUNT; c++) {
            at_start +=
                zero_held(&run, SPACE_HOST, (enum buffer_class)c) + zero_held(&run, SPACE_PINNED, (enum buffer_class)c);
        }
        EXPECT_REAL(at_start, 14 * p, 0);
    }
    report_run_free(&run);
    const struct zero_case code = { 1, 0, 1,
                                    "{\"name\": \"zero-offload\", \"preset\": \"code\", \"round_pinned\": \"none\"}",
                                    "" };
    if (zero_run(&run, &code)) {
        EXPECT_REAL((double)zero_use(&run, SPACE_HOST)->peak_bytes, 28 * parameters_of(&run), 0);
    }
    report_run_free(&run);
    const struct zero_case lean = { 1, 0, 1,
                                    "{\"name\": \"zero-offload\", \"round_pinned\": \"none\", \"scratch_bytes\": 0}",
                                    "" };
    if (zero_run(&run, &lean)) { /* states, gradient, staging */
        EXPECT_REAL((double)zero_use(&run, SPACE_HOST)->peak_bytes, (16 + 2) * parameters_of(&run), 0);
    }
    report_run_free(&run);
    const struct zero_case rounded = { 1, 0, 1, "{\"name\": \"zero-offload\", \"preset\": \"code\"}", "" };
    if (zero_run(&run, &rounded)) {
        double p = parameters_of(&run);
        double waste = exp2(ceil(log2(4 * p))) - 4 * p + exp2(ceil(log2(2 * p))) - 2 * p;
        EXPECT_REAL(zero_held(&run, SPACE_HOST, BUFFER_RUNTIME), waste, 0);
    }
    report_run_free(&run);
}

/* On the device: in the code one flat bucket, two with overlap, and the gradient of the layer that runs; in the paper's form what waits to leave. */
static void test_buckets_on_device(void)
{
    static struct report_run run;
    static const struct {
        const char *policy;
        double buckets;
    } cases[] = {
        { "{\"name\": \"zero-offload\", \"bucket_elements\": 4000000}", 2 },
        { "{\"name\": \"zero-offload\", \"bucket_elements\": 4000000, \"overlap_gradients\": false}", 1 },
        { "{\"name\": \"zero-offload\", \"bucket_elements\": 4000000, \"preset\": \"paper\"}", 0 },
    };
    for (int i = 0; i < 3; i++) {
        const struct zero_case c = { 1, 0, 1, cases[i].policy, "" };
        if (zero_run(&run, &c)) {
            double layer = 2.0 * (double)model_layer_parameters(&run.scenario.model);
            double peak = zero_class_peak(&run, BUFFER_GRADIENT);
            if (cases[i].buckets > 0) {
                EXPECT_REAL(peak, cases[i].buckets * 2 * 4e6 + layer, 0);
            } else { /* two buckets of two layers, the first with the head's norm */
                EXPECT(peak >= 2 * layer && peak <= 4.01 * layer);
            }
        }
        report_run_free(&run);
    }
}

/* Each rank's own copy of the model while it starts: the peak is at the start, and says so where it does not fit. */
static void test_initialisation(void)
{
    static struct report_run run;
    const struct zero_case c = { 2, 2, 1,
                                 "{\"name\": \"zero-offload\", \"preset\": \"paper\", \"initialise_bytes\": 16}", "" };
    if (zero_run(&run, &c)) {
        const struct space_use *host = zero_use(&run, SPACE_HOST);
        EXPECT_REAL((double)host->peak_bytes, 2 * 16 * parameters_of(&run), 1e-9);
        EXPECT_INT(host->peak_time_ps, 0);
    }
    report_run_free(&run);
}

/* The toy machine with another host memory, as JSON. */
static const char *toy_machine(double dram_gib, double dram_gb_per_s, char *text, size_t size)
{
    snprintf(text, size,
             "{\"base\": \"toy-2gpu\", \"parts\": [{\"id\": \"cpu0\", \"kind\": \"cpu_socket\", \"cores\": 10},"
             " {\"id\": \"dram0\", \"kind\": \"host_dram\", \"capacity_GiB\": %g},"
             " {\"id\": \"gpu[0-1]\", \"kind\": \"gpu\"}, {\"id\": \"nic0\", \"kind\": \"nic\", \"Gbps\": 80}],"
             " \"links\": [{\"kind\": \"ddr\", \"a\": \"cpu0\", \"b\": \"dram0\", \"GBps\": %g},"
             " {\"kind\": \"pcie\", \"a\": \"cpu0\", \"b\": \"gpu[0-1]\", \"lanes\": 16, \"GBps\": 10},"
             " {\"kind\": \"pcie\", \"a\": \"cpu0\", \"b\": \"nic0\", \"lanes\": 16, \"GBps\": 10},"
             " {\"kind\": \"nvlink\", \"a\": \"gpu0\", \"b\": \"gpu1\", \"lanes\": 4, \"GBps\": 100}]}",
             dram_gib, dram_gb_per_s);
    return text;
}

/* The same on a host too small for the copies of both ranks, though it holds the steady state: a normal outcome with its reason. */
static void test_initialisation_does_not_fit(void)
{
    char machine[1024];
    toy_machine(0.4, 100, machine, sizeof machine);
    static struct report_run run;
    static const char *const policies[] = { "{\"name\": \"zero-offload\", \"preset\": \"paper\"}",
                                            "{\"name\": \"zero-offload\", \"preset\": \"paper\","
                                            " \"initialise_bytes\": 16}" };
    for (int i = 0; i < 2; i++) {
        char text[2048];
        memset(&run, 0, sizeof run);
        snprintf(text, sizeof text,
                 "{\"machine\": %s, \"gpus\": 2, \"software\": \"ideal\", \"model\": {\"family\": \"gpt\","
                 " \"layers\": 6, \"hidden\": 512, \"heads\": 8, \"ffn\": 2048, \"vocab\": 1000,"
                 " \"max_sequence\": 512}, \"parallel\": {\"zero_stage\": 2}, \"memory_policy\": %s}",
                 machine, policies[i]);
        if (report_run(&run, text)) {
            EXPECT_INT(run.timeline.outcome, i == 0 ? TIMELINE_DONE : TIMELINE_DOES_NOT_FIT);
            EXPECT(i == 0 || run.result.outcome.length > 0);
            if (i == 1) {
                EXPECT_PART(run.result.outcome.text, "host memory of server 0");
                EXPECT_PART(run.result.outcome.text, "live at the start");
            }
        }
        report_run_free(&run);
    }
}

/* ---- time ---- */

/* Copies of buckets: each starts when its last layer is done and the copy before has ended. */
static void expect_buckets(const struct report_run *run)
{
    const struct schedule *s = &run->schedule;
    double previous_end = 0;
    uint32_t copies = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        if (op->opcode != OP_COPY_D2H) {
            continue;
        }
        double ready = 0;
        for (uint32_t d = 0; d < op->dependency_count; d++) {
            ready = fmax(ready, zero_end_s(run, s->dependencies[op->first_dependency + d]));
        }
        EXPECT(ready > 0);
        EXPECT_REAL(zero_start_s(run, i), fmax(ready, previous_end), ROUNDING);
        EXPECT_REAL(zero_end_s(run, i) - zero_start_s(run, i), s->works[op->work].bytes / PCIE_BYTES_PER_S, ROUNDING);
        previous_end = zero_end_s(run, i);
        copies++;
    }
    EXPECT(copies > 1);
}

/* T_step = T_fwd + max(T_bwd, copies) + T_norm + T_adam (+ or beside) T_up. */
static void test_timeline(void)
{
    static struct report_run run;
    const struct zero_case paper = { 1, 0, 1,
                                     "{\"name\": \"zero-offload\", \"preset\": \"paper\", \"bucket_elements\": 4000000,"
                                     " \"tile_elements\": 3000000}",
                                     "" };
    if (zero_run(&run, &paper)) {
        double p = parameters_of(&run), tile = 3e6;
        expect_buckets(&run);
        double ready = fmax(zero_end_s(&run, zero_last(&run, OP_COPY_D2H, PHASE_OFFLOAD)),
                            zero_end_s(&run, zero_last(&run, OP_COMPUTE, PHASE_OPTIMIZER)));
        double last_tile = p - tile * floor(p / tile);            /* 0.2 ns of copy hide behind 1 ns of Adam */
        double host = (1 + 2.0 / 28) * p / ADAM_PARAMETERS_PER_S; /* the new weights are stored a second time */
        EXPECT_REAL(run.result.step_time_s, ready + host + 2 * last_tile / PCIE_BYTES_PER_S, ROUNDING);
        /* At most two tiles are staged: the pinned peak is gradients and those. */
        EXPECT((double)zero_use(&run, SPACE_PINNED)->peak_bytes <= 2 * p + 2 * 2 * tile);
    }
    report_run_free(&run);
    const struct zero_case code = { 1, 0, 1,
                                    "{\"name\": \"zero-offload\", \"preset\": \"code\", \"bucket_elements\": 4000000}",
                                    "" };
    if (zero_run(&run, &code)) {
        double p = parameters_of(&run);
        expect_buckets(&run);
        double ready = fmax(zero_end_s(&run, zero_last(&run, OP_COPY_D2H, PHASE_OFFLOAD)),
                            zero_end_s(&run, zero_last(&run, OP_COMPUTE, PHASE_OPTIMIZER)));
        double host = (1 + (8.0 + 6.0) / 28) * p / ADAM_PARAMETERS_PER_S;
        EXPECT_REAL(run.result.step_time_s, ready + host + 2 * p / PCIE_BYTES_PER_S, ROUNDING);
    }
    report_run_free(&run);
}

/* Two devices update half each on half of the cores, then gather what both made. */
static void test_two_devices(void)
{
    static struct report_run run;
    const struct zero_case c = { 2, 2, 1, "{\"name\": \"zero-offload\"}", "" };
    if (zero_run(&run, &c)) {
        double p = parameters_of(&run);
        uint32_t gather = zero_last(&run, OP_ALL_GATHER, PHASE_DATA_COMM);
        double ready = fmax(zero_end_s(&run, zero_last(&run, OP_COPY_D2H, PHASE_OFFLOAD)),
                            zero_end_s(&run, zero_last(&run, OP_ALL_REDUCE, PHASE_OPTIMIZER)));
        double host = (1 + (8.0 + 6.0) / 28) * (p / 2) / (ADAM_PARAMETERS_PER_S / 2);
        double last = zero_end_s(&run, gather) - zero_start_s(&run, gather);
        EXPECT(last >= 2 * p / 2 / 100e9); /* 2 (n-1)/n bytes a parameter over NVLink */
        EXPECT_REAL(run.result.step_time_s, ready + host + 2 * (p / 2) / PCIE_BYTES_PER_S + last, ROUNDING);
    }
    report_run_free(&run);
}

/* Adam and the weights on their way up share the host's memory: where it just suffices for Adam, its 28 + 2 bytes a parameter and the copy's 2 take their time. */
static void test_contention(void)
{
    static struct report_run run;
    char machine[1024];
    double dram = 28e9, tile = 1e6;
    const struct zero_case c = { 1, 0, 1,
                                 "{\"name\": \"zero-offload\", \"preset\": \"paper\", \"tile_elements\": 1000000}",
                                 "" };
    if (zero_run_on(&run, &c, toy_machine(128, dram / 1e9, machine, sizeof machine))) {
        double p = parameters_of(&run);
        double ready = fmax(zero_end_s(&run, zero_last(&run, OP_COPY_D2H, PHASE_OFFLOAD)),
                            zero_end_s(&run, zero_last(&run, OP_COMPUTE, PHASE_OPTIMIZER)));
        double update = run.result.step_time_s - ready, last_tile = p - tile * floor(p / tile);
        EXPECT(update >= (28 + 2 + 2) * p / dram);
        /* The memory is full but for the last tile's way up. */
        EXPECT_REAL(update, ((28 + 2 + 2) * p - 2 * last_tile) / dram + 2 * last_tile / PCIE_BYTES_PER_S, ROUNDING);
    }
    report_run_free(&run);
}

/* Without overlap the backward waits for each bucket. */
static void test_overlap(void)
{
    static struct report_run beside, after;
    const struct zero_case with = { 1, 0, 1, "{\"name\": \"zero-offload\", \"bucket_elements\": 1000000}", "" };
    const struct zero_case without = {
        1, 0, 1, "{\"name\": \"zero-offload\", \"bucket_elements\": 1000000, \"overlap_gradients\": false}", ""
    };
    if (zero_run(&beside, &with) && zero_run(&after, &without)) {
        EXPECT(beside.timeline.end_ps < after.timeline.end_ps);
        const struct schedule *s = &after.schedule;
        for (uint32_t i = 0; i < s->op_count; i++) {
            for (uint32_t k = 0; s->ops[i].opcode == OP_COPY_D2H && k < s->op_count; k++) {
                if (s->ops[k].phase == PHASE_BACKWARD) {
                    EXPECT(after.timeline.ops[k].end_ps <= after.timeline.ops[i].start_ps ||
                           after.timeline.ops[k].start_ps >= after.timeline.ops[i].end_ps);
                }
            }
        }
    }
    report_run_free(&beside);
    report_run_free(&after);
}

/* Period = max(forward + backward, update + upload); in `paper` the two chains only share links. */
static void expect_delayed(const char *more, const char *machine, bool host_bound)
{
    static struct report_run delayed, plain;
    const struct zero_case late = { 1, 0, 1, "{\"name\": \"zero-offload\", \"preset\": \"paper\", \"delayed\": true}",
                                    more };
    const struct zero_case now = { 1, 0, 1, "{\"name\": \"zero-offload\", \"preset\": \"paper\"}", more };
    if (zero_run_on(&delayed, &late, machine) && zero_run_on(&plain, &now, machine)) {
        double p = parameters_of(&plain);
        double device = fmax(zero_end_s(&plain, zero_last(&plain, OP_COPY_D2H, PHASE_OFFLOAD)),
                             zero_end_s(&plain, zero_last(&plain, OP_COMPUTE, PHASE_OPTIMIZER)));
        double host = (1 + 2.0 / 28) * p / ADAM_PARAMETERS_PER_S + 2 * p / PCIE_BYTES_PER_S; /* one tile */
        EXPECT((host > device) == host_bound);
        /* Copies beside kernels take HBM from them: as much time as HBM needs for their bytes. */
        double shared = host_bound ? 0 : 2 * p / HBM_BYTES_PER_S;
        EXPECT(delayed.result.step_time_s >= fmax(device, host) * (1 - ROUNDING));
        EXPECT(delayed.result.step_time_s <= (fmax(device, host) + shared) * (1 + ROUNDING));
        EXPECT_REAL(plain.result.step_time_s, device + host, ROUNDING);
        EXPECT_REAL(zero_held(&delayed, SPACE_PINNED, BUFFER_GRADIENT), 2 * 2 * p, 0);
    }
    report_run_free(&delayed);
    report_run_free(&plain);
}

static void test_delayed(void)
{
    expect_delayed("", "\"toy-2gpu\"", true);
    /* a slower device */
    expect_delayed(", \"recompute\": \"full\"", "{\"base\": \"toy-2gpu\", \"gpu\": {\"peak_TFLOPS\": {\"fp16\": 2}}}",
                   false);
    static struct report_run run;
    const struct zero_case code = {
        1, 0, 1, "{\"name\": \"zero-offload\", \"preset\": \"code\", \"delayed\": true, \"bucket_elements\": 3000000}",
        ""
    };
    if (zero_run(&run, &code)) { /* weights of a bucket go up after its gradient has gone down */
        const struct schedule *s = &run.schedule;
        uint32_t down[64] = { 0 }, up[64] = { 0 }, downs = 0, ups = 0;
        for (uint32_t i = 0; i < s->op_count; i++) {
            if (s->ops[i].opcode == OP_COPY_D2H) {
                down[downs++ % 64] = i;
            } else if (s->ops[i].opcode == OP_COPY_H2D) {
                up[ups++ % 64] = i;
            }
        }
        EXPECT(downs == ups && downs > 1 && downs <= 64);
        for (uint32_t i = 0; i < downs && i < 64; i++) {
            EXPECT(run.timeline.ops[up[i]].start_ps >= run.timeline.ops[down[i]].end_ps);
        }
    }
    report_run_free(&run);
}

/* A part is updated on the device at the same time. */
static void test_twin_flow(void)
{
    static struct report_run half, all;
    const struct zero_case part = { 1, 0, 1, "{\"name\": \"zero-offload\", \"cpu_ratio\": 0.5}", "" };
    const struct zero_case whole = { 1, 0, 1, "{\"name\": \"zero-offload\"}", "" };
    if (zero_run(&half, &part) && zero_run(&all, &whole)) {
        double p = parameters_of(&half), host = zero_held(&half, SPACE_HOST, BUFFER_OPTIMIZER) / 12;
        double layer = (double)model_layer_parameters(&half.scenario.model);
        EXPECT(host <= p / 2 && host > p / 2 - layer);
        EXPECT_REAL(zero_held(&half, SPACE_DEVICE, BUFFER_OPTIMIZER), 12 * (p - host), 0);
        EXPECT_REAL(zero_held(&half, SPACE_DEVICE, BUFFER_GRADIENT), 2 * (p - host), 0);
        EXPECT_REAL(zero_total(&half, OP_COPY_D2H), 4 * host, 0);
        EXPECT_REAL(zero_total(&half, OP_COPY_H2D), 2 * host, 0);
        EXPECT(half.timeline.end_ps < all.timeline.end_ps);
        /* Beside each other: the device's Adam ends before the host's. */
        EXPECT(zero_end_s(&half, zero_last(&half, OP_COMPUTE, PHASE_OPTIMIZER)) <
               zero_end_s(&half, zero_last(&half, OP_HOST_OPTIMIZER, PHASE_OPTIMIZER)));
    }
    report_run_free(&half);
    report_run_free(&all);
    const struct zero_case none = { 1, 0, 1, "{\"name\": \"zero-offload\", \"cpu_ratio\": 0}", "" };
    if (zero_run(&half, &none)) {
        EXPECT_REAL(zero_total(&half, OP_COPY_D2H) + zero_total(&half, OP_COPY_H2D), 0, 0);
    }
    report_run_free(&half);
}

/* Built once or apart, the same step. */
static void test_folding(void)
{
    static struct report_run once, apart;
    const char *policies[] = { "{\"name\": \"zero-offload\"}", "{\"name\": \"zero-offload\", \"delayed\": true}" };
    for (int i = 0; i < 2; i++) {
        const struct zero_case folded = { 2, 2, i == 0 ? 3 : 1, policies[i], "" };
        struct zero_case unfolded = folded;
        unfolded.more = ", \"fold\": false";
        if (zero_run(&once, &folded) && zero_run(&apart, &unfolded)) {
            EXPECT_REAL(once.result.step_time_s, apart.result.step_time_s, 1e-9);
            EXPECT_REAL(zero_total(&once, OP_COPY_D2H), zero_total(&apart, OP_COPY_D2H), 0);
            EXPECT_INT(zero_use(&once, SPACE_HOST)->peak_bytes, zero_use(&apart, SPACE_HOST)->peak_bytes);
        }
        report_run_free(&once);
        report_run_free(&apart);
    }
}

/* Saved activations wait for their backward in host memory: less on the device, every byte down and up once. */
static void test_checkpoints(void)
{
    static struct report_run away, here;
    const char *more = ", \"recompute\": \"full\"";
    const struct zero_case with = { 1, 0, 3, "{\"name\": \"zero-offload\", \"checkpoints_on_host\": true}", more };
    const struct zero_case without = { 1, 0, 3, "{\"name\": \"zero-offload\"}", more };
    if (zero_run(&away, &with) && zero_run(&here, &without)) {
        /* a layer's input: 2 x 512 x 512 16-bit numbers, of 6 layers, 3 micro-batches */
        double bytes = 3.0 * 6 * 2 * 512 * 512 * 2;
        EXPECT_REAL(zero_total(&away, OP_COPY_D2H) - zero_total(&here, OP_COPY_D2H), bytes, 0);
        EXPECT_REAL(zero_total(&away, OP_COPY_H2D) - zero_total(&here, OP_COPY_H2D), bytes, 0);
        EXPECT(zero_class_peak(&away, BUFFER_ACTIVATION) < zero_class_peak(&here, BUFFER_ACTIVATION));
        EXPECT(away.timeline.end_ps > here.timeline.end_ps);
    }
    report_run_free(&away);
    report_run_free(&here);
}

/* Preset `code`: through pageable memory, as nothing else goes; no kernel runs beside a copy, down or up. */
static void test_pageable_checkpoints(void)
{
    static struct report_run run;
    const struct zero_case c = { 1, 0, 1, "{\"name\": \"zero-offload\", \"checkpoints_on_host\": true}",
                                 ", \"recompute\": \"full\"" };
    uint32_t down = 0, up = 0;
    if (zero_run(&run, &c)) {
        for (uint32_t i = 0; i < run.schedule.op_count; i++) {
            const struct sched_op *op = &run.schedule.ops[i];
            if ((op->opcode != OP_COPY_D2H && op->opcode != OP_COPY_H2D) || !run.schedule.works[op->work].pageable) {
                continue;
            }
            for (uint32_t k = 0; k < run.schedule.op_count; k++) {
                EXPECT(run.schedule.ops[k].opcode != OP_COMPUTE ||
                       run.timeline.ops[k].end_ps <= run.timeline.ops[i].start_ps ||
                       run.timeline.ops[k].start_ps >= run.timeline.ops[i].end_ps);
            }
            down += op->opcode == OP_COPY_D2H;
            up += op->opcode == OP_COPY_H2D;
        }
        EXPECT(down == 6 && up == 6);
    }
    report_run_free(&run);
}

/* New weights go up as fp32 and are cast on the device: twice the bytes; in one piece they take 4 bytes a parameter of the device, tile by tile nothing. */
static void test_fp32_upload(void)
{
    static struct report_run half, tiled, serial;
    const char *policies[] = { "{\"name\": \"zero-offload\", \"upload\": \"tiled\"}",
                               "{\"name\": \"zero-offload\", \"upload\": \"tiled\", \"uploaded_bytes\": 4}",
                               "{\"name\": \"zero-offload\", \"upload\": \"serial\", \"uploaded_bytes\": 4}" };
    const struct zero_case a = { 1, 0, 1, policies[0], "" }, b = { 1, 0, 1, policies[1], "" },
                           c = { 1, 0, 1, policies[2], "" };
    if (zero_run(&half, &a) && zero_run(&tiled, &b) && zero_run(&serial, &c)) {
        double p = parameters_of(&half);
        EXPECT_REAL(zero_total(&half, OP_COPY_H2D), 2 * p, 0);
        EXPECT_REAL(zero_total(&tiled, OP_COPY_H2D), 4 * p, 0);
        EXPECT_REAL(zero_total(&serial, OP_COPY_H2D), 4 * p, 0);
        EXPECT_REAL(zero_class_peak(&tiled, BUFFER_COMMUNICATION), zero_class_peak(&half, BUFFER_COMMUNICATION), 0);
        EXPECT_REAL(zero_class_peak(&serial, BUFFER_COMMUNICATION), 4 * p, 0);
    }
    report_run_free(&half);
    report_run_free(&tiled);
    report_run_free(&serial);
}

static void test_refused(void)
{
#define SCENARIO(more)                                                                                                 \
    "{\"machine\": \"dgx-a100-40gb\", \"software\": \"deepspeed\", \"model\": \"gpt2-medium\", " more "}"
    zero_expect_refused(SCENARIO("\"gpus\": 2, \"parallel\": {\"zero_stage\": 3}, \"memory_policy\": \"zero-offload\""),
                        "$.parallel.zero_stage", "zero3-offload");
    zero_expect_refused(SCENARIO("\"gpus\": 2, \"memory_policy\": \"zero-offload\""), "$.parallel.zero_stage",
                        "set zero_stage 1 or 2");
    zero_expect_refused(SCENARIO("\"gpus\": 2, \"parallel\": {\"pipeline\": 2}, \"memory_policy\": \"zero-offload\""),
                        "$.parallel.pipeline", "set pipeline 1");
    zero_expect_refused(SCENARIO("\"gpus\": 1, \"training\": {\"global_batch\": 4},"
                                 " \"memory_policy\": {\"name\": \"zero-offload\", \"delayed\": true}"),
                        "$.memory_policy.delayed", "one micro-batch a step, found 4");
    zero_expect_refused(SCENARIO("\"gpus\": 1, \"memory_policy\": {\"name\": \"zero-offload\", \"delayed\": true,"
                                 " \"cpu_ratio\": 0.5}"),
                        "$.memory_policy.delayed", "cpu_ratio");
    zero_expect_refused(SCENARIO("\"gpus\": 1, \"memory_policy\": {\"name\": \"zero-offload\", \"gradient_bytes\": 3}"),
                        "$.memory_policy.gradient_bytes", "allowed are 2, 4");
    zero_expect_refused(SCENARIO("\"gpus\": 1, \"memory_policy\": {\"name\": \"zero-offload\", \"uploaded_bytes\": 3}"),
                        "$.memory_policy.uploaded_bytes", "allowed are 2, or 4");
    zero_expect_refused(SCENARIO("\"gpus\": 1, \"memory_policy\": {\"name\": \"zero-offload\", \"uploaded_bytes\": 4,"
                                 " \"delayed\": true}"),
                        "$.memory_policy.uploaded_bytes", "without a delayed update");
    zero_expect_refused("{\"machine\": \"dgx-a100-40gb\", \"software\": \"megatron\", \"model\": \"gpt2-medium\","
                        " \"gpus\": 1, \"memory_policy\": \"zero-offload\"}",
                        "$.software", "optimizer-on-host");
}

TEST_MAIN(TEST(test_bytes), TEST(test_host_memory), TEST(test_buckets_on_device), TEST(test_initialisation),
          TEST(test_initialisation_does_not_fit), TEST(test_timeline), TEST(test_two_devices), TEST(test_contention),
          TEST(test_overlap), TEST(test_delayed), TEST(test_twin_flow), TEST(test_folding), TEST(test_checkpoints),
          TEST(test_pageable_checkpoints), TEST(test_fp32_upload), TEST(test_refused))
