/* The library of models: one table row each, with the paper or repository its numbers come from. Compiled in, so
 * that the binary finds it anywhere. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/model/model.h"

/* What the rows give beyond their sizes. */
enum library_kind {
    KIND_GPT,
    KIND_BERT_ENCODER,  /* embeddings, layers, pooler: the published count */
    KIND_BERT_PRETRAIN, /* with MLM and next-sentence heads */
    KIND_BERT_CLASSIFY, /* pooler and two classes, as PatrickStar trains it */
    KIND_LLAMA,
    KIND_VIT,
    KIND_T5,       /* the second half of the layers is the decoder; both stacks see max_sequence tokens */
    KIND_T5_SHORT, /* the same, but the decoder sees 4 tokens: unbalanced by design */
    KIND_SWIN      /* two blocks in stages 0, 1 and 3, the rest in stage 2; windows of 7 */
};

struct library_row {
    const char *name;
    enum library_kind kind;
    int32_t layers, hidden, heads, kv_heads, ffn;
    int32_t vocab, max_sequence; /* vit, swin: patch size, image size */
    double published_parameters; /* exact where the source gives it exactly, else as rounded there */
    const char *source;
};

#define GPT2_SOURCE                                                                                                    \
    "Radford et al. 2019 (GPT-2); sizes of the released checkpoints (huggingface openai-community/gpt2*)"
#define SC21_SOURCE        "Narayanan et al. 2021 (SC21), table 1; vocabulary 51200, sequence 2048"
#define KORTHIKANTI_SOURCE "Korthikanti et al. 2022, table 3; vocabulary 51200, sequence 2048"
#define PATRICKSTAR_30B_SOURCE                                                                                         \
    "layers and hidden of its authors' DeepSpeed script: feifeibear/DeepSpeedZeRO3Benchmark ds_pretrain_gpt2-zero3.sh"
#define PATRICKSTAR_SOURCE "PatrickStar examples/model_builder.py (BertForSequenceClassification, vocabulary 30522)"
#define BERT_SOURCE        "Devlin et al. 2019; huggingface google-bert/bert-*-uncased"
#define GALVATRON_SOURCE   "Galvatron meta_configs; Galvatron-BMW (TKDE 2024), table of models"
#define XHUGE_SOURCE                                                                                                   \
    "Galvatron-BMW (TKDE 2024), table of models; heads as vit-xhuge of Galvatron meta_configs (not read for BERT)"
#define T5_SOURCE     "Raffel et al. 2020 (T5), size large; depths of Galvatron-BMW (TKDE 2024), table of models"
#define SWIN_SOURCE   "Liu et al. 2021 (Swin); sizes of Galvatron meta_configs; Galvatron-BMW (TKDE 2024)"
#define LLAMA2_SOURCE "Touvron et al. 2023 (Llama 2); huggingface meta-llama/Llama-2-*"
#define LLAMA3_SOURCE "Llama team 2024 (The Llama 3 herd of models), table 3; trained at sequence 8192"
#define VIT_SOURCE    "Dosovitskiy et al. 2021 (ViT), table 1; 1000 classes"

/* PatrickStar's megatron_3.9B (24 layers of 2560: 2.0B) and GPT_310B (128 of 16384: 413B) are left out: their shapes do not make their names.
 * name, kind, layers, hidden, heads, kv_heads, ffn, vocab, max_sequence, published parameters, source */
#define LIBRARY_TABLE(X)                                                                                               \
    X("gpt2", KIND_GPT, 12, 768, 12, 12, 3072, 50257, 1024, 124439808, GPT2_SOURCE)                                    \
    X("gpt2-medium", KIND_GPT, 24, 1024, 16, 16, 4096, 50257, 1024, 354823168, GPT2_SOURCE)                            \
    X("gpt2-large", KIND_GPT, 36, 1280, 20, 20, 5120, 50257, 1024, 774030080, GPT2_SOURCE)                             \
    X("gpt2-xl", KIND_GPT, 48, 1600, 25, 25, 6400, 50257, 1024, 1557611200, GPT2_SOURCE)                               \
    X("gpt3-1.7b", KIND_GPT, 24, 2304, 24, 24, 9216, 51200, 2048, 1.7e9, SC21_SOURCE)                                  \
    X("gpt3-3.6b", KIND_GPT, 30, 3072, 32, 32, 12288, 51200, 2048, 3.6e9, SC21_SOURCE)                                 \
    X("gpt3-7.5b", KIND_GPT, 36, 4096, 32, 32, 16384, 51200, 2048, 7.5e9, SC21_SOURCE)                                 \
    X("gpt3-18.4b", KIND_GPT, 40, 6144, 48, 48, 24576, 51200, 2048, 18.4e9, SC21_SOURCE)                               \
    X("gpt3-39.1b", KIND_GPT, 48, 8192, 64, 64, 32768, 51200, 2048, 39.1e9, SC21_SOURCE)                               \
    X("gpt3-76.1b", KIND_GPT, 60, 10240, 80, 80, 40960, 51200, 2048, 76.1e9, SC21_SOURCE)                              \
    X("gpt3-145.6b", KIND_GPT, 80, 12288, 96, 96, 49152, 51200, 2048, 145.6e9, SC21_SOURCE)                            \
    X("gpt3-310.1b", KIND_GPT, 96, 16384, 128, 128, 65536, 51200, 2048, 310.1e9, SC21_SOURCE)                          \
    X("gpt3-529.6b", KIND_GPT, 105, 20480, 128, 128, 81920, 51200, 2048, 529.6e9, SC21_SOURCE)                         \
    X("gpt3-1t", KIND_GPT, 128, 25600, 160, 160, 102400, 51200, 2048, 1008.0e9, SC21_SOURCE)                           \
    X("megatron-22b", KIND_GPT, 48, 6144, 64, 64, 24576, 51200, 2048, 22e9, KORTHIKANTI_SOURCE)                        \
    X("gpt3-175b", KIND_GPT, 96, 12288, 96, 96, 49152, 51200, 2048, 175e9, KORTHIKANTI_SOURCE)                         \
    X("megatron-530b", KIND_GPT, 105, 20480, 128, 128, 81920, 51200, 2048, 530e9, KORTHIKANTI_SOURCE)                  \
    X("megatron-1t", KIND_GPT, 128, 25600, 160, 160, 102400, 51200, 2048, 1e12, KORTHIKANTI_SOURCE)                    \
    X("gpt2small", KIND_BERT_CLASSIFY, 24, 1536, 16, 16, 6144, 30522, 128, 0.73e9, PATRICKSTAR_SOURCE)                 \
    X("gpt2_1b", KIND_BERT_CLASSIFY, 20, 2048, 16, 16, 8192, 30522, 1024, 1.08e9, PATRICKSTAR_SOURCE)                  \
    X("gpt2_2b", KIND_BERT_CLASSIFY, 40, 2048, 16, 16, 8192, 30522, 1024, 2.08e9, PATRICKSTAR_SOURCE)                  \
    X("gpt2_4b", KIND_BERT_CLASSIFY, 64, 2304, 16, 16, 9216, 30522, 1024, 4.16e9, PATRICKSTAR_SOURCE)                  \
    X("gpt3_6b", KIND_BERT_CLASSIFY, 53, 3072, 16, 16, 12288, 30522, 1024, 6.11e9, PATRICKSTAR_SOURCE)                 \
    X("gpt3_8b", KIND_BERT_CLASSIFY, 72, 3072, 16, 16, 12288, 30522, 1024, 8.26e9, PATRICKSTAR_SOURCE)                 \
    X("gpt3_10b", KIND_BERT_CLASSIFY, 50, 4096, 16, 16, 16384, 30522, 1024, 10.22e9, PATRICKSTAR_SOURCE)               \
    X("gpt3_11b", KIND_BERT_CLASSIFY, 55, 4096, 16, 16, 16384, 30522, 1024, 11.22e9, PATRICKSTAR_SOURCE)               \
    X("gpt3_12b", KIND_BERT_CLASSIFY, 60, 4096, 16, 16, 16384, 30522, 1024, 12.23e9, PATRICKSTAR_SOURCE)               \
    X("gpt3_13b", KIND_BERT_CLASSIFY, 65, 4096, 16, 16, 16384, 30522, 1024, 13.24e9, PATRICKSTAR_SOURCE)               \
    X("gpt3_15b", KIND_BERT_CLASSIFY, 78, 4096, 16, 16, 16384, 30522, 1024, 15.85e9, PATRICKSTAR_SOURCE)               \
    X("gpt3_18b", KIND_BERT_CLASSIFY, 90, 4096, 16, 16, 16384, 30522, 1024, 18.27e9, PATRICKSTAR_SOURCE)               \
    X("gpt_ds_20b", KIND_BERT_CLASSIFY, 25, 8192, 16, 16, 32768, 30522, 1024, 20.46e9, PATRICKSTAR_SOURCE)             \
    X("gpt_ds_30b", KIND_BERT_CLASSIFY, 37, 8192, 16, 16, 32768, 30522, 1024, 30.13e9, PATRICKSTAR_30B_SOURCE)         \
    X("gpt_ds_40b", KIND_BERT_CLASSIFY, 50, 8192, 16, 16, 32768, 30522, 1024, 40.60e9, PATRICKSTAR_SOURCE)             \
    X("gpt_ds_50b", KIND_BERT_CLASSIFY, 62, 8192, 16, 16, 32768, 30522, 1024, 50.26e9, PATRICKSTAR_SOURCE)             \
    X("gpt_ds_60b", KIND_BERT_CLASSIFY, 75, 8192, 16, 16, 32768, 30522, 1024, 60.73e9, PATRICKSTAR_SOURCE)             \
    X("gpt_ds_68b", KIND_BERT_CLASSIFY, 66, 9216, 16, 16, 36864, 30522, 1024, 67.65e9, PATRICKSTAR_SOURCE)             \
    X("gpt_175b", KIND_BERT_CLASSIFY, 96, 12288, 96, 96, 49152, 30522, 1024, 174.5e9, PATRICKSTAR_SOURCE)              \
    X("megatron_1.3b", KIND_BERT_CLASSIFY, 24, 2048, 32, 32, 8192, 30522, 1024, 1.3e9, PATRICKSTAR_SOURCE)             \
    X("gpt_nv_18b", KIND_BERT_CLASSIFY, 40, 6144, 16, 16, 24576, 30522, 1024, 18e9, PATRICKSTAR_SOURCE)                \
    X("gpt_nv_39b", KIND_BERT_CLASSIFY, 48, 8192, 16, 16, 32768, 30522, 1024, 39e9, PATRICKSTAR_SOURCE)                \
    X("gpt_nv_76b", KIND_BERT_CLASSIFY, 60, 10240, 16, 16, 40960, 30522, 1024, 76e9, PATRICKSTAR_SOURCE)               \
    X("gpt_220b", KIND_BERT_CLASSIFY, 120, 12288, 96, 96, 49152, 30522, 1024, 220e9, PATRICKSTAR_SOURCE)               \
    X("gpt_250b", KIND_BERT_CLASSIFY, 137, 12288, 96, 96, 49152, 30522, 1024, 250e9, PATRICKSTAR_SOURCE)               \
    X("gpt_454b", KIND_BERT_CLASSIFY, 90, 20480, 128, 128, 81920, 30522, 1024, 454e9, PATRICKSTAR_SOURCE)              \
    X("bert-base-uncased", KIND_BERT_ENCODER, 12, 768, 12, 12, 3072, 30522, 512, 109482240, BERT_SOURCE)               \
    X("bert-large-uncased", KIND_BERT_ENCODER, 24, 1024, 16, 16, 4096, 30522, 512, 335141888, BERT_SOURCE)             \
    X("bert-base", KIND_BERT_PRETRAIN, 12, 768, 12, 12, 3072, 30522, 512, 110106428, BERT_SOURCE)                      \
    X("bert-large", KIND_BERT_PRETRAIN, 24, 1024, 16, 16, 4096, 30522, 512, 336226108, BERT_SOURCE)                    \
    X("bert-huge-32", KIND_BERT_PRETRAIN, 32, 1280, 16, 16, 5120, 30522, 512, 672e6, GALVATRON_SOURCE)                 \
    X("bert-huge-48", KIND_BERT_PRETRAIN, 48, 1280, 16, 16, 5120, 30522, 512, 987e6, GALVATRON_SOURCE)                 \
    X("llama-2-7b", KIND_LLAMA, 32, 4096, 32, 32, 11008, 32000, 4096, 6738415616, LLAMA2_SOURCE)                       \
    X("llama-2-13b", KIND_LLAMA, 40, 5120, 40, 40, 13824, 32000, 4096, 13015864320, LLAMA2_SOURCE)                     \
    X("llama-2-70b", KIND_LLAMA, 80, 8192, 64, 8, 28672, 32000, 4096, 68976648192, LLAMA2_SOURCE)                      \
    X("llama-3-8b", KIND_LLAMA, 32, 4096, 32, 8, 14336, 128256, 8192, 8030261248, LLAMA3_SOURCE)                       \
    X("llama-3-70b", KIND_LLAMA, 80, 8192, 64, 8, 28672, 128256, 8192, 70553706496, LLAMA3_SOURCE)                     \
    X("llama-3-405b", KIND_LLAMA, 126, 16384, 128, 8, 53248, 128256, 8192, 405853388800, LLAMA3_SOURCE)                \
    X("vit-base", KIND_VIT, 12, 768, 12, 12, 3072, 16, 224, 86567656, VIT_SOURCE)                                      \
    X("vit-large", KIND_VIT, 24, 1024, 16, 16, 4096, 16, 224, 304326632, VIT_SOURCE)                                   \
    X("vit-huge", KIND_VIT, 32, 1280, 16, 16, 5120, 14, 224, 632045800, VIT_SOURCE)                                    \
    X("bert-xhuge", KIND_BERT_PRETRAIN, 128, 2560, 32, 32, 10240, 30522, 512, 10.2e9, XHUGE_SOURCE)                    \
    X("vit-xhuge", KIND_VIT, 128, 2560, 32, 32, 10240, 16, 224, 10.1e9, GALVATRON_SOURCE)                              \
    X("vit-huge-32", KIND_VIT, 32, 1280, 16, 16, 5120, 16, 224, 632e6, GALVATRON_SOURCE)                               \
    X("vit-huge-48", KIND_VIT, 48, 1280, 16, 16, 5120, 16, 224, 947e6, GALVATRON_SOURCE)                               \
    X("t5-large-32", KIND_T5, 32, 1024, 16, 16, 4096, 32128, 512, 502e6, T5_SOURCE)                                    \
    X("t5-large-48", KIND_T5, 48, 1024, 16, 16, 4096, 32128, 512, 737e6, T5_SOURCE)                                    \
    X("t5-512-4-32", KIND_T5_SHORT, 32, 1024, 16, 16, 4096, 32128, 512, 502e6, T5_SOURCE)                              \
    X("t5-512-4-48", KIND_T5_SHORT, 48, 1024, 16, 16, 4096, 32128, 512, 737e6, T5_SOURCE)                              \
    X("swin-huge-32", KIND_SWIN, 32, 320, 8, 8, 1280, 4, 224, 701e6, SWIN_SOURCE)                                      \
    X("swin-huge-48", KIND_SWIN, 48, 320, 8, 8, 1280, 4, 224, 1016e6, SWIN_SOURCE)

static const struct library_row library_rows[] = {
#define X(name, kind, layers, hidden, heads, kv_heads, ffn, vocab, sequence, published, source)                        \
    { name, kind, layers, hidden, heads, kv_heads, ffn, vocab, sequence, published, source },
    LIBRARY_TABLE(X)
#undef X
};

/* Other names people use for the same rows. Case does not matter, and '_' is '-'. */
static const char *const library_aliases[][2] = {
    { "gpt2-small", "gpt2" },           { "bert-huge", "bert-huge-32" },      { "gpt3-22b", "megatron-22b" },
    { "megatron-175b", "gpt3-175b" },   { "gpt3-530b", "gpt3-529.6b" },       { "llama2-7b", "llama-2-7b" },
    { "llama2-13b", "llama-2-13b" },    { "llama2-70b", "llama-2-70b" },      { "llama3-8b", "llama-3-8b" },
    { "llama3-70b", "llama-3-70b" },    { "llama3-405b", "llama-3-405b" },    { "llama-3.1-8b", "llama-3-8b" },
    { "llama-3.1-70b", "llama-3-70b" }, { "llama-3.1-405b", "llama-3-405b" }, { "vit-base-16", "vit-base" },
    { "vit-large-16", "vit-large" },    { "vit-huge-14", "vit-huge" },
};

enum {
    LIBRARY_COUNT = sizeof library_rows / sizeof library_rows[0],
    ALIAS_COUNT = sizeof library_aliases / sizeof library_aliases[0]
};

uint32_t model_library_count(void)
{
    return LIBRARY_COUNT;
}

void model_library_get(uint32_t index, struct model *model)
{
    CHECK(index < LIBRARY_COUNT);
    const struct library_row *row = &library_rows[index];
    static const enum model_family families[] = { [KIND_GPT] = MODEL_GPT,
                                                  [KIND_BERT_ENCODER] = MODEL_BERT,
                                                  [KIND_BERT_PRETRAIN] = MODEL_BERT,
                                                  [KIND_BERT_CLASSIFY] = MODEL_BERT,
                                                  [KIND_LLAMA] = MODEL_LLAMA,
                                                  [KIND_VIT] = MODEL_VIT,
                                                  [KIND_T5] = MODEL_T5,
                                                  [KIND_T5_SHORT] = MODEL_T5,
                                                  [KIND_SWIN] = MODEL_SWIN };
    model_family_defaults(model, families[row->kind]);
    snprintf(model->name, sizeof model->name, "%s", row->name);
    snprintf(model->source, sizeof model->source, "%s", row->source);
    model->layers = row->layers;
    model->hidden = row->hidden;
    model->heads = row->heads;
    model->kv_heads = row->kv_heads;
    model->head_size = row->hidden / row->heads;
    model->ffn = row->ffn;
    model->published_parameters = row->published_parameters;
    if (row->kind == KIND_VIT || row->kind == KIND_SWIN) {
        model->patch_size = row->vocab;
        model->image_size = row->max_sequence;
        model->classes = 1000;
        model->max_sequence = model_patches(model) + (row->kind == KIND_VIT ? 1 : 0);
    } else {
        model->vocab = row->vocab;
        model->max_sequence = row->max_sequence;
    }
    model->position_rows = model->positions == MODEL_LEARNED_POSITIONS ? model->max_sequence : 0;
    if (row->kind == KIND_T5 || row->kind == KIND_T5_SHORT) {
        model->decoder_layers = row->layers / 2;
        model->decoder_sequence = row->kind == KIND_T5 ? model->max_sequence : 4;
    } else if (row->kind == KIND_SWIN) {
        const int64_t stages[MODEL_STAGES] = { 2, 2, row->layers - 6, 2 };
        memcpy(model->stage_layers, stages, sizeof stages);
    }
    if (row->kind == KIND_BERT_ENCODER) {
        model->mlm_head = false;
        model->classes = 0;
    } else if (row->kind == KIND_BERT_CLASSIFY) {
        model->mlm_head = false;
    }
    struct error error;
    CHECK(model_check(model, &error) == STATUS_OK);
}

static bool same_name(const char *a, const char *b)
{
    for (;; a++, b++) {
        int x = *a == '_' ? '-' : tolower((unsigned char)*a);
        int y = *b == '_' ? '-' : tolower((unsigned char)*b);
        if (x != y) {
            return false;
        }
        if (x == '\0') {
            return true;
        }
    }
}

bool model_library_find(const char *name, struct model *model)
{
    for (uint32_t i = 0; i < ALIAS_COUNT; i++) {
        if (same_name(name, library_aliases[i][0])) {
            name = library_aliases[i][1];
            break;
        }
    }
    for (uint32_t i = 0; i < LIBRARY_COUNT; i++) {
        if (same_name(name, library_rows[i].name)) {
            model_library_get(i, model);
            return true;
        }
    }
    return false;
}

const char *model_library_nearest(const char *name)
{
    const char *names[LIBRARY_COUNT + ALIAS_COUNT];
    for (uint32_t i = 0; i < LIBRARY_COUNT; i++) {
        names[i] = library_rows[i].name;
    }
    for (uint32_t i = 0; i < ALIAS_COUNT; i++) {
        names[LIBRARY_COUNT + i] = library_aliases[i][0];
    }
    return nearest_word(name, names, LIBRARY_COUNT + ALIAS_COUNT);
}
