#include "plots/memory_bins.h"

#include <string.h>

static uint64_t total(const uint64_t *bytes)
{
    uint64_t sum = 0;
    for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
        sum += bytes[c];
    }
    return sum;
}

uint32_t memory_bins(const struct memory_series *series, int64_t end_ps, uint32_t bins, struct memory_bin *list)
{
    uint32_t at = 0, count = 0;
    for (uint32_t b = 0; b < bins; b++) {
        int64_t to_ps = (int64_t)((double)end_ps * (b + 1) / bins);
        const uint64_t *most = &series->bytes[(size_t)at * BUFFER_CLASS_COUNT];
        while (at + 1 < series->count && series->times_ps[at + 1] < to_ps) {
            at++;
            const uint64_t *bytes = &series->bytes[(size_t)at * BUFFER_CLASS_COUNT];
            most = total(bytes) > total(most) ? bytes : most;
        }
        if (count == 0 || memcmp(list[count - 1].bytes, most, BUFFER_CLASS_COUNT * sizeof *most) != 0) {
            list[count++] = (struct memory_bin){ b, most };
        }
    }
    return count;
}
