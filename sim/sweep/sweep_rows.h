/* Rows of a query on a sweep database, as text, CSV or JSON: for sim/sweep/sweep_query.c. */
#ifndef MEMWALL_SWEEP_SWEEP_ROWS_H
#define MEMWALL_SWEEP_SWEEP_ROWS_H

#include <sqlite3.h>
#include <stdint.h>

#include "sim/base/strbuf.h"
#include "sim/sweep/sweep_query.h"

/* Steps through `statement`, whose columns are those of a view of a sweep, to its end: *rows of them. Text: the axes, a few figures and those of `asked` (a bit an enum sweep_figure: what the rows are
 * ranked by), then why rows did not run, each reason once. Returns SQLite's code after the last row: SQLITE_DONE, or what went wrong. Lack of memory is out->failed. */
int sweep_rows_print(sqlite3_stmt *statement, enum sweep_format format, uint64_t asked, struct strbuf *out,
                     uint64_t *rows);

#endif
