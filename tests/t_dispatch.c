/* The dispatcher with a driver that watches: causes, memory, matches, steps, outcomes. Errors: t_dispatch_faults.c. Asynchronous queues: t_dispatch_async.c. */
#include "tests/dispatch_run.h"
#include "tests/engine_run.h"
#include "tests/schedule_gen.h"
#include "validate/dispatch/dispatch_internal.h"

enum { SEEDS = 60 };

/* -- random schedules -- */

static void count_outcome(const struct fake_run *run, uint64_t seed, uint32_t outcomes[3])
{
    const struct schedule *s = &run->schedule;
    const struct timeline *t = &run->timeline;
    outcomes[t->outcome]++;
    if (t->outcome == TIMELINE_DONE) {
        for (uint32_t i = 0; i < s->op_count; i++) {
            if (s->ops[i].opcode != OP_MARK && run->fake.ended[i] == 0) {
                TEST_FAIL_("seed %llu: op %u never came to the driver", (unsigned long long)seed, i);
            }
        }
        return;
    }
    const struct blocked_op *b = &t->blocked[0];
    if (t->outcome == TIMELINE_DOES_NOT_FIT && (b->space == SCHED_NONE || b->wanted_bytes <= b->free_bytes)) {
        TEST_FAIL_("seed %llu: op %u is said to lack memory, but wants %llu where %llu are free",
                   (unsigned long long)seed, b->op, (unsigned long long)b->wanted_bytes,
                   (unsigned long long)b->free_bytes);
    }
}

static void run_random(const struct schedule_gen *gen, uint64_t seed, enum blockalloc_kind kind, bool joins,
                       uint32_t outcomes[3])
{
    struct fake_run run;
    schedule_gen(gen, seed, &run.schedule);
    fake_run_init(&run, kind, 0);
    run.fake.driver.joins_matches = joins;
    run.fake.dawdle_ns = seed % 3 == 0 ? 100000 : 0;
    run.options.steps = 2;
    if (fake_run_go(&run) != STATUS_OK) {
        TEST_FAIL_("seed %llu: %s", (unsigned long long)seed, run.error.message);
    } else {
        count_outcome(&run, seed, outcomes);
        EXPECT_TEXT(run.timeline.executor, "fake");
        EXPECT_INT(run.fake.cancels, 0);
    }
    fake_run_free(&run);
    schedule_free(&run.schedule);
}

static void test_random_roomy(void)
{
    uint32_t outcomes[3] = { 0 };
    for (uint64_t seed = test_seed; seed < test_seed + SEEDS; seed++) {
        const struct schedule_gen gen = { .ranks = 1 + (uint32_t)(seed % 4), .events = 40, .devices_per_rank = 1 };
        run_random(&gen, seed, (enum blockalloc_kind)(seed % 3), seed % 2 == 0, outcomes);
    }
    EXPECT_INT(outcomes[TIMELINE_DONE], SEEDS); /* all of them fit, and have no circle */
}

static void test_random_tight(void)
{
    uint32_t outcomes[3] = { 0 };
    for (uint64_t seed = test_seed; seed < test_seed + SEEDS; seed++) {
        const struct schedule_gen gen = {
            .ranks = 1 + (uint32_t)(seed % 3), .events = 30, .devices_per_rank = 1, .tight = true
        };
        run_random(&gen, seed, BLOCKALLOC_EXACT, seed % 2 == 0, outcomes);
    }
    printf("tight: %u done, %u do not fit, %u deadlocks\n", outcomes[0], outcomes[1], outcomes[2]);
    EXPECT(outcomes[TIMELINE_DONE] > 0 && outcomes[TIMELINE_DOES_NOT_FIT] > 0);
}

/* Peaks say the same as timeline_memory. */
static void test_peaks(void)
{
    for (uint64_t seed = test_seed; seed < test_seed + 10; seed++) {
        const struct schedule_gen gen = { .ranks = 3, .events = 40, .devices_per_rank = 1 };
        struct fake_run run;
        struct arena arena = { 0 };
        schedule_gen(&gen, seed, &run.schedule);
        fake_run_init(&run, BLOCKALLOC_EXACT, 0);
        fake_run_must(&run);
        for (uint32_t space = 0; space < run.schedule.space_count && run.timeline.ops != NULL; space++) {
            struct memory_point *points = NULL;
            uint32_t count = 0;
            uint64_t peak = 0;
            int64_t time_ps = 0;
            EXPECT_INT(timeline_memory(&run.schedule, &run.timeline, space, &arena, &points, &count, NULL), STATUS_OK);
            for (uint32_t i = 0; i < count; i++) {
                time_ps = points[i].bytes > peak ? points[i].time_ps : time_ps;
                peak = points[i].bytes > peak ? points[i].bytes : peak;
            }
            EXPECT_INT(run.timeline.spaces[space].peak_bytes, peak);
            EXPECT_INT(run.timeline.spaces[space].peak_time_ps, time_ps);
            EXPECT(run.timeline.spaces[space].peak_reserved_bytes >= peak);
        }
        arena_free(&arena);
        fake_run_free(&run);
        schedule_free(&run.schedule);
    }
}

/* -- outcomes are the engine's -- */

/* One op after the other on changing queues: nothing depends on chance. */
static void make_chain(struct schedule *schedule, uint64_t seed, uint64_t capacity)
{
    static const enum queue_class classes[] = { QUEUE_COMPUTE, QUEUE_COMM, QUEUE_HOST };
    uint64_t random = seed;
    struct builder *b = builder_new();
    uint32_t devices[] = { 0 }, queues[3], live[40], live_count = 0;
    uint32_t host = builder_space(b, SPACE_HOST, 0, 4 * capacity, SCHED_NONE, "host");
    uint32_t pinned = builder_space(b, SPACE_PINNED, 0, UINT64_MAX, host, "pinned");
    uint32_t device = builder_space(b, SPACE_DEVICE, 0, capacity, SCHED_NONE, "gpu 0");
    builder_rank(b, devices, 1, SCHED_NONE, "stage 0");
    for (uint32_t q = 0; q < 3; q++) {
        queues[q] = builder_queue(b, classes[q], "queue");
    }
    uint32_t work = builder_work_fixed(b, 1000);
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t op = builder_op(b, OP_DELAY, queues[test_below(&random, 3)], work, PHASE_OTHER);
        builder_depends(b, op == 0 ? SCHED_NONE : op - 1);
        if (live_count > 0 && test_below(&random, 3) == 0) {
            builder_release(b, live[--live_count]);
        }
        for (uint64_t n = test_below(&random, 3); n > 0; n--) {
            uint32_t buffer =
                builder_buffer(b, test_below(&random, 4) == 0 ? pinned : device, 1 + test_below(&random, 1000), 1,
                               BUFFER_ACTIVATION, BUFFER_LIVE_AT_END, builder_label(b, "x"));
            builder_acquire(b, buffer);
        }
        if (test_below(&random, 2) == 0 && live_count < 40) {
            live[live_count] =
                builder_buffer(b, device, 1 + test_below(&random, 1000), 1, BUFFER_WORKSPACE, 0, builder_label(b, "y"));
            builder_acquire(b, live[live_count++]);
        }
    }
    for (uint32_t op = builder_op(b, OP_MARK, queues[0], SCHED_NONE, PHASE_OTHER); live_count > 0;) {
        builder_depends(b, op - 1);
        builder_release(b, live[--live_count]);
    }
    (void)finish_builder(b, schedule);
}

/* `run->schedule` in the engine: same outcome, same waits, same progress of every op. */
static void expect_engine(struct fake_run *run, uint64_t seed)
{
    struct cost_table table;
    struct timeline sim;
    const struct timeline *real = &run->timeline;
    if (run_verified(&run->schedule, NULL, NULL, false, &table, &sim)) {
        if (real->outcome != sim.outcome || real->blocked_count != sim.blocked_count) {
            TEST_FAIL_("seed %llu: outcome %d with %u waits, the engine's is %d with %u", (unsigned long long)seed,
                       (int)real->outcome, real->blocked_count, (int)sim.outcome, sim.blocked_count);
        }
        for (uint32_t i = 0; i < real->blocked_count && i < sim.blocked_count; i++) {
            const struct blocked_op *a = &real->blocked[i], *b = &sim.blocked[i];
            EXPECT_INT(a->op, b->op);
            EXPECT_INT(a->space, b->space);
            EXPECT_INT(a->wanted_bytes, b->wanted_bytes);
            EXPECT_INT(a->free_bytes, b->free_bytes);
            EXPECT_INT(a->waits_for_op, b->waits_for_op);
        }
        for (uint32_t i = 0; i < run->schedule.op_count; i++) {
            const struct op_times *a = &real->ops[i], *b = &sim.ops[i];
            EXPECT_INT(a->issued_ps == TIME_NEVER_PS, b->issued_ps == TIME_NEVER_PS);
            EXPECT_INT(a->ready_ps == TIME_NEVER_PS, b->ready_ps == TIME_NEVER_PS);
            EXPECT_INT(a->matched_ps == TIME_NEVER_PS, b->matched_ps == TIME_NEVER_PS);
            EXPECT_INT(a->start_ps == TIME_NEVER_PS, b->start_ps == TIME_NEVER_PS);
            EXPECT_INT(a->end_ps == TIME_NEVER_PS, b->end_ps == TIME_NEVER_PS);
        }
        for (uint32_t i = 0; i < run->schedule.space_count; i++) {
            EXPECT_INT(real->spaces[i].peak_bytes, sim.spaces[i].peak_bytes);
        }
    }
    timeline_free(&sim);
    cost_table_free(&table);
}

static void test_outcomes_of_chains(void)
{
    uint32_t outcomes[3] = { 0 };
    for (uint64_t seed = test_seed; seed < test_seed + SEEDS; seed++) {
        struct fake_run run;
        make_chain(&run.schedule, seed, seed % 2 == 0 ? 12000 : 40000);
        fake_run_init(&run, BLOCKALLOC_EXACT, 0);
        fake_run_must(&run);
        count_outcome(&run, seed, outcomes);
        expect_engine(&run, seed);
        fake_run_free(&run);
        schedule_free(&run.schedule);
    }
    printf("chains: %u done, %u do not fit\n", outcomes[0], outcomes[1]);
    EXPECT(outcomes[TIMELINE_DONE] > 5 && outcomes[TIMELINE_DOES_NOT_FIT] > 5);
}

/* Two ranks: the first sends a, then b; the other takes b first. `host_waits`: on queues of their own, but the host waits for the first. */
static void make_circle(struct schedule *schedule, bool host_waits)
{
    struct builder *b = builder_new();
    uint32_t pair[] = { 0, 1 }, match[2];
    uint32_t group = builder_group(b, pair, 2, 1, "pair"), work = builder_work_fixed(b, 1000);
    match[0] = builder_match(b, group, 2);
    match[1] = builder_match(b, group, 2);
    for (uint32_t r = 0; r < 2; r++) {
        builder_rank(b, &r, 1, SCHED_NONE, r == 0 ? "left" : "right");
        uint32_t first = builder_queue(b, QUEUE_P2P, "p2p");
        uint32_t second = host_waits ? builder_queue(b, QUEUE_P2P, "p2p too") : first;
        builder_op(b, r == 0 ? OP_SEND : OP_RECV, first, work, PHASE_PIPELINE_COMM);
        builder_set_match(b, match[r]);
        builder_flag(b, host_waits ? OP_FLAG_HOST_WAITS : 0);
        builder_op(b, r == 0 ? OP_SEND : OP_RECV, second, work, PHASE_PIPELINE_COMM);
        builder_set_match(b, match[1 - r]);
    }
    (void)finish_builder(b, schedule);
}

static void test_deadlocks(void)
{
    for (int i = 0; i < 2; i++) {
        struct fake_run run;
        make_circle(&run.schedule, i == 1);
        fake_run_init(&run, BLOCKALLOC_EXACT, 0);
        fake_run_must(&run);
        EXPECT_INT(run.timeline.outcome, TIMELINE_DEADLOCK);
        EXPECT_INT(run.fake.submits, 0);
        expect_engine(&run, 0);
        fake_run_free(&run);
        schedule_free(&run.schedule);
    }
}

static void test_start_does_not_fit(void)
{
    struct fake_run run;
    struct builder *b = builder_new();
    uint32_t device = 0, space = builder_space(b, SPACE_DEVICE, 0, 1000, SCHED_NONE, "gpu 0");
    builder_buffer(b, space, 1001, 1, BUFFER_WEIGHT, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END,
                   builder_label(b, "weights"));
    builder_rank(b, &device, 1, SCHED_NONE, "stage 0");
    builder_op(b, OP_DELAY, builder_queue(b, QUEUE_COMPUTE, "compute"), builder_work_fixed(b, 1), PHASE_OTHER);
    (void)finish_builder(b, &run.schedule);
    fake_run_init(&run, BLOCKALLOC_EXACT, 0);
    EXPECT_INT(run.memory.blocks, 0);
    fake_run_must(&run);
    EXPECT_INT(run.timeline.outcome, TIMELINE_DOES_NOT_FIT);
    EXPECT_INT(run.fake.steps, 0);
    EXPECT_INT(run.fake.entered, 0);
    expect_engine(&run, 0);
    fake_run_free(&run);
    schedule_free(&run.schedule);
}

/* -- waiting -- */

/* Three queues want the one place there is: one after the other, first come, first served. */
static void test_memory_waits(void)
{
    enum { QUEUES = 4 };
    struct fake_run run;
    struct builder *b = builder_new();
    uint32_t device = 0, space = builder_space(b, SPACE_DEVICE, 0, 1000, SCHED_NONE, "gpu 0");
    uint32_t work = builder_work_fixed(b, 1), queues[QUEUES];
    builder_rank(b, &device, 1, SCHED_NONE, "stage 0");
    for (uint32_t q = 0; q < QUEUES; q++) {
        queues[q] = builder_queue(b, QUEUE_COMPUTE, "compute");
    }
    for (uint32_t q = 0; q < QUEUES; q++) {
        builder_op(b, OP_DELAY, queues[q], work, PHASE_OTHER);
        uint32_t buffer = builder_buffer(b, space, 600, 1, BUFFER_WORKSPACE, 0, builder_label(b, "place"));
        builder_acquire(b, buffer);
        builder_release(b, buffer);
    }
    const int64_t ns = 3000000;
    (void)finish_builder(b, &run.schedule);
    fake_run_init(&run, BLOCKALLOC_EXACT, 0);
    run.fake.step_ns = &ns;
    fake_run_must(&run);
    EXPECT_INT(run.timeline.outcome, TIMELINE_DONE);
    EXPECT_INT(run.fake.most_at_once, 1);
    for (uint32_t i = 0; i < QUEUES; i++) {
        const struct op_times *t = &run.timeline.ops[i];
        EXPECT(t->end_ps - t->start_ps >= ns * 1000 && t->alone_ps == t->end_ps - t->start_ps);
        EXPECT(i == 0 ||
               (t->matched_ps < run.timeline.ops[i - 1].end_ps && t->start_ps >= run.timeline.ops[i - 1].end_ps));
    }
    EXPECT_INT(run.timeline.ops[0].matched_ps, run.timeline.ops[0].start_ps);
    fake_run_free(&run);
    schedule_free(&run.schedule);
}

/* The second queue's op is issued only when the first queue's has ended; a third, before it in issue order, runs beside it. */
static void check_fence(uint8_t flag)
{
    struct fake_run run;
    struct builder *b = builder_new();
    uint32_t device = 0, work = builder_work_fixed(b, 1), queues[3];
    builder_rank(b, &device, 1, SCHED_NONE, "stage 0");
    for (uint32_t q = 0; q < 3; q++) {
        queues[q] = builder_queue(b, QUEUE_COMPUTE, "compute");
    }
    builder_op(b, OP_DELAY, queues[2], work, PHASE_OTHER);
    builder_op(b, OP_DELAY, queues[0], work, PHASE_OTHER);
    builder_flag(b, flag);
    builder_op(b, OP_DELAY, queues[1], work, PHASE_OTHER);
    builder_op(b, OP_DELAY, queues[2], work, PHASE_OTHER);
    const int64_t ns = 20000000;
    (void)finish_builder(b, &run.schedule);
    fake_run_init(&run, BLOCKALLOC_EXACT, 0);
    run.fake.step_ns = &ns;
    fake_run_must(&run);
    EXPECT(flag == 0 || run.fake.most_at_once <= 2);
    EXPECT(flag == 0 || run.timeline.ops[2].start_ps >= run.timeline.ops[1].end_ps);
    EXPECT_INT(run.timeline.ops[0].issued_ps, 0);
    EXPECT_INT(run.timeline.ops[1].issued_ps, 0);
    EXPECT_INT(run.timeline.ops[2].issued_ps, flag != 0 ? run.timeline.ops[1].end_ps : 0);
    EXPECT_INT(run.timeline.ops[3].issued_ps, flag != 0 ? run.timeline.ops[1].end_ps : 0);
    fake_run_free(&run);
    schedule_free(&run.schedule);
}

static void test_fences(void)
{
    check_fence(OP_FLAG_HOST_WAITS);
    check_fence(OP_FLAG_BUSY_HOST);
    check_fence(0);
}

/* Partners begin and end together, whoever does the work. */
static void test_matches(void)
{
    for (int joins = 0; joins < 2; joins++) {
        const struct schedule_gen gen = { .ranks = 4, .events = 60, .devices_per_rank = 1 };
        struct fake_run run;
        uint32_t matched = 0;
        schedule_gen(&gen, test_seed, &run.schedule);
        fake_run_init(&run, BLOCKALLOC_EXACT, 0);
        run.fake.driver.joins_matches = joins == 1;
        run.fake.dawdle_ns = 50000;
        fake_run_must(&run);
        for (uint32_t i = 0; i < run.schedule.op_count; i++) {
            for (uint32_t j = 0; j < i && run.schedule.ops[i].match != SCHED_NONE; j++) {
                if (run.schedule.ops[j].match == run.schedule.ops[i].match) {
                    const struct op_times *x = &run.timeline.ops[i], *y = &run.timeline.ops[j];
                    matched++;
                    EXPECT(x->start_ps <= run.fake.start_ps[i] && x->start_ps <= run.fake.start_ps[j]);
                    EXPECT(x->start_ps == y->start_ps && x->end_ps == y->end_ps && x->matched_ps == y->matched_ps &&
                           x->matched_ps >= y->ready_ps && y->matched_ps >= x->ready_ps);
                }
            }
        }
        EXPECT(matched > 20);
        fake_run_free(&run);
        schedule_free(&run.schedule);
    }
}

/* -- steps -- */

struct steps_seen {
    uint32_t count, stop_after;
    int64_t end_ps[16];
    const struct schedule *schedule;
};

static bool step_done(void *context, uint32_t step, const struct timeline *t)
{
    struct steps_seen *seen = context;
    EXPECT_INT(step, seen->count);
    EXPECT_INT(t->op_count, seen->schedule->op_count);
    EXPECT_INT(t->outcome, TIMELINE_DONE);
    seen->end_ps[seen->count++] = t->end_ps;
    return seen->count != seen->stop_after;
}

/* Four ops after warm-up; of times 2, 30, 10, 20, 40 ms an op the median of five is 20, the lower one of the first four 10. */
static void check_steps(uint32_t stop_after, uint32_t measured, uint32_t median)
{
    static const int64_t ns[] = { 1000000, 50000000, 2000000, 30000000, 10000000, 20000000, 40000000 };
    struct fake_run run;
    struct builder *b = builder_new();
    uint32_t device = 0, work = builder_work_fixed(b, 1),
             space = builder_space(b, SPACE_DEVICE, 0, 900, SCHED_NONE, "");
    /* In a step the first dies and the second is born: between steps it is the other way round. */
    uint32_t old = builder_buffer(b, space, 600, 1, BUFFER_WEIGHT, BUFFER_LIVE_AT_START, builder_label(b, "old"));
    uint32_t new = builder_buffer(b, space, 600, 1, BUFFER_WEIGHT, BUFFER_LIVE_AT_END, builder_label(b, "new"));
    builder_rank(b, &device, 1, SCHED_NONE, "stage 0");
    uint32_t queue = builder_queue(b, QUEUE_COMPUTE, "compute");
    builder_op(b, OP_DELAY, queue, work, PHASE_OTHER);
    builder_release(b, old);
    builder_op(b, OP_DELAY, queue, work, PHASE_OTHER);
    builder_acquire(b, new);
    (void)finish_builder(b, &run.schedule);
    struct steps_seen seen = { .stop_after = stop_after, .schedule = &run.schedule };
    fake_run_init(&run, BLOCKALLOC_BEST_FIT, 0);
    run.fake.step_ns = ns;
    run.options.warmup_steps = 2;
    run.options.steps = 5;
    run.options.step_done = step_done;
    run.options.step_context = &seen;
    fake_run_must(&run);
    EXPECT_INT(seen.count, measured);
    EXPECT_INT(run.fake.steps, measured + 2);
    EXPECT_INT(run.fake.entered, 1); /* threads live through all steps */
    EXPECT_INT(run.timeline.end_ps, seen.end_ps[median]);
    for (uint32_t i = 0; i < measured; i++) {
        EXPECT(seen.end_ps[i] >= 2 * 1000 * ns[i + 2]);
    }
    fake_run_free(&run);
    schedule_free(&run.schedule);
}

static void test_steps(void)
{
    check_steps(0, 5, 3);
    check_steps(4, 4, 2);
    check_steps(1, 1, 0);
}

/* Ranks of other processes: no thread, no times, no waiting for their partners. */
static void test_local_ranks(void)
{
    for (uint32_t mask = 0; mask < 8; mask++) {
        const bool is_local[] = { (mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0 };
        const struct schedule_gen gen = { .ranks = 3, .events = 40, .devices_per_rank = 1 };
        struct fake_run run;
        schedule_gen(&gen, test_seed + mask, &run.schedule);
        fake_run_init(&run, BLOCKALLOC_EXACT, 0);
        run.fake.driver.is_local = is_local;
        run.fake.driver.joins_matches = mask % 2 == 0;
        fake_run_must(&run);
        EXPECT_INT(run.timeline.outcome, TIMELINE_DONE);
        for (uint32_t i = 0; i < run.schedule.op_count && run.timeline.ops != NULL; i++) {
            const struct op_times *t = &run.timeline.ops[i];
            bool local = is_local[sched_op_rank(&run.schedule, &run.schedule.ops[i])];
            EXPECT_INT(t->end_ps != TIME_NEVER_PS, local);
            EXPECT_INT(t->issued_ps != TIME_NEVER_PS, local);
            EXPECT_INT(run.fake.ended[i] != 0, local && run.schedule.ops[i].opcode != OP_MARK);
        }
        fake_run_free(&run);
        schedule_free(&run.schedule);
    }
}

/* -- who is woken first -- */

static void test_wakes(void)
{
    static const uint32_t RANKS[] = { 0, 1, 1, 0, 2 };
    static const uint32_t NO_RANK[] = { 4, 3, 2, 1, 0 }, OF_1[] = { 4, 3, 0 }, OF_0[] = { 4, 2, 1 };
    static const struct {
        uint32_t rank, first_count;
        const uint32_t *first; /* then those of the rank, in any order */
    } cases[] = { { SCHED_NONE, 5, NO_RANK }, { 1, 3, OF_1 }, { 0, 3, OF_0 } };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct queue_state queues[5] = { 0 };
        struct dispatch d = { .queues = queues };
        uint32_t list = SCHED_NONE, count = 0;
        for (uint32_t i = 0; i < 5; i++) {
            queues[i].rank = RANKS[i];
            queues[i].next_wake = list;
            list = i;
        }
        for (list = dispatch_order_wakes(&d, list, cases[c].rank); list != SCHED_NONE && count < 6; count++) {
            if (count < cases[c].first_count) {
                EXPECT_INT(list, cases[c].first[count]);
            } else {
                EXPECT_INT(RANKS[list], cases[c].rank);
            }
            list = queues[list].next_wake;
        }
        EXPECT_INT(count, 5);
    }
    EXPECT_INT(dispatch_order_wakes(&(struct dispatch){ 0 }, SCHED_NONE, 0), SCHED_NONE);
}

TEST_MAIN(TEST(test_wakes), TEST(test_random_roomy), TEST(test_random_tight), TEST(test_peaks),
          TEST(test_outcomes_of_chains), TEST(test_deadlocks), TEST(test_start_does_not_fit), TEST(test_memory_waits),
          TEST(test_fences), TEST(test_matches), TEST(test_steps), TEST(test_local_ranks))
