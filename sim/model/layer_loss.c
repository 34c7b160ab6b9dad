/* The projection to the vocabulary and the cross entropy behind it, as the software computes it (enum loss_kind, sim/ir/kernel.h). */
#include "sim/base/check.h"
#include "sim/model/layer_build.h"

static enum loss_kind loss_kind(const struct layer_builder *b)
{
    enum loss_kind kind = b->shape->loss;
    if (kind == LOSS_OWN) {
        kind = b->parallel || b->shape->fused_kernels ? LOSS_IN_PLACE : LOSS_EAGER;
    }
    return kind;
}

static double logits_fp32_bytes(const struct layer_builder *b)
{
    return 4.0 * layer_area(b->tokens, b->vocab);
}

/* A sum over the tensor-parallel group of one number a token. */
static void token_all_reduce(struct layer_builder *b, const char *name)
{
    if (b->parallel) {
        op_collective(b, name, LAYER_ALL_REDUCE, 4.0 * (double)b->tokens, false);
    }
}

/* PyTorch: cast, log-softmax, negative log likelihood. The log-softmax is saved, one fp32 number a logit. */
static void cross_entropy_eager(struct layer_builder *b, uint32_t logits)
{
    double wide = logits_fp32_bytes(b), narrow = layer_area(b->tokens, b->vocab) * b->element,
           token = 4.0 * (double)b->tokens;
    bool casts = b->element < 4.0;
    uint32_t cast = live_open(b, casts ? wide : 0.0);
    if (casts) {
        op_stream(b, "logits_to_fp32", KERNEL_ELEMENTWISE, 1, b->tokens, b->vocab, narrow, wide);
        live_close(b, logits);
    }
    uint32_t shifted = LIVE_NONE;
    if (b->parallel) {
        /* torch.distributed.tensor.parallel.loss: primitives around the sums: maximum; subtract; exponential; row sum; subtract again. */
        shifted = live_open(b, wide);
        op_stream(b, "logits_maximum", KERNEL_SOFTMAX, 1, b->tokens, b->vocab, wide, token);
        token_all_reduce(b, "maximum_all_reduce");
        uint32_t exponential = live_open(b, wide);
        op_stream(b, "logits_exponential_sum", KERNEL_SOFTMAX, 3, b->tokens, b->vocab, 3.0 * wide, 2.0 * wide);
        live_close(b, exponential);
        token_all_reduce(b, "sum_all_reduce");
    }
    uint32_t saved = save_tensor(b, "log_softmax_fp32", wide, false, false);
    op_stream(b, "log_softmax", KERNEL_SOFTMAX, 1, b->tokens, b->vocab, wide, wide);
    live_close(b, shifted);
    live_close(b, casts ? cast : logits);
    op_stream(b, "likelihood", KERNEL_ELEMENTWISE, 2, b->tokens, 1, 4.0 * token, token);
    token_all_reduce(b, "target_all_reduce");
    live_close(b, saved);
}

/* One or two generated kernels that read the logits as they are; kept are the logits and two numbers a token. */
static void cross_entropy_compiled(struct layer_builder *b, uint32_t logits)
{
    double narrow = layer_area(b->tokens, b->vocab) * b->element, token = 4.0 * (double)b->tokens;
    uint32_t saved = save_tensor(b, "logits", narrow, false, false);
    live_close(b, save_tensor(b, "softmax_statistics", 2.0 * token, false, false));
    op_stream(b, "softmax_statistics", KERNEL_SOFTMAX, 1, b->tokens, b->vocab, narrow, 2.0 * token);
    live_close(b, logits); /* the very tensor that is saved: counted as short-lived only up to here */
    token_all_reduce(b, "maximum_all_reduce");
    token_all_reduce(b, "sum_all_reduce");
    op_stream(b, "loss", KERNEL_ELEMENTWISE, 1, b->tokens, 1, 4.0 * token, token);
    token_all_reduce(b, "target_all_reduce");
    live_close(b, saved);
}

/* Megatron over this rank's part of the vocabulary: cast to fp32, row maximum, subtract, exponential, row sum, divide, the last three in place (Megatron-core's
 * fused variant exponentiates into a second tensor), with three sums over the group. The softmax is saved, one fp32 number a logit. `half`: no cast, the shift makes the copy. */
static void cross_entropy_megatron(struct layer_builder *b, uint32_t logits, enum loss_kind kind)
{
    bool second = kind == LOSS_JIT, half = kind == LOSS_HALF || kind == LOSS_HALF_COPIED, held = second || half;
    double narrow = layer_area(b->tokens, b->vocab) * b->element, wide = half ? narrow : logits_fp32_bytes(b),
           token = 4.0 * (double)b->tokens;
    uint32_t saved = save_tensor(b, half ? "softmax" : "logits_fp32", wide, false, false);
    uint32_t cast = second ? live_open(b, wide) : LIVE_NONE;
    uint32_t copy = kind == LOSS_HALF_COPIED ? live_open(b, narrow) : LIVE_NONE;
    if (b->element < 4.0 && !half) {
        op_stream(b, "logits_to_fp32", KERNEL_ELEMENTWISE, 1, b->tokens, b->vocab, narrow, wide);
    }
    live_close(b, held ? LIVE_NONE : logits); /* the caller still holds what was not cast, and the fused one's */
    op_stream(b, "logits_maximum", KERNEL_SOFTMAX, 1, b->tokens, b->vocab, wide, token);
    token_all_reduce(b, "maximum_all_reduce");
    /* Subtract, and pick the targets: mask, index, gather, fill. */
    op_stream(b, "logits_shift", KERNEL_ELEMENTWISE, 5, b->tokens, b->vocab, wide + 8.0 * token, wide + 4.0 * token);
    token_all_reduce(b, "target_all_reduce");
    op_stream(b, "logits_exponential_sum", KERNEL_SOFTMAX, 2, b->tokens, b->vocab, 2.0 * wide, wide + token);
    token_all_reduce(b, "sum_all_reduce");
    live_close(b, cast);
    op_stream(b, "softmax_divide", KERNEL_ELEMENTWISE, 1, b->tokens, b->vocab, wide, wide);
    op_stream(b, "loss", KERNEL_ELEMENTWISE, 4, b->tokens, 1, 8.0 * token,
              4.0 * token); /* log, difference, mask, mean */
    live_close(b, saved);
    live_close(b, held ? logits : LIVE_NONE);
    live_close(b, copy);
}

static void cross_entropy(struct layer_builder *b, uint32_t logits)
{
    switch (loss_kind(b)) {
    case LOSS_EAGER: cross_entropy_eager(b, logits); return;
    case LOSS_IN_PLACE:
    case LOSS_JIT:
    case LOSS_HALF:
    case LOSS_HALF_COPIED: cross_entropy_megatron(b, logits, loss_kind(b)); return;
    case LOSS_COMPILED: cross_entropy_compiled(b, logits); return;
    case LOSS_OWN:
    case LOSS_COUNT: CHECK(false);
    }
}

/* Gradient of the logits, in the GEMM's dtype. */
static uint32_t cross_entropy_backward(struct layer_builder *b)
{
    double wide = logits_fp32_bytes(b), narrow = layer_area(b->tokens, b->vocab) * b->element;
    bool casts = b->element < 4.0;
    uint32_t gradient = LIVE_NONE;
    switch (loss_kind(b)) {
    case LOSS_COMPILED:
        gradient = live_open(b, narrow);
        op_stream(b, "cross_entropy_backward", KERNEL_SOFTMAX, 1, b->tokens, b->vocab, narrow, narrow);
        return gradient;
    case LOSS_EAGER: {
        uint32_t likelihood = live_open(b, wide), exponential = LIVE_NONE;
        op_stream(b, "likelihood_backward", KERNEL_ELEMENTWISE, 2, b->tokens, b->vocab, 0.0, wide); /* fill, scatter */
        if (b->parallel) { /* primitives: exponential, add, multiply */
            exponential = live_open(b, wide);
            op_stream(b, "log_softmax_exponential", KERNEL_ELEMENTWISE, 1, b->tokens, b->vocab, wide, wide);
        }
        gradient = live_open(b, wide);
        op_stream(b, "log_softmax_backward", KERNEL_SOFTMAX, b->parallel ? 2 : 1, b->tokens, b->vocab,
                  (b->parallel ? 3.0 : 2.0) * wide, (b->parallel ? 2.0 : 1.0) * wide);
        live_close(b, exponential);
        live_close(b, likelihood);
        break;
    }
    case LOSS_IN_PLACE:
    case LOSS_JIT:
        /* In place on the saved softmax: subtract one at the target, multiply by the incoming gradient. */
        op_stream(b, "cross_entropy_backward", KERNEL_ELEMENTWISE, 5, b->tokens, b->vocab, wide, wide);
        break;
    case LOSS_HALF:
    case LOSS_HALF_COPIED:
        op_stream(b, "cross_entropy_backward", KERNEL_ELEMENTWISE, 5, b->tokens, b->vocab, narrow, narrow);
        return LIVE_NONE;
    case LOSS_OWN:
    case LOSS_COUNT: CHECK(false);
    }
    if (casts) {
        uint32_t cast = live_open(b, narrow);
        op_stream(b, "logits_gradient_cast", KERNEL_ELEMENTWISE, 1, b->tokens, b->vocab, wide, narrow);
        live_close(b, gradient);
        gradient = cast;
    }
    return gradient;
}

void logits_forward(struct layer_builder *b, uint32_t input)
{
    uint32_t gathered = LIVE_NONE;
    if (b->sequence_parallel) {
        gathered = gathered_input(b);
        op_collective(b, "head_all_gather", LAYER_ALL_GATHER, layer_tokens_bytes(b), false);
    }
    uint32_t logits = live_open(b, layer_area(b->tokens, b->vocab) * b->element);
    op_projection(b, "logits_gemm", b->tokens, b->vocab, b->hidden);
    live_close(b, gathered);
    live_close(b, input);
    if (b->model->mlm_head || b->model->head_bias) {
        double bytes = layer_area(b->tokens, b->vocab) * b->element;
        op_stream(b, "logits_bias", KERNEL_ELEMENTWISE, 1, b->tokens, b->vocab, bytes, bytes);
    }
    cross_entropy(b, logits);
}

uint32_t logits_backward(struct layer_builder *b)
{
    static const struct column_names gathered = { "head_input_all_gather", "logits_input_gradient",
                                                  "head_gradient_reduce_scatter", "logits_weight_gradient" };
    static const struct column_names reduced = { "head_input_all_gather", "logits_input_gradient",
                                                 "head_gradient_all_reduce", "logits_weight_gradient" };
    uint32_t gradient = cross_entropy_backward(b);
    saved_gone(b, "log_softmax_fp32");
    saved_gone(b, "logits_fp32");
    saved_gone(b, "logits");
    if (b->model->mlm_head || b->model->head_bias) {
        op_bias_gradient(b, "logits_bias_gradient", b->tokens, b->vocab);
    }
    int64_t part = b->vocab;
    uint32_t input = column_backward(b, b->sequence_parallel ? &gathered : &reduced, b->hidden, &part, 1, gradient);
    saved_gone(b, "softmax"); /* `half`: the gradient itself */
    saved_gone(b, "logits_input");
    return input;
}
