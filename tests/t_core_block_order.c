/* The order of free blocks against a plain search of all of them: grown to many leaves and shrunk again, so that leaves split and join. */
#include "sim/core/block_order.h"
#include "tests/test.h"

enum { NODES = 3000, STEPS = 40000, CHECK_EACH = 50 };

static struct blockalloc_node nodes[NODES];
static struct block_order order;

static uint32_t plain_best_fit(uint32_t stream, uint64_t bytes)
{
    uint32_t best = BLOCK_NONE;
    for (uint32_t i = 0; i < NODES; i++) {
        const struct blockalloc_node *n = &nodes[i];
        if (n->state == BLOCK_FREE && n->stream == stream && n->bytes >= bytes &&
            (best == BLOCK_NONE || n->bytes < nodes[best].bytes ||
             (n->bytes == nodes[best].bytes && n->address < nodes[best].address))) {
            best = i;
        }
    }
    return best;
}

static void insert(uint32_t i, uint64_t random)
{
    nodes[i] = (struct blockalloc_node){ .address = (i * 7919u % NODES + 1) * 4096u, /* none twice */
                                         .bytes = 1 + random % 40,                   /* many alike */
                                         .stream = (uint32_t)(random >> 8) % 3,
                                         .state = BLOCK_FREE };
    block_order_insert(&order, nodes, i);
}

static void test_against_plain_search(void)
{
    size_t held = 0, most = 0, leaves = 0;
    uint64_t random = 11;
    EXPECT_INT(block_order_reserve(&order, NODES, NULL), STATUS_OK);
    for (uint32_t step = 0; step < STEPS; step++) {
        bool growing = step / (STEPS / 4) % 2 == 0;
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        uint64_t drawn = random >> 20;
        uint32_t i = (uint32_t)(drawn % NODES);
        if (nodes[i].state == BLOCK_FREE && (!growing || drawn % 7 == 0)) {
            block_order_remove(&order, nodes, i);
            nodes[i].state = BLOCK_LIVE;
            held--;
        } else if (nodes[i].state != BLOCK_FREE && (growing || drawn % 7 == 0)) {
            insert(i, drawn);
            held++;
        } else if (!growing) {
            uint32_t stream = (uint32_t)(drawn >> 16) % 4;
            uint64_t bytes = (drawn >> 24) % 45;
            uint32_t wanted = plain_best_fit(stream, bytes);
            EXPECT_INT(block_order_take_best_fit(&order, nodes, stream, bytes), wanted);
            if (wanted != BLOCK_NONE) {
                nodes[wanted].state = BLOCK_LIVE;
                held--;
            }
        }
        most = held > most ? held : most;
        leaves = order.count > leaves ? order.count : leaves;
        EXPECT(order.count <= order.capacity);
        if (step % CHECK_EACH == 0 || held < 4) {
            EXPECT(block_order_is_sound(&order, nodes, held));
        }
    }
    EXPECT(most > 20 * BLOCK_LEAF_MAX && leaves > 20 && held < BLOCK_LEAF_MAX);
    for (uint32_t i = 0; i < NODES; i++) {
        if (nodes[i].state == BLOCK_FREE) {
            block_order_remove(&order, nodes, i);
        }
    }
    EXPECT_INT(order.count, 0);
    EXPECT_INT(block_order_take_best_fit(&order, nodes, 0, 0), BLOCK_NONE);
    block_order_free(&order);
}

TEST_MAIN(TEST(test_against_plain_search))
