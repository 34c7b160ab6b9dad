/* The Galvatron planners on scenarios: presets, plans, what they refuse. The search itself is tested against its goldens elsewhere. */
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

static enum status plan_with(const struct scenario *scenario, const char *name, double preset, const double *budgets,
                             uint32_t count, struct planner_answer *answer, struct error *error)
{
    const struct planner *planner = planner_find(name, error);
    struct planner_request request = {
        .scenario = scenario, .budgets_bytes = budgets, .budget_count = count, .threads = 2, .top = 3
    };
    if (planner == NULL) {
        return STATUS_NOT_FOUND;
    }
    parameters_defaults(planner->parameters, planner->parameter_count, &request.parameters);
    request.parameters.value[0] = preset; /* memwall, v1, g2, head */
    return planner_search(planner, &request, answer, error);
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
        EXPECT_INT(plan_with(&scenario, "galvatron-bmw", 1, budgets, 4, &answer, &error), STATUS_OK);
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
        EXPECT_INT(plan_with(&scenario, names[i], 0, budgets, 2, &answer, &error), STATUS_OK);
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
    EXPECT_INT(plan_with(&scenario, "galvatron-bmw", 0, &budget, 1, &answer, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "power");
    scenario_free(&scenario);
}

TEST_MAIN(TEST(test_v1_rows), TEST(test_variants_simulated), TEST(test_refusals))
