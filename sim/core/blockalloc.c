#include "sim/core/blockalloc.h"

#include <stdlib.h>

#include "sim/base/array.h"
#include "sim/base/check.h"

/* PyTorch's constants, c10/cuda/CUDACachingAllocator (facts/hardware.md C.9): kMinBlockSize, kSmallSize,
 * kSmallBuffer, kLargeBuffer, kMinLargeAlloc, kRoundLarge. */
#define CACHING_GRANULE_BYTES   512u
#define SMALL_BYTES_MAX         (1u << 20)
#define SMALL_SEGMENT_BYTES     (2u << 20)
#define LARGE_SEGMENT_BYTES     (20u << 20)
#define OWN_SEGMENT_BYTES_MIN   (10u << 20)
#define OWN_SEGMENT_ROUND_BYTES (2u << 20)

enum { ORDER_SMALL, ORDER_LARGE, ORDER_NONE };
#define CAPACITY_BYTES_MAX     ((uint64_t)1 << 62)
#define BEST_FIT_GRANULE_BYTES 512u
#define DRY_ADDRESS            ((uint64_t)OWN_SEGMENT_ROUND_BYTES) /* not 0: that means no address */

static uint64_t round_up(uint64_t bytes, uint64_t granule)
{
    return (bytes + granule - 1) & ~(granule - 1);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* -- nodes -- */

static enum status reserve_nodes(struct blockalloc *allocator, size_t count, struct error *error)
{
    TRY(array_reserve(&allocator->nodes, count, error));
    for (int i = 0; i < ORDER_NONE && allocator->config.kind != BLOCKALLOC_EXACT; i++) {
        TRY(block_order_reserve(&allocator->orders[i], allocator->nodes.capacity, error));
    }
    return STATUS_OK;
}

/* reserve_nodes has made sure of it. */
static uint32_t new_node(struct blockalloc *allocator)
{
    uint32_t node = allocator->spare;
    if (node != BLOCK_NONE) {
        allocator->spare = allocator->nodes.items[node].next;
    } else {
        CHECK(allocator->nodes.count < allocator->nodes.capacity);
        node = (uint32_t)allocator->nodes.count++;
    }
    allocator->nodes.items[node] = (struct blockalloc_node){
        .previous = BLOCK_NONE, .next = BLOCK_NONE, .order = ORDER_NONE, .state = BLOCK_LIVE
    };
    return node;
}

static void drop_node(struct blockalloc *allocator, uint32_t node)
{
    allocator->nodes.items[node].state = BLOCK_UNUSED;
    allocator->nodes.items[node].next = allocator->spare;
    allocator->spare = node;
}

static void insert_free(struct blockalloc *allocator, uint32_t node)
{
    struct blockalloc_node *n = &allocator->nodes.items[node];
    n->state = BLOCK_FREE;
    block_order_insert(&allocator->orders[n->order], allocator->nodes.items, node);
}

static void remove_free(struct blockalloc *allocator, uint32_t node)
{
    struct blockalloc_node *n = &allocator->nodes.items[node];
    block_order_remove(&allocator->orders[n->order], allocator->nodes.items, node);
    n->state = BLOCK_LIVE;
}

static bool is_whole_segment(const struct blockalloc_node *n)
{
    return n->previous == BLOCK_NONE && n->next == BLOCK_NONE;
}

/* -- segments -- */

static bool is_wet(const struct blockalloc *allocator)
{
    return allocator->config.backing.map != NULL;
}

/* An address for a new segment; 0 when the backing has no more. */
static uint64_t map(struct blockalloc *allocator, uint64_t bytes)
{
    if (is_wet(allocator)) {
        return allocator->config.backing.map(allocator->config.backing.context, bytes);
    }
    uint64_t address = allocator->base_address;
    allocator->base_address += bytes;
    return address;
}

static void unmap(struct blockalloc *allocator, uint64_t address, uint64_t bytes)
{
    if (is_wet(allocator)) {
        allocator->config.backing.unmap(allocator->config.backing.context, address, bytes);
    }
}

/* A new free segment, not in any order yet; BLOCK_NONE when it does not fit. */
static uint32_t make_segment(struct blockalloc *allocator, uint64_t bytes, uint32_t stream, uint8_t order)
{
    struct blockalloc_stats *stats = &allocator->stats;
    if (bytes > allocator->config.capacity_bytes - stats->reserved_bytes) {
        return BLOCK_NONE;
    }
    uint64_t address = map(allocator, bytes);
    if (address == 0) {
        return BLOCK_NONE;
    }
    uint32_t node = new_node(allocator);
    struct blockalloc_node *n = &allocator->nodes.items[node];
    n->address = address;
    n->bytes = bytes;
    n->stream = stream;
    n->order = order;
    stats->segments++;
    stats->segments_made++;
    stats->reserved_bytes += bytes;
    stats->peak_reserved_bytes = larger(stats->peak_reserved_bytes, stats->reserved_bytes);
    return node;
}

void blockalloc_flush(struct blockalloc *allocator)
{
    if (allocator->config.kind != BLOCKALLOC_CACHING || allocator->idle_segments == 0) {
        return;
    }
    for (uint32_t node = 0; node < allocator->nodes.count; node++) {
        struct blockalloc_node *n = &allocator->nodes.items[node];
        if (n->state == BLOCK_FREE && is_whole_segment(n)) {
            remove_free(allocator, node);
            unmap(allocator, n->address, n->bytes);
            allocator->stats.reserved_bytes -= n->bytes;
            allocator->stats.segments--;
            drop_node(allocator, node);
        }
    }
    allocator->idle_segments = 0;
    allocator->stats.flushes++;
}

/* -- taking and giving back -- */

/* Make `node` (live, not in an order) `bytes` long and put what is left into its order. */
static void split(struct blockalloc *allocator, uint32_t node, uint64_t bytes)
{
    uint32_t rest = new_node(allocator);
    struct blockalloc_node *n = &allocator->nodes.items[node], *r = &allocator->nodes.items[rest];
    r->address = n->address + bytes;
    r->bytes = n->bytes - bytes;
    r->stream = n->stream;
    r->order = n->order;
    r->previous = node;
    r->next = n->next;
    if (n->next != BLOCK_NONE) {
        allocator->nodes.items[n->next].previous = rest;
    } else if (allocator->last == node) {
        allocator->last = rest;
    }
    n->next = rest;
    n->bytes = bytes;
    insert_free(allocator, rest);
}

/* Join `node` with the free block behind it; neither is in an order. */
static void join_next(struct blockalloc *allocator, uint32_t node)
{
    struct blockalloc_node *n = &allocator->nodes.items[node];
    uint32_t gone = n->next;
    const struct blockalloc_node *g = &allocator->nodes.items[gone];
    n->bytes += g->bytes;
    n->next = g->next;
    if (g->next != BLOCK_NONE) {
        allocator->nodes.items[g->next].previous = node;
    } else if (allocator->last == gone) {
        allocator->last = node;
    }
    drop_node(allocator, gone);
}

/* Best fit: reserved is what lies below the end of the highest live block. */
static void measure_reach(struct blockalloc *allocator)
{
    const struct blockalloc_node *last = &allocator->nodes.items[allocator->last];
    uint64_t end = last->state == BLOCK_FREE ? last->address : last->address + last->bytes;
    allocator->stats.reserved_bytes = end - allocator->base_address;
    allocator->stats.peak_reserved_bytes =
        larger(allocator->stats.peak_reserved_bytes, allocator->stats.reserved_bytes);
}

static enum status get_exact(struct blockalloc *allocator, uint64_t bytes, uint32_t *handle)
{
    /* The wet kind maps a segment a block; dry there are no addresses. */
    uint64_t address = is_wet(allocator) ? map(allocator, bytes) : 0;
    if (is_wet(allocator) && address == 0) {
        return STATUS_DOES_NOT_FIT;
    }
    *handle = new_node(allocator);
    allocator->nodes.items[*handle].address = address;
    allocator->nodes.items[*handle].bytes = bytes;
    allocator->stats.reserved_bytes += bytes;
    allocator->stats.peak_reserved_bytes =
        larger(allocator->stats.peak_reserved_bytes, allocator->stats.reserved_bytes);
    return STATUS_OK;
}

static enum status get_best_fit(struct blockalloc *allocator, uint64_t bytes, uint32_t *handle)
{
    bytes = round_up(bytes, allocator->config.granule_bytes);
    uint32_t node = block_order_take_best_fit(&allocator->orders[ORDER_SMALL], allocator->nodes.items, 0, bytes);
    if (node == BLOCK_NONE) {
        return STATUS_DOES_NOT_FIT;
    }
    allocator->nodes.items[node].state = BLOCK_LIVE;
    if (allocator->nodes.items[node].bytes > bytes) {
        split(allocator, node, bytes);
    }
    measure_reach(allocator);
    *handle = node;
    return STATUS_OK;
}

static enum status get_caching(struct blockalloc *allocator, uint64_t bytes, uint32_t stream, uint32_t *handle)
{
    bytes = round_up(bytes, CACHING_GRANULE_BYTES);
    uint8_t order = bytes <= SMALL_BYTES_MAX ? ORDER_SMALL : ORDER_LARGE;
    uint32_t node = block_order_take_best_fit(&allocator->orders[order], allocator->nodes.items, stream, bytes);
    if (node != BLOCK_NONE) {
        allocator->idle_segments -= is_whole_segment(&allocator->nodes.items[node]);
        allocator->nodes.items[node].state = BLOCK_LIVE;
    } else {
        uint64_t segment_bytes = order == ORDER_SMALL            ? SMALL_SEGMENT_BYTES
                                 : bytes < OWN_SEGMENT_BYTES_MIN ? LARGE_SEGMENT_BYTES
                                                                 : round_up(bytes, OWN_SEGMENT_ROUND_BYTES);
        node = make_segment(allocator, segment_bytes, stream, order);
        if (node == BLOCK_NONE) {
            blockalloc_flush(allocator);
            node = make_segment(allocator, segment_bytes, stream, order);
        }
        if (node == BLOCK_NONE) {
            return STATUS_DOES_NOT_FIT;
        }
    }
    uint64_t rest = allocator->nodes.items[node].bytes - bytes;
    if (order == ORDER_SMALL ? rest >= CACHING_GRANULE_BYTES : rest > SMALL_BYTES_MAX) {
        split(allocator, node, bytes);
    }
    *handle = node;
    return STATUS_OK;
}

enum status blockalloc_get(struct blockalloc *allocator, uint64_t bytes, uint32_t stream, uint32_t *handle)
{
    struct blockalloc_stats *stats = &allocator->stats;
    enum status status = STATUS_OK;
    TRY(reserve_nodes(allocator, 2, NULL)); /* a segment and what is split off */
    if (bytes > allocator->config.capacity_bytes - stats->requested_bytes) {
        blockalloc_flush(allocator);
        return STATUS_DOES_NOT_FIT;
    }
    if (bytes == 0) {
        *handle = new_node(allocator);
    } else {
        switch (allocator->config.kind) {
        case BLOCKALLOC_EXACT: status = get_exact(allocator, bytes, handle); break;
        case BLOCKALLOC_BEST_FIT: status = get_best_fit(allocator, bytes, handle); break;
        case BLOCKALLOC_CACHING: status = get_caching(allocator, bytes, stream, handle); break;
        }
    }
    if (status != STATUS_OK) {
        return status;
    }
    struct blockalloc_node *n = &allocator->nodes.items[*handle];
    n->requested_bytes = bytes;
    stats->requested_bytes += bytes;
    stats->allocated_bytes += n->bytes;
    stats->peak_allocated_bytes = larger(stats->peak_allocated_bytes, stats->allocated_bytes);
    stats->blocks++;
    return STATUS_OK;
}

void blockalloc_put(struct blockalloc *allocator, uint32_t handle)
{
    CHECK(handle < allocator->nodes.count && allocator->nodes.items[handle].state == BLOCK_LIVE);
    struct blockalloc_node *nodes = allocator->nodes.items, *n = &nodes[handle];
    allocator->stats.requested_bytes -= n->requested_bytes;
    allocator->stats.allocated_bytes -= n->bytes;
    allocator->stats.blocks--;
    n->requested_bytes = 0;
    if (n->order == ORDER_NONE) { /* exact, or of no bytes */
        if (n->bytes > 0) {
            unmap(allocator, n->address, n->bytes);
        }
        allocator->stats.reserved_bytes -= n->bytes;
        drop_node(allocator, handle);
        return;
    }
    if (n->next != BLOCK_NONE && nodes[n->next].state == BLOCK_FREE) {
        remove_free(allocator, n->next);
        join_next(allocator, handle);
    }
    if (n->previous != BLOCK_NONE && nodes[n->previous].state == BLOCK_FREE) {
        handle = n->previous;
        remove_free(allocator, handle);
        join_next(allocator, handle);
    }
    insert_free(allocator, handle);
    if (allocator->config.kind == BLOCKALLOC_BEST_FIT) {
        measure_reach(allocator);
    } else {
        allocator->idle_segments += is_whole_segment(&nodes[handle]);
    }
}

/* -- life and questions -- */

enum status blockalloc_init(struct blockalloc *allocator, const struct blockalloc_config *config, struct error *error)
{
    *allocator =
        (struct blockalloc){ .config = *config, .spare = BLOCK_NONE, .last = BLOCK_NONE, .base_address = DRY_ADDRESS };
    CHECK(config->capacity_bytes <= CAPACITY_BYTES_MAX);
    CHECK((config->backing.map == NULL) == (config->backing.unmap == NULL));
    if (config->kind != BLOCKALLOC_BEST_FIT) {
        return STATUS_OK;
    }
    uint64_t granule = config->granule_bytes == 0 ? BEST_FIT_GRANULE_BYTES : config->granule_bytes;
    CHECK((granule & (granule - 1)) == 0);
    allocator->config.granule_bytes = granule;
    uint64_t bytes = config->capacity_bytes & ~(granule - 1);
    TRY(reserve_nodes(allocator, 1, error));
    uint32_t space = make_segment(allocator, bytes, 0, ORDER_SMALL);
    if (space == BLOCK_NONE) {
        return error_set(error, STATUS_DOES_NOT_FIT, "no memory for a space of %llu bytes", (unsigned long long)bytes);
    }
    allocator->last = space;
    allocator->base_address = allocator->nodes.items[space].address;
    allocator->stats = (struct blockalloc_stats){ .segments = 1, .segments_made = 1 };
    insert_free(allocator, space);
    return STATUS_OK;
}

void blockalloc_destroy(struct blockalloc *allocator)
{
    for (uint32_t node = 0; node < allocator->nodes.count && is_wet(allocator); node++) {
        const struct blockalloc_node *n = &allocator->nodes.items[node];
        if (n->state == BLOCK_UNUSED || n->previous != BLOCK_NONE || n->address == 0) {
            continue; /* not the head of a segment */
        }
        uint64_t bytes = n->bytes;
        for (uint32_t at = n->next; at != BLOCK_NONE; at = allocator->nodes.items[at].next) {
            bytes += allocator->nodes.items[at].bytes;
        }
        unmap(allocator, n->address, bytes);
    }
    for (int i = 0; i < ORDER_NONE; i++) {
        block_order_free(&allocator->orders[i]);
    }
    array_free(&allocator->nodes);
    *allocator = (struct blockalloc){ 0 };
}

uint64_t blockalloc_address(const struct blockalloc *allocator, uint32_t handle)
{
    CHECK(handle < allocator->nodes.count && allocator->nodes.items[handle].state == BLOCK_LIVE);
    return allocator->nodes.items[handle].address;
}

uint64_t blockalloc_bytes(const struct blockalloc *allocator, uint32_t handle)
{
    CHECK(handle < allocator->nodes.count && allocator->nodes.items[handle].state == BLOCK_LIVE);
    return allocator->nodes.items[handle].bytes;
}

bool blockalloc_is_sound(const struct blockalloc *allocator)
{
    const struct blockalloc_node *nodes = allocator->nodes.items;
    const struct blockalloc_stats *stats = &allocator->stats;
    uint64_t live_bytes = 0, requested_bytes = 0, total_bytes = 0, blocks = 0, segments = 0, idle = 0;
    size_t free_blocks[ORDER_NONE] = { 0 };
    for (uint32_t node = 0; node < allocator->nodes.count; node++) {
        const struct blockalloc_node *n = &nodes[node];
        if (n->state == BLOCK_UNUSED) {
            continue;
        }
        total_bytes += n->bytes;
        segments += n->order != ORDER_NONE && n->previous == BLOCK_NONE;
        if (n->next != BLOCK_NONE) {
            const struct blockalloc_node *next = &nodes[n->next];
            bool both_free = n->state == BLOCK_FREE && next->state == BLOCK_FREE;
            if (next->previous != node || next->address != n->address + n->bytes || both_free ||
                next->order != n->order) {
                return false;
            }
        }
        if (n->state == BLOCK_LIVE) {
            blocks++;
            live_bytes += n->bytes;
            requested_bytes += n->requested_bytes;
        } else {
            free_blocks[n->order]++;
            idle += is_whole_segment(n);
        }
    }
    for (int i = 0; i < ORDER_NONE; i++) {
        if (!block_order_is_sound(&allocator->orders[i], nodes, free_blocks[i])) {
            return false;
        }
    }
    bool sums =
        blocks == stats->blocks && live_bytes == stats->allocated_bytes && requested_bytes == stats->requested_bytes;
    switch (allocator->config.kind) {
    case BLOCKALLOC_EXACT: return sums && stats->reserved_bytes == total_bytes;
    case BLOCKALLOC_BEST_FIT: return sums && segments == 1 && stats->reserved_bytes <= total_bytes;
    case BLOCKALLOC_CACHING:
        return sums && segments == stats->segments && stats->reserved_bytes == total_bytes &&
               idle == allocator->idle_segments;
    }
    return false;
}
