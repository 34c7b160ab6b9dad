/* Adam on the host's cores, layer by layer: what `optimizer-on-host` and `mpress` share.
 *
 * A layer's final gradient goes down into a pinned staging buffer, Adam writes the new weights over it, they go up from it. Page-locking costs far more than a copy, so these buffers are made
 * once and kept, as DeepSpeed keeps its page-locked gradients: how much host memory a step takes hangs on no race between copies and updates. Only owned parameters move. The optimizer states
 * themselves are the lowering's buffers, placed on the host by the policy. */
#ifndef MEMWALL_STRATEGIES_POLICIES_HOST_ADAM_H
#define MEMWALL_STRATEGIES_POLICIES_HOST_ADAM_H

#include "sim/plan/policy.h"

struct host_adam {
    struct host_adam_layer {
        uint32_t buffer;  /* pinned, all step long: the gradient, then the new weights; SCHED_NONE: not taken */
        uint32_t arrival; /* the copy that fills it; SCHED_NONE: nothing came down */
    } * layers;           /* [layers of the rank] */
};

/* False after an error (recorded in the lowering). */
bool host_adam_begin(struct lowering *lowering, struct host_adam *adam);
/* The layer's owned parameters, if any, are updated on the host: their staging buffer and, where the weights on the device are the master copy (torchtitan, PyTorch), the host's own to add to,
 * in `space`. */
void host_adam_take(struct lowering *lowering, struct host_adam *adam, const struct lower_layer *layer,
                    enum space_kind space);
/* The gradient of a taken layer is final once `after_op` has ended: it goes down. */
void host_adam_gradient(struct lowering *lowering, struct host_adam *adam, const struct lower_layer *layer,
                        uint32_t after_op);
/* Adam over the layer once its gradient has arrived and `after_op` has ended; then its new weights go up. Returns that copy; SCHED_NONE where no gradient came down. */
uint32_t host_adam_update(struct lowering *lowering, const struct host_adam *adam, const struct lower_layer *layer,
                          uint32_t after_op);

#endif
