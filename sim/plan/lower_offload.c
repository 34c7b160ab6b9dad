/* The kit's part for policies that move weights and gradients of ZeRO ranks: what runs on the data-parallel queue, and Adam on the device over a part of the parameters. */
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

uint32_t lower_device_optimizer_of(struct lowering *l, double parameters, uint32_t after_op)
{
    const struct software *software = l->request->software;
    double state = parameters * (software->master_bytes + software->moments_bytes);
    lower_next_depends(l, after_op);
    return lowering_memory_kernel(l, KERNEL_OPTIMIZER, state + parameters * software->gradient_bytes,
                                  state + parameters * dtype_bytes(l->request->plan->precision),
                                  software->optimizer_launches, PHASE_OPTIMIZER);
}
