#include "validate/agreement.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/array.h"
#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/core/quantile.h"
#include "sim/ir/peak_range.h"

struct durations {
    double *items; /* [step][op], seconds */
    size_t count, capacity;
};

struct agreement_collector {
    const struct schedule *schedule;
    struct hash hash;
    char executor[16];
    bool emulated;
    double steps_s[AGREEMENT_STEPS_MAX];
    uint32_t step_count;
    struct durations durations;
    uint64_t *peaks, *reserved; /* [space_count]: highest of all steps */
};

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory for the comparison");
}

enum status agreement_begin(struct agreement_collector **collector, const struct schedule *schedule,
                            struct error *error)
{
    *collector = NULL;
    struct agreement_collector *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return no_memory(error);
    }
    c->schedule = schedule;
    c->hash = schedule_hash(schedule);
    c->peaks = calloc((size_t)schedule->space_count + 1, sizeof *c->peaks);
    c->reserved = calloc((size_t)schedule->space_count + 1, sizeof *c->reserved);
    if (c->peaks == NULL || c->reserved == NULL) {
        agreement_abandon(c);
        return no_memory(error);
    }
    *collector = c;
    return STATUS_OK;
}

void agreement_abandon(struct agreement_collector *collector)
{
    if (collector != NULL) {
        array_free(&collector->durations);
        free(collector->peaks);
        free(collector->reserved);
        free(collector);
    }
}

/* Of this schedule, and run to its end. */
static enum status check_timeline(const struct agreement_collector *c, const struct timeline *timeline,
                                  struct error *error)
{
    char own[HASH_TEXT_BYTES], other[HASH_TEXT_BYTES];
    if (timeline->schedule_hash.a != c->hash.a || timeline->schedule_hash.b != c->hash.b) {
        return error_set(error, STATUS_BAD_INPUT,
                         "timelines of different schedules cannot be compared: %s executor ran %s, the schedule is %s",
                         timeline->executor, hash_text(&timeline->schedule_hash, other), hash_text(&c->hash, own));
    }
    if (timeline->outcome != TIMELINE_DONE) {
        return error_set(error, STATUS_BAD_INPUT,
                         "the step did not end in the %s executor: there is nothing to compare", timeline->executor);
    }
    CHECK(timeline->op_count == c->schedule->op_count && timeline->space_count == c->schedule->space_count);
    return STATUS_OK;
}

static double step_s(const struct schedule *schedule, const struct timeline *timeline)
{
    const struct step_window window = timeline_step(schedule, timeline);
    return s_from_ps(window.to_ps - window.from_ps);
}

static double duration_s(const struct timeline *timeline, uint32_t op)
{
    return s_from_ps(timeline->ops[op].end_ps - timeline->ops[op].start_ps);
}

enum status agreement_step(struct agreement_collector *c, const struct timeline *measured, struct error *error)
{
    TRY(check_timeline(c, measured, error));
    if (c->step_count == AGREEMENT_STEPS_MAX) {
        return error_set(error, STATUS_LIMIT, "more than %d measured steps", AGREEMENT_STEPS_MAX);
    }
    TRY(array_reserve(&c->durations, measured->op_count, error));
    for (uint32_t i = 0; i < measured->op_count; i++) {
        c->durations.items[c->durations.count++] = duration_s(measured, i);
    }
    for (uint32_t i = 0; i < measured->space_count; i++) {
        const struct space_use *use = &measured->spaces[i];
        c->peaks[i] = use->peak_bytes > c->peaks[i] ? use->peak_bytes : c->peaks[i];
        c->reserved[i] = use->peak_reserved_bytes > c->reserved[i] ? use->peak_reserved_bytes : c->reserved[i];
    }
    if (c->step_count == 0) {
        snprintf(c->executor, sizeof c->executor, "%s", measured->executor);
    }
    c->emulated = c->emulated || measured->emulated;
    c->steps_s[c->step_count++] = step_s(c->schedule, measured);
    return STATUS_OK;
}

uint32_t agreement_step_count(const struct agreement_collector *collector)
{
    return collector->step_count;
}

/* ---- figures ---- */

double agreement_error(double simulated_s, double measured_s, double floor_s)
{
    return fabs(simulated_s - measured_s) / fmax(measured_s, floor_s);
}

static void compare_steps(struct agreement *a)
{
    double sorted[AGREEMENT_STEPS_MAX];
    uint32_t n = a->step_count;
    memcpy(sorted, a->steps_s, n * sizeof *sorted);
    quantile_sort(sorted, n);
    a->median_step_s = quantile_of(sorted, n, 0.5);
    a->min_step_s = sorted[0];
    a->max_step_s = sorted[n - 1];
    for (uint32_t i = 0; i < n; i++) {
        sorted[i] = fabs(a->steps_s[i] - a->median_step_s);
    }
    quantile_sort(sorted, n);
    double median_s = fmax(a->median_step_s, a->floor_s);
    a->spread = quantile_of(sorted, n, 0.5) / median_s;
    /* See the header: 1.96 standard errors of a median. */
    const double pi = 3.14159265358979323846;
    a->noise = n >= 5  ? 1.96 * sqrt(pi / 2) * 1.4826 * a->spread / sqrt((double)n)
               : n > 1 ? (a->max_step_s - a->min_step_s) / 2 / median_s
                       : (double)NAN;
    a->signed_step_error = (a->simulated_step_s - a->median_step_s) / median_s;
    a->step_error = fabs(a->signed_step_error);
}

/* The median of each op over the steps; `scratch` [step_count]. */
static void take_medians(const struct agreement_collector *c, double *scratch, double *op_measured_s)
{
    size_t ops = c->schedule->op_count;
    for (size_t i = 0; i < ops; i++) {
        for (uint32_t k = 0; k < c->step_count; k++) {
            scratch[k] = c->durations.items[k * ops + i];
        }
        quantile_sort(scratch, c->step_count);
        op_measured_s[i] = quantile_of(scratch, c->step_count, 0.5);
    }
}

/* Which ops a group has: those of an opcode, of a phase, or all. */
struct member_rule {
    int opcode, phase; /* -1: any */
};

static bool belongs(const struct sched_op *op, struct member_rule rule)
{
    return op->opcode != OP_MARK && (rule.opcode < 0 || op->opcode == rule.opcode) &&
           (rule.phase < 0 || op->phase == rule.phase);
}

/* `scratch` [op_count]. */
static void fill_group(const struct agreement *a, const struct schedule *s, struct member_rule rule, double *scratch,
                       struct agreement_group *group)
{
    *group = (struct agreement_group){ 0 };
    for (uint32_t i = 0; i < s->op_count; i++) {
        if (a->op_inside[i] && belongs(&s->ops[i], rule)) {
            scratch[group->ops++] = agreement_error(a->op_simulated_s[i], a->op_measured_s[i], a->floor_s);
            group->simulated_s += a->op_simulated_s[i];
            group->measured_s += a->op_measured_s[i];
        }
    }
    if (group->ops > 0) {
        quantile_sort(scratch, group->ops);
        group->median_error = quantile_of(scratch, group->ops, 0.5);
        group->p90_error = quantile_of(scratch, group->ops, 0.9);
        group->bias = (group->simulated_s - group->measured_s) / fmax(group->measured_s, a->floor_s);
    }
}

/* Insertion into a short list: an op comes behind those that are as bad and stand before it. */
static void find_worst(struct agreement *a, const struct schedule *s)
{
    for (uint32_t i = 0; i < s->op_count; i++) {
        struct agreement_op one = { i, a->op_simulated_s[i], a->op_measured_s[i], 0 };
        one.error = agreement_error(one.simulated_s, one.measured_s, a->floor_s);
        if (!a->op_inside[i] || !belongs(&s->ops[i], (struct member_rule){ -1, -1 }) || one.error <= 0) {
            continue;
        }
        uint32_t at = a->worst_count;
        while (at > 0 && a->worst[at - 1].error < one.error) {
            at--;
        }
        if (at == AGREEMENT_WORST) {
            continue;
        }
        uint32_t kept = a->worst_count < AGREEMENT_WORST ? a->worst_count : AGREEMENT_WORST - 1;
        memmove(&a->worst[at + 1], &a->worst[at], (kept - at) * sizeof *a->worst);
        a->worst[at] = one;
        a->worst_count = kept + 1;
    }
}

uint32_t agreement_impossible(const struct agreement *a)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->space_count && a->ranges_known; i++) {
        const struct agreement_space *one = &a->spaces[i];
        count += one->measured_peak_bytes < one->least_peak_bytes || one->measured_peak_bytes > one->most_peak_bytes;
    }
    return count;
}

static enum status compare_memory(struct agreement *a, const struct agreement_collector *c,
                                  const struct timeline *simulated, struct error *error)
{
    struct peak_range *ranges = calloc((size_t)a->space_count + 1, sizeof *ranges);
    if (ranges == NULL) {
        return no_memory(error);
    }
    enum status status = peak_ranges(c->schedule, ranges, error);
    a->ranges_known = status == STATUS_OK;
    a->memory_equal = true;
    for (uint32_t i = 0; i < a->space_count; i++) {
        a->spaces[i] = (struct agreement_space){
            .space = i,
            .simulated_peak_bytes = simulated->spaces[i].peak_bytes,
            .measured_peak_bytes = c->peaks[i],
            .simulated_reserved_bytes = simulated->spaces[i].peak_reserved_bytes,
            .measured_reserved_bytes = c->reserved[i],
        };
        a->memory_equal = a->memory_equal && a->spaces[i].simulated_peak_bytes == a->spaces[i].measured_peak_bytes;
        if (a->ranges_known) {
            a->spaces[i].least_peak_bytes = ranges[i].least_bytes;
            a->spaces[i].most_peak_bytes = ranges[i].most_bytes;
        }
    }
    free(ranges);
    return status == STATUS_LIMIT ? STATUS_OK : status;
}

static bool begins_inside(const struct step_window *window, const struct op_times *times)
{
    return window->steps == 1 || (times->start_ps >= window->from_ps && times->start_ps < window->to_ps);
}

static enum status compare(const struct agreement_collector *c, const struct timeline *simulated, struct agreement *a,
                           struct error *error)
{
    const struct schedule *s = c->schedule;
    const struct step_window window = timeline_step(s, simulated);
    size_t most = s->op_count > AGREEMENT_STEPS_MAX ? s->op_count : AGREEMENT_STEPS_MAX;
    double *scratch = malloc(most * sizeof *scratch);
    a->spaces = calloc((size_t)s->space_count + 1, sizeof *a->spaces);
    a->op_simulated_s = calloc((size_t)s->op_count + 1, sizeof *a->op_simulated_s);
    a->op_measured_s = calloc((size_t)s->op_count + 1, sizeof *a->op_measured_s);
    a->op_inside = calloc((size_t)s->op_count + 1, sizeof *a->op_inside);
    if (scratch == NULL || a->spaces == NULL || a->op_simulated_s == NULL || a->op_measured_s == NULL ||
        a->op_inside == NULL) {
        free(scratch);
        agreement_free(a);
        return no_memory(error);
    }
    a->space_count = s->space_count;
    a->op_count = s->op_count;
    a->training_steps = window.steps;
    for (uint32_t i = 0; i < s->op_count; i++) {
        a->op_simulated_s[i] = duration_s(simulated, i);
        a->op_inside[i] = begins_inside(&window, &simulated->ops[i]);
    }
    take_medians(c, scratch, a->op_measured_s);
    compare_steps(a);
    fill_group(a, s, (struct member_rule){ -1, -1 }, scratch, &a->all);
    for (int i = 0; i < (int)OPCODE_COUNT; i++) {
        fill_group(a, s, (struct member_rule){ i, -1 }, scratch, &a->by_opcode[i]);
    }
    for (int i = 0; i < (int)PHASE_COUNT; i++) {
        fill_group(a, s, (struct member_rule){ -1, i }, scratch, &a->by_phase[i]);
    }
    find_worst(a, s);
    free(scratch);
    enum status status = compare_memory(a, c, simulated, error);
    if (status != STATUS_OK) {
        agreement_free(a);
    }
    return status;
}

enum status agreement_finish(struct agreement_collector *collector, const struct timeline *simulated, double floor_s,
                             struct agreement *agreement, struct error *error)
{
    CHECK(floor_s > 0);
    *agreement = (struct agreement){ .floor_s = floor_s };
    enum status status = check_timeline(collector, simulated, error);
    if (status == STATUS_OK && collector->step_count == 0) {
        status = error_set(error, STATUS_BAD_INPUT, "no step was measured: there is nothing to compare");
    }
    if (status == STATUS_OK) {
        memcpy(agreement->executor, collector->executor, sizeof agreement->executor);
        memcpy(agreement->steps_s, collector->steps_s, sizeof agreement->steps_s);
        agreement->schedule_hash = collector->hash;
        agreement->emulated = collector->emulated;
        agreement->step_count = collector->step_count;
        agreement->simulated_step_s = step_s(collector->schedule, simulated);
        status = compare(collector, simulated, agreement, error);
    }
    agreement_abandon(collector);
    return status;
}

void agreement_free(struct agreement *agreement)
{
    free(agreement->spaces);
    free(agreement->op_simulated_s);
    free(agreement->op_measured_s);
    free(agreement->op_inside);
    *agreement = (struct agreement){ 0 };
}

void agreement_software(const struct machine *machine, struct software *software)
{
    software->launch_host_s = machine->kernel_launch_host_s;
    software->collective_host_s = machine->kernel_launch_host_s;
    software->copy_host_s = machine->memcpy_call_s;
    software->collective_jitter_s = 0;
    software->pass_host_s = 0;
    software->micro_batch_host_s = 0;
    software->step_host_s = 0;
    software->launch_ahead = 0; /* executors that run asynchronously go ahead far enough */
    software->graphs = false;
}
