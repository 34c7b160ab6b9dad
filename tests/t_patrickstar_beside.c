/* What patrickstar keeps beside its chunks, byte by byte: activations on the host, embedding tables on the CPU. */
#include "tests/report_run.h"

enum { LAYERS = 8, HIDDEN = 1024, SEQUENCE = 256, VOCAB = 5000, MICRO_BATCH = 2, TEXT_BYTES = 1024 };

static bool run_case(struct report_run *run, int gpus, int micro_batches, const char *policy)
{
    char text[TEXT_BYTES];
    memset(run, 0, sizeof *run);
    snprintf(text, sizeof text,
             "{\"schema\": \"memwall.scenario/1\", \"machine\": \"toy-2gpu\", \"gpus\": %d, \"software\": \"ideal\","
             " \"model\": {\"family\": \"gpt\", \"layers\": %d, \"hidden\": %d, \"heads\": 16, \"ffn\": 4096,"
             " \"vocab\": %d, \"max_sequence\": %d}, \"training\": {\"micro_batch\": %d, \"global_batch\": %d},"
             " \"parallel\": {\"data\": %d}, \"recompute\": \"full\","
             " \"memory_policy\": {\"name\": \"patrickstar\", \"chunk_elements\": 5242880%s}}",
             gpus, (int)LAYERS, (int)HIDDEN, (int)VOCAB, (int)SEQUENCE, (int)MICRO_BATCH,
             MICRO_BATCH * gpus * micro_batches, gpus, policy);
    bool ran = report_run(run, text);
    EXPECT_INT(run->timeline.outcome, TIMELINE_DONE);
    return ran;
}

/* Bytes that copies of rank 0 bring into buffers of this label, and of the buffers of all GPUs that have it and live all step long. */
static double brought(const struct schedule *s, const char *label)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->ranks[0].op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        for (uint32_t k = 0; k < op->acquire_count; k++) {
            bool here = strcmp(sched_label(s, s->buffers[sched_acquires(s, op)[k]].label), label) == 0;
            sum += here ? s->works[op->work].bytes : 0;
        }
    }
    return sum;
}

static double kept(const struct schedule *s, const char *label)
{
    double sum = 0;
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        const struct sched_buffer *buffer = &s->buffers[b];
        bool here = strcmp(sched_label(s, buffer->label), label) == 0;
        sum += here && buffer->flags & BUFFER_LIVE_AT_START ? (double)buffer->bytes * buffer->copies : 0;
    }
    return sum;
}

static double copied(const struct schedule *s, enum opcode opcode)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->ranks[0].op_count; i++) {
        sum += s->ops[i].opcode == opcode ? s->works[s->ops[i].work].bytes : 0;
    }
    return sum;
}

/* Each block's saved input goes down after its forward and comes up before its backward, once a micro-batch; the device no longer holds all of them at the turn. */
static void test_activations(void)
{
    static struct report_run with, without;
    const double input = 2.0 * MICRO_BATCH * SEQUENCE * HIDDEN;
    for (int micro_batches = 1; micro_batches <= 3; micro_batches += 2) {
        bool ran = run_case(&without, 2, micro_batches, "");
        if (run_case(&with, 2, micro_batches, ", \"activation_offload\": true") && ran) {
            EXPECT_REAL(brought(&with.schedule, "activation on the host"), LAYERS * micro_batches * input, 0);
            EXPECT_REAL(brought(&with.schedule, "activation from the host"), LAYERS * micro_batches * input, 0);
            EXPECT_REAL(brought(&without.schedule, "activation on the host"), 0, 0);
            EXPECT_REAL((double)without.timeline.spaces[0].peak_bytes - (double)with.timeline.spaces[0].peak_bytes,
                        (LAYERS - 1) * input, 0);
            EXPECT(with.result.step_time_s > without.result.step_time_s); /* all copies are synchronous */
        }
        report_run_free(&with);
        report_run_free(&without);
    }
}

/* In fp32 on every rank: weight, gradient, two moments. Token ids go down and rows come up in fp32, their gradients go down; the head's copy of a tied table goes up and its gradient down in fp16. */
static void test_embedding(void)
{
    static struct report_run with, without;
    const double tables = (double)(VOCAB + SEQUENCE) * HIDDEN, table = (double)VOCAB * HIDDEN;
    const double tokens = MICRO_BATCH * SEQUENCE, rows = (tokens + SEQUENCE) * HIDDEN;
    for (int gpus = 1; gpus <= 2; gpus++) {
        bool ran = run_case(&without, gpus, 1, ", \"embedding_on_cpu\": false");
        if (run_case(&with, gpus, 1, "") && ran) {
            EXPECT_REAL(kept(&with.schedule, "embedding on the CPU"), 4 * tables * gpus, 0);
            EXPECT_REAL(kept(&with.schedule, "gradient of the embedding on the CPU"), 4 * tables * gpus, 0);
            EXPECT_REAL(kept(&with.schedule, "moments of the embedding on the CPU"), 8 * tables * gpus, 0);
            EXPECT_REAL(kept(&without.schedule, "embedding on the CPU"), 0, 0);
            EXPECT_REAL(brought(&with.schedule, "word table for the head"), 2 * table, 0);
            /* all chunks fit the device and stay there: what crosses PCIe is the embedding's */
            EXPECT_REAL(copied(&without.schedule, OP_COPY_H2D) + copied(&without.schedule, OP_COPY_D2H), 0, 0);
            EXPECT_REAL(copied(&with.schedule, OP_COPY_H2D), 4 * rows + 2 * table, 0);
            EXPECT_REAL(copied(&with.schedule, OP_COPY_D2H), 8 * tokens + 4 * rows + 2 * table, 0);
        }
        report_run_free(&with);
        report_run_free(&without);
    }
}

TEST_MAIN(TEST(test_activations), TEST(test_embedding))
