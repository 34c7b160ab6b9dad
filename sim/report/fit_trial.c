/* A scenario taken to whether it fits. */
#include "sim/report/fit_trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/engine/cost_table.h"
#include "sim/engine/exec_sim_spare.h"
#include "sim/exec.h"
#include "sim/plan/lower.h"
#include "sim/plan/policy_facts.h"
#include "sim/plan/scenario.h"
#include "sim/report/result.h"

/* What a trial owns while it runs. */
struct run {
    struct scenario scenario;
    struct schedule schedule;
    struct timeline timeline;
    struct cost_table costs;
    struct result result;
    struct policy_facts facts;
};

static void run_free(struct run *run)
{
    result_free(&run->result);
    cost_table_free(&run->costs);
    timeline_free(&run->timeline);
    schedule_free(&run->schedule);
    scenario_free(&run->scenario);
}

static double use_share(const struct fit_space *space)
{
    return space->capacity_bytes == UINT64_MAX || space->capacity_bytes == 0
               ? 0
               : (double)space->peak_bytes / (double)space->capacity_bytes;
}

static struct fit_space space_at_peak(const struct schedule *s, const struct timeline *timeline, uint32_t index)
{
    const struct sched_space *space = &s->spaces[index];
    const struct space_use *use = &timeline->spaces[index];
    struct fit_space at = {
        .present = true,
        .kind = (enum space_kind)space->kind,
        .capacity_bytes = space->capacity_bytes,
        .peak_bytes = use->peak_bytes,
        .peak_reserved_bytes = use->peak_reserved_bytes,
    };
    snprintf(at.name, sizeof at.name, "%s", sched_label(s, space->label));
    memcpy(at.by_class, use->at_peak_bytes, sizeof at.by_class);
    return at;
}

static uint64_t needed(const struct timeline *timeline, uint32_t space, bool reserved)
{
    const struct space_use *use = &timeline->spaces[space];
    return reserved && use->peak_reserved_bytes > use->peak_bytes ? use->peak_reserved_bytes : use->peak_bytes;
}

/* Peaks by kind, and the space that lacks most; its parent where both lack, for it is the parent that is bought. */
static void take_spaces(struct fit_trial *trial, const struct schedule *s, const struct timeline *timeline,
                        bool reserved)
{
    double most = 1;
    for (uint32_t i = 0; i < s->space_count; i++) {
        struct fit_space at = space_at_peak(s, timeline, i);
        struct fit_space *fullest = &trial->fullest[at.kind];
        if (!fullest->present || use_share(&at) > use_share(fullest) ||
            (fullest->peak_bytes == 0 && at.peak_bytes > 0)) {
            *fullest = at;
        }
        uint32_t parent = s->spaces[i].parent;
        bool parent_lacks =
            parent != SCHED_NONE && needed(timeline, parent, reserved) > s->spaces[parent].capacity_bytes;
        double share = (double)needed(timeline, i, reserved) / (double)at.capacity_bytes;
        if (share > most && !parent_lacks) {
            trial->full = at;
            trial->needed_bytes = needed(timeline, i, reserved);
            most = share;
        }
    }
}

static enum status take_figures(struct fit_trial *trial, struct run *run, struct error *error)
{
    const struct result_input input = {
        .name = run->scenario.name,
        .schedule = &run->schedule,
        .timeline = &run->timeline,
        .cluster = &run->scenario.cluster,
        .software = &run->scenario.software,
        .costs = &run->costs,
        .precision = run->scenario.plan.precision,
    };
    TRY(result_compute(&run->result, &input, error));
    const struct result *result = &run->result;
    trial->simulated = result->complete;
    trial->step_time_s = result->step_time_s;
    trial->samples_per_s = result->samples_per_s;
    trial->tokens_per_s = result->tokens_per_s;
    trial->tokens_per_s_per_gpu = result->tokens_per_s_per_gpu;
    trial->model_tflops_per_gpu = result->model_tflops_per_gpu;
    trial->mfu = result->mfu;
    return STATUS_OK;
}

static void keep_reason(struct fit_trial *trial, const char *text)
{
    snprintf(trial->reason, sizeof trial->reason, "%s", text != NULL ? text : "");
}

/* Some space is fuller than it is large when nobody waits: whether it fits with waiting. Leaves the figures' timeline in run->timeline. */
static enum status run_for_real(struct fit_trial *trial, struct run *run, const struct exec_options *options,
                                struct error *error)
{
    struct timeline tight = { 0 };
    TRY(exec_sim.run(&run->schedule, options, &tight, error));
    if (tight.outcome == TIMELINE_DONE) {
        timeline_free(&run->timeline);
        run->timeline = tight;
        trial->verdict = FIT_FITS;
        return STATUS_OK;
    }
    struct strbuf why = { 0 };
    timeline_explain(&run->schedule, &tight, &why);
    keep_reason(trial, why.text);
    trial->verdict = FIT_TOO_BIG;
    strbuf_free(&why);
    timeline_free(&tight);
    return STATUS_OK;
}

/* It ran, but the allocator model would hold more than there is. */
static void refuse_fragmented(struct fit_trial *trial)
{
    char held[32], capacity[32];
    if (trial->verdict == FIT_FITS && trial->full.present) {
        trial->verdict = FIT_TOO_BIG;
        snprintf(trial->reason, sizeof trial->reason, "fragmentation of %s: the allocator model would hold %s of %s",
                 trial->full.name, text_bytes((double)trial->needed_bytes, held, sizeof held),
                 text_bytes((double)trial->full.capacity_bytes, capacity, sizeof capacity));
    }
}

static enum status simulate(struct fit_trial *trial, struct run *run, bool reserved, struct error *error)
{
    const struct exec_options options = {
        .cluster = &run->scenario.cluster, .software = &run->scenario.software, .audit = true, .costs = &run->costs
    };
    TRY(exec_sim_spare(&run->schedule, &options, &run->timeline, error));
    bool waits = false;
    for (uint32_t i = 0; i < run->schedule.space_count; i++) {
        waits = waits || run->timeline.spaces[i].peak_bytes > run->schedule.spaces[i].capacity_bytes;
    }
    trial->verdict = FIT_FITS;
    if (run->timeline.outcome != TIMELINE_DONE) { /* a deadlock has nothing to do with memory */
        struct strbuf why = { 0 };
        timeline_explain(&run->schedule, &run->timeline, &why);
        enum status status = error_set(error, STATUS_DEADLOCK, "%s", why.text != NULL ? why.text : "deadlock");
        strbuf_free(&why);
        return status;
    }
    if (waits) {
        TRY(run_for_real(trial, run, &options, error));
    }
    take_spaces(trial, &run->schedule, &run->timeline, reserved);
    refuse_fragmented(trial);
    return take_figures(trial, run, error);
}

static enum status prepare(struct fit_trial *trial, struct run *run, fit_trial_load *load, void *context,
                           struct error *error)
{
    TRY(load(context, &run->scenario, error));
    const struct scenario *scenario = &run->scenario;
    snprintf(trial->name, sizeof trial->name, "%s", scenario->model.name);
    snprintf(trial->machine, sizeof trial->machine, "%s", scenario->machine.name);
    snprintf(trial->policy, sizeof trial->policy, "%s", scenario->plan.policy);
    trial->parameters = model_parameters(&scenario->model);
    trial->micro_batch = scenario->plan.micro_batch;
    trial->global_batch = scenario->plan.global_batch;
    trial->gpus = scenario->cluster.gpus;
    struct lower_request request = {
        .model = &scenario->model,
        .cluster = &scenario->cluster,
        .software = &scenario->software,
        .plan = &scenario->plan,
        .facts = &run->facts,
    };
    TRY(lower_schedule(&request, &run->schedule, error));
    trial->ops = run->schedule.op_count;
    return STATUS_OK;
}

void fit_trial_take_lack(struct fit_trial *trial, const struct policy_lack *lack)
{
    if (lack->present) {
        trial->full = (struct fit_space){ .present = true,
                                          .kind = lack->kind,
                                          .capacity_bytes = (uint64_t)lack->has_bytes,
                                          .peak_bytes = (uint64_t)lack->needed_bytes };
        snprintf(trial->full.name, sizeof trial->full.name, "%s", lack->what);
        trial->needed_bytes = trial->full.peak_bytes;
    }
}

/* Errors that say something of this candidate and nothing of the others. */
static bool is_about_candidate(enum status status, enum fit_verdict *verdict)
{
    switch (status) {
    case STATUS_BAD_INPUT:
    case STATUS_NOT_FOUND:
    case STATUS_UNSUPPORTED:
    case STATUS_LIMIT: *verdict = FIT_REFUSED; return true;
    case STATUS_DOES_NOT_FIT: *verdict = FIT_TOO_BIG; return true;
    case STATUS_OK:
    case STATUS_NO_MEMORY:
    case STATUS_IO:
    case STATUS_DEADLOCK:
    case STATUS_BAD_SCHEDULE:
    case STATUS_BAD_TIMELINE:
    case STATUS_EXECUTION:
    case STATUS_COUNT: break;
    }
    return false;
}

enum status fit_trial_run_loaded(struct fit_trial *trial, fit_trial_load *load, void *context, bool reserved,
                                 struct error *error)
{
    struct run run;
    struct error own = { 0 };
    char text[ERROR_MESSAGE_BYTES + ERROR_FILE_BYTES + ERROR_PATH_BYTES];
    memset(&run, 0, sizeof run);
    *trial = (struct fit_trial){ 0 };
    enum status status = prepare(trial, &run, load, context, &own);
    if (status == STATUS_OK) {
        status = simulate(trial, &run, reserved, &own);
    }
    if (is_about_candidate(status, &trial->verdict)) {
        fit_trial_take_lack(trial, &run.facts.lack);
        keep_reason(trial, error_text(&own, text, sizeof text));
        status = STATUS_OK;
    } else if (status != STATUS_OK && error != NULL) {
        *error = own;
    }
    run_free(&run);
    return status;
}

struct file_with_sets {
    const char *file;
    const char *const *sets;
    uint32_t set_count;
};

static enum status load_file(void *context, struct scenario *scenario, struct error *error)
{
    const struct file_with_sets *from = context;
    return scenario_load(scenario, from->file, from->sets, from->set_count, error);
}

enum status fit_trial_run(struct fit_trial *trial, const char *file, const char *const *sets, uint32_t set_count,
                          bool reserved, struct error *error)
{
    struct file_with_sets from = { file, sets, set_count };
    return fit_trial_run_loaded(trial, load_file, &from, reserved, error);
}

void fit_space_json(struct json_writer *w, const char *key, const struct fit_space *space)
{
    if (!space->present) {
        jw_null(w, key);
        return;
    }
    jw_object(w, key);
    jw_string(w, "name", space->name);
    jw_string(w, "space", space_kind_word(space->kind));
    if (space->capacity_bytes == UINT64_MAX) {
        jw_null(w, "capacity_bytes");
    } else {
        jw_uint(w, "capacity_bytes", space->capacity_bytes);
    }
    jw_uint(w, "peak_bytes", space->peak_bytes);
    jw_uint(w, "peak_reserved_bytes", space->peak_reserved_bytes);
    jw_object(w, "by_class");
    for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
        jw_uint(w, buffer_class_word((enum buffer_class)c), space->by_class[c]);
    }
    jw_end(w);
    jw_end(w);
}

void fit_full_json(struct json_writer *w, const struct fit_trial *trial)
{
    if (!trial->full.present) {
        jw_null(w, "full");
        return;
    }
    jw_object(w, "full");
    jw_string(w, "space", space_kind_word(trial->full.kind));
    jw_string(w, "device", trial->full.name);
    jw_uint(w, "capacity_bytes", trial->full.capacity_bytes);
    jw_uint(w, "needed_bytes", trial->needed_bytes);
    jw_uint(w, "live_bytes", trial->full.peak_bytes);
    jw_object(w, "by_class");
    for (uint32_t c = 0; c < BUFFER_CLASS_COUNT; c++) {
        jw_uint(w, buffer_class_word((enum buffer_class)c), trial->full.by_class[c]);
    }
    jw_end(w);
    jw_end(w);
}

void fit_trial_json(struct json_writer *w, const char *key, const struct fit_trial *trial)
{
    jw_object(w, key);
    jw_string(w, "model", trial->name);
    jw_int(w, "parameters", trial->parameters);
    jw_int(w, "micro_batch", trial->micro_batch);
    jw_int(w, "global_batch", trial->global_batch);
    jw_bool(w, "fits", trial->verdict == FIT_FITS);
    jw_string(w, "verdict", fit_verdict_word(trial->verdict));
    if (trial->reason[0] != '\0') {
        jw_string(w, "reason", trial->reason);
    }
    if (trial->simulated) {
        jw_real(w, "step_time_s", trial->step_time_s);
        jw_real(w, "samples_per_s", trial->samples_per_s);
        jw_real(w, "tokens_per_s", trial->tokens_per_s);
        jw_real(w, "tokens_per_s_per_gpu", trial->tokens_per_s_per_gpu);
        jw_real(w, "model_tflops_per_gpu", trial->model_tflops_per_gpu);
        jw_real(w, "mfu", trial->mfu);
        jw_array(w, "fullest");
        for (uint32_t k = 0; k < SPACE_KIND_COUNT; k++) {
            if (trial->fullest[k].present && trial->fullest[k].peak_bytes > 0) {
                fit_space_json(w, NULL, &trial->fullest[k]);
            }
        }
        jw_end(w);
    }
    jw_end(w);
}
