/* The blocks of a blockalloc, and its free ones in order of (stream, bytes, address): for sim/core/blockalloc alone.
 *
 * An order is a row of leaves, each a sorted row of at most BLOCK_LEAF_MAX blocks: searched by halving, changed by
 * moving some words. Free blocks are few (tens in a training step), and a tree's nodes cost more than all this. Two
 * neighbouring leaves together hold BLOCK_PAIR_MIN blocks or more, so n blocks need at most n / 16 + 1 leaves.
 * O(log n) to find; to change it, the words of a leaf, and once in tens of
 * changes a row of n / 16 words. */
#ifndef MEMWALL_CORE_BLOCK_ORDER_H
#define MEMWALL_CORE_BLOCK_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/status.h"

#define BLOCK_NONE UINT32_MAX

enum { BLOCK_LEAF_MAX = 63, BLOCK_PAIR_MIN = 32 };

enum block_state { BLOCK_UNUSED, BLOCK_LIVE, BLOCK_FREE };

struct blockalloc_node {
    uint64_t address, bytes;
    uint64_t requested_bytes;
    uint32_t previous, next; /* neighbours in the segment; of an unused node the next unused one */
    uint32_t stream;
    uint8_t state;
    uint8_t order; /* which, when free or once freed */
};

struct block_leaf {
    uint32_t count;
    uint32_t nodes[BLOCK_LEAF_MAX]; /* rising */
};

struct block_order {
    struct block_leaf *leaves; /* [capacity] */
    uint32_t *row;             /* [capacity]: into leaves; the first `count` are in use, rising; then the unused ones */
    uint32_t count, capacity;
};

/* Room for `nodes` blocks: inserting that many never fails. STATUS_NO_MEMORY leaves the order as it was. */
enum status block_order_reserve(struct block_order *order, size_t nodes, struct error *error);
void block_order_free(struct block_order *order);

/* `node` must not be in it yet; there must be room. */
void block_order_insert(struct block_order *order, const struct blockalloc_node *nodes, uint32_t node);
/* `node` must be in it, and be as it was when it was inserted. */
void block_order_remove(struct block_order *order, const struct blockalloc_node *nodes, uint32_t node);
/* Takes out the smallest block of `stream` with at least `bytes`, the lowest address among equals; BLOCK_NONE: there is none. */
uint32_t block_order_take_best_fit(struct block_order *order, const struct blockalloc_node *nodes, uint32_t stream,
                                   uint64_t bytes);
/* Whether it holds `count` blocks, rising, in leaves of the promised sizes: for tests. */
bool block_order_is_sound(const struct block_order *order, const struct blockalloc_node *nodes, size_t count);

#endif
