/* Ops onto queues: what the next one waits for and takes, collectives, and the templates of passes as ops. */
#include "sim/base/check.h"
#include "sim/plan/lower_internal.h"

uint32_t lower_last_compute(const struct lowering *l)
{
    return l->rank->last_compute;
}

void lower_next_depends(struct lowering *l, uint32_t op)
{
    struct rank_state *rank = l->rank;
    if (op == SCHED_NONE) {
        return;
    }
    CHECK(rank->next_dependency_count < NEXT_DEPENDENCIES_MAX);
    rank->next_dependencies[rank->next_dependency_count++] = op;
}

void lower_next_acquires(struct lowering *l, uint32_t buffer)
{
    struct rank_state *rank = l->rank;
    if (buffer == SCHED_NONE) {
        return;
    }
    CHECK(rank->next_acquire_count < NEXT_ACQUIRES_MAX);
    rank->next_acquires[rank->next_acquire_count++] = buffer;
}

/* An op on any queue; carries the flags that wait for the next op. */
uint32_t lowering_op(struct lowering *l, enum opcode opcode, uint32_t queue, uint32_t work, enum op_phase phase)
{
    uint32_t op = builder_op(l->builder, opcode, queue, work, phase);
    if (l->rank->next_flags != 0) {
        builder_flag(l->builder, l->rank->next_flags);
        l->rank->next_flags = 0;
    }
    return op;
}

/* Whatever goes on the compute queue takes up the pending dependencies. */
static void take_dependencies(struct lowering *l)
{
    struct rank_state *rank = l->rank;
    for (uint32_t i = 0; i < rank->next_dependency_count; i++) {
        builder_depends(l->builder, rank->next_dependencies[i]);
    }
    rank->next_dependency_count = 0;
}

/* The host waits for what the next compute depends on, before it issues it. */
static void wait_on_host(struct lowering *l)
{
    lowering_op(l, OP_MARK, l->rank->queues[QUEUE_COMPUTE], SCHED_NONE, PHASE_PIPELINE_COMM);
    take_dependencies(l);
    builder_flag(l->builder, OP_FLAG_HOST_WAITS);
    l->rank->host_must_wait = false;
}

static uint32_t on_compute_queue(struct lowering *l, enum opcode opcode, uint32_t work, enum op_phase phase)
{
    struct rank_state *rank = l->rank;
    if (rank->host_must_wait) {
        wait_on_host(l);
    }
    uint32_t op = lowering_op(l, opcode, rank->queues[QUEUE_COMPUTE], work, phase);
    take_dependencies(l);
    for (uint32_t i = 0; i < rank->next_acquire_count; i++) {
        builder_acquire(l->builder, rank->next_acquires[i]);
    }
    rank->next_acquire_count = 0;
    rank->last_compute = op;
    return op;
}

uint32_t lowering_compute(struct lowering *l, uint32_t work, enum op_phase phase)
{
    return on_compute_queue(l, OP_COMPUTE, work, phase);
}

uint32_t lowering_collective(struct lowering *l, enum opcode opcode, uint32_t queue, uint32_t group, uint32_t present,
                             double bytes, enum dtype dtype, enum op_phase phase)
{
    uint32_t work = builder_work_collective(l->builder, group, bytes, dtype);
    uint32_t op = queue == l->rank->queues[QUEUE_COMPUTE] ? on_compute_queue(l, opcode, work, phase)
                                                          : lowering_op(l, opcode, queue, work, phase);
    builder_set_match(l->builder, lowering_collective_match(l, group, present));
    return op;
}

/* A pass being emitted, segment by segment. */
struct emission {
    const struct lower_pass *pass;
    uint32_t beside;     /* a collective that runs beside the next segment */
    uint32_t wait_after; /* ... which the segment after that waits for */
};

static void tag_pass(struct lowering *l, const struct lower_pass *pass, enum op_phase phase)
{
    const struct lower_layer *layer = pass->layer;
    uint16_t index = layer->model_index == SCHED_NONE ? OP_TAG_NONE : (uint16_t)layer->model_index;
    builder_tag(l->builder, (uint16_t)pass->micro_batch, (uint16_t)layer->chunk, index);
    if (phase == PHASE_RECOMPUTE) {
        builder_flag(l->builder, OP_FLAG_RECOMPUTE);
    }
}

static void emit_segment(struct lowering *l, struct emission *emission, const struct segment *segment)
{
    struct rank_state *rank = l->rank;
    uint32_t present = lowering_rank_layout(l, emission->pass->layer)->tensor_present;
    if (segment->beside) {
        uint32_t after = rank->last_compute;
        uint32_t op = lowering_op(l, (enum opcode)segment->opcode, rank->tensor_queue, segment->work,
                                  (enum op_phase)segment->phase);
        builder_depends(l->builder, after);
        builder_set_match(l->builder, lowering_collective_match(l, segment->match_group, present));
        tag_pass(l, emission->pass, (enum op_phase)segment->phase);
        lower_next_depends(l, emission->wait_after);
        emission->wait_after = SCHED_NONE;
        lower_next_depends(l, emission->beside);
        emission->beside = op;
        return;
    }
    lower_next_depends(l, emission->wait_after);
    emission->wait_after = emission->beside;
    emission->beside = SCHED_NONE;
    on_compute_queue(l, (enum opcode)segment->opcode, segment->work, (enum op_phase)segment->phase);
    if (segment->match_group != SCHED_NONE) {
        builder_set_match(l->builder, lowering_collective_match(l, segment->match_group, present));
    }
    tag_pass(l, emission->pass, (enum op_phase)segment->phase);
}

/* Tensor-parallel collectives inside a pass share links with nobody else's unless data-parallel traffic runs beside it. */
static bool collectives_are_private(const struct lowering *l, const struct lower_pass *pass)
{
    return !l->rank->replicated || (!l->rank->gathers && !(lowering_reduces_early(l) && pass->last_micro_batch));
}

const struct pass_template *lowering_template(const struct lowering *l, const struct lower_layer *layer,
                                              enum template_kind kind)
{
    return &lowering_rank_layout(l, layer)->templates[layer->kind][kind];
}

void lowering_emit_template(struct lowering *l, const struct lower_pass *pass, enum template_kind kind)
{
    const struct pass_template *made = lowering_template(l, pass->layer, kind);
    if (made->merged != SCHED_NONE && collectives_are_private(l, pass)) {
        enum op_phase phase = (enum op_phase)made->phase;
        on_compute_queue(l, OP_COMPUTE, made->merged, phase);
        tag_pass(l, pass, phase);
        return;
    }
    struct emission emission = { .pass = pass, .beside = SCHED_NONE, .wait_after = SCHED_NONE };
    for (uint32_t i = 0; i < made->segment_count; i++) {
        emit_segment(l, &emission, &made->segments[i]);
    }
    lower_next_depends(l, emission.wait_after);
    lower_next_depends(l, emission.beside);
}
