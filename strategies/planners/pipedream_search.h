/* PipeDream's partitioning as a dynamic programme over a flat machine (Narayanan et al., SOSP 2019; the recurrence of its shipped optimizer).
 *
 * A stage of layers with compute time C (forward and backward of one minibatch) and W bytes of parameters on r replicas costs, a minibatch,
 *
 *     (C + 4 (r - 1) W / (bandwidth r)) / r
 *
 * and a plan costs its slowest stage. With A[j][n] the best plan of layers 0 .. j on n workers,
 *
 *     A[j][n] = min( stage(0 .. j, n), min over k < j, r < n of max(A[k][n - r], stage(k + 1 .. j, r)) ).
 *
 * The transfer of activations does not count unless a compression ratio is given: then each cut costs 2 bytes / (bandwidth r ratio) on the r replicas after it. The memory test, if asked for:
 * ceil(workers after the stage / r) * (activations + parameters) <= memory, so nothing for the last stage. O(layers^2 workers^2). */
#ifndef MEMWALL_STRATEGIES_PLANNERS_PIPEDREAM_SEARCH_H
#define MEMWALL_STRATEGIES_PLANNERS_PIPEDREAM_SEARCH_H

#include "strategies/planners/pipeline_profile.h"

struct pipedream_request {
    const struct pipeline_profile *profile;
    uint32_t workers;             /* 1 .. PIPELINE_WORKERS_MAX; all are used */
    double bandwidth_bytes_per_s; /* > 0 */
    double memory_bytes;          /* 0: no test */
    double compression;           /* 0: transfers do not count */
    uint32_t replicas;            /* 0: any number a stage; else this many on each (workers is a multiple) */
    uint32_t shared; /* > 0: the replicas of every stage divide it (micro-batches of a step that they deal); 0: any */
};

struct pipedream_answer {
    bool found; /* false: nothing passes the memory test, or fewer layers than stages */
    struct pipeline_split split;
    double bottleneck_s; /* of the slowest stage, one minibatch */
};

/* STATUS_BAD_INPUT: workers, bandwidth, replicas out of range; STATUS_LIMIT: a search of more than some 10^10 steps. The split lives in `arena`. */
enum status pipedream_search(const struct pipedream_request *request, struct pipedream_answer *answer,
                             struct arena *arena, struct error *error);
/* Seconds a minibatch of a stage by the formula above. */
double pipedream_stage_s(const struct pipedream_request *request, const struct pipeline_stage *stage);

#endif
