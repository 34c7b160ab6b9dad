/* galvatron-bmw against every other variant and space by simulation, and what its balance moves are worth on library models. */
#include "sim/base/units.h"
#include "strategies/planners/planner.h"
#include "tests/test.h"

enum { CASES = 100, SPACES = 8 };

static const char *const VARIANTS[] = { "galvatron", "galvatron-base", "1f1b-biobj" };

static void load(struct scenario *scenario, const char *text)
{
    struct error error = { 0 };
    if (scenario_parse(scenario, text, "test", NULL, 0, &error) != STATUS_OK) {
        TEST_FAIL_("scenario: %s\n%s", error.message, text);
        exit(1);
    }
}

static uint32_t parameter_index(const struct planner *planner, const char *name)
{
    for (uint32_t i = 0; i < planner->parameter_count; i++) {
        if (strcmp(planner->parameters[i].name, name) == 0) {
            return i;
        }
    }
    TEST_FAIL_("no parameter %s", name);
    exit(1);
}

static void plan_budgets(const struct scenario *scenario, const char *name, int space, const double *budgets,
                         uint32_t budget_count, struct planner_answer *answer)
{
    struct error error = { 0 };
    const struct planner *planner = planner_find(name, &error);
    struct planner_request request = {
        .scenario = scenario, .budgets_bytes = budgets, .budget_count = budget_count, .threads = 2, .top = 100
    };
    parameters_defaults(planner->parameters, planner->parameter_count, &request.parameters);
    request.parameters.value[parameter_index(planner, "space")] = space;
    if (planner_search(planner, &request, answer, &error) != STATUS_OK) {
        TEST_FAIL_("%s: %s", name, error.message);
        exit(1);
    }
}

static void plan(const struct scenario *scenario, const char *name, int space, double budget,
                 struct planner_answer *answer)
{
    plan_budgets(scenario, name, space, &budget, 1, answer);
}

static bool fits(const struct planner_choice *choice, double budget)
{
    return choice->is_simulated && choice->simulated.verdict == ORACLE_RAN &&
           (double)choice->simulated.peak_bytes <= budget;
}

/* Simulated samples/s of the answer; 0: none that fits. */
static double speed(const struct planner_answer *answer)
{
    const struct planner_result *result = &answer->results[0];
    return result->found && fits(&result->best, result->budget_bytes) ? result->best.simulated.samples_per_s : 0;
}

static double speed_of(const struct scenario *scenario, const char *name, int space, double budget)
{
    struct planner_answer answer;
    plan(scenario, name, space, budget, &answer);
    double answered = speed(&answer);
    planner_answer_free(&answer);
    return answered;
}

/* A small GPT on 2 to 8 GPUs: vocabularies from next to nothing to more than all layers, slow and fast links. */
static void generate(uint64_t *seed, char *text, size_t size)
{
    static const struct {
        const char *name;
        int gpus_max;
    } machines[] = {
        { "titan-rtx-8-galvatron", 8 }, { "dgx-a100-40gb", 8 }, { "toy-2gpu", 2 }, { "box-8x-rtx3090", 8 }
    };
    uint32_t machine = (uint32_t)(test_random(seed) % 4);
    int gpus = machines[machine].gpus_max == 2 ? 2 : 2 << (test_random(seed) % 3);
    int heads = 4 << (test_random(seed) % 2), hidden = heads * 64, batch = gpus << (1 + test_random(seed) % 3);
    snprintf(text, size,
             "{\"model\":{\"family\":\"gpt\",\"layers\":%d,\"hidden\":%d,\"heads\":%d,\"ffn\":%d,\"vocab\":%d,"
             "\"max_sequence\":%d},\"machine\":\"%s\",\"gpus\":%d,\"training\":{\"global_batch\":%d,\"precision\":"
             "\"fp16\"}}",
             (int)(4 + test_random(seed) % 9), hidden, heads, 4 * hidden, 512 << (test_random(seed) % 7),
             128 << (test_random(seed) % 3), machines[machine].name, gpus, batch);
}

static void test_bmw_never_worse(void)
{
    uint64_t seed = test_seed;
    unsigned feasible = 0, better = 0, otherwise = 0;
    for (int i = 0; i < CASES; i++) {
        char text[512];
        struct scenario scenario;
        struct planner_answer free_answer, answer;
        generate(&seed, text, sizeof text);
        load(&scenario, text);
        plan(&scenario, "galvatron-bmw", 0, scenario.machine.gpu.usable_bytes, &free_answer);
        double peak = (double)free_answer.results[0].best.simulated.peak_bytes,
               least = planner_runtime_bytes(&scenario);
        double budget =
            least + (peak - least) * (0.35 + test_unit(&seed)); /* of what it takes when memory is no matter */
        planner_answer_free(&free_answer);
        plan(&scenario, "galvatron-bmw", 0, budget, &answer);
        double bmw = speed(&answer), other = 0;
        const struct planner_result *result = &answer.results[0];
        for (uint32_t k = 0; result->found && k < result->runner_up_count; k++) {
            otherwise +=
                result->runners_up[k].samples_per_s > result->best.samples_per_s; /* the cost model's favourite */
        }
        for (int space = 1; space < SPACES; space++) {
            other = fmax(other, speed_of(&scenario, "galvatron", space, budget));
        }
        for (size_t k = 0; k < sizeof VARIANTS / sizeof VARIANTS[0]; k++) {
            other = fmax(other, speed_of(&scenario, VARIANTS[k], 0, budget));
        }
        if (!(bmw >= other)) {
            TEST_FAIL_("case %d, %.4g GiB: bmw %.17g samples/s, best variant %.17g\n%s", i, budget / GIB, bmw, other,
                       text);
        }
        feasible += other > 0;
        better += bmw > other;
        planner_answer_free(&answer);
        scenario_free(&scenario);
    }
    printf("  of %d: %u feasible for a variant, bmw strictly better in %u; %u plans that the cost model preferred were "
           "passed over\n",
           CASES, feasible, better, otherwise);
    EXPECT(feasible >= 50);
    EXPECT(better >= 1);
}

/* Exhaustive without ZeRO, sequence parallelism and chunks looks at a part of what galvatron-bmw does, but simulates all that it likes: on the average the larger space must win. */
static void test_against_exhaustive(void)
{
    uint64_t seed = test_seed + 1;
    double ratios = 0, worst = 1;
    unsigned count = 0, slower = 0;
    for (int i = 0; i < 40; i++) {
        char text[512];
        struct scenario scenario;
        struct planner_answer answer;
        struct error error = { 0 };
        generate(&seed, text, sizeof text);
        load(&scenario, text);
        const struct planner *planner = planner_find("exhaustive", &error);
        const double budget = scenario.machine.gpu.usable_bytes;
        struct planner_request request = {
            .scenario = &scenario, .budgets_bytes = &budget, .budget_count = 1, .threads = 2
        };
        parameters_defaults(planner->parameters, planner->parameter_count, &request.parameters);
        request.parameters.value[parameter_index(planner, "max_zero")] = 0;
        request.parameters.value[parameter_index(planner, "sequence_parallel")] = 2; /* off */
        request.parameters.value[parameter_index(planner, "max_virtual_stages")] = 1;
        EXPECT_INT(planner_search(planner, &request, &answer, &error), STATUS_OK);
        double bmw = speed_of(&scenario, "galvatron-bmw", 0, budget), other = speed(&answer);
        EXPECT(bmw > 0 && other > 0);
        ratios += bmw / other;
        worst = fmin(worst, bmw / other);
        slower += bmw < other;
        count++;
        planner_answer_free(&answer);
        scenario_free(&scenario);
    }
    printf("  of %u: bmw on the average %+.2f %%, slower in %u, by %.2f %% at the most\n", count,
           100 * (ratios / count - 1), slower, 100 * (1 - worst));
    EXPECT(ratios / count >= 1);
}

/* Where a smaller space charges the embedding less (split, or sharded), what it holds is found in the full space, too. */
static void test_spaces_never_better(void)
{
    static const struct {
        const char *text;
        double gib;
    } cases[] = {
        { "{\"model\":{\"base\":\"t5-large-32\",\"layers\":30,\"decoder_layers\":2},\"machine\":"
          "\"box-8x-l40s\",\"gpus\":2,\"training\":{\"global_batch\":8}}",
          4.5 },
        { "{\"model\":{\"family\":\"gpt\",\"layers\":13,\"hidden\":768,\"heads\":12,\"ffn\":6144,\"vocab\":"
          "250000,\"max_sequence\":2048},\"machine\":\"box-8x-titan-rtx\",\"training\":{\"global_batch\":32}}",
          8 },
        { "{\"model\":{\"base\":\"t5-large-32\",\"layers\":9,\"decoder_layers\":2},\"machine\":"
          "\"titan-rtx-8-galvatron\",\"training\":{\"global_batch\":8}}",
          1.3 }
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scenario scenario;
        load(&scenario, cases[i].text);
        double bmw = speed_of(&scenario, "galvatron-bmw", 0, cases[i].gib * GIB);
        EXPECT(bmw > 0);
        for (int space = 1; space < SPACES; space++) {
            double other = speed_of(&scenario, "galvatron-bmw", space, cases[i].gib * GIB);
            if (!(bmw >= other)) {
                TEST_FAIL_("%g GiB, space %d: bmw %.17g samples/s there, %.17g in the full space\n%s", cases[i].gib,
                           space, other, bmw, cases[i].text);
            }
        }
        scenario_free(&scenario);
    }
}

/* On library models: the plan is faster than before its balance moves, and than everything that cuts stages evenly or by memory, both by simulation. */
static void test_balance_matters(void)
{
    static const struct {
        const char *model, *machine;
        double gib;
    } cases[] = { { "bert-huge-32", "titan-rtx-8-galvatron", 8 },
                  { "bert-huge-48", "box-8x-rtx3090", 12 },
                  { "vit-huge-32", "box-8x-titan-rtx", 10 },
                  { "gpt2-xl", "box-8x-rtx3090", 16 } };
    unsigned matters = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        struct scenario scenario;
        struct planner_answer answer;
        snprintf(text, sizeof text, "{\"model\":\"%s\",\"machine\":\"%s\",\"training\":{\"global_batch\":64}}",
                 cases[i].model, cases[i].machine);
        load(&scenario, text);
        double budget = cases[i].gib * GIB, unmoved = 0;
        plan(&scenario, "galvatron-bmw", 0, budget, &answer);
        const struct planner_result *result = &answer.results[0];
        unmoved = fmax(speed_of(&scenario, "galvatron", 0, budget), speed_of(&scenario, "galvatron-base", 0, budget));
        bool moved = result->unbalanced != NULL && result->unbalanced_simulated.verdict == ORACLE_RAN;
        double before = moved ? result->unbalanced_simulated.step_time_s : 0,
               after = result->best.simulated.step_time_s;
        printf("  %-14s %2.0f GiB: memory-balanced %.4g s, balanced %.4g s (%+.1f %%); %.4g samples/s against %.4g "
               "without balancing (%+.1f %%); alpha_t %.3f -> %.3f, alpha_m %.3f -> %.3f\n",
               cases[i].model, cases[i].gib, before, after, before > 0 ? 100 * (after / before - 1) : 0, speed(&answer),
               unmoved, 100 * (speed(&answer) / unmoved - 1), result->unbalanced_alpha_t, result->best.alpha_t,
               result->unbalanced_alpha_m, result->best.alpha_m);
        if (moved) {
            EXPECT(result->best.alpha_t > result->unbalanced_alpha_t);
            EXPECT(result->best.alpha_m < result->unbalanced_alpha_m);
        }
        matters += moved && after < before && speed(&answer) > unmoved;
        planner_answer_free(&answer);
        scenario_free(&scenario);
    }
    printf("  balance moves matter on %u of %zu models\n", matters, sizeof cases / sizeof cases[0]);
    EXPECT(matters >= 3);
}

/* Of several budgets none is answered with less than a smaller one. By itself 20 GiB is: the cost model's favourite there, plain data parallelism, is slower than it thinks. */
static void test_more_memory_never_slower(void)
{
    static const double budgets[] = { 20 * GIB, 17 * GIB, 8 * GIB };
    struct scenario scenario;
    struct planner_answer answer;
    load(&scenario, "{\"model\":\"bert-huge-32\",\"machine\":\"box-8x-rtx3090\",\"gpus\":8,\"software\":\"galvatron\","
                    "\"training\":{\"sequence_length\":512,\"global_batch\":64,\"precision\":\"fp16\"}}");
    plan_budgets(&scenario, "galvatron-bmw", 0, budgets, 3, &answer);
    for (int i = 0; i < 3; i++) {
        const struct planner_choice *best = &answer.results[i].best;
        EXPECT(answer.results[i].found && fits(best, budgets[i]));
        for (uint32_t k = 0; k < best->stage_count; k++) {
            double all = best->stages[k].leftover_bytes + best->stages[k].memory_bytes;
            EXPECT(all > budgets[i] - MIB && all <= budgets[i]); /* the search counts whole MiB of its budget */
        }
        if (i > 0) {
            EXPECT(answer.results[i - 1].best.simulated.step_time_s <= best->simulated.step_time_s);
        }
    }
    planner_answer_free(&answer);
    scenario_free(&scenario);
}

TEST_MAIN(TEST(test_bmw_never_worse), TEST(test_against_exhaustive), TEST(test_spaces_never_better),
          TEST(test_more_memory_never_slower), TEST(test_balance_matters))
