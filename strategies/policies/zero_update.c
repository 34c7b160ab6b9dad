/* Adam on the host over the gradients that came down, and the way of the new weights up. */
#include <math.h>

#include "sim/ir/builder.h"
#include "strategies/policies/zero_offload_state.h"

/* DeepSpeed unscales and clips all fp32 gradients in place: read and written. */
static const double CLIP_BYTES = 8;
/* Writes the new fp32 weights as 16-bit ones. */
static const double CAST_BYTES = 4 + 2;
/* A tile's fp32 parameter, gradient and two moments: what stands for a sub-group while its states are in host memory. */
static const double STATE_NUMBERS = 4;
static const double NUMBER_BYTES = 4;

/* While its tile is updated or goes up, the new weights lie in one of two pinned buffers (Ren et al., section 5). DeepSpeed of 2020 keeps them there in fp32, and a kernel reads them
 * across PCIe and casts them (csrc/adam/cpu_adam.cpp, custom_cuda_kernel.cu at 059f6aab): uploaded_bytes 4. */
enum { TILE_BUFFERS = 2 };

struct tiles {
    double left, each;
};

static double next_tile(struct tiles *tiles)
{
    double now = fmin(tiles->left, tiles->each);
    tiles->left -= now;
    return now;
}

static struct tiles tiles_of(const struct zero_state *state)
{
    double all = state->host_parameters, each = state->options.tile_elements;
    return (struct tiles){ .left = all, .each = each > 0 ? each : all };
}

static double weight_bytes(struct lowering *lowering)
{
    return lower_input(lowering)->software->weight_bytes;
}

/* Adam tile by tile; each one's new weights go up while the next is updated. Adam writes them twice, where they live and into the buffer they go up from (hardware.md C.8: 28 + 2 bytes). */
static void update_tiled(struct lowering *lowering, uint32_t after_op)
{
    struct zero_state *state = zero_state_of(lowering);
    struct tiles tiles = tiles_of(state);
    uint32_t uploads[TILE_BUFFERS] = { SCHED_NONE, SCHED_NONE };
    for (uint32_t i = 0; tiles.left > 0; i++) {
        double tile = next_tile(&tiles), bytes = tile * state->options.uploaded_bytes;
        uint32_t buffer =
            lower_buffer(lowering, SPACE_PINNED, bytes, BUFFER_COMMUNICATION, 0, "tile of new weights on its way up");
        state->last_update = lower_host_optimizer(lowering, tile, after_op);
        builder_depends(lower_builder(lowering), uploads[i % TILE_BUFFERS]);
        builder_acquire(lower_builder(lowering), buffer);
        state->last_update = zero_host_pass(lowering, bytes, state->last_update);
        uploads[i % TILE_BUFFERS] =
            lower_copy_to_device(lowering, bytes, false, state->last_update, SCHED_NONE, buffer);
        state->last_upload = uploads[i % TILE_BUFFERS];
    }
}

/* States of one sub-group after the other: read from drives, updated, written back. The gradients stand there too; new 16-bit weights go where weights live. */
static void update_from_drives(struct lowering *lowering, uint32_t after_op)
{
    struct zero_state *state = zero_state_of(lowering);
    const struct zero_options *o = &state->options;
    const struct software *software = lower_input(lowering)->software;
    struct tiles tiles = tiles_of(state);
    double states = software->master_bytes + software->moments_bytes;
    double written = states + (o->weights == SPACE_STORAGE ? software->weight_bytes : 0);
    uint32_t sets = 1u + (o->pipeline_read ? 1u : 0u) + (o->pipeline_write ? 1u : 0u), writes[3];
    for (uint32_t i = 0; i < 3; i++) {
        writes[i] = SCHED_NONE;
    }
    uint32_t previous = SCHED_NONE; /* what the read waits for where it is not pipelined */
    for (uint32_t i = 0; tiles.left > 0; i++) {
        double tile = next_tile(&tiles);
        uint32_t stage = lower_buffer(lowering, SPACE_PINNED, tile * STATE_NUMBERS * NUMBER_BYTES, BUFFER_OPTIMIZER, 0,
                                      "states of a sub-group from drives");
        uint32_t read =
            zero_drive_transfer(lowering, true, tile * (states + o->sent_gradient_bytes), after_op, stage, SCHED_NONE);
        builder_depends(lower_builder(lowering), writes[i % sets]);
        builder_depends(lower_builder(lowering), o->pipeline_read ? SCHED_NONE : previous);
        state->last_update = lower_host_optimizer(lowering, tile, read);
        builder_depends(lower_builder(lowering), o->pipeline_write || i == 0 ? SCHED_NONE : writes[(i - 1) % sets]);
        writes[i % sets] = zero_drive_transfer(lowering, false, tile * written, state->last_update, SCHED_NONE, stage);
        previous = state->last_update;
        state->last_upload = writes[i % sets];
    }
}

/* The fp32 master copy goes up as it lies, into a buffer of the device where a kernel casts it (DeepSpeed issues 7250, 7253). */
static void upload_fp32(struct lowering *lowering)
{
    struct zero_state *state = zero_state_of(lowering);
    double parameters = state->host_parameters, bytes = parameters * NUMBER_BYTES;
    uint32_t copy = lower_buffer(lowering, SPACE_DEVICE, bytes, BUFFER_COMMUNICATION, 0, "fp32 weights to be cast");
    uint32_t up = lower_copy_to_device(lowering, bytes, state->options.states != SPACE_PINNED, state->last_update, copy,
                                       SCHED_NONE);
    state->last_upload = lower_device_stream(lowering, bytes, parameters * weight_bytes(lowering), PHASE_OPTIMIZER, up);
    builder_release(lower_builder(lowering), copy);
}

/* The latest op brings all new weights to where they live. */
static void write_weights(struct lowering *lowering)
{
    uint32_t count;
    const struct lower_layer *layers = lower_layers(lowering, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (layers[i].weight != SCHED_NONE && !zero_state_of(lowering)->layers[i].on_device) {
            builder_write(lower_builder(lowering), layers[i].weight);
        }
    }
}

/* All tiles, then (where weights live on the device) all new weights at once. */
static void update_serial(struct lowering *lowering, uint32_t after_op)
{
    struct zero_state *state = zero_state_of(lowering);
    const struct zero_options *o = &state->options;
    for (struct tiles tiles = tiles_of(state); tiles.left > 0;) {
        state->last_update = lower_host_optimizer(lowering, next_tile(&tiles), after_op);
    }
    if (o->code && !zero_casts_on_device(o)) {
        state->last_update = zero_host_pass(lowering, state->host_parameters * CAST_BYTES, state->last_update);
    }
    if (o->weights == SPACE_STORAGE) {
        state->last_upload = zero_drive_transfer(lowering, false, state->host_parameters * weight_bytes(lowering),
                                                 state->last_update, SCHED_NONE, SCHED_NONE);
        write_weights(lowering);
    } else if (zero_casts_on_device(o)) {
        upload_fp32(lowering);
    } else if (!zero_fetches(o) && !(o->delayed && o->code)) {
        zero_update_upload(lowering, state->host_parameters, SCHED_NONE);
    }
}

void zero_update_upload(struct lowering *lowering, double parameters, uint32_t down)
{
    struct zero_state *state = zero_state_of(lowering);
    state->last_upload =
        lower_copy_to_device(lowering, parameters * weight_bytes(lowering), state->options.casts_in_pages,
                             state->last_update, SCHED_NONE, SCHED_NONE);
    builder_depends(lower_builder(lowering), down);
    if (state->new_weights != SCHED_NONE) {
        builder_read(lower_builder(lowering), state->new_weights);
    }
}

static void update_on_host(struct lowering *lowering, uint32_t after_op)
{
    struct zero_state *state = zero_state_of(lowering);
    const struct zero_options *o = &state->options;
    uint32_t scratch = SCHED_NONE;
    if (o->code && !zero_states_on_drives(o)) {
        double elements =
            o->scratch_elements > 0 ? fmin(o->scratch_elements, state->host_parameters) : state->host_parameters;
        uint32_t clip = zero_host_pass(lowering, state->host_parameters * CLIP_BYTES, after_op);
        if (o->scratch_bytes > 0) {
            scratch = lower_buffer(lowering, SPACE_HOST, elements * o->scratch_bytes, BUFFER_WORKSPACE, 0,
                                   "unscaling, clipping and Adam's temporaries");
            builder_acquire(lower_builder(lowering), scratch);
        }
        builder_depends(lower_builder(lowering), o->delayed ? SCHED_NONE : state->last_down);
        after_op = clip;
    } else if (!o->delayed && state->last_down != SCHED_NONE) {
        /* Adam needs the last gradient; the norm is known later than that, or not at all. */
        uint32_t all = builder_op(lower_builder(lowering), OP_MARK, lower_queue(lowering, QUEUE_HOST), SCHED_NONE,
                                  PHASE_OPTIMIZER);
        builder_depends(lower_builder(lowering), state->last_down);
        builder_depends(lower_builder(lowering), after_op);
        after_op = all;
    }
    if (zero_states_on_drives(o)) {
        update_from_drives(lowering, after_op);
    } else if (o->tiled && !zero_fetches(o)) {
        update_tiled(lowering, after_op);
    } else {
        update_serial(lowering, after_op);
    }
    if (scratch != SCHED_NONE) {
        builder_release_at(lower_builder(lowering), state->last_update, scratch);
    }
}

/* Small tensors that stay on the device are copied up anew. */
static void refresh_persistent(struct lowering *lowering)
{
    struct zero_state *state = zero_state_of(lowering);
    double elements = 0;
    for (uint32_t i = 0; i < state->layer_count; i++) {
        elements += state->layers[i].persistent;
    }
    if (elements > 0) {
        zero_update_upload(lowering, elements, state->last_upload);
        builder_write(lower_builder(lowering), state->persistent_weights);
    }
}

void zero_update_begin(struct lowering *lowering)
{
    struct zero_state *state = zero_state_of(lowering);
    if (!state->begun && state->options.delayed && state->host_parameters > 0) {
        update_on_host(lowering, SCHED_NONE);
    }
    state->begun = true;
}

uint32_t zero_update(struct lowering *lowering, uint32_t after_op)
{
    struct zero_state *state = zero_state_of(lowering);
    zero_gradients_flush(lowering);
    uint32_t on_device = SCHED_NONE;
    if (state->device_parameters > 0) {
        on_device = lower_device_optimizer_of(lowering, state->device_parameters, after_op);
    }
    if (state->host_parameters > 0 && !state->options.delayed) {
        update_on_host(lowering, after_op);
        refresh_persistent(lowering);
    }
    if (state->last_upload == SCHED_NONE) {
        return on_device != SCHED_NONE ? on_device : after_op;
    }
    /* What follows waits for both. */
    if (on_device != SCHED_NONE && lower_data_size(lowering) > 1) {
        lower_data_mark(lowering, on_device);
    }
    return state->last_upload;
}
