/* What the parts of sched_verify share: for sim/ir/verify*.c alone.
 *
 *   verify.c           records: ranges, layout, tables
 *   verify_works.c     kernels and works; what stands once
 *   verify_groups.c    groups and matches
 *   verify_order.c     runs the ops in an order of their causes, or names a cycle
 *   verify_lifetime.c  buffers along that partial order
 *
 * Scratch arrays are few and no larger than needed: first touches of memory are most of what verifying costs. */
#ifndef MEMWALL_IR_VERIFY_INTERNAL_H
#define MEMWALL_IR_VERIFY_INTERNAL_H

#include <math.h>

#include "sim/base/check.h"
#include "sim/ir/schedule.h"

enum { OP_NAME_BYTES = 200, VERIFY_BLOCKS_MAX = 40 };

struct buffer_life {
    uint32_t acquirer, releaser; /* ops, or SCHED_NONE */
};

/* In verifier.state: the op has run; the lower bits are its place in the order found, which matched ops share. */
#define VERIFY_RAN UINT32_C(0x80000000)

struct verifier {
    const struct schedule *s;
    struct error *error;
    void *blocks[VERIFY_BLOCKS_MAX]; /* scratch arrays, freed at the end */
    uint32_t block_count;

    /* verify.c */
    struct buffer_life *lives;             /* [buffer_count] */
    uint32_t *rank_first_queue;            /* [rank_count + 1] */
    uint8_t *local_queue;                  /* [queue_count]: its number within its rank */
    uint32_t *queue_first, *next_in_queue; /* op lists */
    uint32_t *fence; /* [op_count]: the latest op the host waited for before; NULL when no op asks for it */

    /* verify_groups.c: the ops of each match, rising; NULL until verify_list_matches */
    uint32_t *match_start, *match_ops;

    /* verify_order.c. An op's row says for every queue of its rank which op (plus 1) is the latest known to have ended when it starts; ops share rows
     * until a dependency brings news. It begins at rows.items + row_of[op]. */
    uint32_t *state; /* [op_count]: VERIFY_RAN and place; before that the first of the queues parked at it, + 1 */
    uint32_t *row_of;
    struct {
        uint32_t *items;
        size_t count, capacity;
    } rows;

    /* verify_lifetime.c */
    uint32_t *stamps, *stack, *previous_in_queue, stamp;
    uint64_t steps_left;
};

/* Scratch of `count` zeroed items that lives until the verification ends; NULL and an error when memory is out. */
void *verify_alloc(struct verifier *v, size_t count, size_t size);
#define verify_array(v, type, count) ((type *)verify_alloc((v), (count), sizeof(type)))

/* "op 12, forward mb 3 (stage 2, compute)" */
const char *verify_op_name(const struct verifier *v, uint32_t op, char buffer[OP_NAME_BYTES]);

/* Finite and not negative, minus zero refused: what bytes, flops and counts in reals must be. */
static inline bool verify_quantity(double value)
{
    return isfinite(value) && !signbit(value);
}

enum status verify_works(struct verifier *v);
/* After verify_works and verify_groups: no kernel, work or group equals another. */
enum status verify_each_once(struct verifier *v);
enum status verify_groups(struct verifier *v);
/* Lists the ops of each match, once. */
enum status verify_list_matches(struct verifier *v);
enum status verify_order(struct verifier *v);
enum status verify_lifetimes(struct verifier *v);

#endif
