/* The schedule's tables, names and hash. */
#include "sim/ir/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/ir/mix.h"

void schedule_free(struct schedule *schedule)
{
    void *const arrays[] = { schedule->ranks,    schedule->queues,       schedule->spaces,     schedule->buffers,
                             schedule->ops,      schedule->works,        schedule->work_items, schedule->kernels,
                             schedule->groups,   schedule->matches,      schedule->devices,    schedule->group_members,
                             schedule->operands, schedule->dependencies, schedule->text };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        free(arrays[i]);
    }
    *schedule = (struct schedule){ 0 };
}

uint64_t *schedule_lend_memory(struct schedule *schedule)
{
    uint64_t *capacities = calloc((size_t)schedule->space_count + 1, sizeof *capacities);
    for (uint32_t i = 0; capacities != NULL && i < schedule->space_count; i++) {
        capacities[i] = schedule->spaces[i].capacity_bytes;
        schedule->spaces[i].capacity_bytes = UINT64_MAX;
    }
    return capacities;
}

void schedule_return_memory(struct schedule *schedule, uint64_t *capacities)
{
    for (uint32_t i = 0; i < schedule->space_count; i++) {
        schedule->spaces[i].capacity_bytes = capacities[i];
    }
    free(capacities);
}

const char *sched_label(const struct schedule *schedule, uint32_t label)
{
    CHECK(label < schedule->text_bytes);
    return schedule->text + label;
}

/* -- tables -- */

struct opcode_row {
    const char *word, *summary;
    uint32_t queues; /* one bit a class */
    enum work_kind work;
    enum match_rule match;
};

static const struct opcode_row *opcode_row(enum opcode opcode)
{
#define Q(queue_class)                              (1u << (queue_class))
#define X(name, word, queues, work, match, summary) { word, summary, queues, work, match },
    static const struct opcode_row rows[] = {
#include "sim/ir/ops.def"
    };
#undef X
#undef Q
    CHECK((unsigned)opcode < OPCODE_COUNT);
    return &rows[opcode];
}

const char *opcode_word(enum opcode opcode)
{
    return opcode_row(opcode)->word;
}

const char *opcode_summary(enum opcode opcode)
{
    return opcode_row(opcode)->summary;
}

enum work_kind opcode_work(enum opcode opcode)
{
    return opcode_row(opcode)->work;
}

enum match_rule opcode_match(enum opcode opcode)
{
    return opcode_row(opcode)->match;
}

bool opcode_allows_queue(enum opcode opcode, enum queue_class queue_class)
{
    CHECK((unsigned)queue_class < QUEUE_CLASS_COUNT);
    return (opcode_row(opcode)->queues >> queue_class & 1u) != 0;
}

const char *queue_class_word(enum queue_class queue_class)
{
#define X(name, word) word,
    static const char *const words[] = { QUEUE_CLASS_TABLE(X) };
#undef X
    CHECK((unsigned)queue_class < QUEUE_CLASS_COUNT);
    return words[queue_class];
}

const char *buffer_class_word(enum buffer_class buffer_class)
{
#define X(name, word, help) word,
    static const char *const words[] = { BUFFER_CLASS_TABLE(X) };
#undef X
    CHECK((unsigned)buffer_class < BUFFER_CLASS_COUNT);
    return words[buffer_class];
}

const char *space_kind_word(enum space_kind kind)
{
#define X(name, word) word,
    static const char *const words[] = { SPACE_KIND_TABLE(X) };
#undef X
    CHECK((unsigned)kind < SPACE_KIND_COUNT);
    return words[kind];
}

const char *work_kind_word(enum work_kind kind)
{
#define X(name, word) word,
    static const char *const words[] = { WORK_KIND_TABLE(X) };
#undef X
    CHECK((unsigned)kind < WORK_KIND_COUNT);
    return words[kind];
}

const char *op_phase_word(enum op_phase phase)
{
#define X(name, word) word,
    static const char *const words[] = { OP_PHASE_TABLE(X) };
#undef X
    CHECK((unsigned)phase < PHASE_COUNT);
    return words[phase];
}

/* -- ops -- */

bool sched_op_moves(const struct schedule *schedule, const struct sched_op *op)
{
    return op->work != SCHED_NONE &&
           (schedule->works[op->work].kind == WORK_COLLECTIVE || schedule->works[op->work].kind == WORK_TRANSFER);
}

const uint32_t *sched_moved_buffers(const struct schedule *schedule, const struct sched_op *op, uint32_t *count)
{
    const uint32_t *const operands[] = { sched_acquires(schedule, op), sched_writes(schedule, op),
                                         sched_reads(schedule, op), sched_releases(schedule, op) };
    const uint32_t counts[] = { op->acquire_count, op->write_count, op->read_count, op->release_count };
    uint32_t i = 0;
    while (i < 3 && counts[i] == 0) {
        i++;
    }
    *count = counts[i];
    return operands[i];
}

/* -- names -- */

const char *sched_op_text(const struct schedule *schedule, uint32_t op, char *buffer, size_t size)
{
    CHECK(op < schedule->op_count && size > 0);
    const struct sched_op *o = &schedule->ops[op];
    const struct sched_queue *queue = &schedule->queues[o->queue];
    const char *words[2] = { opcode_word(o->opcode), op_phase_word(o->phase) };
    bool bare = o->opcode == OP_COMPUTE || o->opcode == OP_DELAY;
    size_t length = 0;
    /* snprintf reports the length it wanted: past the end nothing more fits. */
#define APPEND(...)                                                                                                    \
    do {                                                                                                               \
        int wrote_ = length < size ? snprintf(buffer + length, size - length, __VA_ARGS__) : 0;                        \
        length += wrote_ > 0 ? (size_t)wrote_ : 0;                                                                     \
    } while (0)
    if (bare && o->phase != PHASE_OTHER) {
        APPEND("%s", words[1]);
    } else if (o->phase == PHASE_OTHER) {
        APPEND("%s", words[0]);
    } else {
        APPEND("%s %s", words[0], words[1]);
    }
    if (o->micro_batch != OP_TAG_NONE) {
        APPEND(" mb %u", o->micro_batch);
    }
    if (o->chunk != OP_TAG_NONE) {
        APPEND(" chunk %u", o->chunk);
    }
    if (o->layer != OP_TAG_NONE) {
        APPEND(" layer %u", o->layer);
    }
    APPEND(" (%s, %s)", sched_label(schedule, schedule->ranks[queue->rank].label), sched_label(schedule, queue->label));
#undef APPEND
    return buffer;
}

/* -- hash -- */

enum { LANES = 4 };

/* `bytes` of records without padding. Four independent chains, so that the processor overlaps their multiplications. */
static void hash_records(struct hash *hash, const void *records, size_t count, size_t record_bytes)
{
    size_t bytes = count * record_bytes;
    const unsigned char *at = records;
    uint64_t a[LANES] = { MIX_A, MIX_B, MIX_C, MIX_A ^ MIX_B }, b[LANES] = { MIX_C, MIX_A, MIX_B, MIX_B ^ MIX_C };
    hash_u64(hash, bytes);
    for (; bytes >= 8 * LANES; bytes -= 8 * LANES, at += 8 * LANES) {
        for (unsigned i = 0; i < LANES; i++) {
            uint64_t word;
            memcpy(&word, at + 8 * i, 8);
            a[i] = mix_round(a[i], word);
            b[i] = mix_round_second(b[i], word);
        }
    }
    for (unsigned i = 0; i < LANES; i++) {
        hash_u64(hash, mix_end(a[i]));
        hash_u64(hash, mix_end(b[i]));
    }
    hash_bytes(hash, at, bytes);
}

/* Records that carry a label: it enters by its text, whose hash is kept per offset, since many records share few labels. */
struct labelled {
    const struct schedule *schedule;
    uint64_t *known; /* [text_bytes], 0: not yet; NULL when memory is out: compute each time */
    uint64_t a, b;
};

static uint64_t label_mix(struct labelled *l, uint32_t label)
{
    if (l->known != NULL && l->known[label] != 0) {
        return l->known[label];
    }
    const char *text = sched_label(l->schedule, label);
    uint64_t mix = mix_bytes(text, strlen(text)) | 1;
    if (l->known != NULL) {
        l->known[label] = mix;
    }
    return mix;
}

static void labelled_add(struct labelled *l, uint64_t word)
{
    l->a = mix_round(l->a, word);
    l->b = mix_round_second(l->b, word);
}

static uint64_t pair(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

static void hash_labelled(struct hash *hash, const struct schedule *s)
{
    struct labelled l = { s, calloc(s->text_bytes, sizeof(uint64_t)), MIX_A, MIX_C };
    for (uint32_t i = 0; i < s->rank_count; i++) {
        const struct sched_rank *r = &s->ranks[i];
        labelled_add(&l, pair(r->first_device, r->device_count));
        labelled_add(&l, pair(r->first_op, r->op_count));
        labelled_add(&l, label_mix(&l, r->label));
        labelled_add(&l, r->stage);
    }
    for (uint32_t i = 0; i < s->queue_count; i++) {
        labelled_add(&l, pair(s->queues[i].rank, s->queues[i].queue_class));
        labelled_add(&l, label_mix(&l, s->queues[i].label));
    }
    for (uint32_t i = 0; i < s->space_count; i++) {
        const struct sched_space *space = &s->spaces[i];
        labelled_add(&l, space->capacity_bytes);
        labelled_add(&l, pair(space->location, space->parent));
        labelled_add(&l, label_mix(&l, space->label) ^ space->kind ^ (uint64_t)space->exact_blocks << 8);
    }
    for (uint32_t i = 0; i < s->group_count; i++) {
        const struct sched_group *g = &s->groups[i];
        labelled_add(&l, pair(g->first_member, g->member_count));
        labelled_add(&l, label_mix(&l, g->label) ^ g->instance_count);
    }
    hash_u64(hash, mix_end(l.a));
    hash_u64(hash, mix_end(l.b));
    /* Buffers are many: two words and the label's mixture folded in by a third. */
    l.a = MIX_B;
    l.b = MIX_A;
    for (uint32_t i = 0; i < s->buffer_count; i++) {
        const struct sched_buffer *x = &s->buffers[i];
        labelled_add(&l, x->bytes);
        labelled_add(&l, pair(x->copies, x->space));
        labelled_add(&l, label_mix(&l, x->label) + ((uint64_t)x->buffer_class << 8 | x->flags) * MIX_C);
    }
    hash_u64(hash, mix_end(l.a));
    hash_u64(hash, mix_end(l.b));
    free(l.known);
}

struct hash schedule_hash(const struct schedule *schedule)
{
    const struct schedule *s = schedule;
    struct hash hash = hash_start();
    hash_u64(&hash, 1); /* version of this hash */
    const uint32_t counts[] = { s->rank_count,       s->queue_count,        s->space_count,  s->buffer_count,
                                s->op_count,         s->work_count,         s->group_count,  s->match_count,
                                s->device_count,     s->work_item_count,    s->kernel_count, s->operand_count,
                                s->dependency_count, s->group_member_count, s->gpu_count };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        hash_u64(&hash, counts[i]);
    }
    hash_double(&hash, s->model_flops);
    hash_double(&hash, s->samples);
    hash_double(&hash, s->tokens);
    hash_labelled(&hash, s);
    hash_records(&hash, s->ops, s->op_count, sizeof *s->ops);
    hash_records(&hash, s->operands, s->operand_count, sizeof *s->operands);
    hash_records(&hash, s->dependencies, s->dependency_count, sizeof *s->dependencies);
    hash_records(&hash, s->works, s->work_count, sizeof *s->works);
    hash_records(&hash, s->work_items, s->work_item_count, sizeof *s->work_items);
    hash_records(&hash, s->kernels, s->kernel_count, sizeof *s->kernels);
    hash_records(&hash, s->matches, s->match_count, sizeof *s->matches);
    hash_records(&hash, s->devices, s->device_count, sizeof *s->devices);
    hash_records(&hash, s->group_members, s->group_member_count, sizeof *s->group_members);
    return hash;
}
