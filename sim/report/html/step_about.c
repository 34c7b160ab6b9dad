/* Certainty, assumptions with their sources, how to repeat it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/json_write.h"
#include "sim/base/units.h"
#include "sim/report/html/step_page_internal.h"

/* --- studies shown as they are */

void step_fact_cell(struct html *h, const struct step_fact *fact, const char *absent)
{
    char text[PAGE_TEXT_BYTES];
    if (fact == NULL || fact->text != NULL) {
        html_cell(h, fact != NULL ? fact->text : absent);
    } else {
        html_cell_data(h, fact->value, step_fact_text(fact, text, sizeof text));
    }
}

/* Two columns: a third would be beyond the edge of a telephone. */
void step_facts_put(struct html *h, const struct step_facts *facts, const bool *said, const char *caption)
{
    static const struct html_column columns[] = { { "what", false }, { "", true } };
    char text[PAGE_TEXT_BYTES];
    html_table(h, caption, columns, 2);
    for (uint32_t i = 0; i < facts->count; i++) {
        const struct step_fact *fact = &facts->items[i];
        if (said != NULL && said[i]) {
            continue;
        }
        html_row(h);
        snprintf(text, sizeof text, "%s%s%s", fact->group, fact->group[0] != '\0' ? ": " : "", fact->name);
        html_cell(h, text);
        step_fact_cell(h, fact, "");
        html_row_end(h);
    }
    html_table_end(h);
}

/* Failures in words: names that their units alone tell apart ("checkpoint" of bytes, seconds, a share) are not left alone. */
static void put_failures(struct html *h, const struct step_facts *facts)
{
    static const struct html_column columns[] = { { "figure", false }, { "", true } };
    static const struct {
        const char *name, *unit, *label;
    } rows[] = { { "device mtbf", "hours", "mean time between failures of one GPU" },
                 { "devices", "", "GPUs" },
                 { "mtbf", "s", "mean time between failures of the job" },
                 { "checkpoint", "bytes", "size of a checkpoint" },
                 { "storage", "bytes_per_s", "storage takes" },
                 { "storage source", "", "storage is" },
                 { "checkpoint", "s", "time to write a checkpoint" },
                 { "restart", "s", "time to restart and read it back" },
                 { "interval young", "s", "write one every (Young's rule)" },
                 { "interval first order", "s", "write one every (first order)" },
                 { "interval daly", "s", "write one every (Daly's rule)" },
                 { "interval exact", "s", "write one every (exact)" },
                 { "interval simulated", "s", "write one every (failures simulated)" },
                 { "interval steps", "", "steps from one to the next (Daly's rule)" },
                 { "goodput", "", "of the time makes steps" },
                 { "goodput simulated", "", "of the time makes steps (failures simulated)" },
                 { "checkpoint", "share", "of the time writes checkpoints" },
                 { "lost", "share", "of the time is lost: steps done again, restarts" } };
    html_table(h, "Failures and checkpoints", columns, 2);
    for (uint32_t i = 0; i < facts->count; i++) {
        const struct step_fact *fact = &facts->items[i];
        const char *label = fact->name;
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            bool same = strcmp(rows[k].name, fact->name) == 0;
            if (same && (rows[k].unit[0] == '\0' || strcmp(rows[k].unit, fact->unit) == 0)) {
                label = rows[k].label;
            }
        }
        html_row(h);
        html_cell(h, label);
        step_fact_cell(h, fact, "");
        html_row_end(h);
    }
    html_table_end(h);
}

void step_certainty(struct html *h, const struct step_source *source)
{
    const struct step_result *r = &source->result;
    if (r->uncertainty.count > 0) {
        html_leaf(h, "p", NULL,
                  "The step simulated again and again with the machine's fitted constants drawn within their standard "
                  "errors; 5 % of the draws lie below p5, 5 % above p95. Constants without a known error are taken as "
                  "certain, and the interval says nothing of what the model leaves out.");
        step_facts_put(h, &r->uncertainty, NULL, "How sure the step time is");
    }
    if (r->failures.count > 0) {
        html_leaf(h, "p", NULL,
                  "Failures at random with the given mean time between them: how often to write a checkpoint, and what "
                  "is left of the machine's time (goodput).");
        put_failures(h, &r->failures);
    }
}

/* --- assumptions */

static void put_value(struct html *h, const struct explain_cell *cell, const char *unit)
{
    struct step_fact fact = { .group = "", .name = "", .unit = unit != NULL ? unit : "", .value = cell->value };
    char text[PAGE_TEXT_BYTES], number[32];
    if (cell->text != NULL) {
        html_text_grouped(h, cell->text);
        return;
    }
    bool known = unit == NULL || strcmp(unit, "bytes") == 0 || (strcmp(unit, "s") == 0 && cell->value >= 0);
    html_data(h, cell->value, known ? step_fact_text(&fact, text, sizeof text) : text_real(cell->value, number, 32));
    if (!known) {
        html_printf(h, " %s", unit);
    }
}

static void put_terms(struct html *h, const struct explain_section *section)
{
    html_open(h, "dl");
    for (size_t i = 0; i < section->terms.count; i++) {
        const struct explain_term *term = &section->terms.items[i];
        html_leaf(h, "dt", NULL, term->name);
        html_open(h, "dd");
        put_value(h, &term->value, term->unit);
        if (term->formula != NULL) {
            html_text(h, " = ");
            html_text_grouped(h, term->formula);
        }
        if (term->numbers != NULL) {
            html_text(h, " = ");
            html_text_grouped(h, term->numbers);
        }
        if (term->source != NULL) {
            html_open(h, "span");
            html_attr(h, "class", "soft");
            html_printf(h, " (%s)", term->source);
            html_close(h, "span");
        }
        html_close(h, "dd");
    }
    html_close(h, "dl");
}

static void put_explained(struct html *h, const struct explain_table *table)
{
    struct html_column columns[EXPLAIN_COLUMNS_MAX];
    char text[PAGE_TEXT_BYTES];
    for (uint32_t c = 0; c < table->column_count; c++) {
        bool number = table->cells.count > c && table->cells.items[c].text == NULL;
        columns[c] = (struct html_column){ table->columns[c], number };
    }
    html_table(h, table->title, columns, table->column_count);
    CHECK(table->column_count > 0);
    for (size_t i = 0; i < table->cells.count; i++) {
        const struct explain_cell *cell = &table->cells.items[i];
        struct step_fact fact = { .group = "", .name = "", .unit = "", .value = cell->value };
        if (i % table->column_count == 0) {
            html_row(h);
        }
        if (cell->text != NULL) {
            html_cell(h, cell->text);
        } else {
            html_cell_data(h, cell->value, step_fact_text(&fact, text, sizeof text));
        }
        if (i % table->column_count == table->column_count - 1) {
            html_row_end(h);
        }
    }
    html_table_end(h);
}

/* Those whose numbers the reader has to believe stand open. */
static bool is_open(const struct explain_section *section)
{
    return strcmp(section->id, "plan") == 0 || strcmp(section->id, "policy") == 0 || strcmp(section->id, "model") == 0;
}

static void put_section(struct html *h, const struct explain_section *section)
{
    bool open = is_open(section);
    if (open) {
        html_leaf(h, "h3", NULL, section->title);
    } else {
        page_details(h, section->title);
    }
    if (section->note != NULL) {
        html_leaf(h, "p", NULL, section->note);
    }
    if (section->terms.count > 0) {
        put_terms(h, section);
    }
    for (size_t i = 0; i < section->tables.count; i++) {
        put_explained(h, &section->tables.items[i]);
    }
    if (!open) {
        html_close(h, "details");
    }
}

void step_sources(struct html *h, const struct step_source *source)
{
    const struct explanation *e = &source->explanation;
    html_leaf(h, "p", NULL,
              "Simulated: one schedule of the whole step, run against a model of the machine in which links, memories "
              "and cores are shared. Times are as good as the constants below and as the model; memwall's README says "
              "how far it is from what was measured.");
    if (!source->has_explanation) {
        html_leaf(h, "p", "bad",
                  "The sources of the machine's and the software's constants are not with this result: memwall explain "
                  "prints them.");
        return;
    }
    for (int open = 1; open >= 0; open--) {
        for (size_t i = 0; i < e->sections.count; i++) {
            if (is_open(&e->sections.items[i]) == (open == 1)) {
                put_section(h, &e->sections.items[i]);
            }
        }
    }
}

/* --- how to repeat it */

static void put_term(struct html *h, const char *term, const char *text)
{
    if (text != NULL && text[0] != '\0') {
        html_leaf(h, "dt", NULL, term);
        html_open(h, "dd");
        html_leaf(h, "code", NULL, text);
        html_close(h, "dd");
    }
}

void step_repeat(struct html *h, const struct step_source *source, const char *version, const char *command)
{
    const struct step_run *run = &source->run;
    struct strbuf words = { 0 };
    char hash[HASH_TEXT_BYTES];
    if (source->has_run) {
        html_leaf(h, "p", NULL, "The result was made by");
        page_command(run->words, run->word_count, &words);
        html_leaf(h, "pre", NULL, words.text != NULL ? words.text : "");
        html_leaf(h, "p", NULL, "and this page from it by");
    } else {
        html_leaf(h, "p", NULL, "How the result was made is not with it. This page was made from it by");
    }
    html_leaf(h, "pre", NULL, command);
    html_open(h, "dl");
    put_term(h, "memwall of the result", source->has_run ? run->version : NULL);
    put_term(h, "memwall of this page", version);
    put_term(h, "scenario file", source->has_run ? run->scenario_file : NULL);
    put_term(h, "scenario hash", source->has_run ? run->scenario_hash : NULL);
    put_term(h, "schedule hash", source->result.schedule_hash);
    put_term(h, "result hash", hash_text(&source->result_hash, hash));
    html_close(h, "dl");
    html_leaf(h, "p", "soft",
              "The same input gives the same bytes on every run, thread count and compiler. The scenario's hash covers "
              "the machine, model and software files that it names.");
    if (source->has_run && run->scenario.text != NULL) {
        page_details(h, "The scenario, with everything the command changed");
        html_leaf(h, "pre", NULL, run->scenario.text);
        html_close(h, "details");
    }
    h->out->failed = h->out->failed || words.failed;
    strbuf_free(&words);
}
