/* The step over time: what each rank does when, as boxes (plots/boxes.h). */
#include <stdio.h>
#include <string.h>

#include "plots/time_unit.h"
#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/report/html/step_page_internal.h"

enum { NAME_PIXELS = 8, SHADES = 3 };

/* Below the row's middle line a strip shows copies and collectives beside the compute queue. */
static const double BOX_TOP = 0.08, BOX_BOTTOM = 0.72, STRIP_TOP = 0.76, STRIP_BOTTOM = 0.92;

struct drawing {
    struct html_chart chart;
    const struct boxes_picture *plan;
    const struct boxes_panel *panel;
    const char *const *names;
    double row_height, unit_per_s;
};

static double x_of(const struct drawing *d, int64_t time_ps)
{
    return html_chart_x(&d->chart, s_from_ps(time_ps) * d->unit_per_s);
}

static int shade_of(const struct drawing *d, const struct box *box)
{
    double shade = box_shade(box, d->plan->chunk_count);
    return shade < 0.1 ? 0 : shade < 0.35 ? 1 : 2;
}

/* All boxes of one row, colour and shade as one path. */
static void put_path(const struct drawing *d, const struct box *boxes, size_t count, enum op_phase phase, int shade,
                     struct strbuf *path)
{
    static const char *const shades[SHADES] = { "", " faint", " fainter" };
    struct html *h = d->chart.h;
    char colour[PAGE_COLOUR_BYTES], class_name[32];
    path->length = 0;
    for (size_t i = 0; i < count; i++) {
        const struct box *box = &boxes[i];
        if (box_phase(box) == phase && shade_of(d, box) == shade) {
            double top = HTML_CHART_TOP + d->row_height * (box->row + (box->strip ? STRIP_TOP : BOX_TOP));
            double height = d->row_height * (box->strip ? STRIP_BOTTOM - STRIP_TOP : BOX_BOTTOM - BOX_TOP);
            double x = x_of(d, box->from_ps), width = x_of(d, box->to_ps) - x;
            strbuf_printf(path, "M%.2f %.1fh%.2fv%.1fh-%.2fz", x, top, width, height, width);
        }
    }
    if (path->length == 0) {
        return;
    }
    snprintf(class_name, sizeof class_name, "%s%s", page_colour(palette_phase(phase)->colour, colour), shades[shade]);
    html_open(h, "path");
    html_attr(h, "class", class_name);
    html_attr(h, "d", path->text != NULL ? path->text : "");
    html_open(h, "title");
    html_printf(h, "%s: %s", d->names[d->plan->ranks[boxes[0].row]], palette_phase(phase)->title);
    html_close(h, "title");
    html_close(h, "path");
}

static void put_labels(const struct drawing *d)
{
    const struct boxes *all = &d->panel->boxes;
    char number[16];
    for (size_t i = 0, end; i < all->count; i = end) {
        const struct box *box = &all->items[i];
        end = i + 1;
        if (!box_is_pass(box)) {
            continue;
        }
        end = box_pass_end(all, i);
        double from = x_of(d, box->from_ps), to = x_of(d, all->items[end - 1].to_ps);
        if (to - from >= BOX_LABEL_PIXELS) {
            bool dark = palette_phase(box_phase(box))->white_text && shade_of(d, box) == 0;
            snprintf(number, sizeof number, "%u", box->micro_batch);
            html_chart_text(&d->chart, (from + to) / 2, HTML_CHART_TOP + d->row_height * (box->row + 0.4) + 5, "middle",
                            dark                    ? "on-dark"
                            : shade_of(d, box) == 0 ? "on-light"
                                                    : NULL,
                            number);
        }
    }
}

static void put_rows(const struct drawing *d)
{
    const struct boxes *all = &d->panel->boxes;
    struct strbuf path = { 0 };
    size_t at = 0;
    for (uint32_t row = 0; row < d->plan->row_count; row++) {
        size_t end = at;
        while (end < all->count && all->items[end].row == row) {
            end++;
        }
        html_chart_text(&d->chart, d->chart.left - 8, HTML_CHART_TOP + d->row_height * (row + 0.4) + 5, "end", NULL,
                        d->names[d->plan->ranks[row]]);
        for (int p = 0; p < PHASE_COUNT && end > at; p++) {
            for (int shade = 0; shade < SHADES; shade++) {
                put_path(d, &all->items[at], end - at, (enum op_phase)p, shade, &path);
            }
        }
        at = end;
    }
    d->chart.h->out->failed = d->chart.h->out->failed || path.failed;
    strbuf_free(&path);
}

static void put_panel(struct drawing *d, uint32_t index, const struct time_unit *unit)
{
    struct html_chart *c = &d->chart;
    char label[48], description[320];
    d->panel = &d->plan->panels[index];
    c->x = (struct html_range){ s_from_ps(d->panel->from_ps) * unit->per_s, s_from_ps(d->panel->to_ps) * unit->per_s,
                                false };
    snprintf(label, sizeof label, "time (%s)", unit->name);
    snprintf(description, sizeof description,
             "%u rows, one a rank, from %.4g to %.4g %s. The coloured boxes are what each compute queue runs; where "
             "there is "
             "none it waits. The tables below say how much of the step each cause takes.",
             d->plan->row_count, c->x.from, c->x.to, unit->name);
    html_chart_begin(c, index == 0 ? "The whole step, ranks against time" : "The beginning of the step, enlarged",
                     description);
    html_chart_axis_x(c, label);
    put_rows(d);
    put_labels(d);
    html_chart_end(
        c, index == 0
               ? d->plan->chunk_count > 1
                     ? "The whole step. The paler a pass, the later its chunk; the strip below a row shows copies "
                       "and collectives that run beside it."
                     : "The whole step. Neighbouring micro-batches differ in shade; the strip below a row shows "
                       "copies and collectives that run beside it."
               : "The beginning of the same step, enlarged. Numbers are micro-batches.");
}

static double name_margin(const struct drawing *d)
{
    size_t longest = 4;
    for (uint32_t row = 0; row < d->plan->row_count; row++) {
        size_t length = strlen(d->names[d->plan->ranks[row]]);
        longest = length > longest ? length : longest;
    }
    return NAME_PIXELS * (double)(longest < 32 ? longest : 32) + 16;
}

enum status step_timeline(struct html *h, const struct step_source *source, struct error *error)
{
    const struct step_series *series = &source->series;
    const struct palette_look *looks[PHASE_COUNT];
    struct boxes_picture plan;
    uint32_t count = 0;
    TRY(boxes_plan(&plan, series->ops, series->op_count, series->rank_count, series->end_ps, error));
    struct time_unit unit = plot_time_unit(s_from_ps(series->end_ps));
    struct drawing d = { .plan = &plan, .names = series->rank_names, .unit_per_s = unit.per_s };
    d.row_height = plan.row_count > 16 ? 22 : plan.row_count > 4 ? 32 : 44;
    d.chart = (struct html_chart){ .h = h,
                                   .height = HTML_CHART_TOP + plan.row_count * d.row_height + HTML_CHART_FOOT,
                                   .y = { 0, 1, false },
                                   .time_unit = unit.name,
                                   .table_id = source->result.stage_count > 0 && source->result.step_time_s > 0
                                                   ? STEP_CAUSES_ID
                                                   : NULL };
    d.chart.left = name_margin(&d);
    for (int p = 0; p < PHASE_COUNT; p++) {
        if (plan.phases[p]) {
            looks[count++] = palette_phase((enum op_phase)p);
        }
    }
    page_legend(h, looks, count);
    for (uint32_t i = 0; i < plan.panel_count; i++) {
        put_panel(&d, i, &unit);
    }
    if (plan.row_count < series->rank_count) {
        html_open(h, "p");
        html_attr(h, "class", "soft");
        html_printf(h, "%u of %u ranks are drawn, evenly chosen.", plan.row_count, series->rank_count);
        html_close(h, "p");
    }
    boxes_free(&plan);
    return STATUS_OK;
}
