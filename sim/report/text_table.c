#include "sim/report/text_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/base/printable.h"

void text_table_cell(struct text_table *table, const char *format, ...)
{
    struct strbuf text = { 0 };
    va_list arguments;
    va_start(arguments, format);
    strbuf_vprintf(&text, format, arguments);
    va_end(arguments);
    char *cell = text.failed ? NULL : arena_text(&table->arena, text.text != NULL ? text.text : "");
    strbuf_free(&text);
    if (cell != NULL) {
        make_printable(cell, true); /* names come from files */
    }
    if (cell == NULL || array_grow((void **)&table->items, table->count, &table->capacity, 1, sizeof *table->items,
                                   NULL) != STATUS_OK) {
        table->failed = true;
        return;
    }
    table->items[table->count++] = cell;
}

void text_table_number(struct text_table *table, double value, int digits)
{
    if (fabs(value) < 1e15 && fabs(value - nearbyint(value)) < 1e-9 * fabs(value)) {
        text_table_cell(table, "%.0f", value);
    } else {
        char text[32];
        text_table_cell(table, "%s", text_number(value, digits, text, sizeof text));
    }
}

static void pad(struct strbuf *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        strbuf_char(out, ' ');
    }
}

/* Text that wraps between words, with the following lines indented to `column`. */
static void put_wrapped(struct strbuf *out, const char *text, size_t column, size_t width)
{
    size_t used = 0;
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (used > 0 && used + 1 + word > width) {
            strbuf_char(out, '\n');
            pad(out, column);
            used = 0;
        } else if (used > 0) {
            strbuf_char(out, ' ');
            used++;
        }
        strbuf_append_n(out, text, word);
        used += word;
        text += word + strspn(text + word, " ");
    }
}

void text_table_print(const struct text_table *table, uint32_t indent, bool head, struct strbuf *out)
{
    size_t widths[TABLE_COLUMNS_MAX] = { 0 };
    uint32_t columns = table->column_count;
    CHECK(columns >= 1 && columns <= TABLE_COLUMNS_MAX);
    if (table->failed) {
        out->failed = true;
        return;
    }
    CHECK(table->count % columns == 0);
    for (size_t i = 0; i < table->count; i++) {
        size_t length = strlen(table->items[i]);
        widths[i % columns] = length > widths[i % columns] ? length : widths[i % columns];
    }
    size_t before_last = indent;
    for (uint32_t c = 0; c + 1 < columns; c++) {
        before_last += widths[c] + 2;
    }
    for (size_t row = 0; row * columns < table->count; row++) {
        pad(out, indent);
        for (uint32_t c = 0; c < columns; c++) {
            const char *cell = table->items[row * columns + c];
            size_t gap = widths[c] - strlen(cell);
            bool right = (table->right >> c & 1u) != 0, last = c + 1 == columns;
            pad(out, right ? gap : 0);
            if (last && table->last_width > 0 && !right) {
                put_wrapped(out, cell, before_last, table->last_width);
            } else {
                strbuf_append(out, cell);
            }
            pad(out, last ? 0 : (right ? 0 : gap) + 2);
        }
        /* no blanks at line ends */
        while (out->length > 0 && !out->failed && out->text[out->length - 1] == ' ') {
            out->text[--out->length] = '\0';
        }
        strbuf_char(out, '\n');
        if (row == 0 && head) {
            pad(out, indent);
            for (uint32_t c = 0; c < columns; c++) {
                size_t width = c + 1 == columns && table->last_width > 0 && widths[c] > table->last_width
                                   ? table->last_width
                                   : widths[c];
                for (size_t k = 0; k < width; k++) {
                    strbuf_char(out, '-');
                }
                if (c + 1 < columns) {
                    strbuf_append(out, "  ");
                }
            }
            strbuf_char(out, '\n');
        }
    }
}

void text_table_free(struct text_table *table)
{
    arena_free(&table->arena);
    array_release((void **)&table->items, &table->count, &table->capacity);
}
