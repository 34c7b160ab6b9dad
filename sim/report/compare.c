/* Figures of two results, and what they say in one sentence. */
#include "sim/report/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/units.h"

static const struct {
    const char *key, *text;
    enum figure_unit unit;
} RATES[] = {
#define X(name, key, unit, text) { key, text, unit },
    RATE_TABLE(X)
#undef X
};

static const char *const CLASS_TEXTS[] = {
#define X(name, word, help) help,
    BUFFER_CLASS_TABLE(X)
#undef X
};

double compare_ratio(const struct compared_figure *figure)
{
    return fabs(figure->a) > 0 && isfinite(figure->b) ? figure->b / figure->a : NAN;
}

typedef void visit_figure(void *context, const struct compared_figure *figure);

/* Nothing to say of what neither has. */
static void visit(visit_figure *visitor, void *context, struct compared_figure figure)
{
    if (fabs(figure.a) > 0 || fabs(figure.b) > 0) {
        visitor(context, &figure);
    }
}

static double of_space(const struct compared_space *space, double value)
{
    return space->present ? value : NAN;
}

static void visit_space(const struct comparison *both, enum space_kind kind, visit_figure *visitor, void *context)
{
    const struct compared_space *a = &both->a.spaces[kind], *b = &both->b.spaces[kind];
    if (!(a->present && a->peak_bytes > 0) && !(b->present && b->peak_bytes > 0)) {
        return; /* a space that nobody uses */
    }
    const struct {
        const char *key, *text;
        double a, b;
    } rows[] = { { "peak_bytes", "peak", a->peak_bytes, b->peak_bytes },
                 { "peak_reserved_bytes", "peak reserved", a->peak_reserved_bytes, b->peak_reserved_bytes },
                 { "capacity_bytes", "capacity", a->capacity_bytes, b->capacity_bytes } };
    struct compared_figure figure = { .outer = "memory", .inner = space_kind_word(kind), .unit = UNIT_BYTES };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        figure.key = rows[i].key;
        figure.text = rows[i].text;
        figure.a = of_space(a, rows[i].a);
        figure.b = of_space(b, rows[i].b);
        visit(visitor, context, figure);
    }
    for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
        figure.key = buffer_class_word((enum buffer_class)c);
        figure.text = CLASS_TEXTS[c];
        figure.a = of_space(a, a->by_class[c]);
        figure.b = of_space(b, b->by_class[c]);
        visit(visitor, context, figure);
    }
}

static void visit_times(const struct comparison *both, const char *section, const double *a, const double *b,
                        visit_figure *visitor, void *context)
{
    for (uint32_t c = 0; c < TIME_CLASS_COUNT; c++) {
        const char *word = time_class_word((enum time_class)c);
        visit(visitor, context,
              (struct compared_figure){ "time_breakdown", section, word, word, UNIT_TIME_S,
                                        both->a.complete ? a[c] : NAN, both->b.complete ? b[c] : NAN });
    }
}

static const char *links_word(uint32_t kind)
{
    static const char *const more[] = { "dram", "storage", "other" };
    return kind < LINK_KIND_COUNT ? machine_link_word((enum machine_link_kind)kind) : more[kind - LINK_KIND_COUNT];
}

static void visit_links(const struct comparison *both, const char *section, enum figure_unit unit, const double *a,
                        const double *b, visit_figure *visitor, void *context)
{
    for (uint32_t k = 0; k < LINKS_COUNT; k++) {
        visit(visitor, context,
              (struct compared_figure){ section, NULL, links_word(k), links_word(k), unit,
                                        both->a.complete ? a[k] : NAN, both->b.complete ? b[k] : NAN });
    }
}

void compare_visit(const struct comparison *both, visit_figure *visitor, void *context)
{
    visit(visitor, context,
          (struct compared_figure){ NULL, NULL, "gpus", "GPUs", UNIT_COUNT, both->a.gpus, both->b.gpus });
    for (uint32_t i = 0; i < RATE_COUNT; i++) {
        visit(visitor, context,
              (struct compared_figure){ NULL, NULL, RATES[i].key, RATES[i].text, RATES[i].unit, both->a.rates[i],
                                        both->b.rates[i] });
    }
    for (uint32_t k = 0; k < SPACE_KIND_COUNT; k++) {
        visit_space(both, (enum space_kind)k, visitor, context);
    }
    visit_times(both, "exposed", both->a.exposed_s, both->b.exposed_s, visitor, context);
    visit_times(both, "hidden", both->a.hidden_s, both->b.hidden_s, visitor, context);
    visit_links(both, "traffic", UNIT_BYTES, both->a.traffic_bytes, both->b.traffic_bytes, visitor, context);
    visit_links(both, "link_use", UNIT_SHARE, both->a.link_use, both->b.link_use, visitor, context);
}

/* ---- in one sentence ---- */

static void put_ratio(struct strbuf *out, double ratio)
{
    strbuf_printf(out, ratio < 0.1 || ratio >= 1000 ? "%.3g" : ratio >= 10 ? "%.1f" : "%.2f", ratio);
}

static bool is_same(double ratio)
{
    return ratio > 0.995 && ratio < 1.005;
}

/* By tokens, or samples where a result tells none: steps may hold different batches. */
static double speed_ratio(const struct comparison *both)
{
    enum compared_rate rate =
        both->a.rates[RATE_TOKENS] > 0 && both->b.rates[RATE_TOKENS] > 0 ? RATE_TOKENS : RATE_SAMPLES;
    double ratio = both->b.rates[rate] / both->a.rates[rate];
    return isfinite(ratio) ? ratio : both->a.rates[RATE_STEP_TIME] / both->b.rates[RATE_STEP_TIME];
}

static void put_speed(const struct comparison *both, struct strbuf *out)
{
    double ratio = speed_ratio(both);
    bool other_gpus = fabs(both->a.gpus - both->b.gpus) > 0;
    strbuf_append(out, "B ");
    if (other_gpus) {
        strbuf_printf(out, "on %.0f GPUs ", both->b.gpus);
    }
    if (is_same(ratio)) {
        strbuf_append(out, "is as fast as A");
    } else {
        strbuf_append(out, "is ");
        put_ratio(out, ratio);
        strbuf_append(out, " times as fast as A");
    }
    if (other_gpus) {
        strbuf_printf(out, " on %.0f (", both->a.gpus);
        put_ratio(out, ratio * both->a.gpus / both->b.gpus);
        strbuf_append(out, " times a GPU)");
    }
}

/* Of the fullest device of each, if both have one. */
static void put_memory(const struct comparison *both, struct strbuf *out)
{
    const struct compared_space *a = &both->a.spaces[SPACE_DEVICE], *b = &both->b.spaces[SPACE_DEVICE];
    char before[32], after[32];
    if (!(a->peak_bytes > 0) || !(b->peak_bytes > 0)) {
        return;
    }
    double ratio = b->peak_bytes / a->peak_bytes;
    strbuf_append(out, " and takes ");
    if (is_same(ratio)) {
        strbuf_append(out, "as much memory");
    } else {
        put_ratio(out, ratio);
        strbuf_append(out, " of its memory");
    }
    strbuf_printf(out, " (fullest device: %s, A %s)", text_bytes(b->peak_bytes, after, sizeof after),
                  text_bytes(a->peak_bytes, before, sizeof before));
}

void compare_statement(const struct comparison *both, struct strbuf *out)
{
    const struct compare_side *a = &both->a, *b = &both->b;
    if (!a->fits && !b->fits) {
        strbuf_append(out, "Neither A nor B fits");
    } else if (!a->fits || !b->fits) {
        strbuf_printf(out, "%s fits, %s does not", a->fits ? "A" : "B", a->fits ? "B" : "A");
    }
    if (a->complete && b->complete) {
        strbuf_append(out, a->fits && b->fits ? "" : "; with memory to spare ");
        put_speed(both, out);
        put_memory(both, out);
    }
    strbuf_char(out, '.');
}

/* ---- what must be known first ---- */

static double samples(const struct compare_side *side)
{
    return side->rates[RATE_SAMPLES] * side->rates[RATE_STEP_TIME];
}

void compare_notes(const struct comparison *both, struct strbuf *out)
{
    const struct compare_side *a = &both->a, *b = &both->b;
    if (a->schedule_hash[0] != '\0' && strcmp(a->schedule_hash, b->schedule_hash) == 0) {
        strbuf_append(out, "Both run the same schedule.\n");
    }
    if (strcmp(a->executor, b->executor) != 0) {
        strbuf_printf(out, "A is of the executor %s, B of %s.\n", a->executor, b->executor);
    }
    double of_a = samples(a), of_b = samples(b);
    if (fabs(of_a - of_b) > 1e-6 * of_a) {
        strbuf_printf(out, "A step of A holds %.6g samples, one of B %.6g: compare rates, not step times.\n", of_a,
                      of_b);
    }
    for (int i = 0; i < 2; i++) {
        const struct compare_side *side = i == 0 ? a : b;
        if (!side->fits) {
            strbuf_printf(out, "%s does not fit%s\n", i == 0 ? "A" : "B",
                          side->complete ? ": its figures are those of the same step with memory to spare." : ".");
        }
    }
}
