#include "sim/engine/exec_sim_spare.h"

#include "sim/base/check.h"

enum status exec_sim_spare(struct schedule *schedule, const struct exec_options *options, struct timeline *timeline,
                           struct error *error)
{
    uint64_t *capacities = schedule_lend_memory(schedule);
    if (capacities == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory simulating with memory to spare");
    }
    enum status status = exec_sim.run(schedule, options, timeline, error);
    schedule_return_memory(schedule, capacities);
    return status;
}

enum status exec_sim_again(struct schedule *schedule, const struct exec_options *options, struct timeline *timeline,
                           struct strbuf *why, struct error *error)
{
    CHECK(timeline->outcome == TIMELINE_DOES_NOT_FIT);
    struct hash hash = timeline->schedule_hash;
    timeline_explain(schedule, timeline, why);
    timeline_free(timeline);
    enum status status = exec_sim_spare(schedule, options, timeline, error);
    timeline->schedule_hash = hash;
    return status;
}
