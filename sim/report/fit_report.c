/* What fits, in words, in a table and as JSON. */
#include "sim/report/fit_report.h"

#include <inttypes.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/report/text_table.h"

enum { WIDTH = 110 };

const struct fit_trial *fit_report_trial(const struct fit_report *report, uint32_t candidate)
{
    for (uint32_t i = 0; i < report->trial_count; i++) {
        if (report->trials[i].candidate == candidate) {
            return &report->trials[i];
        }
    }
    return NULL;
}

static const struct fit_trial *largest(const struct fit_report *report)
{
    return report->outcome.any ? fit_report_trial(report, report->outcome.largest) : NULL;
}

static const struct fit_trial *next(const struct fit_report *report)
{
    return report->outcome.has_next ? fit_report_trial(report, report->outcome.next) : NULL;
}

/* One that was tried, for what all have in common. */
static const struct fit_trial *any_trial(const struct fit_report *report)
{
    const struct fit_trial *best = largest(report);
    return best != NULL ? best : next(report);
}

static void put_candidate(const struct fit_report *report, const struct fit_trial *trial, struct strbuf *out)
{
    if (report->batch) {
        strbuf_printf(out, "micro-batch %" PRId64 " (global batch %" PRId64 ")", trial->micro_batch,
                      trial->global_batch);
    } else {
        strbuf_printf(out, "%s (%.4g billion parameters)", trial->name, (double)trial->parameters / 1e9);
    }
}

static void put_setting(const struct fit_report *report, struct strbuf *out)
{
    const struct fit_trial *trial = any_trial(report);
    strbuf_printf(out, "%u GPU%s of %s, memory policy %s", trial->gpus, trial->gpus == 1 ? "" : "s", trial->machine,
                  trial->policy);
    if (report->batch) {
        strbuf_printf(out, ", model %s", trial->name);
    } else {
        strbuf_printf(out, ", micro-batch %" PRId64, trial->micro_batch);
    }
    strbuf_printf(out, "; %u simulated\n\n", report->outcome.trials);
}

/* Live bytes fit, what the allocator model holds does not: it may fail where the simulation went through. */
static void warn_of_fragmentation(const struct fit_trial *best, struct strbuf *out)
{
    size_t before = out->length;
    for (uint32_t k = 0; k < SPACE_KIND_COUNT; k++) {
        const struct fit_space *space = &best->fullest[k];
        char held[32], capacity[32];
        if (space->present && space->peak_reserved_bytes > space->capacity_bytes) {
            strbuf_printf(out, "  WARNING: fragmentation of %s: the allocator model would hold %s of %s\n", space->name,
                          text_bytes((double)space->peak_reserved_bytes, held, sizeof held),
                          text_bytes((double)space->capacity_bytes, capacity, sizeof capacity));
        }
    }
    if (out->length > before) {
        strbuf_append(out, "  (--reserved counts it as not fitting)\n\n");
    }
}

static void headline(const struct fit_report *report, struct strbuf *out)
{
    const struct fit_trial *best = largest(report);
    if (best == NULL) {
        strbuf_printf(out, report->batch ? "No batch fits.\n" : "None of %u models fits.\n", report->candidates);
    } else {
        strbuf_append(out, report->batch ? "The largest that fits: " : "The largest model that fits: ");
        put_candidate(report, best, out);
        strbuf_printf(out, ", %.4g tokens/s\n", best->tokens_per_s);
    }
    put_setting(report, out);
    if (best != NULL) {
        warn_of_fragmentation(best, out);
    }
    if (report->outcome.not_monotone) {
        strbuf_append(out, "  WARNING: what fits does not grow evenly: a smaller one does not fit (see below)\n\n");
    }
}

static void put_wrapped(struct strbuf *out, const char *text)
{
    struct text_table table = { .column_count = 1, .last_width = WIDTH - 4 };
    for (const char *line = text; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        const char *start = line + strspn(line, " ");
        text_table_cell(&table, "%.*s", (int)(length - (size_t)(start - line)), start);
        line += length + (line[length] == '\n');
    }
    text_table_print(&table, 2, false, out);
    text_table_free(&table);
}

/* What is full on the next one up. */
static void what_is_full(const struct fit_report *report, struct strbuf *out)
{
    const struct fit_trial *up = next(report);
    if (up == NULL) {
        strbuf_append(out, report->batch ? "Nothing larger could be tried.\n" : "Nothing larger was asked for.\n");
        return;
    }
    put_candidate(report, up, out);
    if (!up->full.present) {
        strbuf_append(out, " does not fit:\n");
        put_wrapped(out, up->reason);
        return;
    }
    char needed[32], capacity[32];
    const struct fit_space *full = &up->full;
    strbuf_printf(out, " does not fit: %s would need %s and has %s\n", full->name,
                  text_bytes((double)up->needed_bytes, needed, sizeof needed),
                  text_bytes((double)full->capacity_bytes, capacity, sizeof capacity));
    struct text_table table = { .column_count = 3, .right = 2u | 4u };
    for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
        if (full->by_class[c] > 0) {
            text_table_cell(&table, "%s", buffer_class_word((enum buffer_class)c));
            text_table_cell(&table, "%s", text_bytes((double)full->by_class[c], needed, sizeof needed));
            text_table_cell(&table, "%.1f %%", 100 * (double)full->by_class[c] / (double)up->needed_bytes);
        }
    }
    if (up->needed_bytes > full->peak_bytes) {
        text_table_cell(&table, "fragmentation");
        text_table_cell(&table, "%s", text_bytes((double)(up->needed_bytes - full->peak_bytes), needed, sizeof needed));
        text_table_cell(&table, "%.1f %%",
                        100 * (double)(up->needed_bytes - full->peak_bytes) / (double)up->needed_bytes);
    }
    text_table_print(&table, 2, false, out);
    text_table_free(&table);
    if (!up->simulated && up->reason[0] != '\0') { /* the policy refused before there was anything to simulate */
        put_wrapped(out, up->reason);
    }
}

static void put_use(struct text_table *table, const struct fit_space *space)
{
    if (!space->present || space->peak_bytes == 0) {
        text_table_cell(table, "-");
    } else if (space->capacity_bytes == UINT64_MAX) {
        text_table_cell(table, "%.4g", (double)space->peak_bytes / GIB);
    } else {
        text_table_cell(table, "%.4g of %.4g", (double)space->peak_bytes / GIB, (double)space->capacity_bytes / GIB);
    }
}

static void put_row(struct text_table *table, const struct fit_report *report, const struct fit_trial *trial)
{
    char time[32];
    if (report->batch) {
        text_table_cell(table, "%" PRId64, trial->micro_batch);
        text_table_cell(table, "%" PRId64, trial->global_batch);
    } else {
        text_table_cell(table, "%s", trial->name);
        text_table_cell(table, "%.3f", (double)trial->parameters / 1e9);
    }
    text_table_cell(table, "%s", trial->verdict == FIT_FITS ? "yes" : trial->verdict == FIT_TOO_BIG ? "no" : "refused");
    bool fits = trial->verdict == FIT_FITS;
    text_table_cell(table, "%s", fits ? text_time_ps(ps_nearest_s(trial->step_time_s), time, sizeof time) : "-");
    if (fits) {
        text_table_cell(table, "%.4g", trial->tokens_per_s);
        text_table_cell(table, "%.4g", trial->model_tflops_per_gpu);
        text_table_cell(table, "%.1f", 100 * trial->mfu);
    } else {
        for (int i = 0; i < 3; i++) {
            text_table_cell(table, "-");
        }
    }
    put_use(table, &trial->fullest[SPACE_DEVICE]);
    put_use(table, &trial->fullest[SPACE_HOST]);
    put_use(table, &trial->fullest[SPACE_STORAGE]);
}

static void tried(const struct fit_report *report, struct strbuf *out)
{
    static const char *const heads[] = { "fits",  "step time", "tokens/s", "TFLOP/s/GPU",
                                         "MFU %", "GPU GiB",   "host GiB", "drive GiB" };
    struct text_table table = { .column_count = 10, .right = 0x3fau };
    text_table_cell(&table, "%s", report->batch ? "micro-batch" : "model");
    text_table_cell(&table, "%s", report->batch ? "global batch" : "billion");
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        text_table_cell(&table, "%s", heads[i]);
    }
    for (uint32_t i = 0; i < report->trial_count; i++) {
        put_row(&table, report, &report->trials[i]);
    }
    strbuf_append(out, "\nTried (memory at its peak; of what does not fit: what it would need)\n");
    text_table_print(&table, 2, true, out);
    text_table_free(&table);
    for (uint32_t i = 0; i < report->trial_count; i++) {
        const struct fit_trial *trial = &report->trials[i];
        if (trial->verdict == FIT_REFUSED) {
            strbuf_char(out, '\n');
            put_candidate(report, trial, out);
            strbuf_append(out, " was refused:\n");
            put_wrapped(out, trial->reason);
        }
    }
}

void fit_report_text(const struct fit_report *report, struct strbuf *out)
{
    headline(report, out);
    what_is_full(report, out);
    tried(report, out);
}

static void trial_or_null(struct json_writer *w, const char *key, const struct fit_trial *trial)
{
    if (trial != NULL) {
        fit_trial_json(w, key, trial);
    } else {
        jw_null(w, key);
    }
}

void fit_report_json(const struct fit_report *report, struct strbuf *out)
{
    struct json_writer w = { .out = out };
    const struct fit_trial *common = any_trial(report);
    jw_object(&w, NULL);
    jw_string(&w, "schema", "memwall.fit/1");
    jw_string(&w, "what", report->batch ? "batch" : "models");
    jw_bool(&w, "fits", report->outcome.any);
    jw_string(&w, "machine", common->machine);
    jw_uint(&w, "gpus", common->gpus);
    jw_string(&w, "memory_policy", common->policy);
    jw_uint(&w, "simulations", report->outcome.trials);
    jw_bool(&w, "monotone", !report->outcome.not_monotone);
    trial_or_null(&w, "largest", largest(report));
    trial_or_null(&w, "next", next(report));
    if (next(report) != NULL) {
        fit_full_json(&w, next(report));
    } else {
        jw_null(&w, "full");
    }
    jw_array(&w, "tried");
    for (uint32_t i = 0; i < report->trial_count; i++) {
        fit_trial_json(&w, NULL, &report->trials[i]);
    }
    jw_end(&w);
    jw_end(&w);
    strbuf_char(out, '\n');
}
