#include "plots/balance_picture.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "plots/svg.h"
#include "sim/base/check.h"
#include "sim/base/units.h"

/* Pixels. */
enum { LEFT = 118, BARS = 330, GAP = 84, RIGHT = 24, TOP = 18, TITLE = 46, ROW = 20, BAR = 15, PANEL_GAP = 22 };
enum { WIDTH = LEFT + BARS + GAP + BARS + RIGHT };

static const char *const TIME_FILL = "#0072B2", *const MEMORY_FILL = "#E69F00"; /* Okabe and Ito's */

/* `words` stand behind the bar; `aligned`: behind the longest, clear of the line of the budget. */
static void bar(struct strbuf *out, double x, double y, double share, const char *fill, bool aligned, const char *words)
{
    double width = BARS * fmin(1, share);
    strbuf_printf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"%s\"/>\n", x, y, width, BAR,
                  fill);
    svg_text(out, x + (aligned ? BARS : width) + 4, y + 12, "start", " font-size=\"11\"", words);
}

static void panel(struct strbuf *out, const struct balance_panel *p, double y, double time_s, double bytes)
{
    char words[160], time[32];
    double memory_x = LEFT + BARS + GAP;
    snprintf(words, sizeof words, "%s: %s a step, alpha_t %.3f, alpha_m %.3f (at best %.3f)", p->title,
             text_time_ps(ps_nearest_s(p->step_s), time, sizeof time), p->alpha_t, p->alpha_m, 1 - 1.0 / p->count);
    svg_text(out, 12, y + 16, "start", " font-weight=\"bold\"", words);
    svg_text(out, LEFT, y + 36, "start", "", "time of a micro-batch, by the cost model");
    svg_text(out, memory_x, y + 36, "start", "", "memory at its peak, by the cost model");
    y += TITLE;
    for (uint32_t i = 0; i < p->count; i++, y += ROW) {
        const struct balance_stage *stage = &p->stages[i];
        snprintf(words, sizeof words, "stage %" PRIu32 ", %" PRId64 " layer%s", i, stage->layers,
                 stage->layers == 1 ? "" : "s");
        svg_text(out, LEFT - 6, y + 12, "end", " font-size=\"11\"", words);
        bar(out, LEFT, y, stage->time_s / time_s, TIME_FILL, false,
            text_time_ps(ps_nearest_s(stage->time_s), time, sizeof time));
        snprintf(words, sizeof words, "%.2f GiB", stage->memory_bytes / GIB);
        bar(out, memory_x, y, stage->memory_bytes / bytes, MEMORY_FILL, true, words);
    }
}

enum status balance_picture_svg(const struct balance_panel *panels, uint32_t count, double budget_bytes,
                                struct strbuf *out, struct error *error)
{
    double time_s = 0, bytes = budget_bytes, height = TOP + 10;
    CHECK(count > 0 && count <= BALANCE_PANELS_MAX && budget_bytes > 0);
    for (uint32_t i = 0; i < count; i++) {
        if (panels[i].count == 0 || panels[i].count > BALANCE_STAGES_MAX) {
            return error_set(error, STATUS_LIMIT, "a picture of %" PRIu32 " stages; it shows 1 to %d", panels[i].count,
                             BALANCE_STAGES_MAX);
        }
        for (uint32_t k = 0; k < panels[i].count; k++) {
            time_s = fmax(time_s, panels[i].stages[k].time_s);
            bytes = fmax(bytes, panels[i].stages[k].memory_bytes);
        }
        height += TITLE + ROW * panels[i].count + PANEL_GAP;
    }
    time_s = time_s > 0 ? time_s : 1;
    strbuf_printf(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" font-family=\"sans-serif\" "
                  "font-size=\"13\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
                  WIDTH + 60, height);
    double y = TOP;
    for (uint32_t i = 0; i < count; i++) {
        double bottom = y + TITLE + ROW * panels[i].count, x = LEFT + BARS + GAP + BARS * budget_bytes / bytes;
        panel(out, &panels[i], y, time_s, bytes);
        strbuf_printf(out,
                      "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#D55E00\" "
                      "stroke-dasharray=\"4 3\"/>\n",
                      x, y + TITLE - 4, x, bottom);
        y = bottom + PANEL_GAP;
    }
    char words[64];
    snprintf(words, sizeof words, "dashed: the budget, %.6g GiB", budget_bytes / GIB);
    svg_text(out, LEFT + BARS + GAP, height - 6, "start", " font-size=\"11\" fill=\"#D55E00\"", words);
    strbuf_append(out, "</svg>\n");
    return out->failed ? error_set(error, STATUS_NO_MEMORY, "out of memory drawing a plan") : STATUS_OK;
}
