/* Older weight versions of the policy `mpress` that live elsewhere (orders that stash one a micro-batch in flight: PipeDream). A version leaves once, after the last forward that takes it and before the
 * update that makes the next one over it; it comes back for each backward of a micro-batch that went forward with it, and its memory is free after that backward. The newest version always stays. */
#ifndef MEMWALL_STRATEGIES_POLICIES_MPRESS_VERSIONS_H
#define MEMWALL_STRATEGIES_POLICIES_MPRESS_VERSIONS_H

#include "sim/plan/order.h"
#include "sim/plan/plan_moves.h"
#include "strategies/policies/activation_kit.h"

struct mpress_versions {
    const struct tensor_move **moves; /* [layers of the rank], or NULL: the layer's versions stay */
    uint32_t *carrier; /* [micro_batches] the last one that went forward with the same version: it leaves then */
    uint32_t *
        last_user; /* [micro_batches] of a carrier: the last for whose backward the version comes back; SCHED_NONE: for none, so it never leaves */
    bool *stale;   /* [micro_batches] its version is not the newest any more at its backward */
    struct mpress_version *of; /* [layers * micro_batches] */
    uint32_t *due;             /* [passes] the first of `of` that begins to come back at the pass's start; SCHED_NONE */
    uint32_t gone[2]; /* the latest copies out, to the host and to other devices: an update waits; SCHED_NONE */
};

/* Older versions of a layer on `stage` that can move: 0 where forwards take others than the newest (vertical_sync), or gradients accumulate (PipeDream-2BW: its second version is taken by no pass, or by
 * all of a batch), or there is only the newest. */
uint32_t mpress_versions_moving(const struct pipeline_order *order, const struct order_request *request,
                                uint32_t stage);
/* Whether the plan moves those of the layer. */
bool mpress_versions_leave(const struct lowering *lowering, const struct lower_layer *layer);

/* False after an error (recorded in the lowering). */
bool mpress_versions_begin(struct lowering *lowering, struct mpress_versions *versions,
                           const struct activation_rank *rank);
/* Around each pass; `rank->at` is the pass. */
void mpress_versions_before_pass(struct lowering *lowering, struct mpress_versions *versions,
                                 const struct activation_rank *rank, const struct lower_pass *pass);
void mpress_versions_after_pass(struct lowering *lowering, struct mpress_versions *versions,
                                const struct activation_rank *rank, const struct lower_pass *pass);

#endif
