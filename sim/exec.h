/* The executor vtable: three of them run a schedule and return a timeline. `sim` computes times; `host` (threads of this computer) and `cuda` (GPUs) measure them.
 *
 * `sim` is part of the library. The others are shared objects that sim/cli/executors.c opens when they are named, so that simulating pays for no BLAS and no
 * CUDA library; each exports one function, `const struct executor *memwall_executor(void)`.
 *
 * Real executors run each device by itself: they need a schedule without folding (one device a rank), and refuse others. They run the step `warmup_steps`
 * times unmeasured, then `steps` times; the timeline that run() returns is the one of median step time (the lower median), step_done sees each. */
#ifndef MEMWALL_EXEC_H
#define MEMWALL_EXEC_H

#include <stdbool.h>

#include "hw_models/cluster.h"
#include "hw_models/software.h"
#include "sim/ir/schedule.h"
#include "sim/ir/timeline.h"

enum { EXECUTOR_ABI = 3 };

enum { EXECUTOR_MEASURES = 1 /* times are read from a clock: steps differ */ };

struct cost_table;

struct exec_options {
    const struct cluster *cluster; /* required by sim; real executors take nothing from it */
    const struct software
        *software;     /* required by sim; real executors take the allocator's kind from it (NULL: exact) */
    bool record_rates; /* keep rate changes: the audit looks at them (sim) */
    bool audit;        /* check the timeline before returning it */
    /* sim: where to leave what each op costs (sim/engine/cost_table.h), for a further run of the schedule and for its result. Zeroed before the first run; the caller frees it. NULL: it is not kept. */
    struct cost_table *costs;
    /* Progress, at most every ~100 ms: called with ops done (of all steps); return false to cancel (STATUS_EXECUTION). NULL: none. */
    bool (*progress)(void *context, uint32_t done, uint32_t total);
    void *progress_context;
    const struct timeline_watch *watch; /* sim: may end the run (STATUS_EXECUTION); NULL: nobody does */

    /* Real executors. */
    uint32_t warmup_steps, steps; /* 0 steps: 1 */
    /* Called between steps with the timeline of each measured one, which is valid during the call; false: no further steps. NULL: none. */
    bool (*step_done)(void *context, uint32_t step, const struct timeline *timeline);
    void *step_context;
    bool check;   /* verify data: patterns in buffers, results of copies and reductions. Times then mean nothing */
    bool emulate; /* cuda: ranks share GPUs; collectives between them are copies and reductions; the timeline says so */
    double patience_s;          /* an op that runs or waits for its partners longer than this is hung; 0: 60 */
    const char *scratch_folder; /* for files that stand for storage; NULL: TMPDIR's default, /tmp */
};

struct executor {
    uint32_t abi;
    uint32_t capabilities; /* EXECUTOR_* */
    const char *name, *summary;
    /* Whether it can run this op; if not, `why` says the reason. */
    bool (*supports)(const struct schedule *schedule, uint32_t op, char *why, size_t why_size);
    /* Verifies, runs, and fills `timeline` (the caller frees it, also after an error). DOES_NOT_FIT and DEADLOCK are outcomes in the timeline, not errors.
     * STATUS_UNSUPPORTED: it cannot run this schedule here (no GPU, folded, an op it does not know), and nothing was started. STATUS_EXECUTION names rank and op;
     * no thread, file or memory of the run is left. */
    enum status (*run)(const struct schedule *schedule, const struct exec_options *options, struct timeline *timeline,
                       struct error *error);
};

extern const struct executor exec_sim;

/* What a shared object exports, under this name. */
typedef const struct executor *executor_entry(void);
#define EXECUTOR_ENTRY "memwall_executor"

#endif
