/* The one explicit list of planners. */
#include "strategies/planners/planner.h"
#include "strategies/planners/planners.h"

static const struct planner *const planners[] = {
    &planner_exhaustive,     &planner_max_batch,       &planner_galvatron_bmw, &planner_galvatron,
    &planner_galvatron_base, &planner_galvatron_biobj, &planner_pipedream,     &planner_dapple,
    &planner_hippie,         &planner_checkmate,       &planner_mpress,
};

const struct planner *const *planner_list(uint32_t *count)
{
    *count = sizeof planners / sizeof planners[0];
    return planners;
}
