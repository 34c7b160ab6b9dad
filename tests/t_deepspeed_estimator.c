/* DeepSpeed's estimators to the digits that its documentation prints (facts C.2; docs/code-docs/source/memory.rst). */
#include "sim/report/deepspeed_estimator.h"
#include "tests/test.h"

static void expect_printed(double bytes, const char *printed)
{
    char text[32];
    snprintf(text, sizeof text, "%.2f", bytes / (1024.0 * 1024 * 1024));
    EXPECT_TEXT(text, printed);
}

/* 2851M parameters, 32M in the largest layer, one server of eight GPUs. */
static void test_documented(void)
{
    static const struct {
        int stage;
        bool parameters, optimizer, zero_init;
        const char *host, *gpu;
    } rows[DEEPSPEED_ESTIMATES] = {
        { 2, false, true, false, "127.45", "5.31" }, { 2, false, false, false, "127.45", "15.93" },
        { 3, true, true, true, "71.69", "0.12" },    { 3, true, true, false, "127.45", "0.12" },
        { 3, false, true, true, "63.72", "0.78" },   { 3, false, true, false, "127.45", "0.78" },
        { 3, false, false, true, "1.43", "6.09" },   { 3, false, false, false, "127.45", "6.09" },
    };
    const struct deepspeed_estimate_input input = { 2851e6, 32e6, 8, 1 };
    for (uint32_t i = 0; i < DEEPSPEED_ESTIMATES; i++) {
        struct deepspeed_estimate e;
        deepspeed_estimate(&input, i, DEEPSPEED_DOCS, &e);
        EXPECT_INT(e.stage, rows[i].stage);
        EXPECT_INT(e.offload_parameters, rows[i].parameters);
        EXPECT_INT(e.offload_optimizer, rows[i].optimizer);
        EXPECT_INT(e.zero_init, rows[i].zero_init);
        expect_printed(e.host_bytes, rows[i].host);
        expect_printed(e.gpu_bytes, rows[i].gpu);
        if (i != 1) { /* the one row where today's code says otherwise */
            deepspeed_estimate(&input, i, DEEPSPEED_CODE, &e);
            expect_printed(e.host_bytes, rows[i].host);
            expect_printed(e.gpu_bytes, rows[i].gpu);
        }
    }
    struct deepspeed_estimate code;
    deepspeed_estimate(&input, 1, DEEPSPEED_CODE, &code);
    expect_printed(code.host_bytes, "127.45");
    expect_printed(code.gpu_bytes, "11.28"); /* 2P + 18P/8 */
}

/* The worked example of memory.rst: t5-large on four GPUs, in whole MiB. */
static void test_worked_example(void)
{
    const struct deepspeed_estimate_input input = { 737.67e6, 32.90e6, 4, 1 };
    struct deepspeed_estimate e;
    deepspeed_estimate(&input, 6, DEEPSPEED_CODE, &e);
    EXPECT_INT((int64_t)e.gpu_bytes >> 20, 3291);
    deepspeed_estimate(&input, 2, DEEPSPEED_CODE, &e);
    EXPECT_INT((int64_t)e.gpu_bytes >> 20, 125);
    deepspeed_estimate(&input, 4, DEEPSPEED_CODE, &e);
    EXPECT_INT((int64_t)e.gpu_bytes >> 20, 477);
}

/* By hand: 100 parameters, 10 in the largest layer, three servers of two GPUs. Python cuts 16 x 100 x (1/3) x 1.5 = 799.99... to 799. */
static void test_several_servers(void)
{
    const struct deepspeed_estimate_input input = { 100, 10, 2, 3 };
    static const double host[2][DEEPSPEED_ESTIMATES] = {
        { 100 * 24 * 1.5, 1200, 900, 1200, 799, 1200, 120, 1200 }, /* max(4 T, 16) = 24 */
        { 100 * 16 * 1.5, 1200, 900, 1200, 799, 1200, 120, 1200 }, /* max(4 g, 16) = 16 */
    };
    static const double gpu[2][DEEPSPEED_ESTIMATES] = {
        { 200, 200 + 300, 40, 40, 40 + 33, 40 + 33, 40 + 300, 40 + 300 },
        { 200, 400 + 266, 40, 40, 40 + 33, 40 + 33, 40 + 300, 40 + 300 },
    };
    for (int preset = DEEPSPEED_CODE; preset <= DEEPSPEED_DOCS; preset++) {
        for (uint32_t i = 0; i < DEEPSPEED_ESTIMATES; i++) {
            struct deepspeed_estimate e;
            deepspeed_estimate(&input, i, (enum deepspeed_preset)preset, &e);
            EXPECT_REAL(e.host_bytes, host[preset][i], 0);
            EXPECT_REAL(e.gpu_bytes, gpu[preset][i], 0);
        }
    }
}

static void test_largest_layer(void)
{
    struct model model;
    EXPECT(model_library_find("gpt3-175b", &model));
    model.vocab = 50257; /* its table is just larger than 12288 x 49152 and a bias */
    EXPECT_REAL(deepspeed_largest_layer(&model), 50257.0 * 12288, 0);
    model.vocab = 1000;
    EXPECT_REAL(deepspeed_largest_layer(&model), 12288.0 * 49152 + 49152, 0);
}

TEST_MAIN(TEST(test_documented), TEST(test_worked_example), TEST(test_several_servers), TEST(test_largest_layer))
