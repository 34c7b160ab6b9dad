/* A planner's answer for people: stages and choices, what it costs, why. At most 110 columns wide, unless names are longer. */
#ifndef MEMWALL_CLI_PLAN_TEXT_H
#define MEMWALL_CLI_PLAN_TEXT_H

#include "strategies/planners/plan_answer.h"

void plan_text(const struct plan_answer_input *input, struct strbuf *out);

#endif
