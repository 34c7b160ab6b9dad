#include "sim/core/evq.h"
#include "tests/test.h"

static struct arena arena;

static void test_order_and_fifo(void)
{
    struct evq queue;
    uint32_t slot = 99;
    EXPECT_INT(evq_init(&queue, &arena, 8, NULL), STATUS_OK);
    EXPECT(!evq_take(&queue, &slot));
    EXPECT_INT(evq_next_ps(&queue), TIME_NEVER_PS);
    evq_put(&queue, 3, 20);
    evq_put(&queue, 1, 10);
    evq_put(&queue, 7, 20);
    evq_put(&queue, 0, 0); /* the present */
    evq_put(&queue, 2, 20);
    static const uint32_t slots[] = { 0, 1, 3, 7, 2 };
    static const int64_t times[] = { 0, 10, 20, 20, 20 };
    for (int i = 0; i < 5; i++) {
        EXPECT_INT(evq_next_ps(&queue), times[i]);
        EXPECT(evq_take(&queue, &slot));
        EXPECT_INT(slot, slots[i]);
        EXPECT_INT(queue.now_ps, times[i]);
    }
    EXPECT(!evq_take(&queue, &slot));
}

/* What is put at an instant during that instant comes after what was put there before. */
static void test_present_events_wait_for_older_ones(void)
{
    struct evq queue;
    uint32_t slot;
    EXPECT_INT(evq_init(&queue, &arena, 8, NULL), STATUS_OK);
    evq_put(&queue, 0, 5);
    evq_put(&queue, 1, 5);
    EXPECT(evq_take(&queue, &slot) && slot == 0);
    evq_put(&queue, 2, 5);
    evq_put(&queue, 0, 6);
    EXPECT(evq_take(&queue, &slot) && slot == 1);
    EXPECT(evq_take(&queue, &slot) && slot == 2);
    EXPECT(evq_take(&queue, &slot) && slot == 0);
}

static void test_move_and_cancel(void)
{
    struct evq queue;
    uint32_t slot;
    EXPECT_INT(evq_init(&queue, &arena, 8, NULL), STATUS_OK);
    for (uint32_t s = 0; s < 8; s++) {
        evq_put(&queue, s, 100 + s);
    }
    evq_move(&queue, 7, 1);
    evq_move(&queue, 0, 104); /* behind 4 */
    evq_cancel(&queue, 2);
    evq_cancel(&queue, 2);
    EXPECT_INT(evq_count(&queue), 7);
    static const uint32_t slots[] = { 7, 1, 3, 4, 0, 5, 6 };
    for (int i = 0; i < 7; i++) {
        EXPECT(evq_take(&queue, &slot));
        EXPECT_INT(slot, slots[i]);
    }
}

/* The ring must survive any number of puts and cancels within one instant. */
static void test_ring_is_swept(void)
{
    struct evq queue;
    uint32_t slot;
    EXPECT_INT(evq_init(&queue, &arena, 3, NULL), STATUS_OK);
    evq_put(&queue, 2, 0);
    for (int i = 0; i < 1000; i++) {
        evq_put(&queue, 0, 0);
        evq_put(&queue, 1, 0);
        evq_cancel(&queue, 0);
        evq_move(&queue, 1, 0);
        evq_cancel(&queue, 1);
    }
    evq_put(&queue, 1, 0);
    EXPECT_INT(evq_count(&queue), 2);
    EXPECT(evq_take(&queue, &slot) && slot == 2);
    EXPECT(evq_take(&queue, &slot) && slot == 1);
    EXPECT(!evq_take(&queue, &slot));
}

static void test_sequence_runs_out(void)
{
    struct evq queue;
    uint32_t slot;
    EXPECT_INT(evq_init(&queue, &arena, 64, NULL), STATUS_OK);
    queue.heap.sequence = UINT32_MAX - 20;
    for (uint32_t s = 0; s < 64; s++) {
        evq_put(&queue, s, 7);
    }
    for (uint32_t s = 0; s < 64; s++) {
        EXPECT(evq_take(&queue, &slot));
        EXPECT_INT(slot, s);
    }
}

static void test_memory_runs_out(void)
{
    for (uint64_t nth = 1; nth <= 3; nth++) {
        struct arena small = { .fail_after = nth };
        struct evq queue;
        struct error error = { 0 };
        EXPECT_INT(evq_init(&queue, &small, 8, &error), STATUS_NO_MEMORY);
        EXPECT_PART(error.message, "out of memory");
        arena_free(&small);
    }
    arena_free(&arena);
}

TEST_MAIN(TEST(test_order_and_fifo), TEST(test_present_events_wait_for_older_ones), TEST(test_move_and_cancel),
          TEST(test_ring_is_swept), TEST(test_sequence_runs_out), TEST(test_memory_runs_out))
