/* Rates on links over time, from op starts and ends: an op's bytes are spread evenly over the time it ran. */
#ifndef MEMWALL_REPORT_LINK_SERIES_H
#define MEMWALL_REPORT_LINK_SERIES_H

#include "sim/report/result.h"

struct link_series {
    uint32_t resource;
    int64_t *times_ps;   /* [count], rising */
    double *bytes_per_s; /* from times_ps[i] on */
    uint32_t count;
};

/* The first `link_count` links of the result (the busiest). Arrays live in `arena`. */
enum status link_series_compute(const struct result *result, const struct result_input *input, uint32_t link_count,
                                struct arena *arena, struct link_series *series, struct error *error);

#endif
