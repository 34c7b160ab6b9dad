/* A growing text buffer: for printers, JSON output and messages. Always terminated; sticky failure.
 *
 *     struct strbuf out = { 0 };
 *     strbuf_printf(&out, "%u ops\n", count);
 *     if (out.failed) ...            // memory ran out at some point: checked once, at the end
 *     strbuf_free(&out); */
#ifndef MEMWALL_BASE_STRBUF_H
#define MEMWALL_BASE_STRBUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct strbuf {
    char *text; /* NULL until the first byte */
    size_t length, capacity;
    bool failed;
};

void strbuf_append(struct strbuf *out, const char *text);
void strbuf_append_n(struct strbuf *out, const char *text, size_t length);
void strbuf_char(struct strbuf *out, char c);
void strbuf_printf(struct strbuf *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void strbuf_vprintf(struct strbuf *out, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));
void strbuf_free(struct strbuf *out);

#endif
