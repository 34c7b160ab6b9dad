/* The spaces of a run as memory and files, and their end. */
#include "sim/base/check.h"
#include "validate/exec_host/host_run.h"

static enum blockalloc_kind allocator_kind(const struct software *software)
{
    if (software == NULL) {
        return BLOCKALLOC_BEST_FIT;
    }
    switch (software->allocator) {
    case ALLOCATOR_EXACT: /* counts bytes; real blocks need places, and one mapping that stays touched */
    case ALLOCATOR_BEST_FIT: return BLOCKALLOC_BEST_FIT;
    case ALLOCATOR_CACHING: return BLOCKALLOC_CACHING;
    }
    check_failed("every allocator has a kind", __FILE__, __LINE__);
}

static const char *scratch_folder(const struct host_run *run)
{
    return run->options->scratch_folder == NULL ? "/tmp" : run->options->scratch_folder;
}

/* Places in the scratch file for queues whose ops name no buffer in storage. */
static enum status open_scratch(struct host_run *run, struct error *error)
{
    const struct schedule *s = run->schedule;
    uint64_t bytes = 0;
    for (uint32_t q = 0; q < s->queue_count; q++) {
        run->queues[q].file_offset = HOST_STORAGE_ALIGN_BYTES + bytes;
        bytes += (run->queues[q].needs.file_bytes + HOST_STORAGE_ALIGN_BYTES - 1) / HOST_STORAGE_ALIGN_BYTES *
                 HOST_STORAGE_ALIGN_BYTES;
    }
    return bytes == 0
               ? STATUS_OK
               : host_storage_open(&run->files[s->space_count], scratch_folder(run), bytes, run->options->check, error);
}

enum status host_make_spaces(struct host_run *run, struct error *error)
{
    const struct schedule *s = run->schedule;
    struct wet_space *spaces = arena_array(&run->arena, struct wet_space, s->space_count);
    run->memories = arena_array(&run->arena, struct host_memory, s->space_count);
    struct host_storage *files = arena_array(&run->arena, struct host_storage, (size_t)s->space_count + 1);
    if (spaces == NULL || run->memories == NULL || files == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u spaces", s->space_count);
    }
    for (uint32_t i = 0; i <= s->space_count; i++) {
        files[i].fd = files[i].direct_fd = -1;
    }
    run->files = files; /* from here on host_run_free closes them */
    for (uint32_t i = 0; i < s->space_count; i++) {
        if (s->spaces[i].kind == SPACE_STORAGE) {
            TRY(host_storage_open(&files[i], scratch_folder(run), run->space_peaks[i], run->options->check, error));
            spaces[i] = (struct wet_space){ BLOCKALLOC_BEST_FIT, host_storage_backing(&files[i]) };
        } else {
            run->memories[i].is_pinned = s->spaces[i].kind == SPACE_PINNED;
            spaces[i].kind =
                s->spaces[i].kind == SPACE_DEVICE ? allocator_kind(run->options->software) : BLOCKALLOC_BEST_FIT;
            spaces[i].backing = host_memory_backing(&run->memories[i]);
        }
    }
    TRY(open_scratch(run, error));
    TRY(wet_pools_new(&run->pools, s, spaces, error));
    run->check = (struct host_check){ .schedule = s, .pools = run->pools, .files = files, .cancel = &run->cancel };
    return run->options->check ? host_check_init(&run->check, error) : STATUS_OK;
}

void host_run_free(struct host_run *run)
{
    for (uint32_t q = 0; run->queues != NULL && q < run->schedule->queue_count; q++) {
        host_queue_leave(run, q);
    }
    host_check_free(&run->check);
    wet_pools_free(run->pools);
    for (uint32_t i = 0; run->files != NULL && i <= run->schedule->space_count; i++) {
        host_storage_close(&run->files[i]);
    }
    arena_free(&run->arena);
}
