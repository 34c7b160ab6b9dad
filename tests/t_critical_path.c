/* The critical path: by hand on a bare pipeline, and on random schedules an unbroken chain of true spans as long as the step. */
#include "sim/base/file.h"
#include "sim/report/critical_path.h"
#include "tests/cluster_machines.h"
#include "tests/engine_run.h"
#include "tests/report_run.h"
#include "tests/schedule_gen.h"

/* GPipe, 4 stages, 3 micro-batches, forward = backward = 2, hop = 1 (less than a pass, so that only one way is critical): stage 0 does 3 forwards, the last of them goes down over 3 hops and
 * 3 forwards, and the same comes back: 6 forwards, 6 backwards, 6 hops. */
static void test_bare_pipeline(void)
{
    struct schedule schedule = { 0 };
    struct timeline timeline = { 0 };
    struct critical_path path = { 0 };
    struct error error = { 0 };
    struct bare_pipeline_request request = {
        .order = registry_order("gpipe", &error),
        .order_request = { .stages = 4, .micro_batches = 3, .virtual_stages = 1 },
        .forward = 2,
        .backward = 2,
        .hop = 1,
    };
    const struct exec_options options = { .audit = true };
    EXPECT_INT(bare_pipeline_schedule(&request, &schedule, &error), STATUS_OK);
    EXPECT_INT(exec_sim.run(&schedule, &options, &timeline, &error), STATUS_OK);
    const struct result_input input = { .schedule = &schedule, .timeline = &timeline };
    int64_t unit = timeline.end_ps / (6 * 2 + 6 * 2 + 6);
    EXPECT_INT(critical_path_find(&path, &input, &error), STATUS_OK);
    EXPECT_INT(path.length_ps, timeline.end_ps);
    EXPECT_INT(path.cause_ps[PHASE_FORWARD], 12 * unit);
    EXPECT_INT(path.cause_ps[PHASE_BACKWARD], 12 * unit);
    EXPECT_INT(path.cause_ps[PATH_FIRST_OPCODE + OP_SEND] + path.cause_ps[PATH_FIRST_OPCODE + OP_RECV], 6 * unit);
    EXPECT_INT(path.cause_ps[PATH_UNEXPLAINED], 0);
    EXPECT(path.top_count == PATH_TOP_MAX && path.top[0].time_ps == 2 * unit);
    critical_path_free(&path);
    timeline_free(&timeline);
    schedule_free(&schedule);
}

static bool is_run(enum path_cause cause)
{
    return cause != PATH_HOST_ISSUE && cause != PATH_MEMORY_WAIT && cause != PATH_UNEXPLAINED;
}

/* Every span is where its op was in that state, by the timeline alone. */
static void check_path(const struct critical_path *path, const struct schedule *s, const struct timeline *t)
{
    const struct step_window window = timeline_step(s, t);
    int64_t at = window.from_ps, length_ps = window.to_ps - window.from_ps, causes = 0, links = 0;
    for (uint32_t i = 0; i < path->span_count; i++) {
        const struct path_span *span = &path->spans[i];
        EXPECT_INT(span->from_ps, at);
        EXPECT(span->to_ps > span->from_ps);
        at = span->to_ps;
        if (span->op >= s->op_count) {
            TEST_FAIL_("span %u has no op", i);
            return;
        }
        const struct op_times *x = &t->ops[span->op];
        if (is_run(span->cause)) {
            EXPECT(span->from_ps >= x->start_ps && span->to_ps <= x->end_ps);
        } else if (span->cause == PATH_MEMORY_WAIT) {
            EXPECT(span->from_ps == (x->matched_ps > window.from_ps ? x->matched_ps : window.from_ps) &&
                   span->to_ps == x->start_ps);
        } else {
            EXPECT(span->to_ps <= x->issued_ps || (span->to_ps == x->end_ps && span->from_ps >= x->start_ps));
        }
    }
    EXPECT_INT(at, window.to_ps);
    EXPECT_INT(path->length_ps, length_ps);
    EXPECT_INT(path->cause_ps[PATH_UNEXPLAINED], 0);
    for (uint32_t i = 0; i < PATH_CAUSE_COUNT; i++) {
        causes += path->cause_ps[i];
    }
    for (uint32_t i = 0; i < PATH_LINK_COUNT; i++) {
        links += path->link_ps[i];
    }
    EXPECT_INT(causes, length_ps);
    EXPECT_INT(links, length_ps);
}

struct seen {
    uint32_t done;
    int64_t cause_ps[PATH_CAUSE_COUNT], link_ps[PATH_LINK_COUNT];
};

static void check_run(const struct schedule *schedule, struct timeline *timeline, const struct cluster *cluster,
                      const struct software *software, struct seen *seen)
{
    struct critical_path path = { 0 };
    struct error error = { 0 };
    const struct result_input input = {
        .schedule = schedule, .timeline = timeline, .cluster = cluster, .software = software
    };
    EXPECT_INT(critical_path_find(&path, &input, &error), STATUS_OK);
    check_path(&path, schedule, timeline);
    seen->done++;
    for (uint32_t i = 0; i < PATH_CAUSE_COUNT; i++) {
        seen->cause_ps[i] += path.cause_ps[i];
    }
    for (uint32_t i = 0; i < PATH_LINK_COUNT; i++) {
        seen->link_ps[i] += path.link_ps[i];
    }
    critical_path_free(&path);
}

/* With memory to spare, then with a little less than that took: if it still runs, ops wait for memory. */
static void check_random(const struct schedule_gen *gen, uint64_t seed, const struct cluster *cluster,
                         const struct software *software, struct seen *seen)
{
    struct schedule schedule;
    unsigned failures = test_failures;
    schedule_gen(gen, seed, &schedule);
    for (int round = 0; round < 2; round++) {
        struct timeline timeline;
        struct cost_table table;
        bool done =
            run_schedule(&schedule, cluster, software, false, &table, &timeline) && timeline.outcome == TIMELINE_DONE;
        if (done) {
            check_run(&schedule, &timeline, cluster, software, seen);
        }
        for (uint32_t i = 0; done && i < schedule.space_count; i++) {
            schedule.spaces[i].capacity_bytes = schedule.spaces[i].kind == SPACE_DEVICE
                                                    ? timeline.spaces[i].peak_bytes * 9 / 10
                                                    : schedule.spaces[i].capacity_bytes;
        }
        cost_table_free(&table);
        timeline_free(&timeline);
    }
    if (test_failures > failures) {
        printf("seed %llu\n", (unsigned long long)seed);
    }
    schedule_free(&schedule);
}

static void test_random_schedules(void)
{
    static struct hand_machine made;
    struct software software = { .launch_host_s = 7e-6,
                                 .collective_host_s = 20e-6,
                                 .copy_host_s = 6e-6,
                                 .pass_host_s = 30e-6,
                                 .micro_batch_host_s = 100e-6,
                                 .step_host_s = 1e-3,
                                 .launch_ahead = 6 };
    struct cluster cluster;
    struct error error = { 0 };
    struct seen seen = { 0 };
    hand_dgx_a100(&made);
    made.machine.cpu_adam_parameters_per_s_core = 1e5;
    made.machine.gpu.kernel_floor_s = 1e-6;
    made.machine.gpu.attention_forward_efficiency = made.machine.gpu.attention_backward_efficiency = 0.4;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        made.machine.gpu.peak_flops[i] = 20e12;
    }
    for (int i = 0; i < KERNEL_CLASS_COUNT; i++) {
        made.machine.gpu.class_efficiency[i] = 0.8;
    }
    if (cluster_build(&cluster, &made.machine, 2, 0, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
        return;
    }
    for (uint64_t seed = test_seed * 1000; seed < test_seed * 1000 + 400; seed++) {
        struct schedule_gen gen = { 1 + (uint32_t)(seed % 6), 20, 1, false, seed % 4 == 3 };
        software.launch_ahead = seed % 3 == 0 ? 0 : 4;
        check_random(&gen, seed, &cluster, seed % 5 == 0 ? NULL : &software, &seen);
    }
    printf("%u random schedules\n", seen.done);
    EXPECT(seen.done > 200);
    for (uint32_t i = 0; i < PATH_CAUSE_COUNT; i++) {
        if (seen.cause_ps[i] > 0) {
            printf("  %s %lld ps\n", path_cause_word(i), (long long)seen.cause_ps[i]);
        }
    }
    /* Each kind of cause and of beginning was met, or the test shows nothing of it. */
    EXPECT(seen.cause_ps[PATH_HOST_ISSUE] > 0 && seen.cause_ps[PATH_MEMORY_WAIT] > 0);
    EXPECT(seen.cause_ps[PATH_CONTENTION] > 0 && seen.cause_ps[PATH_FIRST_OPCODE + OP_ALL_REDUCE] > 0);
    for (uint32_t i = PATH_BY_DEPENDENCY; i < PATH_LINK_COUNT; i++) {
        EXPECT(seen.link_ps[i] > 0);
    }
    cluster_free(&cluster);
}

static void test_refused(void)
{
    struct timeline timeline = { .outcome = TIMELINE_DONE };
    struct schedule schedule = { 0 };
    const struct result_input input = { .schedule = &schedule, .timeline = &timeline };
    struct critical_path path;
    struct error error = { 0 };
    EXPECT_INT(critical_path_find(&path, &input, &error), STATUS_UNSUPPORTED);
    EXPECT_PART(error.message, "simulated");
}

static bool report_run_file(struct report_run *run, const char *file)
{
    struct error error = { 0 };
    char *text = NULL;
    size_t length;
    if (file_read(file, 1 << 20, &text, &length, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
        return false;
    }
    bool done = report_run(run, text);
    free(text);
    return done;
}

/* The scenarios that come with memwall. */
static void test_shipped(void)
{
    static const char *const files[] = {
        "scenarios/bert-large-dgx1.json",       "scenarios/gpt2-xl-one-gpu-offload.json",
        "scenarios/gpt3-175b-dgx-a100.json",    "scenarios/llama3-8b-fsdp-h100.json",
        "scenarios/megatron-22b-dgx-a100.json", "scenarios/two-gpus-1f1b.json",
        "scenarios/gpt3-175b-1024-a100.json",
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct report_run run = { 0 };
        struct critical_path path = { 0 };
        struct error error = { 0 };
        if (report_run_file(&run, files[i])) {
            EXPECT_INT(critical_path_find(&path, &run.input, &error), STATUS_OK);
            check_path(&path, &run.schedule, &run.timeline);
            printf("%s: %lld ps, %u spans\n", files[i], (long long)path.length_ps, path.span_count);
        }
        critical_path_free(&path);
        report_run_free(&run);
    }
}

/* Schedules of several steps: the path is that of the settled one. Its forwards and backwards are less than what all steps have, and it says which step it is. */
static void test_settled(void)
{
    static const char *const parallel[] = { "\"pipeline_order\": \"pipedream\"",
                                            "\"pipeline_order\": \"pipedream-2bw\"", "\"gradient_barrier\": \"none\"" };
    static const char *const software[] = { "ideal", "megatron" };
    char text[1024];
    for (size_t i = 0; i < 2 * sizeof parallel / sizeof parallel[0]; i++) {
        struct report_run run = { 0 };
        struct critical_path path = { 0 };
        struct error error = { 0 };
        struct strbuf out = { 0 };
        snprintf(text, sizeof text,
                 "{\"machine\": \"dgx1-v100-32gb\", \"gpus\": 4, \"software\": \"%s\","
                 " \"model\": {\"family\": \"gpt\", \"layers\": 8, \"hidden\": 512, \"heads\": 8, \"ffn\": 2048,"
                 " \"vocab\": 1000, \"max_sequence\": 256}, \"training\": {\"global_batch\": 8},"
                 " \"parallel\": {\"pipeline\": 4, %s}}",
                 software[i % 2], parallel[i / 2]);
        if (report_run(&run, text)) {
            EXPECT(run.result.steps > 1);
            EXPECT_INT(critical_path_find(&path, &run.input, &error), STATUS_OK);
            check_path(&path, &run.schedule, &run.timeline);
            EXPECT_REAL((double)path.length_ps * 1e-12, run.result.step_time_s, 1e-12);
            EXPECT(path.length_ps < run.timeline.end_ps);
            critical_path_text(&path, &run.input, &out);
            EXPECT_PART(out.text, i / 2 < 2 ? ", of the settled step, 2 of 3" : ", of the settled step, 3 of 4");
        }
        strbuf_free(&out);
        critical_path_free(&path);
        report_run_free(&run);
    }
}

TEST_MAIN(TEST(test_bare_pipeline), TEST(test_random_schedules), TEST(test_refused), TEST(test_shipped),
          TEST(test_settled))
