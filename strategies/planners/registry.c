/* The one explicit list of planners; those added at start-up stand behind them. Zero ends it. */
#include "sim/base/check.h"
#include "strategies/planners/planner.h"
#include "strategies/planners/planners.h"

enum { BUILT_IN_MAX = 24, ROOM = BUILT_IN_MAX + PLANNERS_ADDED_MAX + 1 };

static const struct planner *planners[ROOM] = {
    &planner_exhaustive,     &planner_max_batch,       &planner_galvatron_bmw, &planner_galvatron,
    &planner_galvatron_base, &planner_galvatron_biobj, &planner_pipedream,     &planner_dapple,
    &planner_hippie,         &planner_checkmate,       &planner_mpress,
};

const struct planner *const *planner_list(uint32_t *count)
{
    for (*count = 0; planners[*count] != NULL; (*count)++) {
    }
    return planners;
}

bool planner_has_room(uint32_t more)
{
    uint32_t count;
    (void)planner_list(&count);
    return more <= PLANNERS_ADDED_MAX && count + more < ROOM;
}

void planner_add(const struct planner *planner)
{
    uint32_t count;
    (void)planner_list(&count);
    CHECK(count + 1 < ROOM);
    planners[count] = planner;
}
