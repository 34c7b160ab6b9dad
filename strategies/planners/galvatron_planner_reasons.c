/* Why this plan: sentences of the Galvatron planners' answer. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "strategies/planners/galvatron_planner_internal.h"

enum { RUNS_BYTES = 96, RESERVED_BYTES = 96 };

/* "2-1-4 x12 2-2-2f x4", cut where it gets long. */
static const char *runs(const struct galvatron_plan *plan, char *text)
{
    char *whole = galvatron_plan_text(plan);
    snprintf(text, RUNS_BYTES, "%s", whole != NULL ? whole : "-");
    if (whole != NULL && strlen(whole) >= RUNS_BYTES) {
        snprintf(text + RUNS_BYTES - 5, 5, " ...");
    }
    free(whole);
    return text;
}

static enum status tell_simulated(struct galvatron_planning *s, struct planner_result *result, const char *why,
                                  struct error *error)
{
    const struct planner_choice *best = &result->best;
    if (!best->has_plan) {
        return planner_reason(s->answer, result, error, "not simulated: %s", why);
    }
    if (!best->is_simulated) {
        return planner_reason(s->answer, result, error, "not simulated: the search was stopped before");
    }
    if (best->simulated.verdict != ORACLE_RAN) {
        return planner_reason(s->answer, result, error, "the simulator refuses it: %s", best->simulated.reason);
    }
    return planner_reason(
        s->answer, result, error,
        "cost model and simulator: %.6g s and %.6g s a step (%+.3g %%), %.4g and %.4g GiB (%+.3g %%)%s",
        best->step_time_s, best->simulated.step_time_s, 100 * (best->step_time_s / best->simulated.step_time_s - 1),
        best->peak_bytes / GIB, (double)best->simulated.peak_bytes / GIB,
        100 * (best->peak_bytes / (double)best->simulated.peak_bytes - 1),
        oracle_fits(&best->simulated, result->budget_bytes) ? "" : ": by the simulator it does not fit");
}

/* Where the cost model would have chosen otherwise. */
static enum status tell_favourite(struct galvatron_planning *s, struct planner_result *result,
                                  const struct galvatron_pick *favourite, const struct galvatron_pick *best,
                                  struct error *error)
{
    char text[RUNS_BYTES];
    const struct planner_choice *choice = &favourite->choice;
    if (favourite == best || !choice->is_simulated) {
        return STATUS_OK;
    }
    if (choice->simulated.verdict == ORACLE_REFUSED) {
        return planner_reason(s->answer, result, error, "the cost model's choice, %s, cannot be simulated: %s",
                              runs(favourite->found, text), choice->simulated.reason);
    }
    if (!oracle_fits(&choice->simulated, result->budget_bytes)) {
        return planner_reason(s->answer, result, error,
                              "the cost model's choice, %s, does not fit by the simulator: %.4g GiB",
                              runs(favourite->found, text), (double)choice->simulated.peak_bytes / GIB);
    }
    return planner_reason(
        s->answer, result, error,
        "the cost model puts %s first (%.6g samples/s against %.6g); simulated it makes %.6g against %.6g",
        runs(favourite->found, text), choice->samples_per_s, best->choice.samples_per_s,
        choice->simulated.samples_per_s, best->choice.simulated.samples_per_s);
}

static enum status tell_next(struct galvatron_planning *s, struct planner_result *result,
                             const struct galvatron_shortlist *list, struct error *error)
{
    char text[RUNS_BYTES];
    const struct galvatron_pick *best = list->order[0], *next = list->kept > 1 ? list->order[1] : NULL;
    if (next == NULL) {
        return planner_reason(s->answer, result, error, "no other plan was found to fit");
    }
    if (s->preset == PRESET_MEMWALL && oracle_fits(&next->choice.simulated, result->budget_bytes)) {
        double speed = next->choice.simulated.samples_per_s;
        return planner_reason(s->answer, result, error,
                              "the next best, %s by the rules of %s, would make %.6g samples/s (batch %.0f in %" PRIu32
                              " micro-batches), %.3g %% fewer",
                              runs(next->found, text), next->found->found_by, speed, next->found->batch,
                              next->found->micro_batches, 100 * (1 - speed / best->choice.simulated.samples_per_s));
    }
    if (s->preset == PRESET_MEMWALL && next->choice.is_simulated) {
        return planner_reason(
            s->answer, result, error,
            "no other plan fits by the simulator; the next by the cost model, %s (%.6g samples/s there), "
            "takes %.4g GiB",
            runs(next->found, text), next->found->samples_per_s, (double)next->choice.simulated.peak_bytes / GIB);
    }
    return planner_reason(s->answer, result, error,
                          "the best with pipeline %" PRIu32
                          " would make %.6g samples/s (batch %.0f), %.3g %% fewer, by the cost model",
                          next->found->pipeline, next->found->samples_per_s, next->found->batch,
                          100 * (1 - next->found->samples_per_s / best->found->samples_per_s));
}

static enum status tell_memory(struct galvatron_planning *s, struct planner_result *result,
                               const struct galvatron_task *task, struct error *error)
{
    double largest_batch = task->result.largest_batch;
    uint32_t batch_max = task->request.batch_max;
    bool capped = batch_max != 0 && largest_batch + task->request.batch_step > batch_max;
    double least = INFINITY;
    uint32_t fullest = 0;
    for (uint32_t i = 0; i < result->best.stage_count; i++) {
        if (result->best.stages[i].leftover_bytes < least) {
            least = result->best.stages[i].leftover_bytes;
            fullest = i;
        }
    }
    char reserved[RESERVED_BYTES] = "";
    double held_to = task->result.held_to_mib;
    if (held_to * MIB < result->budget_bytes) {
        snprintf(reserved, sizeof reserved, " (the rest of %.6g GiB is the caching allocator's: reserve)",
                 result->budget_bytes / GIB);
    }
    return planner_reason(s->answer, result, error,
                          "memory: stage %" PRIu32 " has %.0f MiB of %.6g GiB left%s; the largest batch that fits is "
                          "%.0f%s",
                          fullest, least / MIB, held_to * MIB / GIB, reserved, largest_batch,
                          capped ? " of those tried (--variant batch_max=N tries more)" : "");
}

/* What balancing was worth: by the simulator where both were simulated. */
static enum status tell_balance(struct galvatron_planning *s, struct planner_result *result, struct error *error)
{
    const struct planner_choice *best = &result->best;
    if (result->unbalanced == NULL) {
        return STATUS_OK;
    }
    TRY(planner_reason(s->answer, result, error,
                       "balancing takes a step of memory-balanced stages from %.6g s to %.6g s by the cost model",
                       result->unbalanced_step_time_s, best->step_time_s));
    if (result->unbalanced_simulated.verdict != ORACLE_RAN || best->simulated.verdict != ORACLE_RAN) {
        return STATUS_OK;
    }
    return planner_reason(s->answer, result, error, "and from %.6g s to %.6g s (%+.3g %%) by the simulator",
                          result->unbalanced_simulated.step_time_s, best->simulated.step_time_s,
                          100 * (best->simulated.step_time_s / result->unbalanced_simulated.step_time_s - 1));
}

static enum status tell_preset(struct galvatron_planning *s, const struct galvatron_task *task,
                               struct planner_result *result, struct error *error)
{
    const struct plan *plan = &s->request->scenario->plan;
    TRY(planner_reason(s->answer, result, error,
                       "preset %s has its own rules of search; those of planner %s apply with preset memwall",
                       s->preset_name, galvatron_variant_name(s->variant)));
    if (task->model.mixed == (dtype_bytes(plan->precision) == 2)) {
        return STATUS_OK;
    }
    return planner_reason(s->answer, result, error,
                          "the profile is of %s training, the scenario (and its simulation) of %s",
                          task->model.mixed ? "mixed" : "fp32", dtype_word(plan->precision));
}

enum status galvatron_add_reasons(struct galvatron_planning *s, const struct galvatron_task *task,
                                  struct planner_result *result, const struct galvatron_shortlist *list,
                                  struct error *error)
{
    const struct galvatron_pick *best = list->order[0];
    bool ours = s->preset == PRESET_MEMWALL;
    const char *rules = best->found->found_by != NULL ? best->found->found_by : galvatron_variant_name(s->variant);
    TRY(planner_reason(s->answer, result, error, "found by the rules of %s%s, batch %.0f in %" PRIu32 " micro-batches",
                       ours ? "" : "preset ", ours ? rules : s->preset_name, best->found->batch,
                       best->found->micro_batches));
    TRY(tell_next(s, result, list, error));
    TRY(tell_favourite(s, result, &list->entries[0], best, error));
    TRY(tell_memory(s, result, task, error));
    if (best->is_carried) {
        TRY(planner_reason(s->answer, result, error,
                           "it was found for %.4g GiB: by simulation faster than all that were found for %.6g GiB",
                           best->budget_mib / 1024, result->budget_bytes / GIB));
    } else if (ours && best->budget_mib < task->request.budget_mib) {
        TRY(planner_reason(
            s->answer, result, error,
            "the cost model's plans of this kind for %.6g GiB do not fit by simulation: this is one for %.4g GiB",
            result->budget_bytes / GIB, best->budget_mib / 1024));
    }
    TRY(tell_balance(s, result, error));
    if (!ours) {
        TRY(tell_preset(s, task, result, error));
    }
    return tell_simulated(s, result, best->why, error);
}
