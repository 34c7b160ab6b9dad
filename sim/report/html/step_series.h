/* What happened over time in a step, read back from the tables ops.csv and memory.csv (csv.h): for the pictures of a report. */
#ifndef MEMWALL_REPORT_HTML_STEP_SERIES_H
#define MEMWALL_REPORT_HTML_STEP_SERIES_H

#include "plots/boxes.h"
#include "sim/report/csv.h"

struct series_space {
    const char *name, *kind; /* "gpu 0", "device" */
    struct memory_series series;
    uint64_t peak_bytes;
};

struct step_series {
    int64_t end_ps;          /* of the last op */
    struct box_op *ops;      /* [op_count], without those that take no time or never ran */
    const char **rank_names; /* [rank_count] */
    struct series_space *spaces;
    uint32_t rank_count, space_count;
    size_t op_count;
    int64_t *times_ps; /* of all spaces, one after the other */
    uint64_t *bytes;
};

/* Both texts are changed, and names borrow from them. STATUS_BAD_INPUT names file and line. On error nothing stays allocated. */
enum status step_series_read(struct step_series *series, char *ops_text, const char *ops_file, char *memory_text,
                             const char *memory_file, struct error *error);
void step_series_free(struct step_series *series);

#endif
