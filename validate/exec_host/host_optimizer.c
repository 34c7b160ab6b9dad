#include "validate/exec_host/host_optimizer.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "sim/base/check.h"
#include "validate/exec_host/host_cores.h"
#include "validate/exec_host/host_floats.h"

enum {
    CANCEL_FLOATS = 1 << 18,   /* between two looks at the flag */
    ALONE_PARAMETERS = 1 << 16 /* at most: some 40 us of one core, less than to wake another (host_meeting.c) */
};

static const struct host_adam_factors FACTORS = { 1e-4f, 0.9f, 0.999f, 1e-8f };

void host_adam(const struct host_adam_factors *factors, float *restrict p, float *restrict m, float *restrict v,
               const float *restrict g, uint64_t count)
{
    float rate = factors->rate, beta1 = factors->beta1, beta2 = factors->beta2, epsilon = factors->epsilon;
    for (uint64_t i = 0; i < count; i++) {
        float momentum = beta1 * m[i] + (1 - beta1) * g[i], square = beta2 * v[i] + (1 - beta2) * (g[i] * g[i]);
        m[i] = momentum;
        v[i] = square;
        p[i] -= rate * momentum / (sqrtf(square) + epsilon);
    }
}

struct host_adam_pool {
    const struct host_cancel *cancel;
    const struct host_adam_state *state; /* of the present call */
    uint64_t parameters;
    uint32_t sharing; /* workers of the present call: all, or the caller alone */
    struct host_meeting start, end;
    struct host_cancel never; /* workers leave by `closing`, also after a cancelled run */
    bool closing;
    uint32_t threads, started; /* workers, caller included; threads made */
    struct worker {
        struct host_adam_pool *pool;
        pthread_t thread;
        uint32_t index;
    } * workers;
};

/* Where part `index` of `all` begins. */
static uint64_t part_start(const struct host_adam_pool *pool, uint64_t all, uint32_t index)
{
    uint64_t each = all / pool->sharing, more = all % pool->sharing;
    return each * index + (index < more ? index : more);
}

/* A worker's share of the parameters, in its own stretch of the memory, round and round when the memory is shorter. */
static void run_part(const struct host_adam_pool *pool, uint32_t index)
{
    const struct host_adam_state *s = pool->state;
    CHECK(s->block > 0);
    uint64_t held = s->block * s->blocks < pool->parameters ? s->block * s->blocks : pool->parameters;
    uint64_t start = part_start(pool, held, index), end = part_start(pool, held, index + 1), at = start;
    uint64_t left = part_start(pool, pool->parameters, index + 1) - part_start(pool, pool->parameters, index);
    while (left > 0 && start < end && !host_is_cancelled(pool->cancel)) {
        uint64_t offset = at % s->block, count = end - at < s->block - offset ? end - at : s->block - offset;
        count = count < left ? count : left;
        count = count < CANCEL_FLOATS ? count : CANCEL_FLOATS;
        float *p = s->data + at / s->block * 4 * s->block + offset;
        host_adam(&FACTORS, p, p + s->block, p + 2 * s->block, p + 3 * s->block, count);
        left -= count;
        at = at + count == end ? start : at + count;
    }
}

static void *work(void *context)
{
    const struct worker *worker = context;
    struct host_adam_pool *pool = worker->pool;
    host_floats_flush_denormals();
    while (host_meet(&pool->start, &pool->never) && !pool->closing) {
        run_part(pool, worker->index);
        (void)host_meet(&pool->end, &pool->never);
    }
    return NULL;
}

enum status host_adam_pool_new(struct host_adam_pool **made, uint32_t threads, const struct host_cancel *cancel,
                               struct error *error)
{
    CHECK(threads > 0);
    struct host_adam_pool *pool = calloc(1, sizeof *pool);
    *made = pool;
    if (pool == NULL || (pool->workers = calloc(threads, sizeof *pool->workers)) == NULL) {
        host_adam_pool_free(pool);
        *made = NULL;
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u optimizer threads", threads);
    }
    pool->cancel = cancel;
    pool->threads = threads;
    uint32_t cores = host_cores();
    host_meeting_init(&pool->start, threads, cores);
    host_meeting_init(&pool->end, threads, cores);
    for (uint32_t i = 1; i < threads; i++) {
        struct worker *worker = &pool->workers[i];
        *worker = (struct worker){ .pool = pool, .index = i };
        if (pthread_create(&worker->thread, NULL, work, worker) != 0) {
            /* Those made wait for a meeting that never is complete. */
            host_cancel_raise(&pool->never);
            host_meeting_wake(&pool->start);
            host_adam_pool_free(pool);
            *made = NULL;
            return error_set(error, STATUS_EXECUTION, "no thread for optimizer worker %u of %u", i + 1, threads);
        }
        pool->started++;
    }
    return STATUS_OK;
}

void host_adam_pool_free(struct host_adam_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    pool->closing = true;
    if (pool->started + 1 == pool->threads) {
        (void)host_meet(&pool->start, &pool->never);
    }
    for (uint32_t i = 1; i <= pool->started; i++) {
        (void)pthread_join(pool->workers[i].thread, NULL);
    }
    free(pool->workers);
    free(pool);
}

bool host_adam_run(struct host_adam_pool *pool, const struct host_adam_state *state, uint64_t parameters)
{
    CHECK(state->block > 0 && state->blocks > 0);
    pool->state = state;
    pool->parameters = parameters;
    pool->sharing = parameters <= ALONE_PARAMETERS ? 1 : pool->threads;
    if (pool->sharing > 1) {
        (void)host_meet(&pool->start, &pool->never);
    }
    run_part(pool, 0);
    if (pool->sharing > 1) {
        (void)host_meet(&pool->end, &pool->never);
    }
    return !host_is_cancelled(pool->cancel);
}
