#include "sim/ir/time_sort.h"

#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

void time_sort(struct time_event *events, struct time_event *scratch, uint32_t count)
{
    uint64_t highest = 0;
    struct time_event *from = events, *to = scratch;
    for (uint32_t i = 0; i < count; i++) {
        highest |= (uint64_t)events[i].time_ps;
    }
    for (unsigned shift = 0; shift < 64 && highest >> shift != 0; shift += DIGIT_BITS) {
        uint32_t places[DIGITS] = { 0 };
        for (uint32_t i = 0; i < count; i++) {
            places[(uint64_t)from[i].time_ps >> shift & (DIGITS - 1)]++;
        }
        uint32_t place = 0;
        for (unsigned i = 0; i < DIGITS; i++) {
            uint32_t here = places[i];
            places[i] = place;
            place += here;
        }
        for (uint32_t i = 0; i < count; i++) {
            to[places[(uint64_t)from[i].time_ps >> shift & (DIGITS - 1)]++] = from[i];
        }
        struct time_event *other = from;
        from = to;
        to = other;
    }
    if (from != events) {
        memcpy(events, from, count * sizeof *events);
    }
}
