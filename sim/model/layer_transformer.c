/* One transformer block: forward list, saved tensors, backward list.
 *
 * Saved tensors of a gpt block at 16 bits, in units of s b h bytes (a = heads; Korthikanti et al. 2022, section 4.1):
 *   layer_input 2 (read by the first norm), qkv_input 2, query 2, key 2, value 2, softmax_output 2as/h,
 *   attention_dropout_mask as/h, attention_probabilities 2as/h, projection_input 2,
 *   attention_mask_out 1, ffn_norm_input 2, ffn_input 2, activation_input 8, ffn2_input 8, ffn_mask_out 1:
 *   together 34 + 5as/h.
 * bert norms after each half instead: the inputs of its two norms replace the two norm outputs, the sum is the
 * same. llama has no biases and no masks; SwiGLU keeps gate and up (and,
 * unfused, silu(gate)) and their product. Eager RMSNorm keeps an fp32 copy of its input instead of the 16-bit
 * one, and the normalised rows before their weight. ReLU needs only its output. */
#include "sim/base/check.h"
#include "sim/model/layer_build.h"
#include "sim/model/variant.h"

static bool post_norm(const struct layer_builder *b)
{
    return b->model->family == MODEL_BERT;
}

/* Projections are separate GEMMs where the framework's code writes them so: the llama family outside Megatron. */
static bool separate_projections(const struct layer_builder *b)
{
    return b->model->activation == MODEL_SWIGLU && (!b->shape->fused_kernels || b->shape->selective_ops);
}

static uint32_t vector_count(const struct layer_builder *b)
{
    const struct model *m = b->model;
    uint32_t norms = m->norm_bias ? 4 : 2;
    uint32_t first = separate_projections(b) ? 2 : 1, qkv = separate_projections(b) ? 3 : 1;
    return layer_extra(b).vectors + norms + (m->qkv_bias ? qkv : 0) + (m->projection_bias ? 1u : 0u) +
           (m->ffn_bias ? first + 1u : 0u);
}

static double vector_elements(const struct layer_builder *b)
{
    const struct model *m = b->model;
    double elements = (double)b->hidden * (m->norm_bias ? 4.0 : 2.0);
    elements += m->qkv_bias ? (double)(b->query + 2 * b->key) : 0.0;
    elements += m->projection_bias ? (double)b->hidden : 0.0;
    elements += m->ffn_bias ? (double)(b->hidden + (m->activation == MODEL_SWIGLU ? 2 : 1) * b->ffn) : 0.0;
    return elements + layer_extra(b).vector_elements;
}

/* A norm in front of a half: saves its output (the half's input). Eager RMSNorm keeps the fp32 input, of which the
 * 16-bit input that it replaces is already counted. */
uint32_t half_norm(struct layer_builder *b, const char *name, const char *output)
{
    half_norm_copies(b);
    uint32_t live = save_tensor(b, output, layer_rows_bytes(b), false, false);
    op_norm(b, name, b->rows);
    return live;
}

void half_norm_copies(struct layer_builder *b)
{
    double bytes = layer_rows_bytes(b);
    if (b->model->norm == MODEL_RMS_NORM && !b->shape->fused_kernels) {
        double wide = layer_area(b->rows, b->hidden) * (b->shape->norm_fp32 ? 8.0 : 4.0);
        live_close(b, save_tensor(b, "rms_norm_fp32_input", wide > bytes ? wide - bytes : 0.0, false, false));
        live_close(b, save_tensor(b, "rms_norm_normalised", bytes, false, false));
    }
}

/* The whole input of a column-parallel GEMM: gathered under sequence parallelism. */
uint32_t half_gather(struct layer_builder *b, const char *name)
{
    if (!b->sequence_parallel) {
        if (b->shape->sequence_parallel && b->shape->module_buffer_alone) {
            use_module_buffer(b, layer_tokens_bytes(b)); /* copied into it all the same */
        }
        return LIVE_NONE;
    }
    uint32_t live = gathered_input(b);
    op_collective(b, name, LAYER_ALL_GATHER, layer_tokens_bytes(b), false);
    return live;
}

/* After a row-parallel GEMM: sum over the group. Returns the lifetime of this rank's rows. */
uint32_t half_reduce(struct layer_builder *b, const char *name, uint32_t partial, bool last)
{
    if (b->sequence_parallel) {
        uint32_t live = live_open(b, layer_rows_bytes(b));
        if (b->shape->selective_ops) {
            keep_output(b, name, layer_rows_bytes(b), last);
        }
        op_collective(b, name, LAYER_REDUCE_SCATTER, layer_tokens_bytes(b), false);
        live_close(b, partial);
        return live;
    }
    if (b->parallel) {
        op_collective(b, name, LAYER_ALL_REDUCE, layer_tokens_bytes(b), false);
    }
    return partial;
}

/* Bias, dropout and residual addition after each half. Eager code adds the bias inside the GEMM's epilogue unless
 * the group's sum stands between. */
void half_residual(struct layer_builder *b, const char *name, const char *mask, bool bias, bool joins)
{
    bool drops = b->model->dropout > 0;
    double rows = layer_rows_bytes(b), mask_bytes = drops ? layer_area(b->rows, b->hidden) : 0.0;
    if (drops) {
        live_close(b, save_tensor(b, mask, mask_bytes, false, false));
    }
    if (b->shape->fused_kernels) {
        if (bias || drops || joins) {
            op_stream(b, name, KERNEL_ELEMENTWISE, 1, b->rows, b->hidden, joins ? 2.0 * rows : rows, rows + mask_bytes);
        }
        return;
    }
    double biases = bias && b->parallel ? 1.0 : 0.0, drop = drops ? 1.0 : 0.0, add = joins ? 1.0 : 0.0;
    uint32_t launches = (uint32_t)(biases + drop + add);
    if (launches > 0) {
        op_stream(b, name, KERNEL_ELEMENTWISE, launches, b->rows, b->hidden, (biases + drop + 2.0 * add) * rows,
                  (biases + drop + add) * rows + mask_bytes);
    }
}

/* Rotation of queries and keys: eager code makes five kernels of each (multiply, negate half, concatenate, multiply,
 * add): 5.5 reads and 4.5 writes of an element. */
static void rotary(struct layer_builder *b, const char *name)
{
    if (b->model->positions != MODEL_ROTARY) {
        return;
    }
    double bytes = layer_area(b->tokens, b->query + b->key) * b->element;
    bool fused = b->shape->fused_kernels;
    op_stream(b, name, KERNEL_ELEMENTWISE, fused ? 2 : 10, b->tokens, b->query + b->key, fused ? bytes : 5.5 * bytes,
              fused ? bytes : 4.5 * bytes);
}

static void forward_qkv(struct layer_builder *b, uint32_t saved[3])
{
    bool expand = core_repeats_keys(b);
    int64_t key = expand ? b->query : b->key;
    double key_bytes = layer_area(b->tokens, b->key) * b->element,
           query_bytes = layer_area(b->tokens, b->query) * b->element;
    bool rotates = b->model->positions == MODEL_ROTARY;
    uint32_t raw = rotates || expand ? live_open(b, query_bytes + 2.0 * key_bytes) : LIVE_NONE;
    if (raw == LIVE_NONE) {
        saved[0] = save_tensor(b, "query", query_bytes, false, false);
        saved[1] = save_tensor(b, "key", key_bytes, false, false);
        saved[2] = save_tensor(b, "value", key_bytes, false, false);
    }
    if (separate_projections(b)) {
        op_projection(b, "q_gemm", b->tokens, b->query, b->hidden);
        op_projection(b, "k_gemm", b->tokens, b->key, b->hidden);
        op_projection(b, "v_gemm", b->tokens, b->key, b->hidden);
    } else {
        op_projection(b, "qkv_gemm", b->tokens, b->query + 2 * b->key, b->hidden);
    }
    if (b->model->qkv_bias && b->shape->fused_kernels) {
        /* Megatron's column-parallel linear adds its bias with a kernel of its own. */
        double bytes = query_bytes + 2.0 * key_bytes;
        op_stream(b, "qkv_bias", KERNEL_ELEMENTWISE, 1, b->tokens, b->query + 2 * b->key, bytes, bytes);
    }
    if (raw != LIVE_NONE) {
        saved[0] = save_tensor(b, "query", query_bytes, false, false);
        saved[1] = save_tensor(b, "key", layer_area(b->tokens, key) * b->element, false, false);
        saved[2] = save_tensor(b, "value", layer_area(b->tokens, key) * b->element, false, false);
    }
    if (raw != LIVE_NONE && !expand && !separate_projections(b) && !b->shape->qkv_copied) {
        /* The value is a view of the one product, which therefore lives as long, its unrotated queries and keys with it. */
        live_close(b, save_tensor(b, "unrotated_query_key", query_bytes + key_bytes, false, false));
    }
    rotary(b, "rotary");
    if (expand) {
        op_stream(b, "repeat_key_value", KERNEL_ELEMENTWISE, 2, b->tokens, 2 * b->query, 2.0 * key_bytes,
                  2.0 * query_bytes);
    }
    live_close(b, raw);
}

static void forward_attention(struct layer_builder *b)
{
    uint32_t qkv[3];
    uint32_t input = post_norm(b) ? LIVE_NONE : half_norm(b, "attention_norm", "qkv_input");
    windows_forward(b);
    uint32_t gathered = half_gather(b, "qkv_all_gather");
    forward_qkv(b, qkv);
    live_close(b, gathered);
    live_close(b, input);
    uint32_t context = core_forward(b, qkv);
    uint32_t output = live_open(b, layer_tokens_bytes(b));
    op_projection(b, "projection_gemm", b->tokens, b->hidden, b->query);
    live_close(b, context);
    output =
        half_reduce(b, b->sequence_parallel ? "projection_reduce_scatter" : "projection_all_reduce", output, false);
    if (post_norm(b)) {
        uint32_t norm_input = save_tensor(b, "attention_norm_input", layer_rows_bytes(b), false, false);
        half_residual(b, "attention_bias_dropout_add", "attention_output_mask", b->model->projection_bias, true);
        live_close(b, output);
        uint32_t ffn_input = save_tensor(b, "ffn_input", layer_rows_bytes(b), false, false);
        op_norm(b, "attention_norm", b->rows);
        live_close(b, norm_input);
        b->residual = ffn_input;
        return;
    }
    if (b->model->parallel_residual) {
        /* The sum waits for the feed-forward half; only dropout (if any) happens here. The output stays until then. */
        half_residual(b, "attention_bias_dropout", "attention_output_mask", b->model->projection_bias, false);
        return;
    }
    b->residual =
        save_tensor(b, layer_is_decoder(b) ? "cross_norm_input" : "ffn_norm_input", layer_rows_bytes(b), false, false);
    half_residual(b, "attention_bias_dropout_add", "attention_output_mask", b->model->projection_bias, true);
    live_close(b, output);
}

/* Bias and activation: returns the lifetime of the second GEMM's input. */
static uint32_t forward_activation(struct layer_builder *b, uint32_t first)
{
    double width = layer_area(b->tokens, b->ffn) * b->element;
    bool fused = b->shape->fused_kernels, gated = b->model->activation == MODEL_SWIGLU;
    bool apart = gated && (!fused || b->shape->gate_apart);
    if (apart) {
        live_close(b, save_tensor(b, "silu_output", width, false, false));
    }
    uint32_t live = save_tensor(b, "ffn2_input", width, false, false);
    if (gated) {
        op_stream(b, "swiglu", KERNEL_ELEMENTWISE, apart ? 2 : 1, b->tokens, b->ffn, apart ? 3.0 * width : 2.0 * width,
                  apart ? 2.0 * width : width);
    } else {
        op_stream(b, fused && b->model->ffn_bias ? "bias_activation" : "activation", KERNEL_ELEMENTWISE, 1, b->tokens,
                  b->ffn, width, width);
    }
    live_close(b, first);
    return live;
}

static void forward_ffn(struct layer_builder *b)
{
    const struct model *m = b->model;
    double width = layer_area(b->tokens, b->ffn) * b->element;
    uint32_t input = post_norm(b) ? LIVE_NONE : half_norm(b, "ffn_norm", "ffn_input");
    uint32_t gathered = half_gather(b, "ffn1_all_gather");
    uint32_t first, up = LIVE_NONE;
    if (m->activation == MODEL_RELU) {
        first = live_open(b, width);
    } else if (m->activation == MODEL_SWIGLU) {
        first = save_tensor(b, "gate_output", width, false, false);
        up = save_tensor(b, "up_output", width, false, false);
    } else {
        first = save_tensor(b, "activation_input", width, false, false);
    }
    if (separate_projections(b)) {
        op_projection(b, "gate_gemm", b->tokens, b->ffn, b->hidden);
        op_projection(b, "up_gemm", b->tokens, b->ffn, b->hidden);
    } else {
        op_projection(b, "ffn1_gemm", b->tokens, m->activation == MODEL_SWIGLU ? 2 * b->ffn : b->ffn, b->hidden);
    }
    live_close(b, gathered);
    live_close(b, input);
    uint32_t second = forward_activation(b, first);
    live_close(b, up);
    uint32_t output = live_open(b, layer_tokens_bytes(b));
    op_last_projection(b, "ffn2_gemm", b->tokens, b->hidden, b->ffn);
    live_close(b, second);
    output = half_reduce(b, b->sequence_parallel ? "ffn2_reduce_scatter" : "ffn2_all_reduce", output, true);
    if (post_norm(b)) {
        uint32_t norm_input = save_tensor(b, "ffn_norm_input", layer_rows_bytes(b), false, false);
        half_residual(b, "ffn_bias_dropout_add", "ffn_output_mask", m->ffn_bias, true);
        live_close(b, output);
        live_close(b, b->residual);
        live_open(b, layer_rows_bytes(b)); /* the layer's output */
        op_norm(b, "ffn_norm", b->rows);
        live_close(b, norm_input);
        return;
    }
    b->output = layer_ends_encoder(b) ? save_tensor(b, "encoder_norm_input", layer_rows_bytes(b), false, false)
                                      : live_open(b, layer_rows_bytes(b));
    half_residual(b, "ffn_bias_dropout_add", "ffn_output_mask", m->ffn_bias, true);
    if (m->parallel_residual) {
        op_stream(b, "parallel_residual_add", KERNEL_ELEMENTWISE, 1, b->rows, b->hidden, 2.0 * layer_rows_bytes(b),
                  layer_rows_bytes(b));
    }
    live_close(b, output);
    live_close(b, b->residual);
}

/* Gradient through dropout and bias of a half: returns the gradient of the row-parallel GEMM's output. */
uint32_t half_residual_backward(struct layer_builder *b, const char *dropout, const char *bias_name, bool bias)
{
    double rows = layer_rows_bytes(b);
    uint32_t gradient = LIVE_NONE;
    if (b->model->dropout > 0) {
        gradient = live_open(b, rows);
        op_stream(b, dropout, KERNEL_ELEMENTWISE, 1, b->rows, b->hidden, rows + layer_area(b->rows, b->hidden), rows);
    }
    if (bias) {
        op_bias_gradient(b, bias_name, b->rows, b->hidden);
    }
    return gradient;
}

/* Gradient of the activation: returns that of the first GEMM's output. Eager SwiGLU: two products, then silu's own. */
static uint32_t activation_backward(struct layer_builder *b, uint32_t gradient)
{
    double width = layer_area(b->tokens, b->ffn) * b->element;
    bool gated = b->model->activation == MODEL_SWIGLU, fused = b->shape->fused_kernels && !b->shape->gate_apart;
    uint32_t live = live_open(b, gated ? 2.0 * width : width);
    if (gated) {
        op_stream(b, "swiglu_backward", KERNEL_ELEMENTWISE, fused ? 1 : 3, b->tokens, b->ffn,
                  fused ? 3.0 * width : 6.0 * width, fused ? 2.0 * width : 3.0 * width);
    } else {
        op_stream(b, "activation_backward", KERNEL_ELEMENTWISE, 1, b->tokens, b->ffn, 2.0 * width, width);
    }
    live_close(b, gradient);
    if (b->model->ffn_bias) {
        op_bias_gradient(b, "ffn1_bias_gradient", b->tokens, gated ? 2 * b->ffn : b->ffn);
    }
    return live;
}

/* The norm in front of a half, and the addition of the gradient that came round it. Closes both. */
uint32_t half_norm_backward(struct layer_builder *b, const char *name, uint32_t inner, uint32_t outer)
{
    double rows = layer_rows_bytes(b);
    uint32_t gradient = live_open(b, rows);
    op_norm_backward(b, name, b->rows);
    live_close(b, inner);
    uint32_t sum = live_open(b, rows);
    op_stream(b, "residual_gradient_add", KERNEL_ELEMENTWISE, 1, b->rows, b->hidden, 2.0 * rows, rows);
    live_close(b, gradient);
    live_close(b, outer);
    return sum;
}

/* The feed-forward half up to the gradient of its (normed) input. */
static uint32_t ffn_inner_backward(struct layer_builder *b)
{
    static const struct row_names second = { "ffn2_gradient_all_gather", "ffn2_input_gradient",
                                             "ffn2_weight_gradient" };
    static const struct column_names first_gathered = { "ffn1_input_all_gather", "ffn1_input_gradient",
                                                        "ffn1_gradient_reduce_scatter", "ffn1_weight_gradient" };
    static const struct column_names first_reduced = { "ffn1_input_all_gather", "ffn1_input_gradient",
                                                       "ffn1_gradient_all_reduce", "ffn1_weight_gradient" };
    uint32_t dropped = half_residual_backward(b, "ffn_dropout_backward", "ffn2_bias_gradient", b->model->ffn_bias);
    saved_gone(b, "ffn_output_mask");
    uint32_t hidden = row_backward(b, &second, b->ffn, b->hidden, dropped);
    saved_gone(b, "ffn2_input");
    uint32_t first = activation_backward(b, hidden);
    saved_gone(b, "activation_input");
    saved_gone(b, "gate_output");
    saved_gone(b, "up_output");
    saved_gone(b, "silu_output");
    int64_t parts[2] = { b->ffn, b->ffn };
    unsigned count = separate_projections(b) ? 2 : 1;
    if (count == 1 && b->model->activation == MODEL_SWIGLU) {
        parts[0] = 2 * b->ffn;
    }
    uint32_t input =
        column_backward(b, b->sequence_parallel ? &first_gathered : &first_reduced, b->hidden, parts, count, first);
    saved_gone(b, post_norm(b) ? "" : "ffn_input"); /* which is the residual of bert's other half, too */
    return input;
}

/* From the gradient of the context to that of the qkv GEMM's output. */
static uint32_t qkv_backward(struct layer_builder *b, uint32_t context)
{
    double wide = layer_area(b->tokens, b->query) * b->element, narrow = layer_area(b->tokens, b->key) * b->element;
    uint32_t gradients = core_backward(b, context);
    static const char *const inside[] = { "query",
                                          "key",
                                          "value",
                                          "unrotated_query_key",
                                          "softmax_output",
                                          "softmax_statistics",
                                          "attention_dropout_mask",
                                          "attention_probabilities",
                                          "projection_input",
                                          "context_copy" };
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
        saved_gone(b, inside[i]);
    }
    if (core_repeats_keys(b)) {
        op_stream(b, "repeat_key_value_backward", KERNEL_ELEMENTWISE, 2, b->tokens, 2 * b->query, 2.0 * wide,
                  2.0 * narrow);
    }
    rotary(b, "rotary_backward");
    /* One gradient tensor: a concatenation of three, or a copy each back from heads-first order. */
    bool separate = separate_projections(b);
    if (separate && b->shape->flash_attention) {
        return gradients;
    }
    uint32_t joined = live_open(b, wide + 2.0 * narrow);
    op_stream(b, separate ? "split_heads_backward" : "qkv_gradient_concatenate", KERNEL_ELEMENTWISE, separate ? 3 : 1,
              b->tokens, b->query + 2 * b->key, wide + 2.0 * narrow, wide + 2.0 * narrow);
    live_close(b, gradients);
    return joined;
}

static uint32_t attention_inner_backward(struct layer_builder *b)
{
    static const struct row_names projection = { "projection_gradient_all_gather", "projection_input_gradient",
                                                 "projection_weight_gradient" };
    static const struct column_names gathered = { "qkv_input_all_gather", "qkv_input_gradient",
                                                  "qkv_gradient_reduce_scatter", "qkv_weight_gradient" };
    static const struct column_names reduced = { "qkv_input_all_gather", "qkv_input_gradient",
                                                 "qkv_gradient_all_reduce", "qkv_weight_gradient" };
    uint32_t dropped = half_residual_backward(b, "attention_output_dropout_backward", "projection_bias_gradient",
                                              b->model->projection_bias);
    uint32_t context = row_backward(b, &projection, b->query, b->hidden, dropped);
    uint32_t qkv = qkv_backward(b, context);
    if (b->model->qkv_bias) {
        op_bias_gradient(b, "qkv_bias_gradient", b->tokens, b->query + 2 * b->key);
    }
    int64_t parts[3] = { b->query, b->key, b->key };
    unsigned count = separate_projections(b) ? 3 : 1;
    if (count == 1) {
        parts[0] = b->query + 2 * b->key;
    }
    return column_backward(b, b->sequence_parallel ? &gathered : &reduced, b->hidden, parts, count, qkv);
}

/* bert: norm, half, then the gradient that went round joins. */
static uint32_t post_norm_half_backward(struct layer_builder *b, const char *norm, uint32_t output,
                                        uint32_t (*half)(struct layer_builder *))
{
    double rows = layer_rows_bytes(b);
    uint32_t outer = live_open(b, rows);
    op_norm_backward(b, norm, b->rows);
    live_close(b, output);
    uint32_t inner = half(b);
    uint32_t sum = live_open(b, rows);
    op_stream(b, "residual_gradient_add", KERNEL_ELEMENTWISE, 1, b->rows, b->hidden, 2.0 * rows, rows);
    live_close(b, inner);
    live_close(b, outer);
    return sum;
}

/* The other stack's output, on this rank. */
static double encoder_bytes(const struct layer_builder *b)
{
    return layer_area(layer_rows(b, b->batch * b->shape->sequence), b->hidden) * b->element;
}

static void backward(struct layer_builder *b)
{
    if (layer_is_decoder(b)) {
        live_open(b, encoder_bytes(b)); /* of the encoder's output, from the layers above: never ends here */
    }
    uint32_t output = layer_has_tail(b) ? tail_backward(b) : live_open(b, layer_rows_bytes(b)); /* that comes in */
    if (post_norm(b)) {
        output = post_norm_half_backward(b, "ffn_norm_backward", output, ffn_inner_backward);
        (void)post_norm_half_backward(b, "attention_norm_backward", output, attention_inner_backward);
    } else if (b->model->parallel_residual) {
        uint32_t ffn = half_norm_backward(b, "ffn_norm_backward", ffn_inner_backward(b), LIVE_NONE);
        uint32_t attention = attention_inner_backward(b);
        live_close(b, output);
        (void)half_norm_backward(b, "attention_norm_backward", attention, ffn);
    } else {
        output = half_norm_backward(b, "ffn_norm_backward", ffn_inner_backward(b), output);
        saved_gone(b, "ffn_norm_input");
        output = layer_is_decoder(b) ? cross_backward(b, output) : output;
        uint32_t inner = attention_inner_backward(b);
        windows_backward(b);
        (void)half_norm_backward(b, "attention_norm_backward", inner, output);
    }
    op_vector_gradients(b, "vector_gradient_add", vector_count(b), vector_elements(b));
}

static void count_parameters(struct layer_builder *b)
{
    const struct model *m = b->model;
    double h = (double)b->hidden, qkv = (double)(b->query + 2 * b->key);
    double first = (double)((m->activation == MODEL_SWIGLU ? 2 : 1) * b->ffn);
    double shared = 2.0 * h * (m->norm_bias ? 2.0 : 1.0);
    shared += (m->projection_bias ? h : 0.0) + (m->ffn_bias ? h : 0.0);
    const struct layer_extra extra = layer_extra(b);
    b->graph->replicated_parameters = shared + extra.replicated;
    b->graph->parameters = shared + h * qkv + (m->qkv_bias ? qkv : 0.0) + (double)b->query * h + h * first +
                           (m->ffn_bias ? first : 0.0) + (double)b->ffn * h + extra.parameters;
}

void build_transformer(struct layer_builder *b)
{
    b->residual = LIVE_NONE;
    save_input(b, "layer_input", layer_rows_bytes(b));
    if (layer_is_decoder(b) && b->shape->variant == T5_DECODER_FIRST) {
        save_input(b, "encoder_output", encoder_bytes(b));
    }
    forward_attention(b);
    if (layer_is_decoder(b)) {
        cross_forward(b);
    }
    forward_ffn(b);
    tail_forward(b);
    b->graph->forward_count = b->graph->op_count;
    b->pass = PASS_BACKWARD_INPUT;
    backward(b);
    count_parameters(b);
}
