/* Where the ZeRO offload policies keep weights, gradients and optimizer states, and what they hold beside these. */
#include <math.h>

#include "sim/ir/builder.h"
#include "sim/model/variant.h"
#include "strategies/policies/zero_offload_state.h"

/* Host traffic that one parameter of OP_HOST_OPTIMIZER stands for: reads fp32 gradient, parameter and two moments, writes the last three (facts/hardware.md C.8). */
static const double ADAM_BYTES_PER_PARAMETER = 28;

bool zero_makes_gradients(const struct lowering *lowering, const struct lower_pass *pass)
{
    bool split = lower_input(lowering)->order->splits_backward;
    return pass->kind == LOWER_BACKWARD_WEIGHT || (pass->kind == LOWER_BACKWARD && !split);
}

bool zero_gradients_leave(struct lowering *lowering)
{
    return lower_data_size(lowering) == 1 || lower_input(lowering)->plan->zero_stage >= 2;
}

/* Adam's rate on cores bounds a plain pass too: DeepSpeed's passes run on the same cores. */
uint32_t zero_host_pass(struct lowering *lowering, double bytes, uint32_t after_op)
{
    return lower_host_optimizer(lowering, bytes / ADAM_BYTES_PER_PARAMETER, after_op);
}

uint32_t zero_drive_transfer(struct lowering *lowering, bool read, double bytes, uint32_t after_op, uint32_t acquire,
                             uint32_t release)
{
    struct builder *b = lower_builder(lowering);
    struct zero_state *state = zero_state_of(lowering);
    uint32_t *queue = read ? &state->read_queue : &state->write_queue;
    if (*queue == SCHED_NONE) {
        *queue = builder_queue(b, QUEUE_STORAGE, read ? "drive read" : "drive write");
    }
    uint32_t op = builder_op(b, read ? OP_STORAGE_READ : OP_STORAGE_WRITE, *queue,
                             builder_work_transfer(b, bytes, false), PHASE_OFFLOAD);
    builder_depends(b, after_op);
    if (acquire != SCHED_NONE) {
        builder_acquire(b, acquire);
    }
    if (release != SCHED_NONE) {
        builder_release(b, release);
    }
    return op;
}

/* ---- places ---- */

/* Layers are updated on the host, first to last, until the host has its share of the parameters. Asked while layers are still being sized, so by the graph's count. */
static bool on_host(struct lowering *lowering, const struct zero_options *options, const struct lower_layer *layer)
{
    uint32_t count;
    const struct lower_layer *layers = lower_layers(lowering, &count);
    double before = 0, all = 0;
    for (uint32_t i = 0; i < count; i++) {
        before += i <= layer->index ? layers[i].graph->parameters : 0;
        all += layers[i].graph->parameters;
    }
    return before <= options->cpu_ratio * all;
}

enum space_kind zero_place(struct lowering *lowering, const struct zero_options *options,
                           const struct lower_layer *layer, enum buffer_class buffer_class)
{
    if (buffer_class == BUFFER_WEIGHT) {
        return options->weights;
    }
    if (!on_host(lowering, options, layer) || (buffer_class == BUFFER_GRADIENT && !zero_gradients_leave(lowering))) {
        return SPACE_DEVICE;
    }
    if (buffer_class == BUFFER_GRADIENT) {
        return zero_states_on_drives(options) ? SPACE_STORAGE : options->gradients;
    }
    return options->states;
}

/* Norms and biases are what is small; a matrix counts as large, a layer below the threshold stays whole. */
static double persistent_elements(struct lowering *lowering, const struct lower_layer *layer, double threshold)
{
    const struct model *whole = lower_input(lowering)->model;
    if (layer->parameters < threshold) {
        return layer->parameters;
    }
    if (layer->kind != LAYER_TRANSFORMER) {
        return 0;
    }
    uint32_t variant = model_layer_variant(whole, layer->model_index);
    const struct model m = model_at_variant(whole, variant);
    double tensor = (double)lower_input(lowering)->plan->tensor, hidden = (double)m.hidden;
    int norms =
        m.family == MODEL_T5 && variant != T5_ENCODER ? 3 : 2; /* behind the encoder; before the second attention */
    const struct {
        double elements, count;
    } vectors[] = {
        { hidden, norms * (m.norm_bias ? 2 : 1) },
        { (double)((m.heads + 2 * m.kv_heads) * m.head_size) / tensor, m.qkv_bias },
        { hidden, (m.projection_bias ? 1 : 0) + (m.ffn_bias ? 1 : 0) },
        { (double)m.ffn / tensor, m.ffn_bias },
    };
    double sum = 0;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        sum += vectors[i].elements < threshold ? vectors[i].elements * vectors[i].count : 0;
    }
    return sum;
}

/* ---- what is held beside the layers' own buffers ---- */

/* Returns the buffer; SCHED_NONE: no bytes. */
static uint32_t hold(struct lowering *lowering, enum space_kind kind, double bytes, enum buffer_class buffer_class,
                     const char *label)
{
    if (bytes <= 0) {
        return SCHED_NONE;
    }
    bool host = kind == SPACE_HOST || kind == SPACE_PINNED;
    zero_state_of(lowering)->held_on_host += host ? bytes : 0;
    return lower_buffer(lowering, kind, bytes, buffer_class, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END, label);
}

static double rounded_up(double bytes)
{
    return bytes > 1 ? exp2(ceil(log2(bytes))) : bytes;
}

/* One flat page-locked block: its rounding, charged beside it. Returns its bytes. */
static double pinned_block(struct lowering *lowering, double bytes)
{
    if (zero_state_of(lowering)->options.rounds_pinned) {
        hold(lowering, SPACE_HOST, rounded_up(bytes) - bytes, BUFFER_RUNTIME,
             "rounding of a page-locked block to a power of two");
    }
    return bytes;
}

/* One flat block of any kind of host memory. */
static double host_block(struct lowering *lowering, enum space_kind kind, double bytes)
{
    return kind == SPACE_PINNED ? pinned_block(lowering, bytes) : bytes;
}

static void hold_gradients(struct lowering *lowering)
{
    const struct zero_state *state = zero_state_of(lowering);
    const struct zero_options *o = &state->options;
    const struct lower_request *request = lower_input(lowering);
    double parameters = state->host_parameters, each = request->software->gradient_bytes;
    /* zero_place put `each` bytes of a parameter into the layers' gradient buffers, if these leave the device. */
    double held = zero_gradients_leave(lowering) ? each : 0;
    enum space_kind kind = zero_states_on_drives(o) ? SPACE_STORAGE : o->gradients;
    hold(lowering, kind, parameters * (o->sent_gradient_bytes - held), BUFFER_GRADIENT,
         held > 0 ? "gradients beyond 16 bits" : "gradients for the host");
    host_block(lowering, kind, parameters * o->sent_gradient_bytes);
    if (o->delayed) {
        hold(lowering, kind, host_block(lowering, kind, parameters * o->sent_gradient_bytes), BUFFER_GRADIENT,
             "gradients of the step before");
    }
    if (request->plan->micro_batches > 1 && zero_gradients_leave(lowering) && each < o->sent_gradient_bytes) {
        hold(lowering, o->gradients, host_block(lowering, o->gradients, parameters * each), BUFFER_GRADIENT,
             "sum of the micro-batches' gradients");
    }
}

static void hold_weights(struct lowering *lowering)
{
    struct zero_state *state = zero_state_of(lowering);
    const struct zero_options *o = &state->options;
    double each = lower_input(lowering)->software->weight_bytes, persistent = 0;
    for (uint32_t i = 0; i < state->layer_count; i++) {
        persistent += state->layers[i].persistent;
    }
    state->persistent_weights =
        hold(lowering, SPACE_DEVICE, persistent * each, BUFFER_WEIGHT, "small tensors that stay on the device");
    if (o->weights == SPACE_STORAGE) {
        double stage = pinned_block(lowering, o->weight_stage_elements * each);
        hold(lowering, SPACE_PINNED, stage * o->weight_stages, BUFFER_COMMUNICATION, "staging of weights from drives");
    } else if (o->weights == SPACE_PINNED) {
        pinned_block(lowering, (state->host_parameters + state->device_parameters) * each);
    } else if (o->casts_in_pages) {
        state->new_weights = hold(lowering, SPACE_HOST, fmin(o->tile_elements, state->host_parameters) * each,
                                  BUFFER_WORKSPACE, "new weights of a sub-group on their way up");
    } else if (o->weights == SPACE_DEVICE && !o->tiled && !zero_casts_on_device(o)) {
        state->new_weights = hold(lowering, SPACE_PINNED, pinned_block(lowering, state->host_parameters * each),
                                  BUFFER_COMMUNICATION, "new weights on their way up");
    }
}

/* Held until the step begins, and no longer. */
static void hold_until_begun(struct lowering *lowering, enum space_kind kind, double bytes,
                             enum buffer_class buffer_class, const char *label)
{
    if (bytes > 0) {
        struct builder *b = lower_builder(lowering);
        uint32_t buffer = lower_buffer(lowering, kind, bytes, buffer_class, BUFFER_LIVE_AT_START, label);
        builder_op(b, OP_MARK, lower_queue(lowering, QUEUE_HOST), SCHED_NONE, PHASE_OTHER);
        builder_release(b, buffer);
    }
}

/* Before the states exist each rank holds a whole model on the host, or its share of the weights on the device: only what goes beyond the steady state is charged. */
static void hold_initialisation(struct lowering *lowering)
{
    const struct zero_state *state = zero_state_of(lowering);
    const struct zero_options *o = &state->options;
    const struct software *software = lower_input(lowering)->software;
    uint32_t count;
    const struct lower_layer *layers = lower_layers(lowering, &count);
    double whole = 0, steady = state->held_on_host;
    double owned = state->host_parameters + state->device_parameters;
    for (uint32_t i = 0; i < count; i++) {
        whole += layers[i].parameters * o->initialise_bytes;
    }
    if (!zero_states_on_drives(o)) { /* the layers' own buffers, as zero_place put them */
        double gradient = zero_gradients_leave(lowering) ? software->gradient_bytes : 0;
        steady += state->host_parameters * (software->master_bytes + software->moments_bytes + gradient);
    }
    if (o->weights == SPACE_PINNED || o->weights == SPACE_HOST) {
        steady += owned * software->weight_bytes;
    }
    hold_until_begun(lowering, SPACE_HOST, whole - steady, BUFFER_RUNTIME,
                     "initialisation: the rank's own copy of the whole model");
    if (o->initialised_on_device && zero_fetches(o)) {
        hold_until_begun(lowering, SPACE_DEVICE, owned * software->weight_bytes, BUFFER_WEIGHT,
                         "initialisation: the rank's share of the weights");
    }
}

void zero_begin_rank(struct lowering *lowering, const struct zero_options *options)
{
    uint32_t count;
    const struct lower_layer *layers = lower_layers(lowering, &count);
    struct zero_state *state = arena_array(lower_arena(lowering), struct zero_state, 1);
    struct zero_layer *own = arena_array(lower_arena(lowering), struct zero_layer, count);
    uint32_t *bucket = arena_array(lower_arena(lowering), uint32_t, count);
    uint32_t *made = arena_array(lower_arena(lowering), uint32_t, count);
    struct zero_checkpoint *checkpoints = arena_array(lower_arena(lowering), struct zero_checkpoint,
                                                      count * (size_t)lower_input(lowering)->plan->micro_batches);
    *lower_policy_state(lowering) = state;
    if (state == NULL || own == NULL || bucket == NULL || made == NULL || checkpoints == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for the %u layers of a rank", count);
        return;
    }
    *state = (struct zero_state){ .options = *options, .layers = own, .layer_count = count };
    state->bucket.layers = bucket;
    state->made = made;
    state->checkpoints = checkpoints;
    state->last_checkpoint = state->compute_ends[0] = state->compute_ends[1] = SCHED_NONE;
    state->seen_data_op = state->last_down = state->last_update = state->last_upload = SCHED_NONE;
    state->read_queue = state->write_queue = state->flat_buckets = SCHED_NONE;
    state->new_weights = state->persistent_weights = SCHED_NONE;
    for (uint32_t i = 0; i < ZERO_PASS_ENDS; i++) {
        state->pass_ends[i] = SCHED_NONE;
    }
    for (uint32_t i = 0; i < ZERO_STAGES_MAX; i++) {
        state->stages[i] = SCHED_NONE;
    }
    for (uint32_t i = 0; i < count; i++) {
        own[i] = (struct zero_layer){ .gradient = SCHED_NONE, .arrival = SCHED_NONE, .weights = SCHED_NONE };
        own[i].on_device = !on_host(lowering, options, &layers[i]);
        own[i].persistent =
            zero_fetches(options) ? persistent_elements(lowering, &layers[i], options->persistent_elements) : 0;
        *(own[i].on_device ? &state->device_parameters : &state->host_parameters) += layers[i].owned_parameters;
    }
    lower_exact_blocks(
        lowering); /* pinned_block() charges the rounding of whole flat blocks, of which layers have parts */
    hold_gradients(lowering);
    hold_weights(lowering);
    hold_initialisation(lowering);
}
