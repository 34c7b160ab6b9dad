/* Block allocators as models and as machines: where does a block go, how much is reserved, what is lost to rounding
 * and splitting.
 *
 *   BLOCKALLOC_EXACT     counts bytes; whatever is free fits. The lower bound. Wet: one segment a block.
 *   BLOCKALLOC_BEST_FIT  one address space of capacity_bytes; the smallest free block that fits, the lowest address
 *                        among equals; neighbours coalesce.
 *   BLOCKALLOC_CACHING   as PyTorch's CUDA caching allocator (constants of CUDACachingAllocator.cpp): requests rounded to 512 B; up
 *                        to 1 MiB served from 2 MiB segments, below 10 MiB from 20 MiB segments, larger ones from a
 *                        segment of their own, rounded to 2 MiB; best fit among the free blocks of the same stream;
 *                        what is left is split off if it is at least 512 B (small) or more than 1 MiB (large); free
 *                        neighbours in a segment coalesce; segments are kept until the capacity is exhausted: then
 *                        all that are wholly free are given back, and the request is tried once more.
 *
 * The same code runs dry (backing NULL: addresses are made up) and wet (segments come from and go back to the
 * backing). One call is O(log n); memory for nodes grows by doubling and is never needed by free. Deterministic:
 * addresses are compared only inside the allocator's own order, and dry addresses depend on the calls alone. */
#ifndef MEMWALL_CORE_BLOCKALLOC_H
#define MEMWALL_CORE_BLOCKALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/status.h"
#include "sim/core/block_order.h"

enum blockalloc_kind { BLOCKALLOC_EXACT, BLOCKALLOC_BEST_FIT, BLOCKALLOC_CACHING };

/* Real memory for a wet allocator. Both required. */
struct blockalloc_backing {
    void *context;
    /* `bytes` of fresh memory; 0 when there is none. Blocks are addressed within [address, address + bytes). */
    uint64_t (*map)(void *context, uint64_t bytes);
    void (*unmap)(void *context, uint64_t address, uint64_t bytes);
};

struct blockalloc_config {
    enum blockalloc_kind kind;
    uint64_t capacity_bytes;           /* all segments together; at most 2^62 */
    uint64_t granule_bytes;            /* best fit: requests are rounded up to it; a power of two; 0 means 512 */
    struct blockalloc_backing backing; /* map NULL: dry */
};

struct blockalloc_stats {
    uint64_t requested_bytes;                       /* as asked, of live blocks */
    uint64_t allocated_bytes, peak_allocated_bytes; /* live blocks after rounding and splitting */
    /* Exact: as allocated. Best fit: up to the end of the highest live block. Caching: all segments. */
    uint64_t reserved_bytes, peak_reserved_bytes;
    uint64_t blocks;                           /* live */
    uint64_t segments, segments_made, flushes; /* caching: now, ever, times the cache was given back */
};

struct blockalloc {
    struct blockalloc_config config;
    struct blockalloc_stats stats;
    /* -- private -- */
    struct {
        struct blockalloc_node *items;
        size_t count, capacity;
    } nodes;
    struct block_order orders[2]; /* of free blocks: small or the only one, large */
    uint32_t spare;               /* list of unused nodes */
    uint32_t last;                /* best fit: the block of the highest address */
    uint32_t idle_segments;       /* caching: wholly free ones */
    uint64_t base_address;        /* best fit: where its space begins; dry: where the next segment is put */
};

/* STATUS_NO_MEMORY; wet best fit maps its capacity here and STATUS_DOES_NOT_FIT says that the backing refused. Free
 * with blockalloc_destroy also after an error. */
enum status blockalloc_init(struct blockalloc *allocator, const struct blockalloc_config *config, struct error *error);
/* Unmaps all segments, whatever is live in them. Zeroed structs are fine. */
void blockalloc_destroy(struct blockalloc *allocator);

/* A block of at least `bytes` for `stream` (caching only; others ignore it), into *handle. STATUS_DOES_NOT_FIT is a
 * normal outcome that leaves all blocks as they were (a caching allocator has flushed its cache); STATUS_NO_MEMORY
 * when the model itself is out of memory. bytes == 0 takes no room. */
enum status blockalloc_get(struct blockalloc *allocator, uint64_t bytes, uint32_t stream, uint32_t *handle);
/* Give a live block back. Never fails. */
void blockalloc_put(struct blockalloc *allocator, uint32_t handle);

/* Of a live block. Address 0 for a dry exact one and for zero bytes. */
uint64_t blockalloc_address(const struct blockalloc *allocator, uint32_t handle);
uint64_t blockalloc_bytes(const struct blockalloc *allocator, uint32_t handle); /* after rounding and splitting */
/* Give all wholly free segments back, as when the capacity is exhausted; caching only, else nothing happens. */
void blockalloc_flush(struct blockalloc *allocator);
/* Whether every structural invariant holds: for tests; O(n). */
bool blockalloc_is_sound(const struct blockalloc *allocator);

#endif
