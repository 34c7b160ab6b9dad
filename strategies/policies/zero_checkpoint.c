/* Saved activations of transformer layers in host memory between forward and backward (DeepSpeed's cpu_checkpointing; ZeRO-Infinity's activation offload): with full recomputation each
 * layer's input. One copy may still be on its way down while the next layer runs; each comes up while the pass before the one that needs it runs.
 *
 * Preset `code`: DeepSpeed's buffers are pageable (torch.empty on the CPU, runtime/activation_checkpointing/checkpointing.py), so the host thread is in a copy down until it ends and
 * issues the next layer only then. Copies up are issued on the stream of the kernels (its transport stream is commented out there): between two passes, beside neither. */
#include "sim/ir/builder.h"
#include "strategies/policies/zero_offload_state.h"

static struct zero_checkpoint *checkpoint_of(struct lowering *lowering, const struct lower_pass *pass)
{
    size_t micro_batches = (size_t)lower_input(lowering)->plan->micro_batches;
    return &zero_state_of(lowering)->checkpoints[pass->layer->index * micro_batches + pass->micro_batch];
}

static bool moves(struct lowering *lowering, const struct lower_pass *pass, enum lower_pass_kind kind)
{
    return zero_state_of(lowering)->options.checkpoints_on_host && pass->kind == kind &&
           pass->layer->kind == LAYER_TRANSFORMER && lower_activation_bytes(lowering, pass->layer) > 0;
}

void zero_checkpoint_before_pass(struct lowering *lowering, const struct lower_pass *pass)
{
    if (!moves(lowering, pass, LOWER_BACKWARD)) {
        return;
    }
    const struct zero_checkpoint *checkpoint = checkpoint_of(lowering, pass);
    double bytes = (double)lower_activation_bytes(lowering, pass->layer);
    uint32_t device =
        lower_buffer(lowering, SPACE_DEVICE, bytes, BUFFER_ACTIVATION, 0, "saved for backward, from the host");
    bool code = zero_state_of(lowering)->options.code;
    uint32_t up = lower_copy_to_device(lowering, bytes, code, checkpoint->down, device, checkpoint->host);
    builder_depends(lower_builder(lowering), zero_state_of(lowering)->compute_ends[code ? 0 : 1]);
    lower_next_depends(lowering, up);
    lower_activation_give(lowering, pass->layer, pass->micro_batch, device);
}

void zero_checkpoint_after_pass(struct lowering *lowering, const struct lower_pass *pass)
{
    struct zero_state *state = zero_state_of(lowering);
    uint32_t end = lower_last_compute(lowering);
    if (moves(lowering, pass, LOWER_FORWARD)) {
        double bytes = (double)lower_activation_bytes(lowering, pass->layer);
        uint32_t device = lower_activation_take(lowering, pass->layer, pass->micro_batch);
        bool code = state->options.code;
        uint32_t host =
            lower_buffer(lowering, code ? SPACE_HOST : SPACE_PINNED, bytes, BUFFER_ACTIVATION, 0, "saved for backward");
        uint32_t down = lower_copy_to_host(lowering, bytes, code, end, host, device);
        lower_next_depends(lowering, code ? down : state->last_checkpoint);
        *checkpoint_of(lowering, pass) = (struct zero_checkpoint){ host, down };
        state->last_checkpoint = down;
    }
    state->compute_ends[1] = state->compute_ends[0];
    state->compute_ends[0] = end;
}
