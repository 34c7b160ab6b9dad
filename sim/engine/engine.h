/* The engine: runs a schedule against a cost table in simulated time and fills a timeline.
 *
 * One instant is one round of the loop:
 *   1. everything that ends or comes due now: ends release buffers, open gates (queue order, dependencies), wake host threads;
 *   2. the ops all of whose gates are open, in order of their index; before them, in order of waiting, those that waited for memory if any was freed. Matched
 *      ops start together when all partners are ready and all their buffers fit. What takes no time ends at once and may start another round of 2;
 *   3. rates are solved for what changed (fluid_settle), memory peaks are taken.
 *
 * Nothing is allocated in the loop (but the record of rates, when asked for). O((ops + dependencies) log queues) when nobody shares. */
#ifndef MEMWALL_ENGINE_ENGINE_H
#define MEMWALL_ENGINE_ENGINE_H

#include "sim/engine/cost_table.h"
#include "sim/ir/timeline.h"

struct engine_options {
    bool record_rates;
    /* Called every few ten thousand ops; false ends the run with STATUS_EXECUTION. NULL: none. */
    bool (*progress)(void *context, uint32_t done, uint32_t total);
    void *progress_context;
    const struct timeline_watch *watch; /* NULL: nobody watches */
};

/* `timeline` must be zeroed; the caller frees it, also after an error. Fills ops, spaces (but peak_reserved_bytes), resources, rates, outcome, blocked, end and counts.
 * The schedule must have passed sched_verify; the table is its own. */
enum status engine_run(const struct schedule *schedule, const struct cost_table *table,
                       const struct engine_options *options, struct timeline *timeline, struct error *error);

#endif
