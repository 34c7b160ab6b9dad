#include "sim/core/psq.h"
#include "tests/test.h"

static struct arena arena;
static struct psq queue;

static void start(double capacity, double level_max)
{
    EXPECT_INT(psq_init(&queue, &arena, 16, capacity, level_max, NULL), STATUS_OK);
}

static void expect_end(int64_t at_ps, uint32_t slot)
{
    uint32_t got = UINT32_MAX;
    EXPECT_INT(psq_next_ps(&queue), at_ps);
    EXPECT(psq_take(&queue, at_ps, &got));
    EXPECT_INT(got, slot);
}

/* Two flows of 100 at 1 unit/ps: the first alone for 50, then halves. */
static void test_two_flows(void)
{
    start(1e12, INFINITY);
    EXPECT_INT(psq_next_ps(&queue), TIME_NEVER_PS);
    psq_add(&queue, 0, 3, 100, 1);
    EXPECT_INT(psq_next_ps(&queue), 100);
    psq_add(&queue, 50, 5, 100, 1);
    EXPECT_REAL(psq_rate(&queue, 3), 0.5e12, 0);
    EXPECT_REAL(psq_left(&queue, 60, 3), 45, 1e-14);
    expect_end(150, 3);
    EXPECT_INT(psq_count(&queue), 1);
    expect_end(200, 5);
    EXPECT_INT(psq_next_ps(&queue), TIME_NEVER_PS);
}

static void test_weights_and_removal(void)
{
    start(1e12, INFINITY);
    psq_add(&queue, 0, 0, 300, 3);
    psq_add(&queue, 0, 1, 100, 1);
    psq_add(&queue, 0, 2, 50, 1);
    EXPECT_INT(psq_next_ps(&queue), 250); /* 50 at one fifth */
    EXPECT_REAL(psq_remove(&queue, 100, 2), 30, 1e-13);
    /* 240 and 80 are left, at three and one quarters. */
    expect_end(420, 0);
    expect_end(420, 1);
}

static void test_equal_flows_end_together_in_order(void)
{
    uint32_t slot;
    start(3e12, INFINITY);
    for (uint32_t i = 0; i < 7; i++) {
        psq_add(&queue, 10, 6 - i, 1000, 1);
    }
    int64_t due_ps = psq_next_ps(&queue);
    EXPECT_INT(due_ps, 10 + 2334); /* 7000 / 3, up */
    for (uint32_t i = 0; i < 7; i++) {
        EXPECT(psq_take(&queue, due_ps, &slot));
        EXPECT_INT(slot, 6 - i);
    }
    EXPECT(!psq_take(&queue, due_ps, &slot));
}

static void test_capacity_changes_slope(void)
{
    start(2e12, INFINITY);
    psq_add(&queue, 0, 0, 1000, 1);
    psq_set_capacity(&queue, 100, 0);
    EXPECT_INT(psq_next_ps(&queue), TIME_NEVER_PS);
    EXPECT_REAL(psq_left(&queue, 5000, 0), 800, 1e-14);
    psq_set_capacity(&queue, 5000, 8e12);
    expect_end(5100, 0);
}

static void test_level_max(void)
{
    start(10e12, 2e12);
    psq_add(&queue, 0, 0, 100, 1);
    EXPECT_INT(psq_next_ps(&queue), 50);
    psq_add(&queue, 0, 1, 100, 2); /* at most 4 a picosecond */
    EXPECT_REAL(psq_rate(&queue, 1), 4e12, 0);
    expect_end(25, 1);
    expect_end(50, 0);
}

static void test_zero_work_ends_at_once(void)
{
    start(1e12, INFINITY);
    psq_add(&queue, 7, 0, 1000, 1);
    psq_add(&queue, 7, 1, 0, 1);
    expect_end(7, 1);
    expect_end(1007, 0);
}

static void test_memory_runs_out(void)
{
    for (uint64_t nth = 1; nth <= 3; nth++) {
        struct arena small = { .fail_after = nth };
        EXPECT_INT(psq_init(&queue, &small, 4, 1, INFINITY, NULL), STATUS_NO_MEMORY);
        arena_free(&small);
    }
    arena_free(&arena);
}

TEST_MAIN(TEST(test_two_flows), TEST(test_weights_and_removal), TEST(test_equal_flows_end_together_in_order),
          TEST(test_capacity_changes_slope), TEST(test_level_max), TEST(test_zero_work_ends_at_once),
          TEST(test_memory_runs_out))
