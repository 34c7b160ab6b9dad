#include "strategies/policies/mpress_states.h"

#include <inttypes.h>
#include <math.h>

#include "sim/ir/builder.h"
#include "sim/plan/plan_layers.h"

/* Layers whose states visit the device at once: one is updated while the next comes and the one before goes. */
enum { VISITORS = 2 };

int64_t mpress_position(const struct lowering *lowering, const struct lower_layer *layer)
{
    return plan_position_of(lower_input(lowering)->model, layer->kind, layer->model_index);
}

double mpress_stripe_bytes(const struct tensor_move *move, double bytes, uint32_t i)
{
    double sum = 0, before = 0;
    for (uint32_t k = 0; k < move->stripe_count; k++) {
        sum += move->stripes[k].share;
        before += k < i ? move->stripes[k].share : 0;
    }
    double from = floor(bytes * before / sum);
    double to = i + 1 == move->stripe_count ? bytes : floor(bytes * (before + move->stripes[i].share) / sum);
    return to - from;
}

bool mpress_check_stripes(struct lowering *lowering, const struct tensor_move *move)
{
    uint32_t own = lower_stage(lowering);
    for (uint32_t i = 0; i < move->stripe_count; i++) {
        if (move->stripes[i].stage != (int64_t)own) {
            continue;
        }
        enum layer_kind kind = plan_position_kind(lower_input(lowering)->model, move->first);
        if (kind == LAYER_TRANSFORMER) {
            lower_fail(lowering, STATUS_BAD_INPUT,
                       "plan.moves: a stripe of layers %" PRId64 " to %" PRId64
                       " lies on stage %u, which holds these layers itself; name another stage",
                       move->first - 1, move->last - 1, own);
        } else {
            lower_fail(lowering, STATUS_BAD_INPUT,
                       "plan.moves: a stripe of the %s lies on stage %u, which holds it itself; name another stage",
                       layer_kind_word(kind), own);
        }
        return false;
    }
    return true;
}

static bool place_on_peers(struct lowering *lowering, struct mpress_states *states, const struct lower_layer *layer)
{
    const struct tensor_move *move = states->moves[layer->index];
    uint32_t *peers = arena_array(lower_arena(lowering), uint32_t, move->stripe_count);
    if (peers == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for a rank's optimizer");
        return false;
    }
    for (uint32_t i = 0; i < move->stripe_count; i++) {
        peers[i] = lower_peer_buffer(lowering, (uint32_t)move->stripes[i].stage,
                                     mpress_stripe_bytes(move, (double)layer->optimizer_bytes, i), BUFFER_OPTIMIZER,
                                     BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END, "optimizer states of another stage");
    }
    states->peers[layer->index] = peers;
    return mpress_check_stripes(lowering, move);
}

bool mpress_states_begin(struct lowering *lowering, struct mpress_states *states)
{
    uint32_t count;
    const struct lower_layer *layers = lower_layers(lowering, &count);
    states->moves = arena_array(lower_arena(lowering), const struct tensor_move *, count);
    states->peers = arena_array(lower_arena(lowering), uint32_t *, count);
    states->returned = arena_array(lower_arena(lowering), uint32_t, count);
    if (states->moves == NULL || states->peers == NULL || states->returned == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for a rank's optimizer");
        return false;
    }
    if (!host_adam_begin(lowering, &states->adam)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        states->returned[i] = SCHED_NONE;
        const struct tensor_move *move =
            plan_moves_find(lower_input(lowering)->plan, MOVE_OPTIMIZER, mpress_position(lowering, &layers[i]));
        if (move == NULL || layers[i].optimizer_bytes == 0) {
            continue;
        }
        states->moves[i] = move;
        if (move->target == MOVE_TO_CPU) {
            host_adam_take(lowering, &states->adam, &layers[i], SPACE_PINNED);
        } else if (move->target == MOVE_TO_DEVICES && !place_on_peers(lowering, states, &layers[i])) {
            return false;
        }
    }
    return true;
}

void mpress_states_gradient(struct lowering *lowering, struct mpress_states *states, const struct lower_layer *layer,
                            uint32_t after_op)
{
    const struct tensor_move *move = states->moves[layer->index];
    if (move != NULL && move->target == MOVE_TO_CPU) {
        host_adam_gradient(lowering, &states->adam, layer, after_op);
    }
}

/* ---- visits ---- */

struct visit {
    const struct lower_layer *layer;
    const struct tensor_move *move;
    const uint32_t *peers;
    uint32_t after; /* the op after which they are where they come from, or SCHED_NONE: they are */
    uint32_t buffer;
};

/* The next op of the compute queue waits for the states to have come. */
static void bring_states(struct lowering *lowering, struct visit *visit, uint32_t after_op, uint32_t slot_free)
{
    struct builder *builder = lower_builder(lowering);
    double bytes = (double)visit->layer->optimizer_bytes;
    visit->buffer = lower_buffer(lowering, SPACE_DEVICE, bytes, BUFFER_OPTIMIZER, 0, "optimizer states, visiting");
    if (visit->move->target == MOVE_TO_HOST) {
        uint32_t up = lower_copy_to_device(lowering, bytes, false, after_op, visit->buffer, SCHED_NONE);
        builder_depends(builder, slot_free);
        builder_depends(builder, visit->after);
        lower_next_depends(lowering, up);
        return;
    }
    uint32_t begin = lower_peer_join(lowering, false, after_op);
    builder_depends(builder, slot_free);
    builder_depends(builder, visit->after);
    builder_acquire(builder, visit->buffer);
    for (uint32_t i = 0; i < visit->move->stripe_count; i++) {
        lower_next_depends(lowering, lower_copy_from_peer(lowering, (uint32_t)visit->move->stripes[i].stage,
                                                          mpress_stripe_bytes(visit->move, bytes, i), begin,
                                                          visit->buffer, visit->peers[i]));
    }
}

/* Returns the op after which the device's memory is free again. */
static uint32_t return_states(struct lowering *lowering, const struct visit *visit, uint32_t update)
{
    struct builder *builder = lower_builder(lowering);
    double bytes = (double)visit->layer->optimizer_bytes;
    uint32_t downs[MOVE_STRIPES_MAX];
    if (visit->move->target == MOVE_TO_HOST) {
        return lower_copy_to_host(lowering, bytes, false, update, SCHED_NONE, visit->buffer);
    }
    for (uint32_t i = 0; i < visit->move->stripe_count; i++) {
        downs[i] =
            lower_copy_to_peer(lowering, (uint32_t)visit->move->stripes[i].stage,
                               mpress_stripe_bytes(visit->move, bytes, i), update, visit->buffer, visit->peers[i]);
    }
    uint32_t gone = lower_peer_join(lowering, true, SCHED_NONE);
    for (uint32_t i = 0; i < visit->move->stripe_count; i++) {
        builder_depends(builder, downs[i]);
    }
    builder_release(builder, visit->buffer);
    return gone;
}

static uint32_t update_visitors(struct lowering *lowering, const struct mpress_states *states, uint32_t after_op)
{
    uint32_t count, gone[VISITORS], visits = 0, passes_end = lower_last_compute(lowering), last = after_op;
    const struct lower_layer *layers = lower_layers(lowering, &count);
    for (uint32_t i = 0; i < VISITORS; i++) {
        gone[i] = SCHED_NONE;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct tensor_move *move = states->moves[i];
        if (move == NULL || move->target == MOVE_TO_CPU) {
            continue;
        }
        struct visit visit = {
            .layer = &layers[i], .move = move, .peers = states->peers[i], .after = states->returned[i]
        };
        bring_states(lowering, &visit, passes_end, gone[visits % VISITORS]);
        last = lower_device_optimizer_of(lowering, layers[i].owned_parameters, after_op);
        states->returned[i] = gone[visits++ % VISITORS] = return_states(lowering, &visit, last);
    }
    return last;
}

uint32_t mpress_states_update(struct lowering *lowering, const struct mpress_states *states, uint32_t after_op,
                              const uint32_t *written_after)
{
    uint32_t count, moved = 0, up = SCHED_NONE;
    const struct lower_layer *layers = lower_layers(lowering, &count);
    double staying = 0;
    for (uint32_t i = 0; i < count; i++) {
        moved += states->moves[i] != NULL;
        staying += states->moves[i] == NULL ? layers[i].owned_parameters : 0;
        if (states->moves[i] != NULL && states->moves[i]->target == MOVE_TO_CPU) {
            up = host_adam_update(lowering, &states->adam, &layers[i], after_op);
            for (int k = 0; up != SCHED_NONE && k < 2; k++) {
                builder_depends(lower_builder(lowering), written_after[k]);
            }
        }
    }
    lower_next_depends(lowering, written_after[0]);
    lower_next_depends(lowering, written_after[1]);
    if (moved == 0) {
        return lower_device_optimizer(lowering, after_op);
    }
    uint32_t last = update_visitors(lowering, states, after_op);
    last = staying > 0 ? lower_device_optimizer_of(lowering, staying, after_op) : last;
    if (lower_input(lowering)->order->asynchronous) {
        lower_next_depends(lowering, up); /* copies up end in order: the last is enough */
    }
    return last;
}
