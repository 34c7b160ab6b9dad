/* Writing JSON: a thin, checked state machine over a strbuf. Pretty by default (one space per level), keys in the
 * order given.
 *
 *     struct json_writer w = { .out = &buffer };
 *     jw_object(&w, NULL);
 *       jw_string(&w, "schema", "memwall.result/1");
 *       jw_array(&w, "devices"); jw_real(&w, NULL, 1.5); jw_end(&w);
 *     jw_end(&w);
 *
 * `key` is NULL inside arrays and at the root. Reals print as the shortest text that reads back to the same double;
 * NaN and infinities assert. Nesting errors assert. Output is deterministic. */
#ifndef MEMWALL_BASE_JSON_WRITE_H
#define MEMWALL_BASE_JSON_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/strbuf.h"

enum { JSON_WRITE_DEPTH_MAX = 32 };

struct json_writer {
    struct strbuf *out;
    bool compact; /* no newlines or spaces */
    unsigned depth;
    uint32_t is_array, has_items; /* one bit a level */
};

void jw_object(struct json_writer *w, const char *key);
void jw_array(struct json_writer *w, const char *key);
void jw_end(struct json_writer *w);
void jw_string(struct json_writer *w, const char *key, const char *value); /* NULL value: null */
void jw_int(struct json_writer *w, const char *key, int64_t value);
void jw_uint(struct json_writer *w, const char *key, uint64_t value);
void jw_real(struct json_writer *w, const char *key, double value);
void jw_bool(struct json_writer *w, const char *key, bool value);
void jw_null(struct json_writer *w, const char *key);
/* Ready JSON text as a value. */
void jw_raw(struct json_writer *w, const char *key, const char *json);

/* The shortest decimal text that reads back to `value`, in `buffer` of at least 32 bytes. */
const char *text_real(double value, char *buffer, size_t size);
/* Escape and quote. */
void strbuf_json_string(struct strbuf *out, const char *text);

#endif
