/* Memory of a real run: each space of a schedule as real memory, taken by the same block allocator that the simulator runs dry.
 *
 * Two books are kept. The schedule's own (sim/engine/pool.h): bytes live per space and its parents, against capacities. And the allocator's: addresses
 * from segments that the executor's backing provides. A buffer fits when both say so. Not locked: the dispatcher calls under its own lock. */
#ifndef MEMWALL_VALIDATE_WET_POOLS_H
#define MEMWALL_VALIDATE_WET_POOLS_H

#include "sim/core/blockalloc.h"
#include "sim/engine/pool.h"
#include "sim/ir/schedule.h"

struct wet_space {
    enum blockalloc_kind kind;
    struct blockalloc_backing
        backing; /* both functions required, but for spaces whose bytes nobody touches (map NULL: dry) */
};

struct wet_pools; /* private */

/* `spaces` [space_count], copied. `streams` [queue_count] or NULL: which stream of its allocator a queue's acquisitions belong to. Buffers that live at the start
 * get memory here: STATUS_DOES_NOT_FIT names the space, what it holds already, and what was asked. */
enum status wet_pools_new(struct wet_pools **pools, const struct schedule *schedule, const struct wet_space *spaces,
                          struct error *error);
void wet_pools_free(struct wet_pools *pools); /* NULL is fine; unmaps everything */

/* All of `buffers` or none, for an op of `queue`. On false `shortage` (may be NULL) says what did not fit. */
bool wet_pools_acquire(struct wet_pools *pools, const uint32_t *buffers, uint32_t count, uint32_t queue,
                       struct pool_shortage *shortage);
void wet_pools_release(struct wet_pools *pools, const uint32_t *buffers, uint32_t count);

/* Of a live buffer; NULL for one of zero bytes or of a dry space. Valid until it is released. Asserts that the buffer lives. */
void *wet_pools_address(const struct wet_pools *pools, uint32_t buffer);
bool wet_pools_is_live(const struct wet_pools *pools, uint32_t buffer);
/* Most bytes that the space's allocator held from its backing (runtime buffers included), since wet_pools_new. */
uint64_t wet_pools_peak_reserved(const struct wet_pools *pools, uint32_t space);

#endif
