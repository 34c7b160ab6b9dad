/* Both ends of a step: clearing gradients, the gradient norm, the optimizer, ZeRO's gather of new weights. */
#include <math.h>

#include "sim/base/check.h"
#include "sim/plan/lower_internal.h"
#include "sim/plan/plan_replicas.h"

static uint32_t kernel_op(struct lowering *l, const struct kernel *kernel, enum op_phase phase)
{
    struct work_item item = { .index = builder_kernel(l->builder, kernel), .kind = ITEM_KERNEL };
    uint32_t work = builder_work_kernels(l->builder, &item, 1);
    return lowering_compute(l, work, phase);
}

uint32_t lowering_memory_kernel(struct lowering *l, enum kernel_class kernel_class, double read, double written,
                                uint32_t launches, enum op_phase phase)
{
    struct kernel kernel = kernel_of_traffic(kernel_class, read, written, launches);
    return kernel_op(l, &kernel, phase);
}

/* Parameters that this device updates. */
static double owned_parameters(const struct lowering *l)
{
    double sum = 0;
    for (uint32_t i = 0; i < l->rank->layer_count; i++) {
        sum += l->rank->layers[i].owned_parameters;
    }
    return sum;
}

static void clear_gradients(struct lowering *l)
{
    double bytes = 0;
    for (uint32_t i = 0; i < l->rank->layer_count; i++) {
        const struct lower_layer *layer = &l->rank->layers[i];
        bytes +=
            layer->gradient != SCHED_NONE && layer->gradient_life == GRADIENT_STAYS ? (double)layer->gradient_bytes : 0;
    }
    if (bytes > 0) {
        lowering_memory_kernel(l, KERNEL_ELEMENTWISE, 0, bytes, 1, PHASE_OPTIMIZER);
    }
}

void lowering_begin_step(struct lowering *l)
{
    l->rank->next_flags |= OP_FLAG_STEP;
    clear_gradients(l);
}

/* Both copies of a tied embedding, on the devices of the embedding and of the head, sum their gradients (Megatron). Returns the op, or SCHED_NONE. */
static uint32_t sum_tied(struct lowering *l, uint32_t queue)
{
    struct rank_state *rank = l->rank;
    if (rank->groups.embedding == SCHED_NONE) {
        return SCHED_NONE;
    }
    const struct model *model = l->request->model;
    const struct software *software = l->request->software;
    uint32_t tensor = l->layouts[l->layout_at[0]].tensor;
    double elements =
        (double)model->hidden * (double)model_padded_vocab(model, tensor, software->vocab_multiple) / tensor;
    uint32_t after = rank->last_compute;
    uint32_t op = lowering_collective(l, OP_ALL_REDUCE, queue, rank->groups.embedding, rank->groups.embedding_present,
                                      elements * software->gradient_bytes, software->gradient_dtype, PHASE_DATA_COMM);
    builder_depends(l->builder, after);
    return op;
}

static void tied_embedding(struct lowering *l)
{
    struct rank_state *rank = l->rank;
    uint32_t op = sum_tied(l, rank->data_queue);
    if (op == SCHED_NONE) {
        return;
    }
    rank->last_data = op;
    if (rank->tied_layer != SCHED_NONE && l->request->policy->gradient_ready != NULL) {
        l->request->policy->gradient_ready(l, &rank->layers[rank->tied_layer], rank->last_data);
    }
}

/* Under sequence parallelism each tensor rank saw its part of the sequence: the gradients of what all hold alike (norms, biases) are summed. */
static void replicated_gradients(struct lowering *l)
{
    const struct rank_state *rank = l->rank;
    const struct software *software = l->request->software;
    for (uint32_t i = 0; l->request->plan->sequence_parallel && i < l->layout_count; i++) {
        const struct rank_layout *own = &rank->layouts[i];
        double elements = 0;
        for (uint32_t k = 0; k < rank->layer_count; k++) {
            elements += lowering_alike(l, &rank->layers[k]) == own ? rank->layers[k].graph->replicated_parameters : 0;
        }
        if (own->tensor != SCHED_NONE && elements > 0) {
            lowering_collective(l, OP_ALL_REDUCE, rank->queues[QUEUE_COMPUTE], own->tensor, own->tensor_present,
                                elements * software->gradient_bytes, software->gradient_dtype, PHASE_TENSOR_COMM);
        }
    }
}

/* The norm of all gradients: every rank waits for every other. Where layers are split differently one sum runs over all ranks. Returns the op after which it is known. */
static uint32_t gradient_norm(struct lowering *l)
{
    struct rank_state *rank = l->rank;
    double bytes = owned_parameters(l) * l->request->software->gradient_bytes;
    lower_next_depends(l, rank->last_data);
    uint32_t op = lowering_memory_kernel(l, KERNEL_OPTIMIZER, bytes, 0, l->request->software->optimizer_launches,
                                         PHASE_OPTIMIZER);
    if (l->request->plan->gradient_barrier == BARRIER_NONE) {
        if (rank->first->tensor != SCHED_NONE) { /* each stage has a norm of its own */
            op = lowering_collective(l, OP_ALL_REDUCE, rank->queues[QUEUE_COMPUTE], rank->first->tensor,
                                     rank->first->tensor_present, 4, DTYPE_FP32, PHASE_OPTIMIZER);
        }
    } else if (rank->groups.model != SCHED_NONE) {
        rank->last_data = lowering_collective(l, OP_ALL_REDUCE, rank->data_queue, rank->groups.model,
                                              rank->groups.model_present, 4, DTYPE_FP32, PHASE_OPTIMIZER);
        builder_depends(l->builder, op);
        op = rank->last_data;
    }
    if (!l->mixed && l->request->plan->zero_stage >= 1 && rank->first->data != SCHED_NONE) {
        rank->last_data = lowering_collective(l, OP_ALL_REDUCE, rank->data_queue, rank->first->data,
                                              rank->first->data_present, 4, DTYPE_FP32, PHASE_OPTIMIZER);
        builder_depends(l->builder, op);
        op = rank->last_data;
    }
    return op;
}

uint32_t lower_device_optimizer_of(struct lowering *l, double parameters, uint32_t after_op)
{
    const struct software *software = l->request->software;
    double state = parameters * (software->master_bytes + software->moments_bytes), owned = owned_parameters(l);
    struct kernel adam =
        kernel_of_traffic(KERNEL_OPTIMIZER, state + parameters * software->gradient_bytes,
                          state + parameters * dtype_bytes(l->request->plan->precision), software->optimizer_launches);
    /* two moments, bias corrections, square root, division, weight decay; the bytes take longer on every GPU, and MFU counts products only */
    adam.flops = 14 * parameters;
    if (!software->fused_optimizer) {
        /* one series of launches a parameter tensor: 12 tensors a layer, of a part of the parameters that part of them */
        double tensors = 12.0 * l->rank->layer_count * (owned > 0 ? fmin(parameters / owned, 1) : 1);
        adam.launches *= (uint32_t)fmax(1, ceil(tensors - 1e-6)); /* sums of the parts may be some roundings off */
    }
    lower_next_depends(l, after_op);
    return kernel_op(l, &adam, PHASE_OPTIMIZER);
}

uint32_t lower_device_optimizer(struct lowering *l, uint32_t after_op)
{
    return lower_device_optimizer_of(l, owned_parameters(l), after_op);
}

uint32_t lower_device_stream(struct lowering *l, double bytes_read, double bytes_written, enum op_phase phase,
                             uint32_t after_op)
{
    lower_next_depends(l, after_op);
    return lowering_memory_kernel(l, KERNEL_ELEMENTWISE, bytes_read, bytes_written, 1, phase);
}

/* ZeRO-1, 2: each rank updated its share; all need all of it. */
static void gather_weights(struct lowering *l, uint32_t after)
{
    struct rank_state *rank = l->rank;
    const struct plan *plan = l->request->plan;
    for (uint32_t i = 0; i < l->layout_count; i++) {
        const struct rank_layout *own = &rank->layouts[i];
        if (l->layouts[i].zero_stage < 1 || l->layouts[i].zero_stage >= 3 || own->data == SCHED_NONE) {
            continue;
        }
        double bytes = 0;
        for (uint32_t k = 0; k < rank->layer_count; k++) {
            bytes += lowering_alike(l, &rank->layers[k]) == own
                         ? rank->layers[k].parameters * dtype_bytes(plan->precision)
                         : 0;
        }
        rank->last_data = lowering_collective(l, OP_ALL_GATHER, rank->data_queue, own->data, own->data_present, bytes,
                                              plan->precision, PHASE_DATA_COMM);
        builder_depends(l->builder, after);
        for (uint32_t k = 0; k < rank->layer_count; k++) {
            if (lowering_alike(l, &rank->layers[k]) == own && rank->layers[k].weight != SCHED_NONE) {
                builder_write(l->builder, rank->layers[k].weight);
            }
        }
    }
}

void lowering_end_step(struct lowering *l)
{
    const struct memory_policy *policy = l->request->policy;
    if (policy->owns_model_data) {
        policy->optimizer(l, l->rank->last_compute);
        return;
    }
    replicated_gradients(l);
    lowering_finish_data(l);
    tied_embedding(l);
    uint32_t after = gradient_norm(l);
    after = policy->optimizer != NULL ? policy->optimizer(l, after) : lower_device_optimizer(l, after);
    for (uint32_t i = 0; i < l->rank->layer_count; i++) {
        if (l->rank->layers[i].gradient_life == GRADIENT_MADE) {
            builder_release_at(l->builder, after, l->rank->layers[i].gradient);
        }
    }
    gather_weights(l, after);
}

/* Stages with different replicas update at different rates: both ends have then seen the same micro-batches after every least common multiple of them only. */
static bool ends_meet(const struct lowering *l)
{
    uint32_t own = order_replicas(&l->order_request, l->rank->stage), first, last, chunk;
    order_holder(l->request->order, &l->order_request, 0, &first, &chunk);
    order_holder(l->request->order, &l->order_request, l->model_stages - 1, &last, &chunk);
    const uint32_t ends[2] = { order_replicas(&l->order_request, first), order_replicas(&l->order_request, last) };
    int64_t seen = (int64_t)l->rank->updates * own, multiple = plan_replicas_multiple(ends, 2);
    CHECK(multiple > 0); /* the micro-batches of a step are a multiple of it */
    return l->request->order->accumulates || seen % multiple == 0;
}

/* No norm over all stages, which would flush the pipeline. What the other copy of a tied embedding has for the same micro-batches comes when its stage gets there, and is summed behind the
 * update: our rule, no published one. */
void lowering_update(struct lowering *l)
{
    struct rank_state *rank = l->rank;
    const struct memory_policy *policy = l->request->policy;
    lowering_finish_data(l);
    rank->updates++;
    if (ends_meet(l)) {
        sum_tied(l, rank->tied_queue);
    }
    if (policy->optimizer != NULL) {
        policy->optimizer(l, rank->last_data);
    } else {
        lower_device_optimizer(l, rank->last_data);
    }
    clear_gradients(l);
}
