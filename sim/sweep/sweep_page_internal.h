/* What the parts of a sweep's report share. */
#ifndef MEMWALL_SWEEP_SWEEP_PAGE_INTERNAL_H
#define MEMWALL_SWEEP_SWEEP_PAGE_INTERNAL_H

#include "sim/report/html/chart.h"
#include "sim/report/html/page.h"
#include "sim/sweep/sweep_page.h"
#include "sim/sweep/sweep_page_data.h"

enum { TEXT_BYTES = 512 };

struct sweep_page {
    struct html *h;
    const struct sweep_page_data *data;
    const struct sweep_page_request *request;
    const char *version;
};

/* A table of rows as sweep_query_print gives them: axes, a few figures, what binds. `table_id` for pictures that show the same; NULL: none. */
void sweep_page_rows(const struct sweep_page *p, const char *table_id, struct json_document *document,
                     const char *caption);
void sweep_page_pareto(const struct sweep_page *p);
void sweep_page_effects(const struct sweep_page *p);

#endif
