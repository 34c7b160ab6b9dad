/* A model as the module units that chunks are filled with: every torch module that owns parameters directly, in the order in which construction ends (a child before its parent). All direct
 * parameters of a module are one unit, placed together (PatrickStar, core/preprocess.py: the post-init hook).
 *
 * Orders follow the classes that PatrickStar's scripts train (transformers): GPT2Block with one packed qkv module; BertLayer, ViTLayer and LlamaDecoderLayer with three. A table that is an
 * nn.Embedding is marked: with embedding on the CPU it stays outside chunks. A tied output projection owns nothing.
 *
 *     struct chunk_units units;
 *     TRY(chunk_units_of_model(&units, &model, model.vocab, &arena, error));    // memory: the arena's
 *
 * STATUS_UNSUPPORTED for models whose layers differ (model_is_uniform). */
#ifndef MEMWALL_STRATEGIES_CHUNK_UNITS_H
#define MEMWALL_STRATEGIES_CHUNK_UNITS_H

#include "sim/base/arena.h"
#include "sim/model/model.h"

enum { CHUNK_UNIT_TENSORS_MAX = 4 };

struct chunk_unit {
    const char *name; /* static: "ffn_up" */
    uint32_t layer;   /* 0: embedding; 1 .. model.layers: blocks; model.layers + 1: head */
    bool embedding;   /* an nn.Embedding */
    uint32_t tensor_count;
    uint64_t elements[CHUNK_UNIT_TENSORS_MAX]; /* of each tensor */
};

struct chunk_units {
    struct chunk_unit *items;
    uint32_t count;
};

/* `vocab_rows`: rows of the word table, which software may have padded. The elements add up to model_parameters when it is model->vocab. */
enum status chunk_units_of_model(struct chunk_units *units, const struct model *model, int64_t vocab_rows,
                                 struct arena *arena, struct error *error);

uint64_t chunk_unit_elements(const struct chunk_unit *unit);
/* The unit with the most elements; embedding tables count unless `embedding_outside`. NULL when there is none. */
const struct chunk_unit *chunk_units_largest(const struct chunk_units *units, bool embedding_outside);

#endif
