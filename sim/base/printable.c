#include "sim/base/printable.h"

#include <string.h>

unsigned utf8_bytes(const char *text, size_t length, size_t at)
{
    const unsigned char *t = (const unsigned char *)text + at;
    size_t left = length - at;
    unsigned char low = 0x80, high = 0xbf; /* of the second byte */
    unsigned bytes = t[0] >= 0xc2 && t[0] <= 0xdf   ? 2
                     : (t[0] & 0xf0) == 0xe0        ? 3
                     : t[0] >= 0xf0 && t[0] <= 0xf4 ? 4
                                                    : 0;
    if (bytes == 0 || left < bytes) {
        return 0;
    }
    if (t[0] == 0xe0) {
        low = 0xa0;
    } else if (t[0] == 0xed) {
        high = 0x9f;
    } else if (t[0] == 0xf0) {
        low = 0x90;
    } else if (t[0] == 0xf4) {
        high = 0x8f;
    }
    if (t[1] < low || t[1] > high) {
        return 0;
    }
    for (unsigned i = 2; i < bytes; i++) {
        if (t[i] < 0x80 || t[i] > 0xbf) {
            return 0;
        }
    }
    return bytes;
}

bool is_control_code(uint32_t code)
{
    return (code < 0x20 && code != '\t' && code != '\n' && code != '\r') || (code >= 0x7f && code <= 0x9f);
}

bool is_control(const char *text)
{
    const unsigned char *t = (const unsigned char *)text;
    if (t[0] == 0xc2) { /* U+0080 to U+00BF: the second byte is the code */
        return t[1] >= 0x80 && is_control_code(t[1]);
    }
    return t[0] < 0x80 && is_control_code(t[0]);
}

void make_printable(char *text, bool one_line)
{
    size_t length = strlen(text);
    for (size_t at = 0; at < length;) {
        unsigned char c = (unsigned char)text[at];
        unsigned bytes = c < 0x80 ? 1 : utf8_bytes(text, length, at);
        bool ends = c == '\n' || c == '\t' || c == '\r';
        if (bytes == 0) {
            text[at] = '?';
            bytes = 1;
        } else if (is_control(text + at) || c == '\r' || (ends && one_line)) {
            memset(text + at, ' ', bytes);
        }
        at += bytes;
    }
}
