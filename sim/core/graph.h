/* Directed graphs in compressed rows: order them, or show a cycle. Made for the verifier: some 10 ns an edge.
 *
 * Nodes are 0 .. node_count - 1; edges are (from, to) pairs, repeated ones and loops allowed. No recursion.
 *
 *     TRY(graph_make(&graph, &arena, node_count, edges, edge_count, error));
 *     order = arena_array(&arena, uint32_t, node_count);
 *     if (graph_order(&graph, order, scratch) < node_count) {
 *         length = graph_cycle(&graph, scratch, cycle);          // cycle[0] -> cycle[1] -> ... -> cycle[0]
 *     } */
#ifndef MEMWALL_CORE_GRAPH_H
#define MEMWALL_CORE_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "sim/base/arena.h"
#include "sim/base/status.h"

struct graph_edge {
    uint32_t from, to;
};

struct graph {
    uint32_t node_count;
    /* Edges of node n are target[first[n]] .. target[first[n + 1] - 1], in the order given. */
    uint32_t *first; /* node_count + 1 */
    uint32_t *target;
};

/* Copies the edges into rows in `arena`. At most 2^32 - 2 edges. Asserts that all ends are nodes. STATUS_NO_MEMORY,
 * STATUS_LIMIT. */
enum status graph_make(struct graph *graph, struct arena *arena, uint32_t node_count, const struct graph_edge *edges,
                       size_t edge_count, struct error *error);

static inline uint32_t graph_edge_count(const struct graph *graph)
{
    return graph->first[graph->node_count];
}

/* Every node behind all its forerunners: breadth first from the nodes without any, lower index first, so the order
 * is always the same. Both arrays have node_count items. Returns the number of nodes ordered: fewer than node_count
 * when there is a cycle. O(nodes + edges). */
uint32_t graph_order(const struct graph *graph, uint32_t *order, uint32_t *scratch);

/* After graph_order fell short, with its scratch as it left it: one cycle into `cycle` (node_count items), its least
 * node first; returns its length, >= 1, or 0 when there is none. Destroys scratch. O(nodes + edges). */
uint32_t graph_cycle(const struct graph *graph, uint32_t *scratch, uint32_t *cycle);

#endif
