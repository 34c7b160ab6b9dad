#include "strategies/policies/chunk_units.h"

#include "sim/base/check.h"

/* Upper bounds of the units of the parts of a model. */
enum { UNITS_PER_LAYER_MAX = 9, UNITS_AT_ENDS_MAX = 16 };

struct lister {
    struct chunk_units *units;
    const struct model *model;
    uint32_t layer;
};

static struct chunk_unit *add(struct lister *l, const char *name)
{
    struct chunk_unit *unit = &l->units->items[l->units->count++];
    *unit = (struct chunk_unit){ .name = name, .layer = l->layer };
    return unit;
}

static void add_tensor(struct chunk_unit *unit, int64_t rows, int64_t columns)
{
    CHECK(unit->tensor_count < CHUNK_UNIT_TENSORS_MAX && rows >= 0 && columns >= 0);
    unit->elements[unit->tensor_count++] = (uint64_t)rows * (uint64_t)columns;
}

static void linear(struct lister *l, const char *name, int64_t inputs, int64_t outputs, bool bias)
{
    struct chunk_unit *unit = add(l, name);
    add_tensor(unit, outputs, inputs);
    if (bias) {
        add_tensor(unit, outputs, 1);
    }
}

static void norm(struct lister *l, const char *name)
{
    struct chunk_unit *unit = add(l, name);
    add_tensor(unit, l->model->hidden, 1);
    if (l->model->norm_bias) {
        add_tensor(unit, l->model->hidden, 1);
    }
}

static void table(struct lister *l, const char *name, int64_t rows)
{
    if (rows > 0) {
        struct chunk_unit *unit = add(l, name);
        unit->embedding = true;
        add_tensor(unit, rows, l->model->hidden);
    }
}

static void embedding(struct lister *l, int64_t vocab_rows)
{
    const struct model *m = l->model;
    if (m->family == MODEL_VIT) {
        linear(l, "patch_projection", m->patch_size * m->patch_size * m->channels, m->hidden, true);
        struct chunk_unit *unit = add(l, "class_token_and_positions");
        add_tensor(unit, m->hidden, 1);
        add_tensor(unit, m->position_rows, m->hidden);
        return;
    }
    table(l, "word_embedding", vocab_rows);
    table(l, "position_embedding", m->position_rows);
    table(l, "segment_embedding", m->segment_types);
    if (m->family == MODEL_BERT) {
        norm(l, "embedding_norm");
    }
}

static void attention(struct lister *l)
{
    const struct model *m = l->model;
    int64_t query = m->heads * m->head_size, key = m->kv_heads * m->head_size;
    if (m->family == MODEL_GPT) {
        linear(l, "qkv", m->hidden, query + 2 * key, m->qkv_bias);
    } else {
        linear(l, "query", m->hidden, query, m->qkv_bias);
        linear(l, "key", m->hidden, key, m->qkv_bias);
        linear(l, "value", m->hidden, key, m->qkv_bias);
    }
    linear(l, "attention_output", query, m->hidden, m->projection_bias);
}

static void feed_forward(struct lister *l)
{
    const struct model *m = l->model;
    if (m->activation == MODEL_SWIGLU) {
        linear(l, "ffn_gate", m->hidden, m->ffn, m->ffn_bias);
    }
    linear(l, "ffn_up", m->hidden, m->ffn, m->ffn_bias);
    linear(l, "ffn_down", m->ffn, m->hidden, m->ffn_bias);
}

static void block(struct lister *l)
{
    switch (l->model->family) {
    case MODEL_GPT:
        norm(l, "attention_norm");
        attention(l);
        norm(l, "ffn_norm");
        feed_forward(l);
        return;
    case MODEL_BERT:
        attention(l);
        norm(l, "attention_norm");
        feed_forward(l);
        norm(l, "ffn_norm");
        return;
    case MODEL_LLAMA:
    case MODEL_VIT:
        attention(l);
        feed_forward(l);
        norm(l, "attention_norm");
        norm(l, "ffn_norm");
        return;
    case MODEL_T5:   /* refused before */
    case MODEL_SWIN: /* refused before */
    case MODEL_FAMILY_COUNT: break;
    }
    check_failed("a model family", __FILE__, __LINE__);
}

static void head(struct lister *l, int64_t vocab_rows)
{
    const struct model *m = l->model;
    if (m->final_norm) {
        norm(l, "final_norm");
    }
    if (m->pooler) {
        linear(l, "pooler", m->hidden, m->hidden, true);
    }
    if (m->lm_head && !m->tied_head) {
        linear(l, "output_projection", m->hidden, vocab_rows, m->head_bias);
    } else if (m->lm_head && m->head_bias) {
        add_tensor(add(l, "output_bias"), vocab_rows, 1);
    }
    if (m->mlm_head) {
        linear(l, "mlm_dense", m->hidden, m->hidden, true);
        norm(l, "mlm_norm");
        if (m->tied_head) {
            add_tensor(add(l, "mlm_bias"), vocab_rows, 1);
        } else {
            linear(l, "mlm_decoder", m->hidden, vocab_rows, true);
        }
    }
    if (m->classes > 0) {
        linear(l, "classifier", m->hidden, m->classes, true);
    }
}

enum status chunk_units_of_model(struct chunk_units *units, const struct model *model, int64_t vocab_rows,
                                 struct arena *arena, struct error *error)
{
    *units = (struct chunk_units){ 0 };
    TRY(model_require_uniform(model, "chunked model data", error));
    units->items =
        arena_array(arena, struct chunk_unit, (size_t)model->layers * UNITS_PER_LAYER_MAX + UNITS_AT_ENDS_MAX);
    if (units->items == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the modules of a model");
    }
    struct lister lister = { .units = units, .model = model };
    embedding(&lister, vocab_rows);
    for (int64_t i = 0; i < model->layers; i++) {
        lister.layer++;
        block(&lister);
    }
    lister.layer++;
    head(&lister, vocab_rows);
    return STATUS_OK;
}

uint64_t chunk_unit_elements(const struct chunk_unit *unit)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < unit->tensor_count; i++) {
        sum += unit->elements[i];
    }
    return sum;
}

const struct chunk_unit *chunk_units_largest(const struct chunk_units *units, bool embedding_outside)
{
    const struct chunk_unit *largest = NULL;
    for (uint32_t i = 0; i < units->count; i++) {
        const struct chunk_unit *unit = &units->items[i];
        if (!(unit->embedding && embedding_outside) &&
            (largest == NULL || chunk_unit_elements(unit) > chunk_unit_elements(largest))) {
            largest = unit;
        }
    }
    return largest;
}
