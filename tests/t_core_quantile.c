/* Quantiles by nearest rank. */
#include "sim/core/quantile.h"
#include "tests/test.h"

static void test_small_sets(void)
{
    double values[] = { 4, 1, 3, 2 };
    quantile_sort(values, 4);
    EXPECT_REAL(values[0], 1, 0);
    EXPECT_REAL(values[3], 4, 0);
    EXPECT_REAL(quantile_of(values, 4, 0.5), 2, 0); /* the lower median */
    EXPECT_REAL(quantile_of(values, 4, 0.75), 3, 0);
    EXPECT_REAL(quantile_of(values, 4, 0.76), 4, 0);
    EXPECT_REAL(quantile_of(values, 4, 1), 4, 0);
    EXPECT_REAL(quantile_of(values, 4, 1e-6), 1, 0);
    EXPECT_REAL(quantile_of(values, 1, 0.9), 1, 0);
    EXPECT_REAL(quantile_of(values, 3, 0.5), 2, 0);
}

/* p * n that rounds up to just above a whole number must not take the next one: 0.9 of every multiple of ten. */
static void test_whole_ranks(void)
{
    static double values[1000];
    for (int i = 0; i < 1000; i++) {
        values[i] = i + 1;
    }
    for (int n = 10; n <= 1000; n += 10) {
        EXPECT_REAL(quantile_of(values, (size_t)n, 0.9), n / 10 * 9, 0);
        EXPECT_REAL(quantile_of(values, (size_t)n, 0.1), n / 10, 0);
    }
}

/* Against the definition: the smallest value that at least p of all do not exceed. */
static void test_definition(void)
{
    uint64_t random = test_seed;
    for (int round = 0; round < 200; round++) {
        double values[40];
        size_t n = 1 + test_below(&random, 40);
        double p = (double)(1 + test_below(&random, 64)) / 64;
        for (size_t i = 0; i < n; i++) {
            values[i] = (double)test_below(&random, 12); /* ties */
        }
        quantile_sort(values, n);
        double wanted = values[n - 1];
        for (size_t i = n; i-- > 0;) {
            size_t not_above = 0;
            for (size_t k = 0; k < n; k++) {
                not_above += values[k] <= values[i];
            }
            wanted = (double)not_above >= p * (double)n && values[i] < wanted ? values[i] : wanted;
        }
        EXPECT_REAL(quantile_of(values, n, p), wanted, 0);
    }
}

TEST_MAIN(TEST(test_small_sets), TEST(test_whole_ranks), TEST(test_definition))
