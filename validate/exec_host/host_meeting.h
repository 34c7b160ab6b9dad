/* Waiting that can be called off: meeting points of threads, and a clock to sleep by.
 *
 * A meeting is a barrier of `expected` threads that may be used again and again. Who waits sleeps (futex); nobody spins, because ranks are many and cores few.
 * When the run has failed, host_cancel_raise() ends every sleep: each call then returns false, and the data that the meeting was to guard may be unfinished. */
#ifndef MEMWALL_EXEC_HOST_MEETING_H
#define MEMWALL_EXEC_HOST_MEETING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct host_cancel {
    _Atomic uint32_t raised;
};

struct host_meeting {
    _Atomic uint32_t arrived, turn;
    uint32_t expected; /* set before first use */
    bool has_cores;    /* for all of them: who waits stays awake for a while */
};

void host_meeting_init(struct host_meeting *meeting, uint32_t expected, uint32_t cores);

static inline bool host_is_cancelled(const struct host_cancel *cancel)
{
    return atomic_load_explicit(&cancel->raised, memory_order_acquire) != 0;
}

/* Raises the flag and wakes sleepers in host_sleep_until; those in meetings need host_meeting_wake each. */
void host_cancel_raise(struct host_cancel *cancel);

/* False when cancelled. What each thread wrote before the meeting is seen by all after it. */
bool host_meet(struct host_meeting *meeting, const struct host_cancel *cancel);
void host_meeting_wake(struct host_meeting *meeting); /* after host_cancel_raise */

/* Until the clock of dispatch_clock_ps shows `deadline_ps`: sleeps, the last 60 us awake for a sharp end. False when cancelled. */
bool host_sleep_until(int64_t deadline_ps, const struct host_cancel *cancel);

#endif
