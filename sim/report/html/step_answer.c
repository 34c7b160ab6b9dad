/* The answer first: how long, how much, does it fit, what it costs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/report/html/step_page_internal.h"

static void card_time(struct html *h, const struct step_result *r)
{
    char text[PAGE_TEXT_BYTES], low[PAGE_TEXT_BYTES], high[PAGE_TEXT_BYTES], below[2 * PAGE_TEXT_BYTES + 64] = "";
    const struct step_fact *p5 = step_facts_find(&r->uncertainty, "p5", NULL),
                           *p95 = step_facts_find(&r->uncertainty, "p95", NULL);
    if (!(r->step_time_s > 0)) {
        page_card(h, "Step time", NAN, "none", "the step does not end");
        return;
    }
    if (p5 != NULL && p95 != NULL) {
        snprintf(below, sizeof below, "%s to %s with 90 %% certainty of the constants", page_time(p5->value, low),
                 page_time(p95->value, high));
    } else if (r->measured_steps > 0) {
        snprintf(below, sizeof below, "measured: median of %.0f steps, %s to %s", r->measured_steps,
                 page_time(r->measured_min_s, low), page_time(r->measured_max_s, high));
    } else if (!r->fits) {
        snprintf(below, sizeof below, "with memory to spare: it does not fit");
    }
    page_card(h, "Step time", r->step_time_s, page_time(r->step_time_s, text), below[0] != '\0' ? below : NULL);
}

static void card_rates(struct html *h, const struct step_result *r)
{
    char text[PAGE_TEXT_BYTES], below[PAGE_TEXT_BYTES], number[64];
    if (r->tokens_per_s > 0) {
        snprintf(text, sizeof text, "%s tokens/s", step_number_text(r->tokens_per_s, number, sizeof number));
        snprintf(below, sizeof below, "%.4g a GPU; %.4g samples/s", r->tokens_per_s_per_gpu, r->samples_per_s);
        page_card(h, "Throughput", r->tokens_per_s, text, below);
    } else if (r->samples_per_s > 0) {
        snprintf(text, sizeof text, "%.4g samples/s", r->samples_per_s);
        page_card(h, "Throughput", r->samples_per_s, text, NULL);
    }
    if (r->mfu > 0) {
        snprintf(below, sizeof below, "%.4g TFLOP/s a GPU; %s with recomputation", r->model_tflops,
                 page_share(r->hfu, text));
        page_card(h, "Model FLOPs of the peak (MFU)", r->mfu, page_share(r->mfu, text), below);
    }
}

static void card_memory(struct html *h, const struct step_result *r)
{
    static const struct {
        const char *kind, *title;
    } kinds[] = { { "device", "Fullest GPU" },
                  { "host", "Fullest host memory" },
                  { "pinned_host", "Pinned host memory" },
                  { "storage", "Fullest storage" } };
    char text[PAGE_TEXT_BYTES], of[PAGE_TEXT_BYTES], below[2 * PAGE_TEXT_BYTES + 64];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct step_space *space = step_result_fullest(r, kinds[i].kind);
        if (space == NULL) {
            continue;
        }
        if (isnan(space->capacity)) {
            snprintf(below, sizeof below, "%.100s; no limit is known", space->name);
        } else {
            snprintf(below, sizeof below, "of %s usable, %.4g %%; %.100s", page_bytes(space->capacity, of),
                     space->capacity > 0 ? 100 * space->peak / space->capacity : 0, space->name);
        }
        page_card(h, kinds[i].title, space->peak, page_bytes(space->peak, text), below);
    }
}

/* What stands in the member money, whichever figures it has: per trillion tokens, or in all. */
static void card_cost(struct html *h, const struct step_result *r)
{
    static const char *const wanted[][2] = { { "usd", "trillion" }, { "usd", "total" }, { "usd", NULL } };
    char text[PAGE_TEXT_BYTES], below[PAGE_TEXT_BYTES];
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const struct step_fact *fact = step_facts_find(&r->money, wanted[i][0], wanted[i][1]);
        if (fact != NULL && isfinite(fact->value)) {
            snprintf(below, sizeof below, "%.100s%s%.100s", fact->group, fact->group[0] != '\0' ? ": " : "",
                     fact->name);
            page_card(h, "Cost", fact->value, step_fact_text(fact, text, sizeof text), below);
            return;
        }
    }
}

static void verdict(struct html *h, const struct step_result *r)
{
    const struct step_space *space = step_result_fullest(r, NULL);
    char a[PAGE_TEXT_BYTES], b[PAGE_TEXT_BYTES];
    html_open(h, "p");
    html_attr(h, "class", "verdict");
    html_leaf(h, "strong", r->fits ? "good" : "bad", r->fits ? "It fits." : "It does not fit.");
    if (r->step_time_s > 0) {
        html_printf(h, " One step takes %s%s", page_time(r->step_time_s, a), r->fits ? "" : " with memory to spare");
        if (r->tokens_per_s > 0) {
            html_printf(h, ": %s tokens a second on %s GPU%s", step_number_text(r->tokens_per_s, a, sizeof a),
                        step_number_text(r->gpus, b, sizeof b), r->gpus > 1 ? "s" : "");
        }
        html_text(h, ".");
    }
    if (space != NULL && space->capacity > 0) {
        html_printf(h, " The fullest memory, %s, holds %s of %s at its peak.", space->name, page_bytes(space->peak, a),
                    page_bytes(space->capacity, b));
    }
    if (r->bound_count > 0) {
        html_printf(h, " What takes most of its time: %s, %s of the step.", r->bounds[0].what, page_share(r->bounds[0].share, a));
    }
    html_close(h, "p");
    if (r->reason != NULL && r->reason[0] != '\0') {
        html_leaf(h, "pre", NULL, r->reason);
    }
}

void step_answer(struct html *h, const struct step_source *source)
{
    const struct step_result *r = &source->result;
    verdict(h, r);
    html_open(h, "ul");
    html_attr(h, "class", "cards");
    card_time(h, r);
    card_rates(h, r);
    card_memory(h, r);
    card_cost(h, r);
    html_close(h, "ul");
    for (const char *line = source->notes.text; line != NULL && *line != '\0';) {
        size_t length = strcspn(line, "\n");
        html_open(h, "p");
        html_attr(h, "class", "soft");
        html_printf(h, "%.*s", (int)length, line);
        html_close(h, "p");
        line += length + (line[length] == '\n');
    }
}
