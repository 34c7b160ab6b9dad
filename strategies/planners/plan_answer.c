/* A planner's answer as JSON. */
#include "strategies/planners/plan_answer.h"

#include <string.h>

#include "sim/base/json_write.h"
#include "sim/base/units.h"
#include "sim/plan/plan_replicas.h"

static const char *parameter_word(const struct plan_answer_input *input, const char *name)
{
    for (uint32_t i = 0; i < input->planner->parameter_count; i++) {
        const struct parameter *parameter = &input->planner->parameters[i];
        if (parameter->type == PARAMETER_WORD && strcmp(parameter->name, name) == 0) {
            return parameter->words[(int)input->parameters->value[i]];
        }
    }
    return NULL;
}

static void print_simulated(struct json_writer *w, const char *key, const struct planner_choice *choice,
                            double budget_bytes)
{
    const struct oracle_result *result = &choice->simulated;
    if (!choice->is_simulated) {
        jw_null(w, key);
        return;
    }
    jw_object(w, key);
    bool ran = result->verdict == ORACLE_RAN;
    jw_bool(w, "fits", oracle_fits(result, budget_bytes));
    if (ran) {
        jw_real(w, "step_time_s", result->step_time_s);
        jw_real(w, "samples_per_s", result->samples_per_s);
        jw_uint(w, "peak_bytes", result->peak_bytes);
        jw_uint(w, "peak_reserved_bytes", result->peak_reserved_bytes);
        if (choice->step_time_s > 0) {
            jw_real(w, "model_over_simulated_time", choice->step_time_s / result->step_time_s);
        }
        if (choice->peak_bytes > 0) {
            jw_real(w, "model_over_simulated_memory", choice->peak_bytes / (double)result->peak_bytes);
        }
    } else if (result->reason[0] != '\0') {
        jw_string(w, "reason", result->reason);
    }
    jw_end(w);
}

/* Runs of layers with one strategy. */
static void print_splits(struct json_writer *w, const struct planner_choice *choice)
{
    jw_array(w, "splits");
    for (uint32_t first = 0, end; first < choice->layer_count; first = end) {
        for (end = first + 1; end < choice->layer_count && strcmp(choice->layers[end], choice->layers[first]) == 0;) {
            end++;
        }
        jw_object(w, NULL);
        jw_uint(w, "layers", end - first);
        jw_string(w, "strategy", choice->layers[first]);
        jw_end(w);
    }
    jw_end(w);
}

/* Null where layers differ: "splits" says it. */
static void print_degree(struct json_writer *w, const char *key, bool differ, int64_t value)
{
    if (differ) {
        jw_null(w, key);
    } else {
        jw_int(w, key, value);
    }
}

static void print_plan_degrees(struct json_writer *w, const struct planner_choice *choice)
{
    const struct plan *plan = &choice->plan;
    bool tensor = false, zero = false;
    for (uint32_t i = 1; plan->layers != NULL && i < choice->layer_count; i++) {
        tensor = tensor || plan->layers[i].tensor != plan->layers[0].tensor;
        zero = zero || plan->layers[i].zero_stage != plan->layers[0].zero_stage;
    }
    const struct plan_layer of_plan = { .tensor = plan->tensor, .data = plan->data, .zero_stage = plan->zero_stage };
    const struct plan_layer *first = plan->layers != NULL ? &plan->layers[0] : &of_plan;
    print_degree(w, "tensor", tensor, first->tensor);
    print_degree(w, "data", tensor || plan->stage_replicas != NULL, first->data);
    plan_replicas_print(plan, w);
    print_degree(w, "micro_batch", tensor, plan->micro_batch * plan->data / first->data);
    jw_int(w, "micro_batches", plan->micro_batches);
    jw_int(w, "virtual_stages", plan->virtual_stages);
    print_degree(w, "zero_stage", zero, first->zero_stage);
    jw_bool(w, "sequence_parallel", plan->sequence_parallel);
    jw_string(w, "pipeline_order", plan->order);
}

static void print_stages(struct json_writer *w, const char *key, const struct planner_stage *stages, uint32_t count)
{
    jw_array(w, key);
    for (uint32_t i = 0; i < count; i++) {
        jw_object(w, NULL);
        jw_int(w, "layers", stages[i].layers);
        jw_real(w, "micro_batch_time_s", stages[i].time_s);
        jw_real(w, "memory_bytes", stages[i].memory_bytes);
        jw_real(w, "leftover_bytes", stages[i].leftover_bytes);
        jw_end(w);
    }
    jw_end(w);
}

/* What the choice is and costs. Simulated figures count where there are some. */
static void print_choice(struct json_writer *w, const struct planner_choice *choice, double budget_bytes)
{
    jw_real(w, "samples_per_s", choice->samples_per_s);
    jw_real(w, "step_time_s", choice->step_time_s);
    jw_real(w, "peak_bytes", choice->peak_bytes);
    jw_int(w, "global_batch", choice->global_batch);
    jw_int(w, "pipeline", choice->pipeline);
    if (choice->has_plan) {
        print_plan_degrees(w, choice);
    }
    print_splits(w, choice);
    print_simulated(w, "simulated", choice, budget_bytes);
}

/* Layers of each stage; where the cost model does not tell stages apart, from the plan, and what is left on the fullest device. */
static void print_layers(struct json_writer *w, const struct planner_choice *choice, double budget_bytes)
{
    bool from_plan = choice->stage_count == 0 && choice->has_plan;
    const struct plan *plan = &choice->plan;
    jw_array(w, "partition");
    for (int64_t i = 0; from_plan && i < plan->pipeline; i++) {
        int64_t layers = 0, stages = plan_model_stages(plan);
        for (int64_t stage = i; stage < stages; stage += plan->pipeline) {
            layers += plan->stage_layers[stage];
        }
        jw_int(w, NULL, layers);
    }
    for (uint32_t i = 0; i < choice->stage_count; i++) {
        jw_int(w, NULL, choice->stages[i].layers);
    }
    jw_end(w);
    jw_array(w, "layers");
    for (uint32_t i = 0; i < choice->layer_count; i++) {
        jw_string(w, NULL, choice->layers[i]);
    }
    jw_end(w);
    jw_array(w, "leftover_mib");
    if (from_plan) {
        jw_real(w, NULL, (budget_bytes - choice->peak_bytes) / MIB);
    }
    for (uint32_t i = 0; i < choice->stage_count; i++) {
        jw_real(w, NULL, choice->stages[i].leftover_bytes / MIB);
    }
    jw_end(w);
}

static void print_list(struct json_writer *w, const char *key, const struct planner_choice *choices, uint32_t count,
                       double budget_bytes)
{
    jw_array(w, key);
    for (uint32_t i = 0; i < count; i++) {
        const struct planner_choice *choice = &choices[i];
        jw_object(w, NULL);
        print_choice(w, choice, budget_bytes);
        if (choice->layer_count > 0) {
            jw_string(w, "first_layer", choice->layers[0]);
        }
        jw_end(w);
    }
    jw_end(w);
}

static void print_search(struct json_writer *w, const struct plan_answer_input *input)
{
    const struct planner_answer *answer = input->answer;
    jw_object(w, "search");
    jw_string(w, "cost_model", answer->cost_model);
    jw_uint(w, "configurations", answer->configurations);
    jw_uint(w, "refused", answer->refused);
    jw_uint(w, "pruned", answer->pruned);
    jw_uint(w, "outrun", answer->outrun);
    jw_uint(w, "screened", answer->screened);
    jw_uint(w, "simulated", answer->simulated);
    jw_real(w, "seconds", input->seconds);
    jw_bool(w, "interrupted", answer->interrupted);
    jw_end(w);
}

static void print_head(struct json_writer *w, const struct plan_answer_input *input)
{
    char text[HASH_TEXT_BYTES];
    struct hash model = plan_model_hash(&input->scenario->model),
                machine = plan_machine_hash(&input->scenario->machine);
    jw_string(w, "schema", "memwall.planning/1");
    jw_string(w, "planner", input->planner->name);
    jw_string(w, "preset", parameter_word(input, "preset"));
    jw_string(w, "space", parameter_word(input, "space"));
    jw_object(w, "parameters");
    parameters_print(input->planner->parameters, input->planner->parameter_count, input->parameters, w);
    jw_end(w);
    jw_string(w, "model", input->scenario->model.name);
    jw_string(w, "model_hash", hash_text(&model, text));
    jw_string(w, "machine", input->scenario->machine.name);
    jw_string(w, "machine_hash", hash_text(&machine, text));
    jw_uint(w, "gpus", input->scenario->cluster.gpus);
}

static void print_unbalanced(struct json_writer *w, const struct planner_result *result)
{
    if (result->unbalanced == NULL) {
        return;
    }
    jw_object(w, "before_balancing");
    jw_real(w, "step_time_s", result->unbalanced_step_time_s);
    jw_real(w, "alpha_t", result->unbalanced_alpha_t);
    jw_real(w, "alpha_m", result->unbalanced_alpha_m);
    if (result->unbalanced_simulated.verdict == ORACLE_RAN) {
        jw_real(w, "simulated_step_time_s", result->unbalanced_simulated.step_time_s);
        jw_uint(w, "simulated_peak_bytes", result->unbalanced_simulated.peak_bytes);
    }
    print_stages(w, "stages", result->unbalanced, result->unbalanced_count);
    jw_end(w);
}

static void print_result(struct json_writer *w, const struct plan_answer_input *input,
                         const struct planner_result *result)
{
    jw_object(w, NULL);
    print_head(w, input);
    jw_real(w, "budget_gib", result->budget_bytes / GIB);
    jw_bool(w, "found", result->found);
    if (result->found) {
        print_choice(w, &result->best, result->budget_bytes);
        print_layers(w, &result->best, result->budget_bytes);
        jw_real(w, "alpha_t", result->best.alpha_t);
        jw_real(w, "alpha_m", result->best.alpha_m);
        print_stages(w, "stages", result->best.stages, result->best.stage_count);
        print_unbalanced(w, result);
    } else {
        jw_null(w, "samples_per_s");
        if (result->smallest_budget_bytes > 0) {
            jw_real(w, "smallest_budget_gib", result->smallest_budget_bytes / GIB);
        } else {
            jw_null(w, "smallest_budget_gib");
        }
    }
    print_list(w, "runners_up", result->runners_up, result->runner_up_count, result->budget_bytes);
    print_list(w, "front", result->front, result->front_count, result->budget_bytes);
    jw_array(w, "reasons");
    for (uint32_t i = 0; i < result->reason_count; i++) {
        jw_string(w, NULL, result->reasons[i]);
    }
    jw_end(w);
    print_search(w, input);
    if (result->found && result->best.has_plan) {
        struct strbuf plan = { 0 };
        plan_print_json(&result->best.plan, &input->scenario->model, &plan);
        w->out->failed = w->out->failed || plan.failed;
        jw_raw(w, "plan", plan.text != NULL ? plan.text : "null");
        strbuf_free(&plan);
    }
    jw_end(w);
}

void plan_answer_json(const struct plan_answer_input *input, struct strbuf *out)
{
    struct json_writer w = { .out = out };
    if (input->is_list) {
        jw_array(&w, NULL);
    }
    for (uint32_t i = 0; i < input->answer->result_count; i++) {
        print_result(&w, input, &input->answer->results[i]);
    }
    if (input->is_list) {
        jw_end(&w);
    }
    strbuf_char(out, '\n');
}
