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

/* How far back causes are followed: waits behind waits, and ops looked at to find the one ahead in a queue. */
enum { DEPTH_MAX = 32, LOOK_BACK_MAX = 4096 };

struct tracer {
    struct stage_times *times;
    const struct schedule *s;
    const struct timeline *timeline;
    const struct cost_table *costs; /* or NULL */
    const struct step_window *window;
    uint32_t first_op; /* of the rank */
};

/* The op ahead of `index` in its queue, or the one before it that the host waits for; SCHED_NONE. */
static uint32_t look_back(const struct tracer *t, uint32_t index, bool host)
{
    uint32_t queue = t->s->ops[index].queue;
    for (uint32_t i = index; i > t->first_op && index - i < LOOK_BACK_MAX; i--) {
        const struct sched_op *op = &t->s->ops[i - 1];
        if (host ? (op->flags & (OP_FLAG_HOST_WAITS | OP_FLAG_BUSY_HOST)) != 0 : op->queue == queue) {
            return i - 1;
        }
    }
    return SCHED_NONE;
}

/* The dependency or queue neighbour that ended last is what the op waited for. */
static uint32_t last_before(const struct tracer *t, uint32_t index)
{
    const struct sched_op *op = &t->s->ops[index];
    uint32_t last = look_back(t, index, false);
    for (uint32_t i = 0; i < op->dependency_count; i++) {
        uint32_t d = t->s->dependencies[op->first_dependency + i];
        if (last == SCHED_NONE || t->timeline->ops[d].end_ps > t->timeline->ops[last].end_ps) {
            last = d;
        }
    }
    return last;
}

static void charge_run(const struct tracer *t, uint32_t index, struct span *span, unsigned depth);

/* Causes from span->from_ps until op `index` starts: the host and what the host waited for; what stood before it and that op's own causes; partners; memory. */
static void charge_wait(const struct tracer *t, uint32_t index, struct span *span, unsigned depth)
{
    const struct op_times *times = &t->timeline->ops[index];
    if (times->start_ps <= span->from_ps || depth == 0) {
        return;
    }
    if (times->issued_ps > span->from_ps) {
        uint32_t awaited = look_back(t, index, true);
        if (awaited != SCHED_NONE && t->timeline->ops[awaited].end_ps <= times->issued_ps) {
            charge_run(t, awaited, span, depth - 1);
        }
        charge(t->times, TIME_HOST_ISSUE, span, times->issued_ps);
    }
    uint32_t before = last_before(t, index);
    if (before != SCHED_NONE && times->ready_ps > span->from_ps) {
        charge_run(t, before, span, depth - 1);
    }
    charge(t->times, TIME_BUBBLE, span, times->matched_ps);
    charge(t->times, TIME_MEMORY_WAIT, span, times->start_ps);
}

/* ... until it ends. */
static void charge_run(const struct tracer *t, uint32_t index, struct span *span, unsigned depth)
{
    if (t->timeline->ops[index].end_ps > span->from_ps && span->from_ps < span->to_ps) {
        charge_wait(t, index, span, depth);
        charge(t->times, op_time_class(&t->s->ops[index]), span, t->timeline->ops[index].end_ps);
    }
}

/* Of an op's time the part within the step. */
static double share_inside(const struct tracer *t, const struct op_times *times)
{
    int64_t from_ps = times->start_ps > t->window->from_ps ? times->start_ps : t->window->from_ps;
    int64_t to_ps = times->end_ps < t->window->to_ps ? times->end_ps : t->window->to_ps;
    if (from_ps == times->start_ps && to_ps == times->end_ps) {
        return 1;
    }
    return to_ps > from_ps ? (double)(to_ps - from_ps) / (double)(times->end_ps - times->start_ps) : 0;
}

/* The inside of an op that ran on the compute queue: its kernels, collectives merged between them, and launches that came late. */
static void charge_inside(const struct tracer *t, uint32_t index)
{
    const struct sched_op *op = &t->s->ops[index];
    const struct op_times *times = &t->timeline->ops[index];
    enum time_class own = op_time_class(op);
    double share = share_inside(t, times), ran_s = share * s_from_ps(times->end_ps - times->start_ps);
    if (t->costs == NULL || op->opcode != OP_COMPUTE) {
        t->times->exposed_s[own] += ran_s;
        t->times->busy_s[own] += ran_s;
        return;
    }
    const struct op_cost *cost = &t->costs->costs[t->costs->op_costs[index]];
    double late_s = 0, exposed_s = 0, collective_s = 0;
    if (times->end_ps == times->issued_ps + cost->issue_tail_ps) { /* the last launches set the end */
        late_s = share * s_from_ps(times->end_ps - times->start_ps - times->alone_ps);
        late_s = late_s > 0 ? late_s : 0;
    }
    if (cost->work_ps > 0) {
        /* What stretched the op (contention) stretched all of its inside alike, hidden collectives too. */
        double stretch = (ran_s - late_s) / (double)cost->work_ps;
        exposed_s = stretch * (double)cost->exposed_collective_ps;
        collective_s = stretch * (double)cost->collective_ps;
    }
    t->times->exposed_s[TIME_HOST_ISSUE] += late_s;
    t->times->exposed_s[TIME_TENSOR_COMM] += exposed_s;
    t->times->exposed_s[own] += ran_s - late_s - exposed_s;
    t->times->busy_s[TIME_TENSOR_COMM] += collective_s;
    t->times->busy_s[own] += ran_s - late_s - exposed_s;
}

void breakdown_rank(struct stage_times *times, const struct schedule *s, const struct timeline *timeline,
                    const struct cost_table *costs, const struct step_window *window, uint32_t rank)
{
    const struct sched_rank *r = &s->ranks[rank];
    *times = (struct stage_times){ .rank = rank };
    const struct tracer tracer = {
        .times = times, .s = s, .timeline = timeline, .costs = costs, .window = window, .first_op = r->first_op
    };
    int64_t idle_from_ps = window->from_ps;
    for (uint32_t i = r->first_op; i < r->first_op + r->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        const struct op_times *t = &timeline->ops[i];
        if (s->queues[op->queue].queue_class != QUEUE_COMPUTE) {
            times->busy_s[op_time_class(op)] += share_inside(&tracer, t) * s_from_ps(t->end_ps - t->start_ps);
            continue;
        }
        struct span span = { idle_from_ps, t->start_ps < window->to_ps ? t->start_ps : window->to_ps };
        charge_wait(&tracer, i, &span, DEPTH_MAX);
        charge(times, TIME_BUBBLE, &span, span.to_ps); /* what stood before it ended before it was ready */
        charge_inside(&tracer, i);
        idle_from_ps = t->end_ps > idle_from_ps ? t->end_ps : idle_from_ps;
    }
    /* After its last kernel a rank waits for its own last transfer and what that waited for, then for the others. */
    struct span tail = { idle_from_ps, window->to_ps };
    uint32_t last = SCHED_NONE;
    for (uint32_t i = r->first_op; i < r->first_op + r->op_count; i++) {
        last = last == SCHED_NONE || timeline->ops[i].end_ps > timeline->ops[last].end_ps ? i : last;
    }
    if (last != SCHED_NONE) {
        charge_run(&tracer, last, &tail, DEPTH_MAX);
    }
    charge(times, TIME_BUBBLE, &tail, window->to_ps);
    times->busy_s[TIME_BUBBLE] = times->exposed_s[TIME_BUBBLE];
    times->busy_s[TIME_MEMORY_WAIT] = times->exposed_s[TIME_MEMORY_WAIT];
    times->busy_s[TIME_HOST_ISSUE] = times->exposed_s[TIME_HOST_ISSUE];
}
