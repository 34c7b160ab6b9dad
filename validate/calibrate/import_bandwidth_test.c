/* bandwidthTest of the CUDA samples: "Host to Device Bandwidth, 1 Device(s)", memory mode, then rows of size and bandwidth (quick, range and shmoo modes), or csv
 * lines. From its sources: today GB/s of 1e9 bytes; up to CUDA 10, "MB/s" were 1024 x bytes / milliseconds / 2^20, that is 1 024 000 bytes/s each.
 * "N Device(s)" adds up devices that were measured one after another, so a device has a share of 1/N and nothing ran at once. Device to device counts bytes
 * read and written on one GPU: no copy between memories, passed over. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "validate/calibrate/import_text.h"

static const double OLD_MB_BYTES = 1024.0 * 1000.0;
enum { DEVICES_MAX = 1024, LINE_WORDS_MAX = 24 };

enum direction { DIRECTION_NONE, DIRECTION_H2D, DIRECTION_D2H, DIRECTION_D2D };

struct parser {
    struct import_source *source;
    uint32_t device;          /* of the last "Device N:" line */
    uint32_t devices;         /* of the section: N Device(s) */
    enum direction direction; /* of the section */
    uint32_t section_line, rows;
    bool pageable, mode_said, in_table;
    double unit; /* bytes/s of 1 in the table */
};

static bool contains(const char *text, const char *word)
{
    for (size_t length = strlen(word); *text != '\0'; text++) {
        size_t i = 0;
        while (i < length && tolower((unsigned char)text[i]) == word[i]) {
            i++;
        }
        if (i == length) {
            return true;
        }
    }
    return false;
}

static enum status add(struct parser *parser, uint32_t line, double bytes, double rate, struct error *error)
{
    struct import_source *source = parser->source;
    if (parser->direction == DIRECTION_D2D) {
        source->result->skipped++;
        return STATUS_OK;
    }
    if (!(bytes > 0) || !(rate > 0)) {
        import_skip(source, line, 1, "a size or bandwidth of zero: row passed over");
        return STATUS_OK;
    }
    struct point point = {
        .kind = POINT_COPY,
        .way = parser->direction == DIRECTION_H2D ? COPY_H2D : COPY_D2H,
        .pageable = parser->pageable,
        .to = parser->devices > 1 ? 0 : parser->device,
        .at_once = 1,
        .bytes = bytes,
        .seconds = bytes * parser->devices / rate,
    };
    (void)snprintf(source->label, sizeof source->label, "bandwidthTest %s%s, %s", copy_way_word(point.way),
                   point.pageable ? " pageable" : "", source->name);
    return import_add(source, line, &point, error);
}

static enum status section_end(struct parser *parser, struct error *error)
{
    bool empty = parser->direction != DIRECTION_NONE && parser->rows == 0;
    parser->in_table = false;
    parser->direction = DIRECTION_NONE;
    return empty ? import_error(parser->source, parser->section_line, error,
                                "no row of size and bandwidth follows: the file is cut short")
                 : STATUS_OK;
}

static void memory_mode(struct parser *parser, const char *text)
{
    bool pageable = contains(text, "pageable") || contains(text, "paged"), pinned = contains(text, "pinned");
    if (pageable || pinned) {
        parser->pageable = pageable;
        parser->mode_said = true;
    }
}

/* " Host to Device Bandwidth, 1 Device(s)", in old versions with ", Paged memory" on the same line */
static enum status section_begin(struct parser *parser, uint32_t line, const char *text, struct error *error)
{
    const char *comma = strstr(text, "Bandwidth,");
    unsigned long devices = strtoul(comma + strlen("Bandwidth,"), NULL, 10);
    TRY(section_end(parser, error));
    parser->direction = contains(text, "host to device")     ? DIRECTION_H2D
                        : contains(text, "device to host")   ? DIRECTION_D2H
                        : contains(text, "device to device") ? DIRECTION_D2D
                                                             : DIRECTION_NONE;
    if (parser->direction == DIRECTION_NONE || devices < 1 || devices > DEVICES_MAX) {
        parser->direction = DIRECTION_NONE;
        return import_error(parser->source, line, error,
                            "expected \"Host to Device\", \"Device to Host\" or \"Device to Device Bandwidth, N "
                            "Device(s)\"");
    }
    parser->devices = (uint32_t)devices;
    parser->section_line = line;
    parser->rows = 0;
    parser->mode_said = false;
    memory_mode(parser, text);
    if (devices > 1) {
        import_note(parser->source,
                    "line %u: the sum of %lu devices measured in turn: each is taken to have its equal part", line,
                    devices);
    }
    if (parser->direction == DIRECTION_D2D) {
        import_note(parser->source, "line %u: device to device is a copy within one GPU: passed over", line);
    }
    return STATUS_OK;
}

static enum status table_begin(struct parser *parser, uint32_t line, const char *text, struct error *error)
{
    bool giga = strstr(text, "(GB/s)") != NULL, mega = strstr(text, "(MB/s)") != NULL;
    if (parser->direction == DIRECTION_NONE || giga == mega) {
        return import_error(parser->source, line, error,
                            giga == mega ? "expected the unit, Bandwidth(GB/s) or Bandwidth(MB/s)"
                                         : "a table without \"... Bandwidth, N Device(s)\" before it");
    }
    if (!parser->mode_said && parser->direction != DIRECTION_D2D) {
        return import_error(parser->source, line, error,
                            "neither \"PINNED\" nor \"PAGEABLE Memory Transfers\" before this table");
    }
    if (strstr(text, "Write-Combined") != NULL) {
        import_note(parser->source, "line %u: write-combined pinned memory, taken as pinned", line);
    }
    if (mega) {
        import_note(parser->source, "line %u: MB/s of this tool taken as 1024000 bytes/s (up to CUDA 10)", line);
    }
    parser->unit = giga ? 1e9 : OLD_MB_BYTES;
    parser->in_table = true;
    return STATUS_OK;
}

static enum status table_row(struct parser *parser, uint32_t line, const struct import_word *words, uint32_t count,
                             struct error *error)
{
    uint64_t bytes;
    double rate;
    const char *point = count == 2 ? memchr(words[1].at, '.', words[1].length) : NULL; /* printed as %.1f */
    if (point == NULL || point + 1 == words[1].at + words[1].length || !import_whole(words[0], &bytes) ||
        !import_number(words[1], &rate) || rate < 0) {
        return import_error(parser->source, line, error, "not a row: expected a size in bytes and a bandwidth%s",
                            line == parser->source->count ? " (the file is cut short)" : "");
    }
    parser->rows++;
    return add(parser, line, (double)bytes, rate * parser->unit, error);
}

/* The number between `key` and the next blank or comma. */
static bool csv_value(const char *text, const char *key, double *value)
{
    const char *at = strstr(text, key);
    if (at == NULL) {
        return false;
    }
    at += strlen(key);
    return import_number((struct import_word){ at, strcspn(at, " ,") }, value) && *value >= 0;
}

/* "bandwidthTest-H2D-Pinned, Bandwidth = 12.0 GB/s, Time = 0.00279 s, Size = 33554432 bytes, NumDevsUsed = 1" */
static enum status csv_line(struct parser *parser, uint32_t line, const char *text, struct error *error)
{
    double rate = 0, bytes = 0, devices = 0;
    const char *kind = strstr(text, "bandwidthTest-") + strlen("bandwidthTest-");
    bool giga = strstr(text, " GB/s,") != NULL, mega = strstr(text, " MB/s,") != NULL;
    if (!csv_value(text, "Bandwidth = ", &rate) || !csv_value(text, "Size = ", &bytes) ||
        !csv_value(text, "NumDevsUsed = ", &devices) || giga == mega || devices < 1 || devices > DEVICES_MAX) {
        return import_error(
            parser->source, line, error,
            "not a whole csv line: expected \"bandwidthTest-..., Bandwidth = x GB/s, Time = x s, Size = n "
            "bytes, NumDevsUsed = n\"%s",
            line == parser->source->count ? " (the file is cut short)" : "");
    }
    TRY(section_end(parser, error));
    parser->direction = strncmp(kind, "H2D", 3) == 0   ? DIRECTION_H2D
                        : strncmp(kind, "D2H", 3) == 0 ? DIRECTION_D2H
                        : strncmp(kind, "D2D", 3) == 0 ? DIRECTION_D2D
                                                       : DIRECTION_NONE;
    bool paged = strncmp(kind + 3, "-Paged", 6) == 0, pinned = strncmp(kind + 3, "-Pinned", 7) == 0;
    if (parser->direction == DIRECTION_NONE || (parser->direction != DIRECTION_D2D && paged == pinned)) {
        parser->direction = DIRECTION_NONE;
        return import_error(parser->source, line, error,
                            "expected bandwidthTest-H2D-Pinned, -H2D-Paged, -D2H-Pinned, -D2H-Paged or -D2D");
    }
    parser->pageable = paged;
    parser->devices = (uint32_t)devices;
    enum status status = add(parser, line, bytes, rate * (giga ? 1e9 : OLD_MB_BYTES), error);
    parser->direction = DIRECTION_NONE;
    return status;
}

static enum status read_line(struct parser *parser, uint32_t line, const char *text, struct error *error)
{
    struct import_word words[LINE_WORDS_MAX];
    uint32_t count = import_words(text, words, LINE_WORDS_MAX);
    uint64_t number;
    if (strstr(text, "Result = FAIL") != NULL) {
        import_note(parser->source, "line %u: the test says of itself that it failed", line);
    }
    if (strstr(text, "bandwidthTest-") != NULL && strstr(text, "Bandwidth =") != NULL) {
        return csv_line(parser, line, text, error);
    }
    if (strstr(text, "Bandwidth,") != NULL && strstr(text, "Device(s)") != NULL) {
        return section_begin(parser, line, text, error);
    }
    if (strstr(text, "Transfer Size (Bytes)") != NULL) {
        return table_begin(parser, line, text, error);
    }
    if (parser->in_table && count > 0 && isdigit((unsigned char)words[0].at[0])) {
        return table_row(parser, line, words, count, error);
    }
    if (parser->in_table && count > 0) {
        return section_end(parser, error);
    }
    if (parser->direction != DIRECTION_NONE) {
        memory_mode(parser, text);
    } else if (count > 2 && import_is(words[0], "Device") && words[1].length > 1 &&
               words[1].at[words[1].length - 1] == ':') {
        struct import_word index = { words[1].at, words[1].length - 1 };
        if (import_whole(index, &number) && number < DEVICES_MAX) {
            parser->device = (uint32_t)number;
            import_gpu_name(parser->source, words[2].at, strlen(words[2].at));
        }
    }
    return STATUS_OK;
}

bool import_bandwidth_test_mark(const char *line)
{
    return strstr(line, "CUDA Bandwidth Test]") != NULL ||
           (strstr(line, "Bandwidth,") != NULL && strstr(line, "Device(s)") != NULL) ||
           (strstr(line, "bandwidthTest-") != NULL && strstr(line, "Bandwidth =") != NULL);
}

enum status import_bandwidth_test(struct import_source *source, struct error *error)
{
    struct parser parser = { .source = source, .devices = 1 };
    for (uint32_t i = 0; i < source->count; i++) {
        TRY(read_line(&parser, i + 1, source->lines[i], error));
    }
    TRY(section_end(&parser, error));
    if (source->result->points == 0) {
        return import_error(source, source->count, error, "no copy between host and device in this output");
    }
    import_note(source, "%u copies between host and device", source->result->points);
    return STATUS_OK;
}
