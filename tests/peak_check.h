/* Peaks of a run against what the schedule allows, whatever its timing: of simulated runs and of real ones. */
#ifndef MEMWALL_TESTS_PEAK_CHECK_H
#define MEMWALL_TESTS_PEAK_CHECK_H

#include "sim/ir/peak_range.h"
#include "sim/ir/timeline.h"
#include "tests/test.h"

/* `no_race`: moreover, no timing could change one. `what` is said when it fails. */
static inline void expect_possible_peaks(const struct schedule *s, const struct timeline *timeline, bool no_race,
                                         const char *what)
{
    struct peak_range *ranges = calloc((size_t)s->space_count + 1, sizeof *ranges);
    struct error error = { 0 };
    EXPECT(ranges != NULL);
    if (ranges == NULL) {
        return;
    }
    EXPECT_INT(peak_ranges(s, ranges, &error), STATUS_OK);
    for (uint32_t i = 0; i < s->space_count; i++) {
        uint64_t peak = timeline->spaces[i].peak_bytes, least = ranges[i].least_bytes, most = ranges[i].most_bytes;
        if (peak < least || peak > most || (no_race && least != most)) {
            TEST_FAIL_("%s: %s has %" PRIu64 " of %" PRIu64 " to %" PRIu64, what, sched_label(s, s->spaces[i].label),
                       peak, least, most);
        }
    }
    free(ranges);
}

#endif
