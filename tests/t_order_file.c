/* Orders given step by step: what a schedule file may say, what is wrong with one and how it is mended, and which wait for themselves once messages go between stages. */
#include "sim/plan/lower.h"
#include "sim/plan/order_table.h"
#include "sim/plan/scenario.h"
#include "tests/pipeline_run.h"

static enum status parse(struct order_table *table, const char *text, struct error *error)
{
    return order_table_parse(table, text, strlen(text), "mine.txt", error);
}

/* Forward 1, backward 2. */
static void expect_run(const struct order_table *table, double makespan, double peak_of_first_stage)
{
    struct pipeline_order order = order_table_order(table, "mine");
    const struct bare_pipeline_request request = { .order = &order,
                                                   .order_request = { .stages = table->stages,
                                                                      .micro_batches = table->micro_batches,
                                                                      .virtual_stages = table->virtual_stages,
                                                                      .table = table },
                                                   .forward = 1,
                                                   .backward = 2 };
    struct bare_pipeline_result result = pipeline_run(&request);
    EXPECT_REAL(result.makespan, makespan, 0);
    EXPECT_REAL(result.stages[0].peak_activations, peak_of_first_stage, 0);
    bare_pipeline_result_free(&result);
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
    expect_run(&table, 18, 3);
    struct strbuf out = { 0 };
    order_table_print(&table, &out);
    EXPECT_TEXT(out.text, "F0 F1 F2 B0 F3 B1 B2 B3\nF0 F1 B0 F2 B1 F3 B2 B3\nF0 B0 F1 B1 F2 B2 F3 B3\n");
    order_table_free(&table);
    EXPECT_INT(parse(&table, out.text, &error), STATUS_OK);
    strbuf_free(&out);
    order_table_free(&table);
    EXPECT_INT(parse(&table, "F0 B0\rF0 B0\r", &error), STATUS_OK); /* lines of old Macs */
    EXPECT_INT(table.stages, 2);
    order_table_free(&table);
    /* a V by its virtual stages, weight parts apart */
    EXPECT_INT(parse(&table, "F0.0 F0.3 B0.3 W0.3 B0.0 W0.0\nF0.1 F0.2 B0.2 B0.1 W0.2 W0.1\n", &error), STATUS_OK);
    EXPECT_INT(table.virtual_stages, 2);
    EXPECT_INT(table.placement[1], 3);
    EXPECT(table.splits_backward);
    expect_run(&table, 4.5, 1);
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
    expect_bad("F0 B0 F65534", "stage 0, position 3", "micro-batches go up to 65533");
    expect_bad("F0 B0 F99999999", "stage 0, position 3", "micro-batches go up to 65533");
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

TEST_MAIN(TEST(test_file), TEST(test_bad_files), TEST(test_mends), TEST(test_transfers))
