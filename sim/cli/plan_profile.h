/* memwall plan --profile FILE: partition a measured chain of layers (memwall.profile/1, strategies/planners/pipeline_profile.h) over equal workers, without a scenario: PipeDream's and DAPPLE's programmes
 * as published, any number of replicas a stage. */
#ifndef MEMWALL_CLI_PLAN_PROFILE_H
#define MEMWALL_CLI_PLAN_PROFILE_H

#include "sim/base/strbuf.h"
#include "strategies/planners/planner.h"

struct plan_profile_flags {
    const char *profile, *workers, *bandwidth, *micro_batches, *replicas;
};

/* Reads the profile, searches, and appends text or JSON (schema memwall.partition/1) to `out`. `parameters` are those of the planner; budget_bytes: of its memory test. STATUS_BAD_INPUT names the flag or
 * the file; *found: false when nothing passes the memory test. */
enum status plan_profile(const struct plan_profile_flags *flags, const struct planner *planner,
                         const struct parameter_values *parameters, double budget_bytes, bool json, struct strbuf *out,
                         bool *found, struct error *error);

#endif
