/* GPipe (Huang et al., NeurIPS 2019): all forwards, then all backwards. Makespan (m + p - 1)(tF + tB), m activations everywhere. */
#include "sim/plan/order.h"
#include "strategies/orders/orders.h"

static const char *const BACKWARD_ORDERS[] = { "lifo", "fifo", NULL };

enum { BACKWARD_ORDER };
static const struct parameter PARAMETERS[] = {
    { .name = "backward_order",
      .type = PARAMETER_WORD,
      .unit = "",
      .words = BACKWARD_ORDERS,
      .help = "which micro-batch goes back first: the latest (lifo) or the first (fifo); same makespan and peak" },
};

static uint32_t build(const struct order_request *request, uint32_t stage, struct order_step *steps)
{
    bool fifo = request->parameters.value[BACKWARD_ORDER] > 0.5;
    uint32_t m = order_share(request, stage), count = 0; /* every stage does the same */
    for (uint32_t i = 0; i < m; i++) {
        steps[count++] = (struct order_step){ STEP_FORWARD, 0, i };
    }
    for (uint32_t i = 0; i < m; i++) {
        steps[count++] = (struct order_step){ STEP_BACKWARD, 0, fifo ? i : m - 1 - i };
    }
    return count;
}

const struct pipeline_order order_gpipe = {
    .abi = PIPELINE_ORDER_ABI,
    .name = "gpipe",
    .summary = "all forwards, then all backwards; keeps every micro-batch",
    .paper = "Huang et al., GPipe, NeurIPS 2019",
    .parameters = PARAMETERS,
    .parameter_count = sizeof PARAMETERS / sizeof PARAMETERS[0],
    .virtual_stages = 1,
    .model_replicas = 1,
    .deals = true,
    .build = build,
};
