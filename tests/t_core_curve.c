#include "sim/core/curve.h"
#include "tests/test.h"

static struct arena arena;

static void test_linear(void)
{
    static const double x[] = { 1, 2, 4 }, y[] = { 10, 20, 0 };
    struct curve curve;
    EXPECT_INT(curve_make(&curve, &arena, x, y, 3, CURVE_LINEAR, CURVE_EXTEND, CURVE_HOLD, NULL), STATUS_OK);
    EXPECT_REAL(curve_at(&curve, 1), 10, 0);
    EXPECT_REAL(curve_at(&curve, 1.5), 15, 0);
    EXPECT_REAL(curve_at(&curve, 2), 20, 0);
    EXPECT_REAL(curve_at(&curve, 3), 10, 0);
    EXPECT_REAL(curve_at(&curve, 4), 0, 0);
    EXPECT_REAL(curve_at(&curve, 100), 0, 0);
    EXPECT_REAL(curve_at(&curve, -1), -10, 1e-15);
    EXPECT_INT(curve_direction(&curve), 0);
    double found;
    EXPECT(!curve_inverse(&curve, 15, &found));
}

/* A power law is a straight line on log-log paper, also beyond the points. */
static void test_power_law(void)
{
    double x[5], y[5];
    struct curve curve;
    for (int i = 0; i < 5; i++) {
        x[i] = pow(10, i);
        y[i] = 7 * pow(x[i], 0.75);
    }
    EXPECT_INT(curve_make(&curve, &arena, x, y, 5, CURVE_LOG_LOG, CURVE_EXTEND, CURVE_EXTEND, NULL), STATUS_OK);
    for (double at = 1e-3; at < 1e8; at *= 1.37) {
        EXPECT_REAL(curve_at(&curve, at), 7 * pow(at, 0.75), 1e-13);
        double found = 0;
        EXPECT(curve_inverse(&curve, curve_at(&curve, at), &found));
        EXPECT_REAL(found, at, 1e-12);
    }
    EXPECT_INT(curve_direction(&curve), 1);
}

static void test_inverse_falling_and_holding(void)
{
    static const double x[] = { 1, 2, 4 }, y[] = { 30, 20, 0 };
    struct curve curve;
    double found = 0;
    EXPECT_INT(curve_make(&curve, &arena, x, y, 3, CURVE_LINEAR, CURVE_HOLD, CURVE_EXTEND, NULL), STATUS_OK);
    EXPECT_INT(curve_direction(&curve), -1);
    EXPECT(curve_inverse(&curve, 30, &found));
    EXPECT_REAL(found, 1, 0);
    EXPECT(curve_inverse(&curve, 25, &found));
    EXPECT_REAL(found, 1.5, 1e-15);
    EXPECT(!curve_inverse(&curve, 30.1, &found));
    EXPECT(curve_inverse(&curve, -10, &found));
    EXPECT_REAL(found, 5, 1e-15);
}

static void test_one_point(void)
{
    static const double x[] = { 5 }, y[] = { 3 };
    struct curve curve;
    double found;
    EXPECT_INT(curve_make(&curve, &arena, x, y, 1, CURVE_LOG_LOG, CURVE_EXTEND, CURVE_EXTEND, NULL), STATUS_OK);
    EXPECT_REAL(curve_at(&curve, 1), 3, 1e-15);
    EXPECT_REAL(curve_at(&curve, 50), 3, 1e-15);
    EXPECT(!curve_inverse(&curve, 3, &found));
}

static void test_refusals(void)
{
    static const double x[] = { 1, 2, 2 }, y[] = { 1, NAN, 3 }, positive[] = { 1, 2, 3 }, zero[] = { 0, 1, 2 };
    struct curve curve;
    struct error error = { 0 };
    EXPECT_INT(curve_make(&curve, &arena, x, y, 0, CURVE_LINEAR, CURVE_HOLD, CURVE_HOLD, &error), STATUS_BAD_INPUT);
    EXPECT_INT(curve_make(&curve, &arena, x, y, 3, CURVE_LINEAR, CURVE_HOLD, CURVE_HOLD, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "point 1 ");
    EXPECT_INT(curve_make(&curve, &arena, x, positive, 3, CURVE_LINEAR, CURVE_HOLD, CURVE_HOLD, &error),
               STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "point 2 of the curve, (2, 3), must have a larger x");
    EXPECT_INT(curve_make(&curve, &arena, zero, positive, 3, CURVE_LOG_LOG, CURVE_HOLD, CURVE_HOLD, &error),
               STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "must be positive");
    struct arena small = { .fail_after = 1 };
    EXPECT_INT(curve_make(&curve, &small, zero, positive, 3, CURVE_LINEAR, CURVE_HOLD, CURVE_HOLD, &error),
               STATUS_NO_MEMORY);
    arena_free(&small);
}

/* Against a search from end to end, on random points. */
static void test_random_against_plain(void)
{
    uint64_t random = test_seed;
    for (int round = 0; round < 200; round++) {
        double x[40], y[40], at = test_unit(&random);
        size_t count = 2 + test_below(&random, 39);
        for (size_t i = 0; i < count; i++) {
            x[i] = at;
            at += 0.01 + test_unit(&random);
            y[i] = i == 0 ? test_unit(&random) : y[i - 1] + 0.01 + test_unit(&random);
        }
        struct curve curve;
        EXPECT_INT(curve_make(&curve, &arena, x, y, count, CURVE_LINEAR, CURVE_EXTEND, CURVE_EXTEND, NULL), STATUS_OK);
        for (int k = 0; k < 50; k++) {
            double where = test_unit(&random) * (at + 2) - 1, found = 0;
            size_t i = 0;
            while (i + 2 < count && x[i + 1] <= where) {
                i++;
            }
            double expected = y[i] + (where - x[i]) * (y[i + 1] - y[i]) / (x[i + 1] - x[i]);
            EXPECT(fabs(curve_at(&curve, where) - expected) <= 1e-12 * (1 + fabs(expected)));
            EXPECT(curve_inverse(&curve, expected, &found));
            EXPECT(fabs(found - where) <= 1e-10 * (1 + fabs(where)));
        }
    }
    arena_free(&arena);
}

TEST_MAIN(TEST(test_linear), TEST(test_power_law), TEST(test_inverse_falling_and_holding), TEST(test_one_point),
          TEST(test_refusals), TEST(test_random_against_plain))
