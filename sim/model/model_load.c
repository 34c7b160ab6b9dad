/* Loading a model description: library names, paths, and the inline object of a scenario. */
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/model/model.h"
#include "sim/model/model_ranges.h"

#define WORDS(name, table)  static const char *const name[] = { table(X) }
#define X(enumerator, word) word,
WORDS(family_words, MODEL_FAMILY_TABLE);
WORDS(norm_words, MODEL_NORM_TABLE);
WORDS(activation_words, MODEL_ACTIVATION_TABLE);
WORDS(positions_words, MODEL_POSITIONS_TABLE);
#undef X

/* Plain members of an inline object: key, field, range. Read after the family's defaults (or the base model) are in
 * place; those without a default are
 * required below. */
#define INLINE_INT_TABLE(X)                                                                                            \
    X("layers", layers, 1, MODEL_LAYERS_MAX)                                                                           \
    X("hidden", hidden, 1, MODEL_HIDDEN_MAX)                                                                           \
    X("heads", heads, 1, MODEL_HEADS_MAX)                                                                              \
    X("kv_heads", kv_heads, 1, MODEL_HEADS_MAX)                                                                        \
    X("head_size", head_size, 1, MODEL_HEAD_SIZE_MAX)                                                                  \
    X("ffn", ffn, 1, MODEL_FFN_MAX)                                                                                    \
    X("vocab", vocab, 1, MODEL_VOCAB_MAX)                                                                              \
    X("max_sequence", max_sequence, 1, MODEL_SEQUENCE_MAX)                                                             \
    X("position_rows", position_rows, 0, MODEL_SEQUENCE_MAX)                                                           \
    X("segment_types", segment_types, 0, MODEL_SEGMENTS_MAX)                                                           \
    X("image_size", image_size, 1, MODEL_IMAGE_MAX)                                                                    \
    X("patch_size", patch_size, 1, MODEL_IMAGE_MAX)                                                                    \
    X("channels", channels, 1, MODEL_CHANNELS_MAX)                                                                     \
    X("classes", classes, 0, MODEL_CLASSES_MAX)                                                                        \
    X("decoder_layers", decoder_layers, 1, MODEL_LAYERS_MAX)                                                           \
    X("decoder_sequence", decoder_sequence, 1, MODEL_SEQUENCE_MAX)                                                     \
    X("window", window, 1, MODEL_IMAGE_MAX)
#define INLINE_BOOL_TABLE(X)                                                                                           \
    X("tied_head", tied_head)                                                                                          \
    X("lm_head", lm_head)                                                                                              \
    X("qkv_bias", qkv_bias)                                                                                            \
    X("projection_bias", projection_bias)                                                                              \
    X("ffn_bias", ffn_bias)                                                                                            \
    X("norm_bias", norm_bias)                                                                                          \
    X("head_bias", head_bias)                                                                                          \
    X("final_norm", final_norm)                                                                                        \
    X("causal", causal)                                                                                                \
    X("parallel_residual", parallel_residual)                                                                          \
    X("pooler", pooler)                                                                                                \
    X("mlm_head", mlm_head)

static const char *const inline_keys[] = { "family",
                                           "base",
                                           "name",
                                           "source",
                                           "norm",
                                           "activation",
                                           "positions",
                                           "dropout",
                                           "attention_dropout",
                                           "published_parameters",
                                           "stage_layers",
#define X(key, field, min, max) key,
                                           INLINE_INT_TABLE(X)
#undef X
#define X(key, field) key,
                                               INLINE_BOOL_TABLE(X)
#undef X
};

/* A required integer that the base model may already give. */
static enum status inline_int(const struct json *object, const char *key, int64_t min, int64_t max, int64_t *value,
                              struct error *error)
{
    if (json_has(object, key)) {
        return json_int(object, key, min, max, value, error);
    }
    return STATUS_OK;
}

/* Name the first size that neither the object nor its base gave. */
static enum status require_sizes(const struct model *model, const struct json *object, struct error *error)
{
    bool swin = model->family == MODEL_SWIN, vit = model->family == MODEL_VIT || swin;
    const struct {
        const char *key;
        bool given;
    } sizes[] = {
        { "layers", model->layers > 0 },
        { "hidden", model->hidden > 0 },
        { "heads", model->heads > 0 },
        { "ffn", model->ffn > 0 || model->family != MODEL_LLAMA },
        { "vocab", model->vocab > 0 || vit },
        { "max_sequence", model->max_sequence > 0 || vit },
        { "image_size", model->image_size > 0 || !vit },
        { "patch_size", model->patch_size > 0 || !vit },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (!sizes[i].given) {
            return json_error(object, error, "\"%s\" is missing: a %s model needs %s, hidden, heads%s",
                              swin && i == 0 ? "stage_layers" : sizes[i].key, model_family_word(model->family),
                              swin ? "stage_layers" : "layers",
                              vit                            ? ", image_size and patch_size"
                              : model->family == MODEL_LLAMA ? ", ffn, vocab and max_sequence"
                                                             : ", vocab and max_sequence");
        }
    }
    return STATUS_OK;
}

static enum status inline_words(struct model *model, const struct json *object, struct error *error)
{
    size_t word = 0;
    TRY(json_word_or(object, "norm", norm_words, MODEL_NORM_COUNT, model->norm, &word, error));
    model->norm = (enum model_norm)word;
    if (model->norm == MODEL_RMS_NORM) {
        model->norm_bias = false;
    }
    TRY(json_word_or(object, "activation", activation_words, MODEL_ACTIVATION_COUNT, model->activation, &word, error));
    model->activation = (enum model_activation)word;
    TRY(json_word_or(object, "positions", positions_words, MODEL_POSITIONS_COUNT, model->positions, &word, error));
    model->positions = (enum model_positions)word;
    return STATUS_OK;
}

/* Blocks of each stage of swin; their sum, where the object does not say it. */
static enum status inline_stages(struct model *model, const struct json *object, struct error *error)
{
    struct json list, item;
    TRY(json_array_optional(object, "stage_layers", &list, error));
    if (list.node == NULL) {
        return STATUS_OK;
    }
    if (json_count(&list) != MODEL_STAGES) {
        return json_error(&list, error, "found %zu numbers, expected the blocks of each of %d stages",
                          json_count(&list), MODEL_STAGES);
    }
    int64_t sum = 0;
    for (size_t i = 0; i < MODEL_STAGES; i++) {
        json_item(&list, i, &item);
        TRY(json_as_int(&item, 1, MODEL_LAYERS_MAX, &model->stage_layers[i], error));
        sum += model->stage_layers[i];
    }
    if (!json_has(object, "layers")) {
        if (sum > MODEL_LAYERS_MAX) {
            return json_error(&list, error, "%lld blocks in all: allowed are up to %lld", (long long)sum,
                              (long long)MODEL_LAYERS_MAX);
        }
        model->layers = sum;
    }
    return STATUS_OK;
}

/* Half of the layers are the decoder's, which sees as many tokens as the encoder. */
static void inline_decoder(struct model *model, const struct json *object)
{
    if (!json_has(object, "decoder_layers") && (json_has(object, "layers") || model->decoder_layers == 0)) {
        model->decoder_layers = model->layers / 2;
    }
    if (model->decoder_sequence == 0) {
        model->decoder_sequence = model->max_sequence;
    }
}

/* Sizes that follow from others when the object does not say. */
static enum status inline_derive(struct model *model, const struct json *object, struct error *error)
{
    bool sized = json_has(object, "hidden") || json_has(object, "heads") || model->head_size == 0;
    if (!json_has(object, "head_size") && sized) {
        if (model->hidden % model->heads != 0) {
            return json_error(object, error,
                              "hidden %lld is not divisible by heads %lld: change one, or give head_size",
                              (long long)model->hidden, (long long)model->heads);
        }
        model->head_size = model->hidden / model->heads;
    }
    if (!json_has(object, "kv_heads") && (json_has(object, "heads") || model->kv_heads == 0)) {
        model->kv_heads = model->heads;
    }
    if (!json_has(object, "ffn") && model->family != MODEL_LLAMA && (json_has(object, "hidden") || model->ffn == 0)) {
        model->ffn = 4 * model->hidden;
    }
    bool patches = model->patch_size > 0 && model->patch_size <= model->image_size;
    if (!json_has(object, "max_sequence") && patches) {
        model->max_sequence = model_patches(model) + (model->family == MODEL_VIT ? 1 : 0);
    }
    if (model->family == MODEL_T5) {
        inline_decoder(model, object);
    }
    if (model->positions != MODEL_LEARNED_POSITIONS) {
        model->position_rows = 0;
    } else if (!json_has(object, "position_rows")) {
        model->position_rows = model->max_sequence;
    }
    return STATUS_OK;
}

static enum status inline_family(struct model *model, const struct json *object, struct error *error)
{
    size_t family = 0;
    TRY(json_word(object, "family", family_words, MODEL_FAMILY_COUNT, &family, error));
    model_family_defaults(model, (enum model_family)family);
    return STATUS_OK;
}

static enum status inline_object(struct model *model, const struct json *object, struct error *error)
{
    TRY(json_known_keys(object, inline_keys, sizeof inline_keys / sizeof inline_keys[0], error));
    const char *base = NULL, *text = NULL;
    TRY(json_string_or(object, "base", NULL, &base, error));
    if (base != NULL) {
        struct json at;
        TRY(json_any(object, "base", &at, error));
        if (json_has(object, "family")) {
            return json_error(object, error, "\"family\" and \"base\" exclude each other: the base model has a family");
        }
        if (!model_library_find(base, model)) {
            const char *near = model_library_nearest(base);
            return json_error(&at, error, "no model \"%s\" in the library%s%s%s", base,
                              near != NULL ? "; did you mean \"" : "", near != NULL ? near : "",
                              near != NULL ? "\"?" : "");
        }
        model->published_parameters = 0;
    } else {
        TRY(inline_family(model, object, error));
    }
    TRY(inline_words(model, object, error));
#define X(key, field, min, max) TRY(inline_int(object, key, min, max, &model->field, error));
    INLINE_INT_TABLE(X)
#undef X
#define X(key, field) TRY(json_bool_or(object, key, model->field, &model->field, error));
    INLINE_BOOL_TABLE(X)
#undef X
    TRY(json_real_or(object, "dropout", 0, 0.99, model->dropout, &model->dropout, error));
    double attention_dropout = json_has(object, "dropout") ? model->dropout : model->attention_dropout;
    TRY(json_real_or(object, "attention_dropout", 0, 0.99, attention_dropout, &model->attention_dropout, error));
    TRY(json_real_or(object, "published_parameters", 0, 1e18, model->published_parameters, &model->published_parameters,
                     error));
    TRY(inline_stages(model, object, error));
    TRY(require_sizes(model, object, error));
    TRY(inline_derive(model, object, error));
    TRY(json_string_or(object, "name", base != NULL ? base : "inline", &text, error));
    snprintf(model->name, sizeof model->name, "%s", text);
    TRY(json_string_or(object, "source", base != NULL ? "library model, changed in the scenario" : "scenario", &text,
                       error));
    snprintf(model->source, sizeof model->source, "%s", text);
    struct error found;
    if (model_check(model, &found) != STATUS_OK) {
        return json_error(object, error, "%s", found.message);
    }
    return STATUS_OK;
}

static bool is_path(const char *name)
{
    size_t length = strlen(name);
    return strchr(name, '/') != NULL || (length >= 5 && strcmp(name + length - 5, ".json") == 0);
}

/* A description is a page of text; a valid document of 64 MB would take seconds to refuse. */
#define MODEL_FILE_BYTES_MAX ((size_t)4 << 20)

static enum status load_file(struct model *model, const char *path, struct error *error)
{
    struct json_document *document = NULL;
    struct json root;
    TRY(json_load(&document, path, MODEL_FILE_BYTES_MAX, error));
    json_root(document, &root);
    enum status status = STATUS_OK;
    if (json_type(&root) == JSON_OBJECT && (json_has(&root, "family") || json_has(&root, "base"))) {
        status = inline_object(model, &root, error);
    } else {
        status = model_from_config(model, &root, error);
    }
    json_free(document);
    return status;
}

enum status model_load(struct model *model, const char *name_or_path, struct error *error)
{
    if (is_path(name_or_path)) {
        return load_file(model, name_or_path, error);
    }
    if (model_library_find(name_or_path, model)) {
        return STATUS_OK;
    }
    const char *near = model_library_nearest(name_or_path);
    if (near != NULL) {
        return error_set(error, STATUS_BAD_INPUT,
                         "no model \"%s\" in the library; did you mean \"%s\"? Allowed: a library name (memwall list "
                         "models), a path to a Hugging Face config.json, or an inline object",
                         name_or_path, near);
    }
    return error_set(error, STATUS_BAD_INPUT,
                     "no model \"%s\" in the library. Allowed: a library name (memwall list models: gpt3-175b, "
                     "llama-3-8b, bert-large ...), a path to a Hugging Face config.json, or an inline object",
                     name_or_path);
}

/* A path in a scenario: from the working folder, else from the scenario's own. */
static enum status load_beside(struct model *model, const struct json *value, const char *path, struct error *error)
{
    const char *scenario = json_file(value);
    const char *slash = scenario != NULL ? strrchr(scenario, '/') : NULL;
    if (path[0] != '/' && !file_exists(path) && slash != NULL) {
        char beside[4096];
        int length = snprintf(beside, sizeof beside, "%.*s/%s", (int)(slash - scenario), scenario, path);
        if (length > 0 && (size_t)length < sizeof beside && file_exists(beside)) {
            return load_file(model, beside, error);
        }
    }
    if (file_exists(path)) {
        return load_file(model, path, error);
    }
    struct error found; /* a file that is not there: say which key named it */
    enum status status = load_file(model, path, &found);
    if (status != STATUS_OK) {
        status = json_error(value, error, "%s%s%s", found.file, found.file[0] != '\0' ? ": " : "", found.message);
    }
    return status;
}

enum status model_from_json(struct model *model, const struct json *value, struct error *error)
{
    if (json_type(value) == JSON_OBJECT) {
        return json_has(value, "model_type") ? model_from_config(model, value, error)
                                             : inline_object(model, value, error);
    }
    if (json_type(value) != JSON_STRING) {
        return json_error(value, error, "found %s; a model is a library name, a path to a config.json, or an object",
                          json_type_word(json_type(value)));
    }
    const char *name = NULL;
    TRY(json_as_string(value, &name, error));
    if (is_path(name)) {
        return load_beside(model, value, name, error);
    }
    struct error found;
    if (model_load(model, name, &found) != STATUS_OK) {
        return json_error(value, error, "%s", found.message);
    }
    return STATUS_OK;
}
