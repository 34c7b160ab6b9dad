/* Planner interface: oracle, budgets, plan files, max-batch. */
#include <math.h>
#include <unistd.h>

#include "sim/base/file.h"
#include "sim/base/units.h"
#include "sim/exec.h"
#include "sim/plan/lower.h"
#include "strategies/planners/plan_answer.h"
#include "tests/test.h"

static const char *const SMALL =
    "{\"model\":{\"family\":\"gpt\",\"layers\":8,\"hidden\":1024,\"heads\":16,\"ffn\":4096,"
    "\"vocab\":50257,\"max_sequence\":512},\"machine\":\"dgx-a100-80gb\",\"gpus\":4,"
    "\"training\":{\"global_batch\":16,\"micro_batch\":2}}";

static void load(struct scenario *scenario, const char *text, const char *const *sets, uint32_t count)
{
    struct error error = { 0 };
    if (scenario_parse(scenario, text, "test", sets, count, &error) != STATUS_OK) {
        TEST_FAIL_("scenario: %s", error.message);
        exit(1);
    }
}

/* ---- the oracle ---- */

/* The same plan by hand: lower, run, look. */
static double step_by_hand(const struct scenario *scenario, const struct plan *plan, uint64_t *peak_bytes)
{
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    struct error error = { 0 };
    const struct lower_request request = {
        .model = &scenario->model,
        .cluster = &scenario->cluster,
        .software = &scenario->software,
        .plan = plan,
    };
    const struct exec_options options = { .cluster = &scenario->cluster,
                                          .software = &scenario->software,
                                          .audit = true };
    EXPECT_INT(lower_schedule(&request, &schedule, &error), STATUS_OK);
    EXPECT_INT(exec_sim.run(&schedule, &options, &timeline, &error), STATUS_OK);
    EXPECT_INT(timeline.outcome, TIMELINE_DONE);
    *peak_bytes = 0;
    for (uint32_t i = 0; i < schedule.space_count; i++) {
        if (schedule.spaces[i].kind == SPACE_DEVICE && timeline.spaces[i].peak_bytes > *peak_bytes) {
            *peak_bytes = timeline.spaces[i].peak_bytes;
        }
    }
    double step = s_from_ps(timeline.end_ps);
    timeline_free(&timeline);
    schedule_free(&schedule);
    return step;
}

static void test_oracle_is_the_simulator(void)
{
    struct scenario scenario;
    struct oracle *oracle = NULL;
    struct error error = { 0 };
    load(&scenario, SMALL, NULL, 0);
    struct plan wide = scenario.plan, refused = scenario.plan;
    wide.micro_batch = 1;
    wide.micro_batches *= 2;
    refused.tensor = 3; /* 16 heads */
    struct plan without = scenario.plan;
    without.stage_layers = NULL;
    const struct plan *plans[] = { &scenario.plan, &wide, &scenario.plan, &refused, &without };
    struct oracle_result results[5];
    EXPECT_INT(oracle_open(&oracle, &scenario, 2, &error), STATUS_OK);
    EXPECT_INT(oracle_ask(oracle, plans, 5, results, NULL, NULL, &error), STATUS_OK);
    EXPECT_INT(oracle_simulations(oracle), 2); /* one is asked twice, one is refused */
    uint64_t peak;
    double step = step_by_hand(&scenario, &scenario.plan, &peak);
    EXPECT_REAL(results[0].step_time_s, step, 0);
    EXPECT_INT(results[0].peak_bytes, peak);
    EXPECT_REAL(results[2].step_time_s, results[0].step_time_s, 0);
    step = step_by_hand(&scenario, &wide, &peak);
    EXPECT_REAL(results[1].step_time_s, step, 0);
    EXPECT_REAL(results[1].samples_per_s, 16 / step, 1e-12);
    EXPECT_INT(results[3].verdict, ORACLE_REFUSED);
    EXPECT_PART(results[3].reason, "tensor 3 does not divide the model's heads");
    EXPECT_INT(results[4].verdict, ORACLE_REFUSED);
    EXPECT_PART(results[4].reason, "how many layers its stages have");
    EXPECT_INT(oracle_ask(oracle, plans, 2, results, NULL, NULL, &error), STATUS_OK);
    EXPECT_INT(oracle_simulations(oracle), 2); /* remembered */
    oracle_close(oracle);
    scenario_free(&scenario);
}

struct sum {
    uint32_t cells[1000];
};

static void add_one(void *context, uint32_t index)
{
    struct sum *sum = context;
    sum->cells[index] += index + 1;
}

static void test_parallel_takes_each_index_once(void)
{
    for (uint32_t threads = 1; threads <= 8; threads *= 2) {
        struct sum sum = { { 0 } };
        EXPECT_INT(oracle_parallel(threads, 1000, add_one, &sum, NULL, NULL), 1000);
        for (uint32_t i = 0; i < 1000; i++) {
            if (sum.cells[i] != i + 1) {
                EXPECT_INT(sum.cells[i], i + 1);
            }
        }
    }
    EXPECT_INT(oracle_parallel(4, 0, add_one, NULL, NULL, NULL), 0);
}

/* ---- requests ---- */

static enum status plan_with(const struct scenario *scenario, const char *name, const double *budgets, uint32_t count,
                             struct planner_answer *answer, struct error *error)
{
    const struct planner *planner = planner_find(name, error);
    struct planner_request request = {
        .scenario = scenario, .budgets_bytes = budgets, .budget_count = count, .threads = 2, .top = 3
    };
    if (planner == NULL) {
        return STATUS_NOT_FOUND;
    }
    parameters_defaults(planner->parameters, planner->parameter_count, &request.parameters);
    return planner_search(planner, &request, answer, error);
}

static void test_budgets_are_checked(void)
{
    struct scenario scenario;
    struct planner_answer answer;
    struct error error = { 0 };
    load(&scenario, SMALL, NULL, 0);
    double usable = scenario.machine.gpu.usable_bytes, runtime = planner_runtime_bytes(&scenario);
    const double above = usable + 1, below = runtime, fine = usable;
    EXPECT(runtime > 0);
    EXPECT_INT(plan_with(&scenario, "max-batch", &above, 1, &answer, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "usable");
    EXPECT_INT(plan_with(&scenario, "max-batch", &below, 1, &answer, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "runtime line");
    EXPECT_INT(plan_with(&scenario, "exhausted", &fine, 1, &answer, &error), STATUS_NOT_FOUND);
    EXPECT_PART(error.message, "did you mean \"exhaustive\"");
    scenario_free(&scenario);
}

/* What is printed is enough, a step of its last digit less is not, and rounding it again changes nothing. */
static void test_enough_gib(void)
{
    for (uint32_t i = 1; i <= 100000; i++) {
        double bytes = 3e8 + 12345678.0 * i / 7, gib = planner_enough_gib(bytes);
        char text[32];
        snprintf(text, sizeof text, "%.6g", gib);
        double printed = strtod(text, NULL), step = pow(10, floor(log10(gib)) - 5);
        if (printed * GIB < bytes || (printed - 1.001 * step) * GIB >= bytes ||
            planner_enough_gib(printed * GIB) != printed) {
            TEST_FAIL_("%.17g bytes: %s GiB, again %.6g", bytes, text, planner_enough_gib(printed * GIB));
            return;
        }
    }
}

static void test_registry(void)
{
    uint32_t count;
    const struct planner *const *planners = planner_list(&count);
    EXPECT(count >= 2);
    for (uint32_t i = 0; i < count; i++) {
        EXPECT_INT(planners[i]->abi, PLANNER_ABI);
        EXPECT(planners[i]->summary != NULL && planners[i]->search != NULL);
        EXPECT(planner_find(planners[i]->name, NULL) == planners[i]);
    }
}

/* alpha = 1 - max/sum: 1 - 1/P when all are equal. */
static void test_balance_degrees(void)
{
    struct planner_stage equal[4] = { { .time_s = 2, .memory_bytes = 1 },
                                      { .time_s = 2, .memory_bytes = 2 },
                                      { .time_s = 2, .memory_bytes = 3 },
                                      { .time_s = 2, .memory_bytes = 4 } };
    struct planner_choice choice = { .stages = equal, .stage_count = 4 };
    planner_balance(&choice);
    EXPECT_REAL(choice.alpha_t, 0.75, 0);
    EXPECT_REAL(choice.alpha_m, 1 - 4.0 / 10, 0);
    choice.stage_count = 1;
    planner_balance(&choice);
    EXPECT_REAL(choice.alpha_t, 0, 0);
}

/* ---- max-batch ---- */

static void test_largest_batch_fits_and_the_next_does_not(void)
{
    struct scenario scenario;
    struct planner_answer answer;
    struct error error = { 0 };
    const double budgets[] = { 6 * GIB, 12 * GIB };
    load(&scenario, SMALL, NULL, 0);
    EXPECT_INT(plan_with(&scenario, "max-batch", budgets, 2, &answer, &error), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        const struct planner_result *result = &answer.results[i];
        EXPECT(result->found);
        struct plan next = result->best.plan;
        uint64_t peak;
        step_by_hand(&scenario, &next, &peak);
        EXPECT((double)peak <= budgets[i]);
        next.micro_batch++;
        next.global_batch = next.micro_batch * next.data * next.micro_batches;
        step_by_hand(&scenario, &next, &peak);
        EXPECT((double)peak > budgets[i]);
        EXPECT_INT(result->best.plan.micro_batches, scenario.plan.micro_batches);
    }
    EXPECT(answer.results[1].best.global_batch > answer.results[0].best.global_batch);
    planner_answer_free(&answer);
    scenario_free(&scenario);
}

static void test_nothing_fits_names_the_smallest_budget(void)
{
    struct scenario scenario;
    struct planner_answer answer;
    struct error error = { 0 };
    load(&scenario, SMALL, NULL, 0);
    const double small = planner_runtime_bytes(&scenario) + 1e8;
    EXPECT_INT(plan_with(&scenario, "max-batch", &small, 1, &answer, &error), STATUS_OK);
    EXPECT(!answer.results[0].found);
    double enough = ceil(answer.results[0].smallest_budget_bytes);
    EXPECT(enough > small);
    planner_answer_free(&answer);
    EXPECT_INT(plan_with(&scenario, "max-batch", &enough, 1, &answer, &error), STATUS_OK);
    EXPECT(answer.results[0].found);
    planner_answer_free(&answer);
    enough -= 1;
    EXPECT_INT(plan_with(&scenario, "max-batch", &enough, 1, &answer, &error), STATUS_OK);
    EXPECT(!answer.results[0].found);
    planner_answer_free(&answer);
    scenario_free(&scenario);
}

/* ---- plan files ---- */

static void write_text(const char *file, const char *text)
{
    struct error error = { 0 };
    EXPECT_INT(file_write(file, text, strlen(text), &error), STATUS_OK);
}

static void expect_refused(const char *scenario_text, const char *file, const char *const *sets, uint32_t count,
                           const char *part)
{
    struct scenario scenario;
    struct error error = { 0 };
    load(&scenario, scenario_text, NULL, 0);
    EXPECT_INT(plan_answer_load(&scenario, file, sets, count, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, part);
    scenario_free(&scenario);
}

static bool stop_at_once(void *context, const struct planner_progress *progress)
{
    (void)context;
    (void)progress;
    return false;
}

/* A search that was stopped has not looked whether anything fits, and does not say that nothing does. */
static void test_stopped_is_not_unfit(void)
{
    static const char *const names[] = { "max-batch", "galvatron-bmw" };
    const char *const large[] = { "model=gpt3-175b", "gpus=8", "training.global_batch=64" };
    static double budgets[PLANNER_BUDGETS_MAX];
    struct scenario scenario;
    load(&scenario, SMALL, large, 3);
    for (int i = 0; i < PLANNER_BUDGETS_MAX; i++) {
        budgets[i] = scenario.machine.gpu.usable_bytes - i * MIB;
    }
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        const struct planner *planner = planner_find(names[n], NULL);
        struct planner_answer answer;
        struct error error = { 0 };
        struct planner_request request = { .scenario = &scenario,
                                           .budgets_bytes = budgets,
                                           .budget_count = PLANNER_BUDGETS_MAX,
                                           .threads = 1,
                                           .progress = stop_at_once };
        parameters_defaults(planner->parameters, planner->parameter_count, &request.parameters);
        EXPECT_INT(planner_search(planner, &request, &answer, &error), STATUS_OK);
        EXPECT(answer.interrupted);
        const struct planner_result *last = &answer.results[PLANNER_BUDGETS_MAX - 1];
        EXPECT(!last->found && last->smallest_budget_bytes == 0 && last->reason_count == 1);
        if (last->reason_count == 1) {
            EXPECT_PART(last->reasons[0], "stopped before a plan that fits");
        }
        planner_answer_free(&answer);
    }
    scenario_free(&scenario);
}

static void test_plan_files(void)
{
    struct scenario scenario, again;
    struct planner_answer answer;
    struct error error = { 0 };
    char file[64];
    snprintf(file, sizeof file, "/tmp/memwall-t_planner-%d.json", (int)getpid());
    load(&scenario, SMALL, NULL, 0);
    const double budget = 12 * GIB;
    EXPECT_INT(plan_with(&scenario, "exhaustive", &budget, 1, &answer, &error), STATUS_OK);
    const struct planner_result *result = &answer.results[0];
    EXPECT(result->found);
    struct strbuf text = { 0 };
    const struct plan_answer_input input = { .scenario = &scenario,
                                             .planner = planner_find("exhaustive", NULL),
                                             .answer = &answer };
    plan_answer_file(&input, result, &text);
    write_text(file, text.text);

    load(&again, SMALL, NULL, 0);
    EXPECT_INT(plan_answer_load(&again, file, NULL, 0, &error), STATUS_OK);
    struct hash mine, theirs;
    EXPECT_INT(plan_hash(&result->best.plan, &scenario.model, &mine, &error), STATUS_OK);
    EXPECT_INT(plan_hash(&again.plan, &again.model, &theirs, &error), STATUS_OK);
    EXPECT(mine.a == theirs.a && mine.b == theirs.b);
    uint64_t peak;
    EXPECT_REAL(step_by_hand(&again, &again.plan, &peak), result->best.simulated.step_time_s, 0);
    EXPECT_INT(peak, result->best.simulated.peak_bytes);
    scenario_free(&again);

    const char *const edit[] = { "recompute=full", "name=other" }; /* the second is the scenario's */
    load(&again, SMALL, NULL, 0);
    EXPECT_INT(plan_answer_load(&again, file, edit, 2, &error), STATUS_OK);
    EXPECT_INT(again.plan.recompute[7], RECOMPUTE_FULL);
    scenario_free(&again);

    const char *const wrong[] = { "parallel.tensr=2" };
    expect_refused(SMALL, file, wrong, 1, "tensor");
    expect_refused("{\"model\":\"gpt2\",\"machine\":\"dgx-a100-80gb\",\"gpus\":4}", file, NULL, 0, "another model");
    char other[512];
    snprintf(other, sizeof other, "%s", SMALL);
    memcpy(strstr(other, "dgx-a100-80gb"), "dgx-a100-40gb", strlen("dgx-a100-40gb"));
    expect_refused(other, file, NULL, 0, "another machine");
    snprintf(other, sizeof other, "%s", SMALL);
    *(strstr(other, "\"gpus\":4") + strlen("\"gpus\":")) = '8';
    expect_refused(other, file, NULL, 0, "the scenario has 8");
    write_text(file, "[1]");
    expect_refused(SMALL, file, NULL, 0, "expected a plan");
    write_text(file, "{\"schema\":\"memwall.plan/1\",\"model\":\"gpt2\"}");
    expect_refused(SMALL, file, NULL, 0, "the plan is for model \"gpt2\"");
    unlink(file);
    strbuf_free(&text);
    planner_answer_free(&answer);
    scenario_free(&scenario);
}

TEST_MAIN(TEST(test_oracle_is_the_simulator), TEST(test_parallel_takes_each_index_once), TEST(test_budgets_are_checked),
          TEST(test_enough_gib), TEST(test_registry), TEST(test_balance_degrees),
          TEST(test_largest_batch_fits_and_the_next_does_not), TEST(test_nothing_fits_names_the_smallest_budget),
          TEST(test_stopped_is_not_unfit), TEST(test_plan_files))
