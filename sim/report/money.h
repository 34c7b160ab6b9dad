/* Money and energy: what it costs to train so many tokens when a step takes so long, rented and owned side by side.
 *
 *     steps        = ceil(tokens / tokens of a step)          with days alone: as many whole steps as end in them
 *     days         = steps * step time / goodput
 *     rented USD   = GPUs in use * hours * USD a GPU-hour
 *     energy kWh   = servers * W of a server / 1000 * hours * PUE
 *     owned USD    = servers * price * days / (years * 365.25 * utilisation) + energy * USD a kWh
 *     CO2 kg       = energy * g/kWh / 1000
 *     USD per trillion tokens = USD / (steps * tokens of a step) * 1e12
 *
 * Rules of ours: servers are bought and powered whole, GPUs are rented one by one; a server draws what its machine file gives as the most that it draws (the training load is not lower than that
 * by any rule we could cite: give the measured power where there is one); a rented hour has its electricity in it; an owned server is worth nothing after `amortise_years`, and is busy for
 * `utilisation` of them, so that every job bears its share of the idle time. Buildings, people, network and storage outside the servers are not in it.
 *
 * A price that is not known makes a way of paying unknown, never free: `missing` says what is wanted. */
#ifndef MEMWALL_REPORT_MONEY_H
#define MEMWALL_REPORT_MONEY_H

#include <stdbool.h>
#include <stdint.h>

#include "hw_models/machine.h"
#include "sim/base/json_write.h"
#include "sim/base/status.h"

/* name, JSON word; field of a machine file, or NULL; flag of `memwall run`; key of a question of `memwall buy` */
#define MONEY_NEED_TABLE(X)                                                                                            \
    X(MONEY_NEEDS_GPU_HOUR, "usd_per_gpu_hour", "price.usd_per_gpu_hour", "--gpu-hour-usd", "usd_per_gpu_hour")        \
    X(MONEY_NEEDS_SERVER, "system_usd", "price.system_usd", "--price-usd", "system_usd")                               \
    X(MONEY_NEEDS_POWER, "system_W", "power.system_W", "--power-w", "system_W")                                        \
    X(MONEY_NEEDS_ELECTRICITY, "electricity_usd_per_kwh", NULL, "--electricity", "electricity_usd_per_kwh")

enum money_need {
#define X(name, word, field, flag, key) name,
    MONEY_NEED_TABLE(X)
#undef X
        MONEY_NEED_COUNT
};

/* One price or power, and how far to trust it. */
struct money_price {
    double value;       /* 0: not known */
    uint32_t year;      /* that it held in; 0: not known */
    const char *source; /* borrowed from the machine, or static; NULL: none said */
    bool estimated;     /* recalled or by analogy */
};

struct money_prices {
    const char *machine;                                       /* its name, borrowed */
    struct money_price system_usd, usd_per_gpu_hour, system_w; /* of one server; of one GPU; W */
};

/* What a machine does not say. */
struct money_terms {
    double electricity_usd_per_kwh;          /* NAN: not said */
    double carbon_g_per_kwh;                 /* NAN: not said */
    double amortise_years, utilisation, pue; /* > 0; 0 .. 1; >= 1 */
};
/* Four years, always busy, PUE 1 (the servers alone): our rule, shown with every answer. Electricity and carbon: not said. */
struct money_terms money_terms_default(void);
/* The days of its life that an owned server works: what its price is spread over. */
double money_life_days(const struct money_terms *terms);

/* name, JSON word, least, most, unit: what is taken from people */
#define MONEY_LIMIT_TABLE(X)                                                                                           \
    X(MONEY_LIMIT_TOKENS, "tokens", 1, 1e18, "tokens")                                                                 \
    X(MONEY_LIMIT_DAYS, "days", 1e-3, 36525, "days")                                                                   \
    X(MONEY_LIMIT_ELECTRICITY, "electricity", 0, 100, "USD per kWh")                                                   \
    X(MONEY_LIMIT_CARBON, "carbon", 0, 5000, "g of CO2 per kWh")                                                       \
    X(MONEY_LIMIT_YEARS, "amortise", 0.1, 50, "years")                                                                 \
    X(MONEY_LIMIT_UTILISATION, "utilisation", 0.01, 1, "of an owned server's life")                                    \
    X(MONEY_LIMIT_PUE, "pue", 1, 5, "W drawn by the building per W of servers")                                        \
    X(MONEY_LIMIT_SYSTEM_USD, "system_usd", 1e-2, 1e12, "USD a server")                                                \
    X(MONEY_LIMIT_GPU_HOUR, "usd_per_gpu_hour", 1e-6, 1e6, "USD a GPU-hour")                                           \
    X(MONEY_LIMIT_POWER, "system_W", 1, 1e9, "W a server")

enum money_limit {
#define X(name, word, least, most, unit) name,
    MONEY_LIMIT_TABLE(X)
#undef X
        MONEY_LIMIT_COUNT
};
struct money_range {
    double least, most;
    const char *unit;
};
struct money_range money_range_of(enum money_limit limit);

struct money_job {
    uint32_t gpus, servers;
    double step_s, tokens_per_step;
    double goodput;      /* share of the time that makes steps: 1, or what failures leave */
    double tokens, days; /* wanted; 0: not said. With tokens the days follow; days alone: the tokens follow */
};

struct money_way {
    uint32_t missing;                     /* bits of enum money_need; the figures hold when it is 0 */
    double usd, usd_per_trillion_tokens;  /* all of it */
    double hardware_usd, electricity_usd; /* of owned ways */
    double outlay_usd;                    /* of owned ways: the whole price of the servers, which who buys pays first */
};

struct money {
    struct money_prices prices;
    struct money_terms terms;
    struct money_job job;
    double steps, tokens, days; /* done: whole steps */
    double energy_kwh, co2_kg;  /* NAN: not known */
    struct money_way rented, owned;
};

/* With the machine's own prices; texts are borrowed from it. */
void money_prices_of(struct money_prices *prices, const struct machine *machine);
/* STATUS_BAD_INPUT: neither tokens nor days; fewer days than a step takes; more than a thousand years. What prices are missing is a result. */
enum status money_compute(struct money *money, const struct money_job *job, const struct money_prices *prices,
                          const struct money_terms *terms, struct error *error);
/* The cheaper of the ways that are known and allowed (`rent`, `own`); NULL: none. `name` (may be NULL) gets "rented" or "owned". */
const struct money_way *money_cheaper(const struct money *money, bool rent, bool own, const char **name);

/* "price.system_usd of the machine (--price-usd), --electricity" in `text`: what supplies what is missing. `as_keys`: by keys of a question instead. */
const char *money_missing_text(uint32_t missing, bool as_keys, char *text, size_t size);
/* Members of the open object: figures, ways, prices with year and source, terms. */
void money_json(const struct money *money, struct json_writer *w);
/* Lines for people, without a heading; `as_keys` as above. */
void money_text(const struct money *money, bool as_keys, struct strbuf *out);

/* "12,345 USD", "1.234 million USD"; "300 billion"; "3.2 h", "34.2 days", "12.1 years". Return `text`. */
const char *money_usd_text(double usd, char *text, size_t size);
const char *money_count_text(double count, char *text, size_t size);
const char *money_days_text(double days, char *text, size_t size);

#endif
