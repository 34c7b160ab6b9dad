/* How sure the step time is: constants that calibration gave a standard error are drawn from their distributions, and the step simulated with each draw.
 *
 * Each constant of machine.standard_errors whose path is known here is taken as normal with that error, independent of the others (a fit's constants are correlated; taking them as independent
 * usually makes the interval wider), cut to the range that the machine's loader allows. Draws are no random numbers but a low-discrepancy sequence: the additive recurrence of square roots of
 * primes, u_k(i) = frac(1/2 + (i + 1) sqrt(prime k)) (Richtmyer 1951, recalled; powers of one generalised golden ratio were tried first and left gaps at 20 constants, which t_uncertainty's
 * first case shows), through the inverse of the normal distribution. The same machine and N give the same interval whatever the threads.
 * Constants without an error known are taken as certain, and named: the interval says nothing of them, nor of what the model leaves out. */
#ifndef MEMWALL_REPORT_UNCERTAINTY_H
#define MEMWALL_REPORT_UNCERTAINTY_H

#include "sim/base/json_write.h"
#include "sim/report/sensitivity_scale.h"
#include "sim/report/sensitivity_trial.h"

enum { UNCERTAINTY_DRAWS_MIN = 20, UNCERTAINTY_DRAWS_MAX = 100000, UNCERTAINTY_GROUPS_MAX = 16 };

struct uncertainty {
    uint32_t draws, ran;            /* asked for; that gave a step time */
    uint32_t fits;                  /* of these */
    uint32_t constants;             /* drawn */
    uint32_t unused;                /* standard errors of the file whose field is not known here */
    double base_s;                  /* with every constant as the file has it */
    double low_s, median_s, high_s; /* 5th, 50th, 95th percentile: by nearest rank, of the draws that ran */
    double mean_s, deviation_s;
    const char *certain[UNCERTAINTY_GROUPS_MAX]; /* groups of constants without any error known; static names */
    uint32_t certain_count;
};

/* STATUS_BAD_INPUT when the machine has no standard errors (says which shipped ones do) or draws is out of range. */
enum status uncertainty_compute(struct uncertainty *uncertainty, const struct scenario *scenario, uint32_t draws,
                                uint32_t threads, void (*progress)(void *context, uint32_t done, uint32_t total),
                                void *progress_context, struct error *error);

/* Coordinate k of point i of the sequence, in [0, 1). */
double uncertainty_point(uint32_t k, uint32_t i);
/* The standard normal's quantile, to 1e-12. 0 < p < 1. */
double uncertainty_normal(double p);
/* Add `by` (in the file's unit) to the field at this path of a machine file. False: the path is not known. Values stay in the range the loader allows. */
bool uncertainty_shift(struct machine *machine, const char *field, double by);

void uncertainty_json(const struct uncertainty *uncertainty, struct json_writer *w);
/* Member `key` {"p5", "p95"} of what follows from the step time. */
void uncertainty_interval_json(const char *key, double low, double high, struct json_writer *w);
void uncertainty_text(const struct uncertainty *uncertainty, struct strbuf *out);

#endif
