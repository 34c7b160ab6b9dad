/* What fills memory: of each space the peak's instant, op and classes, and what a micro-batch 10 % larger would need.
 *
 * The next 10 %: a micro-batch of 1.1 times the samples. Activations, boundary tensors and the workspace of passes are proportional to it; weights, gradients, optimizer, communication and
 * runtime do not change. So a tenth of the first three at the peak is needed more, if the peak stays where it is (another instant may overtake it: then it is a lower bound). The same holds for
 * the sequence where attention keeps no scores. */
#ifndef MEMWALL_REPORT_MEMORY_PRESSURE_H
#define MEMWALL_REPORT_MEMORY_PRESSURE_H

#include <stdbool.h>

#include "sim/base/json_write.h"
#include "sim/report/result.h"

struct memory_pressure {
    uint32_t space;
    uint32_t stage; /* of a device; SCHED_NONE for others */
    enum buffer_class largest;
    uint64_t largest_bytes, peak_bytes, capacity_bytes; /* capacity UINT64_MAX: unlimited */
    uint64_t next_bytes;                                /* a micro-batch 10 % larger needs so much more */
    bool next_fits;                                     /* peak + next <= capacity */
    double
        largest_batch_factor; /* of the micro-batch, that would fill the space: 1 + free / (activations, boundaries, workspace); 0: nothing grows, or unlimited */
};

/* The space that is fullest for its capacity (lowest index where equal); false when there is none with a peak. */
bool memory_pressure_tightest(const struct result_input *input, struct memory_pressure *pressure);
void memory_pressure_of(const struct result_input *input, uint32_t space, struct memory_pressure *pressure);

/* Member "memory_pressure": the spaces with a limit and a peak. Text: the tightest one. */
void memory_pressure_json(const struct result_input *input, struct json_writer *w);
void memory_pressure_text(const struct result_input *input, struct strbuf *out);

#endif
