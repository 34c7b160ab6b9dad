#include "sim/report/html/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plots/svg.h"
#include "sim/base/check.h"

static double position(const struct html_range *range, double value)
{
    return range->logarithmic ? log(value / range->from) / log(range->to / range->from)
                              : (value - range->from) / (range->to - range->from);
}

double html_chart_x(const struct html_chart *c, double value)
{
    return c->left + (HTML_CHART_WIDTH - c->left - HTML_CHART_RIGHT) * position(&c->x, value);
}

double html_chart_y(const struct html_chart *c, double value)
{
    double bottom = c->height - HTML_CHART_FOOT;
    return bottom - (bottom - HTML_CHART_TOP) * position(&c->y, value);
}

static void put_details(struct html *h, const char *table_id)
{
    if (table_id != NULL) {
        html_attr(h, "aria-details", table_id);
    }
}

void html_small_begin(struct html *h, const char *title, const char *table_id)
{
    uint32_t id = html_new_id(h);
    html_open(h, "figure");
    html_open(h, "svg");
    html_attr(h, "xmlns", "http://www.w3.org/2000/svg");
    html_attr(h, "viewBox", "0 0 240 92");
    html_attr(h, "role", "img");
    html_attr_printf(h, "aria-labelledby", "t%u", id);
    put_details(h, table_id);
    html_open(h, "title");
    html_attr_printf(h, "id", "t%u", id);
    html_text(h, title);
    html_close(h, "title");
}

void html_small_end(struct html *h, const char *caption)
{
    html_close(h, "svg");
    html_leaf(h, "figcaption", NULL, caption);
    html_close(h, "figure");
}

void html_chart_begin(const struct html_chart *c, const char *title, const char *description)
{
    struct html *h = c->h;
    uint32_t id = html_new_id(h);
    CHECK(c->x.from < c->x.to && c->y.from < c->y.to);
    html_open(h, "figure");
    html_open(h, "div");
    html_attr(h, "class", "scroll");
    html_attr(h, "tabindex", "0");
    html_attr(h, "role", "region");
    html_attr(h, "aria-label", title);
    html_open(h, "svg");
    html_attr(h, "xmlns", "http://www.w3.org/2000/svg");
    html_attr(h, "class", "wide");
    html_attr_printf(h, "viewBox", "0 0 %d %.0f", HTML_CHART_WIDTH, c->height);
    html_attr(h, "font-size", "14");
    html_attr(h, "role", "img");
    html_attr_printf(h, "aria-labelledby", "t%u", id);
    html_attr_printf(h, "aria-describedby", "d%u", id);
    put_details(h, c->table_id);
    if (c->time_unit != NULL) {
        html_attr(h, "data-unit", c->time_unit);
        html_attr_real(h, "data-left", c->left);
        html_attr_real(h, "data-width", HTML_CHART_WIDTH - c->left - HTML_CHART_RIGHT);
        html_attr_printf(h, "data-from", "%.9g", c->x.from);
        html_attr_printf(h, "data-to", "%.9g", c->x.to);
        html_attr_real(h, "data-top", HTML_CHART_TOP);
        html_attr_real(h, "data-bottom", c->height - HTML_CHART_FOOT);
    }
    html_open(h, "title");
    html_attr_printf(h, "id", "t%u", id);
    html_text(h, title);
    html_close(h, "title");
    html_open(h, "desc");
    html_attr_printf(h, "id", "d%u", id);
    html_text(h, description);
    html_close(h, "desc");
}

void html_chart_end(const struct html_chart *c, const char *caption)
{
    html_close(c->h, "svg");
    html_close(c->h, "div");
    html_leaf(c->h, "figcaption", NULL, caption);
    html_close(c->h, "figure");
}

void html_chart_text(const struct html_chart *c, double x, double y, const char *anchor, const char *class_name,
                     const char *text)
{
    html_open(c->h, "text");
    html_attr_real(c->h, "x", x);
    html_attr_real(c->h, "y", y);
    if (strcmp(anchor, "start") != 0) {
        html_attr(c->h, "text-anchor", anchor);
    }
    if (class_name != NULL) {
        html_attr(c->h, "class", class_name);
    }
    html_text(c->h, text);
    html_close(c->h, "text");
}

void html_chart_line(const struct html_chart *c, double x1, double y1, double x2, double y2, const char *class_name)
{
    html_open(c->h, "line");
    html_attr_real(c->h, "x1", x1);
    html_attr_real(c->h, "y1", y1);
    html_attr_real(c->h, "x2", x2);
    html_attr_real(c->h, "y2", y2);
    html_attr(c->h, "class", class_name);
    html_close(c->h, "line");
}

enum { TICKS_MAX = 64 };

static uint32_t ticks(const struct html_range *range, uint32_t wanted, double *values)
{
    uint32_t count = 0;
    if (!range->logarithmic) {
        double step = svg_tick_step((range->to - range->from) / wanted, false);
        for (double i = ceil(range->from / step - 1e-9); i * step <= range->to * (1 + 1e-12) && count < TICKS_MAX;
             i++) {
            values[count++] = i * step + 0.0; /* no -0 */
        }
        return count;
    }
    for (double power = pow(10, floor(log10(range->from))); power <= range->to && count + 3 < TICKS_MAX; power *= 10) {
        static const double digits[] = { 1, 2, 5 };
        for (size_t i = 0; i < 3; i++) {
            double value = power * digits[i];
            if (value >= range->from && value <= range->to) {
                values[count++] = value;
            }
        }
    }
    return count;
}

static const char *number(double value, char *text, size_t size)
{
    snprintf(text, size, fabs(value) >= 1e4 && fabs(value) < 1e7 ? "%.0f" : "%.6g", value);
    return text;
}

void html_chart_axis_x(const struct html_chart *c, const char *label)
{
    double values[TICKS_MAX], bottom = c->height - HTML_CHART_FOOT, last = -1e9;
    char text[32];
    uint32_t count = ticks(&c->x, 10, values);
    for (uint32_t i = 0; i < count; i++) {
        double x = html_chart_x(c, values[i]);
        html_chart_line(c, x, HTML_CHART_TOP, x, bottom + 4, "grid");
        if (x - last >= 52) {
            html_chart_text(c, x, bottom + 19, "middle", "soft", number(values[i], text, sizeof text));
            last = x;
        }
    }
    html_chart_line(c, c->left, bottom, HTML_CHART_WIDTH - HTML_CHART_RIGHT, bottom, "axis");
    html_chart_text(c, (c->left + HTML_CHART_WIDTH - HTML_CHART_RIGHT) / 2, c->height - 8, "middle", NULL, label);
}

void html_chart_axis_y(const struct html_chart *c, const char *label)
{
    double values[TICKS_MAX], last = 1e9;
    char text[32];
    uint32_t count = ticks(&c->y, 6, values);
    for (uint32_t i = 0; i < count; i++) {
        double y = html_chart_y(c, values[i]);
        html_chart_line(c, c->left - 4, y, HTML_CHART_WIDTH - HTML_CHART_RIGHT, y, "grid");
        if (last - y >= 18) {
            html_chart_text(c, c->left - 8, y + 5, "end", "soft", number(values[i], text, sizeof text));
            last = y;
        }
    }
    html_open(c->h, "text");
    html_attr_printf(c->h, "transform", "translate(16 %.0f) rotate(-90)",
                     (HTML_CHART_TOP + c->height - HTML_CHART_FOOT) / 2);
    html_attr(c->h, "text-anchor", "middle");
    html_text(c->h, label);
    html_close(c->h, "text");
}

struct html_range html_range_of(double least, double most)
{
    if (least > 0 && most / least > 30) {
        return (struct html_range){ least / 1.1, most * 1.1, true };
    }
    double room = most > least ? 0.05 * (most - least) : 0.1 * fabs(most) + 1e-9;
    double from = least - room;
    if (least >= 0 && least < 0.5 * most) {
        from = 0;
    }
    return (struct html_range){ from, most + room, false };
}
