/* Building a layer's graph: checks of the degrees, this device's geometry, sums and peaks. */
#include "sim/model/layer.h"

#include <string.h>

#include "sim/base/check.h"
#include "sim/model/layer_build.h"
#include "sim/model/model_ranges.h"
#include "sim/model/variant.h"

const char *layer_kind_word(enum layer_kind kind)
{
    static const char *const words[] = { "embedding", "transformer", "head" };
    CHECK((unsigned)kind < LAYER_KIND_COUNT);
    return words[kind];
}

const char *layer_pass_word(enum layer_pass pass)
{
    static const char *const words[] = { "forward", "backward_input", "backward_weight" };
    CHECK((unsigned)pass < PASS_COUNT);
    return words[pass];
}

const char *layer_collective_word(enum layer_collective collective)
{
    static const char *const words[] = { "none", "all_reduce", "all_gather", "reduce_scatter" };
    CHECK((unsigned)collective < sizeof words / sizeof words[0]);
    return words[collective];
}

int64_t model_padded_vocab(const struct model *model, int64_t tensor, int64_t multiple)
{
    CHECK(tensor >= 1 && multiple >= 0);
    int64_t unit = multiple == 0 ? tensor : multiple * tensor;
    return (model->vocab + unit - 1) / unit * unit;
}

static enum status check_range(const char *name, int64_t value, int64_t max, struct error *error)
{
    if (value < 1 || value > max) {
        return error_set(error, STATUS_BAD_INPUT, "%s is %lld: allowed are 1 to %lld", name, (long long)value,
                         (long long)max);
    }
    return STATUS_OK;
}

static enum status check_divides(const char *what, int64_t value, int64_t tensor, struct error *error)
{
    if (value % tensor != 0) {
        return error_set(error, STATUS_BAD_INPUT, "%s (%lld) must be divisible by the tensor-parallel degree %lld",
                         what, (long long)value, (long long)tensor);
    }
    return STATUS_OK;
}

/* What models of several shapes ask besides. */
static enum status check_variant(const struct model *m, const struct layer_shape *shape, struct error *error)
{
    if (shape->variant >= model_variant_count(m)) {
        return error_set(error, STATUS_BAD_INPUT, "variant %u: %s has layers of %u shapes", shape->variant, m->name,
                         model_variant_count(m));
    }
    bool split = shape->sequence_parallel && shape->tensor > 1;
    if (m->family == MODEL_SWIN && split) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s attends in windows: sequence parallelism, which cuts them, is not modelled", m->name);
    }
    if (m->family == MODEL_T5 && split) {
        return check_divides("with sequence parallelism, the decoder's sequence length", m->decoder_sequence,
                             shape->tensor, error);
    }
    return STATUS_OK;
}

static enum status check_shape(const struct model *m, const struct layer_shape *shape, struct error *error)
{
    int64_t t = shape->tensor;
    TRY(check_range("the micro-batch", shape->micro_batch, 1 << 20, error));
    TRY(check_range("the sequence length", shape->sequence, MODEL_SEQUENCE_MAX, error));
    TRY(check_range("the tensor-parallel degree", t, MODEL_HEADS_MAX, error));
    if (shape->context != 1) {
        return error_set(error, STATUS_UNSUPPORTED, "context-parallel degree %lld: only 1 is modelled",
                         (long long)shape->context);
    }
    if ((unsigned)shape->dtype >= DTYPE_COUNT || shape->gradient_bytes < 0 || shape->gradient_bytes > 8) {
        return error_set(error, STATUS_BAD_INPUT, "dtype %d with %lld gradient bytes is not known", (int)shape->dtype,
                         (long long)shape->gradient_bytes);
    }
    TRY(check_divides("attention heads", m->heads, t, error));
    TRY(check_divides("the feed-forward size", m->ffn, t, error));
    if (m->kv_heads % t != 0 && t % m->kv_heads != 0) {
        return error_set(error, STATUS_BAD_INPUT,
                         "%lld key-value heads and tensor-parallel degree %lld: one must divide the other",
                         (long long)m->kv_heads, (long long)t);
    }
    if ((m->family == MODEL_VIT || m->family == MODEL_SWIN) && shape->sequence != m->max_sequence) {
        return error_set(error, STATUS_BAD_INPUT, "the sequence length is %lld, but %s sees %lld patches%s: %lld",
                         (long long)shape->sequence, m->name, (long long)model_patches(m),
                         m->family == MODEL_VIT ? " and a class token" : "", (long long)m->max_sequence);
    }
    if (m->position_rows > 0 && shape->sequence > m->max_sequence) {
        return error_set(error, STATUS_BAD_INPUT, "the sequence length %lld exceeds the %lld learned positions of %s",
                         (long long)shape->sequence, (long long)m->max_sequence, m->name);
    }
    if (shape->sequence_parallel && t > 1 && shape->sequence % t != 0) {
        return check_divides("with sequence parallelism, the sequence length", shape->sequence, t, error);
    }
    TRY(check_variant(m, shape, error));
    if (m->vocab > 0) {
        if (shape->padded_vocab < m->vocab || shape->padded_vocab > 2 * (int64_t)MODEL_VOCAB_MAX) {
            return error_set(error, STATUS_BAD_INPUT,
                             "the padded vocabulary %lld must be at least the model's %lld and at most %lld",
                             (long long)shape->padded_vocab, (long long)m->vocab, 2 * (long long)MODEL_VOCAB_MAX);
        }
        TRY(check_divides("the padded vocabulary", shape->padded_vocab, t, error));
    }
    return STATUS_OK;
}

/* Tokens of a sample that the layer's ops speak of. */
static int64_t own_sequence(const struct model *m, enum layer_kind kind, const struct layer_shape *shape)
{
    if (m->family == MODEL_T5 && kind == LAYER_EMBEDDING) {
        return shape->sequence + m->decoder_sequence;
    }
    if (m->family == MODEL_T5 && (kind == LAYER_HEAD || model_variant_decodes(m, shape->variant))) {
        return m->decoder_sequence;
    }
    if (m->family == MODEL_SWIN && kind != LAYER_EMBEDDING) {
        return shape->sequence >> 2 * (kind == LAYER_HEAD ? MODEL_STAGES - 1 : model_variant_stage(shape->variant));
    }
    return shape->sequence;
}

/* Self-attention: whole sequences or their windows. */
static void set_span(struct layer_builder *b, const struct model *m)
{
    int64_t of = m->family == MODEL_SWIN ? m->window * m->window : b->sequence;
    b->span = (struct layer_span){ .batch = b->tokens / of,
                                   .queries = of,
                                   .keys = of,
                                   .key_tokens = b->tokens,
                                   .causal = m->causal || layer_is_decoder(b) };
    if (!model_is_uniform(m)) {
        b->span.bias_bytes = (double)b->heads * (double)of * (double)of * b->element;
    }
}

/* `m`: as layers of the variant see it. */
static void set_geometry(struct layer_builder *b, const struct model *m, const struct layer_shape *shape)
{
    int64_t t = shape->tensor;
    uint32_t element = shape->dtype == DTYPE_FP8 ? 2 : dtype_bytes(shape->dtype);
    b->model = m;
    b->shape = shape;
    b->element = element;
    b->gradient = shape->gradient_bytes > 0 ? (double)shape->gradient_bytes : b->element;
    b->batch = shape->micro_batch;
    b->parallel = t > 1;
    b->sequence_parallel = shape->sequence_parallel && t > 1;
    layer_set_tokens(b, own_sequence(m, b->graph->kind, shape));
    b->hidden = m->hidden;
    b->heads = m->heads / t;
    b->query = b->heads * m->head_size;
    b->key = (m->kv_heads >= t ? m->kv_heads / t : 1) * m->head_size;
    b->ffn = m->ffn / t;
    b->vocab = m->vocab > 0 ? shape->padded_vocab / t : 0;
    set_span(b, m);
}

static double crossing_bytes(const struct layer_shape *shape, int64_t tokens, int64_t width)
{
    int64_t rows = shape->micro_batch * tokens;
    rows = shape->sequence_parallel && shape->tensor > 1 ? rows / shape->tensor : rows;
    return (double)rows * (double)width * (shape->dtype == DTYPE_FP8 ? 2 : dtype_bytes(shape->dtype));
}

double layer_crossing_bytes(const struct model *model, const struct layer_shape *shape, int64_t layer)
{
    const struct model_crossing crossing = model_crossing_into(model, layer, shape->sequence);
    return crossing_bytes(shape, crossing.tokens, crossing.width);
}

double layer_passing_bytes(const struct model *model, const struct layer_shape *shape, int64_t layer)
{
    const struct model_crossing crossing = model_crossing_into(model, layer, shape->sequence);
    return crossing_bytes(shape, crossing.passing, crossing.width);
}

/* The first layer that the graph may stand for; model->layers for the head. */
static int64_t any_layer(const struct model *model, enum layer_kind kind, uint32_t variant)
{
    int64_t layer = kind == LAYER_HEAD          ? model->layers
                    : kind == LAYER_TRANSFORMER ? model_variant_first(model, variant)
                                                : 0;
    return layer < model->layers || kind == LAYER_HEAD ? layer : 0;
}

/* The lives that count as short-lived while op `at` runs, by size. */
static void peak_parts(const struct layer_builder *b, uint32_t at, struct layer_peak *peak)
{
    bool forward = at < b->graph->forward_count;
    *peak = (struct layer_peak){ 0 };
    for (uint32_t j = 0; j < b->live_count; j++) {
        const struct layer_live *live = &b->lives[j];
        if (live->saved || !(live->bytes > 0) || live->first > at || live->last < at ||
            (live->first < b->graph->forward_count) != forward) {
            continue;
        }
        double carried = live->bytes;
        for (uint32_t k = 0; k < peak->count; k++) {
            if (carried > peak->bytes[k]) {
                double smaller = peak->bytes[k];
                peak->bytes[k] = carried;
                carried = smaller;
            }
        }
        if (peak->count < LAYER_PEAK_PARTS) {
            peak->bytes[peak->count++] = carried;
        } else {
            peak->bytes[LAYER_PEAK_PARTS - 1] += carried;
        }
    }
}

/* Fill each op's transient bytes and the peaks from the lifetimes. A few dozen ops and lives: the plain double loop. */
static void measure_lives(struct layer_builder *b)
{
    struct layer_graph *graph = b->graph;
    for (uint32_t i = 0; i < graph->op_count; i++) {
        double transient = 0, selective = 0, everything = 0;
        bool forward = i < graph->forward_count;
        for (uint32_t j = 0; j < b->live_count; j++) {
            const struct layer_live *live = &b->lives[j];
            /* An unclosed life is the pass's result: it ends with its pass. */
            bool born_forward = live->first < graph->forward_count;
            if (live->first <= i && i <= live->last && born_forward == forward) {
                transient += live->saved ? 0.0 : live->bytes;
                selective += live->saved && !live->dropped ? 0.0 : live->bytes - live->kept_bytes;
                everything += live->bytes;
            }
        }
        graph->ops[i].transient_bytes = transient;
        double *peak = forward ? &graph->forward_transient_bytes : &graph->backward_transient_bytes;
        if (transient > *peak) {
            *peak = transient;
            peak_parts(b, i, forward ? &graph->forward_peak : &graph->backward_peak);
        }
        if (forward && selective > graph->forward_selective_peak_bytes) {
            graph->forward_selective_peak_bytes = selective;
        }
        if (forward && everything > graph->forward_unsaved_peak_bytes) {
            graph->forward_unsaved_peak_bytes = everything;
        }
    }
}

/* backward_flow_bytes. Lives of gradients count as changes, which end with the pass. */
static void measure_flow(struct layer_builder *b)
{
    struct layer_graph *graph = b->graph;
    for (uint32_t i = graph->forward_count; i < graph->op_count; i++) {
        double flow = 0;
        for (uint32_t j = 0; j < b->live_count; j++) {
            const struct layer_live *live = &b->lives[j];
            bool counts = !live->gradient && live->first >= graph->forward_count;
            flow += counts && live->first <= i && i <= live->last ? live->bytes : 0;
        }
        for (uint32_t j = 0; j < b->change_count; j++) {
            flow += b->changes[j].from <= i ? b->changes[j].bytes : 0;
        }
        graph->backward_flow_bytes = flow > graph->backward_flow_bytes ? flow : graph->backward_flow_bytes;
    }
}

static void sum_graph(struct layer_graph *graph)
{
    for (uint32_t i = 0; i < graph->saved_count; i++) {
        const struct saved_tensor *saved = &graph->saved[i];
        graph->saved_bytes_none += saved->selective_only ? 0.0 : saved->bytes;
        graph->saved_bytes_selective += saved->attention_core ? 0.0 : saved->bytes;
        graph->saved_bytes_full += saved->is_input ? saved->bytes : 0.0;
    }
    for (uint32_t i = 0; i < graph->op_count; i++) {
        double *flops = i < graph->forward_count ? &graph->forward_flops : &graph->backward_flops;
        *flops += graph->ops[i].kernel.flops;
    }
}

/* Stable: B ops first, then W ops. */
static enum status separate_weight_ops(struct layer_graph *graph, struct arena *arena, struct error *error)
{
    struct layer_op *sorted = arena_array(arena, struct layer_op, graph->op_count);
    if (sorted == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for a layer's operations");
    }
    uint32_t count = 0;
    for (int weight = 0; weight < 2; weight++) {
        for (uint32_t i = 0; i < graph->op_count; i++) {
            if ((graph->ops[i].pass == PASS_BACKWARD_WEIGHT) == (weight == 1)) {
                sorted[count++] = graph->ops[i];
            }
        }
    }
    graph->ops = sorted;
    return STATUS_OK;
}

enum status layer_graph_build(struct layer_graph *graph, const struct model *model, enum layer_kind kind,
                              const struct layer_shape *shape, struct arena *arena, struct error *error)
{
    struct layer_builder b = { .graph = graph, .pass = PASS_FORWARD };
    *graph = (struct layer_graph){ .kind = kind };
    TRY(check_shape(model, shape, error));
    const uint32_t variant = kind == LAYER_EMBEDDING ? 0
                             : kind == LAYER_HEAD    ? model_variant_count(model) - 1
                                                     : shape->variant;
    const struct model here = model_at_variant(model, variant);
    set_geometry(&b, &here, shape);
    graph->ops = arena_array(arena, struct layer_op, LAYER_OPS_MAX);
    graph->saved = arena_array(arena, struct saved_tensor, LAYER_SAVED_MAX);
    if (graph->ops == NULL || graph->saved == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for a layer's operations");
    }
    switch (kind) {
    case LAYER_EMBEDDING: build_embedding(&b); break;
    case LAYER_TRANSFORMER: build_transformer(&b); break;
    case LAYER_HEAD: build_head(&b); break;
    case LAYER_KIND_COUNT: CHECK(false);
    }
    graph->boundary_bytes = layer_crossing_bytes(model, shape, any_layer(model, kind, shape->variant));
    measure_lives(&b);
    measure_flow(&b);
    sum_graph(graph);
    if (shape->separate_backward_weight) {
        TRY(separate_weight_ops(graph, arena, error));
    }
    return STATUS_OK;
}
