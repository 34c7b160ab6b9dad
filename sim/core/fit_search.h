/* The largest that fits: bisection over an oracle that knows, of one candidate, whether it fits. Pure: no scenario, no simulator (sim/report/fit_trial.h and strategies/planners/oracle.h are oracles that simulate).
 *
 * Candidates are 0 .. count-1 in rising order of what they need; what fits is taken to be monotone: where one fits, all below do.
 *   list      the ends first. Both fit: the last is the answer. The first fits and the last does not: bisection, O(log count) trials. The first does not fit: all are tried, for either
 *             nothing fits or what fits is not monotone.
 *   gallop    0, 1, 3, 7, ... until one does not fit, then bisection: for ranges without a known end (batches).
 * A candidate may be refused (its model's heads do not divide ...): it says nothing of the others and is passed over. Only in a gallop it ends the range.
 *
 *     struct fit_search search = { .count = 17, .oracle = try_model, .context = &trials };
 *     TRY(fit_search_run(&search, &outcome, error));
 *     if (outcome.any) ... outcome.largest ... */
#ifndef MEMWALL_CORE_FIT_SEARCH_H
#define MEMWALL_CORE_FIT_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/status.h"

enum fit_verdict { FIT_UNTRIED, FIT_FITS, FIT_TOO_BIG, FIT_REFUSED };

const char *fit_verdict_word(enum fit_verdict verdict);

/* An error other than STATUS_OK ends the search: what concerns one candidate alone is FIT_REFUSED. Asked once of each candidate. */
typedef enum status fit_oracle(void *context, uint32_t candidate, enum fit_verdict *verdict, struct error *error);

enum { FIT_CANDIDATES_MAX = 1 << 20 };

struct fit_search {
    uint32_t count; /* 1 .. FIT_CANDIDATES_MAX */
    bool gallop;
    bool all; /* lists: try every candidate */
    fit_oracle *oracle;
    void *context;
};

struct fit_outcome {
    bool any; /* one fits: `largest` holds */
    /* One above `largest` (or, when none fits, any at all) does not fit: `next` holds, the smallest such that was tried. */
    bool has_next;
    bool not_monotone; /* one below `largest` does not fit */
    bool all_refused;  /* none could be tried */
    uint32_t largest, next;
    uint32_t trials;
};

enum status fit_search_run(const struct fit_search *search, struct fit_outcome *outcome, struct error *error);

#endif
