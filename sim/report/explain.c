/* The document behind `memwall explain`: building, printing, and the walk through its sections. */
#include "sim/report/explain.h"

#include <stdio.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/base/units.h"
#include "sim/plan/plan_order.h"
#include "sim/report/explain_internal.h"
#include "sim/report/text_table.h"
#include "strategies/registry.h"

/* ---- building ---- */

const char *explain_text(struct explainer *e, const char *format, ...)
{
    struct strbuf text = { 0 };
    va_list arguments;
    va_start(arguments, format);
    strbuf_vprintf(&text, format, arguments);
    va_end(arguments);
    const char *kept = text.failed ? NULL : arena_text(&e->to->arena, text.text != NULL ? text.text : "");
    strbuf_free(&text);
    e->to->failed = e->to->failed || kept == NULL;
    return kept != NULL ? kept : "";
}

void explain_section(struct explainer *e, const char *id, const char *title, const char *note)
{
    struct explain_sections *sections = &e->to->sections;
    if (array_reserve(sections, 1, NULL) != STATUS_OK) {
        e->to->failed = true;
        return;
    }
    sections->items[sections->count++] = (struct explain_section){ .id = id, .title = title, .note = note };
}

static struct explain_section *open_section(struct explainer *e)
{
    struct explain_sections *sections = &e->to->sections;
    return e->to->failed || sections->count == 0 ? NULL : &sections->items[sections->count - 1];
}

static void add_term(struct explainer *e, const struct explain_term *term)
{
    struct explain_section *section = open_section(e);
    if (section == NULL || array_reserve(&section->terms, 1, NULL) != STATUS_OK) {
        e->to->failed = true;
        return;
    }
    section->terms.items[section->terms.count++] = *term;
}

void explain_value(struct explainer *e, const char *name, double value, const char *unit, const char *formula,
                   const char *numbers, const char *source)
{
    add_term(e, &(struct explain_term){ name, { NULL, value }, unit, formula, numbers, source });
}

void explain_word(struct explainer *e, const char *name, const char *text, const char *source)
{
    add_term(e, &(struct explain_term){ name, { text, 0 }, NULL, NULL, NULL, source });
}

void explain_table(struct explainer *e, const char *title, const char *const *columns)
{
    struct explain_section *section = open_section(e);
    if (section == NULL || array_reserve(&section->tables, 1, NULL) != STATUS_OK) {
        e->to->failed = true;
        return;
    }
    struct explain_table table = { .title = title };
    for (; columns[table.column_count] != NULL; table.column_count++) {
        CHECK(table.column_count < EXPLAIN_COLUMNS_MAX);
        table.columns[table.column_count] = columns[table.column_count];
    }
    section->tables.items[section->tables.count++] = table;
}

static void add_cell(struct explainer *e, struct explain_cell cell)
{
    struct explain_section *section = open_section(e);
    if (section == NULL || section->tables.count == 0) {
        return;
    }
    struct explain_cells *cells = &section->tables.items[section->tables.count - 1].cells;
    if (array_reserve(cells, 1, NULL) != STATUS_OK) {
        e->to->failed = true;
        return;
    }
    cells->items[cells->count++] = cell;
}

void explain_cell_number(struct explainer *e, double value)
{
    add_cell(e, (struct explain_cell){ NULL, value });
}

void explain_cell_text(struct explainer *e, const char *text)
{
    add_cell(e, (struct explain_cell){ text, 0 });
}

void explanation_free(struct explanation *explanation)
{
    for (size_t i = 0; i < explanation->sections.count; i++) {
        struct explain_section *section = &explanation->sections.items[i];
        for (size_t k = 0; k < section->tables.count; k++) {
            array_free(&section->tables.items[k].cells);
        }
        array_free(&section->terms);
        array_free(&section->tables);
    }
    array_free(&explanation->sections);
    arena_free(&explanation->arena);
}

/* ---- printing ---- */

static void print_value(const struct explain_cell *cell, const char *unit, struct strbuf *out)
{
    char text[32];
    if (cell->text != NULL) {
        strbuf_append(out, cell->text);
        return;
    }
    struct text_table one = { .column_count = 1 };
    text_table_number(&one, cell->value, 6);
    strbuf_append(out, one.count > 0 ? one.items[0] : "");
    text_table_free(&one);
    if (unit == NULL) {
        return;
    }
    strbuf_printf(out, " %s", unit);
    if (unit[0] == 'b' && unit[1] == 'y' && unit[5] == '\0' && cell->value >= 1024) {
        strbuf_printf(out, " (%s)", text_bytes(cell->value, text, sizeof text));
    } else if (unit[0] == 's' && unit[1] == '\0' && cell->value > 0) {
        strbuf_printf(out, " (%s)", text_time_ps(ps_from_s(cell->value), text, sizeof text));
    }
}

static void print_term(const struct explain_term *term, struct strbuf *out)
{
    strbuf_printf(out, "  %-38s ", term->name);
    print_value(&term->value, term->unit, out);
    strbuf_char(out, '\n');
    if (term->formula != NULL) {
        strbuf_printf(out, "      = %s\n", term->formula);
    }
    if (term->numbers != NULL) {
        strbuf_printf(out, "      = %s\n", term->numbers);
    }
    if (term->source != NULL) {
        strbuf_printf(out, "      source: %s\n", term->source);
    }
}

static void print_table(const struct explain_table *table, struct strbuf *out)
{
    struct text_table text = { .column_count = table->column_count, .last_width = 90 };
    for (uint32_t c = 0; c < table->column_count; c++) {
        bool numeric = table->cells.count > c && table->cells.items[c].text == NULL;
        text.right |= numeric ? 1u << c : 0;
        text_table_cell(&text, "%s", table->columns[c]);
    }
    for (size_t i = 0; i < table->cells.count; i++) {
        const struct explain_cell *cell = &table->cells.items[i];
        if (cell->text != NULL) {
            text_table_cell(&text, "%s", cell->text);
        } else {
            text_table_number(&text, cell->value, 5);
        }
    }
    strbuf_printf(out, "\n  %s\n", table->title);
    text_table_print(&text, 4, true, out);
    text_table_free(&text);
}

void explanation_print_text(const struct explanation *explanation, struct strbuf *out)
{
    strbuf_printf(out, "%s\n", explanation->name);
    for (size_t i = 0; i < explanation->sections.count; i++) {
        const struct explain_section *section = &explanation->sections.items[i];
        strbuf_printf(out, "\n== %s ==\n", section->title);
        if (section->note != NULL) {
            strbuf_printf(out, "  %s\n", section->note);
        }
        for (size_t k = 0; k < section->terms.count; k++) {
            print_term(&section->terms.items[k], out);
        }
        for (size_t k = 0; k < section->tables.count; k++) {
            print_table(&section->tables.items[k], out);
        }
    }
}

static void json_cell(struct json_writer *w, const char *key, const struct explain_cell *cell)
{
    if (cell->text != NULL) {
        jw_string(w, key, cell->text);
    } else {
        jw_real(w, key, cell->value);
    }
}

static void json_text(struct json_writer *w, const char *key, const char *text)
{
    if (text != NULL) {
        jw_string(w, key, text);
    }
}

static void json_section(struct json_writer *w, const struct explain_section *section)
{
    jw_object(w, NULL);
    jw_string(w, "id", section->id);
    jw_string(w, "title", section->title);
    json_text(w, "note", section->note);
    jw_array(w, "terms");
    for (size_t i = 0; i < section->terms.count; i++) {
        const struct explain_term *term = &section->terms.items[i];
        jw_object(w, NULL);
        jw_string(w, "name", term->name);
        json_cell(w, "value", &term->value);
        json_text(w, "unit", term->unit);
        json_text(w, "formula", term->formula);
        json_text(w, "numbers", term->numbers);
        json_text(w, "source", term->source);
        jw_end(w);
    }
    jw_end(w);
    jw_array(w, "tables");
    for (size_t i = 0; i < section->tables.count; i++) {
        const struct explain_table *table = &section->tables.items[i];
        jw_object(w, NULL);
        jw_string(w, "title", table->title);
        jw_array(w, "columns");
        for (uint32_t c = 0; c < table->column_count; c++) {
            jw_string(w, NULL, table->columns[c]);
        }
        jw_end(w);
        jw_array(w, "rows");
        CHECK(table->column_count > 0);
        for (size_t k = 0; k < table->cells.count; k++) {
            if (k % table->column_count == 0) {
                jw_array(w, NULL);
            }
            json_cell(w, NULL, &table->cells.items[k]);
            if (k % table->column_count == table->column_count - 1) {
                jw_end(w);
            }
        }
        jw_end(w);
        jw_end(w);
    }
    jw_end(w);
    jw_end(w);
}

void explanation_print_json(const struct explanation *explanation, struct strbuf *out)
{
    struct json_writer w = { .out = out };
    jw_object(&w, NULL);
    jw_string(&w, "schema", "memwall.explain/1");
    jw_string(&w, "name", explanation->name);
    jw_array(&w, "sections");
    for (size_t i = 0; i < explanation->sections.count; i++) {
        json_section(&w, &explanation->sections.items[i]);
    }
    jw_end(&w);
    jw_end(&w);
    strbuf_char(out, '\n');
}

/* ---- the walk ---- */

enum status explain_scenario(struct explanation *explanation, const struct explain_input *input, struct error *error)
{
    *explanation = (struct explanation){ .name = input->scenario->name };
    const struct plan *plan = &input->scenario->plan;
    struct explainer e = { .to = explanation, .from = input, .order = plan_order(plan, error) };
    if (e.order == NULL) {
        return STATUS_NOT_FOUND;
    }
    e.order_request = plan_order_request(plan);
    TRY(explain_build_graphs(&e, error));
    explain_model(&e);
    explain_plan(&e);
    explain_policy(&e);
    explain_states(&e);
    explain_activations(&e);
    explain_memory(&e);
    explain_host_sockets(&e);
    explain_flops(&e);
    explain_kernels(&e);
    explain_collectives(&e);
    explain_moves(&e);
    explain_host(&e);
    explain_host_optimizer(&e);
    explain_pipeline(&e);
    explain_step(&e);
    explain_machine(&e);
    explain_software(&e);
    return explanation->failed ? error_set(error, STATUS_NO_MEMORY, "out of memory for the explanation") : STATUS_OK;
}
