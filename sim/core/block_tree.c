#include "sim/core/block_tree.h"

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

void block_tree_remove(struct blockalloc_node *nodes, uint32_t *root, uint32_t node)
{
    const struct blockalloc_node *n = &nodes[node];
    uint32_t *link = root;
    while (*link != node) {
        CHECK(*link != BLOCK_NONE);
        link = block_is_before(n, &nodes[*link]) ? &nodes[*link].left : &nodes[*link].right;
    }
    uint32_t before = n->left, after = n->right;
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

uint32_t block_tree_best_fit(const struct blockalloc_node *nodes, uint32_t root, uint32_t stream, uint64_t bytes)
{
    uint32_t best = BLOCK_NONE;
    for (uint32_t at = root; at != BLOCK_NONE;) {
        const struct blockalloc_node *n = &nodes[at];
        if (n->stream > stream || (n->stream == stream && n->bytes >= bytes)) {
            best = at;
            at = n->left;
        } else {
            at = n->right;
        }
    }
    return best != BLOCK_NONE && nodes[best].stream == stream ? best : BLOCK_NONE;
}
