/* Carrying out: copies down after forwards, up before backwards. */
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

void activation_ready(struct activation_rank *rank)
{
    rank->reach = 0;
    for (size_t i = 0; i < (size_t)rank->layer_count * rank->micro_batches; i++) {
        const struct activation_saving *saving = &rank->savings[i];
        uint32_t passes = saving->moves ? saving->backward - saving->trigger : 0;
        rank->reach = passes > rank->reach ? passes : rank->reach;
    }
}

static void bring_up(struct lowering *lowering, const struct activation_rank *rank, struct activation_saving *saving)
{
    uint32_t after = lower_last_compute(lowering);
    uint32_t device =
        lower_buffer(lowering, SPACE_DEVICE, saving->bytes, BUFFER_ACTIVATION, 0, "saved for backward, from the host");
    saving->up = lower_copy_to_device(lowering, saving->bytes, false, saving->down, device, saving->host);
    builder_depends(lower_builder(lowering), after);
    lower_activation_give(lowering, &rank->layers[saving->layer], saving->micro_batch, device);
}

void activation_before_pass(struct lowering *lowering, const struct lower_pass *pass)
{
    struct activation_rank *rank = *lower_policy_state(lowering);
    struct activation_saving *own = activation_saving_of(rank, pass->layer->index, pass->micro_batch);
    /* What comes up next is what is needed next: passes from here on in order, of those that are due. */
    for (uint32_t p = rank->at; p < rank->pass_count && p <= rank->at + rank->reach; p++) {
        struct activation_saving *saving =
            activation_saving_of(rank, rank->passes[p].layer, rank->passes[p].micro_batch);
        if (rank->passes[p].kind == LOWER_BACKWARD && saving->moves && saving->trigger <= rank->at &&
            saving->up == SCHED_NONE) {
            bring_up(lowering, rank, saving);
        }
    }
    lower_next_depends(lowering, rank->wait_for[rank->at]);
    if (pass->kind == LOWER_BACKWARD && own->moves) {
        lower_next_depends(lowering, own->up);
    }
}

void activation_after_pass(struct lowering *lowering, const struct lower_pass *pass)
{
    struct activation_rank *rank = *lower_policy_state(lowering);
    struct activation_saving *saving = activation_saving_of(rank, pass->layer->index, pass->micro_batch);
    if (pass->kind == LOWER_FORWARD && saving->moves) {
        uint32_t end = lower_last_compute(lowering);
        uint32_t device = lower_activation_take(lowering, pass->layer, pass->micro_batch);
        saving->host = lower_buffer(lowering, SPACE_PINNED, saving->bytes, BUFFER_ACTIVATION, 0, "saved for backward");
        saving->down = lower_copy_to_host(lowering, saving->bytes, false, end, saving->host, device);
        lower_next_depends(lowering, rank->waits ? saving->down : SCHED_NONE);
        if (saving->gone_by != SCHED_NONE) {
            rank->wait_for[saving->gone_by + 1] = saving->down; /* copies end in order: the latest is enough */
        }
    }
    rank->at++;
}
