/* nccl-tests (and rccl-tests, and NCCL 1's own tests), read from what their sources print:
 *   2016-2018  "bytes N type op time algbw busbw res", milliseconds, rows with or without '#' (NCCL 1, nccl-tests 2.0)
 *   2018-2021  "size count type [redop] [root] time algbw busbw error", microseconds; all-gather and reduce-scatter print bus bandwidth in both columns
 *   since 2022 "size count type redop root time algbw busbw #wrong", out-of-place then in-place; since 2.17 "# Collective test starting: NAME", and
 *              times of day at the end of a row (-T)
 * A file may hold several runs. Out-of-place times are taken. Every row is held against its own bandwidths: size/time = algbw, and algbw times the
 * collective's bus factor for that many ranks = busbw, so that a wrong name or a wrong count of ranks does not pass. */
#include "validate/calibrate/import_nccl.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"

enum { ROW_WORDS_MAX = 24 };

/* ---- lines ---- */

/* A line that opens a run: what was gathered before belongs to the run before it. */
static enum status run_begin(struct nccl_parser *parser, uint32_t line, struct error *error)
{
    if (parser->run.count > 0) {
        TRY(nccl_run_finish(parser, error));
    }
    if (parser->run.line == 0) {
        parser->run.line = line;
    }
    if (parser->pending != NULL) {
        parser->run.program = parser->pending;
        parser->pending = NULL;
    }
    return STATUS_OK;
}

static bool word_is_data(struct import_word word)
{
    return word.length > 0 && isdigit((unsigned char)word.at[0]);
}

/* "#  Rank  0 Group  0 Pid   1887 on   worker-1 device  0 [0x8d] NVIDIA H100", without Group, without Pid, NCCL 1's "#   Device  0 ->  0 [0x0a] NAME" */
static enum status read_rank(struct nccl_parser *parser, uint32_t line, const struct import_word *words, uint32_t count,
                             const char *text, struct error *error)
{
    struct import_source *source = parser->source;
    struct nccl_run *run = &parser->run;
    uint64_t rank = 0, group = 0;
    struct import_word host = { "", 0 };
    TRY(run_begin(parser, line, error));
    bool good = count >= 2 && import_whole(words[1], &rank);
    for (uint32_t i = 2; good && i + 1 < count; i++) {
        if (import_is(words[i], "Group")) {
            good = import_whole(words[i + 1], &group);
        } else if (import_is(words[i], "on")) {
            host = words[i + 1];
            break;
        }
    }
    const char *name = strchr(text, ']');
    if (!good || count < 4 || host.length >= NCCL_HOST_BYTES) {
        return import_error(source, line, error,
                            "not a whole line of a rank: expected \"Rank N ... on HOST device D\"");
    }
    if (group != 0) {
        return import_error(source, line, error,
                            "several groups at once (NCCL_TESTS_SPLIT): their ranks share links, which no curve says");
    }
    if (rank >= NCCL_RANKS_MAX) {
        return import_error(source, line, error, "rank %llu; at most %d ranks are read", (unsigned long long)rank,
                            NCCL_RANKS_MAX);
    }
    if (run->seen == NULL) {
        run->seen = calloc(NCCL_RANKS_MAX, 1);
        run->host_names = calloc(NCCL_HOSTS_MAX, sizeof *run->host_names);
        if (run->seen == NULL || run->host_names == NULL) {
            return error_set(error, STATUS_NO_MEMORY, "out of memory: the ranks of %s", source->path);
        }
    }
    if (run->seen[rank]) {
        return import_error(source, line, error,
                            "rank %llu twice: these tests were built without MPI, so that every process ran alone",
                            (unsigned long long)rank);
    }
    run->seen[rank] = 1;
    run->ranks++;
    uint32_t h = run->hosts;
    while (h > 0 && !import_is(host, run->host_names[h - 1])) {
        h--;
    }
    if (h == 0) {
        if (run->hosts == NCCL_HOSTS_MAX) {
            return import_error(source, line, error, "more than %d hosts", NCCL_HOSTS_MAX);
        }
        memcpy(run->host_names[run->hosts++], host.at, host.length);
    }
    if (name != NULL) {
        name += 1 + strspn(name + 1, " ");
        import_gpu_name(source, name, strlen(name));
    }
    return STATUS_OK;
}

/* "size count type redop root time algbw busbw #wrong time ...", the old names likewise. */
static enum status read_header(struct nccl_parser *parser, uint32_t line, const struct import_word *words,
                               uint32_t count, struct error *error)
{
    struct nccl_run *run = &parser->run;
    uint32_t first = count, times = 0;
    TRY(run_begin(parser, line, error));
    for (uint32_t i = 0; i < count; i++) {
        if (import_is(words[i], "time")) {
            first = i < first ? i : first;
            times++;
        }
    }
    bool milliseconds = import_is(words[0], "bytes");
    bool named = count > 3 && (milliseconds || import_is(words[0], "size")) &&
                 import_is(words[1], milliseconds ? "N" : "count") && import_is(words[2], "type");
    if (!named || first < 3 || first > 5 || times > 2 || count != first + NCCL_GROUP_WORDS * times) {
        return import_error(
            parser->source, line, error,
            "columns not known; expected \"size count type [redop] [root] time algbw busbw #wrong\", once "
            "or twice; what a launcher puts before each line (a time, a host, a pod) must be taken away");
    }
    run->header_line = line;
    run->extras = first - 3;
    run->groups = times;
    run->milliseconds = milliseconds;
    run->wrong_is_count = import_is(words[count - 1], "#wrong");
    run->old_columns = !run->wrong_is_count;
    return STATUS_OK;
}

static bool time_of_day(struct import_word day, struct import_word clock)
{
    return clock.length == 8 && clock.at[2] == ':' && clock.at[5] == ':' && day.length == 10 && day.at[4] == '-' &&
           day.at[7] == '-';
}

static bool not_applicable(struct import_word word)
{
    return import_is(word, "N/A");
}

/* "0", "5e-07", "N/A"; an asterisk marks an error above the threshold. */
static bool read_wrong(const struct nccl_run *run, struct import_word word, bool *wrong)
{
    double value;
    *wrong = false;
    if (not_applicable(word)) {
        return true;
    }
    if (word.length > 1 && word.at[word.length - 1] == '*') {
        word.length--;
        *wrong = true;
    }
    if (!import_number(word, &value)) {
        *wrong = true;
        return import_is(word, "nan") || import_is(word, "inf") || import_is(word, "-nan");
    }
    *wrong = *wrong || (run->wrong_is_count && value != 0);
    return true;
}

/* time, algbw, busbw, wrong. *printed: not "N/A". */
static bool read_group(const struct nccl_run *run, const struct import_word *words, double values[3], bool *printed,
                       bool *wrong)
{
    uint32_t absent = 0;
    for (uint32_t i = 0; i < 3; i++) {
        if (not_applicable(words[i])) {
            absent++;
        } else if (!import_number(words[i], &values[i]) || values[i] < 0) {
            return false;
        }
    }
    *printed = absent == 0;
    return (absent == 0 || absent == 3) && read_wrong(run, words[3], wrong);
}

static bool read_extras(struct nccl_row *row, const struct import_word *words, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct import_word word = words[i];
        uint64_t root;
        if (isalpha((unsigned char)word.at[0]) && i == 0 && word.length < sizeof row->op) {
            memcpy(row->op, word.at, word.length);
        } else if (word.at[0] == '-') {
            word.at++;
            word.length--;
            if (!import_whole(word, &root)) {
                return false;
            }
        } else if (!import_whole(word, &root)) {
            return false;
        }
    }
    return true;
}

/* "44.21" is within 0.005 of 44.21, "1.2e+06" within 4 % of it. */
static double rounding_of(struct import_word word)
{
    double digits = 0; /* without the point */
    for (size_t i = 0; i < word.length && (isdigit((unsigned char)word.at[i]) || word.at[i] == '.'); i++) {
        digits = word.at[i] == '.' ? digits : digits * 10 + (word.at[i] - '0');
    }
    return digits > 0 ? 0.5 / digits : 0;
}

static bool fill_row(const struct nccl_run *run, struct nccl_row *row, const struct import_word *words, uint32_t extras)
{
    const struct import_word *group = words + 3 + extras;
    double values[3] = { 0 }, in_place[3] = { 0 };
    bool printed = true, ignored, in_place_printed = false;
    uint64_t bytes;
    if (!import_whole(words[0], &bytes) || words[2].length >= sizeof row->type ||
        !read_extras(row, words + 3, extras) || !read_group(run, group, values, &printed, &row->wrong)) {
        return false;
    }
    if (run->groups == 2 && !read_group(run, group + NCCL_GROUP_WORDS, in_place, &in_place_printed, &ignored)) {
        return false;
    }
    memcpy(row->type, words[2].at, words[2].length);
    row->bytes = (double)bytes;
    row->timed = printed;
    row->seconds = values[0] * (run->milliseconds ? 1e-3 : 1e-6);
    row->algbw = values[1];
    row->busbw = values[2];
    row->in_place_busbw = in_place_printed ? in_place[2] : -1;
    row->rounding = rounding_of(group[0]);
    return true;
}

static enum status read_row(struct nccl_parser *parser, uint32_t line, const struct import_word *words, uint32_t count,
                            struct error *error)
{
    struct nccl_run *run = &parser->run;
    struct import_source *source = parser->source;
    struct nccl_row row = { .line = line };
    if (run->header_line == 0) { /* rows without their header: today's columns */
        TRY(run_begin(parser, line, error));
        run->header_line = line;
        run->extras = 2;
        run->groups = 2;
        run->wrong_is_count = true;
        import_note(source, "line %u: rows without column names, read as size count type redop root time ...", line);
    }
    if (count >= 2 && time_of_day(words[count - 2], words[count - 1])) {
        count -= 2;
    }
    uint32_t fixed = 3 + NCCL_GROUP_WORDS * run->groups, extras = run->extras;
    if (count + 1 == fixed + extras && extras > 0 && word_is_data(words[3])) {
        extras--; /* the op's name is empty in some versions */
    }
    if (count != fixed + extras || !fill_row(run, &row, words, extras)) {
        bool last = line == source->count;
        return import_error(source, line, error,
                            "not a whole row: %u words, expected %u: size count type%s and %s time algbw busbw wrong%s",
                            count, fixed + run->extras, run->extras > 0 ? " redop/root" : "",
                            run->groups == 2 ? "twice" : "once",
                            last ? " (the file is cut short in its last line)"
                                 : " (a row broken by other output? NCCL_DEBUG_FILE keeps that apart)");
    }
    if (run->count == run->capacity) {
        uint32_t capacity = run->capacity == 0 ? 64 : 2 * run->capacity;
        struct nccl_row *grown = realloc(run->rows, capacity * sizeof *grown);
        if (grown == NULL) {
            return error_set(error, STATUS_NO_MEMORY, "out of memory: %u rows", capacity);
        }
        run->rows = grown;
        run->capacity = capacity;
    }
    run->rows[run->count++] = row;
    return STATUS_OK;
}

/* "# nThread 1 nGpus 8 minBytes 8 ..." */
static enum status read_settings(struct nccl_parser *parser, uint32_t line, const struct import_word *words,
                                 uint32_t count, struct error *error)
{
    uint64_t threads = 0, gpus = 0;
    TRY(run_begin(parser, line, error));
    for (uint32_t i = 0; i + 1 < count; i++) {
        if (import_is(words[i], "nThread")) {
            (void)import_whole(words[i + 1], &threads);
        } else if (import_is(words[i], "nGpus")) {
            (void)import_whole(words[i + 1], &gpus);
        }
    }
    if (threads >= 1 && gpus >= 1 && threads <= NCCL_RANKS_MAX && gpus <= NCCL_RANKS_MAX / threads) {
        parser->run.in_header = (uint32_t)(threads * gpus);
    }
    return STATUS_OK;
}

static const char *after(const char *text, const char *what)
{
    const char *at = strstr(text, what);
    return at == NULL ? NULL : at + strlen(what);
}

/* Lines that are neither a rank, columns nor a row: what names the collective, settings, the average. */
static enum status read_other(struct nccl_parser *parser, uint32_t line, const char *text,
                              const struct import_word *words, uint32_t count, struct error *error)
{
    const char *rest = after(text, "Avg bus bandwidth");
    if (rest != NULL) {
        double value;
        struct import_word word[2];
        uint32_t found = import_words(rest, word, 2);
        if (found < 2 || !import_is(word[0], ":") || !import_number(word[1], &value)) {
            return import_error(parser->source, line, error, "expected \"Avg bus bandwidth : NUMBER\"");
        }
        parser->run.average = value;
        return STATUS_OK;
    }
    if (strstr(text, "test concluded") != NULL) {
        return STATUS_OK;
    }
    if (strstr(text, "nThread ") != NULL && strstr(text, "nGpus") != NULL) {
        return read_settings(parser, line, words, count, error);
    }
    bool starting = strstr(text, "Collective test starting") != NULL;
    if (starting || strstr(text, "Using devices") != NULL || strstr(text, "nccl-tests version") != NULL) {
        TRY(run_begin(parser, line, error));
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct nccl_program *program = nccl_program_of_word(words[i]);
        if (program != NULL) {
            parser->pending = program;
        }
    }
    if (starting && parser->pending != NULL) {
        parser->run.program = parser->pending;
        parser->pending = NULL;
    }
    return STATUS_OK;
}

static bool is_header(const struct import_word *words, uint32_t count)
{
    bool time = false, algbw = false, busbw = false;
    for (uint32_t i = 0; i < count; i++) {
        time = time || import_is(words[i], "time");
        algbw = algbw || import_is(words[i], "algbw");
        busbw = busbw || import_is(words[i], "busbw");
    }
    return time && algbw && busbw;
}

static bool is_row(const struct nccl_run *run, const struct import_word *words, uint32_t count)
{
    uint64_t ignored;
    bool strict = count >= 3 && import_whole(words[0], &ignored) && import_whole(words[1], &ignored) &&
                  isalpha((unsigned char)words[2].at[0]) && words[2].length < NCCL_WORD_BYTES;
    return strict ? run->header_line != 0 || count >= 11
                  : run->header_line != 0 && run->average < 0 && import_whole(words[0], &ignored);
}

static enum status read_line(struct nccl_parser *parser, uint32_t line, const char *text, struct error *error)
{
    struct import_word words[IMPORT_WORDS_MAX];
    const char *in_place = strstr(text, "in-place"), *out_of_place = strstr(text, "out-of-place");
    if (in_place != NULL && out_of_place != NULL && in_place < out_of_place) {
        return import_error(parser->source, line, error, "in-place before out-of-place: not columns of nccl-tests");
    }
    const char *data = text + strspn(text, " \t");
    data += *data == '#' && strstr(text, "#wrong") != data;
    uint32_t count = import_words(data, words, IMPORT_WORDS_MAX);
    if (count == 0) {
        return STATUS_OK;
    }
    if (is_header(words, count)) {
        return read_header(parser, line, words, count, error);
    }
    if (import_is(words[0], "Rank") || (import_is(words[0], "Device") && strstr(text, "->") != NULL)) {
        return read_rank(parser, line, words, count, text, error);
    }
    if (is_row(&parser->run, words, count)) {
        return read_row(parser, line, words, count, error);
    }
    return read_other(parser, line, text, words, count, error);
}

bool import_nccl_tests_mark(const char *line)
{
    struct import_word words[ROW_WORDS_MAX] = { { "", 0 } };
    line += strspn(line, " \t#");
    uint32_t count = import_words(line, words, ROW_WORDS_MAX);
    struct nccl_run none = { 0 };
    return is_header(words, count) || (import_is(words[0], "Rank") && strstr(line, " on ") != NULL) ||
           (strstr(line, "nThread ") != NULL && strstr(line, "nGpus") != NULL) || is_row(&none, words, count);
}

enum status import_nccl_tests(struct import_source *source, struct error *error)
{
    struct nccl_parser parser = { .source = source, .run = { .average = -1 } };
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < source->count; i++) {
        TRY_OR_FAIL(read_line(&parser, i + 1, source->lines[i], error));
    }
    TRY_OR_FAIL(nccl_run_finish(&parser, error));
    if (parser.runs == 0) {
        status = import_error(source, source->count, error, "no rows of measurements: the file is cut short");
    }
fail:
    nccl_run_clear(&parser.run);
    return status;
}
