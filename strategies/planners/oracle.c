/* Simulating plans. */
#include "strategies/planners/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/engine/exec_sim_spare.h"
#include "sim/plan/lower.h"

struct memo {
    struct hash hash;
    struct oracle_result result;
};

struct oracle {
    const struct scenario *scenario;
    uint32_t threads;
    struct {
        struct memo *items;
        size_t count, capacity;
    } memos;
    uint64_t simulations;
};

/* What is to be simulated in one call of oracle_ask. */
struct batch {
    const struct oracle *oracle;
    const struct plan **plans;
    struct hash *hashes;
    struct oracle_result *results;
    struct error *errors; /* status OK: none */
};

enum status oracle_open(struct oracle **oracle, const struct scenario *scenario, uint32_t threads, struct error *error)
{
    CHECK(threads > 0);
    *oracle = calloc(1, sizeof **oracle);
    if (*oracle == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the oracle");
    }
    (*oracle)->scenario = scenario;
    (*oracle)->threads = threads;
    return STATUS_OK;
}

void oracle_close(struct oracle *oracle)
{
    if (oracle != NULL) {
        array_free(&oracle->memos);
        free(oracle);
    }
}

uint64_t oracle_simulations(const struct oracle *oracle)
{
    return oracle->simulations;
}

bool oracle_fits(const struct oracle_result *result, double budget_bytes)
{
    return result->verdict == ORACLE_RAN && result->host_fits && (double)result->peak_bytes <= budget_bytes;
}

/* ---- one simulation ---- */

static enum status lower(const struct scenario *scenario, const struct software *software, const struct plan *plan,
                         struct schedule *schedule, struct error *error)
{
    const struct lower_request request = {
        .model = &scenario->model,
        .cluster = &scenario->cluster,
        .software = software,
        .plan = plan,
    };
    TRY(plan_check(plan, &scenario->model, error));
    return lower_schedule(&request, schedule, error);
}

enum status oracle_simulate(const struct scenario *scenario, const struct software *software, const struct plan *plan,
                            const struct timeline_watch *watch, struct schedule *s, struct timeline *timeline,
                            struct error *error)
{
    const struct exec_options options = { .cluster = &scenario->cluster, .software = software, .watch = watch };
    TRY(lower(scenario, software, plan, s, error));
    enum status status = exec_sim_spare(s, &options, timeline, error);
    if (status == STATUS_OK && timeline->outcome != TIMELINE_DONE) {
        struct strbuf why = { 0 };
        timeline_explain(s, timeline, &why);
        status = error_set(error, STATUS_DEADLOCK, "%s", why.text != NULL ? why.text : "the plan's step does not end");
        strbuf_free(&why);
    }
    return status;
}

void oracle_figures(const struct schedule *s, const struct timeline *timeline, struct oracle_result *result)
{
    result->verdict = ORACLE_RAN;
    const struct step_window window = timeline_step(s, timeline);
    result->step_time_s = s_from_ps(window.to_ps - window.from_ps);
    result->samples_per_s = result->step_time_s > 0 ? s->samples / result->step_time_s : 0;
    result->schedule_hash = timeline->schedule_hash;
    result->host_fits = true;
    CHECK(timeline->spaces != NULL || s->space_count == 0);
    for (uint32_t i = 0; i < s->space_count; i++) {
        const struct space_use *use = &timeline->spaces[i];
        if (s->spaces[i].kind != SPACE_DEVICE) {
            result->host_fits = result->host_fits && use->peak_bytes <= s->spaces[i].capacity_bytes;
        } else if (use->peak_bytes > result->peak_bytes || result->capacity_bytes == 0) {
            result->peak_bytes = use->peak_bytes;
            result->peak_reserved_bytes = use->peak_reserved_bytes;
            result->capacity_bytes = s->spaces[i].capacity_bytes;
        }
    }
}

/* Errors that say something of this plan alone. */
static bool is_about_plan(enum status status)
{
    return status == STATUS_BAD_INPUT || status == STATUS_NOT_FOUND || status == STATUS_UNSUPPORTED ||
           status == STATUS_LIMIT || status == STATUS_DOES_NOT_FIT;
}

static void simulate(void *context, uint32_t index)
{
    const struct batch *batch = context;
    const struct scenario *scenario = batch->oracle->scenario;
    struct oracle_result *result = &batch->results[index];
    struct error *error = &batch->errors[index];
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    *result = (struct oracle_result){ 0 };
    enum status status =
        oracle_simulate(scenario, &scenario->software, batch->plans[index], NULL, &schedule, &timeline, error);
    if (status == STATUS_OK) {
        oracle_figures(&schedule, &timeline, result);
    } else if (is_about_plan(status)) {
        result->verdict = ORACLE_REFUSED;
        snprintf(result->reason, sizeof result->reason, "%.*s", (int)sizeof result->reason - 1, error->message);
        error->status = STATUS_OK;
    }
    timeline_free(&timeline);
    schedule_free(&schedule);
}

/* ---- many ---- */

static const struct memo *find(const struct oracle *oracle, const struct hash *hash)
{
    for (size_t i = 0; i < oracle->memos.count; i++) {
        if (hash_equal(&oracle->memos.items[i].hash, hash)) {
            return &oracle->memos.items[i];
        }
    }
    return NULL;
}

static bool asked_before(const struct batch *batch, uint32_t count, const struct hash *hash)
{
    for (uint32_t i = 0; i < count; i++) {
        if (hash_equal(&batch->hashes[i], hash)) {
            return true;
        }
    }
    return false;
}

static enum status remember(struct oracle *oracle, const struct batch *batch, uint32_t count, struct error *error)
{
    TRY(array_reserve(&oracle->memos, count, error));
    for (uint32_t i = 0; i < count; i++) {
        if (batch->errors[i].status != STATUS_OK) {
            if (error != NULL) {
                *error = batch->errors[i];
            }
            return batch->errors[i].status;
        }
        if (batch->results[i].verdict != ORACLE_UNKNOWN) {
            oracle->memos.items[oracle->memos.count++] = (struct memo){ batch->hashes[i], batch->results[i] };
            oracle->simulations += batch->results[i].verdict == ORACLE_RAN;
        }
    }
    return STATUS_OK;
}

enum status oracle_ask(struct oracle *oracle, const struct plan *const *plans, uint32_t count,
                       struct oracle_result *results, bool (*listen)(void *context, uint32_t done, uint32_t total),
                       void *context, struct error *error)
{
    struct arena arena = { 0 };
    struct batch batch = { .oracle = oracle };
    struct hash *hashes = arena_array(&arena, struct hash, count);
    batch.plans = arena_array(&arena, const struct plan *, count);
    batch.hashes = arena_array(&arena, struct hash, count);
    batch.results = arena_array(&arena, struct oracle_result, count);
    batch.errors = arena_array(&arena, struct error, count);
    enum status status = STATUS_OK;
    uint32_t fresh = 0;
    if (hashes == NULL || batch.plans == NULL || batch.hashes == NULL || batch.results == NULL ||
        batch.errors == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory simulating plans");
    }
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        if (plans[i]->stage_layers == NULL) {
            continue;
        }
        status = plan_hash(plans[i], &oracle->scenario->model, &hashes[i], error);
        if (status == STATUS_OK && find(oracle, &hashes[i]) == NULL && !asked_before(&batch, fresh, &hashes[i])) {
            batch.plans[fresh] = plans[i];
            batch.hashes[fresh++] = hashes[i];
        }
    }
    if (status == STATUS_OK && fresh > 0) {
        oracle_parallel(oracle->threads, fresh, simulate, &batch, listen, context);
        status = remember(oracle, &batch, fresh, error);
    }
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        const struct memo *memo = plans[i]->stage_layers != NULL ? find(oracle, &hashes[i]) : NULL;
        results[i] = memo != NULL ? memo->result : (struct oracle_result){ 0 };
        if (plans[i]->stage_layers == NULL) {
            results[i].verdict = ORACLE_REFUSED;
            snprintf(results[i].reason, sizeof results[i].reason,
                     "the plan does not say how many layers its stages have (plan.stage_layers)");
        }
    }
    arena_free(&arena);
    return status;
}
