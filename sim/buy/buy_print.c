/* The answer as JSON and as text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/json_write.h"
#include "sim/base/units.h"
#include "sim/buy/buy.h"
#include "sim/report/text_table.h"
#include "sim/report/uncertainty.h"

static const struct {
    const char *word, *text;
} VERDICTS[] = {
#define X(name, word, text) { word, text },
    BUY_VERDICT_TABLE(X)
#undef X
};

static const struct {
    const char *word, *unit, *after;
} CHANGES[] = {
#define X(name, word, unit, after) { word, unit, after },
    BUY_CHANGE_TABLE(X)
#undef X
};

static const char *goal_word(enum question_goal goal)
{
    return goal == GOAL_COST ? "cost" : "time";
}

/* ---- JSON ---- */

static void question_json(const struct question *q, struct json_writer *w)
{
    jw_object(w, "question");
    jw_string(w, "name", q->name);
    jw_raw(w, "model", q->model_json);
    jw_int(w, "global_batch", q->global_batch);
    jw_real(w, "tokens", q->tokens);
    if (q->deadline_days > 0) {
        jw_real(w, "deadline_days", q->deadline_days);
    }
    if (q->budget_usd > 0) {
        jw_real(w, "budget_usd", q->budget_usd);
    }
    jw_string(w, "goal", goal_word(q->goal));
    jw_string(w, "pay", question_pay_word(q->pay));
    jw_string(w, "planner", q->planner->name);
    jw_end(w);
}

static void changes_json(const struct buy_row *row, struct json_writer *w)
{
    jw_array(w, "changes");
    for (int k = 0; k < BUY_CHANGE_COUNT; k++) {
        if (row->changes[k].known) {
            jw_object(w, NULL);
            jw_string(w, "what", CHANGES[k].word);
            jw_string(w, "unit", CHANGES[k].unit);
            if (row->changes[k].now > 0) {
                jw_real(w, "now", row->changes[k].now);
            } else {
                jw_null(w, "now");
            }
            jw_real(w, "then", row->changes[k].then);
            jw_end(w);
        }
    }
    jw_end(w);
}

static void figures_json(const struct buy_row *row, struct json_writer *w)
{
    static const enum sweep_figure SHOWN[] = { FIGURE_step_time_s, FIGURE_tokens_per_s, FIGURE_mfu, FIGURE_peak_bytes,
                                               FIGURE_capacity_bytes };
    jw_string(w, "plan", row->plan);
    jw_int(w, "micro_batch", row->micro_batch);
    for (size_t i = 0; i < sizeof SHOWN / sizeof SHOWN[0]; i++) {
        jw_real(w, sweep_figures[SHOWN[i]].name, row->figures.figures[SHOWN[i]]);
    }
    jw_string(w, "binds", row->figures.bound);
    jw_real(w, "binds_share", row->figures.figures[FIGURE_bound_share]);
    jw_string(w, "schedule_hash", row->figures.schedule_hash);
}

void buy_json(const struct buy_answer *answer, struct strbuf *out)
{
    struct json_writer w = { .out = out };
    jw_object(&w, NULL);
    jw_string(&w, "schema", "memwall.buy/1");
    question_json(answer->question, &w);
    jw_uint(&w, "meeting", answer->meeting);
    jw_bool(&w, "interrupted", answer->interrupted);
    jw_array(&w, "rows");
    for (uint32_t i = 0; i < answer->row_count; i++) {
        const struct buy_row *row = &answer->rows[i];
        jw_object(&w, NULL);
        jw_uint(&w, "rank", i + 1);
        jw_string(&w, "machine", row->candidate->label);
        jw_uint(&w, "nodes", row->candidate->nodes);
        jw_uint(&w, "gpus", row->candidate->gpus);
        jw_string(&w, "verdict", VERDICTS[row->verdict].word);
        jw_string(&w, "reason", row->reason);
        if (row->has_figures) {
            figures_json(row, &w);
        }
        if (row->has_money) {
            jw_string(&w, "paid", row->way);
            if (row->way != NULL) {
                jw_real(&w, "usd", row->usd);
            } else {
                jw_null(&w, "usd");
            }
            if (row->has_interval) {
                jw_object(&w, "interval");
                uncertainty_interval_json("days", row->low_days, row->high_days, &w);
                uncertainty_interval_json("usd", row->low_usd, row->high_usd, &w);
                jw_end(&w);
            }
            jw_object(&w, "money");
            money_json(&row->money, &w);
            jw_end(&w);
            changes_json(row, &w);
        }
        if (row->scenario != NULL) {
            jw_raw(&w, "scenario", row->scenario);
        }
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
    strbuf_char(out, '\n');
}

/* ---- text ---- */

static void head_text(const struct buy_answer *answer, struct strbuf *out)
{
    const struct question *q = answer->question;
    char a[48];
    strbuf_printf(out, "%s%s%s tokens in steps of %lld sequences", q->name, q->name[0] != '\0' ? ": " : "",
                  money_count_text(q->tokens, a, sizeof a), (long long)q->global_batch);
    if (q->deadline_days > 0) {
        strbuf_printf(out, ", in %s", money_days_text(q->deadline_days, a, sizeof a));
    }
    if (q->budget_usd > 0) {
        strbuf_printf(out, ", for %s", money_usd_text(q->budget_usd, a, sizeof a));
    }
    strbuf_printf(out, "; ranked by %s. Plans: %s, then simulated.\n\n", goal_word(q->goal), q->planner->name);
}

static void row_name(const struct buy_row *row, char *text, size_t size)
{
    (void)snprintf(text, size, "%u x %s", row->candidate->nodes, row->candidate->label);
}

static void row_cells(struct text_table *table, const struct buy_row *row, uint32_t rank)
{
    char text[QUESTION_NAME_BYTES + 16];
    text_table_cell(table, "%u", rank);
    row_name(row, text, sizeof text);
    text_table_cell(table, "%s", text);
    text_table_cell(table, "%u", row->candidate->gpus);
    if (row->has_figures) {
        text_table_cell(table, "%s", row->plan);
        text_table_cell(table, "%.4g s", row->figures.figures[FIGURE_step_time_s]);
        text_table_cell(table, "%.1f %%", 100 * row->figures.figures[FIGURE_mfu]);
    } else {
        text_table_cell(table, "-");
        text_table_cell(table, "-");
        text_table_cell(table, "-");
    }
    text_table_cell(table, "%s", row->has_money ? money_days_text(row->money.days, text, sizeof text) : "-");
    bool priced = row->has_money && row->way != NULL;
    text_table_cell(table, "%s", priced ? money_usd_text(row->usd, text, sizeof text) : "-");
    text_table_cell(table, "%s", priced ? row->way : "-");
    if (row->has_money && !isnan(row->money.energy_kwh)) {
        text_table_cell(table, "%.3g", row->money.energy_kwh / 1000);
    } else {
        text_table_cell(table, "-");
    }
    text_table_cell(table, "%s", VERDICTS[row->verdict].text);
}

static void table_text(const struct buy_answer *answer, struct strbuf *out)
{
    static const char *const HEAD[] = { "",     "machine", "GPUs", "plan", "step", "MFU",
                                        "time", "cost",    "paid", "MWh",  "need" };
    struct text_table table = { .column_count = sizeof HEAD / sizeof HEAD[0], .right = 0x2f5 };
    for (size_t i = 0; i < sizeof HEAD / sizeof HEAD[0]; i++) {
        text_table_cell(&table, "%s", HEAD[i]);
    }
    for (uint32_t i = 0; i < answer->row_count; i++) {
        row_cells(&table, &answer->rows[i], i + 1);
    }
    text_table_print(&table, 0, true, out);
    text_table_free(&table);
    bool any = false;
    for (uint32_t i = 0; i < answer->row_count; i++) {
        any = any || answer->rows[i].has_figures;
    }
    if (any) {
        strbuf_append(out, "\nplan: degrees of pipeline-tensor-data of the first layer; f: ZeRO-3; -s, -c: recomputed "
                           "selectively, in full. time: of the whole training.\n");
    }
}

/* `value` > 0 as its text shows it (four digits; USD between 1,000 and a million: whole ones), rounded to the side that holds: who takes the figure that is printed as his price finds what is said of it. */
static double rounded_to_hold(double value, bool usd, bool at_most)
{
    int digits = usd && value < 0.1 ? 3 : 4;
    double unit = usd && value >= 999.5 && value < 999950 ? 1
                  : usd && value >= 0.1 && value < 999.5  ? 0.01
                                                          : pow(10, floor(log10(value)) - digits + 1);
    double units = value / unit, nearest = round(units);
    if (fabs(units - nearest) <= 1e-9 * nearest) { /* a round figure that arithmetic has blurred */
        return value;
    }
    return (at_most ? floor(units) : ceil(units)) * unit;
}

static void change_text(const struct buy_row *row, enum buy_change_kind kind, struct strbuf *out)
{
    const struct buy_change *c = &row->changes[kind];
    const char *after = CHANGES[kind].after;
    bool at_most = c->then < c->now || !(c->now > 0);
    double limit = rounded_to_hold(c->then, after != NULL, at_most);
    char then[48], now[48];
    if (after != NULL) {
        (void)money_usd_text(limit, then, sizeof then);
        (void)money_usd_text(c->now, now, sizeof now);
    } else {
        (void)snprintf(then, sizeof then, "%.4g", limit);
        (void)snprintf(now, sizeof now, "%.4g", c->now);
    }
    strbuf_printf(out, "       %s %s%s%s", at_most ? "at most" : "at least", then, after != NULL ? "" : " ",
                  after != NULL ? after : CHANGES[kind].unit);
    if (c->now > 0) {
        strbuf_printf(out, ", now %s\n", now);
    } else {
        strbuf_append(out, ", now not known\n");
    }
}

/* `first`: number 1, when this is another that meets the need. */
static void interval_text(const struct buy_row *row, const struct buy_row *first, struct strbuf *out)
{
    char a[48], b[48], c[48], d[48];
    /* candidates of one machine err together: their order is surer than their intervals look */
    bool overlaps = first != NULL && first->has_interval && row->low_usd <= first->high_usd &&
                    strcmp(row->money.prices.machine, first->money.prices.machine) != 0;
    strbuf_printf(out, "     5 to 95 %% of the machine's uncertain constants: %s to %s, %s to %s%s\n",
                  money_days_text(row->low_days, a, sizeof a), money_days_text(row->high_days, b, sizeof b),
                  money_usd_text(row->low_usd, c, sizeof c), money_usd_text(row->high_usd, d, sizeof d),
                  overlaps ? "; it overlaps number 1's: they may be the other way round" : "");
}

/* What an owner pays first, and how little of it this training bears. */
static void outlay_text(const struct buy_row *row, struct strbuf *out)
{
    const struct money *m = &row->money;
    char a[48];
    if (row->has_money && row->way != NULL && strcmp(row->way, "owned") == 0) {
        strbuf_printf(out, "     to buy the %s, at once: %s; this training bears %.3g %% of it\n",
                      m->job.servers == 1 ? "server" : "servers", money_usd_text(m->owned.outlay_usd, a, sizeof a),
                      100 * m->owned.hardware_usd / m->owned.outlay_usd);
    }
}

static void reasons_text(const struct buy_answer *answer, struct strbuf *out)
{
    for (uint32_t i = 0; i < answer->row_count; i++) {
        const struct buy_row *row = &answer->rows[i];
        char name[QUESTION_NAME_BYTES + 16];
        bool any = false;
        row_name(row, name, sizeof name);
        strbuf_printf(out, "\n%3u  %s: %s", i + 1, name, row->reason);
        if (row->has_figures && row->figures.bound[0] != '\0') {
            strbuf_printf(out, "; what binds: %s (%.0f %%)", row->figures.bound,
                          100 * row->figures.figures[FIGURE_bound_share]);
        }
        strbuf_char(out, '\n');
        outlay_text(row, out);
        if (row->has_interval) {
            interval_text(row, i > 0 && row->verdict == BUY_MEETS ? &answer->rows[0] : NULL, out);
        } else if (row->lacks_errors) {
            strbuf_append(out,
                          "     no interval: no constant of the machine carries a standard error (memwall calibrate "
                          "finds them)\n");
        }
        for (int k = 0; k < BUY_CHANGE_COUNT; k++) {
            any = any || row->changes[k].known;
        }
        if (any) {
            strbuf_append(out, row->verdict == BUY_MEETS || row->verdict == BUY_UNPRICED
                                   ? "     would come before number 1, all else equal, with one of\n"
                                   : "     would meet the need, all else equal, with one of\n");
        }
        for (int k = 0; k < BUY_CHANGE_COUNT; k++) {
            if (row->changes[k].known) {
                change_text(row, (enum buy_change_kind)k, out);
            }
        }
    }
}

static void price_text(const char *what, const struct money_price *price, struct strbuf *out)
{
    strbuf_printf(out, "    %-14s", what);
    if (!(price->value > 0)) {
        strbuf_append(out, "not known\n");
        return;
    }
    strbuf_printf(out, "%g", price->value);
    if (price->year > 0) {
        strbuf_printf(out, ", %u", price->year);
    }
    strbuf_printf(out, ", %s%s\n", price->source != NULL ? price->source : "no source",
                  price->estimated ? ": an estimate" : "");
}

/* Of each offer once: candidates of one offer follow each other in the question. */
static void assumptions_text(const struct buy_answer *answer, struct strbuf *out)
{
    const struct question *q = answer->question;
    strbuf_append(out, "\nPrices and power\n");
    for (uint32_t i = 0; i < q->candidate_count; i++) {
        const struct candidate *candidate = &q->candidates[i];
        if (i > 0 && candidate->label == q->candidates[i - 1].label) {
            continue;
        }
        strbuf_printf(out, "  %s\n", candidate->label);
        price_text("USD/GPU-hour", &candidate->prices.usd_per_gpu_hour, out);
        price_text("USD/server", &candidate->prices.system_usd, out);
        price_text("W/server", &candidate->prices.system_w, out);
    }
    strbuf_printf(out, "\nAssumptions: ways of paying: %s; ",
                  q->pay == PAY_CHEAPER ? "rented or owned, the cheaper"
                  : q->pay == PAY_RENT  ? "rented"
                                        : "owned");
    if (isnan(q->terms.electricity_usd_per_kwh)) {
        strbuf_append(out, "electricity not said: owning has no price");
    } else {
        strbuf_printf(out, "electricity %g USD/kWh", q->terms.electricity_usd_per_kwh);
    }
    strbuf_printf(out,
                  "; owned servers are worth nothing after %g years, busy %g %% of them; PUE %g; %g %% of the time "
                  "makes steps. Servers are bought and powered whole. Buildings, people, network and storage are not "
                  "in it.\n",
                  q->terms.amortise_years, 100 * q->terms.utilisation, q->terms.pue, 100 * q->goodput);
}

void buy_text(const struct buy_answer *answer, struct strbuf *out)
{
    head_text(answer, out);
    table_text(answer, out);
    reasons_text(answer, out);
    assumptions_text(answer, out);
}
