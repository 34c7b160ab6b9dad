/* What the Galvatron search found, as a planner's answer: candidates simulated, the best of them, reasons. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "strategies/planners/galvatron_planner_internal.h"

enum { TIGHTER_MAX = 4 };
static const double TIGHTER_LEAST = 0.005; /* of the budget, each time */

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
}

bool galvatron_planner_look(const struct planner_request *request, const char *doing, uint32_t done, uint32_t total,
                            double best_samples_per_s)
{
    const struct planner_progress progress = { doing, done, total, best_samples_per_s };
    return request->progress == NULL || request->progress(request->progress_context, &progress);
}

static bool look(void *context, uint32_t done, uint32_t total)
{
    struct galvatron_planning *s = context;
    if (!galvatron_planner_look(s->request, "simulating the best", done, total, 0)) {
        atomic_store(&s->stop, true);
    }
    return !atomic_load(&s->stop);
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
    int64_t plain_zero = s->preset != PRESET_MEMWALL && s->tasks[0].preset.zero2 ? 2 : 0;
    why[0] = '\0';
    return galvatron_to_plan(s->request->scenario, found, plain_zero, plan, possible, why, GALVATRON_WHY_BYTES,
                             &s->answer->arena, error);
}

static enum status fill_entry(struct galvatron_planning *s, const struct galvatron_plan *found,
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

/* ---- the shortlist ---- */

/* The candidates of a search of our own, or the best and the other degrees of a preset. */
static enum status open_list(struct galvatron_planning *s, const struct galvatron_result *found,
                             struct galvatron_shortlist *list, struct error *error)
{
    bool ours = s->preset == PRESET_MEMWALL;
    uint32_t count = ours ? found->candidate_count : 1 + found->runner_up_count;
    uint32_t most = ours ? s->simulations_max : 1 + s->request->top;
    list->count = count < most ? count : most;
    list->entries = arena_array(&s->answer->arena, struct galvatron_pick, list->count);
    list->order = arena_array(&s->answer->arena, const struct galvatron_pick *, list->count);
    if (list->entries == NULL || list->order == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < list->count; i++) {
        list->entries[i].candidate = ours ? &found->candidates[i] : NULL;
        const struct galvatron_plan *plan = ours     ? &found->candidates[i].plan
                                            : i == 0 ? &found->best
                                                     : &found->runners_up[i - 1];
        TRY(fill_entry(s, plan, &list->entries[i], error));
        list->order[i] = &list->entries[i];
    }
    return STATUS_OK;
}

static enum status simulate(struct galvatron_planning *s, struct oracle *oracle, struct galvatron_shortlist *list,
                            struct error *error)
{
    struct arena *arena = &s->answer->arena;
    const struct plan **plans = arena_array(arena, const struct plan *, list->count);
    struct oracle_result *results = arena_array(arena, struct oracle_result, list->count);
    uint32_t count = 0;
    if (plans == NULL || results == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->entries[i].choice.has_plan) {
            plans[count++] = &list->entries[i].choice.plan;
        }
    }
    TRY(oracle_ask(oracle, plans, count, results, look, s, error));
    count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        struct planner_choice *choice = &list->entries[i].choice;
        if (choice->has_plan) {
            choice->simulated = results[count++];
            choice->is_simulated = choice->simulated.verdict != ORACLE_UNKNOWN;
        }
    }
    return STATUS_OK;
}

bool galvatron_choice_fits(const struct planner_choice *choice, double budget_bytes)
{
    const struct oracle_result *result = &choice->simulated;
    return choice->is_simulated && result->verdict == ORACLE_RAN && result->host_fits &&
           (double)result->peak_bytes <= budget_bytes;
}

/* By simulation; what does not fit there, or could not be simulated, after all that does. */
static bool is_better(const struct galvatron_pick *a, const struct galvatron_pick *b, double budget_bytes)
{
    bool a_fits = galvatron_choice_fits(&a->choice, budget_bytes),
         b_fits = galvatron_choice_fits(&b->choice, budget_bytes);
    if (a_fits != b_fits) {
        return a_fits;
    }
    return a_fits && a->choice.simulated.samples_per_s > b->choice.simulated.samples_per_s;
}

/* Stable, so that of equals the cost model's favourite is first; entries that are one plan under several names stand once. */
static void order_by_simulation(struct galvatron_shortlist *list)
{
    for (uint32_t i = 1; i < list->count; i++) {
        const struct galvatron_pick *entry = list->order[i];
        uint32_t at = i;
        for (; at > 0 && is_better(entry, list->order[at - 1], list->budget_bytes); at--) {
            list->order[at] = list->order[at - 1];
        }
        list->order[at] = entry;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct planner_choice *choice = &list->order[i]->choice;
        bool again = false;
        for (uint32_t k = 0; k < kept && choice->is_simulated && choice->simulated.verdict == ORACLE_RAN; k++) {
            const struct hash *a = &list->order[k]->choice.simulated.schedule_hash;
            const struct hash *b = &choice->simulated.schedule_hash;
            again = again || (list->order[k]->choice.is_simulated && a->a == b->a && a->b == b->b);
        }
        if (!again) {
            list->order[kept++] = list->order[i];
        }
    }
    list->count = kept;
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

/* The shortlist of what was found, simulated and in order. */
static enum status judge(struct galvatron_planning *s, const struct galvatron_result *found, struct oracle *oracle,
                         struct galvatron_shortlist *list, struct error *error)
{
    TRY(open_list(s, found, list, error));
    TRY(simulate(s, oracle, list, error));
    if (s->preset == PRESET_MEMWALL) {
        order_by_simulation(list);
    }
    return STATUS_OK;
}

/* Stages have left what the search was not given, too. */
static void give_back(struct galvatron_result *found, double mib)
{
    for (uint32_t i = 0; i < found->candidate_count; i++) {
        struct galvatron_candidate *candidate = &found->candidates[i];
        for (uint32_t k = 0; k < candidate->plan.pipeline; k++) {
            candidate->plan.stages[k].leftover_mib += mib;
            if (candidate->has_unbalanced) {
                candidate->unbalanced.stages[k].leftover_mib += mib;
            }
        }
    }
}

/* The cost model's memory may be too small (short-lived tensors of sharded layers, changes of layout): where nothing fits by simulation the search gets as much less as the best was over, a few times. */
static enum status search_again(struct galvatron_planning *s, struct galvatron_task *task, struct oracle *oracle,
                                struct galvatron_shortlist *list, struct error *error)
{
    for (int round = 0; round < TIGHTER_MAX && s->preset == PRESET_MEMWALL && !atomic_load(&s->stop); round++) {
        const struct planner_choice *best = &list->order[0]->choice;
        if (!best->is_simulated || best->simulated.verdict != ORACLE_RAN ||
            galvatron_choice_fits(best, list->budget_bytes)) {
            return STATUS_OK;
        }
        struct galvatron_result tighter;
        struct galvatron_shortlist other = { .budget_bytes = list->budget_bytes, .searches = list->searches + 1 };
        task->request.budget_mib *= fmin(1 - TIGHTER_LEAST, list->budget_bytes / (double)best->simulated.peak_bytes);
        TRY(galvatron_search(&task->request, &tighter, error));
        if (!tighter.found) {
            galvatron_result_free(&tighter);
            return STATUS_OK;
        }
        galvatron_result_free(&task->result);
        task->result = tighter;
        give_back(&task->result, list->budget_bytes / MIB - task->request.budget_mib);
        TRY(judge(s, &task->result, oracle, &other, error));
        *list = other;
    }
    return STATUS_OK;
}

static enum status fill_result(struct galvatron_planning *s, struct galvatron_task *task, struct oracle *oracle,
                               struct planner_result *result, struct error *error)
{
    const struct galvatron_result *found = &task->result;
    struct galvatron_shortlist list = { .budget_bytes = result->budget_bytes, .searches = 1 };
    s->answer->interrupted = s->answer->interrupted || found->interrupted;
    s->answer->configurations += found->searches + found->skipped;
    s->answer->screened += found->searches;
    s->answer->pruned += found->skipped;
    result->found = found->found;
    if (!found->found) {
        result->smallest_budget_bytes = found->smallest_budget_mib * MIB;
        return planner_reason(s->answer, result, error,
                              result->smallest_budget_bytes > 0
                                  ? "no plan fits %.6g GiB; the smallest budget that would do is %.6g GiB"
                                  : "no plan fits %.6g GiB, whatever the batch",
                              result->budget_bytes / GIB, result->smallest_budget_bytes / GIB);
    }
    TRY(judge(s, found, oracle, &list, error));
    TRY(search_again(s, task, oracle, &list, error));
    result->best = list.order[0]->choice;
    result->runners_up = arena_array(&s->answer->arena, struct planner_choice, list.count);
    if (result->runners_up == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 1; i < list.count && i <= s->request->top; i++) {
        result->runners_up[result->runner_up_count++] = list.order[i]->choice;
    }
    TRY(fill_unbalanced(s, list.order[0], oracle, result, error));
    return galvatron_add_reasons(s, task, result, &list, error);
}

enum status galvatron_planner_answer(struct galvatron_planning *s, struct error *error)
{
    struct oracle *oracle;
    TRY(oracle_open(&oracle, s->request->scenario, s->request->threads, error));
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < s->request->budget_count && status == STATUS_OK; i++) {
        if (s->tasks[i].error.status != STATUS_OK) {
            status = s->tasks[i].error.status;
            if (error != NULL) {
                *error = s->tasks[i].error;
            }
        } else {
            status = fill_result(s, &s->tasks[i], oracle, &s->answer->results[i], error);
        }
    }
    s->answer->simulated = oracle_simulations(oracle);
    s->answer->interrupted = s->answer->interrupted || atomic_load(&s->stop);
    oracle_close(oracle);
    return status;
}
