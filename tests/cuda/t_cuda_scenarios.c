/* The scenarios that validate/gpu_check.sh measures on a GPU, smaller, on the emulation: they load, run, pass the audit, and peak as their schedules allow. */
#include "sim/base/file.h"
#include "tests/cuda/cuda_test.h"
#include "tests/peak_check.h"
#include "tests/report_run.h"

/* `text` with the first `from` replaced by `to`, which is no longer. */
static void replace(char *text, const char *from, const char *to)
{
    char *at = strstr(text, from);
    EXPECT(at != NULL);
    if (at != NULL) {
        memset(at, ' ', strlen(from));
        memcpy(at, to, strlen(to));
    }
}

static void run_scenario(const char *name, bool emulate, uint32_t copies_each_way)
{
    char path[128], *text = NULL;
    size_t length;
    struct error error = { 0 };
    struct report_run simulated = { 0 };
    (void)snprintf(path, sizeof path, "validate/gpu_scenarios/%s.json", name);
    EXPECT_INT(file_read(path, 1 << 16, &text, &length, &error), STATUS_OK);
    if (text == NULL) {
        return;
    }
    replace(text, "\"layers\": 12", "\"layers\": 2");
    replace(text, "\"hidden\": 1024", "\"hidden\": 128");
    replace(text, "\"heads\": 16", "\"heads\": 2");
    replace(text, "\"ffn\": 4096", "\"ffn\": 512");
    replace(text, "\"vocab\": 50257", "\"vocab\": 1000");
    emulation_reset(&(struct emulation_options){ .device_count = 1, .device_bytes = UINT64_C(16) << 30 });
    if (report_run(&simulated, text)) {
        const struct exec_options options = {
            .software = &simulated.scenario.software, .audit = true, .emulate = emulate, .warmup_steps = 1, .steps = 2
        };
        struct timeline timeline;
        enum status status = memwall_executor()->run(&simulated.schedule, &options, &timeline, &error);
        EXPECT_INT(status, STATUS_OK);
        EXPECT_TEXT(error.message, "");
        EXPECT_INT(timeline.outcome, TIMELINE_DONE);
        EXPECT_INT(timeline.emulated, emulate);
        EXPECT_TEXT(timeline.executor, "cuda");
        if (timeline.outcome == TIMELINE_DONE) {
            expect_possible_peaks(&simulated.schedule, &timeline, false, name);
            expect_possible_peaks(&simulated.schedule, &simulated.timeline, false, name);
        }
        timeline_free(&timeline);
        expect_nothing_left();
        uint32_t up = 0, down = 0;
        for (uint32_t i = 0; i < simulated.schedule.op_count; i++) {
            up += simulated.schedule.ops[i].opcode == OP_COPY_H2D;
            down += simulated.schedule.ops[i].opcode == OP_COPY_D2H;
        }
        EXPECT(up >= copies_each_way && down >= copies_each_way);
    }
    report_run_free(&simulated);
    free(text);
}

static void test_scenarios_of_the_gpu_check(void)
{
    run_scenario("resident", false, 0);
    run_scenario("recompute", false, 0);
    run_scenario("offload", false, 1);
    run_scenario("swap", false, 1);
    run_scenario("emulated", true, 0);
}

TEST_MAIN(TEST(test_scenarios_of_the_gpu_check))
