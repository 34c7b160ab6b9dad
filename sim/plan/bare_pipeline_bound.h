/* What no order can beat: a lower bound of the makespan of a bare pipeline, whatever the order of passes on each device.
 *
 * It holds for the request's placement (chunks, copies of the model, dealt or cut replicas), times, hops and recomputation. A device runs one pass at a time. Of its passes take those that no
 * micro-batch can reach before `before`, and from each of which the longest way on, through devices that are free, takes at least `after`: nothing of them runs earlier, all of them run one after another
 * (`work`), and the last of them leaves `after`. The bound is the largest before + work + after of all devices and all such sets (heads and tails of the one-machine problem: Carlier, EJOR 11, 1982). The
 * longest way of one micro-batch through the whole model is among them.
 *
 * Limits of activations are not looked at: with them an order may need longer still.
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

/* The request is one that bare_pipeline_schedule has taken. STATUS_NO_MEMORY. O(virtual stages * log chunks). */
enum status bare_pipeline_bound_find(const struct bare_pipeline_request *request, struct bare_pipeline_bound *bound,
                                     struct error *error);
/* STATUS_BAD_TIMELINE when nothing can be as fast as `makespan`, and why. */
enum status bare_pipeline_bound_check(const struct bare_pipeline_bound *bound, double makespan, struct error *error);

#endif
