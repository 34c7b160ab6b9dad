/* The block allocators against plain lists that are searched from end to end: same addresses, same sizes, same
 * figures. Half of the rounds run wet, on a backing that keeps its own books and sometimes refuses. */
#include "sim/core/blockalloc.h"
#include "tests/fuzz/fuzz.h"

enum { BLOCKS_MAX = 4000, LIVE_MAX = 200 };

/* All blocks of the twin, live and free, in order of address; neighbours of one segment follow each other. */
struct twin_block {
    uint64_t address, bytes, segment;
    uint32_t stream;
    bool is_live, is_small;
};

static struct twin {
    struct twin_block blocks[BLOCKS_MAX];
    unsigned count;
    uint64_t next_address, reserved, allocated, requested, peak_reserved, peak_allocated;
} twin;

static uint64_t up(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

static void twin_insert(unsigned at, struct twin_block block)
{
    memmove(&twin.blocks[at + 1], &twin.blocks[at], (twin.count - at) * sizeof block);
    twin.blocks[at] = block;
    twin.count++;
}

static void twin_erase(unsigned at)
{
    memmove(&twin.blocks[at], &twin.blocks[at + 1], (twin.count - at - 1) * sizeof twin.blocks[0]);
    twin.count--;
}

static bool twin_same(unsigned a, unsigned b)
{
    return twin.blocks[a].segment == twin.blocks[b].segment;
}

static void twin_flush(void)
{
    for (unsigned i = twin.count; i-- > 0;) {
        bool alone = (i == 0 || !twin_same(i, i - 1)) && (i + 1 == twin.count || !twin_same(i, i + 1));
        if (alone && !twin.blocks[i].is_live) {
            twin.reserved -= twin.blocks[i].bytes;
            twin_erase(i);
        }
    }
}

static int twin_find(uint64_t bytes, uint32_t stream, bool is_small)
{
    int best = -1;
    for (unsigned i = 0; i < twin.count; i++) {
        const struct twin_block *b = &twin.blocks[i];
        if (!b->is_live && b->bytes >= bytes && b->stream == stream && b->is_small == is_small &&
            (best < 0 || b->bytes < twin.blocks[best].bytes)) {
            best = (int)i;
        }
    }
    return best;
}

/* Index of the block, or -1. */
static int twin_get(const struct blockalloc_config *config, uint64_t bytes, uint32_t stream)
{
    bool caching = config->kind == BLOCKALLOC_CACHING;
    uint64_t rounded = up(bytes, caching || config->granule_bytes == 0 ? 512 : config->granule_bytes);
    bool is_small = caching && rounded <= 1048576;
    int found = twin_find(rounded, caching ? stream : 0, is_small);
    if (found < 0 && caching) {
        uint64_t segment = is_small ? 2097152 : rounded < 10485760 ? 20971520 : up(rounded, 2097152);
        if (twin.reserved + segment > config->capacity_bytes) {
            twin_flush();
        }
        if (twin.reserved + segment <= config->capacity_bytes) {
            found = (int)twin.count;
            twin_insert(twin.count,
                        (struct twin_block){ twin.next_address, segment, twin.next_address, stream, false, is_small });
            twin.next_address += segment;
            twin.reserved += segment;
        }
    }
    if (found < 0) {
        return -1;
    }
    struct twin_block *b = &twin.blocks[found];
    uint64_t rest = b->bytes - rounded;
    if (caching ? (is_small ? rest >= 512 : rest > 1048576) : rest > 0) {
        struct twin_block after = *b;
        after.address += rounded;
        after.bytes = rest;
        b->bytes = rounded;
        twin_insert((unsigned)found + 1, after);
    }
    twin.blocks[found].is_live = true;
    twin.allocated += twin.blocks[found].bytes;
    return found;
}

static void twin_put(uint64_t address)
{
    unsigned i = 0;
    while (twin.blocks[i].address != address) {
        i++;
    }
    twin.blocks[i].is_live = false;
    twin.allocated -= twin.blocks[i].bytes;
    if (i + 1 < twin.count && twin_same(i, i + 1) && !twin.blocks[i + 1].is_live) {
        twin.blocks[i].bytes += twin.blocks[i + 1].bytes;
        twin_erase(i + 1);
    }
    if (i > 0 && twin_same(i, i - 1) && !twin.blocks[i - 1].is_live) {
        twin.blocks[i - 1].bytes += twin.blocks[i].bytes;
        twin_erase(i);
    }
}

/* The backing hands out the addresses that the dry allocator makes up, and checks that it gets back what it gave. */
struct backing {
    uint64_t next_address, mapped_bytes;
    unsigned mapped;
};

static uint64_t backing_map(void *context, uint64_t bytes)
{
    struct backing *backing = context;
    uint64_t address = backing->next_address;
    backing->next_address += bytes;
    backing->mapped_bytes += bytes;
    backing->mapped++;
    return address;
}

static void backing_unmap(void *context, uint64_t address, uint64_t bytes)
{
    struct backing *backing = context;
    EXPECT(address != 0 && backing->mapped > 0 && backing->mapped_bytes >= bytes);
    backing->mapped_bytes -= bytes;
    backing->mapped--;
}

static uint64_t random_bytes(uint64_t *random)
{
    static const uint64_t edges[] = { 511,     512,      513,      1048064,  1048576, 1048577,
                                      2097152, 10485759, 10485760, 10485761, 20971520 };
    switch (test_below(random, 5)) {
    case 0: return edges[test_below(random, sizeof edges / sizeof edges[0])];
    case 1: return 1 + test_below(random, 4096);
    case 2: return 1 + test_below(random, 2u << 20);
    case 3: return 1 + test_below(random, 12u << 20);
    default: return 1 + test_below(random, 64u << 20);
    }
}

static void check_figures(const struct blockalloc *allocator, enum blockalloc_kind kind)
{
    const struct blockalloc_stats *stats = &allocator->stats;
    if (kind == BLOCKALLOC_BEST_FIT) {
        const struct twin_block *last = &twin.blocks[twin.count - 1];
        twin.reserved = (last->is_live ? last->address + last->bytes : last->address) - twin.blocks[0].address;
    }
    twin.peak_reserved = twin.reserved > twin.peak_reserved ? twin.reserved : twin.peak_reserved;
    twin.peak_allocated = twin.allocated > twin.peak_allocated ? twin.allocated : twin.peak_allocated;
    EXPECT_INT(stats->allocated_bytes, twin.allocated);
    EXPECT_INT(stats->requested_bytes, twin.requested);
    EXPECT_INT(stats->reserved_bytes, twin.reserved);
    EXPECT_INT(stats->peak_allocated_bytes, twin.peak_allocated);
    EXPECT_INT(stats->peak_reserved_bytes, twin.peak_reserved);
}

static void round_of(uint64_t seed)
{
    uint64_t random = seed;
    struct backing backing = { .next_address = 2097152 };
    bool wet = test_below(&random, 2) == 0;
    struct blockalloc_config config = {
        .kind = test_below(&random, 3) == 0 ? BLOCKALLOC_BEST_FIT : BLOCKALLOC_CACHING,
        .capacity_bytes = (16u << 20) + test_below(&random, 600u << 20),
        .granule_bytes = test_below(&random, 2) == 0 ? 0 : (uint64_t)1 << test_below(&random, 12),
    };
    if (wet) {
        config.backing = (struct blockalloc_backing){ &backing, backing_map, backing_unmap };
    }
    struct blockalloc allocator;
    struct {
        uint32_t handle;
        uint64_t address, requested;
    } live[LIVE_MAX];
    unsigned live_count = 0;
    uint64_t streams = 1 + test_below(&random, 3), fill = 2 + test_below(&random, 6);
    memset(&twin, 0, sizeof twin);
    twin.next_address = 2097152;
    EXPECT_INT(blockalloc_init(&allocator, &config, NULL), STATUS_OK);
    if (config.kind == BLOCKALLOC_BEST_FIT) {
        uint64_t granule = config.granule_bytes == 0 ? 512 : config.granule_bytes;
        twin_insert(
            0, (struct twin_block){ twin.next_address, config.capacity_bytes / granule * granule, 0, 0, false, false });
    }
    for (unsigned step = 0; step < 800 && test_failures == 0; step++) {
        if (test_below(&random, fill) != 0 && live_count < LIVE_MAX) {
            uint64_t bytes = random_bytes(&random);
            uint32_t stream = (uint32_t)test_below(&random, streams), handle = 0;
            int expected = twin_get(&config, bytes, stream);
            enum status status = blockalloc_get(&allocator, bytes, stream, &handle);
            EXPECT_INT(status, expected < 0 ? STATUS_DOES_NOT_FIT : STATUS_OK);
            if (expected >= 0 && status == STATUS_OK) {
                EXPECT_INT(blockalloc_address(&allocator, handle), twin.blocks[expected].address);
                EXPECT_INT(blockalloc_bytes(&allocator, handle), twin.blocks[expected].bytes);
                live[live_count].handle = handle;
                live[live_count].address = twin.blocks[expected].address;
                live[live_count++].requested = bytes;
                twin.requested += bytes;
            }
        } else if (live_count > 0) {
            unsigned which = (unsigned)test_below(&random, live_count);
            blockalloc_put(&allocator, live[which].handle);
            twin_put(live[which].address);
            twin.requested -= live[which].requested;
            live[which] = live[--live_count];
        } else if (config.kind == BLOCKALLOC_CACHING && test_below(&random, 10) == 0) {
            blockalloc_flush(&allocator);
            twin_flush();
        }
        check_figures(&allocator, config.kind);
        EXPECT(step % 16 != 0 || blockalloc_is_sound(&allocator));
        EXPECT(!wet || config.kind == BLOCKALLOC_BEST_FIT || backing.mapped_bytes == allocator.stats.reserved_bytes);
    }
    blockalloc_destroy(&allocator);
    EXPECT_INT(backing.mapped, 0);
    EXPECT_INT(backing.mapped_bytes, 0);
}

int main(int argc, char **argv)
{
    return fuzz_run(round_of, argc, argv);
}
