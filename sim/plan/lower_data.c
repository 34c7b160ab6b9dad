/* Data parallelism: gradient buckets, ZeRO's shards and gathers. */
#include "sim/base/check.h"
#include "sim/model/variant.h"
#include "sim/plan/lower_internal.h"

/* ---- weights ---- */

/* Weights that stay gathered between the passes of a step (software.keeps_gathered). */
static bool stays_gathered(const struct lowering *l, const struct lower_layer *layer)
{
    const struct rank_state *rank = l->rank;
    uint32_t last = rank->layer_count - 1;
    bool is_last = layer->index == last || (layer->index + 1 == last && rank->layers[last].kind == LAYER_HEAD);
    return l->request->software->keeps_gathered && (layer->kind != LAYER_TRANSFORMER || l->stages > 1 || is_last);
}

static bool in_root_group(const struct lowering *l, const struct lower_layer *layer)
{
    return l->request->software->keeps_gathered && layer->kind != LAYER_TRANSFORMER;
}

/* Gathers `bytes` of weights when `after` is over; returns the buffer that holds them. What is emitted next need not wait. */
static uint32_t start_gather(struct lowering *l, double bytes, uint32_t after, const struct lower_layer *layer,
                             uint32_t arrives)
{
    struct rank_state *rank = l->rank;
    const struct rank_layout *own = lowering_rank_layout(l, layer);
    uint32_t op = lowering_collective(l, OP_ALL_GATHER, rank->data_queue, own->data, own->data_present, bytes,
                                      l->request->plan->precision, PHASE_DATA_COMM);
    builder_depends(l->builder, after);
    builder_acquire(l->builder, arrives);
    builder_tag(l->builder, OP_TAG_NONE, (uint16_t)layer->chunk,
                layer->model_index == SCHED_NONE ? OP_TAG_NONE : (uint16_t)layer->model_index);
    rank->last_data = op;
    return op;
}

static uint32_t weights_buffer(struct lowering *l, double bytes)
{
    return lower_buffer(l, SPACE_DEVICE, bytes, BUFFER_COMMUNICATION, 0, "gathered weights");
}

static uint32_t gather(struct lowering *l, double bytes, uint32_t after, const struct lower_layer *layer, bool backward)
{
    struct rank_state *rank = l->rank;
    bool staged = l->request->software->staged_collectives;
    uint32_t weights = weights_buffer(l, bytes);
    uint32_t arrives =
        staged ? lower_buffer(l, SPACE_DEVICE, bytes, BUFFER_COMMUNICATION, 0, "gather's flat buffer") : weights;
    lower_next_depends(l, start_gather(l, bytes, after, layer, arrives));
    if (staged) {
        lower_next_acquires(l, weights);
        lowering_memory_kernel(l, KERNEL_ELEMENTWISE, bytes, bytes, 1, PHASE_DATA_COMM);
        /* In the forward the flat buffer waits for the next copy out, so that the next gather's copy in is not written over it. */
        if (rank->gather_stage != SCHED_NONE) {
            builder_release(l->builder, rank->gather_stage);
        }
        rank->gather_stage = backward ? SCHED_NONE : arrives;
        if (backward) {
            builder_release(l->builder, arrives);
        }
    }
    return weights;
}

/* table_units: of an embedding, what is not the word table; 0 where that is no unit of its own. */
static double small_tables_bytes(const struct lowering *l, const struct lower_layer *layer)
{
    const struct software *software = l->request->software;
    bool apart = software->table_units && layer->kind == LAYER_EMBEDDING && l->request->model->vocab > 0;
    return apart ? layer->graph->replicated_parameters * software->gathered_bytes : 0;
}

/* flat_units: the gather of the unit whose backward follows is issued before this one's gradients are reduced, behind the pass before (FSDP1's BACKWARD_PRE). */
void lowering_gather_ahead(struct lowering *l, const struct lower_pass *pass, const struct lower_layer *next)
{
    struct rank_state *rank = l->rank;
    const struct software *software = l->request->software;
    bool norm_between = software->norm_unit && pass->layer->kind == LAYER_HEAD; /* that is what came ahead */
    if (!lowering_is_flat_unit(l, pass->layer) || pass->kind != LOWER_BACKWARD || next->gathered_bytes == 0 ||
        !software->overlap_parameter_gather || software->prefetch_layers == 0 || norm_between) {
        return;
    }
    double bytes = (double)next->gathered_bytes, small = small_tables_bytes(l, next);
    bytes = small > 0 ? small : bytes;
    rank->ahead_layer = next->index;
    rank->ahead_weights = weights_buffer(l, bytes);
    rank->ahead_op = start_gather(l, bytes, rank->pass_ends[0], next, rank->ahead_weights);
}

static uint32_t take_ahead(struct lowering *l)
{
    struct rank_state *rank = l->rank;
    uint32_t weights = rank->ahead_weights;
    lower_next_depends(l, rank->ahead_op);
    rank->ahead_layer = rank->ahead_weights = rank->ahead_op = SCHED_NONE;
    return weights;
}

/* ZeRO-3: the whole weights of a layer, gathered ahead of its pass and dropped after it. Returns the buffer that holds them. */
uint32_t lowering_gather(struct lowering *l, const struct lower_layer *layer, bool backward)
{
    struct rank_state *rank = l->rank;
    const struct software *software = l->request->software;
    if (rank->ahead_layer == layer->index) {
        double small = small_tables_bytes(l, layer);
        uint32_t weights = take_ahead(l);
        if (small > 0) { /* the word table is the next unit */
            rank->small_tables = weights;
            return gather(l, (double)layer->gathered_bytes - small, rank->pass_ends[0], layer, backward);
        }
        return weights;
    }
    uint32_t ahead = software->overlap_parameter_gather ? software->prefetch_layers : 0;
    ahead = software->flat_units && backward ? 0 : ahead; /* nothing came ahead of a backward's first unit */
    uint32_t after = rank->pass_ends[ahead < PASS_ENDS ? ahead : PASS_ENDS - 1];
    return gather(l, (double)layer->gathered_bytes, after, layer, backward);
}

static void gather_root_group(struct lowering *l, const struct lower_layer *layer)
{
    struct rank_state *rank = l->rank;
    double bytes = 0;
    for (uint32_t i = 0; i < rank->layer_count; i++) {
        bool together =
            in_root_group(l, &rank->layers[i]) && lowering_alike(l, &rank->layers[i]) == lowering_alike(l, layer);
        bytes += together ? (double)rank->layers[i].gathered_bytes : 0;
    }
    lowering_alike(l, layer)->root_gather = gather(l, bytes, rank->last_compute, layer, false);
}

/* Resident weights wider than kernels take (autocast). */
bool lowering_casts_weights(const struct lowering *l, const struct lower_layer *layer)
{
    const struct lower_request *request = l->request;
    return !request->policy->owns_model_data &&
           dtype_bytes(request->plan->precision) < request->software->weight_bytes &&
           request->software->gathered_bytes < request->software->weight_bytes &&
           (layer->zero_stage < 3 || layer->replicas == 1);
}

/* Matrices that a layer casts. Behind those of every block: of the attention to t5's encoder the queries', the keys' and values' together, and the projection; of swin's merging its own. */
static uint32_t matrix_count(const struct lowering *l, const struct lower_layer *layer)
{
    const struct model *model = l->request->model;
    uint32_t variant = lowering_layout(l, layer)->variant;
    if (layer->kind == LAYER_HEAD) {
        return 1;
    }
    uint32_t more = model_variant_decodes(model, variant) ? 3 : model_variant_merges(model, variant) ? 1 : 0;
    return (model->activation == MODEL_SWIGLU ? 7 : 4) + more;
}

bool lowering_is_flat_unit(const struct lowering *l, const struct lower_layer *layer)
{
    return l->request->software->flat_units && layer->zero_stage >= 2 && layer->parameters > 0 &&
           !l->request->policy->owns_model_data;
}

/* A unit in a group of one: its flat parameter for this pass. */
static void cast_unit(struct lowering *l, const struct lower_pass *pass, uint32_t *release)
{
    const struct lower_layer *layer = pass->layer;
    double bytes = layer->parameters * l->request->software->gathered_bytes;
    *release = lower_buffer(l, SPACE_DEVICE, bytes, BUFFER_WEIGHT, 0, "cast weights");
    lower_next_acquires(l, *release);
    lowering_memory_kernel(l, KERNEL_ELEMENTWISE, layer->parameters * l->request->software->weight_bytes, bytes, 1,
                           pass->kind == LOWER_FORWARD ? PHASE_FORWARD : PHASE_BACKWARD);
}

/* The cast of a forward lives until its backward, as autograd keeps it; where the forward is repeated each of the two makes its own. */
static void cast_weights(struct lowering *l, const struct lower_pass *pass, uint32_t *release)
{
    const struct lower_layer *layer = pass->layer;
    const struct software *software = l->request->software;
    if (lowering_is_flat_unit(l, layer) && layer->zero_stage >= 3) {
        cast_unit(l, pass, release);
        return;
    }
    if (layer->kind == LAYER_EMBEDDING || !(layer->parameters > 0)) {
        return; /* look-ups are not cast */
    }
    bool repeated = layer->recompute == RECOMPUTE_FULL;
    if (pass->kind == LOWER_BACKWARD_WEIGHT || (pass->kind == LOWER_BACKWARD && !repeated)) {
        return; /* released with the activations */
    }
    double bytes = layer->parameters * software->gathered_bytes;
    uint32_t matrices = matrix_count(l, layer);
    uint32_t cast = lower_buffer(l, SPACE_DEVICE, bytes, BUFFER_WEIGHT, 0, "cast weights");
    lower_next_acquires(l, cast);
    lowering_memory_kernel(l, KERNEL_ELEMENTWISE, layer->parameters * software->weight_bytes, bytes, matrices,
                           pass->kind == LOWER_FORWARD ? PHASE_FORWARD : PHASE_RECOMPUTE);
    if (repeated && pass->kind == LOWER_FORWARD) {
        *release = cast;
    } else {
        l->rank->activations[(size_t)layer->index * l->rank->slots + lowering_slot(l, pass->micro_batch)].cast = cast;
    }
}

void lowering_weights_for_pass(struct lowering *l, const struct lower_pass *pass, uint32_t *release)
{
    const struct lower_layer *layer = pass->layer;
    struct rank_state *rank = l->rank;
    *release = SCHED_NONE;
    if (layer->gathered_bytes == 0) {
        if (lowering_casts_weights(l, layer)) {
            cast_weights(l, pass, release);
        }
        return;
    }
    if (in_root_group(l, layer)) {
        if (lowering_alike(l, layer)->root_gather == SCHED_NONE) {
            gather_root_group(l, layer);
        }
        return;
    }
    bool backward = pass->kind != LOWER_FORWARD;
    if (!stays_gathered(l, layer)) {
        *release = lowering_gather(l, layer, backward);
        return;
    }
    uint32_t *kept = &rank->kept_gather[layer->index];
    if (*kept == SCHED_NONE) {
        *kept = lowering_gather(l, layer, backward);
    }
    if (pass->last_micro_batch) {
        *release = *kept;
        *kept = SCHED_NONE;
    }
}

/* ---- gradients ---- */

/* Whole gradients summed over the micro-batches before they are reduced (software.keeps_gathered). */
static bool reduces_at_the_end(const struct lowering *l, const struct lower_layer *layer)
{
    return l->request->software->keeps_gathered && layer->zero_stage >= 3 &&
           (l->stages > 1 || layer->kind != LAYER_TRANSFORMER);
}

double lowering_full_gradient_bytes(const struct lowering *l, const struct lower_layer *layer)
{
    const struct software *software = l->request->software;
    double each = lowering_is_flat_unit(l, layer) ? software->gathered_bytes : software->gradient_bytes;
    if (software->staged_collectives && layer->zero_stage >= 3) {
        /* as autograd makes them, in the dtype of the gathered weights; sums over micro-batches in that of the reduction */
        each = reduces_at_the_end(l, layer) && l->request->plan->micro_batches > 1 ? software->reduce_bytes
                                                                                   : software->gathered_bytes;
    }
    return layer->parameters * each;
}

/* Copies the bucket's gradients into a flat buffer, once the one before has been reduced. Returns the copy. */
static uint32_t copy_into_stage(struct lowering *l, const struct bucket *bucket, uint32_t *stage)
{
    struct rank_state *rank = l->rank;
    double read = 0;
    for (uint32_t i = 0; i < bucket->layer_count; i++) {
        read += lowering_full_gradient_bytes(l, &rank->layers[bucket->layers[i]]);
    }
    *stage = lower_buffer(l, SPACE_DEVICE, bucket->bytes, BUFFER_COMMUNICATION, 0, "reduction's flat buffer");
    lower_next_acquires(l, *stage);
    lower_next_depends(l, rank->reduce_op);
    uint32_t op = lowering_memory_kernel(l, KERNEL_ELEMENTWISE, read, bucket->bytes, 1, PHASE_DATA_COMM);
    if (rank->reduce_stage != SCHED_NONE) {
        builder_release(l->builder, rank->reduce_stage);
    }
    return op;
}

static void release_bucket_gradients(struct lowering *l, const struct bucket *bucket)
{
    for (uint32_t i = 0; i < bucket->layer_count; i++) {
        if (bucket->buffers[i] != SCHED_NONE) {
            builder_release(l->builder, bucket->buffers[i]);
        }
    }
}

/* The op before is the first to reduce it: its shard begins with it. */
static void make_gradient(struct lowering *l, struct lower_layer *layer)
{
    if (layer->gradient_life == GRADIENT_TO_COME && layer->gradient != SCHED_NONE) {
        builder_acquire(l->builder, layer->gradient);
        layer->gradient_life = GRADIENT_MADE;
    }
}

static void make_gradients(struct lowering *l, const struct bucket *bucket)
{
    for (uint32_t i = 0; i < bucket->layer_count; i++) {
        make_gradient(l, &l->rank->layers[bucket->layers[i]]);
    }
}

/* What a checkpoint holds until its backward is over, beside the input: its output, and the gradients of both. Else the gradient that leaves. */
static double held_by_unit(const struct lower_layer *layer)
{
    double boundaries = layer->kind == LAYER_EMBEDDING ? 0 : layer->recompute == RECOMPUTE_FULL ? 3 : 1;
    return boundaries * layer->graph->boundary_bytes;
}

void lowering_join_gradients(struct lowering *l, const struct lower_pass *pass)
{
    const struct lower_layer *layer = pass->layer;
    double bytes = lowering_full_gradient_bytes(l, layer), held = held_by_unit(layer);
    uint32_t single = lower_buffer(l, SPACE_DEVICE, bytes, BUFFER_GRADIENT, 0, "gradients one by one");
    uint32_t flat = lower_buffer(l, SPACE_DEVICE, bytes, BUFFER_GRADIENT, 0, "flat gradient before reduction");
    uint32_t around =
        held > 0 ? lower_buffer(l, SPACE_DEVICE, held, BUFFER_WORKSPACE, 0, "held by the unit") : SCHED_NONE;
    lower_next_acquires(l, single);
    lower_next_acquires(l, flat);
    lower_next_acquires(l, around);
    lowering_memory_kernel(l, KERNEL_ELEMENTWISE, bytes, bytes, 1, PHASE_DATA_COMM);
    builder_release(l->builder, single);
    if (around != SCHED_NONE) {
        builder_release(l->builder, around);
    }
    l->rank->full_gradient[layer->index] = flat;
}

/* In a group of one: the flat gradient, cast. */
static uint32_t cast_gradient(struct lowering *l, struct lower_layer *layer)
{
    uint32_t *flat = &l->rank->full_gradient[layer->index];
    double bytes = lowering_full_gradient_bytes(l, layer);
    uint32_t op =
        lowering_memory_kernel(l, KERNEL_ELEMENTWISE, bytes, (double)layer->gradient_bytes, 1, PHASE_DATA_COMM);
    make_gradient(l, layer);
    builder_release(l->builder, *flat);
    *flat = SCHED_NONE;
    return op;
}

/* The layer's last reduction over the data-parallel group is `op`. A tied embedding's gradient is final only when both copies are summed: lowering_end_step tells. Asynchronous orders sum them behind
 * the update (lowering_update). */
static void gradient_reduced(struct lowering *l, const struct lower_layer *layer, uint32_t op)
{
    struct rank_state *rank = l->rank;
    if (layer->kind != LAYER_TRANSFORMER && rank->groups.embedding != SCHED_NONE && !l->request->order->asynchronous) {
        rank->tied_layer = layer->index;
    } else if (l->request->policy->gradient_ready != NULL) {
        l->request->policy->gradient_ready(l, layer, op);
    }
}

void lowering_flush_bucket(struct lowering *l, struct bucket *bucket)
{
    struct rank_state *rank = l->rank;
    if (bucket->layer_count == 0) {
        return;
    }
    const struct lower_request *request = l->request;
    const struct lower_layer *any = &rank->layers[bucket->layers[0]]; /* all have its layout */
    const struct rank_layout *own = lowering_rank_layout(l, any);
    bool scatter = any->zero_stage >= 1;
    bool staged = request->software->staged_collectives && any->zero_stage >= 2;
    uint32_t stage = SCHED_NONE, after = bucket->after_op;
    if (staged) {
        after = copy_into_stage(l, bucket, &stage);
        release_bucket_gradients(l, bucket);
    }
    uint32_t op =
        lowering_collective(l, scatter ? OP_REDUCE_SCATTER : OP_ALL_REDUCE, rank->data_queue, own->data,
                            own->data_present, bucket->bytes, request->software->gradient_dtype, PHASE_DATA_COMM);
    builder_depends(l->builder, after);
    make_gradients(l, bucket);
    rank->last_data = op;
    if (staged) {
        rank->reduce_stage = stage;
        rank->reduce_op = op;
    } else {
        release_bucket_gradients(l, bucket);
    }
    if (!request->software->overlap_gradient_reduce) {
        lower_next_depends(l, op);
    }
    for (uint32_t i = 0; bucket->last_micro_batch && i < bucket->layer_count; i++) {
        gradient_reduced(l, &rank->layers[bucket->layers[i]], op);
    }
    *bucket = (struct bucket){ .layers = bucket->layers, .buffers = bucket->buffers };
}

static void put_in_bucket(struct lowering *l, const struct lower_layer *layer, uint32_t after_op, bool last_micro_batch)
{
    struct rank_state *rank = l->rank;
    struct bucket *bucket = &lowering_alike(l, layer)->bucket;
    bucket->layers[bucket->layer_count] = layer->index;
    bucket->buffers[bucket->layer_count] = rank->full_gradient[layer->index];
    rank->full_gradient[layer->index] = SCHED_NONE;
    bucket->layer_count++;
    bucket->bytes += layer->parameters * l->request->software->reduce_bytes;
    bucket->after_op = after_op;
    bucket->last_micro_batch = last_micro_batch;
}

/* No layer below it in its chunk shares its bucket. */
static bool is_first_of_layout(const struct lowering *l, const struct lower_layer *layer)
{
    uint32_t i = l->rank->chunk_first_layer[layer->chunk];
    while (lowering_alike(l, &l->rank->layers[i]) != lowering_alike(l, layer)) {
        i++;
    }
    return i == layer->index;
}

/* Buckets are reduced while the last backward runs. */
bool lowering_reduces_early(const struct lowering *l)
{
    return l->request->software->overlap_gradient_reduce && l->request->plan->gradient_barrier != BARRIER_BEFORE;
}

void lowering_gradient_done(struct lowering *l, const struct lower_pass *pass, uint32_t after_op)
{
    const struct lower_layer *layer = pass->layer;
    const struct lower_request *request = l->request;
    if (layer->parameters <= 0 || request->policy->owns_model_data) {
        return;
    }
    if (layer->replicas == 1) {
        if (lowering_is_flat_unit(l, layer)) {
            after_op = cast_gradient(l, &l->rank->layers[layer->index]);
        }
        if (pass->last_micro_batch) {
            gradient_reduced(l, layer, after_op);
        }
        return;
    }
    bool every_micro_batch = layer->zero_stage >= 2 && !reduces_at_the_end(l, layer);
    if ((!every_micro_batch && !pass->last_micro_batch) || (layer->zero_stage >= 3 && in_root_group(l, layer))) {
        return; /* the root group waits for lowering_finish_data */
    }
    put_in_bucket(l, layer, after_op, pass->last_micro_batch);
    struct bucket *bucket = &lowering_alike(l, layer)->bucket;
    bool chunk_ends = is_first_of_layout(l, layer); /* backward goes down to the chunk's first layer */
    bool at_once = lowering_reduces_early(l) || every_micro_batch;
    if (at_once && (bucket->bytes >= request->software->bucket_bytes || (every_micro_batch && chunk_ends))) {
        lowering_flush_bucket(l, bucket);
    }
}

static void flush_buckets(struct lowering *l)
{
    for (uint32_t i = 0; i < l->layout_count; i++) {
        lowering_flush_bucket(l, &l->rank->layouts[i].bucket);
    }
}

/* All stages meet when their backwards have ended. */
static void wait_for_stages(struct lowering *l)
{
    struct rank_state *rank = l->rank;
    uint32_t after = rank->last_compute;
    if (rank->groups.model != SCHED_NONE && l->stages > 1) {
        rank->last_data = lowering_collective(l, OP_ALL_REDUCE, rank->data_queue, rank->groups.model,
                                              rank->groups.model_present, 4, DTYPE_FP32, PHASE_DATA_COMM);
        builder_depends(l->builder, after);
    }
}

void lowering_finish_data(struct lowering *l)
{
    struct rank_state *rank = l->rank;
    if (l->request->plan->gradient_barrier == BARRIER_BEFORE) {
        wait_for_stages(l);
    }
    flush_buckets(l);
    for (uint32_t i = rank->layer_count; i-- > 0;) {
        if (rank->full_gradient[i] != SCHED_NONE) {
            put_in_bucket(l, &rank->layers[i], rank->last_compute, true);
        }
    }
    flush_buckets(l);
    for (uint32_t i = 0; i < l->layout_count; i++) {
        struct rank_layout *own = &rank->layouts[i];
        if (own->root_gather != SCHED_NONE) {
            builder_release_at(l->builder, rank->last_compute, own->root_gather);
            own->root_gather = SCHED_NONE;
        }
    }
    if (rank->gather_stage != SCHED_NONE) {
        builder_release_at(l->builder, rank->last_compute, rank->gather_stage);
        rank->gather_stage = SCHED_NONE;
    }
    if (rank->reduce_stage != SCHED_NONE) {
        builder_release_at(l->builder, rank->reduce_op, rank->reduce_stage);
        rank->reduce_stage = SCHED_NONE;
    }
}

uint32_t lower_data_collective(struct lowering *l, enum opcode opcode, double bytes, uint32_t after_op)
{
    struct rank_state *rank = l->rank;
    rank->last_data = lowering_collective(l, opcode, rank->data_queue, rank->first->data, rank->first->data_present,
                                          bytes, l->request->plan->precision, PHASE_DATA_COMM);
    builder_depends(l->builder, after_op);
    return rank->last_data;
}
