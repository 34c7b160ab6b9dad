/* Loading questions. */
#include "sim/buy/question.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/base/schema.h"
#include "sim/plan/scenario_keys.h"

#define QUESTION_BYTES_MAX ((size_t)4 << 20)

static const char *const PAY_WORDS[] = {
#define X(name, word) word,
    QUESTION_PAY_TABLE(X)
#undef X
};

const char *question_pay_word(enum question_pay pay)
{
    return PAY_WORDS[pay];
}

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory loading a question");
}

/* The value's text, in the arena. */
static enum status keep_json(struct question *q, const struct json *at, const char **text, struct error *error)
{
    struct strbuf out = { 0 };
    json_print(at, &out);
    *text = out.failed ? NULL : arena_text(&q->arena, out.text);
    strbuf_free(&out);
    return *text != NULL ? STATUS_OK : no_memory(error);
}

static enum status keep_text(struct question *q, const char *source, const char **text, struct error *error)
{
    *text = arena_text(&q->arena, source);
    return *text != NULL ? STATUS_OK : no_memory(error);
}

/* A number that must lie in the range of `limit`; absent: *value stays. */
static enum status read_limited(const struct json *root, const char *key, enum money_limit limit, double *value,
                                struct error *error)
{
    struct money_range range = money_range_of(limit);
    struct json at;
    TRY(json_any_optional(root, key, &at, error));
    return at.node == NULL ? STATUS_OK : json_as_real(&at, range.least, range.most, value, error);
}

/* ---- the need ---- */

static enum status read_training(struct question *q, const struct json *root, struct error *error)
{
    struct json training, at;
    struct strbuf members = { 0 };
    TRY(json_object(root, "training", &training, error));
    TRY(scenario_known_keys(&training, "training", error));
    if (json_has(&training, "micro_batch")) {
        TRY(json_any(&training, "micro_batch", &at, error));
        return json_error(&at, error, "the planner chooses the micro-batch of each machine: leave it out");
    }
    TRY(json_int(&training, "global_batch", 1, PLAN_BATCH_MAX, &q->global_batch, error));
    for (size_t i = 0; i < json_count(&training); i++) {
        const char *key;
        json_member(&training, i, &key, &at);
        if (strcmp(key, "global_batch") != 0 && strncmp(key, "_comment", 8) != 0) {
            strbuf_char(&members, ',');
            strbuf_json_string(&members, key);
            strbuf_char(&members, ':');
            json_print(&at, &members);
        }
    }
    enum status status = members.failed
                             ? no_memory(error)
                             : keep_text(q, members.text != NULL ? members.text : "", &q->training_json, error);
    strbuf_free(&members);
    return status;
}

static enum status read_limits(struct question *q, const struct json *root, struct error *error)
{
    static const char *const GOALS[] = { "cost", "time" };
    struct money_range tokens = money_range_of(MONEY_LIMIT_TOKENS);
    size_t word;
    TRY(json_real(root, "tokens", tokens.least, tokens.most, &q->tokens, error));
    TRY(read_limited(root, "deadline_days", MONEY_LIMIT_DAYS, &q->deadline_days, error));
    TRY(json_real_or(root, "budget_usd", 0.01, 1e15, 0, &q->budget_usd, error));
    size_t usual = q->budget_usd > 0 && !(q->deadline_days > 0) ? GOAL_TIME : GOAL_COST;
    TRY(json_word_or(root, "goal", GOALS, 2, usual, &word, error));
    q->goal = (enum question_goal)word;
    return STATUS_OK;
}

static enum status read_terms(struct question *q, const struct json *root, struct error *error)
{
    static const char *const OF_OWNERS[] = { "electricity_usd_per_kwh", "amortise_years", "utilisation" };
    struct json at;
    size_t word;
    TRY(json_word_or(root, "pay", PAY_WORDS, PAY_COUNT, PAY_CHEAPER, &word, error));
    q->pay = (enum question_pay)word;
    q->terms = money_terms_default();
    TRY(read_limited(root, "electricity_usd_per_kwh", MONEY_LIMIT_ELECTRICITY, &q->terms.electricity_usd_per_kwh,
                     error));
    TRY(read_limited(root, "carbon_g_per_kwh", MONEY_LIMIT_CARBON, &q->terms.carbon_g_per_kwh, error));
    TRY(read_limited(root, "amortise_years", MONEY_LIMIT_YEARS, &q->terms.amortise_years, error));
    TRY(read_limited(root, "utilisation", MONEY_LIMIT_UTILISATION, &q->terms.utilisation, error));
    TRY(read_limited(root, "pue", MONEY_LIMIT_PUE, &q->terms.pue, error));
    TRY(json_real_or(root, "goodput", 0.01, 1, 1, &q->goodput, error));
    for (size_t i = 0; q->pay == PAY_RENT && i < sizeof OF_OWNERS / sizeof OF_OWNERS[0]; i++) {
        TRY(json_any_optional(root, OF_OWNERS[i], &at, error));
        if (at.node != NULL) {
            return json_error(&at, error, "is about owned machines, but \"pay\" is \"rent\": leave one of them out");
        }
    }
    if (q->pay == PAY_OWN && isnan(q->terms.electricity_usd_per_kwh)) {
        return json_error(root, error,
                          "\"pay\" is \"own\": that needs \"electricity_usd_per_kwh\", the price of a kWh in USD");
    }
    return STATUS_OK;
}

static enum status read_planner(struct question *q, const struct json *root, struct error *error)
{
    const char *name;
    struct json at, object;
    struct error inner = { 0 };
    TRY(json_string_or(root, "planner", "exhaustive", &name, error));
    q->planner = planner_find(name, &inner);
    if (q->planner == NULL) {
        TRY(json_any(root, "planner", &at, error));
        return json_error(&at, error, "%s", inner.message);
    }
    TRY(json_object_optional(root, "planner_parameters", &object, error));
    return parameters_read(q->planner->parameters, q->planner->parameter_count, &object, NULL, &q->planner_parameters,
                           error);
}

/* ---- machines ---- */

static enum status own_price(struct question *q, struct money_price *price, struct error *error)
{
    return price->source != NULL ? keep_text(q, price->source, &price->source, error) : STATUS_OK;
}

/* Beside the machine's own, with their texts in the question. */
static enum status read_prices(struct question *q, const struct json *at, const struct machine *machine,
                               struct money_prices *prices, struct error *error)
{
    static const char SAID[] = "the question";
    money_prices_of(prices, machine);
    struct {
        const char *key;
        enum money_limit limit;
        struct money_price *price;
    } const all[] = { { "system_usd", MONEY_LIMIT_SYSTEM_USD, &prices->system_usd },
                      { "usd_per_gpu_hour", MONEY_LIMIT_GPU_HOUR, &prices->usd_per_gpu_hour },
                      { "system_W", MONEY_LIMIT_POWER, &prices->system_w } };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        double value = 0;
        TRY(read_limited(at, all[i].key, all[i].limit, &value, error));
        if (value > 0) {
            *all[i].price = (struct money_price){ .value = value, .source = SAID };
        }
        TRY(own_price(q, all[i].price, error));
    }
    return keep_text(q, prices->machine, &prices->machine, error);
}

/* `gpus` 0: all. `at`: where the number of servers stands. */
static enum status add_candidate(struct question *q, const struct json *at, const struct candidate *common,
                                 const struct machine *machine, int64_t nodes, int64_t gpus, struct error *error)
{
    int64_t most = nodes * machine->gpu_count;
    if (q->candidate_count == QUESTION_CANDIDATES_MAX) {
        return json_error(at, error, "more than %d candidates: fewer machines or numbers of servers, please",
                          QUESTION_CANDIDATES_MAX);
    }
    if (most > PLAN_DEGREE_MAX) {
        return json_error(at, error, "%lld servers of %u GPUs: at most %lld GPUs are allowed", (long long)nodes,
                          machine->gpu_count, (long long)PLAN_DEGREE_MAX);
    }
    gpus = gpus > 0 ? gpus : most;
    if (gpus > most || gpus <= most - machine->gpu_count) {
        return json_error(at, error, "%lld GPUs of %lld servers of %s: %lld to %lld would use each of them",
                          (long long)gpus, (long long)nodes, machine->name, (long long)most - machine->gpu_count + 1,
                          (long long)most);
    }
    struct candidate *candidate = &q->candidates[q->candidate_count++];
    *candidate = *common;
    candidate->nodes = (uint32_t)nodes;
    candidate->gpus = (uint32_t)gpus;
    return STATUS_OK;
}

static enum status read_nodes(struct question *q, const struct json *at, const struct candidate *common,
                              const struct machine *machine, struct error *error)
{
    struct json nodes, item;
    int64_t count = 1, gpus = 0;
    TRY(json_any_optional(at, "nodes", &nodes, error));
    TRY(json_int_or(at, "gpus", 1, PLAN_DEGREE_MAX, 0, &gpus, error));
    if (nodes.node == NULL || json_type(&nodes) != JSON_ARRAY) {
        TRY(json_int_or(at, "nodes", 1, PLAN_DEGREE_MAX, 1, &count, error));
        return add_candidate(q, at, common, machine, count, gpus, error);
    }
    if (json_count(&nodes) == 0 || json_count(&nodes) > QUESTION_NODES_MAX) {
        return json_error(&nodes, error, "%zu numbers of servers: 1 to %d are allowed", json_count(&nodes),
                          QUESTION_NODES_MAX);
    }
    if (gpus > 0) {
        return json_error(at, error, "\"gpus\" goes with one number of \"nodes\", not with a list");
    }
    for (size_t i = 0; i < json_count(&nodes); i++) {
        json_item(&nodes, i, &item);
        TRY(json_as_int(&item, 1, PLAN_DEGREE_MAX, &count, error));
        TRY(add_candidate(q, &item, common, machine, count, 0, error));
    }
    return STATUS_OK;
}

static enum status read_machine(struct question *q, const struct json *at, struct error *error)
{
    static const char *const KEYS[] = {
        "name", "machine", "nodes", "gpus", "system_usd", "usd_per_gpu_hour", "system_W"
    };
    struct json value;
    struct machine machine;
    struct candidate common = { 0 };
    const char *label;
    enum status status = STATUS_OK;
    TRY(json_known_keys(at, KEYS, sizeof KEYS / sizeof KEYS[0], error));
    TRY(schema_name(at, NULL, QUESTION_NAME_BYTES - 1, &label, error));
    if (label != NULL && label[0] == '\0') {
        return json_error(at, error, "\"name\" must have 1 to %d bytes", QUESTION_NAME_BYTES - 1);
    }
    TRY(json_any(at, "machine", &value, error));
    TRY(machine_from_json(&machine, &value, error));
    TRY_OR_FAIL(keep_text(q, label != NULL ? label : machine.name, &common.label, error));
    TRY_OR_FAIL(keep_json(q, &value, &common.machine_json, error));
    TRY_OR_FAIL(read_prices(q, at, &machine, &common.prices, error));
    TRY_OR_FAIL(read_nodes(q, at, &common, &machine, error));
fail:
    machine_free(&machine);
    return status;
}

static enum status read_machines(struct question *q, const struct json *root, struct error *error)
{
    struct json array, at;
    TRY(json_array(root, "machines", &array, error));
    if (json_count(&array) == 0 || json_count(&array) > QUESTION_MACHINES_MAX) {
        return json_error(&array, error, "%zu machines: 1 to %d can be compared", json_count(&array),
                          QUESTION_MACHINES_MAX);
    }
    q->candidates = arena_array(&q->arena, struct candidate, QUESTION_CANDIDATES_MAX);
    if (q->candidates == NULL) {
        return no_memory(error);
    }
    for (size_t i = 0; i < json_count(&array); i++) {
        json_item(&array, i, &at);
        TRY(read_machine(q, &at, error));
    }
    return STATUS_OK;
}

/* ---- model, software, training: as a scenario's ---- */

static void print_scenario(const struct question *q, const char *name, const char *machine_json, uint32_t nodes,
                           uint32_t gpus, int64_t batch, struct strbuf *text)
{
    strbuf_append(text, "{\"schema\":\"memwall.scenario/1\",\"name\":");
    strbuf_json_string(text, name);
    strbuf_printf(text, ",\"model\":%s,\"machine\":%s,\"nodes\":%u,\"gpus\":%u", q->model_json, machine_json, nodes,
                  gpus);
    if (q->software_json != NULL) {
        strbuf_printf(text, ",\"software\":%s", q->software_json);
    }
    strbuf_printf(text, ",\"training\":{\"global_batch\":%lld%s}}", (long long)batch, q->training_json);
}

void question_scenario(const struct question *q, const struct candidate *candidate, struct strbuf *text)
{
    print_scenario(q, candidate->label, candidate->machine_json, candidate->nodes, candidate->gpus, candidate->gpus,
                   text);
}

/* What is wrong on any machine: the scenario's own loader says it, for a single GPU that has every precision. Its paths are those of the question. */
static enum status check_scenario(const struct question *q, struct error *error)
{
    struct scenario scenario = { 0 };
    struct strbuf text = { 0 };
    print_scenario(q, "question", "\"toy-2gpu\"", 1, 1, q->global_batch, &text);
    enum status status = text.failed ? no_memory(error) : scenario_parse(&scenario, text.text, q->file, NULL, 0, error);
    strbuf_free(&text);
    if (status != STATUS_OK) {
        if (error != NULL) {
            error->line = 0; /* of another text */
        }
        return status;
    }
    int64_t sample = model_sample_tokens(&scenario.model, scenario.plan.sequence_length);
    double step = (double)q->global_batch * (double)sample;
    if (q->tokens < step) {
        status = error_at(error, STATUS_BAD_INPUT, q->file, "$.tokens",
                          "%g tokens are less than one step: %lld sequences of %lld", q->tokens,
                          (long long)q->global_batch, (long long)sample);
    }
    scenario_free(&scenario);
    return status;
}

static enum status read_question(struct question *q, const struct json *root, struct error *error)
{
    static const char *const KEYS[] = {
        "schema",
        "name",
        "model",
        "software",
        "training",
        "tokens",
        "goal",
        "pay",
        "deadline_days",
        "budget_usd",
        "goodput",
        "electricity_usd_per_kwh",
        "amortise_years",
        "planner",
        "pue",
        "carbon_g_per_kwh",
        "utilisation",
        "machines",
        "planner_parameters",
    };
    static const char *const NEEDED[] = { "model", "training", "tokens", "machines" };
    const char *name;
    struct json at;
    TRY(schema_check(root, "memwall.question/1", false, error));
    TRY(json_known_keys(root, KEYS, sizeof KEYS / sizeof KEYS[0], error));
    TRY(schema_need(root, NEEDED, sizeof NEEDED / sizeof NEEDED[0], error));
    TRY(schema_name(root, "", QUESTION_NAME_BYTES - 1, &name, error));
    TRY(keep_text(q, json_file(root), &q->file, error));
    TRY(keep_text(q, name, &q->name, error));
    TRY(json_any(root, "model", &at, error));
    TRY(keep_json(q, &at, &q->model_json, error));
    TRY(json_any_optional(root, "software", &at, error));
    if (at.node != NULL) {
        TRY(keep_json(q, &at, &q->software_json, error));
    }
    TRY(read_training(q, root, error));
    TRY(read_limits(q, root, error));
    TRY(read_terms(q, root, error));
    TRY(read_planner(q, root, error));
    TRY(check_scenario(q, error));
    return read_machines(q, root, error);
}

/* Takes `document`, which is not NULL when `status` is fine. */
static enum status from_document(struct question *q, struct json_document *document, enum status status,
                                 struct error *error)
{
    *q = (struct question){ 0 };
    if (status == STATUS_OK) {
        struct json root;
        json_root(document, &root);
        status = read_question(q, &root, error);
        json_free(document);
    }
    if (status != STATUS_OK) {
        question_free(q);
    }
    return status;
}

enum status question_load(struct question *q, const char *file, struct error *error)
{
    struct json_document *document = NULL;
    enum status status = json_load(&document, file, QUESTION_BYTES_MAX, error);
    return from_document(q, document, status, error);
}

enum status question_parse(struct question *q, const char *text, const char *file, struct error *error)
{
    struct json_document *document = NULL;
    enum status status = json_parse(&document, text, strlen(text), file, error);
    return from_document(q, document, status, error);
}

void question_free(struct question *q)
{
    arena_free(&q->arena);
    *q = (struct question){ 0 };
}
