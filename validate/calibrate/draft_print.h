/* JSON for people: what fits on a line of 118 columns stands on one, numbers and points fill lines, and objects have one each, like hw_models/machines. */
#ifndef MEMWALL_VALIDATE_DRAFT_PRINT_H
#define MEMWALL_VALIDATE_DRAFT_PRINT_H

#include "sim/base/json.h"

/* Append the value and a line break. Reading the text back gives the same value. */
void draft_print_json(const struct json *root, struct strbuf *out);

#endif
