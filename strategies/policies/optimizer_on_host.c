/* The policy `optimizer-on-host`: optimizer states (master weights, moments) live in host memory, and Adam runs on the host's cores (the idea of ZeRO-Offload, Ren et al., USENIX
 * ATC 2021, without its tiling). Weights, gradients and activations stay on the device.
 *
 * Each layer's final gradient goes down into a pinned staging buffer; Adam writes the new weights over it; they go up from it. Page-locking costs far more than a copy, so these buffers are made
 * once and kept, as DeepSpeed keeps its page-locked gradients: how much host memory a step takes hangs on no race between copies and updates. Only owned parameters move: under ZeRO a device
 * updates its share and the lowering gathers the new weights, as it does after an update on the device. */
#include <math.h>

#include "sim/ir/builder.h"
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

struct staged_layer {
    uint32_t buffer;  /* pinned, all step long: the gradient, then the new weights */
    uint32_t arrival; /* the copy that fills it; SCHED_NONE: the layer has no parameters here */
};

struct state {
    struct staged_layer *layers; /* [layers of the rank] */
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
    const struct software *software = lower_input(lowering)->software;
    double staged_bytes = fmax(software->gradient_bytes, software->weight_bytes);
    uint32_t count;
    const struct lower_layer *layers = lower_layers(lowering, &count);
    struct state *state = arena_array(lower_arena(lowering), struct state, 1);
    struct staged_layer *staged = arena_array(lower_arena(lowering), struct staged_layer, count);
    *lower_policy_state(lowering) = state;
    if (state == NULL || staged == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for the %u layers of a rank", count);
        return;
    }
    *state = (struct state){ .layers = staged, .last_upload = SCHED_NONE };
    for (uint32_t i = 0; i < count; i++) {
        staged[i] = (struct staged_layer){ .buffer = SCHED_NONE, .arrival = SCHED_NONE };
        if (layers[i].owned_parameters <= 0) {
            continue;
        }
        staged[i].buffer =
            lower_buffer(lowering, SPACE_PINNED, layers[i].owned_parameters * staged_bytes, BUFFER_COMMUNICATION,
                         BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END, "gradient down, weights up");
        /* Where the weights on the device are the master copy (torchtitan, PyTorch), the host needs its own to add to. */
        if (software->master_bytes <= 0) {
            lower_buffer(lowering, state_space(lowering), layers[i].owned_parameters * software->weight_bytes,
                         BUFFER_OPTIMIZER, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END, "master weights");
        }
    }
}

/* Adam over a layer once its gradient has arrived and `after_op` has ended; then its new weights go up. */
static void update_layer(struct lowering *lowering, const struct lower_layer *layer, uint32_t after_op)
{
    struct state *state = *lower_policy_state(lowering);
    const struct staged_layer *staged = &state->layers[layer->index];
    uint32_t update = lower_host_optimizer(lowering, layer->owned_parameters, staged->arrival);
    builder_depends(lower_builder(lowering), after_op);
    state->last_upload =
        lower_copy_to_device(lowering, layer->owned_parameters * lower_input(lowering)->software->weight_bytes, false,
                             update, SCHED_NONE, SCHED_NONE);
    builder_read(lower_builder(lowering), staged->buffer);
}

static void gradient_ready(struct lowering *lowering, const struct lower_layer *layer, uint32_t after_op)
{
    if (layer->owned_parameters <= 0) {
        return;
    }
    struct state *state = *lower_policy_state(lowering);
    struct staged_layer *staged = &state->layers[layer->index];
    staged->arrival =
        lower_copy_to_host(lowering, layer->owned_parameters * lower_input(lowering)->software->gradient_bytes, false,
                           after_op, SCHED_NONE, SCHED_NONE);
    builder_write(lower_builder(lowering), staged->buffer);
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
        if (state->layers[i].arrival != SCHED_NONE) {
            update_layer(lowering, &layers[i], after_op);
        }
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
};
