#include "sim/core/block_order.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"

/* Where a block is or would be. */
struct place {
    uint32_t leaf, at; /* in row; in the leaf */
};

/* Whether a comes before b. Without branches: where a search goes is as good as random. */
static inline bool is_before(const struct blockalloc_node *a, const struct blockalloc_node *b)
{
    bool lower = (a->bytes < b->bytes) | ((a->bytes == b->bytes) & (a->address < b->address));
    return (a->stream < b->stream) | ((a->stream == b->stream) & lower);
}

static struct block_leaf *leaf_at(const struct block_order *order, uint32_t place)
{
    return &order->leaves[order->row[place]];
}

/* The first leaf whose last block is not before `key`, and in it the first block that is not; leaf == count: all are. */
static struct place find(const struct block_order *order, const struct blockalloc_node *nodes,
                         const struct blockalloc_node *key)
{
    struct place place = { 0, 0 };
    for (uint32_t left = order->count; left > 0;) {
        uint32_t half = left / 2;
        const struct block_leaf *leaf = leaf_at(order, place.leaf + half);
        bool beyond = is_before(&nodes[leaf->nodes[leaf->count - 1]], key);
        place.leaf += beyond ? half + 1 : 0;
        left = beyond ? left - half - 1 : half;
    }
    if (place.leaf == order->count) {
        return place;
    }
    const struct block_leaf *leaf = leaf_at(order, place.leaf);
    const uint32_t *from = leaf->nodes;
    for (uint32_t left = leaf->count; left > 1;) { /* the last one is not before it */
        uint32_t half = left / 2;
        from += is_before(&nodes[from[half - 1]], key) ? half : 0;
        left -= half;
    }
    place.at = (uint32_t)(from - leaf->nodes);
    return place;
}

static void put_leaf(struct block_order *order, uint32_t place)
{
    CHECK(order->count < order->capacity);
    uint32_t leaf = order->row[order->count];
    memmove(order->row + place + 1, order->row + place, (order->count - place) * sizeof *order->row);
    order->row[place] = leaf;
    order->leaves[leaf].count = 0;
    order->count++;
}

static void drop_leaf(struct block_order *order, uint32_t place)
{
    uint32_t leaf = order->row[place];
    order->count--;
    memmove(order->row + place, order->row + place + 1, (order->count - place) * sizeof *order->row);
    order->row[order->count] = leaf;
}

/* The second half of a full leaf becomes one of its own. */
static void split_leaf(struct block_order *order, uint32_t place)
{
    put_leaf(order, place + 1);
    struct block_leaf *full = leaf_at(order, place), *upper = leaf_at(order, place + 1);
    upper->count = full->count / 2;
    full->count -= upper->count;
    memcpy(upper->nodes, full->nodes + full->count, upper->count * sizeof *upper->nodes);
}

void block_order_insert(struct block_order *order, const struct blockalloc_node *nodes, uint32_t node)
{
    struct place place = find(order, nodes, &nodes[node]);
    if (order->count == 0) {
        put_leaf(order, 0);
    } else if (place.leaf == order->count) {
        place.leaf--;
        place.at = leaf_at(order, place.leaf)->count;
    }
    struct block_leaf *leaf = leaf_at(order, place.leaf);
    if (leaf->count == BLOCK_LEAF_MAX) {
        split_leaf(order, place.leaf);
        if (place.at > leaf->count) {
            place.at -= leaf->count;
            leaf = leaf_at(order, place.leaf + 1);
        }
    }
    memmove(leaf->nodes + place.at + 1, leaf->nodes + place.at, (leaf->count - place.at) * sizeof *leaf->nodes);
    leaf->nodes[place.at] = node;
    leaf->count++;
}

/* A leaf that has become too small with the one behind it: one. */
static bool join_leaves(struct block_order *order, uint32_t place)
{
    if (place + 1 >= order->count) {
        return false;
    }
    struct block_leaf *leaf = leaf_at(order, place);
    const struct block_leaf *next = leaf_at(order, place + 1);
    if (leaf->count + next->count >= BLOCK_PAIR_MIN) {
        return false;
    }
    memcpy(leaf->nodes + leaf->count, next->nodes, next->count * sizeof *leaf->nodes);
    leaf->count += next->count;
    drop_leaf(order, place + 1);
    return true;
}

static void remove_at(struct block_order *order, struct place place)
{
    struct block_leaf *leaf = leaf_at(order, place.leaf);
    leaf->count--;
    memmove(leaf->nodes + place.at, leaf->nodes + place.at + 1, (leaf->count - place.at) * sizeof *leaf->nodes);
    if (leaf->count == 0) {
        drop_leaf(order, place.leaf); /* its neighbours had BLOCK_PAIR_MIN - 1 each, if it had two */
    } else if (!join_leaves(order, place.leaf) && place.leaf > 0) {
        (void)join_leaves(order, place.leaf - 1);
    }
}

void block_order_remove(struct block_order *order, const struct blockalloc_node *nodes, uint32_t node)
{
    struct place place = find(order, nodes, &nodes[node]);
    CHECK(place.leaf < order->count && leaf_at(order, place.leaf)->nodes[place.at] == node);
    remove_at(order, place);
}

uint32_t block_order_take_best_fit(struct block_order *order, const struct blockalloc_node *nodes, uint32_t stream,
                                   uint64_t bytes)
{
    const struct blockalloc_node least = { .stream = stream, .bytes = bytes };
    struct place place = find(order, nodes, &least);
    if (place.leaf == order->count) {
        return BLOCK_NONE;
    }
    uint32_t node = leaf_at(order, place.leaf)->nodes[place.at];
    if (nodes[node].stream != stream) {
        return BLOCK_NONE;
    }
    remove_at(order, place);
    return node;
}

enum status block_order_reserve(struct block_order *order, size_t nodes, struct error *error)
{
    size_t wanted = nodes / (BLOCK_PAIR_MIN / 2) + 2;
    if (wanted <= order->capacity) {
        return STATUS_OK;
    }
    if (wanted > UINT32_MAX) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: an order of %zu blocks", nodes);
    }
    struct block_leaf *leaves = realloc(order->leaves, wanted * sizeof *leaves);
    order->leaves = leaves != NULL ? leaves : order->leaves;
    uint32_t *row = leaves == NULL ? NULL : realloc(order->row, wanted * sizeof *row);
    if (row == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: an order of %zu blocks", nodes);
    }
    for (uint32_t i = order->capacity; i < wanted; i++) {
        row[i] = i;
    }
    order->row = row;
    order->capacity = (uint32_t)wanted;
    return STATUS_OK;
}

void block_order_free(struct block_order *order)
{
    free(order->leaves);
    free(order->row);
    *order = (struct block_order){ 0 };
}

bool block_order_is_sound(const struct block_order *order, const struct blockalloc_node *nodes, size_t count)
{
    const struct blockalloc_node *before = NULL;
    size_t held = 0;
    for (uint32_t l = 0; l < order->count; l++) {
        const struct block_leaf *leaf = leaf_at(order, l);
        bool small = l + 1 < order->count && leaf->count + leaf_at(order, l + 1)->count < BLOCK_PAIR_MIN;
        if (leaf->count == 0 || leaf->count > BLOCK_LEAF_MAX || small) {
            return false;
        }
        for (uint32_t i = 0; i < leaf->count; i++) {
            const struct blockalloc_node *n = &nodes[leaf->nodes[i]];
            if (n->state != BLOCK_FREE || (before != NULL && !is_before(before, n))) {
                return false;
            }
            before = n;
        }
        held += leaf->count;
    }
    return held == count;
}
