#include "sim/sweep/sweep_rows.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/json_write.h"
#include "sim/base/printable.h"
#include "sim/base/units.h"
#include "sim/report/csv.h"
#include "sim/report/text_table.h"
#include "sim/sweep/sweep_row.h"

static const char *cell_text(sqlite3_stmt *statement, int column, char buffer[32])
{
    if (sqlite3_column_type(statement, column) == SQLITE_FLOAT) {
        return text_real(sqlite3_column_double(statement, column), buffer, 32);
    }
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text != NULL ? text : "";
}

static void print_json_row(sqlite3_stmt *statement, struct json_writer *w)
{
    jw_object(w, NULL);
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
        const char *name = sqlite3_column_name(statement, i);
        int type = sqlite3_column_type(statement, i);
        /* No figure of ours is infinite, but any client may have written to the file. */
        switch (type == SQLITE_FLOAT && !isfinite(sqlite3_column_double(statement, i)) ? SQLITE_NULL : type) {
        case SQLITE_INTEGER: jw_int(w, name, sqlite3_column_int64(statement, i)); break;
        case SQLITE_FLOAT: jw_real(w, name, sqlite3_column_double(statement, i)); break;
        case SQLITE_NULL: jw_null(w, name); break;
        default: jw_string(w, name, (const char *)sqlite3_column_text(statement, i)); break;
        }
    }
    jw_end(w);
}

static void print_csv_row(sqlite3_stmt *statement, bool head, struct strbuf *out)
{
    char buffer[32];
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
        strbuf_append(out, i > 0 ? "," : "");
        csv_text(out, head ? sqlite3_column_name(statement, i) : cell_text(statement, i, buffer));
    }
    strbuf_char(out, '\n');
}

#define BIT(figure) (UINT64_C(1) << (figure))
static_assert(SWEEP_FIGURE_COUNT <= 64, "a bit a figure");
static const uint64_t ALWAYS =
    BIT(FIGURE_step_time_s) | BIT(FIGURE_tokens_per_s) | BIT(FIGURE_mfu) | BIT(FIGURE_peak_bytes);

/* The columns that a terminal has room for: the axes (all before "version"), a few figures, and those asked for. */
static bool is_for_terminal(sqlite3_stmt *statement, int column, uint64_t asked)
{
    const char *name = sqlite3_column_name(statement, column);
    int axes = 0, room = TABLE_COLUMNS_MAX - 5 - __builtin_popcountll(asked & ~ALWAYS);
    while (axes < sqlite3_column_count(statement) && strcmp(sqlite3_column_name(statement, axes), "version") != 0) {
        axes++;
    }
    if (column < axes) {
        return column >= 1 && column <= room; /* without "point" */
    }
    for (int i = 0; i < SWEEP_FIGURE_COUNT; i++) {
        if (((asked | ALWAYS) & BIT(i)) != 0 && strcmp(name, sweep_figures[i].name) == 0) {
            return true;
        }
    }
    return strcmp(name, "status") == 0 || (axes == 0 && strcmp(name, "hash") == 0);
}

static bool ends_in(const char *name, const char *end)
{
    return strlen(name) >= strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0;
}

static void text_cells(sqlite3_stmt *statement, bool head, uint64_t asked, struct text_table *table)
{
    char buffer[32];
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
        const char *name = sqlite3_column_name(statement, i);
        bool is_null = !head && sqlite3_column_type(statement, i) == SQLITE_NULL;
        if (!is_for_terminal(statement, i, asked)) {
            continue;
        }
        if (head) {
            text_table_cell(table, "%s",
                            strcmp(name, "step_time_s") == 0    ? "step"
                            : strcmp(name, "tokens_per_s") == 0 ? "tokens/s"
                            : strcmp(name, "peak_bytes") == 0   ? "peak"
                                                                : name);
        } else if (is_null) {
            text_table_cell(table, "-");
        } else if (strcmp(name, "step_time_s") == 0) {
            text_table_cell(table, "%s",
                            text_time_ps(ps_nearest_s(sqlite3_column_double(statement, i)), buffer, sizeof buffer));
        } else if (ends_in(name, "peak_bytes") || ends_in(name, "reserved_bytes")) {
            text_table_cell(table, "%s", text_bytes(sqlite3_column_double(statement, i), buffer, sizeof buffer));
        } else if (sqlite3_column_type(statement, i) == SQLITE_FLOAT) {
            text_table_number(table, sqlite3_column_double(statement, i), 4);
        } else {
            text_table_cell(table, "%.40s", cell_text(statement, i, buffer));
        }
    }
}

/* Why rows did not run, each reason once: under the table, whose columns are too narrow for it. */
static void add_reason(sqlite3_stmt *statement, struct strbuf *reasons)
{
    enum { ENOUGH_BYTES = 4096 };
    char why[1000], line[1024];
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
        const char *text = (const char *)sqlite3_column_text(statement, i);
        if (strcmp(sqlite3_column_name(statement, i), "reason") != 0 || text == NULL || text[0] == '\0') {
            continue;
        }
        snprintf(why, sizeof why, "%s", text);
        make_printable(why, true);
        snprintf(line, sizeof line, "  %s\n", why);
        if (reasons->length < ENOUGH_BYTES && (reasons->text == NULL || strstr(reasons->text, line) == NULL)) {
            strbuf_append(reasons, line);
        }
    }
}

int sweep_rows_print(sqlite3_stmt *statement, enum sweep_format format, uint64_t asked, struct strbuf *out,
                     uint64_t *rows)
{
    struct json_writer w = { .out = out };
    struct text_table table = { 0 };
    struct strbuf reasons = { 0 };
    int code;
    *rows = 0;
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
        bool shown = is_for_terminal(statement, i, asked);
        table.right |= shown ? 1u << table.column_count : 0;
        table.column_count += shown;
    }
    if (format == SWEEP_JSON) {
        jw_array(&w, NULL);
    } else if (format == SWEEP_CSV) {
        print_csv_row(statement, true, out);
    } else {
        text_cells(statement, true, asked, &table);
    }
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        ++*rows;
        if (format == SWEEP_JSON) {
            print_json_row(statement, &w);
        } else if (format == SWEEP_CSV) {
            print_csv_row(statement, false, out);
        } else {
            text_cells(statement, false, asked, &table);
            add_reason(statement, &reasons);
        }
    }
    if (format == SWEEP_JSON) {
        jw_end(&w);
    } else if (format == SWEEP_TEXT && *rows > 0) {
        text_table_print(&table, 2, true, out);
        strbuf_append(out, reasons.length > 0 ? "\nReasons, each once:\n" : "");
        strbuf_append(out, reasons.length > 0 ? reasons.text : "");
    }
    out->failed = out->failed || table.failed || reasons.failed;
    strbuf_free(&reasons);
    text_table_free(&table);
    return code;
}
