/* How far a planner's search is, on standard error: a bar where its share is known, counts, an estimate of what is left of the phase, the best so far.
 *
 *     struct plan_progress progress;
 *     plan_progress_start(&progress, flags.quiet);
 *     ... request.progress = plan_progress_show, request.progress_context = &progress ...
 *     plan_progress_end(&progress); */
#ifndef MEMWALL_CLI_PLAN_PROGRESS_H
#define MEMWALL_CLI_PLAN_PROGRESS_H

#include "sim/cli/ticker.h"
#include "strategies/planners/planner.h"

struct plan_progress {
    struct ticker ticker;
    const char *doing; /* the phase, and when it began */
    double began_s;
};

void plan_progress_start(struct plan_progress *progress, bool quiet);
/* For struct planner_request; false when Ctrl-C was pressed. */
bool plan_progress_show(void *context, const struct planner_progress *at);
/* Wipes the line from a terminal; the seconds since the start. */
double plan_progress_end(struct plan_progress *progress);

#endif
