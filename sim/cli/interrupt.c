#include "sim/cli/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

/* Handlers have no other way to tell: one flag for the program. */
static atomic_bool seen;
static struct sigaction old_interrupt, old_terminate;

static void note(int number)
{
    (void)number;
    atomic_store(&seen, true);
}

void interrupt_catch(void)
{
    struct sigaction action = { .sa_handler = note, .sa_flags = SA_RESTART | (int)SA_RESETHAND };
    (void)sigemptyset(&action.sa_mask);
    atomic_store(&seen, false);
    (void)sigaction(SIGINT, &action, &old_interrupt);
    (void)sigaction(SIGTERM, &action, &old_terminate);
}

bool interrupt_seen(void)
{
    return atomic_load(&seen);
}

void interrupt_release(void)
{
    (void)sigaction(SIGINT, &old_interrupt, NULL);
    (void)sigaction(SIGTERM, &old_terminate, NULL);
}
