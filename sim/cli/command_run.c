/* memwall run: one training step of a scenario. */
#include <limits.h>
#include <stdio.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/cli/from_deepspeed.h"
#include "sim/cli/job.h"
#include "sim/cli/run_studies.h"
#include "sim/cli/run_texts.h"
#include "sim/report/files.h"

enum { DEFAULT_STEPS = 3 };

static enum exit_code run(int argc, char **argv);

const struct cli_command command_run = {
    .name = "run",
    .usage = "SCENARIO.json [flags] | --from-deepspeed ds_config.json --model NAME --machine NAME [flags]",
    .summary = "simulate or run one training step: time, memory, traffic, what binds",
    .help =
        "Reads a scenario, lowers it to a schedule, runs that, and prints what the step costs. With --executor\n"
        "host or cuda the very same schedule runs for real, on threads or GPUs of this computer, and the times\n"
        "are measured.\n"
        "With --from-deepspeed the scenario is made from a DeepSpeed configuration; standard error (in JSON,\n"
        "ignored_keys) lists its keys that have no effect.\n"
        "With --plan the plan of a file takes the place of the scenario's training, parallel, recompute,\n"
        "memory_policy and plan keys (--set on these changes the plan); a plan for another model or machine is\n"
        "refused.\n"
        "Memory efficiency is throughput for memory (Hippie's index); its ratio of two runs compares them: --json\n"
        "also has it by the mean and by the sum of the GPUs, memwall explain its formula.\n"
        "Studies, each added to the answer and to --json: --sensitivity (what binds: a row a resource, what twice\n"
        "of it is worth; and what fills memory), --critical-path, --uncertainty N, --mtbf-hours H (how often to\n"
        "write a checkpoint, and what failures leave of the time), --tokens N (money and energy: days, cost rented\n"
        "and owned, kWh, CO2; with --days D the machines that it takes to be done by then). Prices and power come\n"
        "from the machine (memwall list machines) or from flags; with --uncertainty the cost has an interval.\n"
        "  memwall run scenarios/megatron-22b-dgx-a100.json --tokens 300e9 --days 90 --electricity 0.12 --carbon 350\n"
        "With --out DIR it also writes, into DIR:\n"
        "  result.json         everything that --json prints\n"
        "  run.json            version, command, hashes, the scenario as it was run\n"
        "  explain.json        every term and constant with its source; memwall report DIR reads all of these\n"
        "  trace.json.gz       open it at https://ui.perfetto.dev (one process a rank, one row a queue)\n"
        "  ops.csv, memory.csv, links.csv, traffic.csv (links over time), stages.csv\n"
        "  timeline, memory, links as .svg and .png\n",
    .positional_min = 0,
    .positional_max = 1,
    .takes_scenario = true,
    .executor = "sim",
    .run = run,
};

/* What the figures do not say by themselves. */
static void tell_measured(const struct job *job, const struct exec_options *options, enum status status)
{
    if (status == STATUS_OK && options->check) {
        fputs("memwall: --check found no fault; it takes time of its own: the times of this run mean nothing\n",
              stderr);
    }
    if (status != STATUS_OK && job->step_count > 0) {
        struct measured_steps done = measured_steps(job->steps_s, job->step_count);
        char median[32], least[32], most[32];
        fprintf(stderr, "memwall: %u of %u steps were measured before that: median %s, %s to %s\n", done.count,
                options->steps, text_time_ps(ps_nearest_s(done.median_s), median, sizeof median),
                text_time_ps(ps_nearest_s(done.min_s), least, sizeof least),
                text_time_ps(ps_nearest_s(done.max_s), most, sizeof most));
    }
}

/* What the flags ask for, checked before anything takes time. */
static enum status prepare(struct job *job, struct cli_flags *flags, const struct executor_flags *texts,
                           const char *ranks, const struct executor **executor, struct exec_options *options,
                           struct error *error)
{
    if (flags->plan != NULL && flags->scenario != NULL) {
        return error_at(error, STATUS_BAD_INPUT, "--plan", NULL,
                        "goes with a scenario file, not with --from-deepspeed, which says the split itself");
    }
    TRY(executor_open(flags->executor, executor, error));
    TRY(executor_flags_read(texts, *executor, DEFAULT_STEPS, options, error));
    if (ranks != NULL && flags->out == NULL) {
        return error_at(error, STATUS_BAD_INPUT, "--trace-ranks", NULL,
                        "chooses what goes into a trace: it needs --out DIR");
    }
    options->record_rates = flags->out != NULL; /* the audit checks them too; nothing else looks at them */
    TRY(job_prepare(job, flags, *executor, error));
    return flags->out != NULL ? folder_make(flags->out, error) : STATUS_OK;
}

/* Everything that --json prints. */
static void print_json(const struct job *job, const struct deepspeed_input *deepspeed,
                       const struct run_studies *studies, struct strbuf *out)
{
    result_print_json(&job->result, &job->input, out);
    deepspeed_input_add_ignored(deepspeed, out);
    run_studies_add_json(studies, job, out);
}

/* Takes `texts` with the result in it. */
static enum status write_files(const struct job *job, const struct cli_flags *flags, struct files_options *files,
                               struct run_texts *texts, int argc, char **argv, struct error *error)
{
    enum status status = run_texts_make(texts, job, flags, argc, argv, error);
    files->folder = flags->out;
    run_texts_files(texts, files);
    if (status == STATUS_OK) {
        status = files_write(&job->result, &job->input, files, error);
    }
    run_texts_free(texts);
    return status;
}

/* A policy's refusal is a result: it is printed, and it is result.json of --out. */
static enum exit_code tell_refused(const struct job *job, const struct cli_flags *flags, const struct error *refused)
{
    char path[PATH_MAX];
    struct strbuf json = { 0 }, summary = { 0 };
    struct error error = { 0 };
    enum status status = STATUS_OK;
    job_print_refusal(job, flags->executor, true, refused, &json);
    job_print_refusal(job, flags->executor, false, refused, &summary);
    if (flags->out != NULL && !json.failed) {
        status = folder_make(flags->out, &error);
        if (status == STATUS_OK && snprintf(path, sizeof path, "%s/result.json", flags->out) >= (int)sizeof path) {
            status = error_set(&error, STATUS_IO, "--out: the path is too long");
        }
        status = status == STATUS_OK ? file_write(path, json.text, json.length, &error) : status;
    }
    enum exit_code code =
        status != STATUS_OK ? cli_complain(&error) : cli_print(flags->json ? &json : &summary, EXIT_DOES_NOT_FIT);
    strbuf_free(&json);
    strbuf_free(&summary);
    return code;
}

static enum exit_code run(int argc, char **argv)
{
    struct cli_flags flags;
    enum exit_code code;
    const char *ranks = NULL, *plan = NULL;
    struct executor_flags texts = { 0 };
    struct deepspeed_input deepspeed = { 0 };
    struct run_studies studies = { 0 };
    struct cli_flag more[2 + EXECUTOR_FLAG_COUNT + DEEPSPEED_FLAG_COUNT + STUDY_FLAG_COUNT] = {
        { "trace-ranks", "A,B-C", "only these ranks in the trace (default all)", &ranks }, CLI_PLAN_FLAG(&plan)
    };
    executor_flags_list(&texts, "host, cuda: how many steps to measure (default 3)", more + 2);
    deepspeed_input_flags(&deepspeed, more + 2 + EXECUTOR_FLAG_COUNT);
    run_studies_flags(&studies, more + 2 + EXECUTOR_FLAG_COUNT + DEEPSPEED_FLAG_COUNT);
    if (!cli_parse(&command_run, argc, argv, &flags, more,
                   2 + EXECUTOR_FLAG_COUNT + DEEPSPEED_FLAG_COUNT + STUDY_FLAG_COUNT, &code)) {
        return code;
    }
    flags.plan = plan;
    char note[256] = "";
    struct job job = { 0 };
    struct error error = { 0 };
    const struct executor *executor = NULL;
    struct exec_options options = { 0 };
    enum status status = deepspeed_input_read(&deepspeed, &flags, &error);
    if (status == STATUS_OK) {
        status = prepare(&job, &flags, &texts, ranks, &executor, &options, &error);
    }
    if (status == STATUS_OK) {
        status = run_studies_read(&studies, executor, &error);
    }
    if (status == STATUS_OK) {
        status = job_execute(&job, &flags, executor, &options, &error);
        tell_measured(&job, &options, status);
    }
    if (status == STATUS_OK) {
        status = run_studies_compute(&studies, &job, flags.quiet, &error);
    }
    status = job_find_remedies(&job, &flags, status, &error);
    enum status written = STATUS_OK;
    if (status == STATUS_OK && flags.out != NULL) {
        struct files_options files = { .ranks = ranks, .note = note, .note_bytes = sizeof note };
        struct run_texts record = { 0 };
        print_json(&job, &deepspeed, &studies, &record.result);
        written = write_files(&job, &flags, &files, &record, argc, argv, &error);
        status = written == STATUS_BAD_INPUT ? written : STATUS_OK; /* on a full disk, what was measured is told */
    }
    if (note[0] != '\0') {
        fprintf(stderr, "memwall: %s\n", note);
    }
    if (job.refused) {
        code = tell_refused(&job, &flags, &error);
    } else if (status != STATUS_OK) {
        code = cli_complain(&error);
    } else {
        struct strbuf out = { 0 };
        code = written != STATUS_OK ? cli_complain(&error) : job.result.fits ? EXIT_DONE : EXIT_DOES_NOT_FIT;
        if (flags.json) {
            print_json(&job, &deepspeed, &studies, &out);
        } else {
            result_print_summary(&job.result, &job.input, &out);
            run_studies_add_text(&studies, &job, &out);
            if (flags.out != NULL && written == STATUS_OK) {
                strbuf_printf(&out, "\nWritten to %s: result.json, trace.json.gz, CSV files, plots\n", flags.out);
            }
        }
        code = cli_print(&out, code);
    }
    run_studies_free(&studies);
    job_free(&job);
    deepspeed_input_free(&deepspeed);
    return code;
}
