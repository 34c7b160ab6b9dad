/* What is kept of a run for reports (sim/report/html/step_source.h): the result with its studies, who made it and how, every term with its source. */
#ifndef MEMWALL_CLI_RUN_TEXTS_H
#define MEMWALL_CLI_RUN_TEXTS_H

#include "sim/cli/job.h"
#include "sim/report/files.h"

struct run_texts {
    struct strbuf result, run, explain; /* explain stays empty where nothing was simulated */
};

/* After job_execute; the caller has printed `result`, whole, as --json shows it. argv[0] is the command's name. Free it also on error. */
enum status run_texts_make(struct run_texts *texts, const struct job *job, const struct cli_flags *flags, int argc,
                           char *const *argv, struct error *error);
/* For files_write; borrows. */
void run_texts_files(const struct run_texts *texts, struct files_options *files);
void run_texts_free(struct run_texts *texts);

#endif
