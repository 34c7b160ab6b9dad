/* The frame of a benchmark: rivals run in turn, round after round, and medians and ratios are printed: this
 * machine's speed drifts, so only what ran side by side compares. */
#ifndef MEMWALL_TESTS_BENCH_H
#define MEMWALL_TESTS_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/base/splitmix.h"

enum { BENCH_ROUNDS = 7 };

static inline double bench_now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); /* others may share the processor */
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the samples. */
static inline double bench_median(double *samples, unsigned count)
{
    qsort(samples, count, sizeof *samples, bench_compare);
    return samples[count / 2];
}

static inline uint64_t bench_random(uint64_t *state)
{
    return splitmix_next(state);
}

static inline double bench_unit(uint64_t *state)
{
    return splitmix_unit(state);
}

/* Compiler and processor: figures without them mean nothing. */
static inline void bench_header(const char *name)
{
    char line[256] = "unknown processor";
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL && strncmp(line, "model name", 10) != 0) {
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    line[strcspn(line, "\n")] = '\0';
    const char *colon = strchr(line, ':');
    printf("%s: %s, compiler %s, medians of %d interleaved rounds\n", name, colon == NULL ? line : colon + 2,
           __VERSION__, BENCH_ROUNDS);
}

#endif
