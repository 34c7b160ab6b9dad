#include "sim/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/check.h"

enum { READ_STEP_BYTES = 1 << 16, TEMPORARY_TRIES = 100 };

static enum status too_large(const char *path, size_t bytes_max, struct error *error)
{
    return error_at(error, STATUS_LIMIT, path, NULL, "the file is larger than the %zu bytes allowed", bytes_max);
}

/* Read until the end; one byte more than allowed is enough to know. */
static enum status read_all(int fd, const char *path, size_t bytes_max, size_t expected, char **text, size_t *length,
                            struct error *error)
{
    enum status status = STATUS_OK;
    size_t used = 0, capacity = expected + 1;
    char *buffer = malloc(capacity);
    if (buffer == NULL) {
        return error_at(error, STATUS_NO_MEMORY, path, NULL, "out of memory reading the file");
    }
    for (;;) {
        if (used + 1 >= capacity) {
            size_t grown = capacity < READ_STEP_BYTES ? READ_STEP_BYTES : 2 * capacity;
            char *bigger = realloc(buffer, grown);
            if (bigger == NULL) {
                status = error_at(error, STATUS_NO_MEMORY, path, NULL, "out of memory reading the file");
                goto fail;
            }
            buffer = bigger;
            capacity = grown;
        }
        ssize_t got = read(fd, buffer + used, capacity - 1 - used);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            status = error_at(error, STATUS_BAD_INPUT, path, NULL, "cannot read: %s", strerror(errno));
            goto fail;
        }
        if (got == 0) {
            break;
        }
        used += (size_t)got;
        if (used > bytes_max) {
            status = too_large(path, bytes_max, error);
            goto fail;
        }
    }
    buffer[used] = '\0';
    *text = buffer;
    *length = used;
    return STATUS_OK;
fail:
    free(buffer);
    return status;
}

/* The message would begin with the name, and there is none. */
static enum status refuse_no_name(const char *path, struct error *error)
{
    return path[0] != '\0' ? STATUS_OK
                           : error_set(error, STATUS_BAD_INPUT, "the name of a file is empty (\"\"): give one");
}

enum status file_read(const char *path, size_t bytes_max, char **text, size_t *length, struct error *error)
{
    if (strcmp(path, "-") == 0) {
        return read_all(STDIN_FILENO, "standard input", bytes_max, 0, text, length, error);
    }
    TRY(refuse_no_name(path, error));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return error_at(error, errno == ENOENT || errno == ENOTDIR ? STATUS_NOT_FOUND : STATUS_BAD_INPUT, path, NULL,
                        "cannot open: %s", strerror(errno));
    }
    enum status status;
    struct stat info;
    if (fstat(fd, &info) != 0) {
        status = error_at(error, STATUS_BAD_INPUT, path, NULL, "cannot read: %s", strerror(errno));
    } else if (S_ISDIR(info.st_mode)) {
        status = error_at(error, STATUS_BAD_INPUT, path, NULL, "is a folder, expected a file");
    } else if (S_ISREG(info.st_mode) && (uint64_t)info.st_size > bytes_max) {
        status = too_large(path, bytes_max, error);
    } else {
        /* One byte beyond the expected size, so that a file of known size is read without growing. */
        size_t expected = S_ISREG(info.st_mode) ? (size_t)info.st_size + 1 : 0;
        status = read_all(fd, path, bytes_max, expected, text, length, error);
    }
    (void)close(fd);
    return status;
}

static enum status write_all(int fd, const char *path, const void *bytes, size_t length, struct error *error)
{
    const char *at = bytes;
    while (length != 0) {
        ssize_t put = write(fd, at, length);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            return error_at(error, STATUS_IO, path, NULL, "cannot write: %s", strerror(errno));
        }
        at += put;
        length -= (size_t)put;
    }
    return STATUS_OK;
}

/* A new file beside `path`. Not mkstemp: that would ignore the umask and make the file private. */
static int open_temporary(const char *path, char *temporary, size_t size)
{
    for (unsigned i = 0; i < TEMPORARY_TRIES; i++) {
        (void)snprintf(temporary, size, "%s.%ld-%u.tmp", path, (long)getpid(), i);
        int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) {
            return fd;
        }
    }
    return -1;
}

enum status file_write(const char *path, const void *bytes, size_t length, struct error *error)
{
    struct stat info;
    TRY(refuse_no_name(path, error));
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        /* /dev/stdout, a pipe: nothing to rename over. A folder is refused by open. */
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0) {
            return error_at(error, STATUS_IO, path, NULL, "cannot write: %s", strerror(errno));
        }
        enum status status = write_all(fd, path, bytes, length, error);
        if (close(fd) != 0 && status == STATUS_OK) {
            status = error_at(error, STATUS_IO, path, NULL, "cannot write: %s", strerror(errno));
        }
        return status;
    }
    size_t size = strlen(path) + 64;
    char *temporary = malloc(size);
    if (temporary == NULL) {
        return error_at(error, STATUS_NO_MEMORY, path, NULL, "out of memory writing the file");
    }
    enum status status = STATUS_OK;
    int fd = open_temporary(path, temporary, size);
    if (fd < 0) {
        status = error_at(error, STATUS_IO, path, NULL, "cannot create: %s", strerror(errno));
        free(temporary);
        return status;
    }
    status = write_all(fd, path, bytes, length, error);
    if (status == STATUS_OK && fsync(fd) != 0) {
        status = error_at(error, STATUS_IO, path, NULL, "cannot write: %s", strerror(errno));
    }
    if (close(fd) != 0 && status == STATUS_OK) {
        status = error_at(error, STATUS_IO, path, NULL, "cannot write: %s", strerror(errno));
    }
    if (status == STATUS_OK && rename(temporary, path) != 0) {
        status = error_at(error, STATUS_IO, path, NULL, "cannot rename into place: %s", strerror(errno));
    }
    if (status != STATUS_OK) {
        (void)unlink(temporary);
    }
    free(temporary);
    return status;
}

bool file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

enum status folder_make(const char *path, struct error *error)
{
    char *part = strdup(path);
    if (part == NULL) {
        return error_at(error, STATUS_NO_MEMORY, path, NULL, "out of memory making the folder");
    }
    enum status status = STATUS_OK;
    for (char *slash = part + (part[0] == '/' ? 1 : 0);; slash++) {
        slash = strchr(slash, '/');
        if (slash != NULL) {
            *slash = '\0';
        }
        if (part[0] != '\0' && mkdir(part, 0777) != 0) {
            struct stat info;
            int reason = errno;
            if (reason != EEXIST || stat(part, &info) != 0 || !S_ISDIR(info.st_mode)) {
                status =
                    error_at(error, STATUS_IO, path, NULL, "cannot make the folder \"%s\": %s", part, strerror(reason));
                break;
            }
        }
        if (slash == NULL) {
            break;
        }
        *slash = '/';
    }
    free(part);
    return status;
}
