/* The kit's part for policies that move weights and gradients of ZeRO ranks: what runs on the data-parallel queue. */
#include "sim/plan/lower_internal.h"

uint32_t lower_last_data_op(const struct lowering *l)
{
    return l->rank->last_data;
}

uint32_t lower_data_mark(struct lowering *l, uint32_t after_op)
{
    uint32_t op = lowering_op(l, OP_MARK, l->rank->data_queue, SCHED_NONE, PHASE_OFFLOAD);
    builder_depends(l->builder, after_op);
    return op;
}
