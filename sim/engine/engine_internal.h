/* State of a run, shared by engine.c (the loop), engine_setup.c (sizes and links) and engine_blocked.c (what an unfinished run waits for). */
#ifndef MEMWALL_ENGINE_INTERNAL_H
#define MEMWALL_ENGINE_INTERNAL_H

#include "sim/core/evq.h"
#include "sim/engine/engine.h"
#include "sim/engine/fluid.h"
#include "sim/engine/host_thread.h"
#include "sim/engine/pool.h"

/* How far an op has come, in op_node.gates once all gates are open: the values lie above any count of gates. */
enum op_progress { OP_IS_OPEN = 0, OP_IS_READY = 1 << 24, OP_IS_MATCHED, OP_IS_STARTED, OP_HAS_ENDED };

struct op_node {
    uint32_t gates;           /* still closed: issue, queue order, one for each dependency; then enum op_progress */
    uint32_t cost;            /* into cost_table.costs */
    uint32_t next;            /* op behind it in its queue, or SCHED_NONE */
    uint32_t first_successor; /* into engine.successors; the next node's is the end */
};

/* What the pending event of a queue means. */
enum slot_phase { SLOT_IDLE, SLOT_ISSUE, SLOT_LATENCY, SLOT_RUN, SLOT_FLUID };

struct queue_slot {
    uint32_t op; /* waiting for its issue time, or running (of matched ops: the first) */
    enum slot_phase phase;
    int64_t span_ps; /* SLOT_LATENCY: of the work that follows */
};

struct engine {
    const struct schedule *schedule;
    const struct cost_table *table;
    const struct engine_options *options;
    struct timeline *timeline;
    struct op_times *times; /* timeline->ops */
    struct op_node *nodes;  /* [op_count + 1] */
    uint32_t *successors;
    struct queue_slot *slots;  /* [queue_count] */
    uint32_t *queue_ranks;     /* [queue_count] */
    struct host_thread *hosts; /* [rank_count] */
    uint32_t *match_first;     /* [match_count + 1] into match_ops, in order of op index */
    uint32_t *match_ops;
    uint32_t *match_arrived; /* [match_count] */
    uint32_t *ready, *batch; /* [queue_count] each */
    uint32_t *waiters;       /* [queue_count]: first ops of starts that wait for memory, in order of waiting */
    uint32_t ready_count, waiter_count;
    struct evq queue;
    struct fluid fluid;
    struct pools pools;
    int64_t now_ps;
    uint32_t done;
    uint64_t rate_capacity;
    struct rate_change *rates; /* grows; malloc */
    bool out_of_memory;
    struct arena arena;
};

/* Allocates and links everything in engine->arena and the timeline's. */
enum status engine_setup(struct engine *engine, struct error *error);
/* Fills timeline->outcome and ->blocked for a run in which nothing can move any more. */
enum status engine_explain_blocked(struct engine *engine, struct error *error);

/* The ops that start together with `op`: itself, or all of its match. */
static inline const uint32_t *engine_members(const struct engine *engine, const uint32_t *op, uint32_t *count)
{
    uint32_t match = engine->schedule->ops[*op].match;
    if (match == SCHED_NONE) {
        *count = 1;
        return op;
    }
    *count = engine->match_first[match + 1] - engine->match_first[match];
    return engine->match_ops + engine->match_first[match];
}

#endif
