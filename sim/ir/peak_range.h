/* Which peaks a schedule can have: of each space, what every run of it must reach and what some run may reach, whatever its ops take.
 *
 *     struct peak_range ranges[...];                                         // [space_count]
 *     TRY(peak_ranges(&schedule, ranges, error));
 *     ranges[0].least_bytes == ranges[0].most_bytes                          // the peak hangs on no race
 *
 * A schedule orders its ops only as far as queues, dependencies, matches and the waits of hosts do; the rest is left to how long things take, and with it what lives beside
 * what. Where the peak of a space must not hang on that (a bounded pool, a buffer's reuse), the schedule needs a dependency; where a real stack races too (copies beside
 * compute), two runs may rightly differ, and a simulated and a measured peak agree when both lie in the range. A measured peak outside of it is a fault of who measured.
 *
 * `most` is exact, but for capacities (what waits for memory stays below) and for marks, which are taken to last. An instant of a run is a set of begun and ended ops, closed under causes; its live bytes are a sum over
 * that set; so the highest is a closure of greatest weight, a minimum cut (Picard 1976; sim/core/max_flow.h).
 * `least` is sound, and exact where one queue decides: the bytes that surely live while one op runs that takes time, at the op that has most (to find the smallest peak in general is register
 * allocation, NP-hard).
 *
 * Time: one cut a space, and ops times its buffers. Memory: ops times queues. */
#ifndef MEMWALL_IR_PEAK_RANGE_H
#define MEMWALL_IR_PEAK_RANGE_H

#include "sim/ir/schedule.h"

struct peak_range {
    uint64_t least_bytes, most_bytes; /* as space_use.peak_bytes: copies and spaces inside counted */
};

/* Ops times buffers at most: each op asks each buffer of a space once. */
#define PEAK_RANGE_WORK_MAX (UINT64_C(1) << 30)

/* `ranges` has room for space_count. The schedule is verified (sched_verify). STATUS_LIMIT: larger than PEAK_RANGE_WORK_MAX; STATUS_NO_MEMORY. */
enum status peak_ranges(const struct schedule *schedule, struct peak_range *ranges, struct error *error);

#endif
