/* What `memwall explain` says of a PatrickStar rank: layout, budgets, margin, moves. */
#include <math.h>
#include <stdio.h>

#include "strategies/policies/patrickstar.h"

static void tell(struct lowering *lowering, const char *name, double value, const char *unit, const char *formula,
                 const char *numbers, const char *source)
{
    struct policy_fact fact = { .value = value };
    snprintf(fact.name, sizeof fact.name, "%s", name);
    snprintf(fact.unit, sizeof fact.unit, "%s", unit);
    snprintf(fact.formula, sizeof fact.formula, "%s", formula);
    snprintf(fact.numbers, sizeof fact.numbers, "%s", numbers);
    snprintf(fact.source, sizeof fact.source, "%s", source);
    lower_fact(lowering, &fact);
}

static void tell_layout(struct lowering *lowering, const struct ps_state *state)
{
    const struct chunk_layout *layout = &state->layout;
    char numbers[160];
    const char *asked = lower_policy_parameter(lowering, PS_CHUNK_ELEMENTS) > 0 ? "memory_policy.chunk_elements"
                                                                                : "found by memory_policy.chunk_search";
    tell(lowering, "chunk", (double)layout->capacity, "elements", asked, "", "");
    snprintf(numbers, sizeof numbers, "%u that hold something, %u dummies", layout->chunk_count,
             layout->padded_count - layout->chunk_count);
    tell(lowering, "fp16 chunks", layout->padded_count, "", "module units next-fit, padded to a multiple of the ranks",
         numbers, "PatrickStar core/client.py, chunk_list.py");
    tell(lowering, "chunks of each fp32 list, of this rank", chunk_layout_owned(layout, state->walk.rank), "",
         "its own, without dummies", "", "");
    tell(lowering, "utilisation", chunk_layout_utilisation(layout), "", "mean of filled / chunk", "", "");
    if (state->walk.gradient_chunks) {
        snprintf(numbers, sizeof numbers, "2 x %u x %.0f", layout->chunk_count, (double)layout->capacity);
        tell(lowering, "bytes of gradient chunks, all ranks", chunk_layout_gradient_bytes(layout), "bytes",
             "2 chunks S beside the other lists: 16 bytes a parameter in all", numbers,
             "our rule for several micro-batches");
    }
    snprintf(numbers, sizeof numbers, "2 x %u x %.0f + 12 x %u x %.0f", layout->padded_count, (double)layout->capacity,
             layout->chunk_count, (double)layout->capacity);
    tell(lowering, "bytes of all lists and ranks", chunk_layout_bytes(layout), "bytes",
         "2 fp16 chunks S + 12 chunks S (14 bytes a parameter where they are full)", numbers, "");
    if (layout->outside > 0) {
        tell(lowering, "outside chunks", (double)layout->outside, "elements",
             "embedding on the CPU, in fp32, each rank", "", "");
    }
}

static double largest_nonmodel(const struct walk_input *walk)
{
    double most = 0;
    for (uint32_t i = 0; i < walk->pass_count; i++) {
        most = fmax(most, walk->passes[i].nonmodel_bytes);
    }
    return most;
}

static void tell_budgets(struct lowering *lowering, const struct ps_state *state)
{
    const struct walk_input *walk = &state->walk;
    const struct chunk_budget *budget = &walk->budget;
    double most = largest_nonmodel(walk), chunk = 2 * budget->chunk_elements;
    double reserve = chunk * (budget->memory_saving ? 1 : budget->ranks - 1);
    char numbers[160];
    tell(lowering, "GPU bytes for chunks and non-model data (G)", budget->gpu_bytes, "bytes", "usable x gpu_ratio", "",
         "");
    tell(lowering, "host bytes of this rank (C)", budget->cpu_bytes, "bytes",
         "host memory x cpu_ratio / ranks of the server", "", "");
    tell(lowering, "non-model data at most", most, "bytes",
         "saved activations + what the pass holds + the module's gradient", "", "PatrickStar core/memtracer");
    snprintf(numbers, sizeof numbers, "%.4g - %.4g - %.4g", budget->gpu_bytes, most,
             chunk * (budget->memory_saving ? 1 : budget->ranks));
    tell(lowering, "GPU bytes for chunks in the fullest forward",
         chunk_device_budget(budget, STAGE_FORWARD, false, most, most), "bytes",
         budget->static_partition ? "G x warmup_ratio" : "G - non-model data - chunks on their way",
         budget->static_partition ? "" : numbers, "");
    snprintf(numbers, sizeof numbers, "(%.4g - %.4g - %.4g) / (12 x %.0f) x %g", budget->gpu_bytes, most,
             chunk * state->layout.padded_count / budget->ranks * (budget->gradient_chunks ? 2 : 1) + reserve,
             budget->chunk_elements, CHUNK_MARGIN_USE);
    tell(lowering, "margin", state->plan.margin, "chunks",
         "(G - non-model data - fp16 (and gradient) chunks and those on their way) / 12 S x 0.8", numbers,
         "PatrickStar core/memtracer: update_margin_mem");
}

static void tell_moves(struct lowering *lowering, const struct ps_state *state)
{
    uint32_t updates[2] = { 0, 0 };
    char numbers[160];
    for (uint32_t a = 0; a < state->plan.action_count; a++) {
        updates[0] += state->plan.actions[a].kind == WALK_ADAM_DEVICE;
        updates[1] += state->plan.actions[a].kind == WALK_ADAM_HOST || state->plan.actions[a].kind == WALK_ADAM_STORED;
    }
    if (state->walk.warmup_without_adam) {
        snprintf(numbers, sizeof numbers, "%u passes, without Adam's moment", state->plan.moments.moment_count);
        tell(
            lowering, "next use of optimizer states", 2.0 * state->plan.moments.moment_count, "moments",
            "2 x moments that warm-up recorded: its gradients overflowed and Adam was skipped, so they leave first for "
            "good",
            numbers, "PatrickStar issue 247, core/eviction_policy.py");
    }
    tell(lowering, "chunks updated on the device", updates[0], "", "chunk k = 1, 2, ... of the rank with k < margin",
         "", "");
    tell(lowering, "chunks updated on the host", updates[1], "", "the others", "", "");
    tell(lowering, "chunks move up", state->plan.up_bytes, "bytes", "of the steady step, Adam's copies apart", "", "");
    tell(lowering, "chunks move down", state->plan.down_bytes, "bytes", "of the steady step, Adam's copies apart", "",
         "");
    tell(lowering, "steps until the placement repeats", state->plan.iterations, "",
         state->plan.repeats ? "walked after the warm-up step" : "it did not repeat: the step ends by restoring it", "",
         "");
}

void ps_tell(struct lowering *lowering)
{
    const struct ps_state *state = ps_state(lowering);
    if (lower_input(lowering)->facts != NULL) {
        tell_layout(lowering, state);
        tell_budgets(lowering, state);
        tell_moves(lowering, state);
    }
}
