/* Dotted paths into a machine file's document, as draft.h has them: "gpu.hbm_GBps", "links.2.GBps", "links.pcie.GBps". */
#ifndef MEMWALL_VALIDATE_DRAFT_PATH_H
#define MEMWALL_VALIDATE_DRAFT_PATH_H

#include <stdbool.h>

#include "sim/base/json.h"

enum { DRAFT_PATH_BYTES = 256, DRAFT_KEY_BYTES = 128 };

/* The next key of a path into `key`; returns the rest after its dot, "" at the end, NULL when the key is empty or too long. */
const char *draft_next_key(const char *path, char key[DRAFT_KEY_BYTES]);
/* Whether a key is the number of an item. */
bool draft_is_index(const char *key);
/* The item of an array that a key means: by its number, or the first of that "kind". False: there is none. */
bool draft_item_of(const struct json *array, const char *key, struct json *child);
/* The number at a path of one document; false: there is none. *found: there is a value of any type. */
bool draft_look_up(struct json_document *document, const char *path, bool *found, double *value);

#endif
