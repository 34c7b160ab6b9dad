#include "traces/perfetto.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "sim/base/json_write.h"
#include "sim/base/units.h"
#include "traces/number_text.h"

enum { FLUSH_BYTES = 1 << 20 };

struct writer {
    gzFile file;
    struct strbuf text;
    char **queue_heads; /* [queue_count]: ',"pid":P,"tid":T' */
    uint8_t *partners;  /* [match_count]: wanted sends and receives of a match */
    bool failed, first;
};

static bool wanted(const struct perfetto_input *input, uint32_t rank)
{
    return input->rank_wanted == NULL || rank >= input->schedule->rank_count || input->rank_wanted[rank];
}

static void flush(struct writer *w, size_t at_least)
{
    if (w->text.length < at_least || w->text.length == 0) {
        return;
    }
    w->failed =
        w->failed || w->text.failed || gzwrite(w->file, w->text.text, (unsigned)w->text.length) != (int)w->text.length;
    w->text.length = 0;
}

static void begin(struct writer *w)
{
    flush(w, FLUSH_BYTES);
    strbuf_append(&w->text, w->first ? "\n" : ",\n");
    w->first = false;
}

/* Microseconds with six digits: exact picoseconds. */
static void time_field(struct writer *w, const char *key, int64_t ps)
{
    strbuf_append(&w->text, key);
    put_time_us(&w->text, ps);
}

static void named(struct writer *w, const char *what, uint32_t pid, uint32_t tid, const char *name)
{
    begin(w);
    strbuf_printf(&w->text,
                  "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"args\":{\"name\":", what,
                  pid, tid);
    strbuf_json_string(&w->text, name);
    strbuf_append(&w->text, "}}");
}

static void sorted(struct writer *w, const char *what, uint32_t pid, uint32_t tid, uint32_t index)
{
    begin(w);
    strbuf_printf(&w->text,
                  "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32
                  ",\"args\":{\"sort_index\":%" PRIu32 "}}",
                  what, pid, tid, index);
}

static void tag(struct writer *w, const char *key, uint16_t value)
{
    if (value != OP_TAG_NONE) {
        strbuf_append(&w->text, key);
        put_unsigned(&w->text, value);
    }
}

/* Collectives merged into a sequence of kernels. */
static uint32_t merged_count(const struct schedule *s, const struct sched_op *op)
{
    uint32_t count = 0;
    for (uint32_t k = 0; op->opcode == OP_COMPUTE && k < s->works[op->work].item_count; k++) {
        count += s->work_items[s->works[op->work].first_item + k].kind != ITEM_KERNEL;
    }
    return count;
}

static bool any_merged(const struct schedule *s)
{
    for (uint32_t k = 0; k < s->work_item_count; k++) {
        if (s->work_items[k].kind != ITEM_KERNEL) {
            return true;
        }
    }
    return false;
}

enum { MOVED_TEXT_BYTES = 160 };

/* What a copy or a collective moves: "fp16 chunk 3", "layer 0 weight and 5 more"; "" for what has no buffer of its own. */
static const char *moved_text(const struct schedule *s, const struct sched_op *op, char text[MOVED_TEXT_BYTES])
{
    uint32_t count = 0;
    const uint32_t *buffers = sched_op_moves(s, op) ? sched_moved_buffers(s, op, &count) : NULL;
    text[0] = '\0';
    if (count > 0) {
        const char *label = sched_label(s, s->buffers[buffers[0]].label);
        snprintf(text, MOVED_TEXT_BYTES, count > 1 ? "%.100s and %" PRIu32 " more" : "%.100s", label, count - 1);
    }
    return text;
}

/* Bytes of one device, of a collective the whole buffer (sched_work), and how many devices move as many. */
static void moved_args(struct writer *w, const struct schedule *s, const struct sched_op *op, const char *moved)
{
    strbuf_append(&w->text, ",\"bytes\":");
    put_unsigned(&w->text, (uint64_t)(s->works[op->work].bytes + 0.5));
    uint32_t devices = s->ranks[sched_op_rank(s, op)].device_count;
    if (devices > 1) {
        strbuf_append(&w->text, ",\"devices\":");
        put_unsigned(&w->text, devices);
    }
    if (moved[0] != '\0') {
        strbuf_append(&w->text, ",\"moves\":");
        strbuf_json_string(&w->text, moved);
    }
}

/* The name says phase and micro-batch, or what moves, what people look for first; the rest are arguments. */
static void op_event(struct writer *w, const struct perfetto_input *input, uint32_t index)
{
    const struct schedule *s = input->schedule;
    const struct sched_op *op = &s->ops[index];
    const struct op_times *t = &input->timeline->ops[index];
    int64_t end_ps = t->end_ps != TIME_NEVER_PS ? t->end_ps : input->timeline->end_ps;
    const char *phase = op_phase_word((enum op_phase)op->phase);
    char text[MOVED_TEXT_BYTES];
    const char *moved = moved_text(s, op, text);
    begin(w);
    if (moved[0] != '\0' && op->micro_batch == OP_TAG_NONE) { /* a micro-batch's number says more */
        char name[MOVED_TEXT_BYTES + 32];                     /* an opcode's word is shorter */
        snprintf(name, sizeof name, "%s %s", opcode_word((enum opcode)op->opcode), moved);
        strbuf_append(&w->text, "{\"ph\":\"X\",\"name\":");
        strbuf_json_string(&w->text, name);
        strbuf_append(&w->text, ",\"cat\":\"");
    } else {
        strbuf_append(&w->text, "{\"ph\":\"X\",\"name\":\"");
        if (op->opcode != OP_COMPUTE && op->opcode != OP_DELAY) {
            strbuf_append(&w->text, opcode_word((enum opcode)op->opcode));
            strbuf_char(&w->text, ' ');
        }
        strbuf_append(&w->text, phase);
        tag(w, " mb ", op->micro_batch);
        strbuf_append(&w->text, "\",\"cat\":\"");
    }
    strbuf_append(&w->text, phase);
    strbuf_char(&w->text, '"');
    strbuf_append(&w->text, w->queue_heads[op->queue]);
    time_field(w, ",\"ts\":", t->start_ps);
    time_field(w, ",\"dur\":", end_ps > t->start_ps ? end_ps - t->start_ps : 0);
    strbuf_append(&w->text, ",\"args\":{\"op\":");
    put_unsigned(&w->text, index);
    tag(w, ",\"chunk\":", op->chunk);
    tag(w, ",\"layer\":", op->layer);
    if (sched_op_moves(s, op)) {
        moved_args(w, s, op, moved);
    }
    time_field(w, ",\"alone_us\":", t->alone_ps);
    time_field(w, ",\"issued_us\":", t->issued_ps);
    if (t->matched_ps > t->ready_ps) {
        time_field(w, ",\"waited_for_partner_us\":", t->matched_ps - t->ready_ps);
    }
    if (t->start_ps > t->matched_ps) {
        time_field(w, ",\"waited_for_memory_us\":", t->start_ps - t->matched_ps);
    }
    uint32_t merged = merged_count(s, op);
    if (merged > 0) {
        strbuf_append(&w->text, ",\"merged_collectives\":");
        put_unsigned(&w->text, merged);
        if (input->merged_ps != NULL) {
            time_field(w, ",\"merged_collectives_alone_us\":", input->merged_ps[index]);
        }
    }
    strbuf_append(&w->text, "}}");
}

/* One arrow a send: from its start to the start of its receive. */
static void flow_event(struct writer *w, const struct perfetto_input *input, uint32_t index)
{
    const struct sched_op *op = &input->schedule->ops[index];
    bool send = op->opcode == OP_SEND;
    begin(w);
    strbuf_append(&w->text, send ? "{\"ph\":\"s\"" : "{\"ph\":\"f\",\"bp\":\"e\"");
    strbuf_append(&w->text, ",\"name\":\"transfer\",\"cat\":\"flow\",\"id\":");
    put_unsigned(&w->text, op->match);
    strbuf_append(&w->text, w->queue_heads[op->queue]);
    time_field(w, ",\"ts\":", input->timeline->ops[index].start_ps);
    strbuf_append(&w->text, "}");
}

static void counter_events(struct writer *w, const struct trace_counter *counter, uint32_t pid)
{
    struct strbuf head = { 0 };
    strbuf_append(&head, "{\"ph\":\"C\",\"name\":");
    strbuf_json_string(&head, counter->name);
    strbuf_printf(&head, ",\"pid\":%" PRIu32 ",\"ts\":", pid);
    w->failed = w->failed || head.failed;
    for (uint32_t i = 0; !w->failed && i < counter->count; i++) {
        begin(w);
        strbuf_append_n(&w->text, head.text, head.length);
        put_time_us(&w->text, counter->times_ps[i]);
        for (uint32_t k = 0; k < counter->series_count; k++) {
            double value = counter->values[(size_t)i * counter->series_count + k];
            strbuf_append(&w->text, k > 0 ? ",\"" : ",\"args\":{\"");
            strbuf_append(&w->text, counter->series[k]);
            strbuf_append(&w->text, "\":");
            put_millionths(&w->text, value > 0 ? (uint64_t)(value * 1e6 + 0.5) : 0);
        }
        strbuf_append(&w->text, "}}");
    }
    strbuf_free(&head);
}

static void write_names(struct writer *w, const struct perfetto_input *input)
{
    const struct schedule *s = input->schedule;
    for (uint32_t r = 0; r < s->rank_count; r++) {
        if (wanted(input, r)) {
            named(w, "process_name", r, 0, sched_label(s, s->ranks[r].label));
            sorted(w, "process_sort_index", r, 0, r);
        }
    }
    for (uint32_t q = 0; q < s->queue_count; q++) {
        if (wanted(input, s->queues[q].rank)) {
            named(w, "thread_name", s->queues[q].rank, q, sched_label(s, s->queues[q].label));
            sorted(w, "thread_sort_index", s->queues[q].rank, q, q);
        }
    }
    bool shared = false;
    for (uint32_t i = 0; i < input->counter_count; i++) {
        shared = shared || input->counters[i].rank == SCHED_NONE;
    }
    if (shared) {
        named(w, "process_name", s->rank_count, 0, "links and servers");
        sorted(w, "process_sort_index", s->rank_count, 0, s->rank_count);
    }
}

static void write_all(struct writer *w, const struct perfetto_input *input)
{
    const struct schedule *s = input->schedule;
    char hash[HASH_TEXT_BYTES];
    strbuf_printf(&w->text,
                  "{\"otherData\":{\"schema\":\"memwall.trace/1\",\"schedule_hash\":\"%s\"%s},"
                  "\"displayTimeUnit\":\"ms\",\"traceEvents\":[",
                  hash_text(&input->timeline->schedule_hash, hash),
                  any_merged(s) ? ",\"note\":\"tensor-parallel collectives are merged into their passes (args "
                                  "merged_collectives, merged_collectives_alone_us); --detail op shows each\""
                                : "");
    write_names(w, input);
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        bool is_transfer = op->opcode == OP_SEND || op->opcode == OP_RECV;
        if (!wanted(input, sched_op_rank(s, op)) || op->opcode == OP_MARK ||
            input->timeline->ops[i].start_ps == TIME_NEVER_PS) {
            continue;
        }
        op_event(w, input, i);
        if (is_transfer && w->partners[op->match] == 2) {
            flow_event(w, input, i);
        }
    }
    for (uint32_t i = 0; i < input->counter_count; i++) {
        uint32_t rank = input->counters[i].rank;
        if (wanted(input, rank)) {
            counter_events(w, &input->counters[i], rank == SCHED_NONE ? s->rank_count : rank);
        }
    }
    strbuf_append(&w->text, "\n]}\n");
    flush(w, 0);
}

/* Texts that every event of a queue shares, and which transfers have both ends in the trace. */
static enum status prepare(struct writer *w, const struct perfetto_input *input, struct arena *arena,
                           struct error *error)
{
    const struct schedule *s = input->schedule;
    w->queue_heads = arena_array(arena, char *, s->queue_count);
    w->partners = arena_array(arena, uint8_t, s->match_count);
    if (w->queue_heads == NULL || w->partners == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the trace");
    }
    for (uint32_t q = 0; q < s->queue_count; q++) {
        w->queue_heads[q] = arena_printf(arena, ",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32, s->queues[q].rank, q);
        if (w->queue_heads[q] == NULL) {
            return error_set(error, STATUS_NO_MEMORY, "out of memory for the trace");
        }
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        if ((op->opcode == OP_SEND || op->opcode == OP_RECV) && wanted(input, sched_op_rank(s, op)) &&
            input->timeline->ops[i].start_ps != TIME_NEVER_PS) {
            w->partners[op->match]++;
        }
    }
    return STATUS_OK;
}

enum status perfetto_write(const char *path, const struct perfetto_input *input, struct error *error)
{
    char temporary[4096];
    if (snprintf(temporary, sizeof temporary, "%s.tmp", path) >= (int)sizeof temporary) {
        return error_at(error, STATUS_IO, path, NULL, "path too long");
    }
    struct arena arena = { 0 };
    struct writer w = { .first = true };
    enum status status = prepare(&w, input, &arena, error);
    if (status == STATUS_OK) {
        w.file = gzopen(temporary, "wb1"); /* speed: the text shrinks by a factor of ten already */
        if (w.file == NULL) {
            status = error_at(error, STATUS_IO, path, NULL, "cannot be written");
        }
    }
    if (status == STATUS_OK) {
        write_all(&w, input);
        bool failed = w.failed || w.text.failed;
        failed = gzclose(w.file) != Z_OK || failed;
        if (failed || rename(temporary, path) != 0) {
            unlink(temporary);
            status = error_at(error, STATUS_IO, path, NULL, "cannot be written (disk full?)");
        }
    }
    strbuf_free(&w.text);
    arena_free(&arena);
    return status;
}
