/* Charts of a few numbers: panels side by side, as lines over a quantity, bars over words, or stacked bars; one SVG that stands alone.
 *
 * For what-if studies (traces/lessons): tens of points, read at a glance. Series differ in colour (Okabe and Ito's palette), marker and dash, so that they do on grey paper; values of what does not
 * fit are hollow. The vertical axis starts at 0. Same input, same bytes; gnuplot is not needed. Everything is borrowed. Texts are escaped; those of a chart should be short: nothing is wrapped.
 *
 *     const struct chart_point points[] = { { 1, 20, true }, { 2, 40, true } };
 *     const struct chart_series series = { "selective", points, 2 };
 *     const struct chart_panel panel = { .title = "GB on the fullest GPU", .series = &series, .series_count = 1 };
 *     TRY(chart_svg(&(struct chart){ .title = "t", .x_label = "micro-batch", .panels = &panel, .panel_count = 1 }, &out, error)); */
#ifndef MEMWALL_PLOTS_CHART_H
#define MEMWALL_PLOTS_CHART_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/status.h"
#include "sim/base/strbuf.h"

enum { CHART_PANELS_MAX = 3, CHART_SERIES_MAX = 7, CHART_POINTS_MAX = 64 };

/* Of x: in proportion; equal steps for doublings (x > 0); words, one place each: x is their number from 0. */
enum chart_scale { CHART_LINEAR, CHART_LOG2, CHART_WORDS };

enum chart_kind { CHART_LINES, CHART_BARS, CHART_STACK };

struct chart_point {
    double x, y; /* y >= 0 */
    bool fits;
};

/* In a stack a series is a layer, the first at the bottom; its points have the same x as those of the others. */
struct chart_series {
    const char *name; /* "": none in the legend */
    const struct chart_point *points;
    uint32_t count;
};

struct chart_limit {
    double y;
    const char *name;
};

struct chart_panel {
    const char *title; /* what y is, with its unit */
    enum chart_kind kind;
    const struct chart_series *series;
    uint32_t series_count;
    uint32_t first_look;              /* its series take the looks from here on */
    const struct chart_limit *limits; /* lines across */
    uint32_t limit_count;
};

/* Panels share x; the legend names the series of all of them, each once. */
struct chart {
    const char *title, *x_label;
    enum chart_scale scale;
    const char *const *words; /* CHART_WORDS: [word_count] */
    uint32_t word_count;
    const struct chart_panel *panels;
    uint32_t panel_count;
};

/* STATUS_LIMIT: more panels, series or points than above. Bars and stacks want CHART_WORDS. */
enum status chart_svg(const struct chart *chart, struct strbuf *out, struct error *error);

/* 1, 2, 2.5 or 5 times a power of ten: the least step that takes at most `ticks` of them to `most` (> 0). */
double chart_tick_step(double most, uint32_t ticks);

#endif
