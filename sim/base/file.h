/* Whole files: read with a limit, write so that nobody ever sees half of one. */
#ifndef MEMWALL_BASE_FILE_H
#define MEMWALL_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "sim/base/status.h"

/* Read a whole regular file or pipe ("-": standard input) of at most `bytes_max` bytes into malloc'ed,
 * NUL-terminated memory that the caller frees. Directories, oversize and unreadable files are refused by name:
 * STATUS_NOT_FOUND, STATUS_LIMIT, STATUS_BAD_INPUT. */
enum status file_read(const char *path, size_t bytes_max, char **text, size_t *length, struct error *error);
/* Write to `path` through a temporary name in the same folder, flush, rename. On error nothing is left behind. */
enum status file_write(const char *path, const void *bytes, size_t length, struct error *error);
bool file_exists(const char *path);
/* mkdir -p. */
enum status folder_make(const char *path, struct error *error);

#endif
