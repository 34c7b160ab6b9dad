/* The scheduler against the hand-made orders: on what the simulator says of both, never slower under the same limits. */

#include "sim/exec.h"
#include "sim/plan/bare_pipeline.h"
#include "sim/plan/order_auto.h"
#include "strategies/registry.h"
#include "tests/test.h"

enum { STAGES = 16, DRAWN_STAGES = 8, CHUNKS = 4, LISTS = 4 };
#define CASES 320U

/* A pipeline whose times are whole numbers: a chunk's are whole picoseconds then, and makespans exact. */
struct drawn {
    uint32_t stages, micro_batches, chunks;
    enum auto_placement placement;
    bool splits;
    enum bare_recompute recompute;
    double hop, times[STEP_KIND_COUNT][STAGES];
};

struct outcome {
    double makespan, bound, peaks[STAGES]; /* bound: what no order can beat */
};

static struct drawn draw(uint64_t *random)
{
    struct drawn d = { .stages = 1 + (uint32_t)test_below(random, DRAWN_STAGES),
                       .chunks = 1 + (uint32_t)test_below(random, CHUNKS),
                       .placement = test_below(random, 2) == 0 ? AUTO_LOOP : AUTO_V,
                       .splits = test_below(random, 3) > 0,
                       .recompute = (enum bare_recompute)(test_below(random, 6) % 3),
                       .hop = (double)test_below(random, 3) };
    d.micro_batches = 1 + (uint32_t)test_below(random, 3 * d.stages + 2);
    if (test_below(random, 2) == 0) {
        d.micro_batches = d.stages * (1 + (uint32_t)test_below(random, 3)); /* interleaved takes no others */
    }
    uint64_t spread = test_below(random, 3) == 0 ? 1 : 6;
    for (uint32_t kind = 0; kind < STEP_KIND_COUNT; kind++) {
        double base = 1 + (double)test_below(random, 4);
        for (uint32_t s = 0; s < d.stages; s++) {
            d.times[kind][s] = base + (double)test_below(random, spread);
        }
    }
    return d;
}

/* The order on the pipeline, by the simulator. */
static struct outcome simulate(const struct drawn *d, const struct pipeline_order *order,
                               const struct order_table *table)
{
    struct bare_pipeline_request request = { .order = order,
                                             .order_request = { .stages = d->stages,
                                                                .micro_batches = d->micro_batches,
                                                                .virtual_stages = d->chunks,
                                                                .table = table },
                                             .has_weight_gradient = d->splits,
                                             .hop = d->hop,
                                             .stage_forward = d->times[STEP_FORWARD],
                                             .stage_backward = d->times[STEP_BACKWARD],
                                             .stage_weight = d->splits ? d->times[STEP_BACKWARD_WEIGHT] : NULL,
                                             .recompute = d->recompute };
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    struct bare_pipeline_result result = { 0 };
    struct error error = { 0 };
    struct outcome outcome = { 0 };
    const struct exec_options options = { .audit = true };
    parameters_defaults(order->parameters, order->parameter_count, &request.order_request.parameters);
    EXPECT_INT(bare_pipeline_schedule(&request, &schedule, &error), STATUS_OK);
    EXPECT_INT(exec_sim.run(&schedule, &options, &timeline, &error), STATUS_OK);
    EXPECT_INT(bare_pipeline_measure(&request, &schedule, &timeline, &result, &error), STATUS_OK);
    outcome.makespan = result.makespan;
    outcome.bound = result.bound.makespan;
    for (uint32_t s = 0; s < result.stage_count; s++) {
        outcome.peaks[s] = result.stages[s].peak_activations;
    }
    bare_pipeline_result_free(&result);
    timeline_free(&timeline);
    schedule_free(&schedule);
    return outcome;
}

/* Whether the order has the same passes in the same places. */
static bool comparable(const struct drawn *d, const struct pipeline_order *order)
{
    struct order_request request = { .stages = d->stages,
                                     .micro_batches = d->micro_batches,
                                     .virtual_stages = d->chunks };
    const struct order_auto_request place = { .stages = d->stages, .placement = d->placement };
    struct error error = { 0 };
    parameters_defaults(order->parameters, order->parameter_count, &request.parameters);
    if (order->asynchronous || order_copies(order) > 1 || (order->splits_backward && !d->splits) ||
        (order->last_stage_keeps && d->recompute != BARE_KEEP) || order_check(order, &request, &error) != STATUS_OK) {
        return false;
    }
    for (uint32_t v = 0; v < d->stages * d->chunks; v++) {
        uint32_t stage, chunk;
        order_holder(order, &request, v, &stage, &chunk);
        if (stage != order_auto_holder(&place, v)) {
            return false;
        }
    }
    return true;
}

static void spread(const struct drawn *d, const struct order_auto_request *place, const double *stages, double *values)
{
    for (uint32_t v = 0; v < d->stages * d->chunks; v++) {
        values[v] = stages[order_auto_holder(place, v)] / d->chunks;
    }
}

/* The scheduler's order, looked at from all sides. */
static struct outcome run_auto(const struct drawn *d, const double *limits)
{
    double values[LISTS][STAGES * CHUNKS];
    struct order_auto_request request = { .stages = d->stages,
                                          .micro_batches = d->micro_batches,
                                          .virtual_stages = d->chunks,
                                          .placement = d->placement,
                                          .forward = values[0],
                                          .backward = values[1],
                                          .weight = d->splits ? values[2] : NULL,
                                          .recompute = d->recompute != BARE_KEEP ? values[3] : NULL,
                                          .recompute_eagerly = d->recompute == BARE_RECOMPUTE_EAGER,
                                          .hop = d->hop,
                                          .limits = limits };
    struct order_table table;
    struct order_auto_result result;
    struct error error = { 0 };
    struct outcome outcome;
    for (int list = 0; list < LISTS; list++) {
        spread(d, &request, d->times[list % STEP_KIND_COUNT], values[list]);
    }
    EXPECT_INT(order_auto(&request, &table, &result, &error), STATUS_OK);
    EXPECT_INT(order_table_check(&table, "auto", &error), STATUS_OK);
    EXPECT_INT(order_table_check_transfers(&table, "auto", &error), STATUS_OK);
    struct pipeline_order order = order_table_order(&table, "auto");
    outcome = simulate(d, &order, &table);
    EXPECT_REAL(result.makespan, outcome.makespan,
                1e-12 * d->stages * d->micro_batches * d->chunks); /* sums of so many doubles */
    for (uint32_t s = 0; limits != NULL && s < d->stages; s++) {
        EXPECT(outcome.peaks[s] <= limits[s]);
    }
    order_table_free(&table);
    return outcome;
}

static bool fits(const struct drawn *d, const struct outcome *outcome, const double *limits)
{
    for (uint32_t s = 0; limits != NULL && s < d->stages; s++) {
        if (outcome->peaks[s] > limits[s]) {
            return false;
        }
    }
    return true;
}

static void expect_no_slower(const struct drawn *d, const struct pipeline_order *order, const struct outcome *run,
                             const struct outcome *hand, uint32_t i)
{
    if (run->makespan > hand->makespan) {
        TEST_FAIL_("case %u: %u stages, %u micro-batches, %u chunks: auto takes %g, %s %g", i, d->stages,
                   d->micro_batches, d->chunks, run->makespan, order->name, hand->makespan);
    }
}

/* Random times, hops, limits, chunks and recomputation: no order that keeps the limits ends sooner. */
static void test_random_pipelines(void)
{
    uint64_t random = test_seed;
    uint32_t count, compared = 0, shorter = 0, alone = 0;
    double over = 0;
    const struct pipeline_order *const *orders = registry_orders(&count);
    for (uint32_t i = 0; i < CASES; i++) {
        struct drawn d = draw(&random);
        double limits[STAGES];
        for (uint32_t s = 0; s < d.stages; s++) {
            limits[s] = 1 + (double)test_below(&random, 4 * d.stages) / 2;
        }
        const double *given = i % 4 == 0 ? NULL : limits;
        struct outcome run = run_auto(&d, given);
        over += run.makespan / run.bound / CASES;
        double best = (double)INFINITY;
        for (uint32_t k = 0; k < count; k++) {
            if (comparable(&d, orders[k])) {
                struct outcome hand = simulate(&d, orders[k], NULL);
                if (fits(&d, &hand, given)) {
                    expect_no_slower(&d, orders[k], &run, &hand, i);
                    best = fmin(best, hand.makespan);
                }
            }
        }
        bool any = best < (double)INFINITY;
        compared += any;
        shorter += any && run.makespan < best;
        alone += !any;
    }
    printf("%u pipelines: in %u hand-made orders keep the limits, auto is shorter than the best of them in %u; in %u "
           "there is only auto; mean over the bound %.3f\n",
           CASES, compared, shorter, alone, over);
    EXPECT(compared > CASES / 4 && shorter > CASES / 20 && alone > CASES / 20);
}

/* Each hand-made order's own peaks as the limits: what its authors reach in that memory the scheduler reaches too. */
static void test_own_limits(void)
{
    static const char *const names[] = { "gpipe", "1f1b",   "interleaved", "zb-h1",     "zb-h2",
                                         "zb-v",  "v-half", "v-min",       "dapple-pb", "lsps-a" };
    enum { NAMES = sizeof names / sizeof names[0] };
    uint64_t random = test_seed;
    uint32_t shorter[NAMES] = { 0 }, runs[NAMES] = { 0 };
    for (uint32_t i = 0; i < CASES; i++) {
        uint32_t k = i % NAMES;
        const struct pipeline_order *order = registry_order(names[k], NULL);
        struct drawn d = draw(&random);
        d.splits = d.splits || order->splits_backward;
        d.chunks = order->virtual_stages != 0 ? order->virtual_stages : d.chunks;
        d.placement = order->placement != NULL ? AUTO_V : AUTO_LOOP;
        if (!comparable(&d, order)) {
            continue;
        }
        struct outcome hand = simulate(&d, order, NULL);
        struct outcome run = run_auto(&d, hand.peaks);
        expect_no_slower(&d, order, &run, &hand, i);
        shorter[k] += run.makespan < hand.makespan;
        runs[k]++;
    }
    for (uint32_t k = 0; k < NAMES; k++) {
        printf("%s: shorter in its memory in %u of %u\n", names[k], shorter[k], runs[k]);
        EXPECT(runs[k] > CASES / 40);
    }
}

/* A higher whole limit for all stages never makes the pipeline slower, nor does none at all. */
static void test_more_memory_is_no_slower(void)
{
    uint64_t random = test_seed;
    uint32_t shorter = 0;
    for (uint32_t i = 0; i < CASES / 32; i++) {
        struct drawn d = draw(&random);
        double before = (double)INFINITY, limits[STAGES];
        for (uint32_t most = 1; most <= d.micro_batches + 1; most++) {
            for (uint32_t s = 0; s < d.stages; s++) {
                limits[s] = most;
            }
            double now = run_auto(&d, most > d.micro_batches ? NULL : limits).makespan;
            if (now > before) {
                TEST_FAIL_(
                    "case %u: %u stages, %u micro-batches, %u chunks: %.12g with %u activations, %.12g with less", i,
                    d.stages, d.micro_batches, d.chunks, now, most, before);
            }
            shorter += now < before;
            before = now;
        }
    }
    printf("memory for one more micro-batch makes the pipeline shorter %u times\n", shorter);
    EXPECT(shorter > CASES / 32);
}

/* On a V with equal times, memory between v-half's and zb-v's buys a step between theirs. */
static void test_memory_buys_time(void)
{
    for (uint32_t p = 8; p <= 16; p += 4) {
        struct drawn d = { .stages = p, .micro_batches = 4 * p, .chunks = 2, .placement = AUTO_V, .splits = true };
        double limits[STAGES];
        for (uint32_t s = 0; s < p; s++) {
            d.times[STEP_FORWARD][s] = d.times[STEP_BACKWARD][s] = d.times[STEP_BACKWARD_WEIGHT][s] = 1;
            limits[s] = 0.75 * p;
        }
        struct outcome half = simulate(&d, registry_order("v-half", NULL), NULL),
                       least = simulate(&d, registry_order("v-min", NULL), NULL),
                       full = simulate(&d, registry_order("zb-v", NULL), NULL);
        EXPECT(fits(&d, &half, limits) && !fits(&d, &full, limits));
        struct outcome between = run_auto(&d, limits);
        printf("%u stages: v-min %g, v-half %g, auto with memory of %g %g, zb-v %g\n", p, least.makespan, half.makespan,
               limits[0], between.makespan, full.makespan);
        EXPECT(between.makespan < half.makespan && between.makespan >= full.makespan);
    }
}

/* Big ones: quick, and the same twice. */
static void test_big(void)
{
    enum { P = 64, M = 512 };
    static double times[3][2 * P], limits[P];
    uint64_t random = test_seed;
    for (uint32_t i = 0; i < 3 * 2 * P; i++) {
        times[i % 3][i / 3] = 1 + (double)test_below(&random, 4);
        limits[i % P] = P;
    }
    const struct order_auto_request request = { .stages = P,
                                                .micro_batches = M,
                                                .virtual_stages = 2,
                                                .placement = AUTO_V,
                                                .forward = times[0],
                                                .backward = times[1],
                                                .weight = times[2],
                                                .hop = 0.5,
                                                .limits = limits };
    double busiest = 0; /* stage: it works without a pause, but for the ends of the pipeline */
    for (uint32_t s = 0; s < P; s++) {
        double work = 0;
        for (uint32_t k = 0; k < 3; k++) {
            work += times[k][s] + times[k][2 * P - 1 - s];
        }
        busiest = fmax(busiest, M * work);
    }
    struct strbuf texts[2] = { 0 };
    for (int i = 0; i < 2; i++) {
        struct order_table table;
        struct order_auto_result result;
        struct error error = { 0 };
        EXPECT_INT(order_auto(&request, &table, &result, &error), STATUS_OK);
        EXPECT(result.makespan <= 1.1 * busiest);
        order_table_print(&table, &texts[i]);
        order_table_free(&table);
    }
    EXPECT(texts[0].length > 0 && texts[0].length == texts[1].length && strcmp(texts[0].text, texts[1].text) == 0);
    strbuf_free(&texts[0]);
    strbuf_free(&texts[1]);
}

static void test_refused(void)
{
    double one[8] = { 1, 1, 1, 1, 1, 1, 1, 1 }, bad[8] = { 1, 1, 1, 1, 1, -1, 1, 1 };
    struct order_auto_request request = {
        .stages = 4, .micro_batches = 2, .virtual_stages = 2, .placement = AUTO_V, .forward = one, .backward = one
    };
    struct order_table table;
    struct order_auto_result result;
    struct error error = { 0 };
    request.recompute = bad; /* virtual stage 5 is the second chunk of stage 2 */
    EXPECT_INT(order_auto(&request, &table, &result, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "stage 2: a recomputation that takes -1: the scheduler needs times of at least 0");
    request.recompute = NULL;
    request.micro_batches = ORDER_AUTO_PASSES_MAX / 8 + 1;
    EXPECT_INT(order_auto(&request, &table, &result, &error), STATUS_LIMIT);
    EXPECT_PART(error.message, "4 stages x 2 chunks x 131073 micro-batches");
    EXPECT_PART(error.message, "so 131072 micro-batches here");
}

TEST_MAIN(TEST(test_random_pipelines), TEST(test_own_limits), TEST(test_more_memory_is_no_slower),
          TEST(test_memory_buys_time), TEST(test_big), TEST(test_refused))
