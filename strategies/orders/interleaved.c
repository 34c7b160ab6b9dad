/* Interleaved 1F1B (Narayanan et al., SC 2021; Megatron-LM): each device holds v chunks, chunk c of device s is virtual stage c * p + s; the bubble shrinks v times, the
 * communication grows v times. With v = 1 this is DAPPLE PB, op for op. */
#include "sim/plan/order.h"
#include "strategies/orders/orders.h"

enum { ALL_FORWARDS_WHEN_EQUAL };
static const struct parameter PARAMETERS[] = {
    { .name = "all_forwards_when_equal",
      .type = PARAMETER_BOOL,
      .unit = "",
      .minimum = 0,
      .maximum = 1,
      .fallback = 0,
      .help = "with as many micro-batches as stages run all forwards first, as early Megatron-LM did: p * v chunks on "
              "every device" },
};

static enum status check(const struct order_request *request, struct error *error)
{
    uint32_t p = request->stages, m = request->micro_batches;
    if (m % p != 0) {
        uint32_t below = m / p * p, above = below + p;
        if (below == 0) {
            return error_set(
                error, STATUS_BAD_INPUT,
                "%u micro-batches in %u stages: the interleaved order needs a multiple of %u; the nearest is %u", m, p,
                p, above);
        }
        return error_set(
            error, STATUS_BAD_INPUT,
            "%u micro-batches in %u stages: the interleaved order needs a multiple of %u; the nearest are %u and %u", m,
            p, p, below, above);
    }
    return STATUS_OK;
}

/* The k-th forward of a device: micro-batches go in groups of p through chunk 0, then the same group through chunk 1, ... The k-th backward mirrors the chunk. */
static struct order_step nth(const struct order_request *request, enum step_kind kind, uint32_t k)
{
    uint32_t p = request->stages, v = request->virtual_stages;
    uint32_t chunk = k % (p * v) / p;
    return (struct order_step){ .kind = (uint8_t)kind,
                                .chunk = (uint16_t)(kind == STEP_FORWARD ? chunk : v - 1 - chunk),
                                .micro_batch = k / (p * v) * p + k % p };
}

static uint32_t build(const struct order_request *request, uint32_t stage, struct order_step *steps)
{
    uint32_t p = request->stages, v = request->virtual_stages, total = request->micro_batches * v;
    uint32_t warm_up = 2 * (p - stage - 1) + (v - 1) * p, forward = 0, count = 0;
    if (request->parameters.value[ALL_FORWARDS_WHEN_EQUAL] > 0.5 && request->micro_batches == p) {
        warm_up = total;
    }
    for (; forward < warm_up && forward < total; forward++) {
        steps[count++] = nth(request, STEP_FORWARD, forward);
    }
    for (uint32_t backward = 0; backward < total; backward++) {
        if (forward < total) {
            steps[count++] = nth(request, STEP_FORWARD, forward++);
        }
        steps[count++] = nth(request, STEP_BACKWARD, backward);
    }
    return count;
}

const struct pipeline_order order_interleaved = {
    .abi = PIPELINE_ORDER_ABI,
    .name = "interleaved",
    .summary = "1F1B over v chunks a device: bubble / v, communication * v; needs p | m",
    .paper = "Narayanan et al., SC 2021 (Megatron-LM)",
    .parameters = PARAMETERS,
    .parameter_count = sizeof PARAMETERS / sizeof PARAMETERS[0],
    .virtual_stages = 0,
    .model_replicas = 1,
    .check = check,
    .build = build,
};
