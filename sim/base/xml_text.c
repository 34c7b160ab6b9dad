#include "sim/base/xml_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the UTF-8 character at `text`, 0 when it is none, or one that XML 1.0 (section 2.2) has not. */
static size_t character_bytes(const unsigned char *text)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    unsigned char first = text[0];
    size_t count = first < 0x80             ? 1
                   : (first & 0xe0) == 0xc0 ? 2
                   : (first & 0xf0) == 0xe0 ? 3
                   : (first & 0xf8) == 0xf0 ? 4
                                            : 0;
    uint32_t code = count <= 1 ? first : first & (0x7fu >> count);
    for (size_t i = 1; i < count; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0; /* the terminator too */
        }
        code = code << 6 | (text[i] & 0x3fu);
    }
    bool allowed = code == '\t' || code == '\n' || code == '\r' || (code >= 0x20 && code < 0xd800) ||
                   (code > 0xdfff && code < 0xfffe) || (code >= 0x10000 && code <= 0x10ffff);
    return count > 0 && allowed && code >= least[count] ? count : 0;
}

void xml_escape(struct strbuf *out, const char *text)
{
    while (*text != '\0') {
        size_t bytes = character_bytes((const unsigned char *)text);
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
