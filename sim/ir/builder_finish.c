/* Freezing a schedule. The builder's arrays become the schedule's own: a first touch of memory costs more than all the arithmetic here, so nothing is copied. */
#include <stdlib.h>
#include <string.h>

#include "sim/ir/builder_internal.h"

static int compare_u32(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* Rising, each once. Short and almost sorted as a rule. */
static uint16_t sort_unique(uint32_t *items, uint16_t count)
{
    if (count > 32) {
        qsort(items, count, sizeof *items, compare_u32);
    } else {
        for (uint32_t i = 1; i < count; i++) {
            uint32_t item = items[i], at = i;
            for (; at > 0 && items[at - 1] > item; at--) {
                items[at] = items[at - 1];
            }
            items[at] = item;
        }
    }
    uint16_t kept = count == 0 ? 0 : 1;
    for (uint32_t i = 1; i < count; i++) {
        if (items[i] != items[kept - 1]) {
            items[kept++] = items[i];
        }
    }
    return kept;
}

static void lay_out_dependencies(struct builder *b)
{
    uint32_t total = 0;
    for (size_t i = 0; i < b->ops.count; i++) {
        struct sched_op *op = &b->ops.items[i];
        uint32_t first = op->first_dependency;
        op->first_dependency = total;
        if (op->dependency_count == 0) {
            continue;
        }
        uint32_t *to = b->dependencies.items + total;
        if (total != first) {
            memmove(to, b->dependencies.items + first, op->dependency_count * sizeof *to);
        }
        if (op->dependency_count > 1) {
            op->dependency_count = sort_unique(to, op->dependency_count);
        }
        total += op->dependency_count;
    }
    b->dependencies.count = total;
}

/* Late releases by op, in the order they were made: their places in `late` as lists. */
static enum status late_lists(const struct builder *b, uint32_t **first, uint32_t **next, struct error *error)
{
    *first = calloc(b->ops.count + 1, sizeof **first); /* place + 1; 0: none */
    *next = calloc(b->late.count + 1, sizeof **next);
    if (*first == NULL || *next == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory: a schedule of %zu ops", b->ops.count);
    }
    for (size_t i = b->late.count; i-- > 0;) {
        uint32_t op = b->late.items[i].op;
        (*next)[i] = (*first)[op];
        (*first)[op] = (uint32_t)i + 1;
    }
    return STATUS_OK;
}

/* Spread the operands from the last op to the first, so that each op's late releases find room behind its own. */
static enum status insert_late(struct builder *b, struct error *error)
{
    uint32_t *first = NULL, *next = NULL;
    enum status status = array_reserve(&b->operands, b->late.count, error);
    status = status == STATUS_OK ? late_lists(b, &first, &next, error) : status;
    if (status == STATUS_OK) {
        size_t from_end = b->operands.count, to = b->operands.count + b->late.count;
        b->operands.count = to;
        for (size_t i = b->ops.count; i-- > 0;) {
            struct sched_op *op = &b->ops.items[i];
            size_t own = from_end - op->first_operand, late = 0;
            for (uint32_t j = first[i]; j != 0; j = next[j - 1]) {
                late++;
            }
            to -= late;
            uint32_t *at = b->operands.items + to;
            for (uint32_t j = first[i]; j != 0; j = next[j - 1]) {
                *at++ = b->late.items[j - 1].buffer | (uint32_t)OPERAND_RELEASE << KIND_SHIFT;
            }
            from_end = op->first_operand;
            to -= own;
            memmove(b->operands.items + to, b->operands.items + from_end, own * sizeof(uint32_t));
            op->first_operand = (uint32_t)to;
        }
    }
    free(first);
    free(next);
    return status;
}

/* For ops of many operands: by counts of the kinds; a chain of swaps would not be stable, so through a copy. */
static bool sort_kinds(uint32_t *items, const struct sched_op *op)
{
    size_t counts[OPERAND_KINDS] = { op->acquire_count, op->release_count, op->read_count, op->write_count };
    size_t at[OPERAND_KINDS] = { 0, counts[0], counts[0] + counts[1], counts[0] + counts[1] + counts[2] };
    size_t total = at[OPERAND_WRITE] + counts[OPERAND_WRITE];
    uint32_t *copy = malloc(total * sizeof *copy);
    if (copy == NULL) {
        return false;
    }
    memcpy(copy, items, total * sizeof *copy);
    for (size_t i = 0; i < total; i++) {
        items[at[copy[i] >> KIND_SHIFT]++] = copy[i];
    }
    free(copy);
    return true;
}

/* Acquires, releases, reads, writes: a stable sort by kind of each op's few operands, then the kinds go. */
static void lay_out_operands(struct builder *b)
{
    size_t end = 0;
    for (size_t i = 0; i < b->ops.count; i++) {
        const struct sched_op *op = &b->ops.items[i];
        size_t begin = end;
        end += (size_t)op->acquire_count + op->release_count + op->read_count + op->write_count;
        bool sorted = true;
        for (size_t j = begin + 1; j < end; j++) {
            sorted = sorted && b->operands.items[j - 1] >> KIND_SHIFT <= b->operands.items[j] >> KIND_SHIFT;
        }
        /* Without memory for the copy the slow way serves as well. */
        if (!sorted && (end - begin <= 64 || !sort_kinds(b->operands.items + begin, op))) {
            for (size_t j = begin + 1; j < end; j++) {
                uint32_t item = b->operands.items[j];
                size_t at = j;
                for (; at > begin && b->operands.items[at - 1] >> KIND_SHIFT > item >> KIND_SHIFT; at--) {
                    b->operands.items[at] = b->operands.items[at - 1];
                }
                b->operands.items[at] = item;
            }
        }
        for (size_t j = begin; j < end; j++) {
            b->operands.items[j] &= BUFFER_MASK;
        }
    }
    CHECK(end == b->operands.count);
}

/* The arrays change hands. */
static void hand_over(struct builder *b, struct schedule *s)
{
#define GIVE(name, number)                                                                                             \
    s->name = b->name.items;                                                                                           \
    s->number = (uint32_t)b->name.count;                                                                               \
    b->name.items = NULL;
    GIVE(ranks, rank_count)
    GIVE(queues, queue_count)
    GIVE(spaces, space_count)
    GIVE(buffers, buffer_count)
    GIVE(ops, op_count)
    GIVE(works, work_count)
    GIVE(work_items, work_item_count)
    GIVE(kernels, kernel_count)
    GIVE(groups, group_count)
    GIVE(matches, match_count)
    GIVE(devices, device_count)
    GIVE(group_members, group_member_count)
    GIVE(operands, operand_count)
    GIVE(dependencies, dependency_count)
    GIVE(text, text_bytes)
#undef GIVE
}

enum status builder_finish(struct builder *builder, struct schedule *schedule, struct error *error)
{
    struct builder *b = builder;
    enum status status = STATUS_OK;
    *schedule = (struct schedule){ 0 };
    if (!b->failed && b->operands.count + b->late.count > SCHED_COUNT_MAX) {
        status = error_set(error, STATUS_LIMIT, "a schedule holds at most %d operands", SCHED_COUNT_MAX);
    } else if (b->failed) {
        status = error_at(error, b->error.status, b->error.file, b->error.path, "%s", b->error.message);
    } else if (b->late.count != 0) {
        status = insert_late(b, error);
    }
    /* No array is NULL, so that first + 0 is a pointer. */
#define X(name, type) status = status == STATUS_OK ? array_reserve(&b->name, 1, error) : status;
    ARRAYS(X)
#undef X
    if (status == STATUS_OK) {
        lay_out_dependencies(b);
        lay_out_operands(b);
        hand_over(b, schedule);
    }
    builder_free(b);
    return status;
}
