/* A scheduler for pipelines whose stages differ or whose memory is short, so that nobody is limited to hand-made orders: it plays the pipeline forward in time, on each free stage choosing among what
 * could run now, under several rules of preference, and keeps the best result.
 *
 * Rules of play (ours): a backward that can run does; a forward runs if the stage may keep one more activation; a weight part fills what would be idle, runs early when memory is full, and waits when a
 * backward is about to arrive. Micro-batches enter as soon as they can, or where memory is short at a pace. Of several chunks the oldest micro-batch goes first. A forward that would take the room in which an older micro-batch must get through waits, so no limit of at least 1
 * makes the pipeline wait for itself; and stages run what a neighbour sends in the order in which it sends it, so the steps can be run with messages too (order_table_check_transfers). Where both
 * together get stuck, the rule is played again with room for all chunks of a micro-batch kept on every stage from when it enters.
 *
 * Besides these rules every registered order with the same placement is a candidate where its memory allows, so the result is never slower than they; and each of them, fitting or not, is played once
 * more with its order as the preference, which mends what it leaves idle. The best of all is played again in this way until that makes it no
 * shorter. Of equally short orders the one is taken whose fullest stage keeps least.
 *
 * More memory can mislead greedy play. In small pipelines all this is therefore done with 1, 2, 3, ... activations a stage at most, up to what is allowed, so that with one whole limit for all stages a higher
 * one is never slower, and no limit never slower than any. */
#ifndef MEMWALL_PLAN_ORDER_AUTO_H
#define MEMWALL_PLAN_ORDER_AUTO_H

#include "sim/plan/order_table.h"

#define ORDER_AUTO_PASSES_MAX (1 << 20) /* stages * virtual_stages * micro_batches */
#define ORDER_AUTO_SMALL      (1 << 17) /* passes * micro_batches up to which all smaller memories are tried as well */

/* Which virtual stage chunk c of stage s is. */
enum auto_placement {
    AUTO_LOOP, /* c * stages + s, as interleaved has it */
    AUTO_V,    /* odd chunks run backwards through the stages: zb-v's, with 2 chunks; with more a zigzag */
};

struct order_auto_request {
    uint32_t stages, micro_batches, virtual_stages;
    enum auto_placement placement;
    /* [stages * virtual_stages], of each virtual stage; > 0 (`weight` >= 0), any unit. `weight` NULL: `backward` is whole, and activations are freed by it. */
    const double *forward, *backward, *weight;
    /* [stages * virtual_stages], >= 0: added to each backward, after its gradient is there, or (eagerly) while the stage waits for it; NULL: nothing is recomputed. */
    const double *recompute;
    bool recompute_eagerly;
    double hop; /* >= 0: between stages */
    const double *
        limits; /* [stages]: most activations a stage may keep, >= 1; a chunk's is 1 / virtual_stages; NULL: as many as there are */
};

struct order_auto_result {
    double makespan;  /* in the request's unit */
    const char *rule; /* which candidate won: a rule, or a registered order; lives as long as the table */
};

/* The caller frees `table` (order_table_free). STATUS_BAD_INPUT: a limit below 1, times that are not positive; STATUS_LIMIT. O(candidates * passes * (chunks + log stages)). */
enum status order_auto(const struct order_auto_request *request, struct order_table *table,
                       struct order_auto_result *result, struct error *error);

/* The stage that holds a virtual stage. */
uint32_t order_auto_holder(const struct order_auto_request *request, uint32_t virtual_stage);
/* "loop", "v"; false: neither. */
bool order_auto_placement(const char *name, enum auto_placement *placement);

#endif
