/* The executor vtable: three of them run a schedule (sim, host, cuda) and return a timeline. */
#ifndef MEMWALL_EXEC_H
#define MEMWALL_EXEC_H

#include <stdbool.h>

#include "hw_models/cluster.h"
#include "hw_models/software.h"
#include "sim/ir/schedule.h"
#include "sim/ir/timeline.h"

enum { EXECUTOR_ABI = 1 };

struct exec_options {
    const struct cluster *cluster;   /* required by sim */
    const struct software *software; /* required by sim */
    bool record_rates;               /* keep rate changes: traces and audits want them */
    bool audit;                      /* check the timeline before returning it */
    /* Progress, at most every ~100 ms: called with ops done; return false to cancel (STATUS_EXECUTION). NULL: none. */
    bool (*progress)(void *context, uint32_t done, uint32_t total);
    void *progress_context;
};

struct executor {
    uint32_t abi;
    const char *name, *summary;
    /* Whether it can run this op; if not, `why` says the reason. */
    bool (*supports)(const struct schedule *schedule, uint32_t op, char *why, size_t why_size);
    /* Verifies, runs, and fills `timeline` (the caller frees it). DOES_NOT_FIT and DEADLOCK are outcomes in the timeline, not errors. */
    enum status (*run)(const struct schedule *schedule, const struct exec_options *options, struct timeline *timeline,
                       struct error *error);
};

extern const struct executor exec_sim;

#endif
