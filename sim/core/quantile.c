#include "sim/core/quantile.h"

#include <math.h>
#include <stdlib.h>

#include "sim/base/check.h"

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    CHECK(!isnan(x) && !isnan(y));
    return (x > y) - (x < y);
}

void quantile_sort(double *values, size_t count)
{
    if (count > 1) {
        qsort(values, count, sizeof *values, rising);
    }
}

double quantile_of(const double *sorted, size_t count, double p)
{
    CHECK(count > 0 && p > 0 && p <= 1);
    double rank = ceil(p * (double)count - 1e-9); /* 0.9 * 10 is 9 and a rounding */
    return sorted[rank < 1 ? 0 : (size_t)rank - 1];
}
