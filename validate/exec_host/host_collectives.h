/* Collectives between threads of one memory: every member works, in parts, between meetings.
 *
 * `bytes` is the whole buffer as nccl-tests counts it (sim/engine/collective_cost.h), cut down to whole shards of whole elements where a kind needs them:
 *   all-reduce      in bytes, out bytes; each member sums its part over all inputs, then fetches the other parts
 *   all-gather      in bytes / n (a shard), out bytes; each member fetches all shards
 *   reduce-scatter  in bytes, out bytes / n; each member sums its own part
 *   broadcast       in bytes (of the first member), out bytes
 *   all-to-all      in bytes, out bytes; member i's part j becomes member j's part i
 * Each member's inputs and outputs are views. Those of all-reduce may be one and the same; those of all-gather may be when `in_offset` says where the shard lies in the
 * output, those of reduce-scatter when `out_offset` says where the sum's shard lies in the input. */
#ifndef MEMWALL_EXEC_HOST_COLLECTIVES_H
#define MEMWALL_EXEC_HOST_COLLECTIVES_H

#include "sim/ir/schedule.h"
#include "validate/exec_host/host_meeting.h"
#include "validate/exec_host/host_view.h"

enum { HOST_COLLECTIVE_MEMBERS_MAX = 1024 };

struct host_member {
    struct host_view in, out;
    struct host_view
        rest; /* all-reduce: where the parts that others sum go; elsewhere not used. Usually the same view as out */
    uint64_t in_offset, out_offset;
};

struct host_collective {
    enum opcode opcode;
    enum dtype dtype;
    uint64_t bytes;
    const struct host_member *members; /* [member_count]; filled before the first meeting, kept until the last */
    uint32_t member_count;             /* at most HOST_COLLECTIVE_MEMBERS_MAX */
    struct host_meeting *meeting;
    const struct host_cancel *cancel;
};

/* How many bytes member `index` reads and writes; views must have as many (or be read and written round and round, when nobody looks at the result). */
uint64_t host_collective_in_bytes(enum opcode opcode, uint64_t bytes, uint32_t member_count, enum dtype dtype);
uint64_t host_collective_out_bytes(enum opcode opcode, uint64_t bytes, uint32_t member_count, enum dtype dtype);

/* The part of member `index`; all members call it. Meets before and after, so that inputs are there and outputs done. False when cancelled. */
bool host_collective_run(const struct host_collective *collective, uint32_t index);

#endif
