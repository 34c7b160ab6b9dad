/* The result as JSON, schema "memwall.result/1" (DESIGN.md section 6). */
#include "sim/base/json_write.h"
#include "sim/base/units.h"
#include "sim/report/host_memory.h"
#include "sim/report/link_kind.h"
#include "sim/report/memory_efficiency.h"
#include "sim/report/result.h"

static void print_devices(struct json_writer *w, const struct result_input *input)
{
    const struct schedule *s = input->schedule;
    jw_array(w, "devices");
    for (uint32_t i = 0; i < s->space_count; i++) {
        const struct sched_space *space = &s->spaces[i];
        const struct space_use *use = &input->timeline->spaces[i];
        uint32_t stage = SCHED_NONE, count = 0;
        for (uint32_t r = 0; r < s->rank_count; r++) {
            if (space->kind == SPACE_DEVICE && s->devices[s->ranks[r].first_device] == space->location) {
                stage = s->ranks[r].stage;
                count = s->ranks[r].device_count;
            }
        }
        jw_object(w, NULL);
        jw_string(w, "name", sched_label(s, space->label));
        if (stage != SCHED_NONE) {
            jw_uint(w, "stage", stage);
        } else {
            jw_null(w, "stage");
        }
        jw_string(w, "space", space_kind_word((enum space_kind)space->kind));
        jw_uint(w, "equal_devices", count > 0 ? count : 1);
        jw_uint(w, "capacity_bytes", space->capacity_bytes);
        jw_uint(w, "peak_bytes", use->peak_bytes);
        jw_uint(w, "peak_reserved_bytes", use->peak_reserved_bytes);
        jw_real(w, "peak_time_s", s_from_ps(use->peak_time_ps));
        if (use->peak_op != SCHED_NONE) {
            char text[160];
            jw_string(w, "peak_op", sched_op_text(s, use->peak_op, text, sizeof text));
        } else {
            jw_null(w, "peak_op");
        }
        jw_object(w, "at_peak");
        for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
            jw_uint(w, buffer_class_word((enum buffer_class)c), use->at_peak_bytes[c]);
        }
        jw_end(w);
        jw_end(w);
    }
    jw_end(w);
}

static void print_times(struct json_writer *w, const char *key, const double *seconds)
{
    jw_object(w, key);
    for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
        jw_real(w, time_class_word((enum time_class)c), seconds[c]);
    }
    jw_end(w);
}

static void print_breakdown(struct json_writer *w, const struct result *result, const struct result_input *input)
{
    jw_array(w, "time_breakdown");
    for (uint32_t i = 0; i < result->stage_count; i++) {
        const struct sched_rank *rank = &input->schedule->ranks[result->stages[i].rank];
        jw_object(w, NULL);
        jw_string(w, "rank", sched_label(input->schedule, rank->label));
        jw_uint(w, "stage", rank->stage);
        /* at the top level: busy time of each kind, hidden or not; the waits as they are */
        for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
            jw_real(w, time_class_word((enum time_class)c), result->stages[i].busy_s[c]);
        }
        print_times(w, "exposed", result->stages[i].exposed_s);
        jw_end(w);
    }
    jw_end(w);
}

static void print_traffic(struct json_writer *w, const struct result *result, const struct result_input *input)
{
    jw_array(w, "traffic");
    for (uint32_t i = 0; i < result->link_count; i++) {
        const struct link_traffic *link = &result->links[i];
        char name[96];
        jw_object(w, NULL);
        jw_string(w, "link", cluster_resource_name(input->cluster, link->resource, name, sizeof name));
        jw_string(w, "kind", link_kind_word(input->cluster, link->resource));
        jw_real(w, "bytes", link->bytes);
        jw_real(w, "busy_fraction", link->busy_fraction);
        jw_real(w, "mean_use_fraction",
                result->step_time_s > 0
                    ? link->bytes / (input->cluster->resources[link->resource].capacity * result->step_time_s)
                    : 0);
        jw_real(w, "capacity_bytes_per_s", input->cluster->resources[link->resource].capacity);
        jw_object(w, "by_class");
        for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
            if (link->class_bytes[c] > 0) {
                jw_real(w, time_class_word((enum time_class)c), link->class_bytes[c]);
            }
        }
        jw_end(w);
        jw_end(w);
    }
    jw_end(w);
}

void result_print_json(const struct result *result, const struct result_input *input, struct strbuf *out)
{
    struct json_writer w = { .out = out };
    char hash[HASH_TEXT_BYTES];
    jw_object(&w, NULL);
    jw_string(&w, "schema", "memwall.result/1");
    jw_string(&w, "name", result->name);
    jw_string(&w, "machine", input->cluster->machine->name);
    if (input->plan != NULL) {
        jw_string(&w, "plan", input->plan);
    }
    jw_string(&w, "executor", input->timeline->executor);
    jw_bool(&w, "emulated", input->timeline->emulated);
    jw_bool(&w, "fits", result->fits);
    if (!result->fits) {
        jw_string(&w, "reason", result->outcome.text != NULL ? result->outcome.text : "");
    }
    jw_real(&w, "step_time_s", result->step_time_s);
    if (result->steps > 1) {
        jw_uint(&w, "steps_in_schedule", result->steps);
    }
    if (input->measured != NULL) {
        jw_object(&w, "measured_step_s");
        jw_real(&w, "median", input->measured->median_s);
        jw_real(&w, "min", input->measured->min_s);
        jw_real(&w, "max", input->measured->max_s);
        jw_uint(&w, "steps", input->measured->count);
        jw_end(&w);
    }
    jw_real(&w, "samples_per_s", result->samples_per_s);
    jw_real(&w, "tokens_per_s", result->tokens_per_s);
    jw_real(&w, "tokens_per_s_per_gpu", result->tokens_per_s_per_gpu);
    jw_real(&w, "model_tflops_per_gpu", result->model_tflops_per_gpu);
    jw_real(&w, "hardware_tflops_per_gpu", result->hardware_tflops_per_gpu);
    if (input->is_elsewhere) { /* the peak is another machine's */
        jw_null(&w, "mfu");
        jw_null(&w, "hfu");
    } else {
        jw_real(&w, "mfu", result->mfu);
        jw_real(&w, "hfu", result->hfu);
    }
    jw_string(&w, "schedule_hash", hash_text(&result->schedule_hash, hash));
    jw_uint(&w, "gpus", input->schedule->gpu_count);
    const struct memory_efficiency efficiency =
        memory_efficiency_of(input->schedule, input->timeline, result->samples_per_s);
    memory_efficiency_print(&efficiency, &w);
    jw_uint(&w, "ops", input->schedule->op_count);
    print_devices(&w, input);
    host_memory_json(result, input, &w);
    print_breakdown(&w, result, input);
    print_traffic(&w, result, input);
    if (result->complete && input->timeline->resources == NULL) {
        jw_string(&w, "traffic_absent", "an executor that measures does not see what its links carry: simulate it");
    }
    jw_array(&w, "bounds");
    for (uint32_t i = 0; i < result->bound_count; i++) {
        jw_object(&w, NULL);
        jw_string(&w, "what", result->bounds[i].what);
        jw_real(&w, "share", result->bounds[i].share);
        jw_string(&w, "advice", result->bounds[i].advice);
        jw_end(&w);
    }
    jw_end(&w);
    if (input->remedies != NULL) {
        remedies_json(input->remedies, &w);
    }
    jw_end(&w);
    strbuf_char(out, '\n');
}
