/* One random schedule through the engine and its plain twin. */
#ifndef MEMWALL_TESTS_ENGINE_COMPARE_H
#define MEMWALL_TESTS_ENGINE_COMPARE_H

#include "sim/ir/audit.h"
#include "tests/engine_run.h"
#include "tests/engine_twin.h"
#include "tests/schedule_gen.h"

/* Both round every end up to a picosecond, and each rate of theirs differs by rounding, some 1e-15, of at most 1e12 ps a kernel: a few ps for each of the tens of
 * changes that can follow one another. */
enum { COMPARE_TOLERANCE_PS = 64 };

static inline int64_t compare_gap(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

/* Without a cluster every work takes a time of its own: multiples of a nanosecond, so that many things happen at once. */
static inline void compare_fix_works(struct schedule *schedule)
{
    for (uint32_t i = 0; i < schedule->work_count; i++) {
        struct sched_work *work = &schedule->works[i];
        if (work->kind != WORK_FIXED) {
            *work = (struct sched_work){ .kind = WORK_FIXED, .group = SCHED_NONE, .fixed_ps = 1000 * (i % 5) };
        }
    }
}

struct compare_counts {
    uint32_t done, does_not_fit, deadlock, ops, slowed;
    int64_t worst_ps;
};

/* `exact`: times are all whole picoseconds, both must agree to the last one. Frees the schedule. */
static inline void compare_schedule(struct schedule *made, uint64_t seed, const struct cluster *cluster,
                                    const struct software *software, bool exact, struct compare_counts *counts)
{
    struct schedule schedule = *made;
    struct cost_table table = { 0 };
    struct timeline timeline = { 0 };
    bool valid =
        verify_schedule(&schedule); /* as generated: a collective whose work is a fixed time has no group to check */
    if (cluster == NULL) {
        compare_fix_works(&schedule);
    }
    if (valid && run_verified(&schedule, cluster, software, true, &table, &timeline)) {
        struct twin twin;
        bool done = twin_simulate(&twin, &schedule, &table);
        EXPECT_INT(timeline.outcome == TIMELINE_DONE, done);
        counts->done += timeline.outcome == TIMELINE_DONE;
        counts->does_not_fit += timeline.outcome == TIMELINE_DOES_NOT_FIT;
        counts->deadlock += timeline.outcome == TIMELINE_DEADLOCK;
        int64_t tolerance = exact ? 0 : COMPARE_TOLERANCE_PS;
        for (uint32_t i = 0; i < schedule.op_count; i++) {
            const struct op_times *a = &timeline.ops[i], *b = &twin.ops[i].times;
            counts->ops++;
            counts->slowed += a->end_ps != TIME_NEVER_PS && a->end_ps - a->start_ps > a->alone_ps;
            int64_t worst = compare_gap(a->issued_ps, b->issued_ps), gap = compare_gap(a->ready_ps, b->ready_ps);
            worst = gap > worst ? gap : worst;
            gap = compare_gap(a->matched_ps, b->matched_ps);
            worst = gap > worst ? gap : worst;
            gap = compare_gap(a->start_ps, b->start_ps);
            worst = gap > worst ? gap : worst;
            gap = compare_gap(a->end_ps, b->end_ps);
            worst = gap > worst ? gap : worst;
            counts->worst_ps = worst > counts->worst_ps ? worst : counts->worst_ps;
            if (worst > tolerance) {
                char text[256];
                TEST_FAIL_("seed %llu: op %u (%s): engine %lld %lld %lld %lld %lld, twin %lld %lld %lld %lld %lld",
                           (unsigned long long)seed, i, sched_op_text(&schedule, i, text, sizeof text),
                           (long long)a->issued_ps, (long long)a->ready_ps, (long long)a->matched_ps,
                           (long long)a->start_ps, (long long)a->end_ps, (long long)b->issued_ps,
                           (long long)b->ready_ps, (long long)b->matched_ps, (long long)b->start_ps,
                           (long long)b->end_ps);
                break;
            }
        }
        twin_free(&twin);
        const struct audit_resources resources = { table.capacities, table.asked, table.resource_count };
        struct error error = { 0 };
        timeline.schedule_hash = schedule_hash(&schedule);
        if (timeline.outcome == TIMELINE_DONE &&
            timeline_audit(&schedule, schedule_hash(&schedule), &timeline, &resources, &error) != STATUS_OK) {
            TEST_FAIL_("seed %llu: %s", (unsigned long long)seed, error.message);
        }
    }
    timeline_free(&timeline);
    cost_table_free(&table);
    schedule_free(&schedule);
}

static inline void compare_with_twin(const struct schedule_gen *gen, uint64_t seed, const struct cluster *cluster,
                                     const struct software *software, bool exact, struct compare_counts *counts)
{
    struct schedule schedule;
    schedule_gen(gen, seed, &schedule);
    compare_schedule(&schedule, seed, cluster, software, exact, counts);
}

#endif
