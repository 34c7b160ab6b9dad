#include "plots/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plots/svg.h"
#include "sim/base/check.h"
#include "sim/base/xml_text.h"

/* Pixels. */
enum { WIDTH = 900, TOP = 30, LEGEND_ROW = 22, PANEL_TITLE = 26, BODY = 240, FOOT = 52, LEFT = 52, RIGHT = 16 };
#define SMALL_LETTER 6.4 /* a digit of HALO's text */
enum { FONT = 12, LETTER = 7, TICKS = 6 };

/* Neighbours differ in grey print. */
static const struct {
    const char *colour, *dash;
    bool white_text;
} LOOKS[CHART_SERIES_MAX] = {
    { "#0072B2", "", true },         { "#E69F00", "7 3", false }, { "#009E73", "2 3", true },
    { "#CC79A7", "9 3 2 3", false }, { "#D55E00", "5 2", true },  { "#56B4E9", "3 2", false },
    { "#6b6b6b", "1 2", true },
};

struct frame {
    const struct chart *chart;
    const struct chart_panel *panel;
    struct strbuf *out;
    double left, right, top, bottom; /* of the plotted area */
    double x_from, x_to, y_to;       /* on the scale of x */
};

/* On white paper of its own, so that lines behind it do not cross it. */
#define HALO " font-size=\"10\" stroke=\"#ffffff\" stroke-width=\"3\" paint-order=\"stroke\" fill=\"#222222\""

double chart_tick_step(double most, uint32_t ticks)
{
    return svg_tick_step(most / ticks, true);
}

static double scaled(const struct chart *chart, double x)
{
    return chart->scale == CHART_LOG2 ? log2(x) : x;
}

static double x_of(const struct frame *f, double x)
{
    double share = (scaled(f->chart, x) - f->x_from) / (f->x_to - f->x_from);
    return f->left + share * (f->right - f->left);
}

static double y_of(const struct frame *f, double y)
{
    return f->bottom - y / f->y_to * (f->bottom - f->top);
}

/* --- ranges */

static double highest(const struct chart_panel *panel, uint32_t words)
{
    double most = 0;
    double sums[CHART_POINTS_MAX] = { 0 };
    for (uint32_t s = 0; s < panel->series_count; s++) {
        for (uint32_t i = 0; i < panel->series[s].count; i++) {
            const struct chart_point *point = &panel->series[s].points[i];
            most = fmax(most, point->y);
            if (panel->kind == CHART_STACK && point->x >= 0 && point->x < words) {
                sums[(uint32_t)point->x] += point->y;
                most = fmax(most, sums[(uint32_t)point->x]);
            }
        }
    }
    for (uint32_t i = 0; i < panel->limit_count; i++) {
        most = fmax(most, panel->limits[i].y);
    }
    return most > 0 ? most : 1;
}

static void set_x_range(struct frame *f)
{
    const struct chart *chart = f->chart;
    double from = INFINITY, to = -INFINITY;
    if (chart->scale == CHART_WORDS) {
        f->x_from = -0.5;
        f->x_to = chart->word_count - 0.5;
        return;
    }
    for (uint32_t p = 0; p < chart->panel_count; p++) {
        for (uint32_t s = 0; s < chart->panels[p].series_count; s++) {
            const struct chart_series *series = &chart->panels[p].series[s];
            for (uint32_t i = 0; i < series->count; i++) {
                from = fmin(from, scaled(chart, series->points[i].x));
                to = fmax(to, scaled(chart, series->points[i].x));
            }
        }
    }
    if (chart->scale == CHART_LINEAR && from >= 0 && from < 0.25 * to) {
        from = 0;
    }
    double margin = to > from ? 0.04 * (to - from) : 1;
    f->x_from = isfinite(from) ? from - margin : -1;
    f->x_to = isfinite(to) ? to + margin : 1;
}

/* --- axes */

static void draw_tick_x(const struct frame *f, double x, const char *words, bool small)
{
    if (f->chart->scale != CHART_WORDS) {
        strbuf_printf(f->out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#444444\"/>\n",
                      x_of(f, x), f->bottom, x_of(f, x), f->bottom + 4);
    }
    svg_text(f->out, x_of(f, x), f->bottom + 18, "middle",
             small ? " fill=\"#333333\" font-size=\"10\"" : " fill=\"#333333\"", words);
}

/* Where points are, unless two would touch; else at round numbers. */
static void draw_x_axis(const struct frame *f)
{
    const struct chart *chart = f->chart;
    char words[32];
    double last = -INFINITY;
    size_t longest = 0;
    for (uint32_t i = 0; chart->scale == CHART_WORDS && i < chart->word_count; i++) {
        longest = strlen(chart->words[i]) > longest ? strlen(chart->words[i]) : longest;
    }
    bool small = (double)longest * LETTER + 4 > (f->right - f->left) / (chart->word_count > 0 ? chart->word_count : 1);
    for (uint32_t i = 0; chart->scale == CHART_WORDS && i < chart->word_count; i++) {
        draw_tick_x(f, i, chart->words[i], small);
    }
    for (uint32_t s = 0; chart->scale == CHART_LOG2 && s < f->panel->series_count; s++) {
        const struct chart_series *series = &f->panel->series[s];
        for (uint32_t i = 0; i < series->count; i++) {
            snprintf(words, sizeof words, "%.6g", series->points[i].x);
            double x = x_of(f, series->points[i].x), half = (double)strlen(words) * LETTER / 2 + 3;
            if (x - half > last) {
                draw_tick_x(f, series->points[i].x, words, false);
                last = x + half;
            }
        }
    }
    double step = chart->scale == CHART_LINEAR ? chart_tick_step(f->x_to - fmax(f->x_from, 0), TICKS) : 0;
    for (double x = 0; chart->scale == CHART_LINEAR && x <= f->x_to; x += step) {
        if (x >= f->x_from) {
            snprintf(words, sizeof words, "%.6g", x);
            draw_tick_x(f, x, words, false);
        }
    }
    svg_text(f->out, (f->left + f->right) / 2, f->bottom + 40, "middle", " fill=\"#333333\"", chart->x_label);
}

static void draw_y_axis(const struct frame *f, double step)
{
    char words[32];
    for (uint32_t i = 0; i * step <= f->y_to * (1 + 1e-9); i++) {
        double y = y_of(f, i * step);
        strbuf_printf(f->out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", f->left, y,
                      f->right, y, i == 0 ? "#444444" : "#e2e2e2");
        snprintf(words, sizeof words, "%.6g", i * step);
        svg_text(f->out, f->left - 6, y + 4, "end", " fill=\"#333333\"", words);
    }
}

/* --- marks */

static uint32_t look_of(const struct frame *f, uint32_t series)
{
    return (f->panel->first_look + series) % CHART_SERIES_MAX;
}

static void draw_marker(const struct frame *f, uint32_t look, double x, double y, bool fits)
{
    const char *colour = LOOKS[look].colour, *fill = fits ? colour : "#ffffff";
    const double r = 4.5;
    strbuf_append(f->out, "<path d=\"");
    switch (look % 4) {
    case 0:
        strbuf_printf(f->out, "M%.1f %.1fa%g %g 0 1 0 %g 0a%g %g 0 1 0 %g 0Z", x - r, y, r, r, 2 * r, r, r, -2 * r);
        break;
    case 1: strbuf_printf(f->out, "M%.1f %.1fh8v8h-8Z", x - 4, y - 4); break;
    case 2: strbuf_printf(f->out, "M%.1f %.1fl5 9h-10Z", x, y - 5); break;
    default: strbuf_printf(f->out, "M%.1f %.1fl5.5 5.5l-5.5 5.5l-5.5 -5.5Z", x, y - 5.5); break;
    }
    strbuf_printf(f->out, "\" fill=\"%s\" stroke=\"%s\" stroke-width=\"1.5\"/>\n", fill, colour);
}

static void draw_lines(const struct frame *f)
{
    for (uint32_t s = 0; s < f->panel->series_count; s++) {
        const struct chart_series *series = &f->panel->series[s];
        strbuf_printf(f->out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\" d=\"",
                      LOOKS[look_of(f, s)].colour,
                      LOOKS[look_of(f, s)].dash[0] != '\0' ? LOOKS[look_of(f, s)].dash : "none");
        for (uint32_t i = 0; i < series->count; i++) {
            strbuf_printf(f->out, "%c%.1f %.1f", i == 0 ? 'M' : 'L', x_of(f, series->points[i].x),
                          y_of(f, series->points[i].y));
        }
        strbuf_append(f->out, "\"/>\n");
    }
    for (uint32_t s = 0; s < f->panel->series_count; s++) {
        for (uint32_t i = 0; i < f->panel->series[s].count; i++) {
            const struct chart_point *point = &f->panel->series[s].points[i];
            draw_marker(f, look_of(f, s), x_of(f, point->x), y_of(f, point->y), point->fits);
        }
    }
}

static void draw_box(const struct frame *f, uint32_t look, double x, double width, double from, double to, bool fits)
{
    strbuf_printf(f->out,
                  "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"%s stroke=\"%s\" "
                  "stroke-width=\"%s\"/>\n",
                  x, y_of(f, to), width, y_of(f, from) - y_of(f, to), LOOKS[look].colour,
                  fits ? "" : " fill-opacity=\"0.25\"", fits ? "#ffffff" : LOOKS[look].colour, fits ? "0.8" : "1.2");
}

/* The baseline of a number at `y`, or above the line of a limit that would cross it. */
static double clear_of_limits(const struct frame *f, double y)
{
    enum { HEIGHT = 10, GAP = 4 };
    for (uint32_t moved = 0; moved < f->panel->limit_count; moved++) { /* each may lift it into the next */
        for (uint32_t i = 0; i < f->panel->limit_count; i++) {
            double line = y_of(f, f->panel->limits[i].y);
            y = line > y - HEIGHT && line < y + GAP ? line - GAP : y;
        }
    }
    return y;
}

/* With three digits, with two where there is little room, else not at all. */
static void draw_number(const struct frame *f, double x, double y, double width, double value)
{
    for (int digits = 3; digits >= 2; digits--) {
        char words[24];
        if (value >= 1000) {
            snprintf(words, sizeof words, "%.0f", value);
        } else {
            snprintf(words, sizeof words, "%.*g", digits, value);
        }
        if ((double)strlen(words) * SMALL_LETTER <= width) {
            svg_text(f->out, x, clear_of_limits(f, y), "middle", HALO, words);
            return;
        }
    }
}

/* Boxes, or the numbers above them. */
static void draw_bars(const struct frame *f, bool numbers)
{
    double slot = (f->right - f->left) / f->chart->word_count, width = 0.84 * slot / f->panel->series_count;
    width = fmin(width, 70);
    for (uint32_t s = 0; s < f->panel->series_count; s++) {
        double shift = (s - (f->panel->series_count - 1) / 2.0) * width;
        for (uint32_t i = 0; i < f->panel->series[s].count; i++) {
            const struct chart_point *point = &f->panel->series[s].points[i];
            double middle = x_of(f, point->x) + shift;
            if (numbers) {
                draw_number(f, middle, y_of(f, point->y) - 4, width, point->y);
            } else {
                draw_box(f, look_of(f, s), middle - width / 2, width, 0, point->y, point->fits);
            }
        }
    }
}

static void draw_stack(const struct frame *f, bool numbers)
{
    double base[CHART_POINTS_MAX] = { 0 }, slot = (f->right - f->left) / f->chart->word_count;
    double width = fmin(0.62 * slot, 90);
    for (uint32_t s = 0; s < f->panel->series_count; s++) {
        for (uint32_t i = 0; i < f->panel->series[s].count; i++) {
            const struct chart_point *point = &f->panel->series[s].points[i];
            uint32_t word = (uint32_t)point->x;
            if (!numbers) {
                draw_box(f, look_of(f, s), x_of(f, point->x) - width / 2, width, base[word], base[word] + point->y,
                         point->fits);
            }
            base[word] += point->y;
        }
    }
    for (uint32_t w = 0; numbers && w < f->chart->word_count; w++) {
        if (base[w] > 0) {
            draw_number(f, x_of(f, w), y_of(f, base[w]) - 5, width, base[w]);
        }
    }
}

static void draw_limits(const struct frame *f)
{
    for (uint32_t i = 0; i < f->panel->limit_count; i++) {
        double y = y_of(f, f->panel->limits[i].y);
        strbuf_printf(f->out,
                      "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#000000\" stroke-width=\"1.4\" "
                      "stroke-dasharray=\"6 4\"/>\n",
                      f->left, y, f->right, y);
        svg_text(f->out, f->left + 6, y - 5, "start", HALO, f->panel->limits[i].name);
    }
}

static void draw_panel(struct frame *f)
{
    double most = highest(f->panel, f->chart->word_count), step = chart_tick_step(most, TICKS - 1);
    f->y_to = ceil(most * 1.06 / step) * step;
    set_x_range(f);
    svg_text(f->out, f->left - LEFT + RIGHT, f->top - 10, "start", " font-weight=\"bold\"", f->panel->title);
    draw_y_axis(f, step);
    draw_x_axis(f);
    switch (f->panel->kind) {
    case CHART_LINES: draw_lines(f); break;
    case CHART_BARS: draw_bars(f, false); break;
    case CHART_STACK: draw_stack(f, false); break;
    }
    draw_limits(f);
    if (f->panel->kind == CHART_BARS) {
        draw_bars(f, true);
    } else if (f->panel->kind == CHART_STACK) {
        draw_stack(f, true);
    }
}

/* --- legend */

struct legend {
    struct strbuf *out; /* NULL: only measures */
    double x, y;
};

static void legend_entry(struct legend *legend, uint32_t look, bool line, bool fits, const char *words)
{
    double width = 34 + (double)strlen(words) * LETTER + 14;
    if (legend->x > RIGHT && legend->x + width > WIDTH - RIGHT) {
        legend->x = RIGHT;
        legend->y += LEGEND_ROW;
    }
    if (legend->out != NULL) {
        const struct frame f = { .out = legend->out };
        if (line) {
            strbuf_printf(legend->out,
                          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\" "
                          "stroke-dasharray=\"%s\"/>\n",
                          legend->x, legend->y, legend->x + 26, legend->y, LOOKS[look].colour,
                          fits && LOOKS[look].dash[0] != '\0' ? LOOKS[look].dash : "none");
            draw_marker(&f, look, legend->x + 13, legend->y, fits);
        } else {
            strbuf_printf(legend->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"14\" fill=\"%s\"%s/>\n",
                          legend->x + 8, legend->y - 7, LOOKS[look].colour, fits ? "" : " fill-opacity=\"0.25\"");
        }
        svg_text(legend->out, legend->x + 32, legend->y + 4, "start", "", words);
    }
    legend->x += width;
}

static bool all_fit(const struct chart *chart)
{
    for (uint32_t p = 0; p < chart->panel_count; p++) {
        for (uint32_t s = 0; s < chart->panels[p].series_count; s++) {
            for (uint32_t i = 0; i < chart->panels[p].series[s].count; i++) {
                if (!chart->panels[p].series[s].points[i].fits) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* Whether a panel before `p` has this name with this look. */
static bool is_named(const struct chart *chart, uint32_t p, uint32_t look, const char *name)
{
    for (uint32_t before = 0; before < p; before++) {
        const struct chart_panel *panel = &chart->panels[before];
        for (uint32_t s = 0; s < panel->series_count; s++) {
            if (panel->first_look + s == look && strcmp(panel->series[s].name, name) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Below the title. The height that it takes. */
static double draw_legend(const struct chart *chart, struct strbuf *out)
{
    struct legend legend = { .out = out, .x = RIGHT, .y = TOP + LEGEND_ROW };
    for (uint32_t p = 0; p < chart->panel_count; p++) {
        const struct chart_panel *panel = &chart->panels[p];
        for (uint32_t s = 0; s < panel->series_count; s++) {
            const char *name = panel->series[s].name;
            uint32_t look = panel->first_look + s;
            if (name[0] != '\0' && !is_named(chart, p, look, name)) {
                legend_entry(&legend, look % CHART_SERIES_MAX, panel->kind == CHART_LINES, true, name);
            }
        }
    }
    if (!all_fit(chart)) {
        legend_entry(&legend, 0, chart->panels[0].kind == CHART_LINES, false,
                     chart->panels[0].kind == CHART_LINES ? "hollow: does not fit" : "pale: does not fit");
    }
    return legend.x > RIGHT ? legend.y - TOP + LEGEND_ROW / 2.0 : LEGEND_ROW / 2.0;
}

static enum status check_chart(const struct chart *chart, struct error *error)
{
    if (chart->panel_count == 0 || chart->panel_count > CHART_PANELS_MAX || chart->word_count > CHART_POINTS_MAX) {
        return error_set(error, STATUS_LIMIT, "a chart has 1 to %d panels and up to %d words, this one %u and %u",
                         CHART_PANELS_MAX, CHART_POINTS_MAX, chart->panel_count, chart->word_count);
    }
    for (uint32_t p = 0; p < chart->panel_count; p++) {
        const struct chart_panel *panel = &chart->panels[p];
        CHECK(panel->kind == CHART_LINES || chart->scale == CHART_WORDS);
        if (panel->series_count > CHART_SERIES_MAX) {
            return error_set(error, STATUS_LIMIT, "a chart has up to %d series, \"%s\" has %u", CHART_SERIES_MAX,
                             panel->title, panel->series_count);
        }
        for (uint32_t s = 0; s < panel->series_count; s++) {
            if (panel->series[s].count > CHART_POINTS_MAX) {
                return error_set(error, STATUS_LIMIT, "a series has up to %d points, \"%s\" has %u", CHART_POINTS_MAX,
                                 panel->series[s].name, panel->series[s].count);
            }
        }
    }
    return STATUS_OK;
}

enum status chart_svg(const struct chart *chart, struct strbuf *out, struct error *error)
{
    TRY(check_chart(chart, error));
    double legend = draw_legend(chart, NULL), top = TOP + legend + PANEL_TITLE, height = top + BODY + FOOT;
    strbuf_printf(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" height=\"%.0f\" "
                  "font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" font-size=\"%d\" role=\"img\">\n<title>",
                  WIDTH, height, WIDTH, height, FONT);
    xml_escape(out, chart->title);
    strbuf_append(out, "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
    svg_text(out, RIGHT, 24, "start", " font-size=\"15\" font-weight=\"bold\"", chart->title);
    (void)draw_legend(chart, out);
    double slot = (double)WIDTH / chart->panel_count;
    for (uint32_t p = 0; p < chart->panel_count; p++) {
        struct frame f = { .chart = chart, .panel = &chart->panels[p], .out = out, .left = p * slot + LEFT };
        f.right = (p + 1) * slot - RIGHT;
        f.top = top;
        f.bottom = top + BODY;
        draw_panel(&f);
    }
    strbuf_append(out, "</svg>\n");
    return out->failed ? error_set(error, STATUS_NO_MEMORY, "out of memory for a chart") : STATUS_OK;
}
