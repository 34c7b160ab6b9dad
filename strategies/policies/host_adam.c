#include "strategies/policies/host_adam.h"

#include <math.h>

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
        adam->layers[i] = (struct host_adam_layer){ .buffer = SCHED_NONE, .arrival = SCHED_NONE };
    }
    return true;
}

void host_adam_take(struct lowering *lowering, struct host_adam *adam, const struct lower_layer *layer,
                    enum space_kind space)
{
    const struct software *software = lower_input(lowering)->software;
    if (layer->owned_parameters <= 0) {
        return;
    }
    adam->layers[layer->index].buffer = lower_buffer(
        lowering, SPACE_PINNED, layer->owned_parameters * fmax(software->gradient_bytes, software->weight_bytes),
        BUFFER_COMMUNICATION, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END, "gradient down, weights up");
    if (software->master_bytes <= 0) {
        lower_buffer(lowering, space, layer->owned_parameters * software->weight_bytes, BUFFER_OPTIMIZER,
                     BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END, "master weights");
    }
}

void host_adam_gradient(struct lowering *lowering, struct host_adam *adam, const struct lower_layer *layer,
                        uint32_t after_op)
{
    struct host_adam_layer *staged = &adam->layers[layer->index];
    if (staged->buffer == SCHED_NONE) {
        return;
    }
    double bytes = layer->owned_parameters * lower_input(lowering)->software->gradient_bytes;
    staged->arrival = lower_copy_to_host(lowering, bytes, false, after_op, SCHED_NONE, SCHED_NONE);
    builder_write(lower_builder(lowering), staged->buffer);
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
    double bytes = layer->owned_parameters * lower_input(lowering)->software->weight_bytes;
    uint32_t upload = lower_copy_to_device(lowering, bytes, false, update, SCHED_NONE, SCHED_NONE);
    builder_read(lower_builder(lowering), staged->buffer);
    return upload;
}
