/* memwall validate: the same schedule simulated and run, and how far they are apart. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/json_write.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/cli/job.h"
#include "validate/agreement.h"
#include "validate/agreement_files.h"

static enum exit_code run(int argc, char **argv);

const struct cli_command command_validate = {
    .name = "validate",
    .usage = "SCENARIO.json [--executor host|cuda] [flags]",
    .summary = "simulate a step, run it for real, and tell how far they are apart",
    .help =
        "Builds one schedule, simulates it, runs the very same bytes on threads or GPUs of this computer, and\n"
        "compares: the step, each op, the peak of every memory space. Medians over the steps count, and the error\n"
        "stands beside what repeating the measurement changes. Of a schedule that holds several steps (an order that\n"
        "is never flushed fills up first) the settled one counts. The simulation takes the machine of the scenario:\n"
        "give the one that `memwall calibrate` wrote here (--set machine=here.json). Nothing of a framework's host\n"
        "time is simulated: there is none in the run. Beside the peaks stands what any timing of this schedule could\n"
        "give: two peaks that differ within it tell of a race, one outside of it of a fault.\n"
        "With --out DIR it writes validation.json, ops.csv, agreement.svg and .png, trace.simulated.json.gz and\n"
        "trace.measured.json.gz; ops.csv and the traces hold all steps of the schedule, the column counted of ops.csv\n"
        "is 1 for ops of the settled one. --executor sim compares the simulator with itself.\n"
        "Exit: 0 compared, whatever the error, and peaks that differ by a race; 2 the step does not fit; 3 failed, a\n"
        "measured peak that no timing gives (the comparison is printed all the same), or a step's error above "
        "--limit.\n",
    .positional_min = 1,
    .positional_max = 1,
    .takes_scenario = true,
    .executor = "host",
    .run = run,
};

enum { DEFAULT_STEPS = 9 };

struct validation {
    struct cli_flags flags;
    struct executor_flags texts;
    const char *limit;
    double limit_percent;
    const struct executor *executor;
    struct exec_options options;
    struct job job; /* its timeline is the measured one */
    struct software software;
    struct timeline simulated;
    struct agreement_collector *collector;
    enum status step_status;
    struct error error;
    struct agreement agreement;
    char notes[512];
};

/* A line a step; on a terminal it takes the place of the progress. */
static bool take_step(void *context, uint32_t step, const struct timeline *timeline)
{
    struct validation *v = context;
    char text[32];
    if (timeline->outcome != TIMELINE_DONE) {
        return false; /* run() returns it */
    }
    const struct step_window window = timeline_step(&v->job.schedule, timeline);
    v->step_status = agreement_step(v->collector, timeline, &v->error);
    if (v->step_status == STATUS_OK && !v->flags.quiet) {
        fprintf(stderr, "%sstep %u of %u: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", step + 1, v->options.steps,
                text_time_ps(window.to_ps - window.from_ps, text, sizeof text));
    }
    return v->step_status == STATUS_OK;
}

static enum status simulate(struct validation *v, struct error *error)
{
    v->software = v->job.scenario.software;
    agreement_software(&v->job.scenario.machine, &v->software);
    struct exec_options options = { .cluster = &v->job.scenario.cluster, .software = &v->software, .audit = true };
    return job_run(&v->job.schedule, &exec_sim, &options, v->flags.quiet, &v->simulated, error);
}

/* Sets v->job.timeline. An interrupted run that measured steps has an error, and the collector its steps. */
static enum status measure(struct validation *v, struct error *error)
{
    bool measures = (v->executor->capabilities & EXECUTOR_MEASURES) != 0;
    v->options.cluster = &v->job.scenario.cluster;
    v->options.software = &v->software;
    v->options.audit = true;
    v->options.step_done = measures ? take_step : NULL;
    v->options.step_context = v;
    TRY(job_run(&v->job.schedule, v->executor, &v->options, v->flags.quiet, &v->job.timeline, error));
    TRY(v->step_status);
    if (v->job.timeline.outcome == TIMELINE_DONE && !measures) {
        return agreement_step(v->collector, &v->job.timeline, error);
    }
    return STATUS_OK;
}

static void take_notes(struct validation *v)
{
    const struct machine *machine = &v->job.scenario.machine;
    if (job_is_elsewhere(v->executor, machine)) {
        snprintf(v->notes, sizeof v->notes,
                 "Note: machine %s is not on_host: the simulated time is that machine's, the measured one this "
                 "computer's.\nTo compare like with like: memwall calibrate --executor host --out here.json, then "
                 "--set machine=here.json",
                 machine->name);
    } else if (v->executor == &exec_sim) {
        snprintf(v->notes, sizeof v->notes, "Note: a self-check, the simulator against itself");
    }
}

static enum status prepare(struct validation *v, struct error *error)
{
    struct cli_flags *flags = &v->flags;
    if (v->texts.check != NULL) {
        return error_at(error, STATUS_BAD_INPUT, "--check", NULL,
                        "verifies data and takes time of its own: such times cannot be compared. memwall run has it");
    }
    TRY(executor_open(flags->executor, &v->executor, error));
    TRY(executor_flags_read(&v->texts, v->executor, DEFAULT_STEPS, &v->options, error));
    flags->no_fold = flags->no_fold || v->executor == &exec_sim; /* a self-check runs what would be measured */
    TRY(job_prepare(&v->job, flags, v->executor, error));
    if (flags->out != NULL) {
        TRY(folder_make(flags->out, error));
    }
    take_notes(v);
    return agreement_begin(&v->collector, &v->job.schedule, error);
}

/* The answer for a step that did not end in one of the two. */
static enum exit_code answer_unfit(const struct validation *v, const struct timeline *timeline)
{
    struct strbuf out = { 0 }, why = { 0 };
    char hash[HASH_TEXT_BYTES];
    timeline_explain(&v->job.schedule, timeline, &why);
    const char *reason = why.text != NULL ? why.text : "did not end";
    bool fits = timeline->outcome != TIMELINE_DOES_NOT_FIT;
    if (v->flags.json) {
        struct json_writer w = { .out = &out };
        jw_object(&w, NULL);
        jw_string(&w, "schema", "memwall.validation/1");
        jw_string(&w, "schedule_hash", hash_text(&timeline->schedule_hash, hash));
        jw_string(&w, "executor", timeline->executor);
        jw_bool(&w, "emulated", timeline->emulated);
        jw_bool(&w, "fits", fits);
        jw_string(&w, "reason", reason);
        jw_end(&w);
        strbuf_char(&out, '\n');
    } else {
        strbuf_printf(&out, "Not compared: in the %s executor the step %s", timeline->executor, reason);
        strbuf_append(&out, reason[0] != '\0' && reason[strlen(reason) - 1] == '\n' ? "" : "\n");
    }
    out.failed = out.failed || why.failed;
    strbuf_free(&why);
    return cli_answer(&v->flags, "validation", &out, fits ? EXIT_FAILED : EXIT_DOES_NOT_FIT);
}

static enum status write_files(const struct validation *v, char *note, size_t note_bytes, struct error *error)
{
    const struct result_input simulated = {
        .name = v->job.scenario.name,
        .schedule = &v->job.schedule,
        .timeline = &v->simulated,
        .cluster = &v->job.scenario.cluster,
        .software = &v->software,
        .precision = v->job.scenario.plan.precision,
    };
    const struct agreement_files files = {
        .folder = v->flags.out,
        .agreement = &v->agreement,
        .simulated = &simulated,
        .measured = v->job.timeline.op_count > 0 ? &v->job.timeline : NULL,
        .notes = v->notes,
        .note = note,
        .note_bytes = note_bytes,
    };
    return agreement_files_write(&files, error);
}

/* The comparison, also of an interrupted run: `code` is what the run was. */
static enum exit_code answer(struct validation *v, enum exit_code code, struct error *error)
{
    struct strbuf out = { 0 };
    struct agreement_collector *collector = v->collector;
    char note[256] = "";
    v->collector = NULL; /* agreement_finish frees it */
    if (agreement_finish(collector, &v->simulated, AGREEMENT_FLOOR_S, &v->agreement, error) != STATUS_OK) {
        return cli_complain(error);
    }
    bool to_files = v->flags.out != NULL;
    if (to_files && write_files(v, note, sizeof note, error) != STATUS_OK) {
        to_files = false; /* what was measured is told all the same */
        (void)cli_complain(error);
        code = EXIT_FAILED;
    }
    if (note[0] != '\0') {
        fprintf(stderr, "memwall: %s\n", note);
    }
    uint32_t impossible = agreement_impossible(&v->agreement);
    if (impossible > 0) {
        fprintf(stderr,
                "memwall: measured peaks of %u of %u spaces are such as no timing of this schedule gives: a "
                "fault of executor %s\n",
                impossible, v->agreement.space_count, v->agreement.executor);
        code = EXIT_FAILED;
    }
    double percent = 100 * v->agreement.step_error;
    if (v->limit != NULL && percent > v->limit_percent) {
        fprintf(stderr, "memwall: the step's error of %.2f %% is above --limit %g %%\n", percent, v->limit_percent);
        code = EXIT_FAILED;
    }
    if (v->flags.json) {
        agreement_print_json(&v->agreement, &v->job.schedule, v->notes, &out);
    } else {
        agreement_print(&v->agreement, &v->job.schedule, v->notes, &out);
        if (to_files) {
            strbuf_printf(&out, "\nWritten to %s: validation.json, ops.csv, agreement.svg, agreement.png, traces\n",
                          v->flags.out);
        }
    }
    return cli_print(&out, code);
}

static enum exit_code validate(struct validation *v)
{
    struct error *error = &v->error;
    enum status status = prepare(v, error);
    if (status == STATUS_OK) {
        status = simulate(v, error);
    }
    if (status == STATUS_OK && v->simulated.outcome != TIMELINE_DONE) {
        return answer_unfit(v, &v->simulated);
    }
    if (status == STATUS_OK) {
        status = measure(v, error);
        if (status != STATUS_OK && agreement_step_count(v->collector) > 0) {
            enum exit_code code = cli_complain(error);
            fprintf(stderr, "memwall: what follows is of the %u steps measured before that\n",
                    agreement_step_count(v->collector));
            timeline_free(&v->job.timeline);
            return answer(v, code, error);
        }
    }
    if (status != STATUS_OK) {
        return cli_complain(error);
    }
    if (v->job.timeline.outcome != TIMELINE_DONE) {
        return answer_unfit(v, &v->job.timeline);
    }
    return answer(v, EXIT_DONE, error);
}

static enum exit_code run(int argc, char **argv)
{
    struct validation v = { 0 };
    enum exit_code code;
    struct cli_flag more[1 + EXECUTOR_FLAG_COUNT] = { { "limit", "PERCENT", "exit 3 when the step's error is above",
                                                        &v.limit } };
    executor_flags_list(&v.texts, "host, cuda: how many steps to measure (default 9)", more + 1);
    if (cli_parse(&command_validate, argc, argv, &v.flags, more, 1 + EXECUTOR_FLAG_COUNT, &code)) {
        bool fine = v.limit == NULL || cli_number("limit", v.limit, 0, 1e6, &v.limit_percent);
        code = fine ? validate(&v) : EXIT_BAD_INPUT;
    }
    agreement_abandon(v.collector);
    agreement_free(&v.agreement);
    timeline_free(&v.simulated);
    job_free(&v.job);
    return code;
}
