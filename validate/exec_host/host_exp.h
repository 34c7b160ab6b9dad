/* exp() that compilers vectorise: Cody-Waite reduction and the polynomial of Cephes' expf (error below 2 ulp in the range). Arguments are cut to [-87, 88]. */
#ifndef MEMWALL_EXEC_HOST_EXP_H
#define MEMWALL_EXEC_HOST_EXP_H

#include <stdint.h>
#include <string.h>

static inline float host_exp(float x)
{
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    float shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the nearest integer stands in the low bits */
    float n = shifted - 12582912.0f;
    float r = x - n * 0.693359375f;
    r -= n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    int32_t bits = ((int32_t)n + 127) * (1 << 23);
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

#endif
