/* What a micro-batch 10 % larger needs, against a step with 10 % more. */
#include "sim/report/memory_pressure.h"
#include "tests/report_run.h"

static bool run_with(struct report_run *run, unsigned micro_batch, const char *recompute)
{
    char text[512];
    (void)snprintf(
        text, sizeof text,
        "{\"schema\":\"memwall.scenario/1\",\"model\":\"gpt2-medium\",\"machine\":\"dgx-a100-80gb\",\"gpus\":2,"
        "\"software\":\"megatron\",\"training\":{\"sequence_length\":512,\"micro_batch\":%u,\"global_batch\":%u},"
        "\"parallel\":{\"pipeline\":2},\"recompute\":\"%s\"}",
        micro_batch, 4 * micro_batch, recompute);
    return report_run(run, text);
}

static void next_tenth(const char *recompute)
{
    struct report_run ten = { 0 }, eleven = { 0 };
    if (run_with(&ten, 10, recompute) && run_with(&eleven, 11, recompute)) {
        for (uint32_t i = 0; i < ten.schedule.space_count; i++) {
            struct memory_pressure p;
            memory_pressure_of(&ten.input, i, &p);
            if (p.stage == SCHED_NONE || ten.timeline.spaces[i].peak_bytes == 0) {
                continue;
            }
            double grown = (double)(eleven.timeline.spaces[i].peak_bytes - ten.timeline.spaces[i].peak_bytes);
            printf("%s, stage %u: +%.0f bytes, foretold %.0f; largest class %s\n", recompute, p.stage, grown,
                   (double)p.next_bytes, buffer_class_word(p.largest));
            /* Sizes are whole bytes, some hundred buffers of them: a kilobyte of rounding at most. */
            EXPECT(fabs(grown - (double)p.next_bytes) <= 1024);
            EXPECT(p.next_bytes > 1 << 20 && p.next_fits && p.largest_batch_factor > 1.1);
            EXPECT_INT(p.peak_bytes, ten.timeline.spaces[i].peak_bytes);
        }
    }
    report_run_free(&ten);
    report_run_free(&eleven);
}

static void test_next_tenth(void)
{
    next_tenth("none");
    next_tenth("selective");
    next_tenth("full");
}

/* By hand. */
static void test_full(void)
{
    struct sched_space space = { .kind = SPACE_HOST, .capacity_bytes = 1000 };
    struct schedule schedule = { .spaces = &space, .space_count = 1 };
    struct space_use use = { .peak_bytes = 950, .peak_op = SCHED_NONE };
    struct timeline timeline = { .spaces = &use };
    const struct result_input input = { .schedule = &schedule, .timeline = &timeline };
    struct memory_pressure p;
    use.at_peak_bytes[BUFFER_WEIGHT] = 350;
    use.at_peak_bytes[BUFFER_ACTIVATION] = 600;
    EXPECT(memory_pressure_tightest(&input, &p));
    EXPECT_INT(p.largest, BUFFER_ACTIVATION);
    EXPECT_INT(p.next_bytes, 60);
    EXPECT(!p.next_fits);
    EXPECT_REAL(p.largest_batch_factor, 650.0 / 600, 1e-12);
    space.capacity_bytes = 900; /* it does not even fit now */
    memory_pressure_of(&input, 0, &p);
    EXPECT(!p.next_fits);
    EXPECT_REAL(p.largest_batch_factor, 550.0 / 600, 1e-12);
}

TEST_MAIN(TEST(test_next_tenth), TEST(test_full))
