/* Simulating with memory to spare: what a step would need and take where there was enough. The schedule's capacities are lent for the run alone (schedule_lend_memory). */
#ifndef MEMWALL_ENGINE_EXEC_SIM_SPARE_H
#define MEMWALL_ENGINE_EXEC_SIM_SPARE_H

#include "sim/base/strbuf.h"
#include "sim/exec.h"

/* As exec_sim.run. The timeline's hash is that of the schedule without capacities. The caller frees the timeline, also after an error. */
enum status exec_sim_spare(struct schedule *schedule, const struct exec_options *options, struct timeline *timeline,
                           struct error *error);
/* A run that did not fit, once more: `why` gets what timeline_explain says of it, and the new timeline takes its place and its hash, which is that of the machine's capacities. */
enum status exec_sim_again(struct schedule *schedule, const struct exec_options *options, struct timeline *timeline,
                           struct strbuf *why, struct error *error);

#endif
