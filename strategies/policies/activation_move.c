/* Carrying out: copies down (or to other devices) after forwards, up before backwards. */
#include "sim/ir/builder.h"
#include "strategies/policies/activation_kit.h"

struct activation_rank *activation_begin(struct lowering *lowering)
{
    uint32_t count;
    const struct lower_layer *layers = lower_layers(lowering, &count);
    struct activation_rank *rank = arena_array(lower_arena(lowering), struct activation_rank, 1);
    uint8_t *modes = arena_array(lower_arena(lowering), uint8_t, count);
    *lower_policy_state(lowering) = rank;
    if (rank == NULL || modes == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for the activations of a rank");
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        modes[i] = (uint8_t)layers[i].recompute;
    }
    if (!activation_open(lowering, modes, rank)) {
        return NULL;
    }
    return rank;
}

void activation_ready(struct lowering *lowering, struct activation_rank *rank)
{
    uint32_t *first = arena_array(lower_arena(lowering), uint32_t, (size_t)rank->pass_count + 1);
    uint32_t *next = arena_array(lower_arena(lowering), uint32_t, rank->pass_count);
    rank->due = arena_array(lower_arena(lowering), struct activation_saving *, rank->pass_count);
    if (first == NULL || next == NULL || rank->due == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for the activations of a rank");
        return;
    }
    for (size_t i = 0; i < (size_t)rank->layer_count * rank->micro_batches; i++) {
        first[rank->savings[i].trigger + 1] += rank->savings[i].moves;
    }
    for (uint32_t p = 0; p < rank->pass_count; p++) {
        first[p + 1] += first[p];
        next[p] = first[p];
    }
    for (uint32_t p = 0; p < rank->pass_count; p++) {
        const struct activation_pass *pass = &rank->passes[p];
        struct activation_saving *saving = activation_saving_of(rank, pass->layer, pass->micro_batch);
        if (pass->kind == LOWER_BACKWARD && saving->moves) {
            rank->due[next[saving->trigger]++] = saving;
        }
    }
    rank->due_first = first;
}

/* To other devices, all stripes at once; its own memory is free when the last has arrived. */
static uint32_t send_stripes(struct lowering *lowering, struct activation_saving *saving, uint32_t after,
                             uint32_t device)
{
    for (uint32_t i = 0; i < saving->stripe_count; i++) {
        struct activation_stripe *stripe = &saving->stripes[i];
        stripe->peer = lower_peer_buffer(lowering, stripe->stage, stripe->bytes, BUFFER_ACTIVATION, 0,
                                         "saved for backward, for another stage");
        stripe->down = lower_copy_to_peer(lowering, stripe->stage, stripe->bytes, after, device, stripe->peer);
        builder_acquire(lower_builder(lowering), stripe->peer);
    }
    uint32_t gone = lower_peer_join(lowering, true, SCHED_NONE);
    for (uint32_t i = 0; i < saving->stripe_count; i++) {
        builder_depends(lower_builder(lowering), saving->stripes[i].down);
    }
    builder_release(lower_builder(lowering), device);
    return gone;
}

static void fetch_stripes(struct lowering *lowering, struct activation_saving *saving, uint32_t after, uint32_t device)
{
    saving->up = lower_peer_join(lowering, false, after);
    builder_acquire(lower_builder(lowering), device);
    for (uint32_t i = 0; i < saving->stripe_count; i++) {
        struct activation_stripe *stripe = &saving->stripes[i];
        stripe->up = lower_copy_from_peer(lowering, stripe->stage, stripe->bytes, saving->up, device, stripe->peer);
        builder_depends(lower_builder(lowering), stripe->down);
        builder_release(lower_builder(lowering), stripe->peer);
    }
}

static void bring_up(struct lowering *lowering, const struct activation_rank *rank, struct activation_saving *saving)
{
    uint32_t after = lower_last_compute(lowering);
    uint32_t device =
        lower_buffer(lowering, SPACE_DEVICE, saving->bytes, BUFFER_ACTIVATION, 0, "saved for backward, back again");
    if (saving->stripe_count > 0) {
        fetch_stripes(lowering, saving, after, device);
    } else {
        saving->up = lower_copy_to_device(lowering, saving->bytes, false, saving->down, device, saving->host);
        builder_depends(lower_builder(lowering), after);
    }
    lower_activation_give(lowering, &rank->layers[saving->layer], saving->micro_batch, device);
}

void activation_before_pass(struct lowering *lowering, const struct lower_pass *pass)
{
    struct activation_rank *rank = *lower_policy_state(lowering);
    struct activation_saving *own = activation_saving_of(rank, pass->layer->index, pass->micro_batch);
    for (uint32_t i = 0; rank->due_first != NULL && i < rank->due_first[rank->at + 1] - rank->due_first[rank->at];
         i++) {
        bring_up(lowering, rank, rank->due[rank->due_first[rank->at] + i]);
    }
    lower_next_depends(lowering, rank->wait_for[0][rank->at]);
    lower_next_depends(lowering, rank->wait_for[1][rank->at]);
    if (pass->kind == LOWER_BACKWARD && own->moves) {
        lower_next_depends(lowering, own->up);
        for (uint32_t i = 0; i < own->stripe_count; i++) {
            lower_next_depends(lowering, own->stripes[i].up);
        }
    }
}

void activation_after_pass(struct lowering *lowering, const struct lower_pass *pass)
{
    struct activation_rank *rank = *lower_policy_state(lowering);
    struct activation_saving *saving = activation_saving_of(rank, pass->layer->index, pass->micro_batch);
    if (pass->kind == LOWER_FORWARD && saving->moves) {
        uint32_t end = lower_last_compute(lowering);
        uint32_t device = lower_activation_take(lowering, pass->layer, pass->micro_batch);
        bool striped = saving->stripe_count > 0;
        if (striped) {
            saving->down = send_stripes(lowering, saving, end, device);
        } else {
            saving->host =
                lower_buffer(lowering, SPACE_PINNED, saving->bytes, BUFFER_ACTIVATION, 0, "saved for backward");
            saving->down = lower_copy_to_host(lowering, saving->bytes, false, end, saving->host, device);
        }
        lower_next_depends(lowering, rank->waits ? saving->down : SCHED_NONE);
        if (saving->gone_by != SCHED_NONE) {
            rank->wait_for[striped][saving->gone_by + 1] =
                saving->down; /* each kind ends in order: the latest is enough */
        }
    }
    rank->at++;
}
