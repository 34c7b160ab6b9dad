/* Exchanges: a send and the receive that the same rank posts next, with the same peer, which does the same the other way round. Megatron's 1F1B batches them
 * (send_forward_recv_backward and its mirror, batch_isend_irecv) and goes on when both are done; so what the send empties is free before the next pass begins, whatever of
 * the two ends first. Both sides start at one moment, so waiting for the pair cannot close a cycle that waiting for the receive does not. Stages with replicas of their own batch nothing: a rank's peers change there. */
#include "sim/plan/lower_internal.h"

/* A step of some stage. */
struct place {
    uint32_t stage;
    struct order_step step;
};

/* Who takes what the step makes, and whose product the step takes. False: nobody, or nobody's (an end of the model). `away`: +1 along the data's way, -1 against it. */
static bool neighbour(const struct lowering *l, uint32_t stage, const struct order_step *step, int away,
                      struct place *found)
{
    if (step->kind == STEP_BACKWARD_WEIGHT) {
        return false;
    }
    uint32_t v = order_virtual_stage(l->request->order, &l->order_request, stage, step->chunk);
    bool rises = (step->kind == STEP_FORWARD) == (away > 0);
    uint32_t chunk, first, last;
    order_route(l->request->order, &l->order_request, step->micro_batch, &first, &last);
    if (v == (rises ? last : first)) {
        return false;
    }
    order_holder(l->request->order, &l->order_request, rises ? v + 1 : v - 1, &found->stage, &chunk);
    found->step = *step;
    found->step.chunk = (uint16_t)chunk;
    return true;
}

static size_t step_index(const struct lowering *l, const struct order_step *step)
{
    size_t kind = step->kind == STEP_FORWARD ? 0 : 1;
    return (kind * l->virtual_stages + step->chunk) * l->order_request.micro_batches + step->micro_batch;
}

/* Where a stage's forward and backward steps stand in its order: made at first use. NULL when memory is out. */
static const uint32_t *positions(struct lowering *l, uint32_t stage)
{
    const struct pipeline_order *order = l->request->order;
    uint32_t *at = l->step_positions[stage];
    if (at != NULL) {
        return at;
    }
    struct order_step *steps = arena_array(&l->arena, struct order_step, order_step_count(order, &l->order_request));
    at = arena_array(&l->arena, uint32_t, (size_t)2 * l->virtual_stages * l->order_request.micro_batches);
    if (steps == NULL || at == NULL) {
        lower_fail(l, STATUS_NO_MEMORY, "out of memory for the pipeline order");
        return NULL;
    }
    uint32_t count = order->build(&l->order_request, stage, steps);
    for (uint32_t i = 0; i < count; i++) {
        if (steps[i].kind != STEP_BACKWARD_WEIGHT) {
            at[step_index(l, &steps[i])] = i;
        }
    }
    l->step_positions[stage] = at;
    return at;
}

bool lowering_exchanges(struct lowering *l, const struct order_step *step, const struct order_step *next)
{
    struct place taker, giver;
    uint32_t stage = l->rank->stage;
    if (l->unequal || l->request->software->overlap_pipeline || !neighbour(l, stage, step, +1, &taker) ||
        !neighbour(l, stage, next, -1, &giver) || taker.stage == stage || taker.stage != giver.stage) {
        return false;
    }
    const uint32_t *at = positions(l, taker.stage);
    return at != NULL && at[step_index(l, &giver.step)] + 1 == at[step_index(l, &taker.step)];
}
