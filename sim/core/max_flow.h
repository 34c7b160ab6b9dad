/* Maximum flow, which is the minimum cut: Dinic's algorithm, O(V^2 E) at worst.
 *
 *     const struct flow_edge edges[] = { { 0, 1, 5 }, { 1, 2, 3 } };
 *     TRY(max_flow(3, edges, 2, 0, 2, &flow, error));      // 3
 *
 * Capacities are integers, at most FLOW_UNLIMITED: more than any flow. tests/t_core_max_flow.c has the slow twin. */
#ifndef MEMWALL_CORE_MAX_FLOW_H
#define MEMWALL_CORE_MAX_FLOW_H

#include <stdint.h>

#include "sim/base/status.h"

#define FLOW_UNLIMITED (UINT64_C(1) << 63)

struct flow_edge {
    uint32_t from, to;
    uint64_t capacity;
};

/* From `source` to another node `sink`, in *flow. What leaves the source sums to less than FLOW_UNLIMITED; fewer than 2^30 edges (both assert). STATUS_NO_MEMORY. */
enum status max_flow(uint32_t node_count, const struct flow_edge *edges, uint32_t edge_count, uint32_t source,
                     uint32_t sink, uint64_t *flow, struct error *error);

#endif
