/* The planner `mpress`: a pipeline of single devices whose tensors are recomputed, swapped to the host or to other devices until every stage fits (the ideas of MPress, HPCA 2023; of the paper only
 * the abstract could be read, so every rule here is ours: facts/mpress-hippie-pipelines.md A.3 to A.8).
 *
 * 1. Profile: one iteration with everything resident gives peaks, idle intervals and bytes; one with everything recomputed the cost of that. Lengths are those of the settled step, which of an
 *    asynchronous order comes after those that fill the pipeline; peaks and idle intervals are of all, weight versions included.
 *    Where weights, gradients and versions that cannot leave are alone more than a device may hold, no search begins: all that moves leaves once, which tells the budget that would do.
 * 2. Starts: for each set of mechanisms, picks until it fits (mpress_picks.c), then refinement within the set (mpress_refine.c).
 * 3. Device mapping (mpress_mapping.h) for what the best start leaves over and to spare.
 * 4. Refinement with device-to-device swap, on the mapping and without it. The fastest that fits wins; as the starts with fewer mechanisms are among the candidates, none of them is faster.
 *
 * Of several budgets the smallest comes first, and its plan is a candidate of the next: a larger budget of the same request is never slower. Two requests with one budget each may be, by what a local search
 * misses.
 *
 * Starts run side by side; each has its own count of emulations, so answers do not depend on the number of threads. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/plan/plan_order.h"
#include "strategies/planners/mpress_attempts.h"
#include "strategies/planners/planners.h"

enum { P_ALLOW };
enum { ALLOW_ALL, ALLOW_RECOMPUTE, ALLOW_HOST, ALLOW_RECOMPUTE_HOST };
static const char *const ALLOWED[] = { "all", "recompute", "host", "recompute+host", NULL };
static const uint32_t MECHANISMS[] = {
    [ALLOW_ALL] = MPRESS_RECOMPUTE | MPRESS_HOST | MPRESS_STATES | MPRESS_CPU | MPRESS_VERSIONS | MPRESS_DEVICES,
    [ALLOW_RECOMPUTE] = MPRESS_RECOMPUTE,
    [ALLOW_HOST] = MPRESS_HOST | MPRESS_STATES | MPRESS_CPU | MPRESS_VERSIONS,
    [ALLOW_RECOMPUTE_HOST] = MPRESS_RECOMPUTE | MPRESS_HOST | MPRESS_STATES | MPRESS_CPU | MPRESS_VERSIONS,
};
static const struct parameter PARAMETERS[] = {
    [P_ALLOW] = { .name = "allow",
                  .type = PARAMETER_WORD,
                  .unit = "",
                  .words = ALLOWED,
                  .fallback = ALLOW_ALL,
                  .help = "mechanisms it may use; host is swap to host memory, states updated by its cores included" },
};

/* ---- the case ---- */

static enum status check(const struct scenario *scenario, struct error *error)
{
    const struct pipeline_order *order = plan_order(&scenario->plan, error);
    int64_t gpus = scenario->cluster.gpus;
    if (order == NULL) {
        return STATUS_NOT_FOUND;
    }
    if (order->model_replicas > 1) {
        return error_at(error, STATUS_UNSUPPORTED, NULL, "$.parallel.pipeline_order",
                        "order \"%s\" keeps several copies of the model; mpress plans for orders with one copy, with a "
                        "flush (\"1f1b\") or without (\"pipedream\", \"pipedream-2bw\")",
                        order->name);
    }
    if (gpus > MPRESS_DEVICES_MAX) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.gpus",
                        "mpress plans pipelines of single devices: %" PRId64 " GPUs, allowed are up to %d", gpus,
                        MPRESS_DEVICES_MAX);
    }
    if (scenario->model.layers < gpus * scenario->plan.virtual_stages) {
        return error_at(error, STATUS_BAD_INPUT, NULL, "$.gpus",
                        "mpress makes each GPU a stage: %" PRId64 " GPUs of %" PRId64 " chunks, but %s has %" PRId64
                        " transformer layers",
                        gpus, scenario->plan.virtual_stages, scenario->model.name, scenario->model.layers);
    }
    return STATUS_OK;
}

/* The scenario as a pipeline of single devices. */
static enum status make_base(struct mpress_search *search, struct error *error)
{
    const struct scenario *scenario = search->request->scenario;
    const struct plan *given = &scenario->plan;
    struct plan *base = &search->c.base;
    struct arena *arena = &search->answer->arena;
    TRY(planner_copy_plan(base, given, &scenario->model, arena, error));
    int64_t gpus = scenario->cluster.gpus;
    if (given->pipeline != gpus) {
        base->pipeline = gpus;
        int64_t stages = gpus * base->virtual_stages;
        base->stage_layers = arena_array(arena, int64_t, (size_t)stages);
        if (base->stage_layers == NULL) {
            return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
        }
        for (int64_t s = 0; s < stages; s++) {
            base->stage_layers[s] = planner_stage_layers(scenario->model.layers, stages, s);
        }
    }
    base->tensor = base->data = base->context = base->expert = 1;
    base->zero_stage = 0;
    base->sequence_parallel = false;
    base->micro_batches = base->global_batch / base->micro_batch;
    memset(base->recompute, RECOMPUTE_NONE, (size_t)scenario->model.layers);
    snprintf(base->policy, sizeof base->policy, "mpress");
    base->policy_parameters = (struct parameter_values){ { 0 } };
    return plan_check(base, &scenario->model, error);
}

static void size_case(struct mpress_case *c)
{
    const struct pipeline_order *order = plan_order(&c->base, NULL);
    uint32_t steps = plan_order_steps(order, &c->base);
    c->stages = (uint32_t)c->base.pipeline;
    c->positions = (uint32_t)c->scenario->model.layers + 2;
    c->micro_batches = (uint32_t)c->base.micro_batches;
    c->instances = steps * c->micro_batches;
    c->settled = steps > 1 ? (steps - 2) * c->micro_batches : 0;
    c->updates = order->asynchronous && !order->accumulates ? c->micro_batches : 1;
}

/* Attempts at the budget of a result; of the best, `kept` is made where it fits. */
static enum status answer_budget(struct mpress_search *search, struct planner_result *result, struct mpress_kept *kept,
                                 struct error *error)
{
    if (search->answer->interrupted) {
        return planner_reason_stopped(search->answer, result, error);
    }
    mpress_set_budget(&search->c, result->budget_bytes);
    if (mpress_fits(&search->c.unsaved)) {
        TRY(mpress_run_resident(search, error));
    } else if (mpress_hopeless_stage(&search->c, false) < search->c.stages) {
        TRY(mpress_run_all_away(search, error));
    } else {
        TRY(mpress_run_attempts(search, error));
    }
    TRY(mpress_fill_result(search, result, error));
    if (result->found) {
        const struct mpress_attempt *best = mpress_best_attempt(search, CLASS_COUNT);
        snprintf(kept->name, sizeof kept->name, "what was found for %.6g GiB", result->budget_bytes / GIB);
        mpress_choices_assign(&search->c, &kept->choices, &best->choices);
        mpress_view_assign(&search->c, &kept->view, &best->view);
        kept->any = true;
    }
    return STATUS_OK;
}

/* The result with the smallest budget of those beyond `bytes` (of equal ones the first); NULL: there is none. */
static struct planner_result *next_budget(const struct planner_answer *answer, const struct planner_result *last)
{
    struct planner_result *next = NULL;
    for (uint32_t i = 0; i < answer->result_count; i++) {
        struct planner_result *result = &answer->results[i];
        bool later = last == NULL || result->budget_bytes > last->budget_bytes ||
                     (!(result->budget_bytes < last->budget_bytes) && result > last);
        if (later && (next == NULL || result->budget_bytes < next->budget_bytes)) {
            next = result;
        }
    }
    return next;
}

static enum status search(const struct planner_request *request, struct planner_answer *answer, struct error *error)
{
    struct mpress_search search = { .request = request, .answer = answer };
    struct mpress_kept *kept = arena_array(&answer->arena, struct mpress_kept, 1); /* attempts borrow its name */
    TRY(check(request->scenario, error));
    if (kept == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    answer->cost_model = "one emulated iteration: peaks, idle intervals, bytes; every choice is simulated with its "
                         "contention (our rules after MPress's ideas)";
    search.c = (struct mpress_case){ .scenario = request->scenario,
                                     .allowed = MECHANISMS[(int)request->parameters.value[P_ALLOW]],
                                     .arena = &answer->arena };
    TRY(make_base(&search, error));
    size_case(&search.c);
    TRY(mpress_profile(&search.c, error));
    answer->simulated += search.c.emulations;
    TRY(mpress_choices_new(&search.c, &kept->choices, &answer->arena, error));
    TRY(mpress_view_new(&search.c, &kept->view, error));
    enum status status = STATUS_OK;
    for (struct planner_result *result = next_budget(answer, NULL); result != NULL && status == STATUS_OK;
         result = next_budget(answer, result)) {
        search.tighter = kept->any ? kept : NULL;
        status = answer_budget(&search, result, kept, error);
        mpress_attempts_free(&search);
    }
    return status;
}

const struct planner planner_mpress = {
    .abi = PLANNER_ABI,
    .name = "mpress",
    .summary =
        "a pipeline of single GPUs whose activations and optimizer states are recomputed, swapped to the host or "
        "to other GPUs' memory over several links (our rules for the ideas of its abstract)",
    .paper = "the ideas of MPress, HPCA 2023",
    .parameters = PARAMETERS,
    .parameter_count = sizeof PARAMETERS / sizeof PARAMETERS[0],
    .search = search,
};
