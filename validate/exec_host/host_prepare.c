/* Before anything starts: what is refused, how much memory it takes, who meets whom, what each queue needs. */
#include <math.h>
#include <stdio.h>

#include "sim/base/check.h"
#include "validate/exec_host/host_attention.h"
#include "validate/exec_host/host_cores.h"
#include "validate/exec_host/host_kernels.h"
#include "validate/exec_host/host_run.h"

/* Of each part of a compute queue's operands: twice the last-level cache that cores of today's servers share (32 MiB), else a kernel would find what it had written or read a round before, and
 * how much of it would depend on the largest kernel of the schedule: streams ran at 54, 44 and 28 GB/s over parts of 16, 32 and 64 MiB (one core of an EPYC, family 26). */
static const uint64_t OPERAND_BYTES = UINT64_C(64) << 20;
static const double GIB = 1024.0 * 1024.0 * 1024.0;

/* ---- what is refused ---- */

bool host_supports(const struct schedule *s, uint32_t op, char *why, size_t why_size)
{
    if (op >= s->op_count || s->ops[op].work == SCHED_NONE) {
        return op < s->op_count;
    }
    const struct sched_work *work = &s->works[s->ops[op].work];
    if (work->kind == WORK_COLLECTIVE && s->groups[work->group].member_count > HOST_COLLECTIVE_MEMBERS_MAX) {
        (void)snprintf(why, why_size, "a collective of %u members; threads take up to %d",
                       s->groups[work->group].member_count, HOST_COLLECTIVE_MEMBERS_MAX);
        return false;
    }
    for (uint32_t i = 0; work->kind == WORK_KERNELS && i < work->item_count; i++) {
        const struct work_item *item = &s->work_items[work->first_item + i];
        if (item->kind == ITEM_KERNEL && !host_kernel_is_possible(&s->kernels[item->index], why, why_size)) {
            return false;
        }
        /* sched_verify lets sequences hold collectives of their own rank's devices alone: without folding that is one device, and nothing to do. */
        if (item->kind != ITEM_KERNEL && s->groups[s->works[item->index].group].member_count > 1) {
            (void)snprintf(why, why_size, "a collective inside a kernel sequence; only folded schedules have these");
            return false;
        }
    }
    return true;
}

#define UNFOLD "build it with --no-fold (run and validate do so by themselves for executors that measure)"

static enum status refuse_folded(const struct schedule *s, struct error *error)
{
    for (uint32_t r = 0; r < s->rank_count; r++) {
        if (s->ranks[r].device_count > 1) {
            return error_set(error, STATUS_UNSUPPORTED,
                             "the schedule is folded: rank %u \"%s\" stands for %u devices, but each device runs by "
                             "itself here; " UNFOLD,
                             r, sched_label(s, s->ranks[r].label), s->ranks[r].device_count);
        }
    }
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        if (s->buffers[b].copies > 1) {
            return error_set(error, STATUS_UNSUPPORTED,
                             "the schedule is folded: buffer %u \"%s\" stands for %u copies; " UNFOLD, b,
                             sched_label(s, s->buffers[b].label), s->buffers[b].copies);
        }
    }
    for (uint32_t m = 0; m < s->match_count; m++) {
        const struct sched_group *group = &s->groups[s->matches[m].group];
        if (group->instance_count > 1 || s->matches[m].op_count != group->member_count) {
            return error_set(error, STATUS_UNSUPPORTED,
                             "the schedule is folded: group \"%s\" has %u members, of which %u are ranks, and %u "
                             "instances; " UNFOLD,
                             sched_label(s, group->label), group->member_count, s->matches[m].op_count,
                             group->instance_count);
        }
    }
    return STATUS_OK;
}

static enum status refuse(const struct schedule *s, struct error *error)
{
    char why[256], name[256];
    TRY(refuse_folded(s, error));
    if (s->queue_count > HOST_QUEUES_MAX) {
        return error_set(
            error, STATUS_UNSUPPORTED,
            "the schedule has %u queues, each a thread here, where at most %d can be; take fewer ranks, or "
            "--executor sim",
            s->queue_count, HOST_QUEUES_MAX);
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        if (!host_supports(s, i, why, sizeof why)) {
            return error_set(error, STATUS_UNSUPPORTED, "%s: host threads cannot run %s",
                             sched_op_text(s, i, name, sizeof name), why);
        }
    }
    return STATUS_OK;
}

/* ---- who meets whom ---- */

static enum status find_slots(struct host_run *run, struct error *error)
{
    const struct schedule *s = run->schedule;
    uint32_t slots = 0, cores = host_cores();
    run->matches = arena_array(&run->arena, struct host_match, s->match_count);
    run->op_slots = arena_array(&run->arena, uint32_t, s->op_count);
    if (run->matches == NULL || run->op_slots == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u matches", s->match_count);
    }
    for (uint32_t m = 0; m < s->match_count; m++) {
        run->matches[m] = (struct host_match){ .first_slot = slots, .slot_count = s->matches[m].op_count };
        host_meeting_init(&run->matches[m].meeting, s->matches[m].op_count, cores);
        slots += s->matches[m].op_count;
    }
    run->members = arena_array(&run->arena, struct host_member, slots);
    run->match_ops = arena_array(&run->arena, uint32_t, slots);
    if (run->members == NULL || run->match_ops == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u matched ops", slots);
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        run->op_slots[i] = SCHED_NONE;
        if (op->match == SCHED_NONE) {
            continue;
        }
        const struct sched_group *group = &s->groups[s->matches[op->match].group];
        const uint32_t *members = s->group_members + group->first_member;
        uint32_t device = s->devices[s->ranks[sched_op_rank(s, op)].first_device], place = 0;
        while (members[place] != device) { /* sched_verify: it is one */
            CHECK(++place < group->member_count);
        }
        run->op_slots[i] = run->matches[op->match].first_slot + place;
        run->match_ops[run->op_slots[i]] = i;
    }
    return STATUS_OK;
}

/* ---- what queues need ---- */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void add_kernels(const struct host_run *run, struct host_needs *needs, const struct sched_work *work)
{
    const struct schedule *s = run->schedule;
    needs->computes = true;
    for (uint32_t i = 0; i < work->item_count; i++) {
        const struct work_item *item = &s->work_items[work->first_item + i];
        double inputs, outputs;
        if (item->kind == ITEM_KERNEL) {
            host_kernel_wants(&s->kernels[item->index], &inputs, &outputs);
            needs->inputs = fmax(needs->inputs, inputs);
            needs->outputs = fmax(needs->outputs, outputs);
        }
    }
}

static uint64_t slab_bytes(const struct host_run *run, uint64_t bytes)
{
    return run->options->check || bytes < HOST_SLAB_BYTES_MAX ? bytes : HOST_SLAB_BYTES_MAX;
}

static void add_needs(const struct host_run *run, struct host_needs *needs, const struct sched_op *op)
{
    const struct schedule *s = run->schedule;
    const struct sched_work *work = &s->works[op->work];
    uint64_t bytes = (uint64_t)ceil(work->bytes);
    uint32_t operands = (uint32_t)op->acquire_count + op->release_count + op->read_count + op->write_count;
    switch ((enum work_kind)work->kind) {
    case WORK_KERNELS: add_kernels(run, needs, work); return;
    case WORK_COLLECTIVE: {
        uint32_t members = s->groups[work->group].member_count;
        uint64_t in = host_collective_in_bytes((enum opcode)op->opcode, bytes, members, (enum dtype)work->dtype);
        uint64_t out = host_collective_out_bytes((enum opcode)op->opcode, bytes, members, (enum dtype)work->dtype);
        needs->in_bytes = larger(needs->in_bytes, slab_bytes(run, in));
        needs->out_bytes = larger(needs->out_bytes, slab_bytes(run, out));
        needs->rest_bytes = larger(needs->rest_bytes, op->opcode == OP_ALL_REDUCE ? slab_bytes(run, out) : 0);
        break;
    }
    case WORK_TRANSFER:
        needs->in_bytes = larger(needs->in_bytes, bytes < HOST_SLAB_BYTES_MAX ? bytes : HOST_SLAB_BYTES_MAX);
        needs->out_bytes = larger(needs->out_bytes, bytes < HOST_SLAB_BYTES_MAX ? bytes : HOST_SLAB_BYTES_MAX);
        if (op->opcode == OP_STORAGE_READ || op->opcode == OP_STORAGE_WRITE) {
            needs->stores = true;
            needs->file_bytes = larger(needs->file_bytes, bytes < HOST_SLAB_BYTES_MAX ? bytes : HOST_SLAB_BYTES_MAX);
        }
        break;
    case WORK_HOST_OPTIMIZER: needs->parameters = larger(needs->parameters, (uint64_t)ceil(work->parameters)); break;
    case WORK_NONE:
    case WORK_FIXED:
    case WORK_KIND_COUNT: return;
    }
    needs->operands = needs->operands < operands ? operands : needs->operands;
}

/* Parameters in one piece of the optimizer's memory: not a power of two, so that its four streams do not fall on the same cache sets. */
enum { ADAM_BLOCK = (1 << 16) + 64 };
static const uint64_t ADAM_BLOCKS_MAX = 128; /* 134 MB: far beyond caches */

/* More ranks than cores share the caches as so many. */
uint64_t host_operand_floats(const struct host_run *run)
{
    uint64_t cores = host_cores(), ranks = run->schedule->rank_count;
    uint64_t all = OPERAND_BYTES / sizeof(float), each = ranks > cores ? all * cores / ranks : all;
    return run->tuning.operand_floats == 0 ? each : run->tuning.operand_floats;
}

static double queue_bytes(const struct host_run *run, struct host_queue *queue)
{
    struct host_needs *needs = &queue->needs;
    double bytes = (double)(needs->in_bytes + needs->out_bytes + needs->rest_bytes);
    if (needs->computes) {
        bytes += 4 * (2 * (double)host_operand_floats(run) + HOST_ATTENTION_SCRATCH_FLOATS) +
                 4 * 4 * (needs->inputs + needs->outputs); /* at most: host_operands_count */
    }
    if (needs->parameters > 0) {
        uint64_t blocks = (needs->parameters + ADAM_BLOCK - 1) / ADAM_BLOCK;
        queue->adam_state.block = needs->parameters < ADAM_BLOCK ? needs->parameters : ADAM_BLOCK;
        queue->adam_state.blocks = blocks < ADAM_BLOCKS_MAX ? blocks : ADAM_BLOCKS_MAX;
        bytes += (double)HOST_ADAM_BYTES * (double)(queue->adam_state.block * queue->adam_state.blocks);
    }
    return bytes + (needs->stores ? 2.0 * HOST_STORAGE_STAGING_BYTES : 0);
}

static enum status find_needs(struct host_run *run, double *bytes, struct error *error)
{
    const struct schedule *s = run->schedule;
    run->queues = arena_array(&run->arena, struct host_queue, s->queue_count);
    if (run->queues == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u queues", s->queue_count);
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        if (s->ops[i].work != SCHED_NONE) {
            add_needs(run, &run->queues[s->ops[i].queue].needs, &s->ops[i]);
        }
    }
    for (uint32_t q = 0; q < s->queue_count; q++) {
        *bytes += queue_bytes(run, &run->queues[q]);
    }
    return STATUS_OK;
}

/* ---- memory ---- */

/* Most bytes live in each space when every rank's ops run in issue order and all ranks are at their peaks at once. */
static enum status find_peaks(struct host_run *run, struct error *error)
{
    const struct schedule *s = run->schedule;
    uint64_t *live = arena_array(&run->arena, uint64_t, s->space_count);
    uint64_t *most = arena_array(&run->arena, uint64_t, s->space_count);
    run->space_peaks = arena_array(&run->arena, uint64_t, s->space_count);
    if (live == NULL || most == NULL || run->space_peaks == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u spaces", s->space_count);
    }
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        run->space_peaks[s->buffers[b].space] += s->buffers[b].flags & BUFFER_LIVE_AT_START ? s->buffers[b].bytes : 0;
    }
    for (uint32_t r = 0; r < s->rank_count; r++) {
        for (uint32_t i = 0; i < s->space_count; i++) {
            live[i] = most[i] = UINT64_C(1) << 62; /* 0: a rank may first release what others left */
        }
        for (uint32_t i = 0; i < s->ranks[r].op_count; i++) {
            const struct sched_op *op = &s->ops[s->ranks[r].first_op + i];
            for (uint32_t k = 0; k < op->acquire_count; k++) {
                const struct sched_buffer *buffer = &s->buffers[sched_acquires(s, op)[k]];
                live[buffer->space] += buffer->bytes;
                most[buffer->space] = larger(most[buffer->space], live[buffer->space]);
            }
            for (uint32_t k = 0; k < op->release_count; k++) {
                const struct sched_buffer *buffer = &s->buffers[sched_releases(s, op)[k]];
                live[buffer->space] -= buffer->bytes;
            }
        }
        for (uint32_t i = 0; i < s->space_count; i++) {
            run->space_peaks[i] += most[i] - (UINT64_C(1) << 62);
        }
    }
    for (uint32_t i = 0; i < s->space_count; i++) {
        uint64_t capacity = s->spaces[i].capacity_bytes;
        run->space_peaks[i] = run->space_peaks[i] < capacity ? run->space_peaks[i] : capacity;
    }
    return STATUS_OK;
}

static enum status refuse_large(const struct host_run *run, double bytes, struct error *error)
{
    const struct schedule *s = run->schedule;
    uint64_t free_bytes = run->tuning.free_bytes == 0 ? host_memory_free_bytes() : run->tuning.free_bytes;
    for (uint32_t i = 0; i < s->space_count; i++) {
        bytes += s->spaces[i].kind == SPACE_STORAGE ? 0 : (double)run->space_peaks[i];
    }
    if (bytes > (double)free_bytes) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "needs %.1f GiB of memory for all ranks together, this computer has %.1f GiB free; take fewer "
                         "layers or ranks, or --executor sim",
                         bytes / GIB, (double)free_bytes / GIB);
    }
    return STATUS_OK;
}

enum status host_prepare(struct host_run *run, struct error *error)
{
    double bytes = 0;
    TRY(refuse(run->schedule, error));
    TRY(find_slots(run, error));
    TRY(find_needs(run, &bytes, error));
    TRY(find_peaks(run, error));
    return refuse_large(run, bytes, error);
}
