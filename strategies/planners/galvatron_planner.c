/* Planners `galvatron`, `galvatron-base`, `1f1b-biobj`, `galvatron-bmw`: the search of galvatron_search.h on a scenario; its best plans simulated. */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "strategies/planners/galvatron_planner_internal.h"
#include "strategies/planners/planners.h"

enum {
    P_PRESET,
    P_SPACE,
    P_BATCH_FIRST,
    P_BATCH_STEP,
    P_BATCH_MAX,
    P_MAX_TENSOR,
    P_MAX_PIPELINE,
    P_FORMULA,
    P_RECOMPUTE_COST,
    P_ZERO2,
    P_RESERVE,
    P_RECOMPUTE_PEAK,
    PARAMETER_COUNT
};
enum { BATCHES_A_GPU = 16 }; /* of g2 and head, at most, unless asked otherwise */
enum preset { PRESET_MEMWALL, PRESET_V1, PRESET_G2, PRESET_HEAD };
enum choice { AS_PRESET, CHOICE_ON, CHOICE_OFF };
enum formula { FORMULA_PRESET, FORMULA_G2, FORMULA_SYNC, FORMULA_HEAD };
enum recompute_cost { COST_PRESET, COST_HALF, COST_WHOLE };

static const char *const PRESETS[] = { "memwall", "v1", "g2", "head", NULL };
static const char *const SPACES[] = {
#define X(name, word) word,
    GALVATRON_SPACE_TABLE(X)
#undef X
        NULL
};
static const char *const CHOICES[] = { "preset", "on", "off", NULL };
static const char *const FORMULAS[] = { "preset", "g2", "sync", "head", NULL };
static const char *const RECOMPUTE_COSTS[] = { "preset", "half", "whole", NULL };

#define BATCHES ((double)((int64_t)1 << 31))
static const struct parameter PARAMETERS[PARAMETER_COUNT] = {
    [P_PRESET] = { "preset", PARAMETER_WORD, "", 0, 0, PRESET_MEMWALL, PRESETS,
                   "whose cost model and rules of search: memwall (our model graph and machine, this planner's rules), "
                   "or "
                   "Galvatron's first code (v1), its second (g2), its present one (head), quirks included" },
    [P_SPACE] = { "space", PARAMETER_WORD, "", 0, 0, 0, SPACES, "which dimensions a layer may be split in" },
    [P_BATCH_FIRST] = { "batch_first", PARAMETER_INT, "samples", 0, BATCHES, 0, NULL,
                        "first global batch; 0: the scenario's (memwall), 8 (others)" },
    [P_BATCH_STEP] = { "batch_step", PARAMETER_INT, "samples", 0, BATCHES, 0, NULL,
                       "steps of the global batch; 0: as many as GPUs (memwall), 8 (others)" },
    [P_BATCH_MAX] = { "batch_max", PARAMETER_INT, "samples", 0, BATCHES, 0, NULL,
                      "largest global batch; 0: the scenario's (memwall), until nothing fits (v1), 16 a GPU or the "
                      "scenario's (others)" },
    [P_MAX_TENSOR] = { "max_tensor", PARAMETER_INT, "GPUs", 0, 4096, 0, NULL, "largest tensor degree; 0: no limit" },
    [P_MAX_PIPELINE] = { "max_pipeline", PARAMETER_INT, "stages", 0, 4096, 0, NULL, "most stages; 0: no limit" },
    [P_FORMULA] = { "formula", PARAMETER_WORD, "", 0, 0, FORMULA_PRESET, FORMULAS,
                    "pipeline formula: (m-1+P) max C + tail (g2), sum T + (m-1) max C (sync), first and last chains "
                    "(head)" },
    [P_RECOMPUTE_COST] = { "recompute_cost", PARAMETER_WORD, "", 0, 0, COST_PRESET, RECOMPUTE_COSTS,
                           "forward passes charged for a recomputed layer: half a one (as g2), a whole one; memwall "
                           "charges "
                           "what is repeated" },
    [P_ZERO2] = { "zero2", PARAMETER_WORD, "", 0, 0, AS_PRESET, CHOICES, "presets: plain data parallelism is ZeRO-2" },
    [P_RESERVE] = { "reserve", PARAMETER_WORD, "", 0, 0, AS_PRESET, CHOICES,
                    "budgets above 20 GiB lose a fifth to the caching allocator" },
    [P_RECOMPUTE_PEAK] = { "recompute_peak", PARAMETER_WORD, "", 0, 0, AS_PRESET, CHOICES,
                           "presets: a stage pays one whole layer's activations where recomputation is allowed" },
};

/* One budget's search: everything that a thread needs of its own. */
struct task {
    struct galvatron_model_profile model;
    struct galvatron_hardware_profile hardware;
    struct galvatron_preset preset;
    struct memwall_source memwall;
    struct galvatron_source source;
    struct galvatron_request request;
    struct galvatron_result result;
    struct search *search;
    struct error error;
};

struct search {
    const struct planner_request *request;
    struct planner_answer *answer;
    enum galvatron_variant variant;
    enum preset preset;
    struct task *tasks; /* [budget_count] */
    atomic_bool stop;
};

static bool is_on(enum choice choice, bool as_preset)
{
    return choice == AS_PRESET ? as_preset : choice == CHOICE_ON;
}

/* ---- costs and rules ---- */

/* The authors' tables where they know the model and the machine; else what their profiler would measure here. */
static enum status find_profiles(const struct scenario *scenario, struct task *task, struct error *error)
{
    bool titan = strcmp(scenario->machine.name, "titan-rtx-8-galvatron") == 0 && scenario->cluster.gpus == 8;
    if (titan && galvatron_table_model(scenario->model.name, &task->model, NULL) == STATUS_OK) {
        galvatron_table_titan(&task->hardware);
        return STATUS_OK;
    }
    return galvatron_profile_of_scenario(scenario, &task->model, &task->hardware, error);
}

static enum status open_preset(struct search *s, struct task *task, struct error *error)
{
    static const enum galvatron_preset_kind kinds[] = {
        [PRESET_V1] = GALVATRON_V1, [PRESET_G2] = GALVATRON_G2, [PRESET_HEAD] = GALVATRON_HEAD
    };
    const double *values = s->request->parameters.value;
    TRY(find_profiles(s->request->scenario, task, error));
    TRY(galvatron_preset_init(&task->preset, kinds[s->preset], &task->model, &task->hardware, error));
    task->preset.zero2 = is_on((enum choice)values[P_ZERO2], task->preset.zero2);
    task->preset.recompute_peak = is_on((enum choice)values[P_RECOMPUTE_PEAK], task->preset.recompute_peak);
    if (values[P_RECOMPUTE_COST] > COST_PRESET) {
        task->preset.recompute_forward = values[P_RECOMPUTE_COST] < COST_WHOLE ? 0.5 : 1;
    }
    galvatron_preset_source(&task->preset, &task->source);
    return STATUS_OK;
}

/* The rules of search that go with each code. */
static void set_rules(struct search *s, struct galvatron_request *request)
{
    switch (s->preset) {
    case PRESET_MEMWALL:
        galvatron_request_init(request, request->source, s->variant);
        request->order = GALVATRON_ORDER_G2;
        request->micro = GALVATRON_MICRO_DIVISORS;
        request->whole_batches = true;
        break;
    case PRESET_V1: galvatron_request_init(request, request->source, GALVATRON_VARIANT_V1); break;
    case PRESET_G2:
    case PRESET_HEAD:
        galvatron_request_init(request, request->source, GALVATRON_VARIANT_BASE);
        request->order = GALVATRON_ORDER_G2;
        request->partition = s->preset == PRESET_G2 ? GALVATRON_PARTITION_G2 : GALVATRON_PARTITION_EVEN;
        request->micro = s->preset == PRESET_G2 ? GALVATRON_MICRO_OF_SOURCE : GALVATRON_MICRO_DIVISORS;
        request->one_f_one_b = request->whole_batches = request->reserve = true;
        break;
    }
}

static bool listen(void *context, const struct galvatron_progress *progress)
{
    const struct task *task = context;
    (void)progress;
    return !atomic_load(&task->search->stop);
}

static void set_request(struct search *s, struct task *task, double budget_bytes)
{
    const double *values = s->request->parameters.value;
    bool memwall = s->preset == PRESET_MEMWALL;
    uint32_t scenario_batch = (uint32_t)s->request->scenario->plan.global_batch,
             gpus = s->request->scenario->cluster.gpus;
    struct galvatron_request *request = &task->request;
    request->source = &task->source;
    set_rules(s, request);
    request->space = (enum galvatron_space)values[P_SPACE];
    request->reserve = is_on((enum choice)values[P_RESERVE], request->reserve);
    request->tensor_max = (uint32_t)values[P_MAX_TENSOR];
    request->pipeline_max = (uint32_t)values[P_MAX_PIPELINE];
    request->budget_mib = budget_bytes / MIB;
    uint32_t first = (uint32_t)values[P_BATCH_FIRST], step = (uint32_t)values[P_BATCH_STEP];
    request->batch_first = first > 0 ? first : memwall ? scenario_batch : 8;
    request->batch_step = step > 0 ? step : memwall ? gpus : 8;
    request->batch_max = (uint32_t)values[P_BATCH_MAX];
    if (request->batch_max == 0 &&
        s->preset != PRESET_V1) { /* with 1F1B memory does not grow with the batch: there is no end to find */
        uint32_t most = memwall || scenario_batch > BATCHES_A_GPU * gpus ? scenario_batch : BATCHES_A_GPU * gpus;
        request->batch_max = most > request->batch_first ? most : request->batch_first;
    }
    static const enum galvatron_form forms[] = {
        [FORMULA_G2] = GALVATRON_FORM_G2, [FORMULA_SYNC] = GALVATRON_FORM_SYNC, [FORMULA_HEAD] = GALVATRON_FORM_HEAD
    };
    if (values[P_FORMULA] > FORMULA_PRESET) {
        task->source.form = forms[(int)values[P_FORMULA]];
    }
    request->progress = listen;
    request->progress_context = task;
}

static enum status run_task(struct search *s, struct task *task, double budget_bytes, struct error *error)
{
    enum status status = s->preset == PRESET_MEMWALL
                             ? memwall_source_open(&task->memwall, s->request->scenario, &task->source, error)
                             : open_preset(s, task, error);
    TRY(status);
    set_request(s, task, budget_bytes);
    TRY(galvatron_search(&task->request, &task->result, error));
    if (task->memwall.status != STATUS_OK) {
        if (error != NULL) {
            *error = task->memwall.error;
        }
        return task->memwall.status;
    }
    return STATUS_OK;
}

static void run_one(void *context, uint32_t index)
{
    struct search *s = context;
    struct task *task = &s->tasks[index];
    task->search = s;
    task->error.status = run_task(s, task, s->request->budgets_bytes[index], &task->error);
}

static bool look(void *context, uint32_t done, uint32_t total)
{
    struct search *s = context;
    const struct planner_progress progress = { "searching budgets", done, total, 0 };
    if (s->request->progress != NULL && !s->request->progress(s->request->progress_context, &progress)) {
        atomic_store(&s->stop, true);
    }
    return !atomic_load(&s->stop);
}

/* ---- the answer ---- */

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
}

static enum status copy_stages(struct search *s, const struct galvatron_plan *found, struct planner_stage **stages,
                               struct error *error)
{
    *stages = arena_array(&s->answer->arena, struct planner_stage, found->pipeline);
    if (*stages == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < found->pipeline; i++) {
        (*stages)[i] = (struct planner_stage){ .layers = found->stages[i].layers,
                                               .time_s = found->stages[i].compute_s,
                                               .memory_bytes = found->stages[i].memory_mib * MIB,
                                               .leftover_bytes = found->stages[i].leftover_mib * MIB };
    }
    return STATUS_OK;
}

static enum status label_layers(struct search *s, const struct galvatron_plan *found, struct planner_choice *choice,
                                struct error *error)
{
    choice->layers = arena_array(&s->answer->arena, const char *, found->layer_count);
    choice->layer_count = found->layer_count;
    for (uint32_t i = 0; choice->layers != NULL && i < found->layer_count; i++) {
        char text[GALVATRON_STRATEGY_TEXT_BYTES];
        bool same = i > 0 && galvatron_strategy_equal(&found->layers[i], &found->layers[i - 1]);
        choice->layers[i] = same ? choice->layers[i - 1]
                                 : arena_text(&s->answer->arena, galvatron_strategy_text(&found->layers[i], text));
        if (choice->layers[i] == NULL) {
            return no_memory(error);
        }
    }
    return choice->layers != NULL ? STATUS_OK : no_memory(error);
}

/* `why`: why there is no plan to simulate; "" where there is. */
static enum status fill_choice(struct search *s, const struct galvatron_plan *found, struct oracle *oracle,
                               struct planner_choice *choice, char *why, size_t why_size, struct error *error)
{
    *choice = (struct planner_choice){ .stage_count = found->pipeline,
                                       .global_batch = (int64_t)(found->batch + 0.5),
                                       .pipeline = found->pipeline,
                                       .step_time_s = found->step_s,
                                       .samples_per_s = found->samples_per_s,
                                       .alpha_t = found->alpha_t,
                                       .alpha_m = found->alpha_m };
    why[0] = '\0';
    TRY(copy_stages(s, found, &choice->stages, error));
    TRY(label_layers(s, found, choice, error));
    for (uint32_t i = 0; i < found->pipeline; i++) {
        choice->peak_bytes = fmax(choice->peak_bytes, choice->stages[i].memory_bytes);
    }
    int64_t plain_zero = s->preset != PRESET_MEMWALL && s->tasks[0].preset.zero2 ? 2 : 0;
    TRY(galvatron_to_plan(s->request->scenario, found, plain_zero, &choice->plan, &choice->has_plan, why, why_size,
                          &s->answer->arena, error));
    if (choice->has_plan) {
        const struct plan *plan = &choice->plan;
        TRY(oracle_ask(oracle, &plan, 1, &choice->simulated, NULL, NULL, error));
        choice->is_simulated = true;
    }
    return STATUS_OK;
}

static enum status tell_simulated(struct search *s, struct planner_result *result, const char *why, struct error *error)
{
    const struct planner_choice *best = &result->best;
    if (!best->is_simulated) {
        return planner_reason(s->answer, result, error, "not simulated: %s", why);
    }
    if (best->simulated.verdict != ORACLE_RAN) {
        return planner_reason(s->answer, result, error, "the simulator refuses it: %s", best->simulated.reason);
    }
    bool fits = (double)best->simulated.peak_bytes <= result->budget_bytes;
    return planner_reason(s->answer, result, error,
                          "cost model and simulator: %.6g s and %.6g s a step (%+.3g %%), %.4g and %.4g GiB%s",
                          best->step_time_s, best->simulated.step_time_s,
                          100 * (best->step_time_s / best->simulated.step_time_s - 1), best->peak_bytes / GIB,
                          (double)best->simulated.peak_bytes / GIB, fits ? "" : ": by the simulator it does not fit");
}

static enum status add_reasons(struct search *s, const struct task *task, struct planner_result *result,
                               const char *why, struct error *error)
{
    const struct galvatron_result *found = &task->result;
    double least = INFINITY;
    uint32_t fullest = 0;
    for (uint32_t i = 0; i < found->best.pipeline; i++) {
        if (found->best.stages[i].leftover_mib < least) {
            least = found->best.stages[i].leftover_mib;
            fullest = i;
        }
    }
    const char *rules = found->best.found_by != NULL ? found->best.found_by : galvatron_variant_name(s->variant);
    bool memwall = s->preset == PRESET_MEMWALL;
    TRY(planner_reason(s->answer, result, error, "found by the rules of %s%s, batch %.0f in %" PRIu32 " micro-batches",
                       memwall ? "" : "preset ", memwall ? rules : PRESETS[s->preset], found->best.batch,
                       found->best.micro_batches));
    for (uint32_t i = 0; i < found->runner_up_count && i < 1; i++) {
        const struct galvatron_plan *next = &found->runners_up[i];
        TRY(planner_reason(s->answer, result, error,
                           "the best with pipeline %" PRIu32 " would make %.6g samples/s (batch %.0f), %.3g %% fewer",
                           next->pipeline, next->samples_per_s, next->batch,
                           100 * (1 - next->samples_per_s / found->best.samples_per_s)));
    }
    TRY(planner_reason(s->answer, result, error,
                       "memory: stage %" PRIu32 " has %.0f MiB of %.6g GiB left; the largest batch that fits is %.0f",
                       fullest, least, result->budget_bytes / GIB, found->largest_batch));
    if (found->has_unbalanced) {
        TRY(planner_reason(s->answer, result, error,
                           "balancing raises %.6g samples/s of memory-balanced stages to %.6g",
                           found->unbalanced.samples_per_s, found->best.samples_per_s));
    }
    if (s->preset != PRESET_MEMWALL) {
        TRY(planner_reason(s->answer, result, error,
                           "preset %s has its own rules of search; those of planner %s apply with preset memwall",
                           PRESETS[s->preset], galvatron_variant_name(s->variant)));
        if (task->model.mixed != (dtype_bytes(s->request->scenario->plan.precision) == 2)) {
            TRY(planner_reason(s->answer, result, error,
                               "the profile is of %s training, the scenario (and its simulation) of %s",
                               task->model.mixed ? "mixed" : "fp32", dtype_word(s->request->scenario->plan.precision)));
        }
    }
    return tell_simulated(s, result, why, error);
}

static enum status fill_result(struct search *s, const struct task *task, struct oracle *oracle,
                               struct planner_result *result, struct error *error)
{
    const struct galvatron_result *found = &task->result;
    char why[256], unused[256];
    s->answer->interrupted = s->answer->interrupted || found->interrupted;
    s->answer->configurations += found->searches + found->skipped;
    s->answer->screened += found->searches;
    s->answer->pruned += found->skipped;
    result->found = found->found;
    if (!found->found) {
        result->smallest_budget_bytes = found->smallest_budget_mib * MIB;
        return planner_reason(s->answer, result, error,
                              result->smallest_budget_bytes > 0
                                  ? "no plan fits %.6g GiB; the smallest budget that would do is %.6g GiB"
                                  : "no plan fits %.6g GiB, whatever the batch",
                              result->budget_bytes / GIB, result->smallest_budget_bytes / GIB);
    }
    TRY(fill_choice(s, &found->best, oracle, &result->best, why, sizeof why, error));
    uint32_t count = found->runner_up_count < s->request->top ? found->runner_up_count : s->request->top;
    result->runners_up = arena_array(&s->answer->arena, struct planner_choice, count);
    if (result->runners_up == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < count; i++) {
        TRY(fill_choice(s, &found->runners_up[i], oracle, &result->runners_up[result->runner_up_count++], unused,
                        sizeof unused, error));
    }
    if (found->has_unbalanced) {
        TRY(copy_stages(s, &found->unbalanced, &result->unbalanced, error));
        result->unbalanced_count = found->unbalanced.pipeline;
        result->unbalanced_alpha_t = found->unbalanced.alpha_t;
        result->unbalanced_alpha_m = found->unbalanced.alpha_m;
        result->unbalanced_step_time_s = found->unbalanced.step_s;
    }
    return add_reasons(s, task, result, why, error);
}

static enum status fill_answer(struct search *s, struct error *error)
{
    struct oracle *oracle;
    TRY(oracle_open(&oracle, s->request->scenario, s->request->threads, error));
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < s->request->budget_count && status == STATUS_OK; i++) {
        if (s->tasks[i].error.status != STATUS_OK) {
            status = s->tasks[i].error.status;
            if (error != NULL) {
                *error = s->tasks[i].error;
            }
        } else {
            status = fill_result(s, &s->tasks[i], oracle, &s->answer->results[i], error);
        }
    }
    s->answer->simulated = oracle_simulations(oracle);
    oracle_close(oracle);
    return status;
}

static enum status search(const struct planner_request *request, struct planner_answer *answer,
                          enum galvatron_variant variant, struct error *error)
{
    struct search s = { .request = request, .answer = answer, .variant = variant };
    s.preset = (enum preset)request->parameters.value[P_PRESET];
    TRY(galvatron_check_gpus(request->scenario->cluster.gpus, error));
    if (strcmp(request->scenario->plan.policy, "resident") != 0) {
        return error_at(
            error, STATUS_UNSUPPORTED, NULL, "$.memory_policy",
            "the Galvatron planners know memory that stays on the device: memory policy \"resident\", not \"%s\"",
            request->scenario->plan.policy);
    }
    answer->cost_model = s.preset == PRESET_MEMWALL
                             ? "our model graph and machine (strategies/planners/galvatron_planner_costs.h)"
                             : "Galvatron's own formulas and profiles (strategies/planners/galvatron_cost.h)";
    s.tasks = arena_array(&answer->arena, struct task, request->budget_count);
    if (s.tasks == NULL) {
        return no_memory(error);
    }
    atomic_init(&s.stop, false);
    uint32_t begun = oracle_parallel(request->threads, request->budget_count, run_one, &s, look, &s);
    answer->interrupted = begun < request->budget_count;
    enum status status = fill_answer(&s, error);
    for (uint32_t i = 0; i < request->budget_count; i++) {
        galvatron_result_free(&s.tasks[i].result);
        if (s.preset == PRESET_MEMWALL) {
            memwall_source_close(&s.tasks[i].memwall);
        } else {
            galvatron_preset_free(&s.tasks[i].preset);
        }
    }
    return status;
}

#define VARIANT(variant, symbol, title, text)                                                                          \
    static enum status search_##symbol(const struct planner_request *request, struct planner_answer *answer,           \
                                       struct error *error)                                                            \
    {                                                                                                                  \
        return search(request, answer, variant, error);                                                                \
    }                                                                                                                  \
    const struct planner planner_##symbol = {                                                                          \
        .abi = PLANNER_ABI,                                                                                            \
        .name = title,                                                                                                 \
        .summary = text,                                                                                               \
        .paper = "Wang et al., IEEE TKDE 2024 (arXiv 2307.02031); Miao et al., VLDB 2023 (arXiv 2211.13878)",          \
        .parameters = PARAMETERS,                                                                                      \
        .parameter_count = PARAMETER_COUNT,                                                                            \
        .search = search_##symbol,                                                                                     \
    };

VARIANT(GALVATRON_VARIANT_BMW, galvatron_bmw, "galvatron-bmw",
        "pipeline degree, stage boundaries balanced in time and memory, a strategy (data, sharded data, tensor, "
        "recomputation) for every layer by dynamic programme, 1F1B")
VARIANT(GALVATRON_VARIANT_V1, galvatron, "galvatron",
        "a strategy for every layer by dynamic programme; GPipe, no recomputation")
VARIANT(GALVATRON_VARIANT_BASE, galvatron_base, "galvatron-base", "galvatron with recomputation")
VARIANT(GALVATRON_VARIANT_BIOBJ, galvatron_biobj, "1f1b-biobj", "1F1B and balanced stages, no recomputation")
