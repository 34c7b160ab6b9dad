/* Reading parallel.layers, parallel.embedding and parallel.head. */
#include <inttypes.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/plan/plan_layers.h"
#include "sim/plan/scenario_keys.h"

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory reading a plan");
}

enum status plan_recompute_mode(const struct json *at, uint8_t *mode, struct error *error)
{
    const char *word;
    TRY(json_as_string(at, &word, error));
    for (int i = 0; i < RECOMPUTE_MODE_COUNT; i++) {
        if (strcmp(word, recompute_word((enum recompute_mode)i)) == 0) {
            *mode = (uint8_t)i;
            return STATUS_OK;
        }
    }
    return json_error(at, error, "unknown recompute mode \"%.64s\": allowed are none, selective, full", word);
}

/* A refusal of plan_layer_check stands where the keys do. */
static enum status checked(const struct plan *plan, const struct model *model, const struct plan_layer *layer,
                           const char *what, const struct json *at, struct error *error)
{
    struct error inner = { 0 };
    enum status status = plan_layer_check(plan, model, layer, what, NULL, &inner);
    return status == STATUS_OK ? status : json_error(at, error, "%s", inner.message);
}

/* One degree follows from the other, both from the plan's. */
static enum status read_split(const struct plan *plan, const struct model *model, const struct json *at,
                              const char *what, struct plan_layer *layer, struct error *error)
{
    static const char *const orders[] = { "tensor", "data" };
    size_t order;
    int64_t group = plan->tensor * plan->data;
    TRY(json_int_or(at, "tensor", 1, PLAN_DEGREE_MAX, 0, &layer->tensor, error));
    TRY(json_int_or(at, "data", 1, PLAN_DEGREE_MAX, 0, &layer->data, error));
    TRY(json_int_or(at, "zero_stage", 0, 3, plan->zero_stage, &layer->zero_stage, error));
    TRY(json_word_or(at, "consecutive", orders, 2, 0, &order, error));
    if (layer->tensor == 0 && layer->data == 0) {
        layer->tensor = plan->tensor;
        layer->data = plan->data;
    } else if (layer->tensor == 0 && group % layer->data != 0) {
        return json_error(at, error,
                          "%s: data %" PRId64 " does not divide the %" PRId64
                          " devices of a stage (parallel.tensor %" PRId64 " x parallel.data %" PRId64 ")",
                          what, layer->data, group, plan->tensor, plan->data);
    } else if (layer->tensor == 0) {
        layer->tensor = group / layer->data;
    } else if (layer->data == 0) {
        layer->data = group % layer->tensor == 0 ? group / layer->tensor : 1; /* the check refuses the second */
    }
    layer->data_consecutive = order == 1 && layer->tensor > 1 && layer->data > 1;
    return checked(plan, model, layer, what, at, error);
}

static enum status read_end(const struct plan *plan, const struct model *model, const struct json *parallel,
                            const char *key, const char *what, struct plan_layer *layer, struct error *error)
{
    static const char *const keys[] = { "tensor", "data", "zero_stage", "consecutive" };
    struct json at;
    TRY(json_object_optional(parallel, key, &at, error));
    if (at.node == NULL) {
        return STATUS_OK;
    }
    TRY(json_known_keys(&at, keys, sizeof keys / sizeof keys[0], error));
    return read_split(plan, model, &at, what, layer, error);
}

/* One run of equal layers, from layer `first` on. */
static enum status read_run(struct plan *plan, const struct model *model, const struct json *item, int64_t first,
                            int64_t *count, bool recompute_listed, struct error *error)
{
    struct plan_layer layer = { 0 };
    struct json at;
    uint8_t mode = RECOMPUTE_NONE;
    TRY(scenario_known_keys(item, "parallel.layers[]", error));
    TRY(json_int(item, "layers", 1, model->layers, count, error));
    if (first + *count > model->layers) {
        return json_error(item, error, "layers %" PRId64 " to %" PRId64 ", but %s has %" PRId64 " (numbered from 0)",
                          first, first + *count - 1, model->name, model->layers);
    }
    TRY(read_split(plan, model, item, "these layers", &layer, error));
    for (int64_t i = first; i < first + *count; i++) {
        plan->layers[i] = layer;
    }
    TRY(json_any_optional(item, "recompute", &at, error));
    if (at.node == NULL) {
        return STATUS_OK;
    }
    if (recompute_listed) {
        return json_error(&at, error, "\"recompute\" lists the mode of every layer already: say it in one place");
    }
    TRY(plan_recompute_mode(&at, &mode, error));
    memset(plan->recompute + first, mode, (size_t)*count);
    return STATUS_OK;
}

static enum status read_list(struct plan *plan, const struct model *model, const struct json *list,
                             bool recompute_listed, struct arena *arena, struct error *error)
{
    int64_t filled = 0, count = 0;
    plan->layers = arena_array(arena, struct plan_layer, (size_t)model->layers);
    if (plan->layers == NULL) {
        return no_memory(error);
    }
    for (size_t i = 0; i < json_count(list); i++) {
        struct json item;
        json_item(list, i, &item);
        TRY(read_run(plan, model, &item, filled, &count, recompute_listed, error));
        filled += count;
    }
    if (filled != model->layers) {
        return json_error(list, error,
                          "the list has %" PRId64 " layers together, %s has %" PRId64 ": %" PRId64 " are missing",
                          filled, model->name, model->layers, model->layers - filled);
    }
    return STATUS_OK;
}

enum status plan_layers_read(struct plan *plan, const struct model *model, const struct json *root,
                             bool recompute_listed, struct arena *arena, struct error *error)
{
    struct json parallel, list;
    TRY(json_object_optional(root, "parallel", &parallel, error));
    TRY(json_array_optional(&parallel, "layers", &list, error));
    if (list.node != NULL) {
        TRY(read_list(plan, model, &list, recompute_listed, arena, error));
    }
    TRY(read_end(plan, model, &parallel, "embedding", "the embedding", &plan->embedding, error));
    TRY(read_end(plan, model, &parallel, "head", "the head", &plan->head, error));
    plan_layers_simplify(plan, model);
    return STATUS_OK;
}
