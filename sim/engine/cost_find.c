/* Which record an op has: ops that cost the same share one, found by a key of what the cost depends on, and made when the first of them asks. */
#include <stdlib.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/engine/cost_internal.h"

/* Opcodes of a key for what one opcode does in two ways: peer copies by their direction, copies into new memory. */
enum { KEY_FROM_PEER = OPCODE_COUNT, KEY_TO_PEER, KEY_FRESH };

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
    TRY(table_room(b));
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

enum status cost_find_op(struct cost_builder *b, uint32_t op, uint32_t *index)
{
    struct cost_key key;
    bool to_peer = false;
    TRY(key_of(b, op, &key, &to_peer));
    return find_or_make(b, key, (enum opcode)b->schedule->ops[op].opcode, to_peer, index);
}
