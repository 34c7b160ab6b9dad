/* The inside of a struct json_document: for sim/base/json*.c alone. */
#ifndef MEMWALL_BASE_JSON_DOCUMENT_H
#define MEMWALL_BASE_JSON_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/json.h"

/* Where the last json_item of one depth was, so that the next starts there and not at the list's head. */
struct json_place {
    const struct cJSON *container;
    struct cJSON *item;
    size_t index;
    const struct cJSON *counted; /* container of `count` */
    size_t count;
};

struct json_document {
    struct cJSON *root;
    char *file;      /* for messages; "" when unnamed */
    uint32_t *lines; /* of each value in document order */
    size_t value_count;
    bool edited; /* json_set has changed it: lines no longer fit */
    struct json_place places[JSON_DEPTH_MAX + 1];
};

#endif
