/* Depths, plans, simulations, answers of the planners over chains. */
#include "strategies/planners/pipeline_profile_plans.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/plan/plan_order.h"
#include "strategies/registry.h"

enum { CASES_MAX = 64, ADJUST_ROUNDS = 8 };
/* Of what is never sent: the most that the searches take. */
static const double UNUSED_BYTES_PER_S = 1e15;

struct candidate {
    struct pipeline_case at;
    struct pipeline_split split;
    bool own; /* stages have replicas of their own: sharing, micro_batch; at.replicas is 1 */
    enum replica_sharing sharing;
    int64_t micro_batch;
    double model_step_s;
    struct plan plan;
    const char *note;
    struct oracle_result result;
};

struct work {
    const struct planner_request *request;
    const struct pipeline_rule *rule;
    struct planner_answer *answer;
    struct pieces *pieces;
    struct oracle *oracle;
    struct pipeline_profile profile;
    int64_t workers;
    struct candidate candidates[CASES_MAX];
    uint32_t count;
    char refused[ERROR_MESSAGE_BYTES]; /* the last reason */
};

/* ---- depths ---- */

/* Bytes per second of a transfer between neighbouring stages, and of a ring among replicas, as DAPPLE and PipeDream count a ring: 2 (r - 1) / r of the bytes through one link. */
static enum status find_bandwidths(struct pipeline_case *c, struct error *error)
{
    const struct plan *plan = &c->scenario->plan;
    const struct piece_group pair = piece_pair(&c->scenario->cluster, plan->tensor, c->replicas);
    const struct piece_group group = piece_data_group(plan->tensor, c->replicas);
    double transfer = c->profile->layers[0].activation_bytes, time = 0;
    double reduce = pipeline_profile_sum(c->profile, 0, c->profile->count).parameter_bytes / (double)c->pipeline;
    c->transfer_bytes_per_s = c->reduce_bytes_per_s = UNUSED_BYTES_PER_S;
    if (c->pipeline > 1) {
        TRY(pieces_collective(c->pieces, COLLECTIVE_SEND_RECV, &pair, transfer, &time, error));
        c->transfer_bytes_per_s = time > 0 ? transfer / time : UNUSED_BYTES_PER_S;
    }
    if (c->replicas > 1) {
        TRY(pieces_collective(c->pieces, COLLECTIVE_ALL_REDUCE, &group, reduce, &time, error));
        double ring = 2 * ((double)c->replicas - 1) / (double)c->replicas * reduce;
        c->reduce_bytes_per_s = time > 0 ? ring / time : UNUSED_BYTES_PER_S;
    }
    return STATUS_OK;
}

static enum status make_plan(const struct work *work, struct candidate *candidate, struct error *error)
{
    const struct scenario *scenario = work->request->scenario;
    const struct pipeline_order *order = registry_order(work->rule->order, error);
    struct arena *arena = &work->answer->arena;
    struct plan *plan = &candidate->plan;
    if (order == NULL) {
        return STATUS_NOT_FOUND;
    }
    TRY(planner_copy_plan(plan, &scenario->plan, &scenario->model, arena, error));
    plan->pipeline = candidate->at.pipeline;
    plan->data = candidate->at.replicas;
    plan->virtual_stages = 1;
    plan->micro_batches = candidate->at.micro_batches;
    plan->micro_batch = candidate->micro_batch;
    plan->replica_sharing = candidate->sharing;
    plan_order_use(plan, order);
    plan->stage_layers = arena_array(arena, int64_t, candidate->split.stage_count);
    plan->stage_replicas = candidate->own ? arena_array(arena, uint32_t, candidate->split.stage_count) : NULL;
    if (plan->stage_layers == NULL || (candidate->own && plan->stage_replicas == NULL)) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    for (uint32_t i = 0; i < candidate->split.stage_count; i++) {
        plan->stage_layers[i] = candidate->split.stages[i].count;
        if (candidate->own) {
            plan->stage_replicas[i] = candidate->split.stages[i].replicas;
        }
    }
    return STATUS_OK;
}

/* The depth as a candidate, unless it is not allowed. */
static enum status add_depth(struct work *work, int64_t pipeline, struct error *error)
{
    const struct scenario *scenario = work->request->scenario;
    const struct plan *base = &scenario->plan;
    struct candidate *candidate = &work->candidates[work->count];
    struct error refusal = { 0 };
    bool found = false;
    int64_t replicas = work->workers / pipeline, unit = replicas * base->micro_batch;
    if (base->global_batch % unit != 0) {
        snprintf(work->refused, sizeof work->refused,
                 "%lld replicas of micro-batches of %lld samples do not divide a global batch of %lld",
                 (long long)replicas, (long long)base->micro_batch, (long long)base->global_batch);
        work->answer->refused++;
        return STATUS_OK;
    }
    *candidate = (struct candidate){ .at = { .scenario = scenario,
                                             .parameters = &work->request->parameters,
                                             .profile = &work->profile,
                                             .pieces = work->pieces,
                                             .pipeline = pipeline,
                                             .replicas = replicas,
                                             .micro_batches = base->global_batch / unit,
                                             .budget_bytes = work->request->budgets_bytes[0] },
                                     .micro_batch = base->micro_batch };
    TRY(find_bandwidths(&candidate->at, error));
    TRY(work->rule->partition(&candidate->at, &candidate->split, &candidate->model_step_s, &found, &work->answer->arena,
                              error));
    work->answer->screened++;
    if (!found) {
        snprintf(work->refused, sizeof work->refused, "no partition into %lld stages", (long long)pipeline);
        work->answer->refused++;
        return STATUS_OK;
    }
    CHECK(candidate->split.stage_count == pipeline);
    TRY(make_plan(work, candidate, error));
    if (plan_check(&candidate->plan, &scenario->model, &refusal) != STATUS_OK) {
        snprintf(work->refused, sizeof work->refused, "%s", refusal.message);
        work->answer->refused++;
        return STATUS_OK;
    }
    work->count++;
    return STATUS_OK;
}

/* Whether the split is none of a depth: some stage has other replicas than the first. */
static bool is_uneven(const struct pipeline_split *split)
{
    for (uint32_t i = 1; i < split->stage_count; i++) {
        if (split->stages[i].replicas != split->stages[0].replicas) {
            return true;
        }
    }
    return false;
}

/* The plan whose stages have replicas of their own, where the rule has one, it is none of the depths, and it is allowed. */
static enum status add_free(struct work *work, struct error *error)
{
    const struct scenario *scenario = work->request->scenario;
    struct candidate *candidate = &work->candidates[work->count];
    struct pipeline_free best = { 0 };
    struct error refusal = { 0 };
    if (work->rule->partition_free == NULL || work->workers < 3 || work->count == CASES_MAX ||
        scenario->plan.global_batch % scenario->plan.micro_batch != 0) {
        return STATUS_OK;
    }
    *candidate = (struct candidate){ .at = { .scenario = scenario,
                                             .parameters = &work->request->parameters,
                                             .profile = &work->profile,
                                             .pieces = work->pieces,
                                             .pipeline = 2,
                                             .replicas = work->workers / 2,
                                             .budget_bytes = work->request->budgets_bytes[0] },
                                     .own = true };
    TRY(find_bandwidths(&candidate->at, error));
    TRY(work->rule->partition_free(&candidate->at, work->workers, &best, &work->answer->arena, error));
    work->answer->screened++;
    work->answer->configurations++;
    if (!best.found || !is_uneven(&best.split)) {
        return STATUS_OK;
    }
    candidate->at.pipeline = best.split.stage_count;
    candidate->at.replicas = 1;
    candidate->at.micro_batches = best.micro_batches;
    candidate->split = best.split;
    candidate->sharing = best.sharing;
    candidate->micro_batch = best.micro_batch;
    candidate->model_step_s = best.step_s;
    TRY(make_plan(work, candidate, error));
    if (plan_check(&candidate->plan, &scenario->model, &refusal) != STATUS_OK) {
        work->answer->refused++; /* of a policy, say, that takes equal stages: the depths remain */
        return STATUS_OK;
    }
    work->count++;
    return STATUS_OK;
}

static enum status list_depths(struct work *work, struct error *error)
{
    const struct scenario *scenario = work->request->scenario;
    const struct plan *base = &scenario->plan;
    work->workers = (int64_t)scenario->cluster.gpus / (base->tensor * base->context);
    for (int64_t p = 1; p <= work->workers && p <= scenario->model.layers && work->count < CASES_MAX; p++) {
        if (work->workers % p == 0) {
            work->answer->configurations++;
            TRY(add_depth(work, p, error));
        }
    }
    TRY(add_free(work, error));
    return work->count > 0
               ? STATUS_OK
               : error_at(error, STATUS_BAD_INPUT, NULL, "$.training",
                          "no pipeline depth of %lld GPUs works: %s; a global batch that %lld divides would",
                          (long long)work->workers, work->refused, (long long)work->workers);
}

/* ---- answers ---- */

static double rank_of(const struct work *work, const struct candidate *candidate)
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
static enum status saved_bytes(const struct work *work, const struct candidate *candidate,
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
static double sample_part(const struct work *work, const struct candidate *candidate,
                          const struct pipeline_stage *stage)
{
    bool cut = candidate->own && candidate->sharing == SHARING_CUT;
    return cut ? (double)candidate->micro_batch / (double)stage->replicas /
                     (double)work->request->scenario->plan.micro_batch
               : 1;
}

/* Context and communicators, weights in all versions, gradients, optimizer states, and activations in flight as the order has them. */
static enum status stage_bytes(const struct work *work, const struct candidate *candidate, uint32_t index,
                               double *bytes, struct error *error)
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

static enum status fill_choice(const struct work *work, const struct candidate *candidate,
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
static uint32_t rank_fitting(const struct work *work, double budget_bytes, uint32_t *ranked)
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
static const char *replicas_text(const struct candidate *candidate, char text[REPLICAS_TEXT_BYTES])
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

static enum status explain(const struct work *work, struct planner_result *result, const uint32_t *ranked,
                           uint32_t count, struct error *error)
{
    const struct candidate *best = &work->candidates[ranked[0]];
    char replicas[REPLICAS_TEXT_BYTES];
    TRY(planner_reason(
        work->answer, result, error, "%lld stages of %s: %.6g s a step by the planner's own rule, %.6g s simulated",
        (long long)best->at.pipeline, replicas_text(best, replicas), best->model_step_s, best->result.step_time_s));
    if (best->note != NULL) {
        TRY(planner_reason(work->answer, result, error, "%s", best->note));
    }
    for (uint32_t i = 1; i < count; i++) {
        const struct candidate *other = &work->candidates[ranked[i]];
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

static enum status fill_none(const struct work *work, struct planner_result *result, struct error *error)
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

static bool listen(void *context, uint32_t done, uint32_t total)
{
    const struct work *work = context;
    const struct planner_progress progress = { .doing = "simulating", .done = done, .total = total };
    return work->request->progress == NULL || work->request->progress(work->request->progress_context, &progress);
}

static enum status adjust(const struct work *work, struct candidate *candidate, struct error *error)
{
    candidate->note = NULL;
    if (work->rule->adjust == NULL) {
        return STATUS_OK;
    }
    TRY(make_plan(work, candidate, error));
    return work->rule->adjust(&candidate->at, &candidate->split, &candidate->plan, &candidate->note,
                              &work->answer->arena, error);
}

static enum status simulate(struct work *work, double budget_bytes, struct error *error)
{
    const struct plan *plans[CASES_MAX];
    struct oracle_result results[CASES_MAX];
    bool again = true;
    for (uint32_t i = 0; i < work->count; i++) {
        work->candidates[i].at.budget_bytes = budget_bytes;
        work->candidates[i].at.margin_bytes = 0;
        TRY(adjust(work, &work->candidates[i], error));
        plans[i] = &work->candidates[i].plan;
    }
    for (int round = 0; round < ADJUST_ROUNDS && again; round++) {
        TRY(oracle_ask(work->oracle, plans, work->count, results, listen, work, error));
        again = false;
        for (uint32_t i = 0; i < work->count; i++) {
            struct candidate *candidate = &work->candidates[i];
            candidate->result = results[i];
            work->answer->interrupted = work->answer->interrupted || results[i].verdict == ORACLE_UNKNOWN;
            double over = (double)results[i].peak_bytes - budget_bytes;
            if (results[i].verdict == ORACLE_RAN && over > 0 && work->rule->adjust != NULL &&
                round + 1 < ADJUST_ROUNDS) {
                candidate->at.margin_bytes += over;
                TRY(adjust(work, candidate, error));
                again = true;
            }
        }
    }
    return STATUS_OK;
}

static enum status answer_budget(struct work *work, struct planner_result *result, struct error *error)
{
    uint32_t ranked[CASES_MAX];
    TRY(simulate(work, result->budget_bytes, error));
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

enum status pipeline_plans_search(const struct planner_request *request, struct planner_answer *answer,
                                  const struct pipeline_rule *rule, struct error *error)
{
    struct work *work = arena_array(&answer->arena, struct work, 1);
    if (work == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    *work = (struct work){ .request = request, .rule = rule, .answer = answer };
    answer->cost_model = rule->cost_model;
    enum status status = pieces_open(&work->pieces, request->scenario, error);
    if (status == STATUS_OK) {
        status = oracle_open(&work->oracle, request->scenario, request->threads, error);
    }
    if (status == STATUS_OK) {
        const uint8_t *recompute = rule->adjust != NULL ? NULL : request->scenario->plan.recompute;
        status = pipeline_profile_of_scenario(&work->profile, request->scenario, recompute, work->pieces,
                                              &answer->arena, error);
    }
    if (status == STATUS_OK) {
        status = list_depths(work, error);
    }
    for (uint32_t i = 0; i < answer->result_count && status == STATUS_OK; i++) {
        status = answer_budget(work, &answer->results[i], error);
    }
    answer->simulated = work->oracle != NULL ? oracle_simulations(work->oracle) : 0;
    oracle_close(work->oracle);
    pieces_close(work->pieces);
    return status;
}
