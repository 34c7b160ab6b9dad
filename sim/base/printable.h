/* Text from outside, which may be on its way to a terminal: what is UTF-8, and what a terminal would obey instead of showing it. */
#ifndef MEMWALL_BASE_PRINTABLE_H
#define MEMWALL_BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes (2 to 4) of the valid UTF-8 sequence of more than one byte that starts at text[at], or 0. Overlong forms, surrogates and codes above 10FFFF are not valid. at < length. */
unsigned utf8_bytes(const char *text, size_t length, size_t at);
/* Whether a character is one that a terminal obeys: U+0000 to U+001F but for tab and line ends, U+007F to U+009F. The second looks at the character that begins at `text`. */
bool is_control_code(uint32_t code);
bool is_control(const char *text);
/* Put a blank, or '?' for bytes that are no UTF-8, in place of every byte of such a character, and of carriage returns; with `one_line` of tabs and line feeds too. The length stays. */
void make_printable(char *text, bool one_line);

#endif
