/* Variants of layers: t5 and swin. */
#include "sim/model/variant.h"

#include "sim/base/check.h"

uint32_t model_variant_count(const struct model *model)
{
    return model->family == MODEL_T5 ? T5_VARIANTS : model->family == MODEL_SWIN ? MODEL_VARIANTS_MAX : 1;
}

static uint32_t t5_variant(const struct model *model, int64_t layer)
{
    int64_t encoders = model->layers - model->decoder_layers;
    if (layer < encoders) {
        return layer == encoders - 1 ? T5_ENCODER_LAST : T5_ENCODER;
    }
    return layer == encoders ? T5_DECODER_FIRST : T5_DECODER;
}

uint32_t model_layer_variant(const struct model *model, int64_t layer)
{
    CHECK(layer >= 0 && layer < model->layers);
    if (model->family == MODEL_T5) {
        return t5_variant(model, layer);
    }
    if (model->family != MODEL_SWIN) {
        return 0;
    }
    uint32_t stage = 0;
    while (stage < MODEL_STAGES - 1 && layer >= model->stage_layers[stage]) {
        layer -= model->stage_layers[stage++];
    }
    bool merges = stage < MODEL_STAGES - 1 && layer == model->stage_layers[stage] - 1;
    return 2 * stage + (merges ? 1 : 0);
}

int64_t model_variant_first(const struct model *model, uint32_t variant)
{
    int64_t layer = 0;
    while (layer < model->layers && model_layer_variant(model, layer) != variant) {
        layer++;
    }
    return layer;
}

int model_variant_stage(uint32_t variant)
{
    return (int)variant / 2;
}

bool model_variant_decodes(const struct model *model, uint32_t variant)
{
    return model->family == MODEL_T5 && variant >= T5_DECODER_FIRST;
}

bool model_variant_merges(const struct model *model, uint32_t variant)
{
    return model->family == MODEL_SWIN && variant % 2 == 1;
}

const char *model_variant_word(const struct model *model, uint32_t variant)
{
    static const char *const t5[T5_VARIANTS] = { "encoder", "encoder's last", "decoder's first", "decoder" };
    static const char *const swin[MODEL_VARIANTS_MAX] = { "stage 0", "stage 0 with merging",
                                                          "stage 1", "stage 1 with merging",
                                                          "stage 2", "stage 2 with merging",
                                                          "stage 3" };
    CHECK(variant < model_variant_count(model));
    return model->family == MODEL_T5 ? t5[variant] : model->family == MODEL_SWIN ? swin[variant] : "layer";
}

struct model model_at_variant(const struct model *model, uint32_t variant)
{
    struct model here = *model;
    if (model->family == MODEL_SWIN) {
        int stage = model_variant_stage(variant);
        here.hidden <<= stage;
        here.heads <<= stage;
        here.kv_heads <<= stage;
        here.ffn <<= stage;
    }
    return here;
}

struct model_crossing model_crossing_into(const struct model *model, int64_t layer, int64_t sequence)
{
    struct model_crossing crossing = { .tokens = sequence, .width = model->hidden };
    CHECK(layer >= 0 && layer <= model->layers);
    bool head = layer == model->layers;
    if (model->family == MODEL_T5) {
        bool encoder = layer < model->layers - model->decoder_layers;
        crossing.tokens = head ? model->decoder_sequence : sequence + model->decoder_sequence;
        crossing.passing = encoder ? model->decoder_sequence : 0;
    } else if (model->family == MODEL_SWIN) {
        int stage = head ? MODEL_STAGES - 1 : model_variant_stage(model_layer_variant(model, layer));
        crossing.tokens = sequence >> 2 * stage;
        crossing.width = model->hidden << stage;
    }
    return crossing;
}
