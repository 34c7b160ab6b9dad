/* Whether an axis's path and values are of a kind that scenarios have: by the one table of their keys (scenario_keys). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/plan/scenario.h"
#include "sim/sweep/sweep_scenario.h"

enum { KEYS_MAX = 128 };

static bool has_word(const char *type, const char *word)
{
    const char *at = strstr(type, word);
    size_t length = strlen(word);
    while (at != NULL) {
        bool begins = at == type || at[-1] == ' ', ends = strchr(" ,", at[length]) != NULL; /* "" ends too */
        if (begins && ends) {
            return true;
        }
        at = strstr(at + 1, word);
    }
    return false;
}

/* "integer", "true | false", "0 to 3", "name, path or object", "none | full, or one for each layer" ... */
static bool takes(const char *type, const struct expression_value *value)
{
    switch (value->kind) {
    case VALUE_NULL:
    case VALUE_MISSING: return true; /* as if absent */
    case VALUE_BOOL: return has_word(type, "true");
    case VALUE_NUMBER: return has_word(type, "integer") || has_word(type, "number") || has_word(type, "to");
    case VALUE_TEXT:
        return has_word(type, "name") || has_word(type, "text") ||
               (strchr(type, '|') != NULL && has_word(type, value->text)) || has_word(type, "path") ||
               strcmp(type, value->text) == 0;
    case VALUE_JSON: break;
    }
    return value->text[0] == '{' ? has_word(type, "object") : has_word(type, "list") || has_word(type, "each");
}

static bool is_whole_where_needed(const char *type, const struct expression_value *value)
{
    bool whole = has_word(type, "integer") || has_word(type, "to");
    return value->kind != VALUE_NUMBER || !whole || value->number == floor(value->number);
}

/* The longest key that `path` is or lies below. */
static const struct scenario_key *key_of(const char *path)
{
    uint32_t count;
    const struct scenario_key *keys = scenario_keys(&count), *found = NULL;
    size_t best = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t length = strlen(keys[i].path);
        if (strncmp(path, keys[i].path, length) == 0 && (path[length] == '\0' || path[length] == '.') &&
            length > best) {
            best = length;
            found = &keys[i];
        }
    }
    return found;
}

/* Objects whose keys the table lists: "training", "parallel", "plan". */
static bool lists_its_keys(const char *path)
{
    uint32_t count;
    const struct scenario_key *keys = scenario_keys(&count);
    size_t length = strlen(path);
    for (uint32_t i = 0; i < count; i++) {
        if (strncmp(keys[i].path, path, length) == 0 && keys[i].path[length] == '.' &&
            strcmp(path, "parallel.pipeline_order") != 0) {
            return true;
        }
    }
    return false;
}

static enum status unknown_path(const struct json *at, const char *path, struct error *error)
{
    uint32_t count;
    const struct scenario_key *keys = scenario_keys(&count);
    const char *known[KEYS_MAX];
    CHECK(count <= KEYS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        known[i] = keys[i].path;
    }
    const char *near = nearest_word(path, known, count);
    return json_error(at, error,
                      "no scenario has a key \"%.100s\"%s%s%s (memwall list parameters says which there are)", path,
                      near != NULL ? "; did you mean \"" : "", near != NULL ? near : "", near != NULL ? "\"?" : "");
}

enum status sweep_path_check(const struct json *at, const char *path, const struct expression_value *values,
                             uint32_t count, struct error *error)
{
    const struct scenario_key *key = key_of(path);
    if (key == NULL) {
        return unknown_path(at, path, error);
    }
    const char *below = path + strlen(key->path);
    if (*below != '\0' && lists_its_keys(key->path)) {
        return unknown_path(at, path, error);
    }
    if (*below != '\0') {
        bool index = below[1] >= '0' && below[1] <= '9' && (has_word(key->type, "list") || has_word(key->type, "each"));
        return has_word(key->type, "object") || index
                   ? STATUS_OK
                   : json_error(at, error, "\"%.100s\": %s is %s and holds nothing", path, key->path, key->type);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!takes(key->type, &values[i]) || !is_whole_where_needed(key->type, &values[i])) {
            struct strbuf text = { 0 };
            expression_value_print(&values[i], &text);
            enum status status = json_error(at, error, "value %u of the axis is %.100s: %s takes %s", i + 1,
                                            text.text != NULL ? text.text : "", path, key->type);
            strbuf_free(&text);
            return status;
        }
    }
    return STATUS_OK;
}
