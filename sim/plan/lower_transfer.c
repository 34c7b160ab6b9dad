/* What goes from stage to stage: who holds the other end, in how many pieces, on which queues, in which buffers. Where stages have as many replicas, a rank's peers are those of its own place;
 * else sim/plan/plan_replicas.h says who shares samples with whom. */
#include "sim/plan/lower_internal.h"

/* A message's other ends, and which part of the micro-batch goes there: replicas first .. first + count - 1 of a stage. */
struct peers {
    uint32_t stage, first, count;
};

static bool cuts(const struct lowering *l)
{
    return l->unequal && l->request->plan->replica_sharing == SHARING_CUT;
}

static void refuse_lanes(struct lowering *l)
{
    lower_fail(l, STATUS_LIMIT, "more than %d queues of one GPU of stage %u towards its peers%s", LANES_MAX,
               l->rank->stage, l->unequal ? ": give neighbouring stages replicas that differ less" : "");
}

/* Of the stage that holds a virtual stage. Cut: own slice d of r has the samples of slices floor(d R / r) .. ceil((d + 1) R / r) - 1 of R. */
static struct peers peers_at(struct lowering *l, uint32_t virtual_stage, uint32_t micro_batch)
{
    const struct rank_state *rank = l->rank;
    struct peers peers = { .first = rank->d, .count = 1 };
    uint32_t chunk;
    order_holder(l->request->order, &l->order_request, virtual_stage, &peers.stage, &chunk);
    if (!l->unequal) {
        return peers;
    }
    uint64_t there = lowering_replicas(l, peers.stage), own = lowering_replicas(l, rank->stage), d = rank->d;
    if (cuts(l)) {
        peers.first = (uint32_t)(d * there / own);
        peers.count = (uint32_t)(((d + 1) * there + own - 1) / own) - peers.first;
        if (peers.count > PIECES_MAX) { /* a lane each */
            refuse_lanes(l);
            peers.count = PIECES_MAX;
        }
    } else {
        peers.first = (uint32_t)(micro_batch % there);
    }
    return peers;
}

/* Bytes to or from one peer of a message that has `bytes` on each device of the producing stage. */
static double piece_bytes(const struct lowering *l, const struct peers *peers, uint32_t replica, bool sends,
                          double bytes)
{
    if (!cuts(l)) {
        return bytes;
    }
    /* in units of 1 / (own * there) of the micro-batch */
    uint64_t there = lowering_replicas(l, peers->stage), own = lowering_replicas(l, l->rank->stage), d = l->rank->d;
    uint64_t from = d * there > replica * own ? d * there : replica * own;
    uint64_t to = (d + 1) * there < (replica + (uint64_t)1) * own ? (d + 1) * there : (replica + (uint64_t)1) * own;
    return bytes * (double)(to - from) / (double)(sends ? there : own);
}

/* ---- queues ---- */

static uint32_t lane_to(struct lowering *l, enum lane_kind kind, uint32_t peer_stage, uint32_t peer_replica)
{
    static const char *const words[] = { "send forward",  "recv forward", "send backward",
                                         "recv backward", "swap out",     "swap in" };
    struct rank_state *rank = l->rank;
    for (uint32_t i = 0; i < rank->lane_count; i++) {
        const struct lane *lane = &rank->lanes[i];
        if (lane->kind == kind && lane->peer_stage == peer_stage && lane->peer_replica == peer_replica) {
            return lane->queue;
        }
    }
    if (rank->lane_count == LANES_MAX) {
        refuse_lanes(l);
        return rank->lanes[0].queue;
    }
    uint32_t queue = builder_queue(l->builder, QUEUE_P2P, words[kind]);
    rank->lanes[rank->lane_count++] =
        (struct lane){ .peer_stage = peer_stage, .peer_replica = peer_replica, .queue = queue, .kind = (uint8_t)kind };
    return queue;
}

uint32_t lowering_lane(struct lowering *l, enum lane_kind kind, uint32_t peer_stage)
{
    return lane_to(l, kind, peer_stage, l->rank->d);
}

/* Takes no time: where the pieces of a message begin or end together, on a queue of its own. */
static uint32_t join(struct lowering *l, enum lane_kind kind)
{
    return lowering_op(l, OP_MARK, lane_to(l, kind, l->rank->stage, l->rank->d), SCHED_NONE, PHASE_PIPELINE_COMM);
}

/* ---- matches ---- */

/* Which of the messages (or pieces) of one micro-batch over a boundary it is. Slices of two stages overlap along a staircase, so the sum of their numbers names a pair. */
static uint32_t piece_index(const struct lowering *l, uint32_t replica)
{
    return !l->unequal ? (l->fold ? 0 : lowering_rank_in_stage(l, l->rank))
           : cuts(l)   ? (l->rank->d + replica) * l->tensor + l->rank->t
                       : l->rank->t;
}

/* `producer` is the virtual stage that produces: its output goes to the next (forward), its input gradient to the one before (backward). */
static uint32_t match_of(struct lowering *l, bool backward, uint32_t producer, uint32_t micro_batch,
                         const struct peers *peers, uint32_t replica, bool sends)
{
    const struct rank_state *rank = l->rank;
    uint32_t *matches = backward ? l->backward_matches : l->forward_matches;
    size_t piece = (size_t)piece_index(l, replica) * l->stages * l->virtual_stages + producer;
    uint32_t *match = &matches[piece * l->micro_batches + micro_batch];
    if (*match != SCHED_NONE) {
        return *match;
    }
    uint32_t group;
    if (l->unequal) {
        uint32_t there = lowering_gpu(l, peers->stage, replica, rank->c, rank->t);
        const uint32_t members[2] = { sends ? rank->device : there, sends ? there : rank->device };
        group = builder_group(l->builder, members, 2, 1, "pipeline");
    } else {
        group = lowering_pair_group(l, sends ? rank->stage : peers->stage, sends ? peers->stage : rank->stage);
    }
    return *match = builder_match(l->builder, group, 2);
}

/* ---- messages ---- */

/* Without overlap a receive is posted after the compute before it, as torch.distributed's stream semantics make it; the compute after waits for it, and in a
 * stack that synchronises so does the host. They wait for a send that is batched with it too, and for lone ones where lower_exchange.c says so. */
static void await_receive(struct lowering *l, uint32_t op)
{
    l->rank->host_must_wait = l->request->software->pipeline_synchronises;
    lower_next_depends(l, op);
    lower_next_depends(l, l->rank->exchanged);
    l->rank->exchanged = SCHED_NONE;
}

/* The received activation, and what of it the pass hands on unread. */
static void acquire_received(struct lowering *l, uint32_t buffer)
{
    builder_acquire(l->builder, buffer);
    if (l->rank->passing != SCHED_NONE) {
        builder_acquire(l->builder, l->rank->passing);
    }
}

uint32_t lowering_receive(struct lowering *l, bool backward, uint32_t producer, uint32_t chunk, uint32_t micro_batch)
{
    struct rank_state *rank = l->rank;
    const struct peers peers = peers_at(l, producer, micro_batch);
    if (peers.stage == rank->stage) {
        return SCHED_NONE;
    }
    enum lane_kind kind = backward ? LANE_RECV_BACKWARD : LANE_RECV_FORWARD;
    uint32_t from = backward ? lowering_first_position(l, producer) : lowering_last_position(l, producer);
    uint32_t to = backward ? from - 1 : from + 1;
    double passing = backward ? 0 : lowering_passing_bytes(l, to);
    double bytes = lowering_arriving_bytes(l, from, to) - passing, sent = lowering_sent_bytes(l, from, to);
    /* A received activation is its layer's saved input: it lives until the backward. A received gradient is only passing through. */
    uint32_t buffer = lower_buffer(l, SPACE_DEVICE, bytes, backward ? BUFFER_BOUNDARY : BUFFER_ACTIVATION, 0,
                                   backward ? "received gradient" : "received activation");
    uint32_t after = l->request->software->overlap_pipeline ? SCHED_NONE : rank->last_compute, op = SCHED_NONE;
    uint32_t received[PIECES_MAX];
    if (passing > 0) {
        rank->passing = lower_buffer(l, SPACE_DEVICE, passing, BUFFER_BOUNDARY, 0, "activation passing through");
    }
    if (peers.count > 1) {
        op = join(l, kind);
        acquire_received(l, buffer);
        builder_depends(l->builder, after);
        after = op;
    }
    for (uint32_t i = 0; i < peers.count; i++) {
        uint32_t replica = peers.first + i;
        uint32_t queue = lane_to(l, kind, peers.stage, replica);
        double part = piece_bytes(l, &peers, replica, false, sent);
        uint32_t work = builder_work_transfer(l->builder, part, false);
        op = received[i] = lowering_op(l, OP_RECV, queue, work, PHASE_PIPELINE_COMM);
        if (peers.count == 1) {
            acquire_received(l, buffer);
        } else {
            builder_write(l->builder, buffer);
        }
        builder_depends(l->builder, after);
        builder_depends(l->builder, rank->lone_send);
        builder_set_match(l->builder, match_of(l, backward, producer, micro_batch, &peers, replica, false));
        builder_tag(l->builder, (uint16_t)micro_batch, (uint16_t)chunk, OP_TAG_NONE);
    }
    rank->lone_send = SCHED_NONE;
    if (peers.count > 1) {
        op = join(l, kind);
        for (uint32_t i = 0; i < peers.count; i++) {
            builder_depends(l->builder, received[i]);
        }
    }
    await_receive(l, op);
    return lowering_complete(l, buffer, from, to, chunk, micro_batch);
}

void lowering_prepare_output(struct lowering *l, bool backward, uint32_t producer, uint32_t consumer)
{
    struct rank_state *rank = l->rank;
    uint32_t from = backward ? lowering_first_position(l, producer) : lowering_last_position(l, producer);
    rank->output = SCHED_NONE;
    if (peers_at(l, consumer, 0).stage != rank->stage) {
        double bytes =
            lowering_crossing_bytes(l, &l->layouts[l->layout_at[from]], from, backward ? from - 1 : from + 1);
        rank->output = lower_buffer(l, SPACE_DEVICE, bytes, BUFFER_BOUNDARY, 0,
                                    backward ? "gradient to send" : "activation to send");
    }
}

void lowering_send_output(struct lowering *l, bool backward, uint32_t producer, uint32_t consumer, uint32_t chunk,
                          uint32_t micro_batch)
{
    struct rank_state *rank = l->rank;
    if (rank->output == SCHED_NONE) {
        return;
    }
    enum lane_kind kind = backward ? LANE_SEND_BACKWARD : LANE_SEND_FORWARD;
    uint32_t from = backward ? lowering_first_position(l, producer) : lowering_last_position(l, producer);
    uint32_t to = backward ? from - 1 : from + 1;
    lowering_slice_output(l, from, to, chunk, micro_batch);
    const struct peers peers = peers_at(l, consumer, micro_batch);
    double sent = lowering_sent_bytes(l, from, to);
    uint32_t made_by = rank->last_compute, ops[PIECES_MAX];
    for (uint32_t i = 0; i < peers.count; i++) {
        uint32_t replica = peers.first + i;
        uint32_t queue = lane_to(l, kind, peers.stage, replica);
        double part = piece_bytes(l, &peers, replica, true, sent);
        uint32_t work = builder_work_transfer(l->builder, part, false);
        rank->last_send = ops[i] = lowering_op(l, OP_SEND, queue, work, PHASE_PIPELINE_COMM);
        builder_depends(l->builder, made_by);
        builder_read(l->builder, rank->output);
        if (peers.count == 1) {
            builder_release(l->builder, rank->output);
        }
        builder_set_match(l->builder, match_of(l, backward, producer, micro_batch, &peers, replica, true));
        builder_tag(l->builder, (uint16_t)micro_batch, (uint16_t)chunk, OP_TAG_NONE);
    }
    if (peers.count > 1) { /* whole until its last piece has gone */
        join(l, kind);
        for (uint32_t i = 0; i < peers.count; i++) {
            builder_depends(l->builder, ops[i]);
        }
        builder_release(l->builder, rank->output);
    }
    rank->output = SCHED_NONE;
}
