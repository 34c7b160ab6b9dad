/* Older weight versions of PipeDream that move (policy mpress, plan.moves "version"), and the planner that finds them. */
#include "sim/base/units.h"
#include "sim/plan/plan_moves.h"
#include "strategies/planners/planner.h"
#include "tests/zero_run.h"

enum { STAGES = 4, LAYERS = 8, MICRO_BATCHES = 8, STEPS = 3, TOLD = STEPS * MICRO_BATCHES, HIDDEN = 1024 };

static bool run_moves(struct report_run *run, const char *moves)
{
    char text[2048];
    memset(run, 0, sizeof *run);
    snprintf(text, sizeof text,
             "{\"schema\": \"memwall.scenario/1\", \"machine\": \"dgx1-v100-32gb\", \"gpus\": %d, \"software\": "
             "\"ideal\", \"model\": {\"family\": \"gpt\", \"layers\": %d, \"hidden\": %d, \"heads\": 16, \"ffn\": %d,"
             " \"vocab\": 1000, \"max_sequence\": 128}, \"training\": {\"micro_batch\": 1, \"global_batch\": %d},"
             " \"parallel\": {\"pipeline\": %d, \"pipeline_order\": \"pipedream\"}, \"memory_policy\": \"mpress\","
             " \"plan\": {\"moves\": [%s]}}",
             STAGES, LAYERS, HIDDEN, 4 * HIDDEN, MICRO_BATCHES, STAGES, moves);
    bool ran = report_run(run, text);
    EXPECT(!ran || run->timeline.outcome == TIMELINE_DONE);
    return ran;
}

static double weights_at_peak(const struct report_run *run, uint32_t device)
{
    for (uint32_t i = 0; i < run->schedule.space_count; i++) {
        const struct sched_space *space = &run->schedule.spaces[i];
        if (space->kind == SPACE_DEVICE && space->location == device) {
            return (double)run->timeline.spaces[i].at_peak_bytes[BUFFER_WEIGHT];
        }
    }
    return NAN;
}

/* Two layers of stage 0, where p - 1 micro-batches go forward ahead. The forward of micro-batch m takes version max(0, m - (p - 1)), so M - (p - 1) versions leave, each once; at every backward but the
 * first the newest is another, so M - 1 come back. On the device stay the newest and what is back. */
static void test_closed_form(void)
{
    static const struct {
        const char *to;
        enum opcode out, in;
    } ways[] = { { "\"to\": \"host\"", OP_COPY_D2H, OP_COPY_H2D },
                 { "\"to\": \"devices\", \"stripes\": [{\"stage\": 3, \"share\": 2}, {\"stage\": 1}]", OP_COPY_P2P,
                   OP_COPY_P2P } };
    static struct report_run still, run;
    if (!run_moves(&still, "")) {
        return;
    }
    const double all = weights_at_peak(&still, 0), embedding = 2.0 * HIDDEN * (1000 + 128) * STAGES;
    const double layer = (all - embedding) / STAGES / 2;
    EXPECT_REAL(layer / (2 * 12.0 * HIDDEN * HIDDEN), 1, 2e-3); /* and biases, norms */
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char moves[256];
        snprintf(moves, sizeof moves, "{\"tensor\": \"version\", \"layers\": [0, 1], %s, \"lead\": 1}", ways[i].to);
        if (run_moves(&run, moves)) {
            double outs = 2 * layer * (TOLD - (STAGES - 1)), ins = 2 * layer * (TOLD - 1);
            if (ways[i].out == ways[i].in) {
                EXPECT_REAL(zero_total(&run, ways[i].out), outs + ins, 0);
            } else {
                EXPECT_REAL(zero_total(&run, ways[i].out), outs, 0);
                EXPECT_REAL(zero_total(&run, ways[i].in), ins, 0);
            }
            double on_device = weights_at_peak(&run, 0) - embedding;
            printf("  %s: %.4g of %.4g layers' weights on gpu 0\n", ways[i].to, on_device / layer, 2.0 * STAGES);
            EXPECT(on_device >= 2 * layer && on_device <= 4 * layer + 1);
        }
        report_run_free(&run);
    }
    report_run_free(&still);
}

/* A copy out of the newest ends before an update writes over it: of a rank's ops in time, no update lies between the start and the end of a copy, or between a forward and the copy of what it took. */
static void test_updates_wait(void)
{
    static const char *const states[] = { "", ", {\"tensor\": \"optimizer\", \"layers\": [0, 1], \"to\": \"cpu\"}",
                                          ", {\"tensor\": \"optimizer\", \"layers\": [0, 1], \"to\": \"host\"}" };
    static struct report_run run;
    for (size_t k = 0; k < sizeof states / sizeof states[0]; k++) {
        char moves[256];
        unsigned checked = 0;
        snprintf(moves, sizeof moves, "{\"tensor\": \"version\", \"layers\": [0, 1], \"to\": \"host\"}%s", states[k]);
        if (run_moves(&run, moves)) {
            const struct schedule *s = &run.schedule;
            for (uint32_t i = 0; i < s->op_count; i++) {
                const struct sched_op *out = &s->ops[i];
                bool version = out->opcode == OP_COPY_D2H && out->acquire_count == 1 &&
                               s->buffers[sched_acquires(s, out)[0]].buffer_class == BUFFER_WEIGHT;
                for (uint32_t u = i + 1; version && u < s->op_count; u++) {
                    const struct sched_op *update = &s->ops[u];
                    bool writes = update->opcode == OP_COMPUTE && update->phase == PHASE_OPTIMIZER;
                    if (writes && sched_op_rank(s, update) == sched_op_rank(s, out)) {
                        EXPECT(run.timeline.ops[u].start_ps >= run.timeline.ops[i].end_ps);
                        checked++;
                        break;
                    }
                }
            }
        }
        EXPECT(checked >= TOLD - STAGES || k == 1); /* with states on the host's cores nothing is computed there */
        report_run_free(&run);
    }
}

static void test_refusals(void)
{
    static const char *const orders[] = { "\"1f1b\"", "\"pipedream-2bw\"",
                                          "{\"name\": \"pipedream\", \"vertical_sync\": true}" };
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "{\"schema\": \"memwall.scenario/1\", \"machine\": \"dgx1-v100-32gb\", \"gpus\": 4, \"model\": "
                 "{\"family\": \"gpt\", \"layers\": 8, \"hidden\": 256, \"heads\": 4, \"ffn\": 1024, \"vocab\": 1000,"
                 " \"max_sequence\": 64}, \"training\": {\"micro_batch\": 1, \"global_batch\": 8}, \"parallel\": "
                 "{\"pipeline\": 4, \"pipeline_order\": %s}, \"memory_policy\": \"mpress\", \"plan\": {\"moves\": "
                 "[{\"tensor\": \"version\", \"layers\": [0, 1], \"to\": \"host\"}]}}",
                 orders[i]);
        zero_expect_refused(text, "$.plan.moves", "allowed is \"pipedream\" without vertical_sync");
    }
}

static bool plan_with(const struct scenario *scenario, double allow, double budget_bytes, uint32_t threads,
                      struct planner_answer *answer)
{
    struct error error = { 0 };
    const struct planner_request request = { .scenario = scenario,
                                             .budgets_bytes = &budget_bytes,
                                             .budget_count = 1,
                                             .threads = threads,
                                             .parameters.value = { allow } };
    enum status status = planner_search(planner_find("mpress", &error), &request, answer, &error);
    EXPECT_INT(status, STATUS_OK);
    return status == STATUS_OK;
}

/* Large weights, small activations: with all activations and states gone and p - s versions of the weights on stage s, a device of this budget is too small; with versions elsewhere it trains. The plan
 * says which, where to, when and why, keeps the budget, is the same from any number of threads, and is not slower than with host swap alone. */
static void test_trainable(void)
{
    static struct scenario scenario;
    struct error error = { 0 };
    struct planner_answer all = { 0 }, host = { 0 }, recompute = { 0 }, again = { 0 };
    EXPECT_INT(scenario_parse(&scenario,
                              "{\"machine\": \"dgx1-v100-32gb\", \"gpus\": 4, \"software\": \"ideal\","
                              " \"model\": {\"family\": \"gpt\", \"layers\": 8, \"hidden\": 2048, \"heads\": 16, "
                              "\"ffn\": 8192, \"vocab\": 1000, \"max_sequence\": 64},"
                              " \"training\": {\"micro_batch\": 1, \"global_batch\": 8},"
                              " \"parallel\": {\"pipeline\": 4, \"pipeline_order\": \"pipedream\"}}",
                              "test", NULL, 0, &error),
               STATUS_OK);
    double weights = 2 * 12.0 * 2048 * 2048 * 2;
    double budget = planner_runtime_bytes(&scenario) + 4.5 * weights; /* four versions and a gradient do not fit */
    if (plan_with(&scenario, 0, budget, 2, &all) && plan_with(&scenario, 2, budget, 2, &host) &&
        plan_with(&scenario, 1, budget, 2, &recompute)) {
        EXPECT(!recompute.results[0].found);
        const struct planner_result *result = &all.results[0];
        EXPECT(result->found);
        uint32_t versions = 0;
        for (uint32_t i = 0; result->found && i < result->best.plan.move_count; i++) {
            const struct tensor_move *move = &result->best.plan.moves[i];
            versions += move->tensor == MOVE_VERSION;
            EXPECT(move->tensor != MOVE_VERSION || (move->lead > 0 && move->over != NULL &&
                                                    strstr(move->when, "the last forward that takes it") != NULL &&
                                                    strstr(move->why, "older weight versions") != NULL));
        }
        EXPECT(versions > 0);
        EXPECT(result->best.peak_bytes <= budget);
        printf("  %.4g GiB: %.4g ms with %u moves of versions, host swap alone %.4g ms\n", budget / GIB,
               result->best.step_time_s * 1e3, versions,
               host.results[0].found ? host.results[0].best.step_time_s * 1e3 : INFINITY);
        EXPECT(!host.results[0].found || result->best.step_time_s <= host.results[0].best.step_time_s);
        for (uint32_t threads = 1; threads <= 8; threads += 7) {
            if (plan_with(&scenario, 0, budget, threads, &again)) {
                EXPECT_INT(again.simulated, all.simulated);
                EXPECT_REAL(again.results[0].best.step_time_s, result->best.step_time_s, 0);
            }
            planner_answer_free(&again);
        }
    }
    planner_answer_free(&all);
    planner_answer_free(&host);
    planner_answer_free(&recompute);
    scenario_free(&scenario);
}

TEST_MAIN(TEST(test_closed_form), TEST(test_updates_wait), TEST(test_refusals), TEST(test_trainable))
