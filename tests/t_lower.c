/* Lowering as a whole: what every rank holds, folded against unfolded, one detail against another, and a grid of random plans through verifier and audit. */
#include "tests/lower_run.h"

/* Bytes that live all step long on a device, of weights, gradients and optimizer states. */
static double state_of(const struct run *run, uint32_t device)
{
    const struct schedule *s = &run->schedule;
    uint32_t space = device_space(s, device);
    double bytes = 0;
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        const struct sched_buffer *buffer = &s->buffers[b];
        bool state = buffer->buffer_class == BUFFER_WEIGHT || buffer->buffer_class == BUFFER_GRADIENT ||
                     buffer->buffer_class == BUFFER_OPTIMIZER;
        if (buffer->space == space && state && (buffer->flags & BUFFER_LIVE_AT_START)) {
            EXPECT(buffer->flags & BUFFER_LIVE_AT_END);
            bytes += (double)buffer->bytes;
        }
    }
    return bytes;
}

/* Highest count over time of live buffers with this label on a device. */
static int highest_count(const struct run *run, uint32_t device, const char *label)
{
    const struct schedule *s = &run->schedule;
    uint32_t space = device_space(s, device);
    int highest = 0, live = 0;
    /* One rank's compute queue runs in order, and only its ops hold these buffers: op order is time order. */
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        const uint32_t *operands = sched_acquires(s, op);
        for (uint32_t k = 0; k < (uint32_t)op->acquire_count + op->release_count; k++) {
            const struct sched_buffer *buffer = &s->buffers[operands[k]];
            if (buffer->space == space && strcmp(sched_label(s, buffer->label), label) == 0) {
                live += k < op->acquire_count ? 1 : -1;
                highest = live > highest ? live : highest;
            }
        }
    }
    EXPECT_INT(live, 0);
    return highest;
}

#define GPT                                                                                                            \
    "{\"family\":\"gpt\",\"layers\":8,\"hidden\":1024,\"heads\":16,\"ffn\":4096,\"vocab\":51200,\"max_sequence\":"     \
    "1024}"
#define HEAD "{\"schema\":\"memwall.scenario/1\",\"name\":\"test\",\"model\":" GPT ",\"machine\":\"dgx-a100-80gb\","

/* 8 layers of 12 h^2 + 13 h, 51200 words and 1024 positions, final norm. */
static const double PARAMETERS = 8 * (12.0 * 1024 * 1024 + 13.0 * 1024) + (51200.0 + 1024) * 1024 + 2 * 1024;

static void test_bytes_per_parameter(void)
{
    static const struct {
        const char *software;
        double weight, gradient, optimizer;
        bool made; /* shards of gradients: not there when a step begins */
    } rows[] = { { "megatron", 2, 4, 12, false }, { "deepspeed", 2, 2, 12, false }, { "torchtitan", 4, 4, 8, true } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int zero = 0; zero <= 3; zero++) {
            struct run run;
            run_format(&run,
                       HEAD "\"software\":\"%s\",\"gpus\":4,\"training\":{\"global_batch\":8},\"parallel\":{"
                            "\"data\":4,\"zero_stage\":%d}}",
                       rows[i].software, zero);
            double gradient = zero >= 2 && rows[i].made ? 0 : rows[i].gradient / (zero >= 2 ? 4 : 1);
            double each = rows[i].weight / (zero >= 3 ? 4 : 1) + gradient + rows[i].optimizer / (zero >= 1 ? 4 : 1);
            EXPECT_REAL(state_of(&run, 0), each * PARAMETERS, 0);
            run_free(&run);
        }
    }
}

/* PyTorch DDP under autocast: a second copy of the gradients in buckets, and a bf16 copy of the layers' and head's weights from forward to backward. */
static void test_eager_copies(void)
{
    struct run run;
    run_format(&run, HEAD "\"software\":\"pytorch-eager\",\"gpus\":2,\"training\":{\"global_batch\":2,"
                          "\"precision\":\"bf16\"},\"parallel\":{\"data\":2}}");
    const struct schedule *s = &run.schedule;
    double buckets = 0, cast = 0;
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        const char *label = sched_label(s, s->buffers[b].label);
        buckets += strcmp(label, "gradient buckets") == 0 ? (double)s->buffers[b].bytes : 0;
        cast += strcmp(label, "cast weights") == 0 ? (double)s->buffers[b].bytes : 0;
    }
    EXPECT_REAL(buckets, 4 * PARAMETERS, 0);
    EXPECT_REAL(cast, 2 * (8 * (12.0 * 1024 * 1024 + 13.0 * 1024) + 2 * 1024), 0);
    EXPECT_INT(highest_count(&run, 0, "cast weights"), 8 + 1);
    run_free(&run);
}

/* The last stage has its own copy of a tied embedding, in whole; an untied head is simply its own. */
static void test_tied_copy(void)
{
    struct run run;
    run_format(&run, HEAD "\"gpus\":2,\"training\":{\"global_batch\":4},\"parallel\":{\"pipeline\":2}}");
    double layers = 4 * (12.0 * 1024 * 1024 + 13.0 * 1024), table = 51200.0 * 1024;
    EXPECT_REAL(state_of(&run, 0), 18 * (layers + table + 1024.0 * 1024), 0);
    EXPECT_REAL(state_of(&run, 1), 18 * (layers + table + 2 * 1024.0), 0);
    run_free(&run);
}

static void test_uneven_stages(void)
{
    struct run run;
    run_format(&run, HEAD "\"gpus\":4,\"training\":{\"global_batch\":8},\"parallel\":{\"pipeline\":4},"
                          "\"plan\":{\"stage_layers\":[1,2,3,2]}}");
    double layer = 12.0 * 1024 * 1024 + 13.0 * 1024;
    EXPECT_REAL(state_of(&run, 1), 18 * 2 * layer, 0);
    EXPECT_REAL(state_of(&run, 2), 18 * 3 * layer, 0);
    EXPECT_INT(highest_count(&run, 1, "saved for backward"), 3 * 2);
    EXPECT_INT(highest_count(&run, 2, "saved for backward"), 2 * 3);
    run_free(&run);
}

/* Micro-batches in flight: min(p - s, m) under 1F1B, m under gpipe, and for the interleaved first stage v p + p - 1 chunks (Korthikanti et al. 2022, eq. 6). */
static void test_in_flight(void)
{
    for (int m = 2; m <= 8; m += 3) {
        for (int order = 0; order < 2; order++) {
            struct run run;
            run_format(&run,
                       HEAD "\"gpus\":4,\"training\":{\"global_batch\":%d},\"parallel\":{\"pipeline\":4,"
                            "\"pipeline_order\":\"%s\"}}",
                       m, order == 0 ? "1f1b" : "gpipe");
            for (int s = 0; s < 4; s++) {
                int expected = order == 1 ? m : 4 - s < m ? 4 - s : m;
                EXPECT_INT(highest_count(&run, (uint32_t)s, "saved for backward"), expected * 2);
            }
            run_free(&run);
        }
    }
    struct run run;
    run_format(&run, HEAD "\"gpus\":4,\"training\":{\"global_batch\":8},\"parallel\":{\"pipeline\":4,"
                          "\"pipeline_order\":\"interleaved\",\"virtual_stages\":2}}");
    EXPECT_INT(highest_count(&run, 0, "saved for backward"), 2 * 4 + 4 - 1);
    run_free(&run);
}

static void test_folding(void)
{
    static const char *const plans[] = {
        "\"gpus\":8,\"training\":{\"global_batch\":8},\"parallel\":{\"tensor\":2,\"data\":2,\"pipeline\":2}",
        "\"gpus\":8,\"training\":{\"global_batch\":8},\"parallel\":{\"tensor\":2,\"data\":2,\"pipeline\":2,"
        "\"sequence_parallel\":true},\"recompute\":\"selective\"",
        "\"nodes\":2,\"training\":{\"global_batch\":4},\"parallel\":{\"tensor\":8,\"pipeline\":2}",
        "\"gpus\":4,\"training\":{\"global_batch\":8},\"parallel\":{\"data\":4}",
        "\"gpus\":4,\"training\":{\"global_batch\":8},\"parallel\":{\"data\":2,\"tensor\":2}",
        "\"gpus\":4,\"software\":\"deepspeed\",\"training\":{\"global_batch\":8},\"parallel\":{\"data\":4,"
        "\"zero_stage\":1}",
        "\"gpus\":4,\"software\":\"deepspeed\",\"training\":{\"global_batch\":8},\"parallel\":{\"data\":4,"
        "\"zero_stage\":2}",
        "\"gpus\":4,\"software\":\"deepspeed\",\"training\":{\"global_batch\":8},\"parallel\":{\"data\":4,"
        "\"zero_stage\":3}",
        "\"gpus\":4,\"software\":\"torchtitan\",\"training\":{\"global_batch\":8},\"parallel\":{\"data\":4,"
        "\"zero_stage\":3},\"recompute\":\"selective\"",
        "\"gpus\":8,\"software\":\"torchtitan\",\"training\":{\"global_batch\":8},\"parallel\":{\"data\":2,"
        "\"tensor\":2,\"pipeline\":2,\"zero_stage\":3},\"recompute\":\"full\"",
    };
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        char text[2048];
        snprintf(text, sizeof text, HEAD "%s", plans[i]);
        compare_folding(text);
    }
}

/* Coarser detail: the same memory peak to the byte, and the same duration. On one device exactly (a picosecond of rounding an op). Beside transfers a merged op
 * uses HBM and SMs at the average of its kernels, so who slows whom differs a little; and the host issues a merged op's launches at once, not one by one. */
static void test_detail(void)
{
    static const char *const details[] = { "op", "layer", "stage" };
    static const struct {
        const char *rest;
        double tolerance;
    } plans[] = {
        { "\"software\":\"ideal\",\"gpus\":1,\"training\":{\"global_batch\":6}", 1e-7 },
        { "\"software\":\"ideal\",\"gpus\":1,\"training\":{\"global_batch\":6},\"recompute\":\"full\"", 1e-7 },
        { "\"software\":\"ideal\",\"gpus\":2,\"training\":{\"global_batch\":6},\"parallel\":{\"tensor\":2,"
          "\"sequence_parallel\":true}",
          1e-7 },
        { "\"software\":\"deepspeed\",\"gpus\":2,\"training\":{\"global_batch\":6,\"micro_batch\":2},\"parallel\":{"
          "\"tensor\":2}",
          1e-7 },
        { "\"software\":\"deepspeed\",\"gpus\":2,\"training\":{\"global_batch\":6,\"micro_batch\":2},\"parallel\":{"
          "\"tensor\":2,\"sequence_parallel\":true}",
          1e-7 },
        { "\"software\":\"ideal\",\"gpus\":2,\"training\":{\"global_batch\":6},\"parallel\":{\"pipeline\":2}", 1e-3 },
        { "\"software\":\"ideal\",\"gpus\":4,\"training\":{\"global_batch\":6},\"parallel\":{\"pipeline\":2,"
          "\"tensor\":2}",
          1e-3 },
        { "\"software\":\"ideal\",\"gpus\":4,\"training\":{\"global_batch\":8},\"parallel\":{\"pipeline\":2,"
          "\"data\":2},\"recompute\":\"full\"",
          1e-3 },
        { "\"software\":\"megatron\",\"gpus\":8,\"training\":{\"global_batch\":8,\"micro_batch\":2},\"parallel\":{"
          "\"pipeline\":2,\"tensor\":4,\"sequence_parallel\":true},\"recompute\":\"selective\"",
          1e-7 },
        { "\"software\":\"megatron\",\"gpus\":8,\"training\":{\"global_batch\":16,\"micro_batch\":2},\"parallel\":{"
          "\"pipeline\":2,\"data\":4}",
          1e-7 },
    };
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        double end_ps = 0, peak = 0;
        for (int d = 0; d < 3; d++) {
            struct run run;
            run_format(&run, HEAD "%s,\"detail\":\"%s\"}", plans[i].rest, details[d]);
            if (d == 0) {
                end_ps = (double)run.timeline.end_ps;
                peak = (double)peak_of(&run, 0);
            }
            if (fabs((double)run.timeline.end_ps - end_ps) > 0 || fabs((double)peak_of(&run, 0) - peak) > 0) {
                printf("  plan %zu detail %s: %.0f ps against %.0f, peak %.0f against %.0f\n", i, details[d],
                       (double)run.timeline.end_ps, end_ps, (double)peak_of(&run, 0), peak);
            }
            EXPECT_REAL((double)run.timeline.end_ps, end_ps, plans[i].tolerance);
            EXPECT_REAL((double)peak_of(&run, 0), peak, 0);
            run_free(&run);
        }
    }
}

/* ---- random plans ---- */

static int pick(uint64_t *random, int count)
{
    return (int)test_below(random, (uint64_t)count);
}

/* Without the closing brace, so that "fold" can follow. Returns the number of GPUs. */
static int random_scenario(uint64_t *random, char *text, size_t size)
{
    static const char *const models[] = {
        "{\"family\":\"gpt\",\"layers\":8,\"hidden\":256,\"heads\":8,\"ffn\":1024,\"vocab\":1000,\"max_sequence\":128}",
        "{\"family\":\"llama\",\"layers\":8,\"hidden\":256,\"heads\":8,\"kv_heads\":4,\"ffn\":512,\"vocab\":1000,"
        "\"max_sequence\":128}",
        "{\"family\":\"bert\",\"layers\":8,\"hidden\":256,\"heads\":8,\"ffn\":1024,\"vocab\":1000,\"max_sequence\":"
        "128}",
        "{\"family\":\"vit\",\"layers\":8,\"hidden\":256,\"heads\":8,\"ffn\":1024,\"image_size\":224,\"patch_size\":"
        "16,\"classes\":10}",
    };
    static const char *const orders[] = { "1f1b", "gpipe", "dapple-pb", "interleaved" };
    static const char *const details[] = { "op", "layer", "stage" };
    static const char *const modes[] = { "none", "selective", "full" };
    static const char *const stacks[] = { "megatron",      "megatron-flash", "deepspeed",
                                          "pytorch-eager", "torchtitan",     "torchtitan-compile",
                                          "ideal",         "megatron-core",  "galvatron" };
    static const int degrees[] = { 1, 2, 4 };
    int model = pick(random, 4), tensor = degrees[pick(random, 3)], pipeline = degrees[pick(random, 3)];
    int data = degrees[pick(random, 3)], order = pick(random, 4), micro_batch = 1 + pick(random, 2);
    int virtual_stages = order == 3 ? 2 : 1;
    order = order == 3 && pipeline == 1 ? 0 : order;
    virtual_stages = order == 3 ? 2 : 1;
    int micro_batches = pipeline * (1 + pick(random, 3));
    int gpus = tensor * pipeline * data;
    char recompute[128] = "";
    if (pick(random, 4) == 0) {
        strcpy(recompute, "[\"none\",\"full\",\"selective\",\"none\",\"full\",\"full\",\"selective\",\"none\"]");
    } else {
        snprintf(recompute, sizeof recompute, "\"%s\"", modes[pick(random, 3)]);
    }
    snprintf(text, size,
             "{\"schema\":\"memwall.scenario/1\",\"name\":\"random\",\"model\":%s,\"machine\":\"dgx-a100-80gb\","
             "\"nodes\":%d,\"gpus\":%d,\"software\":\"%s\",\"training\":{\"micro_batch\":%d,\"global_batch\":%d},"
             "\"parallel\":{\"tensor\":%d,\"sequence_parallel\":%s,\"pipeline\":%d,\"data\":%d,\"zero_stage\":%d,"
             "\"pipeline_order\":\"%s\",\"virtual_stages\":%d},\"recompute\":%s,\"detail\":\"%s\"",
             models[model], (gpus + 7) / 8, gpus, stacks[pick(random, 9)], micro_batch,
             micro_batch * micro_batches * data, tensor, model != 3 && pick(random, 2) ? "true" : "false", pipeline,
             data, pick(random, 4), orders[order], virtual_stages, recompute, details[pick(random, 3)]);
    return gpus;
}

static void test_random_plans(void)
{
    uint64_t random = test_seed;
    int refused = 0, done = 0;
    for (int i = 0; i < 300; i++) {
        char text[2048], message[2048];
        struct run run;
        int gpus = random_scenario(&random, text, sizeof text);
        /* One server: every device of a stage has the same links. Op by op: a merged pass of a rank bound by launches may order the kernel beside a collective otherwise. */
        if (gpus > 1 && gpus <= 8 && strstr(text, "\"detail\":\"op\"") != NULL) {
            compare_folding(text);
        }
        strcat(text, pick(&random, 2) ? ",\"fold\":true}" : ",\"fold\":false}");
        run_scenario(&run, text);
        if (!run.loaded && run.status == STATUS_BAD_INPUT) {
            refused++; /* degrees that a scenario does not allow; must stay the exception */
        } else if (run.status != STATUS_OK || run.timeline.outcome != TIMELINE_DONE) {
            TEST_FAIL_("%s\n  %s",
                       run.status == STATUS_OK ? "not done" : error_text(&run.error, message, sizeof message), text);
        } else {
            done++;
        }
        if (refused == 1 && done == 0) {
            printf("  first refusal: %s\n  %s\n", error_text(&run.error, message, sizeof message), text);
        }
        run_free(&run);
    }
    printf("  %d done, %d refused\n", done, refused);
    EXPECT(done >= 200);
}

/* Sizes beyond any memory: the message says which keys to lower, for one buffer and for all together. */
static void test_too_many_bytes(void)
{
    static const char *const batches[] = {
        "\"micro_batch\": 1048576, \"global_batch\": 1048576, \"sequence_length\": 1048576",
        "\"micro_batch\": 1048576, \"global_batch\": 1073741824"
    };
    for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
        struct run run;
        char text[512];
        snprintf(text, sizeof text,
                 "{\"model\": \"llama-3-8b\", \"machine\": \"dgx-a100-80gb\", \"gpus\": 8, \"training\": {%s}, "
                 "\"parallel\": {\"tensor\": 8}}",
                 batches[i]);
        run_scenario(&run, text);
        EXPECT_INT(run.status, STATUS_LIMIT);
        EXPECT_TEXT(run.error.path, "$.training");
        EXPECT_PART(run.error.message, "lower training.micro_batch");
        run_free(&run);
    }
}

TEST_MAIN(TEST(test_too_many_bytes), TEST(test_bytes_per_parameter), TEST(test_eager_copies), TEST(test_tied_copy),
          TEST(test_uneven_stages), TEST(test_in_flight), TEST(test_folding), TEST(test_detail),
          TEST(test_random_plans))
