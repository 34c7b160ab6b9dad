/* For tests of the dispatcher: the fake's functions as a driver, its life, and one run of it. */
#ifndef MEMWALL_TESTS_DISPATCH_RUN_H
#define MEMWALL_TESTS_DISPATCH_RUN_H

#include "tests/dispatch_fake.h"

static inline bool fake_driver_is_async(const void *context, uint32_t queue)
{
    return ((const struct fake *)context)->is_async[queue];
}

static inline enum status fake_enter(void *context, uint32_t queue, struct error *error)
{
    struct fake *f = context;
    if (queue == f->fail_enter_queue) {
        return error_set(error, STATUS_IO, "no way in");
    }
    (void)pthread_mutex_lock(&f->lock);
    f->entered++;
    if (queue == f->hang_enter_queue) {
        fake_hang(f);
    }
    (void)pthread_mutex_unlock(&f->lock);
    return STATUS_OK;
}

static inline void fake_leave(void *context, uint32_t queue)
{
    struct fake *f = context;
    (void)queue;
    (void)pthread_mutex_lock(&f->lock);
    f->left++;
    (void)pthread_mutex_unlock(&f->lock);
}

static inline enum status fake_begin_step(void *context, struct error *error)
{
    struct fake *f = context;
    if (f->fail_begin) {
        return error_set(error, STATUS_IO, "no beginning");
    }
    (void)pthread_mutex_lock(&f->lock);
    f->steps++;
    memset(f->submitted, 0, f->schedule->op_count);
    memset(f->ended, 0, f->schedule->op_count);
    memset(f->met, 0, f->schedule->match_count * sizeof *f->met);
    for (uint32_t q = 0; q < f->schedule->queue_count; q++) {
        if (f->streams[q].next != f->streams[q].count) {
            fake_complain(f, q, "a step begins before the end of stream", q);
        }
        f->streams[q].count = f->streams[q].next = 0;
    }
    for (uint32_t b = 0; b < f->schedule->buffer_count; b++) {
        bool lives = (f->schedule->buffers[b].flags & BUFFER_LIVE_AT_START) != 0;
        if (lives != wet_pools_is_live(f->pools, b)) {
            fake_complain(f, b, "is alive or dead at the start of the step, buffer", b);
        } else if (lives) {
            fake_fill(f, b);
        }
    }
    f->epoch_ps = dispatch_clock_ps();
    (void)pthread_mutex_unlock(&f->lock);
    return STATUS_OK;
}

/* Returns whether the op fails here. */
static inline bool fake_host_op(struct fake *f, uint32_t op)
{
    (void)pthread_mutex_lock(&f->lock);
    fake_arrives(f, op);
    uint64_t random = test_random(&f->random);
    if (fake_is_async(f, op)) {
        struct fake_stream *stream = &f->streams[f->schedule->ops[op].queue];
        stream->ops[stream->count++] = op;
        (void)pthread_cond_broadcast(&f->changed);
        (void)pthread_mutex_unlock(&f->lock);
        return op == f->fail_op && !f->fail_poll;
    }
    if (op == f->hang_op) {
        fake_hang(f);
    }
    f->start_ps[op] = fake_clock_ps(f);
    (void)pthread_mutex_unlock(&f->lock);
    fake_touch(f, op, false);
    fake_dawdle(f, random);
    fake_touch(f, op, true);
    (void)pthread_mutex_lock(&f->lock);
    f->ended[op] = 1;
    f->ops_done++;
    f->at_once--;
    (void)pthread_mutex_unlock(&f->lock);
    return op == f->fail_op;
}

static inline enum status fake_submit(void *context, const uint32_t *ops, uint32_t count, struct error *error)
{
    struct fake *f = context;
    bool fails = false;
    if (count > 1 && !f->driver.joins_matches) {
        (void)pthread_mutex_lock(&f->lock);
        fake_complain(f, ops[0], "comes with others:", count);
        (void)pthread_mutex_unlock(&f->lock);
    }
    for (uint32_t i = 0; i < count; i++) {
        fails = fake_host_op(f, ops[i]) || fails;
    }
    return fails ? error_set(error, STATUS_IO, "the fake fails here") : STATUS_OK;
}

static inline enum status fake_poll(void *context, uint32_t op, bool *ended, struct error *error)
{
    struct fake *f = context;
    (void)pthread_mutex_lock(&f->lock);
    *ended = f->ended[op] != 0;
    (void)pthread_mutex_unlock(&f->lock);
    return f->fail_poll && op == f->fail_op ? error_set(error, STATUS_IO, "the fake fails here") : STATUS_OK;
}

static inline enum status fake_end_step(void *context, struct op_times *ops, struct error *error)
{
    struct fake *f = context;
    if (f->fail_end) {
        return error_set(error, STATUS_IO, "no end");
    }
    (void)pthread_mutex_lock(&f->lock);
    for (uint32_t i = 0; i < f->schedule->op_count; i++) {
        if (fake_is_async(f, i) && f->submitted[i]) {
            ops[i].start_ps = f->start_ps[i];
            ops[i].end_ps = f->end_ps[i];
        }
    }
    (void)pthread_mutex_unlock(&f->lock);
    return STATUS_OK;
}

static inline void fake_cancel(void *context)
{
    struct fake *f = context;
    (void)pthread_mutex_lock(&f->lock);
    f->cancels++;
    f->is_cancelled = true;
    (void)pthread_cond_broadcast(&f->changed);
    (void)pthread_mutex_unlock(&f->lock);
}

/* -- life -- */

static inline void *fake_array(uint64_t count, size_t size)
{
    void *array = calloc(count + 1, size);
    if (array == NULL) {
        abort();
    }
    return array;
}

/* `asynchronous`: a mask of queue classes. */
static inline void fake_init(struct fake *f, const struct schedule *s, struct wet_pools *pools, uint32_t asynchronous)
{
    *f = (struct fake){ .schedule = s,
                        .pools = pools,
                        .fail_op = SCHED_NONE,
                        .hang_op = SCHED_NONE,
                        .fail_enter_queue = SCHED_NONE,
                        .hang_enter_queue = SCHED_NONE,
                        .random = test_seed };
    f->driver = (struct driver){ .context = f,
                                 .executor = "fake",
                                 .enter = fake_enter,
                                 .leave = fake_leave,
                                 .begin_step = fake_begin_step,
                                 .submit = fake_submit,
                                 .poll = fake_poll,
                                 .is_asynchronous = fake_driver_is_async,
                                 .end_step = fake_end_step,
                                 .cancel = fake_cancel };
    (void)pthread_mutex_init(&f->lock, NULL);
    (void)pthread_cond_init(&f->changed, NULL);
    f->marked = fake_array(s->buffer_count, sizeof *f->marked);
    f->submitted = fake_array(s->op_count, 1);
    f->ended = fake_array(s->op_count, 1);
    f->previous = fake_array(s->op_count, sizeof *f->previous);
    f->fence = fake_array(s->op_count, sizeof *f->fence);
    f->start_ps = fake_array(s->op_count, sizeof *f->start_ps);
    f->end_ps = fake_array(s->op_count, sizeof *f->end_ps);
    f->met = fake_array(s->match_count, sizeof *f->met);
    f->match_local = fake_array(s->match_count, sizeof *f->match_local);
    f->streams = fake_array(s->queue_count, sizeof *f->streams);
    f->is_async = fake_array(s->queue_count, sizeof *f->is_async);
    uint32_t *last = fake_array(s->queue_count, sizeof *last);
    for (uint32_t q = 0; q < s->queue_count; q++) {
        last[q] = SCHED_NONE;
        f->is_async[q] = (asynchronous >> s->queues[q].queue_class & 1) != 0;
    }
    for (uint32_t i = 0, fence = SCHED_NONE; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        fence = i > 0 && sched_op_rank(s, op) != sched_op_rank(s, op - 1) ? SCHED_NONE : fence;
        f->fence[i] = fence;
        fence = (op->flags & (OP_FLAG_HOST_WAITS | OP_FLAG_BUSY_HOST)) != 0 ? i : fence;
        for (uint32_t k = 0; op->opcode == OP_MARK && k < op->acquire_count; k++) {
            f->marked[sched_acquires(s, op)[k]] = true;
        }
        f->previous[i] = last[op->queue];
        last[op->queue] = i;
        if (op->match != SCHED_NONE) {
            f->match_local[op->match]++;
        }
    }
    free(last);
    for (uint32_t q = 0; q < s->queue_count; q++) {
        struct fake_stream *stream = &f->streams[q];
        stream->fake = f;
        stream->ops = fake_array(s->op_count, sizeof *stream->ops);
        if (f->is_async[q]) {
            stream->has_thread = true;
            if (pthread_create(&stream->thread, NULL, fake_stream_main, stream) != 0) {
                abort();
            }
        }
    }
}

/* Tells complaints, and frees. */
static inline void fake_free(struct fake *f)
{
    (void)pthread_mutex_lock(&f->lock);
    f->is_over = true;
    (void)pthread_cond_broadcast(&f->changed);
    (void)pthread_mutex_unlock(&f->lock);
    for (uint32_t q = 0; q < f->schedule->queue_count; q++) {
        if (f->streams[q].has_thread) {
            (void)pthread_join(f->streams[q].thread, NULL);
        }
        free(f->streams[q].ops);
    }
    EXPECT_INT(f->entered, f->left);
    if (f->complaints != 0) {
        TEST_FAIL_("%u complaints; the first: %s", f->complaints, f->complaint);
    }
    void *const arrays[] = { f->marked, f->submitted, f->ended,       f->previous, f->fence,   f->start_ps,
                             f->end_ps, f->met,       f->match_local, f->streams,  f->is_async };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        free(arrays[i]);
    }
    (void)pthread_cond_destroy(&f->changed);
    (void)pthread_mutex_destroy(&f->lock);
}

/* -- a whole run -- */

struct fake_run {
    struct schedule schedule;
    struct fake_memory memory;
    struct wet_pools *pools;
    struct fake fake;
    struct exec_options options;
    struct timeline timeline;
    struct error error;
};

/* From run->schedule; audited unless a test says otherwise. */
static inline void fake_run_init(struct fake_run *run, enum blockalloc_kind kind, uint32_t asynchronous)
{
    run->memory = (struct fake_memory){ 0 };
    run->timeline = (struct timeline){ 0 };
    run->error = (struct error){ 0 };
    run->options = (struct exec_options){ .audit = true, .patience_s = 30 };
    run->pools = fake_pools(&run->schedule, kind, &run->memory, &run->error);
    if (run->pools == NULL) {
        printf("%s\n", run->error.message);
        abort();
    }
    fake_init(&run->fake, &run->schedule, run->pools, asynchronous);
}

static inline enum status fake_run_go(struct fake_run *run)
{
    return dispatch_run(&run->schedule, &run->fake.driver, run->pools, &run->options, &run->timeline, &run->error);
}

/* For tests that look at the times: without them there is nothing to look at. */
static inline void fake_run_must(struct fake_run *run)
{
    if (fake_run_go(run) != STATUS_OK) {
        printf("FAIL: %s\n", run->error.message);
        exit(1);
    }
}

/* The schedule is the caller's to free. */
static inline void fake_run_free(struct fake_run *run)
{
    timeline_free(&run->timeline);
    fake_free(&run->fake);
    wet_pools_free(run->pools);
    EXPECT_INT(run->memory.bytes, 0);
    EXPECT_INT(run->memory.blocks, 0);
}

#endif
