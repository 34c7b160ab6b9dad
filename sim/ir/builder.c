/* The builder: plain growing arrays, tables for shared records. */
#include "sim/ir/builder_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/strbuf.h"
#include "sim/ir/mix.h"

static uint32_t fail(struct builder *b, enum status status)
{
    b->failed = b->failed || status != STATUS_OK;
    return 0;
}

#define FAIL(b, ...) fail((b), (b)->failed ? (b)->error.status : error_set(&(b)->error, __VA_ARGS__))

static enum status limit(struct builder *b, const char *what)
{
    return error_set(&b->error, STATUS_LIMIT, "a schedule holds at most %d %s", SCHED_COUNT_MAX, what);
}

/* Room for `extra` more items of an array; false after an error. Inlined test first: almost every call has room. */
#define ROOM(b, array, extra)                                                                                          \
    ((b)->failed ? false                                                                                               \
     : (extra) <= (b)->array.capacity - (b)->array.count                                                               \
         ? true                                                                                                        \
         : (fail((b), (b)->array.count + (extra) > SCHED_COUNT_MAX                                                     \
                          ? limit((b), #array)                                                                         \
                          : array_reserve(&(b)->array, (extra), &(b)->error)),                                         \
            !(b)->failed))

static bool table_room(struct builder *b, struct builder_table *table)
{
    if (!b->failed && !builder_table_reserve(table)) {
        FAIL(b, STATUS_NO_MEMORY, "out of memory: a table of a schedule's shared records");
    }
    return !b->failed;
}

struct builder *builder_new(void)
{
    struct builder *b = calloc(1, sizeof *b);
    if (b != NULL) {
        b->rank = SCHED_NONE;
        if (ROOM(b, text, (size_t)64)) {
            b->text.items[b->text.count++] = '\0'; /* label 0 */
        }
    }
    return b;
}

void builder_free(struct builder *builder)
{
    if (builder != NULL) {
#define X(name, type) array_free(&builder->name);
        ARRAYS(X)
#undef X
        free(builder->kernel_table.slots);
        free(builder->work_table.slots);
        free(builder->group_table.slots);
        free(builder->label_table.slots);
        free(builder);
    }
}

/* -- labels -- */

static uint32_t label_n(struct builder *b, const char *text, size_t length)
{
    if (length == 0 || !ROOM(b, text, length + 1) || !table_room(b, &b->label_table)) {
        return 0;
    }
    uint64_t hash = mix_bytes(text, length);
    uint32_t at = UINT32_MAX, index = 0;
    while (builder_table_next(&b->label_table, hash, &at, &index)) {
        const char *known = b->text.items + index;
        if (strncmp(known, text, length) == 0 && known[length] == '\0') {
            return index;
        }
    }
    index = (uint32_t)b->text.count;
    memcpy(b->text.items + index, text, length);
    b->text.items[index + length] = '\0';
    b->text.count += length + 1;
    builder_table_put(&b->label_table, hash, at, index);
    return index;
}

uint32_t builder_label(struct builder *builder, const char *text)
{
    struct recent_label *recent = &builder->recent[mix_end((uintptr_t)text) % RECENT_LABELS];
    if (recent->label == 0 || recent->text != text || strcmp(builder->text.items + recent->label, text) != 0) {
        *recent = (struct recent_label){ text, label_n(builder, text, strlen(text)) };
    }
    return recent->label;
}

uint32_t builder_label_format(struct builder *builder, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    CHECK(length >= 0);
    if ((size_t)length < sizeof text) {
        return label_n(builder, text, (size_t)length);
    }
    struct strbuf longer = { 0 };
    va_start(arguments, format);
    strbuf_vprintf(&longer, format, arguments);
    va_end(arguments);
    uint32_t label = longer.failed ? FAIL(builder, STATUS_NO_MEMORY, "out of memory: a label of %d bytes", length)
                                   : label_n(builder, longer.text, longer.length);
    strbuf_free(&longer);
    return label;
}

/* -- places -- */

uint32_t builder_space(struct builder *builder, enum space_kind kind, uint32_t location, uint64_t capacity_bytes,
                       uint32_t parent, const char *label)
{
    CHECK((unsigned)kind < SPACE_KIND_COUNT);
    uint32_t text = builder_label(builder, label);
    if (!ROOM(builder, spaces, 1)) {
        return 0;
    }
    CHECK(parent == SCHED_NONE || parent < builder->spaces.count);
    if (capacity_bytes > SCHED_INTEGER_MAX) {
        capacity_bytes = UINT64_MAX; /* 9 petabytes: unlimited */
    }
    builder->spaces.items[builder->spaces.count] = (struct sched_space){
        .kind = (uint8_t)kind, .location = location, .capacity_bytes = capacity_bytes, .parent = parent, .label = text
    };
    return (uint32_t)builder->spaces.count++;
}

void builder_exact_blocks(struct builder *builder, uint32_t space)
{
    if (!builder->failed) {
        CHECK(space < builder->spaces.count && builder->spaces.items[space].kind == SPACE_PINNED);
        builder->spaces.items[space].exact_blocks = 1;
    }
}

uint32_t builder_rank(struct builder *builder, const uint32_t *devices, uint32_t device_count, uint32_t stage,
                      const char *label)
{
    CHECK(device_count > 0);
    uint32_t text = builder_label(builder, label);
    if (!ROOM(builder, ranks, 1) || !ROOM(builder, devices, device_count)) {
        return 0;
    }
    builder->ranks.items[builder->ranks.count] = (struct sched_rank){ .first_device = (uint32_t)builder->devices.count,
                                                                      .device_count = device_count,
                                                                      .first_op = (uint32_t)builder->ops.count,
                                                                      .label = text,
                                                                      .stage = stage };
    memcpy(builder->devices.items + builder->devices.count, devices, device_count * sizeof *devices);
    builder->devices.count += device_count;
    builder->rank = (uint32_t)builder->ranks.count++;
    return builder->rank;
}

uint32_t builder_queue(struct builder *builder, enum queue_class queue_class, const char *label)
{
    CHECK((unsigned)queue_class < QUEUE_CLASS_COUNT);
    uint32_t text = builder_label(builder, label);
    if (!ROOM(builder, queues, 1)) {
        return 0;
    }
    CHECK(builder->rank != SCHED_NONE);
    builder->queues.items[builder->queues.count] =
        (struct sched_queue){ .rank = builder->rank, .label = text, .queue_class = (uint8_t)queue_class };
    return (uint32_t)builder->queues.count++;
}

uint32_t builder_buffer(struct builder *builder, uint32_t space, uint64_t bytes, uint32_t copies,
                        enum buffer_class buffer_class, uint8_t flags, uint32_t label)
{
    CHECK((unsigned)buffer_class < BUFFER_CLASS_COUNT);
    if (!ROOM(builder, buffers, 1)) {
        return 0;
    }
    CHECK(space < builder->spaces.count && copies > 0 && label < builder->text.count);
    if (builder->buffers.count >= BUFFER_MASK) {
        return FAIL(builder, STATUS_LIMIT, "a schedule holds at most %u buffers", BUFFER_MASK);
    }
    if (bytes > SCHED_INTEGER_MAX) {
        return FAIL(builder, STATUS_LIMIT, "buffer \"%s\" has 2^53 bytes or more", builder->text.items + label);
    }
    builder->buffers.items[builder->buffers.count] = (struct sched_buffer){ .bytes = bytes,
                                                                            .copies = copies,
                                                                            .space = space,
                                                                            .label = label,
                                                                            .buffer_class = (uint8_t)buffer_class,
                                                                            .flags = flags };
    return (uint32_t)builder->buffers.count++;
}

uint32_t builder_group(struct builder *builder, const uint32_t *members, uint32_t member_count, uint32_t instance_count,
                       const char *label)
{
    CHECK(member_count > 0 && instance_count > 0);
    struct builder *b = builder;
    size_t total = (size_t)member_count * instance_count;
    struct sched_group group = { .member_count = member_count,
                                 .instance_count = instance_count,
                                 .label = builder_label(b, label) };
    if (!ROOM(b, groups, 1) || !ROOM(b, group_members, total) || !table_room(b, &b->group_table)) {
        return 0;
    }
    uint64_t hash = mix_bytes(members, total * sizeof *members) + mix_bytes(&group, sizeof group);
    uint32_t at = UINT32_MAX, index = 0;
    while (builder_table_next(&b->group_table, hash, &at, &index)) {
        const struct sched_group *known = &b->groups.items[index];
        if (known->member_count == member_count && known->instance_count == instance_count &&
            known->label == group.label &&
            memcmp(b->group_members.items + known->first_member, members, total * sizeof *members) == 0) {
            return index;
        }
    }
    group.first_member = (uint32_t)b->group_members.count;
    memcpy(b->group_members.items + b->group_members.count, members, total * sizeof *members);
    b->group_members.count += total;
    index = (uint32_t)b->groups.count;
    b->groups.items[b->groups.count++] = group;
    builder_table_put(&b->group_table, hash, at, index);
    return index;
}

uint32_t builder_match(struct builder *builder, uint32_t group, uint32_t op_count)
{
    if (!ROOM(builder, matches, 1)) {
        return 0;
    }
    CHECK(group < builder->groups.count && op_count > 0);
    builder->matches.items[builder->matches.count] = (struct sched_match){ .group = group, .op_count = op_count };
    return (uint32_t)builder->matches.count++;
}

/* -- works -- */

/* A quantity that came from somebody's input: finite, not negative; -0 becomes 0, so that equal works have equal bytes. */
static double quantity(struct builder *b, double value, const char *what)
{
    if (!(value >= 0 && isfinite(value))) {
        FAIL(b, STATUS_LIMIT, "%s of a work must be a finite number from 0, found %g", what, value);
        return 0;
    }
    return value + 0.0;
}

uint32_t builder_kernel(struct builder *builder, const struct kernel *kernel)
{
    struct builder *b = builder;
    struct kernel k = *kernel;
    k.flops = quantity(b, k.flops, "flops");
    k.bytes_read = quantity(b, k.bytes_read, "bytes_read");
    k.bytes_written = quantity(b, k.bytes_written, "bytes_written");
    if (k.batch > SCHED_INTEGER_MAX || k.m > SCHED_INTEGER_MAX || k.n > SCHED_INTEGER_MAX || k.k > SCHED_INTEGER_MAX) {
        return FAIL(b, STATUS_LIMIT, "a kernel has a size of 2^53 or more");
    }
    if (!ROOM(b, kernels, 1) || !table_room(b, &b->kernel_table)) {
        return 0;
    }
    uint64_t hash = mix_bytes(&k, sizeof k);
    uint32_t at = UINT32_MAX, index = 0;
    while (builder_table_next(&b->kernel_table, hash, &at, &index)) {
        if (memcmp(&b->kernels.items[index], &k, sizeof k) == 0) {
            return index;
        }
    }
    index = (uint32_t)b->kernels.count;
    b->kernels.items[b->kernels.count++] = k;
    builder_table_put(&b->kernel_table, hash, at, index);
    return index;
}

static uint32_t add_work(struct builder *b, struct sched_work work, const struct work_item *items, uint32_t item_count)
{
    if (!ROOM(b, works, 1) || !ROOM(b, work_items, item_count) || !table_room(b, &b->work_table)) {
        return 0;
    }
    size_t item_bytes = item_count * sizeof *items;
    work.item_count = item_count;
    uint64_t hash = mix_bytes(&work, sizeof work) + (item_count == 0 ? 0 : mix_bytes(items, item_bytes));
    uint32_t at = UINT32_MAX, index = 0;
    while (builder_table_next(&b->work_table, hash, &at, &index)) {
        struct sched_work known = b->works.items[index];
        /* without items there may be no array */
        const struct work_item *known_items = item_count == 0 ? NULL : b->work_items.items + known.first_item;
        known.first_item = 0;
        if (memcmp(&known, &work, sizeof work) == 0 &&
            (item_count == 0 || memcmp(known_items, items, item_bytes) == 0)) {
            return index;
        }
    }
    if (item_count != 0) {
        work.first_item = (uint32_t)b->work_items.count;
        memcpy(b->work_items.items + b->work_items.count, items, item_bytes);
        b->work_items.count += item_count;
    }
    index = (uint32_t)b->works.count;
    b->works.items[b->works.count++] = work;
    builder_table_put(&b->work_table, hash, at, index);
    return index;
}

uint32_t builder_work_kernels(struct builder *builder, const struct work_item *items, uint32_t item_count)
{
    for (uint32_t i = 0; i < item_count && !builder->failed; i++) {
        bool kernel = items[i].kind == ITEM_KERNEL && items[i].index < builder->kernels.count;
        bool collective = (items[i].kind == ITEM_COLLECTIVE || items[i].kind == ITEM_COLLECTIVE_BESIDE) &&
                          items[i].index < builder->works.count && items[i].passes < OPCODE_COUNT &&
                          opcode_match((enum opcode)items[i].passes) == MATCH_GROUP;
        bool beside = items[i].kind == ITEM_COLLECTIVE_BESIDE;
        CHECK(kernel || collective);
        CHECK(!beside || (i + 1 < item_count && items[i + 1].kind == ITEM_KERNEL));
    }
    return add_work(builder, (struct sched_work){ .kind = WORK_KERNELS, .group = SCHED_NONE }, items, item_count);
}

uint32_t builder_work_collective(struct builder *builder, uint32_t group, double bytes, enum dtype dtype)
{
    CHECK((unsigned)dtype < DTYPE_COUNT && (builder->failed || group < builder->groups.count));
    return add_work(builder,
                    (struct sched_work){ .kind = WORK_COLLECTIVE,
                                         .dtype = (uint8_t)dtype,
                                         .group = group,
                                         .bytes = quantity(builder, bytes, "bytes") },
                    NULL, 0);
}

uint32_t builder_work_transfer(struct builder *builder, double bytes, bool pageable)
{
    return add_work(builder,
                    (struct sched_work){ .kind = WORK_TRANSFER,
                                         .pageable = pageable ? 1 : 0,
                                         .group = SCHED_NONE,
                                         .bytes = quantity(builder, bytes, "bytes") },
                    NULL, 0);
}

uint32_t builder_work_host_optimizer(struct builder *builder, double parameters)
{
    return add_work(builder,
                    (struct sched_work){ .kind = WORK_HOST_OPTIMIZER,
                                         .group = SCHED_NONE,
                                         .parameters = quantity(builder, parameters, "parameters") },
                    NULL, 0);
}

uint32_t builder_work_fixed(struct builder *builder, int64_t fixed_ps)
{
    if (fixed_ps < 0 || (uint64_t)fixed_ps > SCHED_INTEGER_MAX) {
        return FAIL(builder, STATUS_LIMIT, "a fixed time must be from 0 to 2^53 - 1 ps, found %lld",
                    (long long)fixed_ps);
    }
    return add_work(builder, (struct sched_work){ .kind = WORK_FIXED, .group = SCHED_NONE, .fixed_ps = fixed_ps }, NULL,
                    0);
}

/* -- ops -- */

uint32_t builder_op_count(const struct builder *builder)
{
    return (uint32_t)builder->ops.count;
}

uint32_t builder_op(struct builder *builder, enum opcode opcode, uint32_t queue, uint32_t work, enum op_phase phase)
{
    if (!ROOM(builder, ops, 1)) {
        return 0;
    }
    CHECK((unsigned)opcode < OPCODE_COUNT && (unsigned)phase < PHASE_COUNT);
    CHECK(queue < builder->queues.count && builder->queues.items[queue].rank == builder->rank);
    CHECK(work == SCHED_NONE || work < builder->works.count);
    builder->ops.items[builder->ops.count] =
        (struct sched_op){ .queue = queue,
                           .work = work,
                           .match = SCHED_NONE,
                           .first_operand = (uint32_t)builder->operands.count,
                           .first_dependency = (uint32_t)builder->dependencies.count,
                           .micro_batch = OP_TAG_NONE,
                           .chunk = OP_TAG_NONE,
                           .layer = OP_TAG_NONE,
                           .opcode = (uint8_t)opcode,
                           .phase = (uint8_t)phase };
    builder->ranks.items[builder->rank].op_count++;
    return (uint32_t)builder->ops.count++;
}

static struct sched_op *latest(struct builder *b)
{
    /* Of the open rank. */
    CHECK(b->ops.count > b->ranks.items[b->rank].first_op);
    return &b->ops.items[b->ops.count - 1];
}

static bool count_up(struct builder *b, uint16_t *count)
{
    if (*count == UINT16_MAX) {
        FAIL(b, STATUS_LIMIT, "an op has at most %u operands of a kind and %u dependencies", UINT16_MAX, UINT16_MAX);
        return false;
    }
    ++*count;
    return true;
}

static void operand(struct builder *b, uint32_t buffer, enum operand_kind kind)
{
    if (!ROOM(b, operands, 1)) {
        return;
    }
    CHECK(buffer < b->buffers.count);
    struct sched_op *op = latest(b);
    uint16_t *count = kind == OPERAND_ACQUIRE   ? &op->acquire_count
                      : kind == OPERAND_RELEASE ? &op->release_count
                      : kind == OPERAND_READ    ? &op->read_count
                                                : &op->write_count;
    if (count_up(b, count)) {
        b->operands.items[b->operands.count++] = buffer | (uint32_t)kind << KIND_SHIFT;
    }
}

void builder_acquire(struct builder *builder, uint32_t buffer)
{
    operand(builder, buffer, OPERAND_ACQUIRE);
}

void builder_release(struct builder *builder, uint32_t buffer)
{
    operand(builder, buffer, OPERAND_RELEASE);
}

void builder_read(struct builder *builder, uint32_t buffer)
{
    operand(builder, buffer, OPERAND_READ);
}

void builder_write(struct builder *builder, uint32_t buffer)
{
    operand(builder, buffer, OPERAND_WRITE);
}

void builder_release_at(struct builder *builder, uint32_t op, uint32_t buffer)
{
    if (!ROOM(builder, late, 1)) {
        return;
    }
    CHECK(buffer < builder->buffers.count);
    CHECK(op < builder->ops.count && op >= builder->ranks.items[builder->rank].first_op);
    if (op + 1 == builder->ops.count) {
        builder_release(builder, buffer);
    } else if (count_up(builder, &builder->ops.items[op].release_count)) {
        builder->late.items[builder->late.count++] = (struct late_release){ op, buffer };
    }
}

void builder_depends(struct builder *builder, uint32_t op)
{
    if (op == SCHED_NONE || !ROOM(builder, dependencies, 1)) {
        return;
    }
    struct sched_op *o = latest(builder);
    CHECK(op + 1 < builder->ops.count && op >= builder->ranks.items[builder->rank].first_op);
    if (builder->ops.items[op].queue != o->queue && count_up(builder, &o->dependency_count)) {
        builder->dependencies.items[builder->dependencies.count++] = op;
    }
}

void builder_set_match(struct builder *builder, uint32_t match)
{
    if (!builder->failed) {
        CHECK(match < builder->matches.count);
        latest(builder)->match = match;
    }
}

void builder_tag(struct builder *builder, uint16_t micro_batch, uint16_t chunk, uint16_t layer)
{
    if (!builder->failed) {
        struct sched_op *op = latest(builder);
        op->micro_batch = micro_batch;
        op->chunk = chunk;
        op->layer = layer;
    }
}

void builder_flag(struct builder *builder, uint8_t flags)
{
    if (!builder->failed) {
        latest(builder)->flags |= flags;
    }
}
