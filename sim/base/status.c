#include "sim/base/status.h"

#include <stdarg.h>
#include <stdio.h>

static void fill(struct error *error, enum status status, const char *file, const char *path, const char *format,
                 va_list arguments) __attribute__((format(printf, 5, 0)));

static void fill(struct error *error, enum status status, const char *file, const char *path, const char *format,
                 va_list arguments)
{
    error->status = status;
    error->line = 0;
    (void)snprintf(error->file, sizeof error->file, "%s", file == NULL ? "" : file);
    (void)snprintf(error->path, sizeof error->path, "%s", path == NULL ? "" : path);
    (void)vsnprintf(error->message, sizeof error->message, format, arguments);
}

enum status error_set(struct error *error, enum status status, const char *format, ...)
{
    if (error != NULL) {
        va_list arguments;
        va_start(arguments, format);
        fill(error, status, NULL, NULL, format, arguments);
        va_end(arguments);
    }
    return status;
}

enum status error_at(struct error *error, enum status status, const char *file, const char *path, const char *format,
                     ...)
{
    if (error != NULL) {
        va_list arguments;
        va_start(arguments, format);
        fill(error, status, file, path, format, arguments);
        va_end(arguments);
    }
    return status;
}

const char *error_text(const struct error *error, char *buffer, size_t size)
{
    char line[32] = "";
    if (error->line != 0 && error->file[0] != '\0') {
        (void)snprintf(line, sizeof line, ":%u", error->line);
    }
    (void)snprintf(buffer, size, "%s%s%s%s%s%s", error->file, line, error->file[0] == '\0' ? "" : ": ", error->path,
                   error->path[0] == '\0' ? "" : ": ", error->message);
    return buffer;
}

const char *status_word(enum status status)
{
    static const char *const words[STATUS_COUNT] = {
#define X(name, word) [name] = word,
        STATUS_TABLE(X)
#undef X
    };
    return (unsigned)status < STATUS_COUNT ? words[status] : "unknown status";
}
