/* The threads of a run: one a queue, and the reaper of asynchronous ops. They call the driver; the rules say what. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "sim/base/check.h"
#include "validate/dispatch/dispatch_internal.h"

enum { STACK_BYTES = 2 << 20 /* BLAS libraries keep panels there */, REAPER_SPINS = 64, REAPER_NAP_NS = 20000 };

static int64_t clock_of(const struct dispatch *d)
{
    return dispatch_clock_ps() - d->epoch_ps;
}

static void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0) {
        CHECK(errno == EINTR);
    }
}

/* Locked, before and after; not while the driver works. */
static void run_granted(struct dispatch *d, struct queue_state *q)
{
    uint32_t op = q->granted, count = 1;
    const uint32_t *ops = d->driver->joins_matches ? dispatch_members(d, &op, &count) : &op;
    struct error error = { 0 };
    q->granted = SCHED_NONE;
    q->running = op;
    q->since_ps = d->now_ps;
    dispatch_unlock_of(d, q->rank);
    int64_t begin_ps = clock_of(d);
    enum status status = d->driver->submit(d->driver->context, ops, count, &error);
    int64_t end_ps = clock_of(d);
    (void)pthread_mutex_lock(&d->lock);
    q->running = SCHED_NONE;
    if (status != STATUS_OK) {
        dispatch_fail(d, &error, op, q->index);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (d->nodes[op].is_async) {
            dispatch_submitted(d, ops[i], begin_ps, end_ps);
        } else {
            dispatch_did(d, ops[i], begin_ps, end_ps);
        }
    }
    if (!d->stop) {
        dispatch_settle(d);
    }
}

static void *queue_main(void *argument)
{
    struct queue_state *q = argument;
    struct dispatch *d = q->dispatch;
    const struct driver *driver = d->driver;
    struct error error = { 0 };
    enum status status = driver->enter == NULL ? STATUS_OK : driver->enter(driver->context, q->index, &error);
    (void)pthread_mutex_lock(&d->lock);
    if (status != STATUS_OK) {
        dispatch_fail(d, &error, SCHED_NONE, q->index);
    }
    q->has_entered = true;
    if (--d->entering == 0) {
        (void)pthread_cond_broadcast(&d->changed);
    }
    while (!d->stop) {
        if (q->granted != SCHED_NONE) {
            run_granted(d, q);
            continue;
        }
        q->is_asleep = true;
        dispatch_unlock_of(d, q->rank);
        wait_for(&q->wake);
        (void)pthread_mutex_lock(&d->lock);
    }
    dispatch_unlock(d);
    if (status == STATUS_OK && driver->leave != NULL) {
        driver->leave(driver->context, q->index);
    }
    return NULL;
}

/* -- the reaper -- */

/* Asks after the oldest op of each queue, as long as that has ended. Locked, but for the question itself. False: nothing has ended. */
static bool reap(struct dispatch *d)
{
    bool any = false;
    for (uint32_t i = 0; i < d->schedule->queue_count && d->outstanding != 0; i++) {
        struct queue_state *q = &d->queues[i];
        while (q->ring_count != 0 && !d->stop) {
            uint32_t op = q->ring[q->ring_first];
            struct error error = { 0 };
            bool ended = false;
            dispatch_unlock(d);
            enum status status = d->driver->poll(d->driver->context, op, &ended, &error);
            int64_t now_ps = clock_of(d);
            (void)pthread_mutex_lock(&d->lock);
            if (status != STATUS_OK) {
                dispatch_fail(d, &error, op, i);
                return true;
            }
            if (!ended) {
                break;
            }
            any = true;
            dispatch_saw_end(d, op, now_ps);
            if (!d->stop) {
                dispatch_settle(d);
            }
        }
    }
    return any;
}

static void *reaper_main(void *argument)
{
    struct dispatch *d = argument;
    uint32_t idle = 0;
    (void)prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul); /* ns: naps as short as they are meant */
    (void)pthread_mutex_lock(&d->lock);
    while (!d->stop) {
        if (d->outstanding == 0) {
            d->reaper_asleep = true;
            dispatch_unlock(d);
            wait_for(&d->reaper_wake);
            (void)pthread_mutex_lock(&d->lock);
            idle = 0;
            continue;
        }
        idle = reap(d) ? 0 : idle + 1;
        if (idle == 0) {
            continue;
        }
        dispatch_unlock(d);
        if (idle < REAPER_SPINS) {
            (void)sched_yield();
        } else {
            const struct timespec nap = { .tv_nsec = REAPER_NAP_NS };
            (void)nanosleep(&nap, NULL);
        }
        (void)pthread_mutex_lock(&d->lock);
    }
    dispatch_unlock(d);
    return NULL;
}

/* -- life -- */

static enum status start_thread(pthread_t *thread, void *(*run)(void *), void *argument, struct error *error)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for a thread");
    }
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    /* Signals are for the caller's thread, which hears of them between two looks at the run. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, &attributes, run, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return failed == 0
               ? STATUS_OK
               : error_set(error, STATUS_EXECUTION, "the system starts no further thread: %s", strerror(failed));
}

static enum status start_all(struct dispatch *d, struct error *error)
{
    if (d->any_async) {
        CHECK(d->driver->poll != NULL);
        TRY(start_thread(&d->reaper, reaper_main, d, error));
        d->has_reaper = true;
    }
    d->entering = d->thread_count;
    for (uint32_t i = 0; i < d->schedule->queue_count; i++) {
        struct queue_state *q = &d->queues[i];
        if (q->has_thread) {
            TRY(start_thread(&q->thread, queue_main, q, error));
            q->is_started = true;
        }
    }
    return STATUS_OK;
}

/* Locked. */
static void fail_entering(struct dispatch *d)
{
    struct error error;
    uint32_t queue = 0;
    while (!d->queues[queue].has_thread || d->queues[queue].has_entered) {
        queue++;
    }
    (void)error_set(&error, STATUS_EXECUTION, "has not begun after %.3g s, the patience", s_from_ps(d->patience_ps));
    dispatch_fail(d, &error, SCHED_NONE, queue);
}

enum status dispatch_start_threads(struct dispatch *d, struct error *error)
{
    (void)pthread_mutex_lock(&d->lock);
    enum status status = start_all(d, error); /* those that run already wait for the lock */
    const struct timespec until = dispatch_deadline(d->patience_ps);
    while (status == STATUS_OK && d->entering != 0 && !d->failed) {
        if (pthread_cond_timedwait(&d->changed, &d->lock, &until) == ETIMEDOUT && d->entering != 0) {
            fail_entering(d);
        }
    }
    if (d->failed) {
        status = d->status;
        if (error != NULL) {
            *error = d->error;
        }
    }
    dispatch_unlock(d);
    return status;
}

void dispatch_join_threads(struct dispatch *d)
{
    (void)pthread_mutex_lock(&d->lock);
    d->stop = true;
    for (uint32_t q = 0; q < d->schedule->queue_count; q++) {
        dispatch_wake(d, q);
    }
    dispatch_unlock(d);
    for (uint32_t q = 0; q < d->schedule->queue_count; q++) {
        if (d->queues[q].is_started) {
            (void)pthread_join(d->queues[q].thread, NULL);
        }
    }
    if (d->has_reaper) {
        (void)pthread_join(d->reaper, NULL);
    }
}

/* -- the watchdog -- */

static bool has_causes(const struct dispatch *d, uint32_t op)
{
    const struct sched_op *at = &d->schedule->ops[op];
    for (uint32_t i = 0; i < at->dependency_count; i++) {
        if (d->nodes[d->schedule->dependencies[at->first_dependency + i]].state != OP_ENDED) {
            return false;
        }
    }
    return true;
}

uint32_t dispatch_hung(const struct dispatch *d, int64_t now_ps, int64_t *ran_ps)
{
    uint32_t oldest = SCHED_NONE;
    for (uint32_t i = 0; i < d->schedule->queue_count; i++) {
        const struct queue_state *q = &d->queues[i];
        if (q->running != SCHED_NONE && now_ps - q->since_ps > d->patience_ps) {
            *ran_ps = now_ps - q->since_ps;
            return q->running;
        }
        /* On a stream an op may wait for others: only when none ends, one hangs, and it is one whose causes have ended. */
        if (q->ring_count != 0 && now_ps - d->progress_ps > d->patience_ps &&
            (oldest == SCHED_NONE || !has_causes(d, oldest))) {
            oldest = q->ring[q->ring_first];
        }
    }
    *ran_ps = now_ps - d->progress_ps;
    return oldest;
}
