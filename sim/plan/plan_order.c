#include "sim/plan/plan_order.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/plan/order_auto.h"
#include "sim/plan/order_table.h"
#include "strategies/registry.h"

/* Passes (stages x chunks x micro-batches) that the scheduler takes: it plays the whole pipeline several times. */
enum { AUTO_PASSES_MAX = 1 << 16 };
enum { STEPS_BYTES_MAX = 64 << 20 };

static const char *const OWN[] = { "file", "steps", "auto" };

/* The lasting name, or NULL: not one of these. */
static const char *own_name(const char *name)
{
    for (size_t i = 0; i < sizeof OWN / sizeof OWN[0]; i++) {
        if (strcmp(name, OWN[i]) == 0) {
            return OWN[i];
        }
    }
    return NULL;
}

const struct pipeline_order *plan_order(const struct plan *plan, struct error *error)
{
    return plan->own_order != NULL ? plan->own_order : registry_order(plan->order, error);
}

struct order_request plan_order_request(const struct plan *plan)
{
    return (struct order_request){ .stages = (uint32_t)plan->pipeline,
                                   .micro_batches = (uint32_t)plan->micro_batches,
                                   .virtual_stages = (uint32_t)plan->virtual_stages,
                                   .parameters = plan->order_parameters,
                                   .table = plan->own_table,
                                   .replicas = plan->replica_sharing == SHARING_DEAL ? plan->stage_replicas : NULL };
}

uint32_t plan_order_steps(const struct pipeline_order *order, const struct plan *plan)
{
    const struct order_request request = plan_order_request(plan);
    uint32_t ahead = (order_warm_up(&request, 0) + 1) * order_replicas(&request, 0);
    uint32_t fill = (ahead + request.micro_batches - 1) / request.micro_batches;
    return order->asynchronous ? fill + 2 : 1;
}

struct order_request plan_order_stream(const struct pipeline_order *order, const struct plan *plan)
{
    struct order_request request = plan_order_request(plan);
    request.micro_batches *= plan_order_steps(order, plan);
    return request;
}

void plan_order_use(struct plan *plan, const struct pipeline_order *order)
{
    snprintf(plan->order, PLAN_WORD_BYTES, "%s", order->name); /* registered names are short */
    plan->own_table = NULL;
    plan->own_order = NULL;
    parameters_defaults(order->parameters, order->parameter_count, &plan->order_parameters);
}

/* ---- steps of one's own ---- */

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory reading a pipeline order");
}

/* Moves the table into `arena`, and makes it the plan's order. */
static enum status adopt(struct plan *plan, struct order_table *table, struct arena *arena, struct error *error)
{
    struct order_table *own = arena_array(arena, struct order_table, 1);
    struct pipeline_order *order = arena_array(arena, struct pipeline_order, 1);
    bool good = own != NULL && order != NULL && order_table_copy(own, table, arena);
    order_table_free(table);
    if (!good) {
        return no_memory(error);
    }
    *order = order_table_order(own, own_name(plan->order));
    plan->own_table = own;
    plan->own_order = order;
    return STATUS_OK;
}

/* The same of a table that a person wrote, in `file`. */
static enum status adopt_given(struct plan *plan, struct order_table *table, const char *file, struct arena *arena,
                               struct error *error)
{
    enum status status = order_table_check_transfers(table, file, error);
    if (status != STATUS_OK) {
        order_table_free(table);
        return status;
    }
    return adopt(plan, table, arena, error);
}

static enum status read_file(struct plan *plan, const struct json *object, struct arena *arena, struct error *error)
{
    static const char *const keys[] = { "name", "path" };
    const char *path;
    char *text = NULL;
    size_t length;
    struct order_table table;
    TRY(json_known_keys(object, keys, 2, error));
    TRY(json_string(object, "path", &path, error));
    TRY(file_read(path, STEPS_BYTES_MAX, &text, &length, error));
    enum status status = order_table_parse(&table, text, length, path, error);
    free(text);
    return status == STATUS_OK ? adopt_given(plan, &table, path, arena, error) : status;
}

static enum status read_steps(struct plan *plan, const struct json *object, struct arena *arena, struct error *error)
{
    static const char *const keys[] = { "name", "stages" };
    struct json list, item;
    struct strbuf text = { 0 };
    struct order_table table;
    TRY(json_known_keys(object, keys, 2, error));
    TRY(json_array(object, "stages", &list, error));
    enum status status = STATUS_OK;
    for (size_t i = 0; i < json_count(&list) && status == STATUS_OK; i++) {
        const char *line;
        json_item(&list, i, &item);
        status = json_as_string(&item, &line, error);
        if (status == STATUS_OK && strpbrk(line, "\n#") != NULL) {
            status = json_error(&item, error, "a stage's steps stand in one line, without '#'");
        }
        if (status == STATUS_OK) {
            strbuf_printf(&text, "%s\n", line);
        }
    }
    if (status == STATUS_OK && text.failed) {
        status = no_memory(error);
    }
    if (status == STATUS_OK) {
        status = order_table_parse(&table, text.text != NULL ? text.text : "", text.length, json_file(object), error);
    }
    strbuf_free(&text);
    return status == STATUS_OK ? adopt_given(plan, &table, json_file(object), arena, error) : status;
}

/* ---- the scheduler ---- */

/* One number for all stages, or a list of one each. */
static enum status read_stage(const struct plan *plan, const struct json *at, uint32_t stage, double minimum,
                              double *value, struct error *error)
{
    struct json item = *at;
    if (json_type(at) == JSON_ARRAY) {
        if (json_count(at) != (size_t)plan->pipeline) {
            return json_error(at, error, "%zu numbers for %" PRId64 " stages: give one for all, or one each",
                              json_count(at), plan->pipeline);
        }
        json_item(at, stage, &item);
    }
    return json_as_real(&item, minimum, 1e9, value, error);
}

/* Of each virtual stage: its part of what the key gives its stage; absent: what a device has of its layers times `a_layer`. */
static enum status read_times(const struct plan *plan, const struct order_auto_request *request,
                              const struct json *object, const char *key, double a_layer, double *values,
                              struct error *error)
{
    struct json at;
    TRY(json_any_optional(object, key, &at, error));
    for (uint32_t v = 0; v < request->stages * request->virtual_stages; v++) {
        uint32_t stage = order_auto_holder(request, v);
        if (at.node != NULL) {
            TRY(read_stage(plan, &at, stage, 1e-6, &values[v], error));
            values[v] /= request->virtual_stages;
        } else {
            double cut = plan->stage_replicas != NULL ? plan->stage_replicas[stage] : 1; /* it takes no dealt ones */
            values[v] = a_layer * (double)plan->stage_layers[v] / cut;
        }
    }
    return STATUS_OK;
}

static enum status read_placement(const struct json *object, uint32_t chunks, enum auto_placement *placement,
                                  struct error *error)
{
    const char *name;
    struct json at;
    TRY(json_any_optional(object, "placement", &at, error));
    if (at.node == NULL) {
        return STATUS_OK;
    }
    TRY(json_as_string(&at, &name, error));
    if (!order_auto_placement(name, placement)) {
        return json_error(&at, error, "\"%.64s\" is none of loop, v", name);
    }
    return chunks > 1 ? STATUS_OK
                      : json_error(&at, error,
                                   "a placement is of chunks, and a device has one: say parallel.virtual_stages, as 2, "
                                   "or leave the placement out");
}

/* `numbers` has room for four of each virtual stage. */
static enum status make_steps(struct plan *plan, const struct json *object, double *numbers, struct order_table *table,
                              struct error *error)
{
    struct order_auto_request request = { .stages = (uint32_t)plan->pipeline,
                                          .micro_batches = (uint32_t)plan->micro_batches,
                                          .virtual_stages = (uint32_t)plan->virtual_stages };
    struct order_auto_result result;
    size_t all = (size_t)request.stages * request.virtual_stages;
    double *forward = numbers, *backward = numbers + all, *weight = numbers + 2 * all, *limits = numbers + 3 * all;
    bool splits = json_has(object, "weight_gradient");
    TRY(read_placement(object, request.virtual_stages, &request.placement, error));
    TRY(read_times(plan, &request, object, "forward", 1, forward, error));
    TRY(read_times(plan, &request, object, "backward", splits ? 1 : 2, backward, error));
    request.forward = forward;
    request.backward = backward;
    if (splits) {
        TRY(read_times(plan, &request, object, "weight_gradient", 1, weight, error));
        request.weight = weight;
    }
    if (json_has(object, "limits")) {
        struct json at;
        TRY(json_any_optional(object, "limits", &at, error));
        for (uint32_t s = 0; s < request.stages; s++) {
            TRY(read_stage(plan, &at, s, 1, &limits[s], error));
        }
        request.limits = limits;
    }
    TRY(json_real_or(object, "hop", 0, 1e9, 0, &request.hop, error));
    return order_auto(&request, table, &result, error);
}

enum status plan_order_schedule(struct plan *plan, const struct json *parallel, struct arena *arena,
                                struct error *error)
{
    static const char *const keys[] = {
        "name", "forward", "backward", "weight_gradient", "limits", "hop", "placement"
    };
    struct json at = { 0 }, object;
    const char *name;
    struct order_table table;
    TRY(parameters_read_plug_in(parallel, "pipeline_order", "auto", &name, &object, &at, error));
    if (object.node != NULL) {
        TRY(json_known_keys(&object, keys, sizeof keys / sizeof keys[0], error));
    }
    if (plan->pipeline * plan->virtual_stages * plan->micro_batches > AUTO_PASSES_MAX) {
        return json_error(parallel, error,
                          "pipeline_order \"auto\": %" PRId64 " stages x %" PRId64 " chunks x %" PRId64
                          " micro-batches: allowed are %d passes; use a registered order",
                          plan->pipeline, plan->virtual_stages, plan->micro_batches, AUTO_PASSES_MAX);
    }
    double *numbers = arena_array(arena, double, 4 * (size_t)plan->pipeline * (size_t)plan->virtual_stages);
    if (numbers == NULL) {
        return no_memory(error);
    }
    TRY(make_steps(plan, &object, numbers, &table, error)); /* a bare name: all defaults */
    return adopt(plan, &table, arena, error);
}

/* ---- reading, checking, printing ---- */

enum status plan_order_read(struct plan *plan, const struct json *parallel, struct arena *arena, struct error *error)
{
    static const char *const NAME_KEY[] = { "name", NULL };
    struct error inner = { 0 };
    struct json at = { 0 }, object;
    const char *name;
    TRY(parameters_read_plug_in(parallel, "pipeline_order", "1f1b", &name, &object, &at, error));
    if (own_name(name) == NULL) {
        const struct pipeline_order *order = registry_order(name, &inner);
        if (order == NULL) {
            return json_error(&at, error, "%s; or your own steps: file, steps, auto", inner.message);
        }
        plan_order_use(plan, order);
        return parameters_read(order->parameters, order->parameter_count, &object, NAME_KEY, &plan->order_parameters,
                               error);
    }
    snprintf(plan->order, PLAN_WORD_BYTES, "%s", name);
    if (strcmp(name, "auto") == 0) {
        return STATUS_OK; /* plan_order_schedule */
    }
    if (object.node == NULL) {
        return json_error(&at, error, "\"%s\" needs its steps: {\"name\": \"%s\", %s}", name, name,
                          strcmp(name, "file") == 0 ? "\"path\": \"mine.txt\"" : "\"stages\": [\"F0 B0\"]");
    }
    return strcmp(name, "file") == 0 ? read_file(plan, &object, arena, error) : read_steps(plan, &object, arena, error);
}

#define REFUSE(error, path, ...) error_at(error, STATUS_BAD_INPUT, NULL, path, __VA_ARGS__)

enum status plan_order_check_size(const struct plan *plan, struct error *error)
{
    const struct order_table *t = plan->own_table;
    if (t == NULL) {
        return STATUS_OK;
    }
    if (plan->pipeline != t->stages && strcmp(plan->order, "auto") == 0) {
        return REFUSE(error, "$.parallel.pipeline",
                      "the plan has %" PRId64 " stages, but pipeline_order \"auto\" made its steps for the scenario's "
                      "%u: set parallel.pipeline to %" PRId64 ", or take a registered order",
                      plan->pipeline, t->stages, plan->pipeline);
    }
    if (plan->pipeline != t->stages) {
        return REFUSE(error, "$.parallel.pipeline",
                      "pipeline is %" PRId64 ": the steps of pipeline_order \"%s\" are for %u stages, a line each",
                      plan->pipeline, plan->order, t->stages);
    }
    if (plan->virtual_stages != t->virtual_stages) {
        return REFUSE(error, "$.parallel.virtual_stages",
                      "virtual_stages is %" PRId64 ": the steps of pipeline_order \"%s\" are for %u",
                      plan->virtual_stages, plan->order, t->virtual_stages);
    }
    if (plan->micro_batches != t->micro_batches) {
        return REFUSE(error, "$.training.global_batch",
                      "%" PRId64 " micro-batches: the steps of pipeline_order \"%s\" are for %u; global_batch %" PRId64
                      " makes as many",
                      plan->micro_batches, plan->order, t->micro_batches,
                      (int64_t)t->micro_batches * plan->data * plan->micro_batch);
    }
    return STATUS_OK;
}

static void print_steps(const struct order_table *table, struct json_writer *w)
{
    struct strbuf text = { 0 };
    order_table_print(table, &text);
    jw_array(w, "stages");
    for (char *line = text.text; line != NULL && *line != '\0';) {
        char *end = strchr(line, '\n');
        CHECK(end != NULL); /* order_table_print ends every line */
        *end = '\0';
        jw_string(w, NULL, line);
        line = end + 1;
    }
    jw_end(w);
    w->out->failed = w->out->failed || text.failed;
    strbuf_free(&text);
}

void plan_order_print(const struct plan *plan, struct json_writer *w)
{
    const struct pipeline_order *order = plan_order(plan, NULL);
    CHECK(order != NULL);
    jw_object(w, "pipeline_order");
    if (plan->own_table != NULL) {
        jw_string(w, "name", "steps");
        print_steps(plan->own_table, w);
    } else {
        jw_string(w, "name", plan->order);
        parameters_print(order->parameters, order->parameter_count, &plan->order_parameters, w);
    }
    jw_end(w);
}
