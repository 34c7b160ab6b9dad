/* The parts of json.h that know lists of words: known keys, word values, the nearest word. */
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json.h"

enum { WORD_BYTES_MAX = 64 };

static char folded(char c)
{
    return c == '-' ? '_' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static unsigned smaller(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Damerau-Levenshtein distance (neighbours may swap once), ignoring case and '-' against '_'. Both shorter than
 * WORD_BYTES_MAX. */
static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    unsigned rows[3][WORD_BYTES_MAX + 1]; /* before last, last, this */
    unsigned *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++) {
        last[j] = (unsigned)j;
        before[j] = 0;
    }
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_length; j++) {
            char x = folded(a[i - 1]), y = folded(b[j - 1]);
            row[j] = smaller(smaller(last[j] + 1, row[j - 1] + 1), last[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == folded(b[j - 2]) && folded(a[i - 2]) == y) {
                row[j] = smaller(row[j], before[j - 2] + 1);
            }
        }
        unsigned *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[b_length];
}

const char *nearest_word(const char *word, const char *const *known, size_t known_count)
{
    size_t length = strlen(word);
    const char *nearest = NULL;
    if (length == 0 || length >= WORD_BYTES_MAX) {
        return NULL;
    }
    /* A short word must keep at least one letter: "tp" is not near to "dp" and "x". */
    unsigned best = (unsigned)(length / 3 > 2 ? length / 3 : 2) + 1;
    best = smaller(best, (unsigned)length);
    for (size_t i = 0; i < known_count; i++) {
        size_t known_length = strlen(known[i]);
        if (known_length < WORD_BYTES_MAX) {
            unsigned edits = distance(word, length, known[i], known_length);
            if (edits < best) {
                best = edits;
                nearest = known[i];
            }
        }
    }
    return nearest;
}

/* "a, b, c", cut with "..." when it does not fit. */
static void list_words(char *buffer, size_t size, const char *const *words, size_t count)
{
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(words[i]);
        if (used + length + 8 > size) {
            (void)snprintf(buffer + used, size - used, ", ...");
            return;
        }
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", i == 0 ? "" : ", ", words[i]);
    }
}

enum status json_known_keys(const struct json *at, const char *const *known, size_t known_count, struct error *error)
{
    char list[ERROR_MESSAGE_BYTES - 160];
    if (at->node == NULL) {
        return STATUS_OK;
    }
    if (json_type(at) != JSON_OBJECT) {
        return json_error(at, error, "expected an object, found %s", json_type_word(json_type(at)));
    }
    size_t count = json_count(at);
    for (size_t i = 0; i < count; i++) {
        struct json child;
        const char *key;
        json_member(at, i, &key, &child);
        bool is_known = strncmp(key, "_comment", strlen("_comment")) == 0;
        for (size_t k = 0; k < known_count && !is_known; k++) {
            is_known = strcmp(key, known[k]) == 0;
        }
        if (is_known) {
            continue;
        }
        const char *nearest = nearest_word(key, known, known_count);
        if (nearest != NULL) {
            return json_error(&child, error, "unknown key \"%.80s\"; did you mean \"%s\"?", key, nearest);
        }
        if (known_count == 0) {
            return json_error(&child, error, "unknown key \"%.80s\"; no keys are known here", key);
        }
        list_words(list, sizeof list, known, known_count);
        return json_error(&child, error, "unknown key \"%.80s\"; known keys: %s", key, list);
    }
    return STATUS_OK;
}

static enum status word_index(const struct json *at, const char *const *words, size_t word_count, size_t *index,
                              struct error *error)
{
    char list[ERROR_MESSAGE_BYTES - 200];
    const char *word;
    list_words(list, sizeof list, words, word_count);
    if (json_type(at) != JSON_STRING) {
        return json_error(at, error, "expected one of the words %s, found %s", list, json_type_word(json_type(at)));
    }
    TRY(json_as_string(at, &word, error));
    for (size_t i = 0; i < word_count; i++) {
        if (strcmp(word, words[i]) == 0) {
            *index = i;
            return STATUS_OK;
        }
    }
    const char *nearest = nearest_word(word, words, word_count);
    if (nearest != NULL) {
        return json_error(at, error, "unknown word \"%.80s\"; did you mean \"%s\"? Allowed: %s", word, nearest, list);
    }
    return json_error(at, error, "unknown word \"%.80s\"; allowed: %s", word, list);
}

enum status json_word(const struct json *object, const char *key, const char *const *words, size_t word_count,
                      size_t *index, struct error *error)
{
    struct json child;
    TRY(json_any(object, key, &child, error));
    return word_index(&child, words, word_count, index, error);
}

enum status json_word_or(const struct json *object, const char *key, const char *const *words, size_t word_count,
                         size_t fallback, size_t *index, struct error *error)
{
    struct json child;
    TRY(json_any_optional(object, key, &child, error));
    *index = fallback;
    return child.node == NULL ? STATUS_OK : word_index(&child, words, word_count, index, error);
}
