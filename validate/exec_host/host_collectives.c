#include "validate/exec_host/host_collectives.h"

#include <string.h>

#include "sim/base/check.h"
#include "validate/exec_host/host_floats.h"

enum { PIECE_BYTES = 1 << 20 /* between two looks at the flag */ };

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Whole elements; of kinds with shards, whole shards of them. */
static uint64_t whole_bytes(enum opcode opcode, uint64_t bytes, uint32_t member_count, enum dtype dtype)
{
    uint64_t unit = dtype_bytes(dtype);
    if (opcode == OP_ALL_GATHER || opcode == OP_REDUCE_SCATTER || opcode == OP_ALL_TO_ALL) {
        unit *= member_count;
    }
    return (bytes + unit - 1) / unit * unit;
}

uint64_t host_collective_in_bytes(enum opcode opcode, uint64_t bytes, uint32_t member_count, enum dtype dtype)
{
    uint64_t whole = whole_bytes(opcode, bytes, member_count, dtype);
    return opcode == OP_ALL_GATHER ? whole / member_count : whole;
}

uint64_t host_collective_out_bytes(enum opcode opcode, uint64_t bytes, uint32_t member_count, enum dtype dtype)
{
    uint64_t whole = whole_bytes(opcode, bytes, member_count, dtype);
    return opcode == OP_REDUCE_SCATTER ? whole / member_count : whole;
}

/* Bytes [from, from + bytes) of `in` to [to, to + bytes) of `out`. */
static bool fetch(const struct host_collective *c, const struct host_view *out, uint64_t to, const struct host_view *in,
                  uint64_t from, uint64_t bytes)
{
    if (bytes == 0) {
        return true;
    }
    struct host_cursor target = host_cursor_at(out, to), source = host_cursor_at(in, from);
    while (bytes > 0) {
        uint64_t run = host_cursor_run(&target, host_cursor_run(&source, least(bytes, PIECE_BYTES)));
        if (host_is_cancelled(c->cancel)) {
            return false;
        }
        if (host_cursor_data(&target) != host_cursor_data(&source)) { /* in place: it is there already */
            memcpy(host_cursor_data(&target), host_cursor_data(&source), run);
        }
        host_cursor_move(&target, run);
        host_cursor_move(&source, run);
        bytes -= run;
    }
    return true;
}

/* Sum of bytes [from, from + bytes) of all inputs to [to, ...) of `out`. Runs are whole elements: views that are not are left out by who makes them. */
static bool sum(const struct host_collective *c, const struct host_view *out, uint64_t to, uint64_t from,
                uint64_t bytes)
{
    struct host_cursor sources[HOST_COLLECTIVE_MEMBERS_MAX];
    const uint8_t *data[HOST_COLLECTIVE_MEMBERS_MAX];
    if (bytes == 0) {
        return true;
    }
    for (uint32_t i = 0; i < c->member_count; i++) {
        sources[i] = host_cursor_at(&c->members[i].in, from);
    }
    struct host_cursor target = host_cursor_at(out, to);
    while (bytes > 0) {
        uint64_t run = host_cursor_run(&target, least(bytes, PIECE_BYTES));
        for (uint32_t i = 0; i < c->member_count; i++) {
            run = host_cursor_run(&sources[i], run);
            data[i] = host_cursor_data(&sources[i]);
        }
        if (host_is_cancelled(c->cancel)) {
            return false;
        }
        host_floats_sum(host_cursor_data(&target), data, c->member_count, c->dtype, run / dtype_bytes(c->dtype));
        for (uint32_t i = 0; i < c->member_count; i++) {
            host_cursor_move(&sources[i], run);
        }
        host_cursor_move(&target, run);
        bytes -= run;
    }
    return true;
}

/* Where part `index` of an all-reduce begins: whole elements, as equal as can be. */
static uint64_t part_start(const struct host_collective *c, uint32_t index)
{
    uint64_t element = dtype_bytes(c->dtype);
    uint64_t count = whole_bytes(c->opcode, c->bytes, c->member_count, c->dtype) / element;
    uint64_t each = count / c->member_count, more = count % c->member_count;
    return (each * index + least(index, more)) * element;
}

static bool all_reduce(const struct host_collective *c, uint32_t index)
{
    const struct host_member *me = &c->members[index];
    uint64_t start = part_start(c, index);
    if (!sum(c, &me->out, start, start, part_start(c, index + 1) - start) || !host_meet(c->meeting, c->cancel)) {
        return false;
    }
    for (uint32_t i = 1; i < c->member_count; i++) {
        uint32_t other = (index + i) % c->member_count; /* not all from the same at once */
        uint64_t from = part_start(c, other);
        if (!fetch(c, &me->rest, from, &c->members[other].out, from, part_start(c, other + 1) - from)) {
            return false;
        }
    }
    return true;
}

static bool all_gather(const struct host_collective *c, uint32_t index)
{
    uint64_t shard = host_collective_in_bytes(c->opcode, c->bytes, c->member_count, c->dtype);
    for (uint32_t i = 0; i < c->member_count; i++) {
        uint32_t other = (index + i) % c->member_count;
        const struct host_member *from = &c->members[other];
        if (!fetch(c, &c->members[index].out, other * shard, &from->in, from->in_offset, shard)) {
            return false;
        }
    }
    return true;
}

static bool all_to_all(const struct host_collective *c, uint32_t index)
{
    uint64_t part = whole_bytes(c->opcode, c->bytes, c->member_count, c->dtype) / c->member_count;
    for (uint32_t i = 0; i < c->member_count; i++) {
        uint32_t other = (index + i) % c->member_count;
        if (!fetch(c, &c->members[index].out, other * part, &c->members[other].in, index * part, part)) {
            return false;
        }
    }
    return true;
}

static bool work(const struct host_collective *c, uint32_t index)
{
    const struct host_member *me = &c->members[index];
    uint64_t whole = whole_bytes(c->opcode, c->bytes, c->member_count, c->dtype), shard = whole / c->member_count;
    switch ((unsigned)c->opcode) {
    case OP_ALL_REDUCE: return all_reduce(c, index);
    case OP_ALL_GATHER: return all_gather(c, index);
    case OP_REDUCE_SCATTER: return sum(c, &me->out, me->out_offset, index * shard, shard);
    case OP_BROADCAST: return fetch(c, &me->out, 0, &c->members[0].in, 0, whole);
    case OP_ALL_TO_ALL: return all_to_all(c, index);
    default: check_failed("it is a collective", __FILE__, __LINE__);
    }
}

bool host_collective_run(const struct host_collective *c, uint32_t index)
{
    CHECK(index < c->member_count && c->member_count <= HOST_COLLECTIVE_MEMBERS_MAX);
    return host_meet(c->meeting, c->cancel) && work(c, index) && host_meet(c->meeting, c->cancel);
}
