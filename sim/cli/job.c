#include "sim/cli/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/ticker.h"
#include "sim/engine/exec_sim_spare.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan_words.h"
#include "sim/report/refusal.h"
#include "strategies/planners/plan_answer.h"

/* Those of the flags, --detail, --no-fold, and what is tried on top. */
enum { LOADED_SETS_MAX = SETS_MAX + 2 + REMEDY_SETS_MAX };

/* With a plan file the keys that a plan has belong to it. */
static enum status load_with_plan(struct scenario *scenario, const struct cli_flags *flags, const char *const *sets,
                                  uint32_t count, struct error *error)
{
    const char *of_scenario[LOADED_SETS_MAX];
    uint32_t scenario_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!plan_answer_takes_set(sets[i])) {
            of_scenario[scenario_count++] = sets[i];
        }
    }
    TRY(scenario_load(scenario, flags->positionals[0], of_scenario, scenario_count, error));
    enum status status = plan_answer_load(scenario, flags->plan, sets, count, error);
    if (status != STATUS_OK) {
        scenario_free(scenario);
    }
    return status;
}

/* --detail and --no-fold are keys of the scenario like any other: they become --set. `more` sets come last. */
static enum status load(struct scenario *scenario, const struct cli_flags *flags, const char *const *more,
                        uint32_t more_count, struct error *error)
{
    const char *sets[LOADED_SETS_MAX];
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
    for (uint32_t i = 0; i < more_count; i++) {
        sets[count++] = more[i];
    }
    if (flags->plan != NULL) {
        return load_with_plan(scenario, flags, sets, count, error);
    }
    return flags->scenario != NULL
               ? scenario_parse(scenario, flags->scenario, flags->positionals[0], sets, count, error)
               : scenario_load(scenario, flags->positionals[0], sets, count, error);
}

enum status job_load(struct job *job, const struct cli_flags *flags, struct error *error)
{
    return load(&job->scenario, flags, NULL, 0, error);
}

bool job_can_load_again(const struct cli_flags *flags)
{
    struct stat about;
    return flags->scenario != NULL || (stat(flags->positionals[0], &about) == 0 && S_ISREG(about.st_mode));
}

static enum status load_changed(void *context, struct scenario *scenario, const char *const *sets, uint32_t set_count,
                                struct error *error)
{
    return load(scenario, context, sets, set_count, error);
}

enum status job_find_remedies(struct job *job, struct cli_flags *flags, enum status status, struct error *error)
{
    const struct remedy_request request = { .load = load_changed, .context = flags, .said = job->facts.would_do };
    struct error own = { 0 };
    bool asked = job->refused || (status == STATUS_OK && job->does_not_fit.length > 0);
    if (!asked || !job_can_load_again(flags)) {
        return status;
    }
    enum status found = remedies_find(&request, &job->remedies, &own);
    if (found != STATUS_OK) {
        job->refused = false;
        *error = own;
        return found;
    }
    return status;
}

enum status job_lower(struct job *job, struct error *error)
{
    const struct scenario *scenario = &job->scenario;
    struct lower_request request = {
        .model = &scenario->model,
        .cluster = &scenario->cluster,
        .software = &scenario->software,
        .plan = &scenario->plan,
        .facts = &job->facts,
    };
    enum status status = lower_schedule(&request, &job->schedule, error);
    job->refused = status == STATUS_DOES_NOT_FIT;
    return status;
}

enum status job_prepare(struct job *job, struct cli_flags *flags, const struct executor *executor, struct error *error)
{
    bool measures = (executor->capabilities & EXECUTOR_MEASURES) != 0, unfolds = measures && !flags->no_fold;
    flags->no_fold = flags->no_fold || measures;
    TRY(job_load(job, flags, error));
    TRY(job_lower(job, error));
    if (unfolds && !flags->quiet && job->schedule.rank_count > job->scenario.plan.pipeline) {
        fprintf(stderr,
                "memwall: the executor %s runs each of the %u GPUs by itself: the schedule is built without folding\n",
                executor->name, job->schedule.gpu_count);
    }
    return STATUS_OK;
}

struct progress {
    struct ticker ticker;
    const char *doing;
    bool measures;
};

static bool show_progress(void *context, uint32_t done, uint32_t total)
{
    struct progress *progress = context;
    struct ticker *ticker = &progress->ticker;
    if (ticker_due(ticker)) {
        double share = total > 0 ? (double)done / total : 0;
        fprintf(stderr, "%s%s: %.0f %% of %u ops", ticker_begin(ticker), progress->doing, 100 * share, total);
        if (share > 0.02) { /* setting up took part of the time: less says nothing */
            fprintf(stderr, ", about %.0f s left", ticker_elapsed_s(ticker) * (1 - share) / share);
        }
        fputs(ticker_finish(ticker), stderr);
    }
    return !progress->measures || !interrupt_seen();
}

/* Shown from here to ticker_end, unless `quiet`. A run that measures is looked after always: it may be interrupted. */
static void progress_begin(struct progress *progress, bool measures, struct exec_options *options, bool quiet)
{
    *progress = (struct progress){ .doing = measures ? "running" : "simulating", .measures = measures };
    ticker_start(&progress->ticker, quiet);
    options->progress = quiet && !measures ? NULL : show_progress;
    options->progress_context = progress;
}

enum status job_run(const struct schedule *schedule, const struct executor *executor, struct exec_options *options,
                    bool quiet, struct timeline *timeline, struct error *error)
{
    bool measures = (executor->capabilities & EXECUTOR_MEASURES) != 0;
    struct progress progress;
    progress_begin(&progress, measures, options, quiet);
    if (measures) {
        interrupt_catch(); /* threads and files of the run must not outlive it */
    }
    enum status status = executor->run(schedule, options, timeline, error);
    if (measures) {
        interrupt_release();
    }
    ticker_end(&progress.ticker);
    if (measures && status == STATUS_UNSUPPORTED) {
        error->status = status = STATUS_EXECUTION; /* the input is well, this computer cannot do it */
    }
    return status;
}

/* A step that does not fit is run once more with memory to spare, so that the result says what it would need and take. Capacities, and with them the schedule's
 * hash, stay those of the machine. */
static enum status run_with_memory_to_spare(struct job *job, struct exec_options *options, bool quiet,
                                            struct error *error)
{
    struct progress progress;
    progress_begin(&progress, false, options, quiet);
    enum status status = exec_sim_again(&job->schedule, options, &job->timeline, &job->does_not_fit, error);
    ticker_end(&progress.ticker);
    return status;
}

static bool keep_step(void *context, uint32_t step, const struct timeline *timeline)
{
    struct job *job = context;
    (void)step;
    if (timeline->outcome == TIMELINE_DONE && job->step_count < EXECUTOR_STEPS_MAX) {
        const struct step_window window = timeline_step(&job->schedule, timeline);
        job->steps_s[job->step_count++] = s_from_ps(window.to_ps - window.from_ps);
    }
    return true;
}

bool job_is_elsewhere(const struct executor *executor, const struct machine *machine)
{
    return strcmp(executor->name, "host") == 0 && !machine->gpu.on_host;
}

/* A real executor's run is what it is: one that does not fit is not run again. */
static enum status execute(struct job *job, const struct cli_flags *flags, const struct executor *executor,
                           struct exec_options *options, struct error *error)
{
    enum status status = job_run(&job->schedule, executor, options, flags->quiet, &job->timeline, error);
    if (status == STATUS_OK && job->timeline.outcome == TIMELINE_DOES_NOT_FIT && executor == &exec_sim) {
        status = run_with_memory_to_spare(job, options, flags->quiet, error);
    }
    return status;
}

enum status job_execute(struct job *job, const struct cli_flags *flags, const struct executor *executor,
                        const struct exec_options *options, struct error *error)
{
    struct exec_options all = options != NULL ? *options : (struct exec_options){ 0 };
    all.cluster = &job->scenario.cluster;
    all.software = &job->scenario.software;
    all.audit = true;
    all.costs = &job->costs;
    all.step_done = keep_step;
    all.step_context = job;
    TRY(execute(job, flags, executor, &all, error));
    if (job->step_count > 0) {
        job->measured = measured_steps(job->steps_s, job->step_count);
    }
    plan_words(&job->scenario.plan, &job->scenario.model, &job->plan_words);
    job->input = (struct result_input){
        .name = job->scenario.name,
        .schedule = &job->schedule,
        .timeline = &job->timeline,
        .cluster = &job->scenario.cluster,
        .software = &job->scenario.software,
        .costs = executor == &exec_sim ? &job->costs : NULL,
        .plan = job->plan_words.text,
        .precision = job->scenario.plan.precision,
        .does_not_fit = job->does_not_fit.length > 0 ? job->does_not_fit.text : NULL,
        .measured = job->step_count > 0 ? &job->measured : NULL,
        .is_elsewhere = job_is_elsewhere(executor, &job->scenario.machine),
        .remedies = &job->remedies,
    };
    return result_compute(&job->result, &job->input, error);
}

void job_print_refusal(const struct job *job, const char *executor, bool json, const struct error *refused,
                       struct strbuf *out)
{
    char text[ERROR_MESSAGE_BYTES + ERROR_FILE_BYTES + ERROR_PATH_BYTES];
    struct strbuf words = { 0 };
    plan_words(&job->scenario.plan, &job->scenario.model, &words);
    const struct refusal refusal = { .name = job->scenario.name,
                                     .executor = executor,
                                     .machine = job->scenario.machine.name,
                                     .policy = job->scenario.plan.policy,
                                     .reason = error_text(refused, text, sizeof text),
                                     .plan = words.text != NULL ? words.text : "",
                                     .gpus = job->scenario.cluster.gpus,
                                     .lack = job->facts.lack,
                                     .remedies = &job->remedies };
    if (json) {
        refusal_json(&refusal, out);
    } else {
        refusal_text(&refusal, out);
    }
    out->failed = out->failed || words.failed;
    strbuf_free(&words);
}

void job_free(struct job *job)
{
    result_free(&job->result);
    strbuf_free(&job->does_not_fit);
    strbuf_free(&job->plan_words);
    cost_table_free(&job->costs);
    timeline_free(&job->timeline);
    schedule_free(&job->schedule);
    scenario_free(&job->scenario);
}
