/* DAPPLE's planning as an exact search over its analytic length of a synchronous step (Fan et al., PPoPP 2021; the length of its planner).
 *
 * A micro-batch is shared by the replicas of a stage, so a stage of compute time C on r replicas blocks for C / r; block = the largest of these. With M micro-batches
 *
 *     length = block (M - 1) + total + sum over cuts of transfer + max over stages i of max(0, AR_i - i block)
 *
 * total: compute time of one micro-batch over all layers; transfer: the activation of the layer before the cut, once, over one link; AR_i = 2 (r - 1) / r * parameter bytes / bandwidth
 * (a ring). Stage 0 has no slack: its backward ends last (B.2). That transfers count once and over one link is our reading.
 *
 * The search is over every possible block in rising order; for each a dynamic programme over (stage, layers before it, workers used) that keeps the plans of which none is better both in
 * transfers and in exposed reduction. It ends when block (M - 1) + total alone is no better than the best. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_DAPPLE_SEARCH_H
#define MEMWALL_STRATEGIES_PLANNERS_DAPPLE_SEARCH_H

#include "strategies/planners/pipeline_profile.h"

struct dapple_request {
    const struct pipeline_profile *profile; /* of one micro-batch on one device */
    uint32_t workers;                       /* 1 .. PIPELINE_WORKERS_MAX; all are used */
    uint32_t micro_batches;                 /* >= 1 */
    double transfer_bytes_per_s, reduce_bytes_per_s;
    uint32_t replicas; /* 0: any number a stage; else this many on each (workers is a multiple) */
    /* Copies of the whole pipeline, each with micro-batches of its own: r is then replicas * copies in AR. 0: one. */
    uint32_t copies;
    uint32_t shared; /* > 0: the replicas of every stage divide it (samples of a micro-batch that they cut); 0: any */
};

struct dapple_answer {
    bool found; /* false: fewer layers than stages */
    struct pipeline_split split;
    double block_s, transfers_s, exposed_reduce_s, length_s;
};

/* STATUS_BAD_INPUT: workers, micro-batches, bandwidths, replicas out of range; STATUS_LIMIT: a search of more than some 10^10 steps a block. The split lives in `arena`. */
enum status dapple_search(const struct dapple_request *request, struct dapple_answer *answer, struct arena *arena,
                          struct error *error);
/* The length of a given split, by the formula above. */
struct dapple_answer dapple_length(const struct dapple_request *request, const struct pipeline_split *split);

#endif
