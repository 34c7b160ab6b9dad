#include "sim/engine/collective_model.h"

#include <math.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"

/* NCCL's constants (source facts in hardware.md D.1-D.3): latencies in microseconds, rates in GB/s. */
enum protocol { PROTOCOL_LL, PROTOCOL_LL128, PROTOCOL_SIMPLE, PROTOCOL_COUNT };
enum hop { HOP_NVLINK, HOP_PCI, HOP_NET, HOP_COUNT };
static const double RING_BASE_US[PROTOCOL_COUNT] = { 6.6, 14.0, 8.4 };
static const double TREE_BASE_US[PROTOCOL_COUNT] = { 6.8, 14.0, 8.4 };
static const double RING_HOP_US[HOP_COUNT][PROTOCOL_COUNT] = { { 0.6, 1.9, 3.4 },
                                                               { 1.0, 2.5, 5.7 },
                                                               { 2.7, 4.0, 14.0 } };
static const double TREE_HOP_US[HOP_COUNT][PROTOCOL_COUNT] = { { 0.6, 1.25, 4.0 },
                                                               { 1.0, 1.9, 4.0 },
                                                               { 5.0, 8.5, 14.0 } };
static const double NVLS_US = 25.0, NVLS_TREE_NET_US = 20.9;
enum generation { GENERATION_VOLTA, GENERATION_AMPERE, GENERATION_HOPPER, GENERATION_BLACKWELL, GENERATION_COUNT };
static const double LL_MAX_GB_PER_S[GENERATION_COUNT][3] = {
    { 39, 39, 20.4 }, { 87.7, 22.5, 19 }, { 141, 45, 35 }, { 282, 90, 70 }
}; /* 1, 2, more nodes */
static const double LL_SHARE = 0.5, LL128_SHARE = 0.92, TREE_SHARE = 0.92, TREE_LL_DIVISOR = 3.8;
static const double TREE_LL128_NODE_SHARE = 7.0 / 9.0, TREE_LL128_NET_SHARE = 120.0 / 128.0;
static const double NVLS_EFFICIENCY_HOPPER = 0.85, NVLS_EFFICIENCY_BLACKWELL = 0.74;
/* Tree rate correction for 64 B, 128 B ... 512 MiB. */
static const double TREE_CORRECTION[PROTOCOL_COUNT][24] = {
    { 1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1 },
    { 1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .7, .8, .9, .9, .9, .9, 1, 1 },
    { .9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9 },
};
/* Rings over the network with the Simple protocol have longer hops for long messages (factors: D.3); measured all-gathers on 16 to 128 servers jump there at 128 KiB a rank, and
 * below it take 3.5 times the LL and 1.8 times the LL128 hops of the table (SimAI's nic ratios, 8 x 400 Gb/s a server). */
static const double NET_PLATEAU_VOLTA = 1.9, NET_PLATEAU = 1.4, NET_PLATEAU_BYTES = 131072;
static const double NET_LOW_LATENCY_FACTORS[PROTOCOL_COUNT] = { 3.5, 1.8, 1 };
/* Direct exchanges against rings: all-to-all 340 of 368 GB/s on 8x H100 [hardware.md C.3, C.4]; send/recv 195 of 235 GB/s on A100 [C.4]. */
static const double ALL_TO_ALL_SHARE = 0.92, SEND_RECV_SHARE = 0.83;

static enum generation generation_of(const struct machine *machine)
{
    static const struct {
        const char *word;
        enum generation generation;
    } WORDS[] = { { "Volta", GENERATION_VOLTA },
                  { "Turing", GENERATION_VOLTA },
                  { "Pascal", GENERATION_VOLTA },
                  { "Hopper", GENERATION_HOPPER },
                  { "Blackwell", GENERATION_BLACKWELL } };
    for (size_t i = 0; machine->gpu.architecture != NULL && i < sizeof WORDS / sizeof WORDS[0]; i++) {
        if (strstr(machine->gpu.architecture, WORDS[i].word) != NULL) {
            return WORDS[i].generation;
        }
    }
    return GENERATION_AMPERE; /* Ampere, Ada, and NCCL's row for AMD hosts */
}

static bool has_nvlink(const struct machine *machine)
{
    for (uint32_t l = 0; l < machine->link_count; l++) {
        const struct machine_link *link = &machine->links[l];
        bool gpu = machine->parts[link->a].kind == PART_GPU || machine->parts[link->b].kind == PART_GPU;
        bool peer = machine->parts[link->a].kind == PART_NVSWITCH || machine->parts[link->b].kind == PART_NVSWITCH ||
                    (machine->parts[link->a].kind == PART_GPU && machine->parts[link->b].kind == PART_GPU);
        if (gpu && peer) {
            return true;
        }
    }
    return false;
}

static void keep_faster(struct collective_time *best, double latency_us, double bytes, double rate,
                        enum collective_algorithm algorithm)
{
    double latency_s = latency_us * 1e-6, transfer_s = bytes / rate;
    if (latency_s + transfer_s < best->latency_s + best->transfer_s) {
        *best = (struct collective_time){ latency_s, transfer_s, algorithm };
    }
}

static double tree_correction(enum protocol protocol, double bytes)
{
    double position = fmin(fmax(log2(bytes / 64), 0), 23);
    uint32_t at = position >= 22 ? 22 : (uint32_t)position;
    double part = position - at;
    return TREE_CORRECTION[protocol][at] * (1 - part) + TREE_CORRECTION[protocol][at + 1] * part;
}

static void try_rings(const struct machine *machine, const struct collective_shape *shape, double bytes, enum hop hop,
                      struct collective_time *best)
{
    enum generation generation = generation_of(machine);
    double rounds = shape->kind == COLLECTIVE_ALL_REDUCE ? 2 : 1;
    double net_hops = rounds * (shape->node_count - 1.0), hops = rounds * (shape->member_count - 1.0) - net_hops;
    double bus_bytes = bytes * collective_bus_factor(shape->kind, shape->member_count);
    double ll_max = LL_MAX_GB_PER_S[generation][shape->node_count < 3 ? shape->node_count - 1 : 2] * 1e9;
    double rates[PROTOCOL_COUNT] = { fmin(LL_SHARE * shape->ring_bytes_per_s, ll_max),
                                     LL128_SHARE * shape->ring_bytes_per_s, shape->ring_bytes_per_s };
    for (int p = 0; p < PROTOCOL_COUNT; p++) {
        if (p == PROTOCOL_LL128 && hop != HOP_NVLINK) {
            continue;
        }
        double hops_us = hops * RING_HOP_US[hop][p] + net_hops * RING_HOP_US[HOP_NET][p];
        if (shape->node_count > 1 && p != PROTOCOL_SIMPLE) {
            hops_us *= NET_LOW_LATENCY_FACTORS[p];
        } else if (shape->node_count > 1) {
            hops_us *= bytes < NET_PLATEAU_BYTES * shape->member_count ? 1
                       : generation == GENERATION_VOLTA                ? NET_PLATEAU_VOLTA
                                                                       : NET_PLATEAU;
        }
        keep_faster(best, RING_BASE_US[p] + hops_us, bus_bytes, rates[p], COLLECTIVE_RING);
    }
}

static void try_trees(const struct machine *machine, const struct collective_shape *shape, double bytes, enum hop hop,
                      struct collective_time *best)
{
    double depth = log2(shape->node_count), bus = TREE_SHARE * shape->ring_bytes_per_s;
    enum generation generation = generation_of(machine);
    double ll_max = LL_MAX_GB_PER_S[generation][shape->node_count < 3 ? shape->node_count - 1 : 2] * 1e9;
    double rates[PROTOCOL_COUNT] = { fmin(bus / TREE_LL_DIVISOR, ll_max),
                                     bus * (shape->node_count == 1 ? TREE_LL128_NODE_SHARE : TREE_LL128_NET_SHARE),
                                     bus };
    for (int p = 0; p < PROTOCOL_COUNT; p++) {
        if (p == PROTOCOL_LL128 && hop != HOP_NVLINK) {
            continue;
        }
        double latency_us = TREE_BASE_US[p] + 2 * ((shape->members_per_node - 1.0) * TREE_HOP_US[hop][p] +
                                                   depth * TREE_HOP_US[HOP_NET][p]);
        keep_faster(best, latency_us, 2 * bytes, rates[p] * tree_correction((enum protocol)p, bytes), COLLECTIVE_TREE);
    }
}

/* All-reduce in the NVSwitches: each byte crosses a GPU's port (n+1)/n times each way. */
static void try_in_switch(const struct machine *machine, const struct collective_shape *shape, double bytes,
                          struct collective_time *best)
{
    double efficiency =
        generation_of(machine) == GENERATION_BLACKWELL ? NVLS_EFFICIENCY_BLACKWELL : NVLS_EFFICIENCY_HOPPER;
    double port = 0, n = shape->member_count;
    for (uint32_t l = 0; l < machine->link_count; l++) {
        const struct machine_link *link = &machine->links[l];
        const struct machine_part *a = &machine->parts[link->a], *b = &machine->parts[link->b];
        if ((a->kind == PART_GPU && a->index == 0 && b->kind == PART_NVSWITCH) ||
            (b->kind == PART_GPU && b->index == 0 && a->kind == PART_NVSWITCH)) {
            port += link->bytes_per_s;
        }
    }
    double bus = efficiency * port * 2 * (n - 1) / (n + 1);
    double bus_bytes = bytes * collective_bus_factor(shape->kind, shape->member_count);
    if (port > 0 && n > 2 && shape->node_count == 1) {
        keep_faster(best, NVLS_US, bus_bytes, bus, COLLECTIVE_IN_SWITCH);
    } else if (port > 0 && shape->members_per_node > 2 && shape->node_count > 1) {
        keep_faster(best, NVLS_US + 2 * log2(shape->node_count) * NVLS_TREE_NET_US, bus_bytes,
                    fmin(bus, shape->ring_bytes_per_s), COLLECTIVE_TREE);
    }
}

static struct collective_time direct_exchange(const struct machine *machine, const struct collective_shape *shape,
                                              double bytes, enum hop hop)
{
    enum hop far = shape->node_count > 1 ? HOP_NET : hop;
    double machine_cap = machine->nvlink_collective_bytes_per_s;
    double rate = shape->ring_bytes_per_s;
    if (shape->kind == COLLECTIVE_ALL_TO_ALL) {
        rate *= shape->node_count == 1 ? ALL_TO_ALL_SHARE : 1;
    } else if (shape->node_count == 1 && hop == HOP_NVLINK && machine_cap > 0) {
        rate = fmin(rate, SEND_RECV_SHARE * machine_cap);
    }
    double network_s = shape->node_count > 1 ? machine->network_latency_s : 0;
    return (struct collective_time){ (RING_BASE_US[PROTOCOL_SIMPLE] + RING_HOP_US[far][PROTOCOL_SIMPLE]) * 1e-6 +
                                         network_s,
                                     bytes * collective_bus_factor(shape->kind, shape->member_count) / rate,
                                     COLLECTIVE_DIRECT };
}

static struct collective_time uncorrected(const struct machine *machine, const struct collective_shape *shape,
                                          double bytes)
{
    enum hop hop = has_nvlink(machine) ? HOP_NVLINK : HOP_PCI;
    if (shape->kind == COLLECTIVE_ALL_TO_ALL || shape->kind == COLLECTIVE_SEND_RECV) {
        return direct_exchange(machine, shape, bytes, hop);
    }
    struct collective_time best = { .latency_s = INFINITY };
    try_rings(machine, shape, bytes, hop, &best);
    if (shape->kind == COLLECTIVE_ALL_REDUCE) {
        try_trees(machine, shape, bytes, hop, &best);
        if (machine->in_switch_reduction) {
            try_in_switch(machine, shape, bytes, &best);
        }
    }
    return best;
}

struct collective_time collective_closed_form(const struct machine *machine, const struct collective_shape *shape,
                                              double bytes)
{
    struct collective_time time = uncorrected(machine, shape, bytes);
    if (shape->kind == COLLECTIVE_SEND_RECV || machine->gpu_count < 2) {
        return time;
    }
    /* What every collective costs beyond NCCL's own figures, so that the smallest all-reduce of a whole server takes what the machine file says. */
    struct collective_shape server = { COLLECTIVE_ALL_REDUCE, machine->gpu_count, 1, machine->gpu_count, INFINITY };
    struct collective_time smallest = uncorrected(machine, &server, 8);
    time.latency_s += fmax(0, machine->collective_latency_s - smallest.latency_s);
    return time;
}

/* Without a measured curve: mid-size messages over NVLink from Ampere on are slower than NCCL's figures, by 1.05 to 1.3 (hardware.md D.6, vTrain's table); V100 are not. Linear
 * in log(bytes) from 1 at 2 MiB to the factor from 8 to 256 MiB, to 1 at 1 GiB. */
static const double MID_SIZE_EXCESS = 0.15;

static double mid_size_factor(const struct machine *machine, double bytes)
{
    if (generation_of(machine) == GENERATION_VOLTA || !has_nvlink(machine)) {
        return 1;
    }
    double rise = log(bytes / (2 * MIB)) / log(4), fall = log(1024 * MIB / bytes) / log(4);
    return 1 + MID_SIZE_EXCESS * fmin(1, fmax(0, fmin(rise, fall)));
}

enum { SMALLEST_CURVE_BYTES = 1024, CURVE_RANKS_MAX = 4096 };

/* Measured time / closed form for the group of one curve, at `bytes`. The group of a curve is the first so many GPUs of the server(s). */
static enum status curve_ratio(const struct cluster *cluster, const struct machine_collective_curve *curve,
                               double ring_bytes_per_s, double bytes, double *ratio, struct error *error)
{
    uint32_t per_node = (curve->ranks + curve->nodes - 1) / curve->nodes, members[CURVE_RANKS_MAX];
    struct collective_shape shape = { curve->kind, curve->ranks, curve->nodes, per_node, INFINITY };
    struct resource_use none[1];
    uint32_t used = 0,
             nowhere = cluster->nodes; /* a server that holds no member: nothing is listed, only the cap comes back */
    CHECK(curve->ranks <= CURVE_RANKS_MAX && curve->nodes <= cluster->nodes && per_node <= cluster->gpus_per_node);
    for (uint32_t i = 0; i < curve->ranks; i++) {
        members[i] = i / per_node * cluster->gpus_per_node + i % per_node;
    }
    if (curve->kind == COLLECTIVE_ALL_TO_ALL) {
        TRY(cluster_all_to_all_on_node(cluster, members, curve->ranks, nowhere, none, 0, &used, &shape.ring_bytes_per_s,
                                       error));
    } else if (curve->kind == COLLECTIVE_SEND_RECV) {
        shape.ring_bytes_per_s = ring_bytes_per_s; /* of the pair asked about: one curve serves all pairs alike */
    } else {
        TRY(cluster_ring_on_node(cluster, members, curve->ranks, nowhere, none, 0, &used, &shape.ring_bytes_per_s,
                                 error));
    }
    double first = curve->curve.count > 0 ? exp(curve->curve.x[0]) : bytes;
    double at = fmax(bytes, first);
    struct collective_time form = collective_closed_form(cluster->machine, &shape, at);
    double measured_s = at * collective_bus_factor(curve->kind, curve->ranks) / curve_at(&curve->curve, at);
    double log_ratio = log(measured_s / (form.latency_s + form.transfer_s));
    if (bytes < first && first > SMALLEST_CURVE_BYTES) {
        log_ratio *= fmax(0, log(bytes / SMALLEST_CURVE_BYTES)) / log(first / SMALLEST_CURVE_BYTES);
    }
    *ratio = exp(log_ratio);
    return STATUS_OK;
}

/* The curves next to `ranks`, at or below and at or above, of this kind and number of servers; NULL where there is none. */
static void neighbours(const struct machine *machine, enum collective_kind kind, uint32_t ranks, uint32_t nodes,
                       const struct machine_collective_curve *found[2])
{
    found[0] = found[1] = NULL;
    for (uint32_t i = 0; i < machine->curve_count; i++) {
        const struct machine_collective_curve *curve = &machine->curves[i];
        if (curve->kind != kind || curve->nodes != nodes || curve->ranks > CURVE_RANKS_MAX) {
            continue;
        }
        if (curve->ranks <= ranks && (found[0] == NULL || curve->ranks > found[0]->ranks)) {
            found[0] = curve;
        }
        if (curve->ranks >= ranks && (found[1] == NULL || curve->ranks < found[1]->ranks)) {
            found[1] = curve;
        }
    }
}

enum status collective_time(const struct cluster *cluster, const struct collective_shape *shape, double bytes,
                            struct collective_time *time, struct error *error)
{
    const struct machine *machine = cluster->machine;
    const struct machine_collective_curve *found[2];
    *time = collective_closed_form(machine, shape, bytes);
    neighbours(machine, shape->kind, shape->member_count, shape->node_count, found);
    if (found[0] == NULL && found[1] == NULL && shape->kind != COLLECTIVE_SEND_RECV &&
        shape->kind != COLLECTIVE_ALL_TO_ALL && shape->node_count == 1) {
        neighbours(machine, COLLECTIVE_ALL_REDUCE, shape->member_count, 1, found);
    }
    double ratio = 1;
    if (found[0] == NULL && found[1] == NULL) {
        bool ring = shape->kind != COLLECTIVE_SEND_RECV && shape->kind != COLLECTIVE_ALL_TO_ALL;
        ratio = ring && shape->node_count == 1 ? mid_size_factor(machine, bytes) : 1;
    } else {
        double ratios[2] = { 1, 1 };
        for (int side = 0; side < 2; side++) {
            if (found[side] != NULL) {
                TRY(curve_ratio(cluster, found[side], shape->ring_bytes_per_s, bytes, &ratios[side], error));
            }
        }
        if (found[0] == NULL || found[1] == NULL || found[0] == found[1]) {
            ratio = found[0] != NULL ? ratios[0] : ratios[1];
        } else {
            double part =
                log((double)shape->member_count / found[0]->ranks) / log((double)found[1]->ranks / found[0]->ranks);
            ratio = pow(ratios[0], 1 - part) * pow(ratios[1], part);
        }
    }
    /* The latency is a fixed cost; what was measured beyond it is transfer. At least a twentieth of the time can be slowed by others. */
    double total_s = ratio * (time->latency_s + time->transfer_s);
    time->latency_s = fmin(time->latency_s, 0.95 * total_s);
    time->transfer_s = total_s - time->latency_s;
    return STATUS_OK;
}
