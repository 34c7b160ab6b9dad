/* Counting: parameters and FLOPs of a described model, and the checks every description passes. */
#include "sim/model/model.h"

#include <string.h>

#include "sim/base/check.h"
#include "sim/model/model_ranges.h"
#include "sim/model/variant.h"

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
    bool llama = family == MODEL_LLAMA, t5 = family == MODEL_T5;
    model->norm = llama || t5 ? MODEL_RMS_NORM : MODEL_LAYER_NORM;
    model->activation = llama ? MODEL_SWIGLU : t5 ? MODEL_RELU : MODEL_GELU;
    model->positions = llama ? MODEL_ROTARY : MODEL_LEARNED_POSITIONS;
    if (t5 || family == MODEL_SWIN) {
        model->positions = MODEL_NO_POSITIONS; /* a relative bias inside attention, nothing added to the input */
    }
    model->qkv_bias = model->projection_bias = model->ffn_bias = model->norm_bias = !llama && !t5;
    model->final_norm = family != MODEL_BERT;
    model->causal = family == MODEL_GPT || llama;
    model->lm_head = family == MODEL_GPT || llama || t5;
    model->tied_head = family == MODEL_GPT || family == MODEL_BERT || t5;
    /* What the reference code trains with: 0.1 in GPT-2, Megatron, BERT and T5, none in Llama, ViT and Swin. */
    model->dropout = model->attention_dropout = family == MODEL_GPT || family == MODEL_BERT || t5 ? 0.1 : 0.0;
    if (family == MODEL_BERT) {
        model->segment_types = 2;
        model->pooler = model->mlm_head = true;
        model->classes = 2; /* next-sentence prediction */
    }
    if (family == MODEL_VIT || family == MODEL_SWIN) {
        model->channels = 3;
    }
    model->window = family == MODEL_SWIN ? 7 : 0; /* Liu et al. 2021, section 3.3 */
}

int64_t model_patches(const struct model *model)
{
    if (model->family != MODEL_VIT && model->family != MODEL_SWIN) {
        return 0;
    }
    int64_t side = model->image_size / model->patch_size;
    return side * side;
}

bool model_is_uniform(const struct model *model)
{
    return model->family != MODEL_T5 && model->family != MODEL_SWIN;
}

enum status model_require_uniform(const struct model *model, const char *what, struct error *error)
{
    if (model_is_uniform(model)) {
        return STATUS_OK;
    }
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: the layers of family %s have several shapes, %s takes layers of one shape", model->name,
                     model_family_word(model->family), what);
}

int64_t model_sample_tokens(const struct model *model, int64_t sequence)
{
    return sequence + model->decoder_sequence;
}

bool model_has_logits(const struct model *model)
{
    return model->lm_head || model->mlm_head;
}

static enum status check_vit(const struct model *model, struct error *error)
{
    if (model->patch_size < 1 || model->image_size < model->patch_size || model->image_size % model->patch_size != 0) {
        return error_set(error, STATUS_BAD_INPUT, "patch_size %lld must divide image_size %lld",
                         (long long)model->patch_size, (long long)model->image_size);
    }
    int64_t sequence = model_patches(model) + (model->family == MODEL_VIT ? 1 : 0);
    if (model->max_sequence != sequence) {
        return error_set(error, STATUS_BAD_INPUT,
                         "max_sequence is %lld: an image of %lld patches makes a sequence of %lld",
                         (long long)model->max_sequence, (long long)model_patches(model), (long long)sequence);
    }
    return STATUS_OK;
}

static enum status check_t5(const struct model *model, struct error *error)
{
    if (model->layers < 2) {
        return error_set(error, STATUS_BAD_INPUT, "layers is %lld: a t5 model has one in each stack at least",
                         (long long)model->layers);
    }
    if (model->decoder_layers < 1 || model->decoder_layers >= model->layers) {
        return error_set(error, STATUS_BAD_INPUT, "decoder_layers is %lld of %lld layers: allowed is 1 to %lld",
                         (long long)model->decoder_layers, (long long)model->layers, (long long)model->layers - 1);
    }
    if (model->decoder_sequence < 1) {
        return error_set(error, STATUS_BAD_INPUT, "decoder_sequence is %lld: it must be positive",
                         (long long)model->decoder_sequence);
    }
    return STATUS_OK;
}

static enum status check_swin(const struct model *model, struct error *error)
{
    int64_t layers = 0, widest = (int64_t)1 << (MODEL_STAGES - 1);
    TRY(check_vit(model, error));
    if (model->hidden > MODEL_HIDDEN_MAX / widest || model->ffn > MODEL_FFN_MAX / widest) {
        return error_set(
            error, STATUS_BAD_INPUT,
            "hidden %lld and ffn %lld are the first stage's, the last one's are %lld times as wide: allowed "
            "are up to %lld and %lld",
            (long long)model->hidden, (long long)model->ffn, (long long)widest, (long long)(MODEL_HIDDEN_MAX / widest),
            (long long)(MODEL_FFN_MAX / widest));
    }
    for (int stage = 0; stage < MODEL_STAGES; stage++) {
        if (model->stage_layers[stage] < 1) {
            return error_set(error, STATUS_BAD_INPUT, "stage %d has %lld blocks: every stage needs one", stage,
                             (long long)model->stage_layers[stage]);
        }
        layers += model->stage_layers[stage];
    }
    if (layers != model->layers) {
        return error_set(error, STATUS_BAD_INPUT, "layers is %lld, but the stages have %lld blocks",
                         (long long)model->layers, (long long)layers);
    }
    int64_t side = model->image_size / model->patch_size;
    if (model->window < 1 || side % (model->window * widest) != 0) {
        return error_set(error, STATUS_BAD_INPUT,
                         "%lld patches on a side, halved %d times, are no whole windows of %lld", (long long)side,
                         MODEL_STAGES - 1, (long long)model->window);
    }
    return STATUS_OK;
}

/* Sizes of other families, and what layers of several shapes cannot have. */
static enum status check_shapes(const struct model *model, struct error *error)
{
    const char *family = model_family_word(model->family);
    bool t5 = model->family == MODEL_T5, swin = model->family == MODEL_SWIN;
    bool stages = model->window != 0;
    for (int stage = 0; stage < MODEL_STAGES; stage++) {
        stages = stages || model->stage_layers[stage] != 0;
    }
    if (!t5 && (model->decoder_layers != 0 || model->decoder_sequence != 0)) {
        return error_set(error, STATUS_BAD_INPUT,
                         "a %s model has no decoder of its own: decoder_layers and decoder_sequence are for family t5",
                         family);
    }
    if (!swin && stages) {
        return error_set(error, STATUS_BAD_INPUT,
                         "a %s model has no windows: window and stage_layers are for family swin", family);
    }
    if (t5) {
        TRY(check_t5(model, error));
    } else if (swin) {
        TRY(check_swin(model, error));
    } else {
        return STATUS_OK;
    }
    if (model->positions != MODEL_NO_POSITIONS) {
        return error_set(error, STATUS_BAD_INPUT,
                         "positions is \"%s\": a %s model has a relative bias in its attention instead, allowed is "
                         "\"none\"",
                         model_positions_word(model->positions), family);
    }
    if (model->kv_heads != model->heads) {
        return error_set(error, STATUS_BAD_INPUT, "kv_heads is %lld: a %s model has as many as heads, %lld",
                         (long long)model->kv_heads, family, (long long)model->heads);
    }
    if (model->causal || model->parallel_residual || model->pooler || model->mlm_head || model->segment_types > 0 ||
        !model->final_norm || model->lm_head != t5) {
        return error_set(error, STATUS_BAD_INPUT,
                         "a %s model has final_norm%s, and none of causal, parallel_residual, pooler, mlm_head, "
                         "segment_types%s",
                         family, t5 ? " and lm_head" : "", t5 ? "" : ", lm_head");
    }
    return STATUS_OK;
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
        TRY(check_vit(model, error));
    }
    TRY(check_shapes(model, error));
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

/* Attention, feed-forward and two norms, of the sizes the model says: a layer of all families but what t5 and swin
 * add. */
static int64_t plain_layer_parameters(const struct model *model)
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

/* Four neighbours of width c, side by side, through a norm and a matrix without bias to width 2c (Liu et al. 2021,
 * 3.1). */
static int64_t merging_parameters(int64_t width)
{
    return 4 * width * 2 * width + 2 * 4 * width;
}

int64_t model_layer_parameters_at(const struct model *model, int64_t layer)
{
    uint32_t variant = model_layer_variant(model, layer);
    const struct model here = model_at_variant(model, variant);
    int64_t count = plain_layer_parameters(&here), query = here.heads * here.head_size;
    if (model->family == MODEL_T5) {
        count += variant == T5_ENCODER_LAST ? norm_parameters(model) : 0;
        count += model_variant_decodes(model, variant) ? 4 * here.hidden * query + norm_parameters(model) : 0;
    } else if (model->family == MODEL_SWIN) {
        int64_t offsets = (2 * model->window - 1) * (2 * model->window - 1); /* between two tokens of a window */
        count += offsets * here.heads + (model_variant_merges(model, variant) ? merging_parameters(here.hidden) : 0);
    }
    return count;
}

int64_t model_layer_parameters(const struct model *model)
{
    return model_layer_parameters_at(model, 0);
}

int64_t model_embedding_parameters(const struct model *model)
{
    int64_t h = model->hidden;
    int64_t count = model->position_rows * h;
    if (model->family == MODEL_SWIN) {
        int64_t patch = model->patch_size * model->patch_size * model->channels;
        return patch * h + h + norm_parameters(model);
    }
    if (model->family == MODEL_T5) {
        return model->vocab * h + 2 * T5_BUCKETS * model->heads; /* one table in the first layer of each stack */
    }
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
    if (model->family == MODEL_SWIN) {
        const struct model last = model_at_variant(model, MODEL_VARIANTS_MAX - 1);
        return (last.final_norm ? norm_parameters(&last) : 0) + (last.hidden + 1) * last.classes;
    }
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
    int64_t count = model_embedding_parameters(model) + model_head_parameters(model);
    if (model_is_uniform(model)) {
        return count + model->layers * model_layer_parameters(model);
    }
    for (int64_t layer = 0; layer < model->layers; layer++) {
        count += model_layer_parameters_at(model, layer);
    }
    return count;
}

/* Forward FLOPs of one sample times three. Encoder tokens e, decoder tokens d: the cross attention projects its
 * queries and outputs for d tokens, its keys and values for e. */
static double t5_sample_flops(const struct model *model, double e)
{
    double h = (double)model->hidden, q = (double)(model->heads * model->head_size), f = (double)model->ffn;
    double d = (double)model->decoder_sequence, decoders = (double)model->decoder_layers;
    double encoder = 2 * e * (4 * h * q + 2 * h * f) + 4 * e * e * q;
    double decoder = 2 * d * (4 * h * q + 2 * h * f) + 4 * d * d * q;
    decoder += 2 * (2 * d + 2 * e) * h * q + 4 * d * e * q;
    return 3 * (((double)model->layers - decoders) * encoder + decoders * decoder + 2 * d * h * (double)model->vocab);
}

static double swin_sample_flops(const struct model *model)
{
    double forward = 0, patches = (double)model_patches(model), width = 0;
    double window = (double)(model->window * model->window);
    for (int stage = 0; stage < MODEL_STAGES; stage++) {
        const struct model here = model_at_variant(model, 2 * (uint32_t)stage);
        double tokens = patches / (double)((int64_t)1 << (2 * stage)), ffn = (double)here.ffn;
        if (stage > 0) {
            forward += 2 * tokens * 4 * width * 2 * width; /* merging into this stage */
        }
        width = (double)here.hidden;
        double query = (double)(here.heads * here.head_size);
        double block = 2 * tokens * (4 * width * query + 2 * width * ffn) + 4 * tokens * window * query;
        forward += (double)model->stage_layers[stage] * block;
    }
    forward += 2 * width * (double)model->classes;
    double patch = (double)(model->patch_size * model->patch_size * model->channels);
    return 3 * forward + 2 * 2 * patches * patch * (double)model->hidden;
}

double model_step_flops(const struct model *model, double batch, double sequence)
{
    if (model->family == MODEL_T5) {
        return batch * t5_sample_flops(model, sequence);
    }
    if (model->family == MODEL_SWIN) {
        return batch * swin_sample_flops(model);
    }
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
