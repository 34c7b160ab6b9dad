/* The report of a sweep as one HTML file: the best rows, step time against memory with its Pareto front, what does not fit or fails and why, what each axis does, how to repeat it. */
#ifndef MEMWALL_SWEEP_SWEEP_PAGE_H
#define MEMWALL_SWEEP_SWEEP_PAGE_H

#include "sim/sweep/sweep_database.h"

struct sweep_page_request {
    const char *file, *command; /* of the database; that makes the page */
    int64_t sweep;              /* its number; 0: the only one there is */
};

/* Into `out`; *fits: at least one row is done. STATUS_BAD_INPUT: no sweep, several and none chosen (says which there are), rows of other versions alone, a damaged file. */
enum status sweep_page_print(struct sweep_database *database, const struct sweep_page_request *request,
                             struct strbuf *out, bool *fits, struct error *error);

#endif
