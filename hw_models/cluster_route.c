#include <math.h>
#include <string.h>

#include "hw_models/cluster.h"
#include "hw_models/cluster_internal.h"
#include "sim/base/check.h"

/* Copies between two GPUs that bounce through host memory in two stages reach this part of the narrowest link:
 * 37 of 53 GB/s between two H100 without peer access [NCCL issue 1264]. */
static const double BOUNCE_EFFICIENCY = 0.70;
/* Host memory traffic of a pageable byte: read, written to the pinned staging buffer, read by the copy engine. */
static const double PAGEABLE_DRAM_BYTES = 3.0;

void cluster_use_add(struct cluster_uses *uses, uint32_t resource, double coefficient)
{
    for (uint32_t i = uses->merge_from; i < uses->count; i++) {
        if (uses->items[i].resource == resource) {
            uses->items[i].coefficient += coefficient;
            return;
        }
    }
    if (uses->count == uses->max) {
        uses->overflow = true;
        return;
    }
    uses->items[uses->count++] = (struct resource_use){ resource, coefficient };
}

double cluster_uses_rate(const struct cluster *cluster, const struct resource_use *uses, uint32_t count)
{
    double rate = INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        rate = fmin(rate, cluster->resources[uses[i].resource].capacity / uses[i].coefficient);
    }
    return rate;
}

/* One link crossed from part `from`. The both-directions limit is the host's (root ports and memory: NCCL over NICs under the GPU's own switch reaches line rate both ways at
 * once), so only ways that meet a CPU count towards it. */
static void cross_link(const struct cluster *cluster, uint32_t node, uint32_t link, uint32_t from, double coefficient,
                       bool both, struct cluster_uses *uses, double *latency_s)
{
    const struct machine_link *description = &cluster->machine->links[link];
    const struct cluster_link_map *map = &cluster->map->links[link];
    uint32_t base = node * cluster->resources_per_node;
    CHECK(map->forward != CLUSTER_NONE && (description->a == from || description->b == from));
    cluster_use_add(uses, base + map->forward + (description->a == from ? 0 : 1), coefficient);
    if (both && map->both != CLUSTER_NONE) {
        cluster_use_add(uses, base + map->both, coefficient);
    }
    *latency_s += description->latency_s;
}

static bool cross_sockets(const struct cluster *cluster, uint32_t node, uint32_t from, uint32_t to, double coefficient,
                          struct cluster_uses *uses, double *latency_s)
{
    const struct cluster_map *map = cluster->map;
    while (from != to) {
        uint32_t link = map->socket_next[from * cluster->sockets + to];
        if (link == CLUSTER_NONE) {
            return false;
        }
        uint32_t part = map->socket_parts[from];
        cross_link(cluster, node, link, part, coefficient, true, uses, latency_s);
        const struct machine_link *description = &cluster->machine->links[link];
        from = cluster->machine->parts[description->a == part ? description->b : description->a].index;
    }
    return true;
}

/* The tree links between `part` and its ancestor, upwards or downwards. */
static void climb(const struct cluster *cluster, uint32_t node, uint32_t part, uint32_t ancestor, bool up,
                  double coefficient, bool both, struct cluster_uses *uses, double *latency_s)
{
    const struct cluster_part_map *parts = cluster->map->parts;
    for (; part != ancestor; part = parts[part].parent) {
        cross_link(cluster, node, parts[part].parent_link, up ? part : parts[part].parent, coefficient, both, uses,
                   latency_s);
    }
}

bool cluster_way(const struct cluster *cluster, uint32_t node, uint32_t from_part, uint32_t to_part, double coefficient,
                 struct cluster_uses *uses, double *latency_s, bool *through_cpu)
{
    const struct cluster_map *map = cluster->map;
    uint32_t a = from_part, b = to_part;
    while (a != b && (map->parts[a].depth > 0 || map->parts[b].depth > 0)) {
        uint32_t *deeper = map->parts[a].depth >= map->parts[b].depth ? &a : &b;
        *deeper = map->parts[*deeper].parent;
    }
    *through_cpu = map->parts[a].depth == 0;
    climb(cluster, node, from_part, a, true, coefficient, *through_cpu, uses, latency_s);
    if (a != b &&
        !cross_sockets(cluster, node, map->parts[a].socket, map->parts[b].socket, coefficient, uses, latency_s)) {
        return false;
    }
    climb(cluster, node, to_part, b, false, coefficient, *through_cpu, uses, latency_s);
    return true;
}

static bool host_way(const struct cluster *cluster, uint32_t node, uint32_t part, uint32_t socket, bool to_host,
                     double coefficient, struct cluster_uses *uses, double *latency_s)
{
    bool through_cpu = false;
    uint32_t host = cluster->map->socket_parts[socket];
    return cluster_way(cluster, node, to_host ? part : host, to_host ? host : part, coefficient, uses, latency_s,
                       &through_cpu);
}

bool cluster_nic_way(const struct cluster *cluster, uint32_t gpu, uint32_t nic, bool outward, double coefficient,
                     struct cluster_uses *uses, double *latency_s)
{
    const struct cluster_map *map = cluster->map;
    uint32_t node = gpu / cluster->gpus_per_node;
    uint32_t base = node * cluster->resources_per_node;
    uint32_t gpu_part = map->gpu_parts[gpu % cluster->gpus_per_node], nic_part = map->nic_parts[nic];
    bool through_cpu = false;
    if (!cluster_way(cluster, node, outward ? gpu_part : nic_part, outward ? nic_part : gpu_part, coefficient, uses,
                     latency_s, &through_cpu)) {
        return false;
    }
    if (through_cpu) { /* no direct access across a root: written to host memory, then read */
        cluster_use_add(uses, base + map->first_dram + map->parts[gpu_part].socket, 2 * coefficient);
    }
    cluster_use_add(uses, base + map->first_nic + 2 * nic + (outward ? 0 : 1), coefficient);
    return true;
}

bool cluster_peer_way(const struct cluster *cluster, uint32_t from_gpu, uint32_t to_gpu, double coefficient,
                      struct cluster_uses *uses, double *latency_s, bool *bounced)
{
    const struct cluster_map *map = cluster->map;
    uint32_t node = from_gpu / cluster->gpus_per_node, base = node * cluster->resources_per_node;
    uint32_t from = from_gpu % cluster->gpus_per_node, to = to_gpu % cluster->gpus_per_node;
    uint32_t direct = map->gpu_pair_link[from * cluster->gpus_per_node + to];
    *bounced = false;
    if (direct != CLUSTER_NONE) {
        cross_link(cluster, node, direct, map->gpu_parts[from], coefficient, true, uses, latency_s);
        return true;
    }
    if (map->gpu_fabric[from] != CLUSTER_NONE && map->gpu_fabric[to] != CLUSTER_NONE) {
        cluster_use_add(uses, base + map->gpu_fabric[from], coefficient);
        cluster_use_add(uses, base + map->gpu_fabric[to] + 1, coefficient);
        *latency_s += 2 * map->fabric_hop_s;
        return true;
    }
    struct cluster_uses saved = *uses;
    double saved_latency_s = *latency_s;
    uint32_t socket = map->parts[map->gpu_parts[from]].socket;
    bool through_cpu = false;
    if (cluster->machine->gpu.pcie_peer && map->parts[map->gpu_parts[to]].socket == socket) {
        return cluster_way(cluster, node, map->gpu_parts[from], map->gpu_parts[to], coefficient, uses, latency_s,
                           &through_cpu);
    }
    *bounced = true;
    if (!host_way(cluster, node, map->gpu_parts[from], socket, true, coefficient, uses, latency_s) ||
        !host_way(cluster, node, map->gpu_parts[to], socket, false, coefficient, uses, latency_s)) {
        *uses = saved;
        *latency_s = saved_latency_s;
        return false;
    }
    cluster_use_add(uses, base + map->first_dram + socket, 2 * coefficient);
    return true;
}

static enum status no_way(const struct cluster *cluster, const char *what, struct error *error)
{
    return error_set(error, STATUS_UNSUPPORTED, "machine \"%s\" has no way for a copy %s", cluster->machine->name,
                     what);
}

static enum status route_gpu_host(const struct cluster *cluster, uint32_t gpu, uint32_t host, bool to_host,
                                  bool pageable, struct cluster_uses *uses, struct route *route, struct error *error)
{
    const struct machine *machine = cluster->machine;
    uint32_t node = gpu / cluster->gpus_per_node, socket = host % cluster->sockets;
    if (host / cluster->sockets != node) {
        return no_way(cluster, "between a GPU and another server's memory in one piece: send it between GPUs or hosts",
                      error);
    }
    cluster_use_add(uses, cluster_hbm(cluster, gpu), 1);
    if (!host_way(cluster, node, cluster->map->gpu_parts[gpu % cluster->gpus_per_node], socket, to_host, 1, uses,
                  &route->latency_s)) {
        return no_way(cluster, "between a GPU and a socket it is not joined with", error);
    }
    cluster_use_add(uses, cluster_dram(cluster, node, socket), pageable ? PAGEABLE_DRAM_BYTES : 1);
    if (pageable && machine->pageable_bytes_per_s > 0) { /* one core copies to or from the staging buffer */
        cluster_use_add(uses, cluster_cores(cluster, node, socket), 1 / machine->pageable_bytes_per_s);
        route->rate_cap_bytes_per_s = machine->pageable_bytes_per_s;
    }
    return STATUS_OK;
}

/* What the links of a device on the host say of its thread's copies, in one direction. The links of other copies do not count: two copies are two threads. */
static bool thread_way(const struct cluster *cluster, uint32_t gpu, uint32_t socket, bool to_host, double *rate,
                       struct cluster_uses *uses, double *latency_s)
{
    struct resource_use scratch[ROUTE_USES_MAX];
    struct cluster_uses own = { .items = scratch, .max = ROUTE_USES_MAX };
    uint32_t node = gpu / cluster->gpus_per_node;
    if (!host_way(cluster, node, cluster->map->gpu_parts[gpu % cluster->gpus_per_node], socket, to_host, 1, &own,
                  latency_s)) {
        return false;
    }
    *rate = cluster_uses_rate(cluster, scratch, own.count);
    for (uint32_t i = 0; uses != NULL && i < own.count; i++) {
        cluster_use_add(uses, scratch[i].resource, scratch[i].coefficient);
    }
    return true;
}

/* One core's memcpy at `rate`: read in one socket's DRAM, written in another's or the same. Alone it runs as measured, so caches may keep some of it from the DRAM. */
static void use_thread(const struct cluster *cluster, uint32_t from_dram, uint32_t to_dram, uint32_t cores, double rate,
                       struct cluster_uses *uses)
{
    double bytes = from_dram == to_dram ? 2 : 1;
    cluster_use_add(uses, cores, 1 / rate);
    cluster_use_add(uses, from_dram, fmin(bytes, cluster->resources[from_dram].capacity / rate));
    if (from_dram != to_dram) {
        cluster_use_add(uses, to_dram, fmin(bytes, cluster->resources[to_dram].capacity / rate));
    }
}

static enum status route_thread_host(const struct cluster *cluster, uint32_t gpu, uint32_t host, bool to_host,
                                     bool pageable, struct cluster_uses *uses, struct route *route, struct error *error)
{
    const struct machine *machine = cluster->machine;
    uint32_t node = gpu / cluster->gpus_per_node, socket = host % cluster->sockets;
    double rate;
    if (host / cluster->sockets != node || !thread_way(cluster, gpu, socket, to_host, &rate, uses, &route->latency_s)) {
        return no_way(cluster, "between a device and a socket it is not joined with", error);
    }
    if (pageable && machine->pageable_bytes_per_s > 0) {
        rate = fmin(rate, machine->pageable_bytes_per_s);
    }
    uint32_t device = cluster_hbm(cluster, gpu), memory = cluster_dram(cluster, node, socket);
    use_thread(cluster, to_host ? device : memory, to_host ? memory : device,
               cluster_cores(cluster, node, cluster_gpu_socket(cluster, gpu)), rate, uses);
    route->rate_cap_bytes_per_s = rate;
    return STATUS_OK;
}

/* Between two devices, or within one: the slower of out of the one and into the other, unless the machine has a measured curve for pairs (sim/engine/collective_cost.h). */
static enum status route_thread_thread(const struct cluster *cluster, uint32_t from, uint32_t to,
                                       struct cluster_uses *uses, struct route *route, struct error *error)
{
    uint32_t node = from / cluster->gpus_per_node;
    uint32_t sockets[2] = { cluster_gpu_socket(cluster, from), cluster_gpu_socket(cluster, to) };
    double out, in, latency_out_s = 0, latency_in_s = 0, latency_between_s = 0;
    if (to / cluster->gpus_per_node != node ||
        !thread_way(cluster, from, sockets[0], true, &out, NULL, &latency_out_s) ||
        !thread_way(cluster, to, sockets[1], false, &in, NULL, &latency_in_s) ||
        !cross_sockets(cluster, node, sockets[0], sockets[1], 1, uses, &latency_between_s)) {
        return no_way(cluster, "between two devices on hosts that no link joins", error);
    }
    route->latency_s = fmax(latency_out_s, latency_in_s) + latency_between_s;
    route->rate_cap_bytes_per_s = fmin(fmin(out, in), cluster_uses_rate(cluster, uses->items, uses->count));
    use_thread(cluster, cluster_hbm(cluster, from), cluster_hbm(cluster, to), cluster_cores(cluster, node, sockets[1]),
               route->rate_cap_bytes_per_s, uses);
    return STATUS_OK;
}

static enum status route_gpu_gpu(const struct cluster *cluster, uint32_t from, uint32_t to, struct cluster_uses *uses,
                                 struct route *route, struct error *error)
{
    const struct cluster_map *map = cluster->map;
    cluster_use_add(uses, cluster_hbm(cluster, from), from == to ? 2 : 1); /* read and written in one memory */
    if (from == to) {
        return STATUS_OK;
    }
    cluster_use_add(uses, cluster_hbm(cluster, to), 1);
    if (from / cluster->gpus_per_node == to / cluster->gpus_per_node) {
        bool bounced = false;
        if (!cluster_peer_way(cluster, from, to, 1, uses, &route->latency_s, &bounced)) {
            return no_way(cluster, "between two GPUs of one server", error);
        }
        if (bounced) {
            route->rate_cap_bytes_per_s = BOUNCE_EFFICIENCY * cluster_uses_rate(cluster, uses->items, uses->count);
        }
        return STATUS_OK;
    }
    uint32_t ends[2] = { from, to };
    for (int end = 0; end < 2; end++) {
        uint32_t local = ends[end] % cluster->gpus_per_node;
        uint32_t nics = map->gpu_nic_start[local + 1] - map->gpu_nic_start[local];
        CHECK(nics > 0);
        for (uint32_t i = 0; i < nics; i++) { /* a GPU with several NICs of its own sends through all */
            double latency_s = 0;
            if (!cluster_nic_way(cluster, ends[end], map->gpu_nics[map->gpu_nic_start[local] + i], end == 0, 1.0 / nics,
                                 uses, &latency_s)) {
                return no_way(cluster, "between a GPU and a NIC", error);
            }
            route->latency_s += i == 0 ? latency_s : 0;
        }
    }
    route->latency_s += cluster->machine->network_latency_s;
    return STATUS_OK;
}

static enum status route_storage(const struct cluster *cluster, uint32_t drive, uint32_t host, bool write,
                                 struct cluster_uses *uses, struct route *route, struct error *error)
{
    const struct cluster_map *map = cluster->map;
    uint32_t node = drive / cluster->drives, socket = host % cluster->sockets;
    if (host / cluster->sockets != node) {
        return no_way(cluster, "between a drive and another server's memory", error);
    }
    uint32_t part = map->drive_parts[drive % cluster->drives];
    const struct machine_part *nvme = &cluster->machine->parts[part];
    double rate = write ? nvme->write_bytes_per_s : nvme->read_bytes_per_s;
    if (!(rate > 0)) {
        return no_way(cluster,
                      write ? "to storage: the drive's write rate is unknown"
                            : "from storage: the drive's read rate is unknown",
                      error);
    }
    cluster_use_add(uses, node * cluster->resources_per_node + map->first_drive + drive % cluster->drives, 1 / rate);
    if (!host_way(cluster, node, part, socket, !write, 1, uses, &route->latency_s)) {
        return no_way(cluster, "between a drive and a socket it is not joined with", error);
    }
    cluster_use_add(uses, cluster_dram(cluster, node, socket), 1);
    return STATUS_OK;
}

/* A copy by the CPU within one server: read on one socket, written on the other (or the same). */
static enum status route_host_host(const struct cluster *cluster, uint32_t from, uint32_t to, struct cluster_uses *uses,
                                   struct route *route, struct error *error)
{
    uint32_t node = from / cluster->sockets;
    if (to / cluster->sockets != node) {
        return no_way(cluster, "between the memories of two servers", error);
    }
    cluster_use_add(uses, cluster_dram(cluster, node, from % cluster->sockets), 1);
    cluster_use_add(uses, cluster_dram(cluster, node, to % cluster->sockets), 1);
    if (!cross_sockets(cluster, node, from % cluster->sockets, to % cluster->sockets, 1, uses, &route->latency_s)) {
        return no_way(cluster, "between two sockets that no link joins", error);
    }
    if (cluster->machine->pageable_bytes_per_s > 0) { /* one core's memcpy */
        cluster_use_add(uses, cluster_cores(cluster, node, to % cluster->sockets),
                        1 / cluster->machine->pageable_bytes_per_s);
        route->rate_cap_bytes_per_s = cluster->machine->pageable_bytes_per_s;
    }
    return STATUS_OK;
}

static uint32_t endpoint_count(const struct cluster *cluster, enum endpoint_kind kind)
{
    return kind == ENDPOINT_GPU    ? cluster->nodes * cluster->gpus_per_node
           : kind == ENDPOINT_HOST ? cluster->nodes * cluster->sockets
                                   : cluster->nodes * cluster->drives;
}

enum status cluster_route(const struct cluster *cluster, struct endpoint from, struct endpoint to, bool pageable,
                          struct route *route, struct error *error)
{
    struct endpoint ends[2] = { from, to };
    for (int end = 0; end < 2; end++) {
        uint32_t count = endpoint_count(cluster, ends[end].kind);
        if (ends[end].kind == ENDPOINT_STORAGE && count == 0) {
            return error_set(error, STATUS_UNSUPPORTED, "machine \"%s\" has no nvme drive", cluster->machine->name);
        }
        CHECK(ends[end].index < count);
    }
    memset(route, 0, sizeof *route);
    struct cluster_uses uses = { .items = route->uses, .max = ROUTE_USES_MAX };
    route->rate_cap_bytes_per_s = INFINITY;
    enum status status;
    bool on_host = cluster->machine->gpu.on_host;
    if (from.kind == ENDPOINT_GPU && to.kind == ENDPOINT_GPU && on_host) {
        status = route_thread_thread(cluster, from.index, to.index, &uses, route, error);
    } else if (from.kind == ENDPOINT_GPU && to.kind == ENDPOINT_GPU) {
        status = route_gpu_gpu(cluster, from.index, to.index, &uses, route, error);
    } else if (from.kind == ENDPOINT_HOST && to.kind == ENDPOINT_HOST) {
        status = route_host_host(cluster, from.index, to.index, &uses, route, error);
    } else if (from.kind == ENDPOINT_STORAGE && to.kind == ENDPOINT_HOST) {
        status = route_storage(cluster, from.index, to.index, false, &uses, route, error);
    } else if (from.kind == ENDPOINT_HOST && to.kind == ENDPOINT_STORAGE) {
        status = route_storage(cluster, to.index, from.index, true, &uses, route, error);
    } else if (from.kind == ENDPOINT_STORAGE || to.kind == ENDPOINT_STORAGE) {
        status = no_way(cluster, "between storage and a GPU in one piece: go through host memory", error);
    } else {
        bool to_host = to.kind == ENDPOINT_HOST;
        uint32_t gpu = to_host ? from.index : to.index, host = to_host ? to.index : from.index;
        status = on_host ? route_thread_host(cluster, gpu, host, to_host, pageable, &uses, route, error)
                         : route_gpu_host(cluster, gpu, host, to_host, pageable, &uses, route, error);
    }
    TRY(status);
    if (uses.overflow) {
        return error_set(error, STATUS_LIMIT, "a copy on \"%s\" crosses more than %d resources", cluster->machine->name,
                         ROUTE_USES_MAX);
    }
    route->use_count = uses.count;
    route->rate_cap_bytes_per_s =
        fmin(route->rate_cap_bytes_per_s, cluster_uses_rate(cluster, route->uses, route->use_count));
    return STATUS_OK;
}
