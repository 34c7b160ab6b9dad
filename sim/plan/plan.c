/* Checking, printing and hashing plans. Reading is plan_read.c. */
#include "sim/plan/plan.h"

#include <inttypes.h>
#include <stdio.h>

#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/plan/layer_drop.h"
#include "sim/plan/order.h"
#include "sim/plan/plan_layers.h"
#include "sim/plan/plan_moves.h"
#include "sim/plan/plan_order.h"
#include "sim/plan/plan_replicas.h"
#include "strategies/registry.h"

const char *recompute_word(enum recompute_mode mode)
{
    static const char *const words[RECOMPUTE_MODE_COUNT] = { "none", "selective", "full" };
    CHECK((unsigned)mode < RECOMPUTE_MODE_COUNT);
    return words[mode];
}

const char *gradient_barrier_word(enum gradient_barrier barrier)
{
    static const char *const words[BARRIER_COUNT] = { "before", "after", "none" };
    CHECK((unsigned)barrier < BARRIER_COUNT);
    return words[barrier];
}

const char *plan_detail_word(enum plan_detail detail)
{
    static const char *const words[] = { "op", "layer", "stage" };
    CHECK((unsigned)detail <= DETAIL_STAGE);
    return words[detail];
}

int64_t plan_model_stages(const struct plan *plan)
{
    const struct pipeline_order *order = plan_order(plan, NULL);
    return plan->pipeline * plan->virtual_stages / (order != NULL ? order_copies(order) : 1);
}

#define REFUSE(error, path, ...) error_at(error, STATUS_BAD_INPUT, NULL, path, __VA_ARGS__)

enum status plan_refuse_divisor(const char *path, const char *what, int64_t degree, const char *whole_name,
                                int64_t whole, struct error *error)
{
    int64_t below = degree < whole ? degree : whole, above = degree + 1;
    while (whole % below != 0) {
        below--;
    }
    while (above <= whole && above <= PLAN_DEGREE_MAX && whole % above != 0) {
        above++;
    }
    if (above > whole || above > PLAN_DEGREE_MAX) {
        return REFUSE(error, path, "%s %" PRId64 " does not divide %s (%" PRId64 "); the nearest that does is %" PRId64,
                      what, degree, whole_name, whole, below);
    }
    return REFUSE(error, path,
                  "%s %" PRId64 " does not divide %s (%" PRId64 "); the nearest that do are %" PRId64 " and %" PRId64,
                  what, degree, whole_name, whole, below, above);
}

int64_t plan_gcd(int64_t a, int64_t b)
{
    CHECK(a > 0 && b > 0);
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static enum status check_divides(const char *path, const char *what, int64_t degree, const char *whole_name,
                                 int64_t whole, struct error *error)
{
    return whole % degree == 0 ? STATUS_OK : plan_refuse_divisor(path, what, degree, whole_name, whole, error);
}

static enum status check_sequence(const struct plan *plan, const struct model *model, struct error *error)
{
    const char *path = "$.training.sequence_length";
    if ((model->family == MODEL_VIT || model->family == MODEL_SWIN) && plan->sequence_length != model->max_sequence) {
        return REFUSE(error, path,
                      "sequence_length is %" PRId64 ": the images of %s make sequences of exactly %" PRId64,
                      plan->sequence_length, model->name, model->max_sequence);
    }
    if (model->positions == MODEL_LEARNED_POSITIONS && plan->sequence_length > model->max_sequence) {
        return REFUSE(error, path, "sequence_length is %" PRId64 ": %s has learned positions for at most %" PRId64,
                      plan->sequence_length, model->name, model->max_sequence);
    }
    if (model->family == MODEL_SWIN && plan->sequence_parallel && plan->tensor > 1) {
        return REFUSE(
            error, "$.parallel.sequence_parallel",
            "true: %s attends in windows, and sequence parallelism, which cuts them, is not modelled: allowed "
            "is false",
            model->name);
    }
    if (model->family == MODEL_T5 && plan->sequence_parallel && model->decoder_sequence % plan->tensor != 0) {
        return REFUSE(error, "$.parallel.sequence_parallel",
                      "true: the decoder's sequence of %s has %" PRId64
                      " tokens, no multiple of parallel.tensor (%" PRId64
                      "): allowed is false, or a tensor that divides it",
                      model->name, model->decoder_sequence, plan->tensor);
    }
    if (plan->sequence_parallel && plan->tensor > 1 && plan->sequence_length % plan->tensor != 0) {
        return REFUSE(error, path,
                      "sequence_length %" PRId64 " is not a multiple of parallel.tensor (%" PRId64
                      "), which sequence_parallel needs; the nearest below is %" PRId64,
                      plan->sequence_length, plan->tensor, plan->sequence_length / plan->tensor * plan->tensor);
    }
    return STATUS_OK;
}

static enum status check_degrees(const struct plan *plan, const struct model *model, struct error *error)
{
    TRY(check_divides("$.parallel.tensor", "tensor", plan->tensor, "the model's heads", model->heads, error));
    TRY(check_divides("$.parallel.tensor", "tensor", plan->tensor, "the model's ffn", model->ffn, error));
    if (model->kv_heads % plan->tensor != 0 && plan->tensor % model->kv_heads != 0) {
        return REFUSE(error, "$.parallel.tensor",
                      "tensor %" PRId64 " neither divides the model's kv_heads (%" PRId64 ") nor is a multiple of them",
                      plan->tensor, model->kv_heads);
    }
    if (plan->context != 1) {
        return REFUSE(error, "$.parallel.context",
                      "context is %" PRId64 ": context parallelism is not modelled yet, allowed is 1", plan->context);
    }
    if (plan->expert != 1) {
        return REFUSE(error, "$.parallel.expert", "expert is %" PRId64 ": %s has no experts, allowed is 1",
                      plan->expert, model->name);
    }
    return STATUS_OK;
}

/* The most replicas that the batch feeds, if the rest of them became tensor or pipeline degree; 0: none. */
static int64_t data_that_divides(const struct plan *plan)
{
    int64_t data = plan->data;
    while (data > 0 && (plan->data % data != 0 || plan->global_batch % (data * plan->micro_batch) != 0)) {
        data--;
    }
    return data;
}

static enum status check_batch(const struct plan *plan, struct error *error)
{
    int64_t together = plan->data * plan->micro_batch;
    if (plan->global_batch % together != 0) {
        int64_t below = plan->global_batch / together * together, data = data_that_divides(plan);
        char nearest[96], fewer[128] = "";
        if (below > 0) {
            snprintf(nearest, sizeof nearest, "the nearest are %" PRId64 " and %" PRId64, below, below + together);
        } else {
            snprintf(nearest, sizeof nearest, "the smallest is %" PRId64, together);
        }
        if (data > 0) {
            snprintf(fewer, sizeof fewer,
                     "; or %" PRId64 " times the tensor or pipeline degree, which leaves data %" PRId64,
                     plan->data / data, data);
        }
        return REFUSE(error, "$.training.global_batch",
                      "global_batch %" PRId64 " is not a multiple of data x micro_batch = %" PRId64 " x %" PRId64
                      " = %" PRId64 "; %s%s",
                      plan->global_batch, plan->data, plan->micro_batch, together, nearest, fewer);
    }
    if (plan->micro_batches != plan->global_batch / together || plan->micro_batches > ORDER_MICRO_BATCHES_MAX) {
        return REFUSE(error, "$.training.global_batch",
                      "%" PRId64
                      " micro-batches a step on each pipeline: allowed is 1 to %d; raise micro_batch or data",
                      plan->global_batch / together, ORDER_MICRO_BATCHES_MAX);
    }
    return STATUS_OK;
}

/* The global batch nearest to the plan's whose micro-batches the order takes; 0: none within reach. */
static int64_t nearest_batch(const struct plan *plan, const struct pipeline_order *order,
                             const struct order_request *request)
{
    struct order_request other = *request;
    uint32_t reach = 4 * request->stages;
    for (uint32_t away = 1; away <= reach; away++) {
        for (int below = 0; below < 2; below++) {
            if (below && request->micro_batches <= away) {
                continue;
            }
            other.micro_batches = below ? request->micro_batches - away : request->micro_batches + away;
            if (order_check(order, &other, NULL) == STATUS_OK) {
                return (int64_t)other.micro_batches * plan->data * plan->micro_batch;
            }
        }
    }
    return 0;
}

static enum status check_order(const struct plan *plan, struct error *error)
{
    struct error inner = { 0 };
    const struct pipeline_order *order = plan_order(plan, &inner);
    if (order == NULL) {
        return REFUSE(error, "$.parallel.pipeline_order", "%s", inner.message);
    }
    const struct order_request request = plan_order_request(plan);
    if (plan->pipeline > ORDER_STAGES_MAX) {
        return REFUSE(error, "$.parallel.pipeline", "pipeline is %" PRId64 ": allowed is 1 to %d", plan->pipeline,
                      ORDER_STAGES_MAX);
    }
    if (plan->virtual_stages > ORDER_VIRTUAL_STAGES_MAX ||
        (order->virtual_stages != 0 && plan->virtual_stages != order->virtual_stages)) {
        return REFUSE(error, "$.parallel.virtual_stages",
                      "virtual_stages is %" PRId64 ": pipeline_order \"%s\" allows %s%" PRIu32, plan->virtual_stages,
                      order->name, order->virtual_stages != 0 ? "only " : "1 to ",
                      order->virtual_stages != 0 ? order->virtual_stages : ORDER_VIRTUAL_STAGES_MAX);
    }
    TRY(plan_order_check_size(plan, error));
    if (order_check(order, &request, &inner) != STATUS_OK) {
        int64_t batch = nearest_batch(plan, order, &request);
        char mend[80] = "";
        if (batch > 0) {
            snprintf(mend, sizeof mend, ": training.global_batch %" PRId64 " would do", batch);
        }
        return REFUSE(error, "$.parallel.pipeline_order", "%s%s", inner.message, mend);
    }
    if (registry_policy(plan->policy, &inner) == NULL) {
        return REFUSE(error, "$.memory_policy", "%s", inner.message);
    }
    return STATUS_OK;
}

enum status plan_check_stages(const struct plan *plan, const struct model *model, struct error *error)
{
    int64_t stages = plan_model_stages(plan), sum = 0;
    for (int64_t i = 0; i < stages; i++) {
        char path[64];
        snprintf(path, sizeof path, "$.plan.stage_layers[%" PRId64 "]", i);
        if (plan->stage_layers[i] < 1 || plan->stage_layers[i] > model->layers) {
            return REFUSE(error, path,
                          "stage %" PRId64 " has %" PRId64 " layers: every stage needs at least 1, and %s has %" PRId64,
                          i, plan->stage_layers[i], model->name, model->layers);
        }
        sum += plan->stage_layers[i];
    }
    if (sum != model->layers) {
        return REFUSE(error, "$.plan.stage_layers", "the stages hold %" PRId64 " layers together, %s has %" PRId64, sum,
                      model->name, model->layers);
    }
    return STATUS_OK;
}

static enum status check_recompute(const struct plan *plan, const struct model *model, struct error *error)
{
    for (int64_t i = 0; i < model->layers; i++) {
        if (plan->recompute[i] >= RECOMPUTE_MODE_COUNT) {
            return REFUSE(error, "$.recompute", "layer %" PRId64 " has the unknown recompute mode %d", i,
                          plan->recompute[i]);
        }
    }
    return STATUS_OK;
}

static enum status check_range(const char *path, int64_t value, int64_t max, struct error *error)
{
    if (value < 1 || value > max) {
        return REFUSE(error, path, "is %" PRId64 ": allowed is 1 to %" PRId64, value, max);
    }
    return STATUS_OK;
}

enum status plan_check(const struct plan *plan, const struct model *model, struct error *error)
{
    TRY(check_range("$.training.sequence_length", plan->sequence_length, (int64_t)1 << 24, error));
    TRY(check_range("$.training.micro_batch", plan->micro_batch, (int64_t)1 << 20, error));
    TRY(check_range("$.training.global_batch", plan->global_batch, PLAN_BATCH_MAX, error));
    TRY(check_range("$.parallel.tensor", plan->tensor, PLAN_DEGREE_MAX, error));
    TRY(check_range("$.parallel.context", plan->context, PLAN_DEGREE_MAX, error));
    TRY(check_range("$.parallel.expert", plan->expert, PLAN_DEGREE_MAX, error));
    TRY(check_range("$.parallel.pipeline", plan->pipeline, PLAN_DEGREE_MAX, error));
    TRY(check_range("$.parallel.virtual_stages", plan->virtual_stages, PLAN_DEGREE_MAX, error));
    TRY(check_range("$.parallel.data", plan->data, PLAN_DEGREE_MAX, error));
    TRY(check_sequence(plan, model, error));
    TRY(check_degrees(plan, model, error));
    TRY(plan_replicas_check(plan, error));
    TRY(check_batch(plan, error));
    TRY(layer_drop_check(plan, model, error));
    TRY(check_order(plan, error));
    TRY(plan_layers_check(plan, model, error));
    TRY(plan_moves_check(plan, model, error));
    if (plan->stage_layers == NULL) {
        return STATUS_OK;
    }
    TRY(plan_check_stages(plan, model, error));
    return check_recompute(plan, model, error);
}

static void print_plug_in(struct json_writer *w, const char *key, const char *name, const struct parameter *table,
                          uint32_t count, const struct parameter_values *values)
{
    jw_object(w, key);
    jw_string(w, "name", name);
    parameters_print(table, count, values, w);
    jw_end(w);
}

/* One word where all layers are alike. */
static void print_recompute(const struct plan *plan, const struct model *model, struct json_writer *w)
{
    int64_t alike = 1;
    while (alike < model->layers && plan->recompute[alike] == plan->recompute[0]) {
        alike++;
    }
    if (alike >= model->layers) {
        jw_string(w, "recompute", recompute_word((enum recompute_mode)plan->recompute[0]));
        return;
    }
    jw_array(w, "recompute");
    for (int64_t i = 0; i < model->layers; i++) {
        jw_string(w, NULL, recompute_word((enum recompute_mode)plan->recompute[i]));
    }
    jw_end(w);
}

void plan_print_json(const struct plan *plan, const struct model *model, struct strbuf *out)
{
    struct json_writer w = { .out = out };
    const struct memory_policy *policy = registry_policy(plan->policy, NULL);
    CHECK(policy != NULL);
    jw_object(&w, NULL);
    jw_string(&w, "schema", "memwall.plan/1");
    jw_string(&w, "model", model->name);
    jw_object(&w, "training");
    jw_int(&w, "sequence_length", plan->sequence_length);
    jw_int(&w, "micro_batch", plan->micro_batch);
    jw_int(&w, "global_batch", plan->global_batch);
    jw_string(&w, "precision", dtype_word(plan->precision));
    jw_string(&w, "optimizer", "adam");
    layer_drop_print(plan, &w);
    jw_end(&w);
    jw_object(&w, "parallel");
    jw_int(&w, "tensor", plan->tensor);
    jw_bool(&w, "sequence_parallel", plan->sequence_parallel);
    jw_int(&w, "context", plan->context);
    jw_int(&w, "expert", plan->expert);
    jw_int(&w, "pipeline", plan->pipeline);
    plan_order_print(plan, &w);
    jw_int(&w, "virtual_stages", plan->virtual_stages);
    jw_int(&w, "data", plan->data);
    plan_replicas_print(plan, &w);
    jw_int(&w, "zero_stage", plan->zero_stage);
    if (plan->gradient_barrier != BARRIER_AFTER) {
        jw_string(&w, "gradient_barrier", gradient_barrier_word(plan->gradient_barrier));
    }
    plan_layers_print(plan, model, &w);
    jw_end(&w);
    print_recompute(plan, model, &w);
    print_plug_in(&w, "memory_policy", plan->policy, policy->parameters, policy->parameter_count,
                  &plan->policy_parameters);
    jw_object(&w, "plan");
    jw_array(&w, "stage_layers");
    for (int64_t i = 0; i < plan_model_stages(plan); i++) {
        jw_int(&w, NULL, plan->stage_layers[i]);
    }
    jw_end(&w);
    plan_moves_print(plan, model, &w);
    jw_end(&w);
    jw_string(&w, "detail", plan_detail_word(plan->detail));
    jw_bool(&w, "fold", plan->fold);
    jw_end(&w);
}

void plan_hash_model(const struct model *model, struct hash *hash)
{
    const int64_t numbers[] = {
        model->family,    model->norm,         model->activation,      model->positions,         model->layers,
        model->hidden,    model->heads,        model->kv_heads,        model->head_size,         model->ffn,
        model->vocab,     model->max_sequence, model->position_rows,   model->segment_types,     model->tied_head,
        model->lm_head,   model->qkv_bias,     model->projection_bias, model->ffn_bias,          model->norm_bias,
        model->head_bias, model->final_norm,   model->causal,          model->parallel_residual, model->pooler,
        model->mlm_head,  model->image_size,   model->patch_size,      model->channels,          model->classes
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        hash_u64(hash, (uint64_t)numbers[i]);
    }
    if (!model_is_uniform(model)) { /* apart, so that the others' identities stay */
        hash_u64(hash, (uint64_t)model->decoder_layers);
        hash_u64(hash, (uint64_t)model->decoder_sequence);
        hash_u64(hash, (uint64_t)model->window);
        for (int stage = 0; stage < MODEL_STAGES; stage++) {
            hash_u64(hash, (uint64_t)model->stage_layers[stage]);
        }
    }
    hash_double(hash, model->dropout);
    hash_double(hash, model->attention_dropout);
}

enum status plan_hash(const struct plan *plan, const struct model *model, struct hash *hash, struct error *error)
{
    struct strbuf text = { 0 };
    plan_print_json(plan, model, &text);
    enum status status = STATUS_OK;
    if (text.failed) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory hashing a plan");
    } else {
        *hash = hash_start();
        hash_bytes(hash, text.text, text.length);
        plan_hash_model(model, hash);
    }
    strbuf_free(&text);
    return status;
}
