/* Status codes and the error record that every fallible function fills.
 *
 * A programmer's mistake asserts (see check.h). Bad input, a failing system call or a limit returns an `enum status`
 * and fills the caller's `struct error`, so that a person reads what was wrong, where, and what is allowed.
 *
 *     struct error error = { 0 };
 *     if (model_load(&model, "gpt.json", &error) != STATUS_OK) {
 *         fprintf(stderr, "%s\n", error_text(&error, buffer, sizeof buffer));
 *     }
 *
 * The record is plain data owned by the caller; an `error` argument may be NULL when only the status is of interest. */
#ifndef MEMWALL_BASE_STATUS_H
#define MEMWALL_BASE_STATUS_H

#include <stddef.h>

/* The one list of statuses: name, word for people. */
#define STATUS_TABLE(X)                                                                                                \
    X(STATUS_OK, "ok")                                                                                                 \
    X(STATUS_BAD_INPUT, "bad input")                                                                                   \
    X(STATUS_NOT_FOUND, "not found")                                                                                   \
    X(STATUS_UNSUPPORTED, "unsupported")                                                                               \
    X(STATUS_LIMIT, "limit exceeded")                                                                                  \
    X(STATUS_NO_MEMORY, "out of memory")                                                                               \
    X(STATUS_IO, "input/output error")                                                                                 \
    X(STATUS_DOES_NOT_FIT, "does not fit")                                                                             \
    X(STATUS_DEADLOCK, "deadlock")                                                                                     \
    X(STATUS_BAD_SCHEDULE, "invalid schedule")                                                                         \
    X(STATUS_BAD_TIMELINE, "inconsistent timeline")                                                                    \
    X(STATUS_EXECUTION, "execution failed")

enum status {
#define X(name, word) name,
    STATUS_TABLE(X)
#undef X
        STATUS_COUNT
};

enum { ERROR_MESSAGE_BYTES = 1024, ERROR_FILE_BYTES = 256, ERROR_PATH_BYTES = 256 };

struct error {
    enum status status;
    char message[ERROR_MESSAGE_BYTES]; /* what was found and what is allowed; no trailing newline */
    char file[ERROR_FILE_BYTES];       /* the file at fault, or "" */
    char path[ERROR_PATH_BYTES];       /* JSON path ("$.parallel.tensor") or "line 3 column 7", or "" */
    unsigned line;                     /* from 1, beside a JSON path when known; else 0 */
};

/* Fill `error` (may be NULL) and return `status`, so that `return error_set(...)` reads well. The message is cut to
 * fit; file, path and line are cleared. */
enum status error_set(struct error *error, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As error_set, and say where: `file` and `path` may be NULL. */
enum status error_at(struct error *error, enum status status, const char *file, const char *path, const char *format,
                     ...) __attribute__((format(printf, 5, 6)));

/* "file:line: path: message" in `buffer`, absent parts left out. Returns `buffer`. */
const char *error_text(const struct error *error, char *buffer, size_t size);

/* The word of STATUS_TABLE for `status`. */
const char *status_word(enum status status);

#endif
