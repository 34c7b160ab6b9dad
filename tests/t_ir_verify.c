/* sched_verify: every rule broken once, by hand, in a schedule that was right; orders through other ranks; cycles by name. */
#include "sim/ir/verify.h"
#include "tests/schedule_gen.h"
#include "tests/test.h"

/* Two ranks, each with compute, comm and p2p; rank 0 sends to rank 1 and gets an answer; a collective of both. */
struct fixture {
    struct builder *b;
    uint32_t space[2], compute[2], comm[2], wire_out[2], wire_in[2], there, back, both, fixed, payload, reduce;
    uint32_t match_there, match_back, match_both;
};

static void open_fixture(struct fixture *f)
{
    uint32_t pair01[] = { 0, 1 }, pair10[] = { 1, 0 };
    struct builder *b = f->b = builder_new();
    f->space[0] = builder_space(b, SPACE_DEVICE, 0, 1000, SCHED_NONE, "gpu 0");
    f->space[1] = builder_space(b, SPACE_DEVICE, 1, 1000, SCHED_NONE, "gpu 1");
    f->there = builder_group(b, pair01, 2, 1, "there");
    f->back = builder_group(b, pair10, 2, 1, "back");
    f->both = builder_group(b, pair01, 2, 1, "both");
    f->fixed = builder_work_fixed(b, 10);
    f->payload = builder_work_transfer(b, 64, false);
    f->reduce = builder_work_collective(b, f->both, 64, DTYPE_FP16);
    f->match_there = builder_match(b, f->there, 2);
    f->match_back = builder_match(b, f->back, 2);
    f->match_both = builder_match(b, f->both, 2);
}

static void open_rank(struct fixture *f, uint32_t rank)
{
    builder_rank(f->b, &rank, 1, rank, rank == 0 ? "stage 0" : "stage 1");
    f->compute[rank] = builder_queue(f->b, QUEUE_COMPUTE, "compute");
    f->comm[rank] = builder_queue(f->b, QUEUE_COMM, "comm");
    f->wire_out[rank] = builder_queue(f->b, QUEUE_P2P, "out");
    f->wire_in[rank] = builder_queue(f->b, QUEUE_P2P, "in");
}

static uint32_t delay(struct fixture *f, uint32_t rank)
{
    return builder_op(f->b, OP_DELAY, f->compute[rank], f->fixed, PHASE_FORWARD);
}

static uint32_t wire(struct fixture *f, enum opcode opcode, uint32_t queue, uint32_t match)
{
    uint32_t op = builder_op(f->b, opcode, queue, f->payload, PHASE_PIPELINE_COMM);
    builder_set_match(f->b, match);
    return op;
}

static uint32_t collective(struct fixture *f, uint32_t rank, uint32_t match)
{
    uint32_t op = builder_op(f->b, OP_ALL_REDUCE, f->comm[rank], f->reduce, PHASE_DATA_COMM);
    builder_set_match(f->b, match);
    return op;
}

static void expect_status(const struct schedule *s, enum status wanted, const char *message, const char *where,
                          int line)
{
    struct error error = { 0 };
    enum status status = sched_verify(s, &error);
    if (status != wanted || strstr(error.message, message) == NULL) {
        printf("%s:%d: ", where, line);
        TEST_FAIL_("status %s, \"%s\"; expected %s, \"%s\"", status_word(status), error.message, status_word(wanted),
                   message);
    }
}
#define EXPECT_BAD(s, message) expect_status((s), STATUS_BAD_SCHEDULE, (message), __FILE__, __LINE__)
#define EXPECT_GOOD(s)         expect_status((s), STATUS_OK, "", __FILE__, __LINE__)

static void finish(struct fixture *f, struct schedule *s)
{
    struct error error = { 0 };
    EXPECT_INT(builder_finish(f->b, s, &error), STATUS_OK);
}

/* A whole right schedule: op numbers 0 delay, 1 send, 2 recv, 3 all_reduce, 4 delay | 5 recv, 6 delay, 7 send, 8 all_reduce. Buffer 0 lives
 * from 0 to 4, used by 1; buffer 1 stays. */
static void right(struct schedule *s)
{
    struct fixture f;
    open_fixture(&f);
    open_rank(&f, 0);
    uint32_t x = builder_buffer(f.b, f.space[0], 10, 1, BUFFER_ACTIVATION, 0, builder_label(f.b, "x"));
    builder_buffer(f.b, f.space[0], 20, 1, BUFFER_WEIGHT, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END,
                   builder_label(f.b, "w"));
    uint32_t first = delay(&f, 0);
    builder_acquire(f.b, x);
    uint32_t sent = wire(&f, OP_SEND, f.wire_out[0], f.match_there);
    builder_depends(f.b, first);
    builder_read(f.b, x);
    uint32_t got = wire(&f, OP_RECV, f.wire_in[0], f.match_back);
    uint32_t sum = collective(&f, 0, f.match_both);
    builder_depends(f.b, sent);
    delay(&f, 0);
    builder_depends(f.b, sum);
    builder_depends(f.b, got);
    builder_release(f.b, x);
    open_rank(&f, 1);
    uint32_t in = wire(&f, OP_RECV, f.wire_in[1], f.match_there);
    uint32_t work = delay(&f, 1);
    builder_depends(f.b, in);
    uint32_t out = wire(&f, OP_SEND, f.wire_out[1], f.match_back);
    builder_depends(f.b, work);
    collective(&f, 1, f.match_both);
    builder_depends(f.b, out);
    finish(&f, s);
}

/* Changes one place, expects the message, puts it back. */
#define BREAK(place, value, message)                                                                                   \
    do {                                                                                                               \
        __typeof__(place) old_ = (place);                                                                              \
        (place) = (__typeof__(place))(value);                                                                          \
        EXPECT_BAD(&s, message);                                                                                       \
        (place) = old_;                                                                                                \
    } while (0)

static void test_fields(void)
{
    struct schedule s;
    right(&s);
    EXPECT_GOOD(&s);
    BREAK(s.model_flops, NAN, "must be finite");
    BREAK(s.text[s.text_bytes - 1], 'x', "labels must begin");
    BREAK(s.text[2], '\xff', "a label is not UTF-8");
    BREAK(s.text[2], '\x7f', "a label holds a control character");
    BREAK(s.spaces[0].kind, 9, "space 0: its kind or label");
    BREAK(s.spaces[0].exact_blocks, 1, "only page-locked memory has exact blocks");
    BREAK(s.spaces[0].parent, 0, "space 0 \"gpu 0\": its parent must be a space before it");
    BREAK(s.spaces[1].capacity_bytes, SCHED_INTEGER_MAX + 1, "capacity must be below 2^53 bytes or unlimited");
    BREAK(s.buffers[0].space, 2, "buffer 0: its space");
    BREAK(s.buffers[0].flags, 4, "buffer 0: its space, class, label or flags");
    BREAK(s.buffers[0].reserved[0], 1, "buffer 0: its space");
    BREAK(s.buffers[0].copies, 0, "buffer 0 \"x\": 0 copies");
    BREAK(s.buffers[0].bytes, UINT64_MAX, "buffer 0 \"x\"");
    BREAK(s.works[0].kind, WORK_NONE, "work 0: its kind");
    BREAK(s.works[0].bytes, 1, "work 0: its kind is out of range, or it sets a field of another kind");
    BREAK(s.works[0].fixed_ps, -1, "work 0 (fixed)");
    BREAK(s.works[2].group, 7, "work 2 (collective)");
    BREAK(s.queues[0].queue_class, 99, "queue 0: its rank");
    BREAK(s.queues[5].rank, 0, "queues must stand in the order of their ranks");
    BREAK(s.ranks[1].first_op, 4, "rank 1: its devices and ops must follow");
    BREAK(s.ranks[1].op_count, 3, "devices or ops that no rank holds");
    BREAK(s.ops[0].opcode, 200, "op 0: its opcode");
    BREAK(s.ops[0].flags, 64, "op 0: its opcode, phase or flags");
    BREAK(s.ops[0].queue, 5, "op 0: its queue 5 is not one of rank 0");
    BREAK(s.ops[0].queue, 2, "op 0, forward (stage 0, out): a p2p queue cannot run it");
    BREAK(s.ops[0].work, 1, "it needs work of kind fixed");
    BREAK(s.ops[0].work, SCHED_NONE, "it needs work of kind fixed");
    BREAK(s.ops[0].match, 0, "op 0, forward (stage 0, compute): it cannot have a match");
    BREAK(s.ops[1].match, SCHED_NONE, "it needs a match");
    BREAK(s.ops[1].first_operand, 2, "op 1: its operands and dependencies must follow");
    BREAK(s.ops[1].dependency_count, 60000, "op 1: its operands and dependencies must follow");
    BREAK(s.operands[0], 9, "op 0: operand 0 is buffer 9, there are 2");
    BREAK(s.dependencies[0], 1, "it depends on op 1; dependencies are earlier ops of its rank, rising, each once");
    BREAK(s.dependencies[3], 2, "dependencies are earlier ops");
    BREAK(s.dependencies[4], 0, "dependencies are earlier ops");
    BREAK(s.ops[3].queue, s.ops[1].queue, "cannot run it");
    schedule_free(&s);
}

static void test_groups(void)
{
    struct schedule s;
    right(&s);
    BREAK(s.devices[1], 0, "device 0 is listed twice: by rank 0 and rank 1");
    BREAK(s.devices[1], SCHED_DEVICES_MAX, "a rank or a group lists device 1048576; numbers end below 1048576");
    BREAK(s.group_members[1], 0, "group 0 \"there\": device 0 is a member twice");
    BREAK(s.groups[1].first_member, 1, "group 1: its members must follow");
    BREAK(s.group_members[1], 5, "wants 2 ops, but 1 ranks are in the first instance of group 0 \"there\"");
    BREAK(s.matches[0].group, 1, "lists its rank's device in another role");
    BREAK(s.matches[0].op_count, 3, "match 0 must be of two ops");
    BREAK(s.matches[2].op_count, 1, "match 2 wants 1 ops, but 2 ranks");
    BREAK(s.ops[7].match, 0, "op 7, send pipeline_comm (stage 1, out): group 0 \"there\" lists");
    BREAK(s.ops[8].opcode, OP_ALL_GATHER, "a collective is one opcode");
    /* Equal bytes, through a work of its own. */
    struct sched_work other = s.works[1];
    s.works[0] = (other.bytes = 65, other);
    s.ops[5].work = 0;
    s.ops[0].opcode = s.ops[4].opcode = s.ops[6].opcode = OP_MARK;
    s.ops[0].work = s.ops[4].work = s.ops[6].work = SCHED_NONE;
    EXPECT_BAD(&s, "op 5, recv pipeline_comm (stage 1, in) has 65 bytes , its partner op 1, send");
    schedule_free(&s);
}

static void test_missing_partner(void)
{
    struct schedule s;
    struct fixture f;
    open_fixture(&f);
    open_rank(&f, 0);
    wire(&f, OP_SEND, f.wire_out[0], f.match_there);
    wire(&f, OP_RECV, f.wire_in[0], f.match_back);
    collective(&f, 0, f.match_both);
    open_rank(&f, 1);
    wire(&f, OP_RECV, f.wire_in[1], f.match_there);
    wire(&f, OP_SEND, f.wire_out[1], f.match_back);
    finish(&f, &s);
    EXPECT_BAD(&s, "match 2 over group 2 \"both\" wants 2 ops, 1 name it");
    schedule_free(&s);
}

/* Two collectives of one group, met in different orders on different queues: no cycle, still wrong. */
static void test_collective_order(void)
{
    struct schedule s;
    struct fixture f;
    open_fixture(&f);
    uint32_t second = builder_match(f.b, f.both, 2), third = builder_match(f.b, f.both, 2);
    for (uint32_t r = 0; r < 2; r++) {
        open_rank(&f, r);
        uint32_t other = builder_queue(f.b, QUEUE_COMM, "other");
        wire(&f, r == 0 ? OP_SEND : OP_RECV, f.wire_out[r], f.match_there);
        wire(&f, r == 0 ? OP_RECV : OP_SEND, f.wire_in[r], f.match_back);
        collective(&f, r, f.match_both);
        uint32_t keep = f.comm[r];
        f.comm[r] = r == 0 ? keep : other;
        collective(&f, r, r == 0 ? second : third);
        f.comm[r] = r == 0 ? other : keep;
        collective(&f, r, r == 0 ? third : second);
    }
    finish(&f, &s);
    EXPECT_BAD(&s, "is number 2 of its rank's collectives over group 2 \"both\", its partner op 4");
    schedule_free(&s);
}

static void test_cycle(void)
{
    struct schedule s;
    struct fixture f;
    open_fixture(&f);
    for (uint32_t r = 0; r < 2; r++) { /* each waits for the other's answer before it sends */
        open_rank(&f, r);
        uint32_t got = wire(&f, OP_RECV, f.wire_in[r], r == 0 ? f.match_back : f.match_there);
        uint32_t work = delay(&f, r);
        builder_depends(f.b, got);
        wire(&f, OP_SEND, f.wire_out[r], r == 0 ? f.match_there : f.match_back);
        builder_depends(f.b, work);
        collective(&f, r, f.match_both);
    }
    finish(&f, &s);
    EXPECT_BAD(&s,
               "ops wait for each other in a cycle: op 1, forward (stage 0, compute) waits for op 0, on which it "
               "depends; op 0, recv pipeline_comm (stage 0, in) waits for op 6, its match partner; op 6, send "
               "pipeline_comm (stage 1, out) waits for op 5, on which it depends; op 5, forward (stage 1, compute) "
               "waits for op 4, on which it depends; op 4, recv pipeline_comm (stage 1, in) waits for op 2, its match "
               "partner; op 2, send pipeline_comm (stage 0, out) waits for op 1, on which it depends");
    /* The same by the host alone: it waits for the answer before it issues the question. */
    s.ops[1].flags = s.ops[5].flags = OP_FLAG_HOST_WAITS;
    EXPECT_BAD(&s, "which the host waits for");
    schedule_free(&s);
}

static void test_lifetimes(void)
{
    struct schedule s;
    right(&s);
    BREAK(s.buffers[0].flags, BUFFER_LIVE_AT_START,
          "op 0, forward (stage 0, compute): acquires buffer 0 \"x\", which is marked live at the start");
    BREAK(s.buffers[0].flags, BUFFER_LIVE_AT_END, "releases buffer 0 \"x\", which is marked live at the end");
    BREAK(s.buffers[1].flags, BUFFER_LIVE_AT_END, "buffer 1 \"w\" is never acquired");
    BREAK(s.buffers[1].flags, BUFFER_LIVE_AT_START, "buffer 1 \"w\" is never released");
    schedule_free(&s);
}

/* right() with one more buffer "y": rebuilt, since operands stand in op order. */
static void rebuild(const struct schedule *s, uint32_t acquirer, uint32_t user, uint32_t releaser, struct schedule *t)
{
    struct fixture f;
    open_fixture(&f);
    for (uint32_t r = 0; r < 2; r++) {
        open_rank(&f, r);
        uint32_t buffers[2] = { 0, 0 };
        for (uint32_t j = 0; r == 0 && j < 2; j++) {
            buffers[j] = builder_buffer(f.b, f.space[0], 10, 1, BUFFER_ACTIVATION, s->buffers[j].flags,
                                        builder_label(f.b, j == 0 ? "x" : "w"));
        }
        uint32_t y = r == 0 ? builder_buffer(f.b, f.space[0], 10, 1, BUFFER_ACTIVATION, 0, builder_label(f.b, "y")) : 0;
        for (uint32_t op = s->ranks[r].first_op; op < s->ranks[r].first_op + s->ranks[r].op_count; op++) {
            const struct sched_op *o = &s->ops[op];
            builder_op(f.b, (enum opcode)o->opcode, o->queue, o->work, (enum op_phase)o->phase);
            if (o->match != SCHED_NONE) {
                builder_set_match(f.b, o->match);
            }
            for (uint32_t j = 0; j < o->dependency_count; j++) {
                builder_depends(f.b, s->dependencies[o->first_dependency + j]);
            }
            if (op == 0) {
                builder_acquire(f.b, buffers[0]);
            }
            if (op == 4) {
                builder_release(f.b, buffers[0]);
            }
            if (r == 0 && op == acquirer) {
                builder_acquire(f.b, y);
            }
            if (r == 0 && op == user) {
                builder_read(f.b, y);
            }
            if (r == 0 && op == releaser) {
                builder_release(f.b, y);
            }
        }
    }
    finish(&f, t);
}

/* A buffer of rank 0: acquired by `acquirer`, used by `user`, released by `releaser`, each an op number of right()'s rank 0. */
static void test_partial_order(void)
{
    static const struct {
        uint32_t acquirer, user, releaser;
        const char *message; /* NULL: right */
    } cases[] = {
        { 0, 1, 4, NULL },
        { 0, 3, 4, NULL }, /* 3 waits for 1, 1 for 0 */
        { 1, 2, 4, NULL }, /* through rank 1: 2 is the answer to 1 */
        { 1, 3, 4, NULL },
        { 2, 3, 4, NULL }, /* 8 waits for 7, the other half of 2 */
        { 0, 0, 2, NULL }, /* 0 before 1, whose answer is 2 */
        { 0, 1, 3, NULL },
        { 1, 1, 1, NULL },
        { 3, 2, 4,
          "op 2, recv pipeline_comm (stage 0, in): reads buffer 2 \"y\", but nothing makes it wait for its "
          "acquisition by op 3, all_reduce data_comm (stage 0, comm)" },
        { 0, 3, 2,
          "op 3, all_reduce data_comm (stage 0, comm): reads buffer 2 \"y\", but nothing makes its release wait: "
          "it is released by op 2, recv" },
        { 4, 4, 3, "releases buffer 2 \"y\", but nothing makes it wait for its acquisition by op 4" },
        { 2, 2, 0, "releases buffer 2 \"y\", but nothing makes it wait for its acquisition by op 2" },
        { 3, 4, 1, "releases buffer 2 \"y\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct schedule s, t;
        struct error error = { 0 };
        right(&s);
        rebuild(&s, cases[i].acquirer, cases[i].user, cases[i].releaser, &t);
        enum status status = sched_verify(&t, &error);
        bool fine = cases[i].message == NULL
                        ? status == STATUS_OK
                        : status == STATUS_BAD_SCHEDULE && strstr(error.message, cases[i].message) != NULL;
        if (!fine) {
            TEST_FAIL_("case %zu: %s, \"%s\"; expected \"%s\"", i, status_word(status), error.message,
                       cases[i].message == NULL ? "ok" : cases[i].message);
        }
        schedule_free(&s);
        schedule_free(&t);
    }
}

/* -- against a plain twin -- */

/* reach[a * n + b]: a has ended when b starts; by closure over all pairs. */
static bool *plain_order(const struct schedule *s)
{
    size_t n = s->op_count;
    bool *reach = calloc(n * n + 1, 1);
    for (uint32_t b = 0; b < n; b++) {
        for (uint32_t p = 0; p < n; p++) { /* causes of b's partners are causes of b */
            const struct sched_op *op = &s->ops[p];
            if (p != b && !(op->match != SCHED_NONE && op->match == s->ops[b].match)) {
                continue;
            }
            for (uint32_t j = 0; j < op->dependency_count; j++) {
                reach[s->dependencies[op->first_dependency + j] * n + b] = true;
            }
            for (uint32_t a = 0; a < p; a++) {
                bool waits =
                    (s->ops[a].flags & OP_FLAG_HOST_WAITS) != 0 && sched_op_rank(s, &s->ops[a]) == sched_op_rank(s, op);
                if (s->ops[a].queue == op->queue || waits) {
                    reach[a * n + b] = true;
                }
            }
        }
    }
    for (uint32_t a = 0; a < n; a++) { /* partners end together */
        for (uint32_t p = 0; p < n; p++) {
            for (uint32_t b = 0; p != a && s->ops[a].match != SCHED_NONE && s->ops[p].match == s->ops[a].match && b < n;
                 b++) {
                reach[a * n + b] = reach[a * n + b] || reach[p * n + b];
            }
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t a = 0; a < n; a++) {
            for (uint32_t b = 0; reach[a * n + k] && b < n; b++) {
                reach[a * n + b] = reach[a * n + b] || reach[k * n + b];
            }
        }
    }
    return reach;
}

static bool plain_lifetimes(const struct schedule *s, const bool *reach)
{
    size_t n = s->op_count;
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        uint32_t acquirer = SCHED_NONE, releaser = SCHED_NONE;
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t j = 0; j < s->ops[i].acquire_count; j++) {
                acquirer = sched_acquires(s, &s->ops[i])[j] == b ? i : acquirer;
            }
            for (uint32_t j = 0; j < s->ops[i].release_count; j++) {
                releaser = sched_releases(s, &s->ops[i])[j] == b ? i : releaser;
            }
        }
        for (uint32_t i = 0; i < n; i++) {
            const struct sched_op *op = &s->ops[i];
            uint32_t count = (uint32_t)op->acquire_count + op->release_count + op->read_count + op->write_count;
            for (uint32_t j = 0; j < count; j++) {
                if (s->operands[op->first_operand + j] != b) {
                    continue;
                }
                bool same_a = acquirer == i || (acquirer != SCHED_NONE && op->match != SCHED_NONE &&
                                                s->ops[acquirer].match == op->match);
                bool same_r = releaser == i || (releaser != SCHED_NONE && op->match != SCHED_NONE &&
                                                s->ops[releaser].match == op->match);
                if ((acquirer != SCHED_NONE && !same_a && !reach[acquirer * n + i]) ||
                    (releaser != SCHED_NONE && !same_r && !reach[i * n + releaser])) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* Move an operand to another buffer, or drop a dependency: often wrong, sometimes not; the twin says which. */
static void test_twin(void)
{
    uint64_t random = test_seed;
    unsigned good = 0, bad = 0;
    for (unsigned round = 0; round < 400; round++) {
        struct schedule_gen gen = { .ranks = 1 + round % 4, .events = 12 + round % 20, .devices_per_rank = 1 };
        struct schedule s;
        struct error error = { 0 };
        schedule_gen(&gen, test_random(&random), &s);
        for (unsigned changes = round % 3; changes > 0; changes--) {
            const struct sched_op *op = &s.ops[test_below(&random, s.op_count)];
            uint32_t uses = (uint32_t)op->read_count + op->write_count;
            if (uses > 0 && changes == 1) { /* a read or a write of another buffer */
                uint32_t at =
                    op->first_operand + op->acquire_count + op->release_count + (uint32_t)test_below(&random, uses);
                s.operands[at] = (uint32_t)test_below(&random, s.buffer_count);
            } else { /* a dependency moves back by one where that is allowed */
                for (uint32_t j = 0; j < op->dependency_count; j++) {
                    uint32_t *d = &s.dependencies[op->first_dependency + j];
                    uint32_t first = s.ranks[sched_op_rank(&s, op)].first_op;
                    if (*d > first && s.ops[*d - 1].queue != op->queue && (j == 0 || d[-1] < *d - 1)) {
                        --*d;
                    }
                }
            }
        }
        bool *reach = plain_order(&s);
        bool fine = plain_lifetimes(&s, reach);
        enum status status = sched_verify(&s, &error);
        if (status != (fine ? STATUS_OK : STATUS_BAD_SCHEDULE)) {
            TEST_FAIL_("round %u: %s \"%s\", the twin says %s", round, status_word(status), error.message,
                       fine ? "right" : "wrong");
        }
        good += fine;
        bad += !fine;
        free(reach);
        schedule_free(&s);
    }
    printf("twin: %u right, %u wrong\n", good, bad);
    EXPECT(good > 50 && bad > 50);
}

static void test_start(void)
{
    struct schedule s;
    right(&s);
    s.spaces[0].capacity_bytes = 19;
    expect_status(&s, STATUS_DOES_NOT_FIT,
                  "space 0 \"gpu 0\" holds 19 bytes, but the buffers live at the start need 20", __FILE__, __LINE__);
    s.spaces[0].capacity_bytes = 20;
    EXPECT_GOOD(&s);
    s.spaces[0].capacity_bytes = 1000;
    s.spaces[1].parent = 0; /* what is in a space is in its parent too */
    s.buffers[1].space = 1;
    s.spaces[0].capacity_bytes = 19;
    expect_status(&s, STATUS_DOES_NOT_FIT, "space 0", __FILE__, __LINE__);
    schedule_free(&s);
}

TEST_MAIN(TEST(test_fields), TEST(test_groups), TEST(test_missing_partner), TEST(test_collective_order),
          TEST(test_cycle), TEST(test_lifetimes), TEST(test_partial_order), TEST(test_twin), TEST(test_start))
