/* Constants of the first Galvatron, as tables, and checks of profiles.
 *
 * Source: Hsword/Hetu commit 3757771 (2022-11-30), tools/Galvatron, search scripts for 8 GPUs (fp32, RTX TITAN): parameters and activations MiB per layer and sample by tensor degree,
 * forward ms per layer and sample; facts/galvatron-bmw.md C.6, E. Single figures, not files. */
#include "strategies/planners/galvatron_profile.h"

#include <stdio.h>
#include <string.h>

#include "sim/base/json.h"

enum { TABLE_LAYERS = 8, TABLE_MODELS = 8 };

/* name, count, parameters, activations by tensor degree 1 2 4 8 16, no recomputation, forward, sequence, hidden, decoder, extra */
static const struct galvatron_layer_profile LAYERS[TABLE_LAYERS] = {
    { "bert-1280",
      0,
      76.98,
      { 94.07, 52.475, 31.754375, 21.61171875, 16.4509375 },
      0,
      2.29166666,
      512,
      1280,
      false,
      0 },
    { "vit-1280", 0, 76.98, { 20.27, 12.12, 7.97, 5.93, 4.93 }, 0, 0.75, 196, 1280, false, 0 },
    { "t5-1024-encoder", 0, 48.01, { 91.003, 54.004, 32.785, 22.8175, 17.8 }, 0, 1.45833333, 512, 1024, false, 2.5 },
    { "t5-1024-decoder", 0, 64.012, { 157.755, 90.756, 56.384, 39.117, 31.1 }, 0, 2.70833333, 512, 1024, true, 2.5 },
    { "swin-320", 0, 4.8, { 72.584, 43.318, 29.716, 22.36, 18.5 }, 0, 1.25, 3136, 320, false, 0 },
    { "swin-640", 0, 18.82, { 36.423, 21.33, 14.708, 11.237, 9.25 }, 0, 0.8875, 784, 640, false, 0 },
    { "swin-1280", 0, 77.05, { 18.317, 11.252, 7.561, 5.611, 4.625 }, 0, 0.8, 196, 1280, false, 0 },
    { "swin-2560", 0, 302.22, { 9.183, 5.076, 3.835, 2.802, 2.3125 }, 0, 1.225, 49, 2560, false, 0 },
};

/* "other" of the 8-GPU scripts: model states and activation of a sample, MiB. */
static const struct table_model {
    const char *name;
    uint32_t first_kind, kind_count, counts[4];
    struct galvatron_other_profile other;
    enum galvatron_micro_rule rule;
} MODELS[TABLE_MODELS] = {
    { "bert-huge-32", 0, 1, { 32 }, { 790, 300 }, GALVATRON_MICRO_BERT },
    { "bert-huge-48", 0, 1, { 48 }, { 790, 300 }, GALVATRON_MICRO_BERT },
    { "vit-huge-32", 1, 1, { 32 }, { 45.56, 13 }, GALVATRON_MICRO_VIT },
    { "vit-huge-48", 1, 1, { 48 }, { 45.56, 13 }, GALVATRON_MICRO_VIT },
    { "t5-large-32", 2, 2, { 16, 16 }, { 900, 350 }, GALVATRON_MICRO_T5 },
    { "t5-large-48", 2, 2, { 24, 24 }, { 900, 350 }, GALVATRON_MICRO_T5 },
    { "swin-huge-32", 4, 4, { 2, 2, 26, 2 }, { 312, 70 }, GALVATRON_MICRO_SWIN },
    { "swin-huge-48", 4, 4, { 2, 2, 42, 2 }, { 312, 70 }, GALVATRON_MICRO_SWIN },
};

enum status galvatron_table_model(const char *name, struct galvatron_model_profile *model, struct error *error)
{
    const char *names[TABLE_MODELS];
    for (uint32_t i = 0; i < TABLE_MODELS; i++) {
        const struct table_model *row = &MODELS[i];
        names[i] = row->name;
        if (strcmp(row->name, name) != 0) {
            continue;
        }
        *model = (struct galvatron_model_profile){ .kind_count = row->kind_count, .other = row->other };
        model->micro_rule = row->rule;
        (void)snprintf(model->name, sizeof model->name, "%s", row->name);
        for (uint32_t k = 0; k < row->kind_count; k++) {
            model->kinds[k] = LAYERS[row->first_kind + k];
            model->kinds[k].count = row->counts[k];
        }
        return STATUS_OK;
    }
    const char *near = nearest_word(name, names, TABLE_MODELS);
    return error_set(error, STATUS_NOT_FOUND,
                     "the first Galvatron has no constants of \"%s\"%s%s%s; known: bert-huge-32, bert-huge-48, "
                     "vit-huge-32, vit-huge-48, t5-large-32, t5-large-48, swin-huge-32, swin-huge-48",
                     name, near != NULL ? " (did you mean \"" : "", near != NULL ? near : "",
                     near != NULL ? "\"?)" : "");
}

void galvatron_table_titan(struct galvatron_hardware_profile *hardware)
{
    *hardware = (struct galvatron_hardware_profile){ .name = "titan-rtx-8-galvatron", .gpus = 8, .overlap = 1.30 };
    /* [log2 pipeline][log2 size][consecutive], ms per MiB of bus volume: Hetu 3757771, env all-reduce file for 8 GPUs. */
    hardware->all_reduce[0][3][0] = hardware->all_reduce[0][3][1] = 0.21530878;
    hardware->all_reduce[0][2][0] = 0.220138889;
    hardware->all_reduce[0][2][1] = 0.226519097;
    hardware->all_reduce[0][1][0] = 0.271614583;
    hardware->all_reduce[0][1][1] = 0.277994792;
    hardware->all_reduce[1][2][0] = hardware->all_reduce[1][2][1] = 0.230750868;
    hardware->all_reduce[1][1][0] = 0.224153646;
    hardware->all_reduce[1][1][1] = 0.275195313;
    hardware->all_reduce[2][1][0] = hardware->all_reduce[2][1][1] = 0.264908854;
}

uint32_t galvatron_model_layers(const struct galvatron_model_profile *model)
{
    uint32_t layers = 0;
    for (uint32_t k = 0; k < model->kind_count; k++) {
        layers += model->kinds[k].count;
    }
    return layers;
}

double galvatron_all_reduce_ms(const struct galvatron_hardware_profile *hardware, uint32_t pipeline, uint32_t size,
                               bool consecutive)
{
    uint32_t p = galvatron_log2(pipeline), s = galvatron_log2(size);
    if (p >= GALVATRON_DEGREES || s >= GALVATRON_DEGREES) {
        return 0;
    }
    double found = hardware->all_reduce[p][s][consecutive];
    return found > 0 ? found : hardware->all_reduce[0][s][consecutive];
}

static enum status check_links(const struct galvatron_hardware_profile *hardware, struct error *error)
{
    for (uint32_t pipeline = 1; pipeline < hardware->gpus; pipeline *= 2) {
        uint32_t group = hardware->gpus / pipeline;
        for (uint32_t size = 2; size <= group; size *= 2) {
            for (int consecutive = 0; consecutive < 2; consecutive++) {
                if (!(galvatron_all_reduce_ms(hardware, pipeline, size, consecutive != 0) > 0) &&
                    (consecutive != 0 || size < group)) {
                    return error_set(error, STATUS_BAD_INPUT,
                                     "hardware profile \"%s\" has no all-reduce bandwidth of %s groups of %u devices, "
                                     "needed by pipelines of %u stages on %u devices",
                                     hardware->name, consecutive != 0 ? "consecutive" : "strided", size, pipeline,
                                     hardware->gpus);
                }
            }
        }
    }
    return STATUS_OK;
}

enum status galvatron_check_profiles(const struct galvatron_model_profile *model,
                                     const struct galvatron_hardware_profile *hardware, struct error *error)
{
    if (galvatron_check_gpus(hardware->gpus, error) != STATUS_OK) {
        return STATUS_BAD_INPUT;
    }
    if (model->kind_count < 1 || model->kind_count > GALVATRON_KINDS_MAX) {
        return error_set(error, STATUS_BAD_INPUT, "model profile \"%s\" has %u kinds of layers; 1 to %d are allowed",
                         model->name, model->kind_count, GALVATRON_KINDS_MAX);
    }
    for (uint32_t k = 0; k < model->kind_count; k++) {
        const struct galvatron_layer_profile *layer = &model->kinds[k];
        const char *missing = layer->count == 0                 ? "number of layers"
                              : !(layer->parameter_mib > 0)     ? "parameter size (MiB)"
                              : !(layer->activation_mib[0] > 0) ? "activation of a sample without tensor splits (MiB)"
                              : !(layer->forward_ms > 0)        ? "forward time (ms)"
                              : layer->sequence == 0            ? "sequence length"
                              : layer->hidden == 0              ? "hidden size"
                                                                : NULL;
        if (missing != NULL) {
            return error_set(error, STATUS_BAD_INPUT, "model profile \"%s\": layer kind %u (\"%s\") has no %s",
                             model->name, k, layer->name, missing);
        }
    }
    if (!(hardware->overlap >= 1)) {
        return error_set(error, STATUS_BAD_INPUT,
                         "hardware profile \"%s\": overlap coefficient %g; it is a slowdown, at least 1",
                         hardware->name, hardware->overlap);
    }
    return check_links(hardware, error);
}
