/* Kernels, collectives and the host optimizer as activities. */
#include <math.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/engine/collective_cost.h"
#include "sim/engine/cost_internal.h"
#include "sim/engine/kernel_cost.h"

/* Share of a wave over which the continuous ceiling rises, so that no shape makes time jump. */
static const double CEILING_RISE = 0.25;

static double soft_ceiling(double x)
{
    if (x <= 1) {
        return 1;
    }
    double whole = floor(x), step = fmin(1, (x - whole) / CEILING_RISE);
    return whole + step * step * (3 - 2 * step);
}

double cost_wave_slowdown(double tiles, double sms, double taken)
{
    CHECK(tiles > 0 && sms > taken && taken >= 0);
    if (tiles <= sms) {
        return soft_ceiling(tiles / (sms - taken));
    }
    return fmax(sms / (sms - taken), soft_ceiling(tiles / (sms - taken)) / soft_ceiling(tiles / sms));
}

/* Host time of a sequence of launches, walked once; see issue_tail_ps. Launch times are relative to the first launch, which the device cannot precede. */
struct issue_walk {
    double launch_s, first_s, now_s; /* host time since the op's issue began */
    double done_s;                   /* device time of the launches so far */
    double tail_s;                   /* max over launches of (launch time - device time before it) */
    uint64_t launches;
};

static void walk_launches(struct issue_walk *walk, uint32_t launches, double pass_s, double alone_s)
{
    walk->now_s += pass_s;
    if (walk->launches == 0) {
        walk->first_s = walk->now_s + walk->launch_s;
    }
    /* Launch m of the record comes at now + (m + 1) * launch_s and has m/launches of alone_s before it: linear in m, so greatest at an end. */
    double first = walk->now_s + walk->launch_s - walk->first_s - walk->done_s;
    double last =
        walk->now_s + launches * walk->launch_s - walk->first_s - walk->done_s - alone_s * (launches - 1) / launches;
    walk->tail_s = fmax(walk->tail_s, fmax(first, last));
    walk->now_s += launches * walk->launch_s;
    walk->done_s += alone_s;
    walk->launches += launches;
}

static void walk_collective(struct issue_walk *walk, double host_s, double alone_s)
{
    double launch_s = walk->launch_s;
    walk->launch_s = host_s;
    walk_launches(walk, 1, 0, alone_s);
    walk->launch_s = launch_s;
}

static double collective_host_s(const struct cost_builder *b, uint32_t group)
{
    return b->software == NULL ? 0 : software_collective_host_s(b->software, b->schedule->groups[group].member_count);
}

static enum collective_kind kind_of(enum opcode opcode)
{
    switch ((unsigned)opcode) {
    case OP_ALL_REDUCE: return COLLECTIVE_ALL_REDUCE;
    case OP_ALL_GATHER: return COLLECTIVE_ALL_GATHER;
    case OP_REDUCE_SCATTER: return COLLECTIVE_REDUCE_SCATTER;
    case OP_BROADCAST: return COLLECTIVE_BROADCAST;
    default: return COLLECTIVE_ALL_TO_ALL;
    }
}

/* The collective merged into a sequence: as one step of it, on its links and HBM but without a claim on SMs, which are the sequence's own. */
static double add_merged(struct cost_builder *b, uint32_t index)
{
    const struct op_cost *one = &b->costs.items[index];
    for (uint32_t i = one->resident_count; i < one->use_count; i++) {
        const struct maxmin_use *use = &b->uses.items[one->first_use + i];
        cost_amount(b, use->resource, use->coefficient * s_from_ps(one->work_ps));
    }
    return s_from_ps(one->latency_ps + one->work_ps);
}

static const struct kernel_cost *cost_of_kernel(struct cost_builder *b, uint32_t kernel)
{
    struct kernel_cost *one = &b->kernels[kernel];
    if (one->tiles < 1) {
        kernel_cost(&b->cluster->machine->gpu, &b->schedule->kernels[kernel], one);
        CHECK(one->tiles >= 1 && one->alone_s > 0);
    }
    return one;
}

/* Schedules written before items could say their opcode mean all-reduce. */
static enum opcode merged_opcode(const struct work_item *item)
{
    return item->passes == OP_COMPUTE ? OP_ALL_REDUCE : (enum opcode)item->passes;
}

enum status cost_of_kernels(struct cost_builder *b, const struct sched_work *work, uint32_t rank, struct op_cost *cost)
{
    const struct schedule *s = b->schedule;
    const struct machine_gpu *machine = &b->cluster->machine->gpu;
    uint32_t gpu = s->devices[s->ranks[rank].first_device];
    double sms = machine->sm_count, taken = fmin(b->cluster->machine->collective_sms, sms / 2);
    struct issue_walk walk = { .launch_s = b->software == NULL ? 0 : b->software->launch_host_s };
    double pass_s = b->software == NULL ? 0 : b->software->pass_host_s;
    double alone_s = 0, beside_s = 0, hbm_bytes = 0;
    uint32_t end = work->first_item + work->item_count, unused;
    for (uint32_t i = work->first_item; i < end;
         i++) { /* records of merged collectives first: one record is made at a time */
        const struct work_item *item = &s->work_items[i];
        if (item->kind != ITEM_KERNEL) {
            TRY(cost_find_collective(b, merged_opcode(item), item->index, &unused));
        }
    }
    cost_begin(b);
    cost_fixed(b, cluster_sm(b->cluster, gpu), 1); /* set below, when the sequence is known */
    for (uint32_t i = work->first_item; i < end; i++) {
        const struct work_item *item = &s->work_items[i];
        if (item->kind == ITEM_KERNEL) {
            uint32_t launches = s->kernels[item->index].launches;
            const struct kernel_cost *one = cost_of_kernel(b, item->index);
            double gap_s = launches * machine->launch_gap_s;
            walk_launches(&walk, launches, item->passes * pass_s, one->alone_s + gap_s);
            alone_s += one->alone_s + gap_s;
            beside_s +=
                fmax(one->alone_s, one->floor_s + one->flop_s * cost_wave_slowdown(one->tiles, sms, taken)) + gap_s;
            hbm_bytes += one->hbm_bytes;
        } else {
            uint32_t index;
            TRY(cost_find_collective(b, merged_opcode(item), item->index, &index));
            double merged_s = add_merged(b, index);
            walk_collective(&walk, collective_host_s(b, s->works[item->index].group), merged_s);
            alone_s += merged_s;
            beside_s += merged_s;
        }
    }
    if (hbm_bytes > 0) {
        cost_amount(b, cluster_hbm(b->cluster, gpu), hbm_bytes);
    }
    double beside_rate = alone_s > 0 ? alone_s / beside_s : 1;
    /* SMs such that a slowed sequence and the collective just fill them. */
    b->pending[0].coefficient = fmin(1, (1 - taken / sms) / beside_rate);
    TRY(cost_end(b, cost, 0, alone_s, 0));
    CHECK(walk.launches <= UINT32_MAX);
    cost->beside_rate = taken > 0 ? beside_rate : 1;
    cost->launches = (uint32_t)walk.launches;
    cost->issue_first_ps = ps_from_s(walk.first_s);
    cost->issue_rest_ps = ps_from_s(walk.now_s - walk.first_s);
    cost->issue_tail_ps = ps_from_s(walk.tail_s + alone_s);
    return STATUS_OK;
}

/* SMs and HBM of those members that are ranks. */
static void add_members(struct cost_builder *b, const struct sched_group *group, const struct collective_cost *cost,
                        bool fixed)
{
    for (uint32_t i = 0; i < group->member_count; i++) {
        uint32_t gpu = b->schedule->group_members[group->first_member + i];
        if (b->gpu_ranks[gpu] == SCHED_NONE) {
            continue;
        }
        if (!fixed && cost->hbm_bytes > 0) {
            cost_amount(b, cluster_hbm(b->cluster, gpu), cost->hbm_bytes);
        } else if (fixed && cost->sm_fraction > 0) {
            cost_fixed(b, cluster_sm(b->cluster, gpu), cost->sm_fraction);
        }
    }
}

/* Members that are ranks. When there is but one, the others are its phantoms and their servers its server's mirror images: nobody else is simulated there. */
static uint32_t ranks_of(const struct cost_builder *b, const struct sched_group *group)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < group->member_count; i++) {
        count += b->gpu_ranks[b->schedule->group_members[group->first_member + i]] != SCHED_NONE;
    }
    return count;
}

static enum status cost_of_group(struct cost_builder *b, enum collective_kind kind, double bytes,
                                 const struct sched_group *group, struct op_cost *cost)
{
    struct collective_cost one;
    const struct collective_request request = {
        .kind = kind,
        .bytes = bytes,
        .members = b->schedule->group_members + group->first_member,
        .member_count = group->member_count,
        .instance_count = group->instance_count,
        .first_node_only = ranks_of(b, group) == 1,
    };
    TRY(collective_cost(b->cluster, &request, b->ring, b->ring_max, &one, b->error));
    cost_begin(b);
    add_members(b, group, &one, true);
    uint32_t resident_count = b->fixed_count;
    add_members(b, group, &one, false);
    for (uint32_t i = 0; i < one.use_count; i++) {
        cost_amount(b, b->ring[i].resource, b->ring[i].coefficient * one.bus_bytes);
    }
    /* The wait of a pair for each other is simulated: each has its own op and its own host. */
    uint32_t waiting = kind == COLLECTIVE_SEND_RECV ? 1 : group->member_count;
    double wait_s = b->software == NULL ? 0 : software_collective_wait_s(b->software, waiting);
    TRY(cost_end(b, cost, one.latency_s + wait_s, one.transfer_s, one.bus_bytes));
    cost->resident_count = cost->use_count == 0 ? 0 : resident_count;
    cost->launches = 1;
    cost->issue_first_ps = b->software == NULL ? 0 : ps_from_s(software_collective_host_s(b->software, waiting));
    return STATUS_OK;
}

enum status cost_of_collective(struct cost_builder *b, enum opcode opcode, const struct sched_work *work,
                               struct op_cost *cost)
{
    return cost_of_group(b, kind_of(opcode), work->bytes, &b->schedule->groups[work->group], cost);
}

enum status cost_of_pair(struct cost_builder *b, const struct sched_work *work, uint32_t group, struct op_cost *cost)
{
    return cost_of_group(b, COLLECTIVE_SEND_RECV, work->bytes, &b->schedule->groups[group], cost);
}

enum status cost_of_host_optimizer(struct cost_builder *b, const struct sched_work *work, uint32_t rank,
                                   struct op_cost *cost)
{
    const struct sched_rank *at = &b->schedule->ranks[rank];
    const struct cluster *cluster = b->cluster;
    const uint32_t *devices = b->schedule->devices + at->first_device;
    uint32_t node = devices[0] / cluster->gpus_per_node, socket = cluster_gpu_socket(cluster, devices[0]), sharers = 0;
    for (uint32_t i = 0; i < at->device_count; i++) {
        sharers += devices[i] / cluster->gpus_per_node == node && cluster_gpu_socket(cluster, devices[i]) == socket;
    }
    uint32_t cores = cluster_cores(cluster, node, socket), users = b->socket_users[node * cluster->sockets + socket];
    double share = cluster->resources[cores].capacity / users;
    double rate = share * cluster->machine->cpu_adam_parameters_per_s_core;
    if (!(rate > 0)) {
        return error_set(b->error, STATUS_UNSUPPORTED, "machine \"%s\" has no cpu_adam_parameters_per_s_core",
                         cluster->machine->name);
    }
    double bytes = HOST_OPTIMIZER_BYTES_PER_PARAMETER * work->parameters;
    cost_begin(b);
    cost_fixed(b, cores, share * sharers);
    cost_amount(b, cluster_dram(cluster, node, socket), bytes * sharers);
    return cost_end(b, cost, 0, work->parameters / rate, bytes);
}
