/* A lesson's rows as a chart (plots/chart.h). */
#include <math.h>
#include <string.h>

#include "plots/chart.h"
#include "sim/base/check.h"
#include "tests/lessons/lesson.h"

enum { LIMITS_MAX = 6 };

/* The picture's head, and the values of x and series in the order of their first rows. */
struct drawing {
    struct lesson *lesson;
    struct json at;
    const char *x, *series, *where, *panel_where;
    struct chart chart;
    struct chart_panel panels[CHART_PANELS_MAX];
    struct chart_series of_panel[CHART_PANELS_MAX][CHART_SERIES_MAX];
    const char *x_words[CHART_POINTS_MAX], *series_words[CHART_SERIES_MAX]; /* as the rows have them */
    const char *x_names[CHART_POINTS_MAX];                                  /* as people say */
    uint32_t series_count;
    struct chart_limit limits[CHART_PANELS_MAX][LIMITS_MAX];
};

/* The value of a column as text. */
static enum status word_of(struct drawing *d, const char *column, uint32_t row, const char **word, struct error *error)
{
    struct expression_value value = { .kind = VALUE_NULL };
    struct strbuf text = { 0 };
    TRY(lesson_value(d->lesson, &d->at, column, row, &value, error));
    *word = value.text;
    if (value.kind != VALUE_TEXT) {
        expression_value_print(&value, &text);
        *word = text.text != NULL ? arena_text(&d->lesson->arena, text.text) : NULL;
        strbuf_free(&text);
    }
    return *word != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "out of memory");
}

static uint32_t place(const char *const *words, uint32_t count, const char *word)
{
    uint32_t i = 0;
    while (i < count && strcmp(words[i], word) != 0) {
        i++;
    }
    return i;
}

static enum status name_of(const struct drawing *d, const char *word, const char **name, struct error *error)
{
    struct json names;
    TRY(json_object_optional(&d->at, "names", &names, error));
    return json_string_or(&names, word, word, name, error);
}

static enum status collect_words(struct drawing *d, struct error *error)
{
    const char *word = "";
    bool holds;
    for (uint32_t r = 0; r < d->lesson->rows.count; r++) {
        TRY(lesson_holds(d->lesson, &d->at, d->where, r, &holds, error));
        if (!holds) {
            continue;
        }
        TRY(word_of(d, d->x, r, &word, error));
        uint32_t i = place(d->x_words, d->chart.word_count, word);
        if (i == CHART_POINTS_MAX) {
            return json_error(&d->at, error, "more than %d values of %s", CHART_POINTS_MAX, d->x);
        }
        if (i == d->chart.word_count) {
            d->x_words[d->chart.word_count++] = word;
            TRY(name_of(d, word, &d->x_names[i], error));
        }
        if (d->series == NULL) {
            continue;
        }
        TRY(word_of(d, d->series, r, &word, error));
        i = place(d->series_words, d->series_count, word);
        if (i == CHART_SERIES_MAX) {
            return json_error(&d->at, error, "more than %d values of %s", CHART_SERIES_MAX, d->series);
        }
        d->series_words[i] = word;
        d->series_count += i == d->series_count;
    }
    d->chart.words = d->x_names;
    return STATUS_OK;
}

/* Points of one series: rows of one value of the series' column (NULL: all rows), y as `text` says; rows without that figure are left out. */
static enum status take_points(struct drawing *d, const struct json *at, const char *only, const char *text,
                               struct chart_series *series, struct error *error)
{
    struct chart_point *points = arena_array(&d->lesson->arena, struct chart_point, d->lesson->rows.count);
    for (uint32_t r = 0; r < d->lesson->rows.count && points != NULL; r++) {
        struct expression_value x, y, status;
        const char *word = "";
        bool holds;
        TRY(lesson_holds(d->lesson, &d->at, d->where, r, &holds, error));
        if (holds) {
            TRY(lesson_holds(d->lesson, &d->at, d->panel_where, r, &holds, error));
        }
        if (holds && only != NULL) {
            TRY(word_of(d, d->series, r, &word, error));
            holds = strcmp(word, only) == 0;
        }
        TRY(lesson_value(d->lesson, &d->at, "step_time_s", r, &y, error));
        if (!holds || y.kind != VALUE_NUMBER) {
            continue;
        }
        TRY(lesson_value(d->lesson, at, text, r, &y, error));
        TRY(lesson_value(d->lesson, &d->at, d->x, r, &x, error));
        TRY(lesson_value(d->lesson, &d->at, "status", r, &status, error));
        TRY(word_of(d, d->x, r, &word, error));
        if (y.kind != VALUE_NUMBER || (d->chart.scale != CHART_WORDS && x.kind != VALUE_NUMBER)) {
            return json_error(at, error, "x and y must be numbers");
        }
        double words = place(d->x_words, d->chart.word_count, word);
        points[series->count++] = (struct chart_point){ .x = d->chart.scale == CHART_WORDS ? words : x.number,
                                                        .y = y.number,
                                                        .fits = strcmp(status.text, "done") == 0 };
    }
    series->points = points;
    return points != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "out of memory");
}

/* A series for each value of the series' column, or for each part. */
static enum status fill_panel(struct drawing *d, const struct json *at, uint32_t p, struct error *error)
{
    struct chart_panel *panel = &d->panels[p];
    struct json parts, part;
    const char *y;
    TRY(json_object_optional(at, "parts", &parts, error));
    TRY(json_string_or(at, "y", NULL, &y, error));
    panel->series = d->of_panel[p];
    if ((y == NULL) == (parts.node == NULL)) {
        return json_error(at, error, "a panel has a \"y\" or \"parts\"");
    }
    panel->first_look = y == NULL && d->series != NULL ? d->series_count : 0;
    if (y != NULL && d->series == NULL && panel->kind == CHART_BARS) {
        panel->first_look = CHART_SERIES_MAX - 1; /* grey: no part of the panel beside it */
    }
    panel->series_count = y == NULL ? (uint32_t)json_count(&parts) : d->series != NULL ? d->series_count : 1;
    for (uint32_t s = 0; s < panel->series_count && s < CHART_SERIES_MAX; s++) {
        struct chart_series *series = &d->of_panel[p][s];
        if (y == NULL) {
            json_member(&parts, s, &series->name, &part);
            TRY(json_as_string(&part, &y, error));
            TRY(take_points(d, &part, NULL, y, series, error));
            y = NULL;
        } else {
            series->name = "";
            if (d->series != NULL) {
                TRY(name_of(d, d->series_words[s], &series->name, error));
            }
            TRY(take_points(d, at, d->series != NULL ? d->series_words[s] : NULL, y, series, error));
        }
    }
    return STATUS_OK;
}

static enum status load_panel(struct drawing *d, const struct json *at, uint32_t p, struct error *error)
{
    static const char *const KEYS[] = { "title", "kind", "y", "parts", "limits", "where" };
    static const char *const KINDS[] = { "lines", "bars", "stack" };
    struct chart_panel *panel = &d->panels[p];
    struct json limits, at_limit;
    size_t kind;
    TRY(json_known_keys(at, KEYS, sizeof KEYS / sizeof KEYS[0], error));
    TRY(json_string(at, "title", &panel->title, error));
    TRY(json_word(at, "kind", KINDS, 3, &kind, error));
    TRY(json_string_or(at, "where", NULL, &d->panel_where, error));
    TRY(json_object_optional(at, "limits", &limits, error));
    panel->kind = (enum chart_kind)kind;
    if (panel->kind != CHART_LINES && d->chart.scale != CHART_WORDS) {
        return json_error(at, error, "bars and stacks stand over words: \"scale\": \"words\"");
    }
    panel->limits = d->limits[p];
    for (; limits.node != NULL && panel->limit_count < json_count(&limits); panel->limit_count++) {
        struct chart_limit *line = &d->limits[p][panel->limit_count];
        struct expression_value value = { .kind = VALUE_NULL };
        const char *text;
        if (panel->limit_count == LIMITS_MAX) {
            return json_error(&limits, error, "more than %d limits", LIMITS_MAX);
        }
        json_member(&limits, panel->limit_count, &line->name, &at_limit);
        TRY(json_as_string(&at_limit, &text, error));
        TRY(lesson_value(d->lesson, &at_limit, text, 0, &value, error));
        line->y = value.kind == VALUE_NUMBER ? value.number : 0;
    }
    return fill_panel(d, at, p, error);
}

enum status lesson_picture(struct lesson *lesson, struct strbuf *out, struct error *error)
{
    static const char *const KEYS[] = { "title", "x", "x_label", "scale", "series", "where", "names", "panels" };
    static const char *const SCALES[] = { "linear", "log", "words" };
    struct drawing d = { .lesson = lesson };
    struct json panels, at;
    size_t scale;
    TRY(json_object(&lesson->root, "picture", &d.at, error));
    TRY(json_known_keys(&d.at, KEYS, sizeof KEYS / sizeof KEYS[0], error));
    TRY(json_string(&d.at, "title", &d.chart.title, error));
    TRY(json_string(&d.at, "x", &d.x, error));
    TRY(json_string(&d.at, "x_label", &d.chart.x_label, error));
    TRY(json_word(&d.at, "scale", SCALES, 3, &scale, error));
    TRY(json_string_or(&d.at, "series", NULL, &d.series, error));
    TRY(json_string_or(&d.at, "where", NULL, &d.where, error));
    TRY(json_array(&d.at, "panels", &panels, error));
    d.chart.scale = (enum chart_scale)scale;
    TRY(collect_words(&d, error));
    d.chart.panels = d.panels;
    d.chart.panel_count = (uint32_t)json_count(&panels);
    for (uint32_t p = 0; p < d.chart.panel_count && p < CHART_PANELS_MAX; p++) {
        json_item(&panels, p, &at);
        TRY(load_panel(&d, &at, p, error));
    }
    return chart_svg(&d.chart, out, error);
}
