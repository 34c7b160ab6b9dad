#include "validate/step_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/json.h"
#include "sim/base/units.h"
#include "sim/exec.h"
#include "sim/plan/lower.h"
#include "sim/plan/scenario.h"

static const size_t FILE_BYTES_MAX = 16u << 20;

/* The columns by position, as the file's head names them. */
static const char HEAD[] =
    "id,set,params_b,gpu,gpus,gpus_per_node,tp,dp,pp,micro_batch,global_batch,layers,hidden,heads,seq,vocab,recompute,"
    "schedule,inter_node_gbps,intra_node_GBps,iteration_time_ms";
enum { COLUMNS = 21 };

static bool held_out(const char *id)
{
    uint32_t hash = 2166136261u;
    for (; *id != '\0'; id++) {
        hash = (hash ^ (uint8_t)*id) * 16777619u;
    }
    return (hash >> 16 & 1) != 0;
}

/* Cut a line at its commas. */
static bool cells_of(char *line, char *cells[COLUMNS])
{
    for (int i = 0; i < COLUMNS; i++) {
        cells[i] = line;
        char *comma = strchr(line, ',');
        if ((comma == NULL) != (i == COLUMNS - 1)) {
            return false;
        }
        if (comma != NULL) {
            *comma = '\0';
            line = comma + 1;
        }
    }
    return true;
}

static uint32_t number(const char *cell)
{
    return (uint32_t)strtoul(cell, NULL, 10);
}

static bool row_of(struct step_row *row, char *cells[COLUMNS])
{
    *row = (struct step_row){
        .single_node = strcmp(cells[1], "single") == 0,
        .held_out = held_out(cells[0]),
        .gpus = number(cells[4]),
        .tensor = number(cells[6]),
        .data = number(cells[7]),
        .pipeline = number(cells[8]),
        .micro_batch = number(cells[9]),
        .global_batch = number(cells[10]),
        .layers = number(cells[11]),
        .hidden = number(cells[12]),
        .heads = number(cells[13]),
        .sequence = number(cells[14]),
        .vocab = number(cells[15]),
        .measured_s = strtod(cells[20], NULL) * 1e-3,
    };
    snprintf(row->id, sizeof row->id, "%s", cells[0]);
    return row->gpus > 0 && row->layers > 0 && row->measured_s > 0;
}

enum status step_rows_megatron(const char *path, struct step_row *rows, size_t max, size_t *count, struct error *error)
{
    char *text = NULL, *rest = NULL, *cells[COLUMNS];
    size_t length = 0, line_number = 0;
    enum status status = file_read(path, FILE_BYTES_MAX, &text, &length, error);
    for (char *line = status == STATUS_OK ? strtok_r(text, "\r\n", &rest) : NULL; line != NULL && status == STATUS_OK;
         line = strtok_r(NULL, "\r\n", &rest)) {
        if (++line_number == 1) {
            if (strcmp(line, HEAD) != 0) {
                status = error_set(error, STATUS_BAD_INPUT, "%s: the columns are not those of measured steps", path);
            }
        } else if (*count == max || !cells_of(line, cells) || !row_of(&rows[*count], cells)) {
            status = error_set(error, STATUS_BAD_INPUT, "%s:%zu: not a row, or more than %zu", path, line_number, max);
        } else {
            (*count)++;
        }
    }
    free(text);
    return status;
}

/* A name in quotes, an object as it is. */
static const char *value_text(const char *value, const char *otherwise, char *text, size_t size)
{
    value = value != NULL ? value : otherwise;
    snprintf(text, size, *value == '{' ? "%s" : "\"%s\"", value);
    return text;
}

void step_scenario(const struct step_row *row, const struct step_setup *setup, char *text, size_t size)
{
    char machine[STEP_SCENARIO_BYTES / 4], software[STEP_SCENARIO_BYTES / 4];
    snprintf(
        text, size,
        "{\"schema\":\"memwall.scenario/"
        "1\",\"name\":\"%s\",\"model\":{\"family\":\"gpt\",\"layers\":%u,\"hidden\":%u,\"heads\":%u,"
        "\"ffn\":%u,\"vocab\":%u,\"max_sequence\":%u},\"machine\":%s,\"nodes\":%u,\"gpus\":%u,\"software\":%s,"
        "\"training\":{\"sequence_length\":%u,\"micro_batch\":%u,\"global_batch\":%u,\"precision\":\"fp16\","
        "\"optimizer\":\"adam\"},"
        "\"parallel\":{\"tensor\":%u,\"pipeline\":%u,\"data\":%u,\"pipeline_order\":\"1f1b\"},\"recompute\":\"%s\"}",
        row->id, row->layers, row->hidden, row->heads, 4 * row->hidden, row->vocab, row->sequence,
        value_text(setup->machine, "a100-80gb-hdr800", machine, sizeof machine), (row->gpus + 7) / 8, row->gpus,
        value_text(setup->software, "megatron", software, sizeof software), row->sequence, row->micro_batch,
        row->global_batch, row->tensor, row->pipeline, row->data, setup->recompute != NULL ? setup->recompute : "full");
}

static enum status schedule_of(const struct scenario *scenario, struct schedule *schedule, struct error *error)
{
    struct lower_request request = {
        .model = &scenario->model,
        .cluster = &scenario->cluster,
        .software = &scenario->software,
        .plan = &scenario->plan,
    };
    return lower_schedule(&request, schedule, error);
}

static enum status time_of(const struct scenario *scenario, const struct schedule *schedule, double *step_s,
                           struct error *error)
{
    struct exec_options options = { .cluster = &scenario->cluster, .software = &scenario->software };
    struct timeline timeline = { 0 };
    TRY(exec_sim.run(schedule, &options, &timeline, error));
    const struct step_window window = timeline_step(schedule, &timeline);
    *step_s = timeline.outcome == TIMELINE_DONE ? s_from_ps(window.to_ps - window.from_ps) : 0;
    timeline_free(&timeline);
    return STATUS_OK;
}

enum status step_simulate(const char *text, double *step_s, struct error *error)
{
    struct json_document *document = NULL;
    struct json root;
    struct scenario scenario = { 0 };
    struct schedule schedule = { 0 };
    enum status status = json_parse(&document, text, strlen(text), "measured step", error);
    *step_s = 0;
    if (status != STATUS_OK) {
        return status;
    }
    json_root(document, &root);
    status = scenario_from_json(&scenario, &root, error);
    if (status == STATUS_OK) {
        status = schedule_of(&scenario, &schedule, error);
        if (status == STATUS_OK) {
            status = time_of(&scenario, &schedule, step_s, error);
            schedule_free(&schedule);
        }
        scenario_free(&scenario);
    }
    json_free(document);
    return status;
}
