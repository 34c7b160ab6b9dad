/* The CUDA runtime, as far as the executor calls it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/cuda/emulation/emulation_internal.h"

/* -- devices -- */

static _Thread_local int current_device;

int emulation_current_device(void)
{
    return current_device;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    EMULATED(cudaError_t);
    *count = 0;
    if (emulation.options.driver_version != 0 && emulation.options.driver_version < CUDART_VERSION) {
        return cudaErrorInsufficientDriver;
    }
    *count = emulation.options.device_count;
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    EMULATED(cudaError_t);
    *version = emulation.options.driver_version == 0    ? CUDART_VERSION
               : emulation.options.driver_version == -1 ? 0
                                                        : emulation.options.driver_version;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    EMULATED(cudaError_t);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    EMULATED(cudaError_t);
    memset(properties, 0, sizeof *properties);
    (void)snprintf(properties->name, sizeof properties->name, "emulated GPU %d", device);
    properties->major = emulation.options.major == 0 ? 9 : emulation.options.major;
    properties->totalGlobalMem = emulation.options.device_bytes;
    return device < emulation.options.device_count ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaSetDevice(int device)
{
    EMULATED(cudaError_t);
    if (device < 0 || device >= emulation.options.device_count) {
        return cudaErrorInvalidDevice;
    }
    current_device = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    EMULATED(cudaError_t);
    *device = current_device;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    EMULATED(cudaError_t);
    *can = device != peer;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    EMULATED(cudaError_t);
    return peer != current_device && flags == 0 ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t error)
{
    switch ((int)error) {
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorECCUncorrectable: return "cudaErrorECCUncorrectable";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    default: return "cudaError";
    }
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory" : "emulated error";
}

/* -- memory -- */

struct allocation {
    struct allocation *next;
    char *memory;
    uint64_t bytes;
    int device; /* -1: pinned */
};
static struct allocation *allocations;

/* Large blocks are mapped: sanitizers take seconds over what nobody touches. */
enum { MAP_BYTES = 1 << 20 };

static void *take(uint64_t bytes)
{
    void *memory = bytes < MAP_BYTES
                       ? calloc(1, bytes > 0 ? bytes : 1)
                       : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void drop(void *memory, uint64_t bytes)
{
    if (bytes < MAP_BYTES) {
        free(memory);
    } else {
        (void)munmap(memory, bytes);
    }
}

static cudaError_t allocate(void **memory, uint64_t bytes, int device)
{
    struct allocation *a = malloc(sizeof *a);
    *memory = NULL;
    if (a == NULL) {
        return cudaErrorMemoryAllocation;
    }
    emulation_lock();
    bool fits = device < 0 || bytes <= emulation.options.device_bytes - emulation.used[device];
    emulation_unlock();
    *a = (struct allocation){ .memory = fits ? take(bytes) : NULL, .bytes = bytes, .device = device };
    if (a->memory == NULL) {
        free(a);
        return cudaErrorMemoryAllocation;
    }
    emulation_lock();
    a->next = allocations;
    allocations = a;
    emulation.left.allocations++;
    if (device >= 0) {
        emulation.left.device_bytes += bytes;
        emulation.used[device] += bytes;
        emulation.peak = emulation.peak > emulation.used[device] ? emulation.peak : emulation.used[device];
    } else {
        emulation.left.pinned_bytes += bytes;
    }
    emulation_unlock();
    *memory = a->memory;
    return cudaSuccess;
}

static cudaError_t give_back(void *memory, bool pinned)
{
    if (memory == NULL) {
        return cudaSuccess;
    }
    emulation_lock();
    struct allocation **link = &allocations;
    while (*link != NULL && (*link)->memory != memory) {
        link = &(*link)->next;
    }
    struct allocation *a = *link;
    if (a == NULL || (a->device < 0) != pinned) {
        emulation_unlock();
        return (cudaError_t)emulation_misuse(cudaErrorInvalidValue, "free of what is no such allocation");
    }
    *link = a->next;
    emulation.left.allocations--;
    if (a->device >= 0) {
        emulation.left.device_bytes -= a->bytes;
        emulation.used[a->device] -= a->bytes;
    } else {
        emulation.left.pinned_bytes -= a->bytes;
    }
    emulation_unlock();
    drop(a->memory, a->bytes);
    free(a);
    return cudaSuccess;
}

bool emulation_owns(const void *memory, uint64_t bytes, int device, const char *function)
{
    const char *begin = memory;
    bool owns = false;
    emulation_lock();
    for (const struct allocation *a = allocations; a != NULL && !owns; a = a->next) {
        owns = begin >= a->memory && begin + bytes <= a->memory + a->bytes && (device < 0 || a->device == device);
    }
    emulation_unlock();
    if (!owns) {
        (void)emulation_misuse(0, "%s: %llu bytes at %p are not in an allocation of device %d", function,
                               (unsigned long long)bytes, memory, device);
    }
    return owns;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    EMULATED(cudaError_t);
    return allocate(memory, bytes, current_device);
}

cudaError_t cudaFree(void *memory)
{
    cudaError_t result = give_back(memory, false);
    EMULATED(cudaError_t);
    return result;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    EMULATED(cudaError_t);
    return allocate(memory, bytes, -1);
}

cudaError_t cudaFreeHost(void *memory)
{
    cudaError_t result = give_back(memory, true);
    EMULATED(cudaError_t);
    return result;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    EMULATED(cudaError_t);
    emulation_lock();
    *total = emulation.options.device_bytes;
    *free_bytes = *total - emulation.used[current_device];
    emulation_unlock();
    return cudaSuccess;
}

/* -- streams -- */

struct command {
    struct command *next;
    void (*run)(void *argument);
    void *argument;
};

struct CUstream_st {
    pthread_t thread;
    int device;
    struct command *first, **last;
    bool is_busy, is_closing;
    uint64_t random;
};

static void nap(struct CUstream_st *stream)
{
    uint64_t delay = emulation.options.delay_ns;
    if (delay > 0) {
        stream->random = stream->random * 6364136223846793005u + 1442695040888963407u;
        const struct timespec time = { .tv_nsec = (long)((stream->random >> 33) % delay) };
        (void)nanosleep(&time, NULL);
    }
}

static void *stream_main(void *argument)
{
    struct CUstream_st *stream = argument;
    emulation_lock();
    for (;;) {
        while (stream->first == NULL && !stream->is_closing) {
            (void)pthread_cond_wait(&emulation.changed, &emulation.lock);
        }
        struct command *command = stream->first;
        if (command == NULL) {
            break;
        }
        stream->first = command->next;
        stream->last = stream->first == NULL ? &stream->first : stream->last;
        stream->is_busy = true;
        emulation_unlock();
        nap(stream);
        command->run(command->argument);
        free(command->argument);
        free(command);
        emulation_lock();
        stream->is_busy = false;
        (void)pthread_cond_broadcast(&emulation.changed);
    }
    emulation_unlock();
    return NULL;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    EMULATED(cudaError_t);
    struct CUstream_st *made = calloc(1, sizeof *made);
    if (made == NULL || flags != cudaStreamNonBlocking) {
        free(made);
        return cudaErrorInvalidValue;
    }
    made->device = current_device;
    made->last = &made->first;
    emulation_lock();
    made->random = emulation.options.seed + emulation.left.streams;
    emulation.left.streams++;
    emulation_unlock();
    if (pthread_create(&made->thread, NULL, stream_main, made) != 0) {
        abort();
    }
    *stream = made;
    return cudaSuccess;
}

static void wait_until_idle(struct CUstream_st *stream)
{
    while (stream->first != NULL || stream->is_busy) {
        (void)pthread_cond_wait(&emulation.changed, &emulation.lock);
    }
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    emulation_lock();
    stream->is_closing = true;
    emulation.left.streams--;
    (void)pthread_cond_broadcast(&emulation.changed);
    emulation_unlock();
    (void)pthread_join(stream->thread, NULL);
    free(stream);
    EMULATED(cudaError_t);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    EMULATED(cudaError_t);
    emulation_lock();
    wait_until_idle(stream);
    emulation_unlock();
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    EMULATED(cudaError_t);
    emulation_lock();
    bool idle = stream->first == NULL && !stream->is_busy;
    emulation_unlock();
    return idle ? cudaSuccess : cudaErrorNotReady;
}

int emulation_stream_device(cudaStream_t stream)
{
    return stream->device;
}

cudaError_t emulation_enqueue(cudaStream_t stream, void (*run)(void *argument), void *argument)
{
    struct command *command = malloc(sizeof *command);
    if (command == NULL || argument == NULL) {
        abort();
    }
    *command = (struct command){ NULL, run, argument };
    emulation_lock();
    *stream->last = command;
    stream->last = &command->next;
    (void)pthread_cond_broadcast(&emulation.changed);
    emulation_unlock();
    return cudaSuccess;
}

/* -- events -- */

struct CUevent_st {
    int device;
    uint64_t recorded, done; /* numbers of records asked for, and passed */
    struct timespec time;    /* of the last one passed */
};

struct event_command {
    struct CUevent_st *event;
    uint64_t number;
};

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    EMULATED(cudaError_t);
    *event = calloc(1, sizeof **event);
    if (*event == NULL || flags != cudaEventDefault) {
        return cudaErrorInvalidValue;
    }
    (*event)->device = current_device;
    emulation_lock();
    emulation.left.events++;
    emulation_unlock();
    return cudaSuccess;
}

/* The executor destroys events before streams are idle, as CUDA allows: a zombie lives until its last record. Here streams are drained first. */
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    emulation_lock();
    while (event->done < event->recorded) {
        (void)pthread_cond_wait(&emulation.changed, &emulation.lock);
    }
    emulation.left.events--;
    emulation_unlock();
    free(event);
    EMULATED(cudaError_t);
    return cudaSuccess;
}

static void pass_record(void *argument)
{
    struct event_command *c = argument;
    emulation_lock();
    c->event->done = c->number;
    (void)clock_gettime(CLOCK_MONOTONIC, &c->event->time);
    (void)pthread_cond_broadcast(&emulation.changed);
    emulation_unlock();
}

static void pass_wait(void *argument)
{
    struct event_command *c = argument;
    emulation_lock();
    while (c->event->done < c->number) {
        (void)pthread_cond_wait(&emulation.changed, &emulation.lock);
    }
    emulation_unlock();
}

static cudaError_t enqueue_event(cudaStream_t stream, struct CUevent_st *event, void (*run)(void *), uint64_t number)
{
    struct event_command *c = malloc(sizeof *c);
    if (c == NULL) {
        abort();
    }
    *c = (struct event_command){ event, number };
    return emulation_enqueue(stream, run, c);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    EMULATED(cudaError_t);
    if (event->device != stream->device) {
        return (cudaError_t)emulation_misuse(cudaErrorInvalidResourceHandle,
                                             "cudaEventRecord: an event of device %d on a stream of device %d",
                                             event->device, stream->device);
    }
    emulation_lock();
    uint64_t number = ++event->recorded;
    emulation_unlock();
    return enqueue_event(stream, event, pass_record, number);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    EMULATED(cudaError_t);
    emulation_lock();
    uint64_t number = event->recorded;
    emulation_unlock();
    if (flags != 0 || number == 0) { /* CUDA allows it: it waits for nothing. Here it is a mistake */
        return (cudaError_t)emulation_misuse(cudaErrorInvalidValue,
                                             "cudaStreamWaitEvent: the event was never recorded");
    }
    return enqueue_event(stream, event, pass_wait, number);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    EMULATED(cudaError_t);
    emulation_lock();
    bool done = event->done >= event->recorded;
    emulation_unlock();
    return done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    EMULATED(cudaError_t);
    emulation_lock();
    while (event->done < event->recorded) {
        (void)pthread_cond_wait(&emulation.changed, &emulation.lock);
    }
    emulation_unlock();
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    EMULATED(cudaError_t);
    emulation_lock();
    bool done = start->done > 0 && end->done > 0 && end->done >= end->recorded;
    *ms = (float)((double)(end->time.tv_sec - start->time.tv_sec) * 1e3 +
                  (double)(end->time.tv_nsec - start->time.tv_nsec) * 1e-6);
    emulation_unlock();
    return !done ? cudaErrorNotReady
           : start->device != end->device
               ? (cudaError_t)emulation_misuse(cudaErrorInvalidResourceHandle, "cudaEventElapsedTime: two devices")
               : cudaSuccess;
}

/* -- copies -- */

struct copy_command {
    char *to;
    const char *from;
    uint64_t bytes;
    int value; /* of memset, with from NULL */
};

static void pass_copy(void *argument)
{
    const struct copy_command *c = argument;
    if (c->from == NULL) {
        memset(c->to, c->value, c->bytes);
    } else if (emulation.options.moves_data || c->bytes <= 4) {
        memcpy(c->to, c->from, c->bytes);
        if (c->bytes > 4 && emulation_due(&emulation.corrupt_copy)) {
            c->to[c->bytes / 2] = (char)(c->to[c->bytes / 2] ^ 1);
        }
    }
}

static cudaError_t enqueue_copy(void *to, const void *from, uint64_t bytes, int value, cudaStream_t stream)
{
    struct copy_command *c = malloc(sizeof *c);
    if (c == NULL) {
        abort();
    }
    *c = (struct copy_command){ to, from, bytes, value };
    return emulation_enqueue(stream, pass_copy, c);
}

static bool good_ends(const void *to, const void *from, uint64_t bytes, enum cudaMemcpyKind kind, int device,
                      const char *function)
{
    bool good = true;
    device =
        kind == cudaMemcpyDeviceToDevice ? -1 : device; /* unified addresses: any stream may copy between any two */
    if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) {
        good = good && emulation_owns(to, bytes, device, function);
    }
    if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice) {
        good = good && emulation_owns(from, bytes, device, function);
    }
    return good;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    EMULATED(cudaError_t);
    if (!good_ends(to, from, bytes, kind, stream->device, "cudaMemcpyAsync")) {
        return cudaErrorInvalidValue;
    }
    return enqueue_copy(to, from, bytes, 0, stream);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream)
{
    EMULATED(cudaError_t);
    if (!emulation_owns(to, bytes, to_device, "cudaMemcpyPeerAsync") ||
        !emulation_owns(from, bytes, from_device, "cudaMemcpyPeerAsync")) {
        return cudaErrorInvalidValue;
    }
    return enqueue_copy(to, from, bytes, 0, stream);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    EMULATED(cudaError_t);
    int device = -1;
    (void)kind;
    if (!emulation_owns(kind == cudaMemcpyHostToDevice ? to : from, bytes, device, "cudaMemcpy")) {
        return cudaErrorInvalidValue;
    }
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    EMULATED(cudaError_t);
    if (!emulation_owns(memory, bytes, stream->device, "cudaMemsetAsync")) {
        return cudaErrorInvalidValue;
    }
    return enqueue_copy(memory, NULL, bytes, value, stream);
}
