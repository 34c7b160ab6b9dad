/* Timelines: memory curves, the audit against a plain executor made here (and against every way of falsifying its timeline), and explanations by name. */
#include "sim/base/units.h"
#include "sim/ir/audit.h"
#include "sim/ir/time_sort.h"
#include "sim/ir/verify.h"
#include "tests/schedule_gen.h"
#include "tests/test.h"

static bool started(const struct timeline *t, uint32_t op)
{
    return t->ops[op].end_ps != TIME_NEVER_PS;
}

/* When all causes of an op but its match have ended; TIME_NEVER_PS: not yet. */
static int64_t plain_ready(const struct schedule *s, const struct timeline *t, uint32_t op)
{
    const struct sched_op *o = &s->ops[op];
    int64_t ready = 0;
    for (uint32_t i = s->ranks[sched_op_rank(s, o)].first_op; i < op; i++) {
        bool waits = s->ops[i].queue == o->queue || (s->ops[i].flags & OP_FLAG_HOST_WAITS) != 0;
        for (uint32_t j = 0; !waits && j < o->dependency_count; j++) {
            waits = s->dependencies[o->first_dependency + j] == i;
        }
        if (waits) {
            ready = t->ops[i].end_ps > ready ? t->ops[i].end_ps : ready;
        }
    }
    return ready;
}

/* Memory without limits, random durations (some zero); quadratic and obvious. */
static void plain_run(const struct schedule *s, uint64_t seed, struct timeline *t)
{
    *t = (struct timeline){
        .op_count = s->op_count, .space_count = s->space_count, .executor = "sim", .schedule_hash = schedule_hash(s)
    };
    t->ops = arena_array(&t->arena, struct op_times, s->op_count);
    t->spaces = arena_array(&t->arena, struct space_use, s->space_count);
    for (uint32_t i = 0; i < s->op_count; i++) {
        t->ops[i].end_ps = TIME_NEVER_PS;
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < s->op_count; i++) {
            int64_t start = started(t, i) ? TIME_NEVER_PS : plain_ready(s, t, i);
            for (uint32_t j = 0; start != TIME_NEVER_PS && s->ops[i].match != SCHED_NONE && j < s->op_count; j++) {
                if (j != i && s->ops[j].match == s->ops[i].match) {
                    int64_t other = plain_ready(s, t, j);
                    start = other > start ? other : start;
                }
            }
            if (start == TIME_NEVER_PS) {
                continue;
            }
            int64_t duration = (int64_t)test_below(&seed, 5) * 1000;
            for (uint32_t j = 0; j < s->op_count; j++) {
                if (j == i || (s->ops[i].match != SCHED_NONE && s->ops[j].match == s->ops[i].match)) {
                    int64_t ready = plain_ready(s, t, j);
                    t->ops[j] = (struct op_times){ 0, ready, start, start, start + duration, duration };
                }
            }
            t->end_ps = start + duration > t->end_ps ? start + duration : t->end_ps;
            moved = true;
        }
    }
    /* The host issues as early as it may. */
    for (uint32_t r = 0; r < s->rank_count; r++) {
        int64_t issued = 0;
        for (uint32_t i = s->ranks[r].first_op; i < s->ranks[r].first_op + s->ranks[r].op_count; i++) {
            t->ops[i].issued_ps = issued;
            if ((s->ops[i].flags & OP_FLAG_HOST_WAITS) != 0 && t->ops[i].end_ps > issued) {
                issued = t->ops[i].end_ps;
            }
        }
    }
}

static bool charges(const struct schedule *s, uint32_t buffer, uint32_t space)
{
    uint32_t at = s->buffers[buffer].space;
    while (at != SCHED_NONE && at != space) {
        at = s->spaces[at].parent;
    }
    return at == space;
}

/* Bytes in a space just after an instant: from the lives of buffers, one by one. */
static uint64_t plain_bytes(const struct schedule *s, const struct timeline *t, uint32_t space, int64_t time_ps)
{
    uint64_t bytes = 0;
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        bool live = (s->buffers[b].flags & BUFFER_LIVE_AT_START) != 0;
        for (uint32_t i = 0; i < s->op_count; i++) {
            for (uint32_t j = 0; j < s->ops[i].acquire_count; j++) {
                live = live || (sched_acquires(s, &s->ops[i])[j] == b && t->ops[i].start_ps <= time_ps);
            }
        }
        for (uint32_t i = 0; i < s->op_count; i++) {
            for (uint32_t j = 0; j < s->ops[i].release_count; j++) {
                live = live && !(sched_releases(s, &s->ops[i])[j] == b && t->ops[i].end_ps <= time_ps);
            }
        }
        bytes += live && charges(s, b, space) ? s->buffers[b].bytes * s->buffers[b].copies : 0;
    }
    return bytes;
}

/* Fills the peaks as an executor would, from the curves. */
static void plain_peaks(const struct schedule *s, struct timeline *t)
{
    struct error error = { 0 };
    for (uint32_t space = 0; space < s->space_count; space++) {
        int64_t *times;
        uint64_t *bytes;
        uint32_t count;
        EXPECT_INT(timeline_memory_by_class(s, t, space, &t->arena, &times, &bytes, &count, &error), STATUS_OK);
        struct space_use *use = &t->spaces[space];
        for (uint32_t i = 0; i < count; i++) {
            uint64_t sum = 0;
            for (uint32_t j = 0; j < BUFFER_CLASS_COUNT; j++) {
                sum += bytes[i * BUFFER_CLASS_COUNT + j];
            }
            if (i == 0 || sum > use->peak_bytes) {
                use->peak_bytes = sum;
                use->peak_time_ps = times[i];
                use->peak_op = SCHED_NONE;
                memcpy(use->at_peak_bytes, bytes + i * BUFFER_CLASS_COUNT, sizeof use->at_peak_bytes);
            }
        }
    }
}

static void make(uint64_t seed, uint32_t ranks, uint32_t events, struct schedule *s, struct timeline *t)
{
    struct schedule_gen gen = { .ranks = ranks, .events = events, .devices_per_rank = 1 };
    schedule_gen(&gen, seed, s);
    plain_run(s, seed, t);
    plain_peaks(s, t);
}

static void test_curves(void)
{
    for (uint64_t i = 0; i < 12; i++) {
        struct schedule s;
        struct timeline t;
        struct error error = { 0 };
        make(test_seed + i, 1 + (uint32_t)(i % 3), 20, &s, &t);
        for (uint32_t space = 0; space < s.space_count; space++) {
            struct memory_point *points;
            uint32_t count;
            EXPECT_INT(timeline_memory(&s, &t, space, &t.arena, &points, &count, &error), STATUS_OK);
            EXPECT_INT(points[0].time_ps, 0);
            for (uint32_t j = 0; j < count; j++) {
                EXPECT(j == 0 || points[j].time_ps > points[j - 1].time_ps);
                EXPECT_INT(points[j].bytes, plain_bytes(&s, &t, space, points[j].time_ps));
                if (j + 1 < count && points[j + 1].time_ps > points[j].time_ps + 1) {
                    EXPECT_INT(points[j].bytes, plain_bytes(&s, &t, space, points[j + 1].time_ps - 1));
                }
            }
        }
        timeline_free(&t);
        schedule_free(&s);
    }
}

static void test_audit_accepts(void)
{
    for (uint64_t i = 0; i < 60; i++) {
        struct schedule s;
        struct timeline t;
        struct error error = { 0 };
        make(test_seed + i, 1 + (uint32_t)(i % 4), 10 + (uint32_t)i, &s, &t);
        if (timeline_audit(&s, schedule_hash(&s), &t, NULL, &error) != STATUS_OK) {
            TEST_FAIL_("seed %" PRIu64 ": %s", test_seed + i, error.message);
        }
        timeline_free(&t);
        schedule_free(&s);
    }
}

static void expect_bad(const struct schedule *s, const struct timeline *t, const struct audit_resources *resources,
                       const char *message, int line)
{
    struct error error = { 0 };
    enum status status = timeline_audit(s, schedule_hash(s), t, resources, &error);
    if (status != STATUS_BAD_TIMELINE || strstr(error.message, message) == NULL) {
        TEST_FAIL_("line %d: %s, \"%s\"; expected \"%s\"", line, status_word(status), error.message, message);
    }
}

/* Falsify one place, expect the message, put it back. */
#define FALSIFY(place, value, message)                                                                                 \
    do {                                                                                                               \
        __typeof__(place) old_ = (place);                                                                              \
        (place) = (value);                                                                                             \
        expect_bad(&s, &t, NULL, message, __LINE__);                                                                   \
        (place) = old_;                                                                                                \
    } while (0)

static void test_audit_refuses(void)
{
    struct schedule s;
    struct timeline t;
    make(test_seed, 3, 60, &s, &t);
    FALSIFY(t.schedule_hash.a, 5, "the timeline is of another schedule");
    FALSIFY(t.op_count, 5, "the timeline has 5 ops");
    FALSIFY(t.end_ps, t.end_ps + 1, "the timeline ends at");
    FALSIFY(t.ops[3].start_ps, t.ops[3].end_ps + 1, "its gates are not in order");
    FALSIFY(t.ops[3].alone_ps, -1, "its gates are not in order");
    FALSIFY(t.ops[0].issued_ps, -1, "its gates are not in order");
    FALSIFY(t.outcome, TIMELINE_DEADLOCK, "nothing is said to wait");
    unsigned queue = 0, dependency = 0, partner = 0, host = 0;
    for (uint32_t i = 0; i < s.op_count; i++) {
        const struct sched_op *op = &s.ops[i];
        struct op_times *x = &t.ops[i];
        for (uint32_t j = 0; j < op->dependency_count && x->ready_ps > 0; j++) {
            uint32_t cause = s.dependencies[op->first_dependency + j];
            if (t.ops[cause].end_ps == x->ready_ps && x->issued_ps < x->ready_ps && dependency++ == 0) {
                FALSIFY(x->ready_ps, x->ready_ps - 1, "before the end of ");
            }
        }
        if (op->match != SCHED_NONE && partner++ == 0) {
            FALSIFY(x->start_ps, x->start_ps + 1, x->start_ps == x->end_ps ? "gates" : "do not run together");
        }
        if (i > 0 && s.ops[i - 1].queue == op->queue && x->ready_ps > 0 && x->ready_ps == t.ops[i - 1].end_ps &&
            x->issued_ps < x->ready_ps && op->dependency_count == 0 && queue++ == 0) {
            FALSIFY(x->ready_ps, x->ready_ps - 1, "the end of the op before it in its queue");
        }
        if (i > 0 && (s.ops[i - 1].flags & OP_FLAG_HOST_WAITS) != 0 && x->issued_ps > t.ops[i - 1].issued_ps &&
            host++ == 0) {
            FALSIFY(x->issued_ps, x->issued_ps - 1, "before the end of what the host waits for");
        }
    }
    EXPECT(queue > 0 && dependency > 0 && partner > 0 && host > 0);
    for (uint32_t i = 0; i < s.space_count; i++) {
        struct space_use *use = &t.spaces[i];
        FALSIFY(use->peak_bytes, use->peak_bytes - 1, use->peak_bytes == 0 ? "recorded are" : "peaks at");
        FALSIFY(use->peak_bytes, use->peak_bytes + 1000000000, "recorded are");
        FALSIFY(use->at_peak_bytes[0], use->at_peak_bytes[0] + 1, "but its classes have");
        FALSIFY(use->peak_op, s.op_count, "is said to peak");
    }
    uint64_t peak = t.spaces[2].peak_bytes;
    FALSIFY(s.spaces[2].capacity_bytes, peak - 1, "the timeline is of another schedule");
    s.spaces[2].capacity_bytes = peak - 1;
    t.schedule_hash = schedule_hash(&s);
    expect_bad(&s, &t, NULL, "its capacity is", __LINE__);
    s.spaces[2].capacity_bytes = peak;
    t.schedule_hash = schedule_hash(&s);
    struct rate_change rates[] = { { t.ops[1].start_ps, 1, 0.5f }, { t.ops[1].end_ps, 1, 0 } };
    t.rates = rates;
    t.rate_count = 2;
    FALSIFY(rates[0].rate, 1.5f, "rate change 0 (op 1");
    FALSIFY(rates[0].op, s.op_count, "is out of order or range");
    FALSIFY(rates[0].time_ps, t.ops[1].end_ps + 1, "outside its run");
    FALSIFY(rates[1].time_ps, -1, "is out of order or range");
    timeline_free(&t);
    schedule_free(&s);
}

static void test_audit_resources(void)
{
    struct schedule s;
    struct timeline t;
    struct error error = { 0 };
    make(test_seed, 1, 20, &s, &t);
    double capacity[2] = { 10, 20 }, asked[2] = { 5, 0 };
    struct audit_resources resources = { capacity, asked, 2 };
    struct resource_traffic traffic[2] = { { 5, 0, 10 }, { 0, 0, 0 } };
    expect_bad(&s, &t, &resources, "the timeline has 0 resources, the cluster 2", __LINE__);
    t.resources = traffic;
    t.resource_count = 2;
    EXPECT_INT(timeline_audit(&s, schedule_hash(&s), &t, &resources, &error), STATUS_OK);
    traffic[0].peak_use = 10 * (1 + 1e-8);
    expect_bad(&s, &t, &resources, "resource 0 is used at 10.00000", __LINE__);
    traffic[0].peak_use = 10;
    traffic[1].amount = 1e-3;
    expect_bad(&s, &t, &resources, "resource 1 moved 0.001, asked were 0", __LINE__);
    traffic[1].amount = 0;
    traffic[0].amount = 5.001;
    expect_bad(&s, &t, &resources, "resource 0 moved", __LINE__);
    traffic[0].amount = NAN;
    expect_bad(&s, &t, &resources, "resource 0 moved", __LINE__);
    traffic[0].amount = 5;
    traffic[0].busy_s = s_from_ps(t.end_ps) + 1;
    expect_bad(&s, &t, &resources, "resource 0 was busy", __LINE__);
    timeline_free(&t);
    schedule_free(&s);
}

static void test_time_sort(void)
{
    uint64_t random = test_seed;
    for (unsigned round = 0; round < 30; round++) {
        struct time_event events[300], scratch[300];
        uint32_t count = (uint32_t)test_below(&random, 300);
        unsigned bits = 1 + (unsigned)test_below(&random, 62);
        for (uint32_t i = 0; i < count; i++) {
            events[i] = (struct time_event){ (int64_t)(test_random(&random) >> (64 - bits)), i, 0 };
        }
        time_sort(events, scratch, count);
        for (uint32_t i = 1; i < count; i++) {
            bool rising = events[i - 1].time_ps < events[i].time_ps ||
                          (events[i - 1].time_ps == events[i].time_ps && events[i - 1].op < events[i].op);
            EXPECT(rising);
        }
    }
}

static void test_does_not_fit(void)
{
    struct builder *b = builder_new();
    struct schedule s;
    struct error error = { 0 };
    struct strbuf out = { 0 };
    uint32_t device = 0;
    uint32_t gpu = builder_space(b, SPACE_DEVICE, 0, 1073741824, SCHED_NONE, "gpu 0");
    builder_rank(b, &device, 1, 0, "stage 0");
    uint32_t q = builder_queue(b, QUEUE_COMPUTE, "compute");
    builder_buffer(b, gpu, 805306368, 1, BUFFER_WEIGHT, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END,
                   builder_label(b, "weights"));
    for (uint16_t i = 0; i < 3; i++) {
        uint32_t x = builder_buffer(b, gpu, 104857600, 1, BUFFER_ACTIVATION, BUFFER_LIVE_AT_END,
                                    builder_label_format(b, "layer %u", i % 2u));
        builder_op(b, OP_MARK, q, SCHED_NONE, PHASE_FORWARD);
        builder_tag(b, 0, OP_TAG_NONE, i);
        builder_acquire(b, x);
    }
    EXPECT_INT(builder_finish(b, &s, &error), STATUS_OK);
    EXPECT_INT(sched_verify(&s, &error), STATUS_OK);
    struct timeline t;
    plain_run(&s, 1, &t);
    t.outcome = TIMELINE_DOES_NOT_FIT;
    t.ops[2].start_ps = t.ops[2].end_ps = TIME_NEVER_PS;
    struct blocked_op blocked = { 2, gpu, 104857600, 58720256, SCHED_NONE };
    t.blocked = &blocked;
    t.blocked_count = 1;
    EXPECT_INT(timeline_audit(&s, schedule_hash(&s), &t, NULL, &error), STATUS_OK);
    timeline_explain(&s, &t, &out);
    EXPECT_TEXT(
        out.text,
        "does not fit: op 2, mark forward mb 0 layer 2 (stage 0, compute), wants 100 MiB (104857600 bytes) of gpu 0, "
        "where 56.0 MiB (58720256 bytes) are free of 1.00 GiB (1073741824 bytes)\n"
        "  held there, by class:\n"
        "    weight            768 MiB in 1 buffers\n"
        "    activation        200 MiB in 2 buffers\n"
        "  the largest:\n"
        "    weights                     768 MiB in 1 buffers\n"
        "    layer 0                     100 MiB in 1 buffers\n"
        "    layer 1                     100 MiB in 1 buffers\n");
    out.length = 0;
    blocked = (struct blocked_op){ SCHED_NONE, gpu, 2147483648, 1073741824, SCHED_NONE };
    timeline_explain(&s, &t, &out);
    EXPECT_PART(out.text,
                "does not fit: what is live at the start wants 2.00 GiB (2147483648 bytes) of gpu 0 of 1.00 GiB");
    blocked = (struct blocked_op){ 1, 77, 1, 1, SCHED_NONE };
    expect_bad(&s, &t, NULL, "blocked op 0 names an op or a space that does not exist", __LINE__);
    blocked = (struct blocked_op){ 1, gpu, 1, 1, SCHED_NONE };
    expect_bad(&s, &t, NULL, "op 1 is said to wait, but has started", __LINE__);
    strbuf_free(&out);
    timeline_free(&t);
    schedule_free(&s);
}

static void test_deadlock(void)
{
    struct schedule s;
    struct timeline t;
    struct strbuf out = { 0 };
    char name[3][200], wanted[2000];
    make(test_seed, 2, 20, &s, &t);
    for (uint32_t i = 3; i < 6; i++) {
        t.ops[i].start_ps = t.ops[i].end_ps = TIME_NEVER_PS;
        sched_op_text(&s, i, name[i - 3], sizeof name[0]);
    }
    struct blocked_op blocked[] = { { 3, SCHED_NONE, 0, 0, 5 }, { 4, SCHED_NONE, 0, 0, 3 }, { 5, 2, 1024, 512, 4 } };
    t.outcome = TIMELINE_DEADLOCK;
    t.blocked = blocked;
    t.blocked_count = 3;
    timeline_explain(&s, &t, &out);
    snprintf(wanted, sizeof wanted,
             "deadlock: 3 ops wait for each other\n  op 3, %s, waits for op 5, %s\n"
             "  op 5, %s, waits for 1.00 KiB of %s (512 B free), held until op 4, %s\n  op 4, %s, waits for op 3, %s\n"
             "  op 3 again: the circle is closed\n",
             name[0], name[2], name[2], sched_label(&s, s.spaces[2].label), name[1], name[1], name[0]);
    EXPECT_TEXT(out.text, wanted);
    strbuf_free(&out);
    timeline_free(&t);
    schedule_free(&s);
}

TEST_MAIN(TEST(test_time_sort), TEST(test_curves), TEST(test_audit_accepts), TEST(test_audit_refuses),
          TEST(test_audit_resources), TEST(test_does_not_fit), TEST(test_deadlock))
