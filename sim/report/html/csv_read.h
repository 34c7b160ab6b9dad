/* Reading the tables that csv.h writes: RFC 4180, one header row. */
#ifndef MEMWALL_REPORT_HTML_CSV_READ_H
#define MEMWALL_REPORT_HTML_CSV_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/status.h"

enum { CSV_COLUMNS_MAX = 64 };

struct csv_reader {
    char *at;         /* into the text, which is changed: cells are unquoted and terminated in place */
    const char *file; /* for messages */
    uint32_t line;    /* of the row read last, from 1 */
    uint32_t columns; /* of the header */
    const char *names[CSV_COLUMNS_MAX];
    char *cells[CSV_COLUMNS_MAX]; /* of the row read last; borrowed from the text */
};

/* Reads the header of NUL-terminated `text`. STATUS_BAD_INPUT: none, too many columns. */
enum status csv_read_header(struct csv_reader *reader, char *text, const char *file, struct error *error);
/* The column of this name; STATUS_BAD_INPUT when there is none. */
enum status csv_read_column(const struct csv_reader *reader, const char *name, uint32_t *column, struct error *error);
/* The next row; *found false at the end. STATUS_BAD_INPUT: another count of cells than the header's, a quote that does not end. */
enum status csv_read_row(struct csv_reader *reader, bool *found, struct error *error);
/* A cell as a number from 0 to `most`. An empty one: *value is `absent`, or an error when that is negative. */
enum status csv_read_number(const struct csv_reader *reader, uint32_t column, double most, double absent, double *value,
                            struct error *error);

#endif
