/* A driver that does no work but watches: every op must find its causes ended (on asynchronous queues: submitted) and its buffers alive with the bytes that were put into
 * them. It can fail, hang and dawdle where told. Complaints are counted under a lock of its own; the test asks for them afterwards.
 *
 * Asynchronous queues are streams of a fake device: a thread each, which keeps only the order of its stream, waits for events (the asynchronous dependencies) and meets the
 * partners of matches, as CUDA and NCCL would. Its clock has a grain. */
#ifndef MEMWALL_TESTS_DISPATCH_FAKE_H
#define MEMWALL_TESTS_DISPATCH_FAKE_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "sim/base/units.h"
#include "tests/test.h"
#include "validate/dispatch/dispatch.h"

struct fake_stream {
    struct fake *fake;
    uint32_t *ops; /* those submitted, in order */
    uint32_t count, next;
    bool has_thread;
    pthread_t thread;
};

struct fake {
    struct driver driver;
    const struct schedule *schedule;
    struct wet_pools *pools;
    /* What to do. */
    uint32_t fail_op, hang_op; /* SCHED_NONE: none */
    uint32_t fail_enter_queue, hang_enter_queue;
    bool fail_begin, fail_end, fail_poll;
    int64_t grain_ps, skew_ps; /* of the device's clock */
    uint32_t dawdle_ns;        /* each op takes up to so long */
    const int64_t *step_ns;    /* [steps]: each op takes this long in that step; NULL: dawdle */
    /* What was seen. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool *marked;                /* [buffer_count] acquired by a mark, so that no op of ours fills it */
    uint8_t *submitted, *ended;  /* [op_count] */
    uint32_t *previous;          /* [op_count] in its queue, or SCHED_NONE */
    uint32_t *fence;             /* [op_count] the last the host waits for before it */
    int64_t *start_ps, *end_ps;  /* [op_count] by the device's clock */
    uint32_t *met;               /* [match_count]: partners on the device */
    uint32_t *match_local;       /* [match_count] */
    struct fake_stream *streams; /* [queue_count] */
    bool *is_async;              /* [queue_count] */
    int64_t epoch_ps;
    uint64_t random;
    uint32_t entered, left, steps, submits, at_once, most_at_once, complaints, cancels, ops_done;
    bool is_cancelled, is_over;
    char complaint[512];
};

static inline void fake_complain(struct fake *f, uint32_t op, const char *what, uint32_t other)
{
    if (f->complaints++ == 0) {
        (void)snprintf(f->complaint, sizeof f->complaint, "op %u: %s %u", op, what, other);
    }
}

/* -- memory -- */

struct fake_memory {
    uint64_t bytes, blocks, refuse_after; /* mapped now; 0: never refuse */
};

static inline uint64_t fake_map(void *context, uint64_t bytes)
{
    struct fake_memory *m = context;
    if (m->refuse_after != 0 && m->bytes + bytes > m->refuse_after) {
        return 0;
    }
    void *memory = malloc(bytes);
    m->bytes += memory == NULL ? 0 : bytes;
    m->blocks += memory != NULL;
    return (uint64_t)(uintptr_t)memory;
}

static inline void fake_unmap(void *context, uint64_t address, uint64_t bytes)
{
    struct fake_memory *m = context;
    m->bytes -= bytes;
    m->blocks--;
    free((void *)(uintptr_t)address);
}

static inline struct wet_pools *fake_pools(const struct schedule *s, enum blockalloc_kind kind,
                                           struct fake_memory *memory, struct error *error)
{
    struct wet_space *spaces = calloc((size_t)s->space_count + 1, sizeof *spaces);
    struct wet_pools *pools = NULL;
    for (uint32_t i = 0; spaces != NULL && i < s->space_count; i++) {
        spaces[i] = (struct wet_space){ kind, { memory, fake_map, fake_unmap } };
    }
    if (spaces != NULL) {
        (void)wet_pools_new(&pools, s, spaces, error);
    }
    free(spaces);
    return pools;
}

static inline unsigned char fake_pattern(uint32_t buffer)
{
    return (unsigned char)(buffer * 37 + 11);
}

static inline void fake_fill(struct fake *f, uint32_t buffer)
{
    void *memory = wet_pools_address(f->pools, buffer);
    if (memory != NULL) {
        memset(memory, fake_pattern(buffer), (size_t)f->schedule->buffers[buffer].bytes);
    }
}

/* Its first and last byte, read without the lock: only this op and its likes may use the buffer now. */
static inline bool fake_is_intact(const struct fake *f, uint32_t buffer)
{
    const unsigned char *memory = wet_pools_address(f->pools, buffer);
    uint64_t bytes = f->schedule->buffers[buffer].bytes;
    return memory == NULL || f->marked[buffer] ||
           (memory[0] == fake_pattern(buffer) && memory[bytes - 1] == fake_pattern(buffer));
}

/* What the op may touch, when it begins (its acquisitions are fresh) or ends. */
static inline void fake_touch(struct fake *f, uint32_t op, bool at_end)
{
    const struct sched_op *at = &f->schedule->ops[op];
    const uint32_t *operands = sched_acquires(f->schedule, at);
    uint32_t count = (uint32_t)at->acquire_count + at->release_count + at->read_count + at->write_count;
    for (uint32_t i = 0; i < at->acquire_count && !at_end; i++) {
        fake_fill(f, operands[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        bool is_live = wet_pools_is_live(f->pools, operands[i]), is_intact = is_live && fake_is_intact(f, operands[i]);
        if (!is_intact) {
            (void)pthread_mutex_lock(&f->lock);
            fake_complain(f, op, is_live ? "somebody else wrote into buffer" : "uses a dead buffer", operands[i]);
            (void)pthread_mutex_unlock(&f->lock);
        }
    }
}

/* -- ops -- */

static inline bool fake_is_async(const struct fake *f, uint32_t op)
{
    return f->is_async[f->schedule->ops[op].queue];
}

/* Locked. Marks are the dispatcher's own: the audit sees to them. */
static inline void fake_check_cause(struct fake *f, uint32_t op, uint32_t cause, bool must_end)
{
    if (cause == SCHED_NONE || f->schedule->ops[cause].opcode == OP_MARK) {
        return;
    }
    bool submission_does = fake_is_async(f, op) && fake_is_async(f, cause) && !must_end;
    if (submission_does ? !f->submitted[cause] : !f->ended[cause]) {
        fake_complain(f, op, submission_does ? "is submitted before op" : "begins before the end of op", cause);
    }
}

/* Locked: an op comes to the driver. */
static inline void fake_arrives(struct fake *f, uint32_t op)
{
    const struct sched_op *at = &f->schedule->ops[op];
    if (at->opcode == OP_MARK) {
        fake_complain(f, op, "is a mark", op);
    }
    if (f->submitted[op]) {
        fake_complain(f, op, "comes twice", op);
    }
    fake_check_cause(f, op, f->previous[op], false);
    fake_check_cause(f, op, f->fence[op], true);
    for (uint32_t i = 0; i < at->dependency_count; i++) {
        fake_check_cause(f, op, f->schedule->dependencies[at->first_dependency + i], false);
    }
    f->submitted[op] = 1;
    f->submits++;
    f->most_at_once = ++f->at_once > f->most_at_once ? f->at_once : f->most_at_once;
}

static inline void fake_sleep(int64_t ns)
{
    const struct timespec nap = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
    (void)nanosleep(&nap, NULL);
}

static inline void fake_dawdle(struct fake *f, uint64_t random)
{
    if (f->step_ns != NULL) {
        fake_sleep(f->step_ns[f->steps - 1]);
    } else if (f->dawdle_ns != 0 && random % 4 != 0) {
        fake_sleep((int64_t)(random / 4 % f->dawdle_ns));
    }
}

static inline int64_t fake_clock_ps(const struct fake *f)
{
    int64_t now = dispatch_clock_ps() - f->epoch_ps + f->skew_ps;
    return f->grain_ps == 0 ? now : now / f->grain_ps * f->grain_ps;
}

/* Locked. */
static inline void fake_hang(struct fake *f)
{
    while (!f->is_cancelled) {
        (void)pthread_cond_wait(&f->changed, &f->lock);
    }
}

/* -- the device -- */

static inline bool fake_must_wait(const struct fake *f, uint32_t op)
{
    const struct sched_op *at = &f->schedule->ops[op];
    for (uint32_t i = 0; i < at->dependency_count; i++) {
        uint32_t cause = f->schedule->dependencies[at->first_dependency + i];
        if (fake_is_async(f, cause) && f->schedule->ops[cause].opcode != OP_MARK && !f->ended[cause]) {
            return true;
        }
    }
    return false;
}

/* Locked. One op of a stream, but for what is failing. */
static inline void fake_device_op(struct fake *f, uint32_t op)
{
    uint32_t match = f->schedule->ops[op].match;
    while (fake_must_wait(f, op) && !f->is_cancelled) {
        (void)pthread_cond_wait(&f->changed, &f->lock);
    }
    if (match != SCHED_NONE) {
        f->met[match]++;
        (void)pthread_cond_broadcast(&f->changed);
        while (f->met[match] < f->match_local[match] && !f->is_cancelled) {
            (void)pthread_cond_wait(&f->changed, &f->lock);
        }
    }
    if (op == f->hang_op) {
        fake_hang(f);
    }
    if (f->is_cancelled) {
        return;
    }
    uint64_t random = test_random(&f->random);
    (void)pthread_mutex_unlock(&f->lock);
    int64_t start_ps = fake_clock_ps(f);
    fake_touch(f, op, false);
    fake_dawdle(f, random);
    fake_touch(f, op, true);
    int64_t end_ps = fake_clock_ps(f);
    (void)pthread_mutex_lock(&f->lock);
    f->start_ps[op] = start_ps;
    f->end_ps[op] = end_ps;
    f->ended[op] = 1;
    f->ops_done++;
    f->at_once--;
    (void)pthread_cond_broadcast(&f->changed);
}

static inline void *fake_stream_main(void *argument)
{
    struct fake_stream *stream = argument;
    struct fake *f = stream->fake;
    (void)pthread_mutex_lock(&f->lock);
    while (!f->is_over) {
        if (stream->next == stream->count || f->is_cancelled) {
            (void)pthread_cond_wait(&f->changed, &f->lock);
            continue;
        }
        fake_device_op(f, stream->ops[stream->next]);
        stream->next += !f->is_cancelled;
    }
    (void)pthread_mutex_unlock(&f->lock);
    return NULL;
}

#endif
