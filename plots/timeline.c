/* The timeline picture: ranks against time, merged to what can be seen. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plots/plot_internal.h"
#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/units.h"

enum {
    ROWS_MAX = 32,
    LABEL_PIXELS = 17,
    CROWDED_PIXELS = 13,
    PANEL_PIXELS = 1100,
    RECTANGLES_MAX = 5000,
    ROWS_LEAST = 4
};

/* What a rectangle shows; phase word for the key, colour, and whether it belongs to the strip of transfers below the row. */
static const struct look {
    const char *title, *colour;
    bool white_text;
} LOOKS[PHASE_COUNT] = {
    [PHASE_FORWARD] = { "forward", PLOT_BLUE, true },
    [PHASE_BACKWARD] = { "backward", PLOT_ORANGE, false },
    [PHASE_WEIGHT] = { "weight gradient", PLOT_VERMILLION, true },
    [PHASE_RECOMPUTE] = { "recompute", PLOT_YELLOW, false },
    [PHASE_TENSOR_COMM] = { "tensor collectives", PLOT_GREEN, true },
    [PHASE_PIPELINE_COMM] = { "pipeline transfers", PLOT_GREY, false },
    [PHASE_DATA_COMM] = { "data-parallel collectives", PLOT_PURPLE, false },
    [PHASE_OFFLOAD] = { "offload copies", PLOT_SKY, false },
    [PHASE_OPTIMIZER] = { "optimizer", PLOT_BLACK, true },
    [PHASE_OTHER] = { "other", PLOT_PALE, false },
};

struct rectangle {
    int64_t from_ps, to_ps;
    double phase_ps[PHASE_COUNT]; /* merged time by phase: the greatest names it */
    uint32_t row;
    uint16_t micro_batch, chunk;
    uint8_t direction; /* 0 forward, 1 backward with all that belongs to it, 2 others */
    bool strip;
};

/* The ranks that are drawn, top to bottom. */
struct rows {
    uint32_t ranks[ROWS_MAX], count;
};

struct rectangles {
    struct rectangle *items;
    size_t count, capacity;
};

static uint8_t direction(enum op_phase phase)
{
    switch (phase) {
    case PHASE_FORWARD: return 0;
    case PHASE_BACKWARD:
    case PHASE_RECOMPUTE: return 1;
    case PHASE_WEIGHT:
    case PHASE_TENSOR_COMM:
    case PHASE_PIPELINE_COMM:
    case PHASE_DATA_COMM:
    case PHASE_OFFLOAD:
    case PHASE_OPTIMIZER:
    case PHASE_OTHER:
    case PHASE_COUNT: break;
    }
    return (uint8_t)(2 + phase);
}

static enum op_phase main_phase(const struct rectangle *r)
{
    uint32_t best = 0;
    for (uint32_t p = 1; p < PHASE_COUNT; p++) {
        best = r->phase_ps[p] > r->phase_ps[best] ? p : best;
    }
    return (enum op_phase)best;
}

/* May `next` be drawn as part of `last`? Only where a gap or a change between them would be finer than a pixel. */
static bool melts(const struct rectangle *last, const struct rectangle *next, int64_t pixel_ps)
{
    if (last->row != next->row || last->strip != next->strip || next->from_ps - last->to_ps > pixel_ps) {
        return false;
    }
    bool same =
        last->micro_batch == next->micro_batch && last->chunk == next->chunk && last->direction == next->direction;
    enum op_phase a = main_phase(last), b = main_phase(next);
    if (last->strip) {
        return a == b || last->to_ps - last->from_ps < pixel_ps || next->to_ps - next->from_ps < pixel_ps;
    }
    if (same && a == b) {
        return true;
    }
    bool tiny = last->to_ps - last->from_ps < 2 * pixel_ps || next->to_ps - next->from_ps < 2 * pixel_ps;
    bool pass = a <= PHASE_RECOMPUTE && b <= PHASE_RECOMPUTE;
    /* Passes of different micro-batches melt only when even whole passes are finer than a pixel. */
    return tiny &&
           (same || !pass || (last->to_ps - last->from_ps < pixel_ps && next->to_ps - next->from_ps < pixel_ps));
}

static void melt(struct rectangle *last, const struct rectangle *next)
{
    last->to_ps = next->to_ps > last->to_ps ? next->to_ps : last->to_ps;
    for (uint32_t p = 0; p < PHASE_COUNT; p++) {
        last->phase_ps[p] += next->phase_ps[p];
    }
}

static int by_place(const void *a, const void *b)
{
    const struct rectangle *x = a, *y = b;
    if (x->row != y->row) {
        return x->row < y->row ? -1 : 1;
    }
    if (x->strip != y->strip) {
        return x->strip ? 1 : -1;
    }
    if (x->from_ps != y->from_ps) {
        return x->from_ps < y->from_ps ? -1 : 1;
    }
    return x->to_ps < y->to_ps ? -1 : x->to_ps > y->to_ps;
}

static void merge(struct rectangles *all, int64_t pixel_ps)
{
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (kept > 0 && melts(&all->items[kept - 1], &all->items[i], pixel_ps)) {
            melt(&all->items[kept - 1], &all->items[i]);
        } else {
            all->items[kept++] = all->items[i];
        }
    }
    all->count = kept;
}

/* What cannot be seen anyway goes first, then detail: an SVG of this many rectangles has about half a megabyte. */
static void bound(struct rectangles *all, int64_t pixel_ps)
{
    if (all->count > RECTANGLES_MAX) {
        size_t kept = 0;
        for (size_t i = 0; i < all->count; i++) {
            if (!all->items[i].strip || all->items[i].to_ps - all->items[i].from_ps >= pixel_ps) {
                all->items[kept++] = all->items[i];
            }
        }
        all->count = kept;
    }
    for (int64_t coarse_ps = pixel_ps + pixel_ps / 2; all->count > RECTANGLES_MAX; coarse_ps += coarse_ps / 2 + 1) {
        merge(all, coarse_ps);
    }
}

/* Everything that the rows do in [from, to), unmerged. */
static enum status collect(const struct plot_input *input, const struct rows *rows, int64_t from_ps, int64_t to_ps,
                           struct rectangles *all, struct error *error)
{
    const struct schedule *s = input->input->schedule;
    const struct timeline *timeline = input->input->timeline;
    all->count = 0;
    for (uint32_t row = 0; row < rows->count; row++) {
        const struct sched_rank *rank = &s->ranks[rows->ranks[row]];
        for (uint32_t i = rank->first_op; i < rank->first_op + rank->op_count; i++) {
            const struct sched_op *op = &s->ops[i];
            const struct op_times *t = &timeline->ops[i];
            int64_t end_ps = t->end_ps != TIME_NEVER_PS ? t->end_ps : timeline->end_ps;
            if (t->start_ps == TIME_NEVER_PS || end_ps <= t->start_ps || t->start_ps >= to_ps || end_ps <= from_ps) {
                continue;
            }
            TRY(array_reserve(all, 1, error));
            struct rectangle r = {
                .from_ps = t->start_ps > from_ps ? t->start_ps : from_ps,
                .to_ps = end_ps < to_ps ? end_ps : to_ps,
                .row = row,
                .micro_batch = op->micro_batch,
                .chunk = op->chunk,
                .direction = direction((enum op_phase)op->phase),
                .strip = s->queues[op->queue].queue_class != QUEUE_COMPUTE,
            };
            r.phase_ps[op->phase] = (double)(r.to_ps - r.from_ps);
            all->items[all->count++] = r;
        }
    }
    if (all->count > 0) {
        qsort(all->items, all->count, sizeof *all->items, by_place);
    }
    return STATUS_OK;
}

/* Merged for a panel in which one pixel lasts pixel_ps. */
static void refine(struct rectangles *all, int64_t pixel_ps)
{
    merge(all, pixel_ps);
    merge(all, pixel_ps); /* what grew may now take in a neighbour that was finer */
    bound(all, pixel_ps);
}

/* `count` ranks, evenly spaced, the first and the last among them. */
static void choose_rows(struct rows *rows, uint32_t rank_count, uint32_t count)
{
    rows->count = count < rank_count ? count : rank_count;
    for (uint32_t i = 0; i < rows->count; i++) {
        rows->ranks[i] = rows->count > 1 ? (uint32_t)((uint64_t)i * (rank_count - 1) / (rows->count - 1)) : 0;
    }
}

/* A colour moved towards white. */
static unsigned tint(const char *colour, double white)
{
    unsigned long rgb = strtoul(colour + 1, NULL, 16);
    unsigned mixed = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        double part = (double)(rgb >> shift & 0xff);
        mixed |= (unsigned)(part + (255 - part) * white + 0.5) << shift;
    }
    return mixed;
}

/* Chunks differ in shade, or else neighbouring micro-batches. */
static double shade(const struct rectangle *r, uint32_t chunk_count)
{
    enum op_phase phase = main_phase(r);
    if (phase > PHASE_RECOMPUTE || r->micro_batch == OP_TAG_NONE) {
        return 0;
    }
    if (chunk_count > 1 && r->chunk != OP_TAG_NONE) {
        return 0.45 * r->chunk / (chunk_count - 1);
    }
    return r->micro_batch % 2 == 0 ? 0 : 0.28;
}

/* The rectangles of one pass (a backward is striped by its recomputation): [first, end), its place and length. */
static size_t pass_end(const struct rectangles *all, size_t first)
{
    const struct rectangle *r = &all->items[first];
    size_t end = first + 1;
    while (end < all->count && !all->items[end].strip && all->items[end].row == r->row &&
           all->items[end].micro_batch == r->micro_batch && all->items[end].chunk == r->chunk &&
           all->items[end].direction == r->direction) {
        end++;
    }
    return end;
}

static bool is_pass(const struct rectangle *r)
{
    return !r->strip && main_phase(r) <= PHASE_RECOMPUTE && r->micro_batch != OP_TAG_NONE;
}

/* Micro-batch numbers that go on dark colours, or those that go on light ones. */
static void put_labels(const struct rectangles *all, const struct time_unit *unit, double pixel, uint32_t chunk_count,
                       bool white, struct strbuf *out)
{
    strbuf_append(out, "\n\n0 -9 \"\"\n"); /* never empty: gnuplot warns of empty blocks */
    for (size_t i = 0, end; i < all->count; i = end) {
        const struct rectangle *r = &all->items[i];
        end = i + 1;
        if (!is_pass(r)) {
            continue;
        }
        end = pass_end(all, i);
        double from = s_from_ps(r->from_ps) * unit->per_s, to = s_from_ps(all->items[end - 1].to_ps) * unit->per_s;
        bool is_white = LOOKS[main_phase(r)].white_text && shade(r, chunk_count) < 0.4;
        if ((to - from) / pixel >= LABEL_PIXELS && is_white == white) {
            strbuf_printf(out, "%.7g %.3f \"%u\"\n", (from + to) / 2, r->row - 0.07, r->micro_batch);
        }
    }
}

/* Three blocks: rectangles (x1 x2 y1 y2 colour), labels in black, labels in white (x y text). */
static void put_data(const struct rectangles *all, const struct time_unit *unit, double pixel, uint32_t chunk_count,
                     struct strbuf *out)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct rectangle *r = &all->items[i];
        double low = r->strip ? r->row + 0.30 : r->row - 0.40, high = r->strip ? r->row + 0.42 : r->row + 0.26;
        strbuf_printf(out, "%.7g %.7g %.3f %.3f %u\n", s_from_ps(r->from_ps) * unit->per_s,
                      s_from_ps(r->to_ps) * unit->per_s, low, high,
                      tint(LOOKS[main_phase(r)].colour, shade(r, chunk_count)));
    }
    put_labels(all, unit, pixel, chunk_count, false, out);
    put_labels(all, unit, pixel, chunk_count, true, out);
    strbuf_append(out, "\n\n");
}

static int compare_lengths(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Lower quartile of the lengths of passes (a forward, mostly): what a reader wants to tell apart; and how many passes there are. */
static double short_pass_ps(const struct rectangles *all, size_t *pass_count)
{
    double *lengths = calloc(all->count + 1, sizeof *lengths);
    size_t count = 0;
    for (size_t i = 0, end; lengths != NULL && i < all->count; i = end) {
        end = i + 1;
        if (is_pass(&all->items[i])) {
            end = pass_end(all, i);
            lengths[count++] = (double)(all->items[end - 1].to_ps - all->items[i].from_ps);
        }
    }
    double quartile = 0;
    if (count > 0) {
        qsort(lengths, count, sizeof *lengths, compare_lengths);
        quartile = lengths[count / 4];
    }
    free(lengths);
    *pass_count = count;
    return quartile;
}

struct panel {
    int64_t from_ps, to_ps;
    const char *title;
    int first_block;
};

static void put_panel(const struct rows *rows, const struct panel *panel, const struct time_unit *unit,
                      const bool *phases, bool with_key, double top, double bottom, struct strbuf *out)
{
    strbuf_printf(out, "set tmargin at screen %.4f\nset bmargin at screen %.4f\nset title ", top, bottom);
    plot_quoted(out, panel->title);
    strbuf_printf(out, "\nset xrange [%.7g:%.7g]\nset yrange [%.2f:-0.6]\n", s_from_ps(panel->from_ps) * unit->per_s,
                  s_from_ps(panel->to_ps) * unit->per_s, rows->count - 0.4);
    strbuf_append(
        out, with_key ? "set key at screen 0.5,0.985 center top horizontal maxrows 2 samplen 1.2 width 1 Left reverse\n"
                      : "set key off\n");
    strbuf_printf(out,
                  "plot data index %d using (($1+$2)/2):(($3+$4)/2):1:2:3:4:5 with boxxyerror fillcolor rgb variable "
                  "fillstyle solid noborder notitle, \\\n"
                  " data index %d using 1:2:3 with labels font \",9\" textcolor rgb \"black\" notitle, \\\n"
                  " data index %d using 1:2:3 with labels font \",9\" textcolor rgb \"white\" notitle",
                  panel->first_block, panel->first_block + 1, panel->first_block + 2);
    for (uint32_t p = 0; p < PHASE_COUNT; p++) {
        if (phases[p]) {
            strbuf_printf(
                out,
                ", \\\n keyentry with boxes fillcolor rgb \"%s\" fillstyle solid border rgb \"#404040\" title \"%s\"",
                LOOKS[p].colour, LOOKS[p].title);
        }
    }
    strbuf_char(out, '\n');
}

static void put_frame(const struct plot_input *input, const struct rows *rows, const struct time_unit *unit,
                      double left, struct strbuf *out)
{
    const struct schedule *s = input->input->schedule;
    strbuf_printf(out,
                  "set border 3 lw 0.8\nset tics nomirror out\nset lmargin at screen %.4f\nset rmargin at screen 0.98\n"
                  "set xlabel \"time (%s)\" offset 0,0.4\nset grid xtics lw 0.5 lc rgb \"#D0D0D0\"\nset ytics (",
                  left, unit->name);
    for (uint32_t r = 0; r < rows->count; r++) {
        strbuf_append(out, r > 0 ? ", " : "");
        plot_quoted(out, sched_label(s, s->ranks[rows->ranks[r]].label));
        strbuf_printf(out, " %u", r);
    }
    strbuf_append(out, ")\n");
}

/* The rank rows are as tall in both panels; a picture of few rows is not flat. */
static void put_panels(const struct plot_input *input, const struct rows *rows, struct picture *picture,
                       const struct panel *panels, int count, const struct time_unit *unit, const bool *phases)
{
    const struct schedule *s = input->input->schedule;
    double body = rows->count * (rows->count > 16 ? 20.0 : 30.0) + 20, head = 92, gap = 84, foot = 52;
    body = body < 110 ? 110 : body;
    picture->width = 1200;
    picture->height = head + count * body + (count - 1) * gap + foot;
    put_frame(input, rows, unit, plot_rank_margin(s, ROWS_MAX, picture->width), &picture->script);
    strbuf_append(&picture->script, "set multiplot\n");
    for (int i = 0; i < count; i++) {
        double top = picture->height - head - i * (body + gap);
        put_panel(rows, &panels[i], unit, phases, i == 0, top / picture->height, (top - body) / picture->height,
                  &picture->script);
    }
    strbuf_append(&picture->script, "unset multiplot\n");
}

static void note_phases(const struct rectangles *all, bool *phases)
{
    for (size_t i = 0; i < all->count; i++) {
        phases[main_phase(&all->items[i])] = true;
    }
}

static uint32_t chunk_count(const struct schedule *s)
{
    uint32_t count = 1;
    for (uint32_t i = 0; i < s->op_count; i++) {
        if (s->ops[i].chunk != OP_TAG_NONE && s->ops[i].chunk + 1u > count) {
            count = s->ops[i].chunk + 1u;
        }
    }
    return count;
}

/* The second panel: the beginning, enlarged so that a pass is wide enough for its number. */
static void enlarge(const struct rectangles *all, double pass_ps, int64_t end_ps, struct panel *panel)
{
    int64_t window_ps = (int64_t)(pass_ps * PANEL_PIXELS / (1.4 * LABEL_PIXELS));
    for (size_t i = 0; i < all->count; i++) {
        if (is_pass(&all->items[i]) && all->items[i].row == 0) {
            panel->from_ps = all->items[i].from_ps;
            break;
        }
    }
    panel->to_ps = panel->from_ps + window_ps < end_ps ? panel->from_ps + window_ps : end_ps;
}

static void put_title(const struct plot_input *input, const struct rows *rows, uint32_t chunks, char *title,
                      size_t size)
{
    const struct schedule *s = input->input->schedule;
    char text[32], some[64] = "";
    if (rows->count < s->rank_count) {
        snprintf(some, sizeof some, "; %u of %u ranks", rows->count, s->rank_count);
    }
    snprintf(title, size, "%s: one step, %s (%s%s)", input->result->name,
             text_time_ps(input->input->timeline->end_ps, text, sizeof text),
             chunks > 1 ? "the lighter, the later the chunk" : "shades alternate by micro-batch", some);
}

enum status plot_timeline(const struct plot_input *input, struct picture *picture, struct error *error)
{
    const struct schedule *s = input->input->schedule;
    int64_t end_ps = input->input->timeline->end_ps, pixel_ps = end_ps / PANEL_PIXELS + 1;
    if (end_ps <= 0 || end_ps == TIME_NEVER_PS || s->rank_count == 0) {
        return STATUS_OK;
    }
    struct time_unit unit = plot_time_unit(s_from_ps(end_ps));
    struct rectangles all = { 0 };
    struct rows rows;
    bool phases[PHASE_COUNT] = { 0 };
    char whole[360];
    uint32_t chunks = chunk_count(s);
    size_t passes = 0;
    struct panel panels[2] = { { .to_ps = end_ps, .title = whole },
                               { .title = "its beginning, enlarged (numbers: micro-batches)", .first_block = 3 } };
    int panel_count = 1;
    enum status status;
    choose_rows(&rows, s->rank_count, ROWS_MAX);
    TRY_OR_FAIL(collect(input, &rows, 0, end_ps, &all, error));
    double pass_ps = short_pass_ps(&all, &passes);
    if (passes > RECTANGLES_MAX && rows.count > ROWS_LEAST) { /* fewer rows rather than less detail */
        uint32_t fit = (uint32_t)(rows.count * (double)RECTANGLES_MAX / (double)passes);
        choose_rows(&rows, s->rank_count, fit > ROWS_LEAST ? fit : ROWS_LEAST);
        TRY_OR_FAIL(collect(input, &rows, 0, end_ps, &all, error));
    }
    if (pass_ps > 0 && pass_ps < CROWDED_PIXELS * (double)pixel_ps) {
        panel_count = 2;
        enlarge(&all, pass_ps, end_ps, &panels[1]);
    }
    put_title(input, &rows, chunks, whole, sizeof whole);
    for (int i = 0; i < panel_count; i++) {
        pixel_ps = (panels[i].to_ps - panels[i].from_ps) / PANEL_PIXELS + 1;
        TRY_OR_FAIL(collect(input, &rows, panels[i].from_ps, panels[i].to_ps, &all, error));
        refine(&all, pixel_ps);
        put_data(&all, &unit, s_from_ps(pixel_ps) * unit.per_s, chunks, &picture->data);
        note_phases(&all, phases);
    }
    put_panels(input, &rows, picture, panels, panel_count, &unit, phases);
fail:
    array_free(&all);
    return status;
}
