#include "sim/core/block_tree.h"

#include <stddef.h>

#include "sim/base/check.h"

void block_tree_insert(struct blockalloc_node *nodes, uint32_t *root, uint32_t node, uint32_t priority)
{
    struct blockalloc_node *n = &nodes[node];
    uint32_t *link = root;
    n->priority = priority;
    while (*link != BLOCK_NONE && nodes[*link].priority >= priority) {
        link = block_is_before(n, &nodes[*link]) ? &nodes[*link].left : &nodes[*link].right;
    }
    /* What hung here is split into what comes before and what comes after. */
    uint32_t at = *link, *before = &n->left, *after = &n->right;
    *link = node;
    while (at != BLOCK_NONE) {
        if (block_is_before(&nodes[at], n)) {
            *before = at;
            before = &nodes[at].right;
            at = *before;
        } else {
            *after = at;
            after = &nodes[at].left;
            at = *after;
        }
    }
    *before = BLOCK_NONE;
    *after = BLOCK_NONE;
}

/* Takes `node` out from under `link`: its two subtrees, the one all before the other, become one. */
static void unlink_node(struct blockalloc_node *nodes, uint32_t *link, uint32_t node)
{
    uint32_t before = nodes[node].left, after = nodes[node].right;
    while (before != BLOCK_NONE && after != BLOCK_NONE) {
        if (nodes[before].priority >= nodes[after].priority) {
            *link = before;
            link = &nodes[before].right;
            before = *link;
        } else {
            *link = after;
            link = &nodes[after].left;
            after = *link;
        }
    }
    *link = before != BLOCK_NONE ? before : after;
}

void block_tree_remove(struct blockalloc_node *nodes, uint32_t *root, uint32_t node)
{
    const struct blockalloc_node *n = &nodes[node];
    uint32_t *link = root;
    while (*link != node) {
        CHECK(*link != BLOCK_NONE);
        link = block_is_before(n, &nodes[*link]) ? &nodes[*link].left : &nodes[*link].right;
    }
    unlink_node(nodes, link, node);
}

uint32_t block_tree_take_best_fit(struct blockalloc_node *nodes, uint32_t *root, uint32_t stream, uint64_t bytes)
{
    uint32_t *best = NULL, *link = root;
    while (*link != BLOCK_NONE) {
        struct blockalloc_node *n = &nodes[*link];
        if (n->stream > stream || (n->stream == stream && n->bytes >= bytes)) {
            best = link;
            link = &n->left;
        } else {
            link = &n->right;
        }
    }
    if (best == NULL || nodes[*best].stream != stream) {
        return BLOCK_NONE;
    }
    uint32_t node = *best;
    unlink_node(nodes, best, node);
    return node;
}
