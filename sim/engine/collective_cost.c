#include "sim/engine/collective_cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/engine/collective_model.h"
#include "sim/engine/collective_on_host.h"

double collective_bus_factor(enum collective_kind kind, uint32_t member_count)
{
    double n = member_count;
    switch (kind) {
    case COLLECTIVE_ALL_REDUCE: return 2 * (n - 1) / n;
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALL_TO_ALL: return (n - 1) / n;
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_SEND_RECV: return 1;
    case COLLECTIVE_KIND_COUNT: break;
    }
    CHECK(false);
    return 0;
}

/* HBM bytes a member moves per bus byte. Rings: each step reads the received chunk, reads and adds its own (reductions), writes to the next. All-reduce is half
 * reduce-scatter, half all-gather; the upper bound in hardware.md E.6 is 3. In the switch: read once, written once. */
static double hbm_per_bus_byte(enum collective_kind kind, enum collective_algorithm algorithm, uint32_t n)
{
    if (algorithm == COLLECTIVE_IN_SWITCH) {
        return (double)n / (n - 1);
    }
    switch (kind) {
    case COLLECTIVE_ALL_REDUCE: return 2.5;
    case COLLECTIVE_REDUCE_SCATTER: return 3;
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_ALL_TO_ALL: return 2;
    case COLLECTIVE_SEND_RECV: return 1;
    case COLLECTIVE_KIND_COUNT: break;
    }
    CHECK(false);
    return 0;
}

static enum status pair_footprint(const struct cluster *cluster, const uint32_t *members, struct resource_use *uses,
                                  uint32_t use_max, uint32_t *use_count, double *cap, struct error *error)
{
    struct route route;
    struct endpoint from = { ENDPOINT_GPU, members[0] }, to = { ENDPOINT_GPU, members[1] };
    TRY(cluster_route(cluster, from, to, false, &route, error));
    for (uint32_t i = 0; i < route.use_count; i++) {
        if (cluster->resources[route.uses[i].resource].kind == RESOURCE_HBM) {
            continue;
        }
        if (*use_count == use_max) {
            return error_set(error, STATUS_LIMIT, "a send uses more than %u resources", use_max);
        }
        uses[(*use_count)++] = route.uses[i];
    }
    *cap = route.rate_cap_bytes_per_s;
    return STATUS_OK;
}

static enum status footprint(const struct cluster *cluster, enum collective_kind kind, const uint32_t *members,
                             uint32_t member_count, uint32_t node, struct resource_use *uses, uint32_t use_max,
                             uint32_t *use_count, double *cap, struct error *error)
{
    *use_count = 0;
    if (kind == COLLECTIVE_SEND_RECV) {
        return pair_footprint(cluster, members, uses, use_max, use_count, cap, error);
    }
    if (kind == COLLECTIVE_ALL_TO_ALL) {
        return cluster_all_to_all_on_node(cluster, members, member_count, node, uses, use_max, use_count, cap, error);
    }
    return cluster_ring_on_node(cluster, members, member_count, node, uses, use_max, use_count, cap, error);
}

/* Whether a sister has a member on `node`, or, for all nodes, on any that the first instance is on: else they share nothing. */
static bool touches(const struct cluster *cluster, const struct collective_request *request, const uint32_t *sister,
                    uint32_t node)
{
    for (uint32_t i = 0; i < request->member_count; i++) {
        uint32_t at = sister[i] / cluster->gpus_per_node;
        bool touching = at == node;
        for (uint32_t k = 0; node == CLUSTER_ALL_NODES && k < request->member_count && !touching; k++) {
            touching = request->members[k] / cluster->gpus_per_node == at;
        }
        if (touching) {
            return true;
        }
    }
    return false;
}

/* Room for one sister's list and for what the first instance alone puts on each of its resources. */
struct sister_room {
    struct resource_use *uses; /* [use_max] */
    double *own;               /* [use_count] */
    uint32_t use_max;
};

/* Of any size: a ring over thousands of GPUs crosses thousands of links. */
static enum status sister_room_open(struct sister_room *room, uint32_t use_max, const struct resource_use *uses,
                                    uint32_t use_count, struct error *error)
{
    *room = (struct sister_room){ .use_max = use_max };
    room->uses = malloc((use_max + 1) * sizeof *room->uses + use_count * sizeof *room->own);
    if (room->uses == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for sister groups on %u resources", use_count);
    }
    room->own = (double *)(room->uses + use_max + 1);
    for (uint32_t i = 0; i < use_count; i++) {
        room->own[i] = uses[i].coefficient;
    }
    return STATUS_OK;
}

/* Add the sisters' coefficients on the resources of the first instance. `uses` is the first instance's list. */
static enum status add_sisters(const struct cluster *cluster, const struct collective_request *request, uint32_t node,
                               const struct sister_room *room, struct resource_use *uses, uint32_t use_count,
                               struct error *error)
{
    struct resource_use *sister = room->uses;
    for (uint32_t instance = 1; instance < request->instance_count; instance++) {
        const uint32_t *members = request->members + (size_t)instance * request->member_count;
        uint32_t within = request->kind == COLLECTIVE_SEND_RECV ? CLUSTER_ALL_NODES : node; /* pairs list both ends */
        if (!touches(cluster, request, members, within)) {
            continue;
        }
        uint32_t count = 0;
        double cap = 0;
        TRY(footprint(cluster, request->kind, members, request->member_count, node, sister, room->use_max, &count, &cap,
                      error));
        for (uint32_t i = 0, guess = 0; i < count; i++) {
            for (uint32_t step = 0; step < use_count;
                 step++, guess++) { /* sisters list their resources in the same order: the next one is the likely one */
                guess = guess >= use_count ? 0 : guess;
                if (uses[guess].resource == sister[i].resource) {
                    uses[guess].coefficient += sister[i].coefficient;
                    break;
                }
            }
        }
    }
    return STATUS_OK;
}

/* A launch takes fewer thread blocks while there are under 32 KiB for each (512 threads * 64 B: hardware.md D.4). */
static double sm_fraction(const struct machine *machine, double bytes)
{
    double blocks = machine->collective_sms > 0 ? machine->collective_sms : 1;
    blocks = fmin(blocks, ceil(bytes / 32768));
    return machine->gpu.sm_count > 0 ? fmin(1, blocks / machine->gpu.sm_count) : 0;
}

/* Nothing but direct links and fabric ports: PCIe has limits for both directions, ways through the host and between servers use DRAM and NICs. */
static bool on_direct_links(const struct cluster *cluster, const struct resource_use *uses, uint32_t use_count)
{
    for (uint32_t i = 0; i < use_count; i++) {
        enum resource_kind kind = cluster->resources[uses[i].resource].kind;
        if (kind != RESOURCE_LINK && kind != RESOURCE_FABRIC) {
            return false;
        }
    }
    return use_count != 0;
}

/* Threads of the host: no links. What caches keep from the DRAM shows in the measured time: DRAM carries no more than fits into it. */
static enum status cost_on_host(const struct cluster *cluster, const struct collective_request *request,
                                struct collective_cost *cost, struct error *error)
{
    const struct machine *machine = cluster->machine;
    bool pair = request->kind == COLLECTIVE_SEND_RECV;
    uint32_t n = request->member_count;
    cost->algorithm = COLLECTIVE_DIRECT;
    cost->bus_bytes = request->bytes * collective_bus_factor(request->kind, n);
    if (pair) {
        TRY(collective_pair_on_host(cluster, request->members, request->bytes, &cost->latency_s, &cost->transfer_s,
                                    error));
    } else {
        collective_time_on_host(cluster, request->kind, request->members, n, request->bytes, &cost->latency_s,
                                &cost->transfer_s);
    }
    cost->alone_s = cost->latency_s + cost->transfer_s;
    cost->sm_fraction = machine->collective_sms > 0 ? sm_fraction(machine, request->bytes) : 0;
    cost->hbm_bytes = cost->bus_bytes * hbm_per_bus_byte(request->kind, COLLECTIVE_RING, n);
    for (uint32_t i = 0; i < n; i++) { /* the fullest socket */
        uint32_t dram = cluster_hbm(cluster, request->members[i]), sharers = 0;
        for (uint32_t k = 0; k < n; k++) {
            sharers += cluster_hbm(cluster, request->members[k]) == dram;
        }
        cost->hbm_bytes = fmin(cost->hbm_bytes, cluster->resources[dram].capacity * cost->transfer_s / (double)sharers);
    }
    return STATUS_OK;
}

/* Measured bus bandwidth is at most so far above what the links of its machine give a ring: DGX-1 with 5 ranks is highest of the shipped machines (validated by a_collectives). */
static const double MEASURED_OVER_RING_MAX = 1.25;

enum status collective_cost(const struct cluster *cluster, const struct collective_request *request,
                            struct resource_use *uses, uint32_t use_max, struct collective_cost *cost,
                            struct error *error)
{
    memset(cost, 0, sizeof *cost);
    CHECK(request->member_count > 0 && request->instance_count > 0 && request->bytes >= 0);
    CHECK(request->kind != COLLECTIVE_SEND_RECV || request->member_count == 2);
    if (request->member_count == 1 || !(request->bytes > 0)) {
        return STATUS_OK;
    }
    if (cluster->machine->gpu.on_host) {
        return cost_on_host(cluster, request, cost, error);
    }
    uint32_t n = request->member_count, count = 0;
    uint32_t node = request->first_node_only ? request->members[0] / cluster->gpus_per_node : CLUSTER_ALL_NODES;
    double ring_cap = 0;
    TRY(footprint(cluster, request->kind, request->members, n, node, uses, use_max, &count, &ring_cap, error));
    struct collective_shape shape = { .kind = request->kind, .member_count = n, .ring_bytes_per_s = ring_cap };
    cluster_group_span(cluster, request->members, n, &shape.node_count, &shape.members_per_node);
    struct collective_time time;
    TRY(collective_time(cluster, &shape, request->bytes, &time, error));

    cost->bus_bytes = request->bytes * collective_bus_factor(request->kind, n);
    cost->algorithm = time.algorithm;
    cost->latency_s = time.latency_s;
    double in_switch = time.algorithm == COLLECTIVE_IN_SWITCH ? (n + 1.0) / (2.0 * (n - 1)) : 1;
    /* A curve that was measured on faster links (a what-if machine) cannot outrun these. */
    double limit = ring_cap / in_switch * MEASURED_OVER_RING_MAX;
    time.transfer_s = fmax(time.transfer_s, cost->bus_bytes / limit - time.latency_s);
    double rate = cost->bus_bytes / time.transfer_s;
    cost->fullness = shape.node_count == 1 && on_direct_links(cluster, uses, count) ? fmin(1, rate / ring_cap) : 0;
    struct sister_room room = { 0 };
    if (request->instance_count > 1) {
        TRY(sister_room_open(&room, use_max, uses, count, error));
        enum status status = add_sisters(cluster, request, node, &room, uses, count, error);
        if (status != STATUS_OK) {
            free(room.uses);
            return status;
        }
    }
    /* What this group alone puts on a resource must not hold it below what was measured. */
    for (uint32_t i = 0; i < count; i++) {
        const struct resource *resource = &cluster->resources[uses[i].resource];
        double mine = room.own != NULL ? room.own[i] : uses[i].coefficient;
        double scale = resource->kind == RESOURCE_FABRIC ? in_switch : 1;
        uses[i].coefficient *= fmin(scale, resource->capacity / (mine * rate));
    }
    free(room.uses);
    cost->transfer_s = cost->bus_bytes / fmin(rate, cluster_uses_rate(cluster, uses, count));
    cost->alone_s = cost->latency_s + cost->transfer_s;
    cost->sm_fraction = sm_fraction(cluster->machine, request->bytes);
    cost->hbm_bytes = cost->bus_bytes * hbm_per_bus_byte(request->kind, time.algorithm, n);
    cost->use_count = count;
    return STATUS_OK;
}
