/* What a collective costs when it runs alone, and what it takes from the machine while it runs.
 *
 * Time = closed form * correction.
 *   closed form  NCCL's own latency and protocol constants (hardware.md D; 6.6-14 us base, per-hop latencies, LL/LL128/Simple, ring, tree, NVLS) with the bus rate that
 *                cluster_ring finds for this very group (DGX-1 rings, NICs really used), plus a fixed part so that the smallest collective of one server takes
 *                machine.collective_latency_s
 *   correction   measured curve of this machine / closed form of that curve's group, interpolated over log(ranks) between the curves there are (an own curve of the
 *                kind; else the all-reduce curve). Below a curve it fades to 1 at 1 KiB, above it holds. No curve: 1.15x between 8 and 256 MiB on NVLink from Ampere on,
 *                falling to 1 at 2 MiB and 1 GiB (hardware.md D.6). Groups over several servers take only curves that span as many.
 * The curve wins over link capacities: coefficients are cut so that the collective alone runs as measured.
 *
 * Devices on the host (machine.gpu.on_host): sim/engine/collective_on_host.h; no uses, DRAM and cores are the caller's to add.
 *
 * `bytes` as nccl-tests counts: the whole buffer (all-gather: what is gathered in total; reduce-scatter: the whole input; all-to-all: one rank's buffer; send/recv: the message).
 * bus_bytes = bytes * 2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter, all-to-all, 1 for broadcast and send/recv.
 *
 * An activity made of it: latency latency_s holding SMs only, then work of bus_bytes at up to bus_bytes/transfer_s, costing `coefficient` units of each use per bus
 * byte. Alone it takes alone_s = latency_s + transfer_s. SMs and HBM are not among the uses: the caller adds them for each member it simulates. */
#ifndef MEMWALL_ENGINE_COLLECTIVE_COST_H
#define MEMWALL_ENGINE_COLLECTIVE_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "hw_models/cluster.h"

struct collective_request {
    enum collective_kind kind;
    double bytes;
    const uint32_t *
        members; /* [instance_count * member_count] global GPUs, instance after instance; send/recv: sender, receiver */
    uint32_t member_count;
    uint32_t
        instance_count; /* 1, or with the sister groups that do the same at the same moment (strided data-parallel groups of one stage): footprint and time
                              * are those of the first instance, with the sisters' load on the resources it uses */
    bool first_node_only; /* folded: list only resources of the first member's server (send/recv: both ends always) */
};

enum collective_algorithm { COLLECTIVE_RING, COLLECTIVE_TREE, COLLECTIVE_IN_SWITCH, COLLECTIVE_DIRECT };

struct collective_cost {
    double alone_s, latency_s, transfer_s;
    double bus_bytes;
    double sm_fraction; /* of each member's SMs */
    double hbm_bytes;   /* of each member, in total */
    double
        fullness; /* how near it comes to what its rings can do, 0 to 1; 0 unless they run on NVLink (or xGMI) inside one server */
    enum collective_algorithm algorithm;
    uint32_t use_count;
};

/* Fills `uses` (at most use_max). A group of one, or no bytes, costs nothing. Errors: STATUS_UNSUPPORTED where the machine has no way, STATUS_LIMIT when use_max is too small. */
enum status collective_cost(const struct cluster *cluster, const struct collective_request *request,
                            struct resource_use *uses, uint32_t use_max, struct collective_cost *cost,
                            struct error *error);
/* Bus bytes per byte for n members. */
double collective_bus_factor(enum collective_kind kind, uint32_t member_count);

#endif
