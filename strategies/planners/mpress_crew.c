/* Idle threads as a count: who borrows some starts as many of its own. */
#include "strategies/planners/mpress_internal.h"

void mpress_crew_begin(struct mpress_crew *crew, uint32_t threads, uint32_t attempts)
{
    crew->threads = threads;
    atomic_init(&crew->stops, false);
    atomic_init(&crew->unfinished, attempts);
    atomic_init(&crew->idle, threads > attempts ? threads - attempts : 0);
}

void mpress_crew_attempt_ended(struct mpress_crew *crew)
{
    uint32_t left = atomic_fetch_sub(&crew->unfinished, 1) - 1;
    if (left < crew->threads) { /* the others have taken all of them */
        atomic_fetch_add(&crew->idle, 1);
    }
}

uint32_t mpress_crew_borrow(struct mpress_crew *crew, uint32_t most)
{
    uint32_t idle = atomic_load(&crew->idle), count;
    do {
        count = idle < most ? idle : most;
    } while (count > 0 && !atomic_compare_exchange_weak(&crew->idle, &idle, idle - count));
    return count;
}

void mpress_crew_return(struct mpress_crew *crew, uint32_t count)
{
    atomic_fetch_add(&crew->idle, count);
}
