/* One batch, pipeline degree and micro-batch count: its tables, and what a partition of it costs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "strategies/planners/galvatron_internal.h"

uint32_t galvatron_layer_mib(const struct galvatron_layer_cost *cost, double live)
{
    double mib = ceil(cost->state_mib + cost->activation_mib * live);
    return mib < GALVATRON_DP_NO_FIT_MIB ? (uint32_t)mib : GALVATRON_DP_NO_FIT_MIB;
}

static void fill_tables(struct galvatron_case *c)
{
    const struct galvatron_source *source = c->source;
    size_t n = c->strategy_count;
    for (uint32_t kind = 0; kind < source->kind_count; kind++) {
        for (uint32_t s = 0; s < n; s++) {
            struct galvatron_layer_cost *cost = &c->costs[kind * n + s];
            source->layer(source->context, kind, &c->strategies[s], &c->setting, cost);
            if (source->form == GALVATRON_FORM_V1 && !source->shares) {
                cost->search_s = cost->compute_s = cost->full_s =
                    galvatron_share_s(cost->compute_s, cost->full_s, &c->setting);
            }
            c->search_s[kind * n + s] = cost->search_s;
            for (uint32_t to = 0; to < n; to++) {
                struct galvatron_change change = { 0 };
                source->change(source->context, kind, &c->strategies[s], &c->strategies[to], &c->setting, &change);
                c->change_search_s[(kind * n + s) * n + to] = change.search_s;
                c->change_micro_s[(kind * n + s) * n + to] = change.micro_s;
            }
        }
    }
    for (uint32_t i = 0; i < c->setting.pipeline; i++) {
        c->stage_live[i] = galvatron_live_share(&c->setting, i);
        c->stage_other_mib[i] = source->other_mib(source->context, i, &c->strategies[0], &c->setting);
    }
}

enum status galvatron_case_init(struct galvatron_case *c, const struct galvatron_source *source, int64_t budget_mib,
                                struct error *error)
{
    size_t cells = (size_t)source->kind_count * c->strategy_count;
    c->source = source;
    c->budget_mib = budget_mib;
    c->solved = NULL;
    c->searches = 0;
    c->arena = (struct arena){ 0 };
    c->costs = arena_array(&c->arena, struct galvatron_layer_cost, cells);
    c->search_s = arena_array(&c->arena, double, cells);
    c->change_search_s = arena_array(&c->arena, double, cells * c->strategy_count);
    c->change_micro_s = arena_array(&c->arena, double, cells * c->strategy_count);
    c->stage_other_mib = arena_array(&c->arena, double, c->setting.pipeline);
    c->stage_live = arena_array(&c->arena, double, c->setting.pipeline);
    if (c->costs == NULL || c->search_s == NULL || c->change_search_s == NULL || c->change_micro_s == NULL ||
        c->stage_other_mib == NULL || c->stage_live == NULL) {
        galvatron_case_free(c);
        return error_set(error, STATUS_NO_MEMORY, "no memory for the cost tables of %u strategies", c->strategy_count);
    }
    fill_tables(c);
    return STATUS_OK;
}

void galvatron_case_free(struct galvatron_case *c)
{
    arena_free(&c->arena);
    c->solved = NULL;
}

static int64_t stage_least_mib(const struct galvatron_case *c, uint32_t stage, uint32_t first, uint32_t count)
{
    int64_t sum = (int64_t)ceil(c->stage_other_mib[stage]);
    int64_t least[GALVATRON_KINDS_MAX];
    for (uint32_t kind = 0; kind < c->source->kind_count; kind++) {
        least[kind] = INT64_MAX / 4096;
        for (uint32_t s = 0; s < c->strategy_count; s++) {
            int64_t mib = galvatron_layer_mib(&c->costs[(size_t)kind * c->strategy_count + s], c->stage_live[stage]);
            least[kind] = mib < least[kind] ? mib : least[kind];
        }
    }
    for (uint32_t l = first; l < first + count; l++) {
        sum += least[c->source->kinds[l]];
    }
    return sum;
}

double galvatron_case_needs_mib(const struct galvatron_case *c, const uint32_t *partition)
{
    int64_t most = 0;
    for (uint32_t i = 0, first = 0; i < c->setting.pipeline; first += partition[i++]) {
        int64_t need = stage_least_mib(c, i, first, partition[i]);
        most = need > most ? need : most;
    }
    return (double)most;
}

bool galvatron_case_fits(const struct galvatron_case *c, const uint32_t *partition)
{
    return galvatron_case_needs_mib(c, partition) <= (double)c->budget_mib;
}

static const struct galvatron_solved *find_solved(const struct galvatron_case *c, uint32_t first, uint32_t count,
                                                  double live, int64_t budget)
{
    const uint32_t *kinds = c->source->kinds;
    for (const struct galvatron_solved *s = c->solved; s != NULL; s = s->next) {
        if (s->count == count && s->live_share == live && s->budget_mib == budget &&
            memcmp(kinds + s->first, kinds + first, count * sizeof *kinds) == 0) {
            return s;
        }
    }
    return NULL;
}

/* C and T of a stage from its layers' strategies. */
static void sum_stage(const struct galvatron_case *c, struct galvatron_solved *solved)
{
    size_t n = c->strategy_count;
    for (uint32_t i = 0; i < solved->count; i++) {
        uint32_t kind = c->source->kinds[solved->first + i];
        const struct galvatron_layer_cost *cost = &c->costs[kind * n + solved->choice[i]];
        double change = i == 0 ? 0 : c->change_micro_s[(kind * n + solved->choice[i - 1]) * n + solved->choice[i]];
        solved->compute_s += cost->compute_s + change;
        solved->full_s += cost->full_s + change;
        solved->memory_mib += galvatron_layer_mib(cost, solved->live_share);
    }
}

static enum status solve_stage(struct galvatron_case *c, uint32_t stage, uint32_t first, uint32_t count,
                               const struct galvatron_solved **answer, struct error *error)
{
    double live = c->stage_live[stage];
    int64_t budget = c->budget_mib - (int64_t)ceil(c->stage_other_mib[stage]);
    *answer = find_solved(c, first, count, live, budget);
    if (*answer != NULL) {
        return STATUS_OK;
    }
    size_t cells = (size_t)c->source->kind_count * c->strategy_count;
    struct galvatron_solved *solved = arena_array(&c->arena, struct galvatron_solved, 1);
    uint32_t *mib = malloc(cells * sizeof *mib + 1);
    if (solved == NULL || mib == NULL || (solved->choice = arena_array(&c->arena, uint8_t, count + 1)) == NULL) {
        free(mib);
        return error_set(error, STATUS_NO_MEMORY, "no memory for a stage of %u layers", count);
    }
    for (size_t i = 0; i < cells; i++) {
        mib[i] = galvatron_layer_mib(&c->costs[i], live);
    }
    struct galvatron_dp dp = { .layer_count = count,
                               .kind_count = c->source->kind_count,
                               .strategy_count = c->strategy_count,
                               .kinds = c->source->kinds + first,
                               .mib = mib,
                               .cost_s = c->search_s,
                               .change_s = c->change_search_s,
                               .budget_mib = budget };
    struct galvatron_dp_answer found = { .choice = solved->choice };
    enum status status = galvatron_dp(&dp, &found, error);
    free(mib);
    TRY(status);
    c->searches++;
    solved->first = first;
    solved->count = count;
    solved->live_share = live;
    solved->budget_mib = budget;
    solved->search_s = found.cost_s;
    solved->left_mib = found.left_mib;
    if (isfinite(found.cost_s)) {
        sum_stage(c, solved);
    }
    solved->next = c->solved;
    c->solved = solved;
    *answer = solved;
    return STATUS_OK;
}

/* Form v1: stages of one kind of layer count P times the (slowest) stage, others are summed (C.4). */
static double v1_step_s(const struct galvatron_case *c, const struct galvatron_stage *stages)
{
    double sum = 0, slowest = 0;
    for (uint32_t i = 0; i < c->setting.pipeline; i++) {
        sum += stages[i].full_s;
        slowest = fmax(slowest, stages[i].full_s);
    }
    return c->source->kind_count == 1 ? slowest * c->setting.pipeline : sum;
}

static double step_s(const struct galvatron_case *c, const struct galvatron_stage *stages, double *scratch)
{
    uint32_t count = c->setting.pipeline;
    if (c->source->form == GALVATRON_FORM_V1) {
        return v1_step_s(c, stages);
    }
    for (uint32_t i = 0; i < count; i++) {
        scratch[i] = stages[i].compute_s;
        scratch[count + i] = stages[i].full_s;
    }
    return galvatron_pipeline_s(c->source->form, scratch, scratch + count, count, c->setting.micro_batches);
}

enum status galvatron_case_try(struct galvatron_case *c, struct galvatron_trial *trial, struct error *error)
{
    trial->fits = galvatron_case_fits(c, trial->partition);
    trial->step_s = INFINITY;
    bool v1 = c->source->form == GALVATRON_FORM_V1;
    for (uint32_t i = 0, first = 0; trial->fits && i < c->setting.pipeline; first += trial->partition[i++]) {
        const struct galvatron_solved *solved = NULL;
        TRY(solve_stage(c, i, first, trial->partition[i], &solved, error));
        struct galvatron_stage *stage = &trial->stages[i];
        if (!isfinite(solved->search_s)) {
            trial->fits = false;
            return STATUS_OK;
        }
        double other_s = c->source->other_s != NULL ? c->source->other_s(c->source->context, i, &c->setting) : 0;
        if (v1) {
            other_s = galvatron_share_s(other_s, other_s, &c->setting);
        }
        double other_mib = ceil(c->stage_other_mib[i]);
        *stage = (struct galvatron_stage){ .layers = trial->partition[i],
                                           .compute_s = (v1 ? solved->search_s : solved->compute_s) + other_s,
                                           .full_s = (v1 ? solved->search_s : solved->full_s) + other_s,
                                           .memory_mib = other_mib + (double)solved->memory_mib,
                                           .leftover_mib = (double)solved->left_mib };
        memcpy(trial->choice + first, solved->choice, solved->count);
    }
    if (trial->fits) {
        double *scratch = malloc(2 * (size_t)c->setting.pipeline * sizeof *scratch);
        if (scratch == NULL) {
            return error_set(error, STATUS_NO_MEMORY, "no memory for %u stages", c->setting.pipeline);
        }
        trial->step_s = step_s(c, trial->stages, scratch);
        free(scratch);
    }
    return STATUS_OK;
}

enum status galvatron_trial_init(const struct galvatron_case *c, struct galvatron_trial *trial, struct arena *arena,
                                 struct error *error)
{
    *trial = (struct galvatron_trial){ .step_s = INFINITY };
    trial->partition = arena_array(arena, uint32_t, c->setting.pipeline);
    trial->stages = arena_array(arena, struct galvatron_stage, c->setting.pipeline);
    trial->choice = arena_array(arena, uint8_t, c->source->layer_count);
    if (trial->partition == NULL || trial->stages == NULL || trial->choice == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for a partition into %u stages", c->setting.pipeline);
    }
    return STATUS_OK;
}

void galvatron_trial_copy(const struct galvatron_case *c, struct galvatron_trial *to,
                          const struct galvatron_trial *from)
{
    memcpy(to->partition, from->partition, c->setting.pipeline * sizeof *to->partition);
    memcpy(to->stages, from->stages, c->setting.pipeline * sizeof *to->stages);
    memcpy(to->choice, from->choice, c->source->layer_count);
    to->fits = from->fits;
    to->step_s = from->step_s;
}
