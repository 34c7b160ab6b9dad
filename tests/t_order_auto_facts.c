/* The scheduler that makes orders step by step: facts and sizes. Against hand-made orders: t_order_auto; what a schedule file may say: t_order_file. */
#include <time.h>

#include "sim/exec.h"
#include "sim/plan/bare_pipeline.h"
#include "sim/plan/order_auto.h"
#include "tests/test.h"

struct measured {
    double makespan, bound, peak;
};

/* `limits` (may be NULL): activations that no stage keeps more of. */
static struct measured run_request(const struct bare_pipeline_request *request, const double *limits)
{
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    struct bare_pipeline_result result = { 0 };
    struct error error = { 0 };
    struct measured measured = { 0 };
    const struct exec_options options = { .audit = true };
    EXPECT_INT(bare_pipeline_schedule(request, &schedule, &error), STATUS_OK);
    EXPECT_INT(exec_sim.run(&schedule, &options, &timeline, &error), STATUS_OK);
    EXPECT_INT(bare_pipeline_measure(request, &schedule, &timeline, &result, &error), STATUS_OK);
    measured.makespan = result.makespan;
    measured.bound = result.bound.makespan;
    for (uint32_t s = 0; s < result.stage_count; s++) {
        measured.peak =
            result.stages[s].peak_activations > measured.peak ? result.stages[s].peak_activations : measured.peak;
        if (limits != NULL) {
            EXPECT(result.stages[s].peak_activations <= limits[s]);
        }
    }
    bare_pipeline_result_free(&result);
    timeline_free(&timeline);
    schedule_free(&schedule);
    return measured;
}

static struct measured run_table(const struct order_table *table, const struct order_auto_request *times)
{
    struct pipeline_order order = order_table_order(table, "mine");
    struct bare_pipeline_request request = {
        .order = &order,
        .order_request = { .stages = table->stages,
                           .micro_batches = table->micro_batches,
                           .virtual_stages = table->virtual_stages,
                           .table = table },
        .forward = 1,
        .backward = 2,
    };
    if (times != NULL) {
        request.stage_forward = times->forward;
        request.stage_backward = times->backward;
        request.stage_weight = times->weight;
        request.hop = times->hop;
    }
    return run_request(&request, times != NULL ? times->limits : NULL);
}

/* Random times, limits and hops: the order runs, keeps its limits, and its makespan is what the simulator says. */
static void test_auto(void)
{
    uint32_t random = 99;
    double ratio = 0;
    uint32_t runs = 0;
    for (uint32_t i = 0; i < 600; i++) {
        uint32_t p = 1 + i % 8, m = 1 + i / 8 % 17;
        double f[8], b[8], w[8], limits[8];
        for (uint32_t s = 0; s < p; s++) {
            random = random * 1664525 + 1013904223;
            f[s] = 1 + (random >> 16) % 5;
            b[s] = 1 + (random >> 20) % 5;
            w[s] = 1 + (random >> 24) % 5;
            limits[s] = 1 + (random >> 27) % (2 * p);
        }
        const struct order_auto_request request = { .stages = p,
                                                    .micro_batches = m,
                                                    .virtual_stages = 1,
                                                    .forward = f,
                                                    .backward = b,
                                                    .weight = i % 3 == 0 ? NULL : w,
                                                    .hop = i % 2,
                                                    .limits = i % 5 == 0 ? NULL : limits };
        struct order_table table;
        struct order_auto_result result;
        struct error error = { 0 };
        EXPECT_INT(order_auto(&request, &table, &result, &error), STATUS_OK);
        EXPECT_INT(order_table_check(&table, "auto", &error), STATUS_OK);
        struct measured measured = run_table(&table, &request);
        EXPECT_REAL(measured.makespan, result.makespan, 1e-6);
        ratio += measured.makespan / measured.bound;
        runs++;
        order_table_free(&table);
    }
    printf("mean of makespan over lower bound: %.3f\n", ratio / runs);
}

/* Uniform stages: with p activations as good as ZB-H1, with 2p - 1 as ZB-H2, without split backwards as 1F1B. */
static void test_auto_uniform(void)
{
    for (uint32_t p = 2; p <= 8; p++) {
        double one[8], two[8], limits[8], more[8];
        for (uint32_t s = 0; s < p; s++) {
            one[s] = 1;
            two[s] = 2;
            limits[s] = p;
            more[s] = 2 * p - 1;
        }
        struct order_auto_request request = { .stages = p,
                                              .micro_batches = 3 * p,
                                              .virtual_stages = 1,
                                              .forward = one,
                                              .backward = one,
                                              .weight = one,
                                              .limits = limits };
        struct order_table table;
        struct order_auto_result result;
        struct error error = { 0 };
        EXPECT_INT(order_auto(&request, &table, &result, &error), STATUS_OK);
        EXPECT(result.makespan <= 3.0 * 3 * p + (p - 1) + 1e-9);
        order_table_free(&table);
        request.limits = more;
        EXPECT_INT(order_auto(&request, &table, &result, &error), STATUS_OK);
        EXPECT(result.makespan <= 3.0 * 3 * p + (p - 1) + 1e-9);
        order_table_free(&table);
        request.backward = two;
        request.weight = NULL;
        request.limits = limits;
        EXPECT_INT(order_auto(&request, &table, &result, &error), STATUS_OK);
        EXPECT_REAL(result.makespan, (3 * p + p - 1) * 3.0, 1e-9);
        order_table_free(&table);
    }
    double time = 1, bad = 0.5;
    const struct order_auto_request request = {
        .stages = 1, .micro_batches = 1, .virtual_stages = 1, .forward = &time, .backward = &time, .limits = &bad
    };
    struct order_table table;
    struct order_auto_result result;
    struct error error = { 0 };
    EXPECT_INT(order_auto(&request, &table, &result, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "at least 1");
}

/* Many stages: the work is that of the passes, not of passes times stages (which were minutes here). */
static void test_many_stages(void)
{
    enum { MANY = 4096, FEW = 32 };
    static double times[MANY];
    for (uint32_t s = 0; s < MANY; s++) {
        times[s] = 1;
    }
    struct order_auto_request request = {
        .stages = MANY, .micro_batches = FEW, .virtual_stages = 1, .forward = times, .backward = times
    };
    struct order_table table;
    struct order_auto_result result;
    struct error error = { 0 };
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    EXPECT_INT(order_auto(&request, &table, &result, &error), STATUS_OK);
    EXPECT_REAL(result.makespan, 2.0 * (FEW + MANY - 1), 1e-9);
    order_table_free(&table);
    /* one micro-batch at a time: every pass wakes one stage */
    struct strbuf text = { 0 };
    for (uint32_t s = 0; s < MANY; s++) {
        for (uint32_t b = 0; b < FEW; b++) {
            strbuf_printf(&text, "F%u B%u%c", b, b, b + 1 < FEW ? ' ' : '\n');
        }
    }
    EXPECT_INT(order_table_parse(&table, text.text, text.length, "many", &error), STATUS_OK);
    order_table_free(&table);
    strbuf_free(&text);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    EXPECT(difftime(to.tv_sec, from.tv_sec) < 10);
    request.micro_batches = ORDER_AUTO_PASSES_MAX / MANY + 1;
    EXPECT_INT(order_auto(&request, &table, &result, &error), STATUS_LIMIT);
    EXPECT_PART(error.message, "so 256 micro-batches here");
    times[7] = 0;
    request.micro_batches = 1;
    EXPECT_INT(order_auto(&request, &table, &result, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "stage 7: a forward that takes 0");
}

TEST_MAIN(TEST(test_auto), TEST(test_auto_uniform), TEST(test_many_stages))
