/* Layers that a micro-batch skips (sim/plan/layer_drop.h): no pass of theirs runs, nothing is saved, gathered or fetched for them. The last micro-batch of a step hands a skipped layer's gradient
 * over all the same: data-parallel ranks reduce the gradients of all parameters, and a parameter without one counts as zeros (DeepSpeed, runtime/zero/stage3.py, stage_1_and_2.py). */
#include "sim/plan/layer_drop.h"
#include "sim/plan/lower_internal.h"

enum status lowering_check_layer_drop(const struct lower_request *request, struct error *error)
{
    if (!(request->plan->layer_drop > 0)) {
        return STATUS_OK;
    }
    if (request->order->asynchronous || request->order->splits_backward) {
        return error_at(error, STATUS_UNSUPPORTED, NULL, "$.training.layer_drop",
                        "layer_drop %g: pipeline_order \"%s\" %s; set parallel.pipeline_order to 1f1b or gpipe, or "
                        "layer_drop to 0",
                        request->plan->layer_drop, request->order->name,
                        request->order->asynchronous ? "updates weights between passes of a step"
                                                     : "makes weight gradients in passes of their own");
    }
    if (request->policy->skips_layers) {
        return STATUS_OK;
    }
    return error_at(error, STATUS_UNSUPPORTED, NULL, "$.training.layer_drop",
                    "layer_drop %g: memory policy \"%s\" decides by a step whose layers all run, in an order that it "
                    "knows; take memory_policy zero3-offload or resident, or set layer_drop to 0",
                    request->plan->layer_drop, request->policy->name);
}

bool lowering_skips(const struct lowering *l, const struct lower_layer *layer, uint32_t micro_batch)
{
    return layer->kind == LAYER_TRANSFORMER && layer_drop_skips(l->request->plan, layer->model_index, micro_batch);
}

const struct lower_layer *lowering_next_layer(const struct lowering *l, const struct lower_pass *pass)
{
    const int step = pass->kind == LOWER_FORWARD ? 1 : -1;
    const struct lower_layer *layer = pass->layer + step;
    while (lowering_skips(l, layer, pass->micro_batch)) { /* ends at the head or the embedding */
        layer += step;
    }
    return layer;
}

void lowering_skip_pass(struct lowering *l, const struct lower_pass *pass)
{
    const struct memory_policy *policy = l->request->policy;
    if (pass->kind == LOWER_FORWARD || !pass->last_micro_batch) {
        return;
    }
    if (policy->before_pass != NULL) {
        policy->before_pass(l, pass);
    }
    lowering_acquire_full_gradient(l, pass->layer);
    lowering_memory_kernel(l, KERNEL_ELEMENTWISE, 0, pass->layer->parameters * l->request->software->gradient_bytes, 1,
                           PHASE_BACKWARD);
    if (policy->after_pass != NULL) {
        policy->after_pass(l, pass);
    }
    lowering_gradient_done(l, pass, l->rank->last_compute);
}

double lowering_skipped_flops(const struct lower_request *request)
{
    const struct plan *plan = request->plan;
    struct model fewer = *request->model;
    int64_t skipped = 0;
    for (int64_t m = 0; m < plan->micro_batches; m++) {
        for (int64_t layer = 0; layer < fewer.layers; layer++) {
            skipped += layer_drop_skips(plan, (uint32_t)layer, (uint32_t)m);
        }
    }
    fewer.layers--; /* all are alike: layer_drop_check */
    double sequence = (double)plan->sequence_length, samples = (double)(plan->micro_batch * plan->data);
    return (double)skipped *
           (model_step_flops(request->model, samples, sequence) - model_step_flops(&fewer, samples, sequence));
}
