/* A timeline as a Chrome/Perfetto trace: pid = rank, tid = queue, counters for memory and links, flow arrows from each send to its receive.
 * Format: "Trace Event Format" (JSON object form), gzip. Times are microseconds from the start of the step, with picoseconds as fractions. Counters of no rank
 * (links, memory of servers) stand under one more process after the ranks, "links and servers".
 *
 * Collectives merged into a pass (detail layer or stage) are no events of their own: the pass has args "merged_collectives" (how many) and
 * "merged_collectives_alone_us", and otherData.note says so.
 *
 * What moves (copies, drives, sends, receives, collectives) says in args "moves" which buffer ("fp16 chunk 3"; left out where it has none of its own), "bytes" of one device (of a collective the
 * whole buffer) and, where a rank stands for several, "devices": bytes x devices, summed, are what the schedule moves.
 *
 * Ops that never started (a step that does not fit) are left out; one that never ended lasts until the end of the timeline. */
#ifndef MEMWALL_TRACES_PERFETTO_H
#define MEMWALL_TRACES_PERFETTO_H

#include <stdbool.h>

#include "sim/ir/timeline.h"

/* A counter track: `series_count` stacked values at each of `count` times. */
struct trace_counter {
    uint32_t rank;             /* under whose process it is shown; SCHED_NONE: links and servers */
    const char *name;          /* "memory of gpu 0 (GiB)" */
    const char *const *series; /* [series_count] */
    const int64_t *times_ps;   /* [count] */
    const double *values;      /* [count * series_count], >= 0, written with six decimals */
    uint32_t count, series_count;
};

struct perfetto_input {
    const struct schedule *schedule;
    const struct timeline *timeline;
    const int64_t *merged_ps; /* [op_count]: how long the collectives merged into an op run alone; or NULL: unknown */
    const bool *rank_wanted;  /* [rank_count], or NULL: all */
    const struct trace_counter *counters;
    uint32_t counter_count;
};

/* Written through a temporary name. */
enum status perfetto_write(const char *path, const struct perfetto_input *input, struct error *error);

#endif
