/* A plan of the policy mpress on the host executor: every move of plan.moves for real, with every byte checked; peaks are ones that the schedule allows. */
#include "sim/exec.h"
#include "sim/plan/lower.h"
#include "sim/plan/scenario.h"
#include "strategies/registry.h"
#include "tests/peak_check.h"

const struct executor *memwall_executor(void);

static const char TEXT[] =
    "{\"machine\": \"toy-2gpu\", \"gpus\": 2, \"software\": \"ideal\", \"fold\": false,"
    " \"model\": {\"family\": \"gpt\", \"layers\": 6, \"hidden\": 64, \"heads\": 4, \"ffn\": 256, \"vocab\": 100,"
    " \"max_sequence\": 32}, \"training\": {\"micro_batch\": 1, \"global_batch\": 6, \"precision\": \"fp32\"},"
    " \"parallel\": {\"pipeline\": 2}, \"memory_policy\": \"mpress\","
    " \"plan\": {\"stage_places\": [1, 0], \"moves\": ["
    " {\"tensor\": \"activation\", \"layers\": [0, 0], \"to\": \"devices\", \"stripes\": [{\"stage\": 1}], \"lag\": 1},"
    " {\"tensor\": \"activation\", \"layers\": [1, 1], \"to\": \"host\", \"lag\": 1, \"lead\": 1},"
    " {\"tensor\": \"activation\", \"layers\": [3, 3], \"to\": \"recompute\"},"
    " {\"tensor\": \"optimizer\", \"layers\": [0, 1], \"to\": \"host\"},"
    " {\"tensor\": \"optimizer\", \"layers\": [2, 3], \"to\": \"cpu\"},"
    " {\"tensor\": \"optimizer\", \"layers\": [4, 5], \"to\": \"devices\", \"stripes\": [{\"stage\": 0}]}]}}";

static uint32_t copies(const struct schedule *schedule, enum opcode opcode)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < schedule->op_count; i++) {
        count += schedule->ops[i].opcode == opcode;
    }
    return count;
}

static void test_checked(void)
{
    static struct scenario scenario;
    struct schedule schedule = { 0 };
    struct timeline real = { 0 }, simulated = { 0 };
    struct error error = { 0 };
    EXPECT_INT(scenario_parse(&scenario, TEXT, "test", NULL, 0, &error), STATUS_OK);
    const struct lower_request request = { .model = &scenario.model,
                                           .cluster = &scenario.cluster,
                                           .software = &scenario.software,
                                           .plan = &scenario.plan,
                                           .order = registry_order(scenario.plan.order, &error),
                                           .policy = registry_policy(scenario.plan.policy, &error) };
    EXPECT_INT(lower_schedule(&request, &schedule, &error), STATUS_OK);
    EXPECT(copies(&schedule, OP_COPY_P2P) > 8 && copies(&schedule, OP_COPY_D2H) > 4 &&
           copies(&schedule, OP_HOST_OPTIMIZER) == 2);
    const struct exec_options simulate = { .cluster = &scenario.cluster,
                                           .software = &scenario.software,
                                           .audit = true };
    const struct exec_options check = { .software = &scenario.software, .check = true, .audit = true };
    EXPECT_INT(exec_sim.run(&schedule, &simulate, &simulated, &error), STATUS_OK);
    enum status status = memwall_executor()->run(&schedule, &check, &real, &error);
    if (status != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
    } else {
        EXPECT_INT(real.outcome, TIMELINE_DONE);
        EXPECT_INT(real.schedule_hash.a, simulated.schedule_hash.a);
        expect_possible_peaks(&schedule, &real, false, "host");
        expect_possible_peaks(&schedule, &simulated, false, "simulator");
    }
    timeline_free(&real);
    timeline_free(&simulated);
    schedule_free(&schedule);
    scenario_free(&scenario);
}

TEST_MAIN(TEST(test_checked))
