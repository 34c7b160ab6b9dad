/* Gradients on their way to the host: in buckets, while earlier layers still run backward.
 *
 * Preset `paper`, on one device (or where tensor parallelism alone divides the model) a layer's gradient lives on the device from its backward until its bucket has been copied; `code` copies it into flat buckets of the full size. On several, the
 * lowering reduces buckets of its own (software.bucket_bytes) to the owners; a device copies its share as soon as that is done. At most two buckets are on the device, one that
 * fills and one that leaves; without overlap one: the backward waits.
 *
 * With gradient accumulation (DeepSpeed stage_1_and_2.py, stage3.py) the sum is kept in host memory: every micro-batch but the last copies its 16-bit gradient down, every one but the
 * first copies the stored sum up to be added to; the last sends the result, in the preset `code` as fp32. */
#include "sim/ir/builder.h"
#include "strategies/policies/zero_offload_state.h"

static const struct lower_layer *layer_at(struct lowering *lowering, uint32_t index)
{
    uint32_t count;
    return &lower_layers(lowering, &count)[index];
}

static bool leaves(struct lowering *lowering, const struct lower_layer *layer)
{
    return layer->owned_parameters > 0 && !zero_state_of(lowering)->layers[layer->index].on_device;
}

static bool pageable(const struct zero_state *state)
{
    return state->options.gradients == SPACE_HOST;
}

/* Has an earlier micro-batch left a sum? A layer that it skipped has none. */
static bool has_sum(const struct zero_state *state)
{
    bool found = false;
    for (uint32_t i = 0; i < state->bucket.count; i++) {
        found = found || state->layers[state->bucket.layers[i]].arrival != SCHED_NONE;
    }
    return found;
}

/* The stored sum comes up before the new gradient is added to it. Returns the copy. */
static uint32_t fetch_sum(struct lowering *lowering, double bytes, uint32_t *sum)
{
    struct zero_state *state = zero_state_of(lowering);
    const struct zero_bucket *bucket = &state->bucket;
    *sum = lower_buffer(lowering, SPACE_DEVICE, bytes, BUFFER_GRADIENT, 0, "stored sum of gradients");
    uint32_t op = lower_copy_to_device(lowering, bytes, pageable(state), bucket->after_op, *sum, SCHED_NONE);
    for (uint32_t i = 0; i < bucket->count; i++) {
        builder_depends(lower_builder(lowering), state->layers[bucket->layers[i]].arrival);
    }
    return op;
}

/* Final gradients whose states are on drives go there too. */
static void to_drives(struct lowering *lowering, uint32_t down, uint32_t stage, double bytes)
{
    struct zero_state *state = zero_state_of(lowering);
    uint32_t op = zero_drive_transfer(lowering, false, bytes, down, SCHED_NONE, stage);
    for (uint32_t i = 0; i < state->bucket.count; i++) {
        state->layers[state->bucket.layers[i]].arrival = op;
    }
    state->last_down = op;
}

void zero_gradients_flush(struct lowering *lowering)
{
    struct zero_state *state = zero_state_of(lowering);
    struct zero_bucket *bucket = &state->bucket;
    if (bucket->count == 0) {
        return;
    }
    const struct lower_request *request = lower_input(lowering);
    struct builder *b = lower_builder(lowering);
    bool sums = request->plan->micro_batches > 1 && zero_gradients_leave(lowering);
    double each = state->last_micro_batch ? state->options.sent_gradient_bytes : request->software->gradient_bytes;
    double bytes = bucket->elements * each;
    uint32_t sum = SCHED_NONE, stage = SCHED_NONE, after = bucket->after_op;
    if (sums && has_sum(state)) {
        after = fetch_sum(lowering, bucket->elements * request->software->gradient_bytes, &sum);
    }
    bool stored = state->last_micro_batch && zero_states_on_drives(&state->options);
    if (stored) {
        stage =
            lower_buffer(lowering, SPACE_PINNED, bytes, BUFFER_COMMUNICATION, 0, "gradients on their way to drives");
    }
    uint32_t op = lower_copy_to_host(lowering, bytes, !stored && pageable(state), after, stage, sum);
    for (uint32_t i = 0; i < bucket->count; i++) {
        struct zero_layer *layer = &state->layers[bucket->layers[i]];
        if (layer->gradient != SCHED_NONE) {
            builder_release(b, layer->gradient);
        }
        layer->gradient = SCHED_NONE;
        layer->arrival = op;
    }
    lower_next_depends(lowering, state->options.overlap_gradients ? state->last_down : op);
    state->last_down = op;
    if (stored) {
        to_drives(lowering, op, stage, bytes);
    }
    if (state->options.delayed && state->options.code) {
        zero_update_upload(lowering, bucket->elements, op);
    }
    *bucket = (struct zero_bucket){ .layers = bucket->layers };
}

/* The layer's gradient of this micro-batch is whole (and reduced) once `after_op` has ended. */
static void add(struct lowering *lowering, const struct lower_layer *layer, uint32_t after_op)
{
    struct zero_bucket *bucket = &zero_state_of(lowering)->bucket;
    bucket->layers[bucket->count++] = layer->index;
    bucket->elements += layer->owned_parameters;
    bucket->after_op = after_op;
}

/* A device's share of a reduced gradient lives there from the reduction's end. */
static void add_share(struct lowering *lowering, const struct lower_layer *layer, uint32_t reduction)
{
    struct zero_layer *own = &zero_state_of(lowering)->layers[layer->index];
    if (zero_gradients_leave(lowering)) {
        own->gradient = lower_buffer(lowering, SPACE_DEVICE,
                                     layer->owned_parameters * lower_input(lowering)->software->gradient_bytes,
                                     BUFFER_GRADIENT, 0, "share of a reduced gradient");
        uint32_t mark = lower_data_mark(lowering, reduction);
        builder_acquire(lower_builder(lowering), own->gradient);
        reduction = mark;
    }
    add(lowering, layer, reduction);
}

/* The lowering has reduced what an earlier micro-batch made. */
static void see_reductions(struct lowering *lowering)
{
    struct zero_state *state = zero_state_of(lowering);
    uint32_t reduction = lower_last_data_op(lowering);
    if (state->made_count == 0 || reduction == state->seen_data_op) {
        return;
    }
    for (uint32_t i = 0; i < state->made_count; i++) {
        add_share(lowering, layer_at(lowering, state->made[i]), reduction);
    }
    state->made_count = 0;
    zero_gradients_flush(lowering);
}

/* DeepSpeed copies gradients as they are made into flat buckets, which it allocates whole for each backward. */
static void open_flat_buckets(struct lowering *lowering)
{
    struct zero_state *state = zero_state_of(lowering);
    const struct zero_options *o = &state->options;
    if (o->code && state->flat_buckets == SCHED_NONE) {
        double bytes = o->bucket_elements * lower_input(lowering)->software->gradient_bytes;
        state->flat_buckets = lower_buffer(lowering, SPACE_DEVICE, (o->overlap_gradients ? 2 : 1) * bytes,
                                           BUFFER_GRADIENT, 0, "flat buckets of gradients");
        lower_next_acquires(lowering, state->flat_buckets);
    }
}

static void close_flat_buckets(struct lowering *lowering)
{
    struct zero_state *state = zero_state_of(lowering);
    if (state->flat_buckets != SCHED_NONE) {
        builder_release_at(lower_builder(lowering), state->last_down, state->flat_buckets);
        state->flat_buckets = SCHED_NONE;
    }
}

void zero_gradients_before_pass(struct lowering *lowering, const struct lower_pass *pass)
{
    struct zero_state *state = zero_state_of(lowering);
    bool alone = lower_data_size(lowering) == 1;
    if (!alone) {
        see_reductions(lowering);
        zero_gradients_flush(lowering);
    }
    if (alone && zero_makes_gradients(lowering, pass) && leaves(lowering, pass->layer)) {
        struct zero_layer *own = &state->layers[pass->layer->index];
        own->gradient = lower_buffer(lowering, SPACE_DEVICE,
                                     pass->layer->owned_parameters * lower_input(lowering)->software->gradient_bytes,
                                     BUFFER_GRADIENT, 0, "gradient until it has left");
        lower_next_acquires(lowering, own->gradient);
        open_flat_buckets(lowering);
    }
}

void zero_gradients_after_pass(struct lowering *lowering, const struct lower_pass *pass)
{
    struct zero_state *state = zero_state_of(lowering);
    if (!zero_makes_gradients(lowering, pass)) {
        return;
    }
    state->last_micro_batch = pass->last_micro_batch;
    if (lower_data_size(lowering) > 1) {
        state->seen_data_op = lower_last_data_op(lowering);
        if (!pass->last_micro_batch && zero_gradients_leave(lowering) && leaves(lowering, pass->layer)) {
            state->made[state->made_count++] = pass->layer->index;
        }
        return; /* of the last micro-batch zero_gradient_ready tells */
    }
    if (leaves(lowering, pass->layer)) {
        struct zero_layer *own = &state->layers[pass->layer->index];
        add(lowering, pass->layer, lower_last_compute(lowering));
        if (state->flat_buckets != SCHED_NONE) { /* it is in a bucket now */
            builder_release_at(lower_builder(lowering), lower_last_compute(lowering), own->gradient);
            own->gradient = SCHED_NONE;
        }
    }
    if (state->bucket.elements >= state->options.bucket_elements || pass->layer->index == 0) {
        zero_gradients_flush(lowering);
    }
    if (pass->layer->index == 0) { /* the backward ends here */
        close_flat_buckets(lowering);
    }
}

void zero_gradient_ready(struct lowering *lowering, const struct lower_layer *layer, uint32_t after_op)
{
    struct zero_state *state = zero_state_of(lowering);
    if (lower_data_size(lowering) == 1 || !leaves(lowering, layer)) {
        return;
    }
    see_reductions(lowering);
    if (after_op != state->seen_data_op) {
        zero_gradients_flush(lowering);
        state->seen_data_op = after_op;
    }
    add_share(lowering, layer, after_op);
}
