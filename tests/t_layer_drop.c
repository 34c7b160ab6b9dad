/* training.layer_drop: which layers run is drawn anew for every micro-batch, and the schedule holds exactly those, under every policy that goes with it; policies that know a step beforehand refuse,
 * and what their message names runs. Schedules verify, timelines pass their audit (tests/report_run.h). */
#include "sim/plan/layer_drop.h"
#include "tests/report_run.h"

enum { LAYERS = 12, MICRO_BATCH = 24, TEXT_BYTES = 2048 };

struct drop_case {
    const char *policy, *more_policy; /* members beside the name */
    int gpus, zero, micro_batches;
    const char *recompute, *software;
    double drop;
    int seed;
    const char *more; /* members of the scenario */
};

static const char *scenario_text(char *text, const struct drop_case *c)
{
    char drop[96] = "";
    if (c->drop > 0 || c->seed != 1) {
        snprintf(drop, sizeof drop, ", \"layer_drop\": %g, \"layer_drop_seed\": %d", c->drop, c->seed);
    }
    snprintf(text, TEXT_BYTES,
             "{\"schema\": \"memwall.scenario/1\", \"machine\": \"dgx-a100-80gb\", \"gpus\": %d, \"software\": \"%s\","
             " \"model\": {\"family\": \"gpt\", \"layers\": %d, \"hidden\": 1024, \"heads\": 16, \"ffn\": 4096,"
             " \"vocab\": 5000, \"max_sequence\": 256}, \"training\": {\"micro_batch\": %d, \"global_batch\": %d%s},"
             " \"parallel\": {\"data\": %d, \"zero_stage\": %d}, \"recompute\": \"%s\","
             " \"memory_policy\": {\"name\": \"%s\"%s}%s}",
             c->gpus, c->software, (int)LAYERS, (int)MICRO_BATCH, MICRO_BATCH * c->gpus * c->micro_batches, drop,
             c->gpus, c->zero, c->recompute, c->policy, c->more_policy, c->more);
    return text;
}

static bool run_case(struct report_run *run, const struct drop_case *c)
{
    char text[TEXT_BYTES];
    memset(run, 0, sizeof *run);
    if (!report_run(run, scenario_text(text, c))) {
        printf("  %s\n", text);
        return false;
    }
    EXPECT_INT(run->timeline.outcome, TIMELINE_DONE);
    return run->timeline.outcome == TIMELINE_DONE;
}

/* ---- draws ---- */

static void test_draws(void)
{
    enum { MICRO_BATCHES = 400, WIDE = 100 };
    static const double drops[] = { 0.05, 0.3, 0.9 };
    for (size_t d = 0; d < sizeof drops / sizeof drops[0]; d++) {
        struct plan plan = { .layer_drop = drops[d], .layer_drop_seed = 1 }, other = plan;
        other.layer_drop_seed = 2;
        uint32_t skipped = 0, differs_by_seed = 0, differs_by_micro_batch = 0;
        for (uint32_t m = 0; m < MICRO_BATCHES; m++) {
            for (uint32_t i = 0; i < WIDE; i++) {
                bool skips = layer_drop_skips(&plan, i, m);
                skipped += skips;
                differs_by_seed += skips != layer_drop_skips(&other, i, m);
                differs_by_micro_batch += skips != layer_drop_skips(&plan, i, m + 1);
            }
        }
        /* of n draws: within five standard deviations, sqrt(n p (1 - p)); two that are independent differ with 2 p (1 - p) */
        double n = MICRO_BATCHES * WIDE, p = drops[d], apart = 2 * p * (1 - p);
        EXPECT(fabs(skipped - n * p) < 5 * sqrt(n * p * (1 - p)));
        EXPECT(fabs(differs_by_seed - n * apart) < 5 * sqrt(n * apart * (1 - apart)));
        EXPECT(fabs(differs_by_micro_batch - n * apart) < 8 * sqrt(n * apart * (1 - apart)));
    }
    const struct plan never = { .layer_drop = 0 };
    EXPECT(!layer_drop_skips(&never, 3, 4));
}

/* ---- what runs ---- */

static double step_model_flops(const struct report_run *run, uint32_t ran)
{
    struct model fewer = run->scenario.model;
    const struct plan *plan = &run->scenario.plan;
    double samples = (double)(plan->micro_batch * plan->data), sequence = (double)plan->sequence_length;
    fewer.layers = 0;
    double ends = model_step_flops(&fewer, samples, sequence);
    fewer.layers = 1;
    return (double)plan->micro_batches * ends + ran * (model_step_flops(&fewer, samples, sequence) - ends);
}

/* Each (micro-batch, layer) has forward and backward kernels exactly where it is not skipped. */
static void expect_passes(const struct report_run *run)
{
    const struct schedule *s = &run->schedule;
    const struct plan *plan = &run->scenario.plan;
    uint32_t ran = 0;
    for (uint32_t m = 0; m < (uint32_t)plan->micro_batches; m++) {
        for (uint32_t layer = 0; layer < LAYERS; layer++) {
            uint32_t forward = 0, backward = 0;
            for (uint32_t i = 0; i < s->ranks[0].op_count; i++) {
                const struct sched_op *op = &s->ops[i];
                bool here = op->opcode == OP_COMPUTE && op->micro_batch == m && op->layer == layer;
                forward += here && op->phase == PHASE_FORWARD;
                backward += here && op->phase == PHASE_BACKWARD;
            }
            bool skips = layer_drop_skips(plan, layer, m);
            EXPECT((forward > 0) == !skips);
            EXPECT((backward > 0) == !skips);
            ran += !skips;
        }
    }
    EXPECT_REAL(s->model_flops, step_model_flops(run, ran), 1e-12);
}

static double down_bytes(const struct schedule *s)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        sum += s->ops[i].opcode == OP_COPY_D2H ? s->works[s->ops[i].work].bytes : 0;
    }
    return sum;
}

static const struct drop_case CASES[] = {
    { "resident", "", 1, 0, 3, "none", "megatron", 0.3, 1, "" },
    { "resident", "", 1, 0, 1, "full", "ideal", 0.5, 3, ", \"detail\": \"stage\"" },
    { "resident", "", 2, 0, 3, "selective", "megatron", 0.3, 2, "" },
    { "resident", "", 2, 1, 2, "full", "deepspeed", 0.6, 5, ", \"fold\": false" },
    { "resident", "", 4, 2, 3, "full", "deepspeed", 0.3, 2, "" },
    { "resident", "", 4, 3, 2, "none", "deepspeed", 0.4, 4, ", \"fold\": false" },
    { "resident", "", 4, 3, 2, "full", "galvatron", 0.4, 4, "" },
    { "resident", "", 8, 3, 1, "full", "megatron", 0.9, 1, "" },
    { "optimizer-on-host", "", 1, 0, 2, "full", "megatron", 0.4, 1, "" },
    { "optimizer-on-host", "", 4, 1, 3, "full", "deepspeed", 0.4, 1, "" },
    { "zero-offload", "", 1, 0, 1, "full", "deepspeed", 0.4, 1, "" },
    { "zero-offload", "", 1, 0, 4, "full", "deepspeed", 0.4, 7, "" },
    { "zero-offload", ", \"preset\": \"paper\"", 4, 2, 3, "full", "deepspeed", 0.4, 1, "" },
    { "zero-offload", ", \"delayed\": true", 1, 0, 1, "full", "deepspeed", 0.5, 1, "" },
    { "zero3-offload", "", 1, 3, 4, "full", "deepspeed", 0.4, 1, "" },
    { "zero3-offload", "", 2, 3, 1, "full", "deepspeed", 0.4, 1, "" },
    { "zero3-offload", ", \"preset\": \"paper\"", 2, 3, 3, "none", "deepspeed", 0.7, 2, "" },
    { "zero3-offload", ", \"checkpoints_on_host\": true", 4, 3, 3, "full", "deepspeed", 0.4, 1, ", \"fold\": false" },
    { "zero-infinity", ", \"parameters_on\": \"host\", \"optimizer_on\": \"host\"", 4, 3, 3, "full", "deepspeed", 0.4,
      1, "" },
};

static void test_runs(void)
{
    uint32_t shorter = 0;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct report_run run, all;
        struct drop_case whole = CASES[i];
        unsigned before = test_failures;
        whole.drop = 0;
        whole.seed = 1;
        bool ran = run_case(&run, &CASES[i]), ran_whole = run_case(&all, &whole);
        if (ran && ran_whole) {
            expect_passes(&run);
            EXPECT(run.schedule.model_flops < all.schedule.model_flops);
            EXPECT(run.result.step_time_s <= all.result.step_time_s); /* equal where Adam on the host rules */
            if (CASES[i].micro_batches == 1) { /* gradients of all layers leave, of a skipped one as zeros */
                EXPECT_REAL(down_bytes(&run.schedule), down_bytes(&all.schedule), 1e-12);
            }
            shorter += run.result.step_time_s < 0.99 * all.result.step_time_s;
            for (uint32_t space = 0; space < run.schedule.space_count;
                 space++) { /* gone at the end what was not there at the start */
                EXPECT(run.timeline.spaces[space].peak_bytes <= all.timeline.spaces[space].peak_bytes);
            }
        }
        report_run_free(&run);
        report_run_free(&all);
        if (test_failures != before) {
            printf("  in case %zu (%s, zero %d, %d GPUs)\n", i, CASES[i].policy, CASES[i].zero, CASES[i].gpus);
        }
    }
    printf("%u of %zu runs are shorter\n", shorter, sizeof CASES / sizeof CASES[0]);
    EXPECT(shorter > sizeof CASES / sizeof CASES[0] / 2);
}

/* ---- policies that need a static trace ---- */

static enum status lower_case(const struct drop_case *c, struct error *error)
{
    char text[TEXT_BYTES];
    struct json_document *document = NULL;
    struct json root;
    struct scenario scenario;
    struct schedule schedule = { 0 };
    scenario_text(text, c);
    *error = (struct error){ 0 };
    enum status status = json_parse(&document, text, strlen(text), "test", error);
    if (status == STATUS_OK) {
        json_root(document, &root);
        status = scenario_from_json(&scenario, &root, error);
    }
    json_free(document);
    if (status != STATUS_OK) {
        return status;
    }
    const struct lower_request request = {
        .model = &scenario.model,
        .cluster = &scenario.cluster,
        .software = &scenario.software,
        .plan = &scenario.plan,
    };
    status = lower_schedule(&request, &schedule, error);
    schedule_free(&schedule);
    scenario_free(&scenario);
    return status;
}

/* PatrickStar refuses whichever the eviction, and runs without layer_drop; what it names runs in its place. */
static void test_patrickstar(void)
{
    static const char *const evictions[] = { "next-use", "lookahead", "lru", "fifo", "lfu", "random" };
    char member[64], message[TEXT_BYTES];
    struct error error;
    for (size_t e = 0; e < sizeof evictions / sizeof evictions[0]; e++) {
        snprintf(member, sizeof member, ", \"eviction\": \"%s\", \"chunk_elements\": 8388608", evictions[e]);
        struct drop_case c = { "patrickstar", member, 2, 0, 1, "full", "deepspeed", 0.2, 1, "" };
        EXPECT_INT(lower_case(&c, &error), STATUS_UNSUPPORTED);
        EXPECT_PART(error_text(&error, message, sizeof message), "$.training.layer_drop");
        EXPECT_PART(message, "the moments that one warm-up iteration has recorded");
        EXPECT_PART(message, "memory_policy zero3-offload with parallel.zero_stage 3, or set training.layer_drop to 0");
        c.drop = 0;
        EXPECT_INT(lower_case(&c, &error), STATUS_OK);
    }
    struct report_run run;
    if (run_case(&run, &(struct drop_case){ "zero3-offload", "", 2, 3, 1, "full", "deepspeed", 0.2, 1, "" })) {
        expect_passes(&run);
    }
    report_run_free(&run);
}

/* A plan says what it drops, and reads it back. */
static void test_plan(void)
{
    struct report_run run;
    struct strbuf out = { 0 };
    struct json_document *document = NULL;
    struct arena arena = { 0 };
    struct error error = { 0 };
    struct json root;
    struct plan again;
    struct hash hash = { 0 }, hash_again = { 0 }, hash_whole = { 0 };
    struct drop_case c = { "resident", "", 2, 1, 2, "full", "deepspeed", 0.25, 6, "" };
    if (run_case(&run, &c)) {
        plan_print_json(&run.scenario.plan, &run.scenario.model, &out);
        EXPECT_PART(out.text, "\"layer_drop\"");
        EXPECT_INT(json_parse(&document, out.text, strlen(out.text), "plan", &error), STATUS_OK);
        json_root(document, &root);
        EXPECT_INT(plan_from_json(&again, &run.scenario.model, &root, &arena, &error), STATUS_OK);
        EXPECT_REAL(again.layer_drop, 0.25, 0);
        EXPECT_INT(again.layer_drop_seed, 6);
        EXPECT_INT(plan_hash(&run.scenario.plan, &run.scenario.model, &hash, &error), STATUS_OK);
        EXPECT_INT(plan_hash(&again, &run.scenario.model, &hash_again, &error), STATUS_OK);
        again.layer_drop = 0;
        EXPECT_INT(plan_hash(&again, &run.scenario.model, &hash_whole, &error), STATUS_OK);
        EXPECT(memcmp(&hash, &hash_again, sizeof hash) == 0);
        EXPECT(memcmp(&hash, &hash_whole, sizeof hash) != 0);
    }
    json_free(document);
    strbuf_free(&out);
    arena_free(&arena);
    report_run_free(&run);
}

static void test_refusals(void)
{
    static const struct {
        struct drop_case c;
        enum status status;
        const char *says;
    } refused[] = {
        { { "capuchin", "", 1, 0, 2, "none", "megatron", 0.2, 1, "" },
          STATUS_UNSUPPORTED,
          "take memory_policy zero3-offload or resident" },
        { { "vdnn", "", 1, 0, 2, "none", "megatron", 0.2, 1, "" }, STATUS_UNSUPPORTED, "or set layer_drop to 0" },
        { { "resident", "", 1, 0, 2, "none", "megatron", 1.5, 1, "" }, STATUS_BAD_INPUT, "from 0 to 0.99" },
        { { "resident", "", 1, 0, 2, "none", "megatron", 0.2, -1, "" }, STATUS_BAD_INPUT, "layer_drop_seed" },
        { { "resident", "", 1, 0, 2, "none", "megatron", 0, 3, "" }, STATUS_BAD_INPUT, "leave the key out" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char message[TEXT_BYTES];
        struct error error;
        EXPECT_INT(lower_case(&refused[i].c, &error), refused[i].status);
        EXPECT_PART(error_text(&error, message, sizeof message), refused[i].says);
    }
}

/* ---- DeepSpeed's prefetcher follows a trace ---- */

/* The end of the last backward kernels. */
static double backward_end_s(const struct report_run *run)
{
    double end_s = 0;
    for (uint32_t i = 0; i < run->schedule.op_count; i++) {
        const struct sched_op *op = &run->schedule.ops[i];
        if (op->opcode == OP_COMPUTE && op->phase == PHASE_BACKWARD) {
            end_s = fmax(end_s, (double)run->timeline.ops[i].end_ps * 1e-12);
        }
    }
    return end_s;
}

/* Each layer's weights come while the layer in front runs; without a trace they are only asked for when it has ended. A seed that skips nothing leaves that alone. */
static void test_prefetch_is_off(void)
{
    struct report_run run, all;
    struct drop_case c = { "zero3-offload", "", 1, 3, 2, "full", "deepspeed", 0.001, 1, "" }, whole = c;
    whole.drop = 0;
    bool ran = run_case(&run, &c), ran_whole = run_case(&all, &whole);
    if (ran && ran_whole) {
        double without = backward_end_s(&run), with = backward_end_s(&all);
        expect_passes(&run);
        EXPECT_REAL(run.schedule.model_flops, all.schedule.model_flops, 0);
        printf("zero3-offload, no layer skipped, to the end of the backward: %.3f ms, with the prefetcher %.3f ms\n",
               without * 1e3, with * 1e3);
        EXPECT(without > 1.01 * with);
    }
    report_run_free(&run);
    report_run_free(&all);
}

TEST_MAIN(TEST(test_draws), TEST(test_runs), TEST(test_patrickstar), TEST(test_plan), TEST(test_refusals),
          TEST(test_prefetch_is_off))
