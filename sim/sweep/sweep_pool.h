/* Threads that compute rows, and the slots through which scenarios come to them: for sim/sweep/sweep_run.c and sweep_serve.c alone. */
#ifndef MEMWALL_SWEEP_SWEEP_POOL_H
#define MEMWALL_SWEEP_SWEEP_POOL_H

#include <pthread.h>

#include "sim/base/hash.h"
#include "sim/sweep/sweep_row.h"

enum slot_state { SLOT_FREE, SLOT_WAITING, SLOT_RUNNING, SLOT_AWAY /* with another rank */, SLOT_DONE };

struct sweep_slot {
    enum slot_state state;
    uint64_t id;    /* of what is in it: never used twice */
    uint32_t rank;  /* AWAY: where */
    bool taken;     /* AWAY: a thread of ours computes it too */
    uint64_t point; /* of the sweep */
    char *text;     /* of the scenario; owned, as axes */
    char *axes;
    char hash[HASH_TEXT_BYTES];
    struct sweep_row row; /* DONE */
};

struct sweep_pool {
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t work, done;
    struct sweep_slot *slots;
    uint32_t slot_count, thread_count;
    bool stop;     /* no more work is begun */
    bool is_final; /* nothing new will come: what is away may be computed here too */
    const char *name;
    pthread_t *threads;
};

/* `name` names the scenarios in reasons; borrowed. */
enum status sweep_pool_open(struct sweep_pool *pool, uint32_t threads, uint32_t slots, const char *name,
                            struct error *error);
/* Waits for rows that are being computed. */
void sweep_pool_close(struct sweep_pool *pool);
/* Sleeps until a row is done, or `milliseconds` have passed. */
void sweep_pool_wait(struct sweep_pool *pool, uint32_t milliseconds);
/* A slot of this state, or NULL. With the lock held. */
struct sweep_slot *sweep_pool_find(struct sweep_pool *pool, enum slot_state state);
void sweep_slot_clear(struct sweep_slot *slot);

#endif
