/* Which chunk leaves a full place: eviction policies over a known or remembered access history.
 *
 * Every policy gives each candidate a key; the largest key leaves first, equal keys by the smallest chunk id (PatrickStar, core/eviction_policy.py). `next-use` is the only one that PatrickStar has, named
 * LRU there: Belady's choice by the moments that the warm-up iteration recorded, wrapped around to the next iteration. The others are for comparison.
 *
 *   next-use   0 in warm-up; else the first recorded moment > now on that place; none later: moments + first moment; never there: 2 * moments
 *   lookahead  as next-use, but only N moments ahead; what is not needed within them leaves first, the longest unused of it first
 *   lru, fifo  longest since the last access, since it came
 *   lfu        fewest accesses, the longest unused first
 *   random     by a seed */
#ifndef MEMWALL_STRATEGIES_CHUNK_EVICTION_H
#define MEMWALL_STRATEGIES_CHUNK_EVICTION_H

#include <stdbool.h>

#include "sim/base/arena.h"
#include "sim/base/status.h"

#define CHUNK_EVICTION_TABLE(X)                                                                                        \
    X(EVICT_NEXT_USE, "next-use")                                                                                      \
    X(EVICT_LRU, "lru")                                                                                                \
    X(EVICT_FIFO, "fifo")                                                                                              \
    X(EVICT_LFU, "lfu")                                                                                                \
    X(EVICT_RANDOM, "random")                                                                                          \
    X(EVICT_LOOKAHEAD, "lookahead")

#define X(name, word) name,
enum chunk_eviction { CHUNK_EVICTION_TABLE(X) CHUNK_EVICTION_COUNT };
#undef X

enum chunk_place { PLACE_DEVICE, PLACE_HOST, PLACE_COUNT, PLACE_NONE = PLACE_COUNT };

/* The moments at which each chunk is accessed on each place, rising: what warm-up records. */
struct chunk_moments {
    uint32_t chunk_count, moment_count;
    uint32_t *first[PLACE_COUNT]; /* [chunk_count + 1] into moments[] */
    uint32_t *moments[PLACE_COUNT];
};

/* One access, in any order of calls; repeated ones count once. */
struct chunk_access {
    uint32_t chunk, moment;
    enum chunk_place place;
};
/* `accesses` sorted by moment. */
enum status chunk_moments_build(struct chunk_moments *moments, uint32_t chunk_count, uint32_t moment_count,
                                const struct chunk_access *accesses, uint32_t access_count, struct arena *arena,
                                struct error *error);
/* The key of next-use. */
uint64_t chunk_next_use(const struct chunk_moments *moments, uint32_t chunk, enum chunk_place place, uint32_t now);

/* What online policies remember of a chunk. */
struct chunk_history {
    uint64_t last_access, arrival, accesses; /* clock ticks: every access is one */
};

struct chunk_evictor {
    enum chunk_eviction policy;
    uint32_t lookahead;                  /* moments */
    uint64_t seed;                       /* of random */
    uint64_t draws;                      /* random: decisions so far */
    const struct chunk_moments *moments; /* NULL: warm-up, nothing is recorded yet */
};

struct chunk_key {
    uint64_t first, second;
};
struct chunk_key chunk_eviction_key(const struct chunk_evictor *evictor, uint32_t chunk, enum chunk_place place,
                                    uint32_t now, uint64_t clock, const struct chunk_history *history);
/* a leaves before b. */
bool chunk_key_before(struct chunk_key a, uint32_t a_chunk, struct chunk_key b, uint32_t b_chunk);

#endif
