/* The order of causes: queue order, dependencies, matches and host waits together.
 *
 * Every queue runs ahead until its head waits for an op that has not ended; it is parked at that op (or at its match) and taken up when that op ends. So each op and each
 * dependency is looked at once. What is left at the end waits in a cycle. */
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/strbuf.h"
#include "sim/ir/verify_internal.h"

struct runner {
    struct verifier *v;
    uint32_t *head;         /* [queue_count]: the next op, or SCHED_NONE */
    uint32_t *looked;       /* [queue_count]: dependencies of the head known to have ended; the fence is the first */
    uint32_t *row;          /* [queue_count]: of its latest op */
    uint32_t *next_parked;  /* [queue_count]: queues parked at the same place; queue + 1 */
    uint32_t *parked_match; /* [match_count] */
    uint32_t *arrived;      /* [match_count]: ops that stand ready */
    uint32_t *ready, ready_count;
    uint32_t sequence, done;
};

/* Bring what `cause` knew, and that it has ended, into the row of an op in its making; *own is false while that row is still its predecessor's. */
static enum status join(struct verifier *v, uint32_t width, uint32_t cause, uint32_t *row, bool *own)
{
    uint32_t local = v->local_queue[v->s->ops[cause].queue];
    if (v->rows.items[*row + local] > cause) {
        return STATUS_OK; /* known, and with it all that it knew */
    }
    if (!*own) {
        TRY(array_reserve(&v->rows, width, v->error));
        memcpy(v->rows.items + v->rows.count, v->rows.items + *row, width * sizeof *v->rows.items);
        *row = (uint32_t)v->rows.count;
        v->rows.count += width;
        *own = true;
    }
    uint32_t *to = v->rows.items + *row;
    const uint32_t *from = v->rows.items + v->row_of[cause];
    for (uint32_t i = 0; i < width; i++) {
        to[i] = to[i] < from[i] ? from[i] : to[i];
    }
    to[local] = cause + 1; /* more than `from` can know of the queue it stands in, and than `to` did */
    return STATUS_OK;
}

static enum status finish_op(struct runner *r, uint32_t queue, uint32_t op)
{
    struct verifier *v = r->v;
    const struct schedule *s = v->s;
    const struct sched_op *o = &s->ops[op];
    uint32_t rank = s->queues[queue].rank;
    uint32_t width = v->rank_first_queue[rank + 1] - v->rank_first_queue[rank];
    uint32_t row = r->row[queue];
    bool own = false;
    if (v->rows.count > UINT32_MAX - 2 * SCHED_RANK_QUEUES_MAX) {
        return error_set(v->error, STATUS_LIMIT, "the schedule has too many dependencies to verify");
    }
    if (v->fence != NULL && v->fence[op] != SCHED_NONE) {
        TRY(join(v, width, v->fence[op], &row, &own));
    }
    for (uint32_t i = 0; i < o->dependency_count; i++) {
        TRY(join(v, width, s->dependencies[o->first_dependency + i], &row, &own));
    }
    r->row[queue] = row;
    v->row_of[op] = row;
    uint32_t parked = v->state[op];
    v->state[op] = VERIFY_RAN | r->sequence;
    r->done++;
    r->head[queue] = v->next_in_queue[op];
    r->looked[queue] = 0;
    for (; parked != 0; parked = r->next_parked[parked - 1]) {
        r->ready[r->ready_count++] = parked - 1;
    }
    return STATUS_OK;
}

/* The first cause of a queue's head that has not ended, or SCHED_NONE. */
static uint32_t cause_missing(struct runner *r, uint32_t queue, uint32_t op)
{
    const struct verifier *v = r->v;
    const struct sched_op *o = &v->s->ops[op];
    if (r->looked[queue] == 0) {
        if (v->fence != NULL && v->fence[op] != SCHED_NONE && (v->state[v->fence[op]] & VERIFY_RAN) == 0) {
            return v->fence[op];
        }
        r->looked[queue] = 1;
    }
    for (; r->looked[queue] <= o->dependency_count; r->looked[queue]++) {
        uint32_t dependency = v->s->dependencies[o->first_dependency + r->looked[queue] - 1];
        if ((v->state[dependency] & VERIFY_RAN) == 0) {
            return dependency;
        }
    }
    return SCHED_NONE;
}

/* The head of `queue` is the last to arrive: all ops of its match run. */
static enum status run_match(struct runner *r, uint32_t queue, uint32_t match)
{
    for (uint32_t parked = r->parked_match[match]; parked != 0;) {
        uint32_t other = parked - 1;
        parked = r->next_parked[other];
        TRY(finish_op(r, other, r->head[other]));
        r->ready[r->ready_count++] = other;
    }
    return finish_op(r, queue, r->head[queue]);
}

static enum status run_queue(struct runner *r, uint32_t queue)
{
    while (r->head[queue] != SCHED_NONE) {
        uint32_t op = r->head[queue], match = r->v->s->ops[op].match;
        uint32_t cause = cause_missing(r, queue, op);
        if (cause != SCHED_NONE) {
            r->next_parked[queue] = r->v->state[cause];
            r->v->state[cause] = queue + 1;
            return STATUS_OK;
        }
        if (match != SCHED_NONE && ++r->arrived[match] < r->v->s->matches[match].op_count) {
            r->next_parked[queue] = r->parked_match[match];
            r->parked_match[match] = queue + 1;
            return STATUS_OK;
        }
        r->sequence++;
        TRY(match == SCHED_NONE ? finish_op(r, queue, op) : run_match(r, queue, match));
    }
    return STATUS_OK;
}

/* -- the cycle -- */

/* What an op that never ran waits for, and why. */
static uint32_t waits_for(struct runner *r, uint32_t op, const char **why)
{
    const struct verifier *v = r->v;
    const struct schedule *s = v->s;
    uint32_t queue = s->ops[op].queue;
    if (r->head[queue] != op) {
        *why = "which stands before it in its queue";
        return r->head[queue];
    }
    uint32_t cause = cause_missing(r, queue, op);
    if (cause != SCHED_NONE) {
        *why = v->fence != NULL && cause == v->fence[op] ? "which the host waits for" : "on which it depends";
        return cause;
    }
    uint32_t match = s->ops[op].match;
    CHECK(match != SCHED_NONE);
    *why = "its match partner";
    for (uint32_t i = v->match_start[match]; i < v->match_start[match + 1]; i++) {
        uint32_t partner = v->match_ops[i], other = s->ops[partner].queue;
        if (r->head[other] != partner || cause_missing(r, other, partner) != SCHED_NONE) {
            return partner;
        }
    }
    check_failed("a full match has run", __FILE__, __LINE__);
}

static enum status report_cycle(struct runner *r)
{
    enum { LINKS_SHOWN = 6 };
    struct verifier *v = r->v;
    uint32_t start = 0, links = 0;
    const char *why;
    char name[OP_NAME_BYTES];
    struct strbuf text = { 0 };
    TRY(verify_list_matches(v));
    while (r->head[start] == SCHED_NONE) {
        start++;
    }
    /* Every op waits for another one, so the walk comes back to where it was. Rows of ops that never ran are free for marks. */
    uint32_t op = r->head[start];
    while (v->row_of[op] == 0) {
        v->row_of[op] = 1;
        op = waits_for(r, op, &why);
    }
    uint32_t first = op;
    do {
        uint32_t next = waits_for(r, op, &why);
        if (links < LINKS_SHOWN) {
            strbuf_printf(&text, "%s%s waits for ", links == 0 ? "" : "; ", verify_op_name(v, op, name));
            strbuf_printf(&text, "op %u, %s", next, why);
        }
        links++;
        op = next;
    } while (op != first);
    if (links > LINKS_SHOWN) {
        strbuf_printf(&text, "; and %u more back to op %u", links - LINKS_SHOWN, first);
    }
    enum status status = error_set(v->error, STATUS_BAD_SCHEDULE, "ops wait for each other in a cycle: %s",
                                   text.failed ? "" : text.text);
    strbuf_free(&text);
    return status;
}

static enum status start(struct runner *r)
{
    struct verifier *v = r->v;
    const struct schedule *s = v->s;
    r->head = verify_array(v, uint32_t, s->queue_count);
    r->looked = verify_array(v, uint32_t, s->queue_count);
    r->row = verify_array(v, uint32_t, s->queue_count);
    r->next_parked = verify_array(v, uint32_t, s->queue_count);
    r->parked_match = verify_array(v, uint32_t, s->match_count);
    r->arrived = verify_array(v, uint32_t, s->match_count);
    r->ready = verify_array(v, uint32_t, s->queue_count);
    v->state = verify_array(v, uint32_t, s->op_count);
    v->row_of = verify_array(v, uint32_t, s->op_count);
    if (r->head == NULL || r->looked == NULL || r->row == NULL || r->next_parked == NULL || r->parked_match == NULL ||
        r->arrived == NULL || r->ready == NULL || v->state == NULL || v->row_of == NULL) {
        return STATUS_NO_MEMORY;
    }
    /* Row 0 knows nothing. Most schedules need about an entry an op or two; pages not touched cost nothing. */
    TRY(array_reserve(&v->rows, SCHED_RANK_QUEUES_MAX + (size_t)4 * s->op_count, v->error));
    memset(v->rows.items, 0, SCHED_RANK_QUEUES_MAX * sizeof *v->rows.items);
    v->rows.count = SCHED_RANK_QUEUES_MAX;
    for (uint32_t i = 0; i < s->queue_count; i++) {
        r->head[i] = v->queue_first[i];
        r->ready[i] = s->queue_count - 1 - i;
    }
    r->ready_count = s->queue_count;
    return STATUS_OK;
}

enum status verify_order(struct verifier *v)
{
    struct runner r = { .v = v };
    TRY(start(&r));
    while (r.ready_count > 0) {
        TRY(run_queue(&r, r.ready[--r.ready_count]));
    }
    return r.done == v->s->op_count ? STATUS_OK : report_cycle(&r);
}
