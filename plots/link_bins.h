/* Traffic of a link over time, as coarse as a picture is wide. */
#ifndef MEMWALL_PLOTS_LINK_BINS_H
#define MEMWALL_PLOTS_LINK_BINS_H

#include "sim/report/link_series.h"

/* Of each of `bins` equal spans of [0, end_ps) the mean rate over `capacity` (bytes/s; 1: the rate itself), so that what the link moved in it is kept. end_ps > 0. Into use[bins]. */
void link_bins(const struct link_series *series, double capacity, int64_t end_ps, uint32_t bins, double *use);

#endif
