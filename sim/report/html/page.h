/* The frame of a report: head, style, the way around, and its end. One file, nothing from outside; all can be read without the script, which adds a time under the pointer (or arrow keys) to the
 * pictures and opens what is folded before printing. Light and dark by the reader's setting, on paper always light; from 400 pixels wide to 4k. */
#ifndef MEMWALL_REPORT_HTML_PAGE_H
#define MEMWALL_REPORT_HTML_PAGE_H

#include "plots/palette.h"
#include "sim/report/html/html.h"

struct page_link {
    const char *id, *title; /* of a section; title NULL ends the list */
};

void page_begin(struct html *h, const char *title, const char *subtitle, const struct page_link *links);
void page_section(struct html *h, const struct page_link *link);
void page_section_end(struct html *h);
void page_end(struct html *h, const char *version);

/* Opens what a reader unfolds: html_close(h, "details") ends it. */
void page_details(struct html *h, const char *summary);
/* With an id that pictures can name (chart.h); NULL: none. */
void page_details_named(struct html *h, const char *id, const char *summary);
/* One figure of the answer: what, the figure, a line below (NULL: none). `value` NAN: text alone. */
void page_card(struct html *h, const char *what, double value, const char *text, const char *below);

/* The class of a palette's colour, for fill and ground: "#0072B2" as "k0072B2". */
enum { PAGE_COLOUR_BYTES = 8 };
const char *page_colour(const char *colour, char name[PAGE_COLOUR_BYTES]);
/* A list of colours and what they mean. */
void page_legend(struct html *h, const struct palette_look *const *looks, uint32_t count);

#endif
