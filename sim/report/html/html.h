/* Writing HTML that is XML as well: elements nest by construction, every text and attribute is escaped.
 *
 *     struct html h = { .out = &buffer };
 *     html_open(&h, "p"); html_attr(&h, "class", "note"); html_text(&h, "a < b"); html_close(&h, "p");
 *     html_finish(&h);                                    // asserts that everything is closed
 *
 * Attributes come right after html_open. Text that is no UTF-8, and characters that XML has not, become U+FFFD. SVG elements are written like all others. Wrong nesting asserts; running out
 * of memory shows in out->failed. */
#ifndef MEMWALL_REPORT_HTML_HTML_H
#define MEMWALL_REPORT_HTML_HTML_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/strbuf.h"

enum { HTML_DEPTH_MAX = 32 };

struct html {
    struct strbuf *out;
    const char *open[HTML_DEPTH_MAX]; /* borrowed: literals */
    uint32_t depth;
    bool in_tag;      /* the start tag is not closed yet */
    uint32_t id;      /* the last one given out by html_new_id */
    uint64_t numbers; /* of the open table: bit i is set where column i holds numbers; columns after the 64th do not */
    uint32_t column;  /* of the open row: cells that it has */
};

void html_open(struct html *h, const char *tag);
void html_attr(struct html *h, const char *name, const char *value);
void html_attr_printf(struct html *h, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A coordinate: at most two decimals. */
void html_attr_real(struct html *h, const char *name, double value);
void html_text(struct html *h, const char *text);
/* The same with commas in whole numbers of five and more digits ("12,288 x 49,152"); what hangs on letters, slashes and points stays. */
void html_text_grouped(struct html *h, const char *text);
void html_printf(struct html *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ready text into the open element, as it is: path data, style sheets, scripts without < and &. */
void html_raw(struct html *h, const char *text);
void html_close(struct html *h, const char *tag);
/* <tag class="...">text</tag>; class NULL: none. */
void html_leaf(struct html *h, const char *tag, const char *class_name, const char *text);
/* A figure for people with the exact one behind it: <data value="13.668677637888">13.7 s</data>. */
void html_data(struct html *h, double value, const char *text);
/* A number that is unique on the page, for ids. */
uint32_t html_new_id(struct html *h);
void html_finish(struct html *h);

/* A table in a box of its own that scrolls, with a caption; the first cell of a row is its heading. Columns that hold numbers stand to the right,
 * words among them ("yes", "-") too.
 *
 *     html_table(&h, "Spaces", columns, 3); html_row(&h); html_cell(&h, "gpu 0"); html_cell_data(&h, 1.5, "1.5 GiB"); ... html_row_end(&h); html_table_end(&h); */
struct html_column {
    const char *title;
    bool number;
};
void html_table(struct html *h, const char *caption, const struct html_column *columns, uint32_t count);
/* With an id that pictures can name (chart.h); NULL: none. */
void html_table_named(struct html *h, const char *table_id, const char *caption, const struct html_column *columns,
                      uint32_t count);
void html_row(struct html *h);
void html_cell(struct html *h, const char *text);
void html_cell_data(struct html *h, double value, const char *text);
/* A bar of `share` (0 to 1) of the column's width in a colour class (palette), `text` beside it. */
void html_cell_bar(struct html *h, double share, const char *colour_class);
void html_row_end(struct html *h);
void html_table_end(struct html *h);

#endif
