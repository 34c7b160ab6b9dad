/* Planner exhaustive: its space, its closed forms against the simulator, its answers. */
#include "sim/base/units.h"
#include "strategies/planners/exhaustive_space.h"
#include "strategies/planners/plan_answer.h"
#include "tests/test.h"

static const char *const SMALL =
    "{\"model\":{\"family\":\"gpt\",\"layers\":12,\"hidden\":1024,\"heads\":16,\"ffn\":4096,"
    "\"vocab\":50257,\"max_sequence\":512},\"machine\":\"dgx-a100-80gb\",\"gpus\":8,"
    "\"training\":{\"global_batch\":24}}";

static void load(struct scenario *scenario, const char *text, const char *const *sets, uint32_t count)
{
    struct error error = { 0 };
    if (scenario_parse(scenario, text, "test", sets, count, &error) != STATUS_OK) {
        TEST_FAIL_("scenario: %s", error.message);
        exit(1);
    }
}

static struct space_request everything(const struct scenario *scenario)
{
    return (struct space_request){ .scenario = scenario, .zero_max = 3, .uneven = true, .threads = 2 };
}

/* ---- the space ---- */

/* Counted by plain loops over everything, each asked of plan_check. */
static uint64_t count_plainly(const struct scenario *scenario, int64_t gpus)
{
    uint64_t count = 0;
    int64_t layers = scenario->model.layers, batch = scenario->plan.global_batch;
    for (int64_t t = 1; t <= gpus; t++) {
        for (int64_t p = 1; p <= gpus; p++) {
            for (int64_t d = 1; d <= gpus; d++) {
                for (int64_t b = 1; t * p * d == gpus && b <= batch; b++) {
                    for (int64_t v = 1; v <= layers; v++) {
                        for (int sp = 0; sp < 2; sp++) {
                            struct arena arena = { 0 };
                            struct plan plan;
                            struct screen_point point = { .tensor = t,
                                                          .pipeline = p,
                                                          .data = d,
                                                          .micro_batch = b,
                                                          .virtual_stages = v,
                                                          .sequence_parallel = sp == 1 };
                            bool skip = batch % (d * b) != 0 || (t == 1 && sp == 1) || (p == 1 && v > 1) ||
                                        (v > 1 && layers % (p * v) != 0) || p * v > layers;
                            if (!skip && screen_plan(scenario, &point, &plan, &arena, NULL) == STATUS_OK &&
                                plan_check(&plan, &scenario->model, NULL) == STATUS_OK) {
                                count += d > 1 ? 3 * 4 : 3;
                            }
                            arena_free(&arena);
                        }
                    }
                }
            }
        }
    }
    return count;
}

static void test_space_is_everything(void)
{
    static const char *const gpus[] = { "gpus=8", "gpus=6", "gpus=5", "gpus=1" };
    for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
        struct scenario scenario;
        struct space space;
        struct error error = { 0 };
        const char *const sets[] = { gpus[i], "training.global_batch=120" };
        load(&scenario, SMALL, sets, 2);
        const struct space_request request = everything(&scenario);
        EXPECT_INT(space_build(&request, &space, NULL, NULL, &error), STATUS_OK);
        EXPECT_INT(space.count, count_plainly(&scenario, scenario.cluster.gpus));
        space_free(&space);
        scenario_free(&scenario);
    }
}

static void test_spaces_by_name(void)
{
    struct scenario scenario;
    struct error error = { 0 };
    load(&scenario, SMALL, NULL, 0);
    for (int name = SPACE_FULL; name <= SPACE_DP_PP; name++) {
        struct space_request request = everything(&scenario);
        struct space space;
        request.space = (enum exhaustive_space)name;
        EXPECT_INT(space_build(&request, &space, NULL, NULL, &error), STATUS_OK);
        EXPECT(space.count > 0);
        for (size_t i = 0; i < space.count; i++) {
            const struct screen_point *p = &space.items[i].point;
            bool right = true;
            switch (request.space) {
            case SPACE_FULL: break;
            case SPACE_DP: right = p->tensor == 1 && p->pipeline == 1 && p->zero_stage == 0; break;
            case SPACE_SDP: right = p->tensor == 1 && p->pipeline == 1 && p->zero_stage == 3; break;
            case SPACE_TP: right = p->tensor == 8; break;
            case SPACE_PP: right = p->pipeline == 8; break;
            case SPACE_3D: right = p->tensor == 2 && p->pipeline == 2 && p->data == 2 && p->zero_stage == 0; break;
            case SPACE_DP_TP: right = p->pipeline == 1 && p->zero_stage == 0; break;
            case SPACE_DP_PP: right = p->tensor == 1 && p->zero_stage == 0; break;
            }
            EXPECT(right);
        }
        space_free(&space);
    }
    scenario_free(&scenario);
}

static void test_uneven_stages(void)
{
    for (int64_t stages = 1; stages <= 13; stages++) {
        int64_t sum = 0;
        for (int64_t i = 0; i < stages; i++) {
            int64_t n = planner_stage_layers(13, stages, i);
            EXPECT(n == 13 / stages || n == 13 / stages + 1);
            sum += n;
        }
        EXPECT_INT(sum, 13);
        EXPECT_INT(planner_stage_layers(13, stages, stages - 1),
                   13 / stages); /* the head's stage is never the larger */
    }
}

/* ---- closed forms against the simulator ---- */

struct errors {
    double time, time_worst, memory, memory_worst;
    uint32_t count;
};

/* Asks the simulator about every `step`-th split; nothing that is not allowed to exist may be pruned. */
static struct errors compare(const char *text, const char *const *sets, uint32_t set_count, size_t step)
{
    struct scenario scenario;
    struct space space;
    struct error error = { 0 };
    struct oracle *oracle = NULL;
    struct arena arena = { 0 };
    struct errors errors = { 0 };
    load(&scenario, text, sets, set_count);
    const struct space_request request = everything(&scenario);
    EXPECT_INT(space_build(&request, &space, NULL, NULL, &error), STATUS_OK);
    EXPECT_INT(oracle_open(&oracle, &scenario, 2, &error), STATUS_OK);
    for (size_t i = 0; i < space.count; i += step) {
        const struct space_candidate *candidate = &space.items[i];
        struct plan plan;
        struct oracle_result result;
        const struct plan *plans[] = { &plan };
        EXPECT_INT(screen_plan(&scenario, &candidate->point, &plan, &arena, &error), STATUS_OK);
        EXPECT_INT(oracle_ask(oracle, plans, 1, &result, NULL, NULL, &error), STATUS_OK);
        EXPECT_INT(result.verdict, ORACLE_RAN);
        const struct screen_point *p = &candidate->point;
        if (candidate->cost.least_bytes > (double)result.peak_bytes + 4096) { /* rounding of each buffer upwards */
            TEST_FAIL_("t%d p%d d%d b%d v%d z%d r%d sp%d: least %.9g, simulated %.9g", (int)p->tensor, (int)p->pipeline,
                       (int)p->data, (int)p->micro_batch, (int)p->virtual_stages, (int)p->zero_stage, p->recompute,
                       p->sequence_parallel, candidate->cost.least_bytes, (double)result.peak_bytes);
        }
        double time = fabs(candidate->cost.step_time_s / result.step_time_s - 1);
        double memory = fabs(candidate->cost.peak_bytes / (double)result.peak_bytes - 1);
        errors.time += time;
        errors.memory += memory;
        errors.time_worst = fmax(errors.time_worst, time);
        errors.memory_worst = fmax(errors.memory_worst, memory);
        errors.count++;
    }
    errors.time /= errors.count;
    errors.memory /= errors.count;
    printf("  %u splits: time mean %.2f %% worst %.1f %%, peak mean %.2f %% worst %.1f %%\n", errors.count,
           100 * errors.time, 100 * errors.time_worst, 100 * errors.memory, 100 * errors.memory_worst);
    oracle_close(oracle);
    space_free(&space);
    arena_free(&arena);
    scenario_free(&scenario);
    return errors;
}

static void test_least_bytes_is_a_lower_bound(void)
{
    const char *const stacks[] = { "software=megatron",      "software=megatron-flash", "software=deepspeed",
                                   "software=pytorch-eager", "software=torchtitan",     "software=ideal" };
    for (size_t i = 0; i < sizeof stacks / sizeof stacks[0]; i++) {
        const char *const sets[] = { stacks[i] };
        printf("  %s\n", stacks[i]);
        compare(SMALL, sets, 1, 3);
    }
    const char *const units[] = { "software=megatron-flash", "software.communication.flat_units=true",
                                  "software.memory.gradients_as_made=true", "software.memory.module_buffer=true",
                                  "software.bytes_per_parameter.weight=4" };
    printf("  units of FSDP1\n");
    compare(SMALL, units, 5, 3);
    /* ZeRO-2: weights cast for the forward are gone when the gradients are joined. A head that is no peak of its own, and layers that save little, show it. */
    const char *const casts[] = { "software=pytorch-eager", "software.communication.flat_units=true", "model.layers=3",
                                  "model.vocab=1000", "model.max_sequence=128" };
    compare(SMALL, casts, 5, 1);
    const char *const uneven[] = { "model.layers=13", "gpus=6" };
    compare(SMALL, uneven, 2, 3);
}

/* ---- answers ---- */

static enum status plan_with(const struct scenario *scenario, const double *budgets, uint32_t count, uint32_t threads,
                             double simulate, struct planner_answer *answer, struct error *error)
{
    const struct planner *planner = planner_find("exhaustive", error);
    struct planner_request request = {
        .scenario = scenario, .budgets_bytes = budgets, .budget_count = count, .threads = threads, .top = 10
    };
    parameters_defaults(planner->parameters, planner->parameter_count, &request.parameters);
    for (uint32_t i = 0; i < planner->parameter_count && simulate > 0; i++) {
        request.parameters.value[i] =
            strcmp(planner->parameters[i].name, "simulate") == 0 ? simulate : request.parameters.value[i];
    }
    return planner_search(planner, &request, answer, error);
}

/* Simulating everything finds the true best; how far the default is from it is printed, and it cannot be ahead. */
static void test_best_of_all(void)
{
    struct scenario scenario;
    struct space space;
    struct error error = { 0 };
    struct oracle *oracle = NULL;
    struct arena arena = { 0 };
    const double budgets[] = { 4 * GIB, 8 * GIB, 40 * GIB };
    double best[] = { INFINITY, INFINITY, INFINITY };
    load(&scenario, SMALL, NULL, 0);
    const struct space_request request = everything(&scenario);
    EXPECT_INT(space_build(&request, &space, NULL, NULL, &error), STATUS_OK);
    EXPECT_INT(oracle_open(&oracle, &scenario, 2, &error), STATUS_OK);
    for (size_t i = 0; i < space.count; i++) {
        struct plan plan;
        struct oracle_result result;
        const struct plan *plans[] = { &plan };
        screen_plan(&scenario, &space.items[i].point, &plan, &arena, &error);
        plan.detail = DETAIL_STAGE;
        EXPECT_INT(oracle_ask(oracle, plans, 1, &result, NULL, NULL, &error), STATUS_OK);
        for (int k = 0; k < 3; k++) {
            best[k] = (double)result.peak_bytes <= budgets[k] ? fmin(best[k], result.step_time_s) : best[k];
        }
    }
    struct planner_answer all, usual;
    EXPECT_INT(plan_with(&scenario, budgets, 3, 2, (double)space.count, &all, &error), STATUS_OK);
    EXPECT_INT(plan_with(&scenario, budgets, 3, 2, 0, &usual, &error), STATUS_OK);
    for (int k = 0; k < 3; k++) {
        EXPECT(all.results[k].found && usual.results[k].found);
        /* the answer is simulated at detail `layer`, the loop above at `stage`: the choice is the same */
        const struct plan *plans[] = { &all.results[k].best.plan };
        struct plan coarse = *plans[0];
        struct oracle_result result;
        coarse.detail = DETAIL_STAGE;
        plans[0] = &coarse;
        EXPECT_INT(oracle_ask(oracle, plans, 1, &result, NULL, NULL, &error), STATUS_OK);
        EXPECT_REAL(result.step_time_s, best[k], 0);
        double regret = usual.results[k].best.simulated.step_time_s / all.results[k].best.simulated.step_time_s - 1;
        printf("  budget %.0f GiB: best %.6g s; with the default %.3f %% more\n", budgets[k] / GIB, best[k],
               100 * regret);
        EXPECT(regret > -1e-3);
    }
    planner_answer_free(&all);
    planner_answer_free(&usual);
    oracle_close(oracle);
    space_free(&space);
    arena_free(&arena);
    scenario_free(&scenario);
}

static void test_answers_do_not_depend_on_threads(void)
{
    struct scenario scenario;
    struct error error = { 0 };
    const double budgets[] = { 4 * GIB, 16 * GIB };
    struct strbuf texts[3] = { 0 };
    load(&scenario, SMALL, NULL, 0);
    for (uint32_t i = 0; i < 3; i++) {
        struct planner_answer answer;
        const struct planner *planner = planner_find("exhaustive", NULL);
        struct parameter_values values;
        parameters_defaults(planner->parameters, planner->parameter_count, &values);
        EXPECT_INT(plan_with(&scenario, budgets, 2, 1u << i, 0, &answer, &error), STATUS_OK);
        const struct plan_answer_input input = {
            .scenario = &scenario, .planner = planner, .parameters = &values, .answer = &answer, .is_list = true
        };
        plan_answer_json(&input, &texts[i]);
        planner_answer_free(&answer);
    }
    EXPECT_TEXT(texts[1].text, texts[0].text);
    EXPECT_TEXT(texts[2].text, texts[0].text);
    for (uint32_t i = 0; i < 3; i++) {
        strbuf_free(&texts[i]);
    }
    scenario_free(&scenario);
}

static void test_more_memory_is_never_slower_and_fronts_are_fronts(void)
{
    struct scenario scenario;
    struct planner_answer answer;
    struct error error = { 0 };
    const double budgets[] = { 2 * GIB, 3 * GIB, 5 * GIB, 9 * GIB, 17 * GIB, 70 * GIB };
    load(&scenario, SMALL, NULL, 0);
    EXPECT_INT(plan_with(&scenario, budgets, 6, 2, 0, &answer, &error), STATUS_OK);
    double last = INFINITY;
    for (uint32_t k = 0; k < 6; k++) {
        const struct planner_result *result = &answer.results[k];
        if (!result->found) {
            EXPECT(last == INFINITY); /* only the smallest */
            EXPECT(result->smallest_budget_bytes > budgets[k]);
            continue;
        }
        EXPECT(result->best.simulated.step_time_s <= last);
        last = result->best.simulated.step_time_s;
        EXPECT((double)result->best.simulated.peak_bytes <= budgets[k]);
        EXPECT_INT(result->best.layer_count, 12);
        EXPECT(result->reason_count >= 3);
        for (uint32_t i = 1; i < result->front_count; i++) {
            const struct oracle_result *a = &result->front[i - 1].simulated, *b = &result->front[i].simulated;
            EXPECT(b->step_time_s >= a->step_time_s && b->peak_bytes < a->peak_bytes);
        }
        for (uint32_t i = 1; i < result->runner_up_count; i++) {
            EXPECT(result->runners_up[i].simulated.step_time_s >= result->runners_up[i - 1].simulated.step_time_s);
        }
    }
    EXPECT(last < INFINITY);
    planner_answer_free(&answer);
    scenario_free(&scenario);
}

static bool stop_at_once(void *context, const struct planner_progress *progress)
{
    uint32_t *calls = context;
    (void)progress;
    ++*calls;
    return false;
}

/* Stopped while it simulates (the large case takes longer than the first look): an answer, marked. */
static void test_interruption_leaves_the_best_so_far(void)
{
    struct scenario scenario;
    struct planner_answer answer;
    struct error error = { 0 };
    uint32_t calls = 0;
    const struct planner *planner = planner_find("exhaustive", NULL);
    load(&scenario,
         "{\"model\":\"megatron-530b\",\"machine\":\"dgx-a100-80gb\",\"nodes\":35,\"training\":{\"global_batch\":280}}",
         NULL, 0);
    const double budget = scenario.machine.gpu.usable_bytes;
    struct planner_request request = { .scenario = &scenario,
                                       .budgets_bytes = &budget,
                                       .budget_count = 1,
                                       .threads = 2,
                                       .progress = stop_at_once,
                                       .progress_context = &calls };
    parameters_defaults(planner->parameters, planner->parameter_count, &request.parameters);
    EXPECT_INT(planner_search(planner, &request, &answer, &error), STATUS_OK);
    EXPECT(calls > 0);
    EXPECT(answer.interrupted);
    planner_answer_free(&answer);
    scenario_free(&scenario);
}

static void test_refusals(void)
{
    struct scenario scenario;
    struct planner_answer answer;
    struct error error = { 0 };
    const double budget = 40 * GIB;
    const char *const offload[] = { "memory_policy=zero-offload", "parallel.zero_stage=2" };
    load(&scenario, SMALL, offload, 2);
    EXPECT_INT(plan_with(&scenario, &budget, 1, 1, 0, &answer, &error), STATUS_UNSUPPORTED);
    EXPECT_PART(error.message, "resident");
    scenario_free(&scenario);
    /* 7 GPUs: no tensor degree but 1 and 7, and 7 does not divide 16 heads */
    const char *const seven[] = { "gpus=7", "training.global_batch=7" };
    load(&scenario, SMALL, seven, 2);
    struct space_request request = everything(&scenario);
    struct space space;
    request.space = SPACE_TP;
    EXPECT_INT(space_build(&request, &space, NULL, NULL, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "no split of 7 GPUs in space \"tp\"");
    EXPECT_INT(plan_with(&scenario, &budget, 1, 1, 0, &answer, &error), STATUS_OK);
    EXPECT(answer.results[0].found);
    planner_answer_free(&answer);
    scenario_free(&scenario);
}

TEST_MAIN(TEST(test_space_is_everything), TEST(test_spaces_by_name), TEST(test_uneven_stages),
          TEST(test_least_bytes_is_a_lower_bound), TEST(test_best_of_all), TEST(test_answers_do_not_depend_on_threads),
          TEST(test_more_memory_is_never_slower_and_fronts_are_fronts), TEST(test_interruption_leaves_the_best_so_far),
          TEST(test_refusals))
