/* Hugging Face config.json files: which keys each model type uses, and what it means where a key is silent (the
 * defaults of the transformers library's configuration
 * classes). Unknown keys are allowed: these files hold many that do not change sizes. */
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/schema.h"
#include "sim/model/model.h"
#include "sim/model/model_ranges.h"

/* An integer under one of two names; *value stays when both are absent and it is not required. JSON null counts as
 * absent. */
static enum status config_int(const struct json *config, const char *key, const char *other, bool required, int64_t min,
                              int64_t max, int64_t *value, struct error *error)
{
    struct json child;
    TRY(json_any_optional(config, key, &child, error));
    if (child.node == NULL && other != NULL) {
        TRY(json_any_optional(config, other, &child, error));
    }
    if (child.node != NULL) {
        return json_as_int(&child, min, max, value, error);
    }
    if (required) {
        return json_error(config, error, "\"%s\" is missing: this model type needs it, an integer from %lld to %lld",
                          key, (long long)min, (long long)max);
    }
    return STATUS_OK;
}

static enum status config_bool(const struct json *config, const char *key, bool *value, struct error *error)
{
    struct json child;
    TRY(json_any_optional(config, key, &child, error));
    return child.node == NULL ? STATUS_OK : json_as_bool(&child, value, error);
}

static enum status config_real(const struct json *config, const char *key, double *value, struct error *error)
{
    struct json child;
    TRY(json_any_optional(config, key, &child, error));
    return child.node == NULL ? STATUS_OK : json_as_real(&child, 0, 0.99, value, error);
}

/* gelu, gelu_new, gelu_fast, quick_gelu ... are one cost; silu means SwiGLU only in the llama family, whose block
 * has a gate. */
static enum status config_activation(const struct json *config, const char *key, struct model *model,
                                     struct error *error)
{
    struct json child;
    const char *word = NULL;
    TRY(json_any_optional(config, key, &child, error));
    if (child.node == NULL) {
        return STATUS_OK;
    }
    TRY(json_as_string(&child, &word, error));
    if (model->activation == MODEL_SWIGLU) {
        if (strcmp(word, "silu") == 0 || strcmp(word, "swish") == 0 || strstr(word, "gelu") != NULL) {
            return STATUS_OK; /* a gated block: the gate's own function costs the same */
        }
        return json_error(&child, error, "found \"%s\"; allowed: silu, swish, gelu", word);
    }
    if (strstr(word, "gelu") != NULL) {
        model->activation = MODEL_GELU;
    } else if (strcmp(word, "relu") == 0) {
        model->activation = MODEL_RELU;
    } else {
        return json_error(&child, error, "found \"%s\"; allowed: gelu (and its variants), relu", word);
    }
    return STATUS_OK;
}

/* The keys most types share. */
static enum status config_sizes(const struct json *config, struct model *model, struct error *error)
{
    TRY(config_int(config, "num_hidden_layers", "n_layer", true, 1, MODEL_LAYERS_MAX, &model->layers, error));
    TRY(config_int(config, "hidden_size", "n_embd", true, 1, MODEL_HIDDEN_MAX, &model->hidden, error));
    TRY(config_int(config, "num_attention_heads", "n_head", true, 1, MODEL_HEADS_MAX, &model->heads, error));
    return STATUS_OK;
}

static enum status config_words(const struct json *config, struct model *model, int64_t default_positions,
                                struct error *error)
{
    TRY(config_int(config, "vocab_size", NULL, true, 1, MODEL_VOCAB_MAX, &model->vocab, error));
    model->max_sequence = default_positions;
    TRY(config_int(config, "max_position_embeddings", "n_positions", false, 1, MODEL_SEQUENCE_MAX, &model->max_sequence,
                   error));
    return STATUS_OK;
}

static enum status config_gpt2(const struct json *config, struct model *model, struct error *error)
{
    model_family_defaults(model, MODEL_GPT);
    TRY(config_int(config, "n_layer", "num_hidden_layers", true, 1, MODEL_LAYERS_MAX, &model->layers, error));
    TRY(config_int(config, "n_embd", "hidden_size", true, 1, MODEL_HIDDEN_MAX, &model->hidden, error));
    TRY(config_int(config, "n_head", "num_attention_heads", true, 1, MODEL_HEADS_MAX, &model->heads, error));
    TRY(config_int(config, "vocab_size", NULL, true, 1, MODEL_VOCAB_MAX, &model->vocab, error));
    model->max_sequence = 1024;
    TRY(config_int(config, "n_positions", "n_ctx", false, 1, MODEL_SEQUENCE_MAX, &model->max_sequence, error));
    model->ffn = 4 * model->hidden;
    TRY(config_int(config, "n_inner", "intermediate_size", false, 1, MODEL_FFN_MAX, &model->ffn, error));
    TRY(config_activation(config, "activation_function", model, error));
    TRY(config_real(config, "resid_pdrop", &model->dropout, error));
    return config_real(config, "attn_pdrop", &model->attention_dropout, error);
}

static enum status config_bert(const struct json *config, struct model *model, struct error *error)
{
    model_family_defaults(model, MODEL_BERT);
    TRY(config_sizes(config, model, error));
    TRY(config_words(config, model, 512, error));
    TRY(config_int(config, "intermediate_size", NULL, true, 1, MODEL_FFN_MAX, &model->ffn, error));
    TRY(config_int(config, "type_vocab_size", NULL, false, 0, MODEL_SEGMENTS_MAX, &model->segment_types, error));
    TRY(config_activation(config, "hidden_act", model, error));
    TRY(config_real(config, "hidden_dropout_prob", &model->dropout, error));
    TRY(config_real(config, "attention_probs_dropout_prob", &model->attention_dropout, error));
    /* The heads follow the class that the file was saved for; without one, pre-training (MLM and next sentence). */
    struct json architectures;
    TRY(json_any_optional(config, "architectures", &architectures, error));
    if (architectures.node != NULL && json_type(&architectures) == JSON_ARRAY && json_count(&architectures) > 0) {
        struct json first;
        const char *word = NULL;
        json_item(&architectures, 0, &first);
        TRY(json_as_string(&first, &word, error));
        if (strcmp(word, "BertForMaskedLM") == 0) {
            model->pooler = false;
            model->classes = 0;
        } else if (strcmp(word, "BertModel") == 0) {
            model->mlm_head = false;
            model->classes = 0;
        } else if (strcmp(word, "BertForSequenceClassification") == 0) {
            model->mlm_head = false;
        }
    }
    return STATUS_OK;
}

/* llama, mistral, qwen2: key_value_default is used where the key is absent, 0 meaning as many as heads. */
static enum status config_llama_like(const struct json *config, struct model *model, int64_t key_value_default,
                                     int64_t default_positions, struct error *error)
{
    bool attention_bias = false, mlp_bias = false;
    model_family_defaults(model, MODEL_LLAMA);
    TRY(config_sizes(config, model, error));
    TRY(config_words(config, model, default_positions, error));
    TRY(config_int(config, "intermediate_size", NULL, true, 1, MODEL_FFN_MAX, &model->ffn, error));
    model->kv_heads = key_value_default == 0 ? model->heads : key_value_default;
    TRY(config_int(config, "num_key_value_heads", NULL, false, 1, MODEL_HEADS_MAX, &model->kv_heads, error));
    TRY(config_int(config, "head_dim", NULL, false, 1, MODEL_HEAD_SIZE_MAX, &model->head_size, error));
    TRY(config_activation(config, "hidden_act", model, error));
    TRY(config_bool(config, "attention_bias", &attention_bias, error));
    TRY(config_bool(config, "mlp_bias", &mlp_bias, error));
    model->qkv_bias = model->projection_bias = attention_bias;
    model->ffn_bias = mlp_bias;
    return config_real(config, "attention_dropout", &model->attention_dropout, error);
}

static enum status config_llama(const struct json *config, struct model *model, struct error *error)
{
    return config_llama_like(config, model, 0, 2048, error);
}

static enum status config_mistral(const struct json *config, struct model *model, struct error *error)
{
    return config_llama_like(config, model, 8, 131072, error);
}

static enum status config_qwen2(const struct json *config, struct model *model, struct error *error)
{
    TRY(config_llama_like(config, model, 0, 32768, error));
    model->qkv_bias = true; /* fixed in the model's code: biases on q, k, v only */
    model->projection_bias = false;
    return STATUS_OK;
}

static enum status config_opt(const struct json *config, struct model *model, struct error *error)
{
    int64_t projected = 0;
    bool norm_before = true;
    model_family_defaults(model, MODEL_GPT);
    model->activation = MODEL_RELU;
    model->attention_dropout = 0;
    TRY(config_sizes(config, model, error));
    TRY(config_words(config, model, 2048, error));
    TRY(config_int(config, "ffn_dim", NULL, true, 1, MODEL_FFN_MAX, &model->ffn, error));
    projected = model->hidden;
    TRY(config_int(config, "word_embed_proj_dim", NULL, false, 1, MODEL_HIDDEN_MAX, &projected, error));
    TRY(config_bool(config, "do_layer_norm_before", &norm_before, error));
    if (projected != model->hidden || !norm_before) {
        return json_error(config, error,
                          "opt with word_embed_proj_dim (%lld) other than hidden_size (%lld), or with "
                          "do_layer_norm_before false, is not supported",
                          (long long)projected, (long long)model->hidden);
    }
    TRY(config_activation(config, "activation_function", model, error));
    TRY(config_real(config, "dropout", &model->dropout, error));
    TRY(config_real(config, "attention_dropout", &model->attention_dropout, error));
    bool bias = true;
    TRY(config_bool(config, "enable_bias", &bias, error));
    model->qkv_bias = model->projection_bias = model->ffn_bias = bias;
    model->position_rows = model->max_sequence + 2; /* OPTLearnedPositionalEmbedding: an offset of 2 */
    return STATUS_OK;
}

static enum status config_gpt_neox(const struct json *config, struct model *model, struct error *error)
{
    bool bias = true;
    model_family_defaults(model, MODEL_GPT);
    model->positions = MODEL_ROTARY;
    model->tied_head = false;
    model->parallel_residual = true;
    model->dropout = model->attention_dropout = 0;
    TRY(config_sizes(config, model, error));
    TRY(config_words(config, model, 2048, error));
    TRY(config_int(config, "intermediate_size", NULL, true, 1, MODEL_FFN_MAX, &model->ffn, error));
    TRY(config_activation(config, "hidden_act", model, error));
    TRY(config_bool(config, "use_parallel_residual", &model->parallel_residual, error));
    TRY(config_bool(config, "attention_bias", &bias, error));
    model->qkv_bias = model->projection_bias = bias;
    TRY(config_real(config, "hidden_dropout", &model->dropout, error));
    return config_real(config, "attention_dropout", &model->attention_dropout, error);
}

static enum status config_vit(const struct json *config, struct model *model, struct error *error)
{
    model_family_defaults(model, MODEL_VIT);
    TRY(config_sizes(config, model, error));
    model->ffn = 4 * model->hidden;
    TRY(config_int(config, "intermediate_size", NULL, false, 1, MODEL_FFN_MAX, &model->ffn, error));
    model->image_size = 224;
    TRY(config_int(config, "image_size", NULL, false, 1, MODEL_IMAGE_MAX, &model->image_size, error));
    model->patch_size = 16;
    TRY(config_int(config, "patch_size", NULL, false, 1, MODEL_IMAGE_MAX, &model->patch_size, error));
    TRY(config_int(config, "num_channels", NULL, false, 1, MODEL_CHANNELS_MAX, &model->channels, error));
    if (model->patch_size <= model->image_size) {
        model->max_sequence = model_patches(model) + 1;
    }
    /* transformers writes the labels themselves, not their number, unless it is the default 2. */
    struct json labels;
    TRY(json_any_optional(config, "id2label", &labels, error));
    model->classes = labels.node != NULL && json_type(&labels) == JSON_OBJECT ? (int64_t)json_count(&labels) : 1000;
    TRY(config_int(config, "num_labels", NULL, false, 1, MODEL_CLASSES_MAX, &model->classes, error));
    TRY(config_activation(config, "hidden_act", model, error));
    TRY(config_bool(config, "qkv_bias", &model->qkv_bias, error));
    TRY(config_real(config, "hidden_dropout_prob", &model->dropout, error));
    return config_real(config, "attention_probs_dropout_prob", &model->attention_dropout, error);
}

/* model_type, class-name prefix of `architectures` (used when model_type is absent), reader. */
#define CONFIG_TABLE(X)                                                                                                \
    X("gpt2", "GPT2", config_gpt2)                                                                                     \
    X("bert", "Bert", config_bert)                                                                                     \
    X("llama", "Llama", config_llama)                                                                                  \
    X("mistral", "Mistral", config_mistral)                                                                            \
    X("opt", "OPT", config_opt)                                                                                        \
    X("gpt_neox", "GPTNeoX", config_gpt_neox)                                                                          \
    X("vit", "ViT", config_vit)                                                                                        \
    X("qwen2", "Qwen2", config_qwen2)

static const struct config_type {
    const char *type, *prefix;
    enum status (*read)(const struct json *, struct model *, struct error *);
} config_types[] = {
#define X(type, prefix, read) { type, prefix, read },
    CONFIG_TABLE(X)
#undef X
};
enum { CONFIG_TYPE_COUNT = sizeof config_types / sizeof config_types[0] };

#define X(type, prefix, read) " " type
static const char config_type_list[] = CONFIG_TABLE(X);
#undef X

/* The reader for this object, or NULL with *found the word it gives. A class name counts when the letters after its
 * prefix start a word ("GPT2LMHeadModel", not
 * "Qwen2MoeForCausalLM"). */
static enum status find_type(const struct json *config, const struct config_type **type, const char **found,
                             struct error *error)
{
    struct json child, first;
    *type = NULL;
    *found = NULL;
    TRY(json_any_optional(config, "model_type", &child, error));
    if (child.node != NULL) {
        TRY(json_as_string(&child, found, error));
        for (size_t i = 0; i < CONFIG_TYPE_COUNT && *type == NULL; i++) {
            *type = strcmp(*found, config_types[i].type) == 0 ? &config_types[i] : NULL;
        }
        return STATUS_OK;
    }
    TRY(json_any_optional(config, "architectures", &child, error));
    if (child.node == NULL || json_type(&child) != JSON_ARRAY || json_count(&child) == 0) {
        return STATUS_OK;
    }
    json_item(&child, 0, &first);
    TRY(json_as_string(&first, found, error));
    for (size_t i = 0; i < CONFIG_TYPE_COUNT && *type == NULL; i++) {
        size_t length = strlen(config_types[i].prefix);
        const char *rest = *found + length;
        if (strncmp(*found, config_types[i].prefix, length) == 0 &&
            (strncmp(rest, "For", 3) == 0 || strncmp(rest, "LMHead", 6) == 0 || strcmp(rest, "Model") == 0)) {
            *type = &config_types[i];
        }
    }
    return STATUS_OK;
}

/* Several experts change parameters, memory and traffic, and no model here has them: better no answer than that of the dense model. */
static enum status refuse_experts(const struct json *config, struct error *error)
{
    static const char *const keys[] = { "num_local_experts", "num_experts", "n_routed_experts" };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct json child;
        int64_t experts = 0;
        TRY(json_any_optional(config, keys[i], &child, error));
        if (child.node != NULL) {
            TRY(json_as_int(&child, 0, MODEL_LAYERS_MAX, &experts, error));
        }
        if (experts > 1) {
            return json_error(&child, error, "%lld experts: mixtures of experts are not modelled, allowed is 0 or 1",
                              (long long)experts);
        }
    }
    return STATUS_OK;
}

static enum status read_config(struct model *model, const struct json *config, const struct config_type *type,
                               struct error *error)
{
    TRY(refuse_experts(config, error));
    TRY(type->read(config, model, error));
    TRY(config_bool(config, "tie_word_embeddings", &model->tied_head, error));
    if (model->head_size == 0) {
        if (model->hidden % model->heads != 0) {
            return json_error(config, error, "the hidden size %lld is not divisible by %lld attention heads",
                              (long long)model->hidden, (long long)model->heads);
        }
        model->head_size = model->hidden / model->heads;
    }
    if (model->kv_heads == 0) {
        model->kv_heads = model->heads;
    }
    if (model->positions == MODEL_LEARNED_POSITIONS && model->position_rows == 0) {
        model->position_rows = model->max_sequence;
    }
    const char *name = NULL;
    struct json child;
    TRY(json_any_optional(config, "_name_or_path", &child, error));
    if (child.node != NULL && json_type(&child) == JSON_STRING) {
        TRY(json_as_string(&child, &name, error));
    }
    snprintf(model->name, sizeof model->name, "%s", name != NULL && name[0] != '\0' ? name : type->type);
    snprintf(model->source, sizeof model->source, "Hugging Face config %s", json_file(config) ? json_file(config) : "");
    struct error found;
    if (model_check(model, &found) != STATUS_OK) {
        return json_error(config, error, "%s", found.message);
    }
    return STATUS_OK;
}

enum status model_from_config(struct model *model, const struct json *config, struct error *error)
{
    const struct config_type *type = NULL;
    const char *found = NULL;
    if (json_type(config) != JSON_OBJECT) {
        return json_error(config, error, "found %s; a Hugging Face config is an object",
                          json_type_word(json_type(config)));
    }
    TRY(find_type(config, &type, &found, error));
    if (type == NULL && found == NULL) {
        TRY(schema_none(config,
                        "a model: a name (memwall list models), a Hugging Face config.json or an object "
                        "like a scenario's \"model\"",
                        error));
    }
    if (type == NULL) {
        /* Multi-modal files keep the language model in a nested text_config. */
        struct json text;
        TRY(json_any_optional(config, "text_config", &text, error));
        if (text.node != NULL && json_type(&text) == JSON_OBJECT) {
            return model_from_config(model, &text, error);
        }
    }
    if (type == NULL) {
        enum status status =
            found != NULL
                ? json_error(config, error, "unknown architecture \"%s\"; known model types:%s", found,
                             config_type_list)
                : json_error(config, error, "\"model_type\" is missing; known model types:%s", config_type_list);
        if (found == NULL) {
            return status;
        }
        if (error != NULL) {
            error->status = STATUS_UNSUPPORTED;
        }
        return STATUS_UNSUPPORTED;
    }
    return read_config(model, config, type, error);
}
