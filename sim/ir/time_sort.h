/* Sorting op starts and ends by time: for the memory curves and the audit. Linear (least-significant-digit radix), stable. */
#ifndef MEMWALL_IR_TIME_SORT_H
#define MEMWALL_IR_TIME_SORT_H

#include <stdint.h>

struct time_event {
    int64_t time_ps; /* >= 0 */
    uint32_t op;
    uint32_t is_end; /* 0: its start, 1: its end */
};

/* Sort `count` events in `events`; `scratch` holds as many. */
void time_sort(struct time_event *events, struct time_event *scratch, uint32_t count);

#endif
