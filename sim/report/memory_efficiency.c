/* Throughput for memory. */
#include "sim/report/memory_efficiency.h"

#include <math.h>

#include "sim/base/units.h"

/* Devices that a space of the schedule stands for. */
static double devices_of(const struct schedule *s, const struct sched_space *space)
{
    for (uint32_t r = 0; r < s->rank_count; r++) {
        if (s->devices[s->ranks[r].first_device] == space->location) {
            return s->ranks[r].device_count;
        }
    }
    return 1;
}

static double ratio(double samples_per_s, double bytes)
{
    return bytes > 0 ? samples_per_s / (bytes / GIB) : 0;
}

struct memory_efficiency memory_efficiency_of(const struct schedule *s, const struct timeline *timeline,
                                              double samples_per_s)
{
    double most = 0, sum = 0, devices = 0;
    for (uint32_t i = 0; i < s->space_count; i++) {
        if (s->spaces[i].kind == SPACE_DEVICE) {
            double count = devices_of(s, &s->spaces[i]), bytes = (double)timeline->spaces[i].peak_bytes;
            most = fmax(most, bytes);
            sum += count * bytes;
            devices += count;
        }
    }
    return (struct memory_efficiency){ .of_max = ratio(samples_per_s, most),
                                       .of_mean = devices > 0 ? ratio(samples_per_s, sum / devices) : 0,
                                       .of_sum = ratio(samples_per_s, sum) };
}

double memory_efficiency_relative(double throughput, double throughput0, double memory, double memory0)
{
    return (throughput / throughput0) / (memory / memory0);
}

void memory_efficiency_print(const struct memory_efficiency *efficiency, struct json_writer *w)
{
    jw_object(w, "memory_efficiency");
    jw_real(w, "samples_per_s_per_gib", efficiency->of_max);
    jw_real(w, "mean", efficiency->of_mean);
    jw_real(w, "sum", efficiency->of_sum);
    jw_end(w);
}
