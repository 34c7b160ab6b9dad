/* Real memory behind the spaces of a schedule: books, addresses, refusals, steps. */
#include "tests/engine_run.h"
#include "tests/schedule_gen.h"
#include "validate/dispatch/wet_pools.h"

enum { SPACE_LIMIT = 10000 };

struct memory {
    uint64_t bytes, blocks, peak_bytes, refuse_above; /* 0: never */
};

static uint64_t map(void *context, uint64_t bytes)
{
    struct memory *m = context;
    if (m->refuse_above != 0 && m->bytes + bytes > m->refuse_above) {
        return 0;
    }
    m->bytes += bytes;
    m->blocks++;
    m->peak_bytes = m->bytes > m->peak_bytes ? m->bytes : m->peak_bytes;
    return (uint64_t)(uintptr_t)malloc(bytes);
}

static void unmap(void *context, uint64_t address, uint64_t bytes)
{
    struct memory *m = context;
    m->bytes -= bytes;
    m->blocks--;
    free((void *)(uintptr_t)address);
}

enum { HOST, PINNED, DEVICE, SPACES };
enum { WEIGHTS, COPIES, LARGE, SMALL, STAGING, CONTEXT, TOUCHED_CONTEXT, BORN, EMPTY, BUFFERS };

/* One of everything. The two ops only read, so that runtime buffers are touched or not. */
static void make_schedule(struct schedule *schedule, uint64_t device_bytes)
{
    static const struct {
        uint64_t bytes;
        uint32_t space, copies;
        enum buffer_class class;
        uint8_t flags;
    } made[BUFFERS] = {
        [WEIGHTS] = { 1000, DEVICE, 1, BUFFER_WEIGHT, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END },
        [COPIES] = { 100, HOST, 3, BUFFER_OPTIMIZER, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END },
        [LARGE] = { 4000, DEVICE, 1, BUFFER_ACTIVATION, 0 },
        [SMALL] = { 500, DEVICE, 1, BUFFER_ACTIVATION, 0 },
        [STAGING] = { 700, PINNED, 1, BUFFER_COMMUNICATION, 0 },
        [CONTEXT] = { 300, DEVICE, 1, BUFFER_RUNTIME, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END },
        [TOUCHED_CONTEXT] = { 200, DEVICE, 1, BUFFER_RUNTIME, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END },
        [BORN] = { 600, DEVICE, 1, BUFFER_WEIGHT, BUFFER_LIVE_AT_END },
        [EMPTY] = { 0, DEVICE, 1, BUFFER_WEIGHT, 0 },
    };
    struct builder *b = builder_new();
    uint32_t device = 0;
    (void)builder_space(b, SPACE_HOST, 0, (uint64_t)64 << 20, SCHED_NONE, "host memory");
    (void)builder_space(b, SPACE_PINNED, 0, UINT64_MAX, HOST, "pinned");
    (void)builder_space(b, SPACE_DEVICE, 0, device_bytes, SCHED_NONE, "gpu 0");
    for (uint32_t i = 0; i < BUFFERS; i++) {
        (void)builder_buffer(b, made[i].space, made[i].bytes, made[i].copies, made[i].class, made[i].flags,
                             builder_label_format(b, "buffer %u", i));
    }
    builder_rank(b, &device, 1, SCHED_NONE, "stage 0");
    (void)builder_op(b, OP_DELAY, builder_queue(b, QUEUE_COMPUTE, "compute"), builder_work_fixed(b, 1), PHASE_OTHER);
    builder_read(b, TOUCHED_CONTEXT);
    (void)finish_builder(b, schedule);
}

static enum status make(struct wet_pools **pools, const struct schedule *s, enum blockalloc_kind kind,
                        struct memory *memory, struct error *error)
{
    struct wet_space spaces[SPACES];
    for (uint32_t i = 0; i < SPACES; i++) {
        spaces[i] = (struct wet_space){ kind, { memory, map, unmap } };
    }
    return wet_pools_new(pools, s, spaces, error);
}

static bool acquire(struct wet_pools *pools, uint32_t buffer, struct pool_shortage *shortage)
{
    return wet_pools_acquire(pools, &buffer, 1, 0, shortage);
}

static void test_books(void)
{
    struct schedule s;
    struct memory memory = { 0 };
    struct wet_pools *pools = NULL;
    struct pool_shortage shortage = { 0 };
    make_schedule(&s, SPACE_LIMIT);
    EXPECT_INT(make(&pools, &s, BLOCKALLOC_EXACT, &memory, NULL), STATUS_OK);
    EXPECT_INT(memory.bytes, 1000 + 300 + 200); /* all copies; of the runtime only what ops touch */
    EXPECT_INT(wet_pools_overfull(pools, NULL), SCHED_NONE);
    EXPECT_INT(wet_pools_peak_reserved(pools, DEVICE), 1500);
    EXPECT_INT(wet_pools_peak_reserved(pools, HOST), 300);
    EXPECT(wet_pools_address(pools, WEIGHTS) != NULL && wet_pools_address(pools, TOUCHED_CONTEXT) != NULL);
    EXPECT(wet_pools_address(pools, CONTEXT) == NULL && wet_pools_is_live(pools, CONTEXT));
    EXPECT(!wet_pools_is_live(pools, LARGE));
    memset(wet_pools_address(pools, COPIES), 1, 300);

    const uint32_t both[] = { LARGE, STAGING };
    EXPECT(wet_pools_acquire(pools, both, 2, 0, &shortage));
    EXPECT_INT(memory.bytes, 1500 + 4700);
    EXPECT_INT(wet_pools_peak_reserved(pools, DEVICE), 5500);
    EXPECT_INT(wet_pools_peak_reserved(pools, PINNED), 700);
    EXPECT_INT(wet_pools_peak_reserved(pools, HOST), 1000); /* what is pinned is host memory */
    memset(wet_pools_address(pools, LARGE), 2, 4000);
    EXPECT_INT(((unsigned char *)wet_pools_address(pools, COPIES))[299], 1);
    wet_pools_release(pools, both, 2);
    EXPECT_INT(memory.bytes, 1500);
    EXPECT_INT(wet_pools_peak_reserved(pools, HOST), 1000);
    EXPECT(acquire(pools, EMPTY, NULL));
    EXPECT(wet_pools_is_live(pools, EMPTY) && wet_pools_address(pools, EMPTY) == NULL);
    wet_pools_free(pools);
    EXPECT_INT(memory.bytes, 0);
    EXPECT_INT(memory.blocks, 0);
    schedule_free(&s);
}

/* All or nothing, by the books and by the machine. */
static void test_shortages(void)
{
    struct schedule s;
    struct memory memory = { 0 };
    struct wet_pools *pools = NULL;
    struct pool_shortage shortage = { 0 };
    make_schedule(&s, 5600);
    EXPECT_INT(make(&pools, &s, BLOCKALLOC_EXACT, &memory, NULL), STATUS_OK);
    const uint32_t three[] = { SMALL, STAGING, LARGE };
    EXPECT(!wet_pools_acquire(pools, three, 3, 0, &shortage));
    EXPECT_INT(shortage.space, DEVICE);
    EXPECT_INT(shortage.wanted_bytes, 4500);
    EXPECT_INT(shortage.free_bytes, 4100);
    EXPECT_INT(memory.bytes, 1500);
    EXPECT(!wet_pools_is_live(pools, SMALL) && !wet_pools_is_live(pools, STAGING));
    EXPECT(acquire(pools, LARGE, &shortage));
    EXPECT(!acquire(pools, SMALL, &shortage));
    wet_pools_release(pools, (const uint32_t[]){ LARGE }, 1);
    EXPECT(acquire(pools, SMALL, &shortage));
    wet_pools_release(pools, (const uint32_t[]){ SMALL }, 1);

    memory.refuse_above = 1500 + 4000; /* the books have room for both, the machine has not */
    const uint32_t two[] = { LARGE, STAGING };
    EXPECT(!wet_pools_acquire(pools, two, 2, 0, &shortage));
    EXPECT_INT(shortage.space, PINNED);
    EXPECT_INT(shortage.wanted_bytes, 700);
    EXPECT_INT(memory.bytes, 1500);
    memory.refuse_above = 0;
    EXPECT(wet_pools_acquire(pools, two, 2, 0, NULL));
    wet_pools_free(pools);
    EXPECT_INT(memory.bytes, 0);
    schedule_free(&s);
}

static void test_start(void)
{
    struct schedule s;
    struct memory memory = { .refuse_above = 1200 };
    struct wet_pools *pools = NULL;
    struct error error = { 0 };
    uint64_t live_bytes = 0;
    make_schedule(&s, SPACE_LIMIT);
    EXPECT_INT(make(&pools, &s, BLOCKALLOC_EXACT, &memory, &error), STATUS_DOES_NOT_FIT);
    EXPECT(pools == NULL);
    EXPECT_PART(error.message, "host memory");           /* which space, ... */
    EXPECT_PART(error.message, "holds 0 bytes already"); /* ... what it holds, ... */
    EXPECT_PART(error.message, "300 more");              /* ... what was asked */
    EXPECT_INT(memory.bytes, 0);
    schedule_free(&s);

    memory = (struct memory){ .refuse_above = 1 };
    make_schedule(&s, SPACE_LIMIT);
    EXPECT_INT(make(&pools, &s, BLOCKALLOC_BEST_FIT, &memory, &error), STATUS_DOES_NOT_FIT);
    EXPECT_PART(error.message, "host memory");
    EXPECT_INT(memory.bytes, 0);
    schedule_free(&s);

    memory = (struct memory){ 0 };
    make_schedule(&s, 1499); /* more than the schedule allows: an outcome */
    EXPECT_INT(make(&pools, &s, BLOCKALLOC_EXACT, &memory, &error), STATUS_OK);
    EXPECT_INT(wet_pools_overfull(pools, &live_bytes), DEVICE);
    EXPECT_INT(live_bytes, 1500);
    EXPECT_INT(memory.blocks, 0);
    EXPECT(!wet_pools_is_live(pools, WEIGHTS) && wet_pools_address(pools, WEIGHTS) == NULL);
    wet_pools_free(pools);
    wet_pools_free(NULL);
    schedule_free(&s);
}

static void test_rewind(void)
{
    for (int kind = 0; kind < 3; kind++) {
        struct schedule s;
        struct memory memory = { 0 };
        struct wet_pools *pools = NULL;
        struct error error = { 0 };
        make_schedule(&s, (uint64_t)64 << 20);
        EXPECT_INT(make(&pools, &s, (enum blockalloc_kind)kind, &memory, NULL), STATUS_OK);
        uint64_t bytes = memory.bytes;
        EXPECT(acquire(pools, BORN, NULL) && acquire(pools, LARGE, NULL));
        wet_pools_release(pools, (const uint32_t[]){ WEIGHTS, COPIES }, 2);
        EXPECT_INT(wet_pools_rewind(pools, &error), STATUS_OK);
        EXPECT(wet_pools_is_live(pools, WEIGHTS) && wet_pools_is_live(pools, COPIES));
        EXPECT(!wet_pools_is_live(pools, BORN) && !wet_pools_is_live(pools, LARGE));
        EXPECT(kind != BLOCKALLOC_EXACT || memory.bytes == bytes);
        EXPECT(acquire(pools, BORN, NULL));
        wet_pools_release(pools, (const uint32_t[]){ WEIGHTS }, 1);
        memory.refuse_above = 1;
        EXPECT_INT(wet_pools_rewind(pools, &error), kind == BLOCKALLOC_EXACT ? STATUS_DOES_NOT_FIT : STATUS_OK);
        if (kind == BLOCKALLOC_EXACT) {
            EXPECT_PART(error.message, "gpu 0");
            EXPECT_PART(error.message, "1000 bytes");
            EXPECT_PART(error.message, "500 bytes are held");
        }
        wet_pools_free(pools);
        EXPECT_INT(memory.bytes, 0);
        EXPECT_INT(memory.blocks, 0);
        schedule_free(&s);
    }
}

/* A space that nobody touches counts all the same. */
static void test_dry(void)
{
    struct schedule s;
    struct wet_pools *pools = NULL;
    make_schedule(&s, (uint64_t)1 << 40);
    const struct wet_space spaces[SPACES] = { { .kind = BLOCKALLOC_CACHING },
                                              { .kind = BLOCKALLOC_BEST_FIT },
                                              { .kind = BLOCKALLOC_CACHING } };
    EXPECT_INT(wet_pools_new(&pools, &s, spaces, NULL), STATUS_OK);
    EXPECT(wet_pools_is_live(pools, WEIGHTS) && wet_pools_address(pools, WEIGHTS) == NULL);
    EXPECT(acquire(pools, STAGING, NULL) && wet_pools_address(pools, STAGING) == NULL);
    EXPECT_INT(wet_pools_peak_reserved(pools, DEVICE), (2 << 20) + 500); /* a small segment, and the runtime's */
    EXPECT_INT(wet_pools_peak_reserved(pools, PINNED), 1024);            /* 700 in granules of 512 */
    EXPECT_INT(wet_pools_peak_reserved(pools, HOST), (2 << 20) + 1024);
    wet_pools_free(pools);
    schedule_free(&s);
}

/* Random acquisitions: no two live buffers share a byte, peaks are those of the backing, everything goes back. */
static void test_random_blocks(void)
{
    for (int kind = 0; kind < 3; kind++) {
        const struct schedule_gen gen = { .ranks = 2, .events = 60, .devices_per_rank = 1 };
        struct schedule s;
        struct memory memory = { 0 };
        struct wet_pools *pools = NULL;
        uint64_t random = test_seed, held = 0;
        schedule_gen(&gen, test_seed, &s);
        struct wet_space *spaces = calloc(s.space_count, sizeof *spaces);
        for (uint32_t i = 0; spaces != NULL && i < s.space_count; i++) {
            spaces[i] = (struct wet_space){ (enum blockalloc_kind)kind, { &memory, map, unmap } };
        }
        EXPECT_INT(wet_pools_new(&pools, &s, spaces, NULL), STATUS_OK);
        free(spaces);
        for (uint32_t i = 0; i < 4000 && pools != NULL; i++) {
            uint32_t buffer = (uint32_t)test_below(&random, s.buffer_count);
            uint64_t bytes = s.buffers[buffer].bytes * s.buffers[buffer].copies;
            unsigned char *memory_of = wet_pools_is_live(pools, buffer) ? wet_pools_address(pools, buffer) : NULL;
            if ((s.buffers[buffer].flags & BUFFER_LIVE_AT_START) != 0) {
                continue;
            }
            if (!wet_pools_is_live(pools, buffer)) {
                EXPECT(wet_pools_acquire(pools, &buffer, 1, (uint32_t)test_below(&random, s.queue_count), NULL));
                memory_of = wet_pools_address(pools, buffer);
                if (memory_of != NULL) { /* an untouched one of the runtime */
                    memset(memory_of, (int)(buffer & 0xff), bytes);
                }
                continue;
            }
            for (uint64_t k = 0; memory_of != NULL && k < bytes; k++) {
                if (memory_of[k] != (buffer & 0xff)) {
                    TEST_FAIL_("byte %llu of buffer %u was overwritten", (unsigned long long)k, buffer);
                    break;
                }
            }
            wet_pools_release(pools, &buffer, 1);
        }
        for (uint32_t i = 0; i < s.space_count && kind == BLOCKALLOC_CACHING; i++) {
            held += s.spaces[i].parent == SCHED_NONE ? wet_pools_peak_reserved(pools, i) : 0;
        }
        EXPECT(kind != BLOCKALLOC_CACHING || held >= memory.peak_bytes); /* a cache never shrinks here */
        wet_pools_free(pools);
        EXPECT_INT(memory.bytes, 0);
        EXPECT_INT(memory.blocks, 0);
        schedule_free(&s);
    }
}

TEST_MAIN(TEST(test_books), TEST(test_shortages), TEST(test_start), TEST(test_rewind), TEST(test_dry),
          TEST(test_random_blocks))
