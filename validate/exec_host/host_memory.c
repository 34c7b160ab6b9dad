#include "validate/exec_host/host_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* Huge pages where the system has them: first touches cost a fortieth, and steps suffer fewer misses of the address cache, as on devices. */
static void *map_pages(uint64_t bytes)
{
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
        return NULL;
    }
    (void)madvise(data, bytes, MADV_HUGEPAGE); /* refused: small pages */
    return data;
}

enum status host_region_map(struct host_region *region, uint64_t bytes, const char *what, struct error *error)
{
    *region = (struct host_region){ 0 };
    if (bytes == 0) {
        return STATUS_OK;
    }
    region->data = map_pages(bytes);
    if (region->data == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %s: %" PRIu64 " bytes", what, bytes);
    }
    region->bytes = bytes;
    return STATUS_OK;
}

void host_region_unmap(struct host_region *region)
{
    if (region->data != NULL) {
        (void)munmap(region->data, region->bytes);
    }
    *region = (struct host_region){ 0 };
}

static uint64_t map(void *context, uint64_t bytes)
{
    const struct host_memory *memory = context;
    void *data = map_pages(bytes);
    if (data != NULL && memory->is_pinned) {
        (void)mlock2(data, bytes, MLOCK_ONFAULT); /* refused: not locked, as the header says */
    }
    return (uint64_t)(uintptr_t)data;
}

static void unmap(void *context, uint64_t address, uint64_t bytes)
{
    (void)context;
    (void)munmap((void *)(uintptr_t)address, bytes);
}

struct blockalloc_backing host_memory_backing(struct host_memory *memory)
{
    return (struct blockalloc_backing){ .context = memory, .map = map, .unmap = unmap };
}

uint64_t host_memory_free_bytes(void)
{
    char line[128];
    uint64_t kib = 0;
    bool found = false;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        found = sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return found && kib < UINT64_MAX / 1024 ? kib * 1024 : UINT64_MAX;
}
