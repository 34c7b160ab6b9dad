/* Whether a page is what sim/report/html promises: XML (nesting, quoting, entities, UTF-8 characters that XML has), ids that are unique and are there where they are referred to, nothing from
 * outside. A plain reader of its own, that shares nothing with the writer. */
#ifndef MEMWALL_TESTS_HTML_CHECK_H
#define MEMWALL_TESTS_HTML_CHECK_H

#include "tests/test.h"

enum { HTML_CHECK_DEPTH = 64, HTML_CHECK_NAMES = 40000, HTML_CHECK_NAME_BYTES = 48 };

struct html_check {
    const char *at, *start;
    char stack[HTML_CHECK_DEPTH][HTML_CHECK_NAME_BYTES];
    int depth;
    char (*ids)[HTML_CHECK_NAME_BYTES], (*references)[HTML_CHECK_NAME_BYTES];
    uint32_t id_count, reference_count, elements;
    const char *complaint;
};

static inline bool html_check_fail(struct html_check *c, const char *what)
{
    if (c->complaint == NULL) {
        c->complaint = what;
    }
    return false;
}

static inline bool html_check_name(struct html_check *c, char name[HTML_CHECK_NAME_BYTES])
{
    size_t length = strspn(c->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-:");
    if (length == 0 || length >= HTML_CHECK_NAME_BYTES) {
        return html_check_fail(c, "expected a name");
    }
    memcpy(name, c->at, length);
    name[length] = '\0';
    c->at += length;
    return true;
}

/* &amp; &lt; &gt; &quot; &#13; and nothing else. */
static inline bool html_check_entity(struct html_check *c)
{
    static const char *const known[] = { "&amp;", "&lt;", "&gt;", "&quot;", "&#13;" };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strncmp(c->at, known[i], strlen(known[i])) == 0) {
            c->at += strlen(known[i]);
            return true;
        }
    }
    return html_check_fail(c, "an & that begins no entity");
}

static inline bool html_check_character(struct html_check *c)
{
    const unsigned char *t = (const unsigned char *)c->at;
    if (*t == '&') {
        return html_check_entity(c);
    }
    if (*t < 0x20 && *t != '\n' && *t != '\t') {
        return html_check_fail(c, "a control character");
    }
    int more = *t < 0x80 ? 0 : *t >= 0xf0 ? 3 : *t >= 0xe0 ? 2 : *t >= 0xc2 ? 1 : -1;
    if (more < 0 || *t > 0xf4) {
        return html_check_fail(c, "no UTF-8");
    }
    for (int i = 1; i <= more; i++) {
        if ((t[i] & 0xc0) != 0x80) {
            return html_check_fail(c, "UTF-8 that does not end");
        }
    }
    c->at += more + 1;
    return true;
}

/* A name that could not be kept would not be compared: that is a complaint too. */
static inline void html_check_keep(struct html_check *c, char (*list)[HTML_CHECK_NAME_BYTES], uint32_t *count,
                                   const char *from, size_t length)
{
    if (*count == HTML_CHECK_NAMES || length >= HTML_CHECK_NAME_BYTES) {
        (void)html_check_fail(c, "more, or longer, ids than are looked at");
        return;
    }
    memcpy(list[*count], from, length);
    list[(*count)++][length] = '\0';
}

static inline bool html_check_attribute(struct html_check *c)
{
    char name[HTML_CHECK_NAME_BYTES];
    if (!html_check_name(c, name)) {
        return false;
    }
    if (c->at[0] != '=' || c->at[1] != '"') {
        return html_check_fail(c, "an attribute without =\"");
    }
    c->at += 2;
    const char *value = c->at;
    while (*c->at != '"') {
        if (*c->at == '\0' || *c->at == '<') {
            return html_check_fail(c, "an attribute that does not end");
        }
        if (!html_check_character(c)) {
            return false;
        }
    }
    size_t length = (size_t)(c->at - value);
    c->at++;
    bool link = strcmp(name, "href") == 0;
    if ((link && value[0] != '#') || strcmp(name, "src") == 0 || strncmp(name, "on", 2) == 0) {
        return html_check_fail(c, "something from outside, or a script in an attribute");
    }
    if (strcmp(name, "id") == 0) {
        html_check_keep(c, c->ids, &c->id_count, value, length);
    } else if (link) {
        html_check_keep(c, c->references, &c->reference_count, value + 1, length - 1);
    } else if (strcmp(name, "aria-labelledby") == 0) {
        for (size_t at = 0; at < length;) {
            size_t word = strcspn(value + at, " \"");
            html_check_keep(c, c->references, &c->reference_count, value + at, word);
            at += word + 1;
        }
    }
    return true;
}

/* Behind '<'. */
static inline bool html_check_tag(struct html_check *c)
{
    char name[HTML_CHECK_NAME_BYTES];
    if (*c->at == '/') {
        c->at++;
        if (!html_check_name(c, name) || *c->at++ != '>') {
            return html_check_fail(c, "a broken end tag");
        }
        if (c->depth == 0 || strcmp(c->stack[--c->depth], name) != 0) {
            return html_check_fail(c, "an end tag of another element");
        }
        return true;
    }
    if (!html_check_name(c, name)) {
        return false;
    }
    c->elements++;
    while (*c->at == ' ') {
        c->at++;
        if (!html_check_attribute(c)) {
            return false;
        }
    }
    if (c->at[0] == '/' && c->at[1] == '>') {
        c->at += 2;
        return true;
    }
    if (*c->at++ != '>' || c->depth == HTML_CHECK_DEPTH) {
        return html_check_fail(c, "a broken start tag, or too many within another");
    }
    strcpy(c->stack[c->depth++], name);
    return true;
}

static inline int html_check_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static inline void html_check_ids(struct html_check *c)
{
    qsort(c->ids, c->id_count, sizeof *c->ids, html_check_compare);
    for (uint32_t i = 1; i < c->id_count; i++) {
        if (strcmp(c->ids[i - 1], c->ids[i]) == 0) {
            (void)html_check_fail(c, "an id twice");
        }
    }
    for (uint32_t i = 0; i < c->reference_count; i++) {
        if (bsearch(c->references[i], c->ids, c->id_count, sizeof *c->ids, html_check_compare) == NULL) {
            (void)html_check_fail(c, "a reference to no id");
        }
    }
}

/* What is wrong with the page, NULL when nothing is; *elements: how many it has, *at: where it is. */
static inline const char *html_complaint(const char *page, uint32_t *elements, size_t *at)
{
    static const char doctype[] = "<!DOCTYPE html>";
    struct html_check c = { .at = page, .start = page };
    c.ids = calloc(HTML_CHECK_NAMES, sizeof *c.ids);
    c.references = calloc(HTML_CHECK_NAMES, sizeof *c.references);
    if (c.ids == NULL || c.references == NULL || strncmp(page, doctype, strlen(doctype)) != 0) {
        (void)html_check_fail(&c, "no doctype");
    } else {
        c.at += strlen(doctype);
        bool more = true;
        while (more && *c.at != '\0') {
            if (*c.at == '<') {
                c.at++;
                more = html_check_tag(&c);
            } else {
                more = html_check_character(&c);
            }
        }
        if (more && c.depth != 0) {
            (void)html_check_fail(&c, "an element that does not end");
        }
        html_check_ids(&c);
    }
    free(c.ids);
    free(c.references);
    *elements = c.elements;
    *at = (size_t)(c.at - c.start);
    return c.complaint;
}

/* Returns the number of elements; a complaint fails the test. */
static inline uint32_t html_check(const char *page)
{
    uint32_t elements;
    size_t at;
    const char *complaint = html_complaint(page, &elements, &at);
    if (complaint != NULL) {
        TEST_FAIL_("%s, at byte %zu: ...%.80s", complaint, at, at > 40 ? page + at - 40 : page);
    }
    return elements;
}

#endif
