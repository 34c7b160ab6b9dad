/* Checkpoint intervals: formulas, exact minimum and simulated renewal process against each other. */
#include "sim/report/failures.h"
#include "tests/test.h"

/* delta / M from a second in 11 days to where a checkpoint takes a tenth of the time between failures. */
static const double RATIOS[] = { 1e-6, 1e-4, 1e-3, 1e-2, 3e-2, 0.1 };
enum { RATIO_COUNT = sizeof RATIOS / sizeof RATIOS[0] };

static void test_closed_forms(void)
{
    EXPECT_REAL(failures_first_order_s(20000, 100), 2000 - 100, 1e-12);
    /* sqrt(2 * 100 * 20000) = 2000; delta / 2M = 0.0025, its root 0.05: 2000 (1 + 0.05/3 + 0.0025/9) - 100 */
    EXPECT_REAL(failures_daly_s(20000, 100), 2000 * (1 + 0.05 / 3 + 0.0025 / 9) - 100, 1e-12);
    EXPECT_REAL(failures_daly_s(10, 25), 10, 0);
    /* No failures to speak of: only the checkpoint costs. */
    EXPECT_REAL(failures_goodput(1e15, 10, 0, 90), 0.9, 1e-9);
}

/* The exact minimum is one: longer and shorter are worse. And Daly's is near it where delta << M. */
static void test_exact(void)
{
    for (int i = 0; i < RATIO_COUNT; i++) {
        double mtbf = 1e5, delta = RATIOS[i] * mtbf, best = failures_exact_s(mtbf, delta);
        double at = failures_goodput(mtbf, delta, delta, best);
        EXPECT(at > failures_goodput(mtbf, delta, delta, best * 1.01) &&
               at > failures_goodput(mtbf, delta, delta, best / 1.01));
        printf("delta/M %g: first order %+.3f %%, Daly %+.4f %% of the exact interval\n", RATIOS[i],
               100 * (failures_first_order_s(mtbf, delta) / best - 1), 100 * (failures_daly_s(mtbf, delta) / best - 1));
        EXPECT_REAL(failures_daly_s(mtbf, delta), best, 0.002);
    }
}

/* Independent of the formulas: simulated times, simulated optimum. */
static void test_simulated(void)
{
    for (int i = 0; i < RATIO_COUNT; i++) {
        double mtbf = 1e5, delta = RATIOS[i] * mtbf, daly = failures_daly_s(mtbf, delta);
        for (uint64_t seed = 1; seed <= 3; seed++) {
            double best = failures_simulated_optimum_s(mtbf, delta, 2 * delta, daly, 50000, seed);
            struct failures_run run = failures_simulate(mtbf, delta, 2 * delta, daly, 50000, seed);
            printf("delta/M %g: simulated optimum %+.2f %% of Daly's; goodput %.5f against %.5f, %llu failures\n",
                   RATIOS[i], 100 * (best / daly - 1), 1 / run.time_per_work,
                   failures_goodput(mtbf, delta, 2 * delta, daly), (unsigned long long)run.failures);
            EXPECT_REAL(best, daly, 0.02);
            EXPECT_REAL(1 / run.time_per_work, failures_goodput(mtbf, delta, 2 * delta, daly), 0.002);
        }
    }
}

static void test_compute(void)
{
    struct failures_input input = { .device_mtbf_s = 50000 * 3600.0,
                                    .devices = 1024,
                                    .checkpoint_bytes = 2.45e12,
                                    .storage_bytes_per_s = 100e9,
                                    .storage_source = "test",
                                    .restart_s = 300,
                                    .step_s = 20 };
    struct failures f, again;
    struct error error = { 0 };
    EXPECT_INT(failures_compute(&f, &input, &error), STATUS_OK);
    EXPECT_REAL(f.mtbf_s, 50000 * 3600.0 / 1024, 1e-12);
    EXPECT_REAL(f.checkpoint_s, 24.5, 1e-12);
    EXPECT_REAL(f.restart_s, 324.5, 1e-12);
    EXPECT_REAL(f.simulated_s, f.daly_s, 0.02);
    EXPECT_REAL(f.goodput + f.checkpoint_share + f.lost_share, 1, 1e-12);
    EXPECT(f.lost_share > 0);
    EXPECT_INT(failures_compute(&again, &input, &error), STATUS_OK);
    EXPECT(memcmp(&f, &again, sizeof f) == 0);
    input.storage_bytes_per_s = 0;
    EXPECT_INT(failures_compute(&f, &input, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "storage bandwidth");
    input.storage_bytes_per_s = 1e4;
    EXPECT_INT(failures_compute(&f, &input, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "hardly ever");
}

TEST_MAIN(TEST(test_closed_forms), TEST(test_exact), TEST(test_simulated), TEST(test_compute))
