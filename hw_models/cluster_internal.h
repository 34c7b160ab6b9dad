/* The map behind a cluster: one server's topology, turned into local resource numbers once, so that routes and rings are table look-ups. Private to
 * hw_models/cluster*.c. All servers of a cluster share one map: resource = node * resources_per_node + local number.
 *
 * PCIe (and C2C, xGMI-host) is taken as a tree under the CPU sockets: every GPU, NIC and drive has one parent link, so that a way between two parts is "up to the common
 * ancestor, then down"; ways between sockets follow the shortest chain of socket links. GPU-to-GPU NVLink/xGMI links are a matrix of their own. */
#ifndef MEMWALL_HW_MODELS_CLUSTER_INTERNAL_H
#define MEMWALL_HW_MODELS_CLUSTER_INTERNAL_H

#include "hw_models/cluster.h"

#define CLUSTER_NONE UINT32_MAX

struct cluster_part_map {
    uint32_t parent_link, parent; /* towards the CPU; CLUSTER_NONE for a CPU and for parts outside the tree */
    uint32_t depth;               /* hops to the CPU */
    uint32_t socket;              /* nearest */
};

struct cluster_link_map {
    uint32_t
        forward; /* local resource of direction a->b; b->a is forward + 1; CLUSTER_NONE: the link is no resource of its own (DDR, NVSwitch ports) */
    uint32_t both; /* sum of both directions, or CLUSTER_NONE */
};

struct cluster_map {
    struct cluster_part_map *parts; /* by machine part */
    struct cluster_link_map *links; /* by machine link */
    uint32_t *gpu_parts, *nic_parts, *drive_parts, *socket_parts;
    uint32_t *socket_next;   /* [from * sockets + to]: link to take, CLUSTER_NONE when there is no way */
    uint32_t *gpu_pair_link; /* [a * gpus + b]: the direct link, or CLUSTER_NONE */
    uint32_t *gpu_lanes;     /* NVLink/xGMI lanes of each GPU, direct and to switches */
    uint32_t *gpu_fabric;    /* local resource of egress, ingress is +1; CLUSTER_NONE: not on an NVSwitch */
    uint32_t *gpu_nic_start; /* [gpus + 1] into gpu_nics */
    uint32_t *gpu_nics; /* compute NICs each GPU sends through, nearest first, shared out among GPUs equally near */
    uint32_t first_hbm; /* CLUSTER_NONE: devices on the host have no memory of their own */
    uint32_t first_dram, first_cores, first_drive, first_nic; /* local resources; NIC n: out first_nic + 2n, in + 1 */
    double fabric_hop_s;                                      /* latency of one hop between a GPU and an NVSwitch */
    double lane_bytes_per_s;                                  /* what a collective gets of one lane, one direction */
};

/* Growing list of uses with the resources of one server merged: entries before `merge_from` are left alone. */
struct cluster_uses {
    struct resource_use *items;
    uint32_t count, max, merge_from;
    bool overflow;
};

void cluster_use_add(struct cluster_uses *uses, uint32_t resource, double coefficient);
/* Every link between two parts of one server, with its both-directions limit; latency is added to *latency_s. False when there is no way.
 * *through_cpu says whether the way passes a CPU socket. */
bool cluster_way(const struct cluster *cluster, uint32_t node, uint32_t from_part, uint32_t to_part, double coefficient,
                 struct cluster_uses *uses, double *latency_s, bool *through_cpu);
/* From a GPU to its NIC (or back), DRAM included when the way passes a CPU. */
bool cluster_nic_way(const struct cluster *cluster, uint32_t gpu, uint32_t nic, bool outward, double coefficient,
                     struct cluster_uses *uses, double *latency_s);
/* GPU to GPU inside one server, HBM not included. */
bool cluster_peer_way(const struct cluster *cluster, uint32_t from_gpu, uint32_t to_gpu, double coefficient,
                      struct cluster_uses *uses, double *latency_s, bool *bounced);
#endif
