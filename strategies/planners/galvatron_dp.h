/* The dynamic programme of one pipeline stage: a strategy for every layer so that the sum of times is least and the sum of memories fits (Galvatron-BMW, TKDE 2024).
 *
 * F[v][s]: least time of the layers so far when v MiB are allowed for them and the last one uses s. Memory is in whole MiB. Ties: the earlier strategy.
 * galvatron_dp drops strategies that cannot be part of an optimum and the budgets that no choice can reach; galvatron_dp_plain is the textbook form, its twin in the tests. Both give the same plan.
 * Cost: O(layers * reachable MiB * strategies^2); memory: one byte per layer, MiB and strategy that remain. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_GALVATRON_DP_H
#define MEMWALL_STRATEGIES_PLANNERS_GALVATRON_DP_H

#include <stdint.h>

#include "sim/base/status.h"

enum { GALVATRON_DP_NO_FIT_MIB = 1 << 28 }; /* memory of a strategy that never fits */

/* Borrowed. */
struct galvatron_dp {
    uint32_t layer_count, kind_count, strategy_count; /* strategies <= 128 */
    const uint32_t *kinds;                            /* [layer_count] */
    const uint32_t *mib;                              /* [kind][strategy] */
    const double *cost_s;                             /* [kind][strategy], >= 0 */
    const double *change_s;                           /* [kind of the later layer][from][to], >= 0 */
    int64_t budget_mib;                               /* < 0: nothing fits */
};

struct galvatron_dp_answer {
    double cost_s;    /* INFINITY: nothing fits */
    int64_t left_mib; /* budget - sum */
    uint8_t *choice;  /* [layer_count], the caller's */
};

/* STATUS_NO_MEMORY only. */
enum status galvatron_dp(const struct galvatron_dp *input, struct galvatron_dp_answer *answer, struct error *error);
enum status galvatron_dp_plain(const struct galvatron_dp *input, struct galvatron_dp_answer *answer,
                               struct error *error);
/* The least memory of all layers together, MiB: feasible iff it is within the budget. */
int64_t galvatron_dp_least_mib(const struct galvatron_dp *input);

#endif
