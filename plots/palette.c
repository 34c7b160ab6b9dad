#include "plots/palette.h"

#include "sim/base/check.h"

const struct palette_look *palette_phase(enum op_phase phase)
{
    static const struct palette_look looks[PHASE_COUNT] = {
        [PHASE_FORWARD] = { "forward", PLOT_BLUE, true },
        [PHASE_BACKWARD] = { "backward", PLOT_ORANGE, false },
        [PHASE_WEIGHT] = { "weight gradient", PLOT_VERMILLION, true },
        [PHASE_RECOMPUTE] = { "recompute", PLOT_YELLOW, false },
        [PHASE_TENSOR_COMM] = { "tensor collectives", PLOT_GREEN, true },
        [PHASE_PIPELINE_COMM] = { "pipeline transfers", PLOT_GREY, false },
        [PHASE_DATA_COMM] = { "data-parallel collectives", PLOT_PURPLE, false },
        [PHASE_OFFLOAD] = { "offload copies", PLOT_SKY, false },
        [PHASE_OPTIMIZER] = { "optimizer", PLOT_BLACK, true },
        [PHASE_OTHER] = { "other", PLOT_PALE, false },
    };
    CHECK(phase < PHASE_COUNT);
    return &looks[phase];
}

const struct palette_look *palette_time(enum time_class time_class)
{
    static const struct palette_look looks[TIME_CLASS_COUNT] = {
        [TIME_COMPUTE] = { "compute", PLOT_BLUE, true },
        [TIME_RECOMPUTE] = { "recompute", PLOT_YELLOW, false },
        [TIME_TENSOR_COMM] = { "tensor collectives", PLOT_ORANGE, false },
        [TIME_PIPELINE_COMM] = { "pipeline transfers", PLOT_SLATE, true },
        [TIME_DATA_COMM] = { "data-parallel collectives", PLOT_PURPLE, false },
        [TIME_OFFLOAD] = { "offload copies", PLOT_BLACK, true },
        [TIME_OPTIMIZER] = { "optimizer", PLOT_VERMILLION, true },
        [TIME_BUBBLE] = { "bubble", PLOT_PALE, false },
        [TIME_MEMORY_WAIT] = { "memory wait", PLOT_GREEN, true },
        [TIME_HOST_ISSUE] = { "host launches", PLOT_SKY, false },
    };
    CHECK(time_class < TIME_CLASS_COUNT);
    return &looks[time_class];
}

const struct palette_look *palette_memory(enum buffer_class buffer_class)
{
    static const struct palette_look looks[BUFFER_CLASS_COUNT] = {
        [BUFFER_RUNTIME] = { "runtime", PLOT_GREY, false },
        [BUFFER_WEIGHT] = { "weights", PLOT_BLUE, true },
        [BUFFER_GRADIENT] = { "gradients", PLOT_SKY, false },
        [BUFFER_OPTIMIZER] = { "optimizer states", PLOT_GREEN, true },
        [BUFFER_ACTIVATION] = { "activations", PLOT_ORANGE, false },
        [BUFFER_BOUNDARY] = { "boundary", PLOT_BLACK, true },
        [BUFFER_WORKSPACE] = { "workspace", PLOT_YELLOW, false },
        [BUFFER_COMMUNICATION] = { "communication", PLOT_PURPLE, false },
    };
    CHECK(buffer_class < BUFFER_CLASS_COUNT);
    return &looks[buffer_class];
}

enum buffer_class palette_memory_order(uint32_t index)
{
    static const enum buffer_class order[BUFFER_CLASS_COUNT] = {
        BUFFER_RUNTIME,    BUFFER_WEIGHT,   BUFFER_GRADIENT,  BUFFER_OPTIMIZER,
        BUFFER_ACTIVATION, BUFFER_BOUNDARY, BUFFER_WORKSPACE, BUFFER_COMMUNICATION,
    };
    CHECK(index < BUFFER_CLASS_COUNT);
    return order[index];
}
