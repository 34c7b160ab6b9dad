/* The answer first: how long, how much, does it fit, what it costs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/report/html/step_page_internal.h"
#include "sim/report/result.h"

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
    char text[PAGE_TEXT_BYTES], below[2 * PAGE_TEXT_BYTES], number[64], other[64];
    if (r->tokens_per_s > 0) {
        snprintf(text, sizeof text, "%s tokens/s", step_number_text(r->tokens_per_s, number, sizeof number));
        snprintf(below, sizeof below, "%s tokens/s a GPU; %s samples/s",
                 step_number_text(r->tokens_per_s_per_gpu, number, sizeof number),
                 step_number_text(r->samples_per_s, other, sizeof other));
        page_card(h, "Throughput", r->tokens_per_s, text, below);
    } else if (r->samples_per_s > 0) {
        snprintf(text, sizeof text, "%s samples/s", step_number_text(r->samples_per_s, number, sizeof number));
        page_card(h, "Throughput", r->samples_per_s, text, NULL);
    }
    if (r->mfu > 0) {
        bool recomputes = false;
        for (uint32_t i = 0; i < r->stage_count; i++) {
            recomputes = recomputes || r->stages[i].busy_s[TIME_RECOMPUTE] > 0;
        }
        snprintf(below, sizeof below, "%s TFLOP/s a GPU. Executed (HFU): %s, %s",
                 step_number_text(r->model_tflops, number, sizeof number), page_share(r->hfu, text),
                 result_executed_words(r->model_tflops, r->hardware_tflops, recomputes));
        page_card(h, "Model FLOPs of the peak (MFU)", r->mfu, page_share(r->mfu, text), below);
    }
}

static void card_memory(struct html *h, const struct step_result *r)
{
    static const struct {
        const char *kind, *title;
    } kinds[] = { { "device", "Fullest GPU" }, { "host", "Fullest host memory" }, { "storage", "Fullest storage" } };
    char text[PAGE_TEXT_BYTES], of[PAGE_TEXT_BYTES], below[2 * PAGE_TEXT_BYTES + 64];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct step_space *space = step_result_fullest(r, kinds[i].kind);
        if (space == NULL) {
            continue;
        }
        if (isnan(space->capacity)) {
            snprintf(below, sizeof below, "%.100s; no limit is known", space->name);
        } else {
            snprintf(below, sizeof below, "of %s usable, %s; %.100s", page_bytes(space->capacity, of),
                     page_share(space->capacity > 0 ? space->peak / space->capacity : 0, text), space->name);
        }
        page_card(h, kinds[i].title, space->peak, page_bytes(space->peak, text), below);
    }
}

static void card_fact(struct html *h, const char *title, const struct step_fact *fact, const struct step_fact *below)
{
    char text[PAGE_TEXT_BYTES], more[PAGE_TEXT_BYTES], words[PAGE_TEXT_BYTES + 128] = "";
    if (below != NULL) {
        snprintf(words, sizeof words, "%s %.100s", step_fact_text(below, more, sizeof more),
                 strncmp(below->name, "usd ", 4) == 0 ? below->name + 4 : below->name);
    }
    page_card(h, title, fact->value, step_fact_text(fact, text, sizeof text), words[0] != '\0' ? words : NULL);
}

/* A way of paying, with its interval where there is one. */
static void card_way(struct html *h, const struct step_facts *money, const struct step_fact *usd)
{
    char title[PAGE_TEXT_BYTES], group[PAGE_TEXT_BYTES], below[4 * PAGE_TEXT_BYTES] = "";
    char text[PAGE_TEXT_BYTES], low[PAGE_TEXT_BYTES], high[PAGE_TEXT_BYTES];
    snprintf(title, sizeof title, "Cost%s%.100s", usd->group[0] != '\0' ? ", " : "", usd->group);
    snprintf(group, sizeof group, "interval, %.100s usd", usd->group);
    const struct step_fact *each = step_facts_named(money, usd->group, "usd per trillion tokens");
    const struct step_fact *p5 = step_facts_named(money, group, "p5"), *p95 = step_facts_named(money, group, "p95");
    if (each != NULL) {
        snprintf(below, sizeof below, "%s per trillion tokens", step_fact_text(each, text, sizeof text));
    }
    if (p5 != NULL && p95 != NULL) {
        size_t length = strlen(below);
        snprintf(below + length, sizeof below - length, "%s5 to 95 %%: %s to %s", length > 0 ? "; " : "",
                 step_fact_text(p5, low, sizeof low), step_fact_text(p95, high, sizeof high));
    }
    page_card(h, title, usd->value, step_fact_text(usd, text, sizeof text), below[0] != '\0' ? below : NULL);
}

/* The member money: how long the training takes, what each way of paying for it comes to; of one with other figures, the first in dollars. */
static void card_cost(struct html *h, const struct step_result *r)
{
    const struct step_facts *money = &r->money;
    const struct step_fact *days = step_facts_named(money, "", "days");
    char title[PAGE_TEXT_BYTES];
    uint32_t cards = 0;
    if (days != NULL) {
        card_fact(h, "Training takes", days, step_facts_named(money, "", "tokens"));
    }
    for (uint32_t i = 0; i < money->count && cards < 4; i++) {
        const struct step_fact *fact = &money->items[i];
        if (fact->text == NULL && strcmp(fact->name, "usd") == 0) {
            card_way(h, money, fact);
            cards++;
        }
    }
    const struct step_fact *first = step_facts_find(money, "usd", NULL);
    if (cards == 0 && first != NULL) {
        snprintf(title, sizeof title, "Cost%s%.100s", first->name[0] != '\0' ? ", " : "", first->name);
        card_fact(h, title, first, NULL);
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
        html_printf(h, " What takes most of its time: %s, %s of the step.", r->bounds[0].what,
                    page_share(r->bounds[0].share, a));
    }
    html_close(h, "p");
    if (r->reason != NULL && r->reason[0] != '\0') {
        html_open(h, "pre");
        html_text_grouped(h, r->reason);
        html_close(h, "pre");
    }
}

/* A line of the notes; what stands in backticks is code. */
static void put_note(struct html *h, const char *line, size_t length)
{
    bool code = false;
    html_open(h, "p");
    html_attr(h, "class", "soft");
    for (size_t at = 0; at < length; code = !code) {
        size_t part = strcspn(line + at, "`\n");
        if (code) {
            html_open(h, "code");
        }
        html_printf(h, "%.*s", (int)part, line + at);
        if (code) {
            html_close(h, "code");
        }
        at += part + 1;
    }
    html_close(h, "p");
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
        put_note(h, line, length);
        line += length + (line[length] == '\n');
    }
}
