/* The chunk layout: module units placed into chunks of a fixed number of elements, as PatrickStar does (Fang et al., TPDS 2023; core/client.py, chunk_tensor_index.py).
 *
 * Next-fit: a unit goes whole behind what the LAST chunk holds, or opens a new one; a unit larger than an empty chunk is refused. No padding. The same sequence builds the lists of
 * fp16 parameters, fp32 parameters, momentum and variance, so positions coincide and one layout stands for all four. p consecutive chunks are a communication group; rank r owns those with
 * number k % p == r. The fp16 list ends with dummy chunks up to a multiple of p; the fp32-type lists have none, and exist only on the owner.
 *
 *     struct chunk_layout layout;
 *     TRY(chunk_layout_build(&layout, &units, 64 * CHUNK_MEBI, ranks, true, &arena, error));
 *
 * All linear in the units. Sizes are elements. */
#ifndef MEMWALL_STRATEGIES_CHUNK_LAYOUT_H
#define MEMWALL_STRATEGIES_CHUNK_LAYOUT_H

#include "strategies/policies/chunk_units.h"

#define CHUNK_NONE UINT32_MAX
#define CHUNK_MEBI ((uint64_t)1 << 20) /* PatrickStar's sizes are multiples of 2^20 elements */

struct chunk_layout {
    uint64_t capacity;     /* elements of a chunk */
    uint32_t ranks;        /* p */
    uint32_t chunk_count;  /* that hold something */
    uint32_t padded_count; /* of the fp16 list: a multiple of ranks */
    uint64_t *filled;      /* elements in use [padded_count]: the end of the last tensor */
    uint32_t *unit_chunk;  /* [units]; CHUNK_NONE: outside chunks (embedding on the CPU) */
    uint64_t *unit_offset; /* [units] of its first tensor */
    uint64_t outside;      /* elements outside chunks */
};

/* STATUS_BAD_INPUT names the unit that no chunk of this size holds, and the smallest size that would. */
enum status chunk_layout_build(struct chunk_layout *layout, const struct chunk_units *units, uint64_t capacity,
                               uint32_t ranks, bool embedding_outside, struct arena *arena, struct error *error);

static inline uint32_t chunk_group(const struct chunk_layout *layout, uint32_t chunk)
{
    return chunk / layout->ranks;
}

static inline uint32_t chunk_owner(const struct chunk_layout *layout, uint32_t chunk)
{
    return chunk % layout->ranks;
}

/* Chunks of each fp32-type list that `rank` holds: its own without dummies. */
uint32_t chunk_layout_owned(const struct chunk_layout *layout, uint32_t rank);
/* Mean of filled / capacity over the chunks that hold something; 0 without any. */
double chunk_layout_utilisation(const struct chunk_layout *layout);
/* Bytes of all four lists on all ranks: dummies count in the fp16 list. */
double chunk_layout_bytes(const struct chunk_layout *layout);
/* Bytes of a list of fp16 gradients beside these. */
double chunk_layout_gradient_bytes(const struct chunk_layout *layout);

#endif
