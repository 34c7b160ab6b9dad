/* Memory: classes over time where it is fullest, the totals of all spaces, the peaks as a table. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plots/memory_bins.h"
#include "plots/time_unit.h"
#include "sim/base/units.h"
#include "sim/report/html/step_page_internal.h"

enum { BINS = 600, SMALL_BINS = 120, SMALL_MAX = 24, ROWS_OPEN = 12, SLICES = 20 };

static const char PEAKS_ID[] = "peaks-table", SLICES_ID[] = "memory-table";

static const struct step_space *space_named(const struct step_result *r, const char *name)
{
    for (uint32_t i = 0; i < r->space_count; i++) {
        if (strcmp(r->spaces[i].name, name) == 0) {
            return &r->spaces[i];
        }
    }
    return NULL;
}

static double sum_to(const uint64_t *bytes, uint32_t last)
{
    double sum = 0;
    for (uint32_t k = 0; k <= last; k++) {
        sum += (double)bytes[palette_memory_order(k)];
    }
    return sum;
}

/* The band between the classes below `k` and `k` itself: forth along its top, back along its bottom. */
static void put_band(const struct html_chart *c, const struct memory_bin *bins, uint32_t count, uint32_t of, uint32_t k,
                     double end, double unit, struct strbuf *path)
{
    path->length = 0;
    for (uint32_t i = 0; i < count; i++) {
        double x = html_chart_x(c, end * bins[i].bin / of), y = html_chart_y(c, sum_to(bins[i].bytes, k) / unit);
        strbuf_printf(path, i == 0 ? "M%.2f %.2f" : "H%.2fV%.2f", x, y);
    }
    strbuf_printf(path, "H%.2f", html_chart_x(c, end));
    for (uint32_t i = count; i-- > 0;) {
        double y = html_chart_y(c, k > 0 ? sum_to(bins[i].bytes, k - 1) / unit : 0);
        strbuf_printf(path, "V%.2fH%.2f", y, html_chart_x(c, end * bins[i].bin / of));
    }
    strbuf_char(path, 'z');
}

static void put_bands(const struct html_chart *c, const struct memory_bin *bins, uint32_t count, double end,
                      const bool *used)
{
    struct strbuf path = { 0 };
    char colour[PAGE_COLOUR_BYTES];
    for (uint32_t k = 0; k < BUFFER_CLASS_COUNT; k++) {
        enum buffer_class class = palette_memory_order(k);
        if (used[class]) {
            put_band(c, bins, count, BINS, k, end, GIB, &path);
            html_open(c->h, "path");
            html_attr(c->h, "class", page_colour(palette_memory(class)->colour, colour));
            html_attr(c->h, "d", path.text != NULL ? path.text : "");
            html_leaf(c->h, "title", NULL, palette_memory(class)->title);
            html_close(c->h, "path");
        }
    }
    c->h->out->failed = c->h->out->failed || path.failed;
    strbuf_free(&path);
}

static void used_classes(const struct memory_series *series, bool *used)
{
    for (uint32_t i = 0; i < series->count; i++) {
        for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
            used[c] = used[c] || series->bytes[(size_t)i * BUFFER_CLASS_COUNT + c] > 0;
        }
    }
}

static void put_big(struct html *h, const struct series_space *space, const struct step_space *about, int64_t end_ps)
{
    struct time_unit unit = plot_time_unit(s_from_ps(end_ps));
    struct memory_bin bins[BINS];
    bool used[BUFFER_CLASS_COUNT] = { 0 };
    const struct palette_look *looks[BUFFER_CLASS_COUNT];
    uint32_t looks_count = 0, count = memory_bins(&space->series, end_ps, BINS, bins);
    double end = s_from_ps(end_ps) * unit.per_s, peak = (double)space->peak_bytes / GIB;
    double capacity = about != NULL && about->capacity > 0 ? about->capacity / GIB : NAN;
    bool limit = capacity < 4 * peak;
    struct html_chart c = { .h = h,
                            .height = 400,
                            .left = 78,
                            .x = { 0, end, false },
                            .y = { 0, 1.06 * (limit && capacity > peak ? capacity : peak), false },
                            .time_unit = unit.name,
                            .table_id = SLICES_ID };
    char title[PAGE_TEXT_BYTES], label[32], text[PAGE_TEXT_BYTES];
    used_classes(&space->series, used);
    for (uint32_t k = 0; k < BUFFER_CLASS_COUNT; k++) {
        if (used[palette_memory_order(k)]) {
            looks[looks_count++] = palette_memory(palette_memory_order(k));
        }
    }
    page_legend(h, looks, looks_count);
    snprintf(title, sizeof title, "Memory of %.100s by class over time", space->name);
    snprintf(label, sizeof label, "time (%s)", unit.name);
    html_chart_begin(&c, title,
                     "Stacked: what lasts all step long below, what comes and goes above. The table below has "
                     "the classes at the peak.");
    html_chart_axis_x(&c, label);
    html_chart_axis_y(&c, "memory (GiB)");
    put_bands(&c, bins, count, end, used);
    if (limit) {
        html_chart_line(&c, c.left, html_chart_y(&c, capacity), HTML_CHART_WIDTH - HTML_CHART_RIGHT,
                        html_chart_y(&c, capacity), "limit");
    }
    snprintf(text, sizeof text, "%.100s, the fullest: live bytes by class%s.", space->name,
             limit ? "; the dashed line is the usable capacity" : "");
    html_chart_end(&c, text);
}

/* The big picture in figures: each twentieth of the step at its fullest. */
static void put_slices(struct html *h, const struct series_space *space, int64_t end_ps)
{
    struct html_column columns[2 + BUFFER_CLASS_COUNT] = { { "from", false }, { "in all", true } };
    struct memory_bin bins[SLICES];
    bool used[BUFFER_CLASS_COUNT] = { 0 };
    char text[PAGE_TEXT_BYTES];
    uint32_t columns_count = 2, count = memory_bins(&space->series, end_ps, SLICES, bins);
    used_classes(&space->series, used);
    for (uint32_t k = 0; k < BUFFER_CLASS_COUNT; k++) {
        if (used[palette_memory_order(k)]) {
            columns[columns_count++] = (struct html_column){ palette_memory(palette_memory_order(k))->title, true };
        }
    }
    snprintf(text, sizeof text, "Memory of %.100s over time as a table", space->name);
    page_details_named(h, SLICES_ID, text);
    snprintf(text, sizeof text,
             "Live bytes of %.100s at the fullest moment of each twentieth of the step that changes them", space->name);
    html_table(h, text, columns, columns_count);
    for (uint32_t i = 0; i < count; i++) {
        double sum = sum_to(bins[i].bytes, BUFFER_CLASS_COUNT - 1);
        html_row(h);
        html_cell(h, page_time(s_from_ps(end_ps) * bins[i].bin / SLICES, text));
        html_cell_data(h, sum, page_bytes_as(sum, (double)space->peak_bytes, text));
        for (uint32_t k = 0; k < BUFFER_CLASS_COUNT; k++) {
            enum buffer_class class = palette_memory_order(k);
            if (used[class]) {
                html_cell_data(h, (double)bins[i].bytes[class],
                               page_bytes_as((double)bins[i].bytes[class], (double)space->peak_bytes, text));
            }
        }
        html_row_end(h);
    }
    html_table_end(h);
    html_close(h, "details");
}

/* A total over time, 240 by 90, on its own scale: its capacity, or its peak where that is far below. */
static void put_small(struct html *h, const struct series_space *space, const struct step_space *about, int64_t end_ps)
{
    struct memory_bin bins[SMALL_BINS];
    uint32_t count = memory_bins(&space->series, end_ps, SMALL_BINS, bins);
    double peak = (double)space->peak_bytes, capacity = about != NULL && about->capacity > 0 ? about->capacity : NAN;
    double top = capacity < 4 * peak && capacity > peak ? capacity : peak;
    struct strbuf path = { 0 };
    char text[PAGE_TEXT_BYTES], of[PAGE_TEXT_BYTES];
    strbuf_append(&path, "M0 90");
    for (uint32_t i = 0; i < count; i++) {
        strbuf_printf(&path, "H%.1fV%.1f", 240.0 * bins[i].bin / SMALL_BINS,
                      90 - 88 * sum_to(bins[i].bytes, BUFFER_CLASS_COUNT - 1) / top);
    }
    strbuf_append(&path, "H240V90z");
    snprintf(text, sizeof text, "Total memory of %.100s over time", space->name);
    html_small_begin(h, text, PEAKS_ID);
    html_open(h, "path");
    html_attr(h, "class", "k56B4E9");
    html_attr(h, "d", path.text != NULL ? path.text : "");
    html_close(h, "path");
    if (capacity < 4 * peak) {
        html_open(h, "path");
        html_attr(h, "class", "limit");
        html_attr_printf(h, "d", "M0 %.1fH240", 90 - 88 * capacity / top);
        html_close(h, "path");
    }
    char caption[2 * PAGE_TEXT_BYTES];
    snprintf(caption, sizeof caption, "%.100s: peak %s%s%s", space->name, page_bytes(peak, text),
             capacity > 0 ? " of " : "", capacity > 0 ? page_bytes(capacity, of) : "");
    html_small_end(h, caption);
    h->out->failed = h->out->failed || path.failed;
    strbuf_free(&path);
}

static void put_pictures(struct html *h, const struct step_source *source)
{
    const struct step_series *series = &source->series;
    const struct step_space *fullest = step_result_fullest(&source->result, NULL);
    uint32_t shown = series->space_count < SMALL_MAX ? series->space_count : SMALL_MAX, others = 0;
    for (uint32_t i = 0; i < series->space_count; i++) {
        const struct series_space *space = &series->spaces[i];
        if (fullest != NULL && strcmp(space->name, fullest->name) == 0 && space->peak_bytes > 0) {
            put_big(h, space, fullest, series->end_ps);
            put_slices(h, space, series->end_ps);
        }
    }
    html_leaf(h, "h3", NULL, "Every memory: all live bytes over the step");
    html_open(h, "div");
    html_attr(h, "class", "small");
    for (uint32_t i = 0; i < shown; i++) {
        const struct series_space *space = &series->spaces[i];
        if (space->peak_bytes > 0) {
            put_small(h, space, space_named(&source->result, space->name), series->end_ps);
        }
    }
    html_close(h, "div");
    others = series->space_count - shown;
    if (others > 0) {
        html_open(h, "p");
        html_attr(h, "class", "soft");
        html_printf(h, "%u more are in the table below.", others);
        html_close(h, "p");
    }
}

static void put_table(struct html *h, const struct step_result *r, const char *table_id)
{
    struct html_column columns[6 + BUFFER_CLASS_COUNT] = {
        { "memory", false }, { "peak", true }, { "reserved", true }, { "usable", true }, { "peak at", true }
    };
    char text[PAGE_TEXT_BYTES];
    uint32_t count = 5;
    bool used[BUFFER_CLASS_COUNT] = { 0 };
    double largest = 0;
    for (uint32_t i = 0; i < r->space_count; i++) {
        for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
            used[c] = used[c] || r->spaces[i].at_peak[c] > 0;
        }
        largest = fmax(largest, r->spaces[i].peak);
    }
    for (uint32_t k = 0; k < BUFFER_CLASS_COUNT; k++) {
        if (used[palette_memory_order(k)]) {
            columns[count++] = (struct html_column){ palette_memory(palette_memory_order(k))->title, true };
        }
    }
    html_table_named(h, table_id, "Peaks: live bytes, what the allocator holds for them, and what is live at the peak",
                     columns, count);
    for (uint32_t i = 0; i < r->space_count; i++) {
        const struct step_space *space = &r->spaces[i];
        html_row(h);
        snprintf(text, sizeof text, space->equal_devices > 1 ? "%.100s and %.0f like it" : "%.100s", space->name,
                 space->equal_devices - 1);
        html_cell(h, text);
        html_cell_data(h, space->peak, page_bytes_as(space->peak, largest, text));
        html_cell_data(h, space->reserved, page_bytes_as(space->reserved, largest, text));
        if (isnan(space->capacity)) {
            html_cell(h, "no limit");
        } else {
            html_cell_data(h, space->capacity, page_bytes(space->capacity, text));
        }
        html_cell_data(h, space->peak_time_s, page_time(space->peak_time_s, text));
        for (uint32_t k = 0; k < BUFFER_CLASS_COUNT; k++) {
            enum buffer_class class = palette_memory_order(k);
            if (used[class]) {
                html_cell_data(h, space->at_peak[class], page_bytes_as(space->at_peak[class], largest, text));
            }
        }
        html_row_end(h);
    }
    html_table_end(h);
}

static void put_pressure(struct html *h, const struct step_result *r)
{
    static const struct html_column columns[] = { { "memory", false },
                                                  { "most of it", false },
                                                  { "a micro-batch 10 % larger needs", true },
                                                  { "fits", false },
                                                  { "micro-batch that would fill it", true } };
    char text[PAGE_TEXT_BYTES];
    double largest = 0;
    if (r->pressure_count == 0) {
        return;
    }
    for (uint32_t i = 0; i < r->pressure_count; i++) {
        largest = fmax(largest, r->pressures[i].next_bytes);
    }
    html_table(h, "What fills it, and what more it would take", columns, 5);
    for (uint32_t i = 0; i < r->pressure_count; i++) {
        const struct step_pressure *p = &r->pressures[i];
        html_row(h);
        html_cell(h, p->name);
        html_cell(h, p->largest_class);
        html_cell_data(h, p->next_bytes, page_bytes_as(p->next_bytes, largest, text));
        html_cell(h, p->next_fits ? "yes" : "no");
        if (isnan(p->batch_factor)) {
            html_cell(h, "nothing grows");
        } else {
            snprintf(text, sizeof text, "%.2f times", p->batch_factor);
            html_cell_data(h, p->batch_factor, text);
        }
        html_row_end(h);
    }
    html_table_end(h);
}

void step_memory(struct html *h, const struct step_source *source)
{
    const struct step_result *r = &source->result;
    const struct step_space *fullest = step_result_fullest(r, NULL);
    char text[PAGE_TEXT_BYTES];
    if (fullest != NULL) {
        html_open(h, "p");
        html_printf(h, "%s is fullest for its size. Its peak is at %s, %s.", fullest->name,
                    page_time(fullest->peak_time_s, text),
                    fullest->peak_op != NULL ? fullest->peak_op : "from the start on");
        html_close(h, "p");
    }
    if (source->has_series && source->series.end_ps > 0 && source->series.space_count > 0) {
        put_pictures(h, source);
    }
    bool fold = r->space_count > ROWS_OPEN;
    if (fold) {
        snprintf(text, sizeof text, "The peaks of all %u memories", r->space_count);
        page_details_named(h, PEAKS_ID, text);
    }
    put_table(h, r, fold ? NULL : PEAKS_ID);
    put_pressure(h, r);
    if (fold) {
        html_close(h, "details");
    }
}
