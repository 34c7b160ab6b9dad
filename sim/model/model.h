/* The model description: one transformer (or vision transformer) as numbers, from a library name, a Hugging Face
 * config.json, or an inline
 * object of a scenario.
 *
 * Families: gpt (pre-norm decoder, learned positions, GELU, biases, tied head), bert (post-norm encoder, segment
 * embeddings, MLM head),
 * llama (RMSNorm, rotary, SwiGLU, GQA, no biases), vit (patch embedding, encoder, classifier). The family gives
 * the defaults and the order of norms; every
 * field below may differ from them. All quantities are element counts; a model knows no time and no machine.
 *
 * Two more have layers of several shapes (sim/model/variant.h): t5 (encoder and
 * decoder, relative position bias, RMSNorm, ReLU, no biases, tied head) and swin (four stages, each half the side and
 * twice the width of the one before, attention in windows).
 *
 *     struct model model;
 *     TRY(model_load(&model, "gpt3-175b", error));          // or "folder/config.json"
 *     printf("%" PRId64 "\n", model_parameters(&model)); */
#ifndef MEMWALL_MODEL_MODEL_H
#define MEMWALL_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/json.h"
#include "sim/base/status.h"

#define MODEL_FAMILY_TABLE(X)                                                                                          \
    X(MODEL_GPT, "gpt")                                                                                                \
    X(MODEL_BERT, "bert") X(MODEL_LLAMA, "llama") X(MODEL_VIT, "vit") X(MODEL_T5, "t5") X(MODEL_SWIN, "swin")
#define MODEL_NORM_TABLE(X)       X(MODEL_LAYER_NORM, "layer_norm") X(MODEL_RMS_NORM, "rms_norm")
#define MODEL_ACTIVATION_TABLE(X) X(MODEL_GELU, "gelu") X(MODEL_RELU, "relu") X(MODEL_SWIGLU, "swiglu")
#define MODEL_POSITIONS_TABLE(X)                                                                                       \
    X(MODEL_LEARNED_POSITIONS, "learned") X(MODEL_ROTARY, "rotary") X(MODEL_NO_POSITIONS, "none")

enum model_family {
#define X(name, word) name,
    MODEL_FAMILY_TABLE(X)
#undef X
        MODEL_FAMILY_COUNT
};

enum model_norm {
#define X(name, word) name,
    MODEL_NORM_TABLE(X)
#undef X
        MODEL_NORM_COUNT
};

enum model_activation {
#define X(name, word) name,
    MODEL_ACTIVATION_TABLE(X)
#undef X
        MODEL_ACTIVATION_COUNT
};

enum model_positions {
#define X(name, word) name,
    MODEL_POSITIONS_TABLE(X)
#undef X
        MODEL_POSITIONS_COUNT
};

enum { MODEL_NAME_BYTES = 96, MODEL_SOURCE_BYTES = 256, MODEL_STAGES = 4 };

struct model {
    char name[MODEL_NAME_BYTES];
    char source[MODEL_SOURCE_BYTES]; /* paper or file the numbers come from */
    enum model_family family;
    enum model_norm norm;
    enum model_activation activation;
    enum model_positions positions;
    /* t5: layers of both stacks; swin: blocks of all stages, and hidden, heads and ffn of the first stage. */
    int64_t layers, hidden, heads, kv_heads, head_size, ffn;
    int64_t vocab;         /* as published; padding for TP is the plan's affair (model_padded_vocab); 0 for vit, swin */
    int64_t max_sequence;  /* the longest and the default sequence; vit: patches + 1; swin: patches */
    int64_t position_rows; /* rows of the position table: max_sequence, or 2 more for opt; 0 without a table */
    int64_t segment_types; /* bert: rows of the segment table */
    bool tied_head;        /* the output projection is the input embedding */
    bool lm_head;          /* gpt, llama: an output projection to the vocabulary follows the last layer */
    bool qkv_bias, projection_bias, ffn_bias, norm_bias, head_bias;
    bool final_norm; /* a norm after the last layer */
    bool causal;
    bool parallel_residual; /* gpt_neox: attention and feed-forward read the same input, one addition joins both */
    bool pooler;            /* bert: dense pooler on the first token */
    bool mlm_head;          /* bert: dense + norm + tied decoder with bias on every token */
    int64_t image_size, patch_size, channels; /* vit, swin; 0 elsewhere */
    int64_t classes; /* vit, swin: classifier; bert with a pooler: next-sentence or sequence classifier; 0 without */
    int64_t decoder_layers;             /* t5: how many of layers, the last ones, are the decoder's; 0 elsewhere */
    int64_t decoder_sequence;           /* t5: tokens of the decoder (the sequence is the encoder's); 0 elsewhere */
    int64_t stage_layers[MODEL_STAGES]; /* swin: blocks of each stage; 0 elsewhere */
    int64_t window;                     /* swin: tokens on the side of an attention window; 0 elsewhere */
    double dropout;                     /* of hidden states; 0 removes its masks */
    double attention_dropout;           /* of attention probabilities; 0 removes its mask and its output copy */
    double published_parameters; /* 0 when not known: for tests and for `memwall list`; may be rounded as published */
};

/* From a library name ("gpt3-175b"), a path to a config.json (a name with '/' or ending in ".json"; taken from the
 * working folder, or else from the folder of the scenario's file), or an
 * inline object:
 *   {"family":"gpt","layers":24,"hidden":1024,"heads":16,"ffn":4096,"vocab":50257,"max_sequence":1024}
 * An inline object with "base" starts from that library model and changes what it names; one with "model_type" is
 * read as a Hugging Face config.
 * Unknown names and keys suggest the nearest; each number has a range, named in the message. t5 takes "layers" of both
 * stacks, "decoder_layers" (half of them unless said) and "decoder_sequence" (max_sequence unless said); swin takes
 * "stage_layers", [2, 2, 6, 2], and "window" (7 unless said), its other sizes being the first stage's. */
enum status model_from_json(struct model *model, const struct json *value, struct error *error);
enum status model_load(struct model *model, const char *name_or_path, struct error *error);
/* A Hugging Face config already parsed. Unknown keys are allowed there (those files hold many). STATUS_UNSUPPORTED
 * names the known model types. */
enum status model_from_config(struct model *model, const struct json *config, struct error *error);
/* Fill the defaults of a family: everything but the sizes. */
void model_family_defaults(struct model *model, enum model_family family);
/* Head sizes, divisibility, products that would overflow: STATUS_BAD_INPUT with what is wrong. Every loader ends
 * with it. */
enum status model_check(const struct model *model, struct error *error);

/* The library: names in a fixed order, then aliases resolve to them. model_library_get never fails for a valid
 * index. */
uint32_t model_library_count(void);
void model_library_get(uint32_t index, struct model *model);
/* By name or alias; false when unknown. */
bool model_library_find(const char *name, struct model *model);
/* The nearest name or alias, or NULL. */
const char *model_library_nearest(const char *name);

/* Exact parameter counts (elements). */
int64_t model_layer_parameters(const struct model *model); /* one transformer layer; t5, swin: the first */
/* Layer `layer`, from 0; all the same where model_is_uniform. t5: the encoder's last with the norm behind it; swin: the
 * last of a stage with the merging into the next. */
int64_t model_layer_parameters_at(const struct model *model, int64_t layer);
int64_t model_embedding_parameters(
    const struct model
        *model); /* word + position + segment (+ embedding norm) or patch embedding; t5: with both stacks' relative
                                    bias tables */
int64_t model_head_parameters(
    const struct model *model); /* final norm, untied head, MLM head, pooler, classifier; tied weights count 0 */
int64_t model_parameters(const struct model *model); /* the three together, over all layers; tied weights once */

/* All layers have one shape: false for t5 and swin. */
bool model_is_uniform(const struct model *model);
/* For what takes one shape only: STATUS_UNSUPPORTED, naming `what`, or STATUS_OK. */
enum status model_require_uniform(const struct model *model, const char *what, struct error *error);
/* vit, swin: patches of one image; 0 elsewhere. */
int64_t model_patches(const struct model *model);
/* Tokens that a step reads of one sample: the sequence; t5: of both stacks. */
int64_t model_sample_tokens(const struct model *model, int64_t sequence);
/* The output projection to the vocabulary exists (language models, or bert with its MLM head). */
bool model_has_logits(const struct model *model);

/* Model FLOPs of one step for `batch` sequences of length `sequence`, forward + backward without recomputation, as
 * Megatron counts them
 * (Narayanan et al. 2021, SC21 eq. 3; Korthikanti et al. 2022 eq. 7-9 without the recomputation term): GEMMs and
 * attention only, no causal discount.
 * For gpt: 72 B s l h^2 (1 + s/(6h) + V/(12 l h)). Other families: three times the FLOPs of their forward GEMMs
 * (the patch projection twice: it has no input gradient). t5: `sequence` is the encoder's, the decoder's is
 * decoder_sequence; swin: `sequence` must be its patches and does not enter. */
double model_step_flops(const struct model *model, double batch, double sequence);

const char *model_family_word(enum model_family family);
const char *model_norm_word(enum model_norm norm);
const char *model_activation_word(enum model_activation activation);
const char *model_positions_word(enum model_positions positions);

#endif
