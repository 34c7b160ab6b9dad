/* Activation policies: what moves, what is repeated, where memory goes; every schedule verified, every timeline audited. */
#include "strategies/policies/activation_kit.h"
#include "tests/zero_run.h"

static bool run_policy(struct report_run *run, const char *policy, const char *more)
{
    const struct zero_case c = { .gpus = 1, .accumulation = 3, .policy = policy, .more = more };
    return zero_run(run, &c);
}

static double device_peak(const struct report_run *run)
{
    double most = 0;
    for (uint32_t i = 0; i < run->schedule.space_count; i++) {
        double peak = (double)run->timeline.spaces[i].peak_bytes;
        most = run->schedule.spaces[i].kind == SPACE_DEVICE && peak > most ? peak : most;
    }
    return most;
}

static unsigned recompute_ops(const struct report_run *run)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < run->schedule.op_count; i++) {
        count += run->schedule.ops[i].phase == PHASE_RECOMPUTE;
    }
    return count;
}

/* What one transformer layer saves of one micro-batch: the largest activation buffer on the device that is neither the embedding's nor the head's. */
static double saving_bytes(const struct report_run *run)
{
    double most = 0;
    for (uint32_t b = 0; b < run->schedule.buffer_count; b++) {
        const struct sched_buffer *buffer = &run->schedule.buffers[b];
        bool layer = strcmp(sched_label(&run->schedule, buffer->label), "saved for backward") == 0;
        most = layer && (double)buffer->bytes > most ? (double)buffer->bytes : most;
    }
    return most;
}

enum { LAYERS = 6, MICRO_BATCHES = 3 };

/* vdnn moves every saving both ways, exactly; it holds the peak below that of resident. All but the last layer of a micro-batch: its backward follows at once, after the head's passes. */
static void test_vdnn(void)
{
    static struct report_run resident, vdnn, dynamic;
    if (run_policy(&resident, "{\"name\": \"resident\"}", "") && run_policy(&vdnn, "{\"name\": \"vdnn\"}", "") &&
        run_policy(&dynamic, "{\"name\": \"vdnn\", \"layers\": \"dynamic\"}", "")) {
        double moved = saving_bytes(&resident) * LAYERS * MICRO_BATCHES;
        EXPECT(moved > 0);
        EXPECT_REAL(zero_total(&vdnn, OP_COPY_D2H), moved, 0);
        EXPECT_REAL(zero_total(&vdnn, OP_COPY_H2D), moved, 0);
        EXPECT(device_peak(&vdnn) < device_peak(&resident) - 2 * saving_bytes(&resident));
        EXPECT(vdnn.timeline.end_ps > resident.timeline.end_ps);
        EXPECT_REAL(zero_total(&dynamic, OP_COPY_D2H), 0, 0); /* it fits without */
        EXPECT_INT(dynamic.timeline.end_ps, resident.timeline.end_ps);
    }
    report_run_free(&resident);
    report_run_free(&vdnn);
    report_run_free(&dynamic);
}

/* With memory to spare the rules that act under pressure do nothing (superneurons still repeats cheap operations). */
static void test_no_pressure(void)
{
    static const char *const policies[] = { "capuchin", "swapadvisor", "dtr" };
    static struct report_run resident, run;
    EXPECT(run_policy(&resident, "{\"name\": \"resident\"}", ""));
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        char policy[128];
        snprintf(policy, sizeof policy, "{\"name\": \"%s\"}", policies[i]);
        if (run_policy(&run, policy, "")) {
            EXPECT_INT(run.timeline.end_ps, resident.timeline.end_ps);
            EXPECT_REAL(device_peak(&run), device_peak(&resident), 0);
            EXPECT_REAL(zero_total(&run, OP_COPY_D2H), 0, 0);
        }
        report_run_free(&run);
    }
    report_run_free(&resident);
}

/* Under pressure each gives way in its own manner, moves up what it moved down, and lowers the peak. */
static void test_pressure(void)
{
    static const struct {
        const char *name;
        bool swaps, recomputes;
    } cases[] = { { "swapadvisor", true, false }, { "capuchin", false, true }, { "dtr", false, true } };
    static struct report_run resident, run;
    EXPECT(run_policy(&resident, "{\"name\": \"resident\"}", ""));
    double budget = device_peak(&resident) - 2 * saving_bytes(&resident);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char policy[128];
        snprintf(policy, sizeof policy, "{\"name\": \"%s\", \"budget_gib\": %.17g}", cases[i].name, budget / 0x1p30);
        if (run_policy(&run, policy, "")) {
            double down = zero_total(&run, OP_COPY_D2H);
            printf("%s: peak %.4g of %.4g MB, budget %.4g; %.4g MB down, %u repeated ops, step %.4g of %.4g ms\n",
                   cases[i].name, device_peak(&run) * 1e-6, device_peak(&resident) * 1e-6, budget * 1e-6, down * 1e-6,
                   recompute_ops(&run), (double)run.timeline.end_ps * 1e-9, (double)resident.timeline.end_ps * 1e-9);
            EXPECT_REAL(zero_total(&run, OP_COPY_H2D), down, 0);
            EXPECT((down > 0) == cases[i].swaps);
            EXPECT((recompute_ops(&run) > 0) == cases[i].recomputes);
            EXPECT(device_peak(&run) <= budget + 1);
        }
        report_run_free(&run);
    }
    report_run_free(&resident);
}

/* Pipelines with received inputs, split backwards and chunks: verified and audited by zero_run. */
static void test_pipelines(void)
{
    static const char *const policies[] = { "vdnn", "superneurons", "capuchin", "swapadvisor", "dtr" };
    static const char *const orders[] = { "1f1b", "gpipe", "zb-h1" };
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        for (size_t k = 0; k < sizeof orders / sizeof orders[0]; k++) {
            static struct report_run run;
            char policy[128], text[2048];
            memset(&run, 0, sizeof run);
            snprintf(policy, sizeof policy, "{\"name\": \"%s\", \"budget_gib\": 0.55}", policies[i]);
            snprintf(
                text, sizeof text,
                "{\"schema\": \"memwall.scenario/1\", \"machine\": \"toy-2gpu\", \"gpus\": 2, \"software\": \"ideal\","
                " \"model\": {\"family\": \"gpt\", \"layers\": 6, \"hidden\": 512, \"heads\": 8, \"ffn\": 2048,"
                " \"vocab\": 1000, \"max_sequence\": 512},"
                " \"training\": {\"micro_batch\": 2, \"global_batch\": 8},"
                " \"parallel\": {\"pipeline\": 2, \"pipeline_order\": \"%s\"}, \"memory_policy\": %s}",
                orders[k], policy);
            EXPECT(report_run(&run, text));
            EXPECT_INT(run.timeline.outcome, TIMELINE_DONE);
            EXPECT_REAL(zero_total(&run, OP_COPY_H2D), zero_total(&run, OP_COPY_D2H), 0);
            report_run_free(&run);
        }
    }
}

TEST_MAIN(TEST(test_vdnn), TEST(test_no_pressure), TEST(test_pressure), TEST(test_pipelines))
