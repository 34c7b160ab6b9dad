/* Our own kernels, behind C functions: what a schedule asks for beside matrix products.
 *
 * Each function launches once on `stream` of the current device and returns at once; the error is that of the launch. Pointers are to device memory, aligned to 16
 * bytes; sizes are rounded up to 16 bytes, so regions must be a multiple of 16 long. The kernels move the bytes that a record states, coalesced, 16 bytes a
 * thread at a time, and do the arithmetic of their class in fp32:
 *
 *     elementwise, reduce   a multiply-add on each element
 *     norm, softmax         one block a row: statistics of the row, then the row again (from the caches) scaled by them
 *     gather                one block a row, from a row of the input that a hash chooses
 *     optimizer             Adam: up to four arrays read, up to three written (elsewhere, so that inputs stay what they are)
 *
 * They are not the kernels of a framework; they are honest ones of the same traffic, so what is fitted to them is the machine's. */
#ifndef MEMWALL_EXEC_CUDA_GPU_KERNELS_H
#define MEMWALL_EXEC_CUDA_GPU_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "sim/ir/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A memory-bound launch. */
struct gpu_stream_launch {
    enum kernel_class kernel_class; /* not a product, not attention */
    enum dtype dtype;               /* of the elements */
    void *input, *output;           /* the same or apart */
    uint64_t read_bytes, write_bytes;
    uint64_t rows; /* norm, softmax, gather; 0 counts as 1 */
};
cudaError_t gpu_stream(cudaStream_t stream, const struct gpu_stream_launch *launch);

/* accumulator[i] += input[i]: the arithmetic of an emulated collective. fp32, tf32, fp16, bf16, fp8 (e4m3). */
cudaError_t gpu_accumulate(cudaStream_t stream, enum dtype dtype, void *accumulator, const void *input,
                           uint64_t elements);

/* Nothing at all; and nothing for `nanoseconds`, on one thread (by the GPU's global timer, whose tick is about a microsecond). */
cudaError_t gpu_empty(cudaStream_t stream);
cudaError_t gpu_delay(cudaStream_t stream, uint64_t nanoseconds);

/* Values of moderate size for products: random mantissas, one exponent, in whichever of fp32, fp16 and bf16 they are read. */
cudaError_t gpu_fill_random(cudaStream_t stream, void *memory, uint64_t bytes, uint32_t seed);

/* --check. `bytes` exact here (not rounded). Mismatching words are added to *mismatches, device memory. */
cudaError_t gpu_fill_pattern(cudaStream_t stream, void *memory, uint64_t bytes, uint32_t seed);
cudaError_t gpu_verify_pattern(cudaStream_t stream, const void *memory, uint64_t bytes, uint32_t seed,
                               uint32_t *mismatches);

/* Numbers of gpu_pattern.h for elements [first_element, + elements): member `member`'s, or the expected sum of members [first_member, + member_count). */
struct gpu_numbers {
    enum dtype dtype;
    uint32_t seed, first_member, member_count;
    uint64_t first_element, elements;
};
cudaError_t gpu_fill_numbers(cudaStream_t stream, void *memory, const struct gpu_numbers *numbers);
cudaError_t gpu_verify_numbers(cudaStream_t stream, const void *memory, const struct gpu_numbers *numbers,
                               uint32_t *mismatches);

#ifdef __cplusplus
}
#endif

#endif
