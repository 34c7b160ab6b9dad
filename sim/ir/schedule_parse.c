/* Reading the text form: lines of words, a record a line. Blank lines and lines that begin with # say nothing. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/ir/schedule_load.h"
#include "sim/ir/schedule_text.h"

struct word {
    const char *at;
    size_t length; /* 0: the line is over */
};

struct parser {
    struct loader loader;
    const char *at, *end, *line_end, *file;
    unsigned line;
    struct error *error;
    struct word word; /* the one to look at */
    struct index_list numbers;
    struct loaded_op op;
    struct {
        struct work_item *items;
        size_t count, capacity;
    } work_items;
    struct strbuf label;
    bool ended;
};

__attribute__((format(printf, 2, 3))) static enum status bad(struct parser *p, const char *format, ...)
{
    char message[512], place[32];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    (void)snprintf(place, sizeof place, "line %u", p->line);
    return error_at(p->error, STATUS_BAD_INPUT, p->file, place, "%s", message);
}

static enum status found(struct parser *p, const char *wanted)
{
    int shown = p->word.length < 40 ? (int)p->word.length : 40;
    return bad(p, "expected %s, found \"%.*s\"%s", wanted, shown, p->word.at,
               p->word.length == 0 ? " (the line is over)" : "");
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Step to the next word. A quoted text is one word, quotes included. */
static void advance(struct parser *p)
{
    while (p->at < p->line_end && is_space(*p->at)) {
        p->at++;
    }
    p->word.at = p->at;
    if (p->at < p->line_end && *p->at == '"') {
        for (p->at++; p->at < p->line_end && *p->at != '"'; p->at++) {
            p->at += *p->at == '\\' && p->at + 1 < p->line_end;
        }
        p->at += p->at < p->line_end;
    } else {
        while (p->at < p->line_end && !is_space(*p->at)) {
            p->at++;
        }
    }
    p->word.length = (size_t)(p->at - p->word.at);
}

/* The next line that says something; false at the end. */
static bool next_line(struct parser *p)
{
    while (p->line_end < p->end || p->line == 0) {
        p->at = p->line == 0 ? p->at : p->line_end + 1;
        if (p->at >= p->end) {
            return false;
        }
        p->line++;
        const char *feed = memchr(p->at, '\n', (size_t)(p->end - p->at));
        p->line_end = feed == NULL ? p->end : feed;
        advance(p);
        if (p->word.length != 0 && p->word.at[0] != '#') {
            return true;
        }
    }
    return false;
}

static bool is_word(const struct parser *p, const char *text)
{
    return strlen(text) == p->word.length && memcmp(p->word.at, text, p->word.length) == 0;
}

/* Takes the word if it is `text`. */
static bool take(struct parser *p, const char *text)
{
    bool yes = is_word(p, text);
    if (yes) {
        advance(p);
    }
    return yes;
}

static enum status expect(struct parser *p, const char *text)
{
    char wanted[64];
    (void)snprintf(wanted, sizeof wanted, "\"%s\"", text);
    return take(p, text) ? STATUS_OK : found(p, wanted);
}

/* Digits alone, no leading zero, at most `max`. */
static bool digits(const char *at, size_t length, uint64_t max, uint64_t *value)
{
    if (length == 0 || length > 20 || (at[0] == '0' && length > 1)) {
        return false;
    }
    *value = 0;
    for (size_t i = 0; i < length; i++) {
        if (at[i] < '0' || at[i] > '9' || __builtin_mul_overflow(*value, 10u, value) ||
            __builtin_add_overflow(*value, (uint64_t)(at[i] - '0'), value)) {
            return false;
        }
    }
    return *value <= max;
}

static enum status integer(struct parser *p, uint64_t max, uint64_t *value)
{
    char wanted[64];
    if (digits(p->word.at, p->word.length, max, value)) {
        advance(p);
        return STATUS_OK;
    }
    (void)snprintf(wanted, sizeof wanted, "an integer from 0 to %llu", (unsigned long long)max);
    return found(p, wanted);
}

static enum status integer32(struct parser *p, uint32_t max, uint32_t *value)
{
    uint64_t wide = 0;
    TRY(integer(p, max, &wide));
    *value = (uint32_t)wide;
    return STATUS_OK;
}

/* "b12" with prefix 'b'. SCHED_NONE is nobody's number. */
static bool take_reference(struct parser *p, char prefix, uint32_t *index)
{
    uint64_t wide = 0;
    if (p->word.length < 2 || p->word.at[0] != prefix ||
        !digits(p->word.at + 1, p->word.length - 1, SCHED_NONE - 1, &wide)) {
        return false;
    }
    *index = (uint32_t)wide;
    advance(p);
    return true;
}

static enum status reference(struct parser *p, char prefix, uint32_t *index)
{
    char wanted[32];
    (void)snprintf(wanted, sizeof wanted, "%c and a number", prefix);
    return take_reference(p, prefix, index) ? STATUS_OK : found(p, wanted);
}

/* A record says its own number, so that a reader finds it; it is the next one. */
static enum status own_number(struct parser *p, char prefix, uint32_t next)
{
    uint32_t index = 0;
    if (prefix == '\0') {
        TRY(integer32(p, SCHED_NONE - 1, &index));
    } else {
        TRY(reference(p, prefix, &index));
    }
    return index == next ? STATUS_OK : bad(p, "number %u stands where number %u follows", index, next);
}

static enum status keyed_integer(struct parser *p, const char *key, uint64_t max, uint64_t *value)
{
    TRY(expect(p, key));
    return integer(p, max, value);
}

static enum status keyed_real(struct parser *p, const char *key, double *value)
{
    char text[40];
    TRY(expect(p, key));
    if (p->word.length < sizeof text) {
        memcpy(text, p->word.at, p->word.length);
        text[p->word.length] = '\0';
        char *stop;
        *value = strtod(text, &stop);
        if (text[0] >= '0' && text[0] <= '9' && strspn(text, "0123456789.eE+-") == p->word.length && *stop == '\0' &&
            isfinite(*value)) {
            advance(p);
            return STATUS_OK;
        }
    }
    return found(p, "a finite number from 0");
}

static enum status word_of(struct parser *p, enum vocabulary_of words, uint32_t *index)
{
    size_t at = vocabulary_find(words, p->word.at, p->word.length);
    if (at < vocabulary(words).count) {
        *index = (uint32_t)at;
        advance(p);
        return STATUS_OK;
    }
    char wanted[400];
    size_t length = 0;
    for (size_t i = 0; i < vocabulary(words).count && length < sizeof wanted; i++) {
        int wrote = snprintf(wanted + length, sizeof wanted - length, "%s%s", i == 0 ? "one of " : ", ",
                             vocabulary(words).words[i]);
        length += wrote > 0 ? (size_t)wrote : 0;
    }
    return found(p, wanted);
}

/* Flags in the order of their bits. */
static uint32_t take_flags(struct parser *p, enum vocabulary_of words)
{
    uint32_t flags = 0;
    for (size_t i = 0; i < vocabulary(words).count; i++) {
        flags |= take(p, vocabulary(words).words[i]) ? 1u << i : 0;
    }
    return flags;
}

static enum status push(struct parser *p, struct index_list *list, uint32_t value)
{
    TRY(array_reserve(list, 1, p->error));
    list->items[list->count++] = value;
    return STATUS_OK;
}

/* "3 5..8": at least one number, each below SCHED_DEVICES_MAX, so a range is bounded. */
static enum status device_list(struct parser *p)
{
    p->numbers.count = 0;
    while (p->word.length != 0 && p->word.at[0] >= '0' && p->word.at[0] <= '9') {
        const char *dots = memchr(p->word.at, '.', p->word.length);
        uint64_t first = 0, last = 0;
        size_t length = dots == NULL ? p->word.length : (size_t)(dots - p->word.at);
        bool fine = digits(p->word.at, length, SCHED_DEVICES_MAX - 1, &first);
        last = first;
        if (fine && dots != NULL) {
            fine = p->word.length > length + 2 && dots[1] == '.' &&
                   digits(dots + 2, p->word.length - length - 2, SCHED_DEVICES_MAX - 1, &last) && last > first;
        }
        if (!fine || p->numbers.count + (last - first) >= LOAD_MEMBERS_MAX) {
            return found(p, "device numbers or first..last");
        }
        for (uint64_t i = first; i <= last; i++) {
            TRY(push(p, &p->numbers, (uint32_t)i));
        }
        advance(p);
    }
    return STATUS_OK;
}

/* A quoted label, unescaped into p->label; the last word of its line. */
static enum status label(struct parser *p)
{
    p->label.length = 0;
    strbuf_append(&p->label, "");
    const char *at = p->word.at + 1, *end = p->word.at + p->word.length - 1;
    if (p->word.length < 2 || p->word.at[0] != '"' || *end != '"') {
        return found(p, "a quoted label");
    }
    while (at < end) {
        char c = *at++;
        if ((unsigned char)c < 0x20) {
            return bad(p, "a control character in a label: write it as an escape");
        }
        if (c == '\\') {
            static const char names[] = "\"\\nrt", values[] = "\"\\\n\r\t";
            const char *name = at < end && *at != '\0' ? strchr(names, *at) : NULL;
            char hex[5] = { 0 };
            if (name != NULL) {
                c = values[name - names];
                at++;
            } else if (at < end && *at == 'u' && end - at >= 5 &&
                       strspn(memcpy(hex, at + 1, 4), "0123456789abcdefABCDEF") == 4 &&
                       strtoul(hex, NULL, 16) - 1 < 0x7f) {
                c = (char)strtoul(hex, NULL, 16);
                at += 5;
            } else {
                return bad(p, "an escape in a label that is none of \\\" \\\\ \\n \\r \\t \\u0001 to \\u007f");
            }
        }
        strbuf_char(&p->label, c);
    }
    if (p->label.failed) {
        return error_set(p->error, STATUS_NO_MEMORY, "out of memory: a label");
    }
    advance(p);
    return STATUS_OK;
}

static enum status line_over(struct parser *p)
{
    return p->word.length == 0 ? STATUS_OK : found(p, "the end of the line");
}

static enum status accept(struct parser *p, const char *why)
{
    return why == NULL ? STATUS_OK : bad(p, "%s", why);
}

/* -- records -- */

static enum status parse_step(struct parser *p)
{
    struct schedule *totals = &p->loader.totals;
    uint64_t gpus = 0;
    TRY(keyed_integer(p, "gpus", UINT32_MAX, &gpus));
    totals->gpu_count = (uint32_t)gpus;
    TRY(keyed_real(p, "model_flops", &totals->model_flops));
    TRY(keyed_real(p, "samples", &totals->samples));
    TRY(keyed_real(p, "tokens", &totals->tokens));
    return line_over(p);
}

static enum status parse_space(struct parser *p)
{
    uint32_t kind = 0, location = 0, parent = SCHED_NONE;
    uint64_t capacity = UINT64_MAX;
    TRY(own_number(p, 's', p->loader.spaces));
    TRY(word_of(p, WORDS_SPACE_KIND, &kind));
    TRY(integer32(p, UINT32_MAX, &location));
    TRY(expect(p, "capacity"));
    if (!take(p, "unlimited")) {
        TRY(integer(p, SCHED_INTEGER_MAX, &capacity));
    }
    if (take(p, "parent")) {
        TRY(reference(p, 's', &parent));
    }
    bool exact = take(p, "exact");
    TRY(label(p));
    TRY(line_over(p));
    return accept(p, load_space(&p->loader, kind, location, capacity, parent, exact, p->label.text));
}

static enum status parse_group(struct parser *p)
{
    uint64_t instances = 0;
    TRY(own_number(p, 'g', p->loader.groups));
    TRY(keyed_integer(p, "instances", UINT32_MAX, &instances));
    TRY(expect(p, "members"));
    TRY(device_list(p));
    TRY(label(p));
    TRY(line_over(p));
    return accept(p, load_group(&p->loader, &p->numbers, (uint32_t)instances, p->label.text));
}

static enum status parse_kernel(struct parser *p)
{
    struct kernel k = { 0 };
    uint32_t kernel_class = 0, dtype = 0, layout = 0;
    uint64_t launches = 0;
    TRY(own_number(p, 'k', p->loader.kernels));
    TRY(word_of(p, WORDS_KERNEL_CLASS, &kernel_class));
    TRY(word_of(p, WORDS_DTYPE, &dtype));
    if (kernel_class == KERNEL_GEMM) {
        TRY(word_of(p, WORDS_LAYOUT, &layout));
    }
    TRY(keyed_integer(p, "launches", UINT32_MAX, &launches));
    TRY(keyed_integer(p, "batch", SCHED_INTEGER_MAX, &k.batch));
    TRY(keyed_integer(p, "m", SCHED_INTEGER_MAX, &k.m));
    TRY(keyed_integer(p, "n", SCHED_INTEGER_MAX, &k.n));
    TRY(keyed_integer(p, "k", SCHED_INTEGER_MAX, &k.k));
    TRY(keyed_real(p, "flops", &k.flops));
    TRY(keyed_real(p, "read", &k.bytes_read));
    TRY(keyed_real(p, "written", &k.bytes_written));
    k.kernel_class = (uint8_t)kernel_class;
    k.dtype = (uint8_t)dtype;
    k.layout = (uint8_t)layout;
    k.launches = (uint32_t)launches;
    k.flags = (uint8_t)take_flags(p, WORDS_KERNEL_FLAG);
    TRY(line_over(p));
    return accept(p, load_kernel(&p->loader, &k));
}

/* "k3", "k3/1", "w5/all_gather": all of the line. */
static enum status parse_items(struct parser *p)
{
    p->work_items.count = 0;
    while (p->word.length != 0) {
        const char *slash = memchr(p->word.at, '/', p->word.length);
        size_t length = slash == NULL ? p->word.length : (size_t)(slash - p->word.at);
        uint64_t index = 0, passes = 0;
        bool kernel = p->word.at[0] == 'k';
        bool beside = p->word.at[0] == 'b';
        bool fine = length > 1 && (kernel || beside || p->word.at[0] == 'w') &&
                    digits(p->word.at + 1, length - 1, SCHED_NONE - 1, &index);
        if (fine && !kernel) {
            passes =
                slash == NULL ? OPCODE_COUNT : vocabulary_find(WORDS_OPCODE, slash + 1, p->word.length - length - 1);
            fine = passes < OPCODE_COUNT;
        } else if (fine && slash != NULL) {
            fine = digits(slash + 1, p->word.length - length - 1, UINT16_MAX, &passes) && passes > 0;
        }
        if (!fine) {
            return found(
                p, "k and a number, perhaps with /passes, or w (b: beside the next kernel) and a number with /opcode");
        }
        TRY(array_reserve(&p->work_items, 1, p->error));
        p->work_items.items[p->work_items.count++] = (struct work_item){ (uint32_t)index,
                                                                         kernel   ? ITEM_KERNEL
                                                                         : beside ? ITEM_COLLECTIVE_BESIDE
                                                                                  : ITEM_COLLECTIVE,
                                                                         (uint16_t)passes };
        advance(p);
    }
    return accept(p, load_kernels(&p->loader, p->work_items.items, p->work_items.count));
}

static enum status parse_work(struct parser *p)
{
    struct sched_work w = { .group = SCHED_NONE };
    uint32_t kind = 0, dtype = 0;
    uint64_t fixed = 0;
    TRY(own_number(p, 'w', p->loader.works));
    TRY(word_of(p, WORDS_WORK_KIND, &kind));
    w.kind = (uint8_t)kind;
    switch ((enum work_kind)kind) {
    case WORK_KERNELS: return parse_items(p);
    case WORK_COLLECTIVE:
        TRY(reference(p, 'g', &w.group));
        TRY(word_of(p, WORDS_DTYPE, &dtype));
        w.dtype = (uint8_t)dtype;
        TRY(keyed_real(p, "bytes", &w.bytes));
        break;
    case WORK_TRANSFER:
        TRY(keyed_real(p, "bytes", &w.bytes));
        w.pageable = take(p, "pageable") ? 1 : 0;
        break;
    case WORK_HOST_OPTIMIZER: TRY(keyed_real(p, "parameters", &w.parameters)); break;
    case WORK_FIXED:
        TRY(keyed_integer(p, "ps", SCHED_INTEGER_MAX, &fixed));
        w.fixed_ps = (int64_t)fixed;
        break;
    case WORK_NONE:
    case WORK_KIND_COUNT: break;
    }
    TRY(line_over(p));
    return accept(p, load_work(&p->loader, &w));
}

static enum status parse_match(struct parser *p)
{
    uint32_t group = 0;
    uint64_t op_count = 0;
    TRY(own_number(p, 'm', p->loader.matches));
    TRY(reference(p, 'g', &group));
    TRY(keyed_integer(p, "ops", SCHED_COUNT_MAX, &op_count));
    TRY(line_over(p));
    return accept(p, load_match(&p->loader, group, (uint32_t)op_count));
}

static enum status parse_buffer(struct parser *p)
{
    struct sched_buffer b = { .copies = 1 };
    uint32_t buffer_class = 0;
    TRY(own_number(p, 'b', p->loader.buffers));
    TRY(reference(p, 's', &b.space));
    TRY(word_of(p, WORDS_BUFFER_CLASS, &buffer_class));
    TRY(keyed_integer(p, "bytes", SCHED_INTEGER_MAX, &b.bytes));
    if (take(p, "copies")) {
        TRY(integer32(p, UINT32_MAX, &b.copies));
    }
    b.buffer_class = (uint8_t)buffer_class;
    b.flags = (uint8_t)take_flags(p, WORDS_BUFFER_FLAG);
    TRY(label(p));
    TRY(line_over(p));
    return accept(p, load_buffer(&p->loader, &b, p->label.text));
}

static enum status parse_rank(struct parser *p)
{
    uint32_t stage = SCHED_NONE;
    TRY(own_number(p, '\0', p->loader.ranks));
    TRY(expect(p, "devices"));
    TRY(device_list(p));
    if (take(p, "stage")) {
        TRY(integer32(p, SCHED_NONE - 1, &stage));
    }
    TRY(label(p));
    TRY(line_over(p));
    return accept(p, load_rank(&p->loader, &p->numbers, stage, p->label.text));
}

static enum status parse_queue(struct parser *p)
{
    uint32_t queue_class = 0;
    TRY(own_number(p, 'q', p->loader.queues));
    TRY(word_of(p, WORDS_QUEUE_CLASS, &queue_class));
    TRY(label(p));
    TRY(line_over(p));
    return accept(p, load_queue(&p->loader, queue_class, p->label.text));
}

static enum status parse_tag(struct parser *p, const char *word, uint32_t *tag)
{
    *tag = OP_TAG_NONE;
    return take(p, word) ? integer32(p, OP_TAG_NONE - 1, tag) : STATUS_OK;
}

static enum status parse_op(struct parser *p)
{
    static const char *const words[LIST_COUNT] = { "acquire", "release", "read", "write", "after" };
    struct loaded_op *op = &p->op;
    TRY(own_number(p, '\0', p->loader.ops));
    TRY(reference(p, 'q', &op->queue));
    TRY(word_of(p, WORDS_OPCODE, &op->opcode));
    TRY(word_of(p, WORDS_PHASE, &op->phase));
    op->work = SCHED_NONE;
    op->match = SCHED_NONE;
    op->flags = 0;
    (void)take_reference(p, 'w', &op->work);
    (void)take_reference(p, 'm', &op->match);
    TRY(parse_tag(p, "mb", &op->micro_batch));
    TRY(parse_tag(p, "chunk", &op->chunk));
    TRY(parse_tag(p, "layer", &op->layer));
    if (take(p, "flags")) {
        op->flags = take_flags(p, WORDS_OP_FLAG);
        if (op->flags == 0) {
            return found(p, "a flag");
        }
    }
    for (unsigned i = 0; i < LIST_COUNT; i++) {
        op->lists[i].count = 0;
        if (take(p, words[i])) {
            uint32_t index = 0;
            while (i == LIST_AFTER ? p->word.length != 0 : take_reference(p, 'b', &index)) {
                if (i == LIST_AFTER) {
                    TRY(integer32(p, SCHED_NONE - 1, &index));
                }
                TRY(push(p, &op->lists[i], index));
            }
        }
    }
    TRY(line_over(p));
    return accept(p, load_op(&p->loader, op));
}

static enum status parse_end(struct parser *p)
{
    uint64_t count = 0;
    TRY(integer(p, SCHED_NONE, &count));
    TRY(expect(p, "ops"));
    TRY(line_over(p));
    p->ended = true;
    return count == p->loader.ops
               ? STATUS_OK
               : bad(p, "the schedule ends with %llu ops, %u were read", (unsigned long long)count, p->loader.ops);
}

static enum status parse_line(struct parser *p)
{
    static const struct {
        const char *word;
        enum status (*parse)(struct parser *p);
    } records[] = { { "op", parse_op },       { "buffer", parse_buffer }, { "work", parse_work },
                    { "match", parse_match }, { "kernel", parse_kernel }, { "group", parse_group },
                    { "space", parse_space }, { "rank", parse_rank },     { "queue", parse_queue },
                    { "step", parse_step },   { "end", parse_end } };
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        if (take(p, records[i].word)) {
            return records[i].parse(p);
        }
    }
    return found(p, "step, space, group, kernel, work, match, buffer, rank, queue, op or end");
}

enum status schedule_parse_text(struct schedule *schedule, const char *text, size_t length, const char *file,
                                struct error *error)
{
    text = length == 0 ? "" : text;
    struct parser p = {
        .at = text, .end = text + length, .line_end = text, .file = file, .error = error, .word = { text, 0 }
    };
    enum status status = STATUS_OK;
    *schedule = (struct schedule){ 0 };
    TRY_OR_FAIL(accept(&p, load_start(&p.loader)));
    TRY_OR_FAIL(next_line(&p) && is_word(&p, SCHEDULE_SCHEMA) ? STATUS_OK : found(&p, "\"" SCHEDULE_SCHEMA "\""));
    advance(&p);
    TRY_OR_FAIL(line_over(&p));
    while (next_line(&p)) {
        TRY_OR_FAIL(p.ended ? found(&p, "nothing after the end") : parse_line(&p));
    }
    TRY_OR_FAIL(p.ended ? STATUS_OK : bad(&p, "the schedule has no end line: it is cut off"));
    TRY_OR_FAIL(load_finish(&p.loader, schedule, error));
fail:
    load_stop(&p.loader);
    array_free(&p.numbers);
    array_free(&p.work_items);
    for (unsigned i = 0; i < LIST_COUNT; i++) {
        array_free(&p.op.lists[i]);
    }
    strbuf_free(&p.label);
    return status;
}
