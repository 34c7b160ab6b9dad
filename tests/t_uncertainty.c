/* Errors of constants carried to the step time: sequence, distribution, fields, interval. */
#include "sim/report/uncertainty.h"
#include "tests/test.h"

static const char FILE_NAME[] = "scenarios/megatron-22b-dgx-a100.json";

static void test_sequence(void)
{
    enum { DIMENSIONS = 40, POINTS = 1000 };
    for (uint32_t k = 0; k < DIMENSIONS; k++) {
        double sum = 0;
        uint32_t tenths[10] = { 0 };
        for (uint32_t i = 0; i < POINTS; i++) {
            double u = uncertainty_point(k, i);
            EXPECT(u >= 0 && u < 1);
            sum += u;
            tenths[(int)(10 * u)]++;
        }
        EXPECT(fabs(sum / POINTS - 0.5) < 0.005); /* independent numbers: 0.009 is one standard deviation */
        for (int t = 0; t < 10; t++) {
            EXPECT(tenths[t] > 85 && tenths[t] < 115); /* independent numbers: 9.5 is one */
        }
    }
}

static void test_normal(void)
{
    EXPECT_REAL(uncertainty_normal(0.975), 1.959963984540054, 1e-12);
    EXPECT_REAL(uncertainty_normal(0.05), -1.6448536269514722, 1e-12);
    EXPECT(fabs(uncertainty_normal(0.5)) < 1e-12);
}

/* A shifted field is what the machine's file edited by hand gives. */
static void test_fields(void)
{
    static const struct {
        const char *field, *object;
        double by;
    } CASES[] = {
        { "gpu.hbm_GBps", "{\"base\":\"dgx-a100-80gb\",\"gpu\":{\"hbm_GBps\":1650}}", -50 },
        { "nccl.latency_us", "{\"base\":\"dgx-a100-80gb\",\"nccl\":{\"latency_us\":44.774}}", 1 },
        { "latency.kernel_gap_us", "{\"base\":\"dgx-a100-80gb\",\"latency\":{\"kernel_gap_us\":2}}", 0.5 },
        { "latency.kernel_gap_us", "{\"base\":\"dgx-a100-80gb\",\"latency\":{\"kernel_gap_us\":1e6}}", 1e9 },
        { "latency.kernel_floor_us", "{\"base\":\"dgx-a100-80gb\",\"latency\":{\"kernel_floor_us\":0}}", -1e9 },
        { "host.pageable_GBps", "{\"base\":\"dgx-a100-80gb\",\"host\":{\"pageable_GBps\":10}}", 1 },
        { "network.efficiency", "{\"base\":\"dgx-a100-80gb\",\"network\":{\"efficiency\":1}}", 0.5 },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct json_document *document = NULL;
        struct json root;
        struct machine edited, machine;
        struct error error = { 0 };
        EXPECT_INT(json_parse(&document, CASES[i].object, strlen(CASES[i].object), "test", &error), STATUS_OK);
        json_root(document, &root);
        EXPECT_INT(machine_from_json(&edited, &root, &error), STATUS_OK);
        EXPECT_INT(machine_load(&machine, "dgx-a100-80gb", &error), STATUS_OK);
        EXPECT(uncertainty_shift(&machine, CASES[i].field, CASES[i].by));
        for (uint32_t f = 0; f < machine_field_count(); f++) {
            struct machine_field_value a, b;
            machine_field_get(&machine, f, &a);
            machine_field_get(&edited, f, &b);
            if (a.text == NULL) {
                EXPECT_REAL(a.value, b.value, 1e-12);
            }
        }
        machine_free(&machine);
        machine_free(&edited);
        json_free(document);
    }
    struct machine machine;
    struct error error = { 0 };
    EXPECT_INT(machine_load(&machine, "dgx-a100-80gb", &error), STATUS_OK);
    double before = machine.gpu.gemm[DTYPE_BF16].values[GEMM_TN_FACTOR], link = machine.links[0].bytes_per_s;
    EXPECT(uncertainty_shift(&machine, "kernel_model.gemm.bf16.tn_factor", 0.01));
    EXPECT_REAL(machine.gpu.gemm[DTYPE_BF16].values[GEMM_TN_FACTOR], before + 0.01, 1e-12);
    EXPECT(uncertainty_shift(&machine, "kernel_model.class_efficiency.norm", -0.1));
    EXPECT(uncertainty_shift(&machine, "links.ddr.GBps", 1));
    EXPECT_REAL(machine.links[0].bytes_per_s, link + 1e9, 1e-12);
    EXPECT(!uncertainty_shift(&machine, "links.1.GBps", 1) && !uncertainty_shift(&machine, "gpu.colour", 1));
    machine_free(&machine);
}

static double random_normal(uint64_t *state)
{
    double u = ((double)(test_random(state) >> 11) + 0.5) * 0x1p-53;
    return uncertainty_normal(u);
}

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Plain Monte Carlo with random numbers, for comparison. */
static void monte_carlo(const struct scenario *scenario, uint32_t count, double *low, double *high)
{
    double *steps = calloc(count, sizeof *steps);
    uint64_t random = test_seed;
    struct error error = { 0 };
    for (uint32_t i = 0; i < count; i++) {
        struct scaled_machine copy;
        struct trial_result result;
        EXPECT_INT(machine_copy(&copy, &scenario->machine, &scenario->software, &error), STATUS_OK);
        for (uint32_t k = 0; k < scenario->machine.standard_error_count; k++) {
            uncertainty_shift(&copy.machine, scenario->machine.standard_errors[k].field,
                              random_normal(&random) * scenario->machine.standard_errors[k].value);
        }
        EXPECT_INT(trial_run(&result, scenario, &copy.machine, &copy.software, &error), STATUS_OK);
        steps[i] = (double)result.step_ps / 1e12;
        scaled_machine_free(&copy);
    }
    qsort(steps, count, sizeof *steps, rising);
    *low = steps[count / 20];
    *high = steps[count - 1 - count / 20];
    free(steps);
}

static void test_interval(void)
{
    struct scenario scenario;
    struct uncertainty one, many, wide;
    struct error error = { 0 };
    double low, high;
    if (scenario_load(&scenario, FILE_NAME, NULL, 0, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
        return;
    }
    EXPECT_INT(uncertainty_compute(&one, &scenario, 400, 1, NULL, NULL, &error), STATUS_OK);
    EXPECT_INT(uncertainty_compute(&many, &scenario, 400, 8, NULL, NULL, &error), STATUS_OK);
    EXPECT(memcmp(&one, &many, sizeof one) == 0);
    EXPECT(one.low_s < one.base_s && one.base_s < one.high_s && one.ran == 400 && one.constants == 20);
    EXPECT(one.certain_count > 5);
    monte_carlo(&scenario, 1000, &low, &high);
    printf("step %.6f s, 5 to 95 %%: %.6f to %.6f s; 1000 random draws: %.6f to %.6f s\n", one.base_s, one.low_s,
           one.high_s, low, high);
    /* A quantile of n random draws has a standard deviation of sqrt(p (1 - p) / n) / density: for p = 5 % of a normal and n = 1000, 0.067 sigma, of the width of 3.29 sigma 2 %; three of these,
     * and for the 400 draws of the sequence as much as random ones had: 3.2 % each */
    double width = high - low;
    EXPECT(fabs(one.low_s - low) < 0.12 * width);
    EXPECT(fabs(one.high_s - high) < 0.12 * width);
    for (uint32_t i = 0; i < scenario.machine.standard_error_count; i++) {
        scenario.machine.standard_errors[i].value *= 0.5;
    }
    EXPECT_INT(uncertainty_compute(&wide, &scenario, 400, 0, NULL, NULL, &error), STATUS_OK);
    /* Half the errors, half the interval: nearly linear in that range */
    EXPECT_REAL((one.high_s - one.low_s) / (wide.high_s - wide.low_s), 2, 0.15);
    EXPECT_INT(uncertainty_compute(&one, &scenario, 5, 0, NULL, NULL, &error), STATUS_BAD_INPUT);
    scenario.machine.standard_error_count = 0;
    EXPECT_INT(uncertainty_compute(&one, &scenario, 100, 0, NULL, NULL, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "standard_errors");
    scenario_free(&scenario);
}

TEST_MAIN(TEST(test_sequence), TEST(test_normal), TEST(test_fields), TEST(test_interval))
