/* What --check writes into memory and expects to find: one definition for the host, the kernels, and the tests' emulation of them.
 *
 * A pattern is a sequence of 32-bit words, each a hash of a seed and its place, so that a copy that is short, late, doubled or from the wrong place is seen. For sums
 * every member of a group contributes small whole numbers: up to 64 members sum to at most 192, which fp16 and bf16 hold exactly, in any order of adding. */
#ifndef MEMWALL_EXEC_CUDA_GPU_PATTERN_H
#define MEMWALL_EXEC_CUDA_GPU_PATTERN_H

#include <stdint.h>

#ifdef __CUDACC__
#define GPU_PATTERN_INLINE static inline __host__ __device__
#else
#define GPU_PATTERN_INLINE static inline
#endif

#define GPU_PATTERN_MEMBERS_MAX 64u

/* Finalizer of MurmurHash3 (Appleby, public domain): every bit of the input reaches every bit of the result. */
GPU_PATTERN_INLINE uint32_t gpu_pattern_word(uint32_t seed, uint64_t word)
{
    uint32_t x = seed ^ (uint32_t)word ^ (uint32_t)(word >> 32) * 0x9e3779b9u;
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    x ^= x >> 16;
    return x;
}

/* Byte `place` of the pattern (little-endian words). */
GPU_PATTERN_INLINE uint8_t gpu_pattern_byte(uint32_t seed, uint64_t place)
{
    return (uint8_t)(gpu_pattern_word(seed, place / 4) >> (8 * (place % 4)));
}

/* What member `member` contributes at `element`: 0 to 3; members from the 64th on contribute 0. */
GPU_PATTERN_INLINE uint32_t gpu_pattern_number(uint32_t seed, uint32_t member, uint64_t element)
{
    return member < GPU_PATTERN_MEMBERS_MAX ? gpu_pattern_word(seed + 0x3c6ef372u * (member + 1), element) & 3u : 0;
}

/* The sum over members [first, first + count). */
GPU_PATTERN_INLINE uint32_t gpu_pattern_sum(uint32_t seed, uint32_t first, uint32_t count, uint64_t element)
{
    uint32_t sum = 0;
    for (uint32_t i = first; i < first + count && i < GPU_PATTERN_MEMBERS_MAX; i++) {
        sum += gpu_pattern_number(seed, i, element);
    }
    return sum;
}

#endif
