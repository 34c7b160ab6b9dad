#include "validate/calibrate/draft_path.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *draft_next_key(const char *path, char key[DRAFT_KEY_BYTES])
{
    size_t length = strcspn(path, ".");
    if (length == 0 || length >= DRAFT_KEY_BYTES) {
        return NULL;
    }
    memcpy(key, path, length);
    key[length] = '\0';
    return path[length] == '.' ? path + length + 1 : path + length;
}

bool draft_is_index(const char *key)
{
    return key[0] != '\0' && strspn(key, "0123456789") == strlen(key) && strlen(key) < 7;
}

bool draft_item_of(const struct json *array, const char *key, struct json *child)
{
    size_t count = json_count(array);
    if (draft_is_index(key)) {
        size_t index = strtoul(key, NULL, 10);
        if (index < count) {
            json_item(array, index, child);
        }
        return index < count;
    }
    for (size_t i = 0; i < count; i++) {
        const char *kind = "";
        json_item(array, i, child);
        if (json_type(child) == JSON_OBJECT && json_string_or(child, "kind", "", &kind, NULL) == STATUS_OK &&
            strcmp(kind, key) == 0) {
            return true;
        }
    }
    return false;
}

bool draft_look_up(struct json_document *document, const char *path, bool *found, double *value)
{
    struct json steps[JSON_DEPTH_MAX];
    char key[DRAFT_KEY_BYTES];
    unsigned depth = 0;
    *found = false;
    json_root(document, &steps[0]);
    while (*path != '\0') {
        path = draft_next_key(path, key);
        if (path == NULL || depth + 1 >= JSON_DEPTH_MAX) {
            return false;
        }
        const struct json *at = &steps[depth++];
        if (json_type(at) == JSON_ARRAY) {
            if (!draft_item_of(at, key, &steps[depth])) {
                return false;
            }
        } else if (json_type(at) != JSON_OBJECT || json_any_optional(at, key, &steps[depth], NULL) != STATUS_OK ||
                   steps[depth].node == NULL) {
            return false;
        }
    }
    *found = true;
    return json_as_real(&steps[depth], -HUGE_VAL, HUGE_VAL, value, NULL) == STATUS_OK;
}
