/* The walk along the pipeline order: receives, passes, sends. */
#include "sim/base/check.h"
#include "sim/plan/lower_internal.h"

static void forward_step(struct lowering *l, uint32_t chunk, uint32_t micro_batch)
{
    struct rank_state *rank = l->rank;
    uint32_t v = order_virtual_stage(l->request->order, &l->order_request, rank->stage, chunk);
    bool last = lowering_is_last(l, v);
    if (chunk == 0) {
        rank->next_flags |= OP_FLAG_MICRO_BATCH;
    }
    if (!lowering_is_first(l, v)) {
        uint32_t received = lowering_receive(l, false, v - 1, chunk, micro_batch);
        rank->boundary_in[(size_t)chunk * rank->slots + lowering_slot(l, micro_batch)] = received;
        if (received == SCHED_NONE) {
            uint32_t from = lowering_last_position(l, v - 1);
            lowering_redistribute(l, from, from + 1, chunk, micro_batch);
        }
    }
    if (!last) {
        lowering_prepare_output(l, false, v, v + 1);
    }
    lowering_chunk_pass(l, chunk, LOWER_FORWARD, micro_batch);
    if (rank->passing != SCHED_NONE) {
        builder_release_at(l->builder, rank->last_compute, rank->passing);
        rank->passing = SCHED_NONE;
    }
    if (!last) {
        lowering_send_output(l, false, v, v + 1, chunk, micro_batch);
    }
}

/* Returns whether it was the last before an update. */
static bool backward_step(struct lowering *l, uint32_t chunk, uint32_t micro_batch)
{
    struct rank_state *rank = l->rank;
    uint32_t v = order_virtual_stage(l->request->order, &l->order_request, rank->stage, chunk);
    uint32_t gradient = SCHED_NONE;
    if (!lowering_is_last(l, v)) {
        gradient = lowering_receive(l, true, v + 1, chunk, micro_batch);
        if (gradient == SCHED_NONE) {
            uint32_t from = lowering_first_position(l, v + 1);
            lowering_redistribute(l, from, from - 1, chunk, micro_batch);
        }
    }
    bool first = lowering_is_first(l, v);
    if (!first) {
        lowering_prepare_output(l, true, v, v - 1);
    }
    bool last_pass = lowering_chunk_pass(l, chunk, LOWER_BACKWARD, micro_batch);
    if (gradient != SCHED_NONE) {
        builder_release_at(l->builder, rank->last_compute, gradient);
    }
    if (!first) {
        lowering_send_output(l, true, v, v - 1, chunk, micro_batch);
    }
    return last_pass;
}

/* The passes that a chunk makes before its weights are updated. */
static void count_weight_passes(struct lowering *l, const struct order_step *steps, uint32_t count)
{
    struct rank_state *rank = l->rank;
    const struct pipeline_order *order = l->request->order;
    for (uint32_t i = 0; i < count; i++) {
        rank->weight_passes[steps[i].chunk] += steps[i].kind == STEP_FORWARD;
    }
    for (uint32_t chunk = 0; order->asynchronous && chunk < l->virtual_stages; chunk++) {
        uint32_t a_step = (uint32_t)l->request->plan->micro_batches / order_replicas(&l->order_request, rank->stage);
        rank->weight_passes[chunk] = order->accumulates ? a_step : 1;
    }
}

/* What the step has sent: with the next step's receive, on its own and waited for, or on its own. `next` NULL: it was the last. */
static void wait_for_send(struct lowering *l, const struct order_step *step, const struct order_step *next)
{
    struct rank_state *rank = l->rank;
    rank->exchanged = rank->lone_send = SCHED_NONE;
    if (rank->last_send == SCHED_NONE) {
        return;
    }
    if (next != NULL && lowering_exchanges(l, step, next)) {
        rank->exchanged = rank->last_send;
    } else if (lowering_awaits_sends(l)) {
        rank->lone_send = rank->last_send;
        rank->host_must_wait = l->request->software->pipeline_synchronises;
        lower_next_depends(l, rank->last_send);
    }
}

static void walk_steps(struct lowering *l, const struct order_step *steps, uint32_t count, uint32_t first_micro_batch)
{
    const struct pipeline_order *order = l->request->order;
    uint32_t a_step = (uint32_t)l->request->plan->micro_batches;
    for (uint32_t i = 0; i < count && l->status == STATUS_OK; i++) {
        uint32_t chunk = steps[i].chunk, micro_batch = first_micro_batch + steps[i].micro_batch;
        bool last = false;
        l->rank->last_send = SCHED_NONE;
        switch ((enum step_kind)steps[i].kind) {
        case STEP_FORWARD:
            if (order->asynchronous && chunk == 0 && micro_batch >= a_step &&
                micro_batch % a_step == l->order_request.replica) { /* the first of the step that is this replica's */
                l->rank->next_flags |= OP_FLAG_STEP;
            }
            forward_step(l, chunk, micro_batch);
            break;
        case STEP_BACKWARD: last = backward_step(l, chunk, micro_batch); break;
        case STEP_BACKWARD_WEIGHT: last = lowering_chunk_pass(l, chunk, LOWER_BACKWARD_WEIGHT, micro_batch); break;
        case STEP_KIND_COUNT: check_failed("a step kind", __FILE__, __LINE__); break;
        }
        if (order->asynchronous && last) {
            lowering_update(l);
        }
        wait_for_send(l, &steps[i], i + 1 < count ? &steps[i + 1] : NULL);
    }
}

enum status lowering_walk(struct lowering *l)
{
    struct rank_state *rank = l->rank;
    const struct pipeline_order *order = l->request->order;
    struct order_step *steps =
        arena_array(&l->arena, struct order_step, order_step_count(order, &l->order_request) / rank->replicas_dealt);
    if (steps == NULL) {
        return error_set(l->error, STATUS_NO_MEMORY, "out of memory for the pipeline order");
    }
    uint32_t count;
    l->order_request.replica = l->order_request.replicas != NULL ? rank->d : 0;
    TRY(order_steps(order, &l->order_request, rank->stage, steps, &count, l->error));
    count_weight_passes(l, steps, count);
    if (order->asynchronous) { /* one stream */
        lowering_begin_step(l);
        walk_steps(l, steps, count, 0);
        return l->status;
    }
    for (uint32_t step = 0; step < l->steps; step++) {
        if (step > 0) {
            lower_next_depends(l, rank->last_data); /* ZeRO-1 gathers new weights */
        }
        lowering_begin_step(l);
        walk_steps(l, steps, count, step * l->order_request.micro_batches);
        lowering_end_step(l);
    }
    return l->status;
}
