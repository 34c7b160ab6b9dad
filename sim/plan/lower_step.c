/* The walk along the pipeline order: receives, passes, sends. */
#include "sim/base/check.h"
#include "sim/plan/lower_internal.h"

uint32_t lowering_lane(struct lowering *l, enum lane_kind kind, uint32_t peer_stage)
{
    static const char *const words[] = { "send forward",  "recv forward", "send backward",
                                         "recv backward", "swap out",     "swap in" };
    struct rank_state *rank = l->rank;
    for (uint32_t i = 0; i < rank->lane_count; i++) {
        if (rank->lanes[i].kind == kind && rank->lanes[i].peer_stage == peer_stage) {
            return rank->lanes[i].queue;
        }
    }
    if (rank->lane_count == LANES_MAX) {
        lower_fail(l, STATUS_LIMIT, "more than %d queues of one stage towards its peers", LANES_MAX);
        return rank->lanes[0].queue;
    }
    uint32_t queue = builder_queue(l->builder, QUEUE_P2P, words[kind]);
    rank->lanes[rank->lane_count++] = (struct lane){ .peer_stage = peer_stage, .queue = queue, .kind = (uint8_t)kind };
    return queue;
}

/* The stage that holds a virtual stage. */
static uint32_t holder(const struct lowering *l, uint32_t virtual_stage)
{
    uint32_t stage, chunk;
    order_holder(l->request->order, &l->order_request, virtual_stage, &stage, &chunk);
    return stage;
}

/* Without overlap a receive is posted after the compute before it, as torch.distributed's stream semantics make it; the compute after waits for it, and in a
 * stack that synchronises so does the host. They wait for a send that is batched with it too, and for lone ones where lower_exchange.c says so. */
static void await_receive(struct lowering *l, uint32_t op)
{
    l->rank->host_must_wait = l->request->software->pipeline_synchronises;
    lower_next_depends(l, op);
    lower_next_depends(l, l->rank->exchanged);
    l->rank->exchanged = SCHED_NONE;
}

/* Receive what `producer` (a virtual stage) made; returns the buffer, or SCHED_NONE when it is made on this very rank. */
static uint32_t receive(struct lowering *l, bool backward, uint32_t producer, uint32_t chunk, uint32_t micro_batch)
{
    struct rank_state *rank = l->rank;
    uint32_t peer = holder(l, producer);
    if (peer == rank->stage) {
        return SCHED_NONE;
    }
    uint32_t from = backward ? lowering_first_position(l, producer) : lowering_last_position(l, producer);
    uint32_t to = backward ? from - 1 : from + 1;
    double bytes = lowering_arriving_bytes(l, to);
    /* A received activation is its layer's saved input: it lives until the backward. A received gradient is only passing through. */
    uint32_t buffer = lower_buffer(l, SPACE_DEVICE, bytes, backward ? BUFFER_BOUNDARY : BUFFER_ACTIVATION, 0,
                                   backward ? "received gradient" : "received activation");
    uint32_t queue = lowering_lane(l, backward ? LANE_RECV_BACKWARD : LANE_RECV_FORWARD, peer);
    uint32_t work = builder_work_transfer(l->builder, lowering_sent_bytes(l, from, to), false);
    uint32_t after = l->request->software->overlap_pipeline ? SCHED_NONE : rank->last_compute;
    uint32_t op = lowering_op(l, OP_RECV, queue, work, PHASE_PIPELINE_COMM);
    builder_acquire(l->builder, buffer);
    builder_depends(l->builder, after);
    builder_depends(l->builder, rank->lone_send);
    rank->lone_send = SCHED_NONE;
    builder_set_match(l->builder, lowering_transfer_match(l, backward, producer, micro_batch, peer, rank->stage));
    builder_tag(l->builder, (uint16_t)micro_batch, (uint16_t)chunk, OP_TAG_NONE);
    await_receive(l, op);
    return lowering_complete(l, buffer, from, to, chunk, micro_batch);
}

/* The buffer for what a pass will send to the stage that holds `consumer`; SCHED_NONE when it stays here. Acquired by the pass's last layer. */
static void prepare_output(struct lowering *l, bool backward, uint32_t producer, uint32_t consumer)
{
    struct rank_state *rank = l->rank;
    uint32_t from = backward ? lowering_first_position(l, producer) : lowering_last_position(l, producer);
    rank->output = SCHED_NONE;
    if (holder(l, consumer) != rank->stage) {
        rank->output = lower_buffer(l, SPACE_DEVICE, l->layouts[l->layout_at[from]].boundary_bytes, BUFFER_BOUNDARY, 0,
                                    backward ? "gradient to send" : "activation to send");
    }
}

static void send_output(struct lowering *l, bool backward, uint32_t producer, uint32_t consumer, uint32_t chunk,
                        uint32_t micro_batch)
{
    struct rank_state *rank = l->rank;
    if (rank->output == SCHED_NONE) {
        return;
    }
    uint32_t from = backward ? lowering_first_position(l, producer) : lowering_last_position(l, producer);
    uint32_t to = backward ? from - 1 : from + 1;
    lowering_slice_output(l, from, to, chunk, micro_batch);
    uint32_t peer = holder(l, consumer);
    uint32_t queue = lowering_lane(l, backward ? LANE_SEND_BACKWARD : LANE_SEND_FORWARD, peer);
    uint32_t work = builder_work_transfer(l->builder, lowering_sent_bytes(l, from, to), false);
    uint32_t made_by = rank->last_compute;
    rank->last_send = lowering_op(l, OP_SEND, queue, work, PHASE_PIPELINE_COMM);
    builder_depends(l->builder, made_by);
    builder_read(l->builder, rank->output);
    builder_release(l->builder, rank->output);
    builder_set_match(l->builder, lowering_transfer_match(l, backward, producer, micro_batch, rank->stage, peer));
    builder_tag(l->builder, (uint16_t)micro_batch, (uint16_t)chunk, OP_TAG_NONE);
    rank->output = SCHED_NONE;
}

static void forward_step(struct lowering *l, uint32_t chunk, uint32_t micro_batch)
{
    struct rank_state *rank = l->rank;
    uint32_t v = order_virtual_stage(l->request->order, &l->order_request, rank->stage, chunk);
    bool last = lowering_is_last(l, v);
    if (chunk == 0) {
        rank->next_flags |= OP_FLAG_MICRO_BATCH;
    }
    if (!lowering_is_first(l, v)) {
        uint32_t received = receive(l, false, v - 1, chunk, micro_batch);
        rank->boundary_in[(size_t)chunk * l->micro_batches + micro_batch] = received;
        if (received == SCHED_NONE) {
            uint32_t from = lowering_last_position(l, v - 1);
            lowering_redistribute(l, from, from + 1, chunk, micro_batch);
        }
    }
    if (!last) {
        prepare_output(l, false, v, v + 1);
    }
    lowering_chunk_pass(l, chunk, LOWER_FORWARD, micro_batch);
    if (!last) {
        send_output(l, false, v, v + 1, chunk, micro_batch);
    }
}

/* Returns whether it was the last before an update. */
static bool backward_step(struct lowering *l, uint32_t chunk, uint32_t micro_batch)
{
    struct rank_state *rank = l->rank;
    uint32_t v = order_virtual_stage(l->request->order, &l->order_request, rank->stage, chunk);
    uint32_t gradient = SCHED_NONE;
    if (!lowering_is_last(l, v)) {
        gradient = receive(l, true, v + 1, chunk, micro_batch);
        if (gradient == SCHED_NONE) {
            uint32_t from = lowering_first_position(l, v + 1);
            lowering_redistribute(l, from, from - 1, chunk, micro_batch);
        }
    }
    bool first = lowering_is_first(l, v);
    if (!first) {
        prepare_output(l, true, v, v - 1);
    }
    bool last_pass = lowering_chunk_pass(l, chunk, LOWER_BACKWARD, micro_batch);
    if (gradient != SCHED_NONE) {
        builder_release_at(l->builder, rank->last_compute, gradient);
    }
    if (!first) {
        send_output(l, true, v, v - 1, chunk, micro_batch);
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
        rank->weight_passes[chunk] = order->accumulates ? (uint32_t)l->request->plan->micro_batches : 1;
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
            if (order->asynchronous && chunk == 0 && micro_batch > 0 && micro_batch % a_step == 0) {
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
    struct order_step *steps = arena_array(&l->arena, struct order_step, order_step_count(order, &l->order_request));
    if (steps == NULL) {
        return error_set(l->error, STATUS_NO_MEMORY, "out of memory for the pipeline order");
    }
    uint32_t count;
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
