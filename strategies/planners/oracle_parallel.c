/* Threads that take indices in order until there are none. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "sim/base/check.h"
#include "strategies/planners/oracle.h"

enum { THREADS_MAX = 256 };
static const long LOOK_NS = 100000000;

struct pool {
    uint32_t count;
    void (*work)(void *context, uint32_t index);
    void *context;
    atomic_uint next, done;
    atomic_bool stop;
    pthread_mutex_t lock;
    pthread_cond_t ended; /* a worker found nothing more to do */
    uint32_t running;
};

static void take_all(struct pool *pool)
{
    while (!atomic_load(&pool->stop)) {
        uint32_t index = atomic_fetch_add(&pool->next, 1);
        if (index >= pool->count) {
            break;
        }
        pool->work(pool->context, index);
        atomic_fetch_add(&pool->done, 1);
    }
}

static void *worker(void *argument)
{
    struct pool *pool = argument;
    take_all(pool);
    pthread_mutex_lock(&pool->lock);
    pool->running--;
    pthread_cond_signal(&pool->ended);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Until all workers have ended; looks up about ten times a second. */
static void wait_and_look(struct pool *pool, bool (*idle)(void *context, uint32_t done, uint32_t total),
                          void *idle_context)
{
    pthread_mutex_lock(&pool->lock);
    while (pool->running > 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        int outcome = pthread_cond_timedwait(&pool->ended, &pool->lock, &until);
        if (outcome == ETIMEDOUT && idle != NULL) {
            pthread_mutex_unlock(&pool->lock);
            if (!idle(idle_context, atomic_load(&pool->done), pool->count)) {
                atomic_store(&pool->stop, true);
            }
            pthread_mutex_lock(&pool->lock);
        }
    }
    pthread_mutex_unlock(&pool->lock);
}

uint32_t oracle_parallel(uint32_t threads, uint32_t count, void (*work)(void *context, uint32_t index), void *context,
                         bool (*idle)(void *context, uint32_t done, uint32_t total), void *idle_context)
{
    struct pool pool = { .count = count, .work = work, .context = context };
    pthread_t ids[THREADS_MAX];
    uint32_t started = 0;
    atomic_init(&pool.next, 0);
    atomic_init(&pool.done, 0);
    atomic_init(&pool.stop, false);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.ended, NULL);
    threads = threads > THREADS_MAX ? THREADS_MAX : threads;
    threads = threads > count ? count : threads;
    pool.running = threads;
    while (started < threads && pthread_create(&ids[started], NULL, worker, &pool) == 0) {
        started++;
    }
    if (started < threads) {
        pthread_mutex_lock(&pool.lock);
        pool.running -= threads - started;
        pthread_mutex_unlock(&pool.lock);
    }
    if (started == 0) {
        take_all(&pool); /* no threads to be had: here, without looking up */
    }
    wait_and_look(&pool, idle, idle_context);
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(ids[i], NULL);
    }
    pthread_cond_destroy(&pool.ended);
    pthread_mutex_destroy(&pool.lock);
    uint32_t begun = atomic_load(&pool.next);
    return begun < count ? begun : count;
}
