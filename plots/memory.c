/* The memory picture: classes stacked over time on the fullest device, and the totals of all devices as small multiples. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plots/memory_bins.h"
#include "plots/plot_internal.h"
#include "sim/base/units.h"

enum { BINS = 700, SMALL_BINS = 220, SMALL_MAX = 16, SMALL_COLUMNS = 4 };

static void put_line(double time, const uint64_t *bytes, struct strbuf *out)
{
    uint64_t sum = 0;
    strbuf_printf(out, "%.7g", time);
    for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
        sum += bytes[palette_memory_order(c)];
        strbuf_printf(out, " %.6g", (double)sum / GIB);
    }
    strbuf_char(out, '\n');
}

/* Cumulative sums in stacking order, as corners of steps. */
static void put_bins(const struct memory_series *series, int64_t end_ps, uint32_t bins, const struct time_unit *unit,
                     struct strbuf *out)
{
    struct memory_bin list[BINS];
    double end = s_from_ps(end_ps) * unit->per_s;
    uint32_t count = memory_bins(series, end_ps, bins, list);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0) {
            put_line(end * list[i].bin / bins, list[i - 1].bytes, out);
        }
        put_line(end * list[i].bin / bins, list[i].bytes, out);
    }
    put_line(end, list[count - 1].bytes, out);
    strbuf_append(out, "\n\n");
}

/* Device spaces of the input in schedule order, and the one with the highest peak. */
static uint32_t devices(const struct plot_input *input, const struct memory_series **list, uint32_t *fullest)
{
    const struct schedule *s = input->input->schedule;
    const struct space_use *spaces = input->input->timeline->spaces;
    uint32_t count = 0;
    for (uint32_t i = 0; i < input->memory_count; i++) {
        const struct memory_series *series = &input->memory[i];
        if (s->spaces[series->space].kind != SPACE_DEVICE || series->count == 0) {
            continue;
        }
        if (count == 0 || spaces[series->space].peak_bytes > spaces[list[*fullest]->space].peak_bytes) {
            *fullest = count;
        }
        list[count++] = series;
    }
    return count;
}

static void put_big(const struct plot_input *input, const struct memory_series *series, double capacity_gib,
                    double top_gib, const bool *used, double low, double high, struct strbuf *out)
{
    const struct schedule *s = input->input->schedule;
    const struct space_use *use = &input->input->timeline->spaces[series->space];
    char title[400];
    snprintf(title, sizeof title,
             "%s: memory of the fullest device, %s: peak %.2f GiB live, %.2f reserved, of %.2f usable",
             input->result->name, sched_label(s, s->spaces[series->space].label), (double)use->peak_bytes / GIB,
             (double)use->peak_reserved_bytes / GIB, capacity_gib);
    strbuf_printf(out, "set tmargin at screen %.4f\nset bmargin at screen %.4f\nset title ", high, low);
    plot_quoted(out, title);
    strbuf_printf(out,
                  "\nset yrange [0:%.6g]\nset key at screen 0.5,0.985 center top horizontal maxrows 2 samplen 1.2 "
                  "width 1 Left reverse\nplot ",
                  top_gib);
    for (uint32_t k = BUFFER_CLASS_COUNT; k-- > 0;) {
        if (used[k]) {
            strbuf_printf(
                out,
                "data index 0 using 1:%u with filledcurves y1=0 fillcolor rgb \"%s\" fillstyle solid notitle, \\\n ",
                k + 2, palette_memory(palette_memory_order(k))->colour);
        }
    }
    for (uint32_t k = 0; k < BUFFER_CLASS_COUNT; k++) {
        if (used[k]) {
            strbuf_printf(
                out,
                "data index 0 using 1:%u with lines lc rgb \"#303030\" lw 0.4 notitle, \\\n "
                "keyentry with boxes fillcolor rgb \"%s\" fillstyle solid border rgb \"#404040\" title \"%s\", \\\n ",
                k + 2, palette_memory(palette_memory_order(k))->colour, palette_memory(palette_memory_order(k))->title);
        }
    }
    strbuf_printf(out, "%.6g with lines dashtype 2 lw 1.6 lc rgb \"black\" %s\n", capacity_gib,
                  capacity_gib < top_gib ? "title \"usable capacity\"" : "notitle"); /* may be far above the picture */
}

/* Two or three tics up to the top. */
static double tics(double top_gib)
{
    double step = 0.125;
    for (; step * 3 < top_gib; step *= 2) {
    }
    return step >= 16 ? step / 16 * 20 : step; /* 20, 40, 80 read better than 16, 32, 64 */
}

/* Totals of all devices on one scale: below what lasts all step long, above what comes and goes. */
static void put_small(const struct plot_input *input, const struct memory_series *const *list, uint32_t count,
                      double capacity_gib, double top_gib, double height, double strip, double row_height,
                      struct strbuf *out)
{
    const struct schedule *s = input->input->schedule;
    strbuf_append(out, "set key off\nunset ylabel\nset xlabel\nset title offset 0,-0.7\nset format x \"\"\n");
    strbuf_printf(out, "set ytics %g\n", tics(top_gib));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t column = i % SMALL_COLUMNS, row = i / SMALL_COLUMNS;
        double top = strip - row * row_height - 24, left = 0.07 + column * 0.232;
        strbuf_printf(
            out,
            "set lmargin at screen %.4f\nset rmargin at screen %.4f\nset tmargin at screen %.4f\nset bmargin at "
            "screen %.4f\nset format y \"%s\"\nset title ",
            left, left + 0.214, top / height, (top - row_height + 40) / height, i % SMALL_COLUMNS == 0 ? "%g" : "");
        char title[160];
        snprintf(title, sizeof title, "%s: %.1f GiB", sched_label(s, s->spaces[list[i]->space].label),
                 (double)input->input->timeline->spaces[list[i]->space].peak_bytes / GIB);
        plot_quoted(out, title);
        strbuf_printf(
            out,
            "\nplot data index %u using 1:%u with filledcurves y1=0 fillcolor rgb \"#F3CF80\" fillstyle solid, \\\n"
            " data index %u using 1:5 with filledcurves y1=0 fillcolor rgb \"#7FA8C8\" fillstyle solid, \\\n"
            " data index %u using 1:%u with lines lc rgb \"black\" lw 0.8, \\\n"
            " %.6g with lines dashtype 2 lc rgb \"black\"\n",
            i + 1, BUFFER_CLASS_COUNT + 1, i + 1, i + 1, BUFFER_CLASS_COUNT + 1, capacity_gib);
        strbuf_append(out, i == 0 ? "unset label 1\n" : ""); /* drawn with the first alone */
    }
}

enum status plot_memory(const struct plot_input *input, struct picture *picture, struct error *error)
{
    int64_t end_ps = input->input->timeline->end_ps;
    const struct schedule *s = input->input->schedule;
    uint32_t fullest = 0;
    const struct memory_series **list = calloc((size_t)input->memory_count + 1, sizeof(const struct memory_series *));
    if (list == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the memory plot");
    }
    uint32_t count = end_ps > 0 && end_ps != TIME_NEVER_PS ? devices(input, list, &fullest) : 0;
    if (count > 0) {
        const struct memory_series *big = list[fullest];
        const struct space_use *use = &input->input->timeline->spaces[big->space];
        struct time_unit unit = plot_time_unit(s_from_ps(end_ps));
        bool used[BUFFER_CLASS_COUNT] = { 0 };
        for (size_t i = 0; i < (size_t)big->count * BUFFER_CLASS_COUNT; i++) {
            for (uint32_t k = 0; k < BUFFER_CLASS_COUNT; k++) {
                used[k] = used[k] || (i % BUFFER_CLASS_COUNT == palette_memory_order(k) && big->bytes[i] > 0);
            }
        }
        uint32_t small = count > SMALL_MAX ? SMALL_MAX : count > 1 ? count : 0;
        double capacity = (double)s->spaces[big->space].capacity_bytes / GIB, peak = (double)use->peak_bytes / GIB;
        double top = capacity < 4 * peak ? 1.08 * (capacity > peak ? capacity : peak) : 1.15 * peak;
        uint32_t rows = (small + SMALL_COLUMNS - 1) / SMALL_COLUMNS;
        double row_height = 128, head = 92, body = 330, foot = small > 0 ? 82 : 58;
        picture->width = 1100;
        picture->height = head + body + foot + rows * row_height;
        put_bins(big, end_ps, BINS, &unit, &picture->data);
        for (uint32_t i = 0; i < small; i++) {
            put_bins(list[i], end_ps, SMALL_BINS, &unit, &picture->data);
        }
        struct strbuf *out = &picture->script;
        strbuf_printf(
            out,
            "set border 3 lw 0.8\nset tics nomirror out\nset lmargin at screen 0.07\nset rmargin at screen 0.98\n"
            "set ylabel \"memory (GiB)\" offset 1,0\nset xlabel \"time (%s)\" offset 0,0.4\nset xrange [0:%.7g]\n"
            "set multiplot\n",
            unit.name, s_from_ps(end_ps) * unit.per_s);
        put_big(input, big, capacity, top, used, (picture->height - head - body) / picture->height,
                (picture->height - head) / picture->height, out);
        if (small > 0) {
            strbuf_printf(out,
                          "set label 1 \"every device: live bytes (GiB), what lasts all step long below, what comes "
                          "and goes above\" at screen 0.07,%.4f left\n",
                          (rows * row_height + 8) / picture->height);
        }
        put_small(input, list, small, capacity, top, picture->height, rows * row_height, row_height, out);
        strbuf_append(out, "unset multiplot\n");
    }
    free(list);
    return STATUS_OK;
}
