/* A small emulation of what the CUDA executor calls of the runtime, cuBLAS and NCCL, and of its own kernels: for tests, on computers without a GPU.
 *
 * Streams are threads with a queue of commands, events are sequence numbers, device memory is the heap, collectives meet in memory. It is stricter than the real thing: every
 * pointer must lie in an allocation of the right device, streams and events must be used with their own device current, and what is left behind is counted. Tests
 * set it up, make chosen calls fail, and look at what is left. */
#ifndef MEMWALL_TESTS_CUDA_EMULATION_H
#define MEMWALL_TESTS_CUDA_EMULATION_H

#include <stdbool.h>
#include <stdint.h>

struct emulation_options {
    int device_count;
    uint64_t device_bytes; /* of each */
    int major;             /* compute capability; 0: 9 */
    int driver_version;    /* 0: as the runtime's; -1: no driver; less than the runtime's: too old */
    bool moves_data;       /* copies and sums are done; else they only take their turn */
    uint64_t delay_ns;     /* a command of a stream takes up to this long, by chance */
    uint64_t seed;
};

/* A fresh machine. Nothing may be in use. */
void emulation_reset(const struct emulation_options *options);

/* The `nth` call from now (1: the next) of this function returns `error` and does nothing. One at a time; NULL: none. */
void emulation_fail(const char *function, uint32_t nth, int error);
/* How often the function was called since the reset. */
uint32_t emulation_calls(const char *function);
uint32_t emulation_function_count(void); /* called at least once */
const char *emulation_function(uint32_t index);

/* The nth copy from now (1: the next) writes one wrong byte; the nth sum a wrong number; the nth collective hangs until its communicator is aborted. 0: none. */
void emulation_corrupt_copy(uint32_t nth);
void emulation_corrupt_sum(uint32_t nth);
void emulation_hang_collective(uint32_t nth);
/* The communicators report this error from now on (ncclResult_t; 0: none). */
void emulation_async_error(int result);

/* What exists now: all 0 when a run has cleaned up. */
struct emulation_left {
    uint64_t device_bytes, pinned_bytes;
    uint32_t allocations, streams, events, handles, communicators;
    uint32_t misuses; /* since the reset: wrong device, pointer outside of an allocation, double free */
};
struct emulation_left emulation_left(void);
const char *emulation_first_misuse(void);   /* "" */
uint64_t emulation_peak_device_bytes(void); /* most of any device since the reset */

/* The products called, in order, since the reset. */
struct emulation_product {
    int transpose_a, transpose_b, m, n, k, lda, ldb, ldc, batch;
    int input, output, compute; /* cudaDataType_t, cublasComputeType_t */
    float beta;
};
uint32_t emulation_product_count(void);
struct emulation_product emulation_product_at(uint32_t index);

#endif
