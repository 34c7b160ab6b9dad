/* What pictures that are written as SVG text, without gnuplot, have in common: texts, round steps of axes. */
#ifndef MEMWALL_PLOTS_SVG_H
#define MEMWALL_PLOTS_SVG_H

#include <stdbool.h>

#include "sim/base/strbuf.h"

/* A <text>, escaped. anchor: "start", "middle", "end"; `more`: further attributes with a space before each, or "". */
void svg_text(struct strbuf *out, double x, double y, const char *anchor, const char *more, const char *words);

/* Steps of an axis: the smallest of 1, 2, 5 (with `halves` 2.5 too) times a power of ten from `least` (> 0) on. */
double svg_tick_step(double least, bool halves);

#endif
