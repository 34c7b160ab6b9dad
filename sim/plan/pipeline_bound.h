/* What no order can beat: a lower bound of the makespan of a pipeline, whatever the order of passes on each device.
 *
 * A device runs one pass at a time. Of its passes take those that no micro-batch can reach before `before`, and from each of which the longest way on, through devices that are free, takes at least
 * `after`: none of them runs earlier, all of them run one after another (`work`), and the last of them leaves `after`. The bound is the largest before + work + after of all devices and all such sets (heads
 * and tails of the one-machine problem: Carlier, EJOR 11, 1982). The longest way of one micro-batch through the whole model is among them.
 *
 * Limits of activations are not looked at: with them an order may need longer still.
 *
 *     const struct pipeline_bound_request request = { virtual_count, length, stages, hop };
 *     TRY(pipeline_bound_find(&request, &bound, error)); */
#ifndef MEMWALL_PLAN_PIPELINE_BOUND_H
#define MEMWALL_PLAN_PIPELINE_BOUND_H

#include <stdint.h>

#include "sim/base/status.h"

/* A virtual stage. Times in any whole unit, of one micro-batch. */
struct bound_stage {
    uint32_t device, micro_batches; /* those that pass it on one device */
    int64_t forward, backward;
    int64_t again;  /* of recomputation that need not wait for the gradient; else 0, and `backward` has it */
    int64_t weight; /* of a weight part that nothing waits for; else 0, and `backward` has it */
};

struct pipeline_bound_request {
    uint32_t virtual_count;
    uint32_t length;                  /* virtual stages of each copy of the model, which follow one another */
    const struct bound_stage *stages; /* [virtual_count] */
    int64_t hop;                      /* between devices */
};

struct pipeline_bound {
    int64_t makespan;
    int64_t before, work, after; /* their sum is the bound */
    uint32_t device;             /* that needs it; of equals the first with most work */
};

/* The sum of all times, each as often as there are micro-batches, is below 2^62. STATUS_NO_MEMORY. O(virtual_count * log virtual_count). */
enum status pipeline_bound_find(const struct pipeline_bound_request *request, struct pipeline_bound *bound,
                                struct error *error);

#endif
