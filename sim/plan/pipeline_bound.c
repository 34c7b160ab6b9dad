#include "sim/plan/pipeline_bound.h"

#include <stdlib.h>

#include "sim/base/arena.h"
#include "sim/base/check.h"

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- ways of one micro-batch ---- */

/* The longest from the start to the begin of a virtual stage's pass, and from the end of the pass to the end of all. */
struct ways {
    int64_t to_forward, to_backward, from_forward, from_backward;
};

static int64_t hop_after(const struct pipeline_bound_request *r, uint32_t virtual_stage)
{
    return r->stages[virtual_stage].device == r->stages[virtual_stage + 1].device ? 0 : r->hop;
}

/* Of the virtual stages first .. last, a whole model. */
static void find_ways(const struct pipeline_bound_request *r, struct ways *ways, uint32_t first, uint32_t last)
{
    for (uint32_t v = first; v <= last; v++) {
        ways[v].to_forward = 0;
        ways[v].from_backward = r->stages[v].weight;
        if (v > first) {
            const struct bound_stage *before = &r->stages[v - 1];
            int64_t hop = hop_after(r, v - 1);
            ways[v].to_forward = ways[v - 1].to_forward + before->forward + hop;
            ways[v].from_backward = later(ways[v].from_backward, hop + before->backward + ways[v - 1].from_backward);
        }
    }
    for (uint32_t v = last + 1; v-- > first;) {
        const struct bound_stage *own = &r->stages[v];
        ways[v].to_backward = ways[v].to_forward + own->forward + own->again;
        ways[v].from_forward = own->again + own->backward + ways[v].from_backward;
        if (v < last) {
            const struct bound_stage *next = &r->stages[v + 1];
            int64_t hop = hop_after(r, v);
            ways[v].to_backward = later(ways[v].to_backward, ways[v + 1].to_backward + next->backward + hop);
            ways[v].from_forward = later(ways[v].from_forward, hop + next->forward + ways[v + 1].from_forward);
        }
    }
}

/* ---- one device ---- */

/* Passes of one kind and virtual stage: alike for every micro-batch. */
struct passes {
    int64_t before, work, after;
    uint32_t device;
    uint32_t place; /* among those of the device, in the order of `before` */
};

/* A node of a tree over places: of the passes beneath it that are in the set, all work; and the most of: what is before one of them, its work and that of those behind it. */
struct node {
    int64_t work, most;
};

struct search {
    const struct pipeline_bound_request *request;
    struct arena arena;
    struct ways *ways;       /* [virtual_count] */
    struct passes *passes;   /* [4 * virtual_count], by device, then by before */
    struct passes *by_after; /* those of one device, by after, falling */
    struct node *tree;       /* [2 * leaves of the largest device], its root at 1 */
    uint32_t count;
};

static int compare_before(const void *a, const void *b)
{
    const struct passes *x = a, *y = b;
    if (x->device != y->device) {
        return x->device < y->device ? -1 : 1;
    }
    return x->before < y->before ? -1 : x->before > y->before;
}

static int compare_after(const void *a, const void *b)
{
    const struct passes *x = a, *y = b;
    return x->after > y->after ? -1 : x->after < y->after;
}

static void list_passes(struct search *s)
{
    const struct pipeline_bound_request *r = s->request;
    for (uint32_t v = 0; v < r->virtual_count; v++) {
        const struct bound_stage *own = &r->stages[v];
        const struct ways *w = &s->ways[v];
        int64_t times = own->micro_batches;
        const struct passes kinds[] = {
            { w->to_forward, times * own->forward, w->from_forward, own->device, 0 },
            { w->to_forward + own->forward, times * own->again, own->backward + w->from_backward, own->device, 0 },
            { w->to_backward, times * own->backward, w->from_backward, own->device, 0 },
            { w->to_backward + own->backward, times * own->weight, 0, own->device, 0 },
        };
        for (int kind = 0; kind < 4; kind++) {
            if (kinds[kind].work > 0) {
                s->passes[s->count++] = kinds[kind];
            }
        }
    }
    qsort(s->passes, s->count, sizeof *s->passes, compare_before);
}

static void add_to_set(struct node *tree, uint32_t leaves, const struct passes *passes)
{
    uint32_t node = leaves + passes->place;
    tree[node] = (struct node){ passes->work, passes->before + passes->work };
    for (node /= 2; node > 0; node /= 2) {
        const struct node *left = &tree[2 * node], *right = left + 1;
        tree[node] = (struct node){ left->work + right->work, later(left->most + right->work, right->most) };
    }
}

/* Where the largest set of that bound begins. */
static int64_t before_set(const struct passes *own, uint32_t count, int64_t makespan, int64_t after)
{
    int64_t work = 0, before = 0;
    for (uint32_t i = count; i-- > 0;) {
        work += own[i].after >= after ? own[i].work : 0;
        if (own[i].after >= after && own[i].before + work + after == makespan) {
            before = own[i].before;
        }
    }
    return before;
}

/* Sets grow from the passes with the longest way on; of those at hand, the tree knows from which on they need most. Of equal sets the largest says most. */
static struct pipeline_bound bound_device(struct search *s, struct passes *own, uint32_t count)
{
    struct pipeline_bound bound = { .device = own->device };
    uint32_t leaves = 1;
    while (leaves < count) {
        leaves *= 2;
    }
    for (uint32_t i = 0; i < 2 * leaves; i++) {
        s->tree[i] = (struct node){ 0, INT64_MIN / 2 }; /* below every sum, also with work added */
    }
    for (uint32_t i = 0; i < count; i++) {
        own[i].place = i;
        s->by_after[i] = own[i];
    }
    qsort(s->by_after, count, sizeof *s->by_after, compare_after);
    for (uint32_t i = 0; i < count; i++) {
        add_to_set(s->tree, leaves, &s->by_after[i]);
        int64_t needs = s->tree[1].most + s->by_after[i].after;
        if (needs >= bound.makespan) {
            bound.makespan = needs;
            bound.after = s->by_after[i].after;
        }
    }
    bound.before = before_set(own, count, bound.makespan, bound.after);
    bound.work = bound.makespan - bound.before - bound.after;
    return bound;
}

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory for the lower bound of a pipeline");
}

/* Ways and passes of all devices. */
static enum status read_request(struct search *s, struct error *error)
{
    const struct pipeline_bound_request *r = s->request;
    s->ways = arena_array(&s->arena, struct ways, r->virtual_count);
    s->passes = arena_array(&s->arena, struct passes, 4 * (size_t)r->virtual_count);
    if (s->ways == NULL || s->passes == NULL) {
        return no_memory(error);
    }
    for (uint32_t first = 0; first < r->virtual_count; first += r->length) {
        find_ways(r, s->ways, first, first + r->length - 1);
    }
    list_passes(s);
    return STATUS_OK;
}

/* Where the passes of the device that begins at `first` end. */
static uint32_t end_of_device(const struct search *s, uint32_t first)
{
    uint32_t end = first;
    while (end < s->count && s->passes[end].device == s->passes[first].device) {
        end++;
    }
    return end;
}

/* Room for one device at a time. */
static enum status allocate_device(struct search *s, struct error *error)
{
    size_t most = 1;
    for (uint32_t first = 0, end; first < s->count; first = end) {
        end = end_of_device(s, first);
        most = end - first > most ? end - first : most;
    }
    s->by_after = arena_array(&s->arena, struct passes, most);
    s->tree = arena_array(&s->arena, struct node, 4 * most); /* leaves are less than twice the passes */
    return s->by_after != NULL && s->tree != NULL ? STATUS_OK : no_memory(error);
}

enum status pipeline_bound_find(const struct pipeline_bound_request *request, struct pipeline_bound *bound,
                                struct error *error)
{
    struct search s = { .request = request };
    enum status status = STATUS_OK;
    *bound = (struct pipeline_bound){ 0 };
    TRY_OR_FAIL(read_request(&s, error));
    TRY_OR_FAIL(allocate_device(&s, error));
    for (uint32_t first = 0, end; first < s.count; first = end) {
        end = end_of_device(&s, first);
        struct pipeline_bound own = bound_device(&s, &s.passes[first], end - first);
        if (own.makespan > bound->makespan || (own.makespan == bound->makespan && own.work > bound->work)) {
            *bound = own;
        }
    }
fail:
    arena_free(&s.arena);
    return status;
}
