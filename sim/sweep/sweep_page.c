#include "sim/sweep/sweep_page.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/report/html/step_facts.h"
#include "sim/sweep/sweep_page_internal.h"

enum { ROW_FIGURES = 6, REASONS_SHOWN = 20, COLUMNS_MAX = SWEEP_AXES_MAX + 8 };

/* --- rows */

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
        return step_share_text(*value, text, TEXT_BYTES);
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

void sweep_page_rows(const struct sweep_page *p, const char *table_id, struct json_document *document,
                     const char *caption)
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
    char text[TEXT_BYTES];
    double value = NAN;
    bool some = first_row(document, &rows, &row);
    uint32_t count = 1;
    for (uint32_t i = 0; i < data->axis_count && count < COLUMNS_MAX - ROW_FIGURES; i++) {
        if (some) {
            (void)value_text(&row, data->axes[i].name, &value, text);
        }
        bool number = some && !isnan(value);
        columns[count++] = (struct html_column){ data->axes[i].name, number };
    }
    uint32_t axes = count - 1;
    for (int i = 0; i < ROW_FIGURES; i++) {
        columns[count++] = (struct html_column){ figures[i][1], i < ROW_FIGURES - 1 };
    }
    html_table_named(p->h, table_id, caption, columns, count);
    for (size_t i = 0; some && i < json_count(&rows); i++) {
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

static const char *answer_word(const struct sweep_page_data *data)
{
    return data->counts[SWEEP_DONE] > 0           ? "The best that fits:"
           : data->counts[SWEEP_DOES_NOT_FIT] > 0 ? "Nothing fits."
                                                  : "No point could be computed.";
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
    html_leaf(h, "strong", data->counts[SWEEP_DONE] > 0 ? "good" : "bad", answer_word(data));
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
    page_card(h, "Points", (double)data->rows, text, data->counts[SWEEP_ERROR] > 0 ? NULL : "simulated in full");
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
    if (data->counts[SWEEP_DONE] > 0) {
        sweep_page_rows(p, NULL, data->best, "The best by tokens a second");
    }
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
    int64_t others = data->reasons.others;
    html_leaf(h, "p", NULL,
              "Reasons that read the same but for their numbers are counted together; the first line of one of each "
              "stands here, the "
              "database has them whole.");
    html_table(h, "Why points do not fit or fail", columns, 5);
    for (uint32_t i = 0; i < data->reasons.count; i++) {
        const struct sweep_reason *reason = &data->reasons.items[i];
        if (i >= REASONS_SHOWN) {
            others += reason->count;
            continue;
        }
        html_row(h);
        snprintf(text, sizeof text, "%" PRId64, reason->count);
        html_cell_data(h, (double)reason->count, text);
        html_cell_bar(h, (double)reason->count / (double)data->rows, "kD55E00");
        html_cell(h, reason->status);
        html_open(h, "td");
        html_text_grouped(h, reason->text);
        html_close(h, "td");
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
    return (part != PARETO || data->points.count > 0) && (part != REASONS || data->reasons.count > 0) &&
           (part != EFFECTS || data->axis_count > 0);
}

static void print_page(const struct sweep_page *p)
{
    static const struct page_link parts[PART_COUNT] = { [ANSWER] = { "answer", "The answer" },
                                                        [PARETO] = { "pareto", "Step time against memory" },
                                                        [REASONS] = { "reasons", "What does not fit or fails" },
                                                        [EFFECTS] = { "axes", "What each axis does" },
                                                        [REPEAT] = { "repeat", "How to repeat it" } };
    static void (*const print[PART_COUNT])(const struct sweep_page *) = { put_answer, sweep_page_pareto, put_reasons,
                                                                          sweep_page_effects, put_repeat };
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
