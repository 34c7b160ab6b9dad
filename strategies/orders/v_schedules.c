/* Orders on a V: chunk 0 of device r is virtual stage r, chunk 1 is 2p - 1 - r, so the last device turns a micro-batch round by itself and the first one has both ends of the model.
 *
 * zb-v (Qi et al., ICLR 2024): as much memory as 1F1B, p whole shares everywhere. With per-chunk times and W <= min(F, B), m >= 2p - 1 the span bubble is
 * 2(p-1)(max(F,B) - W), less min(F - B, B - W) where W < B < F: none when F = B = W.
 *
 * v-half and v-min (Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024) repeat one building block every 6 slots (F, B, W of two chunks). A block is given by how many slots
 * later each next device does its F0, F1, B1, B0; the longer the block, the more is in flight: the sum is 12 for zb-v, 6 for v-half, 4 for v-min, so peaks are about p/2 and p/3. Turning points are
 * the earliest at which no two passes of a device fall on one slot of six; W takes the first free slot after its B. The offsets are our construction from the paper's idea. */
#include "sim/base/check.h"
#include "sim/plan/order.h"
#include "strategies/orders/orders.h"

enum { SLOTS = 6 };

static uint32_t placement(const struct order_request *request, uint32_t stage, uint32_t chunk)
{
    return chunk == 0 ? stage : 2 * request->stages - 1 - stage;
}

/* ---- zb-v ---- */

struct writer {
    struct order_step *steps;
    uint32_t count, micro_batches, built; /* to keep; with those built beyond and dropped */
    uint32_t next[STEP_KIND_COUNT][2];
};

static void put(struct writer *w, enum step_kind kind, uint32_t chunk)
{
    uint32_t micro_batch = w->next[kind][chunk];
    if (micro_batch < w->built) {
        w->next[kind][chunk]++;
        if (micro_batch < w->micro_batches) {
            w->steps[w->count++] =
                (struct order_step){ .kind = (uint8_t)kind, .chunk = (uint16_t)chunk, .micro_batch = micro_batch };
        }
    }
}

static void put_backward(struct writer *w, uint32_t chunk)
{
    put(w, STEP_BACKWARD, chunk);
    put(w, STEP_BACKWARD_WEIGHT, chunk);
}

static uint32_t build_zb_v(const struct order_request *request, uint32_t r, struct order_step *steps)
{
    uint32_t p = request->stages, m = request->micro_batches, built = m > 2 * p - 1 ? m : 2 * p - 1;
    struct writer w = { .steps = steps, .micro_batches = m, .built = built };
    for (uint32_t i = 0; i < 2 * (p - r) - 1; i++) {
        put(&w, STEP_FORWARD, 0);
    }
    for (uint32_t i = 0; i < r; i++) {
        put(&w, STEP_FORWARD, 1);
        put(&w, STEP_FORWARD, 0);
    }
    for (uint32_t i = 0; i < p - r; i++) {
        put(&w, STEP_FORWARD, 1);
        put_backward(&w, 1);
    }
    for (uint32_t i = 0; i < built - p; i++) {
        put(&w, STEP_FORWARD, 0);
        put_backward(&w, 0);
        put(&w, STEP_FORWARD, 1);
        put_backward(&w, 1);
    }
    for (uint32_t i = 0; i < r; i++) {
        put(&w, STEP_BACKWARD, 0);
        put(&w, STEP_BACKWARD, 1);
    }
    for (uint32_t i = 0; i < p - r; i++) {
        put_backward(&w, 0);
    }
    for (uint32_t chunk = 2; chunk-- > 0;) {
        while (w.next[STEP_BACKWARD_WEIGHT][chunk] < built) {
            put(&w, STEP_BACKWARD_WEIGHT, chunk);
        }
    }
    return w.count;
}

/* ---- building blocks ---- */

/* Passes of a block, in the order in which a micro-batch meets them; weight parts after. */
enum pass { F0, F1, B1, B0, W1, W0, PASS_COUNT };

static const struct order_step PASSES[PASS_COUNT] = {
    [F0] = { STEP_FORWARD, 0, 0 },  [F1] = { STEP_FORWARD, 1, 0 },         [B1] = { STEP_BACKWARD, 1, 0 },
    [B0] = { STEP_BACKWARD, 0, 0 }, [W1] = { STEP_BACKWARD_WEIGHT, 1, 0 }, [W0] = { STEP_BACKWARD_WEIGHT, 0, 0 },
};

struct block {
    uint32_t offsets[4]; /* slots from one device to the next, of F0, F1, B1, B0 */
    int64_t begins[4];   /* at the first device that does it: F0 and B1 at 0, F1 and B0 at p - 1 */
};

static int64_t slot_of(const struct block *block, uint32_t p, enum pass pass, uint32_t r)
{
    uint32_t distance = pass == F0 || pass == B1 ? r : p - 1 - r;
    return block->begins[pass] + (int64_t)block->offsets[pass] * distance;
}

/* Whether `pass` shares a slot of six with an earlier pass on some device. Slots repeat every six devices. */
static bool collides(const struct block *block, uint32_t p, enum pass pass)
{
    for (uint32_t r = 0; r < p && r < SLOTS; r++) {
        for (enum pass other = F0; other < pass; other++) {
            if ((slot_of(block, p, pass, r) - slot_of(block, p, other, r)) % SLOTS == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Fill begins from `pass` on: the earliest after the turn at which a way on exists. */
static bool place_turns(struct block *block, uint32_t p, enum pass pass)
{
    if (pass > B0) {
        return true;
    }
    uint32_t turn = pass == F1 || pass == B0 ? p - 1 : 0; /* the device where this pass follows the one before it */
    int64_t earliest = slot_of(block, p, pass - 1, turn) + 1;
    for (int64_t slack = 0; slack < SLOTS; slack++) {
        block->begins[pass] = earliest + slack;
        if (!collides(block, p, pass) && place_turns(block, p, pass + 1)) {
            return true;
        }
    }
    return false;
}

/* The first slot after `after` that none of `count` passes has. */
static int64_t free_slot(const int64_t *slots, uint32_t count, int64_t after)
{
    for (int64_t slot = after + 1;; slot++) {
        bool taken = false;
        for (uint32_t i = 0; i < count; i++) {
            taken = taken || (slot - slots[i]) % SLOTS == 0;
        }
        if (!taken) {
            return slot;
        }
    }
}

static uint32_t build_block(const struct order_request *request, uint32_t r, const uint32_t offsets[4],
                            struct order_step *steps)
{
    struct block block = { .offsets = { offsets[F0], offsets[F1], offsets[B1], offsets[B0] } };
    CHECK(place_turns(&block, request->stages, F1));
    int64_t slots[PASS_COUNT];
    for (enum pass pass = F0; pass <= B0; pass++) {
        slots[pass] = slot_of(&block, request->stages, pass, r);
    }
    slots[W1] = free_slot(slots, W1, slots[B1]);
    slots[W0] = free_slot(slots, W0, slots[B0]);
    uint32_t next[PASS_COUNT] = { 0 }, count = 0;
    while (count < PASS_COUNT * request->micro_batches) {
        enum pass first = PASS_COUNT;
        for (enum pass pass = F0; pass < PASS_COUNT; pass++) {
            if (next[pass] < request->micro_batches &&
                (first == PASS_COUNT ||
                 slots[pass] + SLOTS * (int64_t)next[pass] < slots[first] + SLOTS * (int64_t)next[first])) {
                first = pass;
            }
        }
        steps[count] = PASSES[first];
        steps[count++].micro_batch = next[first]++;
    }
    return count;
}

static uint32_t build_v_half(const struct order_request *request, uint32_t r, struct order_step *steps)
{
    return build_block(request, r, (const uint32_t[]){ 2, 1, 2, 1 }, steps);
}

static uint32_t build_v_min(const struct order_request *request, uint32_t r, struct order_step *steps)
{
    return build_block(request, r, (const uint32_t[]){ 1, 1, 1, 1 }, steps);
}

const struct pipeline_order order_zb_v = {
    .abi = PIPELINE_ORDER_ABI,
    .name = "zb-v",
    .summary = "zero bubble on a V of two chunks with the memory of 1F1B",
    .paper = "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024 (V)",
    .splits_backward = true,
    .virtual_stages = 2,
    .model_replicas = 1,
    .placement = placement,
    .build = build_zb_v,
};

const struct pipeline_order order_v_half = {
    .abi = PIPELINE_ORDER_ABI,
    .name = "v-half",
    .summary = "a V of two chunks with about half the activations of 1F1B",
    .paper = "Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024 (offsets ours)",
    .splits_backward = true,
    .virtual_stages = 2,
    .model_replicas = 1,
    .placement = placement,
    .build = build_v_half,
};

const struct pipeline_order order_v_min = {
    .abi = PIPELINE_ORDER_ABI,
    .name = "v-min",
    .summary = "a V of two chunks with about a third of the activations of 1F1B",
    .paper = "Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024 (offsets ours)",
    .splits_backward = true,
    .virtual_stages = 2,
    .model_replicas = 1,
    .placement = placement,
    .build = build_v_min,
};
