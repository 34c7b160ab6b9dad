/* Choosing the chunk size before training: build the layout for a list of candidates, keep the one that wastes least.
 *
 * Two searches: PatrickStar's own (examples/run_transformers.sh, eval_chunk_size.py: 312 down to 64 Mi elements in steps of 32 Mi, the smallest footprint among feasible sizes), and that of its successor
 * Gemini in ColossalAI (gemini/chunk/search_utils.py: from the smallest size that holds every tensor upwards, the least waste under next-fit of single tensors, outliers left out). */
#ifndef MEMWALL_STRATEGIES_CHUNK_SEARCH_H
#define MEMWALL_STRATEGIES_CHUNK_SEARCH_H

#include "strategies/policies/chunk_layout.h"

/* What the feasibility rule weighs chunks against. Bytes of one GPU and of one server. */
struct chunk_machine {
    double gpu_bytes, cpu_bytes;
    uint32_t gpu_count, server_count;
    double gpu_ratio, cpu_ratio, warmup_ratio;
    bool gradient_chunks; /* gradients have a list of their own: 16 bytes an element, not 14 */
    bool exact_blocks;    /* page-locked blocks take the bytes asked for: chunk_search_rounded then counts these */
};

/* (a) one fp16 chunk fits what warm-up leaves on a GPU; (b) 14 B (16 with gradient_chunks) per element of all chunks fit GPUs (at their warm-up share) and servers together. */
bool chunk_size_feasible(const struct chunk_layout *layout, const struct chunk_machine *machine);

struct chunk_choice {
    uint64_t capacity;  /* elements */
    double bytes;       /* of all lists; Gemini: elements wasted */
    double utilisation; /* of the layout with this size; Gemini: 0 */
    bool feasible;      /* false: no candidate was, and this is the best of those that are not */
    bool holds_two;     /* the warm-up share holds two chunks: only chunk_search_rounded asks */
    uint32_t tried;     /* candidates that hold every unit */
};

/* PatrickStar's. Where no candidate holds the largest unit (hidden sizes from 9216 on), candidates go on upwards from the first step that does, as the authors' own runs with 384 Mi do. */
enum status chunk_search_patrickstar(const struct chunk_units *units, uint32_t ranks, bool embedding_outside,
                                     const struct chunk_machine *machine, struct arena *arena,
                                     struct chunk_choice *choice, struct error *error);

/* As PatrickStar's, for a host that page-locks blocks of a power of two of bytes: candidates from 1024 down to 64 Mi, rule (a) with two chunks (as the comment in eval_chunk_size.py has it) and (b) as it is, and the footprint
 * counts blocks as they are rounded. A size of 384 Mi wastes a quarter of the host that way, 512 Mi nothing. */
enum status chunk_search_rounded(const struct chunk_units *units, uint32_t ranks, bool embedding_outside,
                                 const struct chunk_machine *machine, struct arena *arena, struct chunk_choice *choice,
                                 struct error *error);

/* Gemini's. Elements: `minimum` size, `range` above it, `interval` between candidates (the hidden size is recommended; Lightning: 32 Mi, 64 Mi, range / 4096). */
enum status chunk_search_gemini(const struct chunk_units *units, bool embedding_outside, uint64_t minimum,
                                uint64_t range, uint64_t interval, struct chunk_choice *choice, struct error *error);

#endif
