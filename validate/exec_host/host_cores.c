#include "validate/exec_host/host_cores.h"

#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

/* False on computers with more cores than a cpu_set_t has. */
static bool find_allowed(cpu_set_t *allowed)
{
    return sched_getaffinity(0, sizeof *allowed, allowed) == 0 && CPU_COUNT(allowed) > 0;
}

uint32_t host_cores(void)
{
    cpu_set_t allowed;
    if (find_allowed(&allowed)) {
        return (uint32_t)CPU_COUNT(&allowed);
    }
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 0 ? (uint32_t)cores : 1;
}

void host_cores_bind(uint32_t rank, uint32_t rank_count)
{
    cpu_set_t allowed, share;
    if (!find_allowed(&allowed) || (uint32_t)CPU_COUNT(&allowed) < rank_count) {
        return;
    }
    uint32_t each = (uint32_t)CPU_COUNT(&allowed) / rank_count, nth = 0;
    CPU_ZERO(&share);
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &allowed) && nth++ / each == rank) {
            CPU_SET(core, &share);
        }
    }
    (void)sched_setaffinity(0, sizeof share, &share);
}
