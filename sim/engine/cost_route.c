/* Copies as activities: the route of the representative, and of the phantoms as far as they use the same resources. */
#include <math.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/engine/collective_on_host.h"
#include "sim/engine/cost_internal.h"

static uint32_t node_of(const struct cost_builder *b, uint32_t gpu)
{
    return gpu / b->cluster->gpus_per_node;
}

static struct endpoint gpu_end(uint32_t gpu)
{
    return (struct endpoint){ ENDPOINT_GPU, gpu };
}

/* Add `bytes` over the way; of a phantom only where the record already uses a resource. A thread's core is held, not used by the byte. */
static enum status add_route(struct cost_builder *b, struct endpoint from, struct endpoint to, bool pageable,
                             double bytes, bool phantom, struct route *route)
{
    TRY(cluster_route(b->cluster, from, to, pageable, route, b->error));
    bool on_host = b->cluster->machine->gpu.on_host;
    for (uint32_t i = 0; i < route->use_count; i++) {
        if (on_host && b->cluster->resources[route->uses[i].resource].kind == RESOURCE_CORES) {
            continue;
        }
        if (!phantom || cost_uses(b, route->uses[i].resource)) {
            cost_amount(b, route->uses[i].resource, route->uses[i].coefficient * bytes);
        }
    }
    return STATUS_OK;
}

/* The threads that copy, one for each of the rank's devices: how many times longer they take than with a core for each. */
static double copy_threads(struct cost_builder *b, uint32_t rank)
{
    uint32_t gpu = b->schedule->devices[b->schedule->ranks[rank].first_device];
    return b->cluster->machine->gpu.on_host ? cost_threads(b, gpu, cost_sharers(b, rank)) : 1;
}

/* `stretch`: as copy_threads says. */
static enum status end_copy(struct cost_builder *b, struct op_cost *cost, double latency_s, double rate, double stretch,
                            double bytes)
{
    TRY(cost_end(b, cost, latency_s, bytes / (rate / stretch), bytes));
    cost_weigh_threads(b, cost, stretch);
    cost->launches = 1;
    cost->issue_first_ps = b->software == NULL ? 0 : ps_nearest_s(b->software->copy_host_s);
    return STATUS_OK;
}

/* What the copy takes from the representative's NVLinks. A pageable copy does not fill the PCIe link. */
static enum status add_port(struct cost_builder *b, struct endpoint from, struct endpoint to, uint32_t rank,
                            double bytes)
{
    struct route pinned;
    if (b->ports[rank] != SCHED_NONE) {
        TRY(cluster_route(b->cluster, from, to, false, &pinned, b->error));
        cost_amount(b, b->ports[rank], COPY_PORT_SHARE * bytes / pinned.rate_cap_bytes_per_s);
    }
    return STATUS_OK;
}

/* The core that copies into a new block makes its pages first. Returns the copy's rate with that. */
static double make_pages(struct cost_builder *b, uint32_t gpu, double bytes, bool phantom, double rate)
{
    if (!(b->cluster->machine->first_touch_bytes_per_s > 0)) {
        return rate;
    }
    double each_s = 1 / b->cluster->machine->first_touch_bytes_per_s;
    uint32_t cores = cluster_cores(b->cluster, node_of(b, gpu), cluster_gpu_socket(b->cluster, gpu));
    if (!phantom || cost_uses(b, cores)) {
        cost_amount(b, cores, each_s * bytes);
    }
    return 1 / (1 / rate + each_s);
}

/* Bytes between a device or a drive and the memory of ranks at `gpu`'s socket, of which a share may lie on another. `way`: of all; its rate is that of the parts one after the other. */
static enum status add_host_route(struct cost_builder *b, struct endpoint end, uint32_t gpu, bool to_host,
                                  bool pageable, double bytes, bool phantom, struct route *way)
{
    struct endpoint host = cluster_gpu_host(b->cluster, gpu), far = host;
    const struct host_socket *socket = &b->sockets[host.index];
    double spilled = socket->spilled_share;
    TRY(add_route(b, to_host ? end : host, to_host ? host : end, pageable, bytes * (1 - spilled), phantom, way));
    if (spilled > 0) {
        struct route across;
        far.index = host.index - host.index % b->cluster->sockets + socket->other;
        TRY(add_route(b, to_host ? end : far, to_host ? far : end, pageable, bytes * spilled, phantom, &across));
        way->rate_cap_bytes_per_s =
            1 / ((1 - spilled) / way->rate_cap_bytes_per_s + spilled / across.rate_cap_bytes_per_s);
        way->latency_s = fmax(way->latency_s, across.latency_s);
    }
    return STATUS_OK;
}

enum status cost_of_host_copy(struct cost_builder *b, const struct sched_work *work, uint32_t rank, bool to_device,
                              bool fresh, struct op_cost *cost)
{
    const struct sched_rank *at = &b->schedule->ranks[rank];
    const uint32_t *devices = b->schedule->devices + at->first_device;
    struct route own = { 0 };
    cost_begin(b);
    double stretch = copy_threads(b, rank);
    for (uint32_t i = 0; i < at->device_count; i++) {
        if (i != 0 && node_of(b, devices[i]) != node_of(b, devices[0])) {
            continue;
        }
        struct endpoint gpu = gpu_end(devices[i]), host = cluster_gpu_host(b->cluster, devices[i]);
        struct route phantom, *way = i == 0 ? &own : &phantom;
        TRY(add_host_route(b, gpu, devices[i], !to_device, work->pageable, work->bytes, i != 0, way));
        if (fresh) {
            way->rate_cap_bytes_per_s = make_pages(b, devices[i], work->bytes, i != 0, way->rate_cap_bytes_per_s);
        }
        if (i == 0) {
            TRY(add_port(b, to_device ? host : gpu, to_device ? gpu : host, rank, work->bytes));
        }
    }
    return end_copy(b, cost, own.latency_s, own.rate_cap_bytes_per_s, stretch, work->bytes);
}

enum status cost_of_peer_copy(struct cost_builder *b, const struct sched_work *work, uint32_t rank, uint32_t peer_gpu,
                              bool to_peer, struct op_cost *cost)
{
    const struct schedule *s = b->schedule;
    const struct sched_rank *at = &s->ranks[rank];
    uint32_t peer_rank = b->gpu_ranks[peer_gpu], gpu = s->devices[at->first_device];
    /* The peer's phantoms are the phantoms' peers when both ranks are folded alike. */
    uint32_t pairs =
        peer_rank != SCHED_NONE && s->ranks[peer_rank].device_count == at->device_count ? at->device_count : 1;
    struct route own = { 0 };
    cost_begin(b);
    double stretch = copy_threads(b, rank);
    for (uint32_t i = 0; i < pairs; i++) {
        uint32_t mine = s->devices[at->first_device + i];
        uint32_t theirs = i == 0 ? peer_gpu : s->devices[s->ranks[peer_rank].first_device + i];
        if (node_of(b, mine) != node_of(b, gpu) && node_of(b, theirs) != node_of(b, peer_gpu)) {
            continue;
        }
        struct route route;
        TRY(add_route(b, gpu_end(to_peer ? mine : theirs), gpu_end(to_peer ? theirs : mine), false, work->bytes, i != 0,
                      i == 0 ? &own : &route));
    }
    if (b->cluster->machine->gpu.on_host && work->bytes > 0) { /* as a send and receive of as many bytes */
        uint32_t ends[2] = { to_peer ? gpu : peer_gpu, to_peer ? peer_gpu : gpu };
        double transfer_s;
        TRY(collective_pair_on_host(b->cluster, ends, work->bytes, &own.latency_s, &transfer_s, b->error));
        own.rate_cap_bytes_per_s = work->bytes / transfer_s;
    }
    return end_copy(b, cost, own.latency_s, own.rate_cap_bytes_per_s, stretch, work->bytes);
}

/* A request takes the way's latency and its own bytes at one drive's rate, and so many are in flight: with few of them, drives stand idle in turn. */
static double queued_rate(const struct cost_builder *b, const struct route *drive)
{
    const struct software *software = b->software;
    if (software == NULL || software->storage_queue_depth == 0) {
        return INFINITY;
    }
    double block = software->storage_block_bytes;
    return software->storage_queue_depth * block / (drive->latency_s + block / drive->rate_cap_bytes_per_s);
}

/* The server's drives are striped: each carries its share of every transfer. */
enum status cost_of_storage(struct cost_builder *b, const struct sched_work *work, uint32_t rank, bool read,
                            struct op_cost *cost)
{
    const struct sched_rank *at = &b->schedule->ranks[rank];
    const uint32_t *devices = b->schedule->devices + at->first_device;
    uint32_t drives = b->cluster->drives;
    if (drives == 0) {
        return error_set(b->error, STATUS_UNSUPPORTED, "machine \"%s\" has no drives", b->cluster->machine->name);
    }
    double rate = 0, latency_s = 0, queued = INFINITY;
    cost_begin(b);
    for (uint32_t i = 0; i < at->device_count; i++) {
        if (i != 0 && node_of(b, devices[i]) != node_of(b, devices[0])) {
            continue;
        }
        for (uint32_t d = 0; d < drives; d++) {
            struct endpoint drive = { ENDPOINT_STORAGE, node_of(b, devices[i]) * drives + d };
            struct route route;
            TRY(add_host_route(b, drive, devices[i], read, false, work->bytes / drives, i != 0, &route));
            rate += i == 0 ? route.rate_cap_bytes_per_s : 0;
            latency_s = i == 0 && route.latency_s > latency_s ? route.latency_s : latency_s;
            queued = i == 0 ? fmin(queued, queued_rate(b, &route)) : queued;
        }
    }
    return end_copy(b, cost, latency_s, fmin(rate, queued), 1, work->bytes);
}
