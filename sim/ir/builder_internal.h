/* The inside of a builder: for sim/ir/builder*.c alone. Until builder_finish operands carry their kind in their two upper bits. */
#ifndef MEMWALL_IR_BUILDER_INTERNAL_H
#define MEMWALL_IR_BUILDER_INTERNAL_H

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/ir/builder.h"
#include "sim/ir/builder_table.h"

enum operand_kind { OPERAND_ACQUIRE, OPERAND_RELEASE, OPERAND_READ, OPERAND_WRITE, OPERAND_KINDS };

enum { KIND_SHIFT = 30 };
#define BUFFER_MASK ((UINT32_C(1) << KIND_SHIFT) - 1)

struct late_release {
    uint32_t op, buffer;
};

/* What grows: the name, the type of its items. */
#define ARRAYS(X)                                                                                                      \
    X(ranks, struct sched_rank)                                                                                        \
    X(queues, struct sched_queue)                                                                                      \
    X(spaces, struct sched_space)                                                                                      \
    X(buffers, struct sched_buffer)                                                                                    \
    X(ops, struct sched_op)                                                                                            \
    X(works, struct sched_work)                                                                                        \
    X(work_items, struct work_item)                                                                                    \
    X(kernels, struct kernel)                                                                                          \
    X(groups, struct sched_group)                                                                                      \
    X(matches, struct sched_match)                                                                                     \
    X(devices, uint32_t)                                                                                               \
    X(group_members, uint32_t)                                                                                         \
    X(dependencies, uint32_t)                                                                                          \
    X(operands, uint32_t)                                                                                              \
    X(late, struct late_release)                                                                                       \
    X(text, char)

/* Labels asked for lately, by where their text stands: nearly always a literal. The text is compared all the same. */
enum { RECENT_LABELS = 64 };
struct recent_label {
    const char *text;
    uint32_t label; /* 0: none */
};

struct builder {
#define X(name, type)                                                                                                  \
    struct {                                                                                                           \
        type *items;                                                                                                   \
        size_t count, capacity;                                                                                        \
    } name;
    ARRAYS(X)
#undef X
    struct builder_table kernel_table, work_table, group_table, label_table;
    struct recent_label recent[RECENT_LABELS];
    uint32_t rank; /* the open one */
    struct error error;
    bool failed;
};

#endif
