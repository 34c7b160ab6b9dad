/* Reading and writing the plans Galvatron's search leaves. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "strategies/planners/galvatron_files.h"

/* In the order in which today's Galvatron writes them. */
#define KEY_TABLE(X)                                                                                                   \
    X(KEY_PIPELINE, "pp_deg")                                                                                          \
    X(KEY_TENSOR, "tp_sizes_enc")                                                                                      \
    X(KEY_CONSECUTIVE, "tp_consecutive_flags")                                                                         \
    X(KEY_SHARDED, "dp_types_enc")                                                                                     \
    X(KEY_ULYSSES, "use_sp")                                                                                           \
    X(KEY_CHECKPOINT, "checkpoint")                                                                                    \
    X(KEY_BATCH, "global_bsz")                                                                                         \
    X(KEY_CHUNKS, "chunks")                                                                                            \
    X(KEY_DIVISION, "pp_division")                                                                                     \
    X(KEY_TYPE, "pipeline_type")                                                                                       \
    X(KEY_DEFAULT, "default_dp_type")                                                                                  \
    X(KEY_VTP, "vtp")                                                                                                  \
    X(KEY_VSP, "vsp")                                                                                                  \
    X(KEY_EMBED, "embed_sdp")

enum key {
#define X(name, word) name,
    KEY_TABLE(X)
#undef X
        KEY_COUNT
};
_Static_assert((int)KEY_COUNT == (int)GALVATRON_PLAN_KEYS, "a plan remembers the order of all keys");

static const char *const key_words[] = {
#define X(name, word) word,
    KEY_TABLE(X)
#undef X
};

const char *galvatron_plan_key_word(uint8_t key)
{
    CHECK(key < KEY_COUNT);
    return key_words[key];
}

static const char *const type_words[] = { "gpipe", "pipedream_flush" };
static const char *const default_words[] = { "ddp", "zero2", "zero3" };

enum { PLAN_BATCH_LIMIT = 1 << 30 };

/* "2,2,1": numbers without blanks, as many as `capacity` (a plan of more layers is refused). */
static enum status read_list(const struct json *root, const char *key, uint32_t max, uint32_t *values,
                             uint32_t capacity, uint32_t *count, struct error *error)
{
    const char *text;
    struct json at;
    TRY(json_string(root, key, &text, error));
    TRY(json_any(root, key, &at, error));
    for (*count = 0;; text++) {
        uint64_t value = 0;
        const char *start = text;
        for (; *text >= '0' && *text <= '9' && text - start < 9; text++) {
            value = value * 10 + (uint64_t)(*text - '0');
        }
        if (text == start || (text - start > 1 && *start == '0') || (*text != ',' && *text != '\0') || value > max) {
            return json_error(&at, error,
                              "item %" PRIu32 " is \"%.12s\"; allowed: numbers from 0 to %" PRIu32
                              " with commas between them",
                              *count, start, max);
        }
        if (*count == capacity) {
            return json_error(&at, error, "more than %" PRIu32 " items", capacity);
        }
        values[(*count)++] = (uint32_t)value;
        if (*text == '\0') {
            return STATUS_OK;
        }
    }
}

/* A list of one item a layer, that may be absent (then `fallback`). */
static enum status read_layers(const struct galvatron_plan_file *plan, const struct json *root, enum key key,
                               uint32_t max, uint32_t fallback, uint32_t *values, struct error *error)
{
    uint32_t count;
    if (!json_has(root, key_words[key])) {
        for (uint32_t i = 0; i < plan->layer_count; i++) {
            values[i] = fallback;
        }
        return STATUS_OK;
    }
    struct json at;
    TRY(json_any(root, key_words[key], &at, error));
    TRY(read_list(root, key_words[key], max, values, plan->layer_count, &count, error));
    if (count != plan->layer_count) {
        return json_error(&at, error, "%" PRIu32 " layers are missing: it has %" PRIu32 ", tp_sizes_enc %" PRIu32,
                          plan->layer_count - count, count, plan->layer_count);
    }
    return STATUS_OK;
}

static enum status read_order(struct galvatron_plan_file *plan, const struct json *root, struct error *error)
{
    TRY(json_known_keys(root, key_words, KEY_COUNT, error));
    plan->key_count = 0;
    for (size_t i = 0; i < json_count(root); i++) {
        const char *key;
        struct json child;
        json_member(root, i, &key, &child);
        for (uint32_t k = 0; k < KEY_COUNT; k++) {
            if (strcmp(key, key_words[k]) == 0) {
                plan->keys[plan->key_count++] = (uint8_t)k;
            }
        }
        if (json_type(&child) == JSON_NULL) {
            return json_error(&child, error, "null; leave the key out or give it a value");
        }
    }
    return STATUS_OK;
}

static enum status read_single(struct galvatron_plan_file *plan, const struct json *root, struct error *error)
{
    int64_t pipeline, batch, chunks, vtp, vsp, embed;
    size_t type, data;
    struct json at;
    TRY(json_int(root, "pp_deg", 1, plan->gpus, &pipeline, error));
    TRY(json_int(root, "global_bsz", 1, PLAN_BATCH_LIMIT, &batch, error));
    TRY(json_int(root, "chunks", 1, batch, &chunks, error));
    TRY(json_word_or(root, "pipeline_type", type_words, 2, 0, &type, error));
    TRY(json_word_or(root, "default_dp_type", default_words, 3, 0, &data, error));
    TRY(json_int_or(root, "vtp", 1, plan->gpus, 1, &vtp, error));
    TRY(json_int_or(root, "vsp", 0, 1, 0, &vsp, error));
    TRY(json_int_or(root, "embed_sdp", 0, 1, 0, &embed, error));
    if (plan->gpus % pipeline != 0) {
        TRY(json_any(root, "pp_deg", &at, error));
        return json_error(&at, error, "%" PRId64 " stages do not divide %" PRIu32 " devices", pipeline, plan->gpus);
    }
    if (plan->gpus / pipeline % vtp != 0) {
        TRY(json_any(root, "vtp", &at, error));
        return json_error(&at, error, "%" PRId64 " does not divide the %" PRId64 " devices of a stage", vtp,
                          plan->gpus / pipeline);
    }
    plan->pipeline = (uint32_t)pipeline;
    plan->global_batch = (uint32_t)batch;
    plan->chunks = (uint32_t)chunks;
    plan->one_f_one_b = type == 1;
    plan->default_data = default_words[data];
    plan->vocab_tensor = (uint32_t)vtp;
    plan->vocab_ulysses = vsp == 1;
    plan->embed_sharded = embed == 1;
    return STATUS_OK;
}

static enum status read_division(struct galvatron_plan_file *plan, const struct json *root, struct error *error)
{
    uint32_t count = 0, sum = 0;
    struct json at;
    if (!json_has(root, "pp_division")) {
        uint32_t even = plan->layer_count / plan->pipeline;
        for (uint32_t i = 0; i < plan->pipeline; i++) {
            plan->division[i] = i + 1 < plan->pipeline ? even : plan->layer_count - even * (plan->pipeline - 1);
        }
        return STATUS_OK;
    }
    TRY(json_any(root, "pp_division", &at, error));
    TRY(read_list(root, "pp_division", plan->layer_count, plan->division, plan->pipeline, &count, error));
    for (uint32_t i = 0; i < count; i++) {
        sum += plan->division[i];
    }
    if (count != plan->pipeline || sum != plan->layer_count) {
        return json_error(&at, error,
                          "%" PRIu32 " stages with %" PRIu32 " layers together; pp_deg is %" PRIu32
                          " and there are %" PRIu32 " layers",
                          count, sum, plan->pipeline, plan->layer_count);
    }
    return STATUS_OK;
}

static enum status fill_layers(struct galvatron_plan_file *plan, const struct json *root, const uint32_t *tensor,
                               uint32_t *scratch, struct error *error)
{
    uint32_t count = plan->layer_count, stage = plan->gpus / plan->pipeline;
    struct json at;
    TRY(json_any(root, "tp_sizes_enc", &at, error));
    TRY(read_layers(plan, root, KEY_CONSECUTIVE, 1, 1, scratch, error));
    for (uint32_t i = 0; i < count; i++) {
        if (tensor[i] == 0 || (tensor[i] & (tensor[i] - 1)) != 0 || stage % tensor[i] != 0) {
            return json_error(&at, error,
                              "layer %" PRIu32 " has degree %" PRIu32
                              "; allowed: powers of two that divide the %" PRIu32 " devices of a stage",
                              i, tensor[i], stage);
        }
        uint32_t data = stage / tensor[i];
        plan->tensor_consecutive[i] = scratch[i] == 1;
        plan->layers[i] =
            (struct galvatron_strategy){ .pipeline = plan->pipeline,
                                         .tensor = tensor[i],
                                         .data = data,
                                         .tensor_consecutive = scratch[i] == 1 || tensor[i] == 1 || data == 1 };
    }
    TRY(read_layers(plan, root, KEY_SHARDED, 1, 0, scratch, error));
    for (uint32_t i = 0; i < count; i++) {
        plan->layers[i].sharded = scratch[i] == 1;
    }
    TRY(read_layers(plan, root, KEY_CHECKPOINT, 1, 0, scratch, error));
    for (uint32_t i = 0; i < count; i++) {
        plan->layers[i].recompute = scratch[i] == 1;
    }
    if (plan->ulysses != NULL) {
        TRY(read_layers(plan, root, KEY_ULYSSES, 1, 0, scratch, error));
        for (uint32_t i = 0; i < count; i++) {
            plan->ulysses[i] = scratch[i] == 1;
        }
    }
    return STATUS_OK;
}

enum status galvatron_plan_file_read(struct galvatron_plan_file *plan, const struct json *root, uint32_t gpus,
                                     uint32_t layers, struct arena *arena, struct error *error)
{
    struct json at;
    *plan = (struct galvatron_plan_file){ .gpus = gpus };
    TRY(galvatron_check_gpus(gpus, error));
    if (json_type(root) != JSON_OBJECT) {
        return json_error(root, error, "found %s; a plan of Galvatron is an object", json_type_word(json_type(root)));
    }
    TRY(read_order(plan, root, error));
    TRY(read_single(plan, root, error));
    TRY(json_any(root, "dp_types_enc", &at, error));
    TRY(json_any(root, "tp_sizes_enc", &at, error));
    uint32_t *tensor = arena_array(arena, uint32_t, GALVATRON_PLAN_LAYERS_MAX);
    uint32_t *scratch = arena_array(arena, uint32_t, GALVATRON_PLAN_LAYERS_MAX);
    if (tensor == NULL || scratch == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory reading a plan");
    }
    TRY(read_list(root, "tp_sizes_enc", gpus, tensor, GALVATRON_PLAN_LAYERS_MAX, &plan->layer_count, error));
    if (layers > 0 && layers != plan->layer_count) {
        return json_error(&at, error,
                          "a plan of %" PRIu32 " layers; the model has %" PRIu32 ": it is for another model",
                          plan->layer_count, layers);
    }
    plan->layers = arena_array(arena, struct galvatron_strategy, plan->layer_count);
    plan->tensor_consecutive = arena_array(arena, bool, plan->layer_count);
    plan->division = arena_array(arena, uint32_t, plan->pipeline);
    plan->ulysses = json_has(root, "use_sp") ? arena_array(arena, bool, plan->layer_count) : NULL;
    if (plan->layers == NULL || plan->tensor_consecutive == NULL || plan->division == NULL ||
        (plan->ulysses == NULL && json_has(root, "use_sp"))) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory reading a plan");
    }
    TRY(fill_layers(plan, root, tensor, scratch, error));
    return read_division(plan, root, error);
}

enum status galvatron_plan_file_load(struct galvatron_plan_file *plan, const char *path, uint32_t gpus, uint32_t layers,
                                     struct arena *arena, struct error *error)
{
    struct json_document *document = NULL;
    struct json root;
    TRY(json_load(&document, path, (size_t)4 << 20, error));
    json_root(document, &root);
    enum status status = galvatron_plan_file_read(plan, &root, gpus, layers, arena, error);
    json_free(document);
    return status;
}

void galvatron_plan_file_all_keys(struct galvatron_plan_file *plan)
{
    plan->key_count = 0;
    for (uint32_t k = 0; k < KEY_COUNT; k++) {
        if (k != KEY_ULYSSES || plan->ulysses != NULL) {
            plan->keys[plan->key_count++] = (uint8_t)k;
        }
    }
}

static uint32_t layer_item(const struct galvatron_plan_file *plan, enum key key, uint32_t layer)
{
    const struct galvatron_strategy *strategy = &plan->layers[layer];
    return key == KEY_TENSOR        ? strategy->tensor
           : key == KEY_CONSECUTIVE ? plan->tensor_consecutive[layer]
           : key == KEY_SHARDED     ? strategy->sharded
           : key == KEY_CHECKPOINT  ? strategy->recompute
                                    : plan->ulysses[layer];
}

static void write_value(const struct galvatron_plan_file *plan, enum key key, struct strbuf *out)
{
    switch (key) {
    case KEY_PIPELINE: strbuf_printf(out, "%" PRIu32, plan->pipeline); break;
    case KEY_BATCH: strbuf_printf(out, "%" PRIu32, plan->global_batch); break;
    case KEY_CHUNKS: strbuf_printf(out, "%" PRIu32, plan->chunks); break;
    case KEY_VTP: strbuf_printf(out, "%" PRIu32, plan->vocab_tensor); break;
    case KEY_VSP: strbuf_char(out, plan->vocab_ulysses ? '1' : '0'); break;
    case KEY_EMBED: strbuf_char(out, plan->embed_sharded ? '1' : '0'); break;
    case KEY_TYPE: strbuf_json_string(out, type_words[plan->one_f_one_b]); break;
    case KEY_DEFAULT: strbuf_json_string(out, plan->default_data); break;
    case KEY_DIVISION:
        for (uint32_t i = 0; i < plan->pipeline; i++) {
            strbuf_printf(out, "%s%" PRIu32, i == 0 ? "\"" : ",", plan->division[i]);
        }
        strbuf_char(out, '"');
        break;
    case KEY_TENSOR:
    case KEY_CONSECUTIVE:
    case KEY_SHARDED:
    case KEY_ULYSSES:
    case KEY_CHECKPOINT:
        for (uint32_t i = 0; i < plan->layer_count; i++) {
            strbuf_printf(out, "%s%" PRIu32, i == 0 ? "\"" : ",", layer_item(plan, key, i));
        }
        strbuf_char(out, '"');
        break;
    case KEY_COUNT: CHECK(false); break;
    }
}

void galvatron_plan_file_write(const struct galvatron_plan_file *plan, struct strbuf *out)
{
    for (uint32_t i = 0; i < plan->key_count; i++) {
        enum key key = (enum key)plan->keys[i];
        strbuf_printf(out, "%s\n    \"%s\": ", i == 0 ? "{" : ",", key_words[key]);
        write_value(plan, key, out);
    }
    strbuf_append(out, "\n}");
}
