#include "sim/core/block_order.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"

/* Where a block is or would be. */
struct place {
    uint32_t leaf, at; /* in row; in the leaf */
};

/* Whether a comes before b. */
static inline bool is_before(const struct blockalloc_node *a, const struct blockalloc_node *b)
{
    if (a->stream != b->stream) {
        return a->stream < b->stream;
    }
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
}

static struct block_leaf *leaf_at(const struct block_order *order, uint32_t place)
{
    return &order->leaves[order->row[place]];
}

/* Behind all blocks that are before `key`: in the last leaf that begins with one, or in the first. There must be a leaf. */
static struct place find(const struct block_order *order, const struct blockalloc_node *nodes,
                         const struct blockalloc_node *key)
{
    uint32_t place = 0, place_end = order->count;
    while (place_end - place > 1) {
        uint32_t middle = place + (place_end - place) / 2;
        if (is_before(&nodes[leaf_at(order, middle)->nodes[0]], key)) {
            place = middle;
        } else {
            place_end = middle;
        }
    }
    const struct block_leaf *leaf = leaf_at(order, place);
    uint32_t at = 0, end = leaf->count;
    while (at < end) {
        uint32_t middle = at + (end - at) / 2;
        if (is_before(&nodes[leaf->nodes[middle]], key)) {
            at = middle + 1;
        } else {
            end = middle;
        }
    }
    return (struct place){ place, at };
}

/* The first block that is not before `key`; BLOCK_NONE: all are. */
static uint32_t find_block(const struct block_order *order, const struct blockalloc_node *nodes,
                           const struct blockalloc_node *key, struct place *place)
{
    *place = (struct place){ 0, 0 };
    if (order->count == 0) {
        return BLOCK_NONE;
    }
    *place = find(order, nodes, key);
    if (place->at == leaf_at(order, place->leaf)->count) {
        *place = (struct place){ place->leaf + 1, 0 };
    }
    return place->leaf == order->count ? BLOCK_NONE : leaf_at(order, place->leaf)->nodes[place->at];
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
    struct place place = { 0, 0 };
    if (order->count == 0) {
        put_leaf(order, 0);
    } else {
        place = find(order, nodes, &nodes[node]);
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
    struct place place;
    CHECK(find_block(order, nodes, &nodes[node], &place) == node);
    remove_at(order, place);
}

uint32_t block_order_take_best_fit(struct block_order *order, const struct blockalloc_node *nodes, uint32_t stream,
                                   uint64_t bytes)
{
    const struct blockalloc_node least = { .stream = stream, .bytes = bytes };
    struct place place;
    uint32_t node = find_block(order, nodes, &least, &place);
    if (node == BLOCK_NONE || nodes[node].stream != stream) {
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
