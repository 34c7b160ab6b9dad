#include "sim/cli/run_money.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/report/text_table.h"

/* By enum money_limit: the flag. */
static const char *const FLAGS[MONEY_LIMIT_COUNT] = {
    [MONEY_LIMIT_TOKENS] = "--tokens",
    [MONEY_LIMIT_DAYS] = "--days",
    [MONEY_LIMIT_ELECTRICITY] = "--electricity",
    [MONEY_LIMIT_CARBON] = "--carbon",
    [MONEY_LIMIT_YEARS] = "--amortise",
    [MONEY_LIMIT_UTILISATION] = "--utilisation",
    [MONEY_LIMIT_PUE] = "--pue",
    [MONEY_LIMIT_SYSTEM_USD] = "--price-usd",
    [MONEY_LIMIT_GPU_HOUR] = "--gpu-hour-usd",
    [MONEY_LIMIT_POWER] = "--power-w",
};

void run_money_flags(struct run_money *m, struct cli_flag flags[MONEY_FLAG_COUNT])
{
    const char **t = m->texts;
    const struct cli_flag all[MONEY_FLAG_COUNT] = {
        { "tokens", "N", "money and energy: train on so many tokens (300e9): days, cost rented and owned, kWh",
          &t[MONEY_LIMIT_TOKENS] },
        { "days", "D",
          "alone: what D days train and cost; with --tokens: the deadline, and the replicas it needs, simulated",
          &t[MONEY_LIMIT_DAYS] },
        { "electricity", "USD", "a kWh, for owned machines", &t[MONEY_LIMIT_ELECTRICITY] },
        { "amortise", "YEARS", "an owned machine is worth nothing after so long (default 4)", &t[MONEY_LIMIT_YEARS] },
        { "utilisation", "SHARE", "of its life that an owned machine works, 0.01 to 1 (default 1)",
          &t[MONEY_LIMIT_UTILISATION] },
        { "carbon", "G", "g of CO2 a kWh", &t[MONEY_LIMIT_CARBON] },
        { "pue", "X", "W that the building draws for each W of the servers (default 1: the servers alone)",
          &t[MONEY_LIMIT_PUE] },
        { "price-usd", "USD", "of one server, in place of the machine's price.system_usd", &t[MONEY_LIMIT_SYSTEM_USD] },
        { "gpu-hour-usd", "USD", "rent of one GPU for an hour, in place of price.usd_per_gpu_hour",
          &t[MONEY_LIMIT_GPU_HOUR] },
        { "power-w", "W", "of one server at work, in place of power.system_W (the most that it draws)",
          &t[MONEY_LIMIT_POWER] },
    };
    memcpy(flags, all, sizeof all);
}

bool run_money_any(const struct run_money *m)
{
    return m->texts[MONEY_LIMIT_TOKENS] != NULL || m->texts[MONEY_LIMIT_DAYS] != NULL;
}

enum status run_money_read(struct run_money *m, struct error *error)
{
    for (int i = 0; i < MONEY_LIMIT_COUNT; i++) {
        struct money_range range = money_range_of((enum money_limit)i);
        const char *text = m->texts[i];
        char *end;
        if (text == NULL) {
            continue;
        }
        m->values[i] = strtod(text, &end);
        if (end == text || *end != '\0' || !(m->values[i] >= range.least && m->values[i] <= range.most)) {
            return error_at(error, STATUS_BAD_INPUT, FLAGS[i], NULL,
                            "expected a number from %g to %g (%s), found \"%.64s\"", range.least, range.most,
                            range.unit, text);
        }
        if (!run_money_any(m)) {
            return error_at(error, STATUS_BAD_INPUT, FLAGS[i], NULL,
                            "is about money and energy: it needs --tokens N or --days D");
        }
    }
    return STATUS_OK;
}

/* ---- computing ---- */

static void override_price(struct money_price *price, const struct run_money *m, enum money_limit limit)
{
    if (m->texts[limit] != NULL) {
        *price = (struct money_price){ .value = m->values[limit], .source = FLAGS[limit] };
    }
}

static struct money_terms terms_of(const struct run_money *m)
{
    struct money_terms terms = money_terms_default();
    double *const places[MONEY_LIMIT_COUNT] = {
        [MONEY_LIMIT_ELECTRICITY] = &terms.electricity_usd_per_kwh,
        [MONEY_LIMIT_CARBON] = &terms.carbon_g_per_kwh,
        [MONEY_LIMIT_YEARS] = &terms.amortise_years,
        [MONEY_LIMIT_UTILISATION] = &terms.utilisation,
        [MONEY_LIMIT_PUE] = &terms.pue,
    };
    for (int i = 0; i < MONEY_LIMIT_COUNT; i++) {
        if (places[i] != NULL && m->texts[i] != NULL) {
            *places[i] = m->values[i];
        }
    }
    return terms;
}

/* What was asked for in so many words must be known; and something must. */
static enum status check_ways(const struct run_money *m, struct error *error)
{
    static const enum money_limit OWNER[] = { MONEY_LIMIT_PUE,        MONEY_LIMIT_CARBON, MONEY_LIMIT_ELECTRICITY,
                                              MONEY_LIMIT_SYSTEM_USD, MONEY_LIMIT_YEARS,  MONEY_LIMIT_UTILISATION };
    const struct money *money = &m->money;
    const uint32_t power = 1U << MONEY_NEEDS_POWER;
    char text[320];
    for (size_t i = 0; i < sizeof OWNER / sizeof OWNER[0]; i++) {
        bool energy_alone = i < 2; /* these two need no price */
        uint32_t missing = energy_alone ? money->owned.missing & power : money->owned.missing;
        if (m->texts[OWNER[i]] != NULL && missing != 0) {
            return error_at(error, STATUS_BAD_INPUT, FLAGS[OWNER[i]], NULL,
                            "is about %s, and machine \"%s\" lacks what that takes: say %s",
                            energy_alone ? "energy" : "owned machines", money->prices.machine,
                            money_missing_text(missing, false, text, sizeof text));
        }
    }
    if (money->rented.missing != 0 && money->owned.missing != 0) {
        uint32_t missing = money->rented.missing;
        char owned[320];
        return error_at(error, STATUS_BAD_INPUT, "--tokens, --days", NULL,
                        "machine \"%s\" cannot be priced: for renting say %s; for owning say %s", money->prices.machine,
                        money_missing_text(missing, false, text, sizeof text),
                        money_missing_text(money->owned.missing, false, owned, sizeof owned));
    }
    return STATUS_OK;
}

/* What failures leave of more GPUs; a checkpoint takes as long as on the machines given. */
static double goodput_of(void *context, uint32_t gpus)
{
    const struct failures *f = context;
    double mtbf = f->input.device_mtbf_s / gpus;
    return fmax(1e-9, failures_goodput(mtbf, f->checkpoint_s, f->restart_s, failures_daly_s(mtbf, f->checkpoint_s)));
}

/* Money of a simulated option of more replicas. */
static enum status option_money(struct money *money, const struct scale_option *option, const struct money *base,
                                double tokens_per_step, struct error *error)
{
    struct money_job job = base->job;
    if (!option->simulated) {
        return STATUS_OK;
    }
    job.gpus = option->gpus;
    job.servers = option->servers;
    job.step_s = option->step_s;
    job.goodput = option->goodput;
    job.tokens_per_step = tokens_per_step;
    return money_compute(money, &job, &base->prices, &base->terms, error);
}

static enum status compute_scale(struct run_money *m, const struct job *job, const struct failures *failing,
                                 struct error *error)
{
    const struct money_job *base = &m->money.job;
    struct failures copy;
    struct scale_need need = {
        .tokens = base->tokens, .days = base->days, .step_s = base->step_s, .tokens_per_step = base->tokens_per_step
    };
    if (failing != NULL) {
        copy = *failing;
        need.goodput = goodput_of;
        need.context = &copy;
    }
    TRY(scale_out_find(&m->scale, &job->scenario, &need, error));
    TRY(option_money(&m->grown, &m->scale.grown, &m->money, base->tokens_per_step * m->scale.grown.factor, error));
    TRY(option_money(&m->kept, &m->scale.kept, &m->money, base->tokens_per_step, error));
    m->has_scale = true;
    return STATUS_OK;
}

enum status run_money_compute(struct run_money *m, const struct job *job, const struct failures *failing,
                              const struct uncertainty *sure, struct error *error)
{
    const struct scenario *scenario = &job->scenario;
    struct money_prices prices;
    const struct money_terms terms = terms_of(m);
    if (!run_money_any(m) || !(job->result.step_time_s > 0) || !(job->result.tokens_per_s > 0)) {
        return STATUS_OK;
    }
    money_prices_of(&prices, &scenario->machine);
    override_price(&prices.system_usd, m, MONEY_LIMIT_SYSTEM_USD);
    override_price(&prices.usd_per_gpu_hour, m, MONEY_LIMIT_GPU_HOUR);
    override_price(&prices.system_w, m, MONEY_LIMIT_POWER);
    struct money_job input = { .gpus = scenario->cluster.gpus,
                               .servers = scenario->cluster.nodes,
                               .step_s = job->result.step_time_s,
                               .tokens_per_step = (double)job->schedule.tokens,
                               .goodput = failing != NULL ? failing->goodput : 1,
                               .tokens = m->values[MONEY_LIMIT_TOKENS],
                               .days = m->values[MONEY_LIMIT_DAYS] };
    TRY(money_compute(&m->money, &input, &prices, &terms, error));
    TRY(check_ways(m, error));
    if (sure != NULL) {
        input.step_s = sure->low_s;
        TRY(money_compute(&m->low, &input, &prices, &terms, error));
        input.step_s = sure->high_s;
        TRY(money_compute(&m->high, &input, &prices, &terms, error));
        m->has_interval = true;
    }
    m->has_deadline = input.tokens > 0 && input.days > 0;
    if (m->has_deadline && m->money.days > input.days && job->result.fits) {
        TRY(compute_scale(m, job, failing, error));
    }
    m->has_money = true;
    return STATUS_OK;
}

/* ---- printing ---- */

static void option_json(const char *key, const struct scale_option *option, const struct money *money,
                        struct json_writer *w)
{
    jw_object(w, key);
    jw_bool(w, "meets", option->meets);
    if (option->reason[0] != '\0') {
        jw_string(w, "reason", option->reason);
    }
    if (option->simulated) {
        jw_uint(w, "replicas_for_each", option->factor);
        jw_int(w, "data", option->data);
        jw_int(w, "global_batch", option->global_batch);
        money_json(money, w);
    }
    jw_end(w);
}

void run_money_json(const struct run_money *m, struct json_writer *w)
{
    jw_object(w, "money");
    money_json(&m->money, w);
    if (m->has_interval) {
        jw_object(w, "interval");
        uncertainty_interval_json("days", m->low.days, m->high.days, w);
        uncertainty_interval_json("tokens", m->high.tokens, m->low.tokens, w);
        if (m->money.rented.missing == 0) {
            uncertainty_interval_json("rented_usd", m->low.rented.usd, m->high.rented.usd, w);
            uncertainty_interval_json("rented_usd_per_trillion_tokens", m->low.rented.usd_per_trillion_tokens,
                                      m->high.rented.usd_per_trillion_tokens, w);
        }
        if (m->money.owned.missing == 0) {
            uncertainty_interval_json("owned_usd", m->low.owned.usd, m->high.owned.usd, w);
            uncertainty_interval_json("owned_usd_per_trillion_tokens", m->low.owned.usd_per_trillion_tokens,
                                      m->high.owned.usd_per_trillion_tokens, w);
        }
        jw_end(w);
    }
    if (m->has_deadline) {
        jw_object(w, "deadline");
        jw_real(w, "days", m->money.job.days);
        jw_bool(w, "met", m->money.days <= m->money.job.days);
        if (m->has_scale) {
            option_json("batch_grown", &m->scale.grown, &m->grown, w);
            option_json("batch_kept", &m->scale.kept, &m->kept, w);
        }
        jw_end(w);
    }
    jw_end(w);
}

/* Of all tokens where their number is fixed, else of a trillion. */
static void way_interval(const struct run_money *m, const char *name, const struct money_way *low,
                         const struct money_way *high, struct strbuf *out)
{
    bool whole = m->money.job.tokens > 0;
    char a[48], b[48];
    if (low->missing == 0) {
        strbuf_printf(out, "; %s %s to %s%s", name,
                      money_usd_text(whole ? low->usd : low->usd_per_trillion_tokens, a, sizeof a),
                      money_usd_text(whole ? high->usd : high->usd_per_trillion_tokens, b, sizeof b),
                      whole ? "" : " per trillion tokens");
    }
}

static void interval_text(const struct run_money *m, struct strbuf *out)
{
    char a[48], b[48];
    strbuf_append(out, "  5 to 95 %   ");
    if (m->money.job.tokens > 0) {
        strbuf_printf(out, "%s to %s", money_days_text(m->low.days, a, sizeof a),
                      money_days_text(m->high.days, b, sizeof b));
    } else {
        strbuf_printf(out, "%s to %s tokens", money_count_text(m->high.tokens, a, sizeof a),
                      money_count_text(m->low.tokens, b, sizeof b));
    }
    way_interval(m, "rented", &m->low.rented, &m->high.rented, out);
    way_interval(m, "owned", &m->low.owned, &m->high.owned, out);
    strbuf_append(out, " (--uncertainty: of the step time alone, prices taken as certain)\n");
}

static void way_cell(struct text_table *table, const struct money_way *way)
{
    char text[48];
    text_table_cell(table, "%s", way->missing == 0 ? money_usd_text(way->usd, text, sizeof text) : "-");
}

static void option_row(struct text_table *table, const char *name, const struct scale_option *option,
                       const struct money *money)
{
    char text[48];
    if (!option->simulated) {
        return;
    }
    text_table_cell(table, "%s", name);
    text_table_cell(table, "%lld", (long long)option->data);
    text_table_cell(table, "%u", option->gpus);
    text_table_cell(table, "%u", option->servers);
    text_table_cell(table, "%lld", (long long)option->global_batch);
    text_table_cell(table, "%.4g s", option->step_s);
    text_table_cell(table, "%s", money_days_text(option->days, text, sizeof text));
    way_cell(table, &money->rented);
    way_cell(table, &money->owned);
    text_table_cell(table, "%s", option->meets ? "yes" : "no");
}

static void scale_text(const struct run_money *m, struct strbuf *out)
{
    static const char *const HEAD[] = { "replicas", "data", "GPUs",   "servers", "global batch",
                                        "step",     "time", "rented", "owned",   "in time" };
    struct text_table table = { .column_count = sizeof HEAD / sizeof HEAD[0], .right = 0x3fe };
    char a[48];
    if (!m->has_scale) {
        strbuf_printf(out, "  In %s: %s\n", money_days_text(m->money.job.days, a, sizeof a),
                      m->money.days <= m->money.job.days ? "the machines as they are do"
                                                         : "no answer, for the step does not fit");
        return;
    }
    strbuf_printf(out, "  In %s: more data-parallel replicas, all else of the plan as it is, simulated:\n",
                  money_days_text(m->money.job.days, a, sizeof a));
    for (size_t i = 0; i < sizeof HEAD / sizeof HEAD[0]; i++) {
        text_table_cell(&table, "%s", HEAD[i]);
    }
    option_row(&table, "batch grows with them", &m->scale.grown, &m->grown);
    option_row(&table, "batch stays", &m->scale.kept, &m->kept);
    if (m->scale.grown.simulated || m->scale.kept.simulated) {
        text_table_print(&table, 4, true, out);
    }
    text_table_free(&table);
    if (m->scale.grown.reason[0] != '\0') {
        strbuf_printf(out, "    batch grows: %s\n", m->scale.grown.reason);
    }
    if (m->scale.kept.reason[0] != '\0') {
        strbuf_printf(out, "    batch stays: %s\n", m->scale.kept.reason);
    }
    if (m->scale.grown.simulated) {
        strbuf_append(out, "    A batch that grows is taken to train as well for each token; past its critical size it "
                           "does not.\n");
    }
}

void run_money_text(const struct run_money *m, struct strbuf *out)
{
    const struct money *money = &m->money;
    char a[48], b[48], c[48], d[48];
    strbuf_printf(out, "\nMoney and energy: %s tokens in %s: %s steps of %s tokens on %u GPU%s",
                  money_count_text(money->tokens, a, sizeof a), money_days_text(money->days, b, sizeof b),
                  money_count_text(money->steps, c, sizeof c),
                  money_count_text(money->job.tokens_per_step, d, sizeof d), money->job.gpus,
                  money->job.gpus == 1 ? "" : "s");
    if (money->job.goodput < 1) {
        strbuf_printf(out, ", %.2f %% of the time, failures taking the rest", 100 * money->job.goodput);
    }
    strbuf_char(out, '\n');
    money_text(money, false, out);
    if (m->has_interval) {
        interval_text(m, out);
    }
    if (m->has_deadline) {
        scale_text(m, out);
    }
}
