#include "sim/core/graph.h"

#include "sim/base/check.h"

enum status graph_make(struct graph *graph, struct arena *arena, uint32_t node_count, const struct graph_edge *edges,
                       size_t edge_count, struct error *error)
{
    if (edge_count >= UINT32_MAX || node_count == UINT32_MAX) {
        return error_set(error, STATUS_LIMIT, "a graph of %u nodes and %zu edges is too large", node_count, edge_count);
    }
    *graph = (struct graph){ .node_count = node_count };
    /* One spare item in front: see below. */
    uint32_t *first = arena_array(arena, uint32_t, (size_t)node_count + 2);
    graph->target = arena_array(arena, uint32_t, edge_count);
    if (first == NULL || graph->target == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: a graph of %u nodes and %zu edges", node_count,
                         edge_count);
    }
    /* Count each row two places further on, sum up, and place the edges while each row's start moves to the next
     * row's: what was counted at n + 2 ends up as the start of row n + 1 at n + 1. */
    for (size_t e = 0; e < edge_count; e++) {
        CHECK(edges[e].from < node_count && edges[e].to < node_count);
        first[edges[e].from + 2]++;
    }
    for (uint32_t n = 0; n < node_count; n++) {
        first[n + 2] += first[n + 1];
    }
    for (size_t e = 0; e < edge_count; e++) {
        graph->target[first[edges[e].from + 1]++] = edges[e].to;
    }
    graph->first = first;
    return STATUS_OK;
}

uint32_t graph_order(const struct graph *graph, uint32_t *order, uint32_t *scratch)
{
    uint32_t *waits_for = scratch; /* forerunners not ordered yet */
    uint32_t ordered = 0, end = 0, edge_count = graph_edge_count(graph);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        waits_for[n] = 0;
    }
    for (uint32_t e = 0; e < edge_count; e++) {
        waits_for[graph->target[e]]++;
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (waits_for[n] == 0) {
            order[end++] = n;
        }
    }
    for (; ordered < end; ordered++) {
        uint32_t n = order[ordered];
        for (uint32_t e = graph->first[n]; e < graph->first[n + 1]; e++) {
            uint32_t to = graph->target[e];
            order[end] = to; /* without a branch; the place is there: `to` at least is not in the order yet */
            end += --waits_for[to] == 0;
        }
    }
    return ordered;
}

uint32_t graph_cycle(const struct graph *graph, uint32_t *scratch, uint32_t *cycle)
{
    /* Every node left over has a forerunner left over, so walking from one to the next such forerunner must come
     * back to a node. First turn the counts into forerunners: of each node left over the least one left over. */
    const uint32_t none = UINT32_MAX;
    uint32_t *forerunner = scratch, start = none;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        forerunner[n] = scratch[n] == 0 ? none : graph->node_count; /* ordered : left over, forerunner not known yet */
        start = start == none && forerunner[n] != none ? n : start;
    }
    if (start == none) {
        return 0;
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t e = graph->first[n]; forerunner[n] != none && e < graph->first[n + 1]; e++) {
            uint32_t to = graph->target[e];
            forerunner[to] = forerunner[to] == graph->node_count ? n : forerunner[to];
        }
    }
    /* Two walkers, one twice as fast: they meet on the cycle. */
    uint32_t slow = start, fast = start;
    do {
        slow = forerunner[slow];
        fast = forerunner[forerunner[fast]];
    } while (slow != fast);
    uint32_t length = 0, least = slow;
    do {
        slow = forerunner[slow];
        least = slow < least ? slow : least;
        length++;
    } while (slow != fast);
    /* Forerunners run against the edges: fill from the back, with the least node in front. */
    slow = least;
    for (uint32_t i = length; i-- > 0;) {
        slow = forerunner[slow];
        cycle[i] = slow;
    }
    return length;
}
