/* The outer loop: batches, pipeline degrees, micro-batch counts; the best of all, the best of every degree, and variants (facts/galvatron-bmw.md B.3). */
#include "strategies/planners/galvatron_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json.h"
#include "strategies/planners/galvatron_internal.h"

enum {
    STRATEGY_DEGREES = GALVATRON_DEGREES,
    SEARCHES_MAX = GALVATRON_SPACE_COUNT + GALVATRON_VARIANT_COUNT,
    CANDIDATES_MAX = SEARCHES_MAX * STRATEGY_DEGREES
};

static const double RESERVE_FROM_MIB = 20 * 1024; /* budgets above lose RESERVE_SHARE to the caching allocator (C.1) */
static const double RESERVE_SHARE = 0.2;
/* A bound must beat what was found by more than rounding. */
static const double BOUND_MARGIN = 1e-9;

struct search {
    const struct galvatron_request *request; /* the caller's */
    struct galvatron_request rules;          /* of the variant under way */
    const char *variant;
    struct galvatron_result *result;
    struct galvatron_candidate own[STRATEGY_DEGREES];  /* of the variant under way; step_s 0: none */
    struct galvatron_plan by_degree[STRATEGY_DEGREES]; /* of all variants so far */
    int64_t budget_mib;
    bool stop;
    double needs_mib; /* least budget that the first batch asks for */
};

static const char *const VARIANT_NAMES[] = {
#define X(name, word, summary) word,
    GALVATRON_VARIANT_TABLE(X)
#undef X
};

const char *galvatron_variant_name(enum galvatron_variant variant)
{
    CHECK(variant < GALVATRON_VARIANT_COUNT);
    return VARIANT_NAMES[variant];
}

enum status galvatron_variant_find(const char *name, enum galvatron_variant *variant, struct error *error)
{
    for (uint32_t i = 0; i < GALVATRON_VARIANT_COUNT; i++) {
        if (strcmp(name, VARIANT_NAMES[i]) == 0) {
            *variant = (enum galvatron_variant)i;
            return STATUS_OK;
        }
    }
    const char *near = nearest_word(name, VARIANT_NAMES, GALVATRON_VARIANT_COUNT);
    return error_set(error, STATUS_NOT_FOUND,
                     "unknown variant \"%s\"%s%s%s; known: galvatron, galvatron-base, 1f1b-biobj, galvatron-bmw", name,
                     near != NULL ? " (did you mean \"" : "", near != NULL ? near : "", near != NULL ? "\"?)" : "");
}

static void set_variant(struct galvatron_request *request, enum galvatron_variant variant)
{
    bool balanced = variant == GALVATRON_VARIANT_BIOBJ || variant == GALVATRON_VARIANT_BMW;
    request->recompute = variant == GALVATRON_VARIANT_BASE || variant == GALVATRON_VARIANT_BMW;
    request->one_f_one_b = balanced;
    request->partition = balanced ? GALVATRON_PARTITION_BIOBJECTIVE : GALVATRON_PARTITION_V1;
    request->include_variants = variant == GALVATRON_VARIANT_BMW;
}

void galvatron_request_init(struct galvatron_request *request, const struct galvatron_source *source,
                            enum galvatron_variant variant)
{
    *request = (struct galvatron_request){ .source = source, .batch_first = 8, .batch_step = 8 };
    request->order = source->form == GALVATRON_FORM_V1 ? GALVATRON_ORDER_V1 : GALVATRON_ORDER_G2;
    set_variant(request, variant);
}

void galvatron_request_only(struct galvatron_request *request, const char *found_by)
{
    request->include_variants = false;
    for (uint32_t space = GALVATRON_SPACE_FULL + 1; space < GALVATRON_SPACE_COUNT; space++) {
        if (strcmp(found_by, galvatron_space_name((enum galvatron_space)space)) == 0) {
            set_variant(request, GALVATRON_VARIANT_V1);
            request->space = (enum galvatron_space)space;
        }
    }
    for (uint32_t variant = 0; variant < GALVATRON_VARIANT_BMW; variant++) {
        if (strcmp(found_by, VARIANT_NAMES[variant]) == 0) {
            set_variant(request, (enum galvatron_variant)variant);
        }
    }
}

static double alpha(const struct galvatron_stage *stages, uint32_t count, bool of_time)
{
    double sum = 0, most = 0;
    for (uint32_t i = 0; i < count; i++) {
        double value = of_time ? stages[i].compute_s : stages[i].memory_mib;
        sum += value;
        most = fmax(most, value);
    }
    return sum > 0 ? 1 - most / sum : 0;
}

/* A plan of its own, in the result's arena, from a trial. */
static enum status keep_plan(struct search *search, const struct galvatron_case *c, const struct galvatron_trial *trial,
                             struct galvatron_plan *plan, struct error *error)
{
    struct arena *arena = &search->result->arena;
    uint32_t stages = c->setting.pipeline, layers = c->source->layer_count;
    *plan = (struct galvatron_plan){ .batch = c->setting.batch,
                                     .step_s = trial->step_s,
                                     .samples_per_s = c->setting.batch / trial->step_s,
                                     .pipeline = stages,
                                     .micro_batches = c->setting.micro_batches,
                                     .layer_count = layers,
                                     .one_f_one_b = c->setting.one_f_one_b,
                                     .found_by = search->variant };
    plan->stages = arena_array(arena, struct galvatron_stage, stages);
    plan->layers = arena_array(arena, struct galvatron_strategy, layers);
    if (plan->stages == NULL || plan->layers == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for a plan of %u layers", layers);
    }
    memcpy(plan->stages, trial->stages, stages * sizeof *plan->stages);
    for (uint32_t l = 0; l < layers; l++) {
        plan->layers[l] = c->strategies[trial->choice[l]];
    }
    plan->alpha_t = alpha(plan->stages, stages, true);
    plan->alpha_m = alpha(plan->stages, stages, false);
    return STATUS_OK;
}

static enum status keep_if_best(struct search *search, const struct galvatron_case *c,
                                const struct galvatron_trial *trial, const struct galvatron_trial *anchor,
                                struct error *error)
{
    struct galvatron_result *result = search->result;
    struct galvatron_candidate *own = &search->own[galvatron_log2(c->setting.pipeline)];
    double speed = c->setting.batch / trial->step_s;
    if (own->plan.step_s > 0 && speed <= own->plan.samples_per_s) {
        return STATUS_OK;
    }
    TRY(keep_plan(search, c, trial, &own->plan, error));
    own->has_unbalanced = anchor != NULL && anchor->fits;
    if (own->has_unbalanced) {
        TRY(keep_plan(search, c, anchor, &own->unbalanced, error));
    }
    if (!result->found || speed > result->best.samples_per_s) {
        result->found = true;
        result->best = own->plan;
        result->has_unbalanced = own->has_unbalanced;
        result->unbalanced = own->unbalanced;
    }
    return STATUS_OK;
}

/* One partition rule other than the bi-objective one. */
static bool cut(const struct search *search, const struct galvatron_case *c, uint32_t *partition)
{
    switch (search->rules.partition) {
    case GALVATRON_PARTITION_V1: return galvatron_partition_v1(c, partition);
    case GALVATRON_PARTITION_G2: return galvatron_partition_g2(c, partition);
    case GALVATRON_PARTITION_EVEN:
    case GALVATRON_PARTITION_BIOBJECTIVE: break;
    }
    return galvatron_partition_even(c, partition);
}

static enum status search_partitions(struct search *search, struct galvatron_case *c, struct arena *arena, bool *fits,
                                     struct error *error)
{
    const struct galvatron_result *result = search->result;
    struct galvatron_trial trial, anchor;
    TRY(galvatron_trial_init(c, &trial, arena, error));
    TRY(galvatron_trial_init(c, &anchor, arena, error));
    bool balanced = search->rules.partition == GALVATRON_PARTITION_BIOBJECTIVE;
    bool cuts = c->source->layer_count >= c->setting.pipeline;
    if (cuts && balanced) {
        TRY(galvatron_partition_balanced(c, GALVATRON_WEIGHT_MEMORY, trial.partition, error));
    } else if (cuts) {
        cuts = cut(search, c, trial.partition);
    }
    if (!cuts) {
        return STATUS_OK;
    }
    search->needs_mib = fmin(search->needs_mib, galvatron_case_needs_mib(c, trial.partition));
    *fits = galvatron_case_fits(c, trial.partition);
    double bound = c->setting.batch / galvatron_case_bound_s(c);
    double to_beat = search->request->candidates ? search->own[galvatron_log2(c->setting.pipeline)].plan.samples_per_s
                                                 : result->best.samples_per_s;
    if (to_beat > 0 && bound * (1 + BOUND_MARGIN) < to_beat) {
        search->result->skipped++;
        return STATUS_OK;
    }
    if (balanced) {
        TRY(galvatron_balance(c, &trial, &anchor, error));
    } else {
        TRY(galvatron_case_try(c, &trial, error));
    }
    *fits = *fits || trial.fits;
    return trial.fits ? keep_if_best(search, c, &trial, balanced ? &anchor : NULL, error) : STATUS_OK;
}

static enum status search_case(struct search *search, double batch, uint32_t pipeline, uint32_t micro_batches,
                               bool *fits, struct error *error)
{
    const struct galvatron_request *rules = &search->rules;
    struct galvatron_case c = { .setting = { rules->source->gpus, pipeline, batch, micro_batches, rules->one_f_one_b,
                                             rules->recompute } };
    const struct galvatron_space_limits limits = { rules->source->gpus, rules->space,      rules->order,
                                                   rules->recompute,    rules->tensor_max, rules->pipeline_max };
    c.strategy_count = galvatron_strategies(&limits, pipeline, c.strategies);
    if (c.strategy_count == 0) {
        return STATUS_OK;
    }
    TRY(galvatron_case_init(&c, rules->source, search->budget_mib, error));
    struct arena arena = { 0 };
    bool fits_here = false;
    enum status status = search_partitions(search, &c, &arena, &fits_here, error);
    *fits = *fits || fits_here;
    search->result->searches += c.searches;
    arena_free(&arena);
    galvatron_case_free(&c);
    return status;
}

static void report(struct search *search, double batch, uint32_t pipeline)
{
    const struct galvatron_request *request = search->request;
    const struct galvatron_result *result = search->result;
    const struct galvatron_progress progress = { batch, pipeline, result->searches,
                                                 result->found ? result->best.samples_per_s : 0 };
    if (request->progress != NULL && !request->progress(request->progress_context, &progress)) {
        search->stop = true;
    }
}

/* All micro-batch counts of one (batch, degree). */
static enum status search_degree(struct search *search, uint32_t batch, uint32_t pipeline, bool *fits,
                                 struct error *error)
{
    const struct galvatron_source *source = search->rules.source;
    if (search->rules.whole_batches && batch % (source->gpus / pipeline) != 0) {
        return STATUS_OK;
    }
    if (search->rules.micro == GALVATRON_MICRO_OF_SOURCE) {
        uint32_t m = source->micro_batches(source->context, batch, pipeline);
        return m == 0 ? STATUS_OK : search_case(search, batch, pipeline, m, fits, error);
    }
    for (uint32_t m = pipeline; m <= batch && !search->stop; m++) {
        /* Each device's samples must make m whole pieces at the least. */
        if (batch % m == 0 && (double)batch * pipeline / source->gpus >= m) {
            TRY(search_case(search, batch, pipeline, m, fits, error));
            report(search, batch, pipeline);
        }
    }
    return STATUS_OK;
}

/* What the variant has found joins the others'. */
static void close_variant(struct search *search)
{
    struct galvatron_result *result = search->result;
    for (uint32_t i = 0; i < STRATEGY_DEGREES; i++) {
        const struct galvatron_candidate *own = &search->own[i];
        if (own->plan.step_s > 0 && result->candidates != NULL) {
            CHECK(result->candidate_count < CANDIDATES_MAX);
            result->candidates[result->candidate_count++] = *own;
        }
        if (own->plan.step_s > 0 && !(own->plan.samples_per_s <= search->by_degree[i].samples_per_s)) {
            search->by_degree[i] = own->plan;
        }
    }
    memset(search->own, 0, sizeof search->own);
}

/* One variant: batches upwards until no degree fits. */
static enum status search_variant(struct search *search, struct error *error)
{
    const struct galvatron_request *rules = &search->rules;
    bool fits = true, any_tried = true;
    for (uint64_t batch = rules->batch_first; fits && !search->stop && batch <= UINT32_MAX;
         batch += rules->batch_step) {
        if (rules->batch_max != 0 && batch > rules->batch_max) {
            break;
        }
        fits = false;
        any_tried = !rules->whole_batches;
        for (uint32_t pipeline = 1; pipeline <= rules->source->gpus && !search->stop; pipeline *= 2) {
            any_tried = any_tried || batch % (rules->source->gpus / pipeline) == 0;
            TRY(search_degree(search, (uint32_t)batch, pipeline, &fits, error));
            report(search, (double)batch, pipeline);
        }
        if (fits && (double)batch > search->result->largest_batch) {
            search->result->largest_batch = (double)batch;
        }
        fits = fits || !any_tried;
    }
    close_variant(search);
    return STATUS_OK;
}

/* Everything galvatron-bmw must not be worse than: single dimensions, pairs and variants, by their own rules. */
static enum status search_variants(struct search *search, struct error *error)
{
    bool any_space = search->request->space == GALVATRON_SPACE_FULL;
    for (uint32_t space = GALVATRON_SPACE_FULL + 1; any_space && space < GALVATRON_SPACE_COUNT && !search->stop;
         space++) {
        search->rules = *search->request;
        set_variant(&search->rules, GALVATRON_VARIANT_V1);
        search->rules.space = (enum galvatron_space)space;
        search->variant = galvatron_space_name((enum galvatron_space)space);
        TRY(search_variant(search, error));
    }
    for (uint32_t variant = 0; variant < GALVATRON_VARIANT_BMW && !search->stop; variant++) {
        search->rules = *search->request;
        set_variant(&search->rules, (enum galvatron_variant)variant);
        search->variant = VARIANT_NAMES[variant];
        TRY(search_variant(search, error));
    }
    return STATUS_OK;
}

/* Of equals the one with fewer stages. */
static int faster_first(const void *a, const void *b)
{
    const struct galvatron_plan *x = a, *y = b;
    if (x->samples_per_s != y->samples_per_s) {
        return x->samples_per_s > y->samples_per_s ? -1 : 1;
    }
    return (x->pipeline > y->pipeline) - (x->pipeline < y->pipeline);
}

static enum status list_runners_up(struct search *search, struct error *error)
{
    struct galvatron_result *result = search->result;
    result->runners_up = arena_array(&result->arena, struct galvatron_plan, STRATEGY_DEGREES);
    if (result->runners_up == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for the runners-up");
    }
    for (uint32_t i = 0; i < STRATEGY_DEGREES; i++) {
        if (search->by_degree[i].step_s > 0 && search->by_degree[i].pipeline != result->best.pipeline) {
            result->runners_up[result->runner_up_count++] = search->by_degree[i];
        }
    }
    qsort(result->runners_up, result->runner_up_count, sizeof *result->runners_up, faster_first);
    return STATUS_OK;
}

/* Several variants may find the same plan speed: the first variant stays first. */
static void sort_candidates(struct galvatron_result *result)
{
    for (uint32_t i = 1; i < result->candidate_count; i++) {
        struct galvatron_candidate item = result->candidates[i];
        uint32_t at = i;
        for (; at > 0 && faster_first(&result->candidates[at - 1].plan, &item.plan) > 0; at--) {
            result->candidates[at] = result->candidates[at - 1];
        }
        result->candidates[at] = item;
    }
}

static enum status check_request(const struct galvatron_request *request, struct error *error)
{
    const struct galvatron_source *source = request->source;
    TRY(galvatron_check_gpus(source->gpus, error));
    if (!(request->budget_mib > 0) || request->budget_mib >= GALVATRON_DP_NO_FIT_MIB) {
        return error_set(error, STATUS_BAD_INPUT, "budget of %g MiB a device; more than 0 and less than %d are allowed",
                         request->budget_mib, GALVATRON_DP_NO_FIT_MIB);
    }
    if (source->layer_count < 1 || source->kind_count < 1 || source->kind_count > GALVATRON_KINDS_MAX) {
        return error_set(error, STATUS_BAD_INPUT,
                         "%u layers of %u kinds; at least one layer and 1 to %d kinds are allowed", source->layer_count,
                         source->kind_count, GALVATRON_KINDS_MAX);
    }
    if (request->batch_first < 1 || request->batch_step < 1 ||
        (request->batch_max != 0 && request->batch_max < request->batch_first)) {
        return error_set(error, STATUS_BAD_INPUT,
                         "batches from %u to %u by %u; the first and the step must be at least 1, and the last no less "
                         "than the first",
                         request->batch_first, request->batch_max, request->batch_step);
    }
    return STATUS_OK;
}

enum status galvatron_search(const struct galvatron_request *request, struct galvatron_result *result,
                             struct error *error)
{
    *result = (struct galvatron_result){ 0 };
    TRY(check_request(request, error));
    struct search search = { .request = request, .result = result, .needs_mib = INFINITY };
    enum status status = STATUS_OK;
    double budget = request->budget_mib;
    bool reserved = request->reserve && budget > RESERVE_FROM_MIB;
    search.budget_mib = (int64_t)(reserved ? round(budget * (1 - RESERVE_SHARE)) : floor(budget));
    if (request->candidates) {
        result->candidates = arena_array(&result->arena, struct galvatron_candidate, CANDIDATES_MAX);
        if (result->candidates == NULL) {
            TRY_OR_FAIL(error_set(error, STATUS_NO_MEMORY, "no memory for %d candidates", CANDIDATES_MAX));
        }
    }
    if (request->include_variants) {
        TRY_OR_FAIL(search_variants(&search, error));
    }
    search.rules = *request;
    bool bmw = request->include_variants || (request->one_f_one_b && request->recompute);
    search.variant = bmw                                      ? VARIANT_NAMES[GALVATRON_VARIANT_BMW]
                     : request->space != GALVATRON_SPACE_FULL ? galvatron_space_name(request->space)
                     : request->one_f_one_b                   ? VARIANT_NAMES[GALVATRON_VARIANT_BIOBJ]
                     : request->recompute                     ? VARIANT_NAMES[GALVATRON_VARIANT_BASE]
                                                              : VARIANT_NAMES[GALVATRON_VARIANT_V1];
    if (!search.stop) {
        TRY_OR_FAIL(search_variant(&search, error));
    }
    result->interrupted = search.stop;
    if (result->found) {
        TRY_OR_FAIL(list_runners_up(&search, error));
        sort_candidates(result);
    } else if (isfinite(search.needs_mib)) {
        double needs = search.needs_mib;
        bool above = request->reserve && needs > RESERVE_FROM_MIB;
        result->smallest_budget_mib = above ? fmax(ceil(needs / (1 - RESERVE_SHARE)), needs) : needs;
    }
    return STATUS_OK;
fail:
    galvatron_result_free(result);
    return status;
}

void galvatron_result_free(struct galvatron_result *result)
{
    arena_free(&result->arena);
    *result = (struct galvatron_result){ 0 };
}

char *galvatron_plan_text(const struct galvatron_plan *plan)
{
    size_t size = 64 + (size_t)plan->layer_count * (GALVATRON_STRATEGY_TEXT_BYTES + 12), used = 0;
    char *text = malloc(size);
    if (text == NULL) {
        return NULL;
    }
    text[0] = '\0';
    for (uint32_t layer = 0, run; layer < plan->layer_count; layer += run) {
        char name[GALVATRON_STRATEGY_TEXT_BYTES];
        run = 1;
        while (layer + run < plan->layer_count &&
               galvatron_strategy_equal(&plan->layers[layer], &plan->layers[layer + run])) {
            run++;
        }
        used += (size_t)snprintf(text + used, size - used, "%s%s x%u", used > 0 ? " " : "",
                                 galvatron_strategy_text(&plan->layers[layer], name), run);
    }
    return text;
}
