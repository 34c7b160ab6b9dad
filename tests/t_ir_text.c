/* Text and JSON forms: round trips, a golden text, and what the loaders refuse. */
#include "sim/base/file.h"
#include "sim/ir/schedule_text.h"
#include "sim/ir/verify.h"
#include "tests/schedule_gen.h"
#include "tests/test.h"

static bool same_hash(const struct schedule *a, const struct schedule *b)
{
    struct hash x = schedule_hash(a), y = schedule_hash(b);
    return x.a == y.a && x.b == y.b;
}

static void round_trip(const struct schedule *s, bool json)
{
    struct strbuf first = { 0 }, second = { 0 };
    struct schedule loaded = { 0 };
    struct error error = { 0 };
    char text[1500];
    (json ? schedule_print_json : schedule_print_text)(s, &first);
    EXPECT(!first.failed);
    enum status status =
        (json ? schedule_parse_json : schedule_parse_text)(&loaded, first.text, first.length, "round", &error);
    if (status != STATUS_OK) {
        TEST_FAIL_("%s", error_text(&error, text, sizeof text));
    } else {
        (json ? schedule_print_json : schedule_print_text)(&loaded, &second);
        EXPECT_INT(second.length, first.length);
        EXPECT(first.length == second.length && memcmp(first.text, second.text, first.length) == 0);
        EXPECT(same_hash(s, &loaded));
        EXPECT_INT(sched_verify(&loaded, &error), STATUS_OK);
    }
    schedule_free(&loaded);
    strbuf_free(&first);
    strbuf_free(&second);
}

static void test_round_trips(void)
{
    for (uint64_t i = 0; i < 60; i++) {
        struct schedule_gen gen = { .ranks = 1 + (uint32_t)(i % 4),
                                    .events = 5 + (uint32_t)i,
                                    .devices_per_rank = 1 + (uint32_t)(i % 5),
                                    .fixed_only = i % 7 == 0 };
        struct schedule s;
        schedule_gen(&gen, test_seed * 1000 + i, &s);
        round_trip(&s, false);
        round_trip(&s, true);
        schedule_free(&s);
    }
}

/* A gemm, a collective within it, a norm. */
static uint32_t golden_kernels(struct builder *b, uint32_t rank, uint32_t tensor)
{
    struct kernel gemm = { .kernel_class = KERNEL_GEMM,
                           .dtype = DTYPE_FP16,
                           .layout = GEMM_TN,
                           .launches = 1,
                           .batch = 1,
                           .m = 2048,
                           .n = 512 + rank,
                           .k = 1024,
                           .flops = 2147483648.0,
                           .bytes_read = 1e22 / 3,
                           .bytes_written = 0.1 };
    struct kernel norm = { .kernel_class = KERNEL_NORM, .flags = KERNEL_FLAG_CAUSAL, .launches = 2, .m = 1 };
    uint32_t reduce = builder_work_collective(b, tensor, 1 << 20, DTYPE_BF16);
    struct work_item items[] = { { builder_kernel(b, &gemm), ITEM_KERNEL, 1 },
                                 { reduce, ITEM_COLLECTIVE, OP_REDUCE_SCATTER },
                                 { builder_kernel(b, &norm), ITEM_KERNEL, 0 } };
    return builder_work_kernels(b, items, 3);
}

/* Two stages, two micro-batches, everything a reader should see once. */
static void golden_schedule(struct schedule *s)
{
    struct builder *b = builder_new();
    struct error error = { 0 };
    uint32_t devices[2][2] = { { 0, 1 }, { 2, 3 } };
    uint32_t forward_pairs[] = { 0, 2, 1, 3 };
    uint32_t host = builder_space(b, SPACE_HOST, 0, UINT64_MAX, SCHED_NONE, "server 0");
    uint32_t pair = builder_group(b, forward_pairs, 2, 2, "pipeline 0>1");
    uint32_t send = builder_work_transfer(b, 4096.5, false);
    uint32_t matches[2] = { builder_match(b, pair, 2), builder_match(b, pair, 2) };
    for (uint32_t r = 0; r < 2; r++) {
        uint32_t gpu = builder_space(b, SPACE_DEVICE, 2 * r, 80000000000, SCHED_NONE, r == 0 ? "gpu 0" : "gpu 2");
        uint32_t tensor = builder_group(b, devices[r], 2, 1, "tensor");
        uint32_t kernels = golden_kernels(b, r, tensor);
        builder_rank(b, devices[r], 2, r, r == 0 ? "stage 0" : "stage 1");
        uint32_t compute = builder_queue(b, QUEUE_COMPUTE, "compute");
        uint32_t wire = builder_queue(b, QUEUE_P2P, r == 0 ? "send" : "recv");
        uint32_t cpu = builder_queue(b, QUEUE_HOST, "cpu \"cores\"");
        builder_buffer(b, gpu, 1000, 1, BUFFER_WEIGHT, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END,
                       builder_label(b, "weights"));
        uint32_t moments = builder_buffer(b, host, 8000, 2, BUFFER_OPTIMIZER, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END,
                                          builder_label(b, "moments"));
        uint32_t last = SCHED_NONE;
        for (uint16_t m = 0; m < 2; m++) {
            uint32_t x = builder_buffer(b, gpu, 4096, 1, BUFFER_BOUNDARY, 0, builder_label(b, "boundary"));
            uint32_t op, got = SCHED_NONE;
            if (r == 1) {
                got = builder_op(b, OP_RECV, wire, send, PHASE_PIPELINE_COMM);
                builder_set_match(b, matches[m]);
                builder_tag(b, m, OP_TAG_NONE, OP_TAG_NONE);
                builder_acquire(b, x);
                builder_write(b, x);
            }
            op = last = builder_op(b, OP_COMPUTE, compute, kernels, PHASE_FORWARD);
            builder_tag(b, m, 0, (uint16_t)(3 * r));
            builder_flag(b, m == 0 ? OP_FLAG_STEP | OP_FLAG_MICRO_BATCH : OP_FLAG_MICRO_BATCH);
            builder_depends(b, got);
            if (r == 0) {
                builder_acquire(b, x);
                builder_write(b, x);
                builder_op(b, OP_SEND, wire, send, PHASE_PIPELINE_COMM);
                builder_set_match(b, matches[m]);
                builder_tag(b, m, OP_TAG_NONE, OP_TAG_NONE);
                builder_depends(b, op);
            }
            builder_read(b, x);
            builder_release(b, x);
        }
        builder_op(b, OP_HOST_OPTIMIZER, cpu, builder_work_host_optimizer(b, 500), PHASE_OPTIMIZER);
        builder_flag(b, OP_FLAG_HOST_WAITS);
        builder_depends(b, last);
        builder_write(b, moments);
    }
    EXPECT_INT(builder_finish(b, s, &error), STATUS_OK);
    s->gpu_count = 4;
    s->model_flops = 1e15;
    s->samples = 2;
    s->tokens = 4096;
}

static void test_golden(void)
{
    struct schedule s;
    struct error error = { 0 };
    struct strbuf text = { 0 };
    char *wanted = NULL;
    size_t length = 0;
    golden_schedule(&s);
    if (sched_verify(&s, &error) != STATUS_OK) {
        TEST_FAIL_("%s", error.message);
    }
    schedule_print_text(&s, &text);
    if (file_read("tests/golden/schedule.txt", 1 << 20, &wanted, &length, &error) != STATUS_OK) {
        TEST_FAIL_("%s; the text is\n%s", error.message, text.text);
    } else if (strcmp(wanted, text.text) != 0) {
        TEST_FAIL_("tests/golden/schedule.txt differs; the text is\n%s", text.text);
    }
    round_trip(&s, false);
    round_trip(&s, true);
    free(wanted);
    strbuf_free(&text);
    schedule_free(&s);
}

/* The golden text with one place changed must be refused with this message. */
static void refuse(const char *from, const char *to, const char *message)
{
    struct schedule s, loaded;
    struct strbuf text = { 0 }, changed = { 0 };
    struct error error = { 0 };
    char all[1500];
    golden_schedule(&s);
    schedule_print_text(&s, &text);
    char *place = strstr(text.text, from);
    if (place == NULL) {
        TEST_FAIL_("no \"%s\" in the golden text", from);
    } else {
        strbuf_append_n(&changed, text.text, (size_t)(place - text.text));
        strbuf_append(&changed, to);
        strbuf_append(&changed, place + strlen(from));
        enum status status = schedule_parse_text(&loaded, changed.text, changed.length, "f.txt", &error);
        error_text(&error, all, sizeof all);
        if (status != STATUS_BAD_INPUT || strstr(all, message) == NULL) {
            TEST_FAIL_("\"%s\" to \"%s\": status %d, \"%s\", expected \"%s\"", from, to, status, all, message);
        }
        schedule_free(&loaded);
    }
    schedule_free(&s);
    strbuf_free(&text);
    strbuf_free(&changed);
}

static void test_refusals(void)
{
    refuse("schedule/1", "schedule/2", "f.txt: line 1: expected \"memwall.schedule/1\", found \"memwall.schedule/2\"");
    refuse("gpus 4", "gpus -4", "line 2: expected an integer from 0 to 4294967295, found \"-4\"");
    refuse("samples 2", "samples nan", "expected a finite number from 0, found \"nan\"");
    refuse("samples 2", "samples 1e999", "expected a finite number from 0, found \"1e999\"");
    refuse("tokens 4096", "tokens 4096 x", "expected the end of the line, found \"x\"");
    refuse("space s0 host", "space s0 hast", "expected one of device, host, pinned, storage, found \"hast\"");
    refuse("space s1", "space s2", "number 2 stands where number 1 follows");
    refuse("capacity 80000000000", "capacity 9007199254740992", "expected an integer from 0 to 9007199254740991");
    refuse("capacity unlimited", "capacity unlimited parent s7", "parent space 7 is not among the 0 spaces before");
    refuse("instances 2", "instances 3", "4 members do not make 3 equal instances");
    refuse("instances 2", "instances 0", "4 members do not make 0 equal instances");
    refuse("members 0 2 1 3", "members 0 2 1 1048576", "expected device numbers or first..last, found \"1048576\"");
    refuse("members 0 2 1 3", "members 5..3", "expected device numbers or first..last, found \"5..3\"");
    refuse("launches 1", "launches 0", "a kernel has at least one launch");
    refuse("gemm fp16 tn", "gemm fp16 tt", "expected one of nn, tn, nt, found \"tt\"");
    refuse("k0/1", "k9/1", "kernel 9 is not among");
    refuse("k0/1 w1", "k0/1 w0", "work 0 is not a collective before");
    refuse("w1/reduce_scatter", "w1",
           "expected k and a number, perhaps with /passes, or w (b: beside the next kernel) and a number with /opcode, "
           "found \"w1\"");
    refuse("w1/reduce_scatter", "w1/send", "send is not a collective");
    refuse("work w0 transfer bytes 4096.5", "work w0 none", "a work cannot be of this kind");
    refuse("match m1 g0 ops 2", "match m1 g0 ops 0", "a match has at least one op");
    refuse("copies 2", "copies 0", "a buffer has at least one copy");
    refuse("acquire b2", "acquire b77", "buffer 77 is not among the 8 buffers before");
    refuse("after 0", "after 1", "op 1 cannot be waited for; these are earlier ops of the rank, rising, each once");
    refuse("flags micro_batch step", "flags", "expected a flag, found \"acquire\"");
    refuse("mb 0", "mb 65535", "expected an integer from 0 to 65534, found \"65535\"");
    refuse("mb 0", "mb 00", "expected an integer from 0 to 65534, found \"00\"");
    refuse("q1 send", "q5 send", "queue 5 is not one of the rank's, 0 to 3");
    refuse("\"cpu \\\"cores\\\"\"", "\"cpu", "expected a quoted label, found \"\"cpu\"");
    refuse("\"cpu \\\"cores\\\"\"", "\"\\q\"", "an escape in a label that is none of");
    refuse("\"cpu \\\"cores\\\"\"", "\"\\u0000\"", "an escape in a label that is none of");
    refuse("end 10 ops", "end 11 ops", "the schedule ends with 11 ops, 10 were read");
    refuse("end 10 ops\n", "", "the schedule has no end line: it is cut off");
    refuse("end 10 ops\n", "end 10 ops\nqueue", "expected nothing after the end, found \"queue\"");
    refuse("\nrank 0", "\nrankle 0", "expected step, space, group");
}

static void refuse_json(const char *from, const char *to, const char *message)
{
    struct schedule s, loaded;
    struct strbuf text = { 0 }, changed = { 0 };
    struct error error = { 0 };
    char all[1500];
    golden_schedule(&s);
    schedule_print_json(&s, &text);
    char *place = strstr(text.text, from);
    if (place == NULL) {
        TEST_FAIL_("no \"%s\" in the golden JSON", from);
    } else {
        strbuf_append_n(&changed, text.text, (size_t)(place - text.text));
        strbuf_append(&changed, to);
        strbuf_append(&changed, place + strlen(from));
        enum status status = schedule_parse_json(&loaded, changed.text, changed.length, "f.json", &error);
        error_text(&error, all, sizeof all);
        if (status != STATUS_BAD_INPUT || strstr(all, message) == NULL) {
            TEST_FAIL_("\"%s\" to \"%s\": status %d, \"%s\", expected \"%s\"", from, to, status, all, message);
        }
        schedule_free(&loaded);
    }
    schedule_free(&s);
    strbuf_free(&text);
    strbuf_free(&changed);
}

static void test_json_refusals(void)
{
    refuse_json("schedule/1", "schedule/2",
                "\"memwall.schedule/2\" is a schedule of another memwall: this one reads \"memwall.schedule/1\"");
    refuse_json("\"gpu_count\": 4", "\"gpu_count\": 4.5", "$.gpu_count");
    refuse_json("\"gpu_count\"", "\"gpu_cuont\"", "gpu_count");
    refuse_json("\"capacity_bytes\":80000000000", "\"capacity_bytes\":9007199254740992", "$.spaces[1].capacity_bytes");
    refuse_json("\"members\":[0,2,1,3]", "\"members\":[0,2,1,1e30]", "$.groups[0].members[3]");
    refuse_json("\"members\":[0,2,1,3]", "\"members\":[]", "a list of devices is empty");
    refuse_json("\"op\":\"compute\"", "\"op\":\"compote\"", "$.ranks[0].ops[0].op");
    refuse_json("\"flags\":[\"micro_batch\",\"step\"]", "\"flags\":[\"step\",\"micro_batch\"]", "out of order");
    refuse_json("\"after\":[0]", "\"after\":[1]", "op 1 cannot be waited for");
    refuse_json("\"acquire\":[2]", "\"acquire\":[\"2\"]", "$.ranks[0].ops[0].acquire[0]");
    refuse_json("{\"kernel\":0,\"passes\":1}", "{\"kernel\":0,\"collective\":1,\"op\":\"all_reduce\"}", "kernel");
    refuse_json("\"op\":\"reduce_scatter\"", "\"op\":\"recv\"", "recv is not a collective");
    refuse_json("{\"kernel\":0,\"passes\":1}", "7", "$.works");
    refuse_json("\"fp16\",\"layout\":\"tn\"", "\"fp16\"", "layout");
}

TEST_MAIN(TEST(test_round_trips), TEST(test_golden), TEST(test_refusals), TEST(test_json_refusals))
