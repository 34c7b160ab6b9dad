#include "validate/exec_host/host_meeting.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "validate/dispatch/dispatch.h"

static const int64_t AWAKE_PS = 60000000, PS_PER_S = 1000000000000, PS_PER_NS = 1000;
/* To be woken on a core that sleeps takes 50 to 75 us on a virtual machine: to sleep for less gains nothing, and who stays awake for about so long never waits much more than twice what was needed. */
static const int64_t MEETING_AWAKE_PS = 100000000;

static void futex(const _Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
    (void)syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0);
}

static void wake_all(const _Atomic uint32_t *word)
{
    futex(word, FUTEX_WAKE, INT_MAX, NULL);
}

void host_cancel_raise(struct host_cancel *cancel)
{
    atomic_store_explicit(&cancel->raised, 1, memory_order_release);
    wake_all(&cancel->raised);
}

void host_meeting_init(struct host_meeting *meeting, uint32_t expected, uint32_t cores)
{
    *meeting = (struct host_meeting){ .expected = expected, .has_cores = expected <= cores };
}

bool host_meet(struct host_meeting *meeting, const struct host_cancel *cancel)
{
    uint32_t turn = atomic_load_explicit(&meeting->turn, memory_order_acquire);
    if (atomic_fetch_add_explicit(&meeting->arrived, 1, memory_order_acq_rel) + 1 == meeting->expected) {
        atomic_store_explicit(&meeting->arrived, 0, memory_order_relaxed);
        atomic_fetch_add_explicit(&meeting->turn, 1, memory_order_acq_rel);
        wake_all(&meeting->turn);
        return !host_is_cancelled(cancel);
    }
    int64_t sleep_ps = meeting->has_cores ? dispatch_clock_ps() + MEETING_AWAKE_PS : 0;
    while (atomic_load_explicit(&meeting->turn, memory_order_acquire) == turn) {
        if (host_is_cancelled(cancel)) {
            return false;
        }
        if (dispatch_clock_ps() >= sleep_ps) {
            futex(&meeting->turn, FUTEX_WAIT, turn, NULL);
        }
    }
    return !host_is_cancelled(cancel);
}

void host_meeting_wake(struct host_meeting *meeting)
{
    /* A new turn, so that a thread about to sleep on the old one does not. */
    atomic_fetch_add_explicit(&meeting->turn, 1, memory_order_acq_rel);
    wake_all(&meeting->turn);
}

bool host_sleep_until(int64_t deadline_ps, const struct host_cancel *cancel)
{
    for (int64_t left; (left = deadline_ps - dispatch_clock_ps()) > 0;) {
        if (host_is_cancelled(cancel)) {
            return false;
        }
        if (left > AWAKE_PS) {
            int64_t asleep = left - AWAKE_PS;
            const struct timespec timeout = { .tv_sec = (time_t)(asleep / PS_PER_S),
                                              .tv_nsec = (long)(asleep % PS_PER_S / PS_PER_NS) };
            futex(&cancel->raised, FUTEX_WAIT, 0, &timeout);
        }
    }
    return !host_is_cancelled(cancel);
}
