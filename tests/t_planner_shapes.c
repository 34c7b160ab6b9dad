/* Planners on models whose layers have several shapes (T5, Swin): exhaustive's closed forms against the simulator, galvatron-bmw against its variants, and plans of Galvatron's own formulas run. */
#include "sim/base/units.h"
#include "strategies/planners/exhaustive_space.h"
#include "strategies/planners/oracle.h"
#include "strategies/planners/planner.h"
#include "tests/test.h"

static void load(struct scenario *scenario, const char *model, const char *machine, const char *software)
{
    char text[512];
    struct error error = { 0 };
    (void)snprintf(text, sizeof text,
                   "{\"model\":\"%s\",\"machine\":\"%s\",\"software\":\"%s\",\"gpus\":8,\"training\":{\"global_batch\":"
                   "16,\"precision\":\"fp16\"}}",
                   model, machine, software);
    if (scenario_parse(scenario, text, "test", NULL, 0, &error) != STATUS_OK) {
        TEST_FAIL_("scenario: %s\n%s", error.message, text);
        exit(1);
    }
}

/* Every `step`-th split: never pruned when it would fit. */
static void compare(const struct scenario *scenario, size_t step)
{
    struct space space;
    struct error error = { 0 };
    struct oracle *oracle = NULL;
    struct arena arena = { 0 };
    double time = 0, memory = 0, count = 0;
    const struct space_request request = { .scenario = scenario,
                                           .space = SPACE_FULL,
                                           .zero_max = 3,
                                           .uneven = true,
                                           .sequence_parallel = SEQUENCE_PARALLEL_BOTH,
                                           .threads = 2 };
    EXPECT_INT(space_build(&request, &space, NULL, NULL, &error), STATUS_OK);
    EXPECT_INT(oracle_open(&oracle, scenario, 2, &error), STATUS_OK);
    for (size_t i = 0; i < space.count; i += step) {
        const struct space_candidate *candidate = &space.items[i];
        const struct screen_point *p = &candidate->point;
        struct plan plan;
        struct oracle_result result;
        const struct plan *plans[] = { &plan };
        EXPECT_INT(p->virtual_stages, 1); /* chunks divide layers of one shape */
        EXPECT_INT(screen_plan(scenario, p, &plan, &arena, &error), STATUS_OK);
        EXPECT_INT(oracle_ask(oracle, plans, 1, &result, NULL, NULL, &error), STATUS_OK);
        EXPECT_INT(result.verdict, ORACLE_RAN);
        if (candidate->cost.least_bytes > (double)result.peak_bytes + 4096) { /* rounding of each buffer upwards */
            TEST_FAIL_("%s t%d p%d d%d b%d z%d r%d sp%d: least %.9g, simulated %.9g", scenario->model.name,
                       (int)p->tensor, (int)p->pipeline, (int)p->data, (int)p->micro_batch, (int)p->zero_stage,
                       p->recompute, p->sequence_parallel, candidate->cost.least_bytes, (double)result.peak_bytes);
        }
        time += fabs(candidate->cost.step_time_s / result.step_time_s - 1);
        memory += fabs(candidate->cost.peak_bytes / (double)result.peak_bytes - 1);
        count++;
    }
    printf("  %s, %s: %.0f splits, time %.2f %% off, peak %.2f %% off\n", scenario->model.name, scenario->software.name,
           count, 100 * time / count, 100 * memory / count);
    EXPECT(count >= 20);
    oracle_close(oracle);
    space_free(&space);
    arena_free(&arena);
}

static void test_exhaustive_screen(void)
{
    static const char *const models[] = { "t5-large-32", "t5-512-4-32", "swin-huge-32" };
    static const char *const softwares[] = { "megatron", "pytorch-eager", "torchtitan" };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        for (size_t k = 0; k < sizeof softwares / sizeof softwares[0]; k++) {
            struct scenario scenario;
            load(&scenario, models[i], "dgx-a100-80gb", softwares[k]);
            compare(&scenario, 11);
            scenario_free(&scenario);
        }
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

/* Simulated samples/s of the answer; 0: none that fits. `preset`: its word's index. */
static double speed_of(const struct scenario *scenario, const char *name, int preset, double budget, bool print)
{
    struct error error = { 0 };
    const struct planner *planner = planner_find(name, &error);
    struct planner_answer answer;
    struct planner_request request = {
        .scenario = scenario, .budgets_bytes = &budget, .budget_count = 1, .threads = 2, .top = 20
    };
    parameters_defaults(planner->parameters, planner->parameter_count, &request.parameters);
    if (preset >= 0) {
        request.parameters.value[parameter_index(planner, "preset")] = preset;
    }
    if (planner_search(planner, &request, &answer, &error) != STATUS_OK) {
        TEST_FAIL_("%s on %s: %s", name, scenario->model.name, error.message);
        exit(1);
    }
    const struct planner_choice *best = &answer.results[0].best;
    double speed = 0;
    if (answer.results[0].found && best->is_simulated && best->simulated.verdict == ORACLE_RAN) {
        bool fits = (double)best->simulated.peak_bytes <= budget;
        speed = preset >= 0 || fits ? best->simulated.samples_per_s : 0;
        if (print) {
            printf("  %s, %s, %.0f GiB: %.4g samples/s, by its own costs %.4g\n", scenario->model.name,
                   planner->parameters[parameter_index(planner, "preset")].words[preset], budget / GIB, speed,
                   best->samples_per_s);
        }
    }
    planner_answer_free(&answer);
    return speed;
}

static void test_bmw(void)
{
    static const char *const variants[] = { "galvatron", "galvatron-base", "1f1b-biobj" };
    static const char *const models[] = { "t5-large-32", "swin-huge-32" };
    static const double budgets[] = { 6 * GIB, 8 * GIB, 12 * GIB };
    unsigned found = 0;
    for (size_t i = 0; i < 2; i++) {
        struct scenario scenario;
        load(&scenario, models[i], "titan-rtx-8-galvatron", "megatron");
        for (size_t b = 0; b < 3; b++) {
            double bmw = speed_of(&scenario, "galvatron-bmw", -1, budgets[b], false), other = 0;
            for (size_t k = 0; k < 3; k++) {
                other = fmax(other, speed_of(&scenario, variants[k], -1, budgets[b], false));
            }
            printf("  %s, %.0f GiB: bmw %.4g samples/s, best variant %.4g\n", models[i], budgets[b] / GIB, bmw, other);
            EXPECT(bmw >= other);
            found += bmw > 0;
        }
        scenario_free(&scenario);
    }
    EXPECT_INT(found, 6);
}

/* Plans found with the authors' formulas and profiles are simulated; so do the made profiles of other machines. */
static void test_presets(void)
{
    static const char *const models[] = { "t5-large-32", "t5-large-48", "swin-huge-32", "swin-huge-48" };
    const struct planner *planner = planner_find("galvatron-bmw", NULL);
    const struct parameter *preset = &planner->parameters[parameter_index(planner, "preset")];
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct scenario scenario;
        load(&scenario, models[i], "titan-rtx-8-galvatron", "pytorch-eager");
        for (int word = 0; preset->words[word] != NULL; word++) {
            if (strcmp(preset->words[word], "v1") == 0 || strcmp(preset->words[word], "g2") == 0) {
                EXPECT(speed_of(&scenario, "galvatron-bmw", word, 16 * GIB, true) > 0);
            }
        }
        scenario_free(&scenario);
        load(&scenario, models[i], "dgx-a100-80gb", "megatron");
        for (int word = 0; preset->words[word] != NULL; word++) {
            EXPECT(speed_of(&scenario, "galvatron-bmw", word, 60 * GIB, true) > 0);
        }
        scenario_free(&scenario);
    }
}

TEST_MAIN(TEST(test_exhaustive_screen), TEST(test_bmw), TEST(test_presets))
