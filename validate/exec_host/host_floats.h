/* Numbers of every dtype as fp32, and sums of them: the arithmetic of collectives.
 *
 * fp32, tf32: as they are. bf16: upper half of fp32. fp16: IEEE half (F16C where the processor has it). fp8: E4M3 (no infinity; 448 the greatest; overflow gives
 * NaN as in OCP's format). Stores round to nearest even, so sums whose exact value the dtype can hold are exact. */
#ifndef MEMWALL_EXEC_HOST_FLOATS_H
#define MEMWALL_EXEC_HOST_FLOATS_H

#include <stddef.h>
#include <stdint.h>

#include "sim/ir/kernel.h"

void host_floats_load(float *to, const uint8_t *from, enum dtype dtype, size_t count);
void host_floats_store(uint8_t *to, const float *from, enum dtype dtype, size_t count);

/* to[i] = sum over s of sources[s][i], added in the order of the sources in fp32 and rounded once. `to` may be one of the sources. No alignment is needed. */
void host_floats_sum(uint8_t *to, const uint8_t *const *sources, uint32_t source_count, enum dtype dtype, size_t count);

/* Plain twins of the conversions, one number. */
uint16_t host_half_from_float(float value);
float host_float_from_half(uint16_t half);
uint16_t host_bf16_from_float(float value);
uint8_t host_fp8_from_float(float value);
float host_float_from_fp8(uint8_t value);

/* Denormal numbers count as zero on this thread, as on GPUs: sums and products take the same time whatever the values. */
void host_floats_flush_denormals(void);

#endif
