/* The lower bound of bare pipelines: no schedule beats it, of whatever order, times, hops, recomputation and replicas; closed forms reach it; a forged makespan is caught. (A twin and an exhaustive search:
 * t_pipeline_bound_twin.c.) */
#include "sim/plan/bare_pipeline_bound.h"

#include "sim/plan/order_table.h"
#include "tests/pipeline_random.h"

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

TEST_MAIN(TEST(test_no_order_beats_it), TEST(test_no_table_beats_it), TEST(test_tight), TEST(test_claim),
          TEST(test_forged))
