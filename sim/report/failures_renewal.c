/* The renewal process behind failures.h, one failure after the other. */
#include <math.h>
#include <stdbool.h>

#include "sim/base/check.h"
#include "sim/base/splitmix.h"
#include "sim/report/failures.h"

/* Uniform numbers that come in blocks of BLOCK: one of each BLOCK-th part of [0, 1), in random order. Their counts below any bound vary far less than those of independent ones, and so do the
 * times made of them. */
enum { BLOCK = 1024 };
struct luck {
    uint64_t state;
    uint32_t order[BLOCK], left;
};

static double next_time(struct luck *luck, double mean)
{
    if (luck->left == 0) {
        for (uint32_t i = 0; i < BLOCK; i++) {
            luck->order[i] = i;
        }
        for (uint32_t i = BLOCK; i > 1; i--) {
            uint32_t k = (uint32_t)(splitmix_next(&luck->state) % i), swap = luck->order[i - 1];
            luck->order[i - 1] = luck->order[k];
            luck->order[k] = swap;
        }
        luck->left = BLOCK;
    }
    double inside = splitmix_unit(&luck->state);
    double uniform = (luck->order[--luck->left] + inside) / BLOCK;
    return -mean * log1p(-uniform);
}

/* From the end of a restart to the next failure there is room for so many whole pieces; what was begun behind them is lost. Restarts draw from luck of their own, so that pieces of any length meet
 * the same one. */
struct failures_run failures_simulate(double mtbf_s, double checkpoint_s, double restart_s, double interval_s,
                                      uint32_t cycles, uint64_t seed)
{
    struct luck work = { .state = seed }, restarts = { .state = ~seed };
    struct failures_run run = { 0 };
    double clock_s = 0, pieces = 0;
    for (uint32_t i = 0; i < cycles; i++) {
        double fails_s = next_time(&work, mtbf_s);
        pieces += floor(fails_s / (interval_s + checkpoint_s));
        clock_s += fails_s;
        run.failures++;
        while ((fails_s = next_time(&restarts, mtbf_s)) < restart_s) {
            clock_s += fails_s;
            run.failures++;
        }
        clock_s += restart_s;
    }
    run.time_per_work = clock_s / (pieces * interval_s);
    return run;
}

/* The cubic c0 + c1 x + c2 x^2 + c3 x^3 of least squares: its normal equations, by elimination with pivots. */
enum { TERMS = 4, POINTS = 25 };

static void solve(double a[TERMS][TERMS + 1], double c[TERMS])
{
    for (int k = 0; k < TERMS; k++) {
        int pivot = k;
        for (int i = k + 1; i < TERMS; i++) {
            pivot = fabs(a[i][k]) > fabs(a[pivot][k]) ? i : pivot;
        }
        for (int j = 0; j <= TERMS; j++) {
            double swap = a[k][j];
            a[k][j] = a[pivot][j];
            a[pivot][j] = swap;
        }
        for (int i = k + 1; i < TERMS; i++) {
            double factor = a[i][k] / a[k][k];
            for (int j = k; j <= TERMS; j++) {
                a[i][j] -= factor * a[k][j];
            }
        }
    }
    for (int k = TERMS; k-- > 0;) {
        c[k] = a[k][TERMS];
        for (int j = k + 1; j < TERMS; j++) {
            c[k] -= a[k][j] * c[j];
        }
        c[k] /= a[k][k];
    }
}

double failures_simulated_optimum_s(double mtbf_s, double checkpoint_s, double restart_s, double around_s,
                                    uint32_t cycles, uint64_t seed)
{
    double a[TERMS][TERMS + 1] = { { 0 } }, c[TERMS];
    CHECK(around_s > 0 && cycles > 0);
    for (int i = 0; i < POINTS; i++) {
        double x = log(2) * (2.0 * i / (POINTS - 1) - 1), powers[2 * TERMS - 1] = { 1 };
        double y = failures_simulate(mtbf_s, checkpoint_s, restart_s, around_s * exp(x), cycles, seed).time_per_work;
        for (int k = 1; k < 2 * TERMS - 1; k++) {
            powers[k] = powers[k - 1] * x;
        }
        for (int k = 0; k < TERMS; k++) {
            for (int j = 0; j < TERMS; j++) {
                a[k][j] += powers[k + j];
            }
            a[k][TERMS] += powers[k] * y;
        }
    }
    solve(a, c);
    /* Where 3 c3 x^2 + 2 c2 x + c1 = 0 and the curve bends upwards. */
    double root = c[2] * c[2] - 3 * c[3] * c[1];
    double x = root > 0 && c[2] > 0 ? -c[1] / (c[2] + sqrt(root)) : 0;
    return around_s * exp(fmax(-log(2), fmin(log(2), x)));
}
