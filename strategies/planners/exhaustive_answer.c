/* What the search found: choices, reasons, the front. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "strategies/planners/exhaustive_internal.h"

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
}

/* By the closed forms. */
static enum status fill_stages(struct search *s, const struct space_candidate *candidate, const struct plan *plan,
                               double budget, struct planner_choice *choice, struct error *error)
{
    struct arena *arena = &s->answer->arena;
    struct screen *screen;
    struct screen_cost cost;
    choice->stage_count = (uint32_t)plan->pipeline;
    choice->stages = arena_array(arena, struct planner_stage, choice->stage_count);
    struct screen_stage *stages = arena_array(arena, struct screen_stage, choice->stage_count);
    if (choice->stages == NULL || stages == NULL) {
        return no_memory(error);
    }
    TRY(screen_open(&screen, s->request->scenario, error));
    enum status status = screen_cost(screen, &candidate->point, &cost, stages, error);
    screen_close(screen);
    for (uint32_t i = 0; i < choice->stage_count && status == STATUS_OK; i++) {
        int64_t layers = 0;
        for (int64_t chunk = 0; chunk < plan->virtual_stages; chunk++) {
            layers += plan->stage_layers[chunk * plan->pipeline + i];
        }
        choice->stages[i] =
            (struct planner_stage){ layers, stages[i].time_s, stages[i].peak_bytes, budget - stages[i].peak_bytes };
    }
    return status;
}

static enum status fill_choice(struct search *s, const struct trial *trial, double budget,
                               struct planner_choice *choice, struct error *error)
{
    const struct scenario *scenario = s->request->scenario;
    const struct space_candidate *candidate = &s->space.items[trial->candidate];
    struct arena *arena = &s->answer->arena;
    *choice = (struct planner_choice){ .has_plan = true,
                                       .plan = *trial->plan,
                                       .global_batch = trial->plan->global_batch,
                                       .pipeline = trial->plan->pipeline,
                                       .step_time_s = candidate->cost.step_time_s,
                                       .samples_per_s = (double)trial->plan->global_batch / candidate->cost.step_time_s,
                                       .peak_bytes = candidate->cost.peak_bytes,
                                       .is_simulated = true,
                                       .simulated = trial->result };
    choice->plan.detail = scenario->plan.detail;
    TRY(fill_stages(s, candidate, trial->plan, budget, choice, error));
    planner_balance(choice);
    return planner_label_layers(choice, &scenario->model, arena, error);
}

/* The plan once more as it will run: at the scenario's detail. */
static enum status simulate_fine(struct search *s, struct planner_choice *choice, struct error *error)
{
    const struct plan *plan = &choice->plan;
    struct oracle_result result;
    TRY(oracle_ask(s->oracle, &plan, 1, &result, NULL, NULL, error));
    if (result.verdict == ORACLE_RAN) {
        choice->simulated = result;
    }
    return STATUS_OK;
}

/* "tensor 8, pipeline 35, data 9, micro-batch 1, interleaved x 3, ZeRO-1, recompute full" */
static const char *describe(const struct screen_point *p, char *text, size_t size)
{
    char chunks[48] = "", zero[32] = "";
    if (p->virtual_stages > 1) {
        snprintf(chunks, sizeof chunks, ", %" PRId64 " chunks interleaved", p->virtual_stages);
    }
    if (p->zero_stage > 0) {
        snprintf(zero, sizeof zero, ", ZeRO-%" PRId64, p->zero_stage);
    }
    snprintf(text, size,
             "tensor %" PRId64 "%s, pipeline %" PRId64 "%s, data %" PRId64 "%s, micro-batch %" PRId64 ", recompute %s",
             p->tensor, p->sequence_parallel && p->tensor > 1 ? " (sequence parallel)" : "", p->pipeline, chunks,
             p->data, zero, p->micro_batch, recompute_word((enum recompute_mode)p->recompute));
    return text;
}

static const char *of_candidate(const struct search *s, uint32_t candidate, char *text, size_t size)
{
    return describe(&s->space.items[candidate].point, text, size);
}

/* Splits that are allowed but that the simulator refuses are no reason to be silent. */
static enum status tell_refused(struct search *s, struct planner_result *result, struct error *error)
{
    const struct trial *first = NULL;
    uint32_t count = 0;
    char text[256];
    for (size_t i = 0; i < s->trials.count; i++) {
        if (s->trials.items[i].result.verdict == ORACLE_REFUSED) {
            first = first == NULL ? &s->trials.items[i] : first;
            count++;
        }
    }
    if (first == NULL) {
        return STATUS_OK;
    }
    return planner_reason(s->answer, result, error, "%" PRIu32 " could not be simulated (%s: %s)", count,
                          of_candidate(s, first->candidate, text, sizeof text), first->result.reason);
}

static enum status add_reasons(struct search *s, struct planner_result *result, const struct trial *best,
                               const struct trial *next, struct error *error)
{
    struct planner_answer *answer = s->answer;
    char text[256], other[256];
    double budget = result->budget_bytes, step = best->result.step_time_s, least = INFINITY;
    TRY(planner_reason(answer, result, error, "best: %s", of_candidate(s, best->candidate, text, sizeof text)));
    if (next != NULL) {
        char more[64] = "as much time";
        double percent = 100 * (next->result.step_time_s / step - 1);
        if (percent >= 0.005) {
            snprintf(more, sizeof more, "%.*f %% more time", percent < 9.995 ? 2 : 1, percent);
        }
        TRY(planner_reason(answer, result, error, "the next best, %s, would cost %s (%.6g s a step)",
                           of_candidate(s, next->candidate, other, sizeof other), more, next->result.step_time_s));
    }
    const struct trial *faster = NULL;
    for (size_t i = 0; i < s->trials.count && faster == NULL; i++) {
        const struct trial *trial = &s->trials.items[i];
        faster = trial->result.verdict == ORACLE_RAN && trial->result.step_time_s < step ? trial : NULL;
    }
    for (size_t i = 0; i < s->space.count; i++) {
        const struct screen_cost *cost = &s->space.items[s->by_time[i]].cost;
        if (cost->step_time_s < s->space.items[best->candidate].cost.step_time_s && cost->least_bytes > budget &&
            cost->peak_bytes < least) {
            least = cost->peak_bytes;
        }
    }
    TRY(planner_reason(answer, result, error, "memory: %.4g of %.4g GiB on the fullest device",
                       (double)best->result.peak_bytes / GIB, budget / GIB));
    if (faster != NULL) {
        TRY(planner_reason(answer, result, error,
                           "bound by the memory budget: %s would take %.6g s a step, but needs %.4g GiB",
                           of_candidate(s, faster->candidate, other, sizeof other), faster->result.step_time_s,
                           (double)faster->result.peak_bytes / GIB));
    } else if (isfinite(least)) {
        TRY(planner_reason(answer, result, error,
                           "bound by the memory budget: by the closed form a faster split needs %.4g GiB",
                           least / GIB));
    } else {
        TRY(planner_reason(answer, result, error, "not bound by the memory budget: nothing larger is faster"));
    }
    double closed = s->space.items[best->candidate].cost.step_time_s;
    TRY(tell_refused(s, result, error));
    return planner_reason(answer, result, error,
                          "closed form and simulator: %.6g s and %.6g s a step (%+.2g %%), %.4g and %.4g GiB", closed,
                          step, 100 * (closed / step - 1), s->space.items[best->candidate].cost.peak_bytes / GIB,
                          (double)best->result.peak_bytes / GIB);
}

static enum status fill_front(struct search *s, struct planner_result *result, struct error *error)
{
    uint64_t least = UINT64_MAX;
    result->front = arena_array(&s->answer->arena, struct planner_choice, s->trials.count);
    if (result->front == NULL) {
        return no_memory(error);
    }
    for (size_t i = 0; i < s->trials.count; i++) {
        const struct trial *trial = &s->trials.items[i];
        if (oracle_fits(&trial->result, result->budget_bytes) && trial->result.peak_bytes < least) {
            least = trial->result.peak_bytes;
            TRY(fill_choice(s, trial, result->budget_bytes, &result->front[result->front_count++], error));
        }
    }
    return STATUS_OK;
}

static enum status fill_runners_up(struct search *s, struct planner_result *result, size_t first, struct error *error)
{
    result->runners_up = arena_array(&s->answer->arena, struct planner_choice, s->request->top);
    if (result->runners_up == NULL) {
        return no_memory(error);
    }
    for (size_t i = first; i < s->trials.count && result->runner_up_count < s->request->top; i++) {
        if (oracle_fits(&s->trials.items[i].result, result->budget_bytes)) {
            TRY(fill_choice(s, &s->trials.items[i], result->budget_bytes,
                            &result->runners_up[result->runner_up_count++], error));
        }
    }
    return STATUS_OK;
}

static enum status nothing_fits(struct search *s, struct planner_result *result, struct error *error)
{
    const struct trial *least = NULL;
    char text[256];
    if (s->answer->interrupted) {
        return planner_reason_stopped(s->answer, result, error);
    }
    for (size_t i = 0; i < s->trials.count; i++) {
        const struct trial *trial = &s->trials.items[i];
        if (trial->result.verdict == ORACLE_RAN &&
            (least == NULL || trial->result.peak_bytes < least->result.peak_bytes)) {
            least = trial;
        }
    }
    if (least == NULL) {
        return STATUS_OK;
    }
    result->smallest_budget_bytes = (double)least->result.peak_bytes;
    return planner_reason(s->answer, result, error,
                          "no split fits %.6g GiB; the smallest budget that would do is %.6g GiB (%s, %.4g s a step)",
                          result->budget_bytes / GIB, planner_enough_gib(result->smallest_budget_bytes),
                          of_candidate(s, least->candidate, text, sizeof text), least->result.step_time_s);
}

enum status exhaustive_fill_result(struct search *s, struct planner_result *result, struct error *error)
{
    size_t best = 0, next = 0;
    for (size_t i = 0; i < s->trials.count && !result->found; i++) {
        if (oracle_fits(&s->trials.items[i].result, result->budget_bytes)) {
            TRY(fill_choice(s, &s->trials.items[i], result->budget_bytes, &result->best, error));
            TRY(simulate_fine(s, &result->best, error));
            result->found = oracle_fits(&result->best.simulated, result->budget_bytes);
            best = i;
        }
    }
    if (!result->found) {
        return nothing_fits(s, result, error);
    }
    for (next = best + 1; next < s->trials.count; next++) {
        if (oracle_fits(&s->trials.items[next].result, result->budget_bytes)) {
            break;
        }
    }
    TRY(fill_runners_up(s, result, best + 1, error));
    TRY(fill_front(s, result, error));
    return add_reasons(s, result, &s->trials.items[best], next < s->trials.count ? &s->trials.items[next] : NULL,
                       error);
}
