/* The Galvatron planners on scenarios: presets, plans, what they refuse. The search itself is tested against its goldens elsewhere. */
#include "sim/base/json.h"
#include "sim/base/units.h"
#include "strategies/planners/plan_answer.h"
#include "tests/test.h"

static void load(struct scenario *scenario, const char *text, const char *const *sets, uint32_t count)
{
    struct error error = { 0 };
    if (scenario_parse(scenario, text, "test", sets, count, &error) != STATUS_OK) {
        TEST_FAIL_("scenario: %s", error.message);
        exit(1);
    }
}

static enum status plan_switched(const struct scenario *scenario, const char *name, const char *switches,
                                 const double *budgets, uint32_t count, struct planner_answer *answer,
                                 struct error *error)
{
    const struct planner *planner = planner_find(name, error);
    struct planner_request request = {
        .scenario = scenario, .budgets_bytes = budgets, .budget_count = count, .threads = 2, .top = 3
    };
    struct json_document *document = NULL;
    struct json root;
    if (planner == NULL || json_parse(&document, switches, strlen(switches), "test", error) != STATUS_OK) {
        TEST_FAIL_("%s %s: %s", name, switches, error->message);
        exit(1);
    }
    json_root(document, &root);
    EXPECT_INT(parameters_read(planner->parameters, planner->parameter_count, &root, NULL, &request.parameters, error),
               STATUS_OK);
    json_free(document);
    return planner_search(planner, &request, answer, error);
}

static enum status plan_with(const struct scenario *scenario, const char *name, const char *preset,
                             const double *budgets, uint32_t count, struct planner_answer *answer, struct error *error)
{
    char switches[64];
    snprintf(switches, sizeof switches, "{\"preset\":\"%s\"}", preset);
    return plan_switched(scenario, name, switches, budgets, count, answer, error);
}

/* Rows "full" of galvatron/golden/v1_search_8gpu.csv, recomputed from the public code and data (facts/galvatron-bmw.md D.3). */
static void test_v1_rows(void)
{
    static const struct {
        const char *model;
        struct {
            double samples_per_s;
            int64_t batch, pipeline;
            double leftover_mib;
        } rows[4];
    } cases[] = {
        { "model=bert-huge-32",
          { { 9.369245, 8, 2, 27 }, { 13.236512, 16, 1, 2 }, { 16.645545, 24, 2, 6 }, { 18.943061, 32, 2, 182 } } },
        { "model=bert-huge-48",
          { { 0, 0, 0, 0 }, { 6.611570, 8, 8, 1708 }, { 8.560319, 16, 1, 50 }, { 10.007363, 16, 2, 1026 } } },
        { "model=vit-huge-32",
          { { 37.730765, 56, 1, 104 },
            { 53.310859, 72, 2, 216 },
            { 67.542353, 160, 1, 66 },
            { 75.434899, 152, 1, 99 } } },
    };
    const double budgets[] = { 8 * GIB, 12 * GIB, 16 * GIB, 20 * GIB };
    int mixed = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scenario scenario;
        struct planner_answer answer;
        struct error error = { 0 };
        load(&scenario, "{\"model\":\"bert-huge-32\",\"machine\":\"titan-rtx-8-galvatron\"}", &cases[i].model, 1);
        EXPECT_INT(plan_with(&scenario, "galvatron-bmw", "v1", budgets, 4, &answer, &error), STATUS_OK);
        for (int k = 0; k < 4; k++) {
            const struct planner_result *result = &answer.results[k];
            EXPECT_INT(result->found, cases[i].rows[k].batch > 0);
            if (result->found) {
                EXPECT_REAL(result->best.samples_per_s, cases[i].rows[k].samples_per_s, 1e-5);
                EXPECT_INT(result->best.global_batch, cases[i].rows[k].batch);
                EXPECT_INT(result->best.pipeline, cases[i].rows[k].pipeline);
                /* whatever the splits of its layers, the plan is one of ours and runs */
                EXPECT(result->best.has_plan && result->best.is_simulated);
                EXPECT_INT(result->best.simulated.verdict, ORACLE_RAN);
                mixed += result->best.has_plan && result->best.plan.layers != NULL;
                EXPECT_REAL(result->best.stages[0].leftover_bytes / 1048576, cases[i].rows[k].leftover_mib, 0);
            } else {
                EXPECT(result->smallest_budget_bytes > budgets[k]);
            }
        }
        planner_answer_free(&answer);
        scenario_free(&scenario);
    }
    printf("  %d plans whose layers are split differently\n", mixed);
    EXPECT(mixed >= 6);
}

/* Every variant's plan is a plan: it runs, and the cost model's memory is not below the simulator's by more than the rounding of a MiB a layer. */
static void test_variants_simulated(void)
{
    static const char *const names[] = { "galvatron", "galvatron-base", "1f1b-biobj", "galvatron-bmw" };
    const double budgets[] = { 8 * GIB, 16 * GIB };
    const char *const sets[] = { "training.global_batch=32" };
    double best[2] = { 0, 0 };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct scenario scenario;
        struct planner_answer answer;
        struct error error = { 0 };
        load(&scenario, "{\"model\":\"bert-huge-32\",\"machine\":\"titan-rtx-8-galvatron\"}", sets, 1);
        EXPECT_INT(plan_with(&scenario, names[i], "memwall", budgets, 2, &answer, &error), STATUS_OK);
        for (int k = 0; k < 2; k++) {
            const struct planner_result *result = &answer.results[k];
            const struct planner_choice *choice = &result->best;
            if (!result->found) {
                continue;
            }
            EXPECT_INT(choice->global_batch, 32);
            EXPECT_INT(choice->layer_count, 32);
            if (choice->is_simulated) {
                EXPECT_INT(choice->simulated.verdict, ORACLE_RAN);
                printf("  %s, %.0f GiB: model %.4g s, simulated %.4g s; %.4g, %.4g GiB\n", names[i], budgets[k] / GIB,
                       choice->step_time_s, choice->simulated.step_time_s, choice->peak_bytes / GIB,
                       (double)choice->simulated.peak_bytes / GIB);
                EXPECT((double)choice->simulated.peak_bytes <= budgets[k]);
            }
            /* galvatron-bmw comes last: by its cost model no variant is better */
            EXPECT(i < 3 || choice->samples_per_s >= best[k] * (1 - 1e-12));
            best[k] = fmax(best[k], choice->samples_per_s);
        }
        planner_answer_free(&answer);
        scenario_free(&scenario);
    }
    EXPECT(best[0] > 0 && best[1] >= best[0]);
}

static void test_refusals(void)
{
    struct scenario scenario;
    struct planner_answer answer;
    struct error error = { 0 };
    const double budget = 16 * GIB;
    const char *const seven[] = { "gpus=7" };
    load(&scenario, "{\"model\":\"bert-huge-32\",\"machine\":\"titan-rtx-8-galvatron\"}", seven, 1);
    EXPECT_INT(plan_with(&scenario, "galvatron-bmw", "memwall", &budget, 1, &answer, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "power");
    scenario_free(&scenario);
}

/* Simulated samples/s of the best plan, whose words are checked to be what the switches allow; 0: none. */
static double speed_of(const char *text, const char *name, const char *switches, double gib, struct plan *best)
{
    struct scenario scenario;
    struct planner_answer answer;
    struct error error = { 0 };
    double speed = 0, budget = gib * GIB;
    load(&scenario, text, NULL, 0);
    if (plan_switched(&scenario, name, switches, &budget, 1, &answer, &error) != STATUS_OK) {
        TEST_FAIL_("%s: %s", switches, error.message);
        exit(1);
    }
    if (answer.results[0].found) {
        const struct planner_choice *choice = &answer.results[0].best;
        EXPECT(oracle_fits(&choice->simulated, budget));
        speed = choice->simulated.samples_per_s;
        *best = choice->plan; /* its numbers; its arrays go */
    }
    planner_answer_free(&answer);
    scenario_free(&scenario);
    return speed;
}

/* ZeRO-2 is searched beside whole replicas: it may win where both fit, and fit where the other does not. */
static void test_zero2(void)
{
    static const char *const text =
        "{\"model\":{\"family\":\"gpt\",\"layers\":4,\"hidden\":512,\"heads\":8,\"ffn\":2048,"
        "\"vocab\":8192,\"max_sequence\":256},\"machine\":\"titan-rtx-8-galvatron\","
        "\"training\":{\"global_batch\":32,\"precision\":\"fp16\"}}";
    struct plan best = { 0 };
    double whole = speed_of(text, "galvatron", "{\"zero2\":\"off\"}", 20, &best);
    EXPECT(best.zero_stage != 2);
    double only = speed_of(text, "galvatron", "{\"zero2\":\"on\"}", 20, &best);
    EXPECT_INT(best.zero_stage, 2);
    double both = speed_of(text, "galvatron", "{}", 20, &best);
    printf("  whole replicas %.5g samples/s, ZeRO-2 %.5g, both searched %.5g\n", whole, only, both);
    EXPECT(only > whole);
    EXPECT_REAL(both, only, 0);
    EXPECT_REAL(speed_of(text, "galvatron", "{\"space\":\"dp\",\"zero2\":\"off\"}", 0.78, &best), 0, 0);
    EXPECT(speed_of(text, "galvatron", "{\"space\":\"dp\",\"zero2\":\"on\"}", 0.78, &best) > 0);
}

/* Kernels of a sample or two leave the device idle: four stages that take turns with the whole batch beat pieces of it, and everything else. */
static void test_few_micro_batches(void)
{
    struct plan best = { 0 };
    double speed = speed_of("{\"model\":{\"family\":\"gpt\",\"layers\":6,\"hidden\":512,\"heads\":8,\"ffn\":2048,"
                            "\"vocab\":1024,\"max_sequence\":256},\"machine\":\"titan-rtx-8-galvatron\",\"gpus\":4,"
                            "\"training\":{\"global_batch\":8,\"precision\":\"fp16\"}}",
                            "galvatron-bmw", "{}", 20, &best);
    printf("  %.5g samples/s, %d stages, %d micro-batches\n", speed, (int)best.pipeline, (int)best.micro_batches);
    EXPECT_INT(best.pipeline, 4);
    EXPECT_INT(best.micro_batches, 1);
}

/* Where nothing fits: the search finds a plan in what it names, and that plan fits by simulation. By the cost model alone it named 2.84961 GiB for the first of these, where no plan did. */
static void test_smallest_budget_is_enough(void)
{
    static const char *const models[] = { "bert-huge-48", "swin-huge-32", "t5-large-32" };
    static const char *const names[] = { "galvatron-bmw", "galvatron-base", "1f1b-biobj" };
    for (int i = 0; i < 9; i++) {
        char text[128];
        struct scenario scenario;
        struct planner_answer answer;
        struct error error = { 0 };
        double budget = 1.3 * GIB;
        snprintf(text, sizeof text,
                 "{\"model\":\"%s\",\"machine\":\"box-8x-titan-rtx\",\"training\":{\"global_batch\":32}}",
                 models[i / 3]);
        load(&scenario, text, NULL, 0);
        EXPECT_INT(plan_switched(&scenario, names[i % 3], "{}", &budget, 1, &answer, &error), STATUS_OK);
        const struct planner_result *result = &answer.results[0];
        EXPECT(!result->found && result->smallest_budget_bytes > budget);
        EXPECT_PART(result->reasons[0], "where a plan fits by simulation");
        budget = planner_enough_gib(result->smallest_budget_bytes) * GIB;
        planner_answer_free(&answer);
        EXPECT_INT(plan_switched(&scenario, names[i % 3], "{}", &budget, 1, &answer, &error), STATUS_OK);
        printf("  %s, %s: %.6g GiB\n", models[i / 3], names[i % 3], budget / GIB);
        EXPECT(answer.results[0].found && oracle_fits(&answer.results[0].best.simulated, budget));
        planner_answer_free(&answer);
        scenario_free(&scenario);
    }
}

/* ... and is the smallest to a hundredth, also where the cost model thinks that the budget asked for does. */
static void test_smallest_budget_is_close(void)
{
    static const char *const text =
        "{\"model\":{\"family\":\"gpt\",\"layers\":5,\"hidden\":1024,\"heads\":8,\"ffn\":2048,"
        "\"vocab\":50257,\"max_sequence\":512},\"machine\":\"box-8x-titan-rtx\",\"gpus\":4,"
        "\"software\":\"deepspeed\",\"training\":{\"global_batch\":12}}";
    static const char *const switches = "{\"zero2\":\"off\",\"formula\":\"v1\"}";
    static const double asked[] = { 0.6, 1.04 }, enough = 1.07;
    struct plan best = { 0 };
    EXPECT(speed_of(text, "galvatron-bmw", switches, enough, &best) > 0);
    for (int i = 0; i < 2; i++) {
        struct scenario scenario;
        struct planner_answer answer;
        struct error error = { 0 };
        double budget = asked[i] * GIB;
        load(&scenario, text, NULL, 0);
        EXPECT_INT(plan_switched(&scenario, "galvatron-bmw", switches, &budget, 1, &answer, &error), STATUS_OK);
        const struct planner_result *result = &answer.results[0];
        printf("  asked for %.6g GiB: %s\n", asked[i], result->reasons[0]);
        EXPECT(!result->found && result->smallest_budget_bytes <= 1.01 * enough * GIB);
        EXPECT_PART(result->reasons[0], "none was found in");
        planner_answer_free(&answer);
        scenario_free(&scenario);
    }
}

/* A switch changes the answer of the presets that have it, and is refused by the others. */
static void test_switches(void)
{
#define GPT                                                                                                            \
    "{\"model\":{\"family\":\"gpt\",\"layers\":8,\"hidden\":1024,\"heads\":16,\"ffn\":4096,\"vocab\":8192,"            \
    "\"max_sequence\":1024},\"machine\":\"dgx-a100-40gb\",\"training\":{\"global_batch\":256}}"
#define BERT "{\"model\":\"bert-huge-32\",\"machine\":\"titan-rtx-8-galvatron\"}"
    static const struct {
        const char *scenario, *preset, *switched;
        double gib;
        bool differ;
    } cases[] = {
        { GPT, "\"preset\":\"g2\",\"batch_first\":256", "\"recompute_cost\":\"whole\"", 4, true },
        { GPT, "\"preset\":\"g2\",\"batch_first\":256", "\"recompute_cost\":\"half\"", 4, false },
        { GPT, "\"preset\":\"g2\",\"batch_first\":256", "\"recompute_peak\":\"off\"", 4, true },
        { GPT, "\"preset\":\"g2\"", "\"zero2\":\"off\"", 4, true },
        { GPT, "\"preset\":\"g2\",\"space\":\"3d\"", "\"formula\":\"v1\"", 30, true },
        { GPT, "\"preset\":\"g2\",\"space\":\"3d\"", "\"formula\":\"sync\"", 30, true },
        { GPT, "\"preset\":\"head\",\"batch_first\":256", "\"recompute_cost\":\"half\"", 2, true },
        { GPT, "\"preset\":\"head\",\"batch_first\":256", "\"recompute_cost\":\"whole\"", 2, false },
        { BERT, "\"preset\":\"v1\",\"space\":\"pp\"", "\"formula\":\"v1\"", 12, false },
        { BERT, "\"preset\":\"v1\",\"space\":\"pp\"", "\"formula\":\"g2\"", 12, true },
        { BERT, "\"preset\":\"v1\",\"space\":\"pp\"", "\"formula\":\"head\"", 12, true },
    };
    static const char *const refused[] = { "{\"preset\":\"v1\",\"recompute_cost\":\"half\"}",
                                           "{\"preset\":\"v1\",\"recompute_peak\":\"on\"}",
                                           "{\"preset\":\"v1\",\"zero2\":\"on\"}", "{\"recompute_cost\":\"half\"}",
                                           "{\"recompute_peak\":\"off\"}" };
    struct scenario scenario;
    struct planner_answer answer;
    struct error error = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double speed[2] = { 0 }, budget = cases[i].gib * GIB;
        load(&scenario, cases[i].scenario, NULL, 0);
        for (int k = 0; k < 2; k++) {
            char switches[128];
            snprintf(switches, sizeof switches, "{%s%s%s}", cases[i].preset, k == 0 ? "" : ",",
                     k == 0 ? "" : cases[i].switched);
            EXPECT_INT(plan_switched(&scenario, "galvatron", switches, &budget, 1, &answer, &error), STATUS_OK);
            speed[k] = answer.results[0].found ? answer.results[0].best.samples_per_s : 0;
            planner_answer_free(&answer);
        }
        printf("  %s: %.6g samples/s, with %s %.6g\n", cases[i].preset, speed[0], cases[i].switched, speed[1]);
        EXPECT(speed[0] > 0);
        EXPECT_INT(speed[0] != speed[1], cases[i].differ);
        scenario_free(&scenario);
    }
    load(&scenario, BERT, NULL, 0);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const double budget = 12 * GIB;
        EXPECT_INT(plan_switched(&scenario, "galvatron", refused[i], &budget, 1, &answer, &error), STATUS_BAD_INPUT);
        EXPECT_PART(error.message, "has no switch");
    }
    scenario_free(&scenario);
}

TEST_MAIN(TEST(test_v1_rows), TEST(test_variants_simulated), TEST(test_zero2), TEST(test_few_micro_batches),
          TEST(test_smallest_budget_is_enough), TEST(test_smallest_budget_is_close), TEST(test_switches),
          TEST(test_refusals))
