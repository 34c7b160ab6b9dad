/* Files of a planner's answer: plans (memwall.plan/1, or Galvatron's own), pictures of the balance of stages; one for each budget, "plan-12gib.json" where there are several. */
#ifndef MEMWALL_CLI_PLAN_FILES_H
#define MEMWALL_CLI_PLAN_FILES_H

#include <stdbool.h>

#include "sim/base/status.h"
#include "strategies/planners/plan_answer.h"

enum { PLAN_BUDGET_BYTES = 32 };

/* A budget in GiB as answers and files name it; returns `text`. */
const char *plan_budget_name(double budget_bytes, char text[PLAN_BUDGET_BYTES]);

/* The best plan of every budget that has one; says on standard error, unless quiet, what was written and for which budgets there is none. */
enum status plan_files_write(const struct plan_answer_input *input, const char *out, bool galvatron, bool quiet,
                             struct error *error);
/* Likewise the stages of the best plan against time and memory, under those it had before balancing. */
enum status plan_pictures_write(const struct plan_answer_input *input, const char *file, bool quiet,
                                struct error *error);

#endif
