/* One forward, one backward: PipeDream-Flush (Narayanan et al., ICML 2021), and DAPPLE (Fan et al., PPoPP 2021), policies PA and PB.
 *
 * A stage first admits some micro-batches (warm-up), then alternates forward and backward, so that no more than warm-up + 1 are in flight.
 * PA = 1f1b: at most p - s in flight. PB: at most 2(p - s) - 1, which hides the latency of hops as long as 2c <= tF + tB. */
#include "sim/plan/order.h"
#include "strategies/orders/orders.h"

enum { IN_FLIGHT_MAX };
static const struct parameter PARAMETERS[] = {
    { .name = "in_flight_max",
      .type = PARAMETER_INT,
      .unit = "micro-batches",
      .minimum = 0,
      .maximum = ORDER_MICRO_BATCHES_MAX,
      .fallback = 0,
      .help = "most micro-batches in flight on a stage (DAPPLE's D, what memory allows); 0: no further bound" },
};

uint32_t order_one_f_one_b(uint32_t micro_batches, uint32_t warm_up, struct order_step *steps)
{
    uint32_t forward = 0, count = 0;
    for (; forward < warm_up && forward < micro_batches; forward++) {
        steps[count++] = (struct order_step){ STEP_FORWARD, 0, forward };
    }
    for (uint32_t backward = 0; backward < micro_batches; backward++) {
        if (forward < micro_batches) {
            steps[count++] = (struct order_step){ STEP_FORWARD, 0, forward++ };
        }
        steps[count++] = (struct order_step){ STEP_BACKWARD, 0, backward };
    }
    return count;
}

static uint32_t build_in_flight(const struct order_request *request, uint32_t micro_batches, uint32_t in_flight,
                                struct order_step *steps)
{
    uint32_t bound = (uint32_t)request->parameters.value[IN_FLIGHT_MAX];
    if (bound > 0 && in_flight > bound) {
        in_flight = bound;
    }
    return order_one_f_one_b(micro_batches, in_flight - 1, steps);
}

static uint32_t build_1f1b(const struct order_request *request, uint32_t stage, struct order_step *steps)
{
    return build_in_flight(request, order_share(request, stage), order_warm_up(request, stage) + 1, steps);
}

static uint32_t build_dapple_pb(const struct order_request *request, uint32_t stage, struct order_step *steps)
{
    return build_in_flight(request, request->micro_batches, 2 * (request->stages - stage) - 1, steps);
}

const struct pipeline_order order_1f1b = {
    .abi = PIPELINE_ORDER_ABI,
    .name = "1f1b",
    .summary = "one forward, one backward: at most p - s micro-batches in flight",
    .paper = "Narayanan et al., PipeDream-Flush, ICML 2021; DAPPLE policy PA",
    .parameters = PARAMETERS,
    .parameter_count = sizeof PARAMETERS / sizeof PARAMETERS[0],
    .virtual_stages = 1,
    .model_replicas = 1,
    .deals = true,
    .build = build_1f1b,
};

const struct pipeline_order order_dapple_pb = {
    .abi = PIPELINE_ORDER_ABI,
    .name = "dapple-pb",
    .summary = "one forward, one backward with 2(p - s) - 1 in flight: hides the latency of hops",
    .paper = "Fan et al., DAPPLE policy PB, PPoPP 2021",
    .parameters = PARAMETERS,
    .parameter_count = sizeof PARAMETERS / sizeof PARAMETERS[0],
    .virtual_stages = 1,
    .model_replicas = 1,
    .build = build_dapple_pb,
};
