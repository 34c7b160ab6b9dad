/* Asynchronous queues: streams of a fake device that keeps only its own order. */
#include "sim/ir/audit.h"
#include "tests/dispatch_run.h"
#include "tests/engine_run.h"
#include "tests/schedule_gen.h"

enum {
    SEEDS = 24,
    DEVICE = 1 << QUEUE_COMPUTE | 1 << QUEUE_COMM | 1 << QUEUE_H2D | 1 << QUEUE_D2H | 1 << QUEUE_P2P,
    ALL = DEVICE | 1 << QUEUE_HOST | 1 << QUEUE_STORAGE
};

static void run_random(uint64_t seed, uint32_t asynchronous, bool joins, int64_t grain_ps, int64_t skew_ps)
{
    const struct schedule_gen gen = { .ranks = 1 + (uint32_t)(seed % 4), .events = 40, .devices_per_rank = 1 };
    struct fake_run run;
    schedule_gen(&gen, seed, &run.schedule);
    fake_run_init(&run, (enum blockalloc_kind)(seed % 3), asynchronous);
    run.fake.driver.joins_matches = joins;
    run.fake.dawdle_ns = seed % 3 == 0 ? 0 : 60000;
    run.fake.grain_ps = grain_ps;
    run.fake.skew_ps = skew_ps;
    run.options.warmup_steps = 1;
    run.options.steps = 2;
    if (fake_run_go(&run) != STATUS_OK) {
        TEST_FAIL_("seed %llu: %s", (unsigned long long)seed, run.error.message);
    } else {
        EXPECT_INT(run.timeline.outcome, TIMELINE_DONE);
        EXPECT_INT(run.fake.steps, 3);
    }
    fake_run_free(&run);
    schedule_free(&run.schedule);
}

static void test_device_queues(void)
{
    for (uint64_t seed = test_seed; seed < test_seed + SEEDS; seed++) {
        run_random(seed, DEVICE, seed % 2 == 0, 0, 0);
    }
}

static void test_all_queues(void)
{
    for (uint64_t seed = test_seed; seed < test_seed + SEEDS; seed++) {
        run_random(seed, ALL, seed % 2 == 0, 0, 0);
    }
}

/* A clock of 50 us grain that is up to 200 us off: the timeline is audited, and in order. */
static void test_bad_clocks(void)
{
    static const int64_t skews_ps[] = { 0, 200000000, -200000000 };
    for (uint64_t seed = test_seed; seed < test_seed + SEEDS; seed++) {
        run_random(seed, seed % 2 == 0 ? DEVICE : 1 << QUEUE_COMPUTE | 1 << QUEUE_H2D, seed % 2 == 0, 50000000,
                   skews_ps[seed % 3]);
    }
}

/* Whatever the device's clock says, an op begins after it was submitted, here behind the one whose memory it waits for, and ends before its end was seen. */
static void test_mad_clocks(void)
{
    static const int64_t skews_ps[] = { INT64_C(5000000000000), INT64_C(-5000000000000) };
    for (int i = 0; i < 2; i++) {
        struct fake_run run;
        struct builder *b = builder_new();
        uint32_t device = 0, work = builder_work_fixed(b, 1);
        uint32_t space = builder_space(b, SPACE_DEVICE, 0, 1000, SCHED_NONE, "gpu 0");
        builder_rank(b, &device, 1, SCHED_NONE, "stage 0");
        for (uint32_t q = 0; q < 2; q++) {
            uint32_t buffer = builder_buffer(b, space, 600, 1, BUFFER_WORKSPACE, 0, builder_label(b, "place"));
            builder_op(b, OP_DELAY, builder_queue(b, QUEUE_COMPUTE, "compute"), work, PHASE_OTHER);
            builder_acquire(b, buffer);
            builder_release(b, buffer);
        }
        const int64_t ns = 5000000;
        (void)finish_builder(b, &run.schedule);
        fake_run_init(&run, BLOCKALLOC_EXACT, DEVICE);
        run.fake.step_ns = &ns;
        run.fake.skew_ps = skews_ps[i];
        int64_t before_ps = dispatch_clock_ps();
        fake_run_must(&run);
        int64_t took_ps = dispatch_clock_ps() - before_ps;
        const struct op_times *t = run.timeline.ops;
        EXPECT(t[0].start_ps >= 0 && t[1].start_ps >= 1000 * ns && t[1].start_ps >= t[0].end_ps);
        EXPECT(t[0].end_ps >= t[0].start_ps && t[1].end_ps >= t[1].start_ps && run.timeline.end_ps <= took_ps);
        fake_run_free(&run);
        schedule_free(&run.schedule);
    }
}

/* A stream without other causes is filled RUN_AHEAD_MAX deep, and no deeper. */
static void test_runs_ahead(void)
{
    enum { OPS = 3 * RUN_AHEAD_MAX };
    struct fake_run run;
    struct builder *b = builder_new();
    uint32_t device = 0, work = builder_work_fixed(b, 1);
    builder_rank(b, &device, 1, SCHED_NONE, "stage 0");
    uint32_t queue = builder_queue(b, QUEUE_COMPUTE, "compute");
    for (uint32_t i = 0; i < OPS; i++) {
        builder_op(b, OP_DELAY, queue, work, PHASE_OTHER);
    }
    const int64_t ns = 2000000;
    (void)finish_builder(b, &run.schedule);
    fake_run_init(&run, BLOCKALLOC_EXACT, ALL);
    run.fake.step_ns = &ns;
    fake_run_must(&run);
    EXPECT_INT(run.fake.ops_done, OPS);
    EXPECT(run.fake.most_at_once >= RUN_AHEAD_MAX - 8 && run.fake.most_at_once <= RUN_AHEAD_MAX + 1);
    fake_run_free(&run);
    schedule_free(&run.schedule);
}

/* A host op behind a device op waits for its end; a device op behind a device op is submitted long before. */
static void test_ends_and_submissions(void)
{
    struct fake_run run;
    struct builder *b = builder_new();
    uint32_t device = 0, work = builder_work_fixed(b, 1);
    builder_rank(b, &device, 1, SCHED_NONE, "stage 0");
    uint32_t compute = builder_queue(b, QUEUE_COMPUTE, "compute"), comm = builder_queue(b, QUEUE_COMM, "comm"),
             host = builder_queue(b, QUEUE_HOST, "host");
    uint32_t first = builder_op(b, OP_DELAY, compute, work, PHASE_OTHER);
    uint32_t second = builder_op(b, OP_DELAY, comm, work, PHASE_OTHER);
    builder_depends(b, first);
    uint32_t third = builder_op(b, OP_DELAY, host, work, PHASE_OTHER);
    builder_depends(b, second);
    uint32_t fourth = builder_op(b, OP_DELAY, compute, work, PHASE_OTHER);
    builder_depends(b, third);
    const int64_t ns = 5000000;
    (void)finish_builder(b, &run.schedule);
    fake_run_init(&run, BLOCKALLOC_EXACT, DEVICE);
    run.fake.step_ns = &ns;
    fake_run_must(&run);
    EXPECT_INT(run.fake.most_at_once, 2);
    const struct op_times *t = run.timeline.ops;
    EXPECT(t[second].start_ps >= t[first].end_ps && t[third].start_ps >= t[second].end_ps &&
           t[fourth].start_ps >= t[third].end_ps);
    for (uint32_t i = 0; i < 4; i++) {
        EXPECT(t[i].alone_ps >= 1000 * ns);
        EXPECT(!run.fake.is_async[run.schedule.ops[i].queue] ||
               t[i].alone_ps <= run.fake.end_ps[i] - run.fake.start_ps[i]); /* as the device told */
    }
    fake_run_free(&run);
    schedule_free(&run.schedule);
}

/* Memory is taken at submission: what runs ahead waits for memory, and is done all the same. */
static void test_memory_bounds_running_ahead(void)
{
    struct fake_run run;
    struct builder *b = builder_new();
    uint32_t device = 0, work = builder_work_fixed(b, 1);
    uint32_t space = builder_space(b, SPACE_DEVICE, 0, 3000, SCHED_NONE, "gpu 0");
    builder_rank(b, &device, 1, SCHED_NONE, "stage 0");
    uint32_t queue = builder_queue(b, QUEUE_COMPUTE, "compute");
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t buffer = builder_buffer(b, space, 1000, 1, BUFFER_WORKSPACE, 0, builder_label(b, "place"));
        builder_op(b, OP_DELAY, queue, work, PHASE_OTHER);
        builder_acquire(b, buffer);
        builder_release(b, buffer);
    }
    const int64_t ns = 2000000;
    (void)finish_builder(b, &run.schedule);
    fake_run_init(&run, BLOCKALLOC_EXACT, DEVICE);
    run.fake.step_ns = &ns;
    fake_run_must(&run);
    EXPECT_INT(run.timeline.outcome, TIMELINE_DONE);
    EXPECT(run.fake.most_at_once <= 4);                      /* three places; one more while its end is not yet seen */
    EXPECT_INT(run.timeline.spaces[space].peak_bytes, 1000); /* as it ran */
    EXPECT(run.timeline.spaces[space].peak_reserved_bytes >= 2000); /* as it was taken */
    fake_run_free(&run);
    schedule_free(&run.schedule);
}

/* Two queues that can never both be served: the same outcome as without streams. */
static void test_does_not_fit(void)
{
    struct fake_run run;
    struct builder *b = builder_new();
    uint32_t device = 0, work = builder_work_fixed(b, 1);
    uint32_t space = builder_space(b, SPACE_DEVICE, 0, 1000, SCHED_NONE, "gpu 0");
    builder_rank(b, &device, 1, SCHED_NONE, "stage 0");
    uint32_t queue = builder_queue(b, QUEUE_COMPUTE, "compute");
    for (uint32_t i = 0; i < 3; i++) {
        builder_op(b, OP_DELAY, queue, work, PHASE_OTHER);
        builder_acquire(
            b, builder_buffer(b, space, 400, 1, BUFFER_ACTIVATION, BUFFER_LIVE_AT_END, builder_label(b, "activation")));
    }
    (void)finish_builder(b, &run.schedule);
    fake_run_init(&run, BLOCKALLOC_EXACT, DEVICE);
    fake_run_must(&run);
    EXPECT_INT(run.timeline.outcome, TIMELINE_DOES_NOT_FIT);
    EXPECT_INT(run.timeline.blocked_count, 1);
    EXPECT_INT(run.timeline.blocked[0].op, 2);
    EXPECT_INT(run.timeline.blocked[0].wanted_bytes, 400);
    EXPECT_INT(run.timeline.blocked[0].free_bytes, 200);
    EXPECT(run.timeline.ops[1].end_ps != TIME_NEVER_PS && run.timeline.ops[2].start_ps == TIME_NEVER_PS);
    fake_run_free(&run);
    schedule_free(&run.schedule);
}

/* The second rank runs elsewhere: starts and ends at 100 i to 100 i + 50 ps, but for one that begins too early. */
static enum status tell_remote(void *context, struct op_times *ops, struct error *error)
{
    struct fake *f = context;
    for (uint32_t i = f->schedule->ranks[1].first_op; i < f->schedule->op_count; i++) {
        ops[i].start_ps = i == 5 ? 10 : 100 * (int64_t)i;
        ops[i].end_ps = ops[i].start_ps + 50;
    }
    return fake_end_step(context, ops, error);
}

static void test_other_processes(void)
{
    const bool is_local[] = { true, false };
    struct fake_run run;
    struct builder *b = builder_new();
    uint32_t work = builder_work_fixed(b, 1);
    for (uint32_t r = 0; r < 2; r++) {
        builder_rank(b, &r, 1, SCHED_NONE, "stage");
        uint32_t compute = builder_queue(b, QUEUE_COMPUTE, "compute"), comm = builder_queue(b, QUEUE_COMM, "comm");
        uint32_t first = builder_op(b, OP_DELAY, compute, work, PHASE_OTHER); /* 0 and 4 */
        builder_flag(b, OP_FLAG_HOST_WAITS);
        builder_op(b, OP_DELAY, comm, work, PHASE_OTHER); /* 1 and 5, the early one */
        builder_depends(b, first);
        builder_op(b, OP_DELAY, compute, work, PHASE_OTHER);
        builder_op(b, OP_DELAY, comm, work, PHASE_OTHER);
    }
    (void)finish_builder(b, &run.schedule);
    fake_run_init(&run, BLOCKALLOC_EXACT, DEVICE);
    run.fake.driver.is_local = is_local;
    run.fake.driver.end_step = tell_remote;
    fake_run_must(&run);
    EXPECT_INT(run.fake.ops_done, 4);
    struct error error = { 0 };
    EXPECT_INT(timeline_audit(&run.schedule, schedule_hash(&run.schedule), &run.timeline, NULL, &error), STATUS_OK);
    EXPECT_TEXT(error.message, "");
    const struct op_times *t = run.timeline.ops;
    EXPECT_INT(t[4].start_ps, 400);
    EXPECT_INT(t[4].issued_ps, 0);
    EXPECT_INT(t[5].issued_ps, 450);
    EXPECT_INT(t[5].start_ps, 450);
    EXPECT_INT(t[5].end_ps, 450);
    EXPECT_INT(t[7].issued_ps, 450);
    EXPECT_INT(t[7].alone_ps, 50);
    fake_run_free(&run);
    schedule_free(&run.schedule);
}

TEST_MAIN(TEST(test_other_processes), TEST(test_device_queues), TEST(test_all_queues), TEST(test_bad_clocks),
          TEST(test_mad_clocks), TEST(test_runs_ahead), TEST(test_ends_and_submissions),
          TEST(test_memory_bounds_running_ahead), TEST(test_does_not_fit))
