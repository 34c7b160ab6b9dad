/* What a memory policy found out while it was lowered, for people: `memwall explain` prints it, `memwall fit` what is lacking.
 *
 *     static struct policy_facts facts;
 *     request.facts = &facts;                       // NULL: nobody asks
 *     ... lower_schedule(&request, ...) ...         // the policy calls lower_fact (sim/plan/lower.h)
 *
 * Plain data, zeroed by the asker; of several ranks the first that tells a fact counts, and facts beyond the last place are dropped. */
#ifndef MEMWALL_PLAN_POLICY_FACTS_H
#define MEMWALL_PLAN_POLICY_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/ir/schedule.h"

enum { POLICY_FACTS_MAX = 48 };

struct policy_fact {
    char name[64];
    double value;
    char unit[24];                   /* "bytes"; "" for none */
    char formula[192], numbers[160]; /* "" where it has none */
    char source[160];
};

/* Of a policy that refuses with STATUS_DOES_NOT_FIT: what it counted. */
struct policy_lack {
    bool present;
    enum space_kind kind;
    double needed_bytes, has_bytes;
    char what[64]; /* "host memory for a rank's chunks" */
};

struct policy_facts {
    struct policy_fact items[POLICY_FACTS_MAX];
    uint32_t count;
    struct policy_lack lack;
    char would_do[96]; /* beside a lack: the set of the scenario with which it would not be refused, or "" */
};

#endif
