/* The builder's primitives: one op record each, with its bytes and FLOPs. */
#include "sim/model/layer_build.h"

#include <string.h>

#include "sim/base/check.h"

double layer_area(int64_t rows, int64_t columns)
{
    return (double)rows * (double)columns;
}

double layer_rows_bytes(const struct layer_builder *b)
{
    return layer_area(b->rows, b->hidden) * b->element;
}

double layer_tokens_bytes(const struct layer_builder *b)
{
    return layer_area(b->tokens, b->hidden) * b->element;
}

uint32_t live_open(struct layer_builder *b, double bytes)
{
    CHECK(b->live_count < LAYER_LIVES_MAX);
    b->lives[b->live_count] = (struct layer_live){ .bytes = bytes, .first = b->graph->op_count, .last = UINT32_MAX };
    return b->live_count++;
}

void live_close(struct layer_builder *b, uint32_t live)
{
    if (live == LIVE_NONE) {
        return;
    }
    CHECK(live < b->live_count);
    struct layer_live *closed = &b->lives[live];
    closed->last = b->graph->op_count > closed->first ? b->graph->op_count - 1 : closed->first;
}

void use_module_buffer(struct layer_builder *b, double bytes)
{
    double *most = &b->graph->module_buffer_bytes;
    *most = b->shape->module_buffer && bytes > *most ? bytes : *most;
}

uint32_t gathered_input(struct layer_builder *b)
{
    use_module_buffer(b, layer_tokens_bytes(b));
    return b->shape->module_buffer ? LIVE_NONE : live_open(b, layer_tokens_bytes(b));
}

static void add_saved(struct layer_builder *b, const struct saved_tensor *tensor)
{
    struct layer_graph *graph = b->graph;
    CHECK(graph->saved_count < LAYER_SAVED_MAX);
    graph->saved[graph->saved_count++] = *tensor;
}

uint32_t save_tensor(struct layer_builder *b, const char *name, double bytes, bool core, bool op_kept)
{
    bool dropped = b->shape->selective_ops && b->graph->kind == LAYER_TRANSFORMER ? !op_kept : core;
    add_saved(b, &(struct saved_tensor){ .name = name, .bytes = bytes, .attention_core = dropped });
    uint32_t live = live_open(b, bytes);
    b->lives[live].saved = true;
    b->lives[live].dropped = dropped;
    return live;
}

void save_input(struct layer_builder *b, const char *name, double bytes)
{
    add_saved(b, &(struct saved_tensor){ .name = name, .bytes = bytes, .is_input = true });
}

static void change(struct layer_builder *b, uint32_t from, double bytes)
{
    CHECK(b->change_count < LAYER_CHANGES_MAX);
    b->changes[b->change_count++] = (struct layer_change){ .bytes = bytes, .from = from };
}

void saved_gone(struct layer_builder *b, const char *name)
{
    double bytes = 0;
    for (uint32_t i = 0; i < b->graph->saved_count; i++) {
        const struct saved_tensor *saved = &b->graph->saved[i];
        bytes += !saved->selective_only && strcmp(saved->name, name) == 0 ? saved->bytes : 0;
    }
    if (bytes > 0) {
        change(b, b->graph->op_count, -bytes);
    }
}

void gradient_made(struct layer_builder *b, double elements)
{
    change(b, b->graph->op_count - 1, elements * b->element);
}

static struct layer_op *add_op(struct layer_builder *b, const char *name)
{
    struct layer_graph *graph = b->graph;
    CHECK(graph->op_count < LAYER_OPS_MAX);
    struct layer_op *op = &graph->ops[graph->op_count++];
    bool repeated = b->core;
    if (b->shape->selective_ops && graph->kind == LAYER_TRANSFORMER) {
        repeated = !b->keep_next;
    }
    *op = (struct layer_op){ .name = name, .pass = b->pass, .attention_core = b->pass == PASS_FORWARD && repeated };
    b->keep_next = false;
    return op;
}

/* What streams are made of: FP8 training keeps activations and vectors in 16 bits, only its GEMM inputs are FP8. */
static enum dtype stream_dtype(const struct layer_builder *b)
{
    return b->shape->dtype == DTYPE_FP8 ? DTYPE_BF16 : b->shape->dtype;
}

static struct kernel *add_kernel(struct layer_builder *b, const char *name, enum kernel_class kernel_class,
                                 uint32_t launches, int64_t batch, int64_t m, int64_t n, int64_t k)
{
    struct kernel *kernel = &add_op(b, name)->kernel;
    *kernel = (struct kernel){ .kernel_class = (uint8_t)kernel_class,
                               .dtype = (uint8_t)stream_dtype(b),
                               .launches = launches,
                               .batch = (uint64_t)batch,
                               .m = (uint64_t)m,
                               .n = (uint64_t)n,
                               .k = (uint64_t)k };
    return kernel;
}

void op_gemm(struct layer_builder *b, const char *name, enum gemm_layout layout, int64_t batch, int64_t m, int64_t n,
             int64_t k)
{
    struct kernel *kernel = add_kernel(b, name, KERNEL_GEMM, 1, batch, m, n, k);
    kernel->layout = (uint8_t)layout;
    kernel->flops = 2.0 * (double)batch * layer_area(m, n) * (double)k;
    kernel->bytes_read = (double)batch * (layer_area(m, k) + layer_area(k, n)) * b->element;
    kernel->bytes_written = (double)batch * layer_area(m, n) * b->element;
}

void keep_output(struct layer_builder *b, const char *name, double bytes, bool last)
{
    b->keep_next = true;
    if (last && b->shape->fused_kernels) {
        return;
    }
    add_saved(b, &(struct saved_tensor){ .name = name, .bytes = bytes, .selective_only = true });
    for (uint32_t i = b->live_count; i-- > 0;) {
        struct layer_live *live = &b->lives[i];
        bool counts = !live->saved || live->dropped;
        if (live->last == UINT32_MAX && counts && live->bytes - live->kept_bytes >= bytes) {
            live->kept_bytes += bytes;
            return;
        }
    }
}

static void project(struct layer_builder *b, const char *name, int64_t m, int64_t n, int64_t k, bool last)
{
    b->gemm_count++;
    if (b->shape->selective_ops && b->graph->kind == LAYER_TRANSFORMER && b->gemm_count % 2 == 1) {
        keep_output(b, name, layer_area(m, n) * b->element, last);
    }
    op_gemm(b, name, GEMM_TN, 1, m, n, k);
    b->graph->ops[b->graph->op_count - 1].kernel.dtype = (uint8_t)b->shape->dtype;
}

void op_projection(struct layer_builder *b, const char *name, int64_t m, int64_t n, int64_t k)
{
    project(b, name, m, n, k, false);
}

void op_last_projection(struct layer_builder *b, const char *name, int64_t m, int64_t n, int64_t k)
{
    project(b, name, m, n, k, true);
}

void op_weight_gemm(struct layer_builder *b, const char *name, int64_t m, int64_t n, int64_t k)
{
    enum layer_pass pass = b->pass;
    b->pass = PASS_BACKWARD_WEIGHT;
    op_gemm(b, name, GEMM_NT, 1, m, n, k);
    struct kernel *kernel = &b->graph->ops[b->graph->op_count - 1].kernel;
    kernel->dtype = (uint8_t)b->shape->dtype;
    double elements = layer_area(m, n);
    gradient_made(b, elements);
    if (b->shape->fused_kernels) {
        kernel->flags |= KERNEL_FLAG_ACCUMULATE;
        kernel->bytes_read += elements * b->gradient;
        kernel->bytes_written = elements * b->gradient;
    } else {
        uint32_t live = live_open(b, elements * b->element);
        b->lives[live].first--; /* written by the GEMM itself */
        b->lives[live].gradient = true;
        op_stream(b, "weight_gradient_add", KERNEL_ELEMENTWISE, 1, m, n, elements * (b->element + b->gradient),
                  elements * b->gradient);
        live_close(b, live);
    }
    b->pass = pass;
}

void op_stream(struct layer_builder *b, const char *name, enum kernel_class kernel_class, uint32_t launches,
               int64_t rows, int64_t columns, double bytes_read, double bytes_written)
{
    struct kernel *kernel = add_kernel(b, name, kernel_class, launches, 1, rows, columns, 1);
    kernel->bytes_read = bytes_read;
    kernel->bytes_written = bytes_written;
}

void op_attention(struct layer_builder *b, bool backward)
{
    const struct model *model = b->model;
    const struct layer_span *span = &b->span;
    enum kernel_class kernel_class = backward ? KERNEL_ATTENTION_BACKWARD : KERNEL_ATTENTION_FORWARD;
    /* FlashAttention-2's backward is three kernels: rows of dO.O, the main one, dQ from fp32. */
    struct kernel *kernel =
        add_kernel(b, backward ? "flash_attention_backward" : "flash_attention", kernel_class, backward ? 3 : 1,
                   span->batch * b->heads, span->queries, span->keys, model->head_size);
    double q = (double)span->queries, k = (double)span->keys;
    double pairs = span->causal ? q * (q + 1.0) / 2.0 : q * k;
    /* Two products forward; backward repeats one and makes four. */
    kernel->flops = (backward ? 10.0 : 4.0) * (double)(span->batch * b->heads) * pairs * (double)model->head_size;
    if (span->causal) {
        kernel->flags |= KERNEL_FLAG_CAUSAL;
    }
    double query = layer_area(b->tokens, b->query) * b->element;
    double key = layer_area(span->key_tokens, b->key) * b->element;
    double statistics = 4.0 * layer_area(b->tokens, b->heads);
    kernel->bytes_read = (backward ? 3.0 * query + 2.0 * key + statistics : query + 2.0 * key) + span->bias_bytes;
    kernel->bytes_written = backward ? query + 2.0 * key + span->bias_bytes : query + statistics;
}

void op_collective(struct layer_builder *b, const char *name, enum layer_collective collective, double bytes,
                   bool overlappable)
{
    struct layer_op *op = add_op(b, name);
    op->kernel.launches = 1;
    op->collective = collective;
    op->collective_bytes = bytes;
    op->overlappable = overlappable;
}

/* Eager RMSNorm is its primitives (to fp32, square, mean, add, rsqrt, multiply, to 16 bits, weight multiply); over
 * 2-byte rows these move about: read 2+4+4+4+4+2 = 20, write
 * 4+4+4+2+2 = 16 bytes an element: 9 and 7 times the fused kernel's 2 and 2, as 10 and 8 elements of 16 bits.
 * Layer norm is one kernel everywhere. */
void op_norm(struct layer_builder *b, const char *name, int64_t rows)
{
    double bytes = layer_area(rows, b->hidden) * b->element;
    bool composed = b->model->norm == MODEL_RMS_NORM && !b->shape->fused_kernels;
    op_stream(b, name, KERNEL_NORM, composed ? 8 : 1, rows, b->hidden, composed ? 10.0 * bytes : bytes,
              composed ? 8.0 * bytes : bytes);
}

/* Input gradient in one kernel, weight gradients in one (PyTorch) or two (Apex: partial sums, then their sum); each
 * reads x and dy. Composed RMSNorm differentiates every primitive. */
void op_norm_backward(struct layer_builder *b, const char *name, int64_t rows)
{
    double bytes = layer_area(rows, b->hidden) * b->element;
    bool composed = b->model->norm == MODEL_RMS_NORM && !b->shape->fused_kernels;
    uint32_t launches = composed ? 12 : b->shape->fused_kernels ? 3 : 2;
    op_stream(b, name, KERNEL_NORM, launches, rows, b->hidden, composed ? 18.0 * bytes : 4.0 * bytes,
              composed ? 12.0 * bytes : bytes);
}

void op_bias_gradient(struct layer_builder *b, const char *name, int64_t rows, int64_t columns)
{
    enum layer_pass pass = b->pass;
    b->pass = PASS_BACKWARD_WEIGHT;
    op_stream(b, name, KERNEL_NORM, 1, rows, columns, layer_area(rows, columns) * b->element,
              (double)columns * b->element);
    b->pass = pass;
}

void op_vector_gradients(struct layer_builder *b, const char *name, uint32_t launches, double elements)
{
    if (launches == 0) {
        return;
    }
    enum layer_pass pass = b->pass;
    b->pass = PASS_BACKWARD_WEIGHT;
    op_stream(b, name, KERNEL_ELEMENTWISE, launches, 1, (int64_t)elements, elements * (b->element + b->gradient),
              elements * b->gradient);
    b->pass = pass;
}

/* Open the sum of the input gradients; each further part adds into it with one more kernel. */
static uint32_t input_gradient(struct layer_builder *b, const char *name, int64_t in, const int64_t *parts,
                               unsigned part_count)
{
    double bytes = layer_area(b->tokens, in) * b->element;
    uint32_t sum = live_open(b, bytes);
    for (unsigned i = 0; i < part_count; i++) {
        uint32_t part = i == 0 ? LIVE_NONE : live_open(b, bytes);
        op_gemm(b, name, GEMM_NN, 1, b->tokens, in, parts[i]);
        b->graph->ops[b->graph->op_count - 1].kernel.dtype = (uint8_t)b->shape->dtype;
        if (i > 0) {
            op_stream(b, "input_gradient_add", KERNEL_ELEMENTWISE, 1, b->tokens, in, 2.0 * bytes, bytes);
            live_close(b, part);
        }
    }
    return sum;
}

uint32_t column_backward(struct layer_builder *b, const struct column_names *names, int64_t in, const int64_t *parts,
                         unsigned part_count, uint32_t gradient)
{
    double whole = layer_area(b->tokens, in) * b->element;
    uint32_t input = LIVE_NONE, reduced = LIVE_NONE;
    bool separate = b->shape->separate_backward_weight;
    if (b->sequence_parallel) {
        input = gathered_input(b);
        b->pass = PASS_BACKWARD_WEIGHT; /* only the weight gradient needs the whole input again */
        op_collective(b, names->input_gather, LAYER_ALL_GATHER, whole, !separate);
        b->pass = PASS_BACKWARD_INPUT;
    }
    uint32_t sum = input_gradient(b, names->input_gradient, in, parts, part_count);
    if (b->sequence_parallel) {
        reduced = live_open(b, layer_area(b->rows, in) * b->element);
        op_collective(b, names->reduce, LAYER_REDUCE_SCATTER, whole, !separate);
        live_close(b, sum);
    } else if (b->parallel) {
        op_collective(b, names->reduce, LAYER_ALL_REDUCE, whole, !separate);
    }
    for (unsigned i = 0; i < part_count; i++) {
        op_weight_gemm(b, names->weight_gradient, parts[i], in, b->tokens);
        b->graph->weight_kept_bytes += layer_area(b->tokens, parts[i]) * b->element;
    }
    live_close(b, input);
    live_close(b, gradient);
    return b->sequence_parallel ? reduced : sum;
}

uint32_t row_backward(struct layer_builder *b, const struct row_names *names, int64_t in, int64_t out,
                      uint32_t gradient)
{
    double bytes = layer_area(b->tokens, out) * b->element;
    if (b->sequence_parallel) {
        uint32_t whole = live_open(b, bytes);
        op_collective(b, names->gather, LAYER_ALL_GATHER, bytes, false);
        live_close(b, gradient);
        gradient = whole;
    }
    uint32_t input = live_open(b, layer_area(b->tokens, in) * b->element);
    op_gemm(b, names->input_gradient, GEMM_NN, 1, b->tokens, in, out);
    b->graph->ops[b->graph->op_count - 1].kernel.dtype = (uint8_t)b->shape->dtype;
    op_weight_gemm(b, names->weight_gradient, out, in, b->tokens);
    b->graph->weight_kept_bytes += bytes;
    live_close(b, gradient);
    return input;
}
