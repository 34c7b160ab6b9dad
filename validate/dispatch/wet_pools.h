/* Memory of a real run: each space of a schedule as real memory, taken by the same block allocator that the simulator runs dry.
 *
 * Two books are kept. The schedule's own (sim/engine/pool.h): bytes live per space and its parents, against capacities. And the allocator's: addresses
 * from segments that the executor's backing provides. A buffer fits when both say so. Each queue is a stream of its space's allocator, as in the simulator's model.
 *
 * Buffers of class runtime in a device's space stand for what the device's runtime holds anyway (context, communicators): they count as reserved, and get memory, each a
 * segment of its own, only if an op reads or writes them. Not locked: the dispatcher calls under its own lock, so map and unmap must not wait for an op.
 * wet_pools_address and wet_pools_is_live may be called by any op that runs, for its own operands. */
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

/* `spaces` [space_count], copied; `schedule` must outlive the pools. Buffers that live at the start get memory here: STATUS_DOES_NOT_FIT when the machine has none, with
 * the space, what it holds already, and what was asked. When they exceed the schedule's capacities that is an outcome, not an error: the pools are made, hold no
 * memory (all addresses are NULL), and dispatch_run tells the outcome. */
enum status wet_pools_new(struct wet_pools **pools, const struct schedule *schedule, const struct wet_space *spaces,
                          struct error *error);
void wet_pools_free(struct wet_pools *pools); /* NULL is fine; unmaps everything */

/* The space whose buffers live at the start exceed its capacity, and how many bytes they have (may be NULL); SCHED_NONE: all fit. */
uint32_t wet_pools_overfull(const struct wet_pools *pools, uint64_t *live_bytes);
/* As at the start of a step: what lives then lives, nothing else. Addresses of the buffers concerned change. STATUS_DOES_NOT_FIT as wet_pools_new. */
enum status wet_pools_rewind(struct wet_pools *pools, struct error *error);

/* All of `buffers` or none, for an op of `queue`. On false `shortage` (may be NULL) says what did not fit. */
bool wet_pools_acquire(struct wet_pools *pools, const uint32_t *buffers, uint32_t count, uint32_t queue,
                       struct pool_shortage *shortage);
void wet_pools_release(struct wet_pools *pools, const uint32_t *buffers, uint32_t count);

/* Of a live buffer; NULL for one of zero bytes or of a dry space. Valid until it is released. Asserts that the buffer lives. */
void *wet_pools_address(const struct wet_pools *pools, uint32_t buffer);
bool wet_pools_is_live(const struct wet_pools *pools, uint32_t buffer);
/* Most bytes that the space's allocator, and those of the spaces inside it, held at once since wet_pools_new (runtime buffers included). */
uint64_t wet_pools_peak_reserved(const struct wet_pools *pools, uint32_t space);

#endif
