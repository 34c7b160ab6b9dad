#include "sim/base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Odd constants from the fractional parts of pi and e; any well-mixed odd numbers would do. */
#define MULTIPLIER_A 0x243f6a8885a308d3u
#define MULTIPLIER_B 0xb7e151628aed2a6bu

static uint64_t rotate(uint64_t x, unsigned count)
{
    return (x << count) | (x >> (64 - count));
}

/* A bijection of 64 bits in which each input bit reaches each output bit. */
static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
    return x ^ (x >> 32);
}

struct hash hash_start(void)
{
    return (struct hash){ 0x452821e638d01377u, 0xbe5466cf34e90c6cu };
}

void hash_u64(struct hash *hash, uint64_t value)
{
    /* Two lanes fed differently and crossed, so that one lane's collision does not survive in the other. */
    hash->a = mixed(hash->a ^ value) * MULTIPLIER_A + hash->b;
    hash->b = rotate(hash->b ^ (value * MULTIPLIER_B), 29) * MULTIPLIER_A + rotate(hash->a, 17);
}

void hash_bytes(struct hash *hash, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    size_t left = count;
    for (; left >= 8; left -= 8, at += 8) {
        uint64_t word = 0;
        for (unsigned i = 0; i < 8; i++) {
            word |= (uint64_t)at[i] << (8 * i); /* little-endian on every machine */
        }
        hash_u64(hash, word);
    }
    /* The tail carries its length in the top byte, so a zero byte more is another text. */
    uint64_t word = (uint64_t)left << 56;
    for (unsigned i = 0; i < left; i++) {
        word |= (uint64_t)at[i] << (8 * i);
    }
    hash_u64(hash, word);
}

void hash_double(struct hash *hash, double value)
{
    uint64_t bits;
    double canonical = value + 0.0; /* -0 + 0 is +0 */
    memcpy(&bits, &canonical, sizeof bits);
    hash_u64(hash, bits);
}

void hash_text_field(struct hash *hash, const char *text)
{
    size_t length = strlen(text);
    hash_u64(hash, length);
    hash_bytes(hash, text, length);
}

bool hash_equal(const struct hash *x, const struct hash *y)
{
    return x->a == y->a && x->b == y->b;
}

const char *hash_text(const struct hash *hash, char buffer[HASH_TEXT_BYTES])
{
    (void)snprintf(buffer, HASH_TEXT_BYTES, "%016" PRIx64 "%016" PRIx64, hash->a, hash->b);
    return buffer;
}
