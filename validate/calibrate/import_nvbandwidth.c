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
#include "validate/calibrate/import_nvbandwidth.h"

enum { GPUS_MAX = 512 };

static void parser_free(struct nvbandwidth *parser)
{
    for (int r = 0; r < NVB_COUNT; r++) {
        for (int e = 0; e < NVB_ENGINE_COUNT; e++) {
            nvbandwidth_matrix_free(&parser->slots[r][e]);
        }
    }
    nvbandwidth_matrix_free(&parser->loose);
}

static bool test_role(const char *test, enum nvbandwidth_role *role, int *engine)
{
    for (int r = 0; r < NVB_COUNT; r++) {
        size_t length = strlen(nvbandwidth_word(r));
        if (strncmp(test, nvbandwidth_word(r), length) == 0 &&
            (strcmp(test + length, "_ce") == 0 || strcmp(test + length, "_sm") == 0)) {
            *role = (enum nvbandwidth_role)r;
            *engine = test[length + 1] == 'c' ? NVB_ENGINE_CE : NVB_ENGINE_SM;
            return true;
        }
    }
    return false;
}

static void note_unused(struct nvbandwidth *parser, const char *test)
{
    size_t used = strlen(parser->unused);
    if (used + strlen(test) + 3 < sizeof parser->unused) {
        (void)snprintf(parser->unused + used, sizeof parser->unused - used, "%s%s", used > 0 ? ", " : "", test);
    }
}

/* File what a test measured. */
static enum status file_matrix(struct nvbandwidth *parser, const char *test, struct nvbandwidth_matrix *matrix,
                               struct error *error)
{
    enum nvbandwidth_role role;
    int engine;
    if (!test_role(test, &role, &engine)) {
        note_unused(parser, test);
        nvbandwidth_matrix_free(matrix);
        return STATUS_OK;
    }
    bool peer = role == NVB_PEER_READ || role == NVB_PEER_WRITE;
    if (peer && matrix->rows != matrix->columns) {
        return import_error(parser->source, matrix->line, error,
                            "%s: %u rows under %u columns; the matrix is cut short", test, matrix->rows,
                            matrix->columns);
    }
    if (!peer && matrix->rows > 1) {
        import_skip(parser->source, matrix->line, matrix->rows - 1, "%s: only the first row, CPU 0, is taken", test);
    }
    if (parser->slots[role][engine].values != NULL) {
        TRY(nvbandwidth_flush(parser, error)); /* a second run */
    }
    parser->slots[role][engine] = *matrix;
    *matrix = (struct nvbandwidth_matrix){ 0 };
    parser->taken++;
    return STATUS_OK;
}

/* A test that was begun must have come to something. */
static enum status test_end(struct nvbandwidth *parser, struct error *error)
{
    if (parser->loose.values != NULL) {
        return import_error(parser->source, parser->loose.line, error,
                            "a matrix without \"Running TEST.\" before it or \"SUM TEST\" after it");
    }
    if (parser->test[0] != '\0' && !parser->test_done) {
        enum nvbandwidth_role role;
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

static enum status read_columns(const struct nvbandwidth *parser, uint32_t line, uint32_t *columns, struct error *error)
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
static enum status read_matrix(struct nvbandwidth *parser, uint32_t *at, struct nvbandwidth_matrix *matrix,
                               struct error *error)
{
    struct import_word words[IMPORT_WORDS_MAX];
    struct import_source *source = parser->source;
    uint32_t columns;
    uint64_t number;
    TRY(read_columns(parser, *at + 1, &columns, error));
    *matrix = (struct nvbandwidth_matrix){ .columns = columns, .line = *at + 1 };
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

static double matrix_sum(const struct nvbandwidth_matrix *matrix)
{
    double sum = 0;
    for (size_t i = 0; i < (size_t)matrix->rows * matrix->columns; i++) {
        sum += isnan(matrix->values[i]) ? 0 : matrix->values[i];
    }
    return sum;
}

static enum status heading(struct nvbandwidth *parser, uint32_t *at, struct error *error)
{
    struct nvbandwidth_matrix matrix = { 0 };
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
    nvbandwidth_matrix_free(&matrix);
    return status;
}

/* "SUM host_to_device_memcpy_ce 205.04" */
static enum status read_sum(struct nvbandwidth *parser, uint32_t line, const struct import_word *words, uint32_t count,
                            struct error *error)
{
    char test[NVB_TEST_BYTES];
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
static enum status begin_test(struct nvbandwidth *parser, uint32_t line, const struct import_word *words,
                              uint32_t count, struct error *error)
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
static enum status read_version(struct nvbandwidth *parser, struct import_word word, struct error *error)
{
    TRY(test_end(parser, error));
    TRY(nvbandwidth_flush(parser, error));
    (void)snprintf(parser->version, sizeof parser->version, "%.*s", (int)(word.length < 12 ? word.length : 12),
                   word.at);
    parser->said = true;
    double number = strtod(parser->version + (parser->version[0] == 'v'), NULL);
    parser->bytes = (number > 0 && number < 0.65 ? 64 : 512) * MIB;
    return STATUS_OK;
}

/* "-b 1024", "--bufferSize=1024" of a command line that runs nvbandwidth. */
static void read_command(struct nvbandwidth *parser, const struct import_word *words, uint32_t count, double *buffer)
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

static enum status read_line(struct nvbandwidth *parser, uint32_t *at, double *buffer, struct error *error)
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
    struct nvbandwidth parser = { .source = source, .bytes = 512 * MIB, .loose_sum = NAN };
    double buffer = 0; /* of the command line above a run */
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < source->count; i++) {
        TRY_OR_FAIL(read_line(&parser, &i, &buffer, error));
    }
    TRY_OR_FAIL(test_end(&parser, error));
    TRY_OR_FAIL(nvbandwidth_flush(&parser, error));
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
