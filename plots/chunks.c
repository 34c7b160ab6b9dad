/* The chunk picture: which chunk is where when, as PatrickStar's authors draw it: a row a chunk, blue on the device, vermillion in host memory, purple where it is another rank's, gathered.
 *
 * Chunks are buffers labelled "LIST chunk N" or "remote LIST chunk N" by their policy; a payload in one place is one buffer. Of several ranks the first device and the host of its
 * server are drawn: folded ranks are alike, and a chunk that several ranks of a server hold is drawn once over the other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plots/plot_internal.h"
#include "sim/base/units.h"

enum { LISTS_MAX = 8, LIST_NAME_BYTES = 48, STAYS_MAX = 40000 };
static const char CHUNK_WORD[] = " chunk ";

struct stay {
    double from, to; /* in the picture's unit */
    uint32_t list, chunk;
    const char *colour;
};

struct chunks {
    char lists[LISTS_MAX][LIST_NAME_BYTES];
    uint32_t list_count, last[LISTS_MAX]; /* highest chunk number */
    struct stay *stays;
    uint32_t stay_count;
};

/* Splits a label; false when it is not a chunk's. */
static bool read_label(const char *label, char *list, size_t list_bytes, uint32_t *chunk, bool *remote)
{
    static const char REMOTE[] = "remote ";
    *remote = strncmp(label, REMOTE, sizeof REMOTE - 1) == 0;
    label += *remote ? sizeof REMOTE - 1 : 0;
    const char *word = strstr(label, CHUNK_WORD);
    char *end;
    if (word == NULL || (size_t)(word - label) >= list_bytes) {
        return false;
    }
    unsigned long number = strtoul(word + sizeof CHUNK_WORD - 1, &end, 10);
    if (end == word + sizeof CHUNK_WORD - 1 || *end != '\0' || number >= UINT32_MAX) {
        return false;
    }
    snprintf(list, list_bytes, "%.*s", (int)(word - label), label);
    *chunk = (uint32_t)number;
    return true;
}

static uint32_t list_of(struct chunks *chunks, const char *name)
{
    for (uint32_t i = 0; i < chunks->list_count; i++) {
        if (strcmp(chunks->lists[i], name) == 0) {
            return i;
        }
    }
    if (chunks->list_count < LISTS_MAX) {
        snprintf(chunks->lists[chunks->list_count], LIST_NAME_BYTES, "%s", name);
        return chunks->list_count++;
    }
    return LISTS_MAX;
}

/* When each buffer lives: [2 b] from the start of what acquires it, [2 b + 1] to the end of what releases it. */
static void find_lives(const struct schedule *s, const struct timeline *timeline, int64_t *lives)
{
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        lives[2 * b] = (s->buffers[b].flags & BUFFER_LIVE_AT_START) != 0 ? 0 : timeline->end_ps;
        lives[2 * b + 1] = timeline->end_ps;
    }
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        if (timeline->ops[i].end_ps == TIME_NEVER_PS) {
            continue; /* of a step that does not fit */
        }
        for (uint32_t k = 0; k < op->acquire_count; k++) {
            lives[2 * sched_acquires(s, op)[k]] = timeline->ops[i].start_ps;
        }
        for (uint32_t k = 0; k < op->release_count; k++) {
            lives[2 * sched_releases(s, op)[k] + 1] = timeline->ops[i].end_ps;
        }
    }
}

static void collect(const struct plot_input *input, const int64_t *lives, const struct time_unit *unit,
                    struct chunks *chunks)
{
    const struct schedule *s = input->input->schedule;
    uint32_t gpu = s->devices[s->ranks[0].first_device];
    for (uint32_t b = 0; b < s->buffer_count && chunks->stay_count < STAYS_MAX; b++) {
        const struct sched_space *space = &s->spaces[s->buffers[b].space];
        char name[LIST_NAME_BYTES];
        uint32_t chunk;
        bool remote, device = space->kind == SPACE_DEVICE;
        if (!read_label(sched_label(s, s->buffers[b].label), name, sizeof name, &chunk, &remote) ||
            (device ? space->location != gpu : space->location != 0) || lives[2 * b] >= lives[2 * b + 1]) {
            continue;
        }
        uint32_t list = list_of(chunks, name);
        if (list < LISTS_MAX) {
            chunks->last[list] = chunk > chunks->last[list] ? chunk : chunks->last[list];
            chunks->stays[chunks->stay_count++] = (struct stay){ s_from_ps(lives[2 * b]) * unit->per_s,
                                                                 s_from_ps(lives[2 * b + 1]) * unit->per_s, list, chunk,
                                                                 remote   ? PLOT_PURPLE
                                                                 : device ? PLOT_BLUE
                                                                          : PLOT_VERMILLION };
        }
    }
}

static void put_stays(const struct chunks *chunks, uint32_t list, struct strbuf *out)
{
    for (uint32_t i = 0; i < chunks->stay_count; i++) {
        const struct stay *stay = &chunks->stays[i];
        if (stay->list == list) {
            strbuf_printf(out, "%.7g %u %.7g %.7g %.4g %.4g %lu\n", stay->from, stay->chunk, stay->from, stay->to,
                          stay->chunk - 0.45, stay->chunk + 0.45, strtoul(stay->colour + 1, NULL, 16));
        }
    }
    strbuf_append(out, "\n\n");
}

/* One panel a list, above one another, as high as it has chunks. */
static void put_script(const struct plot_input *input, const struct chunks *chunks, const struct time_unit *unit,
                       struct picture *picture)
{
    struct strbuf *out = &picture->script;
    double rows = 0, head = 70, foot = 50, gap = 26, body = 0;
    for (uint32_t i = 0; i < chunks->list_count; i++) {
        rows += chunks->last[i] + 1;
    }
    body = rows * 6 < 420 ? 420 : rows * 6 > 1500 ? 1500 : rows * 6;
    picture->width = 1100;
    picture->height = head + body + foot + gap * chunks->list_count;
    char title[300];
    snprintf(title, sizeof title, "%s: where chunks are, of %s", input->result->name,
             sched_label(input->input->schedule, input->input->schedule->ranks[0].label));
    strbuf_append(out, "set multiplot\nset border 3 lw 0.8\nset tics nomirror out\nset lmargin at screen 0.09\n"
                       "set rmargin at screen 0.98\nset style fill solid noborder\nset title ");
    plot_quoted(out, title);
    strbuf_printf(out, "\nset xrange [0:%.7g]\nset key at screen 0.98,%.4f right top horizontal samplen 1.2\n",
                  s_from_ps(input->input->timeline->end_ps) * unit->per_s, 1 - 8 / picture->height);
    double top = picture->height - head;
    for (uint32_t i = 0; i < chunks->list_count; i++) {
        double high = body * (chunks->last[i] + 1) / rows;
        bool last = i + 1 == chunks->list_count;
        strbuf_printf(out,
                      "set tmargin at screen %.4f\nset bmargin at screen %.4f\nset yrange [-0.5:%.1f]\nset ylabel ",
                      top / picture->height, (top - high) / picture->height, chunks->last[i] + 0.5);
        plot_quoted(out, chunks->lists[i]);
        strbuf_printf(out, "\nset format x \"%s\"\n", last ? "%g" : "");
        if (last) {
            strbuf_printf(out, "set xlabel \"time (%s)\" offset 0,0.4\n", unit->name);
        }
        strbuf_printf(out, "plot data index %u using 1:2:3:4:5:6:7 with boxxyerror lc rgb variable notitle", i);
        if (i == 0) {
            strbuf_append(out, ", \\\n keyentry with boxes lc rgb \"" PLOT_BLUE "\" title \"on the device\", \\\n "
                               "keyentry with boxes lc rgb \"" PLOT_VERMILLION "\" title \"in host memory\", \\\n "
                               "keyentry with boxes lc rgb \"" PLOT_PURPLE "\" title \"another rank's, gathered\"");
        }
        strbuf_append(out, i == 0 ? "\nunset title\nset key off\n" : "\n");
        top -= high + gap;
    }
    strbuf_append(out, "unset multiplot\n");
}

enum status plot_chunks(const struct plot_input *input, struct picture *picture, struct error *error)
{
    const struct schedule *s = input->input->schedule;
    const struct timeline *timeline = input->input->timeline;
    if (!(timeline->end_ps > 0) || timeline->end_ps == TIME_NEVER_PS || s->rank_count == 0) {
        return STATUS_OK;
    }
    struct time_unit unit = plot_time_unit(s_from_ps(timeline->end_ps));
    struct chunks *chunks = calloc(1, sizeof *chunks);
    int64_t *lives = calloc(2 * (size_t)s->buffer_count + 1, sizeof *lives);
    struct stay *stays = calloc(STAYS_MAX, sizeof *stays);
    enum status status = STATUS_OK;
    if (chunks == NULL || lives == NULL || stays == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory for the chunk plot");
    } else {
        chunks->stays = stays;
        find_lives(s, timeline, lives);
        collect(input, lives, &unit, chunks);
        for (uint32_t i = 0; i < chunks->list_count; i++) {
            put_stays(chunks, i, &picture->data);
        }
        if (chunks->list_count > 0) {
            put_script(input, chunks, &unit, picture);
        }
    }
    free(stays);
    free(lives);
    free(chunks);
    return status;
}
