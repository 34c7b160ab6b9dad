/* Shared by pipeline_profile_plans.c, which searches and simulates, and pipeline_profile_answer.c, which answers. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_PIPELINE_PROFILE_PLANS_INTERNAL_H
#define MEMWALL_STRATEGIES_PLANNERS_PIPELINE_PROFILE_PLANS_INTERNAL_H

#include "strategies/planners/pipeline_profile_plans.h"

enum { PIPELINE_CASES_MAX = 64 };

struct pipeline_candidate {
    struct pipeline_case at;
    struct pipeline_split split;
    bool own; /* stages have replicas of their own: sharing, micro_batch; at.replicas is 1 */
    enum replica_sharing sharing;
    int64_t micro_batch;
    double model_step_s;
    struct plan plan;
    const char *note;
    struct oracle_result result;
};

struct pipeline_work {
    const struct planner_request *request;
    const struct pipeline_rule *rule;
    struct planner_answer *answer;
    struct pieces *pieces;
    struct oracle *oracle;
    struct pipeline_profile profile;
    int64_t workers;
    struct pipeline_candidate candidates[PIPELINE_CASES_MAX];
    uint32_t count;
    char refused[ERROR_MESSAGE_BYTES]; /* the last reason */
};

/* The best of the simulated candidates that fit the result's budget, and others; or why none does. */
enum status pipeline_plans_answer(const struct pipeline_work *work, struct planner_result *result, struct error *error);

#endif
