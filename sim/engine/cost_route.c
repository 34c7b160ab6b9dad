/* Copies as activities: the route of the representative, and of the phantoms as far as they use the same resources. */
#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/engine/cost_internal.h"

static uint32_t node_of(const struct cost_builder *b, uint32_t gpu)
{
    return gpu / b->cluster->gpus_per_node;
}

static struct endpoint gpu_end(uint32_t gpu)
{
    return (struct endpoint){ ENDPOINT_GPU, gpu };
}

/* The host memory nearest to a GPU. */
static struct endpoint host_end(const struct cost_builder *b, uint32_t gpu)
{
    return (struct endpoint){ ENDPOINT_HOST,
                              node_of(b, gpu) * b->cluster->sockets + cluster_gpu_socket(b->cluster, gpu) };
}

/* Add `bytes` over the way; of a phantom only where the record already uses a resource. */
static enum status add_route(struct cost_builder *b, struct endpoint from, struct endpoint to, bool pageable,
                             double bytes, bool phantom, struct route *route)
{
    TRY(cluster_route(b->cluster, from, to, pageable, route, b->error));
    for (uint32_t i = 0; i < route->use_count; i++) {
        if (!phantom || cost_uses(b, route->uses[i].resource)) {
            cost_amount(b, route->uses[i].resource, route->uses[i].coefficient * bytes);
        }
    }
    return STATUS_OK;
}

static enum status end_copy(struct cost_builder *b, struct op_cost *cost, double latency_s, double rate, double bytes)
{
    TRY(cost_end(b, cost, latency_s, bytes / rate, bytes));
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

enum status cost_of_host_copy(struct cost_builder *b, const struct sched_work *work, uint32_t rank, bool to_device,
                              struct op_cost *cost)
{
    const struct sched_rank *at = &b->schedule->ranks[rank];
    const uint32_t *devices = b->schedule->devices + at->first_device;
    struct route own = { 0 };
    cost_begin(b);
    for (uint32_t i = 0; i < at->device_count; i++) {
        if (i != 0 && node_of(b, devices[i]) != node_of(b, devices[0])) {
            continue;
        }
        struct endpoint gpu = gpu_end(devices[i]), host = host_end(b, devices[i]);
        struct route route;
        TRY(add_route(b, to_device ? host : gpu, to_device ? gpu : host, work->pageable, work->bytes, i != 0,
                      i == 0 ? &own : &route));
        if (i == 0) {
            TRY(add_port(b, to_device ? host : gpu, to_device ? gpu : host, rank, work->bytes));
        }
    }
    return end_copy(b, cost, own.latency_s, own.rate_cap_bytes_per_s, work->bytes);
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
    return end_copy(b, cost, own.latency_s, own.rate_cap_bytes_per_s, work->bytes);
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
    double rate = 0, latency_s = 0;
    cost_begin(b);
    for (uint32_t i = 0; i < at->device_count; i++) {
        if (i != 0 && node_of(b, devices[i]) != node_of(b, devices[0])) {
            continue;
        }
        struct endpoint host = host_end(b, devices[i]);
        for (uint32_t d = 0; d < drives; d++) {
            struct endpoint drive = { ENDPOINT_STORAGE, node_of(b, devices[i]) * drives + d };
            struct route route;
            TRY(add_route(b, read ? drive : host, read ? host : drive, false, work->bytes / drives, i != 0, &route));
            rate += i == 0 ? route.rate_cap_bytes_per_s : 0;
            latency_s = i == 0 && route.latency_s > latency_s ? route.latency_s : latency_s;
        }
    }
    return end_copy(b, cost, latency_s, rate, work->bytes);
}
