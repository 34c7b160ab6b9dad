/* The blocks of a blockalloc and the ordered trees of its free ones: for sim/core/block*.c alone.
 *
 * A tree is a treap whose links lie in the nodes: ordered by (stream, bytes, address), balanced by random priorities
 * drawn when a node enters. Expected O(log n), no recursion, no memory of its own. */
#ifndef MEMWALL_CORE_BLOCK_TREE_H
#define MEMWALL_CORE_BLOCK_TREE_H

#include <stdbool.h>
#include <stdint.h>

#define BLOCK_NONE UINT32_MAX

enum block_state { BLOCK_UNUSED, BLOCK_LIVE, BLOCK_FREE };

struct blockalloc_node {
    uint64_t address, bytes;
    uint64_t requested_bytes;
    uint32_t previous, next; /* neighbours in the segment; of an unused node the next unused one */
    uint32_t left, right;    /* in the tree, when free */
    uint32_t priority;
    uint32_t stream;
    uint8_t state;
    uint8_t tree; /* which, when free or once freed */
};

/* Whether a comes before b. */
static inline bool block_is_before(const struct blockalloc_node *a, const struct blockalloc_node *b)
{
    if (a->stream != b->stream) {
        return a->stream < b->stream;
    }
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
}

void block_tree_insert(struct blockalloc_node *nodes, uint32_t *root, uint32_t node, uint32_t priority);
/* `node` must be in the tree. */
void block_tree_remove(struct blockalloc_node *nodes, uint32_t *root, uint32_t node);
/* Takes out the smallest block of `stream` with at least `bytes`, the lowest address among equals; BLOCK_NONE: there is none. */
uint32_t block_tree_take_best_fit(struct blockalloc_node *nodes, uint32_t *root, uint32_t stream, uint64_t bytes);

#endif
