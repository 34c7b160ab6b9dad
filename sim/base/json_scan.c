#include "sim/base/json_scan.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/json.h"
#include "sim/base/printable.h"

enum { NUMBER_CHARACTERS_MAX = 60 }; /* cJSON copies a number into 64 bytes */

/* A key seen: which object, where its text starts (after the quote), a hash of its unescaped bytes. object 0 is a
 * free slot. */
struct key {
    uint32_t object;
    uint32_t hash;
    size_t at;
};

struct scan {
    const char *text, *file;
    size_t length, at;
    size_t line, line_start;
    struct error *error;
    unsigned depth;
    uint32_t objects;                       /* numbered so far */
    uint32_t object_at[JSON_DEPTH_MAX + 1]; /* 0: the level is an array */
    struct {
        uint32_t *items;
        size_t count, capacity;
    } lines;
    struct key *keys; /* open addressing, power of two */
    size_t key_count, key_capacity;
};

__attribute__((format(printf, 4, 5))) static enum status fail_at(struct scan *s, size_t at, enum status status,
                                                                 const char *format, ...)
{
    /* Only errors need the column; a value never spans lines but strings cannot hold a newline, so `at` is on this
     * line. */
    char message[256], place[64];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    (void)snprintf(place, sizeof place, "line %zu column %zu", s->line, at - s->line_start + 1);
    return error_at(s->error, status, s->file, place, "%s", message);
}

static const char *found(const struct scan *s, size_t at, char buffer[32])
{
    if (at >= s->length) {
        return "the end of the text";
    }
    unsigned char c = (unsigned char)s->text[at];
    (void)snprintf(buffer, 32, c >= 0x20 && c < 0x7f ? "'%c'" : "byte 0x%02x", c);
    return buffer;
}

static enum status unexpected(struct scan *s, const char *wanted)
{
    char buffer[32];
    return fail_at(s, s->at, STATUS_BAD_INPUT, "expected %s, found %s", wanted, found(s, s->at, buffer));
}

static void skip_blank(struct scan *s)
{
    for (; s->at < s->length; s->at++) {
        char c = s->text[s->at];
        if (c == '\n') {
            s->line++;
            s->line_start = s->at + 1;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            break;
        }
    }
}

static bool is_digit(const struct scan *s, size_t at)
{
    return at < s->length && s->text[at] >= '0' && s->text[at] <= '9';
}

static enum status scan_number(struct scan *s)
{
    size_t from = s->at;
    if (s->text[s->at] == '-') {
        s->at++;
    }
    if (!is_digit(s, s->at)) {
        return unexpected(s, "a digit");
    }
    if (s->text[s->at] == '0' && is_digit(s, s->at + 1)) {
        return fail_at(s, from, STATUS_BAD_INPUT, "a number must not start with 0");
    }
    while (is_digit(s, s->at)) {
        s->at++;
    }
    if (s->at < s->length && s->text[s->at] == '.') {
        s->at++;
        if (!is_digit(s, s->at)) {
            return unexpected(s, "a digit after the decimal point");
        }
        while (is_digit(s, s->at)) {
            s->at++;
        }
    }
    bool has_exponent = s->at < s->length && (s->text[s->at] == 'e' || s->text[s->at] == 'E');
    if (has_exponent) {
        s->at++;
        if (s->at < s->length && (s->text[s->at] == '+' || s->text[s->at] == '-')) {
            s->at++;
        }
        if (!is_digit(s, s->at)) {
            return unexpected(s, "a digit of the exponent");
        }
        while (is_digit(s, s->at)) {
            s->at++;
        }
    }
    size_t characters = s->at - from;
    if (characters > NUMBER_CHARACTERS_MAX) {
        return fail_at(s, from, STATUS_BAD_INPUT, "the number has %zu characters, at most %d are allowed", characters,
                       NUMBER_CHARACTERS_MAX);
    }
    if (has_exponent) { /* 60 digits alone cannot overflow */
        char copy[NUMBER_CHARACTERS_MAX + 1];
        memcpy(copy, s->text + from, characters);
        copy[characters] = '\0';
        if (!isfinite(strtod(copy, NULL))) {
            return fail_at(s, from, STATUS_BAD_INPUT, "the number %s is too large for a double", copy);
        }
    }
    return STATUS_OK;
}

/* Four hex digits at `at`, or -1. */
static int hex4(const char *text, size_t length, size_t at)
{
    int value = 0;
    if (length - at < 4) {
        return -1;
    }
    for (unsigned i = 0; i < 4; i++) {
        char c = text[at + i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

/* After the backslash. */
static enum status scan_escape(struct scan *s)
{
    size_t from = s->at - 1;
    char c = s->at < s->length ? s->text[s->at] : '\0';
    if (c == 'b' || c == 'f') {
        return fail_at(s, from, STATUS_BAD_INPUT, "a string must not contain control characters (\\%c)", c);
    }
    if (c != '\0' && strchr("\"\\/nrt", c) != NULL) {
        s->at++;
        return STATUS_OK;
    }
    if (c != 'u') {
        return fail_at(s, from, STATUS_BAD_INPUT,
                       "unknown escape in a string; allowed are \\\" \\\\ \\/ \\n \\r \\t \\uXXXX");
    }
    int code = hex4(s->text, s->length, s->at + 1);
    if (code < 0) {
        return fail_at(s, from, STATUS_BAD_INPUT, "\\u needs four hex digits");
    }
    if (code == 0) {
        return fail_at(s, from, STATUS_BAD_INPUT, "a string must not contain NUL");
    }
    if (is_control_code((uint32_t)code)) {
        return fail_at(s, from, STATUS_BAD_INPUT, "a string must not contain control characters (\\u%04x)",
                       (unsigned)code);
    }
    s->at += 5;
    if (code >= 0xd800 && code <= 0xdfff) {
        int low = s->length - s->at >= 2 && s->text[s->at] == '\\' && s->text[s->at + 1] == 'u'
                      ? hex4(s->text, s->length, s->at + 2)
                      : -1;
        if (code >= 0xdc00 || low < 0xdc00 || low > 0xdfff) {
            return fail_at(s, from, STATUS_BAD_INPUT, "\\u%04x is half of a surrogate pair", (unsigned)code);
        }
        s->at += 6;
    }
    return STATUS_OK;
}

/* From the opening quote to behind the closing one. */
static enum status scan_string(struct scan *s)
{
    size_t from = s->at++;
    while (s->at < s->length) {
        unsigned char c = (unsigned char)s->text[s->at];
        if (c == '"') {
            s->at++;
            return STATUS_OK;
        }
        if (c == '\\') {
            s->at++;
            TRY(scan_escape(s));
        } else if (c < 0x20) {
            return c == '\n' ? fail_at(s, from, STATUS_BAD_INPUT, "the string does not end on its line")
                             : fail_at(s, s->at, STATUS_BAD_INPUT,
                                       "control character 0x%02x in a string; write \\t for a tab", c);
        } else if (c < 0x7f) {
            s->at++;
        } else {
            unsigned bytes = c == 0x7f ? 1 : utf8_bytes(s->text, s->length, s->at);
            if (bytes > 0 && is_control(s->text + s->at)) { /* delete, U+0080 to U+009F: a terminal obeys them */
                return fail_at(s, s->at, STATUS_BAD_INPUT, "a string must not contain control characters (byte 0x%02x)",
                               (unsigned char)s->text[s->at + bytes - 1]);
            }
            if (bytes == 0) {
                return fail_at(s, s->at, STATUS_BAD_INPUT, "the string is not valid UTF-8 (byte 0x%02x)", c);
            }
            s->at += bytes;
        }
    }
    return fail_at(s, from, STATUS_BAD_INPUT, "the string does not end");
}

/* The next unescaped character of a checked string as a number that is unique to it (UTF-8 bytes or a code of \u
 * below 0x80 as themselves, other codes spelled out as the UTF-8 bytes they stand for, one after the other through
 * `pending`), or -1 at its closing quote. */
struct unescape {
    const char *at;
    unsigned char pending[4];
    unsigned pending_count;
};

static int next_byte(struct unescape *u)
{
    if (u->pending_count != 0) {
        return u->pending[--u->pending_count];
    }
    unsigned char c = (unsigned char)*u->at++;
    if (c == '"') {
        return -1;
    }
    if (c != '\\') {
        return c;
    }
    c = (unsigned char)*u->at++;
    if (c != 'u') {
        static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
        const char *letter = strchr(letters, c);
        return letter == NULL ? c : meant[letter - letters];
    }
    uint32_t code = (uint32_t)hex4(u->at, 4, 0);
    u->at += 4;
    if (code >= 0xd800 && code <= 0xdbff) {
        code = 0x10000 + ((code - 0xd800) << 10) + ((uint32_t)hex4(u->at + 2, 4, 0) - 0xdc00);
        u->at += 6;
    }
    if (code < 0x80) {
        return (int)code;
    }
    /* Continuation bytes wait in reverse order. */
    unsigned more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = { 0, 0xc0, 0xe0, 0xf0 };
    for (unsigned i = 0; i < more; i++) {
        u->pending[i] = (unsigned char)(0x80 | (code >> (6 * i) & 0x3f));
    }
    u->pending_count = more;
    return (int)(lead[more] | code >> (6 * more));
}

static bool same_key(const char *a, const char *b)
{
    struct unescape left = { .at = a }, right = { .at = b };
    int x, y;
    do {
        x = next_byte(&left);
        y = next_byte(&right);
    } while (x == y && x >= 0);
    return x == y;
}

static struct key *key_slot(struct key *keys, size_t capacity, struct key key)
{
    uint64_t mixed = ((uint64_t)key.hash ^ (uint64_t)key.object * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    for (size_t i = (size_t)(mixed >> 20);; i++) {
        struct key *slot = &keys[i & (capacity - 1)];
        if (slot->object == 0 || (slot->object == key.object && slot->hash == key.hash)) {
            return slot;
        }
    }
}

static enum status grow_keys(struct scan *s)
{
    size_t capacity = s->key_capacity == 0 ? 64 : 2 * s->key_capacity;
    struct key *keys = calloc(capacity, sizeof *keys);
    if (keys == NULL) {
        return error_at(s->error, STATUS_NO_MEMORY, s->file, NULL, "out of memory reading JSON");
    }
    for (size_t i = 0; i < s->key_capacity; i++) {
        if (s->keys[i].object != 0) {
            *key_slot(keys, capacity, s->keys[i]) = s->keys[i];
        }
    }
    free(s->keys);
    s->keys = keys;
    s->key_capacity = capacity;
    return STATUS_OK;
}

/* Key, colon; refuses a key that its object has already. */
static enum status scan_key(struct scan *s)
{
    if (s->at >= s->length || s->text[s->at] != '"') {
        return unexpected(s, "a key in double quotes");
    }
    size_t from = s->at;
    TRY(scan_string(s));
    size_t behind = s->at;
    struct key key = { .object = s->object_at[s->depth], .hash = 2166136261u, .at = from + 1 };
    struct unescape u = { .at = s->text + key.at };
    for (int byte; (byte = next_byte(&u)) >= 0;) {
        key.hash = (key.hash ^ (uint32_t)byte) * 16777619u;
    }
    if (4 * (s->key_count + 1) > 3 * s->key_capacity) {
        TRY(grow_keys(s));
    }
    struct key *slot = key_slot(s->keys, s->key_capacity, key);
    if (slot->object != 0 && same_key(s->text + slot->at, s->text + key.at)) {
        int shown = behind - from < 80 ? (int)(behind - from) : 80;
        return fail_at(s, from, STATUS_BAD_INPUT, "the key %.*s appears twice in its object", shown, s->text + from);
    }
    if (slot->object != 0) { /* another key of equal hash: keep both */
        key.hash++;
        while ((slot = key_slot(s->keys, s->key_capacity, key))->object != 0) {
            if (same_key(s->text + slot->at, s->text + from + 1)) {
                return fail_at(s, from, STATUS_BAD_INPUT, "a key appears twice in its object");
            }
            key.hash++;
        }
    }
    *slot = key;
    s->key_count++;
    skip_blank(s);
    if (s->at >= s->length || s->text[s->at] != ':') {
        return unexpected(s, "':'");
    }
    s->at++;
    skip_blank(s);
    return STATUS_OK;
}

static enum status scan_word(struct scan *s, const char *word)
{
    size_t length = strlen(word);
    if (s->length - s->at < length || memcmp(s->text + s->at, word, length) != 0) {
        return unexpected(s, "a value (object, array, string, number, true, false, null)");
    }
    s->at += length;
    return STATUS_OK;
}

/* A value's start: a scalar is consumed whole (*opened false); of an object or array the bracket. */
static enum status scan_start(struct scan *s, bool *opened)
{
    *opened = false;
    if (s->lines.count >= JSON_VALUES_MAX) {
        return fail_at(s, s->at, STATUS_LIMIT, "more than %zu values", JSON_VALUES_MAX);
    }
    TRY(array_reserve(&s->lines, 1, s->error));
    s->lines.items[s->lines.count++] = (uint32_t)s->line;
    char c = s->at < s->length ? s->text[s->at] : '\0';
    switch (c) {
    case '{':
    case '[':
        if (s->depth == JSON_DEPTH_MAX) {
            return fail_at(s, s->at, STATUS_BAD_INPUT, "nested deeper than %d levels", JSON_DEPTH_MAX);
        }
        s->depth++;
        s->object_at[s->depth] = c == '{' ? ++s->objects : 0;
        s->at++;
        *opened = true;
        return STATUS_OK;
    case '"': return scan_string(s);
    case 't': return scan_word(s, "true");
    case 'f': return scan_word(s, "false");
    case 'n': return scan_word(s, "null");
    default:
        if (c == '-' || (c >= '0' && c <= '9')) {
            return scan_number(s);
        }
        return scan_word(s, "a value");
    }
}

/* One value after the other; after each, as many closing brackets as there are. */
static enum status scan_values(struct scan *s)
{
    for (;;) {
        bool opened;
        TRY(scan_start(s, &opened));
        skip_blank(s);
        bool first = opened;
        for (;;) {
            if (s->depth == 0) {
                return s->at == s->length ? STATUS_OK : unexpected(s, "nothing after the document");
            }
            bool object = s->object_at[s->depth] != 0;
            char c = s->at < s->length ? s->text[s->at] : '\0';
            if (c == (object ? '}' : ']')) {
                s->depth--;
                s->at++;
                skip_blank(s);
                first = false;
                continue;
            }
            if (!first) {
                if (c != ',') {
                    return unexpected(s, object ? "',' or '}'" : "',' or ']'");
                }
                s->at++;
                skip_blank(s);
            }
            if (object) {
                TRY(scan_key(s));
            }
            break;
        }
    }
}

enum status json_scan(const char *text, size_t length, const char *file, uint32_t **lines, size_t *count,
                      struct error *error)
{
    struct scan s = { .text = text, .file = file, .length = length, .line = 1, .error = error };
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        s.at = s.line_start = 3;
    }
    skip_blank(&s);
    enum status status = scan_values(&s);
    free(s.keys);
    if (status != STATUS_OK) {
        array_free(&s.lines);
        return status;
    }
    *lines = s.lines.items;
    *count = s.lines.count;
    return STATUS_OK;
}
