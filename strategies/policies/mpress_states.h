/* Optimizer states of the policy `mpress` that live elsewhere: in host memory or on other stages' devices, visiting their own device for the update, or updated by the host's cores. */
#ifndef MEMWALL_STRATEGIES_POLICIES_MPRESS_STATES_H
#define MEMWALL_STRATEGIES_POLICIES_MPRESS_STATES_H

#include "sim/plan/plan_moves.h"
#include "strategies/policies/host_adam.h"

struct mpress_states {
    const struct tensor_move **moves; /* [layers of the rank], or NULL: the layer's states stay */
    uint32_t **peers;                 /* [layers of the rank] buffers [stripes] on other devices */
    uint32_t *returned; /* [layers of the rank] the op after which they have left the device again, or SCHED_NONE */
    struct host_adam adam;
};

/* The rank's states, those on other devices included. False after an error (recorded in the lowering). */
bool mpress_states_begin(struct lowering *lowering, struct mpress_states *states);
void mpress_states_gradient(struct lowering *lowering, struct mpress_states *states, const struct lower_layer *layer,
                            uint32_t after_op);
/* All updates once `after_op` has ended; under an asynchronous order one of several, and the passes behind it wait for the weights that the host's cores made. Nothing writes weights on the device before the ops
 * `written_after` [2] (or SCHED_NONE) have ended. Returns the op after which the device's own layers are new. */
uint32_t mpress_states_update(struct lowering *lowering, const struct mpress_states *states, uint32_t after_op,
                              const uint32_t *written_after);

/* Where a plan counts the layer (plan_moves.h). */
int64_t mpress_position(const struct lowering *lowering, const struct lower_layer *layer);
/* Bytes of the i-th stripe of `bytes`, whole; the last takes what is left. */
double mpress_stripe_bytes(const struct tensor_move *move, double bytes, uint32_t i);
/* False after an error: a stripe would lie on the layer's own device. */
bool mpress_check_stripes(struct lowering *lowering, const struct tensor_move *move);

#endif
