/* Each candidate: plan, scenario, simulation. */
#include "sim/buy/buy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/base/units.h"
#include "sim/report/uncertainty.h"

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory comparing machines");
}

/* What another machine may do better. */
static bool is_refusal(enum status status)
{
    return status == STATUS_DOES_NOT_FIT || status == STATUS_BAD_INPUT || status == STATUS_UNSUPPORTED ||
           status == STATUS_LIMIT || status == STATUS_NOT_FOUND;
}

__attribute__((format(printf, 3, 4))) static void settle(struct buy_row *row, enum buy_verdict verdict,
                                                         const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    row->verdict = verdict;
    (void)vsnprintf(row->reason, sizeof row->reason, format, arguments);
    va_end(arguments);
}

struct listening {
    const struct buy_options *options;
    const struct buy_answer *answer;
    uint32_t index;
};

static bool listen(void *context, const struct planner_progress *planning)
{
    const struct listening *l = context;
    return l->options->progress == NULL || l->options->progress(l->options->context, l->index, l->answer->row_count,
                                                                l->answer->rows[l->index].candidate, planning);
}

/* ---- the scenario of a plan ---- */

/* A member of an open object, as text, with a comma before it. */
static void append_member(const struct json *at, const char *key, struct strbuf *text)
{
    strbuf_char(text, ',');
    strbuf_json_string(text, key);
    strbuf_char(text, ':');
    json_print(at, text);
}

/* The question's model, machine and software with the split of the plan: everything that a repeat needs. */
static enum status scenario_of(const struct question *q, const struct candidate *candidate, const struct plan *plan,
                               const struct model *model, struct strbuf *text, struct error *error)
{
    struct strbuf plan_text = { 0 };
    struct json_document *document = NULL;
    struct json root, at;
    plan_print_json(plan, model, &plan_text);
    if (plan_text.failed) {
        strbuf_free(&plan_text);
        return no_memory(error);
    }
    enum status status = json_parse(&document, plan_text.text, plan_text.length, "plan", error);
    strbuf_free(&plan_text);
    TRY(status);
    strbuf_append(text, "{\"schema\":\"memwall.scenario/1\",\"name\":");
    strbuf_json_string(text, candidate->label);
    strbuf_printf(text, ",\"model\":%s,\"machine\":%s,\"nodes\":%u,\"gpus\":%u", q->model_json, candidate->machine_json,
                  candidate->nodes, candidate->gpus);
    if (q->software_json != NULL) {
        strbuf_printf(text, ",\"software\":%s", q->software_json);
    }
    json_root(document, &root);
    for (size_t i = 0; i < json_count(&root); i++) {
        const char *key;
        json_member(&root, i, &key, &at);
        if (strcmp(key, "schema") != 0 && strcmp(key, "model") != 0) {
            append_member(&at, key, text);
        }
    }
    strbuf_append(text, "}\n");
    json_free(document);
    return text->failed ? no_memory(error) : STATUS_OK;
}

/* ---- one candidate ---- */

static double usd_of(const struct buy_row *row, const struct money *money)
{
    return strcmp(row->way, "rented") == 0 ? money->rented.usd : money->owned.usd;
}

/* How sure time and cost are, where the machine says how sure its constants are. */
static enum status find_interval(const struct question *q, struct buy_row *row, const struct buy_options *options,
                                 struct error *error)
{
    struct scenario scenario;
    struct uncertainty sure;
    struct money low, high;
    TRY(scenario_parse(&scenario, row->scenario, row->candidate->label, NULL, 0, error));
    enum status status = STATUS_OK;
    row->lacks_errors = scenario.machine.standard_error_count == 0;
    if (!row->lacks_errors) {
        TRY_OR_FAIL(uncertainty_compute(&sure, &scenario, options->draws, options->threads, NULL, NULL, error));
        TRY_OR_FAIL(buy_money_at(q, row, sure.low_s, &low, error));
        TRY_OR_FAIL(buy_money_at(q, row, sure.high_s, &high, error));
        row->has_interval = true;
        row->low_days = low.days;
        row->high_days = high.days;
        row->low_usd = usd_of(row, &low);
        row->high_usd = usd_of(row, &high);
    }
fail:
    scenario_free(&scenario);
    return status;
}

static enum status simulate(struct buy_answer *answer, struct buy_row *row, const struct buy_options *options,
                            struct error *error)
{
    sweep_row_compute(&row->figures, row->scenario, row->candidate->label);
    if (!sweep_row_is_final(&row->figures)) {
        return error_set(error, row->figures.error, "%s: %s", row->candidate->label, row->figures.reason);
    }
    switch (row->figures.status) {
    case SWEEP_DONE:
        row->has_figures = true;
        buy_cost_row(answer->question, row);
        return options->draws > 0 && row->has_money && row->way != NULL
                   ? find_interval(answer->question, row, options, error)
                   : STATUS_OK;
    case SWEEP_DOES_NOT_FIT: settle(row, BUY_DOES_NOT_FIT, "%.480s", row->figures.reason); return STATUS_OK;
    case SWEEP_ERROR: settle(row, BUY_REFUSED, "%.480s", row->figures.reason); return STATUS_OK;
    case SWEEP_STATUS_COUNT: break;
    }
    CHECK(false);
    return STATUS_OK;
}

static enum status take_plan(struct buy_answer *answer, struct buy_row *row, const struct scenario *scenario,
                             const struct planner_result *result, const struct buy_options *options,
                             struct error *error)
{
    const struct planner_choice *best = &result->best;
    if (!result->found || !best->has_plan) {
        char text[32] = "";
        bool known = result->smallest_budget_bytes > 0;
        settle(row, BUY_DOES_NOT_FIT, "no split of %s fits %u GPU%s%s%s%s", scenario->model.name, row->candidate->gpus,
               row->candidate->gpus == 1 ? "" : "s", known ? ": the smallest needs " : "",
               known ? text_bytes(result->smallest_budget_bytes, text, sizeof text) : "", known ? " a GPU" : "");
        return STATUS_OK;
    }
    if (best->plan.global_batch != answer->question->global_batch) {
        settle(row, BUY_REFUSED, "planner %s chose a global batch of %lld: the question wants %lld",
               answer->question->planner->name, (long long)best->plan.global_batch,
               (long long)answer->question->global_batch);
        return STATUS_OK;
    }
    struct strbuf text = { 0 };
    enum status status = scenario_of(answer->question, row->candidate, &best->plan, &scenario->model, &text, error);
    row->scenario = status == STATUS_OK ? arena_text(&answer->arena, text.text) : NULL;
    strbuf_free(&text);
    TRY(status);
    if (row->scenario == NULL) {
        return no_memory(error);
    }
    (void)snprintf(row->plan, sizeof row->plan, "%s", best->layer_count > 0 ? best->layers[0] : "");
    row->micro_batch = best->plan.micro_batch;
    return simulate(answer, row, options, error);
}

/* Planners take model, machine, batch and sequence from the scenario, its split is but a start: one that is valid with any number of GPUs, then the question's batch. */
static enum status plan_row(struct buy_answer *answer, struct buy_row *row, struct scenario *scenario,
                            struct listening *listening, struct error *error)
{
    const struct question *q = answer->question;
    const double budget = scenario->machine.gpu.usable_bytes;
    struct planner_answer plans = { 0 };
    struct error own = { 0 };
    scenario->plan.global_batch = q->global_batch;
    const struct planner_request request = { .scenario = scenario,
                                             .budgets_bytes = &budget,
                                             .budget_count = 1,
                                             .parameters = q->planner_parameters,
                                             .threads = listening->options->threads,
                                             .progress = listen,
                                             .progress_context = listening };
    enum status status = planner_search(q->planner, &request, &plans, &own);
    if (is_refusal(status)) {
        settle(row, BUY_REFUSED, "%.480s", own.message);
        return STATUS_OK;
    }
    if (status != STATUS_OK) {
        if (error != NULL) {
            *error = own;
        }
        return status;
    }
    answer->interrupted = answer->interrupted || plans.interrupted;
    if (plans.interrupted) {
        settle(row, BUY_NOT_REACHED, "the search was interrupted");
    } else {
        status = take_plan(answer, row, scenario, &plans.results[0], listening->options, error);
    }
    planner_answer_free(&plans);
    return status;
}

static enum status run_row(struct buy_answer *answer, struct buy_row *row, struct listening *listening,
                           struct error *error)
{
    struct strbuf text = { 0 };
    struct scenario scenario;
    struct error own = { 0 };
    question_scenario(answer->question, row->candidate, &text);
    if (text.failed) {
        strbuf_free(&text);
        return no_memory(error);
    }
    enum status status = scenario_parse(&scenario, text.text, answer->question->file, NULL, 0, &own);
    strbuf_free(&text);
    if (is_refusal(status)) {
        settle(row, BUY_REFUSED, "%.480s", own.message);
        return STATUS_OK;
    }
    if (status != STATUS_OK) {
        if (error != NULL) {
            *error = own;
        }
        return status;
    }
    status = plan_row(answer, row, &scenario, listening, error);
    scenario_free(&scenario);
    return status;
}

enum status buy_run(struct buy_answer *answer, const struct question *question, const struct buy_options *options,
                    struct error *error)
{
    *answer = (struct buy_answer){ .question = question, .row_count = question->candidate_count };
    answer->rows = arena_array(&answer->arena, struct buy_row, answer->row_count);
    if (answer->rows == NULL) {
        buy_free(answer);
        return no_memory(error);
    }
    for (uint32_t i = 0; i < answer->row_count; i++) {
        answer->rows[i].candidate = &question->candidates[i];
        settle(&answer->rows[i], BUY_NOT_REACHED, "the search was interrupted");
    }
    for (uint32_t i = 0; i < answer->row_count && !answer->interrupted; i++) {
        struct listening listening = { .options = options, .answer = answer, .index = i };
        if (!listen(&listening, NULL)) {
            answer->interrupted = true;
            break;
        }
        enum status status = run_row(answer, &answer->rows[i], &listening, error);
        if (status != STATUS_OK) {
            buy_free(answer);
            return status;
        }
    }
    buy_order(answer);
    return STATUS_OK;
}

void buy_free(struct buy_answer *answer)
{
    arena_free(&answer->arena);
    *answer = (struct buy_answer){ 0 };
}
