/* One record in the making: from amounts that a work moves over resources to coefficients (cost_internal.h). */
#include <math.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/engine/cost_internal.h"
#include "sim/engine/thread_slices.h"

void cost_begin(struct cost_builder *b)
{
    CHECK(b->pending_count == 0);
    b->fixed_count = 0;
}

static void append(struct cost_builder *b, uint32_t resource, double value)
{
    b->pending[b->pending_count++] = (struct maxmin_use){ resource, value };
    b->places[resource] = b->pending_count;
}

void cost_fixed(struct cost_builder *b, uint32_t resource, double level)
{
    CHECK(b->pending_count == b->fixed_count && b->places[resource] == 0);
    append(b, resource, level);
    b->fixed_count++;
}

bool cost_uses(const struct cost_builder *b, uint32_t resource)
{
    return b->places[resource] != 0;
}

double cost_threads(struct cost_builder *b, uint32_t gpu, double threads)
{
    const struct cluster *cluster = b->cluster;
    uint32_t cores = cluster_cores(cluster, gpu / cluster->gpus_per_node, cluster_gpu_socket(cluster, gpu));
    double capacity = cluster->resources[cores].capacity;
    cost_fixed(b, cores, fmin(threads, capacity));
    return fmax(1, threads / capacity);
}

uint32_t cost_sharers(const struct cost_builder *b, uint32_t rank)
{
    const struct sched_rank *at = &b->schedule->ranks[rank];
    const struct cluster *cluster = b->cluster;
    const uint32_t *devices = b->schedule->devices + at->first_device;
    uint32_t node = devices[0] / cluster->gpus_per_node, socket = cluster_gpu_socket(cluster, devices[0]), sharers = 0;
    for (uint32_t i = 0; i < at->device_count; i++) {
        sharers += devices[i] / cluster->gpus_per_node == node && cluster_gpu_socket(cluster, devices[i]) == socket;
    }
    return sharers;
}

void cost_amount(struct cost_builder *b, uint32_t resource, double amount)
{
    if (!(amount > 0)) {
        return;
    }
    if (b->places[resource] == 0) {
        append(b, resource, amount);
    } else {
        CHECK(b->places[resource] > b->fixed_count);
        b->pending[b->places[resource] - 1].coefficient += amount;
    }
}

static void forget_pending(struct cost_builder *b)
{
    for (uint32_t i = 0; i < b->pending_count; i++) {
        b->places[b->pending[i].resource] = 0;
    }
    b->pending_count = 0;
}

enum status cost_end(struct cost_builder *b, struct op_cost *cost, double latency_s, double alone_s, double bytes)
{
    enum status status = array_reserve(&b->uses, b->pending_count, b->error);
    if (status != STATUS_OK) {
        forget_pending(b);
        return status;
    }
    double work_s = alone_s;
    for (uint32_t i = b->fixed_count; i < b->pending_count; i++) {
        work_s = fmax(work_s, b->pending[i].coefficient / b->table->capacities[b->pending[i].resource]);
    }
    CHECK(isfinite(work_s) && isfinite(latency_s));
    double hbm = b->cluster->machine->gpu.hbm_bytes_per_s;
    bool by_bytes = bytes > 0 && !b->cluster->machine->gpu.on_host;
    *cost = (struct op_cost){
        .latency_ps = ps_nearest_s(latency_s),
        .work_ps = ps_nearest_s(work_s),
        .weight = by_bytes ? hbm * work_s / bytes : 1,
        .beside_rate = 1,
        .first_use = (uint32_t)b->uses.count,
        .use_count = work_s > 0 ? b->pending_count : 0,
    };
    for (uint32_t i = 0; i < cost->use_count; i++) {
        struct maxmin_use use = b->pending[i];
        double capacity = b->table->capacities[use.resource];
        /* An amount that fills its resource exactly must not exceed it in the last bit. */
        use.coefficient =
            fmin(capacity, i < b->fixed_count ? use.coefficient : use.coefficient / s_from_ps(cost->work_ps));
        b->uses.items[b->uses.count++] = use;
    }
    forget_pending(b);
    return STATUS_OK;
}

void cost_weigh_threads(const struct cost_builder *b, struct op_cost *cost, double stretch)
{
    if (b->cluster->machine->gpu.on_host) {
        cost->weight *= stretch * thread_slices_weight(s_from_ps(cost->work_ps) / stretch);
    }
}
