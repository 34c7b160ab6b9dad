/* The plans that are simulated, and searches with less memory where none of them fits by simulation. */
#include <math.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "strategies/planners/galvatron_planner_internal.h"

static const double TIGHTER_LEAST = 0.005; /* of the budget, each time */

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
}

static bool look(void *context, uint32_t done, uint32_t total)
{
    struct galvatron_planning *s = context;
    const struct planner_progress progress = { .doing = "simulating the best", .done = done, .total = total };
    if (!galvatron_planner_look(s->request, &progress)) {
        atomic_store(&s->stop, true);
    }
    return !atomic_load(&s->stop);
}

/* Room for all that may come: searches with less memory find one plan of each degree. */
static enum status open_list(struct galvatron_planning *s, const struct galvatron_result *found,
                             struct galvatron_shortlist *list, struct error *error)
{
    bool ours = s->preset == PRESET_MEMWALL;
    uint32_t count = ours ? found->candidate_count : 1 + found->runner_up_count;
    list->most = ours ? count + GALVATRON_AGAIN_MAX * GALVATRON_DEGREES + 1 : count;
    list->entries = arena_array(&s->answer->arena, struct galvatron_pick, list->most);
    list->order = arena_array(&s->answer->arena, const struct galvatron_pick *, list->most);
    return list->entries == NULL || list->order == NULL ? no_memory(error) : STATUS_OK;
}

/* Simulates the entries from `first` on. */
static enum status simulate(struct galvatron_planning *s, struct oracle *oracle, struct galvatron_shortlist *list,
                            uint32_t first, struct error *error)
{
    struct arena *arena = &s->answer->arena;
    const struct plan **plans = arena_array(arena, const struct plan *, list->count - first);
    struct oracle_result *results = arena_array(arena, struct oracle_result, list->count - first);
    uint32_t count = 0;
    if (plans == NULL || results == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = first; i < list->count; i++) {
        if (list->entries[i].choice.has_plan) {
            plans[count++] = &list->entries[i].choice.plan;
        }
    }
    TRY(oracle_ask(oracle, plans, count, results, look, s, error));
    count = 0;
    for (uint32_t i = first; i < list->count; i++) {
        struct planner_choice *choice = &list->entries[i].choice;
        if (choice->has_plan) {
            choice->simulated = results[count++];
            choice->is_simulated = choice->simulated.verdict != ORACLE_UNKNOWN;
        }
    }
    return STATUS_OK;
}

/* The candidates of a search of ours for `budget_mib`, or the best and the other degrees of a preset; simulated. */
static enum status add(struct galvatron_planning *s, const struct galvatron_result *found, double budget_mib,
                       struct oracle *oracle, struct galvatron_shortlist *list, struct error *error)
{
    bool ours = s->preset == PRESET_MEMWALL;
    uint32_t first = list->count, count = ours ? found->candidate_count : 1 + found->runner_up_count;
    uint32_t most = ours ? s->simulations_max : 1 + s->request->top;
    for (uint32_t i = 0; i < count && list->count < list->most && list->count < most; i++) {
        struct galvatron_pick *entry = &list->entries[list->count++];
        const struct galvatron_plan *plan = ours     ? &found->candidates[i].plan
                                            : i == 0 ? &found->best
                                                     : &found->runners_up[i - 1];
        entry->candidate = ours ? &found->candidates[i] : NULL;
        entry->budget_mib = budget_mib;
        TRY(galvatron_pick_fill(s, plan, entry, error));
    }
    return simulate(s, oracle, list, first, error);
}

/* By simulation; what does not fit there, or could not be simulated, after all that does. */
static bool is_better(const struct galvatron_pick *a, const struct galvatron_pick *b, double budget_bytes)
{
    bool a_fits = oracle_fits(&a->choice.simulated, budget_bytes),
         b_fits = oracle_fits(&b->choice.simulated, budget_bytes);
    if (a_fits != b_fits) {
        return a_fits;
    }
    return a_fits && a->choice.simulated.samples_per_s > b->choice.simulated.samples_per_s;
}

/* Stable, so that of equals the cost model's favourite is first; entries that are one plan under several names stand once. */
static void order_by_simulation(struct galvatron_shortlist *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        list->order[i] = &list->entries[i];
    }
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
    list->kept = kept;
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

static bool is_of(const struct galvatron_pick *entry, const char *rules)
{
    return strcmp(entry->found->found_by, rules) == 0;
}

/* A search with less memory, its plans simulated; *found false: nothing fits so little by the cost model. */
static enum status search_again(struct galvatron_planning *s, struct galvatron_task *task,
                                const struct galvatron_request *request, struct oracle *oracle,
                                struct galvatron_shortlist *list, bool *found, struct error *error)
{
    CHECK(task->again_count < GALVATRON_AGAIN_MAX);
    struct galvatron_result *tighter = &task->again[task->again_count];
    TRY(galvatron_search(request, tighter, error));
    task->again_count++;
    *found = tighter->found;
    if (!tighter->found) {
        return STATUS_OK;
    }
    give_back(tighter, list->budget_bytes / MIB - request->budget_mib);
    return add(s, tighter, request->budget_mib, oracle, list, error);
}

/* The plan that takes least by the cost model. */
static enum status add_leanest(struct galvatron_planning *s, struct galvatron_task *task,
                               struct galvatron_request *request, struct oracle *oracle,
                               struct galvatron_shortlist *list, struct error *error)
{
    struct galvatron_result none;
    bool found;
    request->budget_mib = 1;
    TRY(galvatron_search(request, &none, error));
    request->budget_mib = none.smallest_budget_mib;
    galvatron_result_free(&none);
    return request->budget_mib > 0 && request->budget_mib < task->request.budget_mib
               ? search_again(s, task, request, oracle, list, &found, error)
               : STATUS_OK;
}

/* The cost model's memory may be too small (short-lived tensors of sharded layers, changes of layout). Where none of a variant's plans fits by simulation, the variant is searched again with as much less as its
 * favourite was over, a few times, and at last with the least that gives a plan at all: each variant by itself, so that galvatron-bmw has for each what its own planner would have. */
static enum status tighten(struct galvatron_planning *s, struct galvatron_task *task, const char *rules,
                           struct oracle *oracle, struct galvatron_shortlist *list, struct error *error)
{
    struct galvatron_request request = task->request;
    galvatron_request_only(&request, rules);
    uint32_t first = 0;
    for (int round = 0; round <= GALVATRON_TIGHTER_MAX && !atomic_load(&s->stop); round++) {
        const struct galvatron_pick *favourite = NULL;
        for (uint32_t i = first; i < list->count; i++) {
            const struct galvatron_pick *entry = &list->entries[i];
            if (is_of(entry, rules) && oracle_fits(&entry->choice.simulated, list->budget_bytes)) {
                return STATUS_OK;
            }
            favourite = favourite == NULL && is_of(entry, rules) ? entry : favourite;
        }
        bool found =
            round < GALVATRON_TIGHTER_MAX && favourite != NULL && favourite->choice.simulated.verdict == ORACLE_RAN;
        first = list->count;
        if (found) {
            request.budget_mib *=
                fmin(1 - TIGHTER_LEAST, list->budget_bytes / (double)favourite->choice.simulated.peak_bytes);
            TRY(search_again(s, task, &request, oracle, list, &found, error));
        }
        if (!found) {
            return add_leanest(s, task, &request, oracle, list, error);
        }
    }
    return STATUS_OK;
}

/* What fits a smaller budget fits this one: more memory never makes the answer slower, though the cost model's favourites for it may be. */
static enum status carry(struct galvatron_planning *s, struct galvatron_shortlist *list, struct error *error)
{
    if (s->carried == NULL) {
        return STATUS_OK;
    }
    CHECK(list->count < list->most);
    struct galvatron_pick *entry = &list->entries[list->count++];
    *entry = *s->carried;
    entry->is_carried = true;
    uint32_t count = entry->choice.stage_count;
    struct planner_stage *stages = arena_array(&s->answer->arena, struct planner_stage, count);
    if (stages == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < count; i++) {
        stages[i] = entry->choice.stages[i];
        stages[i].leftover_bytes += list->budget_bytes - s->carried_bytes;
    }
    entry->choice.stages = stages;
    return STATUS_OK;
}

enum status galvatron_shortlist_make(struct galvatron_planning *s, struct galvatron_task *task, struct oracle *oracle,
                                     struct galvatron_shortlist *list, struct error *error)
{
    TRY(open_list(s, &task->result, list, error));
    TRY(add(s, &task->result, task->request.budget_mib, oracle, list, error));
    if (s->preset != PRESET_MEMWALL) {
        list->kept = list->count;
        for (uint32_t i = 0; i < list->count; i++) {
            list->order[i] = &list->entries[i];
        }
        return STATUS_OK;
    }
    uint32_t searched = list->count;
    for (uint32_t i = 0; i < searched; i++) {
        bool seen = false;
        for (uint32_t k = 0; k < i && !seen; k++) {
            seen = is_of(&list->entries[k], list->entries[i].found->found_by);
        }
        if (!seen) {
            TRY(tighten(s, task, list->entries[i].found->found_by, oracle, list, error));
        }
    }
    TRY(carry(s, list, error));
    order_by_simulation(list);
    return STATUS_OK;
}
