/* A lesson: a sweep, a picture and a paragraph whose numbers come from the sweep's rows (traces/lessons; README.md there is made by make.c).
 *
 * NAME.sweep.json is what `memwall sweep` runs; NAME.lesson.json ("memwall.lesson/1") says what to make of its rows:
 *
 *     "title"     of the section;  "question": one for the class
 *     "figures"   { name: { "value": EXPRESSION, "where": CONDITION, "take": "one" | "most" | "least" | "count" , "decimals": N } }, in order. With "where": the value in the one row for which it holds
 *                 (take: the largest or smallest of all, or how many there are). Without: an expression of figures before it. Three digits unless "decimals" says otherwise
 *     "claims"    conditions on figures that the words rest on: the lesson is refused when one does not hold
 *     "text"      lines; {name} is a figure
 *     "picture"   { "title", "x": column, "x_label", "scale": "linear" | "log" | "words", "series": column, "where": CONDITION, "names": { a value of x or series: what to call it },
 *                   "panels": [ { "title", "kind": "lines" | "bars" | "stack", "y": EXPRESSION (a series for each value of "series") or "parts": { name: EXPRESSION }, "where": CONDITION,
 *                                 "limits": { name of a line across: EXPRESSION } } ] }
 *
 * Expressions are those of sweeps (sim/sweep/expression.h) over the columns of `memwall sweep --json`, and traffic.KIND, bytes by kind of link (0 where there is none).
 * Everything lives in the lesson's arena. A row of status "error" is an error. */
#ifndef MEMWALL_TESTS_LESSONS_LESSON_H
#define MEMWALL_TESTS_LESSONS_LESSON_H

#include "sim/base/json.h"
#include "sim/base/strbuf.h"
#include "sim/sweep/expression.h"

enum { LESSON_NAMES_MAX = 128, LESSON_FIGURES_MAX = 48, LESSON_ROWS_MAX = 256 };

/* Rows of one sweep: values[row][name]. */
struct lesson_rows {
    const char *names[LESSON_NAMES_MAX];
    uint32_t name_count, count;
    struct expression_value *values[LESSON_ROWS_MAX];
};

struct lesson {
    const char *name; /* "01-activations" */
    const char *title, *question;
    struct json_document *document, *rows_document;
    struct json root;
    struct lesson_rows rows;
    const char *figure_names[LESSON_FIGURES_MAX];
    struct expression_value figures[LESSON_FIGURES_MAX]; /* numbers */
    int decimals[LESSON_FIGURES_MAX];                    /* to print it with */
    uint32_t figure_count;
    struct arena arena;
};

/* `rows`: what `memwall sweep --json` printed. Figures are computed, claims checked. */
enum status lesson_load(struct lesson *lesson, const char *name, const char *folder, const char *rows,
                        struct error *error);
void lesson_free(struct lesson *lesson);

/* The paragraph with its numbers. */
enum status lesson_text(struct lesson *lesson, struct strbuf *out, struct error *error);
/* The picture as SVG (lesson_picture.c). */
enum status lesson_picture(struct lesson *lesson, struct strbuf *out, struct error *error);

/* An expression over columns in one row. */
enum status lesson_value(struct lesson *lesson, const struct json *at, const char *text, uint32_t row,
                         struct expression_value *value, struct error *error);
/* A condition in one row; NULL holds. */
enum status lesson_holds(struct lesson *lesson, const struct json *at, const char *text, uint32_t row, bool *holds,
                         struct error *error);

#endif
