/* The planner mpress: the invariants of facts/mpress-hippie-pipelines.md A.8 on random cases, and whole plans on DGX-1 V100, DGX-2 and DGX A100. */
#include "sim/base/units.h"
#include "sim/exec.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan_moves.h"
#include "sim/plan/plan_order.h"
#include "strategies/planners/mpress_internal.h"
#include "strategies/planners/plan_answer.h"
#include "tests/test.h"

enum { RANDOM_CASES = 500, TEXT_BYTES = 1024 };

static bool plan_with(const struct scenario *scenario, const char *allow, double budget_bytes, uint32_t threads,
                      struct planner_answer *answer)
{
    struct error error = { 0 };
    const struct planner *planner = planner_find("mpress", &error);
    struct planner_request request = {
        .scenario = scenario, .budgets_bytes = &budget_bytes, .budget_count = 1, .threads = threads
    };
    for (double word = 0; planner->parameters[0].words[(int)word] != NULL; word++) {
        if (strcmp(planner->parameters[0].words[(int)word], allow) == 0) {
            request.parameters.value[0] = word;
        }
    }
    enum status status = planner_search(planner, &request, answer, &error);
    if (status != STATUS_OK) {
        TEST_FAIL_("%s: %s", allow, error.message);
    }
    return status == STATUS_OK;
}

static double step_of(const struct planner_answer *answer)
{
    return answer->results[0].found ? answer->results[0].best.step_time_s : INFINITY;
}

/* The plan by itself: devices get exactly the budget, the timeline is audited. It ends in the time that was said, and no device held more. */
static void run_plan(const struct scenario *scenario, const struct planner_choice *choice, double budget_bytes)
{
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    struct error error = { 0 };
    const struct plan *plan = &choice->plan;
    const struct lower_request request = {
        .model = &scenario->model,
        .cluster = &scenario->cluster,
        .software = &scenario->software,
        .plan = plan,
    };
    const struct exec_options options = {
        .cluster = &scenario->cluster, .software = &scenario->software, .record_rates = true, .audit = true
    };
    EXPECT_INT(lower_schedule(&request, &schedule, &error), STATUS_OK);
    for (uint32_t i = 0; i < schedule.space_count; i++) {
        if (schedule.spaces[i].kind == SPACE_DEVICE) {
            schedule.spaces[i].capacity_bytes = (uint64_t)budget_bytes;
        }
    }
    EXPECT_INT(exec_sim.run(&schedule, &options, &timeline, &error), STATUS_OK);
    EXPECT_INT(timeline.outcome, TIMELINE_DONE);
    const struct step_window window = timeline_step(&schedule, &timeline);
    EXPECT_REAL(s_from_ps(window.to_ps - window.from_ps), choice->step_time_s, 0);
    for (uint32_t i = 0; i < schedule.space_count; i++) {
        EXPECT(timeline.spaces[i].peak_bytes <= schedule.spaces[i].capacity_bytes);
    }
    timeline_free(&timeline);
    schedule_free(&schedule);
}

static void expect_same(const struct scenario *scenario, const struct planner_answer *a, const struct planner_answer *b)
{
    struct strbuf first = { 0 }, second = { 0 };
    EXPECT_INT(a->results[0].found, b->results[0].found);
    EXPECT_INT(a->simulated, b->simulated);
    if (a->results[0].found && b->results[0].found) {
        plan_print_json(&a->results[0].best.plan, &scenario->model, &first);
        plan_print_json(&b->results[0].best.plan, &scenario->model, &second);
        EXPECT_TEXT(first.text, second.text);
    }
    strbuf_free(&first);
    strbuf_free(&second);
}

static const char *const MACHINES[] = { "dgx1-v100-32gb", "dgx-a100-40gb", "dgx2-v100", "box-8x-rtx3090" };
static const char *const ORDERS[] = { "1f1b", "gpipe", "zb-h1", "pipedream", "pipedream-2bw" };
enum { ASYNCHRONOUS_FROM = 3, ORDERS_COUNT = sizeof ORDERS / sizeof ORDERS[0] };

/* Returns the index of the order. */
static uint32_t random_scenario(uint64_t *random, char *text)
{
    uint32_t order = (uint32_t)test_below(random, ORDERS_COUNT);
    int gpus = test_below(random, 8) == 0 ? 4 : 2 + (int)test_below(random, 2),
        layers = gpus * (1 + (int)test_below(random, 2));
    int hidden = 128 << test_below(random, 3), micro_batches = 2 + (int)test_below(random, 4);
    micro_batches = order == ORDERS_COUNT - 1 && micro_batches < gpus ? gpus : micro_batches; /* 2BW needs them */
    snprintf(text, TEXT_BYTES,
             "{\"machine\": \"%s\", \"gpus\": %d, \"software\": \"%s\","
             " \"model\": {\"family\": \"gpt\", \"layers\": %d, \"hidden\": %d, \"heads\": 4, \"ffn\": %d,"
             " \"vocab\": 1000, \"max_sequence\": 512}, \"training\": {\"micro_batch\": 1, \"global_batch\": %d},"
             " \"parallel\": {\"pipeline\": %d, \"pipeline_order\": \"%s\"}}",
             MACHINES[test_below(random, 4)], gpus, test_below(random, 2) == 0 ? "ideal" : "megatron", layers, hidden,
             4 * hidden, micro_batches, gpus, ORDERS[order]);
    return order;
}

struct tally {
    unsigned resident, recompute, host, all, none, devices;
    unsigned asynchronous, moved; /* cases of asynchronous orders, and those of them in which something moves */
};

static bool lends(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->move_count; i++) {
        if (plan->moves[i].target == MOVE_TO_DEVICES) {
            return true;
        }
    }
    return false;
}

/* Every plan within its budget on all devices; what may use all mechanisms never slower than what may use some; the same answer from one thread as from two. */
static void check_case(uint64_t *random, int number, struct tally *tally)
{
    static struct scenario scenario;
    char text[TEXT_BYTES];
    struct error error = { 0 };
    struct planner_answer roomy = { 0 }, all = { 0 }, host = { 0 }, recompute = { 0 }, again = { 0 };
    bool asynchronous = random_scenario(random, text) >= ASYNCHRONOUS_FROM;
    if (scenario_parse(&scenario, text, "test", NULL, 0, &error) != STATUS_OK) {
        TEST_FAIL_("%s\n  %s", error.message, text);
        return;
    }
    EXPECT(plan_with(&scenario, "all", scenario.machine.gpu.usable_bytes, 1, &roomy));
    double runtime = planner_runtime_bytes(&scenario), peak = roomy.results[0].best.peak_bytes;
    EXPECT_INT(roomy.results[0].best.plan.move_count, 0); /* such models fit */
    double share = 0.45 + 0.6 * (double)test_below(random, 1000) / 1000;
    double budget = runtime + (peak - runtime) * share;
    if (plan_with(&scenario, "all", budget, 1, &all) && plan_with(&scenario, "host", budget, 1, &host) &&
        plan_with(&scenario, "recompute", budget, 1, &recompute)) {
        if (step_of(&all) > step_of(&host) || step_of(&all) > step_of(&recompute)) {
            TEST_FAIL_("case %d: all %.9g s, host %.9g s, recompute %.9g s\n  %s", number, step_of(&all),
                       step_of(&host), step_of(&recompute), text);
        }
        if (all.results[0].found) {
            const struct planner_choice *best = &all.results[0].best;
            run_plan(&scenario, best, budget);
            for (uint32_t s = 0; s < best->stage_count; s++) {
                EXPECT(best->stages[s].leftover_bytes >= 0);
            }
            tally->devices += lends(&best->plan);
            tally->moved += asynchronous && best->plan.move_count > 0;
        }
        tally->asynchronous += asynchronous;
        tally->resident += budget >= peak;
        tally->all += all.results[0].found;
        tally->host += host.results[0].found;
        tally->recompute += recompute.results[0].found;
        tally->none += !all.results[0].found;
        uint32_t threads = 2 + (uint32_t)number / 10 % 6; /* some wait for the longest attempt, and try its changes */
        if (number % 10 == 0 && plan_with(&scenario, "all", budget, threads, &again)) {
            expect_same(&scenario, &all, &again);
        }
    }
    planner_answer_free(&roomy);
    planner_answer_free(&all);
    planner_answer_free(&host);
    planner_answer_free(&recompute);
    planner_answer_free(&again);
    scenario_free(&scenario);
}

static void test_invariants(void)
{
    uint64_t random = test_seed;
    struct tally tally = { 0 };
    for (int i = 0; i < RANDOM_CASES; i++) {
        check_case(&random, i, &tally);
    }
    printf(
        "%d cases: %u fit resident; with all mechanisms %u fit (%u of them swap between devices), host swap alone %u, "
        "recomputation alone %u; %u do not. %u are of asynchronous orders, in %u of them something moves\n",
        RANDOM_CASES, tally.resident, tally.all, tally.devices, tally.host, tally.recompute, tally.none,
        tally.asynchronous, tally.moved);
    EXPECT(tally.all > tally.host && tally.all > tally.recompute); /* the cases tell the mechanisms apart */
    EXPECT(tally.devices > RANDOM_CASES / 10 && tally.none > 0 && tally.resident > 0);
    EXPECT(tally.moved > RANDOM_CASES / 10);
}

/* Every move says when and why; a copy says over which links. */
static void expect_words(const struct plan *plan)
{
    EXPECT(plan->move_count > 0);
    for (uint32_t i = 0; i < plan->move_count; i++) {
        const struct tensor_move *move = &plan->moves[i];
        EXPECT(move->when != NULL && move->why != NULL);
        EXPECT((move->over == NULL) == (move->target == MOVE_TO_RECOMPUTE));
    }
}

/* Eight stages on the three machines of the issue, early ones too full by what they keep, late ones with room: device-to-device swap beats both others, without a direct link nothing is lent. */
static void test_machines(void)
{
    static const char *const machines[] = { "dgx1-v100-32gb", "dgx2-v100", "dgx-a100-40gb", "box-8x-rtx4090" };
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        static struct scenario scenario;
        struct error error = { 0 };
        struct planner_answer roomy = { 0 }, all = { 0 }, host = { 0 }, recompute = { 0 };
        char text[TEXT_BYTES];
        snprintf(text, sizeof text,
                 "{\"machine\": \"%s\", \"gpus\": 8, \"software\": \"ideal\","
                 " \"model\": {\"family\": \"gpt\", \"layers\": 16, \"hidden\": 1024, \"heads\": 16, \"ffn\": 4096,"
                 " \"vocab\": 8000, \"max_sequence\": 512}, \"training\": {\"micro_batch\": 8, \"global_batch\": 128}}",
                 machines[i]);
        EXPECT_INT(scenario_parse(&scenario, text, "test", NULL, 0, &error), STATUS_OK);
        EXPECT(plan_with(&scenario, "all", scenario.machine.gpu.usable_bytes, 2, &roomy));
        const struct planner_stage *stages = roomy.results[0].best.stages;
        double budget = (stages[0].memory_bytes + stages[4].memory_bytes) / 2;
        if (plan_with(&scenario, "all", budget, 2, &all) && plan_with(&scenario, "host", budget, 2, &host) &&
            plan_with(&scenario, "recompute", budget, 2, &recompute)) {
            const struct planner_choice *best = &all.results[0].best;
            printf("%s, %.3g of %.3g GiB: all %.4g ms, host swap %.4g, recomputation %.4g, no limit %.4g\n",
                   machines[i], budget / GIB, stages[0].memory_bytes / GIB, step_of(&all) * 1e3, step_of(&host) * 1e3,
                   step_of(&recompute) * 1e3, step_of(&roomy) * 1e3);
            EXPECT(all.results[0].found);
            expect_words(&best->plan);
            run_plan(&scenario, best, budget);
            bool linked = i < 3;
            EXPECT(lends(&best->plan) == linked);
            EXPECT(!linked || step_of(&all) < fmin(step_of(&host), step_of(&recompute)));
            EXPECT(i == 0 || best->plan.stage_places == NULL); /* where all links are equal there is nothing to map */
        }
        planner_answer_free(&roomy);
        planner_answer_free(&all);
        planner_answer_free(&host);
        planner_answer_free(&recompute);
        scenario_free(&scenario);
    }
}

/* A registered order and its steps written down are one order: the same moves, the same step. */
static void test_own_steps(void)
{
    static const char *const orders[] = {
        "\"gpipe\"",
        "{\"name\": \"steps\", \"stages\": [\"F0 F1 F2 F3 B0 B1 B2 B3\", \"F0 F1 F2 F3 B0 B1 B2 B3\"]}",
    };
    double step_s[2] = { 0 };
    uint32_t moves[2] = { 0 };
    struct error error = { 0 };
    static struct scenario scenario;
    char text[TEXT_BYTES];
    for (int i = 0; i < 2; i++) {
        struct planner_answer roomy = { 0 }, tight = { 0 };
        snprintf(text, sizeof text,
                 "{\"machine\": \"dgx1-v100-32gb\", \"gpus\": 2, \"software\": \"ideal\","
                 " \"model\": {\"family\": \"gpt\", \"layers\": 4, \"hidden\": 256, \"heads\": 4, \"ffn\": 1024,"
                 " \"vocab\": 1000, \"max_sequence\": 512}, \"training\": {\"micro_batch\": 4, \"global_batch\": 16},"
                 " \"parallel\": {\"pipeline\": 2, \"pipeline_order\": %s}}",
                 orders[i]);
        EXPECT_INT(scenario_parse(&scenario, text, "test", NULL, 0, &error), STATUS_OK);
        if (plan_with(&scenario, "all", scenario.machine.gpu.usable_bytes, 1, &roomy)) {
            double runtime = planner_runtime_bytes(&scenario), peak = roomy.results[0].best.peak_bytes;
            if (plan_with(&scenario, "all", runtime + 0.8 * (peak - runtime), 1, &tight)) {
                EXPECT(tight.results[0].found);
                step_s[i] = tight.results[0].best.step_time_s;
                moves[i] = tight.results[0].best.plan.move_count;
            }
        }
        planner_answer_free(&roomy);
        planner_answer_free(&tight);
        scenario_free(&scenario);
    }
    EXPECT(moves[0] > 0 && step_s[0] > 0);
    EXPECT_INT(moves[1], moves[0]);
    EXPECT_REAL(step_s[1], step_s[0], 0);
}

/* Weights and gradients alone are too much: nothing is searched, and with the budget that it names there is a plan. */
static void test_hopeless(void)
{
    static const char *const allowed[] = { "all", "recompute", "host" };
    static struct scenario scenario;
    struct error error = { 0 };
    EXPECT_INT(scenario_parse(&scenario,
                              "{\"machine\": \"dgx1-v100-32gb\", \"gpus\": 4, \"software\": \"ideal\","
                              " \"model\": {\"family\": \"gpt\", \"layers\": 8, \"hidden\": 1024, \"heads\": 16, "
                              "\"ffn\": 4096, \"vocab\": 8000, \"max_sequence\": 512},"
                              " \"training\": {\"micro_batch\": 2, \"global_batch\": 16},"
                              " \"parallel\": {\"pipeline\": 4, \"pipeline_order\": \"pipedream\"}}",
                              "test", NULL, 0, &error),
               STATUS_OK);
    double weights = (double)scenario.model.layers / 4 * 12 * 1024 * 1024 * 2;
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        struct planner_answer none = { 0 }, some = { 0 };
        double budget = planner_runtime_bytes(&scenario) + weights; /* and where does the gradient go? */
        EXPECT(plan_with(&scenario, allowed[i], budget, 2, &none));
        EXPECT(!none.results[0].found);
        EXPECT_INT(none.simulated, 3);
        double enough = none.results[0].smallest_budget_bytes;
        EXPECT(enough > budget);
        EXPECT(plan_with(&scenario, allowed[i], enough, 2, &some));
        EXPECT(some.results[0].found);
        planner_answer_free(&none);
        planner_answer_free(&some);
    }
    scenario_free(&scenario);
}

static void test_refusals(void)
{
    static const struct {
        const char *rest, *part;
    } cases[] = {
        { "\"gpus\": 8, \"parallel\": {\"pipeline\": 8, \"pipeline_order\": \"chimera\"}",
          "orders with one copy, with a flush (\"1f1b\") or without (\"pipedream\", \"pipedream-2bw\")" },
        { "\"gpus\": 8, \"parallel\": {\"pipeline\": 8}, \"memory_policy\": \"mpress\", \"plan\": {\"moves\": []}",
          "a planner chooses that" },
        { "\"gpus\": 8, \"parallel\": {\"pipeline\": 2, \"pipeline_order\": \"interleaved\", \"virtual_stages\": 2}",
          "mpress makes each GPU a stage" },
        { "\"gpus\": 8, \"training\": {\"micro_batch\": 1, \"global_batch\": 4},"
          " \"parallel\": {\"pipeline\": 2, \"pipeline_order\": {\"name\": \"steps\", \"stages\": [\"F0 B0\", \"F0 "
          "B0\"]}}",
          "are for 2 stages" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static struct scenario scenario;
        struct error error = { 0 };
        struct planner_answer answer;
        char text[TEXT_BYTES];
        snprintf(text, sizeof text,
                 "{\"machine\": \"dgx1-v100-32gb\", \"software\": \"ideal\","
                 " \"model\": {\"family\": \"gpt\", \"layers\": 8, \"hidden\": 256, \"heads\": 4, \"ffn\": 1024,"
                 " \"vocab\": 1000, \"max_sequence\": 64}, %s}",
                 cases[i].rest);
        EXPECT_INT(scenario_parse(&scenario, text, "test", NULL, 0, &error), STATUS_OK);
        double budget = scenario.machine.gpu.usable_bytes;
        const struct planner_request request = {
            .scenario = &scenario, .budgets_bytes = &budget, .budget_count = 1, .threads = 1
        };
        EXPECT(planner_search(planner_find("mpress", &error), &request, &answer, &error) != STATUS_OK);
        EXPECT_PART(error.message, cases[i].part);
        scenario_free(&scenario);
    }
}

/* Some tensor goes elsewhere. */
static void change(const struct mpress_case *c, struct mpress_choices *choices, uint64_t *random)
{
    static const uint8_t activations[] = { MOVE_TO_RECOMPUTE, MOVE_TO_HOST, MOVE_TARGET_COUNT },
                         states[] = { MOVE_TO_HOST, MOVE_TO_CPU, MOVE_TARGET_COUNT };
    uint32_t at = 1 + (uint32_t)test_below(random, c->positions - 2);
    bool activation = test_below(random, 3) > 0;
    choices->of[at].target[activation ? MOVE_ACTIVATION : MOVE_OPTIMIZER] =
        (activation ? activations : states)[test_below(random, 3)];
}

/* An iteration that ends when it is beaten says the same of who is better as one that runs to its end, from all resident and far too much on to what fits; and equal choices have equal hashes. */
static void test_against(void)
{
    static const char *const orders[] = { "1f1b", "gpipe", "pipedream", "pipedream-2bw" };
    uint64_t random = test_seed;
    for (size_t k = 0; k < sizeof orders / sizeof orders[0]; k++) {
        char text[1024];
        struct error error = { 0 };
        struct json_document *document;
        struct json root;
        struct scenario scenario;
        struct arena arena = { 0 };
        snprintf(text, sizeof text,
                 "{\"schema\":\"memwall.scenario/"
                 "1\",\"name\":\"a\",\"machine\":\"dgx1-v100-32gb\",\"gpus\":4,\"model\":{\"family\":"
                 "\"gpt\",\"layers\":12,\"hidden\":2048,\"heads\":16,\"ffn\":8192,\"vocab\":5000,\"max_sequence\":1024}"
                 ",\"training\":"
                 "{\"micro_batch\":2,\"global_batch\":16},\"parallel\":{\"pipeline\":4,\"pipeline_order\":\"%s\"},"
                 "\"memory_policy\":"
                 "\"mpress\"}",
                 orders[k]);
        EXPECT_INT(json_parse(&document, text, strlen(text), "scenario", &error), STATUS_OK);
        json_root(document, &root);
        EXPECT_INT(scenario_from_json(&scenario, &root, &error), STATUS_OK);
        json_free(document);
        const struct pipeline_order *order = plan_order(&scenario.plan, &error);
        uint32_t steps = plan_order_steps(order, &scenario.plan);
        struct mpress_case c = { .scenario = &scenario,
                                 .base = scenario.plan,
                                 .stages = 4,
                                 .positions = 14,
                                 .micro_batches = 8,
                                 .instances = 8 * steps,
                                 .settled = steps > 1 ? (steps - 2) * 8 : 0,
                                 .updates = order->asynchronous && !order->accumulates ? 8 : 1,
                                 .arena = &arena };
        struct mpress_choices best, tried;
        struct mpress_view view, whole, against;
        EXPECT_INT(mpress_profile(&c, &error), STATUS_OK);
        c.budget_bytes = 0.7 * (double)c.unsaved.result.peak_bytes;
        EXPECT_INT(mpress_choices_new(&c, &best, &arena, &error), STATUS_OK);
        EXPECT_INT(mpress_choices_new(&c, &tried, &arena, &error), STATUS_OK);
        EXPECT_INT(mpress_view_new(&c, &view, &error), STATUS_OK);
        EXPECT_INT(mpress_view_new(&c, &whole, &error), STATUS_OK);
        EXPECT_INT(mpress_view_new(&c, &against, &error), STATUS_OK);
        EXPECT_INT(mpress_emulate(&c, &best, &view, &error), STATUS_OK);
        int improved = 0;
        for (int i = 0; i < 120; i++) {
            mpress_choices_assign(&c, &tried, &best);
            change(&c, &tried, &random);
            struct hash a = mpress_choices_hash(&c, &best), b = mpress_choices_hash(&c, &tried);
            bool better, same = memcmp(best.of, tried.of, c.positions * sizeof *best.of) == 0;
            EXPECT_INT(a.a == b.a && a.b == b.b, same);
            EXPECT_INT(mpress_emulate(&c, &tried, &whole, &error), STATUS_OK);
            EXPECT_INT(mpress_emulate_against(&c, &tried, &view, &against, &better, &error), STATUS_OK);
            EXPECT_INT(better, mpress_better(&whole, &view));
            for (uint32_t s = 0; s < c.stages; s++) {
                EXPECT(whole.peak_bytes[s] > c.floor_bytes[s]);
            }
            if (better) {
                EXPECT_REAL(against.result.step_time_s, whole.result.step_time_s, 0);
                EXPECT_REAL(against.over_bytes, whole.over_bytes, 0);
                mpress_choices_assign(&c, &best, &tried);
                mpress_view_assign(&c, &view, &against);
                improved++;
            }
        }
        printf("  %s: %d of 120 changes better, %.3g GB over at the end\n", orders[k], improved, view.over_bytes / 1e9);
        EXPECT(improved > 0);
        scenario_free(&scenario);
        arena_free(&arena);
    }
}

/* Enough: says so at the first look. */
static bool stop_now(void *context, const struct planner_progress *progress)
{
    (void)progress;
    ++*(unsigned *)context;
    return false;
}

/* Interrupted among the starts of the first budget (many long iterations, so that it is looked up before they end): nothing is refined, nothing claimed of what never began, and of the second budget
 * nothing is known. */
static void test_interrupted(void)
{
    static struct scenario scenario;
    struct error error = { 0 };
    struct planner_answer answer = { 0 };
    unsigned looks = 0;
    EXPECT_INT(scenario_parse(&scenario,
                              "{\"machine\": \"dgx1-v100-32gb\", \"gpus\": 8, \"software\": \"ideal\","
                              " \"model\": {\"family\": \"gpt\", \"layers\": 64, \"hidden\": 1024, \"heads\": 16, "
                              "\"ffn\": 4096, \"vocab\": 8000, \"max_sequence\": 512},"
                              " \"training\": {\"micro_batch\": 4, \"global_batch\": 1024}}",
                              "test", NULL, 0, &error),
               STATUS_OK);
    const double budgets_bytes[] = { 2.4 * GIB, 2.6 * GIB };
    const struct planner_request request = { .scenario = &scenario,
                                             .budgets_bytes = budgets_bytes,
                                             .budget_count = 2,
                                             .threads = 1,
                                             .progress = stop_now,
                                             .progress_context = &looks };
    EXPECT_INT(planner_search(planner_find("mpress", &error), &request, &answer, &error), STATUS_OK);
    EXPECT(answer.interrupted && looks > 0);
    for (uint32_t i = 0; i < answer.result_count; i++) {
        const struct planner_result *result = &answer.results[i];
        for (uint32_t k = 0; k < result->reason_count; k++) {
            EXPECT(strstr(result->reasons[k], "refined") == NULL);
            EXPECT(result->found || strstr(result->reasons[k], "stopped before a plan") != NULL);
        }
        EXPECT(result->found || (result->smallest_budget_bytes <= 0 && result->reason_count == 1));
    }
    EXPECT(!answer.results[1].found);
    planner_answer_free(&answer);
    scenario_free(&scenario);
}

TEST_MAIN(TEST(test_machines), TEST(test_own_steps), TEST(test_hopeless), TEST(test_interrupted), TEST(test_refusals),
          TEST(test_against), TEST(test_invariants))
