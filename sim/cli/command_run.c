/* memwall run: one training step of a scenario. */
#include <stdio.h>

#include "sim/base/file.h"
#include "sim/cli/cli.h"
#include "sim/cli/job.h"
#include "sim/report/files.h"

static enum exit_code run(int argc, char **argv);

const struct cli_command command_run = {
    .name = "run",
    .usage = "SCENARIO.json [flags]",
    .summary = "simulate one training step: time, memory, traffic, what binds",
    .help = "Reads a scenario, lowers it to a schedule, runs that, and prints what the step costs.\n"
            "With --out DIR it also writes, into DIR:\n"
            "  result.json         everything that --json prints\n"
            "  trace.json.gz       open it at https://ui.perfetto.dev (one process a rank, one row a queue)\n"
            "  ops.csv, memory.csv, links.csv\n"
            "  timeline, memory, links as .svg and .png\n",
    .positional_min = 1,
    .positional_max = 1,
    .takes_scenario = true,
    .run = run,
};

static enum exit_code run(int argc, char **argv)
{
    struct cli_flags flags;
    enum exit_code code;
    const char *ranks = NULL;
    const struct cli_flag more[] = { { "trace-ranks", "A,B-C", "only these ranks in the trace (default all)",
                                       &ranks } };
    if (!cli_parse(&command_run, argc, argv, &flags, more, 1, &code)) {
        return code;
    }
    char note[256] = "";
    struct job job = { 0 };
    struct error error = { 0 };
    enum status status = STATUS_OK;
    if (ranks != NULL && flags.out == NULL) {
        status = error_at(&error, STATUS_BAD_INPUT, "--trace-ranks", NULL,
                          "chooses what goes into a trace: it needs --out DIR");
    }
    if (status == STATUS_OK) {
        status = job_load(&job, &flags, &error);
    }
    if (status == STATUS_OK) {
        status = job_lower(&job, &error);
    }
    if (status == STATUS_OK && flags.out != NULL) {
        status = folder_make(flags.out, &error); /* before minutes of simulation */
    }
    if (status == STATUS_OK) {
        status = job_execute(&job, &flags, &error);
    }
    if (status == STATUS_OK && flags.out != NULL) {
        struct files_options options = { .folder = flags.out, .ranks = ranks, .note = note, .note_bytes = sizeof note };
        status = files_write(&job.result, &job.input, &options, &error);
    }
    if (note[0] != '\0') {
        fprintf(stderr, "memwall: %s\n", note);
    }
    if (status != STATUS_OK) {
        code = cli_complain(&error);
    } else {
        struct strbuf out = { 0 };
        if (flags.json) {
            result_print_json(&job.result, &job.input, &out);
        } else {
            result_print_summary(&job.result, &job.input, &out);
            if (flags.out != NULL) {
                strbuf_printf(&out, "\nWritten to %s: result.json, trace.json.gz, CSV files, plots\n", flags.out);
            }
        }
        code = cli_print(&out, job.result.fits ? EXIT_DONE : EXIT_DOES_NOT_FIT);
    }
    job_free(&job);
    return code;
}
