/* The time breakdown of one rank: see result.h for the classes and rules. */
#ifndef MEMWALL_REPORT_BREAKDOWN_H
#define MEMWALL_REPORT_BREAKDOWN_H

#include "sim/report/result.h"

enum time_class op_time_class(const struct sched_op *op);

/* Fills `times` for the rank's ops; exposed_s sums to timeline->end_ps. Needs a timeline that is DONE. */
void breakdown_rank(struct stage_times *times, const struct schedule *schedule, const struct timeline *timeline,
                    uint32_t rank);

#endif
