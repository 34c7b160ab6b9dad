#include "sim/report/sensitivity_trial.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/base/check.h"
#include "sim/base/cores.h"
#include "sim/exec.h"
#include "sim/plan/lower.h"

static enum status run_schedule(struct schedule *schedule, const struct cluster *cluster,
                                const struct software *software, struct trial_result *result, struct error *error)
{
    const struct exec_options options = { .cluster = cluster, .software = software };
    struct timeline timeline;
    enum status status = exec_sim.run(schedule, &options, &timeline, error);
    result->fits = status == STATUS_OK && timeline.outcome == TIMELINE_DONE;
    if (status == STATUS_OK && timeline.outcome == TIMELINE_DOES_NOT_FIT) {
        timeline_free(&timeline);
        for (uint32_t i = 0; i < schedule->space_count; i++) {
            schedule->spaces[i].capacity_bytes = UINT64_MAX;
        }
        status = exec_sim.run(schedule, &options, &timeline, error);
    }
    result->ran = status == STATUS_OK && timeline.outcome == TIMELINE_DONE;
    if (result->ran) { /* after an error the timeline may be empty */
        const struct step_window window = timeline_step(schedule, &timeline);
        result->step_ps = window.to_ps - window.from_ps;
    } else if (status == STATUS_OK) {
        (void)snprintf(result->reason, sizeof result->reason, "the step does not end");
    }
    timeline_free(&timeline);
    return status;
}

/* Of one machine alone: another one may do. */
static bool is_refusal(enum status status)
{
    return status == STATUS_DOES_NOT_FIT || status == STATUS_BAD_INPUT || status == STATUS_UNSUPPORTED;
}

enum status trial_run(struct trial_result *result, const struct scenario *scenario, const struct machine *machine,
                      const struct software *software, struct error *error)
{
    struct cluster cluster = { 0 };
    struct schedule schedule = { 0 };
    struct error own = { 0 };
    *result = (struct trial_result){ 0 };
    enum status status = cluster_build(&cluster, machine, scenario->cluster.nodes, scenario->cluster.gpus, &own);
    const struct lower_request request = {
        .model = &scenario->model,
        .cluster = &cluster,
        .software = software,
        .plan = &scenario->plan,
    };
    if (status == STATUS_OK) {
        status = lower_schedule(&request, &schedule, &own);
    }
    if (status == STATUS_OK) {
        status = run_schedule(&schedule, &cluster, software, result, &own);
    }
    schedule_free(&schedule);
    cluster_free(&cluster);
    if (is_refusal(status)) {
        *result = (struct trial_result){ 0 };
        (void)snprintf(result->reason, sizeof result->reason, "%s", own.message);
        return STATUS_OK;
    }
    if (status != STATUS_OK && error != NULL) {
        *error = own;
    }
    return status;
}

struct crew {
    uint32_t count;
    void (*work)(void *context, uint32_t index);
    void *context;
    atomic_uint next, done;
};

static void *take_all(void *argument)
{
    struct crew *crew = argument;
    for (uint32_t i; (i = atomic_fetch_add(&crew->next, 1)) < crew->count;) {
        crew->work(crew->context, i);
        atomic_fetch_add(&crew->done, 1);
    }
    return NULL;
}

enum { THREADS_MAX = 64 };

void trials_parallel(uint32_t threads, uint32_t count, void (*work)(void *context, uint32_t index), void *context,
                     void (*progress)(void *context, uint32_t done, uint32_t total), void *progress_context)
{
    struct crew crew = { .count = count, .work = work, .context = context };
    pthread_t ids[THREADS_MAX];
    uint32_t started = 0;
    threads = threads != 0 ? threads : cores_allowed();
    threads = threads > THREADS_MAX ? THREADS_MAX : threads;
    atomic_init(&crew.next, 0);
    atomic_init(&crew.done, 0);
    while (started + 1 < threads && started + 1 < count && pthread_create(&ids[started], NULL, take_all, &crew) == 0) {
        started++;
    }
    for (uint32_t i; (i = atomic_fetch_add(&crew.next, 1)) < count;) { /* the caller's thread works too, and tells */
        work(context, i);
        uint32_t done = atomic_fetch_add(&crew.done, 1) + 1;
        if (progress != NULL) {
            progress(progress_context, done, count);
        }
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(ids[i], NULL);
    }
}
