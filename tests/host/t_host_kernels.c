/* Kernels of the host executor against plain twins: products in every layout, attention both ways, memory-bound classes, conversions, Adam. */
#include <stdatomic.h>

#include "tests/test.h"
#include "validate/exec_host/host_attention.h"
#include "validate/exec_host/host_exp.h"
#include "validate/exec_host/host_floats.h"
#include "validate/exec_host/host_gemm.h"
#include "validate/exec_host/host_kernels.h"
#include "validate/exec_host/host_optimizer.h"
#include "validate/exec_host/host_stream.h"

static struct host_cancel cancel;
static uint64_t stream;

static float *numbers(uint64_t count)
{
    float *made = malloc((count + 1) * sizeof *made);
    for (uint64_t i = 0; i < count; i++) {
        made[i] = (float)test_unit(&stream) * 2 - 1;
    }
    return made;
}

static double worst(const float *a, const double *b, uint64_t count)
{
    double most = 0;
    for (uint64_t i = 0; i < count; i++) {
        double off = fabs((double)a[i] - b[i]);
        most = off > most || isnan(off) ? off : most;
    }
    return most;
}

/* ---- products ---- */

/* Rounding of a sum of k products of numbers below 1: k^2 ulps of fp32 at the very most, about sqrt(k) in truth. */
static double sum_tolerance(double k)
{
    return 8 * k * 0x1p-24;
}

static void one_product(enum gemm_layout layout, uint64_t m, uint64_t n, uint64_t k, bool accumulate, uint64_t calls)
{
    float *a = numbers(m * k), *b = numbers(k * n), *c = numbers(m * n);
    double *expected = malloc(m * n * sizeof *expected);
    const struct host_gemm gemm = { layout, m, n, k, 0.5f, accumulate, calls };
    for (uint64_t j = 0; j < n; j++) {
        for (uint64_t i = 0; i < m; i++) {
            double sum = 0;
            for (uint64_t l = 0; l < k; l++) {
                sum += (double)(layout == GEMM_TN ? a[i * k + l] : a[l * m + i]) *
                       (double)(layout == GEMM_NT ? b[l * n + j] : b[j * k + l]);
            }
            expected[j * m + i] = 0.5 * sum + (accumulate ? (double)c[j * m + i] : 0);
        }
    }
    EXPECT(host_gemm(&gemm, a, b, c, &cancel));
    EXPECT(worst(c, expected, m * n) < sum_tolerance((double)k));
    free(a);
    free(b);
    free(c);
    free(expected);
}

static void test_products(void)
{
    stream = test_seed;
    for (uint32_t layout = GEMM_NN; layout <= GEMM_NT; layout++) {
        for (uint32_t i = 0; i < 6; i++) {
            one_product((enum gemm_layout)layout, 1 + test_below(&stream, 70), 1 + test_below(&stream, 70),
                        1 + test_below(&stream, 70), i % 2 == 1, i);
        }
        one_product((enum gemm_layout)layout, 5, 3, 7, false, 100);
    }
}

/* ---- attention ---- */

struct attention_twin {
    uint64_t m, n, k;
    bool causal;
    double *p; /* [m,n] probabilities */
    double *out, *log_sums;
};

static bool sees(const struct attention_twin *t, uint64_t i, uint64_t j)
{
    return !t->causal || j + t->m <= i + t->n;
}

static void twin_forward(struct attention_twin *t, const float *q, const float *keys, const float *v, double scale)
{
    for (uint64_t i = 0; i < t->m; i++) {
        double sum = 0;
        for (uint64_t j = 0; j < t->n; j++) {
            double score = 0;
            for (uint64_t l = 0; l < t->k; l++) {
                score += (double)q[i * t->k + l] * (double)keys[j * t->k + l];
            }
            t->p[i * t->n + j] = sees(t, i, j) ? exp(score * scale) : 0;
            sum += t->p[i * t->n + j];
        }
        t->log_sums[i] = sum > 0 ? log(sum) : 0;
        for (uint64_t j = 0; j < t->n && sum > 0; j++) {
            t->p[i * t->n + j] /= sum;
        }
        for (uint64_t l = 0; l < t->k; l++) {
            t->out[i * t->k + l] = 0;
            for (uint64_t j = 0; j < t->n; j++) {
                t->out[i * t->k + l] += t->p[i * t->n + j] * (double)v[j * t->k + l];
            }
        }
    }
}

static void twin_backward(const struct attention_twin *t, const float *q, const float *keys, const float *v,
                          const float *dout, double scale, double *dq, double *dk, double *dv)
{
    memset(dq, 0, t->m * t->k * sizeof *dq);
    memset(dk, 0, t->n * t->k * sizeof *dk);
    memset(dv, 0, t->n * t->k * sizeof *dv);
    for (uint64_t i = 0; i < t->m; i++) {
        double mean = 0;
        for (uint64_t l = 0; l < t->k; l++) {
            mean += t->out[i * t->k + l] * (double)dout[i * t->k + l];
        }
        for (uint64_t j = 0; j < t->n; j++) {
            double dp = 0, p = t->p[i * t->n + j];
            for (uint64_t l = 0; l < t->k; l++) {
                dp += (double)dout[i * t->k + l] * (double)v[j * t->k + l];
                dv[j * t->k + l] += p * (double)dout[i * t->k + l];
            }
            double ds = p * (dp - mean) * scale;
            for (uint64_t l = 0; l < t->k; l++) {
                dq[i * t->k + l] += ds * (double)keys[j * t->k + l];
                dk[j * t->k + l] += ds * (double)q[i * t->k + l];
            }
        }
    }
}

static void one_attention(uint64_t m, uint64_t n, uint64_t k, bool causal)
{
    struct attention_twin t = { .m = m, .n = n, .k = k, .causal = causal };
    t.p = malloc(m * n * sizeof *t.p);
    t.out = malloc(m * k * sizeof *t.out);
    t.log_sums = malloc(m * sizeof *t.log_sums);
    double *dq = malloc(m * k * sizeof *dq), *dk = malloc(n * k * sizeof *dk), *dv = malloc(n * k * sizeof *dv);
    float *q = numbers(m * k), *keys = numbers(n * k), *v = numbers(n * k), *dout = numbers(m * k);
    float *out = numbers(m * k), *sums = numbers(m), *gq = numbers(m * k), *gk = numbers(n * k), *gv = numbers(n * k);
    float *scratch = malloc(HOST_ATTENTION_SCRATCH_FLOATS * sizeof *scratch);
    const struct host_attention attention = { m, n, k, 1 / sqrtf((float)k), causal, scratch };
    const struct host_attention_inputs in = { q, keys, v, out, dout, sums };
    double scale = 1 / sqrt((double)k);
    twin_forward(&t, q, keys, v, scale);
    twin_backward(&t, q, keys, v, dout, scale, dq, dk, dv);
    EXPECT(host_attention_forward(&attention, &in, out, sums, &cancel));
    EXPECT(worst(out, t.out, m * k) < 1e-5);
    EXPECT(worst(sums, t.log_sums, m) < 1e-5);
    EXPECT(host_attention_backward(&attention, &in, gq, gk, gv, &cancel));
    EXPECT(worst(gq, dq, m * k) < 1e-4);
    EXPECT(worst(gk, dk, n * k) < 1e-4);
    EXPECT(worst(gv, dv, n * k) < 1e-4);
    void *all[] = { t.p, t.out, t.log_sums, dq, dk, dv, q, keys, v, dout, out, sums, gq, gk, gv, scratch };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
}

static void test_attention(void)
{
    for (uint32_t causal = 0; causal < 2; causal++) {
        one_attention(1, 1, 1, causal == 1);
        one_attention(130, 130, 16, causal == 1);
        one_attention(64, 300, 40, causal == 1); /* more keys than queries */
        one_attention(300, 70, 9, causal == 1);  /* fewer: causal rows that see nothing */
    }
}

/* ---- memory-bound classes ---- */

static void twin_row(enum kernel_class kernel_class, double *out, const float *x, uint64_t n)
{
    double mean = 0, variance = 0, greatest = -INFINITY, sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        mean += (double)x[i] / (double)n;
        greatest = fmax(greatest, (double)x[i]);
    }
    for (uint64_t i = 0; i < n; i++) {
        variance += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
        sum += exp((double)x[i] - greatest);
    }
    for (uint64_t i = 0; i < n; i++) {
        out[i] = kernel_class == KERNEL_NORM ? ((double)x[i] - mean) / sqrt(variance + 1e-5)
                                             : exp((double)x[i] - greatest) / sum;
    }
}

static void one_stream(enum kernel_class kernel_class, uint64_t in_count, uint64_t out_count, uint64_t row)
{
    float *in = numbers(in_count), *out = numbers(out_count);
    double *expected = calloc(out_count + 1, sizeof *expected);
    uint64_t first = in_count < out_count ? in_count : out_count;
    for (uint64_t at = 0; at < out_count; at += first) {
        uint64_t n = out_count - at < first ? out_count - at : first;
        for (uint64_t r = 0; r < n; r += row) {
            uint64_t width = n - r < row ? n - r : row;
            if (kernel_class == KERNEL_NORM || kernel_class == KERNEL_SOFTMAX) {
                twin_row(kernel_class, expected + at + r, in + r, width);
            }
        }
        for (uint64_t i = 0; i < n && (kernel_class == KERNEL_ELEMENTWISE || kernel_class == KERNEL_REDUCE); i++) {
            expected[at + i] = kernel_class == KERNEL_ELEMENTWISE ? 1.5 * (double)in[i] + 0.5 : (double)in[i];
        }
    }
    for (uint64_t i = out_count; i < in_count; i++) {
        expected[i % out_count] += (double)in[i];
    }
    (void)host_stream(kernel_class, in, in_count, out, out_count, row);
    EXPECT(worst(out, expected, out_count) < 2e-5);
    free(in);
    free(out);
    free(expected);
}

static void test_streams(void)
{
    static const enum kernel_class classes[] = { KERNEL_ELEMENTWISE, KERNEL_REDUCE, KERNEL_NORM, KERNEL_SOFTMAX };
    stream = test_seed;
    for (uint32_t i = 0; i < 4; i++) {
        one_stream(classes[i], 1000, 1000, 64);
        one_stream(classes[i], 2345, 1000, 100); /* a second stream and a part of a third */
        one_stream(classes[i], 300, 1000, 1000); /* read again */
        one_stream(classes[i], 1, 1, 16);
    }
}

/* A cross entropy reads logits and writes a number a row: every logit's exponential is taken. */
static void test_losses(void)
{
    enum { ROWS = 5, WIDTH = 67 };
    stream = test_seed;
    float *in = numbers(ROWS * WIDTH), out[ROWS];
    double expected[ROWS] = { 0 };
    for (uint32_t outputs = ROWS; outputs >= ROWS - 2; outputs--) { /* fewer outputs than rows: several rows each */
        memset(expected, 0, sizeof expected);
        for (uint32_t r = 0; r < ROWS; r++) {
            double sum = 0;
            for (uint32_t i = 0; i < WIDTH; i++) {
                sum += exp((double)in[r * WIDTH + i]);
            }
            expected[r % outputs] += log(sum);
        }
        (void)host_stream(KERNEL_SOFTMAX, in, ROWS * WIDTH, out, outputs, WIDTH);
        EXPECT(worst(out, expected, outputs) < 2e-5);
    }
    free(in);
}

static void test_gather(void)
{
    enum { ROWS = 32, WIDTH = 16 };
    float *in = numbers(ROWS * WIDTH), out[ROWS * WIDTH];
    (void)host_stream(KERNEL_GATHER, in, ROWS * WIDTH, out, ROWS * WIDTH, WIDTH);
    bool taken[ROWS] = { false };
    uint32_t moved = 0;
    for (uint32_t r = 0; r < ROWS; r++) { /* every row of the output is one of the input, every one once */
        for (uint32_t other = 0; other < ROWS; other++) {
            if (memcmp(out + r * WIDTH, in + other * WIDTH, WIDTH * sizeof *in) == 0) {
                EXPECT(!taken[other]);
                taken[other] = true;
                moved += other != r;
            }
        }
    }
    for (uint32_t r = 0; r < ROWS; r++) {
        EXPECT(taken[r]);
    }
    EXPECT(moved > ROWS / 2);
    free(in);
}

static void test_squares(void)
{
    float in[100];
    double sum = 0;
    for (uint32_t i = 0; i < 100; i++) {
        in[i] = (float)i;
        sum += (double)i * i;
    }
    EXPECT_REAL((double)host_stream(KERNEL_OPTIMIZER, in, 100, NULL, 0, 16), sum, 1e-6);
}

/* A record that takes its operands from the ring: outputs stay finite, inputs unchanged, over many rounds. */
static void test_records(void)
{
    struct host_operands operands;
    struct error error = { 0 };
    float *scratch = malloc(HOST_ATTENTION_SCRATCH_FLOATS * sizeof *scratch);
    double most_in = 0, most_out = 0;
    struct kernel kernels[KERNEL_CLASS_COUNT];
    for (uint32_t c = 0; c < KERNEL_CLASS_COUNT; c++) {
        double in, out;
        kernels[c] = (struct kernel){ .kernel_class = (uint8_t)c,
                                      .flags = KERNEL_FLAG_CAUSAL | KERNEL_FLAG_ACCUMULATE,
                                      .launches = 3,
                                      .batch = 2,
                                      .m = 70,
                                      .n = 50,
                                      .k = 30,
                                      .bytes_read = 123457,
                                      .bytes_written = 65432.1 };
        host_kernel_wants(&kernels[c], &in, &out);
        most_in = fmax(most_in, in);
        most_out = fmax(most_out, out);
    }
    EXPECT_INT(host_operands_init(&operands, host_operands_count((uint64_t)most_in, 1000),
                                  host_operands_count((uint64_t)most_out, 1000), &error),
               STATUS_OK);
    float *before = malloc(operands.input_count * sizeof *before);
    memcpy(before, operands.inputs, operands.input_count * sizeof *before);
    for (uint32_t round = 0; round < 200; round++) {
        for (uint32_t c = 0; c < KERNEL_CLASS_COUNT; c++) {
            EXPECT(host_kernel_run(&kernels[c], &operands, scratch, &cancel));
        }
    }
    EXPECT_INT(memcmp(before, operands.inputs, operands.input_count * sizeof *before), 0);
    float greatest = 0;
    for (uint64_t i = 0; i < operands.output_count; i++) {
        greatest = fabsf(operands.outputs[i]) > greatest ? fabsf(operands.outputs[i]) : greatest;
        EXPECT(isfinite(operands.outputs[i]));
    }
    EXPECT(greatest > 0 && greatest < 1e6f);
    struct host_cancel raised = { 0 };
    host_cancel_raise(&raised);
    for (uint32_t c = 0; c < KERNEL_CLASS_COUNT; c++) {
        EXPECT(!host_kernel_run(&kernels[c], &operands, scratch, &raised));
    }
    char why[200] = "";
    kernels[KERNEL_GEMM].k = UINT64_C(1) << 31;
    EXPECT(!host_kernel_is_possible(&kernels[KERNEL_GEMM], why, sizeof why));
    EXPECT_PART(why, "2147483648");
    host_operands_free(&operands);
    free(before);
    free(scratch);
}

/* ---- numbers ---- */

static void test_exp(void)
{
    double most = 0;
    for (double x = -87; x < 88; x += 0.0137) {
        most = fmax(most, fabs((double)host_exp((float)x) / exp((double)(float)x) - 1));
    }
    EXPECT(most < 3 * 0x1p-23);
    EXPECT(host_exp(-1e30f) < 1e-37f && isfinite(host_exp(1e30f)));
}

/* Every value of the narrow formats comes back from fp32; between two neighbours the nearer is taken, half way the even one. */
static void narrow_format(uint32_t count, float (*wide)(uint32_t), uint32_t (*narrow)(float))
{
    for (uint32_t i = 0; i < count / 2; i++) {
        float value = wide(i), next = i + 1 < count / 2 ? wide(i + 1) : NAN;
        if (!isnan(value)) {
            EXPECT_INT(narrow(value), i);
            EXPECT_INT(narrow(-value), i + count / 2);
        }
        if (isfinite(value) && isfinite(next)) {
            float middle = value + (next - value) / 2;
            EXPECT_INT(narrow(middle), i + (i & 1));
            EXPECT_INT(narrow(nextafterf(middle, next)), i + 1);
            EXPECT_INT(narrow(nextafterf(middle, value)), i);
        }
    }
    EXPECT(isnan(wide(narrow(NAN))));
}

static float wide_half(uint32_t i)
{
    return host_float_from_half((uint16_t)i);
}
static uint32_t narrow_half(float x)
{
    return host_half_from_float(x);
}
static float wide_fp8(uint32_t i)
{
    return host_float_from_fp8((uint8_t)i);
}
static uint32_t narrow_fp8(float x)
{
    return host_fp8_from_float(x);
}
static float wide_bf16(uint32_t i)
{
    uint16_t bits = (uint16_t)i;
    float value;
    host_floats_load(&value, (const uint8_t *)&bits, DTYPE_BF16, 1);
    return value;
}
static uint32_t narrow_bf16(float x)
{
    return host_bf16_from_float(x);
}

static void test_formats(void)
{
    narrow_format(1 << 16, wide_half, narrow_half);
    narrow_format(1 << 8, wide_fp8, narrow_fp8);
    narrow_format(1 << 16, wide_bf16, narrow_bf16);
    EXPECT(host_float_from_half(0x3c00) == 1 && host_float_from_half(0x7bff) == 65504);
    EXPECT(host_float_from_fp8(0x38) == 1 && host_float_from_fp8(0x7e) == 448 && isnan(host_float_from_fp8(0x7f)));
    EXPECT_INT(host_fp8_from_float(465), 0x7f);
    EXPECT_INT(host_half_from_float(65520), 0x7c00);
}

/* Long arrays (with the processor's own conversions) against one number at a time. */
static void test_half_arrays(void)
{
    enum { COUNT = 1 << 16 };
    uint8_t *halves = malloc(2 * COUNT + 1), *back = malloc(2 * COUNT + 1);
    float *wide = malloc(COUNT * sizeof *wide);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint16_t bits = (uint16_t)i;
        memcpy(halves + 1 + 2 * i, &bits, 2); /* odd address */
    }
    host_floats_load(wide, halves + 1, DTYPE_FP16, COUNT);
    host_floats_store(back + 1, wide, DTYPE_FP16, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        float one = host_float_from_half((uint16_t)i);
        uint16_t bits;
        memcpy(&bits, back + 1 + 2 * i, 2);
        EXPECT(isnan(one) ? isnan(wide[i]) : memcmp(&one, &wide[i], sizeof one) == 0);
        EXPECT(isnan(one) || bits == i);
    }
    free(halves);
    free(back);
    free(wide);
}

/* Whole numbers whose sums the dtype holds: exact, for every dtype and count. */
static void test_sums(void)
{
    enum { MOST = 3000, SOURCES = 5 };
    static uint8_t data[SOURCES][MOST * 4], out[MOST * 4], expected[MOST * 4];
    static float sums[MOST], one[MOST];
    for (uint32_t d = 0; d < DTYPE_COUNT; d++) {
        for (uint32_t count = 1; count < MOST; count = count * 3 + 1) {
            const uint8_t *sources[SOURCES];
            memset(sums, 0, sizeof sums);
            for (uint32_t s = 0; s < SOURCES; s++) {
                for (uint32_t i = 0; i < count; i++) {
                    one[i] = (float)((int)((i * 7 + s * 5) % 7) - 3);
                    sums[i] += one[i];
                }
                host_floats_store(data[s], one, (enum dtype)d, count);
                sources[s] = data[s];
            }
            host_floats_store(expected, sums, (enum dtype)d, count);
            host_floats_sum(out, sources, SOURCES, (enum dtype)d, count);
            EXPECT_INT(memcmp(out, expected, count * dtype_bytes((enum dtype)d)), 0);
            host_floats_sum(data[2], sources, SOURCES, (enum dtype)d, count); /* onto one of them */
            EXPECT_INT(memcmp(data[2], expected, count * dtype_bytes((enum dtype)d)), 0);
        }
    }
}

/* ---- the optimizer ---- */

static void adam_twin(float *p, float *m, float *v, const float *g)
{
    *m = 0.9f * *m + (1 - 0.9f) * *g;
    *v = 0.999f * *v + (1 - 0.999f) * (*g * *g);
    *p -= 1e-4f * *m / (sqrtf(*v) + 1e-8f);
}

static void one_adam(uint32_t threads, uint64_t block, uint64_t blocks, uint64_t parameters, uint32_t rounds)
{
    uint64_t floats = 4 * block * blocks;
    float *data = numbers(floats), *twin = malloc(floats * sizeof *twin);
    struct host_adam_pool *pool;
    struct error error = { 0 };
    for (uint64_t i = 0; i < floats; i++) {
        data[i] = fabsf(data[i]);
    }
    memcpy(twin, data, floats * sizeof *twin);
    for (uint64_t i = 0; i < parameters * rounds; i++) {
        uint64_t at = i % parameters;
        float *p = twin + at / block * 4 * block + at % block;
        adam_twin(p, p + block, p + 2 * block, p + 3 * block);
    }
    EXPECT_INT(host_adam_pool_new(&pool, threads, &cancel, &error), STATUS_OK);
    for (uint32_t i = 0; i < rounds; i++) {
        EXPECT(host_adam_run(pool, &(struct host_adam_state){ data, block, blocks }, parameters));
    }
    host_adam_pool_free(pool);
    EXPECT_INT(memcmp(data, twin, floats * sizeof *twin), 0);
    free(data);
    free(twin);
}

static void test_adam(void)
{
    stream = test_seed;
    for (uint32_t threads = 1; threads <= 5; threads++) {
        one_adam(threads, 1000, 3, 3000, 2);
        one_adam(threads, 1000, 3, 2500, 1);
        one_adam(threads, 1, 2, 2, 1);
        one_adam(threads, 7, 1, 3, 1);         /* fewer parameters than threads */
        one_adam(threads, 40001, 2, 70000, 2); /* those above are too few to wake anybody for */
    }
}

/* More parameters than memory: each thread walks its own stretch again, as often as it must. */
static void adam_rounds(uint32_t block, uint32_t blocks)
{
    uint32_t held = block * blocks;
    float *data = malloc(4 * held * sizeof *data);
    struct host_adam_pool *pool;
    struct error error = { 0 };
    for (uint32_t i = 0; i < 4 * held; i++) {
        data[i] = i / block % 4 == 3 ? 1 : 0; /* gradients */
    }
    EXPECT_INT(host_adam_pool_new(&pool, 2, &cancel, &error), STATUS_OK);
    EXPECT(host_adam_run(pool, &(struct host_adam_state){ data, block, blocks }, (uint64_t)3 * held));
    host_adam_pool_free(pool);
    float p = 0, m = 0, v = 0, g = 1;
    for (uint32_t i = 0; i < 3; i++) {
        adam_twin(&p, &m, &v, &g);
    }
    for (uint32_t i = 0; i < held; i++) {
        EXPECT_REAL((double)data[i / block * 4 * block + i % block], (double)p, 0);
    }
    free(data);
}

static void test_adam_rounds(void)
{
    adam_rounds(50, 4); /* by one thread */
    adam_rounds(8000, 4);
}

static void test_adam_cancelled(void)
{
    struct host_cancel raised = { 0 };
    struct host_adam_pool *pool;
    struct error error = { 0 };
    float data[4] = { 0 };
    EXPECT_INT(host_adam_pool_new(&pool, 3, &raised, &error), STATUS_OK);
    host_cancel_raise(&raised);
    EXPECT(!host_adam_run(pool, &(struct host_adam_state){ data, 1, 1 }, UINT64_C(1) << 50));
    host_adam_pool_free(pool);
}

TEST_MAIN(TEST(test_products), TEST(test_attention), TEST(test_streams), TEST(test_losses), TEST(test_gather),
          TEST(test_squares), TEST(test_records), TEST(test_exp), TEST(test_formats), TEST(test_half_arrays),
          TEST(test_sums), TEST(test_adam), TEST(test_adam_rounds), TEST(test_adam_cancelled))
