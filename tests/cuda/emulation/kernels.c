/* The executor's own kernels (gpu_kernels.h), on the host: those of --check and the sums do their work, the others check their bounds and take their turn. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/cuda/emulation/emulation_internal.h"
#include "validate/exec_cuda/gpu_kernels.h"
#include "validate/exec_cuda/gpu_pattern.h"
#include "validate/exec_host/host_floats.h"

struct kernel_command {
    void *memory;
    const void *input;
    uint64_t amount; /* bytes, elements, nanoseconds */
    uint32_t seed;
    uint32_t *mismatches;
    struct gpu_numbers numbers;
    enum dtype dtype;
};

static cudaError_t launch(cudaStream_t stream, void (*run)(void *), const struct kernel_command *wanted)
{
    struct kernel_command *c = malloc(sizeof *c);
    if (c == NULL) {
        abort();
    }
    *c = *wanted;
    if (emulation_stream_device(stream) != emulation_current_device()) {
        free(c);
        return (cudaError_t)emulation_misuse(cudaErrorInvalidResourceHandle,
                                             "a kernel on a stream of device %d, while %d is current",
                                             emulation_stream_device(stream), emulation_current_device());
    }
    return emulation_enqueue(stream, run, c);
}

static void nothing(void *argument)
{
    (void)argument;
}

static bool owns(cudaStream_t stream, const void *memory, uint64_t bytes, const char *function)
{
    return emulation_owns(memory, bytes, emulation_stream_device(stream), function);
}

cudaError_t gpu_stream(cudaStream_t stream, const struct gpu_stream_launch *l)
{
    EMULATED(cudaError_t);
    uint64_t read = (l->read_bytes + 15) / 16 * 16, written = (l->write_bytes + 15) / 16 * 16;
    if (!owns(stream, l->input, read, "gpu_stream: input") || !owns(stream, l->output, written, "gpu_stream: output")) {
        return cudaErrorInvalidValue;
    }
    return launch(stream, nothing, &(struct kernel_command){ .amount = 0 });
}

static void accumulate(void *argument)
{
    const struct kernel_command *c = argument;
    if (emulation.options.moves_data) {
        const uint8_t *sources[2] = { c->memory, c->input };
        host_floats_sum(c->memory, sources, 2, c->dtype, c->amount);
        if (emulation_due(&emulation.corrupt_sum)) {
            ((uint8_t *)c->memory)[c->amount * dtype_bytes(c->dtype) / 2] ^= 0x40;
        }
    }
}

cudaError_t gpu_accumulate(cudaStream_t stream, enum dtype dtype, void *accumulator, const void *input,
                           uint64_t elements)
{
    EMULATED(cudaError_t);
    uint64_t bytes = elements * dtype_bytes(dtype);
    if (!owns(stream, accumulator, bytes, "gpu_accumulate") || !owns(stream, input, bytes, "gpu_accumulate")) {
        return cudaErrorInvalidValue;
    }
    return launch(
        stream, accumulate,
        &(struct kernel_command){ .memory = accumulator, .input = input, .amount = elements, .dtype = dtype });
}

cudaError_t gpu_empty(cudaStream_t stream)
{
    EMULATED(cudaError_t);
    return launch(stream, nothing, &(struct kernel_command){ .amount = 0 });
}

static void sleep_long(void *argument)
{
    const struct kernel_command *c = argument;
    const struct timespec time = { .tv_sec = (time_t)(c->amount / 1000000000),
                                   .tv_nsec = (long)(c->amount % 1000000000) };
    (void)nanosleep(&time, NULL);
}

cudaError_t gpu_delay(cudaStream_t stream, uint64_t nanoseconds)
{
    EMULATED(cudaError_t);
    return launch(stream, sleep_long, &(struct kernel_command){ .amount = nanoseconds });
}

/* Nobody looks at the values: touching a slab takes longer than the test. */
cudaError_t gpu_fill_random(cudaStream_t stream, void *memory, uint64_t bytes, uint32_t seed)
{
    EMULATED(cudaError_t);
    (void)seed;
    return owns(stream, memory, bytes, "gpu_fill_random")
               ? launch(stream, nothing, &(struct kernel_command){ .amount = 0 })
               : cudaErrorInvalidValue;
}

static void fill_pattern(void *argument)
{
    const struct kernel_command *c = argument;
    for (uint64_t i = 0; i < c->amount; i++) {
        ((uint8_t *)c->memory)[i] = gpu_pattern_byte(c->seed, i);
    }
}

static void verify_pattern(void *argument)
{
    const struct kernel_command *c = argument;
    for (uint64_t i = 0; i < c->amount; i++) {
        *c->mismatches += ((const uint8_t *)c->input)[i] != gpu_pattern_byte(c->seed, i);
    }
}

cudaError_t gpu_fill_pattern(cudaStream_t stream, void *memory, uint64_t bytes, uint32_t seed)
{
    EMULATED(cudaError_t);
    return owns(stream, memory, bytes, "gpu_fill_pattern")
               ? launch(stream, fill_pattern,
                        &(struct kernel_command){ .memory = memory, .amount = bytes, .seed = seed })
               : cudaErrorInvalidValue;
}

cudaError_t gpu_verify_pattern(cudaStream_t stream, const void *memory, uint64_t bytes, uint32_t seed,
                               uint32_t *mismatches)
{
    EMULATED(cudaError_t);
    return owns(stream, memory, bytes, "gpu_verify_pattern") && owns(stream, mismatches, 4, "mismatches")
               ? launch(stream, verify_pattern,
                        &(struct kernel_command){
                            .input = memory, .amount = bytes, .seed = seed, .mismatches = mismatches })
               : cudaErrorInvalidValue;
}

static float expected(const struct gpu_numbers *n, uint64_t i)
{
    return (float)gpu_pattern_sum(n->seed, n->first_member, n->member_count, n->first_element + i);
}

static void fill_numbers(void *argument)
{
    const struct kernel_command *c = argument;
    uint64_t size = dtype_bytes(c->numbers.dtype);
    for (uint64_t i = 0; i < c->numbers.elements; i++) {
        float value = expected(&c->numbers, i);
        host_floats_store((uint8_t *)c->memory + i * size, &value, c->numbers.dtype, 1);
    }
}

static void verify_numbers(void *argument)
{
    const struct kernel_command *c = argument;
    uint64_t size = dtype_bytes(c->numbers.dtype);
    for (uint64_t i = 0; i < c->numbers.elements; i++) {
        float value;
        host_floats_load(&value, (const uint8_t *)c->input + i * size, c->numbers.dtype, 1);
        *c->mismatches += value != expected(&c->numbers, i);
    }
}

cudaError_t gpu_fill_numbers(cudaStream_t stream, void *memory, const struct gpu_numbers *numbers)
{
    EMULATED(cudaError_t);
    return owns(stream, memory, numbers->elements * dtype_bytes(numbers->dtype), "gpu_fill_numbers")
               ? launch(stream, fill_numbers, &(struct kernel_command){ .memory = memory, .numbers = *numbers })
               : cudaErrorInvalidValue;
}

cudaError_t gpu_verify_numbers(cudaStream_t stream, const void *memory, const struct gpu_numbers *numbers,
                               uint32_t *mismatches)
{
    EMULATED(cudaError_t);
    return owns(stream, memory, numbers->elements * dtype_bytes(numbers->dtype), "gpu_verify_numbers") &&
                   owns(stream, mismatches, 4, "mismatches")
               ? launch(stream, verify_numbers,
                        &(struct kernel_command){ .input = memory, .numbers = *numbers, .mismatches = mismatches })
               : cudaErrorInvalidValue;
}
