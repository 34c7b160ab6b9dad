/* An executor that is wrong, for tests of who compares: it measures what the simulator computes, but for a peak that no run of the schedule can have. */
#include "sim/exec.h"

const struct executor *memwall_executor(void);

static enum status run(const struct schedule *schedule, const struct exec_options *options, struct timeline *timeline,
                       struct error *error)
{
    struct exec_options computed = *options;
    computed.warmup_steps = 0;
    computed.steps = 1;
    enum status status = exec_sim.run(schedule, &computed, timeline, error);
    if (status == STATUS_OK) {
        timeline->spaces[0].peak_bytes = UINT64_C(1) << 60;
    }
    return status;
}

static bool supports(const struct schedule *schedule, uint32_t op, char *why, size_t why_size)
{
    (void)schedule, (void)op, (void)why, (void)why_size;
    return true;
}

const struct executor *memwall_executor(void)
{
    static const struct executor faulty = {
        .abi = EXECUTOR_ABI, .name = "host", .summary = "wrong on purpose", .supports = supports, .run = run
    };
    return &faulty;
}
