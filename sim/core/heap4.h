/* Indexed 4-ary min-heap of 16-byte keys: the machine below evq (events by time) and psq (flows by finish tag).
 *
 * An entry is (rank, sequence, slot): least rank first, least sequence among equal ranks. A slot, chosen by the
 * caller below `slot_count`, is in the heap at most once; its payload lives elsewhere, under the same index.
 * position[] finds a slot's entry, so any entry can be removed or moved. The four children of an entry share one
 * cache line. Insert, remove, move: O(log4 n). Nothing is allocated after init.
 *
 * Taking the top leaves a hole at the root that the next insert fills: take and insert together cost one pass down.
 * Until it is filled the hole keeps its old entry, which is not greater than any other, so that moves below need not
 * know of it. */
#ifndef MEMWALL_CORE_HEAP4_H
#define MEMWALL_CORE_HEAP4_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/arena.h"
#include "sim/base/status.h"

#define HEAP4_ABSENT UINT32_MAX
enum { HEAP4_ROOT = 3 }; /* so that children groups start at multiples of four */

/* Compared as one 128-bit number: rank, then sequence (then slot, which never decides: sequences differ). */
struct heap4_key {
    uint64_t low; /* sequence << 32 | slot */
    uint64_t rank;
};

struct heap4 {
    struct heap4_key *keys; /* entries at HEAP4_ROOT .. HEAP4_ROOT + count - 1; 64-byte aligned */
    uint32_t *position;     /* of each slot: index into keys, or HEAP4_ABSENT */
    uint32_t slot_count;
    uint32_t count;    /* entries, the hole among them */
    uint32_t sequence; /* of the next insert or move */
    bool hole;         /* keys[HEAP4_ROOT] was taken */
};

/* An empty heap in memory of `arena`, for slots 0 .. slot_count - 1 (at most 2^28). STATUS_NO_MEMORY. */
enum status heap4_init(struct heap4 *heap, struct arena *arena, uint32_t slot_count, struct error *error);
/* Forget all entries; the sequence starts again. O(entries). */
void heap4_clear(struct heap4 *heap);

static inline uint32_t heap4_size(const struct heap4 *heap)
{
    return heap->count - heap->hole;
}

static inline uint32_t heap4_slot(const struct heap4_key *key)
{
    return (uint32_t)key->low;
}

static inline bool heap4_has(const struct heap4 *heap, uint32_t slot)
{
    return heap->position[slot] != HEAP4_ABSENT;
}

static inline uint64_t heap4_rank(const struct heap4 *heap, uint32_t slot)
{
    return heap->keys[heap->position[slot]].rank;
}

/* `slot` must be absent, and while there is a hole `rank` not below the taken one's. */
void heap4_insert(struct heap4 *heap, uint32_t slot, uint64_t rank);
/* `slot` must be present. It goes behind all entries of equal rank. The same bound on `rank`. */
void heap4_move(struct heap4 *heap, uint32_t slot, uint64_t rank);
void heap4_remove(struct heap4 *heap, uint32_t slot);
/* The least entry, or NULL when empty. Valid until the next change. */
const struct heap4_key *heap4_top(const struct heap4 *heap);
/* Take the least entry out (the heap must not be empty) and return its slot. */
uint32_t heap4_take(struct heap4 *heap);

#endif
