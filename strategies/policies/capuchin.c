/* The policy `capuchin` (Peng et al., ASPLOS 2020; rules of facts/mpress-hippie-pipelines.md D), its measured iteration being the kit's estimate. Candidates are the savings live at the peak. Free
 * time FT = (next use - time up) - (last use + time down). The largest FT >= 0 is swapped; when none is left, the smaller of the swap's exposed time -FT and the layer's recomputation (of
 * the most bytes a second) is taken, until the peak fits. Copies up are triggered early enough by estimate. Recomputation is decided for a layer, for all its micro-batches. */
#include <math.h>

#include "strategies/policies/activation_kit.h"
#include "strategies/policies/policies.h"

static const struct parameter PARAMETERS[] = { [ACTIVATION_BUDGET] = ACTIVATION_BUDGET_PARAMETER };

static double free_time_s(const struct activation_rank *rank, const struct activation_saving *saving)
{
    return rank->passes[saving->backward].start_s - activation_up_s(rank, saving) -
           rank->passes[saving->forward].end_s - activation_down_s(rank, saving);
}

/* The saving of most free time that would be gone at `pass`, or NULL. */
static struct activation_saving *freest(const struct activation_rank *rank, uint32_t pass)
{
    struct activation_saving *best = NULL;
    for (size_t i = 0; i < (size_t)rank->layer_count * rank->micro_batches; i++) {
        struct activation_saving *saving = &rank->savings[i];
        if (activation_frees(rank, saving, pass) &&
            (best == NULL || free_time_s(rank, saving) > free_time_s(rank, best))) {
            best = saving;
        }
    }
    return best;
}

/* The layer whose recomputation frees the most bytes a second, or SCHED_NONE. */
static uint32_t cheapest_layer(const struct lowering *lowering, const struct activation_rank *rank)
{
    uint32_t best = SCHED_NONE;
    double best_rate = 0;
    for (uint32_t i = 0; i < rank->layer_count; i++) {
        double bytes = activation_recompute_bytes(rank, i);
        double rate = bytes > 0 ? bytes / activation_recompute_s(lowering, rank, i) : 0;
        if (rate > best_rate) {
            best_rate = rate;
            best = i;
        }
    }
    return best;
}

/* `modes` NULL: recomputation is settled, only swap. */
static void choose(struct lowering *lowering, struct activation_rank *rank, uint8_t *modes)
{
    for (;;) {
        uint32_t peak = activation_live(rank), layer = SCHED_NONE;
        if (rank->live_bytes[peak] <= rank->budget_bytes) {
            return;
        }
        struct activation_saving *saving = freest(rank, peak);
        double exposed_s = saving != NULL ? fmax(0, -free_time_s(rank, saving)) : INFINITY;
        if (modes != NULL && exposed_s > 0) {
            layer = cheapest_layer(lowering, rank);
        }
        if (layer != SCHED_NONE && activation_recompute_s(lowering, rank, layer) < exposed_s) {
            modes[layer] = RECOMPUTE_FULL;
            if (!activation_open(lowering, modes, rank)) { /* times, savings and budget are others now: anew */
                return;
            }
        } else if (saving != NULL) {
            activation_move(rank, saving);
        } else {
            return; /* does not fit; the executor says why */
        }
    }
}

static void choose_recompute(struct lowering *lowering, uint8_t *modes)
{
    struct activation_rank rank;
    if (activation_open(lowering, modes, &rank)) {
        choose(lowering, &rank, modes);
    }
}

static void begin_rank(struct lowering *lowering)
{
    struct activation_rank *rank = activation_begin(lowering);
    if (rank != NULL) {
        choose(lowering, rank, NULL);
        activation_trigger_in_time(rank);
        activation_ready(lowering, rank);
    }
}

const struct memory_policy policy_capuchin = {
    .abi = MEMORY_POLICY_ABI,
    .name = "capuchin",
    .summary =
        "savings at the peak are swapped by free time; what cannot hide is swapped or recomputed, whichever costs less",
    .paper = "Peng et al., ASPLOS 2020",
    .parameters = PARAMETERS,
    .parameter_count = sizeof PARAMETERS / sizeof PARAMETERS[0],
    .choose_recompute = choose_recompute,
    .begin_rank = begin_rank,
    .before_pass = activation_before_pass,
    .after_pass = activation_after_pass,
    .streams = true,
};
