#include "sim/sweep/sweep_scenario.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw_models/embedded.h"
#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/json_write.h"
#include "sim/plan/scenario.h"

enum { FILE_BYTES_MAX = 64 << 20 };

struct member {
    const char *key;
    size_t index;
};

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct member *)a)->key, ((const struct member *)b)->key);
}

static void print_sorted(const struct json *object, struct strbuf *out)
{
    size_t count = json_count(object);
    struct member *members = calloc(count + 1, sizeof *members);
    if (members == NULL) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct json child;
        json_member(object, i, &members[i].key, &child);
        members[i].index = i;
    }
    qsort(members, count, sizeof *members, by_key);
    bool first = true;
    strbuf_char(out, '{');
    for (size_t i = 0; i < count; i++) {
        struct json child;
        const char *key;
        if (strncmp(members[i].key, "_comment", 8) == 0) {
            continue;
        }
        json_member(object, members[i].index, &key, &child);
        strbuf_append(out, first ? "" : ",");
        strbuf_json_string(out, key);
        strbuf_char(out, ':');
        sweep_canonical(&child, out);
        first = false;
    }
    strbuf_char(out, '}');
    free(members);
}

void sweep_canonical(const struct json *value, struct strbuf *out)
{
    if (json_type(value) == JSON_OBJECT) {
        print_sorted(value, out);
    } else if (json_type(value) == JSON_ARRAY) {
        size_t count = json_count(value);
        strbuf_char(out, '[');
        for (size_t i = 0; i < count; i++) {
            struct json child;
            json_item(value, i, &child);
            strbuf_append(out, i > 0 ? "," : "");
            sweep_canonical(&child, out);
        }
        strbuf_char(out, ']');
    } else {
        json_print(value, out);
    }
}

/* One axis's value into the document. */
static enum status set_value(struct json_document *document, const char *path, const struct expression_value *value,
                             struct strbuf *set, struct error *error)
{
    set->length = 0;
    strbuf_printf(set, "%s=", path);
    expression_value_print(value, set);
    if (set->failed) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory making a scenario");
    }
    return scenario_set(document, set->text, error);
}

enum status sweep_scenario_text(const struct sweep_walk *walk, struct strbuf *text, struct error *error)
{
    const struct sweep *sweep = walk->sweep;
    struct json_document *document = NULL;
    struct strbuf set = { 0 };
    struct json root;
    enum status status = json_parse(&document, sweep->base, strlen(sweep->base), sweep->name, error);
    for (uint32_t i = 0; i < sweep->axis_count && status == STATUS_OK; i++) {
        if (sweep->axes[i].path != NULL) {
            status = set_value(document, sweep->axes[i].path, &walk->values[i], &set, error);
        }
    }
    if (status == STATUS_OK) {
        json_root(document, &root);
        text->length = 0;
        sweep_canonical(&root, text);
        status = text->failed ? error_set(error, STATUS_NO_MEMORY, "out of memory making a scenario") : STATUS_OK;
    }
    strbuf_free(&set);
    json_free(document);
    return status;
}

void sweep_axes_json(const struct sweep_walk *walk, struct strbuf *out)
{
    strbuf_char(out, '{');
    for (uint32_t i = 0; i < walk->sweep->axis_count; i++) {
        strbuf_append(out, i > 0 ? "," : "");
        strbuf_json_string(out, walk->sweep->axes[i].name);
        strbuf_char(out, ':');
        expression_value_print(&walk->values[i], out);
    }
    strbuf_char(out, '}');
}

/* What a name stands for: a library file, or a file of the disk. Names of neither (library models) are part of the program's version. */
static enum status hash_name(struct hash *hash, const char *name, struct error *error)
{
    static const struct {
        const struct embedded_file *files;
        const uint32_t *count;
    } libraries[] = { { embedded_machines, &embedded_machine_count }, { embedded_software, &embedded_software_count } };
    for (size_t l = 0; l < 2; l++) {
        for (uint32_t i = 0; i < *libraries[l].count; i++) {
            if (strcmp(libraries[l].files[i].name, name) == 0) {
                hash_bytes(hash, libraries[l].files[i].text, libraries[l].files[i].length);
                return STATUS_OK;
            }
        }
    }
    size_t length = strlen(name);
    bool is_path = strchr(name, '/') != NULL || (length > 5 && strcmp(name + length - 5, ".json") == 0);
    char *text = NULL;
    if (is_path && file_exists(name) && file_read(name, FILE_BYTES_MAX, &text, &length, error) == STATUS_OK) {
        hash_bytes(hash, text, length);
    }
    free(text);
    return STATUS_OK; /* a file that is not there is the point's error, when it runs */
}

enum status sweep_scenario_hash(const char *text, struct hash *hash, struct error *error)
{
    static const char *const keys[] = { "machine", "model", "software" };
    struct json_document *document;
    struct json root, at;
    struct strbuf own = { 0 };
    TRY(json_parse(&document, text, strlen(text), "scenario", error));
    json_root(document, &root);
    *hash = hash_start();
    enum status status = STATUS_OK;
    for (size_t i = 0; i < json_count(&root); i++) {
        const char *key;
        json_member(&root, i, &key, &at);
        if (strcmp(key, "name") == 0) {
            continue;
        }
        own.length = 0;
        sweep_canonical(&at, &own);
        hash_text_field(hash, key);
        hash_text_field(hash, own.text != NULL ? own.text : "");
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && status == STATUS_OK; i++) {
        const char *name = NULL;
        if (json_any_optional(&root, keys[i], &at, NULL) != STATUS_OK || at.node == NULL) {
            continue;
        }
        struct json base = at;
        if (json_type(&at) == JSON_OBJECT && json_any_optional(&at, "base", &base, NULL) != STATUS_OK) {
            continue;
        }
        if (base.node != NULL && json_type(&base) == JSON_STRING && json_as_string(&base, &name, NULL) == STATUS_OK) {
            status = hash_name(hash, name, error);
        }
    }
    if (status == STATUS_OK && !json_has(&root, "software")) {
        status = hash_name(hash, "megatron", error); /* the default of scenarios */
    }
    if (own.failed) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory making a scenario");
    }
    strbuf_free(&own);
    json_free(document);
    return status;
}

enum status sweep_value_from_json(const struct json *at, struct arena *arena, struct expression_value *value,
                                  struct error *error)
{
    const char *text;
    struct strbuf compact = { 0 };
    *value = (struct expression_value){ .kind = VALUE_NULL };
    switch (json_type(at)) {
    case JSON_NULL: return STATUS_OK;
    case JSON_BOOL: value->kind = VALUE_BOOL; return json_as_bool(at, &value->boolean, error);
    case JSON_NUMBER: value->kind = VALUE_NUMBER; return json_as_real(at, -HUGE_VAL, HUGE_VAL, &value->number, error);
    case JSON_STRING:
        value->kind = VALUE_TEXT;
        TRY(json_as_string(at, &text, error));
        value->text = arena_text(arena, text);
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        value->kind = VALUE_JSON;
        sweep_canonical(at, &compact);
        value->text = compact.failed ? NULL : arena_text(arena, compact.text);
        strbuf_free(&compact);
        break;
    }
    return value->text != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "out of memory loading a sweep");
}
