/* The planners of this folder, for its registry. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_PLANNERS_H
#define MEMWALL_STRATEGIES_PLANNERS_PLANNERS_H

#include "strategies/planners/planner.h"

extern const struct planner planner_exhaustive, planner_max_batch, planner_galvatron_bmw, planner_galvatron,
    planner_galvatron_base, planner_galvatron_biobj;
extern const struct planner planner_pipedream, planner_dapple, planner_hippie, planner_checkmate, planner_mpress;

#endif
