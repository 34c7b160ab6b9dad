#include "validate/exec_host/host_storage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/check.h"

/* ---- the file ---- */

static int open_nameless(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) {
        return fd;
    }
    char path[4096];
    if (snprintf(path, sizeof path, "%s/memwall-XXXXXX", folder) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) {
        (void)unlink(path);
    }
    return fd;
}

/* The same file once more, around the page cache. */
static int open_direct(int fd)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
}

enum status host_storage_open(struct host_storage *storage, const char *folder, uint64_t bytes, bool through_cache,
                              struct error *error)
{
    *storage = (struct host_storage){ .fd = open_nameless(folder), .direct_fd = -1, .folder = folder };
    if (storage->fd < 0) {
        return error_set(error, STATUS_EXECUTION,
                         "no file for storage can be made in %s: %s; name another scratch folder", folder,
                         strerror(errno));
    }
    int reserved = bytes == 0 ? 0 : fallocate(storage->fd, 0, 0, (off_t)(bytes + HOST_STORAGE_ALIGN_BYTES));
    if (reserved != 0 && errno != EOPNOTSUPP) { /* not supported: the first write that finds no room says so */
        int reason = errno;
        host_storage_close(storage);
        return error_set(error, STATUS_EXECUTION, "no room for %" PRIu64 " bytes of storage in %s: %s", bytes, folder,
                         strerror(reason));
    }
    if (!through_cache) {
        storage->direct_fd = open_direct(storage->fd);
    }
    return STATUS_OK;
}

void host_storage_close(struct host_storage *storage)
{
    if (storage->direct_fd >= 0) {
        (void)close(storage->direct_fd);
    }
    if (storage->fd >= 0) {
        (void)close(storage->fd);
    }
    storage->fd = storage->direct_fd = -1;
}

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + HOST_STORAGE_ALIGN_BYTES - 1) / HOST_STORAGE_ALIGN_BYTES * HOST_STORAGE_ALIGN_BYTES;
}

static uint64_t map(void *context, uint64_t bytes)
{
    struct host_storage *storage = context;
    uint64_t address = HOST_STORAGE_ALIGN_BYTES + storage->mapped_bytes;
    if (bytes > INT64_MAX / 2 || storage->mapped_bytes > INT64_MAX / 2 - bytes) {
        return 0;
    }
    storage->mapped_bytes += round_up(bytes);
    return address;
}

static void unmap(void *context, uint64_t address, uint64_t bytes)
{
    (void)context;
    (void)address;
    (void)bytes; /* the file goes as a whole */
}

struct blockalloc_backing host_storage_backing(struct host_storage *storage)
{
    return (struct blockalloc_backing){ .context = storage, .map = map, .unmap = unmap };
}

/* ---- moving bytes ---- */

static enum status failed(const struct host_storage *storage, const char *what, uint64_t bytes, uint64_t offset,
                          struct error *error)
{
    return error_set(error, STATUS_EXECUTION, "%s %" PRIu64 " bytes of storage in %s (at %" PRIu64 "): %s", what, bytes,
                     storage->folder, offset, strerror(errno));
}

/* All of it; 0, or -1 with errno. */
static int write_all(int fd, const uint8_t *data, uint64_t bytes, uint64_t offset)
{
    while (bytes > 0) {
        ssize_t n = pwrite(fd, data, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            errno = n == 0 ? ENOSPC : errno;
            return -1;
        }
        data += n;
        offset += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return 0;
}

/* As write_all; what lies behind the end of the file is zero. */
static int read_all(int fd, uint8_t *data, uint64_t bytes, uint64_t offset)
{
    while (bytes > 0) {
        ssize_t n = pread(fd, data, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            memset(data, 0, bytes);
            return 0;
        }
        data += n;
        offset += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return 0;
}

enum status host_storage_write(struct host_storage *storage, uint64_t offset, const uint8_t *data, uint64_t bytes,
                               uint8_t *staging, struct error *error)
{
    for (uint64_t at = 0; at < bytes;) {
        uint64_t n = bytes - at < HOST_STORAGE_STAGING_BYTES ? bytes - at : HOST_STORAGE_STAGING_BYTES;
        int result = -1;
        errno = EINVAL;
        if (storage->direct_fd >= 0) {
            memcpy(staging, data + at, n);
            memset(staging + n, 0, round_up(n) - n); /* blocks of the allocator are whole granules */
            result = write_all(storage->direct_fd, staging, round_up(n), offset + at);
        }
        if (result != 0 && errno == EINVAL) { /* a drive of larger sectors */
            result = write_all(storage->fd, data + at, n, offset + at);
        }
        if (result != 0) {
            return failed(storage, "cannot write", bytes, offset, error);
        }
        at += n;
    }
    return STATUS_OK;
}

enum status host_storage_read(struct host_storage *storage, uint64_t offset, uint8_t *data, uint64_t bytes,
                              uint8_t *staging, struct error *error)
{
    for (uint64_t at = 0; at < bytes;) {
        uint64_t n = bytes - at < HOST_STORAGE_STAGING_BYTES ? bytes - at : HOST_STORAGE_STAGING_BYTES;
        int result = -1;
        errno = EINVAL;
        if (storage->direct_fd >= 0) {
            result = read_all(storage->direct_fd, staging, round_up(n), offset + at);
            memcpy(data + at, staging, result == 0 ? n : 0);
        }
        if (result != 0 && errno == EINVAL) {
            result = read_all(storage->fd, data + at, n, offset + at);
        }
        if (result != 0) {
            return failed(storage, "cannot read", bytes, offset, error);
        }
        at += n;
    }
    return STATUS_OK;
}

/* Where writes went through the cache: out to the drive, and forgotten. */
static enum status flush(struct host_storage *storage, uint64_t bytes, struct error *error)
{
    if (storage->direct_fd < 0 && fdatasync(storage->fd) != 0) {
        return failed(storage, "cannot flush", bytes, 0, error);
    }
    if (storage->direct_fd < 0) {
        (void)posix_fadvise(storage->fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    return STATUS_OK;
}

enum status host_storage_run(const struct host_storage_move *move, struct error *error)
{
    uint64_t left = move->bytes;
    if (left == 0) {
        return STATUS_OK;
    }
    struct host_cursor file = host_cursor_at(move->file, 0), memory = host_cursor_at(move->memory, 0);
    while (left > 0) {
        /* Pieces begin on whole blocks of the file: the memory side may end inside one, then that block is gathered in the middle of the staging block. */
        uint64_t n = host_cursor_run(&file, left < HOST_STORAGE_STAGING_BYTES ? left : HOST_STORAGE_STAGING_BYTES);
        uint8_t *gathered = move->staging + HOST_STORAGE_STAGING_BYTES;
        uint64_t offset = (uint64_t)(uintptr_t)host_cursor_data(&file);
        if (host_is_cancelled(move->cancel)) {
            return error_set(error, STATUS_EXECUTION, "cancelled");
        }
        bool whole = host_cursor_run(&memory, n) == n;
        uint8_t *data = whole ? host_cursor_data(&memory) : gathered;
        if (!move->writes) {
            TRY(host_storage_read(move->storage, offset, data, n, move->staging, error));
        }
        for (uint64_t at = 0; at < n;) {
            uint64_t run = host_cursor_run(&memory, n - at);
            if (!whole && move->writes) {
                memcpy(gathered + at, host_cursor_data(&memory), run);
            } else if (!whole) {
                memcpy(host_cursor_data(&memory), gathered + at, run);
            }
            host_cursor_move(&memory, run);
            at += run;
        }
        if (move->writes) {
            TRY(host_storage_write(move->storage, offset, data, n, move->staging, error));
        }
        host_cursor_move(&file, n);
        left -= n;
    }
    return move->writes ? flush(move->storage, move->bytes, error) : STATUS_OK;
}
