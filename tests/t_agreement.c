/* Agreement of timelines: exact figures of hand-made ones, what is refused, the simulator against itself. */
#include "validate/agreement.h"

#include "sim/base/json.h"
#include "sim/ir/builder.h"
#include "tests/report_run.h"

enum { OPS_MAX = 16, SPACES = 2 };

/* Ops on one queue: delays, and a mark in front of them. `steps`: bits of the ops with which a step begins. */
static struct schedule delays_of_steps(uint32_t count, int64_t fixed_ps, uint32_t steps)
{
    struct error error = { 0 };
    struct schedule schedule = { 0 };
    struct builder *b = builder_new();
    const uint32_t device = 0;
    builder_space(b, SPACE_DEVICE, 0, 1000, SCHED_NONE, "gpu 0");
    builder_space(b, SPACE_HOST, 0, 1000, SCHED_NONE, "host 0");
    builder_rank(b, &device, 1, 0, "stage 0");
    uint32_t queue = builder_queue(b, QUEUE_COMPUTE, "compute");
    for (uint32_t i = 0; i <= count; i++) {
        if (i == 0) {
            builder_op(b, OP_MARK, queue, SCHED_NONE, PHASE_OTHER);
        } else {
            builder_op(b, OP_DELAY, queue, builder_work_fixed(b, fixed_ps),
                       i % 2 != 0 ? PHASE_FORWARD : PHASE_BACKWARD);
        }
        builder_flag(b, (steps >> i & 1) != 0 ? OP_FLAG_STEP : 0);
    }
    EXPECT_INT(builder_finish(b, &schedule, &error), STATUS_OK);
    return schedule;
}

static struct schedule delays(uint32_t count, int64_t fixed_ps)
{
    return delays_of_steps(count, fixed_ps, 0);
}

/* A timeline of them: the mark takes no time, delay i takes us[i]. */
struct hand {
    struct op_times ops[OPS_MAX + 1];
    struct space_use spaces[SPACES];
    struct timeline timeline;
};

static struct timeline *hand(struct hand *h, const struct schedule *s, const double *us, double step_us)
{
    *h = (struct hand){ .timeline = { .schedule_hash = schedule_hash(s),
                                      .executor = "host",
                                      .end_ps = (int64_t)(step_us * 1e6 + 0.5),
                                      .op_count = s->op_count,
                                      .space_count = SPACES } };
    h->timeline.ops = h->ops;
    h->timeline.spaces = h->spaces;
    for (uint32_t i = 1; i < s->op_count; i++) {
        h->ops[i].start_ps = h->ops[i - 1].end_ps + 5;
        h->ops[i].end_ps = h->ops[i].start_ps + (int64_t)(us[i - 1] * 1e6 + 0.5);
    }
    return &h->timeline;
}

static void expect_refusal(enum status status, const struct error *error, enum status wanted, const char *part)
{
    EXPECT_INT(status, wanted);
    EXPECT_PART(error->message, part);
}

/* Five steps of 80, 100, 130, 90, 100 us: median 100, deviations 20 0 30 10 0, their median 10. */
static void test_steps(void)
{
    static const double steps_us[] = { 80, 100, 130, 90, 100 };
    struct schedule s = delays(1, 7);
    struct agreement_collector *c;
    struct agreement a;
    struct error error = { 0 };
    struct hand h;
    const double us[] = { 10 };
    EXPECT_INT(agreement_begin(&c, &s, &error), STATUS_OK);
    for (int i = 0; i < 5; i++) {
        EXPECT_INT(agreement_step(c, hand(&h, &s, us, steps_us[i]), &error), STATUS_OK);
    }
    EXPECT_INT(agreement_step_count(c), 5);
    EXPECT_INT(agreement_finish(c, hand(&h, &s, us, 125), 2e-6, &a, &error), STATUS_OK);
    EXPECT_TEXT(a.executor, "host");
    EXPECT_REAL(a.simulated_step_s, 125e-6, 1e-15);
    EXPECT_REAL(a.median_step_s, 100e-6, 1e-15);
    EXPECT_REAL(a.min_step_s, 80e-6, 1e-15);
    EXPECT_REAL(a.max_step_s, 130e-6, 1e-15);
    EXPECT_REAL(a.steps_s[2], 130e-6, 1e-15); /* in the order they ran */
    EXPECT_REAL(a.spread, 0.1, 1e-12);
    EXPECT_REAL(a.noise, 1.96 * 1.2533141373155 * 1.4826 * 0.1 / 2.2360679774998, 1e-12);
    EXPECT_REAL(a.step_error, 0.25, 1e-12);
    EXPECT_REAL(a.signed_step_error, 0.25, 1e-12);
    agreement_free(&a);
    schedule_free(&s);
}

/* Three steps, which begin with the mark, delay 2 and delay 4: the settled one has delays 2 and 3 (5 ps between ops). Times before and behind it change nothing. */
static void test_settled_step(void)
{
    struct schedule s = delays_of_steps(5, 7, 1u << 0 | 1u << 2 | 1u << 4);
    struct agreement_collector *c;
    struct agreement a;
    struct error error = { 0 };
    struct hand h;
    const double measured_us[] = { 10, 20, 30, 70, 1 }, simulated_us[] = { 90, 20, 33, 1, 90 };
    EXPECT_INT(agreement_begin(&c, &s, &error), STATUS_OK);
    EXPECT_INT(agreement_step(c, hand(&h, &s, measured_us, 131), &error), STATUS_OK);
    EXPECT_INT(agreement_finish(c, hand(&h, &s, simulated_us, 234), 2e-6, &a, &error), STATUS_OK);
    EXPECT_REAL(a.steps_s[0], 50e-6 + 10e-12, 1e-15);
    EXPECT_REAL(a.simulated_step_s, 53e-6 + 10e-12, 1e-15);
    EXPECT_REAL(a.step_error, 3.0 / 50, 1e-6);
    EXPECT_INT(a.all.ops, 2);
    EXPECT_REAL(a.all.p90_error, 0.1, 1e-9);
    EXPECT_INT(a.worst_count, 1);
    EXPECT_INT(a.worst[0].op, 3);
    struct strbuf text = { 0 }, csv = { 0 };
    agreement_print(&a, &s, "", &text);
    agreement_print_csv(&a, &s, &csv);
    EXPECT_PART(text.text, "counted      of 3 training steps in the schedule");
    EXPECT_PART(csv.text, "\n1,0,0,delay,forward,90,10,8,0\n2,0,0,delay,backward,20,20,0,1\n");
    strbuf_free(&text);
    strbuf_free(&csv);
    EXPECT(!a.op_inside[1] && a.op_inside[2] && a.op_inside[3] && !a.op_inside[4] && !a.op_inside[5]);
    agreement_free(&a);
    schedule_free(&s);
}

/* Medians of three repeats an op; the mark counts nowhere; what is shorter than the floor is judged over it. */
static void test_ops(void)
{
    static const double steps_us[3][6] = {
        { 10, 40, 1, 0, 100, 10 },
        { 12, 50, 1.5, 0, 100, 50 },
        { 11, 10, 0.5, 0, 100, 40 } /* medians 11 40 1 0 100 40 */
    };
    static const double simulated_us[] = { 11, 50, 0.6, 3, 90, 50 }; /* errors 0 0.25 0.2 1.5 0.1 0.25 */
    struct schedule s = delays(6, 7);
    struct agreement_collector *c;
    struct agreement a;
    struct error error = { 0 };
    struct hand h;
    EXPECT_INT(agreement_begin(&c, &s, &error), STATUS_OK);
    for (int i = 0; i < 3; i++) {
        EXPECT_INT(agreement_step(c, hand(&h, &s, steps_us[i], 200), &error), STATUS_OK);
    }
    EXPECT_INT(agreement_finish(c, hand(&h, &s, simulated_us, 200), 2e-6, &a, &error), STATUS_OK);
    EXPECT_INT(a.op_count, 7);
    EXPECT_REAL(a.op_measured_s[1], 11e-6, 1e-12);
    EXPECT_REAL(a.op_measured_s[3], 1e-6, 1e-12);
    EXPECT_REAL(a.op_simulated_s[4], 3e-6, 1e-12);
    EXPECT_INT(a.all.ops, 6);
    EXPECT_REAL(a.all.median_error, 0.2, 1e-9);
    EXPECT_REAL(a.all.p90_error, 1.5, 1e-9);
    EXPECT_REAL(a.all.simulated_s, 204.6e-6, 1e-9);
    EXPECT_REAL(a.all.measured_s, 192e-6, 1e-9);
    EXPECT_REAL(a.all.bias, 12.6 / 192, 1e-9);
    EXPECT_INT(a.by_opcode[OP_DELAY].ops, 6);
    EXPECT_INT(a.by_opcode[OP_MARK].ops, 0);
    EXPECT_INT(a.by_opcode[OP_COMPUTE].ops, 0);
    EXPECT_INT(a.by_phase[PHASE_FORWARD].ops, 3); /* errors 0 0.2 0.1 */
    EXPECT_REAL(a.by_phase[PHASE_FORWARD].median_error, 0.1, 1e-9);
    EXPECT_REAL(a.by_phase[PHASE_FORWARD].p90_error, 0.2, 1e-9);
    EXPECT_REAL(a.by_phase[PHASE_FORWARD].bias, -10.4 / 112, 1e-9);
    EXPECT_INT(a.by_phase[PHASE_BACKWARD].ops, 3);
    EXPECT_INT(a.worst_count, 5); /* without the exact one */
    EXPECT_INT(a.worst[0].op, 4);
    EXPECT_INT(a.worst[1].op, 2); /* as bad as op 6, and before it */
    EXPECT_INT(a.worst[2].op, 6);
    EXPECT_INT(a.worst[3].op, 3);
    EXPECT_INT(a.worst[4].op, 5);
    EXPECT_REAL(a.worst[4].error, 0.1, 1e-9);
    agreement_free(&a);
    schedule_free(&s);
}

/* Sixteen ops, errors 0.01 to 0.16 in a stirred order: the ten greatest, falling. */
static void test_worst_ten(void)
{
    static const int order[OPS_MAX] = { 3, 16, 1, 9, 12, 7, 15, 2, 8, 14, 5, 11, 4, 13, 10, 6 };
    double us[OPS_MAX], simulated_us[OPS_MAX];
    struct schedule s = delays(OPS_MAX, 7);
    struct agreement_collector *c;
    struct agreement a;
    struct error error = { 0 };
    struct hand h;
    for (int i = 0; i < OPS_MAX; i++) {
        us[i] = 100;
        simulated_us[i] = i % 2 == 0 ? 100 + order[i] : 100 - order[i];
    }
    EXPECT_INT(agreement_begin(&c, &s, &error), STATUS_OK);
    EXPECT_INT(agreement_step(c, hand(&h, &s, us, 1), &error), STATUS_OK);
    EXPECT_INT(agreement_finish(c, hand(&h, &s, simulated_us, 1), 2e-6, &a, &error), STATUS_OK);
    EXPECT_INT(a.worst_count, AGREEMENT_WORST);
    for (int i = 0; i < AGREEMENT_WORST; i++) {
        EXPECT_REAL(a.worst[i].error, (16 - i) / 100.0, 1e-9);
        EXPECT_INT(order[a.worst[i].op - 1], 16 - i);
    }
    EXPECT(isnan(a.noise)); /* one step */
    agreement_free(&a);
    schedule_free(&s);
}

/* The highest peak of all steps counts; one byte is a difference. */
static void test_memory(void)
{
    const double us[] = { 10 };
    for (uint64_t extra = 0; extra < 2; extra++) {
        struct schedule s = delays(1, 7);
        struct agreement_collector *c;
        struct agreement a;
        struct error error = { 0 };
        struct hand h;
        struct strbuf text = { 0 };
        EXPECT_INT(agreement_begin(&c, &s, &error), STATUS_OK);
        for (uint64_t i = 0; i < 3; i++) {
            struct timeline *t = hand(&h, &s, us, 10);
            t->spaces[0].peak_bytes = i == 1 ? 900 + extra : 500;
            t->spaces[0].peak_reserved_bytes = 2000 + i;
            t->spaces[1].peak_bytes = 77;
            EXPECT_INT(agreement_step(c, t, &error), STATUS_OK);
        }
        struct timeline *simulated = hand(&h, &s, us, 10);
        simulated->spaces[0].peak_bytes = 900;
        simulated->spaces[0].peak_reserved_bytes = 1024;
        simulated->spaces[1].peak_bytes = 77;
        EXPECT_INT(agreement_finish(c, simulated, 2e-6, &a, &error), STATUS_OK);
        EXPECT_INT(a.memory_equal, extra == 0);
        EXPECT(a.ranges_known); /* this schedule has no buffers */
        EXPECT_INT(agreement_impossible(&a), 2);
        EXPECT_INT(a.spaces[0].most_peak_bytes, 0);
        EXPECT_INT(a.space_count, 2);
        EXPECT_INT(a.spaces[0].measured_peak_bytes, 900 + extra);
        EXPECT_INT(a.spaces[0].simulated_peak_bytes, 900);
        EXPECT_INT(a.spaces[0].measured_reserved_bytes, 2002);
        EXPECT_INT(a.spaces[0].simulated_reserved_bytes, 1024);
        agreement_print(&a, &s, "", &text);
        EXPECT_PART(text.text, extra == 0 ? "equal to the byte: the peak of every space (2)"
                                          : "DIFFERS: the peaks of 1 of 2 spaces");
        EXPECT_PART(text.text, "no timing of this schedule gives 2 of the measured ones");
        EXPECT_PART(text.text, extra == 0 ? "gpu 0" : "901 B");
        strbuf_free(&text);
        agreement_free(&a);
        schedule_free(&s);
    }
}

static void test_refusals(void)
{
    const double us[] = { 10 };
    struct schedule s = delays(1, 7), other = delays(1, 8);
    struct agreement_collector *c;
    struct agreement a;
    struct error error = { 0 };
    struct hand h;
    char own[HASH_TEXT_BYTES], foreign[HASH_TEXT_BYTES];
    const struct hash own_hash = schedule_hash(&s), foreign_hash = schedule_hash(&other);
    hash_text(&own_hash, own);
    hash_text(&foreign_hash, foreign);

    EXPECT_INT(agreement_begin(&c, &s, &error), STATUS_OK);
    expect_refusal(agreement_step(c, hand(&h, &other, us, 10), &error), &error, STATUS_BAD_INPUT, own);
    EXPECT_PART(error.message, foreign);
    struct timeline *t = hand(&h, &s, us, 10);
    t->outcome = TIMELINE_DEADLOCK;
    expect_refusal(agreement_step(c, t, &error), &error, STATUS_BAD_INPUT, "did not end in the host executor");
    EXPECT_INT(agreement_step_count(c), 0);
    expect_refusal(agreement_finish(c, hand(&h, &s, us, 10), 2e-6, &a, &error), &error, STATUS_BAD_INPUT,
                   "no step was measured");
    agreement_free(&a);

    EXPECT_INT(agreement_begin(&c, &s, &error), STATUS_OK);
    EXPECT_INT(agreement_step(c, hand(&h, &s, us, 10), &error), STATUS_OK);
    expect_refusal(agreement_finish(c, hand(&h, &other, us, 10), 2e-6, &a, &error), &error, STATUS_BAD_INPUT, own);
    EXPECT_PART(error.message, foreign);
    agreement_free(&a);

    EXPECT_INT(agreement_begin(&c, &s, &error), STATUS_OK);
    for (int i = 0; i < AGREEMENT_STEPS_MAX; i++) {
        EXPECT_INT(agreement_step(c, hand(&h, &s, us, 10), &error), STATUS_OK);
    }
    expect_refusal(agreement_step(c, hand(&h, &s, us, 10), &error), &error, STATUS_LIMIT, "1024");
    agreement_abandon(c);
    agreement_abandon(NULL);
    schedule_free(&s);
    schedule_free(&other);
}

/* What is said of the error stands beside the noise, in text and JSON. */
static void test_words(void)
{
    static const struct {
        double steps_us[3], simulated_us;
        int count;
        const char *text, *json;
    } cases[] = {
        { { 99, 100, 101 }, 100.5, 3, "+0.50 %: no more than noise", "\"exceeds_noise\": false" },
        { { 99, 100, 101 },
          90,
          3,
          "-10.00 %: more than noise, the median of 3 steps is known to +-1.00 %",
          "\"exceeds_noise\": true" },
        { { 100 }, 90, 1, "one step was measured", "\"noise\": null" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double us[] = { 10 };
        struct schedule s = delays(1, 7);
        struct agreement_collector *c;
        struct agreement a;
        struct error error = { 0 };
        struct hand h;
        struct strbuf text = { 0 }, json = { 0 }, csv = { 0 };
        EXPECT_INT(agreement_begin(&c, &s, &error), STATUS_OK);
        for (int k = 0; k < cases[i].count; k++) {
            EXPECT_INT(agreement_step(c, hand(&h, &s, us, cases[i].steps_us[k]), &error), STATUS_OK);
        }
        EXPECT_INT(agreement_finish(c, hand(&h, &s, us, cases[i].simulated_us), 2e-6, &a, &error), STATUS_OK);
        agreement_print(&a, &s, "a note", &text);
        agreement_print_json(&a, &s, "a note", &json);
        agreement_print_csv(&a, &s, &csv);
        EXPECT_PART(text.text, cases[i].text);
        EXPECT_PART(text.text, "a note\n");
        EXPECT_PART(json.text, cases[i].json);
        EXPECT_PART(json.text, "\"notes\": \"a note\"");
        EXPECT_TEXT(csv.text, "op,rank,queue,opcode,phase,simulated_us,measured_us,error,counted\n"
                              "0,0,0,mark,other,0,0,0,1\n1,0,0,delay,forward,10,10,0,1\n");
        struct json_document *document = NULL;
        EXPECT_INT(json_parse(&document, json.text, json.length, "test", &error), STATUS_OK);
        json_free(document);
        strbuf_free(&text);
        strbuf_free(&json);
        strbuf_free(&csv);
        agreement_free(&a);
        schedule_free(&s);
    }
}

static void test_simulator_against_itself(void)
{
    struct report_run *run = calloc(1, sizeof *run);
    struct agreement_collector *c = NULL;
    struct agreement a = { 0 };
    struct error error = { 0 };
    if (report_run(run, "{\"model\": \"gpt2\", \"machine\": \"dgx-a100-80gb\", \"gpus\": 4, \"fold\": false,"
                        " \"training\": {\"global_batch\": 8}, \"parallel\": {\"data\": 2, \"pipeline\": 2}}")) {
        EXPECT_INT(agreement_begin(&c, &run->schedule, &error), STATUS_OK);
        EXPECT_INT(agreement_step(c, &run->timeline, &error), STATUS_OK);
        EXPECT_INT(agreement_step(c, &run->timeline, &error), STATUS_OK);
        EXPECT_INT(agreement_finish(c, &run->timeline, AGREEMENT_FLOOR_S, &a, &error), STATUS_OK);
        EXPECT(a.simulated_step_s > 0);
        EXPECT_REAL(a.median_step_s, a.simulated_step_s, 0);
        EXPECT(a.all.ops > 100 && a.all.measured_s > 0);
        EXPECT(a.step_error <= 0 && a.noise <= 0 && a.all.p90_error <= 0 && a.worst_count == 0);
        EXPECT(a.memory_equal && a.ranges_known && agreement_impossible(&a) == 0);
        EXPECT(a.spaces[0].measured_peak_bytes > 0);
    }
    agreement_free(&a);
    report_run_free(run);
    free(run);
}

/* Only host times change, and to the machine's. */
static void test_software(void)
{
    struct machine machine;
    struct software software, bare;
    struct error error = { 0 };
    EXPECT_INT(machine_load(&machine, "dgx-a100-80gb", &error), STATUS_OK);
    EXPECT_INT(software_load(&software, "megatron", &error), STATUS_OK);
    bare = software;
    agreement_software(&machine, &bare);
    EXPECT(machine.kernel_launch_host_s > 0 && machine.memcpy_call_s > 0);
    EXPECT_REAL(bare.launch_host_s, machine.kernel_launch_host_s, 0);
    EXPECT_REAL(bare.collective_host_s, machine.kernel_launch_host_s, 0);
    EXPECT_REAL(bare.copy_host_s, machine.memcpy_call_s, 0);
    EXPECT(bare.collective_jitter_s <= 0 && bare.pass_host_s <= 0 && bare.micro_batch_host_s <= 0 &&
           bare.step_host_s <= 0);
    EXPECT_INT(bare.allocator, software.allocator);
    EXPECT_INT(bare.fused_kernels, software.fused_kernels);
    EXPECT_REAL(bare.bucket_bytes, software.bucket_bytes, 0);
    EXPECT_REAL(software_state_bytes(&bare), software_state_bytes(&software), 0);
    machine_free(&machine);
}

TEST_MAIN(TEST(test_steps), TEST(test_settled_step), TEST(test_ops), TEST(test_worst_ten), TEST(test_memory),
          TEST(test_refusals), TEST(test_words), TEST(test_simulator_against_itself), TEST(test_software))
