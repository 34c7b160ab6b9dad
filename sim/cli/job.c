#include "sim/cli/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/plan/lower.h"
#include "strategies/registry.h"

/* --detail and --no-fold are keys of the scenario like any other: they become --set. */
enum status job_load(struct job *job, const struct cli_flags *flags, struct error *error)
{
    const char *sets[SETS_MAX + 2];
    char detail[64];
    uint32_t count = 0;
    for (uint32_t i = 0; i < flags->set_count; i++) {
        sets[count++] = flags->sets[i];
    }
    if (flags->detail != NULL) {
        snprintf(detail, sizeof detail, "detail=%s", flags->detail);
        sets[count++] = detail;
    }
    if (flags->no_fold) {
        sets[count++] = "fold=false";
    }
    return scenario_load(&job->scenario, flags->positionals[0], sets, count, error);
}

enum status job_lower(struct job *job, struct error *error)
{
    const struct scenario *scenario = &job->scenario;
    struct lower_request request = {
        .model = &scenario->model,
        .cluster = &scenario->cluster,
        .software = &scenario->software,
        .plan = &scenario->plan,
        .order = registry_order(scenario->plan.order, error),
        .policy = registry_policy(scenario->plan.policy, error),
    };
    if (request.order == NULL || request.policy == NULL) {
        return error != NULL ? error->status : STATUS_NOT_FOUND;
    }
    return lower_schedule(&request, &job->schedule, error);
}

/* Progress on standard error for anything over a second. */
struct progress {
    struct timespec start, last;
    bool shown, terminal;
};

static double seconds_between(const struct timespec *a, const struct timespec *b)
{
    return (double)(b->tv_sec - a->tv_sec) + 1e-9 * (double)(b->tv_nsec - a->tv_nsec);
}

static bool show_progress(void *context, uint32_t done, uint32_t total)
{
    struct progress *progress = context;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double elapsed = seconds_between(&progress->start, &now);
    double interval = progress->terminal ? 0.2 : 2.0;
    if (elapsed > 1 && seconds_between(&progress->last, &now) > interval) {
        double share = total > 0 ? (double)done / total : 0;
        fprintf(stderr, "%ssimulating: %.0f %% of %u ops", progress->terminal ? "\r" : "", 100 * share, total);
        if (share > 0.02) { /* setting up took part of the time: less says nothing */
            fprintf(stderr, ", about %.0f s left", elapsed * (1 - share) / share);
        }
        fputs(progress->terminal ? " " : "\n", stderr);
        progress->last = now;
        progress->shown = true;
    }
    return true;
}

/* A step that does not fit is run once more with memory to spare, so that the result says what it would need and take. Capacities, and with them the schedule's
 * hash, stay those of the machine. */
static enum status run_with_memory_to_spare(struct job *job, const struct exec_options *options, struct error *error)
{
    struct schedule *s = &job->schedule;
    struct hash hash = job->timeline.schedule_hash;
    uint64_t *capacities = calloc(s->space_count + 1, sizeof *capacities);
    if (capacities == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    }
    timeline_explain(s, &job->timeline, &job->does_not_fit);
    timeline_free(&job->timeline);
    for (uint32_t i = 0; i < s->space_count; i++) {
        capacities[i] = s->spaces[i].capacity_bytes;
        s->spaces[i].capacity_bytes = UINT64_MAX;
    }
    enum status status = exec_sim.run(s, options, &job->timeline, error);
    for (uint32_t i = 0; i < s->space_count; i++) {
        s->spaces[i].capacity_bytes = capacities[i];
    }
    free(capacities);
    job->timeline.schedule_hash = hash;
    return status;
}

enum status job_execute(struct job *job, const struct cli_flags *flags, struct error *error)
{
    struct progress progress = { .terminal = isatty(STDERR_FILENO) };
    clock_gettime(CLOCK_MONOTONIC, &progress.start);
    progress.last = progress.start;
    struct exec_options options = {
        .cluster = &job->scenario.cluster,
        .software = &job->scenario.software,
        .record_rates = flags->out != NULL,
        .audit = true,
        .progress = flags->quiet ? NULL : show_progress,
        .progress_context = &progress,
    };
    enum status status = exec_sim.run(&job->schedule, &options, &job->timeline, error);
    if (status == STATUS_OK && job->timeline.outcome == TIMELINE_DOES_NOT_FIT) {
        status = run_with_memory_to_spare(job, &options, error);
    }
    if (progress.shown) {
        fputs(progress.terminal ? "\r\033[K" : "", stderr);
    }
    if (status != STATUS_OK) {
        return status;
    }
    job->input = (struct result_input){
        .name = job->scenario.name,
        .schedule = &job->schedule,
        .timeline = &job->timeline,
        .cluster = &job->scenario.cluster,
        .software = &job->scenario.software,
        .precision = job->scenario.plan.precision,
        .does_not_fit = job->does_not_fit.length > 0 ? job->does_not_fit.text : NULL,
    };
    return result_compute(&job->result, &job->input, error);
}

void job_free(struct job *job)
{
    result_free(&job->result);
    strbuf_free(&job->does_not_fit);
    timeline_free(&job->timeline);
    schedule_free(&job->schedule);
    scenario_free(&job->scenario);
}
