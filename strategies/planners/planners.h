/* The planners of this folder, for its registry. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_PLANNERS_H
#define MEMWALL_STRATEGIES_PLANNERS_PLANNERS_H

#include "strategies/planners/planner.h"

extern const struct planner planner_exhaustive, planner_max_batch, planner_galvatron_bmw, planner_galvatron,
    planner_galvatron_base, planner_galvatron_biobj;
extern const struct planner planner_pipedream, planner_dapple, planner_hippie, planner_checkmate, planner_mpress;

/* For plug-ins (strategies/plugin/plugin_add.h), at start-up, before a second thread runs: whether so many more can be added, and adding one that was checked. */
enum { PLANNERS_ADDED_MAX = 32 };
bool planner_has_room(uint32_t more);
void planner_add(const struct planner *planner);

#endif
