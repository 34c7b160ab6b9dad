/* json_set and json_print. */
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json_document.h"
#include "sim/base/json_scan.h"
#include "sim/base/json_write.h"
#include "sim/base/printable.h"

enum { KEY_BYTES_MAX = 128, SET_BYTES_MAX = 1 << 20 };

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory setting a value");
}

static bool is_text(const char *text)
{
    size_t length = strlen(text);
    for (size_t at = 0; at < length;) {
        unsigned bytes = (unsigned char)text[at] < 0x80 ? 1 : utf8_bytes(text, length, at);
        if (bytes == 0 || is_control(text + at)) {
            return false;
        }
        at += bytes;
    }
    return true;
}

/* The tree of VALUE: JSON, or else the text itself as a string; but what begins like an object, array or string must
 * be one. */
static enum status parse_value(const char *path, const char *value, unsigned depth, cJSON **node, struct error *error)
{
    struct error scan_error = { 0 };
    uint32_t *lines = NULL;
    size_t count, length = strlen(value);
    if (length > SET_BYTES_MAX) {
        return error_at(error, STATUS_LIMIT, "--set", path, "the value has %zu bytes, at most %d are allowed", length,
                        SET_BYTES_MAX);
    }
    if (!is_text(value)) {
        return error_at(error, STATUS_BAD_INPUT, "--set", path,
                        "the value is not valid UTF-8, or holds control characters");
    }
    enum status status = json_scan(value, length, NULL, &lines, &count, &scan_error);
    free(lines);
    if (status == STATUS_NO_MEMORY) {
        return no_memory(error);
    }
    if (status == STATUS_OK) {
        *node = cJSON_ParseWithLength(value, length);
    } else {
        size_t blank = strspn(value, " \t\r\n");
        if (value[blank] == '{' || value[blank] == '[' || value[blank] == '"') {
            return error_at(error, STATUS_BAD_INPUT, "--set", path, "the value is not valid JSON: %s: %s",
                            scan_error.path, scan_error.message);
        }
        *node = cJSON_CreateString(value);
    }
    if (*node == NULL) {
        return no_memory(error);
    }
    /* The whole must stay within the depth that everything here relies on. */
    unsigned deepest = 0, at = 0;
    for (const char *c = value; *c != '\0' && status == STATUS_OK; c++) {
        at += *c == '{' || *c == '[';
        deepest = at > deepest ? at : deepest;
        at -= (*c == '}' || *c == ']') && at > 0;
    }
    if (depth + deepest > JSON_DEPTH_MAX) {
        cJSON_Delete(*node);
        *node = NULL;
        return error_at(error, STATUS_BAD_INPUT, "--set", path, "nested deeper than %d levels", JSON_DEPTH_MAX);
    }
    return STATUS_OK;
}

/* The next key of the path into `key`; NULL and an error when it is empty or too long. */
static const char *next_key(const char *at, char key[KEY_BYTES_MAX], const char *path, struct error *error)
{
    size_t length = strcspn(at, ".");
    if (length == 0 || length >= KEY_BYTES_MAX) {
        error_at(error, STATUS_BAD_INPUT, "--set", path,
                 "expected keys separated by dots, like parallel.tensor=4; a key is %s",
                 length == 0 ? "empty" : "too long");
        return NULL;
    }
    memcpy(key, at, length);
    key[length] = '\0';
    return at + length;
}

/* The item an array step means, or NULL with an error. */
static cJSON *array_item(cJSON *array, const char *key, const char *path, struct error *error)
{
    char *end;
    unsigned long index = strtoul(key, &end, 10);
    cJSON *item =
        *end != '\0' || key[0] < '0' || key[0] > '9' || index > 1000000 ? NULL : cJSON_GetArrayItem(array, (int)index);
    if (item == NULL) {
        error_at(error, STATUS_BAD_INPUT, "--set", path, "\"%s\" is not an index into an array of %d items", key,
                 cJSON_GetArraySize(array));
    }
    return item;
}

/* Put `node` under `key`; takes it over in any case. */
static enum status put(cJSON *parent, const char *key, cJSON *node, const char *path, struct error *error)
{
    cJSON *old =
        cJSON_IsArray(parent) ? array_item(parent, key, path, error) : cJSON_GetObjectItemCaseSensitive(parent, key);
    if (cJSON_IsArray(parent)) {
        if (old == NULL) {
            cJSON_Delete(node);
            return STATUS_BAD_INPUT;
        }
        (void)cJSON_ReplaceItemViaPointer(parent, old, node);
        return STATUS_OK;
    }
    /* In place, so that the order of keys stays. */
    cJSON_bool done = old != NULL ? cJSON_ReplaceItemInObjectCaseSensitive(parent, key, node)
                                  : cJSON_AddItemToObject(parent, key, node);
    if (!done) {
        cJSON_Delete(node);
        return no_memory(error);
    }
    return STATUS_OK;
}

enum status json_set(struct json_document *document, const char *dotted_path, const char *value, struct error *error)
{
    char key[KEY_BYTES_MAX];
    unsigned depth = 0;
    const char *at = dotted_path;
    cJSON *node = document->root;
    if (!is_text(dotted_path)) {
        return error_at(error, STATUS_BAD_INPUT, "--set", NULL,
                        "the path is not valid UTF-8, or holds control characters");
    }
    document->edited = true;
    memset(document->places, 0, sizeof document->places);
    for (;;) {
        at = next_key(at, key, dotted_path, error);
        if (at == NULL) {
            return STATUS_BAD_INPUT;
        }
        if (!cJSON_IsObject(node) && !cJSON_IsArray(node)) {
            return error_at(error, STATUS_BAD_INPUT, "--set", dotted_path, "what should hold \"%s\" is not an object",
                            key);
        }
        if (++depth > JSON_DEPTH_MAX) {
            return error_at(error, STATUS_BAD_INPUT, "--set", dotted_path, "nested deeper than %d levels",
                            JSON_DEPTH_MAX);
        }
        if (*at == '\0') {
            break;
        }
        at++;
        cJSON *child = cJSON_IsArray(node) ? array_item(node, key, dotted_path, error)
                                           : cJSON_GetObjectItemCaseSensitive(node, key);
        if (child == NULL && cJSON_IsArray(node)) {
            return STATUS_BAD_INPUT;
        }
        if (child == NULL || cJSON_IsNull(child)) {
            cJSON *made = cJSON_CreateObject();
            if (made == NULL) {
                return no_memory(error);
            }
            TRY(put(node, key, made, dotted_path, error));
            child = made;
        }
        node = child;
    }
    cJSON *made = NULL;
    TRY(parse_value(dotted_path, value, depth, &made, error));
    return put(node, key, made, dotted_path, error);
}

static void print_scalar(const cJSON *node, struct strbuf *out)
{
    char number[32];
    if (cJSON_IsNumber(node)) {
        strbuf_append(out, text_real(node->valuedouble, number, sizeof number));
    } else if (cJSON_IsString(node)) {
        strbuf_json_string(out, node->valuestring);
    } else {
        strbuf_append(out, cJSON_IsTrue(node) ? "true" : cJSON_IsFalse(node) ? "false" : "null");
    }
}

void json_print(const struct json *at, struct strbuf *out)
{
    const cJSON *stack[JSON_DEPTH_MAX + 2];
    unsigned depth = 0;
    const cJSON *node = at->node;
    if (node == NULL) {
        strbuf_append(out, "null");
        return;
    }
    for (;;) {
        if (depth > 0 && cJSON_IsObject(stack[depth - 1])) {
            strbuf_json_string(out, node->string);
            strbuf_char(out, ':');
        }
        bool container = cJSON_IsObject(node) || cJSON_IsArray(node);
        if (container && node->child != NULL) {
            CHECK(depth < sizeof stack / sizeof stack[0]);
            strbuf_char(out, cJSON_IsObject(node) ? '{' : '[');
            stack[depth++] = node;
            node = node->child;
            continue;
        }
        if (container) {
            strbuf_append(out, cJSON_IsObject(node) ? "{}" : "[]");
        } else {
            print_scalar(node, out);
        }
        while (depth > 0 && node->next == NULL) {
            node = stack[--depth];
            strbuf_char(out, cJSON_IsObject(node) ? '}' : ']');
        }
        if (depth == 0) {
            return;
        }
        strbuf_char(out, ',');
        node = node->next;
    }
}

static void print_pretty(struct json_writer *w, const char *key, const struct json *at)
{
    struct strbuf text = { 0 };
    struct json child;
    enum json_type type = json_type(at);
    bool opens = (type == JSON_OBJECT || type == JSON_ARRAY) && w->depth + 1 < JSON_WRITE_DEPTH_MAX;
    if (opens && json_count(at) > 0) {
        const char *name = NULL;
        if (type == JSON_OBJECT) {
            jw_object(w, key);
        } else {
            jw_array(w, key);
        }
        for (size_t i = 0; i < json_count(at); i++) {
            if (type == JSON_OBJECT) {
                json_member(at, i, &name, &child);
            } else {
                json_item(at, i, &child);
            }
            print_pretty(w, name, &child);
        }
        jw_end(w);
        return;
    }
    json_print(at, &text);
    jw_raw(w, key, text.text != NULL ? text.text : "null");
    w->out->failed = w->out->failed || text.failed;
    strbuf_free(&text);
}

void json_print_pretty(const struct json *at, struct strbuf *out)
{
    struct json_writer w = { .out = out };
    print_pretty(&w, NULL, at);
}
