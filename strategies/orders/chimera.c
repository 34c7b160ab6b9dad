/* Chimera (Li and Hoefler, SC 2021), one pair of pipelines: two copies of the model run through the devices in opposite directions, each taking half of the micro-batches, so that one fills
 * the other's bubbles.
 *
 * With D stages, blocks of D micro-batches: the first half goes down (stage i on device i), the second half up (stage i on device D-1-i). In slots of one pass, forward j of a
 * direction is at stage i in slot i + 2j, its backward in D + (D-1-i) + 2j, a block begins 2D slots after the one before; parity keeps the directions apart. Each device runs its passes in the
 * order of their slots. N = D: T = D tF + (2D-2) tB. */
#include "sim/base/check.h"
#include "sim/plan/order.h"
#include "strategies/orders/orders.h"

static enum status check(const struct order_request *request, struct error *error)
{
    uint32_t d = request->stages, m = request->micro_batches;
    TRY(order_even_stages("chimera", d, error));
    if (m % d != 0) {
        uint32_t above = (m / d + 1) * d;
        return error_set(error, STATUS_BAD_INPUT,
                         "%u micro-batches in %u stages: chimera needs a multiple of %u; the nearest is %u", m, d, d,
                         m > d && m % d < d / 2 ? m - m % d : above);
    }
    return STATUS_OK;
}

static uint32_t placement(const struct order_request *request, uint32_t stage, uint32_t chunk)
{
    return chunk == 0 ? stage : 2 * request->stages - 1 - stage;
}

static uint32_t replica(const struct order_request *request, uint32_t micro_batch)
{
    return micro_batch % request->stages >= request->stages / 2;
}

/* The pass of direction `up` that this device has in `slot`, counted from the block's beginning; false: none. Slots of a block reach into the next one's. */
static bool pass_in_slot(const struct order_request *request, uint32_t stage, uint32_t up, int64_t slot,
                         struct order_step *step)
{
    int64_t d = request->stages, i = up != 0 ? d - 1 - stage : stage;
    const int64_t begins[] = { i, d + (d - 1 - i) }; /* of forwards, of backwards */
    for (int kind = STEP_FORWARD; kind <= STEP_BACKWARD; kind++) {
        int64_t after = slot - begins[kind], j = after / 2;
        if (after >= 0 && after % 2 == 0 && j < d / 2) {
            *step = (struct order_step){ .kind = (uint8_t)kind,
                                         .chunk = (uint16_t)up,
                                         .micro_batch = (uint32_t)(up != 0 ? d / 2 + j : j) };
            return true;
        }
    }
    return false;
}

static uint32_t build(const struct order_request *request, uint32_t stage, struct order_step *steps)
{
    uint32_t d = request->stages, blocks = request->micro_batches / d, count = 0;
    for (int64_t slot = 0; slot < 2 * (int64_t)d * (blocks + 1); slot++) {
        /* A block lasts up to 3D - 1 slots: this slot's own block and the one before it may both have a pass here, never the same direction and kind. */
        for (int64_t block = slot / (2 * (int64_t)d); block >= 0 && slot - block * 2 * d < 4 * (int64_t)d; block--) {
            for (uint32_t up = 0; up < 2 && block < blocks; up++) {
                struct order_step step;
                if (pass_in_slot(request, stage, up, slot - block * 2 * d, &step)) {
                    step.micro_batch += (uint32_t)block * d;
                    steps[count++] = step;
                }
            }
        }
    }
    CHECK(count == 2 * request->micro_batches);
    return count;
}

const struct pipeline_order order_chimera = {
    .abi = PIPELINE_ORDER_ABI,
    .name = "chimera",
    .summary = "two copies of the model in opposite directions: half the bubble, twice the weights",
    .paper = "Li and Hoefler, Chimera, SC 2021",
    .virtual_stages = 2,
    .model_replicas = 2,
    .check = check,
    .placement = placement,
    .replica = replica,
    .build = build,
};
