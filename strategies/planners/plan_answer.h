/* Writing a planner's answer: as JSON ("memwall.planning/1"), and as plan files ("memwall.plan/1") that `memwall run --plan` takes.
 *
 * A plan file is the plan's own keys (sim/plan/plan.h) and, under "origin", who made it for what: planner, preset, and hashes of model and machine, so that a plan for another is refused.
 * Hand-made files may leave "origin" out. */
#ifndef MEMWALL_STRATEGIES_PLANNERS_PLAN_ANSWER_H
#define MEMWALL_STRATEGIES_PLANNERS_PLAN_ANSWER_H

#include "strategies/planners/planner.h"

struct plan_answer_input {
    const struct scenario *scenario;
    const struct planner *planner;
    const struct parameter_values *parameters;
    const struct planner_answer *answer;
    bool is_list;   /* budgets were given as a list: JSON is an array */
    double seconds; /* that the search took */
};

/* One object, or an array of one object a budget. */
void plan_answer_json(const struct plan_answer_input *input, struct strbuf *out);
/* The plan file of a result that was found and has a plan. */
void plan_answer_file(const struct plan_answer_input *input, const struct planner_result *result, struct strbuf *out);

/* Who made a plan file, and why so. */
struct plan_origin {
    const char *planner;
    double budget_bytes, step_time_s; /* 0: no search for a budget made it */
    const char *const *reasons;
    uint32_t reason_count;
};
void plan_file_print(const struct scenario *scenario, const struct plan *chosen, const struct plan_origin *origin,
                     struct strbuf *out);

/* What a model and a machine are, by content: the same numbers, the same hash. */
struct hash plan_model_hash(const struct model *model);
struct hash plan_machine_hash(const struct machine *machine);

/* Puts the plan of a file in the place of the scenario's own. `sets` of keys that a plan has ("parallel.tensor=4") change the file's plan first, others are left to the scenario.
 * STATUS_BAD_INPUT: not a plan, another model or machine (by hash; by name where there is no hash), degrees that do not make up the scenario's GPUs. */
enum status plan_answer_load(struct scenario *scenario, const char *file, const char *const *sets, uint32_t set_count,
                             struct error *error);
/* Whether a set ("PATH=VALUE") is of a key that a plan has. */
bool plan_answer_takes_set(const char *set);

#endif
