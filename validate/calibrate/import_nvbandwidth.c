/* nvbandwidth's text: "Running TEST.", a line that says what a matrix holds, its columns, its rows, and since 0.3 "SUM TEST value". 1 GB is 1e9 bytes.
 *
 * What the tests run, from the tool's source and README:
 *   host_to_device, device_to_host                  one GPU at a time, one direction
 *   ..._bidirectional                               the named direction, measured while a longer copy runs the other way: the sum of the two tests is what the
 *                                                   link carries both ways, so a `both` point has seconds = 2 bytes / (h2d + d2h)
 *   host_to_all, all_to_host (and bidirectional)    one GPU, measured while every other GPU copies the same way: at_once is the number of GPUs, the slowest counts
 *   device_to_device_..._write, _read               one pair at a time. Writes go from the row's GPU to the column's, reads the other way (whatever the arrow in
 *                                                   the heading says)
 * Copy-engine tests (_ce) are taken; kernel copies (_sm) only where the engine's are missing, and in doubt. Everything else is passed over.
 * Buffer: 64 MiB before 0.7, 512 MiB since, or --bufferSize (bytes in the oldest, MiB later). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "validate/calibrate/import_text.h"

#define ROLE_TABLE(X)                                                                                                  \
    X(ROLE_H2D, "host_to_device_memcpy")                                                                               \
    X(ROLE_D2H, "device_to_host_memcpy")                                                                               \
    X(ROLE_H2D_BOTH, "host_to_device_bidirectional_memcpy")                                                            \
    X(ROLE_D2H_BOTH, "device_to_host_bidirectional_memcpy")                                                            \
    X(ROLE_ALL_H2D, "host_to_all_memcpy")                                                                              \
    X(ROLE_ALL_D2H, "all_to_host_memcpy")                                                                              \
    X(ROLE_ALL_H2D_BOTH, "host_to_all_bidirectional_memcpy")                                                           \
    X(ROLE_ALL_D2H_BOTH, "all_to_host_bidirectional_memcpy")                                                           \
    X(ROLE_PEER_READ, "device_to_device_memcpy_read")                                                                  \
    X(ROLE_PEER_WRITE, "device_to_device_memcpy_write")

enum role {
#define X(name, word) name,
    ROLE_TABLE(X)
#undef X
        ROLE_COUNT
};
static const char *const ROLE_WORDS[] = {
#define X(name, word) word,
    ROLE_TABLE(X)
#undef X
};

enum { ENGINE_CE, ENGINE_SM, ENGINE_COUNT, TEST_BYTES = 96, GPUS_MAX = 512, UNUSED_BYTES = 512, VERSION_BYTES = 16 };

struct matrix {
    uint32_t rows, columns, line;
    double *values; /* GB/s; NAN: not measured */
};

struct parser {
    struct import_source *source;
    double bytes;
    bool said; /* the bytes, by version or command line */
    char version[VERSION_BYTES];
    char test[TEST_BYTES]; /* "": not said yet */
    uint32_t test_line;
    bool test_done;
    struct matrix slots[ROLE_COUNT][ENGINE_COUNT];
    struct matrix loose; /* read before its test was named: the SUM line names it */
    double loose_sum;    /* of the last matrix; NAN: none since the test began */
    char unused[UNUSED_BYTES];
    uint32_t taken;
};

static void matrix_free(struct matrix *matrix)
{
    free(matrix->values);
    *matrix = (struct matrix){ 0 };
}

static void parser_free(struct parser *parser)
{
    for (int r = 0; r < ROLE_COUNT; r++) {
        for (int e = 0; e < ENGINE_COUNT; e++) {
            matrix_free(&parser->slots[r][e]);
        }
    }
    matrix_free(&parser->loose);
}

static bool test_role(const char *test, enum role *role, int *engine)
{
    for (int r = 0; r < ROLE_COUNT; r++) {
        size_t length = strlen(ROLE_WORDS[r]);
        if (strncmp(test, ROLE_WORDS[r], length) == 0 &&
            (strcmp(test + length, "_ce") == 0 || strcmp(test + length, "_sm") == 0)) {
            *role = (enum role)r;
            *engine = test[length + 1] == 'c' ? ENGINE_CE : ENGINE_SM;
            return true;
        }
    }
    return false;
}

static void note_unused(struct parser *parser, const char *test)
{
    size_t used = strlen(parser->unused);
    if (used + strlen(test) + 3 < sizeof parser->unused) {
        (void)snprintf(parser->unused + used, sizeof parser->unused - used, "%s%s", used > 0 ? ", " : "", test);
    }
}

/* ---- points ---- */

static double cell(const struct matrix *matrix, uint32_t row, uint32_t column)
{
    double value = matrix->values[(size_t)row * matrix->columns + column];
    return value > 0 ? value * 1e9 : 0; /* bytes/s; NAN is 0 too */
}

static void label(struct parser *parser, enum role role, int engine)
{
    struct import_source *source = parser->source;
    (void)snprintf(source->label, sizeof source->label, "nvbandwidth%s%s %s_%s, %s",
                   parser->version[0] != '\0' ? " " : "", parser->version, ROLE_WORDS[role],
                   engine == ENGINE_CE ? "ce" : "sm", source->name);
}

/* The copy engine's matrix of a role, or the kernel copies' for want of it; NULL: none. */
static const struct matrix *pick(const struct parser *parser, enum role role, int *engine)
{
    for (*engine = 0; *engine < ENGINE_COUNT; (*engine)++) {
        if (parser->slots[role][*engine].values != NULL) {
            return &parser->slots[role][*engine];
        }
    }
    return NULL;
}

static struct point copy_point(const struct parser *parser, enum copy_way way, uint32_t to, int engine, double seconds)
{
    return (struct point){
        .kind = POINT_COPY,
        .way = way,
        .to = to,
        .at_once = 1,
        .bytes = parser->bytes,
        .seconds = seconds,
        .in_doubt = engine == ENGINE_SM,
    };
}

static void note_kernel_copies(struct parser *parser, enum role role, int engine)
{
    if (engine == ENGINE_SM) {
        import_note(parser->source, "%s_sm: kernel copies, for want of the copy engine's; marked in doubt",
                    ROLE_WORDS[role]);
    }
}

static enum status one_way(struct parser *parser, enum role role, enum copy_way way, struct error *error)
{
    int engine;
    const struct matrix *matrix = pick(parser, role, &engine);
    if (matrix == NULL) {
        return STATUS_OK;
    }
    label(parser, role, engine);
    note_kernel_copies(parser, role, engine);
    for (uint32_t g = 0; g < matrix->columns; g++) {
        double rate = cell(matrix, 0, g);
        if (rate > 0) {
            struct point point = copy_point(parser, way, g, engine, parser->bytes / rate);
            TRY(import_add(parser->source, matrix->line, &point, error));
        }
    }
    return STATUS_OK;
}

/* All GPUs at once; with one GPU the test is the one-way test again. */
static enum status all_one_way(struct parser *parser, enum role role, enum copy_way way, struct error *error)
{
    int engine;
    const struct matrix *matrix = pick(parser, role, &engine);
    double slowest = INFINITY;
    uint32_t gpus = 0;
    for (uint32_t g = 0; matrix != NULL && g < matrix->columns; g++) {
        double rate = cell(matrix, 0, g);
        slowest = rate > 0 ? fmin(slowest, rate) : slowest;
        gpus += rate > 0;
    }
    if (gpus < 2) {
        return STATUS_OK;
    }
    label(parser, role, engine);
    note_kernel_copies(parser, role, engine);
    struct point point = copy_point(parser, way, 0, engine, parser->bytes / slowest);
    point.at_once = gpus;
    return import_add(parser->source, matrix->line, &point, error);
}

/* The two directions' tests together. `all`: one point of all GPUs instead of one each. */
static enum status both_ways(struct parser *parser, enum role down, enum role up, bool all, struct error *error)
{
    int engine, other;
    const struct matrix *h2d = pick(parser, down, &engine), *d2h = pick(parser, up, &other);
    if (h2d == NULL && d2h == NULL) {
        return STATUS_OK;
    }
    if (h2d == NULL || d2h == NULL || engine != other || h2d->columns != d2h->columns) {
        import_skip(parser->source, h2d != NULL ? h2d->line : d2h->line, 1,
                    "%s and %s belong together: one alone does not say what a link carries both ways", ROLE_WORDS[down],
                    ROLE_WORDS[up]);
        return STATUS_OK;
    }
    label(parser, down, engine);
    double slowest = INFINITY;
    uint32_t gpus = 0;
    for (uint32_t g = 0; g < h2d->columns; g++) {
        double rate_down = cell(h2d, 0, g), rate_up = cell(d2h, 0, g);
        if (rate_down <= 0 || rate_up <= 0) {
            continue;
        }
        gpus++;
        slowest = fmin(slowest, rate_down + rate_up);
        if (!all) {
            struct point point = copy_point(parser, COPY_BOTH, g, engine, 2 * parser->bytes / (rate_down + rate_up));
            TRY(import_add(parser->source, h2d->line, &point, error));
        }
    }
    if (all && gpus >= 2) {
        struct point point = copy_point(parser, COPY_BOTH, 0, engine, 2 * parser->bytes / slowest);
        point.at_once = gpus;
        TRY(import_add(parser->source, h2d->line, &point, error));
    }
    return STATUS_OK;
}

/* A peer copy is the receiver's: reads are taken, writes for want of them. */
static enum status peers(struct parser *parser, struct error *error)
{
    int read_engine, write_engine;
    const struct matrix *reads = pick(parser, ROLE_PEER_READ, &read_engine);
    const struct matrix *writes = pick(parser, ROLE_PEER_WRITE, &write_engine);
    bool read = reads != NULL && (writes == NULL || read_engine <= write_engine);
    const struct matrix *matrix = read ? reads : writes;
    int engine = read ? read_engine : write_engine;
    if (matrix == NULL) {
        return STATUS_OK;
    }
    if (reads != NULL && writes != NULL) {
        import_note(parser->source, "peer copies: %s are taken, %s passed over", read ? "reads" : "writes",
                    read ? "writes" : "reads");
    }
    label(parser, read ? ROLE_PEER_READ : ROLE_PEER_WRITE, engine);
    note_kernel_copies(parser, read ? ROLE_PEER_READ : ROLE_PEER_WRITE, engine);
    for (uint32_t r = 0; r < matrix->rows; r++) {
        for (uint32_t c = 0; c < matrix->columns; c++) {
            double rate = cell(matrix, r, c);
            if (r == c || rate <= 0) {
                continue;
            }
            struct point point = copy_point(parser, COPY_PEER, read ? r : c, engine, parser->bytes / rate);
            point.from = read ? c : r;
            TRY(import_add(parser->source, matrix->line, &point, error));
        }
    }
    return STATUS_OK;
}

/* Turn what was gathered into points; the next run starts empty. */
static enum status flush(struct parser *parser, struct error *error)
{
    uint32_t before = parser->source->result->points;
    char size[32];
    TRY(one_way(parser, ROLE_H2D, COPY_H2D, error));
    TRY(one_way(parser, ROLE_D2H, COPY_D2H, error));
    TRY(both_ways(parser, ROLE_H2D_BOTH, ROLE_D2H_BOTH, false, error));
    TRY(all_one_way(parser, ROLE_ALL_H2D, COPY_H2D, error));
    TRY(all_one_way(parser, ROLE_ALL_D2H, COPY_D2H, error));
    TRY(both_ways(parser, ROLE_ALL_H2D_BOTH, ROLE_ALL_D2H_BOTH, true, error));
    TRY(peers(parser, error));
    if (parser->source->result->points > before) {
        import_note(parser->source, "%u copies of %s%s", parser->source->result->points - before,
                    text_bytes(parser->bytes, size, sizeof size),
                    parser->said ? "" : " (the size is not said: today's default)");
    }
    for (int r = 0; r < ROLE_COUNT; r++) {
        for (int e = 0; e < ENGINE_COUNT; e++) {
            matrix_free(&parser->slots[r][e]);
        }
    }
    return STATUS_OK;
}

/* ---- lines ---- */

/* File what a test measured. */
static enum status file_matrix(struct parser *parser, const char *test, struct matrix *matrix, struct error *error)
{
    enum role role;
    int engine;
    if (!test_role(test, &role, &engine)) {
        note_unused(parser, test);
        matrix_free(matrix);
        return STATUS_OK;
    }
    bool peer = role == ROLE_PEER_READ || role == ROLE_PEER_WRITE;
    if (peer && matrix->rows != matrix->columns) {
        return import_error(parser->source, matrix->line, error,
                            "%s: %u rows under %u columns; the matrix is cut short", test, matrix->rows,
                            matrix->columns);
    }
    if (!peer && matrix->rows > 1) {
        import_skip(parser->source, matrix->line, matrix->rows - 1, "%s: only the first row, CPU 0, is taken", test);
    }
    if (parser->slots[role][engine].values != NULL) {
        TRY(flush(parser, error)); /* a second run */
    }
    parser->slots[role][engine] = *matrix;
    *matrix = (struct matrix){ 0 };
    parser->taken++;
    return STATUS_OK;
}

/* A test that was begun must have come to something. */
static enum status test_end(struct parser *parser, struct error *error)
{
    if (parser->loose.values != NULL) {
        return import_error(parser->source, parser->loose.line, error,
                            "a matrix without \"Running TEST.\" before it or \"SUM TEST\" after it");
    }
    if (parser->test[0] != '\0' && !parser->test_done) {
        enum role role;
        int engine;
        if (test_role(parser->test, &role, &engine)) {
            return import_error(parser->source, parser->test_line, error,
                                "%s has no matrix: the file is cut short, or the test failed", parser->test);
        }
        note_unused(parser, parser->test);
    }
    parser->test[0] = '\0';
    return STATUS_OK;
}

static enum status read_columns(const struct parser *parser, uint32_t line, uint32_t *columns, struct error *error)
{
    struct import_word words[IMPORT_WORDS_MAX];
    const struct import_source *source = parser->source;
    uint64_t number;
    *columns = line < source->count ? import_words(source->lines[line], words, IMPORT_WORDS_MAX) : 0;
    for (uint32_t c = 0; c < *columns; c++) {
        if (!import_whole(words[c], &number) || number != c) {
            return import_error(source, line + 1, error, "expected the matrix's columns, 0 1 2 ...");
        }
    }
    if (*columns == 0 || *columns > GPUS_MAX) {
        return import_error(source, line, error, "%u columns of a matrix follow; expected 1 to %d", *columns, GPUS_MAX);
    }
    return STATUS_OK;
}

/* The heading is lines[at]; reads what follows it and leaves *at on its last row. */
static enum status read_matrix(struct parser *parser, uint32_t *at, struct matrix *matrix, struct error *error)
{
    struct import_word words[IMPORT_WORDS_MAX];
    struct import_source *source = parser->source;
    uint32_t columns;
    uint64_t number;
    TRY(read_columns(parser, *at + 1, &columns, error));
    *matrix = (struct matrix){ .columns = columns, .line = *at + 1 };
    matrix->values = malloc(((size_t)columns * columns + 1) * sizeof *matrix->values);
    if (matrix->values == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: a matrix of %u GPUs", columns);
    }
    uint32_t line = *at + 2;
    for (; line < source->count; line++) {
        uint32_t count = import_words(source->lines[line], words, IMPORT_WORDS_MAX);
        if (count == 0 || !import_whole(words[0], &number)) {
            break;
        }
        if (number != matrix->rows || matrix->rows == columns || count != columns + 1) {
            return import_error(source, line + 1, error, "row %llu of %u values; expected row %u of %u%s",
                                (unsigned long long)number, count - 1, matrix->rows, columns,
                                line + 1 == source->count ? " (the file is cut short)" : "");
        }
        for (uint32_t c = 0; c < columns; c++) {
            double value = NAN;
            bool last = source->open_end && line + 1 == source->count && c + 1 == columns;
            if (last && words[c + 1].at[words[c + 1].length - 1] != 'A' &&
                (words[c + 1].length < 3 || words[c + 1].at[words[c + 1].length - 3] != '.')) {
                return import_error(source, line + 1, error, "the last value is cut short: expected two decimals");
            }
            if (!import_is(words[c + 1], "N/A") && (!import_number(words[c + 1], &value) || value < 0)) {
                char shown[IMPORT_QUOTE_BYTES];
                return import_error(source, line + 1, error, "\"%s\" is no bandwidth; expected a number or N/A",
                                    import_quote(words[c + 1].at, words[c + 1].length, shown));
            }
            matrix->values[(size_t)matrix->rows * columns + c] = value;
        }
        matrix->rows++;
    }
    *at = line - 1;
    if (matrix->rows == 0) {
        return import_error(source, line, error, "no row under the matrix's columns: the file is cut short");
    }
    return STATUS_OK;
}

static double matrix_sum(const struct matrix *matrix)
{
    double sum = 0;
    for (size_t i = 0; i < (size_t)matrix->rows * matrix->columns; i++) {
        sum += isnan(matrix->values[i]) ? 0 : matrix->values[i];
    }
    return sum;
}

static enum status heading(struct parser *parser, uint32_t *at, struct error *error)
{
    struct matrix matrix = { 0 };
    if (parser->loose.values != NULL) {
        return test_end(parser, error); /* says what is wrong */
    }
    enum status status = read_matrix(parser, at, &matrix, error);
    if (status == STATUS_OK) {
        parser->loose_sum = matrix_sum(&matrix);
        if (parser->test[0] == '\0') {
            parser->loose = matrix;
            return STATUS_OK;
        }
        if (!parser->test_done) { /* bidirectional peer tests print three matrices: all unused */
            parser->test_done = true;
            status = file_matrix(parser, parser->test, &matrix, error);
        }
    }
    matrix_free(&matrix);
    return status;
}

/* "SUM host_to_device_memcpy_ce 205.04" */
static enum status read_sum(struct parser *parser, uint32_t line, const struct import_word *words, uint32_t count,
                            struct error *error)
{
    char test[TEST_BYTES];
    double sum;
    if (count != 3 || words[1].length >= sizeof test || !import_number(words[2], &sum)) {
        return import_error(parser->source, line, error, "expected \"SUM TEST value\"");
    }
    memcpy(test, words[1].at, words[1].length);
    test[words[1].length] = '\0';
    if (parser->loose.values != NULL) {
        TRY(file_matrix(parser, test, &parser->loose, error));
    } else if (strcmp(test, parser->test) != 0) {
        return STATUS_OK; /* of a part of the test ("..._read1") */
    }
    if (fabs(sum - parser->loose_sum) > 0.02 + 0.001 * sum) { /* false without a matrix */
        import_note(parser->source, "line %u: SUM %s is %.6g, its cells give %.6g: the matrix was changed", line, test,
                    sum, parser->loose_sum);
    }
    return STATUS_OK;
}

/* "Running TEST." ("Running benchmark TEST." in the oldest) */
static enum status begin_test(struct parser *parser, uint32_t line, const struct import_word *words, uint32_t count,
                              struct error *error)
{
    struct import_word name = words[count - 1];
    TRY(test_end(parser, error));
    name.length -= name.length > 0 && name.at[name.length - 1] == '.';
    if (name.length == 0 || name.length >= sizeof parser->test) {
        return import_error(parser->source, line, error, "expected \"Running TEST.\"");
    }
    memcpy(parser->test, name.at, name.length);
    parser->test[name.length] = '\0';
    parser->test_line = line;
    parser->test_done = false;
    parser->loose_sum = NAN;
    return STATUS_OK;
}

/* "nvbandwidth Version: v0.8" */
static enum status read_version(struct parser *parser, struct import_word word, struct error *error)
{
    TRY(test_end(parser, error));
    TRY(flush(parser, error));
    (void)snprintf(parser->version, sizeof parser->version, "%.*s", (int)(word.length < 12 ? word.length : 12),
                   word.at);
    parser->said = true;
    double number = strtod(parser->version + (parser->version[0] == 'v'), NULL);
    parser->bytes = (number > 0 && number < 0.65 ? 64 : 512) * MIB;
    return STATUS_OK;
}

/* "-b 1024", "--bufferSize=1024" of a command line that runs nvbandwidth. */
static void read_command(struct parser *parser, const struct import_word *words, uint32_t count, double *buffer)
{
    for (uint32_t i = 0; i < count; i++) {
        static const char LONG[] = "--bufferSize=";
        struct import_word value = { "", 0 };
        uint64_t number;
        if ((import_is(words[i], "-b") || import_is(words[i], "--bufferSize")) && i + 1 < count) {
            value = words[i + 1];
        } else if (words[i].length > sizeof LONG - 1 && strncmp(words[i].at, LONG, sizeof LONG - 1) == 0) {
            value = (struct import_word){ words[i].at + sizeof LONG - 1, words[i].length - (sizeof LONG - 1) };
        }
        if (import_whole(value, &number) && number > 0) {
            *buffer = number < (1u << 20) ? (double)number * MIB : (double)number;
            parser->bytes = *buffer;
            parser->said = true;
        }
    }
}

static enum status read_line(struct parser *parser, uint32_t *at, double *buffer, struct error *error)
{
    struct import_word words[IMPORT_WORDS_MAX];
    const char *text = parser->source->lines[*at];
    uint32_t line = *at + 1, count = import_words(text, words, IMPORT_WORDS_MAX);
    if (count == 0) {
        return STATUS_OK;
    }
    if (import_is(words[0], "Running") && count >= 2 && count <= 3) {
        return begin_test(parser, line, words, count, error);
    }
    if (strstr(text, "bandwidth (GB/s)") != NULL) {
        return heading(parser, at, error);
    }
    if (import_is(words[0], "SUM")) {
        return read_sum(parser, line, words, count, error);
    }
    if (import_is(words[0], "nvbandwidth") && count == 3 && import_is(words[1], "Version:")) {
        TRY(read_version(parser, words[2], error));
        parser->bytes = *buffer > 0 ? *buffer : parser->bytes;
        *buffer = 0;
        return STATUS_OK;
    }
    if (strncmp(words[0].at, "Waived", 6) == 0) {
        import_note(parser->source, "line %u: a test was waived%s%s", line, parser->test[0] != '\0' ? " after " : "",
                    parser->test);
        return STATUS_OK;
    }
    if (import_is(words[0], "Device") && count > 2 && words[1].at[words[1].length - 1] == ':') {
        const char *bus = strrchr(text, '('); /* name (bus id) */
        size_t length = bus != NULL && bus > words[2].at ? (size_t)(bus - words[2].at) : strlen(words[2].at);
        import_gpu_name(parser->source, words[2].at, length);
        return STATUS_OK;
    }
    if (strstr(text, "nvbandwidth ") != NULL) {
        read_command(parser, words, count, buffer);
    }
    return STATUS_OK;
}

bool import_nvbandwidth_mark(const char *line)
{
    struct import_word words[4];
    uint32_t count = import_words(line, words, 4);
    return (count == 3 && import_is(words[0], "nvbandwidth") && import_is(words[1], "Version:")) ||
           (strstr(line, "bandwidth (GB/s)") != NULL && strstr(line, "memcpy") != NULL) ||
           (count == 2 && import_is(words[0], "Running") && strstr(line, "memcpy") != NULL);
}

enum status import_nvbandwidth(struct import_source *source, struct error *error)
{
    struct parser parser = { .source = source, .bytes = 512 * MIB, .loose_sum = NAN };
    double buffer = 0; /* of the command line above a run */
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < source->count; i++) {
        TRY_OR_FAIL(read_line(&parser, &i, &buffer, error));
    }
    TRY_OR_FAIL(test_end(&parser, error));
    TRY_OR_FAIL(flush(&parser, error));
    if (parser.unused[0] != '\0') {
        import_note(source, "not used: %s", parser.unused);
    }
    if (source->result->points == 0) {
        status = import_error(source, source->count, error,
                              "no copies between host and GPUs, or between GPUs, in this output");
    }
fail:
    parser_free(&parser);
    return status;
}
