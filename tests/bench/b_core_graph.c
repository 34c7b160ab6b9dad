/* Building and ordering a graph shaped like a schedule: ranks of queues of ops in order, and dependencies to ops not
 * far away. */
#include "sim/base/check.h"
#include "sim/core/graph.h"
#include "tests/bench/bench.h"

enum { NODES = 500000, QUEUE = 2000, EDGES_MAX = 3 * NODES };

int main(void)
{
    struct graph_edge *edges = malloc(EDGES_MAX * sizeof *edges);
    uint32_t *order = malloc(NODES * sizeof *order), *scratch = malloc(NODES * sizeof *scratch);
    size_t count = 0;
    uint64_t random = 1;
    double build[BENCH_ROUNDS], sort[BENCH_ROUNDS];
    CHECK(edges != NULL && order != NULL && scratch != NULL);
    for (uint32_t n = 0; n < NODES; n++) {
        if (n % QUEUE != 0) {
            edges[count++] = (struct graph_edge){ n - 1, n };
        }
        /* Two dependencies from the same place or earlier in one of the 16 neighbouring queues. */
        for (int d = 0; d < 2 && n >= 16 * QUEUE; d++) {
            uint32_t queue = (uint32_t)(1 + bench_random(&random) % 15), back = (uint32_t)(bench_random(&random) % 64);
            if (n % QUEUE >= back) {
                edges[count++] = (struct graph_edge){ n - queue * QUEUE - back, n };
            }
        }
    }
    for (int r = 0; r < BENCH_ROUNDS; r++) {
        struct arena arena = { 0 };
        struct graph graph;
        double start_s = bench_now_s();
        CHECK(graph_make(&graph, &arena, NODES, edges, count, NULL) == STATUS_OK);
        double middle_s = bench_now_s();
        CHECK(graph_order(&graph, order, scratch) == NODES);
        build[r] = (middle_s - start_s) / (double)count * 1e9;
        sort[r] = (bench_now_s() - middle_s) / (double)count * 1e9;
        arena_free(&arena);
    }
    bench_header("b_core_graph");
    printf("%d nodes, %zu edges: rows %.1f ns, order %.1f ns an edge (target about 10)\n", NODES, count,
           bench_median(build, BENCH_ROUNDS), bench_median(sort, BENCH_ROUNDS));
    free(edges);
    free(order);
    free(scratch);
    return 0;
}
