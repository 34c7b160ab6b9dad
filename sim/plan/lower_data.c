/* Data parallelism: gradient buckets, ZeRO's shards and gathers. */
#include "sim/base/check.h"
#include "sim/plan/lower_internal.h"

/* ZeRO-3: the whole weights of a layer, gathered ahead of its pass and dropped after it. Returns the buffer that holds them. */
uint32_t lowering_gather(struct lowering *l, const struct lower_layer *layer)
{
    struct rank_state *rank = l->rank;
    const struct software *software = l->request->software;
    uint32_t ahead = software->overlap_parameter_gather ? software->prefetch_layers : 0;
    uint32_t after = rank->pass_ends[ahead < PASS_ENDS ? ahead : PASS_ENDS - 1];
    uint32_t buffer =
        lower_buffer(l, SPACE_DEVICE, (double)layer->gathered_bytes, BUFFER_COMMUNICATION, 0, "gathered weights");
    uint32_t op = lowering_collective(l, OP_ALL_GATHER, rank->data_queue, rank->groups.data, rank->groups.data_present,
                                      (double)layer->gathered_bytes, l->request->plan->precision, PHASE_DATA_COMM);
    builder_depends(l->builder, after);
    builder_acquire(l->builder, buffer);
    builder_tag(l->builder, OP_TAG_NONE, (uint16_t)layer->chunk,
                layer->model_index == SCHED_NONE ? OP_TAG_NONE : (uint16_t)layer->model_index);
    rank->last_data = op;
    lower_next_depends(l, op);
    return buffer;
}

void lowering_flush_bucket(struct lowering *l)
{
    struct rank_state *rank = l->rank;
    struct bucket *bucket = &rank->bucket;
    if (bucket->layer_count == 0) {
        return;
    }
    const struct lower_request *request = l->request;
    bool scatter = request->plan->zero_stage >= 1;
    uint32_t op = lowering_collective(l, scatter ? OP_REDUCE_SCATTER : OP_ALL_REDUCE, rank->data_queue,
                                      rank->groups.data, rank->groups.data_present, bucket->bytes,
                                      request->software->gradient_dtype, PHASE_DATA_COMM);
    builder_depends(l->builder, bucket->after_op);
    rank->last_data = op;
    for (uint32_t i = 0; i < bucket->layer_count; i++) {
        if (rank->bucket_buffers[i] != SCHED_NONE) {
            builder_release(l->builder, rank->bucket_buffers[i]);
        }
    }
    if (!request->software->overlap_gradient_reduce) {
        lower_next_depends(l, op);
    }
    if (bucket->last_micro_batch && request->policy->gradient_ready != NULL) {
        for (uint32_t i = 0; i < bucket->layer_count; i++) {
            request->policy->gradient_ready(l, &rank->layers[rank->bucket_layers[i]], op);
        }
    }
    *bucket = (struct bucket){ 0 };
}

void lowering_gradient_done(struct lowering *l, const struct lower_pass *pass, uint32_t after_op)
{
    struct rank_state *rank = l->rank;
    const struct lower_layer *layer = pass->layer;
    const struct lower_request *request = l->request;
    if (layer->parameters <= 0) {
        return;
    }
    if (l->replicas == 1) {
        if (pass->last_micro_batch && request->policy->gradient_ready != NULL) {
            request->policy->gradient_ready(l, layer, after_op);
        }
        return;
    }
    bool every_micro_batch = request->plan->zero_stage >= 2;
    if (!every_micro_batch && !pass->last_micro_batch) {
        return;
    }
    struct bucket *bucket = &rank->bucket;
    rank->bucket_layers[bucket->layer_count] = layer->index;
    rank->bucket_buffers[bucket->layer_count] = rank->full_gradient[layer->index];
    rank->full_gradient[layer->index] = SCHED_NONE;
    bucket->layer_count++;
    bucket->bytes += layer->parameters * request->software->reduce_bytes;
    bucket->after_op = after_op;
    bucket->last_micro_batch = pass->last_micro_batch;
    bool chunk_ends =
        layer->index == rank->chunk_first_layer[layer->chunk]; /* backward goes down to the chunk's first layer */
    bool at_once = request->software->overlap_gradient_reduce || every_micro_batch;
    if (at_once && (bucket->bytes >= request->software->bucket_bytes || (every_micro_batch && chunk_ends))) {
        lowering_flush_bucket(l);
    }
}
