#include "sim/base/json.h"

#include <cjson/cJSON.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/json_document.h"
#include "sim/base/json_scan.h"
#include "sim/base/json_write.h"

/* -- documents -- */

/* Takes `text` over, which json_scan has not seen yet. */
static enum status parse(struct json_document **document, const char *text, size_t length, const char *file,
                         struct error *error)
{
    *document = NULL;
    uint32_t *lines;
    size_t count;
    TRY(json_scan(text, length, file, &lines, &count, error));
    struct json_document *made = calloc(1, sizeof *made);
    cJSON *root = made == NULL ? NULL : cJSON_ParseWithLength(text, length);
    char *name = root == NULL ? NULL : strdup(file == NULL ? "" : file);
    if (name == NULL) {
        /* The scan has passed the syntax, so only memory can be at fault. */
        cJSON_Delete(root);
        free(made);
        free(lines);
        return error_at(error, STATUS_NO_MEMORY, file, NULL, "out of memory reading JSON");
    }
    made->root = root;
    made->file = name;
    made->lines = lines;
    made->value_count = count;
    *document = made;
    return STATUS_OK;
}

enum status json_load(struct json_document **document, const char *file, size_t bytes_max, struct error *error)
{
    char *text;
    size_t length;
    *document = NULL;
    TRY(file_read(file, bytes_max, &text, &length, error));
    enum status status = parse(document, text, length, strcmp(file, "-") == 0 ? "standard input" : file, error);
    free(text);
    return status;
}

enum status json_parse(struct json_document **document, const char *text, size_t length, const char *file,
                       struct error *error)
{
    return parse(document, text, length, file, error);
}

void json_free(struct json_document *document)
{
    if (document != NULL) {
        cJSON_Delete(document->root);
        free(document->file);
        free(document->lines);
        free(document);
    }
}

void json_root(struct json_document *document, struct json *root)
{
    *root = (struct json){ .node = document->root, .document = document };
}

const char *json_file(const struct json *at)
{
    return at->document->file;
}

/* Walks the tree in document order up to the value, counting: only messages pay for it. */
unsigned json_line(const struct json *at)
{
    const struct json_document *document = at->document;
    const cJSON *stack[JSON_DEPTH_MAX + 2];
    unsigned depth = 0;
    size_t ordinal = 0;
    if (at->node == NULL || document->edited) {
        return 0;
    }
    const cJSON *node = document->root;
    while (node != at->node) {
        ordinal++;
        if (node->child != NULL) {
            CHECK(depth < sizeof stack / sizeof stack[0]);
            stack[depth++] = node;
            node = node->child;
            continue;
        }
        while (node->next == NULL && depth > 0) {
            node = stack[--depth];
        }
        node = node->next;
        if (node == NULL) {
            return 0;
        }
    }
    return ordinal < document->value_count ? document->lines[ordinal] : 0;
}

enum json_type json_type(const struct json *at)
{
    if (at->node == NULL) {
        return JSON_NULL;
    }
    switch (at->node->type & 0xff) {
    case cJSON_True:
    case cJSON_False: return JSON_BOOL;
    case cJSON_Number: return JSON_NUMBER;
    case cJSON_String: return JSON_STRING;
    case cJSON_Array: return JSON_ARRAY;
    case cJSON_Object: return JSON_OBJECT;
    default: return JSON_NULL;
    }
}

const char *json_type_word(enum json_type type)
{
    static const char *const words[] = { "null", "true or false", "a number", "a string", "an array", "an object" };
    return words[type];
}

/* -- messages -- */

static bool is_plain_key(const char *key)
{
    for (const char *c = key; *c != '\0'; c++) {
        bool plain =
            (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '_' || *c == '-';
        if (!plain) {
            return false;
        }
    }
    return *key != '\0';
}

/* `key` may be NULL: then the path of `at` itself. */
static void path_with_key(const struct json *at, const char *key, char *buffer, size_t size)
{
    const struct json *way[JSON_DEPTH_MAX + 2];
    size_t count = 0, used;
    for (const struct json *step = at; step->up != NULL && count < sizeof way / sizeof way[0]; step = step->up) {
        way[count++] = step;
    }
    (void)snprintf(buffer, size, "$");
    while (count-- > 0) {
        used = strlen(buffer);
        if (way[count]->key == NULL) {
            (void)snprintf(buffer + used, size - used, "[%zu]", way[count]->index);
        } else {
            (void)snprintf(buffer + used, size - used, is_plain_key(way[count]->key) ? ".%s" : "[\"%s\"]",
                           way[count]->key);
        }
    }
    if (key != NULL) {
        used = strlen(buffer);
        (void)snprintf(buffer + used, size - used, is_plain_key(key) ? ".%s" : "[\"%s\"]", key);
    }
}

const char *json_path(const struct json *at, char *buffer, size_t size)
{
    CHECK(size >= 2);
    path_with_key(at, NULL, buffer, size);
    return buffer;
}

__attribute__((format(printf, 4, 0))) static enum status
fail_v(const struct json *at, const char *key, struct error *error, const char *format, va_list arguments)
{
    char path[ERROR_PATH_BYTES], message[ERROR_MESSAGE_BYTES];
    path_with_key(at, key, path, sizeof path);
    (void)vsnprintf(message, sizeof message, format, arguments);
    (void)error_at(error, STATUS_BAD_INPUT, at->document->file, path, "%s", message);
    if (error != NULL) {
        error->line = json_line(at);
    }
    return STATUS_BAD_INPUT;
}

enum status json_error(const struct json *at, struct error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    enum status status = fail_v(at, NULL, error, format, arguments);
    va_end(arguments);
    return status;
}

/* An error at a key of `at` that may not exist. */
__attribute__((format(printf, 4, 5))) static enum status fail_key(const struct json *at, const char *key,
                                                                  struct error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    enum status status = fail_v(at, key, error, format, arguments);
    va_end(arguments);
    return status;
}

/* What a value is, short: "the string \"abc\"", "7.5", "an object". */
static const char *found(const struct json *at, char *buffer, size_t size)
{
    char number[32];
    switch (json_type(at)) {
    case JSON_NUMBER:
        (void)snprintf(buffer, size, "%s", text_real(at->node->valuedouble, number, sizeof number));
        break;
    case JSON_STRING: {
        size_t length = strlen(at->node->valuestring);
        (void)snprintf(buffer, size, "the string \"%.40s\"%s", at->node->valuestring, length > 40 ? "..." : "");
        break;
    }
    case JSON_BOOL: (void)snprintf(buffer, size, "%s", cJSON_IsTrue(at->node) ? "true" : "false"); break;
    case JSON_NULL:
    case JSON_ARRAY:
    case JSON_OBJECT: (void)snprintf(buffer, size, "%s", json_type_word(json_type(at))); break;
    }
    return buffer;
}

/* -- children -- */

/* The child of exactly this key, or one with node == NULL. null counts as absent when `null_is_absent`. */
static void child_of(const struct json *object, const char *key, bool null_is_absent, struct json *child)
{
    cJSON *node = NULL;
    if (object->node != NULL && cJSON_IsObject(object->node)) {
        node = cJSON_GetObjectItemCaseSensitive(object->node, key);
        if (node != NULL && null_is_absent && cJSON_IsNull(node)) {
            node = NULL;
        }
    }
    *child = (struct json){
        .node = node, .document = object->document, .up = object, .key = node == NULL ? key : node->string
    };
}

/* Not an object: a mistake of the input. An absent object (node NULL) has no keys. */
static enum status expect_object(const struct json *at, struct error *error)
{
    char text[96];
    if (at->node == NULL || cJSON_IsObject(at->node)) {
        return STATUS_OK;
    }
    return json_error(at, error, "expected an object, found %s", found(at, text, sizeof text));
}

bool json_has(const struct json *object, const char *key)
{
    struct json child;
    child_of(object, key, false, &child);
    return child.node != NULL;
}

/* The shared head of all readers by key: *child->node is NULL only when absent and not required. */
static enum status get(const struct json *object, const char *key, bool required, const char *wanted,
                       struct json *child, struct error *error)
{
    TRY(expect_object(object, error));
    child_of(object, key, !required, child);
    if (child->node == NULL && required) {
        return fail_key(object, key, error, "missing key \"%s\" (%s)", key, wanted);
    }
    return STATUS_OK;
}

static enum status expect_type(const struct json *at, enum json_type type, struct error *error)
{
    char text[96];
    if (json_type(at) != type || at->node == NULL) {
        return json_error(at, error, "expected %s, found %s", json_type_word(type), found(at, text, sizeof text));
    }
    return STATUS_OK;
}

enum status json_any(const struct json *object, const char *key, struct json *child, struct error *error)
{
    return get(object, key, true, "any value", child, error);
}

enum status json_object(const struct json *object, const char *key, struct json *child, struct error *error)
{
    TRY(get(object, key, true, "an object", child, error));
    return expect_type(child, JSON_OBJECT, error);
}

enum status json_array(const struct json *object, const char *key, struct json *child, struct error *error)
{
    TRY(get(object, key, true, "an array", child, error));
    return expect_type(child, JSON_ARRAY, error);
}

enum status json_any_optional(const struct json *object, const char *key, struct json *child, struct error *error)
{
    return get(object, key, false, "", child, error);
}

enum status json_object_optional(const struct json *object, const char *key, struct json *child, struct error *error)
{
    TRY(get(object, key, false, "", child, error));
    return child->node == NULL ? STATUS_OK : expect_type(child, JSON_OBJECT, error);
}

enum status json_array_optional(const struct json *object, const char *key, struct json *child, struct error *error)
{
    TRY(get(object, key, false, "", child, error));
    return child->node == NULL ? STATUS_OK : expect_type(child, JSON_ARRAY, error);
}

/* The memory of where the last look into a container of this depth was: makes loops over items linear, nested ones
 * too. */
static struct json_place *place_of(const struct json *container)
{
    unsigned depth = 0;
    for (const struct json *step = container; step->up != NULL && depth < JSON_DEPTH_MAX; step = step->up) {
        depth++;
    }
    return &container->document->places[depth];
}

size_t json_count(const struct json *array_or_object)
{
    if (array_or_object->node == NULL) {
        return 0;
    }
    struct json_place *place = place_of(array_or_object);
    if (place->counted != array_or_object->node) {
        place->counted = array_or_object->node;
        place->count = (size_t)cJSON_GetArraySize(array_or_object->node);
    }
    return place->count;
}

static cJSON *item_at(const struct json *container, size_t index)
{
    CHECK(container->node != NULL);
    struct json_place *place = place_of(container);
    if (place->container != container->node || place->index > index) {
        *place = (struct json_place){ .container = container->node,
                                      .item = container->node->child,
                                      .counted = place->counted,
                                      .count = place->count };
    }
    while (place->item != NULL && place->index < index) {
        place->item = place->item->next;
        place->index++;
    }
    cJSON *item = place->item;
    if (item == NULL) {
        place->container = NULL;
    }
    CHECK(item != NULL); /* index < json_count() */
    return item;
}

void json_item(const struct json *array, size_t index, struct json *child)
{
    *child = (struct json){ .node = item_at(array, index), .document = array->document, .up = array, .index = index };
}

void json_member(const struct json *object, size_t index, const char **key, struct json *child)
{
    cJSON *node = item_at(object, index);
    CHECK(node->string != NULL);
    *child = (struct json){ .node = node, .document = object->document, .up = object, .key = node->string };
    *key = node->string;
}

/* -- values -- */

/* A limit without a digit of its own: only one side is worth a word when the other is the type's own end. */
static const char *range_words(const char *kind, double min, double max, char *buffer, size_t size)
{
    char low[32], high[32];
    bool has_min = min > -DBL_MAX, has_max = max < DBL_MAX;
    text_real(has_min ? min : 0.0, low, sizeof low);
    text_real(has_max ? max : 0.0, high, sizeof high);
    if (has_min && has_max) {
        (void)snprintf(buffer, size, "%s from %s to %s", kind, low, high);
    } else if (has_min) {
        (void)snprintf(buffer, size, "%s of at least %s", kind, low);
    } else if (has_max) {
        (void)snprintf(buffer, size, "%s of at most %s", kind, high);
    } else {
        (void)snprintf(buffer, size, "%s", kind);
    }
    return buffer;
}

#define INTEGER_LIMIT 0x1p53 /* from here on a double no longer tells neighbours apart */

static const char *int_words(int64_t min, int64_t max, char *buffer, size_t size)
{
    double low = (double)min <= -INTEGER_LIMIT ? -INFINITY : (double)min;
    double high = (double)max >= INTEGER_LIMIT ? INFINITY : (double)max;
    return range_words("an integer", low, high, buffer, size);
}

enum status json_as_int(const struct json *at, int64_t min, int64_t max, int64_t *value, struct error *error)
{
    char range[96], text[96];
    double number = json_type(at) == JSON_NUMBER ? at->node->valuedouble : NAN;
    if (fabs(number) >= INTEGER_LIMIT) {
        return json_error(at, error, "expected %s, found %s: integers must stay below 2^53 (9007199254740992)",
                          int_words(min, max, range, sizeof range), found(at, text, sizeof text));
    }
    if (!(floor(number) == number) || (int64_t)number < min || (int64_t)number > max) {
        return json_error(at, error, "expected %s, found %s", int_words(min, max, range, sizeof range),
                          found(at, text, sizeof text));
    }
    *value = (int64_t)number;
    return STATUS_OK;
}

enum status json_as_real(const struct json *at, double min, double max, double *value, struct error *error)
{
    char range[96], text[96];
    double number = json_type(at) == JSON_NUMBER ? at->node->valuedouble : NAN;
    if (!isfinite(number) || number < min || number > max) {
        return json_error(at, error, "expected %s, found %s", range_words("a number", min, max, range, sizeof range),
                          found(at, text, sizeof text));
    }
    *value = number;
    return STATUS_OK;
}

enum status json_as_bool(const struct json *at, bool *value, struct error *error)
{
    TRY(expect_type(at, JSON_BOOL, error));
    *value = cJSON_IsTrue(at->node) != 0;
    return STATUS_OK;
}

enum status json_as_string(const struct json *at, const char **value, struct error *error)
{
    TRY(expect_type(at, JSON_STRING, error));
    CHECK(at->node != NULL); /* a string is not missing */
    *value = at->node->valuestring;
    return STATUS_OK;
}

enum status json_int(const struct json *object, const char *key, int64_t min, int64_t max, int64_t *value,
                     struct error *error)
{
    struct json child;
    char range[96];
    TRY(get(object, key, true, int_words(min, max, range, sizeof range), &child, error));
    return json_as_int(&child, min, max, value, error);
}

enum status json_real(const struct json *object, const char *key, double min, double max, double *value,
                      struct error *error)
{
    struct json child;
    char range[96];
    TRY(get(object, key, true, range_words("a number", min, max, range, sizeof range), &child, error));
    return json_as_real(&child, min, max, value, error);
}

enum status json_bool(const struct json *object, const char *key, bool *value, struct error *error)
{
    struct json child;
    TRY(get(object, key, true, "true or false", &child, error));
    return json_as_bool(&child, value, error);
}

enum status json_string(const struct json *object, const char *key, const char **value, struct error *error)
{
    struct json child;
    TRY(get(object, key, true, "a string", &child, error));
    return json_as_string(&child, value, error);
}

enum status json_int_or(const struct json *object, const char *key, int64_t min, int64_t max, int64_t fallback,
                        int64_t *value, struct error *error)
{
    struct json child;
    TRY(get(object, key, false, "", &child, error));
    *value = fallback;
    return child.node == NULL ? STATUS_OK : json_as_int(&child, min, max, value, error);
}

enum status json_real_or(const struct json *object, const char *key, double min, double max, double fallback,
                         double *value, struct error *error)
{
    struct json child;
    TRY(get(object, key, false, "", &child, error));
    *value = fallback;
    return child.node == NULL ? STATUS_OK : json_as_real(&child, min, max, value, error);
}

enum status json_bool_or(const struct json *object, const char *key, bool fallback, bool *value, struct error *error)
{
    struct json child;
    TRY(get(object, key, false, "", &child, error));
    *value = fallback;
    return child.node == NULL ? STATUS_OK : json_as_bool(&child, value, error);
}

enum status json_string_or(const struct json *object, const char *key, const char *fallback, const char **value,
                           struct error *error)
{
    struct json child;
    TRY(get(object, key, false, "", &child, error));
    *value = fallback;
    return child.node == NULL ? STATUS_OK : json_as_string(&child, value, error);
}
