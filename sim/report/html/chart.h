/* Pictures with axes as inline SVG: a figure with a title and a description for those who do not see it, a box that scrolls where the screen is narrow, and a caption.
 *
 *     struct chart c = { .h = &h, .height = 300, .left = 90, .x = { 0, 13.7 }, .y = { 0, 80 } };
 *     chart_begin(&c, "Memory over time", "The fullest device holds ...");
 *     chart_axis_x(&c, "time (s)"); chart_axis_y(&c, "memory (GiB)");  ... shapes at chart_x(&c, v), chart_y(&c, v) ...
 *     chart_end(&c, "Caption.");
 *
 * Units are those of the viewBox, CHART_WIDTH wide; type is 14 of them. */
#ifndef MEMWALL_REPORT_HTML_CHART_H
#define MEMWALL_REPORT_HTML_CHART_H

#include "sim/report/html/html.h"

enum { CHART_WIDTH = 960, CHART_RIGHT = 18, CHART_TOP = 18, CHART_FOOT = 46 };

struct chart_range {
    double from, to; /* from < to; both > 0 when logarithmic */
    bool logarithmic;
};

struct chart {
    struct html *h;
    double height, left; /* of the picture; the margin for labels */
    struct chart_range x, y;
    const char *time_unit; /* the x axis is time: the script shows it under the pointer; NULL: it is not */
};

void chart_begin(const struct chart *c, const char *title, const char *description);
void chart_end(const struct chart *c, const char *caption);
double chart_x(const struct chart *c, double value);
double chart_y(const struct chart *c, double value);
/* Grid lines, numbers, what it is. */
void chart_axis_x(const struct chart *c, const char *label);
void chart_axis_y(const struct chart *c, const char *label);
/* anchor: "start", "middle", "end"; class NULL: none. */
void chart_text(const struct chart *c, double x, double y, const char *anchor, const char *class_name,
                const char *text);
void chart_line(const struct chart *c, double x1, double y1, double x2, double y2, const char *class_name);

/* A range that holds both ends with a little room: from 0 where the least is below half of the most, logarithmic where one is more than 30 times the other. */
struct chart_range chart_range_of(double least, double most);

#endif
