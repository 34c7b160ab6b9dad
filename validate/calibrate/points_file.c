/* Files of points: JSON lines, one strict object a line. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/file.h"
#include "sim/base/json.h"
#include "sim/base/json_write.h"
#include "validate/calibrate/points.h"

static const char SCHEMA[] = "memwall.points/1";
enum { WORD_BYTES = 64 };

static const char *const KIND_WORDS[] = {
#define X(name, word, help) word,
    POINT_TABLE(X)
#undef X
};
static const char *const CLASS_WORDS[] = {
#define X(name, word, help) word,
    KERNEL_CLASS_TABLE(X)
#undef X
};
static const char *const DTYPE_WORDS[] = {
#define X(name, word, bytes) word,
    DTYPE_TABLE(X)
#undef X
};
static const char *const WAY_WORDS[] = {
#define X(name, word) word,
    COPY_WAY_TABLE(X)
#undef X
};
static const char *const ISSUE_WORDS[] = {
#define X(name, word) word,
    ISSUE_TABLE(X)
#undef X
};
static const char *const COLLECTIVE_WORDS[] = {
#define X(name, word) word,
    COLLECTIVE_TABLE(X)
#undef X
};
static const char *const LAYOUT_WORDS[] = { "nn", "tn", "nt" }; /* as in schedules */

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- writing ---- */

static void write_kernel(struct json_writer *w, const struct kernel *k)
{
    jw_string(w, "class", CLASS_WORDS[k->kernel_class]);
    jw_string(w, "dtype", DTYPE_WORDS[k->dtype]);
    if (k->kernel_class == KERNEL_GEMM) {
        jw_string(w, "layout", LAYOUT_WORDS[k->layout]);
    }
    jw_uint(w, "launches", k->launches);
    jw_uint(w, "batch", k->batch);
    jw_uint(w, "m", k->m);
    jw_uint(w, "n", k->n);
    jw_uint(w, "k", k->k);
    jw_real(w, "flops", k->flops);
    jw_real(w, "bytes_read", k->bytes_read);
    jw_real(w, "bytes_written", k->bytes_written);
    if (k->flags & KERNEL_FLAG_CAUSAL) {
        jw_bool(w, "causal", true);
    }
    if (k->flags & KERNEL_FLAG_ACCUMULATE) {
        jw_bool(w, "accumulate", true);
    }
}

static void write_load(struct json_writer *w, const struct point *p)
{
    if (p->load_to_s > 0) {
        jw_real(w, "load_from_s", p->load_from_s);
        jw_real(w, "load_to_s", p->load_to_s);
    }
}

static void write_kind(struct json_writer *w, const struct point *p)
{
    switch (p->kind) {
    case POINT_KERNEL:
        write_kernel(w, &p->kernel);
        write_load(w, p);
        break;
    case POINT_COPY:
        jw_string(w, "way", WAY_WORDS[p->way]);
        if (p->pageable) {
            jw_bool(w, "pageable", true);
        }
        if (p->way == COPY_PEER) {
            jw_uint(w, "from", p->from);
        }
        jw_uint(w, "to", p->to);
        jw_real(w, "bytes", p->bytes);
        break;
    case POINT_COLLECTIVE:
        jw_string(w, "collective", COLLECTIVE_WORDS[p->collective]);
        jw_uint(w, "ranks", p->ranks);
        jw_uint(w, "nodes", p->nodes);
        jw_real(w, "bytes", p->bytes);
        break;
    case POINT_HOST_OPTIMIZER: jw_real(w, "parameters", p->parameters); break;
    case POINT_STORAGE:
        jw_string(w, "way", WAY_WORDS[p->way]);
        jw_real(w, "bytes", p->bytes);
        break;
    case POINT_ISSUE: jw_string(w, "issue", ISSUE_WORDS[p->issue]); break;
    case POINT_ALLOCATION: jw_real(w, "bytes", p->bytes); break;
    case POINT_KIND_COUNT: break;
    }
}

static bool has_at_once(enum point_kind kind)
{
    return kind == POINT_KERNEL || kind == POINT_COPY || kind == POINT_HOST_OPTIMIZER;
}

/* One write and a flush: a reader sees whole lines, but for the last of a killed run. */
static enum status put_line(FILE *file, struct strbuf *line, struct error *error)
{
    strbuf_char(line, '\n');
    enum status status = STATUS_OK;
    errno = 0;
    if (line->failed) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory: a line of the points file");
    } else if (fwrite(line->text, 1, line->length, file) != line->length || fflush(file) != 0) {
        status = error_set(error, STATUS_IO, "the points file cannot be written: %s",
                           errno != 0 ? strerror(errno) : "short write");
    }
    strbuf_free(line);
    return status;
}

enum status points_begin(FILE *file, const char *machine, const char *executor, struct error *error)
{
    struct strbuf line = { 0 };
    struct json_writer w = { .out = &line, .compact = true };
    jw_object(&w, NULL);
    jw_string(&w, "schema", SCHEMA);
    jw_string(&w, "machine", machine);
    jw_string(&w, "executor", executor);
    jw_end(&w);
    return put_line(file, &line, error);
}

enum status points_write(FILE *file, const struct point *p, struct error *error)
{
    struct strbuf line = { 0 };
    struct json_writer w = { .out = &line, .compact = true };
    jw_object(&w, NULL);
    jw_string(&w, "kind", KIND_WORDS[p->kind]);
    write_kind(&w, p);
    if (has_at_once(p->kind)) {
        jw_uint(&w, "at_once", p->at_once);
    }
    jw_real(&w, "seconds", p->seconds);
    jw_real(&w, "spread_s", p->spread_s);
    jw_uint(&w, "repeats", p->repeats);
    if (p->in_doubt) {
        jw_bool(&w, "in_doubt", true);
    }
    jw_string(&w, "source", p->source);
    jw_end(&w);
    return put_line(file, &line, error);
}

/* ---- reading ---- */

static const double BYTES_MAX = 9007199254740991.0, FLOPS_MAX = 1e24, SECONDS_MAX = 1e6;

static enum status read_u32(const struct json *at, const char *key, int64_t least, int64_t most, uint32_t *value,
                            struct error *error)
{
    int64_t number = 0;
    TRY(json_int(at, key, least, most, &number, error));
    *value = (uint32_t)number;
    return STATUS_OK;
}

static enum status read_size(const struct json *at, const char *key, uint64_t *value, struct error *error)
{
    int64_t number = 0;
    TRY(json_int(at, key, 1, INT64_C(9007199254740991), &number, error));
    *value = (uint64_t)number;
    return STATUS_OK;
}

static enum status read_kernel(const struct json *at, struct point *p, struct error *error)
{
    struct kernel *k = &p->kernel;
    size_t kernel_class = 0, dtype = 0, layout = 0;
    bool causal = false, accumulate = false;
    TRY(json_word(at, "class", CLASS_WORDS, COUNT(CLASS_WORDS), &kernel_class, error));
    TRY(json_word(at, "dtype", DTYPE_WORDS, COUNT(DTYPE_WORDS), &dtype, error));
    if (kernel_class == KERNEL_GEMM) {
        TRY(json_word(at, "layout", LAYOUT_WORDS, COUNT(LAYOUT_WORDS), &layout, error));
    } else if (json_has(at, "layout")) {
        return json_error(at, error, "only gemm kernels have a layout");
    }
    TRY(read_u32(at, "launches", 1, UINT32_MAX, &k->launches, error));
    TRY(read_size(at, "batch", &k->batch, error));
    TRY(read_size(at, "m", &k->m, error));
    TRY(read_size(at, "n", &k->n, error));
    TRY(read_size(at, "k", &k->k, error));
    TRY(json_real(at, "flops", 0, FLOPS_MAX, &k->flops, error));
    TRY(json_real(at, "bytes_read", 0, BYTES_MAX, &k->bytes_read, error));
    TRY(json_real(at, "bytes_written", 0, BYTES_MAX, &k->bytes_written, error));
    TRY(json_bool_or(at, "causal", false, &causal, error));
    TRY(json_bool_or(at, "accumulate", false, &accumulate, error));
    TRY(json_real_or(at, "load_from_s", 0, SECONDS_MAX, 0, &p->load_from_s, error));
    TRY(json_real_or(at, "load_to_s", 0, SECONDS_MAX, 0, &p->load_to_s, error));
    k->kernel_class = (uint8_t)kernel_class;
    k->dtype = (uint8_t)dtype;
    k->layout = (uint8_t)layout;
    k->flags = (uint8_t)((causal ? KERNEL_FLAG_CAUSAL : 0) | (accumulate ? KERNEL_FLAG_ACCUMULATE : 0));
    return STATUS_OK;
}

static enum status read_way(const struct json *at, struct point *p, struct error *error)
{
    size_t way = 0;
    TRY(json_word(at, "way", WAY_WORDS, COUNT(WAY_WORDS), &way, error));
    p->way = (enum copy_way)way;
    return json_real(at, "bytes", 1, BYTES_MAX, &p->bytes, error);
}

static enum status read_copy(const struct json *at, struct point *p, struct error *error)
{
    TRY(read_way(at, p, error));
    TRY(json_bool_or(at, "pageable", false, &p->pageable, error));
    if (p->way == COPY_PEER) {
        TRY(read_u32(at, "from", 0, UINT32_MAX, &p->from, error));
    } else if (json_has(at, "from")) {
        return json_error(at, error, "only peer copies have a \"from\"");
    }
    return read_u32(at, "to", 0, UINT32_MAX, &p->to, error);
}

static enum status read_collective(const struct json *at, struct point *p, struct error *error)
{
    size_t kind = 0;
    TRY(json_word(at, "collective", COLLECTIVE_WORDS, COUNT(COLLECTIVE_WORDS), &kind, error));
    p->collective = (enum collective_kind)kind;
    TRY(read_u32(at, "ranks", 2, UINT32_MAX, &p->ranks, error));
    TRY(read_u32(at, "nodes", 1, p->ranks, &p->nodes, error));
    return json_real(at, "bytes", 1, BYTES_MAX, &p->bytes, error);
}

static enum status read_issue(const struct json *at, struct point *p, struct error *error)
{
    size_t issue = 0;
    TRY(json_word(at, "issue", ISSUE_WORDS, COUNT(ISSUE_WORDS), &issue, error));
    p->issue = (enum issue_what)issue;
    return STATUS_OK;
}

#define COMMON_KEYS "kind", "seconds", "spread_s", "repeats", "in_doubt", "source"

/* What only this kind says. */
static enum status read_kind(const struct json *at, struct point *p, struct error *error)
{
    static const char *const KERNEL[] = {
        COMMON_KEYS, "at_once", "class",      "dtype",         "layout", "launches",   "batch",       "m",        "n",
        "k",         "flops",   "bytes_read", "bytes_written", "causal", "accumulate", "load_from_s", "load_to_s"
    };
    static const char *const COPY[] = { COMMON_KEYS, "at_once", "way", "pageable", "from", "to", "bytes" };
    static const char *const COLLECTIVE[] = { COMMON_KEYS, "collective", "ranks", "nodes", "bytes" };
    static const char *const OPTIMIZER[] = { COMMON_KEYS, "at_once", "parameters" };
    static const char *const STORAGE[] = { COMMON_KEYS, "way", "bytes" };
    static const char *const ISSUE[] = { COMMON_KEYS, "issue" };
    static const char *const ALLOCATION[] = { COMMON_KEYS, "bytes" };
    switch (p->kind) {
    case POINT_KERNEL: TRY(json_known_keys(at, KERNEL, COUNT(KERNEL), error)); return read_kernel(at, p, error);
    case POINT_COPY: TRY(json_known_keys(at, COPY, COUNT(COPY), error)); return read_copy(at, p, error);
    case POINT_COLLECTIVE:
        TRY(json_known_keys(at, COLLECTIVE, COUNT(COLLECTIVE), error));
        return read_collective(at, p, error);
    case POINT_HOST_OPTIMIZER:
        TRY(json_known_keys(at, OPTIMIZER, COUNT(OPTIMIZER), error));
        return json_real(at, "parameters", 1, BYTES_MAX, &p->parameters, error);
    case POINT_STORAGE: TRY(json_known_keys(at, STORAGE, COUNT(STORAGE), error)); return read_way(at, p, error);
    case POINT_ISSUE: TRY(json_known_keys(at, ISSUE, COUNT(ISSUE), error)); return read_issue(at, p, error);
    case POINT_ALLOCATION:
        TRY(json_known_keys(at, ALLOCATION, COUNT(ALLOCATION), error));
        return json_real(at, "bytes", 1, BYTES_MAX, &p->bytes, error);
    case POINT_KIND_COUNT: break;
    }
    check_failed("a point's kind", __FILE__, __LINE__);
}

static enum status read_point(const struct json *at, struct points *points, struct error *error)
{
    struct point p = { 0 };
    size_t kind = 0;
    const char *source;
    if (json_type(at) != JSON_OBJECT) {
        return json_error(at, error, "each line is an object, found %s", json_type_word(json_type(at)));
    }
    TRY(json_word(at, "kind", KIND_WORDS, COUNT(KIND_WORDS), &kind, error));
    p.kind = (enum point_kind)kind;
    TRY(read_kind(at, &p, error));
    if (has_at_once(p.kind)) {
        TRY(read_u32(at, "at_once", 1, UINT32_MAX, &p.at_once, error));
    }
    int64_t repeats = 0;
    TRY(json_real(at, "seconds", 0, SECONDS_MAX, &p.seconds, error));
    TRY(json_real_or(at, "spread_s", 0, SECONDS_MAX, 0, &p.spread_s, error));
    TRY(json_int_or(at, "repeats", 0, UINT32_MAX, 0, &repeats, error));
    p.repeats = (uint32_t)repeats;
    TRY(json_bool_or(at, "in_doubt", false, &p.in_doubt, error));
    TRY(json_string(at, "source", &source, error));
    if (strlen(source) >= sizeof p.source) {
        return json_error(at, error, "\"source\" has %zu bytes; at most %zu", strlen(source), sizeof p.source - 1);
    }
    memcpy(p.source, source, strlen(source) + 1);
    struct error inner = { 0 };
    enum status status = points_add(points, &p, &inner);
    return status == STATUS_BAD_INPUT ? json_error(at, error, "%s", inner.message)
           : status == STATUS_OK      ? STATUS_OK
                                      : error_set(error, status, "%s", inner.message);
}

static enum status read_name(const struct json *at, const char *key, char name[WORD_BYTES], struct error *error)
{
    const char *value;
    TRY(json_string(at, key, &value, error));
    if (strlen(value) >= WORD_BYTES) {
        return json_error(at, error, "\"%s\" has %zu bytes; at most %d", key, strlen(value), WORD_BYTES - 1);
    }
    if (name != NULL) {
        memcpy(name, value, strlen(value) + 1);
    }
    return STATUS_OK;
}

static enum status read_header(const struct json *at, char *machine, char *executor, struct error *error)
{
    static const char *const KEYS[] = { "schema", "machine", "executor" };
    const char *schema;
    if (json_type(at) != JSON_OBJECT) {
        return json_error(at, error, "the first line is an object, found %s", json_type_word(json_type(at)));
    }
    TRY(json_string(at, "schema", &schema, error));
    if (strcmp(schema, SCHEMA) != 0) {
        return json_error(at, error, "schema \"%.64s\", expected \"%s\"", schema, SCHEMA);
    }
    TRY(json_known_keys(at, KEYS, COUNT(KEYS), error));
    TRY(read_name(at, "machine", machine, error));
    return read_name(at, "executor", executor, error);
}

/* Messages speak of the line in the file, not in its one-line document. */
static void place(struct error *error, unsigned line)
{
    if (error == NULL) {
        return;
    }
    unsigned inner = 0, column = 0;
    if (sscanf(error->path, "line %u column %u", &inner, &column) == 2) {
        (void)snprintf(error->path, sizeof error->path, "column %u", column);
    }
    error->line = line;
}

struct reading {
    const char *path;
    struct points *points;
    char *machine, *executor;
};

static enum status read_line(const struct reading *r, const char *text, size_t length, unsigned line,
                             struct error *error)
{
    struct json_document *document = NULL;
    struct json root;
    enum status status = json_parse(&document, text, length, r->path, error);
    if (status == STATUS_OK) {
        json_root(document, &root);
        status = line == 1 ? read_header(&root, r->machine, r->executor, error) : read_point(&root, r->points, error);
    }
    json_free(document);
    if (status != STATUS_OK) {
        place(error, line);
    }
    return status;
}

enum status points_load(struct points *points, const char *path, char *machine, char *executor, bool *was_cut,
                        struct error *error)
{
    char *text = NULL;
    size_t length = 0;
    const struct reading reading = { path, points, machine, executor };
    uint32_t before = points->count;
    TRY(file_read(path, JSON_BYTES_MAX, &text, &length, error));
    if (was_cut != NULL) {
        *was_cut = false;
    }
    enum status status = STATUS_OK;
    unsigned line = 0;
    for (size_t at = 0; at < length && status == STATUS_OK;) {
        const char *end = memchr(text + at, '\n', length - at);
        if (end == NULL) {
            if (was_cut != NULL) {
                *was_cut = true;
            }
            break;
        }
        line++;
        status = read_line(&reading, text + at, (size_t)(end - (text + at)), line, error);
        at = (size_t)(end - text) + 1;
    }
    if (status == STATUS_OK && line == 0) {
        status = error_at(error, STATUS_BAD_INPUT, path, NULL, "not a file of points: its first line is missing");
    }
    if (status != STATUS_OK) {
        points->count = before; /* all or nothing */
    }
    free(text);
    return status;
}
