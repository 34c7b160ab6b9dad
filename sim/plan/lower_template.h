/* How passes of a layer become ops, made once for each split of layers: its kernels and collectives as templates, its graphs. For the lower_*.c files only. */
#ifndef MEMWALL_PLAN_LOWER_TEMPLATE_H
#define MEMWALL_PLAN_LOWER_TEMPLATE_H

#include "sim/ir/builder.h"
#include "sim/model/layer.h"
#include "sim/plan/plan.h"

/* One step of a pass template: a run of kernels, or one tensor-parallel collective. */
struct segment {
    uint32_t work;
    uint32_t match_group; /* collective: its group, else SCHED_NONE */
    uint8_t opcode, phase;
    bool beside; /* collective on its own queue, beside the next segment */
};

struct pass_template {
    struct segment *segments;
    uint32_t segment_count;
    /* The same as one item list and one work: where nothing outside can see the collectives inside. */
    struct work_item *items;
    uint32_t item_count;
    bool mergeable;
    uint8_t phase;   /* enum op_phase of its kernels */
    uint32_t merged; /* SCHED_NONE: kept apart (detail op, or partners that are ranks of their own) */
};

/* The pass templates of a layer kind: a backward may be preceded by repeated forward work. */
enum template_kind {
    TEMPLATE_FORWARD,
    TEMPLATE_RECOMPUTE_FULL,
    TEMPLATE_RECOMPUTE_CORE,
    TEMPLATE_BACKWARD, /* both parts */
    TEMPLATE_BACKWARD_INPUT,
    TEMPLATE_BACKWARD_WEIGHT,
    TEMPLATE_COUNT
};

/* One of the different splits of layers in the plan, for layers of one variant (sim/model/variant.h). */
struct layout {
    struct plan_layer split;
    uint32_t variant;
    struct layer_shape shape;
    uint32_t tensor, replicas, zero_stage; /* replicas: data * context */
    bool built[LAYER_KIND_COUNT];          /* graphs: of the kinds that have this split, and of a transformer layer */
    struct layer_graph graphs[LAYER_KIND_COUNT];
};

#endif
