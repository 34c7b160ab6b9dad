/* Reading the JSON form: what is absent has its default. */
#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/json.h"
#include "sim/base/schema.h"
#include "sim/ir/schedule_load.h"
#include "sim/ir/schedule_text.h"

#define QUANTITY_MAX 1.7976931348623157e308

struct reader {
    struct loader loader;
    struct error *error;
    struct index_list numbers;
    struct loaded_op op;
    struct {
        struct work_item *items;
        size_t count, capacity;
    } work_items;
};

#define KNOWN(at, error, ...)                                                                                          \
    do {                                                                                                               \
        static const char *const known_[] = { __VA_ARGS__ };                                                           \
        TRY(json_known_keys(at, known_, sizeof known_ / sizeof known_[0], error));                                     \
    } while (0)

static enum status accept(struct reader *r, const struct json *at, const char *why)
{
    return why == NULL ? STATUS_OK : json_error(at, r->error, "%s", why);
}

static enum status read_u32(struct reader *r, const struct json *at, const char *key, uint32_t max, uint32_t *value)
{
    int64_t wide = 0;
    TRY(json_int(at, key, 0, max, &wide, r->error));
    *value = (uint32_t)wide;
    return STATUS_OK;
}

static enum status read_u32_or(struct reader *r, const struct json *at, const char *key, uint32_t max,
                               uint32_t fallback, uint32_t *value)
{
    int64_t wide = 0;
    TRY(json_int_or(at, key, 0, max, fallback, &wide, r->error));
    *value = (uint32_t)wide;
    return STATUS_OK;
}

static enum status read_u64(struct reader *r, const struct json *at, const char *key, uint64_t *value)
{
    int64_t wide = 0;
    TRY(json_int(at, key, 0, (int64_t)SCHED_INTEGER_MAX, &wide, r->error));
    *value = (uint64_t)wide;
    return STATUS_OK;
}

static enum status read_word(struct reader *r, const struct json *at, const char *key, enum vocabulary_of words,
                             uint32_t *index)
{
    size_t found = 0;
    TRY(json_word(at, key, vocabulary(words).words, vocabulary(words).count, &found, r->error));
    *index = (uint32_t)found;
    return STATUS_OK;
}

static enum status read_quantity(struct reader *r, const struct json *at, const char *key, double *value)
{
    return json_real(at, key, 0, QUANTITY_MAX, value, r->error);
}

/* Each flag once, in the order of the bits. */
static enum status read_flags(struct reader *r, const struct json *at, enum vocabulary_of words, uint32_t *flags)
{
    struct json list, item;
    *flags = 0;
    TRY(json_array_optional(at, "flags", &list, r->error));
    for (size_t i = 0, count = list.node == NULL ? 0 : json_count(&list); i < count; i++) {
        const char *word;
        json_item(&list, i, &item);
        TRY(json_as_string(&item, &word, r->error));
        size_t bit = vocabulary_find(words, word, strlen(word));
        if (bit == vocabulary(words).count || *flags >> bit != 0) {
            return json_error(&item, r->error, "unknown flag \"%.40s\", or out of order", word);
        }
        *flags |= 1u << bit;
    }
    return STATUS_OK;
}

/* A list of numbers below `limit`; absent: empty. */
static enum status read_numbers(struct reader *r, const struct json *at, const char *key, uint32_t limit,
                                struct index_list *numbers)
{
    struct json list, item;
    numbers->count = 0;
    TRY(json_array_optional(at, key, &list, r->error));
    for (size_t i = 0, count = list.node == NULL ? 0 : json_count(&list); i < count; i++) {
        int64_t value = 0;
        json_item(&list, i, &item);
        TRY(json_as_int(&item, 0, (int64_t)limit - 1, &value, r->error));
        TRY(array_reserve(numbers, 1, r->error));
        numbers->items[numbers->count++] = (uint32_t)value;
    }
    return STATUS_OK;
}

static enum status read_space(struct reader *r, const struct json *at)
{
    uint32_t kind = 0, location = 0, parent = 0;
    bool exact = false;
    int64_t capacity = 0;
    const char *label;
    KNOWN(at, r->error, "kind", "location", "capacity_bytes", "parent", "exact_blocks", "label");
    TRY(read_word(r, at, "kind", WORDS_SPACE_KIND, &kind));
    TRY(read_u32(r, at, "location", UINT32_MAX, &location));
    TRY(json_int_or(at, "capacity_bytes", 0, (int64_t)SCHED_INTEGER_MAX, -1, &capacity, r->error));
    TRY(read_u32_or(r, at, "parent", SCHED_NONE - 1, SCHED_NONE, &parent));
    TRY(json_bool_or(at, "exact_blocks", false, &exact, r->error));
    TRY(json_string(at, "label", &label, r->error));
    return accept(
        r, at,
        load_space(&r->loader, kind, location, capacity < 0 ? UINT64_MAX : (uint64_t)capacity, parent, exact, label));
}

static enum status read_group(struct reader *r, const struct json *at)
{
    uint32_t instances = 0;
    const char *label;
    KNOWN(at, r->error, "instances", "members", "label");
    TRY(read_u32(r, at, "instances", UINT32_MAX, &instances));
    TRY(read_numbers(r, at, "members", SCHED_DEVICES_MAX, &r->numbers));
    TRY(json_string(at, "label", &label, r->error));
    return accept(r, at, load_group(&r->loader, &r->numbers, instances, label));
}

static enum status read_kernel(struct reader *r, const struct json *at)
{
    struct kernel k = { 0 };
    uint32_t kernel_class = 0, dtype = 0, layout = 0, flags = 0;
    KNOWN(at, r->error, "class", "dtype", "layout", "launches", "batch", "m", "n", "k", "flops", "bytes_read",
          "bytes_written", "flags");
    TRY(read_word(r, at, "class", WORDS_KERNEL_CLASS, &kernel_class));
    TRY(read_word(r, at, "dtype", WORDS_DTYPE, &dtype));
    if (kernel_class == KERNEL_GEMM) {
        TRY(read_word(r, at, "layout", WORDS_LAYOUT, &layout));
    } else if (json_has(at, "layout")) {
        return json_error(at, r->error, "only gemm kernels have a layout");
    }
    TRY(read_u32(r, at, "launches", UINT32_MAX, &k.launches));
    TRY(read_u64(r, at, "batch", &k.batch));
    TRY(read_u64(r, at, "m", &k.m));
    TRY(read_u64(r, at, "n", &k.n));
    TRY(read_u64(r, at, "k", &k.k));
    TRY(read_quantity(r, at, "flops", &k.flops));
    TRY(read_quantity(r, at, "bytes_read", &k.bytes_read));
    TRY(read_quantity(r, at, "bytes_written", &k.bytes_written));
    TRY(read_flags(r, at, WORDS_KERNEL_FLAG, &flags));
    k.kernel_class = (uint8_t)kernel_class;
    k.dtype = (uint8_t)dtype;
    k.layout = (uint8_t)layout;
    k.flags = (uint8_t)flags;
    return accept(r, at, load_kernel(&r->loader, &k));
}

static enum status read_items(struct reader *r, const struct json *at)
{
    struct json items, item;
    KNOWN(at, r->error, "kind", "items");
    TRY(json_array(at, "items", &items, r->error));
    r->work_items.count = 0;
    for (size_t i = 0, count = json_count(&items); i < count; i++) {
        uint32_t index = 0, passes = 0;
        json_item(&items, i, &item);
        bool collective = json_has(&item, "collective"), beside = false;
        if (collective) {
            KNOWN(&item, r->error, "collective", "op", "beside");
            TRY(json_bool_or(&item, "beside", false, &beside, r->error));
            TRY(read_u32(r, &item, "collective", SCHED_NONE - 1, &index));
            TRY(read_word(r, &item, "op", WORDS_OPCODE, &passes));
        } else {
            KNOWN(&item, r->error, "kernel", "passes");
            TRY(read_u32(r, &item, "kernel", SCHED_NONE - 1, &index));
            TRY(read_u32_or(r, &item, "passes", UINT16_MAX, 0, &passes));
        }
        TRY(array_reserve(&r->work_items, 1, r->error));
        r->work_items.items[r->work_items.count++] = (struct work_item){ index,
                                                                         !collective ? ITEM_KERNEL
                                                                         : beside    ? ITEM_COLLECTIVE_BESIDE
                                                                                     : ITEM_COLLECTIVE,
                                                                         (uint16_t)passes };
    }
    return accept(r, at, load_kernels(&r->loader, r->work_items.items, r->work_items.count));
}

static enum status read_work(struct reader *r, const struct json *at)
{
    struct sched_work w = { .group = SCHED_NONE };
    uint32_t kind = 0, dtype = 0;
    uint64_t fixed = 0;
    bool pageable = false;
    TRY(read_word(r, at, "kind", WORDS_WORK_KIND, &kind));
    w.kind = (uint8_t)kind;
    switch ((enum work_kind)kind) {
    case WORK_KERNELS: return read_items(r, at);
    case WORK_COLLECTIVE:
        KNOWN(at, r->error, "kind", "group", "dtype", "bytes");
        TRY(read_u32(r, at, "group", SCHED_NONE - 1, &w.group));
        TRY(read_word(r, at, "dtype", WORDS_DTYPE, &dtype));
        w.dtype = (uint8_t)dtype;
        TRY(read_quantity(r, at, "bytes", &w.bytes));
        break;
    case WORK_TRANSFER:
        KNOWN(at, r->error, "kind", "bytes", "pageable");
        TRY(read_quantity(r, at, "bytes", &w.bytes));
        TRY(json_bool_or(at, "pageable", false, &pageable, r->error));
        w.pageable = pageable ? 1 : 0;
        break;
    case WORK_HOST_OPTIMIZER:
        KNOWN(at, r->error, "kind", "parameters");
        TRY(read_quantity(r, at, "parameters", &w.parameters));
        break;
    case WORK_FIXED:
        KNOWN(at, r->error, "kind", "fixed_ps");
        TRY(read_u64(r, at, "fixed_ps", &fixed));
        w.fixed_ps = (int64_t)fixed;
        break;
    case WORK_NONE:
    case WORK_KIND_COUNT: break;
    }
    return accept(r, at, load_work(&r->loader, &w));
}

static enum status read_match(struct reader *r, const struct json *at)
{
    uint32_t group = 0, op_count = 0;
    KNOWN(at, r->error, "group", "op_count");
    TRY(read_u32(r, at, "group", SCHED_NONE - 1, &group));
    TRY(read_u32(r, at, "op_count", SCHED_COUNT_MAX, &op_count));
    return accept(r, at, load_match(&r->loader, group, op_count));
}

static enum status read_buffer(struct reader *r, const struct json *at)
{
    struct sched_buffer b = { 0 };
    uint32_t buffer_class = 0, flags = 0;
    const char *label;
    KNOWN(at, r->error, "space", "class", "bytes", "copies", "flags", "label");
    TRY(read_u32(r, at, "space", SCHED_NONE - 1, &b.space));
    TRY(read_word(r, at, "class", WORDS_BUFFER_CLASS, &buffer_class));
    TRY(read_u64(r, at, "bytes", &b.bytes));
    TRY(read_u32_or(r, at, "copies", UINT32_MAX, 1, &b.copies));
    TRY(read_flags(r, at, WORDS_BUFFER_FLAG, &flags));
    TRY(json_string(at, "label", &label, r->error));
    b.buffer_class = (uint8_t)buffer_class;
    b.flags = (uint8_t)flags;
    return accept(r, at, load_buffer(&r->loader, &b, label));
}

static enum status read_op(struct reader *r, const struct json *at)
{
    struct loaded_op *op = &r->op;
    KNOWN(at, r->error, "op", "queue", "phase", "work", "match", "micro_batch", "chunk", "layer", "flags", "acquire",
          "release", "read", "write", "after");
    TRY(read_word(r, at, "op", WORDS_OPCODE, &op->opcode));
    TRY(read_u32(r, at, "queue", SCHED_NONE - 1, &op->queue));
    TRY(read_word(r, at, "phase", WORDS_PHASE, &op->phase));
    TRY(read_u32_or(r, at, "work", SCHED_NONE - 1, SCHED_NONE, &op->work));
    TRY(read_u32_or(r, at, "match", SCHED_NONE - 1, SCHED_NONE, &op->match));
    TRY(read_u32_or(r, at, "micro_batch", OP_TAG_NONE - 1, OP_TAG_NONE, &op->micro_batch));
    TRY(read_u32_or(r, at, "chunk", OP_TAG_NONE - 1, OP_TAG_NONE, &op->chunk));
    TRY(read_u32_or(r, at, "layer", OP_TAG_NONE - 1, OP_TAG_NONE, &op->layer));
    TRY(read_flags(r, at, WORDS_OP_FLAG, &op->flags));
    for (unsigned i = 0; i < LIST_COUNT; i++) {
        TRY(read_numbers(r, at, operand_list_key((enum operand_list)i), SCHED_NONE, &op->lists[i]));
    }
    return accept(r, at, load_op(&r->loader, op));
}

static enum status read_queue(struct reader *r, const struct json *at)
{
    uint32_t queue_class = 0;
    const char *label;
    KNOWN(at, r->error, "class", "label");
    TRY(read_word(r, at, "class", WORDS_QUEUE_CLASS, &queue_class));
    TRY(json_string(at, "label", &label, r->error));
    return accept(r, at, load_queue(&r->loader, queue_class, label));
}

/* Every item of an array through `read`. */
static enum status read_all(struct reader *r, const struct json *at, const char *key,
                            enum status (*read)(struct reader *r, const struct json *at))
{
    struct json list, item;
    TRY(json_array(at, key, &list, r->error));
    for (size_t i = 0, count = json_count(&list); i < count; i++) {
        json_item(&list, i, &item);
        if (json_type(&item) != JSON_OBJECT) {
            return json_error(&item, r->error, "expected an object, found %s", json_type_word(json_type(&item)));
        }
        TRY(read(r, &item));
    }
    return STATUS_OK;
}

static enum status read_rank(struct reader *r, const struct json *at)
{
    uint32_t stage = 0;
    const char *label;
    KNOWN(at, r->error, "label", "stage", "devices", "queues", "ops");
    TRY(json_string(at, "label", &label, r->error));
    TRY(read_u32_or(r, at, "stage", SCHED_NONE - 1, SCHED_NONE, &stage));
    TRY(read_numbers(r, at, "devices", SCHED_DEVICES_MAX, &r->numbers));
    TRY(accept(r, at, load_rank(&r->loader, &r->numbers, stage, label)));
    TRY(read_all(r, at, "queues", read_queue));
    return read_all(r, at, "ops", read_op);
}

static enum status read_schedule(struct reader *r, const struct json *root)
{
    struct schedule *totals = &r->loader.totals;
    TRY(schema_check(root, SCHEDULE_SCHEMA, true, r->error));
    KNOWN(root, r->error, "schema", "gpu_count", "model_flops", "samples", "tokens", "spaces", "groups", "kernels",
          "works", "matches", "buffers", "ranks");
    TRY(read_u32(r, root, "gpu_count", UINT32_MAX, &totals->gpu_count));
    TRY(read_quantity(r, root, "model_flops", &totals->model_flops));
    TRY(read_quantity(r, root, "samples", &totals->samples));
    TRY(read_quantity(r, root, "tokens", &totals->tokens));
    TRY(read_all(r, root, "spaces", read_space));
    TRY(read_all(r, root, "groups", read_group));
    TRY(read_all(r, root, "kernels", read_kernel));
    TRY(read_all(r, root, "works", read_work));
    TRY(read_all(r, root, "matches", read_match));
    TRY(read_all(r, root, "buffers", read_buffer));
    return read_all(r, root, "ranks", read_rank);
}

enum status schedule_parse_json(struct schedule *schedule, const char *text, size_t length, const char *file,
                                struct error *error)
{
    struct reader r = { .error = error };
    struct json_document *document = NULL;
    struct json root;
    enum status status;
    *schedule = (struct schedule){ 0 };
    TRY(json_parse(&document, text, length, file, error));
    json_root(document, &root);
    TRY_OR_FAIL(accept(&r, &root, load_start(&r.loader)));
    TRY_OR_FAIL(read_schedule(&r, &root));
    TRY_OR_FAIL(load_finish(&r.loader, schedule, error));
fail:
    load_stop(&r.loader);
    array_free(&r.numbers);
    array_free(&r.work_items);
    for (unsigned i = 0; i < LIST_COUNT; i++) {
        array_free(&r.op.lists[i]);
    }
    json_free(document);
    return status;
}
