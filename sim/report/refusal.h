/* A step that a memory policy refuses as too large before there is a schedule: a result without figures, which says what the policy counted. The JSON document is a
 * "memwall.result/1" with fits false: what could not be told is null or an empty list, and `full` is as in "memwall.fit/1". */
#ifndef MEMWALL_REPORT_REFUSAL_H
#define MEMWALL_REPORT_REFUSAL_H

#include "sim/base/strbuf.h"
#include "sim/plan/policy_facts.h"
#include "sim/report/remedy.h"

struct refusal {
    const char *name;     /* of the scenario */
    const char *executor; /* that was asked for */
    const char *machine, *policy, *reason;
    const char *plan; /* in words (sim/plan/plan_words.h) */
    uint32_t gpus;
    struct policy_lack lack;
    const struct remedies *remedies; /* what would do, or NULL */
};

void refusal_json(const struct refusal *refusal, struct strbuf *out);
void refusal_text(const struct refusal *refusal, struct strbuf *out);

#endif
