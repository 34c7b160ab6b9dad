/* Which sends are waited for, in stacks whose transfers do not run beside compute.
 *
 * Exchanges: a send and the receive that the same rank posts next, with the same peer, which does the same the other way round. Megatron's 1F1B batches them
 * (send_forward_recv_backward and its mirror, batch_isend_irecv) and goes on when both are done; so what the send empties is free before the next pass begins, whatever of
 * the two ends first. Both sides start at one moment, so waiting for the pair cannot close a cycle that waiting for the receive does not. Stages with replicas of their own do so
 * towards a stage of as many; where numbers differ a rank's peer changes from message to message, and nothing is batched.
 *
 * Lone sends (the forwards of a warm-up, the backwards at the end, all of gpipe's): Megatron's _communicate (core/pipeline_parallel/p2p_communication.py) waits for every request it has posted before it
 * returns, whatever the direction; the next receive is posted after that. So it is here with one chunk a stage and an undivided backward, as long as all stages have as many replicas and none
 * then wait for each other in a circle: a walk through the order, step by step, tells. Our choices: with several chunks a send goes on by itself (Megatron batches it with a receive that is used passes later), as in orders with weight passes, whose authors send asynchronously. */
#include "sim/plan/lower_internal.h"

/* A step of some stage, with the number that its replica gives the micro-batch (lowering_slot): where stages have as many replicas, the same one on both sides. */
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

static size_t step_index(const struct lowering *l, uint32_t stage, const struct order_step *step)
{
    size_t kind = step->kind == STEP_FORWARD ? 0 : 1;
    return (kind * l->virtual_stages + step->chunk) * order_share(&l->order_request, stage) + step->micro_batch;
}

/* A stage's order, in its replicas' own numbers: made at first use. NULL when memory is out. */
static const struct stage_order *order_of(struct lowering *l, uint32_t stage)
{
    const struct pipeline_order *order = l->request->order;
    struct stage_order *known = &l->stage_orders[stage];
    if (known->positions != NULL) {
        return known;
    }
    uint32_t replicas = order_replicas(&l->order_request, stage);
    struct order_step *steps =
        arena_array(&l->arena, struct order_step, order_step_count(order, &l->order_request) / replicas);
    uint32_t *at =
        arena_array(&l->arena, uint32_t, (size_t)2 * l->virtual_stages * order_share(&l->order_request, stage));
    if (steps == NULL || at == NULL) {
        lower_fail(l, STATUS_NO_MEMORY, "out of memory for the pipeline order");
        return NULL;
    }
    uint32_t count = order->build(&l->order_request, stage, steps);
    for (uint32_t i = 0; i < count; i++) {
        if (steps[i].kind != STEP_BACKWARD_WEIGHT) {
            at[step_index(l, stage, &steps[i])] = i;
        }
    }
    *known = (struct stage_order){ .steps = steps, .positions = at, .count = count };
    return known;
}

static bool exchanges(struct lowering *l, uint32_t stage, const struct order_step *step, const struct order_step *next)
{
    struct place taker, giver;
    if (!neighbour(l, stage, step, +1, &taker) || !neighbour(l, stage, next, -1, &giver) || taker.stage == stage ||
        taker.stage != giver.stage || lowering_replicas(l, taker.stage) != lowering_replicas(l, stage)) {
        return false;
    }
    const struct stage_order *order = order_of(l, taker.stage);
    return order != NULL && order->positions[step_index(l, taker.stage, &giver.step)] + 1 ==
                                order->positions[step_index(l, taker.stage, &taker.step)];
}

bool lowering_exchanges(struct lowering *l, const struct order_step *step, const struct order_step *next)
{
    struct order_step own = *step, own_next = *next;
    own.micro_batch = (uint32_t)lowering_slot(l, own.micro_batch);
    own_next.micro_batch = (uint32_t)lowering_slot(l, own_next.micro_batch);
    return !l->request->software->overlap_pipeline && exchanges(l, l->rank->stage, &own, &own_next);
}

/* How far a stage has come in the walk: `done` steps, and whether what the last of them sent is there. Then it has posted what it receives next. */
struct progress {
    uint32_t done;
    bool settled;
};

/* As far as the others let it come. Waits are over once and for all, so the order of such calls does not matter. */
static bool advance(struct lowering *l, struct progress *all, uint32_t stage)
{
    const struct stage_order *own = order_of(l, stage), *other;
    struct progress *at = &all[stage];
    bool any = false;
    for (struct place place; own != NULL; any = true) {
        if (!at->settled) {
            const struct order_step *last = &own->steps[at->done - 1];
            bool batched = at->done < own->count && exchanges(l, stage, last, last + 1);
            if (!batched && neighbour(l, stage, last, +1, &place) && place.stage != stage) {
                other = order_of(l, place.stage);
                uint32_t wanted = other == NULL ? 0 : other->positions[step_index(l, place.stage, &place.step)];
                const struct progress *taker = &all[place.stage];
                if (other == NULL || !(taker->done > wanted || (taker->done == wanted && taker->settled))) {
                    return any;
                }
            }
            at->settled = true;
        } else if (at->done < own->count) {
            if (neighbour(l, stage, &own->steps[at->done], -1, &place) && place.stage != stage) {
                other = order_of(l, place.stage);
                if (other == NULL ||
                    all[place.stage].done <= other->positions[step_index(l, place.stage, &place.step)]) {
                    return any;
                }
            }
            *at = (struct progress){ .done = at->done + 1 };
        } else {
            return any;
        }
    }
    return any;
}

/* Whether a step ends when every lone send is waited for. */
static bool ends(struct lowering *l)
{
    struct progress *all = arena_array(&l->arena, struct progress, l->stages);
    if (all == NULL) {
        lower_fail(l, STATUS_NO_MEMORY, "out of memory for the pipeline order");
        return false;
    }
    for (uint32_t s = 0; s < l->stages; s++) {
        all[s].settled = true;
    }
    for (bool any = true; any;) {
        any = false;
        for (uint32_t s = 0; s < l->stages; s++) {
            any = advance(l, all, s) || any;
        }
    }
    bool all_done = l->status == STATUS_OK;
    for (uint32_t s = 0; s < l->stages && all_done; s++) {
        all_done = all[s].settled && all[s].done == order_of(l, s)->count;
    }
    return all_done;
}

static bool equally_many(const struct lowering *l)
{
    for (uint32_t s = 1; s < l->stages; s++) {
        if (lowering_replicas(l, s) != lowering_replicas(l, 0)) {
            return false;
        }
    }
    return true;
}

bool lowering_awaits_sends(struct lowering *l)
{
    const struct pipeline_order *order = l->request->order;
    if (l->lone_sends == SENDS_UNKNOWN) {
        bool may = equally_many(l) && !l->request->software->overlap_pipeline && l->stages > 1 &&
                   l->virtual_stages == 1 && order_copies(order) == 1 && !order->splits_backward &&
                   !order->asynchronous;
        l->lone_sends = may && ends(l) ? SENDS_AWAITED : SENDS_LEFT_ALONE;
    }
    return l->lone_sends == SENDS_AWAITED;
}
