/* Failures: how often to write a checkpoint, and what is left of the machine's time.
 *
 * Model. Failures of the whole job come at random with mean M = MTBF of a device / devices (exponential times: independent devices without ageing; the job fails with any of them). Work is
 * done in pieces of tau; after each a checkpoint takes delta, during which nothing else is done. A failure loses what was done since the last checkpoint, and costs a restart R, which may
 * fail too. Times in seconds.
 *
 *   expected time of a piece         M e^(R/M) (e^((tau + delta)/M) - 1)                    Daly 2006, eq. 13 to 20
 *   goodput                          tau over that
 *   Young's interval (first order)   sqrt(2 delta M)                                        Young 1974; Daly 2006 subtracts delta: sqrt(2 delta M) - delta
 *   Daly's interval (higher order)   sqrt(2 delta M) (1 + sqrt(delta/(2M))/3 + (delta/(2M))/9) - delta for delta < 2M, else M     Daly 2006, eq. 37
 *
 *   J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17(9), 1974.
 *   J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22(3), 2006.
 *
 * The formulas and equation numbers are recalled, not read in a source here; so they are held to two judges that do not share them: the exact minimum of the expected time (where its
 * derivative is 0, by bisection), and a simulation of the renewal process, failure by failure. */
#ifndef MEMWALL_REPORT_FAILURES_H
#define MEMWALL_REPORT_FAILURES_H

#include <stdint.h>

#include "sim/base/json_write.h"
#include "sim/base/status.h"

struct failures_input {
    double device_mtbf_s;
    uint32_t devices;
    double checkpoint_bytes;    /* of the whole job */
    double storage_bytes_per_s; /* of the whole job */
    const char *storage_source; /* where that is from, for people; borrowed */
    double restart_s;           /* beside reading the checkpoint back, which takes delta as well */
    double step_s;
};

struct failures {
    struct failures_input input;
    double mtbf_s, checkpoint_s, restart_s; /* M, delta, R = input.restart_s + delta */
    double young_s, first_order_s, daly_s,
        exact_s;                       /* intervals of work between checkpoints; exact: minimum of the expected time */
    double simulated_s;                /* minimum of the simulated time */
    double goodput, simulated_goodput; /* at daly_s */
    double checkpoint_share, lost_share; /* of all time, at daly_s: writing checkpoints; redoing work and restarting */
    uint64_t simulated_failures;         /* behind simulated_goodput */
};

/* Refuses (STATUS_BAD_INPUT) what is not above 0 or so large that the job never ends: a piece that succeeds less than once in 10^6 tries (tau + delta > 13.8 M). */
enum status failures_compute(struct failures *failures, const struct failures_input *input, struct error *error);

/* The formulas. mtbf and checkpoint > 0. */
double failures_first_order_s(double mtbf_s, double checkpoint_s);
double failures_daly_s(double mtbf_s, double checkpoint_s);
double failures_exact_s(double mtbf_s, double checkpoint_s);
double failures_goodput(double mtbf_s, double checkpoint_s, double restart_s, double interval_s);

/* The renewal process, `cycles` long (each from one restart's end over pieces of work to a failure and the next restart's end): seconds it took over seconds of work kept (>= 1; infinite when
 * none was). Failure times come from a stratified sequence that depends on `seed` alone, so that two intervals meet the same luck. */
struct failures_run {
    double time_per_work;
    uint64_t failures;
};
struct failures_run failures_simulate(double mtbf_s, double checkpoint_s, double restart_s, double interval_s,
                                      uint32_t cycles, uint64_t seed);
/* The interval of least simulated time: a polynomial of third degree in its logarithm through intervals from half to twice `around_s`. */
double failures_simulated_optimum_s(double mtbf_s, double checkpoint_s, double restart_s, double around_s,
                                    uint32_t cycles, uint64_t seed);

void failures_json(const struct failures *failures, struct json_writer *w);
void failures_text(const struct failures *failures, struct strbuf *out);

#endif
