/* The test harness: asserts that never vanish and print the values they saw.
 *
 *     static void test_addition(void) { EXPECT_INT(1 + 1, 2); }
 *     TEST_MAIN(TEST(test_addition))
 *
 * A program exits 0 when all passed, 1 when any failed, 77 when it was skipped (no data). `argv[1]`, a number, seeds random tests;
 * the seed is printed first. */
#ifndef MEMWALL_TESTS_TEST_H
#define MEMWALL_TESTS_TEST_H

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/splitmix.h"

struct test_case {
    const char *name;
    void (*run)(void);
};

static unsigned test_failures;
static uint64_t test_seed = 1;

#define TEST_FAIL_(...)                                                                                                \
    do {                                                                                                               \
        printf("%s:%d: ", __FILE__, __LINE__);                                                                         \
        printf(__VA_ARGS__);                                                                                           \
        printf("\n");                                                                                                  \
        test_failures++;                                                                                               \
    } while (0)

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            TEST_FAIL_("expected %s", #condition);                                                                     \
        }                                                                                                              \
    } while (0)
#define EXPECT_INT(actual, expected)                                                                                   \
    do {                                                                                                               \
        long long test_a_ = (long long)(actual), test_e_ = (long long)(expected);                                      \
        if (test_a_ != test_e_) {                                                                                      \
            TEST_FAIL_("%s is %lld, expected %lld", #actual, test_a_, test_e_);                                        \
        }                                                                                                              \
    } while (0)
/* |actual - expected| <= tolerance * |expected|; tolerance 0 wants equality. */
#define EXPECT_REAL(actual, expected, tolerance)                                                                       \
    do {                                                                                                               \
        double test_a_ = (actual), test_e_ = (expected);                                                               \
        if (!(fabs(test_a_ - test_e_) <= (tolerance)*fabs(test_e_))) {                                                 \
            TEST_FAIL_("%s is %.17g, expected %.17g within %g", #actual, test_a_, test_e_, (double)(tolerance));       \
        }                                                                                                              \
    } while (0)
#define EXPECT_TEXT(actual, expected)                                                                                  \
    do {                                                                                                               \
        const char *test_a_ = (actual), *test_e_ = (expected);                                                         \
        if (test_a_ == NULL || strcmp(test_a_, test_e_) != 0) {                                                        \
            TEST_FAIL_("%s is \"%s\", expected \"%s\"", #actual, test_a_ == NULL ? "(null)" : test_a_, test_e_);       \
        }                                                                                                              \
    } while (0)
/* `text` contains `part`. */
#define EXPECT_PART(text, part)                                                                                        \
    do {                                                                                                               \
        const char *test_a_ = (text);                                                                                  \
        if (test_a_ == NULL || strstr(test_a_, (part)) == NULL) {                                                      \
            TEST_FAIL_("%s is \"%s\", expected it to contain \"%s\"", #text, test_a_ == NULL ? "(null)" : test_a_,     \
                       (part));                                                                                        \
        }                                                                                                              \
    } while (0)

/* A seeded stream for random tests. */
static inline uint64_t test_random(uint64_t *state)
{
    return splitmix_next(state);
}

static inline uint64_t test_below(uint64_t *state, uint64_t bound)
{
    return test_random(state) % bound;
}

/* Uniform in [0, 1). */
static inline double test_unit(uint64_t *state)
{
    return splitmix_unit(state);
}

static inline int test_run(const struct test_case *cases, size_t count, int argc, char **argv)
{
    if (argc > 1) {
        test_seed = strtoull(argv[1], NULL, 0);
    }
    printf("seed %" PRIu64 "\n", test_seed);
    for (size_t i = 0; i < count; i++) {
        unsigned before = test_failures;
        cases[i].run();
        printf("%s %s\n", test_failures == before ? "ok  " : "FAIL", cases[i].name);
    }
    printf("%zu cases, %u failures\n", count, test_failures);
    return test_failures == 0 ? 0 : 1;
}

#define TEST(function)                                                                                                 \
    {                                                                                                                  \
#function, function                                                                                            \
    }
#define TEST_MAIN(...)                                                                                                 \
    int main(int argc, char **argv)                                                                                    \
    {                                                                                                                  \
        static const struct test_case cases[] = { __VA_ARGS__ };                                                       \
        return test_run(cases, sizeof cases / sizeof cases[0], argc, argv);                                            \
    }

#endif
