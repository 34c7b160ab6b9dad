/* The lower bound (sim/plan/pipeline_bound.h) of a bare pipeline: it holds for every order with the request's placement (chunks, copies of the model, dealt or cut replicas), times, hops and recomputation.
 *
 *     TRY(bare_pipeline_bound_find(&request, &bound, error));
 *     TRY(bare_pipeline_bound_check(&bound, claimed, error)); */
#ifndef MEMWALL_PLAN_BARE_PIPELINE_BOUND_H
#define MEMWALL_PLAN_BARE_PIPELINE_BOUND_H

#include <stdint.h>

#include "sim/base/status.h"

struct bare_pipeline_request;

struct bare_pipeline_bound {
    double makespan; /* in units, as all times here */
    uint32_t stage;  /* the device that needs it (each of its replicas); of equals the first with most work */
    double before, work, after; /* of it; their sum is the bound */
};

/* The request is one that bare_pipeline_schedule has taken. STATUS_NO_MEMORY. */
enum status bare_pipeline_bound_find(const struct bare_pipeline_request *request, struct bare_pipeline_bound *bound,
                                     struct error *error);
/* STATUS_BAD_TIMELINE when nothing can be as fast as `makespan`, and why. */
enum status bare_pipeline_bound_check(const struct bare_pipeline_bound *bound, double makespan, struct error *error);

#endif
