/* A job: a scenario taken all the way to a timeline. Shared by the commands that simulate and run. */
#ifndef MEMWALL_CLI_JOB_H
#define MEMWALL_CLI_JOB_H

#include "sim/cli/cli.h"
#include "sim/cli/executors.h"
#include "sim/engine/cost_table.h"
#include "sim/exec.h"
#include "sim/plan/policy_facts.h"
#include "sim/plan/scenario.h"
#include "sim/report/remedy.h"
#include "sim/report/result.h"

struct job {
    struct scenario scenario;
    struct schedule schedule;
    struct policy_facts facts; /* of the lowering, for explain */
    bool refused;              /* the memory policy said STATUS_DOES_NOT_FIT: there is no schedule */
    struct remedies remedies;  /* of what does not fit, once job_find_remedies has looked */
    struct timeline timeline;
    struct cost_table costs; /* of the simulation; empty with other executors */
    struct strbuf
        does_not_fit;         /* the reason, when the step does not fit; the timeline is then that of memory to spare */
    struct strbuf plan_words; /* how the model is split, in one sentence */
    double steps_s[EXECUTOR_STEPS_MAX]; /* measured steps, as they ran */
    uint32_t step_count;
    struct measured_steps measured;
    struct result result;
    struct result_input input; /* for the printers: borrows from the above */
};

/* Each step needs the one before. On error the job is left so that job_free works. */
enum status job_load(struct job *job, const struct cli_flags *flags, struct error *error);
enum status job_lower(struct job *job, struct error *error);
/* Whether the scenario can be read once more: not standard input, not a pipe. */
bool job_can_load_again(const struct cli_flags *flags);
/* Of a job that was refused or did not fit in the simulator: what would do (sim/report/remedy.h); printed with the result. Nothing where it fits or cannot be read once more.
 * `status` and `error`: of the job so far; returned as they are, unless the search fails. */
enum status job_find_remedies(struct job *job, struct cli_flags *flags, enum status status, struct error *error);
/* Load and lower for `executor`. Real executors have no phantoms: the schedule is then built without folding, and standard error says so where that matters. */
enum status job_prepare(struct job *job, struct cli_flags *flags, const struct executor *executor, struct error *error);
/* `options`: record_rates and the fields of real executors, or NULL for the defaults. A real executor's run may be interrupted (STATUS_EXECUTION); steps_s then has what was measured. */
enum status job_execute(struct job *job, const struct cli_flags *flags, const struct executor *executor,
                        const struct exec_options *options, struct error *error);
/* The least of it, for commands that look at timelines themselves: progress on standard error, interrupts, failures told apart from input. `options` as exec.h has them, without progress. */
enum status job_run(const struct schedule *schedule, const struct executor *executor, struct exec_options *options,
                    bool quiet, struct timeline *timeline, struct error *error);
/* A policy's refusal (job->refused) is an answer: as one JSON document or as text, with the reason that `refused` has. */
void job_print_refusal(const struct job *job, const char *executor, bool json, const struct error *refused,
                       struct strbuf *out);
/* Whether `executor` runs on another computer than the machine described: host threads, and the machine is none of threads. */
bool job_is_elsewhere(const struct executor *executor, const struct machine *machine);
void job_free(struct job *job);

#endif
