/* Three readings of Hippie's last-stage pipeline scheduling (Ye et al., ICPP 2021). Its abstract says only that it saves memory; these orders are our proposals, not the authors' algorithm.
 *
 *   a  the last stage alternates forward and backward, the others run all forwards first: peaks m, ..., m, 1
 *   b  the last stage begins backwards at once and everyone follows: 1F1B
 *   c  as b, and the last stage never recomputes, for it consumes what it has just kept */
#include "sim/plan/order.h"
#include "strategies/orders/orders.h"

static uint32_t build_a(const struct order_request *request, uint32_t stage, struct order_step *steps)
{
    bool last = stage == request->stages - 1;
    return order_one_f_one_b(request->micro_batches, last ? 0 : request->micro_batches, steps);
}

static uint32_t build_b(const struct order_request *request, uint32_t stage, struct order_step *steps)
{
    return order_one_f_one_b(request->micro_batches, request->stages - stage - 1, steps);
}

const struct pipeline_order order_lsps_a = {
    .abi = PIPELINE_ORDER_ABI,
    .name = "lsps-a",
    .summary = "all forwards first, but the last stage alternates (our reading A of last-stage scheduling)",
    .paper = "after Ye et al., Hippie, ICPP 2021; rule ours",
    .virtual_stages = 1,
    .model_replicas = 1,
    .build = build_a,
};

const struct pipeline_order order_lsps_b = {
    .abi = PIPELINE_ORDER_ABI,
    .name = "lsps-b",
    .summary = "the last stage begins backwards at once and all follow: 1F1B (our reading B)",
    .paper = "after Ye et al., Hippie, ICPP 2021; rule ours",
    .virtual_stages = 1,
    .model_replicas = 1,
    .build = build_b,
};

const struct pipeline_order order_lsps_c = {
    .abi = PIPELINE_ORDER_ABI,
    .name = "lsps-c",
    .summary = "as lsps-b, and the last stage keeps its activations instead of recomputing (our reading C)",
    .paper = "after Ye et al., Hippie, ICPP 2021; rule ours",
    .last_stage_keeps = true,
    .virtual_stages = 1,
    .model_replicas = 1,
    .build = build_b,
};
