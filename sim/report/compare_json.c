/* A comparison as JSON. */
#include <math.h>
#include <string.h>

#include "sim/base/json_write.h"
#include "sim/report/compare.h"

/* Ratios, section by section: a new outer or inner section closes the one before. */
struct sections {
    struct json_writer *w;
    const char *outer, *inner;
};

static bool same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static void go_to(struct sections *at, const char *outer, const char *inner)
{
    bool moves = !same(at->outer, outer);
    if (at->inner != NULL && (moves || !same(at->inner, inner))) {
        jw_end(at->w);
        at->inner = NULL;
    }
    if (moves && at->outer != NULL) {
        jw_end(at->w);
    }
    if (moves && outer != NULL) {
        jw_object(at->w, outer);
    }
    if (inner != NULL && at->inner == NULL) {
        jw_object(at->w, inner);
    }
    at->outer = outer;
    at->inner = inner;
}

static void put_ratio(void *context, const struct compared_figure *figure)
{
    struct sections *at = context;
    double ratio = compare_ratio(figure);
    go_to(at, figure->outer, figure->inner);
    if (isfinite(ratio)) {
        jw_real(at->w, figure->key, ratio);
    } else {
        jw_null(at->w, figure->key);
    }
}

/* A line for each member: the results are long. */
static void put_result(struct json_writer *w, const char *name, const struct json *result)
{
    jw_object(w, name);
    for (size_t i = 0; i < json_count(result); i++) {
        const char *key;
        struct json value;
        struct strbuf text = { 0 };
        json_member(result, i, &key, &value);
        json_print(&value, &text);
        w->out->failed = w->out->failed || text.failed || text.text == NULL;
        jw_raw(w, key, text.text != NULL ? text.text : "null");
        strbuf_free(&text);
    }
    jw_end(w);
}

void compare_json(const struct comparison *comparison, const struct json *a, const struct json *b, struct strbuf *out)
{
    struct json_writer w = { .out = out };
    struct strbuf text = { 0 };
    jw_object(&w, NULL);
    jw_string(&w, "schema", "memwall.compare/1");
    compare_statement(comparison, &text);
    jw_string(&w, "statement", text.text);
    jw_bool(&w, "fit", comparison->a.fits && comparison->b.fits);
    strbuf_free(&text);
    struct sections at = { .w = &w };
    jw_object(&w, "ratio");
    compare_visit(comparison, put_ratio, &at);
    go_to(&at, NULL, NULL);
    jw_end(&w);
    put_result(&w, "a", a);
    put_result(&w, "b", b);
    jw_end(&w);
    strbuf_char(out, '\n');
}
