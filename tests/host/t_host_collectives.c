/* Collectives between threads: every kind and dtype for two to five members and odd sizes, buffers in pieces, in place; called off. And views, meetings, sleeps. */
#include <pthread.h>

#include "tests/test.h"
#include "validate/dispatch/dispatch.h"
#include "validate/exec_host/host_collectives.h"
#include "validate/exec_host/host_floats.h"

enum { MEMBERS = 5, BYTES_MAX = 20000, SPANS = 8 };

static uint64_t stream;

struct setup {
    struct host_collective collective;
    struct host_member members[MEMBERS];
    struct host_meeting meeting;
    struct host_cancel cancel;
    uint8_t in[MEMBERS][BYTES_MAX], out[MEMBERS][BYTES_MAX];
    struct host_span spans[MEMBERS][2 * SPANS];
    bool done[MEMBERS];
};

struct member_thread {
    pthread_t thread;
    struct setup *setup;
    uint32_t index;
};

static void *member_main(void *argument)
{
    const struct member_thread *me = argument;
    me->setup->done[me->index] = host_collective_run(&me->setup->collective, me->index);
    return NULL;
}

static void run_members(struct setup *s, uint32_t count)
{
    struct member_thread threads[MEMBERS];
    for (uint32_t i = 0; i < count; i++) {
        threads[i] = (struct member_thread){ .setup = s, .index = i };
        EXPECT_INT(pthread_create(&threads[i].thread, NULL, member_main, &threads[i]), 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        EXPECT_INT(pthread_join(threads[i].thread, NULL), 0);
    }
}

/* The bytes in a few pieces of random length, whole numbers each, that lie one behind the other. */
static struct host_view in_pieces(struct host_span *spans, uint8_t *data, uint64_t bytes, uint64_t element)
{
    struct host_view view = { .spans = spans };
    uint64_t at = 0;
    while (at < bytes) {
        uint64_t n = view.count + 1 == SPANS ? bytes - at : element * (1 + test_below(&stream, bytes / element));
        n = n < bytes - at ? n : bytes - at;
        host_view_add(&view, data + at, n, SCHED_NONE);
        at += n;
    }
    return view;
}

static float number(uint32_t member, uint64_t element)
{
    return (float)((int)((element * 11 + member * UINT64_C(5)) % 7) - 3);
}

/* What number `e` of member `index`'s result is, given that each has `elements` as input. */
static float expected(enum opcode opcode, uint32_t members, uint32_t index, uint64_t elements, uint64_t e)
{
    float sum = 0;
    uint64_t part = elements / members;
    switch ((unsigned)opcode) {
    case OP_ALL_GATHER: return number((uint32_t)(e / elements), e % elements);
    case OP_BROADCAST: return number(0, e);
    case OP_ALL_TO_ALL: return number((uint32_t)(e / part), index * part + e % part);
    default: break;
    }
    for (uint32_t i = 0; i < members; i++) {
        sum += number(i, opcode == OP_REDUCE_SCATTER ? index * part + e : e);
    }
    return sum;
}

static void one_collective(enum opcode opcode, enum dtype dtype, uint32_t members, uint64_t bytes, bool in_place)
{
    static struct setup s;
    static uint8_t wanted[BYTES_MAX];
    static float numbers[BYTES_MAX];
    uint64_t in = host_collective_in_bytes(opcode, bytes, members, dtype), element = dtype_bytes(dtype);
    uint64_t out = host_collective_out_bytes(opcode, bytes, members, dtype);
    s = (struct setup){ .meeting.expected = members };
    s.collective = (struct host_collective){ opcode, dtype, bytes, s.members, members, &s.meeting, &s.cancel };
    memset(s.out, 0xEE, sizeof s.out);
    for (uint32_t i = 0; i < members; i++) {
        struct host_member *m = &s.members[i];
        uint8_t *from = in_place ? s.out[i] : s.in[i];
        m->out = in_pieces(s.spans[i], s.out[i], out > in || !in_place ? out : in, element);
        m->in = in_place ? m->out : in_pieces(s.spans[i] + SPANS, from, in, element);
        m->rest = m->out;
        m->in_offset = in_place && opcode == OP_ALL_GATHER ? i * in : 0;
        m->out_offset = in_place && opcode == OP_REDUCE_SCATTER ? i * out : 0;
        for (uint64_t e = 0; e < in / element; e++) {
            numbers[e] = number(i, e);
        }
        host_floats_store(from + m->in_offset, numbers, dtype, in / element);
    }
    run_members(&s, members);
    for (uint32_t i = 0; i < members; i++) {
        for (uint64_t e = 0; e < out / element; e++) {
            numbers[e] = expected(opcode, members, i, in / element, e);
        }
        host_floats_store(wanted, numbers, dtype, out / element);
        EXPECT(s.done[i]);
        EXPECT_INT(memcmp(s.out[i] + s.members[i].out_offset, wanted, out), 0);
        if (!in_place && out < BYTES_MAX) {
            EXPECT_INT(s.out[i][out], 0xEE); /* not a byte too far */
        }
    }
}

static void test_kinds(void)
{
    static const enum opcode kinds[] = { OP_ALL_REDUCE, OP_ALL_GATHER, OP_REDUCE_SCATTER, OP_BROADCAST, OP_ALL_TO_ALL };
    static const uint64_t sizes[] = { 1, 3, 64, 1237, 4999 };
    stream = test_seed;
    for (uint32_t k = 0; k < 5; k++) {
        for (uint32_t members = 1; members <= MEMBERS; members++) {
            for (uint32_t i = 0; i < 5; i++) {
                enum dtype dtype = (enum dtype)((k + members + i) % DTYPE_COUNT);
                one_collective(kinds[k], dtype, members, sizes[i], false);
                if (kinds[k] != OP_ALL_TO_ALL) {
                    one_collective(kinds[k], dtype, members, sizes[i], true);
                }
            }
        }
    }
    for (uint32_t d = 0; d < DTYPE_COUNT; d++) {
        one_collective(OP_ALL_REDUCE, (enum dtype)d, 3, 4097, false);
        one_collective(OP_REDUCE_SCATTER, (enum dtype)d, 4, 4097, true);
    }
}

static void test_sizes(void)
{
    /* As nccl-tests counts: whole shards of whole numbers. */
    EXPECT_INT(host_collective_in_bytes(OP_ALL_GATHER, 100, 3, DTYPE_FP32), 36);
    EXPECT_INT(host_collective_out_bytes(OP_ALL_GATHER, 100, 3, DTYPE_FP32), 108);
    EXPECT_INT(host_collective_in_bytes(OP_REDUCE_SCATTER, 96, 3, DTYPE_FP16), 96);
    EXPECT_INT(host_collective_out_bytes(OP_REDUCE_SCATTER, 96, 3, DTYPE_FP16), 32);
    EXPECT_INT(host_collective_in_bytes(OP_ALL_REDUCE, 7, 3, DTYPE_FP16), 8);
    EXPECT_INT(host_collective_out_bytes(OP_BROADCAST, 7, 3, DTYPE_FP8), 7);
}

/* A slab shorter than the buffer: read and written round and round, without a data race (the thread sanitizer looks), by all kinds. */
static void test_short_slabs(void)
{
    static struct setup s;
    static uint8_t rest[MEMBERS][256];
    static const enum opcode kinds[] = { OP_ALL_REDUCE, OP_ALL_GATHER, OP_REDUCE_SCATTER, OP_BROADCAST, OP_ALL_TO_ALL };
    static struct host_span rest_spans[MEMBERS];
    for (uint32_t k = 0; k < 5; k++) {
        s = (struct setup){ .meeting.expected = 3 };
        s.collective = (struct host_collective){ kinds[k], DTYPE_FP32, 6000, s.members, 3, &s.meeting, &s.cancel };
        for (uint32_t i = 0; i < 3; i++) {
            struct host_member *m = &s.members[i];
            m->in.spans = s.spans[i];
            m->out.spans = s.spans[i] + SPANS;
            m->rest.spans = &rest_spans[i];
            host_view_add(&m->in, s.in[i], 256, SCHED_NONE);
            host_view_add(&m->out, s.out[i], 256, SCHED_NONE);
            host_view_add(&m->rest, rest[i], 256, SCHED_NONE);
        }
        run_members(&s, 3);
        EXPECT(s.done[0] && s.done[1] && s.done[2]);
    }
}

static void test_called_off(void)
{
    static struct setup s;
    s = (struct setup){ .meeting.expected = 3 };
    s.collective = (struct host_collective){ OP_ALL_REDUCE, DTYPE_FP32, 64, s.members, 3, &s.meeting, &s.cancel };
    struct member_thread threads[2];
    for (uint32_t i = 0; i < 2; i++) { /* the third never comes */
        threads[i] = (struct member_thread){ .setup = &s, .index = i };
        EXPECT_INT(pthread_create(&threads[i].thread, NULL, member_main, &threads[i]), 0);
    }
    (void)host_sleep_until(dispatch_clock_ps() + 5000000000, &s.cancel);
    host_cancel_raise(&s.cancel);
    host_meeting_wake(&s.meeting);
    for (uint32_t i = 0; i < 2; i++) {
        EXPECT_INT(pthread_join(threads[i].thread, NULL), 0);
        EXPECT(!s.done[i]);
    }
}

/* ---- views, clocks ---- */

static void test_view_copy(void)
{
    static uint8_t from[3000], to[3000], twin[3000];
    struct host_cancel cancel = { 0 };
    stream = test_seed;
    for (uint32_t round = 0; round < 200; round++) {
        struct host_span spans[2][SPANS];
        uint64_t from_bytes = 1 + test_below(&stream, sizeof from), to_bytes = 1 + test_below(&stream, sizeof to);
        uint64_t bytes = test_below(&stream, 9000);
        for (uint32_t i = 0; i < sizeof from; i++) {
            from[i] = (uint8_t)test_random(&stream);
        }
        memset(to, 0, sizeof to);
        memset(twin, 0, sizeof twin);
        for (uint64_t i = 0; i < bytes; i++) {
            twin[i % to_bytes] = from[i % from_bytes];
        }
        struct host_view source = in_pieces(spans[0], from, from_bytes, 1);
        struct host_view target = in_pieces(spans[1], to, to_bytes, 1);
        EXPECT(host_view_copy(&target, &source, bytes, &cancel));
        EXPECT_INT(memcmp(to, twin, sizeof to), 0);
    }
}

static void *raise_soon(void *cancel)
{
    struct host_cancel never = { 0 };
    (void)host_sleep_until(dispatch_clock_ps() + 20000000000, &never);
    host_cancel_raise(cancel);
    return NULL;
}

static void test_sleep(void)
{
    struct host_cancel cancel = { 0 };
    int64_t start_ps = dispatch_clock_ps();
    EXPECT(host_sleep_until(start_ps + 3000000000, &cancel)); /* 3 ms */
    EXPECT(dispatch_clock_ps() - start_ps >= 3000000000);
    EXPECT(host_sleep_until(start_ps, &cancel)); /* past */
    pthread_t thread;
    EXPECT_INT(pthread_create(&thread, NULL, raise_soon, &cancel), 0);
    EXPECT(!host_sleep_until(start_ps + INT64_C(100000000000000), &cancel)); /* 100 s, called off after 20 ms */
    EXPECT(dispatch_clock_ps() - start_ps < INT64_C(50000000000000));
    EXPECT_INT(pthread_join(thread, NULL), 0);
}

TEST_MAIN(TEST(test_kinds), TEST(test_sizes), TEST(test_short_slabs), TEST(test_called_off), TEST(test_view_copy),
          TEST(test_sleep))
