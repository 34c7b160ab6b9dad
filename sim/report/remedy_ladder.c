#include "sim/report/remedy_ladder.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/check.h"
#include "strategies/registry.h"

/* How a setting of a policy goes from mild to strong. */
enum knob_way { KNOB_HALVE, KNOB_ON, KNOB_OFF, KNOB_NONE, KNOB_WORDS, KNOB_LESS, KNOB_MORE };

/* Settings that change what a step holds, or where; those that say what is modelled (presets, rounding) are not here. */
static const struct {
    const char *name;
    enum knob_way way;
    bool lean; /* no rung takes more of any memory */
} KNOBS[] = {
    { "bucket_elements", KNOB_HALVE, true },
    { "max_live_parameters", KNOB_HALVE, true },
    { "max_reuse_distance", KNOB_HALVE, true },
    { "prefetch_elements", KNOB_HALVE, true },
    { "sub_group_elements", KNOB_HALVE, true },
    { "tile_elements", KNOB_HALVE, true },
    { "buffer_elements", KNOB_HALVE, true },
    { "overlap_gradients", KNOB_OFF, true },
    { "checkpoints_on_host", KNOB_ON, false },
    { "checkpoints_on_host", KNOB_OFF, false },
    { "pinned_states", KNOB_OFF, true },
    { "pinned_gradients", KNOB_OFF, true },
    { "pinned_weights", KNOB_OFF, true },
    { "pipeline_read", KNOB_OFF, true },
    { "pipeline_write", KNOB_OFF, true },
    { "delayed", KNOB_OFF, true },
    { "initialise_bytes", KNOB_NONE, true },
    { "initialised_on_device", KNOB_OFF, true },
    { "cpu_ratio", KNOB_LESS, false },
    { "cpu_ratio", KNOB_MORE, false },
    { "parameters_on", KNOB_WORDS, false },
    { "optimizer_on", KNOB_WORDS, false },
    { "nvme", KNOB_ON, true },
    { "activation_offload", KNOB_ON, false },
    { "memory_saving_communication", KNOB_ON, true },
    { "embedding_on_cpu", KNOB_ON, false },
    { "embedding_on_cpu", KNOB_OFF, false },
    { "device_adam", KNOB_OFF, true },
};
enum { KNOB_COUNT = sizeof KNOBS / sizeof KNOBS[0] };
static const double TENTH = 0.1;
/* What a step holds changes little below a thousandth of a count. */
enum { HALVINGS = 10 };
/* Nor by pieces smaller than this part of the model; each costs the simulation ops. */
static const double SMALLEST_PIECE = 1.0 / 4096;
/* Sets of a rung: all ladders of a policy at once must find room on one list. */
enum { KEPT_SETS_MAX = 12 };

static const char *const POLICY_LADDER[] = { "resident", "optimizer-on-host", "zero-offload", "zero3-offload",
                                             "zero-infinity" };
enum { POLICIES = sizeof POLICY_LADDER / sizeof POLICY_LADDER[0] };

void remedy_set(struct remedy_sets *sets, const char *format, ...)
{
    va_list arguments;
    CHECK(sets->count < REMEDY_SETS_MAX);
    va_start(arguments, format);
    int wanted = vsnprintf(sets->items[sets->count], REMEDY_SET_BYTES, format, arguments);
    va_end(arguments);
    CHECK(wanted > 0 && wanted < REMEDY_SET_BYTES);
    sets->count++;
}

void remedy_add(struct remedy_sets *sets, const struct remedy_sets *more)
{
    for (uint32_t i = 0; i < more->count; i++) {
        remedy_set(sets, "%s", more->items[i]);
    }
}

/* The next rung, empty; NULL when the ladder is full. */
static struct remedy_sets *rung(struct remedy_ladder *ladder)
{
    if (ladder->count == REMEDY_RUNGS_MAX) {
        return NULL;
    }
    struct remedy_sets *sets = &ladder->rungs[ladder->count++];
    sets->count = 0;
    return sets;
}

static void add_number(struct remedy_ladder *ladder, const struct parameter *parameter, double value)
{
    struct remedy_sets *sets = rung(ladder);
    if (sets != NULL) {
        remedy_set(sets, "memory_policy.%s=%.12g", parameter->name, value);
    }
}

static void add_word(struct remedy_ladder *ladder, const struct parameter *parameter, const char *word)
{
    struct remedy_sets *sets = rung(ladder);
    if (sets != NULL) {
        remedy_set(sets, "memory_policy.%s=%s", parameter->name, word);
    }
}

/* Whole tenths below or above a share. */
static void add_tenths(struct remedy_ladder *ladder, const struct parameter *parameter, double value, int step)
{
    double at = step < 0 ? ceil(value / TENTH - 1e-9) - 1 : floor(value / TENTH + 1e-9) + 1;
    for (; at * TENTH >= parameter->minimum - 1e-9 && at * TENTH <= parameter->maximum + 1e-9; at += step) {
        add_number(ladder, parameter, at * TENTH);
    }
}

/* A halved number is no smaller than `least` elements. */
static void add_knob(struct remedy_ladder *ladder, const struct parameter *parameter, enum knob_way way, double value,
                     double least)
{
    switch (way) {
    case KNOB_HALVE:
        for (int i = 0; i < HALVINGS && floor(value / 2) >= fmax(parameter->minimum, least); i++) {
            value = floor(value / 2);
            add_number(ladder, parameter, value);
        }
        return;
    case KNOB_ON:
    case KNOB_OFF:
        if ((value > 0.5) != (way == KNOB_ON)) {
            add_word(ladder, parameter, way == KNOB_ON ? "true" : "false");
        }
        return;
    case KNOB_NONE:
        if (value > 0) {
            add_number(ladder, parameter, 0);
        }
        return;
    case KNOB_WORDS:
        ladder->uneven = true;
        for (int i = 0; parameter->words[i] != NULL; i++) {
            if (i != (int)value) {
                add_word(ladder, parameter, parameter->words[i]);
            }
        }
        return;
    case KNOB_LESS: add_tenths(ladder, parameter, value, -1); return;
    case KNOB_MORE: add_tenths(ladder, parameter, value, 1); return;
    }
}

static int find_parameter(const struct memory_policy *policy, const char *name)
{
    for (uint32_t i = 0; i < policy->parameter_count; i++) {
        if (strcmp(policy->parameters[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* Buckets of gradients that several devices reduce are the software's. */
static void add_software_bucket(const struct scenario *scenario, struct remedy_ladder *ladder)
{
    const struct plan *plan = &scenario->plan;
    double megabytes = scenario->software.bucket_bytes * 1e-6;
    for (int i = 0; i < HALVINGS && plan->data * plan->context > 1 && megabytes >= 2; i++) {
        struct remedy_sets *sets = rung(ladder);
        megabytes = floor(megabytes / 2);
        remedy_set(sets, "software.communication.bucket_MB=%.12g", megabytes);
    }
}

/* The offload policies say their stage themselves. */
static void add_zero_stage(const struct scenario *scenario, struct remedy_ladder *ladder)
{
    const struct plan *plan = &scenario->plan;
    bool is_free = strcmp(plan->policy, "resident") == 0 || strcmp(plan->policy, "optimizer-on-host") == 0;
    for (int64_t stage = plan->zero_stage + 1; stage <= 3 && is_free && plan->data * plan->context > 1; stage++) {
        remedy_set(rung(ladder), "parallel.zero_stage=%" PRId64, stage);
    }
}

bool remedy_ladder_setting(const struct scenario *scenario, uint32_t index, bool lean, struct remedy_ladder *ladder)
{
    const struct memory_policy *policy = registry_policy(scenario->plan.policy, NULL);
    ladder->count = 0;
    ladder->uneven = false;
    if (policy == NULL || index > KNOB_COUNT + 1) {
        return false;
    }
    if (index == KNOB_COUNT + 1) {
        add_zero_stage(scenario, ladder);
        return true;
    }
    if (index == KNOB_COUNT) {
        add_software_bucket(scenario, ladder);
        return true;
    }
    int at = lean && !KNOBS[index].lean ? -1 : find_parameter(policy, KNOBS[index].name);
    if (at >= 0) {
        double least = fmax(1, SMALLEST_PIECE * (double)model_parameters(&scenario->model));
        add_knob(ladder, &policy->parameters[at], KNOBS[index].way, scenario->plan.policy_parameters.value[at], least);
    }
    return true;
}

void remedy_ladder_recompute(const struct scenario *scenario, struct remedy_ladder *ladder)
{
    const uint8_t *modes = scenario->plan.recompute;
    *ladder = (struct remedy_ladder){ 0 };
    for (int64_t i = 1; i < scenario->model.layers; i++) {
        if (modes[i] != modes[0]) {
            return;
        }
    }
    for (int mode = modes[0] + 1; mode < RECOMPUTE_MODE_COUNT; mode++) {
        remedy_set(rung(ladder), "recompute=%s", recompute_word((enum recompute_mode)mode));
    }
}

void remedy_ladder_micro_batch(const struct scenario *scenario, bool fewer_samples, struct remedy_ladder *ladder)
{
    const struct plan *plan = &scenario->plan;
    int64_t of_replica = plan->micro_batch * plan->micro_batches, replicas = plan->global_batch / of_replica;
    *ladder = (struct remedy_ladder){ 0 };
    for (int64_t parts = 2; parts <= plan->micro_batch; parts++) {
        struct remedy_sets *sets;
        if (plan->micro_batch % parts == 0 && (sets = rung(ladder)) != NULL) {
            int64_t each = plan->micro_batch / parts;
            remedy_set(sets, "training.micro_batch=%" PRId64, each);
            remedy_set(sets, "training.global_batch=%" PRId64,
                       fewer_samples ? each * plan->micro_batches * replicas : plan->global_batch);
        }
    }
}

/* Settings of the old policy that mean the same in the new one and are not its defaults. */
static void keep_settings(const struct plan *plan, const struct memory_policy *from, const struct memory_policy *to,
                          struct remedy_sets *sets)
{
    for (uint32_t i = 0; i < from->parameter_count; i++) {
        const struct parameter *parameter = &from->parameters[i];
        int at = find_parameter(to, parameter->name);
        double value = plan->policy_parameters.value[i];
        bool is_kept = at >= 0 && to->parameters[at].type == parameter->type &&
                       fabs(to->parameters[at].fallback - parameter->fallback) <= 0 &&
                       fabs(value - parameter->fallback) > 0 && sets->count < KEPT_SETS_MAX;
        if (is_kept && parameter->type == PARAMETER_WORD) {
            remedy_set(sets, "memory_policy.%s=%s", parameter->name, parameter->words[(int)value]);
        } else if (is_kept && parameter->type == PARAMETER_BOOL) {
            remedy_set(sets, "memory_policy.%s=%s", parameter->name, value > 0.5 ? "true" : "false");
        } else if (is_kept) {
            remedy_set(sets, "memory_policy.%s=%.12g", parameter->name, value);
        }
    }
}

/* The ZeRO stage that a policy asks for. */
static int64_t zero_stage_of(const struct plan *plan, const char *policy)
{
    bool shards_weights = strcmp(policy, "zero3-offload") == 0 || strcmp(policy, "zero-infinity") == 0;
    bool shards_update = strcmp(policy, "zero-offload") == 0 && plan->data * plan->context > 1;
    if (shards_weights) {
        return 3;
    }
    return shards_update && (plan->zero_stage == 0 || plan->zero_stage == 3) ? 2 : plan->zero_stage;
}

void remedy_ladder_policy(const struct scenario *scenario, struct remedy_ladder *ladder)
{
    const struct plan *plan = &scenario->plan;
    const struct memory_policy *from = registry_policy(plan->policy, NULL);
    int at = 0;
    *ladder = (struct remedy_ladder){ .uneven = true };
    while (at < POLICIES && strcmp(POLICY_LADDER[at], plan->policy) != 0) {
        at++;
    }
    for (int next = at + 1; from != NULL && next < POLICIES; next++) {
        const struct memory_policy *to = registry_policy(POLICY_LADDER[next], NULL);
        int64_t stage = zero_stage_of(plan, POLICY_LADDER[next]);
        struct remedy_sets *sets = rung(ladder);
        remedy_set(sets, "memory_policy.name=%s", POLICY_LADDER[next]);
        if (stage != plan->zero_stage) {
            remedy_set(sets, "parallel.zero_stage=%" PRId64, stage);
        }
        keep_settings(plan, from, to, sets);
    }
    if (strcmp(plan->policy, POLICY_LADDER[POLICIES - 1]) == 0) {
        remedy_set(rung(ladder), "memory_policy.name=%s", plan->policy); /* drops its settings */
    }
}

void remedy_ladder_gpus(const struct scenario *scenario, struct remedy_ladder *ladder)
{
    const struct plan *plan = &scenario->plan;
    int64_t gpus = scenario->cluster.gpus, nodes = scenario->cluster.nodes;
    int64_t per_node = scenario->cluster.gpus_per_node, samples = plan->global_batch;
    *ladder = (struct remedy_ladder){ .uneven = true };
    if (plan->stage_replicas != NULL) {
        return; /* replicas of each stage are the scenario's own choice */
    }
    for (int64_t times = 2; ladder->count < REMEDY_RUNGS_MAX; times *= 2) {
        int64_t data = plan->data * times, wanted = gpus * times, servers = (wanted + per_node - 1) / per_node;
        if (wanted > PLAN_DEGREE_MAX) {
            return;
        }
        struct remedy_sets *sets = rung(ladder);
        remedy_set(sets, "gpus=%" PRId64, wanted);
        if (servers > nodes) {
            remedy_set(sets, "nodes=%" PRId64, servers);
        }
        remedy_set(sets, "parallel.data=%" PRId64, data);
        if (plan->zero_stage == 0 && strcmp(plan->policy, "zero-offload") == 0) {
            remedy_set(sets, "parallel.zero_stage=2");
        }
        if (samples % (plan->micro_batch * data) != 0) { /* a micro-batch for each, at least */
            remedy_set(sets, "training.global_batch=%" PRId64, plan->micro_batch * data);
        }
    }
}
