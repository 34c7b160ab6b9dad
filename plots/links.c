/* The links picture: use of the busiest links over time, one row a link. */
#include <stdio.h>
#include <string.h>

#include "plots/link_bins.h"
#include "plots/plot_internal.h"
#include "sim/base/units.h"

enum { LINK_ROWS_MAX = 12, BINS = 300 };

/* The scale of all rows: the highest bin, rounded up to 5, 10, 20, 50 or 100 %. */
static double scale_of(const double (*use)[BINS], uint32_t count)
{
    static const double steps[] = { 0.05, 0.1, 0.2, 0.5 };
    double most = 0;
    for (uint32_t r = 0; r < count; r++) {
        for (uint32_t b = 0; b < BINS; b++) {
            most = use[r][b] > most ? use[r][b] : most;
        }
    }
    for (uint32_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        if (most <= steps[i]) {
            return steps[i];
        }
    }
    return 1;
}

/* Rows of the data file, and the mean of each. */
static void put_rows(const struct plot_input *input, int64_t end_ps, const struct time_unit *unit,
                     const double (*use)[BINS], uint32_t count, double scale, struct strbuf *out)
{
    double end = s_from_ps(end_ps) * unit->per_s;
    for (uint32_t r = 0; r < count; r++) {
        char name[96];
        strbuf_printf(out, "# %s: time (%s), share of capacity, share of the row\n",
                      cluster_resource_name(input->input->cluster, input->links[r].resource, name, sizeof name),
                      unit->name);
        for (uint32_t b = 0; b < BINS; b++) {
            for (uint32_t k = 0; k < 2; k++) {
                strbuf_printf(out, "%.7g %.5f %.5f\n", end * (b + k) / BINS, use[r][b], use[r][b] / scale);
            }
        }
        strbuf_append(out, "\n\n");
    }
}

static void put_labels(const struct plot_input *input, const double (*use)[BINS], uint32_t count, struct strbuf *out)
{
    const struct cluster *cluster = input->input->cluster;
    strbuf_append(out, "set ytics scale 0 (");
    for (uint32_t r = 0; r < count; r++) {
        char name[96], rate[32], more[48] = "";
        uint32_t resource = input->links[r].resource;
        if (input->links[r].alike > 1) {
            snprintf(more, sizeof more, ", one of %u alike", input->links[r].alike);
        }
        strbuf_printf(
            out, "%s\"%s\\n%s%s\" %.2f", r > 0 ? ", " : "", cluster_resource_name(cluster, resource, name, sizeof name),
            text_bytes_per_s(cluster->resources[resource].capacity, rate, sizeof rate), more, count - r - 0.5);
    }
    strbuf_append(out, ")\n");
    for (uint32_t r = 0; r < count; r++) {
        double mean = 0;
        for (uint32_t b = 0; b < BINS; b++) {
            mean += use[r][b] / BINS;
        }
        strbuf_printf(out, "set label \"%.2g %%\" at graph 1.01,first %.2f left\n", 100 * mean, count - r - 0.55);
    }
    strbuf_append(out, "set label \"mean\" at graph 1.01,graph 1.01 left\n");
}

enum status plot_links(const struct plot_input *input, struct picture *picture, struct error *error)
{
    int64_t end_ps = input->input->timeline->end_ps;
    uint32_t count = input->link_count < LINK_ROWS_MAX ? input->link_count : LINK_ROWS_MAX;
    if (end_ps <= 0 || end_ps == TIME_NEVER_PS || count == 0) {
        return STATUS_OK;
    }
    struct arena arena = { 0 };
    double(*use)[BINS] = arena_alloc(&arena, count, sizeof *use);
    if (use == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the links plot");
    }
    for (uint32_t r = 0; r < count; r++) {
        link_bins(&input->links[r], input->input->cluster->resources[input->links[r].resource].capacity, end_ps, BINS,
                  use[r]);
    }
    const double(*rows)[BINS] = (const double(*)[BINS])use;
    struct time_unit unit = plot_time_unit(s_from_ps(end_ps));
    struct strbuf *out = &picture->script;
    double scale = scale_of(rows, count);
    char title[360];
    picture->width = 1100;
    picture->height = 74 + 48.0 * count + 56;
    snprintf(title, sizeof title, "%s: busiest links, bytes moved as a share of capacity (a full row is %g %%)",
             input->result->name, 100 * scale);
    strbuf_append(out, "set title ");
    plot_quoted(out, title);
    strbuf_printf(out,
                  " offset 0,0.6\nset border 1 lw 0.8\nset tics nomirror out\nset key off\nset lmargin at screen 0.22\n"
                  "set rmargin at screen 0.94\nset tmargin at screen %.4f\nset bmargin at screen %.4f\n"
                  "set xlabel \"time (%s)\" offset 0,0.4\nset xrange [0:%.7g]\nset yrange [0:%u]\n",
                  1 - 66 / picture->height, 54 / picture->height, unit.name, s_from_ps(end_ps) * unit.per_s, count);
    put_rows(input, end_ps, &unit, rows, count, scale, &picture->data);
    put_labels(input, rows, count, out);
    strbuf_append(out, "plot ");
    for (uint32_t r = 0; r < count; r++) {
        double base = count - r - 1 + 0.06;
        strbuf_printf(out,
                      "%s%.2f with lines lc rgb \"#D0D0D0\" lw 0.5, \\\n data index %u using 1:(%.2f+0.86*$3) with "
                      "filledcurves y1=%.2f fillcolor rgb \"%s\" fillstyle solid, \\\n %.2f with lines lc rgb "
                      "\"#606060\" lw 0.6",
                      r > 0 ? ", \\\n " : "", base + 0.86, r, base, base, r % 2 == 0 ? PLOT_BLUE : PLOT_ORANGE, base);
    }
    strbuf_char(out, '\n');
    arena_free(&arena);
    return STATUS_OK;
}
