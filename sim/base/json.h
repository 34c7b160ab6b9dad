/* Reading JSON with good manners, over cJSON.
 *
 * json_load/json_parse refuse, with file and line:column: syntax errors, duplicate keys, nesting deeper than
 * JSON_DEPTH_MAX, more than `bytes_max` bytes, bytes after the document, NaN/Infinity/overflowing numbers, bad UTF-8
 * and NUL in strings. The typed readers refuse, with file and JSON path: a missing key, a wrong type, a number out
 * of range, a fraction where an integer is wanted, integers from 2^53 on (JSON numbers are doubles: 2^53 and 2^53 +
 * 1 read alike). Keys are compared exactly (cJSON alone would ignore case).
 *
 * A `struct json` is a cheap cursor (a value, passed by value) that remembers the way down from the root for its
 * messages: it must not outlive the `up` cursor it was made from, nor the document.
 *
 *     struct json_document *document; struct json root, gpu; int64_t count;
 *     TRY(json_load(&document, "machine.json", JSON_BYTES_MAX, error));
 *     json_root(document, &root);
 *     TRY(json_int(&root, "gpu_count", 1, 1024, &count, error));          // required
 *     TRY(json_object(&root, "gpu", &gpu, error));
 *     TRY(json_known_keys(&gpu, GPU_KEYS, GPU_KEY_COUNT, error));   // unknown key: error
 *     json_free(document); */
#ifndef MEMWALL_BASE_JSON_H
#define MEMWALL_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/status.h"
#include "sim/base/strbuf.h"

enum { JSON_DEPTH_MAX = 64 };
#define JSON_BYTES_MAX ((size_t)64 << 20)

struct cJSON;
struct json_document;

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
    struct cJSON *node; /* NULL: absent (only from the *_optional functions); then every _or reader falls back */
    struct json_document *document;
    const struct json *up; /* NULL at the root */
    const char *key;       /* in `up`, or NULL when an array item */
    size_t index;          /* in `up` when an array item */
};

/* Load a file ("-" is standard input) or parse `length` bytes; `file` names the text in messages. The document owns
 * everything; free it with json_free (NULL is fine). */
enum status json_load(struct json_document **document, const char *file, size_t bytes_max, struct error *error);
enum status json_parse(struct json_document **document, const char *text, size_t length, const char *file,
                       struct error *error);
void json_free(struct json_document *document);
void json_root(struct json_document *document, struct json *root);
const char *json_file(const struct json *at);
/* Line (from 1) of the value, for messages; 0 when not known (absent, or the document was changed by json_set).
 * O(document). */
unsigned json_line(const struct json *at);

enum json_type json_type(const struct json *at);
const char *json_type_word(enum json_type type); /* "a string", "an object" ... */
/* "$.parallel.tensor" in `buffer`. */
const char *json_path(const struct json *at, char *buffer, size_t size);
/* An error at this value: STATUS_BAD_INPUT with file, line and path. */
enum status json_error(const struct json *at, struct error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Refuse keys not in `known`, naming the nearest known one (edit distance), else listing them. `at` must be an
 * object (else error). Keys starting with "_comment" are allowed everywhere. */
enum status json_known_keys(const struct json *at, const char *const *known, size_t known_count, struct error *error);
/* The nearest of `known` to `word` (Damerau-Levenshtein <= max(2, len/3) and < len, ignoring case and '-' against
 * '_'), or NULL. */
const char *nearest_word(const char *word, const char *const *known, size_t known_count);

/* Children. The first form of each requires the key; `_optional` sets `child->node = NULL` when it is absent or
 * null. */
bool json_has(const struct json *object, const char *key);
enum status json_any(const struct json *object, const char *key, struct json *child, struct error *error);
enum status json_object(const struct json *object, const char *key, struct json *child, struct error *error);
enum status json_array(const struct json *object, const char *key, struct json *child, struct error *error);
enum status json_any_optional(const struct json *object, const char *key, struct json *child, struct error *error);
enum status json_object_optional(const struct json *object, const char *key, struct json *child, struct error *error);
enum status json_array_optional(const struct json *object, const char *key, struct json *child, struct error *error);
size_t json_count(const struct json *array_or_object);
/* The index-th item; loops in rising order take O(1) each. index < json_count, else it asserts. */
void json_item(const struct json *array, size_t index, struct json *child);
/* The index-th member of an object: sets *key (valid as long as the document) and the child. */
void json_member(const struct json *object, size_t index, const char **key, struct json *child);

/* Values of a key: required, and with a default for an absent or null key. Bounds are inclusive and appear in the
 * message. Strings live as long as the document. */
enum status json_int(const struct json *object, const char *key, int64_t min, int64_t max, int64_t *value,
                     struct error *error);
enum status json_real(const struct json *object, const char *key, double min, double max, double *value,
                      struct error *error);
enum status json_bool(const struct json *object, const char *key, bool *value, struct error *error);
enum status json_string(const struct json *object, const char *key, const char **value, struct error *error);
enum status json_int_or(const struct json *object, const char *key, int64_t min, int64_t max, int64_t fallback,
                        int64_t *value, struct error *error);
enum status json_real_or(const struct json *object, const char *key, double min, double max, double fallback,
                         double *value, struct error *error);
enum status json_bool_or(const struct json *object, const char *key, bool fallback, bool *value, struct error *error);
enum status json_string_or(const struct json *object, const char *key, const char *fallback, const char **value,
                           struct error *error);
/* The index of a string in `words`; an unknown word is an error that lists them. */
enum status json_word(const struct json *object, const char *key, const char *const *words, size_t word_count,
                      size_t *index, struct error *error);
enum status json_word_or(const struct json *object, const char *key, const char *const *words, size_t word_count,
                         size_t fallback, size_t *index, struct error *error);

/* The cursor's own value (array items). */
enum status json_as_int(const struct json *at, int64_t min, int64_t max, int64_t *value, struct error *error);
enum status json_as_real(const struct json *at, double min, double max, double *value, struct error *error);
enum status json_as_bool(const struct json *at, bool *value, struct error *error);
enum status json_as_string(const struct json *at, const char **value, struct error *error);

/* Editing, for --set a.b=VALUE: VALUE is JSON, or a bare word taken as a string. Intermediate objects are made when
 * absent; going through a non-object is an error. In an array a key is the index of an item that exists. Cursors
 * made before are dangling afterwards. */
enum status json_set(struct json_document *document, const char *dotted_path, const char *value, struct error *error);
/* Compact canonical text of a value: keys in document order, shortest round-trip numbers. */
void json_print(const struct json *at, struct strbuf *out);
/* The same on lines, for people; below 31 levels compact. */
void json_print_pretty(const struct json *at, struct strbuf *out);

#endif
