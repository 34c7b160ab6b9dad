/* Galvatron's plans as ours. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/plan/plan_layers.h"
#include "sim/plan/plan_order.h"
#include "strategies/planners/galvatron_planner_internal.h"
#include "strategies/registry.h"

/* A stage's micro-batch on all its devices. Of the plan's own degrees only their product and micro_batch x data count: data is the smallest of the layers', which divides it first. */
static bool fill_batch(const struct galvatron_plan *found, struct plan *plan, char *why, size_t why_size)
{
    const struct galvatron_strategy *least = &found->layers[0];
    for (uint32_t i = 1; i < found->layer_count; i++) {
        least = found->layers[i].data < least->data ? &found->layers[i] : least;
    }
    plan->tensor = least->tensor;
    plan->data = least->data;
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

/* Plain data parallelism is ZeRO stage `plain_zero`, sharded 3. */
static void fill_layers(const struct galvatron_plan *found, int64_t plain_zero, struct plan *plan)
{
    for (uint32_t i = 0; i < found->layer_count; i++) {
        const struct galvatron_strategy *layer = &found->layers[i];
        plan->recompute[i] = layer->recompute ? RECOMPUTE_FULL : RECOMPUTE_NONE;
        plan->layers[i] = (struct plan_layer){ .tensor = layer->tensor,
                                               .data = layer->data,
                                               .zero_stage = layer->data == 1 ? 0
                                                             : layer->sharded ? 3
                                                                              : plain_zero,
                                               .data_consecutive =
                                                   !layer->tensor_consecutive && layer->tensor > 1 && layer->data > 1 };
    }
}

enum status galvatron_to_plan(const struct scenario *scenario, const struct galvatron_plan *found, int64_t plain_zero,
                              struct plan *plan, bool *possible, char *why, size_t why_size, struct arena *arena,
                              struct error *error)
{
    struct error refusal;
    *plan = scenario->plan;
    *possible = false;
    if (found->layer_count != (uint32_t)scenario->model.layers) {
        snprintf(why, why_size, "it has %" PRIu32 " layers, the model %" PRId64, found->layer_count,
                 scenario->model.layers);
        return STATUS_OK;
    }
    plan->pipeline = found->pipeline;
    plan->virtual_stages = 1;
    plan->zero_stage = 0;
    plan->embedding = plan->head = (struct plan_layer){ 0 };
    plan->stage_places = NULL; /* of as many stages as the scenario has; theirs are in order and have alike replicas */
    plan->stage_replicas = NULL;
    if (!fill_batch(found, plan, why, why_size)) {
        return STATUS_OK;
    }
    const struct pipeline_order *order =
        registry_order(found->one_f_one_b || found->pipeline == 1 ? "1f1b" : "gpipe", error);
    CHECK(order != NULL);
    plan_order_use(plan, order);
    plan->stage_layers = arena_array(arena, int64_t, found->pipeline);
    plan->recompute = arena_array(arena, uint8_t, found->layer_count);
    plan->layers = arena_array(arena, struct plan_layer, found->layer_count);
    if (plan->stage_layers == NULL || plan->recompute == NULL || plan->layers == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    for (uint32_t i = 0; i < found->pipeline; i++) {
        plan->stage_layers[i] = found->stages[i].layers;
    }
    fill_layers(found, plain_zero, plan);
    plan_layers_simplify(plan, &scenario->model);
    if (plan_check(plan, &scenario->model, &refusal) != STATUS_OK) {
        snprintf(why, why_size, "%.*s", (int)why_size - 1, refusal.message);
        return STATUS_OK;
    }
    *possible = true;
    return STATUS_OK;
}
