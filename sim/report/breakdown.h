/* The time breakdown of one rank: see result.h for the classes and rules. */
#ifndef MEMWALL_REPORT_BREAKDOWN_H
#define MEMWALL_REPORT_BREAKDOWN_H

#include "sim/engine/cost_table.h"
#include "sim/report/result.h"

enum time_class op_time_class(const struct sched_op *op);

/* Fills `times` for the rank's ops within the step (timeline_step) that `window` is; exposed_s sums to its length. Needs a timeline that is DONE. With the `costs` of the simulation the inside of an op is told
 * apart too: collectives merged into a sequence of kernels, and waiting for launches within it; NULL for real executors. */
void breakdown_rank(struct stage_times *times, const struct schedule *schedule, const struct timeline *timeline,
                    const struct cost_table *costs, const struct step_window *window, uint32_t rank);

#endif
