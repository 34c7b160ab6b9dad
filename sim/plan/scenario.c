/* Loading scenarios. */
#include "sim/plan/scenario.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/base/schema.h"
#include "sim/plan/scenario_keys.h"

enum { NODES_MAX = 1 << 16 };

__attribute__((format(printf, 2, 3))) static void note(struct scenario *scenario, const char *format, ...)
{
    size_t length = strlen(scenario->notes), room = sizeof scenario->notes - length;
    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(scenario->notes + length, room, format, arguments);
    va_end(arguments);
    if (wanted < 0 || (size_t)wanted + 2 > room) {
        scenario->notes[length] = '\0'; /* no half notes */
    } else {
        snprintf(scenario->notes + length + (size_t)wanted, room - (size_t)wanted, "\n");
    }
}

static enum status read_name(struct scenario *scenario, const struct json *root, struct error *error)
{
    const char *file = json_file(root), *slash = strrchr(file, '/'), *name;
    TRY(schema_check(root, "memwall.scenario/1", false, error));
    TRY(schema_name(root, slash != NULL ? slash + 1 : file, sizeof scenario->name - 1, &name, error));
    snprintf(scenario->name, sizeof scenario->name, "%s", name);
    return STATUS_OK;
}

/* An error of a loader that does not know where in the scenario its value stands. */
static enum status place_error(const struct json *root, const char *key, enum status status, struct error *error)
{
    struct json at;
    if (error == NULL || error->path[0] != '\0' || json_any_optional(root, key, &at, NULL) != STATUS_OK) {
        return status;
    }
    if (error->file[0] == '\0' || strcmp(error->file, json_file(root)) == 0) {
        snprintf(error->file, sizeof error->file, "%s", json_file(root));
        snprintf(error->path, sizeof error->path, "$.%s", key);
        error->line = at.node != NULL ? json_line(&at) : 0;
    }
    return status;
}

static enum status read_model(struct scenario *scenario, const struct json *root, struct error *error)
{
    struct json at;
    if (!json_has(root, "model")) {
        return json_error(
            root, error,
            "missing key \"model\": a library name (memwall list models), a path to a Hugging Face config.json, or "
            "an inline object");
    }
    TRY(json_any(root, "model", &at, error));
    enum status status = model_from_json(&scenario->model, &at, error);
    return status == STATUS_OK ? status : place_error(root, "model", status, error);
}

static enum status read_cluster(struct scenario *scenario, const struct json *root, int64_t *gpus, struct error *error)
{
    struct json at;
    int64_t nodes;
    if (!json_has(root, "machine")) {
        return json_error(
            root, error,
            "missing key \"machine\": a library name (memwall list machines), a path, or an inline object");
    }
    TRY(json_any(root, "machine", &at, error));
    enum status status = machine_from_json(&scenario->machine, &at, error);
    if (status != STATUS_OK) {
        return place_error(root, "machine", status, error);
    }
    int64_t per_node = scenario->machine.gpu_count;
    TRY(json_int_or(root, "nodes", 1, NODES_MAX, 1, &nodes, error));
    if (nodes * per_node > PLAN_DEGREE_MAX) {
        TRY(json_any(root, "nodes", &at, error));
        return json_error(&at, error, "%" PRId64 " nodes of %" PRId64 " GPUs: at most %" PRId64 " GPUs are allowed",
                          nodes, per_node, PLAN_DEGREE_MAX);
    }
    TRY(json_any_optional(root, "gpus", &at, error));
    TRY(json_int_or(root, "gpus", 1, PLAN_DEGREE_MAX, nodes * per_node, gpus, error));
    if (*gpus > nodes * per_node) {
        return json_error(&at, error, "%" PRId64 " GPUs, but %" PRId64 " x %s hold %" PRId64, *gpus, nodes,
                          scenario->machine.name, nodes * per_node);
    }
    if (*gpus <= (nodes - 1) * per_node) {
        note(scenario, "gpus %" PRId64 " of %" PRId64 " nodes: %" PRId64 " nodes stay idle", *gpus, nodes,
             nodes - (*gpus + per_node - 1) / per_node);
    }
    status = cluster_build(&scenario->cluster, &scenario->machine, (uint32_t)nodes, (uint32_t)*gpus, error);
    return status == STATUS_OK ? status : place_error(root, nodes > 1 ? "nodes" : "machine", status, error);
}

static enum status read_software(struct scenario *scenario, const struct json *root, struct error *error)
{
    struct json at;
    TRY(json_any_optional(root, "software", &at, error));
    enum status status = at.node != NULL ? software_from_json(&scenario->software, &at, error)
                                         : software_load(&scenario->software, "megatron", error);
    return status == STATUS_OK ? status : place_error(root, "software", status, error);
}

/* Data types that the GPU has no matrix units for would make every time infinite. */
static enum status check_precision(const struct scenario *scenario, const struct json *root, struct error *error)
{
    const struct machine_gpu *gpu = &scenario->machine.gpu;
    enum dtype precision = scenario->plan.precision;
    if (gpu->peak_flops[precision] > 0) {
        return STATUS_OK;
    }
    char known[96] = "";
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (gpu->peak_flops[i] > 0) {
            size_t length = strlen(known);
            snprintf(known + length, sizeof known - length, "%s%s", length > 0 ? ", " : "", dtype_word((enum dtype)i));
        }
    }
    struct json training, at = { 0 };
    TRY(json_object_optional(root, "training", &training, error));
    TRY(json_any_optional(&training, "precision", &at, error));
    return json_error(at.node != NULL ? &at : root, error, "the GPU %s does not compute in %s: allowed are %s",
                      gpu->model, dtype_word(precision), known);
}

static void add_notes(struct scenario *scenario)
{
    const struct plan *plan = &scenario->plan;
    if (plan->sequence_parallel && plan->tensor == 1) {
        note(scenario, "parallel.sequence_parallel changes nothing with tensor 1");
    }
    if (plan->tensor > scenario->cluster.gpus_per_node && scenario->cluster.nodes > 1) {
        note(scenario, "tensor %" PRId64 " spans servers of %" PRIu32 " GPUs: its collectives cross the network",
             plan->tensor, scenario->cluster.gpus_per_node);
    }
    if (strcmp(plan->order, "interleaved") == 0 && plan->virtual_stages == 1) {
        note(scenario, "pipeline_order interleaved with virtual_stages 1 is dapple-pb, not 1f1b");
    }
    if (plan->micro_batches < plan->pipeline) {
        note(scenario, "%" PRId64 " micro-batches do not fill %" PRId64 " pipeline stages", plan->micro_batches,
             plan->pipeline);
    }
    if (plan->zero_stage > 0 && plan->data * plan->context == 1 && plan->stage_replicas == NULL) {
        note(scenario, "parallel.zero_stage %" PRId64 " shards nothing with data 1", plan->zero_stage);
    }
}

enum status scenario_from_json(struct scenario *scenario, const struct json *root, struct error *error)
{
    static const char *const NEEDED[] = { "model", "machine" };
    int64_t gpus = 0;
    enum status status;
    memset(scenario, 0, sizeof *scenario);
    TRY_OR_FAIL(read_name(scenario, root, error)); /* first: a file of another kind has other keys */
    TRY_OR_FAIL(scenario_known_keys(root, "", error));
    TRY_OR_FAIL(schema_need(root, NEEDED, sizeof NEEDED / sizeof NEEDED[0], error));
    TRY_OR_FAIL(read_model(scenario, root, error));
    TRY_OR_FAIL(read_cluster(scenario, root, &gpus, error));
    TRY_OR_FAIL(read_software(scenario, root, error));
    TRY_OR_FAIL(plan_read(&scenario->plan, &scenario->model, root, gpus, &scenario->arena, error));
    TRY_OR_FAIL(check_precision(scenario, root, error));
    add_notes(scenario);
    return STATUS_OK;
fail:
    scenario_free(scenario);
    return status;
}

/* A scenario is a page of text; a valid document of 64 MB would take seconds to refuse. */
#define SCENARIO_BYTES_MAX ((size_t)4 << 20)

/* Keys whose word is short for an object: "machine": "dgx-a100-80gb" is {"base": "dgx-a100-80gb"}. */
static const struct {
    const char *path, *key;
} SHORT_FORMS[] = {
    { "model", "base" },
    { "machine", "base" },
    { "software", "base" },
    { "memory_policy", "name" },
    { "parallel.pipeline_order", "name" },
};

/* The value at a dotted path of objects; node NULL when it is not there. `up` holds the cursors in between. */
static struct json find_path(struct json_document *document, const char *path, struct json up[2])
{
    json_root(document, &up[0]);
    const char *dot = strchr(path, '.');
    struct json found = { 0 };
    struct json *at = &up[0];
    if (dot != NULL) {
        char head[32];
        snprintf(head, sizeof head, "%.*s", (int)(dot - path), path);
        if (json_object_optional(at, head, &up[1], NULL) != STATUS_OK || up[1].node == NULL) {
            return found;
        }
        at = &up[1];
        path = dot + 1;
    }
    if (json_type(at) != JSON_OBJECT || json_any_optional(at, path, &found, NULL) != STATUS_OK) {
        found.node = NULL;
    }
    return found;
}

/* A set below a word first turns the word into the object that it is short for. A new name of a policy or order drops the parameters of the old one. */
static enum status expand_short_form(struct json_document *document, const char *path, struct error *error)
{
    for (size_t i = 0; i < sizeof SHORT_FORMS / sizeof SHORT_FORMS[0]; i++) {
        size_t length = strlen(SHORT_FORMS[i].path);
        if (strncmp(path, SHORT_FORMS[i].path, length) != 0 || path[length] != '.') {
            continue;
        }
        struct json up[2], found = find_path(document, SHORT_FORMS[i].path, up);
        bool renames = strcmp(SHORT_FORMS[i].key, "name") == 0 && strcmp(path + length + 1, "name") == 0;
        if (found.node == NULL || (json_type(&found) != JSON_STRING && !renames)) {
            return STATUS_OK;
        }
        struct strbuf object = { 0 };
        const char *word = "";
        if (json_type(&found) == JSON_STRING) {
            TRY(json_as_string(&found, &word, error));
        }
        strbuf_printf(&object, "{\"%s\":", SHORT_FORMS[i].key);
        strbuf_json_string(&object, word);
        strbuf_char(&object, '}');
        enum status status = object.failed ? error_set(error, STATUS_NO_MEMORY, "out of memory reading --set")
                                           : json_set(document, SHORT_FORMS[i].path, object.text, error);
        strbuf_free(&object);
        return status;
    }
    return STATUS_OK;
}

/* "parallel.tensor=4" */
enum status scenario_set(struct json_document *document, const char *set, struct error *error)
{
    const char *equals = strchr(set, '=');
    if (equals == NULL || equals == set) {
        return error_at(error, STATUS_BAD_INPUT, "--set", NULL, "expected PATH=VALUE, found \"%.128s\"", set);
    }
    char *path = strndup(set, (size_t)(equals - set));
    if (path == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory reading --set");
    }
    enum status status = expand_short_form(document, path, error);
    if (status == STATUS_OK) {
        status = json_set(document, path, equals + 1, error);
    }
    free(path);
    return status;
}

/* Takes `document` (NULL after an error) and frees it. */
static enum status from_document(struct scenario *scenario, struct json_document *document, enum status status,
                                 const char *const *sets, uint32_t set_count, struct error *error)
{
    struct json root;
    memset(scenario, 0, sizeof *scenario);
    for (uint32_t i = 0; i < set_count && status == STATUS_OK; i++) {
        status = scenario_set(document, sets[i], error);
    }
    if (status == STATUS_OK) {
        json_root(document, &root);
        status = scenario_from_json(scenario, &root, error);
    }
    json_free(document);
    return status;
}

enum status scenario_load(struct scenario *scenario, const char *file, const char *const *sets, uint32_t set_count,
                          struct error *error)
{
    struct json_document *document = NULL;
    enum status status = json_load(&document, file, SCENARIO_BYTES_MAX, error);
    return from_document(scenario, document, status, sets, set_count, error);
}

enum status scenario_parse(struct scenario *scenario, const char *text, const char *file, const char *const *sets,
                           uint32_t set_count, struct error *error)
{
    struct json_document *document = NULL;
    enum status status = json_parse(&document, text, strlen(text), file, error);
    return from_document(scenario, document, status, sets, set_count, error);
}

void scenario_free(struct scenario *scenario)
{
    cluster_free(&scenario->cluster);
    machine_free(&scenario->machine);
    arena_free(&scenario->arena);
    memset(scenario, 0, sizeof *scenario);
}
