/* A comparison as a table. */
#include <math.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/report/compare.h"
#include "sim/report/text_table.h"

enum { WIDTH = 110 };

struct printer {
    const struct comparison *both;
    struct text_table table;
    const char *outer, *inner; /* the section that was begun last */
};

static void put_value(struct text_table *table, double value, enum figure_unit unit)
{
    char text[32];
    if (!isfinite(value)) {
        text_table_cell(table, "-");
        return;
    }
    switch (unit) {
    case UNIT_TIME_S: text_table_cell(table, "%s", text_time_ps(ps_nearest_s(value), text, sizeof text)); break;
    case UNIT_BYTES: text_table_cell(table, "%s", text_bytes(value, text, sizeof text)); break;
    case UNIT_RATE: text_table_cell(table, "%.4g", value); break;
    case UNIT_TFLOPS: text_table_cell(table, "%.4g", value); break;
    case UNIT_SHARE: text_table_cell(table, "%.1f %%", 100 * value); break;
    case UNIT_COUNT: text_table_cell(table, "%.0f", value); break;
    }
}

static void put_ratio(struct text_table *table, double ratio)
{
    if (isfinite(ratio)) {
        text_table_cell(table, ratio >= 1000 || (ratio > 0 && ratio < 0.001) ? "%.2e" : "%.3f", ratio);
    } else {
        text_table_cell(table, "-");
    }
}

/* A row that names a section. */
static void begin(struct printer *p, const char *outer, const char *inner)
{
    struct text_table *table = &p->table;
    for (int i = 0; i < 4; i++) {
        text_table_cell(table, "%s", "");
    }
    if (strcmp(outer, "memory") == 0) {
        text_table_cell(table, "memory: fullest %s space", inner);
    } else if (strcmp(outer, "time_breakdown") == 0) {
        text_table_cell(table, strcmp(inner, "exposed") == 0 ? "where the step goes (mean of ranks)"
                                                             : "hidden behind other work (mean of ranks)");
    } else {
        text_table_cell(table, strcmp(outer, "traffic") == 0 ? "traffic, over all links of a kind"
                                                             : "use of the busiest link of a kind");
    }
    for (int i = 0; i < 3; i++) {
        text_table_cell(table, "%s", "");
    }
}

static bool same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static void put_row(void *context, const struct compared_figure *figure)
{
    struct printer *p = context;
    if (!same(p->outer, figure->outer) || !same(p->inner, figure->inner)) {
        begin(p, figure->outer, figure->inner);
        p->outer = figure->outer;
        p->inner = figure->inner;
    }
    text_table_cell(&p->table, "%s%s", figure->outer != NULL ? "  " : "", figure->text);
    put_value(&p->table, figure->a, figure->unit);
    put_value(&p->table, figure->b, figure->unit);
    put_ratio(&p->table, compare_ratio(figure));
}

static void put_bounds(const char *letter, const struct compare_side *side, struct strbuf *out)
{
    struct text_table table = { .column_count = 2, .right = 1u };
    if (side->bound_count == 0) {
        return;
    }
    for (uint32_t i = 0; i < side->bound_count; i++) {
        text_table_cell(&table, "%.1f %%", 100 * side->bounds[i].share);
        text_table_cell(&table, "%s", side->bounds[i].what);
    }
    strbuf_printf(out, "\nWhat binds %s\n", letter);
    text_table_print(&table, 2, false, out);
    text_table_free(&table);
}

static void put_wrapped(const char *text, uint32_t indent, struct strbuf *out)
{
    struct text_table table = { .column_count = 1, .last_width = WIDTH - 2 * indent };
    text_table_cell(&table, "%s", text);
    text_table_print(&table, indent, false, out);
    text_table_free(&table);
}

/* Names may be equal: machine and plan tell the two apart. */
static void put_side(const char *letter, const struct compare_side *side, struct strbuf *out)
{
    struct strbuf about = { 0 };
    strbuf_printf(out, "  %s  %s: %.0f GPU%s, %s executor%s\n", letter, side->name, side->gpus,
                  side->gpus > 1 ? "s" : "", side->executor, side->fits ? "" : ", DOES NOT FIT");
    if (side->machine != NULL && side->plan != NULL) {
        strbuf_printf(&about, "%s; %s", side->machine, side->plan);
        put_wrapped(about.text != NULL ? about.text : "", 5, out);
        out->failed = out->failed || about.failed;
        strbuf_free(&about);
    }
}

/* Why it does not fit: its first line, wrapped; the rest stands in the result. */
static void put_reason(const char *letter, const struct compare_side *side, struct strbuf *out)
{
    struct strbuf line = { 0 };
    if (side->reason == NULL || side->reason[0] == '\0') {
        return;
    }
    strbuf_printf(&line, "%s: %.*s", letter, (int)strcspn(side->reason, "\n"), side->reason);
    put_wrapped(line.text != NULL ? line.text : "", 2, out);
    out->failed = out->failed || line.failed;
    strbuf_free(&line);
}

void compare_text(const struct comparison *comparison, struct strbuf *out)
{
    struct printer printer = { .both = comparison, .table = { .column_count = 4, .right = 2u | 4u | 8u } };
    struct strbuf statement = { 0 };
    compare_statement(comparison, &statement);
    put_wrapped(statement.text != NULL ? statement.text : "", 0, out);
    out->failed = out->failed || statement.failed;
    strbuf_free(&statement);
    strbuf_char(out, '\n');
    put_side("A", &comparison->a, out);
    put_side("B", &comparison->b, out);
    put_reason("A", &comparison->a, out);
    put_reason("B", &comparison->b, out);
    strbuf_char(out, '\n');
    size_t before = out->length;
    compare_notes(comparison, out);
    if (out->length > before) {
        strbuf_char(out, '\n');
    }
    static const char *const heads[] = { "", "A", "B", "B / A" };
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        text_table_cell(&printer.table, "%s", heads[i]);
    }
    compare_visit(comparison, put_row, &printer);
    text_table_print(&printer.table, 2, true, out);
    text_table_free(&printer.table);
    put_bounds("A", &comparison->a, out);
    put_bounds("B", &comparison->b, out);
}
