/* Max-min solves: 256 flows, three of 64 links each, wholly re-solved (every capacity changes), against textbook
 * progressive filling on compressed rows; then what an event costs: one flow leaves and one comes, with and without
 * crowding. */
#include <math.h>

#include "sim/base/check.h"
#include "sim/core/maxmin.h"
#include "tests/bench/bench.h"

enum { LINKS = 64, FLOWS = 256, USES = 3, SOLVES = 2000 };

static struct maxmin_use uses[FLOWS][USES];
static double caps[FLOWS], rates[FLOWS];

/* All levels rise together; each round looks at all links and flows. */
static void plain_solve(double capacity)
{
    double left[LINKS], weight[LINKS] = { 0 }, level = 0;
    char active[FLOWS];
    int count = FLOWS;
    for (int l = 0; l < LINKS; l++) {
        left[l] = capacity;
    }
    for (int f = 0; f < FLOWS; f++) {
        active[f] = 1;
        for (int u = 0; u < USES; u++) {
            weight[uses[f][u].resource] += uses[f][u].coefficient;
        }
    }
    while (count > 0) {
        double step = INFINITY;
        for (int l = 0; l < LINKS; l++) {
            if (weight[l] > 1e-9) {
                step = fmin(step, left[l] / weight[l]);
            }
        }
        for (int f = 0; f < FLOWS; f++) {
            if (active[f]) {
                step = fmin(step, caps[f] - level);
            }
        }
        level += step;
        for (int l = 0; l < LINKS; l++) {
            left[l] -= step * weight[l];
        }
        for (int f = 0; f < FLOWS; f++) {
            int stops = active[f] && caps[f] - level <= 1e-12;
            for (int u = 0; u < USES && active[f] && !stops; u++) {
                stops = left[uses[f][u].resource] <= 1e-12 * capacity;
            }
            if (stops) {
                active[f] = 0;
                rates[f] = level;
                count--;
                for (int u = 0; u < USES; u++) {
                    weight[uses[f][u].resource] -= uses[f][u].coefficient;
                }
            }
        }
    }
}

static double bench_solves(struct maxmin *solver)
{
    double start_s = bench_now_s();
    for (int i = 0; i < SOLVES; i++) {
        double capacity = i % 2 == 0 ? 1.0 : 2.0;
        for (uint32_t l = 0; l < LINKS; l++) {
            maxmin_set_capacity(solver, l, capacity);
        }
        (void)maxmin_solve(solver);
    }
    return (bench_now_s() - start_s) / SOLVES * 1e6;
}

static double bench_plain(void)
{
    double start_s = bench_now_s();
    for (int i = 0; i < SOLVES / 10; i++) {
        plain_solve(i % 2 == 0 ? 1.0 : 2.0);
    }
    return (bench_now_s() - start_s) / (SOLVES / 10) * 1e6;
}

static double bench_churn(struct maxmin *solver, uint32_t *ids)
{
    double start_s = bench_now_s();
    for (int i = 0; i < SOLVES; i++) {
        int f = i * 7 % FLOWS;
        maxmin_remove(solver, ids[f]);
        (void)maxmin_solve(solver);
        ids[f] = maxmin_add(solver, 1.0, caps[f], uses[f], USES);
        (void)maxmin_solve(solver);
    }
    return (bench_now_s() - start_s) / (2.0 * SOLVES) * 1e6;
}

/* `some_caps`: every fourth flow gets one that binds. */
static void fill(struct maxmin *solver, struct arena *arena, uint32_t *ids, double cap, bool some_caps,
                 uint64_t *random)
{
    struct maxmin_limits limits = { LINKS, FLOWS, FLOWS * USES };
    CHECK(maxmin_init(solver, arena, &limits, NULL) == STATUS_OK);
    for (uint32_t l = 0; l < LINKS; l++) {
        maxmin_add_resource(solver, 1.0);
    }
    for (int f = 0; f < FLOWS; f++) {
        caps[f] = cap;
        for (int u = 0; u < USES; u++) {
            do {
                uses[f][u].resource = (uint32_t)(bench_random(random) % LINKS);
            } while ((u > 0 && uses[f][u].resource == uses[f][u - 1].resource) ||
                     (u > 1 && uses[f][u].resource == uses[f][0].resource));
            uses[f][u].coefficient = 0.5 + bench_unit(random);
        }
        if (f % 4 == 0 && some_caps) {
            caps[f] = 0.02 + 0.1 * bench_unit(random);
        }
        ids[f] = maxmin_add(solver, 1.0, caps[f], uses[f], USES);
    }
    (void)maxmin_solve(solver);
}

/* The whole system anew, against the textbook, with equal results. Returns the median microseconds. */
static double compare(const char *name, bool some_caps, uint64_t *random)
{
    struct arena arena = { 0 };
    struct maxmin solver;
    uint32_t ids[FLOWS];
    double fast[BENCH_ROUNDS], slow[BENCH_ROUNDS], ratio[BENCH_ROUNDS], churn[BENCH_ROUNDS];
    fill(&solver, &arena, ids, INFINITY, some_caps, random);
    for (int r = 0; r < BENCH_ROUNDS; r++) {
        fast[r] = bench_solves(&solver);
        slow[r] = bench_plain();
        ratio[r] = slow[r] / fast[r];
        churn[r] = bench_churn(&solver, ids);
    }
    plain_solve(2.0); /* what bench_solves left */
    for (int f = 0; f < FLOWS; f++) {
        CHECK(fabs(maxmin_rate(&solver, ids[f]) - rates[f]) <= 1e-8 * rates[f]);
    }
    double median_us = bench_median(fast, BENCH_ROUNDS);
    printf("256 flows x 3 of 64 links, %s: whole re-solve %.1f us, textbook %.1f us, ratio %.1f; one leaves or comes "
           "%.1f us\n",
           name, median_us, bench_median(slow, BENCH_ROUNDS), bench_median(ratio, BENCH_ROUNDS),
           bench_median(churn, BENCH_ROUNDS));
    arena_free(&arena);
    return median_us;
}

int main(void)
{
    struct arena arena = { 0 };
    struct maxmin roomy;
    uint32_t ids[FLOWS];
    uint64_t random = 1;
    double easy[BENCH_ROUNDS];
    bench_header("b_core_maxmin");
    double median_us = compare("no caps", false, &random);
    printf("target 10 us: %s\n", median_us <= 10.0 ? "met" : "missed");
    (void)compare("a quarter capped", true, &random);
    fill(&roomy, &arena, ids, 1e-3, false, &random);
    for (int r = 0; r < BENCH_ROUNDS; r++) {
        easy[r] = bench_churn(&roomy, ids);
    }
    printf("one flow leaves or comes without crowding anybody: %.3f us\n", bench_median(easy, BENCH_ROUNDS));
    arena_free(&arena);
    return 0;
}
