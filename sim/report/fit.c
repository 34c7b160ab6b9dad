/* Searches for what fits. */
#include "sim/report/fit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/model/ladder.h"
#include "sim/model/model.h"
#include "sim/plan/scenario.h"

/* A model of the list, looked up. */
struct rung {
    const char *name; /* as it was asked for */
    int64_t parameters;
};

/* What the oracle works with. */
struct climb {
    const struct fit_request *request;
    struct fit_report *report;
    size_t capacity;             /* of report->trials */
    struct rung *rungs;          /* models; NULL: batches */
    int64_t data, micro_batches; /* batches */
    struct error first;          /* the refusal of the lowest candidate, for when all are refused */
    uint32_t first_candidate;
};

enum { SET_BYTES = 4096 + 64 };

/* Trials by rising candidate: the search asks in any order. */
static enum status keep_trial(struct climb *climb, const struct fit_trial *trial, struct error *error)
{
    struct fit_report *report = climb->report;
    TRY(array_grow((void **)&report->trials, report->trial_count, &climb->capacity, 1, sizeof *report->trials, error));
    uint32_t at = report->trial_count++;
    for (; at > 0 && report->trials[at - 1].candidate > trial->candidate; at--) {
        report->trials[at] = report->trials[at - 1];
    }
    report->trials[at] = *trial;
    return STATUS_OK;
}

static enum status try_sets(struct climb *climb, uint32_t candidate, const char *const *own, uint32_t own_count,
                            enum fit_verdict *verdict, struct error *error)
{
    const struct fit_request *request = climb->request;
    const char *sets[FIT_SETS_MAX + 2];
    uint32_t count = 0;
    for (uint32_t i = 0; i < request->set_count; i++) {
        sets[count++] = request->sets[i];
    }
    for (uint32_t i = 0; i < own_count; i++) {
        sets[count++] = own[i];
    }
    struct fit_trial *trial = calloc(1, sizeof *trial);
    if (trial == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory trying what fits");
    }
    enum status status = fit_trial_run(trial, request->file, sets, count, request->reserved, error);
    trial->candidate = candidate;
    if (status == STATUS_OK && trial->name[0] == '\0' && climb->rungs != NULL) { /* refused before the model was read */
        snprintf(trial->name, sizeof trial->name, "%s", climb->rungs[candidate].name);
        trial->parameters = climb->rungs[candidate].parameters;
    }
    if (status == STATUS_OK) {
        *verdict = trial->verdict;
        if (trial->verdict == FIT_REFUSED && (climb->first.status == STATUS_OK || candidate < climb->first_candidate)) {
            error_set(&climb->first, STATUS_BAD_INPUT, "%s", trial->reason);
            climb->first_candidate = candidate;
        }
        status = keep_trial(climb, trial, error);
    }
    if (status == STATUS_OK && request->tried != NULL) {
        request->tried(request->context, trial);
    }
    free(trial);
    return status;
}

static enum status try_model(void *context, uint32_t candidate, enum fit_verdict *verdict, struct error *error)
{
    struct climb *climb = context;
    struct strbuf set = { 0 };
    strbuf_append(&set, "model=");
    strbuf_json_string(&set, climb->rungs[candidate].name);
    if (set.failed) {
        strbuf_free(&set);
        return error_set(error, STATUS_NO_MEMORY, "out of memory trying what fits");
    }
    const char *const own[] = { set.text };
    enum status status = try_sets(climb, candidate, own, 1, verdict, error);
    strbuf_free(&set);
    return status;
}

/* Candidate i is micro-batch i + 1. */
static enum status try_batch(void *context, uint32_t candidate, enum fit_verdict *verdict, struct error *error)
{
    struct climb *climb = context;
    char micro[64], global[64];
    int64_t size = (int64_t)candidate + 1;
    snprintf(micro, sizeof micro, "training.micro_batch=%" PRId64, size);
    snprintf(global, sizeof global, "training.global_batch=%" PRId64, size * climb->data * climb->micro_batches);
    const char *const own[] = { micro, global };
    return try_sets(climb, candidate, own, 2, verdict, error);
}

static enum status search(struct climb *climb, const struct fit_search *with, struct error *error)
{
    struct fit_report *report = climb->report;
    enum status status = fit_search_run(with, &report->outcome, error);
    if (status == STATUS_OK && report->outcome.all_refused) {
        status = climb->first.status;
        if (error != NULL) {
            *error = climb->first;
        }
    }
    if (status != STATUS_OK) {
        fit_free(report);
    }
    return status;
}

static int by_size(const void *a, const void *b)
{
    const struct rung *x = a, *y = b;
    if (x->parameters != y->parameters) {
        return x->parameters < y->parameters ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

static enum status look_up(const struct fit_request *request, struct rung *rungs, uint32_t *count, struct error *error)
{
    for (uint32_t i = 0; i < request->model_count; i++) {
        struct model model;
        TRY(model_load(&model, request->models[i], error));
        rungs[i] = (struct rung){ .name = request->models[i], .parameters = model_parameters(&model) };
    }
    qsort(rungs, request->model_count, sizeof *rungs, by_size);
    *count = 0;
    for (uint32_t i = 0; i < request->model_count; i++) {
        if (*count == 0 || by_size(&rungs[*count - 1], &rungs[i]) != 0) {
            rungs[(*count)++] = rungs[i];
        }
    }
    return STATUS_OK;
}

enum status fit_models(const struct fit_request *request, struct fit_report *report, struct error *error)
{
    CHECK(request->model_count > 0 && request->model_count <= FIT_MODELS_MAX && request->set_count <= FIT_SETS_MAX);
    struct climb climb = { .request = request, .report = report };
    *report = (struct fit_report){ 0 };
    climb.rungs = calloc(request->model_count, sizeof *climb.rungs);
    if (climb.rungs == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory trying what fits");
    }
    enum status status = look_up(request, climb.rungs, &report->candidates, error);
    if (status == STATUS_OK) {
        const struct fit_search with = {
            .count = report->candidates, .all = request->all, .oracle = try_model, .context = &climb
        };
        status = search(&climb, &with, error);
    }
    free(climb.rungs);
    return status;
}

enum status fit_batch(const struct fit_request *request, struct fit_report *report, struct error *error)
{
    CHECK(request->set_count <= FIT_SETS_MAX);
    struct scenario scenario;
    *report = (struct fit_report){ .batch = true };
    TRY(scenario_load(&scenario, request->file, request->sets, request->set_count, error));
    struct climb climb = {
        .request = request,
        .report = report,
        .data = scenario.plan.data,
        .micro_batches = scenario.plan.micro_batches,
    };
    scenario_free(&scenario);
    int64_t most = PLAN_BATCH_MAX / (climb.data * climb.micro_batches);
    report->candidates = most < FIT_CANDIDATES_MAX ? (uint32_t)most : FIT_CANDIDATES_MAX;
    const struct fit_search with = {
        .count = report->candidates, .gallop = true, .oracle = try_batch, .context = &climb
    };
    return search(&climb, &with, error);
}

void fit_free(struct fit_report *report)
{
    free(report->trials);
    report->trials = NULL;
    report->trial_count = 0;
}

/* One name: itself, or a ladder's. */
static enum status add_name(struct arena *arena, const char *start, size_t length, const char **models, uint32_t *count,
                            struct error *error)
{
    char *name = arena_text_n(arena, start, length);
    if (name == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory reading a list of models");
    }
    const struct model_ladder *ladder = model_ladder_find(name);
    uint32_t more = ladder != NULL ? ladder->count : 1;
    if (*count + more > FIT_MODELS_MAX) {
        return error_set(error, STATUS_LIMIT, "at most %d models can be tried", FIT_MODELS_MAX);
    }
    for (uint32_t i = 0; i < more; i++) {
        models[(*count)++] = ladder != NULL ? ladder->models[i] : name;
    }
    return STATUS_OK;
}

enum status fit_list_models(const char *text, struct arena *arena, const char *const **models, uint32_t *count,
                            struct error *error)
{
    const char **list = arena_array(arena, const char *, FIT_MODELS_MAX);
    if (list == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory reading a list of models");
    }
    *count = 0;
    for (const char *at = text;;) {
        size_t length = strcspn(at, ","), blank = strspn(at, " ");
        size_t end = length;
        while (end > blank && at[end - 1] == ' ') {
            end--;
        }
        if (end <= blank) {
            return error_set(error, STATUS_BAD_INPUT, "an empty name in \"%.128s\": expected NAME or NAME,NAME,...",
                             text);
        }
        TRY(add_name(arena, at + blank, end - blank, list, count, error));
        if (at[length] == '\0') {
            break;
        }
        at += length + 1;
    }
    *models = list;
    return STATUS_OK;
}
