/* Matrix products and attention through cuBLAS.
 *
 * A record's product is of row-major tensors c[m,n] = a[m,k] b[k,n]; its layout names the column-major BLAS call that frameworks make for it, whose output is n x m:
 *
 *     TN   y[m,n] = x[m,k] W[n,k]^T      op(A) = W^T (lda k), op(B) = x (ldb k)     forward
 *     NN   dx[m,n] = dy[m,k] W[k,n]      op(A) = W (lda n),   op(B) = dy (ldb k)    gradient of the input
 *     NT   dW[m,n] = dy[k,m]^T x[k,n]    op(A) = x (lda n),   op(B) = dy^T (ldb m)  gradient of the weights
 *
 * Attention is computed unfused: products, and our softmax between them, in blocks of rows so that scores never need more than SCORE_BYTES. A fused kernel would
 * move fewer bytes: measured attention is an upper bound. With a causal mask a block's keys end where its last row's do, so with CAUSAL_BLOCKS blocks 62.5 % of the
 * products are made, where a fused kernel comes close to 50 %. */
#include <math.h>

#include "validate/exec_cuda/cuda_run.h"
#include "validate/exec_cuda/gpu_kernels.h"

#define SCORE_BYTES (UINT64_C(128) << 20)
enum { CAUSAL_BLOCKS = 4, ALIGNMENT = 256 };

struct product {
    enum gemm_layout layout;
    enum dtype dtype;
    bool wide_output; /* fp32, whatever the inputs */
    bool accumulate;
    uint64_t batch, m, n, k;
    uint64_t a_stride, b_stride, c_stride; /* elements from one of the batch to the next; 0: packed */
    const void *a, *b;                     /* the record's a [m,k] and b [k,n] */
    void *c;
};

const char *cuda_product_refusal(const struct kernel *kernel)
{
    bool attention =
        kernel->kernel_class == KERNEL_ATTENTION_FORWARD || kernel->kernel_class == KERNEL_ATTENTION_BACKWARD;
    if (kernel->kernel_class != KERNEL_GEMM && !attention) {
        return NULL;
    }
    if (kernel->dtype == DTYPE_FP8) {
        return "fp8 products need cublasLt with scales for each tensor, which this executor does not have";
    }
    if (kernel->m == 0 || kernel->n == 0 || kernel->k == 0 || kernel->batch == 0) {
        return "a product with a side of 0";
    }
    if (kernel->m > INT32_MAX || kernel->n > INT32_MAX || kernel->k > INT32_MAX || kernel->batch > INT32_MAX) {
        return "a product with a side of 2^31 or more";
    }
    return NULL;
}

static uint64_t aligned(uint64_t elements, uint64_t size)
{
    return cuda_round_up(elements * size, ALIGNMENT);
}

static uint64_t output_size(const struct kernel *kernel)
{
    double outputs = (double)kernel->batch * (double)kernel->m * (double)kernel->n;
    uint64_t size = dtype_bytes((enum dtype)kernel->dtype);
    return kernel->bytes_written > 3 * outputs ? 4 : size;
}

/* How an attention is cut up. */
struct blocks {
    uint64_t heads, rows; /* of one block */
    uint64_t score_bytes; /* of one block */
};

static struct blocks block_of(const struct kernel *kernel)
{
    uint64_t size = dtype_bytes((enum dtype)kernel->dtype), rows = kernel->m, heads = kernel->batch;
    uint64_t row_bytes = kernel->n * size;
    CHECK(rows > 0 && row_bytes > 0);
    if (kernel->flags & KERNEL_FLAG_CAUSAL) {
        rows = 1 + (rows - 1) / CAUSAL_BLOCKS;
    }
    uint64_t rows_max = 1 + (SCORE_BYTES - 1) / row_bytes;
    rows = rows < rows_max ? rows : rows_max;
    uint64_t heads_max = rows_max / rows > 0 ? rows_max / rows : 1;
    heads = heads < heads_max ? heads : heads_max;
    return (struct blocks){ heads, rows, cuda_round_up(heads * rows * row_bytes, ALIGNMENT) };
}

void cuda_product_operands(const struct kernel *kernel, uint64_t *inputs, uint64_t *outputs)
{
    uint64_t size = dtype_bytes((enum dtype)kernel->dtype), batch = kernel->batch;
    *inputs = *outputs = 0;
    if (kernel->kernel_class == KERNEL_GEMM) {
        *inputs = aligned(batch * kernel->m * kernel->k, size) + aligned(batch * kernel->k * kernel->n, size);
        *outputs = aligned(batch * kernel->m * kernel->n, output_size(kernel));
    } else if (kernel->kernel_class == KERNEL_ATTENTION_FORWARD || kernel->kernel_class == KERNEL_ATTENTION_BACKWARD) {
        uint64_t queries = aligned(batch * kernel->m * kernel->k, size);
        uint64_t keys = aligned(batch * kernel->n * kernel->k, size), scores = block_of(kernel).score_bytes;
        bool forward = kernel->kernel_class == KERNEL_ATTENTION_FORWARD;
        *inputs = (forward ? 1 : 2) * queries + 2 * keys;
        *outputs = queries + (forward ? 0 : 2) * keys + (forward ? 1 : 2) * scores;
    }
}

/* -- cuBLAS -- */

static cudaDataType_t data_type(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_FP16: return CUDA_R_16F;
    case DTYPE_BF16: return CUDA_R_16BF;
    case DTYPE_FP32:
    case DTYPE_TF32:
    case DTYPE_FP8: /* refused before */
    case DTYPE_COUNT: break;
    }
    return CUDA_R_32F;
}

static enum status call_blas(struct cuda_queue *q, const struct product *p, struct error *error)
{
    static const float one = 1, zero = 0;
    int m = (int)p->m, n = (int)p->n, k = (int)p->k;
    cublasOperation_t first = p->layout == GEMM_TN ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = p->layout == GEMM_NT ? CUBLAS_OP_T : CUBLAS_OP_N;
    int lda = p->layout == GEMM_TN ? k : n, ldb = p->layout == GEMM_NT ? m : k;
    cudaDataType_t inputs = data_type(p->dtype), output = p->wide_output ? CUDA_R_32F : inputs;
    cublasComputeType_t compute = p->dtype == DTYPE_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const float *beta = p->accumulate ? &one : &zero;
    if (p->batch == 1) {
        CUBLAS_TRY(cublasGemmEx,
                   (q->blas, first, second, n, m, k, &one, p->b, inputs, lda, p->a, inputs, ldb, beta, p->c, output, n,
                    compute, CUBLAS_GEMM_DEFAULT),
                   error);
        return STATUS_OK;
    }
    uint64_t a = p->a_stride > 0 ? p->a_stride : p->m * p->k, b = p->b_stride > 0 ? p->b_stride : p->k * p->n;
    uint64_t c = p->c_stride > 0 ? p->c_stride : p->m * p->n;
    CUBLAS_TRY(cublasGemmStridedBatchedEx,
               (q->blas, first, second, n, m, k, &one, p->b, inputs, lda, (long long)b, p->a, inputs, ldb, (long long)a,
                beta, p->c, output, n, (long long)c, (int)p->batch, compute, CUBLAS_GEMM_DEFAULT),
               error);
    return STATUS_OK;
}

/* -- operands -- */

/* Consecutive pieces of one stretch of a slab. */
struct pieces {
    char *memory;
    uint64_t used;
};

static void *piece(struct pieces *pieces, uint64_t bytes)
{
    void *memory = pieces->memory + pieces->used;
    pieces->used += bytes;
    return memory;
}

static enum status take(struct cuda_queue *q, const struct kernel *kernel, struct pieces *in, struct pieces *out,
                        struct error *error)
{
    uint64_t inputs, outputs, got_in = 0, got_out = 0;
    cuda_product_operands(kernel, &inputs, &outputs);
    *in = (struct pieces){ .memory = slab_take(&q->inputs, inputs, &got_in) };
    *out = (struct pieces){ .memory = slab_take(&q->outputs, outputs, &got_out) };
    if (got_in < inputs || got_out < outputs) { /* slabs.c made room for the largest */
        return error_set(error, STATUS_EXECUTION, "its operands want %llu and %llu bytes, the slabs have %llu and %llu",
                         (unsigned long long)inputs, (unsigned long long)outputs, (unsigned long long)got_in,
                         (unsigned long long)got_out);
    }
    return STATUS_OK;
}

static enum status plain_product(struct cuda_queue *q, const struct kernel *kernel, struct error *error)
{
    struct pieces in, out;
    uint64_t size = dtype_bytes((enum dtype)kernel->dtype), wide = output_size(kernel), batch = kernel->batch;
    TRY(take(q, kernel, &in, &out, error));
    const struct product product = { .layout = (enum gemm_layout)kernel->layout,
                                     .dtype = (enum dtype)kernel->dtype,
                                     .wide_output = wide > size,
                                     .accumulate = (kernel->flags & KERNEL_FLAG_ACCUMULATE) != 0,
                                     .batch = batch,
                                     .m = kernel->m,
                                     .n = kernel->n,
                                     .k = kernel->k,
                                     .a = piece(&in, aligned(batch * kernel->m * kernel->k, size)),
                                     .b = piece(&in, aligned(batch * kernel->k * kernel->n, size)),
                                     .c = piece(&out, aligned(batch * kernel->m * kernel->n, wide)) };
    TRY(call_blas(q, &product, error));
    for (uint32_t i = 1; i < kernel->launches; i++) { /* as the cost model has it: the shape is that of all launches */
        CUDA_TRY(gpu_empty, (q->stream), error);
    }
    return STATUS_OK;
}

/* -- attention -- */

struct attention {
    struct cuda_queue *queue;
    const struct kernel *kernel;
    struct blocks blocks;
    char *q, *k, *v, *out;                                     /* forward */
    char *out_gradient, *q_gradient, *k_gradient, *v_gradient; /* backward */
    char *scores, *score_gradient;
};

/* A block: heads [head, head + heads), rows [row, row + rows), keys [0, keys). */
struct block {
    uint64_t head, heads, row, rows, keys;
};

static enum status block_softmax(const struct attention *a, const struct block *b, char *scores, struct error *error)
{
    uint64_t bytes = b->heads * b->rows * b->keys * dtype_bytes((enum dtype)a->kernel->dtype);
    const struct gpu_stream_launch launch = { .kernel_class = KERNEL_SOFTMAX,
                                              .dtype = (enum dtype)a->kernel->dtype,
                                              .input = scores,
                                              .output = scores,
                                              .read_bytes = bytes,
                                              .write_bytes = bytes,
                                              .rows = b->heads * b->rows };
    return CUDA_STATUS(gpu_stream, (a->queue->stream, &launch), error);
}

/* c[m,n] (+)= a b over the block's heads; strides are whole heads'. */
static enum status block_product(const struct attention *a, const struct block *b, struct product product,
                                 struct error *error)
{
    product.dtype = (enum dtype)a->kernel->dtype;
    product.batch = b->heads;
    return call_blas(a->queue, &product, error);
}

static enum status forward_block(const struct attention *a, const struct block *b, struct error *error)
{
    const struct kernel *kernel = a->kernel;
    uint64_t size = dtype_bytes((enum dtype)kernel->dtype), head = kernel->k;
    uint64_t queries = (b->head * kernel->m + b->row) * head * size, keys = b->head * kernel->n * head * size;
    uint64_t query_stride = kernel->m * head, key_stride = kernel->n * head, score_stride = b->rows * b->keys;
    const struct product scores = { .layout = GEMM_TN,
                                    .m = b->rows,
                                    .n = b->keys,
                                    .k = head,
                                    .a = a->q + queries,
                                    .b = a->k + keys,
                                    .c = a->scores,
                                    .a_stride = query_stride,
                                    .b_stride = key_stride,
                                    .c_stride = score_stride };
    const struct product mix = { .layout = GEMM_NN,
                                 .m = b->rows,
                                 .n = head,
                                 .k = b->keys,
                                 .a = a->scores,
                                 .b = a->v + keys,
                                 .c = a->out == NULL ? NULL : a->out + queries,
                                 .a_stride = score_stride,
                                 .b_stride = key_stride,
                                 .c_stride = query_stride };
    TRY(block_product(a, b, scores, error));
    TRY(block_softmax(a, b, a->scores, error));
    return a->out_gradient != NULL ? STATUS_OK : block_product(a, b, mix, error);
}

/* The forward's scores again, then four products. */
static enum status backward_block(const struct attention *a, const struct block *b, struct error *error)
{
    const struct kernel *kernel = a->kernel;
    uint64_t size = dtype_bytes((enum dtype)kernel->dtype), head = kernel->k;
    uint64_t queries = (b->head * kernel->m + b->row) * head * size, keys = b->head * kernel->n * head * size;
    uint64_t query_stride = kernel->m * head, key_stride = kernel->n * head, score_stride = b->rows * b->keys;
    const struct product values = { .layout = GEMM_NT,
                                    .m = b->keys,
                                    .n = head,
                                    .k = b->rows,
                                    .a = a->scores,
                                    .b = a->out_gradient + queries,
                                    .c = a->v_gradient + keys,
                                    .a_stride = score_stride,
                                    .b_stride = query_stride,
                                    .c_stride = key_stride,
                                    .accumulate = b->row > 0 };
    const struct product probabilities = { .layout = GEMM_TN,
                                           .m = b->rows,
                                           .n = b->keys,
                                           .k = head,
                                           .a = a->out_gradient + queries,
                                           .b = a->v + keys,
                                           .c = a->score_gradient,
                                           .a_stride = query_stride,
                                           .b_stride = key_stride,
                                           .c_stride = score_stride };
    const struct product query = { .layout = GEMM_NN,
                                   .m = b->rows,
                                   .n = head,
                                   .k = b->keys,
                                   .a = a->score_gradient,
                                   .b = a->k + keys,
                                   .c = a->q_gradient + queries,
                                   .a_stride = score_stride,
                                   .b_stride = key_stride,
                                   .c_stride = query_stride };
    const struct product key = { .layout = GEMM_NT,
                                 .m = b->keys,
                                 .n = head,
                                 .k = b->rows,
                                 .a = a->score_gradient,
                                 .b = a->q + queries,
                                 .c = a->k_gradient + keys,
                                 .a_stride = score_stride,
                                 .b_stride = query_stride,
                                 .c_stride = key_stride,
                                 .accumulate = b->row > 0 };
    TRY(forward_block(a, b, error));
    TRY(block_product(a, b, values, error));
    TRY(block_product(a, b, probabilities, error));
    TRY(block_softmax(a, b, a->score_gradient, error));
    TRY(block_product(a, b, query, error));
    return block_product(a, b, key, error);
}

static enum status all_blocks(const struct attention *a, struct error *error)
{
    const struct kernel *kernel = a->kernel;
    bool causal = (kernel->flags & KERNEL_FLAG_CAUSAL) != 0 && kernel->m <= kernel->n;
    for (uint64_t head = 0; head < kernel->batch; head += a->blocks.heads) {
        for (uint64_t row = 0; row < kernel->m; row += a->blocks.rows) {
            uint64_t heads = kernel->batch - head, rows = kernel->m - row;
            struct block block = { .head = head,
                                   .heads = heads < a->blocks.heads ? heads : a->blocks.heads,
                                   .row = row,
                                   .rows = rows < a->blocks.rows ? rows : a->blocks.rows };
            block.keys = causal ? kernel->n - kernel->m + block.row + block.rows : kernel->n;
            TRY(a->out_gradient != NULL ? backward_block(a, &block, error) : forward_block(a, &block, error));
        }
    }
    return STATUS_OK;
}

static enum status attention(struct cuda_queue *q, const struct kernel *kernel, struct error *error)
{
    struct attention a = { .queue = q, .kernel = kernel, .blocks = block_of(kernel) };
    struct pieces in, out;
    uint64_t size = dtype_bytes((enum dtype)kernel->dtype);
    uint64_t queries = aligned(kernel->batch * kernel->m * kernel->k, size);
    uint64_t keys = aligned(kernel->batch * kernel->n * kernel->k, size);
    TRY(take(q, kernel, &in, &out, error));
    a.q = piece(&in, queries);
    a.k = piece(&in, keys);
    a.v = piece(&in, keys);
    if (kernel->kernel_class == KERNEL_ATTENTION_BACKWARD) {
        a.out_gradient = piece(&in, queries);
        a.q_gradient = piece(&out, queries);
        a.k_gradient = piece(&out, keys);
        a.v_gradient = piece(&out, keys);
        a.score_gradient = piece(&out, a.blocks.score_bytes);
    } else {
        a.out = piece(&out, queries);
    }
    a.scores = piece(&out, a.blocks.score_bytes);
    return all_blocks(&a, error);
}

enum status cuda_product(struct cuda_queue *queue, const struct kernel *kernel, struct error *error)
{
    return kernel->kernel_class == KERNEL_GEMM ? plain_product(queue, kernel, error) : attention(queue, kernel, error);
}
