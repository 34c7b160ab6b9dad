#include "plots/link_bins.h"

#include <string.h>

void link_bins(const struct link_series *series, double capacity, int64_t end_ps, uint32_t bins, double *use)
{
    memset(use, 0, bins * sizeof *use);
    double bin_ps = (double)end_ps / bins;
    for (uint32_t i = 0; i < series->count; i++) {
        int64_t to_ps = i + 1 < series->count ? series->times_ps[i + 1] : end_ps;
        double share = series->bytes_per_s[i] / capacity, from = (double)series->times_ps[i];
        if (share <= 0 || from >= (double)end_ps) {
            continue;
        }
        for (uint32_t b = (uint32_t)(from / bin_ps); b < bins && from < (double)to_ps; b++) {
            double until = bin_ps * (b + 1) < (double)to_ps ? bin_ps * (b + 1) : (double)to_ps;
            use[b] += until > from ? share * (until - from) / bin_ps : 0;
            from = until > from ? until : from;
        }
    }
}
