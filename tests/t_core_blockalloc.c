#include "sim/core/blockalloc.h"
#include "tests/test.h"

#define KIB  ((uint64_t)1 << 10)
#define MIB_ ((uint64_t)1 << 20)

static struct blockalloc allocator;

static void start(enum blockalloc_kind kind, uint64_t capacity_bytes)
{
    struct blockalloc_config config = { .kind = kind, .capacity_bytes = capacity_bytes };
    EXPECT_INT(blockalloc_init(&allocator, &config, NULL), STATUS_OK);
}

static uint32_t get(uint64_t bytes, uint32_t stream)
{
    uint32_t handle = UINT32_MAX;
    EXPECT_INT(blockalloc_get(&allocator, bytes, stream, &handle), STATUS_OK);
    return handle;
}

static void stop(void)
{
    EXPECT(blockalloc_is_sound(&allocator));
    blockalloc_destroy(&allocator);
}

static void test_exact(void)
{
    uint32_t handle;
    start(BLOCKALLOC_EXACT, 1000);
    uint32_t a = get(600, 0), b = get(400, 7), none = get(0, 0);
    EXPECT_INT(blockalloc_get(&allocator, 1, 0, &handle), STATUS_DOES_NOT_FIT);
    EXPECT_INT(allocator.stats.reserved_bytes, 1000);
    blockalloc_put(&allocator, a);
    blockalloc_put(&allocator, none);
    EXPECT_INT(allocator.stats.allocated_bytes, 400);
    EXPECT_INT(allocator.stats.peak_allocated_bytes, 1000);
    EXPECT_INT(blockalloc_get(&allocator, UINT64_MAX, 0, &handle), STATUS_DOES_NOT_FIT);
    EXPECT_INT(blockalloc_bytes(&allocator, b), 400);
    stop();
}

static void test_best_fit_coalesces(void)
{
    start(BLOCKALLOC_BEST_FIT, 10 * KIB);
    uint32_t a = get(1 * KIB, 0), b = get(2 * KIB, 0), c = get(1 * KIB, 0), d = get(1 * KIB + 1, 0), handle;
    EXPECT_INT(blockalloc_bytes(&allocator, d), 1536);
    EXPECT_INT(allocator.stats.reserved_bytes, 5632);
    uint64_t first = blockalloc_address(&allocator, a);
    blockalloc_put(&allocator, b);
    EXPECT_INT(blockalloc_get(&allocator, 5 * KIB, 0, &handle), STATUS_DOES_NOT_FIT); /* 4.5 KiB behind d, 2 before c */
    uint32_t small = get(1 * KIB, 0);
    EXPECT_INT(blockalloc_address(&allocator, small) - first, 1 * KIB); /* the tighter hole */
    blockalloc_put(&allocator, small);
    blockalloc_put(&allocator, d);
    EXPECT_INT(allocator.stats.reserved_bytes, 4 * KIB);
    blockalloc_put(&allocator, a);
    blockalloc_put(&allocator, c);
    EXPECT_INT(allocator.stats.reserved_bytes, 0);
    uint32_t all = get(10 * KIB, 0);
    EXPECT_INT(blockalloc_address(&allocator, all), first);
    EXPECT_INT(allocator.stats.peak_reserved_bytes, 10 * KIB);
    stop();
}

/* facts/hardware.md C.9, rule by rule. */
static void test_caching_segments(void)
{
    start(BLOCKALLOC_CACHING, 1000 * MIB_);
    uint32_t tiny = get(1, 0);
    EXPECT_INT(blockalloc_bytes(&allocator, tiny), 512);
    EXPECT_INT(allocator.stats.reserved_bytes, 2 * MIB_);
    uint32_t edge = get(1 * MIB_, 0); /* the largest small one, still from that segment */
    EXPECT_INT(allocator.stats.reserved_bytes, 2 * MIB_);
    (void)get(1 * MIB_ + 1, 0);
    EXPECT_INT(allocator.stats.reserved_bytes, 22 * MIB_);
    (void)get(10 * MIB_ - 1, 0); /* from the same 20 MiB */
    EXPECT_INT(allocator.stats.reserved_bytes, 22 * MIB_);
    uint32_t own = get(10 * MIB_, 0); /* does not fit there: its own */
    EXPECT_INT(allocator.stats.reserved_bytes, 32 * MIB_);
    uint32_t odd = get(11 * MIB_, 0); /* rounded to 12; the spare 1 MiB is not split off */
    EXPECT_INT(allocator.stats.reserved_bytes, 44 * MIB_);
    EXPECT_INT(blockalloc_bytes(&allocator, odd), 12 * MIB_);
    EXPECT_INT(blockalloc_bytes(&allocator, own), 10 * MIB_);
    blockalloc_put(&allocator, odd);
    uint32_t part = get(10 * MIB_, 0); /* 2 MiB stay over: split */
    EXPECT_INT(blockalloc_bytes(&allocator, part), 10 * MIB_);
    EXPECT_INT(allocator.stats.reserved_bytes, 44 * MIB_);
    uint32_t other = get(2 * MIB_, 1); /* another stream may not have it */
    EXPECT_INT(allocator.stats.reserved_bytes, 64 * MIB_);
    EXPECT_INT(allocator.stats.segments, 5);
    blockalloc_put(&allocator, edge);
    blockalloc_put(&allocator, tiny);
    blockalloc_put(&allocator, other);
    EXPECT_INT(allocator.stats.reserved_bytes, 64 * MIB_); /* kept */
    blockalloc_flush(&allocator);
    EXPECT_INT(allocator.stats.reserved_bytes, 42 * MIB_);
    EXPECT_INT(allocator.stats.peak_reserved_bytes, 64 * MIB_);
    stop();
}

static void test_caching_flushes_when_full(void)
{
    uint32_t handle;
    start(BLOCKALLOC_CACHING, 100 * MIB_);
    uint32_t a = get(40 * MIB_, 0), b = get(40 * MIB_, 0);
    blockalloc_put(&allocator, a);
    blockalloc_put(&allocator, b);
    uint32_t c = get(50 * MIB_, 0); /* neither fits: both are given back first */
    EXPECT_INT(allocator.stats.flushes, 1);
    EXPECT_INT(allocator.stats.reserved_bytes, 50 * MIB_);
    EXPECT_INT(blockalloc_get(&allocator, 51 * MIB_, 0, &handle), STATUS_DOES_NOT_FIT);
    EXPECT_INT(allocator.stats.reserved_bytes, 50 * MIB_);
    blockalloc_put(&allocator, c);
    EXPECT_INT(blockalloc_get(&allocator, 101 * MIB_, 0, &handle), STATUS_DOES_NOT_FIT);
    stop();
}

/* Real memory behind it: everything that was mapped is unmapped. */
static uint64_t map_heap(void *context, uint64_t bytes)
{
    *(int64_t *)context += (int64_t)bytes;
    return (uint64_t)(uintptr_t)malloc(bytes);
}

static void unmap_heap(void *context, uint64_t address, uint64_t bytes)
{
    *(int64_t *)context -= (int64_t)bytes;
    free((void *)(uintptr_t)address);
}

static uint64_t map_nothing(void *context, uint64_t bytes)
{
    (void)context;
    (void)bytes;
    return 0;
}

static void test_wet(void)
{
    static const enum blockalloc_kind kinds[] = { BLOCKALLOC_EXACT, BLOCKALLOC_BEST_FIT, BLOCKALLOC_CACHING };
    for (unsigned k = 0; k < 3; k++) {
        int64_t mapped = 0;
        struct blockalloc_config config = { .kind = kinds[k],
                                            .capacity_bytes = 40 * MIB_,
                                            .backing = { &mapped, map_heap, unmap_heap } };
        struct error error = { 0 };
        EXPECT_INT(blockalloc_init(&allocator, &config, &error), STATUS_OK);
        uint32_t blocks[20];
        for (unsigned i = 0; i < 20; i++) {
            blocks[i] = get(1000 * (i + 1), 0);
            memset((void *)(uintptr_t)blockalloc_address(&allocator, blocks[i]), (int)i, 1000 * (i + 1));
        }
        for (unsigned i = 0; i < 20; i++) { /* nobody wrote over another */
            const unsigned char *memory = (const unsigned char *)(uintptr_t)blockalloc_address(&allocator, blocks[i]);
            EXPECT_INT(memory[0], i);
            EXPECT_INT(memory[1000 * (i + 1) - 1], i);
        }
        for (unsigned i = 0; i < 20; i += 2) {
            blockalloc_put(&allocator, blocks[i]);
        }
        stop();
        EXPECT_INT(mapped, 0);
        config.backing.map = map_nothing;
        enum status status = blockalloc_init(&allocator, &config, &error);
        uint32_t handle;
        EXPECT_INT(status, kinds[k] == BLOCKALLOC_BEST_FIT ? STATUS_DOES_NOT_FIT : STATUS_OK);
        EXPECT(status != STATUS_OK || blockalloc_get(&allocator, 1, 0, &handle) == STATUS_DOES_NOT_FIT);
        blockalloc_destroy(&allocator);
    }
}

TEST_MAIN(TEST(test_exact), TEST(test_best_fit_coalesces), TEST(test_caching_segments),
          TEST(test_caching_flushes_when_full), TEST(test_wet))
