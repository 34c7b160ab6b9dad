#include "validate/exec_host/host_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"

enum { WORD = sizeof(uint64_t) };

/* ---- life ---- */

static void free_buffers(struct host_check *check)
{
    free(check->buffers);
    free(check->is_marked);
    check->buffers = NULL;
    check->is_marked = NULL;
}

enum status host_check_init(struct host_check *check, struct error *error)
{
    check->buffers = calloc((size_t)check->schedule->buffer_count + 1, sizeof *check->buffers);
    check->is_marked = calloc((size_t)check->schedule->buffer_count + 1, sizeof *check->is_marked);
    if (check->buffers == NULL || check->is_marked == NULL) {
        free_buffers(check);
        return error_set(error, STATUS_NO_MEMORY, "no memory to check %u buffers", check->schedule->buffer_count);
    }
    if (pthread_mutex_init(&check->lock, NULL) != 0) {
        free_buffers(check);
        return error_set(error, STATUS_EXECUTION, "no lock for checks");
    }
    if (pthread_cond_init(&check->freed, NULL) != 0) {
        (void)pthread_mutex_destroy(&check->lock);
        free_buffers(check);
        return error_set(error, STATUS_EXECUTION, "no condition for checks");
    }
    return STATUS_OK;
}

void host_check_free(struct host_check *check)
{
    if (check->buffers != NULL) {
        (void)pthread_cond_destroy(&check->freed);
        (void)pthread_mutex_destroy(&check->lock);
        free_buffers(check);
    }
    *check = (struct host_check){ 0 };
}

/* ---- patterns ---- */

/* splitmix64's finalizer (Steele et al. 2014): neighbours share no byte but by chance. */
static uint64_t pattern_word(uint32_t buffer, uint32_t generation, uint64_t index)
{
    uint64_t z = ((uint64_t)buffer << 32 | generation) * 0x9e3779b97f4a7c15u + index * 0xd1342543de82ef95u + 1;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void host_check_pattern(const struct host_check *check, uint32_t buffer, uint64_t offset, uint8_t *out, uint64_t bytes)
{
    if (buffer == SCHED_NONE) {
        memset(out, HOST_SLAB_BYTE, bytes);
        return;
    }
    uint32_t generation = check->buffers[buffer].generation;
    while (bytes > 0) {
        uint64_t word = pattern_word(buffer, generation, offset / WORD), skip = offset % WORD;
        uint64_t n = bytes < WORD - skip ? bytes : WORD - skip;
        memcpy(out, (const uint8_t *)&word + skip, n);
        out += n;
        offset += n;
        bytes -= n;
    }
}

/* A buffer's memory, or where it stands in its file. Buffers of no bytes, and runtime buffers that no op touches, have none. */
struct place {
    uint8_t *data;
    struct host_storage *file;
    uint64_t bytes;
};

static struct place place_of(const struct host_check *check, uint32_t buffer)
{
    const struct sched_buffer *b = &check->schedule->buffers[buffer];
    bool is_file = check->schedule->spaces[b->space].kind == SPACE_STORAGE;
    struct place place = { .data = wet_pools_address(check->pools, buffer), .bytes = b->bytes };
    place.file = is_file ? &check->files[b->space] : NULL;
    place.bytes = place.data == NULL ? 0 : place.bytes;
    return place;
}

static enum status put(const struct place *place, uint64_t offset, const uint8_t *block, uint64_t bytes,
                       struct error *error)
{
    if (place->file == NULL) {
        memcpy(place->data + offset, block, bytes);
        return STATUS_OK;
    }
    return host_storage_write(place->file, (uint64_t)(uintptr_t)place->data + offset, block, bytes, NULL, error);
}

static enum status stamp(struct host_check *check, uint32_t buffer, struct error *error)
{
    struct place place = place_of(check, buffer);
    uint8_t block[HOST_CHECK_BLOCK_BYTES];
    check->buffers[buffer].generation++;
    for (uint64_t at = 0; at < place.bytes; at += sizeof block) {
        uint64_t n = place.bytes - at < sizeof block ? place.bytes - at : sizeof block;
        host_check_pattern(check, buffer, at, block, n);
        TRY(put(&place, at, block, n, error));
    }
    check->buffers[buffer].stamped = true;
    return STATUS_OK;
}

static enum status poison(struct host_check *check, uint32_t buffer, struct error *error)
{
    struct place place = place_of(check, buffer);
    uint8_t block[HOST_CHECK_BLOCK_BYTES];
    memset(block, HOST_POISON, sizeof block);
    for (uint64_t at = 0; at < place.bytes; at += sizeof block) {
        uint64_t n = place.bytes - at < sizeof block ? place.bytes - at : sizeof block;
        TRY(put(&place, at, block, n, error));
    }
    check->buffers[buffer].stamped = false;
    return STATUS_OK;
}

static uint64_t first_difference(const uint8_t *a, const uint8_t *b, uint64_t bytes)
{
    uint64_t i = 0;
    while (i < bytes && a[i] == b[i]) {
        i++;
    }
    return i;
}

static enum status wrong_byte(const struct host_check *check, uint32_t buffer, uint64_t offset, uint8_t found,
                              uint8_t expected, const char *of, struct error *error)
{
    const struct schedule *s = check->schedule;
    return error_set(
        error, STATUS_EXECUTION, "check: buffer %u \"%s\" in %s: byte %" PRIu64 " is 0x%02x, expected 0x%02x of %s%s",
        buffer, sched_label(s, s->buffers[buffer].label), sched_label(s, s->spaces[s->buffers[buffer].space].label),
        offset, found, expected, of, found == HOST_POISON ? " (released memory holds 0xdb)" : "");
}

static enum status verify(struct host_check *check, uint32_t buffer, struct error *error)
{
    const struct schedule *s = check->schedule;
    if (!wet_pools_is_live(check->pools, buffer) || !check->buffers[buffer].stamped) {
        return error_set(error, STATUS_EXECUTION, "check: buffer %u \"%s\" in %s is used, but not live", buffer,
                         sched_label(s, s->buffers[buffer].label),
                         sched_label(s, s->spaces[s->buffers[buffer].space].label));
    }
    struct place place = place_of(check, buffer);
    uint8_t expected[HOST_CHECK_BLOCK_BYTES], read[HOST_CHECK_BLOCK_BYTES];
    for (uint64_t at = 0; at < place.bytes; at += sizeof expected) {
        uint64_t n = place.bytes - at < sizeof expected ? place.bytes - at : sizeof expected;
        const uint8_t *found = place.data + at;
        if (place.file != NULL) {
            TRY(host_storage_read(place.file, (uint64_t)(uintptr_t)found, read, n, NULL, error));
            found = read;
        }
        host_check_pattern(check, buffer, at, expected, n);
        if (memcmp(found, expected, n) != 0) {
            uint64_t i = first_difference(found, expected, n);
            return wrong_byte(check, buffer, at + i, found[i], expected[i], "its own pattern", error);
        }
    }
    return STATUS_OK;
}

/* ---- steps ---- */

enum status host_check_begin_step(struct host_check *check, struct error *error)
{
    const struct schedule *s = check->schedule;
    for (uint32_t i = 0; i < s->op_count; i++) {
        for (uint32_t k = 0; s->ops[i].opcode == OP_MARK && k < s->ops[i].acquire_count; k++) {
            check->is_marked[sched_acquires(s, &s->ops[i])[k]] = true;
        }
    }
    for (uint32_t b = 0; b < check->schedule->buffer_count; b++) {
        bool stays =
            (check->schedule->buffers[b].flags & BUFFER_LIVE_AT_END) != 0; /* else released, and got again elsewhere */
        check->buffers[b].stamped = check->buffers[b].stamped && stays && wet_pools_is_live(check->pools, b);
        if (!check->buffers[b].stamped && wet_pools_is_live(check->pools, b)) {
            TRY(stamp(check, b, error));
        }
    }
    return STATUS_OK;
}

/* ---- claims ---- */

static bool is_collective(const struct sched_op *op)
{
    return opcode_work((enum opcode)op->opcode) == WORK_COLLECTIVE;
}

/* Operands stand in the order acquires, releases, reads, writes. */
static bool claims_to_write(const struct sched_op *op, uint32_t operand)
{
    uint32_t first_read = (uint32_t)op->acquire_count + op->release_count;
    return is_collective(op) || operand < first_read || operand >= first_read + op->read_count;
}

static uint32_t operand_count(const struct sched_op *op)
{
    return (uint32_t)op->acquire_count + op->release_count + op->read_count + op->write_count;
}

static bool all_free(const struct host_check *check, const uint32_t *ops, uint32_t op_count)
{
    const struct schedule *s = check->schedule;
    for (uint32_t i = 0; i < op_count; i++) {
        const struct sched_op *op = &s->ops[ops[i]];
        for (uint32_t k = 0; k < operand_count(op); k++) {
            int32_t users = check->buffers[s->operands[op->first_operand + k]].users;
            if (users < 0 || (users > 0 && claims_to_write(op, k))) {
                return false;
            }
        }
    }
    return true;
}

static bool take(struct host_check *check, const uint32_t *ops, uint32_t op_count)
{
    const struct schedule *s = check->schedule;
    bool shared = false;
    for (uint32_t i = 0; i < op_count; i++) {
        const struct sched_op *op = &s->ops[ops[i]];
        for (uint32_t k = 0; k < operand_count(op); k++) { /* held already here: by another op of the match */
            shared = shared || check->buffers[s->operands[op->first_operand + k]].users != 0;
        }
        for (uint32_t k = 0; k < operand_count(op); k++) {
            uint32_t buffer = s->operands[op->first_operand + k];
            int32_t *users = &check->buffers[buffer].users;
            *users = claims_to_write(op, k) ? -1 : *users < 0 ? -1 : *users + 1;
            /* The dispatcher does marks by itself: what one acquires is stamped for its first user, who alone has the lock. An error shows as "not live". */
            if (k >= op->acquire_count && !check->buffers[buffer].stamped && check->is_marked[buffer]) {
                check->is_marked[buffer] = false;
                (void)stamp(check, buffer, NULL);
            }
        }
    }
    return shared;
}

bool host_check_claim(struct host_check *check, const uint32_t *ops, uint32_t op_count, bool *shared)
{
    (void)pthread_mutex_lock(&check->lock);
    while (!host_is_cancelled(check->cancel) && !all_free(check, ops, op_count)) {
        (void)pthread_cond_wait(&check->freed, &check->lock);
    }
    bool cancelled = host_is_cancelled(check->cancel);
    *shared = !cancelled && take(check, ops, op_count);
    (void)pthread_mutex_unlock(&check->lock);
    return !cancelled;
}

void host_check_unclaim(struct host_check *check, const uint32_t *ops, uint32_t op_count)
{
    const struct schedule *s = check->schedule;
    (void)pthread_mutex_lock(&check->lock);
    for (uint32_t i = 0; i < op_count; i++) {
        const struct sched_op *op = &s->ops[ops[i]];
        for (uint32_t k = 0; k < operand_count(op); k++) {
            int32_t *users = &check->buffers[s->operands[op->first_operand + k]].users;
            *users = *users > 0 ? *users - 1 : 0;
        }
    }
    (void)pthread_cond_broadcast(&check->freed);
    (void)pthread_mutex_unlock(&check->lock);
}

void host_check_wake(struct host_check *check)
{
    (void)pthread_mutex_lock(&check->lock);
    (void)pthread_cond_broadcast(&check->freed);
    (void)pthread_mutex_unlock(&check->lock);
}

/* ---- ops ---- */

enum status host_check_open(struct host_check *check, uint32_t index, struct error *error)
{
    const struct schedule *s = check->schedule;
    const struct sched_op *op = &s->ops[index];
    for (uint32_t i = 0; i < op->acquire_count; i++) {
        TRY(stamp(check, sched_acquires(s, op)[i], error));
    }
    for (uint32_t k = op->acquire_count; k < operand_count(op); k++) {
        TRY(verify(check, s->operands[op->first_operand + k], error));
    }
    return STATUS_OK;
}

enum status host_check_close(struct host_check *check, uint32_t index, struct error *error)
{
    const struct schedule *s = check->schedule;
    const struct sched_op *op = &s->ops[index];
    for (uint32_t k = 0; k < operand_count(op); k++) {
        bool is_acquired = k < op->acquire_count;
        bool is_released = !is_acquired && k < (uint32_t)op->acquire_count + op->release_count;
        if (claims_to_write(op, k) && !is_released) {
            TRY(stamp(check, s->operands[op->first_operand + k], error));
        }
    }
    for (uint32_t i = 0; i < op->release_count; i++) {
        TRY(poison(check, sched_releases(s, op)[i], error));
    }
    return STATUS_OK;
}

enum status host_check_moved(struct host_check *check, const struct host_view *to, struct host_storage *file,
                             const struct host_view *from, uint64_t bytes, struct error *error)
{
    uint64_t end = bytes < to->bytes ? bytes : to->bytes;
    for (uint64_t at = 0; at < end;) {
        /* The last lap of the payload that covers this place. */
        uint64_t payload = at + (bytes - 1 - at) / to->bytes * to->bytes;
        struct host_cursor target = host_cursor_at(to, at), source = host_cursor_at(from, payload);
        const struct host_span *origin = &from->spans[source.span];
        uint8_t expected[HOST_CHECK_BLOCK_BYTES], read[HOST_CHECK_BLOCK_BYTES];
        uint64_t n = host_cursor_run(&source, bytes - payload < sizeof expected ? bytes - payload : sizeof expected);
        n = host_cursor_run(&target, n < end - at ? n : end - at);
        host_check_pattern(check, origin->buffer, source.at, expected, n);
        const uint8_t *found = host_cursor_data(&target);
        if (file != NULL) {
            TRY(host_storage_read(file, (uint64_t)(uintptr_t)found, read, n, NULL, error));
            found = read;
        }
        uint32_t buffer = to->spans[target.span].buffer;
        if (memcmp(found, expected, n) != 0 && buffer != SCHED_NONE) {
            uint64_t i = first_difference(found, expected, n);
            return wrong_byte(check, buffer, target.at + i, found[i], expected[i], "what was copied into it", error);
        }
        at += n;
    }
    return STATUS_OK;
}
