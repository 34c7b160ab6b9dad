/* Inside of the host executor: a run, its queues, and what is sized before it starts. For validate/exec_host and its tests alone.
 *
 * One thread a queue (the dispatcher's) calls host_submit for its ops, one after the other. What a queue needs beyond the schedule's buffers is its own and made by
 * host_queue_enter: operands for kernels, a slab that stands for buffers which ops do not name, staging and a place in the scratch file for storage, optimizer threads. */
#ifndef MEMWALL_EXEC_HOST_RUN_H
#define MEMWALL_EXEC_HOST_RUN_H

#include "sim/exec.h"
#include "validate/dispatch/wet_pools.h"
#include "validate/exec_host/host_check.h"
#include "validate/exec_host/host_collectives.h"
#include "validate/exec_host/host_memory.h"
#include "validate/exec_host/host_operands.h"
#include "validate/exec_host/host_optimizer.h"
#include "validate/exec_host/host_storage.h"

enum { HOST_QUEUES_MAX = 1024 };

/* For tests. */
struct host_tuning {
    uint64_t operand_floats; /* of each part of a compute queue's operands, at least; 0: host_operand_floats decides */
    uint64_t free_bytes;     /* memory that counts as free; 0: what the computer has */
    /* Before an op's own work, on its thread; an error fails the op. NULL: none. */
    enum status (*before)(void *context, const struct wet_pools *pools, uint32_t op, struct error *error);
    void *before_context;
};

/* What the ops of a queue ask for at most; slab parts are cut to HOST_SLAB_BYTES_MAX unless the run checks data. */
enum { HOST_SLAB_BYTES_MAX = 32 << 20 };
struct host_needs {
    double inputs, outputs;                   /* floats of kernels */
    uint64_t in_bytes, out_bytes, rest_bytes; /* slab parts */
    uint64_t file_bytes;                      /* of the scratch file */
    uint64_t parameters;
    uint32_t operands; /* of one transfer or collective */
    bool computes, stores;
};

struct host_queue {
    struct host_needs needs;
    struct host_operands operands;
    struct host_region slab, staging, adam_memory, spans_memory, attention_scratch;
    struct host_span slab_in, slab_out, slab_rest;
    struct host_span *spans; /* of the present op's views */
    uint32_t spans_used, spans_capacity;
    struct host_adam_pool *adam;
    struct host_adam_state adam_state;
    uint64_t file_offset; /* in the scratch file */
};

/* Ops that meet. */
struct host_match {
    struct host_meeting meeting;
    uint32_t first_slot, slot_count; /* into members and match_ops: in the order of the group */
    bool shared;                     /* check: two of them write one buffer */
};

struct host_run {
    const struct schedule *schedule;
    const struct exec_options *options;
    struct host_tuning tuning;
    struct wet_pools *pools;
    struct host_cancel cancel;
    struct host_queue *queues;   /* [queue_count] */
    struct host_match *matches;  /* [match_count] */
    struct host_member *members; /* [slots] */
    uint32_t *match_ops;         /* [slots] */
    uint32_t *op_slots;          /* [op_count]; SCHED_NONE: meets nobody */
    uint64_t *space_peaks;       /* [space_count]: issue-order peaks, an estimate */
    struct host_memory *memories;
    struct host_storage *files; /* [space_count + 1]: the last is the scratch file */
    struct host_check check;
    bool storage_is_filled, has_begun;
    struct arena arena;
};

/* Refuses what cannot run here (STATUS_UNSUPPORTED); counts needs, slots, peaks. `run` holds schedule, options, tuning. */
enum status host_prepare(struct host_run *run, struct error *error);
/* Floats of each part of a compute queue's operands, at least: so many that caches keep none for the next round. */
uint64_t host_operand_floats(const struct host_run *run);
/* Opens files, makes the spaces' memory and what checks need. */
enum status host_make_spaces(struct host_run *run, struct error *error);
void host_run_free(struct host_run *run); /* whatever is left, also after an error */

/* What an op says, for the slots and for supports(). */
bool host_supports(const struct schedule *schedule, uint32_t op, char *why, size_t why_size);

/* ---- the driver's primitives ---- */

enum status host_queue_enter(void *context, uint32_t queue, struct error *error);
void host_queue_leave(void *context, uint32_t queue);
enum status host_begin_step(void *context, struct error *error);
enum status host_submit(void *context, const uint32_t *ops, uint32_t op_count, struct error *error);
void host_cancel_run(void *context);

/* Copies, sends and receives, storage; collectives. */
enum status host_transfer(struct host_run *run, uint32_t op, struct error *error);
enum status host_pair(struct host_run *run, uint32_t op, struct error *error);
enum status host_storage_op(struct host_run *run, uint32_t op, struct error *error);
enum status host_collective_op(struct host_run *run, uint32_t op, struct error *error);
enum status host_cancelled(struct error *error); /* sets and returns STATUS_EXECUTION */

/* The buffers of one side of a transfer or collective as a view in the queue's spans: those that the op reads (if none: releases) or writes (if none: acquires), in storage or
 * not. Views of one op are made one after the other; the first call for an op sets queue->spans_used = 0. */
enum host_side { HOST_SOURCE, HOST_TARGET };
struct host_view host_view_of(struct host_run *run, uint32_t op, enum host_side side, bool in_storage);
struct host_view host_slab_view(struct host_queue *queue, const struct host_span *part);
bool host_views_share(const struct host_view *a, const struct host_view *b); /* a buffer */
bool host_views_equal(const struct host_view *a, const struct host_view *b);

/* Run with test hooks; exec_host's run() is this with none. */
enum status host_run_schedule(const struct schedule *schedule, const struct exec_options *options,
                              const struct host_tuning *tuning, struct timeline *timeline, struct error *error);

#endif
