/* Between the galvatron_planner_*.c files: a scenario's profile for the presets, plans from what the search found. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_GALVATRON_PLANNER_INTERNAL_H
#define MEMWALL_STRATEGIES_PLANNERS_GALVATRON_PLANNER_INTERNAL_H

#include "strategies/planners/galvatron_planner_costs.h"
#include "strategies/planners/galvatron_search.h"
#include "strategies/planners/planner.h"

/* What Galvatron's profiler would have measured on the scenario, from its model graph and machine: for the presets v1, g2 and head where no table of the authors exists. Activations are those of the
 * scenario's software, times those of micro-batches of 8, links those of a 64 MiB all-reduce. STATUS_BAD_INPUT: GPUs that are not a power of two. */
enum status galvatron_profile_of_scenario(const struct scenario *scenario, struct galvatron_model_profile *model,
                                          struct galvatron_hardware_profile *hardware, struct error *error);

/* The plan that the lowering takes for what was found; plain data parallelism becomes ZeRO stage `plain_zero`. *possible false: it has something that a plan cannot say, and `why` says what. Arrays in `arena`; passes plan_check. */
enum status galvatron_to_plan(const struct scenario *scenario, const struct galvatron_plan *found, int64_t plain_zero,
                              struct plan *plan, bool *possible, char *why, size_t why_size, struct arena *arena,
                              struct error *error);

#endif
