/* Budgets of the planner mpress: what it names as enough is enough, and of several budgets a larger one is never slower. */
#include "sim/base/units.h"
#include "strategies/planners/plan_answer.h"
#include "tests/test.h"

enum { NAMED_CASES = 120, RISING_CASES = 40, BUDGETS = 6, TEXT_BYTES = 1024 };

static const char *const MACHINES[] = { "dgx1-v100-32gb", "dgx-a100-40gb", "dgx2-v100", "box-8x-rtx3090" };
static const char *const ORDERS[] = { "1f1b", "gpipe", "zb-h1", "pipedream", "pipedream-2bw" };

static bool random_scenario(uint64_t *random, struct scenario *scenario)
{
    char text[TEXT_BYTES];
    struct error error = { 0 };
    int gpus = 2 + (int)test_below(random, 3), layers = gpus * (1 + (int)test_below(random, 2));
    int hidden = 128 << test_below(random, 3), micro_batches = gpus + (int)test_below(random, 3);
    snprintf(text, sizeof text,
             "{\"machine\": \"%s\", \"gpus\": %d, \"software\": \"%s\","
             " \"model\": {\"family\": \"gpt\", \"layers\": %d, \"hidden\": %d, \"heads\": 4, \"ffn\": %d,"
             " \"vocab\": 1000, \"max_sequence\": 512}, \"training\": {\"micro_batch\": 1, \"global_batch\": %d},"
             " \"parallel\": {\"pipeline\": %d, \"pipeline_order\": \"%s\"}}",
             MACHINES[test_below(random, 4)], gpus, test_below(random, 2) == 0 ? "ideal" : "megatron", layers, hidden,
             4 * hidden, micro_batches, gpus, ORDERS[test_below(random, 5)]);
    EXPECT_INT(scenario_parse(scenario, text, "test", NULL, 0, &error), STATUS_OK);
    return error.status == STATUS_OK;
}

/* `allow`: an index of the parameter's words. */
static bool plan_for(const struct scenario *scenario, double allow, const double *budgets_bytes, uint32_t count,
                     struct planner_answer *answer)
{
    struct error error = { 0 };
    const struct planner_request request = { .scenario = scenario,
                                             .budgets_bytes = budgets_bytes,
                                             .budget_count = count,
                                             .threads = 2,
                                             .parameters.value = { allow } };
    enum status status = planner_search(planner_find("mpress", &error), &request, answer, &error);
    if (status != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
    }
    return status == STATUS_OK;
}

static double resident_peak(const struct scenario *scenario)
{
    struct planner_answer answer = { 0 };
    double most = scenario->machine.gpu.usable_bytes, peak = 0;
    if (plan_for(scenario, 0, &most, 1, &answer)) {
        peak = answer.results[0].best.peak_bytes;
    }
    planner_answer_free(&answer);
    return peak;
}

/* The budget that it names is as it is printed, more than what was too little, and the same search with it finds a plan that keeps it. */
static void test_named_budget_is_enough(void)
{
    uint64_t random = test_seed;
    unsigned named = 0, without = 0;
    for (int i = 0; i < NAMED_CASES; i++) {
        static struct scenario scenario;
        struct planner_answer none = { 0 }, some = { 0 };
        if (!random_scenario(&random, &scenario)) {
            return;
        }
        double runtime = planner_runtime_bytes(&scenario), peak = resident_peak(&scenario), allow = i % 4;
        double share = 0.02 + 0.7 * (double)test_below(&random, 1000) / 1000;
        double budget = runtime + (peak - runtime) * share;
        if (plan_for(&scenario, allow, &budget, 1, &none) && !none.results[0].found) {
            double enough = none.results[0].smallest_budget_bytes;
            EXPECT(enough > budget);
            EXPECT_REAL(planner_enough_gib(enough) * GIB, enough, 0);
            if (enough <= scenario.machine.gpu.usable_bytes && plan_for(&scenario, allow, &enough, 1, &some)) {
                EXPECT(some.results[0].found);
                EXPECT(some.results[0].best.peak_bytes <= enough);
                named++;
            }
        } else {
            without++;
        }
        planner_answer_free(&none);
        planner_answer_free(&some);
        scenario_free(&scenario);
    }
    printf("%d cases: in %u a budget is named and enough, %u have a plan at once\n", NAMED_CASES, named, without);
    EXPECT(named > NAMED_CASES / 3);
}

/* Budgets in any order: results stand in theirs, and throughput rises with the budget. */
static void test_rising(void)
{
    uint64_t random = test_seed;
    unsigned taken_over = 0, found = 0;
    for (int i = 0; i < RISING_CASES; i++) {
        static struct scenario scenario;
        struct planner_answer answer = { 0 };
        double budgets[BUDGETS], step_s[BUDGETS];
        if (!random_scenario(&random, &scenario)) {
            return;
        }
        double runtime = planner_runtime_bytes(&scenario), peak = resident_peak(&scenario);
        for (int k = 0; k < BUDGETS; k++) { /* 5 2 .. of 6 from a half to all */
            budgets[k] = runtime + (peak - runtime) * (0.5 + 0.5 * ((k * 5 + 4) % BUDGETS) / (BUDGETS - 1));
        }
        if (plan_for(&scenario, 0, budgets, BUDGETS, &answer)) {
            for (int k = 0; k < BUDGETS; k++) {
                const struct planner_result *result = &answer.results[k];
                EXPECT_REAL(result->budget_bytes, budgets[k], 0);
                EXPECT(!result->found || result->best.peak_bytes <= budgets[k]);
                step_s[k] = result->found ? result->best.step_time_s : INFINITY;
                found += result->found;
                taken_over += result->found && strstr(result->reasons[0], "taken: what was found for") != NULL;
            }
            for (int k = 0; k < BUDGETS * BUDGETS; k++) {
                int a = k / BUDGETS, b = k % BUDGETS;
                EXPECT(!(budgets[a] < budgets[b]) || step_s[b] <= step_s[a]);
            }
        }
        planner_answer_free(&answer);
        scenario_free(&scenario);
    }
    printf("%d cases of %d budgets: %u plans, %u of them found for a smaller budget\n", RISING_CASES, BUDGETS, found,
           taken_over);
    EXPECT(found > RISING_CASES && taken_over > 0);
}

TEST_MAIN(TEST(test_named_budget_is_enough), TEST(test_rising))
