/* Reading the keys that a scenario and a plan share: training, parallel, recompute, memory_policy, plan, detail, fold. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/schema.h"
#include "sim/plan/layer_drop.h"
#include "sim/plan/order.h"
#include "sim/plan/plan_layers.h"
#include "sim/plan/plan_moves.h"
#include "sim/plan/plan_order.h"
#include "sim/plan/plan_replicas.h"
#include "sim/plan/scenario_keys.h"
#include "strategies/registry.h"

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory reading a plan");
}

static const char *const NAME_KEY[] = { "name", NULL };

static void keep_word(char word[PLAN_WORD_BYTES], const char *name)
{
    snprintf(word, PLAN_WORD_BYTES, "%s", name); /* registered names are short: registry look-up has passed */
}

static enum status read_policy(struct plan *plan, const struct json *root, struct error *error)
{
    struct error inner = { 0 };
    struct json object, at = { 0 };
    const char *name;
    TRY(parameters_read_plug_in(root, "memory_policy", "resident", &name, &object, &at, error));
    const struct memory_policy *policy = registry_policy(name, &inner);
    if (policy == NULL) {
        return json_error(&at, error, "%s", inner.message);
    }
    keep_word(plan->policy, name);
    return parameters_read(policy->parameters, policy->parameter_count, &object, NAME_KEY, &plan->policy_parameters,
                           error);
}

static enum status check_product(const struct plan *plan, const struct json *parallel, const struct json *root,
                                 int64_t gpus, struct error *error)
{
    /* Each degree is at most 2^20, the first three are checked together first, so nothing overflows. */
    int64_t three = plan->tensor * plan->context * plan->pipeline;
    const struct json *at = parallel->node != NULL ? parallel : root;
    if (three > 0 && gpus % three == 0) {
        return json_error(at, error,
                          "tensor %" PRId64 " x context %" PRId64 " x pipeline %" PRId64 " x data %" PRId64
                          " must be the number of gpus, %" PRId64 "; data %" PRId64 " would do",
                          plan->tensor, plan->context, plan->pipeline, plan->data, gpus, gpus / three);
    }
    return json_error(at, error,
                      "tensor %" PRId64 " x context %" PRId64 " x pipeline %" PRId64 " = %" PRId64
                      " does not divide the number of gpus, %" PRId64,
                      plan->tensor, plan->context, plan->pipeline, three, gpus);
}

static enum status read_parallel(struct plan *plan, const struct json *root, int64_t gpus, struct arena *arena,
                                 struct error *error)
{
    const char *const barriers[] = { gradient_barrier_word(BARRIER_BEFORE), gradient_barrier_word(BARRIER_AFTER),
                                     gradient_barrier_word(BARRIER_NONE) };
    size_t barrier;
    struct json p;
    TRY(json_object_optional(root, "parallel", &p, error));
    if (p.node != NULL) {
        TRY(scenario_known_keys(&p, "parallel", error));
    }
    TRY(json_int_or(&p, "tensor", 1, PLAN_DEGREE_MAX, 1, &plan->tensor, error));
    TRY(json_int_or(&p, "context", 1, PLAN_DEGREE_MAX, 1, &plan->context, error));
    TRY(json_int_or(&p, "expert", 1, PLAN_DEGREE_MAX, 1, &plan->expert, error));
    TRY(json_int_or(&p, "pipeline", 1, ORDER_STAGES_MAX, 1, &plan->pipeline, error));
    TRY(json_int_or(&p, "zero_stage", 0, 3, 0, &plan->zero_stage, error));
    TRY(json_word_or(&p, "gradient_barrier", barriers, BARRIER_COUNT, BARRIER_AFTER, &barrier, error));
    plan->gradient_barrier = (enum gradient_barrier)barrier;
    TRY(json_bool_or(&p, "sequence_parallel", false, &plan->sequence_parallel, error));
    TRY(plan_order_read(plan, &p, arena, error));
    const struct pipeline_order *order = plan_order(plan, NULL);
    uint32_t chunks = order != NULL ? order->virtual_stages : 0;
    TRY(json_int_or(&p, "virtual_stages", 1, ORDER_VIRTUAL_STAGES_MAX, chunks != 0 ? chunks : 1, &plan->virtual_stages,
                    error));
    TRY(plan_replicas_read(plan, &p, arena, error));
    if (plan->stage_replicas != NULL) {
        return json_int_or(&p, "data", 1, PLAN_DEGREE_MAX, 1, &plan->data, error);
    }
    /* 2^20 * 2^20 * 2^12 fits, and the plan refuses context > 1 anyway. */
    int64_t three = plan->tensor * plan->context * plan->pipeline;
    int64_t data = gpus > 0 && gpus % three == 0 ? gpus / three : 1;
    TRY(json_int_or(&p, "data", 1, PLAN_DEGREE_MAX, data, &plan->data, error));
    if (gpus > 0 && (gpus % three != 0 || gpus / three != plan->data)) {
        return check_product(plan, &p, root, gpus, error);
    }
    return STATUS_OK;
}

static enum status read_training(struct plan *plan, const struct model *model, const struct json *root,
                                 struct error *error)
{
    static const char *const optimizers[] = { "adam" };
    static const char *const precisions[] = {
#define X(name, word, bytes) word,
        DTYPE_TABLE(X)
#undef X
    };
    struct json t;
    size_t precision, optimizer;
    TRY(json_object_optional(root, "training", &t, error));
    if (t.node != NULL) {
        TRY(scenario_known_keys(&t, "training", error));
    }
    TRY(json_int_or(&t, "sequence_length", 1, (int64_t)1 << 24, model->max_sequence, &plan->sequence_length, error));
    TRY(json_int_or(&t, "micro_batch", 1, (int64_t)1 << 20, 1, &plan->micro_batch, error));
    int64_t together = plan->micro_batch * plan->data;
    int64_t fill = plan->pipeline;
    if (plan->stage_replicas != NULL &&
        plan->replica_sharing == SHARING_DEAL) { /* as many as there are replicas, in equal turns */
        int64_t turn = plan_replicas_multiple(plan->stage_replicas, plan->pipeline),
                each = plan->tensor * plan->context;
        fill = turn > 0 ? (plan_gpus(plan) / each + turn - 1) / turn * turn : fill;
    }
    int64_t batch = together > PLAN_BATCH_MAX / fill ? PLAN_BATCH_MAX : together * fill;
    TRY(json_int_or(&t, "global_batch", 1, PLAN_BATCH_MAX, batch, &plan->global_batch, error));
    TRY(json_word_or(&t, "precision", precisions, DTYPE_COUNT, DTYPE_FP16, &precision, error));
    TRY(json_word_or(&t, "optimizer", optimizers, 1, 0, &optimizer, error));
    TRY(layer_drop_read(plan, &t, error));
    plan->precision = (enum dtype)precision;
    plan->micro_batches = plan->global_batch / together;
    return STATUS_OK;
}

static enum status read_recompute(struct plan *plan, const struct model *model, const struct json *root, bool *listed,
                                  struct arena *arena, struct error *error)
{
    struct json at, item;
    uint8_t mode = RECOMPUTE_NONE;
    *listed = false;
    plan->recompute = arena_array(arena, uint8_t, (size_t)model->layers);
    if (plan->recompute == NULL) {
        return no_memory(error);
    }
    TRY(json_any_optional(root, "recompute", &at, error));
    if (at.node != NULL && json_type(&at) == JSON_ARRAY) {
        *listed = true;
        if (json_count(&at) != (size_t)model->layers) {
            return json_error(&at, error,
                              "%zu modes for the %" PRId64 " layers of %s: give one for each, or one word for all",
                              json_count(&at), model->layers, model->name);
        }
        for (size_t i = 0; i < (size_t)model->layers; i++) {
            json_item(&at, i, &item);
            TRY(plan_recompute_mode(&item, &plan->recompute[i], error));
        }
        return STATUS_OK;
    }
    if (at.node != NULL && json_type(&at) != JSON_STRING) {
        return json_error(&at, error, "expected none, selective, full, or a list of these for every layer; found %s",
                          json_type_word(json_type(&at)));
    }
    if (at.node != NULL) {
        TRY(plan_recompute_mode(&at, &mode, error));
    }
    memset(plan->recompute, mode, (size_t)model->layers);
    return STATUS_OK;
}

/* Equal stages cannot be made: say which numbers of stages could. */
static enum status refuse_uneven(const struct plan *plan, const struct model *model, const struct json *root,
                                 int64_t stages, struct error *error)
{
    struct json parallel, at;
    TRY(json_object_optional(root, "parallel", &parallel, error));
    TRY(json_any_optional(&parallel, "pipeline", &at, error));
    char allowed[160] = "";
    int64_t unit = stages / plan->pipeline > 0 ? stages / plan->pipeline : 1;
    for (int64_t p = 1; p * unit <= model->layers; p++) {
        if (model->layers % (p * unit) == 0 && strlen(allowed) < sizeof allowed - 24) {
            snprintf(allowed + strlen(allowed), sizeof allowed - strlen(allowed), "%s%" PRId64, allowed[0] ? ", " : "",
                     p);
        }
    }
    return json_error(
        at.node != NULL ? &at : root, error,
        "the %" PRId64 " layers of %s do not divide evenly into pipeline %" PRId64 " x virtual_stages %" PRId64
        " = %" PRId64 " stages: allowed pipelines here are %s; or say the layers of each stage in plan.stage_layers%s",
        model->layers, model->name, plan->pipeline, plan->virtual_stages, stages, allowed[0] ? allowed : "none",
        stages > model->layers ? " (a stage without layers is not allowed)" : "");
}

static enum status read_stages(struct plan *plan, const struct model *model, const struct json *root,
                               struct arena *arena, struct error *error)
{
    struct json section, list, item;
    int64_t stages = plan_model_stages(plan);
    TRY(json_object_optional(root, "plan", &section, error));
    if (section.node != NULL) {
        TRY(scenario_known_keys(&section, "plan", error));
    }
    TRY(json_array_optional(&section, "stage_layers", &list, error));
    if (list.node == NULL && model->layers % stages != 0) {
        return refuse_uneven(plan, model, root, stages, error);
    }
    if (list.node != NULL && json_count(&list) != (size_t)stages) {
        bool copies = stages < plan->pipeline * plan->virtual_stages;
        return json_error(
            &list, error, "%zu stages: pipeline %" PRId64 " x virtual_stages %" PRId64 "%s makes %" PRId64,
            json_count(&list), plan->pipeline, plan->virtual_stages, copies ? " / 2 copies of the model" : "", stages);
    }
    plan->stage_layers = arena_array(arena, int64_t, (size_t)stages);
    if (plan->stage_layers == NULL) {
        return no_memory(error);
    }
    for (int64_t i = 0; i < stages; i++) {
        plan->stage_layers[i] = model->layers / stages;
        if (list.node != NULL) {
            json_item(&list, (size_t)i, &item);
            TRY(json_as_int(&item, 0, model->layers, &plan->stage_layers[i], error));
        }
    }
    return plan_moves_read(plan, model, &section, arena, error);
}

/* Its times are those of the stages' layers. */
static enum status schedule_auto(struct plan *plan, const struct model *model, const struct json *root,
                                 struct arena *arena, struct error *error)
{
    struct json parallel;
    TRY(json_object_optional(root, "parallel", &parallel, error));
    TRY(read_stages(plan, model, root, arena, error));
    TRY(plan_check_stages(plan, model, error));
    return plan_order_schedule(plan, &parallel, arena, error);
}

/* plan_check knows paths, not files: follow "$.a.b[2]" from the root for the file and the line; of the longest part that exists. */
static void locate(const struct json *root, struct error *error)
{
    if (error == NULL || error->file[0] != '\0') {
        return;
    }
    struct json levels[8] = { *root };
    unsigned depth = 0;
    const char *at = error->path + (error->path[0] == '$');
    while (*at == '.' && depth + 1 < sizeof levels / sizeof levels[0] && json_type(&levels[depth]) == JSON_OBJECT) {
        char key[64];
        size_t length = strcspn(at + 1, ".[");
        snprintf(key, sizeof key, "%.*s", (int)(length < sizeof key ? length : sizeof key - 1), at + 1);
        if (json_any_optional(&levels[depth], key, &levels[depth + 1], NULL) != STATUS_OK ||
            levels[depth + 1].node == NULL) {
            break;
        }
        depth++;
        at += 1 + length;
    }
    snprintf(error->file, sizeof error->file, "%s", json_file(root));
    error->line = json_line(&levels[depth]);
}

enum status plan_read(struct plan *plan, const struct model *model, const struct json *root, int64_t gpus,
                      struct arena *arena, struct error *error)
{
    static const char *const details[] = { "op", "layer", "stage" };
    size_t detail;
    bool recompute_listed;
    *plan = (struct plan){ 0 };
    TRY(read_parallel(plan, root, gpus, arena, error));
    TRY(read_training(plan, model, root, error));
    TRY(read_recompute(plan, model, root, &recompute_listed, arena, error));
    TRY(plan_layers_read(plan, model, root, recompute_listed, arena, error));
    TRY(read_policy(plan, root, error));
    TRY(json_word_or(root, "detail", details, 3, DETAIL_LAYER, &detail, error));
    TRY(json_bool_or(root, "fold", true, &plan->fold, error));
    plan->detail = (enum plan_detail)detail;
    enum status status = STATUS_OK;
    if (strcmp(plan->order, "auto") == 0 && plan->micro_batches > 0) {
        status = schedule_auto(plan, model, root, arena, error);
    }
    if (status == STATUS_OK && gpus > 0) {
        status = plan_replicas_check_gpus(plan, gpus, error);
    }
    if (status == STATUS_OK) {
        status = plan_check(plan, model, error); /* degrees first: the number of stages depends on them */
    }
    if (status == STATUS_OK) {
        TRY(read_stages(plan, model, root, arena, error));
        status = plan_check(plan, model, error);
    }
    if (status != STATUS_OK) {
        locate(root, error);
    }
    return status;
}

enum status plan_from_json(struct plan *plan, const struct model *model, const struct json *value, struct arena *arena,
                           struct error *error)
{
    static const char *const keys[] = { "schema", "model",         "training", "parallel", "recompute",
                                        "plan",   "memory_policy", "detail",   "fold",     "origin" };
    TRY(schema_check(value, "memwall.plan/1", true, error));
    TRY(json_known_keys(value, keys, sizeof keys / sizeof keys[0], error));
    return plan_read(plan, model, value, 0, arena, error);
}
