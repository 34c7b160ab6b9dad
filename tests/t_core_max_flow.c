/* Maximum flow against the smallest cut found by trying all of them. */
#include "sim/core/max_flow.h"
#include "tests/test.h"

/* The flow is as large as the smallest cut: of all sets of nodes that hold the source and not the sink, the one with least capacity leaving it. */
static uint64_t smallest_cut(uint32_t nodes, const struct flow_edge *edges, uint32_t count, uint32_t source,
                             uint32_t sink)
{
    uint64_t smallest = UINT64_MAX;
    for (uint32_t set = 0; set < UINT32_C(1) << nodes; set++) {
        uint64_t leaving = 0;
        bool cut = (set >> source & 1) != 0 && (set >> sink & 1) == 0;
        for (uint32_t i = 0; cut && i < count; i++) {
            if ((set >> edges[i].from & 1) != 0 && (set >> edges[i].to & 1) == 0) {
                uint64_t more = edges[i].capacity;
                leaving = leaving > UINT64_MAX - more ? UINT64_MAX : leaving + more;
            }
        }
        smallest = cut && leaving < smallest ? leaving : smallest;
    }
    return smallest;
}

static uint64_t flow_of(uint32_t nodes, const struct flow_edge *edges, uint32_t count, uint32_t source, uint32_t sink)
{
    struct error error = { 0 };
    uint64_t flow = 0;
    EXPECT_INT(max_flow(nodes, edges, count, source, sink, &flow, &error), STATUS_OK);
    return flow;
}

static void test_small(void)
{
    const struct flow_edge row[] = { { 0, 1, 5 }, { 1, 2, 3 } };
    EXPECT_INT(flow_of(3, row, 2, 0, 2), 3);
    EXPECT_INT(flow_of(3, row, 2, 2, 0), 0);
    EXPECT_INT(flow_of(2, NULL, 0, 0, 1), 0);
    /* The way that is found first, 0 1 2 3, must be undone in part. */
    const struct flow_edge undone[] = { { 0, 1, 1 }, { 0, 2, 1 }, { 1, 2, 1 }, { 1, 3, 1 }, { 2, 3, 1 } };
    EXPECT_INT(flow_of(4, undone, 5, 0, 3), 2);
    /* Side by side, loops, and bytes near the limit */
    const struct flow_edge large[] = {
        { 0, 1, FLOW_UNLIMITED / 2 }, { 0, 1, FLOW_UNLIMITED / 4 }, { 1, 1, 7 }, { 1, 2, FLOW_UNLIMITED }
    };
    EXPECT_INT(flow_of(3, large, 4, 0, 2) == FLOW_UNLIMITED / 2 + FLOW_UNLIMITED / 4, 1);
}

static void test_networks(void)
{
    uint64_t random = test_seed;
    for (int i = 0; i < 3000; i++) {
        struct flow_edge edges[40];
        uint32_t nodes = 2 + (uint32_t)test_below(&random, 8), count = (uint32_t)test_below(&random, 40);
        uint32_t source = (uint32_t)test_below(&random, nodes);
        uint32_t sink = (source + 1 + (uint32_t)test_below(&random, nodes - 1)) % nodes;
        for (uint32_t k = 0; k < count; k++) {
            edges[k].from = (uint32_t)test_below(&random, nodes);
            edges[k].to = (uint32_t)test_below(&random, nodes);
            bool unlimited = edges[k].from != source && test_below(&random, 5) == 0;
            edges[k].capacity = unlimited ? FLOW_UNLIMITED : test_below(&random, 1 + (UINT64_C(1) << (i % 50)));
        }
        uint64_t wanted = smallest_cut(nodes, edges, count, source, sink);
        uint64_t flow = flow_of(nodes, edges, count, source, sink);
        if (flow != wanted) {
            TEST_FAIL_("case %d: %" PRIu64 ", the smallest cut is %" PRIu64, i, flow, wanted);
        }
    }
}

TEST_MAIN(TEST(test_small), TEST(test_networks))
