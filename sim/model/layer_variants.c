/* What t5 and swin add to a block: the decoder's attention over the encoder's output, the norm behind the encoder, windows, merging of patches.
 *
 * t5 saves, in a layer of the decoder, beside what a block of one attention does, at 16 bits in units of d b h (e b h) bytes (d, e: tokens of the decoder, the encoder): cross_norm_input 2,
 * cross_input 2, query 2, (key 2, value 2), softmax output 2aes/h with dropout mask 1 and its output 2, projection_input 2, mask 1. The encoder's output is kept once a device, by the
 * decoder's first layer, or where it was received. The relative bias is made once a micro-batch, with the embedding, and read by every self-attention: stages without the embedding are
 * taken to have it (2 KiB of table); where attention is fused the kernel reads it and sums its gradient.
 *
 * swin moves tokens into windows and back (a copy each), and every second block shifts them before and after: charged to each block as one shift. Windows are no sequence: nothing is cut over
 * ranks but heads and feed-forward. Merging is held alike by all ranks of the tensor-parallel group. Stochastic depth is left out. */
#include "sim/base/check.h"
#include "sim/model/layer_build.h"
#include "sim/model/variant.h"

static bool is_block_of(const struct layer_builder *b, enum model_family family)
{
    return b->model->family == family && b->graph->kind == LAYER_TRANSFORMER;
}

bool layer_is_decoder(const struct layer_builder *b)
{
    return b->graph->kind == LAYER_TRANSFORMER && model_variant_decodes(b->model, b->shape->variant);
}

bool layer_ends_encoder(const struct layer_builder *b)
{
    return is_block_of(b, MODEL_T5) && b->shape->variant == T5_ENCODER_LAST;
}

static bool merges(const struct layer_builder *b)
{
    return b->graph->kind == LAYER_TRANSFORMER && model_variant_merges(b->model, b->shape->variant);
}

bool layer_has_tail(const struct layer_builder *b)
{
    return layer_ends_encoder(b) || merges(b);
}

void layer_set_tokens(struct layer_builder *b, int64_t sequence)
{
    b->sequence = sequence;
    b->tokens = b->batch * sequence;
    b->rows = layer_rows(b, b->tokens);
}

int64_t layer_rows(const struct layer_builder *b, int64_t tokens)
{
    return b->sequence_parallel ? tokens / b->shape->tensor : tokens;
}

/* ---- t5: the second attention of the decoder ---- */

static void set_cross_span(struct layer_builder *b)
{
    b->span = (struct layer_span){ .batch = b->batch,
                                   .queries = b->model->decoder_sequence,
                                   .keys = b->shape->sequence,
                                   .key_tokens = b->batch * b->shape->sequence };
}

/* Queries of the decoder's tokens, keys and values of the encoder's. */
static void cross_projections(struct layer_builder *b, uint32_t saved[3])
{
    double keys = layer_area(b->span.key_tokens, b->key) * b->element;
    uint32_t input = half_norm(b, "cross_norm", "cross_input");
    uint32_t gathered = half_gather(b, "cross_query_all_gather");
    saved[0] = save_tensor(b, "cross_query", layer_area(b->tokens, b->query) * b->element, false, false);
    op_projection(b, "cross_query_gemm", b->tokens, b->query, b->hidden);
    live_close(b, gathered);
    live_close(b, input);
    layer_set_tokens(b, b->shape->sequence);
    gathered = half_gather(b, "encoder_output_all_gather");
    saved[1] = save_tensor(b, "cross_key", keys, false, false);
    saved[2] = save_tensor(b, "cross_value", keys, false, false);
    op_projection(b, "cross_key_value_gemm", b->tokens, 2 * b->key, b->hidden);
    live_close(b, gathered);
    layer_set_tokens(b, b->model->decoder_sequence);
}

void cross_forward(struct layer_builder *b)
{
    uint32_t qkv[3], outer = b->residual;
    const struct layer_span own = b->span;
    set_cross_span(b);
    cross_projections(b, qkv);
    uint32_t context = core_forward(b, qkv);
    uint32_t output = live_open(b, layer_tokens_bytes(b));
    op_projection(b, "cross_projection_gemm", b->tokens, b->hidden, b->query);
    live_close(b, context);
    output = half_reduce(b, b->sequence_parallel ? "cross_reduce_scatter" : "cross_all_reduce", output, false);
    b->residual = save_tensor(b, "ffn_norm_input", layer_rows_bytes(b), false, false);
    half_residual(b, "cross_dropout_add", "cross_output_mask", b->model->projection_bias, true);
    live_close(b, output);
    live_close(b, outer);
    b->span = own;
}

/* Gradients of keys and values to that of the encoder's output, which is added to what the layers above gave. */
static void keys_backward(struct layer_builder *b, uint32_t gradients)
{
    static const struct column_names gathered = { "encoder_output_all_gather", "encoder_output_gradient",
                                                  "encoder_gradient_reduce_scatter",
                                                  "cross_key_value_weight_gradient" };
    static const struct column_names reduced = { "encoder_output_all_gather", "encoder_output_gradient",
                                                 "encoder_gradient_all_reduce", "cross_key_value_weight_gradient" };
    double pair = layer_area(b->span.key_tokens, 2 * b->key) * b->element;
    int64_t part = 2 * b->key;
    layer_set_tokens(b, b->shape->sequence);
    uint32_t joined = live_open(b, pair);
    op_stream(b, "key_value_gradient_concatenate", KERNEL_ELEMENTWISE, 1, b->tokens, part, pair, pair);
    live_close(b, gradients);
    uint32_t output = column_backward(b, b->sequence_parallel ? &gathered : &reduced, b->hidden, &part, 1, joined);
    double rows = layer_rows_bytes(b);
    op_stream(b, "encoder_gradient_add", KERNEL_ELEMENTWISE, 1, b->rows, b->hidden, 2.0 * rows, rows);
    live_close(b, output);
    layer_set_tokens(b, b->model->decoder_sequence);
}

uint32_t cross_backward(struct layer_builder *b, uint32_t output)
{
    static const struct row_names projection = { "cross_gradient_all_gather", "cross_projection_input_gradient",
                                                 "cross_projection_weight_gradient" };
    static const struct column_names gathered = { "cross_query_all_gather", "cross_query_input_gradient",
                                                  "cross_query_gradient_reduce_scatter",
                                                  "cross_query_weight_gradient" };
    static const struct column_names reduced = { "cross_query_all_gather", "cross_query_input_gradient",
                                                 "cross_query_gradient_all_reduce", "cross_query_weight_gradient" };
    const struct layer_span own = b->span;
    int64_t part = b->query;
    set_cross_span(b);
    uint32_t dropped =
        half_residual_backward(b, "cross_output_dropout_backward", "cross_bias_gradient", b->model->projection_bias);
    uint32_t context = row_backward(b, &projection, b->query, b->hidden, dropped);
    uint32_t gradients = core_backward(b, context);
    uint32_t input = column_backward(b, b->sequence_parallel ? &gathered : &reduced, b->hidden, &part, 1, LIVE_NONE);
    keys_backward(b, gradients);
    b->span = own;
    return half_norm_backward(b, "cross_norm_backward", input, output);
}

/* ---- behind the block ---- */

static void encoder_norm(struct layer_builder *b)
{
    double rows = layer_rows_bytes(b), mask = layer_area(b->rows, b->hidden);
    half_norm_copies(b);
    live_open(b, rows); /* the layer's output */
    op_norm(b, "encoder_norm", b->rows);
    if (b->model->dropout > 0) {
        live_close(b, save_tensor(b, "encoder_output_mask", mask, false, false));
        op_stream(b, "encoder_dropout", KERNEL_ELEMENTWISE, 1, b->rows, b->hidden, rows, rows + mask);
    }
    live_close(b, b->output);
}

/* Four neighbours of width h become one row of 4h, then of 2h. */
static void merge(struct layer_builder *b)
{
    double bytes = layer_rows_bytes(b);
    uint32_t together = save_tensor(b, "merging_norm_input", bytes, false, false);
    op_stream(b, "merging_gather", KERNEL_ELEMENTWISE, 1, b->rows / 4, 4 * b->hidden, bytes, bytes);
    live_close(b, b->output);
    uint32_t input = save_tensor(b, "merging_input", bytes, false, false);
    b->hidden *= 4;
    op_norm(b, "merging_norm", b->rows / 4);
    b->hidden /= 4;
    live_close(b, together);
    live_open(b, bytes / 2); /* the layer's output */
    op_last_projection(b, "merging_gemm", b->rows / 4, 2 * b->hidden, 4 * b->hidden);
    live_close(b, input);
}

void tail_forward(struct layer_builder *b)
{
    if (layer_ends_encoder(b)) {
        encoder_norm(b);
    } else if (merges(b)) {
        merge(b);
    }
}

static uint32_t encoder_norm_backward(struct layer_builder *b)
{
    double rows = layer_rows_bytes(b);
    uint32_t gradient = live_open(b, rows); /* that comes in */
    if (b->model->dropout > 0) {
        uint32_t dropped = live_open(b, rows);
        op_stream(b, "encoder_dropout_backward", KERNEL_ELEMENTWISE, 1, b->rows, b->hidden,
                  rows + layer_area(b->rows, b->hidden), rows);
        live_close(b, gradient);
        gradient = dropped;
    }
    uint32_t output = live_open(b, rows);
    op_norm_backward(b, "encoder_norm_backward", b->rows);
    live_close(b, gradient);
    return output;
}

static uint32_t merge_backward(struct layer_builder *b)
{
    double bytes = layer_rows_bytes(b);
    uint32_t gradient = live_open(b, bytes / 2); /* that comes in */
    uint32_t normed = live_open(b, bytes);
    op_gemm(b, "merging_input_gradient", GEMM_NN, 1, b->rows / 4, 4 * b->hidden, 2 * b->hidden);
    op_weight_gemm(b, "merging_weight_gradient", 2 * b->hidden, 4 * b->hidden, b->rows / 4);
    b->graph->weight_kept_bytes += bytes / 2;
    live_close(b, gradient);
    uint32_t together = live_open(b, bytes);
    b->hidden *= 4;
    op_norm_backward(b, "merging_norm_backward", b->rows / 4);
    b->hidden /= 4;
    live_close(b, normed);
    uint32_t output = live_open(b, bytes);
    op_stream(b, "merging_scatter", KERNEL_ELEMENTWISE, 1, b->rows, b->hidden, bytes, bytes);
    live_close(b, together);
    return output;
}

uint32_t tail_backward(struct layer_builder *b)
{
    return layer_ends_encoder(b) ? encoder_norm_backward(b) : merge_backward(b);
}

/* ---- swin: windows ---- */

static void window_copies(struct layer_builder *b, const char *partition, const char *shift, const char *reverse)
{
    if (!is_block_of(b, MODEL_SWIN)) {
        return;
    }
    double bytes = layer_rows_bytes(b);
    const char *const names[] = { partition, shift, reverse };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        uint32_t copy = live_open(b, bytes);
        op_stream(b, names[i], KERNEL_ELEMENTWISE, 1, b->rows, b->hidden, bytes, bytes);
        live_close(b, copy);
    }
}

/* Also the bias of each pair in a window, from the block's table of offsets. */
void windows_forward(struct layer_builder *b)
{
    window_copies(b, "window_partition", "window_shift", "window_reverse");
    if (is_block_of(b, MODEL_SWIN)) {
        op_stream(b, "position_bias_lookup", KERNEL_GATHER, 1, b->span.queries * b->span.keys, b->heads,
                  b->span.bias_bytes, b->span.bias_bytes);
    }
}

void windows_backward(struct layer_builder *b)
{
    window_copies(b, "window_reverse_backward", "window_shift_backward", "window_partition_backward");
    if (is_block_of(b, MODEL_SWIN)) {
        op_stream(b, "position_table_gradient", KERNEL_GATHER, 1, b->span.queries * b->span.keys, b->heads,
                  2.0 * b->span.bias_bytes, b->span.bias_bytes);
    }
}

/* ---- parameters ---- */

struct layer_extra layer_extra(const struct layer_builder *b)
{
    double h = (double)b->hidden, norm = b->model->norm_bias ? 2.0 * h : h;
    struct layer_extra extra = { 0 };
    if (layer_is_decoder(b)) {
        extra = (struct layer_extra){ .vectors = 1, .vector_elements = norm, .replicated = norm };
        extra.parameters = norm + h * (double)(2 * b->query + 2 * b->key);
    } else if (layer_ends_encoder(b)) {
        extra = (struct layer_extra){ .vectors = 1, .vector_elements = norm, .replicated = norm, .parameters = norm };
    } else if (is_block_of(b, MODEL_SWIN)) {
        double offsets = (double)((2 * b->model->window - 1) * (2 * b->model->window - 1)) * (double)b->heads;
        extra = (struct layer_extra){ .vectors = 1, .vector_elements = offsets, .parameters = offsets };
        if (merges(b)) {
            extra.vectors += 2;
            extra.vector_elements += 4.0 * norm;
            extra.replicated = 4.0 * norm + 8.0 * h * h;
            extra.parameters += extra.replicated;
        }
    }
    return extra;
}
