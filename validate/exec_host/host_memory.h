/* Memory of the host executor: anonymous mappings that take room only where they are touched.
 *
 * A space of kind pinned asks for its pages to be locked as they are touched (mlock2, MLOCK_ONFAULT); a refusal (RLIMIT_MEMLOCK) changes nothing else, since on a
 * machine without GPU nothing but paging tells them from others. */
#ifndef MEMWALL_EXEC_HOST_MEMORY_H
#define MEMWALL_EXEC_HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/status.h"
#include "sim/core/blockalloc.h"

struct host_region {
    uint8_t *data; /* zeroed, page-aligned; NULL when bytes == 0 */
    uint64_t bytes;
};

/* STATUS_NO_MEMORY names `what` and the size. */
enum status host_region_map(struct host_region *region, uint64_t bytes, const char *what, struct error *error);
void host_region_unmap(struct host_region *region); /* zeroed: nothing */

/* Backing for a space's allocator; `pinned` must outlive it. */
struct host_memory {
    bool is_pinned;
};
struct blockalloc_backing host_memory_backing(struct host_memory *memory);

/* What this computer could give to new work without swapping: MemAvailable of /proc/meminfo; UINT64_MAX when it does not say. */
uint64_t host_memory_free_bytes(void);

#endif
