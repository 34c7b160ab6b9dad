/* DualPipe (DeepSeek-V3, 2024): micro-batches enter at both ends of the pipeline; each device holds a stage of either direction, and a forward of one direction runs with a backward of the
 * other (in real systems overlapped with each other's communication; here one after the other).
 *
 * With p devices (even), half of m >= 2p micro-batches (even) a direction. A device's rank from its nearer end is h; "near" is the direction that enters there. Eight phases, as published:
 * forwards near; forward near, forward far; backward far in two parts with a forward far; the main part; and the mirror of the beginning. */
#include "sim/base/check.h"
#include "sim/plan/order.h"
#include "strategies/orders/orders.h"

static enum status check(const struct order_request *request, struct error *error)
{
    uint32_t p = request->stages, m = request->micro_batches;
    TRY(order_even_stages("dualpipe", p, error));
    if (m < 2 * p || m % 2 != 0) {
        uint32_t nearest = m < 2 * p ? 2 * p : m + 1;
        return error_set(
            error, STATUS_BAD_INPUT,
            "%u micro-batches in %u stages: dualpipe needs an even number of at least %u; the nearest is %u", m, p,
            2 * p, nearest);
    }
    return STATUS_OK;
}

static uint32_t placement(const struct order_request *request, uint32_t stage, uint32_t chunk)
{
    return chunk == 0 ? stage : 2 * request->stages - 1 - stage;
}

static uint32_t replica(const struct order_request *request, uint32_t micro_batch)
{
    return micro_batch >= request->micro_batches / 2;
}

enum { NEAR, FAR };

struct writer {
    const struct order_request *request;
    struct order_step *steps, waiting[2 * ORDER_STAGES_MAX]; /* weight parts not done yet, oldest first */
    uint32_t count, waiting_first, waiting_count;
    uint32_t chunk[2];                 /* of near, of far */
    uint32_t next[STEP_KIND_COUNT][2]; /* micro-batch of that direction */
};

static void put(struct writer *w, enum step_kind kind, uint32_t side)
{
    uint32_t half = w->request->micro_batches / 2, chunk = w->chunk[side];
    CHECK(w->next[kind][side] < half);
    w->steps[w->count++] = (struct order_step){ .kind = (uint8_t)kind,
                                                .chunk = (uint16_t)chunk,
                                                .micro_batch = chunk * half + w->next[kind][side]++ };
}

static void forward(struct writer *w, uint32_t side)
{
    put(w, STEP_FORWARD, side);
}

static void backward_input(struct writer *w, uint32_t side)
{
    put(w, STEP_BACKWARD, side);
    struct order_step step = w->steps[w->count - 1];
    step.kind = STEP_BACKWARD_WEIGHT;
    CHECK(w->waiting_first + w->waiting_count < 2 * ORDER_STAGES_MAX);
    w->waiting[w->waiting_first + w->waiting_count++] = step;
}

static void weight(struct writer *w)
{
    CHECK(w->waiting_count > 0);
    w->steps[w->count++] = w->waiting[w->waiting_first++];
    w->waiting_count--;
}

/* A whole backward: its weight part follows at once. */
static void backward(struct writer *w, uint32_t side)
{
    put(w, STEP_BACKWARD, side);
    struct order_step step = w->steps[w->count - 1];
    step.kind = STEP_BACKWARD_WEIGHT;
    w->steps[w->count++] = step;
}

static void begin(struct writer *w, uint32_t half_stages, uint32_t h)
{
    for (uint32_t i = 0; i < 2 * (half_stages - h - 1); i++) {
        forward(w, NEAR);
    }
    for (uint32_t i = 0; i < h + 1; i++) {
        forward(w, NEAR);
        forward(w, FAR);
    }
    for (uint32_t i = 0; i < half_stages - h - 1; i++) {
        backward_input(w, FAR);
        weight(w);
        forward(w, FAR);
    }
}

static void finish(struct writer *w, uint32_t half_stages, uint32_t h)
{
    for (uint32_t i = 0; i < half_stages - h - 1; i++) {
        backward(w, FAR);
        forward(w, FAR);
        backward(w, NEAR);
    }
    /* From the middle of this phase on weight parts are put off: the far half ends sooner. */
    bool split = false;
    for (uint32_t i = 0; i < h + 1; i++) {
        split = split || (i == (h + 1) / 2 && h % 2 == 1);
        split ? backward_input(w, FAR) : backward(w, FAR);
        split = split || (i == (h + 1) / 2 && h % 2 == 0);
        split ? backward_input(w, NEAR) : backward(w, NEAR);
    }
    for (uint32_t i = 0; i < half_stages - h - 1; i++) {
        weight(w);
        backward_input(w, NEAR);
    }
    while (w->waiting_count > 0) {
        weight(w);
    }
}

static uint32_t build(const struct order_request *request, uint32_t stage, struct order_step *steps)
{
    uint32_t p = request->stages, half = p / 2, second = stage >= half, h = second ? p - 1 - stage : stage;
    struct writer w = { .request = request, .steps = steps, .chunk = { second, !second } };
    begin(&w, half, h);
    for (uint32_t i = 0; i < request->micro_batches / 2 - p + h + 1; i++) {
        forward(&w, NEAR);
        backward(&w, FAR);
        forward(&w, FAR);
        backward(&w, NEAR);
    }
    finish(&w, half, h);
    return w.count;
}

const struct pipeline_order order_dualpipe = {
    .abi = PIPELINE_ORDER_ABI,
    .name = "dualpipe",
    .summary = "micro-batches from both ends, two copies of the model, p + 1 activations",
    .paper = "DeepSeek-AI, DeepSeek-V3 Technical Report, 2024",
    .splits_backward = true,
    .virtual_stages = 2,
    .model_replicas = 2,
    .check = check,
    .placement = placement,
    .replica = replica,
    .build = build,
};
