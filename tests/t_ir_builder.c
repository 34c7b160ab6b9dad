/* The builder: sharing, layout, sticky errors; names; the hash. */
#include <time.h>

#include "sim/ir/verify.h"
#include "tests/schedule_gen.h"
#include "tests/test.h"

static struct builder *small(uint32_t *queue, uint32_t *other, uint32_t *space)
{
    struct builder *b = builder_new();
    uint32_t device = 0;
    *space = builder_space(b, SPACE_DEVICE, 0, 1000, SCHED_NONE, "gpu 0");
    builder_rank(b, &device, 1, 0, "stage 0");
    *queue = builder_queue(b, QUEUE_COMPUTE, "compute");
    *other = builder_queue(b, QUEUE_H2D, "h2d");
    return b;
}

static void test_sharing(void)
{
    uint32_t q, h, space;
    struct builder *b = small(&q, &h, &space);
    struct kernel k = { .kernel_class = KERNEL_GEMM, .launches = 1, .batch = 1, .m = 2, .n = 3, .k = 4, .flops = 48 };
    uint32_t k0 = builder_kernel(b, &k), k1 = (k.m = 5, builder_kernel(b, &k));
    k.m = 2;
    EXPECT(k0 != k1);
    EXPECT_INT(builder_kernel(b, &k), k0);
    struct work_item items[] = { { k0, ITEM_KERNEL, 1 }, { k1, ITEM_KERNEL, 0 } };
    uint32_t w0 = builder_work_kernels(b, items, 2), w1 = builder_work_kernels(b, items, 1);
    EXPECT(w0 != w1);
    EXPECT_INT(builder_work_kernels(b, items, 2), w0);
    EXPECT_INT(builder_work_transfer(b, 0.0, false), builder_work_transfer(b, -0.0, false));
    EXPECT(builder_work_transfer(b, 1, false) != builder_work_transfer(b, 1, true));
    uint32_t members[] = { 0, 1, 2, 3 };
    uint32_t g0 = builder_group(b, members, 4, 1, "g"), g1 = builder_group(b, members, 2, 2, "g");
    EXPECT(g0 != g1);
    EXPECT_INT(builder_group(b, members, 4, 1, "g"), g0);
    EXPECT(builder_group(b, members, 4, 1, "other") != g0);
    EXPECT_INT(builder_label(b, ""), 0);
    EXPECT_INT(builder_label(b, "compute"), builder_label_format(b, "%spute", "com"));
    /* Many, so that the tables grow. */
    uint32_t first = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t w = builder_work_fixed(b, (int64_t)i);
        first = i == 0 ? w : first;
        EXPECT_INT(w, first + i);
    }
    for (uint32_t i = 0; i < 1000; i++) {
        EXPECT_INT(builder_work_fixed(b, (int64_t)i), first + i);
    }
    builder_free(b);
}

static void test_layout(void)
{
    uint32_t q, h, space;
    struct builder *b = small(&q, &h, &space);
    struct schedule s;
    struct error error = { 0 };
    uint32_t x = builder_buffer(b, space, 10, 1, BUFFER_ACTIVATION, 0, builder_label(b, "x"));
    uint32_t y = builder_buffer(b, space, 20, 1, BUFFER_ACTIVATION, 0, builder_label(b, "y"));
    uint32_t copy = builder_work_transfer(b, 10, false);
    uint32_t a = builder_op(b, OP_COPY_H2D, h, copy, PHASE_OFFLOAD);
    builder_write(b, x);
    builder_acquire(b, x);
    uint32_t c = builder_op(b, OP_COPY_H2D, h, copy, PHASE_OFFLOAD);
    builder_acquire(b, y);
    builder_depends(b, a); /* same queue: dropped */
    uint32_t d = builder_op(b, OP_DELAY, q, builder_work_fixed(b, 5), PHASE_FORWARD);
    builder_tag(b, 3, 1, 7);
    builder_depends(b, c);
    builder_depends(b, SCHED_NONE);
    builder_depends(b, a);
    builder_depends(b, c); /* twice: once */
    builder_read(b, x);
    builder_op(b, OP_MARK, q, SCHED_NONE, PHASE_OTHER);
    builder_release_at(b, d, y);
    builder_release_at(b, d, x);
    EXPECT_INT(builder_op_count(b), 4);
    EXPECT_INT(builder_finish(b, &s, &error), STATUS_OK);
    EXPECT_INT(s.op_count, 4);
    EXPECT_INT(s.operand_count, 6);
    EXPECT_INT(s.dependency_count, 2);
    EXPECT_INT(s.ops[0].acquire_count, 1);
    EXPECT_INT(sched_acquires(&s, &s.ops[0])[0], x);
    EXPECT_INT(sched_writes(&s, &s.ops[0])[0], x);
    EXPECT_INT(s.ops[1].dependency_count, 0);
    EXPECT_INT(s.ops[d].dependency_count, 2);
    EXPECT_INT(s.dependencies[s.ops[d].first_dependency], a);
    EXPECT_INT(s.dependencies[s.ops[d].first_dependency + 1], c);
    EXPECT_INT(sched_releases(&s, &s.ops[d])[0], y);
    EXPECT_INT(sched_releases(&s, &s.ops[d])[1], x);
    EXPECT_INT(sched_reads(&s, &s.ops[d])[0], x);
    EXPECT_INT(sched_op_rank(&s, &s.ops[d]), 0);
    char text[128], tiny[8];
    EXPECT_TEXT(sched_op_text(&s, d, text, sizeof text), "forward mb 3 chunk 1 layer 7 (stage 0, compute)");
    EXPECT_TEXT(sched_op_text(&s, a, text, sizeof text), "copy_h2d offload (stage 0, h2d)");
    EXPECT_TEXT(sched_op_text(&s, 3, text, sizeof text), "mark (stage 0, compute)");
    EXPECT_TEXT(sched_op_text(&s, d, tiny, sizeof tiny), "forward");
    EXPECT_INT(sched_verify(&s, &error), STATUS_OK);
    schedule_free(&s);
}

static void test_errors(void)
{
    uint32_t q, h, space;
    struct schedule s;
    struct error error = { 0 };
    struct builder *b = small(&q, &h, &space);
    builder_work_transfer(b, INFINITY, false);
    builder_work_fixed(b, -1); /* the first error stays */
    EXPECT_INT(builder_op(b, OP_MARK, 12345, 77, PHASE_OTHER), 0);
    builder_acquire(b, 99);
    EXPECT_INT(builder_finish(b, &s, &error), STATUS_LIMIT);
    EXPECT_PART(error.message, "bytes of a work must be a finite number from 0, found inf");
    EXPECT_INT(s.op_count, 0);

    b = small(&q, &h, &space);
    uint32_t x = builder_buffer(b, space, 1, 1, BUFFER_WORKSPACE, 0, 0);
    builder_op(b, OP_MARK, q, SCHED_NONE, PHASE_OTHER);
    for (unsigned i = 0; i < 70000; i++) {
        builder_read(b, x);
    }
    EXPECT_INT(builder_finish(b, &s, &error), STATUS_LIMIT);
    EXPECT_PART(error.message, "at most 65535 operands");

    b = small(&q, &h, &space);
    builder_buffer(b, space, UINT64_C(1) << 53, 1, BUFFER_WORKSPACE, 0, builder_label(b, "huge"));
    EXPECT_INT(builder_finish(b, &s, &error), STATUS_LIMIT);
    EXPECT_PART(error.message, "buffer \"huge\" has 2^53 bytes or more");
    builder_free(NULL);
}

/* Every record takes part in the hash; label offsets do not, label texts do. */
static void test_hash(void)
{
    struct schedule_gen gen = { .ranks = 3, .events = 40, .devices_per_rank = 2 };
    struct schedule s, again;
    schedule_gen(&gen, test_seed, &s);
    schedule_gen(&gen, test_seed, &again);
    struct hash h = schedule_hash(&s), same = schedule_hash(&again);
    EXPECT(h.a == same.a && h.b == same.b);
#define CHANGES(place)                                                                                                 \
    do {                                                                                                               \
        (place)++;                                                                                                     \
        struct hash now_ = schedule_hash(&s);                                                                          \
        (place)--;                                                                                                     \
        EXPECT(now_.a != h.a && now_.b != h.b);                                                                        \
    } while (0)
    CHANGES(s.ranks[1].stage);
    CHANGES(s.queues[2].queue_class);
    CHANGES(s.spaces[1].location);
    CHANGES(s.spaces[1].exact_blocks);
    CHANGES(s.buffers[5].bytes);
    CHANGES(s.buffers[5].flags);
    CHANGES(s.buffers[5].copies);
    CHANGES(s.ops[7].layer);
    CHANGES(s.ops[s.op_count - 1].flags);
    CHANGES(s.works[0].dtype);
    CHANGES(s.work_items[0].passes);
    CHANGES(s.kernels[0].m);
    CHANGES(s.groups[0].instance_count);
    CHANGES(s.matches[0].op_count);
    CHANGES(s.devices[1]);
    CHANGES(s.group_members[1]);
    CHANGES(s.operands[s.operand_count - 1]);
    CHANGES(s.dependencies[0]);
    CHANGES(s.model_flops);
    CHANGES(s.samples);
    CHANGES(s.tokens);
    CHANGES(s.gpu_count);
    CHANGES(s.text[s.buffers[5].label]);
    CHANGES(s.text[s.queues[0].label]);
#undef CHANGES
    /* The same text at another offset. */
    char *text = malloc(2 * (size_t)s.text_bytes), *old = s.text;
    memcpy(text, s.text, s.text_bytes);
    memcpy(text + s.text_bytes, s.text, s.text_bytes);
    s.text = text;
    s.buffers[5].label += s.text_bytes;
    s.text_bytes *= 2;
    same = schedule_hash(&s);
    EXPECT(h.a == same.a && h.b == same.b);
    s.text = old;
    free(text);
    schedule_free(&s);
    schedule_free(&again);
}

static void test_random_are_valid(void)
{
    for (uint64_t i = 0; i < 200; i++) {
        struct schedule_gen gen = { .ranks = 1 + (uint32_t)(i % 5),
                                    .events = 10 + (uint32_t)i,
                                    .devices_per_rank = 1 + (uint32_t)(i % 3),
                                    .fixed_only = i % 4 == 0 };
        struct schedule s;
        struct error error = { 0 };
        schedule_gen(&gen, test_seed + i, &s);
        if (sched_verify(&s, &error) != STATUS_OK) {
            TEST_FAIL_("seed %" PRIu64 ": %s", test_seed + i, error.message);
        }
        schedule_free(&s);
    }
}

/* Releases decided later give the same schedule as releases known at once; many operands of an op keep their order. */
static void test_late_releases(void)
{
    for (uint64_t round = 0; round < 50; round++) {
        struct schedule made[2];
        for (unsigned late = 0; late < 2; late++) {
            uint64_t random = test_seed + round;
            uint32_t q, h, space, count = 20, waiting[20], of[20], waiting_count = 0;
            struct builder *b = small(&q, &h, &space);
            struct error error = { 0 };
            for (uint32_t i = 0; i < count; i++) {
                uint32_t x = builder_buffer(b, space, 10 + i, 1, BUFFER_WORKSPACE, 0, 0);
                uint32_t op = builder_op(b, OP_MARK, q, SCHED_NONE, PHASE_OTHER);
                uint32_t uses = (uint32_t)test_below(&random, round % 10 == 0 ? 200 : 5);
                for (uint32_t j = 0; j < uses; j++) {
                    uint32_t other = (uint32_t)test_below(&random, x + 1);
                    if (test_below(&random, 2) == 0) {
                        builder_read(b, other);
                    } else {
                        builder_write(b, other);
                    }
                }
                builder_acquire(b, x);
                if (late == 0) {
                    builder_release(b, x);
                } else {
                    waiting[waiting_count] = x;
                    of[waiting_count++] = op;
                }
                while (waiting_count > 0 && (i + 1 == count || test_below(&random, 2) == 0)) {
                    waiting_count--;
                    builder_release_at(b, of[waiting_count], waiting[waiting_count]);
                }
                random = test_seed + round * 1000 + i; /* in step again, however many numbers the releases took */
            }
            EXPECT_INT(builder_finish(b, &made[late], &error), STATUS_OK);
        }
        struct hash x = schedule_hash(&made[0]), y = schedule_hash(&made[1]);
        EXPECT(x.a == y.a && x.b == y.b);
        EXPECT_INT(made[1].operand_count, made[0].operand_count);
        schedule_free(&made[0]);
        schedule_free(&made[1]);
    }
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Figures, not asserts: what a large schedule costs. */
static void test_speed(void)
{
    struct schedule_gen gen = { .ranks = 8, .events = 3000, .devices_per_rank = 8 };
    struct schedule s;
    struct error error = { 0 };
    double t0 = seconds();
    struct builder *b = schedule_gen_builder(&gen, 7);
    double t1 = seconds();
    EXPECT_INT(builder_finish(b, &s, &error), STATUS_OK);
    double t2 = seconds();
    EXPECT_INT(sched_verify(&s, &error), STATUS_OK);
    double t3 = seconds();
    struct hash hash = schedule_hash(&s);
    double t4 = seconds(), n = 1e9 / s.op_count;
    char text[HASH_TEXT_BYTES];
    printf(
        "%u ops %u operands %u dependencies: generate+append %.0f, finish %.0f, verify %.0f, hash %.0f ns an op (%s)\n",
        s.op_count, s.operand_count, s.dependency_count, (t1 - t0) * n, (t2 - t1) * n, (t3 - t2) * n, (t4 - t3) * n,
        hash_text(&hash, text));
    schedule_free(&s);
}

TEST_MAIN(TEST(test_sharing), TEST(test_layout), TEST(test_errors), TEST(test_hash), TEST(test_random_are_valid),
          TEST(test_late_releases), TEST(test_speed))
