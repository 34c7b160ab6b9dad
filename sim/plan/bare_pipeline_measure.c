/* Measuring bare pipelines: what a timeline says of one. */
#include <math.h>
#include <stdio.h>

#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/plan/bare_pipeline.h"

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory measuring a bare pipeline");
}

/* The order as the schedule has it: the passes of the row's rank, in issue order. */
static enum status measure_row(const struct bare_pipeline_request *request, const struct schedule *schedule,
                               const struct timeline *timeline, uint32_t row, struct bare_pipeline_result *result,
                               struct error *error)
{
    const struct sched_rank *rank = &schedule->ranks[row];
    struct bare_stage *out = &result->stages[row];
    uint32_t stage = rank->stage;
    struct strbuf text = { 0 };
    int64_t first_ps = INT64_MAX, last_ps = 0, work_ps = 0;
    for (uint32_t i = rank->first_op; i < rank->first_op + rank->op_count; i++) {
        const struct sched_op *op = &schedule->ops[i];
        if (op->opcode != OP_DELAY) {
            continue;
        }
        const struct op_times *times = &timeline->ops[i];
        first_ps = times->start_ps < first_ps ? times->start_ps : first_ps;
        last_ps = times->end_ps > last_ps ? times->end_ps : last_ps;
        work_ps += schedule->works[op->work].fixed_ps;
        if (op->phase == PHASE_RECOMPUTE) {
            continue; /* not a step of the order: it comes with the backward */
        }
        struct order_step step = { .kind = op->phase == PHASE_FORWARD    ? STEP_FORWARD
                                           : op->phase == PHASE_BACKWARD ? STEP_BACKWARD
                                                                         : STEP_BACKWARD_WEIGHT,
                                   .chunk = op->chunk,
                                   .micro_batch = op->micro_batch };
        char word[48];
        strbuf_append(&text, text.length == 0 ? "" : " ");
        strbuf_append(&text, order_step_text(request->order, &request->order_request, stage, &step, word, sizeof word));
    }
    uint64_t peak_bytes = 0;
    for (uint32_t i = 0; i < schedule->space_count; i++) {
        if (schedule->spaces[i].kind == SPACE_DEVICE && schedule->spaces[i].location == row) {
            peak_bytes = timeline->spaces[i].peak_bytes;
        }
    }
    out->stage = stage;
    out->replica = row > 0 && result->stages[row - 1].stage == stage ? result->stages[row - 1].replica + 1 : 0;
    uint32_t chunks_passed =
        request->order_request.virtual_stages / order_copies(request->order); /* by one micro-batch */
    out->peak_activations = (double)peak_bytes / chunks_passed;
    out->weight_versions = order_weight_versions(request->order, &request->order_request, stage);
    out->work = (double)work_ps / (double)BARE_UNIT_PS;
    out->first_start = (double)first_ps / (double)BARE_UNIT_PS;
    out->last_end = (double)last_ps / (double)BARE_UNIT_PS;
    out->order = text.failed ? NULL : arena_text_n(&result->arena, text.text == NULL ? "" : text.text, text.length);
    double bubble = (double)(last_ps - first_ps - work_ps) / (double)BARE_UNIT_PS;
    result->span_bubble = bubble > result->span_bubble ? bubble : result->span_bubble;
    strbuf_free(&text);
    return out->order == NULL ? no_memory(error) : STATUS_OK;
}

enum status bare_pipeline_measure(const struct bare_pipeline_request *request, const struct schedule *schedule,
                                  const struct timeline *timeline, struct bare_pipeline_result *result,
                                  struct error *error)
{
    CHECK(timeline->op_count == schedule->op_count && schedule->rank_count >= request->order_request.stages);
    if (timeline->outcome != TIMELINE_DONE) {
        return error_set(error, STATUS_DEADLOCK, "the pipeline order %s did not run to its end", request->order->name);
    }
    *result = (struct bare_pipeline_result){ .stage_count = schedule->rank_count };
    result->stages = arena_array(&result->arena, struct bare_stage, result->stage_count);
    enum status status = result->stages == NULL ? no_memory(error) : STATUS_OK;
    for (uint32_t s = 0; s < result->stage_count && status == STATUS_OK; s++) {
        status = measure_row(request, schedule, timeline, s, result, error);
        result->makespan = fmax(result->makespan, result->stages[s].last_end);
    }
    if (status == STATUS_OK) {
        status = bare_pipeline_bound_find(request, &result->bound, error);
    }
    if (status == STATUS_OK) {
        status = bare_pipeline_bound_check(&result->bound, result->makespan, error);
    }
    if (status != STATUS_OK) {
        bare_pipeline_result_free(result);
    }
    return status;
}

/* Whether it or a neighbour is of the same stage. */
static bool has_sisters(const struct bare_pipeline_result *result, uint32_t row)
{
    const struct bare_stage *stages = result->stages;
    return stages[row].replica > 0 || (row + 1 < result->stage_count && stages[row + 1].replica > 0);
}

const char *bare_pipeline_row_text(const struct bare_pipeline_result *result, uint32_t row,
                                   char text[BARE_ROW_TEXT_BYTES])
{
    const struct bare_stage *stage = &result->stages[row];
    int length = snprintf(text, BARE_ROW_TEXT_BYTES, "%u", stage->stage);
    if (has_sisters(result, row)) {
        snprintf(text + length, BARE_ROW_TEXT_BYTES - (size_t)length, ".%u", stage->replica);
    }
    return text;
}

void bare_pipeline_replicas_words(const struct bare_pipeline_request *request, struct strbuf *out)
{
    const uint32_t *cut = request->cut_replicas, *replicas = cut != NULL ? cut : request->order_request.replicas;
    for (uint32_t i = 0; replicas != NULL && i < request->order_request.stages; i++) {
        strbuf_printf(out, "%s%u",
                      i > 0         ? ","
                      : cut != NULL ? "; each cut over replicas "
                                    : "; dealt to replicas ",
                      replicas[i]);
    }
}

void bare_pipeline_result_free(struct bare_pipeline_result *result)
{
    arena_free(&result->arena);
    *result = (struct bare_pipeline_result){ 0 };
}

void bare_pipeline_print_json(const struct bare_pipeline_result *result, struct strbuf *out)
{
    struct json_writer w = { .out = out };
    jw_object(&w, NULL);
    jw_real(&w, "makespan", result->makespan);
    jw_object(&w, "lower_bound");
    jw_real(&w, "makespan", result->bound.makespan);
    jw_uint(&w, "stage", result->bound.stage);
    jw_real(&w, "before", result->bound.before);
    jw_real(&w, "work", result->bound.work);
    jw_real(&w, "after", result->bound.after);
    jw_end(&w);
    jw_real(&w, "over_lower_bound", result->makespan / result->bound.makespan - 1);
    jw_real(&w, "span_bubble", result->span_bubble);
    jw_array(&w, "stages");
    bool replicas = result->stages[result->stage_count - 1].stage + 1 < result->stage_count;
    for (uint32_t s = 0; s < result->stage_count; s++) {
        jw_object(&w, NULL);
        if (replicas) {
            jw_uint(&w, "stage", result->stages[s].stage);
            jw_uint(&w, "replica", result->stages[s].replica);
        }
        jw_real(&w, "peak_activations", result->stages[s].peak_activations);
        jw_uint(&w, "weight_versions", result->stages[s].weight_versions);
        jw_string(&w, "order", result->stages[s].order);
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
}
