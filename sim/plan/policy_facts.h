/* What a memory policy found out while it was lowered, for people: `memwall explain` prints it, nothing else reads it.
 *
 *     static struct policy_facts facts;
 *     request.facts = &facts;                       // NULL: nobody asks
 *     ... lower_schedule(&request, ...) ...         // the policy calls lower_fact (sim/plan/lower.h)
 *
 * Plain data, zeroed by the asker; of several ranks the first that tells a fact counts, and facts beyond the last place are dropped. */
#ifndef MEMWALL_PLAN_POLICY_FACTS_H
#define MEMWALL_PLAN_POLICY_FACTS_H

#include <stdint.h>

enum { POLICY_FACTS_MAX = 48 };

struct policy_fact {
    char name[64];
    double value;
    char unit[24];                   /* "bytes"; "" for none */
    char formula[192], numbers[160]; /* "" where it has none */
    char source[160];
};

struct policy_facts {
    struct policy_fact items[POLICY_FACTS_MAX];
    uint32_t count;
};

#endif
