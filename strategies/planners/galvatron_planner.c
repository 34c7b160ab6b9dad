/* Planners `galvatron`, `galvatron-base`, `1f1b-biobj`, `galvatron-bmw`: the search of galvatron_search.h on a scenario; its best plans simulated. */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "strategies/planners/galvatron_exchange.h"
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
    P_SIMULATE,
    PARAMETER_COUNT
};
enum { BATCHES_A_GPU = 16 }; /* of g2 and head, at most, unless asked otherwise */
enum choice { AS_PRESET, CHOICE_ON, CHOICE_OFF };
enum formula { FORMULA_PRESET, FORMULA_V1, FORMULA_G2, FORMULA_SYNC, FORMULA_HEAD };
enum recompute_cost { COST_PRESET, COST_HALF, COST_WHOLE };

static const char *const PRESETS[] = { "memwall", "v1", "g2", "head", NULL };
static const char *const SPACES[] = {
#define X(name, word) word,
    GALVATRON_SPACE_TABLE(X)
#undef X
        NULL
};
static const char *const CHOICES[] = { "preset", "on", "off", NULL };
static const char *const FORMULAS[] = { "preset", "v1", "g2", "sync", "head", NULL };
static const enum galvatron_form FORMS[] = { [FORMULA_V1] = GALVATRON_FORM_V1,
                                             [FORMULA_G2] = GALVATRON_FORM_G2,
                                             [FORMULA_SYNC] = GALVATRON_FORM_SYNC,
                                             [FORMULA_HEAD] = GALVATRON_FORM_HEAD };
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
                    "pipeline formula: shares of layers, (P+m-1)/P C + T - C each (v1), (m-1+P) max C + tail (g2), sum "
                    "T + "
                    "(m-1) max C (sync), first and last chains (head)" },
    [P_RECOMPUTE_COST] = { "recompute_cost", PARAMETER_WORD, "", 0, 0, COST_PRESET, RECOMPUTE_COSTS,
                           "presets g2, head: forward passes charged for a recomputed layer, half a one (as g2) or a "
                           "whole one; memwall charges what is repeated" },
    [P_ZERO2] = { "zero2", PARAMETER_WORD, "", 0, 0, AS_PRESET, CHOICES,
                  "plain data parallelism is ZeRO-2 "
                  "(gradients and optimizer sharded); memwall's preset tries both in the full space" },
    [P_RESERVE] = { "reserve", PARAMETER_WORD, "", 0, 0, AS_PRESET, CHOICES,
                    "budgets above 20 GiB lose a fifth to the caching allocator" },
    [P_RECOMPUTE_PEAK] = { "recompute_peak", PARAMETER_WORD, "", 0, 0, AS_PRESET, CHOICES,
                           "presets g2, head: a stage pays one whole layer's activations where recomputation is "
                           "allowed" },
    [P_SIMULATE] = { "simulate", PARAMETER_INT, "plans", 1, 1000, 500, NULL,
                     "memwall: so many plans of each budget at most are simulated, the best by the cost model of every "
                     "pipeline degree and variant, and the fastest that fits is the answer" },
};

static bool is_on(enum choice choice, bool as_preset)
{
    return choice == AS_PRESET ? as_preset : choice == CHOICE_ON;
}

/* ---- costs and rules ---- */

/* Files first; else the authors' tables where they know the model and the machine; else what their profiler would measure here. */
static enum status find_profiles(const struct planner_request *request, struct galvatron_task *task,
                                 struct error *error)
{
    const struct scenario *scenario = request->scenario;
    if (request->profile_count > 0) {
        TRY(galvatron_profile_of_scenario(scenario, &task->model, &task->hardware, error));
        return galvatron_profiles_load(request->profiles, request->profile_count, scenario, &task->model,
                                       &task->hardware, error);
    }
    bool titan = strcmp(scenario->machine.name, "titan-rtx-8-galvatron") == 0 && scenario->cluster.gpus == 8;
    if (titan && galvatron_table_model(scenario->model.name, &task->model, NULL) == STATUS_OK) {
        galvatron_table_titan(&task->hardware);
        return STATUS_OK;
    }
    return galvatron_profile_of_scenario(scenario, &task->model, &task->hardware, error);
}

static enum status open_preset(struct galvatron_planning *s, struct galvatron_task *task, struct error *error)
{
    static const enum galvatron_preset_kind kinds[] = {
        [PRESET_V1] = GALVATRON_V1, [PRESET_G2] = GALVATRON_G2, [PRESET_HEAD] = GALVATRON_HEAD
    };
    const double *values = s->request->parameters.value;
    TRY(find_profiles(s->request, task, error));
    TRY(galvatron_preset_init(&task->preset, kinds[s->preset], &task->model, &task->hardware, error));
    task->preset.zero2 = is_on((enum choice)values[P_ZERO2], task->preset.zero2);
    task->preset.recompute_peak = is_on((enum choice)values[P_RECOMPUTE_PEAK], task->preset.recompute_peak);
    if (values[P_RECOMPUTE_COST] > COST_PRESET) {
        task->preset.recompute_forward = values[P_RECOMPUTE_COST] < COST_WHOLE ? 0.5 : 1;
    }
    if (values[P_FORMULA] > FORMULA_PRESET) {
        task->preset.form = FORMS[(int)values[P_FORMULA]];
    }
    galvatron_preset_source(&task->preset, &task->source);
    return STATUS_OK;
}

static enum status open_memwall(struct galvatron_planning *s, struct galvatron_task *task, struct error *error)
{
    double formula = s->request->parameters.value[P_FORMULA];
    TRY(memwall_source_open(&task->memwall, s->request->scenario, &task->source, error));
    task->source.form = formula > FORMULA_PRESET ? FORMS[(int)formula] : task->source.form;
    return STATUS_OK;
}

/* Switches that a preset has nothing to do with are refused, not passed over. */
static enum status check_switches(const struct galvatron_planning *s, struct error *error)
{
    static const char *const v1 = "v1 has no recomputation", *const ours = "memwall charges what is repeated and held";
    const struct {
        int parameter;
        enum galvatron_planner_preset preset;
        const char *why;
    } idle[] = { { P_RECOMPUTE_COST, PRESET_V1, v1 },
                 { P_RECOMPUTE_PEAK, PRESET_V1, v1 },
                 { P_ZERO2, PRESET_V1, "v1 has whole replicas and ZeRO-3" },
                 { P_RECOMPUTE_COST, PRESET_MEMWALL, ours },
                 { P_RECOMPUTE_PEAK, PRESET_MEMWALL, ours } };
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++) {
        if (idle[i].preset == s->preset && s->request->parameters.value[idle[i].parameter] > 0) {
            return error_at(error, STATUS_BAD_INPUT, "--variant", NULL, "preset %s has no switch %s: %s; leave it out",
                            s->preset_name, PARAMETERS[idle[i].parameter].name, idle[i].why);
        }
    }
    return STATUS_OK;
}

/* The rules of search that go with each code. */
static void set_rules(struct galvatron_planning *s, struct galvatron_request *request)
{
    switch (s->preset) {
    case PRESET_MEMWALL:
        galvatron_request_init(request, request->source, s->variant);
        request->order = GALVATRON_ORDER_G2;
        request->micro = GALVATRON_MICRO_ALL;
        request->whole_batches = request->candidates = true;
        request->zero2 = s->request->parameters.value[P_ZERO2] == CHOICE_ON;
        request->either_zero = s->request->parameters.value[P_ZERO2] == AS_PRESET;
        break;
    case PRESET_V1:
        galvatron_request_init(request, request->source, GALVATRON_VARIANT_V1);
        request->order = GALVATRON_ORDER_V1;
        break;
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
    struct galvatron_task *task = context;
    atomic_store(&task->searches, progress->searches);
    atomic_store(&task->share, progress->share);
    atomic_store(&task->best_samples_per_s, progress->best_samples_per_s);
    return !atomic_load(&task->planning->stop);
}

static void set_request(struct galvatron_planning *s, struct galvatron_task *task, double budget_bytes)
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
    request->progress = listen;
    request->progress_context = task;
}

static enum status run_task(struct galvatron_planning *s, struct galvatron_task *task, double budget_bytes,
                            struct error *error)
{
    TRY(s->preset == PRESET_MEMWALL ? open_memwall(s, task, error) : open_preset(s, task, error));
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
    struct galvatron_planning *s = context;
    struct galvatron_task *task = &s->tasks[index];
    task->planning = s;
    task->error.status = run_task(s, task, s->request->budgets_bytes[index], &task->error);
    atomic_store(&task->share, 1);
}

static bool look(void *context, uint32_t done, uint32_t total)
{
    struct galvatron_planning *s = context;
    struct planner_progress progress = { .doing = "searching" };
    (void)done;
    for (uint32_t i = 0; i < total; i++) {
        const struct galvatron_task *task = &s->tasks[i];
        progress.done += atomic_load(&task->searches);
        progress.share += atomic_load(&task->share) / total;
        progress.best_samples_per_s = fmax(progress.best_samples_per_s, atomic_load(&task->best_samples_per_s));
    }
    if (!galvatron_planner_look(s->request, &progress)) {
        atomic_store(&s->stop, true);
    }
    return !atomic_load(&s->stop);
}

static enum status search(const struct planner_request *request, struct planner_answer *answer,
                          enum galvatron_variant variant, struct error *error)
{
    struct galvatron_planning s = { .request = request, .answer = answer, .variant = variant };
    s.preset = (enum galvatron_planner_preset)request->parameters.value[P_PRESET];
    s.preset_name = PRESETS[s.preset];
    TRY(check_switches(&s, error));
    TRY(galvatron_check_gpus(request->scenario->cluster.gpus, error));
    if (request->profile_count > 0 && s.preset == PRESET_MEMWALL) {
        return error_at(error, STATUS_BAD_INPUT, "--galvatron-profile", NULL,
                        "preset memwall takes its costs from our model graph and machine; profiles are for the presets "
                        "v1, g2 and head");
    }
    if (strcmp(request->scenario->plan.policy, "resident") != 0) {
        return error_at(
            error, STATUS_UNSUPPORTED, NULL, "$.memory_policy",
            "the Galvatron planners know memory that stays on the device: memory policy \"resident\", not \"%s\"",
            request->scenario->plan.policy);
    }
    answer->cost_model = s.preset == PRESET_MEMWALL
                             ? "our model graph and machine (strategies/planners/galvatron_planner_costs.h)"
                             : "Galvatron's own formulas and profiles (strategies/planners/galvatron_cost.h)";
    s.tasks = arena_array(&answer->arena, struct galvatron_task, request->budget_count);
    if (s.tasks == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory planning");
    }
    s.simulations_max = (uint32_t)request->parameters.value[P_SIMULATE];
    atomic_init(&s.stop, false);
    uint32_t begun = oracle_parallel(request->threads, request->budget_count, run_one, &s, look, &s);
    answer->interrupted = begun < request->budget_count;
    enum status status = galvatron_planner_answer(&s, error);
    for (uint32_t i = 0; i < request->budget_count; i++) {
        galvatron_result_free(&s.tasks[i].result);
        for (uint32_t k = 0; k < s.tasks[i].again_count; k++) {
            galvatron_result_free(&s.tasks[i].again[k]);
        }
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
        .takes_profiles = true,                                                                                        \
        .search = search_##symbol,                                                                                     \
    };

VARIANT(GALVATRON_VARIANT_BMW, galvatron_bmw, "galvatron-bmw",
        "pipeline degree, stage boundaries balanced in time and memory, a strategy (data, sharded data, tensor, "
        "recomputation) for every layer by dynamic programme, 1F1B")
VARIANT(GALVATRON_VARIANT_V1, galvatron, "galvatron",
        "a strategy for every layer by dynamic programme; GPipe, no recomputation")
VARIANT(GALVATRON_VARIANT_BASE, galvatron_base, "galvatron-base", "galvatron with recomputation")
VARIANT(GALVATRON_VARIANT_BIOBJ, galvatron_biobj, "1f1b-biobj", "1F1B and balanced stages, no recomputation")
