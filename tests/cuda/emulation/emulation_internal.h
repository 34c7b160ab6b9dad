/* Shared by the parts of the emulation. One mutex guards all of it but the data itself, whose order the streams keep. */
#ifndef MEMWALL_TESTS_CUDA_EMULATION_INTERNAL_H
#define MEMWALL_TESTS_CUDA_EMULATION_INTERNAL_H

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "tests/cuda/emulation/emulation.h"

enum { EMULATION_DEVICES_MAX = 16 };

struct emulation {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an event, a stream, a meeting */
    struct emulation_options options;
    struct emulation_left left;
    uint64_t used[EMULATION_DEVICES_MAX], peak;
    uint32_t corrupt_copy, corrupt_sum, hang_collective;
    int async_error;
    char misuse[256];
};
extern struct emulation emulation;

void emulation_lock(void);
void emulation_unlock(void);

/* At the head of every emulated function: 0, or the error that a test asked for. */
int emulation_enter(const char *function);
#define EMULATED(type)                                                                                                 \
    do {                                                                                                               \
        int emulated_error_ = emulation_enter(__func__);                                                               \
        if (emulated_error_ != 0) {                                                                                    \
            return (type)emulated_error_;                                                                              \
        }                                                                                                              \
    } while (0)

/* Counts a misuse and returns `error`. Not locked. */
int emulation_misuse(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A command runs on the stream's thread; `argument` is malloc'ed and freed after it. The stream must belong to the current device. */
cudaError_t emulation_enqueue(cudaStream_t stream, void (*run)(void *argument), void *argument);

/* Whether [memory, memory + bytes) lies in device memory of `device`; -1: any device, or pinned memory too. Counts a misuse if not. */
bool emulation_owns(const void *memory, uint64_t bytes, int device, const char *function);
int emulation_stream_device(cudaStream_t stream);
int emulation_current_device(void);
/* True for the call that a counter was set for; counts down. Locked by itself. */
bool emulation_due(uint32_t *counter);

#endif
