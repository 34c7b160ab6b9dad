/* arena, array, strbuf, status. */
#include "sim/base/arena.h"
#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/status.h"
#include "sim/base/strbuf.h"
#include "tests/test.h"

static void test_arena_is_zeroed_and_aligned(void)
{
    struct arena arena = { 0 };
    uint64_t random = test_seed;
    for (unsigned i = 0; i < 2000; i++) {
        size_t bytes = test_below(&random, 3) == 0 ? test_below(&random, 20000) : test_below(&random, 40);
        unsigned char *memory = arena_alloc(&arena, bytes, 1);
        EXPECT(memory != NULL && (uintptr_t)memory % 16 == 0);
        for (size_t b = 0; b < bytes; b++) {
            if (memory[b] != 0) {
                EXPECT_INT(memory[b], 0);
                break;
            }
        }
        memset(memory, 0xff, bytes);
    }
    EXPECT_TEXT(arena_text(&arena, "abc"), "abc");
    EXPECT_TEXT(arena_text_n(&arena, "abc", 2), "ab");
    EXPECT_TEXT(arena_printf(&arena, "%d-%s", 7, "x"), "7-x");
    arena_free(&arena);
    EXPECT(arena.blocks == NULL && arena.total_bytes == 0);
    arena_free(&arena);
}

/* A large array does not make the small ones behind it costly, and does not end the block that is being filled. */
static void test_arena_large(void)
{
    struct arena arena = { 0 };
    char *first = arena_alloc(&arena, 16, 1);
    unsigned char *large = arena_alloc(&arena, 1 << 24, 1);
    EXPECT(large != NULL && large[0] == 0 && large[(1 << 24) - 1] == 0);
    EXPECT(arena_alloc(&arena, 16, 1) == first + 16);
    for (int i = 0; i < 1000; i++) { /* 3 MB of 3 kB: alone at first, then together */
        EXPECT(arena_alloc(&arena, 3000, 1) != NULL);
    }
    EXPECT(arena.next_block_bytes <= 8 << 20);
    EXPECT_INT(arena.total_bytes, 32 + (1 << 24) + 1000 * 3008);
    arena_free(&arena);
    EXPECT(arena_alloc(&arena, 1 << 20, 1) != NULL); /* the first of all may be large too */
    EXPECT(arena_alloc(&arena, 16, 1) != NULL);
    EXPECT(arena.next_block_bytes <= 1 << 14);
    arena_free(&arena);
}

static void test_arena_limits(void)
{
    struct arena arena = { 0 };
    EXPECT(arena_alloc(&arena, SIZE_MAX / 2, 4) == NULL);
    EXPECT(arena_alloc(&arena, SIZE_MAX, 1) == NULL);
    EXPECT(arena_array(&arena, int, 0) != NULL);
    arena.fail_after = 3;
    EXPECT(arena_array(&arena, int, 1) != NULL);
    EXPECT(arena_array(&arena, int, 1) != NULL);
    EXPECT(arena_array(&arena, int, 1) == NULL);
    EXPECT(arena_array(&arena, int, 1) != NULL);
    arena_free(&arena);
}

static void test_array_grows(void)
{
    struct {
        int *items;
        size_t count, capacity;
    } numbers = { 0 };
    struct error error = { 0 };
    for (int i = 0; i < 1000; i++) {
        EXPECT_INT(array_reserve(&numbers, 1, &error), STATUS_OK);
        numbers.items[numbers.count++] = i;
    }
    for (int i = 0; i < 1000; i++) {
        EXPECT_INT(numbers.items[i], i);
    }
    EXPECT_INT(array_reserve(&numbers, SIZE_MAX, &error), STATUS_NO_MEMORY);
    EXPECT_INT(array_reserve(&numbers, SIZE_MAX / 4, &error), STATUS_NO_MEMORY);
    EXPECT_INT(numbers.count, 1000);
    EXPECT_INT(numbers.items[999], 999);
    array_free(&numbers);
    EXPECT(numbers.items == NULL && numbers.capacity == 0);
}

static void test_strbuf(void)
{
    struct strbuf out = { 0 };
    char expected[4096] = "";
    for (int i = 0; i < 200; i++) {
        strbuf_printf(&out, "%d,", i);
        (void)snprintf(expected + strlen(expected), 16, "%d,", i);
    }
    strbuf_char(&out, 'x');
    strbuf_append(&out, "yz");
    strcat(expected, "xyz");
    EXPECT_TEXT(out.text, expected);
    EXPECT_INT(out.length, strlen(expected));
    strbuf_printf(&out, "%0500d", 1);
    EXPECT_INT(out.length, strlen(expected) + 500);
    EXPECT(!out.failed);
    strbuf_append_n(&out, "", SIZE_MAX / 2);
    EXPECT(out.failed);
    strbuf_free(&out);
    EXPECT(out.text == NULL);
}

static void test_error_text(void)
{
    struct error error;
    char text[256];
    EXPECT_INT(error_set(&error, STATUS_LIMIT, "%d is too many", 7), STATUS_LIMIT);
    EXPECT_TEXT(error_text(&error, text, sizeof text), "7 is too many");
    EXPECT_INT(error_at(&error, STATUS_BAD_INPUT, "a.json", "$.x", "no"), STATUS_BAD_INPUT);
    EXPECT_TEXT(error_text(&error, text, sizeof text), "a.json: $.x: no");
    error.line = 12;
    EXPECT_TEXT(error_text(&error, text, sizeof text), "a.json:12: $.x: no");
    EXPECT_INT(error_set(NULL, STATUS_IO, "x"), STATUS_IO);
    char longer[3000];
    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    EXPECT_INT(error_at(&error, STATUS_IO, longer, longer, "%s", longer), STATUS_IO);
    EXPECT_INT(strlen(error.message), ERROR_MESSAGE_BYTES - 1);
    EXPECT_TEXT(status_word(STATUS_DEADLOCK), "deadlock");
    EXPECT_TEXT(status_word(STATUS_COUNT), "unknown status");
}

static enum status fail_twice(int *freed)
{
    enum status status = STATUS_OK;
    TRY_OR_FAIL(error_set(NULL, STATUS_OK, "fine"));
    TRY_OR_FAIL(error_set(NULL, STATUS_IO, "not"));
    return STATUS_OK;
fail:
    *freed = 1;
    return status;
}

static void test_try(void)
{
    int freed = 0;
    EXPECT_INT(fail_twice(&freed), STATUS_IO);
    EXPECT_INT(freed, 1);
}

TEST_MAIN(TEST(test_arena_is_zeroed_and_aligned), TEST(test_arena_large), TEST(test_arena_limits),
          TEST(test_array_grows), TEST(test_strbuf), TEST(test_error_text), TEST(test_try))
