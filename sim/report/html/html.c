#include "sim/report/html/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/base/xml_text.h"

static void end_tag_start(struct html *h)
{
    if (h->in_tag) {
        strbuf_char(h->out, '>');
        h->in_tag = false;
    }
}

/* Elements without content: HTML has no end tag for them, and SVG's shapes are shorter so. */
static bool is_void(const char *tag)
{
    static const char *const tags[] = { "meta", "br", "rect", "path", "line", "circle" };
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        if (strcmp(tag, tags[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Before these a new line begins, so that the page can be read as text. */
static bool is_block(const char *tag)
{
    static const char *const tags[] = { "head",    "body", "section", "h1",     "h2",    "h3",      "p",
                                        "ul",      "li",   "div",     "figure", "svg",   "table",   "tr",
                                        "g",       "path", "meta",    "style",  "title", "details", "dl",
                                        "caption", "main", "nav",     "thead",  "tbody" };
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        if (strcmp(tag, tags[i]) == 0) {
            return true;
        }
    }
    return false;
}

void html_open(struct html *h, const char *tag)
{
    CHECK(h->depth < HTML_DEPTH_MAX);
    end_tag_start(h);
    if (is_block(tag)) {
        strbuf_char(h->out, '\n');
    }
    strbuf_char(h->out, '<');
    strbuf_append(h->out, tag);
    h->open[h->depth++] = tag;
    h->in_tag = true;
}

void html_attr(struct html *h, const char *name, const char *value)
{
    CHECK(h->in_tag);
    strbuf_printf(h->out, " %s=\"", name);
    xml_escape(h->out, value);
    strbuf_char(h->out, '"');
}

/* Formats `arguments` and writes them escaped. */
__attribute__((format(printf, 2, 0))) static void escape_formatted(struct html *h, const char *format,
                                                                   va_list arguments)
{
    struct strbuf text = { 0 };
    strbuf_vprintf(&text, format, arguments);
    if (text.failed) {
        h->out->failed = true;
    } else if (text.text != NULL) {
        xml_escape(h->out, text.text);
    }
    strbuf_free(&text);
}

void html_attr_printf(struct html *h, const char *name, const char *format, ...)
{
    va_list arguments;
    CHECK(h->in_tag);
    strbuf_printf(h->out, " %s=\"", name);
    va_start(arguments, format);
    escape_formatted(h, format, arguments);
    va_end(arguments);
    strbuf_char(h->out, '"');
}

void html_attr_real(struct html *h, const char *name, double value)
{
    char text[32];
    CHECK(h->in_tag && isfinite(value));
    strbuf_printf(h->out, " %s=\"%s\"", name, text_real(round(value * 100) / 100, text, sizeof text));
}

void html_text(struct html *h, const char *text)
{
    end_tag_start(h);
    xml_escape(h->out, text);
}

void html_text_grouped(struct html *h, const char *text)
{
    struct strbuf grouped = { 0 };
    for (const char *c = text; *c != '\0';) {
        size_t digits = strspn(c, "0123456789");
        bool begins = c == text || strchr(" (=\n", c[-1]) != NULL;
        bool ends = c[digits] == '\0' || strchr(" )=,;:.\n", c[digits]) != NULL;
        if (digits >= 5 && begins && ends) {
            for (size_t i = 0; i < digits; i++) {
                strbuf_printf(&grouped, i > 0 && (digits - i) % 3 == 0 ? ",%c" : "%c", c[i]);
            }
        } else if (digits > 0) {
            strbuf_append_n(&grouped, c, digits);
        } else {
            strbuf_char(&grouped, *c);
            digits = 1;
        }
        c += digits;
    }
    html_text(h, grouped.text != NULL ? grouped.text : "");
    h->out->failed = h->out->failed || grouped.failed;
    strbuf_free(&grouped);
}

void html_printf(struct html *h, const char *format, ...)
{
    va_list arguments;
    end_tag_start(h);
    va_start(arguments, format);
    escape_formatted(h, format, arguments);
    va_end(arguments);
}

void html_raw(struct html *h, const char *text)
{
    strbuf_append(h->out, text);
}

void html_close(struct html *h, const char *tag)
{
    CHECK(h->depth > 0 && strcmp(h->open[h->depth - 1], tag) == 0);
    h->depth--;
    if (h->in_tag && is_void(tag)) {
        strbuf_append(h->out, "/>");
        h->in_tag = false;
        return;
    }
    end_tag_start(h);
    strbuf_printf(h->out, "</%s>", tag);
}

void html_leaf(struct html *h, const char *tag, const char *class_name, const char *text)
{
    html_open(h, tag);
    if (class_name != NULL) {
        html_attr(h, "class", class_name);
    }
    html_text(h, text);
    html_close(h, tag);
}

void html_data(struct html *h, double value, const char *text)
{
    char exact[32];
    html_open(h, "data");
    html_attr(h, "value", text_real(value, exact, sizeof exact));
    html_text(h, text);
    html_close(h, "data");
}

uint32_t html_new_id(struct html *h)
{
    return ++h->id;
}

void html_finish(struct html *h)
{
    CHECK(h->depth == 0 && !h->in_tag);
}

/* --- tables */

void html_table(struct html *h, const char *caption, const struct html_column *columns, uint32_t count)
{
    html_table_named(h, NULL, caption, columns, count);
}

void html_table_named(struct html *h, const char *table_id, const char *caption, const struct html_column *columns,
                      uint32_t count)
{
    enum { WIDE = 8 }; /* columns from which on type is smaller on paper */
    uint32_t id = html_new_id(h);
    html_open(h, "div");
    if (table_id != NULL) {
        html_attr(h, "id", table_id);
    }
    html_attr(h, "class", "scroll");
    html_attr(h, "tabindex", "0");
    html_attr(h, "role", "region");
    html_attr_printf(h, "aria-labelledby", "t%u", id);
    html_open(h, "table");
    if (count >= WIDE) {
        html_attr(h, "class", "many");
    }
    html_open(h, "caption");
    html_attr_printf(h, "id", "t%u", id);
    html_text(h, caption);
    html_close(h, "caption");
    html_open(h, "thead");
    html_open(h, "tr");
    h->numbers = 0;
    for (uint32_t i = 0; i < count; i++) {
        html_open(h, "th");
        html_attr(h, "scope", "col");
        if (columns[i].number) {
            h->numbers |= i < 64 ? UINT64_C(1) << i : 0;
            html_attr(h, "class", "n");
        }
        html_text(h, columns[i].title);
        html_close(h, "th");
    }
    html_close(h, "tr");
    html_close(h, "thead");
    html_open(h, "tbody");
}

void html_row(struct html *h)
{
    h->column = 0;
    html_open(h, "tr");
}

/* Opens a cell; returns its tag. */
static const char *open_cell(struct html *h)
{
    bool first = h->in_tag; /* of the row */
    const char *tag = first ? "th" : "td";
    CHECK(h->depth > 0 && strcmp(h->open[h->depth - 1], "tr") == 0);
    html_open(h, tag);
    if (first) {
        html_attr(h, "scope", "row");
    }
    h->column++;
    return tag;
}

void html_cell(struct html *h, const char *text)
{
    enum { SHORT = 30 }; /* is not broken over lines */
    bool right = h->column < 64 && (h->numbers >> h->column & 1) != 0;
    const char *tag = open_cell(h);
    if (text[0] != '\0' && (right || strlen(text) <= SHORT)) {
        html_attr(h, "class", !right ? "s" : strlen(text) <= SHORT ? "s r" : "r");
    }
    html_text(h, text);
    html_close(h, tag);
}

void html_cell_data(struct html *h, double value, const char *text)
{
    const char *tag = open_cell(h);
    html_attr(h, "class", "n");
    html_data(h, value, text);
    html_close(h, tag);
}

void html_cell_bar(struct html *h, double share, const char *colour_class)
{
    const char *tag = open_cell(h);
    html_attr(h, "class", "bar");
    html_open(h, "svg");
    html_attr(h, "viewBox", "0 0 100 10");
    html_attr(h, "preserveAspectRatio", "none");
    html_attr(h, "aria-hidden", "true");
    html_open(h, "rect");
    html_attr(h, "class", colour_class);
    html_attr_real(h, "width", 100 * fmin(fmax(share, 0), 1));
    html_attr(h, "height", "10");
    html_close(h, "rect");
    html_close(h, "svg");
    html_close(h, tag);
}

void html_row_end(struct html *h)
{
    html_close(h, "tr");
}

void html_table_end(struct html *h)
{
    html_close(h, "tbody");
    html_close(h, "table");
    html_close(h, "div");
}
