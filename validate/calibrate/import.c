#include "validate/calibrate/import.h"

#include <string.h>

#include "sim/base/check.h"
#include "validate/calibrate/import_text.h"

static const char *const FORMAT_WORDS[] = {
#define X(name, word, help) word,
    IMPORT_TABLE(X)
#undef X
};

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool mark(enum import_format format, const char *line)
{
    switch (format) {
    case IMPORT_NCCL_TESTS: return import_nccl_tests_mark(line);
    case IMPORT_NVBANDWIDTH: return import_nvbandwidth_mark(line);
    case IMPORT_BANDWIDTH_TEST: return import_bandwidth_test_mark(line);
    case IMPORT_TOPOLOGY: return import_topology_mark(line);
    case IMPORT_KERNEL_CSV: return starts_with(line, "system,op,peak_tflops,");
    case IMPORT_ALL_REDUCE_CSV: return starts_with(line, "gpu,ranks,size_bytes,");
    case IMPORT_LINKS_CSV: return starts_with(line, "id,source,verified,hardware,");
    case IMPORT_POINTS: return line[0] == '{' && strstr(line, "\"memwall.points/") != NULL;
    case IMPORT_FORMAT_COUNT: break;
    }
    return false;
}

/* Tables and points are known by their first line, what tools print by any line: the first mark decides. */
static enum status find_format(struct import_source *source, enum import_format *format, struct error *error)
{
    static const enum import_format first[] = { IMPORT_KERNEL_CSV, IMPORT_ALL_REDUCE_CSV, IMPORT_LINKS_CSV,
                                                IMPORT_POINTS };
    static const enum import_format any[] = { IMPORT_NCCL_TESTS, IMPORT_NVBANDWIDTH, IMPORT_BANDWIDTH_TEST,
                                              IMPORT_TOPOLOGY };
    for (size_t f = 0; source->count > 0 && f < sizeof first / sizeof first[0]; f++) {
        if (mark(first[f], source->lines[0])) {
            *format = first[f];
            return STATUS_OK;
        }
    }
    bool found[IMPORT_FORMAT_COUNT] = { false };
    *format = IMPORT_FORMAT_COUNT;
    for (uint32_t i = 0; i < source->count; i++) {
        for (size_t f = 0; f < sizeof any / sizeof any[0]; f++) {
            if (!found[any[f]] && mark(any[f], source->lines[i])) {
                found[any[f]] = true;
                *format = *format == IMPORT_FORMAT_COUNT ? any[f] : *format;
            }
        }
    }
    for (int f = 0; f < IMPORT_FORMAT_COUNT; f++) {
        if (found[f] && f != (int)*format) {
            import_note(source, "also holds output of %s: not read here, give it in a file of its own",
                        FORMAT_WORDS[f]);
        }
    }
    if (*format == IMPORT_FORMAT_COUNT) {
        return import_error(source, 0, error,
                            "no known format; known are nccl-tests, nvbandwidth (text), bandwidthTest, nvidia-smi topo "
                            "-m, memwall's points and the tables of measured kernels, all-reduces and links");
    }
    return STATUS_OK;
}

static enum status import_points(struct import_source *source, struct error *error)
{
    bool was_cut = false;
    uint32_t before = source->points->count;
    char machine[64] = "", executor[64] = "";
    if (strcmp(source->path, "-") == 0) {
        return import_error(source, 0, error, "give points as a file, not on standard input");
    }
    TRY(points_load(source->points, source->path, machine, executor, &was_cut, error));
    source->result->points = source->points->count - before;
    import_note(source, "%u points of \"%s\", measured by executor \"%s\"%s", source->result->points, machine, executor,
                was_cut ? "; the last line was cut and is left out" : "");
    return STATUS_OK;
}

static enum status read_format(struct import_source *source, enum import_format format, struct error *error)
{
    switch (format) {
    case IMPORT_NCCL_TESTS: return import_nccl_tests(source, error);
    case IMPORT_NVBANDWIDTH: return import_nvbandwidth(source, error);
    case IMPORT_BANDWIDTH_TEST: return import_bandwidth_test(source, error);
    case IMPORT_TOPOLOGY: return import_topology(source, error);
    case IMPORT_KERNEL_CSV: return import_kernel_csv(source, error);
    case IMPORT_ALL_REDUCE_CSV: return import_all_reduce_csv(source, error);
    case IMPORT_LINKS_CSV: return import_links_csv(source, error);
    case IMPORT_POINTS: return import_points(source, error);
    case IMPORT_FORMAT_COUNT: break;
    }
    check_failed("a format", __FILE__, __LINE__);
}

enum status import_file(const char *path, const char *system, struct points *points, struct draft *draft,
                        struct import_result *result, struct error *error)
{
    struct import_source source = { .system = system, .points = points, .draft = draft, .result = result };
    uint32_t before = points->count;
    enum status status;
    *result = (struct import_result){ .format = IMPORT_FORMAT_COUNT };
    TRY_OR_FAIL(import_open(&source, path, error));
    TRY_OR_FAIL(find_format(&source, &result->format, error));
    TRY_OR_FAIL(read_format(&source, result->format, error));
    if (result->notes.failed) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory: notes on %s", path);
    }
fail:
    if (status != STATUS_OK) { /* nothing, or all of a file */
        points->count = before;
        result->points = 0;
    }
    import_close(&source);
    return status;
}

void import_result_free(struct import_result *result)
{
    strbuf_free(&result->notes);
}
