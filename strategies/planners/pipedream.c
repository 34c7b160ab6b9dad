/* Planner `pipedream`: PipeDream's dynamic programme (pipedream_search.h) on the scenario's own profile. */
#include <math.h>

#include "sim/base/check.h"
#include "sim/plan/plan_replicas.h"
#include "strategies/planners/pipedream_search.h"
#include "strategies/planners/pipeline_profile_plans.h"
#include "strategies/planners/planners.h"

enum { P_MEMORY_TEST, P_COMPRESSION, P_ORDER };
static const char *const ORDERS[] = { "1f1b", "pipedream", "pipedream-2bw", NULL };
static const struct parameter PARAMETERS[] = {
    [P_MEMORY_TEST] = { .name = "memory_test",
                        .type = PARAMETER_BOOL,
                        .unit = "",
                        .fallback = 0,
                        .help = "its optimizer's own memory test against the first budget (asks nothing of the last "
                                "stage)" },
    [P_COMPRESSION] = { .name = "compression",
                        .type = PARAMETER_REAL,
                        .unit = "",
                        .minimum = 0,
                        .maximum = 1e6,
                        .fallback = 0,
                        .help = "activation compression ratio; 0: transfers between stages do not count, as shipped" },
    [P_ORDER] = { .name = "order",
                  .type = PARAMETER_WORD,
                  .unit = "",
                  .words = ORDERS,
                  .help = "how plans run: 1f1b with a flush, or as PipeDream does, without one" },
};

/* `replicas` 0: any number, so the slower of what goes between stages and among replicas counts. */
static struct pipedream_request request_of(const struct pipeline_case *c, int64_t workers, int64_t replicas)
{
    double slower = fmin(c->transfer_bytes_per_s, c->reduce_bytes_per_s);
    return (struct pipedream_request){
        .profile = c->profile,
        .workers = (uint32_t)workers,
        .bandwidth_bytes_per_s = replicas == 0     ? slower
                                 : c->replicas > 1 ? c->reduce_bytes_per_s
                                                   : c->transfer_bytes_per_s,
        .memory_bytes = c->parameters->value[P_MEMORY_TEST] > 0.5 ? c->budget_bytes : 0,
        .compression = c->parameters->value[P_COMPRESSION],
        .replicas = (uint32_t)replicas,
    };
}

/* A replica's micro-batch is a minibatch of PipeDream: a step of M of them on each of r replicas has M r. */
static double step_of(const struct pipeline_case *c, double bottleneck_s)
{
    return bottleneck_s * (double)(c->micro_batches * c->replicas);
}

static enum status partition_free(const struct pipeline_case *c, int64_t workers, struct pipeline_free *best,
                                  struct arena *arena, struct error *error)
{
    const struct plan *base = &c->scenario->plan;
    struct pipedream_request request = request_of(c, workers, 0);
    struct pipedream_answer answer;
    best->micro_batch = base->micro_batch;
    best->micro_batches = base->global_batch / base->micro_batch;
    best->sharing = SHARING_DEAL;
    request.shared = (uint32_t)best->micro_batches;
    struct error limit = { 0 };
    enum status status = pipedream_search(&request, &answer, arena, &limit);
    if (status != STATUS_OK) { /* too large a search: the depths remain */
        return status == STATUS_NO_MEMORY ? error_set(error, status, "%s", limit.message) : STATUS_OK;
    }
    best->found = answer.found;
    best->split = answer.split;
    best->step_s = answer.bottleneck_s * (double)best->micro_batches;
    return STATUS_OK;
}

static enum status partition(const struct pipeline_case *c, struct pipeline_split *split, double *step_s, bool *found,
                             struct arena *arena, struct error *error)
{
    const struct pipedream_request request = request_of(c, c->pipeline * c->replicas, c->replicas);
    struct pipedream_answer answer;
    TRY(pipedream_search(&request, &answer, arena, error));
    *found = answer.found;
    *split = answer.split;
    *step_s = step_of(c, answer.bottleneck_s);
    return STATUS_OK;
}

/* What the programme would choose were the micro-batches of a step no bound. */
static enum status remark(const struct pipeline_case *c, int64_t workers, const char **note, struct arena *arena,
                          struct error *error)
{
    const struct pipedream_request request = request_of(c, workers, 0);
    int64_t micro_batches = c->scenario->plan.global_batch / c->scenario->plan.micro_batch;
    struct pipedream_answer answer;
    struct error limit = { 0 };
    enum status status = pipedream_search(&request, &answer, arena, &limit);
    if (status != STATUS_OK || !answer.found) {
        return status == STATUS_NO_MEMORY ? error_set(error, status, "%s", limit.message) : STATUS_OK;
    }
    uint32_t *replicas = arena_array(arena, uint32_t, answer.split.stage_count);
    if (replicas == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    for (uint32_t i = 0; i < answer.split.stage_count; i++) {
        replicas[i] = answer.split.stages[i].replicas;
    }
    int64_t wanted = plan_replicas_multiple(replicas, answer.split.stage_count);
    if (wanted == 0 || micro_batches % wanted == 0) {
        return STATUS_OK;
    }
    *note = arena_printf(
        arena,
        "with any replicas, also such as do not divide the %lld micro-batches of a step, the programme takes %u "
        "stage%s, the first of %u layers on %u replicas (plan --profile draws it): %.6g s a step by its own rule; "
        "micro-batches in multiples of %lld would let it",
        (long long)micro_batches, answer.split.stage_count, answer.split.stage_count == 1 ? "" : "s",
        answer.split.stages[0].count, answer.split.stages[0].replicas, answer.bottleneck_s * (double)micro_batches,
        (long long)wanted);
    return *note == NULL ? error_set(error, STATUS_NO_MEMORY, "out of memory planning") : STATUS_OK;
}

static enum status search(const struct planner_request *request, struct planner_answer *answer, struct error *error)
{
    const struct pipeline_rule rule = {
        .order = ORDERS[(int)request->parameters.value[P_ORDER]],
        .cost_model = "PipeDream's: the slowest stage, (compute + 4 (r - 1) W / (bandwidth r)) / r a minibatch, no "
                      "fill or drain",
        .partition = partition,
        .partition_free = partition_free,
        .remark = remark,
    };
    return pipeline_plans_search(request, answer, &rule, error);
}

const struct planner planner_pipedream = {
    .abi = PLANNER_ABI,
    .name = "pipedream",
    .summary = "PipeDream's dynamic programme over layers and workers; plans run as 1F1B with a flush, or without",
    .paper = "Narayanan et al., SOSP 2019, as its shipped optimizer computes it",
    .parameters = PARAMETERS,
    .parameter_count = sizeof PARAMETERS / sizeof PARAMETERS[0],
    .search = search,
};
