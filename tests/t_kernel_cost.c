/* The kernel cost model on made-up GPUs: closed forms where the constants are ideal, and the properties that hold for all constants. */
#include "sim/engine/kernel_cost.h"
#include "tests/test.h"

static const double IDEAL[GEMM_CONSTANT_COUNT] = {
    [GEMM_SM_EFFICIENCY] = 1, [GEMM_BOOST] = 1, [GEMM_SHARPNESS] = 64, [GEMM_TN_FACTOR] = 1, [GEMM_NT_FACTOR] = 1,
};
static const double REAL[GEMM_CONSTANT_COUNT] = {
    [GEMM_SM_EFFICIENCY] = 0.8, [GEMM_BOOST] = 1.2,      [GEMM_BOOST_S] = 1e-4,       [GEMM_SHARPNESS] = 2.6,
    [GEMM_TILE_LOSS] = 0.19,    [GEMM_TILE_S] = 3e-7,    [GEMM_OUTPUT_EXPOSED] = 0.6, [GEMM_WAVE_SHARE] = 0.5,
    [GEMM_SPLIT_S] = 3e-5,      [GEMM_TN_FACTOR] = 1.01, [GEMM_NT_FACTOR] = 0.98,     [GEMM_FLOOR_S] = 2.5e-6,
};

static struct machine_gpu gpu_of(const double *constants)
{
    struct machine_gpu gpu = { .sm_count = 100,
                               .hbm_bytes_per_s = 1e12,
                               .attention_forward_efficiency = 0.5,
                               .attention_backward_efficiency = 0.5,
                               .attention_forward_tail = 0.8,
                               .attention_backward_tail = 0.4,
                               .kernel_floor_s = 2e-6 };
    gpu.peak_flops[DTYPE_FP32] = 10e12;
    gpu.peak_flops[DTYPE_FP16] = gpu.peak_flops[DTYPE_BF16] = 100e12;
    gpu.gemm[DTYPE_FP16].present = true;
    memcpy(gpu.gemm[DTYPE_FP16].values, constants, sizeof gpu.gemm[DTYPE_FP16].values[0] * GEMM_CONSTANT_COUNT);
    for (int c = 0; c < KERNEL_CLASS_COUNT; c++) {
        gpu.class_efficiency[c] = 0.8;
    }
    return gpu;
}

static struct kernel gemm(uint64_t batch, uint64_t m, uint64_t n, uint64_t k)
{
    double b = (double)batch, x = (double)m, y = (double)n, z = (double)k;
    return (struct kernel){ .kernel_class = KERNEL_GEMM,
                            .dtype = DTYPE_FP16,
                            .launches = 1,
                            .batch = batch,
                            .m = m,
                            .n = n,
                            .k = k,
                            .flops = 2 * b * x * y * z,
                            .bytes_read = 2 * b * z * (x + y),
                            .bytes_written = 2 * b * x * y };
}

static double alone(const struct machine_gpu *gpu, struct kernel kernel)
{
    struct kernel_cost cost;
    kernel_cost(gpu, &kernel, &cost);
    return cost.alone_s;
}

static void test_ideal_gemm_is_flops_over_peak(void)
{
    struct machine_gpu gpu = gpu_of(IDEAL);
    struct kernel kernel = gemm(1, 25600, 12800, 4096); /* 100 x 100 tiles of 256 x 128 on 100 SMs */
    EXPECT_REAL(alone(&gpu, kernel), kernel.flops / 100e12, 1e-9);
    /* Little work for each byte: the memory time. */
    kernel = gemm(1, 25600, 12800, 16);
    EXPECT_REAL(alone(&gpu, kernel), (kernel.bytes_read + kernel.bytes_written) / 1e12, 1e-6);
}

static void test_one_tile_uses_one_sm(void)
{
    struct machine_gpu gpu = gpu_of(IDEAL);
    struct kernel_cost cost;
    struct kernel kernel = gemm(1, 64, 64, 4096);
    kernel_cost(&gpu, &kernel, &cost);
    /* Cut in eight, each part on its SM at 1 TFLOP/s. */
    EXPECT_REAL(cost.tiles, 8, 0);
    EXPECT_REAL(cost.sm_fraction, 0.08, 1e-12);
    EXPECT_REAL(cost.alone_s, kernel.flops / 8 / 1e12, 1e-3);
    kernel.bytes_read = kernel.bytes_written = 0;
    gpu.gemm[DTYPE_FP16].values[GEMM_SPLIT_S] = 1; /* never worth it */
    kernel_cost(&gpu, &kernel, &cost);
    EXPECT_REAL(cost.tiles, 1, 0);
    EXPECT_REAL(cost.alone_s, kernel.flops / 1e12, 1e-9);
}

/* A product of 1.1 waves pays a second one where wave_share says so. */
/* The whole chip's limit: full waves keep the rate that sm_efficiency says; what is less than full runs as if the SMs were faster, but no more than the limit. */
static void test_chip_share(void)
{
    struct machine_gpu gpu = gpu_of(IDEAL);
    struct kernel full = gemm(1, 25600, 12800, 4096), few = gemm(1, 64 * 5, 64 * 8, 4096); /* at best 40 of 100 SMs */
    double *constants = gpu.gemm[DTYPE_FP16].values, p = 2;
    full.bytes_read = full.bytes_written = few.bytes_read = few.bytes_written = 0;
    constants[GEMM_SPLIT_S] = 1;
    constants[GEMM_SM_EFFICIENCY] = 0.5;
    constants[GEMM_SHARPNESS] = p;
    EXPECT_REAL(alone(&gpu, full), full.flops / 50e12, 1e-9);
    EXPECT_REAL(alone(&gpu, few), few.flops / 20e12, 1e-9);
    constants[GEMM_CHIP_SHARE] = 0.7;
    double sms = 1 / sqrt(1 / (0.5 * 0.5) - 1 / (0.7 * 0.7)); /* of the peak, alone */
    EXPECT_REAL(alone(&gpu, full), full.flops / 50e12, 1e-9);
    EXPECT_REAL(alone(&gpu, few), few.flops / 100e12 * sqrt(1 / (0.16 * sms * sms) + 1 / (0.7 * 0.7)), 1e-9);
    constants[GEMM_SM_EFFICIENCY] = 0.9; /* beyond the limit: nearly the limit */
    EXPECT_REAL(alone(&gpu, full), full.flops / 70e12, 0.01);
}

/* 100 SMs, 50 pairs: a wave of 256 x 256 tiles down a column of 200 reads 50 strips of rows and one of columns, 51 / 50 strips a tile; of 10 x 20 tiles, 10 rows and 5 columns, 15 / 50. */
static void test_waves_read_tall_products_again(void)
{
    struct machine_gpu gpu = gpu_of(IDEAL);
    struct kernel_cost cost;
    struct kernel tall = gemm(1, 256 * 200, 256 * 4, 512), square = gemm(3, 256 * 10, 256 * 20, 512);
    double strip = 256.0 * 512 * 2;
    kernel_cost(&gpu, &tall, &cost);
    EXPECT_REAL(cost.hbm_bytes, tall.bytes_read + tall.bytes_written, 0);
    gpu.gemm[DTYPE_FP16].values[GEMM_WAVE_TRAFFIC] = 1;
    kernel_cost(&gpu, &tall, &cost);
    EXPECT_REAL(cost.hbm_bytes, 800 * 51 / 50.0 * strip + tall.bytes_written, 1e-12);
    EXPECT_REAL(cost.memory_s, cost.hbm_bytes / gpu.hbm_bytes_per_s, 1e-12);
    kernel_cost(&gpu, &square, &cost);
    EXPECT_REAL(cost.hbm_bytes, 3 * 200 * 15 / 50.0 * strip + square.bytes_written, 1e-12);
    gpu.gemm[DTYPE_FP16].values[GEMM_WAVE_TRAFFIC] = 0.01; /* never less than each operand once */
    kernel_cost(&gpu, &tall, &cost);
    EXPECT_REAL(cost.hbm_bytes, tall.bytes_read + tall.bytes_written, 0);
}

static void test_partial_wave_is_paid(void)
{
    double constants[GEMM_CONSTANT_COUNT];
    memcpy(constants, IDEAL, sizeof constants);
    constants[GEMM_TILE_LOSS] = 4; /* only 256 x 128 */
    constants[GEMM_SPLIT_S] = 1;   /* and never cut */
    struct machine_gpu gpu = gpu_of(constants);
    double smooth = alone(&gpu, gemm(1, 256 * 11, 128 * 12, 65536));
    gpu.gemm[DTYPE_FP16].values[GEMM_WAVE_SHARE] = 1;
    double quantised = alone(&gpu, gemm(1, 256 * 11, 128 * 12, 65536));
    EXPECT_REAL(quantised / smooth, 2.0 / 1.32, 1e-6);
    EXPECT_REAL(alone(&gpu, gemm(1, 256 * 20, 128 * 10, 65536)), 2.0 * 65536 * 256 * 128 / 1e12 * 2, 1e-6);
}

static void test_small_steps_make_small_changes(void)
{
    struct machine_gpu gpu = gpu_of(REAL);
    /* The ceilings rise by at most 1.5 / 0.125 a unit. Steepest are 64-wide tiles, 16 in a row of n = 1024: one more row of m adds at most
     * 12 / 64 * 16 / 100 waves, and a wave at most 1 + 0.5 * (12 - 1) of itself where the time is at least one. A hard ceiling would step by 0.5. */
    double bound = 12.0 / 64 * 16 / 100 * (1 + 0.5 * 11);
    double before = alone(&gpu, gemm(1, 512, 1024, 1024)), worst = 0;
    for (uint64_t m = 513; m <= 6000; m++) {
        double after = alone(&gpu, gemm(1, m, 1024, 1024));
        worst = fmax(worst, fabs(after / before - 1));
        before = after;
    }
    printf("largest step of m by one row: %.2f %%\n", 100 * worst);
    EXPECT(worst < bound);
    before = alone(&gpu, gemm(1, 4096, 4096, 64));
    for (uint64_t k = 65; k <= 4096; k++) {
        double after = alone(&gpu, gemm(1, 4096, 4096, k));
        EXPECT(after > before && after < before * 1.02);
        before = after;
    }
}

static void test_random_kernels_are_sane(void)
{
    struct machine_gpu gpu = gpu_of(REAL);
    uint64_t state = test_seed;
    for (int i = 0; i < 20000; i++) {
        struct kernel kernel = gemm(1 + test_below(&state, 8), 1 + test_below(&state, 1u << test_below(&state, 15)),
                                    1 + test_below(&state, 1u << test_below(&state, 15)),
                                    1 + test_below(&state, 1u << test_below(&state, 15)));
        kernel.kernel_class = (uint8_t)test_below(&state, KERNEL_CLASS_COUNT);
        kernel.dtype = (uint8_t)test_below(&state, DTYPE_COUNT);
        kernel.layout = (uint8_t)test_below(&state, 3);
        kernel.flags = (uint8_t)test_below(&state, 4);
        kernel.launches = 1 + (uint32_t)test_below(&state, 5);
        struct kernel_cost cost, again;
        memset(&cost, 0, sizeof cost);
        memset(&again, 0, sizeof again);
        kernel_cost(&gpu, &kernel, &cost);
        kernel_cost(&gpu, &kernel, &again);
        EXPECT(memcmp(&cost, &again, sizeof cost) == 0);
        EXPECT(isfinite(cost.alone_s) && cost.alone_s > 0);
        EXPECT(cost.flop_s >= 0 && cost.memory_s >= 0 && cost.floor_s > 0);
        EXPECT(cost.alone_s >= fmax(cost.flop_s, cost.memory_s) &&
               cost.alone_s <= 1.0001 * (cost.flop_s + cost.memory_s + cost.floor_s));
        EXPECT(cost.sm_fraction > 0 && cost.sm_fraction <= 1 && cost.tiles > 0);
        EXPECT_REAL(cost.hbm_bytes, kernel.bytes_read + kernel.bytes_written, 0);
        if (kernel.kernel_class == KERNEL_GEMM) {
            /* No faster than the sustained SMs, all busy; from rest no slower, and faster by no more than the boost. */
            EXPECT(cost.flop_s > kernel.flops / (gpu.peak_flops[DTYPE_FP16] * 0.8 * 1.05));
            kernel_cost_from_rest(&gpu, &kernel, (struct kernel_load){ 0, 2e-4 }, &again);
            EXPECT(again.alone_s <= cost.alone_s && again.alone_s * 1.2 >= cost.alone_s);
            struct kernel twice = gemm(kernel.batch, 2 * kernel.m, kernel.n, kernel.k);
            twice.dtype = kernel.dtype;
            twice.layout = kernel.layout;
            twice.launches = kernel.launches;
            twice.flags = kernel.flags;
            EXPECT(alone(&gpu, twice) >= cost.alone_s * 0.999999);
        }
    }
}

/* For boost_s of load a rested board is `boost` times as fast, then it is as kernel_cost says; over both, in proportion to the time. */
static void test_board_from_rest(void)
{
    double constants[GEMM_CONSTANT_COUNT];
    memcpy(constants, IDEAL, sizeof constants);
    constants[GEMM_BOOST] = 1.5;
    constants[GEMM_BOOST_S] = 0.1;
    struct machine_gpu gpu = gpu_of(constants);
    struct kernel kernel = gemm(1, 25600, 12800, 4096);
    double sustained = kernel.flops / 100e12;
    static const struct {
        double from_s, to_s, rate;
    } loads[] = { { 0, 0.05, 1.5 }, { 0.05, 0.1, 1.5 }, { 0.05, 0.15, 1.25 }, { 0.1, 0.2, 1 }, { 7, 9, 1 } };
    EXPECT_REAL(alone(&gpu, kernel), sustained, 1e-9);
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        struct kernel_cost cost;
        kernel_cost_from_rest(&gpu, &kernel, (struct kernel_load){ loads[i].from_s, loads[i].to_s }, &cost);
        EXPECT_REAL(cost.alone_s, sustained / loads[i].rate, 1e-9);
    }
    /* What waits for memory does not gain. */
    struct kernel_cost rested, other;
    kernel = gemm(1, 25600, 12800, 16);
    kernel_cost_from_rest(&gpu, &kernel, (struct kernel_load){ 0, 0.05 }, &rested);
    EXPECT_REAL(rested.alone_s, alone(&gpu, kernel), 1e-6);
    kernel.kernel_class = KERNEL_NORM;
    kernel_cost_from_rest(&gpu, &kernel, (struct kernel_load){ 0, 0.05 }, &rested);
    kernel_cost(&gpu, &kernel, &other);
    EXPECT_REAL(rested.alone_s, other.alone_s, 0);
}

static void test_streams_are_bytes_over_bandwidth(void)
{
    struct machine_gpu gpu = gpu_of(REAL);
    struct kernel kernel = { .kernel_class = KERNEL_ELEMENTWISE,
                             .dtype = DTYPE_FP16,
                             .launches = 3,
                             .batch = 1,
                             .m = 4096,
                             .n = 4096,
                             .k = 1,
                             .bytes_read = 6e8,
                             .bytes_written = 2e8 };
    EXPECT_REAL(alone(&gpu, kernel), 3 * 2e-6 + 8e8 / 0.8e12, 1e-12);
    kernel.bytes_read = kernel.bytes_written = 0;
    EXPECT_REAL(alone(&gpu, kernel), 3 * 2e-6, 1e-12);
}

static void test_attention(void)
{
    struct machine_gpu gpu = gpu_of(REAL);
    struct kernel kernel = { .kernel_class = KERNEL_ATTENTION_FORWARD,
                             .dtype = DTYPE_FP16,
                             .launches = 1,
                             .batch = 4096,
                             .m = 2048,
                             .n = 2048,
                             .k = 128 };
    double full = 4.0 * 4096 * 2048 * 2048 * 128 / (0.5 * 100e12);
    EXPECT_REAL(alone(&gpu, kernel), full, 0.01); /* the tail of one block among 655 waves, the floor */
    kernel.flags = KERNEL_FLAG_CAUSAL;
    double causal = alone(&gpu, kernel);
    EXPECT_REAL(causal, full / 2, 0.01);
    kernel.k = 64;
    EXPECT_REAL(alone(&gpu, kernel), causal / 2 / 0.87, 0.01); /* smaller heads are less efficient */
    kernel.k = 128;
    kernel.kernel_class = KERNEL_ATTENTION_BACKWARD;
    EXPECT_REAL(alone(&gpu, kernel), 2.5 * causal, 0.01);
    /* One head fills 16 of 100 SMs: the longest block is the time. */
    kernel.kernel_class = KERNEL_ATTENTION_FORWARD;
    kernel.batch = 1;
    EXPECT_REAL(alone(&gpu, kernel), 2e-6 + 4.0 * 128 * 2048 * 128 / (0.5 * 1e12), 1e-6);
}

static void test_missing_constants_are_borrowed(void)
{
    struct machine_gpu gpu = gpu_of(REAL);
    struct kernel kernel = gemm(1, 4096, 4096, 4096);
    double fp16 = alone(&gpu, kernel);
    kernel.dtype = DTYPE_BF16; /* a peak but no constants */
    EXPECT_REAL(alone(&gpu, kernel), fp16, 0);
    kernel.dtype = DTYPE_TF32; /* neither */
    EXPECT_REAL(alone(&gpu, kernel), fp16, 0);
    kernel.dtype = DTYPE_FP32; /* its own peak, a tenth */
    EXPECT(alone(&gpu, kernel) > 9 * fp16 && alone(&gpu, kernel) < 14 * fp16);
}

TEST_MAIN(TEST(test_ideal_gemm_is_flops_over_peak), TEST(test_one_tile_uses_one_sm), TEST(test_chip_share),
          TEST(test_waves_read_tall_products_again), TEST(test_partial_wave_is_paid),
          TEST(test_small_steps_make_small_changes), TEST(test_random_kernels_are_sane), TEST(test_board_from_rest),
          TEST(test_streams_are_bytes_over_bandwidth), TEST(test_attention), TEST(test_missing_constants_are_borrowed))
