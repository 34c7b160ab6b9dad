/* State of a dispatched run, shared by dispatch.c (steps and the waiting caller), dispatch_setup.c (sizes and links), dispatch_rules.c (when what may start),
 * dispatch_threads.c (queues and the reaper), dispatch_times.c (from stamps to a timeline) and dispatch_blocked.c (what an unfinished step waits for).
 *
 * One mutex guards everything that changes during a step. Functions marked "locked" want it held. */
#ifndef MEMWALL_VALIDATE_DISPATCH_INTERNAL_H
#define MEMWALL_VALIDATE_DISPATCH_INTERNAL_H

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "sim/base/units.h"
#include "validate/dispatch/dispatch.h"

enum op_state { OP_CLOSED, OP_OPEN /* in ready[] */, OP_READY, OP_MATCHED, OP_STARTED, OP_ENDED };

struct op_node {
    uint32_t gates;           /* still closed: queue order, one for each dependency (issue is told by host_state) */
    uint32_t first_gates;     /* at the start of a step */
    uint32_t next;            /* op behind it in its queue, or SCHED_NONE */
    uint32_t first_successor; /* into successors; the next node's is the end */
    uint32_t fence;           /* the last op before it in issue order that the host waits for, or SCHED_NONE */
    uint8_t state;            /* enum op_state */
    bool is_async;            /* goes to a device's stream: not a mark, and its queue is asynchronous */
    bool waited;              /* for memory */
    bool is_local;
};

struct queue_state {
    struct dispatch *dispatch;
    uint32_t index, rank;
    uint32_t first;     /* op, or SCHED_NONE */
    uint32_t head;      /* first op whose successor in the queue may not open yet */
    uint32_t granted;   /* op that the thread is to submit, or SCHED_NONE */
    uint32_t running;   /* op that is in the driver, or SCHED_NONE */
    int64_t since_ps;   /* running: since when */
    uint32_t next_wake; /* list of threads to wake */
    bool is_async, has_thread, is_started, has_entered, is_asleep;
    uint32_t ring[RUN_AHEAD_MAX], ring_first, ring_count; /* asynchronous: submitted ops whose end was not seen */
    sem_t wake;
    pthread_t thread;
};

/* The host thread of a rank, as far as it is a rule: which ops it has issued. */
struct host_state {
    uint32_t issued_end;                         /* one past the last op it has issued */
    uint32_t first_fence, next_fence, fence_end; /* into fences; next: the one it waits for */
    uint32_t first_queue, queue_end, first_op, op_end;
};

struct dispatch {
    const struct schedule *schedule;
    const struct driver *driver;
    struct wet_pools *pools;
    const struct exec_options *options;
    struct arena arena;
    /* Fixed by setup. */
    struct op_node *nodes; /* [op_count + 1] */
    uint32_t *successors, *fences;
    uint32_t *match_first; /* [match_count + 1] into match_ops: local partners, in order of op index */
    uint32_t *match_ops;
    uint32_t local_ops, thread_count;
    bool any_async;
    struct hash hash;
    int64_t patience_ps;
    /* Of the step; locked. */
    struct op_times *times;     /* of the step's timeline */
    int64_t *submitted_ps;      /* [op_count] of asynchronous ops; NULL when there are none */
    int64_t *seen_ps;           /* [op_count] when the reaper saw the end */
    int64_t *queue_end_ps;      /* [queue_count] scratch of dispatch_times.c */
    uint32_t *match_arrived;    /* [match_count] */
    uint32_t *match_left;       /* [match_count]: partners that have not ended */
    uint32_t *match_runner;     /* [match_count]: the last to arrive */
    struct queue_state *queues; /* [queue_count] */
    struct host_state *hosts;   /* [rank_count] */
    uint32_t *ready;            /* [queue_count], a ring */
    uint32_t *waiters;          /* [queue_count]: first ops of starts that wait for memory, in order of waiting */
    uint32_t *order;            /* [op_count]: first ops of starts, in order of start */
    uint32_t ready_first, ready_count, waiter_count, order_count;
    uint32_t active; /* starts that have not ended */
    uint32_t done;
    uint32_t wakes;       /* list of sleeping threads that have something to do */
    uint32_t outstanding; /* asynchronous ops in rings */
    bool freed;           /* memory, since waiters were asked */
    bool step_over, stop, failed, reaper_asleep;
    int64_t epoch_ps;     /* dispatch_clock_ps() of time 0 */
    int64_t now_ps;       /* latest stamp that was seen */
    int64_t progress_ps;  /* of the latest end or submission */
    uint64_t done_before; /* ops of earlier steps */
    int64_t told_ps;      /* when the caller last heard of progress */
    uint32_t entering;    /* threads that have not entered the driver yet */
    struct error error;   /* of the first failure */
    enum status status;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* for the caller: step_over, failed, entering */
    sem_t reaper_wake;
    pthread_t reaper;
    bool has_reaper, has_lock;
};

/* -- dispatch.c -- */

/* So long from now, on the clock of `changed`. */
struct timespec dispatch_deadline(int64_t wait_ps);

/* -- dispatch_setup.c -- */

enum status dispatch_setup(struct dispatch *dispatch, struct error *error);
void dispatch_teardown(struct dispatch *dispatch); /* threads have been joined */
/* All arrays as at the start of a step. Locked. */
void dispatch_reset(struct dispatch *dispatch);

/* -- dispatch_rules.c: all locked -- */

/* The step begins: everything that waits for nothing becomes ready. */
void dispatch_begin(struct dispatch *dispatch);
/* Start what can start now. Tells the caller when nothing runs any more. */
void dispatch_settle(struct dispatch *dispatch);
/* A synchronous op came back, or a whole match that one thread did. */
void dispatch_did(struct dispatch *dispatch, uint32_t op, int64_t begin_ps, int64_t end_ps);
/* An asynchronous op was submitted; its end was seen. */
void dispatch_submitted(struct dispatch *dispatch, uint32_t op, int64_t begin_ps, int64_t end_ps);
void dispatch_saw_end(struct dispatch *dispatch, uint32_t op, int64_t now_ps);
/* The first failure is the run's: `found` says what (its status may be any), `op` where (SCHED_NONE: `queue`). Stops all threads. */
void dispatch_fail(struct dispatch *dispatch, const struct error *found, uint32_t op, uint32_t queue);
/* A queue's thread has something to do. */
void dispatch_wake(struct dispatch *dispatch, uint32_t queue);
/* Unlock, then wake: by a thread of `rank`'s, by any other. Ranks' threads may have cores of their own (host_cores.h): a thread that is woken beside the waking one may take its core at once, and who was to be woken
 * after it would sleep on, though the two are partners. So those of the waking thread's rank come last. */
void dispatch_unlock_of(struct dispatch *dispatch, uint32_t rank);
void dispatch_unlock(struct dispatch *dispatch);
/* The list of queues (by next_wake) from `list` on in that order; returns its new first. */
uint32_t dispatch_order_wakes(const struct dispatch *dispatch, uint32_t list, uint32_t rank);

/* The ops that start together with `op`: itself, or all local ones of its match. */
static inline const uint32_t *dispatch_members(const struct dispatch *d, const uint32_t *op, uint32_t *count)
{
    uint32_t match = d->schedule->ops[*op].match;
    if (match == SCHED_NONE) {
        *count = 1;
        return op;
    }
    *count = d->match_first[match + 1] - d->match_first[match];
    return d->match_ops + d->match_first[match];
}

/* -- dispatch_threads.c -- */

/* Starts the threads and waits until all have entered the driver. Join them also after an error. */
enum status dispatch_start_threads(struct dispatch *dispatch, struct error *error);
void dispatch_join_threads(struct dispatch *dispatch);
/* An op that has run longer than the patience at `now_ps`, or SCHED_NONE; *ran_ps: how long. Locked. */
uint32_t dispatch_hung(const struct dispatch *dispatch, int64_t now_ps, int64_t *ran_ps);

/* -- dispatch_times.c and dispatch_blocked.c: between steps -- */

/* Puts the step's stamps in order, and fills the rest of `timeline`, whose ops are dispatch->times. */
enum status dispatch_finish_times(struct dispatch *dispatch, struct timeline *timeline, struct error *error);
/* Fills outcome and blocked of a step in which nothing could move any more. */
enum status dispatch_explain_blocked(struct dispatch *dispatch, struct timeline *timeline, struct error *error);

#endif
