/* A plug-in, whole: a pipeline order and a memory policy in a shared object.
 *
 *     cc -std=c17 -shared -fPIC $(pkg-config --cflags memwall) example.c -o example.so
 *     memwall run S.json --plugin ./example.so --set parallel.pipeline_order=eager-1f1b --set memory_policy=late-host-adam */
#include <memwall.h>

/* Eager 1F1B (Zhuang et al., On Optimizing the Communication of Model Parallelism, MLSys 2023, section 4): stage s runs 2 (p - s) - 1 forwards before its first backward, where 1F1B runs p - s, so
 * that a boundary's transfer has a micro-batch's time to hide in. */
static uint32_t eager_build(const struct order_request *request, uint32_t stage, struct order_step *steps)
{
    uint32_t m = request->micro_batches, ahead = 2 * (request->stages - stage) - 1, count = 0;
    for (uint32_t i = 0; i < m && i < ahead; i++) {
        steps[count++] = (struct order_step){ STEP_FORWARD, 0, i };
    }
    for (uint32_t i = 0; i < m; i++) {
        steps[count++] = (struct order_step){ STEP_BACKWARD, 0, i };
        if (i + ahead < m) {
            steps[count++] = (struct order_step){ STEP_FORWARD, 0, i + ahead };
        }
    }
    return count;
}

static const struct pipeline_order eager_1f1b = {
    .abi = PIPELINE_ORDER_ABI,
    .name = "eager-1f1b",
    .summary = "1F1B with twice the forwards ahead: transfers hide, more activations stay",
    .paper = "Zhuang et al., MLSys 2023",
    .virtual_stages = 1,
    .model_replicas = 1,
    .build = eager_build,
};

/* Optimizer states in pinned host memory; once all gradients are final they go down layer by layer, the host's cores update, and the new weights come up. */
static enum space_kind late_place(struct lowering *lowering, const struct lower_layer *layer,
                                  enum buffer_class buffer_class)
{
    (void)lowering;
    (void)layer;
    return buffer_class == BUFFER_OPTIMIZER ? SPACE_PINNED : SPACE_DEVICE;
}

static uint32_t late_optimizer(struct lowering *lowering, uint32_t after_op)
{
    const struct software *software = lower_input(lowering)->software;
    struct builder *builder = lower_builder(lowering);
    uint32_t count, last = after_op;
    const struct lower_layer *layers = lower_layers(lowering, &count);
    for (uint32_t i = 0; i < count; i++) {
        double owned = layers[i].owned_parameters;
        if (owned <= 0) {
            continue;
        }
        uint32_t gradients = lower_buffer(lowering, SPACE_PINNED, owned * software->gradient_bytes,
                                          BUFFER_COMMUNICATION, 0, "gradients down");
        uint32_t weights =
            lower_buffer(lowering, SPACE_PINNED, owned * software->weight_bytes, BUFFER_COMMUNICATION, 0, "weights up");
        uint32_t down =
            lower_copy_to_host(lowering, owned * software->gradient_bytes, false, after_op, gradients, SCHED_NONE);
        uint32_t update = lower_host_optimizer(lowering, owned, down);
        builder_acquire(builder, weights);
        builder_release(builder, gradients);
        last = lower_copy_to_device(lowering, owned * software->weight_bytes, false, update, SCHED_NONE, weights);
    }
    return last;
}

static const struct memory_policy late_host_adam = {
    .abi = MEMORY_POLICY_ABI,
    .name = "late-host-adam",
    .summary = "optimizer states in host memory, Adam on the host's cores after the last backward, layer by layer",
    .paper = "",
    .place = late_place,
    .optimizer = late_optimizer,
};

static const struct pipeline_order *const orders[] = { &eager_1f1b };
static const struct memory_policy *const policies[] = { &late_host_adam };
const struct memwall_plugin memwall_plugin = {
    .abi = MEMWALL_PLUGIN_ABI,
    .headers = MEMWALL_HEADERS,
    .orders = orders,
    .order_count = 1,
    .policies = policies,
    .policy_count = 1,
};
