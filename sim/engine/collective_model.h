/* How long a collective takes by itself: closed form and correction (see collective_cost.h, which is what others call). Private to sim/engine/collective_*.c and its tests. */
#ifndef MEMWALL_ENGINE_COLLECTIVE_MODEL_H
#define MEMWALL_ENGINE_COLLECTIVE_MODEL_H

#include "sim/engine/collective_cost.h"

/* A group as the closed form sees it. */
struct collective_shape {
    enum collective_kind kind;
    uint32_t member_count, node_count, members_per_node; /* the largest */
    double ring_bytes_per_s;                             /* bus rate that links and NICs allow */
};

struct collective_time {
    double latency_s, transfer_s; /* both > 0 */
    enum collective_algorithm algorithm;
};

/* The closed form alone. bytes > 0, member_count > 1. */
struct collective_time collective_closed_form(const struct machine *machine, const struct collective_shape *shape,
                                              double bytes);
/* Closed form and correction. Errors as cluster_ring. */
enum status collective_time(const struct cluster *cluster, const struct collective_shape *shape, double bytes,
                            struct collective_time *time, struct error *error);

#endif
