/* One re-simulation of a scenario on a changed machine, and many of them on threads. */
#ifndef MEMWALL_REPORT_SENSITIVITY_TRIAL_H
#define MEMWALL_REPORT_SENSITIVITY_TRIAL_H

#include "sim/plan/scenario.h"

struct trial_result {
    bool ran;  /* the figures hold; else `reason` says why the step cannot be built or does not end */
    bool fits; /* false: it was run with memory to spare, as `memwall run` does */
    int64_t step_ps;
    char reason[ERROR_MESSAGE_BYTES];
};

/* The scenario's model and plan on `machine` under `software`, as many nodes and GPUs. What the policy or the run refuses is a result; returned errors are lack of memory and faults of the
 * program. Reads the scenario only: many may run at once. */
enum status trial_run(struct trial_result *result, const struct scenario *scenario, const struct machine *machine,
                      const struct software *software, struct error *error);

/* work(context, i) for i = 0 .. count - 1, each once, on as many threads as the computer has cores (at most `threads`; 0: all). `progress` is called from the caller's thread when it is not NULL,
 * after its own pieces. Results belong to i, so they are the same whatever the threads. */
void trials_parallel(uint32_t threads, uint32_t count, void (*work)(void *context, uint32_t index), void *context,
                     void (*progress)(void *context, uint32_t done, uint32_t total), void *progress_context);

#endif
