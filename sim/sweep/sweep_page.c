#include "sim/sweep/sweep_page.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/report/html/chart.h"
#include "sim/report/html/page.h"
#include "sim/report/html/step_page.h"
#include "sim/sweep/sweep_page_data.h"

enum { TEXT_BYTES = 512, ROW_FIGURES = 6, REASONS_SHOWN = 20, CELL = 4, COLUMNS_MAX = SWEEP_AXES_MAX + 8 };

struct sweep_page {
    struct html *h;
    const struct sweep_page_data *data;
    const struct sweep_page_request *request;
    const char *version;
};

/* --- rows */

/* A column of a row as people read it: 3 significant figures with units for those that have one. */
static const char *value_text(const struct json *row, const char *column, double *value, char text[TEXT_BYTES])
{
    struct json at;
    const char *word = "";
    *value = NAN;
    snprintf(text, TEXT_BYTES, "-");
    if (json_any_optional(row, column, &at, NULL) != STATUS_OK || at.node == NULL) {
        return text;
    }
    if (json_type(&at) != JSON_NUMBER) {
        (void)json_as_string(&at, &word, NULL);
        snprintf(text, TEXT_BYTES, "%.200s", word);
        return text;
    }
    (void)json_as_real(&at, -HUGE_VAL, HUGE_VAL, value, NULL);
    if (strcmp(column, "step_time_s") == 0 && *value >= 0 && *value < 9e6) {
        return text_time_ps(ps_nearest_s(*value), text, TEXT_BYTES);
    }
    if (strcmp(column, "peak_bytes") == 0) {
        return text_bytes(*value, text, TEXT_BYTES);
    }
    if (strcmp(column, "mfu") == 0) {
        snprintf(text, TEXT_BYTES, "%.1f %%", 100 * *value);
        return text;
    }
    text[0] = '$';
    bool money = strncmp(column, "cost", 4) == 0;
    (void)step_number_text(*value, text + money, TEXT_BYTES - 1);
    return text;
}

static void put_cell(const struct sweep_page *p, const struct json *row, const char *column)
{
    char text[TEXT_BYTES];
    double value;
    const char *words = value_text(row, column, &value, text);
    if (isnan(value)) {
        html_cell(p->h, words);
    } else {
        html_cell_data(p->h, value, words);
    }
}

static void put_rows(const struct sweep_page *p, struct json_document *document, const char *caption)
{
    static const char *const figures[ROW_FIGURES][2] = { { "step_time_s", "step" },
                                                         { "tokens_per_s", "tokens/s" },
                                                         { "mfu", "MFU" },
                                                         { "peak_bytes", "peak of a GPU" },
                                                         { "cost_usd_per_trillion_tokens", "cost of 1e12 tokens" },
                                                         { "bound", "what binds most" } };
    const struct sweep_page_data *data = p->data;
    struct html_column columns[COLUMNS_MAX] = { { "point", false } };
    struct json rows, row;
    uint32_t count = 1;
    for (uint32_t i = 0; i < data->axis_count && count < COLUMNS_MAX - ROW_FIGURES; i++) {
        columns[count++] = (struct html_column){ data->axes[i].name, true };
    }
    uint32_t axes = count - 1;
    for (int i = 0; i < ROW_FIGURES; i++) {
        columns[count++] = (struct html_column){ figures[i][1], i < ROW_FIGURES - 1 };
    }
    json_root(document, &rows);
    html_table(p->h, caption, columns, count);
    for (size_t i = 0; i < json_count(&rows); i++) {
        json_item(&rows, i, &row);
        html_row(p->h);
        put_cell(p, &row, "point");
        for (uint32_t k = 0; k < axes; k++) {
            put_cell(p, &row, data->axes[k].name);
        }
        for (int k = 0; k < ROW_FIGURES; k++) {
            put_cell(p, &row, figures[k][0]);
        }
        html_row_end(p->h);
    }
    html_table_end(p->h);
}

/* "tensor = 8, pipeline = 4": the axes that vary. */
static void axes_text(const struct sweep_page *p, const struct json *row, struct strbuf *out)
{
    char text[TEXT_BYTES];
    double value;
    for (uint32_t i = 0; i < p->data->axis_count; i++) {
        if (p->data->axes[i].values > 1) {
            strbuf_printf(out, "%s%s = %s", out->length > 0 ? ", " : "", p->data->axes[i].name,
                          value_text(row, p->data->axes[i].name, &value, text));
        }
    }
}

/* The first row of a document; false: there is none. */
static bool first_row(struct json_document *document, struct json *rows, struct json *row)
{
    if (document == NULL) {
        return false;
    }
    json_root(document, rows);
    if (json_type(rows) != JSON_ARRAY || json_count(rows) == 0) {
        return false;
    }
    json_item(rows, 0, row);
    return true;
}

/* --- the answer */

static void put_card(const struct sweep_page *p, const char *title, struct json_document *document, const char *column)
{
    struct json rows, row;
    struct strbuf axes = { 0 };
    char text[TEXT_BYTES];
    double value;
    if (first_row(document, &rows, &row)) {
        const char *words = value_text(&row, column, &value, text);
        if (!isnan(value)) {
            axes_text(p, &row, &axes);
            page_card(p->h, title, value, words, axes.text != NULL ? axes.text : "");
        }
    }
    p->h->out->failed = p->h->out->failed || axes.failed;
    strbuf_free(&axes);
}

static void put_answer(const struct sweep_page *p)
{
    const struct sweep_page_data *data = p->data;
    struct html *h = p->h;
    struct json rows, row;
    char text[TEXT_BYTES], step[TEXT_BYTES];
    double value;
    html_open(h, "p");
    html_attr(h, "class", "verdict");
    html_leaf(h, "strong", data->counts[SWEEP_DONE] > 0 ? "good" : "bad",
              data->counts[SWEEP_DONE] > 0 ? "The best that fits:" : "Nothing fits.");
    if (first_row(data->best, &rows, &row)) {
        struct strbuf axes = { 0 };
        axes_text(p, &row, &axes);
        html_printf(h, " %s tokens a second, a step of %s, with %s.", value_text(&row, "tokens_per_s", &value, text),
                    value_text(&row, "step_time_s", &value, step), axes.text != NULL ? axes.text : "the base scenario");
        strbuf_free(&axes);
    }
    html_close(h, "p");
    html_open(h, "ul");
    html_attr(h, "class", "cards");
    snprintf(text, sizeof text, "%" PRId64, data->rows);
    page_card(h, "Points", (double)data->rows, text, "simulated in full");
    snprintf(text, sizeof text, "%" PRId64, data->counts[SWEEP_DONE]);
    page_card(h, "Fit", (double)data->counts[SWEEP_DONE], text, NULL);
    snprintf(text, sizeof text, "%" PRId64, data->counts[SWEEP_DOES_NOT_FIT]);
    page_card(h, "Do not fit", (double)data->counts[SWEEP_DOES_NOT_FIT], text, NULL);
    snprintf(text, sizeof text, "%" PRId64, data->counts[SWEEP_ERROR]);
    page_card(h, "Failed", (double)data->counts[SWEEP_ERROR], text, NULL);
    put_card(p, "Most tokens a second", data->best, "tokens_per_s");
    put_card(p, "Least memory", data->leanest, "peak_bytes");
    put_card(p, "Cheapest 1e12 tokens", data->cheapest, "cost_usd_per_trillion_tokens");
    html_close(h, "ul");
    if (data->other_versions > 0) {
        html_open(h, "p");
        html_attr(h, "class", "soft");
        html_printf(h, "%" PRId64 " rows of other versions of memwall are not looked at.", data->other_versions);
        html_close(h, "p");
    }
    put_rows(p, data->best, "The best by tokens a second");
}

/* --- step time against memory */

/* Dots on a grid of CELL units: those that would cover each other are one. */
static void put_dots(const struct chart *c, const struct sweep_page_data *data)
{
    size_t columns = CHART_WIDTH / CELL + 1, rows = (size_t)c->height / CELL + 1;
    bool *taken = calloc(columns * rows, sizeof *taken);
    struct strbuf path = { 0 };
    for (size_t i = 0; taken != NULL && i < data->points.count; i++) {
        double x = chart_x(c, data->points.items[i].step_s), y = chart_y(c, data->points.items[i].peak_bytes / GIB);
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
static void put_front(const struct chart *c, struct json_document *document)
{
    struct json rows, row;
    struct strbuf line = { 0 }, dots = { 0 };
    json_root(document, &rows);
    for (size_t i = 0; i < json_count(&rows); i++) {
        double step = NAN, peak = NAN;
        json_item(&rows, i, &row);
        if (json_real(&row, "step_time_s", 0, HUGE_VAL, &step, NULL) == STATUS_OK &&
            json_real(&row, "peak_bytes", 0, HUGE_VAL, &peak, NULL) == STATUS_OK && step > 0 && peak > 0) {
            double x = chart_x(c, step), y = chart_y(c, peak / GIB);
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

static void put_pareto(const struct sweep_page *p)
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
    const struct chart c = { .h = p->h,
                             .height = 480,
                             .left = 78,
                             .x = chart_range_of(least_s, most_s),
                             .y = chart_range_of(least_bytes / GIB, most_bytes / GIB) };
    snprintf(description, sizeof description,
             "%zu points that fit: steps from %.4g to %.4g s, peaks from %.4g to %.4g GiB. The table below has those "
             "of the front.",
             data->points.count, least_s, most_s, least_bytes / GIB, most_bytes / GIB);
    html_leaf(p->h, "p", NULL,
              "Each dot is a point of the sweep that fits. On the line: those that no other beats in both step time "
              "and memory.");
    chart_begin(&c, "Step time against the peak of the fullest GPU", description);
    chart_axis_x(&c, c.x.logarithmic ? "step time (s, logarithmic)" : "step time (s)");
    chart_axis_y(&c, c.y.logarithmic ? "peak of a GPU (GiB, logarithmic)" : "peak of a GPU (GiB)");
    put_dots(&c, data);
    put_front(&c, data->front);
    chart_end(&c,
              "Step time against memory: left and below is better. Dots that would cover each other are drawn once.");
    put_rows(p, data->front, "The Pareto front of step time and memory");
}

/* --- what did not end well */

static void put_reasons(const struct sweep_page *p)
{
    static const struct html_column columns[] = {
        { "points", true }, { "", false }, { "status", false }, { "for example", false }, { "point", true }
    };
    const struct sweep_page_data *data = p->data;
    struct html *h = p->h;
    char text[TEXT_BYTES];
    int64_t others = data->other_reasons;
    html_leaf(h, "p", NULL, "Reasons that read the same but for their numbers are counted together.");
    html_table(h, "Why points do not fit or fail", columns, 5);
    for (uint32_t i = 0; i < data->reason_count; i++) {
        const struct sweep_reason *reason = &data->reasons[i];
        if (i >= REASONS_SHOWN) {
            others += reason->count;
            continue;
        }
        html_row(h);
        snprintf(text, sizeof text, "%" PRId64, reason->count);
        html_cell_data(h, (double)reason->count, text);
        html_cell_bar(h, (double)reason->count / (double)data->rows, "kD55E00");
        html_cell(h, reason->status);
        html_cell(h, reason->text);
        snprintf(text, sizeof text, "%" PRId64, reason->point);
        html_cell_data(h, (double)reason->point, text);
        html_row_end(h);
    }
    html_table_end(h);
    if (others > 0) {
        html_open(h, "p");
        html_attr(h, "class", "soft");
        html_printf(h, "%" PRId64 " more for rarer reasons: column reason of the table results.", others);
        html_close(h, "p");
    }
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

/* `unit` NULL: bytes. */
static void put_figure(struct html *h, double value, const char *unit, double scale)
{
    char text[TEXT_BYTES], number[64];
    if (isnan(value)) {
        html_cell(h, "-");
        return;
    }
    if (unit == NULL) {
        (void)text_bytes(value, text, sizeof text);
    } else {
        snprintf(text, sizeof text, "%s%s", step_number_text(value * scale, number, sizeof number), unit);
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
        html_cell(h, effect->value);
        snprintf(text, sizeof text, "%" PRId64, effect->rows);
        html_cell_data(h, (double)effect->rows, text);
        snprintf(text, sizeof text, "%" PRId64, effect->done);
        html_cell_data(h, (double)effect->done, text);
        put_strip(h, effect, most);
        put_figure(h, effect->median, "", 1);
        put_figure(h, effect->best, "", 1);
        put_figure(h, effect->peak_least, NULL, 1);
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

static void put_effects(const struct sweep_page *p)
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
        put_figure(h, axis->explained, " %", 100);
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

/* --- how to repeat it */

static void put_term(struct html *h, const char *term, const char *text)
{
    html_leaf(h, "dt", NULL, term);
    html_open(h, "dd");
    html_leaf(h, "code", NULL, text);
    html_close(h, "dd");
}

static void put_json(struct html *h, const char *summary, const struct json *at)
{
    struct strbuf text = { 0 };
    json_print_pretty(at, &text);
    page_details(h, summary);
    html_leaf(h, "pre", NULL, text.text != NULL ? text.text : "");
    html_close(h, "details");
    h->out->failed = h->out->failed || text.failed;
    strbuf_free(&text);
}

static void put_repeat(const struct sweep_page *p)
{
    const struct sweep_page_data *data = p->data;
    struct html *h = p->h;
    struct json root, rows, row;
    struct json_document *scenario = NULL;
    const char *text = NULL;
    html_leaf(h, "p", NULL, "This page was made by");
    html_leaf(h, "pre", NULL, p->request->command);
    html_open(h, "p");
    html_printf(
        h,
        "The database has every figure of every point, in the view sweep_%" PRId64
        " and the table results (memwall sweep --schema documents them). Its rows are never computed again; the "
        "same input gives the same rows on every run, thread count and number of ranks.",
        data->sweep);
    html_close(h, "p");
    html_open(h, "dl");
    put_term(h, "memwall", p->version);
    put_term(h, "database", p->request->file);
    put_term(h, "sweep hash", data->hash);
    html_close(h, "dl");
    json_root(data->definition, &root);
    put_json(h, "The sweep: base scenario, axes, conditions", &root);
    if (first_row(data->best, &rows, &row) && json_string(&row, "scenario", &text, NULL) == STATUS_OK &&
        json_parse(&scenario, text, strlen(text), "scenario", NULL) == STATUS_OK) {
        json_root(scenario, &root);
        put_json(h, "The best point's scenario: memwall run and memwall report read it", &root);
    }
    json_free(scenario);
}

enum part { ANSWER, PARETO, REASONS, EFFECTS, REPEAT, PART_COUNT };

static bool is_there(const struct sweep_page_data *data, enum part part)
{
    return (part != PARETO || data->points.count > 0) && (part != REASONS || data->reason_count > 0) &&
           (part != EFFECTS || data->axis_count > 0);
}

static void print_page(const struct sweep_page *p)
{
    static const struct page_link parts[PART_COUNT] = { [ANSWER] = { "answer", "The answer" },
                                                        [PARETO] = { "pareto", "Step time against memory" },
                                                        [REASONS] = { "reasons", "What does not fit or fails" },
                                                        [EFFECTS] = { "axes", "What each axis does" },
                                                        [REPEAT] = { "repeat", "How to repeat it" } };
    static void (*const print[PART_COUNT])(const struct sweep_page *) = { put_answer, put_pareto, put_reasons,
                                                                          put_effects, put_repeat };
    struct page_link links[PART_COUNT + 1] = { 0 };
    uint32_t count = 0;
    for (int i = 0; i < PART_COUNT; i++) {
        if (is_there(p->data, (enum part)i)) {
            links[count++] = parts[i];
        }
    }
    page_begin(p->h, p->data->name, "A sweep of scenarios, each simulated in full by memwall", links);
    for (int i = 0; i < PART_COUNT; i++) {
        if (is_there(p->data, (enum part)i)) {
            page_section(p->h, &parts[i]);
            print[i](p);
            page_section_end(p->h);
        }
    }
    page_end(p->h, p->version);
}

enum status sweep_page_print(struct sweep_database *database, const struct sweep_page_request *request,
                             struct strbuf *out, bool *fits, struct error *error)
{
    struct sweep_page_data *data = calloc(1, sizeof *data);
    struct html h = { .out = out };
    if (data == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the report");
    }
    enum status status = sweep_page_data_read(data, database, request->sweep, error);
    if (status == STATUS_OK) {
        const struct sweep_page page = { &h, data, request, sweep_database_version(database) };
        *fits = data->counts[SWEEP_DONE] > 0;
        print_page(&page);
        status = out->failed ? error_set(error, STATUS_NO_MEMORY, "out of memory for the report") : STATUS_OK;
        sweep_page_data_free(data);
    }
    free(data);
    return status;
}
