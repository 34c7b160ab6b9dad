/* Footprints of rings and of all-to-all: which links a group's traffic crosses, per byte of bus traffic. */
#include <math.h>
#include <string.h>

#include "hw_models/cluster.h"
#include "hw_models/cluster_internal.h"
#include "sim/base/check.h"

enum {
    MESH_GPUS_MAX = 16,        /* rings on direct links are searched for up to so many GPUs in one server */
    MESH_RINGS_MAX = 16,       /* each used both ways round, or one way (mesh.one_way) */
    MESH_SEARCH_STEPS = 50000, /* then settle for fewer rings */
};

/* A ring that closes only by hopping over a neighbour reaches this part of a lane:
 * 37.2 of 45.2 GB/s on five GPUs of a DGX-1 (vTrain NCCL all-reduce table, V100). */
static const double RELAY_EFFICIENCY = 0.82;
/* Of the copy-engine rate of an NVSwitch port that NCCL's 128-byte payloads reach, where the machine file gives no figure:
 * 20 of 23 GB/s per link [nccl-tests issue 149]. */
static const double FABRIC_COLLECTIVE_EFFICIENCY = 0.87;

/* The members in one server, ascending, and the lanes among them. */
struct mesh {
    const struct cluster *cluster;
    uint32_t gpus[MESH_GPUS_MAX]; /* local */
    uint32_t count;
    uint8_t lanes[MESH_GPUS_MAX][MESH_GPUS_MAX]; /* left for further rings */
    uint8_t rings[MESH_RINGS_MAX][MESH_GPUS_MAX];
    uint32_t ring_count;
    uint32_t steps;
    bool
        one_way; /* rings run one way round only, and lanes' directions are packed apart (odd numbers of lanes: MI300X) */
};

static uint32_t pair_lanes(const struct cluster *cluster, uint32_t a, uint32_t b)
{
    uint32_t link = cluster->map->gpu_pair_link[a * cluster->gpus_per_node + b];
    if (link == CLUSTER_NONE) {
        return 0;
    }
    uint32_t lanes = cluster->machine->links[link].lanes;
    return lanes > 0 ? lanes : 1;
}

static bool pack_rings(struct mesh *mesh, uint32_t wanted, uint32_t at, uint32_t position, uint32_t visited);

static void take_lane(struct mesh *mesh, uint32_t from, uint32_t to)
{
    mesh->lanes[from][to]--;
    mesh->lanes[to][from] = (uint8_t)(mesh->lanes[to][from] - (mesh->one_way ? 0 : 1));
}

static void give_lane_back(struct mesh *mesh, uint32_t from, uint32_t to)
{
    mesh->lanes[from][to]++;
    mesh->lanes[to][from] = (uint8_t)(mesh->lanes[to][from] + (mesh->one_way ? 0 : 1));
}

/* Ring `ring_count` is complete: take its lanes and look for the next. */
static bool keep_ring(struct mesh *mesh, uint32_t wanted)
{
    mesh->ring_count++;
    if (mesh->ring_count == wanted) {
        return true;
    }
    mesh->rings[mesh->ring_count][0] = 0;
    if (pack_rings(mesh, wanted, 0, 1, 1)) {
        return true;
    }
    mesh->ring_count--;
    return false;
}

/* Depth first with back-tracking over all rings at once: `position` members of the current ring are set, the last is `at`. */
static bool pack_rings(struct mesh *mesh, uint32_t wanted, uint32_t at, uint32_t position, uint32_t visited)
{
    uint8_t *ring = mesh->rings[mesh->ring_count];
    if (mesh->steps++ > MESH_SEARCH_STEPS) {
        return false;
    }
    if (position == mesh->count) {
        if (mesh->lanes[at][0] == 0) {
            return false;
        }
        take_lane(mesh, at, 0);
        if (keep_ring(mesh, wanted)) {
            return true;
        }
        give_lane_back(mesh, at, 0);
        return false;
    }
    for (uint32_t next = 1; next < mesh->count; next++) {
        if (mesh->lanes[at][next] == 0 || (visited >> next & 1u) != 0) {
            continue;
        }
        take_lane(mesh, at, next);
        ring[position] = (uint8_t)next;
        if (pack_rings(mesh, wanted, next, position + 1, visited | 1u << next)) {
            return true;
        }
        give_lane_back(mesh, at, next);
    }
    return false;
}

static void load_mesh(struct mesh *mesh)
{
    for (uint32_t i = 0; i < mesh->count; i++) {
        for (uint32_t j = 0; j < mesh->count; j++) {
            uint32_t lanes = i == j ? 0 : pair_lanes(mesh->cluster, mesh->gpus[i], mesh->gpus[j]);
            mesh->lanes[i][j] = (uint8_t)(lanes < 255 ? lanes : 255);
        }
    }
    mesh->ring_count = 0;
    mesh->steps = 0;
    mesh->rings[0][0] = 0;
}

static bool try_rings(struct mesh *mesh, uint32_t wanted, bool one_way)
{
    load_mesh(mesh);
    mesh->one_way = one_way;
    if (wanted == 0 || wanted > MESH_RINGS_MAX || !pack_rings(mesh, wanted, 0, 1, 1)) {
        mesh->ring_count = 0;
        return false;
    }
    return true;
}

/* As many rings as possible. The least connected member's lanes are the bound; with an even number of them rings that run both ways round are enough. */
static void find_rings(struct mesh *mesh)
{
    uint32_t bound = UINT32_MAX;
    load_mesh(mesh);
    for (uint32_t i = 0; i < mesh->count; i++) {
        uint32_t degree = 0;
        for (uint32_t j = 0; j < mesh->count; j++) {
            degree += mesh->lanes[i][j];
        }
        bound = degree < bound ? degree : bound;
    }
    bound = bound > 2 * MESH_RINGS_MAX ? 2 * MESH_RINGS_MAX : bound;
    for (uint32_t lanes = bound; lanes > 0; lanes--) {
        if (lanes % 2 == 0 ? try_rings(mesh, lanes / 2, false) : try_rings(mesh, lanes, true)) {
            return;
        }
    }
}

/* The first GPU that both have a direct link to; CLUSTER_NONE: none. */
static uint32_t find_relay(const struct cluster *cluster, uint32_t a, uint32_t b)
{
    for (uint32_t over = 0; over < cluster->gpus_per_node; over++) {
        if (over != a && over != b && pair_lanes(cluster, a, over) > 0 && pair_lanes(cluster, over, b) > 0) {
            return over;
        }
    }
    return CLUSTER_NONE;
}

/* One ring with as few relayed hops as a greedy chain finds (direct hops first). False: some hop has neither lane nor relay. */
static bool find_relayed_ring(struct mesh *mesh)
{
    const struct cluster *cluster = mesh->cluster;
    load_mesh(mesh);
    mesh->one_way = false;
    uint32_t visited = 1, at = 0;
    for (uint32_t position = 1; position <= mesh->count; position++) {
        uint32_t chosen = CLUSTER_NONE;
        for (uint32_t next = 1; next < mesh->count && position < mesh->count; next++) {
            if ((visited >> next & 1u) == 0 && mesh->lanes[at][next] > 0) {
                chosen = next;
                break;
            }
        }
        for (uint32_t next = position < mesh->count ? 1 : 0; chosen == CLUSTER_NONE && next < mesh->count; next++) {
            bool open = position == mesh->count ? next == 0 : (visited >> next & 1u) == 0;
            if (open &&
                (mesh->lanes[at][next] > 0 || find_relay(cluster, mesh->gpus[at], mesh->gpus[next]) != CLUSTER_NONE)) {
                chosen = next;
            }
        }
        if (chosen == CLUSTER_NONE) {
            return false;
        }
        if (position < mesh->count) {
            mesh->rings[0][position] = (uint8_t)chosen;
        }
        visited |= 1u << chosen;
        at = chosen;
    }
    mesh->ring_count = 1;
    return true;
}

static bool add_pair(const struct cluster *cluster, uint32_t node, uint32_t from, uint32_t to, double coefficient,
                     struct cluster_uses *uses)
{
    double latency_s = 0;
    bool bounced = false;
    uint32_t base = node * cluster->gpus_per_node;
    if (pair_lanes(cluster, from, to) == 0) {
        uint32_t over = find_relay(cluster, from, to);
        if (over != CLUSTER_NONE) {
            cluster_peer_way(cluster, base + from, base + over, coefficient, uses, &latency_s, &bounced);
            from = over;
        }
    }
    return cluster_peer_way(cluster, base + from, base + to, coefficient, uses, &latency_s, &bounced);
}

/* Rings on direct links. Returns the rate cap; 0 when direct links do not close a ring. */
static double mesh_ring(struct mesh *mesh, uint32_t node, double share, bool list, struct cluster_uses *uses)
{
    const struct cluster *cluster = mesh->cluster;
    double lane = cluster->map->lane_bytes_per_s;
    if (mesh->count == 2) {
        uint32_t lanes = pair_lanes(cluster, mesh->gpus[0], mesh->gpus[1]);
        bool relayed = lanes == 0 && find_relay(cluster, mesh->gpus[0], mesh->gpus[1]) != CLUSTER_NONE;
        if (list && (lanes > 0 || relayed)) {
            add_pair(cluster, node, mesh->gpus[0], mesh->gpus[1], share, uses);
            add_pair(cluster, node, mesh->gpus[1], mesh->gpus[0], share, uses);
        }
        return lanes > 0 ? lanes * lane : relayed ? RELAY_EFFICIENCY * lane : 0;
    }
    find_rings(mesh);
    double efficiency = 1;
    if (mesh->ring_count == 0) {
        if (!find_relayed_ring(mesh)) {
            return 0;
        }
        efficiency = RELAY_EFFICIENCY;
    }
    uint32_t directed = mesh->one_way ? mesh->ring_count : 2 * mesh->ring_count;
    for (uint32_t r = 0; list && r < mesh->ring_count; r++) {
        for (uint32_t i = 0; i < mesh->count; i++) {
            uint32_t a = mesh->gpus[mesh->rings[r][i]], b = mesh->gpus[mesh->rings[r][(i + 1) % mesh->count]];
            add_pair(cluster, node, a, b, share / directed, uses);
            if (!mesh->one_way) {
                add_pair(cluster, node, b, a, share / directed, uses);
            }
        }
    }
    return efficiency * directed * lane;
}

/* Hops in order of the GPUs, through switches or host memory; bridged neighbours use their bridge. The narrowest resource is the cap. */
static double host_ring(const struct cluster *cluster, uint32_t node, const uint32_t *gpus, uint32_t count, bool closed,
                        double share, bool list, struct cluster_uses *uses)
{
    struct resource_use items[512];
    struct cluster_uses own = { .items = items, .max = sizeof items / sizeof items[0] };
    uint32_t base = node * cluster->gpus_per_node;
    for (uint32_t i = 0; i + (closed ? 0 : 1) < count; i++) {
        double latency_s = 0;
        bool bounced = false;
        if (!cluster_peer_way(cluster, base + gpus[i], base + gpus[(i + 1) % count], 1, &own, &latency_s, &bounced)) {
            return 0;
        }
    }
    uses->overflow = uses->overflow || own.overflow;
    for (uint32_t i = 0; list && i < own.count; i++) {
        cluster_use_add(uses, items[i].resource, items[i].coefficient * share);
    }
    double cap = cluster_uses_rate(cluster, items, own.count);
    double machine_cap = cluster->machine->nvlink_collective_bytes_per_s;
    return machine_cap > 0 && machine_cap < cap ? machine_cap : cap;
}

/* The part of a ring inside one server: `count` members there; `share` of a bus byte crosses each hop. Returns the cap in bus bytes/s; 0: no way. */
static double ring_inside(const struct cluster *cluster, uint32_t node, const uint32_t *gpus, uint32_t count,
                          bool closed, bool list, struct cluster_uses *uses)
{
    const struct cluster_map *map = cluster->map;
    double share = closed ? 1.0 : (double)(count - 1) / count;
    if (count < 2) {
        return INFINITY;
    }
    bool fabric = true;
    double fabric_rate = INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        fabric = fabric && map->gpu_fabric[gpus[i]] != CLUSTER_NONE;
    }
    if (fabric) {
        for (uint32_t i = 0; i < count; i++) {
            uint32_t port = node * cluster->resources_per_node + map->gpu_fabric[gpus[i]];
            fabric_rate = fmin(fabric_rate, cluster->resources[port].capacity);
            if (list) {
                cluster_use_add(uses, port, share);
                cluster_use_add(uses, port + 1, share);
            }
        }
        double machine_cap = cluster->machine->nvlink_collective_bytes_per_s;
        return machine_cap > 0 ? fmin(machine_cap, fabric_rate) : FABRIC_COLLECTIVE_EFFICIENCY * fabric_rate;
    }
    if (count <= MESH_GPUS_MAX) {
        struct mesh mesh = { .cluster = cluster, .count = count };
        memcpy(mesh.gpus, gpus, count * sizeof *gpus);
        double cap = mesh_ring(&mesh, node, share, list, uses);
        double machine_cap = cluster->machine->nvlink_collective_bytes_per_s;
        if (cap > 0) {
            return machine_cap > 0 && count == cluster->gpus_per_node ? fmin(cap, machine_cap) : cap;
        }
    }
    return host_ring(cluster, node, gpus, count, closed, closed ? 1.0 : share * count / (count - 1), list, uses);
}

/* Traffic that leaves and enters a server, spread over the NICs of its members. */
static bool add_crossing(const struct cluster *cluster, uint32_t node, const uint32_t *gpus, uint32_t count,
                         double bytes, struct cluster_uses *uses)
{
    const struct cluster_map *map = cluster->map;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t start = map->gpu_nic_start[gpus[i]], nics = map->gpu_nic_start[gpus[i] + 1] - start;
        for (uint32_t n = 0; n < nics; n++) {
            double latency_s = 0, coefficient = bytes / count / nics;
            uint32_t gpu = node * cluster->gpus_per_node + gpus[i];
            if (!cluster_nic_way(cluster, gpu, map->gpu_nics[start + n], true, coefficient, uses, &latency_s) ||
                !cluster_nic_way(cluster, gpu, map->gpu_nics[start + n], false, coefficient, uses, &latency_s)) {
                return false;
            }
        }
    }
    return true;
}

/* Members of one server stand together, servers ascending: the rule. Others cost a quadratic look-back. */
static bool by_server(const struct cluster *cluster, const uint32_t *members, uint32_t member_count)
{
    bool ascending = true;
    for (uint32_t i = 1; i < member_count && ascending; i++) {
        ascending = members[i - 1] / cluster->gpus_per_node <= members[i] / cluster->gpus_per_node;
    }
    return ascending;
}

void cluster_group_span(const struct cluster *cluster, const uint32_t *members, uint32_t member_count,
                        uint32_t *node_count, uint32_t *members_per_node_max)
{
    bool ascending = by_server(cluster, members, member_count);
    uint32_t nodes = 0, most = 0, here = 0;
    for (uint32_t i = 0; i < member_count; i++) {
        uint32_t node = members[i] / cluster->gpus_per_node, before = 0;
        if (ascending) {
            before = i > 0 && members[i - 1] / cluster->gpus_per_node == node ? here : 0;
        } else {
            for (uint32_t j = 0; j < i; j++) {
                before += members[j] / cluster->gpus_per_node == node;
            }
        }
        here = before + 1;
        nodes += before == 0;
        most = here > most ? here : most;
    }
    *node_count = nodes;
    *members_per_node_max = most;
}

/* The members in server `node`, ascending local numbers, into `gpus`. */
static uint32_t collect_node(const struct cluster *cluster, const uint32_t *members, uint32_t member_count,
                             uint32_t node, uint32_t *gpus, uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < member_count; i++) {
        if (members[i] / cluster->gpus_per_node != node) {
            continue;
        }
        CHECK(count < max);
        uint32_t local = members[i] % cluster->gpus_per_node, at = count++;
        for (; at > 0 && gpus[at - 1] > local; at--) {
            gpus[at] = gpus[at - 1];
        }
        CHECK(at == 0 || gpus[at - 1] != local);
        gpus[at] = local;
    }
    return count;
}

enum { NODE_GPUS_MAX = 256 };

/* One server's part of a group: local numbers of its members, ascending. */
struct group_part {
    uint32_t node, count;
    uint32_t gpus[NODE_GPUS_MAX];
};

static enum status check_group(const struct cluster *cluster, const uint32_t *members, uint32_t member_count,
                               struct error *error)
{
    CHECK(member_count > 0);
    if (cluster->gpus_per_node > NODE_GPUS_MAX) {
        return error_set(error, STATUS_LIMIT, "collectives on servers of more than %d GPUs", NODE_GPUS_MAX);
    }
    for (uint32_t i = 0; i < member_count; i++) {
        CHECK(members[i] < cluster->nodes * cluster->gpus_per_node);
    }
    return STATUS_OK;
}

/* A walk over the servers of a group, each once. */
struct group_walk {
    const struct cluster *cluster;
    const uint32_t *members;
    uint32_t member_count, at;
    bool ascending;
};

static struct group_walk walk_group(const struct cluster *cluster, const uint32_t *members, uint32_t member_count)
{
    return (struct group_walk){ cluster, members, member_count, 0, by_server(cluster, members, member_count) };
}

static bool next_part(struct group_walk *walk, struct group_part *part)
{
    const struct cluster *cluster = walk->cluster;
    while (walk->at < walk->member_count) {
        uint32_t first = walk->at, node = walk->members[first] / cluster->gpus_per_node, end = first;
        while (end < walk->member_count && walk->members[end] / cluster->gpus_per_node == node) {
            end++;
        }
        walk->at = end;
        bool met = false;
        for (uint32_t j = 0; !walk->ascending && j < first && !met; j++) {
            met = walk->members[j] / cluster->gpus_per_node == node;
        }
        if (met) {
            continue;
        }
        part->node = node;
        part->count = walk->ascending
                          ? collect_node(cluster, walk->members + first, end - first, node, part->gpus, NODE_GPUS_MAX)
                          : collect_node(cluster, walk->members, walk->member_count, node, part->gpus, NODE_GPUS_MAX);
        return true;
    }
    return false;
}

static enum status no_ring(const struct cluster *cluster, struct error *error)
{
    return error_set(error, STATUS_UNSUPPORTED, "machine \"%s\" has no way between the GPUs of a group",
                     cluster->machine->name);
}

static enum status finish(const struct cluster *cluster, const struct cluster_uses *uses, uint32_t use_max,
                          uint32_t *use_count, struct error *error)
{
    if (uses->overflow) {
        return error_set(error, STATUS_LIMIT, "a collective on \"%s\" uses more than %u resources",
                         cluster->machine->name, use_max);
    }
    *use_count = uses->count;
    return STATUS_OK;
}

/* Threads of the host meet in its memory: no links. */
static double threads_cap(const struct cluster *cluster, uint32_t member_count)
{
    return member_count > 1 ? cluster->machine->nvlink_collective_bytes_per_s : INFINITY;
}

enum status cluster_ring_on_node(const struct cluster *cluster, const uint32_t *members, uint32_t member_count,
                                 uint32_t only_node, struct resource_use *uses, uint32_t use_max, uint32_t *use_count,
                                 double *rate_cap_bytes_per_s, struct error *error)
{
    TRY(check_group(cluster, members, member_count, error));
    if (cluster->machine->gpu.on_host) {
        *rate_cap_bytes_per_s = threads_cap(cluster, member_count);
        return STATUS_OK;
    }
    uint32_t node_count = 0, most = 0;
    cluster_group_span(cluster, members, member_count, &node_count, &most);
    struct cluster_uses list = { .items = uses, .count = *use_count, .max = use_max };
    struct group_walk walk = walk_group(cluster, members, member_count);
    struct group_part part;
    double cap = INFINITY;
    double known_cap = 0;
    struct group_part known = { .count = 0 };
    while (member_count > 1 && next_part(&walk, &part)) {
        bool wanted = only_node == CLUSTER_ALL_NODES || only_node == part.node;
        bool same = known.count == part.count && memcmp(known.gpus, part.gpus, part.count * sizeof part.gpus[0]) == 0;
        if (!wanted && same) { /* a mirror image of a server already looked at: the cap is known */
            cap = fmin(cap, known_cap);
            continue;
        }
        struct resource_use scratch[NODE_GPUS_MAX * 8];
        struct cluster_uses own = { .items = scratch, .max = sizeof scratch / sizeof scratch[0] };
        double inside = ring_inside(cluster, part.node, part.gpus, part.count, node_count == 1, true, &own);
        if (!(inside > 0)) {
            return no_ring(cluster, error);
        }
        if (node_count > 1 && !add_crossing(cluster, part.node, part.gpus, part.count, 1.0, &own)) {
            return no_ring(cluster, error);
        }
        known_cap = fmin(inside, cluster_uses_rate(cluster, scratch, own.count));
        known = part;
        cap = fmin(cap, known_cap);
        list.overflow = list.overflow || own.overflow;
        list.merge_from = list.count;
        for (uint32_t i = 0; wanted && i < own.count; i++) {
            cluster_use_add(&list, scratch[i].resource, scratch[i].coefficient);
        }
    }
    *rate_cap_bytes_per_s = cap;
    return finish(cluster, &list, use_max, use_count, error);
}

enum status cluster_ring(const struct cluster *cluster, const uint32_t *members, uint32_t member_count,
                         bool first_node_only, struct resource_use *uses, uint32_t use_max, uint32_t *use_count,
                         double *rate_cap_bytes_per_s, struct error *error)
{
    CHECK(member_count > 0);
    uint32_t node = first_node_only ? members[0] / cluster->gpus_per_node : CLUSTER_ALL_NODES;
    return cluster_ring_on_node(cluster, members, member_count, node, uses, use_max, use_count, rate_cap_bytes_per_s,
                                error);
}

enum status cluster_all_to_all_on_node(const struct cluster *cluster, const uint32_t *members, uint32_t member_count,
                                       uint32_t only_node, struct resource_use *uses, uint32_t use_max,
                                       uint32_t *use_count, double *rate_cap_bytes_per_s, struct error *error)
{
    TRY(check_group(cluster, members, member_count, error));
    if (cluster->machine->gpu.on_host) {
        *rate_cap_bytes_per_s = threads_cap(cluster, member_count);
        return STATUS_OK;
    }
    struct cluster_uses list = { .items = uses, .count = *use_count, .max = use_max };
    struct group_walk walk = walk_group(cluster, members, member_count);
    struct group_part part;
    double cap = INFINITY, peers = member_count - 1.0;
    double machine_cap = cluster->machine->nvlink_collective_bytes_per_s;
    while (member_count > 1 && next_part(&walk, &part)) {
        struct resource_use scratch[NODE_GPUS_MAX * 8];
        struct cluster_uses own = { .items = scratch, .max = sizeof scratch / sizeof scratch[0] };
        bool fabric = true;
        for (uint32_t i = 0; i < part.count; i++) {
            uint32_t port = cluster->map->gpu_fabric[part.gpus[i]];
            fabric = fabric && port != CLUSTER_NONE;
        }
        for (uint32_t i = 0; i < part.count; i++) {
            for (uint32_t j = 0; !fabric && j < part.count; j++) {
                if (i != j && !add_pair(cluster, part.node, part.gpus[i], part.gpus[j], 1 / peers, &own)) {
                    return no_ring(cluster, error);
                }
            }
            if (fabric && part.count > 1) {
                uint32_t port = part.node * cluster->resources_per_node + cluster->map->gpu_fabric[part.gpus[i]];
                cluster_use_add(&own, port, (part.count - 1) / peers);
                cluster_use_add(&own, port + 1, (part.count - 1) / peers);
            }
        }
        double outside = member_count - part.count;
        if (part.count > 1 && own.count > 0) {
            double inside = cluster_uses_rate(cluster, scratch, own.count);
            double limit = machine_cap > 0 ? machine_cap * peers / (part.count - 1) : inside;
            cap = fmin(cap, fmin(inside, limit));
        }
        if (outside > 0) {
            if (!add_crossing(cluster, part.node, part.gpus, part.count, part.count * outside / peers, &own)) {
                return no_ring(cluster, error);
            }
            cap = fmin(cap, cluster_uses_rate(cluster, scratch, own.count));
        }
        list.overflow = list.overflow || own.overflow;
        list.merge_from = list.count;
        for (uint32_t i = 0; (only_node == CLUSTER_ALL_NODES || only_node == part.node) && i < own.count; i++) {
            cluster_use_add(&list, scratch[i].resource, scratch[i].coefficient);
        }
    }
    *rate_cap_bytes_per_s = cap;
    return finish(cluster, &list, use_max, use_count, error);
}
