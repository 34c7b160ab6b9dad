/* The report of a step as one HTML file: the answer first, then the timeline, memory, links, what binds, cost, assumptions with their sources, how to repeat it. */
#ifndef MEMWALL_REPORT_HTML_STEP_PAGE_H
#define MEMWALL_REPORT_HTML_STEP_PAGE_H

#include "sim/report/html/step_source.h"

/* `version`: of this memwall; `command`: that made the page. Errors: memory alone. */
enum status step_page_print(const struct step_source *source, const char *version, const char *command,
                            struct strbuf *out, struct error *error);

/* A command line that a shell reads as `words`, into `out`. */
void page_command(const char *const *words, uint32_t count, struct strbuf *out);

#endif
