/* Variants: the different shapes of a model's transformer layers, and what goes from one layer to the next.
 *
 * Models of one shape have variant 0 only. t5 has four: a layer of the encoder; its last one, which also norms the
 * encoder's output; the decoder's first, which takes that output in; a further one of the decoder. swin has a block of
 * each stage (even numbers), and the last block of the three stages before the last, which also merges patches into the
 * next stage (odd numbers; torchvision and the authors' code merge at a stage's end likewise).
 *
 * What crosses from layer to layer of t5 (our rule, as pipelines that hand a tuple on do it): the tokens of both stacks
 * are embedded together where the table is; behind it go the hidden states of both. Layers of the encoder change the
 * encoder's and pass the decoder's on; layers of the decoder change the decoder's and pass the encoder's output on,
 * whose gradient each adds to on the way back. The head takes the decoder's alone. Megatron instead keeps a copy of the
 * table on the decoder's first stage, and sends encoder states only before it; from there on it sends both as well. */
#ifndef MEMWALL_MODEL_VARIANT_H
#define MEMWALL_MODEL_VARIANT_H

#include "sim/model/model.h"

enum t5_variant { T5_ENCODER, T5_ENCODER_LAST, T5_DECODER_FIRST, T5_DECODER, T5_VARIANTS };
enum { MODEL_VARIANTS_MAX = 2 * MODEL_STAGES - 1 };
/* Buckets of relative distance that t5 learns a bias for, each head and stack (Raffel et al. 2020, 2.1; huggingface
 * relative_attention_num_buckets). */
enum { T5_BUCKETS = 32 };

uint32_t model_variant_count(const struct model *model);
/* Of layer `layer`, from 0. */
uint32_t model_layer_variant(const struct model *model, int64_t layer);
/* The first layer of a variant; model->layers: the model has none of it. */
int64_t model_variant_first(const struct model *model, uint32_t variant);
/* "encoder", "stage 2 with merging"; "layer" where all have one shape. */
const char *model_variant_word(const struct model *model, uint32_t variant);
/* The model as such a layer sees it: swin's hidden, heads, kv_heads and ffn are those of its stage. */
struct model model_at_variant(const struct model *model, uint32_t variant);
/* swin: the stage of a variant, from 0. */
int model_variant_stage(uint32_t variant);
/* t5: a layer of the decoder; swin: one that merges patches behind its block. False elsewhere. */
bool model_variant_decodes(const struct model *model, uint32_t variant);
bool model_variant_merges(const struct model *model, uint32_t variant);

/* Tokens of one sample that go into layer `layer` (model->layers: into the head) for a sequence of `sequence`, and
 * their width; `passing`: how many of them its layer does not read and hands on. t5's encoder output is read by every
 * layer of the decoder. */
struct model_crossing {
    int64_t tokens, passing, width;
};
struct model_crossing model_crossing_into(const struct model *model, int64_t layer, int64_t sequence);

#endif
