#include "sim/engine/cost_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/engine/cost_internal.h"
#include "sim/engine/thread_slices.h"

/* Opcodes of a key for what one opcode does in two ways: peer copies by their direction, copies into new memory. */
enum { KEY_FROM_PEER = OPCODE_COUNT, KEY_TO_PEER, KEY_FRESH };

/* What a record depends on. Fields that do not matter for a kind are SCHED_NONE. */
struct cost_key {
    uint32_t work, opcode, rank, other;
};
struct cost_key_slot {
    struct cost_key key;
    uint32_t index; /* of the record, plus one; 0: empty */
};

static uint32_t hash_of(struct cost_key key)
{
    uint64_t h = ((uint64_t)key.work << 32 | key.rank) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ (h >> 29) ^ ((uint64_t)key.other << 8 | key.opcode)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(h >> 32);
}

static bool same_key(struct cost_key a, struct cost_key b)
{
    return a.work == b.work && a.opcode == b.opcode && a.rank == b.rank && a.other == b.other;
}

static struct cost_key_slot *find(const struct cost_builder *b, struct cost_key key)
{
    uint32_t at = hash_of(key) & b->table_mask;
    while (b->table_slots[at].index != 0 && !same_key(b->table_slots[at].key, key)) {
        at = (at + 1) & b->table_mask;
    }
    return &b->table_slots[at];
}

/* Keep the table at most half full. */
static enum status table_room(struct cost_builder *b)
{
    if (b->table_slots != NULL && 2 * (b->costs.count + 1) <= b->table_mask) {
        return STATUS_OK;
    }
    struct cost_key_slot *old = b->table_slots;
    uint32_t old_size = old == NULL ? 0 : b->table_mask + 1, size = old == NULL ? 256 : 2 * old_size;
    struct cost_key_slot *slots = calloc(size, sizeof *slots);
    if (slots == NULL) {
        return error_set(b->error, STATUS_NO_MEMORY, "no memory for the cost table");
    }
    b->table_slots = slots;
    b->table_mask = size - 1;
    for (uint32_t i = 0; i < old_size; i++) {
        if (old[i].index != 0) {
            *find(b, old[i].key) = old[i];
        }
    }
    free(old);
    return STATUS_OK;
}

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

static uint32_t spread_node(const struct cost_builder *b, uint32_t rank)
{
    return b->schedule->devices[b->schedule->ranks[rank].first_device] / b->cluster->gpus_per_node;
}

/* The server of a host copy must be the device's own: memory of another one is not within reach of its copy engines. */
static enum status check_host_space(struct cost_builder *b, uint32_t op_index, uint32_t rank)
{
    const struct schedule *s = b->schedule;
    const struct sched_op *op = &s->ops[op_index];
    const uint32_t *operands = sched_reads(s, op);
    for (uint32_t i = 0; i < (uint32_t)op->read_count + op->write_count; i++) {
        const struct sched_space *space = &s->spaces[s->buffers[operands[i]].space];
        if (space->kind != SPACE_DEVICE && space->location != spread_node(b, rank)) {
            char text[256];
            return error_set(b->error, STATUS_UNSUPPORTED, "%s: its memory is in server %u, its device in server %u",
                             sched_op_text(s, op_index, text, sizeof text), space->location, spread_node(b, rank));
        }
    }
    return STATUS_OK;
}

/* The device at the other end of a one-sided copy, and the direction. */
static enum status find_peer(struct cost_builder *b, uint32_t op_index, uint32_t rank, uint32_t *peer, bool *to_peer)
{
    const struct schedule *s = b->schedule;
    const struct sched_op *op = &s->ops[op_index];
    const uint32_t *operands = sched_reads(s, op);
    uint32_t own = s->devices[s->ranks[rank].first_device];
    for (uint32_t i = 0; i < (uint32_t)op->read_count + op->write_count; i++) {
        const struct sched_space *space = &s->spaces[s->buffers[operands[i]].space];
        if (space->kind == SPACE_DEVICE && space->location != own) {
            *peer = space->location;
            *to_peer = i >= op->read_count;
            if (*peer >= b->cluster->gpus) {
                return error_set(b->error, STATUS_BAD_INPUT, "the schedule names GPU %u, the cluster has %u", *peer,
                                 b->cluster->gpus);
            }
            return STATUS_OK;
        }
    }
    char text[256];
    return error_set(b->error, STATUS_BAD_SCHEDULE, "%s: neither reads nor writes a buffer of another device",
                     sched_op_text(s, op_index, text, sizeof text));
}

/* Blocks from this size on come from the kernel anew and go back when they are freed, whatever was freed before (mallopt(3): the largest that M_MMAP_THRESHOLD grows to by itself). */
#define NEW_BLOCK_BYTES (32u << 20)

/* A copy down into pageable memory that it allocates itself. Devices on the host copy within pools. */
static bool is_fresh(const struct cost_builder *b, const struct sched_op *op)
{
    const struct schedule *s = b->schedule;
    const uint32_t *acquired = sched_acquires(s, op);
    if (op->opcode != OP_COPY_D2H || !s->works[op->work].pageable || b->cluster->machine->gpu.on_host) {
        return false;
    }
    for (uint32_t i = 0; i < op->acquire_count; i++) {
        const struct sched_buffer *buffer = &s->buffers[acquired[i]];
        if (s->spaces[buffer->space].kind == SPACE_HOST && buffer->bytes >= NEW_BLOCK_BYTES) {
            return true;
        }
    }
    return false;
}

static enum status key_of(struct cost_builder *b, uint32_t op_index, struct cost_key *key, bool *to_peer)
{
    const struct schedule *s = b->schedule;
    const struct sched_op *op = &s->ops[op_index];
    uint32_t rank = sched_op_rank(s, op);
    *key = (struct cost_key){ op->work, SCHED_NONE, SCHED_NONE, SCHED_NONE };
    if (op->work == SCHED_NONE) {
        return STATUS_OK;
    }
    switch ((enum work_kind)s->works[op->work].kind) {
    case WORK_NONE:
    case WORK_FIXED:
    case WORK_KIND_COUNT: return STATUS_OK;
    case WORK_KERNELS:
    case WORK_HOST_OPTIMIZER: key->rank = rank; return STATUS_OK;
    case WORK_COLLECTIVE: key->opcode = op->opcode; return STATUS_OK;
    case WORK_TRANSFER: break;
    }
    if (b->cluster == NULL) { /* make() refuses it */
        return STATUS_OK;
    }
    if (op->match != SCHED_NONE) {
        key->other = s->matches[op->match].group;
        return STATUS_OK;
    }
    key->rank = rank;
    key->opcode = op->opcode;
    if (op->opcode != OP_COPY_P2P) {
        key->opcode = is_fresh(b, op) ? KEY_FRESH : op->opcode;
        return check_host_space(b, op_index, rank);
    }
    TRY(find_peer(b, op_index, rank, &key->other, to_peer));
    key->opcode = *to_peer ? KEY_TO_PEER : KEY_FROM_PEER;
    return STATUS_OK;
}

/* The same kernels on another GPU of the same model: other SMs and HBM, nothing else. */
static enum status copy_for_rank(struct cost_builder *b, const struct op_cost *known, uint32_t rank,
                                 struct op_cost *cost)
{
    TRY(array_reserve(&b->uses, known->use_count, b->error));
    uint32_t gpu = b->schedule->devices[b->schedule->ranks[rank].first_device];
    *cost = *known;
    cost->first_use = (uint32_t)b->uses.count;
    for (uint32_t i = 0; i < known->use_count; i++) {
        struct maxmin_use use = b->uses.items[known->first_use + i];
        use.resource = i == 0 ? cluster_sm(b->cluster, gpu) : cluster_hbm(b->cluster, gpu);
        b->uses.items[b->uses.count++] = use;
    }
    return STATUS_OK;
}

static bool has_merged(const struct schedule *s, const struct sched_work *work)
{
    for (uint32_t i = work->first_item; i < work->first_item + work->item_count; i++) {
        if (s->work_items[i].kind != ITEM_KERNEL) {
            return true;
        }
    }
    return false;
}

static enum status make_kernels(struct cost_builder *b, uint32_t work_index, uint32_t rank, struct op_cost *cost)
{
    const struct sched_work *work = &b->schedule->works[work_index];
    uint32_t *known = &b->work_records[work_index];
    if (*known != 0) {
        struct op_cost first = b->costs.items[*known - 1];
        return copy_for_rank(b, &first, rank, cost);
    }
    TRY(cost_of_kernels(b, work, rank, cost));
    if (!has_merged(b->schedule, work) && !b->cluster->machine->gpu.on_host) { /* there cores and DRAM are shared */
        *known = (uint32_t)b->costs.count + 1;                                 /* where the caller puts it */
    }
    return STATUS_OK;
}

static enum status make_transfer(struct cost_builder *b, const struct cost_key *key, enum opcode opcode, bool to_peer,
                                 struct op_cost *cost)
{
    const struct sched_work *work = &b->schedule->works[key->work];
    switch ((unsigned)opcode) {
    case OP_SEND:
    case OP_RECV: return cost_of_pair(b, work, key->other, cost);
    case OP_COPY_H2D:
    case OP_COPY_D2H:
        return cost_of_host_copy(b, work, key->rank, opcode == OP_COPY_H2D, key->opcode == KEY_FRESH, cost);
    case OP_STORAGE_READ:
    case OP_STORAGE_WRITE: return cost_of_storage(b, work, key->rank, opcode == OP_STORAGE_READ, cost);
    default: return cost_of_peer_copy(b, work, key->rank, key->other, to_peer, cost);
    }
}

static enum status make(struct cost_builder *b, const struct cost_key *key, enum opcode opcode, bool to_peer,
                        struct op_cost *cost)
{
    *cost = (struct op_cost){ .weight = 1, .beside_rate = 1, .first_use = (uint32_t)b->uses.count };
    if (key->work == SCHED_NONE) {
        return STATUS_OK;
    }
    const struct sched_work *work = &b->schedule->works[key->work];
    if (work->kind == WORK_FIXED || work->kind == WORK_NONE) {
        cost->work_ps = work->fixed_ps;
        return STATUS_OK;
    }
    if (b->cluster == NULL) {
        return error_set(b->error, STATUS_BAD_INPUT, "work \"%s\" needs a cluster to run on",
                         work_kind_word((enum work_kind)work->kind));
    }
    switch ((enum work_kind)work->kind) {
    case WORK_KERNELS: return make_kernels(b, key->work, key->rank, cost);
    case WORK_HOST_OPTIMIZER: return cost_of_host_optimizer(b, work, key->rank, cost);
    case WORK_COLLECTIVE: return cost_of_collective(b, opcode, work, cost);
    case WORK_TRANSFER: return make_transfer(b, key, opcode, to_peer, cost);
    case WORK_NONE:
    case WORK_FIXED:
    case WORK_KIND_COUNT: break;
    }
    check_failed("every work kind has a cost", __FILE__, __LINE__);
}

static enum status find_or_make(struct cost_builder *b, struct cost_key key, enum opcode opcode, bool to_peer,
                                uint32_t *index)
{
    struct cost_key_slot *latest = key.work == SCHED_NONE ? NULL : &b->latest[key.work];
    if (latest != NULL && latest->index != 0 && same_key(latest->key, key)) {
        *index = latest->index - 1;
        return STATUS_OK;
    }
    struct cost_key_slot *slot = find(b, key);
    if (slot->index == 0) {
        struct op_cost cost;
        TRY(make(b, &key, opcode, to_peer, &cost));
        TRY(table_room(b)); /* making it may have made others */
        TRY(array_reserve(&b->costs, 1, b->error));
        cost.work_s = s_from_ps(cost.work_ps);
        b->costs.items[b->costs.count++] = cost;
        slot = find(b, key);
        *slot = (struct cost_key_slot){ key, (uint32_t)b->costs.count };
    }
    if (latest != NULL) {
        *latest = *slot;
    }
    *index = slot->index - 1;
    return STATUS_OK;
}

enum status cost_find_collective(struct cost_builder *b, enum opcode opcode, uint32_t work, uint32_t *index)
{
    return find_or_make(b, (struct cost_key){ work, opcode, SCHED_NONE, SCHED_NONE }, opcode, false, index);
}

static enum status check_devices(struct cost_builder *b)
{
    const struct schedule *s = b->schedule;
    for (uint32_t i = 0; i < s->device_count + s->group_member_count; i++) {
        uint32_t gpu = i < s->device_count ? s->devices[i] : s->group_members[i - s->device_count];
        if (gpu >= b->cluster->gpus) {
            return error_set(b->error, STATUS_BAD_INPUT, "the schedule names GPU %u, the cluster has %u", gpu,
                             b->cluster->gpus);
        }
    }
    for (uint32_t g = 0; g < b->cluster->gpus; g++) {
        b->gpu_ranks[g] = SCHED_NONE;
    }
    for (uint32_t r = 0; r < s->rank_count; r++) {
        b->gpu_ranks[s->devices[s->ranks[r].first_device]] = r;
    }
    for (uint32_t i = 0; i < s->device_count; i++) {
        uint32_t node = s->devices[i] / b->cluster->gpus_per_node;
        b->socket_users[node * b->cluster->sockets + cluster_gpu_socket(b->cluster, s->devices[i])]++;
    }
    return STATUS_OK;
}

/* A port for each rank that copies to or from its host, where it is one apart. Returns how many. */
static uint32_t number_ports(struct cost_builder *b)
{
    const struct schedule *s = b->schedule;
    uint32_t count = 0;
    for (uint32_t r = 0; r < s->rank_count; r++) {
        b->ports[r] = SCHED_NONE;
    }
    bool ported = b->cluster != NULL && !b->cluster->machine->gpu.on_host;
    for (uint32_t i = 0; ported && i < s->op_count; i++) {
        if (s->ops[i].opcode == OP_COPY_H2D || s->ops[i].opcode == OP_COPY_D2H) {
            uint32_t *port = &b->ports[sched_op_rank(s, &s->ops[i])];
            *port = *port == SCHED_NONE ? b->cluster->resource_count + count++ : *port;
        }
    }
    return count;
}

static enum status prepare(struct cost_builder *b, struct arena *scratch)
{
    struct cost_table *table = b->table;
    const struct schedule *s = b->schedule;
    const struct cluster *cluster = b->cluster;
    b->ports = arena_array(scratch, uint32_t, s->rank_count);
    if (b->ports == NULL) {
        return error_set(b->error, STATUS_NO_MEMORY, "no memory for the costs of %u ops", s->op_count);
    }
    uint32_t ports = number_ports(b);
    table->resource_count = cluster == NULL ? 0 : cluster->resource_count + ports;
    table->capacities = arena_array(&table->arena, double, table->resource_count);
    table->asked = arena_array(&table->arena, double, table->resource_count);
    table->op_costs = arena_array(&table->arena, uint32_t, s->op_count);
    b->pending = arena_array(scratch, struct maxmin_use, table->resource_count);
    b->places = arena_array(scratch, uint32_t, table->resource_count);
    b->ring_max = table->resource_count;
    b->ring = arena_array(scratch, struct resource_use, b->ring_max);
    b->kernels = arena_array(scratch, struct kernel_cost, s->kernel_count);
    b->work_records = arena_array(scratch, uint32_t, s->work_count);
    b->latest = arena_array(scratch, struct cost_key_slot, s->work_count);
    b->gpu_ranks = arena_array(scratch, uint32_t, cluster == NULL ? 0 : cluster->gpus);
    b->socket_users = arena_array(scratch, uint32_t, cluster == NULL ? 0 : (size_t)cluster->nodes * cluster->sockets);
    if (table->capacities == NULL || table->asked == NULL || table->op_costs == NULL || b->pending == NULL ||
        b->places == NULL || b->ring == NULL || b->kernels == NULL || b->work_records == NULL || b->latest == NULL ||
        b->gpu_ranks == NULL || b->socket_users == NULL) {
        return error_set(b->error, STATUS_NO_MEMORY, "no memory for the costs of %u ops", s->op_count);
    }
    if (b->software != NULL) {
        table->micro_batch_ps = ps_nearest_s(b->software->micro_batch_host_s);
        table->step_ps = ps_nearest_s(b->software->step_host_s);
        table->launch_ahead = b->software->launch_ahead;
    }
    for (uint32_t r = 0; cluster != NULL && r < table->resource_count; r++) {
        table->capacities[r] = r < cluster->resource_count ? cluster->resources[r].capacity : 1;
    }
    return cluster == NULL ? STATUS_OK : check_devices(b);
}

/* Records of all ops. */
static enum status cost_ops(struct cost_builder *b)
{
    const struct schedule *s = b->schedule;
    TRY(table_room(b));
    for (uint32_t i = 0; i < s->op_count; i++) {
        struct cost_key key;
        bool to_peer = false;
        TRY(key_of(b, i, &key, &to_peer));
        TRY(find_or_make(b, key, (enum opcode)s->ops[i].opcode, to_peer, &b->table->op_costs[i]));
    }
    return STATUS_OK;
}

/* Of each record: how many ops it belongs to, and how many activities. Every op without partners is one activity, and the first of those that match. */
struct record_uses {
    uint32_t ops, activities;
};

static enum status count_uses(const struct cost_builder *b, struct arena *scratch, struct record_uses **counted)
{
    const struct schedule *s = b->schedule;
    uint8_t *seen = arena_array(scratch, uint8_t, s->match_count);
    struct record_uses *records = *counted = arena_array(scratch, struct record_uses, b->costs.count);
    if (seen == NULL || records == NULL) {
        return error_set(b->error, STATUS_NO_MEMORY, "no memory for %u matches", s->match_count);
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        uint32_t match = s->ops[i].match;
        struct record_uses *record = &records[b->table->op_costs[i]];
        record->ops++;
        record->activities += match == SCHED_NONE || !seen[match];
        if (match != SCHED_NONE) {
            seen[match] = 1;
        }
    }
    return STATUS_OK;
}

/* What all activities together ask for. */
static void sum_asked(struct cost_builder *b, const struct record_uses *records)
{
    for (uint32_t c = 0; c < b->costs.count; c++) {
        const struct op_cost *cost = &b->costs.items[c];
        for (uint32_t u = cost->first_use; u < cost->first_use + cost->use_count; u++) {
            const struct maxmin_use *use = &b->uses.items[u];
            b->table->asked[use->resource] += use->coefficient * cost->work_s * records[c].activities;
        }
    }
}

static enum status keep(struct cost_builder *b)
{
    struct cost_table *table = b->table;
    table->cost_count = (uint32_t)b->costs.count;
    table->use_count = (uint32_t)b->uses.count;
    table->costs = arena_array(&table->arena, struct op_cost, table->cost_count);
    table->uses = arena_array(&table->arena, struct maxmin_use, table->use_count);
    if (table->costs == NULL || table->uses == NULL) {
        return error_set(b->error, STATUS_NO_MEMORY, "no memory for %u costs", table->cost_count);
    }
    if (b->costs.items != NULL) {
        memcpy(table->costs, b->costs.items, table->cost_count * sizeof *table->costs);
    }
    if (b->uses.items != NULL) {
        memcpy(table->uses, b->uses.items, table->use_count * sizeof *table->uses);
    }
    return STATUS_OK;
}

/* The clock counts picoseconds in 63 bits; even if every op waited for every other, the step must end before it overflows. */
static enum status check_clock(const struct cost_table *table, uint32_t op_count, const struct record_uses *records,
                               struct error *error)
{
    const double clock_s = s_from_ps(TIME_NEVER_PS) / 2;
    double sum_s = op_count * (s_from_ps(table->micro_batch_ps) + s_from_ps(table->step_ps));
    for (uint32_t c = 0; c < table->cost_count; c++) {
        const struct op_cost *cost = &table->costs[c];
        sum_s += records[c].ops * (s_from_ps(cost->latency_ps) + s_from_ps(cost->work_ps) +
                                   s_from_ps(cost->issue_first_ps) + s_from_ps(cost->issue_rest_ps));
    }
    if (sum_s > clock_s) {
        return error_set(error, STATUS_LIMIT,
                         "the ops of this step take %.3g days one after another; the simulator's clock holds %.0f: is "
                         "a rate of the machine too small, or the batch too large?",
                         sum_s / 86400, clock_s / 86400);
    }
    return STATUS_OK;
}

enum status cost_table_build(struct cost_table *table, const struct schedule *schedule, const struct cluster *cluster,
                             const struct software *software, struct error *error)
{
    struct arena scratch = { 0 };
    struct cost_builder b = {
        .table = table, .schedule = schedule, .cluster = cluster, .software = software, .error = error
    };
    struct record_uses *records;
    enum status status;
    *table = (struct cost_table){ 0 };
    TRY_OR_FAIL(prepare(&b, &scratch));
    TRY_OR_FAIL(cost_ops(&b));
    TRY_OR_FAIL(count_uses(&b, &scratch, &records));
    sum_asked(&b, records);
    TRY_OR_FAIL(keep(&b));
    TRY_OR_FAIL(check_clock(table, schedule->op_count, records, error));
    TRY_OR_FAIL(cost_make_lanes(table, cluster, &scratch, error));
fail:
    free(b.table_slots);
    array_free(&b.uses);
    array_free(&b.costs);
    arena_free(&scratch);
    if (status != STATUS_OK) {
        cost_table_free(table);
    }
    return status;
}

void cost_table_free(struct cost_table *table)
{
    arena_free(&table->arena);
    *table = (struct cost_table){ 0 };
}
