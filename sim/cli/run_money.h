/* Money and energy for `memwall run`: --tokens or --days, prices and terms, what a deadline needs, and how sure the cost is. */
#ifndef MEMWALL_CLI_RUN_MONEY_H
#define MEMWALL_CLI_RUN_MONEY_H

#include "sim/cli/job.h"
#include "sim/report/failures.h"
#include "sim/report/money.h"
#include "sim/report/scale_out.h"
#include "sim/report/uncertainty.h"

enum { MONEY_FLAG_COUNT = 10 };

struct run_money {
    const char *texts[MONEY_LIMIT_COUNT]; /* of flags, or NULL */
    double values[MONEY_LIMIT_COUNT];     /* read; 0 where a flag is absent */
    /* what run_money_compute found */
    bool has_money, has_deadline, has_scale, has_interval;
    struct money money;
    struct money low, high;   /* at the 5th and the 95th percentile of the step time */
    struct scale_out scale;   /* when the deadline is missed */
    struct money grown, kept; /* of its options that were simulated */
};

void run_money_flags(struct run_money *money, struct cli_flag flags[MONEY_FLAG_COUNT]);
bool run_money_any(const struct run_money *money);
/* Checks the texts before anything takes time. */
enum status run_money_read(struct run_money *money, struct error *error);
/* After the other studies: `failing` and `sure` may be NULL. STATUS_BAD_INPUT when no way of paying is known, or one was asked for whose prices are missing. */
enum status run_money_compute(struct run_money *money, const struct job *job, const struct failures *failing,
                              const struct uncertainty *sure, struct error *error);
void run_money_json(const struct run_money *money, struct json_writer *w);
void run_money_text(const struct run_money *money, struct strbuf *out);

#endif
