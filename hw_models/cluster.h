/* The cluster: several servers of one machine model behind their NICs, as a flat array of resources with capacities, and the routes between end points.
 *
 * A resource is anything shared: one direction of a link, the sum of both directions of a PCIe link, a DRAM, HBM of a GPU, its SMs, CPU cores of a socket,
 * a drive. Capacities are bytes/s (or 1.0 = "all SMs", or cores). Routes and footprints are lists of (resource, coefficient): one unit of payload costs
 * `coefficient` units of the resource.
 *
 * GPUs are numbered globally: gpu = node * gpus_per_node + local index. All arrays live in the cluster's arena. Knows rates, no time.
 *
 * On a machine whose devices are threads of the host (machine.gpu.on_host) a device's memory is its socket's DRAM, and a copy is one core's memcpy: 2 B of DRAM a
 * byte, one core all the time, at most the rate measured for its link (machine file) in that direction; two copies at once are two threads. */
#ifndef MEMWALL_HW_MODELS_CLUSTER_H
#define MEMWALL_HW_MODELS_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hw_models/machine.h"

#define RESOURCE_TABLE(X)                                                                                              \
    X(RESOURCE_SM, "sm")               /* capacity 1: fraction of the GPU's multiprocessors */                         \
    X(RESOURCE_HBM, "hbm")             /* bytes/s */                                                                   \
    X(RESOURCE_LINK, "link")           /* one direction of a link, bytes/s */                                          \
    X(RESOURCE_LINK_BOTH, "link_both") /* both directions of a link together, bytes/s */                               \
    X(RESOURCE_FABRIC, "fabric")       /* a GPU's egress or ingress into the NVSwitch fabric, bytes/s */               \
    X(RESOURCE_NIC, "nic")             /* one direction of a NIC, bytes/s */                                           \
    X(RESOURCE_DRAM, "dram")           /* half duplex, bytes/s, per socket */                                          \
    X(RESOURCE_CORES, "cores")         /* CPU cores of a socket */                                                     \
    X(RESOURCE_DRIVE, "drive")         /* capacity 1: busy fraction (reads and writes have their own rates) */

enum resource_kind {
#define X(name, word) name,
    RESOURCE_TABLE(X)
#undef X
        RESOURCE_KIND_COUNT
};

struct resource {
    enum resource_kind kind;
    uint32_t node; /* server */
    double capacity;
    const char *name; /* without the server: "plx0>gpu1"; cluster_resource_name adds "node3/" */
};

struct resource_use {
    uint32_t resource;
    double coefficient; /* > 0 */
};

enum { ROUTE_USES_MAX = 32 };

struct route {
    struct resource_use uses[ROUTE_USES_MAX];
    uint32_t use_count;
    double latency_s;
    double rate_cap_bytes_per_s; /* alone: the narrowest effective link or engine */
};

enum endpoint_kind { ENDPOINT_GPU, ENDPOINT_HOST, ENDPOINT_STORAGE };
struct endpoint {
    enum endpoint_kind kind;
    uint32_t index; /* GPU: global number. HOST: node * sockets + socket. STORAGE: node * drives + drive */
};

struct cluster_map; /* private: one server's topology in resource numbers */

struct cluster {
    const struct machine *machine;       /* borrowed: must outlive the cluster */
    uint32_t nodes, gpus_per_node, gpus; /* gpus <= nodes * gpus_per_node are used */
    uint32_t sockets, drives, nics;      /* per node */
    struct resource *resources;
    uint32_t resource_count, resources_per_node;
    const struct cluster_map *map;
    struct arena arena;
};

/* `gpus` = 0: all of them. A server's names and topology are shared by all servers: 1,250 of them cost about 5 MB and 3 ms. Errors: more GPUs than the nodes hold; nodes > 1 without a NIC (names what is missing). */
enum status cluster_build(struct cluster *cluster, const struct machine *machine, uint32_t nodes, uint32_t gpus,
                          struct error *error);
void cluster_free(struct cluster *cluster);

/* Resource ids. */
uint32_t cluster_sm(const struct cluster *cluster, uint32_t gpu);
uint32_t cluster_hbm(const struct cluster *cluster, uint32_t gpu); /* on host: the DRAM of its socket */
uint32_t cluster_dram(const struct cluster *cluster, uint32_t node, uint32_t socket);
uint32_t cluster_cores(const struct cluster *cluster, uint32_t node, uint32_t socket);
/* How many there are; the resource's capacity is what they are worth together, counted in cores that run alone (machine.cores_together). */
double cluster_core_count(const struct cluster *cluster, uint32_t node, uint32_t socket);
uint32_t cluster_gpu_socket(const struct cluster *cluster, uint32_t gpu); /* nearest socket, 0.. within its node */
/* The memory of that socket, as an end of copies. */
struct endpoint cluster_gpu_host(const struct cluster *cluster, uint32_t gpu);
/* Of the memory that hangs on a socket of each server. */
double cluster_socket_bytes(const struct cluster *cluster, uint32_t socket);
/* "node0/plx0>gpu1" in `buffer`. */
const char *cluster_resource_name(const struct cluster *cluster, uint32_t resource, char *buffer, size_t size);

/* The way of a copy: GPU-host (pinned or pageable), GPU-GPU (peer over NVLink, PCIe, through the host, or over the network), host-storage. HBM, links, both-direction limits,
 * DRAM and inter-socket links included. STATUS_UNSUPPORTED when the machine has no such way. */
enum status cluster_route(const struct cluster *cluster, struct endpoint from, struct endpoint to, bool pageable,
                          struct route *route, struct error *error);

/* What a ring over `members` (in rank order, each once) occupies, per byte of *bus* traffic (nccl-tests' busbw): directed links, fabric ports, NICs really used, not SMs or HBM.
 *   one server, NVSwitch     1 B in and out of each member's fabric port
 *   one server, direct links as many edge-disjoint rings as the lanes among the members allow (DGX-1: 1 on an NV1 pair, 2 on an NV2 pair, 6 on all eight); when no ring
 *                            closes, one pair of rings that hops over a neighbour; when there is none, the host
 *   one server, PCIe only    each hop directly under a switch (machine.gpu.pcie_peer) or through host memory (2 B of DRAM per byte)
 *   devices on the host      nothing of its own; cap: the machine's nccl.bus_GBps
 *   several servers          each server with k members takes 1 B in and out, spread over the NICs of those k members (1/k each), (k-1)/k of it inside
 * `rate_cap` is the ring's own limit (bus bytes/s) from links and NCCL's per-lane rate. Appends to uses (at most `use_max`; more is STATUS_LIMIT). `first_node_only`: list
 * only resources of the first member's server (folded groups: the others are mirror images); the cap still covers all. A group of one uses nothing, cap infinite.
 * Searching rings on direct links costs up to a millisecond for 16 GPUs: call once per group, not per operation. */
enum status cluster_ring(const struct cluster *cluster, const uint32_t *members, uint32_t member_count,
                         bool first_node_only, struct resource_use *uses, uint32_t use_max, uint32_t *use_count,
                         double *rate_cap_bytes_per_s, struct error *error);
/* The same for the resources of one server `node` (CLUSTER_ALL_NODES: all). */
#define CLUSTER_ALL_NODES UINT32_MAX
enum status cluster_ring_on_node(const struct cluster *cluster, const uint32_t *members, uint32_t member_count,
                                 uint32_t node, struct resource_use *uses, uint32_t use_max, uint32_t *use_count,
                                 double *rate_cap_bytes_per_s, struct error *error);
/* All-to-all among `members`, every pair at once: per byte of bus traffic each member sends 1/(n-1) B to every other. Same conventions. */
enum status cluster_all_to_all_on_node(const struct cluster *cluster, const uint32_t *members, uint32_t member_count,
                                       uint32_t node, struct resource_use *uses, uint32_t use_max, uint32_t *use_count,
                                       double *rate_cap_bytes_per_s, struct error *error);
/* The largest rate that the resources allow to a single user: min of capacity / coefficient; infinite without uses. */
double cluster_uses_rate(const struct cluster *cluster, const struct resource_use *uses, uint32_t use_count);
/* Servers spanned, and the largest number of members in one server. */
void cluster_group_span(const struct cluster *cluster, const uint32_t *members, uint32_t member_count,
                        uint32_t *node_count, uint32_t *members_per_node_max);

#endif
