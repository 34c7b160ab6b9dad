/* sched_verify: the parts in their order. Here: what can be said of each record by itself and of its neighbours. */
#include "sim/ir/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/printable.h"
#include "sim/ir/verify_internal.h"

#define BAD(v, ...) error_set((v)->error, STATUS_BAD_SCHEDULE, __VA_ARGS__)

const char *verify_op_name(const struct verifier *v, uint32_t op, char buffer[OP_NAME_BYTES])
{
    int length = snprintf(buffer, OP_NAME_BYTES, "op %u, ", op);
    (void)sched_op_text(v->s, op, buffer + length, OP_NAME_BYTES - (size_t)length);
    return buffer;
}

void *verify_alloc(struct verifier *v, size_t count, size_t size)
{
    CHECK(v->block_count < VERIFY_BLOCKS_MAX);
    void *block = calloc(count + 1, size);
    if (block == NULL) {
        (void)error_set(v->error, STATUS_NO_MEMORY, "out of memory: verifying a schedule of %u ops", v->s->op_count);
        return NULL;
    }
    v->blocks[v->block_count++] = block;
    return block;
}

/* -- texts, places, buffers -- */

static enum status check_text(struct verifier *v)
{
    const struct schedule *s = v->s;
    if (s->text_bytes == 0 || s->text[0] != '\0' || s->text[s->text_bytes - 1] != '\0') {
        return BAD(v, "labels must begin with the empty one and end");
    }
    for (size_t i = 0; i < s->text_bytes;) {
        unsigned count = (unsigned char)s->text[i] < 0x80 ? 1 : utf8_bytes(s->text, s->text_bytes, i);
        if (count == 0) {
            return BAD(v, "a label is not UTF-8 text (byte %zu)", i);
        }
        if (s->text[i] != '\0' && is_control(s->text + i)) {
            return BAD(v, "a label holds a control character (byte %zu)", i);
        }
        i += count;
    }
    return STATUS_OK;
}

/* Minus zero would be equal to zero and hash otherwise. */
static enum status check_totals(struct verifier *v)
{
    const struct schedule *s = v->s;
    const uint32_t counts[] = { s->rank_count,    s->queue_count,      s->space_count,     s->buffer_count,
                                s->op_count,      s->work_count,       s->work_item_count, s->kernel_count,
                                s->group_count,   s->match_count,      s->device_count,    s->group_member_count,
                                s->operand_count, s->dependency_count, s->text_bytes };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        if (counts[i] > SCHED_COUNT_MAX) {
            return BAD(v, "an array has %u records, at most %d are allowed", counts[i], SCHED_COUNT_MAX);
        }
    }
    if (!verify_quantity(s->model_flops) || !verify_quantity(s->samples) || !verify_quantity(s->tokens)) {
        return BAD(v, "model_flops, samples and tokens must be finite and not negative");
    }
    return STATUS_OK;
}

static enum status check_spaces(struct verifier *v)
{
    const struct schedule *s = v->s;
    for (uint32_t i = 0; i < s->space_count; i++) {
        const struct sched_space *space = &s->spaces[i];
        if (space->kind >= SPACE_KIND_COUNT || space->label >= s->text_bytes ||
            (space->reserved[0] | space->reserved[1]) != 0) {
            return BAD(v, "space %u: its kind or label is out of range", i);
        }
        if (space->exact_blocks > (space->kind == SPACE_PINNED ? 1 : 0)) {
            return BAD(v, "space %u \"%s\": only page-locked memory has exact blocks or rounded ones", i,
                       sched_label(s, space->label));
        }
        if (space->parent != SCHED_NONE && space->parent >= i) {
            return BAD(v, "space %u \"%s\": its parent must be a space before it, found %u", i,
                       sched_label(s, space->label), space->parent);
        }
        if (space->capacity_bytes > SCHED_INTEGER_MAX && space->capacity_bytes != UINT64_MAX) {
            return BAD(v, "space %u \"%s\": its capacity must be below 2^53 bytes or unlimited", i,
                       sched_label(s, space->label));
        }
    }
    return STATUS_OK;
}

static enum status check_buffers(struct verifier *v)
{
    const struct schedule *s = v->s;
    uint64_t total = 0;
    for (uint32_t i = 0; i < s->buffer_count; i++) {
        const struct sched_buffer *b = &s->buffers[i];
        if (b->space >= s->space_count || b->label >= s->text_bytes || b->buffer_class >= BUFFER_CLASS_COUNT ||
            (b->flags & ~(BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END)) != 0 || (b->reserved[0] | b->reserved[1]) != 0) {
            return BAD(v, "buffer %u: its space, class, label or flags are out of range", i);
        }
        uint64_t bytes;
        if (b->copies == 0 || b->bytes > SCHED_INTEGER_MAX || __builtin_mul_overflow(b->bytes, b->copies, &bytes) ||
            __builtin_add_overflow(total, bytes, &total) || total > INT64_MAX) {
            return BAD(v,
                       "buffer %u \"%s\": %u copies of %llu bytes; copies start at 1, all buffers together may have "
                       "2^63 bytes",
                       i, sched_label(s, b->label), b->copies, (unsigned long long)b->bytes);
        }
    }
    return STATUS_OK;
}

/* -- ranks and queues -- */

static enum status check_queues(struct verifier *v)
{
    const struct schedule *s = v->s;
    uint32_t rank = 0;
    v->rank_first_queue = verify_array(v, uint32_t, s->rank_count + 1);
    v->local_queue = verify_array(v, uint8_t, s->queue_count);
    v->queue_first = verify_array(v, uint32_t, s->queue_count);
    if (v->rank_first_queue == NULL || v->local_queue == NULL || v->queue_first == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < s->queue_count; i++) {
        const struct sched_queue *q = &s->queues[i];
        if (q->rank >= s->rank_count || q->label >= s->text_bytes || q->queue_class >= QUEUE_CLASS_COUNT ||
            (q->reserved[0] | q->reserved[1] | q->reserved[2]) != 0) {
            return BAD(v, "queue %u: its rank, class or label is out of range", i);
        }
        if (q->rank < rank) {
            return BAD(v, "queue %u: queues must stand in the order of their ranks", i);
        }
        while (rank < q->rank) {
            v->rank_first_queue[++rank] = i;
        }
        uint32_t local = i - v->rank_first_queue[rank];
        if (local >= SCHED_RANK_QUEUES_MAX) {
            return BAD(v, "rank %u has more than %d queues", rank, SCHED_RANK_QUEUES_MAX);
        }
        v->local_queue[i] = (uint8_t)local;
        v->queue_first[i] = SCHED_NONE;
    }
    while (rank < s->rank_count) {
        v->rank_first_queue[++rank] = s->queue_count;
    }
    return STATUS_OK;
}

static enum status check_ranks(struct verifier *v)
{
    const struct schedule *s = v->s;
    uint32_t devices = 0, ops = 0;
    for (uint32_t i = 0; i < s->rank_count; i++) {
        const struct sched_rank *r = &s->ranks[i];
        if (r->label >= s->text_bytes || r->first_device != devices || r->device_count == 0 ||
            r->device_count > s->device_count - devices || r->first_op != ops || r->op_count > s->op_count - ops) {
            return BAD(v, "rank %u: its devices and ops must follow those of the rank before", i);
        }
        devices += r->device_count;
        ops += r->op_count;
    }
    if (devices != s->device_count || ops != s->op_count) {
        return BAD(v, "devices or ops that no rank holds");
    }
    return STATUS_OK;
}

/* -- ops -- */

/* ops.def as bits, for the loop over all ops. */
struct rules {
    uint8_t queues[OPCODE_COUNT], work[OPCODE_COUNT];
    bool matches[OPCODE_COUNT];
};

static void rules_fill(struct rules *rules)
{
    for (unsigned i = 0; i < OPCODE_COUNT; i++) {
        rules->queues[i] = 0;
        for (unsigned q = 0; q < QUEUE_CLASS_COUNT; q++) {
            bool allowed = opcode_allows_queue((enum opcode)i, (enum queue_class)q);
            rules->queues[i] = (uint8_t)(rules->queues[i] | (allowed ? 1u << q : 0));
        }
        rules->work[i] = (uint8_t)opcode_work((enum opcode)i);
        rules->matches[i] = opcode_match((enum opcode)i) != MATCH_NONE;
    }
}

static enum status check_op_fields(struct verifier *v, const struct rules *rules, uint32_t index, uint32_t rank)
{
    enum { FLAGS = OP_FLAG_HOST_WAITS | OP_FLAG_MICRO_BATCH | OP_FLAG_STEP | OP_FLAG_RECOMPUTE | OP_FLAG_BUSY_HOST };
    const struct schedule *s = v->s;
    const struct sched_op *op = &s->ops[index];
    char name[OP_NAME_BYTES];
    if (op->queue >= s->queue_count || s->queues[op->queue].rank != rank) {
        return BAD(v, "op %u: its queue %u is not one of rank %u", index, op->queue, rank);
    }
    if (op->opcode >= OPCODE_COUNT || op->phase >= PHASE_COUNT || (op->flags & ~FLAGS) != 0 || op->reserved != 0) {
        return BAD(v, "op %u: its opcode, phase or flags are out of range", index);
    }
    if ((rules->queues[op->opcode] >> s->queues[op->queue].queue_class & 1u) == 0) {
        return BAD(v, "%s: a %s queue cannot run it", verify_op_name(v, index, name),
                   queue_class_word((enum queue_class)s->queues[op->queue].queue_class));
    }
    enum work_kind wanted = (enum work_kind)rules->work[op->opcode];
    bool has_work = op->work < s->work_count;
    if (wanted == WORK_NONE
            ? op->work != SCHED_NONE
            : !has_work || (s->works[op->work].kind != wanted && s->works[op->work].kind != WORK_FIXED)) {
        return BAD(v, "%s: it needs work of kind %s", verify_op_name(v, index, name), work_kind_word(wanted));
    }
    if (rules->matches[op->opcode] ? op->match >= s->match_count : op->match != SCHED_NONE) {
        return BAD(v, "%s: it %s", verify_op_name(v, index, name),
                   rules->matches[op->opcode] ? "needs a match" : "cannot have a match");
    }
    return STATUS_OK;
}

static enum status check_dependencies(struct verifier *v, uint32_t index, uint32_t first_op)
{
    const struct schedule *s = v->s;
    const struct sched_op *op = &s->ops[index];
    char name[OP_NAME_BYTES];
    for (uint32_t i = 0, last = first_op; i < op->dependency_count; i++) {
        uint32_t dependency = s->dependencies[op->first_dependency + i];
        if (dependency < last || dependency >= index) {
            return BAD(v, "%s: it depends on op %u; dependencies are earlier ops of its rank, rising, each once",
                       verify_op_name(v, index, name), dependency);
        }
        if (s->ops[dependency].queue == op->queue) {
            return BAD(v, "%s: it depends on op %u of its own queue, whose order says that",
                       verify_op_name(v, index, name), dependency);
        }
        last = dependency + 1;
    }
    return STATUS_OK;
}

static enum status note_life(struct verifier *v, uint32_t index, uint32_t buffer, uint32_t *place, const char *verb,
                             unsigned forbidden)
{
    char name[OP_NAME_BYTES], other[OP_NAME_BYTES];
    const struct sched_buffer *at = &v->s->buffers[buffer];
    if ((at->flags & forbidden) != 0) {
        return BAD(v, "%s: %ss buffer %u \"%s\", which is marked live at the %s", verify_op_name(v, index, name), verb,
                   buffer, sched_label(v->s, at->label), forbidden == BUFFER_LIVE_AT_START ? "start" : "end");
    }
    if (*place != SCHED_NONE) {
        return BAD(v, "%s: %ss buffer %u \"%s\" again, after %s", verify_op_name(v, index, name), verb, buffer,
                   sched_label(v->s, at->label), verify_op_name(v, *place, other));
    }
    *place = index;
    return STATUS_OK;
}

static enum status check_operands(struct verifier *v, uint32_t index)
{
    const struct schedule *s = v->s;
    const struct sched_op *op = &s->ops[index];
    const uint32_t *operands = s->operands + op->first_operand;
    uint32_t releases = op->acquire_count + op->release_count;
    uint32_t count = releases + op->read_count + op->write_count;
    for (uint32_t i = 0; i < count; i++) {
        if (operands[i] >= s->buffer_count) {
            return BAD(v, "op %u: operand %u is buffer %u, there are %u", index, i, operands[i], s->buffer_count);
        }
    }
    for (uint32_t i = 0; i < op->acquire_count; i++) {
        TRY(note_life(v, index, operands[i], &v->lives[operands[i]].acquirer, "acquire", BUFFER_LIVE_AT_START));
    }
    for (uint32_t i = op->acquire_count; i < releases; i++) {
        TRY(note_life(v, index, operands[i], &v->lives[operands[i]].releaser, "release", BUFFER_LIVE_AT_END));
    }
    return STATUS_OK;
}

/* Queue lists from the back, so that each op learns its successor. */
static enum status link_queues(struct verifier *v, bool fences)
{
    const struct schedule *s = v->s;
    v->next_in_queue = verify_array(v, uint32_t, s->op_count);
    v->fence = fences ? verify_array(v, uint32_t, s->op_count) : NULL;
    if (v->next_in_queue == NULL || (fences && v->fence == NULL)) {
        return STATUS_NO_MEMORY;
    }
    for (uint32_t i = s->op_count; i-- > 0;) {
        uint32_t *first = &v->queue_first[s->ops[i].queue];
        v->next_in_queue[i] = *first;
        *first = i;
    }
    for (uint32_t r = 0; fences && r < s->rank_count; r++) {
        uint32_t fence = SCHED_NONE;
        for (uint32_t i = s->ranks[r].first_op; i < s->ranks[r].first_op + s->ranks[r].op_count; i++) {
            v->fence[i] = fence;
            fence = (s->ops[i].flags & OP_FLAG_HOST_WAITS) != 0 ? i : fence;
        }
    }
    return STATUS_OK;
}

static enum status check_ops(struct verifier *v)
{
    const struct schedule *s = v->s;
    struct rules rules;
    uint32_t operands = 0, dependencies = 0;
    unsigned flags = 0;
    rules_fill(&rules);
    v->lives = verify_array(v, struct buffer_life, s->buffer_count);
    if (v->lives == NULL) {
        return STATUS_NO_MEMORY;
    }
    memset(v->lives, 0xff, s->buffer_count * sizeof *v->lives); /* SCHED_NONE */
    for (uint32_t r = 0; r < s->rank_count; r++) {
        uint32_t first = s->ranks[r].first_op, end = first + s->ranks[r].op_count;
        for (uint32_t i = first; i < end; i++) {
            const struct sched_op *op = &s->ops[i];
            uint32_t count = (uint32_t)op->acquire_count + op->release_count + op->read_count + op->write_count;
            if (op->first_operand != operands || count > s->operand_count - operands ||
                op->first_dependency != dependencies || op->dependency_count > s->dependency_count - dependencies) {
                return BAD(v, "op %u: its operands and dependencies must follow those of the op before", i);
            }
            operands += count;
            dependencies += op->dependency_count;
            flags |= op->flags;
            TRY(check_op_fields(v, &rules, i, r));
            TRY(check_dependencies(v, i, first));
            TRY(check_operands(v, i));
        }
    }
    if (operands != s->operand_count || dependencies != s->dependency_count) {
        return BAD(v, "operands or dependencies that no op holds");
    }
    return link_queues(v, (flags & OP_FLAG_HOST_WAITS) != 0);
}

static enum status check_lives(struct verifier *v)
{
    const struct schedule *s = v->s;
    for (uint32_t i = 0; i < s->buffer_count; i++) {
        const struct sched_buffer *b = &s->buffers[i];
        if ((b->flags & BUFFER_LIVE_AT_START) == 0 && v->lives[i].acquirer == SCHED_NONE) {
            return BAD(v, "buffer %u \"%s\" is never acquired and not marked live at the start", i,
                       sched_label(s, b->label));
        }
        if ((b->flags & BUFFER_LIVE_AT_END) == 0 && v->lives[i].releaser == SCHED_NONE) {
            return BAD(v, "buffer %u \"%s\" is never released and not marked live at the end", i,
                       sched_label(s, b->label));
        }
    }
    return STATUS_OK;
}

/* Last of all, and a status of its own: the schedule is right, the machine is small. */
static enum status check_start(struct verifier *v)
{
    const struct schedule *s = v->s;
    uint64_t *live = verify_array(v, uint64_t, s->space_count);
    if (live == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < s->buffer_count; i++) {
        const struct sched_buffer *b = &s->buffers[i];
        if ((b->flags & BUFFER_LIVE_AT_START) != 0) {
            live[b->space] += b->bytes * b->copies;
        }
    }
    for (uint32_t i = s->space_count; i-- > 0;) { /* parents stand before their children */
        const struct sched_space *space = &s->spaces[i];
        if (live[i] > space->capacity_bytes) {
            return error_set(v->error, STATUS_DOES_NOT_FIT,
                             "space %u \"%s\" holds %llu bytes, but the buffers live at the start need %llu", i,
                             sched_label(s, space->label), (unsigned long long)space->capacity_bytes,
                             (unsigned long long)live[i]);
        }
        if (space->parent != SCHED_NONE) {
            live[space->parent] += live[i];
        }
    }
    return STATUS_OK;
}

enum status sched_verify(const struct schedule *schedule, struct error *error)
{
    struct verifier v = { .s = schedule, .error = error };
    enum status status;
    TRY_OR_FAIL(check_totals(&v));
    TRY_OR_FAIL(check_text(&v));
    TRY_OR_FAIL(check_spaces(&v));
    TRY_OR_FAIL(check_buffers(&v));
    TRY_OR_FAIL(verify_works(&v));
    TRY_OR_FAIL(check_queues(&v));
    TRY_OR_FAIL(check_ranks(&v));
    TRY_OR_FAIL(check_ops(&v));
    TRY_OR_FAIL(check_lives(&v));
    TRY_OR_FAIL(verify_groups(&v));
    TRY_OR_FAIL(verify_each_once(&v));
    TRY_OR_FAIL(verify_order(&v));
    TRY_OR_FAIL(verify_lifetimes(&v));
    status = check_start(&v);
fail:
    array_free(&v.rows);
    for (uint32_t i = 0; i < v.block_count; i++) {
        free(v.blocks[i]);
    }
    return status;
}
