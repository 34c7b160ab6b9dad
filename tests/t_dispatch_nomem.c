/* Failing the n-th allocation, for every n until none fails, in wet pools and a dispatched run: no crash, no leak, no thread left, always an error. As
 * t_engine_nomem.c the program puts itself in front of malloc; only the thread of the test counts, as that one allocates everything. */
#include "tests/dispatch_run.h"
#include "tests/schedule_gen.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif

#if defined(HAS_SANITIZER) || !defined(__GLIBC__)

int main(void)
{
    printf("skipped: somebody else is in front of malloc\n");
    return 77;
}

#else

static _Thread_local uint64_t calls, fail_at; /* fail_at 0: never */
static _Atomic int64_t outstanding;

/* Reserved names, but glibc's documented way: these are what its malloc family is built on. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void __libc_free(void *memory);

static bool fails(void)
{
    return ++calls == fail_at;
}

static void *counted(void *memory)
{
    outstanding += memory != NULL;
    return memory;
}

void *malloc(size_t size)
{
    return fails() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : counted(__libc_calloc(count, size));
}

void *realloc(void *memory, size_t size)
{
    if (fails()) {
        return NULL;
    }
    void *moved = __libc_realloc(memory, size);
    return memory == NULL ? counted(moved) : moved;
}

void free(void *memory)
{
    outstanding -= memory != NULL;
    __libc_free(memory);
}

static enum status submit(void *context, const uint32_t *ops, uint32_t count, struct error *error)
{
    (void)context;
    (void)ops;
    (void)count;
    (void)error;
    return STATUS_OK;
}

/* Pools, three steps, audit. */
static enum status attempt(const struct schedule *s, const struct wet_space *spaces)
{
    const struct driver driver = { .executor = "fake", .submit = submit };
    const struct exec_options options = { .warmup_steps = 1, .steps = 2, .audit = true };
    struct wet_pools *pools = NULL;
    struct timeline timeline = { 0 };
    struct error error = { 0 };
    enum status status = wet_pools_new(&pools, s, spaces, &error);
    if (status == STATUS_OK) {
        status = dispatch_run(s, &driver, pools, &options, &timeline, &error);
    }
    EXPECT_INT(status == STATUS_OK, error.message[0] == '\0');
    timeline_free(&timeline);
    wet_pools_free(pools);
    return status;
}

static void test_every_allocation(void)
{
    const struct schedule_gen gen = { .ranks = 2, .events = 20, .devices_per_rank = 1 };
    struct schedule s;
    struct fake_memory memory = { 0 };
    struct wet_space spaces[8];
    unsigned failed = 0;
    schedule_gen(&gen, test_seed, &s);
    EXPECT(s.space_count <= 8);
    for (uint32_t i = 0; i < 8; i++) {
        spaces[i] = (struct wet_space){ BLOCKALLOC_CACHING, { &memory, fake_map, fake_unmap } };
    }
    EXPECT_INT(attempt(&s, spaces), STATUS_OK); /* libc keeps the stacks of threads */
    for (uint64_t n = 1; test_failures == 0; n++) {
        int64_t before = outstanding;
        calls = 0;
        fail_at = n;
        enum status status = attempt(&s, spaces);
        fail_at = 0;
        EXPECT_INT(outstanding - before, 0);
        EXPECT_INT(memory.bytes, 0);
        if (calls < n) {
            EXPECT_INT(status, STATUS_OK);
            break;
        }
        /* The backing's refusal is "does not fit"; a thread that cannot start is a failed execution. */
        EXPECT(status == STATUS_NO_MEMORY || status == STATUS_DOES_NOT_FIT || status == STATUS_EXECUTION ||
               status == STATUS_OK);
        failed += status == STATUS_NO_MEMORY;
    }
    printf("%u allocations failed\n", failed);
    EXPECT(failed > 10);
    schedule_free(&s);
}

TEST_MAIN(TEST(test_every_allocation))

#endif
