#include "validate/calibrate/import_text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/file.h"

static const size_t FILE_BYTES_MAX = 64u << 20;
enum { LINE_BYTES_MAX = 1 << 16, NOTES_MAX = 40, NUMBER_BYTES = 48, QUOTED_MAX = 48, MODEL_BYTES = 96 };

/* ---- errors and notes ---- */

enum status import_error(const struct import_source *source, uint32_t line, struct error *error, const char *format,
                         ...)
{
    char text[ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    enum status status = error_at(error, STATUS_BAD_INPUT, source->path, NULL, "%s", text);
    if (error != NULL) {
        error->line = line;
    }
    return status;
}

static void __attribute__((format(printf, 3, 0)))
add_note(struct import_source *source, uint32_t line, const char *format, va_list arguments)
{
    struct strbuf *notes = &source->result->notes;
    source->notes++;
    if (source->notes > NOTES_MAX) {
        if (source->notes == NOTES_MAX + 1) {
            strbuf_append(notes, "further notes left out\n");
        }
        return;
    }
    if (line > 0) {
        strbuf_printf(notes, "line %u: ", line);
    }
    strbuf_vprintf(notes, format, arguments);
    strbuf_char(notes, '\n');
}

void import_note(struct import_source *source, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_note(source, 0, format, arguments);
    va_end(arguments);
}

void import_skip(struct import_source *source, uint32_t line, uint32_t rows, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_note(source, line, format, arguments);
    va_end(arguments);
    source->result->skipped += rows;
}

/* ---- words and numbers ---- */

uint32_t import_words(const char *line, struct import_word *words, uint32_t max)
{
    uint32_t count = 0;
    while (count < max) {
        while (isspace((unsigned char)*line)) {
            line++;
        }
        if (*line == '\0') {
            break;
        }
        const char *start = line;
        while (*line != '\0' && !isspace((unsigned char)*line)) {
            line++;
        }
        words[count++] = (struct import_word){ start, (size_t)(line - start) };
    }
    return count;
}

/* One quoted field, its doubled quotes made single in place. Returns what follows it, or NULL. */
static char *quoted_field(char *at, char **field)
{
    char *out = ++at;
    *field = out;
    for (;; at++) {
        if (*at == '\0') {
            return NULL;
        }
        if (*at == '"' && *++at != '"') {
            break;
        }
        *out++ = *at;
    }
    char *end = at;
    while (*end == ' ') {
        end++;
    }
    if (*end != ',' && *end != '\0') {
        return NULL;
    }
    bool last = *end == '\0';
    *out = '\0';
    return last ? end : end + 1;
}

uint32_t import_fields(char *line, char **fields, uint32_t max)
{
    uint32_t count = 0;
    for (char *at = line;;) {
        if (count == max) {
            return UINT32_MAX;
        }
        if (*at == '"') {
            const char *end_of_line = at + strlen(at);
            at = quoted_field(at, &fields[count++]);
            if (at == NULL) {
                return UINT32_MAX;
            }
            if (at == end_of_line) {
                return count;
            }
            continue;
        }
        fields[count++] = at;
        at += strcspn(at, ",");
        if (*at == '\0') {
            return count;
        }
        *at++ = '\0';
    }
}

bool import_is(struct import_word word, const char *text)
{
    return strlen(text) == word.length && memcmp(word.at, text, word.length) == 0;
}

bool import_number(struct import_word word, double *value)
{
    char copy[NUMBER_BYTES], *end;
    if (word.length == 0 || word.length >= sizeof copy) {
        return false;
    }
    memcpy(copy, word.at, word.length);
    copy[word.length] = '\0';
    if (strspn(copy, "0123456789+-.eE") != word.length) {
        return false;
    }
    *value = strtod(copy, &end);
    return *end == '\0' && isfinite(*value);
}

bool import_number_text(const char *text, double *value)
{
    return import_number((struct import_word){ text, strlen(text) }, value);
}

bool import_whole(struct import_word word, uint64_t *value)
{
    *value = 0;
    if (word.length == 0 || word.length > 15) {
        return false;
    }
    for (size_t i = 0; i < word.length; i++) {
        if (word.at[i] < '0' || word.at[i] > '9') {
            return false;
        }
        *value = *value * 10 + (uint64_t)(word.at[i] - '0');
    }
    return true;
}

bool import_blank(const char *line)
{
    while (isspace((unsigned char)*line)) {
        line++;
    }
    return *line == '\0';
}

const char *import_quote(const char *text, size_t length, char *buffer)
{
    size_t shown = length < QUOTED_MAX ? length : QUOTED_MAX;
    for (size_t i = 0; i < shown; i++) {
        buffer[i] = isprint((unsigned char)text[i]) ? text[i] : '?';
    }
    memcpy(buffer + shown, length > shown ? "..." : "", length > shown ? 4 : 1);
    return buffer;
}

void import_squeeze(const char *text, size_t length, char *out, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < length && used + 1 < size; i++) {
        if (isalnum((unsigned char)text[i])) {
            out[used++] = (char)tolower((unsigned char)text[i]);
        }
    }
    out[used] = '\0';
}

/* ---- the file ---- */

/* Terminal escapes are ESC [ parameters letter; a single letter after ESC otherwise. */
static void strip_escapes(char *line)
{
    char *out = line;
    for (const char *in = line; *in != '\0';) {
        if (*in != '\x1b') {
            *out++ = *in++;
            continue;
        }
        in++;
        if (*in == '[') {
            in++;
            while (*in != '\0' && (unsigned char)*in >= 0x20 && (unsigned char)*in < 0x40) {
                in++;
            }
        }
        in += *in != '\0';
    }
    *out = '\0';
}

/* mpirun --tag-output: "[1,0]<stdout>:" (others put their own before it); srun --label: "0: ". */
static char *strip_launcher(char *line)
{
    enum { TAG_WITHIN = 128, LABEL_DIGITS = 6 };
    char *tag = strstr(line, "]<std");
    if (tag != NULL && tag - line < TAG_WITHIN) {
        if (strncmp(tag, "]<stderr>:", 10) == 0) {
            return tag + strlen(tag);
        }
        if (strncmp(tag, "]<stdout>:", 10) == 0) {
            return tag + 10;
        }
    }
    char *at = line;
    while (*at == ' ') {
        at++;
    }
    size_t digits = strspn(at, "0123456789");
    if (digits > 0 && digits <= LABEL_DIGITS && at[digits] == ':' &&
        (at[digits + 1] == ' ' || at[digits + 1] == '\0')) {
        return at + digits + 1;
    }
    return line;
}

static char *clean_line(char *line, size_t length)
{
    while (length > 0 && (line[length - 1] == '\r' || line[length - 1] == '\n')) {
        line[--length] = '\0';
    }
    strip_escapes(line);
    return strip_launcher(line);
}

static enum status split_lines(struct import_source *source, char *at, size_t length, struct error *error)
{
    size_t count = 1;
    for (size_t i = 0; i < length; i++) {
        count += at[i] == '\n';
    }
    source->lines = malloc(count * sizeof *source->lines);
    if (source->lines == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: %zu lines of %s", count, source->path);
    }
    for (const char *end = at + length; at < end;) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((stop != NULL ? stop : end) - at);
        if (size > LINE_BYTES_MAX) {
            return import_error(source, source->count + 1, error, "a line of %zu bytes; at most %d are read", size,
                                LINE_BYTES_MAX);
        }
        if (memchr(at, '\0', size) != NULL) {
            return import_error(source, source->count + 1, error, "a NUL byte: this is not a text file");
        }
        at[size] = '\0';
        source->lines[source->count++] = clean_line(at, size);
        at += size + (stop != NULL ? 1 : 0);
        source->open_end = stop == NULL;
    }
    return STATUS_OK;
}

static void name_source(struct import_source *source, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    (void)snprintf(source->name, sizeof source->name, "%s", name);
    for (char *c = source->name; *c != '\0'; c++) {
        *c = (char)(isprint((unsigned char)*c) ? *c : '?');
    }
}

enum status import_open(struct import_source *source, const char *path, struct error *error)
{
    static const char BOM[] = "\xef\xbb\xbf";
    size_t length;
    source->path = path;
    name_source(source, path);
    TRY(file_read(path, FILE_BYTES_MAX, &source->text, &length, error));
    if (length >= 2 && (memcmp(source->text, "\xff\xfe", 2) == 0 || memcmp(source->text, "\xfe\xff", 2) == 0)) {
        return import_error(source, 1, error, "UTF-16 text; save it as UTF-8");
    }
    size_t start = length >= 3 && memcmp(source->text, BOM, 3) == 0 ? 3 : 0;
    return split_lines(source, source->text + start, length - start, error);
}

void import_close(struct import_source *source)
{
    free(source->lines);
    free(source->text);
    source->lines = NULL;
    source->text = NULL;
}

/* ---- results ---- */

enum status import_add(struct import_source *source, uint32_t line, const struct point *point, struct error *error)
{
    struct point copy = *point;
    struct error inner = { 0 };
    (void)snprintf(copy.source, sizeof copy.source, "%s", source->label);
    enum status status = points_add(source->points, &copy, &inner);
    if (status == STATUS_BAD_INPUT) {
        return import_error(source, line, error, "%s", inner.message);
    }
    if (status != STATUS_OK) {
        if (error != NULL) {
            *error = inner;
        }
        return status;
    }
    source->result->points++;
    return STATUS_OK;
}

double import_bus_factor(enum collective_kind kind, uint32_t ranks)
{
    double n = ranks;
    switch (kind) {
    case COLLECTIVE_ALL_REDUCE: return 2 * (n - 1) / n;
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALL_TO_ALL: return (n - 1) / n;
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_SEND_RECV: return 1;
    case COLLECTIVE_KIND_COUNT: break;
    }
    check_failed("a collective's kind", __FILE__, __LINE__);
}

void import_gpu_name(struct import_source *source, const char *name, size_t length)
{
    char model[MODEL_BYTES];
    while (length > 0 && isspace((unsigned char)name[length - 1])) {
        length--;
    }
    if (source->draft == NULL || length == 0 || length >= sizeof model || draft_has(source->draft, "gpu.model")) {
        return;
    }
    for (size_t i = 0; i < length; i++) {
        model[i] = isprint((unsigned char)name[i]) ? name[i] : '?';
    }
    model[length] = '\0';
    draft_text(source->draft, "gpu.model", model, source->name);
    import_note(source, "the GPU is called \"%s\"", model);
}
