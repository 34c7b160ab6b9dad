/* memwall list orders, policies, planners: what each plug-in does, and its parameters. */
#include "sim/base/check.h"
#include "sim/cli/list_topics.h"
#include "strategies/planners/planner.h"
#include "strategies/registry.h"

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
    CHECK(count == 0 || table != NULL);
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

enum status list_orders(struct lister *l)
{
    static const char *const names[] = { "name", "chunks", "flush", "W split", "what it does; its parameters" };
    uint32_t count;
    const struct pipeline_order *const *orders = registry_orders(&count);
    if (l->table != NULL) {
        list_head(l->table, 5, 0, names);
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
        list_head(l->table, 2, 0, names);
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

enum status list_policies(struct lister *l)
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

enum status list_planners(struct lister *l)
{
    uint32_t count;
    const struct planner *const *planners = planner_list(&count);
    begin_plugins(l);
    for (uint32_t i = 0; i < count; i++) {
        const struct planner *p = planners[i], *like = p->parameters != NULL ? planners[0] : p;
        for (uint32_t k = 0; like->parameters != p->parameters; k++) {
            like = planners[k];
        }
        if (l->json != NULL || like == p) {
            list_plugin(l, p->name, p->summary, p->paper, p->parameters, p->parameter_count);
            continue;
        }
        struct strbuf summary = { 0 }; /* a family of planners: its table stands once */
        strbuf_printf(&summary, "%s; parameters: as %s", p->summary, like->name);
        list_plugin(l, p->name, summary.failed ? p->summary : summary.text, p->paper, NULL, 0);
        strbuf_free(&summary);
    }
    return STATUS_OK;
}
