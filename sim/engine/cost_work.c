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

/* Of a group on the host, the threads on some cores: all members (of pairs the receivers, who copy) of the first instance, or of all. */
static double threads_on(const struct cost_builder *b, const struct sched_group *group, bool pairs, bool all,
                         uint32_t socket)
{
    uint32_t instances = all ? group->instance_count : 1, count = 0;
    for (uint32_t i = pairs ? 1 : 0; i < instances * group->member_count; i += pairs ? 2 : 1) {
        uint32_t gpu = b->schedule->group_members[group->first_member + i];
        count += cluster_gpu_socket(b->cluster, gpu) == socket;
    }
    return count;
}

/* How many times longer a collective on the host takes for being more threads than cores: members alone, or with their sisters. */
static double crowding(const struct cost_builder *b, const struct sched_group *group, bool pairs, bool all)
{
    double most = 1;
    for (uint32_t socket = 0; socket < b->cluster->sockets; socket++) {
        uint32_t cores = cluster_cores(b->cluster, 0, socket);
        most = fmax(most, threads_on(b, group, pairs, all, socket) / b->cluster->resources[cores].capacity);
    }
    return most;
}

/* On the host: the rank's own part, on the sequence's threads and their DRAM. What threads take from each other when there are more than cores is in the sequence's
 * stretch; the meeting is no thread's and not stretched. */
static double add_merged_on_host(struct cost_builder *b, const struct op_cost *one, const struct sched_group *group,
                                 uint32_t gpu, double sharers, double stretch)
{
    double members = (double)group->member_count * group->instance_count, dram_bytes = 0;
    for (uint32_t i = one->resident_count; i < one->use_count; i++) {
        const struct maxmin_use *use = &b->uses.items[one->first_use + i];
        bool dram = b->cluster->resources[use->resource].kind == RESOURCE_DRAM;
        dram_bytes += dram ? use->coefficient * s_from_ps(one->work_ps) : 0;
    }
    cost_amount(b, cluster_hbm(b->cluster, gpu), dram_bytes * sharers / members);
    return s_from_ps(one->latency_ps) / stretch + s_from_ps(one->work_ps) / crowding(b, group, false, true);
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

/* A sequence of kernels and merged collectives being added up. */
struct sequence {
    struct issue_walk walk;
    double pass_s;
    double alone_s, beside_s; /* alone, and while a foreign collective holds SMs */
    double hbm_bytes;
    double collective_s, exposed_s;
    double sms, taken; /* of the device; by a collective */
    /* on the host: devices that the record stands for there, and how many times longer it takes for their being more than cores; else 1 */
    double sharers, stretch;
};

static double kernel_beside_s(const struct sequence *sequence, const struct kernel_cost *one)
{
    double slowed_s = one->floor_s + one->flop_s * cost_wave_slowdown(one->tiles, sequence->sms, sequence->taken);
    return fmax(one->alone_s, slowed_s);
}

/* Highest rate of a kernel while a collective of its own sequence runs: what it keeps of SMs, and of HBM after the collective has taken its part (which max-min leaves it whole: it asks for less
 * than half). */
static double rate_beside(const struct cost_builder *b, uint32_t gpu, double alone_s, double beside_s, double hbm_bytes,
                          const struct op_cost *collective)
{
    uint32_t hbm = cluster_hbm(b->cluster, gpu);
    double rate = alone_s / beside_s, left = b->table->capacities[hbm];
    for (uint32_t i = collective->resident_count; i < collective->use_count; i++) {
        const struct maxmin_use *use = &b->uses.items[collective->first_use + i];
        left -= use->resource == hbm ? use->coefficient : 0;
    }
    return hbm_bytes > 0 ? fmin(rate, left * alone_s / hbm_bytes) : rate;
}

/* A kernel beside a collective: at full rate while that is in its latency, slowed while it holds SMs, then alone again. Sets when the kernel ends; returns when both have. */
static double beside_pair_s(double alone_s, double rate, const struct op_cost *collective, double *kernel_end_s)
{
    double latency_s = s_from_ps(collective->latency_ps), work_s = s_from_ps(collective->work_ps);
    double slow_s = fmin(fmax(0, alone_s - latency_s) / rate, work_s);
    double after_s = fmax(0, alone_s - latency_s - slow_s * rate);
    *kernel_end_s = alone_s <= latency_s ? alone_s : latency_s + slow_s + after_s;
    return fmax(latency_s + work_s, *kernel_end_s);
}

static void add_kernel(struct cost_builder *b, struct sequence *sequence, const struct work_item *item, uint32_t gpu,
                       const struct op_cost *beside)
{
    uint32_t launches = b->schedule->kernels[item->index].launches;
    const struct kernel_cost *one = cost_of_kernel(b, item->index);
    double gap_s = launches * b->cluster->machine->gpu.launch_gap_s;
    double alone_s = one->alone_s + gap_s, beside_s = kernel_beside_s(sequence, one) + gap_s;
    if (beside != NULL) {
        double kernel_end_s, rate = rate_beside(b, gpu, alone_s, beside_s, one->hbm_bytes, beside);
        alone_s = beside_s = beside_pair_s(alone_s, rate, beside, &kernel_end_s);
        sequence->exposed_s += alone_s - kernel_end_s;
    }
    walk_launches(&sequence->walk, launches, item->passes * sequence->pass_s, alone_s);
    sequence->alone_s += alone_s;
    sequence->beside_s += beside_s;
    sequence->hbm_bytes += one->hbm_bytes;
}

/* Sets the record (which exists) of a merged collective that the next kernel runs beside, else NULL. */
static enum status add_collective(struct cost_builder *b, struct sequence *sequence, const struct work_item *item,
                                  uint32_t gpu, const struct op_cost **record)
{
    uint32_t index;
    TRY(cost_find_collective(b, (enum opcode)item->passes, item->index, &index));
    bool on_host = b->cluster->machine->gpu.on_host; /* one thread does one after the other */
    bool beside = item->kind == ITEM_COLLECTIVE_BESIDE && !on_host;
    double merged_s = on_host ? add_merged_on_host(b, &b->costs.items[index],
                                                   &b->schedule->groups[b->schedule->works[item->index].group], gpu,
                                                   sequence->sharers, sequence->stretch)
                              : add_merged(b, index);
    walk_collective(&sequence->walk, collective_host_s(b, b->schedule->works[item->index].group),
                    beside ? 0 : merged_s);
    sequence->alone_s += beside ? 0 : merged_s;
    sequence->beside_s += beside ? 0 : merged_s;
    sequence->collective_s += merged_s;
    sequence->exposed_s += beside ? 0 : merged_s;
    *record = beside ? &b->costs.items[index] : NULL;
    return STATUS_OK;
}

/* Records of merged collectives first: one record is made at a time. */
static enum status find_merged(struct cost_builder *b, const struct sched_work *work)
{
    uint32_t unused;
    for (uint32_t i = work->first_item; i < work->first_item + work->item_count; i++) {
        const struct work_item *item = &b->schedule->work_items[i];
        if (item->kind != ITEM_KERNEL) {
            TRY(cost_find_collective(b, (enum opcode)item->passes, item->index, &unused));
        }
    }
    return STATUS_OK;
}

static enum status close_sequence(struct cost_builder *b, const struct sequence *sequence, uint32_t gpu,
                                  struct op_cost *cost)
{
    const struct issue_walk *walk = &sequence->walk;
    if (sequence->hbm_bytes > 0) {
        uint32_t hbm = cluster_hbm(b->cluster, gpu);
        double bytes = sequence->hbm_bytes;
        if (b->cluster->machine->gpu.on_host) { /* what was measured alone holds: caches keep the rest from the DRAM */
            bytes = fmin(bytes, b->table->capacities[hbm] * sequence->alone_s);
        }
        cost_amount(b, hbm, bytes * sequence->sharers);
    }
    double beside_rate = sequence->alone_s > 0 ? sequence->alone_s / sequence->beside_s : 1;
    /* SMs such that a slowed sequence and the collective just fill them. */
    b->pending[0].coefficient = fmin(1, (1 - sequence->taken / sequence->sms) / beside_rate);
    TRY(cost_end(b, cost, 0, sequence->alone_s * sequence->stretch, 0));
    cost->weight *= sequence->stretch;
    CHECK(walk->launches <= UINT32_MAX);
    cost->beside_rate = sequence->taken > 0 ? beside_rate : 1;
    cost->launches = (uint32_t)walk->launches;
    cost->issue_first_ps = ps_nearest_s(walk->first_s);
    cost->issue_rest_ps = ps_nearest_s(walk->now_s - walk->first_s);
    cost->issue_tail_ps = ps_nearest_s(walk->tail_s + sequence->alone_s * sequence->stretch);
    cost->collective_ps = ps_nearest_s(sequence->collective_s * sequence->stretch);
    cost->exposed_collective_ps = ps_nearest_s(sequence->exposed_s * sequence->stretch);
    return STATUS_OK;
}

enum status cost_of_kernels(struct cost_builder *b, const struct sched_work *work, uint32_t rank, struct op_cost *cost)
{
    const struct schedule *s = b->schedule;
    uint32_t gpu = s->devices[s->ranks[rank].first_device];
    double sms = b->cluster->machine->gpu.sm_count;
    struct sequence sequence = {
        .walk.launch_s = b->software == NULL ? 0 : b->software->launch_host_s,
        .pass_s = b->software == NULL ? 0 : b->software->pass_host_s,
        .sms = sms,
        .taken = fmin(b->cluster->machine->collective_sms, sms / 2),
        .sharers = 1,
        .stretch = 1,
    };
    TRY(find_merged(b, work));
    cost_begin(b);
    cost_fixed(b, cluster_sm(b->cluster, gpu), 1); /* set when the sequence is known */
    if (b->cluster->machine->gpu.on_host) {
        sequence.sharers = cost_sharers(b, rank);
        sequence.stretch = cost_threads(b, gpu, sequence.sharers);
    }
    const struct op_cost *beside = NULL;
    for (uint32_t i = work->first_item; i < work->first_item + work->item_count; i++) {
        const struct work_item *item = &s->work_items[i];
        const struct op_cost *collective = NULL;
        if (item->kind == ITEM_KERNEL) {
            add_kernel(b, &sequence, item, gpu, beside);
        } else {
            TRY(add_collective(b, &sequence, item, gpu, &collective));
        }
        beside = collective;
    }
    return close_sequence(b, &sequence, gpu, cost);
}

/* SMs of those members that are ranks; of pairs on the host only the receivers', who copy while the senders sleep. */
static void hold_sms(struct cost_builder *b, const struct sched_group *group, const struct collective_cost *cost,
                     bool host_pairs)
{
    for (uint32_t i = host_pairs ? 1 : 0; i < group->member_count; i += host_pairs ? 2 : 1) {
        uint32_t gpu = b->schedule->group_members[group->first_member + i];
        if (b->gpu_ranks[gpu] != SCHED_NONE && cost->sm_fraction > 0) {
            cost_fixed(b, cluster_sm(b->cluster, gpu), cost->sm_fraction);
        }
    }
}

/* HBM and ports of those members that are ranks. */
static void add_members(struct cost_builder *b, const struct sched_group *group, const struct collective_cost *cost)
{
    for (uint32_t i = 0; i < group->member_count; i++) {
        uint32_t gpu = b->schedule->group_members[group->first_member + i];
        if (b->gpu_ranks[gpu] == SCHED_NONE) {
            continue;
        }
        if (cost->hbm_bytes > 0) {
            cost_amount(b, cluster_hbm(b->cluster, gpu), cost->hbm_bytes);
        }
        uint32_t port = b->ports[b->gpu_ranks[gpu]];
        if (port != SCHED_NONE && cost->fullness > 0) {
            cost_amount(b, port, cost->fullness * cost->transfer_s);
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

/* A collective of threads: each member (of a pair the receiver) has a core, its bytes are DRAM's. */
static void add_threads(struct cost_builder *b, const struct sched_group *group, bool pairs,
                        const struct collective_cost *cost)
{
    for (uint32_t socket = 0; socket < b->cluster->sockets; socket++) {
        uint32_t cores = cluster_cores(b->cluster, 0, socket);
        double threads = threads_on(b, group, pairs, true, socket);
        if (threads > 0) {
            cost_fixed(b, cores, fmin(threads, b->cluster->resources[cores].capacity));
        }
    }
    for (uint32_t i = 0; i < group->instance_count * group->member_count; i++) {
        cost_amount(b, cluster_hbm(b->cluster, b->schedule->group_members[group->first_member + i]), cost->hbm_bytes);
    }
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
    bool on_host = b->cluster->machine->gpu.on_host, pairs = kind == COLLECTIVE_SEND_RECV;
    cost_begin(b);
    hold_sms(b, group, &one, on_host && pairs);
    uint32_t resident_count = b->fixed_count;
    double crowd = on_host ? crowding(b, group, pairs, true) : 1; /* with its sisters */
    double stretch = on_host ? crowd / crowding(b, group, pairs, false) : 1;
    if (on_host) {
        add_threads(b, group, pairs, &one);
    } else {
        add_members(b, group, &one);
    }
    for (uint32_t i = 0; i < one.use_count; i++) {
        cost_amount(b, b->ring[i].resource, b->ring[i].coefficient * one.bus_bytes);
    }
    /* The wait of a pair for each other is simulated: each has its own op and its own host. */
    uint32_t waiting = kind == COLLECTIVE_SEND_RECV ? 1 : group->member_count;
    double wait_s = b->software == NULL ? 0 : software_collective_wait_s(b->software, waiting);
    TRY(cost_end(b, cost, one.latency_s + wait_s, one.transfer_s * stretch, one.bus_bytes));
    cost_weigh_threads(b, cost, crowd);
    cost->resident_count = cost->use_count == 0 ? 0 : resident_count;
    cost->launches = pairs ? 0 : 1; /* see op_cost */
    cost->issue_first_ps = b->software == NULL ? 0 : ps_nearest_s(software_collective_host_s(b->software, waiting));
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

/* Adam's traffic: its share on the socket's own memory, and what has spilled on another's, across the link. */
static enum status add_adam_traffic(struct cost_builder *b, uint32_t node, uint32_t socket, double bytes)
{
    const struct cluster *cluster = b->cluster;
    const struct host_socket *own = &b->sockets[node * cluster->sockets + socket];
    double spilled = bytes * own->spilled_share;
    cost_amount(b, cluster_dram(cluster, node, socket), bytes - spilled);
    for (int write = 0; write < 2 && spilled > 0; write++) {
        struct endpoint near = { ENDPOINT_HOST, node * cluster->sockets + socket };
        struct endpoint far = { ENDPOINT_HOST, node * cluster->sockets + own->other };
        double moved = spilled * (write ? 1 - HOST_OPTIMIZER_READ_SHARE : HOST_OPTIMIZER_READ_SHARE);
        struct route route;
        TRY(cluster_route(cluster, write ? near : far, write ? far : near, false, &route, b->error));
        for (uint32_t i = 0; i < route.use_count; i++) { /* the cores are Adam's; the near DRAM holds no copy */
            uint32_t resource = route.uses[i].resource;
            enum resource_kind kind = cluster->resources[resource].kind;
            if (kind == RESOURCE_LINK || kind == RESOURCE_LINK_BOTH ||
                resource == cluster_dram(cluster, node, own->other)) {
                cost_amount(b, resource, route.uses[i].coefficient * moved);
            }
        }
    }
    return STATUS_OK;
}

enum status cost_of_host_optimizer(struct cost_builder *b, const struct sched_work *work, uint32_t rank,
                                   struct op_cost *cost)
{
    const struct cluster *cluster = b->cluster;
    uint32_t gpu = b->schedule->devices[b->schedule->ranks[rank].first_device], sharers = cost_sharers(b, rank);
    uint32_t node = gpu / cluster->gpus_per_node, socket = cluster_gpu_socket(cluster, gpu);
    uint32_t cores = cluster_cores(cluster, node, socket), users = b->sockets[node * cluster->sockets + socket].users;
    double share = cluster_core_count(cluster, node, socket) / users, stretch = 1;
    if (cluster->machine->gpu.on_host) { /* whole threads, at least one; more of them than cores share these */
        share = fmax(1, floor(share));
        stretch = fmax(1, share * sharers / cluster->resources[cores].capacity);
    }
    double rate = share * cluster->machine->cpu_adam_parameters_per_s_core;
    if (!(rate > 0)) {
        return error_set(b->error, STATUS_UNSUPPORTED, "machine \"%s\" has no cpu_adam_parameters_per_s_core",
                         cluster->machine->name);
    }
    double bytes = HOST_OPTIMIZER_BYTES_PER_PARAMETER * work->parameters;
    cost_begin(b);
    cost_fixed(b, cores, share * sharers / stretch);
    TRY(add_adam_traffic(b, node, socket, bytes * sharers));
    TRY(cost_end(b, cost, 0, work->parameters / rate * stretch, bytes));
    cost->weight *= stretch;
    return STATUS_OK;
}
