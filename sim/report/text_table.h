/* An aligned table for a terminal: cells are collected first, so that every column is as wide as its widest cell.
 *
 *     struct text_table table = { .column_count = 2, .right = 1u << 1 };   // the second column to the right
 *     text_table_cell(&table, "name"); text_table_cell(&table, "bytes");    // the first row is the head
 *     ...
 *     text_table_print(&table, 2, true, &out);
 *     text_table_free(&table);
 *
 * Running out of memory shows in `failed`, and in out->failed after printing. */
#ifndef MEMWALL_REPORT_TEXT_TABLE_H
#define MEMWALL_REPORT_TEXT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/arena.h"
#include "sim/base/strbuf.h"

enum { TABLE_COLUMNS_MAX = 16 };

struct text_table {
    uint32_t column_count; /* <= TABLE_COLUMNS_MAX */
    uint32_t right;        /* mask of right-aligned columns */
    uint32_t last_width;   /* the last column wraps at so many characters; 0: never */
    const char **items;    /* cells, row after row */
    size_t count, capacity;
    bool failed;
    struct arena arena;
};

/* Control characters become spaces. */
void text_table_cell(struct text_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A cell as JSON and text alike know it: integers plain, others with up to `digits` significant digits. */
void text_table_number(struct text_table *table, double value, int digits);
/* Rows are complete (asserted). `head`: a rule under the first row. */
void text_table_print(const struct text_table *table, uint32_t indent, bool head, struct strbuf *out);
void text_table_free(struct text_table *table);

#endif
