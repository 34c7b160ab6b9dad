/* T5 and Swin: closed forms against the library's counts and the layers' graphs, FLOPs against a walk over the matrices, and what is refused.
 * The totals of Galvatron-BMW's table of models are printed beside ours, not demanded: how the paper rounds is unknown.
 */
#include "sim/base/arena.h"
#include "sim/model/layer.h"
#include "sim/model/model.h"
#include "sim/model/variant.h"
#include "sim/plan/plan.h"
#include "tests/test.h"

static struct model library(const char *name)
{
    struct model model = { 0 };
    EXPECT(model_library_find(name, &model));
    return model;
}

static void compare(const struct model *model)
{
    double count = (double)model_parameters(model), published = model->published_parameters;
    printf("%s: %.0f parameters, published %.4g (%+.3g %%)\n", model->name, count, published,
           100 * (count / published - 1));
}

/* Raffel et al. 2020, size large: no biases, norms of one vector, attention of heads x d_kv. */
static void test_t5_parameters(void)
{
    static const struct {
        const char *name;
        int64_t encoder, decoder, total;
    } known[] = { { "t5-large-32", 16, 16, 502746112 }, { "t5-large-48", 24, 24, 737668096 } };
    const int64_t h = 1024, heads = 16, inner = 16 * 64, ff = 4096, vocab = 32128;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct model m = library(known[i].name);
        EXPECT_INT(m.layers, known[i].encoder + known[i].decoder);
        EXPECT_INT(m.decoder_layers, known[i].decoder);
        int64_t total = 0;
        for (int64_t layer = 0; layer < m.layers; layer++) {
            int64_t expected = 4 * h * inner + 2 * h * ff + 2 * h;
            if (layer < known[i].encoder) {
                EXPECT_INT(expected, 12584960);
                expected += layer == known[i].encoder - 1 ? h : 0; /* the encoder's norm */
            } else {
                expected += 4 * h * inner + h;
            }
            EXPECT_INT(model_layer_parameters_at(&m, layer), expected);
            total += expected;
        }
        EXPECT_INT(model_layer_parameters(&m), 12584960);
        EXPECT_INT(model_embedding_parameters(&m), vocab * h + 2 * 32 * heads);
        EXPECT_INT(model_head_parameters(&m), h);
        EXPECT_INT(model_parameters(&m), total + vocab * h + 2 * 32 * heads + h);
        EXPECT_INT(model_parameters(&m), known[i].total); /* reckoned by hand */
        compare(&m);
    }
}

/* T5-512/4: the weights of t5-large, a decoder of 4 tokens (facts/galvatron-bmw.md D.1): its layers cost next to nothing. BERT- and ViT-xHuge: 12 h^2 + 13 h a layer. */
static void test_galvatron_table(void)
{
    struct model full = library("t5-large-48"), shortened = library("t5-512-4-48");
    EXPECT_INT(model_parameters(&shortened), model_parameters(&full));
    EXPECT_INT(shortened.max_sequence, 512);
    EXPECT_INT(shortened.decoder_sequence, 4);
    EXPECT_INT(full.decoder_sequence, 512);
    const int64_t h = 2560;
    static const char *const names[] = { "bert-xhuge", "vit-xhuge" };
    for (size_t i = 0; i < 2; i++) {
        struct model m = library(names[i]);
        EXPECT_INT(m.layers, 128);
        EXPECT_INT(model_layer_parameters(&m), 12 * h * h + 13 * h);
        compare(&m);
        EXPECT_REAL((double)model_parameters(&m), m.published_parameters, 0.01);
    }
}

/* Liu et al. 2021: four stages of width C, 2C, 4C, 8C; a table of (2 x 7 - 1)^2 offsets a head and block. */
static void test_swin_parameters(void)
{
    static const struct {
        const char *name;
        int depths[4];
    } known[] = { { "swin-huge-32", { 2, 2, 26, 2 } }, { "swin-huge-48", { 2, 2, 42, 2 } } };
    static const int64_t heads[] = { 8, 16, 32, 64 };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct model m = library(known[i].name);
        int64_t layer = 0, total = 48 * 320 + 320 + 2 * 320; /* patches of 4 x 4 x 3, and a norm */
        for (int stage = 0; stage < 4; stage++) {
            int64_t c = (int64_t)320 << stage, block = 12 * c * c + 13 * c + 169 * heads[stage];
            int64_t merging = stage < 3 ? 8 * c * c + 8 * c : 0; /* norm of 4C, 4C x 2C, in the stage's last block */
            for (int k = 1; k <= known[i].depths[stage]; k++) {
                int64_t expected = block + (k == known[i].depths[stage] ? merging : 0);
                EXPECT_INT(model_layer_parameters_at(&m, layer++), expected);
                total += expected;
            }
        }
        EXPECT_INT(layer, m.layers);
        total += 16 * 320 + 8 * 320 * 1000 + 1000;
        EXPECT_INT(model_head_parameters(&m), 16 * 320 + 8 * 320 * 1000 + 1000);
        EXPECT_INT(model_parameters(&m), total);
        EXPECT_INT(m.max_sequence, 56 * 56);
        compare(&m);
    }
}

/* Forward FLOPs of one matrix of `in` x `out` applied to `rows`. */
static double matrix(double rows, double in, double out)
{
    return 2 * rows * in * out;
}

static void test_t5_flops(void)
{
    struct model m = library("t5-large-32");
    const double e = 256, d = 512, h = 1024, ff = 4096; /* encoder shorter than the decoder, so that they differ */
    double encoder = 0, decoder = 0;
    for (int i = 0; i < 4; i++) { /* q, k, v, o of self attention */
        encoder += matrix(e, h, h);
        decoder += matrix(d, h, h);
    }
    encoder += matrix(e, h, ff) + matrix(e, ff, h);
    decoder += matrix(d, h, ff) + matrix(d, ff, h);
    for (int head = 0; head < 16; head++) {
        encoder += matrix(e, 64, e) + matrix(e, e, 64);
        decoder += matrix(d, 64, d) + matrix(d, d, 64);
        decoder += matrix(d, 64, e) + matrix(d, e, 64); /* to the encoder's output */
    }
    decoder += matrix(d, h, h) + matrix(e, h, h) + matrix(e, h, h) + matrix(d, h, h);
    EXPECT_REAL(model_step_flops(&m, 5, e), 5 * 3 * (16 * encoder + 16 * decoder + matrix(d, h, 32128)), 1e-14);
}

static void test_swin_flops(void)
{
    static const int depths[] = { 2, 2, 26, 2 }, heads[] = { 8, 16, 32, 64 };
    struct model m = library("swin-huge-32");
    double forward = matrix(1, 2560, 1000);
    for (int stage = 0; stage < 4; stage++) {
        int side = 56 >> stage;
        double c = 320 << stage, tokens = side * side, block = 0;
        for (int window = 0; window < (side / 7) * (side / 7); window++) {
            for (int head = 0; head < heads[stage]; head++) {
                block += matrix(49, 40, 49) + matrix(49, 49, 40);
            }
        }
        block += matrix(tokens, c, 3 * c) + matrix(tokens, c, c) + matrix(tokens, c, 4 * c) + matrix(tokens, 4 * c, c);
        forward += depths[stage] * block;
        forward += stage < 3 ? matrix(tokens / 4, 4 * c, 2 * c) : 0;
    }
    double patches = matrix(3136, 48, 320);
    EXPECT_REAL(model_step_flops(&m, 3, 3136), 3 * (3 * forward + 2 * patches), 1e-14);
}

static struct arena arena;

static struct layer_shape shape_of(const struct model *m, int64_t batch, int64_t sequence, int64_t tensor)
{
    return (struct layer_shape){ .micro_batch = batch,
                                 .sequence = sequence,
                                 .tensor = tensor,
                                 .context = 1,
                                 .dtype = DTYPE_FP16,
                                 .fused_kernels = true,
                                 .padded_vocab = m->vocab };
}

static struct layer_graph graph_of(const struct model *m, enum layer_kind kind, const struct layer_shape *shape,
                                   uint32_t variant)
{
    struct layer_shape own = *shape;
    struct layer_graph graph;
    struct error error = { 0 };
    own.variant = variant;
    if (layer_graph_build(&graph, m, kind, &own, &arena, &error) != STATUS_OK) {
        TEST_FAIL_("%s: %s", m->name, error.message);
        graph = (struct layer_graph){ 0 };
    }
    return graph;
}

static const char *const NAMES[] = { "t5-large-32", "t5-large-48",  "t5-512-4-32",
                                     "t5-512-4-48", "swin-huge-32", "swin-huge-48" };

/* The graphs of all layers: t ranks hold every parameter once and the replicated ones t times; forward and backward do the model's FLOPs, a layer's backward twice its forward. */
static void test_graph_sums(void)
{
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        struct model m = library(NAMES[i]);
        EXPECT(!model_is_uniform(&m));
        for (int64_t t = 1; t <= 8; t *= 2) {
            for (int fused = 0; fused < 2; fused++) {
                struct layer_shape shape = shape_of(&m, 2, m.family == MODEL_T5 ? 256 : m.max_sequence, t);
                shape.fused_kernels = fused == 1;
                double parameters = 0, flops = 0;
                for (int64_t layer = -1; layer <= m.layers; layer++) {
                    bool block = layer >= 0 && layer < m.layers;
                    enum layer_kind kind = block ? LAYER_TRANSFORMER : layer < 0 ? LAYER_EMBEDDING : LAYER_HEAD;
                    struct layer_graph g = graph_of(&m, kind, &shape, block ? model_layer_variant(&m, layer) : 0);
                    double own = (g.parameters - g.replicated_parameters) * (double)t + g.replicated_parameters;
                    parameters += own;
                    bool whole = t == 1 || m.family == MODEL_T5; /* merging, classifier, patches: on every rank */
                    flops += whole ? (double)t * (g.forward_flops + g.backward_flops) : 0;
                    if (block) {
                        EXPECT_REAL(own, (double)model_layer_parameters_at(&m, layer), 0);
                        EXPECT_REAL(g.backward_flops, 2 * g.forward_flops, 1e-14);
                    }
                }
                EXPECT_REAL(parameters, (double)model_parameters(&m), 0);
                if (flops > 0) {
                    EXPECT_REAL(flops, model_step_flops(&m, 2, (double)shape.sequence), 1e-13);
                }
            }
        }
        arena_free(&arena);
        arena = (struct arena){ 0 };
    }
}

/* Saved bytes at 16 bits with Megatron's kernels, as the head of sim/model/layer_variants.c lists them: no activation input (ReLU), no biases. e, d: tokens of a micro-batch of b samples. */
static void test_t5_saved(void)
{
    struct model m = library("t5-large-32");
    const double b = 3, es = 256, ds = 512, h = 1024, a = 16, e = b * es, d = b * ds;
    for (int64_t tensor = 1; tensor <= 4; tensor *= 2) {
        const double t = (double)tensor;
        struct layer_shape shape = shape_of(&m, 3, 256, tensor);
        struct layer_graph layer = graph_of(&m, LAYER_TRANSFORMER, &shape, T5_ENCODER);
        /* whole: layer_input 2, norm outputs 2 + 2, ffn_norm_input 2, masks 1 + 1; split: q k v 6, context 2, ffn 8 */
        EXPECT_REAL(layer.saved_bytes_none, e * h * (10 + 16 / t) + 5 * b * a / t * es * es, 0);
        EXPECT_REAL(layer.saved_bytes_selective, e * h * (10 + 16 / t), 0);
        EXPECT_REAL(layer.saved_bytes_full, 2 * e * h, 0);
        EXPECT_REAL(layer.boundary_bytes, 2 * (e + d) * h, 0);
        layer = graph_of(&m, LAYER_TRANSFORMER, &shape, T5_ENCODER_LAST); /* the norm's input, a mask */
        EXPECT_REAL(layer.saved_bytes_none, e * h * (13 + 16 / t) + 5 * b * a / t * es * es, 0);
        double decoder = d * h * (15 + 20 / t) + e * h * 4 / t;
        double scores = 5 * b * a / t * (ds * ds + ds * es);
        layer = graph_of(&m, LAYER_TRANSFORMER, &shape, T5_DECODER);
        EXPECT_REAL(layer.saved_bytes_none, decoder + scores, 0);
        EXPECT_REAL(layer.saved_bytes_selective, decoder, 0);
        EXPECT_REAL(layer.saved_bytes_full, 2 * d * h, 0);
        EXPECT_REAL(layer.boundary_bytes, 2 * (e + d) * h, 0);
        layer = graph_of(&m, LAYER_TRANSFORMER, &shape, T5_DECODER_FIRST);
        EXPECT_REAL(layer.saved_bytes_none, decoder + scores + 2 * e * h, 0);
        EXPECT_REAL(layer.saved_bytes_full, 2 * (d + e) * h, 0);
        shape.flash_attention = true; /* one fp32 number a row of scores instead */
        layer = graph_of(&m, LAYER_TRANSFORMER, &shape, T5_DECODER);
        EXPECT_REAL(layer.saved_bytes_none, decoder + 2 * 4 * d * a / t, 0);
        shape.sequence_parallel = true; /* everything is divided */
        layer = graph_of(&m, LAYER_TRANSFORMER, &shape, T5_DECODER);
        EXPECT_REAL(layer.saved_bytes_none, (35 * d * h + 4 * e * h + 8 * d * a) / t, 0);
        EXPECT_REAL(layer.boundary_bytes, 2 * (e + d) * h / t, 0);
    }
    struct layer_shape shape = shape_of(&m, 3, 256, 1);
    struct layer_graph ends = graph_of(&m, LAYER_EMBEDDING, &shape, 0); /* masks of both stacks, two biases */
    EXPECT_REAL(ends.saved_bytes_none, (e + d) * h + 2 * a * (es * es + ds * ds), 0);
    EXPECT_REAL(ends.boundary_bytes, 2 * (e + d) * h, 0);
    ends = graph_of(&m, LAYER_HEAD, &shape, 0); /* the decoder's alone: input, normed, mask, fp32 logits */
    EXPECT_REAL(ends.saved_bytes_none, 5 * d * h + 4 * d * 32128, 0);
    EXPECT_REAL(ends.boundary_bytes, 2 * d * h, 0);
    arena_free(&arena);
    arena = (struct arena){ 0 };
}

/* A causal fused kernel computes half of its square, that over the encoder's output all. */
static void test_t5_flash_flops(void)
{
    struct model m = library("t5-large-32");
    struct layer_shape shape = shape_of(&m, 1, 256, 1);
    double whole = graph_of(&m, LAYER_TRANSFORMER, &shape, T5_DECODER).forward_flops;
    double encoder = graph_of(&m, LAYER_TRANSFORMER, &shape, T5_ENCODER).forward_flops;
    shape.flash_attention = true;
    EXPECT_REAL(graph_of(&m, LAYER_TRANSFORMER, &shape, T5_DECODER).forward_flops,
                whole - 4.0 * 1024 * (512.0 * 512 - 512.0 * 513 / 2), 1e-14);
    EXPECT_REAL(graph_of(&m, LAYER_TRANSFORMER, &shape, T5_ENCODER).forward_flops, encoder, 1e-14);
    arena_free(&arena);
    arena = (struct arena){ 0 };
}

/* Without dropout: layer_input 2, norm outputs 2 + 2, ffn_norm_input 2 whole; q k v 6, context 2, activation input and output 8 + 8 split; the softmax of windows of 49, whose rows are 98 bytes.
 * Merging: its norm's input and output. */
static void test_swin_saved(void)
{
    struct model m = library("swin-huge-32");
    for (int64_t tensor = 1; tensor <= 8; tensor *= 2) {
        const double t = (double)tensor;
        struct layer_shape shape = shape_of(&m, 5, 3136, tensor);
        for (uint32_t variant = 0; variant < model_variant_count(&m); variant++) {
            uint32_t stage = variant / 2;
            double c = 320 << stage, n = 5.0 * (3136 >> 2 * stage), heads = 8 << stage;
            struct layer_graph layer = graph_of(&m, LAYER_TRANSFORMER, &shape, variant);
            double kept = n * c * (8 + 24 / t) + (variant % 2 == 1 ? 4 * n * c : 0);
            EXPECT_REAL(layer.saved_bytes_none, kept + n * heads / t * 98, 0);
            EXPECT_REAL(layer.saved_bytes_selective, kept, 0);
            EXPECT_REAL(layer.saved_bytes_full, 2 * n * c, 0);
            EXPECT_REAL(layer.boundary_bytes, 2 * n * c, 0);
        }
    }
    struct layer_shape shape = shape_of(&m, 5, 3136, 1);
    EXPECT_REAL(layer_crossing_bytes(&m, &shape, 1), 2 * 5.0 * 3136 * 320, 0);
    EXPECT_REAL(layer_crossing_bytes(&m, &shape, 2), 5.0 * 3136 * 320, 0); /* each merging halves it */
    EXPECT_REAL(layer_crossing_bytes(&m, &shape, 32), 2 * 5.0 * 49 * 2560, 0);
    arena_free(&arena);
    arena = (struct arena){ 0 };
}

static void expect_shape_refusal(const struct model *m, const struct layer_shape *shape, const char *part)
{
    struct layer_graph graph;
    struct error error = { 0 };
    EXPECT(layer_graph_build(&graph, m, LAYER_TRANSFORMER, shape, &arena, &error) != STATUS_OK);
    EXPECT_PART(error.message, part);
    arena_free(&arena);
    arena = (struct arena){ 0 };
}

static void test_refused_shapes(void)
{
    struct model t5 = library("t5-512-4-32"), swin = library("swin-huge-32"), bert = library("bert-huge-32");
    struct layer_shape shape = shape_of(&t5, 1, 512, 8);
    shape.sequence_parallel = true; /* over a decoder of 4 */
    expect_shape_refusal(&t5, &shape, "decoder's sequence length");
    shape = shape_of(&swin, 1, 3136, 2);
    shape.sequence_parallel = true;
    expect_shape_refusal(&swin, &shape, "windows");
    shape = shape_of(&swin, 1, 3137, 1);
    expect_shape_refusal(&swin, &shape, "3136 patches");
    shape = shape_of(&bert, 1, 128, 1);
    shape.variant = 1;
    expect_shape_refusal(&bert, &shape, "variant 1");
    shape = shape_of(&swin, 1, 3136, 1);
    shape.context = 2;
    expect_shape_refusal(&swin, &shape, "context");
    EXPECT_INT(model_require_uniform(&bert, "a test", NULL), STATUS_OK);
    struct error error = { 0 };
    EXPECT_INT(model_require_uniform(&t5, "a test", &error), STATUS_UNSUPPORTED);
    EXPECT_PART(error.message, "a test takes layers of one shape");
}

static enum status read_inline(struct model *m, const char *text, struct error *error)
{
    struct json_document *document = NULL;
    struct json root;
    EXPECT_INT(json_parse(&document, text, strlen(text), "scenario.json", error), STATUS_OK);
    json_root(document, &root);
    enum status status = model_from_json(m, &root, error);
    json_free(document);
    return status;
}

static struct hash hash_of(const struct model *m)
{
    struct hash hash = hash_start();
    plan_hash_model(m, &hash);
    return hash;
}

/* An object that says a library model's sizes is that model. */
static void expect_inline_is(const char *text, const char *name)
{
    struct model m, same = library(name);
    struct error error = { 0 };
    EXPECT_INT(read_inline(&m, text, &error), STATUS_OK);
    EXPECT_TEXT(error.message, "");
    EXPECT_INT(model_parameters(&m), model_parameters(&same));
    struct hash a = hash_of(&m), b = hash_of(&same);
    EXPECT(a.a == b.a && a.b == b.b);
}

static void expect_inline_refusal(const char *text, const char *part)
{
    struct model m;
    struct error error = { 0 };
    EXPECT_INT(read_inline(&m, text, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, part);
}

#define T5_SMALL   "{\"family\":\"t5\",\"layers\":4,\"hidden\":64,\"heads\":4,\"vocab\":99,\"max_sequence\":8"
#define SWIN_SIZES "{\"family\":\"swin\",\"hidden\":96,\"heads\":3,\"image_size\":224,\"patch_size\":4"

static void test_inline(void)
{
    struct model m;
    struct error error = { 0 };
    expect_inline_is("{\"family\":\"t5\",\"layers\":32,\"hidden\":1024,\"heads\":16,\"vocab\":32128,"
                     "\"max_sequence\":512}",
                     "t5-large-32");
    expect_inline_is("{\"base\":\"t5-large-32\",\"layers\":48,\"decoder_sequence\":4}", "t5-512-4-48");
    expect_inline_is("{\"family\":\"swin\",\"stage_layers\":[2,2,26,2],\"hidden\":320,\"heads\":8,\"image_size\":224,"
                     "\"patch_size\":4,\"classes\":1000}",
                     "swin-huge-32");
    expect_inline_is("{\"base\":\"swin-huge-32\",\"stage_layers\":[2,2,42,2]}", "swin-huge-48");
    /* Swin-T and Swin-B: 28,288,354 and 87,768,224 parameters in torchvision and Hugging Face */
    EXPECT_INT(read_inline(&m, SWIN_SIZES ",\"stage_layers\":[2,2,6,2],\"classes\":1000}", &error), STATUS_OK);
    EXPECT_INT(model_parameters(&m), 28288354);
    EXPECT_INT(read_inline(&m,
                           "{\"family\":\"swin\",\"hidden\":128,\"heads\":4,\"image_size\":224,\"patch_size\":4,"
                           "\"stage_layers\":[2,2,18,2],\"classes\":1000}",
                           &error),
               STATUS_OK);
    EXPECT_INT(model_parameters(&m), 87768224);
    /* T5-small and T5-3B: 60,506,624 and 2,851,598,336 */
    EXPECT_INT(read_inline(&m,
                           "{\"family\":\"t5\",\"layers\":12,\"hidden\":512,\"heads\":8,\"vocab\":32128,"
                           "\"max_sequence\":512}",
                           &error),
               STATUS_OK);
    EXPECT_INT(model_parameters(&m), 60506624);
    EXPECT_INT(read_inline(&m,
                           "{\"family\":\"t5\",\"layers\":48,\"hidden\":1024,\"heads\":32,\"head_size\":128,\"ffn\":"
                           "16384,\"vocab\":32128,\"max_sequence\":512}",
                           &error),
               STATUS_OK);
    EXPECT_INT(model_parameters(&m), 2851598336);
}

static void test_inline_refused(void)
{
    expect_inline_refusal("{\"base\":\"swin-huge-32\",\"layers\":40}", "the stages have 32 blocks");
    expect_inline_refusal(SWIN_SIZES "}", "\"stage_layers\" is missing");
    expect_inline_refusal(SWIN_SIZES ",\"stage_layers\":[2,2,6]}", "found 3 numbers");
    expect_inline_refusal(SWIN_SIZES ",\"stage_layers\":[2,2,0,2]}", "from 1 to 10000, found 0");
    expect_inline_refusal(SWIN_SIZES ",\"stage_layers\":[9000,2000,6,2]}", "11008 blocks in all");
    expect_inline_refusal(SWIN_SIZES ",\"stage_layers\":[2,2,6,2],\"ffn\":4194304}", "8 times as wide");
    expect_inline_refusal(SWIN_SIZES ",\"stage_layers\":[2,2,6,2],\"lm_head\":true}", "none of");
    expect_inline_refusal(SWIN_SIZES ",\"stage_layers\":[2,2,6,2],\"decoder_layers\":2}", "are for family t5");
    expect_inline_refusal(T5_SMALL ",\"decoder_layers\":4}", "allowed is 1 to 3");
    expect_inline_refusal(T5_SMALL ",\"positions\":\"learned\"}", "allowed is \"none\"");
    expect_inline_refusal(T5_SMALL ",\"kv_heads\":2}", "as many as heads, 4");
    expect_inline_refusal(T5_SMALL ",\"final_norm\":false}", "has final_norm and lm_head");
    expect_inline_refusal(T5_SMALL ",\"window\":7}", "are for family swin");
    expect_inline_refusal("{\"family\":\"t5\",\"layers\":1,\"hidden\":64,\"heads\":4,\"vocab\":99,\"max_sequence\":8}",
                          "one in each stack");
    expect_inline_refusal("{\"family\":\"t6\"}", "t5");
    expect_inline_refusal("{\"family\":5}", "found");
}

static void test_check(void)
{
    struct error error = { 0 };
    struct model m = library("t5-large-32");
    m.decoder_layers = m.layers;
    EXPECT_INT(model_check(&m, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "decoder_layers");
    m = library("t5-large-32");
    m.decoder_sequence = 0;
    EXPECT_INT(model_check(&m, &error), STATUS_BAD_INPUT);
    m = library("swin-huge-32");
    m.layers++;
    EXPECT_INT(model_check(&m, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "the stages have 32 blocks");
    m = library("swin-huge-32");
    m.window = 8;
    EXPECT_INT(model_check(&m, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "windows of 8");
    m = library("swin-huge-32");
    m.max_sequence++;
    EXPECT_INT(model_check(&m, &error), STATUS_BAD_INPUT);
}

TEST_MAIN(TEST(test_t5_parameters), TEST(test_galvatron_table), TEST(test_swin_parameters), TEST(test_t5_flops),
          TEST(test_swin_flops), TEST(test_graph_sums), TEST(test_t5_saved), TEST(test_t5_flash_flops),
          TEST(test_swin_saved), TEST(test_refused_shapes), TEST(test_inline), TEST(test_inline_refused),
          TEST(test_check))
