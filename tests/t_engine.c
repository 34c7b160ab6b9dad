/* Rules of the loop, one by one: gates, host issue, memory, matches, what is reported of a step that cannot end. */
#include "sim/engine/reserved.h"
#include "sim/exec.h"
#include "tests/engine_run.h"

struct step {
    struct builder *b;
    uint32_t space, compute, comm;
    struct schedule schedule;
    struct cost_table table;
    struct timeline timeline;
};

static void begin(struct step *step, uint64_t capacity)
{
    uint32_t gpu = 0;
    *step = (struct step){ .b = builder_new() };
    step->space = builder_space(step->b, SPACE_DEVICE, 0, capacity, SCHED_NONE, "gpu 0");
    builder_rank(step->b, &gpu, 1, SCHED_NONE, "rank 0");
    step->compute = builder_queue(step->b, QUEUE_COMPUTE, "compute");
    step->comm = builder_queue(step->b, QUEUE_COMM, "comm");
}

static uint32_t delay(struct step *step, uint32_t queue, int64_t ps)
{
    return builder_op(step->b, OP_DELAY, queue, builder_work_fixed(step->b, ps), PHASE_OTHER);
}

static uint32_t buffer(struct step *step, uint64_t bytes, enum buffer_class class, uint8_t flags)
{
    return builder_buffer(step->b, step->space, bytes, 1, class, flags,
                          builder_label(step->b, buffer_class_word(class)));
}

static bool run(struct step *step, const struct software *software)
{
    return finish_builder(step->b, &step->schedule) &&
           run_schedule(&step->schedule, NULL, software, true, &step->table, &step->timeline);
}

static void end(struct step *step)
{
    timeline_free(&step->timeline);
    cost_table_free(&step->table);
    schedule_free(&step->schedule);
}

static void test_order_and_dependencies(void)
{
    struct step step;
    begin(&step, UINT64_MAX);
    uint32_t a = delay(&step, step.compute, 100), b = delay(&step, step.comm, 70), c = delay(&step, step.compute, 10);
    builder_depends(step.b, b);
    uint32_t d = delay(&step, step.comm, 5);
    builder_depends(step.b, a);
    uint32_t mark = builder_op(step.b, OP_MARK, step.comm, SCHED_NONE, PHASE_OTHER);
    builder_depends(step.b, c);
    if (run(&step, NULL)) {
        const struct op_times *t = step.timeline.ops;
        EXPECT_INT(t[a].start_ps, 0);
        EXPECT_INT(t[b].end_ps, 70);
        EXPECT_INT(t[c].start_ps, 100);
        EXPECT_INT(t[d].start_ps, 100);
        EXPECT_INT(t[mark].start_ps, 110);
        EXPECT_INT(t[mark].end_ps, 110);
        EXPECT_INT(step.timeline.end_ps, 110);
        EXPECT_INT(t[c].alone_ps, 10);
    }
    end(&step);
}

static void test_no_ops(void)
{
    struct step step;
    begin(&step, 10);
    if (run(&step, NULL)) {
        EXPECT_INT(step.timeline.outcome, TIMELINE_DONE);
        EXPECT_INT(step.timeline.end_ps, 0);
    }
    end(&step);
}

/* b waits for memory although c, which needs less, comes after it in another queue. */
static void test_memory_wait(void)
{
    struct step step;
    begin(&step, 100);
    uint32_t x = buffer(&step, 60, BUFFER_ACTIVATION, 0), y = buffer(&step, 50, BUFFER_WORKSPACE, 0),
             z = buffer(&step, 30, BUFFER_GRADIENT, 0);
    uint32_t a = delay(&step, step.compute, 100);
    builder_acquire(step.b, x);
    builder_release(step.b, x);
    uint32_t b = delay(&step, step.comm, 10);
    builder_acquire(step.b, y);
    builder_release(step.b, y);
    uint32_t c = delay(&step, step.compute, 10);
    builder_acquire(step.b, z);
    builder_release(step.b, z);
    if (run(&step, NULL)) {
        const struct op_times *t = step.timeline.ops;
        EXPECT_INT(t[a].end_ps, 100);
        EXPECT_INT(t[b].matched_ps, 0);
        EXPECT_INT(t[b].start_ps, 100);
        EXPECT_INT(t[c].start_ps, 100);
        EXPECT_INT(step.timeline.spaces[0].peak_bytes, 80);
        EXPECT_INT(step.timeline.spaces[0].peak_time_ps, 100);
        EXPECT_INT(step.timeline.spaces[0].peak_op, c);
        EXPECT_INT(step.timeline.spaces[0].at_peak_bytes[BUFFER_WORKSPACE], 50);
        EXPECT_INT(step.timeline.spaces[0].at_peak_bytes[BUFFER_GRADIENT], 30);
    }
    end(&step);
}

static void test_does_not_fit(void)
{
    struct step step;
    begin(&step, 100);
    buffer(&step, 40, BUFFER_WEIGHT, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END);
    uint32_t x = buffer(&step, 30, BUFFER_ACTIVATION, 0), y = buffer(&step, 31, BUFFER_WORKSPACE, 0);
    delay(&step, step.compute, 100);
    builder_acquire(step.b, x);
    uint32_t b = delay(&step, step.compute, 10);
    builder_acquire(step.b, y);
    builder_release(step.b, y);
    builder_release(step.b, x);
    uint32_t c = delay(&step, step.comm, 10);
    builder_depends(step.b, b);
    if (run(&step, NULL)) {
        EXPECT_INT(step.timeline.outcome, TIMELINE_DOES_NOT_FIT);
        EXPECT_INT(step.timeline.blocked_count, 2);
        const struct blocked_op *first = &step.timeline.blocked[0], *second = &step.timeline.blocked[1];
        EXPECT_INT(first->op, b);
        EXPECT_INT(first->space, 0);
        EXPECT_INT(first->wanted_bytes, 31);
        EXPECT_INT(first->free_bytes, 30);
        EXPECT_INT(second->op, c);
        EXPECT_INT(second->waits_for_op, b);
        EXPECT_INT(second->space, SCHED_NONE);
        EXPECT_INT(step.timeline.spaces[0].peak_bytes, 70);
        EXPECT_INT(step.timeline.ops[b].start_ps, TIME_NEVER_PS);
    }
    end(&step);
}

/* Pinned memory is charged to the host memory around it, and every copy of a folded rank's buffer counts. */
static void test_parents_and_copies(void)
{
    struct step step;
    begin(&step, 100);
    uint32_t host = builder_space(step.b, SPACE_HOST, 0, 100, SCHED_NONE, "host");
    uint32_t pinned = builder_space(step.b, SPACE_PINNED, 0, 90, host, "pinned");
    uint32_t label = builder_label(step.b, "staging");
    uint32_t x = builder_buffer(step.b, pinned, 10, 8, BUFFER_COMMUNICATION, 0, label);
    uint32_t y = builder_buffer(step.b, host, 21, 1, BUFFER_OPTIMIZER, 0, label);
    delay(&step, step.compute, 10);
    builder_acquire(step.b, x);
    builder_release(step.b, x);
    uint32_t b = delay(&step, step.comm, 10);
    builder_acquire(step.b, y);
    builder_release(step.b, y);
    if (run(&step, NULL)) {
        struct error error = { 0 };
        EXPECT_INT(step.timeline.ops[b].start_ps, 10); /* 80 + 21 > 100 */
        EXPECT_INT(step.timeline.spaces[host].peak_bytes, 80);
        EXPECT_INT(step.timeline.spaces[pinned].peak_bytes, 80);
        EXPECT_INT(reserved_fill(&step.schedule, NULL, step.timeline.spaces, &error), STATUS_OK);
        EXPECT_INT(step.timeline.spaces[pinned].peak_reserved_bytes, 128); /* eight blocks of 16 */
        EXPECT_INT(step.timeline.spaces[host].peak_reserved_bytes, 128);
    }
    end(&step);
}

/* Exact blocks: 10 and 30 bytes are held as they are, and 20 later take the free block of 30, as the smallest that serves; rounded: 16, 32 and the same 32. */
static void test_exact_blocks(void)
{
    for (unsigned exact = 0; exact < 2; exact++) {
        struct step step;
        begin(&step, 100);
        uint32_t pinned = builder_space(step.b, SPACE_PINNED, 0, 1000, SCHED_NONE, "pinned");
        uint32_t label = builder_label(step.b, "staging");
        static const uint64_t bytes[] = { 10, 30, 20, 31 };
        if (exact) {
            builder_exact_blocks(step.b, pinned);
        }
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t x = builder_buffer(step.b, pinned, bytes[i], 2, BUFFER_COMMUNICATION, 0, label);
            delay(&step, step.compute, 10);
            builder_acquire(step.b, x);
            builder_release(step.b, x);
        }
        if (run(&step, NULL)) {
            struct error error = { 0 };
            EXPECT_INT(step.timeline.spaces[pinned].peak_bytes, 62);
            EXPECT_INT(reserved_fill(&step.schedule, NULL, step.timeline.spaces, &error), STATUS_OK);
            EXPECT_INT(step.timeline.spaces[pinned].peak_reserved_bytes, exact ? 2 * (10 + 30 + 31) : 2 * (16 + 32));
        }
        end(&step);
    }
}

/* Issue order frees x before it takes y, but their ops overlap: what is reserved is never below what was live. */
static void test_reserved_holds_what_is_live(void)
{
    struct step step;
    begin(&step, UINT64_MAX);
    uint32_t x = buffer(&step, 60, BUFFER_ACTIVATION, 0), y = buffer(&step, 30, BUFFER_COMMUNICATION, 0);
    delay(&step, step.compute, 100);
    builder_acquire(step.b, x);
    builder_release(step.b, x);
    delay(&step, step.comm, 100);
    builder_acquire(step.b, y);
    builder_release(step.b, y);
    if (run(&step, NULL)) {
        struct error error = { 0 };
        EXPECT_INT(step.timeline.spaces[0].peak_bytes, 90);
        EXPECT_INT(reserved_fill(&step.schedule, NULL, step.timeline.spaces, &error), STATUS_OK);
        EXPECT_INT(step.timeline.spaces[0].peak_reserved_bytes, 90);
    }
    end(&step);
}

/* Matched ops acquire all or nothing. */
static void test_match_is_atomic(void)
{
    struct builder *b = builder_new();
    uint32_t gpus[] = { 0, 1 }, spaces[2], ops[2], hold = 0;
    uint32_t group = builder_group(b, gpus, 2, 1, "pair"), match = builder_match(b, group, 2);
    uint32_t label = builder_label(b, "boundary");
    for (uint32_t g = 0; g < 2; g++) {
        spaces[g] = builder_space(b, SPACE_DEVICE, g, 100, SCHED_NONE, "gpu");
        builder_rank(b, &gpus[g], 1, SCHED_NONE, "rank");
        uint32_t queue = builder_queue(b, QUEUE_P2P, "p2p"), compute = builder_queue(b, QUEUE_COMPUTE, "compute");
        if (g == 1) {
            uint32_t held = builder_buffer(b, spaces[1], 70, 1, BUFFER_ACTIVATION, 0, label);
            hold = builder_op(b, OP_DELAY, compute, builder_work_fixed(b, 500), PHASE_OTHER);
            builder_acquire(b, held);
            builder_release(b, held);
        }
        uint32_t staging = builder_buffer(b, spaces[g], 60, 1, BUFFER_BOUNDARY, 0, label);
        ops[g] = builder_op(b, g == 0 ? OP_SEND : OP_RECV, queue, builder_work_fixed(b, 10), PHASE_PIPELINE_COMM);
        builder_set_match(b, match);
        builder_acquire(b, staging);
        builder_release(b, staging);
        if (g == 0) {
            uint32_t other = builder_buffer(b, spaces[0], 60, 1, BUFFER_WORKSPACE, 0, label);
            builder_op(b, OP_DELAY, compute, builder_work_fixed(b, 100), PHASE_OTHER);
            builder_acquire(b, other);
            builder_release(b, other);
        }
    }
    struct schedule schedule;
    struct cost_table table;
    struct timeline timeline;
    if (finish_builder(b, &schedule) && run_schedule(&schedule, NULL, NULL, false, &table, &timeline)) {
        EXPECT_INT(timeline.ops[ops[0] + 1].start_ps, 0); /* the waiting send holds nothing */
        EXPECT_INT(timeline.ops[hold].end_ps, 500);
        EXPECT_INT(timeline.ops[ops[0]].matched_ps, 0);
        EXPECT_INT(timeline.ops[ops[0]].start_ps, 500);
        EXPECT_INT(timeline.ops[ops[1]].start_ps, 500);
        EXPECT_INT(timeline.ops[ops[1]].end_ps, 510);
        EXPECT_INT(timeline.spaces[0].peak_bytes, 60);
        timeline_free(&timeline);
        cost_table_free(&table);
    }
    schedule_free(&schedule);
}

/* A collective of three whose work is a fixed time: met by its opcode, not by its work. */
static void test_fixed_collective(void)
{
    struct builder *b = builder_new();
    uint32_t gpus[] = { 0, 1, 2 }, group = builder_group(b, gpus, 3, 1, "three"), match = builder_match(b, group, 3);
    for (uint32_t g = 0; g < 3; g++) {
        builder_rank(b, &gpus[g], 1, SCHED_NONE, "rank");
        uint32_t queue = builder_queue(b, QUEUE_COMM, "comm");
        builder_op(b, OP_DELAY, builder_queue(b, QUEUE_COMPUTE, "compute"), builder_work_fixed(b, 100 * g),
                   PHASE_OTHER);
        builder_op(b, OP_ALL_REDUCE, queue, builder_work_fixed(b, 10), PHASE_DATA_COMM);
        builder_set_match(b, match);
        builder_depends(b, 2 * g);
    }
    struct schedule schedule;
    struct cost_table table;
    struct timeline timeline;
    if (finish_builder(b, &schedule) && run_schedule(&schedule, NULL, NULL, false, &table, &timeline)) {
        for (uint32_t g = 0; g < 3; g++) {
            EXPECT_INT(timeline.ops[2 * g + 1].start_ps, 200);
            EXPECT_INT(timeline.ops[2 * g + 1].end_ps, 210);
        }
        timeline_free(&timeline);
        cost_table_free(&table);
    }
    schedule_free(&schedule);
}

static void test_host_waits(void)
{
    struct step step;
    const struct software software = { .micro_batch_host_s = 3e-12, .step_host_s = 5e-12 };
    begin(&step, 100);
    delay(&step, step.compute, 100);
    builder_flag(step.b, OP_FLAG_HOST_WAITS | OP_FLAG_STEP);
    uint32_t b = delay(&step, step.comm, 10);
    builder_flag(step.b, OP_FLAG_MICRO_BATCH);
    uint32_t c = delay(&step, step.comm, 10);
    builder_flag(step.b, OP_FLAG_MICRO_BATCH);
    if (run(&step, &software)) {
        EXPECT_INT(step.timeline.ops[0].issued_ps, 5);
        EXPECT_INT(step.timeline.ops[0].start_ps, 5);
        EXPECT_INT(step.timeline.ops[b].issued_ps, 108);
        EXPECT_INT(step.timeline.ops[c].issued_ps, 111);
        EXPECT_INT(step.timeline.ops[c].start_ps, 118);
    }
    end(&step);
}

/* The host waits for an op that waits for one it has not issued: a deadlock that no order of ops shows. */
static void test_deadlock(void)
{
    struct builder *b = builder_new();
    uint32_t gpus[] = { 0, 1 }, group = builder_group(b, gpus, 2, 1, "pair"), back[] = { 1, 0 };
    uint32_t other = builder_group(b, back, 2, 1, "back");
    uint32_t first = builder_match(b, group, 2), second = builder_match(b, other, 2), work = builder_work_fixed(b, 10);
    for (uint32_t g = 0; g < 2; g++) {
        builder_rank(b, &gpus[g], 1, SCHED_NONE, "rank");
        uint32_t send = builder_queue(b, QUEUE_P2P, "send"), recv = builder_queue(b, QUEUE_P2P, "recv");
        builder_op(b, OP_SEND, send, work, PHASE_PIPELINE_COMM); /* both send first, and wait */
        builder_set_match(b, g == 0 ? first : second);
        builder_flag(b, OP_FLAG_HOST_WAITS);
        builder_op(b, OP_RECV, recv, work, PHASE_PIPELINE_COMM);
        builder_set_match(b, g == 0 ? second : first);
    }
    struct schedule schedule;
    struct cost_table table;
    struct timeline timeline;
    if (finish_builder(b, &schedule)) {
        struct error error = { 0 };
        EXPECT_INT(cost_table_build(&table, &schedule, NULL, NULL, &error), STATUS_OK);
        timeline = (struct timeline){ 0 };
        EXPECT_INT(engine_run(&schedule, &table, &(struct engine_options){ 0 }, &timeline, &error), STATUS_OK);
        EXPECT_INT(timeline.outcome, TIMELINE_DEADLOCK);
        EXPECT_INT(timeline.blocked_count, 4);
        EXPECT_INT(timeline.blocked[0].op, 0);
        EXPECT_INT(timeline.blocked[0].waits_for_op, 3); /* the recv, not ready */
        EXPECT_INT(timeline.blocked[1].op, 1);
        EXPECT_INT(timeline.blocked[1].waits_for_op, 0); /* its host waits for the send */
        timeline_free(&timeline);
        cost_table_free(&table);
    }
    schedule_free(&schedule);
}

static bool stop(void *context, uint32_t done, uint32_t total)
{
    (void)done;
    (void)total;
    ++*(int *)context;
    return false;
}

static void test_cancel(void)
{
    struct step step;
    int calls = 0;
    begin(&step, 100);
    for (int i = 0; i < 100000; i++) {
        delay(&step, step.compute, 1);
    }
    if (finish_builder(step.b, &step.schedule)) {
        struct error error = { 0 };
        EXPECT_INT(cost_table_build(&step.table, &step.schedule, NULL, NULL, &error), STATUS_OK);
        const struct engine_options options = { .progress = stop, .progress_context = &calls };
        EXPECT_INT(engine_run(&step.schedule, &step.table, &options, &step.timeline, &error), STATUS_EXECUTION);
        EXPECT_INT(calls, 1);
    }
    end(&step);
}

struct watched {
    int64_t last_ps, until_ps;
    uint32_t instants;
};

static bool watch_until(void *context, int64_t now_ps, const struct timeline *so_far)
{
    struct watched *w = context;
    EXPECT(now_ps > w->last_ps);
    EXPECT_INT(so_far->ops[0].start_ps, 0);
    EXPECT_INT(so_far->ops[2].start_ps, now_ps >= 20 ? 20 : 0);
    EXPECT_INT(so_far->spaces[0].peak_bytes, now_ps >= 20 ? 60 : 0);
    w->last_ps = now_ps;
    w->instants++;
    return now_ps < w->until_ps;
}

/* Every instant is seen once, with the starts and peaks until then; who has seen enough ends the run. */
static void test_watch(void)
{
    for (int64_t until_ps = 30; until_ps <= 1000; until_ps += 970) {
        struct step step;
        struct watched watched = { .until_ps = until_ps };
        begin(&step, 100);
        uint32_t x = buffer(&step, 60, BUFFER_ACTIVATION, 0);
        for (int i = 0; i < 10; i++) {
            delay(&step, step.compute, 10);
            if (i == 2) {
                builder_acquire(step.b, x);
                builder_release(step.b, x);
            }
        }
        if (finish_builder(step.b, &step.schedule)) {
            struct error error = { 0 };
            EXPECT_INT(cost_table_build(&step.table, &step.schedule, NULL, NULL, &error), STATUS_OK);
            const struct timeline_watch watch = { watch_until, &watched };
            const struct engine_options options = { .watch = &watch };
            EXPECT_INT(engine_run(&step.schedule, &step.table, &options, &step.timeline, &error),
                       until_ps == 30 ? STATUS_EXECUTION : STATUS_OK);
            EXPECT_INT(watched.instants, until_ps == 30 ? 3 : 10);
        }
        end(&step);
    }
}

static void test_executor(void)
{
    struct step step;
    begin(&step, 1 << 20);
    uint32_t x = buffer(&step, 60, BUFFER_ACTIVATION, 0);
    delay(&step, step.compute, 100);
    builder_acquire(step.b, x);
    builder_release(step.b, x);
    if (finish_builder(step.b, &step.schedule)) {
        struct error error = { 0 };
        const struct exec_options options = { .audit = true };
        struct hash hash = schedule_hash(&step.schedule);
        EXPECT_INT(exec_sim.run(&step.schedule, &options, &step.timeline, &error), STATUS_OK);
        EXPECT_TEXT(step.timeline.executor, "sim");
        EXPECT_INT(step.timeline.end_ps, 100);
        EXPECT_INT(step.timeline.schedule_hash.a, hash.a);
        EXPECT_INT(step.timeline.schedule_hash.b, hash.b);
        EXPECT_INT(step.timeline.spaces[0].peak_reserved_bytes, 60);
        EXPECT(exec_sim.supports(&step.schedule, 0, NULL, 0));
    }
    end(&step);
}

/* What lives from the start is too much: an outcome with its peaks and its reason, not an error. */
static void test_start_does_not_fit(void)
{
    struct step step;
    begin(&step, 100);
    buffer(&step, 80, BUFFER_WEIGHT, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END);
    buffer(&step, 45, BUFFER_OPTIMIZER, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END);
    delay(&step, step.compute, 100);
    if (finish_builder(step.b, &step.schedule)) {
        struct error error = { 0 };
        struct strbuf text = { 0 };
        const struct exec_options options = { .audit = true };
        EXPECT_INT(exec_sim.run(&step.schedule, &options, &step.timeline, &error), STATUS_OK);
        EXPECT_INT(step.timeline.outcome, TIMELINE_DOES_NOT_FIT);
        EXPECT_INT(step.timeline.blocked_count, 1);
        EXPECT_INT(step.timeline.blocked[0].op, SCHED_NONE);
        EXPECT_INT(step.timeline.blocked[0].space, 0);
        EXPECT_INT(step.timeline.blocked[0].wanted_bytes, 125);
        EXPECT_INT(step.timeline.spaces[0].peak_bytes, 125);
        EXPECT_INT(step.timeline.spaces[0].peak_reserved_bytes, 125);
        EXPECT_INT(step.timeline.spaces[0].peak_op, SCHED_NONE);
        EXPECT_INT(step.timeline.spaces[0].at_peak_bytes[BUFFER_WEIGHT], 80);
        EXPECT_INT(step.timeline.spaces[0].at_peak_bytes[BUFFER_OPTIMIZER], 45);
        EXPECT_INT(step.timeline.end_ps, 0);
        EXPECT_INT(step.timeline.ops[0].start_ps, TIME_NEVER_PS);
        timeline_explain(&step.schedule, &step.timeline, &text);
        EXPECT_PART(text.text, "live at the start wants 125 B (125 bytes)");
        EXPECT_PART(text.text, "weight");
        strbuf_free(&text);
    }
    end(&step);
}

TEST_MAIN(TEST(test_order_and_dependencies), TEST(test_no_ops), TEST(test_memory_wait), TEST(test_does_not_fit),
          TEST(test_start_does_not_fit), TEST(test_parents_and_copies), TEST(test_exact_blocks),
          TEST(test_reserved_holds_what_is_live), TEST(test_match_is_atomic), TEST(test_fixed_collective),
          TEST(test_host_waits), TEST(test_deadlock), TEST(test_cancel), TEST(test_watch), TEST(test_executor))
