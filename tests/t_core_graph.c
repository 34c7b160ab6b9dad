#include "sim/core/graph.h"
#include "tests/test.h"

enum { NODES_MAX = 40 };

static struct arena arena;

static void test_order_is_stable(void)
{
    static const struct graph_edge edges[] = { { 4, 0 }, { 2, 1 }, { 0, 3 }, { 2, 3 }, { 2, 1 } };
    struct graph graph;
    uint32_t order[5], scratch[5];
    EXPECT_INT(graph_make(&graph, &arena, 5, edges, 5, NULL), STATUS_OK);
    EXPECT_INT(graph_edge_count(&graph), 5);
    EXPECT_INT(graph_order(&graph, order, scratch), 5);
    static const uint32_t expected[] = { 2, 4, 1, 0, 3 };
    for (int i = 0; i < 5; i++) {
        EXPECT_INT(order[i], expected[i]);
    }
    EXPECT_INT(graph_cycle(&graph, scratch, order), 0);
}

static void test_cycle_is_named(void)
{
    /* 0 -> 1 -> 2 -> 3 -> 1, and 3 -> 4 behind it. */
    static const struct graph_edge edges[] = { { 0, 1 }, { 1, 2 }, { 2, 3 }, { 3, 1 }, { 3, 4 } };
    struct graph graph;
    uint32_t order[5], scratch[5], cycle[5];
    EXPECT_INT(graph_make(&graph, &arena, 5, edges, 5, NULL), STATUS_OK);
    EXPECT_INT(graph_order(&graph, order, scratch), 1);
    EXPECT_INT(graph_cycle(&graph, scratch, cycle), 3);
    EXPECT_INT(cycle[0], 1);
    EXPECT_INT(cycle[1], 2);
    EXPECT_INT(cycle[2], 3);
    static const struct graph_edge loop[] = { { 1, 1 } };
    EXPECT_INT(graph_make(&graph, &arena, 2, loop, 1, NULL), STATUS_OK);
    EXPECT_INT(graph_order(&graph, order, scratch), 1);
    EXPECT_INT(graph_cycle(&graph, scratch, cycle), 1);
    EXPECT_INT(cycle[0], 1);
}

static void test_empty(void)
{
    struct graph graph;
    uint32_t order[3], scratch[3];
    EXPECT_INT(graph_make(&graph, &arena, 3, NULL, 0, NULL), STATUS_OK);
    EXPECT_INT(graph_order(&graph, order, scratch), 3);
    EXPECT_INT(graph_make(&graph, &arena, 0, NULL, 0, NULL), STATUS_OK);
    EXPECT_INT(graph_order(&graph, order, scratch), 0);
}

/* Reachability by brute force decides whether there is a cycle; orders and cycles are checked edge by edge. */
static void test_random_against_plain(void)
{
    uint64_t random = test_seed;
    for (int round = 0; round < 2000; round++) {
        struct graph_edge edges[100];
        bool reach[NODES_MAX][NODES_MAX] = { { false } }, direct[NODES_MAX][NODES_MAX] = { { false } };
        uint32_t nodes = 1 + (uint32_t)test_below(&random, NODES_MAX), place[NODES_MAX];
        size_t count = test_below(&random, 1 + nodes * 3 / 2);
        for (size_t e = 0; e < count; e++) {
            edges[e] =
                (struct graph_edge){ (uint32_t)test_below(&random, nodes), (uint32_t)test_below(&random, nodes) };
            if (round % 2 == 0 && edges[e].from >= edges[e].to) { /* half of the rounds without cycles */
                edges[e] = (struct graph_edge){ 0, nodes - 1 };
                count = nodes == 1 ? e : count;
            }
            if (e < count) {
                reach[edges[e].from][edges[e].to] = direct[edges[e].from][edges[e].to] = true;
            }
        }
        bool has_cycle = false;
        for (uint32_t k = 0; k < nodes; k++) {
            for (uint32_t i = 0; i < nodes; i++) {
                for (uint32_t j = 0; j < nodes; j++) {
                    reach[i][j] = reach[i][j] || (reach[i][k] && reach[k][j]);
                }
            }
        }
        for (uint32_t k = 0; k < nodes; k++) {
            has_cycle = has_cycle || reach[k][k];
        }
        struct graph graph;
        uint32_t order[NODES_MAX], scratch[NODES_MAX], cycle[NODES_MAX];
        EXPECT_INT(graph_make(&graph, &arena, nodes, edges, count, NULL), STATUS_OK);
        uint32_t ordered = graph_order(&graph, order, scratch);
        EXPECT_INT(ordered < nodes, has_cycle);
        memset(place, 0xff, sizeof place);
        for (uint32_t i = 0; i < ordered; i++) {
            place[order[i]] = i;
        }
        for (size_t e = 0; e < count && ordered == nodes; e++) {
            EXPECT(place[edges[e].from] < place[edges[e].to]);
        }
        if (ordered < nodes) {
            uint32_t length = graph_cycle(&graph, scratch, cycle);
            EXPECT(length >= 1 && length <= nodes);
            for (uint32_t i = 0; i < length; i++) {
                EXPECT(direct[cycle[i]][cycle[(i + 1) % length]]);
                EXPECT(cycle[i] >= cycle[0]);
            }
        }
        arena_free(&arena);
    }
}

static void test_limits(void)
{
    struct graph graph;
    struct error error = { 0 };
    EXPECT_INT(graph_make(&graph, &arena, 1, NULL, UINT32_MAX, &error), STATUS_LIMIT);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        struct arena small = { .fail_after = nth };
        EXPECT_INT(graph_make(&graph, &small, 1, NULL, 0, &error), STATUS_NO_MEMORY);
        arena_free(&small);
    }
}

TEST_MAIN(TEST(test_order_is_stable), TEST(test_cycle_is_named), TEST(test_empty), TEST(test_random_against_plain),
          TEST(test_limits))
