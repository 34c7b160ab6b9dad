/* What `--check` verifies: that data gets where the schedule says.
 *
 * Every live buffer carries a pattern: words that tell buffer, generation and place, so that a byte from another buffer, another time, or another offset is found. A buffer
 * is stamped when it is acquired (or at the start), and anew by each op that writes it. Before an op uses a buffer its stamp is verified, byte for byte. What is
 * released is poisoned. The bytes of storage are patterned too, through the file.
 *
 * Ops of several queues may use a buffer at the same time (the schedule does not order all of them). So that a stamp is not verified while another op writes it, an op
 * claims its buffers first: several readers or one writer (a collective writes all its buffers: inputs get numbers whose sums are known). A claim takes all or waits for
 * all, those of the ops of a match together, so claims never wait in a circle. */
#ifndef MEMWALL_EXEC_HOST_CHECK_H
#define MEMWALL_EXEC_HOST_CHECK_H

#include <pthread.h>

#include "sim/ir/schedule.h"
#include "validate/dispatch/wet_pools.h"
#include "validate/exec_host/host_meeting.h"
#include "validate/exec_host/host_storage.h"

struct host_check_buffer {
    uint32_t generation;
    int32_t users; /* > 0: readers; -1: a writer */
    bool stamped;
};

struct host_check {
    const struct schedule *schedule;
    const struct wet_pools *pools;
    struct host_storage *files; /* [space_count] */
    const struct host_cancel *cancel;
    struct host_check_buffer
        *buffers;    /* [buffer_count]; stamps belong to who has claimed the buffer, users to the lock */
    bool *is_marked; /* [buffer_count]: a mark of this step acquires it, and nobody has used it yet */
    pthread_mutex_t lock;
    pthread_cond_t freed;
};

enum { HOST_CHECK_BLOCK_BYTES = 4096, HOST_POISON = 0xDB };

enum status host_check_init(struct host_check *check, struct error *error); /* the fields above the lock are set */
void host_check_free(struct host_check *check);

/* Between steps: stamps what is live and not stamped yet, forgets what is live no more. */
enum status host_check_begin_step(struct host_check *check, struct error *error);

/* All buffers of these ops. *shared: two of them write one buffer. False when cancelled. */
bool host_check_claim(struct host_check *check, const uint32_t *ops, uint32_t op_count, bool *shared);
void host_check_unclaim(struct host_check *check, const uint32_t *ops, uint32_t op_count);
void host_check_wake(struct host_check *check); /* after host_cancel_raise */

/* With the op's buffers claimed: before its work, stamps what it acquires and verifies all it names; after it, stamps what it wrote and poisons what it releases. STATUS_EXECUTION
 * names buffer, place, found and expected. */
enum status host_check_open(struct host_check *check, uint32_t op, struct error *error);
enum status host_check_close(struct host_check *check, uint32_t op, struct error *error);

/* Pattern bytes [offset, offset + bytes) of the buffer's present generation, into `out`; of SCHED_NONE (the executor's own memory): HOST_SLAB_BYTE. */
enum { HOST_SLAB_BYTE = 0x3c };
void host_check_pattern(const struct host_check *check, uint32_t buffer, uint64_t offset, uint8_t *out, uint64_t bytes);

/* After a transfer of `bytes`: `to` (spans of `file` unless that is NULL) holds the patterns of `from` as host_view_copy lays them. */
enum status host_check_moved(struct host_check *check, const struct host_view *to, struct host_storage *file,
                             const struct host_view *from, uint64_t bytes, struct error *error);

#endif
