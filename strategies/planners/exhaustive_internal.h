/* Between exhaustive.c, which searches, and exhaustive_answer.c, which says what was found. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_EXHAUSTIVE_INTERNAL_H
#define MEMWALL_STRATEGIES_PLANNERS_EXHAUSTIVE_INTERNAL_H

#include "strategies/planners/exhaustive_space.h"
#include "strategies/planners/planner.h"

/* A candidate that has been simulated. */
struct trial {
    uint32_t candidate;
    struct plan *plan;
    struct oracle_result result;
};

struct search {
    const struct planner_request *request;
    struct planner_answer *answer;
    struct oracle *oracle;
    struct space space;
    uint32_t *by_time, *by_bytes; /* candidates by rising step time, by rising peak */
    struct {
        struct trial *items;
        size_t count, capacity;
    } trials;           /* by rising simulated step time once sorted */
    uint32_t *trial_of; /* [space.count]: index + 1 */
    const char *doing;
    double best_samples_per_s;
};

/* From trials that are in the order of their simulated step times. */
enum status exhaustive_fill_result(struct search *s, struct planner_result *result, struct error *error);

#endif
