/* An explanation ("memwall.explain/1") read back. */
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/report/explain.h"

static enum status read_cell(const struct json *at, struct explain_cell *cell, struct error *error)
{
    *cell = (struct explain_cell){ 0 };
    return json_type(at) == JSON_STRING ? json_as_string(at, &cell->text, error)
                                        : json_as_real(at, -1e300, 1e300, &cell->value, error);
}

static enum status read_term(struct explain_section *section, const struct json *at, struct error *error)
{
    struct json value;
    struct explain_term term = { 0 };
    TRY(json_string(at, "name", &term.name, error));
    TRY(json_any(at, "value", &value, error));
    TRY(read_cell(&value, &term.value, error));
    TRY(json_string_or(at, "unit", NULL, &term.unit, error));
    TRY(json_string_or(at, "formula", NULL, &term.formula, error));
    TRY(json_string_or(at, "numbers", NULL, &term.numbers, error));
    TRY(json_string_or(at, "source", NULL, &term.source, error));
    TRY(array_reserve(&section->terms, 1, error));
    section->terms.items[section->terms.count++] = term;
    return STATUS_OK;
}

static enum status read_row(struct explain_table *table, const struct json *row, struct error *error)
{
    struct json at;
    if (json_type(row) != JSON_ARRAY || json_count(row) != table->column_count) {
        return json_error(row, error, "expected a row of %u cells", table->column_count);
    }
    TRY(array_reserve(&table->cells, table->column_count, error));
    for (uint32_t c = 0; c < table->column_count; c++) {
        json_item(row, c, &at);
        TRY(read_cell(&at, &table->cells.items[table->cells.count], error));
        table->cells.count++;
    }
    return STATUS_OK;
}

static enum status read_table(struct explain_section *section, const struct json *at, struct error *error)
{
    struct json columns, rows, item;
    TRY(array_reserve(&section->tables, 1, error));
    struct explain_table *table = &section->tables.items[section->tables.count++];
    *table = (struct explain_table){ 0 };
    TRY(json_string(at, "title", &table->title, error));
    TRY(json_array(at, "columns", &columns, error));
    size_t count = json_count(&columns);
    if (count == 0 || count > EXPLAIN_COLUMNS_MAX) {
        return json_error(&columns, error, "expected 1 to %d columns", EXPLAIN_COLUMNS_MAX);
    }
    for (table->column_count = 0; table->column_count < count; table->column_count++) {
        json_item(&columns, table->column_count, &item);
        TRY(json_as_string(&item, &table->columns[table->column_count], error));
    }
    TRY(json_array(at, "rows", &rows, error));
    for (size_t i = 0; i < json_count(&rows); i++) {
        json_item(&rows, i, &item);
        TRY(read_row(table, &item, error));
    }
    return STATUS_OK;
}

static enum status read_section(struct explanation *explanation, const struct json *at, struct error *error)
{
    struct json terms, tables, item;
    if (json_type(at) != JSON_OBJECT) {
        return json_error(at, error, "expected a section (an object), found %s", json_type_word(json_type(at)));
    }
    TRY(array_reserve(&explanation->sections, 1, error));
    struct explain_section *section = &explanation->sections.items[explanation->sections.count++];
    *section = (struct explain_section){ 0 };
    TRY(json_string(at, "id", &section->id, error));
    TRY(json_string(at, "title", &section->title, error));
    TRY(json_string_or(at, "note", NULL, &section->note, error));
    TRY(json_array(at, "terms", &terms, error));
    for (size_t i = 0; i < json_count(&terms); i++) {
        json_item(&terms, i, &item);
        TRY(read_term(section, &item, error));
    }
    TRY(json_array(at, "tables", &tables, error));
    for (size_t i = 0; i < json_count(&tables); i++) {
        json_item(&tables, i, &item);
        TRY(read_table(section, &item, error));
    }
    return STATUS_OK;
}

enum status explanation_read(struct explanation *explanation, const struct json *root, struct error *error)
{
    static const char *const schemas[] = { "memwall.explain/1" };
    struct json sections, item;
    size_t schema;
    enum status status = STATUS_OK;
    *explanation = (struct explanation){ 0 };
    if (json_type(root) != JSON_OBJECT) {
        return json_error(root, error, "expected an explanation (an object)");
    }
    TRY(json_word(root, "schema", schemas, 1, &schema, error));
    TRY(json_string(root, "name", &explanation->name, error));
    TRY(json_array(root, "sections", &sections, error));
    for (size_t i = 0; i < json_count(&sections) && status == STATUS_OK; i++) {
        json_item(&sections, i, &item);
        status = read_section(explanation, &item, error);
    }
    if (status != STATUS_OK) {
        explanation_free(explanation);
    }
    return status;
}
