/* What the Galvatron search found, as a planner's answer: candidates simulated, the best of them, reasons. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "strategies/planners/galvatron_dp.h"
#include "strategies/planners/galvatron_planner_internal.h"

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
}

bool galvatron_planner_look(const struct planner_request *request, const struct planner_progress *progress)
{
    return request->progress == NULL || request->progress(request->progress_context, progress);
}

/* ---- plans as choices ---- */

static enum status copy_stages(struct galvatron_planning *s, const struct galvatron_plan *found,
                               struct planner_stage **stages, struct error *error)
{
    *stages = arena_array(&s->answer->arena, struct planner_stage, found->pipeline);
    if (*stages == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < found->pipeline; i++) {
        (*stages)[i] = (struct planner_stage){ .layers = found->stages[i].layers,
                                               .time_s = found->stages[i].compute_s,
                                               .memory_bytes = found->stages[i].memory_mib * MIB,
                                               .leftover_bytes = found->stages[i].leftover_mib * MIB };
    }
    return STATUS_OK;
}

static enum status label_layers(struct galvatron_planning *s, const struct galvatron_plan *found,
                                struct planner_choice *choice, struct error *error)
{
    choice->layers = arena_array(&s->answer->arena, const char *, found->layer_count);
    choice->layer_count = found->layer_count;
    for (uint32_t i = 0; choice->layers != NULL && i < found->layer_count; i++) {
        char text[GALVATRON_STRATEGY_TEXT_BYTES];
        bool same = i > 0 && galvatron_strategy_equal(&found->layers[i], &found->layers[i - 1]);
        choice->layers[i] = same ? choice->layers[i - 1]
                                 : arena_text(&s->answer->arena, galvatron_strategy_text(&found->layers[i], text));
        if (choice->layers[i] == NULL) {
            return no_memory(error);
        }
    }
    return choice->layers != NULL ? STATUS_OK : no_memory(error);
}

static enum status to_plan(struct galvatron_planning *s, const struct galvatron_plan *found, struct plan *plan,
                           bool *possible, char *why, struct error *error)
{
    bool zero2 = s->preset == PRESET_MEMWALL ? found->zero2 : s->tasks[0].preset.zero2;
    why[0] = '\0';
    return galvatron_to_plan(s->request->scenario, found, zero2 ? 2 : 0, plan, possible, why, GALVATRON_WHY_BYTES,
                             &s->answer->arena, error);
}

enum status galvatron_pick_fill(struct galvatron_planning *s, const struct galvatron_plan *found,
                                struct galvatron_pick *entry, struct error *error)
{
    struct planner_choice *choice = &entry->choice;
    entry->found = found;
    *choice = (struct planner_choice){ .stage_count = found->pipeline,
                                       .global_batch = (int64_t)(found->batch + 0.5),
                                       .pipeline = found->pipeline,
                                       .step_time_s = found->step_s,
                                       .samples_per_s = found->samples_per_s,
                                       .alpha_t = found->alpha_t,
                                       .alpha_m = found->alpha_m };
    TRY(copy_stages(s, found, &choice->stages, error));
    TRY(label_layers(s, found, choice, error));
    for (uint32_t i = 0; i < found->pipeline; i++) {
        choice->peak_bytes = fmax(choice->peak_bytes, choice->stages[i].memory_bytes);
    }
    return to_plan(s, found, &choice->plan, &choice->has_plan, entry->why, error);
}

/* ---- the answer ---- */

static bool same_stages(const struct galvatron_plan *a, const struct galvatron_plan *b)
{
    for (uint32_t i = 0; i < a->pipeline; i++) {
        if (a->stages[i].layers != b->stages[i].layers) {
            return false;
        }
    }
    return true;
}

/* Where balancing has moved layers. */
static enum status fill_unbalanced(struct galvatron_planning *s, const struct galvatron_pick *best,
                                   struct oracle *oracle, struct planner_result *result, struct error *error)
{
    struct plan plan;
    const struct plan *asked = &plan;
    char why[GALVATRON_WHY_BYTES];
    bool possible;
    if (best->candidate == NULL || !best->candidate->has_unbalanced ||
        same_stages(best->found, &best->candidate->unbalanced)) {
        return STATUS_OK;
    }
    const struct galvatron_plan *before = &best->candidate->unbalanced;
    TRY(copy_stages(s, before, &result->unbalanced, error));
    result->unbalanced_count = before->pipeline;
    result->unbalanced_alpha_t = before->alpha_t;
    result->unbalanced_alpha_m = before->alpha_m;
    result->unbalanced_step_time_s = before->step_s;
    TRY(to_plan(s, before, &plan, &possible, why, error));
    return possible ? oracle_ask(oracle, &asked, 1, &result->unbalanced_simulated, NULL, NULL, error) : STATUS_OK;
}

/* No batch could be split: that is no question of memory. */
static enum status tell_nothing_tried(struct galvatron_planning *s, const struct galvatron_request *request,
                                      struct planner_result *result, struct error *error)
{
    const struct galvatron_source *source = request->source;
    uint32_t gpus = source->gpus, first = request->batch_first, whole = (first + gpus - 1) / gpus * gpus;
    char hint[64] = "";
    if (whole != first) {
        snprintf(hint, sizeof hint, "; the next batch for all devices is %" PRIu32, whole);
    }
    return planner_reason(s->answer, result, error,
                          "no split to try of %" PRIu32 " GPUs in space %s (max_tensor, max_pipeline) with %" PRIu32
                          " layers and batches from %" PRIu32 " to %" PRIu32 " by %" PRIu32
                          ": a stage needs a layer, a batch whole samples for every replica%s%s",
                          gpus, galvatron_space_name(request->space), source->layer_count, first,
                          request->batch_max > 0 ? request->batch_max : first, request->batch_step,
                          request->micro == GALVATRON_MICRO_ALL ? "" : " and one for each stage", hint);
}

/* Where even the best does not fit by simulation. False: it fits, or was not simulated. `least_bytes`: what the leanest of all takes. */
static bool is_too_big(const struct galvatron_planning *s, const struct galvatron_shortlist *list, double *least_bytes)
{
    const struct oracle_result *best = &list->order[0]->choice.simulated;
    if (s->preset != PRESET_MEMWALL || best->verdict != ORACLE_RAN || oracle_fits(best, list->budget_bytes)) {
        return false;
    }
    *least_bytes = (double)best->peak_bytes;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct oracle_result *one = &list->entries[i].choice.simulated;
        *least_bytes = one->verdict == ORACLE_RAN ? fmin(*least_bytes, (double)one->peak_bytes) : *least_bytes;
    }
    return true;
}

/* No plan, and what would do: `from_bytes` at the least; `below_bytes` as in galvatron_smallest_budget. */
static enum status tell_smallest(struct galvatron_planning *s, const struct galvatron_task *task, struct oracle *oracle,
                                 double from_bytes, double below_bytes, const char *why, struct planner_result *result,
                                 struct error *error)
{
    bool confirmed = false;
    result->found = false;
    result->smallest_budget_bytes = from_bytes;
    if (s->preset == PRESET_MEMWALL) {
        TRY(galvatron_smallest_budget(s, task, oracle, from_bytes, &result->smallest_budget_bytes, &below_bytes,
                                      &confirmed, error));
    }
    const struct machine *machine = &s->request->scenario->machine;
    char has[128] = "", below[64] = "";
    if (confirmed && below_bytes > 0) {
        snprintf(below, sizeof below, "; none was found in %.6g GiB", below_bytes / GIB);
    }
    if (result->smallest_budget_bytes > machine->gpu.usable_bytes) {
        snprintf(has, sizeof has, " (a %s has %.6g)", machine->gpu.model, machine->gpu.usable_bytes / GIB);
    }
    return planner_reason(s->answer, result, error, "%s; the smallest budget that would do is %.6g GiB%s%s%s", why,
                          planner_enough_gib(result->smallest_budget_bytes), has,
                          confirmed                     ? ", where a plan fits by simulation"
                          : s->preset == PRESET_MEMWALL ? " or more: no plan that was simulated fits it"
                                                        : ", by the cost model",
                          below);
}

static enum status fill_result(struct galvatron_planning *s, struct galvatron_task *task, struct oracle *oracle,
                               struct planner_result *result, struct error *error)
{
    const struct galvatron_result *found = &task->result;
    struct galvatron_shortlist list = { .budget_bytes = result->budget_bytes };
    s->answer->interrupted = s->answer->interrupted || found->interrupted;
    s->answer->configurations += found->searches + found->skipped;
    s->answer->screened += found->searches;
    s->answer->outrun += found->skipped;
    result->found = found->found;
    bool begun = task->planning != NULL;
    if (!found->found && (!begun || found->interrupted)) {
        return planner_reason_stopped(s->answer, result, error);
    }
    if (found->nothing_tried) {
        return tell_nothing_tried(s, &task->request, result, error);
    }
    char why[GALVATRON_WHY_BYTES];
    if (!found->found && found->smallest_budget_mib >= GALVATRON_DP_NO_FIT_MIB) {
        return planner_reason(s->answer, result, error,
                              "no plan at any budget: no split of %" PRIu32
                              " GPUs in space %s (max_tensor, max_pipeline) divides the model's heads and the batch",
                              task->source.gpus, galvatron_space_name(task->request.space));
    }
    if (!found->found) {
        snprintf(why, sizeof why, "no plan fits %.6g GiB%s", result->budget_bytes / GIB,
                 s->preset == PRESET_MEMWALL ? " by the cost model" : "");
        return tell_smallest(s, task, oracle, found->smallest_budget_mib * MIB, 0, why, result, error);
    }
    TRY(galvatron_shortlist_make(s, task, oracle, &list, error));
    double least_bytes;
    if (is_too_big(s, &list, &least_bytes)) {
        snprintf(why, sizeof why, "%" PRIu32 " plans fit %.6g GiB by the cost model and none by the simulator",
                 list.count, result->budget_bytes / GIB);
        return tell_smallest(s, task, oracle, least_bytes, list.budget_bytes, why, result, error);
    }
    result->best = list.order[0]->choice;
    if (s->preset == PRESET_MEMWALL && oracle_fits(&result->best.simulated, result->budget_bytes)) {
        s->carried = list.order[0];
        s->carried_bytes = result->budget_bytes;
    }
    result->runners_up = arena_array(&s->answer->arena, struct planner_choice, list.kept);
    if (result->runners_up == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 1; i < list.kept && i <= s->request->top; i++) {
        result->runners_up[result->runner_up_count++] = list.order[i]->choice;
    }
    TRY(fill_unbalanced(s, list.order[0], oracle, result, error));
    return galvatron_add_reasons(s, task, result, &list, error);
}

/* Indices of budgets, the smallest first. */
static void order_budgets(const struct planner_request *request, uint32_t *rising)
{
    for (uint32_t i = 0; i < request->budget_count; i++) {
        uint32_t at = i;
        for (; at > 0 && request->budgets_bytes[rising[at - 1]] > request->budgets_bytes[i]; at--) {
            rising[at] = rising[at - 1];
        }
        rising[at] = i;
    }
}

enum status galvatron_planner_answer(struct galvatron_planning *s, struct error *error)
{
    struct oracle *oracle;
    TRY(oracle_open(&oracle, s->request->scenario, s->request->threads, error));
    uint32_t rising[PLANNER_BUDGETS_MAX] = { 0 };
    order_budgets(s->request, rising);
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < s->request->budget_count && status == STATUS_OK; i++) {
        struct galvatron_task *task = &s->tasks[rising[i]];
        status = task->error.status;
        if (status == STATUS_OK) {
            status = fill_result(s, task, oracle, &s->answer->results[rising[i]], error);
        } else if (error != NULL) {
            *error = task->error;
        }
    }
    s->answer->simulated = oracle_simulations(oracle);
    s->answer->interrupted = s->answer->interrupted || atomic_load(&s->stop);
    oracle_close(oracle);
    return status;
}
