/* The lower bound of bare pipelines: no schedule beats it, of whatever order, times, hops, recomputation and replicas; a plain twin and an exhaustive search agree; closed forms reach it; a forged
 * makespan is caught. */
#include "sim/plan/bare_pipeline_bound.h"

#include "sim/plan/order_table.h"
#include "tests/pipeline_run.h"

enum { STAGES_MAX = 8, BATCHES_MAX = 16 };

/* ---- random pipelines ---- */

struct times {
    double forward[STAGES_MAX], backward[STAGES_MAX], weight[STAGES_MAX];
    uint32_t replicas[STAGES_MAX];
};

/* Of the order's placement, in any shape that it allows up to `stages_max` and `batches_max`. Every chunk takes whole units. */
static struct bare_pipeline_request random_request(uint64_t *state, const struct pipeline_order *order,
                                                   uint32_t stages_max, uint32_t batches_max, struct times *times)
{
    struct bare_pipeline_request request = pipeline_request(order->name, 1, 0, 1, 1, 1);
    struct order_request *shape = &request.order_request;
    bool dealt = order->deals && test_below(state, 4) == 0;
    do {
        shape->stages = 1 + (uint32_t)test_below(state, stages_max);
        shape->micro_batches = 1 + (uint32_t)test_below(state, batches_max);
        shape->virtual_stages = order->virtual_stages > 0 ? order->virtual_stages : 1 + (uint32_t)test_below(state, 3);
        for (uint32_t s = 0; s < shape->stages; s++) {
            times->replicas[s] = 1 + (uint32_t)test_below(state, 2);
        }
        shape->replicas = dealt ? times->replicas : NULL;
    } while (order_check(order, shape, NULL) != STATUS_OK);
    uint32_t most = test_below(state, 4) == 0 ? 1 : 5; /* stages alike, often enough */
    for (uint32_t s = 0; s < shape->stages; s++) {
        double chunks = (double)shape->virtual_stages / order_copies(order) * times->replicas[s];
        times->forward[s] = chunks * (double)(1 + test_below(state, most));
        times->backward[s] = chunks * (double)(1 + test_below(state, most));
        times->weight[s] = chunks * (double)test_below(state, most + 1);
    }
    request.stage_forward = times->forward;
    request.stage_backward = times->backward;
    request.has_weight_gradient = true;
    request.stage_weight = times->weight;
    request.cut_replicas = !dealt && test_below(state, 4) == 0 ? times->replicas : NULL;
    request.hop = (double)test_below(state, 3);
    request.recompute = (enum bare_recompute)test_below(state, 3);
    request.last_stage_keeps = test_below(state, 3) == 0;
    return request;
}

static struct bare_pipeline_bound bound_of(const struct bare_pipeline_request *request)
{
    struct bare_pipeline_bound bound;
    struct error error = { 0 };
    EXPECT_INT(bare_pipeline_bound_find(request, &bound, &error), STATUS_OK);
    EXPECT_REAL(bound.before + bound.work + bound.after, bound.makespan, 1e-12);
    return bound;
}

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

/* ---- orders ---- */

/* The measured makespan is also refused by bare_pipeline_measure when it is below. */
static void test_no_order_beats_it(void)
{
    uint64_t state = test_seed;
    uint32_t order_count, runs = 0;
    const struct pipeline_order *const *orders = registry_orders(&order_count);
    for (uint32_t k = 0; k < order_count; k++) {
        uint32_t met = 0;
        for (uint32_t i = 0; i < 200; i++) {
            struct times times;
            struct bare_pipeline_request request = random_request(&state, orders[k], STAGES_MAX, BATCHES_MAX, &times);
            struct bare_pipeline_result result = pipeline_run(&request);
            EXPECT(result.makespan >= bound_of(&request).makespan);
            met += result.makespan <= result.bound.makespan;
            bare_pipeline_result_free(&result);
            runs++;
        }
        printf("  %-14s as short as the bound in %u of 200\n", orders[k]->name, met);
    }
    printf("%u runs\n", runs);
    EXPECT_INT(runs, 200 * order_count);
    EXPECT(order_count >= 16);
}

/* Steps in any order, virtual stages anywhere. */
static void random_table(uint64_t *state, struct strbuf *text, struct times *times)
{
    uint32_t stages = 2 + (uint32_t)test_below(state, 2), chunks = 1 + (uint32_t)test_below(state, 3);
    uint32_t batches = 1 + (uint32_t)test_below(state, 3), virtual_stage[9], kinds = 2 + (uint32_t)test_below(state, 2);
    for (uint32_t v = 0; v < stages * chunks; v++) {
        uint32_t at = (uint32_t)test_below(state, v + 1);
        virtual_stage[v] = virtual_stage[at];
        virtual_stage[at] = v;
    }
    text->length = 0;
    for (uint32_t s = 0; s < stages; s++) {
        uint8_t done[9] = { 0 };
        times->forward[s] = chunks * (double)(1 + test_below(state, 4));
        times->backward[s] = chunks * (double)(1 + test_below(state, 4));
        times->weight[s] = chunks * (double)(1 + test_below(state, 4));
        for (uint32_t left = batches * chunks * kinds; left > 0;) {
            uint32_t pick = (uint32_t)test_below(state, batches * chunks);
            if (done[pick] < kinds) {
                strbuf_printf(text, "%c%u.%u%c", "FBW"[done[pick]++], pick % batches,
                              virtual_stage[s * chunks + pick / batches], --left > 0 ? ' ' : '\n');
            }
        }
    }
}

static void test_no_table_beats_it(void)
{
    uint64_t state = test_seed;
    uint32_t runs = 0, met = 0;
    struct strbuf text = { 0 };
    for (uint32_t i = 0; i < 200000 && runs < 1000; i++) {
        struct times times;
        struct order_table table;
        random_table(&state, &text, &times);
        if (order_table_parse(&table, text.text, text.length, "mine.txt", NULL) != STATUS_OK) {
            continue; /* it waits for itself */
        }
        struct pipeline_order order = order_table_order(&table, "mine");
        struct bare_pipeline_request request = { .order = &order,
                                                 .order_request = { .stages = table.stages,
                                                                    .micro_batches = table.micro_batches,
                                                                    .virtual_stages = table.virtual_stages,
                                                                    .table = &table },
                                                 .stage_forward = times.forward,
                                                 .stage_backward = times.backward,
                                                 .stage_weight = times.weight,
                                                 .has_weight_gradient = true,
                                                 .hop = (double)test_below(&state, 3),
                                                 .recompute = (enum bare_recompute)test_below(&state, 3) };
        struct bare_pipeline_result result = pipeline_run(&request);
        EXPECT(result.makespan >= bound_of(&request).makespan);
        met += result.makespan <= result.bound.makespan;
        bare_pipeline_result_free(&result);
        order_table_free(&table);
        runs++;
    }
    printf("%u schedule files of random steps, %u as short as the bound\n", runs, met);
    EXPECT_INT(runs, 1000);
    strbuf_free(&text);
}

/* Where the closed forms of facts/mpress-hippie-pipelines.md C leave nothing to gain. */
static void test_tight(void)
{
    static const struct {
        const char *order;
        uint32_t v;
        double weight; /* 0: none apart */
        double backward, hop;
        enum bare_recompute recompute;
    } cases[] = {
        { "gpipe", 1, 0, 2, 0, BARE_KEEP },
        { "gpipe", 1, 0, 2, 4, BARE_KEEP },
        { "1f1b", 1, 0, 2, 0, BARE_KEEP },
        { "1f1b", 1, 0, 2, 0, BARE_RECOMPUTE_LAZY },
        { "1f1b", 1, 0, 2, 0, BARE_RECOMPUTE_EAGER },
        { "gpipe", 1, 0, 2, 0, BARE_RECOMPUTE_EAGER },
        { "dapple-pb", 1, 0, 2, 1.5, BARE_KEEP },
        { "lsps-a", 1, 0, 2, 0, BARE_KEEP },
        { "pipedream", 1, 0, 2, 0, BARE_KEEP },
        { "interleaved", 2, 0, 2, 0, BARE_KEEP },
        { "interleaved", 4, 0, 2, 0, BARE_KEEP },
        { "chimera", 2, 0, 1, 0, BARE_KEEP },
        { "zb-h1", 1, 1, 1, 0, BARE_KEEP },
        { "zb-h2", 1, 1, 1, 0, BARE_KEEP },
        { "zb-v", 2, 1, 1, 0, BARE_KEEP },
        { "dualpipe", 2, 1, 1, 0, BARE_KEEP },
    };
    uint32_t runs = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (uint32_t p = 2; p <= 8; p += 2) {
            struct bare_pipeline_request request =
                pipeline_request(cases[i].order, p, cases[i].v, 2 * p, 1, cases[i].backward);
            request.has_weight_gradient = cases[i].weight > 0;
            request.weight_gradient = cases[i].weight;
            request.hop = cases[i].hop;
            request.recompute = cases[i].recompute;
            struct bare_pipeline_result result = pipeline_run(&request);
            EXPECT_REAL(result.makespan, result.bound.makespan, 0);
            bare_pipeline_result_free(&result);
            runs++;
        }
    }
    printf("%u closed forms are their bound\n", runs);
    EXPECT_INT(runs, 64);
}

/* ---- what cannot be ---- */

/* A claim that users met (facts E.16): 1F1B of 8 stages and 32 micro-batches in 71 steps. */
static void test_claim(void)
{
    struct bare_pipeline_request request = pipeline_request("1f1b", 8, 1, 32, 1, 1);
    struct bare_pipeline_bound bound = bound_of(&request);
    struct error error = { 0 };
    EXPECT_REAL(bound.makespan, 78, 0);
    EXPECT_INT(bound.stage, 7);
    EXPECT_REAL(bound.before, 7, 0);
    EXPECT_REAL(bound.work, 64, 0);
    EXPECT_REAL(bound.after, 7, 0);
    EXPECT_INT(bare_pipeline_bound_check(&bound, 78, &error), STATUS_OK);
    EXPECT_INT(bare_pipeline_bound_check(&bound, 71, &error), STATUS_BAD_TIMELINE);
    EXPECT_TEXT(error.message,
                "a makespan of 71 is impossible: stage 7 has 64 of work, at least 7 after the start and 7 "
                "before the end, so no order is shorter than 78");
}

/* A timeline in which everything ends one picosecond too early is refused, of every order that reaches its bound. */
static void test_forged(void)
{
    static const char *const names[] = { "gpipe", "interleaved", "chimera", "zb-h1", "zb-v", "dualpipe", "pipedream" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct bare_pipeline_request request = pipeline_request(names[i], 4, 0, 8, 1, 1);
        request.has_weight_gradient = request.order->splits_backward;
        request.weight_gradient = 1;
        struct schedule schedule = { 0 };
        struct timeline timeline = { 0 };
        struct error error = { 0 };
        struct bare_pipeline_result result = pipeline_run_whole(&request, &schedule, &timeline);
        EXPECT_REAL(result.makespan, result.bound.makespan, 0);
        bare_pipeline_result_free(&result);
        for (uint32_t op = 0; op < timeline.op_count; op++) {
            timeline.ops[op].end_ps -= timeline.ops[op].end_ps > timeline.ops[op].start_ps;
        }
        EXPECT_INT(bare_pipeline_measure(&request, &schedule, &timeline, &result, &error), STATUS_BAD_TIMELINE);
        EXPECT_PART(error.message, "is impossible: stage ");
        timeline_free(&timeline);
        schedule_free(&schedule);
    }
}

TEST_MAIN(TEST(test_twin), TEST(test_shortest_schedule), TEST(test_no_order_beats_it), TEST(test_no_table_beats_it),
          TEST(test_tight), TEST(test_claim), TEST(test_forged))
