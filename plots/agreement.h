/* The picture of an agreement: each op as a point, simulated against measured duration, both axes logarithmic; the diagonal and +-10 %; coloured by opcode.
 *
 * Written into FOLDER like the other pictures (plots/plot.h): plots/agreement.dat and .gp, agreement.svg and .png. */
#ifndef MEMWALL_PLOTS_AGREEMENT_H
#define MEMWALL_PLOTS_AGREEMENT_H

#include "sim/ir/schedule.h"

struct agreement_plot {
    const struct schedule *schedule;
    const double *simulated_s, *measured_s; /* [op_count]; ops without time in one of them are left out */
    const char *title, *subtitle;
    const char *folder; /* exists */
    char *note;         /* what a person should know and is no error (no gnuplot); NULL: dropped */
    size_t note_bytes;
};

/* Waits for gnuplot. No op with time in both: nothing is written. Errors: files that cannot be written, out of memory. */
enum status plot_agreement(const struct agreement_plot *plot, struct error *error);

#endif
