#include "sim/base/json_write.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/printable.h"

static bool is_array(const struct json_writer *w)
{
    return (w->is_array >> w->depth & 1u) != 0;
}

static void new_line(struct json_writer *w)
{
    static const char spaces[] = "                                                                ";
    if (!w->compact) {
        strbuf_char(w->out, '\n');
        strbuf_append_n(w->out, spaces, w->depth);
    }
}

/* Comma, line, key: everything before a value. */
static void before(struct json_writer *w, const char *key)
{
    if (w->depth == 0) {
        CHECK(key == NULL);
        CHECK((w->has_items & 1u) == 0); /* one root */
        w->has_items |= 1u;
        return;
    }
    CHECK((key == NULL) == is_array(w));
    if ((w->has_items >> w->depth & 1u) != 0) {
        strbuf_char(w->out, ',');
    }
    w->has_items |= 1u << w->depth;
    new_line(w);
    if (key != NULL) {
        strbuf_json_string(w->out, key);
        strbuf_append(w->out, w->compact ? ":" : ": ");
    }
}

static void open_level(struct json_writer *w, const char *key, bool array)
{
    before(w, key);
    CHECK(w->depth + 1 < JSON_WRITE_DEPTH_MAX);
    strbuf_char(w->out, array ? '[' : '{');
    w->depth++;
    uint32_t bit = 1u << w->depth;
    w->has_items &= ~bit;
    w->is_array = array ? w->is_array | bit : w->is_array & ~bit;
}

void jw_object(struct json_writer *w, const char *key)
{
    open_level(w, key, false);
}

void jw_array(struct json_writer *w, const char *key)
{
    open_level(w, key, true);
}

void jw_end(struct json_writer *w)
{
    CHECK(w->depth > 0);
    bool array = is_array(w);
    bool filled = (w->has_items >> w->depth & 1u) != 0;
    w->depth--;
    if (filled) {
        new_line(w);
    }
    strbuf_char(w->out, array ? ']' : '}');
}

void jw_string(struct json_writer *w, const char *key, const char *value)
{
    if (value == NULL) {
        jw_null(w, key);
        return;
    }
    before(w, key);
    strbuf_json_string(w->out, value);
}

void jw_int(struct json_writer *w, const char *key, int64_t value)
{
    before(w, key);
    strbuf_printf(w->out, "%" PRId64, value);
}

void jw_uint(struct json_writer *w, const char *key, uint64_t value)
{
    before(w, key);
    strbuf_printf(w->out, "%" PRIu64, value);
}

void jw_real(struct json_writer *w, const char *key, double value)
{
    char buffer[32];
    CHECK(isfinite(value));
    before(w, key);
    strbuf_append(w->out, text_real(value, buffer, sizeof buffer));
}

void jw_bool(struct json_writer *w, const char *key, bool value)
{
    before(w, key);
    strbuf_append(w->out, value ? "true" : "false");
}

void jw_null(struct json_writer *w, const char *key)
{
    before(w, key);
    strbuf_append(w->out, "null");
}

void jw_raw(struct json_writer *w, const char *key, const char *json)
{
    before(w, key);
    strbuf_append(w->out, json);
}

const char *text_real(double value, char *buffer, size_t size)
{
    CHECK(size >= 32);
    if (fabs(value) < 1e15 && value == nearbyint(value) && !(signbit(value) && fabs(value) < 1.0)) {
        (void)snprintf(buffer, size, "%" PRId64, (int64_t)value);
        return buffer;
    }
    /* Up to 15 digits "%g" drops needless zeros, so 15, 16, 17 find the shortest, except for subnormal numbers, of
     * which fewer digits can already be unique. */
    int precision = fabs(value) < DBL_MIN ? 1 : 15;
    for (; precision <= 17; precision++) {
        (void)snprintf(buffer, size, "%.*g", precision, value);
        if (strtod(buffer, NULL) == value) {
            break;
        }
    }
    char *comma = strchr(buffer, ','); /* a host program's locale */
    if (comma != NULL) {
        *comma = '.';
    }
    return buffer;
}

void strbuf_json_string(struct strbuf *out, const char *text)
{
    strbuf_char(out, '"');
    const char *from = text;
    for (const char *at = text;; at++) {
        unsigned char c = (unsigned char)*at;
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
            continue;
        }
        if (c >= 0x80) {
            unsigned bytes = utf8_bytes(at, strnlen(at, 4), 0);
            if (bytes != 0) {
                at += bytes - 1;
                continue;
            }
        }
        strbuf_append_n(out, from, (size_t)(at - from));
        from = at + 1;
        switch (c) {
        case '\0': strbuf_char(out, '"'); return;
        case '"': strbuf_append(out, "\\\""); break;
        case '\\': strbuf_append(out, "\\\\"); break;
        case '\n': strbuf_append(out, "\\n"); break;
        case '\r': strbuf_append(out, "\\r"); break;
        case '\t': strbuf_append(out, "\\t"); break;
        default:
            strbuf_printf(out, "\\u%04x", c < 0x80 ? c : 0xfffdu);
            break; /* not UTF-8: the replacement character */
        }
    }
}
