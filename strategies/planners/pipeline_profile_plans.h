/* What the planners `pipedream`, `dapple` and `hippie` share: for each pipeline depth that divides the scenario's GPUs a partition by the planner's own rule, all of them simulated, and an
 * answer for each budget.
 *
 * Each depth is searched with as many replicas on every stage; beside these, a rule may offer one plan whose stages have replicas of their own (sim/plan/plan_replicas.h). Tensor and context
 * degree, ZeRO stage and memory policy are the scenario's, and so is the micro-batch, unless replicas cut one together. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_PIPELINE_PROFILE_PLANS_H
#define MEMWALL_STRATEGIES_PLANNERS_PIPELINE_PROFILE_PLANS_H

#include "strategies/planners/pipeline_profile.h"
#include "strategies/planners/planner.h"

/* One depth. Everything is borrowed. */
struct pipeline_case {
    const struct scenario *scenario;
    const struct parameter_values *parameters; /* of the planner */
    const struct pipeline_profile *profile;    /* one micro-batch on one device */
    struct pieces *pieces;
    int64_t pipeline, replicas, micro_batches;
    double transfer_bytes_per_s,
        reduce_bytes_per_s; /* of this machine between neighbouring stages, among the replicas of a stage */
    double budget_bytes;
    double margin_bytes; /* by which a plan of `adjust` was found to need more than it thought */
};

/* A plan whose stages may have any number of replicas. */
struct pipeline_free {
    bool found;
    struct pipeline_split split;
    enum replica_sharing sharing;
    int64_t micro_batch, micro_batches; /* of the plan */
    double step_s;                      /* by the rule's cost model */
};

/* A planner's rule. `split` and text live in `arena`. */
struct pipeline_rule {
    const char *order;      /* pipeline order of the plans */
    const char *cost_model; /* sentence */
    bool by_simulation;     /* rank by the simulated step; else by the rule's own */
    /* pipeline stages of `replicas` each, and the step by the rule's cost model; `*found` false: none. */
    enum status (*partition)(const struct pipeline_case *c, struct pipeline_split *split, double *step_s, bool *found,
                             struct arena *arena, struct error *error);
    /* The best where each stage has replicas of its own, `workers` together; `c`: bandwidths between two halves of them. NULL: the rule knows none. */
    enum status (*partition_free)(const struct pipeline_case *c, int64_t workers, struct pipeline_free *best,
                                  struct arena *arena, struct error *error);
    /* Change the plan (recompute marks) so that it fits budget - margin; `*note`: a sentence about it, or left NULL. Asked again with a larger margin when the simulation needs more. NULL:
     * nothing to change. A rule that has it starts from a profile without recomputation, whatever the scenario says. */
    enum status (*adjust)(const struct pipeline_case *c, const struct pipeline_split *split, struct plan *plan,
                          const char **note, struct arena *arena, struct error *error);
    /* A sentence beside the answer (what a plan with unequal replicas would cost). NULL: none. */
    enum status (*remark)(const struct pipeline_case *c, int64_t workers, const char **note, struct arena *arena,
                          struct error *error);
};

/* Micro-batches whose activations a stage of the plan keeps at once, at most, as its order has it. */
enum status pipeline_in_flight(const struct plan *plan, uint32_t stage, uint32_t *most, struct error *error);

/* Parameters that a device of the stage holds: with the table that a tied head keeps apart from the embedding. */
enum status pipeline_stage_parameters(const struct pipeline_case *c, const struct pipeline_stage *stage,
                                      double *parameters, struct error *error);

/* The body of a planner's search. STATUS_BAD_INPUT: no depth is allowed at all, with the reason of the scenario's own. */
enum status pipeline_plans_search(const struct planner_request *request, struct planner_answer *answer,
                                  const struct pipeline_rule *rule, struct error *error);

#endif
