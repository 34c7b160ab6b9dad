/* Zero-bubble orders on a plain pipeline (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024): the weight-gradient part W of a backward waits for nobody, so it fills what would be bubble.
 *
 * H1 keeps 1F1B's memory: micro-batches of which B or W is still due never exceed p. Makespan bubble (p-1)(F+B) - min(m-1, p-1) min(F, W),
 * unless F and W are both longer than B.
 * H2 admits 2(p-s) - 1 forwards, for memory 2p - 1 everywhere. Span bubble (p-1)(F+B) - min(m-1, 2p-2) W while W <= F and 2W <= F+B; its makespan is H1's kind, as stages start and
 * end in a parallelogram.
 * H2's rule is our own construction with the published memory and bubble; the authors' scheduler may put single Ws elsewhere. */
#include "sim/plan/order.h"
#include "strategies/orders/orders.h"

struct writer {
    struct order_step *steps;
    uint32_t count, micro_batches, next[STEP_KIND_COUNT];
};

static void put(struct writer *w, enum step_kind kind)
{
    if (w->next[kind] < w->micro_batches) {
        w->steps[w->count++] = (struct order_step){ .kind = (uint8_t)kind, .micro_batch = w->next[kind]++ };
    }
}

static void put_many(struct writer *w, enum step_kind kind, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        put(w, kind);
    }
}

static uint32_t build_h1(const struct order_request *request, uint32_t stage, struct order_step *steps)
{
    struct writer w = { .steps = steps, .micro_batches = request->micro_batches };
    put_many(&w, STEP_FORWARD, request->stages - 1 - stage);
    for (uint32_t i = 0; i < request->micro_batches; i++) {
        put(&w, STEP_FORWARD);
        put(&w, STEP_BACKWARD);
        if (i >= stage) {
            put(&w, STEP_BACKWARD_WEIGHT);
        }
    }
    put_many(&w, STEP_BACKWARD_WEIGHT, request->micro_batches);
    return w.count;
}

static uint32_t build_h2(const struct order_request *request, uint32_t stage, struct order_step *steps)
{
    struct writer w = { .steps = steps, .micro_batches = request->micro_batches };
    put_many(&w, STEP_FORWARD, 2 * (request->stages - stage) - 1);
    for (uint32_t i = 0; i < request->micro_batches; i++) {
        put(&w, STEP_BACKWARD);
        if (i >= 2 * stage) {
            put(&w, STEP_BACKWARD_WEIGHT);
        }
        put(&w, STEP_FORWARD);
    }
    put_many(&w, STEP_BACKWARD_WEIGHT, request->micro_batches);
    return w.count;
}

const struct pipeline_order order_zb_h1 = {
    .abi = PIPELINE_ORDER_ABI,
    .name = "zb-h1",
    .summary = "backward in two parts, weight gradients fill the bubble, memory of 1F1B",
    .paper = "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024 (H1)",
    .splits_backward = true,
    .virtual_stages = 1,
    .model_replicas = 1,
    .build = build_h1,
};

const struct pipeline_order order_zb_h2 = {
    .abi = PIPELINE_ORDER_ABI,
    .name = "zb-h2",
    .summary = "backward in two parts and 2p - 1 activations: no bubble inside a stage when F = B = W",
    .paper = "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024 (H2; rule ours)",
    .splits_backward = true,
    .virtual_stages = 1,
    .model_replicas = 1,
    .build = build_h2,
};
