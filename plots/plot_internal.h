/* What the makers of single pictures share. */
#ifndef MEMWALL_PLOTS_PLOT_INTERNAL_H
#define MEMWALL_PLOTS_PLOT_INTERNAL_H

#include "plots/palette.h"
#include "plots/plot.h"
#include "plots/time_unit.h"

enum { PLOT_PIXELS = 1600 /* finest horizontal detail worth drawing */ };

/* A picture under construction: the data file's text and the script's. */
struct picture {
    const char *name;     /* "timeline" */
    double width, height; /* pixels of the SVG; the PNG has twice as many */
    struct strbuf data, script;
};

/* The left margin, as a share of the width in pixels, that the longest name of the first `ranks` ranks needs. */
double plot_rank_margin(const struct schedule *schedule, uint32_t ranks, double width);

/* Text for a gnuplot string in double quotes without enhanced markup. */
void plot_quoted(struct strbuf *out, const char *text);

/* Write a picture's script and data into FOLDER/plots (made when absent), draw it, wait. A missing or failing gnuplot is a note. */
enum status plot_draw_one(const char *folder, const struct picture *picture, char *note, size_t note_bytes,
                          struct error *error);

/* Each fills a picture; nothing to draw leaves the script empty. */
enum status plot_timeline(const struct plot_input *input, struct picture *picture, struct error *error);
enum status plot_memory(const struct plot_input *input, struct picture *picture, struct error *error);
enum status plot_links(const struct plot_input *input, struct picture *picture, struct error *error);
enum status plot_chunks(const struct plot_input *input, struct picture *picture, struct error *error);
enum status plot_breakdown(const struct plot_input *input, struct picture *picture, struct error *error);

#endif
