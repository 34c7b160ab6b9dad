/* Measured training steps of GPT models on A100 clusters as scenarios: a100_megatron_steps.csv (not ours: read from ../shared/data/measured). fit_steps fits
 * to half of them, tests/accuracy/a_steps.c judges by all.
 *
 *     struct step_row rows[STEP_ROWS_MAX];
 *     size_t count = 0;
 *     TRY(step_rows_megatron(path, rows, STEP_ROWS_MAX, &count, error));
 *     step_scenario(&rows[0], &setup, text, sizeof text);      // a scenario in JSON
 *     TRY(step_simulate(text, &step_s, error)); */
#ifndef MEMWALL_VALIDATE_STEP_ROWS_H
#define MEMWALL_VALIDATE_STEP_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/status.h"

enum { STEP_ROWS_MAX = 512, STEP_ROW_ID_BYTES = 32, STEP_SCENARIO_BYTES = 4096 };

struct step_row {
    char id[STEP_ROW_ID_BYTES];
    bool single_node;
    bool held_out; /* of fits: every second, by the FNV-1a hash of its id */
    uint32_t gpus, tensor, data, pipeline, micro_batch, global_batch, layers, hidden, heads, sequence, vocab;
    double measured_s;
};

/* What the rows do not say: names or JSON objects as a scenario takes them. NULL: as the source says ("a100-80gb-hdr800", "megatron", "full"). */
struct step_setup {
    const char *machine, *software, *recompute;
};

/* Append all rows of the file. Errors: no such file, a line that is not a row, more than `max`. */
enum status step_rows_megatron(const char *path, struct step_row *rows, size_t max, size_t *count, struct error *error);

void step_scenario(const struct step_row *row, const struct step_setup *setup, char *text, size_t size);

/* The step time of a scenario text; 0 when it does not fit. */
enum status step_simulate(const char *text, double *step_s, struct error *error);

#endif
