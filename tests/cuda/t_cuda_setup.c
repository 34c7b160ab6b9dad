/* What the CUDA executor refuses and why, how it takes memory, and which products it asks cuBLAS for. */
#include <cublas_v2.h>

#include "tests/cuda/cuda_schedules.h"
#include "tests/cuda/cuda_test.h"

#define MIB (UINT64_C(1) << 20)

static void expect_refusal(const struct emulation_options *machine, const struct exec_options *options,
                           const struct schedule *schedule, enum status wanted, const char *part, const char *other)
{
    struct error error;
    emulation_reset(machine);
    EXPECT_INT(cuda_test_run(schedule, options, NULL, &error), wanted);
    EXPECT_PART(error.message, part);
    EXPECT_PART(error.message, other);
    EXPECT_INT(emulation_calls("cudaStreamCreateWithFlags"), 0); /* nothing was started */
}

static void test_no_usable_gpu(void)
{
    const struct exec_options options = { 0 };
    struct schedule s;
    everything_build(&s);
    expect_refusal(&(struct emulation_options){ .device_count = 0 }, &options, &s, STATUS_UNSUPPORTED, "no CUDA GPU",
                   "--executor host");
    expect_refusal(&(struct emulation_options){ .device_count = 2, .driver_version = -1 }, &options, &s,
                   STATUS_UNSUPPORTED, "no NVIDIA driver is loaded", "cudaErrorInsufficientDriver");
    expect_refusal(&(struct emulation_options){ .device_count = 2, .driver_version = 11040 }, &options, &s,
                   STATUS_UNSUPPORTED, "the NVIDIA driver is for CUDA 11.4", "older toolkit");
    emulation_reset(&(struct emulation_options){ .device_count = 2, .device_bytes = 512 * MIB });
    struct error error;
    emulation_fail("cudaGetDeviceCount", 1, 214);
    EXPECT_INT(cuda_test_run(&s, &options, NULL, &error), STATUS_UNSUPPORTED);
    EXPECT_PART(error.message, "cudaErrorECCUncorrectable");
    schedule_free(&s);
}

static void test_too_few_gpus(void)
{
    const struct exec_options options = { 0 };
    struct schedule s;
    everything_build(&s);
    expect_refusal(&(struct emulation_options){ .device_count = 1, .device_bytes = 512 * MIB }, &options, &s,
                   STATUS_UNSUPPORTED, "wants 2 GPUs here", "1 is visible; --emulate runs ranks as streams");
    schedule_free(&s);
}

static void test_old_gpus_have_no_bf16(void)
{
    const struct exec_options options = { 0 };
    struct schedule s;
    everything_build(&s);
    expect_refusal(&(struct emulation_options){ .device_count = 2, .device_bytes = 512 * MIB, .major = 7 }, &options,
                   &s, STATUS_UNSUPPORTED, "no bf16 or tf32", "emulated GPU 0");
    schedule_free(&s);
}

static void test_folded_and_fp8_are_refused(void)
{
    const struct exec_options options = { 0 };
    const struct emulation_options machine = { .device_count = 8, .device_bytes = 512 * MIB };
    const struct schedule_gen folded = { .ranks = 2, .events = 4, .devices_per_rank = 2 };
    struct schedule s;
    schedule_gen(&folded, 1, &s);
    expect_refusal(&machine, &options, &s, STATUS_UNSUPPORTED, "stands for several devices", "fold = false");
    schedule_free(&s);
    everything_build(&s);
    for (uint32_t i = 0; i < s.kernel_count; i++) {
        s.kernels[i].dtype = s.kernels[i].dtype == DTYPE_TF32 ? DTYPE_FP8 : s.kernels[i].dtype;
    }
    expect_refusal(&machine, &options, &s, STATUS_UNSUPPORTED, "fp8 products", "op 0, forward");
    schedule_free(&s);
}

/* -- products -- */

/* One rank that runs one kernel. */
static void build_kernel(const struct kernel *kernel, struct schedule *schedule)
{
    static const uint32_t device = 0;
    struct error error = { 0 };
    struct builder *b = builder_new();
    struct work_item item = { .kind = ITEM_KERNEL };
    (void)builder_space(b, SPACE_DEVICE, 0, 1000000000, SCHED_NONE, "gpu 0");
    builder_rank(b, &device, 1, 0, "stage 0");
    uint32_t queue = builder_queue(b, QUEUE_COMPUTE, "compute");
    item.index = builder_kernel(b, kernel);
    builder_op(b, OP_COMPUTE, queue, builder_work_kernels(b, &item, 1), PHASE_FORWARD);
    EXPECT_INT(builder_finish(b, schedule, &error), STATUS_OK);
}

static void run_kernel(const struct kernel *kernel, uint64_t device_bytes)
{
    const struct exec_options options = { .audit = true };
    struct schedule schedule;
    struct error error;
    emulation_reset(&(struct emulation_options){ .device_count = 1, .device_bytes = device_bytes });
    build_kernel(kernel, &schedule);
    EXPECT_INT(cuda_test_run(&schedule, &options, NULL, &error), STATUS_OK);
    EXPECT_TEXT(error.message, "");
    schedule_free(&schedule);
}

/* Tokens 12, inputs 20, outputs 30: the calls that PyTorch and Megatron make. */
static void test_layouts(void)
{
    struct kernel kernel = { .kernel_class = KERNEL_GEMM,
                             .dtype = DTYPE_BF16,
                             .layout = GEMM_TN,
                             .launches = 1,
                             .batch = 1,
                             .m = 12,
                             .n = 30,
                             .k = 20,
                             .bytes_written = 12 * 30 * 2 };
    run_kernel(&kernel, 1024 * MIB);
    struct emulation_product p = emulation_product_at(0);
    EXPECT_INT(emulation_product_count(), 1);
    EXPECT(p.transpose_a == 1 && p.transpose_b == 0 && p.m == 30 && p.n == 12 && p.k == 20);
    EXPECT(p.lda == 20 && p.ldb == 20 && p.ldc == 30 && p.batch == 1 && p.beta == 0);
    EXPECT(p.input == CUDA_R_16BF && p.output == CUDA_R_16BF && p.compute == CUBLAS_COMPUTE_32F);
    kernel.layout = GEMM_NN; /* gradient of the input: [12,30] x W[30,20] */
    kernel.n = 20;
    kernel.k = 30;
    run_kernel(&kernel, 1024 * MIB);
    p = emulation_product_at(0);
    EXPECT(p.transpose_a == 0 && p.transpose_b == 0 && p.m == 20 && p.n == 12 && p.k == 30);
    EXPECT(p.lda == 20 && p.ldb == 30 && p.ldc == 20);
    kernel = (struct kernel){ .kernel_class = KERNEL_GEMM,
                              .dtype = DTYPE_FP16,
                              .layout = GEMM_NT,
                              .flags = KERNEL_FLAG_ACCUMULATE,
                              .launches = 1,
                              .batch = 1,
                              .m = 30,
                              .n = 20,
                              .k = 12,
                              .bytes_written = 30 * 20 * 4 }; /* accumulated in fp32 */
    run_kernel(&kernel, 1024 * MIB);
    p = emulation_product_at(0);
    EXPECT(p.transpose_a == 0 && p.transpose_b == 1 && p.m == 20 && p.n == 30 && p.k == 12);
    EXPECT(p.lda == 20 && p.ldb == 30 && p.ldc == 20 && p.beta == 1);
    EXPECT(p.input == CUDA_R_16F && p.output == CUDA_R_32F);
    kernel.dtype = DTYPE_TF32;
    run_kernel(&kernel, 1024 * MIB);
    EXPECT_INT(emulation_product_at(0).compute, CUBLAS_COMPUTE_32F_FAST_TF32);
}

/* Multiply-adds of all products, in units of one head's m * n * k. */
static double products_done(const struct kernel *kernel)
{
    double sum = 0;
    for (uint32_t i = 0; i < emulation_product_count(); i++) {
        struct emulation_product p = emulation_product_at(i);
        sum += (double)p.batch * p.m * p.n * p.k;
    }
    return sum / ((double)kernel->batch * (double)kernel->m * (double)kernel->n * (double)kernel->k);
}

/* Two products forward, five backward; a mask saves 3/8 of them; scores never take more than their blocks. */
static void test_attention(void)
{
    struct kernel kernel = { .kernel_class = KERNEL_ATTENTION_FORWARD,
                             .dtype = DTYPE_FP16,
                             .launches = 1,
                             .batch = 3,
                             .m = 8192,
                             .n = 8192,
                             .k = 64,
                             .bytes_read = 1e6,
                             .bytes_written = 1e6 };
    run_kernel(&kernel, 4096 * MIB);
    EXPECT_REAL(products_done(&kernel), 2, 1e-12);
    /* Three heads of 1 MiB, four tensors, twice; scores of one block, twice; and the workspace. */
    EXPECT(emulation_peak_device_bytes() <= 2 * (12 + 128) * MIB + 33 * MIB);
    kernel.flags = KERNEL_FLAG_CAUSAL;
    run_kernel(&kernel, 4096 * MIB);
    EXPECT_REAL(products_done(&kernel), 2 * 0.625, 1e-12);
    kernel.kernel_class = KERNEL_ATTENTION_BACKWARD;
    run_kernel(&kernel, 4096 * MIB);
    EXPECT_REAL(products_done(&kernel), 5 * 0.625, 1e-12);
    kernel.flags = 0;
    kernel.m = 100; /* all heads in one block */
    kernel.n = 300;
    run_kernel(&kernel, 4096 * MIB);
    EXPECT_REAL(products_done(&kernel), 5, 1e-12);
    EXPECT_INT(emulation_product_count(), 5);
}

/* -- memory -- */

static void test_operands_give_way(void)
{
    const struct kernel kernel = { .kernel_class = KERNEL_ELEMENTWISE,
                                   .dtype = DTYPE_BF16,
                                   .launches = 1,
                                   .batch = 1,
                                   .m = 1,
                                   .n = 1,
                                   .k = 1,
                                   .bytes_read = 300e6,
                                   .bytes_written = 100e6 };
    run_kernel(&kernel, 1024 * MIB);
    EXPECT_INT(emulation_calls("gpu_stream"), 3); /* 300 MB read from 128 MiB */
    EXPECT_INT(emulation_peak_device_bytes(), (256 + 32) * MIB);
    run_kernel(&kernel, 64 * MIB);
    EXPECT(emulation_calls("gpu_stream") > 12);
    EXPECT(emulation_peak_device_bytes() <= 64 * MIB);
}

/* One op that acquires `bytes` of a device. */
static void build_buffer(uint64_t bytes, uint8_t flags, struct schedule *schedule)
{
    static const uint32_t device = 0;
    struct error error = { 0 };
    struct builder *b = builder_new();
    uint32_t space = builder_space(b, SPACE_DEVICE, 0, UINT64_C(80000000000), SCHED_NONE, "gpu 0");
    builder_rank(b, &device, 1, 0, "stage 0");
    uint32_t queue = builder_queue(b, QUEUE_COMPUTE, "compute");
    uint32_t buffer = builder_buffer(b, space, bytes, 1, BUFFER_ACTIVATION, flags, builder_label(b, "large"));
    builder_op(b, OP_DELAY, queue, builder_work_fixed(b, 1000000), PHASE_FORWARD);
    if (flags == 0) {
        builder_acquire(b, buffer);
        builder_release(b, buffer);
    } else {
        builder_read(b, buffer);
    }
    EXPECT_INT(builder_finish(b, schedule, &error), STATUS_OK);
}

static void test_out_of_device_memory(void)
{
    const struct exec_options options = { .audit = true };
    const struct emulation_options machine = { .device_count = 1, .device_bytes = 64 * MIB };
    struct schedule s;
    struct error error;
    build_buffer(100 * MIB, 0, &s);
    emulation_reset(&machine);
    EXPECT_INT(cuda_test_run(&s, &options, NULL, &error), STATUS_EXECUTION);
    EXPECT_PART(error.message, "rank 0, op 0, ");
    EXPECT_PART(error.message,
                "space \"gpu 0\" wanted 104857600 bytes more of GPU 0 (emulated GPU 0), which has 67108864");
    schedule_free(&s);
    build_buffer(100 * MIB, BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END, &s);
    emulation_reset(&machine);
    EXPECT_INT(cuda_test_run(&s, &options, NULL, &error), STATUS_EXECUTION);
    EXPECT_PART(error.message, "rank 0, space \"gpu 0\" wanted");
    EXPECT_PART(error.message, "what lives at the start");
    schedule_free(&s);
}

/* Spaces so tight that ops wait, and some schedules do not fit: outcomes, never errors. */
static void test_tight_spaces(void)
{
    uint32_t fits = 0, runs = 20;
    for (uint64_t seed = test_seed; seed < test_seed + runs; seed++) {
        const struct schedule_gen gen = { .ranks = 2, .events = 16, .devices_per_rank = 1, .tight = true };
        const struct exec_options options = { .audit = true, .patience_s = 20 };
        enum timeline_outcome outcome;
        struct schedule s;
        struct error error;
        emulation_reset(&(struct emulation_options){ .device_count = 2, .device_bytes = 96 * MIB });
        schedule_gen(&gen, seed, &s);
        cuda_test_avoid_fp8(&s);
        EXPECT_INT(cuda_test_run(&s, &options, &outcome, &error), STATUS_OK);
        EXPECT_TEXT(error.message, "");
        fits += outcome == TIMELINE_DONE;
        schedule_free(&s);
    }
    EXPECT(fits > 0 && fits < runs);
}

TEST_MAIN(TEST(test_no_usable_gpu), TEST(test_too_few_gpus), TEST(test_old_gpus_have_no_bf16),
          TEST(test_folded_and_fp8_are_refused), TEST(test_layouts), TEST(test_attention), TEST(test_operands_give_way),
          TEST(test_out_of_device_memory), TEST(test_tight_spaces))
