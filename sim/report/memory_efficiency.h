/* Memory efficiency: throughput for memory (the index of Hippie, ICPP 2021; facts/mpress-hippie-pipelines.md B.1: its abstract's 1.80 / (1 - 0.57) = 4.186 shows that it is this ratio).
 *
 * Which memory is not stated there: the fullest device counts, mean and sum stand beside it. */
#ifndef MEMWALL_REPORT_MEMORY_EFFICIENCY_H
#define MEMWALL_REPORT_MEMORY_EFFICIENCY_H

#include "sim/base/json_write.h"
#include "sim/ir/schedule.h"
#include "sim/ir/timeline.h"

/* Samples per second for a GiB of device memory (peak of live bytes). */
struct memory_efficiency {
    double of_max, of_mean, of_sum; /* 0 where there is no memory or no throughput */
};

struct memory_efficiency memory_efficiency_of(const struct schedule *schedule, const struct timeline *timeline,
                                              double samples_per_s);
/* (throughput / throughput0) / (memory / memory0). */
double memory_efficiency_relative(double throughput, double throughput0, double memory, double memory0);
/* "memory_efficiency": {"samples_per_s_per_gib": of_max, "mean": ..., "sum": ...} */
void memory_efficiency_print(const struct memory_efficiency *efficiency, struct json_writer *writer);

#endif
