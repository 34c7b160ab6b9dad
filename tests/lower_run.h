/* A scenario through to its timeline, and folded against unfolded. */
#ifndef MEMWALL_TESTS_LOWER_RUN_H
#define MEMWALL_TESTS_LOWER_RUN_H

#include <stdarg.h>

#include "sim/exec.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan_order.h"
#include "sim/plan/scenario.h"
#include "strategies/registry.h"
#include "tests/test.h"

/* Not copied: the cluster points into the machine. */
struct run {
    struct scenario scenario;
    struct schedule schedule;
    struct timeline timeline;
    struct error error;
    enum status status;
    bool loaded, scheduled, timed;
};

static inline void run_scenario(struct run *run, const char *text)
{
    struct json_document *document = NULL;
    struct json root;
    memset(run, 0, sizeof *run);
    struct error *error = &run->error;
    run->status = json_parse(&document, text, strlen(text), "scenario", error);
    if (run->status == STATUS_OK) {
        json_root(document, &root);
        run->status = scenario_from_json(&run->scenario, &root, error);
        run->loaded = run->status == STATUS_OK;
    }
    json_free(document);
    if (run->loaded) {
        struct lower_request request = {
            .model = &run->scenario.model,
            .cluster = &run->scenario.cluster,
            .software = &run->scenario.software,
            .plan = &run->scenario.plan,
        };
        run->status = lower_schedule(&request, &run->schedule, error);
        run->scheduled = run->status == STATUS_OK;
    }
    if (run->scheduled) {
        struct exec_options options = { .cluster = &run->scenario.cluster,
                                        .software = &run->scenario.software,
                                        .audit = true };
        run->status = exec_sim.run(&run->schedule, &options, &run->timeline, error);
        run->timed = run->status == STATUS_OK;
    }
}

static inline void run_free(struct run *run)
{
    if (run->timed) {
        timeline_free(&run->timeline);
    }
    if (run->scheduled) {
        schedule_free(&run->schedule);
    }
    if (run->loaded) {
        scenario_free(&run->scenario);
    }
}

/* printf, then run; a failure is reported with the scenario. */
static inline void run_format(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline void run_format(struct run *run, const char *format, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    run_scenario(run, text);
    if (run->status != STATUS_OK || run->timeline.outcome != TIMELINE_DONE) {
        char message[2048];
        printf("%s\n  %s\n", run->status == STATUS_OK ? "not done" : error_text(&run->error, message, sizeof message),
               text);
    }
    EXPECT_INT(run->status, STATUS_OK);
    EXPECT_INT(run->timeline.outcome, TIMELINE_DONE);
}

static inline uint32_t device_space(const struct schedule *s, uint32_t device)
{
    for (uint32_t i = 0; i < s->space_count; i++) {
        if (s->spaces[i].kind == SPACE_DEVICE && s->spaces[i].location == device) {
            return i;
        }
    }
    return SCHED_NONE;
}

static inline uint64_t peak_of(const struct run *run, uint32_t device)
{
    uint32_t space = device_space(&run->schedule, device);
    return space == SCHED_NONE ? 0 : run->timeline.spaces[space].peak_bytes;
}

static inline uint64_t largest_boundary(const struct schedule *s)
{
    uint64_t largest = 0;
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        if (s->buffers[b].buffer_class == BUFFER_BOUNDARY && s->buffers[b].bytes > largest) {
            largest = s->buffers[b].bytes;
        }
    }
    return largest;
}

/* Every folded rank's peak is that of each device it stands for, and the step takes as long. */
static inline void compare_folding(const char *rest)
{
    struct run folded, whole;
    run_format(&folded, "%s,\"fold\":true}", rest);
    run_format(&whole, "%s,\"fold\":false}", rest);
    if (!folded.timed || !whole.timed) { /* reported already */
        run_free(&folded);
        run_free(&whole);
        return;
    }
    /* 1e-9, and a picosecond an op of one rank: with detail "stage" a folded rank merges tensor-parallel collectives too, whose ends then need no rounding. */
    double allowed_ps =
        1e-9 * (double)whole.timeline.end_ps +
        (double)whole.schedule.op_count / (whole.schedule.rank_count > 0 ? whole.schedule.rank_count : 1);
    double apart_ps = fabs((double)(folded.timeline.end_ps - whole.timeline.end_ps));
    if (apart_ps > allowed_ps) {
        TEST_FAIL_("folded %.0f ps, unfolded %.0f ps\n  %s", (double)folded.timeline.end_ps,
                   (double)whole.timeline.end_ps, rest);
    }
    const struct schedule *s = &folded.schedule;
    /* Detail "stage" merges more where partners are phantoms; a merged pass is at its peak from start to end, so that a transfer which arrives
     * meanwhile counts on top: one each way. */
    uint64_t slack = folded.scenario.plan.detail == DETAIL_STAGE ? 2 * largest_boundary(s) : 0;
    for (uint32_t r = 0; r < s->rank_count; r++) {
        const struct sched_rank *rank = &s->ranks[r];
        for (uint32_t i = 0; i < rank->device_count; i++) {
            uint64_t wanted = peak_of(&folded, s->devices[rank->first_device]);
            uint64_t got = peak_of(&whole, s->devices[rank->first_device + i]);
            if (got > wanted || wanted - got > slack) {
                TEST_FAIL_("device %u: peak %llu folded, %llu unfolded\n  %s", s->devices[rank->first_device + i],
                           (unsigned long long)wanted, (unsigned long long)got, rest);
            }
        }
    }
    run_free(&folded);
    run_free(&whole);
}

#endif
