#include "sim/ir/schedule_load.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"

/* -- words -- */

#define X2(name, word)       word,
#define X3(name, word, more) word,

struct vocabulary vocabulary(enum vocabulary_of which)
{
#define X(name, word, queues, work, match, summary) word,
    static const char *const opcodes[] = {
#include "sim/ir/ops.def"
    };
#undef X
    static const char *const queue_classes[] = { QUEUE_CLASS_TABLE(X2) };
    static const char *const buffer_classes[] = { BUFFER_CLASS_TABLE(X3) };
    static const char *const space_kinds[] = { SPACE_KIND_TABLE(X2) };
    static const char *const work_kinds[] = { WORK_KIND_TABLE(X2) };
    static const char *const phases[] = { OP_PHASE_TABLE(X2) };
    static const char *const dtypes[] = { DTYPE_TABLE(X3) };
    static const char *const kernel_classes[] = { KERNEL_CLASS_TABLE(X3) };
    static const char *const layouts[] = { "nn", "tn", "nt" };
    static const char *const op_flags[] = { "host_waits", "micro_batch", "step", "recompute", "busy_host" };
    static const char *const buffer_flags[] = { "live_at_start", "live_at_end" };
    static const char *const kernel_flags[] = { "causal", "accumulate" };
    _Static_assert(GEMM_NN == 0 && GEMM_TN == 1 && GEMM_NT == 2, "layouts in this order");
    _Static_assert(OP_FLAG_HOST_WAITS == 1 && OP_FLAG_MICRO_BATCH == 2 && OP_FLAG_STEP == 4 && OP_FLAG_RECOMPUTE == 8 &&
                       OP_FLAG_BUSY_HOST == 16,
                   "op flags in this order");
    _Static_assert(BUFFER_LIVE_AT_START == 1 && BUFFER_LIVE_AT_END == 2, "buffer flags in this order");
    _Static_assert(KERNEL_FLAG_CAUSAL == 1 && KERNEL_FLAG_ACCUMULATE == 2, "kernel flags in this order");
#define WORDS(array)                                                                                                   \
    (struct vocabulary)                                                                                                \
    {                                                                                                                  \
        array, sizeof array / sizeof array[0]                                                                          \
    }
    switch (which) {
    case WORDS_OPCODE: return WORDS(opcodes);
    case WORDS_QUEUE_CLASS: return WORDS(queue_classes);
    case WORDS_BUFFER_CLASS: return WORDS(buffer_classes);
    case WORDS_SPACE_KIND: return WORDS(space_kinds);
    case WORDS_WORK_KIND: return WORDS(work_kinds);
    case WORDS_PHASE: return WORDS(phases);
    case WORDS_DTYPE: return WORDS(dtypes);
    case WORDS_KERNEL_CLASS: return WORDS(kernel_classes);
    case WORDS_LAYOUT: return WORDS(layouts);
    case WORDS_OP_FLAG: return WORDS(op_flags);
    case WORDS_BUFFER_FLAG: return WORDS(buffer_flags);
    case WORDS_KERNEL_FLAG: return WORDS(kernel_flags);
    }
    check_failed("a vocabulary", __FILE__, __LINE__);
}

size_t vocabulary_find(enum vocabulary_of which, const char *word, size_t length)
{
    struct vocabulary v = vocabulary(which);
    for (size_t i = 0; i < v.count; i++) {
        if (strlen(v.words[i]) == length && memcmp(v.words[i], word, length) == 0) {
            return i;
        }
    }
    return v.count;
}

/* -- records -- */

__attribute__((format(printf, 2, 3))) static const char *refuse(struct loader *l, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(l->why, sizeof l->why, format, arguments);
    va_end(arguments);
    return l->why;
}

#define REFUSE_UNLESS(condition, ...)                                                                                  \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            return refuse(l, __VA_ARGS__);                                                                             \
        }                                                                                                              \
    } while (0)

const char *operand_list_key(enum operand_list list)
{
    static const char *const keys[LIST_COUNT] = { "acquire", "release", "read", "write", "after" };
    return keys[list];
}

const char *load_start(struct loader *l)
{
    *l = (struct loader){ .builder = builder_new() };
    return l->builder == NULL ? refuse(l, "out of memory") : NULL;
}

void load_stop(struct loader *l)
{
    builder_free(l->builder);
    array_free(&l->op_queues);
    array_free(&l->collectives);
    l->builder = NULL;
}

/* Records are listed once: the builder shares equal ones, and the numbers that follow would mean other things. */
static const char *added(struct loader *l, uint32_t index, uint32_t *count, const char *what)
{
    REFUSE_UNLESS(index == *count, "%s %u equals %s %u; each stands once", what, *count, what, index);
    ++*count;
    return NULL;
}

const char *load_space(struct loader *l, uint32_t kind, uint32_t location, uint64_t capacity_bytes, uint32_t parent,
                       bool exact_blocks, const char *label)
{
    REFUSE_UNLESS(parent == SCHED_NONE || parent < l->spaces, "parent space %u is not among the %u spaces before",
                  parent, l->spaces);
    REFUSE_UNLESS(capacity_bytes <= SCHED_INTEGER_MAX || capacity_bytes == UINT64_MAX, "a capacity of 2^53 or more");
    REFUSE_UNLESS(!exact_blocks || kind == SPACE_PINNED, "exact blocks of a space that is not pinned");
    uint32_t space = builder_space(l->builder, (enum space_kind)kind, location, capacity_bytes, parent, label);
    if (exact_blocks) {
        builder_exact_blocks(l->builder, space);
    }
    l->spaces++;
    return NULL;
}

static const char *check_members(struct loader *l, const struct index_list *members)
{
    l->members += members->count;
    REFUSE_UNLESS(members->count > 0, "a list of devices is empty");
    REFUSE_UNLESS(l->members <= LOAD_MEMBERS_MAX, "more than %d devices in all lists", LOAD_MEMBERS_MAX);
    for (size_t i = 0; i < members->count; i++) {
        REFUSE_UNLESS(members->items[i] < SCHED_DEVICES_MAX, "device %u; numbers end below %d", members->items[i],
                      SCHED_DEVICES_MAX);
    }
    return NULL;
}

const char *load_group(struct loader *l, const struct index_list *members, uint32_t instances, const char *label)
{
    const char *why = check_members(l, members);
    if (why != NULL) {
        return why;
    }
    REFUSE_UNLESS(instances > 0 && members->count % instances == 0, "%zu members do not make %u equal instances",
                  members->count, instances);
    return added(l, builder_group(l->builder, members->items, (uint32_t)members->count / instances, instances, label),
                 &l->groups, "group");
}

const char *load_kernel(struct loader *l, const struct kernel *kernel)
{
    REFUSE_UNLESS(kernel->launches > 0, "a kernel has at least one launch");
    return added(l, builder_kernel(l->builder, kernel), &l->kernels, "kernel");
}

static bool is_collective(const struct loader *l, uint32_t work)
{
    size_t low = 0, high = l->collectives.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (l->collectives.items[middle] < work) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < l->collectives.count && l->collectives.items[low] == work;
}

const char *load_kernels(struct loader *l, const struct work_item *items, size_t count)
{
    REFUSE_UNLESS(count <= SCHED_COUNT_MAX, "too many items");
    for (size_t i = 0; i < count; i++) {
        if (items[i].kind == ITEM_KERNEL) {
            REFUSE_UNLESS(items[i].index < l->kernels, "kernel %u is not among the %u kernels before", items[i].index,
                          l->kernels);
        } else {
            REFUSE_UNLESS(is_collective(l, items[i].index), "work %u is not a collective before", items[i].index);
            REFUSE_UNLESS(opcode_match((enum opcode)items[i].passes) == MATCH_GROUP, "%s is not a collective",
                          opcode_word((enum opcode)items[i].passes));
            bool beside = items[i].kind == ITEM_COLLECTIVE_BESIDE;
            REFUSE_UNLESS(!beside || (i + 1 < count && items[i + 1].kind == ITEM_KERNEL),
                          "a collective beside its successor must be followed by a kernel");
        }
    }
    return added(l, builder_work_kernels(l->builder, items, (uint32_t)count), &l->works, "work");
}

const char *load_work(struct loader *l, const struct sched_work *work)
{
    uint32_t index = 0;
    REFUSE_UNLESS(work->bytes >= 0 && isfinite(work->bytes) && work->parameters >= 0 && isfinite(work->parameters),
                  "quantities are finite and not negative");
    switch ((enum work_kind)work->kind) {
    case WORK_COLLECTIVE:
        REFUSE_UNLESS(work->group < l->groups, "group %u is not among the %u groups before", work->group, l->groups);
        REFUSE_UNLESS(array_reserve(&l->collectives, 1, NULL) == STATUS_OK, "out of memory");
        l->collectives.items[l->collectives.count++] = l->works;
        index = builder_work_collective(l->builder, work->group, work->bytes, (enum dtype)work->dtype);
        break;
    case WORK_TRANSFER: index = builder_work_transfer(l->builder, work->bytes, work->pageable != 0); break;
    case WORK_HOST_OPTIMIZER: index = builder_work_host_optimizer(l->builder, work->parameters); break;
    case WORK_FIXED: index = builder_work_fixed(l->builder, work->fixed_ps); break;
    case WORK_NONE:
    case WORK_KERNELS:
    case WORK_KIND_COUNT: return refuse(l, "a work cannot be of this kind");
    }
    return added(l, index, &l->works, "work");
}

const char *load_match(struct loader *l, uint32_t group, uint32_t op_count)
{
    REFUSE_UNLESS(group < l->groups, "group %u is not among the %u groups before", group, l->groups);
    REFUSE_UNLESS(op_count > 0, "a match has at least one op");
    builder_match(l->builder, group, op_count);
    l->matches++;
    return NULL;
}

const char *load_buffer(struct loader *l, const struct sched_buffer *buffer, const char *label)
{
    REFUSE_UNLESS(buffer->space < l->spaces, "space %u is not among the %u spaces before", buffer->space, l->spaces);
    REFUSE_UNLESS(buffer->copies > 0, "a buffer has at least one copy");
    REFUSE_UNLESS(buffer->bytes <= SCHED_INTEGER_MAX, "a buffer of 2^53 bytes or more");
    builder_buffer(l->builder, buffer->space, buffer->bytes, buffer->copies, (enum buffer_class)buffer->buffer_class,
                   buffer->flags, builder_label(l->builder, label));
    l->buffers++;
    return NULL;
}

const char *load_rank(struct loader *l, const struct index_list *devices, uint32_t stage, const char *label)
{
    const char *why = check_members(l, devices);
    if (why != NULL) {
        return why;
    }
    builder_rank(l->builder, devices->items, (uint32_t)devices->count, stage, label);
    l->ranks++;
    l->rank_first_queue = l->queues;
    l->rank_first_op = l->ops;
    return NULL;
}

const char *load_queue(struct loader *l, uint32_t queue_class, const char *label)
{
    REFUSE_UNLESS(l->ranks > 0, "a queue before the first rank");
    REFUSE_UNLESS(l->queues - l->rank_first_queue < SCHED_RANK_QUEUES_MAX, "a rank has at most %d queues",
                  SCHED_RANK_QUEUES_MAX);
    builder_queue(l->builder, (enum queue_class)queue_class, label);
    l->queues++;
    return NULL;
}

static const char *check_op(struct loader *l, const struct loaded_op *op)
{
    REFUSE_UNLESS(l->ranks > 0 && op->queue >= l->rank_first_queue && op->queue < l->queues,
                  "queue %u is not one of the rank's, %u to %u", op->queue, l->rank_first_queue, l->queues);
    REFUSE_UNLESS(op->work == SCHED_NONE || op->work < l->works, "work %u is not among the %u works before", op->work,
                  l->works);
    REFUSE_UNLESS(op->match == SCHED_NONE || op->match < l->matches, "match %u is not among the %u matches before",
                  op->match, l->matches);
    for (unsigned i = 0; i < LIST_COUNT; i++) {
        REFUSE_UNLESS(op->lists[i].count <= UINT16_MAX, "an op has at most %u operands of a kind", UINT16_MAX);
    }
    for (unsigned i = 0; i < LIST_AFTER; i++) {
        for (size_t j = 0; j < op->lists[i].count; j++) {
            REFUSE_UNLESS(op->lists[i].items[j] < l->buffers, "buffer %u is not among the %u buffers before",
                          op->lists[i].items[j], l->buffers);
        }
    }
    const struct index_list *after = &op->lists[LIST_AFTER];
    for (size_t i = 0, last = l->rank_first_op; i < after->count; i++) {
        uint32_t dependency = after->items[i];
        REFUSE_UNLESS(dependency >= last && dependency < l->ops,
                      "op %u cannot be waited for; these are earlier ops of the rank, rising, each once", dependency);
        REFUSE_UNLESS(l->op_queues.items[dependency] != op->queue, "op %u is of the same queue, whose order says that",
                      dependency);
        last = (size_t)dependency + 1;
    }
    return NULL;
}

const char *load_op(struct loader *l, const struct loaded_op *op)
{
    struct builder *b = l->builder;
    const char *why = check_op(l, op);
    if (why != NULL) {
        return why;
    }
    REFUSE_UNLESS(array_reserve(&l->op_queues, 1, NULL) == STATUS_OK, "out of memory");
    l->op_queues.items[l->op_queues.count++] = op->queue;
    builder_op(b, (enum opcode)op->opcode, op->queue, op->work, (enum op_phase)op->phase);
    builder_tag(b, (uint16_t)op->micro_batch, (uint16_t)op->chunk, (uint16_t)op->layer);
    builder_flag(b, (uint8_t)op->flags);
    if (op->match != SCHED_NONE) {
        builder_set_match(b, op->match);
    }
    static void (*const add[LIST_COUNT])(struct builder *, uint32_t) = { builder_acquire, builder_release, builder_read,
                                                                         builder_write, builder_depends };
    for (unsigned i = 0; i < LIST_COUNT; i++) {
        for (size_t j = 0; j < op->lists[i].count; j++) {
            add[i](b, op->lists[i].items[j]);
        }
    }
    l->ops++;
    return NULL;
}

enum status load_finish(struct loader *l, struct schedule *schedule, struct error *error)
{
    struct builder *b = l->builder;
    l->builder = NULL;
    TRY(builder_finish(b, schedule, error));
    schedule->gpu_count = l->totals.gpu_count;
    schedule->model_flops = l->totals.model_flops;
    schedule->samples = l->totals.samples;
    schedule->tokens = l->totals.tokens;
    return STATUS_OK;
}
