/* Where the time goes, and what binds. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/report/html/step_page_internal.h"
#include "sim/report/sensitivity_scale.h"

enum { STAGES_MAX = 64 };

static const char BAR[] = "k0072B2", BAR_BAD[] = "kD55E00";

/* --- where the step goes */

static void put_stack(struct html *h, const struct step_stage *stage, double step_s, const bool *used)
{
    char colour[PAGE_COLOUR_BYTES];
    double at = 0;
    html_open(h, "td");
    html_attr(h, "class", "bar");
    html_open(h, "svg");
    html_attr(h, "viewBox", "0 0 100 10");
    html_attr(h, "preserveAspectRatio", "none");
    html_attr(h, "aria-hidden", "true");
    for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
        double width = fmin(100 * stage->exposed_s[c] / step_s, 100);
        if (used[c] && width > 0) {
            html_open(h, "rect");
            html_attr(h, "class", page_colour(palette_time((enum time_class)c)->colour, colour));
            html_attr_real(h, "x", fmin(at, 100));
            html_attr_real(h, "width", width);
            html_attr(h, "height", "10");
            html_close(h, "rect");
            at += width;
        }
    }
    html_close(h, "svg");
    html_close(h, "td");
}

void step_causes(struct html *h, const struct step_source *source)
{
    const struct step_result *r = &source->result;
    struct html_column columns[2 + TIME_CLASS_COUNT] = { { "rank", false }, { "the step", false } };
    const struct palette_look *looks[TIME_CLASS_COUNT];
    bool used[TIME_CLASS_COUNT] = { 0 };
    uint32_t count = 0, rows = r->stage_count < STAGES_MAX ? r->stage_count : STAGES_MAX;
    char text[PAGE_TEXT_BYTES];
    for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
        for (uint32_t i = 0; i < r->stage_count; i++) {
            used[c] = used[c] || r->stages[i].exposed_s[c] > 0;
        }
        if (used[c]) {
            looks[count] = palette_time((enum time_class)c);
            columns[2 + count++] = (struct html_column){ palette_time((enum time_class)c)->title, true };
        }
    }
    html_leaf(h, "p", NULL,
              "At every instant a rank's compute queue is busy or waits, for one cause; these times sum to the step. "
              "Communication counts only where nothing hides it.");
    page_legend(h, looks, count);
    html_table_named(h, STEP_CAUSES_ID, "Exposed time by cause, share of the step", columns, 2 + count);
    for (uint32_t i = 0; i < rows; i++) {
        const struct step_stage *stage = &r->stages[i];
        html_row(h);
        html_cell(h, stage->rank);
        put_stack(h, stage, r->step_time_s, used);
        for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
            if (used[c]) {
                html_cell_data(h, stage->exposed_s[c], page_share(stage->exposed_s[c] / r->step_time_s, text));
            }
        }
        html_row_end(h);
    }
    html_table_end(h);
    if (rows < r->stage_count) {
        html_open(h, "p");
        html_attr(h, "class", "soft");
        html_printf(h, "The first %u of %u ranks; stages.csv has all.", rows, r->stage_count);
        html_close(h, "p");
    }
}

/* --- what binds */

static void put_bounds(struct html *h, const struct step_result *r)
{
    static const struct html_column columns[] = {
        { "what", false }, { "", false }, { "share of the step", true }, { "what would relieve it", false }
    };
    char text[PAGE_TEXT_BYTES];
    if (r->bound_count == 0) {
        return;
    }
    html_table(h, "On the rank that waits least", columns, 4);
    for (uint32_t i = 0; i < r->bound_count; i++) {
        html_row(h);
        html_cell(h, r->bounds[i].what);
        html_cell_bar(h, r->bounds[i].share, BAR);
        html_cell_data(h, r->bounds[i].share, page_share(r->bounds[i].share, text));
        html_cell(h, r->bounds[i].advice);
        html_row_end(h);
    }
    html_table_end(h);
}

static const char *resource_text(const char *word)
{
    for (int i = 0; i < SCALED_RESOURCE_COUNT; i++) {
        if (strcmp(word, scaled_resource_word((enum scaled_resource)i)) == 0) {
            return scaled_resource_text((enum scaled_resource)i);
        }
    }
    return word;
}

static void put_sensitivity(struct html *h, const struct step_sensitivity *s)
{
    char text[PAGE_TEXT_BYTES + 8], share[PAGE_TEXT_BYTES];
    html_row(h);
    snprintf(text, sizeof text, "%.3gx %.100s", s->factor, resource_text(s->resource));
    html_cell(h, text);
    if (isnan(s->change)) {
        html_cell_bar(h, 0, BAR);
        snprintf(text, sizeof text, "does not run: %.300s", s->reason != NULL ? s->reason : "");
        html_cell(h, text);
        html_cell(h, "");
    } else {
        html_cell_bar(h, fabs(s->change), s->change <= 0 ? BAR : BAR_BAD);
        bool none = fabs(s->change) < 5e-5;
        snprintf(text, sizeof text, "%s%s", none || s->change < 0 ? "" : "+",
                 none ? "none" : page_share(s->change, share));
        html_cell_data(h, s->change, text);
        html_cell_data(h, s->step_time_s, page_time(s->step_time_s, text));
    }
    if (isnan(s->elasticity)) {
        html_cell(h, "");
    } else {
        snprintf(text, sizeof text, fabs(s->elasticity) < 5e-4 ? "0" : "%+.3f", s->elasticity);
        html_cell_data(h, s->elasticity, text);
    }
    html_row_end(h);
}

static void put_sensitivities(struct html *h, const struct step_result *r)
{
    static const struct html_column columns[] = { { "twice the resource", false },
                                                  { "", false },
                                                  { "change of the step", true },
                                                  { "step", true },
                                                  { "elasticity", true } };
    if (r->sensitivity_count == 0) {
        return;
    }
    html_table(h, "The step re-simulated on changed machines: is it worth the money?", columns, 5);
    for (uint32_t i = 0; i < r->sensitivity_count; i++) {
        if (r->sensitivities[i].present) {
            put_sensitivity(h, &r->sensitivities[i]);
        }
    }
    html_table_end(h);
    html_open(h, "p");
    html_attr(h, "class", "soft");
    html_text(h, "elasticity: per cent of step time for one per cent more of the resource.");
    const char *before = " Nothing of this step uses: ";
    for (uint32_t i = 0; i < r->sensitivity_count; i++) {
        if (!r->sensitivities[i].present) {
            html_printf(h, "%s%s", before, resource_text(r->sensitivities[i].resource));
            before = ", ";
        }
    }
    html_text(h, before[0] == ',' ? "." : "");
    html_close(h, "p");
}

static void put_shares(struct html *h, const struct step_shares *shares, const char *caption, const char *what)
{
    const struct html_column columns[] = { { what, false }, { "", false }, { "share", true }, { "time", true } };
    char text[PAGE_TEXT_BYTES];
    if (shares->count == 0) {
        return;
    }
    html_table(h, caption, columns, 4);
    for (uint32_t i = 0; i < shares->count && i < STAGES_MAX; i++) {
        const struct step_share *share = &shares->items[i];
        html_row(h);
        html_cell(h, share->what);
        html_cell_bar(h, share->share, BAR);
        html_cell_data(h, share->share, page_share(share->share, text));
        html_cell_data(h, share->time_s, page_time(share->time_s, text));
        html_row_end(h);
    }
    html_table_end(h);
}

void step_binds(struct html *h, const struct step_source *source)
{
    const struct step_result *r = &source->result;
    put_sensitivities(h, r);
    put_bounds(h, r);
    if (r->causes.count > 0) {
        html_leaf(h, "h3", NULL, "The critical path");
        html_leaf(h, "p", NULL,
                  "A chain of ops from the step's end back to its start, each of which the next had to wait for: what "
                  "the step's length is made of. One cause at every instant; the sum is the step.");
        put_shares(h, &r->causes, "Causes along the path", "cause");
        page_details(h, "What let its ops begin, where it runs, its longest ops");
        put_shares(h, &r->began_by, "What an op on the path was last to wait for", "waited for");
        put_shares(h, &r->path_stages, "Stages that it runs through", "rank");
        put_shares(h, &r->top_ops, "Ops with most time on it", "op");
        html_close(h, "details");
    }
}
