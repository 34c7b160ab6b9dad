/* The frame of a fuzz program: argv[1] seconds (default 2), argv[2] seed (default 1). Rounds get seeds of their own,
 * so that a finding is repeated by its printed seed alone: `f_x 0 SEED` runs exactly that round. */
#ifndef MEMWALL_TESTS_FUZZ_H
#define MEMWALL_TESTS_FUZZ_H

#include <time.h>

#include "tests/test.h"

static inline double fuzz_now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Runs round(seed) with seeds rising from argv[2] until the time is over (at least once) or a round fails. */
static inline int fuzz_run(void (*round)(uint64_t seed), int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 2.0;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1, first = seed;
    double end_s = fuzz_now_s() + seconds;
    printf("seed %" PRIu64 "\n", seed);
    do {
        round(seed);
        if (test_failures != 0) {
            printf("FAIL: repeat with: %s 0 %" PRIu64 "\n", argv[0], seed);
            return 1;
        }
        seed++;
    } while (fuzz_now_s() < end_s);
    printf("%" PRIu64 " rounds, no finding\n", seed - first);
    return 0;
}

#endif
