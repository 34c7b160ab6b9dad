#include "sim/sweep/sweep_pool.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/base/check.h"

struct sweep_slot *sweep_pool_find(struct sweep_pool *pool, enum slot_state state)
{
    struct sweep_slot *found = NULL;
    for (uint32_t i = 0; i < pool->slot_count; i++) {
        struct sweep_slot *slot = &pool->slots[i];
        if (slot->state == state && (found == NULL || slot->id < found->id)) {
            found = slot; /* the oldest */
        }
    }
    return found;
}

void sweep_slot_clear(struct sweep_slot *slot)
{
    free(slot->text);
    free(slot->axes);
    *slot = (struct sweep_slot){ .state = SLOT_FREE };
}

/* What is away and nobody here computes; the oldest. */
static struct sweep_slot *find_away(struct sweep_pool *pool)
{
    struct sweep_slot *found = NULL;
    for (uint32_t i = 0; i < pool->slot_count && pool->is_final; i++) {
        struct sweep_slot *slot = &pool->slots[i];
        if (slot->state == SLOT_AWAY && !slot->taken && (found == NULL || slot->id < found->id)) {
            found = slot;
        }
    }
    return found;
}

/* With the lock held; it is released while computing. */
static void compute(struct sweep_pool *pool, struct sweep_slot *slot)
{
    uint64_t id = slot->id;
    char *text = strdup(slot->text);
    struct sweep_row row = { .status = SWEEP_ERROR, .error = STATUS_NO_MEMORY, .reason = "out of memory" };
    if (slot->state == SLOT_AWAY) {
        slot->taken = true;
    } else {
        slot->state = SLOT_RUNNING;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    if (text != NULL) {
        sweep_row_compute(&row, text, pool->name);
    }
    free(text);
    (void)pthread_mutex_lock(&pool->lock);
    if (slot->id == id && (slot->state == SLOT_RUNNING || slot->state == SLOT_AWAY)) {
        slot->row = row;
        slot->state = SLOT_DONE;
        (void)pthread_cond_signal(&pool->done);
    }
}

static void *work(void *context)
{
    struct sweep_pool *pool = context;
    (void)pthread_mutex_lock(&pool->lock);
    while (!pool->stop) {
        struct sweep_slot *slot = sweep_pool_find(pool, SLOT_WAITING);
        slot = slot != NULL ? slot : find_away(pool);
        if (slot != NULL) {
            compute(pool, slot);
        } else {
            (void)pthread_cond_wait(&pool->work, &pool->lock);
        }
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return NULL;
}

enum status sweep_pool_open(struct sweep_pool *pool, uint32_t threads, uint32_t slots, const char *name,
                            struct error *error)
{
    *pool = (struct sweep_pool){ .slot_count = slots, .name = name };
    pool->slots = calloc(slots, sizeof *pool->slots);
    pool->threads = calloc(threads, sizeof *pool->threads);
    if (pool->slots == NULL || pool->threads == NULL) {
        free(pool->slots);
        free(pool->threads);
        return error_set(error, STATUS_NO_MEMORY, "out of memory starting a sweep");
    }
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->work, NULL);
    (void)pthread_cond_init(&pool->done, NULL);
    while (pool->thread_count < threads && pthread_create(&pool->threads[pool->thread_count], NULL, work, pool) == 0) {
        pool->thread_count++;
    }
    if (pool->thread_count == 0) {
        sweep_pool_close(pool);
        return error_set(error, STATUS_EXECUTION, "no thread can be started");
    }
    return STATUS_OK;
}

void sweep_pool_close(struct sweep_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    (void)pthread_cond_broadcast(&pool->work);
    (void)pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->thread_count; i++) {
        (void)pthread_join(pool->threads[i], NULL);
    }
    for (uint32_t i = 0; i < pool->slot_count; i++) {
        sweep_slot_clear(&pool->slots[i]);
    }
    (void)pthread_cond_destroy(&pool->done);
    (void)pthread_cond_destroy(&pool->work);
    (void)pthread_mutex_destroy(&pool->lock);
    free(pool->threads);
    free(pool->slots);
}

void sweep_pool_wait(struct sweep_pool *pool, uint32_t milliseconds)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)milliseconds * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_mutex_lock(&pool->lock);
    if (sweep_pool_find(pool, SLOT_DONE) == NULL) {
        (void)pthread_cond_timedwait(&pool->done, &pool->lock, &until);
    }
    (void)pthread_mutex_unlock(&pool->lock);
}
