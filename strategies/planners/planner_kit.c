/* What all planners share: checks, balance, reasons, copies, labels. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/plan/plan_layers.h"
#include "sim/plan/plan_moves.h"
#include "sim/plan/plan_replicas.h"
#include "strategies/planners/planner.h"
#include "strategies/registry.h"

const struct planner *planner_find(const char *name, struct error *error)
{
    const char *names[64];
    char all[512] = "";
    uint32_t count;
    const struct planner *const *planners = planner_list(&count);
    CHECK(count <= sizeof names / sizeof names[0]);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(planners[i]->name, name) == 0) {
            return planners[i];
        }
        names[i] = planners[i]->name;
        size_t length = strlen(all);
        snprintf(all + length, sizeof all - length, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    const char *near = nearest_word(name, names, count);
    error_set(error, STATUS_NOT_FOUND, "unknown planner \"%.64s\"%s%s%s; known are %s", name,
              near != NULL ? "; did you mean \"" : "", near != NULL ? near : "", near != NULL ? "\"?" : "", all);
    return NULL;
}

double planner_runtime_bytes(const struct scenario *scenario)
{
    return software_runtime_bytes(&scenario->software, &scenario->machine, 0);
}

double planner_enough_gib(double bytes)
{
    static const int DIGITS = 6; /* of %.6g */
    double gib = bytes / GIB;
    double per_gib = gib > 0 ? pow(10, DIGITS - 1 - floor(log10(gib))) : 1;
    double steps = ceil(gib * per_gib);
    /* what was rounded before is not rounded up again: the division is what reads the printed digits */
    return ((steps - 1) / per_gib * GIB >= bytes ? steps - 1 : steps) / per_gib;
}

double planner_device_bytes(const struct scenario *scenario, bool tensor, bool data, bool pipeline)
{
    return software_runtime_bytes(&scenario->software, &scenario->machine,
                                  (tensor ? 1u : 0u) + (data ? 1u : 0u) + (pipeline ? 1u : 0u));
}

/* Planners count with one split of all layers, or choose the splits themselves. */
static enum status check_layers(const struct planner_request *request, struct error *error)
{
    if (request->scenario->plan.moves != NULL || request->scenario->plan.stage_places != NULL) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.plan",
                        "the scenario places its stages or moves tensors already, and a planner chooses that: leave "
                        "plan.moves and plan.stage_places out, or run the scenario as it is");
    }
    if (request->scenario->plan.stage_replicas != NULL) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.parallel.stage_replicas",
                        "the scenario says the replicas of its stages already, and a planner chooses that: leave the "
                        "key out, or run the scenario as it is");
    }
    if (!plan_is_mixed(&request->scenario->plan, &request->scenario->model)) {
        return STATUS_OK;
    }
    return error_at(error, STATUS_BAD_INPUT, NULL, "$.parallel.layers",
                    "the scenario splits its layers differently already, and a planner chooses the splits: leave "
                    "parallel.layers, embedding and head out, or run the scenario as it is");
}

static enum status check_budgets(const struct planner_request *request, struct error *error)
{
    double most = request->scenario->machine.gpu.usable_bytes, least = planner_runtime_bytes(request->scenario);
    for (uint32_t i = 0; i < request->budget_count; i++) {
        double budget = request->budgets_bytes[i];
        if (!(budget > 0) || budget > most) {
            return error_at(error, STATUS_BAD_INPUT, "budget", NULL,
                            "%.6g GiB a device: a %s of %s has %.6g GiB usable, allowed is up to that", budget / GIB,
                            request->scenario->machine.gpu.model, request->scenario->machine.name, most / GIB);
        }
        if (budget <= least) {
            return error_at(error, STATUS_BAD_INPUT, "budget", NULL,
                            "%.6g GiB a device is below the runtime line: context and workspaces alone take %.6g GiB",
                            budget / GIB, least / GIB);
        }
    }
    return STATUS_OK;
}

enum status planner_search(const struct planner *planner, const struct planner_request *request,
                           struct planner_answer *answer, struct error *error)
{
    CHECK(planner->abi == PLANNER_ABI && request->threads > 0);
    CHECK(request->budget_count > 0 && request->budget_count <= PLANNER_BUDGETS_MAX);
    CHECK(request->top <= PLANNER_TOP_MAX && request->profile_count <= PLANNER_PROFILES_MAX);
    *answer = (struct planner_answer){ 0 };
    if (request->profile_count > 0 && !planner->takes_profiles) {
        return error_at(error, STATUS_BAD_INPUT, "--galvatron-profile", NULL,
                        "planner %s takes no measured profiles: its costs are those of our model graph and machine",
                        planner->name);
    }
    TRY(check_layers(request, error));
    TRY(check_budgets(request, error));
    answer->results = arena_array(&answer->arena, struct planner_result, request->budget_count);
    answer->result_count = request->budget_count;
    enum status status =
        answer->results == NULL ? error_set(error, STATUS_NO_MEMORY, "out of memory planning") : STATUS_OK;
    for (uint32_t i = 0; i < request->budget_count && status == STATUS_OK; i++) {
        answer->results[i].budget_bytes = request->budgets_bytes[i];
    }
    if (status == STATUS_OK) {
        status = planner->search(request, answer, error);
    }
    if (status != STATUS_OK) {
        planner_answer_free(answer);
    }
    return status;
}

void planner_answer_free(struct planner_answer *answer)
{
    arena_free(&answer->arena);
    *answer = (struct planner_answer){ 0 };
}

double planner_progress_share(const struct planner_progress *progress)
{
    if (progress->share > 0 || progress->total == 0) {
        return fmin(progress->share, 1);
    }
    return (double)progress->done / (double)progress->total;
}

void planner_balance(struct planner_choice *choice)
{
    double time = 0, most_time = 0, memory = 0, most_memory = 0;
    for (uint32_t i = 0; i < choice->stage_count; i++) {
        const struct planner_stage *stage = &choice->stages[i];
        time += stage->time_s;
        most_time = fmax(most_time, stage->time_s);
        memory += stage->memory_bytes;
        most_memory = fmax(most_memory, stage->memory_bytes);
    }
    choice->alpha_t = time > 0 ? 1 - most_time / time : 0;
    choice->alpha_m = memory > 0 ? 1 - most_memory / memory : 0;
}

enum status planner_reason(struct planner_answer *answer, struct planner_result *result, struct error *error,
                           const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char **list = arena_array(&answer->arena, const char *, result->reason_count + 1);
    char *copy = arena_text(&answer->arena, text);
    if (list == NULL || copy == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    if (result->reason_count > 0) {
        memcpy(list, result->reasons, result->reason_count * sizeof *list);
    }
    list[result->reason_count++] = copy;
    result->reasons = list;
    return STATUS_OK;
}

enum status planner_reason_stopped(struct planner_answer *answer, struct planner_result *result, struct error *error)
{
    return planner_reason(answer, result, error, "stopped before a plan that fits %.6g GiB was found",
                          result->budget_bytes / GIB);
}

enum status planner_copy_plan(struct plan *copy, const struct plan *plan, const struct model *model,
                              struct arena *arena, struct error *error)
{
    size_t stages = (size_t)plan_model_stages(plan), layers = (size_t)model->layers;
    *copy = *plan;
    copy->stage_layers = arena_array(arena, int64_t, stages);
    copy->recompute = arena_array(arena, uint8_t, layers);
    if (copy->stage_layers == NULL || copy->recompute == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    memcpy(copy->stage_layers, plan->stage_layers, stages * sizeof *copy->stage_layers);
    memcpy(copy->recompute, plan->recompute, layers * sizeof *copy->recompute);
    if (plan->layers != NULL) {
        copy->layers = arena_array(arena, struct plan_layer, layers);
        if (copy->layers == NULL) {
            return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
        }
        memcpy(copy->layers, plan->layers, layers * sizeof *copy->layers);
    }
    TRY(plan_replicas_copy(copy, plan, arena, error));
    return plan_moves_copy(copy, plan, arena, error);
}

int64_t planner_stage_layers(int64_t layers, int64_t stages, int64_t index)
{
    int64_t remainder = layers % stages;
    return layers / stages + (index < stages - 1 && index >= stages - 1 - remainder ? 1 : 0);
}

enum status planner_label_layers(struct planner_choice *choice, const struct model *model, struct arena *arena,
                                 struct error *error)
{
    const struct plan *plan = &choice->plan;
    const char *labels[RECOMPUTE_MODE_COUNT];
    static const char *const suffix[RECOMPUTE_MODE_COUNT] = { "", "-s", "-c" };
    for (int mode = 0; mode < RECOMPUTE_MODE_COUNT; mode++) {
        labels[mode] = arena_printf(arena, "%" PRId64 "-%" PRId64 "-%" PRId64 "%s%s", plan->pipeline, plan->tensor,
                                    plan->data * plan->context, plan->zero_stage >= 3 ? "f" : "", suffix[mode]);
    }
    choice->layer_count = (uint32_t)model->layers;
    choice->layers = arena_array(arena, const char *, (size_t)model->layers);
    if (choice->layers == NULL || labels[0] == NULL || labels[1] == NULL || labels[2] == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    for (uint32_t i = 0; i < choice->layer_count; i++) {
        choice->layers[i] = labels[plan->recompute[i]];
        if (plan->stage_replicas != NULL) {
            choice->layers[i] = arena_printf(arena, "%" PRId64 "-%" PRId64 "-%" PRId64 "%s%s", plan->pipeline,
                                             plan->tensor, plan_stage_data(plan, plan_stage_of_layer(plan, i)),
                                             plan->zero_stage >= 3 ? "f" : "", suffix[plan->recompute[i]]);
            TRY(choice->layers[i] != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "out of memory planning"));
        }
    }
    return STATUS_OK;
}
