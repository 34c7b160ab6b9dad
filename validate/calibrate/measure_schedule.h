/* A bench's schedule under construction: what its kinds of points share. bench_build (measure_schedule.c) begins and ends it; copies (measure_copies.c), collectives
 * (measure_collectives.c) and costs of issuing (measure_issue.c) fill it. Errors are kept in `status`; the calls after one do nothing that matters. Private to validate/calibrate. */
#ifndef MEMWALL_VALIDATE_MEASURE_SCHEDULE_H
#define MEMWALL_VALIDATE_MEASURE_SCHEDULE_H

#include "sim/ir/builder.h"
#include "validate/calibrate/measure_internal.h"

enum { BENCH_RING_MAX = 256 };

struct bench_making {
    const struct measure_options *options;
    const struct point *points; /* the first says what ranks there are */
    const uint32_t *repeats;
    uint32_t point_count;
    struct builder *builder;
    struct bench *bench;
    uint32_t op_capacity;
    uint32_t host, pinned;               /* spaces */
    uint32_t group;                      /* of all ranks, where they wait for each other */
    uint32_t meetings[BENCH_POINTS_MAX]; /* matches: the ranks meet before each point */
    struct error *error;
    enum status status;
};

/* Who the op is measured for: a point and one of its series, or BENCH_NOBODY. */
void bench_note(struct bench_making *m, uint32_t op, uint32_t point, uint32_t series);
uint32_t bench_device_space(struct bench_making *m, uint32_t device);
void bench_open_rank(struct bench_making *m, uint32_t device);
uint32_t bench_lasting_buffer(struct bench_making *m, uint32_t space, double bytes, enum buffer_class buffer_class);
/* Buffers that a series goes round, within a point's share of the memory; 1 to BENCH_RING_MAX. */
uint32_t bench_ring_size(const struct bench_making *m, const struct point *p);
uint32_t bench_kernel_work(struct bench_making *m, const struct kernel *kernel);

/* Ranks that begin a point together: before each point they meet when several things shall run at once. */
void bench_prepare_meetings(struct bench_making *m, uint32_t first_device, uint32_t ranks);
/* The op that the first ops of the point's series wait for, behind the `last` ones of the point before (SCHED_NONE: none). SCHED_NONE where nothing has to begin together. */
uint32_t bench_meet(struct bench_making *m, uint32_t point, uint32_t queue, const uint32_t last[2], uint32_t queues);

/* The ops of all points, by kind. */
void bench_make_host_copies(struct bench_making *m);
void bench_make_peer_copies(struct bench_making *m);
void bench_make_collectives(struct bench_making *m);
void bench_make_issue(struct bench_making *m);
void bench_make_fresh(struct bench_making *m);

#endif
