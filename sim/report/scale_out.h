/* How many machines a deadline needs: the same job on more data-parallel replicas, each candidate simulated.
 *
 * Two ways, both found:
 *   grown   every further replica brings a batch of its own: the global batch grows with the replicas, the step stays about as long (only the gradient reduction grows). It assumes that the larger
 *           batch trains as well a token.
 *   kept    the global batch stays and is divided among more replicas; the micro-batch stays. It assumes nothing of training, but bubbles and reductions weigh more, and the replicas end at
 *           the batch's micro-batches.
 * Everything else of the plan stays: tensor, pipeline, stage boundaries, recomputation, policy. Further servers are of the same kind, filled one after the other. */
#ifndef MEMWALL_REPORT_SCALE_OUT_H
#define MEMWALL_REPORT_SCALE_OUT_H

#include "sim/plan/scenario.h"

/* More than that is not simulated: a cluster's description grows with its servers. */
enum { SCALE_GPUS_MAX = 1 << 16, SCALE_REASON_BYTES = 512 };

struct scale_need {
    double tokens, days;                             /* to train, within */
    double step_s, tokens_per_step;                  /* of the scenario as it is */
    double (*goodput)(void *context, uint32_t gpus); /* 0 .. 1; NULL: 1 */
    void *context;
};

struct scale_option {
    bool simulated; /* the figures hold; else `reason` */
    bool meets;     /* the deadline; if not, they are of the fastest found and `reason` says why there is no faster */
    uint32_t factor, gpus, servers; /* replicas for each one of the scenario */
    int64_t data, global_batch;
    double step_s, goodput, days;
    char reason[SCALE_REASON_BYTES];
};

struct scale_out {
    struct scale_option grown, kept;
};

/* The fewest replicas that meet the deadline, on the assumption that a step does not get shorter when the batch grows, and that dividing it saves at most its whole time. Returned errors are lack
 * of memory and faults of the program. */
enum status scale_out_find(struct scale_out *out, const struct scenario *scenario, const struct scale_need *need,
                           struct error *error);

#endif
