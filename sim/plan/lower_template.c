/* Pass templates: a layer's op list as segments of shared works, made once a rank and layer kind. */
#include "sim/base/check.h"
#include "sim/plan/lower_internal.h"

/* Which ops of the layer graph a template takes. */
static bool takes(enum template_kind kind, const struct layer_graph *graph, uint32_t index)
{
    bool forward = index < graph->forward_count;
    const struct layer_op *op = &graph->ops[index];
    switch (kind) {
    case TEMPLATE_FORWARD:
    case TEMPLATE_RECOMPUTE_FULL: return forward;
    case TEMPLATE_RECOMPUTE_CORE: return forward && op->attention_core;
    case TEMPLATE_BACKWARD: return !forward;
    case TEMPLATE_BACKWARD_INPUT: return !forward && op->pass != PASS_BACKWARD_WEIGHT;
    case TEMPLATE_BACKWARD_WEIGHT: return !forward && op->pass == PASS_BACKWARD_WEIGHT;
    case TEMPLATE_COUNT: break;
    }
    return false;
}

static enum op_phase template_phase(enum template_kind kind)
{
    switch (kind) {
    case TEMPLATE_FORWARD: return PHASE_FORWARD;
    case TEMPLATE_RECOMPUTE_FULL:
    case TEMPLATE_RECOMPUTE_CORE: return PHASE_RECOMPUTE;
    case TEMPLATE_BACKWARD:
    case TEMPLATE_BACKWARD_INPUT: return PHASE_BACKWARD;
    case TEMPLATE_BACKWARD_WEIGHT: return PHASE_WEIGHT;
    case TEMPLATE_COUNT: break;
    }
    return PHASE_OTHER;
}

static enum opcode collective_opcode(enum layer_collective collective)
{
    switch (collective) {
    case LAYER_ALL_REDUCE: return OP_ALL_REDUCE;
    case LAYER_ALL_GATHER: return OP_ALL_GATHER;
    case LAYER_REDUCE_SCATTER: return OP_REDUCE_SCATTER;
    case LAYER_NO_COLLECTIVE: break;
    }
    check_failed("a layer collective", __FILE__, __LINE__);
    return OP_MARK;
}

/* A template under construction: items of the open run of kernels, and all items. */
struct maker {
    struct lowering *l;
    struct pass_template *made;
    struct work_item *run;
    uint32_t run_count;
    enum op_phase phase;
    bool begun; /* the pass's framework cost has been charged */
};

static void close_run(struct maker *maker)
{
    if (maker->run_count == 0) {
        return;
    }
    struct pass_template *made = maker->made;
    made->segments[made->segment_count++] = (struct segment){
        .work = builder_work_kernels(maker->l->builder, maker->run, maker->run_count),
        .match_group = SCHED_NONE,
        .opcode = OP_COMPUTE,
        .phase = (uint8_t)maker->phase,
    };
    maker->run_count = 0;
}

/* Backward passes are walked by the framework's autograd engine: no module calls. */
static bool in_python(enum op_phase phase)
{
    return phase == PHASE_FORWARD || phase == PHASE_RECOMPUTE;
}

static void add_kernel(struct maker *maker, const struct layer_op *op)
{
    struct work_item item = {
        .index = builder_kernel(maker->l->builder, &op->kernel),
        .kind = ITEM_KERNEL,
        .passes = maker->begun || !in_python(maker->phase) ? 0 : 1,
    };
    maker->begun = true;
    maker->run[maker->run_count++] = item;
    maker->made->items[maker->made->item_count++] = item;
}

/* A collective that no kernel follows has nothing to run beside. */
static void end_beside(struct pass_template *made)
{
    if (made->item_count > 0 && made->items[made->item_count - 1].kind == ITEM_COLLECTIVE_BESIDE) {
        made->items[made->item_count - 1].kind = ITEM_COLLECTIVE;
    }
}

static void add_collective(struct maker *maker, const struct rank_layout *own, const struct layer_op *op, bool beside)
{
    const struct plan *plan = maker->l->request->plan;
    close_run(maker);
    struct pass_template *made = maker->made;
    uint32_t work = builder_work_collective(maker->l->builder, own->tensor, op->collective_bytes, plan->precision);
    made->segments[made->segment_count++] = (struct segment){
        .work = work,
        .match_group = own->tensor,
        .opcode = (uint8_t)collective_opcode(op->collective),
        .phase = PHASE_TENSOR_COMM,
        .beside = beside,
    };
    end_beside(made);
    made->items[made->item_count++] = (struct work_item){ .index = work,
                                                          .kind = beside ? ITEM_COLLECTIVE_BESIDE : ITEM_COLLECTIVE,
                                                          .passes = (uint16_t)collective_opcode(op->collective) };
    /* Phantoms' partners only exist when folded. */
    made->mergeable = made->mergeable && own->tensor_present == 1;
}

static enum status make_template(struct lowering *l, const struct layer_graph *graph, const struct rank_layout *own,
                                 enum template_kind kind)
{
    struct pass_template *made = &own->templates[graph->kind][kind];
    struct maker maker = { .l = l, .made = made, .phase = template_phase(kind) };
    made->segments = arena_array(&l->arena, struct segment, graph->op_count + 1);
    made->items = arena_array(&l->arena, struct work_item, graph->op_count + 1);
    maker.run = arena_array(&l->arena, struct work_item, graph->op_count + 1);
    if (made->segments == NULL || made->items == NULL || maker.run == NULL) {
        return error_set(l->error, STATUS_NO_MEMORY, "out of memory for pass templates");
    }
    made->mergeable = true;
    made->phase = (uint8_t)maker.phase;
    bool overlap = l->request->software->overlap_tensor_parallel;
    bool beside = false; /* the latest collective runs beside the one kernel that follows it */
    for (uint32_t i = 0; i < graph->op_count; i++) {
        const struct layer_op *op = &graph->ops[i];
        if (!takes(kind, graph, i)) {
            continue;
        }
        if (op->collective != LAYER_NO_COLLECTIVE) {
            if (own->tensor != SCHED_NONE) {
                beside = overlap && op->overlappable;
                add_collective(&maker, own, op, beside);
            }
            continue;
        }
        add_kernel(&maker, op);
        if (beside || l->request->plan->detail == DETAIL_OP) {
            close_run(&maker);
            beside = false;
        }
    }
    close_run(&maker);
    end_beside(made);
    made->merged = made->mergeable && l->request->plan->detail != DETAIL_OP && made->item_count > 0
                       ? builder_work_kernels(l->builder, made->items, made->item_count)
                       : SCHED_NONE;
    return l->status;
}

enum status lowering_templates(struct lowering *l, struct rank_state *rank)
{
    for (uint32_t i = 0; i < l->layout_count; i++) {
        struct rank_layout *own = &rank->layouts[i];
        if (!own->used) {
            continue;
        }
        own->templates = arena_alloc(&l->arena, LAYER_KIND_COUNT, sizeof *own->templates);
        if (own->templates == NULL) {
            return error_set(l->error, STATUS_NO_MEMORY, "out of memory for pass templates");
        }
        for (uint32_t layer = 0; layer < LAYER_KIND_COUNT; layer++) {
            for (uint32_t kind = 0; l->layouts[i].built[layer] && kind < TEMPLATE_COUNT; kind++) {
                TRY(make_template(l, &l->layouts[i].graphs[layer], own, (enum template_kind)kind));
            }
        }
    }
    return STATUS_OK;
}
