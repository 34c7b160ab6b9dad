#include "strategies/policies/host_adam.h"

#include "sim/ir/builder.h"

bool host_adam_begin(struct lowering *lowering, struct host_adam *adam)
{
    uint32_t count;
    lower_layers(lowering, &count);
    adam->layers = arena_array(lower_arena(lowering), struct host_adam_layer, count);
    if (adam->layers == NULL) {
        lower_fail(lowering, STATUS_NO_MEMORY, "out of memory for the %u layers of a rank", count);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        adam->layers[i].arrival = SCHED_NONE;
    }
    return true;
}

void host_adam_master(struct lowering *lowering, const struct lower_layer *layer, enum space_kind space)
{
    const struct software *software = lower_input(lowering)->software;
    if (software->master_bytes <= 0 && layer->owned_parameters > 0) {
        lower_buffer(lowering, space, layer->owned_parameters * software->weight_bytes, BUFFER_OPTIMIZER,
                     BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END, "master weights");
    }
}

void host_adam_gradient(struct lowering *lowering, struct host_adam *adam, const struct lower_layer *layer,
                        uint32_t after_op)
{
    if (layer->owned_parameters <= 0) {
        return;
    }
    const struct software *software = lower_input(lowering)->software;
    struct host_adam_layer *staged = &adam->layers[layer->index];
    double gradient_bytes = layer->owned_parameters * software->gradient_bytes;
    double weight_bytes = layer->owned_parameters * software->weight_bytes;
    staged->buffer = lower_buffer(lowering, SPACE_PINNED, gradient_bytes > weight_bytes ? gradient_bytes : weight_bytes,
                                  BUFFER_COMMUNICATION, 0, "gradient down, weights up");
    staged->arrival = lower_copy_to_host(lowering, gradient_bytes, false, after_op, staged->buffer, SCHED_NONE);
}

uint32_t host_adam_update(struct lowering *lowering, const struct host_adam *adam, const struct lower_layer *layer,
                          uint32_t after_op)
{
    const struct host_adam_layer *staged = &adam->layers[layer->index];
    if (staged->arrival == SCHED_NONE) {
        return SCHED_NONE;
    }
    uint32_t update = lower_host_optimizer(lowering, layer->owned_parameters, staged->arrival);
    builder_depends(lower_builder(lowering), after_op);
    return lower_copy_to_device(lowering, layer->owned_parameters * lower_input(lowering)->software->weight_bytes,
                                false, update, SCHED_NONE, staged->buffer);
}
