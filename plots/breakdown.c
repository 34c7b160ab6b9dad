/* The breakdown picture: stacked bars of exposed time, one bar a rank. */
#include <stdio.h>

#include "plots/plot_internal.h"
#include "sim/base/units.h"

enum { BARS_MAX = 32 };

static void put_rows(const struct plot_input *input, const struct time_unit *unit, uint32_t bars, struct strbuf *out)
{
    const struct result *r = input->result;
    for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
        strbuf_printf(out, "# %s: from, to (%s), bar, percent\n", time_class_word((enum time_class)c), unit->name);
        for (uint32_t i = 0; i < bars; i++) {
            double from = 0;
            for (uint32_t k = 0; k < c; k++) {
                from += r->stages[i].exposed_s[k];
            }
            double exposed = r->stages[i].exposed_s[c], percent = 100 * exposed / r->step_time_s;
            strbuf_printf(out, "%.7g %.7g %u ", from * unit->per_s, (from + exposed) * unit->per_s, i);
            strbuf_printf(out, percent >= 3.95 ? "\"%.0f%%\"\n" : "\"\"\n", percent);
        }
        strbuf_append(out, "\n\n");
    }
}

enum status plot_breakdown(const struct plot_input *input, struct picture *picture, struct error *error)
{
    const struct result *r = input->result;
    const struct schedule *s = input->input->schedule;
    (void)error;
    if (!r->fits || r->step_time_s <= 0 || r->stage_count == 0) {
        return STATUS_OK;
    }
    uint32_t bars = r->stage_count < BARS_MAX ? r->stage_count : BARS_MAX;
    struct time_unit unit = plot_time_unit(r->step_time_s);
    bool used[TIME_CLASS_COUNT] = { 0 };
    for (uint32_t i = 0; i < bars; i++) {
        for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
            used[c] = used[c] || r->stages[i].exposed_s[c] > 0.001 * r->step_time_s;
        }
    }
    put_rows(input, &unit, bars, &picture->data);
    struct strbuf *out = &picture->script;
    double body = bars * (bars > 16 ? 22.0 : 34.0) + 20;
    picture->width = 1100;
    picture->height = 100 + (body < 110 ? 110 : body) + 56;
    strbuf_append(out, "set title ");
    char title[400];
    snprintf(title, sizeof title, "%s: where the step goes (%% of the step; communication only where exposed)%s",
             r->name, r->stage_count > BARS_MAX ? ", the first 32 ranks" : "");
    plot_quoted(out, title);
    strbuf_printf(
        out,
        "\nset border 3 lw 0.8\nset tics nomirror out\nset lmargin at screen %.4f\nset rmargin at screen 0.98\n"
        "set tmargin at screen %.4f\nset bmargin at screen %.4f\n"
        "set xlabel \"time (%s)\" offset 0,0.4\nset xrange [0:%.7g]\nset yrange [%.2f:-0.6]\nset ytics (",
        plot_rank_margin(s, BARS_MAX, picture->width), 1 - 96 / picture->height, 54 / picture->height, unit.name,
        r->step_time_s * unit.per_s, bars - 0.4);
    for (uint32_t i = 0; i < bars; i++) {
        strbuf_append(out, i > 0 ? ", " : "");
        plot_quoted(out, sched_label(s, s->ranks[r->stages[i].rank].label));
        strbuf_printf(out, " %u", i);
    }
    strbuf_append(
        out, ")\nset key at screen 0.5,0.985 center top horizontal maxrows 2 samplen 1.2 width 1 Left reverse\nplot ");
    const char *comma = "";
    for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
        if (!used[c]) {
            continue;
        }
        strbuf_printf(
            out,
            "%sdata index %u using (($1+$2)/2):3:1:2:($3-0.36):($3+0.36) with boxxyerror fillcolor rgb \"%s\" "
            "fillstyle solid border rgb \"#404040\" lw 0.5 notitle, \\\n"
            " data index %u using (($1+$2)/2):3:4 with labels font \",9\" textcolor rgb \"%s\" notitle, \\\n"
            " keyentry with boxes fillcolor rgb \"%s\" fillstyle solid border rgb \"#404040\" title \"%s\"",
            comma, c, palette_time((enum time_class)c)->colour, c,
            palette_time((enum time_class)c)->white_text ? "white" : "black", palette_time((enum time_class)c)->colour,
            palette_time((enum time_class)c)->title);
        comma = ", \\\n ";
    }
    strbuf_char(out, '\n');
    return STATUS_OK;
}
