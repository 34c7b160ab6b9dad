#include "validate/exec_host/host_stream.h"

#include <math.h>
#include <string.h>

#include "sim/base/check.h"
#include "validate/exec_host/host_exp.h"

enum { LANES = 16 };

/* As the vectors of every core that may run this allow, else rows with sums and exponentials wait for arithmetic, not for memory as these classes shall. The same results: nothing is
 * contracted, and sums run in LANES lanes of their own. What such functions are made of has to be part of each of their clones. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) /* whose resolvers of functions run before it is ready */
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST
#endif
#define PART static inline __attribute__((always_inline))

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t lane_bits __attribute__((vector_size(LANES * sizeof(int32_t))));

/* By address: vectors as arguments are passed one way in one clone and another in the next. */
PART void load(lanes *to, const float *x)
{
    memcpy(to, x, sizeof *to);
}

PART float lane_sum(const lanes *all)
{
    float sum = 0;
    for (uint32_t l = 0; l < LANES; l++) {
        sum += (*all)[l];
    }
    return sum;
}

PART float sum_of(const float *x, uint64_t count)
{
    lanes sums = { 0 }, next;
    float sum = 0;
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        load(&next, x + i);
        sums += next;
    }
    for (; i < count; i++) {
        sum += x[i];
    }
    return sum + lane_sum(&sums);
}

PART float squares_in(const float *x, uint64_t count, float mean)
{
    lanes sums = { 0 }, from_mean;
    float sum = 0;
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        load(&from_mean, x + i);
        from_mean -= mean;
        sums += from_mean * from_mean;
    }
    for (; i < count; i++) {
        sum += (x[i] - mean) * (x[i] - mean);
    }
    return sum + lane_sum(&sums);
}

PART float greatest_of(const float *x, uint64_t count)
{
    lanes most = (lanes){ 0 } + x[0], next;
    float greatest = x[0];
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        load(&next, x + i);
        lane_bits more = next > most;
        most = (lanes)(((lane_bits)next & more) | ((lane_bits)most & ~more));
    }
    for (; i < count; i++) {
        greatest = x[i] > greatest ? x[i] : greatest;
    }
    for (uint32_t l = 0; l < LANES; l++) {
        greatest = most[l] > greatest ? most[l] : greatest;
    }
    return greatest;
}

WIDEST static float squares_of(const float *x, uint64_t count)
{
    return squares_in(x, count, 0);
}

/* ---- one row of the first stream ---- */

PART void line_in(float *out, const float *x, uint64_t count, float factor, float constant)
{
    for (uint64_t i = 0; i < count; i++) {
        out[i] = x[i] * factor + constant;
    }
}

WIDEST static void line(float *out, const float *x, uint64_t count, float factor, float constant)
{
    line_in(out, x, count, factor, constant);
}

WIDEST static void norm_row(float *out, const float *x, uint64_t count)
{
    float mean = sum_of(x, count) / (float)count;
    float scale = 1 / sqrtf(squares_in(x, count, mean) / (float)count + 1e-5f);
    line_in(out, x, count, scale, -mean * scale);
}

WIDEST static void softmax_row(float *out, const float *x, uint64_t count)
{
    float greatest = greatest_of(x, count);
    for (uint64_t i = 0; i < count; i++) {
        out[i] = host_exp(x[i] - greatest);
    }
    float share = 1 / sum_of(out, count);
    for (uint64_t i = 0; i < count; i++) {
        out[i] *= share;
    }
}

/* Losses: the logarithm of the sum of each row's exponentials; rows beyond the outputs go round and are added. */
WIDEST static void row_losses(float *out, uint64_t out_count, const float *x, uint64_t count, uint64_t row)
{
    for (uint64_t at = 0, r = 0; at < count; at += row, r++) {
        uint64_t n = least(row, count - at), i = 0;
        float greatest = greatest_of(x + at, n), exponentials[LANES], sum = 0;
        lanes sums = { 0 }, next;
        for (; i + LANES <= n; i += LANES) {
            for (uint32_t l = 0; l < LANES; l++) {
                exponentials[l] = host_exp(x[at + i + l] - greatest);
            }
            load(&next, exponentials);
            sums += next;
        }
        for (; i < n; i++) {
            sum += host_exp(x[at + i] - greatest);
        }
        float loss = greatest + logf(sum + lane_sum(&sums));
        out[r % out_count] = r < out_count ? loss : out[r % out_count] + loss;
    }
}

/* out[count] from one stream x[count]. */
static void first_stream(enum kernel_class kernel_class, float *out, const float *x, uint64_t count, uint64_t row)
{
    uint64_t rows = (count + row - 1) / row;
    if (kernel_class == KERNEL_ELEMENTWISE) {
        line(out, x, count, 1.5f, 0.5f);
        return;
    }
    if (kernel_class == KERNEL_REDUCE || kernel_class == KERNEL_OPTIMIZER) {
        memcpy(out, x, count * sizeof *out);
        return;
    }
    for (uint64_t r = 0; r < rows; r++) {
        uint64_t at = r * row, n = least(row, count - at);
        if (kernel_class == KERNEL_NORM) {
            norm_row(out + at, x + at, n);
        } else if (kernel_class == KERNEL_SOFTMAX) {
            softmax_row(out + at, x + at, n);
        } else { /* rows of full length in an order that no prefetcher guesses; a prime factor reaches every one */
            uint64_t full = count / row, other = full == 0 || r >= full ? r : (r * 2654435761u + 1) % full;
            memcpy(out + at, x + other * row, n * sizeof *out);
        }
    }
}

WIDEST static void add_stream(float *out, const float *x, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        out[i] += x[i];
    }
}

/* p, m, v, g of n each; constants of Adam at a late step. */
WIDEST static void adam(float *out, const float *in, uint64_t n)
{
    const float *p = in, *m = in + n, *v = in + 2 * n, *g = in + 3 * n;
    float *p_out = out, *m_out = out + n, *v_out = out + 2 * n;
    for (uint64_t i = 0; i < n; i++) {
        float momentum = 0.9f * m[i] + 0.1f * g[i], square = 0.999f * v[i] + 0.001f * g[i] * g[i];
        square = square > 0 ? square : 0; /* inputs are any numbers */
        m_out[i] = momentum;
        v_out[i] = square;
        p_out[i] = p[i] - 1e-4f * momentum / (sqrtf(square) + 1e-8f);
    }
}

float host_stream(enum kernel_class kernel_class, const float *in, uint64_t in_count, float *out, uint64_t out_count,
                  uint64_t row)
{
    CHECK(row > 0);
    if (out_count == 0) {
        return squares_of(in, in_count);
    }
    if (in_count == 0) {
        memset(out, 0, out_count * sizeof *out);
        return 0;
    }
    uint64_t n = out_count / 3;
    if (kernel_class == KERNEL_OPTIMIZER && n > 0 && in_count >= 4 * n) {
        adam(out, in, n);
        for (uint64_t i = 3 * n; i < out_count; i++) {
            out[i] = in[i];
        }
        return sum_of(in + 4 * n, in_count - 4 * n);
    }
    if (kernel_class == KERNEL_SOFTMAX && out_count < in_count && out_count <= (in_count + row - 1) / row) {
        row_losses(out, out_count, in, in_count, row);
        return 0;
    }
    uint64_t first = least(in_count, out_count), streams = in_count / out_count;
    for (uint64_t at = 0; at < out_count; at += first) {
        first_stream(kernel_class, out + at, in, least(first, out_count - at), row);
    }
    for (uint64_t s = 1; s < streams; s++) {
        add_stream(out, in + s * out_count, out_count);
    }
    if (streams > 0) {
        add_stream(out, in + streams * out_count, in_count - streams * out_count);
    }
    return 0;
}

static uint64_t floats_of(double bytes)
{
    return (uint64_t)ceil(bytes / sizeof(float));
}

/* Floats of `all` that stand before part `index` of `count`. */
static uint64_t part_start(uint64_t all, uint64_t index, uint64_t count)
{
    return all / count * index + least(index, all % count);
}

bool host_stream_kernel(const struct kernel *kernel, struct host_operands *operands, const struct host_cancel *cancel)
{
    uint64_t in = floats_of(kernel->bytes_read), out = floats_of(kernel->bytes_written);
    uint64_t most = in > out ? in : out, row = least(kernel->n, HOST_STREAM_ROW_FLOATS_MAX);
    uint64_t blocks = (most + HOST_STREAM_BLOCK_FLOATS - 1) / HOST_STREAM_BLOCK_FLOATS;
    blocks = blocks < kernel->launches ? kernel->launches : blocks;
    row = row < LANES ? 1024 : row; /* a kernel without rows */
    for (uint64_t b = 0; b < blocks; b++) {
        uint64_t n_in = part_start(in, b + 1, blocks) - part_start(in, b, blocks);
        uint64_t n_out = part_start(out, b + 1, blocks) - part_start(out, b, blocks);
        if (host_is_cancelled(cancel)) {
            return false;
        }
        if (n_in + n_out > 0) {
            operands->sink = host_stream((enum kernel_class)kernel->kernel_class, host_operands_input(operands, n_in),
                                         n_in, host_operands_output(operands, n_out), n_out, row);
        }
    }
    return true;
}
