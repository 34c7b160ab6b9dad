/* Pictures with axes as inline SVG: a figure with a title and a description for those who do not see it, a box that scrolls where the screen is narrow, and a caption.
 *
 *     struct html_chart c = { .h = &h, .height = 300, .left = 90, .x = { 0, 13.7 }, .y = { 0, 80 } };
 *     html_chart_begin(&c, "Memory over time", "The fullest device holds ...");
 *     html_chart_axis_x(&c, "time (s)"); html_chart_axis_y(&c, "memory (GiB)");  ... shapes at html_chart_x(&c, v), html_chart_y(&c, v) ...
 *     html_chart_end(&c, "Caption.");
 *
 * Units are those of the viewBox, HTML_CHART_WIDTH wide; type is 14 of them. */
#ifndef MEMWALL_REPORT_HTML_CHART_H
#define MEMWALL_REPORT_HTML_CHART_H

#include "sim/report/html/html.h"

enum { HTML_CHART_WIDTH = 960, HTML_CHART_RIGHT = 18, HTML_CHART_TOP = 18, HTML_CHART_FOOT = 46 };

struct html_range {
    double from, to; /* from < to; both > 0 when logarithmic */
    bool logarithmic;
};

struct html_chart {
    struct html *h;
    double height, left; /* of the picture; the margin for labels */
    struct html_range x, y;
    const char *time_unit; /* the x axis is time: the script shows it under the pointer; NULL: it is not */
    const char *table_id;  /* of the element that says the same in figures (aria-details); NULL: there is none */
};

/* A picture among many, 240 by 92 without axes: shapes between; the caption says what a reader of the axes would. `table_id` as in html_chart. */
void html_small_begin(struct html *h, const char *title, const char *table_id);
void html_small_end(struct html *h, const char *caption);

void html_chart_begin(const struct html_chart *c, const char *title, const char *description);
void html_chart_end(const struct html_chart *c, const char *caption);
double html_chart_x(const struct html_chart *c, double value);
double html_chart_y(const struct html_chart *c, double value);
/* Grid lines, numbers, what it is. */
void html_chart_axis_x(const struct html_chart *c, const char *label);
void html_chart_axis_y(const struct html_chart *c, const char *label);
/* anchor: "start", "middle", "end"; class NULL: none. */
void html_chart_text(const struct html_chart *c, double x, double y, const char *anchor, const char *class_name,
                     const char *text);
void html_chart_line(const struct html_chart *c, double x1, double y1, double x2, double y2, const char *class_name);

/* A range that holds both ends with a little room: from 0 where the least is below half of the most, logarithmic where one is more than 30 times the other. */
struct html_range html_range_of(double least, double most);

#endif
