/* Planner `dapple`: the shortest analytic length of a synchronous step (dapple_search.h) on the scenario's own profile. */
#include "sim/base/check.h"
#include "strategies/planners/dapple_search.h"
#include "strategies/planners/pipeline_profile_plans.h"
#include "strategies/planners/planners.h"

enum { P_ORDER, ORDER_PA = 0, ORDER_PB };
static const char *const ORDERS[] = { "pa", "pb", NULL };
static const struct parameter PARAMETERS[] = {
    [P_ORDER] = { .name = "order",
                  .type = PARAMETER_WORD,
                  .unit = "",
                  .words = ORDERS,
                  .help = "which of its schedules runs the plan: pa (1F1B) or pb (more micro-batches in flight)" },
};

/* DAPPLE cuts a micro-batch among the replicas of a stage; here each of r replicas runs one of its own. Together these are its micro-batch: r times the work of one device. What crosses a cut
 * crosses it on r links side by side. */
static enum status partition(const struct pipeline_case *c, struct pipeline_split *split, double *step_s, bool *found,
                             struct arena *arena, struct error *error)
{
    struct profile_layer *layers = arena_array(arena, struct profile_layer, c->profile->count);
    if (layers == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    for (uint32_t i = 0; i < c->profile->count; i++) {
        layers[i] = c->profile->layers[i];
        layers[i].forward_s *= (double)c->replicas;
        layers[i].backward_s *= (double)c->replicas;
    }
    const struct pipeline_profile shared = { c->profile->name, layers, c->profile->count };
    const struct dapple_request request = { .profile = &shared,
                                            .workers = (uint32_t)(c->pipeline * c->replicas),
                                            .micro_batches = (uint32_t)c->micro_batches,
                                            .transfer_bytes_per_s = c->transfer_bytes_per_s,
                                            .reduce_bytes_per_s = c->reduce_bytes_per_s,
                                            .replicas = (uint32_t)c->replicas };
    struct dapple_answer answer;
    TRY(dapple_search(&request, &answer, arena, error));
    *found = answer.found;
    *split = answer.split;
    *step_s = answer.length_s;
    return STATUS_OK;
}

/* A micro-batch of `times` of the scenario's, cut by stages of any replicas that divide its samples. What crosses a cut crosses it on one link: the narrower stage may have no more. */
static enum status try_times(const struct pipeline_case *c, int64_t workers, int64_t times, struct pipeline_free *best,
                             struct arena *arena, struct error *error)
{
    const struct plan *base = &c->scenario->plan;
    struct profile_layer *layers = arena_array(arena, struct profile_layer, c->profile->count);
    if (layers == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    for (uint32_t i = 0; i < c->profile->count; i++) {
        layers[i] = c->profile->layers[i];
        layers[i].forward_s *= (double)times;
        layers[i].backward_s *= (double)times;
        layers[i].activation_bytes *= (double)times;
    }
    const struct pipeline_profile shared = { c->profile->name, layers, c->profile->count };
    int64_t micro_batch = base->micro_batch * times, micro_batches = base->global_batch / micro_batch;
    const struct dapple_request request = { .profile = &shared,
                                            .workers = (uint32_t)workers,
                                            .micro_batches = (uint32_t)micro_batches,
                                            .transfer_bytes_per_s = c->transfer_bytes_per_s,
                                            .reduce_bytes_per_s = c->reduce_bytes_per_s,
                                            .shared = (uint32_t)micro_batch };
    struct dapple_answer answer;
    struct error limit = { 0 };
    enum status status = dapple_search(&request, &answer, arena, &limit);
    if (status != STATUS_OK) { /* too large a search: the depths remain */
        return status == STATUS_NO_MEMORY ? error_set(error, status, "%s", limit.message) : STATUS_OK;
    }
    if (answer.found && (!best->found || answer.length_s < best->step_s)) {
        *best = (struct pipeline_free){ true, answer.split, SHARING_CUT, micro_batch, micro_batches, answer.length_s };
    }
    return STATUS_OK;
}

static enum status partition_free(const struct pipeline_case *c, int64_t workers, struct pipeline_free *best,
                                  struct arena *arena, struct error *error)
{
    const struct plan *base = &c->scenario->plan;
    for (int64_t times = 1; times <= workers; times++) {
        if (base->global_batch % (base->micro_batch * times) == 0) {
            TRY(try_times(c, workers, times, best, arena, error));
        }
    }
    return STATUS_OK;
}

static const char COST_MODEL[] =
    "DAPPLE's analytic length: block (M - 1) + total + transfers + reductions that no later "
    "stage hides; total counts a micro-batch as if one device ran it";
static const struct pipeline_rule RULES[] = {
    [ORDER_PA] = { .order = "1f1b",
                   .cost_model = COST_MODEL,
                   .partition = partition,
                   .partition_free = partition_free },
    [ORDER_PB] = { .order = "dapple-pb",
                   .cost_model = COST_MODEL,
                   .partition = partition,
                   .partition_free = partition_free },
};

static enum status search(const struct planner_request *request, struct planner_answer *answer, struct error *error)
{
    return pipeline_plans_search(request, answer, &RULES[(int)request->parameters.value[P_ORDER]], error);
}

const struct planner planner_dapple = {
    .abi = PLANNER_ABI,
    .name = "dapple",
    .summary = "the shortest synchronous step by DAPPLE's analytic length, over depths and partitions",
    .paper = "Fan et al., PPoPP 2021",
    .parameters = PARAMETERS,
    .parameter_count = sizeof PARAMETERS / sizeof PARAMETERS[0],
    .search = search,
};
