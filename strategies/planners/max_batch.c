/* Planner `max-batch`: the scenario's split, with the largest batch that fits. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/core/fit_search.h"
#include "sim/plan/order.h"
#include "strategies/planners/planners.h"

enum { P_GROW, GROW_MICRO_BATCH = 0, GROW_MICRO_BATCHES };

static const char *const GROW[] = { "micro_batch", "micro_batches", NULL };
static const struct parameter PARAMETERS[] = {
    [P_GROW] = { .name = "grow",
                 .type = PARAMETER_WORD,
                 .unit = "",
                 .words = GROW,
                 .help =
                     "what grows: the samples of a micro-batch (their number stays), or the number of micro-batches; "
                     "the global batch grows with either" },
};

/* A batch that was tried. */
struct trial {
    uint32_t candidate; /* size - 1 */
    struct oracle_result result;
};

struct climb {
    const struct planner_request *request;
    struct planner_answer *answer;
    struct oracle *oracle;
    double budget_bytes;
    struct {
        struct trial *items;
        size_t count, capacity;
    } trials;
    bool stopped;
};

static struct plan plan_of(const struct climb *climb, uint32_t candidate)
{
    struct plan plan = climb->request->scenario->plan;
    int64_t size = (int64_t)candidate + 1;
    if (climb->request->parameters.value[P_GROW] > 0.5) {
        plan.micro_batches = size;
    } else {
        plan.micro_batch = size;
    }
    plan.global_batch = plan.data * plan.micro_batch * plan.micro_batches;
    return plan;
}

static enum status try_size(void *context, uint32_t candidate, enum fit_verdict *verdict, struct error *error)
{
    struct climb *climb = context;
    const struct planner_request *request = climb->request;
    const struct planner_progress progress = { .doing = "simulating", .done = climb->trials.count };
    struct plan plan = plan_of(climb, candidate);
    const struct plan *plans[] = { &plan };
    struct trial trial = { .candidate = candidate };
    if (climb->stopped || (request->progress != NULL && !request->progress(request->progress_context, &progress))) {
        climb->stopped = true; /* the search ends where it is */
        *verdict = FIT_REFUSED;
        return STATUS_OK;
    }
    TRY(oracle_ask(climb->oracle, plans, 1, &trial.result, NULL, NULL, error));
    TRY(array_reserve(&climb->trials, 1, error));
    climb->trials.items[climb->trials.count++] = trial;
    *verdict = trial.result.verdict == ORACLE_REFUSED            ? FIT_REFUSED
               : oracle_fits(&trial.result, climb->budget_bytes) ? FIT_FITS
                                                                 : FIT_TOO_BIG;
    return STATUS_OK;
}

static const struct trial *trial_at(const struct climb *climb, uint32_t candidate)
{
    for (size_t i = 0; i < climb->trials.count; i++) {
        if (climb->trials.items[i].candidate == candidate) {
            return &climb->trials.items[i];
        }
    }
    return NULL;
}

static enum status fill_choice(const struct climb *climb, const struct trial *trial, struct planner_choice *choice,
                               struct error *error)
{
    const struct model *model = &climb->request->scenario->model;
    struct plan plan = plan_of(climb, trial->candidate);
    *choice = (struct planner_choice){ .has_plan = true,
                                       .global_batch = plan.global_batch,
                                       .pipeline = plan.pipeline,
                                       .step_time_s = trial->result.step_time_s,
                                       .samples_per_s = trial->result.samples_per_s,
                                       .peak_bytes = (double)trial->result.peak_bytes,
                                       .is_simulated = true,
                                       .simulated = trial->result };
    TRY(planner_copy_plan(&choice->plan, &plan, model, &climb->answer->arena, error));
    return planner_label_layers(choice, model, &climb->answer->arena, error);
}

/* The other batches that fit, the fastest first. */
static enum status fill_runners_up(const struct climb *climb, struct planner_result *result, uint32_t largest,
                                   struct error *error)
{
    uint32_t top = climb->request->top;
    result->runners_up = arena_array(&climb->answer->arena, struct planner_choice, top);
    if (result->runners_up == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    double last = 0;
    for (uint32_t taken = 0; taken < top; taken++) {
        const struct trial *next = NULL;
        for (size_t i = 0; i < climb->trials.count; i++) {
            const struct trial *trial = &climb->trials.items[i];
            double rate = trial->result.samples_per_s;
            if (trial->candidate != largest && oracle_fits(&trial->result, climb->budget_bytes) &&
                (taken == 0 || rate < last) && (next == NULL || rate > next->result.samples_per_s)) {
                next = trial;
            }
        }
        if (next == NULL) {
            break;
        }
        last = next->result.samples_per_s;
        TRY(fill_choice(climb, next, &result->runners_up[result->runner_up_count++], error));
    }
    return STATUS_OK;
}

static enum status add_reasons(const struct climb *climb, const struct fit_outcome *outcome,
                               struct planner_result *result, struct error *error)
{
    const char *what = GROW[(int)climb->request->parameters.value[P_GROW]];
    const struct trial *next = outcome->has_next ? trial_at(climb, outcome->next) : NULL;
    if (outcome->any) {
        TRY(planner_reason(climb->answer, result, error, "%s %" PRIu32 " needs %.4g of %.4g GiB", what,
                           outcome->largest + 1, (double)result->best.simulated.peak_bytes / GIB,
                           climb->budget_bytes / GIB));
    }
    if (next != NULL) {
        TRY(planner_reason(climb->answer, result, error,
                           "bound by the memory budget: %s %" PRIu32 " would need %.4g GiB", what, outcome->next + 1,
                           (double)next->result.peak_bytes / GIB));
    } else if (outcome->any) {
        TRY(planner_reason(climb->answer, result, error, "not bound by the memory budget: every %s that was tried fits",
                           what));
    }
    if (result->runner_up_count > 0 && result->runners_up[0].samples_per_s > result->best.samples_per_s) {
        const struct planner_choice *faster = &result->runners_up[0];
        TRY(planner_reason(
            climb->answer, result, error,
            "the largest is not the fastest: global batch %" PRId64 " makes %.6g samples/s, %" PRId64 " makes %.6g",
            faster->global_batch, faster->samples_per_s, result->best.global_batch, result->best.samples_per_s));
    }
    return STATUS_OK;
}

static enum status climb_to(struct climb *climb, struct planner_result *result, struct error *error)
{
    const struct plan *base = &climb->request->scenario->plan;
    bool number = climb->request->parameters.value[P_GROW] > 0.5;
    int64_t unit = base->data * (number ? base->micro_batch : base->micro_batches);
    int64_t most = PLAN_BATCH_MAX / unit, limit = number ? ORDER_MICRO_BATCHES_MAX : FIT_CANDIDATES_MAX;
    most = most < limit ? most : limit;
    if (number && most > 4096) {
        most = 4096; /* memory of an order with a bound in flight stays as it is: there is no end to find */
    }
    const struct fit_search search = {
        .count = (uint32_t)(most > 1 ? most : 1), .gallop = true, .oracle = try_size, .context = climb
    };
    struct fit_outcome outcome;
    climb->budget_bytes = result->budget_bytes;
    climb->trials.count = 0;
    TRY(fit_search_run(&search, &outcome, error));
    climb->answer->configurations += climb->trials.count;
    climb->answer->screened += climb->trials.count;
    climb->answer->interrupted = climb->answer->interrupted || climb->stopped;
    const struct trial *first = trial_at(climb, 0);
    if (!outcome.any && first != NULL && first->result.verdict == ORACLE_REFUSED) {
        return error_at(error, STATUS_BAD_INPUT, NULL, NULL, "%s", first->result.reason);
    }
    if (outcome.any) {
        result->found = true;
        TRY(fill_choice(climb, trial_at(climb, outcome.largest), &result->best, error));
        TRY(fill_runners_up(climb, result, outcome.largest, error));
    } else if (first == NULL) {
        return planner_reason_stopped(climb->answer, result, error);
    } else {
        result->smallest_budget_bytes = (double)first->result.peak_bytes;
        TRY(planner_reason(climb->answer, result, error,
                           "not even %s 1 fits %.6g GiB; the smallest budget that would do is %.6g GiB",
                           GROW[number ? GROW_MICRO_BATCHES : GROW_MICRO_BATCH], climb->budget_bytes / GIB,
                           planner_enough_gib(result->smallest_budget_bytes)));
        return STATUS_OK;
    }
    return add_reasons(climb, &outcome, result, error);
}

static enum status search(const struct planner_request *request, struct planner_answer *answer, struct error *error)
{
    struct climb climb = { .request = request, .answer = answer };
    answer->cost_model = "the event simulation";
    TRY(oracle_open(&climb.oracle, request->scenario, request->threads, error));
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < answer->result_count && status == STATUS_OK; i++) {
        status = climb_to(&climb, &answer->results[i], error);
    }
    answer->simulated = oracle_simulations(climb.oracle);
    oracle_close(climb.oracle);
    array_free(&climb.trials);
    return status;
}

const struct planner planner_max_batch = {
    .abi = PLANNER_ABI,
    .name = "max-batch",
    .summary = "the scenario's own split with the largest batch that fits, by bisection over simulations",
    .paper = NULL,
    .parameters = PARAMETERS,
    .parameter_count = sizeof PARAMETERS / sizeof PARAMETERS[0],
    .search = search,
};
