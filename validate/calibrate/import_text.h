/* What the importers share: a pasted file as clean lines, words of a line, strict numbers, points with their source, notes for people, errors with their line.
 *
 * A line is clean without its end, terminal colours, and what launchers put before it ("[1,0]<stdout>:", "0: "); lines of a launcher's standard error are empty.
 * All memory belongs to the source; lines live until import_close. */
#ifndef MEMWALL_VALIDATE_IMPORT_TEXT_H
#define MEMWALL_VALIDATE_IMPORT_TEXT_H

#include "validate/calibrate/import.h"

enum {
    IMPORT_WORDS_MAX = 640,
    IMPORT_QUOTE_BYTES = 64,
    IMPORT_NAME_BYTES = 100,
    IMPORT_LABEL_BYTES = POINT_SOURCE_BYTES
};

struct import_source {
    const char *path;
    char name[IMPORT_NAME_BYTES]; /* the path's last part, printable */
    const char *system;           /* NULL: not said */
    char *text;
    char **lines; /* line 1 is lines[0] */
    uint32_t count;
    bool open_end; /* the last line has no end: it may be cut */
    struct points *points;
    struct draft *draft;
    struct import_result *result;
    uint32_t notes;
    char label[IMPORT_LABEL_BYTES]; /* the source of the points that follow */
};

struct import_word {
    const char *at;
    size_t length;
};

/* Read and clean. Errors: no such file, more than 64 MiB, lines of more than 64 KiB, NUL bytes (with the line), UTF-16. */
enum status import_open(struct import_source *source, const char *path, struct error *error);
void import_close(struct import_source *source);

/* Split at blanks; at most `max` words. */
uint32_t import_words(const char *line, struct import_word *words, uint32_t max);
/* Split at commas; a field may stand in double quotes (doubled inside). Fields are cut in place. UINT32_MAX: more than `max`, or a quote without its end. */
uint32_t import_fields(char *line, char **fields, uint32_t max);
bool import_is(struct import_word word, const char *text);
/* A plain decimal number that fills the word: no hexadecimal, infinities or NaN. */
bool import_number(struct import_word word, double *value);
bool import_number_text(const char *text, double *value);
/* Digits only, below 1e15. */
bool import_whole(struct import_word word, uint64_t *value);
bool import_blank(const char *line);
/* A piece of the file fit for a message: printable, at most 48 bytes. `buffer` has IMPORT_QUOTE_BYTES. */
const char *import_quote(const char *text, size_t length, char *buffer);

/* Lower case, letters and digits only: "All-Reduce_perf" is "allreduceperf". */
void import_squeeze(const char *text, size_t length, char *out, size_t size);

/* Add a point whose source is source->label. What points_add refuses is an error of this line. */
enum status import_add(struct import_source *source, uint32_t line, const struct point *point, struct error *error);
/* line 0: of the whole file. */
enum status import_error(const struct import_source *source, uint32_t line, struct error *error, const char *format,
                         ...) __attribute__((format(printf, 4, 5)));
void import_note(struct import_source *source, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Count rows that were passed over; say why, line 0 without the line. */
void import_skip(struct import_source *source, uint32_t line, uint32_t rows, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The formats. Each reads the whole file. */
enum status import_nccl_tests(struct import_source *source, struct error *error);
enum status import_nvbandwidth(struct import_source *source, struct error *error);
enum status import_bandwidth_test(struct import_source *source, struct error *error);
enum status import_topology(struct import_source *source, struct error *error);
enum status import_kernel_csv(struct import_source *source, struct error *error);
enum status import_all_reduce_csv(struct import_source *source, struct error *error);
enum status import_links_csv(struct import_source *source, struct error *error);

/* Whether a line is one by which the format is known. */
bool import_nccl_tests_mark(const char *line);
bool import_nvbandwidth_mark(const char *line);
bool import_bandwidth_test_mark(const char *line);
bool import_topology_mark(const char *line);

/* Bus bandwidth over size/time of one collective: nccl-tests doc/PERFORMANCE.md. */
double import_bus_factor(enum collective_kind kind, uint32_t ranks);
/* The GPU's name goes into the draft unless it has one. */
void import_gpu_name(struct import_source *source, const char *name, size_t length);

#endif
