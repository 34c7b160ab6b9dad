/* The computer's cores, and which of them a rank has.
 *
 * With no more ranks than cores, each rank has its own share of them, as each device is a piece of hardware of its own. Its threads that compute and that meet those of other ranks stay there: the system's
 * scheduler likes to put a thread beside the one that woke it, and two partners of a collective on one core wait for each other's turns while a core beside them idles. */
#ifndef MEMWALL_EXEC_HOST_CORES_H
#define MEMWALL_EXEC_HOST_CORES_H

#include <stdint.h>

uint32_t host_cores(void); /* that the calling thread may run on, at least 1: asks the system */
/* The calling thread stays on the share of `rank` of the cores it may run on. Best effort: with more ranks than cores, or where the system refuses, it runs where it did. */
void host_cores_bind(uint32_t rank, uint32_t rank_count);

#endif
