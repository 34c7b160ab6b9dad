/* Walking back through schedule and timeline: critical_path.h has the rules. */
#include "sim/report/critical_path.h"

#include <string.h>

#include "sim/base/check.h"
#include "sim/engine/cost_table.h"

struct walker {
    const struct schedule *s;
    const struct op_times *times;
    const struct cost_table *costs;
    struct critical_path *path;
    uint32_t *ahead;       /* [op]: the one before it in its queue, or SCHED_NONE */
    uint32_t *match_first; /* [match]: lowest op, or SCHED_NONE */
    uint32_t *match_next;  /* [op]: next partner, or SCHED_NONE */
    int64_t from_ps;       /* where the step begins */
    int64_t cursor_ps;     /* all from here to the end is explained */
    uint32_t capacity;
    bool out_of_memory;
};

/* The span from `from_ps` to the cursor, as far as it lies in the step. Spans are kept backwards until the end. */
static void explain(struct walker *w, int64_t from_ps, uint32_t op, enum path_cause cause)
{
    struct critical_path *path = w->path;
    from_ps = from_ps > w->from_ps ? from_ps : w->from_ps;
    if (from_ps >= w->cursor_ps) {
        return;
    }
    if (path->span_count == w->capacity) {
        uint32_t capacity = w->capacity == 0 ? 1024 : 2 * w->capacity;
        struct path_span *spans = arena_array(&path->arena, struct path_span, capacity);
        if (spans == NULL) {
            w->out_of_memory = true;
            return;
        }
        if (path->span_count != 0) {
            memcpy(spans, path->spans, path->span_count * sizeof *spans);
        }
        path->spans = spans;
        w->capacity = capacity;
    }
    path->spans[path->span_count++] =
        (struct path_span){ .from_ps = from_ps, .to_ps = w->cursor_ps, .op = op, .cause = cause };
    w->cursor_ps = from_ps;
}

static uint32_t first_partner(const struct walker *w, uint32_t op)
{
    uint32_t match = w->s->ops[op].match;
    return match == SCHED_NONE ? op : w->match_first[match];
}

static const struct op_cost *cost_of(const struct walker *w, uint32_t op)
{
    return &w->costs->costs[w->costs->op_costs[op]];
}

static enum path_cause own_cause(const struct sched_op *op)
{
    bool by_phase = op->opcode == OP_COMPUTE || op->opcode == OP_DELAY;
    return (enum path_cause)(by_phase ? (int)op->phase : (int)PATH_FIRST_OPCODE + (int)op->opcode);
}

/* The run of an op, the cursor being its end. */
static void explain_run(struct walker *w, uint32_t op)
{
    const struct op_times *t = &w->times[op];
    int64_t beyond_ps = t->end_ps - t->start_ps - t->alone_ps, merged_ps = 0;
    bool late = false;
    for (uint32_t i = first_partner(w, op); i != SCHED_NONE; i = w->match_next[i]) {
        late = late || t->end_ps == w->times[i].issued_ps + cost_of(w, i)->issue_tail_ps;
    }
    if (w->s->ops[op].opcode == OP_COMPUTE) {
        merged_ps = cost_of(w, op)->exposed_collective_ps;
        merged_ps = merged_ps > t->alone_ps ? t->alone_ps : merged_ps;
    }
    if (beyond_ps > 0) {
        explain(w, t->end_ps - beyond_ps, op, late ? PATH_HOST_ISSUE : PATH_CONTENTION);
    }
    explain(w, w->cursor_ps - merged_ps, op, (enum path_cause)PHASE_TENSOR_COMM);
    explain(w, t->start_ps, op, own_cause(&w->s->ops[op]));
}

/* The op before `op` whose end at `end_ps` let the host go on: one that it waits for by name, else one whose launches it waited for. */
static uint32_t awaited_by_host(const struct walker *w, uint32_t first, uint32_t op, int64_t end_ps)
{
    const uint8_t waits = OP_FLAG_HOST_WAITS | OP_FLAG_BUSY_HOST;
    if ((w->s->ops[op - 1].flags & waits) != 0 && w->times[op - 1].end_ps == end_ps) {
        return op - 1; /* nothing is issued behind it before it ends */
    }
    for (uint32_t i = op; i-- > first;) {
        if (w->times[i].end_ps == end_ps) {
            return i;
        }
    }
    return SCHED_NONE;
}

/* The host's thread, the cursor being when it issued `op`. Returns the op whose end let it go on, or SCHED_NONE at the start of the step. */
static uint32_t explain_host(struct walker *w, uint32_t op)
{
    uint32_t first = w->s->ranks[sched_op_rank(w->s, &w->s->ops[op])].first_op;
    for (;; op--) {
        const struct op_cost *cost = cost_of(w, op);
        uint8_t flags = w->s->ops[op].flags;
        int64_t began_ps = w->times[op].issued_ps - cost->issue_first_ps -
                           (flags & OP_FLAG_MICRO_BATCH ? w->costs->micro_batch_ps : 0) -
                           (flags & OP_FLAG_STEP ? w->costs->step_ps : 0);
        if (op == first) {
            explain(w, began_ps, op, PATH_HOST_ISSUE);
            return SCHED_NONE;
        }
        int64_t free_ps = w->times[op - 1].issued_ps + cost_of(w, op - 1)->issue_rest_ps;
        if (began_ps != free_ps) { /* it waited for an op to end */
            explain(w, began_ps, op, PATH_HOST_ISSUE);
            return awaited_by_host(w, first, op, began_ps);
        }
        explain(w, w->times[op - 1].issued_ps, op, PATH_HOST_ISSUE);
    }
}

/* What made `op` ready, the cursor being that moment. */
static uint32_t cause_of_ready(struct walker *w, uint32_t op, enum path_link *link)
{
    const struct sched_op *at = &w->s->ops[op];
    for (uint32_t i = 0; i < at->dependency_count; i++) {
        uint32_t before = w->s->dependencies[at->first_dependency + i];
        if (w->times[before].end_ps == w->cursor_ps) {
            *link = PATH_BY_DEPENDENCY;
            return before;
        }
    }
    if (w->ahead[op] != SCHED_NONE && w->times[w->ahead[op]].end_ps == w->cursor_ps) {
        *link = PATH_BY_QUEUE;
        return w->ahead[op];
    }
    if (w->times[op].issued_ps == w->cursor_ps) {
        *link = PATH_BY_HOST;
        return explain_host(w, op);
    }
    return SCHED_NONE;
}

static void set_links(struct critical_path *path, uint32_t from, uint32_t to, enum path_link link)
{
    for (uint32_t i = from; i < to; i++) {
        path->spans[i].link = link;
    }
}

/* From the op that ends last (or `begins` when the step has ended) back to the step's begin: what comes before an op stands before it in the schedule's order, so the way is at most as long as
 * that. Only ops that take no time, issued by a host that costs nothing, could be mistaken for each other's cause; `left` ends that. */
static void walk(struct walker *w, uint32_t op, bool begins)
{
    for (uint32_t left = w->s->op_count; op != SCHED_NONE && w->cursor_ps > w->from_ps && left > 0 && !w->out_of_memory;
         left--) {
        uint32_t first_span = w->path->span_count, last = op;
        if (!begins) {
            explain_run(w, op);
        }
        begins = false;
        explain(w, w->times[op].matched_ps, op, PATH_MEMORY_WAIT);
        for (uint32_t i = first_partner(w, op); i != SCHED_NONE; i = w->match_next[i]) {
            last = w->times[i].ready_ps > w->times[last].ready_ps ? i : last;
        }
        uint32_t end_span = w->path->span_count;
        enum path_link link = PATH_BY_START;
        uint32_t before = w->cursor_ps > w->from_ps ? cause_of_ready(w, last, &link) : SCHED_NONE;
        set_links(w->path, end_span, w->path->span_count, PATH_BY_HOST);
        set_links(w->path, first_span, end_span, last != op ? PATH_BY_MATCH : link);
        op = before;
    }
    explain(w, w->from_ps, SCHED_NONE, PATH_UNEXPLAINED);
}

/* The op with which the way back from the step's end begins: that which ends last; of several steps that with which the next one begins. */
static uint32_t find_end(const struct schedule *s, const struct op_times *times, bool several)
{
    uint32_t end = SCHED_NONE, count = several ? s->ranks[0].first_op + s->ranks[0].op_count : s->op_count;
    for (uint32_t i = several ? s->ranks[0].first_op : 0; i < count; i++) {
        bool later = end == SCHED_NONE || times[i].end_ps > times[end].end_ps;
        if (several ? (s->ops[i].flags & OP_FLAG_STEP) != 0 : later) {
            end = i;
        }
    }
    return end;
}

static enum status prepare(struct walker *w, struct arena *arena, struct error *error)
{
    const struct schedule *s = w->s;
    uint32_t *queue_last = arena_array(arena, uint32_t, s->queue_count);
    uint32_t *match_last = arena_array(arena, uint32_t, s->match_count);
    w->ahead = arena_array(arena, uint32_t, s->op_count);
    w->match_first = arena_array(arena, uint32_t, s->match_count);
    w->match_next = arena_array(arena, uint32_t, s->op_count);
    w->path->rank_ps = arena_array(&w->path->arena, int64_t, s->rank_count);
    if (queue_last == NULL || match_last == NULL || w->ahead == NULL || w->match_first == NULL ||
        w->match_next == NULL || w->path->rank_ps == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: the critical path of %u ops", s->op_count);
    }
    w->path->rank_count = s->rank_count;
    for (uint32_t i = 0; i < s->queue_count; i++) {
        queue_last[i] = SCHED_NONE;
    }
    for (uint32_t i = 0; i < s->match_count; i++) {
        w->match_first[i] = SCHED_NONE;
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        w->ahead[i] = queue_last[op->queue];
        queue_last[op->queue] = i;
        w->match_next[i] = SCHED_NONE;
        if (op->match != SCHED_NONE) {
            if (w->match_first[op->match] == SCHED_NONE) {
                w->match_first[op->match] = i;
            } else {
                w->match_next[match_last[op->match]] = i;
            }
            match_last[op->match] = i;
        }
    }
    return STATUS_OK;
}

/* Keeps the `top` sorted: descending by time, then by index. */
static void offer_top(struct critical_path *path, uint32_t op, int64_t time_ps)
{
    uint32_t at = path->top_count;
    while (at > 0 && path->top[at - 1].time_ps < time_ps) {
        at--;
    }
    if (at == PATH_TOP_MAX) {
        return;
    }
    path->top_count += path->top_count < PATH_TOP_MAX;
    for (uint32_t i = path->top_count - 1; i > at; i--) {
        path->top[i] = path->top[i - 1];
    }
    path->top[at] = (struct path_op){ op, time_ps };
}

static enum status add_up(struct walker *w, struct arena *arena, struct error *error)
{
    struct critical_path *path = w->path;
    int64_t *op_ps = arena_array(arena, int64_t, w->s->op_count);
    if (op_ps == NULL || w->out_of_memory) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: the critical path of %u ops", w->s->op_count);
    }
    for (uint32_t i = 0, k = path->span_count; i + 1 < k; i++) {
        struct path_span swap = path->spans[i];
        path->spans[i] = path->spans[--k];
        path->spans[k] = swap;
    }
    for (uint32_t i = 0; i < path->span_count; i++) {
        const struct path_span *span = &path->spans[i];
        int64_t long_ps = span->to_ps - span->from_ps;
        path->length_ps += long_ps;
        path->cause_ps[span->cause] += long_ps;
        path->link_ps[span->link] += long_ps;
        if (span->op != SCHED_NONE) {
            path->rank_ps[sched_op_rank(w->s, &w->s->ops[span->op])] += long_ps;
            op_ps[span->op] += long_ps;
        }
    }
    for (uint32_t i = 0; i < w->s->op_count; i++) {
        if (op_ps[i] > 0) {
            offer_top(path, i, op_ps[i]);
        }
    }
    return STATUS_OK;
}

enum status critical_path_find(struct critical_path *path, const struct result_input *input, struct error *error)
{
    struct cost_table costs = { 0 };
    struct arena scratch = { 0 };
    struct walker w = { .s = input->schedule, .times = input->timeline->ops, .costs = &costs, .path = path };
    enum status status = STATUS_OK;
    *path = (struct critical_path){ 0 };
    if (input->timeline->resources == NULL) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "the critical path is that of a simulated step; what holds a measured one up is not recorded");
    }
    if (input->timeline->outcome != TIMELINE_DONE) {
        return error_set(error, STATUS_UNSUPPORTED, "a step that did not end has no critical path");
    }
    TRY(cost_table_build(&costs, input->schedule, input->cluster, input->software, error));
    TRY_OR_FAIL(prepare(&w, &scratch, error));
    const struct step_window window = timeline_step(w.s, input->timeline);
    w.from_ps = window.from_ps;
    w.cursor_ps = window.to_ps;
    walk(&w, find_end(w.s, w.times, window.steps > 1), window.steps > 1);
    TRY_OR_FAIL(add_up(&w, &scratch, error));
fail:
    if (status != STATUS_OK) {
        critical_path_free(path);
    }
    arena_free(&scratch);
    cost_table_free(&costs);
    return status;
}

void critical_path_free(struct critical_path *path)
{
    arena_free(&path->arena);
    *path = (struct critical_path){ 0 };
}
