#include "sim/base/strbuf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

/* Room for `extra` bytes and the terminator. */
static bool reserve(struct strbuf *out, size_t extra)
{
    if (out->failed || extra >= SIZE_MAX / 4 || out->length >= SIZE_MAX / 4) {
        out->failed = true;
        return false;
    }
    size_t wanted = out->length + extra + 1;
    if (wanted > out->capacity) {
        size_t capacity = out->capacity == 0 ? FIRST_CAPACITY : 2 * out->capacity;
        capacity = capacity < wanted ? wanted : capacity;
        char *grown = realloc(out->text, capacity);
        if (grown == NULL) {
            out->failed = true;
            return false;
        }
        out->text = grown;
        out->capacity = capacity;
    }
    return true;
}

void strbuf_append_n(struct strbuf *out, const char *text, size_t length)
{
    if (reserve(out, length)) {
        if (length != 0) {
            memcpy(out->text + out->length, text, length);
        }
        out->length += length;
        out->text[out->length] = '\0';
    }
}

void strbuf_append(struct strbuf *out, const char *text)
{
    strbuf_append_n(out, text, strlen(text));
}

void strbuf_char(struct strbuf *out, char c)
{
    strbuf_append_n(out, &c, 1);
}

void strbuf_vprintf(struct strbuf *out, const char *format, va_list arguments)
{
    if (!reserve(out, FIRST_CAPACITY)) {
        return;
    }
    va_list again;
    va_copy(again, arguments);
    size_t room = out->capacity - out->length;
    int length = vsnprintf(out->text + out->length, room, format, arguments);
    if (length < 0) {
        out->text[out->length] = '\0';
        out->failed = true;
    } else if ((size_t)length < room) {
        out->length += (size_t)length;
    } else if (reserve(out, (size_t)length)) {
        (void)vsnprintf(out->text + out->length, (size_t)length + 1, format, again);
        out->length += (size_t)length;
    } else {
        out->text[out->length] = '\0';
    }
    va_end(again);
}

void strbuf_printf(struct strbuf *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    strbuf_vprintf(out, format, arguments);
    va_end(arguments);
}

void strbuf_free(struct strbuf *out)
{
    free(out->text);
    *out = (struct strbuf){ 0 };
}
