/* Planner `exhaustive`: every uniform split, screened by closed forms, the best simulated. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/units.h"
#include "strategies/planners/exhaustive_internal.h"
#include "strategies/planners/planners.h"

enum {
    P_SPACE,
    P_SIMULATE,
    P_SEQUENCE_PARALLEL,
    P_MAX_ZERO,
    P_MAX_TENSOR,
    P_MAX_VIRTUAL_STAGES,
    P_UNEVEN,
    FRONT_MAX = 32, /* splits on the screen's Pareto front that are simulated too */
    LEAST_MAX = 16, /* ... of the smallest, when nothing fits */
    ROUNDS_MAX = 8  /* of `simulate` splits each, while none of them fits */
};

static const char *const SPACES[] = {
#define X(name, word) word,
    EXHAUSTIVE_SPACE_TABLE(X)
#undef X
        NULL
};
static const char *const SEQUENCE_PARALLEL[] = { "both", "on", "off", NULL };

static const struct parameter PARAMETERS[] = {
    [P_SPACE] = { .name = "space",
                  .type = PARAMETER_WORD,
                  .unit = "",
                  .words = SPACES,
                  .help = "which dimensions: all, or data (dp), sharded data (sdp), tensor, pipeline alone, all three, "
                          "pairs" },
    [P_SIMULATE] = { .name = "simulate",
                     .type = PARAMETER_INT,
                     .unit = "splits",
                     .minimum = 1,
                     .maximum = 100000,
                     .fallback = 50,
                     .help = "how many of the fastest by closed form are simulated" },
    [P_SEQUENCE_PARALLEL] = { .name = "sequence_parallel",
                              .type = PARAMETER_WORD,
                              .unit = "",
                              .words = SEQUENCE_PARALLEL,
                              .help = "sequence parallelism where tensor > 1" },
    [P_MAX_ZERO] = { .name = "max_zero",
                     .type = PARAMETER_INT,
                     .unit = "",
                     .minimum = 0,
                     .maximum = 3,
                     .fallback = 3,
                     .help = "highest ZeRO stage" },
    [P_MAX_TENSOR] = { .name = "max_tensor",
                       .type = PARAMETER_INT,
                       .unit = "GPUs",
                       .minimum = 0,
                       .maximum = 1 << 20,
                       .fallback = 0,
                       .help = "largest tensor degree; 0: what divides the heads" },
    [P_MAX_VIRTUAL_STAGES] = { .name = "max_virtual_stages",
                               .type = PARAMETER_INT,
                               .unit = "chunks",
                               .minimum = 0,
                               .maximum = 1024,
                               .fallback = 0,
                               .help = "most chunks of interleaved pipelines; 0: one layer each" },
    [P_UNEVEN] = { .name = "uneven",
                   .type = PARAMETER_BOOL,
                   .unit = "",
                   .minimum = 0,
                   .maximum = 1,
                   .fallback = 1,
                   .help = "pipelines that do not divide the layers, too" },
};

/* ---- progress ---- */

static bool listen(void *context, uint32_t done, uint32_t total)
{
    struct search *s = context;
    const struct planner_progress progress = {
        .doing = s->doing, .done = done, .total = total, .best_samples_per_s = s->best_samples_per_s
    };
    return s->request->progress == NULL || s->request->progress(s->request->progress_context, &progress);
}

/* ---- orders of candidates ---- */

static int by_two(double a, double b, uint32_t i, uint32_t k)
{
    return a < b ? -1 : a > b ? 1 : i < k ? -1 : 1;
}

static int by_time(const void *a, const void *b, void *context)
{
    const struct space_candidate *items = context;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    return by_two(items[i].cost.step_time_s, items[k].cost.step_time_s, i, k);
}

static int by_bytes(const void *a, const void *b, void *context)
{
    const struct space_candidate *items = context;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    return by_two(items[i].cost.peak_bytes, items[k].cost.peak_bytes, i, k);
}

static int by_simulated_time(const void *a, const void *b)
{
    const struct trial *x = a, *y = b;
    return by_two(x->result.step_time_s, y->result.step_time_s, x->candidate, y->candidate);
}

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
}

static enum status order_candidates(struct search *s, struct error *error)
{
    size_t count = s->space.count;
    s->by_time = calloc(count + 1, sizeof *s->by_time);
    s->by_bytes = calloc(count + 1, sizeof *s->by_bytes);
    s->trial_of = calloc(count + 1, sizeof *s->trial_of);
    if (s->by_time == NULL || s->by_bytes == NULL || s->trial_of == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < count; i++) {
        s->by_time[i] = s->by_bytes[i] = i;
    }
    if (count > 0) {
        qsort_r(s->by_time, count, sizeof *s->by_time, by_time, s->space.items);
        qsort_r(s->by_bytes, count, sizeof *s->by_bytes, by_bytes, s->space.items);
    }
    return STATUS_OK;
}

/* ---- simulating ---- */

static enum status want(struct search *s, uint32_t candidate, struct error *error)
{
    if (s->trial_of[candidate] != 0) {
        return STATUS_OK;
    }
    struct trial trial = { .candidate = candidate, .plan = arena_array(&s->answer->arena, struct plan, 1) };
    if (trial.plan == NULL) {
        return no_memory(error);
    }
    TRY(screen_plan(s->request->scenario, &s->space.items[candidate].point, trial.plan, &s->answer->arena, error));
    trial.plan->detail = DETAIL_STAGE; /* coarse: only to choose */
    TRY(array_reserve(&s->trials, 1, error));
    s->trials.items[s->trials.count++] = trial;
    s->trial_of[candidate] = (uint32_t)s->trials.count;
    return STATUS_OK;
}

static void take_result(struct search *s, struct trial *trial, const struct oracle_result *result)
{
    trial->result = *result;
    s->answer->interrupted = s->answer->interrupted || result->verdict == ORACLE_UNKNOWN;
    if (result->verdict == ORACLE_RAN) {
        s->best_samples_per_s = fmax(s->best_samples_per_s, result->samples_per_s);
    }
}

static enum status simulate_from(struct search *s, size_t first, struct error *error)
{
    struct arena arena = { 0 };
    size_t count = s->trials.count - first;
    const struct plan **plans = arena_array(&arena, const struct plan *, count);
    struct oracle_result *results = arena_array(&arena, struct oracle_result, count);
    if (plans == NULL || results == NULL) {
        arena_free(&arena);
        return no_memory(error);
    }
    for (size_t i = 0; i < count; i++) {
        plans[i] = s->trials.items[first + i].plan;
    }
    s->doing = "simulating";
    enum status status = oracle_ask(s->oracle, plans, (uint32_t)count, results, listen, s, error);
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        take_result(s, &s->trials.items[first + i], &results[i]);
    }
    arena_free(&arena);
    return status;
}

static bool any_fits(const struct search *s, double budget)
{
    for (size_t i = 0; i < s->trials.count; i++) {
        if (oracle_fits(&s->trials.items[i].result, budget)) {
            return true;
        }
    }
    return false;
}

/* The next `count` of the fastest that may fit; *at goes on from the last call. */
static enum status want_fastest(struct search *s, double budget, uint32_t count, size_t *at, struct error *error)
{
    for (; *at < s->space.count && count > 0; ++*at) {
        uint32_t candidate = s->by_time[*at];
        if (s->space.items[candidate].cost.least_bytes <= budget) {
            TRY(want(s, candidate, error));
            count--;
        }
    }
    return STATUS_OK;
}

/* Evenly over the screen's front of step time against peak memory. */
static enum status want_front(struct search *s, double budget, struct error *error)
{
    uint32_t *front = calloc(s->space.count + 1, sizeof *front);
    uint32_t count = 0;
    double least = INFINITY;
    if (front == NULL) {
        return no_memory(error);
    }
    for (size_t i = 0; i < s->space.count; i++) {
        const struct screen_cost *cost = &s->space.items[s->by_time[i]].cost;
        if (cost->peak_bytes < least && cost->least_bytes <= budget) {
            least = cost->peak_bytes;
            front[count++] = s->by_time[i];
        }
    }
    enum status status = STATUS_OK;
    uint32_t taken = count < FRONT_MAX ? count : FRONT_MAX;
    for (uint32_t i = 0; i < taken && status == STATUS_OK; i++) {
        uint32_t at = taken > 1 ? (uint32_t)((uint64_t)i * (count - 1) / (taken - 1)) : 0;
        status = want(s, front[at], error);
    }
    free(front);
    return status;
}

/* Rounds of the fastest until one fits; where the screen finds nothing for the budget, the smallest. */
static enum status simulate_for_budget(struct search *s, double budget, struct error *error)
{
    size_t at = 0, first = s->trials.count;
    TRY(want_fastest(s, budget, (uint32_t)s->request->parameters.value[P_SIMULATE], &at, error));
    TRY(want_front(s, budget, error));
    TRY(simulate_from(s, first, error));
    for (int round = 1; round < ROUNDS_MAX && !s->answer->interrupted && !any_fits(s, budget); round++) {
        first = s->trials.count;
        TRY(want_fastest(s, budget, (uint32_t)s->request->parameters.value[P_SIMULATE], &at, error));
        if (s->trials.count == first) {
            break;
        }
        TRY(simulate_from(s, first, error));
    }
    if (!any_fits(s, budget) && !s->answer->interrupted) {
        first = s->trials.count;
        for (uint32_t i = 0; i < LEAST_MAX && i < s->space.count; i++) {
            TRY(want(s, s->by_bytes[i], error));
        }
        TRY(simulate_from(s, first, error));
    }
    return STATUS_OK;
}

static void count_space(struct search *s)
{
    double most = 0;
    for (uint32_t i = 0; i < s->request->budget_count; i++) {
        most = fmax(most, s->request->budgets_bytes[i]);
    }
    s->answer->screened = s->space.count;
    s->answer->refused = s->space.refused;
    s->answer->configurations = s->space.count + s->space.refused;
    for (size_t i = 0; i < s->space.count; i++) {
        s->answer->pruned += s->space.items[i].cost.least_bytes > most;
    }
}

static enum status run_search(struct search *s, struct error *error)
{
    const struct planner_request *request = s->request;
    const double *values = request->parameters.value;
    const struct space_request space = {
        .scenario = request->scenario,
        .space = (enum exhaustive_space)values[P_SPACE],
        .sequence_parallel = (enum space_sequence_parallel)values[P_SEQUENCE_PARALLEL],
        .tensor_max = (int64_t)values[P_MAX_TENSOR],
        .virtual_stages_max = (int64_t)values[P_MAX_VIRTUAL_STAGES],
        .zero_max = (int64_t)values[P_MAX_ZERO],
        .uneven = values[P_UNEVEN] > 0.5,
        .threads = request->threads,
    };
    if (space.tensor_max > request->scenario->cluster.gpus) {
        return error_set(error, STATUS_BAD_INPUT, "max_tensor is %lld: there are %u GPUs, allowed are 1 to %u (0: all)",
                         (long long)space.tensor_max, request->scenario->cluster.gpus, request->scenario->cluster.gpus);
    }
    s->doing = "screening";
    TRY(space_build(&space, &s->space, listen, s, error));
    count_space(s);
    TRY(order_candidates(s, error));
    s->answer->interrupted = s->space.interrupted;
    for (uint32_t i = 0; i < request->budget_count && !s->answer->interrupted; i++) {
        TRY(simulate_for_budget(s, request->budgets_bytes[i], error));
    }
    s->answer->simulated = oracle_simulations(s->oracle);
    if (s->trials.count > 0) {
        qsort(s->trials.items, s->trials.count, sizeof *s->trials.items, by_simulated_time);
    }
    for (uint32_t i = 0; i < request->budget_count; i++) {
        TRY(exhaustive_fill_result(s, &s->answer->results[i], error));
    }
    return STATUS_OK;
}

static enum status search(const struct planner_request *request, struct planner_answer *answer, struct error *error)
{
    struct search s = { .request = request, .answer = answer };
    if (strcmp(request->scenario->plan.policy, "resident") != 0) {
        return error_at(
            error, STATUS_UNSUPPORTED, NULL, "$.memory_policy",
            "planner exhaustive prunes by what must be on the device, so it takes memory policy \"resident\", "
            "not \"%s\"",
            request->scenario->plan.policy);
    }
    answer->cost_model = "closed forms over the model graph and the machine's kernel and collective costs "
                         "(strategies/planners/exhaustive_screen.h), then the event simulation";
    TRY(oracle_open(&s.oracle, request->scenario, request->threads, error));
    enum status status = run_search(&s, error);
    oracle_close(s.oracle);
    space_free(&s.space);
    array_free(&s.trials);
    free(s.by_time);
    free(s.by_bytes);
    free(s.trial_of);
    return status;
}

const struct planner planner_exhaustive = {
    .abi = PLANNER_ABI,
    .name = "exhaustive",
    .summary =
        "every uniform split (tensor, pipeline, data, micro-batch, recompute, chunks, ZeRO): closed forms screen, "
        "the event simulation decides",
    .paper = NULL,
    .parameters = PARAMETERS,
    .parameter_count = sizeof PARAMETERS / sizeof PARAMETERS[0],
    .search = search,
};
