#include "sim/report/html/csv_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"

static enum status complain(const struct csv_reader *reader, struct error *error, const char *what, const char *found)
{
    enum status status =
        error_at(error, STATUS_BAD_INPUT, reader->file, NULL, "%s%s%.80s%s", what, found != NULL ? ", found \"" : "",
                 found != NULL ? found : "", found != NULL ? "\"" : "");
    if (error != NULL) {
        error->line = reader->line;
    }
    return status;
}

/* Ends the cell at *at, unquoted, and moves behind its comma or line end; *last: it was the line's last. False: a quote that does not end, or text behind one. */
static bool take_cell(char **at, char **cell, bool *last)
{
    char *from = *at, *to = *at;
    *cell = to;
    if (*from == '"') {
        from++;
        while (*from != '\0' && (*from != '"' || from[1] == '"')) {
            from += *from == '"';
            *to++ = *from++;
        }
        if (*from != '"') {
            return false;
        }
        from++;
    } else {
        from += strcspn(from, ",\r\n");
        to = from;
    }
    if (from[0] == '\r' && from[1] == '\n') {
        from++;
    }
    char stop = *from;
    if (stop != '\0' && stop != ',' && stop != '\n') {
        return false;
    }
    *last = stop != ',';
    *at = from + (stop != '\0');
    *to = '\0';
    if (to > *cell && to[-1] == '\r') {
        to[-1] = '\0';
    }
    return true;
}

/* One line into cells. */
static enum status take_line(struct csv_reader *reader, char **cells, uint32_t *count, struct error *error)
{
    bool last = false;
    reader->line++;
    for (*count = 0; !last; ++*count) {
        if (*count == CSV_COLUMNS_MAX) {
            return complain(reader, error, "more columns than any table of memwall has", NULL);
        }
        if (!take_cell(&reader->at, &cells[*count], &last)) {
            return complain(reader, error, "a quoted cell does not end", NULL);
        }
    }
    return STATUS_OK;
}

enum status csv_read_header(struct csv_reader *reader, char *text, const char *file, struct error *error)
{
    *reader = (struct csv_reader){ .at = text, .file = file };
    TRY(take_line(reader, reader->cells, &reader->columns, error));
    for (uint32_t i = 0; i < reader->columns; i++) {
        reader->names[i] = reader->cells[i];
    }
    return reader->names[0][0] != '\0' ? STATUS_OK : complain(reader, error, "expected a row of column names", NULL);
}

enum status csv_read_column(const struct csv_reader *reader, const char *name, uint32_t *column, struct error *error)
{
    for (*column = 0; *column < reader->columns; ++*column) {
        if (strcmp(reader->names[*column], name) == 0) {
            return STATUS_OK;
        }
    }
    return error_at(error, STATUS_BAD_INPUT, reader->file, NULL, "there is no column \"%s\": not a table of memwall",
                    name);
}

enum status csv_read_row(struct csv_reader *reader, bool *found, struct error *error)
{
    uint32_t count = 0;
    *found = *reader->at != '\0';
    if (!*found) {
        return STATUS_OK;
    }
    TRY(take_line(reader, reader->cells, &count, error));
    return count == reader->columns ? STATUS_OK
                                    : complain(reader, error, "this row has not as many cells as the header", NULL);
}

enum status csv_read_number(const struct csv_reader *reader, uint32_t column, double most, double absent, double *value,
                            struct error *error)
{
    const char *text = reader->cells[column];
    char *end;
    if (text[0] == '\0' && absent >= 0) {
        *value = absent;
        return STATUS_OK;
    }
    *value = strtod(text, &end);
    if (end == text || *end != '\0' || !(*value >= 0 && *value <= most)) {
        char what[96];
        snprintf(what, sizeof what, "expected a number from 0 to %g", most);
        return complain(reader, error, what, text);
    }
    return STATUS_OK;
}
