#include "validate/dispatch/dispatch.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/base/check.h"
#include "sim/ir/audit.h"
#include "validate/dispatch/dispatch_internal.h"

static const int64_t PROGRESS_PS = 100000000000; /* 100 ms between two looks of the caller */
static const int64_t TICK_PS_MIN = 1000000000;   /* 1 ms */
enum { LOOKS_PER_PATIENCE = 8 };

int64_t dispatch_clock_ps(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec) * 1000;
}

struct timespec dispatch_deadline(int64_t wait_ps)
{
    int64_t until_ns = (dispatch_clock_ps() + wait_ps) / 1000;
    return (struct timespec){ .tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000 };
}

static enum status copy_error(const struct dispatch *d, struct error *error)
{
    if (error != NULL) {
        *error = d->error;
    }
    return d->status;
}

/* -- the waiting caller -- */

/* Locked. */
static void look_for_hang(struct dispatch *d)
{
    int64_t ran_ps;
    uint32_t op = dispatch_hung(d, dispatch_clock_ps() - d->epoch_ps, &ran_ps);
    if (op != SCHED_NONE) {
        struct error error;
        (void)error_set(&error, STATUS_EXECUTION, "has not ended after %.3g s; it hangs, as the patience is %.3g s",
                        s_from_ps(ran_ps), s_from_ps(d->patience_ps));
        dispatch_fail(d, &error, op, SCHED_NONE);
    }
}

static uint32_t saturated(uint64_t count)
{
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

/* Locked, but while the caller is told. */
static void tell_progress(struct dispatch *d)
{
    const struct exec_options *o = d->options;
    uint64_t steps = (uint64_t)o->warmup_steps + (o->steps == 0 ? 1 : o->steps);
    uint32_t done = saturated(d->done_before + d->done), total = saturated(steps * d->local_ops);
    dispatch_unlock(d);
    bool goes_on = o->progress(o->progress_context, done, total);
    (void)pthread_mutex_lock(&d->lock);
    if (!goes_on) {
        struct error error;
        (void)error_set(&error, STATUS_EXECUTION, "cancelled after %u of %u ops", done, total);
        dispatch_fail(d, &error, SCHED_NONE, SCHED_NONE);
    }
}

/* Locked, but while the caller is told. */
static void tell_progress_when_due(struct dispatch *d)
{
    if (!d->failed && d->options->progress != NULL && dispatch_clock_ps() - d->told_ps >= PROGRESS_PS) {
        d->told_ps = dispatch_clock_ps();
        tell_progress(d);
    }
}

/* Until the step is over or the run has failed. Locked. */
static void wait_for_step(struct dispatch *d)
{
    int64_t tick_ps = d->patience_ps / LOOKS_PER_PATIENCE;
    tick_ps = tick_ps > PROGRESS_PS ? PROGRESS_PS : tick_ps < TICK_PS_MIN ? TICK_PS_MIN : tick_ps;
    while (!d->step_over && !d->failed) {
        const struct timespec until = dispatch_deadline(tick_ps);
        (void)pthread_cond_timedwait(&d->changed, &d->lock, &until);
        if (d->step_over || d->failed) {
            return;
        }
        look_for_hang(d);
        tell_progress_when_due(d);
    }
}

/* -- one step -- */

static enum status prepare_timeline(struct dispatch *d, struct timeline *t, struct error *error)
{
    *t = (struct timeline){ .op_count = d->schedule->op_count, .space_count = d->schedule->space_count };
    t->ops = arena_array(&t->arena, struct op_times, t->op_count);
    t->spaces = arena_array(&t->arena, struct space_use, t->space_count);
    if (t->ops == NULL || t->spaces == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for the times of %u ops", t->op_count);
    }
    (void)pthread_mutex_lock(&d->lock); /* threads that begin look about */
    d->times = t->ops;
    dispatch_reset(d);
    dispatch_unlock(d);
    return STATUS_OK;
}

/* An error of the driver between ops. */
static enum status driver_failed(struct dispatch *d, const struct error *found, struct error *error)
{
    (void)pthread_mutex_lock(&d->lock);
    dispatch_fail(d, found, SCHED_NONE, SCHED_NONE);
    dispatch_unlock(d);
    return copy_error(d, error);
}

static enum status drive_step(struct dispatch *d, struct error *error)
{
    struct error found = { 0 };
    if (d->driver->begin_step != NULL && d->driver->begin_step(d->driver->context, &found) != STATUS_OK) {
        return driver_failed(d, &found, error);
    }
    (void)pthread_mutex_lock(&d->lock);
    tell_progress_when_due(d); /* here as well: steps may be shorter than the time between two looks */
    if (d->failed) {
        dispatch_unlock(d);
        return copy_error(d, error);
    }
    d->epoch_ps = dispatch_clock_ps();
    dispatch_begin(d);
    dispatch_unlock(d);
    (void)pthread_mutex_lock(&d->lock);
    wait_for_step(d);
    bool failed = d->failed;
    d->done_before += d->done;
    dispatch_unlock(d);
    if (failed) {
        return copy_error(d, error);
    }
    if (d->done == d->local_ops && d->driver->end_step != NULL &&
        d->driver->end_step(d->driver->context, d->times, &found) != STATUS_OK) {
        return driver_failed(d, &found, error);
    }
    return STATUS_OK;
}

static void tell_reserved(const struct dispatch *d, struct timeline *t)
{
    for (uint32_t s = 0; s < t->space_count; s++) {
        uint64_t reserved = wet_pools_peak_reserved(d->pools, s), live = t->spaces[s].peak_bytes;
        t->spaces[s].peak_reserved_bytes = reserved > live ? reserved : live;
    }
}

static enum status finish_step(struct dispatch *d, struct timeline *t, struct error *error)
{
    TRY(dispatch_finish_times(d, t, error));
    if (d->done < d->local_ops) {
        TRY(dispatch_explain_blocked(d, t, error));
    }
    tell_reserved(d, t);
    if (d->options->audit && d->local_ops == t->op_count) {
        TRY(timeline_audit(d->schedule, d->hash, t, NULL, error));
    }
    return STATUS_OK;
}

/* -- all steps -- */

static enum status run_step(struct dispatch *d, bool is_first, struct timeline *t, struct error *error)
{
    if (!is_first) {
        TRY(wet_pools_rewind(d->pools, error));
    }
    TRY(prepare_timeline(d, t, error));
    TRY(drive_step(d, error));
    return finish_step(d, t, error);
}

struct step_time {
    int64_t end_ps;
    uint32_t step;
};

static int by_time(const void *left, const void *right)
{
    const struct step_time *a = left, *b = right;
    return a->end_ps != b->end_ps ? (a->end_ps > b->end_ps) - (a->end_ps < b->end_ps)
                                  : (a->step > b->step) - (a->step < b->step);
}

/* The lower median, or the last where a step has not ended. */
static uint32_t median_of(const struct timeline *steps, struct step_time *times, uint32_t count)
{
    if (steps[count - 1].outcome != TIMELINE_DONE) {
        return count - 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        times[i] = (struct step_time){ steps[i].end_ps, i };
    }
    qsort(times, count, sizeof *times, by_time);
    return times[(count - 1) / 2].step;
}

/* `steps` has room for `wanted`; *count: how many were measured. */
static enum status run_steps(struct dispatch *d, struct timeline *steps, uint32_t wanted, uint32_t *count,
                             struct error *error)
{
    const struct exec_options *o = d->options;
    bool is_first = true;
    for (uint32_t i = 0; i < o->warmup_steps; i++) {
        enum status status = run_step(d, is_first, &steps[0], error);
        is_first = false;
        if (status != STATUS_OK || steps[0].outcome != TIMELINE_DONE) {
            *count = 1;
            return status;
        }
        timeline_free(&steps[0]);
    }
    while (*count < wanted) {
        struct timeline *t = &steps[(*count)++];
        TRY(run_step(d, is_first, t, error));
        is_first = false;
        if (t->outcome != TIMELINE_DONE || (o->step_done != NULL && !o->step_done(o->step_context, *count - 1, t))) {
            break;
        }
    }
    return STATUS_OK;
}

/* What lives at the start is too much: nothing runs. */
static enum status tell_overfull(struct dispatch *d, struct timeline *t, struct error *error)
{
    TRY(prepare_timeline(d, t, error));
    for (uint32_t i = 0; i < d->schedule->op_count; i++) {
        d->nodes[i].is_local = false; /* not even issued */
    }
    return finish_step(d, t, error);
}

static enum status run(struct dispatch *d, struct timeline *steps, uint32_t wanted, uint32_t *count,
                       struct error *error)
{
    TRY(dispatch_setup(d, error));
    if (wet_pools_overfull(d->pools, NULL) != SCHED_NONE) {
        *count = 1;
        return tell_overfull(d, &steps[0], error);
    }
    enum status status = dispatch_start_threads(d, error);
    if (status == STATUS_OK) {
        status = run_steps(d, steps, wanted, count, error);
    }
    if (status != STATUS_OK && d->driver->cancel != NULL) {
        d->driver->cancel(d->driver->context);
    }
    dispatch_join_threads(d);
    return status;
}

enum status dispatch_run(const struct schedule *schedule, const struct driver *driver, struct wet_pools *pools,
                         const struct exec_options *options, struct timeline *timeline, struct error *error)
{
    struct dispatch d = { .schedule = schedule, .driver = driver, .pools = pools, .options = options };
    uint32_t wanted = options->steps == 0 ? 1 : options->steps, count = 0;
    struct timeline *steps = calloc(wanted, sizeof *steps);
    struct step_time *times = calloc(wanted, sizeof *times);
    enum status status = STATUS_OK;
    *timeline = (struct timeline){ 0 };
    if (steps == NULL || times == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for %u steps", wanted);
        goto fail;
    }
    d.told_ps = dispatch_clock_ps();
    status = run(&d, steps, wanted, &count, error);
    if (status == STATUS_OK) {
        uint32_t median = median_of(steps, times, count);
        *timeline = steps[median];
        steps[median] = (struct timeline){ 0 };
        tell_reserved(&d, timeline);
    }
fail:
    for (uint32_t i = 0; steps != NULL && i < count; i++) {
        timeline_free(&steps[i]);
    }
    dispatch_teardown(&d);
    free(times);
    free(steps);
    return status;
}
