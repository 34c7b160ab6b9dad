/* The parts of a step's report: each writes the inside of its section; whether it has anything to say is asked first. */
#ifndef MEMWALL_REPORT_HTML_STEP_PAGE_INTERNAL_H
#define MEMWALL_REPORT_HTML_STEP_PAGE_INTERNAL_H

#include "sim/report/html/chart.h"
#include "sim/report/html/page.h"
#include "sim/report/html/step_page.h"

enum { PAGE_TEXT_BYTES = 512 };

/* The table that says in figures what the timeline shows. */
#define STEP_CAUSES_ID "causes-table"

void step_answer(struct html *h, const struct step_source *source);
enum status step_timeline(struct html *h, const struct step_source *source, struct error *error);
void step_memory(struct html *h, const struct step_source *source);
void step_links(struct html *h, const struct step_source *source);
void step_causes(struct html *h, const struct step_source *source);
void step_binds(struct html *h, const struct step_source *source);
void step_cost(struct html *h, const struct step_source *source);
void step_certainty(struct html *h, const struct step_source *source);
void step_sources(struct html *h, const struct step_source *source);
void step_repeat(struct html *h, const struct step_source *source, const char *version, const char *command);

/* A cell with the fact, or with `absent` where it is NULL. */
void step_fact_cell(struct html *h, const struct step_fact *fact, const char *absent);
/* A table of the facts of a study, without those `said` already ([count]; NULL: none). */
void step_facts_put(struct html *h, const struct step_facts *facts, const bool *said, const char *caption);

/* Three significant figures with their unit: "13.7 s" of seconds, "61.2 GiB" of bytes, "23.4 %" of a share, "274 GB/s" of bytes a second: into `text`, which is returned. Bytes of one column
 * have the unit of its largest (page_bytes_as). */
const char *page_time(double seconds, char text[PAGE_TEXT_BYTES]);
const char *page_bytes(double bytes, char text[PAGE_TEXT_BYTES]);
const char *page_bytes_as(double bytes, double largest, char text[PAGE_TEXT_BYTES]);
const char *page_rate(double bytes_per_s, char text[PAGE_TEXT_BYTES]);
const char *page_share(double share, char text[PAGE_TEXT_BYTES]);

#endif
