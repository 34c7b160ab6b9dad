#include "tests/lessons/lesson.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/sweep/sweep_scenario.h"

static const char TRAFFIC[] = "traffic.";

/* --- rows */

/* traffic, a text that holds JSON: {"pcie":bytes,...}. */
static enum status traffic_of(const struct expression_value *text, const char *kind, double *bytes, struct error *error)
{
    struct json_document *document;
    struct json root;
    *bytes = 0;
    if (text->kind != VALUE_TEXT || text->text[0] == '\0') {
        return STATUS_OK;
    }
    TRY(json_parse(&document, text->text, strlen(text->text), "traffic", error));
    json_root(document, &root);
    enum status status = json_real_or(&root, kind, 0, INFINITY, 0, bytes, error);
    json_free(document);
    return status;
}

static uint32_t column_of(const struct lesson_rows *rows, const char *name)
{
    uint32_t i = 0;
    while (i < rows->name_count && strcmp(rows->names[i], name) != 0) {
        i++;
    }
    return i;
}

/* A column, made when it is a kind of traffic that nobody asked for before. */
static enum status find_column(void *context, const char *name, uint32_t *index, struct error *error)
{
    struct lesson *lesson = context;
    struct lesson_rows *rows = &lesson->rows;
    *index = column_of(rows, name);
    if (*index < rows->name_count) {
        return STATUS_OK;
    }
    if (strncmp(name, TRAFFIC, sizeof TRAFFIC - 1) != 0 || rows->name_count == LESSON_NAMES_MAX) {
        return error_set(error, STATUS_BAD_INPUT, "\"%s\" is no column of the sweep (memwall sweep --schema)", name);
    }
    uint32_t traffic = column_of(rows, "traffic");
    for (uint32_t r = 0; r < rows->count; r++) {
        struct expression_value *value = &rows->values[r][*index];
        value->kind = VALUE_NUMBER;
        TRY(traffic_of(&rows->values[r][traffic], name + sizeof TRAFFIC - 1, &value->number, error));
    }
    rows->names[rows->name_count++] = arena_text(&lesson->arena, name);
    return STATUS_OK;
}

static enum status load_row(struct lesson *lesson, const struct json *row, struct error *error)
{
    struct lesson_rows *rows = &lesson->rows;
    const char *status, *reason, *key;
    if (rows->count == LESSON_ROWS_MAX || json_count(row) >= LESSON_NAMES_MAX) {
        return json_error(row, error, "a lesson has at most %d rows of %d columns", LESSON_ROWS_MAX, LESSON_NAMES_MAX);
    }
    struct expression_value *values = arena_array(&lesson->arena, struct expression_value, LESSON_NAMES_MAX);
    if (values == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < json_count(row); i++) {
        struct json at;
        json_member(row, i, &key, &at);
        if (rows->count == 0) {
            rows->names[rows->name_count++] = key;
        } else if (i >= rows->name_count || strcmp(key, rows->names[i]) != 0) {
            return json_error(&at, error, "rows differ in their columns");
        }
        TRY(sweep_value_from_json(&at, &lesson->arena, &values[i], error));
    }
    TRY(json_string(row, "status", &status, error));
    TRY(json_string_or(row, "reason", "", &reason, error));
    if (strcmp(status, "error") == 0) {
        return json_error(row, error, "a point failed: %s", reason);
    }
    rows->values[rows->count++] = values;
    return STATUS_OK;
}

static enum status load_rows(struct lesson *lesson, const char *file, struct error *error)
{
    struct json root, rows, row;
    TRY(json_load(&lesson->rows_document, file, JSON_BYTES_MAX, error));
    json_root(lesson->rows_document, &root);
    TRY(json_array(&root, "rows", &rows, error));
    for (size_t i = 0; i < json_count(&rows); i++) {
        json_item(&rows, i, &row);
        TRY(load_row(lesson, &row, error));
    }
    return lesson->rows.count > 0 ? STATUS_OK : json_error(&rows, error, "no rows");
}

/* --- expressions */

/* What was wrong, and where in the lesson. */
static enum status told(const struct json *at, const char *text, struct error *error)
{
    struct error inner = *error;
    return json_error(at, error, "\"%.120s\": %.300s", text, inner.message);
}

enum status lesson_value(struct lesson *lesson, const struct json *at, const char *text, uint32_t row,
                         struct expression_value *value, struct error *error)
{
    struct expression expression;
    enum status status = expression_parse(&expression, text, find_column, lesson, error);
    if (status == STATUS_OK) {
        status = expression_evaluate(&expression, lesson->rows.values[row], value, error);
        if (status == STATUS_OK && value->text != NULL) {
            value->text = arena_text(&lesson->arena, value->text);
        }
        expression_free(&expression);
    }
    return status == STATUS_OK ? STATUS_OK : told(at, text, error);
}

enum status lesson_holds(struct lesson *lesson, const struct json *at, const char *text, uint32_t row, bool *holds,
                         struct error *error)
{
    struct expression_value value = { .kind = VALUE_NULL };
    *holds = true;
    if (text == NULL) {
        return STATUS_OK;
    }
    TRY(lesson_value(lesson, at, text, row, &value, error));
    *holds = value.boolean;
    return value.kind == VALUE_BOOL ? STATUS_OK : json_error(at, error, "\"%.120s\" is no condition", text);
}

/* --- figures */

static enum status find_figure(void *context, const char *name, uint32_t *index, struct error *error)
{
    const struct lesson *lesson = context;
    for (*index = 0; *index < lesson->figure_count; (*index)++) {
        if (strcmp(lesson->figure_names[*index], name) == 0) {
            return STATUS_OK;
        }
    }
    return error_set(error, STATUS_BAD_INPUT, "\"%s\" is no figure before this one", name);
}

static enum status of_figures(struct lesson *lesson, const struct json *at, const char *text,
                              struct expression_value *value, struct error *error)
{
    struct expression expression;
    enum status status = expression_parse(&expression, text, find_figure, lesson, error);
    if (status == STATUS_OK) {
        status = expression_evaluate(&expression, lesson->figures, value, error);
        expression_free(&expression);
    }
    return status == STATUS_OK ? STATUS_OK : told(at, text, error);
}

enum take { TAKE_ONE, TAKE_MOST, TAKE_LEAST, TAKE_COUNT };

static enum status of_rows(struct lesson *lesson, const struct json *at, const char *text, const char *where,
                           enum take take, double *number, struct error *error)
{
    uint32_t found = 0;
    for (uint32_t r = 0; r < lesson->rows.count; r++) {
        struct expression_value value = { .kind = VALUE_NULL };
        bool holds;
        TRY(lesson_holds(lesson, at, where, r, &holds, error));
        if (!holds) {
            continue;
        }
        TRY(lesson_value(lesson, at, text, r, &value, error));
        if (value.kind != VALUE_NUMBER) {
            return json_error(at, error, "\"%.120s\" is no number", text);
        }
        bool first = found++ == 0;
        *number = first                ? value.number
                  : take == TAKE_LEAST ? fmin(*number, value.number)
                  : take == TAKE_MOST  ? fmax(*number, value.number)
                                       : *number;
    }
    if (take == TAKE_COUNT) {
        *number = found;
    } else if (found == 0 || (take == TAKE_ONE && found > 1)) {
        return json_error(at, error, "\"%.120s\" holds in %u rows: one is meant", where, found);
    }
    return STATUS_OK;
}

/* So many decimals that three digits show. */
static int three_digits(double number)
{
    int before = number != 0 ? (int)floor(log10(fabs(number))) + 1 : 1;
    return before >= 3 ? 0 : 3 - before;
}

static enum status load_figure(struct lesson *lesson, const struct json *figures, size_t i, struct error *error)
{
    static const char *const TAKES[] = { "one", "most", "least", "count" };
    static const char *const KEYS[] = { "value", "where", "take", "decimals" };
    struct expression_value value = { .kind = VALUE_NUMBER };
    const char *key, *text, *where;
    struct json at;
    size_t take;
    int64_t decimals;
    json_member(figures, i, &key, &at);
    TRY(json_known_keys(&at, KEYS, sizeof KEYS / sizeof KEYS[0], error));
    TRY(json_word_or(&at, "take", TAKES, 4, TAKE_ONE, &take, error));
    TRY(json_string_or(&at, "value", take == TAKE_COUNT ? "1" : NULL, &text, error));
    TRY(json_string_or(&at, "where", NULL, &where, error));
    if (text == NULL || (where == NULL && take != TAKE_ONE) || lesson->figure_count == LESSON_FIGURES_MAX) {
        return json_error(&at, error, "a figure has a value (and \"take\" a \"where\"); there are at most %d",
                          LESSON_FIGURES_MAX);
    }
    if (where != NULL) {
        TRY(of_rows(lesson, &at, text, where, (enum take)take, &value.number, error));
    } else {
        TRY(of_figures(lesson, &at, text, &value, error));
    }
    if (value.kind != VALUE_NUMBER) {
        return json_error(&at, error, "\"%.120s\" is no number", text);
    }
    TRY(json_int_or(&at, "decimals", 0, 9, three_digits(value.number), &decimals, error));
    lesson->figure_names[lesson->figure_count] = key;
    lesson->decimals[lesson->figure_count] = (int)decimals;
    lesson->figures[lesson->figure_count++] = value;
    return STATUS_OK;
}

static enum status check_claims(struct lesson *lesson, struct error *error)
{
    struct json claims, at;
    TRY(json_array(&lesson->root, "claims", &claims, error));
    for (size_t i = 0; i < json_count(&claims); i++) {
        const char *text;
        struct expression_value value = { .kind = VALUE_NULL };
        json_item(&claims, i, &at);
        TRY(json_as_string(&at, &text, error));
        TRY(of_figures(lesson, &at, text, &value, error));
        if (value.kind != VALUE_BOOL || !value.boolean) {
            return json_error(&at, error, "\"%.120s\" does not hold any more: the words rest on it", text);
        }
    }
    return STATUS_OK;
}

/* --- the whole */

static enum status load(struct lesson *lesson, const char *folder, const char *rows, struct error *error)
{
    static const char *const KEYS[] = { "schema", "title", "question", "figures", "claims", "text", "picture" };
    const char *file = arena_printf(&lesson->arena, "%s/%s.lesson.json", folder, lesson->name), *schema;
    struct json figures;
    TRY(json_load(&lesson->document, file, JSON_BYTES_MAX, error));
    json_root(lesson->document, &lesson->root);
    TRY(json_known_keys(&lesson->root, KEYS, sizeof KEYS / sizeof KEYS[0], error));
    TRY(json_string(&lesson->root, "schema", &schema, error));
    TRY(json_string(&lesson->root, "title", &lesson->title, error));
    TRY(json_string(&lesson->root, "question", &lesson->question, error));
    if (strcmp(schema, "memwall.lesson/1") != 0) {
        return json_error(&lesson->root, error, "schema is \"%s\", not memwall.lesson/1", schema);
    }
    TRY(load_rows(lesson, rows, error));
    TRY(json_object(&lesson->root, "figures", &figures, error));
    for (size_t i = 0; i < json_count(&figures); i++) {
        TRY(load_figure(lesson, &figures, i, error));
    }
    return check_claims(lesson, error);
}

enum status lesson_load(struct lesson *lesson, const char *name, const char *folder, const char *rows,
                        struct error *error)
{
    memset(lesson, 0, sizeof *lesson);
    lesson->name = name;
    enum status status = load(lesson, folder, rows, error);
    if (status != STATUS_OK) {
        lesson_free(lesson);
    }
    return status;
}

void lesson_free(struct lesson *lesson)
{
    json_free(lesson->document);
    json_free(lesson->rows_document);
    arena_free(&lesson->arena);
    memset(lesson, 0, sizeof *lesson);
}

static enum status put_line(struct lesson *lesson, const struct json *at, const char *line, struct strbuf *out,
                            struct error *error)
{
    while (*line != '\0') {
        size_t plain = strcspn(line, "{"), length;
        char name[64];
        uint32_t index;
        strbuf_append_n(out, line, plain);
        line += plain;
        if (*line == '\0') {
            break;
        }
        length = strcspn(line, "}");
        if (line[length] == '\0' || length >= sizeof name) {
            return json_error(at, error, "a \"{\" without \"}\"");
        }
        snprintf(name, sizeof name, "%.*s", (int)length - 1, line + 1);
        if (find_figure(lesson, name, &index, error) != STATUS_OK) {
            return told(at, name, error);
        }
        strbuf_printf(out, "%.*f", lesson->decimals[index], lesson->figures[index].number);
        line += length + 1;
    }
    return STATUS_OK;
}

enum status lesson_text(struct lesson *lesson, struct strbuf *out, struct error *error)
{
    struct json lines, at;
    TRY(json_array(&lesson->root, "text", &lines, error));
    for (size_t i = 0; i < json_count(&lines); i++) {
        const char *line;
        json_item(&lines, i, &at);
        TRY(json_as_string(&at, &line, error));
        TRY(put_line(lesson, &at, line, out, error));
        strbuf_char(out, '\n');
    }
    return STATUS_OK;
}
