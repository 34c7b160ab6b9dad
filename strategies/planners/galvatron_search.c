/* The outer loop: batches, pipeline degrees, micro-batch counts; the best of all, the best of every degree, and variants (facts/galvatron-bmw.md B.3). */
#include "strategies/planners/galvatron_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json.h"
#include "strategies/planners/galvatron_internal.h"

enum { STRATEGY_DEGREES = GALVATRON_DEGREES, CANDIDATES_MAX = GALVATRON_SEARCHES_MAX * STRATEGY_DEGREES };

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
    uint64_t cases;               /* tried */
    double needs_mib;             /* least budget that the first batch asks for */
    double work_done, work_total; /* of all variants (galvatron_work.c); 0: not known */
};

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
                                     .zero2 = c->setting.zero2,
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

/* Least budget of the partitions that are costed whatever comes: the one at hand, and with balancing both other anchors. Balancing goes on from those that fit, so with less nothing does. */
static enum status least_needs(const struct search *search, const struct galvatron_case *c, const uint32_t *partition,
                               struct arena *arena, double *needs_mib, struct error *error)
{
    *needs_mib = galvatron_case_needs_mib(c, partition);
    if (search->rules.partition != GALVATRON_PARTITION_BIOBJECTIVE) {
        return STATUS_OK;
    }
    uint32_t *other = arena_array(arena, uint32_t, c->setting.pipeline);
    if (other == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for a partition");
    }
    TRY(galvatron_partition_balanced(c, GALVATRON_WEIGHT_TIME, other, error));
    *needs_mib = fmin(*needs_mib, galvatron_case_needs_mib(c, other));
    (void)galvatron_partition_even(c, other);
    *needs_mib = fmin(*needs_mib, galvatron_case_needs_mib(c, other));
    return STATUS_OK;
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
    double needs_mib;
    TRY(least_needs(search, c, trial.partition, arena, &needs_mib, error));
    search->needs_mib = fmin(search->needs_mib, needs_mib);
    *fits = needs_mib <= (double)c->budget_mib;
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
                                             rules->recompute, rules->zero2 } };
    const struct galvatron_space_limits limits = { rules->source->gpus, rules->space,      rules->order,
                                                   rules->recompute,    rules->tensor_max, rules->pipeline_max };
    c.strategy_count = galvatron_strategies(&limits, pipeline, c.strategies);
    if (c.strategy_count == 0) {
        return STATUS_OK;
    }
    search->cases++;
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
                                                 search->work_total > 0 ? search->work_done / search->work_total : 0,
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
        enum status status = m == 0 ? STATUS_OK : search_case(search, batch, pipeline, m, fits, error);
        search->work_done += galvatron_case_work(&search->rules, pipeline);
        return status;
    }
    for (uint32_t m = galvatron_micro_first(&search->rules, pipeline); m <= batch && !search->stop; m++) {
        if (galvatron_micro_is_tried(&search->rules, batch, pipeline, m)) {
            TRY(search_case(search, batch, pipeline, m, fits, error));
            search->work_done += galvatron_case_work(&search->rules, pipeline);
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
    bool fits = true;
    double work_done = search->work_done + (search->work_total > 0 ? galvatron_variant_work(rules) : 0);
    for (uint64_t batch = rules->batch_first; fits && !search->stop && batch <= UINT32_MAX;
         batch += rules->batch_step) {
        if (rules->batch_max != 0 && batch > rules->batch_max) {
            break;
        }
        fits = false;
        uint64_t cases = search->cases;
        for (uint32_t pipeline = 1; pipeline <= rules->source->gpus && !search->stop; pipeline *= 2) {
            TRY(search_degree(search, (uint32_t)batch, pipeline, &fits, error));
            report(search, (double)batch, pipeline);
        }
        if (fits && (double)batch > search->result->largest_batch) {
            search->result->largest_batch = (double)batch;
        }
        /* A batch that no degree takes says nothing of larger ones. */
        bool skipped = rules->whole_batches && search->cases == cases;
        fits = fits || (skipped && (rules->batch_max != 0 || batch < rules->source->gpus));
    }
    search->work_done = work_done; /* larger batches were left out where none fitted */
    close_variant(search);
    return STATUS_OK;
}

static enum status search_variants(struct search *search, struct error *error)
{
    struct galvatron_variant_search list[GALVATRON_SEARCHES_MAX];
    uint32_t count = galvatron_list_variants(search->request, list);
    for (uint32_t i = 0; i < count; i++) {
        double work = galvatron_variant_work(&list[i].rules);
        search->work_total = work > 0 ? search->work_total + work : search->work_total;
    }
    for (uint32_t i = 0; i < count && !search->stop; i++) {
        search->rules = list[i].rules;
        search->variant = arena_text(&search->result->arena, list[i].name);
        if (search->variant == NULL) {
            return error_set(error, STATUS_NO_MEMORY, "no memory for the name of a search");
        }
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
    const struct {
        const char *name;
        uint32_t most;
    } limits[] = { { "max_tensor", request->tensor_max }, { "max_pipeline", request->pipeline_max } };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        if (limits[i].most > source->gpus) {
            return error_set(error, STATUS_BAD_INPUT, "%s is %u: there are %u GPUs, allowed are 1 to %u (0: no limit)",
                             limits[i].name, limits[i].most, source->gpus, source->gpus);
        }
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
    result->held_to_mib = reserved ? (double)search.budget_mib : budget;
    if (request->candidates) {
        result->candidates = arena_array(&result->arena, struct galvatron_candidate, CANDIDATES_MAX);
        if (result->candidates == NULL) {
            TRY_OR_FAIL(error_set(error, STATUS_NO_MEMORY, "no memory for %d candidates", CANDIDATES_MAX));
        }
    }
    TRY_OR_FAIL(search_variants(&search, error));
    result->interrupted = search.stop;
    if (result->found) {
        TRY_OR_FAIL(list_runners_up(&search, error));
        sort_candidates(result);
    } else if (!isfinite(search.needs_mib)) {
        result->nothing_tried = !search.stop;
    } else {
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
