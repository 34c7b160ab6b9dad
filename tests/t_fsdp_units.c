/* Units of FSDP: when shards of gradients come and go, and what a step of two layers holds at its fullest, by hand. */
#include "sim/model/layer.h"
#include "tests/lower_run.h"

/* Two devices, two layers, no table of positions worth mentioning. */
#define MODEL                                                                                                          \
    "{\"family\":\"gpt\",\"layers\":2,\"hidden\":512,\"heads\":8,\"ffn\":2048,\"vocab\":1000,\"max_sequence\":128,"    \
    "\"dropout\":0,\"attention_dropout\":0,\"tied_head\":false}"
#define HEAD                                                                                                           \
    "{\"schema\":\"memwall.scenario/1\",\"name\":\"units\",\"model\":" MODEL ",\"machine\":\"dgx-a100-80gb\","         \
    "\"gpus\":2,"

/* The op that acquires the index-th buffer of that label on a device, and the one that releases it; SCHED_NONE where none does. */
struct life {
    uint32_t buffer, acquired, released, acquires;
};

static struct life life_of(const struct schedule *s, uint32_t buffer)
{
    struct life life = { .buffer = buffer, .acquired = SCHED_NONE, .released = SCHED_NONE };
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        for (uint32_t k = 0; k < op->acquire_count; k++) {
            if (sched_acquires(s, op)[k] == buffer) {
                life.acquired = i;
                life.acquires++;
            }
        }
        for (uint32_t k = 0; k < op->release_count; k++) {
            life.released = sched_releases(s, op)[k] == buffer ? i : life.released;
        }
    }
    return life;
}

static bool is_shard(const struct schedule *s, uint32_t buffer)
{
    const char *label = sched_label(s, s->buffers[buffer].label);
    return s->buffers[buffer].buffer_class == BUFFER_GRADIENT && strstr(label, "before") == NULL &&
           strstr(label, "flat") == NULL;
}

/* Each shard begins with a reduction of the first micro-batch and ends behind the last of the optimizer, whatever is accumulated or repeated. */
static void test_shards_are_made_by_the_reduction(void)
{
    for (int zero = 2; zero <= 3; zero++) {
        for (int micro_batches = 1; micro_batches <= 3; micro_batches += 2) {
            for (int full = 0; full < 2; full++) {
                struct run run;
                run_format(&run,
                           HEAD "\"software\":{\"base\":\"deepspeed\",\"memory\":{\"gradients_as_made\":true},"
                                "\"communication\":{\"bucket_MB\":0}},\"training\":{\"global_batch\":%d},"
                                "\"parallel\":{\"data\":2,\"zero_stage\":%d},\"recompute\":\"%s\"}",
                           2 * micro_batches, zero, full ? "full" : "none");
                const struct schedule *s = &run.schedule;
                uint32_t shards = 0, last_backward = 0;
                for (uint32_t i = 0; i < s->op_count; i++) {
                    last_backward = s->ops[i].phase == PHASE_BACKWARD ? i : last_backward;
                }
                for (uint32_t b = 0; b < s->buffer_count; b++) {
                    if (!is_shard(s, b)) {
                        continue;
                    }
                    struct life life = life_of(s, b);
                    EXPECT_INT(s->buffers[b].flags, 0);
                    EXPECT_INT(life.acquires, 1);
                    EXPECT(life.acquired != SCHED_NONE && life.released != SCHED_NONE);
                    EXPECT_INT(s->ops[life.acquired].opcode, OP_REDUCE_SCATTER);
                    EXPECT(micro_batches == 1 || life.acquired < last_backward); /* of the first micro-batch */
                    EXPECT_INT(s->ops[life.released].phase, PHASE_OPTIMIZER);
                    shards++;
                }
                EXPECT_INT(shards, 4); /* embedding, two layers, head */
                run_free(&run);
            }
        }
    }
}

/* What is not reduced over replicas, or by software that keeps its shards, is there all step long. */
static void test_other_gradients_stay(void)
{
    static const struct {
        const char *software, *parallel;
    } rows[] = {
        { "\"deepspeed\"", "\"data\":2,\"zero_stage\":3" },
        { "\"torchtitan\"", "\"data\":2,\"zero_stage\":1" },
        { "\"torchtitan\"", "\"data\":1,\"tensor\":2,\"zero_stage\":3" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct run run;
        run_format(&run, HEAD "\"software\":%s,\"training\":{\"global_batch\":4},\"parallel\":{%s}}", rows[i].software,
                   rows[i].parallel);
        uint32_t shards = 0;
        for (uint32_t b = 0; b < run.schedule.buffer_count; b++) {
            if (is_shard(&run.schedule, b)) {
                EXPECT_INT(run.schedule.buffers[b].flags, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END);
                shards++;
            }
        }
        EXPECT(shards >= 4);
        run_free(&run);
    }
}

/* ---- units of FSDP1: the fullest instant by hand ---- */

/* h 512, 4 h, 128 tokens of 8 heads. Layer: 12 h^2 + 13 h; embedding: 1000 words, 128 positions; head: its own table, the norm. */
static const double LAYER = 12.0 * 512 * 512 + 13.0 * 512, EMBEDDING = (1000.0 + 128) * 512,
                    HEAD_UNIT = 1000.0 * 512 + 2 * 512, ROWS = 128.0 * 512;
/* Saved of a layer: 2 (input) + 2 (its norm's output) + 6 (queries, keys, values) + 2 (context) + 2 + 2 (the other norm) + 8 + 8 (around GELU) bytes a value, and 4 a row and head of statistics. */
static const double SAVED = 32 * ROWS + 4.0 * 128 * 8;

static double units_peak(int gpus, int micro_batches, bool full)
{
    struct run run;
    run_format(&run,
               "{\"schema\":\"memwall.scenario/1\",\"name\":\"units\",\"model\":" MODEL
               ",\"machine\":\"dgx-a100-80gb\",\"gpus\":%d,\"software\":{\"base\":\"megatron-flash\","
               "\"numbers\":{\"vocab_multiple\":0},\"bytes_per_parameter\":{\"weight\":4,\"gathered\":2,\"gradient\":4,"
               "\"reduce\":2,\"master\":0,\"moments\":8},\"communication\":{\"flat_units\":true,\"bucket_MB\":0},"
               "\"memory\":{\"gradients_as_made\":true,\"nccl_buffers\":false,\"runtime_memory\":false}},"
               "\"training\":{\"global_batch\":%d,\"precision\":\"bf16\"},\"parallel\":{\"data\":%d,\"zero_stage\":3},"
               "\"recompute\":\"%s\"}",
               gpus, gpus * micro_batches, gpus, full ? "full" : "none");
    double peak = (double)peak_of(&run, 0);
    run_free(&run);
    return peak;
}

/* The end of the last layer's backward is the fullest instant: between steps 12 bytes a parameter over two devices; the shards of gradients that are there, 4; its weights and those of the layer
 * before, gathered ahead, 2 each; its gradients one by one and joined, 2 each; what the layer before saved, and the gradient that leaves it (a checkpoint: its input and output, and the gradients of both). */
static void test_peak_of_two_layers(void)
{
    double all = 2 * LAYER + EMBEDDING + HEAD_UNIT, unit = 2 * (4 * LAYER), rest = 12 * all / 2;
    double head = 4 * HEAD_UNIT / 2, boundary = 2 * ROWS;
    EXPECT_REAL(units_peak(2, 1, false), rest + head + unit + SAVED + boundary, 0);
    /* Repeated: the first layer's end, where the embedding comes ahead and the last layer's shard is as large as the weights that did. */
    EXPECT_REAL(units_peak(2, 1, true), rest + head + unit + 2 * EMBEDDING + 4 * boundary, 0);
    /* From the second micro-batch on all shards are there. */
    EXPECT_REAL(units_peak(2, 3, false), rest + 4 * all / 2 + unit + SAVED + boundary, 0);
    EXPECT_REAL(units_peak(2, 2, true), rest + 4 * all / 2 + unit + boundary + 4 * boundary, 0);
    /* Alone: whole states and gradients, weights cast for the pass, nothing ahead: the first layer's end, when the last one's gradient is there. */
    EXPECT_REAL(units_peak(1, 1, false), 12 * all + 4 * (HEAD_UNIT + LAYER) + 6 * LAYER + boundary, 0);
    EXPECT_REAL(units_peak(1, 2, true), 12 * all + 4 * all + 6 * LAYER + boundary + 4 * boundary, 0);
}

/* ---- the layer graph's part ---- */

static struct layer_shape shape_of(const struct model *model, int64_t batch, int64_t sequence, int64_t tensor)
{
    return (struct layer_shape){ .micro_batch = batch,
                                 .sequence = sequence,
                                 .tensor = tensor,
                                 .sequence_parallel = tensor > 1,
                                 .context = 1,
                                 .dtype = DTYPE_BF16,
                                 .padded_vocab = model_padded_vocab(model, tensor, 0),
                                 .flash_attention = true,
                                 .fused_kernels = true,
                                 .loss = LOSS_HALF,
                                 .gradient_bytes = 4 };
}

static struct layer_graph graph_of(const struct model *model, enum layer_kind kind, const struct layer_shape *shape,
                                   struct arena *arena)
{
    struct layer_graph graph;
    struct error error = { 0 };
    EXPECT_INT(layer_graph_build(&graph, model, kind, shape, arena, &error), STATUS_OK);
    return graph;
}

static struct model library(const char *name)
{
    struct model model = { 0 };
    EXPECT(model_library_find(name, &model));
    return model;
}

/* Where weights are large the fullest op of a backward is the last weight gradient: 2 bytes a weight of the four products; 6 + 2 + 2 bytes a value of gradients (of the three, of their input, of what
 * goes round); all that was saved is gone but the layer's input and the first norm's output, 4 bytes a value. Saved tensors of many tokens weigh more than gradients: then the flow stays below
 * short-lived tensors and gradients counted apart. */
static void test_backward_flow(void)
{
    struct arena arena = { 0 };
    struct model m = library("llama-3-8b");
    double h = 4096, f = 14336, key = 1024, tokens = 128;
    struct layer_shape shape = shape_of(&m, 1, 128, 1);
    shape.qkv_copied = true;
    struct layer_graph graph = graph_of(&m, LAYER_TRANSFORMER, &shape, &arena);
    double products = h * (h + 2 * key) + h * h + 3 * h * f;
    double gradients = tokens * (2 * (h + 2 * key) + 2 * h + 2 * h);
    EXPECT_REAL(graph.backward_flow_bytes, 2 * products + gradients - (graph.saved_bytes_none - 4 * tokens * h), 0);
    shape.sequence = 8192;
    graph = graph_of(&m, LAYER_TRANSFORMER, &shape, &arena);
    EXPECT(graph.backward_flow_bytes < graph.backward_transient_bytes + 2 * products);
    EXPECT(graph.backward_flow_bytes > 0);
    arena_free(&arena);
}

/* Bytes a value that the habits of modules add, of 2 x 128 tokens; h 4096, f 14336. */
static void test_habits(void)
{
    struct arena arena = { 0 };
    struct model m = library("llama-3-8b");
    double tokens = 2 * 128, h = 4096, f = 14336, key = 1024, logits = 2 * tokens * (double)m.vocab;
    struct layer_shape shape = shape_of(&m, 2, 128, 1);
    double plain = graph_of(&m, LAYER_TRANSFORMER, &shape, &arena).saved_bytes_none;
    shape.qkv_copied = true; /* no unrotated queries and keys */
    EXPECT_REAL(graph_of(&m, LAYER_TRANSFORMER, &shape, &arena).saved_bytes_none, plain - 2 * tokens * (h + key), 0);
    shape.context_copied = true; /* the context twice */
    plain += 2 * tokens * (h - h - key);
    EXPECT_REAL(graph_of(&m, LAYER_TRANSFORMER, &shape, &arena).saved_bytes_none, plain, 0);
    shape.gate_apart = true; /* silu(gate) */
    plain += 2 * tokens * f;
    EXPECT_REAL(graph_of(&m, LAYER_TRANSFORMER, &shape, &arena).saved_bytes_none, plain, 0);
    shape.norm_fp32 = true; /* fused norms are not of primitives */
    EXPECT_REAL(graph_of(&m, LAYER_TRANSFORMER, &shape, &arena).saved_bytes_none, plain, 0);
    shape.fused_kernels = shape.norm_fp32 = false;
    plain = graph_of(&m, LAYER_TRANSFORMER, &shape, &arena).saved_bytes_none;
    shape.norm_fp32 = true; /* two norms: the normalised rows in fp32, 4 more */
    EXPECT_REAL(graph_of(&m, LAYER_TRANSFORMER, &shape, &arena).saved_bytes_none, plain + 2 * 4 * tokens * h, 0);
    shape.fused_kernels = true;
    double once = graph_of(&m, LAYER_HEAD, &shape, &arena).forward_transient_bytes;
    shape.loss = LOSS_HALF_COPIED;
    EXPECT_REAL(graph_of(&m, LAYER_HEAD, &shape, &arena).forward_transient_bytes, once + logits, 0);
    shape.micro_batch = 1;
    double one = graph_of(&m, LAYER_TRANSFORMER, &shape, &arena).saved_bytes_none;
    shape.context_copied = false; /* one sample: both orders are the same */
    EXPECT_REAL(graph_of(&m, LAYER_TRANSFORMER, &shape, &arena).saved_bytes_none, one, 0);
    arena_free(&arena);
}

/* Gathered inputs lie in the modules' buffer, 2 bytes a value of the whole sequence, and are short-lived no more; so does the addend of unfused scores. */
static void test_module_buffer(void)
{
    struct arena arena = { 0 };
    struct model m = library("gpt3-175b");
    double whole = 2.0 * 2048 * 12288, scores = 2.0 * 96 / 8 * 2048 * 2048;
    struct layer_shape shape = shape_of(&m, 1, 2048, 8);
    const struct layer_graph without = graph_of(&m, LAYER_TRANSFORMER, &shape, &arena);
    shape.module_buffer = true;
    struct layer_graph graph = graph_of(&m, LAYER_TRANSFORMER, &shape, &arena);
    EXPECT_REAL(without.module_buffer_bytes, 0, 0);
    EXPECT_REAL(graph.module_buffer_bytes, whole, 0);
    EXPECT(graph.backward_transient_bytes < without.backward_transient_bytes);
    shape.flash_attention = false;
    EXPECT_REAL(graph_of(&m, LAYER_TRANSFORMER, &shape, &arena).module_buffer_bytes, scores, 0);
    shape = shape_of(&m, 1, 2048, 1);
    shape.module_buffer = shape.sequence_parallel = true;
    EXPECT_REAL(graph_of(&m, LAYER_TRANSFORMER, &shape, &arena).module_buffer_bytes, 0, 0);
    shape.module_buffer_alone = true;
    EXPECT_REAL(graph_of(&m, LAYER_TRANSFORMER, &shape, &arena).module_buffer_bytes, whole, 0);
    arena_free(&arena);
    /* In a step: one for all layers, all step long. */
    struct run run;
    run_format(&run, HEAD "\"software\":\"galvatron\",\"training\":{\"global_batch\":2,\"precision\":\"bf16\"},"
                          "\"parallel\":{\"tensor\":2,\"sequence_parallel\":true}}");
    uint32_t found = 0;
    for (uint32_t b = 0; b < run.schedule.buffer_count; b++) {
        const struct sched_buffer *buffer = &run.schedule.buffers[b];
        if (strcmp(sched_label(&run.schedule, buffer->label), "modules' buffer") == 0) {
            EXPECT_REAL((double)buffer->bytes, 2 * ROWS, 0);
            EXPECT_INT(buffer->flags, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END);
            found++;
        }
    }
    EXPECT_INT(found, 1);
    run_free(&run);
}

static void expect_refused(const char *software, const char *words)
{
    struct run run;
    char text[1024];
    snprintf(text, sizeof text, HEAD "\"software\":%s}", software);
    run_scenario(&run, text);
    EXPECT_INT(run.status, STATUS_BAD_INPUT);
    EXPECT(strstr(run.error.message, words) != NULL);
    run_free(&run);
}

/* Of two generations, and keys that do nothing by themselves. */
static void test_refusals(void)
{
    expect_refused("{\"base\":\"torchtitan\",\"communication\":{\"flat_units\":true}}", "FSDP2");
    expect_refused("{\"base\":\"megatron\",\"communication\":{\"norm_unit\":true}}", "are of flat_units");
    expect_refused("{\"base\":\"megatron\",\"communication\":{\"table_units\":true}}", "are of flat_units");
    expect_refused("{\"base\":\"megatron\",\"memory\":{\"module_buffer_alone\":true}}", "is of module_buffer");
}

TEST_MAIN(TEST(test_shards_are_made_by_the_reduction), TEST(test_other_gradients_stay), TEST(test_peak_of_two_layers),
          TEST(test_backward_flow), TEST(test_habits), TEST(test_module_buffer), TEST(test_refusals))
