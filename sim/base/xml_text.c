#include "sim/base/xml_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "sim/base/printable.h"

/* Bytes of the UTF-8 character at `text`, 0 when it is none, or one that XML 1.0 (section 2.2) has not. */
static size_t character_bytes(const char *text)
{
    unsigned char first = (unsigned char)text[0];
    if (first < 0x80) {
        return first >= 0x20 || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
    }
    bool is_noncharacter = strncmp(text, "\xef\xbf\xbe", 3) == 0 || strncmp(text, "\xef\xbf\xbf", 3) == 0;
    return is_noncharacter ? 0 : utf8_bytes(text, strnlen(text, 4), 0);
}

void xml_escape(struct strbuf *out, const char *text)
{
    while (*text != '\0') {
        size_t bytes = character_bytes(text);
        switch (*text) {
        case '&': strbuf_append(out, "&amp;"); break;
        case '<': strbuf_append(out, "&lt;"); break;
        case '>': strbuf_append(out, "&gt;"); break;
        case '"': strbuf_append(out, "&quot;"); break;
        case '\r': strbuf_append(out, "&#13;"); break;
        default:
            if (bytes > 0) {
                strbuf_append_n(out, text, bytes);
            } else {
                strbuf_append(out, "\xef\xbf\xbd");
            }
            break;
        }
        text += bytes > 0 ? bytes : 1;
    }
}
