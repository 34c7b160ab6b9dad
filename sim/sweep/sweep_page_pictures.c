/* The pictures of a sweep's report: step time against memory, what each axis does. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/base/units.h"
#include "sim/report/html/step_facts.h"
#include "sim/sweep/sweep_page_internal.h"

enum { CELL = 4 };

static const char FRONT_ID[] = "front-table";

/* --- step time against memory */

/* Dots on a grid of CELL units: those that would cover each other are one. */
static void put_dots(const struct html_chart *c, const struct sweep_page_data *data)
{
    size_t columns = HTML_CHART_WIDTH / CELL + 1, rows = (size_t)c->height / CELL + 1;
    bool *taken = calloc(columns * rows, sizeof *taken);
    struct strbuf path = { 0 };
    for (size_t i = 0; taken != NULL && i < data->points.count; i++) {
        double x = html_chart_x(c, data->points.items[i].step_s),
               y = html_chart_y(c, data->points.items[i].peak_bytes / GIB);
        size_t cell = (size_t)(fmax(y, 0) / CELL) * columns + (size_t)(fmax(x, 0) / CELL);
        if (cell < columns * rows && !taken[cell]) {
            taken[cell] = true;
            strbuf_printf(&path, "M%.1f %.1fh0", x, y);
        }
    }
    html_open(c->h, "path");
    html_attr(c->h, "class", "dots");
    html_attr(c->h, "d", path.text != NULL ? path.text : "");
    html_close(c->h, "path");
    c->h->out->failed = c->h->out->failed || path.failed || taken == NULL;
    strbuf_free(&path);
    free(taken);
}

/* The front as steps: from each of its rows on nothing with less memory is as fast. */
static void put_front(const struct html_chart *c, struct json_document *document)
{
    struct json rows, row;
    struct strbuf line = { 0 }, dots = { 0 };
    json_root(document, &rows);
    for (size_t i = 0; i < json_count(&rows); i++) {
        double step = NAN, peak = NAN;
        json_item(&rows, i, &row);
        if (json_real(&row, "step_time_s", 0, HUGE_VAL, &step, NULL) == STATUS_OK &&
            json_real(&row, "peak_bytes", 0, HUGE_VAL, &peak, NULL) == STATUS_OK && step > 0 && peak > 0) {
            double x = html_chart_x(c, step), y = html_chart_y(c, peak / GIB);
            strbuf_printf(&line, line.length == 0 ? "M%.1f %.1f" : "H%.1fV%.1f", x, y);
            strbuf_printf(&dots, "M%.1f %.1fh0", x, y);
        }
    }
    html_open(c->h, "path");
    html_attr(c->h, "class", "front");
    html_attr(c->h, "d", line.text != NULL ? line.text : "");
    html_close(c->h, "path");
    html_open(c->h, "path");
    html_attr(c->h, "class", "dots best");
    html_attr(c->h, "d", dots.text != NULL ? dots.text : "");
    html_close(c->h, "path");
    c->h->out->failed = c->h->out->failed || line.failed || dots.failed;
    strbuf_free(&line);
    strbuf_free(&dots);
}

void sweep_page_pareto(const struct sweep_page *p)
{
    const struct sweep_page_data *data = p->data;
    double least_s = INFINITY, most_s = 0, least_bytes = INFINITY, most_bytes = 0;
    char description[TEXT_BYTES];
    for (size_t i = 0; i < data->points.count; i++) {
        const struct sweep_point *point = &data->points.items[i];
        least_s = fmin(least_s, point->step_s);
        most_s = fmax(most_s, point->step_s);
        least_bytes = fmin(least_bytes, point->peak_bytes);
        most_bytes = fmax(most_bytes, point->peak_bytes);
    }
    const struct html_chart c = { .h = p->h,
                                  .height = 480,
                                  .left = 78,
                                  .x = html_range_of(least_s, most_s),
                                  .y = html_range_of(least_bytes / GIB, most_bytes / GIB),
                                  .table_id = FRONT_ID };
    snprintf(description, sizeof description,
             "%zu points that fit: steps from %.4g to %.4g s, peaks from %.4g to %.4g GiB. The table below has those "
             "of the front.",
             data->points.count, least_s, most_s, least_bytes / GIB, most_bytes / GIB);
    html_leaf(p->h, "p", NULL,
              "Each dot is a point of the sweep that fits. On the line: those that no other beats in both step time "
              "and memory.");
    html_chart_begin(&c, "Step time against the peak of the fullest GPU", description);
    html_chart_axis_x(&c, c.x.logarithmic ? "step time (s, logarithmic)" : "step time (s)");
    html_chart_axis_y(&c, c.y.logarithmic ? "peak of a GPU (GiB, logarithmic)" : "peak of a GPU (GiB)");
    put_dots(&c, data);
    put_front(&c, data->front);
    html_chart_end(
        &c, "Step time against memory: left and below is better. Dots that would cover each other are drawn once.");
    sweep_page_rows(p, FRONT_ID, data->front, "The Pareto front of step time and memory");
}

/* --- what the axes do */

/* From the least to the best, a mark at the median, on the scale of the whole sweep. */
static void put_strip(struct html *h, const struct sweep_effect *effect, double most)
{
    html_open(h, "td");
    html_attr(h, "class", "bar");
    html_open(h, "svg");
    html_attr(h, "viewBox", "0 0 100 10");
    html_attr(h, "preserveAspectRatio", "none");
    html_attr(h, "aria-hidden", "true");
    if (effect->done > 0 && most > 0) {
        double from = 100 * effect->least / most, to = 100 * effect->best / most;
        html_open(h, "rect");
        html_attr(h, "class", "k56B4E9");
        html_attr_real(h, "x", from);
        html_attr(h, "y", "2");
        html_attr_real(h, "width", fmax(to - from, 0.5));
        html_attr(h, "height", "6");
        html_close(h, "rect");
        html_open(h, "rect");
        html_attr(h, "class", "k000000");
        html_attr_real(h, "x", fmax(100 * effect->median / most - 0.4, 0));
        html_attr(h, "width", "0.8");
        html_attr(h, "height", "10");
        html_close(h, "rect");
    }
    html_close(h, "svg");
    html_close(h, "td");
}

enum figure_kind { FIGURE_IS_NUMBER, FIGURE_IS_BYTES, FIGURE_IS_SHARE };

static void put_figure(struct html *h, double value, enum figure_kind kind)
{
    char text[TEXT_BYTES];
    if (isnan(value)) {
        html_cell(h, "-");
        return;
    }
    if (kind == FIGURE_IS_BYTES) {
        (void)text_bytes(value, text, sizeof text);
    } else if (kind == FIGURE_IS_SHARE) {
        (void)step_share_text(value, text, sizeof text);
    } else {
        (void)step_number_text(value, text, sizeof text);
    }
    html_cell_data(h, value, text);
}

static void put_axis(const struct sweep_page *p, const struct sweep_axis_effects *axis, double most)
{
    static const struct html_column columns[] = { { "value", false },
                                                  { "points", true },
                                                  { "fit", true },
                                                  { "tokens/s: least, median, best", false },
                                                  { "median", true },
                                                  { "best", true },
                                                  { "least peak of a GPU", true } };
    struct html *h = p->h;
    char text[TEXT_BYTES];
    html_leaf(h, "h3", NULL, axis->name);
    snprintf(text, sizeof text, "By %.100s, whatever the other axes are", axis->name);
    html_table(h, text, columns, 7);
    for (uint32_t i = 0; i < axis->effect_count; i++) {
        const struct sweep_effect *effect = &axis->effects[i];
        html_row(h);
        html_cell(h, effect->value[0] != '\0' ? effect->value : "-");
        snprintf(text, sizeof text, "%" PRId64, effect->rows);
        html_cell_data(h, (double)effect->rows, text);
        snprintf(text, sizeof text, "%" PRId64, effect->done);
        html_cell_data(h, (double)effect->done, text);
        put_strip(h, effect, most);
        put_figure(h, effect->median, FIGURE_IS_NUMBER);
        put_figure(h, effect->best, FIGURE_IS_NUMBER);
        put_figure(h, effect->peak_least, FIGURE_IS_BYTES);
        html_row_end(h);
    }
    html_table_end(h);
    if (axis->values > axis->effect_count) {
        html_open(h, "p");
        html_attr(h, "class", "soft");
        html_printf(h, "The first %u of %" PRId64 " values.", axis->effect_count, axis->values);
        html_close(h, "p");
    }
}

void sweep_page_effects(const struct sweep_page *p)
{
    static const struct html_column columns[] = {
        { "axis", false }, { "values", true }, { "", false }, { "share of the spread", true }
    };
    const struct sweep_page_data *data = p->data;
    struct html *h = p->h;
    char text[TEXT_BYTES];
    double most = 0;
    html_leaf(
        h, "p", NULL,
        "Share of the spread: how much of the variance of log(tokens/s), over all points that fit, goes with this "
        "axis alone (its values' means; eta squared). Axes that act together can sum to more or less than 100 %.");
    html_table(h, "How much each axis matters", columns, 4);
    for (uint32_t i = 0; i < data->axis_count; i++) {
        const struct sweep_axis_effects *axis = &data->axes[i];
        html_row(h);
        html_cell(h, axis->name);
        snprintf(text, sizeof text, "%" PRId64, axis->values);
        html_cell_data(h, (double)axis->values, text);
        html_cell_bar(h, isnan(axis->explained) ? 0 : axis->explained, "k0072B2");
        put_figure(h, axis->explained, FIGURE_IS_SHARE);
        html_row_end(h);
        for (uint32_t k = 0; k < axis->effect_count; k++) {
            most = fmax(most, isnan(axis->effects[k].best) ? 0 : axis->effects[k].best);
        }
    }
    html_table_end(h);
    for (uint32_t i = 0; i < data->axis_count; i++) {
        if (data->axes[i].values > 1) {
            put_axis(p, &data->axes[i], most);
        }
    }
}
