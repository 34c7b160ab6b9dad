/* What `memwall validate --out DIR` writes. Each file appears whole or not at all.
 *
 *   validation.json          agreement_print_json
 *   ops.csv                  one row an op: both durations and the error
 *   agreement.svg, .png      every op, simulated against measured (plots/agreement.h)
 *   trace.simulated.json.gz, trace.measured.json.gz    for https://ui.perfetto.dev */
#ifndef MEMWALL_VALIDATE_AGREEMENT_FILES_H
#define MEMWALL_VALIDATE_AGREEMENT_FILES_H

#include "sim/report/result.h"
#include "validate/agreement.h"

struct agreement_files {
    const char *folder; /* made when absent */
    const struct agreement *agreement;
    const struct result_input *simulated; /* with its timeline, cluster and software */
    const struct timeline *measured;      /* NULL: no whole step of it is at hand (interrupted): no trace */
    const char *notes;                    /* as agreement_print_json */
    char *note;                           /* what a person should know and is no error; NULL: dropped */
    size_t note_bytes;
};

enum status agreement_files_write(const struct agreement_files *files, struct error *error);

#endif
