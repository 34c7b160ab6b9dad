/* A job: a scenario taken all the way to a timeline. Shared by the commands that simulate. */
#ifndef MEMWALL_CLI_JOB_H
#define MEMWALL_CLI_JOB_H

#include "sim/cli/cli.h"
#include "sim/exec.h"
#include "sim/plan/scenario.h"
#include "sim/report/result.h"

struct job {
    struct scenario scenario;
    struct schedule schedule;
    struct timeline timeline;
    struct strbuf
        does_not_fit; /* the reason, when the step does not fit; the timeline is then that of memory to spare */
    struct result result;
    struct result_input input; /* for the printers: borrows from the above */
};

/* Each step needs the one before. On error the job is left so that job_free works. */
enum status job_load(struct job *job, const struct cli_flags *flags, struct error *error);
enum status job_lower(struct job *job, struct error *error);
enum status job_execute(struct job *job, const struct cli_flags *flags, struct error *error);
void job_free(struct job *job);

#endif
