/* splitmix64 (Steele, Lea, Flood 2014): a seeded stream of 64-bit numbers. The same state gives the same numbers on every computer; not for secrets. */
#ifndef MEMWALL_BASE_SPLITMIX_H
#define MEMWALL_BASE_SPLITMIX_H

#include <stdint.h>

/* The next number; `state` is the seed before the first. */
static inline uint64_t splitmix_next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Uniform in [0, 1). */
static inline double splitmix_unit(uint64_t *state)
{
    return (double)(splitmix_next(state) >> 11) * 0x1p-53;
}

#endif
