/* What the planners over chains answer: stages, their bytes, sentences. */
#include <stdio.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/plan/plan_order.h"
#include "strategies/planners/pipeline_profile_plans_internal.h"

static double rank_of(const struct pipeline_work *work, const struct pipeline_candidate *candidate)
{
    return work->rule->by_simulation ? candidate->result.step_time_s : candidate->model_step_s;
}

enum status pipeline_in_flight(const struct plan *plan, uint32_t stage, uint32_t *most, struct error *error)
{
    const struct pipeline_order *order = plan_order(plan, error);
    if (order == NULL) {
        return STATUS_NOT_FOUND;
    }
    const struct order_request request = plan_order_stream(order, plan);
    return order_in_flight(order, &request, stage, most, error);
}

enum status pipeline_stage_parameters(const struct pipeline_case *c, const struct pipeline_stage *stage,
                                      double *parameters, struct error *error)
{
    const struct plan *plan = &c->scenario->plan;
    const struct piece_layers *layers;
    TRY(pieces_layers(c->pieces, plan->tensor, plan->sequence_parallel, plan->micro_batch, &layers, error));
    *parameters = pipeline_profile_sum(c->profile, stage->first, stage->count).parameter_bytes /
                  c->scenario->software.reduce_bytes;
    if (c->pipeline > 1 && stage->first + stage->count == c->profile->count) {
        *parameters += layers->head.tied_parameters;
    }
    return STATUS_OK;
}

/* Of one micro-batch, with the plan's recomputation, which the profile has unless `adjust` chose it. */
static enum status saved_bytes(const struct pipeline_work *work, const struct pipeline_candidate *candidate,
                               const struct pipeline_stage *stage, double *bytes, struct error *error)
{
    const struct plan *plan = &candidate->plan;
    const struct pipeline_order *order = plan_order(plan, error);
    const struct piece_layers *layers;
    bool keeps = work->rule->adjust == NULL ||
                 (order->last_stage_keeps && stage == &candidate->split.stages[candidate->split.stage_count - 1]);
    TRY(pieces_layers(work->pieces, plan->tensor, plan->sequence_parallel, work->request->scenario->plan.micro_batch,
                      &layers, error));
    *bytes = pipeline_profile_sum(&work->profile, stage->first, stage->count).saved_bytes;
    for (uint32_t i = 0; i < stage->count && !keeps; i++) {
        uint32_t variant = model_layer_variant(&work->request->scenario->model, stage->first + i);
        const double *saved = layers->blocks[variant].saved_bytes;
        *bytes -= saved[RECOMPUTE_NONE] - saved[plan->recompute[stage->first + i]];
    }
    return STATUS_OK;
}

/* What one device of the stage has of a micro-batch of the profile. */
static double sample_part(const struct pipeline_work *work, const struct pipeline_candidate *candidate,
                          const struct pipeline_stage *stage)
{
    bool cut = candidate->own && candidate->sharing == SHARING_CUT;
    return cut ? (double)candidate->micro_batch / (double)stage->replicas /
                     (double)work->request->scenario->plan.micro_batch
               : 1;
}

/* Context and communicators, weights in all versions, gradients, optimizer states, and activations in flight as the order has them. */
static enum status stage_bytes(const struct pipeline_work *work, const struct pipeline_candidate *candidate,
                               uint32_t index, double *bytes, struct error *error)
{
    const struct pipeline_stage *stage = &candidate->split.stages[index];
    const struct software *software = &work->request->scenario->software;
    const struct pipeline_order *order = plan_order(&candidate->plan, error);
    const struct order_request request = plan_order_stream(order, &candidate->plan);
    uint32_t in_flight, versions = order_weight_versions(order, &request, index);
    double saved, parameters;
    TRY(pipeline_in_flight(&candidate->plan, index, &in_flight, error));
    TRY(saved_bytes(work, candidate, stage, &saved, error));
    TRY(pipeline_stage_parameters(&candidate->at, stage, &parameters, error));
    *bytes = planner_device_bytes(work->request->scenario, candidate->plan.tensor > 1, candidate->plan.data > 1,
                                  candidate->plan.pipeline > 1) +
             in_flight * saved * sample_part(work, candidate, stage) +
             parameters * (software_state_bytes(software) + (versions - 1) * software->weight_bytes);
    return STATUS_OK;
}

static enum status fill_choice(const struct pipeline_work *work, const struct pipeline_candidate *candidate,
                               struct planner_choice *choice, struct error *error)
{
    const struct model *model = &work->request->scenario->model;
    struct arena *arena = &work->answer->arena;
    double step_s = rank_of(work, candidate);
    *choice = (struct planner_choice){ .has_plan = true,
                                       .global_batch = candidate->plan.global_batch,
                                       .pipeline = candidate->at.pipeline,
                                       .step_time_s = step_s,
                                       .samples_per_s = (double)candidate->plan.global_batch / step_s,
                                       .peak_bytes = (double)candidate->result.peak_bytes,
                                       .is_simulated = true,
                                       .simulated = candidate->result };
    TRY(planner_copy_plan(&choice->plan, &candidate->plan, model, arena, error));
    choice->stages = arena_array(arena, struct planner_stage, candidate->split.stage_count);
    if (choice->stages == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    choice->stage_count = candidate->split.stage_count;
    for (uint32_t i = 0; i < choice->stage_count; i++) {
        const struct pipeline_stage *stage = &candidate->split.stages[i];
        double turns = candidate->own && candidate->sharing == SHARING_DEAL
                           ? stage->replicas
                           : 1; /* a device runs one of so many micro-batches */
        double memory;
        TRY(stage_bytes(work, candidate, i, &memory, error));
        choice->stages[i] = (struct planner_stage){
            .layers = stage->count,
            .time_s = pipeline_profile_sum(&work->profile, stage->first, stage->count).compute_s *
                      sample_part(work, candidate, stage) / turns,
            .memory_bytes = memory,
            .leftover_bytes = candidate->at.budget_bytes - memory,
        };
    }
    planner_balance(choice);
    return planner_label_layers(choice, model, arena, error);
}

/* Indices of the candidates that fit, best first. */
static uint32_t rank_fitting(const struct pipeline_work *work, double budget_bytes, uint32_t *ranked)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < work->count; i++) {
        if (!oracle_fits(&work->candidates[i].result, budget_bytes)) {
            continue;
        }
        uint32_t at = count++;
        for (; at > 0 && rank_of(work, &work->candidates[ranked[at - 1]]) > rank_of(work, &work->candidates[i]); at--) {
            ranked[at] = ranked[at - 1];
        }
        ranked[at] = i;
    }
    return count;
}

/* "2 replicas", or "15,1 replicas (micro-batches dealt in turns)". */
enum { REPLICAS_TEXT_BYTES = 256 };
static const char *replicas_text(const struct pipeline_candidate *candidate, char text[REPLICAS_TEXT_BYTES])
{
    size_t length = 0;
    if (!candidate->own) {
        snprintf(text, REPLICAS_TEXT_BYTES, "%lld replicas", (long long)candidate->at.replicas);
        return text;
    }
    for (uint32_t i = 0; i < candidate->split.stage_count; i++) {
        if (length + 64 > REPLICAS_TEXT_BYTES) {
            length += (size_t)snprintf(text + length, REPLICAS_TEXT_BYTES - length, ",..");
            break;
        }
        length += (size_t)snprintf(text + length, REPLICAS_TEXT_BYTES - length, "%s%u", i > 0 ? "," : "",
                                   candidate->split.stages[i].replicas);
    }
    snprintf(text + length, REPLICAS_TEXT_BYTES - length, " replicas (micro-batches %s)",
             candidate->sharing == SHARING_DEAL ? "dealt in turns" : "cut over them");
    return text;
}

static enum status explain(const struct pipeline_work *work, struct planner_result *result, const uint32_t *ranked,
                           uint32_t count, struct error *error)
{
    const struct pipeline_candidate *best = &work->candidates[ranked[0]];
    char replicas[REPLICAS_TEXT_BYTES];
    TRY(planner_reason(
        work->answer, result, error, "%lld stages of %s: %.6g s a step by the planner's own rule, %.6g s simulated",
        (long long)best->at.pipeline, replicas_text(best, replicas), best->model_step_s, best->result.step_time_s));
    if (best->note != NULL) {
        TRY(planner_reason(work->answer, result, error, "%s", best->note));
    }
    for (uint32_t i = 1; i < count; i++) {
        const struct pipeline_candidate *other = &work->candidates[ranked[i]];
        if (other->result.step_time_s < best->result.step_time_s) {
            TRY(planner_reason(work->answer, result, error,
                               "the simulator prefers %lld stages of %s: %.6g s instead of %.6g s",
                               (long long)other->at.pipeline, replicas_text(other, replicas), other->result.step_time_s,
                               best->result.step_time_s));
            break;
        }
    }
    if (work->rule->remark != NULL) {
        const char *remark = NULL;
        TRY(work->rule->remark(&best->at, work->workers, &remark, &work->answer->arena, error));
        if (remark != NULL) {
            TRY(planner_reason(work->answer, result, error, "%s", remark));
        }
    }
    return STATUS_OK;
}

static enum status fill_none(const struct pipeline_work *work, struct planner_result *result, struct error *error)
{
    const char *reason = work->refused;
    if (work->answer->interrupted) {
        return planner_reason_stopped(work->answer, result, error);
    }
    for (uint32_t i = 0; i < work->count; i++) {
        const struct oracle_result *simulated = &work->candidates[i].result;
        double bytes = (double)simulated->peak_bytes;
        if (simulated->verdict == ORACLE_RAN && simulated->host_fits &&
            (!(result->smallest_budget_bytes > 0) || bytes < result->smallest_budget_bytes)) {
            result->smallest_budget_bytes = bytes;
        }
        reason = simulated->verdict == ORACLE_REFUSED ? simulated->reason : reason;
    }
    if (result->smallest_budget_bytes > 0) {
        return planner_reason(work->answer, result, error,
                              "none of %u depths fits %.6g GiB; the smallest budget that would do is %.6g GiB",
                              work->count, result->budget_bytes / GIB,
                              planner_enough_gib(result->smallest_budget_bytes));
    }
    return planner_reason(work->answer, result, error, "no plan could be simulated: %s", reason);
}

enum status pipeline_plans_answer(const struct pipeline_work *work, struct planner_result *result, struct error *error)
{
    uint32_t ranked[PIPELINE_CASES_MAX];
    uint32_t count = rank_fitting(work, result->budget_bytes, ranked);
    if (count == 0) {
        return fill_none(work, result, error);
    }
    result->found = true;
    TRY(fill_choice(work, &work->candidates[ranked[0]], &result->best, error));
    uint32_t others = count - 1 < work->request->top ? count - 1 : work->request->top;
    result->runners_up = arena_array(&work->answer->arena, struct planner_choice, others);
    if (result->runners_up == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    for (uint32_t i = 0; i < others; i++) {
        TRY(fill_choice(work, &work->candidates[ranked[i + 1]], &result->runners_up[result->runner_up_count++], error));
    }
    return explain(work, result, ranked, count, error);
}
