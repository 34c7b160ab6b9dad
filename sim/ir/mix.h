/* Fast mixing of records without padding: for schedule_hash and the builder's tables, nobody else.
 *
 * A round is a bijection of the accumulator for each word and of the word for each accumulator, so two runs that differ in one word differ. Not for hostile
 * input: the tables bound their probes by content comparison, not by luck alone. */
#ifndef MEMWALL_IR_MIX_H
#define MEMWALL_IR_MIX_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are hashed as little-endian bytes");

/* Odd constants from the fractional parts of the square roots of 2, 3, 5. */
#define MIX_A UINT64_C(0x6a09e667f3bcc909)
#define MIX_B UINT64_C(0xbb67ae8584caa73b)
#define MIX_C UINT64_C(0x3c6ef372fe94f82b)

static inline uint64_t mix_rotate(uint64_t x, unsigned count)
{
    return (x << count) | (x >> (64 - count));
}

static inline uint64_t mix_round(uint64_t accumulator, uint64_t word)
{
    return mix_rotate((accumulator ^ word) * MIX_A, 31) * MIX_B;
}

/* The second lane: another mixture, so that both would have to collide. */
static inline uint64_t mix_round_second(uint64_t accumulator, uint64_t word)
{
    return (mix_rotate(accumulator, 27) + word) * MIX_C;
}

static inline uint64_t mix_end(uint64_t x)
{
    x = (x ^ (x >> 32)) * MIX_A;
    return x ^ (x >> 29);
}

/* 64 bits of `count` bytes. */
static inline uint64_t mix_bytes(const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    uint64_t h = MIX_C ^ count;
    for (; count >= 8; count -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        h = mix_rotate((h ^ word) * MIX_A, 31); /* one multiplication: records are short, so this is all latency */
    }
    if (count != 0) {
        uint64_t word = 0;
        memcpy(&word, at, count);
        h = mix_rotate((h ^ word) * MIX_A, 31);
    }
    return mix_end(h);
}

#endif
