/* Our own kernels; gpu_kernels.h says what they are for. */
#include "validate/exec_cuda/gpu_kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "validate/exec_cuda/gpu_pattern.h"

namespace
{

constexpr unsigned THREADS = 256;
/* Enough blocks to fill the largest GPU several times over; grid-stride loops do the rest. */
constexpr uint64_t BLOCKS_MAX = 4096;

unsigned blocks_for(uint64_t items)
{
    uint64_t blocks = (items + THREADS - 1) / THREADS;
    return static_cast<unsigned>(blocks < 1 ? 1 : blocks > BLOCKS_MAX ? BLOCKS_MAX : blocks);
}

uint64_t vectors(uint64_t bytes)
{
    return (bytes + 15) / 16;
}

/* -- elements: a 16-byte vector as floats and back -- */

template <typename T> __device__ float to_float(T x)
{
    return static_cast<float>(x);
}
template <typename T> __device__ T from_float(float x)
{
    return static_cast<T>(x);
}

template <typename T> union vector {
    uint4 bits;
    T items[16 / sizeof(T)];
    __device__ vector() : bits(make_uint4(0, 0, 0, 0))
    {
    }
};

/* -- streaming -- */

template <typename T>
__global__ void elementwise_kernel(const uint4 *input, uint64_t reads, uint4 *output, uint64_t writes)
{
    uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    uint64_t most = reads > writes ? reads : writes;
    float carry = 0;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < most; i += step) {
        vector<T> v;
        if (i < reads) {
            v.bits = input[i];
        }
#pragma unroll
        for (unsigned j = 0; j < 16 / sizeof(T); j++) {
            float x = fmaf(to_float(v.items[j]), 1.0009765625f, 0.0001220703125f);
            v.items[j] = from_float<T>(x);
            carry += x;
        }
        if (i < writes) {
            output[i] = v.bits;
        }
    }
    /* What is read beyond what is written must be needed, or the compiler leaves it out. Never true. */
    if (carry == -1.2345678e33f && most > 0) {
        output[0] = make_uint4(0, 0, 0, 0);
    }
}

__device__ float block_sum(float x, float *shared)
{
    for (int offset = 16; offset > 0; offset /= 2) {
        x += __shfl_down_sync(0xffffffffu, x, offset);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        shared[threadIdx.x / 32] = x;
    }
    __syncthreads();
    float sum = 0;
    for (unsigned i = 0; i < THREADS / 32; i++) {
        sum += shared[i];
    }
    return sum;
}

/* One block a row: a sum over the row (of squares, or of exponentials), then the row scaled by it. */
template <typename T, bool EXPONENTIAL>
__global__ void row_kernel(const uint4 *input, uint64_t reads, uint4 *output, uint64_t writes, uint64_t rows)
{
    __shared__ float shared[THREADS / 32];
    for (uint64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        uint64_t read_begin = reads * row / rows, read_end = reads * (row + 1) / rows;
        uint64_t write_begin = writes * row / rows, write_end = writes * (row + 1) / rows;
        float sum = 0;
        for (uint64_t i = read_begin + threadIdx.x; i < read_end; i += THREADS) {
            vector<T> v;
            v.bits = input[i];
#pragma unroll
            for (unsigned j = 0; j < 16 / sizeof(T); j++) {
                float x = to_float(v.items[j]);
                sum += EXPONENTIAL ? __expf(x) : x * x;
            }
        }
        float total = block_sum(sum, shared), scale = EXPONENTIAL ? 1 / total : rsqrtf(total + 1e-5f);
        for (uint64_t i = threadIdx.x; i < write_end - write_begin; i += THREADS) {
            vector<T> v;
            if (i < read_end - read_begin) {
                v.bits = input[read_begin + i];
            }
#pragma unroll
            for (unsigned j = 0; j < 16 / sizeof(T); j++) {
                float x = to_float(v.items[j]);
                v.items[j] = from_float<T>((EXPONENTIAL ? __expf(x) : x) * scale);
            }
            output[write_begin + i] = v.bits;
        }
        if (write_end == write_begin && threadIdx.x == 0 && total == -1.2345678e33f) {
            output[0] = make_uint4(0, 0, 0, 0);
        }
    }
}

/* One block a row of the output; its input is a row that a hash chooses. */
__global__ void gather_kernel(const uint4 *input, uint64_t reads, uint4 *output, uint64_t writes, uint64_t rows)
{
    uint64_t width = writes / rows > 0 ? writes / rows : 1, table = reads / width > 0 ? reads / width : 1;
    for (uint64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        uint64_t from = (gpu_pattern_word(1, row) % table) * width, to = writes * row / rows;
        uint64_t end = writes * (row + 1) / rows;
        for (uint64_t i = threadIdx.x; to + i < end; i += THREADS) {
            output[to + i] = from + i < reads ? input[from + i] : make_uint4(0, 0, 0, 0);
        }
    }
}

__device__ float adam(float g, float *p, float *m, float *v)
{
    *m = 0.9f * *m + 0.1f * g;
    *v = 0.999f * *v + 0.001f * g * g;
    *p -= 1e-4f * *m / (sqrtf(fabsf(*v)) + 1e-8f); /* operands are random: a second moment may be negative */
    return *p;
}

/* Arrays of `slots` vectors one behind the other: master weights, moments, gradients; as many of them as the bytes say. */
__global__ void adam_kernel(const uint4 *input, uint64_t reads, uint4 *output, uint64_t writes, uint64_t slots)
{
    uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    float carry = 0;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < slots; i += step) {
        vector<float> array[4];
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            if (i + j * slots < reads) {
                array[j].bits = input[i + j * slots];
            }
        }
#pragma unroll
        for (unsigned k = 0; k < 4; k++) {
            carry += adam(array[3].items[k], &array[0].items[k], &array[1].items[k], &array[2].items[k]);
        }
#pragma unroll
        for (unsigned j = 0; j < 3; j++) {
            if (i + j * slots < writes) {
                output[i + j * slots] = array[j].bits;
            }
        }
    }
    if (carry == -1.2345678e33f) {
        output[0] = make_uint4(0, 0, 0, 0);
    }
}

template <typename T> cudaError_t stream_of(cudaStream_t stream, const gpu_stream_launch *launch)
{
    const uint4 *input = static_cast<const uint4 *>(launch->input);
    uint4 *output = static_cast<uint4 *>(launch->output);
    uint64_t reads = vectors(launch->read_bytes), writes = vectors(launch->write_bytes);
    uint64_t most = reads > writes ? reads : writes, rows = launch->rows > 0 ? launch->rows : 1;
    unsigned row_blocks = static_cast<unsigned>(rows > BLOCKS_MAX ? BLOCKS_MAX : rows);
    switch (launch->kernel_class) {
    case KERNEL_NORM:
        row_kernel<T, false><<<row_blocks, THREADS, 0, stream>>>(input, reads, output, writes, rows);
        break;
    case KERNEL_SOFTMAX:
        row_kernel<T, true><<<row_blocks, THREADS, 0, stream>>>(input, reads, output, writes, rows);
        break;
    case KERNEL_GATHER: gather_kernel<<<row_blocks, THREADS, 0, stream>>>(input, reads, output, writes, rows); break;
    case KERNEL_OPTIMIZER: {
        uint64_t by_read = (reads + 3) / 4, by_write = (writes + 2) / 3,
                 slots = by_read > by_write ? by_read : by_write;
        adam_kernel<<<blocks_for(slots), THREADS, 0, stream>>>(input, reads, output, writes, slots);
        break;
    }
    case KERNEL_ELEMENTWISE:
    case KERNEL_REDUCE:
    case KERNEL_GEMM:
    case KERNEL_ATTENTION_FORWARD:
    case KERNEL_ATTENTION_BACKWARD:
    case KERNEL_CLASS_COUNT:
        elementwise_kernel<T><<<blocks_for(most), THREADS, 0, stream>>>(input, reads, output, writes);
        break;
    }
    return cudaGetLastError();
}

/* -- emulated collectives -- */

template <typename T> __global__ void accumulate_kernel(T *accumulator, const T *input, uint64_t elements)
{
    uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements; i += step) {
        accumulator[i] = from_float<T>(to_float(accumulator[i]) + to_float(input[i]));
    }
}

/* Sixteen bytes at a time where both sides are aligned. */
template <typename T> __global__ void accumulate_vectors(uint4 *accumulator, const uint4 *input, uint64_t count)
{
    uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        vector<T> a, b;
        a.bits = accumulator[i];
        b.bits = input[i];
#pragma unroll
        for (unsigned j = 0; j < 16 / sizeof(T); j++) {
            a.items[j] = from_float<T>(to_float(a.items[j]) + to_float(b.items[j]));
        }
        accumulator[i] = a.bits;
    }
}

template <typename T>
cudaError_t accumulate_of(cudaStream_t stream, void *accumulator, const void *input, uint64_t elements)
{
    uintptr_t both = reinterpret_cast<uintptr_t>(accumulator) | reinterpret_cast<uintptr_t>(input);
    uint64_t whole = both % 16 == 0 ? elements / (16 / sizeof(T)) : 0, done = whole * (16 / sizeof(T));
    if (whole > 0) {
        accumulate_vectors<T><<<blocks_for(whole), THREADS, 0, stream>>>(static_cast<uint4 *>(accumulator),
                                                                         static_cast<const uint4 *>(input), whole);
    }
    if (done < elements) {
        accumulate_kernel<T><<<blocks_for(elements - done), THREADS, 0, stream>>>(
            static_cast<T *>(accumulator) + done, static_cast<const T *>(input) + done, elements - done);
    }
    return cudaGetLastError();
}

/* -- time, values -- */

__global__ void empty_kernel()
{
}

__device__ uint64_t global_timer()
{
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

__global__ void delay_kernel(uint64_t nanoseconds)
{
    uint64_t begin = global_timer();
    while (global_timer() - begin < nanoseconds) {
    }
}

/* 16-bit halves 0 s 01110 mmmmmmmmmm: fp16 of magnitude 0.5 to 1; bf16 and fp32 of a small fixed magnitude. */
__global__ void random_kernel(uint32_t *words, uint64_t count, uint32_t seed)
{
    uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        words[i] = (gpu_pattern_word(seed, i) & 0x83ff83ffu) | 0x38003800u;
    }
}

/* -- check -- */

__global__ void fill_pattern_kernel(uint8_t *memory, uint64_t bytes, uint32_t seed)
{
    uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i * 4 < bytes; i += step) {
        uint32_t word = gpu_pattern_word(seed, i);
        for (unsigned j = 0; j < 4 && i * 4 + j < bytes; j++) {
            memory[i * 4 + j] = static_cast<uint8_t>(word >> (8 * j));
        }
    }
}

__global__ void verify_pattern_kernel(const uint8_t *memory, uint64_t bytes, uint32_t seed, uint32_t *mismatches)
{
    uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i * 4 < bytes; i += step) {
        uint32_t word = gpu_pattern_word(seed, i);
        bool equal = true;
        for (unsigned j = 0; j < 4 && i * 4 + j < bytes; j++) {
            equal = equal && memory[i * 4 + j] == static_cast<uint8_t>(word >> (8 * j));
        }
        if (!equal) {
            atomicAdd(mismatches, 1u);
        }
    }
}

template <typename T> __global__ void fill_numbers_kernel(T *memory, gpu_numbers n)
{
    uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n.elements; i += step) {
        uint32_t sum = gpu_pattern_sum(n.seed, n.first_member, n.member_count, n.first_element + i);
        memory[i] = from_float<T>(static_cast<float>(sum));
    }
}

template <typename T> __global__ void verify_numbers_kernel(const T *memory, gpu_numbers n, uint32_t *mismatches)
{
    uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n.elements; i += step) {
        uint32_t sum = gpu_pattern_sum(n.seed, n.first_member, n.member_count, n.first_element + i);
        if (to_float(memory[i]) != static_cast<float>(sum)) {
            atomicAdd(mismatches, 1u);
        }
    }
}

template <typename T> cudaError_t fill_numbers_of(cudaStream_t stream, void *memory, const gpu_numbers *n)
{
    fill_numbers_kernel<T><<<blocks_for(n->elements), THREADS, 0, stream>>>(static_cast<T *>(memory), *n);
    return cudaGetLastError();
}

template <typename T>
cudaError_t verify_numbers_of(cudaStream_t stream, const void *memory, const gpu_numbers *n, uint32_t *mismatches)
{
    verify_numbers_kernel<T>
        <<<blocks_for(n->elements), THREADS, 0, stream>>>(static_cast<const T *>(memory), *n, mismatches);
    return cudaGetLastError();
}

} // namespace

/* One line a dtype: the function of its element type. */
#define BY_DTYPE(dtype, function, ...)                                                                                 \
    switch (dtype) {                                                                                                   \
    case DTYPE_FP32:                                                                                                   \
    case DTYPE_TF32: return function<float>(__VA_ARGS__);                                                              \
    case DTYPE_FP16: return function<__half>(__VA_ARGS__);                                                             \
    case DTYPE_BF16: return function<__nv_bfloat16>(__VA_ARGS__);                                                      \
    case DTYPE_FP8: return function<__nv_fp8_e4m3>(__VA_ARGS__);                                                       \
    case DTYPE_COUNT: break;                                                                                           \
    }                                                                                                                  \
    return cudaErrorInvalidValue

cudaError_t gpu_stream(cudaStream_t stream, const struct gpu_stream_launch *launch)
{
    BY_DTYPE(launch->dtype, stream_of, stream, launch);
}

cudaError_t gpu_accumulate(cudaStream_t stream, enum dtype dtype, void *accumulator, const void *input,
                           uint64_t elements)
{
    BY_DTYPE(dtype, accumulate_of, stream, accumulator, input, elements);
}

cudaError_t gpu_empty(cudaStream_t stream)
{
    empty_kernel<<<1, 32, 0, stream>>>();
    return cudaGetLastError();
}

cudaError_t gpu_delay(cudaStream_t stream, uint64_t nanoseconds)
{
    delay_kernel<<<1, 1, 0, stream>>>(nanoseconds);
    return cudaGetLastError();
}

cudaError_t gpu_fill_random(cudaStream_t stream, void *memory, uint64_t bytes, uint32_t seed)
{
    random_kernel<<<blocks_for(bytes / 4), THREADS, 0, stream>>>(static_cast<uint32_t *>(memory), bytes / 4, seed);
    return cudaGetLastError();
}

cudaError_t gpu_fill_pattern(cudaStream_t stream, void *memory, uint64_t bytes, uint32_t seed)
{
    fill_pattern_kernel<<<blocks_for((bytes + 3) / 4), THREADS, 0, stream>>>(static_cast<uint8_t *>(memory), bytes,
                                                                             seed);
    return cudaGetLastError();
}

cudaError_t gpu_verify_pattern(cudaStream_t stream, const void *memory, uint64_t bytes, uint32_t seed,
                               uint32_t *mismatches)
{
    verify_pattern_kernel<<<blocks_for((bytes + 3) / 4), THREADS, 0, stream>>>(static_cast<const uint8_t *>(memory),
                                                                               bytes, seed, mismatches);
    return cudaGetLastError();
}

cudaError_t gpu_fill_numbers(cudaStream_t stream, void *memory, const struct gpu_numbers *numbers)
{
    BY_DTYPE(numbers->dtype, fill_numbers_of, stream, memory, numbers);
}

cudaError_t gpu_verify_numbers(cudaStream_t stream, const void *memory, const struct gpu_numbers *numbers,
                               uint32_t *mismatches)
{
    BY_DTYPE(numbers->dtype, verify_numbers_of, stream, memory, numbers, mismatches);
}
