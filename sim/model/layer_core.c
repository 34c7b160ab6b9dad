/* The core of attention: scores, softmax, dropout, weighted values, or one fused kernel; over a span of queries and keys (whole sequences, windows of them, or another stack's). */
#include "sim/base/check.h"
#include "sim/model/layer_build.h"

static double scores_bytes(const struct layer_builder *b)
{
    return layer_area(b->span.batch * b->heads, b->span.queries) * (double)b->span.keys * b->element;
}

/* Of all keys or values of this device; with those of a group repeated for its query heads. */
static double keys_bytes(const struct layer_builder *b, int64_t width)
{
    return layer_area(b->span.key_tokens, width) * b->element;
}

bool core_repeats_keys(const struct layer_builder *b)
{
    return b->key < b->query && (!b->shape->fused_kernels || !b->shape->flash_attention);
}

/* Megatron's fused scale-mask-softmax handles 16-bit rows of 17 to 2048 scores in batches (micro-batch times heads of this rank) of a multiple of
 * four; otherwise Megatron falls back to PyTorch's primitives (fused_softmax.py of 2022, recalled, not re-read). */
static bool fused_softmax_fits(const struct layer_builder *b)
{
    return b->element == 2 && b->span.batch * b->heads % 4 == 0 && b->span.keys > 16 && b->span.keys <= 2048;
}

/* Megatron's causal kernel reads the lower triangle of the scores only (and writes zeros above it); recalled, not re-read. */
static double softmax_share(const struct layer_builder *b)
{
    bool triangular = b->shape->fused_kernels && b->span.causal;
    return triangular ? (1.0 + 1.0 / (double)b->span.queries) / 2.0 : 1.0;
}

/* To fp32, scale, mask (in place), softmax, back: what Megatron does where its fused kernel does not fit. The fp32 softmax that autograd keeps beside
 * the 16-bit one is left out of the saved bytes, as in the published counts. */
static void softmax_primitives(struct layer_builder *b, int64_t rows, int64_t columns, double scores)
{
    double wide = layer_area(rows, columns) * 4.0;
    bool casts = b->element < 4.0;
    uint32_t fp32 = live_open(b, casts ? wide : 0.0);
    if (casts) {
        op_stream(b, "scores_to_fp32", KERNEL_ELEMENTWISE, 1, rows, columns, scores, wide);
    }
    op_stream(b, "scale_mask", KERNEL_ELEMENTWISE, 2, rows, columns, 2.0 * wide, 2.0 * wide);
    op_stream(b, "softmax", KERNEL_SOFTMAX, 1, rows, columns, wide, wide);
    if (casts) {
        op_stream(b, "probabilities_from_fp32", KERNEL_ELEMENTWISE, 1, rows, columns, wide, scores);
    }
    live_close(b, fp32);
}

static void softmax_primitives_backward(struct layer_builder *b, int64_t rows, int64_t columns, double scores)
{
    double wide = layer_area(rows, columns) * 4.0;
    bool casts = b->element < 4.0;
    uint32_t fp32 = live_open(b, casts ? wide : 0.0);
    if (casts) {
        op_stream(b, "probabilities_gradient_to_fp32", KERNEL_ELEMENTWISE, 1, rows, columns, scores, wide);
    }
    op_stream(b, "softmax_backward", KERNEL_SOFTMAX, 1, rows, columns, 2.0 * wide, wide);
    op_stream(b, "scale_mask_backward", KERNEL_ELEMENTWISE, 2, rows, columns, 2.0 * wide, 2.0 * wide);
    if (casts) {
        op_stream(b, "scores_gradient_from_fp32", KERNEL_ELEMENTWISE, 1, rows, columns, wide, scores);
    }
    live_close(b, fp32);
}

/* fp32_softmax: from the mask, which is of the weights' fp32, to the next product scores are fp32 (PyTorch's autocast op reference: softmax is among the ops that cast to float32, products among
 * those that cast to 16 bits, dropout and additions take what they get and widen). */
static bool eager_in_fp32(const struct layer_builder *b)
{
    return b->shape->fp32_softmax && !b->shape->fused_kernels && b->element < 4.0;
}

/* Bytes of scores between the mask and the product with the values. */
static double wide_scores(const struct layer_builder *b)
{
    return eager_in_fp32(b) ? scores_bytes(b) / b->element * 4.0 : scores_bytes(b);
}

/* A learned bias of relative positions, [heads, queries, keys], joins the scores in place; its gradient is theirs summed over the batch. */
static void add_bias(struct layer_builder *b, double scores)
{
    if (b->span.bias_bytes > 0) {
        op_stream(b, "position_bias_add", KERNEL_ELEMENTWISE, 1, b->span.batch * b->heads * b->span.queries,
                  b->span.keys, scores + b->span.bias_bytes, scores);
    }
}

static void bias_gradient(struct layer_builder *b, double scores)
{
    if (b->span.bias_bytes > 0) {
        op_stream(b, "position_bias_gradient", KERNEL_NORM, 1, b->span.batch, b->heads * b->span.queries * b->span.keys,
                  scores, b->span.bias_bytes);
    }
}

static void split_heads(struct layer_builder *b, const char *name, double bytes)
{
    bool own_keys = b->span.key_tokens == b->tokens;
    int64_t rows = own_keys ? b->tokens : b->tokens + 2 * b->span.key_tokens;
    op_stream(b, name, KERNEL_ELEMENTWISE, 3, rows, own_keys ? 3 * b->query : b->query, bytes, bytes);
}

/* From raw scores, which it closes, to what the product with the values reads. */
static uint32_t probabilities(struct layer_builder *b, uint32_t raw)
{
    double scores = scores_bytes(b), wide = wide_scores(b);
    int64_t rows = b->span.batch * b->heads * b->span.queries, k = b->span.keys;
    uint32_t masked = LIVE_NONE;
    if (!b->shape->fused_kernels) {
        masked = eager_in_fp32(b) ? live_open(b, wide) : LIVE_NONE;
        op_stream(b, "scale_mask", KERNEL_ELEMENTWISE, 2, rows, k, 2.0 * scores, scores + wide);
    }
    uint32_t live = save_tensor(b, "softmax_output", wide, true, false);
    if (b->shape->fused_kernels && !fused_softmax_fits(b)) {
        softmax_primitives(b, rows, k, scores);
    } else {
        op_stream(b, "softmax", KERNEL_SOFTMAX, 1, rows, k, softmax_share(b) * wide, wide);
    }
    live_close(b, masked);
    live_close(b, raw);
    if (b->model->attention_dropout > 0) {
        double mask = scores / b->element;
        live_close(b, save_tensor(b, "attention_dropout_mask", mask, true, false));
        uint32_t dropped =
            eager_in_fp32(b) ? live_open(b, wide) : save_tensor(b, "attention_probabilities", scores, true, false);
        op_stream(b, "attention_dropout", KERNEL_ELEMENTWISE, 1, rows, k, wide, wide + mask);
        live_close(b, live);
        live = dropped;
    }
    if (eager_in_fp32(b)) {
        uint32_t narrow = save_tensor(b, "attention_probabilities", scores, true, false);
        op_stream(b, "probabilities_from_fp32", KERNEL_ELEMENTWISE, 1, rows, k, wide, scores);
        live_close(b, live);
        live = narrow;
    }
    return live;
}

uint32_t core_forward(struct layer_builder *b, const uint32_t qkv[3])
{
    const struct model *m = b->model;
    double context = layer_area(b->tokens, b->query) * b->element, scores = scores_bytes(b);
    int64_t products = b->span.batch * b->heads, q = b->span.queries, k = b->span.keys, d = m->head_size;
    if (b->shape->flash_attention) {
        uint32_t live = save_tensor(b, "projection_input", context, false, true);
        live_close(b, save_tensor(b, "softmax_statistics", 4.0 * layer_area(b->tokens, b->heads), false, true));
        if (b->shape->context_copied && b->batch > 1) {
            live_close(b, save_tensor(b, "context_copy", context, false, true));
        }
        b->keep_next = b->shape->selective_ops;
        op_attention(b, false);
        for (unsigned i = 0; i < 3; i++) {
            live_close(b, qkv[i]);
        }
        return live;
    }
    if (!b->shape->fused_kernels) {
        /* Heads in front of positions: batched products over permuted views need copies. */
        split_heads(b, "split_heads", context + 2.0 * keys_bytes(b, b->query));
    }
    b->core = true;
    uint32_t raw = live_open(b, scores);
    use_module_buffer(b, scores); /* the addend of baddbmm, never read */
    op_gemm(b, "scores_gemm", GEMM_TN, products, q, k, d);
    live_close(b, qkv[0]);
    live_close(b, qkv[1]);
    add_bias(b, scores);
    uint32_t softmax = probabilities(b, raw);
    uint32_t heads_first = live_open(b, context);
    op_gemm(b, "values_gemm", GEMM_NN, products, q, d, k);
    live_close(b, softmax);
    live_close(b, qkv[2]);
    b->core = false;
    uint32_t live = save_tensor(b, "projection_input", context, false, false);
    op_stream(b, "merge_heads", KERNEL_ELEMENTWISE, 1, b->tokens, b->query, context, context);
    live_close(b, heads_first);
    return live;
}

/* Softmax and its neighbours, backward over the scores: Megatron's fused kernel is one; eager code differentiates
 * mask and scale too. */
static uint32_t scores_backward(struct layer_builder *b, uint32_t gradient)
{
    double scores = scores_bytes(b), wide = wide_scores(b);
    int64_t rows = b->span.batch * b->heads * b->span.queries, k = b->span.keys;
    if (eager_in_fp32(b)) {
        uint32_t fp32 = live_open(b, wide);
        op_stream(b, "probabilities_gradient_to_fp32", KERNEL_ELEMENTWISE, 1, rows, k, scores, wide);
        live_close(b, gradient);
        gradient = fp32;
    }
    if (b->model->attention_dropout > 0) {
        uint32_t dropped = live_open(b, wide);
        op_stream(b, "attention_dropout_backward", KERNEL_ELEMENTWISE, 1, rows, k, wide + scores / b->element, wide);
        live_close(b, gradient);
        gradient = dropped;
    }
    if (b->shape->fused_kernels) {
        if (fused_softmax_fits(b)) {
            op_stream(b, "softmax_backward", KERNEL_SOFTMAX, 1, rows, k, 2.0 * softmax_share(b) * scores,
                      scores); /* in place */
        } else {
            softmax_primitives_backward(b, rows, k, scores);
        }
        return gradient;
    }
    uint32_t raw = live_open(b, wide);
    op_stream(b, "softmax_backward", KERNEL_SOFTMAX, 1, rows, k, 2.0 * wide, wide);
    live_close(b, gradient);
    op_stream(b, "scale_mask_backward", KERNEL_ELEMENTWISE, 2, rows, k, scores + wide, 2.0 * scores);
    return raw;
}

uint32_t core_backward(struct layer_builder *b, uint32_t context)
{
    int64_t products = b->span.batch * b->heads, q = b->span.queries, k = b->span.keys, d = b->model->head_size;
    double wide = layer_area(b->tokens, b->query) * b->element;
    double key = keys_bytes(b, core_repeats_keys(b) ? b->query : b->key);
    if (b->shape->flash_attention) {
        uint32_t gradients = live_open(b, wide + 2.0 * key);
        uint32_t fp32 = live_open(b, layer_area(b->tokens, b->query) * 4.0); /* dQ is summed in fp32 */
        op_attention(b, true);
        live_close(b, fp32);
        live_close(b, context);
        return gradients;
    }
    uint32_t heads_first = live_open(b, wide);
    op_stream(b, "merge_heads_backward", KERNEL_ELEMENTWISE, 1, b->tokens, b->query, wide, wide);
    live_close(b, context);
    uint32_t scores = live_open(b, scores_bytes(b));
    op_gemm(b, "probabilities_gradient", GEMM_TN, products, q, k, d);
    uint32_t gradients = live_open(b, wide + 2.0 * key);
    op_gemm(b, "value_gradient", GEMM_NT, products, k, d, q);
    live_close(b, heads_first);
    scores = scores_backward(b, scores);
    bias_gradient(b, scores_bytes(b));
    op_gemm(b, "query_gradient", GEMM_NN, products, q, d, k);
    op_gemm(b, "key_gradient", GEMM_NT, products, k, d, q);
    live_close(b, scores);
    if (b->shape->fused_kernels) {
        /* The scale was folded into the batched product; its gradient is a kernel each for q and k. */
        double both = wide + keys_bytes(b, b->query);
        bool own_keys = b->span.key_tokens == b->tokens;
        op_stream(b, "scale_backward", KERNEL_ELEMENTWISE, 2, own_keys ? b->tokens : b->tokens + b->span.key_tokens,
                  own_keys ? 2 * b->query : b->query, both, both);
    }
    return gradients;
}
