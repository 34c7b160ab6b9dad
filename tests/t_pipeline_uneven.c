/* Bare pipelines whose stages differ, or recompute, against facts/mpress-hippie-pipelines.md C.2, C.3 and C.9. */
#include "tests/pipeline_run.h"

static double on_stages(const char *order, double parameter, uint32_t p, uint32_t m, const double *f, const double *b)
{
    struct bare_pipeline_request request = pipeline_request(order, p, 1, m, 1, 1);
    request.order_request.parameters.value[0] = parameter;
    request.stage_forward = f;
    request.stage_backward = b;
    return pipeline_makespan(&request);
}

/* C.2, C.3: 1,500 random cases. GPipe in both orders of its backwards. */
static void test_uneven_stages(void)
{
    uint64_t state = test_seed;
    uint32_t cases = 0, pb_no_later = 0;
    for (uint32_t i = 0; i < 1500; i++) {
        uint32_t p = 1 + i % 8, m = 1 + i / 8 % 24;
        double f[8], b[8], sum = 0, f_max = 0, b_max = 0, bound = 0;
        for (uint32_t s = 0; s < p; s++) {
            f[s] = 1 + (double)test_below(&state, 9);
            b[s] = 1 + (double)test_below(&state, 17);
            bound = fmax(bound, sum + m * (f[s] + b[s]));
            sum += f[s] + b[s];
            f_max = fmax(f_max, f[s]);
            b_max = fmax(b_max, b[s]);
        }
        double last_first = on_stages("gpipe", 0, p, m, f, b), first_first = on_stages("gpipe", 1, p, m, f, b);
        double one = on_stages("1f1b", 0, p, m, f, b), pb = on_stages("dapple-pb", 0, p, m, f, b);
        EXPECT_REAL(last_first, sum + (m - 1) * (f_max + b_max), 1e-9);
        EXPECT_REAL(first_first, last_first, 0);
        EXPECT(one <= last_first && one >= bound);
        pb_no_later += pb <= one;
        cases++;
    }
    printf("%u cases; dapple-pb no later than 1f1b in %u\n", cases, pb_no_later);
    EXPECT_INT(cases, 1500);
    EXPECT(pb_no_later < cases); /* not always */
}

static double recomputed(const char *order, uint32_t p, uint32_t m, const double *times, enum bare_recompute when,
                         bool last_keeps)
{
    struct bare_pipeline_request request = pipeline_request(order, p, 1, m, times[0], times[1]);
    request.recompute = when;
    request.last_stage_keeps = last_keeps;
    return pipeline_makespan(&request);
}

/* C.9: lazy or eager, with and without a last stage that keeps. C.9 says of 1F1B that such a stage saves 2 tF; recomputed eagerly it is tF + min(tF, tB), the same while tB >= tF. */
static void test_recompute(void)
{
    static const double ratios[][2] = { { 1, 2 }, { 1, 1 }, { 3, 4 }, { 2, 1 }, { 3, 1 } };
    uint32_t runs = 0, long_forwards = 0;
    for (uint32_t p = 1; p <= 8; p++) {
        for (uint32_t m = 1; m <= 24; m++) {
            for (size_t r = 0; r < sizeof ratios / sizeof ratios[0]; r++) {
                double f = ratios[r][0], b = ratios[r][1];
                double lazy = (m + p - 1) * (2 * f + b), eager = m * (2 * f + b) + (p - 1) * (f + b);
                /* one stage alone recomputes m times or never; with one micro-batch 1f1b is gpipe */
                double saved = p == 1 ? m * f : f, again = p > 1 && m > 1 ? f : 0, hidden = fmin(again, b);
                EXPECT_REAL(recomputed("gpipe", p, m, ratios[r], BARE_RECOMPUTE_LAZY, false), lazy, 1e-9);
                EXPECT_REAL(recomputed("1f1b", p, m, ratios[r], BARE_RECOMPUTE_LAZY, false), lazy, 1e-9);
                EXPECT_REAL(recomputed("gpipe", p, m, ratios[r], BARE_RECOMPUTE_EAGER, false), eager, 1e-9);
                EXPECT_REAL(recomputed("1f1b", p, m, ratios[r], BARE_RECOMPUTE_EAGER, false), eager, 1e-9);
                EXPECT_REAL(recomputed("gpipe", p, m, ratios[r], BARE_RECOMPUTE_LAZY, true), lazy - saved, 1e-9);
                EXPECT_REAL(recomputed("1f1b", p, m, ratios[r], BARE_RECOMPUTE_LAZY, true), lazy - saved - again, 1e-9);
                EXPECT_REAL(recomputed("gpipe", p, m, ratios[r], BARE_RECOMPUTE_EAGER, true), eager - saved, 1e-9);
                EXPECT_REAL(recomputed("1f1b", p, m, ratios[r], BARE_RECOMPUTE_EAGER, true), eager - saved - hidden,
                            1e-9);
                /* LSPS-C is 1F1B whose last stage keeps. */
                EXPECT_REAL(recomputed("lsps-c", p, m, ratios[r], BARE_RECOMPUTE_LAZY, false), lazy - saved - again,
                            1e-9);
                runs += b >= f ? 8 : 0;
                long_forwards += b < f ? 8 : 0;
            }
        }
    }
    printf("%u runs with tB >= tF, %u with tB < tF\n", runs, long_forwards);
    EXPECT_INT(runs, 4608);
    EXPECT_INT(long_forwards, 3072);
}

TEST_MAIN(TEST(test_uneven_stages), TEST(test_recompute))
