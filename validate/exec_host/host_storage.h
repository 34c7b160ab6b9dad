/* Files that stand for storage: nameless (O_TMPFILE, or unlinked as soon as made), so that nothing is left however the run ends.
 *
 * Reads and writes go around the page cache where the file system lets them (O_DIRECT, through an aligned staging block); else through it, and then written data is forced out
 * (fdatasync) and dropped from the cache, so that a later read comes from the drive. On a memory file system (tmpfs) both are copies in memory.
 * Bytes that were never written read as zero. A write past the cache that ends inside a block of HOST_STORAGE_ALIGN_BYTES clears the rest of it. */
#ifndef MEMWALL_EXEC_HOST_STORAGE_H
#define MEMWALL_EXEC_HOST_STORAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/status.h"
#include "sim/core/blockalloc.h"
#include "validate/exec_host/host_view.h"

enum { HOST_STORAGE_STAGING_BYTES = 4 << 20, HOST_STORAGE_ALIGN_BYTES = 512 /* blockalloc's granule */ };

struct host_storage {
    int fd;        /* -1: not open */
    int direct_fd; /* -1: the file system does not take O_DIRECT */
    const char *folder;
    uint64_t mapped_bytes; /* address ranges given away */
};

/* `through_cache`: do not even try O_DIRECT. `bytes` are set aside on the disk at once: STATUS_EXECUTION names folder and bytes when it has no room. `folder` must outlive the file.
 * After an error there is nothing to close. */
enum status host_storage_open(struct host_storage *storage, const char *folder, uint64_t bytes, bool through_cache,
                              struct error *error);
void host_storage_close(struct host_storage *storage); /* one that was never opened must have fd -1 */

/* Address ranges of the file for an allocator: offsets, from HOST_STORAGE_ALIGN_BYTES on. */
struct blockalloc_backing host_storage_backing(struct host_storage *storage);

/* One span of the file at `offset` (aligned) to or from memory. `staging`: twice HOST_STORAGE_STAGING_BYTES, aligned to pages (the second half is for host_storage_run). STATUS_EXECUTION names folder, bytes and reason. */
enum status host_storage_write(struct host_storage *storage, uint64_t offset, const uint8_t *data, uint64_t bytes,
                               uint8_t *staging, struct error *error);
enum status host_storage_read(struct host_storage *storage, uint64_t offset, uint8_t *data, uint64_t bytes,
                              uint8_t *staging, struct error *error);

/* `bytes` from the front of `memory` to the front of `file` (spans of it are offsets), or back, round and round as host_view_copy; and a flush when written through the
 * cache. STATUS_EXECUTION also when cancelled. */
struct host_storage_move {
    struct host_storage *storage;
    const struct host_view *memory, *file;
    uint64_t bytes;
    bool writes;
    uint8_t *staging;
    const struct host_cancel *cancel;
};
enum status host_storage_run(const struct host_storage_move *move, struct error *error);

#endif
