#include "validate/exec_host/host_floats.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "sim/base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { BLOCK = 1024 /* numbers in work at once: their sums stay in the first-level cache */ };

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- one number ---- */

uint16_t host_half_from_float(float value)
{
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) {
        return (uint16_t)(sign | 0x7e00);
    }
    if (magnitude >= 0x477ff000) { /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00);
    }
    if (magnitude < 0x38800000) { /* below 2^-14: steps of 2^-24, rounded by adding 0.5 in units of them */
        float steps = float_of(magnitude) * 0x1p24f;
        return (uint16_t)(sign | (uint32_t)nearbyintf(steps));
    }
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (rounded - 0x38000000) >> 13);
}

float host_float_from_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3ff;
    if (exponent == 0) {
        float value = (float)fraction * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    if (exponent == 31) {
        return float_of(sign | 0x7f800000 | fraction << 13);
    }
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t host_bf16_from_float(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffff) > 0x7f800000) {
        return (uint16_t)(bits >> 16 | 0x40);
    }
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static const uint32_t FP8_NAN = 0x7f, FP8_GREATEST = 0x7e;

uint8_t host_fp8_from_float(float value)
{
    uint32_t bits = bits_of(value), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff;
    if (magnitude < 0x3c800000) { /* below 2^-6: steps of 2^-9 */
        return (uint8_t)(sign | (uint32_t)nearbyintf(float_of(magnitude) * 0x1p9f));
    }
    if (magnitude >= 0x43e80000) { /* 464 lies half way between 448 and what would be 480; NaN too */
        return (uint8_t)(sign | (magnitude == 0x43e80000 ? FP8_GREATEST : FP8_NAN));
    }
    uint32_t rounded = magnitude + 0x7ffff + (magnitude >> 20 & 1);
    return (uint8_t)(sign | (rounded - 0x3c000000) >> 20);
}

float host_float_from_fp8(uint8_t value)
{
    uint32_t sign = (uint32_t)(value & 0x80) << 24, magnitude = value & 0x7f;
    if (magnitude == FP8_NAN) {
        return float_of(sign | 0x7fc00000);
    }
    if (magnitude < 8) {
        float small = (float)magnitude * 0x1p-9f;
        return sign != 0 ? -small : small;
    }
    return float_of(sign | ((magnitude << 20) + 0x3c000000));
}

/* ---- many ---- */

#if defined(__x86_64__)
#define HAVE_F16C 1

static bool has_f16c(void)
{
    return __builtin_cpu_supports("avx2"); /* which implies it; clang 14 has no name for f16c itself */
}

__attribute__((target("avx,f16c"))) static size_t load_halves(float *to, const uint8_t *from, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(from + 2 * i))));
    }
    return i;
}

__attribute__((target("avx,f16c"))) static size_t store_halves(uint8_t *to, const float *from, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        _mm_storeu_si128((__m128i_u *)(to + 2 * i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
    return i;
}
#endif

static void load_fp16(float *to, const uint8_t *from, size_t count)
{
    size_t i = 0;
#ifdef HAVE_F16C
    if (has_f16c()) {
        i = load_halves(to, from, count);
    }
#endif
    for (; i < count; i++) {
        uint16_t half;
        memcpy(&half, from + 2 * i, sizeof half);
        to[i] = host_float_from_half(half);
    }
}

static void store_fp16(uint8_t *to, const float *from, size_t count)
{
    size_t i = 0;
#ifdef HAVE_F16C
    if (has_f16c()) {
        i = store_halves(to, from, count);
    }
#endif
    for (; i < count; i++) {
        uint16_t half = host_half_from_float(from[i]);
        memcpy(to + 2 * i, &half, sizeof half);
    }
}

static void load_bf16(float *to, const uint8_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, from + 2 * i, sizeof half);
        to[i] = float_of((uint32_t)half << 16);
    }
}

static void store_bf16(uint8_t *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t half = host_bf16_from_float(from[i]);
        memcpy(to + 2 * i, &half, sizeof half);
    }
}

void host_floats_load(float *to, const uint8_t *from, enum dtype dtype, size_t count)
{
    switch (dtype) {
    case DTYPE_FP32:
    case DTYPE_TF32: memcpy(to, from, 4 * count); return;
    case DTYPE_FP16: load_fp16(to, from, count); return;
    case DTYPE_BF16: load_bf16(to, from, count); return;
    case DTYPE_FP8:
        for (size_t i = 0; i < count; i++) {
            to[i] = host_float_from_fp8(from[i]);
        }
        return;
    case DTYPE_COUNT: break;
    }
    CHECK(dtype < DTYPE_COUNT);
}

void host_floats_store(uint8_t *to, const float *from, enum dtype dtype, size_t count)
{
    switch (dtype) {
    case DTYPE_FP32:
    case DTYPE_TF32: memcpy(to, from, 4 * count); return;
    case DTYPE_FP16: store_fp16(to, from, count); return;
    case DTYPE_BF16: store_bf16(to, from, count); return;
    case DTYPE_FP8:
        for (size_t i = 0; i < count; i++) {
            to[i] = host_fp8_from_float(from[i]);
        }
        return;
    case DTYPE_COUNT: break;
    }
    CHECK(dtype < DTYPE_COUNT);
}

/* The unit of fp32 sums is loaded from memory that need not be aligned. */
static void add_fp32(float *sums, const uint8_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, from + 4 * i, sizeof value);
        sums[i] += value;
    }
}

static void add(float *sums, const uint8_t *from, enum dtype dtype, size_t count)
{
    float values[BLOCK];
    if (dtype == DTYPE_FP32 || dtype == DTYPE_TF32) {
        add_fp32(sums, from, count);
        return;
    }
    host_floats_load(values, from, dtype, count);
    for (size_t i = 0; i < count; i++) {
        sums[i] += values[i];
    }
}

void host_floats_sum(uint8_t *to, const uint8_t *const *sources, uint32_t source_count, enum dtype dtype, size_t count)
{
    float sums[BLOCK];
    size_t element = dtype_bytes(dtype);
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t n = count - at < BLOCK ? count - at : BLOCK;
        host_floats_load(sums, sources[0] + at * element, dtype, n);
        for (uint32_t s = 1; s < source_count; s++) {
            add(sums, sources[s] + at * element, dtype, n);
        }
        host_floats_store(to + at * element, sums, dtype, n);
    }
}

void host_floats_flush_denormals(void)
{
#if defined(__SSE2__)
    _mm_setcsr(_mm_getcsr() | 0x8040); /* flush to zero, denormals are zero */
#endif
}
