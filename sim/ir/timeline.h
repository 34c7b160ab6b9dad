/* The timeline: what an executor says happened. Same form for simulated and real runs.
 *
 * All times are picoseconds from the start of the step. Arrays have one entry per op, resource or space; they live in the timeline's arena. */
#ifndef MEMWALL_IR_TIMELINE_H
#define MEMWALL_IR_TIMELINE_H

#include <stdint.h>

#include "sim/base/arena.h"
#include "sim/base/strbuf.h"
#include "sim/ir/schedule.h"

/* When an op passed each gate; each >= the one before. TIME_NEVER_PS: it has not (when the outcome is not DONE). */
struct op_times {
    int64_t issued_ps;  /* the host has issued it */
    int64_t ready_ps;   /* ... and it heads its queue and its dependencies have ended */
    int64_t matched_ps; /* ... and its partners stand ready */
    int64_t start_ps;   /* ... and its memory fits: it runs */
    int64_t end_ps;
    int64_t alone_ps; /* how long it would have run with nobody else there */
};

/* A change of an activity's rate, as a fraction of its rate when alone. */
struct rate_change {
    int64_t time_ps;
    uint32_t op; /* the op whose activity it is (of matched ops: the lowest) */
    float rate;  /* 0: ended */
};

struct space_use {
    uint64_t peak_bytes;          /* live: what the schedule acquired */
    uint64_t peak_reserved_bytes; /* by the allocator model */
    int64_t peak_time_ps;
    uint32_t peak_op; /* the op whose start made the peak; SCHED_NONE: at start */
    uint64_t at_peak_bytes[BUFFER_CLASS_COUNT];
};

struct resource_traffic {
    double amount;   /* bytes (or SM-seconds, core-seconds) moved over the step */
    double busy_s;   /* time with any use */
    double peak_use; /* highest sum of coefficient * rate, in units of the resource */
};

enum timeline_outcome { TIMELINE_DONE, TIMELINE_DOES_NOT_FIT, TIMELINE_DEADLOCK };

/* What a step that did not end was waiting for. */
struct blocked_op {
    uint32_t op;    /* SCHED_NONE: the step itself, whose buffers live at start do not fit */
    uint32_t space; /* waits for memory here, or SCHED_NONE */
    uint64_t wanted_bytes, free_bytes;
    uint32_t waits_for_op; /* a dependency, queue head or match partner, or SCHED_NONE */
};

struct timeline {
    struct hash schedule_hash;
    char executor[16];
    bool emulated;
    enum timeline_outcome outcome;
    int64_t end_ps;                     /* of the last op */
    struct op_times *ops;               /* [op_count] */
    struct space_use *spaces;           /* [space_count] */
    struct resource_traffic *resources; /* [resource_count] of the cluster; NULL for real executors */
    struct rate_change *rates;          /* in time order; NULL when not recorded */
    struct blocked_op *blocked;         /* when not DONE: the waits, the decisive one first */
    uint32_t op_count, space_count, resource_count, blocked_count;
    uint64_t rate_count, event_count;
    struct arena arena;
};

/* Called when an instant is over, with the timeline so far: when what has started did (0: not yet, or at once), and the peaks until now. False ends the run. */
struct timeline_watch {
    bool (*go_on)(void *context, int64_t now_ps, const struct timeline *so_far);
    void *context;
};

void timeline_free(struct timeline *timeline);

/* The training step that the timeline shows. A schedule may hold several in a row (OP_FLAG_STEP), where one alone does not say how long it takes when others come before and after it: the last but
 * one then counts, from its beginning to that of the last, on the first rank. Of a timeline that is DONE. */
struct step_window {
    int64_t from_ps, to_ps;
    uint32_t steps; /* in the schedule, >= 1 */
};
struct step_window timeline_step(const struct schedule *schedule, const struct timeline *timeline);

/* Explain an outcome other than DONE by names: which op, which space, what holds the bytes; or who waits for whom. */
void timeline_explain(const struct schedule *schedule, const struct timeline *timeline, struct strbuf *out);

/* Bytes live in a space over time: a step function as (time, bytes) points, coalesced per instant, from op starts and ends. In `arena`. */
struct memory_point {
    int64_t time_ps;
    uint64_t bytes;
};
enum status timeline_memory(const struct schedule *schedule, const struct timeline *timeline, uint32_t space,
                            struct arena *arena, struct memory_point **points, uint32_t *point_count,
                            struct error *error);
/* The same by buffer class: counts by class at each point ([point_count * BUFFER_CLASS_COUNT]). */
enum status timeline_memory_by_class(const struct schedule *schedule, const struct timeline *timeline, uint32_t space,
                                     struct arena *arena, int64_t **times_ps, uint64_t **bytes, uint32_t *point_count,
                                     struct error *error);

#endif
