/* The two ends of a model: embedding, and head (its loss: layer_loss.c).
 *
 * Saved bytes beyond the blocks (Korthikanti et al. 2022, section 4.3, per micro-batch, SP): embedding dropout
 * mask s b h / t; final norm input 2 s b h / t, output projection input
 * 2 s b h / t, fp32 logits 4 s b v / t. Without SP the first three are not divided. Token ids are input data and
 * not counted. */
#include "sim/model/layer_build.h"
#include "sim/model/variant.h"

static bool is_vision(const struct layer_builder *b)
{
    return b->model->family == MODEL_VIT || b->model->family == MODEL_SWIN;
}

static bool has_norm(const struct layer_builder *b)
{
    return b->model->family == MODEL_BERT || b->model->family == MODEL_SWIN;
}

/* Of all relative biases, both stacks': [heads, e, e] and [heads, d, d]. */
static double t5_bias_elements(const struct layer_builder *b)
{
    int64_t e = b->shape->sequence, d = b->model->decoder_sequence;
    return layer_area(b->heads, e) * (double)e + layer_area(b->heads, d) * (double)d;
}

static double t5_bias_parameters(const struct layer_builder *b)
{
    return b->model->family == MODEL_T5 ? 2.0 * T5_BUCKETS * (double)b->heads : 0.0;
}

static uint32_t patch_count(const struct layer_builder *b)
{
    return (uint32_t)(b->batch * model_patches(b->model));
}

static int64_t patch_width(const struct layer_builder *b)
{
    return b->model->channels * b->model->patch_size * b->model->patch_size;
}

/* Word rows, or projected patches: whole rows, then this rank's. */
static uint32_t look_up(struct layer_builder *b)
{
    double whole = layer_tokens_bytes(b);
    uint32_t words = live_open(b, whole);
    if (is_vision(b)) {
        uint32_t patches = live_open(b, layer_area(patch_count(b), patch_width(b)) * b->element);
        double image = layer_area(patch_count(b), patch_width(b)) * b->element;
        op_stream(b, "patches", KERNEL_ELEMENTWISE, 1, patch_count(b), patch_width(b), image, image);
        op_projection(b, "patch_gemm", patch_count(b), b->hidden, patch_width(b));
        if (b->model->family == MODEL_VIT) {
            op_stream(b, "class_token_concatenate", KERNEL_ELEMENTWISE, 1, b->tokens, b->hidden, whole, whole);
        }
        live_close(b, patches);
        return words;
    }
    op_stream(b, "word_embedding", KERNEL_GATHER, b->parallel ? 4 : 1, b->tokens, b->hidden,
              whole + 8.0 * (double)b->tokens, whole);
    if (b->sequence_parallel) {
        uint32_t local = live_open(b, layer_rows_bytes(b));
        op_collective(b, "embedding_reduce_scatter", LAYER_REDUCE_SCATTER, whole, false);
        live_close(b, words);
        return local;
    }
    if (b->parallel) {
        op_collective(b, "embedding_all_reduce", LAYER_ALL_REDUCE, whole, false);
    }
    return words;
}

static void embedding_forward(struct layer_builder *b)
{
    const struct model *m = b->model;
    double rows = layer_rows_bytes(b);
    uint32_t words = look_up(b);
    uint32_t tables = (m->position_rows > 0 ? 1u : 0u) + (m->segment_types > 0 ? 1u : 0u);
    if (tables > 0) {
        /* Each table's rows are looked up and added. */
        uint32_t launches = is_vision(b) ? 1 : 2 * tables;
        op_stream(b, "position_add", KERNEL_ELEMENTWISE, launches, b->rows, b->hidden, 3.0 * tables * rows,
                  2.0 * tables * rows);
    }
    if (m->family == MODEL_T5) {
        double biases = t5_bias_elements(b) * b->element;
        live_close(b, save_tensor(b, "position_biases", biases, false, false));
        op_stream(b, "position_bias_lookup", KERNEL_GATHER, 2, (int64_t)(t5_bias_elements(b)), 1, biases, biases);
    }
    live_open(b, rows); /* the layer's output */
    if (has_norm(b)) {
        live_close(b, save_tensor(b, "embedding_norm_input", rows, false, false));
        op_norm(b, "embedding_norm", b->rows);
    }
    if (m->dropout > 0) {
        double mask = layer_area(b->rows, b->hidden);
        live_close(b, save_tensor(b, "embedding_mask", mask, false, false));
        op_stream(b, "embedding_dropout", KERNEL_ELEMENTWISE, 1, b->rows, b->hidden, rows, rows + mask);
    }
    live_close(b, words);
}

/* The table's gradient: eager PyTorch and Megatron alike make a dense one (fill, then scatter-add) and add it to the
 * buffer. */
static void table_gradient(struct layer_builder *b, const char *name, const char *add, int64_t rows, int64_t looked_up)
{
    double table = layer_area(rows, b->hidden), whole = layer_area(looked_up, b->hidden) * b->element;
    uint32_t dense = live_open(b, table * b->element);
    b->lives[dense].gradient = true;
    b->pass = PASS_BACKWARD_WEIGHT;
    op_stream(b, name, KERNEL_GATHER, 3, looked_up, b->hidden, 2.0 * whole, table * b->element + whole);
    gradient_made(b, table);
    op_stream(b, add, KERNEL_ELEMENTWISE, 1, rows, b->hidden, table * (b->element + b->gradient), table * b->gradient);
    live_close(b, dense);
    b->pass = PASS_BACKWARD_INPUT;
}

static void embedding_backward(struct layer_builder *b)
{
    const struct model *m = b->model;
    double rows = layer_rows_bytes(b), whole = layer_tokens_bytes(b);
    uint32_t gradient = live_open(b, rows);
    if (m->dropout > 0) {
        uint32_t next = live_open(b, rows);
        op_stream(b, "embedding_dropout_backward", KERNEL_ELEMENTWISE, 1, b->rows, b->hidden,
                  rows + layer_area(b->rows, b->hidden), rows);
        live_close(b, gradient);
        gradient = next;
    }
    if (m->family == MODEL_T5) {
        double biases = t5_bias_elements(b) * b->element;
        b->pass = PASS_BACKWARD_WEIGHT;
        op_stream(b, "position_table_gradient", KERNEL_GATHER, 2, (int64_t)(t5_bias_elements(b)), 1, biases, 0.0);
        b->pass = PASS_BACKWARD_INPUT;
        op_vector_gradients(b, "vector_gradient_add", 2, t5_bias_parameters(b));
    }
    if (has_norm(b)) {
        uint32_t next = live_open(b, rows);
        op_norm_backward(b, "embedding_norm_backward", b->rows);
        live_close(b, gradient);
        gradient = next;
        op_vector_gradients(b, "vector_gradient_add", 2, 2.0 * (double)b->hidden);
    }
    if (m->position_rows > 0) {
        table_gradient(b, "position_gradient", "position_gradient_add", m->position_rows, b->rows);
    }
    if (m->segment_types > 0) {
        table_gradient(b, "segment_gradient", "segment_gradient_add", m->segment_types, b->rows);
    }
    if (is_vision(b)) {
        op_bias_gradient(b, "patch_bias_gradient", patch_count(b), b->hidden);
        op_weight_gemm(b, "patch_weight_gradient", b->hidden, patch_width(b), patch_count(b));
        uint32_t vectors = m->family == MODEL_VIT ? 2 : 1; /* bias; class token */
        op_vector_gradients(b, "vector_gradient_add", vectors, vectors * (double)b->hidden);
        live_close(b, gradient);
        return;
    }
    if (b->sequence_parallel) {
        uint32_t gathered = live_open(b, whole);
        op_collective(b, "embedding_gradient_all_gather", LAYER_ALL_GATHER, whole, false);
        live_close(b, gradient);
        gradient = gathered;
    }
    table_gradient(b, "word_gradient", "word_gradient_add", b->vocab, b->tokens);
    live_close(b, gradient);
}

void build_embedding(struct layer_builder *b)
{
    const struct model *m = b->model;
    embedding_forward(b);
    b->graph->forward_count = b->graph->op_count;
    b->pass = PASS_BACKWARD_INPUT;
    embedding_backward(b);
    double h = (double)b->hidden, shared = (double)(m->position_rows + m->segment_types) * h;
    if (has_norm(b)) {
        shared += h * (m->norm_bias ? 2.0 : 1.0);
    }
    if (is_vision(b)) {
        shared += (double)patch_width(b) * h + h + (m->family == MODEL_VIT ? h : 0.0);
    }
    b->graph->replicated_parameters = shared;
    b->graph->parameters = shared + (double)b->vocab * h + t5_bias_parameters(b);
}

/* bert's masked-language head before the decoder: dense, GELU, norm, on this rank's rows (weights replicated, as
 * Megatron's BertLMHead). */
static uint32_t mlm_forward(struct layer_builder *b)
{
    double rows = layer_rows_bytes(b);
    uint32_t dense = save_tensor(b, "mlm_activation_input", rows, false, false);
    op_projection(b, "mlm_gemm", b->rows, b->hidden, b->hidden);
    uint32_t active = save_tensor(b, "mlm_norm_input", rows, false, false);
    op_stream(b, "mlm_activation", KERNEL_ELEMENTWISE, 1, b->rows, b->hidden, rows, rows);
    live_close(b, dense);
    uint32_t input = save_tensor(b, "logits_input", rows, false, false);
    op_norm(b, "mlm_norm", b->rows);
    live_close(b, active);
    return input;
}

static uint32_t mlm_backward(struct layer_builder *b, uint32_t gradient)
{
    double rows = layer_rows_bytes(b);
    uint32_t normed = live_open(b, rows);
    op_norm_backward(b, "mlm_norm_backward", b->rows);
    live_close(b, gradient);
    uint32_t active = live_open(b, rows);
    op_stream(b, "mlm_activation_backward", KERNEL_ELEMENTWISE, 1, b->rows, b->hidden, 2.0 * rows, rows);
    live_close(b, normed);
    op_bias_gradient(b, "mlm_bias_gradient", b->rows, b->hidden);
    uint32_t input = live_open(b, rows);
    op_gemm(b, "mlm_input_gradient", GEMM_NN, 1, b->rows, b->hidden, b->hidden);
    op_weight_gemm(b, "mlm_weight_gradient", b->hidden, b->hidden, b->rows);
    live_close(b, active);
    return input;
}

/* Pooler and classifier on the first token of each sequence: a few rows, kept for their launches and weights. */
static void classifier_forward(struct layer_builder *b)
{
    double pooled = layer_area(b->batch, b->hidden) * b->element;
    if (b->model->pooler) {
        live_close(b, save_tensor(b, "pooler_tensors", 2.0 * pooled, false, false));
        op_projection(b, "pooler_gemm", b->batch, b->hidden, b->hidden);
        op_stream(b, "pooler_tanh", KERNEL_ELEMENTWISE, 1, b->batch, b->hidden, pooled, pooled);
    }
    if (b->model->classes > 0) {
        double scores = layer_area(b->batch, b->model->classes);
        live_close(b, save_tensor(b, "class_log_softmax", 4.0 * scores, false, false));
        op_projection(b, "classifier_gemm", b->batch, b->model->classes, b->hidden);
        op_stream(b, "class_loss", KERNEL_SOFTMAX, 3, b->batch, b->model->classes, (8.0 + b->element) * scores,
                  8.0 * scores);
    }
}

static void classifier_backward(struct layer_builder *b)
{
    double pooled = layer_area(b->batch, b->hidden) * b->element;
    if (b->model->classes > 0) {
        double scores = layer_area(b->batch, b->model->classes);
        op_stream(b, "class_loss_backward", KERNEL_SOFTMAX, 3, b->batch, b->model->classes, 12.0 * scores,
                  12.0 * scores);
        op_bias_gradient(b, "classifier_bias_gradient", b->batch, b->model->classes);
        op_gemm(b, "classifier_input_gradient", GEMM_NN, 1, b->batch, b->hidden, b->model->classes);
        op_weight_gemm(b, "classifier_weight_gradient", b->model->classes, b->hidden, b->batch);
    }
    if (b->model->pooler) {
        op_stream(b, "pooler_tanh_backward", KERNEL_ELEMENTWISE, 1, b->batch, b->hidden, 2.0 * pooled, pooled);
        op_bias_gradient(b, "pooler_bias_gradient", b->batch, b->hidden);
        op_gemm(b, "pooler_input_gradient", GEMM_NN, 1, b->batch, b->hidden, b->hidden);
        op_weight_gemm(b, "pooler_weight_gradient", b->hidden, b->hidden, b->batch);
    }
}

static void head_forward(struct layer_builder *b)
{
    const struct model *m = b->model;
    uint32_t input = LIVE_NONE;
    if (m->final_norm) {
        input = m->lm_head ? save_tensor(b, "logits_input", layer_rows_bytes(b), false, false)
                           : live_open(b, layer_rows_bytes(b));
        if (b->shape->norm_fp32 && m->norm == MODEL_RMS_NORM && !b->shape->fused_kernels) {
            live_close(b, save_tensor(b, "final_norm_fp32", 8.0 * layer_area(b->rows, b->hidden), false, false));
        }
        op_norm(b, "final_norm", b->rows);
    }
    if (m->family == MODEL_T5 && m->dropout > 0) {
        double rows = layer_rows_bytes(b), mask = layer_area(b->rows, b->hidden);
        live_close(b, save_tensor(b, "head_mask", mask, false, false));
        op_stream(b, "head_dropout", KERNEL_ELEMENTWISE, 1, b->rows, b->hidden, rows, rows + mask);
    }
    if (m->mlm_head) {
        input = mlm_forward(b);
    }
    if (model_has_logits(m)) {
        logits_forward(b, input);
    }
    if (m->family == MODEL_SWIN) {
        op_stream(b, "mean_pool", KERNEL_NORM, 1, b->rows, b->hidden, layer_rows_bytes(b),
                  layer_area(b->batch, b->hidden) * b->element);
    }
    classifier_forward(b);
    if (!model_has_logits(m)) {
        live_close(b, input);
    }
}

static void head_backward(struct layer_builder *b)
{
    const struct model *m = b->model;
    double rows = layer_rows_bytes(b);
    uint32_t gradient = LIVE_NONE;
    classifier_backward(b);
    if (model_has_logits(m)) {
        gradient = logits_backward(b);
    } else if (b->graph->op_count > 0) {
        /* The first token's gradient among zeros; swin: of the mean, to every token. */
        gradient = live_open(b, rows);
        op_stream(b, m->family == MODEL_SWIN ? "mean_pool_backward" : "first_token_scatter", KERNEL_ELEMENTWISE, 2,
                  b->rows, b->hidden, 0.0, rows);
    }
    if (m->family == MODEL_T5 && m->dropout > 0) {
        uint32_t dropped = live_open(b, rows);
        op_stream(b, "head_dropout_backward", KERNEL_ELEMENTWISE, 1, b->rows, b->hidden,
                  rows + layer_area(b->rows, b->hidden), rows);
        live_close(b, gradient);
        gradient = dropped;
    }
    if (m->mlm_head) {
        gradient = mlm_backward(b, gradient);
    }
    if (m->final_norm) {
        live_open(b, rows); /* the gradient that leaves */
        op_norm_backward(b, "final_norm_backward", b->rows);
        live_close(b, gradient);
        op_vector_gradients(b, "vector_gradient_add", m->norm_bias ? 2 : 1,
                            (double)b->hidden * (m->norm_bias ? 2.0 : 1.0));
    }
}

static void count_head(struct layer_builder *b)
{
    const struct model *m = b->model;
    double h = (double)b->hidden, norm = h * (m->norm_bias ? 2.0 : 1.0), table = (double)b->vocab * h, shared = 0,
           split = 0;
    shared += m->final_norm ? norm : 0.0;
    if (model_has_logits(m)) {
        b->graph->tied_parameters = m->tied_head ? table : 0.0;
        split += m->tied_head ? 0.0 : table;
        split += m->mlm_head || m->head_bias ? (double)b->vocab : 0.0;
    }
    shared += m->mlm_head ? h * h + h + norm : 0.0;
    shared += m->pooler ? h * h + h : 0.0;
    shared += (h + 1.0) * (double)m->classes;
    b->graph->replicated_parameters = shared;
    b->graph->parameters = shared + split;
}

void build_head(struct layer_builder *b)
{
    if (b->model->final_norm || model_has_logits(b->model) || b->model->pooler) {
        save_input(b, "head_input", layer_rows_bytes(b));
    }
    head_forward(b);
    b->graph->forward_count = b->graph->op_count;
    b->pass = PASS_BACKWARD_INPUT;
    head_backward(b);
    count_head(b);
}
