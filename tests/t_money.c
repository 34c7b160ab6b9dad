/* Money and energy by hand; what is missing; and how many replicas a deadline takes, against trying them all. */
#include "sim/report/money.h"
#include "sim/report/scale_out.h"
#include "sim/report/sensitivity_trial.h"
#include "tests/test.h"

static const struct money_prices PRICES = { .machine = "m",
                                            .system_usd = { .value = 365250, .year = 2024, .source = "a list" },
                                            .usd_per_gpu_hour = { .value = 3, .source = "a cloud", .estimated = true },
                                            .system_w = { .value = 5000 } };

static struct money_terms terms(void)
{
    return (struct money_terms){
        .electricity_usd_per_kwh = 0.1, .carbon_g_per_kwh = 400, .amortise_years = 4, .utilisation = 0.5, .pue = 1.5
    };
}

static struct money_job job(double tokens, double days)
{
    return (struct money_job){
        .gpus = 16, .servers = 2, .step_s = 2, .tokens_per_step = 1e6, .goodput = 1, .tokens = tokens, .days = days
    };
}

static void test_by_hand(void)
{
    struct money m;
    struct error error = { 0 };
    const struct money_job input = job(1e9 + 1, 0);
    const struct money_terms t = terms();
    EXPECT_INT(money_compute(&m, &input, &PRICES, &t, &error), STATUS_OK);
    EXPECT_REAL(m.steps, 1001, 0);
    EXPECT_REAL(m.tokens, 1.001e9, 0);
    EXPECT_REAL(m.days * 86400, 2002, 1e-12);
    /* 16 GPUs, 2002 s, 3 USD an hour */
    EXPECT_REAL(m.rented.usd, 16 * 2002 * 3 / 3600.0, 1e-12);
    EXPECT_REAL(m.rented.usd_per_trillion_tokens, 16 * 2002 * 3 / 3600.0 * 1000 / 1.001, 1e-12);
    /* 2 servers of 5 kW, half as much again for the building */
    EXPECT_REAL(m.energy_kwh, 15 * 2002 / 3600.0, 1e-12);
    EXPECT_REAL(m.co2_kg, m.energy_kwh * 0.4, 1e-12);
    /* 365250 USD over 2 busy years of 365.25 days: 500 USD a day and server */
    EXPECT_REAL(m.owned.hardware_usd, 1000 * 2002 / 86400.0, 1e-12);
    EXPECT_REAL(m.owned.electricity_usd, 1.5 * 2002 / 3600.0, 1e-12);
    EXPECT_REAL(m.owned.usd, m.owned.hardware_usd + m.owned.electricity_usd, 1e-15);
    const char *name;
    EXPECT(money_cheaper(&m, true, true, &name) == &m.owned);
    EXPECT(money_cheaper(&m, true, false, NULL) == &m.rented && money_cheaper(&m, false, false, &name) == NULL);
    EXPECT(name == NULL && money_cheaper(&m, false, true, &name) == &m.owned);
    EXPECT_TEXT(name, "owned");
}

static void test_days_and_goodput(void)
{
    struct money m, half;
    struct error error = { 0 };
    const struct money_terms t = terms();
    struct money_job input = job(0, 1); /* 43200 steps of 2 s */
    EXPECT_INT(money_compute(&m, &input, &PRICES, &t, &error), STATUS_OK);
    EXPECT_REAL(m.steps, 43200, 0);
    EXPECT_REAL(m.days, 1, 1e-12);
    input.goodput = 0.5;
    EXPECT_INT(money_compute(&half, &input, &PRICES, &t, &error), STATUS_OK);
    EXPECT_REAL(half.steps, 21600, 0);
    EXPECT_REAL(half.rented.usd, m.rented.usd, 1e-12);
    EXPECT_REAL(half.rented.usd_per_trillion_tokens, 2 * m.rented.usd_per_trillion_tokens, 1e-12);
    /* Both said: tokens are the work, days a deadline that others look at. */
    input = job(1e9, 1e-3);
    EXPECT_INT(money_compute(&m, &input, &PRICES, &t, &error), STATUS_OK);
    EXPECT_REAL(m.steps, 1000, 0);
}

static void test_missing(void)
{
    struct money m;
    struct error error = { 0 };
    struct money_prices none = { .machine = "m" }, rent = none;
    const struct money_terms t = money_terms_default();
    const struct money_job input = job(1e9, 0);
    char text[320];
    rent.usd_per_gpu_hour.value = 1;
    EXPECT_INT(money_compute(&m, &input, &none, &t, &error), STATUS_OK);
    EXPECT_INT(m.rented.missing, 1u << MONEY_NEEDS_GPU_HOUR);
    EXPECT(money_cheaper(&m, true, true, NULL) == NULL && isnan(m.energy_kwh) && isnan(m.co2_kg));
    EXPECT_TEXT(
        money_missing_text(m.owned.missing, false, text, sizeof text),
        "price.system_usd of the machine (--price-usd), power.system_W of the machine (--power-w), --electricity");
    EXPECT_TEXT(money_missing_text(m.owned.missing, true, text, sizeof text),
                "\"system_usd\", \"system_W\", \"electricity_usd_per_kwh\"");
    EXPECT_INT(money_compute(&m, &input, &rent, &t, &error), STATUS_OK);
    EXPECT(money_cheaper(&m, true, true, NULL) == &m.rented && m.owned.missing != 0);
}

static void test_refused(void)
{
    struct money m;
    struct error error = { 0 };
    const struct money_terms t = terms();
    struct money_job input = job(0, 0);
    EXPECT_INT(money_compute(&m, &input, &PRICES, &t, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "neither tokens nor days");
    input = job(0, 1e-5); /* 0.864 s */
    EXPECT_INT(money_compute(&m, &input, &PRICES, &t, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "a single step takes");
    input = job(1e18, 0); /* 1e12 steps of 2 s: 63,376 years */
    EXPECT_INT(money_compute(&m, &input, &PRICES, &t, &error), STATUS_BAD_INPUT);
    EXPECT_PART(error.message, "6.34e+04 years");
}

static void test_texts(void)
{
    char text[48];
    EXPECT_TEXT(money_usd_text(0.0123, text, sizeof text), "0.0123 USD");
    EXPECT_TEXT(money_usd_text(12.345, text, sizeof text), "12.35 USD");
    EXPECT_TEXT(money_usd_text(1005, text, sizeof text), "1,005 USD");
    EXPECT_TEXT(money_usd_text(999999, text, sizeof text), "1 million USD");
    EXPECT_TEXT(money_usd_text(1.2345e9, text, sizeof text), "1.234 billion USD");
    EXPECT_TEXT(money_count_text(3e11, text, sizeof text), "300 billion");
    EXPECT_TEXT(money_days_text(0.5, text, sizeof text), "12 hours");
    EXPECT_TEXT(money_days_text(34.23, text, sizeof text), "34.2 days");
    EXPECT_TEXT(money_days_text(1461, text, sizeof text), "4.0 years");
}

/* The machine's own prices come with year and source; a change of one forgets the year of the old. */
static void test_prices_of_machines(void)
{
    static const char changed[] = "{\"base\":\"dgx-h100\",\"price\":{\"system_usd\":300000}}";
    struct machine machine;
    struct money_prices prices;
    struct error error = { 0 };
    struct json_document *document;
    struct json root;
    EXPECT_INT(machine_load(&machine, "dgx-h100", &error), STATUS_OK);
    money_prices_of(&prices, &machine);
    EXPECT_REAL(prices.system_usd.value, 270000, 0);
    EXPECT_INT(prices.system_usd.year, 2023);
    EXPECT_PART(prices.system_usd.source, "SemiAnalysis");
    EXPECT(!prices.system_usd.estimated);
    EXPECT_PART(prices.system_w.source, "10.2 kW");
    machine_free(&machine);
    EXPECT_INT(json_parse(&document, changed, strlen(changed), "mine.json", &error), STATUS_OK);
    json_root(document, &root);
    EXPECT_INT(machine_from_json(&machine, &root, &error), STATUS_OK);
    money_prices_of(&prices, &machine);
    EXPECT_REAL(prices.system_usd.value, 300000, 0);
    EXPECT_INT(prices.system_usd.year, 0);
    EXPECT_PART(prices.system_usd.source, "mine.json");
    EXPECT_INT(prices.usd_per_gpu_hour.year, 2026);
    machine_free(&machine);
    json_free(document);
}

/* ---- replicas ---- */

static const char SMALL[] = "{\"model\":{\"family\":\"gpt\",\"layers\":4,\"hidden\":1024,\"heads\":16,\"ffn\":4096,"
                            "\"vocab\":50257,\"max_sequence\":512},\"machine\":\"dgx-a100-80gb\",\"gpus\":2,"
                            "\"parallel\":{\"tensor\":2},\"training\":{\"global_batch\":12,\"micro_batch\":1}}";

/* Days with `factor` times the replicas, from a scenario that says so itself. */
static double days_by_scenario(uint32_t factor, bool grow, const struct scale_need *need)
{
    char gpus[32], nodes[32], batch[48];
    snprintf(gpus, sizeof gpus, "gpus=%u", 2 * factor);
    snprintf(nodes, sizeof nodes, "nodes=%u", (2 * factor + 7) / 8);
    snprintf(batch, sizeof batch, "training.global_batch=%u", grow ? 12 * factor : 12);
    const char *const sets[] = { gpus, nodes, batch };
    struct scenario scenario;
    struct trial_result result;
    struct error error = { 0 };
    EXPECT_INT(scenario_parse(&scenario, SMALL, "test", sets, 3, &error), STATUS_OK);
    EXPECT_INT(trial_run(&result, &scenario, &scenario.machine, &scenario.software, &error), STATUS_OK);
    scenario_free(&scenario);
    return result.ran ? ceil(need->tokens / (need->tokens_per_step * (grow ? factor : 1))) * (double)result.step_ps *
                            1e-12 / 86400
                      : INFINITY;
}

static void test_scale_out(void)
{
    struct scenario scenario;
    struct trial_result one;
    struct scale_out out;
    struct error error = { 0 };
    EXPECT_INT(scenario_parse(&scenario, SMALL, "test", NULL, 0, &error), STATUS_OK);
    EXPECT_INT(trial_run(&one, &scenario, &scenario.machine, &scenario.software, &error), STATUS_OK);
    struct scale_need need = { .tokens = 1e9, .step_s = (double)one.step_ps * 1e-12, .tokens_per_step = 12 * 512 };
    double alone = days_by_scenario(1, true, &need);
    static const double SHARES[] = { 1.5, 2.55, 4.3, 7.3, 12.5 };
    for (size_t i = 0; i < sizeof SHARES / sizeof SHARES[0]; i++) {
        double share = SHARES[i];
        need.days = alone / share;
        EXPECT_INT(scale_out_find(&out, &scenario, &need, &error), STATUS_OK);
        uint32_t grown = 1, kept = 1;
        while (grown < 200 && days_by_scenario(grown, true, &need) > need.days) {
            grown++;
        }
        while (kept <= 12 && (12 % kept != 0 || days_by_scenario(kept, false, &need) > need.days)) {
            kept++;
        }
        printf("deadline 1/%.3g: grown %u replicas (%u by trying), kept %u (%u), days %.5g of %.5g\n", share,
               out.grown.factor, grown, out.kept.factor, kept, out.grown.days, need.days);
        EXPECT(out.grown.meets);
        EXPECT_INT(out.grown.factor, grown);
        EXPECT_INT(out.grown.global_batch, 12 * grown);
        EXPECT_REAL(out.grown.days, days_by_scenario(grown, true, &need), 1e-12);
        EXPECT_INT(out.kept.meets, kept <= 12);
        EXPECT_INT(out.kept.global_batch, 12);
        if (kept <= 12) {
            EXPECT_INT(out.kept.factor, kept);
            EXPECT_REAL(out.kept.days, days_by_scenario(kept, false, &need), 1e-12);
        } else {
            EXPECT_PART(out.kept.reason, "feeds at most 12 replicas");
        }
    }
    need.days = alone / 1e6;
    EXPECT_INT(scale_out_find(&out, &scenario, &need, &error), STATUS_OK);
    EXPECT(!out.grown.meets);
    EXPECT_PART(out.grown.reason, "up to 65536 are simulated");
    scenario_free(&scenario);
}

static double half(void *context, uint32_t gpus)
{
    (void)context;
    return gpus > 2 ? 0.5 : 1;
}

/* An order that wants whole rounds of micro-batches: the fastest that it allows is said, and why it ends there. */
static void test_scale_refused(void)
{
    static const char *const sets[] = { "gpus=2", "parallel.tensor=1", "parallel.pipeline=2",
                                        "parallel.pipeline_order=interleaved", "parallel.virtual_stages=2" };
    struct scenario scenario;
    struct scale_out out;
    struct error error = { 0 };
    EXPECT_INT(scenario_parse(&scenario, SMALL, "test", sets, 5, &error), STATUS_OK);
    struct scale_need need = { .tokens = 1e9, .step_s = 1, .tokens_per_step = 12 * 512, .days = 0.001 };
    EXPECT_INT(scale_out_find(&out, &scenario, &need, &error), STATUS_OK);
    EXPECT(out.kept.simulated && !out.kept.meets);
    EXPECT_INT(out.kept.factor, 6); /* two micro-batches each; with 12 there would be one */
    EXPECT_PART(out.kept.reason, "24 GPUs: 1 micro-batches in 2 stages");
    EXPECT_PART(out.kept.reason, "; the fastest that runs has 12 GPUs");
    need.days = 1e6; /* nothing is refused on the way to where it is met */
    EXPECT_INT(scale_out_find(&out, &scenario, &need, &error), STATUS_OK);
    EXPECT(out.kept.meets);
    EXPECT_TEXT(out.kept.reason, "");
    scenario_free(&scenario);
}

/* Every number of replicas that does not run is named. */
static void test_scale_all_refused(void)
{
    static const char *const sets[] = { "gpus=4",
                                        "parallel.tensor=1",
                                        "parallel.pipeline=4",
                                        "parallel.pipeline_order=interleaved",
                                        "parallel.virtual_stages=2",
                                        "training.global_batch=16",
                                        "model.layers=8" };
    struct scenario scenario;
    struct scale_out out;
    struct error error = { 0 };
    EXPECT_INT(scenario_parse(&scenario, SMALL, "test", sets, 7, &error), STATUS_OK);
    const struct scale_need need = { .tokens = 1e9, .step_s = 1, .tokens_per_step = 16 * 512, .days = 0.001 };
    EXPECT_INT(scale_out_find(&out, &scenario, &need, &error), STATUS_OK);
    EXPECT_INT(out.kept.factor, 4); /* 16 micro-batches in rounds of 4 stages; 8 and 16 replicas leave 2 and 1 */
    EXPECT_PART(out.kept.reason, "64 GPUs: 1 micro-batches in 4 stages");
    EXPECT_PART(out.kept.reason, "; nor do these numbers of GPUs run: 32; the fastest that runs has 16 GPUs");
    scenario_free(&scenario);
}

/* Of many that do not run some are named whole, the others counted. */
static void test_scale_many_refused(void)
{
    static const char *const sets[] = { "gpus=2",
                                        "parallel.tensor=1",
                                        "parallel.pipeline=2",
                                        "parallel.pipeline_order=interleaved",
                                        "parallel.virtual_stages=2",
                                        "training.global_batch=20790" };
    struct scenario scenario;
    struct scale_out out;
    struct error error = { 0 };
    EXPECT_INT(scenario_parse(&scenario, SMALL, "test", sets, 6, &error), STATUS_OK);
    /* As if 100 replicas were enough, and they are not: of the divisors from there on, those that leave odd micro-batches are refused. */
    const struct scale_need need = {
        .tokens = 20790 * 512, .step_s = 0.1, .tokens_per_step = 20790 * 512, .days = 0.001 / 86400
    };
    EXPECT_INT(scale_out_find(&out, &scenario, &need, &error), STATUS_OK);
    uint32_t refused = 0, named = 0;
    for (uint32_t factor = 100; factor <= 20790; factor++) {
        refused += 20790 % factor == 0 && 20790 / factor % 2 == 1;
    }
    char more[64];
    snprintf(more, sizeof more, " and %u more; the fastest that runs has", refused - 13);
    printf("%u refused: %s\n", refused, out.kept.reason);
    EXPECT_PART(out.kept.reason, more);
    const char *list = strstr(out.kept.reason, "GPUs run: ");
    EXPECT(list != NULL);
    for (const char *c = list != NULL ? list + 10 : ""; *c != '\0' && *c != ';'; named++) {
        char *end;
        unsigned long gpus = strtoul(c, &end, 10);
        EXPECT(end > c && 2 * 20790 % gpus == 0);
        c = strncmp(end, ", ", 2) == 0 ? end + 2 : strchr(end, ';');
    }
    EXPECT_INT(named, 12);
    scenario_free(&scenario);
}

/* Failures of more GPUs count. */
static void test_scale_goodput(void)
{
    struct scenario scenario;
    struct scale_out out;
    struct error error = { 0 };
    EXPECT_INT(scenario_parse(&scenario, SMALL, "test", NULL, 0, &error), STATUS_OK);
    struct scale_need need = { .tokens = 1e9, .step_s = 1, .tokens_per_step = 12 * 512, .days = 1, .goodput = half };
    EXPECT_INT(scale_out_find(&out, &scenario, &need, &error), STATUS_OK);
    EXPECT(out.grown.simulated);
    EXPECT_REAL(out.grown.days, 2 * days_by_scenario(out.grown.factor, true, &need), 1e-12);
    scenario_free(&scenario);
}

TEST_MAIN(TEST(test_by_hand), TEST(test_days_and_goodput), TEST(test_missing), TEST(test_refused), TEST(test_texts),
          TEST(test_prices_of_machines), TEST(test_scale_out), TEST(test_scale_refused), TEST(test_scale_all_refused),
          TEST(test_scale_many_refused), TEST(test_scale_goodput))
