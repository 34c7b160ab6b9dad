/* The timeline picture: ranks against time, merged to what can be seen. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plots/boxes.h"
#include "plots/plot_internal.h"
#include "sim/base/check.h"
#include "sim/base/units.h"

/* What the ranks do, for boxes_plan. */
static struct box_op *list_ops(const struct plot_input *input, size_t *count)
{
    const struct schedule *s = input->input->schedule;
    const struct timeline *timeline = input->input->timeline;
    struct box_op *ops = calloc((size_t)s->op_count + 1, sizeof *ops);
    *count = 0;
    for (uint32_t i = 0; ops != NULL && i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        const struct op_times *t = &timeline->ops[i];
        int64_t end_ps = t->end_ps != TIME_NEVER_PS ? t->end_ps : timeline->end_ps;
        if (t->start_ps != TIME_NEVER_PS && end_ps > t->start_ps) {
            ops[(*count)++] = (struct box_op){
                .start_ps = t->start_ps,
                .end_ps = end_ps,
                .rank = sched_op_rank(s, op),
                .micro_batch = op->micro_batch,
                .chunk = op->chunk,
                .phase = op->phase,
                .strip = s->queues[op->queue].queue_class != QUEUE_COMPUTE,
            };
        }
    }
    return ops;
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

/* Micro-batch numbers that go on dark colours, or those that go on light ones. */
static void put_labels(const struct boxes *all, const struct time_unit *unit, double pixel, uint32_t chunk_count,
                       bool white, struct strbuf *out)
{
    strbuf_append(out, "\n\n0 -9 \"\"\n"); /* never empty: gnuplot warns of empty blocks */
    for (size_t i = 0, end; i < all->count; i = end) {
        const struct box *r = &all->items[i];
        end = i + 1;
        if (!box_is_pass(r)) {
            continue;
        }
        end = box_pass_end(all, i);
        double from = s_from_ps(r->from_ps) * unit->per_s, to = s_from_ps(all->items[end - 1].to_ps) * unit->per_s;
        bool is_white = palette_phase(box_phase(r))->white_text && box_shade(r, chunk_count) < 0.4;
        if ((to - from) / pixel >= BOX_LABEL_PIXELS && is_white == white) {
            strbuf_printf(out, "%.7g %.3f \"%u\"\n", (from + to) / 2, r->row - 0.07, r->micro_batch);
        }
    }
}

/* Three blocks: rectangles (x1 x2 y1 y2 colour), labels in black, labels in white (x y text). */
static void put_data(const struct boxes *all, const struct time_unit *unit, double pixel, uint32_t chunk_count,
                     struct strbuf *out)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct box *r = &all->items[i];
        double low = r->strip ? r->row + 0.30 : r->row - 0.40, high = r->strip ? r->row + 0.42 : r->row + 0.26;
        strbuf_printf(out, "%.7g %.7g %.3f %.3f %u\n", s_from_ps(r->from_ps) * unit->per_s,
                      s_from_ps(r->to_ps) * unit->per_s, low, high,
                      tint(palette_phase(box_phase(r))->colour, box_shade(r, chunk_count)));
    }
    put_labels(all, unit, pixel, chunk_count, false, out);
    put_labels(all, unit, pixel, chunk_count, true, out);
    strbuf_append(out, "\n\n");
}

static void put_panel(const struct boxes_picture *plan, uint32_t index, const char *title, const struct time_unit *unit,
                      double top, double bottom, struct strbuf *out)
{
    const struct boxes_panel *panel = &plan->panels[index];
    uint32_t block = 3 * index;
    strbuf_printf(out, "set tmargin at screen %.4f\nset bmargin at screen %.4f\nset title ", top, bottom);
    plot_quoted(out, title);
    strbuf_printf(out, "\nset xrange [%.7g:%.7g]\nset yrange [%.2f:-0.6]\n", s_from_ps(panel->from_ps) * unit->per_s,
                  s_from_ps(panel->to_ps) * unit->per_s, plan->row_count - 0.4);
    strbuf_append(out,
                  index == 0
                      ? "set key at screen 0.5,0.985 center top horizontal maxrows 2 samplen 1.2 width 1 Left reverse\n"
                      : "set key off\n");
    strbuf_printf(out,
                  "plot data index %u using (($1+$2)/2):(($3+$4)/2):1:2:3:4:5 with boxxyerror fillcolor rgb variable "
                  "fillstyle solid noborder notitle, \\\n"
                  " data index %u using 1:2:3 with labels font \",9\" textcolor rgb \"black\" notitle, \\\n"
                  " data index %u using 1:2:3 with labels font \",9\" textcolor rgb \"white\" notitle",
                  block, block + 1, block + 2);
    for (uint32_t p = 0; p < PHASE_COUNT; p++) {
        if (plan->phases[p]) {
            strbuf_printf(
                out,
                ", \\\n keyentry with boxes fillcolor rgb \"%s\" fillstyle solid border rgb \"#404040\" title \"%s\"",
                palette_phase((enum op_phase)p)->colour, palette_phase((enum op_phase)p)->title);
        }
    }
    strbuf_char(out, '\n');
}

static void put_frame(const struct plot_input *input, const struct boxes_picture *plan, const struct time_unit *unit,
                      double left, struct strbuf *out)
{
    const struct schedule *s = input->input->schedule;
    strbuf_printf(out,
                  "set border 3 lw 0.8\nset tics nomirror out\nset lmargin at screen %.4f\nset rmargin at screen 0.98\n"
                  "set xlabel \"time (%s)\" offset 0,0.4\nset grid xtics lw 0.5 lc rgb \"#D0D0D0\"\nset ytics (",
                  left, unit->name);
    for (uint32_t r = 0; r < plan->row_count; r++) {
        strbuf_append(out, r > 0 ? ", " : "");
        plot_quoted(out, sched_label(s, s->ranks[plan->ranks[r]].label));
        strbuf_printf(out, " %u", r);
    }
    strbuf_append(out, ")\n");
}

/* The rank rows are as tall in both panels; a picture of few rows is not flat. */
static void put_panels(const struct plot_input *input, const struct boxes_picture *plan, struct picture *picture,
                       const char *whole, const struct time_unit *unit)
{
    uint32_t count = plan->panel_count;
    const struct schedule *s = input->input->schedule;
    double body = plan->row_count * (plan->row_count > 16 ? 20.0 : 30.0) + 20, head = 92, gap = 84, foot = 52;
    body = body < 110 ? 110 : body;
    picture->width = 1200;
    picture->height = head + count * body + (count - 1) * gap + foot;
    put_frame(input, plan, unit, plot_rank_margin(s, BOXES_ROWS_MAX, picture->width), &picture->script);
    strbuf_append(&picture->script, "set multiplot\n");
    for (uint32_t i = 0; i < count; i++) {
        double top = picture->height - head - i * (body + gap);
        put_panel(plan, i, i == 0 ? whole : "its beginning, enlarged (numbers: micro-batches)", unit,
                  top / picture->height, (top - body) / picture->height, &picture->script);
    }
    strbuf_append(&picture->script, "unset multiplot\n");
}

static void put_title(const struct plot_input *input, const struct boxes_picture *plan, char *title, size_t size)
{
    const struct schedule *s = input->input->schedule;
    char text[32], some[64] = "";
    if (plan->row_count < s->rank_count) {
        snprintf(some, sizeof some, "; %u of %u ranks", plan->row_count, s->rank_count);
    }
    snprintf(title, size, "%s: one step, %s (%s%s)", input->result->name,
             text_time_ps(input->input->timeline->end_ps, text, sizeof text),
             plan->chunk_count > 1 ? "the lighter, the later the chunk" : "shades alternate by micro-batch", some);
}

enum status plot_timeline(const struct plot_input *input, struct picture *picture, struct error *error)
{
    const struct schedule *s = input->input->schedule;
    int64_t end_ps = input->input->timeline->end_ps;
    if (end_ps <= 0 || end_ps == TIME_NEVER_PS || s->rank_count == 0) {
        return STATUS_OK;
    }
    struct time_unit unit = plot_time_unit(s_from_ps(end_ps));
    struct boxes_picture plan;
    char whole[360];
    size_t count;
    struct box_op *ops = list_ops(input, &count);
    if (ops == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the timeline picture");
    }
    enum status status = boxes_plan(&plan, ops, count, s->rank_count, end_ps, error);
    free(ops);
    TRY(status);
    put_title(input, &plan, whole, sizeof whole);
    for (uint32_t i = 0; i < plan.panel_count; i++) {
        const struct boxes_panel *panel = &plan.panels[i];
        int64_t pixel_ps = (panel->to_ps - panel->from_ps) / BOXES_PIXELS + 1;
        put_data(&panel->boxes, &unit, s_from_ps(pixel_ps) * unit.per_s, plan.chunk_count, &picture->data);
    }
    put_panels(input, &plan, picture, whole, &unit);
    boxes_free(&plan);
    return STATUS_OK;
}
