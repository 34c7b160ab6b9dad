/* The plain twin of the engine: same physics, no cleverness. At every event it looks at every op, every buffer and every activity again; rates come from
 * textbook progressive filling over all of them. O(events * (ops + activities^2 * resources)). Shares only the cost table and the rules written in schedule.h,
 * engine.h and fluid.h with the engine. */
#ifndef MEMWALL_TESTS_ENGINE_TWIN_H
#define MEMWALL_TESTS_ENGINE_TWIN_H

#include <math.h>

#include "sim/base/units.h"
#include "sim/engine/cost_table.h"
#include "sim/ir/timeline.h"

enum twin_state { TWIN_WAITS, TWIN_READY, TWIN_LATENCY, TWIN_RUNS, TWIN_DONE };

struct twin_op {
    enum twin_state state;
    struct op_times times;
    uint64_t waiting_since; /* order in which starts began to wait for memory; 0: does not */
    int64_t due_ps, span_ps;
    double left_ps, rate, cap; /* left at the cap's rate */
    int64_t since_ps;
};

struct twin_host {
    uint32_t next;
    uint64_t outstanding;
    int64_t clock_ps;
};

struct twin {
    const struct schedule *s;
    const struct cost_table *table;
    struct twin_op *ops;
    struct twin_host *hosts;
    uint64_t *live;
    int64_t now_ps;
    uint64_t waits;
    uint32_t done;
};

static inline const struct op_cost *twin_cost(const struct twin *t, uint32_t op)
{
    return &t->table->costs[t->table->op_costs[op]];
}

/* Whether `other` belongs to the same start as `op`. */
static inline bool twin_together(const struct twin *t, uint32_t op, uint32_t other)
{
    return op == other || (t->s->ops[op].match != SCHED_NONE && t->s->ops[op].match == t->s->ops[other].match);
}

static inline uint32_t twin_first(const struct twin *t, uint32_t op)
{
    for (uint32_t i = 0; i < op; i++) {
        if (twin_together(t, op, i)) {
            return i;
        }
    }
    return op;
}

static inline void twin_charge(struct twin *t, uint32_t buffer, bool add)
{
    const struct sched_buffer *b = &t->s->buffers[buffer];
    for (uint32_t s = b->space; s != SCHED_NONE; s = t->s->spaces[s].parent) {
        t->live[s] = add ? t->live[s] + b->bytes * b->copies : t->live[s] - b->bytes * b->copies;
    }
}

static inline void twin_acquire(struct twin *t, uint32_t first, bool add)
{
    for (uint32_t i = first; i < t->s->op_count; i++) {
        const struct sched_op *op = &t->s->ops[i];
        for (uint32_t k = 0; twin_together(t, first, i) && k < op->acquire_count; k++) {
            twin_charge(t, sched_acquires(t->s, op)[k], add);
        }
    }
}

static inline bool twin_fits(struct twin *t, uint32_t first)
{
    bool fits = true;
    twin_acquire(t, first, true);
    for (uint32_t s = 0; s < t->s->space_count; s++) {
        fits = fits && t->live[s] <= t->s->spaces[s].capacity_bytes;
    }
    twin_acquire(t, first, false);
    return fits;
}

static inline void twin_end(struct twin *t, uint32_t first)
{
    for (uint32_t i = first; i < t->s->op_count; i++) {
        if (!twin_together(t, first, i)) {
            continue;
        }
        const struct sched_op *op = &t->s->ops[i];
        t->ops[i].state = TWIN_DONE;
        t->ops[i].times.end_ps = t->now_ps;
        t->done++;
        for (uint32_t k = 0; k < op->release_count; k++) {
            twin_charge(t, sched_releases(t->s, op)[k], false);
        }
        struct twin_host *host = &t->hosts[sched_op_rank(t->s, op)];
        host->outstanding -= twin_cost(t, i)->launches;
    }
}

/* Start what has all it needs. */
static inline void twin_run(struct twin *t, uint32_t first)
{
    const struct op_cost *cost = twin_cost(t, first);
    int64_t end = t->now_ps + cost->latency_ps + cost->work_ps;
    twin_acquire(t, first, true);
    for (uint32_t i = first; i < t->s->op_count; i++) {
        if (twin_together(t, first, i)) {
            t->ops[i].times.start_ps = t->now_ps;
            t->ops[i].times.alone_ps = cost->latency_ps + cost->work_ps;
            int64_t issued = t->ops[i].times.issued_ps + twin_cost(t, i)->issue_tail_ps;
            end = issued > end ? issued : end;
            t->ops[i].state = TWIN_RUNS;
            t->ops[i].due_ps = TIME_NEVER_PS;
            t->ops[i].rate = 0;
            t->ops[i].cap = 0; /* partners of the first: not activities */
        }
    }
    struct twin_op *op = &t->ops[first];
    if (end == t->now_ps) {
        twin_end(t, first);
    } else if (cost->use_count == 0 || cost->work_ps == 0) {
        op->due_ps = end;
    } else {
        op->state = TWIN_LATENCY;
        op->due_ps = t->now_ps + cost->latency_ps;
        op->span_ps = end - op->due_ps;
    }
}

static inline void twin_begin_work(struct twin *t, uint32_t i)
{
    struct twin_op *op = &t->ops[i];
    op->state = TWIN_RUNS;
    op->cap = (double)twin_cost(t, i)->work_ps / (double)op->span_ps;
    op->left_ps = (double)op->span_ps;
    op->since_ps = t->now_ps;
    op->due_ps = TIME_NEVER_PS;
}

static inline bool twin_is_activity(const struct twin *t, uint32_t i)
{
    return t->ops[i].state == TWIN_RUNS && t->ops[i].cap > 0;
}

/* Is a collective, its work begun, resident on this resource? */
static inline bool twin_resident(const struct twin *t, uint32_t resource)
{
    for (uint32_t i = 0; i < t->s->op_count; i++) {
        const struct op_cost *cost = twin_cost(t, i);
        for (uint32_t k = 0; twin_is_activity(t, i) && k < cost->resident_count; k++) {
            if (t->table->uses[cost->first_use + k].resource == resource) {
                return true;
            }
        }
    }
    return false;
}

static inline double twin_cap(const struct twin *t, uint32_t i)
{
    const struct op_cost *cost = twin_cost(t, i);
    bool beside = cost->beside_rate < 1 && twin_resident(t, t->table->uses[cost->first_use].resource);
    return beside ? fmin(t->ops[i].cap, cost->beside_rate) : t->ops[i].cap;
}

/* Progressive filling: the lowest level at which a cap or a resource stops somebody, again and again. */
static inline void twin_fill(struct twin *t, double *rates)
{
    uint32_t n = t->s->op_count, left = 0;
    double *caps = calloc(n, sizeof *caps);
    for (uint32_t i = 0; i < n; i++) {
        rates[i] = -1;
        if (twin_is_activity(t, i)) {
            caps[i] = twin_cap(t, i);
            left++;
        }
    }
    while (left > 0) {
        double level = INFINITY;
        uint32_t full = SCHED_NONE;
        for (uint32_t i = 0; i < n; i++) {
            if (twin_is_activity(t, i) && rates[i] < 0) {
                level = fmin(level, caps[i] / twin_cost(t, i)->weight);
            }
        }
        for (uint32_t r = 0; r < t->table->resource_count; r++) {
            double used = 0, wanted = 0;
            for (uint32_t i = 0; i < n; i++) {
                const struct op_cost *cost = twin_cost(t, i);
                for (uint32_t k = cost->first_use; twin_is_activity(t, i) && k < cost->first_use + cost->use_count;
                     k++) {
                    if (t->table->uses[k].resource == r) {
                        double c = t->table->uses[k].coefficient;
                        used += rates[i] < 0 ? 0 : c * rates[i];
                        wanted += rates[i] < 0 ? c * cost->weight : 0;
                    }
                }
            }
            double room = t->table->capacities[r] * (1 + 1e-12) - used;
            if (wanted > 0 && room / wanted < level) {
                level = fmax(0, room / wanted);
                full = r;
            }
        }
        for (uint32_t i = 0; i < n; i++) {
            if (!twin_is_activity(t, i) || rates[i] >= 0) {
                continue;
            }
            const struct op_cost *cost = twin_cost(t, i);
            bool stops = full == SCHED_NONE && caps[i] / cost->weight <= level;
            for (uint32_t k = cost->first_use; k < cost->first_use + cost->use_count; k++) {
                stops = stops || t->table->uses[k].resource == full;
            }
            if (stops) {
                rates[i] = full == SCHED_NONE ? caps[i] : level * cost->weight;
                left--;
            }
        }
    }
    free(caps);
}

static inline void twin_rates(struct twin *t)
{
    double *rates = calloc(t->s->op_count + 1, sizeof *rates);
    twin_fill(t, rates);
    for (uint32_t i = 0; i < t->s->op_count; i++) {
        struct twin_op *op = &t->ops[i];
        if (twin_is_activity(t, i) && fabs(rates[i] - op->rate) > 1e-11 * rates[i]) {
            op->left_ps = fmax(0, op->left_ps - (double)(t->now_ps - op->since_ps) * (op->rate / op->cap));
            op->since_ps = t->now_ps;
            op->rate = rates[i];
            op->due_ps = t->now_ps + (int64_t)ceil(op->left_ps / (op->rate / op->cap));
        }
    }
    free(rates);
}

static inline bool twin_full(const struct twin *t, const struct twin_host *host, uint32_t op)
{
    uint32_t launches = twin_cost(t, op)->launches;
    return t->table->launch_ahead != 0 && launches != 0 && host->outstanding != 0 &&
           host->outstanding + launches > t->table->launch_ahead;
}

/* Issue all that each host thread can. A thread that waited is free again now. */
static inline void twin_issue(struct twin *t)
{
    for (uint32_t r = 0; r < t->s->rank_count; r++) {
        struct twin_host *host = &t->hosts[r];
        const struct sched_rank *rank = &t->s->ranks[r];
        while (host->next < rank->first_op + rank->op_count) {
            uint32_t i = host->next;
            bool waits = i > rank->first_op && (t->s->ops[i - 1].flags & (OP_FLAG_HOST_WAITS | OP_FLAG_BUSY_HOST)) &&
                         t->ops[i - 1].state != TWIN_DONE;
            if (waits || twin_full(t, host, i)) {
                break;
            }
            /* Nothing was issued since the thread stopped, so a clock behind the end it waited for means that it waited. */
            if (i > rank->first_op && (t->s->ops[i - 1].flags & (OP_FLAG_HOST_WAITS | OP_FLAG_BUSY_HOST)) &&
                host->clock_ps < t->ops[i - 1].times.end_ps) {
                host->clock_ps = t->ops[i - 1].times.end_ps;
            }
            const struct op_cost *cost = twin_cost(t, i);
            host->clock_ps += cost->issue_first_ps +
                              (t->s->ops[i].flags & OP_FLAG_MICRO_BATCH ? t->table->micro_batch_ps : 0) +
                              (t->s->ops[i].flags & OP_FLAG_STEP ? t->table->step_ps : 0);
            t->ops[i].times.issued_ps = host->clock_ps;
            host->clock_ps += cost->issue_rest_ps;
            host->outstanding += cost->launches;
            host->next++;
        }
    }
}

/* A thread that stopped for too many launches is free again when some have ended. */
static inline void twin_note_full(struct twin *t, bool *was_full)
{
    for (uint32_t r = 0; r < t->s->rank_count; r++) {
        const struct sched_rank *rank = &t->s->ranks[r];
        was_full[r] =
            t->hosts[r].next < rank->first_op + rank->op_count && twin_full(t, &t->hosts[r], t->hosts[r].next);
    }
}

static inline bool twin_open(const struct twin *t, uint32_t i)
{
    const struct sched_op *op = &t->s->ops[i];
    if (t->ops[i].state != TWIN_WAITS || t->ops[i].times.issued_ps > t->now_ps) {
        return false;
    }
    for (uint32_t d = 0; d < op->dependency_count; d++) {
        if (t->ops[t->s->dependencies[op->first_dependency + d]].state != TWIN_DONE) {
            return false;
        }
    }
    for (uint32_t k = 0; k < i; k++) {
        if (t->s->ops[k].queue == op->queue && t->ops[k].state != TWIN_DONE) {
            return false;
        }
    }
    return true;
}

static inline void twin_make_ready(struct twin *t, uint32_t i)
{
    uint32_t members = 0, ready = 0, first = twin_first(t, i);
    t->ops[i].state = TWIN_READY;
    t->ops[i].times.ready_ps = t->now_ps;
    for (uint32_t k = 0; k < t->s->op_count; k++) {
        members += twin_together(t, i, k);
        ready += twin_together(t, i, k) && t->ops[k].state == TWIN_READY;
    }
    if (ready < members) {
        return;
    }
    for (uint32_t k = 0; k < t->s->op_count; k++) {
        if (twin_together(t, i, k)) {
            t->ops[k].times.matched_ps = t->now_ps;
        }
    }
    if (twin_fits(t, first)) {
        twin_run(t, first);
    } else {
        t->ops[first].waiting_since = ++t->waits;
    }
}

/* One round: waiters in order of waiting, then the ops that are open, in order. True when anything happened. */
static inline bool twin_round(struct twin *t)
{
    uint32_t n = t->s->op_count, count = 0;
    uint32_t *open = calloc(n + 1, sizeof *open);
    bool moved = false;
    for (uint32_t i = 0; i < n; i++) {
        if (twin_open(t, i)) {
            open[count++] = i;
        }
    }
    for (uint64_t turn = 1, last = t->waits; turn <= last; turn++) {
        for (uint32_t i = 0; i < n; i++) {
            if (t->ops[i].waiting_since == turn && twin_fits(t, i)) {
                t->ops[i].waiting_since = 0;
                twin_run(t, i);
                moved = true;
            }
        }
    }
    for (uint32_t k = 0; k < count; k++) {
        twin_make_ready(t, open[k]);
        moved = true;
    }
    free(open);
    return moved;
}

static inline int64_t twin_next(const struct twin *t)
{
    int64_t next = TIME_NEVER_PS;
    for (uint32_t i = 0; i < t->s->op_count; i++) {
        const struct twin_op *op = &t->ops[i];
        int64_t at = op->state == TWIN_LATENCY || op->state == TWIN_RUNS ? op->due_ps : TIME_NEVER_PS;
        if (op->state == TWIN_WAITS && op->times.issued_ps > t->now_ps) {
            at = op->times.issued_ps; /* nothing may happen then, and that is all right */
        }
        next = at < next ? at : next;
    }
    return next;
}

/* Runs to the end or until nothing moves. `twin.ops` has the times; twin_free. True when all ops ended. */
static inline bool twin_simulate(struct twin *t, const struct schedule *s, const struct cost_table *table)
{
    *t = (struct twin){ .s = s, .table = table };
    t->ops = calloc(s->op_count + 1, sizeof *t->ops);
    t->hosts = calloc(s->rank_count + 1, sizeof *t->hosts);
    t->live = calloc(s->space_count + 1, sizeof *t->live);
    bool *was_full = calloc(s->rank_count + 1, sizeof *was_full);
    for (uint32_t i = 0; i < s->op_count; i++) {
        t->ops[i].times =
            (struct op_times){ TIME_NEVER_PS, TIME_NEVER_PS, TIME_NEVER_PS, TIME_NEVER_PS, TIME_NEVER_PS, 0 };
    }
    for (uint32_t r = 0; r < s->rank_count; r++) {
        t->hosts[r].next = s->ranks[r].first_op;
    }
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        if (s->buffers[b].flags & BUFFER_LIVE_AT_START) {
            twin_charge(t, b, true);
        }
    }
    for (;;) {
        twin_note_full(t, was_full);
        for (uint32_t i = 0; i < s->op_count; i++) {
            if (t->ops[i].state == TWIN_RUNS && t->ops[i].due_ps == t->now_ps) {
                twin_end(t, i);
            }
        }
        for (uint32_t i = 0; i < s->op_count; i++) {
            if (t->ops[i].state == TWIN_LATENCY && t->ops[i].due_ps == t->now_ps) {
                twin_begin_work(t, i);
            }
        }
        do {
            for (uint32_t r = 0; r < s->rank_count; r++) {
                uint32_t next = t->hosts[r].next;
                if (was_full[r] && !twin_full(t, &t->hosts[r], next) && t->hosts[r].clock_ps < t->now_ps) {
                    t->hosts[r].clock_ps = t->now_ps;
                }
            }
            twin_issue(t);
            twin_note_full(t, was_full);
        } while (twin_round(t));
        for (uint32_t i = 0; i < s->op_count; i++) {
            if (t->ops[i].state == TWIN_LATENCY && t->ops[i].due_ps == t->now_ps) {
                twin_begin_work(t, i);
            }
        }
        twin_rates(t);
        int64_t next = twin_next(t);
        if (next == TIME_NEVER_PS) {
            break;
        }
        t->now_ps = next;
    }
    free(was_full);
    return t->done == s->op_count;
}

static inline void twin_free(struct twin *t)
{
    free(t->ops);
    free(t->hosts);
    free(t->live);
}

#endif
