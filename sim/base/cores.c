#include "sim/base/cores.h"

#include <sched.h>
#include <unistd.h>

uint32_t cores_allowed(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) > 0) {
        return (uint32_t)CPU_COUNT(&allowed);
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* a machine of more than CPU_SETSIZE cores */
    return online > 0 ? (uint32_t)online : 1;
}
