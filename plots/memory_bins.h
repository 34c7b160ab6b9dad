/* Memory over time, as coarse as a picture is wide. */
#ifndef MEMWALL_PLOTS_MEMORY_BINS_H
#define MEMWALL_PLOTS_MEMORY_BINS_H

#include "sim/report/csv.h"

struct memory_bin {
    uint32_t bin;          /* begins at end_ps * bin / bins */
    const uint64_t *bytes; /* [BUFFER_CLASS_COUNT], in the series */
};

/* Of each of `bins` equal spans of [0, end_ps) the moment when the sum of all classes is greatest, so that no peak is lost; bins that change nothing are left out, the first is there.
 * Into list[bins]; returns how many. series->count > 0. */
uint32_t memory_bins(const struct memory_series *series, int64_t end_ps, uint32_t bins, struct memory_bin *list);

#endif
