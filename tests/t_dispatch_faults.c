/* What goes wrong in a run: errors of the driver everywhere, hung ops, cancellation, limits. Always one message, nobody left behind. */
#include <dirent.h>

#include "tests/dispatch_run.h"
#include "tests/engine_run.h"
#include "tests/schedule_gen.h"

static void small_schedule(struct schedule *schedule)
{
    const struct schedule_gen gen = { .ranks = 3, .events = 12, .devices_per_rank = 1 };
    schedule_gen(&gen, test_seed, schedule);
}

static uint32_t count_threads(void)
{
    uint32_t count = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL) {
        return 0;
    }
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(tasks);
    return count;
}

static void *do_nothing(void *argument)
{
    return argument;
}

/* A sanitizer's own thread comes with the first of ours. */
static uint32_t threads_before(void)
{
    pthread_t thread;
    EXPECT_INT(pthread_create(&thread, NULL, do_nothing, NULL), 0);
    (void)pthread_join(thread, NULL);
    fake_sleep(10000000);
    return count_threads();
}

/* The kernel drops a joined thread from its list a little later. */
static void expect_threads(uint32_t expected)
{
    for (int i = 0; i < 200 && count_threads() > expected; i++) {
        fake_sleep(5000000);
    }
    EXPECT_INT(count_threads(), expected);
}

/* The run failed in `op`: who, where, what. */
static void expect_op_error(const struct fake_run *run, enum status status, uint32_t op, const char *what)
{
    char text[256], rank[32];
    EXPECT_INT(status, STATUS_EXECUTION);
    EXPECT_INT(run->error.status, STATUS_EXECUTION);
    (void)snprintf(rank, sizeof rank, "rank %u, op %u, ", sched_op_rank(&run->schedule, &run->schedule.ops[op]), op);
    EXPECT_PART(run->error.message, rank);
    EXPECT_PART(run->error.message, sched_op_text(&run->schedule, op, text, sizeof text));
    EXPECT_PART(run->error.message, what);
    EXPECT_INT(run->fake.cancels, 1);
}

/* `asynchronous`: a mask of queue classes; `poll`: the error comes from poll. */
static void fail_each_op(uint32_t asynchronous, bool poll)
{
    struct schedule schedule;
    uint32_t failed = 0, threads = threads_before();
    small_schedule(&schedule);
    for (uint32_t op = 0; op < schedule.op_count; op++) {
        uint32_t queue_class = schedule.queues[schedule.ops[op].queue].queue_class;
        bool is_async = (asynchronous >> queue_class & 1) != 0;
        if (schedule.ops[op].opcode == OP_MARK || (poll && !is_async)) {
            continue;
        }
        struct fake_run run = { .schedule = schedule };
        fake_run_init(&run, BLOCKALLOC_CACHING, asynchronous);
        run.fake.fail_op = op;
        run.fake.fail_poll = poll;
        run.fake.driver.joins_matches = false; /* else a match fails by its first op */
        run.options.warmup_steps = 1;
        expect_op_error(&run, fake_run_go(&run), op, ": the fake fails here");
        EXPECT_INT(run.fake.steps, 1);
        fake_run_free(&run);
        failed++;
    }
    EXPECT(failed > 3);
    expect_threads(threads);
    schedule_free(&schedule);
}

static void test_each_op_fails(void)
{
    enum { ASYNC = 1 << QUEUE_COMPUTE | 1 << QUEUE_COMM | 1 << QUEUE_H2D };
    fail_each_op(0, false);
    fail_each_op(ASYNC, false);
    fail_each_op(ASYNC, true);
}

static void test_joined_match_fails(void)
{
    struct fake_run run;
    uint32_t op = 0;
    small_schedule(&run.schedule);
    while (op < run.schedule.op_count && run.schedule.ops[op].match == SCHED_NONE) {
        op++;
    }
    EXPECT(op < run.schedule.op_count);
    fake_run_init(&run, BLOCKALLOC_EXACT, 0);
    run.fake.fail_op = op;
    run.fake.driver.joins_matches = true;
    EXPECT_INT(fake_run_go(&run), STATUS_EXECUTION);
    EXPECT_PART(run.error.message, "the fake fails here");
    EXPECT_PART(run.error.message, "rank ");
    fake_run_free(&run);
    schedule_free(&run.schedule);
}

static void test_between_ops(void)
{
    static const char *const what[] = { "no way in", "no beginning", "no end" };
    for (int i = 0; i < 3; i++) {
        struct fake_run run;
        uint32_t threads = threads_before();
        small_schedule(&run.schedule);
        fake_run_init(&run, BLOCKALLOC_EXACT, 0);
        run.fake.fail_enter_queue = i == 0 ? run.schedule.ops[0].queue : SCHED_NONE;
        run.fake.fail_begin = i == 1;
        run.fake.fail_end = i == 2;
        EXPECT_INT(fake_run_go(&run), STATUS_EXECUTION);
        EXPECT_PART(run.error.message, what[i]);
        EXPECT_INT(run.fake.cancels, 1);
        if (i == 0) {
            EXPECT_PART(run.error.message, "rank 0, queue ");
            EXPECT_INT(run.fake.submits, 0);
        }
        fake_run_free(&run);
        expect_threads(threads);
        schedule_free(&run.schedule);
    }
}

/* An op that never ends: found within two patiences (the looks are an eighth of one apart; the rest is for a busy machine). */
static void hang(uint32_t op, uint32_t asynchronous)
{
    struct schedule schedule;
    small_schedule(&schedule);
    struct fake_run run = { .schedule = schedule };
    fake_run_init(&run, BLOCKALLOC_EXACT, asynchronous);
    run.fake.hang_op = op;
    run.options.patience_s = 0.2;
    int64_t before_ps = dispatch_clock_ps();
    enum status status = fake_run_go(&run);
    double took_s = s_from_ps(dispatch_clock_ps() - before_ps);
    expect_op_error(&run, status, op, "hangs");
    EXPECT(took_s >= 0.2 && took_s < 2);
    fake_run_free(&run);
    schedule_free(&schedule);
}

/* A queue whose thread does not come up is told by name. */
static void test_hung_enter(void)
{
    struct fake_run run;
    small_schedule(&run.schedule);
    fake_run_init(&run, BLOCKALLOC_EXACT, 0);
    run.fake.hang_enter_queue = run.schedule.ops[0].queue;
    run.options.patience_s = 0.1;
    EXPECT_INT(fake_run_go(&run), STATUS_EXECUTION);
    EXPECT_PART(run.error.message, "rank 0, queue ");
    EXPECT_PART(run.error.message, "has not begun after 0.1 s");
    EXPECT_INT(run.fake.submits, 0);
    fake_run_free(&run);
    schedule_free(&run.schedule);
}

static void test_hung_ops(void)
{
    struct schedule schedule;
    small_schedule(&schedule);
    bool local = false, matched = false;
    for (uint32_t op = 0; op < schedule.op_count; op++) {
        bool *seen = schedule.ops[op].match == SCHED_NONE ? &local : &matched;
        if (schedule.ops[op].opcode == OP_MARK || *seen) {
            continue;
        }
        *seen = true;
        hang(op, 0);
        if (schedule.ops[op].match == SCHED_NONE) { /* of partners that hang in a stream any one is the right answer */
            hang(op, ~0u);
        }
    }
    EXPECT(local && matched);
    schedule_free(&schedule);
}

/* A slow step that makes progress is no hang: five ops of 60 ms, a patience of 200 ms. */
static void test_slow_is_not_hung(void)
{
    for (uint32_t asynchronous = 0; asynchronous < 2; asynchronous++) {
        struct fake_run run;
        struct builder *b = builder_new();
        uint32_t device = 0, work = builder_work_fixed(b, 1);
        builder_rank(b, &device, 1, SCHED_NONE, "stage 0");
        uint32_t queue = builder_queue(b, QUEUE_COMPUTE, "compute");
        for (int i = 0; i < 5; i++) {
            builder_op(b, OP_DELAY, queue, work, PHASE_OTHER);
        }
        const int64_t ns = 60000000;
        (void)finish_builder(b, &run.schedule);
        fake_run_init(&run, BLOCKALLOC_EXACT, asynchronous << QUEUE_COMPUTE);
        run.fake.step_ns = &ns;
        run.options.patience_s = 0.2;
        fake_run_must(&run);
        EXPECT(run.timeline.end_ps > 5 * ns * 1000);
        fake_run_free(&run);
        schedule_free(&run.schedule);
    }
}

struct told {
    uint32_t calls, stop_at, done, total;
    int64_t last_ps, shortest_ps;
};

static bool tell(void *context, uint32_t done, uint32_t total)
{
    struct told *told = context;
    int64_t now_ps = dispatch_clock_ps();
    if (told->calls != 0 && now_ps - told->last_ps < told->shortest_ps) {
        told->shortest_ps = now_ps - told->last_ps;
    }
    EXPECT(done >= told->done && done <= total);
    told->last_ps = now_ps;
    told->done = done;
    told->total = total;
    return ++told->calls != told->stop_at;
}

/* Two steps of six ops of 50 ms. */
static void progress(uint32_t stop_at)
{
    const int64_t ns[] = { 50000000, 50000000 };
    struct told told = { .stop_at = stop_at, .shortest_ps = TIME_NEVER_PS };
    struct fake_run run;
    struct builder *b = builder_new();
    uint32_t device = 0, work = builder_work_fixed(b, 1);
    builder_rank(b, &device, 1, SCHED_NONE, "stage 0");
    uint32_t queue = builder_queue(b, QUEUE_COMPUTE, "compute");
    for (int i = 0; i < 6; i++) {
        builder_op(b, OP_DELAY, queue, work, PHASE_OTHER);
    }
    (void)finish_builder(b, &run.schedule);
    fake_run_init(&run, BLOCKALLOC_EXACT, 0);
    run.fake.step_ns = ns;
    run.options.steps = 2;
    run.options.progress = tell;
    run.options.progress_context = &told;
    enum status status = fake_run_go(&run);
    EXPECT_INT(told.total, 12);
    EXPECT(told.shortest_ps >= INT64_C(100000000000)); /* 100 ms */
    if (stop_at == 0) {
        EXPECT_INT(status, STATUS_OK);
        EXPECT(told.calls >= 3 && told.done > 6);
    } else {
        EXPECT_INT(status, STATUS_EXECUTION);
        EXPECT_PART(run.error.message, "cancelled after ");
        EXPECT_PART(run.error.message, " of 12 ops");
        EXPECT_INT(told.calls, stop_at);
        EXPECT_INT(run.fake.cancels, 1);
    }
    fake_run_free(&run);
    schedule_free(&run.schedule);
}

static void test_progress(void)
{
    progress(0);
    progress(1);
    progress(2);
}

/* Steps shorter than the time between two looks: the caller is heard between them. Forty of 20 ms, stopped at the first look. */
static void test_progress_between_steps(void)
{
    enum { STEPS = 40 };
    int64_t ns[STEPS];
    struct told told = { .stop_at = 1, .shortest_ps = TIME_NEVER_PS };
    struct fake_run run;
    struct builder *b = builder_new();
    uint32_t device = 0;
    builder_rank(b, &device, 1, SCHED_NONE, "stage 0");
    builder_op(b, OP_DELAY, builder_queue(b, QUEUE_COMPUTE, "compute"), builder_work_fixed(b, 1), PHASE_OTHER);
    for (int i = 0; i < STEPS; i++) {
        ns[i] = 20000000;
    }
    (void)finish_builder(b, &run.schedule);
    fake_run_init(&run, BLOCKALLOC_EXACT, 0);
    run.fake.step_ns = ns;
    run.options.steps = STEPS;
    run.options.progress = tell;
    run.options.progress_context = &told;
    EXPECT_INT(fake_run_go(&run), STATUS_EXECUTION);
    EXPECT_PART(run.error.message, "cancelled after ");
    EXPECT_INT(told.calls, 1);
    fake_run_free(&run);
    schedule_free(&run.schedule);
}

/* -- what is refused -- */

static void test_folded(void)
{
    const struct schedule_gen gen = { .ranks = 2, .events = 5, .devices_per_rank = 2 };
    struct fake_run run;
    schedule_gen(&gen, test_seed, &run.schedule);
    fake_run_init(&run, BLOCKALLOC_EXACT, 0);
    EXPECT_INT(fake_run_go(&run), STATUS_UNSUPPORTED);
    EXPECT_PART(run.error.message, "rank 0 stands for 2 devices");
    EXPECT_INT(run.fake.entered, 0);
    fake_run_free(&run);
    schedule_free(&run.schedule);
}

static void make_wide(struct schedule *schedule, uint32_t queues)
{
    struct builder *b = builder_new();
    uint32_t work = builder_work_fixed(b, 1);
    for (uint32_t q = 0, rank = 0; q < queues; q++) {
        if (q % 200 == 0) {
            builder_rank(b, &rank, 1, SCHED_NONE, "stage");
            rank++;
        }
        uint32_t queue = builder_queue(b, QUEUE_COMPUTE, "compute");
        builder_op(b, OP_DELAY, queue, work, PHASE_OTHER);
    }
    (void)finish_builder(b, schedule);
}

static void test_many_queues(void)
{
    for (uint32_t queues = 1024; queues <= 1025; queues++) {
        struct fake_run run;
        make_wide(&run.schedule, queues);
        fake_run_init(&run, BLOCKALLOC_EXACT, 0);
        enum status status = fake_run_go(&run);
        if (queues == 1024) {
            EXPECT_INT(status, STATUS_OK);
            EXPECT_INT(run.fake.entered, 1024);
        } else {
            EXPECT_INT(status, STATUS_LIMIT);
            EXPECT_PART(run.error.message, "1025");
            EXPECT_PART(run.error.message, "1024");
            EXPECT_INT(run.fake.entered, 0);
        }
        fake_run_free(&run);
        schedule_free(&run.schedule);
    }
}

/* A send on a stream cannot meet a receive on a host thread. */
static void test_mixed_match(void)
{
    struct fake_run run;
    struct builder *b = builder_new();
    uint32_t pair[] = { 0, 1 }, group = builder_group(b, pair, 2, 1, "pair"), work = builder_work_fixed(b, 1);
    uint32_t match = builder_match(b, group, 2);
    for (uint32_t r = 0; r < 2; r++) {
        builder_rank(b, &r, 1, SCHED_NONE, "stage");
        builder_op(b, r == 0 ? OP_SEND : OP_RECV, builder_queue(b, QUEUE_P2P, "p2p"), work, PHASE_OTHER);
        builder_set_match(b, match);
    }
    (void)finish_builder(b, &run.schedule);
    fake_run_init(&run, BLOCKALLOC_EXACT, 0);
    run.fake.is_async[1] = true;
    EXPECT_INT(fake_run_go(&run), STATUS_UNSUPPORTED);
    EXPECT_PART(run.error.message, "ops 0 and 1");
    fake_run_free(&run);
    schedule_free(&run.schedule);
}

static void test_nothing_to_do(void)
{
    struct fake_run run;
    struct builder *b = builder_new();
    uint32_t device = 0;
    builder_rank(b, &device, 1, SCHED_NONE, "stage 0");
    builder_queue(b, QUEUE_COMPUTE, "compute");
    (void)finish_builder(b, &run.schedule);
    fake_run_init(&run, BLOCKALLOC_EXACT, 0);
    fake_run_must(&run);
    EXPECT_INT(run.timeline.outcome, TIMELINE_DONE);
    EXPECT_INT(run.timeline.end_ps, 0);
    EXPECT_INT(run.fake.steps, 1);
    fake_run_free(&run);
    schedule_free(&run.schedule);
}

TEST_MAIN(TEST(test_each_op_fails), TEST(test_joined_match_fails), TEST(test_between_ops), TEST(test_hung_ops),
          TEST(test_hung_enter), TEST(test_slow_is_not_hung), TEST(test_progress), TEST(test_progress_between_steps),
          TEST(test_folded), TEST(test_many_queues), TEST(test_mixed_match), TEST(test_nothing_to_do))
