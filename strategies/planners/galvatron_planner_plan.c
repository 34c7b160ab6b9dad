/* Galvatron's plans as ours. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "strategies/planners/galvatron_planner_internal.h"
#include "strategies/registry.h"

/* What all layers must have in common, for a plan has one set of degrees. */
static bool uniform(const struct galvatron_plan *found, char *why, size_t why_size)
{
    const struct galvatron_strategy *first = &found->layers[0];
    for (uint32_t i = 1; i < found->layer_count; i++) {
        const struct galvatron_strategy *layer = &found->layers[i];
        if (layer->tensor != first->tensor || layer->data != first->data || layer->sharded != first->sharded ||
            layer->tensor_consecutive != first->tensor_consecutive) {
            char a[GALVATRON_STRATEGY_TEXT_BYTES], b[GALVATRON_STRATEGY_TEXT_BYTES];
            snprintf(why, why_size,
                     "layers 0 and %" PRIu32 " are split differently (%s, %s): a plan has one split so far", i,
                     galvatron_strategy_text(first, a), galvatron_strategy_text(layer, b));
            return false;
        }
    }
    if (!first->tensor_consecutive && first->tensor > 1 && first->data > 1) {
        snprintf(why, why_size, "its tensor groups are strided: in a plan they are neighbours");
        return false;
    }
    return true;
}

static bool fill_batch(const struct galvatron_plan *found, struct plan *plan, char *why, size_t why_size)
{
    plan->global_batch = (int64_t)(found->batch + 0.5);
    plan->micro_batches = found->micro_batches;
    int64_t together = plan->data * plan->micro_batches;
    CHECK(together > 0);
    if (plan->global_batch % together != 0) {
        snprintf(why, why_size,
                 "%" PRId64 " samples over %" PRId64 " replicas in %" PRId64 " micro-batches are no whole samples",
                 plan->global_batch, plan->data, plan->micro_batches);
        return false;
    }
    plan->micro_batch = plan->global_batch / together;
    return true;
}

enum status galvatron_to_plan(const struct scenario *scenario, const struct galvatron_plan *found, int64_t plain_zero,
                              struct plan *plan, bool *possible, char *why, size_t why_size, struct arena *arena,
                              struct error *error)
{
    const struct galvatron_strategy *first = &found->layers[0];
    struct error refusal;
    *plan = scenario->plan;
    *possible = false;
    if (found->layer_count != (uint32_t)scenario->model.layers) {
        snprintf(why, why_size, "it has %" PRIu32 " layers, the model %" PRId64, found->layer_count,
                 scenario->model.layers);
        return STATUS_OK;
    }
    if (!uniform(found, why, why_size)) {
        return STATUS_OK;
    }
    plan->tensor = first->tensor;
    plan->pipeline = found->pipeline;
    plan->data = first->data;
    plan->virtual_stages = 1;
    plan->zero_stage = first->data == 1 ? 0 : first->sharded ? 3 : plain_zero;
    if (!fill_batch(found, plan, why, why_size)) {
        return STATUS_OK;
    }
    const struct pipeline_order *order =
        registry_order(found->one_f_one_b || found->pipeline == 1 ? "1f1b" : "gpipe", error);
    CHECK(order != NULL);
    snprintf(plan->order, sizeof plan->order, "%s", order->name);
    parameters_defaults(order->parameters, order->parameter_count, &plan->order_parameters);
    plan->stage_layers = arena_array(arena, int64_t, found->pipeline);
    plan->recompute = arena_array(arena, uint8_t, found->layer_count);
    if (plan->stage_layers == NULL || plan->recompute == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    for (uint32_t i = 0; i < found->pipeline; i++) {
        plan->stage_layers[i] = found->stages[i].layers;
    }
    for (uint32_t i = 0; i < found->layer_count; i++) {
        plan->recompute[i] = found->layers[i].recompute ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    }
    if (plan_check(plan, &scenario->model, &refusal) != STATUS_OK) {
        snprintf(why, why_size, "%.*s", (int)why_size - 1, refusal.message);
        return STATUS_OK;
    }
    *possible = true;
    return STATUS_OK;
}
