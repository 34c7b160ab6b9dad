/* Rates on links over time, from op starts and ends: an op's bytes are spread evenly over the time it ran. */
#ifndef MEMWALL_REPORT_LINK_SERIES_H
#define MEMWALL_REPORT_LINK_SERIES_H

#include "sim/report/result.h"

struct link_series {
    uint32_t resource;
    uint32_t alike;      /* links of the same kind that move as many bytes, itself included */
    int64_t *times_ps;   /* [count], rising */
    double *bytes_per_s; /* from times_ps[i] on */
    uint32_t count;
};

/* The links worth showing, as indices into result->links: by bytes, but of links of one kind that move as many bytes (the ports of a tensor-parallel group) only the first,
 * and none that is used for less than a ten-thousandth.
 * Returns how many, at most `most`. */
uint32_t link_series_choose(const struct result *result, const struct result_input *input, uint32_t most,
                            uint32_t *chosen);
/* Links of the same kind that move as many bytes (within a thousandth) as result->links[link], itself included. */
uint32_t link_series_alike(const struct result *result, const struct result_input *input, uint32_t link);
/* The series of result->links[chosen[i]], into series[chosen_count]. Arrays live in `arena`. */
enum status link_series_compute(const struct result *result, const struct result_input *input, const uint32_t *chosen,
                                uint32_t chosen_count, struct arena *arena, struct link_series *series,
                                struct error *error);

#endif
