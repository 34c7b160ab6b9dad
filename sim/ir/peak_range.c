#include "sim/ir/peak_range.h"

#include <stdlib.h>

#include "sim/base/arena.h"
#include "sim/base/check.h"
#include "sim/core/max_flow.h"

/* What begins and ends together: an op, or all ops of a match. */
struct range_graph {
    const struct schedule *s;
    struct arena arena;
    uint32_t activity_count;
    uint32_t *activity;               /* [op_count] */
    uint32_t *place;                  /* [op_count]: in its queue */
    uint32_t *queue_length;           /* [queue_count] */
    uint32_t *first_member, *members; /* [activity_count + 1], [op_count]: ops */
    uint32_t *first_cause, *causes;   /* [activity_count + 1]: activities that end before it begins */
    uint32_t *order;                  /* [activity_count]: causes first */
    /* [activity_count][queue_count]: how many ops of the queue have ended when it begins; and the first that begins after it has ended. */
    uint32_t *ended, *begins;
    uint32_t *acquirer, *releaser; /* [buffer_count]: ops, or SCHED_NONE (live at start, end) */
    uint32_t *list;                /* [buffer_count]: room for the buffers of one space */
};

static uint32_t *numbers(struct range_graph *g, size_t count)
{
    return arena_array(&g->arena, uint32_t, count);
}

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory for the range of peaks");
}

/* Calls of one op's causes: what stands before it in its queue, what it depends on, what its host waited for. `into` NULL: only counts. */
struct cause_walk {
    uint32_t *into, count;
};

static void add_cause(const struct range_graph *g, struct cause_walk *walk, uint32_t op)
{
    if (op != SCHED_NONE) {
        if (walk->into != NULL) {
            walk->into[walk->count] = g->activity[op];
        }
        walk->count++;
    }
}

/* Of all ops, activity by activity only by accident: `each` says where an activity's causes go. */
static void walk_causes(struct range_graph *g, uint32_t *queue_last, struct cause_walk *each)
{
    const struct schedule *s = g->s;
    for (uint32_t q = 0; q < s->queue_count; q++) {
        queue_last[q] = SCHED_NONE;
    }
    for (uint32_t r = 0; r < s->rank_count; r++) {
        uint32_t fence = SCHED_NONE, end = s->ranks[r].first_op + s->ranks[r].op_count;
        for (uint32_t op = s->ranks[r].first_op; op < end; op++) {
            const struct sched_op *o = &s->ops[op];
            struct cause_walk *walk = &each[g->activity[op]];
            add_cause(g, walk, queue_last[o->queue]);
            add_cause(g, walk, fence);
            for (uint32_t i = 0; i < o->dependency_count; i++) {
                add_cause(g, walk, s->dependencies[o->first_dependency + i]);
            }
            queue_last[o->queue] = op;
            fence = (o->flags & OP_FLAG_HOST_WAITS) != 0 ? op : fence;
        }
    }
}

static enum status find_activities(struct range_graph *g, struct error *error)
{
    const struct schedule *s = g->s;
    uint32_t *of_match = numbers(g, (size_t)s->match_count + 1);
    g->activity = numbers(g, s->op_count);
    g->place = numbers(g, s->op_count);
    g->queue_length = numbers(g, s->queue_count);
    g->members = numbers(g, s->op_count);
    g->first_member = numbers(g, (size_t)s->op_count + 1);
    if (of_match == NULL || g->activity == NULL || g->place == NULL || g->queue_length == NULL || g->members == NULL ||
        g->first_member == NULL) {
        return no_memory(error);
    }
    for (uint32_t op = 0; op < s->op_count; op++) {
        uint32_t match = s->ops[op].match;
        g->place[op] = g->queue_length[s->ops[op].queue]++;
        if (match != SCHED_NONE && of_match[match] != 0) {
            g->activity[op] = of_match[match] - 1;
        } else {
            g->activity[op] = g->activity_count++;
            if (match != SCHED_NONE) {
                of_match[match] = g->activity_count;
            }
        }
        g->first_member[g->activity[op] + 1]++;
    }
    for (uint32_t a = 0; a < g->activity_count; a++) {
        g->first_member[a + 1] += g->first_member[a];
    }
    uint32_t *filled = numbers(g, g->activity_count);
    if (filled == NULL) {
        return no_memory(error);
    }
    for (uint32_t op = 0; op < s->op_count; op++) {
        uint32_t a = g->activity[op];
        g->members[g->first_member[a] + filled[a]++] = op;
    }
    return STATUS_OK;
}

static enum status find_causes(struct range_graph *g, struct error *error)
{
    uint32_t *queue_last = numbers(g, g->s->queue_count);
    struct cause_walk *each = arena_array(&g->arena, struct cause_walk, g->activity_count);
    g->first_cause = numbers(g, (size_t)g->activity_count + 1);
    if (queue_last == NULL || each == NULL || g->first_cause == NULL) {
        return no_memory(error);
    }
    walk_causes(g, queue_last, each);
    for (uint32_t a = 0; a < g->activity_count; a++) {
        g->first_cause[a + 1] = g->first_cause[a] + each[a].count;
    }
    g->causes = numbers(g, g->first_cause[g->activity_count]);
    if (g->causes == NULL) {
        return no_memory(error);
    }
    for (uint32_t a = 0; a < g->activity_count; a++) {
        each[a] = (struct cause_walk){ .into = g->causes + g->first_cause[a] };
    }
    walk_causes(g, queue_last, each);
    return STATUS_OK;
}

/* Causes first: depth first along them, without recursion. A verified schedule has no cycle. */
static enum status find_order(struct range_graph *g, struct error *error)
{
    enum { NEW, OPEN, DONE };
    uint32_t *next = numbers(g, g->activity_count), *stack = numbers(g, g->activity_count), count = 0;
    uint8_t *state = arena_array(&g->arena, uint8_t, g->activity_count);
    g->order = numbers(g, g->activity_count);
    if (next == NULL || stack == NULL || state == NULL || g->order == NULL) {
        return no_memory(error);
    }
    for (uint32_t start = 0; start < g->activity_count; start++) {
        uint32_t depth = 0;
        if (state[start] == NEW) {
            stack[depth++] = start;
            state[start] = OPEN;
            next[start] = g->first_cause[start];
        }
        while (depth > 0) {
            uint32_t a = stack[depth - 1];
            if (next[a] == g->first_cause[a + 1]) {
                state[a] = DONE;
                g->order[count++] = a;
                depth--;
                continue;
            }
            uint32_t cause = g->causes[next[a]++];
            CHECK(state[cause] != OPEN);
            if (state[cause] == NEW) {
                stack[depth++] = cause;
                state[cause] = OPEN;
                next[cause] = g->first_cause[cause];
            }
        }
    }
    return STATUS_OK;
}

static uint32_t *row(const struct range_graph *g, uint32_t *rows, uint32_t a)
{
    return rows + (size_t)a * g->s->queue_count;
}

static enum status find_clocks(struct range_graph *g, struct error *error)
{
    const struct schedule *s = g->s;
    uint32_t width = s->queue_count;
    g->ended = arena_alloc(&g->arena, g->activity_count, width * sizeof *g->ended);
    g->begins = arena_alloc(&g->arena, g->activity_count, width * sizeof *g->begins);
    if (g->ended == NULL || g->begins == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < g->activity_count; i++) {
        uint32_t a = g->order[i], *own = row(g, g->ended, a);
        for (uint32_t q = 0; q < width; q++) {
            row(g, g->begins, a)[q] = g->queue_length[q];
        }
        for (uint32_t c = g->first_cause[a]; c < g->first_cause[a + 1]; c++) {
            uint32_t cause = g->causes[c];
            const uint32_t *its = row(g, g->ended, cause);
            for (uint32_t q = 0; q < width; q++) {
                own[q] = own[q] < its[q] ? its[q] : own[q];
            }
            for (uint32_t m = g->first_member[cause]; m < g->first_member[cause + 1]; m++) {
                uint32_t op = g->members[m], q = s->ops[op].queue;
                own[q] = own[q] < g->place[op] + 1 ? g->place[op] + 1 : own[q];
            }
        }
    }
    for (uint32_t i = g->activity_count; i-- > 0;) {
        uint32_t a = g->order[i];
        const uint32_t *own = row(g, g->begins, a);
        for (uint32_t c = g->first_cause[a]; c < g->first_cause[a + 1]; c++) {
            uint32_t *its = row(g, g->begins, g->causes[c]);
            for (uint32_t q = 0; q < width; q++) {
                its[q] = own[q] < its[q] ? own[q] : its[q];
            }
            for (uint32_t m = g->first_member[a]; m < g->first_member[a + 1]; m++) {
                uint32_t op = g->members[m], q = s->ops[op].queue;
                its[q] = g->place[op] < its[q] ? g->place[op] : its[q];
            }
        }
    }
    return STATUS_OK;
}

static enum status find_lives(struct range_graph *g, struct error *error)
{
    const struct schedule *s = g->s;
    g->acquirer = numbers(g, s->buffer_count);
    g->releaser = numbers(g, s->buffer_count);
    g->list = numbers(g, s->buffer_count);
    if (g->acquirer == NULL || g->releaser == NULL || g->list == NULL) {
        return no_memory(error);
    }
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        g->acquirer[b] = g->releaser[b] = SCHED_NONE;
    }
    for (uint32_t op = 0; op < s->op_count; op++) {
        for (uint32_t i = 0; i < s->ops[op].acquire_count; i++) {
            g->acquirer[sched_acquires(s, &s->ops[op])[i]] = op;
        }
        for (uint32_t i = 0; i < s->ops[op].release_count; i++) {
            g->releaser[sched_releases(s, &s->ops[op])[i]] = op;
        }
    }
    return STATUS_OK;
}

static bool charges(const struct schedule *s, uint32_t buffer, uint32_t space)
{
    uint32_t at = s->buffers[buffer].space;
    while (at != SCHED_NONE && at != space) {
        at = s->spaces[at].parent;
    }
    return at == space;
}

static uint64_t bytes_of(const struct schedule *s, uint32_t buffer)
{
    return s->buffers[buffer].bytes * s->buffers[buffer].copies;
}

/* A buffer that is neither acquired nor live at the start is never live. */
static bool ever_lives(const struct range_graph *g, uint32_t buffer)
{
    return g->acquirer[buffer] != SCHED_NONE || (g->s->buffers[buffer].flags & BUFFER_LIVE_AT_START) != 0;
}

static bool surely_lives(const struct range_graph *g, uint32_t buffer, uint32_t activity)
{
    const struct schedule *s = g->s;
    uint32_t from = g->acquirer[buffer], to = g->releaser[buffer];
    bool has_begun = from == SCHED_NONE || g->activity[from] == activity ||
                     g->place[from] < row(g, g->ended, activity)[s->ops[from].queue];
    return has_begun && (to == SCHED_NONE || g->activity[to] == activity ||
                         g->place[to] >= row(g, g->begins, activity)[s->ops[to].queue]);
}

/* Marks and empty delays pass within an instant, and peaks are of whole instants: what lives while they run need not be seen. */
static bool takes_time(const struct range_graph *g, uint32_t activity)
{
    const struct schedule *s = g->s;
    const struct sched_op *op = &s->ops[g->members[g->first_member[activity]]];
    return op->work != SCHED_NONE && !(s->works[op->work].kind == WORK_FIXED && s->works[op->work].fixed_ps == 0);
}

static uint64_t least_of(const struct range_graph *g, const uint32_t *buffers, uint32_t count)
{
    uint64_t least = 0;
    for (uint32_t i = 0; i < count; i++) { /* at the start, before any op */
        least += g->acquirer[buffers[i]] == SCHED_NONE ? bytes_of(g->s, buffers[i]) : 0;
    }
    for (uint32_t a = 0; a < g->activity_count; a++) {
        uint64_t sum = 0;
        if (!takes_time(g, a)) {
            continue;
        }
        for (uint32_t i = 0; i < count; i++) {
            sum += surely_lives(g, buffers[i], a) ? bytes_of(g->s, buffers[i]) : 0;
        }
        least = sum > least ? sum : least;
    }
    return least;
}

/* Nodes: an activity has begun (2 a), has ended (2 a + 1); source, sink. Weights pull from the source (an acquisition) and push to the sink (a release). */
static enum status most_of(struct range_graph *g, const uint32_t *buffers, uint32_t count, uint64_t *most,
                           struct error *error)
{
    uint32_t source = 2 * g->activity_count, sink = source + 1, edge_count = 0;
    size_t room = (size_t)g->activity_count + g->first_cause[g->activity_count] + 2 * (size_t)count;
    struct flow_edge *edges = calloc(room + 1, sizeof *edges);
    uint64_t gains = 0, cut = 0;
    if (edges == NULL) {
        return no_memory(error);
    }
    for (uint32_t a = 0; a < g->activity_count; a++) {
        edges[edge_count++] = (struct flow_edge){ 2 * a + 1, 2 * a, FLOW_UNLIMITED };
        for (uint32_t c = g->first_cause[a]; c < g->first_cause[a + 1]; c++) {
            edges[edge_count++] = (struct flow_edge){ 2 * a, 2 * g->causes[c] + 1, FLOW_UNLIMITED };
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t from = g->acquirer[buffers[i]], to = g->releaser[buffers[i]];
        uint64_t bytes = bytes_of(g->s, buffers[i]);
        gains += bytes; /* of what lives from the start without any op */
        if (from != SCHED_NONE) {
            edges[edge_count++] = (struct flow_edge){ source, 2 * g->activity[from], bytes };
        }
        if (to != SCHED_NONE) {
            edges[edge_count++] = (struct flow_edge){ 2 * g->activity[to] + 1, sink, bytes };
        }
    }
    enum status status = max_flow(sink + 1, edges, edge_count, source, sink, &cut, error);
    free(edges);
    *most = gains - cut;
    return status;
}

static enum status range_of(struct range_graph *g, uint32_t space, struct peak_range *range, struct error *error)
{
    uint32_t count = 0;
    for (uint32_t b = 0; b < g->s->buffer_count; b++) {
        if (charges(g->s, b, space) && ever_lives(g, b)) {
            g->list[count++] = b;
        }
    }
    range->least_bytes = least_of(g, g->list, count);
    return most_of(g, g->list, count, &range->most_bytes, error);
}

static enum status find_ranges(struct range_graph *g, struct peak_range *ranges, struct error *error)
{
    TRY(find_activities(g, error));
    TRY(find_causes(g, error));
    TRY(find_order(g, error));
    TRY(find_clocks(g, error));
    TRY(find_lives(g, error));
    for (uint32_t space = 0; space < g->s->space_count; space++) {
        TRY(range_of(g, space, &ranges[space], error));
    }
    return STATUS_OK;
}

enum status peak_ranges(const struct schedule *schedule, struct peak_range *ranges, struct error *error)
{
    struct range_graph g = { .s = schedule };
    if ((uint64_t)schedule->op_count * schedule->buffer_count > PEAK_RANGE_WORK_MAX) {
        return error_set(error, STATUS_LIMIT, "%u ops and %u buffers are too many for the range of their peaks",
                         schedule->op_count, schedule->buffer_count);
    }
    enum status status = find_ranges(&g, ranges, error);
    arena_free(&g.arena);
    return status;
}
