/* Planner: searches for a plan; may run the simulator as an oracle (the third kind of strategy, DESIGN.md section 5).
 *
 * To add one: a file with a `const struct planner`, a line in registry.c of this folder, a test. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_PLANNER_H
#define MEMWALL_STRATEGIES_PLANNERS_PLANNER_H

#include <stdint.h>

enum { PLANNER_ABI = 1 };

struct planner;

/* In the order of `memwall list planners`. */
const struct planner *const *planner_list(uint32_t *count);

#endif
