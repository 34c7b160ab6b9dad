/* Where the time of each rank goes: every instant of its compute queue gets one cause. See result.h for the rules. */
#include "sim/report/breakdown.h"
#include "sim/base/units.h"

static enum time_class phase_class(enum op_phase phase)
{
    switch (phase) {
    case PHASE_FORWARD:
    case PHASE_BACKWARD:
    case PHASE_WEIGHT:
    case PHASE_OTHER: return TIME_COMPUTE;
    case PHASE_RECOMPUTE: return TIME_RECOMPUTE;
    case PHASE_TENSOR_COMM: return TIME_TENSOR_COMM;
    case PHASE_PIPELINE_COMM: return TIME_PIPELINE_COMM;
    case PHASE_DATA_COMM: return TIME_DATA_COMM;
    case PHASE_OFFLOAD: return TIME_OFFLOAD;
    case PHASE_OPTIMIZER: return TIME_OPTIMIZER;
    case PHASE_COUNT: break;
    }
    return TIME_COMPUTE;
}

enum time_class op_time_class(const struct sched_op *op)
{
    return phase_class((enum op_phase)op->phase);
}

/* An idle span that still needs causes: [from, to). */
struct span {
    int64_t from_ps, to_ps;
};

static void charge(struct stage_times *times, enum time_class cause, struct span *span, int64_t until_ps)
{
    int64_t end = until_ps < span->to_ps ? until_ps : span->to_ps;
    if (end > span->from_ps) {
        times->exposed_s[cause] += s_from_ps(end - span->from_ps);
        span->from_ps = end;
    }
}

/* The gates of an op that is not on the compute queue, as causes of waiting for it. */
static void charge_gates(struct stage_times *times, const struct sched_op *op, const struct op_times *t,
                         struct span *span)
{
    charge(times, TIME_HOST_ISSUE, span, t->issued_ps);
    charge(times, op_time_class(op), span, t->ready_ps); /* behind others of its own queue */
    charge(times, TIME_BUBBLE, span, t->matched_ps);
    charge(times, TIME_MEMORY_WAIT, span, t->start_ps);
    charge(times, op_time_class(op), span, t->end_ps);
}

/* The dependency that ended last is what the op waited for. */
static uint32_t last_dependency(const struct schedule *s, const struct timeline *timeline, const struct sched_op *op)
{
    uint32_t last = SCHED_NONE;
    for (uint32_t i = 0; i < op->dependency_count; i++) {
        uint32_t d = s->dependencies[op->first_dependency + i];
        if (last == SCHED_NONE || timeline->ops[d].end_ps > timeline->ops[last].end_ps) {
            last = d;
        }
    }
    return last;
}

static void charge_idle(struct stage_times *times, const struct schedule *s, const struct timeline *timeline,
                        uint32_t index, int64_t idle_from_ps)
{
    const struct sched_op *op = &s->ops[index];
    const struct op_times *t = &timeline->ops[index];
    struct span span = { idle_from_ps, t->start_ps };
    charge(times, TIME_HOST_ISSUE, &span, t->issued_ps);
    uint32_t dependency = last_dependency(s, timeline, op);
    if (dependency != SCHED_NONE && timeline->ops[dependency].end_ps > span.from_ps) {
        charge_gates(times, &s->ops[dependency], &timeline->ops[dependency], &span);
    }
    charge(times, TIME_BUBBLE, &span, t->matched_ps);
    charge(times, TIME_MEMORY_WAIT, &span, t->start_ps);
}

void breakdown_rank(struct stage_times *times, const struct schedule *s, const struct timeline *timeline, uint32_t rank)
{
    const struct sched_rank *r = &s->ranks[rank];
    *times = (struct stage_times){ .rank = rank };
    int64_t idle_from_ps = 0;
    for (uint32_t i = r->first_op; i < r->first_op + r->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        const struct op_times *t = &timeline->ops[i];
        double busy_s = s_from_ps(t->end_ps - t->start_ps);
        times->busy_s[op_time_class(op)] += busy_s;
        if (s->queues[op->queue].queue_class != QUEUE_COMPUTE) {
            continue;
        }
        charge_idle(times, s, timeline, i, idle_from_ps);
        times->exposed_s[op_time_class(op)] += busy_s;
        idle_from_ps = t->end_ps > idle_from_ps ? t->end_ps : idle_from_ps;
    }
    /* After its last kernel a rank waits for its own last transfers, then for the others. */
    struct span tail = { idle_from_ps, timeline->end_ps };
    for (uint32_t i = r->first_op; i < r->first_op + r->op_count; i++) {
        if (timeline->ops[i].end_ps > tail.from_ps) {
            charge_gates(times, &s->ops[i], &timeline->ops[i], &tail);
        }
    }
    charge(times, TIME_BUBBLE, &tail, timeline->end_ps);
    times->busy_s[TIME_BUBBLE] = times->exposed_s[TIME_BUBBLE];
    times->busy_s[TIME_MEMORY_WAIT] = times->exposed_s[TIME_MEMORY_WAIT];
    times->busy_s[TIME_HOST_ISSUE] = times->exposed_s[TIME_HOST_ISSUE];
}
