#include "validate/exec_host/host_attention.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

#include "validate/exec_host/host_exp.h"

enum { TILE = HOST_ATTENTION_TILE, LANES = 16 };

/* A tile of the scores: rows of queries by columns of keys. */
struct tile {
    uint64_t row, column;
    uint32_t rows, columns;
};

/* c [rows,columns] = factor * (a or a^T) * (b or b^T) + keep * c, row-major. */
static void product(bool turns_a, bool turns_b, uint64_t rows, uint64_t columns, uint64_t inner, float factor,
                    const float *a, uint64_t a_stride, const float *b, uint64_t b_stride, float keep, float *c,
                    uint64_t c_stride)
{
    cblas_sgemm(CblasRowMajor, turns_a ? CblasTrans : CblasNoTrans, turns_b ? CblasTrans : CblasNoTrans, (int)rows,
                (int)columns, (int)inner, factor, a, (int)a_stride, b, (int)b_stride, keep, c, (int)c_stride);
}

/* How many keys query `row` sees. */
static uint64_t seen(const struct host_attention *attention, uint64_t row)
{
    if (!attention->causal) {
        return attention->n;
    }
    uint64_t end = row + attention->n + 1;
    return end <= attention->m ? 0 : end - attention->m < attention->n ? end - attention->m : attention->n;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static float row_greatest(const float *row, uint32_t count, float greatest)
{
    float lanes[LANES];
    uint32_t i = 0;
    for (uint32_t l = 0; l < LANES; l++) {
        lanes[l] = greatest;
    }
    for (; i + LANES <= count; i += LANES) {
        for (uint32_t l = 0; l < LANES; l++) {
            lanes[l] = row[i + l] > lanes[l] ? row[i + l] : lanes[l];
        }
    }
    for (; i < count; i++) {
        lanes[0] = row[i] > lanes[0] ? row[i] : lanes[0];
    }
    for (uint32_t l = 0; l < LANES; l++) {
        greatest = lanes[l] > greatest ? lanes[l] : greatest;
    }
    return greatest;
}

/* row = exp(row - shift); returns the sum. */
static float row_exponentials(float *row, uint32_t count, float shift)
{
    float lanes[LANES] = { 0 }, sum = 0;
    uint32_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (uint32_t l = 0; l < LANES; l++) {
            row[i + l] = host_exp(row[i + l] - shift);
            lanes[l] += row[i + l];
        }
    }
    for (; i < count; i++) {
        row[i] = host_exp(row[i] - shift);
        sum += row[i];
    }
    for (uint32_t l = 0; l < LANES; l++) {
        sum += lanes[l];
    }
    return sum;
}

static void scores_of(const struct host_attention *attention, const struct host_attention_inputs *in,
                      const struct tile *tile, float *scores)
{
    uint64_t k = attention->k;
    product(false, true, tile->rows, tile->columns, k, attention->scale, in->q + tile->row * k, k,
            in->k + tile->column * k, k, 0, scores, TILE);
}

/* Columns of the tile that row `r` of it sees. */
static uint32_t seen_in_tile(const struct host_attention *attention, const struct tile *tile, uint32_t r)
{
    uint64_t keys = seen(attention, tile->row + r);
    return (uint32_t)(keys <= tile->column ? 0 : least(keys - tile->column, tile->columns));
}

/* One tile of the online softmax: greatest[] and sums[] of the tile's rows move on, `out` is rescaled to them. */
static void forward_tile(const struct host_attention *attention, const struct host_attention_inputs *in,
                         const struct tile *tile, float *greatest, float *sums, float *out)
{
    uint64_t k = attention->k;
    float *scores = attention->scratch;
    scores_of(attention, in, tile, scores);
    for (uint32_t r = 0; r < tile->rows; r++) {
        uint32_t columns = seen_in_tile(attention, tile, r);
        float *row = scores + (size_t)r * TILE;
        float before = greatest[r], now = row_greatest(row, columns, before);
        if (columns > 0) {
            float keep = host_exp(before - now);
            sums[r] = sums[r] * keep + row_exponentials(row, columns, now);
            greatest[r] = now;
            for (uint64_t i = 0; i < k; i++) {
                out[(tile->row + r) * k + i] *= keep;
            }
        }
        memset(row + columns, 0, (tile->columns - columns) * sizeof *row);
    }
    product(false, false, tile->rows, k, tile->columns, 1, scores, TILE, in->v + tile->column * k, k, 1,
            out + tile->row * k, k);
}

bool host_attention_forward(const struct host_attention *attention, const struct host_attention_inputs *in, float *out,
                            float *log_sums, const struct host_cancel *cancel)
{
    uint64_t m = attention->m, k = attention->k;
    for (uint64_t row = 0; row < m; row += TILE) {
        struct tile tile = { .row = row, .rows = (uint32_t)least(m - row, TILE) };
        float greatest[TILE], sums[TILE] = { 0 };
        for (uint32_t r = 0; r < tile.rows; r++) {
            greatest[r] = -1e30f;
        }
        memset(out + row * k, 0, tile.rows * k * sizeof *out);
        uint64_t keys = seen(attention, row + tile.rows - 1);
        for (; tile.column < keys; tile.column += TILE) {
            tile.columns = (uint32_t)least(keys - tile.column, TILE);
            if (host_is_cancelled(cancel)) {
                return false;
            }
            forward_tile(attention, in, &tile, greatest, sums, out);
        }
        for (uint32_t r = 0; r < tile.rows; r++) {
            float share = sums[r] > 0 ? 1 / sums[r] : 0;
            log_sums[row + r] = sums[r] > 0 ? greatest[r] + logf(sums[r]) : 0;
            for (uint64_t i = 0; i < k; i++) {
                out[(row + r) * k + i] *= share;
            }
        }
    }
    return true;
}

/* sum over the row of out * its gradient: what the softmax's gradient subtracts. */
static void row_products(const struct host_attention *attention, const struct host_attention_inputs *in,
                         const struct tile *tile, float *products)
{
    uint64_t k = attention->k;
    for (uint32_t r = 0; r < tile->rows; r++) {
        const float *out = in->out + (tile->row + r) * k, *gradient = in->out_gradient + (tile->row + r) * k;
        float lanes[LANES] = { 0 }, sum = 0;
        uint64_t i = 0;
        for (; i + LANES <= k; i += LANES) {
            for (uint32_t l = 0; l < LANES; l++) {
                lanes[l] += out[i + l] * gradient[i + l];
            }
        }
        for (; i < k; i++) {
            sum += out[i] * gradient[i];
        }
        for (uint32_t l = 0; l < LANES; l++) {
            sum += lanes[l];
        }
        products[r] = sum;
    }
}

static void backward_tile(const struct host_attention *attention, const struct host_attention_inputs *in,
                          const struct tile *tile, float *q_gradient, float *k_gradient, float *v_gradient)
{
    uint64_t k = attention->k;
    float *probabilities = attention->scratch, *gradients = attention->scratch + (size_t)TILE * TILE;
    const float *out_gradient = in->out_gradient + tile->row * k;
    float products[TILE];
    row_products(attention, in, tile, products);
    scores_of(attention, in, tile, probabilities);
    product(false, true, tile->rows, tile->columns, k, 1, out_gradient, k, in->v + tile->column * k, k, 0, gradients,
            TILE);
    for (uint32_t r = 0; r < tile->rows; r++) {
        uint32_t columns = seen_in_tile(attention, tile, r);
        float *p = probabilities + (size_t)r * TILE, *g = gradients + (size_t)r * TILE;
        (void)row_exponentials(p, columns, in->log_sums[tile->row + r]);
        for (uint32_t i = 0; i < columns; i++) {
            g[i] = p[i] * (g[i] - products[r]);
        }
        memset(p + columns, 0, (tile->columns - columns) * sizeof *p);
        memset(g + columns, 0, (tile->columns - columns) * sizeof *g);
    }
    product(true, false, tile->columns, k, tile->rows, 1, probabilities, TILE, out_gradient, k, 1,
            v_gradient + tile->column * k, k);
    product(true, false, tile->columns, k, tile->rows, attention->scale, gradients, TILE, in->q + tile->row * k, k, 1,
            k_gradient + tile->column * k, k);
    product(false, false, tile->rows, k, tile->columns, attention->scale, gradients, TILE, in->k + tile->column * k, k,
            1, q_gradient + tile->row * k, k);
}

bool host_attention_backward(const struct host_attention *attention, const struct host_attention_inputs *in,
                             float *q_gradient, float *k_gradient, float *v_gradient, const struct host_cancel *cancel)
{
    uint64_t m = attention->m, n = attention->n, k = attention->k;
    memset(q_gradient, 0, m * k * sizeof *q_gradient);
    memset(k_gradient, 0, n * k * sizeof *k_gradient);
    memset(v_gradient, 0, n * k * sizeof *v_gradient);
    for (uint64_t column = 0; column < n; column += TILE) {
        for (uint64_t row = 0; row < m; row += TILE) {
            struct tile tile = { row, column, (uint32_t)least(m - row, TILE), (uint32_t)least(n - column, TILE) };
            if (seen(attention, row + tile.rows - 1) <= column) {
                continue;
            }
            if (host_is_cancelled(cancel)) {
                return false;
            }
            backward_tile(attention, in, &tile, q_gradient, k_gradient, v_gradient);
        }
    }
    return true;
}

bool host_attention_kernel(const struct kernel *kernel, struct host_operands *operands, float *scratch,
                           const struct host_cancel *cancel)
{
    uint64_t m = kernel->m, n = kernel->n, k = kernel->k;
    const struct host_attention attention = {
        m, n, k, 1 / sqrtf((float)k), (kernel->flags & KERNEL_FLAG_CAUSAL) != 0, scratch
    };
    for (uint64_t head = 0; head < kernel->batch; head++) {
        struct host_attention_inputs in = { .q = host_operands_input(operands, m * k),
                                            .k = host_operands_input(operands, n * k),
                                            .v = host_operands_input(operands, n * k) };
        float *q_or_out = host_operands_output(operands, m * k);
        if (kernel->kernel_class == KERNEL_ATTENTION_FORWARD) {
            if (!host_attention_forward(&attention, &in, q_or_out, host_operands_output(operands, m), cancel)) {
                return false;
            }
            continue;
        }
        in.out = host_operands_input(operands, m * k);
        in.out_gradient = host_operands_input(operands, m * k);
        in.log_sums = host_operands_input(operands, m);
        float *k_gradient = host_operands_output(operands, n * k), *v_gradient = host_operands_output(operands, n * k);
        if (!host_attention_backward(&attention, &in, q_or_out, k_gradient, v_gradient, cancel)) {
            return false;
        }
    }
    return true;
}
