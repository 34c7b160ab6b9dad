/* The strict look at a JSON text before a tree is built from it: everything cJSON lets pass, or reports without a
 * place.
 *
 * Time and memory are linear in the text; no recursion. json_scan is for the json_*.c files alone. */
#ifndef MEMWALL_BASE_JSON_SCAN_H
#define MEMWALL_BASE_JSON_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include "sim/base/status.h"

/* Values (of any type) in one text: a tree node takes 64 bytes, so this bounds the tree at 1 GiB. */
#define JSON_VALUES_MAX ((size_t)16 << 20)

/* Checks the one document in text[0, length): RFC 8259 syntax (one leading byte order mark is allowed), nesting of
 * at most JSON_DEPTH_MAX, keys unique in their object after unescaping, numbers within double's range and of at most
 * 60 characters, valid UTF-8, no control characters but tab and line ends, no lone surrogate. On success *lines is malloc'ed: the line (from 1) at which
 * each value starts, in document order, and *count their number. On failure STATUS_BAD_INPUT, STATUS_LIMIT or
 * STATUS_NO_MEMORY; the message says what was found, error->path says "line 3 column 7" (columns count bytes from
 * 1), and nothing is allocated. `file` may be NULL. */
enum status json_scan(const char *text, size_t length, const char *file, uint32_t **lines, size_t *count,
                      struct error *error);

#endif
