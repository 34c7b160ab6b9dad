/* A plain twin of the simulator for bare pipelines: every op of one has a fixed duration, so its start is the longest way to it through queues, dependencies and matches. */
#ifndef MEMWALL_TESTS_PIPELINE_TWIN_H
#define MEMWALL_TESTS_PIPELINE_TWIN_H

#include "sim/ir/schedule.h"
#include "sim/ir/timeline.h"
#include "tests/test.h"

struct twin {
    const struct schedule *schedule;
    uint32_t *previous; /* the op before on the same queue */
    uint32_t *partner;  /* the op with the same match */
    uint8_t *state;     /* 0 new, 1 being asked, 2 known */
    int64_t *start_ps, *end_ps;
    bool cycle;
};

static inline int64_t twin_end(struct twin *twin, uint32_t op);

static inline int64_t twin_ready(struct twin *twin, uint32_t op)
{
    const struct sched_op *o = &twin->schedule->ops[op];
    int64_t ready_ps = twin->previous[op] == SCHED_NONE ? 0 : twin_end(twin, twin->previous[op]);
    for (uint32_t i = 0; i < o->dependency_count; i++) {
        int64_t end_ps = twin_end(twin, twin->schedule->dependencies[o->first_dependency + i]);
        ready_ps = end_ps > ready_ps ? end_ps : ready_ps;
    }
    return ready_ps;
}

static inline int64_t twin_end(struct twin *twin, uint32_t op)
{
    if (twin->state[op] == 1) {
        twin->cycle = true;
        return 0;
    }
    if (twin->state[op] == 0) {
        twin->state[op] = 1;
        int64_t start_ps = twin_ready(twin, op);
        if (twin->partner[op] != SCHED_NONE) {
            int64_t other_ps = twin_ready(twin, twin->partner[op]);
            start_ps = other_ps > start_ps ? other_ps : start_ps;
        }
        const struct sched_op *o = &twin->schedule->ops[op];
        twin->start_ps[op] = start_ps;
        twin->end_ps[op] = start_ps + (o->work == SCHED_NONE ? 0 : twin->schedule->works[o->work].fixed_ps);
        twin->state[op] = 2;
    }
    return twin->end_ps[op];
}

/* All allocations of these tests are small: running out is a failure of the machine, not of the code under test. */
static inline void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count == 0 ? 1 : count, size);
    if (memory == NULL) {
        printf("out of memory\n");
        exit(1);
    }
    return memory;
}

struct change {
    int64_t time_ps, delta;
};

static inline int compare_changes(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->time_ps != y->time_ps) {
        return x->time_ps < y->time_ps ? -1 : 1;
    }
    return x->delta < y->delta ? -1 : x->delta > y->delta; /* at one instant, what ends gives back first */
}

static inline uint64_t twin_peak(const struct twin *twin, uint32_t space)
{
    const struct schedule *schedule = twin->schedule;
    struct change *changes = allocate(schedule->operand_count, sizeof *changes);
    size_t count = 0;
    for (uint32_t i = 0; i < schedule->op_count; i++) {
        const struct sched_op *op = &schedule->ops[i];
        for (uint32_t k = 0; k < (uint32_t)op->acquire_count + op->release_count; k++) {
            const struct sched_buffer *buffer = &schedule->buffers[schedule->operands[op->first_operand + k]];
            if (buffer->space == space) {
                bool acquired = k < op->acquire_count;
                changes[count++] = (struct change){ acquired ? twin->start_ps[i] : twin->end_ps[i],
                                                    acquired ? (int64_t)buffer->bytes : -(int64_t)buffer->bytes };
            }
        }
    }
    qsort(changes, count, sizeof *changes, compare_changes);
    int64_t bytes = 0, peak = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += changes[i].delta;
        peak = bytes > peak ? bytes : peak;
    }
    EXPECT_INT(bytes, 0);
    free(changes);
    return (uint64_t)peak;
}

/* Fills a timeline as an executor does. */
static inline void twin_run(const struct schedule *schedule, struct timeline *timeline)
{
    uint32_t n = schedule->op_count;
    struct twin twin = { .schedule = schedule };
    uint32_t *last = allocate(schedule->queue_count, sizeof *last),
             *waiting = allocate(schedule->match_count, sizeof *waiting);
    twin.previous = allocate(n, sizeof *twin.previous);
    twin.partner = allocate(n, sizeof *twin.partner);
    twin.state = allocate(n, 1);
    twin.start_ps = allocate(n, sizeof *twin.start_ps);
    twin.end_ps = allocate(n, sizeof *twin.end_ps);
    memset(last, 0xff, schedule->queue_count * sizeof *last);
    memset(waiting, 0xff, schedule->match_count * sizeof *waiting);
    for (uint32_t i = 0; i < n; i++) {
        const struct sched_op *op = &schedule->ops[i];
        twin.previous[i] = last[op->queue];
        last[op->queue] = i;
        twin.partner[i] = SCHED_NONE;
        if (op->match != SCHED_NONE) {
            if (waiting[op->match] != SCHED_NONE) {
                twin.partner[i] = waiting[op->match];
                twin.partner[waiting[op->match]] = i;
            }
            waiting[op->match] = i;
        }
    }
    *timeline = (struct timeline){ .outcome = TIMELINE_DONE, .op_count = n, .space_count = schedule->space_count };
    timeline->ops = arena_array(&timeline->arena, struct op_times, n);
    timeline->spaces = arena_array(&timeline->arena, struct space_use, schedule->space_count);
    for (uint32_t i = 0; i < n; i++) {
        timeline->ops[i].end_ps = twin_end(&twin, i);
        timeline->ops[i].start_ps = twin.start_ps[i];
        timeline->end_ps = timeline->ops[i].end_ps > timeline->end_ps ? timeline->ops[i].end_ps : timeline->end_ps;
    }
    for (uint32_t i = 0; i < schedule->space_count; i++) {
        timeline->spaces[i].peak_bytes = twin_peak(&twin, i);
    }
    EXPECT(!twin.cycle);
    free(last);
    free(waiting);
    free(twin.previous);
    free(twin.partner);
    free(twin.state);
    free(twin.start_ps);
    free(twin.end_ps);
}

#endif
