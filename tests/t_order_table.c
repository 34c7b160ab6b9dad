/* Orders given step by step, and the scheduler that makes them. */
#include <time.h>

#include "sim/exec.h"
#include "sim/plan/bare_pipeline.h"
#include "sim/plan/lower.h"
#include "sim/plan/order_auto.h"
#include "sim/plan/scenario.h"
#include "strategies/registry.h"
#include "tests/test.h"

static enum status parse(struct order_table *table, const char *text, struct error *error)
{
    return order_table_parse(table, text, strlen(text), "mine.txt", error);
}

struct measured {
    double makespan, peak;
};

/* `limits` (may be NULL): activations that no stage keeps more of. */
static struct measured run_request(const struct bare_pipeline_request *request, const double *limits)
{
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    struct bare_pipeline_result result = { 0 };
    struct error error = { 0 };
    struct measured measured = { 0, 0 };
    const struct exec_options options = { .audit = true };
    EXPECT_INT(bare_pipeline_schedule(request, &schedule, &error), STATUS_OK);
    EXPECT_INT(exec_sim.run(&schedule, &options, &timeline, &error), STATUS_OK);
    EXPECT_INT(bare_pipeline_measure(request, &schedule, &timeline, &result, &error), STATUS_OK);
    measured.makespan = result.makespan;
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

static void test_file(void)
{
    struct order_table table;
    struct error error = { 0 };
    const char *text =
        "# 1F1B\nF0 F1 F2 B0 F3 B1 B2 B3\n\nF0 F1 B0 F2 B1 F3 B2 B3 # middle\r\n f0,b0 F1\tB1 F2 B2 F3 B3";
    EXPECT_INT(parse(&table, text, &error), STATUS_OK);
    EXPECT_INT(table.stages, 3);
    EXPECT_INT(table.micro_batches, 4);
    EXPECT_REAL(run_table(&table, NULL).makespan, 18, 0);
    struct strbuf out = { 0 };
    order_table_print(&table, &out);
    EXPECT_TEXT(out.text, "F0 F1 F2 B0 F3 B1 B2 B3\nF0 F1 B0 F2 B1 F3 B2 B3\nF0 B0 F1 B1 F2 B2 F3 B3\n");
    order_table_free(&table);
    EXPECT_INT(parse(&table, out.text, &error), STATUS_OK);
    strbuf_free(&out);
    order_table_free(&table);
    /* a V by its virtual stages, weight parts apart */
    EXPECT_INT(parse(&table, "F0.0 F0.3 B0.3 W0.3 B0.0 W0.0\nF0.1 F0.2 B0.2 B0.1 W0.2 W0.1\n", &error), STATUS_OK);
    EXPECT_INT(table.virtual_stages, 2);
    EXPECT_INT(table.placement[1], 3);
    EXPECT(table.splits_backward);
    EXPECT_REAL(run_table(&table, NULL).peak, 1, 0);
    order_table_free(&table);
}

static void expect_bad(const char *text, const char *where, const char *part)
{
    struct order_table table;
    struct error error = { 0 };
    EXPECT_INT(parse(&table, text, &error), STATUS_BAD_INPUT);
    EXPECT_TEXT(error.path, where);
    EXPECT_PART(error.message, part);
}

static void test_bad_files(void)
{
    expect_bad("", "", "no step");
    expect_bad("F0 X0 B0", "stage 0, position 2", "\"X0\" is no step");
    expect_bad("F0 B", "stage 0, position 2", "\"B\" is no step");
    expect_bad("F0 B0 F99999999", "stage 0, position 3", "is no step");
    expect_bad("F0 F0 B0", "stage 0, position 2", "F0 stands at position 1 already: remove one");
    expect_bad("B0 F0", "stage 0, position 1", "B0 comes before F0: put F0 in front of it");
    expect_bad("F0 F1 B0\nF0 B0 F1 B1", "stage 0, position 3", "the stage never runs B1: add it");
    expect_bad("F0 B0\nF0 B0 F1 B1", "stage 0, position 3", "the stage never runs F1: add it");
    expect_bad("F0 B0 W0 F1 B1", "stage 0, position 6", "the stage never runs W1: add it");
    expect_bad("F0.0 B0", "stage 0, position 2", "on all or on none");
    expect_bad("F0.0 B0.0\nF0.1 F0.0 B0.1 B0.0", "stage 1, position 2", "virtual stage 0 is on stage 0 already");
    expect_bad("F0.0 F0.1 B0.1 B0.0\nF0.2 B0.2", "stage 1, position 1",
               "equally many: name them up to 3, or no further than 1");
    expect_bad("F0.0\nB0.0", "stage 0, position 1",
               "1 virtual stages on 2 stages: every stage must hold equally many: name them up to 1");
    /* stage 0 wants B0 before F1 runs; stage 1 wants F1 before B0 */
    expect_bad(
        "F0 B0 F1 B1\nF0 F1 B0 B1", "stage 1, position 2",
        "stage 0, position 2 (B0) waits for B0, which stands here at position 3, behind F1 that waits in turn: move B0 "
        "of stage 1 in front of position 2");
    expect_bad("F0.1 F0.0 B0.1 B0.0", "stage 0, position 1", "move F0.0 of stage 0 in front of position 1");
}

enum { STAGES = 4, BATCHES = 4, WORDS = 3 * BATCHES };

/* Steps of each stage as numbers: kind * BATCHES + micro-batch. */
struct draft {
    int steps[STAGES][WORDS];
};

static void move(int *steps, int from, int to)
{
    int step = steps[from];
    memmove(steps + from, steps + from + 1, (size_t)(WORDS - 1 - from) * sizeof *steps);
    memmove(steps + to + 1, steps + to, (size_t)(WORDS - 1 - to) * sizeof *steps);
    steps[to] = step;
}

static int find(const int *steps, int step)
{
    int i = 0;
    while (steps[i] != step) {
        i++;
    }
    return i;
}

static enum status parse_draft(const struct draft *draft, struct order_table *table, struct error *error)
{
    char text[1024] = "";
    for (int s = 0; s < STAGES; s++) {
        for (int i = 0; i < WORDS; i++) {
            int step = draft->steps[s][i];
            snprintf(text + strlen(text), sizeof text - strlen(text), "%c%d%c", "FBW"[step / BATCHES], step % BATCHES,
                     i + 1 < WORDS ? ' ' : '\n');
        }
    }
    return parse(table, text, error);
}

/* Carry out what a message asks for. */
static void mend(struct draft *draft, const char *message)
{
    const char *asked = strstr(message, "in turn: move ");
    char kind = 0;
    int micro_batch = 0, stage = 0, position = 0;
    EXPECT(asked != NULL);
    if (asked == NULL || sscanf(asked, "in turn: move %c%d of stage %d", &kind, &micro_batch, &stage) != 3) {
        return;
    }
    int *steps = draft->steps[stage], at = kind == 'F' ? 0 : kind == 'B' ? 1 : 2;
    const char *where = strstr(asked, "position ");
    EXPECT(where != NULL && sscanf(where, "position %d", &position) == 1);
    if (strstr(asked, " behind ") != NULL) {
        move(steps, find(steps, at * BATCHES + micro_batch), position - 1);
        return;
    }
    int first = strstr(asked, "with what stands between") != NULL ? 0 : at;
    for (int k = at; k >= first; k--) {
        int from = find(steps, k * BATCHES + micro_batch);
        if (from > position - 1) {
            move(steps, from, position - 1);
        }
    }
}

/* Forward, backward and weight gradient of each micro-batch in this order again. */
static void sort_passes(int *steps)
{
    for (int m = 0; m < BATCHES; m++) {
        for (int i = 0, kind = 0; i < WORDS; i++) {
            if (steps[i] % BATCHES == m) {
                steps[i] = BATCHES * kind++ + m;
            }
        }
    }
}

/* Steps of a good order put somewhere else, one or many: where the pipeline then waits for itself, what the messages ask for is well formed, and lets it run in the end. */
static void check_mends(int moved, unsigned mends_max)
{
    static const char *const names[] = { "zb-h1", "zb-h2" };
    uint64_t state = test_seed;
    unsigned stuck = 0, most = 0;
    for (int i = 0; i < 2000; i++) {
        struct draft draft;
        const struct pipeline_order *order = registry_order(names[i % 2], NULL);
        const struct order_request request = { .stages = STAGES, .micro_batches = BATCHES, .virtual_stages = 1 };
        for (uint32_t s = 0; s < STAGES; s++) {
            struct order_step steps[WORDS];
            EXPECT_INT(order->build(&request, s, steps), WORDS);
            for (int k = 0; k < WORDS; k++) {
                draft.steps[s][k] = steps[k].kind * BATCHES + (int)steps[k].micro_batch;
            }
        }
        for (int k = 0; k < moved; k++) {
            int *steps = draft.steps[test_below(&state, STAGES)];
            move(steps, (int)test_below(&state, WORDS), (int)test_below(&state, WORDS));
            if (moved > 1) {
                sort_passes(steps);
            }
        }
        struct order_table table;
        struct error error = { 0 };
        unsigned mends = 0;
        enum status status;
        while ((status = parse_draft(&draft, &table, &error)) != STATUS_OK &&
               strstr(error.message, "in turn") != NULL && mends < mends_max) {
            mend(&draft, error.message);
            mends++;
        }
        if (status == STATUS_OK) {
            order_table_free(&table);
            stuck += mends > 0;
            most = mends > most ? mends : most;
        } else if (mends > 0) {
            TEST_FAIL_("case %d: after %u mends %s", i, mends, error.message);
        }
    }
    printf("%d moved: %u of 2000 stuck, at most %u mends\n", moved, stuck, most);
    EXPECT(stuck > 50);
}

static void test_mends(void)
{
    check_mends(1, 20);
    check_mends(40, 200);
}

/* Random times, limits and hops: the order runs, keeps its limits, is never above the hand-made ones, never below the bound, and its makespan is what the simulator says. */
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
        EXPECT(result.makespan >= order_lower_bound(&request) - 1e-9);
        EXPECT_INT(order_table_check(&table, "auto", &error), STATUS_OK);
        EXPECT_REAL(run_table(&table, &request).makespan, result.makespan, 1e-6);
        ratio += result.makespan / result.lower_bound;
        runs++;
        order_table_free(&table);
    }
    printf("mean of makespan over lower bound: %.3f\n", ratio / runs);
}

/* No hand-made order beats the bound, whatever the times; one that splits backwards has the bound of split passes. */
static void test_no_order_beats_the_bound(void)
{
    static const struct {
        const char *name;
        bool splits;
    } orders[] = {
        { "gpipe", false }, { "1f1b", false }, { "dapple-pb", false }, { "zb-h1", true }, { "zb-h2", true }
    };
    uint64_t random = test_seed;
    uint32_t runs = 0, met = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t p = 1 + i / 5 % 6, m = 1 + (uint32_t)test_below(&random, 12), k = i % 5;
        double times[3][6];
        for (uint32_t s = 0; s < 3 * p; s++) {
            times[s % 3][s / 3] = 1 + (double)test_below(&random, i % 4 == 0 ? 1 : 5);
        }
        const struct order_auto_request bound = { .stages = p,
                                                  .micro_batches = m,
                                                  .virtual_stages = 1,
                                                  .forward = times[0],
                                                  .backward = times[1],
                                                  .weight = orders[k].splits ? times[2] : NULL,
                                                  .hop = (double)test_below(&random, 2) };
        struct bare_pipeline_request request = {
            .order = registry_order(orders[k].name, NULL),
            .order_request = { .stages = p, .micro_batches = m, .virtual_stages = 1 },
            .stage_forward = times[0],
            .stage_backward = times[1],
            .stage_weight = bound.weight,
            .has_weight_gradient = orders[k].splits,
            .hop = bound.hop,
        };
        parameters_defaults(request.order->parameters, request.order->parameter_count,
                            &request.order_request.parameters);
        double makespan = run_request(&request, NULL).makespan, least = order_lower_bound(&bound);
        if (makespan < least - 1e-9) {
            TEST_FAIL_("%s, %u stages, %u micro-batches: %g is below the bound %g", orders[k].name, p, m, makespan,
                       least);
        }
        runs++;
        met += makespan <= least + 1e-9;
    }
    printf("%u runs of hand-made orders, %u as short as the bound\n", runs, met);
    EXPECT(met > runs / 10); /* the bound is one that orders reach */
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
        EXPECT_REAL(result.lower_bound, (3 * p + p - 1) * 3.0, 1e-9);
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

/* Messages between stages: the look at the table says what the simulator finds out about its schedule. The second chunk goes round or back (a middle stage then sends to both its neighbours). */
static void random_steps(uint64_t *state, uint32_t stages, uint32_t micro_batches, uint32_t virtual_stages,
                         struct strbuf *text)
{
    bool back = test_below(state, 2) == 0;
    text->length = 0;
    for (uint32_t s = 0; s < stages; s++) {
        uint8_t done[64] = { 0 };
        uint32_t count = micro_batches * virtual_stages, left = 2 * count;
        while (left > 0) {
            uint32_t pick = (uint32_t)test_below(state, count);
            if (done[pick] < 2) {
                strbuf_printf(text, "%c%u", done[pick]++ == 0 ? 'F' : 'B', pick % micro_batches);
                if (virtual_stages > 1) {
                    bool second = pick >= micro_batches;
                    strbuf_printf(text, ".%u", !second ? s : back ? 2 * stages - 1 - s : stages + s);
                }
                strbuf_append(text, --left > 0 ? " " : "\n");
            }
        }
    }
}

/* Whether the step of a scenario of these sizes ends with the table as its order, which nobody has looked at. */
static bool ends_of(const struct order_table *table)
{
    char text[512];
    struct error error = { 0 };
    struct scenario scenario;
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    struct pipeline_order order = order_table_order(table, "mine");
    snprintf(
        text, sizeof text,
        "{\"model\": \"gpt2-xl\", \"machine\": \"dgx-a100-80gb\", \"gpus\": %u, \"training\": {\"global_batch\": %u, "
        "\"micro_batch\": 1, \"sequence_length\": 64}, \"parallel\": {\"pipeline\": %u, \"virtual_stages\": %u, "
        "\"pipeline_order\": \"interleaved\"}, \"detail\": \"stage\"}",
        table->stages, table->micro_batches, table->stages, table->virtual_stages);
    if (scenario_parse(&scenario, text, "test", NULL, 0, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
        return true;
    }
    scenario.plan.own_table = table;
    scenario.plan.own_order = &order;
    const struct lower_request request = { .model = &scenario.model,
                                           .cluster = &scenario.cluster,
                                           .software = &scenario.software,
                                           .plan = &scenario.plan,
                                           .order = &order,
                                           .policy = registry_policy(scenario.plan.policy, &error) };
    const struct exec_options options = { .cluster = &scenario.cluster, .software = &scenario.software };
    EXPECT_INT(lower_schedule(&request, &schedule, &error), STATUS_OK);
    enum status status = exec_sim.run(&schedule, &options, &timeline, &error); /* the verifier may see the circle */
    bool ends = status == STATUS_OK && timeline.outcome == TIMELINE_DONE;
    EXPECT(status == STATUS_OK || status == STATUS_BAD_SCHEDULE);
    timeline_free(&timeline);
    schedule_free(&schedule);
    scenario_free(&scenario);
    return ends;
}

static void test_transfers(void)
{
    uint32_t run = 0, refused = 0;
    struct strbuf text = { 0 };
    uint64_t state = test_seed;
    for (int i = 0; i < 3000 && (run < 15 || refused < 30); i++) {
        uint32_t stages = 2 + (uint32_t)test_below(&state, 2), chunks = 1 + (uint32_t)test_below(&state, 2);
        struct order_table table;
        struct error error = { 0 };
        random_steps(&state, stages, stages * (chunks > 1 || test_below(&state, 2) == 0 ? 1 : 2), chunks, &text);
        if (parse(&table, text.text, &error) != STATUS_OK) {
            continue; /* waits for itself whatever messages do */
        }
        bool passes = order_table_check_transfers(&table, "mine.txt", &error) == STATUS_OK;
        if (passes != ends_of(&table)) {
            TEST_FAIL_("%s:\n%s", passes ? "passes, and the step does not end" : error.message, text.text);
        }
        EXPECT(passes || error.status == STATUS_BAD_INPUT);
        run += passes;
        refused += !passes;
        order_table_free(&table);
    }
    printf("%u tables run, %u refused\n", run, refused);
    EXPECT(run >= 15 && refused >= 30);
    struct order_table table;
    struct error error = { 0 };
    /* A stage sends to both its neighbours: what waits for one of them (F2.2, until stage 2 has F1.5) holds back nothing for the other (F0.7). */
    EXPECT_INT(parse(&table,
                     "F0.0 F1.0 F2.0 F0.7 B0.7 F1.7 B1.7 F2.7 B2.7 B0.0 B1.0 B2.0 F3.0 F3.7 B3.7 B3.0\n"
                     "F0.1 F1.1 F2.1 F0.6 B0.6 F1.6 B1.6 F2.6 B2.6 B0.1 B1.1 B2.1 F3.1 F3.6 B3.6 B3.1\n"
                     "F0.2 F1.2 F0.5 B0.5 F1.5 F2.2 B1.5 F2.5 B2.5 B0.2 B1.2 B2.2 F3.2 F3.5 B3.5 B3.2\n"
                     "F0.3 F0.4 B0.4 F1.3 F1.4 B1.4 F2.3 F2.4 B2.4 B0.3 B1.3 B2.3 F3.3 F3.4 B3.4 B3.3\n",
                     &error),
               STATUS_OK);
    EXPECT_INT(order_table_check_transfers(&table, "mine.txt", &error), STATUS_OK);
    EXPECT(ends_of(&table));
    order_table_free(&table);
    EXPECT_INT(parse(&table, "F0 F1 B1 B0\nF1 F0 B0 B1\n", &error), STATUS_OK);
    EXPECT_INT(order_table_check_transfers(&table, "mine.txt", &error), STATUS_BAD_INPUT);
    EXPECT_TEXT(error.path, "stage 1, position 1");
    EXPECT_PART(error.message, "takes what F1 needs first, but stage 0 sends what F0 needs before that");
    order_table_free(&table);
    strbuf_free(&text);
}

TEST_MAIN(TEST(test_transfers), TEST(test_file), TEST(test_bad_files), TEST(test_mends), TEST(test_auto),
          TEST(test_no_order_beats_the_bound), TEST(test_auto_uniform), TEST(test_many_stages))
