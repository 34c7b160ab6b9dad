/* Links: traffic over time of the fullest, of all that differ, and the sums of the step as a table. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plots/link_bins.h"
#include "plots/time_unit.h"
#include "sim/base/units.h"
#include "sim/report/html/step_page_internal.h"

enum { LINKS_OPEN = 12, BINS = 600, SMALL_BINS = 120, SLICES = 20 };

static const char BAR[] = "k0072B2", SERIES_COLOUR[] = "#56B4E9", LINKS_ID[] = "links-table",
                  SLICES_ID[] = "traffic-table";

static const char *main_class(const struct step_link *link)
{
    uint32_t best = 0;
    for (uint32_t c = 1; c < TIME_CLASS_COUNT; c++) {
        best = link->class_bytes[c] > link->class_bytes[best] ? c : best;
    }
    return link->class_bytes[best] > 0 ? palette_time((enum time_class)best)->title : "";
}

static void put_link(struct html *h, const struct step_link *link)
{
    char text[PAGE_TEXT_BYTES];
    html_row(h);
    snprintf(text, sizeof text, link->alike > 1 ? "%.100s and %u like it" : "%.100s", link->name, link->alike - 1);
    html_cell(h, text);
    html_cell(h, link->kind);
    html_cell_data(h, link->bytes, page_bytes(link->bytes, text));
    html_cell_data(h, link->bytes_per_s, page_rate(link->bytes_per_s, text));
    html_cell_bar(h, link->use_fraction, BAR);
    html_cell_data(h, link->use_fraction, page_share(link->use_fraction, text));
    html_cell_data(h, link->busy_fraction, page_share(link->busy_fraction, text));
    html_cell(h, main_class(link));
    html_row_end(h);
}

static void put_link_table(struct html *h, const struct step_result *r, const char *id, const char *caption,
                           uint32_t from, uint32_t to)
{
    static const struct html_column columns[] = { { "link", false },
                                                  { "kind", false },
                                                  { "bytes of the step", true },
                                                  { "can carry", true },
                                                  { "share of it, in the mean", false },
                                                  { "", true },
                                                  { "busy", true },
                                                  { "mostly", false } };
    html_table_named(h, id, caption, columns, 8);
    for (uint32_t i = from; i < to; i++) {
        put_link(h, &r->links[i]);
    }
    html_table_end(h);
}

/* --- traffic over time */

static double mean_of(const double *values, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += values[i];
    }
    return sum / count;
}

static double most_of(const double *values, uint32_t count)
{
    double most = 0;
    for (uint32_t i = 0; i < count; i++) {
        most = fmax(most, values[i]);
    }
    return most;
}

static bool has_capacity(const struct traffic_link *link)
{
    return link->capacity_bytes_per_s > 0;
}

/* The link that moves most of what it could. */
static const struct traffic_link *fullest_link(const struct step_traffic *traffic, int64_t end_ps)
{
    const struct traffic_link *fullest = NULL;
    double most = -1, share;
    for (uint32_t i = 0; i < traffic->link_count; i++) {
        const struct traffic_link *link = &traffic->links[i];
        link_bins(&link->series, has_capacity(link) ? link->capacity_bytes_per_s : INFINITY, end_ps, 1, &share);
        if (share > most) {
            fullest = link;
            most = share;
        }
    }
    return fullest;
}

static const char *link_words(const struct traffic_link *link, char text[PAGE_TEXT_BYTES])
{
    const uint32_t alike = link->series.alike;
    snprintf(text, PAGE_TEXT_BYTES, alike > 1 ? "%.100s, one of %u alike" : "%.100s", link->name, alike);
    return text;
}

/* Ends the picture: what a column is, and where the capacity stands, in the picture or above it. */
static void put_big_caption(const struct html_chart *c, const struct traffic_link *link, bool limit, double column_s)
{
    char text[4 * PAGE_TEXT_BYTES], words[PAGE_TEXT_BYTES], rate[PAGE_TEXT_BYTES], time[PAGE_TEXT_BYTES];
    int length = snprintf(text, sizeof text, "%s, the fullest for its size. Each column is the mean of %s",
                          link_words(link, words), page_time(column_s, time));
    if (!has_capacity(link)) {
        snprintf(text + length, sizeof text - (size_t)length, "; nothing limits its rate.");
    } else if (limit) {
        snprintf(text + length, sizeof text - (size_t)length, "; the dashed line is what it can carry, %s.",
                 page_rate(link->capacity_bytes_per_s, rate));
    } else {
        snprintf(text + length, sizeof text - (size_t)length,
                 ", in which it is busy for a part and idle for the rest: the %s that it can carry are far above this "
                 "picture.",
                 page_rate(link->capacity_bytes_per_s, rate));
    }
    html_chart_end(c, text);
}

static void put_big(struct html *h, const struct traffic_link *link, int64_t end_ps)
{
    struct time_unit unit = plot_time_unit(s_from_ps(end_ps));
    double rates[BINS], end = s_from_ps(end_ps) * unit.per_s, capacity = link->capacity_bytes_per_s / 1e9;
    char title[PAGE_TEXT_BYTES], label[32], text[4 * PAGE_TEXT_BYTES], words[PAGE_TEXT_BYTES], mean[PAGE_TEXT_BYTES],
        high[PAGE_TEXT_BYTES], class_name[PAGE_COLOUR_BYTES];
    struct strbuf path = { 0 };
    link_bins(&link->series, 1e9, end_ps, BINS, rates);
    double most = most_of(rates, BINS);
    bool limit = has_capacity(link) && capacity < 4 * most;
    struct html_chart c = { .h = h,
                            .height = 320,
                            .left = 78,
                            .x = { 0, end, false },
                            .y = { 0,
                                   1.06 * (limit && capacity > most ? capacity
                                           : most > 0               ? most
                                                                    : 1),
                                   false },
                            .time_unit = unit.name,
                            .table_id = SLICES_ID };
    snprintf(title, sizeof title, "Traffic of %.100s over time", link->name);
    snprintf(label, sizeof label, "time (%s)", unit.name);
    snprintf(
        text, sizeof text,
        "The mean rate is %s, the highest of a %uth of the step %s; the link can carry %s. Below, the same as a table.",
        page_rate(mean_of(rates, BINS) * 1e9, mean), (unsigned)BINS, page_rate(most * 1e9, high),
        has_capacity(link) ? page_rate(link->capacity_bytes_per_s, words) : "any rate");
    html_chart_begin(&c, title, text);
    html_chart_axis_x(&c, label);
    html_chart_axis_y(&c, "rate (GB/s)");
    strbuf_printf(&path, "M%.2f %.2f", html_chart_x(&c, 0), html_chart_y(&c, 0));
    for (uint32_t i = 0; i < BINS; i++) {
        strbuf_printf(&path, "V%.2fH%.2f", html_chart_y(&c, rates[i]), html_chart_x(&c, end * (i + 1) / BINS));
    }
    strbuf_printf(&path, "V%.2fz", html_chart_y(&c, 0));
    html_open(h, "path");
    html_attr(h, "class", page_colour(SERIES_COLOUR, class_name));
    html_attr(h, "d", path.text != NULL ? path.text : "");
    html_close(h, "path");
    if (limit) {
        html_chart_line(&c, c.left, html_chart_y(&c, capacity), HTML_CHART_WIDTH - HTML_CHART_RIGHT,
                        html_chart_y(&c, capacity), "limit");
    }
    put_big_caption(&c, link, limit, s_from_ps(end_ps) / BINS);
    h->out->failed = h->out->failed || path.failed;
    strbuf_free(&path);
}

/* The big picture in figures. */
static void put_slices(struct html *h, const struct traffic_link *link, int64_t end_ps)
{
    static const struct html_column columns[] = {
        { "from", false }, { "to", true }, { "mean rate", true }, { "share of what it could carry", true }
    };
    double rates[SLICES], end_s = s_from_ps(end_ps);
    char text[PAGE_TEXT_BYTES];
    link_bins(&link->series, 1, end_ps, SLICES, rates);
    snprintf(text, sizeof text, "Traffic of %.100s over time as a table", link->name);
    page_details_named(h, SLICES_ID, text);
    snprintf(text, sizeof text, "Traffic of %.100s by twentieths of the step", link->name);
    html_table(h, text, columns, 4);
    for (uint32_t i = 0; i < SLICES; i++) {
        html_row(h);
        html_cell(h, page_time(end_s * i / SLICES, text));
        html_cell_data(h, end_s * (i + 1) / SLICES, page_time(end_s * (i + 1) / SLICES, text));
        html_cell_data(h, rates[i], page_rate(rates[i], text));
        if (has_capacity(link)) {
            double share = rates[i] / link->capacity_bytes_per_s;
            html_cell_data(h, share, page_share(share, text));
        } else {
            html_cell(h, "no limit");
        }
        html_row_end(h);
    }
    html_table_end(h);
    html_close(h, "details");
}

/* As a share of what the link can carry, all on one scale; from 1 on the capacity is a dashed line. */
static void put_small(struct html *h, const struct traffic_link *link, int64_t end_ps, double top)
{
    double shares[SMALL_BINS];
    char title[PAGE_TEXT_BYTES], words[PAGE_TEXT_BYTES], share[PAGE_TEXT_BYTES], rate[PAGE_TEXT_BYTES];
    struct strbuf path = { 0 };
    link_bins(&link->series, link->capacity_bytes_per_s, end_ps, SMALL_BINS, shares);
    strbuf_append(&path, "M0 90");
    for (uint32_t i = 0; i < SMALL_BINS; i++) {
        strbuf_printf(&path, "V%.1fH%.1f", 90 - 88 * fmin(shares[i] / top, 1), 240.0 * (i + 1) / SMALL_BINS);
    }
    strbuf_append(&path, "V90z");
    snprintf(title, sizeof title, "Use of %.100s over time", link->name);
    html_small_begin(h, title, LINKS_ID);
    html_open(h, "path");
    html_attr(h, "class", page_colour(SERIES_COLOUR, words));
    html_attr(h, "d", path.text != NULL ? path.text : "");
    html_close(h, "path");
    if (top >= 1) {
        html_open(h, "path");
        html_attr(h, "class", "limit");
        html_attr_printf(h, "d", "M0 %.1fH240", 90 - 88 / top);
        html_close(h, "path");
    }
    snprintf(title, sizeof title, "%.300s: %.100s of %.50s in the mean", link_words(link, words),
             page_share(mean_of(shares, SMALL_BINS), share), page_rate(link->capacity_bytes_per_s, rate));
    html_small_end(h, title);
    h->out->failed = h->out->failed || path.failed;
    strbuf_free(&path);
}

static void put_pictures(struct html *h, const struct step_traffic *traffic, int64_t end_ps)
{
    const struct traffic_link *fullest = fullest_link(traffic, end_ps);
    double top = 0, shares[SMALL_BINS];
    char text[PAGE_TEXT_BYTES];
    put_big(h, fullest, end_ps);
    put_slices(h, fullest, end_ps);
    for (uint32_t i = 0; i < traffic->link_count; i++) {
        if (has_capacity(&traffic->links[i])) {
            link_bins(&traffic->links[i].series, traffic->links[i].capacity_bytes_per_s, end_ps, SMALL_BINS, shares);
            top = fmax(top, most_of(shares, SMALL_BINS));
        }
    }
    if (!(top > 0)) {
        return;
    }
    html_leaf(h, "h3", NULL, "Every link over time");
    top = top > 0.25 ? fmax(top, 1) : top;
    if (top >= 1) {
        snprintf(text, sizeof text, "The dashed line is what the link can carry.");
    } else {
        snprintf(
            text, sizeof text,
            "All on one scale: a picture's full height is %.50s of what its link can carry, as the mean of a %uth of "
            "the step.",
            page_share(top, (char[PAGE_TEXT_BYTES]){ 0 }), (unsigned)SMALL_BINS);
    }
    html_leaf(h, "p", "soft", text);
    html_open(h, "div");
    html_attr(h, "class", "small");
    for (uint32_t i = 0; i < traffic->link_count; i++) {
        if (has_capacity(&traffic->links[i])) {
            put_small(h, &traffic->links[i], end_ps, top);
        }
    }
    html_close(h, "div");
}

void step_links(struct html *h, const struct step_source *source)
{
    const struct step_result *r = &source->result;
    uint32_t open = r->link_count < LINKS_OPEN ? r->link_count : LINKS_OPEN;
    html_leaf(h, "p", NULL,
              "Each direction of a link by itself. busy: the share of the step with any use, however little. Links of "
              "one kind that move as much stand once.");
    if (source->has_traffic && source->traffic.link_count > 0 && source->has_series && source->series.end_ps > 0) {
        html_leaf(
            h, "p", NULL,
            "Over time an op's bytes are spread evenly over the time it ran: where ops that share a link overlap, "
            "their sum may stand a little above what it can carry.");
        put_pictures(h, &source->traffic, source->series.end_ps);
    }
    put_link_table(h, r, LINKS_ID, "The links that move most", 0, open);
    if (open < r->link_count) {
        page_details(h, "All other links with traffic");
        put_link_table(h, r, NULL, "Other links", open, r->link_count);
        if (r->link_others > 0) {
            html_open(h, "p");
            html_printf(h, "%u more move less than these; links.csv has all.", r->link_others);
            html_close(h, "p");
        }
        html_close(h, "details");
    }
}
