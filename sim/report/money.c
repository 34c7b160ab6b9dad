#include "sim/report/money.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"

static const double DAYS_PER_YEAR = 365.25, SECONDS_PER_DAY = 86400, YEARS_MAX = 1000;

struct money_terms money_terms_default(void)
{
    return (struct money_terms){
        .electricity_usd_per_kwh = NAN, .carbon_g_per_kwh = NAN, .amortise_years = 4, .utilisation = 1, .pue = 1
    };
}

double money_life_days(const struct money_terms *terms)
{
    return terms->amortise_years * DAYS_PER_YEAR * terms->utilisation;
}

struct money_range money_range_of(enum money_limit limit)
{
    static const struct money_range RANGES[] = {
#define X(name, word, least, most, unit) { least, most, unit },
        MONEY_LIMIT_TABLE(X)
#undef X
    };
    CHECK(limit < MONEY_LIMIT_COUNT);
    return RANGES[limit];
}

static struct money_price price_of(const struct machine *machine, const char *field, double value, uint32_t year)
{
    const struct machine_source *source = machine_source_of(machine, field);
    return (struct money_price){ .value = value,
                                 .year = year,
                                 .source = source != NULL ? source->source : NULL,
                                 .estimated = source != NULL && source->estimated };
}

void money_prices_of(struct money_prices *prices, const struct machine *machine)
{
    *prices = (struct money_prices){
        .machine = machine->name,
        .system_usd = price_of(machine, "price.system_usd", machine->price_usd, machine->price_year),
        .usd_per_gpu_hour =
            price_of(machine, "price.usd_per_gpu_hour", machine->usd_per_gpu_hour, machine->usd_per_gpu_hour_year),
        .system_w = price_of(machine, "power.system_W", machine->power_w, 0),
    };
}

/* Steps, tokens and days of what is wanted. */
static enum status settle_time(struct money *money, struct error *error)
{
    const struct money_job *job = &money->job;
    double step_days = job->step_s / job->goodput / SECONDS_PER_DAY;
    char a[48], b[48];
    if (!(job->tokens > 0 || job->days > 0)) {
        return error_set(error, STATUS_BAD_INPUT, "neither tokens nor days are said: nothing to cost");
    }
    money->steps = job->tokens > 0 ? ceil(job->tokens / job->tokens_per_step) : floor(job->days / step_days);
    if (money->steps < 1) {
        return error_set(error, STATUS_BAD_INPUT, "a single step takes %s: %s are too few",
                         money_days_text(step_days, a, sizeof a), money_days_text(job->days, b, sizeof b));
    }
    money->tokens = money->steps * job->tokens_per_step;
    money->days = money->steps * step_days;
    if (!(money->days <= YEARS_MAX * DAYS_PER_YEAR)) {
        return error_set(error, STATUS_BAD_INPUT,
                         "%s tokens would take %.3g years on these %u GPUs (%.4g tokens a second); more than %g years "
                         "are not costed: fewer tokens or more GPUs would do",
                         money_count_text(job->tokens, a, sizeof a), money->days / DAYS_PER_YEAR, job->gpus,
                         job->tokens_per_step / job->step_s, YEARS_MAX);
    }
    return STATUS_OK;
}

static void per_tokens(struct money_way *way, double tokens)
{
    way->usd_per_trillion_tokens = way->usd / tokens * 1e12;
}

enum status money_compute(struct money *money, const struct money_job *job, const struct money_prices *prices,
                          const struct money_terms *terms, struct error *error)
{
    CHECK(job->gpus > 0 && job->servers > 0 && job->step_s > 0 && job->tokens_per_step > 0);
    CHECK(job->goodput > 0 && job->goodput <= 1);
    CHECK(terms->amortise_years > 0 && terms->utilisation > 0 && terms->pue >= 1);
    *money = (struct money){ .prices = *prices, .terms = *terms, .job = *job, .energy_kwh = NAN, .co2_kg = NAN };
    TRY(settle_time(money, error));
    double hours = money->days * 24;
    bool has_power = prices->system_w.value > 0, has_electricity = !isnan(terms->electricity_usd_per_kwh);
    if (has_power) {
        money->energy_kwh = job->servers * prices->system_w.value / 1000 * hours * terms->pue;
        money->co2_kg = money->energy_kwh * terms->carbon_g_per_kwh / 1000; /* not a number stays one */
    }
    if (prices->usd_per_gpu_hour.value > 0) {
        money->rented.usd = job->gpus * hours * prices->usd_per_gpu_hour.value;
        per_tokens(&money->rented, money->tokens);
    } else {
        money->rented.missing = 1U << MONEY_NEEDS_GPU_HOUR;
    }
    struct money_way *owned = &money->owned;
    owned->missing = (prices->system_usd.value > 0 ? 0 : 1U << MONEY_NEEDS_SERVER) |
                     (has_power ? 0 : 1U << MONEY_NEEDS_POWER) | (has_electricity ? 0 : 1U << MONEY_NEEDS_ELECTRICITY);
    if (owned->missing == 0) {
        owned->outlay_usd = job->servers * prices->system_usd.value;
        owned->hardware_usd = owned->outlay_usd * money->days / money_life_days(terms);
        owned->electricity_usd = money->energy_kwh * terms->electricity_usd_per_kwh;
        owned->usd = owned->hardware_usd + owned->electricity_usd;
        per_tokens(owned, money->tokens);
    }
    return STATUS_OK;
}

const struct money_way *money_cheaper(const struct money *money, bool rent, bool own, const char **name)
{
    bool rented = rent && money->rented.missing == 0, owned = own && money->owned.missing == 0;
    const struct money_way *way = NULL;
    if (rented && (!owned || money->rented.usd <= money->owned.usd)) {
        way = &money->rented;
    } else if (owned) {
        way = &money->owned;
    }
    if (name != NULL) {
        *name = way == NULL ? NULL : way == &money->rented ? "rented" : "owned";
    }
    return way;
}

struct need_words {
    const char *word, *field, *flag, *key;
};

static const struct need_words *need_words(enum money_need need)
{
    static const struct need_words WORDS[] = {
#define X(name, word, field, flag, key) { word, field, flag, key },
        MONEY_NEED_TABLE(X)
#undef X
    };
    return &WORDS[need];
}

const char *money_missing_text(uint32_t missing, bool as_keys, char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    for (int i = 0; i < MONEY_NEED_COUNT; i++) {
        const struct need_words *words = need_words((enum money_need)i);
        if ((missing & 1U << i) == 0 || length >= size) {
            continue;
        }
        const char *comma = length > 0 ? ", " : "";
        int more;
        if (as_keys) {
            more = snprintf(text + length, size - length, "%s\"%s\"", comma, words->key);
        } else if (words->field != NULL) {
            more = snprintf(text + length, size - length, "%s%s of the machine (%s)", comma, words->field, words->flag);
        } else {
            more = snprintf(text + length, size - length, "%s%s", comma, words->flag);
        }
        length += (size_t)more;
    }
    return text;
}

/* ---- numbers for people ---- */

/* Of 4 significant digits: "1.234 million". False: smaller than a million. */
static bool large_text(double value, const char *unit, char *text, size_t size)
{
    static const struct {
        double scale;
        const char *word;
    } WORDS[] = { { 1e12, "trillion" }, { 1e9, "billion" }, { 1e6, "million" } };
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++) {
        if (value >= WORDS[i].scale * 0.99995) {
            (void)snprintf(text, size, "%.4g %s%s", value / WORDS[i].scale, WORDS[i].word, unit);
            return true;
        }
    }
    return false;
}

const char *money_usd_text(double usd, char *text, size_t size)
{
    if (large_text(usd, " USD", text, size)) {
        return text;
    }
    if (usd >= 999.5) {
        long whole = lround(usd);
        (void)snprintf(text, size, "%ld,%03ld USD", whole / 1000, whole % 1000);
    } else {
        (void)snprintf(text, size, usd >= 0.1 || usd <= 0 ? "%.2f USD" : "%.3g USD", usd);
    }
    return text;
}

const char *money_count_text(double count, char *text, size_t size)
{
    if (!large_text(count, "", text, size)) {
        (void)snprintf(text, size, "%.0f", count);
    }
    return text;
}

const char *money_days_text(double days, char *text, size_t size)
{
    if (days < 1.0 / 24) {
        (void)snprintf(text, size, "%.3g minutes", days * 1440);
    } else if (days < 2) {
        (void)snprintf(text, size, "%.3g hours", days * 24);
    } else if (days < 2 * DAYS_PER_YEAR) {
        (void)snprintf(text, size, "%.1f days", days);
    } else {
        (void)snprintf(text, size, "%.1f years", days / DAYS_PER_YEAR);
    }
    return text;
}

/* ---- printing ---- */

static void way_json(const struct money_way *way, const char *key, bool parts, struct json_writer *w)
{
    jw_object(w, key);
    if (way->missing == 0) {
        jw_real(w, "usd", way->usd);
        jw_real(w, "usd_per_trillion_tokens", way->usd_per_trillion_tokens);
        if (parts) {
            jw_real(w, "hardware_usd", way->hardware_usd);
            jw_real(w, "electricity_usd", way->electricity_usd);
            jw_real(w, "outlay_usd", way->outlay_usd);
        }
    } else {
        jw_null(w, "usd");
        jw_array(w, "missing");
        for (int i = 0; i < MONEY_NEED_COUNT; i++) {
            if ((way->missing & 1U << i) != 0) {
                jw_string(w, NULL, need_words((enum money_need)i)->word);
            }
        }
        jw_end(w);
    }
    jw_end(w);
}

static void price_json(const struct money_price *price, const char *key, struct json_writer *w)
{
    jw_object(w, key);
    if (price->value > 0) {
        jw_real(w, "value", price->value);
        jw_string(w, "source", price->source);
        jw_bool(w, "estimated", price->estimated);
        if (price->year > 0) {
            jw_uint(w, "year", price->year);
        } else {
            jw_null(w, "year");
        }
    } else {
        jw_null(w, "value");
    }
    jw_end(w);
}

static void real_or_null(const char *key, double value, struct json_writer *w)
{
    if (isnan(value)) {
        jw_null(w, key);
    } else {
        jw_real(w, key, value);
    }
}

void money_json(const struct money *m, struct json_writer *w)
{
    jw_real(w, "tokens", m->tokens);
    jw_real(w, "steps", m->steps);
    jw_real(w, "days", m->days);
    jw_uint(w, "gpus", m->job.gpus);
    jw_uint(w, "servers", m->job.servers);
    jw_real(w, "step_time_s", m->job.step_s);
    jw_real(w, "goodput", m->job.goodput);
    real_or_null("energy_kwh", m->energy_kwh, w);
    real_or_null("co2_kg", m->co2_kg, w);
    way_json(&m->rented, "rented", false, w);
    way_json(&m->owned, "owned", true, w);
    jw_object(w, "prices");
    price_json(&m->prices.system_usd, "system_usd", w);
    price_json(&m->prices.usd_per_gpu_hour, "usd_per_gpu_hour", w);
    price_json(&m->prices.system_w, "system_W", w);
    jw_end(w);
    jw_object(w, "terms");
    real_or_null("electricity_usd_per_kwh", m->terms.electricity_usd_per_kwh, w);
    real_or_null("carbon_g_per_kwh", m->terms.carbon_g_per_kwh, w);
    jw_real(w, "amortise_years", m->terms.amortise_years);
    jw_real(w, "utilisation", m->terms.utilisation);
    jw_real(w, "pue", m->terms.pue);
    jw_end(w);
}

/* " (2023, SemiAnalysis ...)" */
static void append_origin(const struct money_price *price, struct strbuf *out)
{
    strbuf_append(out, " (");
    if (price->year > 0) {
        strbuf_printf(out, "%u, ", price->year);
    }
    strbuf_printf(out, "%s%s)", price->source != NULL ? price->source : "no source",
                  price->estimated ? ": an estimate" : "");
}

static void energy_text(const struct money *m, bool as_keys, struct strbuf *out)
{
    char a[160];
    if (isnan(m->energy_kwh)) {
        strbuf_printf(out, "  energy      not known: say %s\n",
                      money_missing_text(1U << MONEY_NEEDS_POWER, as_keys, a, sizeof a));
        return;
    }
    strbuf_printf(out, "  energy      %.4g MWh: %u server%s at %g W", m->energy_kwh / 1000, m->job.servers,
                  m->job.servers == 1 ? "" : "s", m->prices.system_w.value);
    append_origin(&m->prices.system_w, out);
    strbuf_printf(out, ", PUE %g\n", m->terms.pue);
    if (!isnan(m->co2_kg)) {
        strbuf_printf(out, "  CO2         %.4g t at %g g/kWh\n", m->co2_kg / 1000, m->terms.carbon_g_per_kwh);
    }
}

void money_text(const struct money *m, bool as_keys, struct strbuf *out)
{
    char a[320], b[48], c[48];
    strbuf_append(out, "  rented      ");
    if (m->rented.missing == 0) {
        strbuf_printf(out, "%s, %s per trillion tokens: %g USD a GPU-hour", money_usd_text(m->rented.usd, a, sizeof a),
                      money_usd_text(m->rented.usd_per_trillion_tokens, b, sizeof b), m->prices.usd_per_gpu_hour.value);
        append_origin(&m->prices.usd_per_gpu_hour, out);
        strbuf_char(out, '\n');
    } else {
        strbuf_printf(out, "not known: say %s\n", money_missing_text(m->rented.missing, as_keys, a, sizeof a));
    }
    strbuf_append(out, "  owned       ");
    if (m->owned.missing == 0) {
        strbuf_printf(out, "%s, %s per trillion tokens: hardware %s", money_usd_text(m->owned.usd, a, sizeof a),
                      money_usd_text(m->owned.usd_per_trillion_tokens, b, sizeof b),
                      money_usd_text(m->owned.hardware_usd, c, sizeof c));
        strbuf_printf(out, ", electricity %s at %g USD/kWh\n", money_usd_text(m->owned.electricity_usd, a, sizeof a),
                      m->terms.electricity_usd_per_kwh);
        strbuf_printf(out, "              a server %s", money_usd_text(m->prices.system_usd.value, a, sizeof a));
        append_origin(&m->prices.system_usd, out);
        strbuf_printf(out, ", worth nothing after %g years, busy %g %% of them; to buy the servers, at once: %s\n",
                      m->terms.amortise_years, 100 * m->terms.utilisation,
                      money_usd_text(m->owned.outlay_usd, a, sizeof a));
    } else {
        strbuf_printf(out, "not known: say %s\n", money_missing_text(m->owned.missing, as_keys, a, sizeof a));
    }
    energy_text(m, as_keys, out);
}
