/* Timelines: their end, and what they say of a step that did not finish. */
#include "sim/ir/timeline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"

enum { LABELS_SHOWN = 6, CHAIN_SHOWN = 24, NAME_BYTES = 200, BYTES_TEXT = 32 };

struct step_window timeline_step(const struct schedule *schedule, const struct timeline *timeline)
{
    struct step_window window = { .to_ps = timeline->end_ps };
    int64_t before_ps = 0, last_ps = 0;
    for (uint32_t i = 0; schedule->rank_count > 0 && i < schedule->ranks[0].op_count; i++) {
        uint32_t op = schedule->ranks[0].first_op + i;
        if (schedule->ops[op].flags & OP_FLAG_STEP) {
            window.steps++;
            before_ps = last_ps;
            last_ps = timeline->ops[op].start_ps;
        }
    }
    if (window.steps > 1) {
        window.from_ps = before_ps;
        window.to_ps = last_ps;
    }
    window.steps = window.steps > 0 ? window.steps : 1;
    return window;
}

void timeline_free(struct timeline *timeline)
{
    arena_free(&timeline->arena);
    *timeline = (struct timeline){ 0 };
}

/* -- what holds the bytes -- */

static bool charges(const struct schedule *s, uint32_t from, uint32_t space)
{
    while (from != SCHED_NONE && from != space) {
        from = s->spaces[from].parent;
    }
    return from == space;
}

/* Marks in `live` the buffers that were held when the step stopped. */
static void find_live(const struct schedule *s, const struct timeline *t, bool *live)
{
    for (uint32_t i = 0; i < s->buffer_count; i++) {
        live[i] = (s->buffers[i].flags & BUFFER_LIVE_AT_START) != 0;
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        if (t->ops[i].start_ps != TIME_NEVER_PS) {
            for (uint32_t j = 0; j < op->acquire_count; j++) {
                live[sched_acquires(s, op)[j]] = true;
            }
        }
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        if (t->ops[i].end_ps != TIME_NEVER_PS) {
            for (uint32_t j = 0; j < op->release_count; j++) {
                live[sched_releases(s, op)[j]] = false;
            }
        }
    }
}

struct holder {
    uint32_t label, buffers;
    uint64_t bytes;
};

static int by_label(const void *left, const void *right)
{
    const struct holder *a = left, *b = right;
    return (a->label > b->label) - (a->label < b->label);
}

static int by_bytes(const void *left, const void *right)
{
    const struct holder *a = left, *b = right;
    return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes) : by_label(left, right);
}

static void print_holders(const struct schedule *s, const struct timeline *t, uint32_t space, struct strbuf *out)
{
    struct holder classes[BUFFER_CLASS_COUNT] = { { 0 } };
    struct holder *labels = calloc((size_t)s->buffer_count + 1, sizeof *labels);
    bool *live = calloc((size_t)s->buffer_count + 1, sizeof *live);
    uint32_t count = 0, kept = 0;
    char text[BYTES_TEXT];
    if (labels == NULL || live == NULL) {
        out->failed = true;
        goto done;
    }
    find_live(s, t, live);
    for (uint32_t i = 0; i < s->buffer_count; i++) {
        const struct sched_buffer *b = &s->buffers[i];
        if (live[i] && charges(s, b->space, space)) {
            labels[count++] = (struct holder){ b->label, 1, b->bytes * b->copies };
            classes[b->buffer_class].label = b->buffer_class;
            classes[b->buffer_class].buffers++;
            classes[b->buffer_class].bytes += b->bytes * b->copies;
        }
    }
    if (count == 0) {
        strbuf_append(out, "  nothing else is held there\n");
        goto done;
    }
    strbuf_append(out, "  held there, by class:\n");
    qsort(classes, BUFFER_CLASS_COUNT, sizeof classes[0], by_bytes);
    for (uint32_t i = 0; i < BUFFER_CLASS_COUNT && classes[i].buffers > 0; i++) {
        strbuf_printf(out, "    %-14s %10s in %" PRIu32 " buffers\n",
                      buffer_class_word((enum buffer_class)classes[i].label),
                      text_bytes((double)classes[i].bytes, text, sizeof text), classes[i].buffers);
    }
    qsort(labels, count, sizeof *labels, by_label);
    for (uint32_t i = 0; i < count; i++) {
        if (kept > 0 && labels[kept - 1].label == labels[i].label) {
            labels[kept - 1].buffers++;
            labels[kept - 1].bytes += labels[i].bytes;
        } else {
            labels[kept++] = labels[i];
        }
    }
    qsort(labels, kept, sizeof *labels, by_bytes);
    strbuf_append(out, "  the largest:\n");
    for (uint32_t i = 0; i < kept && i < LABELS_SHOWN; i++) {
        strbuf_printf(out, "    %-24s %10s in %" PRIu32 " buffers\n", sched_label(s, labels[i].label),
                      text_bytes((double)labels[i].bytes, text, sizeof text), labels[i].buffers);
    }
    if (kept > LABELS_SHOWN) {
        strbuf_printf(out, "    and %" PRIu32 " more labels\n", kept - LABELS_SHOWN);
    }
done:
    free(labels);
    free(live);
}

static void explain_fit(const struct schedule *s, const struct timeline *t, struct strbuf *out)
{
    const struct blocked_op *b = &t->blocked[0];
    char name[NAME_BYTES], wanted[BYTES_TEXT], left[BYTES_TEXT], capacity[BYTES_TEXT];
    const char *space = b->space == SCHED_NONE ? "?" : sched_label(s, s->spaces[b->space].label);
    text_bytes((double)b->wanted_bytes, wanted, sizeof wanted);
    text_bytes((double)b->free_bytes, left, sizeof left);
    if (b->op == SCHED_NONE) {
        strbuf_printf(out, "does not fit: what is live at the start wants %s (%" PRIu64 " bytes) of %s", wanted,
                      b->wanted_bytes, space);
    } else {
        strbuf_printf(out,
                      "does not fit: op %" PRIu32 ", %s, wants %s (%" PRIu64 " bytes) of %s, where %s (%" PRIu64
                      " bytes) are free",
                      b->op, sched_op_text(s, b->op, name, sizeof name), wanted, b->wanted_bytes, space, left,
                      b->free_bytes);
    }
    if (b->space == SCHED_NONE) {
        strbuf_char(out, '\n');
        return;
    }
    uint64_t capacity_bytes = s->spaces[b->space].capacity_bytes;
    if (capacity_bytes == UINT64_MAX) {
        strbuf_append(out, ", which is unlimited\n");
    } else {
        strbuf_printf(out, " of %s (%" PRIu64 " bytes)\n",
                      text_bytes((double)capacity_bytes, capacity, sizeof capacity), capacity_bytes);
    }
    print_holders(s, t, b->space, out);
}

/* -- who waits for whom -- */

static void explain_chain(const struct schedule *s, const struct timeline *t, struct strbuf *out)
{
    char name[NAME_BYTES], text[BYTES_TEXT];
    uint32_t *entry = calloc((size_t)s->op_count + 1, sizeof *entry); /* of an op in blocked[], + 1 */
    bool *shown = calloc((size_t)t->blocked_count + 1, sizeof *shown);
    if (entry == NULL || shown == NULL) {
        out->failed = true;
        goto done;
    }
    for (uint32_t i = t->blocked_count; i-- > 0;) {
        if (t->blocked[i].op < s->op_count) {
            entry[t->blocked[i].op] = i + 1;
        }
    }
    uint32_t at = 0;
    for (unsigned links = 0;; links++) {
        const struct blocked_op *b = &t->blocked[at];
        if (b->op >= s->op_count) {
            break;
        }
        if (shown[at]) {
            strbuf_printf(out, "  op %" PRIu32 " again: the circle is closed\n", b->op);
            break;
        }
        if (links == CHAIN_SHOWN) {
            strbuf_append(out, "  and so on\n");
            break;
        }
        shown[at] = true;
        strbuf_printf(out, "  op %" PRIu32 ", %s, waits for ", b->op, sched_op_text(s, b->op, name, sizeof name));
        if (b->space != SCHED_NONE) {
            strbuf_printf(out, "%s of %s", text_bytes((double)b->wanted_bytes, text, sizeof text),
                          sched_label(s, s->spaces[b->space].label));
            strbuf_printf(out, " (%s free)", text_bytes((double)b->free_bytes, text, sizeof text));
        }
        if (b->waits_for_op < s->op_count) {
            strbuf_printf(out, "%sop %" PRIu32 ", %s", b->space != SCHED_NONE ? ", held until " : "", b->waits_for_op,
                          sched_op_text(s, b->waits_for_op, name, sizeof name));
        }
        strbuf_char(out, '\n');
        if (b->waits_for_op >= s->op_count || entry[b->waits_for_op] == 0) {
            break;
        }
        at = entry[b->waits_for_op] - 1;
    }
done:
    free(entry);
    free(shown);
}

void timeline_explain(const struct schedule *schedule, const struct timeline *timeline, struct strbuf *out)
{
    switch (timeline->outcome) {
    case TIMELINE_DONE: strbuf_append(out, "done: every op has ended\n"); return;
    case TIMELINE_DOES_NOT_FIT:
        if (timeline->blocked_count == 0) {
            strbuf_append(out, "does not fit\n");
            return;
        }
        explain_fit(schedule, timeline, out);
        if (timeline->blocked_count > 1) {
            strbuf_append(out, "  who waits for whom:\n");
            explain_chain(schedule, timeline, out);
        }
        return;
    case TIMELINE_DEADLOCK:
        strbuf_printf(out, "deadlock: %" PRIu32 " ops wait for each other\n", timeline->blocked_count);
        if (timeline->blocked_count > 0) {
            explain_chain(schedule, timeline, out);
        }
        return;
    }
}
