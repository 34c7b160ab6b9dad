/* Collectives as ops: on the buffers they name where these hold as much as is asked, else on the queue's slab. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "sim/base/check.h"
#include "validate/exec_host/host_floats.h"
#include "validate/exec_host/host_run.h"

/* One member's part in one collective. */
struct part {
    struct host_run *run;
    struct host_queue *queue;
    struct host_match *match;
    const struct host_member *members;
    struct host_member *me;
    uint32_t op, index, member_count;
    enum opcode opcode;
    enum dtype dtype;
    uint64_t bytes, in_bytes, out_bytes;
};

/* Spans end between numbers; the last one may be cut anywhere. */
static bool is_fit(const struct host_view *view, uint64_t bytes)
{
    for (uint32_t i = 0; i + 1 < view->count; i++) {
        if (view->spans[i].bytes % sizeof(float) != 0) {
            return false;
        }
    }
    return view->bytes >= bytes && view->bytes > 0;
}

/* Shares of one buffer at both ends are right only where the shards lie as the collective has them. */
static bool may_be_in_place(const struct part *p, const struct host_view *in, const struct host_view *out)
{
    uint64_t whole = p->in_bytes > p->out_bytes ? p->in_bytes : p->out_bytes;
    return host_views_equal(in, out) && is_fit(in, whole) && p->opcode != OP_ALL_TO_ALL;
}

static void find_views(const struct part *p, bool slab_only)
{
    struct host_member *me = p->me;
    struct host_view in = host_view_of(p->run, p->op, HOST_SOURCE, false);
    struct host_view out = host_view_of(p->run, p->op, HOST_TARGET, false);
    *me = (struct host_member){ 0 };
    if (!slab_only && may_be_in_place(p, &in, &out)) {
        me->in = me->out = me->rest = in;
        me->in_offset = p->opcode == OP_ALL_GATHER ? p->index * p->in_bytes : 0;
        me->out_offset = p->opcode == OP_REDUCE_SCATTER ? p->index * p->out_bytes : 0;
        return;
    }
    bool out_fits = !slab_only && is_fit(&out, p->out_bytes);
    bool in_fits = !slab_only && is_fit(&in, p->in_bytes) && !(out_fits && host_views_share(&in, &out));
    me->in = in_fits ? in : host_slab_view(p->queue, &p->queue->slab_in);
    me->out = out_fits ? out : host_slab_view(p->queue, &p->queue->slab_out);
    /* A slab may be shorter than the buffer it stands for: then others' parts go beside, not over, the part that others fetch. */
    me->rest = out_fits || p->opcode != OP_ALL_REDUCE || p->run->options->check
                   ? me->out
                   : host_slab_view(p->queue, &p->queue->slab_rest);
}

/* ---- --check: inputs whose sums every dtype holds exactly ---- */

/* Whole numbers from -2 to 2. fp8 is exact to 16, so sums of up to 8 members are; beyond, sums are rounded once, as the expected value is. */
static float number(uint32_t member, uint64_t element)
{
    return (float)((int)((element * 7 + member * UINT64_C(3)) % 5) - 2);
}

/* Number `element` of the result of the part's member. */
static float result(const struct part *p, uint64_t element)
{
    uint64_t shard = p->in_bytes < p->out_bytes ? p->in_bytes : p->out_bytes;
    uint64_t shard_elements = shard / dtype_bytes(p->dtype), part_elements = shard_elements / p->member_count;
    float sum = 0;
    switch ((unsigned)p->opcode) {
    case OP_ALL_GATHER: return number((uint32_t)(element / shard_elements), element % shard_elements);
    case OP_BROADCAST: return number(0, element);
    case OP_ALL_TO_ALL:
        return number((uint32_t)(element / part_elements), p->index * part_elements + element % part_elements);
    default: break;
    }
    uint64_t first = p->opcode == OP_REDUCE_SCATTER ? p->index * shard_elements : 0;
    for (uint32_t i = 0; i < p->member_count; i++) {
        sum += number(i, first + element);
    }
    return sum;
}

enum { NUMBERS = 256 };

static void fill(const struct part *p)
{
    uint64_t element = dtype_bytes(p->dtype), done = 0;
    if (p->opcode == OP_BROADCAST && p->index != 0) {
        return;
    }
    struct host_cursor at = host_cursor_at(&p->me->in, p->me->in_offset);
    while (done < p->in_bytes / element) {
        float numbers[NUMBERS];
        uint64_t run = host_cursor_run(&at, (p->in_bytes / element - done) * element) / element;
        run = run < NUMBERS ? run : NUMBERS;
        for (uint64_t i = 0; i < run; i++) {
            numbers[i] = number(p->index, done + i);
        }
        host_floats_store(host_cursor_data(&at), numbers, p->dtype, run);
        host_cursor_move(&at, run * element);
        done += run;
    }
}

/* Of `run` numbers from `first` on, which differ somewhere. */
static enum status wrong_number(const struct part *p, const uint8_t *found, const uint8_t *expected, uint64_t first,
                                uint64_t run, struct error *error)
{
    const struct schedule *s = p->run->schedule;
    const struct sched_group *group = &s->groups[s->matches[s->ops[p->op].match].group];
    uint64_t element = dtype_bytes(p->dtype), i = 0;
    float is, should_be;
    while (i + 1 < run && memcmp(found + i * element, expected + i * element, element) == 0) {
        i++;
    }
    host_floats_load(&is, found + i * element, p->dtype, 1);
    host_floats_load(&should_be, expected + i * element, p->dtype, 1);
    return error_set(error, STATUS_EXECUTION,
                     "check: %s over \"%s\": member %u of %u has %g as number %" PRIu64 ", the right one is %g",
                     opcode_word(p->opcode), sched_label(s, group->label), p->index, p->member_count, (double)is,
                     first + i, (double)should_be);
}

static enum status compare(const struct part *p, struct error *error)
{
    uint64_t element = dtype_bytes(p->dtype), done = 0;
    struct host_cursor at = host_cursor_at(&p->me->out, p->me->out_offset);
    while (done < p->out_bytes / element) {
        float numbers[NUMBERS];
        uint8_t expected[NUMBERS * sizeof(float)];
        uint64_t run = host_cursor_run(&at, (p->out_bytes / element - done) * element) / element;
        run = run < NUMBERS ? run : NUMBERS;
        for (uint64_t i = 0; i < run; i++) {
            numbers[i] = result(p, done + i);
        }
        host_floats_store(expected, numbers, p->dtype, run);
        if (memcmp(host_cursor_data(&at), expected, run * element) != 0) {
            return wrong_number(p, host_cursor_data(&at), expected, done, run, error);
        }
        host_cursor_move(&at, run * element);
        done += run;
    }
    return STATUS_OK;
}

/* ---- the op ---- */

static struct part part_of(struct host_run *run, uint32_t op)
{
    const struct schedule *s = run->schedule;
    const struct sched_work *work = &s->works[s->ops[op].work];
    struct part p = { .run = run,
                      .queue = &run->queues[s->ops[op].queue],
                      .match = &run->matches[s->ops[op].match],
                      .op = op,
                      .opcode = (enum opcode)s->ops[op].opcode,
                      .dtype = (enum dtype)work->dtype,
                      .bytes = (uint64_t)ceil(work->bytes) };
    p.members = run->members + p.match->first_slot;
    p.me = run->members + run->op_slots[op];
    p.index = run->op_slots[op] - p.match->first_slot;
    p.member_count = p.match->slot_count;
    p.in_bytes = host_collective_in_bytes(p.opcode, p.bytes, p.member_count, p.dtype);
    p.out_bytes = host_collective_out_bytes(p.opcode, p.bytes, p.member_count, p.dtype);
    p.queue->spans_used = 0;
    return p;
}

static bool together(const struct part *p)
{
    const struct host_collective collective = { .opcode = p->opcode,
                                                .dtype = p->dtype,
                                                .bytes = p->bytes,
                                                .members = p->members,
                                                .member_count = p->member_count,
                                                .meeting = &p->match->meeting,
                                                .cancel = &p->run->cancel };
    return host_collective_run(&collective, p->index);
}

static enum status checked(const struct part *p, struct error *error)
{
    struct host_check *check = &p->run->check;
    const uint32_t *ops = p->run->match_ops + p->match->first_slot;
    if (p->index == 0 && !host_check_claim(check, ops, p->member_count, &p->match->shared)) {
        return host_cancelled(error);
    }
    if (!host_meet(&p->match->meeting, &p->run->cancel)) {
        return host_cancelled(error);
    }
    TRY(host_check_open(check, p->op, error));
    find_views(p, p->match->shared);
    /* Inputs are filled when all have verified theirs: two may be one. */
    if (!host_meet(&p->match->meeting, &p->run->cancel)) {
        return host_cancelled(error);
    }
    fill(p);
    if (!together(p)) {
        return host_cancelled(error);
    }
    TRY(compare(p, error));
    for (uint32_t turn = 0; turn < p->member_count; turn++) { /* one after the other, for the same reason */
        if (turn == p->index) {
            TRY(host_check_close(check, p->op, error));
        }
        if (!host_meet(&p->match->meeting, &p->run->cancel)) {
            return host_cancelled(error);
        }
    }
    if (p->index == 0) {
        host_check_unclaim(check, ops, p->member_count);
    }
    return STATUS_OK;
}

enum status host_collective_op(struct host_run *run, uint32_t op, struct error *error)
{
    struct part p = part_of(run, op);
    if (run->options->check) {
        return checked(&p, error);
    }
    if (p.bytes == 0) {
        return STATUS_OK;
    }
    find_views(&p, false);
    return together(&p) ? STATUS_OK : host_cancelled(error);
}
