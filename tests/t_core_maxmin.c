#include "sim/core/maxmin.h"
#include "tests/test.h"

static struct arena arena;
static struct maxmin solver;

static void start(uint32_t resources, uint32_t variables, uint32_t uses)
{
    struct maxmin_limits limits = { resources, variables, uses };
    EXPECT_INT(maxmin_init(&solver, &arena, &limits, NULL), STATUS_OK);
}

static uint32_t add_on(double cap, uint32_t resource)
{
    struct maxmin_use use = { resource, 1.0 };
    return maxmin_add(&solver, 1.0, cap, &use, 1);
}

/* The network of Bertsekas and Gallager's example 6.5: five sessions, three links of capacity 1. */
static void test_textbook(void)
{
    start(4, 8, 16);
    for (int i = 0; i < 4; i++) {
        maxmin_add_resource(&solver, 1.0);
    }
    uint32_t a = add_on(INFINITY, 0);
    struct maxmin_use over[] = { { 0, 1 }, { 1, 1 } };
    uint32_t b = maxmin_add(&solver, 1, INFINITY, over, 2);
    uint32_t c = add_on(INFINITY, 1);
    uint32_t d = add_on(INFINITY, 1);
    struct maxmin_use far[] = { { 1, 1 }, { 2, 1 } };
    uint32_t e = maxmin_add(&solver, 1, INFINITY, far, 2);
    EXPECT_INT(maxmin_solve(&solver), 5);
    EXPECT_REAL(maxmin_rate(&solver, a), 0.75, 1e-15);
    EXPECT_REAL(maxmin_rate(&solver, b), 0.25, 1e-15);
    EXPECT_REAL(maxmin_rate(&solver, c), 0.25, 1e-15);
    EXPECT_REAL(maxmin_rate(&solver, d), 0.25, 1e-15);
    EXPECT_REAL(maxmin_rate(&solver, e), 0.25, 1e-15);
    EXPECT_INT(maxmin_bottleneck(&solver, a), 0);
    EXPECT_INT(maxmin_bottleneck(&solver, e), 1);
    EXPECT_REAL(maxmin_used(&solver, 2), 0.25, 1e-15);
    maxmin_remove(&solver, c);
    maxmin_remove(&solver, d);
    EXPECT_INT(maxmin_solve(&solver), 3);
    EXPECT_REAL(maxmin_rate(&solver, a), 0.5, 1e-15);
    EXPECT_REAL(maxmin_rate(&solver, b), 0.5, 1e-15);
    EXPECT_REAL(maxmin_rate(&solver, e), 0.5, 1e-15);
    EXPECT_INT(maxmin_solve(&solver), 0);
}

static void test_weights_caps_coefficients(void)
{
    start(2, 8, 16);
    maxmin_add_resource(&solver, 12.0);
    maxmin_add_resource(&solver, 100.0);
    struct maxmin_use both[] = { { 0, 1 }, { 1, 30 } }; /* thirty units of the second for one of the first */
    uint32_t heavy = maxmin_add(&solver, 3, INFINITY, both, 1);
    uint32_t light = maxmin_add(&solver, 1, INFINITY, both, 1);
    uint32_t capped = maxmin_add(&solver, 1, 0.5, both, 1);
    uint32_t wide = maxmin_add(&solver, 1, INFINITY, both, 2);
    maxmin_solve(&solver);
    /* 12 - 0.5 over weights 3 + 1 + 1: level 2.3, which needs 69 of the 100. */
    EXPECT_REAL(maxmin_rate(&solver, heavy), 6.9, 1e-14);
    EXPECT_REAL(maxmin_rate(&solver, light), 2.3, 1e-14);
    EXPECT_REAL(maxmin_rate(&solver, capped), 0.5, 0);
    EXPECT_REAL(maxmin_rate(&solver, wide), 2.3, 1e-14);
    EXPECT_INT(maxmin_bottleneck(&solver, capped), MAXMIN_NONE);
    maxmin_set_capacity(&solver, 1, 30.0);
    EXPECT_INT(maxmin_solve(&solver), 3);
    EXPECT_REAL(maxmin_rate(&solver, wide), 1.0, 1e-14);
    EXPECT_REAL(maxmin_rate(&solver, heavy), 10.5 * 0.75, 1e-14);
    EXPECT_INT(maxmin_bottleneck(&solver, wide), 1);
}

/* What fits without crowding anybody must not wake the others. */
static void test_bystanders_are_left_alone(void)
{
    start(3, 100, 300);
    for (int i = 0; i < 3; i++) {
        maxmin_add_resource(&solver, 100.0);
    }
    for (int i = 0; i < 50; i++) {
        add_on(1.0, 0);
    }
    EXPECT_INT(maxmin_solve(&solver), 50);
    EXPECT_INT(solver.solved_components, 0);
    uint32_t one = add_on(25.0, 0);
    EXPECT_INT(maxmin_solve(&solver), 1);
    EXPECT_INT(solver.changed[0], one);
    EXPECT_INT(solver.solved_components, 0);
    maxmin_set_capacity(&solver, 0, 80.0);
    maxmin_remove(&solver, 3);
    EXPECT_INT(maxmin_solve(&solver), 0);
    EXPECT_INT(solver.solved_components, 0);
    uint32_t greedy = add_on(INFINITY, 0); /* shares with the one of cap 25 what the 49 small ones leave */
    EXPECT_INT(maxmin_solve(&solver), 2);
    EXPECT_REAL(maxmin_rate(&solver, greedy), 15.5, 1e-14);
    EXPECT_REAL(maxmin_rate(&solver, one), 15.5, 1e-14);
    uint64_t solved = solver.solved_components;
    uint32_t elsewhere = add_on(INFINITY, 2); /* another component, alone */
    EXPECT_INT(maxmin_solve(&solver), 1);
    EXPECT_REAL(maxmin_rate(&solver, elsewhere), 100.0, 0);
    EXPECT_INT(solver.solved_components, solved);
}

static void test_ids_come_again(void)
{
    start(1, 4, 4);
    maxmin_add_resource(&solver, 1.0);
    EXPECT_INT(add_on(1, 0), 0);
    EXPECT_INT(add_on(1, 0), 1);
    EXPECT_INT(add_on(1, 0), 2);
    EXPECT(maxmin_has_room(&solver, 1));
    EXPECT(!maxmin_has_room(&solver, 2));
    maxmin_remove(&solver, 0);
    maxmin_remove(&solver, 1);
    EXPECT_INT(add_on(1, 0), 1);
    EXPECT_INT(add_on(1, 0), 0);
    EXPECT_INT(add_on(1, 0), 3);
    EXPECT(!maxmin_has_room(&solver, 0));
    EXPECT_INT(maxmin_solve(&solver), 4);
    EXPECT_REAL(maxmin_used(&solver, 0), 1.0, 1e-15);
}

static void test_resource_named_twice(void)
{
    start(1, 4, 4);
    maxmin_add_resource(&solver, 6.0);
    struct maxmin_use twice[] = { { 0, 1 }, { 0, 2 } };
    uint32_t v = maxmin_add(&solver, 1, 10, twice, 2);
    EXPECT_INT(maxmin_solve(&solver), 1);
    EXPECT_REAL(maxmin_rate(&solver, v), 2.0, 1e-15);
    uint32_t small = maxmin_add(&solver, 1, 0.5, twice, 2);
    EXPECT_INT(maxmin_solve(&solver), 2);
    EXPECT_REAL(maxmin_rate(&solver, v), 1.5, 1e-15);
    maxmin_remove(&solver, v);
    maxmin_remove(&solver, small);
    EXPECT(maxmin_has_room(&solver, 4));
}

static void test_zero_capacity_and_no_uses(void)
{
    start(1, 4, 4);
    maxmin_add_resource(&solver, 0.0);
    uint32_t stuck = add_on(INFINITY, 0), stuck_too = add_on(5.0, 0);
    uint32_t free_one = maxmin_add(&solver, 1.0, 7.0, NULL, 0);
    EXPECT_INT(maxmin_solve(&solver), 3);
    EXPECT(!(maxmin_rate(&solver, stuck) > 0.0));
    EXPECT(!(maxmin_rate(&solver, stuck_too) > 0.0));
    EXPECT_REAL(maxmin_rate(&solver, free_one), 7.0, 0);
    maxmin_set_cap(&solver, free_one, 8.0);
    maxmin_set_capacity(&solver, 0, 11.0);
    EXPECT_INT(maxmin_solve(&solver), 3);
    EXPECT_REAL(maxmin_rate(&solver, stuck), 6.0, 1e-15);
    EXPECT_REAL(maxmin_rate(&solver, stuck_too), 5.0, 1e-15);
    EXPECT_REAL(maxmin_rate(&solver, free_one), 8.0, 0);
}

/* Ranks that are mirror images must get bit-equal rates, or their events drift apart. */
static void test_symmetry_is_exact(void)
{
    start(65, 64 * 3, 64 * 6);
    maxmin_add_resource(&solver, 1e12 / 3);
    for (int i = 0; i < 64; i++) {
        maxmin_add_resource(&solver, 25e9 / 7);
    }
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t link = i % 2 == 0 ? 1 + i : 65 - i;
        struct maxmin_use uses[] = { { link, 1 }, { 0, 3 } };
        maxmin_add(&solver, 1, INFINITY, uses, 2);
        maxmin_add(&solver, 1, INFINITY, uses, 1);
        maxmin_add(&solver, 0.3, 1e9, uses, 2);
    }
    maxmin_solve(&solver);
    for (uint32_t v = 3; v < 64 * 3; v++) {
        EXPECT_REAL(maxmin_rate(&solver, v), maxmin_rate(&solver, v % 3), 0);
    }
}

static void test_memory_runs_out(void)
{
    struct maxmin_limits limits = { 4, 4, 4 };
    for (uint64_t nth = 1; nth <= 12; nth++) {
        struct arena small = { .fail_after = nth };
        struct error error = { 0 };
        EXPECT_INT(maxmin_init(&solver, &small, &limits, &error), STATUS_NO_MEMORY);
        EXPECT_PART(error.message, "out of memory");
        arena_free(&small);
    }
    arena_free(&arena);
}

TEST_MAIN(TEST(test_textbook), TEST(test_weights_caps_coefficients), TEST(test_bystanders_are_left_alone),
          TEST(test_ids_come_again), TEST(test_resource_named_twice), TEST(test_zero_capacity_and_no_uses),
          TEST(test_symmetry_is_exact), TEST(test_memory_runs_out))
