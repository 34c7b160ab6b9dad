/* What a search for the largest found, as text and as JSON ("memwall.fit/1"). */
#ifndef MEMWALL_REPORT_FIT_REPORT_H
#define MEMWALL_REPORT_FIT_REPORT_H

#include "sim/report/fit_trial.h"

struct fit_report {
    bool batch;               /* the candidates are micro-batches of one model; else models */
    uint32_t candidates;      /* how many could have been tried; batch: not said */
    struct fit_trial *trials; /* by rising candidate */
    uint32_t trial_count;
    struct fit_outcome outcome;
};

/* The trial of a candidate, or NULL. */
const struct fit_trial *fit_report_trial(const struct fit_report *report, uint32_t candidate);

/* At most 110 columns wide, unless names are longer. At least one candidate was not refused. */
void fit_report_text(const struct fit_report *report, struct strbuf *out);
void fit_report_json(const struct fit_report *report, struct strbuf *out);

#endif
