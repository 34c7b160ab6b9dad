/* What the host's threads do: Adam, storage, delays. These queues are synchronous: an op ends when its function returns. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "validate/exec_cuda/cuda_run.h"
#include "validate/exec_cuda/gpu_pattern.h"

enum { ADAM_BLOCK = 1 << 16 /* parameters whose p, m, v and g lie together */, SECTOR = 4096 };

static enum status cancelled(struct error *error)
{
    return error_set(error, STATUS_EXECUTION, "cancelled");
}

/* -- Adam -- */

static enum status optimize(struct cuda_run *run, uint32_t op, struct error *error)
{
    struct cuda_queue *q = cuda_queue_of(run, op);
    uint64_t parameters = (uint64_t)ceil(run->schedule->works[cuda_op(run, op)->work].parameters);
    uint64_t held = q->pageable.bytes / HOST_ADAM_BYTES, block = held < ADAM_BLOCK ? held : ADAM_BLOCK;
    const struct host_adam_state state = { (float *)(void *)q->pageable.memory, block, block > 0 ? held / block : 0 };
    if (parameters == 0 || block == 0) {
        return STATUS_OK;
    }
    return host_adam_run(q->adam, &state, parameters) ? STATUS_OK : cancelled(error);
}

/* -- storage -- */

static const char *scratch_folder(const struct cuda_run *run)
{
    return run->options->scratch_folder != NULL ? run->options->scratch_folder : "/tmp";
}

/* One file for all storage spaces, without a name: it is gone when the run is, however that ends. Opened a second time to pass by the page cache where the file
 * system can. */
enum status cuda_storage_open(struct cuda_run *run, struct error *error)
{
    char path[4096], link[64];
    bool needed = false;
    for (uint32_t q = 0; q < run->schedule->queue_count; q++) {
        needed = needed || (cuda_queue_class(run, q) == QUEUE_STORAGE && run->queues[q].is_local);
    }
    if (!needed) {
        return STATUS_OK;
    }
    (void)snprintf(path, sizeof path, "%s/memwall-storage-XXXXXX", scratch_folder(run));
    run->storage_file = mkstemp(path);
    if (run->storage_file < 0) {
        return error_set(error, STATUS_IO, "cannot make a file that stands for storage in %s: %s", scratch_folder(run),
                         strerror(errno));
    }
    (void)unlink(path);
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", run->storage_file);
    run->storage_file_direct = open(link, O_RDWR | O_DIRECT | O_CLOEXEC);
    return STATUS_OK;
}

void cuda_storage_close(struct cuda_run *run)
{
    if (run->storage_file_direct >= 0) {
        (void)close(run->storage_file_direct);
    }
    if (run->storage_file >= 0) {
        (void)close(run->storage_file);
    }
    run->storage_file = run->storage_file_direct = -1;
}

static enum status transfer_file(const struct cuda_run *run, char *memory, uint64_t bytes, uint64_t offset, bool writes,
                                 struct error *error)
{
    bool direct = run->storage_file_direct >= 0 && bytes % SECTOR == 0 && offset % SECTOR == 0;
    int file = direct ? run->storage_file_direct : run->storage_file;
    for (uint64_t done = 0; done < bytes;) {
        if (host_is_cancelled(&run->cancel)) {
            return cancelled(error);
        }
        ssize_t moved = writes ? pwrite(file, memory + done, bytes - done, (off_t)(offset + done))
                               : pread(file, memory + done, bytes - done, (off_t)(offset + done));
        if (moved < 0 && errno == EINVAL && file == run->storage_file_direct) {
            file = run->storage_file; /* a file system that says yes to O_DIRECT and means no */
            continue;
        }
        if (moved < 0 && errno == EINTR) {
            continue;
        }
        if (moved < 0) {
            return error_set(error, STATUS_EXECUTION, "%s %llu bytes %s the file that stands for storage in %s: %s",
                             writes ? "writing" : "reading", (unsigned long long)bytes, writes ? "to" : "from",
                             scratch_folder(run), strerror(errno));
        }
        if (moved == 0) { /* never written: zeros, as from a disk */
            memset(memory + done, 0, bytes - done);
            break;
        }
        done += (uint64_t)moved;
    }
    return STATUS_OK;
}

static void fill(char *memory, uint64_t bytes, uint32_t seed)
{
    for (uint64_t i = 0; i < bytes; i++) {
        memory[i] = (char)gpu_pattern_byte(seed, i);
    }
}

static enum status verify(const char *memory, uint64_t bytes, uint32_t seed, struct error *error)
{
    for (uint64_t i = 0; i < bytes; i++) {
        if ((uint8_t)memory[i] != gpu_pattern_byte(seed, i)) {
            return error_set(error, STATUS_EXECUTION, "check: byte %llu of %llu did not come back from storage",
                             (unsigned long long)i, (unsigned long long)bytes);
        }
    }
    return STATUS_OK;
}

/* Where the op's data lies in the file: its own buffer, or the queue's place. */
static uint64_t file_offset(const struct cuda_run *run, uint32_t op, uint64_t bytes, bool writes)
{
    uint32_t buffer = cuda_find_operand(run, op, SPACE_STORAGE, SCHED_NONE, bytes, writes);
    if (buffer != SCHED_NONE) {
        return (uint64_t)(uintptr_t)wet_pools_address(run->pools, buffer);
    }
    return cuda_queue_of(run, op)->file_offset;
}

/* Between a host buffer and the file, by way of the pinned staging. --check writes a pattern and reads it back in both directions. */
static enum status store(struct cuda_run *run, uint32_t op, struct error *error)
{
    struct cuda_queue *q = cuda_queue_of(run, op);
    const struct sched_work *work = &run->schedule->works[cuda_op(run, op)->work];
    bool writes = cuda_op(run, op)->opcode == OP_STORAGE_WRITE;
    uint64_t bytes = (uint64_t)ceil(work->bytes), offset = file_offset(run, op, bytes, writes);
    uint32_t buffer =
        cuda_find_operand(run, op, work->pageable ? SPACE_HOST : SPACE_PINNED, SCHED_NONE, bytes, !writes);
    char *memory = buffer == SCHED_NONE ? NULL : wet_pools_address(run->pools, buffer), *staging = q->pinned.memory;
    for (uint64_t done = 0; done < bytes; done += q->pinned.bytes) {
        uint64_t part = bytes - done < q->pinned.bytes ? bytes - done : q->pinned.bytes;
        uint32_t seed = gpu_pattern_word(op + 1, done);
        if (run->options->check) {
            fill(staging, part, seed);
            TRY(transfer_file(run, staging, part, offset + done, true, error));
            fill(staging, part, seed + 1);
            TRY(transfer_file(run, staging, part, offset + done, false, error));
            TRY(verify(staging, part, seed, error));
        } else if (writes) {
            if (memory != NULL) {
                memcpy(staging, memory + done, part);
            }
            TRY(transfer_file(run, staging, part, offset + done, true, error));
        } else {
            TRY(transfer_file(run, staging, part, offset + done, false, error));
        }
        if (!writes && memory != NULL) {
            memcpy(memory + done, staging, part);
        }
    }
    return STATUS_OK;
}

/* -- opcodes -- */

enum status cuda_host_work(struct cuda_run *run, uint32_t op, struct error *error)
{
    const struct sched_op *o = cuda_op(run, op);
    if (o->work != SCHED_NONE && run->schedule->works[o->work].kind == WORK_FIXED) {
        int64_t end_ps = dispatch_clock_ps() + run->schedule->works[o->work].fixed_ps;
        return host_sleep_until(end_ps, &run->cancel) ? STATUS_OK : cancelled(error);
    }
    switch ((enum opcode)o->opcode) {
    case OP_HOST_OPTIMIZER: return optimize(run, op, error);
    case OP_STORAGE_READ:
    case OP_STORAGE_WRITE: return store(run, op, error);
    case OP_COMPUTE:
    case OP_ALL_REDUCE:
    case OP_ALL_GATHER:
    case OP_REDUCE_SCATTER:
    case OP_BROADCAST:
    case OP_ALL_TO_ALL:
    case OP_SEND:
    case OP_RECV:
    case OP_COPY_H2D:
    case OP_COPY_D2H:
    case OP_COPY_P2P:
    case OP_DELAY:
    case OP_MARK:
    case OPCODE_COUNT: break;
    }
    return STATUS_OK;
}
