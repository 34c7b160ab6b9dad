/* What PatrickStar does not keep in chunks: the running module's gradient, embedding tables on the CPU, activations on the host. All copies here are synchronous, as its checkpoint and embedding functions make them. */
#include "strategies/policies/patrickstar.h"

/* Of an embedding parameter on the CPU: fp32 weight, gradient and two moments, on every rank (core/preprocess.py, E.14). */
enum { CPU_EMBEDDING_BYTES = 16, CPU_EMBEDDING_WEIGHT_BYTES = 4 };

static double half_bytes(double elements)
{
    return 2 * elements;
}

double ps_module_gradient_bytes(const struct ps_state *state, uint32_t layer)
{
    double most = 0;
    for (uint32_t u = 0; u < state->units.count; u++) {
        double elements = (double)chunk_unit_elements(&state->units.items[u]);
        if (state->units.items[u].layer == layer && state->layout.unit_chunk[u] != CHUNK_NONE && elements > most) {
            most = elements;
        }
    }
    return half_bytes(most);
}

/* Of a layer, in chunks; `own_gradient`: only those whose gradient has a chunk of its own. */
static double chunked_elements(const struct ps_state *state, uint32_t layer, bool own_gradient)
{
    double sum = 0;
    for (uint32_t u = 0; u < state->units.count; u++) {
        uint32_t chunk = state->layout.unit_chunk[u];
        bool here = state->units.items[u].layer == layer && chunk != CHUNK_NONE &&
                    (!own_gradient || walk_gradient_slot(&state->walk, chunk) != CHUNK_NONE);
        sum += here ? (double)chunk_unit_elements(&state->units.items[u]) : 0;
    }
    return sum;
}

double ps_host_beside_bytes(const struct lowering *lowering, const struct ps_state *state)
{
    double bytes = CPU_EMBEDDING_BYTES * (double)state->layout.outside;
    bytes += half_bytes((double)state->layout.capacity); /* the gradient on its way to Adam */
    if (ps_on(lowering, PS_ACTIVATION_OFFLOAD)) {
        uint32_t count;
        const struct lower_layer *layers = lower_layers(lowering, &count);
        for (uint32_t i = 0; i < count; i++) {
            bytes += layers[i].kind == LAYER_TRANSFORMER ? (double)lower_activation_bytes(lowering, &layers[i]) : 0;
        }
    }
    return bytes;
}

/* The copy blocks the host, and the next compute follows it. */
static void synchronous(struct lowering *lowering, uint32_t op)
{
    builder_flag(lower_builder(lowering), OP_FLAG_HOST_WAITS);
    lower_next_depends(lowering, op);
}

/* ---- module gradients ---- */

static void gradient_begins(struct lowering *lowering, struct ps_state *state, uint32_t layer)
{
    double bytes = ps_module_gradient_bytes(state, layer);
    state->gradient = SCHED_NONE;
    if (bytes > 0) {
        state->gradient = lower_buffer(lowering, SPACE_DEVICE, bytes, BUFFER_GRADIENT, 0, "gradient of a module");
        lower_next_acquires(lowering, state->gradient);
    }
}

/* Cleared at its first visit, then copied over the parameters, or into a chunk of its own: what a later micro-batch adds to is read too. */
static void gradient_ends(struct lowering *lowering, struct ps_state *state, const struct lower_pass *pass)
{
    if (state->gradient != SCHED_NONE) {
        double bytes = half_bytes(chunked_elements(state, pass->layer->index, false));
        double sum = pass->micro_batch > 0 ? half_bytes(chunked_elements(state, pass->layer->index, true)) : 0;
        lower_device_stream(lowering, bytes + sum, 2 * bytes, PHASE_BACKWARD, SCHED_NONE);
        builder_release(lower_builder(lowering), state->gradient);
        state->gradient = SCHED_NONE;
    }
}

/* ---- embedding on the CPU ---- */

double ps_head_table_bytes(const struct lowering *lowering, const struct ps_state *state)
{
    const struct model *model = lower_input(lowering)->model;
    bool tied = state->layout.outside > 0 && model->tied_head && model_has_logits(model);
    return tied ? half_bytes((double)chunk_unit_elements(&state->units.items[0])) : 0;
}

/* Rows that the tables give for a micro-batch, in fp32: one per token and table, positions once per sequence. Backward returns their gradients. */
static double looked_up_bytes(const struct lowering *lowering, const struct ps_state *state)
{
    const struct lower_request *request = lower_input(lowering);
    double rows = 0, sequence = (double)request->plan->sequence_length;
    for (uint32_t u = 0; u < state->units.count; u++) {
        bool positions = u == 1; /* after the word table */
        if (state->units.items[u].embedding) {
            rows += positions ? sequence : sequence * (double)request->plan->micro_batch;
        }
    }
    return rows * (double)request->model->hidden * CPU_EMBEDDING_WEIGHT_BYTES;
}

static void look_up(struct lowering *lowering, const struct ps_state *state, bool backward)
{
    const struct plan *plan = lower_input(lowering)->plan;
    double ids = 8.0 * (double)plan->micro_batch * (double)plan->sequence_length;
    uint32_t after = lower_last_compute(lowering);
    if (backward) {
        lower_copy_to_host(lowering, looked_up_bytes(lowering, state), true, after, SCHED_NONE, SCHED_NONE);
        builder_write(lower_builder(lowering), state->embedding_gradient);
        builder_flag(lower_builder(lowering), OP_FLAG_HOST_WAITS);
        return;
    }
    uint32_t tokens = lower_buffer(lowering, SPACE_HOST, ids, BUFFER_WORKSPACE, 0, "numbers of the tokens to look up");
    uint32_t down = lower_copy_to_host(lowering, ids, true, after, tokens, SCHED_NONE);
    builder_flag(lower_builder(lowering), OP_FLAG_HOST_WAITS);
    uint32_t up = lower_copy_to_device(lowering, looked_up_bytes(lowering, state), true, down, SCHED_NONE, tokens);
    builder_read(lower_builder(lowering), state->embedding);
    synchronous(lowering, up);
}

/* A tied output projection needs the word table on the device: a copy for the head's passes, whose gradient goes down. */
static void head_table_up(struct lowering *lowering, struct ps_state *state)
{
    double bytes = ps_head_table_bytes(lowering, state);
    state->head_table = lower_buffer(lowering, SPACE_DEVICE, bytes, BUFFER_WEIGHT, 0, "word table for the head");
    synchronous(lowering, lower_copy_to_device(lowering, bytes, false, lower_last_compute(lowering), state->head_table,
                                               SCHED_NONE));
}

static void head_table_down(struct lowering *lowering, struct ps_state *state)
{
    double bytes = ps_head_table_bytes(lowering, state);
    synchronous(lowering, lower_copy_to_host(lowering, bytes, false, lower_last_compute(lowering), SCHED_NONE,
                                             state->head_table));
    state->head_table = SCHED_NONE;
}

uint32_t ps_update_embedding(struct lowering *lowering, uint32_t after_op)
{
    const struct ps_state *state = ps_state(lowering);
    return state->layout.outside > 0 ? lower_host_optimizer(lowering, (double)state->layout.outside, after_op)
                                     : after_op;
}

/* ---- activations on the host ---- */

static bool offloads(const struct lowering *lowering, const struct lower_pass *pass)
{
    return ps_on(lowering, PS_ACTIVATION_OFFLOAD) && pass->layer->kind == LAYER_TRANSFORMER;
}

static void activation_down(struct lowering *lowering, struct ps_state *state, const struct lower_pass *pass)
{
    double bytes = (double)lower_activation_bytes(lowering, pass->layer);
    uint32_t device = lower_activation_take(lowering, pass->layer, pass->micro_batch);
    uint32_t host = lower_buffer(lowering, SPACE_PINNED, bytes, BUFFER_ACTIVATION, 0, "activation on the host");
    uint32_t op = lower_copy_to_host(lowering, bytes, false, lower_last_compute(lowering), host, device);
    synchronous(lowering, op);
    state->offloaded[pass->layer->index] = host;
    state->offload_op[pass->layer->index] = op;
}

static void activation_up(struct lowering *lowering, struct ps_state *state, const struct lower_pass *pass)
{
    double bytes = (double)lower_activation_bytes(lowering, pass->layer);
    uint32_t index = pass->layer->index;
    uint32_t device = lower_buffer(lowering, SPACE_DEVICE, bytes, BUFFER_ACTIVATION, 0, "activation from the host");
    uint32_t op =
        lower_copy_to_device(lowering, bytes, false, lower_last_compute(lowering), device, state->offloaded[index]);
    builder_depends(lower_builder(lowering), state->offload_op[index]);
    synchronous(lowering, op);
    lower_activation_give(lowering, pass->layer, pass->micro_batch, device);
}

/* ---- in order ---- */

void ps_start_beside(struct lowering *lowering)
{
    struct ps_state *state = ps_state(lowering);
    double elements = (double)state->layout.outside;
    state->gradient = state->head_table = SCHED_NONE;
    if (elements > 0) {
        uint8_t always = BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END;
        state->embedding = lower_buffer(lowering, SPACE_HOST, CPU_EMBEDDING_WEIGHT_BYTES * elements, BUFFER_WEIGHT,
                                        always, "embedding on the CPU");
        state->embedding_gradient = lower_buffer(lowering, SPACE_HOST, CPU_EMBEDDING_WEIGHT_BYTES * elements,
                                                 BUFFER_GRADIENT, always, "gradient of the embedding on the CPU");
        lower_buffer(lowering, SPACE_HOST, 2 * CPU_EMBEDDING_WEIGHT_BYTES * elements, BUFFER_OPTIMIZER, always,
                     "moments of the embedding on the CPU");
    }
}

void ps_before_beside(struct lowering *lowering, const struct lower_pass *pass)
{
    struct ps_state *state = ps_state(lowering);
    bool backward = pass->kind == LOWER_BACKWARD;
    if (pass->layer->kind == LAYER_EMBEDDING && state->layout.outside > 0 && !backward) {
        look_up(lowering, state, false);
    }
    if (pass->layer->kind == LAYER_HEAD && ps_head_table_bytes(lowering, state) > 0 && !backward) {
        head_table_up(lowering, state);
    }
    if (backward && offloads(lowering, pass)) {
        activation_up(lowering, state, pass);
    }
    if (backward) {
        gradient_begins(lowering, state, pass->layer->index);
    }
}

void ps_after_beside(struct lowering *lowering, const struct lower_pass *pass)
{
    struct ps_state *state = ps_state(lowering);
    bool backward = pass->kind == LOWER_BACKWARD;
    if (backward) {
        gradient_ends(lowering, state, pass);
    }
    if (pass->layer->kind == LAYER_EMBEDDING && state->layout.outside > 0 && backward) {
        look_up(lowering, state, true);
    }
    if (pass->layer->kind == LAYER_HEAD && state->head_table != SCHED_NONE && backward) {
        head_table_down(lowering, state);
    }
    if (!backward && offloads(lowering, pass)) {
        activation_down(lowering, state, pass);
    }
}
