#include "sim/plan/bare_pipeline_bound.h"

#include <stdlib.h>

#include "sim/base/check.h"
#include "sim/plan/bare_pipeline_internal.h"

/* ---- ways of one micro-batch ---- */

/* Of a stage, through one chunk. What is recomputed lazily belongs to the backward, as it waits for the same gradient. */
struct chunk_times {
    int64_t forward_ps, again_ps, backward_ps, weight_ps; /* again: recomputed early, 0: it is not */
};

/* Of a virtual stage: the longest way of its micro-batch from the start to the begin of a pass, and from the end of a pass to the end of all. */
struct ways {
    int64_t to_forward_ps, to_backward_ps, from_forward_ps, from_backward_ps;
};

struct pipeline {
    const struct bare_pipeline_request *request;
    struct arena arena;
    struct chunk_times *times; /* [stages] */
    uint32_t *holder;          /* [virtual stages]: stage */
    struct ways *ways;         /* [virtual stages] */
    uint32_t *passing;         /* [copies]: micro-batches */
    uint32_t length;           /* virtual stages of a copy */
    int64_t hop_ps;
};

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static struct chunk_times times_of(const struct bare_pipeline_request *request, uint32_t stage)
{
    int64_t ps[STEP_KIND_COUNT];
    bare_pass_times(request, stage, ps);
    int64_t again_ps = bare_recomputes(request, stage) ? ps[STEP_FORWARD] : 0;
    bool lazy = request->recompute == BARE_RECOMPUTE_LAZY;
    return (struct chunk_times){ .forward_ps = ps[STEP_FORWARD],
                                 .again_ps = lazy ? 0 : again_ps,
                                 .backward_ps = ps[STEP_BACKWARD] + (lazy ? again_ps : 0),
                                 .weight_ps = request->order->splits_backward ? ps[STEP_BACKWARD_WEIGHT] : 0 };
}

/* Between a virtual stage and the next one. */
static int64_t hop_after(const struct pipeline *p, uint32_t virtual_stage)
{
    return p->holder[virtual_stage] == p->holder[virtual_stage + 1] ? 0 : p->hop_ps;
}

static const struct chunk_times *times_at(const struct pipeline *p, uint32_t virtual_stage)
{
    return &p->times[p->holder[virtual_stage]];
}

/* Of the virtual stages first .. last, a whole model. */
static void find_ways(struct pipeline *p, uint32_t first, uint32_t last)
{
    struct ways *ways = p->ways;
    for (uint32_t v = first; v <= last; v++) {
        const struct chunk_times *t = times_at(p, v);
        ways[v].to_forward_ps =
            v == first ? 0 : ways[v - 1].to_forward_ps + times_at(p, v - 1)->forward_ps + hop_after(p, v - 1);
        ways[v].from_backward_ps = later(
            t->weight_ps,
            v == first ? 0 : hop_after(p, v - 1) + times_at(p, v - 1)->backward_ps + ways[v - 1].from_backward_ps);
    }
    for (uint32_t v = last + 1; v-- > first;) {
        const struct chunk_times *t = times_at(p, v);
        int64_t forward_end_ps = ways[v].to_forward_ps + t->forward_ps;
        ways[v].to_backward_ps = forward_end_ps + t->again_ps;
        ways[v].from_forward_ps = t->again_ps + t->backward_ps + ways[v].from_backward_ps;
        if (v < last) {
            const struct chunk_times *next = times_at(p, v + 1);
            int64_t gradient_ps = ways[v + 1].to_backward_ps + next->backward_ps + hop_after(p, v);
            ways[v].to_backward_ps = later(ways[v].to_backward_ps, gradient_ps);
            ways[v].from_forward_ps =
                later(ways[v].from_forward_ps, hop_after(p, v) + next->forward_ps + ways[v + 1].from_forward_ps);
        }
    }
}

static enum status read_pipeline(struct pipeline *p, struct error *error)
{
    const struct bare_pipeline_request *request = p->request;
    const struct order_request *shape = &request->order_request;
    uint32_t virtual_count = shape->stages * shape->virtual_stages, copies = order_copies(request->order);
    p->length = order_model_stages(request->order, shape);
    p->hop_ps = bare_hop_ps(request);
    p->times = arena_array(&p->arena, struct chunk_times, shape->stages);
    p->holder = arena_array(&p->arena, uint32_t, virtual_count);
    p->ways = arena_array(&p->arena, struct ways, virtual_count);
    p->passing = arena_array(&p->arena, uint32_t, copies);
    if (p->times == NULL || p->holder == NULL || p->ways == NULL || p->passing == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the lower bound of a bare pipeline");
    }
    for (uint32_t s = 0; s < shape->stages; s++) {
        p->times[s] = times_of(request, s);
        for (uint32_t chunk = 0; chunk < shape->virtual_stages; chunk++) {
            p->holder[order_virtual_stage(request->order, shape, s, chunk)] = s;
        }
    }
    for (uint32_t i = 0; i < shape->micro_batches; i++) {
        uint32_t first, last;
        order_route(request->order, shape, i, &first, &last);
        p->passing[first / p->length]++;
    }
    for (uint32_t copy = 0; copy < copies; copy++) {
        find_ways(p, copy * p->length, (copy + 1) * p->length - 1);
    }
    return STATUS_OK;
}

/* ---- one device ---- */

/* Passes of one kind and chunk: alike for every micro-batch. */
struct passes {
    int64_t before_ps, work_ps, after_ps;
    uint32_t place; /* in the order of `before_ps` */
};

/* A node of a tree over places: of the passes beneath it that are in the set, all work; and the most of: what is before one of them, its work and that of those behind it. */
struct node {
    int64_t work_ps, most_ps;
};

struct device {
    struct passes *passes, *by_after; /* [4 * virtual_stages]; sorted by before, rising, and by after, falling */
    struct node *tree;                /* [2 * leaves], its root at 1 */
    uint32_t count, leaves;
};

static enum status allocate_device(struct pipeline *p, struct device *device, struct error *error)
{
    uint32_t most = 4 * p->request->order_request.virtual_stages;
    for (device->leaves = 1; device->leaves < most;) {
        device->leaves *= 2;
    }
    device->passes = arena_array(&p->arena, struct passes, most);
    device->by_after = arena_array(&p->arena, struct passes, most);
    device->tree = arena_array(&p->arena, struct node, 2 * (size_t)device->leaves);
    if (device->passes == NULL || device->by_after == NULL || device->tree == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the lower bound of a bare pipeline");
    }
    return STATUS_OK;
}

static int compare_before(const void *a, const void *b)
{
    const struct passes *x = a, *y = b;
    return x->before_ps < y->before_ps ? -1 : x->before_ps > y->before_ps;
}

static int compare_after(const void *a, const void *b)
{
    const struct passes *x = a, *y = b;
    return x->after_ps > y->after_ps ? -1 : x->after_ps < y->after_ps;
}

/* The passes of one of the stage's replicas. */
static void list_passes(const struct pipeline *p, uint32_t stage, struct device *device)
{
    const struct order_request *shape = &p->request->order_request;
    const struct chunk_times *t = &p->times[stage];
    device->count = 0;
    for (uint32_t chunk = 0; chunk < shape->virtual_stages; chunk++) {
        uint32_t v = order_virtual_stage(p->request->order, shape, stage, chunk);
        const struct ways *w = &p->ways[v];
        int64_t share = p->passing[v / p->length] / order_replicas(shape, stage);
        const struct passes kinds[] = {
            { w->to_forward_ps, share * t->forward_ps, w->from_forward_ps, 0 },
            { w->to_forward_ps + t->forward_ps, share * t->again_ps, t->backward_ps + w->from_backward_ps, 0 },
            { w->to_backward_ps, share * t->backward_ps, w->from_backward_ps, 0 },
            { w->to_backward_ps + t->backward_ps, share * t->weight_ps, 0, 0 },
        };
        for (int kind = 0; kind < 4; kind++) {
            if (kinds[kind].work_ps > 0) {
                device->passes[device->count++] = kinds[kind];
            }
        }
    }
    qsort(device->passes, device->count, sizeof *device->passes, compare_before);
    for (uint32_t i = 0; i < device->count; i++) {
        device->passes[i].place = i;
        device->by_after[i] = device->passes[i];
    }
    qsort(device->by_after, device->count, sizeof *device->by_after, compare_after);
}

static void add_to_set(struct device *device, const struct passes *passes)
{
    uint32_t node = device->leaves + passes->place;
    device->tree[node] = (struct node){ passes->work_ps, passes->before_ps + passes->work_ps };
    for (node /= 2; node > 0; node /= 2) {
        const struct node *left = &device->tree[2 * node], *right = left + 1;
        device->tree[node] =
            (struct node){ left->work_ps + right->work_ps, later(left->most_ps + right->work_ps, right->most_ps) };
    }
}

/* Sets grow from the passes with the longest way on; of those at hand, the tree knows from which on they need most. Of equal sets the largest says most. */
static int64_t bound_device(struct device *device, int64_t *after_ps)
{
    int64_t bound_ps = 0;
    for (uint32_t i = 0; i < 2 * device->leaves; i++) {
        device->tree[i] = (struct node){ 0, INT64_MIN / 2 }; /* below every sum, also with work added */
    }
    for (uint32_t i = 0; i < device->count; i++) {
        add_to_set(device, &device->by_after[i]);
        int64_t needs_ps = device->tree[1].most_ps + device->by_after[i].after_ps;
        if (needs_ps >= bound_ps) {
            bound_ps = needs_ps;
            *after_ps = device->by_after[i].after_ps;
        }
    }
    return bound_ps;
}

/* Where the largest set of that bound begins. */
static int64_t before_set(const struct device *device, int64_t bound_ps, int64_t after_ps)
{
    int64_t work_ps = 0, before_ps = 0;
    for (uint32_t i = device->count; i-- > 0;) {
        const struct passes *passes = &device->passes[i];
        work_ps += passes->after_ps >= after_ps ? passes->work_ps : 0;
        if (passes->after_ps >= after_ps && passes->before_ps + work_ps + after_ps == bound_ps) {
            before_ps = passes->before_ps;
        }
    }
    return before_ps;
}

static double units(int64_t ps)
{
    return (double)ps / (double)BARE_UNIT_PS;
}

enum status bare_pipeline_bound_find(const struct bare_pipeline_request *request, struct bare_pipeline_bound *bound,
                                     struct error *error)
{
    struct pipeline p = { .request = request };
    struct device device = { 0 };
    enum status status = STATUS_OK;
    int64_t most_ps = 0, most_work_ps = 0;
    *bound = (struct bare_pipeline_bound){ 0 };
    TRY_OR_FAIL(read_pipeline(&p, error));
    TRY_OR_FAIL(allocate_device(&p, &device, error));
    for (uint32_t stage = 0; stage < request->order_request.stages; stage++) {
        int64_t after_ps = 0;
        list_passes(&p, stage, &device);
        int64_t needs_ps = bound_device(&device, &after_ps), before_ps = before_set(&device, needs_ps, after_ps);
        int64_t work_ps = needs_ps - before_ps - after_ps;
        if (needs_ps > most_ps || (needs_ps == most_ps && work_ps > most_work_ps)) {
            most_ps = needs_ps;
            most_work_ps = work_ps;
            *bound = (struct bare_pipeline_bound){ .makespan = units(needs_ps),
                                                   .stage = stage,
                                                   .before = units(before_ps),
                                                   .work = units(work_ps),
                                                   .after = units(after_ps) };
        }
    }
fail:
    arena_free(&p.arena);
    return status;
}

enum status bare_pipeline_bound_check(const struct bare_pipeline_bound *bound, double makespan, struct error *error)
{
    if (makespan >= bound->makespan) {
        return STATUS_OK;
    }
    return error_set(
        error, STATUS_BAD_TIMELINE,
        "a makespan of %g is impossible: stage %u has %g of work, at least %g after the start and %g before "
        "the end, so no order is shorter than %g",
        makespan, bound->stage, bound->work, bound->before, bound->after, bound->makespan);
}
