/* timeline_audit: causes, matches, memory, resources, each recomputed from schedule and timeline alone. */
#include "sim/ir/audit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/ir/audit_memory.h"

#define BAD(error, ...) error_set((error), STATUS_BAD_TIMELINE, __VA_ARGS__)

enum { NAME_BYTES = 200 };

static enum status check_shape(const struct schedule *s, struct hash hash, const struct timeline *t,
                               struct error *error)
{
    char wanted[HASH_TEXT_BYTES], found[HASH_TEXT_BYTES];
    if (hash.a != t->schedule_hash.a || hash.b != t->schedule_hash.b) {
        return BAD(error, "the timeline is of another schedule: its hash is %s, the schedule's %s",
                   hash_text(&t->schedule_hash, found), hash_text(&hash, wanted));
    }
    if (t->op_count != s->op_count || t->space_count != s->space_count) {
        return BAD(error, "the timeline has %u ops and %u spaces, the schedule %u and %u", t->op_count, t->space_count,
                   s->op_count, s->space_count);
    }
    return STATUS_OK;
}

static enum status check_blocked(const struct schedule *s, const struct timeline *t, struct error *error)
{
    if (t->blocked_count == 0) {
        return BAD(error, "the step did not end, but nothing is said to wait");
    }
    for (uint32_t i = 0; i < t->blocked_count; i++) {
        const struct blocked_op *b = &t->blocked[i];
        if ((b->op >= s->op_count && !(b->op == SCHED_NONE && i == 0)) ||
            (b->space >= s->space_count && b->space != SCHED_NONE) ||
            (b->waits_for_op >= s->op_count && b->waits_for_op != SCHED_NONE)) {
            return BAD(error, "blocked op %u names an op or a space that does not exist", i);
        }
        if (b->op != SCHED_NONE && t->ops[b->op].start_ps != TIME_NEVER_PS) {
            return BAD(error, "op %u is said to wait, but has started", b->op);
        }
    }
    return STATUS_OK;
}

/* -- causes -- */

struct causes {
    int64_t *queue_end;    /* [queue_count]: of the latest op so far */
    uint32_t *match_first; /* [match_count]: its first op + 1 */
};

static enum status late_cause(const struct schedule *s, const struct timeline *t, uint32_t op, uint32_t cause,
                              int64_t cause_ps, const char *what, struct error *error)
{
    char name[NAME_BYTES], other[NAME_BYTES];
    if (cause != SCHED_NONE) {
        (void)snprintf(other, sizeof other, "op %u, ", cause);
        size_t length = strlen(other);
        (void)sched_op_text(s, cause, other + length, sizeof other - length);
    }
    return BAD(error, "op %u, %s: issued at %lld, ready at %lld ps, before %s%s at %lld ps", op,
               sched_op_text(s, op, name, sizeof name), (long long)t->ops[op].issued_ps, (long long)t->ops[op].ready_ps,
               what, cause == SCHED_NONE ? "" : other, (long long)cause_ps);
}

static enum status check_gates(const struct schedule *s, const struct timeline *t, uint32_t i, struct error *error)
{
    const struct op_times *x = &t->ops[i];
    char name[NAME_BYTES];
    if (x->issued_ps < 0 || x->ready_ps < x->issued_ps || x->matched_ps < x->ready_ps || x->start_ps < x->matched_ps ||
        x->end_ps < x->start_ps || x->end_ps > t->end_ps || x->alone_ps < 0) {
        return BAD(error,
                   "op %u, %s: its gates are not in order: issued %lld, ready %lld, matched %lld, start %lld, end %lld "
                   "of %lld, "
                   "alone %lld ps",
                   i, sched_op_text(s, i, name, sizeof name), (long long)x->issued_ps, (long long)x->ready_ps,
                   (long long)x->matched_ps, (long long)x->start_ps, (long long)x->end_ps, (long long)t->end_ps,
                   (long long)x->alone_ps);
    }
    return STATUS_OK;
}

/* Simulated partners share start and end to the picosecond; real ones must overlap. */
static enum status check_together(const struct schedule *s, const struct timeline *t, uint32_t a, uint32_t b,
                                  struct error *error)
{
    const struct op_times *x = &t->ops[a], *y = &t->ops[b];
    char name[NAME_BYTES], other[NAME_BYTES];
    bool simulated = strcmp(t->executor, "sim") == 0;
    bool fine = simulated ? x->start_ps == y->start_ps && x->end_ps == y->end_ps && x->matched_ps >= y->ready_ps &&
                                y->matched_ps >= x->ready_ps
                          : x->start_ps <= y->end_ps && y->start_ps <= x->end_ps;
    if (!fine) {
        return BAD(error, "op %u, %s, and its partner op %u, %s, do not run together: %lld to %lld, %lld to %lld ps", a,
                   sched_op_text(s, a, name, sizeof name), b, sched_op_text(s, b, other, sizeof other),
                   (long long)x->start_ps, (long long)x->end_ps, (long long)y->start_ps, (long long)y->end_ps);
    }
    return STATUS_OK;
}

static enum status check_op(const struct schedule *s, const struct timeline *t, struct causes *c, uint32_t i,
                            struct error *error)
{
    const struct sched_op *op = &s->ops[i];
    const struct op_times *x = &t->ops[i];
    if (x->ready_ps < c->queue_end[op->queue]) {
        return late_cause(s, t, i, SCHED_NONE, c->queue_end[op->queue], "the end of the op before it in its queue",
                          error);
    }
    c->queue_end[op->queue] = x->end_ps;
    for (uint32_t j = 0; j < op->dependency_count; j++) {
        uint32_t dependency = s->dependencies[op->first_dependency + j];
        if (x->ready_ps < t->ops[dependency].end_ps) {
            return late_cause(s, t, i, dependency, t->ops[dependency].end_ps, "the end of ", error);
        }
    }
    if (op->match != SCHED_NONE) {
        uint32_t first = c->match_first[op->match];
        if (first == 0) {
            c->match_first[op->match] = i + 1;
        } else {
            TRY(check_together(s, t, first - 1, i, error));
        }
    }
    return STATUS_OK;
}

static enum status check_causes(const struct schedule *s, const struct timeline *t, struct arena *scratch,
                                struct error *error)
{
    struct causes c = { arena_array(scratch, int64_t, s->queue_count), arena_array(scratch, uint32_t, s->match_count) };
    int64_t last = 0;
    if (c.queue_end == NULL || c.match_first == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: auditing %u ops", s->op_count);
    }
    for (uint32_t r = 0; r < s->rank_count; r++) {
        uint32_t end = s->ranks[r].first_op + s->ranks[r].op_count, fence = SCHED_NONE;
        int64_t issued = 0;
        for (uint32_t i = s->ranks[r].first_op; i < end; i++) {
            const struct op_times *x = &t->ops[i];
            TRY(check_gates(s, t, i, error));
            if (x->issued_ps < issued) {
                return late_cause(s, t, i, i - 1, issued, "the issue of ", error);
            }
            issued = x->issued_ps;
            if (fence != SCHED_NONE && x->issued_ps < t->ops[fence].end_ps) {
                return late_cause(s, t, i, fence, t->ops[fence].end_ps, "the end of what the host waits for, ", error);
            }
            fence = (s->ops[i].flags & OP_FLAG_HOST_WAITS) != 0 ? i : fence;
            TRY(check_op(s, t, &c, i, error));
            last = x->end_ps > last ? x->end_ps : last;
        }
    }
    if (last != t->end_ps) {
        return BAD(error, "the timeline ends at %lld ps, its last op at %lld ps", (long long)t->end_ps,
                   (long long)last);
    }
    return STATUS_OK;
}

/* -- resources -- */

/* Shares are sums of doubles over a component: 1e-9 is some 10^6 roundings; amounts are summed over all ops. */
#define CAPACITY_SLACK 1e-9
#define AMOUNT_SLACK   1e-6
#define RATE_SLACK     1e-6 /* rates are recorded as float */

static enum status check_resources(const struct timeline *t, const struct audit_resources *r, struct error *error)
{
    if (t->resources == NULL || t->resource_count != r->resource_count) {
        return BAD(error, "the timeline has %u resources, the cluster %u", t->resources == NULL ? 0 : t->resource_count,
                   r->resource_count);
    }
    for (uint32_t i = 0; i < r->resource_count; i++) {
        const struct resource_traffic *x = &t->resources[i];
        if (!(x->peak_use <= r->capacity[i] * (1 + CAPACITY_SLACK))) {
            return BAD(error, "resource %u is used at %.17g, its capacity is %.17g", i, x->peak_use, r->capacity[i]);
        }
        if (!(fabs(x->amount - r->asked[i]) <= AMOUNT_SLACK * fabs(r->asked[i]))) {
            return BAD(error, "resource %u moved %.17g, asked were %.17g", i, x->amount, r->asked[i]);
        }
        if (!(x->busy_s >= 0 && x->busy_s <= s_from_ps(t->end_ps) * (1 + CAPACITY_SLACK))) {
            return BAD(error, "resource %u was busy %.17g s of %.17g s", i, x->busy_s, s_from_ps(t->end_ps));
        }
    }
    return STATUS_OK;
}

static enum status check_rates(const struct timeline *t, struct error *error)
{
    int64_t last = 0;
    for (uint64_t i = 0; t->rates != NULL && i < t->rate_count; i++) {
        const struct rate_change *x = &t->rates[i];
        if (x->op >= t->op_count || x->time_ps < last || !(x->rate >= 0 && (double)x->rate <= 1 + RATE_SLACK)) {
            return BAD(error, "rate change %llu (op %u at %lld ps to %g) is out of order or range",
                       (unsigned long long)i, x->op, (long long)x->time_ps, (double)x->rate);
        }
        if (x->time_ps < t->ops[x->op].start_ps || x->time_ps > t->ops[x->op].end_ps) {
            return BAD(error, "rate change %llu of op %u at %lld ps is outside its run, %lld to %lld ps",
                       (unsigned long long)i, x->op, (long long)x->time_ps, (long long)t->ops[x->op].start_ps,
                       (long long)t->ops[x->op].end_ps);
        }
        last = x->time_ps;
    }
    return STATUS_OK;
}

enum status timeline_audit(const struct schedule *schedule, struct hash hash, const struct timeline *timeline,
                           const struct audit_resources *resources, struct error *error)
{
    struct arena scratch = { 0 };
    enum status status;
    TRY_OR_FAIL(check_shape(schedule, hash, timeline, error));
    if (timeline->outcome != TIMELINE_DONE) {
        TRY_OR_FAIL(check_blocked(schedule, timeline, error));
        goto fail; /* nothing wrong; the rest is about steps that ended */
    }
    TRY_OR_FAIL(check_causes(schedule, timeline, &scratch, error));
    TRY_OR_FAIL(audit_memory(schedule, timeline, &scratch, error));
    TRY_OR_FAIL(check_rates(timeline, error));
    if (resources != NULL) {
        TRY_OR_FAIL(check_resources(timeline, resources, error));
    }
fail:
    arena_free(&scratch);
    return status;
}
