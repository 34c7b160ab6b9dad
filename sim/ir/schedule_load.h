/* What the text and the JSON loader share: words, and records checked before the builder (which asserts) sees them. For sim/ir/schedule_*.c alone.
 *
 * Every load_* function returns NULL, or why the record is refused: a text in the loader, which the caller reports with its place. */
#ifndef MEMWALL_IR_SCHEDULE_LOAD_H
#define MEMWALL_IR_SCHEDULE_LOAD_H

#include "sim/ir/builder.h"

#define SCHEDULE_SCHEMA "memwall.schedule/1"

struct vocabulary {
    const char *const *words;
    size_t count;
};

enum vocabulary_of {
    WORDS_OPCODE,
    WORDS_QUEUE_CLASS,
    WORDS_BUFFER_CLASS,
    WORDS_SPACE_KIND,
    WORDS_WORK_KIND,
    WORDS_PHASE,
    WORDS_DTYPE,
    WORDS_KERNEL_CLASS,
    WORDS_LAYOUT,
    WORDS_OP_FLAG,     /* bit by bit */
    WORDS_BUFFER_FLAG, /* bit by bit */
    WORDS_KERNEL_FLAG  /* bit by bit */
};
struct vocabulary vocabulary(enum vocabulary_of which);
/* The index of `word` of `length` bytes, or count. */
size_t vocabulary_find(enum vocabulary_of which, const char *word, size_t length);

/* A growing list of indices. */
struct index_list {
    uint32_t *items;
    size_t count, capacity;
};

struct loader {
    struct builder *builder;
    uint32_t spaces, groups, kernels, works, matches, buffers, ranks, queues, ops; /* loaded so far */
    uint32_t rank_first_queue, rank_first_op;
    uint64_t members;                         /* of groups and ranks in all: bounded, since the text form has ranges */
    struct index_list op_queues, collectives; /* queue of each op; works that are collectives, rising */
    struct schedule totals;                   /* gpu_count, model_flops, samples, tokens */
    char why[256];
};

enum operand_list { LIST_ACQUIRE, LIST_RELEASE, LIST_READ, LIST_WRITE, LIST_AFTER, LIST_COUNT };
/* "acquire", "after": the list's key in the JSON form. */
const char *operand_list_key(enum operand_list list);

struct loaded_op {
    uint32_t opcode, phase, queue, work, match; /* SCHED_NONE: none */
    uint32_t micro_batch, chunk, layer, flags;
    struct index_list lists[LIST_COUNT];
};

enum { LOAD_MEMBERS_MAX = 1 << 23 };

const char *load_start(struct loader *l);
void load_stop(struct loader *l); /* frees what is left, the builder too */

const char *load_space(struct loader *l, uint32_t kind, uint32_t location, uint64_t capacity_bytes, uint32_t parent,
                       bool exact_blocks, const char *label);
const char *load_group(struct loader *l, const struct index_list *members, uint32_t instances, const char *label);
const char *load_kernel(struct loader *l, const struct kernel *kernel);
const char *load_kernels(struct loader *l, const struct work_item *items, size_t count);
/* The fields of its kind are looked at; not kernels. */
const char *load_work(struct loader *l, const struct sched_work *work);
const char *load_match(struct loader *l, uint32_t group, uint32_t op_count);
const char *load_buffer(struct loader *l, const struct sched_buffer *buffer, const char *label);
const char *load_rank(struct loader *l, const struct index_list *devices, uint32_t stage, const char *label);
const char *load_queue(struct loader *l, uint32_t queue_class, const char *label);
const char *load_op(struct loader *l, const struct loaded_op *op);
/* Takes the builder's schedule over. */
enum status load_finish(struct loader *l, struct schedule *schedule, struct error *error);

#endif
