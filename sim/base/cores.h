/* How many processor cores this process may use. */
#ifndef MEMWALL_BASE_CORES_H
#define MEMWALL_BASE_CORES_H

#include <stdint.h>

/* Those that its affinity mask allows (taskset, a container's cpuset, a task of Slurm), at least 1. */
uint32_t cores_allowed(void);

#endif
