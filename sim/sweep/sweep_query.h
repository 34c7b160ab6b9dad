/* Reading a sweep database back: which rows, in which order, as text, CSV or JSON. */
#ifndef MEMWALL_SWEEP_SWEEP_QUERY_H
#define MEMWALL_SWEEP_SWEEP_QUERY_H

#include "sim/sweep/sweep_database.h"

enum sweep_format { SWEEP_TEXT, SWEEP_CSV, SWEEP_JSON };

struct sweep_query {
    int64_t sweep;     /* its number; 0: the only one there is, else the table results */
    const char *where; /* an SQL expression over the columns of the sweep's view, or NULL */
    const char *by;    /* a figure to rank by; NULL: tokens_per_s */
    const char *
        pareto; /* figures, separated by commas: only rows that no other row beats in all of them; NULL: all. "cost" is cost_usd_per_trillion_tokens */
    uint64_t top; /* so many of the best that are done; 0: all, in the order of the points */
    enum sweep_format format;
};

/* Rows of the database's version. `notes`: what was left out and why, a line each. JSON: an array. STATUS_BAD_INPUT: no such column, figure or sweep; not an expression. */
enum status sweep_query_print(struct sweep_database *database, const struct sweep_query *query, struct strbuf *out,
                              uint64_t *rows, struct strbuf *notes, struct error *error);

#endif
