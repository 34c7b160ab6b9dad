/* Depths, plans, simulations of the planners over chains; pipeline_profile_answer.c answers. */
#include "strategies/planners/pipeline_profile_plans_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/plan/plan_order.h"
#include "strategies/registry.h"

enum { ADJUST_ROUNDS = 8 };
/* Of what is never sent: the most that the searches take. */
static const double UNUSED_BYTES_PER_S = 1e15;

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

static enum status make_plan(const struct pipeline_work *work, struct pipeline_candidate *candidate,
                             struct error *error)
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
static enum status add_depth(struct pipeline_work *work, int64_t pipeline, struct error *error)
{
    const struct scenario *scenario = work->request->scenario;
    const struct plan *base = &scenario->plan;
    struct pipeline_candidate *candidate = &work->candidates[work->count];
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
    *candidate = (struct pipeline_candidate){ .at = { .scenario = scenario,
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
static enum status add_free(struct pipeline_work *work, struct error *error)
{
    const struct scenario *scenario = work->request->scenario;
    struct pipeline_candidate *candidate = &work->candidates[work->count];
    struct pipeline_free best = { 0 };
    struct error refusal = { 0 };
    if (work->rule->partition_free == NULL || work->workers < 3 || work->count == PIPELINE_CASES_MAX ||
        scenario->plan.global_batch % scenario->plan.micro_batch != 0) {
        return STATUS_OK;
    }
    *candidate = (struct pipeline_candidate){ .at = { .scenario = scenario,
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

static enum status list_depths(struct pipeline_work *work, struct error *error)
{
    const struct scenario *scenario = work->request->scenario;
    const struct plan *base = &scenario->plan;
    work->workers = (int64_t)scenario->cluster.gpus / (base->tensor * base->context);
    for (int64_t p = 1; p <= work->workers && p <= scenario->model.layers && work->count < PIPELINE_CASES_MAX; p++) {
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

/* ---- search ---- */

static bool listen(void *context, uint32_t done, uint32_t total)
{
    const struct pipeline_work *work = context;
    const struct planner_progress progress = { .doing = "simulating", .done = done, .total = total };
    return work->request->progress == NULL || work->request->progress(work->request->progress_context, &progress);
}

static enum status adjust(const struct pipeline_work *work, struct pipeline_candidate *candidate, struct error *error)
{
    candidate->note = NULL;
    if (work->rule->adjust == NULL) {
        return STATUS_OK;
    }
    TRY(make_plan(work, candidate, error));
    return work->rule->adjust(&candidate->at, &candidate->split, &candidate->plan, &candidate->note,
                              &work->answer->arena, error);
}

static enum status simulate(struct pipeline_work *work, double budget_bytes, struct error *error)
{
    const struct plan *plans[PIPELINE_CASES_MAX];
    struct oracle_result results[PIPELINE_CASES_MAX];
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
            struct pipeline_candidate *candidate = &work->candidates[i];
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

static enum status answer_budget(struct pipeline_work *work, struct planner_result *result, struct error *error)
{
    TRY(simulate(work, result->budget_bytes, error));
    return pipeline_plans_answer(work, result, error);
}

enum status pipeline_plans_search(const struct planner_request *request, struct planner_answer *answer,
                                  const struct pipeline_rule *rule, struct error *error)
{
    struct pipeline_work *work = arena_array(&answer->arena, struct pipeline_work, 1);
    if (work == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    *work = (struct pipeline_work){ .request = request, .rule = rule, .answer = answer };
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
