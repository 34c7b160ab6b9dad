/* Studies around one step, for `memwall run`: what binds (--sensitivity), the critical path, failures, uncertainty, money (run_money.h). All of them simulate.
 *
 * To add one: what it computes is a header of sim/report (failures.h is a small one, with its text and JSON); here a flag, and a branch each in read, compute, add_json and add_text. memwall report
 * then shows its JSON (sim/report/html/step_facts.h) once its key is named there. */
#ifndef MEMWALL_CLI_RUN_STUDIES_H
#define MEMWALL_CLI_RUN_STUDIES_H

#include "sim/cli/job.h"
#include "sim/cli/run_money.h"
#include "sim/report/critical_path.h"
#include "sim/report/failures.h"
#include "sim/report/sensitivity.h"
#include "sim/report/uncertainty.h"

enum { STUDY_FLAG_COUNT = 7 + MONEY_FLAG_COUNT };

struct run_studies {
    const char *sensitivity, *critical_path, *uncertainty, *mtbf, *storage, *checkpoint,
        *restart; /* texts of flags, or NULL */
    /* what run_studies_compute found */
    bool has_sensitivity, has_critical_path, has_uncertainty, has_failures;
    struct sensitivity bound_by;
    struct critical_path path;
    struct uncertainty sure;
    struct failures failing;
    uint32_t draws;
    struct failures_input failure_input;
    struct run_money money;
};

void run_studies_flags(struct run_studies *studies, struct cli_flag flags[STUDY_FLAG_COUNT]);
/* Checks the texts before anything takes time. STATUS_BAD_INPUT names the flag. */
enum status run_studies_read(struct run_studies *studies, const struct executor *executor, struct error *error);
/* After job_execute. A step that did not end has no studies; standard error says so. */
enum status run_studies_compute(struct run_studies *studies, const struct job *job, bool quiet, struct error *error);
/* Into the finished JSON document of the result (members at its end), or behind its summary. */
void run_studies_add_json(const struct run_studies *studies, const struct job *job, struct strbuf *out);
void run_studies_add_text(const struct run_studies *studies, const struct job *job, struct strbuf *out);
bool run_studies_any(const struct run_studies *studies);
void run_studies_free(struct run_studies *studies);

#endif
