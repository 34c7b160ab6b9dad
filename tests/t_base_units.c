/* units, hash. */
#include "sim/base/hash.h"
#include "sim/base/units.h"
#include "tests/test.h"

static void test_seconds(void)
{
    EXPECT_INT(ps_from_s(0.0), 0);
    EXPECT_INT(ps_from_s(1.0), PS_PER_S);
    EXPECT_INT(ps_from_s(0.29), 290000000000);
    EXPECT_INT(ps_from_s(1e-6), PS_PER_US);
    EXPECT_INT(ps_from_s(1.0000000000001e-12), 2); /* up: work is done when it ends */
    EXPECT_INT(ps_from_s(1e-15), 1);
    EXPECT_INT(ps_from_s(1e30), TIME_NEVER_PS);
    EXPECT_INT(ps_from_s(INFINITY), TIME_NEVER_PS);
    EXPECT_REAL(s_from_ps(1500000000000), 1.5, 0);
    uint64_t random = test_seed;
    for (int i = 0; i < 100000; i++) {
        int64_t ps = (int64_t)(test_random(&random) >> (13 + test_below(&random, 40)));
        EXPECT_INT(ps_from_s(s_from_ps(ps)), ps); /* below 2^51 (37 minutes) there and back is exact */
    }
}

static void test_text(void)
{
    char b[64];
    EXPECT_TEXT(text_time_ps(0, b, sizeof b), "0 s");
    EXPECT_TEXT(text_time_ps(5, b, sizeof b), "5 ps");
    EXPECT_TEXT(text_time_ps(412 * PS_PER_US, b, sizeof b), "412 us");
    EXPECT_TEXT(text_time_ps(-412 * PS_PER_US, b, sizeof b), "-412 us");
    EXPECT_TEXT(text_time_ps(13700000000000, b, sizeof b), "13.7 s");
    EXPECT_TEXT(text_time_ps(999600000, b, sizeof b), "1.00 ms");
    EXPECT_TEXT(text_time_ps(999400000, b, sizeof b), "999 us");
    EXPECT_TEXT(text_time_ps(90 * PS_PER_S, b, sizeof b), "90.0 s");
    EXPECT_TEXT(text_time_ps(300 * PS_PER_S, b, sizeof b), "5.00 min");
    EXPECT_TEXT(text_time_ps(9000 * PS_PER_S, b, sizeof b), "2.50 h");
    EXPECT_TEXT(text_time_ps(3 * 86400 * PS_PER_S, b, sizeof b), "3.00 d");
    EXPECT_TEXT(text_time_ps(TIME_NEVER_PS, b, sizeof b), "never");
    EXPECT_TEXT(text_bytes(61.2 * GIB, b, sizeof b), "61.2 GiB");
    EXPECT_TEXT(text_bytes(0, b, sizeof b), "0 B");
    EXPECT_TEXT(text_bytes(512, b, sizeof b), "512 B");
    EXPECT_TEXT(text_bytes(80 * GIB, b, sizeof b), "80.0 GiB");
    EXPECT_TEXT(text_bytes_as(740 * MIB, 61.2 * GIB, b, sizeof b), "0.72 GiB");
    EXPECT_TEXT(text_bytes_as(0, 512, b, sizeof b), "0 B");
    EXPECT_TEXT(text_number(169934.4, 4, b, sizeof b), "169934");
    EXPECT_TEXT(text_number(9589.2, 4, b, sizeof b), "9589");
    EXPECT_TEXT(text_number(-12345.6, 4, b, sizeof b), "-12346");
    EXPECT_TEXT(text_number(4.68249, 4, b, sizeof b), "4.682");
    EXPECT_TEXT(text_number(0, 4, b, sizeof b), "0");
    EXPECT_TEXT(text_bytes_per_s(25.5e9, b, sizeof b), "25.5 GB/s");
    EXPECT_TEXT(text_flops_per_s(1.41e12, b, sizeof b), "1.41 TFLOP/s");
    EXPECT_TEXT(text_flops_per_s(9.996e14, b, sizeof b), "1.00 PFLOP/s");
}

static void test_hash_is_stable(void)
{
    /* These very digits are in saved files: whoever changes them breaks every saved hash and must say so. */
    struct hash hash = hash_start();
    char text[HASH_TEXT_BYTES];
    hash_u64(&hash, 1);
    hash_double(&hash, 0.5);
    hash_text_field(&hash, "memwall");
    EXPECT_TEXT(hash_text(&hash, text), "1d6c9dbd3216473dc3f5a5f9a3a1b834");
}

static void test_hash_tells_apart(void)
{
    struct hash a = hash_start(), b = hash_start(), c = hash_start(), d = hash_start();
    hash_double(&a, 0.0);
    hash_double(&b, -0.0);
    EXPECT(a.a == b.a && a.b == b.b);
    hash_bytes(&a, "ab", 2);
    hash_bytes(&b, "ab\0", 3);
    EXPECT(a.a != b.a && a.b != b.b);
    hash_text_field(&c, "ab");
    hash_text_field(&c, "c");
    hash_text_field(&d, "a");
    hash_text_field(&d, "bc");
    EXPECT(c.a != d.a && c.b != d.b);
    /* Every bit flip of a 24-byte text moves about half of the 128 bits. */
    unsigned char bytes[24] = { 0 };
    double moved = 0;
    unsigned least = 128;
    struct hash plain = hash_start();
    hash_bytes(&plain, bytes, sizeof bytes);
    for (unsigned bit = 0; bit < 8 * sizeof bytes; bit++) {
        struct hash other = hash_start();
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        hash_bytes(&other, bytes, sizeof bytes);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        unsigned count =
            (unsigned)__builtin_popcountll(plain.a ^ other.a) + (unsigned)__builtin_popcountll(plain.b ^ other.b);
        least = count < least ? count : least;
        moved += count;
    }
    EXPECT_REAL(moved / (8 * sizeof bytes), 64, 0.1);
    EXPECT(least >= 32);
}

TEST_MAIN(TEST(test_seconds), TEST(test_text), TEST(test_hash_is_stable), TEST(test_hash_tells_apart))
