/* T5 and Swin through lowering: what every rank holds, what crosses stages, folded against unfolded, and what is refused. */
#include "sim/model/variant.h"
#include "tests/lower_run.h"

#define HEAD(model)                                                                                                    \
    "{\"schema\":\"memwall.scenario/1\",\"name\":\"test\",\"model\":\"" model "\",\"machine\":\"dgx-a100-80gb\","      \
    "\"software\":\"megatron\","

static double state_of(const struct run *run, uint32_t device)
{
    const struct schedule *s = &run->schedule;
    uint32_t space = device_space(s, device);
    double bytes = 0;
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        const struct sched_buffer *buffer = &s->buffers[b];
        bool state = buffer->buffer_class == BUFFER_WEIGHT || buffer->buffer_class == BUFFER_GRADIENT ||
                     buffer->buffer_class == BUFFER_OPTIMIZER;
        bytes += buffer->space == space && state && (buffer->flags & BUFFER_LIVE_AT_START) ? (double)buffer->bytes : 0;
    }
    return bytes;
}

/* Bytes of the first buffer of a device with this label. */
static double labelled(const struct run *run, uint32_t device, const char *label)
{
    const struct schedule *s = &run->schedule;
    uint32_t space = device_space(s, device);
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        if (s->buffers[b].space == space && strcmp(sched_label(s, s->buffers[b].label), label) == 0) {
            return (double)s->buffers[b].bytes;
        }
    }
    return 0;
}

static double layers_from(const struct model *m, int64_t first, int64_t count)
{
    double parameters = 0;
    for (int64_t i = first; i < first + count; i++) {
        parameters += (double)model_layer_parameters_at(m, i);
    }
    return parameters;
}

/* 18 bytes a parameter (fp16, Adam, fp32 gradients); the tied table at both ends. Stages of 10, 10, 6 and 6 of 16 + 16 layers: the second holds the last of the encoder and the first of the
 * decoder. */
static void test_t5_states(void)
{
    struct run run;
    run_format(&run, HEAD("t5-large-32") "\"gpus\":4,\"training\":{\"global_batch\":8},\"parallel\":{\"pipeline\":4},"
                                         "\"plan\":{\"stage_layers\":[10,10,6,6]}}");
    const struct model *m = &run.scenario.model;
    double table = 32128.0 * 1024;
    EXPECT_REAL(state_of(&run, 0), 18 * (layers_from(m, 0, 10) + table + 2 * 32 * 16), 0);
    EXPECT_REAL(state_of(&run, 1), 18 * layers_from(m, 10, 10), 0);
    EXPECT_REAL(state_of(&run, 2), 18 * layers_from(m, 20, 6), 0);
    EXPECT_REAL(state_of(&run, 3), 18 * (layers_from(m, 26, 6) + table + 1024), 0);
    /* encoder 512, decoder 512 tokens of width 1024: both cross every boundary, and the encoder's stages hand the decoder's on; kept is what is read */
    double stack = 2.0 * 512 * 1024;
    EXPECT_REAL(labelled(&run, 0, "activation to send"), 2 * stack, 0);
    EXPECT_REAL(labelled(&run, 1, "received activation"), stack, 0);
    EXPECT_REAL(labelled(&run, 1, "activation passing through"), stack, 0);
    EXPECT_REAL(labelled(&run, 2, "received activation"), 2 * stack, 0);
    EXPECT_REAL(labelled(&run, 2, "activation passing through"), 0, 0);
    EXPECT_REAL(labelled(&run, 2, "gradient to send"), 2 * stack, 0);
    EXPECT_REAL(labelled(&run, 3, "received activation"), 2 * stack, 0);
    EXPECT_REAL(labelled(&run, 0, "received gradient"), 2 * stack, 0);
    EXPECT_REAL(run.schedule.tokens, 8 * 1024, 0);
    run_free(&run);
}

/* A decoder of 4 tokens. */
static void test_t5_short(void)
{
    struct run run;
    run_format(&run, HEAD("t5-512-4-32") "\"gpus\":2,\"training\":{\"global_batch\":4},\"parallel\":{\"pipeline\":2}}");
    EXPECT_REAL(labelled(&run, 0, "activation to send"), 2.0 * 516 * 1024, 0);
    EXPECT_REAL(labelled(&run, 1, "received activation"), 2.0 * 516 * 1024, 0); /* the decoder's first reads both */
    run_free(&run);
    run_format(&run, HEAD("t5-512-4-32") "\"gpus\":2,\"training\":{\"global_batch\":4},\"parallel\":{\"pipeline\":2},"
                                         "\"plan\":{\"stage_layers\":[8,24]}}");
    EXPECT_REAL(labelled(&run, 1, "received activation"), 2.0 * 512 * 1024, 0);
    EXPECT_REAL(labelled(&run, 1, "activation passing through"), 2.0 * 4 * 1024, 0);
    run_free(&run);
}

/* Stages of unlike layers: 2 and 2 and 14 and 14 blocks; after a stage of the model each boundary has half the bytes. */
static void test_swin_states(void)
{
    struct run run;
    run_format(&run, HEAD("swin-huge-32") "\"gpus\":4,\"training\":{\"global_batch\":16,\"micro_batch\":2},"
                                          "\"parallel\":{\"pipeline\":4},\"plan\":{\"stage_layers\":[2,2,14,14]}}");
    const struct model *m = &run.scenario.model;
    EXPECT_REAL(state_of(&run, 0), 18 * (layers_from(m, 0, 2) + (double)model_embedding_parameters(m)), 0);
    EXPECT_REAL(state_of(&run, 1), 18 * layers_from(m, 2, 2), 0);
    EXPECT_REAL(state_of(&run, 2), 18 * layers_from(m, 4, 14), 0);
    EXPECT_REAL(state_of(&run, 3), 18 * (layers_from(m, 18, 14) + (double)model_head_parameters(m)), 0);
    double first = 2.0 * 2 * 3136 * 320;
    EXPECT_REAL(labelled(&run, 0, "activation to send"), first / 2, 0);
    EXPECT_REAL(labelled(&run, 1, "received activation"), first / 2, 0);
    EXPECT_REAL(labelled(&run, 1, "activation to send"), first / 4, 0);
    EXPECT_REAL(labelled(&run, 1, "gradient to send"), first / 2, 0);
    EXPECT_REAL(labelled(&run, 2, "gradient to send"), first / 4, 0);
    EXPECT_REAL(labelled(&run, 3, "received activation"), first / 4, 0);
    run_free(&run);
}

/* Of one class, on a device, live at most at one time, by the order of its ops. */
static double most_held(const struct run *run, uint32_t device, const char *label)
{
    const struct schedule *s = &run->schedule;
    uint32_t space = device_space(s, device);
    double most = 0, live = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        const uint32_t *operands = sched_acquires(s, op);
        for (uint32_t k = 0; k < (uint32_t)op->acquire_count + op->release_count; k++) {
            const struct sched_buffer *buffer = &s->buffers[operands[k]];
            if (buffer->space == space && strcmp(sched_label(s, buffer->label), label) == 0) {
                live += k < op->acquire_count ? (double)buffer->bytes : -(double)buffer->bytes;
                most = live > most ? live : most;
            }
        }
    }
    return most;
}

/* Full recomputation keeps inputs only. T5 on one device: 16 of the encoder, 16 of the decoder, and the encoder's output once. Swin: each stage's rows. */
static void test_full_recompute(void)
{
    struct run run;
    run_format(&run, HEAD("t5-large-32") "\"gpus\":1,\"training\":{\"global_batch\":1},\"recompute\":\"full\"}");
    EXPECT_REAL(most_held(&run, 0, "saved for backward"), 33 * 2.0 * 512 * 1024, 0);
    run_free(&run);
    run_format(&run, HEAD("swin-huge-32") "\"gpus\":1,\"training\":{\"global_batch\":1},\"recompute\":\"full\"}");
    double rows = 2.0 * 3136 * 320;
    EXPECT_REAL(most_held(&run, 0, "saved for backward"), rows * (2 + 2 / 2.0 + 26 / 4.0 + 2 / 8.0), 0);
    run_free(&run);
}

#define MIXED                                                                                                          \
    "\"parallel\":{\"pipeline\":2,\"tensor\":2,\"data\":2,\"layers\":[{\"layers\":9,\"tensor\":4,\"data\":1},"         \
    "{\"layers\":10,\"tensor\":1,\"data\":4,\"zero_stage\":3},{\"layers\":13,\"tensor\":2,\"data\":2,"                 \
    "\"consecutive\":\"data\"}]}"

static void test_folding(void)
{
    static const char *const rests[] = {
        "\"parallel\":{\"pipeline\":2,\"tensor\":2,\"data\":2}",
        "\"parallel\":{\"pipeline\":4,\"data\":2,\"zero_stage\":1},\"recompute\":\"full\"",
        "\"parallel\":{\"pipeline\":2,\"data\":4,\"zero_stage\":3},\"recompute\":\"selective\"",
        "\"parallel\":{\"pipeline\":2,\"virtual_stages\":2,\"pipeline_order\":\"interleaved\",\"data\":4}",
        "\"parallel\":{\"pipeline\":4,\"pipeline_order\":\"zb-h1\",\"data\":2},\"detail\":\"layer\"",
        "\"parallel\":{\"pipeline\":4,\"pipeline_order\":\"chimera\",\"virtual_stages\":2,\"data\":2}",
    };
    for (size_t i = 0; i < sizeof rests / sizeof rests[0]; i++) {
        char text[1024];
        const char *const models[] = { HEAD("t5-large-32"), HEAD("swin-huge-32") };
        for (size_t k = 0; k < 2; k++) {
            snprintf(text, sizeof text, "%s\"gpus\":8,\"training\":{\"global_batch\":32,\"micro_batch\":2},%s",
                     models[k], rests[i]);
            compare_folding(text);
        }
    }
    compare_folding(HEAD("t5-large-32") "\"gpus\":8,\"training\":{\"global_batch\":32,\"micro_batch\":2}," MIXED);
    compare_folding(HEAD("swin-huge-32") "\"gpus\":8,\"training\":{\"global_batch\":32,\"micro_batch\":2}," MIXED);
    compare_folding(HEAD("t5-large-32") "\"gpus\":8,\"training\":{\"global_batch\":8},\"parallel\":{\"pipeline\":2,"
                                        "\"tensor\":4,\"sequence_parallel\":true}");
}

static void expect_refusal(const char *text, const char *part)
{
    struct run run;
    char message[2048];
    run_scenario(&run, text);
    EXPECT(run.status != STATUS_OK);
    EXPECT_PART(error_text(&run.error, message, sizeof message), part);
    run_free(&run);
}

static void test_refusals(void)
{
    expect_refusal(HEAD("swin-huge-32") "\"gpus\":2,\"training\":{\"global_batch\":2},\"parallel\":{\"tensor\":2,"
                                        "\"sequence_parallel\":true}}",
                   "windows");
    expect_refusal(HEAD("t5-512-4-32") "\"gpus\":8,\"training\":{\"global_batch\":2},\"parallel\":{\"tensor\":8,"
                                       "\"sequence_parallel\":true}}",
                   "decoder's sequence");
    expect_refusal(HEAD("t5-large-32") "\"gpus\":2,\"training\":{\"global_batch\":2},\"parallel\":{\"context\":2}}",
                   "context");
    expect_refusal(HEAD("t5-large-32") "\"gpus\":1,\"training\":{\"global_batch\":1},"
                                       "\"memory_policy\":{\"name\":\"patrickstar\"}}",
                   "layers of one shape");
}

TEST_MAIN(TEST(test_t5_states), TEST(test_t5_short), TEST(test_swin_states), TEST(test_full_recompute),
          TEST(test_folding), TEST(test_refusals))
