/* Planners `hippie` and `checkmate`, which differ in how recomputed layers are chosen by default (checkmate_search.h). `hippie`: what is known of Hippie (Ye et al., ICPP 2021; facts/mpress-hippie-pipelines.md B says what is sourced and what is our rule). Partition: the length of a synchronous step
 * in which later stages hide their reductions (dapple_search.h, the law of hippie_hiding.h). Order: a last-stage schedule. Memory: layers are recomputed by freed bytes per second until the
 * stage fits. Depths are compared by simulation. */
#include <string.h>

#include "sim/base/check.h"
#include "strategies/planners/checkmate_search.h"
#include "strategies/planners/dapple_search.h"
#include "strategies/planners/hippie_recompute.h"
#include "strategies/planners/pipeline_profile_plans.h"
#include "strategies/planners/planners.h"

enum { P_SCHEDULE, P_CHOICE };
enum { LSPS_A, LSPS_B, LSPS_C };
enum { CHOICE_RATE, CHOICE_EXACT };
static const char *const SCHEDULES[] = { "lsps-a", "lsps-b", "lsps-c", NULL };
static const char *const CHOICES[] = { "rate", "exact", NULL };
#define TABLE(schedule, choice)                                                                                        \
    {                                                                                                                  \
        [P_SCHEDULE] = { .name = "schedule",                                                                           \
                         .type = PARAMETER_WORD,                                                                       \
                         .unit = "",                                                                                   \
                         .words = SCHEDULES,                                                                           \
                         .fallback = (schedule),                                                                       \
                         .help = "reading of its last-stage schedule (memwall list orders); lsps-b is 1F1B" },         \
        [P_CHOICE] = { .name = "choice",                                                                               \
                       .type = PARAMETER_WORD,                                                                         \
                       .unit = "",                                                                                     \
                       .words = CHOICES,                                                                               \
                       .fallback = (choice),                                                                           \
                       .help = "recomputed layers: by freed bytes per second, or exactly (an integer programme)" },    \
    }
static const struct parameter HIPPIE[] = TABLE(LSPS_C, CHOICE_RATE), CHECKMATE[] = TABLE(LSPS_B, CHOICE_EXACT);

/* One pipeline of single devices, c->replicas copies of it. */
static enum status partition(const struct pipeline_case *c, struct pipeline_split *split, double *step_s, bool *found,
                             struct arena *arena, struct error *error)
{
    const struct dapple_request request = { .profile = c->profile,
                                            .workers = (uint32_t)c->pipeline,
                                            .micro_batches = (uint32_t)c->micro_batches,
                                            .transfer_bytes_per_s = c->transfer_bytes_per_s,
                                            .reduce_bytes_per_s = c->reduce_bytes_per_s,
                                            .replicas = 1,
                                            .copies = (uint32_t)c->replicas };
    struct dapple_answer answer;
    TRY(dapple_search(&request, &answer, arena, error));
    *found = answer.found;
    *split = answer.split;
    *step_s = answer.length_s;
    return STATUS_OK;
}

/* Device bytes of a stage that keeps everything, `k` micro-batches at once. */
static enum status stage_bytes(const struct pipeline_case *c, const struct pipeline_stage *stage, uint32_t k,
                               const struct piece_layer *block, double *bytes, struct error *error)
{
    const struct software *software = &c->scenario->software;
    double parameters;
    TRY(pipeline_stage_parameters(c, stage, &parameters, error));
    *bytes = planner_runtime_bytes(c->scenario) + parameters * software_state_bytes(software) +
             k * pipeline_profile_sum(c->profile, stage->first, stage->count).saved_bytes +
             block->backward_scratch_bytes[RECOMPUTE_NONE];
    return STATUS_OK;
}

/* Modes of a stage that is to free `wanted` bytes; where that cannot be, what frees most. */
static enum status choose(const struct pipeline_case *c, const struct hippie_layer *layers, uint32_t count, uint32_t k,
                          double wanted, uint8_t *modes, struct error *error)
{
    memset(modes, RECOMPUTE_NONE, count);
    if ((int)c->parameters->value[P_CHOICE] == CHOICE_RATE || wanted <= 0) {
        hippie_choose(layers, count, k, wanted, modes);
        return STATUS_OK;
    }
    struct checkmate_answer answer;
    double budget = checkmate_peak(layers, count, k, modes) - wanted;
    TRY(checkmate_search(layers, count, k, budget, modes, &answer, error));
    if (!answer.found) {
        hippie_choose(layers, count, k, wanted, modes);
    }
    return STATUS_OK;
}

static enum status adjust(const struct pipeline_case *c, const struct pipeline_split *split, struct plan *plan,
                          const char **note, struct arena *arena, struct error *error)
{
    const struct piece_layers *pieces;
    struct hippie_layer *layers = arena_array(arena, struct hippie_layer, c->profile->count);
    uint32_t chosen = 0, stages = 0;
    TRY(pieces_layers(c->pieces, plan->tensor, plan->sequence_parallel, plan->micro_batch, &pieces, error));
    for (uint32_t i = 0; layers != NULL && i < c->profile->count; i++) {
        const struct piece_layer *block = &pieces->blocks[model_layer_variant(&c->scenario->model, i)];
        for (int mode = 0; mode < RECOMPUTE_MODE_COUNT; mode++) {
            layers[i].saved_bytes[mode] = block->saved_bytes[mode];
            layers[i].again_s[mode] = block->recompute_s[mode];
        }
    }
    for (uint32_t s = 0; layers != NULL && s < split->stage_count; s++) {
        const struct pipeline_stage *stage = &split->stages[s];
        uint32_t last = model_layer_variant(&c->scenario->model, stage->first + stage->count - 1), k;
        TRY(pipeline_in_flight(plan, s, &k, error));
        double bytes;
        TRY(stage_bytes(c, stage, k, &pieces->blocks[last], &bytes, error));
        double wanted = bytes + c->margin_bytes - c->budget_bytes;
        uint32_t before = chosen;
        TRY(choose(c, &layers[stage->first], stage->count, k, wanted, &plan->recompute[stage->first], error));
        for (uint32_t i = 0; i < stage->count; i++) {
            chosen += plan->recompute[stage->first + i] != RECOMPUTE_NONE;
        }
        stages += chosen > before;
    }
    *note = arena_printf(arena, "%u of %u layers are recomputed, in %u of %u stages, chosen %s", chosen,
                         c->profile->count, stages, split->stage_count,
                         (int)c->parameters->value[P_CHOICE] == CHOICE_RATE ? "by freed bytes per second"
                                                                            : "by an integer programme");
    return layers == NULL || *note == NULL ? error_set(error, STATUS_NO_MEMORY, "out of memory planning") : STATUS_OK;
}

static enum status search(const struct planner_request *request, struct planner_answer *answer, struct error *error)
{
    const struct pipeline_rule rule = {
        .order = SCHEDULES[(int)request->parameters.value[P_SCHEDULE]],
        .cost_model = "partition by DAPPLE's length with reductions over copies of the pipeline; depths by simulation",
        .by_simulation = true,
        .partition = partition,
        .adjust = adjust,
    };
    return pipeline_plans_search(request, answer, &rule, error);
}

const struct planner planner_hippie = {
    .abi = PLANNER_ABI,
    .name = "hippie",
    .summary = "hidden gradient reductions, last-stage scheduling, recomputation of chosen layers by freed bytes per "
               "second (our rules for the ideas of its abstract)",
    .paper = "the ideas of Hippie, Ye et al., ICPP 2021",
    .parameters = HIPPIE,
    .parameter_count = sizeof HIPPIE / sizeof HIPPIE[0],
    .search = search,
};

const struct planner planner_checkmate = {
    .abi = PLANNER_ABI,
    .name = "checkmate",
    .summary = "the cheapest recomputed layers that fit, by an integer programme for each stage",
    .paper = "the idea of Jain et al., MLSys 2020, for plans that recompute whole layers",
    .parameters = CHECKMATE,
    .parameter_count = sizeof CHECKMATE / sizeof CHECKMATE[0],
    .search = search,
};
