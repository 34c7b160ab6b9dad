/* Passes of layers and chunks: activations and short-lived tensors, what is recomputed, what is released, several layers as one op. */
#include <math.h>

#include "sim/plan/lower_internal.h"

/* ---- memory of a pass ---- */

static double saved_bytes(const struct lower_layer *layer)
{
    switch (layer->recompute) {
    case RECOMPUTE_NONE: return layer->graph->saved_bytes_none;
    case RECOMPUTE_SELECTIVE: return layer->graph->saved_bytes_selective;
    case RECOMPUTE_FULL: return layer->graph->saved_bytes_full;
    case RECOMPUTE_MODE_COUNT: break;
    }
    return 0;
}

static double input_bytes(const struct layer_graph *graph)
{
    double bytes = 0;
    for (uint32_t i = 0; i < graph->saved_count; i++) {
        bytes += graph->saved[i].is_input ? graph->saved[i].bytes : 0;
    }
    return bytes;
}

static struct activation *activation_of(const struct lowering *l, const struct lower_layer *layer, uint32_t micro_batch)
{
    return &l->rank->activations[(size_t)layer->index * l->rank->slots + lowering_slot(l, micro_batch)];
}

static uint32_t *boundary_of(const struct lowering *l, uint32_t chunk, uint32_t micro_batch)
{
    return &l->rank->boundary_in[(size_t)chunk * l->rank->slots + lowering_slot(l, micro_batch)];
}

/* Is the layer's input held by a received boundary buffer rather than by its own activation? */
static bool input_is_received(const struct lowering *l, const struct lower_layer *layer, uint32_t micro_batch)
{
    return layer->index == l->rank->chunk_first_layer[layer->chunk] &&
           *boundary_of(l, layer->chunk, micro_batch) != SCHED_NONE;
}

static double activation_bytes(const struct lowering *l, const struct lower_layer *layer, uint32_t micro_batch)
{
    double bytes = saved_bytes(layer);
    return input_is_received(l, layer, micro_batch) ? fmax(0, bytes - input_bytes(layer->graph)) : bytes;
}

uint64_t lower_activation_bytes(const struct lowering *l, const struct lower_layer *layer)
{
    return (uint64_t)ceil(activation_bytes(l, layer, 0));
}

uint32_t lower_activation_take(struct lowering *l, const struct lower_layer *layer, uint32_t micro_batch)
{
    struct activation *activation = activation_of(l, layer, micro_batch);
    uint32_t buffer = activation->buffer;
    activation->buffer = SCHED_NONE;
    return buffer;
}

void lower_activation_give(struct lowering *l, const struct lower_layer *layer, uint32_t micro_batch, uint32_t buffer)
{
    activation_of(l, layer, micro_batch)->buffer = buffer;
}

static uint32_t device_buffer(struct lowering *l, double bytes, enum buffer_class buffer_class, const char *what)
{
    return bytes > 0 ? lower_buffer(l, SPACE_DEVICE, bytes, buffer_class, 0, what) : SCHED_NONE;
}

static void release_at_last(struct lowering *l, uint32_t buffer)
{
    if (buffer != SCHED_NONE && l->rank->last_compute != SCHED_NONE) {
        builder_release_at(l->builder, l->rank->last_compute, buffer);
    }
}

static const char *saved_label(const struct lower_layer *layer)
{
    return layer->kind == LAYER_EMBEDDING ? "saved by the embedding"
           : layer->kind == LAYER_HEAD    ? "saved by the head"
                                          : "saved for backward";
}

/* ---- one pass of one layer ---- */

/* Short-lived tensors of a pass. Layers ask for one block: all are alike, so it is reused. The ends ask for their few huge tensors one by one, as these
 * decide what an allocator can reuse. */
struct scratch {
    uint32_t buffers[LAYER_PEAK_PARTS], count;
};

static void acquire_scratch(struct lowering *l, struct scratch *scratch, const struct lower_layer *layer, double bytes,
                            const struct layer_peak *peak, const char *what)
{
    *scratch = (struct scratch){ 0 };
    if (layer->kind == LAYER_TRANSFORMER) {
        scratch->buffers[scratch->count++] = device_buffer(l, bytes, BUFFER_WORKSPACE, what);
    } else {
        for (uint32_t i = 0; i < peak->count; i++) {
            scratch->buffers[scratch->count++] = device_buffer(l, peak->bytes[i], BUFFER_WORKSPACE, what);
        }
    }
    for (uint32_t i = 0; i < scratch->count; i++) {
        lower_next_acquires(l, scratch->buffers[i]);
    }
}

static void release_scratch(struct lowering *l, const struct scratch *scratch)
{
    for (uint32_t i = 0; i < scratch->count; i++) {
        release_at_last(l, scratch->buffers[i]);
    }
}

static double forward_scratch_bytes(const struct lower_layer *layer)
{
    switch (layer->recompute) {
    case RECOMPUTE_NONE: return layer->graph->forward_transient_bytes;
    case RECOMPUTE_SELECTIVE: return layer->graph->forward_selective_peak_bytes;
    case RECOMPUTE_FULL: return layer->graph->forward_unsaved_peak_bytes;
    case RECOMPUTE_MODE_COUNT: break;
    }
    return 0;
}

/* The layer's block, or the few blocks of an end (acquire_scratch). */
static double scratch_bytes(const struct lower_layer *layer, double bytes, const struct layer_peak *peak)
{
    if (layer->kind == LAYER_TRANSFORMER) {
        return bytes;
    }
    double sum = 0;
    for (uint32_t i = 0; i < peak->count; i++) {
        sum += peak->bytes[i];
    }
    return sum;
}

double lower_pass_bytes(const struct lowering *l, const struct lower_layer *layer, enum lower_pass_kind kind)
{
    const struct layer_graph *graph = layer->graph;
    if (kind == LOWER_FORWARD) {
        return scratch_bytes(layer, forward_scratch_bytes(layer), &graph->forward_peak);
    }
    double bytes = scratch_bytes(layer, graph->backward_transient_bytes, &graph->backward_peak);
    if (layer->recompute == RECOMPUTE_NONE) {
        return bytes;
    }
    bool whole = layer->recompute == RECOMPUTE_FULL || l->request->software->selective_ops;
    double forward = whole ? graph->forward_transient_bytes : 0;
    return graph->saved_bytes_none - saved_bytes(layer) + fmax(bytes, forward);
}

static void emit_forward(struct lowering *l, const struct lower_pass *pass)
{
    const struct lower_layer *layer = pass->layer;
    uint32_t saved =
        device_buffer(l, activation_bytes(l, layer, pass->micro_batch), BUFFER_ACTIVATION, saved_label(layer));
    struct scratch scratch;
    acquire_scratch(l, &scratch, layer, forward_scratch_bytes(layer), &layer->graph->forward_peak, "forward pass");
    lower_next_acquires(l, saved);
    activation_of(l, layer, pass->micro_batch)->buffer = saved;
    lowering_emit_template(l, pass, TEMPLATE_FORWARD);
    release_scratch(l, &scratch);
}

/* Recomputation runs when the gradient has arrived (lazily), as Megatron does. Returns the buffer of the recomputed tensors. */
static uint32_t emit_recompute(struct lowering *l, const struct lower_pass *pass)
{
    const struct lower_layer *layer = pass->layer;
    if (layer->recompute == RECOMPUTE_NONE) {
        return SCHED_NONE;
    }
    bool full = layer->recompute == RECOMPUTE_FULL;
    double bytes = layer->graph->saved_bytes_none - saved_bytes(layer);
    uint32_t again = device_buffer(l, bytes, BUFFER_WORKSPACE, "recomputed");
    /* Korthikanti's selective mode repeats only the attention core: its scratch is below that of the backward */
    bool whole = full || l->request->software->selective_ops;
    uint32_t scratch =
        whole ? device_buffer(l, layer->graph->forward_transient_bytes, BUFFER_WORKSPACE, "recomputed forward")
              : SCHED_NONE;
    const struct pass_template *made =
        lowering_template(l, layer, full ? TEMPLATE_RECOMPUTE_FULL : TEMPLATE_RECOMPUTE_CORE);
    lower_next_acquires(l, again);
    if (made->segment_count > 0) {
        lower_next_acquires(l, scratch);
        lowering_emit_template(l, pass, full ? TEMPLATE_RECOMPUTE_FULL : TEMPLATE_RECOMPUTE_CORE);
        release_at_last(l, scratch);
    }
    return again;
}

/* Releases what the backward of (layer, micro-batch) was the last to need. */
static void release_saved(struct lowering *l, const struct lower_pass *pass)
{
    struct activation *activation = activation_of(l, pass->layer, pass->micro_batch);
    release_at_last(l, activation->buffer);
    release_at_last(l, activation->recomputed);
    release_at_last(l, activation->kept);
    release_at_last(l, activation->cast);
    *activation = (struct activation){ SCHED_NONE, SCHED_NONE, SCHED_NONE, SCHED_NONE };
    if (input_is_received(l, pass->layer, pass->micro_batch)) {
        uint32_t *boundary = boundary_of(l, pass->layer->chunk, pass->micro_batch);
        release_at_last(l, *boundary);
        *boundary = SCHED_NONE;
    }
}

static void acquire_backward_scratch(struct lowering *l, struct scratch *scratch, const struct lower_layer *layer)
{
    if (lowering_is_flat_unit(l, layer) && !l->request->order->splits_backward) {
        /* its own gradients among them */
        *scratch = (struct scratch){ .count = 1 };
        scratch->buffers[0] =
            device_buffer(l, layer->graph->backward_flow_bytes, BUFFER_WORKSPACE, "backward pass and its gradients");
        lower_next_acquires(l, scratch->buffers[0]);
        return;
    }
    acquire_scratch(l, scratch, layer, layer->graph->backward_transient_bytes, &layer->graph->backward_peak,
                    "backward pass");
}

/* An embedding may have weight gradients only: its short-lived tensors are then those of the weight part. */
static bool has_input_part(const struct lowering *l, const struct lower_layer *layer)
{
    return lowering_template(l, layer, TEMPLATE_BACKWARD_INPUT)->segment_count > 0;
}

/* Behind the last op of the backward. A unit's gradients are joined when its saved tensors are gone, but for the input that a checkpoint holds. */
static void end_backward(struct lowering *l, const struct lower_pass *pass)
{
    bool unit = lowering_is_flat_unit(l, pass->layer), holds = unit && pass->layer->recompute == RECOMPUTE_FULL;
    if (holds) {
        uint32_t *recomputed = &activation_of(l, pass->layer, pass->micro_batch)->recomputed;
        release_at_last(l, *recomputed);
        *recomputed = SCHED_NONE;
    } else {
        release_saved(l, pass);
    }
    if (unit) {
        lowering_join_gradients(l, pass);
    }
    if (holds) {
        release_saved(l, pass);
    }
}

static void emit_backward_weight(struct lowering *l, const struct lower_pass *pass)
{
    struct scratch scratch = { 0 };
    if (!has_input_part(l, pass->layer)) {
        acquire_backward_scratch(l, &scratch, pass->layer);
    }
    lowering_emit_template(l, pass, TEMPLATE_BACKWARD_WEIGHT);
    release_scratch(l, &scratch);
    end_backward(l, pass);
}

static void emit_backward(struct lowering *l, const struct lower_pass *pass)
{
    const struct lower_layer *layer = pass->layer;
    bool split = l->request->order->splits_backward;
    activation_of(l, layer, pass->micro_batch)->recomputed = emit_recompute(l, pass);
    struct scratch scratch = { 0 };
    if (!split || has_input_part(l, layer)) {
        acquire_backward_scratch(l, &scratch, layer);
    }
    if (split) {
        uint32_t kept =
            device_buffer(l, layer->graph->weight_kept_bytes, BUFFER_ACTIVATION, "kept for weight gradients");
        lower_next_acquires(l, kept);
        activation_of(l, layer, pass->micro_batch)->kept = kept;
    }
    lowering_emit_template(l, pass, split ? TEMPLATE_BACKWARD_INPUT : TEMPLATE_BACKWARD);
    release_scratch(l, &scratch);
    if (!split) {
        end_backward(l, pass);
    }
}

static void remember_pass_end(struct rank_state *rank)
{
    for (uint32_t i = PASS_ENDS - 1; i > 0; i--) {
        rank->pass_ends[i] = rank->pass_ends[i - 1];
    }
    rank->pass_ends[0] = rank->last_compute;
}

/* ZeRO-2, 3: the whole gradient lives only until its bucket has been reduced and scattered. Units of FSDP1 join theirs at the end of the pass. */
void lowering_acquire_full_gradient(struct lowering *l, const struct lower_layer *layer)
{
    uint32_t *full = &l->rank->full_gradient[layer->index];
    if (layer->zero_stage < 2 || layer->replicas == 1 || !(layer->parameters > 0) || *full != SCHED_NONE ||
        l->request->policy->owns_model_data || lowering_is_flat_unit(l, layer)) {
        return;
    }
    *full = lower_buffer(l, SPACE_DEVICE, lowering_full_gradient_bytes(l, layer), BUFFER_GRADIENT, 0,
                         "gradient before reduce-scatter");
    lower_next_acquires(l, *full);
}

/* `next`: the layer whose pass of the kind follows in the chunk, or NULL. */
static void emit_layer_pass(struct lowering *l, const struct lower_pass *pass, const struct lower_layer *next)
{
    const struct memory_policy *policy = l->request->policy;
    const struct lower_layer *layer = pass->layer;
    if (policy->before_pass != NULL) {
        policy->before_pass(l, pass);
    }
    uint32_t gathered = SCHED_NONE;
    bool empty = pass->kind == LOWER_BACKWARD && l->request->order->splits_backward && !has_input_part(l, layer);
    if (!empty) {
        lowering_weights_for_pass(l, pass, &gathered);
    }
    bool final_part =
        pass->kind == LOWER_BACKWARD_WEIGHT || (pass->kind == LOWER_BACKWARD && !l->request->order->splits_backward);
    if (next != NULL) {
        lowering_gather_ahead(l, pass, next);
    }
    if (final_part) {
        lowering_acquire_full_gradient(l, layer);
    }
    switch (pass->kind) {
    case LOWER_FORWARD: emit_forward(l, pass); break;
    case LOWER_BACKWARD: emit_backward(l, pass); break;
    case LOWER_BACKWARD_WEIGHT: emit_backward_weight(l, pass); break;
    }
    release_at_last(l, gathered);
    release_at_last(l, l->rank->small_tables);
    l->rank->small_tables = SCHED_NONE;
    remember_pass_end(l->rank);
    if (policy->after_pass != NULL) {
        policy->after_pass(l, pass);
    }
    if (final_part) {
        lowering_gradient_done(l, pass, l->rank->last_compute);
    }
}

/* ---- a chunk's pass ---- */

static enum template_kind pass_template_kind(const struct lowering *l, enum lower_pass_kind kind)
{
    switch (kind) {
    case LOWER_FORWARD: return TEMPLATE_FORWARD;
    case LOWER_BACKWARD: return l->request->order->splits_backward ? TEMPLATE_BACKWARD_INPUT : TEMPLATE_BACKWARD;
    case LOWER_BACKWARD_WEIGHT: return TEMPLATE_BACKWARD_WEIGHT;
    }
    return TEMPLATE_FORWARD;
}

/* Whether nothing outside can see into the chunk's pass, so that it may become one op (--detail stage). */
static bool chunk_merges(const struct lowering *l, uint32_t chunk, enum lower_pass_kind kind, bool last)
{
    const struct memory_policy *policy = l->request->policy;
    if (l->request->plan->detail != DETAIL_STAGE || l->request->plan->layer_drop > 0 ||
        l->request->order->splits_backward || policy->before_pass != NULL || policy->after_pass != NULL ||
        policy->gradient_ready != NULL || (l->rank->replicated && (l->rank->gathers || last))) {
        return false; /* the last backward of a replicated chunk hands over gradients layer by layer */
    }
    const struct rank_state *rank = l->rank;
    for (uint32_t i = 0; i < rank->chunk_layer_count[chunk]; i++) {
        const struct lower_layer *layer = &rank->layers[rank->chunk_first_layer[chunk] + i];
        if (!lowering_template(l, layer, pass_template_kind(l, kind))->mergeable || lowering_casts_weights(l, layer) ||
            lowering_is_flat_unit(l, layer) || (i > 0 && !lowering_stays(l, layer[-1].layout, layer->layout)) ||
            (kind != LOWER_FORWARD && layer->recompute != RECOMPUTE_NONE)) {
            return false;
        }
    }
    return true;
}

/* Scratch of a merged pass. It holds everything that its layers save (or free) and its output from its start to its end, so it needs as much scratch beside them as
 * makes its total the highest sum that the layer passes one after the other would reach. */
static double merged_scratch_bytes(const struct lowering *l, uint32_t chunk, enum lower_pass_kind kind,
                                   uint32_t micro_batch)
{
    const struct rank_state *rank = l->rank;
    uint32_t first = rank->chunk_first_layer[chunk], count = rank->chunk_layer_count[chunk];
    const struct lower_layer *makes = &rank->layers[kind == LOWER_FORWARD ? first + count - 1 : first];
    uint32_t from = lowering_position(l, makes), to = kind == LOWER_FORWARD ? from + 1 : from - 1;
    double output = rank->output != SCHED_NONE ? lowering_crossing_bytes(l, lowering_layout(l, makes), from, to) : 0;
    double most = 0, elsewhere = 0; /* saved by the layers that are not live while this one runs */
    for (uint32_t i = count; i-- > 0;) {
        const struct lower_layer *layer = &rank->layers[first + i];
        bool is_last = i == (kind == LOWER_FORWARD ? count - 1 : 0);
        double bytes = kind == LOWER_FORWARD ? forward_scratch_bytes(layer) : layer->graph->backward_transient_bytes;
        most = fmax(most, bytes - elsewhere - (is_last ? 0 : output));
        elsewhere += ceil(activation_bytes(l, layer, micro_batch));
    }
    return most;
}

/* The kernels of the chunk's pass as one work, made at first use. */
static uint32_t merged_work(struct lowering *l, uint32_t chunk, enum lower_pass_kind kind)
{
    struct rank_state *rank = l->rank;
    enum template_kind template_kind = pass_template_kind(l, kind);
    uint32_t first = rank->chunk_first_layer[chunk], count = rank->chunk_layer_count[chunk];
    uint32_t item_count = 0, filled = 0;
    struct work_item **items = &rank->merged_items[chunk][template_kind];
    if (*items != NULL) {
        return rank->merged_works[chunk][template_kind];
    }
    for (uint32_t i = 0; i < count; i++) {
        item_count += lowering_template(l, &rank->layers[first + i], template_kind)->item_count;
    }
    *items = arena_array(&l->arena, struct work_item, item_count);
    if (*items == NULL) {
        lower_fail(l, STATUS_NO_MEMORY, "out of memory for merged passes");
        return SCHED_NONE;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = kind == LOWER_FORWARD ? i : count - 1 - i;
        const struct pass_template *made = lowering_template(l, &rank->layers[first + at], template_kind);
        for (uint32_t k = 0; k < made->item_count; k++) {
            (*items)[filled++] = made->items[k];
        }
    }
    rank->merged_works[chunk][template_kind] = builder_work_kernels(l->builder, *items, item_count);
    return rank->merged_works[chunk][template_kind];
}

/* One op for the whole chunk (forward, or a whole backward). Its buffers are those of the layer passes. */
static void emit_merged(struct lowering *l, uint32_t chunk, enum lower_pass_kind kind, uint32_t micro_batch)
{
    struct rank_state *rank = l->rank;
    uint32_t first = rank->chunk_first_layer[chunk], count = rank->chunk_layer_count[chunk];
    uint32_t scratch = device_buffer(l, merged_scratch_bytes(l, chunk, kind, micro_batch), BUFFER_WORKSPACE, "pass");
    uint32_t work = merged_work(l, chunk, kind);
    if (work == SCHED_NONE) {
        return;
    }
    lower_next_acquires(l, scratch);
    lower_next_acquires(l, rank->output);
    lowering_compute(l, work, kind == LOWER_FORWARD ? PHASE_FORWARD : PHASE_BACKWARD);
    builder_tag(l->builder, (uint16_t)micro_batch, (uint16_t)chunk, OP_TAG_NONE);
    release_at_last(l, scratch);
    for (uint32_t i = 0; i < count; i++) {
        const struct lower_layer *layer = &rank->layers[first + i];
        struct lower_pass pass = { .layer = layer, .kind = kind, .micro_batch = micro_batch };
        if (kind == LOWER_FORWARD) {
            uint32_t saved =
                device_buffer(l, activation_bytes(l, layer, micro_batch), BUFFER_ACTIVATION, saved_label(layer));
            activation_of(l, layer, micro_batch)->buffer = saved;
            if (saved != SCHED_NONE) {
                builder_acquire(l->builder, saved);
            }
        } else {
            release_saved(l, &pass);
        }
    }
}

bool lowering_chunk_pass(struct lowering *l, uint32_t chunk, enum lower_pass_kind kind, uint32_t micro_batch)
{
    struct rank_state *rank = l->rank;
    bool final_part = kind == LOWER_BACKWARD_WEIGHT || (kind == LOWER_BACKWARD && !l->request->order->splits_backward);
    bool last = final_part && ++rank->weight_passes_done[chunk] == rank->weight_passes[chunk];
    if (last) {
        rank->weight_passes_done[chunk] = 0;
    }
    if (chunk_merges(l, chunk, kind, last)) {
        emit_merged(l, chunk, kind, micro_batch);
        return last;
    }
    uint32_t count = rank->chunk_layer_count[chunk];
    for (uint32_t i = 0; i < count && l->status == STATUS_OK; i++) {
        uint32_t at = kind == LOWER_FORWARD ? i : count - 1 - i;
        struct lower_pass pass = {
            .layer = &rank->layers[rank->chunk_first_layer[chunk] + at],
            .kind = kind,
            .micro_batch = micro_batch,
            .last_micro_batch = last,
        };
        pass.skipped = lowering_skips(l, pass.layer, micro_batch);
        if (pass.skipped) {
            lowering_skip_pass(l, &pass);
            continue;
        }
        if (i > 0 && kind != LOWER_BACKWARD_WEIGHT) {
            uint32_t to = lowering_position(l, pass.layer);
            lowering_redistribute(l, kind == LOWER_FORWARD ? to - 1 : to + 1, to, chunk, micro_batch);
        }
        bool ends = i == count - 1;
        if (ends) {
            lower_next_acquires(l, rank->output);
        }
        emit_layer_pass(l, &pass, ends ? NULL : lowering_next_layer(l, &pass));
    }
    return last;
}
