/* Counting: parameters and FLOPs of a described model, and the checks every description passes. */
#include "sim/model/model.h"

#include <string.h>

#include "sim/base/check.h"

#define WORD_FUNCTION(function, type, table, count)                                                                    \
    const char *function(enum type value)                                                                              \
    {                                                                                                                  \
        static const char *const words[] = { table(X) };                                                               \
        CHECK((unsigned)value < (unsigned)count);                                                                      \
        return words[value];                                                                                           \
    }
#define X(name, word) word,
WORD_FUNCTION(model_family_word, model_family, MODEL_FAMILY_TABLE, MODEL_FAMILY_COUNT)
WORD_FUNCTION(model_norm_word, model_norm, MODEL_NORM_TABLE, MODEL_NORM_COUNT)
WORD_FUNCTION(model_activation_word, model_activation, MODEL_ACTIVATION_TABLE, MODEL_ACTIVATION_COUNT)
WORD_FUNCTION(model_positions_word, model_positions, MODEL_POSITIONS_TABLE, MODEL_POSITIONS_COUNT)
#undef X

void model_family_defaults(struct model *model, enum model_family family)
{
    *model = (struct model){ .family = family };
    bool llama = family == MODEL_LLAMA;
    model->norm = llama ? MODEL_RMS_NORM : MODEL_LAYER_NORM;
    model->activation = llama ? MODEL_SWIGLU : MODEL_GELU;
    model->positions = llama ? MODEL_ROTARY : MODEL_LEARNED_POSITIONS;
    model->qkv_bias = model->projection_bias = model->ffn_bias = model->norm_bias = !llama;
    model->final_norm = family != MODEL_BERT;
    model->causal = family == MODEL_GPT || llama;
    model->lm_head = family == MODEL_GPT || llama;
    model->tied_head = family == MODEL_GPT || family == MODEL_BERT;
    /* What the reference code trains with: 0.1 in GPT-2, Megatron and BERT, none in Llama and ViT. */
    model->dropout = model->attention_dropout = family == MODEL_GPT || family == MODEL_BERT ? 0.1 : 0.0;
    if (family == MODEL_BERT) {
        model->segment_types = 2;
        model->pooler = model->mlm_head = true;
        model->classes = 2; /* next-sentence prediction */
    }
    if (family == MODEL_VIT) {
        model->channels = 3;
    }
}

int64_t model_patches(const struct model *model)
{
    if (model->family != MODEL_VIT) {
        return 0;
    }
    int64_t side = model->image_size / model->patch_size;
    return side * side;
}

bool model_has_logits(const struct model *model)
{
    return model->lm_head || model->mlm_head;
}

enum status model_check(const struct model *model, struct error *error)
{
    if (model->heads < 1 || model->head_size < 1 || model->heads > ((int64_t)1 << 20) / model->head_size) {
        return error_set(error, STATUS_BAD_INPUT,
                         "heads x head_size is %lld x %lld: allowed is a product from 1 to %lld",
                         (long long)model->heads, (long long)model->head_size, 1LL << 20);
    }
    if (model->kv_heads < 1 || model->kv_heads > model->heads || model->heads % model->kv_heads != 0) {
        return error_set(error, STATUS_BAD_INPUT, "kv_heads is %lld: it must divide heads (%lld)",
                         (long long)model->kv_heads, (long long)model->heads);
    }
    if (model->positions == MODEL_ROTARY && model->head_size % 2 != 0) {
        return error_set(error, STATUS_BAD_INPUT, "head_size is %lld: rotary positions need an even one",
                         (long long)model->head_size);
    }
    if (model->family == MODEL_VIT) {
        if (model->patch_size < 1 || model->image_size < model->patch_size ||
            model->image_size % model->patch_size != 0) {
            return error_set(error, STATUS_BAD_INPUT, "patch_size %lld must divide image_size %lld",
                             (long long)model->patch_size, (long long)model->image_size);
        }
        if (model->max_sequence != model_patches(model) + 1) {
            return error_set(
                error, STATUS_BAD_INPUT, "max_sequence is %lld: an image of %lld patches makes a sequence of %lld",
                (long long)model->max_sequence, (long long)model_patches(model), (long long)model_patches(model) + 1);
        }
    }
    if (model->classes > 0 && model->family == MODEL_BERT && !model->pooler) {
        return error_set(error, STATUS_BAD_INPUT,
                         "classes is %lld, but a bert classifier reads the pooler and pooler is false",
                         (long long)model->classes);
    }
    return STATUS_OK;
}

static int64_t norm_parameters(const struct model *model)
{
    return model->hidden * (model->norm_bias ? 2 : 1);
}

int64_t model_layer_parameters(const struct model *model)
{
    int64_t h = model->hidden, f = model->ffn;
    int64_t query = model->heads * model->head_size, key_value = 2 * model->kv_heads * model->head_size;
    int64_t first = model->activation == MODEL_SWIGLU ? 2 * f : f; /* gate and up, or one */
    int64_t count = 2 * norm_parameters(model);
    count += h * (query + key_value) + (model->qkv_bias ? query + key_value : 0);
    count += query * h + (model->projection_bias ? h : 0);
    count += h * first + f * h + (model->ffn_bias ? first + h : 0);
    return count;
}

int64_t model_embedding_parameters(const struct model *model)
{
    int64_t h = model->hidden;
    int64_t count = model->position_rows * h;
    if (model->family == MODEL_VIT) {
        int64_t patch = model->patch_size * model->patch_size * model->channels;
        return count + h + patch * h + h; /* class token, projection and its bias */
    }
    count += model->vocab * h + model->segment_types * h;
    if (model->family == MODEL_BERT) {
        count += norm_parameters(model);
    }
    return count;
}

int64_t model_head_parameters(const struct model *model)
{
    int64_t h = model->hidden;
    int64_t count = model->final_norm ? norm_parameters(model) : 0;
    if (model->lm_head) {
        count += (model->tied_head ? 0 : model->vocab * h) + (model->head_bias ? model->vocab : 0);
    }
    if (model->mlm_head) {
        count += h * h + h + norm_parameters(model) + (model->tied_head ? 0 : model->vocab * h) + model->vocab;
    }
    count += model->pooler ? h * h + h : 0;
    count += model->classes > 0 ? (h + 1) * model->classes : 0;
    return count;
}

int64_t model_parameters(const struct model *model)
{
    return model->layers * model_layer_parameters(model) + model_embedding_parameters(model) +
           model_head_parameters(model);
}

double model_step_flops(const struct model *model, double batch, double sequence)
{
    double h = (double)model->hidden, f = (double)model->ffn, vocab = (double)model->vocab;
    double query = (double)(model->heads * model->head_size);
    double key_value = 2.0 * (double)(model->kv_heads * model->head_size);
    double ffn_products = model->activation == MODEL_SWIGLU ? 3.0 : 2.0;
    double layer = 2.0 * sequence * (h * (query + key_value) + query * h + ffn_products * h * f); /* projections */
    layer += 4.0 * sequence * sequence * query;                                                   /* QK^T and AV */
    double forward = layer * (double)model->layers;
    if (model_has_logits(model)) {
        forward += 2.0 * sequence * h * vocab;
    }
    if (model->mlm_head) {
        forward += 2.0 * sequence * h * h;
    }
    if (model->pooler) {
        forward += 2.0 * h * h;
    }
    forward += 2.0 * h * (double)model->classes;
    double flops = 3.0 * forward;
    if (model->family == MODEL_VIT) {
        double patch = (double)(model->patch_size * model->patch_size * model->channels);
        flops += 2.0 * 2.0 * (double)model_patches(model) * patch * h;
    }
    return batch * flops;
}
