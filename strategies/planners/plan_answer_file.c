/* Plan files: identity, writing, loading. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw_models/kernel_constants.h"
#include "sim/base/check.h"
#include "sim/base/json.h"
#include "sim/base/json_write.h"
#include "sim/base/schema.h"
#include "sim/plan/plan_replicas.h"
#include "strategies/planners/plan_answer.h"

enum { PLAN_FILE_BYTES_MAX = 4 << 20 };

/* ---- identity ---- */

struct hash plan_model_hash(const struct model *model)
{
    struct hash hash = hash_start();
    plan_hash_model(model, &hash);
    return hash;
}

static void hash_curves(const struct machine *machine, struct hash *hash)
{
    for (uint32_t i = 0; i < machine->curve_count; i++) {
        const struct machine_collective_curve *curve = &machine->curves[i];
        hash_u64(hash, curve->kind);
        hash_u64(hash, curve->ranks);
        hash_u64(hash, curve->nodes);
        for (int power = 10; power <= 32; power += 2) { /* 1 KiB .. 4 GiB */
            hash_double(hash, curve_at(&curve->curve, ldexp(1, power)));
        }
    }
}

static void hash_kernel_model(const struct machine_gpu *gpu, struct hash *hash)
{
    for (int d = 0; d < DTYPE_COUNT; d++) {
        for (int c = 0; gpu->gemm[d].present && c < GEMM_CONSTANT_COUNT; c++) {
            hash_double(hash, gpu->gemm[d].values[c]);
        }
    }
    for (int c = 0; c < KERNEL_CLASS_COUNT; c++) {
        hash_double(hash, gpu->class_efficiency[c]);
    }
    hash_double(hash, gpu->attention_forward_efficiency);
    hash_double(hash, gpu->attention_backward_efficiency);
    hash_double(hash, gpu->attention_forward_tail);
    hash_double(hash, gpu->attention_backward_tail);
    hash_double(hash, gpu->attention_tile);
}

struct hash plan_machine_hash(const struct machine *machine)
{
    struct hash hash = hash_start();
    for (uint32_t i = 0; i < machine_field_count(); i++) {
        struct machine_field_value value;
        machine_field_get(machine, i, &value);
        hash_text_field(&hash, value.key);
        if (value.text != NULL) {
            hash_text_field(&hash, value.text);
        } else {
            hash_double(&hash, value.value);
        }
    }
    hash_u64(&hash, machine->gpu_count);
    for (uint32_t i = 0; i < machine->part_count; i++) {
        hash_u64(&hash, machine->parts[i].kind);
        hash_text_field(&hash, machine->parts[i].id);
        hash_double(&hash, machine->parts[i].capacity_bytes);
    }
    for (uint32_t i = 0; i < machine->link_count; i++) {
        const struct machine_link *link = &machine->links[i];
        hash_u64(&hash, (uint64_t)link->kind << 48 | (uint64_t)link->a << 24 | link->b);
        hash_double(&hash, link->bytes_per_s);
        hash_double(&hash, link->back_bytes_per_s);
        hash_double(&hash, link->latency_s);
    }
    hash_kernel_model(&machine->gpu, &hash);
    hash_curves(machine, &hash);
    return hash;
}

/* ---- writing ---- */

void plan_file_print(const struct scenario *scenario, const struct plan *chosen, const struct plan_origin *origin,
                     struct strbuf *out)
{
    struct strbuf plan = { 0 };
    plan_print_json(chosen, &scenario->model, &plan);
    if (plan.failed) {
        out->failed = true;
        strbuf_free(&plan);
        return;
    }
    size_t end = plan.length; /* the plan's own text up to its last brace, then one more key */
    while (end > 0 && plan.text[end - 1] != '}') {
        end--;
    }
    CHECK(end > 0);
    end--;
    while (end > 0 && (plan.text[end - 1] == '\n' || plan.text[end - 1] == ' ')) {
        end--;
    }
    char text[HASH_TEXT_BYTES];
    struct hash model = plan_model_hash(&scenario->model), machine = plan_machine_hash(&scenario->machine);
    strbuf_append_n(out, plan.text, end);
    strbuf_append(out, ",\n \"origin\": ");
    struct json_writer w = { .out = out, .compact = true };
    jw_object(&w, NULL);
    jw_string(&w, "planner", origin->planner);
    jw_string(&w, "model_hash", hash_text(&model, text));
    jw_string(&w, "machine", scenario->machine.name);
    jw_string(&w, "machine_hash", hash_text(&machine, text));
    if (origin->budget_bytes > 0) {
        jw_real(&w, "budget_bytes", origin->budget_bytes);
        jw_real(&w, "step_time_s", origin->step_time_s);
    }
    jw_array(&w, "reasons");
    for (uint32_t i = 0; i < origin->reason_count; i++) {
        jw_string(&w, NULL, origin->reasons[i]);
    }
    jw_end(&w);
    jw_end(&w);
    strbuf_append(out, "\n}\n");
    strbuf_free(&plan);
}

void plan_answer_file(const struct plan_answer_input *input, const struct planner_result *result, struct strbuf *out)
{
    const struct planner_choice *best = &result->best;
    CHECK(result->found && best->has_plan);
    const struct plan_origin origin = { .planner = input->planner->name,
                                        .budget_bytes = result->budget_bytes,
                                        .step_time_s =
                                            best->is_simulated ? best->simulated.step_time_s : best->step_time_s,
                                        .reasons = result->reasons,
                                        .reason_count = result->reason_count };
    plan_file_print(input->scenario, &best->plan, &origin, out);
}

/* ---- loading ---- */

bool plan_answer_takes_set(const char *set)
{
    static const char *const heads[] = {
        "training", "parallel", "recompute", "memory_policy", "plan", "detail", "fold"
    };
    size_t length = strcspn(set, ".=");
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        if (strlen(heads[i]) == length && strncmp(set, heads[i], length) == 0) {
            return true;
        }
    }
    return false;
}

static enum status check_hash(const struct json *origin, const char *key, const struct hash *mine, const char *what,
                              const char *theirs, const char *name, struct error *error)
{
    const char *found;
    char text[HASH_TEXT_BYTES];
    struct json at;
    TRY(json_string_or(origin, key, "", &found, error));
    if (found[0] == '\0' || strcmp(found, hash_text(mine, text)) == 0) {
        return STATUS_OK;
    }
    TRY(json_any(origin, key, &at, error));
    return json_error(
        &at, error,
        "the plan was made for another %s (%s, hash %.12s...) than the scenario's (%s, hash %.12s...): plan "
        "anew, or take \"origin\" out if it is meant",
        what, theirs, found, name, text);
}

static enum status check_origin(const struct scenario *scenario, const struct json *root, struct error *error)
{
    static const char *const keys[] = { "planner",      "model_hash",  "machine", "machine_hash",
                                        "budget_bytes", "step_time_s", "reasons" };
    struct json origin, at;
    const char *model, *machine;
    struct hash model_hash = plan_model_hash(&scenario->model), machine_hash = plan_machine_hash(&scenario->machine);
    TRY(json_string_or(root, "model", scenario->model.name, &model, error));
    TRY(json_object_optional(root, "origin", &origin, error));
    if (origin.node == NULL) {
        if (strcmp(model, scenario->model.name) != 0) {
            TRY(json_any(root, "model", &at, error));
            return json_error(&at, error, "the plan is for model \"%.64s\", the scenario's is \"%s\"", model,
                              scenario->model.name);
        }
        return STATUS_OK;
    }
    TRY(json_known_keys(&origin, keys, sizeof keys / sizeof keys[0], error));
    TRY(json_string_or(&origin, "machine", "?", &machine, error));
    TRY(check_hash(&origin, "model_hash", &model_hash, "model", model, scenario->model.name, error));
    return check_hash(&origin, "machine_hash", &machine_hash, "machine", machine, scenario->machine.name, error);
}

static enum status check_gpus(const struct scenario *scenario, const struct plan *plan, const struct json *root,
                              struct error *error)
{
    struct json at;
    int64_t gpus = plan_gpus(plan);
    if (gpus == (int64_t)scenario->cluster.gpus) {
        return STATUS_OK;
    }
    if (plan->stage_replicas != NULL) {
        return plan_replicas_check_gpus(plan, (int64_t)scenario->cluster.gpus, error);
    }
    TRY(json_any_optional(root, "parallel", &at, error));
    return json_error(at.node != NULL ? &at : root, error,
                      "the plan is for %" PRId64 " GPUs (tensor %" PRId64 " x context %" PRId64 " x pipeline %" PRId64
                      " x data %" PRId64 "), the scenario has %" PRIu32,
                      gpus, plan->tensor, plan->context, plan->pipeline, plan->data, scenario->cluster.gpus);
}

static enum status load(struct scenario *scenario, struct json_document *document, struct error *error)
{
    struct json root;
    struct plan plan;
    json_root(document, &root);
    TRY(schema_check(&root, "memwall.plan/1", true, error));
    TRY(check_origin(scenario, &root, error));
    TRY(plan_from_json(&plan, &scenario->model, &root, &scenario->arena, error));
    TRY(check_gpus(scenario, &plan, &root, error));
    if (!(scenario->machine.gpu.peak_flops[plan.precision] > 0)) {
        return json_error(&root, error, "the GPU %s does not compute in %s", scenario->machine.gpu.model,
                          dtype_word(plan.precision));
    }
    scenario->plan = plan;
    return STATUS_OK;
}

enum status plan_answer_load(struct scenario *scenario, const char *file, const char *const *sets, uint32_t set_count,
                             struct error *error)
{
    struct json_document *document = NULL;
    TRY(json_load(&document, file, PLAN_FILE_BYTES_MAX, error));
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < set_count && status == STATUS_OK; i++) {
        status = plan_answer_takes_set(sets[i]) ? scenario_set(document, sets[i], error) : STATUS_OK;
    }
    if (status == STATUS_OK) {
        status = load(scenario, document, error);
    }
    json_free(document);
    return status;
}
