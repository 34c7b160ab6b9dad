/* Cost: what is paid and for what, what it takes, what a deadline takes, and what all of it rests on. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/report/html/step_page_internal.h"

/* What has been said of the member money, so that nothing is said twice and nothing is left out. */
struct ledger {
    struct html *h;
    const struct step_facts *facts;
    bool said[STEP_FACTS_MAX];
};

static const struct step_fact *take(struct ledger *l, const char *group, const char *name)
{
    const struct step_fact *fact = step_facts_named(l->facts, group, name);
    if (fact != NULL) {
        l->said[fact - l->facts->items] = true;
    }
    return fact;
}

/* "rented" and "usd" in "deadline, batch grown". */
static const struct step_fact *take_inner(struct ledger *l, const char *group, const char *inner, const char *name)
{
    char whole[PAGE_TEXT_BYTES];
    snprintf(whole, sizeof whole, "%s%s%s", group, inner[0] != '\0' ? ", " : "", inner);
    return take(l, whole, name);
}

/* A row of two columns that are two groups; none where neither knows it. */
struct pair_row {
    const char *label, *inner, *name;
    const char *absent[2]; /* NULL: "-" */
};

static void put_pairs(struct ledger *l, const char *const groups[2], const struct pair_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct step_fact *facts[2];
        for (int k = 0; k < 2; k++) {
            facts[k] = take_inner(l, groups[k], rows[i].inner, rows[i].name);
        }
        if (facts[0] == NULL && facts[1] == NULL) {
            continue;
        }
        html_row(l->h);
        html_cell(l->h, rows[i].label);
        for (int k = 0; k < 2; k++) {
            step_fact_cell(l->h, facts[k], rows[i].absent[k] != NULL ? rows[i].absent[k] : "-");
        }
        html_row_end(l->h);
    }
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* --- what is paid */

static void put_a_day(struct ledger *l, const char *const groups[2])
{
    const struct step_fact *days = step_facts_named(l->facts, "", "days");
    if (days == NULL || !(days->value > 0)) {
        return;
    }
    html_row(l->h);
    html_cell(l->h, "a day of it");
    for (int k = 0; k < 2; k++) {
        const struct step_fact *usd = step_facts_named(l->facts, groups[k], "usd");
        const struct step_fact a_day = { .unit = "usd",
                                         .name = "",
                                         .value = usd != NULL ? usd->value / days->value : NAN };
        step_fact_cell(l->h, usd != NULL && usd->text == NULL ? &a_day : NULL, "-");
    }
    html_row_end(l->h);
}

/* What each way of paying lacks: lists of words. */
static void put_missing(struct ledger *l, const char *const groups[2])
{
    struct strbuf words[2] = { { 0 } };
    for (int k = 0; k < 2; k++) {
        for (int i = 1; i < 10; i++) {
            const char number[] = { (char)('0' + i), '\0' };
            const struct step_fact *fact = take_inner(l, groups[k], "missing", number);
            if (fact != NULL && fact->text != NULL) {
                strbuf_append(&words[k], i > 1 ? ", " : "");
                for (const char *c = fact->text; *c != '\0'; c++) {
                    strbuf_char(&words[k], *c == '_' ? ' ' : *c);
                }
            }
        }
    }
    if (words[0].length + words[1].length > 0) {
        html_row(l->h);
        html_cell(l->h, "what is not said of it");
        for (int k = 0; k < 2; k++) {
            html_cell(l->h, words[k].length > 0 ? words[k].text : "-");
        }
        html_row_end(l->h);
    }
    for (int k = 0; k < 2; k++) {
        l->h->out->failed = l->h->out->failed || words[k].failed;
        strbuf_free(&words[k]);
    }
}

static void put_paid(struct ledger *l)
{
    static const struct html_column columns[] = { { "paid for", false }, { "rented", true }, { "owned", true } };
    static const char *const groups[2] = { "rented", "owned" };
    static const char *const of_all[2] = { "interval, rented usd", "interval, owned usd" };
    static const char *const of_trillion[2] = { "interval, rented usd per trillion tokens",
                                                "interval, owned usd per trillion tokens" };
    static const struct pair_row all[] = { { "all tokens", "", "usd", { "not known", "not known" } } };
    static const struct pair_row parts[] = { { "of it servers, their share", "", "hardware", { "in the rent" } },
                                             { "of it electricity", "", "electricity", { "in the rent" } } };
    static const struct pair_row each[] = { { "10^12 tokens", "", "usd per trillion tokens", { NULL } } };
    /* the servers' whole price, of which "of it servers" is the share of this training: who buys pays it first */
    static const struct pair_row outlay[] = { { "to buy the servers, at once", "", "outlay", { "-" } } };
    static const struct pair_row all_likely[] = { { "all tokens, 5 % of draws below", "", "p5", { NULL } },
                                                  { "all tokens, 5 % of draws above", "", "p95", { NULL } } };
    static const struct pair_row each_likely[] = { { "10^12 tokens, 5 % below", "", "p5", { NULL } },
                                                   { "10^12 tokens, 5 % above", "", "p95", { NULL } } };
    bool any = false;
    for (int k = 0; k < 2; k++) {
        any = any || step_facts_named(l->facts, groups[k], "usd") != NULL;
    }
    if (!any) {
        return;
    }
    html_table(l->h, "Money: what is paid, each way of paying for itself", columns, COUNT(columns));
    put_pairs(l, groups, all, COUNT(all));
    put_pairs(l, of_all, all_likely, COUNT(all_likely));
    put_pairs(l, groups, parts, COUNT(parts));
    put_a_day(l, groups);
    put_pairs(l, groups, each, COUNT(each));
    put_pairs(l, of_trillion, each_likely, COUNT(each_likely));
    put_pairs(l, groups, outlay, COUNT(outlay));
    put_missing(l, groups);
    html_table_end(l->h);
}

/* --- what it takes */

static void put_taken(struct ledger *l)
{
    static const struct html_column columns[] = { { "figure", false }, { "", true } };
    static const struct {
        const char *label, *group, *name;
    } rows[] = { { "time", "", "days" },
                 { "time, 5 % of draws below", "interval, days", "p5" },
                 { "time, 5 % of draws above", "interval, days", "p95" },
                 { "deadline", "deadline", "days" },
                 { "in time", "deadline", "met" },
                 { "tokens", "", "tokens" },
                 { "tokens, 5 % of draws below", "interval, tokens", "p5" },
                 { "tokens, 5 % of draws above", "interval, tokens", "p95" },
                 { "steps", "", "steps" },
                 { "time of a step", "", "step time" },
                 { "of the time makes steps", "", "goodput" },
                 { "GPUs", "", "gpus" },
                 { "servers", "", "servers" },
                 { "energy", "", "energy" },
                 { "CO2", "", "co2" } };
    bool begun = false;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct step_fact *fact = take(l, rows[i].group, rows[i].name);
        const struct step_fact *settled = step_facts_named(l->facts, "", "tokens");
        bool certain = fact != NULL && settled != NULL && strcmp(rows[i].group, "interval, tokens") == 0 &&
                       !(fact->value < settled->value) && !(fact->value > settled->value);
        if (fact == NULL || certain) {
            continue;
        }
        if (!begun) {
            html_table(l->h, "What it takes", columns, COUNT(columns));
            begun = true;
        }
        html_row(l->h);
        html_cell(l->h, rows[i].label);
        step_fact_cell(l->h, fact, "");
        html_row_end(l->h);
    }
    if (begun) {
        html_table_end(l->h);
    }
}

/* --- what the deadline takes */

static void put_deadline(struct ledger *l)
{
    static const struct html_column columns[] = { { "", false },
                                                  { "batch grows with them", true },
                                                  { "batch stays", true } };
    static const char *const groups[2] = { "deadline, batch grown", "deadline, batch kept" };
    static const struct pair_row rows[] = { { "in time", "", "meets", { NULL } },
                                            { "time", "", "days", { NULL } },
                                            { "rented", "rented", "usd", { NULL } },
                                            { "owned", "owned", "usd", { NULL } },
                                            { "of it servers", "owned", "hardware", { NULL } },
                                            { "of it electricity", "owned", "electricity", { NULL } },
                                            { "to buy the servers, at once", "owned", "outlay", { NULL } },
                                            { "10^12 tokens, rented", "rented", "usd per trillion tokens", { NULL } },
                                            { "10^12 tokens, owned", "owned", "usd per trillion tokens", { NULL } },
                                            { "GPUs", "", "gpus", { NULL } },
                                            { "servers", "", "servers", { NULL } },
                                            { "replicas for one of now", "", "replicas for each", { NULL } },
                                            { "data-parallel degree", "", "data", { NULL } },
                                            { "global batch", "", "global batch", { NULL } },
                                            { "time of a step", "", "step time", { NULL } },
                                            { "of the time makes steps", "", "goodput", { NULL } },
                                            { "steps", "", "steps", { NULL } },
                                            { "tokens", "", "tokens", { NULL } },
                                            { "energy", "", "energy", { NULL } },
                                            { "CO2", "", "co2", { NULL } } };
    for (uint32_t i = 0; i < l->facts->count; i++) { /* prices, terms and what is missing are those of the job itself */
        const char *group = l->facts->items[i].group;
        if (strncmp(group, "deadline, ", 10) == 0 &&
            (strstr(group, ", prices") != NULL || strstr(group, ", terms") != NULL ||
             strstr(group, ", missing") != NULL)) {
            l->said[i] = true;
        }
    }
    if (step_facts_named(l->facts, groups[0], "meets") == NULL &&
        step_facts_named(l->facts, groups[1], "meets") == NULL) {
        return;
    }
    html_table(l->h, "What the deadline takes: more data-parallel replicas, all else of the plan as it is", columns,
               COUNT(columns));
    put_pairs(l, groups, rows, COUNT(rows));
    html_table_end(l->h);
    for (size_t k = 0; k < COUNT(groups); k++) {
        const struct step_fact *reason = take(l, groups[k], "reason");
        if (reason != NULL && reason->text != NULL) {
            html_open(l->h, "p");
            html_printf(l->h, "Why no faster where the %s: %s.", columns[k + 1].title, reason->text);
            html_close(l->h, "p");
        }
    }
    html_leaf(l->h, "p", "soft",
              "Both are simulated. A batch that grows is taken to train as well for each token; past its critical size "
              "it does not.");
}

/* --- what it rests on */

static void put_price(struct ledger *l, const char *label, const char *group)
{
    const struct step_fact *value = take(l, group, "value"), *year = take(l, group, "year");
    const struct step_fact *source = take(l, group, "source"), *estimated = take(l, group, "estimated");
    bool guessed = estimated != NULL && estimated->text != NULL && strcmp(estimated->text, "yes") == 0;
    char words[PAGE_TEXT_BYTES], text[PAGE_TEXT_BYTES];
    if (value == NULL) {
        return;
    }
    snprintf(words, sizeof words, "%s%s%.400s%s", year != NULL ? step_fact_text(year, text, sizeof text) : "",
             year != NULL ? ", " : "", source != NULL && source->text != NULL ? source->text : "no source",
             guessed ? ": an estimate" : "");
    html_row(l->h);
    html_cell(l->h, label);
    step_fact_cell(l->h, value, "");
    html_cell(l->h, words);
    html_row_end(l->h);
}

static void put_assumptions(struct ledger *l)
{
    static const struct html_column columns[] = { { "assumption", false }, { "", true }, { "from", false } };
    static const struct {
        const char *label, *name, *from;
    } terms[] = { { "electricity", "electricity", "--electricity" },
                  { "CO2 of a kWh", "carbon", "--carbon" },
                  { "a server is worth nothing after", "amortise", "--amortise, 4 years unless said" },
                  { "share of its life that it works", "utilisation", "--utilisation, 1 unless said" },
                  { "W of the building for a W of servers", "pue", "--pue, 1 unless said: the servers alone" } };
    if (step_facts_named(l->facts, "terms", "pue") == NULL) {
        return;
    }
    html_table(l->h, "What it rests on", columns, COUNT(columns));
    put_price(l, "rent of a GPU for an hour", "prices, usd per gpu hour");
    put_price(l, "a server", "prices, system usd");
    put_price(l, "power of a server at work", "prices, system W");
    for (size_t i = 0; i < COUNT(terms); i++) {
        const struct step_fact *fact = take(l, "terms", terms[i].name);
        if (fact != NULL) {
            html_row(l->h);
            html_cell(l->h, terms[i].label);
            step_fact_cell(l->h, fact, "");
            html_cell(l->h, terms[i].from);
            html_row_end(l->h);
        }
    }
    html_table_end(l->h);
    html_leaf(
        l->h, "p", "soft",
        "GPUs are rented one by one, with their electricity in the rent; servers are bought and powered whole and "
        "draw the most that their maker says. Buildings, people, network and storage outside the servers are not "
        "in it.");
}

void step_cost(struct html *h, const struct step_source *source)
{
    struct ledger l = { .h = h, .facts = &source->result.money };
    put_paid(&l);
    put_taken(&l);
    put_deadline(&l);
    put_assumptions(&l);
    for (uint32_t i = 0; i < l.facts->count; i++) {
        if (!l.said[i]) {
            step_facts_put(h, l.facts, l.said, "Further figures");
            break;
        }
    }
}
