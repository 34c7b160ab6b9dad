/* The policy `optimizer-on-host`: optimizer states (master weights, moments) live in host memory, and Adam runs on the host's cores (the idea of ZeRO-Offload, Ren et al., USENIX
 * ATC 2021, without its tiling). Weights, gradients and activations stay on the device.
 *
 * Only owned parameters move (host_adam.h): under ZeRO a device updates its share and the lowering gathers the new weights, as it does after an update on the device. */
#include "strategies/policies/host_adam.h"
#include "strategies/policies/policies.h"

enum { PINNED, OVERLAP }; /* indices into PARAMETERS */
static const struct parameter PARAMETERS[] = {
    { .name = "pinned",
      .type = PARAMETER_BOOL,
      .unit = "",
      .fallback = 1,
      .help = "page-lock the optimizer states; the staging buffers always are" },
    { .name = "overlap",
      .type = PARAMETER_BOOL,
      .unit = "",
      .fallback = 1,
      .help = "update each layer as soon as its gradient arrives (no clipping by the global norm), not all after the "
              "last" },
};

struct state {
    struct host_adam adam;
    uint32_t last_upload;
};

/* Where optimizer states live. */
static enum space_kind state_space(const struct lowering *lowering)
{
    return lower_policy_parameter(lowering, PINNED) > 0.5 ? SPACE_PINNED : SPACE_HOST;
}

static bool overlaps(const struct lowering *lowering)
{
    return lower_policy_parameter(lowering, OVERLAP) > 0.5;
}

static enum space_kind place(struct lowering *lowering, const struct lower_layer *layer, enum buffer_class buffer_class)
{
    (void)layer;
    return buffer_class == BUFFER_OPTIMIZER ? state_space(lowering) : SPACE_DEVICE;
}

static void begin_rank(struct lowering *lowering)
{
    uint32_t count;
    const struct lower_layer *layers = lower_layers(lowering, &count);
    struct state *state = arena_array(lower_arena(lowering), struct state, 1);
    *lower_policy_state(lowering) = state;
    if (state == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for a rank's optimizer");
        return;
    }
    state->last_upload = SCHED_NONE;
    if (!host_adam_begin(lowering, &state->adam)) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        host_adam_take(lowering, &state->adam, &layers[i], state_space(lowering));
    }
}

static void update_layer(struct lowering *lowering, const struct lower_layer *layer, uint32_t after_op)
{
    struct state *state = *lower_policy_state(lowering);
    uint32_t upload = host_adam_update(lowering, &state->adam, layer, after_op);
    state->last_upload = upload != SCHED_NONE ? upload : state->last_upload;
}

static void gradient_ready(struct lowering *lowering, const struct lower_layer *layer, uint32_t after_op)
{
    struct state *state = *lower_policy_state(lowering);
    host_adam_gradient(lowering, &state->adam, layer, after_op);
    if (overlaps(lowering)) {
        update_layer(lowering, layer, SCHED_NONE);
    }
}

static uint32_t optimizer(struct lowering *lowering, uint32_t after_op)
{
    const struct state *state = *lower_policy_state(lowering);
    uint32_t count;
    const struct lower_layer *layers = lower_layers(lowering, &count);
    for (uint32_t i = overlaps(lowering) ? 0 : count; i-- > 0;) { /* gradients arrive last layer first */
        update_layer(lowering, &layers[i], after_op);
    }
    return state->last_upload != SCHED_NONE ? state->last_upload : after_op;
}

const struct memory_policy policy_optimizer_on_host = {
    .abi = MEMORY_POLICY_ABI,
    .name = "optimizer-on-host",
    .summary = "optimizer states in host memory, Adam on the host's cores; gradients go down, weights come up",
    .paper = "the idea of ZeRO-Offload, Ren et al., USENIX ATC 2021",
    .parameters = PARAMETERS,
    .parameter_count = sizeof PARAMETERS / sizeof PARAMETERS[0],
    .begin_rank = begin_rank,
    .place = place,
    .gradient_ready = gradient_ready,
    .optimizer = optimizer,
    .skips_layers = true,
};
