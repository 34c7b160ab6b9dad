#include "plots/pipeline_picture.h"

#include <math.h>
#include <stdio.h>

#include "plots/svg.h"
#include "sim/base/arena.h"
#include "sim/base/check.h"

/* Pixels of the picture. */
enum { LEFT = 84, RIGHT = 24, TOP = 16, WIDTH_MIN = 720, WIDTH_MAX = 1800, TITLE = 42, ROW = 26, BOX = 22, HELD = 28 };
enum { TICKS_MAX = 16, TICK_WIDTH = 40 };
enum { HELD_GAP = 30, AXIS = 34, PANEL_GAP = 26, LEGEND = 48, UNIT_WIDTH = 26, DIGIT_WIDTH = 7 };

enum { BOX_RECOMPUTE = STEP_KIND_COUNT, BOX_KIND_COUNT };

/* By step kind, then by chunk: the first, every other one. */
static const struct colour {
    const char *fill, *text;
} COLOURS[BOX_KIND_COUNT][2] = {
    [STEP_FORWARD] = { { "#0072B2", "#ffffff" }, { "#8CC6E8", "#000000" } },
    [STEP_BACKWARD] = { { "#E69F00", "#000000" }, { "#F7D794", "#000000" } },
    [STEP_BACKWARD_WEIGHT] = { { "#009E73", "#ffffff" }, { "#9ADBC6", "#000000" } },
    [BOX_RECOMPUTE] = { { "#9a9a9a", "#000000" }, { "#cfcfcf", "#000000" } },
};

struct picture {
    struct strbuf *out;
    double units_shown, pixels_per_unit;
    int width;
};

static double units(int64_t time_ps)
{
    return (double)time_ps / (double)BARE_UNIT_PS;
}

static double x_of(const struct picture *p, double time)
{
    return LEFT + time * p->pixels_per_unit;
}

static int kind_of(const struct sched_op *op)
{
    return op->phase == PHASE_FORWARD     ? STEP_FORWARD
           : op->phase == PHASE_RECOMPUTE ? BOX_RECOMPUTE
           : op->phase == PHASE_WEIGHT    ? STEP_BACKWARD_WEIGHT
                                          : STEP_BACKWARD;
}

/* What is not covered by boxes later: a stage's idle time until the last one ends. */
static void draw_idle(const struct picture *p, const struct pipeline_panel *panel, double y)
{
    for (uint32_t s = 0; s < panel->result->stage_count; s++) {
        strbuf_printf(p->out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"#ededed\"/>\n",
                      x_of(p, 0), y + (double)s * ROW, panel->result->makespan * p->pixels_per_unit, BOX);
    }
}

/* The passes of all stages. */
static void draw_boxes(const struct picture *p, const struct pipeline_panel *panel, double y)
{
    const struct schedule *s = panel->schedule;
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct sched_op *op = &s->ops[i];
        const struct op_times *times = &panel->timeline->ops[i];
        if (op->opcode != OP_DELAY || times->end_ps <= times->start_ps) {
            continue;
        }
        uint32_t row = sched_op_rank(s, op);
        const struct colour *colour = &COLOURS[kind_of(op)][op->chunk == OP_TAG_NONE || op->chunk % 2 == 0 ? 0 : 1];
        double x = x_of(p, units(times->start_ps)), w = units(times->end_ps - times->start_ps) * p->pixels_per_unit;
        double top = y + (double)row * ROW;
        strbuf_printf(p->out,
                      "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"%s\" stroke=\"#ffffff\" "
                      "stroke-width=\"%.1f\"/>\n",
                      x, top, w, BOX, colour->fill, w > 6 ? 1.0 : 0.2);
        char number[16];
        int length = snprintf(number, sizeof number, "%u", op->micro_batch);
        if (w >= (length + 1) * DIGIT_WIDTH) {
            char fill[48];
            snprintf(fill, sizeof fill, " fill=\"%s\"", colour->text);
            svg_text(p->out, x + w / 2, top + 15.5, "middle", fill, number);
        }
    }
}

/* One step line a stage: activations in whole shares, all stages on the scale of the fullest. */
static enum status draw_held(const struct picture *p, const struct pipeline_panel *panel, double y, double peak,
                             struct error *error)
{
    const struct schedule *s = panel->schedule;
    for (uint32_t i = 0; i < s->space_count; i++) {
        uint32_t row = s->spaces[i].location;
        struct arena arena = { 0 };
        struct memory_point *points;
        uint32_t count;
        double base = y + (double)(row + 1) * HELD - 3, scale = (HELD - 6) / peak;
        double unit = panel->result->stages[row].peak_activations > 0
                          ? (double)panel->timeline->spaces[i].peak_bytes / panel->result->stages[row].peak_activations
                          : 1;
        enum status status = timeline_memory(s, panel->timeline, i, &arena, &points, &count, error);
        if (status != STATUS_OK) {
            arena_free(&arena);
            return status;
        }
        strbuf_printf(p->out, "<path fill=\"#CC79A7\" fill-opacity=\"0.45\" stroke=\"#8a3f68\" d=\"M%.1f %.1f",
                      x_of(p, 0), base);
        for (uint32_t k = 0; k < count; k++) {
            double height = (double)points[k].bytes / unit * scale;
            strbuf_printf(p->out, "H%.2fV%.2f", x_of(p, units(points[k].time_ps)), base - height);
        }
        strbuf_printf(p->out, "V%.1fZ\"/>\n", base);
        char words[64], name[BARE_ROW_TEXT_BYTES];
        snprintf(words, sizeof words, "stage %s: %.4g", bare_pipeline_row_text(panel->result, row, name),
                 panel->result->stages[row].peak_activations);
        svg_text(p->out, LEFT - 8, base - 2, "end", " fill=\"#8a3f68\"", words);
        arena_free(&arena);
    }
    return STATUS_OK;
}

/* About ten ticks, fewer where they would touch. */
static void draw_axis(const struct picture *p, double y, double top)
{
    double step = svg_tick_step(fmax(p->units_shown / TICKS_MAX, TICK_WIDTH / p->pixels_per_unit), false);
    int ticks = (int)(p->units_shown / step * (1 + 1e-9));
    for (int i = 0; i <= ticks; i++) {
        double t = i * step;
        char words[24];
        snprintf(words, sizeof words, "%.6g", t);
        strbuf_printf(
            p->out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#d8d8d8\" stroke-width=\"0.8\"/>\n",
            x_of(p, t), top, x_of(p, t), y + 4);
        svg_text(p->out, x_of(p, t), y + 18, "middle", " fill=\"#444444\"", words);
    }
}

/* The makespan, as a line over the panel. */
static void draw_end(const struct picture *p, const struct pipeline_panel *panel, double top, double bottom)
{
    double x = x_of(p, panel->result->makespan);
    strbuf_printf(p->out,
                  "<line x1=\"%.2f\" y1=\"%.1f\" x2=\"%.2f\" y2=\"%.1f\" stroke=\"#b00020\" stroke-width=\"1.4\" "
                  "stroke-dasharray=\"4 3\"/>\n",
                  x, top - 4, x, bottom);
}

static double peak_of(const struct pipeline_panel *panel)
{
    double peak = 1e-9;
    for (uint32_t s = 0; s < panel->result->stage_count; s++) {
        peak = fmax(peak, panel->result->stages[s].peak_activations);
    }
    return peak;
}

static double panel_height(const struct pipeline_panel *panel)
{
    return TITLE + (double)panel->result->stage_count * (ROW + HELD) + HELD_GAP + AXIS + PANEL_GAP;
}

static void draw_title(const struct picture *p, const struct pipeline_panel *panel, double y)
{
    const struct order_request *shape = &panel->request->order_request;
    double work = 0;
    struct strbuf words = { 0 };
    for (uint32_t s = 0; s < panel->result->stage_count; s++) {
        work += panel->result->stages[s].work / panel->result->stage_count;
    }
    svg_text(p->out, LEFT, y + 14, "start", " font-size=\"15\" font-weight=\"bold\"", panel->request->order->name);
    strbuf_printf(&words, "%u stages, %u micro-batches: makespan %.6g, idle %.3g %% of it, at most %.4g %s a stage",
                  shape->stages, shape->micro_batches, panel->result->makespan,
                  100 * (1 - work / panel->result->makespan), peak_of(panel),
                  panel->request->recompute != BARE_KEEP ? "micro-batches in flight" : "activations");
    bare_pipeline_replicas_words(panel->request, &words);
    p->out->failed = p->out->failed || words.failed;
    svg_text(p->out, LEFT, y + 31, "start", " fill=\"#444444\"", words.text != NULL ? words.text : "");
    strbuf_free(&words);
}

static enum status draw_panel(const struct picture *p, const struct pipeline_panel *panel, double y,
                              struct error *error)
{
    double rows = y + TITLE, held = rows + (double)panel->result->stage_count * ROW + HELD_GAP;
    double axis = held + (double)panel->result->stage_count * HELD;
    draw_title(p, panel, y);
    draw_axis(p, axis, rows);
    for (uint32_t s = 0; s < panel->result->stage_count; s++) {
        char words[40], name[BARE_ROW_TEXT_BYTES];
        snprintf(words, sizeof words, "stage %s", bare_pipeline_row_text(panel->result, s, name));
        svg_text(p->out, LEFT - 8, rows + (double)s * ROW + 15.5, "end", "", words);
    }
    draw_idle(p, panel, rows);
    draw_boxes(p, panel, rows);
    draw_end(p, panel, rows, axis);
    svg_text(
        p->out, LEFT, held - 8, "start", " fill=\"#8a3f68\"",
        panel->request->recompute != BARE_KEEP
            ? "micro-batches in flight on each stage, of which it keeps what is not recomputed; at the left the most"
        : panel->request->cut_replicas != NULL
            ? "activations kept by each stage, in whole micro-batches (a replica has its slice of each); at the "
              "left the most"
            : "activations kept by each stage, in micro-batches; at the left the most");
    return draw_held(p, panel, held, peak_of(panel), error);
}

/* What the pale boxes are, if there are any. */
static const char *pale_words(const struct pipeline_panel *panels, uint32_t count)
{
    bool chunks = false, copies = false;
    for (uint32_t i = 0; i < count; i++) {
        bool two = order_copies(panels[i].request->order) > 1;
        copies = copies || two;
        chunks = chunks || (!two && panels[i].request->order_request.virtual_stages > 1);
    }
    return chunks && copies ? "pale: every other chunk of a device, or the other copy of the model; "
           : chunks         ? "pale: every other chunk of a device; "
           : copies         ? "pale: the other copy of the model; "
                            : "";
}

static void draw_legend(const struct picture *p, const struct pipeline_panel *panels, uint32_t count, double y,
                        bool splits, bool recomputes)
{
    static const char *const WORDS[BOX_KIND_COUNT] = { "forward", "backward", "weight gradient", "recompute" };
    double x = LEFT;
    char words[256];
    for (int kind = 0; kind <= BOX_KIND_COUNT; kind++) {
        if ((kind == STEP_BACKWARD_WEIGHT && !splits) || (kind == BOX_RECOMPUTE && !recomputes)) {
            continue;
        }
        bool idle = kind == BOX_KIND_COUNT;
        strbuf_printf(p->out, "<rect x=\"%.0f\" y=\"%.0f\" width=\"14\" height=\"14\" fill=\"%s\"/>\n", x, y,
                      idle ? "#ededed" : COLOURS[kind][0].fill);
        svg_text(p->out, x + 20, y + 12, "start", "", idle ? "idle" : WORDS[kind]);
        x += 130;
    }
    snprintf(words, sizeof words, "numbers are micro-batches; %sred: the end; time in units",
             pale_words(panels, count));
    svg_text(p->out, LEFT, y + 32, "start", " fill=\"#444444\"", words);
}

static enum status check_panels(const struct pipeline_panel *panels, uint32_t count, struct error *error)
{
    uint64_t boxes = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t stages = panels[i].result->stage_count;
        boxes += (uint64_t)order_step_count(panels[i].request->order, &panels[i].request->order_request) * stages;
        if (stages > PIPELINE_PICTURE_STAGES_MAX) {
            return error_set(error, STATUS_LIMIT, "a picture shows up to %d stages, this pipeline has %u",
                             PIPELINE_PICTURE_STAGES_MAX, stages);
        }
    }
    if (boxes > PIPELINE_BOXES_MAX) {
        return error_set(error, STATUS_LIMIT,
                         "a picture shows up to %d passes, here are %llu: fewer micro-batches tell the same",
                         PIPELINE_BOXES_MAX, (unsigned long long)boxes);
    }
    return STATUS_OK;
}

/* Of one chunk: it decides how wide a unit is drawn. */
static double shortest_forward(const struct bare_pipeline_request *request)
{
    double shortest = request->stage_forward == NULL ? request->forward : INFINITY;
    for (uint32_t s = 0; request->stage_forward != NULL && s < request->order_request.stages; s++) {
        shortest = fmin(shortest, request->stage_forward[s]);
    }
    return shortest / request->order_request.virtual_stages;
}

enum status pipeline_picture_svg(const struct pipeline_panel *panels, uint32_t count, struct strbuf *out,
                                 struct error *error)
{
    struct picture p = { .out = out };
    double height = TOP + LEGEND, shortest = INFINITY;
    bool splits = false, recomputes = false;
    TRY(check_panels(panels, count, error));
    for (uint32_t i = 0; i < count; i++) {
        p.units_shown = fmax(p.units_shown, panels[i].result->makespan);
        height += panel_height(&panels[i]);
        splits = splits || panels[i].request->order->splits_backward;
        recomputes = recomputes || panels[i].request->recompute != BARE_KEEP;
        shortest = fmin(shortest, shortest_forward(panels[i].request));
    }
    double width = p.units_shown / shortest * UNIT_WIDTH;
    p.width = (int)fmin(fmax(width, WIDTH_MIN), WIDTH_MAX);
    p.pixels_per_unit = p.width / p.units_shown;
    strbuf_printf(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" height=\"%.0f\" "
                  "font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" font-size=\"12\" role=\"img\">\n"
                  "<title>Pipeline orders: stages against time</title>\n"
                  "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
                  p.width + LEFT + RIGHT, height, p.width + LEFT + RIGHT, height);
    double y = TOP;
    for (uint32_t i = 0; i < count; i++) {
        TRY(draw_panel(&p, &panels[i], y, error));
        y += panel_height(&panels[i]);
    }
    draw_legend(&p, panels, count, y - PANEL_GAP / 2.0, splits, recomputes);
    strbuf_append(out, "</svg>\n");
    return out->failed ? error_set(error, STATUS_NO_MEMORY, "out of memory for a picture") : STATUS_OK;
}
