/* The layer graph against closed forms: Korthikanti's activation bytes, SC21's FLOPs, parameter shares, and where
 * Megatron's collectives stand. */
#include "sim/model/layer.h"
#include "tests/test.h"

static struct arena arena;

static struct layer_shape shape_of(const struct model *model, int64_t batch, int64_t sequence, int64_t tensor, bool sp)
{
    return (struct layer_shape){ .micro_batch = batch,
                                 .sequence = sequence,
                                 .tensor = tensor,
                                 .sequence_parallel = sp,
                                 .context = 1,
                                 .dtype = DTYPE_FP16,
                                 .padded_vocab = model_padded_vocab(model, tensor, 0),
                                 .fused_kernels = true,
                                 .gradient_bytes = 4 };
}

static struct layer_graph graph_of(const struct model *model, enum layer_kind kind, const struct layer_shape *shape)
{
    struct layer_graph graph;
    struct error error = { 0 };
    if (layer_graph_build(&graph, model, kind, shape, &arena, &error) != STATUS_OK) {
        TEST_FAIL_("%s: %s", model->name, error.message);
    }
    return graph;
}

static struct model library(const char *name)
{
    struct model model = { 0 };
    EXPECT(model_library_find(name, &model));
    return model;
}

/* Korthikanti et al. 2022, equations 1, 2, 4, 6 and table 2: exact. */
static void test_saved_bytes(void)
{
    static const char *const names[] = { "megatron-22b", "gpt3-175b", "gpt2", "bert-large", "megatron-1t" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct model m = library(names[i]);
        double s = 512, b = 4, h = (double)m.hidden, a = (double)m.heads;
        for (int64_t tensor = 1; tensor <= 4; tensor *= 2) {
            double t = (double)tensor, sbh = s * b * h, scores = 5 * a * s / h;
            struct layer_shape shape = shape_of(&m, 4, 512, tensor, false);
            struct layer_graph graph = graph_of(&m, LAYER_TRANSFORMER, &shape);
            EXPECT_REAL(graph.saved_bytes_none, sbh * (10 + 24 / t + scores / t), 0);
            EXPECT_REAL(graph.saved_bytes_selective, sbh * (10 + 24 / t), 0);
            EXPECT_REAL(graph.saved_bytes_full, 2 * sbh, 0);
            EXPECT_REAL(graph.boundary_bytes, 2 * sbh, 0);
            shape.fused_kernels = false; /* the same tensors, more kernels */
            graph = graph_of(&m, LAYER_TRANSFORMER, &shape);
            EXPECT_REAL(graph.saved_bytes_none, sbh * (10 + 24 / t + scores / t), 0);
            shape.sequence_parallel = true;
            graph = graph_of(&m, LAYER_TRANSFORMER, &shape);
            EXPECT_REAL(graph.saved_bytes_none, sbh / t * (34 + scores), 0);
            EXPECT_REAL(graph.saved_bytes_selective, 34 * sbh / t, 0);
            EXPECT_REAL(graph.saved_bytes_full, 2 * sbh / t, 0);
            EXPECT_REAL(graph.boundary_bytes, 2 * sbh / t, 0);
        }
    }
}

/* Flash attention keeps q, k, v, o and one fp32 statistic a row and head: 5 a s^2 b goes, 4 s b a comes. */
static void test_saved_flash(void)
{
    struct model m = library("gpt3-175b");
    struct layer_shape shape = shape_of(&m, 2, 2048, 8, true);
    shape.flash_attention = true;
    struct layer_graph graph = graph_of(&m, LAYER_TRANSFORMER, &shape);
    double sbh = 2048.0 * 2 * 12288;
    EXPECT_REAL(graph.saved_bytes_none, 34 * sbh / 8 + 4.0 * 2048 * 2 * 96 / 8, 0);
    EXPECT_REAL(graph.saved_bytes_selective, graph.saved_bytes_none, 0);
}

/* llama at 16 bits, no masks, flash: input 2, norm outputs 2 + 2, residual 2, q 2, k and v 4g (g = kv heads /
 * heads), o 2, gate, up and product 6 f/h, statistics 4a/h. */
static void test_saved_llama(void)
{
    struct model m = library("llama-3-8b");
    struct layer_shape shape = shape_of(&m, 1, 8192, 1, false);
    shape.dtype = DTYPE_BF16;
    shape.flash_attention = true;
    struct layer_graph graph = graph_of(&m, LAYER_TRANSFORMER, &shape);
    double tokens = 8192, h = 4096, f = 14336;
    /* The value is a view of the one qkv product: queries and keys before their rotation stay with it. */
    double views = tokens * (2 * h + 2 * 1024);
    double fused = views + tokens * (8 * h + 2 * h + 4 * 1024 + 2 * h + 6 * f + 4 * 32);
    EXPECT_REAL(graph.saved_bytes_none, fused, 0);
    /* Eager: silu(gate) 2f; keys and values repeated to all heads; both norms keep fp32 rows (2 more than the 16-bit
     * ones) and normalised rows (2). */
    shape.fused_kernels = false;
    graph = graph_of(&m, LAYER_TRANSFORMER, &shape);
    fused -= views; /* separate products: nothing is a view */
    EXPECT_REAL(graph.saved_bytes_none, fused + tokens * (2 * f + 4 * (4096 - 1024) + 2 * 4 * h), 0);
    /* torchtitan's per-op policy: input, q, v, gate and ffn2 outputs (every second projection), attention output and
     * statistics. */
    shape.fused_kernels = true;
    shape.selective_ops = true;
    graph = graph_of(&m, LAYER_TRANSFORMER, &shape);
    EXPECT_REAL(graph.saved_bytes_none, fused, 0);
    double kept = tokens * (2 * h + 2 * h + 2 * 1024 + 2 * f + 2 * h + 4 * 32);
    EXPECT_REAL(graph.saved_bytes_selective, kept, 0); /* a compiler drops the ffn2 output: nothing reads it again */
    shape.fused_kernels = false;
    EXPECT_REAL(graph_of(&m, LAYER_TRANSFORMER, &shape).saved_bytes_selective, kept + tokens * 2 * h, 0);
}

/* Autocast: 16 B a score more forward (mask writes 2, softmax and dropout move 2 + 2 each, the cast back reads 4 and writes 2), 18 B more backward (the cast of the gradient 2 + 4, dropout 2 + 2,
 * softmax 4 + 2, mask 2); the softmax kept is 2 B larger; products are as they were. */
static void test_fp32_softmax(void)
{
    struct model m = library("gpt2_1b");
    struct layer_shape shape = shape_of(&m, 4, 1024, 1, false);
    double moved[2][2] = { { 0 } }, saved[2], flops[2], scores = 4.0 * 16 * 1024 * 1024;
    for (unsigned wide = 0; wide < 2; wide++) {
        shape.fused_kernels = false;
        shape.fp32_softmax = wide;
        struct layer_graph graph = graph_of(&m, LAYER_TRANSFORMER, &shape);
        for (uint32_t i = 0; i < graph.op_count; i++) {
            moved[wide][i >= graph.forward_count] += graph.ops[i].kernel.bytes_read + graph.ops[i].kernel.bytes_written;
        }
        saved[wide] = graph.saved_bytes_none;
        flops[wide] = graph.forward_flops + graph.backward_flops;
    }
    EXPECT(m.attention_dropout > 0);
    EXPECT_REAL(moved[1][0] - moved[0][0], 16 * scores, 1e-12);
    EXPECT_REAL(moved[1][1] - moved[0][1], 18 * scores, 1e-12);
    EXPECT_REAL(saved[1] - saved[0], 2 * scores, 1e-12);
    EXPECT_REAL(flops[1], flops[0], 0);
    shape.flash_attention = true; /* keeps no scores: nothing to widen */
    struct layer_graph flash = graph_of(&m, LAYER_TRANSFORMER, &shape);
    shape.fp32_softmax = false;
    EXPECT_REAL(graph_of(&m, LAYER_TRANSFORMER, &shape).saved_bytes_none, flash.saved_bytes_none, 0);
}

static void test_saved_variants(void)
{
    struct model m = library("gpt2-medium");
    m.dropout = m.attention_dropout = 0;
    struct layer_shape shape = shape_of(&m, 2, 1024, 1, false);
    double sbh = 1024.0 * 2 * 1024, scores = 1024.0 * 1024 * 2 * 16;
    EXPECT_REAL(graph_of(&m, LAYER_TRANSFORMER, &shape).saved_bytes_none, 32 * sbh + 2 * scores, 0);
    m.activation = MODEL_RELU; /* only its output is needed */
    EXPECT_REAL(graph_of(&m, LAYER_TRANSFORMER, &shape).saved_bytes_none, 24 * sbh + 2 * scores, 0);
    m.activation = MODEL_GELU;
    m.parallel_residual = true; /* both norms read one tensor */
    EXPECT_REAL(graph_of(&m, LAYER_TRANSFORMER, &shape).saved_bytes_none, 30 * sbh + 2 * scores, 0);
    m.parallel_residual = false;
    shape.dtype = DTYPE_FP32;
    EXPECT_REAL(graph_of(&m, LAYER_TRANSFORMER, &shape).saved_bytes_none, 64 * sbh + 4 * scores, 0);
}

/* Section 4.3: embedding mask s b h / t; head 4 s b h / t (1 + v / h). */
static void test_saved_ends(void)
{
    struct model m = library("gpt3-175b");
    double sbh = 2048.0 * 12288, v = 51200, h = 12288;
    struct layer_shape shape = shape_of(&m, 1, 2048, 8, true);
    EXPECT_REAL(graph_of(&m, LAYER_EMBEDDING, &shape).saved_bytes_none, sbh / 8, 0);
    EXPECT_REAL(graph_of(&m, LAYER_HEAD, &shape).saved_bytes_none, 4 * sbh / 8 * (1 + v / h), 1e-15);
    shape.sequence_parallel = false;
    EXPECT_REAL(graph_of(&m, LAYER_EMBEDDING, &shape).saved_bytes_none, sbh, 0);
    EXPECT_REAL(graph_of(&m, LAYER_HEAD, &shape).saved_bytes_none, 4 * sbh + 4 * 2048.0 * v / 8, 0);
}

/* Forward + backward FLOPs of all layers and ranks are the model's. */
static void test_flops(void)
{
    struct model model;
    for (uint32_t i = 0; i < model_library_count(); i++) {
        model_library_get(i, &model);
        if (!model_is_uniform(&model)) {
            continue; /* t_model_t5_swin.c */
        }
        for (int fused = 0; fused < 2; fused++) {
            int64_t s = model.family == MODEL_VIT ? model.max_sequence : 128;
            struct layer_shape shape = shape_of(&model, 2, s, 1, false);
            shape.fused_kernels = fused == 1;
            double flops = 0;
            for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
                struct layer_graph graph = graph_of(&model, (enum layer_kind)kind, &shape);
                double times = kind == LAYER_TRANSFORMER ? (double)model.layers : 1;
                flops += times * (graph.forward_flops + graph.backward_flops);
                if (kind == LAYER_TRANSFORMER) {
                    EXPECT_REAL(graph.backward_flops, 2 * graph.forward_flops, 1e-14);
                }
            }
            EXPECT_REAL(flops, model_step_flops(&model, 2, (double)s), 1e-13);
        }
        arena_free(&arena);
    }
    struct model m = library("gpt3-175b"); /* every rank does one t-th */
    struct layer_shape one = shape_of(&m, 1, 2048, 1, false), eight = shape_of(&m, 1, 2048, 8, true);
    for (int kind = LAYER_TRANSFORMER; kind <= LAYER_HEAD; kind++) {
        EXPECT_REAL(graph_of(&m, (enum layer_kind)kind, &eight).forward_flops * 8,
                    graph_of(&m, (enum layer_kind)kind, &one).forward_flops, 1e-14);
    }
    /* Causal flash attention: s (s + 1) / 2 of s^2 pairs; its backward makes five products of the forward's two. */
    struct layer_graph unfused = graph_of(&m, LAYER_TRANSFORMER, &one);
    one.flash_attention = true;
    struct layer_graph flash = graph_of(&m, LAYER_TRANSFORMER, &one);
    double pairs = 2048.0 * 2048 * 12288, half = 2048.0 * 2049 / 2 * 12288;
    EXPECT_REAL(flash.forward_flops, unfused.forward_flops - 4 * pairs + 4 * half, 1e-14);
    EXPECT_REAL(flash.backward_flops, unfused.backward_flops - 8 * pairs + 10 * half, 1e-14);
}

/* t ranks together hold every parameter once and the replicated ones t times. */
static void test_parameters(void)
{
    struct model model;
    for (uint32_t i = 0; i < model_library_count(); i++) {
        model_library_get(i, &model);
        if (!model_is_uniform(&model)) {
            continue; /* t_model_t5_swin.c */
        }
        for (int64_t t = 1; t <= 8; t *= 2) {
            if (model.heads % t != 0) {
                continue;
            }
            int64_t s = model.family == MODEL_VIT ? model.max_sequence : 128;
            struct layer_shape shape = shape_of(&model, 1, s, t, false);
            double total = 0, padding = (double)(shape.padded_vocab - model.vocab);
            for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
                struct layer_graph graph = graph_of(&model, (enum layer_kind)kind, &shape);
                double times = kind == LAYER_TRANSFORMER ? (double)model.layers : 1;
                total += times *
                         ((graph.parameters - graph.replicated_parameters) * (double)t + graph.replicated_parameters);
                if (model.vocab > 0 && kind == LAYER_EMBEDDING) {
                    total -= padding * (double)model.hidden;
                }
                if (kind == LAYER_HEAD && model_has_logits(&model)) {
                    total -= (model.tied_head ? 0 : padding * (double)model.hidden) + (model.mlm_head ? padding : 0);
                }
            }
            EXPECT_REAL(total, (double)model_parameters(&model), 0);
        }
        arena_free(&arena);
    }
}

/* "name:collective:pass" of each collective, in order; '*' marks an overlappable one. */
static void collectives(const struct layer_graph *graph, char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < graph->op_count; i++) {
        const struct layer_op *op = &graph->ops[i];
        if (op->collective != LAYER_NO_COLLECTIVE) {
            length += (size_t)snprintf(text + length, size - length, "%s%s%s>%s;", i < graph->forward_count ? "" : "-",
                                       layer_collective_word(op->collective), op->overlappable ? "*" : "",
                                       i + 1 < graph->op_count ? graph->ops[i + 1].name : "end");
        }
    }
}

static void test_collectives(void)
{
    struct model m = library("gpt3-175b");
    char text[2048];
    struct layer_shape shape = shape_of(&m, 1, 2048, 8, false);
    struct layer_graph graph = graph_of(&m, LAYER_TRANSFORMER, &shape);
    collectives(&graph, text, sizeof text);
    EXPECT_TEXT(text, "all_reduce>attention_bias_dropout_add;all_reduce>ffn_bias_dropout_add;"
                      "-all_reduce*>ffn1_weight_gradient;-all_reduce*>qkv_weight_gradient;");
    double bytes = 2048.0 * 12288 * 2;
    for (uint32_t i = 0; i < graph.op_count; i++) {
        if (graph.ops[i].collective != LAYER_NO_COLLECTIVE) {
            EXPECT_REAL(graph.ops[i].collective_bytes, bytes, 0);
        }
    }
    shape.sequence_parallel = true;
    graph = graph_of(&m, LAYER_TRANSFORMER, &shape);
    collectives(&graph, text, sizeof text);
    EXPECT_TEXT(
        text, "all_gather>qkv_gemm;reduce_scatter>attention_bias_dropout_add;all_gather>ffn1_gemm;"
              "reduce_scatter>ffn_bias_dropout_add;"
              "-all_gather>ffn2_input_gradient;-all_gather*>ffn1_input_gradient;-reduce_scatter*>ffn1_weight_gradient;"
              "-all_gather>projection_input_gradient;-all_gather*>qkv_input_gradient;"
              "-reduce_scatter*>qkv_weight_gradient;");
    graph = graph_of(&m, LAYER_HEAD, &shape);
    collectives(&graph, text, sizeof text);
    EXPECT_TEXT(
        text, "all_gather>logits_gemm;all_reduce>logits_shift;all_reduce>logits_exponential_sum;"
              "all_reduce>softmax_divide;-all_gather*>logits_input_gradient;-reduce_scatter*>logits_weight_gradient;");
    graph = graph_of(&m, LAYER_EMBEDDING, &shape);
    collectives(&graph, text, sizeof text);
    EXPECT_TEXT(text, "reduce_scatter>position_add;-all_gather>word_gradient;");
    shape = shape_of(&m, 1, 2048, 1, true); /* alone: none */
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
        graph = graph_of(&m, (enum layer_kind)kind, &shape);
        collectives(&graph, text, sizeof text);
        EXPECT_TEXT(text, "");
    }
}

static uint32_t launches(const struct layer_graph *graph, uint32_t first, uint32_t last)
{
    uint32_t sum = 0;
    for (uint32_t i = first; i < last; i++) {
        sum += graph->ops[i].collective == LAYER_NO_COLLECTIVE ? graph->ops[i].kernel.launches : 0;
    }
    return sum;
}

/* Counted by hand from Megatron-LM's module code: norm, qkv, bias, QK, softmax, dropout, AV, copy, projection,
 * bias-dropout-add, norm, ffn1, bias-gelu, ffn2,
 * bias-dropout-add. Eager GPT-2: norm, qkv, three copies, QK, scale, mask, softmax, dropout, AV, copy,
 * projection, dropout, add, norm, ffn1, gelu, ffn2, dropout, add. */
static void test_launches(void)
{
    struct model m = library("gpt2-medium");
    struct layer_shape shape = shape_of(&m, 1, 1024, 1, false);
    struct layer_graph graph = graph_of(&m, LAYER_TRANSFORMER, &shape);
    EXPECT_INT(launches(&graph, 0, graph.forward_count), 15);
    uint32_t megatron = launches(&graph, graph.forward_count, graph.op_count);
    printf("     gpt2-medium layer, backward launches: megatron %u", megatron);
    shape.fused_kernels = false;
    graph = graph_of(&m, LAYER_TRANSFORMER, &shape);
    EXPECT_INT(launches(&graph, 0, graph.forward_count), 21);
    uint32_t eager = launches(&graph, graph.forward_count, graph.op_count);
    printf(", eager %u\n", eager);
    EXPECT(megatron >= 30 && megatron <= 50); /* about two for each forward one, and the gradients of 12 parameters */
    EXPECT(eager >= 35 && eager <= 55);
}

/* Megatron's fused softmax takes batches of a multiple of four; else five launches for one, and the same back. Its causal kernel reads half the scores. */
static void test_fused_softmax(void)
{
    struct model m = library("gpt2-medium"); /* 16 heads */
    struct layer_shape fits = shape_of(&m, 2, 1024, 8, false), misses = shape_of(&m, 1, 1024, 8, false);
    struct layer_graph fused = graph_of(&m, LAYER_TRANSFORMER, &fits), apart = graph_of(&m, LAYER_TRANSFORMER, &misses);
    EXPECT_INT(launches(&apart, 0, apart.forward_count), launches(&fused, 0, fused.forward_count) + 4);
    EXPECT_INT(launches(&apart, apart.forward_count, apart.op_count),
               launches(&fused, fused.forward_count, fused.op_count) + 4);
    EXPECT_REAL(apart.saved_bytes_none, fused.saved_bytes_none / 2, 0); /* what is saved stays as published */
    double scores = 4.0 * 1024 * 1024 * 2, read = 0;
    for (uint32_t i = 0; i < fused.forward_count; i++) {
        read += fused.ops[i].kernel.kernel_class == KERNEL_SOFTMAX ? fused.ops[i].kernel.bytes_read : 0;
    }
    EXPECT_REAL(read, scores * (1024.0 + 1) / 2048, 1e-12);
    m.position_rows = m.max_sequence = 4096;
    struct layer_shape longer = shape_of(&m, 2, 4096, 8, false);
    struct layer_graph beyond = graph_of(&m, LAYER_TRANSFORMER, &longer); /* rows above 2048 */
    EXPECT_INT(launches(&beyond, 0, beyond.forward_count), launches(&fused, 0, fused.forward_count) + 4);
}

static void test_weight_pass_apart(void)
{
    struct model m = library("gpt3-175b");
    struct layer_shape shape = shape_of(&m, 1, 2048, 8, true);
    struct layer_graph together = graph_of(&m, LAYER_TRANSFORMER, &shape);
    shape.separate_backward_weight = true;
    struct layer_graph apart = graph_of(&m, LAYER_TRANSFORMER, &shape);
    EXPECT_INT(apart.op_count, together.op_count);
    EXPECT_INT(apart.forward_count, together.forward_count);
    bool weights = false;
    for (uint32_t i = 0; i < apart.op_count; i++) {
        EXPECT(!(weights && apart.ops[i].pass != PASS_BACKWARD_WEIGHT));
        EXPECT(!apart.ops[i].overlappable);
        weights = weights || apart.ops[i].pass == PASS_BACKWARD_WEIGHT;
        EXPECT((apart.ops[i].pass == PASS_FORWARD) == (i < apart.forward_count));
    }
    EXPECT(weights);
    EXPECT_REAL(apart.backward_flops, together.backward_flops, 1e-14);
    EXPECT_REAL(apart.saved_bytes_none, together.saved_bytes_none, 0);
}

/* What is repeated: the attention core, or under the per-op policy all but kept GEMMs and attention. */
static void test_repeated(void)
{
    struct model m = library("megatron-22b");
    struct layer_shape shape = shape_of(&m, 4, 2048, 8, true);
    struct layer_graph graph = graph_of(&m, LAYER_TRANSFORMER, &shape);
    double flops = 0;
    for (uint32_t i = 0; i < graph.op_count; i++) {
        flops += graph.ops[i].attention_core ? graph.ops[i].kernel.flops : 0;
        EXPECT(!graph.ops[i].attention_core || i < graph.forward_count);
    }
    EXPECT_REAL(flops, 4.0 * 4 * 2048 * 2048 * 6144 / 8, 1e-15);
    m = library("llama-3-8b");
    shape = shape_of(&m, 1, 8192, 1, false);
    shape.flash_attention = shape.selective_ops = true;
    graph = graph_of(&m, LAYER_TRANSFORMER, &shape);
    char kept[512] = "";
    for (uint32_t i = 0; i < graph.forward_count; i++) {
        if (!graph.ops[i].attention_core) {
            strcat(strcat(kept, graph.ops[i].name), " ");
        }
    }
    EXPECT_TEXT(kept, "q_gemm v_gemm flash_attention gate_gemm ffn2_gemm ");
}

/* Peaks hold what they must: at least the largest tensor of the pass, and the forward that saves nothing less than
 * what it would have saved. */
static void test_transients(void)
{
    struct model m = library("gpt2-medium");
    struct layer_shape shape = shape_of(&m, 2, 1024, 1, false);
    struct layer_graph graph = graph_of(&m, LAYER_TRANSFORMER, &shape);
    double sbh = 1024.0 * 2 * 1024, scores = 2.0 * 16 * 2 * 1024 * 1024;
    EXPECT_REAL(graph.forward_transient_bytes, scores, 0); /* raw scores while the softmax runs */
    EXPECT(graph.backward_transient_bytes >= 2 * scores + 2 * sbh);
    EXPECT(graph.backward_transient_bytes <= 2 * scores + 10 * sbh);
    EXPECT(graph.forward_unsaved_peak_bytes < graph.saved_bytes_none);
    EXPECT(graph.forward_unsaved_peak_bytes >= 2 * scores);
    shape.flash_attention = true;
    graph = graph_of(&m, LAYER_TRANSFORMER, &shape);
    /* ffn: 8 sbh in, 8 out and the 2 of the residual are alive in the activation kernel. */
    EXPECT_REAL(graph.forward_unsaved_peak_bytes, 18 * sbh, 0);
    EXPECT_REAL(graph.forward_transient_bytes, 4 * sbh, 0); /* projection or ffn2 output, and the layer's */
    graph = graph_of(&m, LAYER_HEAD, &shape);
    double logits = 2.0 * 1024 * 50257;
    EXPECT_REAL(graph.forward_transient_bytes, 2 * logits, 0);
    EXPECT_REAL(graph.backward_transient_bytes, 2 * logits + 2 * sbh, 0);
    /* On 16-bit logits: half is kept, the logits live beside it, and the gradient takes its place. */
    double kept = graph.saved_bytes_none;
    shape.loss = LOSS_HALF;
    graph = graph_of(&m, LAYER_HEAD, &shape);
    EXPECT_REAL(graph.saved_bytes_none, kept - 2 * logits, 0);
    EXPECT_REAL(graph.forward_transient_bytes, 2 * logits, 0);
    EXPECT(graph.backward_transient_bytes <= 4 * sbh);
}

static void test_gemm_records(void)
{
    struct model m = library("gpt3-175b");
    struct layer_shape shape = shape_of(&m, 1, 2048, 8, false);
    struct layer_graph graph = graph_of(&m, LAYER_TRANSFORMER, &shape);
    unsigned seen = 0;
    for (uint32_t i = 0; i < graph.op_count; i++) {
        const struct kernel *k = &graph.ops[i].kernel;
        if (strcmp(graph.ops[i].name, "ffn1_gemm") == 0) {
            seen++;
            EXPECT(k->m == 2048 && k->n == 6144 && k->k == 12288 && k->batch == 1 && k->layout == GEMM_TN);
            EXPECT_REAL(k->flops, 2.0 * 2048 * 6144 * 12288, 0);
            EXPECT_REAL(k->bytes_read, 2.0 * (2048.0 * 12288 + 12288.0 * 6144), 0);
        } else if (strcmp(graph.ops[i].name, "ffn1_input_gradient") == 0) {
            seen++;
            EXPECT(k->m == 2048 && k->n == 12288 && k->k == 6144 && k->layout == GEMM_NN);
        } else if (strcmp(graph.ops[i].name, "ffn1_weight_gradient") == 0) {
            seen++;
            EXPECT(k->m == 6144 && k->n == 12288 && k->k == 2048 && k->layout == GEMM_NT);
            EXPECT_INT(k->flags, KERNEL_FLAG_ACCUMULATE);
            EXPECT_REAL(k->bytes_written, 4.0 * 6144 * 12288, 0); /* fp32 main gradient */
            EXPECT_INT(graph.ops[i].pass, PASS_BACKWARD_WEIGHT);
        } else if (strcmp(graph.ops[i].name, "scores_gemm") == 0) {
            seen++;
            EXPECT(k->batch == 12 && k->m == 2048 && k->n == 2048 && k->k == 128);
        }
        if (graph.ops[i].collective == LAYER_NO_COLLECTIVE) {
            EXPECT(k->launches >= 1 && k->batch >= 1 && k->m >= 1 && k->n >= 1 && k->k >= 1);
        }
    }
    EXPECT_INT(seen, 4);
}

static void expect_refused(const struct model *model, const struct layer_shape *shape, const char *part)
{
    struct layer_graph graph;
    struct error error = { 0 };
    EXPECT(layer_graph_build(&graph, model, LAYER_TRANSFORMER, shape, &arena, &error) != STATUS_OK);
    EXPECT_PART(error.message, part);
}

static void test_refusals(void)
{
    struct model m = library("gpt2-medium");
    struct layer_shape good = shape_of(&m, 1, 1024, 1, false), bad = good;
    bad.tensor = 3;
    expect_refused(&m, &bad, "attention heads (16) must be divisible by the tensor-parallel degree 3");
    bad = good, bad.tensor = 0;
    expect_refused(&m, &bad, "tensor-parallel degree is 0");
    bad = good, bad.sequence = 2048;
    expect_refused(&m, &bad, "exceeds the 1024 learned positions of gpt2-medium");
    bad = good, bad.tensor = 8, bad.sequence = 1020, bad.sequence_parallel = true;
    expect_refused(&m, &bad, "the sequence length (1020) must be divisible");
    bad = good, bad.tensor = 2; /* 50257 is odd */
    bad.padded_vocab = 50257;
    expect_refused(&m, &bad, "the padded vocabulary (50257) must be divisible");
    bad = good, bad.padded_vocab = 50000;
    expect_refused(&m, &bad, "at least the model's 50257");
    bad = good, bad.micro_batch = INT64_MAX;
    expect_refused(&m, &bad, "the micro-batch is 9223372036854775807");
    bad = good, bad.context = 2;
    expect_refused(&m, &bad, "context-parallel degree 2");
    struct model vit = library("vit-huge");
    bad = shape_of(&vit, 1, 256, 1, false);
    expect_refused(&vit, &bad, "sees 256 patches and a class token: 257");
    struct model llama = library("llama-3-8b");
    bad = shape_of(&llama, 1, 1024, 16, false); /* 8 kv heads on 16 ranks: replicated */
    struct layer_graph graph = graph_of(&llama, LAYER_TRANSFORMER, &bad);
    EXPECT_REAL(graph.parameters, 2 * 4096.0 + 4096.0 * (256 + 2 * 128) + 256 * 4096.0 + 3 * 4096.0 * 14336 / 16, 0);
    /* Memory running out is an error, not a crash. */
    for (uint64_t n = 1; n <= 3; n++) {
        struct arena small = { .fail_after = n };
        struct error error = { 0 };
        good.separate_backward_weight = true;
        EXPECT_INT(layer_graph_build(&graph, &m, LAYER_TRANSFORMER, &good, &small, &error), STATUS_NO_MEMORY);
        arena_free(&small);
    }
}

static void test_padded_vocab(void)
{
    struct model m = library("gpt2");
    EXPECT_INT(model_padded_vocab(&m, 1, 128), 50304);
    EXPECT_INT(model_padded_vocab(&m, 8, 128), 51200);
    EXPECT_INT(model_padded_vocab(&m, 2, 0), 50258);
    EXPECT_INT(model_padded_vocab(&m, 1, 0), 50257);
}

TEST_MAIN(TEST(test_saved_bytes), TEST(test_saved_flash), TEST(test_saved_llama), TEST(test_fp32_softmax),
          TEST(test_saved_variants), TEST(test_saved_ends), TEST(test_flops), TEST(test_parameters),
          TEST(test_collectives), TEST(test_launches), TEST(test_fused_softmax), TEST(test_weight_pass_apart),
          TEST(test_repeated), TEST(test_transients), TEST(test_gemm_records), TEST(test_refusals),
          TEST(test_padded_vocab))
