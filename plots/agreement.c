#include "plots/agreement.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plots/plot_internal.h"

/* Ops of one opcode nearer to each other than this share of a decade are one point: a fifth of a point's width. */
static const double GRID_PER_DECADE = 100;

/* Points for kernels, rings for collectives, triangles for copies, diamonds for the host; neighbours differ in grey print. */
static const struct {
    const char *colour;
    int point; /* gnuplot's point type: 7 disc, 6 ring, 4 square, 9 triangle, 11 triangle down, 13 diamond */
} LOOKS[OPCODE_COUNT] = {
    [OP_COMPUTE] = { PLOT_BLUE, 7 },
    [OP_ALL_REDUCE] = { PLOT_VERMILLION, 6 },
    [OP_ALL_GATHER] = { PLOT_ORANGE, 6 },
    [OP_REDUCE_SCATTER] = { PLOT_PURPLE, 6 },
    [OP_BROADCAST] = { PLOT_GREEN, 6 },
    [OP_ALL_TO_ALL] = { PLOT_BLACK, 6 },
    [OP_SEND] = { PLOT_GREY, 4 },
    [OP_RECV] = { PLOT_BLACK, 4 },
    [OP_COPY_H2D] = { PLOT_SKY, 9 },
    [OP_COPY_D2H] = { PLOT_GREEN, 11 },
    [OP_COPY_P2P] = { PLOT_PURPLE, 9 },
    [OP_HOST_OPTIMIZER] = { PLOT_VERMILLION, 13 },
    [OP_STORAGE_READ] = { PLOT_ORANGE, 13 },
    [OP_STORAGE_WRITE] = { PLOT_YELLOW, 13 },
    [OP_DELAY] = { PLOT_GREY, 7 },
    [OP_MARK] = { PLOT_GREY, 7 },
};

struct point {
    uint32_t opcode;
    int32_t x, y; /* of the grid: decades of seconds times GRID_PER_DECADE */
};

static int by_place(const void *a, const void *b)
{
    const struct point *p = a, *q = b;
    if (p->opcode != q->opcode) {
        return p->opcode < q->opcode ? -1 : 1;
    }
    if (p->x != q->x) {
        return p->x < q->x ? -1 : 1;
    }
    return (p->y > q->y) - (p->y < q->y);
}

static int32_t on_grid(double seconds)
{
    return (int32_t)lround(log10(seconds) * GRID_PER_DECADE);
}

/* Sorted, equal ones once. Returns how many. */
static uint32_t take_points(const struct agreement_plot *plot, struct point *points)
{
    uint32_t count = 0, kept = 0;
    for (uint32_t i = 0; i < plot->schedule->op_count; i++) {
        if (plot->simulated_s[i] > 0 && plot->measured_s[i] > 0) {
            points[count++] = (struct point){ plot->schedule->ops[i].opcode, on_grid(plot->measured_s[i]),
                                              on_grid(plot->simulated_s[i]) };
        }
    }
    if (count > 0) {
        qsort(points, count, sizeof *points, by_place);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (kept == 0 || by_place(&points[kept - 1], &points[i]) != 0) {
            points[kept++] = points[i];
        }
    }
    return kept;
}

/* Whole decades around all points, the same on both axes. */
static void take_range(const struct point *points, uint32_t count, int *low, int *high)
{
    int32_t least = points[0].x, most = points[0].x;
    for (uint32_t i = 0; i < count; i++) {
        int32_t a = points[i].x < points[i].y ? points[i].x : points[i].y;
        int32_t b = points[i].x < points[i].y ? points[i].y : points[i].x;
        least = a < least ? a : least;
        most = b > most ? b : most;
    }
    *low = (int)floor(least / GRID_PER_DECADE - 0.02);
    *high = (int)ceil(most / GRID_PER_DECADE + 0.02);
}

/* "10 us" at each decade. */
static void put_tics(const char *axis, int low, int high, struct strbuf *out)
{
    static const char *const units[] = { "ps", "ns", "us", "ms", "s" };
    strbuf_printf(out, "set %stics (", axis);
    for (int d = low; d <= high; d++) {
        int unit = d < -12 ? 0 : d >= 0 ? 4 : (d + 12) / 3;
        double value = pow(10, d - (unit * 3 - 12));
        strbuf_printf(out, "%s\"%g %s\" 1e%d", d > low ? ", " : "", value, units[unit], d);
    }
    strbuf_append(out, ")\n");
}

static void put_data(const struct point *points, uint32_t count, struct strbuf *out)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || points[i].opcode != points[i - 1].opcode) {
            strbuf_printf(out, "%s# %s: measured, simulated (s)\n", i > 0 ? "\n\n" : "",
                          opcode_word((enum opcode)points[i].opcode));
        }
        strbuf_printf(out, "%.4g %.4g\n", pow(10, points[i].x / GRID_PER_DECADE),
                      pow(10, points[i].y / GRID_PER_DECADE));
    }
    strbuf_char(out, '\n');
}

static void put_script(const struct agreement_plot *plot, const struct point *points, uint32_t count,
                       struct strbuf *out)
{
    int low, high;
    take_range(points, count, &low, &high);
    strbuf_append(out, "set title ");
    plot_quoted(out, plot->title);
    strbuf_append(out, " offset 0,1.2\nset label ");
    plot_quoted(out, plot->subtitle);
    strbuf_printf(out,
                  " at graph 0.5,1.035 center textcolor rgb \"#404040\"\n"
                  "set border 3 lw 0.8\nset tics nomirror out\nset size ratio -1\nset logscale xy\n"
                  "set xrange [1e%d:1e%d]\nset yrange [1e%d:1e%d]\n"
                  "set xlabel \"measured\"\nset ylabel \"simulated\"\n"
                  "set grid xtics ytics lc rgb \"#E0E0E0\" lw 0.6 lt 1\nset key outside right center Left reverse\n",
                  low, high, low, high);
    put_tics("x", low, high, out);
    put_tics("y", low, high, out);
    strbuf_append(out, "plot x with lines lc rgb \"black\" lw 1.2 title \"equal\", \\\n"
                       " 1.1*x with lines lc rgb \"#707070\" lw 0.8 dt 2 title \"10 % more or less\", \\\n"
                       " 0.9*x with lines lc rgb \"#707070\" lw 0.8 dt 2 notitle");
    uint32_t index = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || points[i].opcode != points[i - 1].opcode) {
            strbuf_printf(out, ", \\\n data index %u using 1:2 with points pt %d ps 1.1 lc rgb \"%s\" title \"%s\"",
                          index++, LOOKS[points[i].opcode].point, LOOKS[points[i].opcode].colour,
                          opcode_word((enum opcode)points[i].opcode));
        }
    }
    strbuf_char(out, '\n');
}

enum status plot_agreement(const struct agreement_plot *plot, struct error *error)
{
    struct point *points = malloc(((size_t)plot->schedule->op_count + 1) * sizeof *points);
    if (points == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the agreement plot");
    }
    uint32_t count = take_points(plot, points);
    struct picture picture = { .name = "agreement", .width = 900, .height = 720 };
    enum status status = STATUS_OK;
    if (count > 0) {
        put_data(points, count, &picture.data);
        put_script(plot, points, count, &picture.script);
        status = plot_draw_one(plot->folder, &picture, plot->note, plot->note_bytes, error);
    }
    free(points);
    strbuf_free(&picture.data);
    strbuf_free(&picture.script);
    return status;
}
