/* The host thread of a rank: issues the rank's ops in array order, each for its price in host time (DESIGN.md section 4, point 5).
 *
 * It runs ahead of the device until it meets an op it must wait for (OP_FLAG_HOST_WAITS, OP_FLAG_BUSY_HOST) or has `launch_ahead` launches outstanding (sends and
 * receives count for none: cost_table.h).
 * Issue times are computed at once, as far ahead as it can get: an op costs the event loop an event for its issue only when it waits for nothing else. */
#ifndef MEMWALL_ENGINE_HOST_THREAD_H
#define MEMWALL_ENGINE_HOST_THREAD_H

#include "sim/engine/cost_table.h"

struct host_thread {
    uint32_t next, end;   /* ops: the one to issue next, one past the rank's last */
    uint32_t waits_for;   /* the op whose end it awaits, or SCHED_NONE */
    bool is_full;         /* it stopped because too many launches are outstanding */
    uint64_t outstanding; /* launches issued and not done */
    int64_t clock_ps;     /* when it is free again */
};

/* Issue the next op (`op`, with its cost) if the thread can go on; its first launch is issued at *issued_ps. False: it must wait for an op or for launches to
 * finish. */
static inline bool host_thread_issue(struct host_thread *host, const struct cost_table *table,
                                     const struct sched_op *op, const struct op_cost *cost, int64_t *issued_ps)
{
    if (host->waits_for != SCHED_NONE) {
        return false;
    }
    if (table->launch_ahead != 0 && host->outstanding != 0 && cost->launches != 0 &&
        host->outstanding + cost->launches > table->launch_ahead) {
        host->is_full = true;
        return false;
    }
    host->clock_ps += cost->issue_first_ps + (op->flags & OP_FLAG_MICRO_BATCH ? table->micro_batch_ps : 0) +
                      (op->flags & OP_FLAG_STEP ? table->step_ps : 0);
    *issued_ps = host->clock_ps;
    host->clock_ps += cost->issue_rest_ps;
    host->outstanding += cost->launches;
    if (op->flags & (OP_FLAG_HOST_WAITS | OP_FLAG_BUSY_HOST)) {
        host->waits_for = host->next;
    }
    host->next++;
    return true;
}

/* An op of the rank has ended. True: the thread waited for this and may try to go on. */
static inline bool host_thread_op_ended(struct host_thread *host, uint32_t op, const struct op_cost *cost,
                                        int64_t now_ps)
{
    host->outstanding -= cost->launches;
    bool resumes = host->waits_for == op || (host->is_full && cost->launches != 0);
    if (resumes) {
        host->waits_for = SCHED_NONE;
        host->is_full = false;
        host->clock_ps = host->clock_ps < now_ps ? now_ps : host->clock_ps;
    }
    return resumes;
}

#endif
