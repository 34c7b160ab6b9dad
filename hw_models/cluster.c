#include "hw_models/cluster.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hw_models/cluster_internal.h"
#include "sim/base/check.h"

/* A both-directions limit within a thousandth of the sum of the two directions limits nothing. */
static const double FULL_DUPLEX = 0.999;
/* A per-GPU collective rate below this part of what copy engines get of the same lanes speaks of another path (PCIe box with bridged pairs), not of the lanes. */
static const double LANE_RATE_PLAUSIBLE = 0.5;

/* A builder's view: the machine, the map being filled, the resources of server 0. */
struct builder {
    struct cluster *cluster;
    const struct machine *machine;
    struct cluster_map *map;
    struct resource *resources; /* of one server */
    uint32_t count, max;
    uint32_t kind_counts[PART_KIND_COUNT];
    bool out_of_memory;
};

static uint32_t add_resource(struct builder *builder, enum resource_kind kind, double capacity, const char *name)
{
    CHECK(builder->count < builder->max);
    builder->out_of_memory = builder->out_of_memory || name == NULL;
    builder->resources[builder->count] = (struct resource){ .kind = kind, .capacity = capacity, .name = name };
    return builder->count++;
}

/* A machine put together by hand may leave it 0. */
static double cores_together(const struct machine *machine)
{
    return machine->cores_together > 0 ? machine->cores_together : 1;
}

static const struct machine_part *part_of(const struct builder *builder, uint32_t index)
{
    return &builder->machine->parts[index];
}

/* Parts by kind, in file order. */
static uint32_t *list_parts(struct builder *builder, enum machine_part_kind kind)
{
    uint32_t *list = arena_array(&builder->cluster->arena, uint32_t, builder->kind_counts[kind]);
    uint32_t count = 0;
    for (uint32_t i = 0; list != NULL && i < builder->machine->part_count; i++) {
        if (builder->machine->parts[i].kind == kind) {
            list[count++] = i;
        }
    }
    builder->out_of_memory = builder->out_of_memory || list == NULL;
    return list;
}

static uint32_t *filled(struct builder *builder, size_t count, uint32_t value)
{
    uint32_t *list = arena_array(&builder->cluster->arena, uint32_t, count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        list[i] = value;
    }
    builder->out_of_memory = builder->out_of_memory || list == NULL;
    return list;
}

/* May the tree walk go on from `from` to `to`? Leaves do not pass traffic on, except that a GPU may carry a NIC (MI250X). */
static bool tree_step(enum machine_part_kind from, enum machine_part_kind to)
{
    if (to == PART_CPU || to == PART_DRAM || to == PART_NVSWITCH) {
        return false;
    }
    if (from == PART_CPU || from == PART_PCIE_SWITCH) {
        return true;
    }
    return from == PART_GPU && (to == PART_NIC || to == PART_NVME);
}

/* Breadth first from all sockets at once: the shortest way wins, then the earlier socket, then the earlier link. */
static enum status grow_tree(struct builder *builder, struct error *error)
{
    const struct machine *machine = builder->machine;
    struct cluster_part_map *parts = builder->map->parts;
    uint32_t *queue = filled(builder, machine->part_count, 0);
    if (queue == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    }
    uint32_t head = 0, tail = 0;
    for (uint32_t i = 0; i < machine->part_count; i++) {
        bool cpu = machine->parts[i].kind == PART_CPU;
        parts[i] =
            (struct cluster_part_map){ CLUSTER_NONE, CLUSTER_NONE, 0, cpu ? machine->parts[i].index : CLUSTER_NONE };
        if (cpu) {
            queue[tail++] = i;
        }
    }
    while (head < tail) {
        uint32_t at = queue[head++];
        for (uint32_t l = 0; l < machine->link_count; l++) {
            const struct machine_link *link = &machine->links[l];
            if (link->a != at && link->b != at) {
                continue;
            }
            uint32_t to = link->a == at ? link->b : link->a;
            if (parts[to].socket == CLUSTER_NONE && tree_step(machine->parts[at].kind, machine->parts[to].kind)) {
                parts[to] = (struct cluster_part_map){ l, at, parts[at].depth + 1, parts[at].socket };
                queue[tail++] = to;
            }
        }
    }
    for (uint32_t i = 0; i < machine->part_count; i++) {
        enum machine_part_kind kind = machine->parts[i].kind;
        if (parts[i].socket == CLUSTER_NONE && (kind == PART_GPU || kind == PART_NIC || kind == PART_NVME)) {
            return error_set(error, STATUS_BAD_INPUT,
                             "machine \"%s\": %s has no way to a CPU socket: a link (PCIe, C2C, xGMI) is missing",
                             machine->name, machine->parts[i].id);
        }
    }
    return STATUS_OK;
}

/* First link of the shortest chain of socket links, for every pair of sockets. */
static void join_sockets(struct builder *builder)
{
    const struct machine *machine = builder->machine;
    uint32_t sockets = builder->cluster->sockets;
    struct cluster_map *map = builder->map;
    map->socket_next = filled(builder, (size_t)sockets * sockets, CLUSTER_NONE);
    uint32_t *queue = filled(builder, sockets, 0);
    if (builder->out_of_memory) {
        return;
    }
    for (uint32_t target = 0; target < sockets; target++) { /* walk outwards from the target: next[from][target] */
        uint32_t head = 0, tail = 0;
        queue[tail++] = target;
        while (head < tail) {
            uint32_t at = queue[head++];
            for (uint32_t l = 0; l < machine->link_count; l++) {
                const struct machine_part *a = part_of(builder, machine->links[l].a),
                                          *b = part_of(builder, machine->links[l].b);
                if (a->kind != PART_CPU || b->kind != PART_CPU || (a->index != at && b->index != at)) {
                    continue;
                }
                uint32_t from = a->index == at ? b->index : a->index;
                if (from != target && map->socket_next[from * sockets + target] == CLUSTER_NONE) {
                    map->socket_next[from * sockets + target] = l;
                    queue[tail++] = from;
                }
            }
        }
    }
}

static void add_gpu_resources(struct builder *builder)
{
    struct arena *arena = &builder->cluster->arena;
    const struct machine_gpu *gpu = &builder->machine->gpu;
    uint32_t gpus = builder->cluster->gpus_per_node;
    for (uint32_t g = 0; g < gpus; g++) {
        add_resource(builder, RESOURCE_SM, 1.0,
                     arena_printf(arena, "%s sm", part_of(builder, builder->map->gpu_parts[g])->id));
    }
    builder->map->first_hbm = gpu->on_host ? CLUSTER_NONE : builder->count;
    for (uint32_t g = 0; g < gpus && !gpu->on_host; g++) {
        add_resource(builder, RESOURCE_HBM, gpu->hbm_bytes_per_s,
                     arena_printf(arena, "%s hbm", part_of(builder, builder->map->gpu_parts[g])->id));
    }
}

static enum status add_host_resources(struct builder *builder, struct error *error)
{
    const struct machine *machine = builder->machine;
    struct arena *arena = &builder->cluster->arena;
    struct cluster_map *map = builder->map;
    map->first_dram = builder->count;
    for (uint32_t s = 0; s < builder->cluster->sockets; s++) {
        double rate = 0;
        for (uint32_t l = 0; l < machine->link_count; l++) {
            const struct machine_link *link = &machine->links[l];
            uint32_t other = link->a == map->socket_parts[s]   ? link->b
                             : link->b == map->socket_parts[s] ? link->a
                                                               : CLUSTER_NONE;
            if (other != CLUSTER_NONE && machine->parts[other].kind == PART_DRAM) {
                double dram = machine->parts[other].read_bytes_per_s;
                rate += dram > 0 ? dram : link->bytes_per_s;
            }
        }
        const char *socket = part_of(builder, map->socket_parts[s])->id;
        if (!(rate > 0)) {
            return error_set(error, STATUS_BAD_INPUT,
                             "machine \"%s\": socket %s has no host memory: a ddr link to a host_dram is missing",
                             machine->name, socket);
        }
        add_resource(builder, RESOURCE_DRAM, rate, arena_printf(arena, "%s dram", socket));
    }
    map->first_cores = builder->count;
    for (uint32_t s = 0; s < builder->cluster->sockets; s++) {
        const struct machine_part *socket = part_of(builder, map->socket_parts[s]);
        add_resource(builder, RESOURCE_CORES, (socket->cores > 0 ? socket->cores : 1) * cores_together(machine),
                     arena_printf(arena, "%s cores", socket->id));
    }
    map->first_drive = builder->count;
    for (uint32_t d = 0; d < builder->cluster->drives; d++) {
        add_resource(builder, RESOURCE_DRIVE, 1.0, arena_text(arena, part_of(builder, map->drive_parts[d])->id));
    }
    map->first_nic = builder->count;
    double efficiency = machine->network_efficiency > 0 ? machine->network_efficiency : 1;
    for (uint32_t n = 0; n < builder->cluster->nics; n++) {
        const struct machine_part *nic = part_of(builder, map->nic_parts[n]);
        add_resource(builder, RESOURCE_NIC, nic->line_bytes_per_s * efficiency,
                     arena_printf(arena, "%s>network", nic->id));
        add_resource(builder, RESOURCE_NIC, nic->line_bytes_per_s * efficiency,
                     arena_printf(arena, "network>%s", nic->id));
    }
    return STATUS_OK;
}

/* Links as two directions and, where the sum is less than twice one direction, their sum. Ports into an NVSwitch add up per GPU. */
static void add_link_resources(struct builder *builder)
{
    const struct machine *machine = builder->machine;
    struct arena *arena = &builder->cluster->arena;
    struct cluster_map *map = builder->map;
    uint32_t gpus = builder->cluster->gpus_per_node;
    map->gpu_pair_link = filled(builder, (size_t)gpus * gpus, CLUSTER_NONE);
    map->gpu_lanes = filled(builder, gpus, 0);
    map->gpu_fabric = filled(builder, gpus, CLUSTER_NONE);
    if (builder->out_of_memory) {
        return;
    }
    for (uint32_t l = 0; l < machine->link_count; l++) {
        const struct machine_link *link = &machine->links[l];
        const struct machine_part *a = part_of(builder, link->a), *b = part_of(builder, link->b);
        uint32_t lanes = link->lanes > 0 ? link->lanes : 1;
        map->links[l] = (struct cluster_link_map){ CLUSTER_NONE, CLUSTER_NONE };
        if (a->kind == PART_DRAM || b->kind == PART_DRAM || (a->kind == PART_NVSWITCH && b->kind == PART_NVSWITCH)) {
            continue;
        }
        if (a->kind == PART_NVSWITCH || b->kind == PART_NVSWITCH) {
            const struct machine_part *gpu = a->kind == PART_NVSWITCH ? b : a;
            if (gpu->kind != PART_GPU) {
                continue;
            }
            if (map->gpu_fabric[gpu->index] == CLUSTER_NONE) {
                map->gpu_fabric[gpu->index] =
                    add_resource(builder, RESOURCE_FABRIC, 0, arena_printf(arena, "%s>fabric", gpu->id));
                add_resource(builder, RESOURCE_FABRIC, 0, arena_printf(arena, "fabric>%s", gpu->id));
            }
            double back = link->back_bytes_per_s > 0 ? link->back_bytes_per_s : link->bytes_per_s;
            bool outward = link->a == map->gpu_parts[gpu->index];
            builder->resources[map->gpu_fabric[gpu->index]].capacity += outward ? link->bytes_per_s : back;
            builder->resources[map->gpu_fabric[gpu->index] + 1].capacity += outward ? back : link->bytes_per_s;
            map->gpu_lanes[gpu->index] += lanes;
            map->fabric_hop_s = link->latency_s > map->fabric_hop_s ? link->latency_s : map->fabric_hop_s;
            continue;
        }
        double back = link->back_bytes_per_s > 0 ? link->back_bytes_per_s : link->bytes_per_s;
        map->links[l].forward =
            add_resource(builder, RESOURCE_LINK, link->bytes_per_s, arena_printf(arena, "%s>%s", a->id, b->id));
        add_resource(builder, RESOURCE_LINK, back, arena_printf(arena, "%s>%s", b->id, a->id));
        if (link->both_bytes_per_s > 0 && link->both_bytes_per_s < FULL_DUPLEX * (link->bytes_per_s + back)) {
            map->links[l].both = add_resource(builder, RESOURCE_LINK_BOTH, link->both_bytes_per_s,
                                              arena_printf(arena, "%s<>%s", a->id, b->id));
        }
        if (a->kind == PART_GPU && b->kind == PART_GPU) {
            uint32_t *known = &map->gpu_pair_link[a->index * gpus + b->index];
            if (*known == CLUSTER_NONE || machine->links[*known].bytes_per_s < link->bytes_per_s) {
                *known = l;
                map->gpu_pair_link[b->index * gpus + a->index] = l;
            }
            map->gpu_lanes[a->index] += lanes;
            map->gpu_lanes[b->index] += lanes;
        }
    }
}

/* What NCCL gets of one lane: the machine's per-GPU figure over the lanes of its best-connected GPU; else what copy engines get. */
static void set_lane_rate(struct builder *builder)
{
    const struct machine *machine = builder->machine;
    struct cluster_map *map = builder->map;
    uint32_t lanes = 0;
    double lane_rate = 0;
    for (uint32_t g = 0; g < builder->cluster->gpus_per_node; g++) {
        lanes = map->gpu_lanes[g] > lanes ? map->gpu_lanes[g] : lanes;
        if (map->gpu_fabric[g] != CLUSTER_NONE) {
            double rate = builder->resources[map->gpu_fabric[g]].capacity / map->gpu_lanes[g];
            lane_rate = rate > lane_rate ? rate : lane_rate;
        }
    }
    for (uint32_t l = 0; l < machine->link_count; l++) {
        const struct machine_link *link = &machine->links[l];
        if (part_of(builder, link->a)->kind == PART_GPU && part_of(builder, link->b)->kind == PART_GPU) {
            double rate = link->bytes_per_s / (link->lanes > 0 ? link->lanes : 1);
            lane_rate = rate > lane_rate ? rate : lane_rate;
        }
    }
    if (lanes > 0 && machine->nvlink_collective_bytes_per_s >= LANE_RATE_PLAUSIBLE * lane_rate * lanes) {
        lane_rate = machine->nvlink_collective_bytes_per_s / lanes;
    }
    map->lane_bytes_per_s = lane_rate;
}

/* Hops between a GPU and a NIC through the tree; crossing sockets counts 4 more. */
static uint32_t nic_distance(const struct cluster_map *map, uint32_t gpu_part, uint32_t nic_part)
{
    uint32_t a = gpu_part, b = nic_part, hops = 0;
    while (a != b) {
        if (map->parts[a].depth == 0 && map->parts[b].depth == 0) {
            return hops + 4;
        }
        uint32_t *deeper = map->parts[a].depth >= map->parts[b].depth ? &a : &b;
        *deeper = map->parts[*deeper].parent;
        hops++;
    }
    return hops;
}

/* NICs of each GPU: the nearest ones; where several GPUs are equally near to the same NICs they share them out (DGX A100: two GPUs and two NICs under one switch). */
static void assign_nics(struct builder *builder)
{
    const struct cluster *cluster = builder->cluster;
    struct cluster_map *map = builder->map;
    uint32_t gpus = cluster->gpus_per_node, start = 0;
    map->gpu_nic_start = filled(builder, gpus + 1u, 0);
    map->gpu_nics = filled(builder, (size_t)gpus * (cluster->nics > 0 ? cluster->nics : 1), 0);
    uint32_t *nearest = filled(builder, cluster->nics, 0);
    if (builder->out_of_memory) {
        return;
    }
    for (uint32_t g = 0; g < gpus; g++) {
        uint32_t best = UINT32_MAX, near_count = 0, siblings = 0, position = 0;
        for (uint32_t n = 0; n < cluster->nics; n++) {
            if (!part_of(builder, map->nic_parts[n])->compute_fabric) {
                continue;
            }
            uint32_t distance = nic_distance(map, map->gpu_parts[g], map->nic_parts[n]);
            if (distance < best) {
                best = distance;
                near_count = 0;
            }
            if (distance == best) {
                nearest[near_count++] = n;
            }
        }
        for (uint32_t other = 0; near_count > 0 && other < gpus; other++) { /* GPUs as near to the same first NIC */
            if (nic_distance(map, map->gpu_parts[other], map->nic_parts[nearest[0]]) == best) {
                position += other < g;
                siblings++;
            }
        }
        CHECK(near_count == 0 || siblings > 0); /* the GPU is its own sibling */
        map->gpu_nic_start[g] = start;
        for (uint32_t i = 0; i < near_count; i++) {
            bool mine = near_count >= siblings ? i % siblings == position : i == position % near_count;
            if (mine) {
                map->gpu_nics[start++] = nearest[i];
            }
        }
    }
    map->gpu_nic_start[gpus] = start;
}

static enum status build_map(struct builder *builder, struct error *error)
{
    struct cluster *cluster = builder->cluster;
    const struct machine *machine = builder->machine;
    struct cluster_map *map = builder->map = arena_array(&cluster->arena, struct cluster_map, 1);
    /* per GPU: SM, HBM, two fabric ports; per socket two; a drive one; a NIC two; a link three */
    builder->max = 4 * cluster->gpus_per_node + 2 * cluster->sockets + cluster->drives + 2 * cluster->nics +
                   3 * machine->link_count;
    builder->resources = arena_array(&cluster->arena, struct resource, builder->max);
    if (map == NULL || builder->resources == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    }
    map->parts = arena_array(&cluster->arena, struct cluster_part_map, machine->part_count);
    map->links = arena_array(&cluster->arena, struct cluster_link_map, machine->link_count);
    map->gpu_parts = list_parts(builder, PART_GPU);
    map->nic_parts = list_parts(builder, PART_NIC);
    map->drive_parts = list_parts(builder, PART_NVME);
    map->socket_parts = list_parts(builder, PART_CPU);
    if (map->parts == NULL || map->links == NULL || builder->out_of_memory) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    }
    TRY(grow_tree(builder, error));
    join_sockets(builder);
    add_gpu_resources(builder);
    TRY(add_host_resources(builder, error));
    add_link_resources(builder);
    if (!builder->out_of_memory) {
        set_lane_rate(builder);
        assign_nics(builder);
    }
    return builder->out_of_memory ? error_set(error, STATUS_NO_MEMORY, "out of memory") : STATUS_OK;
}

static enum status check_counts(struct builder *builder, uint32_t nodes, uint32_t gpus, struct error *error)
{
    struct cluster *cluster = builder->cluster;
    const struct machine *machine = builder->machine;
    uint32_t compute_nics = 0;
    for (uint32_t i = 0; i < machine->part_count; i++) {
        const struct machine_part *part = &machine->parts[i];
        CHECK(part->index == builder->kind_counts[part->kind]);
        builder->kind_counts[part->kind]++;
        compute_nics += part->kind == PART_NIC && part->compute_fabric && part->line_bytes_per_s > 0;
    }
    cluster->gpus_per_node = builder->kind_counts[PART_GPU];
    cluster->sockets = builder->kind_counts[PART_CPU];
    cluster->drives = builder->kind_counts[PART_NVME];
    cluster->nics = builder->kind_counts[PART_NIC];
    cluster->nodes = nodes;
    if (cluster->gpus_per_node == 0 || cluster->sockets == 0) {
        return error_set(error, STATUS_BAD_INPUT, "machine \"%s\" has no %s", machine->name,
                         cluster->sockets == 0 ? "cpu_socket" : "gpu");
    }
    if (nodes == 0) {
        return error_set(error, STATUS_BAD_INPUT, "a cluster needs at least one node");
    }
    uint64_t all = (uint64_t)nodes * cluster->gpus_per_node;
    if (all > 1u << 24) {
        return error_set(error, STATUS_LIMIT, "%u nodes of %u GPUs are more than %u GPUs", nodes,
                         cluster->gpus_per_node, 1u << 24);
    }
    if (gpus > all) {
        return error_set(error, STATUS_BAD_INPUT, "%u GPUs asked, but %u node%s of \"%s\" hold %u each: at most %llu",
                         gpus, nodes, nodes == 1 ? "" : "s", machine->name, cluster->gpus_per_node,
                         (unsigned long long)all);
    }
    cluster->gpus = gpus == 0 ? (uint32_t)all : gpus;
    if (nodes > 1 && compute_nics == 0) {
        return error_set(error, STATUS_BAD_INPUT,
                         "%u nodes of \"%s\" cannot be joined: the machine has no nic on the compute fabric", nodes,
                         machine->name);
    }
    return STATUS_OK;
}

enum status cluster_build(struct cluster *cluster, const struct machine *machine, uint32_t nodes, uint32_t gpus,
                          struct error *error)
{
    memset(cluster, 0, sizeof *cluster);
    cluster->machine = machine;
    struct builder builder = { .cluster = cluster, .machine = machine };
    enum status status;
    TRY_OR_FAIL(check_counts(&builder, nodes, gpus, error));
    TRY_OR_FAIL(build_map(&builder, error));
    cluster->map = builder.map;
    cluster->resources_per_node = builder.count;
    if ((uint64_t)builder.count * nodes >= UINT32_MAX) {
        status = error_set(error, STATUS_LIMIT, "%u nodes of %u resources each are too many", nodes, builder.count);
        goto fail;
    }
    cluster->resource_count = builder.count * nodes;
    cluster->resources = arena_array(&cluster->arena, struct resource, cluster->resource_count);
    if (cluster->resources == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory");
        goto fail;
    }
    struct resource *out = cluster->resources;
    for (uint32_t node = 0; node < nodes; node++) {
        for (uint32_t i = 0; i < builder.count; i++, out++) {
            *out = builder.resources[i];
            out->node = node;
        }
    }
    return STATUS_OK;
fail:
    cluster_free(cluster);
    return status;
}

void cluster_free(struct cluster *cluster)
{
    arena_free(&cluster->arena);
    memset(cluster, 0, sizeof *cluster);
}

static uint32_t on_node_of_gpu(const struct cluster *cluster, uint32_t gpu, uint32_t first)
{
    CHECK(gpu < cluster->nodes * cluster->gpus_per_node);
    return gpu / cluster->gpus_per_node * cluster->resources_per_node + first + gpu % cluster->gpus_per_node;
}

uint32_t cluster_sm(const struct cluster *cluster, uint32_t gpu)
{
    return on_node_of_gpu(cluster, gpu, 0);
}

uint32_t cluster_hbm(const struct cluster *cluster, uint32_t gpu)
{
    if (cluster->map->first_hbm == CLUSTER_NONE) {
        return cluster_dram(cluster, gpu / cluster->gpus_per_node, cluster_gpu_socket(cluster, gpu));
    }
    return on_node_of_gpu(cluster, gpu, cluster->map->first_hbm);
}

uint32_t cluster_dram(const struct cluster *cluster, uint32_t node, uint32_t socket)
{
    CHECK(node < cluster->nodes && socket < cluster->sockets);
    return node * cluster->resources_per_node + cluster->map->first_dram + socket;
}

uint32_t cluster_cores(const struct cluster *cluster, uint32_t node, uint32_t socket)
{
    CHECK(node < cluster->nodes && socket < cluster->sockets);
    return node * cluster->resources_per_node + cluster->map->first_cores + socket;
}

double cluster_core_count(const struct cluster *cluster, uint32_t node, uint32_t socket)
{
    return rint(cluster->resources[cluster_cores(cluster, node, socket)].capacity / cores_together(cluster->machine));
}

double cluster_socket_bytes(const struct cluster *cluster, uint32_t socket)
{
    const struct machine *machine = cluster->machine;
    uint32_t part = cluster->map->socket_parts[socket];
    double bytes = 0;
    for (uint32_t l = 0; l < machine->link_count; l++) {
        const struct machine_link *link = &machine->links[l];
        uint32_t other = link->a == part ? link->b : link->b == part ? link->a : CLUSTER_NONE;
        bytes +=
            other != CLUSTER_NONE && machine->parts[other].kind == PART_DRAM ? machine->parts[other].capacity_bytes : 0;
    }
    return bytes;
}

uint32_t cluster_gpu_socket(const struct cluster *cluster, uint32_t gpu)
{
    return cluster->map->parts[cluster->map->gpu_parts[gpu % cluster->gpus_per_node]].socket;
}

struct endpoint cluster_gpu_host(const struct cluster *cluster, uint32_t gpu)
{
    uint32_t node = gpu / cluster->gpus_per_node;
    return (struct endpoint){ ENDPOINT_HOST, node * cluster->sockets + cluster_gpu_socket(cluster, gpu) };
}

const char *cluster_resource_name(const struct cluster *cluster, uint32_t resource, char *buffer, size_t size)
{
    CHECK(resource < cluster->resource_count);
    snprintf(buffer, size, "node%u/%s", cluster->resources[resource].node, cluster->resources[resource].name);
    return buffer;
}
