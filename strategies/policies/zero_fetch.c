/* Weights on their way up (ZeRO-3): each pass finds its layer's weights on the device, fetched ahead of it from host memory, or from drives through pinned staging buffers.
 *
 * With several devices a rank fetches its own share; the lowering's gather, which waits for it, makes the whole of the shares. How far ahead (DeepSpeed
 * partitioned_parameter_coordinator.py, here at the grain of layers, as a layer's weights are asked for together): the next layers that together hold at most
 * prefetch_elements, at least one (the bucket takes the tensor that overfills it); never more than live_elements on the device. Weights stay where the same layer is next used within
 * reuse_elements of fetched weights. */
#include <math.h>

#include "sim/ir/builder.h"
#include "strategies/policies/zero_offload_state.h"

/* Elements that a rank fetches of a layer. */
static double fetched_elements(struct lowering *lowering, const struct lower_layer *layer)
{
    double persistent = zero_state_of(lowering)->layers[layer->index].persistent;
    return (layer->parameters - persistent) / lower_data_size(lowering);
}

/* Is the next pass known before it comes? DeepSpeed's prefetcher follows a recorded trace and is off where modules come in another order (DeepSpeed pull request 873). */
static bool follows_trace(const struct lowering *lowering)
{
    return !(lower_input(lowering)->plan->layer_drop > 0);
}

/* The end of the pass that has to be over before this layer's weights may come, or SCHED_NONE. pass_ends[0] is the pass before. */
static uint32_t window_start(const struct lowering *lowering, const struct zero_state *state, double elements)
{
    double ahead = elements, live = elements + state->kept_elements;
    double prefetch = follows_trace(lowering) ? state->options.prefetch_elements : 0;
    uint32_t passes = 0; /* before this one, during which the weights may already be here */
    while (passes + 1 < ZERO_PASS_ENDS && state->pass_ends[passes] != SCHED_NONE) {
        live += state->pass_elements[passes];
        bool fits = passes == 0 ? prefetch > 0 : ahead <= prefetch;
        if (!fits || live > state->options.live_elements) {
            break;
        }
        ahead += state->pass_elements[passes];
        passes++;
    }
    return state->pass_ends[passes];
}

/* Of the latest op: whose weights it brings. */
static void tag_layer(struct lowering *lowering, const struct lower_layer *layer)
{
    builder_tag(lower_builder(lowering), OP_TAG_NONE, (uint16_t)layer->chunk,
                layer->model_index == SCHED_NONE ? OP_TAG_NONE : (uint16_t)layer->model_index);
}

/* From drives, in pieces of a staging buffer each. Returns the last copy up. */
static uint32_t fetch_from_drives(struct lowering *lowering, const struct lower_layer *layer, double elements,
                                  uint32_t after_op, uint32_t weights)
{
    struct zero_state *state = zero_state_of(lowering);
    const struct zero_options *o = &state->options;
    double each = lower_input(lowering)->software->weight_bytes;
    uint32_t up = SCHED_NONE;
    for (double left = elements; left > 0;) {
        double piece = fmin(left, o->weight_stage_elements);
        uint32_t *stage = &state->stages[state->next_stage++ % o->weight_stages];
        /* The drive reads ahead as far as there are buffers; the device takes it when there is room. */
        uint32_t read = zero_drive_transfer(lowering, true, piece * each, *stage, SCHED_NONE, SCHED_NONE);
        builder_read(lower_builder(lowering), layer->weight);
        tag_layer(lowering, layer);
        bool first = left == elements;
        up = lower_copy_to_device(lowering, piece * each, false, read, first ? weights : SCHED_NONE, SCHED_NONE);
        if (!first) {
            builder_write(lower_builder(lowering), weights);
        }
        tag_layer(lowering, layer);
        builder_depends(lower_builder(lowering), after_op);
        *stage = up;
        left -= piece;
    }
    return up;
}

static uint32_t fetch(struct lowering *lowering, const struct lower_layer *layer, double elements)
{
    struct zero_state *state = zero_state_of(lowering);
    double bytes = elements * lower_input(lowering)->software->weight_bytes;
    uint32_t after_op = window_start(lowering, state, layer->parameters);
    uint32_t weights = lower_buffer(lowering, SPACE_DEVICE, bytes, BUFFER_WEIGHT, 0,
                                    lower_data_size(lowering) > 1 ? "fetched share of weights" : "fetched weights");
    state->layers[layer->index].weights = weights;
    if (state->options.weights == SPACE_STORAGE) {
        return fetch_from_drives(lowering, layer, elements, after_op, weights);
    }
    uint32_t up =
        lower_copy_to_device(lowering, bytes, state->options.weights == SPACE_HOST, after_op, weights, SCHED_NONE);
    tag_layer(lowering, layer);
    return up;
}

void zero_fetch_before_pass(struct lowering *lowering, const struct lower_pass *pass)
{
    struct zero_state *state = zero_state_of(lowering);
    struct zero_layer *own = &state->layers[pass->layer->index];
    double elements = fetched_elements(lowering, pass->layer);
    if (!zero_fetches(&state->options) || !(elements > 0)) {
        return;
    }
    if (own->weights != SCHED_NONE) {
        state->kept_elements -= pass->layer->parameters; /* still here */
        return;
    }
    uint32_t up = fetch(lowering, pass->layer, elements);
    if (lower_data_size(lowering) > 1) {
        lower_data_mark(lowering, up);
    } else {
        lower_next_depends(lowering, up);
    }
}

/* Weights between this pass and the layer's next: those of all layers behind it, there and back. */
static double reuse_distance(struct lowering *lowering, const struct lower_pass *pass)
{
    uint32_t count;
    const struct lower_layer *layers = lower_layers(lowering, &count);
    double distance = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool between = pass->kind == LOWER_FORWARD ? i > pass->layer->index : i < pass->layer->index;
        distance += between ? 2 * layers[i].parameters : 0;
    }
    return distance;
}

static bool keeps(struct lowering *lowering, const struct lower_pass *pass)
{
    const struct zero_state *state = zero_state_of(lowering);
    double elements = pass->layer->parameters;
    bool comes = pass->kind == LOWER_FORWARD || follows_trace(lowering); /* or the next micro-batch may skip it */
    return comes && !pass->last_micro_batch && reuse_distance(lowering, pass) <= state->options.reuse_elements &&
           state->kept_elements + 2 * elements <= state->options.live_elements;
}

static void remember(struct zero_state *state, uint32_t end, double elements)
{
    for (uint32_t i = ZERO_PASS_ENDS - 1; i > 0; i--) {
        state->pass_ends[i] = state->pass_ends[i - 1];
        state->pass_elements[i] = state->pass_elements[i - 1];
    }
    state->pass_ends[0] = end;
    state->pass_elements[0] = elements;
}

void zero_fetch_after_pass(struct lowering *lowering, const struct lower_pass *pass)
{
    struct zero_state *state = zero_state_of(lowering);
    struct zero_layer *own = &state->layers[pass->layer->index];
    if (!zero_fetches(&state->options)) {
        return;
    }
    if (own->weights != SCHED_NONE && keeps(lowering, pass)) {
        state->kept_elements += pass->layer->parameters;
    } else if (own->weights != SCHED_NONE) {
        /* A share has been gathered into the lowering's buffer. */
        bool gathered = lower_data_size(lowering) > 1;
        builder_release_at(lower_builder(lowering),
                           gathered ? lower_last_data_op(lowering) : lower_last_compute(lowering), own->weights);
        own->weights = SCHED_NONE;
    }
    remember(state, lower_last_compute(lowering), pass->layer->parameters);
}
