/* Memory spaces as counters: who fits, what is live, when it was highest.
 *
 * A buffer charges `bytes * copies` to its space and to that space's parents (pinned memory inside host memory). Peaks are of whole instants: what is live when
 * all ends and starts of an instant are done. All arrays are sized at pools_init; nothing is allocated later. */
#ifndef MEMWALL_ENGINE_POOL_H
#define MEMWALL_ENGINE_POOL_H

#include "sim/ir/schedule.h"
#include "sim/ir/timeline.h"

struct pool {
    uint64_t live_bytes, capacity_bytes;
    uint32_t parent;
    uint32_t last_op; /* the latest to acquire here */
    bool touched;     /* listed in pools.touched */
    uint64_t class_bytes[BUFFER_CLASS_COUNT];
};

struct pools {
    struct pool *spaces;
    uint64_t *charges;       /* [buffer_count] */
    uint32_t *buffer_spaces; /* [buffer_count] */
    uint8_t *classes;        /* [buffer_count] */
    struct space_use *peaks; /* [space_count], in the timeline's arena */
    uint32_t *touched;
    uint32_t space_count, touched_count;
    bool any_freed; /* by pools_release; the engine clears it */
};

struct pool_shortage {
    uint32_t space;
    uint64_t wanted_bytes, free_bytes;
};

/* Arrays come from `arena`, peaks are written to `peaks`. Buffers that live at the start are charged, above capacity if need be. */
enum status pools_init(struct pools *pools, const struct schedule *schedule, struct space_use *peaks,
                       struct arena *arena, struct error *error);
/* A space that holds more than its capacity (only possible right after pools_init), or SCHED_NONE. */
uint32_t pools_overfull(const struct pools *pools);
/* All of `buffers` or none. On false `shortage` (may be NULL) says what did not fit. */
bool pools_acquire(struct pools *pools, const uint32_t *buffers, uint32_t count, uint32_t op,
                   struct pool_shortage *shortage);
void pools_release(struct pools *pools, const uint32_t *buffers, uint32_t count);
/* The instant is over: take peaks. */
void pools_settle(struct pools *pools, int64_t now_ps);

#endif
