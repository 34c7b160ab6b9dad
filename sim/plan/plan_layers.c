/* Splits of single layers: what they are, what moves between them, checks, printing. Reading is plan_layers_read.c. */
#include "sim/plan/plan_layers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/plan/plan_replicas.h"

/* ---- who is split how ---- */

/* With one degree of 1 both orders are the same. */
static struct plan_layer normal(struct plan_layer layer)
{
    layer.data_consecutive = layer.data_consecutive && layer.tensor > 1 && layer.data > 1;
    return layer;
}

static struct plan_layer transformer_layer(const struct plan *plan, int64_t index)
{
    if (plan->layers != NULL) {
        return normal(plan->layers[index]);
    }
    return (struct plan_layer){ .tensor = plan->tensor, .data = plan->data, .zero_stage = plan->zero_stage };
}

struct plan_layer plan_layer_of(const struct plan *plan, const struct model *model, enum layer_kind kind, int64_t index)
{
    if (plan->stage_replicas != NULL) {
        int64_t stage = kind == LAYER_EMBEDDING ? 0
                        : kind == LAYER_HEAD    ? plan->pipeline - 1
                                                : plan_stage_of_layer(plan, index);
        return (struct plan_layer){ .tensor = plan->tensor,
                                    .data = plan_stage_data(plan, stage),
                                    .zero_stage = plan->zero_stage };
    }
    if (kind == LAYER_TRANSFORMER) {
        CHECK(index >= 0 && index < model->layers);
        return transformer_layer(plan, index);
    }
    const struct plan_layer *own = kind == LAYER_EMBEDDING ? &plan->embedding : &plan->head;
    if (own->tensor != 0) {
        return normal(*own);
    }
    if (kind == LAYER_HEAD && model->tied_head) {
        return plan_layer_of(plan, model, LAYER_EMBEDDING, 0);
    }
    return transformer_layer(plan, kind == LAYER_EMBEDDING ? 0 : model->layers - 1);
}

enum layer_kind plan_position_kind(const struct model *model, int64_t position)
{
    return position == 0 ? LAYER_EMBEDDING : position == model->layers + 1 ? LAYER_HEAD : LAYER_TRANSFORMER;
}

int64_t plan_position_of(const struct model *model, enum layer_kind kind, int64_t index)
{
    return kind == LAYER_EMBEDDING ? 0 : kind == LAYER_HEAD ? model->layers + 1 : index + 1;
}

struct plan_layer plan_layer_at(const struct plan *plan, const struct model *model, int64_t position)
{
    return plan_layer_of(plan, model, plan_position_kind(model, position), position - 1);
}

bool plan_layer_equal(const struct plan_layer *a, const struct plan_layer *b)
{
    return a->tensor == b->tensor && a->data == b->data && a->zero_stage == b->zero_stage &&
           a->data_consecutive == b->data_consecutive;
}

bool plan_is_mixed(const struct plan *plan, const struct model *model)
{
    const struct plan_layer plain = { .tensor = plan->tensor, .data = plan->data, .zero_stage = plan->zero_stage };
    if (plan->layers == NULL && plan->embedding.tensor == 0 && plan->head.tensor == 0) {
        return false;
    }
    for (int64_t i = 0; i <= model->layers + 1; i++) {
        struct plan_layer layer = plan_layer_at(plan, model, i);
        if (!plan_layer_equal(&layer, &plain)) {
            return true;
        }
    }
    return false;
}

int64_t plan_layer_samples(const struct plan *plan, const struct plan_layer *split)
{
    bool whole = plan->stage_replicas != NULL && plan->replica_sharing == SHARING_DEAL;
    return whole ? plan->micro_batch : plan->micro_batch * plan->data / split->data;
}

struct layer_shape plan_layer_shape(const struct plan *plan, const struct model *model, const struct software *software,
                                    const struct plan_layer *split, bool splits_backward)
{
    return (struct layer_shape){
        .micro_batch = plan_layer_samples(plan, split),
        .sequence = plan->sequence_length,
        .tensor = split->tensor,
        .sequence_parallel = plan->sequence_parallel,
        .context = plan->context,
        .dtype = plan->precision,
        .padded_vocab = model_padded_vocab(model, split->tensor, software->vocab_multiple),
        .flash_attention = software->flash_attention,
        .fused_kernels = software->fused_kernels,
        .fp32_softmax = software->fp32_softmax,
        .separate_backward_weight = splits_backward,
        .selective_ops = software->selective_ops,
        .qkv_copied = software->qkv_copied,
        .context_copied = software->context_copied,
        .gate_apart = software->gate_apart,
        .norm_fp32 = software->norm_fp32,
        .module_buffer = software->module_buffer,
        .module_buffer_alone = software->module_buffer_alone,
        .loss = software->loss,
        .gradient_bytes = (int64_t)software->gradient_bytes,
    };
}

const char *plan_layer_text(const struct plan_layer *layer, char *text)
{
    snprintf(text, PLAN_LAYER_TEXT_BYTES, "tensor %" PRId64 " x data %" PRId64 ", ZeRO %" PRId64 "%s", layer->tensor,
             layer->data, layer->zero_stage, layer->data_consecutive ? ", data consecutive" : "");
    return text;
}

/* ---- places and moves ---- */

int64_t plan_layer_tensor_index(const struct plan_layer *layer, int64_t rank)
{
    return layer->data_consecutive ? rank / layer->data : rank % layer->tensor;
}

int64_t plan_layer_data_index(const struct plan_layer *layer, int64_t rank)
{
    return layer->data_consecutive ? rank % layer->data : rank / layer->tensor;
}

int64_t plan_layer_rank(const struct plan_layer *layer, int64_t data_index, int64_t tensor_index)
{
    return layer->data_consecutive ? tensor_index * layer->data + data_index
                                   : data_index * layer->tensor + tensor_index;
}

struct plan_move plan_move_between(const struct plan_layer *from, const struct plan_layer *to)
{
    int64_t kept;
    CHECK(from->tensor * from->data == to->tensor * to->data);
    if (from->data_consecutive == to->data_consecutive) {
        kept = plan_gcd(from->tensor, to->tensor);
    } else {
        const struct plan_layer *near = from->data_consecutive ? to : from, *far = from->data_consecutive ? from : to;
        kept = near->tensor % far->data == 0 ? near->tensor / far->data : 1;
    }
    return (struct plan_move){ .kept = kept, .gathered = to->tensor / kept, .sliced = kept < from->tensor };
}

int64_t plan_move_key(const struct plan_layer *from, const struct plan_layer *to, int64_t rank)
{
    int64_t kept = plan_move_between(from, to).kept;
    if (kept == 1) {
        return rank;
    }
    if (from->data_consecutive != to->data_consecutive) {
        return plan_layer_data_index(from, rank) * to->data + plan_layer_data_index(to, rank);
    }
    return from->data_consecutive ? rank % (from->tensor * from->data / kept) : rank / kept;
}

int64_t plan_exchange_size(const struct plan_layer *from, const struct plan_layer *to)
{
    int64_t group = from->tensor * from->data;
    if (from->data_consecutive != to->data_consecutive) {
        const struct plan_layer *near = from->data_consecutive ? to : from, *far = from->data_consecutive ? from : to;
        return far->data % near->tensor == 0 ? near->tensor * far->tensor : group;
    }
    if (from->tensor == to->tensor) {
        return 1;
    }
    return from->data_consecutive ? group / plan_gcd(from->data, to->data)
                                  : from->tensor / plan_gcd(from->tensor, to->tensor) * to->tensor;
}

int64_t plan_exchange_key(const struct plan_layer *from, const struct plan_layer *to, int64_t rank)
{
    int64_t size = plan_exchange_size(from, to), group = from->tensor * from->data;
    if (size == 1) {
        return rank;
    }
    if (from->data_consecutive != to->data_consecutive) {
        const struct plan_layer *near = from->data_consecutive ? to : from, *far = from->data_consecutive ? from : to;
        return size == group ? 0 : rank % far->data / near->tensor;
    }
    return from->data_consecutive ? rank % (group / size) : rank / size;
}

/* ---- checks ---- */

#define REFUSE(error, path, ...) error_at(error, STATUS_BAD_INPUT, NULL, path, __VA_ARGS__)

/* The tensor degree divides what is to be split over it. */
static enum status check_tensor(const struct plan_layer *layer, const char *what, const char *whole_name, int64_t whole,
                                const char *path, struct error *error)
{
    char named[PLAN_LAYER_TEXT_BYTES];
    if (whole % layer->tensor == 0) {
        return STATUS_OK;
    }
    snprintf(named, sizeof named, "%s: tensor", what);
    return plan_refuse_divisor(path, named, layer->tensor, whole_name, whole, error);
}

/* tensor * data are the devices of a stage. */
static enum status check_product(const struct plan *plan, const struct plan_layer *layer, const char *what,
                                 const char *path, struct error *error)
{
    int64_t group = plan->tensor * plan->data;
    if (layer->tensor < 1 || layer->data < 1 || layer->tensor > PLAN_DEGREE_MAX || layer->data > PLAN_DEGREE_MAX) {
        return REFUSE(error, path, "%s: tensor %" PRId64 ", data %" PRId64 ": allowed are 1 to %" PRId64, what,
                      layer->tensor, layer->data, PLAN_DEGREE_MAX);
    }
    TRY(check_tensor(layer, what, "the devices of a stage", group, path, error));
    if (layer->tensor * layer->data != group) {
        return REFUSE(error, path,
                      "%s: tensor %" PRId64 " x data %" PRId64 " = %" PRId64 ", but a stage has %" PRId64
                      " devices (parallel.tensor %" PRId64 " x parallel.data %" PRId64 "); with tensor %" PRId64
                      " data must be %" PRId64,
                      what, layer->tensor, layer->data, layer->tensor * layer->data, group, plan->tensor, plan->data,
                      layer->tensor, group / layer->tensor);
    }
    return STATUS_OK;
}

enum status plan_layer_check(const struct plan *plan, const struct model *model, const struct plan_layer *layer,
                             const char *what, const char *path, struct error *error)
{
    int64_t t = layer->tensor, samples = plan->micro_batch * plan->data;
    TRY(check_product(plan, layer, what, path, error));
    if (layer->zero_stage < 0 || layer->zero_stage > 3) {
        return REFUSE(error, path, "%s: zero_stage is %" PRId64 ": allowed is 0 to 3", what, layer->zero_stage);
    }
    TRY(check_tensor(layer, what, "the model's heads", model->heads, path, error));
    TRY(check_tensor(layer, what, "the model's ffn", model->ffn, path, error));
    if (model->kv_heads % t != 0 && t % model->kv_heads != 0) {
        return REFUSE(error, path,
                      "%s: tensor %" PRId64 " neither divides the model's kv_heads (%" PRId64
                      ") nor is a multiple of them",
                      what, t, model->kv_heads);
    }
    if (plan->sequence_parallel && t > 1 && model->family == MODEL_SWIN) {
        return REFUSE(error, path,
                      "%s: tensor %" PRId64 " under sequence_parallel: %s attends in windows, which it cuts", what, t,
                      model->name);
    }
    if (plan->sequence_parallel && model->family == MODEL_T5 && model->decoder_sequence % t != 0) {
        return REFUSE(error, path,
                      "%s: the decoder's sequence %" PRId64 " is not a multiple of tensor %" PRId64
                      ", which sequence_parallel needs",
                      what, model->decoder_sequence, t);
    }
    if (plan->sequence_parallel && plan->sequence_length % t != 0) {
        return REFUSE(error, path,
                      "%s: sequence_length %" PRId64 " is not a multiple of tensor %" PRId64
                      ", which sequence_parallel needs",
                      what, plan->sequence_length, t);
    }
    if (samples % layer->data != 0) {
        int64_t unit = layer->data / plan_gcd(layer->data, plan->data);
        int64_t below = plan->micro_batch / unit * unit;
        return REFUSE(error, path,
                      "%s: data %" PRId64 " does not divide the %" PRId64
                      " samples of a stage's micro-batch (training.micro_batch %" PRId64 " x parallel.data %" PRId64
                      "); the nearest micro_batch that works is %" PRId64,
                      what, layer->data, samples, plan->micro_batch, plan->data, below > 0 ? below : unit);
    }
    return STATUS_OK;
}

static const char *position_text(const struct model *model, int64_t position, char text[32])
{
    if (position == 0 || position == model->layers + 1) {
        return position == 0 ? "the embedding" : "the head";
    }
    snprintf(text, 32, "layer %" PRId64, position - 1);
    return text;
}

/* Whole samples move between neighbours. */
static enum status check_move(const struct plan *plan, const struct model *model, int64_t position, struct error *error)
{
    struct plan_layer a = plan_layer_at(plan, model, position), b = plan_layer_at(plan, model, position + 1);
    int64_t cells = a.tensor * a.data / plan_move_between(&a, &b).kept;
    if (plan->micro_batch * plan->data % cells == 0) {
        return STATUS_OK;
    }
    char first[32], second[32];
    int64_t unit = cells / plan_gcd(cells, plan->data), below = plan->micro_batch / unit * unit;
    return REFUSE(error, "$.parallel.layers",
                  "between %s and %s samples go over in %" PRId64 " equal parts, but a stage's micro-batch has %" PRId64
                  " (training.micro_batch %" PRId64 " x parallel.data %" PRId64
                  "); the nearest micro_batch that works is %" PRId64,
                  position_text(model, position, first), position_text(model, position + 1, second), cells,
                  plan->micro_batch * plan->data, plan->micro_batch, plan->data, below > 0 ? below : unit);
}

static enum status check_ends(const struct plan *plan, const struct model *model, struct error *error)
{
    if (plan->embedding.tensor != 0) {
        TRY(plan_layer_check(plan, model, &plan->embedding, "the embedding", "$.parallel.embedding", error));
    }
    if (plan->head.tensor == 0) {
        return STATUS_OK;
    }
    TRY(plan_layer_check(plan, model, &plan->head, "the head", "$.parallel.head", error));
    struct plan_layer first = plan_layer_of(plan, model, LAYER_EMBEDDING, 0);
    struct plan_layer last = plan_layer_of(plan, model, LAYER_HEAD, 0);
    if (model->tied_head && !plan_layer_equal(&first, &last)) {
        char a[PLAN_LAYER_TEXT_BYTES], b[PLAN_LAYER_TEXT_BYTES];
        return REFUSE(error, "$.parallel.head",
                      "the head of %s shares the embedding's weights, so it is split alike: the embedding has %s, the "
                      "head %s; leave parallel.head out",
                      model->name, plan_layer_text(&first, a), plan_layer_text(&last, b));
    }
    return STATUS_OK;
}

enum status plan_layers_check(const struct plan *plan, const struct model *model, struct error *error)
{
    if (!plan_is_mixed(plan, model)) {
        return STATUS_OK;
    }
    for (int64_t i = 0; plan->layers != NULL && i < model->layers; i++) {
        char what[32];
        if (i > 0 && plan_layer_equal(&plan->layers[i], &plan->layers[i - 1])) {
            continue;
        }
        TRY(plan_layer_check(plan, model, &plan->layers[i], position_text(model, i + 1, what), "$.parallel.layers",
                             error));
    }
    TRY(check_ends(plan, model, error));
    for (int64_t i = 0; i <= model->layers; i++) {
        TRY(check_move(plan, model, i, error));
    }
    if (strcmp(plan->policy, "resident") != 0) {
        return REFUSE(error, "$.memory_policy",
                      "memory policy \"%s\" takes one split of all layers; layers that are split differently "
                      "(parallel.layers, embedding, head) go with \"resident\"",
                      plan->policy);
    }
    return STATUS_OK;
}

void plan_layers_simplify(struct plan *plan, const struct model *model)
{
    if (plan->stage_replicas != NULL) {
        return; /* goes without `layers` (plan_replicas_check) */
    }
    const struct plan_layer first = plan_layer_at(plan, model, 0);
    if (first.data_consecutive || first.tensor != plan->tensor) {
        return;
    }
    for (int64_t i = 1; i <= model->layers + 1; i++) {
        struct plan_layer layer = plan_layer_at(plan, model, i);
        if (!plan_layer_equal(&layer, &first)) {
            return;
        }
    }
    plan->zero_stage = first.zero_stage;
    plan->layers = NULL;
    plan->embedding = (struct plan_layer){ 0 };
    plan->head = (struct plan_layer){ 0 };
}

/* ---- printing ---- */

static void print_keys(const struct plan_layer *layer, struct json_writer *w)
{
    jw_int(w, "tensor", layer->tensor);
    jw_int(w, "data", layer->data);
    jw_int(w, "zero_stage", layer->zero_stage);
    jw_string(w, "consecutive", layer->data_consecutive ? "data" : "tensor");
}

static void print_end(const char *key, const struct plan_layer *layer, struct json_writer *w)
{
    if (layer->tensor != 0) {
        struct plan_layer printed = normal(*layer);
        jw_object(w, key);
        print_keys(&printed, w);
        jw_end(w);
    }
}

void plan_layers_print(const struct plan *plan, const struct model *model, struct json_writer *w)
{
    if (plan->layers != NULL) {
        jw_array(w, "layers");
        for (int64_t i = 0, run; i < model->layers; i += run) {
            struct plan_layer layer = transformer_layer(plan, i), next = layer;
            for (run = 1; i + run < model->layers; run++) {
                next = transformer_layer(plan, i + run);
                if (!plan_layer_equal(&layer, &next)) {
                    break;
                }
            }
            jw_object(w, NULL);
            jw_int(w, "layers", run);
            print_keys(&layer, w);
            jw_end(w);
        }
        jw_end(w);
    }
    print_end("embedding", &plan->embedding, w);
    print_end("head", &plan->head, w);
}
