/* memwall list: what the library holds, for people and (--json) for programs. */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw_models/machine.h"
#include "hw_models/software.h"
#include "sim/base/check.h"
#include "sim/base/json.h"
#include "sim/base/json_write.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/model/ladder.h"
#include "sim/model/model.h"
#include "sim/plan/scenario.h"
#include "sim/report/text_table.h"
#include "strategies/planners/planner.h"
#include "strategies/registry.h"

static enum exit_code run(int argc, char **argv);

const struct cli_command command_list = {
    .name = "list",
    .usage = "[models|ladders|machines|software|orders|policies|planners|scenarios|parameters] [--json]",
    .summary = "list models, machines, software stacks, strategies, scenario keys",
    .help = "  models      the model library: shapes, exact parameter counts\n"
            "  ladders     models that grow step by step, for memwall fit --models\n"
            "  machines    the machine library: GPUs, links, prices, and where each number comes from (--json)\n"
            "  software    software stacks: host costs, kernels, bytes per parameter\n"
            "  orders      pipeline orders and their parameters\n"
            "  policies    memory policies and their parameters\n"
            "  planners    planners of memwall plan and their parameters (--variant NAME=VALUE)\n"
            "  scenarios   scenario files in ./scenarios, or in the folder named after it\n"
            "  parameters  every key of a scenario with its type and default\n",
    .positional_min = 0,
    .positional_max = 2,
    .run = run,
};

/* What a topic's printer works with: one of `json` and `table` is set. */
struct lister {
    struct json_writer *json;
    struct text_table *table;
    const char *folder; /* of scenarios */
    struct error *error;
};

static void head(struct text_table *table, uint32_t count, uint32_t right, const char *const *names)
{
    table->column_count = count;
    table->right = right;
    for (uint32_t i = 0; i < count; i++) {
        text_table_cell(table, "%s", names[i]);
    }
}

/* ---- models ---- */

static void model_json(struct json_writer *w, const struct model *m)
{
    jw_object(w, NULL);
    jw_string(w, "name", m->name);
    jw_string(w, "family", model_family_word(m->family));
    jw_int(w, "layers", m->layers);
    jw_int(w, "hidden", m->hidden);
    jw_int(w, "heads", m->heads);
    jw_int(w, "kv_heads", m->kv_heads);
    jw_int(w, "head_size", m->head_size);
    jw_int(w, "ffn", m->ffn);
    jw_int(w, "vocab", m->vocab);
    jw_int(w, "max_sequence", m->max_sequence);
    jw_string(w, "norm", model_norm_word(m->norm));
    jw_string(w, "activation", model_activation_word(m->activation));
    jw_string(w, "positions", model_positions_word(m->positions));
    jw_bool(w, "tied_head", m->tied_head);
    jw_bool(w, "causal", m->causal);
    jw_int(w, "parameters", model_parameters(m));
    if (model_is_uniform(m)) {
        jw_int(w, "layer_parameters", model_layer_parameters(m));
    } else {
        jw_null(w, "layer_parameters"); /* they differ */
    }
    if (m->published_parameters > 0) {
        jw_real(w, "published_parameters", m->published_parameters);
    } else {
        jw_null(w, "published_parameters");
    }
    jw_string(w, "source", m->source);
    jw_end(w);
}

static enum status list_models(struct lister *l)
{
    static const char *const names[] = { "name", "family", "layers",       "hidden",     "heads", "kv_heads",
                                         "ffn",  "vocab",  "max_sequence", "parameters", "source" };
    if (l->table != NULL) {
        head(l->table, 11, 0x3fcu, names);
        l->table->last_width = 72;
    }
    for (uint32_t i = 0; i < model_library_count(); i++) {
        struct model m;
        model_library_get(i, &m);
        if (l->json != NULL) {
            model_json(l->json, &m);
            continue;
        }
        const int64_t numbers[] = { m.layers, m.hidden, m.heads, m.kv_heads, m.ffn, m.vocab, m.max_sequence };
        text_table_cell(l->table, "%s", m.name);
        text_table_cell(l->table, "%s", model_family_word(m.family));
        for (uint32_t k = 0; k < 7; k++) {
            text_table_cell(l->table, "%" PRId64, numbers[k]);
        }
        text_table_cell(l->table, "%" PRId64, model_parameters(&m));
        text_table_cell(l->table, "%s", m.source);
    }
    return STATUS_OK;
}

/* ---- ladders ---- */

static enum status list_ladders(struct lister *l)
{
    static const char *const names[] = { "name", "models", "source" };
    if (l->table != NULL) {
        head(l->table, 3, 0, names);
        l->table->last_width = 72;
    }
    for (uint32_t i = 0; i < model_ladder_count(); i++) {
        const struct model_ladder *ladder = model_ladder_get(i);
        if (l->json != NULL) {
            jw_object(l->json, NULL);
            jw_string(l->json, "name", ladder->name);
            jw_array(l->json, "models");
        } else {
            text_table_cell(l->table, "%s", ladder->name);
            text_table_cell(l->table, "%u: %s to %s", ladder->count, ladder->models[0],
                            ladder->models[ladder->count - 1]);
            text_table_cell(l->table, "%s", ladder->source);
        }
        for (uint32_t m = 0; l->json != NULL && m < ladder->count; m++) {
            jw_string(l->json, NULL, ladder->models[m]);
        }
        if (l->json != NULL) {
            jw_end(l->json);
            jw_string(l->json, "source", ladder->source);
            jw_end(l->json);
        }
    }
    return STATUS_OK;
}

/* ---- machines ---- */

static void links_json(struct json_writer *w, const struct machine *m)
{
    jw_array(w, "links");
    for (uint32_t i = 0; i < m->link_count; i++) {
        const struct machine_link *link = &m->links[i];
        jw_object(w, NULL);
        jw_string(w, "kind", machine_link_word(link->kind));
        jw_string(w, "a", m->parts[link->a].id);
        jw_string(w, "b", m->parts[link->b].id);
        jw_uint(w, "lanes", link->lanes);
        jw_real(w, "bytes_per_s", link->bytes_per_s);
        jw_real(w, "back_bytes_per_s", link->back_bytes_per_s);
        jw_real(w, "both_bytes_per_s", link->both_bytes_per_s);
        jw_real(w, "peak_bytes_per_s", link->peak_bytes_per_s);
        jw_real(w, "latency_s", link->latency_s);
        jw_end(w);
    }
    jw_end(w);
}

static void curves_json(struct json_writer *w, const struct machine *m)
{
    jw_array(w, "collective_curves");
    for (uint32_t i = 0; i < m->curve_count; i++) {
        jw_object(w, NULL);
        jw_string(w, "collective", collective_word(m->curves[i].kind));
        jw_uint(w, "ranks", m->curves[i].ranks);
        jw_uint(w, "nodes", m->curves[i].nodes);
        jw_string(w, "source", m->curves[i].source);
        jw_end(w);
    }
    jw_end(w);
}

static void section_end(struct json_writer *w, const char *open)
{
    if (open[0] != '\0') {
        jw_end(w);
    }
}

/* A scalar of a file, in the object of its section: `open` is the section being written ("": none). */
static void section_field(struct json_writer *w, const char **open, const char *section, const char *key,
                          const char *text, double value)
{
    if (strcmp(*open, section) != 0) {
        section_end(w, *open);
        jw_object(w, section);
        *open = section;
    }
    if (text != NULL) {
        jw_string(w, key, text);
    } else {
        jw_real(w, key, value);
    }
}

/* The scalars as the machine's file names them, grouped by section. */
static void machine_fields_json(struct json_writer *w, const struct machine *m)
{
    const char *open = "";
    for (uint32_t i = 0; i < machine_field_count(); i++) {
        struct machine_field_value field;
        machine_field_get(m, i, &field);
        if (field.section[0] == '\0' || strchr(field.section, '.') != NULL) {
            continue; /* title, year, peaks: already there */
        }
        section_field(w, &open, field.section, field.key, field.text, field.value);
    }
    section_end(w, open);
}

/* Of calibrated machines: how sure its constants are, and how well they say what was measured. */
static void fit_json(struct json_writer *w, const struct machine *m)
{
    jw_object(w, "standard_errors");
    for (uint32_t i = 0; i < m->standard_error_count; i++) {
        jw_real(w, m->standard_errors[i].field, m->standard_errors[i].value);
    }
    jw_end(w);
    jw_array(w, "residuals");
    for (uint32_t i = 0; i < m->residual_count; i++) {
        const struct machine_residual *line = &m->residuals[i];
        jw_object(w, NULL);
        jw_string(w, "what", line->what);
        jw_string(w, "source", line->source);
        jw_uint(w, "points", line->points);
        jw_uint(w, "left_out", line->left_out);
        jw_real(w, "mean_error", line->mean_error);
        jw_real(w, "worst_error", line->worst_error);
        if (isnan(line->left_out_mean_error)) {
            jw_null(w, "left_out_mean_error");
        } else {
            jw_real(w, "left_out_mean_error", line->left_out_mean_error);
        }
        jw_end(w);
    }
    jw_end(w);
}

static double peak(const struct machine *m, enum dtype dtype)
{
    return m->gpu.peak_flops[dtype];
}

static void machine_json(struct json_writer *w, const struct machine *m)
{
    jw_object(w, NULL);
    jw_string(w, "name", m->name);
    jw_string(w, "title", m->title);
    jw_uint(w, "year", m->year);
    jw_uint(w, "gpu_count", m->gpu_count);
    jw_real(w, "gpu_memory_bytes", m->gpu.memory_bytes);
    jw_real(w, "gpu_usable_bytes", m->gpu.usable_bytes);
    jw_real(w, "hbm_bytes_per_s", m->gpu.hbm_bytes_per_s);
    jw_object(w, "peak_flops");
    for (uint32_t d = 0; d < DTYPE_COUNT; d++) {
        if (m->gpu.peak_flops[d] > 0) {
            jw_real(w, dtype_word((enum dtype)d), m->gpu.peak_flops[d]);
        }
    }
    jw_end(w);
    jw_real(w, "host_memory_bytes", m->dram_bytes);
    machine_fields_json(w, m);
    jw_object(w, "part_counts");
    for (uint32_t k = 0; k < PART_KIND_COUNT; k++) {
        jw_uint(w, machine_part_word((enum machine_part_kind)k), machine_part_kind_count(m, (enum machine_part_kind)k));
    }
    jw_end(w);
    links_json(w, m);
    curves_json(w, m);
    jw_array(w, "sources");
    for (uint32_t i = 0; i < m->source_count; i++) {
        jw_object(w, NULL);
        jw_string(w, "field", m->sources[i].field);
        jw_string(w, "source", m->sources[i].source);
        jw_bool(w, "estimated", m->sources[i].estimated);
        jw_end(w);
    }
    jw_end(w);
    fit_json(w, m);
    jw_end(w);
}

/* The fastest direct way out of a GPU that is not PCIe, or PCIe when there is no other. */
static void gpu_link(const struct machine *m, char *text, size_t size)
{
    const struct machine_link *best = NULL;
    double rate[LINK_KIND_COUNT] = { 0 };
    uint32_t gpu = machine_part_at(m, PART_GPU, 0);
    for (uint32_t i = 0; i < m->link_count; i++) {
        const struct machine_link *link = &m->links[i];
        if (link->a == gpu || link->b == gpu) {
            rate[link->kind] += link->bytes_per_s;
            best = best == NULL || best->kind == LINK_PCIE ? link : best;
        }
    }
    if (best == NULL) {
        snprintf(text, size, "-");
    } else {
        snprintf(text, size, "%s %.0f", machine_link_word(best->kind), rate[best->kind] / 1e9);
    }
}

static void money(struct text_table *table, double value, const char *format_unit)
{
    if (value > 0) {
        text_table_cell(table, format_unit[0] == 'h' ? "%.2f" : "%.0f", value);
    } else {
        text_table_cell(table, "-");
    }
}

static enum status list_machines(struct lister *l)
{
    static const char *const names[] = { "name",      "GPUs",          "GPU memory GiB", "bf16/fp16 TFLOP/s",
                                         "HBM GB/s",  "GPU link GB/s", "NIC Gbit/s",     "USD",
                                         "USD/GPU/h", "title" };
    if (l->table != NULL) {
        head(l->table, 10, 0x1deu, names);
        l->table->last_width = 60;
    }
    for (uint32_t i = 0; i < machine_library_count(); i++) {
        struct machine m;
        TRY(machine_load(&m, machine_library_name(i), l->error));
        if (l->json != NULL) {
            machine_json(l->json, &m);
        } else {
            char link[64];
            double nic = 0;
            for (uint32_t p = 0; p < m.part_count; p++) {
                nic += m.parts[p].kind == PART_NIC && m.parts[p].compute_fabric ? m.parts[p].line_bytes_per_s : 0;
            }
            gpu_link(&m, link, sizeof link);
            text_table_cell(l->table, "%s", m.name);
            text_table_cell(l->table, "%u", m.gpu_count);
            text_table_cell(l->table, "%.0f", m.gpu.memory_bytes / GIB);
            text_table_cell(l->table, "%.0f",
                            (peak(&m, DTYPE_BF16) > 0 ? peak(&m, DTYPE_BF16) : peak(&m, DTYPE_FP16)) / 1e12);
            text_table_cell(l->table, "%.0f", m.gpu.hbm_bytes_per_s / 1e9);
            text_table_cell(l->table, "%s", link);
            money(l->table, nic * 8 / 1e9, "number");
            money(l->table, m.price_usd, "number");
            money(l->table, m.usd_per_gpu_hour, "hour");
            text_table_cell(l->table, "%s", m.title);
        }
        machine_free(&m);
    }
    return STATUS_OK;
}

/* ---- software ---- */

static void software_json(struct json_writer *w, const struct software *s)
{
    const char *open = "";
    jw_object(w, NULL);
    jw_string(w, "name", s->name);
    jw_string(w, "title", s->title);
    jw_real(w, "state_bytes_per_parameter", software_state_bytes(s));
    for (uint32_t i = 0; i < software_field_count(); i++) {
        struct software_field_value field;
        software_field_get(s, i, &field);
        if (field.section[0] == '\0') {
            continue;
        }
        section_field(w, &open, field.section, field.key, field.text, field.value);
    }
    section_end(w, open);
    jw_array(w, "sources");
    for (uint32_t i = 0; i < s->source_count; i++) {
        jw_object(w, NULL);
        jw_string(w, "field", s->sources[i].field);
        jw_string(w, "source", s->sources[i].source);
        jw_bool(w, "estimated", s->sources[i].estimated);
        jw_end(w);
    }
    jw_end(w);
    jw_end(w);
}

static enum status list_software(struct lister *l)
{
    static const char *const names[] = { "name",        "launch us", "per pass us", "fused", "flash attention",
                                         "B/parameter", "allocator", "title" };
    if (l->table != NULL) {
        head(l->table, 8, 0x26u, names);
        l->table->last_width = 72;
    }
    for (uint32_t i = 0; i < software_library_count(); i++) {
        struct software s;
        TRY(software_load(&s, software_library_name(i), l->error));
        if (l->json != NULL) {
            software_json(l->json, &s);
            continue;
        }
        text_table_cell(l->table, "%s", s.name);
        text_table_cell(l->table, "%.3g", s.launch_host_s * 1e6);
        text_table_cell(l->table, "%.3g", s.pass_host_s * 1e6);
        text_table_cell(l->table, "%s", s.fused_kernels ? "yes" : "no");
        text_table_cell(l->table, "%s", s.flash_attention ? "yes" : "no");
        text_table_cell(l->table, "%.3g", software_state_bytes(&s));
        text_table_cell(l->table, "%s", software_allocator_word(s.allocator));
        text_table_cell(l->table, "%s", s.title);
    }
    return STATUS_OK;
}

/* ---- plug-ins ---- */

enum { PLUGIN_TEXT_WIDTH = 64 };

static const char *parameter_type_word(enum parameter_type type)
{
    switch (type) {
    case PARAMETER_INT: return "integer";
    case PARAMETER_REAL: return "number";
    case PARAMETER_BOOL: return "true | false";
    case PARAMETER_WORD: return "word";
    }
    return "";
}

static void parameters_json(struct json_writer *w, const struct parameter *table, uint32_t count)
{
    struct parameter_values defaults;
    parameters_defaults(table, count, &defaults);
    jw_array(w, "parameters");
    for (uint32_t i = 0; i < count; i++) {
        const struct parameter *p = &table[i];
        jw_object(w, NULL);
        jw_string(w, "name", p->name);
        jw_string(w, "type", parameter_type_word(p->type));
        jw_string(w, "unit", p->unit);
        if (p->type == PARAMETER_INT || p->type == PARAMETER_REAL) {
            jw_real(w, "minimum", p->minimum);
            jw_real(w, "maximum", p->maximum);
        }
        if (p->type == PARAMETER_WORD) {
            jw_array(w, "words");
            for (uint32_t k = 0; p->words[k] != NULL; k++) {
                jw_string(w, NULL, p->words[k]);
            }
            jw_end(w);
        }
        switch (p->type) {
        case PARAMETER_INT: jw_int(w, "default", (int64_t)defaults.value[i]); break;
        case PARAMETER_REAL: jw_real(w, "default", defaults.value[i]); break;
        case PARAMETER_BOOL: jw_bool(w, "default", defaults.value[i] > 0.5); break;
        case PARAMETER_WORD: jw_string(w, "default", p->words[(size_t)defaults.value[i]]); break;
        }
        jw_string(w, "help", p->help);
        jw_end(w);
    }
    jw_end(w);
}

static void word_list(const struct parameter *p, struct strbuf *text)
{
    for (uint32_t k = 0; p->words[k] != NULL; k++) {
        strbuf_printf(text, "%s%s", k > 0 ? " | " : "", p->words[k]);
    }
}

/* Below the entry, a row each: the name further in, type and default, what it is. `column_count` cells a row, the last for the help; at least 2. */
static void parameter_rows(struct text_table *table, const struct parameter *parameters, uint32_t count)
{
    struct parameter_values defaults;
    CHECK(table != NULL && table->column_count >= 2);
    parameters_defaults(parameters, count, &defaults);
    for (uint32_t i = 0; i < count; i++) {
        const struct parameter *p = &parameters[i];
        struct strbuf text = { 0 };
        if (p->type == PARAMETER_WORD) {
            word_list(p, &text);
            strbuf_printf(&text, ", default %s", p->words[(size_t)defaults.value[i]]);
        } else if (p->type == PARAMETER_BOOL) {
            strbuf_printf(&text, "true | false, default %s", defaults.value[i] > 0.5 ? "true" : "false");
        } else {
            strbuf_printf(&text, "%s, default %.6g%s%s", parameter_type_word(p->type), defaults.value[i],
                          p->unit[0] != '\0' ? " " : "", p->unit);
        }
        table->failed = table->failed || text.failed;
        text_table_cell(table, "  .%s", p->name);
        for (uint32_t c = 1; c + 1 < table->column_count; c++) {
            text_table_cell(table, "%s", "");
        }
        text_table_cell(table, "%s: %s", text.text != NULL ? text.text : "", p->help);
        strbuf_free(&text);
    }
}

/* The last cell of an entry's row, and the rows of its parameters. */
static void plugin_rows(struct text_table *table, const char *summary, const char *paper,
                        const struct parameter *parameters, uint32_t count)
{
    bool has_paper = paper != NULL && paper[0] != '\0';
    text_table_cell(table, "%s%s%s%s", summary, has_paper ? " (" : "", has_paper ? paper : "", has_paper ? ")" : "");
    parameter_rows(table, parameters, count);
}

static enum status list_orders(struct lister *l)
{
    static const char *const names[] = { "name", "chunks", "flush", "W split", "what it does; its parameters" };
    uint32_t count;
    const struct pipeline_order *const *orders = registry_orders(&count);
    if (l->table != NULL) {
        head(l->table, 5, 0, names);
        l->table->last_width = PLUGIN_TEXT_WIDTH;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct pipeline_order *o = orders[i];
        if (l->json != NULL) {
            jw_object(l->json, NULL);
            jw_string(l->json, "name", o->name);
            jw_string(l->json, "summary", o->summary);
            jw_string(l->json, "paper", o->paper);
            jw_bool(l->json, "splits_backward", o->splits_backward);
            jw_bool(l->json, "asynchronous", o->asynchronous);
            jw_uint(l->json, "virtual_stages", o->virtual_stages);
            jw_uint(l->json, "model_replicas", o->model_replicas);
            parameters_json(l->json, o->parameters, o->parameter_count);
            jw_end(l->json);
            continue;
        }
        text_table_cell(l->table, "%s", o->name);
        if (o->virtual_stages > 0) {
            text_table_cell(l->table, "%u", o->virtual_stages);
        } else {
            text_table_cell(l->table, "any");
        }
        text_table_cell(l->table, "%s", o->asynchronous ? "no" : "yes");
        text_table_cell(l->table, "%s", o->splits_backward ? "yes" : "no");
        plugin_rows(l->table, o->summary, o->paper, o->parameters, o->parameter_count);
    }
    return STATUS_OK;
}

static void begin_plugins(struct lister *l)
{
    static const char *const names[] = { "name", "what it does; its parameters" };
    if (l->table != NULL) {
        head(l->table, 2, 0, names);
        l->table->last_width = PLUGIN_TEXT_WIDTH;
    }
}

static void list_plugin(struct lister *l, const char *name, const char *summary, const char *paper,
                        const struct parameter *parameters, uint32_t parameter_count)
{
    if (l->json == NULL) {
        text_table_cell(l->table, "%s", name);
        plugin_rows(l->table, summary, paper, parameters, parameter_count);
        return;
    }
    jw_object(l->json, NULL);
    jw_string(l->json, "name", name);
    jw_string(l->json, "summary", summary);
    jw_string(l->json, "paper", paper);
    parameters_json(l->json, parameters, parameter_count);
    jw_end(l->json);
}

static enum status list_policies(struct lister *l)
{
    uint32_t count;
    const struct memory_policy *const *policies = registry_policies(&count);
    begin_plugins(l);
    for (uint32_t i = 0; i < count; i++) {
        const struct memory_policy *p = policies[i];
        list_plugin(l, p->name, p->summary, p->paper, p->parameters, p->parameter_count);
    }
    return STATUS_OK;
}

static enum status list_planners(struct lister *l)
{
    uint32_t count;
    const struct planner *const *planners = planner_list(&count);
    begin_plugins(l);
    for (uint32_t i = 0; i < count; i++) {
        const struct planner *p = planners[i];
        list_plugin(l, p->name, p->summary, p->paper, p->parameters, p->parameter_count);
    }
    return STATUS_OK;
}

/* ---- scenarios ---- */

static int is_json_name(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0;
}

/* One scenario file: a file that does not load is listed with its complaint, so that one bad file hides no other. */
static void scenario_row(struct lister *l, const char *path)
{
    struct scenario *scenario = calloc(1, sizeof *scenario);
    struct error error = { 0 };
    char text[ERROR_MESSAGE_BYTES + ERROR_FILE_BYTES + ERROR_PATH_BYTES];
    if (scenario == NULL) {
        return;
    }
    bool ok = scenario_load(scenario, path, NULL, 0, &error) == STATUS_OK;
    const char *name = ok ? scenario->name : error_text(&error, text, sizeof text);
    if (l->json != NULL) {
        jw_object(l->json, NULL);
        jw_string(l->json, "file", path);
        jw_bool(l->json, "valid", ok);
        jw_string(l->json, ok ? "name" : "complaint", name);
        if (ok) {
            jw_string(l->json, "model", scenario->model.name);
            jw_string(l->json, "machine", scenario->machine.name);
            jw_string(l->json, "software", scenario->software.name);
            jw_uint(l->json, "gpus", scenario->cluster.gpus);
        }
        jw_end(l->json);
    } else {
        text_table_cell(l->table, "%s", path);
        text_table_cell(l->table, "%u", ok ? scenario->cluster.gpus : 0);
        text_table_cell(l->table, "%s", ok ? scenario->model.name : "-");
        text_table_cell(l->table, "%s", ok ? scenario->machine.name : "-");
        text_table_cell(l->table, "%s", name);
    }
    if (ok) {
        scenario_free(scenario);
    }
    free(scenario);
}

static enum status list_scenarios(struct lister *l)
{
    static const char *const names[] = { "file", "GPUs", "model", "machine", "name" };
    struct dirent **entries = NULL;
    int count = scandir(l->folder, &entries, is_json_name, alphasort);
    if (count < 0) {
        return error_at(l->error, STATUS_NOT_FOUND, l->folder, NULL,
                        "no such folder; give another: memwall list scenarios FOLDER");
    }
    if (l->table != NULL) {
        head(l->table, 5, 0x2u, names);
    }
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", l->folder, entries[i]->d_name);
        scenario_row(l, path);
        free(entries[i]);
    }
    free(entries);
    return STATUS_OK;
}

static enum status list_parameters(struct lister *l)
{
    static const char *const names[] = { "key", "type", "default", "what it is" };
    uint32_t count;
    const struct scenario_key *keys = scenario_keys(&count);
    if (l->table != NULL) {
        head(l->table, 4, 0, names);
        l->table->last_width = 90;
    }
    for (uint32_t i = 0; i < count; i++) {
        const char *const texts[] = { keys[i].path, keys[i].type, keys[i].fallback, keys[i].help };
        static const char *const json_names[] = { "key", "type", "default", "help" };
        if (l->json != NULL) {
            jw_object(l->json, NULL);
        }
        for (uint32_t k = 0; k < 4; k++) {
            if (l->json != NULL) {
                jw_string(l->json, json_names[k], texts[k]);
            } else {
                text_table_cell(l->table, "%s", texts[k]);
            }
        }
        if (l->json != NULL) {
            jw_end(l->json);
        }
    }
    return STATUS_OK;
}

/* ---- the command ---- */

static const struct topic {
    const char *name, *what;
    enum status (*list)(struct lister *lister);
} TOPICS[] = {
    { "models", "the model library", list_models },
    { "ladders", "models that grow step by step, for memwall fit --models", list_ladders },
    { "machines", "the machine library", list_machines },
    { "software", "software stacks", list_software },
    { "orders", "pipeline orders", list_orders },
    { "policies", "memory policies", list_policies },
    { "planners", "planners of memwall plan", list_planners },
    { "scenarios", "scenario files in ./scenarios", list_scenarios },
    { "parameters", "keys of a scenario", list_parameters },
};
enum { TOPIC_COUNT = sizeof TOPICS / sizeof TOPICS[0] };

static enum status print_json(const struct topic *only, const char *folder, struct strbuf *out, struct error *error)
{
    struct json_writer w = { .out = out };
    struct lister lister = { .json = &w, .folder = folder, .error = error };
    jw_object(&w, NULL);
    jw_string(&w, "schema", "memwall.list/1");
    for (int i = 0; i < TOPIC_COUNT; i++) {
        if (only != NULL && only != &TOPICS[i]) {
            continue;
        }
        jw_array(&w, TOPICS[i].name);
        enum status status = TOPICS[i].list(&lister);
        if (status != STATUS_OK && (only != NULL || status != STATUS_NOT_FOUND)) {
            return status; /* without a topic, an absent ./scenarios is an empty list */
        }
        jw_end(&w);
    }
    jw_end(&w);
    strbuf_char(out, '\n');
    return STATUS_OK;
}

static enum status print_text(const struct topic *topic, const char *folder, struct strbuf *out, struct error *error)
{
    struct text_table table = { 0 };
    struct lister lister = { .table = &table, .folder = folder, .error = error };
    enum status status = STATUS_OK;
    if (topic == NULL) {
        table.column_count = 2;
        strbuf_append(out, "memwall list TOPIC [--json]; topics:\n");
        for (int i = 0; i < TOPIC_COUNT; i++) {
            text_table_cell(&table, "%s", TOPICS[i].name);
            text_table_cell(&table, "%s", TOPICS[i].what);
        }
    } else {
        status = topic->list(&lister);
    }
    if (status == STATUS_OK) {
        text_table_print(&table, topic == NULL ? 2 : 0, topic != NULL, out);
    }
    text_table_free(&table);
    return status;
}

static enum status find_topic(const char *name, const struct topic **topic, struct error *error)
{
    const char *names[TOPIC_COUNT];
    for (int i = 0; i < TOPIC_COUNT; i++) {
        names[i] = TOPICS[i].name;
        if (strcmp(name, names[i]) == 0) {
            *topic = &TOPICS[i];
            return STATUS_OK;
        }
    }
    char known[256] = "";
    for (int i = 0; i < TOPIC_COUNT; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    const char *near = nearest_word(name, names, TOPIC_COUNT);
    return error_set(error, STATUS_NOT_FOUND, "unknown topic \"%.100s\"%s%s%s; topics: %s", name,
                     near != NULL ? ", did you mean \"" : "", near != NULL ? near : "", near != NULL ? "\"?" : "",
                     known);
}

static enum exit_code run(int argc, char **argv)
{
    struct cli_flags flags;
    enum exit_code code;
    if (!cli_parse(&command_list, argc, argv, &flags, NULL, 0, &code)) {
        return code;
    }
    struct error error = { 0 };
    struct strbuf out = { 0 };
    const struct topic *topic = NULL;
    const char *folder = flags.positional_count > 1 ? flags.positionals[1] : "scenarios";
    enum status status = flags.positional_count > 0 ? find_topic(flags.positionals[0], &topic, &error) : STATUS_OK;
    if (status == STATUS_OK && flags.positional_count > 1 && topic->list != list_scenarios) {
        status = error_set(&error, STATUS_BAD_INPUT, "only \"list scenarios\" takes a folder, found \"%.100s\"",
                           flags.positionals[1]);
    }
    if (status == STATUS_OK) {
        status = flags.json ? print_json(topic, folder, &out, &error) : print_text(topic, folder, &out, &error);
    }
    if (status != STATUS_OK) {
        strbuf_free(&out);
        return cli_complain(&error);
    }
    return cli_answer(&flags, "list", &out, EXIT_DONE);
}
