#include "sim/core/max_flow.h"

#include <stdbool.h>
#include <stdlib.h>

#include "sim/base/check.h"

enum { UNREACHED = UINT32_MAX };

/* Arc 2i is edge i, arc 2i + 1 its way back. */
struct network {
    uint64_t *left;   /* [2 * edges]: what an arc can still carry */
    uint32_t *target; /* [2 * edges] */
    uint32_t *arcs;   /* [2 * edges]: by the node that they leave */
    uint32_t *first;  /* [nodes + 1]: into arcs */
    uint32_t *at;     /* [nodes]: the next of its arcs to try */
    uint32_t *level;  /* [nodes]: arcs from the source */
    uint32_t *stack;  /* [nodes]: nodes to look at, then the arcs of a way */
    uint32_t node_count, edge_count, source, sink;
};

static void network_free(struct network *n)
{
    free(n->left);
    free(n->target);
    free(n->arcs);
    free(n->first);
    free(n->at);
    free(n->level);
    free(n->stack);
}

static enum status network_make(struct network *n, const struct flow_edge *edges, struct error *error)
{
    size_t nodes = n->node_count, arcs = 2 * (size_t)n->edge_count;
    n->left = calloc(arcs + 1, sizeof *n->left);
    n->target = calloc(arcs + 1, sizeof *n->target);
    n->arcs = calloc(arcs + 1, sizeof *n->arcs);
    n->first = calloc(nodes + 1, sizeof *n->first);
    n->at = calloc(nodes, sizeof *n->at);
    n->level = calloc(nodes, sizeof *n->level);
    n->stack = calloc(nodes, sizeof *n->stack);
    if (n->left == NULL || n->target == NULL || n->arcs == NULL || n->first == NULL || n->at == NULL ||
        n->level == NULL || n->stack == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for a network of %u nodes", n->node_count);
    }
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n->edge_count; i++) {
        CHECK(edges[i].from < n->node_count && edges[i].to < n->node_count && edges[i].capacity <= FLOW_UNLIMITED);
        n->left[2 * i] = edges[i].capacity;
        n->target[2 * i] = edges[i].to;
        n->target[2 * i + 1] = edges[i].from;
        n->first[edges[i].from + 1]++;
        n->first[edges[i].to + 1]++;
        if (edges[i].from == n->source) {
            CHECK(edges[i].capacity < FLOW_UNLIMITED - sum);
            sum += edges[i].capacity;
        }
    }
    for (uint32_t i = 0; i < n->node_count; i++) {
        n->first[i + 1] += n->first[i];
        n->at[i] = n->first[i];
    }
    for (uint32_t arc = 0; arc < arcs; arc++) {
        n->arcs[n->at[n->target[arc ^ 1]]++] = arc;
    }
    return STATUS_OK;
}

/* Levels by breadth; false when the sink is out of reach. */
static bool find_levels(struct network *n)
{
    uint32_t head = 0, tail = 0;
    for (uint32_t i = 0; i < n->node_count; i++) {
        n->level[i] = UNREACHED;
        n->at[i] = n->first[i];
    }
    n->level[n->source] = 0;
    n->stack[tail++] = n->source;
    while (head < tail) {
        uint32_t node = n->stack[head++];
        for (uint32_t i = n->first[node]; i < n->first[node + 1]; i++) {
            uint32_t arc = n->arcs[i], to = n->target[arc];
            if (n->left[arc] > 0 && n->level[to] == UNREACHED) {
                n->level[to] = n->level[node] + 1;
                n->stack[tail++] = to;
            }
        }
    }
    return n->level[n->sink] != UNREACHED;
}

/* Sends what the way of `depth` arcs on the stack can carry; returns how many of its arcs stand before the first that is then full. */
static uint32_t send(struct network *n, uint32_t depth, uint64_t *flow)
{
    uint64_t most = FLOW_UNLIMITED;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < depth; i++) {
        most = n->left[n->stack[i]] < most ? n->left[n->stack[i]] : most;
    }
    CHECK(most < FLOW_UNLIMITED);
    for (uint32_t i = depth; i-- > 0;) {
        n->left[n->stack[i]] -= most;
        n->left[n->stack[i] ^ 1] += most;
        kept = n->left[n->stack[i]] == 0 ? i : kept;
    }
    *flow += most;
    return kept;
}

/* All flow that goes one level further with each arc. An arc that led nowhere is not tried again. */
static void fill_levels(struct network *n, uint64_t *flow)
{
    uint32_t depth = 0, node = n->source;
    for (;;) {
        if (node == n->sink) {
            depth = send(n, depth, flow);
            node = n->target[n->stack[depth] ^ 1];
        }
        uint32_t arc = 0;
        while (n->at[node] < n->first[node + 1]) {
            arc = n->arcs[n->at[node]];
            if (n->left[arc] > 0 && n->level[n->target[arc]] == n->level[node] + 1) {
                break;
            }
            n->at[node]++;
        }
        if (n->at[node] < n->first[node + 1]) {
            n->stack[depth++] = arc;
            node = n->target[arc];
        } else if (depth > 0) {
            node = n->target[n->stack[--depth] ^ 1];
            n->at[node]++;
        } else {
            return;
        }
    }
}

enum status max_flow(uint32_t node_count, const struct flow_edge *edges, uint32_t edge_count, uint32_t source,
                     uint32_t sink, uint64_t *flow, struct error *error)
{
    CHECK(source < node_count && sink < node_count && source != sink && edge_count < UINT32_C(1) << 30);
    struct network n = { .node_count = node_count, .edge_count = edge_count, .source = source, .sink = sink };
    *flow = 0;
    enum status status = network_make(&n, edges, error);
    while (status == STATUS_OK && find_levels(&n)) {
        fill_levels(&n, flow);
    }
    network_free(&n);
    return status;
}
