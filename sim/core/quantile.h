/* Quantiles of measured values, by nearest rank: the smallest value that at least a share p of all does not exceed. So the median of an even number is the lower of the two in the
 * middle: always something that was measured. */
#ifndef MEMWALL_CORE_QUANTILE_H
#define MEMWALL_CORE_QUANTILE_H

#include <stddef.h>

/* Rising. NaN asserts. */
void quantile_sort(double *values, size_t count);
/* `sorted` rising, count > 0, 0 < p <= 1. */
double quantile_of(const double *sorted, size_t count, double p);

#endif
