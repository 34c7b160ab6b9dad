/* The dispatcher: what all real executors share. It decides when an op may start; a driver does it.
 *
 * One thread a queue takes the queue's ops in their order. An op is submitted when the ops it depends on have ended, the rank's host would have issued it (ops after
 * one with OP_FLAG_HOST_WAITS or OP_FLAG_BUSY_HOST wait for its end), its match partners stand ready, and what it acquires fits: the rules of sim/engine, with
 * a real clock. Waiting threads sleep; the thread that opens the last gate wakes them.
 *
 *   synchronous queues   submit() does the op and returns when it has ended (host threads). Start and end are stamped around it.
 *   asynchronous queues  submit() puts the op on a device's stream and returns at once. Between two of them "has ended" above reads "has been submitted": the driver
 *                        makes the device keep the order (stream order; events for each dependency). A reaper thread polls for ends, which release memory and open
 *                        gates of synchronous ops. Memory is taken at submission and given back when the end was seen, so a queue runs at most RUN_AHEAD_MAX ops ahead. The
 *                        driver tells starts and ends when the step is over.
 *
 * Partners of a match share one start (the first begins when the last has arrived and all memory is taken) and one end (the last of them). When nothing runs and nothing
 * can start any more, the outcome is DOES_NOT_FIT or DEADLOCK with who waits for what, as the engine tells it; what lives at the start and does not fit is such an outcome too
 * (wet_pools_overfull; sched_verify says STATUS_DOES_NOT_FIT of it, which executors let pass). The watchdog ends a run in which an op is in submit() longer than the
 * patience, or asynchronous ops are under way and none has ended for so long: STATUS_EXECUTION naming rank and op. After any error all queues are cancelled and joined before
 * dispatch_run returns: submit() and poll() must return soon after cancel(), whatever the status, else dispatch_run waits for them.
 *
 * OP_MARK is never given to the driver, and stands for a real end of all that is before it, also on asynchronous queues. Threads block all signals.
 *
 * Times: an op that did not wait for memory was ready and matched when it began, so that the cost of waking a thread is no wait for memory. Device clocks are trusted
 * within what the host saw: no op begins before it was submitted or before its causes ended, none ends after that was seen. Peaks of memory in the timeline are those of the
 * schedule's accounting at the measured times (as timeline_memory); peak_reserved_bytes is the allocators', who on asynchronous queues take memory early: a step that only just
 * fits may wait for memory longer than the simulator says, or not fit. alone_ps is end - start. */
#ifndef MEMWALL_VALIDATE_DISPATCH_H
#define MEMWALL_VALIDATE_DISPATCH_H

#include "sim/exec.h"
#include "validate/dispatch/wet_pools.h"

enum { RUN_AHEAD_MAX = 64 };

/* The primitives of an executor. Functions marked * are required. Calls for different queues come from different threads. */
struct driver {
    void *context;
    const char *executor; /* * name for the timeline */
    bool emulated;        /* for the timeline */
    /* All partners of a match in one call, from the thread of the last to arrive; else each on its own thread, at the same time. */
    bool joins_matches;
    const bool *
        is_local; /* [rank_count], or NULL: all. Other ranks run in other processes; their queues get no thread and their partners are not waited for */
    bool (*is_asynchronous)(const void *context, uint32_t queue); /* NULL: none is */
    /* On the queue's thread, once, before its first op; and after its last. NULL: nothing. */
    enum status (*enter)(void *context, uint32_t queue, struct error *error);
    void (*leave)(void *context, uint32_t queue);
    /* Everything is idle; time 0 is when this returns. Memory is as at the start of a step (addresses may differ from the last one's). NULL: nothing. */
    enum status (*begin_step)(void *context, struct error *error);
    /* * Do or enqueue these ops (one, or all local partners of a match when joins_matches). Never OP_MARK. An error, of any status, ends the run with
     * STATUS_EXECUTION; its message need not name rank and op. */
    enum status (*submit)(void *context, const uint32_t *ops, uint32_t op_count, struct error *error);
    /* Asynchronous: whether a submitted op has ended. Called by the reaper's thread (which has not entered), the oldest op of each queue, until it has. */
    enum status (*poll)(void *context, uint32_t op, bool *ended, struct error *error);
    /* All has ended; fill start_ps and end_ps of the asynchronous ops, on the clock whose 0 begin_step was (dispatch_clock_ps at its return); what is left alone keeps the
     * times of submission and of the end as seen. Ops of other processes may be filled in too (as these tell them: their gates are put in order here, rank by rank). Not
     * called for a step that did not end. NULL: nothing. */
    enum status (*end_step)(void *context, struct op_times *ops, struct error *error);
    /* From the caller's thread, once, when the run has failed: calls that are inside the driver return soon, with any status. NULL: nothing can block. */
    void (*cancel)(void *context);
};

/* Runs the steps that `options` asks for and fills `timeline`. `pools` is the run's; the schedule must have passed sched_verify. STATUS_UNSUPPORTED: a rank stands for several
 * devices, or a match has asynchronous and synchronous partners. STATUS_LIMIT: more than 1,024 queues here. The timeline is audited when options->audit, unless ranks
 * run in other processes, by other clocks. */
enum status dispatch_run(const struct schedule *schedule, const struct driver *driver, struct wet_pools *pools,
                         const struct exec_options *options, struct timeline *timeline, struct error *error);

/* Monotonic clock in picoseconds. */
int64_t dispatch_clock_ps(void);

#endif
