/* The lower bound of pipelines against a plain twin, for chunks of any times, and against the shortest of all schedules, found by exhaustion. */
#include "sim/plan/pipeline_bound.h"
#include "tests/pipeline_random.h"

/* ---- the passes of one micro-batch, as a graph ---- */

enum { FORWARD, AGAIN, BACKWARD, WEIGHT, KINDS, NODES_MAX = KINDS * STAGES_MAX * 4 };

/* Node KINDS * v + kind is that pass of virtual stage v; edges wait for the end of `from` and then a hop. */
struct graph {
    uint32_t virtual_count, edges;
    struct {
        uint32_t from, to;
        double hop;
    } edge[5 * STAGES_MAX * 4];
    double took[NODES_MAX];      /* 0: there is no such pass */
    uint32_t stage[NODES_MAX];   /* of the node */
    uint32_t passing[NODES_MAX]; /* micro-batches, on one replica */
};

static void add_edge(struct graph *g, uint32_t from, uint32_t to, double hop)
{
    g->edge[g->edges].from = from;
    g->edge[g->edges].to = to;
    g->edge[g->edges++].hop = hop;
}

static void make_graph(const struct bare_pipeline_request *request, struct graph *g)
{
    const struct order_request *shape = &request->order_request;
    *g = (struct graph){ .virtual_count = shape->stages * shape->virtual_stages };
    for (uint32_t v = 0; v < g->virtual_count; v++) {
        uint32_t stage, chunk, first, last, of = KINDS * v;
        order_holder(request->order, shape, v, &stage, &chunk);
        double parts = (double)shape->virtual_stages / order_copies(request->order) *
                       (request->cut_replicas != NULL ? request->cut_replicas[stage] : 1);
        bool keeps = request->recompute == BARE_KEEP ||
                     ((request->last_stage_keeps || request->order->last_stage_keeps) && stage == shape->stages - 1);
        double again = keeps ? 0 : request->stage_forward[stage] / parts, weight = request->stage_weight[stage] / parts;
        g->took[of + FORWARD] = request->stage_forward[stage] / parts;
        g->took[of + AGAIN] = request->recompute == BARE_RECOMPUTE_EAGER ? again : 0;
        g->took[of + BACKWARD] = request->stage_backward[stage] / parts +
                                 (request->recompute == BARE_RECOMPUTE_LAZY ? again : 0) +
                                 (request->order->splits_backward ? 0 : weight);
        g->took[of + WEIGHT] = request->order->splits_backward ? weight : 0;
        for (uint32_t kind = 0; kind < KINDS; kind++) {
            g->stage[of + kind] = stage;
        }
        for (uint32_t i = 0; i < shape->micro_batches; i++) {
            order_route(request->order, shape, i, &first, &last);
            g->passing[of] += v >= first && v <= last;
        }
        for (uint32_t kind = KINDS; kind-- > 0;) {
            g->passing[of + kind] = g->passing[of] / order_replicas(shape, stage);
        }
        add_edge(g, of + FORWARD, of + AGAIN, 0);
        add_edge(g, of + AGAIN, of + BACKWARD, 0);
        add_edge(g, of + BACKWARD, of + WEIGHT, 0);
        if (v % order_model_stages(request->order, shape) > 0) {
            double hop = g->stage[of - KINDS] == stage ? 0 : request->hop;
            add_edge(g, of - KINDS + FORWARD, of + FORWARD, hop);
            add_edge(g, of + BACKWARD, of - KINDS + BACKWARD, hop);
        }
    }
}

/* ---- the plain twin: ways by relaxing until nothing changes, sets by trying every pair of ends ---- */

static double twin_bound(const struct graph *g)
{
    double before[NODES_MAX] = { 0 }, after[NODES_MAX] = { 0 }, bound = 0;
    uint32_t nodes = KINDS * g->virtual_count;
    for (uint32_t round = 0; round < nodes; round++) {
        for (uint32_t e = 0; e < g->edges; e++) {
            uint32_t from = g->edge[e].from, to = g->edge[e].to;
            before[to] = fmax(before[to], before[from] + g->took[from] + g->edge[e].hop);
            after[from] = fmax(after[from], g->edge[e].hop + g->took[to] + after[to]);
        }
    }
    for (uint32_t x = 0; x < nodes; x++) {
        for (uint32_t y = 0; y < nodes; y++) {
            double work = 0;
            for (uint32_t i = 0; i < nodes; i++) {
                bool inside = g->stage[i] == g->stage[x] && before[i] >= before[x] && after[i] >= after[y];
                work += inside ? g->passing[i] * g->took[i] : 0;
            }
            if (g->stage[x] == g->stage[y] && work > 0) {
                bound = fmax(bound, before[x] + work + after[y]);
            }
        }
    }
    return bound;
}

static void test_twin(void)
{
    uint64_t state = test_seed;
    uint32_t order_count, cases = 0;
    const struct pipeline_order *const *orders = registry_orders(&order_count);
    for (uint32_t i = 0; i < 300 * order_count; i++) {
        struct times times;
        struct graph graph;
        struct bare_pipeline_request request =
            random_request(&state, orders[i % order_count], STAGES_MAX, BATCHES_MAX, &times);
        make_graph(&request, &graph);
        double bound = bound_of(&request).makespan, twin = twin_bound(&graph);
        if (bound < twin || bound > twin) { /* whole units on both sides */
            TEST_FAIL_("%s: the bound is %.17g, its twin %.17g", request.order->name, bound, twin);
        }
        cases++;
    }
    printf("%u bounds as their twins\n", cases);
    EXPECT_INT(cases, 300 * order_count);
}

/* Chunks of a device that take times of their own, as bare pipelines have not. */
static void test_twin_of_chunks(void)
{
    uint64_t state = test_seed;
    uint32_t order_count, cases = 0;
    const struct pipeline_order *const *orders = registry_orders(&order_count);
    for (uint32_t i = 0; i < 100 * order_count; i++) {
        struct times times;
        struct graph graph;
        struct bound_stage stages[NODES_MAX / KINDS];
        struct pipeline_bound bound;
        struct bare_pipeline_request request =
            random_request(&state, orders[i % order_count], STAGES_MAX, BATCHES_MAX, &times);
        make_graph(&request, &graph);
        for (uint32_t v = 0; v < graph.virtual_count; v++) {
            double *took = &graph.took[KINDS * v];
            for (uint32_t kind = 0; kind < KINDS; kind++) {
                took[kind] = took[kind] > 0 ? 1 + (double)test_below(&state, 9) : 0;
            }
            stages[v] = (struct bound_stage){ .device = graph.stage[KINDS * v],
                                              .micro_batches = graph.passing[KINDS * v],
                                              .forward = (int64_t)took[FORWARD],
                                              .backward = (int64_t)took[BACKWARD],
                                              .again = (int64_t)took[AGAIN],
                                              .weight = (int64_t)took[WEIGHT] };
        }
        const struct pipeline_bound_request chunks = { graph.virtual_count,
                                                       order_model_stages(request.order, &request.order_request),
                                                       stages, (int64_t)request.hop };
        EXPECT_INT(pipeline_bound_find(&chunks, &bound, NULL), STATUS_OK);
        EXPECT_INT(bound.makespan, twin_bound(&graph));
        EXPECT_INT(bound.before + bound.work + bound.after, bound.makespan);
        cases++;
    }
    printf("%u bounds of uneven chunks as their twins\n", cases);
    EXPECT_INT(cases, 100 * order_count);
}

/* ---- the shortest of all schedules, by exhaustion ---- */

enum { PASSES_MAX = 20 };

/* Passes of all micro-batches; a schedule is built from its beginning, and what is known to be too long is left (Giffler and Thompson, 1960: among active schedules there is a shortest). */
struct search {
    const struct graph *graph;
    uint32_t passes, node[PASSES_MAX], batch[PASSES_MAX];
    double end[PASSES_MAX], free_at[STAGES_MAX], best;
    bool done[PASSES_MAX];
};

/* When the pass could begin; INFINITY: it waits for another. */
static double could_begin(const struct search *s, uint32_t pass)
{
    const struct graph *g = s->graph;
    double begin = s->free_at[g->stage[s->node[pass]]];
    for (uint32_t e = 0; e < g->edges; e++) {
        for (uint32_t i = 0; i < s->passes && g->edge[e].to == s->node[pass]; i++) {
            if (s->batch[i] == s->batch[pass] && s->node[i] == g->edge[e].from) {
                begin = fmax(begin, s->done[i] ? s->end[i] + g->edge[e].hop : (double)INFINITY);
            }
        }
    }
    return begin;
}

static void search(struct search *s, uint32_t left, double end)
{
    double begin[PASSES_MAX], first = (double)INFINITY;
    uint32_t device = 0;
    if (left == 0) {
        s->best = fmin(s->best, end);
        return;
    }
    for (uint32_t i = 0; i < s->passes; i++) {
        begin[i] = s->done[i] ? (double)INFINITY : could_begin(s, i);
        if (begin[i] + s->graph->took[s->node[i]] < first) {
            first = begin[i] + s->graph->took[s->node[i]];
            device = s->graph->stage[s->node[i]];
        }
    }
    for (uint32_t i = 0; i < s->passes; i++) {
        uint32_t stage = s->graph->stage[s->node[i]];
        bool twin = false; /* a micro-batch before it in all its passes the same: either could be the other */
        for (uint32_t k = 0; k < i; k++) {
            twin = twin || (s->node[k] == s->node[i] && !s->done[k] && begin[k] <= begin[i] && begin[k] < first);
        }
        double ends = begin[i] + s->graph->took[s->node[i]];
        if (stage == device && begin[i] < first && !twin && ends < s->best) {
            double was = s->free_at[stage];
            s->free_at[stage] = s->end[i] = ends;
            s->done[i] = true;
            search(s, left - 1, fmax(end, ends));
            s->done[i] = false;
            s->free_at[stage] = was;
        }
    }
}

/* INFINITY: too many passes to try all. */
static double shortest(const struct bare_pipeline_request *request, const struct graph *g)
{
    struct search s = { .graph = g, .best = (double)INFINITY };
    const struct order_request *shape = &request->order_request;
    for (uint32_t i = 0; i < shape->micro_batches; i++) {
        uint32_t first, last;
        order_route(request->order, shape, i, &first, &last);
        for (uint32_t node = KINDS * first; node < KINDS * (last + 1); node++) {
            if (g->took[node] <= 0 && node % KINDS != AGAIN) {
                continue;
            }
            if (s.passes == PASSES_MAX) {
                return (double)INFINITY;
            }
            s.node[s.passes] = node;
            s.batch[s.passes++] = i;
        }
    }
    search(&s, s.passes, 0);
    return s.best;
}

static void test_shortest_schedule(void)
{
    static const char *const names[] = { "gpipe", "zb-h1", "interleaved", "zb-v", "chimera" };
    uint64_t state = test_seed;
    uint32_t cases = 0, met = 0;
    double over = 0;
    for (uint32_t i = 0; cases < 400; i++) {
        struct times times;
        struct graph graph;
        struct bare_pipeline_request request = random_request(&state, registry_order(names[i % 5], NULL), 3, 4, &times);
        request.order_request.replicas = NULL; /* what is dealt may go to another replica */
        make_graph(&request, &graph);
        double best = request.order_request.stages == 1 ? (double)INFINITY : shortest(&request, &graph),
               bound = bound_of(&request).makespan;
        if (isinf(best)) {
            continue; /* too many passes, or one stage, which is never idle */
        }
        if (bound > best * (1 + 1e-9)) {
            TEST_FAIL_("%s, %u stages, %u micro-batches: the shortest schedule takes %.17g, the bound is %.17g",
                       request.order->name, request.order_request.stages, request.order_request.micro_batches, best,
                       bound);
        }
        cases++;
        met += best <= bound * (1 + 1e-9);
        over += best / bound - 1;
    }
    printf("%u pipelines: the shortest schedule is the bound in %u, on average %.2f %% over it\n", cases, met,
           100 * over / cases);
    EXPECT(met > cases / 2);
}

TEST_MAIN(TEST(test_twin), TEST(test_twin_of_chunks), TEST(test_shortest_schedule))
