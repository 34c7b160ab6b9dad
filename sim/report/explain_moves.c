/* Explaining what moves: sums by direction, then by what it is, when it happens and beside which kernels; each move on request. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/units.h"
#include "sim/report/explain_internal.h"

/* What a device and its host do while something moves. Kernels count before Adam on the host; other kernels (clearing, casts) as nothing. */
enum work_beside { BESIDE_FORWARD, BESIDE_BACKWARD, BESIDE_UPDATE, BESIDE_KINDS };

struct stretch {
    int64_t from_ps, to_ps;
    enum work_beside kind;
};

/* Disjoint, rising. */
struct stretches {
    struct stretch *items;
    size_t count, capacity;
};

struct moved_sum {
    double count, bytes, alone_s;
    int64_t ran_ps, beside_ps[BESIDE_KINDS];
    int64_t first_ps, last_ps; /* of the first start, of the last end */
};

struct moved_row {
    uint32_t rank;
    enum opcode opcode;
    const char *what;
    const char *buffer_class; /* "" : no buffer of its own */
    struct moved_sum sum;
};

struct moved_rows {
    struct moved_row *items;
    size_t count, capacity;
};

static const char *direction_word(enum opcode opcode)
{
    switch ((unsigned)opcode) {
    case OP_COPY_H2D: return "host to device";
    case OP_COPY_D2H: return "device to host";
    case OP_COPY_P2P: return "device to device";
    case OP_STORAGE_READ: return "drives to host";
    case OP_STORAGE_WRITE: return "host to drives";
    default: return opcode_word(opcode);
    }
}

/* ---- beside what ---- */

static bool kind_beside(const struct sched_op *op, enum work_beside *kind)
{
    *kind = op->phase == PHASE_FORWARD     ? BESIDE_FORWARD
            : op->phase == PHASE_OPTIMIZER ? BESIDE_UPDATE
                                           : BESIDE_BACKWARD;
    return op->phase == PHASE_FORWARD || op->phase == PHASE_BACKWARD || op->phase == PHASE_WEIGHT ||
           op->phase == PHASE_RECOMPUTE || op->phase == PHASE_OPTIMIZER;
}

static bool has_run(const struct op_times *t)
{
    return t->start_ps != TIME_NEVER_PS && t->end_ps != TIME_NEVER_PS;
}

static bool add_stretch(struct stretches *list, int64_t from_ps, int64_t to_ps, enum work_beside kind)
{
    if (from_ps >= to_ps) {
        return true;
    }
    if (array_reserve(list, 1, NULL) != STATUS_OK) {
        return false;
    }
    list->items[list->count++] = (struct stretch){ from_ps, to_ps, kind };
    return true;
}

/* A rank's ops of one queue class, as they ran one after the other. */
static bool list_queue(const struct explainer *e, const struct sched_rank *rank, enum queue_class queue_class,
                       struct stretches *list)
{
    const struct schedule *s = e->from->input->schedule;
    bool room = true;
    for (uint32_t i = rank->first_op; i < rank->first_op + rank->op_count && room; i++) {
        const struct sched_op *op = &s->ops[i];
        const struct op_times *t = &e->from->input->timeline->ops[i];
        enum work_beside kind;
        if (s->queues[op->queue].queue_class == queue_class && !sched_op_moves(s, op) && has_run(t) &&
            kind_beside(op, &kind)) {
            room = add_stretch(list, t->start_ps, t->end_ps, kind);
        }
    }
    return room;
}

/* The device's kernels, and of the host's what no kernel covers. */
static bool merge(const struct stretches *device, const struct stretches *host, struct stretches *all)
{
    bool room = true;
    size_t k = 0;
    for (size_t d = 0; d <= device->count && room; d++) {
        int64_t gap_from = d == 0 ? INT64_MIN : device->items[d - 1].to_ps;
        int64_t gap_to = d == device->count ? INT64_MAX : device->items[d].from_ps;
        for (; k < host->count && host->items[k].from_ps < gap_to && room; k++) {
            const struct stretch *h = &host->items[k];
            room = add_stretch(all, h->from_ps > gap_from ? h->from_ps : gap_from,
                               h->to_ps < gap_to ? h->to_ps : gap_to, h->kind);
            if (h->to_ps > gap_to) {
                break; /* goes on behind the kernel */
            }
        }
        if (d < device->count && room) {
            room = add_stretch(all, gap_to, device->items[d].to_ps, device->items[d].kind);
        }
    }
    return room;
}

static bool list_stretches(const struct explainer *e, const struct sched_rank *rank, struct stretches *all)
{
    struct stretches device = { 0 }, host = { 0 };
    bool room = list_queue(e, rank, QUEUE_COMPUTE, &device) && list_queue(e, rank, QUEUE_HOST, &host) &&
                merge(&device, &host, all);
    array_free(&device);
    array_free(&host);
    return room;
}

/* The first stretch that ends behind `time_ps`. */
static size_t first_behind(const struct stretches *list, int64_t time_ps)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->items[middle].to_ps > time_ps) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static void add_beside(const struct stretches *list, int64_t from_ps, int64_t to_ps, int64_t beside_ps[BESIDE_KINDS])
{
    for (size_t i = first_behind(list, from_ps); i < list->count && list->items[i].from_ps < to_ps; i++) {
        const struct stretch *at = &list->items[i];
        int64_t from = at->from_ps > from_ps ? at->from_ps : from_ps, to = at->to_ps < to_ps ? at->to_ps : to_ps;
        beside_ps[at->kind] += to - from;
    }
}

static struct moved_sum sum_of_op(const struct explainer *e, uint32_t index, const struct stretches *stretches)
{
    const struct schedule *s = e->from->input->schedule;
    const struct op_times *t = &e->from->input->timeline->ops[index];
    struct moved_sum sum = { .count = 1,
                             .bytes = s->works[s->ops[index].work].bytes,
                             .alone_s = s_from_ps(t->alone_ps),
                             .ran_ps = t->end_ps - t->start_ps,
                             .first_ps = t->start_ps,
                             .last_ps = t->end_ps };
    add_beside(stretches, t->start_ps, t->end_ps, sum.beside_ps);
    return sum;
}

static void add_sum(struct moved_sum *to, const struct moved_sum *one)
{
    to->first_ps = to->count == 0 || one->first_ps < to->first_ps ? one->first_ps : to->first_ps;
    to->last_ps = to->count == 0 || one->last_ps > to->last_ps ? one->last_ps : to->last_ps;
    to->count += one->count;
    to->bytes += one->bytes;
    to->alone_s += one->alone_s;
    to->ran_ps += one->ran_ps;
    for (uint32_t k = 0; k < BESIDE_KINDS; k++) {
        to->beside_ps[k] += one->beside_ps[k];
    }
}

/* ---- of what kind ---- */

/* "fp16 chunk 3" and "fp16 chunk 4" are one kind, as are weights of all layers. */
static void without_number(const char *label, char *text, size_t size)
{
    static const char *const words[] = { "chunk ", "chunks ", "layer " };
    size_t length = 0;
    for (const char *at = label; *at != '\0' && length + 2 < size;) {
        text[length++] = *at++;
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
            size_t word = strlen(words[w]);
            if (length >= word && strncmp(text + length - word, words[w], word) == 0 && isdigit((unsigned char)*at)) {
                text[length++] = 'N';
                at += strspn(at, "0123456789");
            }
        }
    }
    text[length] = '\0';
}

static uint32_t named_buffer(const struct schedule *s, const struct sched_op *op)
{
    uint32_t count;
    const uint32_t *buffers = sched_moved_buffers(s, op, &count);
    return count > 0 ? buffers[0] : SCHED_NONE;
}

static struct moved_row *row_of(struct explainer *e, struct moved_rows *rows, uint32_t rank, const struct sched_op *op)
{
    const struct schedule *s = e->from->input->schedule;
    uint32_t buffer = named_buffer(s, op);
    const char *label = buffer != SCHED_NONE ? sched_label(s, s->buffers[buffer].label) : op_phase_word(op->phase);
    const char *class = buffer != SCHED_NONE ? buffer_class_word(s->buffers[buffer].buffer_class) : "";
    char what[160];
    without_number(label, what, sizeof what);
    for (size_t i = rows->count; i-- > 0 && rows->items[i].rank == rank;) {
        struct moved_row *row = &rows->items[i];
        if (row->opcode == op->opcode && strcmp(row->what, what) == 0 && row->buffer_class == class) {
            return row;
        }
    }
    if (array_reserve(rows, 1, NULL) != STATUS_OK) {
        return NULL;
    }
    rows->items[rows->count++] = (struct moved_row){ .rank = rank,
                                                     .opcode = op->opcode,
                                                     .what = explain_text(e, "%s", what),
                                                     .buffer_class = class };
    return &rows->items[rows->count - 1];
}

/* ---- tables ---- */

static void beside_cells(struct explainer *e, const struct moved_sum *sum, double steps)
{
    int64_t none_ps = sum->ran_ps;
    for (uint32_t k = 0; k < BESIDE_KINDS; k++) {
        explain_cell_number(e, s_from_ps(sum->beside_ps[k]) / steps);
        none_ps -= sum->beside_ps[k];
    }
    explain_cell_number(e, s_from_ps(none_ps) / steps);
}

static void directions_table(struct explainer *e, const struct moved_rows *rows, double steps)
{
    static const char *const columns[] = { "direction", "times a step", "bytes of all devices", "alone s of a device",
                                           NULL };
    const struct schedule *s = e->from->input->schedule;
    explain_table(e, "By direction, a step", columns);
    for (uint32_t opcode = 0; opcode < OPCODE_COUNT; opcode++) {
        double count = 0, bytes = 0, alone_s = 0;
        for (size_t i = 0; i < rows->count; i++) {
            const struct moved_row *row = &rows->items[i];
            double devices = s->ranks[row->rank].device_count;
            if (row->opcode == opcode) {
                count += row->sum.count * devices;
                bytes += row->sum.bytes * devices;
                alone_s += row->sum.alone_s * devices;
            }
        }
        if (count > 0) {
            explain_cell_text(e, direction_word(opcode));
            explain_cell_number(e, count / steps);
            explain_cell_number(e, bytes / steps);
            explain_cell_number(e, alone_s / steps / s->gpu_count);
        }
    }
}

static void kinds_table(struct explainer *e, const struct moved_rows *rows, double steps)
{
    static const char *const columns[] = { "rank",      "what",       "class",    "direction",  "times a step",
                                           "bytes",     "alone s",    "runs s",   "first at s", "last end s",
                                           "forward s", "backward s", "update s", "none s",     NULL };
    const struct schedule *s = e->from->input->schedule;
    explain_table(e,
                  "By what moves, of one device; the last four: how much of the time it runs beside the kernels of "
                  "forward, backward (with recomputation) and update (Adam on the host included), and beside none",
                  columns);
    for (size_t i = 0; i < rows->count; i++) {
        const struct moved_row *row = &rows->items[i];
        explain_cell_text(e, sched_label(s, s->ranks[row->rank].label));
        explain_cell_text(e, row->what);
        explain_cell_text(e, row->buffer_class);
        explain_cell_text(e, direction_word(row->opcode));
        explain_cell_number(e, row->sum.count / steps);
        explain_cell_number(e, row->sum.bytes / steps);
        explain_cell_number(e, row->sum.alone_s / steps);
        explain_cell_number(e, s_from_ps(row->sum.ran_ps) / steps);
        explain_cell_number(e, s_from_ps(row->sum.first_ps));
        explain_cell_number(e, s_from_ps(row->sum.last_ps));
        beside_cells(e, &row->sum, steps);
    }
}

static void list_row(struct explainer *e, uint32_t index, const struct moved_sum *sum)
{
    const struct schedule *s = e->from->input->schedule;
    const struct sched_op *op = &s->ops[index];
    uint32_t buffer = named_buffer(s, op);
    explain_cell_text(e, sched_label(s, s->ranks[sched_op_rank(s, op)].label));
    explain_cell_number(e, index);
    explain_cell_text(e, buffer != SCHED_NONE ? sched_label(s, s->buffers[buffer].label) : op_phase_word(op->phase));
    explain_cell_text(e, op->layer != OP_TAG_NONE ? explain_text(e, "%u", op->layer) : "");
    explain_cell_text(e, op->micro_batch != OP_TAG_NONE ? explain_text(e, "%u", op->micro_batch) : "");
    explain_cell_text(e, direction_word(op->opcode));
    explain_cell_number(e, sum->bytes);
    explain_cell_number(e, s_from_ps(sum->first_ps));
    explain_cell_number(e, sum->alone_s);
    explain_cell_number(e, s_from_ps(sum->ran_ps));
    beside_cells(e, sum, 1);
}

/* Of all ranks: sums by kind; and, with `listed`, a row of each move. */
static bool walk_moves(struct explainer *e, struct moved_rows *rows, bool listed)
{
    const struct schedule *s = e->from->input->schedule;
    bool room = true;
    for (uint32_t r = 0; r < s->rank_count && room; r++) {
        const struct sched_rank *rank = &s->ranks[r];
        struct stretches stretches = { 0 };
        room = list_stretches(e, rank, &stretches);
        for (uint32_t i = rank->first_op; i < rank->first_op + rank->op_count && room; i++) {
            if (!sched_op_moves(s, &s->ops[i]) || !has_run(&e->from->input->timeline->ops[i])) {
                continue;
            }
            const struct moved_sum sum = sum_of_op(e, i, &stretches);
            if (listed) {
                list_row(e, i, &sum);
                continue;
            }
            struct moved_row *row = row_of(e, rows, r, &s->ops[i]);
            room = row != NULL;
            if (room) {
                add_sum(&row->sum, &sum);
            }
        }
        array_free(&stretches);
    }
    return room;
}

void explain_moves(struct explainer *e)
{
    static const char *const columns[] = { "rank",      "op",         "what",     "layer",   "micro-batch",
                                           "direction", "bytes",      "start s",  "alone s", "runs s",
                                           "forward s", "backward s", "update s", "none s",  NULL };
    struct moved_rows rows = { 0 };
    bool room = walk_moves(e, &rows, false);
    if (rows.count > 0) {
        double steps = e->from->result->steps;
        explain_section(e, "moves", "What moves, when, and beside what",
                        "Of a collective, \"bytes\" is the whole buffer, counted at each member. Collectives merged "
                        "into passes (section collectives) are not among them: --detail op shows each.");
        directions_table(e, &rows, steps);
        kinds_table(e, &rows, steps);
        if (e->from->list_moves) {
            explain_table(e, "Each move, in the order of its issue", columns);
            room = walk_moves(e, &rows, true) && room;
        }
    }
    e->to->failed = e->to->failed || !room;
    array_free(&rows);
}
