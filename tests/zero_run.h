/* For the tests of the ZeRO offload policies: a small model on the toy machine (10 GB/s of PCIe, 100 GB/s of DRAM, 10 cores of 0.1 G parameters/s, drives of 2 and 1 GB/s), and sums over
 * its schedule. Every schedule is verified, every timeline audited. */
#ifndef MEMWALL_TESTS_ZERO_RUN_H
#define MEMWALL_TESTS_ZERO_RUN_H

#include "tests/report_run.h"
#include "sim/plan/plan_order.h"

struct zero_case {
    int gpus, zero_stage, accumulation;
    const char *policy; /* JSON of memory_policy */
    const char *more;   /* further members of the scenario, each after a comma, or "" */
};

enum { ZERO_MICRO_BATCH = 2 };

/* `machine`: as a scenario names it, in JSON. */
static inline bool zero_run_on(struct report_run *run, const struct zero_case *c, const char *machine)
{
    char text[2048];
    memset(run, 0, sizeof *run);
    snprintf(text, sizeof text,
             "{\"schema\": \"memwall.scenario/1\", \"machine\": %s, \"gpus\": %d, \"software\": \"ideal\","
             " \"model\": {\"family\": \"gpt\", \"layers\": 6, \"hidden\": 512, \"heads\": 8, \"ffn\": 2048,"
             " \"vocab\": 1000, \"max_sequence\": 512},"
             " \"training\": {\"micro_batch\": %d, \"global_batch\": %d}, \"parallel\": {\"zero_stage\": %d},"
             " \"memory_policy\": %s%s}",
             machine, c->gpus, ZERO_MICRO_BATCH, ZERO_MICRO_BATCH * c->gpus * c->accumulation, c->zero_stage, c->policy,
             c->more);
    bool ran = report_run(run, text);
    if (!ran) {
        printf("  %s\n", text);
        return false;
    }
    EXPECT_INT(run->timeline.outcome, TIMELINE_DONE);
    return true;
}

static inline bool zero_run(struct report_run *run, const struct zero_case *c)
{
    return zero_run_on(run, c, "\"toy-2gpu\"");
}

/* What ops of this opcode move or update, over all GPUs. */
static inline double zero_total(const struct report_run *run, enum opcode opcode)
{
    const struct schedule *s = &run->schedule;
    double total = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        if (s->ops[i].opcode == opcode) {
            const struct sched_work *work = &s->works[s->ops[i].work];
            total += (work->bytes + work->parameters) * s->ranks[sched_op_rank(s, &s->ops[i])].device_count;
        }
    }
    return total;
}

/* Bytes that live all step long in spaces of a kind, over all GPUs. */
static inline double zero_held(const struct report_run *run, enum space_kind kind, enum buffer_class buffer_class)
{
    const struct schedule *s = &run->schedule;
    double bytes = 0;
    for (uint32_t b = 0; b < s->buffer_count; b++) {
        const struct sched_buffer *buffer = &s->buffers[b];
        uint8_t both = BUFFER_LIVE_AT_START | BUFFER_LIVE_AT_END;
        if (buffer->buffer_class == buffer_class && buffer->flags == both && s->spaces[buffer->space].kind == kind) {
            double devices = buffer->copies;
            for (uint32_t r = 0; kind == SPACE_DEVICE && r < s->rank_count; r++) {
                if (s->devices[s->ranks[r].first_device] == s->spaces[buffer->space].location) {
                    devices = s->ranks[r].device_count;
                }
            }
            bytes += (double)buffer->bytes * devices;
        }
    }
    return bytes;
}

static inline double zero_end_s(const struct report_run *run, uint32_t op)
{
    return (double)run->timeline.ops[op].end_ps * 1e-12;
}

static inline double zero_start_s(const struct report_run *run, uint32_t op)
{
    return (double)run->timeline.ops[op].start_ps * 1e-12;
}

/* The last op of the schedule with this opcode and phase, or SCHED_NONE. */
static inline uint32_t zero_last(const struct report_run *run, enum opcode opcode, enum op_phase phase)
{
    for (uint32_t i = run->schedule.op_count; i-- > 0;) {
        if (run->schedule.ops[i].opcode == opcode && run->schedule.ops[i].phase == phase) {
            return i;
        }
    }
    return SCHED_NONE;
}

/* Peak of a host kind of the first server. */
static inline const struct space_use *zero_use(const struct report_run *run, enum space_kind kind)
{
    static const struct space_use none;
    for (uint32_t i = 0; i < run->schedule.space_count; i++) {
        if (run->schedule.spaces[i].kind == kind) {
            return &run->timeline.spaces[i];
        }
    }
    return &none;
}

/* The most of a class that lives on the first device at once. */
static inline double zero_class_peak(const struct report_run *run, enum buffer_class buffer_class)
{
    struct arena arena = { 0 };
    struct error error = { 0 };
    int64_t *times;
    uint64_t *bytes, most = 0;
    uint32_t count = 0, space = 0;
    while (run->schedule.spaces[space].kind != SPACE_DEVICE) {
        space++;
    }
    EXPECT_INT(timeline_memory_by_class(&run->schedule, &run->timeline, space, &arena, &times, &bytes, &count, &error),
               STATUS_OK);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t here = bytes[(size_t)i * BUFFER_CLASS_COUNT + buffer_class];
        most = here > most ? here : most;
    }
    arena_free(&arena);
    return (double)most;
}

/* Lowering refuses: the error's path and a part of its message. */
static inline void zero_expect_refused(const char *scenario, const char *path, const char *part)
{
    struct error error = { 0 };
    struct json_document *document = NULL;
    struct json root;
    struct scenario read;
    struct schedule schedule = { 0 };
    if (json_parse(&document, scenario, strlen(scenario), "test", &error) != STATUS_OK) {
        TEST_FAIL_("%s: %s", scenario, error.message);
        return;
    }
    json_root(document, &root);
    enum status status = scenario_from_json(&read, &root, &error);
    json_free(document);
    if (status == STATUS_OK) {
        const struct lower_request request = {
            .model = &read.model,
            .cluster = &read.cluster,
            .software = &read.software,
            .plan = &read.plan,
        };
        status = lower_schedule(&request, &schedule, &error);
        scenario_free(&read);
    }
    if (status == STATUS_OK) {
        TEST_FAIL_("not refused: %s", scenario);
        schedule_free(&schedule);
        return;
    }
    EXPECT_TEXT(error.path, path);
    EXPECT_PART(error.message, part);
}

#endif
