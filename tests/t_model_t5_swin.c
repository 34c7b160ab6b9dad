/* T5 and Swin: closed forms against the library's counts, FLOPs against a walk over the matrices, and what is refused.
 * The totals of Galvatron-BMW's table of models are printed beside ours, not demanded: how the paper rounds is unknown.
 */
#include "sim/base/arena.h"
#include "sim/model/layer.h"
#include "sim/model/model.h"
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
            } else {
                expected += 4 * h * inner + h;
            }
            EXPECT_INT(model_layer_parameters_at(&m, layer), expected);
            total += expected;
        }
        EXPECT_INT(model_layer_parameters(&m), 12584960);
        EXPECT_INT(model_embedding_parameters(&m), vocab * h + 2 * 32 * heads);
        EXPECT_INT(model_head_parameters(&m), 2 * h);
        EXPECT_INT(model_parameters(&m), total + vocab * h + 2 * 32 * heads + 2 * h);
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
            for (int k = 0; k < known[i].depths[stage]; k++) {
                EXPECT_INT(model_layer_parameters_at(&m, layer++), block);
                total += block;
            }
            total += stage < 3 ? 8 * c * c + 8 * c : 0; /* merging: norm of 4C, 4C x 2C */
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

static void test_no_graph(void)
{
    static const char *const names[] = { "t5-large-32", "t5-large-48",  "t5-512-4-32",
                                         "t5-512-4-48", "swin-huge-32", "swin-huge-48" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct model m = library(names[i]);
        struct layer_shape shape = { .micro_batch = 1,
                                     .sequence = m.max_sequence,
                                     .tensor = 1,
                                     .context = 1,
                                     .dtype = DTYPE_FP32,
                                     .padded_vocab = m.vocab };
        EXPECT(!model_is_uniform(&m));
        for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
            struct arena arena = { 0 };
            struct layer_graph graph;
            struct error error = { 0 };
            EXPECT_INT(layer_graph_build(&graph, &m, (enum layer_kind)kind, &shape, &arena, &error),
                       STATUS_UNSUPPORTED);
            EXPECT_PART(error.message, "not modelled yet");
            EXPECT_PART(error.message, "--preset v1");
            arena_free(&arena);
        }
    }
    struct model bert = library("bert-huge-32");
    EXPECT(model_is_uniform(&bert));
    EXPECT_INT(model_require_uniform(&bert, NULL), STATUS_OK);
}

static void expect_inline_refusal(const char *text, const char *part)
{
    struct json_document *document = NULL;
    struct json root;
    struct model m;
    struct error error = { 0 };
    EXPECT_INT(json_parse(&document, text, strlen(text), "scenario.json", &error), STATUS_OK);
    json_root(document, &root);
    EXPECT_INT(model_from_json(&m, &root, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, part);
    json_free(document);
}

static void test_no_inline(void)
{
    expect_inline_refusal("{\"family\":\"t5\",\"layers\":4,\"hidden\":64,\"heads\":4,\"vocab\":99,\"max_sequence\":8}",
                          "layers of several shapes");
    expect_inline_refusal("{\"base\":\"swin-huge-32\",\"layers\":4}", "swin-huge-48");
    expect_inline_refusal("{\"family\":\"t6\"}", "gpt");
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
          TEST(test_swin_flops), TEST(test_no_graph), TEST(test_no_inline), TEST(test_check))
